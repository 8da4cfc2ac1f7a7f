//! Video calls whose rate adapts to the path: media source, congestion controller and feedback.
//!
//! ```text
//!   server (sender)                                        client (receiver)
//!   source ─frames─▶ queue ─packets─▶ pacer, window ──path──▶ frames, statistics
//!      ▲ target rate                                              │
//!   controller ◀───────────────── feedback ◀──path────────────────┘
//! ```
//!
//! Algorithm: each frame is encoded at the target rate of that moment and divided into packets. The
//! packets wait in a queue until the [`Controller`] permits them. The receiver reports the arrival
//! time and the ECN bits of each packet. A report repeats the packets of the previous one, so no
//! arrival is missed if a single report is lost. A packet is lost if three packets with higher
//! numbers were reported and it was not. If the oldest packet in the queue is older than
//! [`DISCARD`], the queue is discarded (RFC 8298 section 4.1.3).
//!
//! | file | contents |
//! |---|---|
//! | `source` | sizes of frames |
//! | `frames` | frames at the receiver: delay, loss, stalls |
//! | `gcc` | `gcc`: a controller like Google's congestion control |
//! | `scream` | `scream`: RFC 8298 |
//!
//! A feedback packet has 20 bytes and two more for each reported packet (RFC 8888). Rates are of
//! UDP payload, which contains the RTP header. Metrics are of packets and frames after the warm-up.
//!
//! Deviations: packets are not retransmitted, and there is no forward error correction and no
//! audio. A frame depends on no other frame. The receiver shows a frame when it is complete,
//! without a jitter buffer.

mod frames;
pub(super) mod gcc;
pub(super) mod scream;
mod source;

use super::stream::Stream;
use super::{Action, Event, MOST_DATAGRAM, Setting, Side, Workload};
use crate::metrics::{Metric, Named, WorkloadMetrics};
use crate::packet::Ecn;
use crate::param::{Kind, Param, Params, Refusal};
use crate::units::{Bytes, Rate, Span, Time, format_rate};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use frames::Frames;
use source::Source;

/// A queue whose oldest packet is older than this is discarded.
const DISCARD: Span = Span::s(2);
/// Number of later packets that were reported when a packet counts as lost.
const REORDERING: u64 = 3;
/// Maximum number of new packets in a report, and of packets and reports in flight.
const MOST_REPORTED: usize = 700;
const MOST_IN_FLIGHT: usize = 1 << 16;
const MOST_REPORTS: usize = 256;
/// Minimum time without a report after which all packets in flight count as lost.
const SILENCE: Span = Span::s(1);
/// Size of a report without and with each packet, bytes.
const REPORT: usize = 20;
const PER_PACKET: usize = 2;

const MAX_RATE: Param = Param {
    name: "max_rate",
    kind: Kind::Rate(Rate::mbit(10), Rate::bit(10_000), Rate::mbit(1000)),
    help: "maximum target rate of the media",
    source: "",
};
const MIN_RATE: Param = Param {
    name: "min_rate",
    kind: Kind::Rate(Rate::bit(100_000), Rate::bit(1000), Rate::mbit(1000)),
    help: "minimum target rate of the media",
    source: "",
};
const FPS: Param = Param {
    name: "fps",
    kind: Kind::Count(30, 1, 240),
    help: "frames per second",
    source: "RFC 8593",
};
const SPREAD: Param = Param {
    name: "spread",
    kind: Kind::Number(0.15, 0.0, 1.0),
    help: "scale of the Laplace distribution of frame sizes, as a share of the mean size",
    source: "RFC 8593: SCALE_B",
};

/// A packet that the receiver reports.
#[derive(Copy, Clone, Debug)]
struct Arrival {
    number: u64,
    at: Time,
    ce: bool,
}

/// Feedback of the receiver.
struct Report {
    arrivals: Vec<Arrival>,
    left: Time,
}

/// A packet that was reported for the first time.
#[derive(Copy, Clone, Debug)]
struct Acked {
    sent: Time,
    arrived: Time,
    bytes: u16,
    ce: bool,
}

/// The content of a report, as the sender sees it.
struct Feedback<'a> {
    /// Packets, by their number.
    acked: &'a [Acked],
    /// Packets that count as lost from now on.
    lost: u64,
    /// Bytes by which the highest reported number has advanced, lost packets included.
    newly: u64,
    /// Bytes after the highest reported number.
    in_flight: u64,
    /// The last round-trip time and the smoothed one.
    rtt: Span,
    srtt: Span,
}

/// Whether a packet may leave.
enum Permit {
    Now,
    /// At this time.
    At(Time),
    /// After the next report at the earliest.
    Feedback,
}

/// A congestion controller of media.
trait Controller: Send {
    /// The target rate of the media, bit/s.
    fn target(&self) -> f64;
    /// Whether a packet of `bytes` may leave while `in_flight` bytes are not reported.
    fn permits(&self, now: Time, bytes: u16, in_flight: u64) -> Permit;
    /// A packet leaves.
    fn sent(&mut self, now: Time, bytes: u16, in_flight: u64);
    /// A report arrives.
    fn reported(&mut self, now: Time, feedback: &Feedback<'_>);
    /// The source has encoded a frame.
    fn encoded(&mut self, _bytes: u64) {}
    /// Packets are in flight and no report has arrived for a long time.
    fn silence(&mut self, _now: Time) {}
    /// The next periodic action.
    fn next_wakeup(&self) -> Option<Time> {
        None
    }
    /// The time of `next_wakeup` has come; `queued` bytes wait in the queue of the sender.
    fn on_wakeup(&mut self, _now: Time, _queued: u64) {}
    /// Time between two reports of a receiver that receives at `rate` bit/s.
    fn interval(&self, rate: f64) -> Span;
    /// The ECN bits of packets.
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }
    /// Further metrics.
    fn metrics(&self) -> Named;
}

/// A packet in the queue of the sender.
struct Queued {
    frame: u64,
    bytes: u16,
    captured: Time,
}

/// A packet that was sent.
struct Record {
    sent: Time,
    bytes: u16,
    reported: bool,
}

struct Call<C> {
    kind: &'static str,
    controller: C,
    source: Source,
    setting: Setting,
    next_frame: Option<Time>,
    queue: VecDeque<Queued>,
    queued: u64,
    next_packet: Option<Time>,
    /// Sent packets, without those at the front that were reported or are lost.
    records: VecDeque<Record>,
    /// Numbers of the first record and of the next packet, and the number after the highest
    /// reported one.
    base: u64,
    number: u64,
    reported: u64,
    in_flight: u64,
    srtt: Span,
    heard: Time,
    /// Sum and number of the targets of frames, Mbit/s.
    targets: f64,
    encoded: u64,

    // The receiver.
    frames: Frames,
    stream: Stream,
    arrivals: Vec<Arrival>,
    repeated: Vec<Arrival>,
    next_report: Option<Time>,
    last_report: Time,
    arrived_bytes: u64,
    rate: f64,
    reports: VecDeque<(u64, Report)>,
    report: u64,
}

impl<C: Controller> Call<C> {
    fn new(kind: &'static str, controller: C, params: &Params, setting: Setting) -> Call<C> {
        let source = Source::new(params, setting);
        Call {
            kind,
            controller,
            next_frame: None,
            queue: VecDeque::new(),
            queued: 0,
            next_packet: None,
            records: VecDeque::new(),
            base: 0,
            number: 0,
            reported: 0,
            in_flight: 0,
            srtt: Span::ZERO,
            heard: Time::ZERO,
            targets: 0.0,
            encoded: 0,
            frames: Frames::new(source.interval(), setting),
            stream: Stream::new(setting.from),
            source,
            setting,
            arrivals: Vec::new(),
            repeated: Vec::new(),
            next_report: None,
            last_report: Time::ZERO,
            arrived_bytes: 0,
            rate: 0.0,
            reports: VecDeque::new(),
            report: 0,
        }
    }

    fn encode(&mut self, now: Time) {
        let target = self.controller.target();
        if now >= self.setting.from {
            self.targets += target / 1e6;
            self.encoded += 1;
        }
        if self
            .queue
            .front()
            .is_some_and(|p| now.since(p.captured) > DISCARD)
        {
            self.queue.clear();
            self.queued = 0;
        }
        let (frame, bytes) = self.source.frame(target);
        let packets = bytes.div_ceil(u64::from(self.source.packet)).max(1);
        self.frames.captured(now, frame, packets);
        self.controller.encoded(bytes);
        for packet in 0..packets {
            let size = bytes * (packet + 1) / packets - bytes * packet / packets;
            self.queued += size;
            self.queue.push_back(Queued {
                frame,
                bytes: size as u16,
                captured: now,
            });
        }
        let next = self.source.due();
        self.next_frame = Some(next).filter(|at| *at < self.setting.end);
    }

    /// Sends the packets that the controller permits.
    fn flush(&mut self, now: Time, todo: &mut Vec<Action>) {
        self.next_packet = None;
        while let Some(first) = self.queue.front() {
            match self.controller.permits(now, first.bytes, self.in_flight) {
                Permit::Now => {}
                Permit::At(at) => {
                    self.next_packet = Some(at.max(now + Span::ns(1)));
                    return;
                }
                Permit::Feedback => return,
            }
            let Some(Queued { frame, bytes, .. }) = self.queue.pop_front() else {
                return;
            };
            self.queued -= u64::from(bytes);
            if self.in_flight == 0 {
                self.heard = now;
            }
            self.in_flight += u64::from(bytes);
            self.controller.sent(now, bytes, self.in_flight);
            self.stream.sent(now, self.number);
            if self.records.len() == MOST_IN_FLIGHT {
                self.records.pop_front();
                self.base += 1;
            }
            self.records.push_back(Record {
                sent: now,
                bytes,
                reported: false,
            });
            todo.push(Action::Send {
                from: Side::Server,
                number: frame << 32 | self.number & u64::from(u32::MAX),
                bytes,
                ecn: self.controller.ecn(),
            });
            self.number += 1;
        }
    }

    /// A report arrives at the sender.
    fn hear(&mut self, now: Time, report: &Report) {
        self.heard = now;
        let (mut acked, mut newest) = (Vec::new(), None);
        for arrival in &report.arrivals {
            let Some(place) = arrival.number.checked_sub(self.base) else {
                continue;
            };
            let Some(record) = self.records.get_mut(place as usize) else {
                continue;
            };
            if !record.reported {
                record.reported = true;
                newest = Some((record.sent, arrival.at));
                acked.push(Acked {
                    sent: record.sent,
                    arrived: arrival.at,
                    bytes: record.bytes,
                    ce: arrival.ce,
                });
            }
        }
        let Some((sent, at)) = newest else { return };
        let rtt = now.since(sent) - report.left.since(at);
        self.srtt = match self.srtt {
            Span::ZERO => rtt,
            srtt => Span::ns((7 * srtt.as_ns() + rtt.as_ns()) / 8),
        };
        let highest = report.arrivals.iter().map(|a| a.number + 1).max();
        let highest = highest.unwrap_or(0).clamp(self.reported, self.number);
        let from = self.reported.max(self.base) - self.base;
        let until = highest.max(self.base) - self.base;
        let newly = self.records.range(from as usize..until as usize);
        let newly: u64 = newly.map(|record| u64::from(record.bytes)).sum();
        self.reported = highest;
        self.in_flight = self.in_flight.saturating_sub(newly);
        let mut lost = 0;
        while let Some(first) = self.records.front() {
            let late = self.base + REORDERING < highest;
            if !first.reported && !late {
                break;
            }
            lost += u64::from(!first.reported);
            self.records.pop_front();
            self.base += 1;
        }
        self.controller.reported(
            now,
            &Feedback {
                acked: &acked,
                lost,
                newly,
                in_flight: self.in_flight,
                rtt,
                srtt: self.srtt,
            },
        );
    }

    /// When packets in flight count as lost because no report arrives.
    fn silent_at(&self) -> Option<Time> {
        let wait = SILENCE.max(self.srtt + self.srtt);
        (self.in_flight > 0).then(|| self.heard + wait)
    }

    /// A packet arrives at the receiver.
    fn arrive(&mut self, now: Time, number: u64, sent: Time, bytes: u16, ce: bool) {
        let frame = number >> 32;
        // The packet has the low half of the number.
        let low = number & u64::from(u32::MAX);
        let behind = self.number.wrapping_sub(low) & u64::from(u32::MAX);
        let number = self.number.saturating_sub(behind);
        self.stream.received(now, number, sent, bytes);
        if !self.frames.arrived(now, frame, number) {
            return;
        }
        self.arrived_bytes += u64::from(bytes);
        self.arrivals.push(Arrival {
            number,
            at: now,
            ce,
        });
        if self.next_report.is_none() {
            self.last_report = now;
            self.next_report = Some(now + self.controller.interval(self.rate));
        }
        if self.arrivals.len() >= MOST_REPORTED {
            self.next_report = Some(now);
        }
    }

    /// The receiver sends a report.
    fn send_report(&mut self, now: Time, todo: &mut Vec<Action>) {
        let passed = now.since(self.last_report).as_s().max(1e-3);
        let rate = self.arrived_bytes as f64 * 8.0 / passed;
        self.rate += (rate - self.rate) / 2.0;
        self.arrived_bytes = 0;
        self.last_report = now;
        let next = now + self.controller.interval(self.rate).max(Span::ms(1));
        self.next_report = Some(next).filter(|at| *at < self.setting.end);
        if self.arrivals.is_empty() {
            return;
        }
        self.arrivals.sort_by_key(|arrival| arrival.number);
        let new = self.arrivals.clone();
        let mut arrivals = core::mem::replace(&mut self.repeated, new);
        arrivals.append(&mut self.arrivals);
        let size = REPORT + PER_PACKET * arrivals.len();
        if self.reports.len() == MOST_REPORTS {
            self.reports.pop_front();
        }
        let report = Report {
            arrivals,
            left: now,
        };
        self.reports.push_back((self.report, report));
        todo.push(Action::Send {
            from: Side::Client,
            number: self.report,
            bytes: size.min(MOST_DATAGRAM as usize) as u16,
            ecn: Ecn::NotEct,
        });
        self.report += 1;
    }

    fn wake(&mut self, now: Time, todo: &mut Vec<Action>) {
        let due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        if due(self.controller.next_wakeup()) {
            self.controller.on_wakeup(now, self.queued);
        }
        if due(self.silent_at()) {
            self.controller.silence(now);
            self.base = self.number;
            self.reported = self.number;
            self.records.clear();
            self.in_flight = 0;
        }
        while self.next_frame.is_some_and(|at| at <= now) {
            self.encode(now);
        }
        self.flush(now, todo);
        if due(self.next_report) {
            self.send_report(now, todo);
        }
    }
}

impl<C: Controller> Workload for Call<C> {
    fn on_event(&mut self, now: Time, event: Event, todo: &mut Vec<Action>) {
        match event {
            Event::Started => {
                self.source.start(now);
                self.heard = now;
                self.next_frame = Some(now);
                self.wake(now, todo);
            }
            Event::Woke => self.wake(now, todo),
            Event::Datagram {
                at: Side::Client,
                number,
                sent,
                bytes,
                ce,
            } => {
                self.arrive(now, number, sent, bytes, ce);
                if self.next_report.is_some_and(|at| at <= now) {
                    self.send_report(now, todo);
                }
            }
            Event::Datagram {
                at: Side::Server,
                number,
                ..
            } => {
                if let Some(place) = self.reports.iter().position(|(n, _)| *n == number) {
                    if let Some((_, report)) = self.reports.remove(place) {
                        self.hear(now, &report);
                        self.flush(now, todo);
                    }
                }
            }
            _ => {}
        }
    }

    fn next_wakeup(&self) -> Option<Time> {
        [
            self.next_frame,
            self.next_packet,
            self.next_report,
            self.silent_at(),
            self.controller.next_wakeup(),
        ]
        .into_iter()
        .flatten()
        .min()
        .filter(|at| *at < self.setting.end)
    }

    fn metrics(&self, end: Time) -> WorkloadMetrics {
        let waiting = self.queue.front().map(|packet| packet.frame);
        let mut metrics = alloc::vec![(
            "mean_bitrate_mbit",
            Metric::Number(self.targets / self.encoded as f64)
        )];
        metrics.extend(self.frames.metrics(end, waiting));
        metrics.extend(self.stream.metrics(end));
        metrics.extend(self.controller.metrics());
        WorkloadMetrics::new(self.kind, metrics).with_delays(self.frames.delays())
    }
}

/// Creates the workload of a call with this controller.
fn call<C: Controller + 'static>(
    kind: &'static str,
    controller: C,
    params: &Params,
    setting: Setting,
) -> Box<dyn Workload> {
    Box::new(Call::new(kind, controller, params, setting))
}

/// The declaration of the largest size of a packet, whose default depends on the controller.
const fn packet(usual: u64, source: &'static str) -> Param {
    Param {
        name: "packet",
        kind: Kind::Bytes(
            Bytes::new(usual),
            Bytes::new(200),
            Bytes::new(MOST_DATAGRAM as u64),
        ),
        help: "largest UDP payload of a packet of media",
        source,
    }
}

/// Rejects a lowest rate above the highest one.
fn check(params: &Params) -> Result<(), Refusal> {
    let (least, most) = (params.rate("min_rate"), params.rate("max_rate"));
    if least <= most {
        return Ok(());
    }
    Err(Refusal {
        param: "min_rate",
        problem: "is above max_rate".into(),
        fix: alloc::format!("\"{}\"", format_rate(most)),
    })
}
