//! A line of output as it is shown: with its colours, and with nothing else that a terminal would act on.

use outlive::Plain;
use ratatui_core::style::{Color, Modifier, Style};
use unicode_width::UnicodeWidthChar;

use crate::theme::Theme;

/// A character and how it looks; what has no width belongs to the character before it.
pub(crate) type Styled = (char, Style);

/// Longer lines are cut: they fill any screen.
const LONGEST: usize = 16 << 10;

/// Tab stops are where a terminal has them.
const TAB: usize = 8;

/// Reads a line. Of what was overwritten after a carriage return, as by a progress bar, only the last is left.
pub(crate) fn read(line: &[u8], theme: Theme) -> Vec<Styled> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let line = &line[line.iter().rposition(|&byte| byte == b'\r').map_or(0, |place| place + 1)..];
    let mut rest = &line[..line.len().min(LONGEST)];
    let (mut shown, mut style, mut column) = (Vec::new(), Style::new(), 0);
    while !rest.is_empty() {
        let (text, sequence, after) = split(rest);
        let mut plain = Vec::new();
        let mut stripper = Plain::new();
        stripper.push(text, &mut plain);
        stripper.finish(&mut plain);
        for character in String::from_utf8_lossy(&plain).chars() {
            let width = match character {
                '\t' => TAB - column % TAB,
                '\n' => 0,
                other => other.width().unwrap_or(0),
            };
            match character {
                '\t' => shown.extend(std::iter::repeat_n((' ', style), width)),
                '\n' => {}
                other => shown.push((other, style)),
            }
            column += width;
        }
        style = attributes(sequence, style, theme);
        rest = after;
    }
    shown
}

/// Splits bytes at the first sequence that sets attributes: the text before it, its parameters, and what comes after it.
fn split(bytes: &[u8]) -> (&[u8], &[u8], &[u8]) {
    let mut from = 0;
    while let Some(start) = bytes[from..].windows(2).position(|pair| pair == b"\x1b[").map(|at| at + from) {
        let parameters = &bytes[start + 2..];
        let length = parameters.iter().take_while(|byte| matches!(byte, b'0'..=b'9' | b';' | b':')).count();
        if parameters.get(length) == Some(&b'm') {
            return (&bytes[..start], &parameters[..length], &parameters[length + 1..]);
        }
        from = start + 2;
    }
    (bytes, b"22", b"")
}

/// Applies the parameters of a sequence that sets attributes.
fn attributes(parameters: &[u8], mut style: Style, theme: Theme) -> Style {
    let text = String::from_utf8_lossy(parameters).replace(':', ";");
    let mut numbers = text.split(';').map(|number| number.parse::<u8>().unwrap_or(0));
    while let Some(number) = numbers.next() {
        style = match number {
            0 => Style::new(),
            1 => style.add_modifier(Modifier::BOLD),
            2 => style.add_modifier(Modifier::DIM),
            3 => style.add_modifier(Modifier::ITALIC),
            4 => style.add_modifier(Modifier::UNDERLINED),
            7 => style.add_modifier(Modifier::REVERSED),
            9 => style.add_modifier(Modifier::CROSSED_OUT),
            22 => style.remove_modifier(Modifier::BOLD | Modifier::DIM),
            23 => style.remove_modifier(Modifier::ITALIC),
            24 => style.remove_modifier(Modifier::UNDERLINED),
            27 => style.remove_modifier(Modifier::REVERSED),
            29 => style.remove_modifier(Modifier::CROSSED_OUT),
            30..=37 => style.fg(Color::Indexed(number - 30)),
            40..=47 => style.bg(Color::Indexed(number - 40)),
            90..=97 => style.fg(Color::Indexed(number - 82)),
            100..=107 => style.bg(Color::Indexed(number - 92)),
            39 => style.fg(Color::Reset),
            49 => style.bg(Color::Reset),
            38 | 48 => {
                let color = match numbers.next() {
                    Some(5) => numbers.next().map(Color::Indexed),
                    Some(2) => match (numbers.next(), numbers.next(), numbers.next()) {
                        (Some(red), Some(green), Some(blue)) => Some(Color::Rgb(red, green, blue)),
                        _ => None,
                    },
                    _ => None,
                };
                match (color, number) {
                    (Some(color), 38) => style.fg(color),
                    (Some(color), _) => style.bg(color),
                    (None, _) => style,
                }
            }
            _ => style,
        };
    }
    if !theme.is_coloured {
        (style.fg, style.bg) = (None, None);
    }
    style
}

/// Cuts a line into rows of a width, or takes the one row from a column on.
pub(crate) fn rows(line: &[Styled], width: usize, is_wrapped: bool, left: usize) -> Vec<&[Styled]> {
    let mut rows = Vec::new();
    let mut rest = if is_wrapped { line } else { &line[fitting(line, left)..] };
    loop {
        let (row, after) = rest.split_at(fitting(rest, width));
        rows.push(row);
        // A character that is wider than the row would be tried for ever.
        if !is_wrapped || after.is_empty() || row.is_empty() {
            return rows;
        }
        rest = after;
    }
}

/// Counts the characters that fit into a width.
fn fitting(line: &[Styled], width: usize) -> usize {
    let mut used = 0;
    let fits = |(character, _): &&Styled| {
        used += character.width().unwrap_or(0);
        used <= width
    };
    line.iter().take_while(fits).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const THEME: Theme = Theme { is_coloured: true };

    fn text(line: &[Styled]) -> String {
        line.iter().map(|(character, _)| character).collect()
    }

    #[test]
    fn colours_stay_and_all_else_goes() {
        let line = read(b"a\x1b[1;31mb\x1b[0mc\x1b]0;title\x07\x1b[2Jd\x1b[38;5;200me\x1b[mf\x07", THEME);
        assert_eq!(text(&line), "abcdef");
        assert_eq!(line[1].1, Style::new().fg(Color::Indexed(1)).add_modifier(Modifier::BOLD));
        assert_eq!((line[3].1, line[4].1.fg), (Style::new(), Some(Color::Indexed(200))));
        assert_eq!(line[5].1, Style::new());
        let plain = read(b"\x1b[1;31mb", Theme { is_coloured: false });
        assert_eq!(plain[0].1, Style::new().add_modifier(Modifier::BOLD));
    }

    #[test]
    fn a_progress_bar_is_what_it_was_last() {
        assert_eq!(text(&read(b"10%\r55%\r\x1b[32m99%\r", THEME)), "99%");
        assert_eq!(text(&read(b"a\tb", THEME)), "a       b");
    }

    #[test]
    fn rows_break_where_the_width_is_used_up() {
        let line = read("ab世cd".as_bytes(), THEME);
        let wrapped: Vec<String> = rows(&line, 3, true, 0).into_iter().map(text).collect();
        assert_eq!(wrapped, ["ab", "世c", "d"]);
        assert_eq!(rows(&line, 3, false, 2).into_iter().map(text).collect::<Vec<_>>(), ["世c"]);
        assert_eq!(rows(&read("世".as_bytes(), THEME), 1, true, 0).len(), 1);
        assert_eq!(rows(&[], 3, true, 0).len(), 1);
    }
}
