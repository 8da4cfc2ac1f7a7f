//! BBR, version 1, as in Linux: paces at the measured bandwidth, and keeps about two
//! bandwidth-delay products in flight.
//!
//! Algorithm: `bw` is the maximum delivery rate of ten round trips, `min_rtt` the minimum round
//! trip of ten seconds. `pacing = gain · bw` (less 1 %), `cwnd = 2 · bw · min_rtt` plus some room.
//! A loss does not change `bw` or `min_rtt`, unless losses indicate a policer. Gains depend on a
//! mode. The second line of each box of the diagram is the pacing rate, or the window of ProbeRtt:
//!
//! ```text
//!   Startup ── three round trips in which bw grew by less than 25 % ──▶ Drain
//!   2.885 · bw                                                         bw / 2.885
//!      ▲                                                                  │ inflight ≤ 1 bdp
//!      │ done, pipe never seen full        10 s without a lower rtt       ▼
//!   ProbeRtt ◀──────────────────────────────────────────────────────  ProbeBw
//!   4 packets ─────────────── 200 ms and a round trip ──────────────▶ 1.25, 0.75, 6 times 1 · bw
//! ```
//!
//! | file | part |
//! |---|---|
//! | `bandwidth` | round trips, and the maximum rate of ten of them |
//! | `policer` | the rate of a token bucket, inferred from losses |
//! | `aggregation` | room for aggregated ACKs |
//! | `startup` | detection of a full pipe, and draining |
//! | `probe_bw` | the cycle of gains |
//! | `probe_rtt` | the minimum round trip, and its periodic measurement by all flows at once |
//! | `pacing` | the rate, and the size of a burst |
//! | `window` | the window: its goal, its rounding, recovery |
//!
//! For one ACK, the parts are calculated in this order: round trip, policer, bandwidth,
//! aggregation, cycle, full pipe, drain, round-trip minimum, gains, pacing rate, window.
//!
//! Sources: Linux 6.12 `tcp_bbr.c`; Cardwell et al., "BBR: congestion-based congestion control"
//! (ACM Queue 14(5), 2016). Arithmetic is Linux's: rates in packets per µs scaled by 2²⁴, gains by
//! 2⁸. [`TABLE`](crate::kernel::TABLE) lists the changes of BBR after Linux 4.9.

pub(super) mod aggregation;
pub(super) mod bandwidth;
pub(super) mod pacing;
mod policer;
mod probe_bw;
mod probe_rtt;
pub(super) mod startup;
#[cfg(test)]
mod tests;
mod window;

use super::{
    Ack, CcKind, CongestionControl, Delivery, Family, Host, Loss, Rto, Sent, SpuriousLoss, Start,
    Window,
};
use crate::kernel::{Rule, rules_of_component};
use crate::param::{Kind, Param, Params};
use crate::rng::Rng;
use crate::transport::{Jiffies, State};
use crate::units::{Span, Time};
use aggregation::Aggregation;
use alloc::boxed::Box;
use bandwidth::{Bandwidth, Bw};
use pacing::Paced;
use policer::Policer;
use probe_bw::Cycle;
use probe_rtt::MinRtt;
use startup::Plateau;
use window::Recovery;

/// Unit of gains: 1/256.
pub(super) const UNIT: u64 = 256;
/// Packets of the initial window. Until this many are delivered, the window also grows above its
/// goal. It takes the place of the bandwidth-delay product while no round trip is measured.
pub(super) const INITIAL_WINDOW: u32 = 10;
/// TCP header with timestamps, in bytes.
const TCP_HEADER: u64 = 32;

/// The parameters.
pub const PARAMS: &[Param] = &[
    Param {
        name: "startup_gain",
        kind: Kind::Number(2.885, 1.0, 16.0),
        help: "gain on the bandwidth in Startup, for the window and the pacing rate; Drain paces \
            at its inverse",
        source: "Linux 6.12 tcp_bbr: bbr_high_gain, 2/ln 2",
    },
    Param {
        name: "probe_gain",
        kind: Kind::Number(1.25, 1.0, 16.0),
        help: "pacing gain in the phase of ProbeBW that probes for bandwidth",
        source: "Linux 6.12 tcp_bbr: bbr_pacing_gain",
    },
    Param {
        name: "probe_down_gain",
        kind: Kind::Number(0.75, 0.01, 1.0),
        help: "pacing gain in the phase of ProbeBW that drains the queue of the probe",
        source: "Linux 6.12 tcp_bbr: bbr_pacing_gain",
    },
    Param {
        name: "cwnd_gain",
        kind: Kind::Number(2.0, 1.0, 16.0),
        help: "congestion window in bandwidth-delay products",
        source: "Linux 6.12 tcp_bbr: bbr_cwnd_gain",
    },
    Param {
        name: "bw_window",
        kind: Kind::Count(10, 1, 1000),
        help: "RTTs over which the largest delivery rate is taken",
        source: "Linux 6.12 tcp_bbr: bbr_bw_rtts, a cycle and two",
    },
    Param {
        name: "full_pipe_gain",
        kind: Kind::Number(1.25, 1.0, 16.0),
        help: "the pipe counts as not full while the bandwidth grows by this factor or more",
        source: "Linux 6.12 tcp_bbr: bbr_full_bw_thresh",
    },
    Param {
        name: "full_pipe_rounds",
        kind: Kind::Count(3, 1, 100),
        help: "RTTs without this growth after which the pipe counts as full",
        source: "Linux 6.12 tcp_bbr: bbr_full_bw_cnt",
    },
    Param {
        name: "min_rtt_window",
        kind: Kind::Span(Span::s(10), Span::ms(1), Span::s(86_400)),
        help: "time for which a minimum RTT is valid",
        source: "Linux 6.12 tcp_bbr: bbr_min_rtt_win_sec",
    },
    Param {
        name: "probe_rtt_time",
        kind: Kind::Span(Span::ms(200), Span::ZERO, Span::s(60)),
        help: "time for which ProbeRTT keeps the window small; 0 disables ProbeRTT",
        source: "Linux 6.12 tcp_bbr: bbr_probe_rtt_mode_ms",
    },
    Param {
        name: "min_cwnd",
        kind: Kind::Count(4, 1, 1000),
        help: "smallest window, also that of ProbeRTT, in packets",
        source: "Linux 6.12 tcp_bbr: bbr_cwnd_min_target",
    },
    Param {
        name: "pacing_margin",
        kind: Kind::Number(0.01, 0.0, 0.5),
        help: "share by which the pacing rate is reduced (none before Linux 4.20)",
        source: "Linux 6.12 tcp_bbr: bbr_pacing_margin_percent",
    },
    Param {
        name: "aggregation_gain",
        kind: Kind::Number(1.0, 0.0, 16.0),
        help: "share of the extra data of aggregated ACKs that is added to the window (none \
            before Linux 5.1)",
        source: "Linux 6.12 tcp_bbr: bbr_extra_acked_gain",
    },
    Param {
        name: "policer_detection",
        kind: Kind::Bool(true),
        help: "use the rate of a token bucket if losses indicate one: 50 packets for every 256 \
            delivered, 16.3 % of the packets sent",
        source: "Linux 6.12 tcp_bbr: the long-term bandwidth sampler",
    },
];

/// The modes of the diagram.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

/// The parameters in Linux's units.
#[derive(Copy, Clone, Debug)]
#[repr(Rust, packed(2))]
struct Settings {
    ticks: Jiffies,
    startup_gain: u16,
    drain_gain: u16,
    cwnd_gain: u16,
    probe_gain: u16,
    probe_down_gain: u16,
    full_pipe_gain: u16,
    aggregation_gain: u16,
    bw_window: u16,
    full_pipe_rounds: u16,
    min_cwnd: u16,
    min_rtt_ticks: u32,
    probe_rtt_ticks: u32,
    policer_detection: bool,
    rules: Rules,
}

rules_of_component! {
    idle_ends_probe_rtt: BbrIdleEndsProbeRtt,
    policed_unity_gain: BbrPolicedUnityGain,
    in_flight_at_departure: BbrInFlightAtDeparture,
    delayed_ack_filter: BbrDelayedAckFilter,
    idle_until_delivery: BbrIdleUntilDelivery,
    only_lower_rtt: OnlyLowerRtt,
    startup_threshold: BbrStartupThreshold,
    only_probing_adds_two: BbrOnlyProbingAddsTwo,
    probing_adds_two: BbrProbingAddsTwo,
}

impl Settings {
    fn new(params: &Params, host: &Host) -> Settings {
        let ticks = Jiffies::new(host.hz);
        let gain = |name: &str| libm::floor(params.number(name) * UNIT as f64) as u16;
        let in_ticks = |name: &str| ticks.at(Time::ZERO + params.span(name)) as u32;
        let startup = params.number("startup_gain");
        let aggregates = host.kernel.follows(Rule::BbrAckAggregation);
        Settings {
            ticks,
            // Rounded up, so that Startup doubles in a round trip; Drain's is rounded down, so that
            // it drains.
            startup_gain: libm::ceil(startup * UNIT as f64) as u16,
            drain_gain: libm::floor(UNIT as f64 / startup) as u16,
            cwnd_gain: gain("cwnd_gain"),
            probe_gain: gain("probe_gain"),
            probe_down_gain: gain("probe_down_gain"),
            bw_window: params.count("bw_window") as u16,
            full_pipe_gain: gain("full_pipe_gain"),
            full_pipe_rounds: params.count("full_pipe_rounds") as u16,
            min_rtt_ticks: in_ticks("min_rtt_window"),
            probe_rtt_ticks: in_ticks("probe_rtt_time"),
            min_cwnd: params.count("min_cwnd") as u16,
            aggregation_gain: if aggregates {
                gain("aggregation_gain")
            } else {
                0
            },
            policer_detection: params.bool("policer_detection"),
            rules: Rules::of(host.kernel),
        }
    }
    /// The present tick, which 32 bits hold for five days at least.
    fn tick(&self, now: Time) -> u32 {
        self.ticks.at(now) as u32
    }
}

/// BBR's state. Most of its parts are packed, so that it has little padding.
#[derive(Clone, Debug)]
pub struct Bbr {
    set: Settings,
    rng: Rng,
    mode: Mode,
    bandwidth: Bandwidth,
    policer: Policer,
    aggregation: Aggregation,
    /// Round trips in the present window of `aggregation`.
    extra_rounds: u8,
    /// Whether the pipe has been full since the start of the connection.
    full_pipe: bool,
    plateau: Plateau,
    cycle: Cycle,
    min_rtt: MinRtt,
    recovery: Recovery,
    pacing_gain: u16,
    cwnd_gain: u16,
    paced: Paced,
    /// Whether the flow has resumed after an idle period of the application, and no ACK has
    /// reported delivered data since.
    idle_restart: bool,
}

/// The factors that convert a bandwidth into a pacing rate.
fn paced(params: &Params, host: &Host) -> Paced {
    let margin = if host.kernel.follows(Rule::BbrPacingMargin) {
        params.number("pacing_margin")
    } else {
        0.0
    };
    // Bytes that each packet contributes to the pacing rate.
    let packet = if host.kernel.follows(Rule::BbrRateOfPayload) {
        u64::from(host.mss)
    } else {
        u64::from(host.mss) + TCP_HEADER + u64::from(host.ip.header())
    };
    Paced::new(packet, host.mss, libm::round((1.0 - margin) * 1e6) as u64)
}

impl Bbr {
    /// The state at the start of a connection.
    pub fn new(params: &Params, host: &Host) -> Bbr {
        let set = Settings::new(params, host);
        Bbr {
            rng: Rng::named(host.seed, "bbr"),
            mode: Mode::Startup,
            bandwidth: Bandwidth::default(),
            policer: Policer::default(),
            aggregation: Aggregation::default(),
            extra_rounds: 0,
            full_pipe: false,
            plateau: Plateau::default(),
            cycle: Cycle::default(),
            min_rtt: MinRtt::default(),
            recovery: Recovery::default(),
            pacing_gain: set.startup_gain,
            cwnd_gain: set.startup_gain,
            paced: paced(params, host),
            idle_restart: false,
            set,
        }
    }

    /// The bandwidth in use: the policed rate if a policer was detected, otherwise the maximum
    /// delivery rate.
    #[inline]
    fn bw(&self) -> Bw {
        self.policer.rate_or(self.bandwidth.max())
    }

    /// Leaves ProbeRTT, for ProbeBW if the pipe has been full, otherwise for Startup.
    fn resume(&mut self, now: Time) {
        if self.full_pipe {
            self.enter_probe_bw(now);
        } else {
            self.mode = Mode::Startup;
        }
    }

    fn choose_gains(&mut self) {
        let (set, unit) = (&self.set, UNIT as u16);
        // Tables by mode, because flows differ in it and the processor cannot predict a branch.
        let mode = self.mode as usize;
        self.pacing_gain = [set.startup_gain, set.drain_gain, self.cycle_gain(), unit][mode];
        self.cwnd_gain = [set.startup_gain, set.startup_gain, set.cwnd_gain, unit][mode];
    }

    fn on_delivery(&mut self, w: &mut Window, ev: &Ack, d: &Delivery) {
        self.take_bandwidth(ev, d);
        self.take_aggregation(w, ev, d);
        self.take_phase(ev, d);
        self.judge_pipe(d);
        self.judge_drain(w, ev, d);
        self.take_min_rtt(w, ev, d);
        self.choose_gains();
        let bw = self.bw();
        self.pace(w, bw, self.pacing_gain.into());
        self.set_window(w, ev, d, bw);
    }
}

impl CongestionControl for Bbr {
    fn on_start(&mut self, w: &mut Window, ev: &Start) {
        let tick = self.set.tick(ev.now);
        self.bandwidth.rounds.end_after(ev.totals.delivered);
        self.min_rtt.start(ev.min_rtt, tick);
        self.policer.forget(&ev.totals);
        self.aggregation.epoch.restart(ev.now);
        self.paced
            .by_handshake(w, ev.srtt, self.set.startup_gain.into());
    }

    fn on_sent(&mut self, w: &mut Window, ev: &Sent) {
        if !ev.app_limited {
            return;
        }
        self.idle_restart = true;
        self.aggregation.epoch.restart(ev.now);
        if self.mode == Mode::ProbeBw {
            let bw = self.bw();
            self.pace(w, bw, UNIT);
        } else if self.mode == Mode::ProbeRtt && self.set.rules.idle_ends_probe_rtt {
            self.end_probe_rtt_when_due(w, ev.now, ev.totals.delivered_at);
        }
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

    fn on_loss(&mut self, w: &mut Window, _ev: &Loss) {
        self.save_window(w);
    }

    fn on_rto(&mut self, _w: &mut Window, ev: &Rto) {
        self.recovery.prior_state = State::Loss;
        self.plateau.bw = Bw::default();
        self.bandwidth.rounds.start = true;
        self.take_policer(1, false, &ev.totals);
    }

    fn on_spurious_loss(&mut self, _w: &mut Window, ev: &SpuriousLoss) {
        // The losses were spurious: the pipe may not be full, and there is no policer. The window
        // is restored when recovery ends.
        self.plateau = Plateau::default();
        self.policer.forget(&ev.totals);
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
    fn send_buffer_windows(&self) -> u32 {
        3
    }

    fn describe(&self, visit: &mut dyn FnMut(&'static str, f64)) {
        visit("mode", f64::from(self.mode as u8));
        visit("bw_packets_per_s", self.bw().packets_per_s());
        visit(
            "min_rtt_ms",
            f64::from(self.min_rtt.us().unwrap_or(0)) / 1000.0,
        );
        visit("pacing_gain", f64::from(self.pacing_gain) / UNIT as f64);
        visit("cwnd_gain", f64::from(self.cwnd_gain) / UNIT as f64);
        visit("extra_acked", f64::from(self.aggregation.extra()));
        visit("policed", f64::from(u8::from(self.policer.is_used())));
    }

    fn mode(&self) -> Option<&'static str> {
        Some(match self.mode {
            Mode::Startup => "startup",
            Mode::Drain => "drain",
            Mode::ProbeBw => "probe_bw",
            Mode::ProbeRtt => "probe_rtt",
        })
    }

    fn fork(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

/// The registry entry.
pub const KIND: CcKind = CcKind {
    name: "bbr",
    help: "version 1: paced at the largest delivery rate of the last ten RTTs, with about two \
        bandwidth-delay products in flight at most",
    source: "Linux 6.12 tcp_bbr; Cardwell et al., ACM Queue 14(5), 2016",
    family: Family::Model,
    year: 2016,
    needs: &[],
    default_in: &[],
    params: PARAMS,
    make: &|params, host| Box::new(Bbr::new(params, host)),
};
