//! Memory straight from the kernel, given back when it is not needed.
//!
//! A keeper lives for weeks beside hundreds of others. Its large, short-lived memory (the launch request, the read
//! buffer) must not stay behind in the allocator's heap.

use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

/// A mapping of this process's own.
#[derive(Debug)]
pub struct Region {
    start: NonNull<u8>,
    len: usize,
}

impl Region {
    /// Maps `len` bytes of zeros; none of them costs memory until it is touched.
    ///
    /// # Errors
    ///
    /// If the kernel refuses, or `len` is 0.
    pub fn new(len: usize) -> io::Result<Self> {
        // SAFETY: a new anonymous mapping at an address of the kernel's choice aliases nothing.
        let start = unsafe {
            mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        }?;
        Self::at(start, len)
    }

    /// Maps a part of a file in memory that is as long, so that what is written stays when this process is gone.
    ///
    /// # Safety
    ///
    /// No process may write to that part while this mapping is there, and the file must not be made shorter.
    pub(crate) unsafe fn of_file(file: BorrowedFd<'_>, at: u64, len: usize) -> io::Result<Self> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice; nobody else writes to what is behind it, says the caller.
        let start = unsafe { mmap(std::ptr::null_mut(), len, access, flags, file, at) }?;
        Self::at(start, len)
    }

    fn at(start: *mut std::ffi::c_void, len: usize) -> io::Result<Self> {
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapping at address 0"))?;
        Ok(Self { start, len })
    }

    /// Gives the memory back to the kernel; the contents become zeros.
    pub fn release(&mut self) {
        // SAFETY: the range is exactly our own mapping, and `&mut self` says that nothing borrows it.
        let released = unsafe { madvise(self.start.as_ptr().cast(), self.len, Advice::LinuxDontNeed) };
        // Advice: if it is not taken, the memory is merely not saved.
        let _ = released;
    }
}

impl Deref for Region {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is `len` bytes long, readable, initialised by the kernel, and ours alone until drop.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Region {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and writable; `&mut self` makes the borrow unique.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: unmaps our own mapping, which nothing can borrow any more.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_memory_reads_as_zeros_and_stays_usable() {
        let mut region = Region::new(8192).unwrap();
        region[5000] = 7;
        region.release();
        assert_eq!(region[5000], 0);
        region[5000] = 8;
        assert_eq!(region[5000], 8);
    }
}
