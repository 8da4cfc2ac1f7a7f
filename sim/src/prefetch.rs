//! Hints to the processor and the kernel about memory. A hint changes no result. On a machine
//! without such hints, the functions do nothing.
#![allow(unsafe_code)] // the standard library has no safe hint

/// Returns an empty vector with capacity `n`, on pages of 2 MiB if the kernel provides them. On
/// pages of 4 KiB, the addresses of ten thousand flows would exceed the processor's
/// address-translation cache (TLB).
pub fn on_large_pages<T>(n: usize) -> Vec<T> {
    let vector = Vec::with_capacity(n);
    #[cfg(target_os = "linux")]
    {
        unsafe extern "C" {
            fn madvise(from: *mut core::ffi::c_void, length: usize, advice: i32) -> i32;
        }
        const HUGEPAGE: i32 = 14;
        const LARGE: usize = 2 << 20;
        let start = (vector.as_ptr() as usize).next_multiple_of(LARGE);
        let end = vector.as_ptr() as usize + n * std::mem::size_of::<T>();
        if let Some(length) = (end / LARGE * LARGE)
            .checked_sub(start)
            .filter(|length| *length > 0)
        {
            // SAFETY: the memory belongs to `vector`, and the call does not change its contents. A
            // failure has no effect.
            unsafe { madvise(start as *mut core::ffi::c_void, length, HUGEPAGE) };
        }
    }
    vector
}

/// Starts to load all of `value` into the processor's cache, while the processor continues.
#[inline(always)]
pub fn prefetch<T: ?Sized>(value: &T) {
    load(
        std::ptr::from_ref(value).cast::<u8>(),
        std::mem::size_of_val(value),
    );
}

/// Starts to load `size` bytes from `start` on into the processor's cache. If the size is a
/// constant, this compiles to a few instructions without a branch.
#[inline(always)]
pub fn load(start: *const u8, size: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        const LINE: usize = 64;
        let start = start.cast::<i8>();
        // The last byte may be in one more cache line than the first bytes.
        for at in (0..size.div_ceil(LINE)).map(|line| line * LINE) {
            // SAFETY: the instruction changes no state of the program and faults at no address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(at)) };
        }
        if size > 0 {
            // SAFETY: as above.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(size - 1)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, size);
}
