//! Scalable TCP as in Linux: above 100 packets, the window grows by a hundredth of the acknowledged
//! packets. A loss reduces the window by an eighth.
//!
//! Algorithm: `cwnd += 1` per `min(cwnd, 100)` packets acknowledged, so above 100 packets 1 % per
//! round trip; on loss `ssthresh = cwnd − cwnd/8`. The window returns to its value before a loss
//! after `ln(8/7)/ln(1.01) = 13.4` round trips, for any value above 100 packets. The name of the
//! algorithm refers to this property. Two flows that lose packets at the same time keep their
//! shares, because both windows grow and decrease by the same factors.
//!
//! Sources: Kelly, "Scalable TCP: improving performance in highspeed wide area networks" (CCR
//! 33(2), 2003), with a = 0.01 and b = 0.125. Linux 6.12 differs in details:
//! - below 100 packets the window grows as in Reno. In the paper, this threshold is 16 packets, and
//!   a loss below it halves the window. In Linux, a loss always removes an eighth;
//! - the reduction is computed from `cwnd`, not from the flight size.

use super::reno::{avoid, beyond_slow_start};
use super::{Ack, CcKind, CongestionControl, Family, Loss, Window};
use alloc::boxed::Box;

/// Acknowledged packets per packet of growth, for windows of at least as many packets: a = 1/100.
const PER: u32 = 100;
/// A loss reduces the window by the window divided by this: b = 1/8.
const PART: u32 = 8;

/// Scalable TCP, which has no state besides the window.
#[derive(Clone, Debug, Default)]
pub struct Scalable;

impl CongestionControl for Scalable {
    fn on_ack(&mut self, w: &mut Window, ev: &Ack) {
        if let Some(acked) = beyond_slow_start(w, ev) {
            avoid(w, w.cwnd.min(PER), acked);
        }
    }
    fn on_loss(&mut self, w: &mut Window, _ev: &Loss) {
        w.ssthresh = (w.cwnd - w.cwnd / PART).max(2);
    }
    fn fork(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

/// The registry entry.
pub const KIND: CcKind = CcKind {
    name: "scalable",
    help: "grows by 1/100 of the acknowledged packets, shrinks by 1/8: the recovery time does not \
        depend on the rate",
    source: "Kelly 2003; Linux 6.12",
    family: Family::Loss,
    year: 2003,
    needs: &[],
    default_in: &[],
    params: &[],
    make: &|_, _| Box::new(Scalable),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Time;

    /// The window after `rounds` round trips from `cwnd` in avoidance, two packets per ACK.
    fn after(cwnd: u32, rounds: u32) -> u32 {
        let mut w = Window::new(cwnd);
        w.ssthresh = cwnd;
        for _ in 0..rounds {
            for _ in 0..w.cwnd / 2 {
                let mut ev = Ack::at(Time::ZERO);
                ev.delivered = 2;
                Scalable.on_ack(&mut w, &ev);
            }
        }
        w.cwnd
    }

    fn lose(cwnd: u32) -> u32 {
        let mut w = Window::new(cwnd);
        Scalable.on_loss(&mut w, &Loss::at(Time::ZERO));
        w.ssthresh
    }

    #[test]
    fn a_loss_reduces_the_window_by_an_eighth() {
        assert_eq!([8, 100, 1007].map(lose), [7, 88, 882]);
        assert_eq!([1, 2, 3].map(lose), [2, 2, 3]);
    }

    #[test]
    fn above_a_hundred_packets_one_per_cent_per_round_trip() {
        assert_eq!(
            [after(100, 1), after(1000, 1), after(20_000, 1)],
            [101, 1010, 20_200]
        );
    }

    #[test]
    fn below_a_hundred_packets_it_grows_as_reno() {
        assert_eq!([after(20, 1), after(50, 1), after(98, 1)], [21, 51, 99]);
    }

    /// Kelly 2003, section 3: the time to recover does not depend on the window.
    #[test]
    fn a_window_of_any_size_is_back_after_fourteen_round_trips() {
        for cwnd in [1000, 8000, 64_000] {
            assert!(after(lose(cwnd), 13) < cwnd, "{cwnd}");
            assert!(after(lose(cwnd), 14) > cwnd, "{cwnd}");
        }
    }

    #[test]
    fn packets_left_over_by_slow_start_count_in_avoidance() {
        let mut w = Window::new(100);
        w.ssthresh = 101;
        let mut ev = Ack::at(Time::ZERO);
        ev.delivered = 102;
        Scalable.on_ack(&mut w, &ev);
        assert_eq!((w.cwnd, w.cwnd_cnt), (102, 1));
    }
}
