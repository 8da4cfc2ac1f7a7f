//! `on_off`: alternately sends at a rate and is silent, for exponentially distributed times, over
//! UDP or on one TCP connection.
//!
//! Algorithm: on-times and off-times are exponential with means `on` and `off`. The source is on
//! for `on / (on + off)` of the time, so in the long run it sends that share of `rate`. A datagram
//! (or a write of as many bytes) is due whenever the total on-time reaches `n · 8 · packet / rate`.
//! Sums of many such sources model cross traffic. Sums of sources with heavy-tailed times would be
//! self-similar (Willinger et al., 1997); sums of these sources are not.
//!
//! Metrics are of payload, after the warm-up. Over TCP, the metrics count the bytes written and the
//! bytes that the client has read.

use super::stream::Stream;
use super::udp::{PACKET, RATE, check, due};
use super::{Action, Event, Setting, Side, Traffic, Workload, WorkloadKind, draw};
use crate::metrics::{Metric, WorkloadMetrics};
use crate::packet::Ecn;
use crate::param::{Kind, Param};
use crate::rng::Rng;
use crate::units::{Rate, Span, Time};
use alloc::boxed::Box;
use alloc::vec::Vec;

const fn mean(name: &'static str, help: &'static str) -> Param {
    Param {
        name,
        kind: Kind::Span(Span::ms(500), Span::ms(1), Span::s(3600)),
        help,
        source: "ns-2's and ns-3's on-off applications",
    }
}

/// Alternating on and off periods.
pub const KIND: WorkloadKind = WorkloadKind {
    name: "on_off",
    help: "alternates between sending at a rate and silence, with exponentially distributed \
        durations, over UDP or TCP",
    source: "exponential on-off sources, as in ns-2 and ns-3",
    params: &[
        RATE,
        PACKET,
        mean("on", "mean duration of a talk period"),
        mean("off", "mean duration of a silent period"),
        Param {
            name: "transport",
            kind: Kind::Word(&["udp", "tcp"]),
            help: "datagrams, or writes on one connection",
            source: "",
        },
    ],
    check,
    cc: "cubic",
    traffic: |params| Traffic {
        udp: params.word("transport") == "udp",
        both_ways: false,
    },
    make: |params, setting| {
        Box::new(OnOff {
            rate: params.rate("rate"),
            packet: params.bytes("packet").get() as u16,
            means: [params.span("on"), params.span("off")],
            udp: params.word("transport") == "udp",
            rng: Rng::named(setting.seed, "on_off"),
            setting,
            on: true,
            turn: Time::ZERO,
            on_since: Time::ZERO,
            on_before: Span::ZERO,
            on_counted: Span::ZERO,
            next: None,
            number: 0,
            stream: Stream::new(setting.from),
            written: 0,
            read: (0, 0),
        })
    },
};

struct OnOff {
    rate: Rate,
    packet: u16,
    /// Means of the on-times and off-times.
    means: [Span; 2],
    udp: bool,
    rng: Rng,
    setting: Setting,
    on: bool,
    /// Time of the next change.
    turn: Time,
    on_since: Time,
    /// Total on-time before this one.
    on_before: Span,
    /// Its part after the warm-up.
    on_counted: Span,
    next: Option<Time>,
    number: u64,
    stream: Stream,
    /// Bytes written over TCP after the warm-up.
    written: u64,
    /// Bytes read over TCP: in total, and before the end of the warm-up.
    read: (u64, u64),
}

/// Its only connection.
const CONN: super::Conn = 0;

impl OnOff {
    fn begin(&mut self, now: Time, on: bool) {
        self.on = on;
        self.on_since = now;
        self.turn = now + draw::exponential(&mut self.rng, self.means[usize::from(!on)]);
    }
    fn counted(&self, now: Time) -> Span {
        if self.on {
            self.on_counted + now.since(self.on_since.max(self.setting.from))
        } else {
            self.on_counted
        }
    }
    /// Due time of the next datagram, if the source stays on.
    fn due(&self) -> Time {
        let on_for = due(self.number + 1, self.packet, self.rate);
        self.on_since + (on_for - self.on_before)
    }
    fn go_on(&mut self, now: Time, todo: &mut Vec<Action>) {
        loop {
            if self.on && self.due() <= now.min(self.turn) {
                self.speak(now, todo);
            } else if self.turn <= now {
                if self.on {
                    self.on_counted = self.counted(self.turn);
                    self.on_before = self.on_before + self.turn.since(self.on_since);
                }
                self.begin(self.turn, !self.on);
            } else {
                break;
            }
        }
        let next = if self.on {
            self.due().min(self.turn)
        } else {
            self.turn
        };
        self.next = Some(next).filter(|at| *at < self.setting.end);
    }
    fn speak(&mut self, now: Time, todo: &mut Vec<Action>) {
        let number = self.number;
        self.number += 1;
        if self.udp {
            self.stream.sent(now, number);
            todo.push(Action::Send {
                from: Side::Server,
                number,
                bytes: self.packet,
                ecn: Ecn::NotEct,
            });
        } else {
            let bytes = u64::from(self.packet);
            self.written += if now >= self.setting.from { bytes } else { 0 };
            todo.push(Action::Write {
                conn: CONN,
                from: Side::Server,
                bytes,
            });
        }
    }
}

impl Workload for OnOff {
    fn on_event(&mut self, now: Time, event: Event, todo: &mut Vec<Action>) {
        match event {
            Event::Started => {
                if !self.udp {
                    todo.push(Action::Open {
                        conn: CONN,
                        by: Side::Server,
                        answers: false,
                    });
                }
                self.begin(now, true);
                self.go_on(now, todo);
            }
            Event::Woke => self.go_on(now, todo),
            Event::Datagram {
                number,
                sent,
                bytes,
                ..
            } => {
                self.stream.received(now, number, sent, bytes);
            }
            Event::Arrived { bytes, .. } => {
                let before = if now < self.setting.from {
                    bytes
                } else {
                    self.read.1
                };
                self.read = (bytes, before);
            }
            _ => {}
        }
    }
    fn next_wakeup(&self) -> Option<Time> {
        self.next
    }
    fn metrics(&self, end: Time) -> WorkloadMetrics {
        let seconds = end.since(self.setting.from).as_s();
        let mut metrics = if self.udp {
            self.stream.metrics(end)
        } else {
            let mbit = |bytes: u64| Metric::Number(bytes as f64 * 8.0 / seconds / 1e6);
            alloc::vec![
                ("written_mbit", mbit(self.written)),
                ("received_mbit", mbit(self.read.0 - self.read.1)),
            ]
        };
        let on = self.counted(self.turn.min(end)).as_s();
        metrics.push(("on_share", Metric::Number(on / seconds)));
        WorkloadMetrics::new(KIND.name, metrics).with_delays(self.stream.delays())
    }
}
