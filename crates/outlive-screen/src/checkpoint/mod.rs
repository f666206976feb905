//! A screen as bytes, so that a reader of a long log need not begin at its first byte.
//!
//! `docs/on-disk-format.md` has the format. A checkpoint holds all that decides what later output does: fed with the rest, the
//! screen that is read from it becomes the one that was fed with everything. One that is damaged, or of another version of the
//! format or the emulator, is worthless and no loss: it is derived from the log.

mod bytes;
mod cells;

use alacritty_terminal::grid::Dimensions as _;
use alacritty_terminal::term::TermMode;
use alacritty_terminal::term::cell::Hyperlink;
use alacritty_terminal::vte::ansi::{
    CharsetIndex, CursorShape, CursorStyle, Handler as _, Mode, NamedMode, NamedPrivateMode, PrivateMode,
};
use outlive_core::checksum::crc32;
use outlive_core::terminal::size::TerminalSize;
use outlive_core::timestamp::Timestamp;

use crate::emulator::Emulator;
use crate::grids::Grids;
use crate::links::MAX_LINKS;
use crate::metadata::{MAX_STACK, Mark, Metadata};
use crate::screen::{Screen, Size};
use bytes::{Damaged, Reader, Writer};

const MAGIC: &[u8; 8] = b"olscreen";

/// Changes with the format, and with everything that makes the same bytes another screen.
const VERSION: u32 = 1;

/// Magic, version, checksum of what follows, offset, time.
const HEADER: usize = 32;

/// Longer than any checkpoint of a screen of the largest size can be.
const MAX_LENGTH: usize = 64 << 20;

/// The modes, by their bit. Those after them are [`PLAIN_MODES`], then the keypad.
const PRIVATE_MODES: [(TermMode, NamedPrivateMode); 13] = [
    (TermMode::SHOW_CURSOR, NamedPrivateMode::ShowCursor),
    (TermMode::APP_CURSOR, NamedPrivateMode::CursorKeys),
    (TermMode::MOUSE_REPORT_CLICK, NamedPrivateMode::ReportMouseClicks),
    (TermMode::MOUSE_DRAG, NamedPrivateMode::ReportCellMouseMotion),
    (TermMode::MOUSE_MOTION, NamedPrivateMode::ReportAllMouseMotion),
    (TermMode::FOCUS_IN_OUT, NamedPrivateMode::ReportFocusInOut),
    (TermMode::BRACKETED_PASTE, NamedPrivateMode::BracketedPaste),
    (TermMode::SGR_MOUSE, NamedPrivateMode::SgrMouse),
    (TermMode::UTF8_MOUSE, NamedPrivateMode::Utf8Mouse),
    (TermMode::ALTERNATE_SCROLL, NamedPrivateMode::AlternateScroll),
    (TermMode::URGENCY_HINTS, NamedPrivateMode::UrgencyHints),
    (TermMode::LINE_WRAP, NamedPrivateMode::LineWrap),
    (TermMode::ORIGIN, NamedPrivateMode::Origin),
];

const PLAIN_MODES: [(TermMode, NamedMode); 2] =
    [(TermMode::INSERT, NamedMode::Insert), (TermMode::LINE_FEED_NEW_LINE, NamedMode::LineFeedNewLine)];

const CHARSETS: [CharsetIndex; 4] = [CharsetIndex::G0, CharsetIndex::G1, CharsetIndex::G2, CharsetIndex::G3];

const SHAPES: [CursorShape; 3] = [CursorShape::Block, CursorShape::Underline, CursorShape::Beam];

const MARKS: [Mark; 4] = [Mark::Prompt, Mark::Input, Mark::Output, Mark::Ended];

/// Why a checkpoint cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// It is of another version.
    #[error("the checkpoint has version {0}, not {VERSION}")]
    Version(u32),
    /// It is not what was written.
    #[error("the checkpoint is damaged")]
    Damaged,
}

impl From<Damaged> for CheckpointError {
    fn from(_: Damaged) -> Self {
        Self::Damaged
    }
}

/// A screen at a place of the output.
#[derive(Debug)]
pub struct Checkpoint {
    /// How many bytes of output it has seen.
    pub offset: u64,
    /// The time of the last of them.
    pub time: Timestamp,
    /// The screen.
    pub screen: Screen,
}

impl Checkpoint {
    /// Reads a checkpoint.
    ///
    /// # Errors
    ///
    /// If it is damaged or of another version.
    pub fn read(bytes: &[u8]) -> Result<Self, CheckpointError> {
        let (offset, time) = Self::place(bytes)?;
        if bytes.len() > MAX_LENGTH || crc32(&bytes[16..]).to_le_bytes() != bytes[12..16] {
            return Err(CheckpointError::Damaged);
        }
        let mut reader = Reader(&bytes[HEADER..]);
        let emulator = read_emulator(&mut reader)?;
        if !reader.0.is_empty() {
            return Err(CheckpointError::Damaged);
        }
        Ok(Self { offset, time, screen: Screen::of(emulator) })
    }

    /// Reads offset and time from the first bytes alone, without checking the rest.
    ///
    /// # Errors
    ///
    /// If it is damaged or of another version.
    pub fn place(bytes: &[u8]) -> Result<(u64, Timestamp), CheckpointError> {
        let header = bytes.first_chunk::<HEADER>().ok_or(CheckpointError::Damaged)?;
        let number = |start: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&header[start..start + 8]);
            u64::from_le_bytes(number)
        };
        let version = number(8) as u32;
        if &header[..8] != MAGIC {
            return Err(CheckpointError::Damaged);
        }
        if version != VERSION {
            return Err(CheckpointError::Version(version));
        }
        Ok((number(16), Timestamp(number(24))))
    }
}

impl Screen {
    /// Returns a checkpoint after `offset` bytes of output; none within a character or sequence, nor of a screen with history.
    pub fn checkpoint(&mut self, offset: u64, time: Timestamp) -> Option<Vec<u8>> {
        if !self.is_at_ground() {
            return None;
        }
        let mut writer = Writer(vec![0; HEADER]);
        write_emulator(&mut self.emulator, &mut writer);
        let mut bytes = writer.0;
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&offset.to_le_bytes());
        bytes[24..32].copy_from_slice(&time.0.to_le_bytes());
        let checksum = crc32(&bytes[16..]);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        Some(bytes)
    }
}

fn place_of<T: PartialEq>(values: &[T], value: &T) -> u64 {
    values.iter().position(|known| known == value).unwrap_or(0) as u64
}

fn write_emulator(emulator: &mut Emulator, writer: &mut Writer) {
    writer.number(emulator.term.columns() as u64);
    writer.number(emulator.term.screen_lines() as u64);
    let mode = *emulator.term.mode();
    let flags = PRIVATE_MODES.iter().map(|(flag, _)| *flag).chain(PLAIN_MODES.iter().map(|(flag, _)| *flag));
    let bits = flags.chain([TermMode::APP_KEYPAD]).enumerate();
    writer.number(bits.map(|(bit, flag)| u64::from(mode.contains(flag)) << bit).sum());
    writer.number(emulator.scroll_region.0 as u64);
    writer.number(emulator.scroll_region.1 as u64);
    emulator.tab_stops.chunks(8).for_each(|stops| {
        writer.0.push(stops.iter().enumerate().map(|(bit, &is_set)| u8::from(is_set) << bit).sum());
    });
    writer.number(place_of(&CHARSETS, &emulator.charset));
    writer.option(emulator.last_character.map(u64::from));
    let style = emulator.term.cursor_style();
    writer.number(place_of(&SHAPES, &style.shape) << 1 | u64::from(style.blinking));
    write_metadata(&emulator.metadata, writer);
    writer.number(emulator.links.table.len() as u64);
    for link in &emulator.links.table {
        writer.text(link.id());
        writer.text(link.uri());
    }
    writer.number(u64::from(emulator.links.refused));

    let grids = Grids::take(&mut emulator.term);
    writer.number(u64::from(grids.is_alternate));
    cells::write(&grids.primary, true, &emulator.links.table, writer);
    cells::write(&grids.alternate, grids.is_alternate, &emulator.links.table, writer);
    grids.put(&mut emulator.term);
}

fn write_metadata(metadata: &Metadata, writer: &mut Writer) {
    let Metadata { title, titles, directory, mark, exit_code, keyboards, mouse_modes } = metadata;
    writer.optional_text(title.as_deref());
    writer.number(titles.len() as u64);
    titles.iter().for_each(|title| writer.optional_text(title.as_deref()));
    writer.optional_text(directory.as_deref());
    writer.option(mark.map(|mark| place_of(&MARKS, &mark)));
    writer.option(exit_code.map(|code| u64::from(code.cast_unsigned())));
    for stack in keyboards {
        writer.number(stack.len() as u64);
        writer.0.extend(stack);
    }
    writer.0.push(*mouse_modes);
}

fn read_emulator(reader: &mut Reader<'_>) -> Result<Emulator, Damaged> {
    let (columns, rows) = (reader.below(u16::MAX.into())?, reader.below(u16::MAX.into())?);
    let size = Size::from(TerminalSize::new(columns as u16, rows as u16));
    if (usize::from(size.columns), usize::from(size.rows)) != (columns, rows) {
        return Err(Damaged);
    }
    let mut emulator = Emulator::new(size, 0);
    read_modes(&mut emulator, reader)?;
    let (top, bottom) = (reader.below(rows)?, reader.below(rows + 1)?);
    // A region has two rows at least; the whole screen may have one.
    if top >= bottom {
        return Err(Damaged);
    }
    emulator.scroll_region = (top, bottom);
    emulator.term.set_scrolling_region(top + 1, Some(bottom));
    let stops = reader.bytes(columns.div_ceil(8))?;
    for (column, stop) in emulator.tab_stops.iter_mut().enumerate() {
        *stop = stops[column / 8] >> (column % 8) & 1 == 1;
    }
    emulator.place_tab_stops();
    emulator.set_active_charset(CHARSETS[reader.below(CHARSETS.len())?]);
    emulator.last_character = reader.option()?.map(bytes::character).transpose()?;
    let style = reader.below(SHAPES.len() << 1)?;
    let style = CursorStyle { shape: SHAPES[style >> 1], blinking: style & 1 == 1 };
    emulator.set_cursor_style(Some(style));
    emulator.metadata = read_metadata(reader)?;
    let count = reader.below(MAX_LINKS + 1)?;
    for _ in 0..count {
        let (id, address) = (reader.text()?, reader.text()?);
        emulator.links.table.push(Hyperlink::new(Some(id), address));
    }
    emulator.links.refused = u32::try_from(reader.number()?).map_err(|_| Damaged)?;

    let is_alternate = reader.below(2)? == 1;
    let primary = cells::read(size, true, &emulator.links.table, reader)?;
    let alternate = cells::read(size, is_alternate, &emulator.links.table, reader)?;
    Grids { primary, alternate, is_alternate }.put(&mut emulator.term);
    Ok(emulator)
}

fn read_modes(emulator: &mut Emulator, reader: &mut Reader<'_>) -> Result<(), Damaged> {
    let bits = reader.below(1 << (PRIVATE_MODES.len() + PLAIN_MODES.len() + 1))?;
    let is_on = |bit: usize| bits >> bit & 1 == 1;
    // Some modes switch others off, so all that are off come first.
    for turns_on in [false, true] {
        let due = |bit: &usize| is_on(*bit) == turns_on;
        for bit in (0..PRIVATE_MODES.len()).filter(due) {
            let mode = PrivateMode::Named(PRIVATE_MODES[bit].1);
            if turns_on {
                emulator.term.set_private_mode(mode)
            } else {
                emulator.term.unset_private_mode(mode)
            }
        }
    }
    for (place, (_, mode)) in PLAIN_MODES.into_iter().enumerate() {
        if is_on(PRIVATE_MODES.len() + place) {
            emulator.set_mode(Mode::Named(mode));
        }
    }
    if is_on(PRIVATE_MODES.len() + PLAIN_MODES.len()) {
        emulator.set_keypad_application_mode();
    }
    Ok(())
}

fn read_metadata(reader: &mut Reader<'_>) -> Result<Metadata, Damaged> {
    let title = reader.optional_text()?;
    let count = reader.below(MAX_STACK + 1)?;
    let titles = (0..count).map(|_| reader.optional_text()).collect::<Result<_, _>>()?;
    let directory = reader.optional_text()?;
    let mark = reader.option()?.map(|mark| MARKS.get(mark as usize).copied().ok_or(Damaged)).transpose()?;
    let exit_code = reader.option()?.map(|code| (code as u32).cast_signed());
    let mut keyboards: [Vec<u8>; 2] = Default::default();
    for stack in &mut keyboards {
        let depth = reader.below(MAX_STACK + 1)?;
        stack.extend(reader.bytes(depth)?);
    }
    let mouse_modes = reader.bytes(1)?[0];
    Ok(Metadata { title, titles, directory, mark, exit_code, keyboards, mouse_modes })
}
