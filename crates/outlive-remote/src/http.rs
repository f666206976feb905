//! As much of HTTP/1.1 as our own server speaks. One request for each connection.

use std::io::{self, BufRead, BufReader, Read, Write};

/// The most that the head of an answer may have.
const HEAD_BYTES: u64 = 64 << 10;

/// The most that a line between the pieces of a body may have.
const LINE_BYTES: u64 = 1 << 10;

/// What reads from a connection.
pub(crate) type Reader = BufReader<Box<dyn Read + Send>>;

/// The head of an answer.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
}

impl Head {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Writes the head of a request.
pub(crate) fn write_head(
    mut to: impl Write,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> io::Result<()> {
    let mut head = format!("{method} {path} HTTP/1.1\r\n");
    for (name, value) in headers {
        // A value that has a line end would be a header of its own.
        if value.bytes().any(|byte| byte.is_ascii_control()) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{name} has a control character"),
            ));
        }
        head += &format!("{name}: {value}\r\n");
    }
    head += "\r\n";
    to.write_all(head.as_bytes())
}

/// Reads the head of an answer.
pub(crate) fn read_head(from: &mut Reader) -> io::Result<Head> {
    let strange = |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("no HTTP: {what}"));
    let mut from = from.take(HEAD_BYTES);
    let mut line = || -> io::Result<String> {
        let mut line = Vec::new();
        from.read_until(b'\n', &mut line)?;
        if !line.ends_with(b"\n") {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
    };
    let first = line()?;
    let mut words = first.split(' ');
    let status = match (words.next(), words.next().and_then(|status| status.parse().ok())) {
        (Some("HTTP/1.1"), Some(status)) => status,
        _ => return Err(strange(&outlive::one_line(&first))),
    };
    let mut headers = Vec::new();
    loop {
        let line = line()?;
        if line.is_empty() {
            return Ok(Head { status, headers });
        }
        let (name, value) = line.split_once(':').ok_or_else(|| strange(&outlive::one_line(&line)))?;
        headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
    }
}

/// The body of an answer. A body that breaks off is an error, never a short body.
pub(crate) struct Body {
    from: Reader,
    left: Left,
}

#[derive(Debug)]
enum Left {
    /// So many bytes.
    Bytes(u64),
    /// So many bytes of this piece; then there may be more pieces.
    Piece(u64),
    /// The next piece begins.
    Next,
    End,
}

impl Body {
    pub(crate) fn new(head: &Head, from: Reader) -> io::Result<Self> {
        let is_in_pieces = head.header("transfer-encoding").is_some_and(|coding| coding == "chunked");
        let length = head.header("content-length").map(str::parse::<u64>);
        let left = match (is_in_pieces, length) {
            (true, _) => Left::Next,
            (false, Some(Ok(length))) => Left::Bytes(length),
            (false, None) if matches!(head.status, 204 | 304) => Left::End,
            _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "no HTTP: the body has no length")),
        };
        Ok(Self { from, left })
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        (&mut self.from).take(LINE_BYTES).read_line(&mut line)?;
        if line.ends_with('\n') {
            Ok(line.trim_end().to_owned())
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let left = match self.left {
                Left::End | Left::Bytes(0) => return Ok(0),
                Left::Bytes(left) | Left::Piece(left) if left > 0 => left,
                Left::Bytes(_) | Left::Piece(_) => {
                    // The line end after a piece.
                    self.line()?;
                    self.left = Left::Next;
                    continue;
                }
                Left::Next => {
                    let line = self.line()?;
                    let size = line.split(';').next().unwrap_or_default();
                    let size = u64::from_str_radix(size.trim(), 16).map_err(io::Error::other)?;
                    self.left = if size == 0 { Left::End } else { Left::Piece(size) };
                    continue;
                }
            };
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
            let count = self.from.read(&mut buffer[..most])?;
            if count == 0 && most > 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let left = left - count as u64;
            self.left = match self.left {
                Left::Bytes(_) => Left::Bytes(left),
                _ => Left::Piece(left),
            };
            return Ok(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> io::Result<(u16, String)> {
        let bytes = text.as_bytes().to_vec();
        let mut from: Reader = BufReader::new(Box::new(io::Cursor::new(bytes)));
        let head = read_head(&mut from)?;
        let mut body = String::new();
        Body::new(&head, from)?.read_to_string(&mut body)?;
        Ok((head.status, body))
    }

    #[test]
    fn bodies_come_whole_and_in_pieces() {
        assert_eq!(read("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").unwrap(), (200, "hi".to_owned()));
        let pieces = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\na;x=y\r\n0123456789\r\n0\r\n\r\n";
        assert_eq!(read(pieces).unwrap(), (200, "abc0123456789".to_owned()));
    }

    #[test]
    fn a_body_that_breaks_off_is_an_error() {
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nab",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
            "HTTP/1.1 200 OK\r\n\r\nhi",
            "HTTP/1.1 200 OK\r\nContent-",
            "SSH-2.0-OpenSSH\r\n\r\n",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_header_has_one_line() {
        let mut written = Vec::new();
        assert!(write_head(&mut written, "GET", "/", &[("host", "a\r\nb: c")]).is_err());
    }
}
