//! The output of a job: its lines, or what stands on its terminal.

use outlive::{JobScreen, Run, Stream};
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};

use super::{put, put_right};
use crate::app::{App, Page};
use crate::log::Log;
use crate::text::{self, Styled};
use crate::theme::Theme;

/// Draws a line with a name, and the output below it.
pub(super) fn draw(app: &mut App, buffer: &mut Buffer, area: Rect) {
    let (theme, is_page) = (app.theme, app.page == Page::Job);
    let id = app.jobs.chosen().map(|row| row.job.id().to_string());
    let (width, height) = (usize::from(area.width), usize::from(area.height.saturating_sub(1)));
    let mut right = String::new();
    let mut name = "output".to_owned();
    if let Some(log) = app.open_log() {
        // A job that was removed meanwhile shows what was read last, until the list is read again.
        log.read(width.saturating_sub(2), height).ok();
        if !log.shows_lines {
            name = "screen".to_owned();
        } else if is_page {
            right = place(log);
        }
    }
    if let Some(id) = id.filter(|_| !is_page) {
        name = format!("{id} · {name}");
    }
    rule(buffer, area, &name, &right, theme);
    let area = Rect::new(1, area.y + 1, area.width.saturating_sub(2), area.height.saturating_sub(1));
    match app.log.as_ref().map(|(_, log)| log) {
        Some(log) if log.shows_lines && log.lines.is_empty() => {
            let is_live = app.jobs.chosen().is_some_and(|row| row.state.is_live());
            let said = if is_live { "nothing was printed yet" } else { "it printed nothing" };
            put(buffer, area.x, area.y, area.width, said, theme.faint());
        }
        Some(log) if log.shows_lines => lines(buffer, area, log, theme),
        Some(Log { screen: Some(shown), .. }) => screen(buffer, area, shown, theme),
        _ => {}
    }
}

/// Says where in the log the lines are.
fn place(log: &Log) -> String {
    let mut parts = Vec::new();
    parts.extend(log.is_wrapped.then(|| "wrap".to_owned()));
    parts.extend(log.found.map(|line| format!("found in line {line}")));
    parts.push(match (log.is_followed(), log.lines.first(), log.lines.last()) {
        (true, ..) => "follow".to_owned(),
        (_, Some(first), Some(last)) => format!("lines {}–{}", first.number, last.number),
        _ => String::new(),
    });
    parts.join(" · ")
}

/// A line across the window, with a name at its left and something at its right.
fn rule(buffer: &mut Buffer, area: Rect, name: &str, right: &str, theme: Theme) {
    let (end, names) = (area.width.saturating_sub(2), theme.accent().remove_modifier(Modifier::DIM));
    put(buffer, 0, area.y, area.width, &"─".repeat(area.width.into()), theme.faint());
    put(buffer, 1, area.y, end, &format!(" {name} "), names);
    if !right.is_empty() {
        put_right(buffer, end, area.y, &format!(" {right} "), names);
    }
}

fn lines(buffer: &mut Buffer, area: Rect, log: &Log, theme: Theme) {
    let mut drawn: Vec<(Vec<Styled>, Style)> = Vec::new();
    for line in &log.lines {
        let mut styled = text::read(&line.text, theme);
        highlight(&mut styled, log, theme);
        let is_selected = log.selection.is_some_and(|selection| selection.range().contains(&line.number));
        let base = match (is_selected, line.lost_bytes > 0, line.stream) {
            (true, ..) => theme.chosen(),
            (_, true, _) => theme.alert(),
            // Its own colours say more.
            (.., Some(Stream::Stderr)) if styled.iter().all(|(_, style)| *style == Style::new()) => {
                theme.error_stream()
            }
            _ => Style::new(),
        };
        let rows = text::rows(&styled, area.width.into(), log.is_wrapped, log.left);
        drawn.extend(rows.into_iter().map(|row| (row.to_vec(), base)));
    }
    let surplus = drawn.len().saturating_sub(area.height.into());
    let skipped = if log.is_followed() { surplus } else { 0 };
    for (y, (row, base)) in (area.y..area.bottom()).zip(drawn.into_iter().skip(skipped)) {
        put_styled(buffer, area, y, &row, base);
    }
}

/// Writes characters with their looks.
fn put_styled(buffer: &mut Buffer, area: Rect, y: u16, row: &[Styled], base: Style) {
    let mut x = area.x;
    for part in row.chunk_by(|one, other| one.1 == other.1) {
        let text: String = part.iter().map(|(character, _)| character).collect();
        // What the row as a whole looks like comes last: a selection is seen whatever the colours are.
        x = put(buffer, x, y, area.right().saturating_sub(x), &text, part[0].1.patch(base));
    }
}

/// Marks what was searched for.
fn highlight(styled: &mut [Styled], log: &Log, theme: Theme) {
    let Some(pattern) = &log.search.include else { return };
    let text: String = styled.iter().map(|(character, _)| character).collect();
    let places: Vec<usize> = text.char_indices().map(|(place, _)| place).collect();
    for found in pattern.find_iter(text.as_bytes()) {
        for ((_, style), place) in styled.iter_mut().zip(&places) {
            if found.range().contains(place) {
                *style = style.patch(theme.found());
            }
        }
    }
}

/// What stands on the terminal of a job; of a larger one the part where the cursor is.
fn screen(buffer: &mut Buffer, area: Rect, shown: &JobScreen, theme: Theme) {
    let object = shown.screen().object(false);
    let pan =
        |cursor: u16, size: u16, window: u16| cursor.saturating_sub(window).min(size.saturating_sub(window));
    let top = pan(object.cursor.row, object.size.rows(), area.height);
    let left = pan(object.cursor.column, object.size.columns(), area.width);
    let rows = shown.screen().rows();
    for (y, runs) in (area.y..area.bottom()).zip(rows.iter().skip(top.into())) {
        let row: Vec<Styled> = runs.iter().flat_map(|run| look(run, theme)).collect();
        if let Some(part) = text::rows(&row, area.width.into(), false, left.into()).first() {
            put_styled(buffer, area, y, part, Style::new());
        }
    }
    let (row, column) =
        (object.cursor.row.saturating_sub(1 + top), object.cursor.column.saturating_sub(1 + left));
    if object.cursor.visible && row < area.height && column < area.width {
        let place = Rect::new(area.x + column, area.y + row, 1, 1);
        buffer.set_style(place, Style::new().add_modifier(Modifier::REVERSED));
    }
}

/// Characters of a screen with their looks.
fn look(run: &Run, theme: Theme) -> Vec<Styled> {
    let mut style = Style::new();
    let source = &run.style;
    for (is_on, modifier) in [
        (source.bold, Modifier::BOLD),
        (source.dim, Modifier::DIM),
        (source.italic, Modifier::ITALIC),
        (source.inverse, Modifier::REVERSED),
        (source.strikeout, Modifier::CROSSED_OUT),
        (source.underline != Default::default(), Modifier::UNDERLINED),
    ] {
        if is_on {
            style = style.add_modifier(modifier);
        }
    }
    if theme.is_coloured {
        style = style.fg(color(source.foreground)).bg(color(source.background));
    }
    let character = |character: char| (if source.hidden { ' ' } else { character }, style);
    run.text.chars().map(character).collect()
}

fn color(color: outlive::Color) -> Color {
    match color {
        outlive::Color::Default => Color::Reset,
        outlive::Color::Palette(number) => Color::Indexed(number),
        outlive::Color::Rgb(red, green, blue) => Color::Rgb(red, green, blue),
    }
}
