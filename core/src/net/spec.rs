//! The description of a path: hops, varying rates, buffers, links. This is plain data;
//! [`path`](super::path) and [`hop`](super::hop) are built from it.

use super::delay_schedule::{DelaySchedule, Delays};
use super::policer;
use super::rate_schedule::RateSchedule;
use super::shape::Shaper;
use super::trace::Trace;
use crate::param::{Choice, Params};
use crate::queue::Limit;
use crate::units::{Bytes, Rate, Span, Time};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The path between the hosts.
#[derive(Clone, PartialEq, Debug)]
pub struct PathSpec {
    /// The hops in the order of the forward path; at least one.
    pub hops: Vec<HopSpec>,
    /// The hop of the reverse path: for ACKs, responses, and data of uploads. `None` means
    /// propagation only.
    pub reverse: Option<HopSpec>,
    /// Whether super-packets cross the path unsegmented, as between machines with segmentation and
    /// receive offload. Queue, loss and receiver then handle one packet of up to 64 KiB.
    pub offload: bool,
    /// Whether the far hosts share one address on the path, as behind a home router
    /// (NAT).
    pub nat: bool,
    /// The names of the hops, if they are the links of a [network](super::topology) instead of a
    /// sequence.
    pub links: Option<Box<Links>>,
    /// Values of the keys of the whole path that have no field of their own here, by name.
    pub keys: Params,
}

/// The properties that links have beyond those of hops. The [`hops`](PathSpec::hops) of the path
/// are the links. The `delay_forward` of such a link is its propagation delay, and its `rtt` is the
/// longest two-way propagation delay of the routes over the link.
#[derive(Clone, PartialEq, Debug)]
pub struct Links {
    /// For each hop of the path.
    pub links: Vec<LinkPlace>,
    /// Switches, whose ports share memory.
    pub switches: Vec<SwitchSpec>,
}

/// The name and the place of a link.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkPlace {
    /// The name of the link.
    pub name: String,
    /// The node at its begin.
    pub from: Option<String>,
    /// The node at its end.
    pub to: Option<String>,
    /// The number of the switch whose memory its queue shares.
    pub switch: Option<u8>,
}

/// A switch whose ports share memory, with dynamic thresholds.
#[derive(Clone, PartialEq, Debug)]
pub struct SwitchSpec {
    /// The name of the switch.
    pub name: String,
    /// Its memory.
    pub buffer: Bytes,
    /// Maximum length of a queue, in multiples of the free memory.
    pub alpha: f64,
}

/// The route of a flow or a probe: numbers of links.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Route {
    /// From the sender of a download to the receiver; at least one.
    pub forward: Vec<u8>,
    /// In the reverse direction; empty for propagation only.
    pub back: Vec<u8>,
    /// Later routes in the order of time.
    pub changes: Vec<RouteChange>,
}

/// A change of a route.
#[derive(Clone, PartialEq, Debug)]
pub struct RouteChange {
    /// Time of the change.
    pub at: Span,
    /// As [`Route::forward`].
    pub forward: Vec<u8>,
    /// As [`Route::back`]; empty if that is empty.
    pub back: Vec<u8>,
}

/// A hop in one direction, and the propagation behind it.
#[derive(Clone, PartialEq, Debug)]
pub struct HopSpec {
    /// Rate of its link; the mean rate of a trace.
    pub rate: Rate,
    /// Changes of rate, delay and loss over time, if there are any.
    pub varying: Option<Box<Varying>>,
    /// Propagation delay of both directions together. The value is zero for the reverse hop,
    /// because the values of the forward hops include the delay of the reverse direction.
    pub rtt: Span,
    /// The part of `rtt` in the forward direction (half by default).
    pub delay_forward: Span,
    /// In a network of links, the longest base RTT of a flow over the link, with the flow's own
    /// `rtt`. Buffers in BDP are multiples of it.
    pub longest_rtt: Span,
    /// The buffer as given in the scenario.
    pub buffer: Option<Buffer>,
    /// The queue discipline.
    pub queue: Choice,
    /// The kind of link.
    pub link: Link,
    /// Random loss before the queue: one of [`loss::KINDS`](super::loss::KINDS).
    pub loss: Option<Choice>,
    /// Corruption: one of [`bernoulli::CORRUPT`](super::bernoulli::CORRUPT).
    pub corrupt: Option<Choice>,
    /// Duplication: one of [`bernoulli::DUPLICATE`](super::bernoulli::DUPLICATE).
    pub duplicate: Option<Choice>,
    /// Policer before the queue: one of [`policer::KINDS`].
    pub policer: Option<Choice>,
    /// Variation of propagation: one of [`jitter::KINDS`](super::jitter::KINDS).
    pub jitter: Option<Choice>,
    /// Reordering: one of [`reorder::KINDS`](super::reorder::KINDS).
    pub reorder: Option<Choice>,
    /// Values of the keys of a hop that have no field of their own here, by name.
    pub keys: Params,
}

/// Changes over time.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Varying {
    /// Changes of rate, delay and loss.
    pub steps: Vec<Step>,
    /// Outages: start and duration.
    pub outages: Vec<(Span, Span)>,
    /// Rates from a file, instead of `steps`.
    pub trace: Option<TraceFile>,
    /// Delays of the direction of the hop from a file, instead of those of `steps`.
    pub delays: Option<DelayFile>,
}

/// A change at one time; absent values do not change.
#[derive(Clone, PartialEq, Debug)]
pub struct Step {
    /// Time of the change.
    pub at: Span,
    /// The new rate.
    pub rate: Option<Rate>,
    /// The new two-way propagation delay of a hop, divided between the directions as the first
    /// one.
    pub rtt: Option<Span>,
    /// The new propagation delay of a link.
    pub delay: Option<Span>,
    /// Whether packets keep their order if the delay falls.
    pub ordered: bool,
    /// The new model of loss.
    pub loss: Option<Choice>,
}

impl Varying {
    /// Returns whether the rate varies.
    pub fn has_rates(&self) -> bool {
        let steps = self.steps.iter().any(|step| step.rate.is_some());
        steps || !self.outages.is_empty() || self.trace.is_some()
    }
    /// Returns whether the propagation delay varies.
    pub fn has_delays(&self) -> bool {
        let steps = self.steps.iter();
        self.delays.is_some() || steps.clone().any(|s| s.rtt.is_some() || s.delay.is_some())
    }
    /// Returns whether the model of loss varies.
    pub fn has_losses(&self) -> bool {
        self.steps.iter().any(|step| step.loss.is_some())
    }
    /// Returns the changes of the model of loss: time and new model, in the order of time.
    pub fn losses(&self) -> Vec<(Time, &Choice)> {
        let mut losses: Vec<(Time, &Choice)> = self
            .steps
            .iter()
            .filter_map(|step| Some((Time::ZERO + step.at, step.loss.as_ref()?)))
            .collect();
        losses.sort_by_key(|(at, _)| *at);
        losses
    }
    /// Returns the rate over time of a hop whose initial rate is `rate`. `None` if it does not
    /// vary, or if packets leave at delivery opportunities instead.
    pub fn schedule(&self, rate: Rate) -> Option<RateSchedule> {
        if !self.has_rates() {
            return None;
        }
        let steps: Vec<(Time, Rate)> = self
            .steps
            .iter()
            .filter_map(|step| Some((Time::ZERO + step.at, step.rate?)))
            .collect();
        let schedule = match self.trace.as_ref().map(|file| &file.trace) {
            Some(Trace::Deliveries(_)) => return None,
            Some(Trace::Rates(schedule)) => schedule.clone(),
            None => RateSchedule::new(rate, &steps),
        };
        let outages: Vec<(Time, Span)> = self
            .outages
            .iter()
            .map(|(at, lasts)| (Time::ZERO + *at, *lasts))
            .collect();
        Some(schedule.with_outages(&outages))
    }
    /// Returns the mean rate between two times, of a hop whose initial rate is `rate`. `None` if
    /// the rate does not vary, or if the times are equal.
    pub fn mean(&self, rate: Rate, from: Time, to: Time) -> Option<Rate> {
        match (
            self.trace.as_ref().map(|file| &file.trace),
            self.schedule(rate),
        ) {
            (Some(Trace::Deliveries(link)), _) => Rate::of(link.between(from, to), to.since(from)),
            (_, schedule) => {
                let work = schedule?
                    .work(from, to)
                    .checked_div(u128::from(to.since(from).as_ns()))?;
                Some(Rate::bit(u64::try_from(work).unwrap_or(u64::MAX)))
            }
        }
    }
}

/// A file that a scenario names, with its contents.
#[derive(Clone, PartialEq, Debug)]
pub struct TraceFile {
    /// The name of the file in the scenario.
    pub name: String,
    /// Whether a table of rates repeats after its end.
    pub repeats: bool,
    /// The contents of the file.
    pub trace: Trace,
}

/// A file with delays over time that a scenario names, with its contents.
#[derive(Clone, PartialEq, Debug)]
pub struct DelayFile {
    /// The name of the file in the scenario.
    pub name: String,
    /// Whether the table repeats after its end.
    pub repeats: bool,
    /// Whether packets keep their order if the delay falls.
    pub ordered: bool,
    /// The contents of the file.
    pub delays: Arc<DelaySchedule>,
}

/// A buffer as given in the scenario.
#[derive(Copy, Clone, PartialEq, Debug)]
pub enum Buffer {
    /// A number of bytes, such as `"250kB"`.
    Bytes(Bytes),
    /// A number of packets, such as `"170p"`.
    Packets(u64),
    /// A multiple of rate × rtt, such as `"1.5bdp"`.
    Bdp(f64),
}

impl HopSpec {
    /// Returns the long-term rate of the hop: the target of its link, or of a policer before it.
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
    /// Creates a serial link of `rate` behind `queue`, with half of `rtt` in each direction and no
    /// other element.
    pub fn new(rate: Rate, rtt: Span, queue: Choice) -> HopSpec {
        HopSpec {
            rate,
            varying: None,
            rtt,
            delay_forward: Span::ns(rtt.as_ns() / 2),
            longest_rtt: rtt,
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

impl HopSpec {
    /// Returns whether the rate of the hop varies.
    pub fn has_varying_rate(&self) -> bool {
        self.varying.as_ref().is_some_and(|v| v.has_rates())
    }
    /// Returns the propagation delay behind the hop in its direction over time.
    pub fn delays(&self) -> Delays {
        let first = self.delay_forward.min(self.rtt);
        match self.delay_file() {
            Some(file) => Delays::of(file),
            None => self.following(first, |step| {
                step.delay.or_else(|| step.rtt.map(|rtt| self.ahead(rtt)))
            }),
        }
    }
    /// Returns the part of the two-way propagation delay `rtt` in the forward direction.
    fn ahead(&self, rtt: Span) -> Span {
        part(rtt, self.delay_forward.min(self.rtt), self.rtt)
    }
    /// Returns the propagation delay behind a link at the start: that of `delay`, or the first one
    /// of a file.
    pub fn first_delay(&self) -> Span {
        let of_file = self.delay_file().map(|file| file.at(Time::ZERO));
        of_file.unwrap_or(self.delay_forward)
    }
    /// Returns the difference between the longest and the shortest delay behind the hop.
    pub fn delay_range(&self) -> Span {
        self.delays().range()
    }
    /// Returns the schedule of a file.
    fn delay_file(&self) -> Option<Arc<DelaySchedule>> {
        let file = self.varying.as_ref()?.delays.as_ref()?;
        Some(file.delays.clone())
    }
    /// Returns the delay `first`, and the changes that `of` finds in the steps.
    fn following(&self, first: Span, of: impl Fn(&Step) -> Option<Span>) -> Delays {
        let steps = self.varying.iter().flat_map(|v| &v.steps);
        let changes =
            steps.filter_map(|step| Some((Time::ZERO + step.at, of(step)?, step.ordered)));
        let changes: Vec<(Time, Span, bool)> = changes.collect();
        if changes.is_empty() {
            return Delays::constant(first);
        }
        Delays::of(Arc::new(DelaySchedule::new(first, changes)))
    }
}

/// Returns the part of `whole` that has the proportion of `of` to `all`, at most `whole`.
fn part(whole: Span, of: Span, all: Span) -> Span {
    let product = u128::from(whole.as_ns()) * u128::from(of.as_ns());
    // At most `whole`, so it fits.
    Span::ns((product / u128::from(all.as_ns().max(1))) as u64)
}

impl From<HopSpec> for PathSpec {
    /// Creates a path of one hop.
    fn from(hop: HopSpec) -> PathSpec {
        PathSpec {
            hops: alloc::vec![hop],
            reverse: None,
            offload: false,
            nat: false,
            links: None,
            keys: Params::default(),
        }
    }
}

impl PathSpec {
    /// Returns the two-way propagation delay over all hops; in a network of links, the longest of a
    /// route.
    pub fn rtt(&self) -> Span {
        if self.links.is_some() {
            let rtts = self.hops.iter().map(|hop| hop.rtt);
            return rtts.max().unwrap_or_default();
        }
        self.hops.iter().fold(Span::ZERO, |sum, hop| sum + hop.rtt)
    }
    /// Returns the part of the two-way propagation delay in the forward direction.
    pub fn delay_forward(&self) -> Span {
        if self.links.is_some() {
            return Span::ns(self.rtt().as_ns() / 2);
        }
        let forward = self.hops.iter().map(|hop| hop.delay_forward.min(hop.rtt));
        forward.fold(Span::ZERO, |sum, delay| sum + delay)
    }
    /// Returns the index of the hop with the lowest rate on the forward path; the first of equals.
    pub fn narrowest(&self) -> usize {
        let rates = self
            .hops
            .iter()
            .enumerate()
            .map(|(i, hop)| (hop.target(), i));
        rates.min().map_or(0, |(_, i)| i)
    }
    /// Returns the hop with the lowest rate on the forward path.
    pub fn bottleneck(&self) -> &HopSpec {
        &self.hops[self.narrowest()]
    }
    /// Returns the part of `rtt` in the forward direction, if `rtt` is divided in the same
    /// proportion as the RTT of the path.
    pub fn forward_part(&self, rtt: Span) -> Span {
        part(rtt, self.delay_forward(), self.rtt())
    }
    /// Returns the bandwidth-delay product: the bytes that the bottleneck sends in one RTT of the
    /// path.
    pub fn bdp(&self) -> Bytes {
        self.bottleneck().target() * self.rtt()
    }
    /// Returns the limit of the buffer of `hop`, in bytes or packets. One BDP is the rate of the
    /// hop × the rtt of the path, and at least one full frame. In a network of links, the rtt is
    /// the longest of a flow over the link.
    pub fn limit(&self, hop: &HopSpec) -> Option<Limit> {
        let rtt = if self.links.is_some() {
            hop.longest_rtt
        } else {
            self.rtt()
        };
        hop.buffer.map(|buffer| limit(buffer, hop.rate * rtt))
    }
    /// Returns the limit of `buffer`, with BDP converted to bytes of a link of this `rate`.
    pub fn resolve(&self, buffer: Buffer, rate: Rate) -> Limit {
        limit(buffer, rate * self.rtt())
    }
    /// Returns the sum of the initial propagation delays of these links.
    pub fn delay_over(&self, links: &[u8]) -> Span {
        let delays = links
            .iter()
            .map(|i| self.hops[usize::from(*i)].first_delay());
        delays.fold(Span::ZERO, |sum, delay| sum + delay)
    }
    /// Returns the same over time.
    pub fn delays_over(&self, links: &[u8]) -> Delays {
        let mut delays = Delays::default();
        for link in links {
            delays.add(self.hops[usize::from(*link)].delays());
        }
        delays
    }
    /// Returns the propagation delay of the reverse path of a sequence of hops over time.
    pub fn delays_back(&self) -> Delays {
        if let Some(file) = self.reverse.as_ref().and_then(HopSpec::delay_file) {
            return Delays::of(file);
        }
        let mut delays = Delays::default();
        for hop in &self.hops {
            let back = |rtt: Span| rtt - hop.ahead(rtt);
            let first = hop.rtt - hop.delay_forward.min(hop.rtt);
            delays.add(hop.following(first, |step| step.rtt.map(back)));
        }
        delays
    }
    /// Returns the initial two-way propagation delay of a route.
    pub fn rtt_of(&self, route: &Route) -> Span {
        self.rtt_over(&route.forward, &route.back)
    }
    /// Returns the initial two-way propagation delay over these links; `back` is empty for
    /// propagation only.
    pub fn rtt_over(&self, forward: &[u8], back: &[u8]) -> Span {
        let back = if back.is_empty() { forward } else { back };
        self.delay_over(forward) + self.delay_over(back)
    }
    /// Returns the lowest long-term rate of these links.
    pub fn rate_over(&self, links: &[u8]) -> Option<Rate> {
        links
            .iter()
            .map(|i| self.hops[usize::from(*i)].target())
            .min()
    }
}

/// The limit of `buffer` on a link with this bandwidth-delay product.
fn limit(buffer: Buffer, bdp: Bytes) -> Limit {
    match buffer {
        Buffer::Bytes(n) => Limit::Bytes(n),
        Buffer::Packets(n) => Limit::Packets(n),
        Buffer::Bdp(x) => Limit::Bytes(Bytes::new(((bdp.get() as f64 * x) as u64).max(1514))),
    }
}

/// The kind of a link.
#[derive(Copy, Clone, PartialEq, Debug)]
pub enum Link {
    /// A serial link, which sends one packet after the other.
    Serial,
    /// A token bucket, as tc's tbf.
    Tbf {
        /// Bytes that may leave back to back after idleness.
        burst: Bytes,
        /// Peak rate, and bytes that may leave back to back at that rate.
        peak: Option<(Rate, Bytes)>,
    },
    /// One class of tc's htb: a packet leaves when the packets before it are paid for, and is
    /// charged afterwards.
    Htb {
        /// Bytes that may leave back to back after idleness, plus one packet.
        burst: Bytes,
    },
    /// A router's `shape average`: the rate is its CIR.
    ShapeAverage {
        /// Committed burst: bytes of tokens that arrive in each interval of bc / CIR.
        bc: Bytes,
        /// Excess burst: additional tokens after idleness.
        be: Bytes,
    },
    /// A router's `shape peak`: its target is CIR × (1 + be / bc).
    ShapePeak {
        /// Committed burst: `bc + be` bytes of tokens arrive in each interval of bc / CIR.
        bc: Bytes,
        /// Excess burst.
        be: Bytes,
    },
}
