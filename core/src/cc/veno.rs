//! Veno as in Linux: Reno that uses Vegas's measure to distinguish congestion from random loss.
//!
//! Algorithm, with every ACK that may grow the window: `queued = cwnd · (rtt − base) / rtt`. `rtt`
//! is the minimum RTT since the last such ACK and `base` the minimum RTT of the connection. `beta`
//! is three packets.
//! - slow start as in Reno;
//! - congestion avoidance: `cwnd + 1` per `cwnd` packets acknowledged while `queued < beta`,
//!   otherwise `cwnd + 1` per `2 cwnd` packets acknowledged;
//! - on congestion `ssthresh = 4/5 cwnd` if `queued < beta` (random loss), otherwise `cwnd / 2`; at
//!   least 2.
//!
//! Sources: Fu, Liew, "TCP Veno: TCP enhancement for transmission over wireless access networks"
//! (IEEE JSAC 21(2), 2003). Linux 6.12 differs, as measurements show:
//! - `queued` is computed at each ACK, mostly from the RTT of this ACK alone, not once per round
//!   trip. Its unit is half a packet;
//! - until three RTTs have been measured on the connection, and in any state but Open, the window
//!   grows as in Reno. The last value of `queued` from the state Open still determines the
//!   reduction;
//! - if an ACK has no RTT sample, the whole window counts as queued;
//! - while `queued ≥ beta`, the first ACK after `cwnd` counted packets does not count towards the
//!   next `cwnd` packets;
//! - `base` is reset whenever data leaves while none is in flight.
//!
//! Before 5.7 Linux counted an ACK of several packets as one packet in congestion avoidance; this
//! is not modelled.

use super::reno::{Reno, avoid, slow_start};
use super::{Ack, CcKind, CongestionControl, Family, Loss, Sample, Sent, StateChange, Window};
use crate::param::{Kind, Param, Params};
use crate::transport::State;
use crate::units::Span;
use alloc::boxed::Box;

/// Queued packets are counted in units of half a packet: two units per packet.
const HALVES: u64 = 2;
/// Until more RTTs than this have been measured on the connection, the window grows as in Reno.
const TOO_FEW: u32 = 2;
/// Added to every RTT, so that no RTT is zero, as in Linux.
const NEVER_ZERO: Span = Span::us(1);
/// Minimum window, in packets.
const LEAST: u32 = 2;

/// The parameters.
pub const PARAMS: &[Param] = &[Param {
    name: "beta",
    kind: Kind::Packets(3, 0, 1000),
    help: "queued packets from which the growth is halved and a loss counts as congestion",
    source: "Linux 6.12 tcp_veno: beta = 3",
}];

/// Veno's state.
#[derive(Clone, Debug)]
pub struct Veno {
    /// The parameter `beta`, in half packets.
    beta: u64,
    /// The queued packets, in half packets.
    queued: u64,
    /// Whether the state of recovery is Open: then the rules of Veno apply, not those of Reno.
    on: bool,
    /// Number of RTT samples on the connection.
    samples: u32,
    base: Option<Span>,
    least: Option<Span>,
    /// While `queued ≥ beta`: whether the next `cwnd` counted packets make the window grow.
    due: bool,
}

impl Veno {
    /// The state at the start of a connection.
    pub fn new(params: &Params) -> Veno {
        Veno {
            beta: params.packets("beta").saturating_mul(HALVES),
            queued: 0,
            on: true,
            samples: 0,
            base: None,
            least: None,
            due: true,
        }
    }

    fn measure(&mut self, cwnd: u32) {
        let cwnd = u64::from(cwnd) * HALVES;
        let fits = match (self.base, self.least) {
            (Some(base), Some(rtt)) => cwnd.saturating_mul(base.as_us()) / rtt.as_us(),
            _ => 0,
        };
        self.queued = cwnd - fits;
    }

    fn is_congested(&self) -> bool {
        self.queued >= self.beta
    }

    fn grow(&mut self, w: &mut Window, mut acked: u32) {
        if w.in_slow_start() {
            acked = slow_start(w, acked);
            if acked == 0 {
                return;
            }
        }
        if !self.is_congested() {
            avoid(w, w.cwnd, acked);
        } else if w.cwnd_cnt < w.cwnd {
            w.cwnd_cnt = w.cwnd_cnt.saturating_add(acked);
        } else {
            w.cwnd_cnt = 0;
            let grows = self.due && w.cwnd < w.clamp;
            w.cwnd += u32::from(grows);
            self.due = !grows;
        }
    }
}

impl CongestionControl for Veno {
    fn on_sent(&mut self, _w: &mut Window, _ev: &Sent) {
        self.base = None;
        self.least = None;
        self.due = true;
        self.on = true;
    }

    fn on_state(&mut self, _w: &mut Window, ev: &StateChange) {
        self.on = ev.to == State::Open;
        if self.on {
            self.least = None;
        }
    }

    fn on_sample(&mut self, _w: &mut Window, ev: &Sample) {
        let Some(rtt) = ev.rtt else { return };
        let rtt = rtt + NEVER_ZERO;
        let least = |of: Option<Span>| Some(of.map_or(rtt, |of| of.min(rtt)));
        (self.base, self.least) = (least(self.base), least(self.least));
        self.samples = self.samples.saturating_add(1);
    }

    fn on_ack(&mut self, w: &mut Window, ev: &Ack) {
        if !ev.may_grow || !ev.cwnd_limited {
            return;
        }
        if !self.on {
            return Reno.on_ack(w, ev);
        }
        if self.samples > TOO_FEW {
            self.measure(w.cwnd);
            self.grow(w, ev.delivered);
            w.cwnd = w.cwnd.max(LEAST).min(w.clamp);
        } else {
            Reno.on_ack(w, ev);
        }
        self.least = None;
    }

    fn on_loss(&mut self, w: &mut Window, ev: &Loss) {
        if self.is_congested() {
            Reno.on_loss(w, ev);
        } else {
            w.ssthresh = ((u64::from(w.cwnd) * 4 / 5) as u32).max(LEAST);
        }
    }

    fn describe(&self, visit: &mut dyn FnMut(&'static str, f64)) {
        visit("queued", self.queued as f64 / HALVES as f64);
        if let Some(base) = self.base {
            visit("base_rtt_ms", base.as_ms());
        }
    }

    fn fork(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

/// The registry entry.
pub const KIND: CcKind = CcKind {
    name: "veno",
    help: "Reno that treats a loss with fewer than three queued packets as random: reduction by a \
        fifth instead of half",
    source: "Fu, Liew 2003; Linux 6.12",
    family: Family::Loss,
    year: 2003,
    needs: &[],
    default_in: &[],
    params: PARAMS,
    make: &|params, _| Box::new(Veno::new(params)),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Time;

    struct Bench {
        cc: Veno,
        w: Window,
    }

    /// A flow in congestion avoidance with enough RTT samples, whose minimum is 100 ms.
    fn bench(cwnd: u32) -> Bench {
        let mut w = Window::new(cwnd);
        w.ssthresh = cwnd;
        let cc = Veno::new(&Params::defaults(PARAMS));
        let mut b = Bench { cc, w };
        for _ in 0..3 {
            b.sample(100_000);
        }
        b.ack(0);
        b
    }

    impl Bench {
        fn sample(&mut self, us: u64) {
            let mut ev = Sample::at(Time::ZERO);
            ev.rtt = Some(Span::us(us));
            self.cc.on_sample(&mut self.w, &ev);
        }
        fn ack(&mut self, delivered: u32) {
            let mut ev = Ack::at(Time::ZERO);
            ev.delivered = delivered;
            self.cc.on_ack(&mut self.w, &ev);
        }
        /// ACKs of one packet each, with round trips of `us`; returns the window after them.
        fn acks(&mut self, n: u32, us: u64) -> u32 {
            for _ in 0..n {
                self.sample(us);
                self.ack(1);
            }
            self.w.cwnd
        }
        fn loss(&mut self) -> u32 {
            self.cc.on_loss(&mut self.w, &Loss::at(Time::ZERO));
            self.w.ssthresh
        }
        fn state(&mut self, to: State) {
            let mut ev = StateChange::at(Time::ZERO);
            ev.to = to;
            self.cc.on_state(&mut self.w, &ev);
        }
    }

    #[test]
    fn a_loss_with_few_packets_queued_reduces_the_window_by_a_fifth() {
        let mut b = bench(50);
        // 100 · 100/105.2 = 95.06, which leaves 5 halves queued.
        b.acks(1, 105_200);
        assert_eq!((b.cc.queued, b.loss()), (5, 40));
        b.w.cwnd = 2;
        assert_eq!(b.loss(), 2);
    }

    #[test]
    fn with_three_packets_queued_a_loss_halves_the_window() {
        let mut b = bench(50);
        // 100 · 100/105.3 = 94.97, which leaves 6 halves.
        b.acks(1, 105_300);
        assert_eq!((b.cc.queued, b.loss()), (6, 25));
    }

    #[test]
    fn with_few_packets_queued_it_grows_with_every_window() {
        let mut b = bench(50);
        assert_eq!(b.acks(49, 100_000), 50);
        assert_eq!(b.acks(1, 100_000), 51);
        assert_eq!(b.acks(51, 100_000), 52);
    }

    #[test]
    fn with_more_it_grows_with_every_other_window() {
        let mut b = bench(50);
        // The ACK that completes a window does not count.
        assert_eq!(b.acks(50, 120_000), 50);
        assert_eq!(b.acks(1, 120_000), 51);
        assert_eq!(b.acks(52, 120_000), 51);
        assert_eq!(b.acks(51, 120_000), 51);
        assert_eq!(b.acks(1, 120_000), 52);
        b.ack(53);
        b.acks(1, 120_000);
        assert_eq!((b.w.cwnd, b.w.cwnd_cnt), (52, 0), "packets count, not ACKs");
    }

    #[test]
    fn each_ack_is_measured_by_itself() {
        let mut b = bench(50);
        b.acks(1, 150_000);
        assert!(b.cc.is_congested());
        b.acks(1, 101_000);
        assert!(!b.cc.is_congested());
        // Two measurements before one ACK: the minimum counts.
        b.sample(102_000);
        b.sample(150_000);
        b.ack(1);
        assert_eq!(b.cc.queued, 2);
        b.acks(1, 150_000);
        assert!(b.cc.is_congested(), "which is gone by the next");
    }

    #[test]
    fn without_an_rtt_sample_the_whole_window_counts_as_queued() {
        let mut b = bench(50);
        b.ack(1);
        assert_eq!(b.cc.queued, 100);
    }

    #[test]
    fn slow_start_is_renos_and_measures() {
        let mut b = bench(50);
        b.w.ssthresh = 60;
        assert_eq!(b.acks(10, 120_000), 60);
        assert!(b.cc.is_congested());
    }

    #[test]
    fn until_three_measurements_it_is_reno() {
        let mut b = bench(50);
        b.cc = Veno::new(&Params::defaults(PARAMS));
        b.acks(1, 100_000);
        assert_eq!(b.acks(1, 200_000), 50);
        assert!(!b.cc.is_congested());
        b.acks(1, 200_000);
        assert!(b.cc.is_congested());
    }

    #[test]
    fn outside_the_open_state_it_is_reno_and_keeps_its_measurements() {
        let mut b = bench(50);
        b.acks(1, 120_000);
        b.state(State::Disorder);
        b.w.cwnd_cnt = 0;
        assert_eq!(b.acks(50, 100_000), 51);
        assert_eq!(b.loss(), 25);
        b.state(State::Open);
        b.acks(1, 120_000);
        assert!(b.cc.is_congested(), "what was measured meanwhile is not");
    }

    #[test]
    fn it_rests_while_the_window_is_not_the_limit() {
        let mut b = bench(50);
        b.w.ssthresh = 100;
        let mut ev = Ack::at(Time::ZERO);
        ev.cwnd_limited = false;
        ev.delivered = 10;
        b.cc.on_ack(&mut b.w, &ev);
        (ev.cwnd_limited, ev.may_grow) = (true, false);
        b.cc.on_ack(&mut b.w, &ev);
        assert_eq!(b.w.cwnd, 50);
    }

    #[test]
    fn data_into_an_empty_path_forgets_the_least_round_trip() {
        let mut b = bench(50);
        b.state(State::Loss);
        b.cc.on_sent(&mut b.w, &Sent::at(Time::ZERO));
        b.acks(1, 200_000);
        assert!(!b.cc.is_congested());
        b.acks(1, 240_000);
        assert!(b.cc.is_congested(), "and Veno decides again");
    }
}
