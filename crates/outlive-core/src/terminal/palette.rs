//! The 256 colours that a program can name by number, as xterm has them.

/// A colour: red, green, blue.
pub type Rgb = [u8; 3];

/// The sixteen named colours.
const NAMED: [Rgb; 16] = [
    [0x00, 0x00, 0x00],
    [0xcd, 0x00, 0x00],
    [0x00, 0xcd, 0x00],
    [0xcd, 0xcd, 0x00],
    [0x00, 0x00, 0xee],
    [0xcd, 0x00, 0xcd],
    [0x00, 0xcd, 0xcd],
    [0xe5, 0xe5, 0xe5],
    [0x7f, 0x7f, 0x7f],
    [0xff, 0x00, 0x00],
    [0x00, 0xff, 0x00],
    [0xff, 0xff, 0x00],
    [0x5c, 0x5c, 0xff],
    [0xff, 0x00, 0xff],
    [0x00, 0xff, 0xff],
    [0xff, 0xff, 0xff],
];

/// Returns a colour by its number: 16 names, a cube of 6 × 6 × 6, 24 greys.
pub fn rgb(number: u8) -> Rgb {
    let level = |step: u8| if step == 0 { 0 } else { 55 + 40 * step };
    match number {
        0..=15 => NAMED[usize::from(number)],
        16..=231 => {
            let place = number - 16;
            [level(place / 36), level(place / 6 % 6), level(place % 6)]
        }
        _ => [8 + 10 * (number - 232); 3],
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_cube_and_the_greys_are_those_of_xterm() {
        let colours = [16, 21, 196, 231, 232, 255].map(super::rgb);
        assert_eq!(colours, [[0; 3], [0, 0, 255], [255, 0, 0], [255; 3], [8; 3], [238; 3]]);
    }
}
