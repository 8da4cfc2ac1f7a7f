//! Reordering: with a probability, a packet is delayed by the span `late`, and later packets
//! overtake it.
//!
//! [`Jitter`](super::jitter::Jitter) executes it. Source: RFC 4737 (a packet is reordered when one
//! that was sent after it arrives before it).
//!
//! Deviation from Linux's `netem`: its `reorder` lets a packet skip the common delay. A packet that
//! netem reorders arrives early, by at most the common delay. In this file, a reordered packet
//! arrives late, by the span `late`. Such a delay models a longer route, a retry on a radio link,
//! or one of several parallel links. The draw and its correlation are netem's ([`Bernoulli`]).

use super::ElementKind;
use super::bernoulli::{Bernoulli, CORRELATION};
use crate::param::{Kind, Param, Params, Refusal};
use crate::rng::Rng;
use crate::units::Span;
use alloc::string::String;

/// The parameters of reordering.
pub const PARAMS: &[Param] = &[
    Param {
        name: "probability",
        kind: Kind::Probability(0.0),
        help: "probability that a packet is delayed",
        source: "tc-netem(8)",
    },
    Param {
        name: "late",
        kind: Kind::Span(Span::ZERO, Span::ZERO, Span::s(10)),
        help: "time by which such a packet is delayed; required",
        source: "RFC 4737",
    },
    CORRELATION,
];

/// The models of reordering.
pub const KINDS: &[ElementKind] = &[ElementKind {
    name: "late",
    help: "delays packets with a probability, so that later packets overtake them",
    source: "RFC 4737; the draws of tc-netem(8)",
    params: PARAMS,
    check,
}];

fn check(params: &Params) -> Result<(), Refusal> {
    if params.number("probability") > 0.0 && params.span("late") == Span::ZERO {
        return Err(Refusal {
            param: "late",
            problem: String::from("must be above 0: nothing overtakes a packet that is not late"),
            fix: String::from("\"1ms\""),
        });
    }
    Ok(())
}

/// Decides which packets are late, and by how much.
#[derive(Clone, Debug)]
pub struct Reorder {
    trial: Bernoulli,
    late: Span,
}

impl Reorder {
    /// Creates the model from the values of [`PARAMS`]; `None` if no packet is ever late.
    pub fn new(params: &Params, rng: Rng) -> Option<Reorder> {
        let late = params.span("late");
        let trial = Bernoulli::of(params, rng)?;
        (late > Span::ZERO).then_some(Reorder { trial, late })
    }
    /// Returns the extra delay of the next packet; `None` if it is on time.
    pub fn lateness(&mut self) -> Option<Span> {
        self.trial.happens().then_some(self.late)
    }
}
