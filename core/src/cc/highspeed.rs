//! HighSpeed TCP as in Linux: the larger the window, the more it grows and the less it decreases.
//!
//! Algorithm: the window for a loss rate p is `W = 0.12 / p^0.835`. It equals the window of Reno at
//! a loss rate of 10⁻³ (38 packets), and is 83 000 packets at 10⁻⁷. With `b(w) = 0.5 − 0.4 ln(w/38)
//! / ln(83000/38)`, this requires `a(w) = w² p(w) 2 b(w) / (2 − b(w))`, `p(w) = 0.078 / w^1.2`. On
//! loss `ssthresh = (1 − b(w)) w`, per round trip in congestion avoidance `cwnd += a(w)`. Up to 38
//! packets, a = 1 and b = 1/2, as in Reno.
//!
//! Sources: RFC 3649, whose appendix B has the table below, a(w) from 1 to 73; Linux 6.12 for these
//! differences, which measurements of Linux show:
//! - a row applies to every window between its own and that of the row before: a(w) is rounded up,
//!   b(w) down;
//! - growth counts ACKs, not packets. A receiver that acknowledges every second packet halves the
//!   growth, so small windows grow more slowly than in Reno;
//! - the row is looked up by each ACK that may grow the window in congestion avoidance. A loss
//!   uses the row of the last such ACK. The first loss, at the end of slow start, removes half of
//!   the window. If two losses follow each other without such an ACK in between, the second removes
//!   the same fraction as the first;
//! - b(w) is in 1/256, rounded down, except in the last row (beyond 89 053 packets), where Linux
//!   has 24, not 23;
//! - the reduction is computed from `cwnd`, not from the flight size; an ACK that crosses
//!   `ssthresh` does not count in congestion avoidance.

use super::reno::slow_start;
use super::{Ack, CcKind, CongestionControl, Family, Loss, Start, Window};
use alloc::boxed::Box;

/// Rows of the table.
const ROWS: usize = 73;
/// The largest window of each row, in packets.
const UP_TO: [u32; ROWS] = [
    38, 118, 221, 347, 495, 663, 851, 1058, 1284, 1529, 1793, 2076, 2378, 2699, 3039, 3399, 3778,
    4177, 4596, 5036, 5497, 5979, 6483, 7009, 7558, 8130, 8726, 9346, 9991, 10661, 11358, 12082,
    12834, 13614, 14424, 15265, 16137, 17042, 17981, 18955, 19965, 21013, 22101, 23230, 24402,
    25618, 26881, 28193, 29557, 30975, 32450, 33986, 35586, 37253, 38992, 40808, 42707, 44694,
    46776, 48961, 51258, 53677, 56230, 58932, 61799, 64851, 68113, 71617, 75401, 79517, 84035,
    89053, 94717,
];
/// Reduction on loss in each row: b(w), in 1/256 of the window.
const TAKES: [u8; ROWS] = [
    128, 112, 104, 98, 93, 89, 86, 83, 81, 78, 76, 74, 72, 71, 69, 68, 66, 65, 64, 62, 61, 60, 59,
    58, 57, 56, 55, 54, 53, 52, 52, 51, 50, 49, 48, 48, 47, 46, 45, 45, 44, 43, 43, 42, 41, 41, 40,
    39, 39, 38, 38, 37, 36, 36, 35, 35, 34, 33, 33, 32, 32, 31, 30, 30, 29, 28, 28, 27, 26, 26, 25,
    24, 24,
];
/// The largest window whose product with 128 fits into 32 bits.
const MOST: u32 = u32::MAX / 128;

/// HighSpeed's state.
#[derive(Clone, Debug, Default)]
pub struct HighSpeed {
    /// The index of the present row of the table.
    row: usize,
}

impl HighSpeed {
    /// Finds the first row whose largest window is at least `cwnd`, or the last row. The search
    /// begins at the present row, because windows change little between two ACKs.
    fn find_row(&mut self, cwnd: u32) {
        while self.row < ROWS - 1 && cwnd > UP_TO[self.row] {
            self.row += 1;
        }
        while self.row > 0 && cwnd <= UP_TO[self.row - 1] {
            self.row -= 1;
        }
    }
    /// a(w), the growth per round trip in packets.
    fn growth(&self) -> u32 {
        self.row as u32 + 1
    }
}

impl CongestionControl for HighSpeed {
    fn on_start(&mut self, w: &mut Window, _ev: &Start) {
        w.clamp = w.clamp.min(MOST);
    }

    fn on_ack(&mut self, w: &mut Window, ev: &Ack) {
        if !ev.may_grow || !ev.cwnd_limited {
            return;
        }
        if w.in_slow_start() {
            slow_start(w, ev.delivered);
            return;
        }
        self.find_row(w.cwnd);
        if w.cwnd < w.clamp {
            w.cwnd_cnt = w.cwnd_cnt.saturating_add(self.growth());
            if w.cwnd_cnt >= w.cwnd {
                w.cwnd_cnt -= w.cwnd;
                w.cwnd += 1;
            }
        }
    }

    fn on_loss(&mut self, w: &mut Window, _ev: &Loss) {
        let less = (u64::from(w.cwnd) * u64::from(TAKES[self.row])) >> 8;
        w.ssthresh = (w.cwnd - less as u32).max(2);
    }

    fn describe(&self, visit: &mut dyn FnMut(&'static str, f64)) {
        visit("a", f64::from(self.growth()));
        visit("b", f64::from(TAKES[self.row]) / 256.0);
    }

    fn fork(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

/// The registry entry.
pub const KIND: CcKind = CcKind {
    name: "highspeed",
    help: "a larger window grows faster and is reduced less; up to 38 packets it is Reno",
    source: "RFC 3649; Linux 6.12",
    family: Family::Loss,
    year: 2003,
    needs: &[],
    default_in: &[],
    params: &[],
    make: &|_, _| Box::new(HighSpeed::default()),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Time;
    use alloc::vec::Vec;

    /// b(w) of RFC 3649 section 5, with its `Low_Window`, `High_Window` and `High_Decrease`.
    fn b(w: f64) -> f64 {
        0.5 + (0.1 - 0.5) * (libm::log(w) - libm::log(38.0))
            / (libm::log(83_000.0) - libm::log(38.0))
    }
    /// a(w), with p(w) = 1 / (12.8 w^1.2) as in appendix B of the RFC.
    fn a(w: f64) -> f64 {
        w * w * 2.0 * b(w) / ((2.0 - b(w)) * libm::pow(w, 1.2) * 12.8)
    }
    /// The table by the method of appendix B: a row at each window at which a(w) has grown by more
    /// than one since the last row.
    fn derived() -> Vec<(u32, f64)> {
        let (mut rows, mut last) = (Vec::from([(38, 0.5)]), 1.0);
        for w in 38..100_000 {
            let grown = a(f64::from(w));
            if grown > last + 1.0 {
                rows.push((w, b(f64::from(w))));
                last = grown;
            }
        }
        rows
    }

    #[test]
    fn the_table_follows_from_the_formulas_of_the_rfc() {
        let rows = derived();
        assert_eq!(rows.iter().map(|r| r.0).collect::<Vec<_>>(), UP_TO);
        // b(38) is a half except for the last bit.
        let mut takes: Vec<u8> = rows.iter().map(|r| (r.1 * 256.0 + 1e-9) as u8).collect();
        // 23.84, for which Linux has 24.
        takes[ROWS - 1] += 1;
        assert_eq!(takes, TAKES);
    }

    /// RFC 3649 appendix B gives b(w) with two digits.
    #[test]
    fn the_decreases_are_those_of_the_rfc() {
        const PRINTED: [u8; ROWS] = [
            50, 44, 41, 38, 37, 35, 34, 33, 32, 31, 30, 29, 28, 28, 27, 27, 26, 26, 25, 25, 24, 24,
            23, 23, 22, 22, 22, 21, 21, 21, 20, 20, 20, 19, 19, 19, 19, 18, 18, 18, 17, 17, 17, 17,
            16, 16, 16, 16, 15, 15, 15, 15, 14, 14, 14, 14, 13, 13, 13, 13, 13, 12, 12, 12, 12, 11,
            11, 11, 10, 10, 10, 10, 9,
        ];
        for ((w, b), printed) in derived().iter().zip(PRINTED) {
            assert_eq!((b * 100.0 + 0.5) as u8, printed, "{w}");
        }
    }

    /// A flow in avoidance at `cwnd` after one ACK of `acked` packets.
    fn at(cwnd: u32, acked: u32) -> (HighSpeed, Window) {
        let (mut h, mut w) = (HighSpeed::default(), Window::new(cwnd));
        w.ssthresh = cwnd;
        let mut ev = Ack::at(Time::ZERO);
        ev.delivered = acked;
        h.on_ack(&mut w, &ev);
        (h, w)
    }
    fn lose(h: &mut HighSpeed, cwnd: u32) -> u32 {
        let mut w = Window::new(cwnd);
        h.on_loss(&mut w, &Loss::at(Time::ZERO));
        w.ssthresh
    }

    #[test]
    fn a_row_ends_with_its_window() {
        let a = |cwnd| at(cwnd, 1).1.cwnd_cnt;
        assert_eq!(
            [10, 38, 39, 118, 119, 84_035, 84_036].map(a),
            [1, 1, 2, 2, 3, 71, 72]
        );
        assert_eq!([94_717, 94_718, 1_000_000].map(a), [73; 3]);
    }

    #[test]
    fn a_loss_reduces_the_window_by_the_share_of_the_row() {
        let left = |cwnd| {
            let (mut h, _) = at(cwnd, 1);
            lose(&mut h, cwnd)
        };
        assert_eq!(
            [1, 3, 38, 1000, 80_000].map(left),
            [2, 2, 19, 1000 - 324, 80_000 - 7812]
        );
        // Results of Linux 6.12 in virtual time (the window before the loss within a few packets,
        // the threshold exactly).
        assert_eq!(
            [2347, 7374, 60_232, 82_131, 87_125, 90_248, 94_202].map(left),
            [1687, 5733, 53_409, 74_111, 78_958, 81_788, 85_371]
        );
    }

    #[test]
    fn the_row_is_that_of_the_last_growth() {
        assert_eq!(lose(&mut HighSpeed::default(), 1000), 500);
        let (mut h, _) = at(1000, 1);
        assert_eq!(lose(&mut h, 30), 30 - 9);
        // In slow start no row is looked up.
        let mut w = Window::new(30);
        h.on_ack(&mut w, &Ack::at(Time::ZERO));
        assert_eq!(h.row, 7);
        w.ssthresh = 118;
        w.cwnd = 118;
        h.on_ack(&mut w, &Ack::at(Time::ZERO));
        assert_eq!(h.row, 1);
    }

    #[test]
    fn growth_counts_acks_not_packets() {
        assert_eq!(at(1000, 2).1.cwnd_cnt, at(1000, 1).1.cwnd_cnt);
        let (mut h, mut w) = at(1000, 2);
        for _ in 0..1000 {
            let mut ev = Ack::at(Time::ZERO);
            ev.delivered = 2;
            h.on_ack(&mut w, &ev);
        }
        assert_eq!(
            (w.cwnd, w.cwnd_cnt),
            (1007, 8 * 1001 - (1000..1007).sum::<u32>())
        );
    }

    #[test]
    fn an_ack_that_crosses_the_threshold_adds_no_credit_to_avoidance() {
        let (mut h, mut w) = (HighSpeed::default(), Window::new(10));
        w.ssthresh = 11;
        let mut ev = Ack::at(Time::ZERO);
        ev.delivered = 40;
        h.on_ack(&mut w, &ev);
        assert_eq!((w.cwnd, w.cwnd_cnt), (11, 0));
    }
}
