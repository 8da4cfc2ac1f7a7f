//! What a path is made of: hops, rates that vary, buffers, links. Plain data; [`path`](super::path)
//! and [`hop`](super::hop) build from it.

use super::policer;
use super::profile::Profile;
use super::shape::Shaper;
use super::trace::Trace;
use crate::param::{Choice, Params};
use crate::queue::Limit;
use crate::units::{Bytes, Rate, Span, Time};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// What lies between the hosts.
#[derive(Clone, PartialEq, Debug)]
pub struct PathSpec {
    /// In the order in which data of a flow that goes down meets them; at least one.
    pub hops: Vec<HopSpec>,
    /// What ACKs, answers and flows that go up meet; without it, nothing but distance.
    pub reverse: Option<HopSpec>,
    /// Do super-packets cross the path whole, as between machines with segmentation and receive
    /// offload? Queue, loss and receiver then see one packet of up to 64 KiB.
    pub offload: bool,
    /// Do the hosts at the far end share one address on the path, as behind a home's router?
    pub nat: bool,
    /// Keys of the whole path without a place of their own, under their names.
    pub keys: Params,
}

/// One narrow place, in one direction, and the propagation behind it.
#[derive(Clone, PartialEq, Debug)]
pub struct HopSpec {
    /// Of its link; of a trace the mean.
    pub rate: Rate,
    /// How the rate varies, if it does.
    pub varying: Option<Box<Varying>>,
    /// Two-way propagation; none behind a reverse hop, for the others say it already.
    pub rtt: Span,
    /// The part of it towards the receiver (half unless given).
    pub delay_forward: Span,
    /// As the scenario says it.
    pub buffer: Option<Buffer>,
    /// Its discipline.
    pub queue: Choice,
    /// How the rate is kept.
    pub link: Link,
    /// What is lost at random before the queue: one of [`loss::KINDS`](super::loss::KINDS).
    pub loss: Option<Choice>,
    /// What arrives damaged: one of [`chance::CORRUPT`](super::chance::CORRUPT).
    pub corrupt: Option<Choice>,
    /// What arrives twice: one of [`chance::DUPLICATE`](super::chance::DUPLICATE).
    pub duplicate: Option<Choice>,
    /// What may pass before the queue: one of [`policer::KINDS`](super::policer::KINDS).
    pub policer: Option<Choice>,
    /// How propagation varies: one of [`jitter::KINDS`](super::jitter::KINDS).
    pub jitter: Option<Choice>,
    /// What comes later than its turn: one of [`reorder::KINDS`](super::reorder::KINDS).
    pub reorder: Option<Choice>,
    /// Keys without a place of their own, under their names.
    pub keys: Params,
}

/// A rate that varies.
#[derive(Clone, PartialEq, Debug)]
pub struct Varying {
    /// From each time on this rate.
    pub steps: Vec<(Span, Rate)>,
    /// From each time on nothing at all, for so long.
    pub outages: Vec<(Span, Span)>,
    /// Every rate, from a file.
    pub trace: Option<TraceFile>,
}

impl Varying {
    /// The rate over time, of a hop whose `rate` is that at the start; `None` where packets leave
    /// at opportunities instead.
    pub fn profile(&self, rate: Rate) -> Option<Profile> {
        let steps: Vec<(Time, Rate)> = self
            .steps
            .iter()
            .map(|(at, rate)| (Time::ZERO + *at, *rate))
            .collect();
        let profile = match self.trace.as_ref().map(|file| &file.trace) {
            Some(Trace::Opportunities(_)) => return None,
            Some(Trace::Rates(profile)) => profile.clone(),
            None => Profile::new(rate, &steps),
        };
        let outages: Vec<(Time, Span)> = self
            .outages
            .iter()
            .map(|(at, lasts)| (Time::ZERO + *at, *lasts))
            .collect();
        Some(profile.with_outages(&outages))
    }
    /// The mean rate between two times, of a hop whose `rate` is that at the start; `None` where
    /// they are the same.
    pub fn mean(&self, rate: Rate, from: Time, to: Time) -> Option<Rate> {
        match (
            self.trace.as_ref().map(|file| &file.trace),
            self.profile(rate),
        ) {
            (Some(Trace::Opportunities(link)), _) => {
                Rate::of(link.between(from, to), to.since(from))
            }
            (_, profile) => {
                let work = profile?
                    .work(from, to)
                    .checked_div(u128::from(to.since(from).as_ns()))?;
                Some(Rate::bit(u64::try_from(work).unwrap_or(u64::MAX)))
            }
        }
    }
}

/// A file named in a scenario, as it was read.
#[derive(Clone, PartialEq, Debug)]
pub struct TraceFile {
    /// As the scenario names it.
    pub name: String,
    /// Does a table of rates begin anew after its end?
    pub repeats: bool,
    /// What it says.
    pub trace: Trace,
}

/// A buffer as the scenario says it.
#[derive(Copy, Clone, PartialEq, Debug)]
pub enum Buffer {
    /// `"250kB"`.
    Bytes(Bytes),
    /// `"170p"`.
    Packets(u64),
    /// `"1.5bdp"`: times rate × rtt.
    Bdp(f64),
}

impl HopSpec {
    /// The rate at which it sends in the long run: what its link targets, or a policer before it
    /// lets pass.
    pub fn target(&self) -> Rate {
        let link = match self.link {
            Link::ShapePeak { bc, be } => Shaper::peak(self.rate, bc, be).target(),
            _ => self.rate,
        };
        let policed = self
            .policer
            .as_ref()
            .and_then(|c| policer::passes(&c.kind, &c.params));
        policed.map_or(link, |rate| rate.min(link))
    }
    /// A serial link of `rate` behind `queue`, half of `rtt` each way, and nothing else.
    pub fn new(rate: Rate, rtt: Span, queue: Choice) -> HopSpec {
        HopSpec {
            rate,
            varying: None,
            rtt,
            delay_forward: Span::ns(rtt.as_ns() / 2),
            buffer: None,
            queue,
            link: Link::Serial,
            loss: None,
            corrupt: None,
            duplicate: None,
            policer: None,
            jitter: None,
            reorder: None,
            keys: Params::default(),
        }
    }
}

impl From<HopSpec> for PathSpec {
    /// A path of one hop.
    fn from(hop: HopSpec) -> PathSpec {
        PathSpec {
            hops: alloc::vec![hop],
            reverse: None,
            offload: false,
            nat: false,
            keys: Params::default(),
        }
    }
}

impl PathSpec {
    /// Two-way propagation over all hops.
    pub fn rtt(&self) -> Span {
        self.hops.iter().fold(Span::ZERO, |sum, hop| sum + hop.rtt)
    }
    /// The part of it towards the receiver.
    pub fn delay_forward(&self) -> Span {
        let forward = self.hops.iter().map(|hop| hop.delay_forward.min(hop.rtt));
        forward.fold(Span::ZERO, |sum, delay| sum + delay)
    }
    /// The number of the narrowest hop on the way there; the first of equals.
    pub fn narrowest(&self) -> usize {
        let rates = self
            .hops
            .iter()
            .enumerate()
            .map(|(i, hop)| (hop.target(), i));
        rates.min().map_or(0, |(_, i)| i)
    }
    /// The narrowest hop on the way there.
    pub fn bottleneck(&self) -> &HopSpec {
        &self.hops[self.narrowest()]
    }
    /// The part of `rtt` towards the receiver, in the path's proportion.
    pub fn forward_part(&self, rtt: Span) -> Span {
        let forward = u128::from(rtt.as_ns()) * u128::from(self.delay_forward().as_ns());
        // At most `rtt`, so it fits.
        Span::ns((forward / u128::from(self.rtt().as_ns().max(1))) as u64)
    }
    /// What the narrowest hop sends in a whole rtt.
    pub fn bdp(&self) -> Bytes {
        self.bottleneck().target() * self.rtt()
    }
    /// The buffer of `hop` with `bdp` resolved to bytes, its own rate × the whole rtt (at least one
    /// full frame).
    pub fn limit(&self, hop: &HopSpec) -> Option<Limit> {
        hop.buffer.map(|buffer| self.resolve(buffer, hop.rate))
    }
    /// `buffer` with `bdp` resolved to bytes of a link of this `rate`.
    pub fn resolve(&self, buffer: Buffer, rate: Rate) -> Limit {
        let bdp = rate * self.rtt();
        match buffer {
            Buffer::Bytes(n) => Limit::Bytes(n),
            Buffer::Packets(n) => Limit::Packets(n),
            Buffer::Bdp(x) => Limit::Bytes(Bytes::new(((bdp.get() as f64 * x) as u64).max(1514))),
        }
    }
}

/// How a rate is kept.
#[derive(Copy, Clone, PartialEq, Debug)]
pub enum Link {
    /// One packet after the other, each for its time on the wire.
    Serial,
    /// A token bucket, as tc's tbf.
    Tbf {
        /// Bytes that may leave back to back after idleness.
        burst: Bytes,
        /// How fast they may, and bytes that may leave back to back at that.
        peak: Option<(Rate, Bytes)>,
    },
    /// One class of tc's htb: a packet leaves when the ones before it are paid for, and is paid for
    /// afterwards.
    Htb {
        /// Bytes that may leave back to back after idleness, and one packet more.
        burst: Bytes,
    },
    /// A router's `shape average`: the rate is its CIR.
    ShapeAverage {
        /// Committed burst: what comes in each interval of bc / CIR.
        bc: Bytes,
        /// Excess burst: what may go in addition after idleness.
        be: Bytes,
    },
    /// A router's `shape peak`: it targets CIR × (1 + be / bc).
    ShapePeak {
        /// Committed burst: it and `be` come in each interval of bc / CIR.
        bc: Bytes,
        /// Excess burst.
        be: Bytes,
    },
}
