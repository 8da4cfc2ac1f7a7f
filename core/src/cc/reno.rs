//! Reno as in Linux: the window grows by one packet per round trip and is halved on loss.
//!
//! Algorithm: slow start `cwnd += acked` up to `ssthresh`; congestion avoidance `cwnd += 1` per
//! `cwnd` packets acknowledged; on congestion `ssthresh = max(cwnd / 2, 2)`.
//!
//! Sources: RFC 5681; Linux 6.12 for the details:
//! - the unit is packets, not bytes;
//! - when an ACK crosses `ssthresh`, the packets beyond `ssthresh` count in congestion avoidance;
//! - the reduction is computed from `cwnd`, not from the flight size;
//! - an ACK that completes several windows of packets in congestion avoidance increases `cwnd` by
//!   as many packets at once. If packets counted before a reduction exceed the reduced window, they
//!   increase it by one packet only.

use super::{Ack, CcKind, CongestionControl, DefaultIn, Family, Loss, Window};
use alloc::boxed::Box;

/// Slow start: the window grows by `acked` packets, up to the threshold. Returns the acknowledged
/// packets beyond the threshold.
pub fn slow_start(w: &mut Window, acked: u32) -> u32 {
    let grown = w.cwnd.saturating_add(acked).min(w.ssthresh);
    let rest = acked - (grown - w.cwnd);
    w.cwnd = grown.min(w.clamp);
    rest
}

/// Slow start, if the window is below the threshold. Returns the acknowledged packets left for
/// congestion avoidance; `None` if this ACK must not grow the window further.
pub fn beyond_slow_start(w: &mut Window, ev: &Ack) -> Option<u32> {
    if !ev.may_grow || !ev.cwnd_limited {
        return None;
    }
    if !w.in_slow_start() {
        return Some(ev.delivered);
    }
    Some(slow_start(w, ev.delivered)).filter(|left| *left > 0)
}

/// Additive increase: the window grows by one packet for every `per` packets acknowledged. `acked`
/// is the number of packets that this ACK acknowledged.
pub fn avoid(w: &mut Window, per: u32, acked: u32) {
    let per = per.max(1);
    if w.cwnd_cnt >= per {
        w.cwnd_cnt = 0;
        w.cwnd += 1;
    }
    w.cwnd_cnt = w.cwnd_cnt.saturating_add(acked);
    if w.cwnd_cnt >= per {
        let steps = w.cwnd_cnt / per;
        w.cwnd_cnt -= steps * per;
        w.cwnd = w.cwnd.saturating_add(steps);
    }
    w.cwnd = w.cwnd.min(w.clamp);
}

/// Reno, which has no state besides the window.
#[derive(Clone, Debug, Default)]
pub struct Reno;

impl CongestionControl for Reno {
    fn on_ack(&mut self, w: &mut Window, ev: &Ack) {
        if let Some(acked) = beyond_slow_start(w, ev) {
            avoid(w, w.cwnd, acked);
        }
    }
    fn on_loss(&mut self, w: &mut Window, _ev: &Loss) {
        w.ssthresh = (w.cwnd / 2).max(2);
    }
    fn fork(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

/// The registry entry.
pub const KIND: CcKind = CcKind {
    name: "reno",
    help: "increases by one packet per RTT, halves the window after a loss",
    source: "RFC 5681; Linux 6.12",
    family: Family::Loss,
    year: 1990,
    needs: &[],
    default_in: &[
        DefaultIn {
            system: "Linux",
            since: "1.0 (1994-03)",
            until: "2.6.8 (2004-08)",
        },
        DefaultIn {
            system: "FreeBSD",
            since: "2.0 (1994-11)",
            until: "14.0 (2023-11)",
        },
    ],
    params: &[],
    make: &|_, _| Box::new(Reno),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Time;

    #[test]
    fn a_loss_halves_the_window_but_leaves_two_packets() {
        for (cwnd, left) in [(100, 50), (5, 2), (3, 2), (1, 2)] {
            let mut w = Window::new(cwnd);
            Reno.on_loss(&mut w, &Loss::at(Time::ZERO));
            assert_eq!(w.ssthresh, left);
        }
    }

    #[test]
    fn a_window_that_is_not_used_does_not_grow() {
        let mut w = Window::new(10);
        let mut ev = Ack::at(Time::ZERO);
        (ev.delivered, ev.cwnd_limited) = (10, false);
        Reno.on_ack(&mut w, &ev);
        assert_eq!(w.cwnd, 10);
        ev.cwnd_limited = true;
        Reno.on_ack(&mut w, &ev);
        assert_eq!(w.cwnd, 20);
    }

    #[test]
    fn an_ack_that_crosses_the_threshold_spends_the_rest_in_avoidance() {
        let mut w = Window::new(10);
        w.ssthresh = 12;
        assert_eq!(slow_start(&mut w, 5), 3);
        assert_eq!(w.cwnd, 12);
    }

    #[test]
    fn a_full_window_of_acks_adds_one_packet() {
        let mut w = Window::new(10);
        w.ssthresh = 10;
        for _ in 0..5 {
            avoid(&mut w, 10, 2);
        }
        assert_eq!((w.cwnd, w.cwnd_cnt), (11, 0));
    }

    #[test]
    fn credit_from_before_the_window_shrank_is_worth_one_packet() {
        let mut w = Window {
            cwnd_cnt: 90,
            ..Window::new(10)
        };
        avoid(&mut w, 10, 1);
        assert_eq!((w.cwnd, w.cwnd_cnt), (11, 1));
    }
}
