//! CDG, CAIA delay gradient, as in Linux: the sender backs off with some probability when
//! round-trip times increase.
//!
//! Algorithm, once per round trip: `g` is the mean change of the minimum round-trip time per round,
//! over the last 8 rounds. If this mean is not positive, `g` is the mean change of the maximum
//! round-trip time. If `g` is positive, the sender backs off with probability `1 − exp(−g/G)`, `G`
//! = 3 ms: `ssthresh = 0.71 cwnd`, to which PRR reduces the window as after a mark. If five
//! back-offs in a row do not decrease the queue, other flows keep it full, and further back-offs
//! are skipped until the queue decreases. On loss `ssthresh = max(cwnd, shadow) / 2`, at most
//! `cwnd`. The *shadow* window is the one that Reno would have without the back-offs. Growth is
//! Reno's. Slow start ends as in HyStart. It ends after a train of ACKs longer than half the
//! minimum round trip, or when the round-trip time exceeds its minimum by an eighth.
//!
//! Sources: Hayes, Armitage, "Revisiting TCP congestion control using delay gradients" (Networking
//! 2011). Linux 6.12 differs, and this file follows Linux:
//! - gradients are summed, not averaged. The sum in µs times 42 is the exponent in millionths,
//!   which is `g/G` with `G` = 2.98 ms. With fewer than 8 gradients the sum is scaled up;
//! - the maximum round trip counts if the gradient of the minimum is not positive; the paper backs
//!   off if the gradient of either is positive;
//! - the paper holds the window for a round trip after a back-off, and uses the gradient to
//!   distinguish random loss (loss tolerance). Here a back-off is a reduction like any other, and
//!   tolerance is off by default;
//! - after ACKs of several packets, as many ACKs of one packet, at most 5, count as delayed. Their
//!   round-trip times count for the minimum only;
//! - a packet that leaves while nothing is in flight resets all state.
//!
//! Deviation: Linux approximates the exponential by a table with 16 bits; here it is exact.

use super::reno::Reno;
use super::{
    Ack, CcKind, CongestionControl, Family, Host, Loss, Reduced, Sample, Sent, Start, Window,
};
use crate::param::{Kind, Param, Params};
use crate::rng::Rng;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// Bits of the parameter `hystart_detect`.
const ACK_TRAIN: u64 = 1;
const DELAY: u64 = 2;
/// ACKs that follow each other within this time belong to one train, µs.
const TRAIN_GAP_US: u64 = 3_000;
/// Lower bound of both thresholds of slow start, µs: half the minimum round trip (ACK train), and
/// the minimum round trip plus an eighth (delay).
const FINEST_US: i64 = 125;
/// ACKs of a round in slow start before the minimum round-trip time of the round counts.
const SAMPLES: u32 = 8;
/// The queue decreases if a sum of gradients is at most this, µs.
const FALLS_US: i64 = -32;
/// With loss tolerance, sums of gradients are rounded to multiples of this, µs.
const GRAIN_US: i64 = 64;
/// Maximum number of single-packet ACKs that count as delayed, after ACKs of more packets.
const DELAYED_MOST: u32 = 5;

/// The parameters.
pub const PARAMS: &[Param] = &[
    Param {
        name: "window",
        kind: Kind::Count(8, 1, 256),
        help: "RTTs over which gradients are averaged",
        source: "Linux 6.12 tcp_cdg: window = 8",
    },
    Param {
        name: "backoff_beta",
        kind: Kind::Count(724, 0, 1024),
        help: "window after a back-off, in 1/1024 of the window before",
        source: "Linux 6.12 tcp_cdg: backoff_beta = 0.7071 · 1024",
    },
    Param {
        name: "backoff_factor",
        kind: Kind::Count(42, 0, 1_000_000),
        help: "scale of the back-off probability: 1000/(window · G in ms); 0 disables back-offs",
        source: "Linux 6.12 tcp_cdg: backoff_factor = 42, G = 3 ms with a window of 8",
    },
    Param {
        name: "hystart_detect",
        kind: Kind::Count(3, 0, 3),
        help: "signals that end slow start: 1 ACK trains, 2 delay, 3 both, 0 none",
        source: "Linux 6.12 tcp_cdg: hystart_detect = 3",
    },
    Param {
        name: "use_ineff",
        kind: Kind::Count(5, 0, 255),
        help: "ineffective back-offs in a row after which the next ones are omitted; 0 disables \
            the count",
        source: "Linux 6.12 tcp_cdg: use_ineff = 5",
    },
    Param {
        name: "use_shadow",
        kind: Kind::Bool(true),
        help: "after a loss, consider the window that Reno would have without back-offs",
        source: "Linux 6.12 tcp_cdg: use_shadow = 1",
    },
    Param {
        name: "use_tolerance",
        kind: Kind::Bool(false),
        help: "keep the window after a loss while gradients show that the queue is not full",
        source: "Linux 6.12 tcp_cdg: use_tolerance = 0",
    },
];

/// A minimum and a maximum, µs.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
struct Extremes {
    least: i64,
    most: i64,
}

/// The state of the queue, inferred from the gradients of round-trip times.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Queue {
    Unknown,
    /// The minimum round-trip time grows and the maximum does not.
    Full,
    NotFull,
    /// The round-trip time grew, and a back-off is in progress.
    BackingOff,
}

/// The measurements, which are reset when a packet leaves while nothing is in flight.
#[derive(Clone, Debug)]
struct Memory {
    /// Minimum and maximum round-trip time of this round; `None` before the first sample.
    round: Option<Extremes>,
    /// Minimum and maximum round-trip time of the round before.
    last: Option<Extremes>,
    /// The ring of the last gradients.
    gradients: Vec<Extremes>,
    /// The sum of the gradients in the ring.
    sum: Extremes,
    /// The index of the next gradient in the ring.
    tail: usize,
    filled: bool,
    queue: Queue,
    /// Number of single-packet ACKs that still count as delayed.
    delayed: u32,
    /// The round ends when a byte above this one is acknowledged.
    round_end: u64,
    /// The window that Reno would have without back-offs, in packets.
    shadow: u32,
    /// Back-offs that were drawn since the queue last decreased.
    backoffs: u64,
    // slow start
    samples: u32,
    delay_min_us: Option<i64>,
    last_ack_us: Option<u64>,
    train_start_us: u64,
}

impl Memory {
    fn new(window: usize, round_end: u64, shadow: u32) -> Memory {
        Memory {
            round: None,
            last: None,
            gradients: vec![Extremes::default(); window],
            sum: Extremes::default(),
            tail: 0,
            filled: false,
            queue: Queue::Unknown,
            delayed: 0,
            round_end,
            shadow,
            backoffs: 0,
            samples: 0,
            delay_min_us: None,
            last_ack_us: None,
            train_start_us: 0,
        }
    }
}

/// CDG's state.
#[derive(Clone, Debug)]
pub struct Cdg {
    beta: u64,
    factor: u64,
    hystart: u64,
    ineffectual: u64,
    use_shadow: bool,
    tolerant: bool,
    rng: Rng,
    /// The first byte that has not been sent.
    nxt: u64,
    m: Memory,
}

impl Cdg {
    /// The state at the start of a connection.
    pub fn new(params: &Params, host: &Host) -> Cdg {
        Cdg {
            beta: params.count("backoff_beta").min(1024),
            factor: params.count("backoff_factor"),
            hystart: params.count("hystart_detect"),
            ineffectual: params.count("use_ineff"),
            use_shadow: params.bool("use_shadow"),
            tolerant: params.bool("use_tolerance"),
            rng: Rng::named(host.seed, "cdg"),
            nxt: 0,
            m: Memory::new(params.count("window").max(1) as usize, 0, 0),
        }
    }

    /// Ends slow start, if a train of ACKs or the delay indicates congestion.
    fn search(&mut self, w: &mut Window, ev: &Ack) {
        let m = &mut self.m;
        if let Some(round) = m.round {
            m.delay_min_us = Some(m.delay_min_us.map_or(round.least, |d| d.min(round.least)));
        }
        let Some(delay_min_us) = m.delay_min_us else {
            return;
        };
        if self.hystart & ACK_TRAIN > 0 && m.on_train(ev, delay_min_us) {
            w.ssthresh = w.cwnd;
            return;
        }
        if self.hystart & DELAY > 0 {
            if m.samples < SAMPLES {
                m.samples += 1;
                return;
            }
            let threshold = (delay_min_us + delay_min_us / 8).max(FINEST_US);
            if m.round.is_some_and(|r| r.least > threshold) {
                w.ssthresh = w.cwnd;
            }
        }
    }

    /// Returns whether to back off: true with probability `1 − exp(−g/G)`, but false if the last
    /// back-offs were ineffective. `gradient_us` is the sum of gradients.
    fn backs_off(&mut self, gradient_us: u64, cwnd: u32) -> bool {
        let keeps = decay(gradient_us.saturating_mul(self.factor));
        let draw = (self.rng.next_u64() >> 32) as u32;
        if draw <= keeps {
            return false;
        }
        let m = &mut self.m;
        if self.ineffectual > 0 {
            m.backoffs += 1;
            if m.backoffs > self.ineffectual {
                return false;
            }
        }
        m.shadow = m.shadow.max(cwnd);
        m.queue = Queue::BackingOff;
        true
    }
}

impl Memory {
    /// Returns whether ACKs have followed each other within 3 ms for longer than half the minimum
    /// round trip.
    fn on_train(&mut self, ev: &Ack, delay_min_us: i64) -> bool {
        let now = ev.now.as_us();
        match self.last_ack_us {
            Some(last) if ev.cwnd_limited => {
                if now >= last + TRAIN_GAP_US {
                    return false;
                }
                self.last_ack_us = Some(now);
                let half = (delay_min_us / 2).max(FINEST_US) as u64;
                now > self.train_start_us + half
            }
            _ => {
                self.last_ack_us = Some(now);
                self.train_start_us = now;
                false
            }
        }
    }

    /// Adds the gradient from the round `last` to the round `round`. Returns the sum of gradients
    /// over the window of rounds, µs: that of the minimum if positive, otherwise of the maximum.
    fn gradient(&mut self, last: Extremes, round: Extremes, tolerant: bool) -> i64 {
        let new = Extremes {
            least: round.least - last.least,
            most: round.most - last.most,
        };
        let window = self.gradients.len();
        let old = core::mem::replace(&mut self.gradients[self.tail], new);
        self.tail = (self.tail + 1) % window;
        self.sum.least += new.least - old.least;
        self.sum.most += new.most - old.most;
        let sum = self.sum;
        let mut gradient = if sum.least > 0 { sum.least } else { sum.most };
        if !self.filled {
            if self.tail == 0 {
                self.filled = true;
            } else {
                gradient = gradient * window as i64 / self.tail as i64;
            }
        }
        if sum.least <= FALLS_US || sum.most <= FALLS_US {
            self.backoffs = 0;
        }
        if tolerant {
            match (nearest(sum.least).signum(), nearest(sum.most).signum()) {
                (1, 0 | -1) => self.queue = Queue::Full,
                (1, 1) | (_, -1) => self.queue = Queue::NotFull,
                _ => {}
            }
        }
        gradient
    }
}

/// The number of grains of 64 µs nearest to `us`.
fn nearest(us: i64) -> i64 {
    (us + us.signum() * GRAIN_US / 2) / GRAIN_US
}

/// Returns `exp(−x)` as a share of 2³², where `x` is `millionths`/10⁶.
fn decay(millionths: u64) -> u32 {
    // From 2²⁴ on (an exponent of 17) Linux returns zero.
    if millionths >= 1 << 24 {
        return 0;
    }
    (libm::exp(-(millionths as f64) * 1e-6) * f64::from(u32::MAX)) as u32
}

impl CongestionControl for Cdg {
    fn on_start(&mut self, w: &mut Window, _ev: &Start) {
        self.m = Memory::new(self.m.gradients.len(), self.nxt, w.cwnd);
    }

    fn on_sent(&mut self, w: &mut Window, ev: &Sent) {
        self.nxt = ev.nxt;
        self.m = Memory::new(self.m.gradients.len(), ev.nxt, w.cwnd);
    }

    fn on_sample(&mut self, _w: &mut Window, ev: &Sample) {
        self.nxt = ev.nxt;
        let Some(us) = ev.rtt.map(|rtt| rtt.as_us() as i64).filter(|&us| us > 0) else {
            return;
        };
        let m = &mut self.m;
        if ev.sacked == 0 {
            if ev.acked == 1 && m.delayed > 0 {
                m.delayed -= 1;
                if let Some(round) = &mut m.round {
                    round.least = round.least.min(us);
                }
                return;
            }
            if ev.acked > 1 && m.delayed < DELAYED_MOST {
                m.delayed += 1;
            }
        }
        let (least, most) = m
            .round
            .map_or((us, us), |r| (r.least.min(us), r.most.max(us)));
        m.round = Some(Extremes { least, most });
    }

    fn on_ack(&mut self, w: &mut Window, ev: &Ack) {
        self.nxt = ev.nxt;
        if !ev.may_grow {
            return;
        }
        if w.in_slow_start() {
            self.search(w, ev);
        }
        let m = &mut self.m;
        if let Some(round) = m.round.filter(|_| ev.una > m.round_end) {
            let gradient = m
                .last
                .map_or(0, |last| m.gradient(last, round, self.tolerant));
            m.begin_round(ev.nxt);
            m.last_ack_us = None;
            m.samples = 0;
            if gradient > 0 && self.backs_off(gradient as u64, w.cwnd) {
                w.reduce = true;
                return;
            }
        }
        if !ev.cwnd_limited {
            self.m.shadow = self.m.shadow.min(w.cwnd);
            return;
        }
        let before = w.cwnd;
        Reno.on_ack(w, ev);
        self.m.shadow = self.m.shadow.saturating_add(w.cwnd - before);
    }

    fn on_loss(&mut self, w: &mut Window, _ev: &Loss) {
        let m = &mut self.m;
        let left = match m.queue {
            Queue::BackingOff => (u64::from(w.cwnd) * self.beta / 1024) as u32,
            Queue::NotFull if self.tolerant => w.cwnd,
            _ => {
                m.shadow = (m.shadow / 2).min(w.cwnd);
                let half = w.cwnd / 2;
                if self.use_shadow {
                    half.max(m.shadow)
                } else {
                    half
                }
            }
        };
        w.ssthresh = left.max(2);
    }

    fn on_reduced(&mut self, _w: &mut Window, _ev: &Reduced) {
        self.m.queue = Queue::Unknown;
        self.m.begin_round(self.nxt);
    }

    fn describe(&self, visit: &mut dyn FnMut(&'static str, f64)) {
        let m = &self.m;
        let sum = if m.sum.least > 0 {
            m.sum.least
        } else {
            m.sum.most
        };
        visit(
            "gradient_ms",
            sum as f64 / 1000.0 / m.gradients.len() as f64,
        );
        visit("shadow", f64::from(m.shadow));
        visit("backoffs", m.backoffs as f64);
    }

    fn fork(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

impl Memory {
    fn begin_round(&mut self, nxt: u64) {
        self.round_end = nxt;
        self.last = self.round.take();
    }
}

/// The registry entry.
pub const KIND: CcKind = CcKind {
    name: "cdg",
    help: "CAIA delay gradient (Swinburne University): while the RTT rises, reduces the window \
        with a probability that depends on how fast it rises",
    source: "Hayes, Armitage, Networking 2011; Linux 6.12",
    family: Family::Delay,
    year: 2011,
    needs: &[],
    default_in: &[],
    params: PARAMS,
    make: &|params, host| Box::new(Cdg::new(params, host)),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::param::Value;
    use crate::units::{Span, Time};

    fn cdg(set: &[(&'static str, Value)]) -> Cdg {
        let mut params = Params::defaults(PARAMS);
        for (name, value) in set {
            params.set(name, value.clone());
        }
        Cdg::new(&params, &Host::default())
    }
    fn never() -> (&'static str, Value) {
        ("backoff_factor", Value::Count(0))
    }
    /// A back-off is certain for every gradient of 17 µs or more.
    fn always() -> (&'static str, Value) {
        ("backoff_factor", Value::Count(1_000_000))
    }

    /// A flow of rounds: ten packets each, acknowledged by twos.
    struct Flow {
        cc: Cdg,
        w: Window,
        una: u64,
        now_us: u64,
    }
    impl Flow {
        fn new(cc: Cdg, cwnd: u32, ssthresh: u32) -> Flow {
            let mut w = Window::new(cwnd);
            let mut cc = cc;
            cc.on_start(&mut w, &Start::at(Time::ZERO));
            w.ssthresh = ssthresh;
            Flow {
                cc,
                w,
                una: 0,
                now_us: 0,
            }
        }
        fn sample(&mut self, rtt_us: u64, acked: u32) {
            let mut ev = Sample::at(Time::from_ns(self.now_us * 1000));
            (ev.rtt, ev.acked, ev.una, ev.nxt) =
                (Some(Span::us(rtt_us)), acked, self.una, self.una + 10);
            self.cc.on_sample(&mut self.w, &ev);
        }
        /// An ACK of two packets; returns whether a reduction is requested.
        fn ack(&mut self, rtt_us: u64, cwnd_limited: bool) -> bool {
            self.una += 2;
            self.now_us += 100;
            self.sample(rtt_us, 2);
            let mut ev = Ack::at(Time::from_ns(self.now_us * 1000));
            (ev.una, ev.nxt, ev.delivered, ev.cwnd_limited) =
                (self.una, self.una + 10, 2, cwnd_limited);
            self.cc.on_ack(&mut self.w, &ev);
            core::mem::take(&mut self.w.reduce)
        }
        /// A round with these minimum and maximum round trips; returns whether a reduction was
        /// requested.
        fn round(&mut self, least_us: u64, most_us: u64) -> bool {
            let mut asked = false;
            for i in 0..6 {
                asked |= self.ack(if i == 2 { most_us } else { least_us }, true);
                if asked {
                    break;
                }
            }
            asked
        }
        fn reduced(&mut self) {
            self.cc.on_loss(&mut self.w, &Loss::at(Time::ZERO));
            self.w.cwnd = self.w.ssthresh;
            self.cc.on_reduced(&mut self.w, &Reduced::at(Time::ZERO));
        }
    }

    #[test]
    fn the_exponential_is_one_over_e_at_a_million_millionths() {
        assert_eq!(decay(0), u32::MAX);
        assert_eq!(
            decay(1_000_000),
            (f64::from(u32::MAX) / core::f64::consts::E) as u32
        );
        assert_eq!(decay(1 << 24), 0);
    }

    /// The paper's probability with `G` = 3 ms: a gradient of `g` ms per round backs off with
    /// probability 1 − exp(−g/3). The tolerance is the rounding of 333/8 to 42.
    #[test]
    fn the_chance_to_back_off_is_one_less_the_exponential_of_the_gradient() {
        let mut cc = cdg(&[("use_ineff", Value::Count(0))]);
        for g_ms in [0.5, 1.0, 3.0] {
            let sum_us = (8.0 * g_ms * 1000.0) as u64;
            let n = 20_000;
            let hits = (0..n).filter(|_| cc.backs_off(sum_us, 10)).count();
            let expected = 1.0 - libm::exp(-g_ms / 3.0);
            let share = hits as f64 / f64::from(n);
            assert!(
                (share - expected).abs() < 0.015,
                "{g_ms}: {share} {expected}"
            );
        }
    }

    /// The minimum round trip grows by 1 ms per round: the first gradient counts eight times, later
    /// the sum is over the last eight.
    #[test]
    fn gradients_are_summed_over_eight_rounds_and_scaled_up_before() {
        let mut m = Memory::new(8, 0, 10);
        let at = |i: i64| Extremes {
            least: 1000 * i,
            most: 1000 * i,
        };
        for i in 0..8 {
            assert_eq!(m.gradient(at(i), at(i + 1), false), 8000, "{i}");
        }
        // Then it is constant: the old gradients leave one by one.
        for left in (0..8).rev() {
            assert_eq!(m.gradient(at(8), at(8), false), 1000 * left);
        }
    }

    #[test]
    fn the_greatest_round_trip_decides_where_the_least_does_not_grow() {
        let mut m = Memory::new(1, 0, 10);
        let (last, round) = (
            Extremes {
                least: 40,
                most: 50,
            },
            Extremes {
                least: 40,
                most: 57,
            },
        );
        assert_eq!(m.gradient(last, round, false), 7);
        let round = Extremes {
            least: 43,
            most: 57,
        };
        assert_eq!(m.gradient(last, round, false), 3);
    }

    #[test]
    fn a_back_off_leaves_seven_tenths() {
        let mut f = Flow::new(cdg(&[always()]), 100, 50);
        f.round(40_000, 40_000);
        assert!(!f.round(40_000, 40_000), "nothing grew");
        assert!((0..3).any(|i| f.round(41_000 + 1000 * i, 41_000 + 1000 * i)));
        let cwnd = f.w.cwnd;
        f.reduced();
        assert_eq!(f.w.ssthresh, cwnd * 724 / 1024);
    }

    #[test]
    fn no_growth_with_the_ack_that_backs_off() {
        let mut f = Flow::new(cdg(&[always()]), 4, 2);
        f.w.cwnd_cnt = 3;
        let mut rtt = 40_000;
        loop {
            let cwnd = f.w.cwnd;
            let cwnd_cnt = f.w.cwnd_cnt;
            if f.ack(rtt, true) {
                assert_eq!((f.w.cwnd, f.w.cwnd_cnt), (cwnd, cwnd_cnt));
                break;
            }
            rtt += 100;
        }
    }

    /// After five back-offs without a decrease of the queue the sixth is skipped; after a decrease
    /// the count restarts.
    #[test]
    fn five_back_offs_without_effect_are_enough() {
        let mut cc = cdg(&[always()]);
        let asked = (0..8).filter(|_| cc.backs_off(50_000, 10)).count();
        assert_eq!(asked, 5);
        let falls = |us| Extremes {
            least: us,
            most: us,
        };
        cc.m.gradient(falls(40_000), falls(39_969), false);
        assert_eq!(cc.m.backoffs, 8, "31 µs are too little to tell");
        cc.m.gradient(falls(39_969), falls(39_968), false);
        assert_eq!(cc.m.backoffs, 0);
        assert!(cc.backs_off(50_000, 10));
    }

    /// 100 packets, one back-off to 70: a loss then leaves half of the window without the back-off,
    /// not half of 70.
    #[test]
    fn a_loss_halves_the_shadow_window() {
        let mut f = Flow::new(cdg(&[always()]), 100, 50);
        assert!(f.cc.backs_off(50_000, f.w.cwnd));
        f.reduced();
        assert_eq!(f.w.cwnd, 70);
        f.cc.on_loss(&mut f.w, &Loss::at(Time::ZERO));
        assert_eq!(f.w.ssthresh, 50);
        let mut f = Flow::new(
            cdg(&[always(), ("use_shadow", Value::Bool(false))]),
            100,
            50,
        );
        assert!(f.cc.backs_off(50_000, f.w.cwnd));
        f.reduced();
        f.cc.on_loss(&mut f.w, &Loss::at(Time::ZERO));
        assert_eq!(f.w.ssthresh, 35);
    }

    #[test]
    fn the_shadow_window_grows_with_the_window_and_never_stays_above_one_that_is_not_used() {
        let mut f = Flow::new(cdg(&[never()]), 10, 5);
        f.cc.m.shadow = 20;
        (0..5).for_each(|_| assert!(!f.ack(40_000, true)));
        assert_eq!((f.w.cwnd, f.cc.m.shadow), (11, 21));
        f.ack(40_000, false);
        assert_eq!((f.w.cwnd, f.cc.m.shadow), (11, 11));
    }

    /// An ACK of one packet after ACKs of two may have been delayed by 40 ms: it can only lower the
    /// minimum round trip.
    #[test]
    fn a_delayed_ack_is_no_greatest_round_trip() {
        let mut f = Flow::new(cdg(&[never()]), 10, 5);
        f.sample(40_000, 2);
        f.sample(80_000, 1);
        assert_eq!(
            f.cc.m.round,
            Some(Extremes {
                least: 40_000,
                most: 40_000
            })
        );
        f.sample(80_000, 2);
        f.sample(39_000, 1);
        assert_eq!(
            f.cc.m.round,
            Some(Extremes {
                least: 39_000,
                most: 80_000
            })
        );
        // A receiver that acknowledges every packet delays none.
        f.cc.m.round = None;
        f.sample(40_000, 1);
        f.sample(41_000, 1);
        assert_eq!(
            f.cc.m.round,
            Some(Extremes {
                least: 40_000,
                most: 41_000
            })
        );
    }

    #[test]
    fn slow_start_ends_when_acks_come_for_half_of_the_least_round_trip() {
        let ended = |detect| {
            let mut f = Flow::new(
                cdg(&[never(), ("hystart_detect", Value::Count(detect))]),
                10,
                10_000,
            );
            // One round only: as if no more data were sent.
            f.cc.m.round_end = u64::MAX;
            (0..400).find(|_| {
                f.ack(40_000, true);
                f.w.ssthresh < 10_000
            })
        };
        // ACKs 100 µs apart: more than 20 ms after the first is the 202nd, here the 201st after it.
        assert_eq!([0, 1, 2, 3].map(ended), [None, Some(201), None, Some(201)]);
    }

    #[test]
    fn slow_start_ends_when_the_least_round_trip_is_an_eighth_longer() {
        let ended = |rtt_us| {
            let mut f = Flow::new(
                cdg(&[never(), ("hystart_detect", Value::Count(2))]),
                10,
                10_000,
            );
            f.round(40_000, 40_000);
            f.cc.m.round_end = u64::MAX;
            f.cc.m.round = None;
            (0..20).find(|_| {
                f.ack(rtt_us, true);
                f.w.ssthresh < 10_000
            })
        };
        assert_eq!(ended(45_000), None);
        assert!(ended(45_001).is_some_and(|acks| acks <= 8));
    }

    #[test]
    fn loss_tolerance_ignores_losses_while_the_queue_is_not_full() {
        let left = |tolerant, (least, most): (i64, i64)| {
            let mut cc = cdg(&[("use_tolerance", Value::Bool(tolerant))]);
            let mut w = Window::new(100);
            cc.on_start(&mut w, &Start::at(Time::ZERO));
            let last = Extremes {
                least: 40_000,
                most: 50_000,
            };
            let round = Extremes {
                least: 40_000 + least,
                most: 50_000 + most,
            };
            cc.m.gradient(last, round, tolerant);
            cc.on_loss(&mut w, &Loss::at(Time::ZERO));
            w.ssthresh
        };
        assert_eq!(left(false, (500, 500)), 50);
        assert_eq!(left(true, (500, 500)), 100);
        assert_eq!(
            left(true, (500, 31)),
            50,
            "the greatest no longer grows: full"
        );
        assert_eq!(
            left(true, (31, 31)),
            50,
            "less than half a grain tells nothing"
        );
    }

    #[test]
    fn the_first_packet_after_idleness_forgets_the_gradients() {
        let mut f = Flow::new(cdg(&[never()]), 10, 5);
        f.round(40_000, 40_000);
        f.round(44_000, 44_000);
        f.round(48_000, 48_000);
        assert!(f.cc.m.sum.least > 0);
        let mut ev = Sent::at(Time::ZERO);
        ev.nxt = 77;
        f.cc.on_sent(&mut f.w, &ev);
        assert_eq!((f.cc.m.sum, f.cc.m.round_end), (Extremes::default(), 77));
        assert_eq!(f.cc.m.shadow, f.w.cwnd);
    }

    /// The round in which the window was reduced is no measure of growth.
    #[test]
    fn a_reduction_begins_a_round() {
        let mut f = Flow::new(cdg(&[never()]), 10, 5);
        f.round(40_000, 40_000);
        let nxt = f.cc.nxt;
        f.cc.on_reduced(&mut f.w, &Reduced::at(Time::ZERO));
        assert_eq!((f.cc.m.round_end, f.cc.m.round), (nxt, None));
    }
}
