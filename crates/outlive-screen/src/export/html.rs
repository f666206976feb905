//! A page of its own with the rows of a transcript, in their colours. It loads nothing and runs nothing.

use std::fmt::Write as _;

use outlive_core::terminal::palette::rgb;

use super::Transcript;
use crate::view::{Color, Run, Style, Underline};

/// Text and background where a program chose none.
const FOREGROUND: &str = "#e5e5e5";
const BACKGROUND: &str = "#000000";

/// Schemes that a link may have; a page is opened by people who did not see where its links lead.
const SCHEMES: [&str; 3] = ["http://", "https://", "mailto:"];

/// Returns the page.
pub fn html(mut transcript: Transcript) -> String {
    let title = escaped(transcript.title().unwrap_or("outlive"));
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{title}</title>\n<style>body {{ margin: 1em; background: {BACKGROUND}; color: {FOREGROUND} }} \
         pre {{ font: 14px/1.2 monospace }} a {{ color: inherit }}</style>\n</head>\n<body>\n<pre>"
    );
    for (runs, goes_on) in transcript.rows() {
        runs.iter().for_each(|run| push_run(run, &mut page));
        if !goes_on {
            page.push('\n');
        }
    }
    page.push_str("</pre>\n</body>\n</html>\n");
    page
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn push_run(run: &Run, page: &mut String) {
    let (text, css) = (escaped(&run.text), css(&run.style));
    let link = run.style.link.as_deref().filter(|link| SCHEMES.iter().any(|scheme| link.starts_with(scheme)));
    let written = match (link, css.as_str()) {
        (None, "") => write!(page, "{text}"),
        (None, css) => write!(page, "<span style=\"{css}\">{text}</span>"),
        (Some(link), css) => {
            write!(page, "<a href=\"{}\" rel=\"noreferrer\" style=\"{css}\">{text}</a>", escaped(link))
        }
    };
    written.expect("text takes all that is written");
}

fn color(color: Color, default: &str) -> String {
    let [red, green, blue] = match color {
        Color::Default => return default.to_owned(),
        Color::Palette(number) => rgb(number),
        Color::Rgb(red, green, blue) => [red, green, blue],
    };
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Returns the declarations of a style, none for the default.
fn css(style: &Style) -> String {
    // Bold brightens the first eight colours, as terminals do.
    let text = match style.foreground {
        Color::Palette(number @ 0..=7) if style.bold => Color::Palette(number + 8),
        other => other,
    };
    let (mut front, mut back) = (color(text, FOREGROUND), color(style.background, BACKGROUND));
    if style.inverse {
        std::mem::swap(&mut front, &mut back);
    }
    let mut css = String::new();
    let mut add = |is_on: bool, declaration: &str| {
        if is_on {
            css.push_str(declaration);
        }
    };
    add(front != FOREGROUND, &format!("color:{front};"));
    add(back != BACKGROUND, &format!("background:{back};"));
    add(style.bold, "font-weight:bold;");
    add(style.dim, "opacity:.6;");
    add(style.italic, "font-style:italic;");
    add(style.hidden, "visibility:hidden;");
    let line = match style.underline {
        Underline::None => "",
        Underline::Single => "underline",
        Underline::Double => "underline double",
        Underline::Curly => "underline wavy",
        Underline::Dotted => "underline dotted",
        Underline::Dashed => "underline dashed",
    };
    let lines = [line, if style.strikeout { "line-through" } else { "" }].join(" ");
    add(lines != " ", &format!("text-decoration:{};", lines.trim()));
    add(
        style.underline_color != Color::Default,
        &format!("text-decoration-color:{};", color(style.underline_color, "currentcolor")),
    );
    css
}
