//! What controls and sequences do to the page.

use super::page::{Cursor, Page};
use crate::plain::parser::{Csi, Sink};

impl Sink for Page {
    fn text(&mut self, ascii: &[u8]) {
        self.print_ascii(ascii);
    }

    fn character(&mut self, character: char) {
        self.print(character);
    }

    fn control(&mut self, control: u8) {
        match control {
            b'\n' => {
                self.line_feed();
                self.carriage_return();
            }
            b'\r' => self.carriage_return(),
            b'\t' => self.tab(),
            0x08 => self.backspace(),
            0x0b | 0x0c => self.line_feed(),
            0x0e => self.charset = 1,
            0x0f => self.charset = 0,
            _ => {}
        }
    }

    fn escape(&mut self, intermediate: u8, last: u8) {
        match (intermediate, last) {
            (0, b'c') => self.reset(),
            (0, b'7') => self.saved = self.cursor,
            (0, b'8') => self.cursor = self.saved,
            (0, b'D') => self.line_feed(),
            (0, b'E') => {
                self.line_feed();
                self.carriage_return();
            }
            (0, b'M') => self.reverse_line_feed(),
            (b'(', set) => self.cursor.draws_lines[0] = set == b'0',
            (b')', set) => self.cursor.draws_lines[1] = set == b'0',
            _ => {}
        }
    }

    fn csi(&mut self, csi: &Csi) {
        match (csi.private, csi.intermediate, csi.last) {
            (b'?', 0, b'h' | b'l') => {
                for &mode in csi.parameters() {
                    self.set_private_mode(mode, csi.last == b'h');
                }
            }
            (0, 0, b'h' | b'l') if csi.parameters().contains(&4) => self.inserts = csi.last == b'h',
            (0, 0, _) => self.edit(csi),
            _ => {}
        }
    }
}

impl Page {
    fn set_private_mode(&mut self, mode: u16, is_on: bool) {
        match mode {
            7 => self.wraps = is_on,
            47 | 1047 | 1049 => self.show_alternate(is_on),
            1048 if is_on => self.saved = self.cursor,
            1048 => self.cursor = self.saved,
            _ => {}
        }
    }

    fn edit(&mut self, csi: &Csi) {
        let Cursor { row, column, .. } = self.cursor;
        let count = csi.count(0);
        match csi.last {
            b'A' => self.move_to(row.saturating_sub(count), column),
            b'B' | b'e' => self.move_to(row + count, column),
            b'C' | b'a' => self.move_forward(count),
            b'D' => self.move_to_column(column.saturating_sub(count)),
            b'E' => self.move_to(row + count, 0),
            b'F' => self.move_to(row.saturating_sub(count), 0),
            b'G' | b'`' => self.move_to_column(count - 1),
            b'H' | b'f' => self.move_to(count - 1, csi.count(1) - 1),
            b'd' => self.move_to(count - 1, column),
            b'I' => self.tabs(count),
            b'Z' => self.tabs_back(count),
            b'J' => self.erase_display(csi.parameter(0)),
            b'K' => self.erase_line(csi.parameter(0)),
            b'X' => self.erase(column..column + count),
            b'@' => self.insert_columns(count),
            b'P' => self.delete_columns(count),
            b'L' => self.insert_rows(count),
            b'M' => self.delete_rows(count),
            b'S' => self.scroll_region_up(count),
            b'T' if csi.parameters().len() == 1 => self.scroll_region_down(count),
            b'b' => self.repeat(count),
            b'r' => {
                let bottom = match csi.parameter(1) {
                    0 => self.height(),
                    bottom => usize::from(bottom),
                };
                self.set_region(count - 1, bottom);
            }
            b's' => self.saved = self.cursor,
            b'u' => self.cursor = self.saved,
            _ => {}
        }
    }

    fn erase_line(&mut self, which: u16) {
        let Cursor { column, is_past_edge, .. } = self.cursor;
        match which {
            // The cursor is right of the last column then, although it is counted as in it.
            0 if is_past_edge => {}
            0 => self.erase(column..usize::MAX),
            1 => self.erase(0..column + 1),
            2 => self.erase(0..usize::MAX),
            _ => {}
        }
    }

    fn erase_display(&mut self, which: u16) {
        let Cursor { row, column, .. } = self.cursor;
        match which {
            0 => {
                self.erase(column..usize::MAX);
                self.erase_rows(row + 1..self.height());
            }
            1 => {
                self.erase_rows(0..row);
                self.erase(0..column + 1);
            }
            2 => self.erase_rows(0..self.height()),
            _ => {}
        }
    }
}
