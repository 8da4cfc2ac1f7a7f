//! Congestion controls, one file each: folds of transport events into a [`Window`].
//!
//! The transport owns the window and lends it to the law with every event, because recovery (PRR),
//! idle restart and undo change it too, for every law alike. A law that runs its own recovery says
//! so in [`CongestionControl::owns_recovery`].
//!
//! Order of calls for one ACK: `on_sample` (what it told), then `on_packet_lost` for each packet it
//! showed to be lost (to laws that ask), `on_loss`, `on_rto`, `on_spurious_loss`, `on_reduced` and
//! `on_state` if it changed the state of recovery, then `on_ack` (the window may move). Before the
//! first: `on_start`, when the connection stands.

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
use crate::packet::{Congestion, Feedback};
use crate::param::{Param, Params};
use crate::transport::{EcnUse, Gso, Signals, State};
use crate::units::{Rate, Span, Time};
use alloc::boxed::Box;

/// A threshold never reached: slow start has no end in sight.
pub const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;
/// Segments in the least burst, unless the law says otherwise (`tcp_min_tso_segs`).
pub const MIN_BURST: u32 = 2;

/// What a sender may have in flight, in packets (of one MSS, as Linux counts) and how fast it may
/// send.
#[derive(Clone, PartialEq, Debug)]
pub struct Window {
    /// The congestion window.
    pub cwnd: u32,
    /// Below it the window doubles per round trip (slow start).
    pub ssthresh: u32,
    /// Packets acknowledged towards the next increase in congestion avoidance.
    pub credit: u32,
    /// The most that `cwnd` may be.
    pub clamp: u32,
    /// The rate the law paces at; the transport's own formula where it is `None`. It sizes bursts
    /// even where nothing is paced.
    pub pacing: Option<Rate>,
    /// Segments in the least burst.
    pub min_burst: u32,
    /// Segments in the largest burst, if the device would take more.
    pub max_burst: u32,
    /// Set by a law that holds its flow back on purpose: delivery-rate samples of what is in
    /// flight count as limited by the application. The transport takes it back.
    pub app_limited: bool,
    /// Set by a law, in `on_ack`, that sees congestion by itself: a reduction begins as after a
    /// mark (state `Cwr`, PRR), unless one is under way. The transport takes it back.
    pub reduce: bool,
}

/// A window that limits nothing, 1.5 GB: that of a law whose rate alone limits a flow. Figures
/// leave it out.
pub const NO_WINDOW: u32 = 1 << 20;

impl Window {
    /// At the start of a connection.
    pub fn new(iw: u32) -> Window {
        Window {
            cwnd: iw,
            ssthresh: INFINITE_SSTHRESH,
            credit: 0,
            clamp: u32::MAX,
            pacing: None,
            min_burst: MIN_BURST,
            max_burst: u32::MAX,
            app_limited: false,
            reduce: false,
        }
    }
    /// Is the window below its threshold?
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }
}

/// What one ACK told about the path.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Sample {
    /// When it arrived.
    pub now: Time,
    /// The round-trip time it measured (of its newest cumulatively or selectively acknowledged
    /// packet), if any.
    pub rtt: Option<Span>,
    /// Packets it acknowledged cumulatively.
    pub acked: u32,
    /// Bytes: everything below is acknowledged.
    pub una: u64,
    /// Bytes: everything below has been sent.
    pub nxt: u64,
    /// The pacing rate of the transport, used for bursts even where nothing is paced.
    pub pacing: Rate,
    /// Are packets really paced?
    pub paced: bool,
    /// Did it report marks?
    pub ece: bool,
    /// Did it only acknowledge more in order: nothing selected, no mark, the peer's window as it
    /// was? (Linux's fast path.)
    pub plain: bool,
    /// The state of recovery before it.
    pub state: State,
    /// The smoothed round-trip time, this ACK's included, in eighths of a microsecond, as Linux
    /// keeps it.
    pub srtt8_us: u64,
    /// Packets delivered so far, as Linux shows them here: what this ACK selected is counted, what
    /// it acknowledged in order is not yet.
    pub delivered: u64,
    /// Of them those marked: by ECE all that an ACK delivered, what this one selected included; by
    /// a counter, those of this one not yet.
    pub delivered_ce: u64,
    /// The peer's timestamp in it and the echo of ours, ms.
    pub stamps: (u32, u32),
    /// Packets selected (SACK) and not acknowledged in order, this ACK included.
    pub selected: u32,
    /// Packets delivered since the one was sent that was sent last of those it told of, that one
    /// and this ACK included: what was in flight then. 0 where it told of none.
    pub flight: u32,
    /// What routers have written into the headers of what arrived since the last ACK, all
    /// together.
    pub feedback: Feedback,
}

/// One ACK, after loss detection has had its say.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Ack {
    /// When it arrived.
    pub now: Time,
    /// Packets newly acknowledged, cumulatively or selectively.
    pub delivered: u32,
    /// May the window grow by this ACK? Not in recovery, nor when it acknowledged nothing new in
    /// order.
    pub may_grow: bool,
    /// Was the window the limit of what was sent in the last round?
    pub cwnd_limited: bool,
    /// Bytes: everything below is acknowledged.
    pub una: u64,
    /// Bytes: everything below has been sent.
    pub nxt: u64,
    /// Packets in flight after it.
    pub in_flight: u32,
    /// Packets it showed to be lost.
    pub lost: u32,
    /// The state of recovery after it.
    pub state: State,
    /// Did it report marks?
    pub ece: bool,
    /// Packets marked, as it told: by ECE all that it delivered, as in Linux's `delivered_ce`; by
    /// a counter what that grew by, which may be more than this ACK delivered.
    pub marked: u32,
    /// What it told of delivery, for laws that ask ([`CongestionControl::needs_delivery`]).
    pub delivery: Option<Delivery>,
}

/// What an ACK told of delivery (`tcp_rate` in Linux).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Delivery {
    /// The delivery rate over the flight of the newest packet it acknowledged; `None` where it
    /// cannot be told.
    pub sample: Option<RateSample>,
    /// The round-trip time of that packet, if it can be told.
    pub rtt: Option<Span>,
    /// May the receiver have delayed this ACK? (It acknowledged one short packet and nothing else
    /// was in flight.)
    pub maybe_delayed: bool,
    /// Packets in flight before this ACK.
    pub prior_in_flight: u32,
    /// When pacing lets the next packet leave.
    pub next_departure: Time,
    /// The connection so far, this ACK included.
    pub totals: Totals,
    /// What became of the flight it belongs to, for laws that ask
    /// ([`CongestionControl::needs_flight_record`]).
    pub flight: Option<FlightSample>,
}

/// What became of a flight: from when the newest acknowledged packet was sent to its ACK.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct FlightSample {
    /// Packets in flight when that packet had been sent, itself included.
    pub in_flight: u32,
    /// Packets delivered since.
    pub delivered: u64,
    /// Of them those of which ACKs with marks told.
    pub delivered_ce: u64,
    /// Packets found lost since.
    pub lost: u64,
    /// Was the window used up at any time in the last round trip? (Slow start has no say in it,
    /// other than in [`Ack`], nor has the kernel's release.)
    pub cwnd_limited: bool,
}

/// What became of a connection's packets so far.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Packets delivered, the SYN included.
    pub delivered: u64,
    /// When the last of them was.
    pub delivered_at: Time,
    /// Packets found lost; each time anew, if one is lost again.
    pub lost: u64,
}

/// A delivery-rate sample.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct RateSample {
    /// Packets that had been delivered when the newest acknowledged packet was sent.
    pub prior_delivered: u64,
    /// Packets delivered since.
    pub delivered: u64,
    /// In so much time: the longer one of sending them and having them acknowledged.
    pub interval: Span,
    /// Did the application limit the flow when that packet was sent?
    pub app_limited: bool,
}

/// The window must shrink: at most once per round trip.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Loss {
    /// When it was found.
    pub now: Time,
    /// How it was found.
    pub cause: Cause,
    /// Packets in flight.
    pub in_flight: u32,
}

/// One packet is found lost; told to laws that ask ([`CongestionControl::needs_flight_record`]),
/// before anything else is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LostPacket {
    /// When it was found.
    pub now: Time,
    /// Its first byte.
    pub seq: u64,
    /// One past its last byte.
    pub end: u64,
    /// Packets in flight when it had been sent, itself included.
    pub in_flight: u32,
    /// Packets found lost since it was sent, itself included.
    pub lost: u64,
    /// Did the application limit the flow when it was sent?
    pub app_limited: bool,
    /// The connection so far.
    pub totals: Totals,
}

/// How congestion showed.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Cause {
    /// Packets were found lost by the ACKs of later ones.
    Loss,
    /// The network marked packets (ECN).
    Mark,
    /// A tail loss probe repaired a loss.
    TailProbe,
    /// The retransmission timer fired.
    Timeout,
    /// The law asked for it ([`Window::reduce`]).
    Asked,
}

/// The connection stands: nothing has been sent.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Start {
    /// When.
    pub now: Time,
    /// The smoothed round-trip time: that of the handshake.
    pub srtt: Span,
    /// The least round-trip time: likewise.
    pub min_rtt: Span,
    /// The SYN has been delivered.
    pub totals: Totals,
    /// Did both ends agree on ECN, in the way that the law needs? A law that needs it and does not
    /// get it falls back to Reno.
    pub ecn: bool,
}

/// Data is about to leave while nothing is in flight.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Sent {
    /// When.
    pub now: Time,
    /// When data was last sent before this.
    pub last_sent: Option<Time>,
    /// Had the application left the connection without data to send?
    pub app_limited: bool,
    /// Bytes: everything below had been sent before this.
    pub nxt: u64,
    /// The connection so far.
    pub totals: Totals,
}

/// The retransmission timer fired.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Rto {
    /// When.
    pub now: Time,
    /// The connection so far.
    pub totals: Totals,
}

/// A reduction is over: the window has been set to the threshold.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reduced {
    /// When.
    pub now: Time,
}

/// The state of recovery changes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StateChange {
    /// When.
    pub now: Time,
    /// From this one.
    pub from: State,
    /// To this one; it may be the same.
    pub to: State,
    /// Bytes: everything below has been sent.
    pub nxt: u64,
}

/// A reduction of the window was a mistake.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SpuriousLoss {
    /// When that was found.
    pub now: Time,
    /// The window before the reduction.
    pub prior_cwnd: u32,
    /// The connection so far.
    pub totals: Totals,
}

macro_rules! event_at {
    ($($event:ident { $($field:ident : $value:expr),* $(,)? })*) => {$(
        impl $event {
            /// An event at `now` with everything else at rest; fill in what you know.
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
        selected: 0, flight: 0,
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
    /// The connection stands.
    fn on_start(&mut self, _w: &mut Window, _ev: &Start) {}
    /// Data is about to leave while nothing is in flight.
    fn on_sent(&mut self, _w: &mut Window, _ev: &Sent) {}
    /// What an ACK told, before loss detection.
    fn on_sample(&mut self, _w: &mut Window, _ev: &Sample) {}
    /// An ACK, after loss detection: grow here.
    fn on_ack(&mut self, w: &mut Window, ev: &Ack);
    /// Congestion: set `w.ssthresh` (and with [`owns_recovery`](Self::owns_recovery) the window
    /// too); PRR brings the window there.
    fn on_loss(&mut self, w: &mut Window, ev: &Loss);
    /// One packet was found lost, with [`needs_flight_record`](Self::needs_flight_record).
    fn on_packet_lost(&mut self, _w: &mut Window, _ev: &LostPacket) {}
    /// The retransmission timer fired and everything in flight counts as lost (after `on_loss` if
    /// this was a new episode).
    fn on_rto(&mut self, _w: &mut Window, _ev: &Rto) {}
    /// A reduction is over (`CA_EVENT_COMPLETE_CWR` in Linux); not with
    /// [`owns_recovery`](Self::owns_recovery).
    fn on_reduced(&mut self, _w: &mut Window, _ev: &Reduced) {}
    /// The state of recovery changes (`set_state` in Linux).
    fn on_state(&mut self, _w: &mut Window, _ev: &StateChange) {}
    /// The reduction was a mistake: the window goes back to what it was. The transport restores the
    /// threshold.
    fn on_spurious_loss(&mut self, w: &mut Window, ev: &SpuriousLoss) {
        w.cwnd = w.cwnd.max(ev.prior_cwnd);
    }
    /// Is it in slow start? For those who look on: a law whose window does not follow `ssthresh`
    /// knows better.
    fn in_slow_start(&self, w: &Window) -> bool {
        w.in_slow_start()
    }
    /// Does the law set the window in recovery itself? Then PRR stays out.
    fn owns_recovery(&self) -> bool {
        false
    }
    /// Does it ask for pacing?
    fn needs_pacing(&self) -> bool {
        false
    }
    /// Does it want [`Ack::delivery`]?
    fn needs_delivery(&self) -> bool {
        false
    }
    /// Does it want [`Delivery::flight`] and [`on_packet_lost`](Self::on_packet_lost)?
    fn needs_flight_record(&self) -> bool {
        false
    }
    /// Do its packets carry a congestion header? Then it is asked for each one's.
    fn needs_feedback(&self) -> bool {
        false
    }
    /// The congestion header of a packet that leaves now; only with
    /// [`needs_feedback`](Self::needs_feedback).
    fn congestion(&self, _w: &Window) -> Option<Congestion> {
        None
    }
    /// The send buffer grows to hold so many windows.
    fn send_buffer_windows(&self) -> u32 {
        2
    }
    /// Named numbers for traces (`w_max`, `k_s` …).
    fn describe(&self, _visit: &mut dyn FnMut(&'static str, f64)) {}
    /// A copy in its present state.
    fn fork(&self) -> Box<dyn CongestionControl>;
}

/// What a law may know of the host it runs on.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// The kernel's tick, which some laws of Linux show.
    pub hz: u32,
    /// Whose rules it follows.
    pub kernel: Kernel,
    /// The largest super-packet.
    pub gso: Gso,
    /// Of the law's own random choices; every flow has another.
    pub seed: u64,
}

impl Default for Host {
    fn default() -> Host {
        Host {
            hz: 1000,
            kernel: Kernel::default(),
            gso: Gso::On,
            seed: 1,
        }
    }
}

/// What moves a congestion control.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Family {
    /// Losses.
    Loss,
    /// Round-trip times.
    Delay,
    /// A model of the path.
    Model,
    /// What switches and routers tell it.
    Switch,
    /// Rules that a computer has found.
    Learned,
}

impl Family {
    /// Its name in lists.
    pub fn name(self) -> &'static str {
        match self {
            Family::Loss => "loss",
            Family::Delay => "delay",
            Family::Model => "model",
            Family::Switch => "switch-assisted",
            Family::Learned => "computer-made",
        }
    }
}

/// What a congestion control needs of the connection or the path, beside what every one gets.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Need {
    /// Both ends use ECN, and the receiver echoes every mark (RFC 8257 section 3.2). The connection
    /// is made so.
    EcnEcho,
    /// Both ends use ECN with code point ECT(1), and the receiver counts marks (RFC 9331, RFC
    /// 9768). The connection is made so.
    EcnCount,
    /// The receiver does not select (no SACK). The connection is made so.
    NoSack,
    /// It cannot do without pacing: `host.pacing` must not be off. A congestion control that asks
    /// for pacing and also works without, as BBR does in Linux, has not this need;
    /// [`CcKind::paced`] says who asks.
    Pacing,
    /// Round-trip times finer than a millisecond: `host.clock` must be `us`.
    FineRtt,
    /// Every packet carries a congestion header, and the narrowest hop's queue writes into it.
    Feedback,
}

impl Need {
    /// What it needs, for people.
    pub fn help(self) -> &'static str {
        match self {
            Need::EcnEcho => "ECN, every mark echoed",
            Need::EcnCount => "ECN with ECT(1), marks counted",
            Need::NoSack => "no SACK",
            Need::Pacing => "pacing",
            Need::FineRtt => "round-trip times in microseconds",
            Need::Feedback => "routers that write into its packets",
        }
    }
}

/// Where a congestion control is what a system uses unless told otherwise.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct DefaultIn {
    /// The system.
    pub system: &'static str,
    /// The first release, and its date: `"2.6.19 (2006-11)"`.
    pub since: &'static str,
    /// The release that chose another, and its date; empty where none has.
    pub until: &'static str,
}

/// One congestion control of a registry.
#[derive(Clone)]
pub struct CcKind {
    /// The kernel's name where it has one.
    pub name: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// The specification it is written from.
    pub source: &'static str,
    /// What moves it.
    pub family: Family,
    /// When it was first published.
    pub year: u16,
    /// What it needs.
    pub needs: &'static [Need],
    /// Where it is or was the default.
    pub default_in: &'static [DefaultIn],
    /// Its parameters.
    pub params: &'static [Param],
    /// Makes one for a flow of `host`.
    pub make: fn(&Params, host: &Host) -> Box<dyn CongestionControl>,
}

impl CcKind {
    /// Does it need this?
    pub fn needs(&self, need: Need) -> bool {
        self.needs.contains(&need)
    }
    /// The signals that it requires of a connection.
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
    /// Does it ask for pacing (`SK_PACING_NEEDED` in Linux)? One that has just been made says so.
    pub fn paced(&self) -> bool {
        (self.make)(&Params::defaults(self.params), &Host::default()).needs_pacing()
    }
}

/// The congestion controls that narrows ships.
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
