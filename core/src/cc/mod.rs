//! Congestion controls, one file or folder each: state machines that set a [`Window`] at transport
//! events.
//!
//! The transport owns the window and lends it to the congestion control with every event. The
//! transport itself reduces the window during recovery (PRR), after an idle period, and if the
//! window is not used up for a whole timeout. It does not do so for congestion controls that return
//! true from [`CongestionControl::owns_recovery`]. A timeout sets every window to the packets in
//! flight plus one.
//!
//! For one ACK of data in flight, the transport calls these methods in this order:
//!
//! 1. `on_sample`, with the measurements of the ACK;
//! 2. `on_spurious_loss`, `on_reduced` and `on_state`, if the ACK ends or undoes a reduction;
//! 3. `on_packet_lost` for each packet that the ACK showed to be lost, if
//!    [`CongestionControl::needs_flight_record`] returns true;
//! 4. `on_loss` and `on_state`, if a reduction begins;
//! 5. `on_ack`, which may change the window;
//! 6. `on_loss` and `on_state`, if `on_ack` has requested a reduction ([`Window::reduce`]).
//!
//! If the number of SACKed segments detects losses, not RACK, `on_packet_lost` may follow
//! `on_loss`. `on_start` precedes all other calls, when the connection is established. When the
//! retransmission timer fires, the transport calls `on_packet_lost`, then `on_loss` if an episode
//! of loss begins, then `on_state` and `on_rto`. The transport calls `on_sent` before data leaves
//! while nothing else is in flight.

pub mod bbr;
pub mod bbr2;
pub mod bbr3;
pub mod bic;
pub mod cdg;
pub mod compound;
pub mod copa;
pub mod cubic;
pub mod dctcp;
pub mod highspeed;
pub mod htcp;
pub mod hybla;
pub mod hystart;
pub mod illinois;
pub mod ledbat;
pub mod lp;
pub mod newreno;
pub mod nv;
pub mod prague;
pub mod remy;
pub mod reno;
pub mod scalable;
pub mod timely;
pub mod vegas;
pub mod veno;
pub mod westwood;
pub mod xcp;
pub mod yeah;

use crate::kernel::Kernel;
use crate::packet::Ip;
use crate::packet::{Congestion, Feedback};
use crate::param::{Param, Params};
use crate::transport::{EcnUse, Gso, MSS, Signals, State};
use crate::units::{Rate, Span, Time};
use alloc::boxed::Box;

/// The initial slow start threshold, in packets. The window never reaches it.
pub const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;
/// Minimum number of segments in a burst (one super-packet), unless the congestion control sets
/// another value (Linux: `tcp_min_tso_segs`).
pub const MIN_BURST: u32 = 2;

/// The limits of a sender: packets in flight (of one MSS, as Linux counts) and pacing rate.
#[derive(Clone, PartialEq, Debug)]
pub struct Window {
    /// The congestion window, in packets.
    pub cwnd: u32,
    /// The slow start threshold, in packets. A window below it is in slow start and doubles per
    /// round trip.
    pub ssthresh: u32,
    /// Packets acknowledged in congestion avoidance since the last increase of `cwnd`.
    pub cwnd_cnt: u32,
    /// Maximum of `cwnd`, in packets.
    pub clamp: u32,
    /// The pacing rate of the congestion control; `None` selects the transport's own formula. The
    /// rate also determines the size of bursts of flows without pacing.
    pub pacing: Option<Rate>,
    /// Minimum number of segments in a burst.
    pub min_burst: u32,
    /// Maximum number of segments in a burst. The limit of the device (GSO) applies as well.
    pub max_burst: u32,
    /// Set by a congestion control that limits its flow on purpose: delivery-rate samples of the
    /// data in flight count as limited by the application. The transport resets this field.
    pub app_limited: bool,
    /// Set in `on_ack` by a congestion control that detects congestion itself. A reduction begins
    /// as after a mark (state `Cwr`, PRR), if the state is `Open` or `Disorder`. The transport
    /// resets this field.
    pub reduce: bool,
}

/// A window that limits nothing: 2²⁰ packets, 1.5 GB. It is for congestion controls that set only a
/// pacing rate. Metrics omit this window.
pub const NO_WINDOW: u32 = 1 << 20;

impl Window {
    /// The window at the start of a connection: `iw` packets, without a slow start threshold.
    pub fn new(iw: u32) -> Window {
        Window {
            cwnd: iw,
            ssthresh: INFINITE_SSTHRESH,
            cwnd_cnt: 0,
            clamp: u32::MAX,
            pacing: None,
            min_burst: MIN_BURST,
            max_burst: u32::MAX,
            app_limited: false,
            reduce: false,
        }
    }
    /// Returns whether the window is below the slow start threshold.
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }
}

/// The measurements of one ACK.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Sample {
    /// Arrival time of the ACK.
    pub now: Time,
    /// The round-trip time of the last packet that this ACK SACKed, or else acknowledged in order.
    /// `None` if the time was not measured, because packets were retransmitted and no timestamp was
    /// echoed.
    pub rtt: Option<Span>,
    /// Packets that this ACK acknowledged in order, including those that earlier ACKs SACKed.
    pub acked: u32,
    /// The first byte that is not acknowledged in order, after this ACK (Linux: `snd_una`).
    pub una: u64,
    /// The first byte that has not been sent (Linux: `snd_nxt`).
    pub nxt: u64,
    /// The pacing rate of the transport, which also determines the size of bursts of flows without
    /// pacing.
    pub pacing: Rate,
    /// Whether the flow is paced.
    pub paced: bool,
    /// Whether this ACK reported ECN marks.
    pub ece: bool,
    /// Whether this ACK only acknowledged more data in order, without a SACK, a mark, or a change
    /// of the peer's window (Linux's fast path).
    pub plain: bool,
    /// The state of recovery before this ACK.
    pub state: State,
    /// The smoothed round-trip time, including this ACK, in eighths of a microsecond as in Linux.
    pub srtt8_us: u64,
    /// Packets delivered since the start of the connection, including those of this ACK. Exception:
    /// the kernel does not follow the rule `delivered_before_event` (Linux before 6.15 without a
    /// backport), and AccECN is not in use. The packets that this ACK acknowledged in order are
    /// then missing.
    pub delivered: u64,
    /// Marked packets among `delivered`. With ECE, all packets that a marked ACK delivered count.
    /// In the exception of `delivered`, marks that a counter in this ACK reports are missing.
    pub delivered_ce: u64,
    /// The timestamp of the peer in this ACK, and the echoed timestamp of the sender, in ms.
    pub stamps: (u32, u32),
    /// Packets that are SACKed and not acknowledged in order, after this ACK.
    pub sacked: u32,
    /// Packets delivered since the transmission of the last sent packet that this ACK acknowledged,
    /// including this packet. This is an estimate of the packets in flight at that transmission. 0
    /// if this ACK acknowledged no packet.
    pub flight: u32,
    /// The sum of the routers' feedback in the headers of the packets that reached the receiver
    /// since its last ACK.
    pub feedback: Feedback,
}

/// One ACK, after loss detection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Ack {
    /// Arrival time of the ACK.
    pub now: Time,
    /// Packets that this ACK newly acknowledged or SACKed, and duplicates that a DSACK reported.
    pub delivered: u32,
    /// Whether the window may grow. It may not grow while PRR controls it (states `Cwr` and
    /// `Recovery`), or if the ACK acknowledged no new data in order. If reordering of more than
    /// three packets was seen, a new SACK is enough.
    pub may_grow: bool,
    /// Whether the window limited transmission in the last round trip. In slow start, the use of
    /// more than half of the window is enough. Without the rule `cwnd_limited_for_a_window` (Linux
    /// before 6.1), the value is determined anew as soon as more packets are in flight.
    pub cwnd_limited: bool,
    /// The first byte that is not acknowledged in order, after this ACK (Linux: `snd_una`).
    pub una: u64,
    /// The first byte that has not been sent (Linux: `snd_nxt`).
    pub nxt: u64,
    /// Packets in flight after this ACK.
    pub in_flight: u32,
    /// Packets that this ACK showed to be lost.
    pub lost: u32,
    /// The state of recovery after this ACK.
    pub state: State,
    /// Whether this ACK reported ECN marks.
    pub ece: bool,
    /// Marked packets. If this ACK has ECE, all packets that it delivered count, as in Linux's
    /// `delivered_ce`. With a counter, this is the increase of the counter, which may exceed the
    /// packets that this ACK delivered.
    pub marked: u32,
    /// The delivery sample of this ACK, if [`CongestionControl::needs_delivery`] returns true.
    pub delivery: Option<Delivery>,
}

/// The delivery sample of an ACK (`tcp_rate` in Linux).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Delivery {
    /// The delivery rate from the transmission of the newest packet to this ACK. The newest packet
    /// is the last sent one of those that this ACK delivered. `None` if the rate is unknown.
    pub sample: Option<RateSample>,
    /// The round-trip time of this ACK, as [`Sample::rtt`].
    pub rtt: Option<Span>,
    /// Whether the receiver may have delayed this ACK: the ACK acknowledged one short packet that
    /// was not retransmitted, and no other packet was in flight.
    pub maybe_delayed: bool,
    /// Packets in flight before this ACK.
    pub prior_in_flight: u32,
    /// Earliest departure of the next packet by pacing.
    pub next_departure: Time,
    /// Totals of the connection, including this ACK.
    pub totals: Totals,
    /// The result of the flight that this ACK ends, if [`CongestionControl::needs_flight_record`]
    /// returns true.
    pub flight: Option<FlightSample>,
}

/// The result of a flight: from the transmission of the newest acknowledged packet to its ACK.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct FlightSample {
    /// Packets in flight after the newest acknowledged packet was sent, including this packet.
    pub in_flight: u32,
    /// Packets delivered since that transmission.
    pub delivered: u64,
    /// Packets marked by the network that ACKs reported since that transmission ([`Ack::marked`]).
    pub delivered_ce: u64,
    /// Packets marked lost since the newest acknowledged packet was sent.
    pub lost: u64,
    /// Whether the window was used up at any time in the last round trip. This field has neither of
    /// the two exceptions of [`Ack::cwnd_limited`], for slow start and for Linux before 6.1.
    pub cwnd_limited: bool,
}

/// Totals of a connection's packets.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Packets delivered, the SYN included.
    pub delivered: u64,
    /// Time of the last delivery.
    pub delivered_at: Time,
    /// Packets marked lost; a packet that is lost again counts again.
    pub lost: u64,
}

/// A delivery-rate sample.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct RateSample {
    /// Packets that had been delivered when the newest acknowledged packet was sent.
    pub prior_delivered: u64,
    /// Packets delivered since that transmission.
    pub delivered: u64,
    /// The duration of these deliveries: the time in which the packets were sent or the time in
    /// which they were acknowledged, whichever is longer.
    pub interval: Span,
    /// Whether the application limited the flow when the newest acknowledged packet was sent.
    pub app_limited: bool,
}

/// The event of congestion: the window must be reduced. It occurs at most once per round trip.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Loss {
    /// Time at which the congestion was detected.
    pub now: Time,
    /// The cause of the reduction.
    pub cause: Cause,
    /// Packets in flight.
    pub in_flight: u32,
}

/// The event that one packet is marked lost, for congestion controls whose
/// [`CongestionControl::needs_flight_record`] returns true.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LostPacket {
    /// Time at which the loss was detected.
    pub now: Time,
    /// The first byte of the packet.
    pub seq: u64,
    /// The byte after its last byte.
    pub end: u64,
    /// Packets in flight after the lost packet was sent, including this packet.
    pub in_flight: u32,
    /// Packets marked lost since the lost packet was sent, including this packet.
    pub lost: u64,
    /// Whether the application limited the flow when the lost packet was sent.
    pub app_limited: bool,
    /// Totals of the connection.
    pub totals: Totals,
}

/// The signal of congestion.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Cause {
    /// ACKs of later packets showed losses.
    Loss,
    /// The network marked packets (ECN).
    Mark,
    /// A tail loss probe repaired a loss that no ACK had shown.
    TailProbe,
    /// The retransmission timer fired.
    Timeout,
    /// The congestion control requested it ([`Window::reduce`]).
    Asked,
}

/// The event that the connection is established; no data has been sent.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Start {
    /// Time of the event.
    pub now: Time,
    /// The smoothed round-trip time: that of the handshake.
    pub srtt: Span,
    /// The minimum round-trip time: that of the handshake.
    pub min_rtt: Span,
    /// Totals: the SYN has been delivered.
    pub totals: Totals,
    /// Whether both ends agreed on the use of ECN that the congestion control needs. Without it,
    /// a congestion control that needs ECN falls back to Reno.
    pub ecn: bool,
}

/// The event that data leaves while no other data is in flight.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Sent {
    /// Time of the event.
    pub now: Time,
    /// Time of the last transmission of data before this event.
    pub last_sent: Option<Time>,
    /// Whether the application had no data to send before this event.
    pub app_limited: bool,
    /// The first byte that had not been sent before this event (Linux: `snd_nxt`).
    pub nxt: u64,
    /// Totals of the connection.
    pub totals: Totals,
}

/// The event that the retransmission timer fired.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Rto {
    /// Time of the event.
    pub now: Time,
    /// Totals of the connection.
    pub totals: Totals,
}

/// The event that a reduction is over: PRR has ended. Unless the reduction was undone, the window
/// has been set to the slow start threshold.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reduced {
    /// Time of the event.
    pub now: Time,
}

/// The event that the state of recovery changes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StateChange {
    /// Time of the event.
    pub now: Time,
    /// The old state.
    pub from: State,
    /// The new state, which may equal the old state.
    pub to: State,
    /// The first byte that has not been sent (Linux: `snd_nxt`).
    pub nxt: u64,
}

/// The event that a reduction of the window was spurious: the packets were not lost.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SpuriousLoss {
    /// Time at which the transport detected this.
    pub now: Time,
    /// The window before the reduction, in packets.
    pub prior_cwnd: u32,
    /// Totals of the connection.
    pub totals: Totals,
}

macro_rules! event_at {
    ($($event:ident { $($field:ident : $value:expr),* $(,)? })*) => {$(
        impl $event {
            /// An event at `now` with neutral values in all other fields.
            pub fn at(now: Time) -> $event {
                $event { now, $($field: $value),* }
            }
        }
    )*};
}
event_at! {
    Sample {
        rtt: None, acked: 0, una: 0, nxt: 0, pacing: Rate::bit(u64::MAX), paced: false,
        ece: false, plain: false,
        state: State::Open, srtt8_us: 0, delivered: 0, delivered_ce: 0, stamps: (0, 0),
        sacked: 0, flight: 0,
        feedback: Feedback::default(),
    }
    Ack {
        delivered: 0, may_grow: true, cwnd_limited: true, una: 0, nxt: 0, in_flight: 0, lost: 0,
        state: State::Open,
        ece: false, marked: 0, delivery: None,
    }
    LostPacket { seq: 0, end: 0, in_flight: 0, lost: 0, app_limited: false,
    totals: Totals::default() }
    Loss { cause: Cause::Loss, in_flight: 0 }
    Start { srtt: Span::ZERO, min_rtt: Span::ZERO, totals: Totals::default(), ecn: false }
    Sent { last_sent: None, app_limited: false, nxt: 0, totals: Totals::default() }
    Rto { totals: Totals::default() }
    Reduced {}
    StateChange { from: State::Open, to: State::Open, nxt: 0 }
    SpuriousLoss { prior_cwnd: 0, totals: Totals::default() }
}

/// A congestion control.
pub trait CongestionControl: Send + Sync {
    /// Called when the connection is established.
    fn on_start(&mut self, _w: &mut Window, _ev: &Start) {}
    /// Called before data leaves while no other data is in flight.
    fn on_sent(&mut self, _w: &mut Window, _ev: &Sent) {}
    /// Called for each ACK of data in flight with its measurements, before loss detection, only if
    /// [`needs_samples`](Self::needs_samples) returns true.
    fn on_sample(&mut self, _w: &mut Window, _ev: &Sample) {}
    /// Called for each ACK of data in flight, after loss detection. The window grows here.
    fn on_ack(&mut self, w: &mut Window, ev: &Ack);
    /// Called when the window must be reduced: the congestion control sets `w.ssthresh`. If
    /// [`owns_recovery`](Self::owns_recovery) returns true, the congestion control itself controls
    /// the window. Otherwise PRR reduces the window to the threshold.
    fn on_loss(&mut self, w: &mut Window, ev: &Loss);
    /// Called for each packet that is marked lost, only if
    /// [`needs_flight_record`](Self::needs_flight_record) returns true.
    fn on_packet_lost(&mut self, _w: &mut Window, _ev: &LostPacket) {}
    /// Called when the retransmission timer has fired. The packets in flight are marked lost by
    /// then; since Linux 4.18, recently sent packets are not. If an episode of loss begins, the
    /// transport calls `on_loss` before.
    fn on_rto(&mut self, _w: &mut Window, _ev: &Rto) {}
    /// Called when a reduction is over (`CA_EVENT_COMPLETE_CWR` in Linux); not called if
    /// [`owns_recovery`](Self::owns_recovery) returns true.
    fn on_reduced(&mut self, _w: &mut Window, _ev: &Reduced) {}
    /// Called when the state of recovery changes (`set_state` in Linux).
    fn on_state(&mut self, _w: &mut Window, _ev: &StateChange) {}
    /// Called when a reduction was spurious: the congestion control restores the window. The
    /// transport restores the threshold.
    fn on_spurious_loss(&mut self, w: &mut Window, ev: &SpuriousLoss) {
        w.cwnd = w.cwnd.max(ev.prior_cwnd);
    }
    /// Returns whether the congestion control is in slow start, for observers. Congestion controls
    /// whose window does not follow `ssthresh` override this method.
    fn in_slow_start(&self, w: &Window) -> bool {
        w.in_slow_start()
    }
    /// Returns whether the congestion control sets the window in recovery itself, without PRR.
    fn owns_recovery(&self) -> bool {
        false
    }
    /// Returns whether the congestion control requests pacing.
    fn needs_pacing(&self) -> bool {
        false
    }
    /// Returns whether [`on_sample`](Self::on_sample) is called.
    fn needs_samples(&self) -> bool {
        true
    }
    /// Returns whether the congestion control needs [`Ack::delivery`].
    fn needs_delivery(&self) -> bool {
        false
    }
    /// Returns whether the congestion control needs [`Delivery::flight`] and
    /// [`on_packet_lost`](Self::on_packet_lost).
    fn needs_flight_record(&self) -> bool {
        false
    }
    /// Returns whether the flow's packets carry a congestion header. If so,
    /// [`congestion`](Self::congestion) is called for each packet.
    fn needs_feedback(&self) -> bool {
        false
    }
    /// The congestion header of a packet that leaves now; called only if
    /// [`needs_feedback`](Self::needs_feedback) returns true.
    fn congestion(&self, _w: &Window) -> Option<Congestion> {
        None
    }
    /// The number of congestion windows of data for which the send buffer has room.
    fn send_buffer_windows(&self) -> u32 {
        2
    }
    /// Calls the visitor with each named number of the internal state, for traces (`w_max`, `k_s`
    /// …).
    fn describe(&self, _visit: &mut dyn FnMut(&'static str, f64)) {}
    /// The name of the present mode, for traces; `None` if the congestion control has no modes.
    fn mode(&self) -> Option<&'static str> {
        None
    }
    /// A copy of the congestion control in its present state.
    fn fork(&self) -> Box<dyn CongestionControl>;
}

/// The properties of the host that a congestion control may use.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// The kernel's timer frequency in Hz, on which some congestion controls of Linux depend.
    pub hz: u32,
    /// The Linux release whose rules apply.
    pub kernel: Kernel,
    /// The maximum size of a super-packet.
    pub gso: Gso,
    /// Payload of a full segment of the flow, in bytes (Linux: `mss_cache`).
    pub mss: u32,
    /// The version of IP of the flow.
    pub ip: Ip,
    /// Seed of the congestion control's random choices; every flow has a different one.
    pub seed: u64,
}

impl Default for Host {
    fn default() -> Host {
        Host {
            hz: 1000,
            kernel: Kernel::default(),
            gso: Gso::On,
            mss: MSS,
            ip: Ip::V4,
            seed: 1,
        }
    }
}

/// The main signal of a congestion control.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Family {
    /// Losses.
    Loss,
    /// Round-trip times.
    Delay,
    /// A model of the path.
    Model,
    /// Feedback of switches and routers.
    Switch,
    /// Rules that were found by a computer search.
    Learned,
}

impl Family {
    /// Returns the name of the family in lists.
    pub fn name(self) -> &'static str {
        match self {
            Family::Loss => "loss",
            Family::Delay => "delay",
            Family::Model => "model",
            Family::Switch => "network-assisted",
            Family::Learned => "computer-generated",
        }
    }
}

/// A requirement of a congestion control on the connection or the path.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Need {
    /// Both ends use ECN, and the receiver echoes every mark (RFC 8257 section 3.2). This need
    /// configures the connection so.
    EcnEcho,
    /// Both ends use ECN with code point ECT(1), and the receiver counts marks (RFC 9331, RFC
    /// 9768). This need configures the connection so.
    EcnCount,
    /// The receiver sends no SACK. This need configures the connection so.
    NoSack,
    /// Pacing is required: the scenario's `host.pacing` must not be off. Some congestion controls
    /// only request pacing and also run without it, as BBR does in Linux; [`CcKind::paced`] reports
    /// the request.
    Pacing,
    /// Round-trip times have a resolution finer than a millisecond: the scenario's `host.clock`
    /// must be `us`.
    FineRtt,
    /// Every packet carries a congestion header, and the bottleneck's queue writes into it.
    Feedback,
}

impl Need {
    /// A description of the requirement.
    pub fn help(self) -> &'static str {
        match self {
            Need::EcnEcho => "ECN, every mark echoed",
            Need::EcnCount => "ECN with ECT(1), marks counted",
            Need::NoSack => "no SACK",
            Need::Pacing => "pacing",
            Need::FineRtt => "RTTs in microseconds",
            Need::Feedback => "routers that write into its packets",
        }
    }
}

/// A system whose default congestion control is or was the described one.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct DefaultIn {
    /// The system.
    pub system: &'static str,
    /// The first release, and its date: `"2.6.19 (2006-11)"`.
    pub since: &'static str,
    /// The release that replaced it, and its date; empty if none has.
    pub until: &'static str,
}

/// A closure that creates a congestion control for a flow. It is not a plain function, because the
/// closure of a plugin refers to the loaded plugin.
pub type MakeCc = dyn Fn(&Params, &Host) -> Box<dyn CongestionControl> + Send + Sync;

/// One congestion control of a registry.
#[derive(Clone)]
pub struct CcKind {
    /// The name in Linux, if Linux has the congestion control; otherwise a name of narrows.
    pub name: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// The specification that the congestion control implements.
    pub source: &'static str,
    /// The main signal of the congestion control.
    pub family: Family,
    /// Year in which the congestion control was first published.
    pub year: u16,
    /// The requirements of the congestion control.
    pub needs: &'static [Need],
    /// Systems whose default congestion control this is or was.
    pub default_in: &'static [DefaultIn],
    /// The parameters of the congestion control.
    pub params: &'static [Param],
    /// Creates an instance for a flow, from parameters and the properties of the sending host.
    pub make: &'static MakeCc,
}

impl core::fmt::Debug for CcKind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("CcKind").field("name", &self.name).finish()
    }
}

impl CcKind {
    /// Returns whether the congestion control has the requirement `need`.
    pub fn needs(&self, need: Need) -> bool {
        self.needs.contains(&need)
    }
    /// The signals that the congestion control requires of a connection. Without a requirement,
    /// these are classic ECN (RFC 3168), if both ends support it, and SACK.
    pub fn signals(&self) -> Signals {
        Signals {
            ecn: if self.needs(Need::EcnCount) {
                EcnUse::Counted
            } else if self.needs(Need::EcnEcho) {
                EcnUse::Echoed
            } else {
                EcnUse::Latched
            },
            sack: !self.needs(Need::NoSack),
        }
    }
    /// Returns whether a new instance with default parameters requests pacing (`SK_PACING_NEEDED`
    /// in Linux).
    pub fn paced(&self) -> bool {
        (self.make)(&Params::defaults(self.params), &Host::default()).needs_pacing()
    }
}

/// The congestion controls of narrows.
pub const KINDS: &[CcKind] = &[
    reno::KIND,
    cubic::KIND,
    bbr::KIND,
    bbr2::KIND,
    bbr3::KIND,
    bic::KIND,
    cdg::KIND,
    compound::KIND,
    copa::KIND,
    dctcp::KIND,
    highspeed::KIND,
    htcp::KIND,
    hybla::KIND,
    illinois::KIND,
    ledbat::KIND,
    lp::KIND,
    newreno::KIND,
    nv::KIND,
    prague::KIND,
    remy::KIND,
    scalable::KIND,
    timely::KIND,
    vegas::KIND,
    veno::KIND,
    westwood::KIND,
    xcp::KIND,
    yeah::KIND,
];
