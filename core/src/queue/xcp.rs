//! The router of XCP: a FIFO that determines how much each sender may change its window.
//!
//! Algorithm, once per control interval. `rtt`, `cwnd` and `s` are the RTT and the window in the
//! header of a packet and its size. The interval lasts `d`, the mean RTT of the packets, in which
//! each packet has the weight `rtt · s/cwnd`:
//! - efficiency: the aggregate change of all windows is `φ = α d S − β Q` bytes. `S` is the
//!   capacity minus the arrival rate, bytes/s; `Q` is the minimum of the queue in a recent period,
//!   bytes;
//! - fairness: `φ > 0` is distributed equally among flows (additive increase), `p = ξp rtt² s/cwnd`
//!   per packet. `φ < 0` is distributed in proportion to the rates (multiplicative decrease), `n =
//!   ξn rtt s` per packet;
//! - shuffling: `h = max(0, γ y − |φ|)` bytes are given to all flows equally and taken from them in
//!   proportion to their rates, so that rates become equal. `y` is the traffic that arrives in `d`,
//!   bytes;
//! - the factors are `ξp = (h + max(φ, 0)) / (d Σ rtt s/cwnd)` and `ξn = (h + max(−φ, 0)) / (d Σ
//!   s)`. The sums are over the packets of the previous interval.
//!
//! A leaving packet gets a window change of at most `p − n`. Each allotted change is subtracted
//! from the remaining total of the interval (the residue).
//!
//! Sources: Katabi, Handley, Rohrs: Congestion Control for High Bandwidth-Delay Product Networks
//! (SIGCOMM 2002), section 3.5 and appendix A. The period of the minimum of the queue is that of
//! draft-falk-xcp-spec-03. It is half of the difference between `d` and the present queueing delay,
//! at least 2 ms. The control is stable for `0 < α < π/(4√2)` and `β = α²√2`, at any delay and
//! rate. Details:
//! - the first interval begins with the first header and lasts the RTT in this header. Before its
//!   end, no sender gets positive feedback. Packets whose header has no RTT never get any;
//! - packets without a header count in `y` and `S`, and the change is distributed among packets
//!   with a header;
//! - no timer ends an interval: the first packet after its duration causes the calculation;
//! - an interval lasts at least a millisecond, which limits the computing time.
//!
//! The capacity is the rate of the link. If the rate varies, the router uses its mean. If the
//! medium is shared, the router does not know its actual capacity.

use super::fifo::Fifo;
use super::{Backlog, Limit, QueueContext, QueueDiscipline, QueueKind, Sink};
use crate::packet::{Congestion, Feedback, Packet};
use crate::param::{Kind, Param, Params, no_check};
use crate::units::{Bytes, Span, Time};
use alloc::boxed::Box;

/// The parameters of the queue discipline.
pub const PARAMS: &[Param] = &[
    Param {
        name: "alpha",
        kind: Kind::Number(0.4, 0.0, 10.0),
        help: "share of the unused rate that is distributed per control interval; stable below \
            0.555",
        source: "Katabi, Handley, Rohrs 2002, section 4.1",
    },
    Param {
        name: "beta",
        kind: Kind::Number(0.226, 0.0, 10.0),
        help: "share of the standing queue that is removed per control interval; alpha² √2 is \
            stable",
        source: "Katabi, Handley, Rohrs 2002, section 4.1",
    },
    Param {
        name: "gamma",
        kind: Kind::Number(0.1, 0.0, 1.0),
        help: "smallest share of the traffic that moves between flows per control interval",
        source: "Katabi, Handley, Rohrs 2002, section 3.5.2",
    },
];

/// Minimum period of a measurement of the minimum queue.
const ALLOWED_QUEUE: Span = Span::ms(2);
/// Minimum control interval.
const LEAST_INTERVAL: Span = Span::ms(1);

/// The traffic of one control interval.
#[derive(Copy, Clone, Debug, Default)]
struct Sums {
    /// Bytes of all packets.
    input: f64,
    /// Bytes of packets with a header.
    size: f64,
    /// `Σ rtt · s/cwnd`, s.
    gap: f64,
    /// `Σ rtt² · s/cwnd`, s².
    rtt_gap: f64,
}

/// The increase and decrease of one control interval.
#[derive(Copy, Clone, PartialEq, Debug, Default)]
struct Shares {
    /// `ξp`, bytes/s².
    gain: f64,
    /// `ξn`, 1/s.
    cut: f64,
    /// The increase and the decrease that are still available in this interval, bytes/s.
    left: (f64, f64),
}

/// The efficiency controller and the fairness controller.
#[derive(Clone, Debug)]
struct Law {
    alpha: f64,
    beta: f64,
    gamma: f64,
    /// Capacity, bytes/s.
    capacity: f64,
    /// Start and end of the control interval; `None` before the first header.
    interval: Option<(Time, Time)>,
    /// `d`, the mean RTT, s.
    mean_rtt: f64,
    sums: Sums,
    shares: Shares,
    /// `Q`, bytes.
    queue: f64,
    /// The minimum of the queue in the present measurement.
    least: Bytes,
    /// End of the present measurement of the minimum queue.
    queue_until: Time,
}

impl Law {
    fn new(params: &Params, context: &QueueContext) -> Law {
        Law {
            alpha: params.number("alpha"),
            beta: params.number("beta"),
            gamma: params.number("gamma"),
            capacity: context.rate.as_bit() as f64 / 8.0,
            interval: None,
            mean_rtt: 0.0,
            sums: Sums::default(),
            shares: Shares::default(),
            queue: 0.0,
            least: Bytes::ZERO,
            queue_until: Time::ZERO,
        }
    }

    fn on_arrival(&mut self, now: Time, size: Bytes, header: Option<Congestion>, waiting: Bytes) {
        let header = header.filter(|h| h.rtt() > Span::ZERO);
        if let (None, Some(header)) = (self.interval, header) {
            self.mean_rtt = header.rtt().as_s();
            self.interval = Some((now, now + header.rtt().max(LEAST_INTERVAL)));
        }
        self.catch_up(now, waiting);
        let size = size.get() as f64;
        self.sums.input += size;
        if let Some(header) = header {
            let rtt = header.rtt().as_s();
            let gap = rtt * size / header.cwnd().get() as f64;
            self.sums.size += size;
            self.sums.gap += gap;
            self.sums.rtt_gap += rtt * gap;
        }
    }

    /// The feedback of a packet that leaves now: its request, or the allowed change if that is
    /// less. `waiting` is the number of bytes that remain in the queue.
    fn on_departure(
        &mut self,
        now: Time,
        size: Bytes,
        header: &Congestion,
        waiting: Bytes,
    ) -> Feedback {
        self.catch_up(now, waiting);
        let requested = header.feedback.as_bytes();
        let (rtt, size) = (header.rtt().as_s(), size.get() as f64);
        if rtt <= 0.0 {
            return header.feedback.min(Feedback::default());
        }
        let shares = &mut self.shares;
        let gain = shares.gain * rtt * rtt * size / header.cwnd().get() as f64;
        let cut = shares.cut * rtt * size;
        let allowed = gain - cut;
        // Only the part of the allowed change that the packet requests is subtracted.
        let (given, taken) = if requested > allowed {
            (gain, cut)
        } else if requested > 0.0 {
            (requested, allowed - requested)
        } else {
            (0.0, -requested + allowed.max(0.0))
        };
        shares.left.0 -= given / rtt;
        shares.left.1 -= taken / rtt;
        if shares.left.0 <= 0.0 {
            shares.gain = 0.0;
        }
        if shares.left.1 <= 0.0 {
            shares.cut = 0.0;
        }
        Feedback::bytes(requested.min(allowed))
    }

    /// Ends the intervals and the measurement of the minimum queue that are over by `now`.
    fn catch_up(&mut self, now: Time, waiting: Bytes) {
        if now >= self.queue_until {
            self.queue = self.least.get() as f64;
            self.least = waiting;
            let delay = waiting.get() as f64 / self.capacity;
            let time = Span::ns(((self.mean_rtt - delay) / 2.0 * 1e9) as u64);
            self.queue_until = now + time.max(ALLOWED_QUEUE);
        }
        self.least = self.least.min(waiting);
        // After the second interval without packets, nothing is left to compute.
        for _ in 0..2 {
            match self.interval {
                Some((since, until)) if now >= until => self.end_interval(since, until),
                _ => return,
            }
        }
        self.interval = Some((now, now + self.length()));
    }

    fn length(&self) -> Span {
        Span::ns((self.mean_rtt * 1e9) as u64).max(LEAST_INTERVAL)
    }

    fn end_interval(&mut self, since: Time, until: Time) {
        let sums = core::mem::take(&mut self.sums);
        if sums.gap > 0.0 {
            self.mean_rtt = sums.rtt_gap / sums.gap;
        }
        let d = self.mean_rtt;
        let input = sums.input / until.since(since).as_s();
        let change = self.alpha * d * (self.capacity - input) - self.beta * self.queue;
        let shuffled = (self.gamma * input * d - libm::fabs(change)).max(0.0);
        let (more, less) = (shuffled + change.max(0.0), shuffled + (-change).max(0.0));
        let per = |total: f64, sum: f64| if sum > 0.0 { total / (d * sum) } else { 0.0 };
        self.shares = Shares {
            gain: per(more, sums.gap),
            cut: per(less, sums.size),
            left: (more / d, less / d),
        };
        self.interval = Some((until, until + self.length()));
    }
}

/// The queue discipline `xcp`: a FIFO that drops arriving packets when it is full, and writes
/// feedback to senders.
pub struct Xcp<P> {
    queue: Fifo<P>,
    law: Law,
}

impl<P: Packet + Send> QueueDiscipline<P> for Xcp<P> {
    fn enqueue(&mut self, now: Time, packet: P, sink: &mut dyn Sink<P>) {
        let waiting = self.queue.backlog().bytes;
        self.law
            .on_arrival(now, packet.size(), packet.congestion(), waiting);
        self.queue.enqueue(now, packet, sink);
    }
    fn dequeue(&mut self, now: Time, sink: &mut dyn Sink<P>) -> Option<P> {
        let mut packet = self.queue.dequeue(now, sink)?;
        let waiting = self.queue.backlog().bytes;
        match packet.congestion() {
            Some(header) => {
                let feedback = self.law.on_departure(now, packet.size(), &header, waiting);
                packet.set_feedback(feedback);
            }
            None => self.law.catch_up(now, waiting),
        }
        Some(packet)
    }
    fn peek(&self) -> Option<Bytes> {
        self.queue.peek()
    }
    fn wakes(&self) -> bool {
        false
    }
    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }
}

/// The registry entry.
pub fn kind<P: Packet + Send + 'static>() -> QueueKind<P> {
    QueueKind {
        name: "xcp",
        help: "first in, first out; writes into packets by how much the flows of xcp change their \
            windows",
        source: "Katabi, Handley, Rohrs 2002; draft-falk-xcp-spec-03",
        params: PARAMS,
        check: no_check,
        feedback: true,
        make: &|params: &Params, context: &QueueContext| {
            Box::new(Xcp::<P> {
                queue: Fifo::new(context.limit.unwrap_or(Limit::Packets(1000))),
                law: Law::new(params, context),
            })
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Rate;

    const SIZE: Bytes = Bytes::new(1000);

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::ms(ms)
    }
    fn law(rate: Rate) -> Law {
        let context = QueueContext {
            limit: None,
            rate,
            hz: 1000,
            seed: 1,
        };
        Law::new(&Params::defaults(PARAMS), &context)
    }
    /// A flow with a window of this many packets that requests the maximum.
    fn header(packets: u64, rtt_ms: u64) -> Congestion {
        Congestion::new(
            Bytes::new(packets * 1000),
            Span::ms(rtt_ms),
            Feedback::bytes(8e6),
        )
    }
    /// Flows with windows and RTTs of (packets, ms) send one window each in an interval, which then
    /// ends. `waiting` is the minimum of the queue, bytes.
    fn interval(law: &mut Law, flows: &[(u64, u64)], waiting: u64) {
        let waiting = Bytes::new(waiting);
        let begin = law.interval.map_or(at(0), |(since, _)| since);
        for (packets, rtt) in flows {
            for _ in 0..*packets {
                law.on_arrival(begin, SIZE, Some(header(*packets, *rtt)), waiting);
            }
        }
        let end = law.interval.map_or(at(0), |(_, until)| until);
        law.catch_up(end, waiting);
    }
    fn near(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-6 * b.abs().max(1.0), "{a} is not {b}");
    }

    /// 10 packets arrive in 100 ms on a link that could send 100: φ = 0.4 · 90 kB.
    #[test]
    fn unused_capacity_is_distributed() {
        let mut law = law(Rate::mbit(8));
        interval(&mut law, &[(10, 100)], 0);
        near(law.mean_rtt, 0.1);
        near(law.shares.left.0 * 0.1, 0.4 * 90_000.0);
        near(law.shares.left.1, 0.0);
        // Ten packets carry it: 3.6 kB each.
        for _ in 0..10 {
            near(
                law.on_departure(at(100), SIZE, &header(10, 100), Bytes::ZERO)
                    .as_bytes(),
                3_600.0,
            );
        }
    }

    /// 100 packets on a full link with 50 kB that never drain: φ = −0.226 · 50 kB.
    #[test]
    fn a_persistent_queue_reduces_the_feedback() {
        let mut law = law(Rate::mbit(8));
        law.gamma = 0.0;
        law.queue = 50_000.0;
        law.queue_until = Time::MAX;
        interval(&mut law, &[(100, 100)], 50_000);
        near(law.shares.left.0, 0.0);
        near(law.shares.left.1 * 0.1, 11_300.0);
        let cut = law
            .on_departure(at(100), SIZE, &header(100, 100), Bytes::ZERO)
            .as_bytes();
        assert!((cut + 113.0).abs() < 0.01, "{cut}");
    }

    #[test]
    fn the_persistent_queue_is_the_minimum_of_half_an_rtt() {
        let mut law = law(Rate::mbit(8));
        law.mean_rtt = 0.1;
        law.catch_up(at(1000), Bytes::new(20_000));
        // 20 kB are 20 ms: measured for (100 − 20)/2 ms.
        assert_eq!(law.queue_until, at(1040));
        law.catch_up(at(1010), Bytes::new(5_000));
        law.catch_up(at(1020), Bytes::new(30_000));
        law.catch_up(at(1040), Bytes::new(30_000));
        near(law.queue, 5_000.0);
        law.mean_rtt = 0.0;
        law.catch_up(at(2000), Bytes::ZERO);
        assert_eq!(law.queue_until, at(2002));
    }

    /// Additive increase: two flows get the same increase of rate, at any rate.
    #[test]
    fn increase_is_shared_equally() {
        let mut law = law(Rate::mbit(80));
        interval(&mut law, &[(90, 100), (10, 100)], 0);
        let mut all = |packets: u64| -> f64 {
            (0..packets)
                .map(|_| {
                    law.on_departure(at(100), SIZE, &header(packets, 100), Bytes::ZERO)
                        .as_bytes()
                })
                .sum()
        };
        let (large, small) = (all(90), all(10));
        assert!((large - small).abs() < 1.0, "{large} {small}");
        assert!((large + small - 0.4 * 900_000.0).abs() < 1.0);
    }

    /// The same for flows with different round trips: `rtt²` turns the change of a window into one
    /// of rate.
    #[test]
    fn near_and_far_get_the_same_rate() {
        let mut law = law(Rate::mbit(80));
        interval(&mut law, &[(50, 100)], 0);
        let gain = |law: &mut Law, rtt: u64| {
            law.clone()
                .on_departure(at(100), SIZE, &header(50, rtt), Bytes::ZERO)
                .as_bytes()
        };
        // Per packet ∝ rtt²: a window passes once per rtt, so its rate, cwnd/rtt, changes equally
        // in the same time.
        near(gain(&mut law, 200) / gain(&mut law, 100), 4.0);
    }

    /// Multiplicative decrease: the rate of each flow decreases by the same share.
    #[test]
    fn decrease_is_in_proportion() {
        let mut law = law(Rate::mbit(4));
        law.gamma = 0.0;
        interval(&mut law, &[(90, 100), (10, 100)], 0);
        // φ = 0.4 · (50 − 100) kB.
        let mut all = |packets: u64| -> f64 {
            (0..packets)
                .map(|_| {
                    law.on_departure(at(100), SIZE, &header(packets, 100), Bytes::ZERO)
                        .as_bytes()
                })
                .sum()
        };
        let (large, small) = (all(90), all(10));
        assert!(
            (large / 90_000.0 - small / 10_000.0).abs() < 1e-3,
            "{large} {small}"
        );
        assert!((large + small + 20_000.0).abs() < 1.0);
    }

    /// A full link without a queue: φ = 0, and a tenth of the traffic is shuffled.
    #[test]
    fn a_tenth_is_shuffled_on_a_full_link() {
        let mut law = law(Rate::mbit(8));
        interval(&mut law, &[(90, 100), (10, 100)], 0);
        near(law.shares.left.0 * 0.1, 10_000.0);
        near(law.shares.left.1 * 0.1, 10_000.0);
        let mut all = |packets: u64| -> f64 {
            (0..packets)
                .map(|_| {
                    law.on_departure(at(100), SIZE, &header(packets, 100), Bytes::ZERO)
                        .as_bytes()
                })
                .sum()
        };
        let (large, small) = (all(90), all(10));
        // Each gets half of 10 kB and pays a tenth of what it has.
        assert!(
            (large + 4_000.0).abs() < 1.0 && (small - 4_000.0).abs() < 1.0,
            "{large} {small}"
        );
    }

    /// φ itself changes shares, and only the rest up to γ is shuffled.
    #[test]
    fn shuffling_is_reduced_by_other_feedback() {
        let mut law = law(Rate::mbit(8));
        interval(&mut law, &[(90, 100)], 0);
        // φ = 0.4 · 10 kB; h = 0.1 · 90 kB − φ.
        near(law.shares.left.0 * 0.1, 4_000.0 + 5_000.0);
        near(law.shares.left.1 * 0.1, 5_000.0);
    }

    #[test]
    fn the_interval_is_the_mean_round_trip_in_which_the_fast_weigh_less() {
        let mut law = law(Rate::mbit(80));
        // Weights: 40 ms / 10 packets and 100 ms / 10 packets; each is counted ten times.
        interval(&mut law, &[(10, 40), (10, 100)], 0);
        near(law.mean_rtt, (0.04 * 0.04 + 0.1 * 0.1) / 0.14);
        let (since, until) = law.interval.unwrap();
        assert_eq!((since, until.since(since).as_us()), (at(40), 82_857));
    }

    #[test]
    fn feedback_is_allotted_only_once() {
        let mut law = law(Rate::mbit(8));
        interval(&mut law, &[(10, 100)], 0);
        let mut given = 0.0;
        for _ in 0..50 {
            given += law
                .on_departure(at(100), SIZE, &header(10, 100), Bytes::ZERO)
                .as_bytes();
        }
        assert!((given - 36_000.0).abs() <= 3_600.0, "{given}");
    }

    #[test]
    fn the_request_limits_the_feedback_and_the_rest_remains_available() {
        let mut law = law(Rate::mbit(8));
        interval(&mut law, &[(10, 100)], 0);
        let mut header = header(10, 100);
        for requested in [100.0, -100.0] {
            header.feedback = Feedback::bytes(requested);
            near(
                law.on_departure(at(100), SIZE, &header, Bytes::ZERO)
                    .as_bytes(),
                requested,
            );
        }
        // Their unused allotment is available to others.
        near(law.shares.left.0 * 0.1, 36_000.0 - 100.0);
    }

    #[test]
    fn no_feedback_before_the_first_interval_or_without_an_rtt() {
        let mut law = law(Rate::mbit(8));
        let now = at(5);
        law.on_arrival(now, SIZE, Some(header(10, 100)), Bytes::ZERO);
        assert_eq!(
            law.on_departure(now, SIZE, &header(10, 100), Bytes::ZERO),
            Feedback::default()
        );
        law.catch_up(at(105), Bytes::ZERO);
        assert_eq!(
            law.on_departure(at(106), SIZE, &header(10, 0), Bytes::ZERO),
            Feedback::default()
        );
        assert!(
            law.on_departure(at(106), SIZE, &header(10, 100), Bytes::ZERO) > Feedback::default()
        );
    }

    #[test]
    fn a_long_silence_is_over_at_once() {
        let mut law = law(Rate::mbit(8));
        interval(&mut law, &[(10, 100)], 0);
        let now = at(10_000_000);
        law.on_arrival(now, SIZE, Some(header(10, 100)), Bytes::ZERO);
        assert_eq!(law.interval, Some((now, now + Span::ms(100))));
        assert_eq!(law.shares, Shares::default().with_left(law.shares.left));
    }

    impl Shares {
        fn with_left(self, left: (f64, f64)) -> Shares {
            Shares { left, ..self }
        }
    }
}
