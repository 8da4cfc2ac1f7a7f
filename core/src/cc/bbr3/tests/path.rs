//! A model of a path for tests: a bottleneck with a buffer, and a flow of full packets with one ACK
//! for each packet. It can bring the congestion control into every phase.

use crate::cc::bbr::UNIT;
use crate::cc::bbr::bandwidth::Bw;
use crate::cc::bbr3::version::{Version, params};
use crate::cc::bbr3::{Bbr3, Mode};
use crate::cc::{
    Ack, CongestionControl, Delivery, FlightSample, Host, Loss, LostPacket, RateSample, Sent,
    SpuriousLoss, Start, StateChange, Totals, Window,
};
use crate::param::Params;
use crate::transport::{MSS, State};
use crate::units::{Rate, Span, Time};
use alloc::collections::VecDeque;

struct Packet {
    number: u64,
    sent: u64,
    delivered: u64,
    delivered_at: u64,
    first_sent: u64,
    in_flight: u32,
    lost: u64,
    app_limited: bool,
    /// The arrival time of the ACK; `None` if the packet was dropped.
    acked_at: Option<u64>,
}

/// A path and its flow. Times are in ns.
pub(in crate::cc) struct Path {
    pub cc: Bbr3,
    pub w: Window,
    pub now: u64,
    /// Transmission time of a packet.
    pub packet_ns: u64,
    pub rtt_ns: u64,
    /// Buffer, in packets.
    pub buffer: u64,
    /// Maximum number of packets in flight, which the application limits; `None` for no limit.
    pub supply: Option<u32>,
    /// Returns whether the packet with this number is dropped, regardless of the queue.
    pub drops: fn(u64) -> bool,
    /// Tokens of a policer, the size of its bucket, and ns per token.
    pub policer: Option<(f64, f64, f64)>,
    free_at: u64,
    next_send: u64,
    sent: VecDeque<Packet>,
    pub number: u64,
    pub delivered: u64,
    delivered_at: u64,
    first_sent: u64,
    pub lost: u64,
    recover_to: Option<u64>,
    limited: bool,
    app_limited_to: u64,
    /// The phases in the order of entry, each with the time of its entry in s.
    pub phases: alloc::vec::Vec<(f64, Mode)>,
}

impl Path {
    /// A path of `mbit` Mbit/s of payload, an RTT of `ms` and a buffer of `buffer` packets. The
    /// flow has the default parameters of `version`.
    pub fn new(version: Version, mbit: f64, ms: u64, buffer: u64) -> Path {
        let table = params(&version);
        Path::with(
            Bbr3::of(version, &Params::defaults(&table), &Host::default()),
            mbit,
            ms,
            buffer,
        )
    }
    pub fn with(mut cc: Bbr3, mbit: f64, ms: u64, buffer: u64) -> Path {
        let mut w = Window::new(10);
        let now = Time::ZERO + Span::ms(ms);
        let mut ev = Start::at(now);
        (ev.srtt, ev.min_rtt) = (Span::ms(ms), Span::ms(ms));
        cc.on_start(&mut w, &ev);
        let mut path = Path {
            cc,
            w,
            now: now.as_ns(),
            packet_ns: 0,
            rtt_ns: ms * 1_000_000,
            buffer,
            supply: None,
            drops: |_| false,
            policer: None,
            free_at: 0,
            next_send: 0,
            sent: VecDeque::new(),
            number: 0,
            delivered: 0,
            delivered_at: 0,
            first_sent: 0,
            lost: 0,
            recover_to: None,
            limited: false,
            app_limited_to: 0,
            phases: alloc::vec![(0.0, Mode::Startup)],
        };
        path.set_rate(mbit);
        path
    }
    pub fn set_rate(&mut self, mbit: f64) {
        self.packet_ns = (f64::from(MSS) * 8e3 / mbit) as u64;
    }
    /// The rate of the bottleneck, in packets per second.
    pub fn rate(&self) -> f64 {
        1e9 / self.packet_ns as f64
    }
    /// The bandwidth-delay product, in packets.
    pub fn bdp(&self) -> f64 {
        self.rtt_ns as f64 / self.packet_ns as f64
    }
    pub fn mode(&self) -> Mode {
        self.cc.mode
    }
    /// The long-term bound of data in flight.
    pub fn bound(&self) -> u64 {
        self.cc.long.inflight
    }
    /// The target of packets in flight for one bandwidth-delay product.
    pub fn product(&self) -> u64 {
        self.cc.inflight(self.cc.max_bw.get(), UNIT)
    }
    /// Number of round trips, up to 20, for which Drain lasts if more packets than the target stay
    /// in flight.
    pub fn drains_for(&mut self) -> u64 {
        self.reach(Mode::Drain);
        let mut ack = Ack::at(Time::from_ns(self.now));
        ack.in_flight = 1000;
        let since = self.cc.rounds.count;
        while self.cc.mode == Mode::Drain && self.cc.rounds.count < since + 20 {
            self.cc.rounds.count += 1;
            self.cc.judge_drain(&ack, &Delivery::default());
        }
        (self.cc.rounds.count - since).into()
    }
    /// Returns whether the pipe counts as full after round trips with these pairs of rates: that of
    /// the latest sample, and the maximum so far.
    pub fn is_full_after(&mut self, rounds: &[(u64, u64)]) -> bool {
        for (latest, greatest) in rounds {
            let sample = RateSample {
                prior_delivered: 0,
                delivered: 1,
                interval: Span::s(1),
                app_limited: false,
            };
            self.cc.rounds.start = true;
            self.cc.max_bw.take(Bw(*greatest));
            self.cc.judge_pipe(&sample, Bw(*latest));
        }
        self.cc.startup.full
    }
    /// Returns whether Startup ends with a round trip of recovery in which a tenth of the packets
    /// was lost. `acks` ACKs report the losses, which are in `ranges` separate ranges of bytes.
    pub fn startup_ends_with(&mut self, acks: u64, ranges: u64) -> bool {
        (self.cc.startup.acks, self.cc.startup.ranges) = (acks, ranges);
        self.cc.latest.over = true;
        let mut ack = Ack::at(Time::from_ns(self.now));
        ack.state = State::Recovery;
        let d = Delivery {
            flight: Some(FlightSample {
                in_flight: 100,
                lost: 10,
                ..Default::default()
            }),
            ..Delivery::default()
        };
        self.cc.judge_startup(&mut self.w, &ack, &d);
        self.cc.mode == Mode::Drain
    }
    /// The bound if losses end Startup after `latest` packets were delivered in a round trip.
    pub fn bound_after_startup(&mut self, latest: u64) -> u64 {
        self.cc.latest.inflight = latest;
        self.cc.leave_startup();
        self.cc.long.inflight
    }
    /// The bound after an ACK which shows that `lost` of a probe's `in_flight` packets were lost,
    /// none of them of the probe.
    pub fn bound_after_ack(&mut self, in_flight: u32, lost: u64) -> u64 {
        self.reach(Mode::Up);
        let d = Delivery {
            flight: Some(FlightSample {
                in_flight,
                lost,
                ..Default::default()
            }),
            ..Delivery::default()
        };
        self.cc
            .adapt_long(&self.w, &d, 1, Time::from_ns(self.now), false);
        self.cc.long.inflight
    }
    /// Reports to the congestion control that all losses so far were spurious.
    pub fn undo(&mut self) {
        let mut ev = SpuriousLoss::at(Time::from_ns(self.now));
        ev.totals = self.totals();
        self.cc.on_spurious_loss(&mut self.w, &ev);
    }
    pub fn in_flight(&self) -> u32 {
        self.sent.len() as u32
    }

    /// Runs until `done` returns true after an ACK, for at most `s` seconds. Returns whether it
    /// returned true.
    pub fn until(&mut self, s: f64, done: impl Fn(&Path) -> bool) -> bool {
        let end = self.now + (s * 1e9) as u64;
        while self.now < end {
            let acked = self.step(end);
            if acked && done(self) {
                return true;
            }
        }
        false
    }
    pub fn run(&mut self, s: f64) {
        self.until(s, |_| false);
    }
    /// Runs until the flow enters `mode`, if it is in another mode.
    pub fn reach(&mut self, mode: Mode) {
        let at = self.phases.len();
        let entered = |p: &Path| p.phases[at..].iter().any(|(_, m)| *m == mode);
        assert!(
            self.cc.mode == mode || self.until(30.0, entered),
            "{mode:?} {:?}",
            self.phases
        );
    }
    fn note_phase(&mut self) {
        if self
            .phases
            .last()
            .is_none_or(|(_, mode)| *mode != self.cc.mode)
        {
            self.phases.push((self.now as f64 / 1e9, self.cc.mode));
        }
    }

    fn totals(&self) -> Totals {
        Totals {
            delivered: self.delivered,
            delivered_at: Time::from_ns(self.delivered_at),
            lost: self.lost,
        }
    }

    /// Handles the next packet or ACK; returns whether it was an ACK.
    fn step(&mut self, end: u64) -> bool {
        let supplied = self.supply.is_none_or(|most| self.in_flight() < most);
        let room = self.in_flight() < self.w.cwnd;
        self.limited |= !room;
        if room && !supplied {
            self.app_limited_to = (self.delivered + u64::from(self.in_flight())).max(1);
            self.limited = false;
        }
        let send = (room && supplied).then(|| self.next_send.max(self.now));
        let ack = self.sent.iter().find_map(|p| p.acked_at);
        match (send, ack) {
            (Some(send), ack) if ack.is_none_or(|ack| send < ack) => self.send(send),
            (_, Some(ack)) => {
                self.take_ack(ack);
                return true;
            }
            _ => {
                // All packets in flight were dropped, or there is nothing to send.
                self.sent.clear();
                self.now = if self.supply == Some(0) {
                    end
                } else {
                    self.now + self.rtt_ns
                };
            }
        }
        false
    }

    fn send(&mut self, now: u64) {
        self.now = now;
        if self.sent.is_empty() {
            let mut ev = Sent::at(Time::from_ns(now));
            ev.app_limited = self.app_limited_to > 0;
            ev.totals = self.totals();
            self.cc.on_sent(&mut self.w, &ev);
            (self.first_sent, self.delivered_at) = (now, now);
        }
        let pacing = self.w.pacing.map_or(u64::MAX, Rate::as_bit).max(1);
        self.next_send = now + u64::from(MSS) * 8_000_000_000 / pacing;
        let mut dropped = (self.drops)(self.number);
        if let Some((tokens, most, ns)) = &mut self.policer {
            // Tokens accumulate with time; `first_sent` of the flight serves as the clock.
            *tokens = (*tokens + (self.next_send - now) as f64 / *ns).min(*most);
            dropped |= *tokens < 1.0;
            *tokens -= if dropped { 0.0 } else { 1.0 };
        }
        dropped |= self.free_at.saturating_sub(now) > self.buffer * self.packet_ns;
        let acked_at = (!dropped).then(|| {
            self.free_at = self.free_at.max(now) + self.packet_ns;
            self.free_at + self.rtt_ns
        });
        self.sent.push_back(Packet {
            number: self.number,
            sent: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            in_flight: self.in_flight() + 1,
            lost: self.lost,
            app_limited: self.app_limited_to > 0,
            acked_at,
        });
        self.number += 1;
        self.limited = self.in_flight() >= self.w.cwnd;
    }

    fn take_ack(&mut self, now: u64) {
        self.now = now;
        let at = Time::from_ns(now);
        let prior_in_flight = self.in_flight();
        self.delivered += 1;
        self.delivered_at = now;
        let lost_before = self.lost;
        while self.sent.front().is_some_and(|p| p.acked_at.is_none()) {
            let Some(gone) = self.sent.pop_front() else {
                break;
            };
            self.lost += 1;
            let mut ev = LostPacket::at(at);
            (ev.seq, ev.end) = (
                gone.number * u64::from(MSS),
                (gone.number + 1) * u64::from(MSS),
            );
            (ev.in_flight, ev.app_limited) = (gone.in_flight, gone.app_limited);
            ev.lost = self.lost - gone.lost;
            ev.totals = self.totals();
            self.cc.on_packet_lost(&mut self.w, &ev);
            self.note_phase();
        }
        let Some(packet) = self.sent.pop_front() else {
            return;
        };
        let change = |cc: &mut Bbr3, w: &mut Window, from, to| {
            let mut ev = StateChange::at(at);
            (ev.from, ev.to) = (from, to);
            cc.on_state(w, &ev);
        };
        if self.recover_to.is_some_and(|to| packet.number >= to) {
            self.recover_to = None;
            change(&mut self.cc, &mut self.w, State::Recovery, State::Open);
        }
        if self.lost > lost_before && self.recover_to.is_none() {
            // Retransmitted packets must be acknowledged, too.
            self.recover_to = Some(self.number + u64::from(prior_in_flight));
            self.cc.on_loss(&mut self.w, &Loss::at(at));
            change(&mut self.cc, &mut self.w, State::Open, State::Recovery);
        }
        self.first_sent = packet.sent;
        let interval = (packet.sent - packet.first_sent).max(now - packet.delivered_at);
        let delivered = self.delivered - packet.delivered;
        let delivery = Delivery {
            sample: (interval >= self.rtt_ns).then_some(RateSample {
                prior_delivered: packet.delivered,
                delivered,
                interval: Span::ns(interval),
                app_limited: packet.app_limited,
            }),
            rtt: Some(Span::ns(now - packet.sent)),
            maybe_delayed: false,
            prior_in_flight,
            next_departure: Time::from_ns(self.next_send),
            totals: self.totals(),
            flight: Some(FlightSample {
                in_flight: packet.in_flight,
                delivered,
                delivered_ce: 0,
                lost: self.lost - packet.lost,
                cwnd_limited: self.limited,
            }),
        };
        let mut ev = Ack::at(at);
        ev.delivered = 1;
        ev.lost = (self.lost - lost_before) as u32;
        ev.in_flight = self.in_flight();
        ev.state = if self.recover_to.is_some() {
            State::Recovery
        } else {
            State::Open
        };
        ev.delivery = Some(delivery);
        self.cc.on_ack(&mut self.w, &ev);
        self.note_phase();
        if self.w.app_limited {
            self.w.app_limited = false;
            self.app_limited_to = (self.delivered + u64::from(self.in_flight())).max(1);
        }
        if self.app_limited_to > 0 && self.delivered > self.app_limited_to {
            self.app_limited_to = 0;
        }
    }
}
