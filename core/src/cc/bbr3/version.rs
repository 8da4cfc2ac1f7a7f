//! Parameters of versions 2 and 3, and their differences: defaults and switches.

use crate::cc::bbr::UNIT;
use crate::param::{Kind, Param, Params};
use crate::units::Span;

/// A version of BBR.
#[derive(Copy, Clone, Debug)]
pub(in crate::cc) struct Version {
    /// The source of its defaults.
    pub source: &'static str,
    /// Gains of pacing and window in Startup.
    pub startup: (f64, f64),
    /// Pacing gain in Drain.
    pub drain_gain: f64,
    /// Round trips after which Drain ends in any case; 0: no limit.
    pub drain_rounds: u64,
    /// Pacing gain in ProbeDown.
    pub down_gain: f64,
    /// Bandwidth-delay products in the window in ProbeUp.
    pub up_cwnd_gain: f64,
    /// Minimum number of separate losses in one round trip that end Startup.
    pub startup_losses: u64,
    /// Whether ACKs that report losses are counted as separate losses; otherwise lost ranges of
    /// bytes are.
    pub counts_acks: bool,
    /// Whether the long-term bound after a Startup with losses is the data delivered in a round
    /// trip, if that is more than the bandwidth-delay product.
    pub bounds_by_latest: bool,
    /// Whether the growth of the maximum rate detects the full pipe. Otherwise, the growth of the
    /// rate sample at the start of each round trip detects it.
    pub plateau_of_max: bool,
    /// Whether ProbeUp ends when 1.25 bandwidth-delay products are in flight; otherwise when the
    /// rate no longer grows.
    pub up_ends_by_queue: bool,
    /// Whether the loss threshold is also checked at each ACK, on the packets lost since its newest
    /// packet was sent. If not, it is only checked for each lost packet.
    pub judges_acks: bool,
    /// Whether the undo of a spurious recovery restores the phase that the losses ended.
    pub undoes_phases: bool,
}

/// Version 3.
pub(in crate::cc) const V3: Version = Version {
    source: "draft-ietf-ccwg-bbr-06",
    startup: (2.77, 2.0),
    drain_gain: 0.5,
    drain_rounds: 3,
    down_gain: 0.9,
    up_cwnd_gain: 2.25,
    startup_losses: 6,
    counts_acks: false,
    bounds_by_latest: true,
    plateau_of_max: false,
    up_ends_by_queue: false,
    judges_acks: false,
    undoes_phases: true,
};

/// Number of rows of a parameter table.
const ROWS: usize = 26;

/// The parameters of a version.
pub(in crate::cc) const fn params(v: &Version) -> [Param; ROWS] {
    const fn row(
        name: &'static str,
        kind: Kind,
        help: &'static str,
        source: &'static str,
    ) -> Param {
        Param {
            name,
            kind,
            help,
            source,
        }
    }
    const DRAFT: &str = "draft-ietf-ccwg-bbr-06";
    const GOOGLE: &str = "v2 alpha and v3 as published by Google; the draft has none";
    [
        row(
            "startup_gain",
            Kind::Number(v.startup.0, 1.0, 16.0),
            "pacing gain in Startup",
            v.source,
        ),
        row(
            "startup_cwnd_gain",
            Kind::Number(v.startup.1, 1.0, 16.0),
            "congestion window in bandwidth-delay products, in Startup and Drain",
            v.source,
        ),
        row(
            "drain_gain",
            Kind::Number(v.drain_gain, 0.01, 1.0),
            "pacing gain in Drain",
            v.source,
        ),
        row(
            "drain_rounds",
            Kind::Count(v.drain_rounds, 0, 1000),
            "RTTs after which Drain ends although the data in flight exceeds its target; 0: no \
             limit",
            v.source,
        ),
        row(
            "up_gain",
            Kind::Number(1.25, 1.0, 16.0),
            "pacing gain in the phase that probes for bandwidth",
            DRAFT,
        ),
        row(
            "down_gain",
            Kind::Number(v.down_gain, 0.01, 1.0),
            "pacing gain in the phase that drains the queue",
            v.source,
        ),
        row(
            "cwnd_gain",
            Kind::Number(2.0, 1.0, 16.0),
            "congestion window in bandwidth-delay products",
            DRAFT,
        ),
        row(
            "up_cwnd_gain",
            Kind::Number(v.up_cwnd_gain, 1.0, 16.0),
            "congestion window in bandwidth-delay products, in the phase that probes for bandwidth",
            v.source,
        ),
        row(
            "loss_threshold",
            Kind::Number(0.02, 0.0, 1.0),
            "largest loss rate per RTT while probing for bandwidth",
            "draft-ietf-ccwg-bbr-06: LossThresh",
        ),
        row(
            "beta",
            Kind::Number(0.7, 0.0, 1.0),
            "lower limit of the factor by which a bound is multiplied after an RTT with losses",
            "draft-ietf-ccwg-bbr-06: Beta",
        ),
        row(
            "headroom",
            Kind::Number(0.15, 0.0, 1.0),
            "share of the known capacity that is left to other flows while cruising",
            "draft-ietf-ccwg-bbr-06: Headroom",
        ),
        row(
            "startup_losses",
            Kind::Count(v.startup_losses, 0, 1000),
            "separate losses in one RTT that end Startup; 0: losses do not end it",
            v.source,
        ),
        row(
            "full_pipe_gain",
            Kind::Number(1.25, 1.0, 16.0),
            "the pipe counts as not full while the bandwidth grows by this factor or more",
            "draft-ietf-ccwg-bbr-06: CheckFullBWReached",
        ),
        row(
            "full_pipe_rounds",
            Kind::Count(3, 1, 100),
            "RTTs without this growth after which the pipe counts as full",
            "draft-ietf-ccwg-bbr-06: CheckFullBWReached",
        ),
        row(
            "probe_wait",
            Kind::Span(Span::s(2), Span::ZERO, Span::s(86_400)),
            "time from ProbeBW_DOWN to the next probe, unless probe_rounds is reached first",
            "draft-ietf-ccwg-bbr-06: PickProbeWait",
        ),
        row(
            "probe_wait_random",
            Kind::Span(Span::s(1), Span::ZERO, Span::s(86_400)),
            "upper limit of the random time that is added to probe_wait",
            "draft-ietf-ccwg-bbr-06: PickProbeWait",
        ),
        row(
            "probe_rounds",
            Kind::Count(63, 1, 1_000_000),
            "maximum number of round trips between two probes; a second maximum is the \
             bandwidth-delay product in packets, because a window of Reno grows by this product \
             in so many round trips",
            "draft-ietf-ccwg-bbr-06: IsRenoCoexistenceProbeTime",
        ),
        row(
            "min_rtt_window",
            Kind::Span(Span::s(10), Span::ms(1), Span::s(86_400)),
            "time for which a minimum RTT is valid",
            "draft-ietf-ccwg-bbr-06: MinRTTFilterLen",
        ),
        row(
            "probe_rtt_interval",
            Kind::Span(Span::s(5), Span::ms(1), Span::s(86_400)),
            "time without a lower RTT after which ProbeRTT begins",
            "draft-ietf-ccwg-bbr-06: ProbeRTTInterval",
        ),
        row(
            "probe_rtt_time",
            Kind::Span(Span::ms(200), Span::ZERO, Span::s(60)),
            "time for which ProbeRTT keeps the window small",
            "draft-ietf-ccwg-bbr-06: ProbeRTTDuration",
        ),
        row(
            "probe_rtt_cwnd_gain",
            Kind::Number(0.5, 0.0, 1.0),
            "congestion window in bandwidth-delay products, in ProbeRTT",
            "draft-ietf-ccwg-bbr-06: ProbeRTTCwndGain",
        ),
        row(
            "min_cwnd",
            Kind::Count(4, 1, 1000),
            "smallest window in packets",
            "draft-ietf-ccwg-bbr-06: MinPipeCwnd",
        ),
        row(
            "pacing_margin",
            Kind::Number(0.01, 0.0, 0.5),
            "share by which the pacing rate is reduced",
            "draft-ietf-ccwg-bbr-06: PacingMarginPercent",
        ),
        row(
            "aggregation_rounds",
            Kind::Count(10, 1, 1000),
            "RTTs over which the largest ACK aggregation, which is added to the window, is \
             measured",
            "draft-ietf-ccwg-bbr-06: ExtraAckedFilterLen",
        ),
        row(
            "ecn",
            Kind::Bool(false),
            "respond to ECN marks if the flow uses ECN",
            GOOGLE,
        ),
        row(
            "ecn_max_rtt",
            Kind::Span(Span::ms(5), Span::ZERO, Span::s(60)),
            "largest minimum RTT at which ecn applies",
            GOOGLE,
        ),
    ]
}

/// The parameters in internal units, and the version's switches.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// The version. Only its switches are used: its other values are defaults of the parameters
    /// below.
    pub version: Version,
    /// Pacing gain in Startup, in 1/256 like all gains below.
    pub startup_gain: u64,
    pub startup_cwnd_gain: u64,
    pub drain_gain: u64,
    pub drain_rounds: u64,
    pub up_gain: u64,
    pub down_gain: u64,
    pub cwnd_gain: u64,
    pub up_cwnd_gain: u64,
    pub loss_threshold: f64,
    pub beta: f64,
    pub headroom: f64,
    pub startup_losses: u64,
    pub full_pipe_gain: u64,
    pub full_pipe_rounds: u64,
    pub probe_wait: Span,
    pub probe_wait_random: Span,
    pub probe_rounds: u64,
    pub min_rtt_window: Span,
    pub probe_rtt_interval: Span,
    pub probe_rtt_time: Span,
    pub probe_rtt_cwnd_gain: u64,
    pub min_cwnd: u64,
    pub paced_millionths: u64,
    pub paced_packet: u64,
    pub aggregation_rounds: u64,
    pub ecn: bool,
    pub ecn_max_rtt: Span,
}

impl Settings {
    pub fn new(params: &Params, version: Version, mss: u32) -> Settings {
        let floor = |name: &str| libm::floor(params.number(name) * UNIT as f64) as u64;
        // Gains of Startup and ProbeUp are rounded up, so that a probe is not too small.
        let ceil = |name: &str| libm::ceil(params.number(name) * UNIT as f64) as u64;
        Settings {
            version,
            startup_gain: ceil("startup_gain"),
            startup_cwnd_gain: ceil("startup_cwnd_gain"),
            drain_gain: floor("drain_gain"),
            drain_rounds: params.count("drain_rounds"),
            up_gain: ceil("up_gain"),
            down_gain: floor("down_gain"),
            cwnd_gain: floor("cwnd_gain"),
            up_cwnd_gain: floor("up_cwnd_gain"),
            loss_threshold: params.number("loss_threshold"),
            beta: params.number("beta"),
            headroom: params.number("headroom"),
            startup_losses: params.count("startup_losses"),
            full_pipe_gain: floor("full_pipe_gain"),
            full_pipe_rounds: params.count("full_pipe_rounds"),
            probe_wait: params.span("probe_wait"),
            probe_wait_random: params.span("probe_wait_random"),
            probe_rounds: params.count("probe_rounds"),
            min_rtt_window: params.span("min_rtt_window"),
            probe_rtt_interval: params.span("probe_rtt_interval"),
            probe_rtt_time: params.span("probe_rtt_time"),
            probe_rtt_cwnd_gain: floor("probe_rtt_cwnd_gain"),
            min_cwnd: params.count("min_cwnd"),
            paced_millionths: libm::round((1.0 - params.number("pacing_margin")) * 1e6) as u64,
            paced_packet: u64::from(mss),
            aggregation_rounds: params.count("aggregation_rounds"),
            ecn: params.bool("ecn"),
            ecn_max_rtt: params.span("ecn_max_rtt"),
        }
    }
}
