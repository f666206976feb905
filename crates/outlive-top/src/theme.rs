//! Colours: one accent, the colours of states that `outlive list` has, and none at all where none are wanted.

use outlive::Status;
use ratatui_core::style::{Color, Modifier, Style};

/// What things look like. Without colours, bold, faint and reversed text says the same.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Theme {
    pub(crate) is_coloured: bool,
}

impl Theme {
    fn coloured(self, color: Color, otherwise: Modifier) -> Style {
        if self.is_coloured { Style::new().fg(color) } else { Style::new().add_modifier(otherwise) }
    }

    pub(crate) fn accent(self) -> Style {
        self.coloured(Color::Cyan, Modifier::BOLD)
    }

    pub(crate) fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(crate) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The row or line that keys act on.
    pub(crate) fn chosen(self) -> Style {
        match self.is_coloured {
            true => Style::new().fg(Color::Black).bg(Color::Cyan).remove_modifier(Modifier::DIM),
            false => Style::new().add_modifier(Modifier::REVERSED),
        }
    }

    /// What asks for an answer, or tells of a failure.
    pub(crate) fn alert(self) -> Style {
        self.coloured(Color::Red, Modifier::BOLD).add_modifier(Modifier::BOLD)
    }

    /// What was printed as an error.
    pub(crate) fn error_stream(self) -> Style {
        self.coloured(Color::Red, Modifier::empty())
    }

    /// What was searched for.
    pub(crate) fn found(self) -> Style {
        match self.is_coloured {
            true => Style::new().fg(Color::Black).bg(Color::Yellow),
            false => Style::new().add_modifier(Modifier::REVERSED),
        }
    }

    pub(crate) fn status(self, status: Status) -> Style {
        let color = match status {
            Status::Queued | Status::Starting | Status::Running => Color::Cyan,
            Status::Completed => Color::Green,
            Status::Failed | Status::Lost => Color::Red,
            Status::Killed | Status::TimedOut => Color::Yellow,
        };
        self.coloured(color, Modifier::empty())
    }
}
