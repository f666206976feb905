//! As much of RFC 6455 as our own programs speak: whole messages, from the client masked.

use std::io::{self, Read, Write};

use outlive_sys::random;

/// The most that a message has: what a verb printed or is to read, in pieces of 32 KiB.
const MOST: u64 = 1 << 20;

const CONTINUED: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// What is sent.
#[derive(Debug, PartialEq, Eq)]
pub enum Message {
    /// A call, an order, or an answer, as JSON.
    Text(String),
    /// What a verb printed, or is to read.
    Binary(Vec<u8>),
    /// The sender asks whether the other side is there.
    Ping(Vec<u8>),
    /// The sender sends no more.
    Close,
}

/// Who sends: a client masks its messages, and a server does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The side that asked for the connection.
    Client,
    /// The side that answers.
    Server,
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
///
/// # Errors
///
/// If the other side is gone.
pub fn write(to: impl Write, side: Side, message: &Message) -> io::Result<()> {
    let (kind, bytes): (u8, &[u8]) = match message {
        Message::Text(text) => (TEXT, text.as_bytes()),
        Message::Binary(bytes) => (BINARY, bytes),
        Message::Ping(bytes) => (PING, bytes),
        // The code of an end that is no failure.
        Message::Close => (CLOSE, &[0x03, 0xe8]),
    };
    write_frame(to, side, kind, bytes)
}

/// Answers a ping.
pub(crate) fn write_pong(to: impl Write, bytes: &[u8]) -> io::Result<()> {
    write_frame(to, Side::Client, PONG, bytes)
}

fn frame(side: Side, kind: u8, bytes: &[u8]) -> Vec<u8> {
    let masked = if side == Side::Client { 0x80 } else { 0 };
    let mut frame = Vec::with_capacity(bytes.len() + 14);
    frame.push(0x80 | kind);
    match bytes.len() {
        length @ 0..=125 => frame.push(masked | length as u8),
        length @ 126..=0xffff => {
            frame.push(masked | 126);
            frame.extend((length as u16).to_be_bytes());
        }
        length => {
            frame.push(masked | 127);
            frame.extend((length as u64).to_be_bytes());
        }
    }
    match side {
        Side::Client => {
            let random = random::bytes16();
            let mask = [random[0], random[1], random[2], random[3]];
            frame.extend(mask);
            frame.extend(bytes.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        }
        Side::Server => frame.extend_from_slice(bytes),
    }
    frame
}

fn write_frame(mut to: impl Write, side: Side, kind: u8, bytes: &[u8]) -> io::Result<()> {
    to.write_all(&frame(side, kind, bytes))?;
    to.flush()
}

/// Reads the next message of a side. Our programs send each message in one part, so a ping never comes between two parts.
///
/// # Errors
///
/// If the other side is gone, or does not keep to the protocol.
pub fn read(mut from: impl Read, side: Side) -> io::Result<Message> {
    let strange = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let (mut whole, mut is_text) = (Vec::new(), false);
    loop {
        let mut head = [0; 2];
        from.read_exact(&mut head)?;
        let (is_last, kind, is_masked) = (head[0] & 0x80 != 0, head[0] & 15, head[1] & 0x80 != 0);
        if is_masked != (side == Side::Client) {
            return Err(strange("a message of the server is masked, or one of the client is not"));
        }
        let length = match head[1] & 0x7f {
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
            length => u64::from(length),
        };
        if length > MOST || length + whole.len() as u64 > MOST {
            return Err(strange("a message is too long"));
        }
        let mut mask = [0; 4];
        if is_masked {
            from.read_exact(&mut mask)?;
        }
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        from.read_exact(&mut bytes)?;
        if is_masked {
            bytes.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
        }
        match kind {
            CLOSE => return Ok(Message::Close),
            PING => return Ok(Message::Ping(bytes)),
            PONG => continue,
            TEXT | BINARY => {
                is_text = kind == TEXT;
                whole = bytes;
            }
            CONTINUED => whole.extend(bytes),
            _ => return Err(strange("a message is of an unknown kind")),
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
            write(&mut frame, Side::Client, &Message::Binary(bytes.clone())).unwrap();
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
            assert_eq!(read(&mut frame.as_slice(), Side::Client).unwrap(), Message::Binary(bytes.clone()));
            let mut plain = Vec::new();
            write(&mut plain, Side::Server, &Message::Binary(bytes.clone())).unwrap();
            assert_eq!(plain.len(), header + length);
            assert_eq!(read(&mut plain.as_slice(), Side::Server).unwrap(), Message::Binary(bytes));
            assert!(read(&mut plain.as_slice(), Side::Client).is_err(), "a client masks what it sends");
        }
    }

    #[test]
    fn messages_come_whole_and_in_parts() {
        let mut stream: &[u8] =
            &[0x89, 1, b'p', 0x01, 2, b'h', b'e', 0x8a, 0, 0x80, 1, b'y', 0x82, 1, 7, 0x88, 0];
        assert_eq!(read(&mut stream, Side::Server).unwrap(), Message::Ping(b"p".to_vec()));
        assert_eq!(read(&mut stream, Side::Server).unwrap(), Message::Text("hey".to_owned()));
        assert_eq!(read(&mut stream, Side::Server).unwrap(), Message::Binary(vec![7]));
        assert_eq!(read(&mut stream, Side::Server).unwrap(), Message::Close);
        assert!(read(&mut stream, Side::Server).is_err());
        let mut huge: &[u8] = &[0x82, 127, 255, 255, 255, 255, 255, 255, 255, 255];
        assert!(read(&mut huge, Side::Server).is_err(), "no length that is claimed is allocated unchecked");
    }
}
