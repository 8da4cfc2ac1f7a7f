//! `rpc`: requests and responses on persistent connections; each next request follows a pause after
//! the last response.
//!
//! Algorithm: every connection is opened by the client. The cycle of a connection is request,
//! `service` at the server, response, `think` at the client. The response time is measured from the
//! write of the request until the last byte of the response is read. On an empty path, the response
//! time is the sum of the round trip, `service` and the transmission time. Each round of slow start
//! of a long response adds a round trip. The metrics cover requests made after the warm-up.
//!
//! The workload is a closed loop: a waiting client makes no request. A slow path therefore both
//! lowers the number of requests and raises their response time.

use super::{Action, Conn, Event, Setting, Side, Workload, WorkloadKind, tcp};
use crate::metrics::{Histogram, Metric, WorkloadMetrics};
use crate::param::{Kind, Param, no_check};
use crate::units::{Bytes, Span, Time};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// Requests and responses.
pub const KIND: WorkloadKind = WorkloadKind {
    name: "rpc",
    help: "requests and responses on persistent connections, in a closed loop",
    source: "netperf's TCP_RR, with bytes and pauses to choose",
    params: &[
        Param {
            name: "request",
            kind: Kind::Bytes(Bytes::new(100), Bytes::new(1), Bytes::new(1_000_000_000)),
            help: "size of a request",
            source: "",
        },
        Param {
            name: "answer",
            kind: Kind::Bytes(Bytes::new(1000), Bytes::new(1), Bytes::new(1_000_000_000)),
            help: "size of a response",
            source: "",
        },
        Param {
            name: "think",
            kind: Kind::Span(Span::ms(10), Span::ZERO, Span::s(3600)),
            help: "time from a response to the next request",
            source: "",
        },
        Param {
            name: "service",
            kind: Kind::Span(Span::ZERO, Span::ZERO, Span::s(3600)),
            help: "processing time of the server",
            source: "",
        },
        Param {
            name: "connections",
            kind: Kind::Count(1, 1, 10_000),
            help: "number of parallel connections",
            source: "",
        },
    ],
    check: no_check,
    cc: "cubic",
    traffic: tcp,
    make: |params, setting| {
        let n = params.count("connections") as usize;
        Box::new(Rpc {
            request: params.bytes("request").get(),
            answer: params.bytes("answer").get(),
            think: params.span("think"),
            service: params.span("service"),
            setting,
            links: alloc::vec![Link::default(); n],
            due: BTreeSet::new(),
            asked: 0,
            answered: 0,
            times: Histogram::new(),
        })
    },
};

#[derive(Copy, Clone, Debug, Default)]
struct Link {
    /// Time of the last request.
    asked: Time,
    /// Requests so far, and those that have reached the server.
    requests: u64,
    heard: u64,
}

struct Rpc {
    request: u64,
    answer: u64,
    think: Span,
    service: Span,
    setting: Setting,
    links: Vec<Link>,
    /// Time of each side's next write on a connection.
    due: BTreeSet<(Time, Conn, bool)>,
    asked: u64,
    answered: u64,
    times: Histogram,
}

impl Rpc {
    fn open(conn: Conn, todo: &mut Vec<Action>) {
        todo.push(Action::Open {
            conn,
            by: Side::Client,
            answers: true,
        });
    }
    /// The server (or the client) writes on a connection after `pause`.
    fn later(&mut self, now: Time, pause: Span, conn: Conn, server: bool, todo: &mut Vec<Action>) {
        if pause == Span::ZERO {
            self.speak(now, conn, server, todo);
        } else {
            self.due.insert((now + pause, conn, server));
        }
    }
    fn speak(&mut self, now: Time, conn: Conn, server: bool, todo: &mut Vec<Action>) {
        let (from, bytes) = if server {
            (Side::Server, self.answer)
        } else {
            let link = &mut self.links[conn as usize];
            link.asked = now;
            link.requests += 1;
            self.asked += u64::from(now >= self.setting.from);
            (Side::Client, self.request)
        };
        todo.push(Action::Write { conn, from, bytes });
    }
    fn arrived(&mut self, now: Time, conn: Conn, at: Side, bytes: u64, todo: &mut Vec<Action>) {
        let link = &mut self.links[conn as usize];
        match at {
            Side::Server if bytes == link.requests * self.request && link.heard < link.requests => {
                link.heard = link.requests;
                self.later(now, self.service, conn, true, todo);
            }
            Side::Client if bytes == link.requests * self.answer => {
                let asked = link.asked;
                if asked >= self.setting.from {
                    self.answered += 1;
                    self.times.record(now.since(asked));
                }
                self.later(now, self.think, conn, false, todo);
            }
            _ => {}
        }
    }
}

impl Workload for Rpc {
    fn on_event(&mut self, now: Time, event: Event, todo: &mut Vec<Action>) {
        match event {
            Event::Started => (0..self.links.len() as Conn).for_each(|conn| Rpc::open(conn, todo)),
            Event::Woke => {
                while let Some(&next) = self.due.first().filter(|(at, ..)| *at <= now) {
                    self.due.remove(&next);
                    self.speak(now, next.1, next.2, todo);
                }
            }
            Event::Opened(conn) => self.speak(now, conn, false, todo),
            Event::Arrived { conn, at, bytes } => self.arrived(now, conn, at, bytes, todo),
            _ => {}
        }
    }
    fn next_wakeup(&self) -> Option<Time> {
        self.due.first().map(|(at, ..)| *at)
    }
    fn metrics(&self, end: Time) -> WorkloadMetrics {
        let seconds = end.since(self.setting.from).as_s();
        let metrics = alloc::vec![
            ("asked", Metric::Count(self.asked)),
            ("answered", Metric::Count(self.answered)),
            (
                "answers_per_s",
                Metric::Number(self.answered as f64 / seconds)
            ),
            ("response_ms", Metric::Quantiles(self.times.quantiles())),
        ];
        WorkloadMetrics::new(KIND.name, metrics).with_delays(&self.times)
    }
}
