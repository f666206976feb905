//! Random bytes from the kernel.

use rustix::io::retry_on_intr;
use rustix::rand::{GetRandomFlags, getrandom};

/// Returns 16 random bytes.
///
/// # Panics
///
/// If the kernel has no source of randomness at all, which no supported system lacks.
pub fn bytes16() -> [u8; 16] {
    let mut bytes = [0u8; 16];
    // The kernel gives so few bytes all at once.
    let filled = retry_on_intr(|| getrandom(&mut bytes, GetRandomFlags::empty()));
    assert_eq!(filled, Ok(bytes.len()), "the kernel gives no random bytes");
    bytes
}
