//! As much of RFC 6455 as our own server speaks: whole messages, from the client masked.

use std::io::{self, Read, Write};

use outlive_sys::random;

/// The most that a message of the server has: what a verb printed, in pieces of 32 KiB.
const MOST: u64 = 1 << 20;

const CONTINUED: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Text(String),
    Binary(Vec<u8>),
    /// The server asks whether this client is there.
    Ping(Vec<u8>),
    Close,
}

/// Makes the key of a handshake: 16 random bytes.
pub(crate) fn key() -> String {
    base64(&random::bytes16())
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits =
            three.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= three.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

/// Writes a message.
pub(crate) fn write(to: impl Write, text: &str) -> io::Result<()> {
    write_frame(to, TEXT, text.as_bytes())
}

/// Writes bytes.
pub(crate) fn write_bytes(to: impl Write, bytes: &[u8]) -> io::Result<()> {
    write_frame(to, BINARY, bytes)
}

/// Answers a ping.
pub(crate) fn write_pong(to: impl Write, bytes: &[u8]) -> io::Result<()> {
    write_frame(to, PONG, bytes)
}

fn write_frame(mut to: impl Write, kind: u8, bytes: &[u8]) -> io::Result<()> {
    let random = random::bytes16();
    let mask = [random[0], random[1], random[2], random[3]];
    let mut frame = vec![0x80 | kind];
    match bytes.len() {
        length @ 0..=125 => frame.push(0x80 | length as u8),
        length @ 126..=0xffff => {
            frame.push(0x80 | 126);
            frame.extend((length as u16).to_be_bytes());
        }
        length => {
            frame.push(0x80 | 127);
            frame.extend((length as u64).to_be_bytes());
        }
    }
    frame.extend(mask);
    frame.extend(bytes.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    to.write_all(&frame)?;
    to.flush()
}

/// Reads the next message. Our server sends each message in one part, so a ping never comes between two parts.
pub(crate) fn read(mut from: impl Read) -> io::Result<Message> {
    let strange = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let (mut whole, mut is_text) = (Vec::new(), false);
    loop {
        let mut head = [0; 2];
        from.read_exact(&mut head)?;
        let (is_last, kind) = (head[0] & 0x80 != 0, head[0] & 15);
        let length = match head[1] {
            126 => {
                let mut length = [0; 2];
                from.read_exact(&mut length)?;
                u64::from(u16::from_be_bytes(length))
            }
            127 => {
                let mut length = [0; 8];
                from.read_exact(&mut length)?;
                u64::from_be_bytes(length)
            }
            length if length < 126 => u64::from(length),
            _ => return Err(strange("the server has masked a message")),
        };
        if length > MOST || length + whole.len() as u64 > MOST {
            return Err(strange("the server sends too long a message"));
        }
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        from.read_exact(&mut bytes)?;
        match kind {
            CLOSE => return Ok(Message::Close),
            PING => return Ok(Message::Ping(bytes)),
            PONG => continue,
            TEXT | BINARY => {
                is_text = kind == TEXT;
                whole = bytes;
            }
            CONTINUED => whole.extend(bytes),
            _ => return Err(strange("the server sends messages of an unknown kind")),
        }
        if is_last {
            return match is_text {
                true => {
                    String::from_utf8(whole).map(Message::Text).map_err(|_| strange("a text is not UTF-8"))
                }
                false => Ok(Message::Binary(whole)),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_rfc_4648() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn what_is_written_is_masked_and_has_its_length() {
        for length in [0usize, 1, 125, 126, 0xffff, 0x10000] {
            let bytes: Vec<u8> = (0..length).map(|n| n as u8).collect();
            let mut frame = Vec::new();
            write_bytes(&mut frame, &bytes).unwrap();
            let header = match length {
                0..=125 => 2,
                126..=0xffff => 4,
                _ => 10,
            };
            assert_eq!((frame[0], frame[1] & 0x80), (0x82, 0x80));
            assert_eq!(frame.len(), header + 4 + length);
            let mask = frame[header..header + 4].to_vec();
            let unmasked: Vec<u8> =
                frame[header + 4..].iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
            assert_eq!(unmasked, bytes);
        }
    }

    #[test]
    fn messages_come_whole_and_in_parts() {
        let mut stream: &[u8] =
            &[0x89, 1, b'p', 0x01, 2, b'h', b'e', 0x8a, 0, 0x80, 1, b'y', 0x82, 1, 7, 0x88, 0];
        assert_eq!(read(&mut stream).unwrap(), Message::Ping(b"p".to_vec()));
        assert_eq!(read(&mut stream).unwrap(), Message::Text("hey".to_owned()));
        assert_eq!(read(&mut stream).unwrap(), Message::Binary(vec![7]));
        assert_eq!(read(&mut stream).unwrap(), Message::Close);
        assert!(read(&mut stream).is_err());
        let mut huge: &[u8] = &[0x82, 127, 255, 255, 255, 255, 255, 255, 255, 255];
        assert!(read(&mut huge).is_err(), "no length that is claimed is allocated unchecked");
    }
}
