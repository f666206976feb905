//! What a program in a terminal is told of the mouse, in the form that it has asked for.

use serde::Deserialize;

/// Something was done with the mouse, at this cell; both numbers begin with 1.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mouse {
    row: u16,
    column: u16,
    button: Button,
    action: Action,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Button {
    Left,
    Middle,
    Right,
    /// None is held.
    None,
    WheelUp,
    WheelDown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    Press,
    Release,
    Move,
}

impl Mouse {
    /// Returns the bytes for a program that reports the mouse by these modes; `None` where it does not want to know.
    pub(super) fn bytes(self, mode: Option<u16>, encoding: Option<u16>) -> Option<Vec<u8>> {
        let is_wheel = matches!(self.button, Button::WheelUp | Button::WheelDown);
        let is_wanted = match (mode?, self.action) {
            (_, Action::Release) if is_wheel => false,
            (9, action) => action == Action::Press && !is_wheel,
            (1000, action) => action != Action::Move,
            (1002, Action::Move) => self.button != Button::None,
            (1002 | 1003, _) => true,
            _ => false,
        };
        let code = match self.button {
            Button::Left => 0,
            Button::Middle => 1,
            Button::Right => 2,
            Button::None => 3,
            Button::WheelUp => 64,
            Button::WheelDown => 65,
        };
        let code: u16 = code + if self.action == Action::Move { 32 } else { 0 };
        let (row, column) = (self.row.max(1), self.column.max(1));
        // Before 1006 a release does not say of which button.
        let old = if self.action == Action::Release { 3 } else { code };
        if !is_wanted {
            return None;
        }
        match encoding {
            Some(1006) => {
                let end = if self.action == Action::Release { 'm' } else { 'M' };
                Some(format!("\x1b[<{code};{column};{row}{end}").into_bytes())
            }
            Some(1015) => Some(format!("\x1b[{};{column};{row}M", old + 32).into_bytes()),
            None | Some(1005) => {
                // Places beyond have no byte of their own in the oldest form; as characters they end at 2015.
                let most = if encoding.is_none() { 223 } else { 2015 };
                let [column, row] = [column, row].map(|place| u32::from(place) + 32);
                let is_in = column.max(row) <= most + 32;
                let places = [u32::from(old) + 32, column, row];
                let text =
                    |number: u32| char::from_u32(number).map(String::from).unwrap_or_default().into_bytes();
                let each = |number: u32| match encoding {
                    None => vec![u8::try_from(number).unwrap_or(u8::MAX)],
                    Some(_) => text(number),
                };
                is_in.then(|| b"\x1b[M".iter().copied().chain(places.into_iter().flat_map(each)).collect())
            }
            // In pixels, which a page of text does not know.
            Some(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_told_what_it_asked_for_in_its_form() {
        let of = |button, action| Mouse { row: 5, column: 10, button, action };
        let (press, release) = (of(Button::Left, Action::Press), of(Button::Left, Action::Release));
        let (drag, hover) = (of(Button::Left, Action::Move), of(Button::None, Action::Move));
        assert_eq!(press.bytes(None, Some(1006)), None);
        assert_eq!(press.bytes(Some(1000), Some(1006)).as_deref(), Some(&b"\x1b[<0;10;5M"[..]));
        assert_eq!(release.bytes(Some(1000), Some(1006)).as_deref(), Some(&b"\x1b[<0;10;5m"[..]));
        assert_eq!(release.bytes(Some(1000), None).as_deref(), Some(&b"\x1b[M#*%"[..]));
        assert_eq!(press.bytes(Some(1002), Some(1015)).as_deref(), Some(&b"\x1b[32;10;5M"[..]));
        assert_eq!(release.bytes(Some(9), None), None);
        assert_eq!(drag.bytes(Some(1000), Some(1006)), None);
        assert_eq!(drag.bytes(Some(1002), Some(1006)).as_deref(), Some(&b"\x1b[<32;10;5M"[..]));
        assert_eq!(hover.bytes(Some(1002), Some(1006)), None);
        assert_eq!(hover.bytes(Some(1003), Some(1006)).as_deref(), Some(&b"\x1b[<35;10;5M"[..]));
        let wheel = of(Button::WheelDown, Action::Press);
        assert_eq!(wheel.bytes(Some(1000), Some(1006)).as_deref(), Some(&b"\x1b[<65;10;5M"[..]));
        let far = Mouse { column: 300, ..press };
        assert_eq!(far.bytes(Some(1000), None), None);
        assert_eq!(far.bytes(Some(1000), Some(1005)).as_deref(), Some("\x1b[M \u{14c}%".as_bytes()));
    }
}
