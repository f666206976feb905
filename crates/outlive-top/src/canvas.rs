//! From what is to be seen to what has to be written: only cells that differ from those on the terminal.

use std::fmt::Write;

use ratatui_core::buffer::{Buffer, Cell};
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier};

/// What stands on the terminal.
#[derive(Debug)]
pub(crate) struct Canvas {
    shown: Buffer,
    /// Nothing that stands on the terminal is known.
    is_new: bool,
}

impl Canvas {
    pub(crate) fn new((columns, rows): (u16, u16)) -> Self {
        Self { shown: Buffer::empty(Rect::new(0, 0, columns, rows)), is_new: true }
    }

    pub(crate) fn area(&self) -> Rect {
        self.shown.area
    }

    /// Returns what brings the terminal to what `paint` draws on an empty page; `None` if it shows that already.
    pub(crate) fn draw(&mut self, paint: impl FnOnce(&mut Buffer)) -> Option<String> {
        let mut next = Buffer::empty(self.shown.area);
        paint(&mut next);
        // In one step where the terminal knows how, and without a cursor that runs about.
        let mut text = String::from("\x1b[?2026h\x1b[?25l");
        if std::mem::replace(&mut self.is_new, false) {
            text.push_str("\x1b[0m\x1b[2J");
            self.shown = Buffer::empty(self.shown.area);
        } else if self.shown == next {
            return None;
        }
        let (mut place, mut look) = (None, None);
        for (column, row, cell) in self.shown.diff(&next) {
            if place != Some((column, row)) {
                push(&mut text, format_args!("\x1b[{};{}H", row + 1, column + 1));
            }
            // A character that is wider than its cell leaves the cursor elsewhere: the next one is placed anew.
            place = cell.symbol().is_ascii().then_some((column + 1, row));
            if look != Some((cell.fg, cell.bg, cell.modifier)) {
                look = Some((cell.fg, cell.bg, cell.modifier));
                push_look(&mut text, cell);
            }
            text.push_str(cell.symbol());
        }
        text.push_str("\x1b[0m\x1b[?2026l");
        self.shown = next;
        Some(text)
    }
}

fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("text takes all that is written");
}

fn push_look(text: &mut String, cell: &Cell) {
    text.push_str("\x1b[0");
    for (modifier, number) in [
        (Modifier::BOLD, ";1"),
        (Modifier::DIM, ";2"),
        (Modifier::ITALIC, ";3"),
        (Modifier::UNDERLINED, ";4"),
        (Modifier::REVERSED, ";7"),
        (Modifier::CROSSED_OUT, ";9"),
    ] {
        text.push_str(if cell.modifier.contains(modifier) { number } else { "" });
    }
    push_color(text, cell.fg, 30);
    push_color(text, cell.bg, 40);
    text.push('m');
}

/// Writes a colour; `base` is the number of black.
fn push_color(text: &mut String, color: Color, base: u8) {
    let number = match color {
        Color::Reset => return,
        Color::Indexed(number @ 0..16) => number,
        Color::Indexed(number) => return push(text, format_args!(";{};5;{number}", base + 8)),
        Color::Rgb(red, green, blue) => {
            return push(text, format_args!(";{};2;{red};{green};{blue}", base + 8));
        }
        Color::Black => 0,
        Color::Red => 1,
        Color::Green => 2,
        Color::Yellow => 3,
        Color::Blue => 4,
        Color::Magenta => 5,
        Color::Cyan => 6,
        Color::Gray => 7,
        Color::DarkGray => 8,
        Color::LightRed => 9,
        Color::LightGreen => 10,
        Color::LightYellow => 11,
        Color::LightBlue => 12,
        Color::LightMagenta => 13,
        Color::LightCyan => 14,
        Color::White => 15,
    };
    // The bright ones have numbers of their own.
    push(text, format_args!(";{}", if number < 8 { base + number } else { base + 60 + number - 8 }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui_core::style::Style;

    #[test]
    fn only_what_changed_is_written() {
        let mut canvas = Canvas::new((10, 2));
        let paint = |text: &'static str| {
            move |buffer: &mut Buffer| {
                buffer.set_string(0, 1, text, Style::new().fg(Color::Cyan));
            }
        };
        let first = canvas.draw(paint("abc")).unwrap();
        assert!(first.contains("\x1b[2J") && first.contains("\x1b[2;1H\x1b[0;36mabc"), "{first:?}");
        assert_eq!(canvas.draw(paint("abc")), None);
        let second = canvas.draw(paint("aXc")).unwrap();
        assert!(second.contains("\x1b[2;2H\x1b[0;36mX\x1b[0m"), "{second:?}");
    }

    #[test]
    fn bright_and_other_colours_have_their_numbers() {
        let mut text = String::new();
        for color in
            [Color::LightRed, Color::Indexed(9), Color::Indexed(200), Color::Rgb(1, 2, 3), Color::Reset]
        {
            push_color(&mut text, color, 40);
        }
        assert_eq!(text, ";101;101;48;5;200;48;2;1;2;3");
    }
}
