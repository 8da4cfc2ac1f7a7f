//! DCTCP: switches mark packets early, and the window decreases in proportion to the share of
//! marked packets.
//!
//! Algorithm, with `F` the share of marked packets among those delivered in one window of data: `α
//! = (1 − g) α + g F`, `g = 1/16`, and `α = 1` at first. On a mark, once per window, `ssthresh =
//! cwnd (1 − α/2)`; on loss `ssthresh = cwnd/2`; growth is Reno's. Without ECN, the flow behaves as
//! Reno.
//!
//! The receiver must echo every single mark ([`Need::EcnEcho`]), and the queue must mark packets
//! that arrive while it holds more than `K` packets. Then `N` synchronized flows over a link with
//! the capacity `C` keep the queue between `K + N` and `K + N − ½ √(2N (C·RTT + K))` packets. For
//! `K > C·RTT/7`, the queue never becomes empty.
//!
//! Sources: RFC 8257; Alizadeh et al., "Data Center TCP (DCTCP)", 2010, section 3.3 for the queue;
//! Linux 6.12 for differences from the RFC:
//! - `α` is an integer in units of 1/1024. It decreases by `α >> 4`; once `α >> 4` is 0, it
//!   decreases to 0;
//! - `F` counts packets, not bytes, including SACKed ones; an ACK with ECE marks all packets that
//!   it delivers;
//! - the packets of the ACK that ends a window count in this window. Before 6.15
//!   ([`Rule::DeliveredBeforeEvent`](crate::kernel::Rule::DeliveredBeforeEvent)), those that it
//!   acknowledged in order counted in the next window;
//! - a loss that a tail loss probe repaired reduces the window as a mark does;
//! - a loss during a reduction for a mark reduces the window again, from its present value.

use super::reno::Reno;
use super::{
    Ack, Cause, CcKind, CongestionControl, Family, Loss, Need, Sample, SpuriousLoss, Start,
    StateChange, Window,
};
use crate::param::{Kind, Param, Params};
use crate::transport::State;
use alloc::boxed::Box;

/// Unit of `α`: 1/1024.
const ONE: u32 = 1 << SCALE;
const SCALE: u32 = 10;
/// Minimum of the slow start threshold after a reduction, in packets.
const LEAST: u32 = 2;

/// The parameters.
pub const PARAMS: &[Param] = &[
    Param {
        name: "shift_g",
        kind: Kind::Count(4, 0, SCALE as u64),
        help: "weight of a new window in alpha: 1/2^shift_g",
        source: "Linux 6.12 tcp_dctcp: dctcp_shift_g = 4; RFC 8257 section 4.2",
    },
    Param {
        name: "alpha_on_init",
        kind: Kind::Count(ONE as u64, 0, ONE as u64),
        help: "initial value of alpha, in 1/1024",
        source: "Linux 6.12 tcp_dctcp: dctcp_alpha_on_init = 1024; RFC 8257 section 4.2",
    },
];

/// DCTCP's state.
#[derive(Clone, Debug)]
pub struct Dctcp {
    shift_g: u32,
    alpha: u32,
    /// The window of data is over when every byte below this one is acknowledged.
    window_end: u64,
    /// Packets delivered before this window of data, and the marked packets among them.
    before: (u64, u64),
    /// The congestion window before the last reduction, in packets.
    prior_cwnd: u32,
    /// Whether the flow behaves as Reno, because the two ends did not agree on ECN.
    reno: bool,
}

impl Dctcp {
    /// The state at the start of a connection.
    pub fn new(params: &Params) -> Dctcp {
        Dctcp {
            shift_g: params.count("shift_g") as u32,
            alpha: params.count("alpha_on_init") as u32,
            window_end: 0,
            before: (0, 0),
            prior_cwnd: 0,
            reno: false,
        }
    }

    /// Updates `α` after a window of data with `delivered` packets, of which `marked` were marked.
    fn observe(&mut self, delivered: u64, marked: u64) {
        let share = self.alpha >> self.shift_g;
        // If the decrease rounds to zero, α itself becomes zero, as in Linux.
        self.alpha -= if share == 0 { self.alpha } else { share };
        let new = (marked << (SCALE - self.shift_g.min(SCALE))) / delivered.max(1);
        self.alpha = u64::from(self.alpha)
            .saturating_add(new)
            .min(u64::from(ONE)) as u32;
    }

    fn halve(&mut self, w: &mut Window) {
        self.prior_cwnd = w.cwnd;
        w.ssthresh = (w.cwnd / 2).max(LEAST);
    }
}

impl CongestionControl for Dctcp {
    fn on_start(&mut self, _w: &mut Window, ev: &Start) {
        self.reno = !ev.ecn;
        self.before = (ev.totals.delivered, 0);
    }

    fn on_sample(&mut self, _w: &mut Window, ev: &Sample) {
        if ev.una < self.window_end {
            return;
        }
        let (delivered, marked) = self.before;
        self.observe(
            ev.delivered.saturating_sub(delivered),
            ev.delivered_ce.saturating_sub(marked),
        );
        self.window_end = ev.nxt;
        self.before = (ev.delivered, ev.delivered_ce);
    }

    fn on_ack(&mut self, w: &mut Window, ev: &Ack) {
        Reno.on_ack(w, ev);
    }

    fn on_loss(&mut self, w: &mut Window, ev: &Loss) {
        if self.reno || ev.cause == Cause::Timeout {
            return self.halve(w);
        }
        self.prior_cwnd = w.cwnd;
        let cut = (u64::from(w.cwnd) * u64::from(self.alpha)) >> (SCALE + 1);
        w.ssthresh = w.cwnd.saturating_sub(cut as u32).max(LEAST);
    }

    fn on_state(&mut self, w: &mut Window, ev: &StateChange) {
        if ev.to == State::Recovery && ev.from != State::Recovery && !self.reno {
            self.halve(w);
        }
    }

    fn on_spurious_loss(&mut self, w: &mut Window, ev: &SpuriousLoss) {
        let prior = if self.reno {
            ev.prior_cwnd
        } else {
            self.prior_cwnd
        };
        w.cwnd = w.cwnd.max(prior);
    }

    fn describe(&self, visit: &mut dyn FnMut(&'static str, f64)) {
        visit("alpha", f64::from(self.alpha) / f64::from(ONE));
    }

    fn fork(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

/// The registry entry.
pub const KIND: CcKind = CcKind {
    name: "dctcp",
    help: "for data centres: the reduction depends on the share of packets that network switches \
        marked (ECN)",
    source: "RFC 8257; Linux 6.12",
    family: Family::Switch,
    year: 2010,
    needs: &[Need::EcnEcho],
    default_in: &[],
    params: PARAMS,
    make: &|params, _| Box::new(Dctcp::new(params)),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Time;

    fn dctcp() -> (Dctcp, Window) {
        let mut cc = Dctcp::new(&Params::defaults(PARAMS));
        let mut w = Window::new(100);
        let mut start = Start::at(Time::ZERO);
        start.ecn = true;
        cc.on_start(&mut w, &start);
        (cc, w)
    }

    fn sample(una: u64, nxt: u64, delivered: u64, delivered_ce: u64) -> Sample {
        let mut ev = Sample::at(Time::ZERO);
        (ev.una, ev.nxt, ev.delivered, ev.delivered_ce) = (una, nxt, delivered, delivered_ce);
        ev
    }

    fn loss(cause: Cause) -> Loss {
        let mut ev = Loss::at(Time::ZERO);
        ev.cause = cause;
        ev
    }

    fn enters(cc: &mut Dctcp, w: &mut Window, from: State, to: State) {
        let mut ev = StateChange::at(Time::ZERO);
        (ev.from, ev.to) = (from, to);
        cc.on_state(w, &ev);
    }

    /// RFC 8257 section 4.2: α starts at 1. It decreases by a sixteenth with every window, in
    /// integers.
    #[test]
    fn alpha_falls_by_a_sixteenth_per_window_without_marks() {
        let (mut cc, _) = dctcp();
        let alphas = [(); 7].map(|()| {
            cc.observe(100, 0);
            cc.alpha
        });
        assert_eq!(alphas, [960, 900, 844, 792, 743, 697, 654]);
    }

    #[test]
    fn alpha_of_less_than_sixteen_units_becomes_zero() {
        let (mut cc, _) = dctcp();
        cc.alpha = 16;
        let alphas = [(); 3].map(|()| {
            cc.observe(100, 0);
            cc.alpha
        });
        assert_eq!(alphas, [15, 0, 0]);
    }

    /// RFC 8257 section 3.3: α = (1 − g) α + g F.
    #[test]
    fn alpha_averages_the_marked_share_with_weight_one_sixteenth() {
        let (mut cc, _) = dctcp();
        cc.alpha = 0;
        let alphas =
            [(10, 3), (10, 10), (1000, 1), (0, 0), (7, 7), (3, 2)].map(|(delivered, marked)| {
                cc.observe(delivered, marked);
                cc.alpha
            });
        assert_eq!(alphas, [19, 82, 77, 73, 133, 167]);
        // α approaches a constant share, rounded down by up to a sixteenth of sixteen.
        (0..200).for_each(|_| cc.observe(100, 25));
        assert!((256..272).contains(&cc.alpha), "{}", cc.alpha);
        (0..200).for_each(|_| cc.observe(100, 100));
        assert_eq!(cc.alpha, ONE);
        // A mark may be reported before the packet counts as delivered.
        cc.observe(10, 11);
        assert_eq!(cc.alpha, ONE);
    }

    #[test]
    fn alpha_is_worked_out_once_per_window_of_data() {
        let (mut cc, mut w) = dctcp();
        // The first ACK ends the empty window that began with the connection.
        cc.on_sample(&mut w, &sample(10, 100, 1, 0));
        assert_eq!(cc.alpha, 960);
        for una in 11..100 {
            cc.on_sample(&mut w, &sample(una, una + 90, una - 9, (una - 9) / 2));
            assert_eq!(cc.alpha, 960);
        }
        // 90 delivered, 45 of them marked.
        cc.on_sample(&mut w, &sample(100, 190, 91, 45));
        assert_eq!(cc.alpha, 960 - 60 + 45 * 64 / 90);
    }

    /// RFC 8257 section 3.4: cwnd = cwnd (1 − α/2).
    #[test]
    fn a_mark_reduces_the_window_by_half_of_alpha() {
        let (mut cc, mut w) = dctcp();
        let cuts = [
            (1024, 100),
            (512, 100),
            (102, 100),
            (20, 100),
            (1024, 2),
            (0, 100),
        ]
        .map(|(alpha, cwnd)| {
            (cc.alpha, w.cwnd) = (alpha, cwnd);
            cc.on_loss(&mut w, &loss(Cause::Mark));
            w.ssthresh
        });
        assert_eq!(cuts, [50, 75, 96, 100, 2, 100]);
    }

    /// RFC 8257 section 3.5: a loss halves the window, whatever α is.
    #[test]
    fn a_loss_halves_the_window_at_any_alpha() {
        let (mut cc, mut w) = dctcp();
        cc.alpha = 0;
        cc.on_loss(&mut w, &loss(Cause::Loss));
        enters(&mut cc, &mut w, State::Disorder, State::Recovery);
        assert_eq!(w.ssthresh, 50);
        // Again the same state: nothing new.
        w.cwnd = 60;
        enters(&mut cc, &mut w, State::Recovery, State::Recovery);
        assert_eq!(w.ssthresh, 50);
        w.cwnd = 30;
        cc.on_loss(&mut w, &loss(Cause::Timeout));
        assert_eq!(w.ssthresh, 15);
    }

    #[test]
    fn a_loss_during_a_reduction_by_marks_halves_the_reduced_window() {
        let (mut cc, mut w) = dctcp();
        cc.on_loss(&mut w, &loss(Cause::Mark));
        w.cwnd = 80;
        enters(&mut cc, &mut w, State::Cwr, State::Recovery);
        assert_eq!(w.ssthresh, 40);
    }

    #[test]
    fn a_mistaken_reduction_is_taken_back_whole() {
        let (mut cc, mut w) = dctcp();
        cc.on_loss(&mut w, &loss(Cause::Loss));
        enters(&mut cc, &mut w, State::Disorder, State::Recovery);
        w.cwnd = 50;
        cc.on_spurious_loss(&mut w, &SpuriousLoss::at(Time::ZERO));
        assert_eq!(w.cwnd, 100);
    }

    #[test]
    fn without_ecn_it_is_reno() {
        let (mut cc, mut w) = dctcp();
        cc.on_start(&mut w, &Start::at(Time::ZERO));
        cc.alpha = 0;
        cc.on_loss(&mut w, &loss(Cause::TailProbe));
        assert_eq!(w.ssthresh, 50);
        w.cwnd = 60;
        enters(&mut cc, &mut w, State::Cwr, State::Recovery);
        assert_eq!(w.ssthresh, 50);
    }

    #[test]
    fn between_marks_it_grows_like_reno() {
        let (mut cc, mut w) = dctcp();
        w.ssthresh = 100;
        let mut ack = Ack::at(Time::ZERO);
        ack.delivered = 2;
        (0..50).for_each(|_| cc.on_ack(&mut w, &ack));
        assert_eq!(w.cwnd, 101);
    }
}
