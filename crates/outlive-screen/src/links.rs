//! Hyperlinks (OSC 8), bounded in count and length: cells refer to the entries of one table.

use alacritty_terminal::term::cell::Hyperlink;

use crate::metadata::clean;

/// The most links on both screens and in what scrolled away. More than a page of `ls --hyperlink` has, and 1 MiB at most with [`MAX_ADDRESS`].
pub(crate) const MAX_LINKS: usize = 512;

/// The longest address, in bytes. It is what browsers and terminals take.
const MAX_ADDRESS: usize = 2048;

/// The longest name that a program gives to a link of several parts.
const MAX_ID: usize = 64;

/// The table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Links {
    pub(crate) table: Vec<Hyperlink>,
    /// Links that found the table full since it was last searched for links that are on no cell.
    pub(crate) refused: u32,
}

/// What became of a link.
pub(crate) enum Entry {
    Link(Hyperlink),
    /// The table is full: drop what is unused, then try again.
    Full,
    None,
}

impl Links {
    /// Reads what follows `8;`: settings, `;`, address.
    pub(crate) fn enter(&mut self, command: &[u8]) -> Entry {
        let Some(split) = command.iter().position(|&byte| byte == b';') else { return Entry::None };
        let (settings, address) = (&command[..split], &command[split + 1..]);
        if address.is_empty() || address.len() > MAX_ADDRESS {
            return Entry::None;
        }
        let id = settings.split(|&byte| byte == b':').find_map(|setting| setting.strip_prefix(b"id="));
        let link = Hyperlink::new(Some(clean(id.unwrap_or_default(), MAX_ID)), clean(address, MAX_ADDRESS));
        if let Some(known) = self.table.iter().rev().find(|known| **known == link) {
            return Entry::Link(known.clone());
        }
        if self.table.len() >= MAX_LINKS {
            self.refused = self.refused.wrapping_add(1);
            // A search of all cells is worth it once in a while.
            let is_worth_it = self.refused % MAX_LINKS as u32 == 1;
            return if is_worth_it { Entry::Full } else { Entry::None };
        }
        self.table.push(link.clone());
        Entry::Link(link)
    }

    /// Keeps the links that are used.
    pub(crate) fn retain(&mut self, is_used: impl Fn(&Hyperlink) -> bool) {
        self.table.retain(is_used);
        if self.table.len() < MAX_LINKS {
            self.refused = 0;
        }
    }
}
