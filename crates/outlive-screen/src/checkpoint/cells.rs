//! A grid as bytes: its cursors, then runs of equal cells, row by row.

use alacritty_terminal::grid::{Cursor, Grid};
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::{Cell, Flags, Hyperlink};
use alacritty_terminal::vte::ansi::{Color, NamedColor, Rgb, StandardCharset};

use super::CHARSETS;
use super::bytes::{Damaged, Reader, Writer, character};
use crate::emulator::MAX_ZERO_WIDTH;
use crate::grids::cells;
use crate::screen::Size;

/// Bits of a run beside its length: attributes follow, else they are those of the run before; characters without width follow.
const HAS_STYLE: u64 = 1;
const HAS_ZERO_WIDTH: u64 = 2;

/// Where the kinds of colours begin: the two defaults come first, then 16 by name, 256 by number, the rest by light.
const NAMED: u64 = 2;
const INDEXED: u64 = NAMED + 16;
const SPECIFIC: u64 = INDEXED + 256;

/// The sixteen colours that have a name.
const NAMES: [NamedColor; 16] = [
    NamedColor::Black,
    NamedColor::Red,
    NamedColor::Green,
    NamedColor::Yellow,
    NamedColor::Blue,
    NamedColor::Magenta,
    NamedColor::Cyan,
    NamedColor::White,
    NamedColor::BrightBlack,
    NamedColor::BrightRed,
    NamedColor::BrightGreen,
    NamedColor::BrightYellow,
    NamedColor::BrightBlue,
    NamedColor::BrightMagenta,
    NamedColor::BrightCyan,
    NamedColor::BrightWhite,
];

/// Writes a grid; without cells if it is known to be blank.
pub(super) fn write(grid: &Grid<Cell>, has_cells: bool, links: &[Hyperlink], writer: &mut Writer) {
    // The cursor of a blank screen is set when that is entered.
    if has_cells {
        write_cursor(&grid.cursor, links, writer);
    }
    write_cursor(&grid.saved_cursor, links, writer);
    if !has_cells {
        return;
    }
    let mut before = Cell::default();
    let mut all = cells(grid).map(|(line, column)| &grid[line][column]).peekable();
    while let Some(cell) = all.next() {
        let mut length = 1;
        while all.next_if(|next| is_same(next, cell)).is_some() {
            length += 1;
        }
        write_run(length, cell, &before, links, writer);
        before = cell.clone();
    }
}

/// Reads a grid.
pub(super) fn read(
    size: Size,
    has_cells: bool,
    links: &[Hyperlink],
    reader: &mut Reader<'_>,
) -> Result<Grid<Cell>, Damaged> {
    let mut grid = Grid::new(usize::from(size.rows), usize::from(size.columns), 0);
    if has_cells {
        grid.cursor = read_cursor(size, links, reader)?;
    }
    grid.saved_cursor = read_cursor(size, links, reader)?;
    if !has_cells {
        return Ok(grid);
    }
    let mut places = cells(&grid);
    let mut left = usize::from(size.rows) * usize::from(size.columns);
    let mut before = Cell::default();
    while left > 0 {
        let (length, cell) = read_run(&before, links, reader)?;
        left = left.checked_sub(length).ok_or(Damaged)?;
        for (line, column) in places.by_ref().take(length) {
            grid[line][column] = cell.clone();
        }
        before = cell;
    }
    Ok(grid)
}

fn is_same(one: &Cell, other: &Cell) -> bool {
    one.c == other.c && has_same_style(one, other) && zero_width(one) == zero_width(other)
}

fn has_same_style(one: &Cell, other: &Cell) -> bool {
    let same_colors =
        one.fg == other.fg && one.bg == other.bg && one.underline_color() == other.underline_color();
    same_colors && one.flags == other.flags && one.hyperlink() == other.hyperlink()
}

fn zero_width(cell: &Cell) -> &[char] {
    cell.zerowidth().unwrap_or_default()
}

fn write_run(length: u64, cell: &Cell, before: &Cell, links: &[Hyperlink], writer: &mut Writer) {
    let has_style = !has_same_style(cell, before);
    let combining = zero_width(cell);
    let style_bit = if has_style { HAS_STYLE } else { 0 };
    let width_bit = if combining.is_empty() { 0 } else { HAS_ZERO_WIDTH };
    writer.number(length << 2 | style_bit | width_bit);
    writer.number(u64::from(cell.c));
    if has_style {
        write_style(cell, links, writer);
    }
    if !combining.is_empty() {
        writer.number(combining.len() as u64);
        combining.iter().for_each(|&character| writer.number(u64::from(character)));
    }
}

fn read_run(before: &Cell, links: &[Hyperlink], reader: &mut Reader<'_>) -> Result<(usize, Cell), Damaged> {
    let bits = reader.number()?;
    let length = usize::try_from(bits >> 2).ok().filter(|&length| length > 0).ok_or(Damaged)?;
    let mut cell = Cell { c: character(reader.number()?)?, ..Cell::default() };
    if bits & HAS_STYLE != 0 {
        read_style(&mut cell, links, reader)?;
    } else {
        (cell.fg, cell.bg, cell.flags) = (before.fg, before.bg, before.flags);
        cell.set_underline_color(before.underline_color());
        cell.set_hyperlink(before.hyperlink());
    }
    if bits & HAS_ZERO_WIDTH != 0 {
        let count = reader.below(MAX_ZERO_WIDTH + 1)?;
        for _ in 0..count {
            cell.push_zerowidth(character(reader.number()?)?);
        }
    }
    Ok((length, cell))
}

fn write_style(cell: &Cell, links: &[Hyperlink], writer: &mut Writer) {
    writer.number(u64::from(cell.flags.bits()));
    writer.number(color_number(cell.fg));
    writer.number(color_number(cell.bg));
    writer.option(cell.underline_color().map(color_number));
    let link = cell.hyperlink().and_then(|link| links.iter().position(|known| *known == link));
    writer.option(link.map(|place| place as u64));
}

fn read_style(cell: &mut Cell, links: &[Hyperlink], reader: &mut Reader<'_>) -> Result<(), Damaged> {
    let flags = u16::try_from(reader.number()?).ok().and_then(Flags::from_bits);
    cell.flags = flags.ok_or(Damaged)?;
    cell.fg = color(reader.number()?)?;
    cell.bg = color(reader.number()?)?;
    cell.set_underline_color(reader.option()?.map(color).transpose()?);
    let link = reader.option()?.map(|place| links.get(place as usize).cloned().ok_or(Damaged));
    cell.set_hyperlink(link.transpose()?);
    Ok(())
}

fn color_number(color: Color) -> u64 {
    match color {
        Color::Named(NamedColor::Background) => 1,
        Color::Named(name) => {
            NAMES.iter().position(|&known| known == name).map_or(0, |place| NAMED + place as u64)
        }
        Color::Indexed(number) => INDEXED + u64::from(number),
        Color::Spec(Rgb { r, g, b }) => SPECIFIC + u64::from(u32::from_be_bytes([0, r, g, b])),
    }
}

fn color(number: u64) -> Result<Color, Damaged> {
    Ok(match number {
        0 => Color::Named(NamedColor::Foreground),
        1 => Color::Named(NamedColor::Background),
        NAMED..INDEXED => Color::Named(NAMES[(number - NAMED) as usize]),
        INDEXED..SPECIFIC => Color::Indexed((number - INDEXED) as u8),
        _ => {
            let light = u32::try_from(number - SPECIFIC).map_err(|_| Damaged)?;
            let [0, r, g, b] = light.to_be_bytes() else { return Err(Damaged) };
            Color::Spec(Rgb { r, g, b })
        }
    })
}

fn write_cursor(cursor: &Cursor<Cell>, links: &[Hyperlink], writer: &mut Writer) {
    writer.number(u64::from(cursor.point.line.0.unsigned_abs()));
    writer.number(cursor.point.column.0 as u64);
    let charsets = CHARSETS.iter().enumerate().map(|(bit, &index)| {
        u64::from(cursor.charsets[index] == StandardCharset::SpecialCharacterAndLineDrawing) << bit
    });
    writer.number(charsets.sum::<u64>() << 1 | u64::from(cursor.input_needs_wrap));
    write_style(&cursor.template, links, writer);
}

fn read_cursor(size: Size, links: &[Hyperlink], reader: &mut Reader<'_>) -> Result<Cursor<Cell>, Damaged> {
    let mut cursor = Cursor::default();
    cursor.point.line = Line(reader.below(usize::from(size.rows))? as i32);
    cursor.point.column = Column(reader.below(usize::from(size.columns))?);
    let bits = reader.below(1 << (CHARSETS.len() + 1))?;
    cursor.input_needs_wrap = bits & 1 == 1;
    for (place, &index) in CHARSETS.iter().enumerate() {
        if bits >> (place + 1) & 1 == 1 {
            cursor.charsets[index] = StandardCharset::SpecialCharacterAndLineDrawing;
        }
    }
    read_style(&mut cursor.template, links, reader)?;
    Ok(cursor)
}
