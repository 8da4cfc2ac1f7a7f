//! Runs one parser of `narrows_host::parsers` on the bytes that libFuzzer generates.
//!
//! The environment variable `NARROWS_PARSER` names the parser; `make fuzz` runs all of them in
//! turn, each on its own corpus.
//! A run fails when the parser panics, when AddressSanitizer reports an error, or when the parser's
//! peak heap use exceeds the limit that `Parser::most_heap` states for an input of this length.
#![no_main]

#[path = "../../sim/tests/common/counting.rs"]
mod counting;

use counting::{Counting, counts};
use libfuzzer_sys::fuzz_target;
use narrows_host::parsers::{PARSERS, Parser};
use std::sync::OnceLock;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The parser that this process runs.
fn parser() -> &'static Parser {
    static CHOSEN: OnceLock<&Parser> = OnceLock::new();
    CHOSEN.get_or_init(|| {
        let name = std::env::var("NARROWS_PARSER").unwrap_or_default();
        let names: Vec<&str> = PARSERS.iter().map(|parser| parser.name).collect();
        let found = PARSERS.iter().find(|parser| parser.name == name);
        let found = found.unwrap_or_else(|| panic!("NARROWS_PARSER={name}: set it to one of {}",
            names.join(", ")));
        // The first call creates what exists only once, such as the threads of a server, so that
        // this memory is not counted.
        (found.read)(&[]);
        found
    })
}

fuzz_target!(|bytes: &[u8]| {
    let parser = parser();
    let before = counts();
    (parser.read)(bytes);
    let after = counts();
    // The peak is that of the whole process, so it shows the heap use of this input only if it
    // rises.
    if after.peak > before.peak {
        let used = after.peak - before.live;
        let most = parser.most_heap(bytes.len());
        assert!(used <= most, "{}: {used} B of heap for {} B of input, limit {most} B",
            parser.name, bytes.len());
    }
});
