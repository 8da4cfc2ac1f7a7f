//! A hint to the processor: what will be needed soon is fetched into its cache while something else is done. A hint changes
//! no result, and where there is none for a processor nothing happens.
#![allow(unsafe_code)] // there is no safe hint in the standard library

/// Asks for all of `value`.
#[inline]
pub fn prefetch<T: ?Sized>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        const LINE: usize = 64;
        let (start, size) = (std::ptr::from_ref(value).cast::<i8>(), std::mem::size_of_val(value));
        for at in (0..size).step_by(LINE).chain(size.checked_sub(1)) {
            // SAFETY: it reads nothing that the program sees and faults at no address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(at)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
