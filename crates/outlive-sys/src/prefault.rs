//! Mapping at once what a program that begins comes to need, in place of a page fault for each part of it.
//!
//! A program takes a fault for each place of its file that it comes to. `./release` lays the functions that the plain verbs execute
//! between the two marks here; one call then has the kernel map them together, at a tenth of the cost. All of it is advice: kernels
//! that do not know it (Linux before 5.14, others) map each page when it is needed.

use std::hint::black_box;

/// What lies between the marks at most. A build that leaves functions where they fall may have more there, or the marks in
/// the other order: then nothing is mapped.
const MOST: usize = 4 << 20;

/// What a verb such as `show` or `run` uses of the stack.
const STACK: usize = 64 << 10;

/// Stands before the functions that are needed first.
#[unsafe(no_mangle)]
extern "C" fn outlive_first_functions() -> u8 {
    black_box(1)
}

/// Stands behind them. It differs from the other mark, so that no compiler makes them one.
#[unsafe(no_mangle)]
extern "C" fn outlive_other_functions() -> u8 {
    black_box(2)
}

/// Maps the instructions that this program is about to need; to be called before anything else, and after a fork, which does not pass
/// on what is mapped of a program.
pub fn first_functions() {
    let mark = |function: extern "C" fn() -> u8| black_box(function) as *const () as usize;
    let [begin, end] = [mark(outlive_first_functions), mark(outlive_other_functions)];
    if let Some(size) = end.checked_sub(begin).filter(|&size| size <= MOST) {
        populate(begin, size, Access::Read);
    }
}

/// Takes the stack that even a short program comes to need. Not for one that sleeps for weeks.
pub fn stack() {
    let here = 0u8;
    let above = std::ptr::from_ref(black_box(&here)).addr();
    populate(above - STACK, STACK, Access::Write);
}

#[derive(Clone, Copy)]
enum Access {
    Read,
    Write,
}

/// Has the kernel map the pages of a range that are not mapped yet.
#[cfg(target_os = "linux")]
fn populate(begin: usize, size: usize, access: Access) {
    use rustix::mm::{Advice, madvise};
    let offset = begin & (rustix::param::page_size() - 1);
    let begin = std::ptr::with_exposed_provenance_mut(begin - offset);
    let advice = match access {
        Access::Read => Advice::LinuxPopulateRead,
        Access::Write => Advice::LinuxPopulateWrite,
    };
    // SAFETY: no byte is changed: the kernel does what the first access to each page would do, and refuses where there is no mapping.
    let populated = unsafe { madvise(begin, size + offset, advice) };
    let _ = populated;
}

#[cfg(not(target_os = "linux"))]
fn populate(_begin: usize, _size: usize, _access: Access) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mapped_ahead_is_as_it_was() {
        let frame = black_box([7u8; 4096]);
        first_functions();
        stack();
        assert!(frame.iter().all(|&byte| byte == 7));
        assert_eq!([outlive_first_functions(), outlive_other_functions()], [1, 2]);
    }
}
