//! BBR, version 3, as specified in the draft: a model of the path with two time scales, and bounds
//! that the flow learns from losses. Version 2 uses the same code with other constants and switches
//! ([`super::bbr2`]).
//!
//! Algorithm: `bw = min(maximum rate of two cycles, bw_short)`, `pacing = gain · bw`,
//! `cwnd = gain · bw · min_rtt`, at most `inflight_long` and `inflight_short`. Losses between
//! probes lower the short-term bounds `bw_short` and `inflight_short` to the delivered values, but
//! not below 0.7 of their previous values per round trip. A loss rate above 2 % while probing sets
//! the long-term bound `inflight_long`. Every 2 to 3 s, or after at most 63 round trips, the
//! short-term bounds are dropped and a probe follows.
//!
//! | file | part |
//! |---|---|
//! | `version` | parameters, and differences between versions 2 and 3 |
//! | `signals` | maximum rate, latest round trip, short-term bounds |
//! | `long_term` | long-term bound of data in flight, from losses of single packets |
//! | `startup` | Startup and Drain |
//! | `probe_bw` | the cycle: ProbeDown, Cruise, Refill, ProbeUp |
//! | `probe_rtt` | the minimum round trip, and its measurement |
//! | `window` | rate, window, recovery and its undo |
//! | `ecn` | marks, if enabled |
//!
//! Order of calculations: for one ACK, the lost packets that it reveals are handled first. Then the
//! latest round trip, the maximum rate, the short-term bounds and the aggregation are updated. Full
//! pipe, Startup, Drain, the long-term bound and the cycle follow. Minimum round trip, pacing rate
//! and window are updated last.
//!
//! Sources: draft-ietf-ccwg-bbr-06 (2026-07). Shared with [version 1](super::bbr): rates and their
//! arithmetic, round trips, pacing and bursts, plateau, aggregation. Deviations:
//! - gains are in 1/256, as in version 1;
//! - a burst contains the data of 2⁻¹⁰ s at the pacing rate;
//! - if losses first set `inflight_short` after a timeout, they lower the window before the
//!   timeout, as in Google's code. In the draft, they lower the window after the timeout;
//! - the headers of `probe_bw` and `window` list others, each with its reason.

mod ecn;
mod long_term;
mod probe_bw;
mod probe_rtt;
mod signals;
mod startup;
#[cfg(test)]
pub(super) mod tests;
pub(super) mod version;
mod window;

use super::bbr::UNIT;
use super::bbr::aggregation::Epoch;
use super::bbr::bandwidth::{Bw, Rounds};
use super::bbr::pacing::Paced;
use super::{
    Ack, Cause, CcKind, CongestionControl, Delivery, Family, Host, Loss, LostPacket, Sent,
    SpuriousLoss, Start, StateChange, Window,
};
use crate::param::{Param, Params};
use crate::rng::Rng;
use crate::windowed::WindowedMax;
use alloc::boxed::Box;
use ecn::Marks;
use long_term::Long;
use probe_bw::Cycle;
use probe_rtt::MinRtt;
use signals::{Latest, MaxBw, Short, UNBOUND};
use startup::Startup;
use version::{Settings, V3, Version};
use window::Undo;

/// The parameters.
pub const PARAMS: &[Param] = &version::params(&V3);

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl Mode {
    fn probes_bw(self) -> bool {
        matches!(self, Mode::Down | Mode::Cruise | Mode::Refill | Mode::Up)
    }
}

/// The state of BBR, version 3 or 2.
#[derive(Clone, Debug)]
pub struct Bbr3 {
    set: Settings,
    rng: Rng,
    mode: Mode,
    rounds: Rounds,
    max_bw: MaxBw,
    latest: Latest,
    short: Short,
    long: Long,
    startup: Startup,
    cycle: Cycle,
    min_rtt: MinRtt,
    epoch: Epoch,
    extra: WindowedMax<u32>,
    marks: Marks,
    undo: Undo,
    paced: Paced,
    /// Whether the flow has resumed after an idle period of the application, and no ACK has
    /// reported delivered data since.
    idle_restart: bool,
}

impl Bbr3 {
    /// The state of version 3 at the start of a connection.
    pub fn new(params: &Params, host: &Host) -> Bbr3 {
        Bbr3::of(V3, params, host)
    }

    pub(super) fn of(version: Version, params: &Params, host: &Host) -> Bbr3 {
        let set = Settings::new(params, version, host.mss);
        Bbr3 {
            rng: Rng::named(host.seed, "bbr3"),
            mode: Mode::Startup,
            rounds: Rounds::default(),
            max_bw: MaxBw::default(),
            latest: Latest::default(),
            short: Short::NONE,
            long: Long::default(),
            startup: Startup::default(),
            cycle: Cycle::default(),
            min_rtt: MinRtt::default(),
            epoch: Epoch::default(),
            extra: WindowedMax::default(),
            marks: Marks::default(),
            undo: Undo::default(),
            paced: Paced::new(set.paced_packet, host.mss, set.paced_millionths),
            idle_restart: false,
            set,
        }
    }

    fn take_aggregation(&mut self, w: &Window, ev: &Ack, d: &Delivery) {
        if ev.delivered == 0 {
            return;
        }
        let extra = self
            .epoch
            .take(d.totals.delivered_at, ev.delivered, self.bw());
        let window = if self.startup.full {
            self.set.aggregation_rounds
        } else {
            1
        };
        self.extra.update(
            extra.min(u64::from(w.cwnd)),
            self.rounds.count.into(),
            window,
        );
    }
    /// Number of packets that are added to the window because of aggregated ACKs.
    fn extra_acked(&self) -> u64 {
        self.extra.get().unwrap_or(0)
    }

    fn on_delivery(&mut self, w: &mut Window, ev: &Ack, d: &Delivery) {
        self.rounds.start = false;
        self.latest.over = false;
        let rate = |s: &super::RateSample| Bw::of(s.delivered, s.interval.as_us());
        let bw = d.sample.as_ref().map(rate).unwrap_or_default();
        let app_limited = d.sample.is_some_and(|s| s.app_limited);
        if let Some(sample) = &d.sample {
            self.take_signals(w, d, sample, bw);
            self.take_aggregation(w, ev, d);
            self.judge_pipe(sample, bw);
        }
        self.judge_startup(w, ev, d);
        self.judge_drain(ev, d);
        self.take_phase(w, ev, d, bw, app_limited);
        self.take_min_rtt(w, ev, d);
        if let Some(sample) = &d.sample {
            self.begin_latest(sample, bw);
        }
        self.pace(w);
        self.set_window(w, ev, d);
    }

    fn pace(&mut self, w: &mut Window) {
        let (bw, gain) = (self.bw(), self.gains().0);
        self.paced.set(w, bw, gain, self.startup.full);
    }
}

impl CongestionControl for Bbr3 {
    fn on_start(&mut self, w: &mut Window, ev: &Start) {
        self.rounds.end_after(ev.totals.delivered);
        self.min_rtt.start(ev.min_rtt, ev.now);
        self.epoch.restart(ev.now);
        self.paced.by_handshake(w, ev.srtt, self.set.startup_gain);
    }

    fn on_sent(&mut self, w: &mut Window, ev: &Sent) {
        if !ev.app_limited {
            return;
        }
        self.idle_restart = true;
        self.epoch.restart(ev.now);
        if self.mode.probes_bw() {
            let bw = self.bw();
            self.paced.set(w, bw, UNIT, self.startup.full);
        } else if self.mode == Mode::ProbeRtt {
            self.end_probe_rtt_when_due(w, ev.now, ev.totals.delivered);
        }
    }

    fn on_packet_lost(&mut self, w: &mut Window, ev: &LostPacket) {
        self.take_loss(w, ev);
    }

    fn on_ack(&mut self, w: &mut Window, ev: &Ack) {
        let Some(delivery) = &ev.delivery else {
            debug_assert!(
                false,
                "an engine without delivery-rate samples cannot run BBR"
            );
            return;
        };
        self.on_delivery(w, ev, delivery);
    }

    fn on_loss(&mut self, w: &mut Window, ev: &Loss) {
        match ev.cause {
            Cause::Mark | Cause::Asked => {}
            Cause::TailProbe => self.latest.lost = true,
            Cause::Loss | Cause::Timeout => self.save_state(w),
        }
    }

    fn on_state(&mut self, w: &mut Window, ev: &StateChange) {
        self.take_state(w, ev.to);
    }

    fn on_spurious_loss(&mut self, w: &mut Window, ev: &SpuriousLoss) {
        self.undo(w, ev);
    }

    fn in_slow_start(&self, _w: &Window) -> bool {
        self.mode == Mode::Startup
    }
    fn owns_recovery(&self) -> bool {
        true
    }
    fn needs_pacing(&self) -> bool {
        true
    }
    fn needs_samples(&self) -> bool {
        false
    }
    fn needs_delivery(&self) -> bool {
        true
    }
    fn needs_flight_record(&self) -> bool {
        true
    }
    fn send_buffer_windows(&self) -> u32 {
        3
    }

    fn describe(&self, visit: &mut dyn FnMut(&'static str, f64)) {
        // 0 stands for no bound.
        let bound = |n: u64| if n == UNBOUND { 0.0 } else { n as f64 };
        let (pacing_gain, cwnd_gain) = self.gains();
        visit("mode", f64::from(self.mode as u8));
        visit("max_bw_packets_per_s", self.max_bw.get().packets_per_s());
        visit("bw_packets_per_s", self.bw().packets_per_s());
        visit("min_rtt_ms", self.min_rtt.us().unwrap_or(0) as f64 / 1000.0);
        visit("pacing_gain", pacing_gain as f64 / UNIT as f64);
        visit("cwnd_gain", cwnd_gain as f64 / UNIT as f64);
        visit("inflight_longterm", bound(self.long.inflight));
        visit("inflight_shortterm", bound(self.short.inflight));
        visit("extra_acked", self.extra_acked() as f64);
    }

    fn mode(&self) -> Option<&'static str> {
        Some(match self.mode {
            Mode::Startup => "startup",
            Mode::Drain => "drain",
            Mode::Down => "probe_bw_down",
            Mode::Cruise => "probe_bw_cruise",
            Mode::Refill => "probe_bw_refill",
            Mode::Up => "probe_bw_up",
            Mode::ProbeRtt => "probe_rtt",
        })
    }

    fn fork(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

/// The registry entry.
pub const KIND: CcKind = CcKind {
    name: "bbr3",
    help: "version 3: probes for bandwidth periodically, and limits the data in flight after \
        losses",
    source: "draft-ietf-ccwg-bbr-06",
    family: Family::Model,
    year: 2023,
    needs: &[],
    default_in: &[],
    params: PARAMS,
    make: &|params, host| Box::new(Bbr3::new(params, host)),
};
