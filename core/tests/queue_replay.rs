//! Queue disciplines against Linux 6.12, packet by packet: the recordings of `data/queue/` (see
//! `common/trace.rs`).
//!
//! Those here have no randomness, so every packet must fare as it did there.

use crate::trace::Recording;

/// Disciplines without randomness.
const EXACT: &[&str] = &[
    "cake",
    "codel",
    "drr",
    "fq",
    "fq_codel",
    "hhf",
    "htb",
    "pfifo_fast",
];

#[test]
fn every_packet_has_the_fate_of_linux() {
    let mut wrong = String::new();
    for recording in Recording::of(EXACT) {
        let agreement = recording.compare(&recording.play(&mut *recording.discipline(1)));
        println!("{}: {agreement:?}", recording.name);
        if agreement.times < agreement.packets {
            wrong += &format!("{}: {agreement:?}\n", recording.name);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
