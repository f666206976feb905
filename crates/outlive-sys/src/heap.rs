//! The memory of a program that begins, allocates for a list, and ends: `outlive` where its C library is musl.
//!
//! musl's allocator asks the kernel for memory often and in small parts: of a list of 200 jobs, that was 600 page faults and four tenths
//! of the time. Like musl's, this one has one lock for all threads.

use std::alloc::{GlobalAlloc, Layout};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dlmalloc::{Allocator, Dlmalloc};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// What is asked for at once: after the first, with all its pages.
const STEP: usize = 128 << 10;

/// An allocator, for `#[global_allocator]`.
pub struct Heap(Mutex<Dlmalloc<Pages>>);

impl Heap {
    /// Takes no memory yet.
    pub const fn new() -> Self {
        let mut heap = Dlmalloc::new_with_allocator(Pages { has_some: AtomicBool::new(false) });
        heap.set_granularity(STEP);
        Self(Mutex::new(heap))
    }

    fn own(&self) -> MutexGuard<'_, Dlmalloc<Pages>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Heap {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Heap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Heap")
    }
}

// SAFETY: dlmalloc keeps the contract of each function for one thread at a time, and the lock is held meanwhile. The lock neither
// allocates nor panics.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as for this function.
        unsafe { self.own().malloc(layout.size(), layout.align()) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as for this function.
        unsafe { self.own().calloc(layout.size(), layout.align()) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as for this function.
        unsafe { self.own().free(memory, layout.size(), layout.align()) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as for this function.
        unsafe { self.own().realloc(memory, layout.size(), layout.align(), size) }
    }
}

/// Memory from the kernel.
struct Pages {
    /// The first step was taken: a program that needs more is likely to need all of the next.
    has_some: AtomicBool,
}

// SAFETY: memory that is given out is new, and taken back only where dlmalloc says so.
unsafe impl Allocator for Pages {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        let is_first = !self.has_some.swap(true, Ordering::Relaxed);
        // What is larger than a step may never be written to.
        let flags = if is_first || size > STEP { MapFlags::PRIVATE } else { POPULATED };
        // SAFETY: a new mapping, wherever the kernel likes.
        let mapped = unsafe { mmap_anonymous(null_mut(), size, ProtFlags::READ | ProtFlags::WRITE, flags) };
        mapped.map_or((null_mut(), 0, 0), |memory| (memory.cast(), size, 0))
    }

    fn remap(&self, memory: *mut u8, old: usize, new: usize, can_move: bool) -> *mut u8 {
        #[cfg(target_os = "linux")]
        {
            use rustix::mm::{MremapFlags, mremap};
            let flags = if can_move { MremapFlags::MAYMOVE } else { MremapFlags::empty() };
            // SAFETY: the memory is dlmalloc's, which goes on with what this returns.
            unsafe { mremap(memory.cast(), old, new, flags) }.map_or(null_mut(), |memory| memory.cast())
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = (memory, old, new, can_move);
            null_mut()
        }
    }

    fn free_part(&self, memory: *mut u8, old: usize, new: usize) -> bool {
        // SAFETY: dlmalloc no longer uses what lies beyond `new`.
        NonNull::new(memory)
            .is_some_and(|memory| unsafe { munmap(memory.add(new).as_ptr().cast(), old - new) }.is_ok())
    }

    fn free(&self, memory: *mut u8, size: usize) -> bool {
        // SAFETY: dlmalloc no longer uses it.
        unsafe { munmap(memory.cast(), size) }.is_ok()
    }

    fn can_release_part(&self, _: u32) -> bool {
        true
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        rustix::param::page_size()
    }
}

#[cfg(target_os = "linux")]
const POPULATED: MapFlags = MapFlags::PRIVATE.union(MapFlags::POPULATE);
#[cfg(not(target_os = "linux"))]
const POPULATED: MapFlags = MapFlags::PRIVATE;

#[cfg(test)]
mod tests {
    use super::*;

    /// Allocates, fills, grows, shrinks and frees blocks of all sizes in an order that a seed decides; each keeps what was put into it.
    fn exercise(heap: &Heap, mut seed: u64) {
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as usize
        };
        let mut blocks: Vec<(*mut u8, Layout, u8)> = Vec::new();
        for step in 0..4000 {
            let (size, align) = (1 + next() % [16, 200, 5000, 300_000][next() % 4], 1 << (next() % 8));
            let fill = (step % 251) as u8 + 1;
            let at = next() % 64;
            if at >= blocks.len() {
                let layout = Layout::from_size_align(size, align).unwrap();
                // SAFETY: the size is not zero.
                let memory = unsafe { heap.alloc_zeroed(layout) };
                assert!(!memory.is_null() && memory.addr().is_multiple_of(align));
                // SAFETY: the block has that size, and is ours.
                unsafe {
                    assert!(std::slice::from_raw_parts(memory, size).iter().all(|&byte| byte == 0));
                    memory.write_bytes(fill, size);
                }
                blocks.push((memory, layout, fill));
                continue;
            }
            let (memory, layout, fill) = blocks.swap_remove(at);
            // SAFETY: the block is ours, with the layout that it was allocated with.
            unsafe {
                assert!(std::slice::from_raw_parts(memory, layout.size()).iter().all(|&byte| byte == fill));
                if next() % 2 == 0 {
                    heap.dealloc(memory, layout);
                    continue;
                }
                let memory = heap.realloc(memory, layout, size);
                assert!(!memory.is_null() && memory.addr().is_multiple_of(layout.align()));
                let kept = size.min(layout.size());
                assert!(std::slice::from_raw_parts(memory, kept).iter().all(|&byte| byte == fill));
                memory.write_bytes(fill, size);
                blocks.push((memory, Layout::from_size_align(size, layout.align()).unwrap(), fill));
            }
        }
        for (memory, layout, _) in blocks {
            // SAFETY: as above.
            unsafe { heap.dealloc(memory, layout) };
        }
    }

    #[test]
    fn blocks_keep_what_is_put_into_them_in_several_threads_at_once() {
        let heap = Heap::new();
        std::thread::scope(|scope| {
            for seed in 1..=4 {
                let heap = &heap;
                scope.spawn(move || exercise(heap, seed));
            }
        });
    }
}
