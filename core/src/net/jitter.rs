//! Propagation with jitter: a random delay for each packet, so that packets may overtake each
//! other. For a constant delay see [`ConstantDelay`](super::delay::ConstantDelay).
//!
//! Algorithm: the delay of a packet is `max(0, delay + spread · q(u))`, with `u` uniform in 0…1.
//! With `ordered`, a packet waits for the packets before it; otherwise each packet leaves at its
//! own time. Packets that leave at one instant keep their order of entry. The delay itself may
//! change over time ([`Delays`]), and packets may then overtake those that entered before the
//! change.
//!
//! | kind | q(u) | mean of q | standard deviation of q |
//! |---|---|---|---|
//! | `uniform` | 2u − 1 | 0 | 0.577 |
//! | `normal` | Φ⁻¹(u), within ±4 | 0 | 1.000 |
//! | `pareto` | 4/3 · ((1 − u)^(−1/3) − 3/2), at most 4 | −0.033 | 0.821 |
//! | `paretonormal` | a quarter of `normal` and three of `pareto` at the same u | −0.025 | 0.835 |
//!
//! The scales are netem's: an entry of its tables is q · 8192 in 16 bits, so no value exceeds 4
//! spreads. As in netem, NIST Net's Pareto distribution (shape 3, mean 3/2, variance 3/4) is
//! divided by its variance, not by its standard deviation.
//!
//! Sources: tc-netem(8); the table generators of iproute2 6.x (`normal`, `pareto`, `paretonormal`);
//! Linux 6.12 `sch_netem`. Φ⁻¹ is from Abramowitz & Stegun 26.2.23, refined once by Halley's rule.
//!
//! Deviations:
//! - q is computed, where netem reads a table of 4096 entries.
//! - `correlation` applies to the normal variates from which successive `u` are computed. The
//!   distribution of the delays therefore does not depend on the correlation `c`: `z ← c · z + √(1
//!   − c²) · g`, `u = Φ(z)`, with `g` normal. Linux mixes uniform numbers and takes them modulo the
//!   table's size or twice the spread, which removes the correlation. With `delay 100ms 10ms 90%`,
//!   the correlation of Linux 6.12 is −0.003 over 30 000 packets. The distribution of these delays
//!   equals the distribution without correlation.
//! - `ordered` corresponds to netem with an inner queue that keeps order. Without such a queue,
//!   netem reorders, as does `ordered = false`.

use super::ElementKind;
use super::delay_schedule::Delays;
use super::reorder::Reorder;
use crate::param::{Kind, Param, Params, no_check};
use crate::rng::Rng;
use crate::units::{Span, Time};
use alloc::collections::{BinaryHeap, VecDeque};
use core::cmp::Ordering;

/// The parameters of all kinds.
pub const PARAMS: &[Param] = &[
    Param {
        name: "spread",
        kind: Kind::Span(Span::ZERO, Span::ZERO, Span::s(10)),
        help: "scale of the variation: half of the range (uniform), the standard deviation \
            (normal)",
        source: "tc-netem(8) jitter",
    },
    Param {
        name: "correlation",
        kind: Kind::Probability(0.0),
        help: "correlation of each packet's variation with the previous one",
        source: "tc-netem(8); the distribution stays as it is",
    },
    Param {
        name: "ordered",
        kind: Kind::Bool(true),
        help: "a packet waits for the previous one instead of overtaking it",
        source: "most links keep order; netem alone does not",
    },
];

const fn kind(name: &'static str, help: &'static str) -> ElementKind {
    ElementKind {
        name,
        help,
        source: "tc-netem(8), iproute2's tables from their definitions",
        params: PARAMS,
        check: no_check,
    }
}

/// The distributions of the variation.
pub const KINDS: &[ElementKind] = &[
    kind(
        "uniform",
        "uniformly distributed: propagation delay ± spread",
    ),
    kind(
        "normal",
        "normally distributed with the standard deviation `spread`: propagation delay ± at most \
         4 spreads",
    ),
    kind(
        "pareto",
        "with a long tail: from propagation delay − 2/3 spread to propagation delay + 4 spreads",
    ),
    kind(
        "paretonormal",
        "three parts of pareto and one of normal, as NIST Net measured in networks",
    ),
];

/// The largest value of 16 bits in units of 1/8192.
const MOST: f64 = 32_767.0 / 8192.0;

/// The distribution function Φ of the normal distribution at `z`.
fn normal(z: f64) -> f64 {
    0.5 * libm::erfc(-z * core::f64::consts::FRAC_1_SQRT_2)
}

/// The inverse of Φ, with an error of at most 1e-11 within 4 standard deviations; `u` is in 0…1,
/// ends excluded.
fn normal_quantile(u: f64) -> f64 {
    let tail = u.min(1.0 - u);
    let t = libm::sqrt(-2.0 * libm::log(tail));
    let above = 2.515517 + t * (0.802853 + t * 0.010328);
    let below = 1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308));
    // Negative, as of the lower tail; the upper one mirrors it.
    let z = above / below - t;
    let density = libm::exp(-0.5 * z * z) * 0.398_942_280_401_432_7;
    let step = (normal(z) - tail) / density;
    let z = z - step / (1.0 + 0.5 * z * step);
    if u < 0.5 { z } else { -z }
}

#[derive(Copy, Clone, PartialEq, Debug)]
enum Shape {
    Uniform,
    Normal,
    Pareto,
    ParetoNormal,
}

impl Shape {
    fn named(kind: &str) -> Shape {
        match kind {
            "normal" => Shape::Normal,
            "pareto" => Shape::Pareto,
            "paretonormal" => Shape::ParetoNormal,
            _ => Shape::Uniform,
        }
    }
    /// Returns the quantile q(`u`) in units of the spread.
    fn quantile(self, u: f64) -> f64 {
        let bell = |u| normal_quantile(u).clamp(-MOST, MOST);
        let tail = |u: f64| ((1.0 / libm::cbrt(1.0 - u) - 1.5) * (4.0 / 3.0)).min(MOST);
        match self {
            Shape::Uniform => 2.0 * u - 1.0,
            Shape::Normal => bell(u),
            Shape::Pareto => tail(u),
            Shape::ParetoNormal => 0.25 * bell(u) + 0.75 * tail(u),
        }
    }
}

/// The random variation of successive packets.
#[derive(Clone, Debug)]
struct Spread {
    shape: Shape,
    /// The spread, in nanoseconds.
    scale: f64,
    ordered: bool,
    correlation: f64,
    /// The previous normal deviate; used only with a correlation.
    z: f64,
    rng: Rng,
}

impl Spread {
    fn new(kind: &str, params: &Params, mut rng: Rng) -> Spread {
        let correlation = params.number("correlation").clamp(0.0, 1.0);
        Spread {
            shape: Shape::named(kind),
            scale: params.span("spread").as_ns() as f64,
            ordered: params.bool("ordered"),
            correlation,
            z: if correlation > 0.0 {
                normal_quantile(within(&mut rng))
            } else {
                0.0
            },
            rng,
        }
    }
    fn vary(&mut self, delay: Span) -> Span {
        let mut u = within(&mut self.rng);
        if self.correlation > 0.0 {
            let c = self.correlation;
            self.z = c * self.z + libm::sqrt(1.0 - c * c) * normal_quantile(u);
            // From nine standard deviations up, Φ is 1 in floating point.
            u = normal(self.z).min(1.0 - f64::EPSILON);
        }
        let by = libm::round(self.scale * self.shape.quantile(u)) as i64;
        Span::ns(delay.as_ns().saturating_add_signed(by))
    }
}

/// A random number, uniformly distributed in 0…1, ends excluded.
fn within(rng: &mut Rng) -> f64 {
    ((rng.next_u64() >> 12) as f64 + 0.5) / (1u64 << 52) as f64
}

/// A packet in the line, with its departure time and its number in order of entry.
#[derive(Clone, Debug)]
struct Apart<P> {
    at: Time,
    number: u64,
    packet: P,
}

impl<P> Ord for Apart<P> {
    /// Reversed, so that the heap has the earliest on top.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}
impl<P> PartialOrd for Apart<P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<P> PartialEq for Apart<P> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl<P> Eq for Apart<P> {}

/// A line of varying delay.
#[derive(Clone, Debug)]
pub struct Jitter<P> {
    delays: Delays,
    spread: Option<Spread>,
    reorder: Option<Reorder>,
    /// Departure of the last packet in order.
    last: Time,
    /// Number of packets that have entered.
    entered: u64,
    /// Packets in order of departure, which is their order of entry.
    turn: VecDeque<Apart<P>>,
    apart: BinaryHeap<Apart<P>>,
}

impl<P> Jitter<P> {
    /// Creates an empty line of the constant delay `delay`.
    pub fn new(delay: Span) -> Jitter<P> {
        Jitter::following(Delays::constant(delay))
    }
    /// Creates an empty line whose delay changes over time.
    pub fn following(delays: Delays) -> Jitter<P> {
        Jitter {
            delays,
            spread: None,
            reorder: None,
            last: Time::ZERO,
            entered: 0,
            turn: VecDeque::new(),
            apart: BinaryHeap::new(),
        }
    }
    /// Returns this line with the variation named `kind`. An unknown name selects the first of
    /// [`KINDS`]; scenarios are checked before. A spread of zero means that the delay does not
    /// vary.
    pub fn varying(mut self, kind: &str, params: &Params, rng: Rng) -> Jitter<P> {
        self.spread = (params.span("spread") > Span::ZERO).then(|| Spread::new(kind, params, rng));
        self
    }
    /// Returns this line with reordering by the parameters of [`reorder`](super::reorder).
    pub fn reordering(mut self, params: &Params, rng: Rng) -> Jitter<P> {
        self.reorder = Reorder::new(params, rng);
        self
    }
    /// Adds `packet`. The caller never passes an earlier `now` than in the call before.
    pub fn push(&mut self, now: Time, packet: P) {
        let (delay, overtakes) = self.delays.next(now);
        if overtakes {
            self.last = Time::ZERO;
        }
        let (delay, ordered) = match &mut self.spread {
            Some(spread) => (spread.vary(delay), spread.ordered),
            None => (delay, true),
        };
        let mut at = now + delay;
        if ordered {
            at = at.max(self.last);
            self.last = at;
        }
        let late = self.reorder.as_mut().and_then(Reorder::lateness);
        let number = self.entered;
        self.entered += 1;
        match late {
            Some(late) => self.apart.push(Apart {
                at: at + late,
                number,
                packet,
            }),
            None if self.turn.back().is_some_and(|last| at < last.at) => {
                self.apart.push(Apart { at, number, packet })
            }
            None => self.turn.push_back(Apart { at, number, packet }),
        }
    }
    /// Returns when the next packet leaves; [`Time::MAX`] from an empty line.
    pub fn next(&self) -> Time {
        let turn = self.turn.front().map_or(Time::MAX, |p| p.at);
        turn.min(self.apart.peek().map_or(Time::MAX, |p| p.at))
    }
    /// Returns the next packet if it leaves by `now`.
    pub fn pop(&mut self, now: Time) -> Option<P> {
        // In the reversed order the greater is the earlier; `None` is least.
        let (turn, apart) = (self.turn.front(), self.apart.peek());
        let first = turn.max(apart)?;
        if first.at > now {
            return None;
        }
        let popped = if turn > apart {
            self.turn.pop_front()
        } else {
            self.apart.pop()
        };
        popped.map(|p| p.packet)
    }
    /// Returns the packet that leaves as the `n`th from now, counted from 0, or `None` if this is
    /// not known without sorting.
    pub fn coming(&self, n: usize) -> Option<&P> {
        let ahead = if self.apart.is_empty() {
            self.turn.get(n)
        } else {
            None
        };
        ahead.map(|p| &p.packet)
    }
    /// Returns the number of packets in the line.
    pub fn len(&self) -> usize {
        self.turn.len() + self.apart.len()
    }
    /// Returns whether the line is empty.
    pub fn is_empty(&self) -> bool {
        self.turn.is_empty() && self.apart.is_empty()
    }
}
