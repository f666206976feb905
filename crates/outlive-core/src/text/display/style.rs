//! Colours and styles of text, read from and written as the one control sequence that sets them (SGR).

use std::fmt::Write;

use crate::plain::parser::Csi;

/// How text looks. Text cannot be hidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Style {
    /// A bit for each of [`ATTRIBUTES`].
    attributes: u8,
    foreground: Colour,
    background: Colour,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Colour {
    #[default]
    Default,
    /// One of the 256 of the terminal's palette.
    Palette(u8),
    Rgb(u8, u8, u8),
}

/// The number that sets each attribute, and the one that ends it: bold, dim, italic, underlined, blinking, reversed, struck
/// through. Number 8, hidden, is not among them: what a job prints can be seen.
const ATTRIBUTES: [(u16, u16); 7] = [(1, 22), (2, 22), (3, 23), (4, 24), (5, 25), (7, 27), (9, 29)];

impl Style {
    /// Changes as the sequence says.
    pub(super) fn apply(&mut self, csi: &Csi) {
        let mut groups = csi.groups();
        while let Some(group) = groups.next() {
            let (number, subparameters) = (group[0], &group[1..]);
            match number {
                0 => *self = Self::default(),
                // `4:0` ends what `4:3`, a wavy line, began.
                4 if subparameters == [0] => self.attributes &= !(1 << 3),
                21 => self.attributes |= 1 << 3,
                30..=37 => self.foreground = Colour::Palette((number - 30) as u8),
                39 => self.foreground = Colour::Default,
                40..=47 => self.background = Colour::Palette((number - 40) as u8),
                49 => self.background = Colour::Default,
                90..=97 => self.foreground = Colour::Palette((number - 90 + 8) as u8),
                100..=107 => self.background = Colour::Palette((number - 100 + 8) as u8),
                38 | 48 | 58 => {
                    let mut next = || groups.next().map(|group| group[0]);
                    let Some(colour) = colour(subparameters, &mut next) else { continue };
                    match number {
                        38 => self.foreground = colour,
                        48 => self.background = colour,
                        // The colour of the line below the text.
                        _ => {}
                    }
                }
                _ => {
                    for (bit, (begin, end)) in ATTRIBUTES.into_iter().enumerate() {
                        if number == end {
                            self.attributes &= !(1 << bit);
                        } else if number == begin {
                            self.attributes |= 1 << bit;
                        }
                    }
                }
            }
        }
    }

    /// Writes the sequence that gives text this look, whatever it had before.
    pub(super) fn write(self, out: &mut String) {
        out.push_str("\x1b[0");
        for (bit, (begin, _)) in ATTRIBUTES.into_iter().enumerate() {
            if self.attributes & (1 << bit) != 0 {
                write!(out, ";{begin}").expect("writing to a string cannot fail");
            }
        }
        self.foreground.write(30, out);
        self.background.write(40, out);
        out.push('m');
    }
}

impl Colour {
    fn write(self, base: u16, out: &mut String) {
        match self {
            Self::Default => Ok(()),
            Self::Palette(number @ 0..=7) => write!(out, ";{}", base + u16::from(number)),
            Self::Palette(number @ 8..=15) => write!(out, ";{}", base + 60 + u16::from(number) - 8),
            Self::Palette(number) => write!(out, ";{};5;{number}", base + 8),
            Self::Rgb(red, green, blue) => write!(out, ";{};2;{red};{green};{blue}", base + 8),
        }
        .expect("writing to a string cannot fail");
    }
}

/// Reads a colour, as `38:2::1:2:3` or `38:5:1` with subparameters, or as `38;2;1;2;3` from the parameters that follow.
fn colour(subparameters: &[u16], next: &mut impl FnMut() -> Option<u16>) -> Option<Colour> {
    let rgb = |values: [u16; 3]| Colour::Rgb(values[0] as u8, values[1] as u8, values[2] as u8);
    match *subparameters {
        [5, number, ..] => Some(Colour::Palette(number as u8)),
        // With the number of a colour space, which is mostly empty, and without.
        [2, _, red, green, blue, ..] | [2, red, green, blue] => Some(rgb([red, green, blue])),
        [_, ..] => None,
        [] => match next()? {
            5 => Some(Colour::Palette(next()? as u8)),
            2 => Some(rgb([next()?, next()?, next()?])),
            _ => None,
        },
    }
}
