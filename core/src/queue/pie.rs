//! PIE (proportional integral controller, enhanced): drops at random on entry, with a probability
//! that follows the delay.
//!
//! Algorithm, every `tupdate`: `p += alpha (delay - target) + beta (delay - previous delay)`. Steps
//! are smaller while p is small: half below 10 %, then a quarter of that for each further power of
//! ten, down to 10^-6. From 10 % on a step adds at most 2 %. While the delay is above 250 ms, a
//! step adds 2 % more. If the delay was 0 at this and the previous update and the queue is empty, p
//! decreases by 1/64 of its value.
//!
//! An arriving packet is dropped with probability p if all these conditions hold:
//! - the time between departures adds up to 150 ms since the last calm update. An update is calm if
//!   p is 0 and the delay was below target / 2 in this and the previous update;
//! - p >= 20 % or `delay >= target / 2`;
//! - at least the bytes of two full frames are waiting.
//!
//! Derandomisation: p is summed over the arriving packets for which these conditions hold. While
//! the sum is below 0.85, no packet is dropped. From a sum of 8.5 on, the packet is dropped in any
//! case. A drop resets the sum. With `ecn` and p <= 10 %, packets that can be marked are marked
//! instead. The delay is that of the packet that left last (0 if the queue is empty after it). With
//! `dq_rate_estimator`, the delay is the backlog divided by a measured departure rate.
//!
//! Sources: RFC 8033; Linux 6.12 `sch_pie`, compared with its state after each update in recorded
//! runs (`core/tests/queue_pie.rs`). Where Linux differs from the RFC, this file follows Linux. The
//! present delay, and not that of the previous update, decides whether a packet is exempt from
//! drops. p decreases by 1/64 instead of 1/50. By default, the delay is not estimated from a rate.
//! A mark that the sum of 8.5 causes does not reset the sum.
//!
//! Undocumented properties of Linux:
//! - the timer wheel adds a tick to `tupdate`: 15 ms become 16 ms at 1000 Hz and 20 ms at 250 Hz.
//!   The probability changes that much more slowly;
//! - p is not limited to 1. It is a word of 64 bits in units of 2^-56. If an overload lasts in
//!   spite of the drops, p grows to 2 or 3, and must decrease from this value afterwards;
//! - the first update is half a second after the creation of the queue. Before, only the limit
//!   drops packets. A slow start without HyStart that begins together with the queue therefore
//!   reaches twice the window on a short path.
//!
//! Deviations: in a step where Linux's 64 bits would wrap around (delays of minutes), this file
//! saturates. The queue is created at the start of the scenario, or at a random time up to one
//! `tupdate` before it.

use super::{Backlog, DropReason, Limit, QueueContext, QueueDiscipline, QueueKind, Sink};
use crate::packet::{Ecn, Packet};
use crate::param::{Kind, Param, Params, no_check};
use crate::rng::Rng;
use crate::transport::Jiffies;
use crate::units::{Bytes, Rate, Span, Time};
use alloc::boxed::Box;
use alloc::collections::VecDeque;

/// The parameters of the queue discipline.
pub const PARAMS: &[Param] = &[
    Param {
        name: "limit",
        kind: Kind::Packets(1000, 1, u32::MAX as u64),
        help: "largest backlog in packets, if the path has no buffer",
        source: "Linux 6.12 sch_pie, tc-pie(8)",
    },
    TARGET,
    TUPDATE,
    ALPHA,
    BETA,
    ECN,
    BYTEMODE,
    DQ_RATE_ESTIMATOR,
];

pub(super) const TARGET: Param = Param {
    name: "target",
    kind: Kind::Span(Span::ms(15), Span::us(1), Span::s(1000)),
    help: "target delay of the control law",
    source: "RFC 8033, Linux 6.12 sch_pie",
};
pub(super) const TUPDATE: Param = Param {
    name: "tupdate",
    kind: Kind::Span(Span::ms(15), Span::us(1), Span::s(1000)),
    help: "time between two updates of the probability, in whole ticks plus one",
    source: "RFC 8033, Linux 6.12 sch_pie",
};
pub(super) const ALPHA: Param = Param {
    name: "alpha",
    kind: Kind::Count(2, 0, 32),
    help: "weight of the difference between delay and target, in sixteenths per second",
    source: "RFC 8033, tc-pie(8)",
};
pub(super) const BETA: Param = Param {
    name: "beta",
    kind: Kind::Count(20, 0, 32),
    help: "weight of the growth of the delay, in sixteenths per second",
    source: "RFC 8033, tc-pie(8)",
};
pub(super) const ECN: Param = Param {
    name: "ecn",
    kind: Kind::Bool(false),
    help: "mark ECN-capable packets instead of dropping them, while the probability is small",
    source: "RFC 8033, tc-pie(8)",
};
pub(super) const BYTEMODE: Param = Param {
    name: "bytemode",
    kind: Kind::Bool(false),
    help: "the probability for a packet is proportional to its size",
    source: "RFC 8033, tc-pie(8)",
};
pub(super) const DQ_RATE_ESTIMATOR: Param = Param {
    name: "dq_rate_estimator",
    kind: Kind::Bool(false),
    help: "compute the delay from backlog and departure rate instead of from timestamps of packets",
    source: "RFC 8033, tc-pie(8)",
};

/// A probability of 1, in units of 2^-56.
const ONE: u64 = u64::MAX >> 8;
/// Linux's packet schedulers count time in units of 64 ns.
const UNIT: u32 = 6;
const UNITS_PER_S: u64 = 1_000_000_000 >> UNIT;
/// Burst allowance: time between departures before drops begin (RFC 8033, MAX_BURST).
const BURST: u64 = 150_000_000 >> UNIT;
/// Above this delay the probability increases faster (RFC 8033).
const HIGH_DELAY: u64 = 250_000_000 >> UNIT;
/// Size of a full frame, in bytes.
const FRAME: u64 = 1514;
/// Time from the creation of a queue to its first update, µs (measured on Linux 6.12).
const FIRST_US: u64 = 500_000;
/// Bytes of a measurement of the departure rate (RFC 8033, DQ_THRESHOLD).
const CYCLE: u64 = 16_384;
/// Binary places of the departure rate.
const RATE_SCALE: u32 = 8;

fn clock(now: Time) -> u64 {
    now.as_ns() >> UNIT
}

/// The source of random decisions.
pub trait Coin {
    /// Returns true with this probability, in units of 2^-56.
    fn draw(&mut self, probability: u64) -> bool;
}

impl Coin for Rng {
    fn draw(&mut self, probability: u64) -> bool {
        self.next_u64() >> 8 < probability
    }
}

/// The user's settings, in internal units.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    target: u64,
    alpha: u64,
    beta: u64,
    /// The highest probability at which packets are marked instead of dropped; `None` without ECN.
    marks_up_to: Option<u64>,
    bytemode: bool,
    by_rate: bool,
}

impl Settings {
    /// Settings from parameters. `millionths` is the highest probability at which packets are
    /// marked instead of dropped, in millionths.
    pub fn new(params: &Params, millionths: u64) -> Settings {
        let weight = |name| ((ONE / UNITS_PER_S) * params.count(name).min(32)) >> 4;
        Settings {
            target: params.span("target").as_ns() >> UNIT,
            alpha: weight("alpha"),
            beta: weight("beta"),
            marks_up_to: params
                .bool("ecn")
                .then(|| (ONE / 1_000_000) * millionths.min(1_000_000)),
            bytemode: params.bool("bytemode"),
            by_rate: params.bool("dq_rate_estimator"),
        }
    }
}

/// The state of PIE for one queue. `admits` handles arriving packets, `left` leaving packets, and
/// `update` the timer.
#[derive(Clone, PartialEq, Debug)]
pub struct Law {
    probability: u64,
    /// Sum of the probabilities of arriving packets since the last drop.
    sum: u64,
    delay: u64,
    delay_before: u64,
    /// Rest of the burst allowance, the time in which no packet is dropped.
    burst: u64,
    /// The time of the last departure; with `dq_rate_estimator`, the start of the measurement.
    since: Option<u64>,
    /// Bytes that have left in the present measurement of the departure rate.
    measured: Option<u64>,
    /// The departure rate, in bytes per unit of time; 0 if unknown.
    rate: u64,
}

impl Default for Law {
    fn default() -> Law {
        Law {
            probability: 0,
            sum: 0,
            delay: 0,
            delay_before: 0,
            burst: BURST,
            since: None,
            measured: None,
            rate: 0,
        }
    }
}

impl Law {
    /// Returns whether an arriving packet may join a queue with `backlog` bytes. If a drop is due
    /// but a mark is possible instead, the packet is marked and joins.
    pub fn admits<P: Packet, C: Coin>(
        &mut self,
        with: &Settings,
        now: Time,
        backlog: Bytes,
        packet: &mut P,
        coin: &mut C,
        sink: &mut dyn Sink<P>,
    ) -> bool {
        if !self.drop_early(with, backlog.get(), packet.size().get(), coin) {
            return true;
        }
        let marks = with
            .marks_up_to
            .is_some_and(|most| self.probability <= most);
        if marks && packet.ecn() != Ecn::NotEct {
            packet.set_ce();
            sink.marked(now, packet, DropReason::Aqm);
            return true;
        }
        false
    }

    fn drop_early(
        &mut self,
        with: &Settings,
        backlog: u64,
        size: u64,
        coin: &mut impl Coin,
    ) -> bool {
        if self.burst > 0
            || (self.delay < with.target / 2 && self.probability < ONE / 5)
            || backlog < 2 * FRAME
        {
            return false;
        }
        let mine = if with.bytemode && size <= FRAME {
            (self.probability / FRAME).saturating_mul(size)
        } else {
            self.probability
        };
        self.sum = if mine == 0 {
            0
        } else {
            self.sum.saturating_add(mine)
        };
        if self.sum < (ONE / 100) * 85 {
            return false;
        }
        if self.sum >= (ONE / 2) * 17 {
            return true;
        }
        let drops = coin.draw(mine);
        if drops {
            self.sum = 0;
        }
        drops
    }

    /// Called when a packet was dropped, by PIE or by the limit.
    pub fn dropped(&mut self) {
        self.sum = 0;
    }

    /// Handles the departure of a packet of `size` that was enqueued at `entered`. `backlog` is the
    /// number of bytes that remain in the queue.
    pub fn left(&mut self, with: &Settings, now: Time, entered: Time, size: Bytes, backlog: Bytes) {
        let now = clock(now);
        let passed = if with.by_rate {
            self.measure(now, size.get(), backlog.get())
        } else {
            self.delay = if backlog == Bytes::ZERO {
                0
            } else {
                now.saturating_sub(clock(entered))
            };
            self.since
                .replace(now)
                .map_or(0, |since| now.saturating_sub(since))
        };
        self.burst = self.burst.saturating_sub(passed);
    }

    /// Continues the measurement of the departure rate; returns its duration when it ends.
    fn measure(&mut self, now: u64, size: u64, backlog: u64) -> u64 {
        if backlog >= CYCLE && self.measured.is_none() {
            self.since = Some(now);
            self.measured = Some(0);
        }
        let (Some(measured), Some(since)) = (&mut self.measured, self.since) else {
            return 0;
        };
        *measured = measured.saturating_add(size);
        let took = now.saturating_sub(since);
        if *measured < CYCLE || took == 0 {
            return 0;
        }
        let rate = (*measured << RATE_SCALE) / took;
        self.rate = if self.rate == 0 {
            rate
        } else {
            self.rate - (self.rate >> 3) + (rate >> 3)
        };
        self.measured = (backlog >= CYCLE).then_some(0);
        if backlog >= CYCLE {
            self.since = Some(now);
        }
        took
    }

    /// Updates the probability when the timer fires, with `backlog` bytes in the queue.
    pub fn update(&mut self, with: &Settings, backlog: Bytes) {
        let (delay, before) = if with.by_rate {
            let delay = (backlog.get() << RATE_SCALE)
                .checked_div(self.rate)
                .unwrap_or(0);
            (delay, self.delay)
        } else {
            (self.delay, self.delay_before)
        };
        // With a backlog but without a measured delay, the probability does not decay.
        let mut decays = !(delay == 0 && backlog != Bytes::ZERO);
        let (mut alpha, mut beta) = (with.alpha, with.beta);
        if self.probability < ONE / 10 {
            alpha >>= 1;
            beta >>= 1;
            let mut power = 100;
            while self.probability < ONE / power && power <= 1_000_000 {
                alpha >>= 2;
                beta >>= 2;
                power *= 10;
            }
        }
        let part =
            |weight: u64, a: u64, b: u64| i128::from(weight) * (i128::from(a) - i128::from(b));
        let mut step = part(alpha, delay, with.target) + part(beta, delay, before);
        if step > i128::from(ONE / 50) && self.probability >= ONE / 10 {
            step = i128::from((ONE / 100) * 2);
        }
        if delay > HIGH_DELAY {
            step += i128::from(ONE / 50);
        }
        let next = i128::from(self.probability) + step;
        self.probability = match u64::try_from(next) {
            Ok(next) => next,
            Err(_) if next < 0 => 0,
            Err(_) => {
                decays = false;
                ONE
            }
        };
        if delay == 0 && before == 0 && decays {
            self.probability -= self.probability / 64;
        }
        self.delay = delay;
        self.delay_before = if with.by_rate { before } else { delay };
        let calm = delay < with.target / 2 && before < with.target / 2 && self.probability == 0;
        if calm && (!with.by_rate || self.rate > 0) {
            *self = Law {
                delay,
                delay_before: self.delay_before,
                ..Law::default()
            };
        }
    }

    /// Returns whether the state is the initial one, so that the timer changes nothing while the
    /// queue is empty.
    pub fn is_initial(&self) -> bool {
        *self == Law::default()
    }
    /// The probability in units of 2^-56, as in Linux; it may exceed 1.
    pub fn word(&self) -> u64 {
        self.probability
    }
    /// The measured departure rate (`dq_rate_estimator`); 0 if unknown.
    pub fn departure_rate(&self) -> Rate {
        Rate::bit(((self.rate * UNITS_PER_S) >> RATE_SCALE).saturating_mul(8))
    }
    /// The present delay.
    pub fn delay(&self) -> Span {
        Span::ns(self.delay << UNIT)
    }
}

/// The timer that triggers the updates.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Timer {
    ticks: Jiffies,
    every: u64,
    due: Time,
}

impl Timer {
    /// A timer in a kernel of `hz` ticks per second. It has no first expiry yet.
    pub(super) fn new(params: &Params, hz: u32) -> Timer {
        let ticks = Jiffies::new(hz);
        Timer {
            ticks,
            every: ticks.from_us(params.span("tupdate").as_us()).max(1),
            due: Time::MAX,
        }
    }
    /// The same timer with `ticks` more per period.
    pub(super) fn slower(self, ticks: u64) -> Timer {
        Timer {
            every: self.every + ticks,
            ..self
        }
    }
    /// The first expiry of the timer of a queue that was created when the scenario began, or up to
    /// a period before.
    pub(super) fn of_new(&self, rng: &mut Rng) -> Time {
        let age = rng.below(self.every.saturating_add(1));
        self.ticks
            .fires(0, self.ticks.from_us(FIRST_US).saturating_sub(age))
    }
    /// Sets the first expiry to `due`.
    pub(super) fn starting(self, due: Time) -> Timer {
        Timer { due, ..self }
    }
    pub(super) fn due(&self) -> Time {
        self.due
    }
    /// Restarts the timer after its expiry.
    pub(super) fn restart(&mut self, now: Time) {
        let tick = self.ticks.at(now);
        self.due = self.ticks.fires(tick, tick.saturating_add(self.every));
    }
}

/// The queue discipline `pie`.
pub struct Pie<P, C = Rng> {
    limit: Limit,
    with: Settings,
    law: Law,
    timer: Timer,
    coin: C,
    backlog: Backlog,
    packets: VecDeque<P>,
}

impl<P> Pie<P> {
    /// An empty queue.
    pub fn new(params: &Params, context: &QueueContext) -> Pie<P> {
        let mut rng = Rng::named(context.seed, "queue/pie");
        let first = Timer::new(params, context.hz).of_new(&mut rng);
        Pie::following(params, context, first, rng)
    }
}

impl<P, C: Coin> Pie<P, C> {
    /// An empty queue with the first update at `first` and the random numbers of `coin`, to
    /// reproduce a recorded queue.
    pub fn following(params: &Params, context: &QueueContext, first: Time, coin: C) -> Pie<P, C> {
        Pie {
            limit: context
                .limit
                .unwrap_or(Limit::Packets(params.packets("limit"))),
            with: Settings::new(params, 100_000),
            law: Law::default(),
            timer: Timer::new(params, context.hz).starting(first),
            coin,
            backlog: Backlog::default(),
            packets: VecDeque::new(),
        }
    }
    /// Returns the state of PIE.
    pub fn law(&self) -> &Law {
        &self.law
    }
}

impl<P: Packet + Send, C: Coin + Send> QueueDiscipline<P> for Pie<P, C> {
    fn enqueue(&mut self, now: Time, mut packet: P, sink: &mut dyn Sink<P>) {
        let size = packet.size();
        let reason = if !self.limit.admits(self.backlog, size) {
            DropReason::Overflow
        } else if self.law.admits(
            &self.with,
            now,
            self.backlog.bytes,
            &mut packet,
            &mut self.coin,
            sink,
        ) {
            self.backlog.add(size);
            self.packets.push_back(packet);
            return;
        } else {
            DropReason::Aqm
        };
        self.law.dropped();
        sink.dropped(now, packet, reason);
    }
    fn dequeue(&mut self, now: Time, _sink: &mut dyn Sink<P>) -> Option<P> {
        let packet = self.packets.pop_front()?;
        let size = packet.size();
        self.backlog.remove(size);
        self.law.left(
            &self.with,
            now,
            packet.enqueued_at(),
            size,
            self.backlog.bytes,
        );
        Some(packet)
    }
    fn next_wakeup(&self) -> Option<Time> {
        Some(self.timer.due())
    }
    fn on_wakeup(&mut self, now: Time, _sink: &mut dyn Sink<P>) {
        if now >= self.timer.due() {
            self.law.update(&self.with, self.backlog.bytes);
            self.timer.restart(now);
        }
    }
    fn backlog(&self) -> Backlog {
        self.backlog
    }
}

/// The registry entry.
pub fn kind<P: Packet + Send + 'static>() -> QueueKind<P> {
    QueueKind {
        name: "pie",
        help: "drops packets at random on arrival; a control law sets the probability by the delay",
        source: "Linux 6.12 sch_pie, RFC 8033",
        params: PARAMS,
        check: no_check,
        feedback: false,
        make: &|params, context| Box::new(Pie::<P>::new(params, context)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::param::Value;

    /// A coin that always falls the same way.
    struct Always(bool);

    impl Coin for Always {
        fn draw(&mut self, _probability: u64) -> bool {
            self.0
        }
    }

    fn settings() -> Settings {
        Settings::new(&Params::defaults(PARAMS), 100_000)
    }

    /// A state in which only the sum decides.
    fn busy(probability: u64) -> Law {
        Law {
            probability,
            delay: settings().target,
            burst: 0,
            ..Law::default()
        }
    }

    /// The state after an update with one frame waiting.
    fn updated(mut law: Law) -> Law {
        law.update(&settings(), Bytes::new(FRAME));
        law
    }

    fn drop_early(law: &mut Law, coin: bool) -> bool {
        law.drop_early(&settings(), 2 * FRAME, FRAME, &mut Always(coin))
    }

    #[test]
    fn no_drops_during_the_burst_allowance_or_at_a_short_delay() {
        let half = settings().target / 2;
        let drops_at = |burst, delay, probability| {
            let mut law = Law {
                burst,
                delay,
                sum: ONE,
                ..busy(probability)
            };
            drop_early(&mut law, true)
        };
        assert!(!drops_at(1, half, ONE), "the burst");
        assert!(!drops_at(0, half - 1, ONE / 5 - 1), "a short delay");
        assert!(
            drops_at(0, half - 1, ONE / 5),
            "a short delay, but p is 20 %"
        );
        assert!(drops_at(0, half, ONE / 5 - 1), "half the target");
    }

    /// At p = 1/2, no random number is drawn for the first packet (sum 0.5). The 17th packet (8.5)
    /// is marked or dropped in any case, which alone does not reset the sum.
    #[test]
    fn the_sum_delays_a_drop_and_then_forces_one() {
        let mut law = busy(ONE / 2);
        assert!(!drop_early(&mut law, true), "0.5");
        assert!(drop_early(&mut law, true), "1.0, and the draw is positive");
        assert_eq!(law.sum, 0);
        assert!((0..16).all(|_| !drop_early(&mut law, false)), "up to 8.0");
        assert!(
            drop_early(&mut law, false) && drop_early(&mut law, false),
            "8.5 and 9.0"
        );
        law.dropped();
        assert!(!drop_early(&mut law, true), "0.5 again");
    }

    #[test]
    fn a_probability_of_zero_clears_the_sum() {
        let mut law = Law {
            sum: ONE,
            ..busy(0)
        };
        assert!(!drop_early(&mut law, true));
        assert_eq!(law.sum, 0);
    }

    /// A new delay of 200 ms adds 0.5 (0.125 · 0.185 + 1.25 · 0.2) while p is below 10 %. From 10 %
    /// on, it adds twice as much, limited to 2 %.
    #[test]
    fn a_step_is_cut_to_two_percent_only_from_ten_percent_on() {
        let step = |probability: u64| {
            let law = Law {
                probability,
                delay: 200_000_000 >> UNIT,
                ..Law::default()
            };
            (updated(law).probability - probability) as f64 / ONE as f64
        };
        let wanted = 0.5 * (0.125 * 0.185 + 1.25 * 0.2);
        assert!((step(ONE / 20) - wanted).abs() < 1e-3, "{}", step(ONE / 20));
        assert!((step(ONE / 10) - 0.02).abs() < 1e-9, "{}", step(ONE / 10));
    }

    /// A new burst is allowed after two updates below half the target with probability 0.
    #[test]
    fn an_idle_period_restores_the_burst_allowance() {
        let half = settings().target / 2;
        let burst = |delay, delay_before, probability| {
            let law = Law {
                delay,
                delay_before,
                ..busy(probability)
            };
            updated(law).burst
        };
        assert_eq!(burst(half - 1, half - 1, 0), BURST);
        assert_eq!(burst(half, half - 1, 0), 0, "this update");
        assert_eq!(burst(half - 1, half, 0), 0, "the one before");
        assert_eq!(burst(half - 1, half - 1, ONE / 2), 0, "p");
    }

    /// The first update of an empty queue resets the probability, the second restores the burst
    /// allowance. Only then is the state the initial one.
    #[test]
    fn the_state_is_initial_only_with_a_full_burst_allowance() {
        let mut law = Law {
            sum: ONE,
            delay: 0,
            delay_before: settings().target,
            ..busy(ONE / 1_000)
        };
        law.update(&settings(), Bytes::ZERO);
        assert_eq!(
            (law.probability, law.burst, law.is_initial()),
            (0, 0, false)
        );
        law.update(&settings(), Bytes::ZERO);
        assert_eq!((law.sum, law.burst, law.is_initial()), (0, BURST, true));
        let rested = law.clone();
        law.update(&settings(), Bytes::ZERO);
        assert!(law == rested);
    }

    /// A measurement needs 16 KiB, which 11 full frames reach. The next measurement begins with the
    /// last of these frames. The first one lasts 100 µs, the second 110 µs.
    #[test]
    fn the_next_measurement_of_the_rate_begins_where_one_ends() {
        let mut params = Params::defaults(PARAMS);
        params.set("dq_rate_estimator", Value::Bool(true));
        let with = Settings::new(&params, 100_000);
        let mut law = Law::default();
        let mut rates = (1..=22).map(|n| {
            let now = Time::ZERO + Span::us(10 * n);
            law.left(&with, now, now, Bytes::new(FRAME), Bytes::new(CYCLE));
            law.departure_rate().as_bit() as f64 / 8.0
        });
        let bytes = 11.0 * FRAME as f64;
        let (first, second) = (bytes / 100e-6, bytes / 110e-6);
        assert_eq!(rates.nth(9), Some(0.0));
        let rate_after = (rates.next().unwrap(), rates.last().unwrap());
        assert!((rate_after.0 / first - 1.0).abs() < 0.01, "{rate_after:?}");
        assert!(
            (rate_after.1 / (first + (second - first) / 8.0) - 1.0).abs() < 0.004,
            "{rate_after:?}"
        );
    }
}
