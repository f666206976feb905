//! The jobs of other machines, below those of this one.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::Style;

use super::list::cut;
use super::put;
use crate::app::App;
use crate::machines::MachineRow;

/// The widest first column.
const WIDEST: usize = 30;

/// Returns how many rows they have in a window: a quarter of it at most.
pub(super) fn height(area: Rect, rows: &[MachineRow]) -> u16 {
    u16::try_from(rows.len()).unwrap_or(u16::MAX).min(area.height / 4)
}

/// Draws as many as fit; the last row says how many do not.
pub(super) fn draw(app: &App, buffer: &mut Buffer, area: Rect, rows: &[MachineRow]) {
    let widest = |texts: &mut dyn Iterator<Item = usize>| {
        u16::try_from(texts.max().unwrap_or(0).min(WIDEST)).unwrap_or(u16::MAX)
    };
    let names = widest(&mut rows.iter().map(|row| row.name.chars().count()));
    let words = widest(&mut rows.iter().filter(|row| !row.is_machine).map(|row| row.words.chars().count()));
    let room = usize::from(area.height);
    for (number, row) in rows.iter().take(room).enumerate() {
        let y = area.y + u16::try_from(number).unwrap_or(u16::MAX);
        if number + 1 == room && rows.len() > room {
            let text = format!("{} more: outlive list --host all", rows.len() - number);
            put(buffer, 2, y, area.width, &text, app.theme.faint());
            return;
        }
        let style = if row.is_machine { app.theme.accent() } else { Style::new() };
        put(buffer, 2, y, names, &cut(&row.name, names), style);
        let x = 2 + names + 2;
        if row.is_machine {
            put(buffer, x, y, area.width.saturating_sub(x), &row.words, app.theme.faint());
            continue;
        }
        put(buffer, x, y, words, &cut(&row.words, words), style);
        let x = x + words + 2;
        put(buffer, x, y, area.width.saturating_sub(x), &row.command, app.theme.faint());
    }
}
