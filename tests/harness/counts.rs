//! What the program `counts` writes, and a check that a log is that.

/// Returns line `number` of a stream, `o` or `e`: as wide as asked for, or as its number needs.
pub fn line(stream: char, number: u64, width: usize) -> Vec<u8> {
    let mut line = format!("{stream} {number:09} ").into_bytes();
    // Another filler for each line: a line from elsewhere does not fit.
    let filler = b'a' + u8::try_from(number % 26).unwrap_or(0);
    line.resize(line.len().max(width.saturating_sub(1)), filler);
    line.push(b'\n');
    line
}

/// Returns the last line of a stream, after this many lines.
pub fn end(stream: char, lines: u64) -> Vec<u8> {
    format!("{stream} end {lines:09}\n").into_bytes()
}

/// Returns how a line that was read is repeated.
pub fn echo(text: &[u8]) -> Vec<u8> {
    [b"i ", text, b"\n"].concat()
}

/// What the check of one stream found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Its whole numbered lines.
    pub lines: u64,
    /// The lines that were read and repeated, in order.
    pub echoes: Vec<String>,
    /// Its last line is there: nothing is missing.
    pub is_whole: bool,
}

/// Checks, piece by piece, that something is what `counts` wrote to a stream, or the beginning of it.
#[derive(Debug)]
pub struct Checker {
    stream: char,
    width: usize,
    counted: Counted,
    /// Where the unfinished line begins.
    at: usize,
    unfinished: Vec<u8>,
    /// Something was lost before: which line comes next is not known.
    is_adrift: bool,
}

impl Checker {
    /// Begins with the first byte of a stream.
    pub fn new(stream: char, width: usize) -> Self {
        let (counted, unfinished) = (Counted::default(), Vec::new());
        Self { stream, width, counted, at: 0, unfinished, is_adrift: false }
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    ///
    /// If they are not what comes next; the text says where.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        while let Some(end) = bytes.iter().position(|&byte| byte == b'\n') {
            self.unfinished.extend_from_slice(&bytes[..=end]);
            bytes = &bytes[end + 1..];
            let line = std::mem::take(&mut self.unfinished);
            self.line(&line)?;
            self.at += line.len();
        }
        self.unfinished.extend_from_slice(bytes);
        Ok(())
    }

    /// Notes that something was lost here.
    pub fn lose(&mut self) {
        // The rest of this line says nothing, nor does the beginning of the next.
        self.unfinished.clear();
        self.is_adrift = true;
    }

    fn line(&mut self, found: &[u8]) -> Result<(), String> {
        if self.is_adrift {
            let digits = [format!("{} ", self.stream), format!("{} end ", self.stream)]
                .iter()
                .filter_map(|prefix| found.strip_prefix(prefix.as_bytes())?.get(..9))
                .find_map(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
            match digits.filter(|&number| number >= self.counted.lines) {
                Some(number)
                    if found == line(self.stream, number, self.width)
                        || found == end(self.stream, number) =>
                {
                    (self.counted.lines, self.is_adrift) = (number, false);
                }
                // The end of a line that was cut, or a repeated line, which has no number.
                _ => return Ok(()),
            }
        }
        if !self.counted.is_whole {
            if self.stream == 'o' && found.starts_with(b"i ") {
                self.counted.echoes.push(String::from_utf8_lossy(&found[2..found.len() - 1]).into_owned());
                return Ok(());
            }
            if found == line(self.stream, self.counted.lines, self.width) {
                self.counted.lines += 1;
                return Ok(());
            }
            if found == end(self.stream, self.counted.lines) {
                self.counted.is_whole = true;
                return Ok(());
            }
        }
        Err(self.wrong(found))
    }

    fn wrong(&self, found: &[u8]) -> String {
        let shown = String::from_utf8_lossy(&found[..found.len().min(80)]).into_owned();
        format!("byte {} of stream {}, after line {}: {shown:?}", self.at, self.stream, self.counted.lines)
    }

    /// Ends it, and returns what it was.
    ///
    /// # Errors
    ///
    /// If what was begun last is not what comes next.
    pub fn finish(self) -> Result<Counted, String> {
        let found = self.unfinished.as_slice();
        let next = line(self.stream, self.counted.lines, self.width);
        let last = end(self.stream, self.counted.lines);
        let is_echo = self.stream == 'o' && (found.starts_with(b"i ") || found == b"i");
        let is_begun = is_echo || next.starts_with(found) || last.starts_with(found);
        match found.is_empty() || self.is_adrift || (is_begun && !self.counted.is_whole) {
            true => Ok(self.counted),
            false => Err(self.wrong(found)),
        }
    }
}

/// Checks that this is what `counts` wrote to a stream, or the beginning of it.
///
/// # Errors
///
/// If it is not; the text says where.
pub fn check(bytes: &[u8], stream: char, width: usize) -> Result<Counted, String> {
    let mut checker = Checker::new(stream, width);
    checker.push(bytes)?;
    checker.finish()
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
        let after = |parts: &[&[u8]]| {
            let mut checker = Checker::new('o', 40);
            checker.push(&whole[..10]).unwrap();
            checker.lose();
            parts.iter().try_for_each(|part| checker.push(part))?;
            checker.finish()
        };
        let checked = after(&[&whole[60..90], &whole[90..]]).unwrap();
        assert_eq!((checked.lines, checked.is_whole), (3, true));
        assert!(after(&[&whole[60..120], &whole[80..]]).is_err());
        assert!(check(&whole, 'e', 40).is_err());
    }
}
