//! `voip`: a call in one direction or both, and its quality.
//!
//! Algorithm: a datagram leaves each `interval`, with 8 bytes of G.711 per millisecond and 12 bytes
//! of RTP header, regardless of the path. The receiver plays each second of speech with a constant
//! delay, which is set when the first datagram of this second arrives. The delay is the maximum
//! delay of the previous ten seconds, plus `playout`. Datagrams that arrive after their time of
//! playback count as lost. [`super::emodel`] computes R and MOS from the mean of this delay, the
//! share of datagrams that were not played, and the burstiness of these losses. To this mean,
//! `interval` is added, because a datagram leaves only when it is full.
//!
//! Metrics are for each direction, of datagrams sent after the warm-up. R and MOS of the call are
//! those of the worse direction.
//!
//! Deviations: speech is never silent, so each second is treated as a talk spurt. Receivers differ
//! in their playout delay. This receiver is slow to reduce its delay, and loses nothing by lateness
//! while the delay of the path does not grow.

use super::emodel::{self, Codec};
use super::stream::Stream;
use super::{Action, Event, Setting, Side, Traffic, Workload, WorkloadKind};
use crate::metrics::{Metric, Named, WorkloadMetrics};
use crate::packet::Ecn;
use crate::param::{Kind, Param, no_check};
use crate::units::{Span, Time};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// G.711: 64 kbit/s.
const BYTES_PER_MS: u64 = 8;
const RTP: u64 = 12;
/// Number of seconds whose maximum delays are stored.
const MEMORY: usize = 10;
/// Maximum number of datagrams that wait for a decision (played or lost): about 80 s at 20 ms.
const OPEN: u64 = 4096;

/// A call.
pub const KIND: WorkloadKind = WorkloadKind {
    name: "voip",
    help: "a call: constant datagrams in one or both directions; loss, jitter, R and MOS of the \
        E-model",
    source: "RFC 3551 (G.711 over RTP), ITU-T G.107 and G.113 Appendix I",
    params: &[
        Param {
            name: "codec",
            kind: Kind::Word(&["g711", "g711_no_plc"]),
            help: "G.711 with packet-loss concealment (Bpl 25.1), or without it (4.3)",
            source: "ITU-T G.113 Appendix I",
        },
        Param {
            name: "interval",
            kind: Kind::Span(Span::ms(20), Span::ms(5), Span::ms(100)),
            help: "duration of the speech in a datagram",
            source: "RFC 3551 section 4.2",
        },
        Param {
            name: "way",
            kind: Kind::Word(&["both", "one"]),
            help: "both ends send, or only the server",
            source: "",
        },
        Param {
            name: "playout",
            kind: Kind::Span(Span::ms(20), Span::ZERO, Span::s(10)),
            help: "time in the receiver's buffer in addition to the largest delay of the last ten \
                seconds",
            source: "a datagram's time: what adaptive receivers keep at least",
        },
    ],
    check: no_check,
    cc: "",
    traffic: |_| Traffic {
        udp: true,
        both_ways: false,
    },
    make: |params, setting| {
        let interval = params.span("interval");
        let codec = match params.word("codec") {
            "g711_no_plc" => emodel::G711,
            _ => emodel::G711_PLC,
        };
        let direction = || Direction::new(codec, interval, params.span("playout"), setting.from);
        let mut directions = alloc::vec![direction()];
        if params.word("way") == "both" {
            directions.push(direction());
        }
        Box::new(Voip {
            interval,
            bytes: (BYTES_PER_MS * interval.as_us() / 1000 + RTP) as u16,
            setting,
            started: Time::ZERO,
            number: 0,
            next: None,
            directions,
        })
    },
};

/// One direction of the call.
struct Direction {
    codec: Codec,
    interval: Span,
    margin: Span,
    stream: Stream,
    /// Datagrams in a second of speech.
    per_spurt: u64,
    /// The second being played, its delay, and the maximum delays of the last ones.
    spurt: Option<u64>,
    delay: Span,
    greatest: [Span; MEMORY],
    /// The first datagram that counts, the number of datagrams sent, and the number below which it
    /// is decided which datagrams were played.
    first: Option<u64>,
    sent: u64,
    settled: u64,
    /// A bit for each of the newest datagrams: whether it was played.
    played: Vec<u64>,
    late: u64,
    heard: u64,
    heard_delay_ms: f64,
    /// Lost or late datagrams, and the number of loss bursts.
    missing: u64,
    bursts: u64,
    silent: bool,
}

impl Direction {
    fn new(codec: Codec, interval: Span, margin: Span, from: Time) -> Direction {
        Direction {
            codec,
            interval,
            margin,
            stream: Stream::new(from),
            per_spurt: (1_000_000_000 / interval.as_ns().max(1)).max(1),
            spurt: None,
            delay: Span::ZERO,
            greatest: [Span::ZERO; MEMORY],
            first: None,
            sent: 0,
            settled: 0,
            played: alloc::vec![0; OPEN as usize / 64],
            late: 0,
            heard: 0,
            heard_delay_ms: 0.0,
            missing: 0,
            bursts: 0,
            silent: false,
        }
    }
    fn sent(&mut self, now: Time, number: u64, from: Time) {
        self.stream.sent(now, number);
        if now >= from {
            self.first.get_or_insert(number);
        }
        if number >= OPEN {
            self.settle(number - OPEN + 1);
        }
        self.played[(number % OPEN / 64) as usize] &= !(1 << (number % 64));
        self.sent = number + 1;
    }
    /// Decides on datagrams below `until`: played or lost.
    fn settle(&mut self, until: u64) {
        while self.settled < until {
            let number = self.settled;
            self.settled += 1;
            if self.first.is_none_or(|first| number < first) {
                continue;
            }
            let played = self.played[(number % OPEN / 64) as usize] & 1 << (number % 64) != 0;
            if !played {
                self.missing += 1;
                self.bursts += u64::from(!self.silent);
            }
            self.silent = !played;
        }
    }
    fn arrived(&mut self, now: Time, number: u64, sent: Time, bytes: u16) {
        let delay = now.since(sent);
        let spurt = number / self.per_spurt;
        if self.spurt.is_none_or(|playing| spurt > playing) {
            self.spurt = Some(spurt);
            let needed = self.greatest.iter().copied().max().unwrap_or(Span::ZERO);
            let needed = if needed == Span::ZERO { delay } else { needed };
            self.delay = needed + self.margin;
            self.greatest[(spurt % MEMORY as u64) as usize] = Span::ZERO;
        }
        let greatest = &mut self.greatest[(spurt % MEMORY as u64) as usize];
        *greatest = delay.max(*greatest);
        let counts = self.stream.received(now, number, sent, bytes).is_some();
        if delay > self.delay || number < self.settled {
            self.late += u64::from(counts);
            return;
        }
        self.played[(number % OPEN / 64) as usize] |= 1 << (number % 64);
        if counts {
            self.heard += 1;
            self.heard_delay_ms += (self.delay + self.interval).as_ms();
        }
    }
    /// R of the played speech, and the mouth-to-ear delay.
    fn rating(&self) -> (f64, f64) {
        let settled = self.sent - self.first.unwrap_or(self.sent);
        if settled == 0 {
            return (f64::NAN, f64::NAN);
        }
        let loss = self.missing as f64 / settled as f64;
        let burst = if self.bursts > 0 {
            self.missing as f64 / self.bursts as f64 * (1.0 - loss)
        } else {
            1.0
        };
        let delay_ms = self.heard_delay_ms / self.heard as f64;
        if self.heard == 0 {
            return (0.0, f64::NAN);
        }
        (emodel::rating(self.codec, delay_ms, loss, burst), delay_ms)
    }
    fn metrics(&self, end: Time) -> Named {
        let (r, delay_ms) = self.rating();
        let mut metrics = self.stream.metrics(end);
        let late = self.late as f64 / self.stream.sent as f64;
        metrics.extend([
            ("late_share", Metric::Number(late)),
            ("mouth_to_ear_ms", Metric::Number(delay_ms)),
            ("r", Metric::Number(r)),
            (
                "mos",
                Metric::Number(if r.is_nan() { r } else { emodel::mos(r) }),
            ),
        ]);
        metrics
    }
}

struct Voip {
    interval: Span,
    bytes: u16,
    setting: Setting,
    started: Time,
    number: u64,
    next: Option<Time>,
    /// From the server; from the client.
    directions: Vec<Direction>,
}

impl Voip {
    fn speak(&mut self, now: Time, todo: &mut Vec<Action>) {
        let (number, bytes) = (self.number, self.bytes);
        for (from, direction) in [Side::Server, Side::Client]
            .into_iter()
            .zip(&mut self.directions)
        {
            direction.sent(now, number, self.setting.from);
            todo.push(Action::Send {
                from,
                number,
                bytes,
                ecn: Ecn::NotEct,
            });
        }
        self.number += 1;
        let next = self.started + Span::ns(self.interval.as_ns().saturating_mul(self.number));
        self.next = Some(next).filter(|at| *at < self.setting.end);
    }
}

impl Workload for Voip {
    fn on_event(&mut self, now: Time, event: Event, todo: &mut Vec<Action>) {
        match event {
            Event::Started => {
                self.started = now;
                self.speak(now, todo);
            }
            Event::Woke => self.speak(now, todo),
            Event::Datagram {
                at,
                number,
                sent,
                bytes,
                ..
            } => {
                if let Some(direction) = self.directions.get_mut(usize::from(at == Side::Server)) {
                    direction.arrived(now, number, sent, bytes);
                }
            }
            _ => {}
        }
    }
    fn next_wakeup(&self) -> Option<Time> {
        self.next
    }
    fn metrics(&self, end: Time) -> WorkloadMetrics {
        let settled = self.directions.iter().map(Direction::settled_all);
        let directions: Vec<Named> = settled.map(|direction| direction.metrics(end)).collect();
        let worst = |name: &str| {
            let of = |direction: &Named| match direction.iter().find(|(n, _)| *n == name) {
                Some((_, Metric::Number(x))) => *x,
                _ => f64::NAN,
            };
            Metric::Number(directions.iter().map(of).fold(f64::NAN, f64::min))
        };
        let metrics = alloc::vec![("r", worst("r")), ("mos", worst("mos"))];
        let names = ["to_client", "to_server"].map(String::from);
        let rows = names.into_iter().zip(directions).collect();
        WorkloadMetrics::new(
            KIND.name,
            [metrics, alloc::vec![("ways", Metric::Rows(rows))]].concat(),
        )
        .with_delays(self.directions[0].stream.delays())
    }
}

impl Direction {
    /// The state after all datagrams sent were decided, at the end of the run.
    fn settled_all(&self) -> Direction {
        let mut all = Direction {
            stream: self.stream.clone(),
            played: self.played.clone(),
            ..*self
        };
        all.settle(all.sent);
        all
    }
}
