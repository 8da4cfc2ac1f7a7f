//! `torrent`: many peers in both directions, each with unlimited data.
//!
//! Algorithm: `down` connections from the server and `up` connections from the client are opened
//! successively over `ramp`, as when joining a swarm. Each connection has unlimited data. With
//! LEDBAT the connections should yield to all other flows, with CUBIC each connection takes a
//! share. The metrics cover payload that arrives after the warm-up.

use super::{Action, Conn, Event, Setting, Side, Traffic, Workload, WorkloadKind};
use crate::metrics::{Metric, WorkloadMetrics};
use crate::param::{Kind, Param, Params, Refusal};
use crate::units::{Span, Time};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// More bytes than any run transfers.
const WITHOUT_END: u64 = 1 << 50;

const fn peers(name: &'static str, default: u64, help: &'static str) -> Param {
    Param {
        name,
        kind: Kind::Count(default, 0, 10_000),
        help,
        source: "",
    }
}

/// Peers.
pub const KIND: WorkloadKind = WorkloadKind {
    name: "torrent",
    help: "many peers in both directions, with unlimited data",
    source: "BEP 29 and RFC 6817 for the congestion control that such clients use",
    params: &[
        peers("down", 20, "connections that send data to the client"),
        peers("up", 5, "connections that send data from the client"),
        Param {
            name: "ramp",
            kind: Kind::Span(Span::s(1), Span::ZERO, Span::s(3600)),
            help: "time over which the connections open",
            source: "",
        },
    ],
    check,
    cc: "ledbat",
    traffic: |params| Traffic {
        udp: false,
        both_ways: params.count("up") > 0,
    },
    make: |params, setting| {
        let (down, up) = (params.count("down"), params.count("up"));
        Box::new(Torrent {
            down,
            peers: down + up,
            ramp: params.span("ramp"),
            setting,
            opened: 0,
            started: Time::ZERO,
            before: alloc::vec![0; (down + up) as usize],
            arrived: [0; 2],
        })
    },
};

fn check(params: &Params) -> Result<(), Refusal> {
    if params.count("down") + params.count("up") > 0 {
        return Ok(());
    }
    Err(Refusal {
        param: "down",
        problem: "leaves no peer, because up is 0, too".into(),
        fix: "20".into(),
    })
}

struct Torrent {
    down: u64,
    peers: u64,
    ramp: Span,
    setting: Setting,
    opened: u64,
    started: Time,
    /// Bytes that have arrived, by connection.
    before: Vec<u64>,
    /// After the warm-up, to the client and to the server.
    arrived: [u64; 2],
}

impl Torrent {
    /// Time when the next peer opens.
    fn next(&self) -> Time {
        let ns =
            u128::from(self.ramp.as_ns()) * u128::from(self.opened) / u128::from(self.peers.max(1));
        self.started + Span::ns(ns as u64)
    }
}

impl Workload for Torrent {
    fn on_event(&mut self, now: Time, event: Event, todo: &mut Vec<Action>) {
        match event {
            Event::Started | Event::Woke => {
                if event == Event::Started {
                    self.started = now;
                }
                while self.opened < self.peers && self.next() <= now {
                    let conn = self.opened as Conn;
                    let by = if self.opened < self.down {
                        Side::Server
                    } else {
                        Side::Client
                    };
                    todo.push(Action::Open {
                        conn,
                        by,
                        answers: false,
                    });
                    todo.push(Action::Write {
                        conn,
                        from: by,
                        bytes: WITHOUT_END,
                    });
                    self.opened += 1;
                }
            }
            Event::Arrived { conn, at, bytes } => {
                let before = core::mem::replace(&mut self.before[conn as usize], bytes);
                if now >= self.setting.from {
                    self.arrived[usize::from(at == Side::Server)] += bytes - before;
                }
            }
            _ => {}
        }
    }
    fn next_wakeup(&self) -> Option<Time> {
        (self.opened < self.peers).then(|| self.next())
    }
    fn metrics(&self, end: Time) -> WorkloadMetrics {
        let seconds = end.since(self.setting.from).as_s();
        let mbit = |bytes: u64| Metric::Number(bytes as f64 * 8.0 / seconds / 1e6);
        let metrics = alloc::vec![
            ("peers", Metric::Count(self.opened)),
            ("down_mbit", mbit(self.arrived[0])),
            ("up_mbit", mbit(self.arrived[1])),
        ];
        WorkloadMetrics::new(KIND.name, metrics)
    }
}
