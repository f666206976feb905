//! Random bytes from the kernel.

/// Returns 16 random bytes.
///
/// # Panics
///
/// If the kernel has no source of randomness at all, which no supported system lacks.
pub fn bytes16() -> [u8; 16] {
    let mut bytes = [0u8; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(n) => filled += n,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("the kernel gives no random bytes: {error}"),
        }
    }
    bytes
}
