//! Random numbers of a protocol stack, from the seed of the run.
//!
//! Some stacks draw from `rand::rng()`, which their configuration cannot replace. It takes its seed
//! from the crate `getrandom`. The folder's `.cargo/config.toml` selects the custom backend of
//! `getrandom`, which is the function below. Each run has its own thread, so it begins with a new
//! `rand::rng()`. TLS in `ring` uses another source, the operating system; its numbers affect
//! neither sizes nor times.

use std::cell::Cell;

thread_local! {
    static STATE: Cell<u64> = const { Cell::new(0) };
}

/// Mixes the seed of an endpoint into the random numbers of this thread.
pub fn seed(seed: u64) {
    STATE.set(STATE.get().rotate_left(1) ^ seed);
}

/// The next number of the generator SplitMix64 of this thread.
fn next() -> u64 {
    let state = STATE.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
    STATE.set(state);
    let mut z = state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Fills `bytes` with random numbers of this thread.
pub fn fill(bytes: &mut [u8]) {
    for part in bytes.chunks_mut(8) {
        part.copy_from_slice(&next().to_le_bytes()[..part.len()]);
    }
}

/// Derives a seed of 32 bytes from `seed`.
pub fn bytes(seed: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (part, i) in bytes.chunks_mut(8).zip(1..) {
        part.copy_from_slice(&seed.wrapping_mul(2 * i + 1).to_le_bytes());
    }
    bytes
}

/// The custom backend of `getrandom`: it writes `length` random bytes to `to`.
///
/// # Safety
///
/// `to` has room for `length` bytes.
#[unsafe(no_mangle)]
unsafe extern "Rust" fn __getrandom_v03_custom(
    to: *mut u8,
    length: usize,
) -> Result<(), getrandom::Error> {
    // SAFETY: as above; the bytes are written before they are read.
    let bytes = unsafe {
        std::ptr::write_bytes(to, 0, length);
        std::slice::from_raw_parts_mut(to, length)
    };
    fill(bytes);
    Ok(())
}
