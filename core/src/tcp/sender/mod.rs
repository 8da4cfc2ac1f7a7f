//! The sender of a connection as in Linux 6.12.
//!
//! ```text
//!            SYN-ACK                 something (S)ACKed out of order
//!  SynSent ──────────► Open ◄──────────────────────────────► Disorder
//!                       ▲ │ tail probe repaired a loss, ECE        │ RACK: lost
//!                       │ └────────► Cwr (tail probe: ends at once)▼
//!                       │  high_seq acknowledged, or undone    Recovery   (PRR)
//!                       └───────────────────────────────────────┬─┘
//!                       ▲                                       │ timer
//!                       └──────────────── Loss ◄────────────────┘  (slow start, F-RTO)
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `output` | transmission: window, bursts, deferral |
//! | `input` | handling of an ACK: scoreboard, RTT, window |
//! | `expected` | handling of the most frequent kinds of ACK |
//! | `recovery` | the states above and their undo |
//! | `timers` | retransmission, tail loss probe, reordering, zero window |
//! | `delivery_rate` | delivery-rate samples |
//! | `chrono` | time during which each cause limited the sender |
//! | `pacing` | departure times |
//! | `small_queue` | the limit of data in the host's own queue |
//! | `device_queue` | super-packets for the host's own interface, and their completions |
//! | `send_buffer` | the application's writes and the socket buffer |
//! | `fragment` | limits to splitting super-packets |
//! | `ecn` | negotiation of ECN, and the response to marks |
//! | `dupack` | loss recovery without SACK, by duplicate ACKs |

mod chrono;
mod delivery_rate;
mod device_queue;
mod dupack;
mod ecn;
mod expected;
mod fragment;
mod input;
mod output;
mod pacing;
mod recovery;
mod send_buffer;
mod small_queue;
#[cfg(test)]
mod tests;
mod timers;

use super::flight::Flights;
use super::paws;
use super::prr::Prr;
use super::rack::Rack;
use super::rtt::Rtt;
use super::scoreboard::Scoreboard;
use super::wire::{AckSegment, MAX_SACKS, Range, Segment, SynAcks};
use super::{Config, EcnUse, Info, State, TcpOptions};
use crate::cc::{CongestionControl, INFINITE_SSTHRESH, Start, StateChange, Totals, Window};
use crate::host::Fate;
use crate::kernel::Rule;
use crate::prefetch::{Prefetch, record};
use crate::transport::Jiffies;
use crate::units::{Bytes, MaybeTime, Rate, Span, Time};
use alloc::boxed::Box;
use alloc::sync::Arc;
use chrono::Chrono;
use delivery_rate::Delivered;
pub(super) use ecn::FIRST_ACE;
use output::{Push, WHOLE, emit};
use pacing::Pacer;
use send_buffer::{ENDLESS, SendBuffer};
use small_queue::SmallQueue;

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Phase {
    Closed,
    SynSent,
    Established,
    Stopped,
}

/// The event that the sender's only timer waits for.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum TimerKind {
    Retransmit,
    Probe,
    Reorder,
    /// Zero-window probe: the peer's window is shut and nothing is in flight.
    Persist,
}

/// The tail loss probe in flight (RFC 8985 section 7).
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
struct TailProbe {
    high_seq: u64,
    retransmission: bool,
}

/// The condition for undoing a reduction of the window.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
struct Undo {
    /// `una` at the reduction.
    marker: u64,
    /// Retransmissions that were not yet reported as redundant; `None` before the first.
    retransmissions: Option<u32>,
}

/// Requirements of a congestion control.
#[derive(Copy, Clone, Debug)]
struct Needs {
    owns_recovery: bool,
    needs_samples: bool,
    needs_delivery: bool,
    needs_feedback: bool,
    send_buffer_windows: u8,
}

impl Needs {
    fn of(cc: &dyn CongestionControl) -> Needs {
        Needs {
            owns_recovery: cc.owns_recovery(),
            needs_samples: cc.needs_samples(),
            needs_delivery: cc.needs_delivery(),
            needs_feedback: cc.needs_feedback(),
            send_buffer_windows: cc.send_buffer_windows().min(255) as u8,
        }
    }
}

/// A sender.
pub struct Sender {
    cfg: Arc<Config>,
    ticks: Jiffies,
    phase: Phase,
    cc: Box<dyn CongestionControl>,
    needs: Needs,
    w: Window,
    board: Scoreboard,
    /// Only if the congestion control needs it.
    flights: Option<Box<Flights>>,
    rtt: Rtt,
    rack: Rack,
    prr: Prr,
    state: State,
    peer_window: u64,
    max_window: u64,
    /// The newest timestamp of the peer, echoed in data.
    ts_recent: u32,

    // values at the begin of the recovery episode
    high_seq: u64,
    prior_cwnd: u32,
    prior_ssthresh: Option<u32>,
    undo: Option<Undo>,
    retrans_stamp: Option<u32>,
    frto: bool,
    reordering: u32,
    /// The blocks of the last ACK with SACK: every segment in them is SACKed.
    sacked: [Range; MAX_SACKS],
    /// Some segments in the blocks of the last ACK were ignored for lack of memory.
    spared: bool,
    dsack_dups: u32,
    probe: Option<TailProbe>,
    ecn: ecn::Ecn,

    timer: Option<TimerKind>,
    /// The time when `timer` fires, if it is set.
    fires: Time,
    rto_ticks: u32,
    /// The longest timeout, in ticks.
    longest_ticks: u32,
    /// Consecutive timeouts without progress.
    timeouts: u32,
    /// Consecutive zero-window probes.
    window_probes: u32,
    syn_sent: Time,
    syn_retransmits: u32,
    /// The time when the connection ended, because nothing was acknowledged for too long.
    timed_out: MaybeTime,

    // whether the congestion window is the limit (RFC 7661 as in Linux)
    cwnd_limited: bool,
    max_packets_out: u32,
    cwnd_usage_seq: u64,
    cwnd_used: u32,
    cwnd_stamp: Time,
    /// Time of the last data, for TSO deferral.
    last_sent: MaybeTime,
    /// End of the last segment that was not full.
    short_end: u64,
    pacing: Rate,
    pacer: Pacer,
    /// Maximum number of segments in a super-packet.
    gso_segments: u32,
    /// Only above a device that reports completions.
    small_queue: Option<Box<SmallQueue>>,
    chrono: Chrono,
    send_buffer: SendBuffer,

    delivered: Delivered,
    delivered_ce: u64,
    bytes_sent: u64,
    bytes_retrans: u64,
    retransmits: u64,
}

/// The default degree of reordering, in segments (`tcp_reordering`).
const REORDERING: u32 = 3;

impl Sender {
    /// A sender for a transfer of `size` bytes, or without end. Senders of one kind share `cfg`.
    pub fn new(cfg: Arc<Config>, cc: Box<dyn CongestionControl>, size: Option<Bytes>) -> Sender {
        let ticks = Jiffies::new(cfg.hz);
        let rtt = Rtt::new(cfg.hz).with_min_rto(cfg.rto_min_us);
        let pacer = Pacer::new(&cfg, &*cc);
        let records = cc.needs_flight_record();
        let mut board = Scoreboard::default();
        if records {
            board.watch_losses();
        }
        let gso_segments = cfg.gso.segments(board.options.mss());
        let longest = ticks.from_us(cfg.longest_timeout().as_us());
        Sender {
            ticks,
            phase: Phase::Closed,
            needs: Needs::of(&*cc),
            cc,
            w: Window::new(cfg.iw),
            board,
            flights: records.then(Box::default),
            rto_ticks: rtt.rto_ticks(ticks) as u32,
            longest_ticks: u32::try_from(longest).unwrap_or(u32::MAX),
            rtt,
            rack: Rack::new(cfg.kernel),
            prr: Prr::default(),
            state: State::Open,
            peer_window: 0,
            max_window: 0,
            ts_recent: 0,
            high_seq: 0,
            prior_cwnd: 0,
            prior_ssthresh: None,
            undo: None,
            retrans_stamp: None,
            frto: false,
            reordering: REORDERING,
            sacked: Default::default(),
            spared: false,
            dsack_dups: 0,
            probe: None,
            ecn: ecn::Ecn::new(cfg.ecn),
            timer: None,
            fires: Time::MAX,
            timeouts: 0,
            window_probes: 0,
            syn_sent: Time::ZERO,
            syn_retransmits: 0,
            timed_out: MaybeTime::NONE,
            cwnd_limited: false,
            max_packets_out: 0,
            cwnd_usage_seq: 0,
            cwnd_used: 0,
            cwnd_stamp: Time::ZERO,
            last_sent: MaybeTime::NONE,
            short_end: 0,
            pacing: Rate::bit(u64::MAX),
            pacer,
            gso_segments,
            small_queue: (cfg.device.as_ref())
                .map(|device| Box::new(SmallQueue::new(device, cfg.pacing_shift, cfg.kernel))),
            chrono: Chrono::default(),
            send_buffer: SendBuffer::new(size.map(Bytes::get), &cfg),
            delivered: Delivered::default(),
            delivered_ce: 0,
            bytes_sent: 0,
            bytes_retrans: 0,
            retransmits: 0,
            cfg,
        }
    }

    /// Sends the SYN.
    pub fn connect<R: Into<Fate>>(&mut self, now: Time, wire: &mut impl FnMut(Segment) -> R) {
        self.phase = Phase::SynSent;
        self.syn_sent = now;
        emit(self.syn(now), WHOLE, wire);
        self.arm(now, TimerKind::Retransmit, self.rto_ticks());
    }

    /// Starts a connection that the other end opened: this end sent `syn_acks`, and the ACK of a
    /// SYN-ACK arrives now. `answer` holds the peer's window and timestamps, and its ECN flags in
    /// the form of a SYN-ACK.
    pub fn accept<R: Into<Fate>>(
        &mut self,
        now: Time,
        syn_acks: SynAcks,
        answer: &AckSegment,
        wire: &mut impl FnMut(Segment) -> R,
    ) {
        if self.phase == Phase::Closed {
            self.syn_sent = syn_acks.first;
            self.syn_retransmits = syn_acks.repeats;
            self.ts_recent = answer.tsval;
            self.on_syn_ack(now, answer, syn_acks.timeouts);
            self.fill(now, wire);
            self.persist(now);
        }
    }

    /// Adds `bytes` to a transfer. A connection without end ignores this call.
    pub fn send_more<R: Into<Fate>>(
        &mut self,
        now: Time,
        bytes: Bytes,
        wire: &mut impl FnMut(Segment) -> R,
    ) {
        let size = &mut self.send_buffer.size;
        if *size == ENDLESS {
            return;
        }
        *size = size.saturating_add(bytes.get());
        if self.phase == Phase::Established {
            self.fill(now, wire);
            self.persist(now);
        }
    }

    /// The retransmission timeout, in ticks.
    #[inline]
    fn rto_ticks(&self) -> u64 {
        self.rto_ticks.into()
    }
    /// Takes a retransmission timeout, in ticks.
    #[inline]
    fn take_timeout(&mut self, ticks: u64) {
        self.rto_ticks = ticks.min(self.longest_ticks.into()) as u32;
    }

    /// Returns whether the handshake is complete.
    pub fn is_established(&self) -> bool {
        self.phase == Phase::Established
    }

    /// Handles a packet from the receiver.
    pub fn on_segment<R: Into<Fate>>(
        &mut self,
        now: Time,
        ack: &AckSegment,
        wire: &mut impl FnMut(Segment) -> R,
    ) {
        if paws::is_past(self.ts_recent, ack.tsval) && !self.may_come_late(ack) {
            return;
        }
        self.ecn.newer = ack.tsval > self.ts_recent;
        self.ts_recent = self.ts_recent.max(ack.tsval);
        if self.phase != Phase::Established || ack.syn {
            return self.on_handshake(now, ack, wire);
        }
        let timer_due = self.on_ack(now, ack, wire);
        let sent = self.write_inline(now, Push::All, wire);
        if timer_due && !sent {
            self.set_timer(now);
        }
        self.persist(now);
        self.check_space(now);
    }

    /// Handles a packet of the handshake.
    #[cold]
    fn on_handshake<R: Into<Fate>>(
        &mut self,
        now: Time,
        ack: &AckSegment,
        wire: &mut impl FnMut(Segment) -> R,
    ) {
        match self.phase {
            Phase::SynSent if ack.syn => {
                self.on_syn_ack(now, ack, self.syn_retransmits);
                emit(self.pure_ack(now), WHOLE, wire);
                self.fill(now, wire);
                self.persist(now);
            }
            // The ACK that ended the handshake was lost: repeat it.
            Phase::Established => {
                emit(self.pure_ack(now), WHOLE, wire);
            }
            _ => {}
        }
    }

    /// Handles the time that `next_wakeup` returned (an early call has no effect).
    pub fn on_timer<R: Into<Fate>>(&mut self, now: Time, wire: &mut impl FnMut(Segment) -> R) {
        self.wake_writer(now, wire);
        if self.pacer.fired(now) {
            self.go_on(now, wire);
        }
        let Some(timer) = self.timer.filter(|_| self.fires <= now) else {
            return;
        };
        // Probe and reordering timers stay pending while they are handled: a rearmed timer
        // subtracts the time that has passed.
        match timer {
            TimerKind::Reorder => self.on_reorder_timer(now, wire),
            TimerKind::Probe => self.on_probe_timer(now, wire),
            TimerKind::Persist => self.on_persist_timer(now, wire),
            TimerKind::Retransmit => {
                self.timer = None;
                self.on_retransmit_timer(now, wire);
            }
        }
        debug_assert!(
            self.timer.is_none() || self.fires > now,
            "a timer must move when it has fired"
        );
    }

    /// Returns when `on_timer` must be called.
    #[inline]
    pub fn next_wakeup(&self) -> Option<Time> {
        let timer = self.timer.map_or(Time::MAX, |_| self.fires);
        let due = timer.min(self.send_buffer.woken.or_max());
        MaybeTime::at(due.min(self.pacer.due)).get()
    }

    /// The application pauses: its data still leaves, and it writes no more until
    /// [`resume`](Self::resume).
    pub fn pause(&mut self) {
        self.send_buffer.silent = true;
    }

    /// The application resumes writing.
    pub fn resume<R: Into<Fate>>(&mut self, now: Time, wire: &mut impl FnMut(Segment) -> R) {
        self.send_buffer.silent = false;
        if self.phase == Phase::Established {
            self.fill(now, wire);
            self.persist(now);
        }
    }

    /// Replaces the congestion control by the one that `wrap` returns for it. Call this before the
    /// connection starts.
    pub fn wrap_cc(
        &mut self,
        wrap: impl FnOnce(Box<dyn CongestionControl>) -> Box<dyn CongestionControl>,
    ) {
        self.cc = wrap(self.cc.fork());
    }

    /// Sets the window (in packets) and the pacing rate from outside, and sends the data that they
    /// permit. The new congestion control may require other signals than the old one.
    pub fn steer<R: Into<Fate>>(
        &mut self,
        now: Time,
        cwnd: u32,
        pacing: Option<Rate>,
        wire: &mut impl FnMut(Segment) -> R,
    ) {
        self.w.cwnd = cwnd.min(self.w.clamp);
        self.w.pacing = pacing;
        self.needs = Needs::of(&*self.cc);
        self.pacer.ask(&self.cfg, &*self.cc);
        self.take_pacing();
        if self.phase == Phase::Established {
            self.fill(now, wire);
            self.persist(now);
        }
    }

    /// The application ends: nothing is sent any more.
    pub fn stop(&mut self) {
        self.phase = Phase::Stopped;
        self.send_buffer.woken = MaybeTime::NONE;
        self.pacer.due = Time::MAX;
        self.timer = None;
    }

    /// The time when the connection ended, because nothing was acknowledged for too long (Linux:
    /// `ETIMEDOUT`).
    pub fn timed_out(&self) -> Option<Time> {
        self.timed_out.get()
    }

    /// Returns whether every byte of the transfer is acknowledged.
    pub fn finished(&self) -> bool {
        self.board.una() >= self.send_buffer.size
    }

    /// The offset of the first byte that the application would write now; `None` if this byte would
    /// not leave at once.
    pub fn would_send(&self) -> Option<u64> {
        let at_once = self.is_established()
            && self.send_buffer.is_empty()
            && self.board.in_flight() < self.w.cwnd;
        at_once.then(|| self.board.nxt())
    }

    /// The offset of the first byte that was not sent (Linux: `snd_nxt`).
    pub fn nxt(&self) -> u64 {
        self.board.nxt()
    }

    /// Number of packets in flight that count as lost (Linux: `lost_out`).
    pub fn lost(&self) -> u32 {
        self.board.lost_out()
    }

    /// The options of the segments that this end sends.
    pub fn options(&self) -> TcpOptions {
        self.board.options
    }

    /// The kind of ECN that both ends agreed on.
    pub fn agreed(&self) -> EcnUse {
        self.ecn.agreed()
    }

    /// The values of TCP_INFO.
    pub fn info(&self) -> Info {
        let (delivery_rate, delivery_rate_app_limited) =
            self.delivered.shown(self.board.options.mss());
        Info {
            bytes_acked: self.board.una(),
            bytes_sacked: u64::from(self.board.sacked_out()) * self.full(),
            bytes_sent: self.bytes_sent,
            bytes_retrans: self.bytes_retrans,
            retransmits: self.retransmits,
            cwnd: self.w.cwnd,
            ssthresh: (self.w.ssthresh < INFINITE_SSTHRESH).then_some(self.w.ssthresh),
            in_flight: self.board.in_flight(),
            srtt: Span::us(self.rtt.srtt_us()),
            rtt: Span::us(self.rtt.latest_us),
            min_rtt: Span::us(self.rtt.min_us().unwrap_or(0)),
            pacing: self.pacing,
            delivery_rate,
            delivery_rate_app_limited,
            state: self.state,
            in_slow_start: self.cc.in_slow_start(&self.w),
            peer_window: self.peer_window,
            delivered: self.delivered.packets,
            delivered_ce: self.delivered_ce,
        }
    }

    /// The congestion control, for traces.
    pub fn cc(&self) -> &dyn CongestionControl {
        &*self.cc
    }

    /// The state of recovery becomes `to`.
    fn set_state(&mut self, now: Time, to: State) {
        let mut ev = StateChange::at(now);
        (ev.from, ev.to) = (self.state, to);
        ev.nxt = self.board.nxt();
        self.cc.on_state(&mut self.w, &ev);
        self.state = to;
    }

    /// Counters of the connection for congestion controls.
    fn totals(&self) -> Totals {
        self.delivered.totals(self.board.lost_total())
    }

    fn syn(&self, now: Time) -> Segment {
        let mut syn = Segment {
            syn: true,
            tsval: stamp(now),
            ..Segment::default()
        };
        self.ecn.mark_syn(&self.cfg, self.syn_retransmits, &mut syn);
        syn
    }
    fn pure_ack(&self, now: Time) -> Segment {
        Segment {
            seq: self.board.nxt(),
            tsval: stamp(now),
            tsecr: self.ts_recent,
            ecn: self.ecn.control,
            options: self.board.options,
            ..Segment::default()
        }
    }

    /// Ends the handshake. `timeouts`: the number of SYNs or SYN-ACKs that a timer sent.
    fn on_syn_ack(&mut self, now: Time, ack: &AckSegment, timeouts: u32) {
        self.phase = Phase::Established;
        self.timer = None;
        // Karn's rule: only the timestamp measures the round trip of a retransmitted SYN, in whole
        // milliseconds.
        let us = if self.syn_retransmits == 0 {
            self.cfg
                .clock
                .since(now.as_us(), self.syn_sent.as_us(), self.cfg.hz)
        } else {
            u64::from(stamp(now).saturating_sub(ack.tsecr).max(1)) * 1000
        };
        let measured = self.syn_retransmits == 0 || self.cfg.timestamps;
        if measured {
            self.rtt.sample_min(us, self.ticks.at(now));
            self.rtt.sample(us, 0, 0);
            self.take_timeout(self.rtt.rto_ticks(self.ticks));
        }
        self.timeouts = 0;
        self.peer_window = ack.window;
        self.max_window = ack.window;
        self.ecn.on_syn_ack(ack);
        self.board.options = self.ecn.options(&self.cfg);
        self.gso_segments = self.cfg.gso.segments(self.board.options.mss());
        // After two lost SYNs the initial window is one packet (Linux's rule, after RFC 6298
        // section 5.7). An echo of the first timestamp shows that the first SYN was not lost.
        let spurious = timeouts == 0 || self.cfg.timestamps && ack.tsecr == stamp(self.syn_sent);
        let undone = spurious && self.cfg.kernel.follows(Rule::SpuriousSynTimeout);
        self.w = Window::new(if self.syn_retransmits > 1 && !undone {
            1
        } else {
            self.cfg.iw
        });
        self.send_buffer.expand(
            &self.cfg,
            self.needs.send_buffer_windows.into(),
            self.w.cwnd,
        );
        self.cwnd_stamp = now;
        self.delivered.packets = 1;
        self.update_pacing();
        let mut ev = Start::at(now);
        ev.srtt = Span::us(self.rtt.srtt_us());
        ev.min_rtt = Span::us(if measured { us } else { 0 });
        ev.totals = self.totals();
        ev.ecn = self.ecn.as_asked();
        self.cc.on_start(&mut self.w, &ev);
        // Without its requirements met, the congestion control may change.
        self.needs = Needs::of(&*self.cc);
        self.pacer.ask(&self.cfg, &*self.cc);
        self.take_pacing();
    }
}

/// The timestamp clock: milliseconds.
pub(super) fn stamp(now: Time) -> u32 {
    (now.as_us() / 1000) as u32
}

impl Prefetch for Sender {
    type Event = AckSegment;
    /// The congestion control; the segments at both ends of the flight and the next two; the first
    /// lost segment; the segment that `ack` newly SACKs.
    #[inline]
    fn prefetch(&self, ack: Option<&AckSegment>, mut load: impl FnMut(*const u8, usize)) {
        record(&*self.cc, &mut load);
        self.board.prefetch(&mut load);
        let newest = ack.and_then(|ack| ack.sacks.first().filter(|_| ack.n_sacks > 0));
        if let Some(block) = newest {
            self.board
                .prefetch_segment(block.end.saturating_sub(1), &mut load);
        }
    }
}
