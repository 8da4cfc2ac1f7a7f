//! Redirects the clock and the random numbers of quiche to `src/determinism.rs`.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for symbol in ["clock_gettime", "RAND_bytes"] {
        println!("cargo:rustc-cdylib-link-arg=-Wl,--wrap={symbol}");
    }
}
