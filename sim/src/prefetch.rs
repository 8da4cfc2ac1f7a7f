//! A hint to the processor: what will be needed soon is fetched into its cache while something else is done. A hint changes
//! no result, and where there is none for a processor nothing happens.
#![allow(unsafe_code)] // there is no safe hint in the standard library

/// Asks for all of `value`: a few instructions without a branch where its size is known.
#[inline(always)]
pub fn prefetch<T: ?Sized>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        const LINE: usize = 64;
        let (start, size) = (std::ptr::from_ref(value).cast::<i8>(), std::mem::size_of_val(value));
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
