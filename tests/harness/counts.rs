//! What the program `counts` writes, and whether a log is that.

/// Returns line `number` of a stream, `o` or `e`: as wide as asked for, or as its number needs.
pub fn line(stream: char, number: u64, width: usize) -> Vec<u8> {
    let mut line = format!("{stream} {number:09} ").into_bytes();
    // Another filler for each line: one that was taken from elsewhere does not fit.
    let filler = b'a' + u8::try_from(number % 26).unwrap_or(0);
    line.resize(line.len().max(width.saturating_sub(1)), filler);
    line.push(b'\n');
    line
}

/// Returns the last line of a stream, after so many.
pub fn end(stream: char, lines: u64) -> Vec<u8> {
    format!("{stream} end {lines:09}\n").into_bytes()
}

/// Returns how a line that was read is repeated.
pub fn echo(text: &[u8]) -> Vec<u8> {
    [b"i ", text, b"\n"].concat()
}

/// What one stream of a log was found to be.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Its whole numbered lines.
    pub lines: u64,
    /// The lines that were read and repeated, in order.
    pub echoes: Vec<String>,
    /// Its last line is there: nothing is missing.
    pub is_whole: bool,
}

/// Checks that this is what `counts` wrote to a stream, or the beginning of it.
///
/// # Errors
///
/// If it is not; the text says where.
pub fn check(bytes: &[u8], stream: char, width: usize) -> Result<Counted, String> {
    check_from(bytes, stream, width, 0)
}

/// Checks the same for what comes after something was lost: from its first whole line on, whichever that is.
///
/// # Errors
///
/// If it is not; the text says where.
pub fn check_after_loss(bytes: &[u8], stream: char, width: usize) -> Result<Counted, String> {
    let mut rest = bytes;
    // What is left of the line in which something was lost says nothing, and what was read has no number.
    while let Some(at) = rest.iter().position(|&byte| byte == b'\n') {
        rest = &rest[at + 1..];
        let digits = [format!("{stream} "), format!("{stream} end ")]
            .iter()
            .filter_map(|prefix| rest.strip_prefix(prefix.as_bytes())?.get(..9))
            .find_map(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        if let Some(first) = digits {
            return check_from(rest, stream, width, first);
        }
    }
    Ok(Counted::default())
}

fn check_from(bytes: &[u8], stream: char, width: usize, first: u64) -> Result<Counted, String> {
    let mut counted = Counted { lines: first, ..Counted::default() };
    let mut rest = bytes;
    while !rest.is_empty() {
        let at = bytes.len() - rest.len();
        let length = rest.iter().position(|&byte| byte == b'\n').map(|place| place + 1);
        let (found, is_cut) = (&rest[..length.unwrap_or(rest.len())], length.is_none());
        let next = line(stream, counted.lines, width);
        let last = end(stream, counted.lines);
        let fits = |wanted: &[u8]| if is_cut { wanted.starts_with(found) } else { wanted == found };
        let is_echo = stream == 'o' && (found.starts_with(b"i ") || (is_cut && found == b"i"));
        if counted.is_whole || !(is_echo || fits(&next) || fits(&last)) {
            let shown = String::from_utf8_lossy(&found[..found.len().min(80)]).into_owned();
            return Err(format!("byte {at} of stream {stream}, after line {}: {shown:?}", counted.lines));
        }
        if !is_cut && is_echo {
            counted.echoes.push(String::from_utf8_lossy(&found[2..found.len() - 1]).into_owned());
        } else if !is_cut && found == next {
            counted.lines += 1;
        } else if !is_cut {
            counted.is_whole = true;
        }
        rest = &rest[found.len()..];
    }
    Ok(counted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_is_told_from_the_whole_and_from_anything_else() {
        let mut whole: Vec<u8> = (0..3).flat_map(|number| line('o', number, 40)).collect();
        whole.extend(echo(b"17"));
        whole.extend(end('o', 3));
        for length in 0..whole.len() {
            assert!(!check(&whole[..length], 'o', 40).unwrap().is_whole, "{length}");
        }
        let checked = check(&whole, 'o', 40).unwrap();
        assert_eq!(checked, Counted { lines: 3, echoes: vec!["17".to_owned()], is_whole: true });
        for at in (0..120).chain(125..whole.len() - 1) {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            assert!(check(&damaged, 'o', 40).is_err(), "{at}");
            damaged.remove(at);
            assert!(check(&damaged, 'o', 40).is_err(), "{at}");
        }
        assert!(check(&[&whole[..], b"more"].concat(), 'o', 40).is_err());
        let checked = check_after_loss(&whole[20..], 'o', 40).unwrap();
        assert_eq!((checked.lines, checked.is_whole), (3, true));
        assert!(check_after_loss(&[&whole[20..80], &whole[125..]].concat(), 'o', 40).is_err());
        assert!(check(&whole, 'e', 40).is_err());
    }
}
