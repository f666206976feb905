//! Viewers: connections whose front ends show the command's terminal to people, and the size that it has for them.

use outlive_core::terminal::size::{Sizing, TerminalSize};
use outlive_sys::clock;

use crate::start::Keeper;

/// What is known of a viewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Viewer {
    /// The size of its own terminal.
    pub(crate) size: TerminalSize,
    pub(crate) sizing: Sizing,
    /// When a person last typed there, or it came.
    pub(crate) used_us: u64,
}

/// Returns the size that suits the viewers; none if none of them minds.
fn fitting(viewers: impl Iterator<Item = Viewer> + Clone) -> Option<TerminalSize> {
    let minding = viewers.filter(|viewer| viewer.sizing != Sizing::Fixed);
    let last = minding.clone().max_by_key(|viewer| viewer.used_us)?;
    let smaller = |one: TerminalSize, other: Viewer| {
        TerminalSize::new(one.columns().min(other.size.columns()), one.rows().min(other.size.rows()))
    };
    Some(match last.sizing {
        Sizing::Smallest => minding.fold(last.size, smaller),
        Sizing::Latest | Sizing::Fixed => last.size,
    })
}

impl Keeper {
    /// Gives the terminal the size that suits its viewers, when that has changed; without viewers that mind, its own.
    pub(crate) fn fit_viewers(&mut self) {
        let fitting = fitting(self.clients.iter().filter_map(|client| client.viewer));
        let Some(terminal) = &mut self.terminal else { return };
        if fitting.is_none() && terminal.fitted_until_us.is_some_and(|until| clock::boot_us() < until) {
            return;
        }
        terminal.fitted_until_us = None;
        if terminal.fitted != fitting {
            terminal.fitted = fitting;
            let size = fitting.unwrap_or(terminal.own_size);
            self.set_size(size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_was_used_last_decides() {
        let viewer = |columns, rows, sizing, used_us| Viewer {
            size: TerminalSize::new(columns, rows),
            sizing,
            used_us,
        };
        let fits = |viewers: &[Viewer]| fitting(viewers.iter().copied()).map(|size| size.to_string());
        let (wide, tall) = (viewer(200, 20, Sizing::Latest, 1), viewer(80, 60, Sizing::Latest, 2));
        assert_eq!(fits(&[wide, tall]).as_deref(), Some("80x60"));
        assert_eq!(fits(&[Viewer { used_us: 3, ..wide }, tall]).as_deref(), Some("200x20"));
        assert_eq!(fits(&[wide, Viewer { sizing: Sizing::Smallest, ..tall }]).as_deref(), Some("80x20"));
        assert_eq!(fits(&[wide, Viewer { sizing: Sizing::Fixed, ..tall }]).as_deref(), Some("200x20"));
        assert_eq!(fits(&[Viewer { sizing: Sizing::Fixed, ..tall }]), None);
        assert_eq!(fits(&[]), None);
    }
}
