//! Exit from slow start before the buffer overflows: HyStart as in Linux, and HyStart++ (RFC 9406).
//!
//! HyStart (Ha, Rhee 2011; Linux 6.12) runs from a window of 16 packets on. It ends slow start at
//! most once, and may do so again after a timeout. Either detector sets `ssthresh = cwnd`:
//! - *ACK train*: since the round began, ACKs at most 2 ms apart have arrived for longer than half
//!   of the minimum RTT. For paced flows, this time is the whole minimum RTT. An allowance for
//!   bursts of at most 1 ms is first added to the minimum RTT. Such a train means that the path is
//!   full.
//! - *Delay*: after eight RTT samples of a round, the minimum RTT of the round exceeds the
//!   connection's minimum by an eighth of that minimum. The required difference is at least 4 ms
//!   and at most 16 ms.
//!
//! Before 5.6 ([`Rule::HystartMicroseconds`]) the clock had whole milliseconds, and RTTs were in
//! eighths of a millisecond. There was no allowance for bursts, and half of the minimum RTT was
//! enough for paced flows as well. Before 5.8, only the first eight RTT samples of a round counted.
//!
//! HyStart++: after eight RTT samples of a round, its minimum RTT is compared with that of the last
//! round. If it is higher by an eighth (at least 4 ms, at most 16 ms), slow start becomes
//! conservative. For five rounds, the window then grows at a quarter of the rate of slow start.
//! After these rounds, slow start ends. If the minimum RTT of a round falls below the one that
//! began the conservative phase, normal slow start resumes. An ACK counts at most 8 packets, also
//! for paced flows, to which RFC 9406 sets no limit.

use super::{Ack, Host, Sample, Window};
#[cfg(doc)]
use crate::kernel::Rule;
use crate::kernel::rules_of_component;
use crate::param::{Kind, Param};
use crate::units::{Span, Time};
use alloc::boxed::Box;

const LOW_WINDOW: u32 = 16;
const SAMPLES: u8 = 8;
const ACK_GAP_US: u64 = 2_000;
const DELAY_LEAST_US: u64 = 4_000;
const DELAY_MOST_US: u64 = 16_000;
/// Maximum number of packets per ACK that grow the window with HyStart++ (L of RFC 9406).
const ACK_MOST: u32 = 8;
const CSS_DIVISOR: u32 = 4;
const CSS_ROUNDS: u32 = 5;

/// An eighth of a millisecond in µs: the unit of RTTs before [`Rule::HystartMicroseconds`].
const EIGHTH_US: u64 = 125;

/// The algorithm that ends slow start.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Mode {
    /// None: only a loss or a mark ends slow start.
    Off,
    /// Linux's HyStart.
    Linux,
    /// RFC 9406.
    PlusPlus,
}

/// The parameter that congestion controls with HyStart share.
pub const PARAM: Param = Param {
    name: "hystart",
    kind: Kind::Word(&["linux", "off", "plusplus"]),
    help: "end of slow start: HyStart of Linux, no detection, or HyStart++ (RFC 9406)",
    source: "Linux 6.12 tcp_cubic: hystart = 1, hystart_detect = 3",
};

impl Mode {
    /// Returns the mode for a value of the parameter [`PARAM`].
    pub fn from_word(word: &str) -> Mode {
        match word {
            "off" => Mode::Off,
            "plusplus" => Mode::PlusPlus,
            _ => Mode::Linux,
        }
    }
}

rules_of_component! {
    rounds_by_samples: HystartRoundsBySamples,
    rounds_below_low_window: HystartRoundsBelowLowWindow,
    microseconds: HystartMicroseconds,
    minimum_of_round: HystartMinimumOfRound,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
struct Conservative {
    baseline_us: u64,
    rounds: u32,
}

/// The state of HyStart.
#[derive(Clone, Debug)]
pub struct HyStart {
    mode: Mode,
    rules: Rules,
    /// Payload of the largest super-packet, bytes.
    burst: u32,
    found: bool,
    /// Samples of this round; the count ends at 255.
    samples: u8,
    /// Packets acknowledged in the conservative phase that have not made the window grow yet.
    rest: u8,
    round_end: u64,
    round_start_us: u64,
    last_ack_us: u64,
    /// The minimum RTT of this round and of the last one with samples; [`NO_RTT`] without samples.
    least_us: u64,
    last_least_us: u64,
    css: Option<Box<Conservative>>,
}

const NO_RTT: u64 = u64::MAX;

impl HyStart {
    /// The state at the start of a connection.
    pub fn new(mode: Mode, host: &Host) -> HyStart {
        HyStart::with(mode, Rules::of(host.kernel), host.gso.payload() as u32)
    }
    fn with(mode: Mode, rules: Rules, burst: u32) -> HyStart {
        HyStart {
            mode,
            rules,
            burst,
            found: false,
            samples: 0,
            rest: 0,
            round_end: 0,
            round_start_us: 0,
            last_ack_us: 0,
            least_us: NO_RTT,
            last_least_us: NO_RTT,
            css: None,
        }
    }
    /// Restarts after a timeout.
    pub fn reset(&mut self) {
        *self = HyStart::with(self.mode, self.rules, self.burst);
    }
    /// Handles an ACK that grows the window in slow start: it may begin a new round. Since Linux
    /// 5.16 ([`Rule::HystartRoundsBySamples`]), rounds of Linux's HyStart begin in `on_sample`
    /// instead.
    pub fn on_ack(&mut self, w: &mut Window, ev: &Ack) {
        let by_samples = self.mode != Mode::PlusPlus && self.rules.rounds_by_samples;
        if ev.una <= self.round_end || by_samples {
            return;
        }
        self.begin_round(ev.now, ev.nxt);
        if let Some(css) = &mut self.css {
            css.rounds += 1;
            if css.rounds >= CSS_ROUNDS {
                self.found = true;
                self.css = None;
                w.ssthresh = w.cwnd;
            }
        }
    }
    fn begin_round(&mut self, now: Time, nxt: u64) {
        self.round_start_us = now.as_us();
        self.last_ack_us = now.as_us();
        self.round_end = nxt;
        if self.least_us != NO_RTT {
            self.last_least_us = self.least_us;
        }
        self.least_us = NO_RTT;
        self.samples = 0;
    }

    /// Handles an RTT sample in slow start; `least` is the connection's minimum RTT. If a detector
    /// of Linux's HyStart finds congestion, `w.ssthresh` is set to the window.
    pub fn on_sample(&mut self, w: &mut Window, ev: &Sample, rtt: Span, least: Span) {
        match self.mode {
            Mode::Off => {}
            Mode::Linux if self.found => {}
            Mode::Linux => {
                let low = w.cwnd < LOW_WINDOW;
                if ev.una > self.round_end
                    && self.rules.rounds_by_samples
                    && (!low || self.rules.rounds_below_low_window)
                {
                    self.begin_round(ev.now, ev.nxt);
                }
                if low {
                    return;
                }
                if self.rules.microseconds {
                    self.linux(w, ev, rtt, least);
                } else {
                    self.coarse(w, ev, rtt, least);
                }
            }
            Mode::PlusPlus => self.plus_plus(rtt),
        }
    }

    fn linux(&mut self, w: &mut Window, ev: &Sample, rtt: Span, least: Span) {
        let now = ev.now.as_us();
        let least_us = least.as_us();
        if now.saturating_sub(self.last_ack_us) <= ACK_GAP_US {
            self.last_ack_us = now;
            let mut train = least_us + burst_allowance_us(ev, self.burst);
            if !ev.paced {
                train /= 2;
            }
            if now.saturating_sub(self.round_start_us) > train {
                self.found = true;
                w.ssthresh = w.cwnd;
            }
        }
        let first = self.samples < SAMPLES;
        if first || self.rules.minimum_of_round {
            self.least_us = self.least_us.min(rtt.as_us());
        }
        if first {
            self.samples += 1;
        } else if self.has_sample() && self.least_us > least_us + threshold_us(least_us) {
            self.found = true;
            w.ssthresh = w.cwnd;
        }
    }

    /// The algorithm before [`Rule::HystartMicroseconds`].
    fn coarse(&mut self, w: &mut Window, ev: &Sample, rtt: Span, least: Span) {
        let ms = |us: u64| us / 1000;
        let eighths = |span: Span| (span.as_us() / EIGHTH_US).max(1);
        let (now, least) = (ev.now.as_us(), eighths(least));
        if ms(now).saturating_sub(ms(self.last_ack_us)) <= ms(ACK_GAP_US) {
            self.last_ack_us = now;
            if ms(now).saturating_sub(ms(self.round_start_us)) > least >> 4 {
                self.found = true;
                w.ssthresh = w.cwnd;
            }
        }
        let first = self.samples < SAMPLES;
        if first || self.rules.minimum_of_round {
            self.least_us = self.least_us.min(eighths(rtt) * EIGHTH_US);
        }
        if first {
            self.samples += 1;
            return;
        }
        let threshold = (least >> 3).clamp(DELAY_LEAST_US / EIGHTH_US, DELAY_MOST_US / EIGHTH_US);
        if self.has_sample() && self.least_us / EIGHTH_US > least + threshold {
            self.found = true;
            w.ssthresh = w.cwnd;
        }
    }

    fn plus_plus(&mut self, rtt: Span) {
        if self.found {
            return;
        }
        self.least_us = self.least_us.min(rtt.as_us());
        self.samples = self.samples.saturating_add(1);
        if self.samples < SAMPLES {
            return;
        }
        let (least, last) = (self.least_us, self.last_least_us);
        match self.css.as_deref() {
            Some(css) if least < css.baseline_us => self.css = None,
            None if last != NO_RTT && least >= last + threshold_us(last) => {
                self.css = Some(Box::new(Conservative {
                    baseline_us: least,
                    rounds: 0,
                }));
            }
            _ => {}
        }
    }
    fn has_sample(&self) -> bool {
        self.least_us != NO_RTT
    }

    /// Returns how many of `acked` acknowledged packets may grow the window: with HyStart++ at most
    /// 8, and a quarter of them in the conservative phase.
    pub fn growth(&mut self, acked: u32) -> u32 {
        if self.mode != Mode::PlusPlus || self.found {
            return acked;
        }
        let acked = acked.min(ACK_MOST);
        if self.css.is_none() {
            return acked;
        }
        let rest = u32::from(self.rest) + acked;
        self.rest = (rest % CSS_DIVISOR) as u8;
        rest / CSS_DIVISOR
    }
}

fn threshold_us(least: u64) -> u64 {
    (least / 8).clamp(DELAY_LEAST_US, DELAY_MOST_US)
}

/// Allowance of the ACK train for bursts, in µs: the duration of four maximum super-packets at the
/// pacing rate, at most 1 ms.
fn burst_allowance_us(ev: &Sample, burst: u32) -> u64 {
    let bytes_per_s = ev.pacing.as_bit() / 8;
    if bytes_per_s == 0 {
        return 0;
    }
    (u64::from(burst) * 4 * 1_000_000 / bytes_per_s).min(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Kernel;

    /// One round of HyStart++: `n` ACKs of a packet each, with this RTT; the next round ends at
    /// `nxt`.
    fn round(h: &mut HyStart, w: &mut Window, una: &mut u64, rtt_ms: u64, n: u64) {
        for i in 0..n {
            *una += 1;
            let mut sample = Sample::at(Time::ZERO);
            sample.una = *una;
            h.on_sample(w, &sample, Span::ms(rtt_ms), Span::ms(rtt_ms));
            let mut ack = Ack::at(Time::ZERO);
            (ack.una, ack.nxt) = (*una, *una + n - i - 1);
            h.on_ack(w, &ack);
        }
    }

    fn plus_plus() -> (HyStart, Window) {
        (
            HyStart::new(Mode::PlusPlus, &Host::default()),
            Window::new(20),
        )
    }

    /// RFC 9406 section 4.2: eight samples above the last round's minimum by an eighth make slow
    /// start conservative, and five such rounds end it.
    #[test]
    fn a_rising_delay_ends_slow_start_after_five_conservative_rounds() {
        let (mut h, mut w) = plus_plus();
        let mut una = 0;
        round(&mut h, &mut w, &mut una, 40, 20);
        assert_eq!(h.growth(4), 4);
        round(&mut h, &mut w, &mut una, 46, 20);
        assert_eq!(h.growth(4), 1);
        for _ in 0..4 {
            assert_eq!(w.ssthresh, super::super::INFINITE_SSTHRESH);
            round(&mut h, &mut w, &mut una, 46, 20);
        }
        round(&mut h, &mut w, &mut una, 46, 20);
        assert_eq!(w.ssthresh, 20);
    }

    #[test]
    fn a_delay_that_falls_again_was_no_reason() {
        let (mut h, mut w) = plus_plus();
        let mut una = 0;
        round(&mut h, &mut w, &mut una, 40, 20);
        round(&mut h, &mut w, &mut una, 46, 20);
        assert_eq!(h.growth(4), 1);
        round(&mut h, &mut w, &mut una, 41, 20);
        assert_eq!(h.growth(4), 4);
    }

    fn of(kernel: Kernel) -> HyStart {
        let host = Host {
            kernel,
            ..Host::default()
        };
        HyStart::new(Mode::Linux, &host)
    }

    /// On a path of 40 ms, eight high RTTs of a round are followed by a low one. Before 5.8, the
    /// minimum of the first eight counted; since then, the minimum of all counts.
    #[test]
    fn eight_round_trips_of_a_round_counted_before_5_8() {
        let ended = |kernel| {
            let (mut h, mut w) = (of(kernel), Window::new(20));
            let ack = |h: &mut HyStart, w: &mut Window, rtt_us| {
                let mut ev = Sample::at(Time::ZERO + Span::ms(1));
                (ev.una, ev.nxt, ev.paced) = (0, 0, true);
                h.on_sample(w, &ev, Span::us(rtt_us), Span::ms(40));
            };
            // Eight high ones, then a low one.
            (0..8).for_each(|_| ack(&mut h, &mut w, 46_000));
            ack(&mut h, &mut w, 40_000);
            w.ssthresh == w.cwnd
        };
        let releases = [(5, 5), (5, 7), (5, 8)].map(|(a, b)| Kernel::published(a, b));
        assert_eq!(releases.map(ended), [true, true, false]);
        let ported = ["linux-5.7", "linux-5.4"].map(|name| Kernel::named(name).unwrap());
        assert_eq!(ported.map(ended), [false, false]);
    }

    /// ACKs a millisecond apart for more than half of the minimum round trip ended slow start,
    /// paced or not. Paced flows now need the whole of it.
    #[test]
    fn an_ack_train_of_a_paced_flow_may_last_a_round_trip_since_5_6() {
        let ended_ms = |kernel| {
            let (mut h, mut w) = (of(kernel), Window::new(20));
            (1..100).find(|&ms| {
                let mut ev = Sample::at(Time::ZERO + Span::ms(ms));
                ev.paced = true;
                h.on_sample(&mut w, &ev, Span::ms(40), Span::ms(40));
                w.ssthresh == w.cwnd
            })
        };
        assert_eq!(
            [Kernel::published(5, 5), Kernel::published(5, 6)].map(ended_ms),
            [Some(21), Some(41)]
        );
    }

    #[test]
    fn a_round_began_with_growth_before_5_16() {
        let began = |kernel, cwnd| {
            let (mut h, mut w) = (of(kernel), Window::new(cwnd));
            let mut sample = Sample::at(Time::ZERO + Span::ms(40));
            (sample.una, sample.nxt) = (1, 10);
            h.on_sample(&mut w, &sample, Span::ms(40), Span::ms(40));
            let by_sample = h.round_end;
            let mut ack = Ack::at(Time::ZERO + Span::ms(40));
            (ack.una, ack.nxt) = (1, 11);
            h.on_ack(&mut w, &ack);
            (by_sample, h.round_end)
        };
        assert_eq!(began(Kernel::published(5, 15), 20), (0, 11));
        assert_eq!(began(Kernel::published(5, 16), 20), (10, 10));
        // Below 16 packets, no round began until 6.14.
        assert_eq!(began(Kernel::published(6, 13), 10), (0, 0));
        assert_eq!(began(Kernel::published(6, 14), 10), (10, 10));
    }

    #[test]
    fn no_ack_counts_for_more_than_eight_packets() {
        let (mut h, _) = plus_plus();
        assert_eq!(h.growth(45), 8);
        assert_eq!(HyStart::new(Mode::Linux, &Host::default()).growth(45), 45);
    }
}
