//! Hints, to the processor and to the kernel. A hint changes no result, and where there is none for
//! a machine nothing happens.
#![allow(unsafe_code)] // there is no safe hint in the standard library

/// An empty vector with room for `n`, on pages of 2 MiB where the kernel gives them to who asks:
/// ten thousand flows lie on more small ones than a processor keeps the places of.
pub fn on_large_pages<T>(n: usize) -> Vec<T> {
    let room = Vec::with_capacity(n);
    #[cfg(target_os = "linux")]
    {
        unsafe extern "C" {
            fn madvise(from: *mut core::ffi::c_void, length: usize, advice: i32) -> i32;
        }
        const HUGEPAGE: i32 = 14;
        const LARGE: usize = 2 << 20;
        let start = (room.as_ptr() as usize).next_multiple_of(LARGE);
        let end = room.as_ptr() as usize + n * std::mem::size_of::<T>();
        if let Some(length) = (end / LARGE * LARGE)
            .checked_sub(start)
            .filter(|length| *length > 0)
        {
            // SAFETY: the memory is ours, and the call does not change what is in it; whether it is
            // followed does not matter.
            unsafe { madvise(start as *mut core::ffi::c_void, length, HUGEPAGE) };
        }
    }
    room
}

/// Asks the processor for all of `value`, which comes into its cache while something else is done:
/// a few instructions without a branch where its size is known.
#[inline(always)]
pub fn prefetch<T: ?Sized>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        const LINE: usize = 64;
        let (start, size) = (
            std::ptr::from_ref(value).cast::<i8>(),
            std::mem::size_of_val(value),
        );
        // The last byte may lie in one more line than the first bytes do.
        for at in (0..size.div_ceil(LINE)).map(|line| line * LINE) {
            // SAFETY: it reads nothing that the program sees and faults at no address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(at)) };
        }
        if size > 0 {
            // SAFETY: as above.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(size - 1)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
