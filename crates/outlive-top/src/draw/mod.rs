//! Drawing: the list, the output of a job, the line of keys below.

mod help;
mod list;
mod machines;
mod output;

use outlive::duration::format_duration;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::Style;

use crate::app::{App, Page, Prompt};
use crate::jobs::Row;

/// The first row of the list: above it are the title and the names of the columns.
pub(crate) const LIST_TOP: u16 = 2;

/// Rows that are neither list nor output: title, names of columns, the line between, keys.
const FRAME_ROWS: u16 = 4;

/// A list of fewer jobs is no shorter.
const SHORTEST_LIST: u16 = 5;

/// Smaller windows show the list alone, without output below.
const LEAST_FOR_OUTPUT: u16 = 14;

/// Returns the number of rows that the list has in a window: half of them at most.
pub(crate) fn list_height(area: Rect, jobs: usize) -> u16 {
    let room = area.height.saturating_sub(FRAME_ROWS);
    if area.height < LEAST_FOR_OUTPUT {
        return (room + 1).min(area.height.saturating_sub(LIST_TOP));
    }
    u16::try_from(jobs).unwrap_or(u16::MAX).clamp(SHORTEST_LIST, room / 2)
}

/// Draws everything.
pub(crate) fn page(app: &mut App, buffer: &mut Buffer) {
    let area = buffer.area;
    if area.width < 20 || area.height < 4 {
        put(buffer, 0, 0, area.width, "too small", Style::new());
        return;
    }
    match app.page {
        Page::List => {
            title(app, buffer);
            let height = list_height(area, app.jobs.shown_count());
            list::draw(app, buffer, Rect::new(0, LIST_TOP - 1, area.width, height + 1));
            if area.height >= LEAST_FOR_OUTPUT {
                let rows = app.machines.rows();
                let (top, height) = (LIST_TOP + height, machines::height(area, &rows));
                machines::draw(app, buffer, Rect::new(0, top, area.width, height), &rows);
                let top = top + height;
                output::draw(app, buffer, Rect::new(0, top, area.width, area.height - 1 - top));
            }
        }
        Page::Job => {
            details(app, buffer);
            output::draw(app, buffer, Rect::new(0, 2, area.width, area.height - 3));
        }
    }
    bottom(app, buffer);
    if app.is_help {
        help::draw(app.theme, buffer);
    }
}

/// Writes a text into so many columns; returns the column after it.
fn put(buffer: &mut Buffer, x: u16, y: u16, width: u16, text: &str, style: Style) -> u16 {
    if x >= buffer.area.width || y >= buffer.area.height {
        return x;
    }
    buffer.set_stringn(x, y, text, width.into(), style).0
}

/// Writes a text that ends at a column.
fn put_right(buffer: &mut Buffer, end: u16, y: u16, text: &str, style: Style) {
    let width = u16::try_from(unicode_width::UnicodeWidthStr::width(text)).unwrap_or(u16::MAX);
    put(buffer, end.saturating_sub(width), y, width, text, style);
}

/// Counts jobs for the title.
fn title(app: &App, buffer: &mut Buffer) {
    let (theme, width) = (app.theme, buffer.area.width);
    let x = put(buffer, 1, 0, width, "outlive", theme.accent().patch(theme.strong()));
    let rows = app.jobs.rows();
    let live = rows.iter().filter(|row| row.state.is_live()).count();
    let asking = rows.iter().filter(|row| row.asks());
    let mut parts = vec![format!("{live} live")];
    parts.extend(Some(asking.count()).filter(|&count| count > 0).map(|count| format!("{count} asking")));
    parts.push(format!("{} ended", rows.len() - live));
    let damaged = app.jobs.damaged;
    parts.extend((damaged > 0).then(|| format!("{damaged} damaged")));
    let marks = app.jobs.mark_count();
    parts.extend((marks > 0).then(|| format!("{marks} marked")));
    put(buffer, x + 2, 0, width, &parts.join(" · "), Style::new());
    let mut right = Vec::new();
    if !app.jobs.filter().is_empty() {
        right.push(format!("filter {:?}: {}", app.jobs.filter(), app.jobs.shown_count()));
    }
    right.extend(app.options.session.as_ref().map(|session| format!("session {session}")));
    put_right(buffer, width.saturating_sub(1), 0, &right.join("  "), theme.accent());
}

/// What is known of the chosen job, in two rows.
fn details(app: &App, buffer: &mut Buffer) {
    let (theme, width) = (app.theme, buffer.area.width);
    let Some(row) = app.jobs.chosen() else { return };
    let x = put(buffer, 1, 0, width, row.job.id().as_str(), theme.accent().patch(theme.strong()));
    let x = put(buffer, x + 2, 0, width, &row.state.summary(), theme.status(row.state.status));
    put(buffer, x + 2, 0, width.saturating_sub(x + 2), &facts(row).join("  "), Style::new());
    let command = outlive::one_line(&row.job.spec().command_line());
    put(buffer, 1, 1, width.saturating_sub(2), &command, theme.faint());
}

fn facts(row: &Row) -> Vec<String> {
    let mut facts: Vec<String> = row.state.runtime_ms().map(format_duration).into_iter().collect();
    if row.state.is_live() {
        let figures = &row.figures;
        facts.extend(figures.cpu.back().map(|percent| format!("cpu {percent}%")));
        facts.extend(figures.memory.map(|bytes| format!("memory {}", list::short_size(bytes))));
        facts.extend(figures.processes.map(|count| match count {
            1 => "1 process".to_owned(),
            count => format!("{count} processes"),
        }));
        facts.extend(
            (!figures.ports.is_empty()).then(|| format!("port {}", list::ports(&figures.ports, usize::MAX))),
        );
    } else {
        facts.extend(outlive::reason(&row.state));
    }
    facts
}

/// The last row: a question, what happened, or the keys.
fn bottom(app: &App, buffer: &mut Buffer) {
    let (theme, width, y) = (app.theme, buffer.area.width, buffer.area.height - 1);
    let ask = |buffer: &mut Buffer, label: &str, text: &str| {
        let x = put(buffer, 1, y, width, label, theme.accent());
        // Of a long text the end is shown, where it is typed.
        let room = usize::from(width.saturating_sub(x + 2));
        let skipped = text.chars().count().saturating_sub(room);
        let shown: String = text.chars().skip(skipped).collect();
        let x = put(buffer, x, y, width, &shown, Style::new());
        put(buffer, x, y, 1, " ", theme.chosen());
    };
    match (&app.prompt, &app.message) {
        (Some(Prompt::Filter(text)), _) => ask(buffer, "filter: ", text),
        (Some(Prompt::Find(text)), _) => ask(buffer, "find: ", text),
        (Some(Prompt::Confirm(_, question)), _) => {
            let room = width.saturating_sub(12);
            let x = put(buffer, 1, y, room, question, theme.alert());
            put(buffer, x, y, 10, "  y / n", theme.strong());
        }
        (None, Some(message)) => {
            let style = if message.is_failure { theme.alert() } else { theme.accent() };
            put(buffer, 1, y, width.saturating_sub(2), &outlive::one_line(&message.text), style);
        }
        (None, None) => keys(app, buffer, y),
    }
}

/// The keys that are used most.
fn keys(app: &App, buffer: &mut Buffer, y: u16) {
    let has_ended = app.jobs.mark_count() == 0 && app.jobs.chosen().is_some_and(|row| !row.state.is_live());
    let has_terminal = app.jobs.chosen().is_some_and(|row| row.job.spec().options.pty);
    let is_selecting = app.log.as_ref().is_some_and(|(_, log)| log.selection.is_some());
    let mut hints: Vec<(&str, &str)> = match app.page {
        // One that has ended can be started again, and no more.
        Page::List if has_ended => {
            vec![("⏎", "open"), ("r", "restart"), ("␣", "mark"), ("/", "filter"), ("y", "copy")]
        }
        Page::List => {
            vec![("⏎", "open"), ("x", "kill"), ("p", "pause"), ("␣", "mark"), ("/", "filter"), ("y", "copy")]
        }
        Page::Job if is_selecting => vec![("j k", "select"), ("y", "copy"), ("esc", "stop")],
        Page::Job => vec![
            ("f", "follow"),
            ("/", "find"),
            ("n N", "next"),
            ("w", "wrap"),
            ("v", "select"),
            ("y", "copy"),
        ],
    };
    if has_terminal {
        hints.insert(1, ("a", "attach"));
    }
    // In a narrow window it would push help and the way out of view.
    if app.page == Page::List && !has_ended && buffer.area.width >= 100 {
        hints.insert(hints.len() - 3, ("r", "restart"));
    }
    hints.extend([("?", "help"), ("q", if app.page == Page::List { "leave" } else { "back" })]);
    let (theme, mut x) = (app.theme, 1);
    for (key, act) in hints {
        x = put(buffer, x, y, buffer.area.width, key, theme.accent());
        x = put(buffer, x + 1, y, buffer.area.width, act, theme.faint()) + 2;
    }
}
