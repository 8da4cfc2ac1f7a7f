//! Hybla as in Linux: above an RTT of 25 ms, the rate grows as fast as that of Reno at an RTT of 25
//! ms.
//!
//! Algorithm, per ACK, with `ρ = max(srtt / 25 ms, 1)`: slow start `cwnd += 2^ρ − 1`, congestion
//! avoidance `cwnd += ρ²/cwnd`; the initial window is `cwnd = ρ`; on congestion `ssthresh =
//! max(cwnd / 2, 2)`. The window of Reno grows by 1/rtt packets per second, and its rate by 1/rtt².
//! On a path with four times the RTT, the rate of Reno therefore grows 16 times more slowly. From
//! an RTT of 25 ms on, the rate of Hybla grows independently of the RTT.
//!
//! Sources: Caini, Firrincieli, "TCP Hybla" (Int. J. Satell. Commun. Netw. 22, 2004); Linux 6.12
//! for differences:
//! - each ACK causes one step, for any number of acknowledged packets, so a receiver that
//!   acknowledges every second packet halves the growth;
//! - the initial window is `ρ` in whole packets, not the initial window of the host. It is one
//!   packet on a path with an RTT below 50 ms;
//! - `ρ` is in units of 1/8. It is recomputed only when the smoothed RTT reaches a new minimum, so
//!   a queue does not increase `ρ`;
//! - 2^ρ is computed from the whole part of `ρ`, at most 16, and the remaining eighths. The power
//!   of the eighths is rounded to 1/128. Fractions of a packet are in 1/128;
//! - if the step rounds to zero (below 1/128 packet), the window grows by one packet per `cwnd`
//!   ACKs instead;
//! - in any state but Open the window grows as in Reno; the window is at most 65535 packets;
//! - the paper's estimator of bandwidth and its pacing are left out.

use super::reno::Reno;
use super::{Ack, CcKind, CongestionControl, Family, Loss, Sample, Start, StateChange, Window};
use crate::param::{Kind, Param, Params};
use crate::transport::State;
use crate::units::Span;
use alloc::boxed::Box;

/// Unit of steps: 1/128 packet.
const PACKET: u32 = 128;
/// 2^(i/8) in 1/128, rounded as in Linux.
const EIGHTHS: [u32; 8] = [128, 139, 152, 165, 181, 197, 215, 234];
/// Maximum whole part of ρ in slow start.
const STEEPEST: u32 = 16;
/// Maximum window, packets.
const LARGEST: u32 = 65_535;

/// The parameters.
pub const PARAMS: &[Param] = &[Param {
    name: "rtt0",
    kind: Kind::Span(Span::ms(25), Span::ms(1), Span::s(10)),
    help: "RTT of the reference path, whose growth is used; flows with a shorter RTT are not \
        slowed down",
    source: "Linux 6.12 tcp_hybla: rtt0 = 25; Caini, Firrincieli 2004",
}];

/// Hybla's state.
#[derive(Clone, Debug)]
pub struct Hybla {
    rtt0_us: u64,
    /// ρ in eighths.
    rho8: u32,
    /// The smoothed RTT, in eighths of a microsecond.
    srtt8_us: u64,
    /// The minimum of the smoothed RTT, in eighths of a microsecond.
    least8_us: u64,
    /// Fraction of a packet by which the window exceeds `Window::cwnd`, in 1/128.
    fraction: u32,
    open: bool,
}

impl Hybla {
    /// The state at the start of a connection.
    pub fn new(params: &Params) -> Hybla {
        Hybla {
            rtt0_us: params.span("rtt0").as_us().max(1),
            rho8: 8,
            srtt8_us: 0,
            least8_us: 0,
            fraction: 0,
            open: true,
        }
    }
    fn measure(&mut self) {
        self.least8_us = self.srtt8_us;
        self.rho8 = (self.srtt8_us / self.rtt0_us).clamp(8, 1 << 15) as u32;
    }
    /// The growth per ACK in slow start, in 1/128 packet.
    fn doubling(&self) -> u32 {
        let (whole, eighths) = (self.rho8 >> 3, self.rho8 & 7);
        (EIGHTHS[eighths as usize] << whole.min(STEEPEST)) - PACKET
    }
    /// The growth per ACK in congestion avoidance, in 1/128 packet.
    fn avoidance(&self, cwnd: u32) -> u32 {
        // ρ² in 1/128 is twice the square of its eighths.
        2 * self.rho8 * self.rho8 / cwnd.max(1)
    }
}

impl CongestionControl for Hybla {
    fn on_start(&mut self, w: &mut Window, ev: &Start) {
        self.srtt8_us = ev.srtt.as_us() * 8;
        self.measure();
        w.clamp = LARGEST;
        w.cwnd = self.rho8 >> 3;
    }

    fn on_sample(&mut self, _w: &mut Window, ev: &Sample) {
        self.srtt8_us = ev.srtt8_us;
    }

    fn on_state(&mut self, _w: &mut Window, ev: &StateChange) {
        self.open = ev.to == State::Open;
    }

    fn on_ack(&mut self, w: &mut Window, ev: &Ack) {
        if !ev.may_grow {
            return;
        }
        if self.srtt8_us < self.least8_us {
            self.measure();
        }
        if !ev.cwnd_limited {
            return;
        }
        if !self.open {
            Reno.on_ack(w, ev);
            return;
        }
        let slow_start = w.in_slow_start();
        let step = if slow_start {
            self.doubling()
        } else {
            let step = self.avoidance(w.cwnd);
            w.cwnd_cnt = w.cwnd_cnt.saturating_add(u32::from(step < PACKET));
            step
        };
        w.cwnd = w.cwnd.saturating_add(step / PACKET);
        self.fraction += step % PACKET;
        if self.fraction >= PACKET {
            self.fraction -= PACKET;
            w.cwnd = w.cwnd.saturating_add(1);
            w.cwnd_cnt = 0;
        }
        if step == 0 && w.cwnd_cnt >= w.cwnd {
            w.cwnd = w.cwnd.saturating_add(1);
            w.cwnd_cnt = 0;
        }
        if slow_start {
            w.cwnd = w.cwnd.min(w.ssthresh);
        }
        w.cwnd = w.cwnd.min(w.clamp);
    }

    fn on_loss(&mut self, w: &mut Window, ev: &Loss) {
        Reno.on_loss(w, ev);
    }

    fn describe(&self, visit: &mut dyn FnMut(&'static str, f64)) {
        visit("rho", f64::from(self.rho8) / 8.0);
    }

    fn fork(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

/// The registry entry.
pub const KIND: CcKind = CcKind {
    name: "hybla",
    help: "for satellites: Reno whose growth per RTT is larger on paths with a longer RTT",
    source: "Caini, Firrincieli 2004; Linux 6.12",
    family: Family::Loss,
    year: 2004,
    needs: &[],
    default_in: &[],
    params: PARAMS,
    make: &|params, _| Box::new(Hybla::new(params)),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Time;

    /// A congestion control and its window with a round trip of `us`.
    fn begun(us: u64) -> (Hybla, Window) {
        let (mut c, mut w) = (Hybla::new(&Params::defaults(PARAMS)), Window::new(10));
        let mut ev = Start::at(Time::ZERO);
        ev.srtt = Span::us(us);
        c.on_start(&mut w, &ev);
        (c, w)
    }
    /// The window after this many ACKs of two packets.
    fn grown(c: &mut Hybla, w: &mut Window, acks: usize) -> u32 {
        let mut ev = Ack::at(Time::ZERO);
        ev.delivered = 2;
        for _ in 0..acks {
            c.on_ack(w, &ev);
        }
        w.cwnd
    }
    fn srtt(c: &mut Hybla, us: u64) {
        let mut ev = Sample::at(Time::ZERO);
        ev.srtt8_us = us * 8;
        c.on_sample(&mut Window::new(10), &ev);
    }

    #[test]
    fn the_first_window_is_the_ratio_of_round_trips() {
        let first = [5_000, 25_000, 49_999, 50_000, 100_000, 600_000].map(|us| begun(us).1.cwnd);
        assert_eq!(first, [1, 1, 1, 2, 4, 24]);
        assert_eq!(begun(5_000).1.clamp, 65_535);
    }

    /// 2^ρ − 1: 1 at 25 ms, 3 at 50 ms, 15 at 100 ms; 2^1.5 − 1 = 1.83, as 2 · 181/128 − 1 = 1.828.
    #[test]
    fn slow_start_grows_by_two_to_the_ratio_less_one() {
        let per_128 = [25_000, 50_000, 100_000, 37_500].map(|us| {
            let (mut c, mut w) = begun(us);
            let before = w.cwnd;
            grown(&mut c, &mut w, 128) - before
        });
        assert_eq!(per_128, [128, 3 * 128, 15 * 128, 2 * 181 - 128]);
    }

    #[test]
    fn beyond_sixteen_slow_start_gets_no_steeper() {
        let step = |us| begun(us).0.doubling();
        assert_eq!(step(400_000), (128 << 16) - 128);
        assert_eq!(step(800_000), step(400_000));
    }

    #[test]
    fn slow_start_stops_at_the_threshold() {
        let (mut c, mut w) = begun(100_000);
        w.ssthresh = 12;
        assert_eq!(grown(&mut c, &mut w, 1), 12);
    }

    /// The growth is ρ²/cwnd per ACK: 16/100 of a packet, which is rounded to 20/128.
    #[test]
    fn avoidance_grows_by_the_ratio_squared_per_window_of_acks() {
        let (mut c, mut w) = begun(100_000);
        (w.cwnd, w.ssthresh) = (100, 50);
        assert_eq!(grown(&mut c, &mut w, 6), 100);
        assert_eq!((grown(&mut c, &mut w, 1), c.fraction), (101, 12));
    }

    /// A step of 128/200 of 1/128 packet is rounded down to 0. A window of ACKs still increases the
    /// window by a packet.
    #[test]
    fn if_the_increment_rounds_to_zero_a_window_of_acks_adds_a_packet() {
        let (mut c, mut w) = begun(25_000);
        (w.cwnd, w.ssthresh) = (200, 50);
        assert_eq!(grown(&mut c, &mut w, 199), 200);
        assert_eq!((grown(&mut c, &mut w, 1), w.cwnd_cnt), (201, 0));
    }

    #[test]
    fn the_ratio_follows_the_round_trip_only_down() {
        let (mut c, mut w) = begun(100_000);
        srtt(&mut c, 200_000);
        grown(&mut c, &mut w, 1);
        assert_eq!(c.rho8, 32);
        srtt(&mut c, 87_500);
        grown(&mut c, &mut w, 1);
        assert_eq!(c.rho8, 28);
        srtt(&mut c, 1_000);
        grown(&mut c, &mut w, 1);
        assert_eq!(c.rho8, 8);
    }

    #[test]
    fn while_anything_is_amiss_it_grows_as_reno() {
        let (mut c, mut w) = begun(100_000);
        (w.cwnd, w.ssthresh) = (20, 100);
        let mut ev = StateChange::at(Time::ZERO);
        ev.to = State::Disorder;
        c.on_state(&mut w, &ev);
        assert_eq!(grown(&mut c, &mut w, 1), 22);
        ev.to = State::Open;
        c.on_state(&mut w, &ev);
        assert_eq!(grown(&mut c, &mut w, 1), 37);
    }

    #[test]
    fn a_loss_halves_the_congestion_window() {
        let (mut c, mut w) = begun(100_000);
        w.cwnd = 101;
        c.on_loss(&mut w, &Loss::at(Time::ZERO));
        assert_eq!(w.ssthresh, 50);
    }
}
