//! The list: a row for each job, in columns that fit the window.

use outlive::duration::format_duration;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::Style;

use super::{put, put_right};
use crate::app::App;
use crate::figures::sparkline;
use crate::jobs::Row;

/// Between two columns.
const GAP: u16 = 2;

/// Windows of so many columns have room for more.
const WIDE: u16 = 120;

/// Where each column begins, and how wide it is.
struct Columns {
    job: (u16, u16),
    status: (u16, u16),
    time: (u16, u16),
    spark: (u16, u16),
    cpu: (u16, u16),
    memory: (u16, u16),
    ports: (u16, u16),
    session: Option<(u16, u16)>,
    command: (u16, u16),
}

impl Columns {
    fn new(width: u16, rows: &[&Row], has_sessions: bool) -> Self {
        let is_wide = width >= WIDE;
        let widest = |texts: &mut dyn Iterator<Item = usize>, least: u16, most: u16| {
            texts.max().and_then(|width| u16::try_from(width).ok()).unwrap_or(0).clamp(least, most)
        };
        let mut ids = rows.iter().map(|row| row.job.id().as_str().len());
        let mut words = rows.iter().map(|row| row.state.summary().chars().count());
        // Room for a mark.
        let mut next = 2;
        let mut column = |width: u16, gap: u16| {
            let place = (next, width);
            next += width + gap;
            place
        };
        let job = column(widest(&mut ids, 8, if is_wide { 30 } else { 16 }), GAP);
        let status = column(widest(&mut words, 9, if is_wide { 30 } else { 14 }), GAP);
        let time = column(7, GAP);
        let spark = column(if is_wide { 16 } else { 6 }, 1);
        let cpu = column(5, GAP);
        let memory = column(6, GAP);
        let ports = column(if is_wide { 11 } else { 5 }, GAP);
        let mut sessions = rows.iter().map(|row| row.job.session().as_str().len());
        let session = (is_wide && has_sessions).then(|| column(widest(&mut sessions, 7, 24), GAP));
        let command = column(0, 0).0;
        Self {
            job,
            status,
            time,
            spark,
            cpu,
            memory,
            ports,
            session,
            command: (command, width.saturating_sub(command + 1)),
        }
    }
}

/// Draws the names of the columns, and below them the jobs in view.
pub(super) fn draw(app: &mut App, buffer: &mut Buffer, area: Rect) {
    let theme = app.theme;
    let sessions = app.jobs.rows().iter().map(|row| row.job.session());
    let has_sessions = sessions.clone().zip(sessions.skip(1)).any(|(one, other)| one != other);
    if app.jobs.shown_count() == 0 {
        let text = match (app.jobs.rows().is_empty(), app.jobs.filter()) {
            (true, _) => "no jobs; start one with: outlive run 'LINE'".to_owned(),
            (false, filter) => format!("no job matches {filter:?}; Esc shows all"),
        };
        put(buffer, 2, area.y + 1, area.width.saturating_sub(3), &text, theme.faint());
        return;
    }
    let height = usize::from(area.height - 1);
    app.jobs.scroll(height);
    let rows = app.jobs.in_view(height);
    let columns = Columns::new(area.width, &rows, has_sessions);
    header(buffer, area.y, &columns, theme.faint());
    for (number, row) in rows.iter().enumerate() {
        let y = area.y + 1 + u16::try_from(number).unwrap_or(u16::MAX);
        let is_live = row.state.is_live();
        let usual = if is_live { Style::new() } else { theme.faint() };
        if app.jobs.has_mark(row.job.id()) {
            put(buffer, 0, y, 1, "●", theme.accent());
        }
        let (x, width) = columns.job;
        put(
            buffer,
            x,
            y,
            width,
            &cut(row.job.id().as_str(), width),
            if is_live { theme.strong() } else { usual },
        );
        let (x, width) = columns.status;
        put(buffer, x, y, width, &cut(&row.state.summary(), width), theme.status(row.state.status));
        let time = row.state.runtime_ms().map(format_duration).unwrap_or_default();
        right(buffer, y, columns.time, &time, usual);
        if is_live {
            live(buffer, y, &columns, row, theme.accent());
        }
        if let Some((x, width)) = columns.session {
            put(buffer, x, y, width, &cut(row.job.session().as_str(), width), usual);
        }
        let (x, width) = columns.command;
        put(buffer, x, y, width, &cut(&outlive::one_line(&row.job.spec().command_line()), width), usual);
        if app.jobs.top() + number == app.jobs.cursor() {
            buffer.set_style(Rect::new(0, y, area.width, 1), theme.chosen());
        }
    }
}

fn header(buffer: &mut Buffer, y: u16, columns: &Columns, style: Style) {
    for ((x, width), name) in [
        (columns.job, "JOB"),
        (columns.status, "STATUS"),
        (columns.ports, "PORTS"),
        (columns.session.unwrap_or_default(), "SESSION"),
        (columns.command, "COMMAND"),
    ] {
        put(buffer, x, y, width, name, style);
    }
    right(buffer, y, columns.time, "TIME", style);
    right(buffer, y, columns.cpu, "CPU", style);
    right(buffer, y, columns.memory, "MEMORY", style);
}

/// What only live jobs have.
fn live(buffer: &mut Buffer, y: u16, columns: &Columns, row: &Row, accent: Style) {
    let figures = &row.figures;
    let (x, width) = columns.spark;
    put(buffer, x, y, width, &sparkline(&figures.cpu, width.into()), accent);
    let cpu = figures.cpu.back().map(|percent| format!("{percent}%")).unwrap_or_default();
    right(buffer, y, columns.cpu, &cpu, Style::new());
    right(buffer, y, columns.memory, &figures.memory.map(short_size).unwrap_or_default(), Style::new());
    let (x, width) = columns.ports;
    put(buffer, x, y, width, &ports(&figures.ports, width.into()), Style::new());
}

fn right(buffer: &mut Buffer, y: u16, (x, width): (u16, u16), text: &str, style: Style) {
    put_right(buffer, x + width, y, text, style);
}

/// Writes a size in five columns at most: `812K`, `42M`, `1.2G`.
pub(super) fn short_size(bytes: u64) -> String {
    let (mut value, mut unit) = (bytes as f64 / 1024.0, 'K');
    for next in ['M', 'G', 'T'] {
        if value < 1000.0 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    let digits = usize::from(matches!(unit, 'G' | 'T') && value < 100.0);
    format!("{value:.digits$}{unit}")
}

/// Writes as many ports as fit; a plus says that there are more.
pub(super) fn ports(ports: &[u16], width: usize) -> String {
    let mut text = String::new();
    for (number, port) in ports.iter().enumerate() {
        let next = if text.is_empty() { port.to_string() } else { format!("{text},{port}") };
        let is_last = number + 1 == ports.len();
        if next.len() + usize::from(!is_last) > width && !text.is_empty() {
            return format!("{text}+");
        }
        text = next;
    }
    text
}

/// Cuts a text to a width, marking the cut.
pub(super) fn cut(text: &str, width: u16) -> String {
    let width = usize::from(width);
    if unicode_width::UnicodeWidthStr::width(text) <= width {
        return text.to_owned();
    }
    let mut used = 1;
    let fits = |character: &char| {
        used += unicode_width::UnicodeWidthChar::width(*character).unwrap_or(0);
        used <= width
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_five_columns() {
        for (bytes, text) in [
            (0, "0K"),
            (812 << 10, "812K"),
            (42 << 20, "42M"),
            (1 << 30, "1.0G"),
            (1023 << 20, "1.0G"),
            (300 << 30, "300G"),
        ] {
            assert_eq!(short_size(bytes), text);
        }
    }

    #[test]
    fn ports_that_do_not_fit_are_a_plus() {
        assert_eq!(ports(&[8123], 5), "8123");
        assert_eq!(ports(&[80, 443], 5), "80+");
        assert_eq!(ports(&[80, 443], 6), "80,443");
        assert_eq!(ports(&[3000, 3001, 3002], 11), "3000,3001+");
        assert_eq!(ports(&[], 5), "");
    }

    #[test]
    fn a_cut_is_marked() {
        assert_eq!(
            (cut("abc", 3), cut("abcd", 3), cut("世界x", 4)),
            ("abc".into(), "ab…".into(), "世…".into())
        );
    }
}
