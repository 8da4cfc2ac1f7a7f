//! `udp`: datagrams of one size, evenly paced at a rate, as `iperf3 -u -b` sends them. `bursty`:
//! alternately silence for a time, and all datagrams accumulated in it at once, as from an
//! application that sleeps between its writes. `poisson_udp`: datagrams with random arrivals and
//! sizes, the traffic of queueing theory.
//!
//! Algorithm: datagram n of `udp` leaves `n · 8 · packet / rate` after the start, rounded down to a
//! nanosecond, without drift. `bursty` wakes every `sleep` and sends all whole datagrams that
//! `rate` has accumulated; the rest goes with the next burst. The gaps of `poisson_udp` are
//! exponential with mean `8 · packet / rate`. The sizes of `poisson_udp` are constant (M/D/1), or
//! exponential, of the payload or of the frames on the wire (M/M/1). Exponential sizes are limited
//! to payloads from 1 byte to the MTU. This has little weight if the mean frame is long compared
//! with the headers, and short compared with the MTU.
//!
//! Rate and metrics are of UDP payload (each datagram has 42 bytes of headers), of datagrams sent
//! after the warm-up.

use super::draw::{Sizes, exponential};
use super::stream::Stream;
use super::{
    Action, Event, LARGEST_DATAGRAM, Setting, Side, Workload, WorkloadKind, datagram_headers,
    datagrams,
};
use crate::metrics::WorkloadMetrics;
use crate::packet::Ecn;
use crate::param::{Kind, Param, Params, Refusal};
use crate::rng::Rng;
use crate::units::{Bytes, Rate, Span, Time, format_bytes, format_span};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

/// The rate of payload.
pub(super) const RATE: Param = Param {
    name: "rate",
    kind: Kind::Rate(Rate::mbit(1), Rate::bit(100), Rate::mbit(100_000)),
    help: "rate of the UDP payload",
    source: "iperf3(1), -b",
};
/// The size of a datagram.
pub(super) const PACKET: Param = Param {
    name: "packet",
    kind: Kind::Bytes(
        Bytes::new(1448),
        Bytes::new(1),
        Bytes::new(LARGEST_DATAGRAM as u64),
    ),
    help: "UDP payload of a datagram, at most the mtu of its hosts minus 28B",
    source: "iperf3(1), -l: as much as a segment of TCP",
};

/// The word of `sizes` for exponential frames.
const EXPONENTIAL_FRAMES: &str = "exponential_frames";

/// Maximum number of datagrams per second; an engine would do nothing else.
const MOST_A_SECOND: u64 = 10_000_000;
/// Maximum size of a burst: its datagrams leave at one instant, and wait in memory.
const MOST_AT_ONCE: u64 = 100_000;

/// Rejects a rate and a size that give too many datagrams.
pub(super) fn check(params: &Params) -> Result<(), Refusal> {
    let (rate, packet) = (params.rate("rate"), params.bytes("packet"));
    let least = rate.as_bit().div_ceil(8 * MOST_A_SECOND);
    if packet.get() >= least {
        return Ok(());
    }
    Err(Refusal {
        param: "packet",
        problem: "is too small for this rate: more than ten million datagrams per second".into(),
        fix: format!("\"{}\"", format_bytes(Bytes::new(least))),
    })
}

fn check_bursts(params: &Params) -> Result<(), Refusal> {
    check(params)?;
    let (rate, packet, sleep) = (
        params.rate("rate"),
        params.bytes("packet"),
        params.span("sleep"),
    );
    let most = due(MOST_AT_ONCE, packet.get() as u16, rate);
    if sleep <= most {
        return Ok(());
    }
    Err(Refusal {
        param: "sleep",
        problem: format!(
            "is too long for this rate: more than {MOST_AT_ONCE} datagrams in a burst"
        ),
        fix: format!("\"{}\"", format_span(Span::us(most.as_us()))),
    })
}

/// Evenly paced datagrams.
pub const KIND: WorkloadKind = WorkloadKind {
    name: "udp",
    help: "datagrams of one size, evenly paced at a rate",
    source: "iperf3(1), --udp",
    params: &[RATE, PACKET],
    check,
    cc: "",
    traffic: datagrams,
    make: |params, setting| {
        let packet = params.bytes("packet");
        Box::new(Datagrams::new(
            KIND.name,
            params,
            setting,
            Pace::Even,
            packet,
        ))
    },
};

/// Datagrams in bursts.
pub const BURSTY: WorkloadKind = WorkloadKind {
    name: "bursty",
    help: "bursts of datagrams: after each pause, the data that the rate has accumulated leaves \
        at once",
    source: "applications that write after each sleep instead of pacing",
    params: &[
        RATE,
        PACKET,
        Param {
            name: "sleep",
            kind: Kind::Span(Span::ms(100), Span::us(100), Span::s(60)),
            help: "time between two bursts",
            source: "a tenth of a second is what many media servers and test tools sleep",
        },
    ],
    check: check_bursts,
    cc: "",
    traffic: datagrams,
    make: |params, setting| {
        let (packet, sleep) = (params.bytes("packet"), params.span("sleep"));
        Box::new(Datagrams::new(
            BURSTY.name,
            params,
            setting,
            Pace::Bursts(sleep),
            packet,
        ))
    },
};

/// Datagrams with random arrivals.
pub const POISSON: WorkloadKind = WorkloadKind {
    name: "poisson_udp",
    help: "datagrams with random (Poisson) arrivals, of one size or of exponential sizes",
    source: "the queues M/D/1 and M/M/1: Kleinrock, Queueing Systems, volume 1",
    params: &[
        RATE,
        PACKET,
        Param {
            name: "sizes",
            kind: Kind::Word(&["fixed", "exponential", EXPONENTIAL_FRAMES]),
            help: "distribution of the UDP payload, whose mean is packet; exponential_frames: of \
                the frames on the wire, whose mean is packet plus 42B of headers (ip = 6: 62B)",
            source: "",
        },
    ],
    check,
    cc: "",
    traffic: datagrams,
    make: |params, setting| {
        let packet = params.bytes("packet");
        let mean = packet.get() as f64;
        let word = params.word("sizes");
        let headers = if word == EXPONENTIAL_FRAMES {
            u64::from(datagram_headers(setting.ip))
        } else {
            0
        };
        let pace = Pace::Random {
            gaps: Rng::named(setting.seed, "arrivals"),
            draws: Rng::named(setting.seed, "sizes"),
            gap: Span::ns((mean * 8e9 / params.rate("rate").as_bit() as f64) as u64),
            sizes: match word {
                "fixed" => Sizes::Fixed(mean),
                _ => Sizes::Exponential(mean + headers as f64),
            },
            headers,
        };
        Box::new(Datagrams::new(POISSON.name, params, setting, pace, packet))
    },
};

#[derive(Clone, Debug)]
enum Pace {
    Even,
    /// With exponentially distributed gaps of the mean `gap`.
    Random {
        gaps: Rng,
        draws: Rng,
        gap: Span,
        sizes: Sizes,
        /// The part of each size that is not payload, bytes.
        headers: u64,
    },
    /// In bursts, with this silence between them.
    Bursts(Span),
}

struct Datagrams {
    kind: &'static str,
    pace: Pace,
    rate: Rate,
    packet: u16,
    /// Maximum payload of a datagram.
    most: u16,
    started: Time,
    end: Time,
    next: Option<Time>,
    bursts: u64,
    number: u64,
    stream: Stream,
}

/// Time after the start when `number` datagrams of `packet` bytes are due at `rate`.
pub(super) fn due(number: u64, packet: u16, rate: Rate) -> Span {
    let ns =
        u128::from(number) * u128::from(packet) * 8_000_000_000 / u128::from(rate.as_bit().max(1));
    Span::ns(u64::try_from(ns).unwrap_or(u64::MAX / 2))
}

impl Datagrams {
    fn new(
        kind: &'static str,
        params: &Params,
        setting: Setting,
        pace: Pace,
        packet: Bytes,
    ) -> Datagrams {
        Datagrams {
            kind,
            pace,
            rate: params.rate("rate"),
            packet: packet.get() as u16,
            most: setting.datagram,
            started: Time::ZERO,
            end: setting.end,
            next: None,
            bursts: 0,
            number: 0,
            stream: Stream::new(setting.from),
        }
    }
    fn send(&mut self, now: Time, todo: &mut Vec<Action>) {
        self.stream.sent(now, self.number);
        todo.push(Action::Send {
            from: Side::Server,
            number: self.number,
            bytes: self.packet,
            ecn: Ecn::NotEct,
        });
        self.number += 1;
    }
    fn speak(&mut self, now: Time, todo: &mut Vec<Action>) {
        match &mut self.pace {
            Pace::Random {
                gaps,
                draws,
                gap,
                sizes,
                headers,
            } => {
                // The first datagram follows a gap, too.
                let arrives = self.next.is_some();
                let next = now + exponential(gaps, *gap).max(Span::ns(1));
                if arrives {
                    let payload = sizes.draw(draws).get().saturating_sub(*headers);
                    self.packet = payload.clamp(1, u64::from(self.most)) as u16;
                    self.send(now, todo);
                }
                self.next = Some(next);
            }
            Pace::Even => {
                self.send(now, todo);
                self.next = Some(self.started + due(self.number, self.packet, self.rate));
            }
            Pace::Bursts(sleep) => {
                let sleep = *sleep;
                while self.started + due(self.number + 1, self.packet, self.rate) <= now {
                    self.send(now, todo);
                }
                self.bursts += 1;
                self.next =
                    Some(self.started + Span::ns(sleep.as_ns().saturating_mul(self.bursts)));
            }
        }
        self.next = self.next.filter(|at| *at < self.end);
    }
}

impl Workload for Datagrams {
    fn on_event(&mut self, now: Time, event: Event, todo: &mut Vec<Action>) {
        match event {
            Event::Started => {
                self.started = now;
                self.speak(now, todo);
            }
            Event::Woke => self.speak(now, todo),
            Event::Datagram {
                number,
                sent,
                bytes,
                ..
            } => {
                self.stream.received(now, number, sent, bytes);
            }
            _ => {}
        }
    }
    fn next_wakeup(&self) -> Option<Time> {
        self.next
    }
    fn metrics(&self, end: Time) -> WorkloadMetrics {
        WorkloadMetrics::new(self.kind, self.stream.metrics(end)).with_delays(self.stream.delays())
    }
}
