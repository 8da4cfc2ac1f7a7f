//! Vegas as in Linux: keeps two to four packets of the flow in the queue, measured by the RTT,
//! without waiting for losses.
//!
//! Algorithm, once per round trip, with `rtt` its minimum RTT, `base` the minimum RTT of the
//! connection, and `queued = cwnd · (rtt − base) / base`, in packets:
//! - slow start: if `queued > gamma` (1), `cwnd = min(cwnd, cwnd · base / rtt + 1)`, and slow start
//!   ends; otherwise the window doubles as Reno's;
//! - congestion avoidance: `cwnd − 1` if `queued > beta` (4), `cwnd + 1` if `queued < alpha` (2),
//!   otherwise no change; at least 2 packets;
//! - in any state but Open, the window changes as in Reno. If a round trip had at most two RTT
//!   samples, the ACK that ends it changes the window as in Reno. The response to a loss is also
//!   that of Reno.
//!
//! Sources: Brakmo, Peterson, "TCP Vegas: end to end congestion avoidance on a global Internet"
//! (IEEE JSAC 13(8), 1995). Linux 6.12 differs, as measurements show:
//! - slow start doubles the window with every round trip, not with every other;
//! - the divisor of `queued` is `base`, not `rtt`, which makes `queued` a little larger; `queued`
//!   and its bounds are whole packets;
//! - the paper's early retransmissions are left out, because the transport controls recovery;
//! - `base` is reset whenever data leaves while none is in flight, after a pause or after a
//!   timeout. A standing queue of other flows then counts as part of the path;
//! - the window changes even if it did not limit the sender. At the end of each round trip,
//!   `ssthresh` is raised to three quarters of the window if it is lower.
//!
//! Linux computes `queued` in 32 bits, which overflow if the packets of a large window wait for
//! seconds. In this file, the computation does not overflow.

use super::reno::{Reno, slow_start};
use super::{Ack, CcKind, CongestionControl, Family, Loss, Sample, Sent, StateChange, Window};
use crate::param::{Kind, Param, Params};
use crate::transport::State;
use crate::units::Span;
use alloc::boxed::Box;

/// A round trip with at most this many RTT samples may consist of delayed ACKs only.
const TOO_FEW: u32 = 2;
/// Added to every RTT, so that no RTT is zero, as in Linux.
const NEVER_ZERO: Span = Span::us(1);
/// Minimum window, in packets.
const LEAST: u32 = 2;

/// The parameters.
pub const PARAMS: &[Param] = &[
    Param {
        name: "alpha",
        kind: Kind::Packets(2, 0, 1000),
        help: "queued packets below which the window grows",
        source: "Linux 6.12 tcp_vegas: alpha = 2",
    },
    Param {
        name: "beta",
        kind: Kind::Packets(4, 0, 1000),
        help: "queued packets above which the window shrinks",
        source: "Linux 6.12 tcp_vegas: beta = 4",
    },
    Param {
        name: "gamma",
        kind: Kind::Packets(1, 0, 1000),
        help: "queued packets above which slow start ends",
        source: "Linux 6.12 tcp_vegas: gamma = 1",
    },
];

/// The minimum RTT since the last reset, and that of the present round trip.
#[derive(Clone, Debug, Default)]
pub(super) struct RoundTrips {
    base: Option<Span>,
    least: Option<Span>,
    samples: u32,
    /// The round trip ends when a byte above this one is acknowledged.
    end: u64,
}

/// The RTTs that a round trip resulted in.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Delays {
    /// The minimum RTT since the last reset, µs.
    pub base: u64,
    /// The minimum RTT of the last round trip, µs; at least `base`.
    pub rtt: u64,
}

impl RoundTrips {
    /// A state without measurements. The round trip ends with the acknowledgement of data from
    /// `nxt` on, the first byte that has not been sent.
    pub(super) fn from(nxt: u64) -> RoundTrips {
        RoundTrips {
            end: nxt,
            ..RoundTrips::default()
        }
    }
    /// Takes an RTT sample.
    pub(super) fn take(&mut self, rtt: Span) {
        let rtt = rtt + NEVER_ZERO;
        let least = |of: Option<Span>| Some(of.map_or(rtt, |of| of.min(rtt)));
        (self.base, self.least) = (least(self.base), least(self.least));
        self.samples = self.samples.saturating_add(1);
    }
    /// Begins another round trip; `nxt` is the first byte that has not been sent.
    pub(super) fn begin(&mut self, nxt: u64) {
        self.end = nxt;
        self.samples = 0;
        self.least = None;
    }
    /// Returns whether the round trip is over, if every byte below `una` is acknowledged.
    pub(super) fn over(&self, una: u64) -> bool {
        una > self.end
    }
    /// Returns the RTTs of the round trip; `None` if there were too few samples.
    pub(super) fn delays(&self) -> Option<Delays> {
        let enough = self.samples > TOO_FEW;
        let (base, rtt) = (self.base?.as_us(), self.least?.as_us());
        enough.then_some(Delays { base, rtt })
    }
}

/// Vegas's state.
#[derive(Clone, Debug)]
pub struct Vegas {
    alpha: u64,
    beta: u64,
    gamma: u64,
    /// Whether the state of recovery is Open: then the rules of Vegas apply, not those of Reno.
    on: bool,
    rounds: RoundTrips,
    /// `queued` of the last round trip with enough RTT samples, in packets.
    queued: u64,
}

impl Vegas {
    /// The state at the start of a connection.
    pub fn new(params: &Params) -> Vegas {
        Vegas {
            alpha: params.packets("alpha"),
            beta: params.packets("beta"),
            gamma: params.packets("gamma"),
            on: true,
            rounds: RoundTrips::default(),
            queued: 0,
        }
    }

    fn on_round(&mut self, w: &mut Window, acked: u32, seen: Delays) {
        let Delays { base, rtt } = seen;
        let cwnd = u64::from(w.cwnd);
        self.queued = cwnd.saturating_mul(rtt - base) / base;
        if w.in_slow_start() {
            if self.queued > self.gamma {
                let fits = cwnd.saturating_mul(base) / rtt + 1;
                w.cwnd = cwnd.min(fits) as u32;
                w.ssthresh = w.ssthresh.min(w.cwnd);
            } else {
                slow_start(w, acked);
            }
        } else if self.queued > self.beta {
            w.cwnd = w.cwnd.saturating_sub(1);
            w.ssthresh = w.ssthresh.min(w.cwnd);
        } else if self.queued < self.alpha {
            w.cwnd = w.cwnd.saturating_add(1);
        }
        w.cwnd = w.cwnd.max(LEAST).min(w.clamp);
        w.ssthresh = w.ssthresh.max(w.cwnd / 2 + w.cwnd / 4);
    }
}

impl CongestionControl for Vegas {
    fn on_sent(&mut self, _w: &mut Window, ev: &Sent) {
        self.rounds = RoundTrips::from(ev.nxt);
        self.on = true;
    }

    fn on_state(&mut self, _w: &mut Window, ev: &StateChange) {
        self.on = ev.to == State::Open;
        if self.on {
            self.rounds.begin(ev.nxt);
        }
    }

    fn on_sample(&mut self, _w: &mut Window, ev: &Sample) {
        if let Some(rtt) = ev.rtt {
            self.rounds.take(rtt);
        }
    }

    fn on_ack(&mut self, w: &mut Window, ev: &Ack) {
        if !ev.may_grow {
            return;
        }
        if !self.on {
            return Reno.on_ack(w, ev);
        }
        if !self.rounds.over(ev.una) {
            if w.in_slow_start() {
                slow_start(w, ev.delivered);
            }
            return;
        }
        match self.rounds.delays() {
            Some(seen) => self.on_round(w, ev.delivered, seen),
            None => Reno.on_ack(w, ev),
        }
        self.rounds.begin(ev.nxt);
    }

    fn on_loss(&mut self, w: &mut Window, ev: &Loss) {
        Reno.on_loss(w, ev);
    }

    fn describe(&self, visit: &mut dyn FnMut(&'static str, f64)) {
        visit("queued", self.queued as f64);
        if let Some(base) = self.rounds.base {
            visit("base_rtt_ms", base.as_ms());
        }
    }

    fn fork(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

/// The registry entry.
pub const KIND: CcKind = CcKind {
    name: "vegas",
    help: "two to four packets in the queue, computed from the RTT: the window changes by one \
        packet per RTT",
    source: "Brakmo, Peterson 1995; Linux 6.12",
    family: Family::Delay,
    year: 1994,
    needs: &[],
    default_in: &[],
    params: PARAMS,
    make: &|params, _| Box::new(Vegas::new(params)),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Time;

    /// A connection in which every ACK acknowledges one packet and may end a round trip.
    struct Bench {
        cc: Vegas,
        w: Window,
        una: u64,
    }

    fn bench(cwnd: u32, ssthresh: u32) -> Bench {
        let mut w = Window::new(cwnd);
        w.ssthresh = ssthresh;
        Bench {
            cc: Vegas::new(&Params::defaults(PARAMS)),
            w,
            una: 0,
        }
    }

    impl Bench {
        fn sample(&mut self, us: u64) {
            let mut ev = Sample::at(Time::ZERO);
            ev.rtt = Some(Span::us(us));
            self.cc.on_sample(&mut self.w, &ev);
        }
        fn ack(&mut self, una: u64, nxt: u64, delivered: u32) {
            let mut ev = Ack::at(Time::ZERO);
            (ev.una, ev.nxt, ev.delivered) = (una, nxt, delivered);
            self.una = una;
            self.cc.on_ack(&mut self.w, &ev);
        }
        /// A round trip of three measurements; returns the window after it.
        fn round(&mut self, us: u64) -> u32 {
            for more in [0, 700, 5000] {
                self.sample(us + more);
            }
            self.ack(self.una + 1, self.una + 1, 1);
            self.w.cwnd
        }
        fn state(&mut self, to: State, nxt: u64) {
            let mut ev = StateChange::at(Time::ZERO);
            (ev.to, ev.nxt) = (to, nxt);
            self.cc.on_state(&mut self.w, &ev);
        }
    }

    #[test]
    fn below_two_packets_queued_it_grows_by_one_and_from_two_on_it_stays() {
        let mut b = bench(50, 50);
        assert_eq!(b.round(100_000), 51);
        // 51 · 3.9/100 = 1.99 packets, then 52 · 3.9/100 = 2.03.
        assert_eq!(b.round(103_900), 52);
        assert_eq!(b.round(103_900), 52);
    }

    #[test]
    fn up_to_four_packets_queued_it_stays_and_above_it_shrinks_by_one() {
        let mut b = bench(49, 49);
        b.round(100_000);
        // 50 · 9.9/100 = 4.95, which is four packets; 50 · 10.1/100 = 5.05.
        assert_eq!(b.round(109_900), 50);
        assert_eq!(b.round(110_100), 49);
        assert_eq!(b.w.ssthresh, 49, "else it would be in slow start");
    }

    /// The divisor is the minimum RTT: 100 · 5.2/100 = 5.2, but 100 · 5.2/105.2 = 4.9.
    #[test]
    fn the_excess_is_in_units_of_the_least_round_trip() {
        let mut b = bench(99, 99);
        b.round(100_000);
        assert_eq!(b.round(105_200), 99);
    }

    #[test]
    fn the_least_of_a_round_trip_counts_and_the_window_rests_between() {
        let mut b = bench(99, 99);
        b.round(100_000);
        let (from, to) = (b.una, b.una + 100);
        b.ack(from + 1, to, 1);
        for at in from + 2..=to {
            b.sample(if at == from + 50 { 103_000 } else { 150_000 });
            b.ack(at, to + 100, 2);
            assert_eq!(b.w.cwnd, 100);
        }
        b.ack(to + 1, to + 101, 1);
        assert_eq!(b.w.cwnd, 100, "100 · 3/100 packets queued");
        for _ in 0..3 {
            b.sample(100_000);
        }
        b.ack(to + 50, to + 200, 1);
        assert_eq!(
            b.w.cwnd, 100,
            "its round trip ends at what had been sent when it began"
        );
    }

    #[test]
    fn slow_start_doubles_with_every_round_trip_until_more_than_one_packet_is_queued() {
        let mut b = bench(10, u32::MAX / 2);
        b.ack(1, 11, 1);
        for at in 2..=11 {
            b.sample(100_000);
            b.ack(at, 21, 1);
        }
        assert_eq!(b.w.cwnd, 21);
        b.ack(12, 22, 1);
        assert_eq!(b.w.cwnd, 22, "the ACK that ends a round trip counts, too");
        b.w.cwnd = 40;
        b.una = 100;
        // 40 · 4.9/100 = 1.96, which is one packet.
        assert_eq!(b.round(104_900), 41);
        assert!(b.w.in_slow_start());
        // 41 · 10/100 = 4.1 packets; 41/1.1 = 37.3 fit, and one more.
        assert_eq!(b.round(110_000), 38);
        assert_eq!(b.w.ssthresh, 38);
        assert!(!b.w.in_slow_start());
    }

    #[test]
    fn the_threshold_follows_at_three_quarters() {
        let mut b = bench(99, 20);
        b.round(100_000);
        assert_eq!((b.w.cwnd, b.w.ssthresh), (100, 75));
    }

    #[test]
    fn a_window_of_two_packets_is_the_least() {
        let mut b = bench(2, 2);
        b.round(100_000);
        for _ in 0..10 {
            b.round(1_000_000);
        }
        assert_eq!(b.w.cwnd, 2);
    }

    #[test]
    fn a_round_trip_of_two_measurements_is_renos() {
        let mut b = bench(49, 49);
        b.round(100_000);
        b.sample(200_000);
        b.sample(200_000);
        b.ack(b.una + 1, b.una + 1, 50);
        assert_eq!(b.w.cwnd, 51);
    }

    #[test]
    fn it_moves_whether_or_not_the_window_is_the_limit() {
        let mut b = bench(50, 50);
        for _ in 0..3 {
            b.sample(100_000);
        }
        let mut ev = Ack::at(Time::ZERO);
        ev.cwnd_limited = false;
        (ev.una, ev.delivered) = (1, 1);
        b.cc.on_ack(&mut b.w, &ev);
        assert_eq!(b.w.cwnd, 51);
        for _ in 0..3 {
            b.sample(100_000);
        }
        ev.may_grow = false;
        ev.una = 2;
        b.cc.on_ack(&mut b.w, &ev);
        assert_eq!(b.w.cwnd, 51);
    }

    #[test]
    fn out_of_open_it_is_reno_and_then_begins_anew() {
        let mut b = bench(49, 49);
        b.round(100_000);
        b.state(State::Disorder, 100);
        for _ in 0..3 {
            b.sample(200_000);
        }
        b.ack(2, 100, 50);
        assert_eq!(b.w.cwnd, 51, "a window of ACKs");
        b.state(State::Open, 100);
        b.ack(100, 200, 1);
        assert_eq!(b.w.cwnd, 51, "the round trip ends beyond 100");
        b.sample(200_000);
        b.sample(200_000);
        b.ack(101, 201, 51);
        assert_eq!(b.w.cwnd, 52, "what was measured before does not count");
    }

    #[test]
    fn data_into_an_empty_path_forgets_the_least_round_trip() {
        let mut b = bench(49, 49);
        b.round(100_000);
        assert_eq!(b.round(200_000), 49);
        let mut sent = Sent::at(Time::ZERO);
        sent.nxt = 10;
        b.state(State::Loss, 10);
        b.cc.on_sent(&mut b.w, &sent);
        b.una = 10;
        assert_eq!(b.round(200_000), 50, "and Vegas decides again");
    }

    #[test]
    fn a_loss_halves_the_congestion_window() {
        let mut b = bench(50, 50);
        b.cc.on_loss(&mut b.w, &Loss::at(Time::ZERO));
        assert_eq!(b.w.ssthresh, 25);
    }
}
