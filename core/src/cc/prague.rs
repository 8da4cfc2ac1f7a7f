//! Prague: DCTCP for the Internet, with counted marks, fractional windows and limited RTT
//! dependence.
//!
//! Algorithm, with `p` the share of marked packets: `α = (1 − g) α + g p`, `g = 1/16`, once per
//! round trip from the first mark on; `α = 1` until then. A mark removes the fraction `α/2` of the
//! window, once per round trip; a loss removes half of the window, once per recovery. In congestion
//! avoidance, every packet acknowledged without a mark adds `s / cwnd` packets to the window, also
//! during a reduction for a mark; `s = 1`. In equilibrium two packets per round trip are marked:
//! `cwnd = 2/p`. The pacing rate is `cwnd / srtt`, and twice that while `cwnd < ssthresh / 2`. A
//! burst contains the data of a quarter of a millisecond.
//!
//! From the 500th round trip of the connection on, a flow with an RTT below 25 ms behaves as if its
//! RTT were 25 ms. Then `s = (srtt / 25 ms)²`, and `α` and reductions are computed at most once in
//! 25 ms. The rate of this flow grows as fast as that of a flow with an RTT of 25 ms.
//!
//! Sources: draft-briscoe-iccrg-prague-congestion-control-04; RFC 9331 section 4.3 for the
//! requirements; the Linux implementation (L4STeam, version 0.6) for numbers and order. The window
//! is fractional in 2⁻²⁰ of a packet. `α` has 20 bits and is stored times `1/g`, so that no
//! remainder is lost. The rate counts packets of 1500 bytes. Without ECN that counts marks
//! ([`Need::EcnCount`]), the flow behaves as Reno.
//!
//! During recovery the window is constant, as in the Linux implementation. Deviations from the
//! Linux implementation: after a timeout the window grows as in Reno; there, it grows only after
//! the lost data is repaired. There is no fallback to Reno for a queue that seems to mark as in RFC
//! 3168; there, this fallback is off by default.

use super::reno::{self, Reno};
use super::{
    Ack, Cause, CcKind, CongestionControl, Family, Loss, Need, Sample, SpuriousLoss, Start,
    StateChange, Window,
};
use crate::param::{Kind, Param, Params};
use crate::transport::State;
use crate::units::{Rate, Span, Time};
use alloc::boxed::Box;

/// Unit of fractions of a packet and of `α`: 2⁻²⁰.
const BITS: u32 = 20;
const ONE: i64 = 1 << BITS;
/// Minimum window, in packets.
const LEAST: u32 = 2;
/// Bytes that each packet contributes to the pacing rate.
const MTU: u64 = 1500;
/// Burst size as a share of a second of the rate: 2⁻¹², a quarter of a millisecond.
const BURST_SHIFT: u32 = 12;

/// The parameters.
pub const PARAMS: &[Param] = &[
    Param {
        name: "shift_g",
        kind: Kind::Count(4, 0, 10),
        help: "weight of a new RTT in alpha: 1/2^shift_g",
        source: "draft-briscoe-iccrg-prague-congestion-control-04; TCP Prague 0.6: PRAGUE_SHIFT_G",
    },
    Param {
        name: "rtt_target",
        kind: Kind::Span(Span::ms(25), Span::ZERO, Span::s(1)),
        help: "a flow with a shorter RTT behaves as if its RTT were this long; 0s: every flow \
            uses its own RTT",
        source: "draft-briscoe-iccrg-prague-congestion-control-04; TCP Prague 0.6: \
            prague_rtt_target",
    },
    Param {
        name: "rtt_transition",
        kind: Kind::Count(500, 0, 1_000_000),
        help: "RTTs before rtt_target applies",
        source: "TCP Prague 0.6: prague_rtt_transition",
    },
];

/// Prague's state.
#[derive(Clone, Debug)]
pub struct Prague {
    shift_g: u32,
    rtt_target: Span,
    rtt_transition: u64,

    /// Fraction of a packet by which the window exceeds `Window::cwnd`, in 2⁻²⁰.
    part: i64,
    /// `α`, in 2⁻²⁰, times `1/g`.
    alpha_g: u64,
    seen_mark: bool,
    /// Packets delivered since the last update of `α`.
    delivered: u64,
    /// Packets marked since the last update of `α`.
    marked: u64,
    /// Time of the last update of `α`.
    worked_out: Option<Time>,
    /// Time of the last reduction for a mark.
    reduced: Option<Time>,
    /// The round trip is over when every byte below this one is acknowledged.
    round_end: u64,
    rounds: u64,
    srtt: Span,
    /// The window before the last loss, in packets.
    prior_cwnd: u32,
    /// Whether the flow behaves as Reno, because the two ends did not agree on ECN that counts
    /// marks.
    reno: bool,
}

impl Prague {
    /// The state at the start of a connection.
    pub fn new(params: &Params) -> Prague {
        let shift_g = params.count("shift_g") as u32;
        Prague {
            shift_g,
            rtt_target: params.span("rtt_target"),
            rtt_transition: params.count("rtt_transition"),
            part: 0,
            alpha_g: (ONE as u64) << shift_g,
            seen_mark: false,
            delivered: 0,
            marked: 0,
            worked_out: None,
            reduced: None,
            round_end: 0,
            rounds: 0,
            srtt: Span::ZERO,
            prior_cwnd: 0,
            reno: false,
        }
    }

    /// `α` in 2⁻²⁰.
    fn alpha(&self) -> u64 {
        self.alpha_g >> self.shift_g
    }

    /// Returns whether the flow behaves as one with the RTT `rtt_target`.
    fn acts_slower(&self) -> bool {
        self.rounds >= self.rtt_transition && self.srtt < self.rtt_target
    }
    /// Returns whether a flow that behaves as one with the RTT `rtt_target` must wait, because less
    /// than `rtt_target` has passed since `last`.
    fn too_soon(&self, now: Time, last: Option<Time>) -> bool {
        self.acts_slower() && last.is_some_and(|last| now.since(last) < self.rtt_target)
    }
    /// Growth of the window in a round trip without marks, in 2⁻²⁰ of a packet.
    fn increase(&self) -> u64 {
        if !self.acts_slower() {
            return ONE as u64;
        }
        let (rtt, target) = (
            u128::from(self.srtt.as_us()),
            u128::from(self.rtt_target.as_us()),
        );
        (((rtt * rtt) << BITS) / (target * target).max(1)) as u64
    }

    /// Counts the end of a round trip, and updates `α` if it is due.
    fn end_round(&mut self, ev: &Ack) {
        self.round_end = ev.nxt;
        self.rounds += 1;
        if self.too_soon(ev.now, self.worked_out) {
            return;
        }
        self.worked_out = Some(ev.now);
        if self.seen_mark {
            let share = (self.marked.min(self.delivered) << BITS) / self.delivered.max(1);
            self.alpha_g = self.alpha_g - self.alpha() + share;
        }
        (self.delivered, self.marked) = (0, 0);
    }

    /// Moves whole packets from the fraction to the window.
    fn settle(&mut self, w: &mut Window) {
        let whole = self.part >> BITS;
        self.part -= whole << BITS;
        let cwnd = i64::from(w.cwnd) + whole;
        if cwnd < i64::from(LEAST) {
            self.part = 0;
        }
        w.cwnd = cwnd.clamp(i64::from(LEAST), i64::from(w.clamp)) as u32;
    }

    fn grow(&mut self, w: &mut Window, unmarked: u32) {
        let mut acked = unmarked;
        if w.in_slow_start() {
            acked = reno::slow_start(w, acked);
        }
        if acked > 0 {
            let cwnd = u64::from(w.cwnd.max(1));
            self.part += ((u64::from(acked) * self.increase() + cwnd / 2) / cwnd) as i64;
            self.settle(w);
        }
    }

    fn shrink(&mut self, w: &mut Window, alpha: u64) {
        let cwnd = ((i128::from(w.cwnd) << BITS) + i128::from(self.part)).max(0) as u128;
        self.part -= ((cwnd * u128::from(alpha)) >> (BITS + 1)) as i64;
        self.settle(w);
        w.ssthresh = w.cwnd;
    }

    fn halve(&mut self, w: &mut Window) {
        self.prior_cwnd = w.cwnd;
        self.shrink(w, ONE as u64);
    }

    /// Sets the pacing rate and the burst size.
    fn pace(&self, w: &mut Window, in_flight: u32) {
        let us = self.srtt.as_us();
        if us == 0 {
            return;
        }
        let twice = if w.cwnd < w.ssthresh / 2 { 2 } else { 1 };
        let bytes = u64::from(w.cwnd.max(in_flight)) * MTU * twice;
        let per_s = bytes.saturating_mul(1_000_000) / us;
        w.pacing = Some(Rate::bit(per_s.saturating_mul(8)));
        w.max_burst = ((per_s >> BURST_SHIFT) / MTU).clamp(1, u64::from(u32::MAX)) as u32;
        w.min_burst = 1;
    }
}

impl CongestionControl for Prague {
    fn on_start(&mut self, w: &mut Window, ev: &Start) {
        self.reno = !ev.ecn;
        self.srtt = ev.srtt;
        if !self.reno {
            self.pace(w, 0);
        }
    }

    fn on_sample(&mut self, _w: &mut Window, ev: &Sample) {
        self.srtt = Span::us(ev.srtt8_us >> 3);
    }

    fn on_ack(&mut self, w: &mut Window, ev: &Ack) {
        if self.reno {
            return Reno.on_ack(w, ev);
        }
        self.delivered += u64::from(ev.delivered);
        self.marked += u64::from(ev.marked);
        self.seen_mark |= ev.marked > 0;
        let unmarked = ev.delivered.saturating_sub(ev.marked);
        if ev.may_grow && ev.cwnd_limited && ev.state != State::Recovery {
            self.grow(w, unmarked);
        }
        if ev.una >= self.round_end {
            self.end_round(ev);
        }
        self.pace(w, ev.in_flight);
    }

    fn on_loss(&mut self, w: &mut Window, ev: &Loss) {
        if self.reno {
            return Reno.on_loss(w, ev);
        }
        if ev.cause != Cause::Mark {
            return self.halve(w);
        }
        if !self.too_soon(ev.now, self.reduced) {
            self.reduced = Some(ev.now);
            self.shrink(w, self.alpha());
        }
    }

    fn on_state(&mut self, w: &mut Window, ev: &StateChange) {
        // A loss during a reduction for a mark: the transport does not call `on_loss` for it.
        if !self.reno && ev.to == State::Recovery && ev.from == State::Cwr {
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

    fn owns_recovery(&self) -> bool {
        !self.reno
    }
    fn needs_pacing(&self) -> bool {
        !self.reno
    }

    fn describe(&self, visit: &mut dyn FnMut(&'static str, f64)) {
        visit("alpha", self.alpha() as f64 / ONE as f64);
        visit("increase", self.increase() as f64 / ONE as f64);
    }

    fn fork(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

/// The registry entry.
pub const KIND: CcKind = CcKind {
    name: "prague",
    help: "DCTCP for the Internet (L4S): in steady state, each flow receives two marks per RTT, \
     whatever its rate is",
    source: "draft-briscoe-iccrg-prague-congestion-control-04; RFC 9331",
    family: Family::Switch,
    year: 2019,
    needs: &[Need::EcnCount, Need::Pacing],
    default_in: &[],
    params: PARAMS,
    make: &|params, _| Box::new(Prague::new(params)),
};

#[cfg(test)]
mod tests {
    use super::*;

    const CWND: u32 = 100;

    fn prague() -> (Prague, Window) {
        let mut cc = Prague::new(&Params::defaults(PARAMS));
        let mut w = Window::new(CWND);
        w.ssthresh = CWND;
        let mut start = Start::at(Time::ZERO);
        start.ecn = true;
        start.srtt = Span::ms(50);
        cc.on_start(&mut w, &start);
        (cc, w)
    }

    /// `n` ACKs of a packet each, the last `marked` of them marked; the round trip ends with the
    /// first.
    fn acks(cc: &mut Prague, w: &mut Window, at: Time, n: u32, marked: u32) {
        for i in 0..n {
            let mut ev = Ack::at(at);
            (ev.delivered, ev.marked) = (1, u32::from(i + marked >= n));
            ev.una = cc.round_end.saturating_sub(u64::from(i > 0));
            ev.nxt = cc.round_end + 1;
            cc.on_ack(w, &ev);
        }
    }

    fn lost(cc: &mut Prague, w: &mut Window, at: Time, cause: Cause) {
        let mut ev = Loss::at(at);
        ev.cause = cause;
        cc.on_loss(w, &ev);
    }

    fn of_rtt(cc: &mut Prague, w: &mut Window, rtt: Span) {
        let mut ev = Sample::at(Time::ZERO);
        ev.srtt8_us = rtt.as_us() << 3;
        cc.on_sample(w, &ev);
    }

    fn ms(ms: u64) -> Time {
        Time::ZERO + Span::ms(ms)
    }

    #[test]
    fn an_unmarked_window_adds_a_packet_and_marked_packets_none() {
        let (mut cc, mut w) = prague();
        acks(&mut cc, &mut w, ms(0), 100, 0);
        assert_eq!(w.cwnd, 101);
        let (mut cc, mut w) = prague();
        acks(&mut cc, &mut w, ms(0), 100, 50);
        assert_eq!(w.cwnd, 100);
        assert!((cc.part - ONE / 2).abs() < 100, "{}", cc.part);
    }

    #[test]
    fn it_grows_on_while_the_window_shrinks_and_not_in_recovery() {
        let (mut cc, mut w) = prague();
        for (state, cwnd) in [(State::Cwr, 101), (State::Recovery, 101)] {
            for _ in 0..101 {
                let mut ev = Ack::at(Time::ZERO);
                (ev.delivered, ev.state) = (1, state);
                cc.on_ack(&mut w, &ev);
            }
            assert_eq!(w.cwnd, cwnd, "{state:?}");
        }
    }

    #[test]
    fn alpha_is_one_until_the_first_mark() {
        let (mut cc, mut w) = prague();
        (0..50).for_each(|i| acks(&mut cc, &mut w, ms(50 * i), 10, 0));
        assert_eq!(cc.alpha(), ONE as u64);
        lost(&mut cc, &mut w, ms(5000), Cause::Mark);
        assert_eq!((w.cwnd, w.ssthresh), (52, 52));
    }

    /// α has twenty bits and a stored remainder, so a share of one mark in a million is not lost.
    #[test]
    fn alpha_follows_the_share_of_marks() {
        let (mut cc, mut w) = prague();
        cc.seen_mark = true;
        acks(&mut cc, &mut w, ms(0), 1, 0);
        // That round trip had no marks, and its end found one packet delivered.
        assert_eq!(cc.alpha(), ONE as u64 * 15 / 16);
        (cc.delivered, cc.marked) = (100, 25);
        acks(&mut cc, &mut w, ms(50), 1, 0);
        assert_eq!(cc.alpha_g, 16 * 983_040 - 983_040 + ((25 << BITS) / 101));
        for i in 0..400 {
            (cc.delivered, cc.marked) = (999_999, 1);
            acks(&mut cc, &mut w, ms(100 + 50 * i), 1, 0);
        }
        assert_eq!(cc.alpha(), 1);
    }

    #[test]
    fn a_mark_reduces_the_fractional_window_by_half_of_alpha() {
        let (mut cc, mut w) = prague();
        cc.alpha_g = 16 * ONE as u64 / 100;
        lost(&mut cc, &mut w, ms(0), Cause::Mark);
        assert_eq!((w.cwnd, w.ssthresh), (99, 99));
        assert!((cc.part - ONE / 2).abs() < 100, "{}", cc.part);
        lost(&mut cc, &mut w, ms(50), Cause::Mark);
        assert_eq!(w.cwnd, 99);
    }

    #[test]
    fn a_loss_halves_the_window_even_after_a_mark() {
        let (mut cc, mut w) = prague();
        cc.alpha_g = 0;
        lost(&mut cc, &mut w, ms(0), Cause::Loss);
        assert_eq!((w.cwnd, w.ssthresh), (50, 50));
        let mut ev = StateChange::at(ms(10));
        (ev.from, ev.to) = (State::Disorder, State::Recovery);
        cc.on_state(&mut w, &ev);
        assert_eq!(w.cwnd, 50);
        ev.from = State::Cwr;
        cc.on_state(&mut w, &ev);
        assert_eq!(w.cwnd, 25);
        (0..9).for_each(|_| lost(&mut cc, &mut w, ms(90), Cause::Timeout));
        assert_eq!(w.cwnd, LEAST);
        w.cwnd = 20;
        cc.prior_cwnd = 40;
        cc.on_spurious_loss(&mut w, &SpuriousLoss::at(ms(100)));
        assert_eq!(w.cwnd, 40);
    }

    /// With an RTT of 5 ms, the window grows by 1/25 packet per round trip, and `α` and reductions
    /// are computed once in 25 ms.
    #[test]
    fn a_short_path_acts_like_one_of_25_ms_after_500_round_trips() {
        let (mut cc, mut w) = prague();
        of_rtt(&mut cc, &mut w, Span::ms(5));
        cc.rounds = 499;
        assert_eq!(cc.increase(), ONE as u64);
        acks(&mut cc, &mut w, ms(1000), 1, 1);
        assert_eq!((cc.rounds, cc.increase()), (500, ONE as u64 / 25));
        let alpha = cc.alpha_g;
        acks(&mut cc, &mut w, ms(1024), 1, 0);
        assert_eq!(cc.alpha_g, alpha);
        acks(&mut cc, &mut w, ms(1025), 1, 0);
        assert_ne!(cc.alpha_g, alpha);
        let cwnds = [1030, 1054, 1055].map(|at| {
            lost(&mut cc, &mut w, ms(at), Cause::Mark);
            w.cwnd
        });
        assert!(
            cwnds[0] < CWND && cwnds[1] == cwnds[0] && cwnds[2] < cwnds[1],
            "{cwnds:?}"
        );
        of_rtt(&mut cc, &mut w, Span::ms(25));
        assert_eq!(cc.increase(), ONE as u64);
    }

    #[test]
    fn it_paces_at_a_window_per_round_trip_in_bursts_of_a_quarter_of_a_millisecond() {
        let (mut cc, mut w) = prague();
        of_rtt(&mut cc, &mut w, Span::ms(10));
        acks(&mut cc, &mut w, ms(0), 1, 0);
        assert_eq!(w.pacing, Some(Rate::mbit(120)));
        // 15 MB/s: 3662 bytes.
        assert_eq!((w.min_burst, w.max_burst), (1, 2));
        w.ssthresh = 1000;
        acks(&mut cc, &mut w, ms(0), 1, 0);
        assert_eq!(w.pacing, Some(Rate::bit(2 * 101 * 1500 * 8 * 100)));
    }

    #[test]
    fn slow_start_ends_with_the_first_mark() {
        let (mut cc, mut w) = prague();
        w.ssthresh = crate::cc::INFINITE_SSTHRESH;
        acks(&mut cc, &mut w, ms(0), 100, 0);
        assert_eq!(w.cwnd, 200);
        lost(&mut cc, &mut w, ms(50), Cause::Mark);
        acks(&mut cc, &mut w, ms(60), 100, 0);
        assert_eq!(w.cwnd, 101);
    }

    #[test]
    fn without_counted_marks_it_is_reno() {
        let (mut cc, mut w) = prague();
        cc.on_start(&mut w, &Start::at(Time::ZERO));
        assert!(!cc.owns_recovery() && !cc.needs_pacing());
        lost(&mut cc, &mut w, ms(0), Cause::Loss);
        assert_eq!((w.cwnd, w.ssthresh), (100, 50));
    }
}
