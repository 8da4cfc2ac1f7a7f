//! An allocator that counts the heap allocations of each thread. Each thread has its own counts, so
//! tests that run in parallel threads do not count each other's allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, with every call counted.
pub struct Counting;

/// Counts of the heap allocations of this thread.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Calls that returned memory: new blocks, and blocks that were made larger or smaller.
    pub allocations: u64,
    /// Bytes that are allocated and not yet freed.
    pub live: u64,
    /// The maximum of `live` so far, in bytes.
    pub peak: u64,
    /// The part of `live` that is aligned to cache lines.
    pub in_lines: u64,
}

/// Size of a cache line, in bytes.
const LINE: usize = 64;

thread_local! {
    static COUNTS: Cell<Counts> = const { Cell::new(NONE) };
}

const NONE: Counts = Counts {
    allocations: 0,
    live: 0,
    peak: 0,
    in_lines: 0,
};

/// The counts of this thread so far.
pub fn counts() -> Counts {
    COUNTS.get()
}

fn count(allocations: u64, align: usize, taken: usize, given: usize) {
    // At the end of a thread its counts no longer exist.
    let _ = COUNTS.try_with(|counts| {
        let mut c = counts.get();
        c.allocations += allocations;
        let change = |live: u64| (live + taken as u64).saturating_sub(given as u64);
        c.live = change(c.live);
        c.peak = c.peak.max(c.live);
        if align == LINE {
            c.in_lines = change(c.in_lines);
        }
        counts.set(c);
    });
}

// SAFETY: every call is passed unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.align(), layout.size(), 0);
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(1, layout.align(), layout.size(), 0);
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(1, layout.align(), size, layout.size());
        unsafe { System.realloc(block, layout, size) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(0, layout.align(), 0, layout.size());
        unsafe { System.dealloc(block, layout) }
    }
}
