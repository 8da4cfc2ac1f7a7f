//! `partition`: a query is divided among workers (partition and aggregate). The client requests a
//! part from every worker at once and waits for all of them before the next query.
//!
//! Algorithm: one persistent connection for each worker, opened by the client. A query writes
//! `request` bytes on each; a worker responds with `answer` bytes; after the last byte of the last
//! response, the client waits `think`. The responses arrive together, so their first windows may
//! exceed the buffer (incast: Phanishayee et al., FAST 2008; Vasudevan et al., SIGCOMM 2009). The
//! loss of the end of one response delays the whole query by a retransmission timeout.
//!
//! The completion time of a query is from its first request until its last response is read. The
//! metrics cover queries that begin after the warm-up.

use super::{Action, Conn, Event, Setting, Side, Workload, WorkloadKind, tcp};
use crate::metrics::{Histogram, Metric, WorkloadMetrics};
use crate::param::{Kind, Param, no_check};
use crate::units::{Bytes, Span, Time};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Queries to many workers.
pub const KIND: WorkloadKind = WorkloadKind {
    name: "partition",
    help: "queries that many workers answer at once, each query after the last response to the one \
        before (incast)",
    source: "Phanishayee et al., FAST 2008: synchronised reads",
    params: &[
        Param {
            name: "workers",
            kind: Kind::Count(16, 1, 10_000),
            help: "number of workers, each with a persistent connection",
            source: "",
        },
        Param {
            name: "request",
            kind: Kind::Bytes(Bytes::new(100), Bytes::new(1), Bytes::new(1_000_000_000)),
            help: "size of a request to one worker",
            source: "",
        },
        Param {
            name: "answer",
            kind: Kind::Bytes(Bytes::new(64_000), Bytes::new(1), Bytes::new(1_000_000_000)),
            help: "size of the response of one worker",
            source: "",
        },
        Param {
            name: "think",
            kind: Kind::Span(Span::ZERO, Span::ZERO, Span::s(3600)),
            help: "time from the last response to the next query",
            source: "",
        },
    ],
    check: no_check,
    cc: "cubic",
    traffic: tcp,
    make: |params, setting| {
        let workers = params.count("workers") as usize;
        Box::new(Partition {
            request: params.bytes("request").get(),
            answer: params.bytes("answer").get(),
            think: params.span("think"),
            setting,
            heard: alloc::vec![0; workers],
            opened: 0,
            queries: 0,
            missing: 0,
            sent_at: Time::ZERO,
            next: None,
            counted: 0,
            completed: 0,
            times: Histogram::new(),
        })
    },
};

struct Partition {
    request: u64,
    answer: u64,
    think: Span,
    setting: Setting,
    /// Queries that have reached each worker.
    heard: Vec<u64>,
    opened: usize,
    /// Queries so far.
    queries: u64,
    /// Responses that are not complete.
    missing: usize,
    /// Time of the last query.
    sent_at: Time,
    /// Time of the next one.
    next: Option<Time>,
    /// Queries after the warm-up, and completed ones of them.
    counted: u64,
    completed: u64,
    times: Histogram,
}

impl Partition {
    fn send_query(&mut self, now: Time, todo: &mut Vec<Action>) {
        (self.next, self.sent_at) = (None, now);
        self.queries += 1;
        self.missing = self.heard.len();
        self.counted += u64::from(now >= self.setting.from);
        todo.extend((0..self.heard.len() as Conn).map(|conn| Action::Write {
            conn,
            from: Side::Client,
            bytes: self.request,
        }));
    }
    fn on_response(&mut self, now: Time, todo: &mut Vec<Action>) {
        self.missing -= 1;
        if self.missing > 0 {
            return;
        }
        if self.sent_at >= self.setting.from {
            self.completed += 1;
            self.times.record(now.since(self.sent_at));
        }
        if self.think == Span::ZERO {
            self.send_query(now, todo);
        } else {
            self.next = Some(now + self.think);
        }
    }
}

impl Workload for Partition {
    fn on_event(&mut self, now: Time, event: Event, todo: &mut Vec<Action>) {
        match event {
            Event::Started => todo.extend((0..self.heard.len() as Conn).map(|conn| Action::Open {
                conn,
                by: Side::Client,
                answers: true,
            })),
            Event::Opened(_) => {
                // The first query waits for all handshakes.
                self.opened += 1;
                if self.opened == self.heard.len() {
                    self.send_query(now, todo);
                }
            }
            Event::Woke if self.next.is_some_and(|at| at <= now) => self.send_query(now, todo),
            Event::Arrived { conn, at, bytes } => match at {
                Side::Server => {
                    let heard = &mut self.heard[conn as usize];
                    if bytes == self.queries * self.request && *heard < self.queries {
                        *heard = self.queries;
                        todo.push(Action::Write {
                            conn,
                            from: Side::Server,
                            bytes: self.answer,
                        });
                    }
                }
                Side::Client if bytes == self.queries * self.answer => self.on_response(now, todo),
                Side::Client => {}
            },
            _ => {}
        }
    }
    fn next_wakeup(&self) -> Option<Time> {
        self.next
    }
    fn metrics(&self, end: Time) -> WorkloadMetrics {
        let seconds = end.since(self.setting.from).as_s();
        let bytes = self.completed * self.answer * self.heard.len() as u64;
        let metrics = alloc::vec![
            ("asked", Metric::Count(self.counted)),
            ("completed", Metric::Count(self.completed)),
            (
                "answered_mbit",
                Metric::Number(bytes as f64 * 8e-6 / seconds)
            ),
            ("completion_ms", Metric::Quantiles(self.times.quantiles())),
        ];
        WorkloadMetrics::new(KIND.name, metrics).with_delays(&self.times)
    }
}
