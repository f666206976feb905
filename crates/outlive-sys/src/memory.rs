//! Giving back memory that the beginning of a program needed and its long rest does not.

/// How much of the stack lies below the deepest frame at most. The kernel keeps everything else a mebibyte away from the stack.
const DEPTH: usize = 128 << 10;

/// What the frames of this module and of the system call may take.
const OWN_FRAMES: usize = 2048;

/// Gives the pages of the heap that hold nothing back to the kernel, and those of the stack below the caller: deeper calls have left
/// them. A process that forks afterwards or sleeps for weeks has that much less.
///
/// Only the frames of the callers count, so it is best called from few of them. For programs with one thread.
#[inline(never)]
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the allocator gives back only pages that no allocation is in.
    unsafe {
        libc::malloc_trim(0);
    }
    #[cfg(target_os = "linux")]
    {
        use rustix::mm::{Advice, madvise};
        let here = 0u8;
        let page = rustix::param::page_size();
        let lowest_used = (std::ptr::from_ref(std::hint::black_box(&here)).addr() - OWN_FRAMES) & !(page - 1);
        let start = std::ptr::with_exposed_provenance_mut(lowest_used - DEPTH);
        // SAFETY: what lies below the frame of this function, with room for the call that it makes, is in no frame. The stack grows
        // downwards, and no other mapping is so near to it. Pages that were never touched are no harm.
        let given = unsafe { madvise(start, DEPTH, Advice::LinuxDontNeed) };
        // Advice: if it is not taken, the memory is merely not saved.
        let _ = given;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills a frame of 64 KiB; returns what depends on all of it.
    #[inline(never)]
    fn deep(seed: u8) -> u32 {
        let mut frame = [seed; 64 << 10];
        std::hint::black_box(&mut frame);
        frame.iter().map(|&byte| u32::from(byte)).sum()
    }

    #[test]
    fn frames_above_and_what_is_allocated_stay_as_they_are() {
        let own: Vec<u8> = (0..=255).cycle().take(4096).collect();
        let frame = std::hint::black_box([7u8; 4096]);
        drop(vec![1u8; 100_000]);
        assert_eq!(deep(1), 64 << 10);
        give_back();
        assert_eq!(deep(2), 128 << 10);
        give_back();
        assert!(frame.iter().all(|&byte| byte == 7));
        assert!(own.iter().enumerate().all(|(at, &byte)| byte == (at % 256) as u8));
    }
}
