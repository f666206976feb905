//! All keys, in a box over the page.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::Style;

use super::put;
use crate::theme::Theme;

/// The keys, in the order of their use; a row without keys is a heading.
const KEYS: &[(&str, &str)] = &[
    ("j k ↓ ↑", "down, up"),
    ("g G", "first, last"),
    ("C-d C-u", "half a page down, up; also page keys"),
    ("Enter", "output of the job; again or Esc: back"),
    ("Tab", "its terminal's screen, or its lines"),
    ("a", "attach to its terminal; C-\\ d comes back"),
    ("x  X", "kill; at once, without grace (both ask)"),
    ("p", "pause, or let go on"),
    ("r", "restart: end it and start it again (asks)"),
    ("Space", "mark: x X p r y are for all marked jobs"),
    ("/", "filter jobs; find in output (a pattern)"),
    ("n N", "next, previous match in output"),
    ("f", "follow output, or stay"),
    ("w", "wrap long lines; ← → move without"),
    ("v", "select lines, j k extend, y copies"),
    ("y", "copy: id, or the lines in view"),
    ("m", "mouse on, off"),
    ("C-l", "draw all again"),
    ("Esc", "undo filter, marks, selection"),
    ("q  C-c", "leave; jobs go on"),
];

/// How wide the keys are.
const KEY_WIDTH: u16 = 11;

pub(super) fn draw(theme: Theme, buffer: &mut Buffer) {
    let (width, height) = (60.min(buffer.area.width), (KEYS.len() as u16 + 2).min(buffer.area.height));
    let area = Rect::new((buffer.area.width - width) / 2, (buffer.area.height - height) / 2, width, height);
    for y in area.top()..area.bottom() {
        let (left, middle, right) = match y {
            y if y == area.top() => ("╭", "─", "╮"),
            y if y + 1 == area.bottom() => ("╰", "─", "╯"),
            _ => ("│", " ", "│"),
        };
        let row = format!("{left}{}{right}", middle.repeat(usize::from(width.saturating_sub(2))));
        buffer.set_style(Rect::new(area.x, y, width, 1), Style::reset());
        put(buffer, area.x, y, width, &row, theme.accent());
    }
    put(buffer, area.x + 2, area.y, width, " keys ", theme.accent().patch(theme.strong()));
    for (y, (keys, act)) in (area.y + 1..area.bottom().saturating_sub(1)).zip(KEYS) {
        put(buffer, area.x + 2, y, KEY_WIDTH, keys, theme.accent());
        let x = area.x + 2 + KEY_WIDTH;
        put(buffer, x, y, area.right().saturating_sub(x + 1), act, Style::new());
    }
}
