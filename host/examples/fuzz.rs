//! Sends rubbish to every parser of what strangers send (`narrows_host::strangers`), for so many seconds each.
//!
//!     fuzz [SECONDS] [PARSER] [SEED]        10 s each unless told otherwise; `all` is every one
//!
//! Rubbish is what the parser is meant to read with a few bytes changed, cut, doubled, or put together from two; and pure noise. It ends
//! with 1 at the first panic or at the first that takes more from the heap than [`most`] allows, and keeps the bytes.

#[path = "../../sim/tests/common/counting.rs"]
mod counting;

use counting::{counts, Counting};
use narrows_core::rng::Rng;
use narrows_host::strangers::{Parser, PARSERS};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The longest that is tried, bytes.
const LONGEST: usize = 70_000;
/// Numbers at whose edges mistakes are made.
const ODD: [u64; 8] = [0, 1, 0x7f, 0x80, 0xff, 0x7fff_ffff, 0xffff_ffff, u64::MAX];

/// Heap that so many bytes may cost.
fn most(parser: &Parser, bytes: usize) -> u64 {
    (1 << 16) + parser.dear * bytes as u64
}

fn mutated(right: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    let one = |rng: &mut Rng| right[rng.below(right.len() as u64) as usize].clone();
    let mut bytes = one(rng);
    if rng.below(20) == 0 {
        bytes = (0..rng.below(400)).map(|_| rng.next_u64() as u8).collect();
    }
    for _ in 0..=rng.below(6) {
        let at = rng.below(bytes.len() as u64 + 1) as usize;
        match rng.below(8) {
            0 => bytes.truncate(at),
            1 if at < bytes.len() => bytes[at] = rng.next_u64() as u8,
            2 if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
            3 => bytes.insert(at, rng.next_u64() as u8),
            4 if at < bytes.len() => drop(bytes.remove(at)),
            5 => {
                let odd = ODD[rng.below(ODD.len() as u64) as usize].to_be_bytes();
                let end = (at + (1 << rng.below(4))).min(bytes.len());
                bytes[at..end].copy_from_slice(&odd[8 - (end - at)..]);
            }
            6 => {
                let other = one(rng);
                let from = rng.below(other.len() as u64 + 1) as usize;
                bytes.truncate(at);
                bytes.extend(&other[from..]);
            }
            _ => {
                let part = bytes[at..(at + 64).min(bytes.len())].repeat(rng.below(200) as usize);
                bytes.splice(at..at, part);
            }
        }
        bytes.truncate(LONGEST);
    }
    bytes
}

/// Keeps what did it, and says where.
fn kept(parser: &Parser, what: &str, bytes: &[u8]) -> String {
    let file = std::env::temp_dir().join(format!("fuzz-{}.bin", parser.name));
    let place = std::fs::write(&file, bytes).map_or_else(|e| format!("nowhere ({e})"), |()| file.display().to_string());
    let begin: String = bytes.iter().take(64).map(|byte| format!("{byte:02x}")).collect();
    format!(
        "{} {what}; the {} bytes are in {place} and begin with {begin}",
        parser.name,
        bytes.len()
    )
}

fn tried(parser: &Parser, lasts: Duration, seed: u64) -> Result<u64, String> {
    let mut rng = Rng::named(seed, parser.name);
    let right = (parser.right)();
    let begin = Instant::now();
    let mut tries = 0;
    while begin.elapsed() < lasts {
        for _ in 0..100 {
            let bytes = mutated(&right, &mut rng);
            let before = counts();
            let done = catch_unwind(AssertUnwindSafe(|| (parser.read)(&bytes)));
            let after = counts();
            // The peak is that of the whole run: it tells when it moves.
            let took = if after.peak > before.peak {
                after.peak - before.live
            } else {
                0
            };
            if done.is_err() || took > most(parser, bytes.len()) {
                let what = if done.is_err() {
                    "panics".into()
                } else {
                    format!("takes {took} B")
                };
                return Err(kept(parser, &what, &bytes));
            }
            tries += 1;
        }
    }
    Ok(tries)
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let seconds = args.first().map_or(Some(10.0), |word| word.parse().ok());
    let Some(seconds) = seconds.filter(|s: &f64| (0.0..=86_400.0).contains(s)) else {
        eprintln!("fuzz [SECONDS] [PARSER] [SEED]");
        return ExitCode::from(2);
    };
    let seed = args.get(2).and_then(|word| word.parse().ok()).unwrap_or(1);
    let chosen = |parser: &&Parser| args.get(1).is_none_or(|name| name == parser.name || name == "all");
    for parser in PARSERS.iter().filter(chosen) {
        match tried(parser, Duration::from_secs_f64(seconds), seed) {
            Ok(tries) => println!("{:10} {tries} tries: no panic, and the heap is bounded", parser.name),
            Err(text) => {
                eprintln!("{text}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
