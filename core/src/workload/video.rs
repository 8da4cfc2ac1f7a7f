//! `video`: a video in segments, with a bit rate chosen for each.
//!
//! Algorithm: the client requests a segment over one connection, receives it, and requests the next
//! at once. If the playback buffer has no room for a segment, the client waits until the buffer has
//! room. Playback begins when `start` is in the buffer, and again after a stall. A stall begins
//! when the buffer is empty before the end of the video. The size of a segment is its bit rate
//! times its length.
//!
//! The bit rate of each segment is selected by the method `abr`; the first segment has the lowest:
//! - `rate`: the highest that is at most `safety` times the harmonic mean of the throughput of the
//!   last `samples` segments (from request to last byte). Source of the estimate: Jiang, Sekar,
//!   Zhang, "FESTIVE", CoNEXT 2012.
//! - `buffer`: by the level of the buffer. Up to the `reservoir`, the bit rate is the lowest, and
//!   from the end of the `cushion` on the highest. Within the cushion, the bit rate follows a
//!   linear function of the level. The bit rate changes only when this linear function has reached
//!   the next higher or lower bit rate. Source: BBA-0 of Huang et al., "A buffer-based approach to
//!   rate adaptation", SIGCOMM 2014, sections 3 and 4. Its reservoir is 90 s and its cushion 126 s,
//!   with a buffer of 240 s. If the rate of the path is between two bit rates, the client
//!   alternates between them, and their mean is the rate of the path.
//!
//! Metrics cover the whole run. If the path's rate is below the lowest bit rate, each segment takes
//! longer than its playback, and the difference is a stall.
//!
//! Deviations: all segments of one bit rate have the same size; the connection is set up by TCP's
//! handshake alone, without TLS.

use super::{Action, Event, Setting, Side, Workload, WorkloadKind, tcp};
use crate::metrics::{Metric, WorkloadMetrics};
use crate::param::{Kind, Param, Params, Refusal};
use crate::units::{Bytes, Rate, Span, Time, format_span};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;

const fn kbit(n: u64) -> Rate {
    Rate::bit(n * 1000)
}

const LADDER: &[Rate] = &[
    kbit(235),
    kbit(375),
    kbit(560),
    kbit(750),
    kbit(1050),
    kbit(1750),
    kbit(2350),
    kbit(3000),
    kbit(4300),
    kbit(5800),
];

/// The registry entry.
pub const KIND: WorkloadKind = WorkloadKind {
    name: "video",
    help: "a film in segments with adaptive bit rate: start-up delay, stalls, mean bit rate",
    source: "HTTP adaptive streaming; FESTIVE (2012), BBA-0 (2014)",
    params: &[
        Param {
            name: "ladder",
            kind: Kind::Rates(LADDER, Rate::bit(1000), Rate::mbit(10_000)),
            help: "available bit rates, the lowest first",
            source: "Netflix's fixed ladder of 2015",
        },
        Param {
            name: "segment",
            kind: Kind::Span(Span::s(4), Span::ms(100), Span::s(60)),
            help: "duration of a segment",
            source: "2 to 10 s are usual",
        },
        Param {
            name: "length",
            kind: Kind::Span(Span::s(600), Span::ms(100), Span::s(24 * 3600)),
            help: "duration of the film; it ends with the run at the latest",
            source: "",
        },
        Param {
            name: "buffer",
            kind: Kind::Span(Span::s(30), Span::ms(100), Span::s(3600)),
            help: "largest playback buffer",
            source: "30 s are usual",
        },
        Param {
            name: "start",
            kind: Kind::Span(Span::s(4), Span::ms(100), Span::s(3600)),
            help: "buffer required to start playback, at the beginning and after a stall",
            source: "a segment",
        },
        Param {
            name: "abr",
            kind: Kind::Word(&["rate", "buffer"]),
            help: "select the bit rate by throughput, or by the level of the buffer",
            source: "FESTIVE 2012; BBA-0 2014",
        },
        Param {
            name: "safety",
            kind: Kind::Number(0.8, 0.01, 2.0),
            help: "share of the throughput that is used at most, with abr = \"rate\"",
            source: "FESTIVE 2012: 0.85; players use 0.7 to 0.9",
        },
        Param {
            name: "samples",
            kind: Kind::Count(5, 1, 100),
            help: "number of segments whose throughput is averaged, with abr = \"rate\"",
            source: "FESTIVE 2012: 20; players use 3 to 20",
        },
        Param {
            name: "reservoir",
            kind: Kind::Probability(0.375),
            help: "share of the buffer up to which the bit rate is the lowest, with abr = \
                \"buffer\"",
            source: "BBA-0 2014: 90 s of 240 s",
        },
        Param {
            name: "cushion",
            kind: Kind::Probability(0.525),
            help: "share of the buffer over which the bit rate rises linearly to the highest",
            source: "BBA-0 2014: 126 s of 240 s",
        },
        Param {
            name: "request",
            kind: Kind::Bytes(Bytes::new(400), Bytes::new(1), Bytes::new(100_000)),
            help: "size of a request",
            source: "",
        },
    ],
    check,
    cc: "cubic",
    traffic: tcp,
    make: |params, setting| Box::new(Video::new(params, setting)),
};

fn check(params: &Params) -> Result<(), Refusal> {
    let refuse = |param, problem: &str, fix: alloc::string::String| {
        Err(Refusal {
            param,
            problem: problem.into(),
            fix,
        })
    };
    let ladder = params.rates("ladder");
    if ladder.is_empty() {
        return refuse("ladder", "is empty", "[\"1Mbit\"]".into());
    }
    if ladder.windows(2).any(|pair| pair[0] >= pair[1]) {
        let mut sorted = ladder.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let rungs: Vec<_> = sorted
            .iter()
            .map(|r| format!("\"{}\"", crate::units::format_rate(*r)))
            .collect();
        return refuse(
            "ladder",
            "is not in increasing order",
            format!("[{}]", rungs.join(", ")),
        );
    }
    let (segment, buffer, start) = (
        params.span("segment"),
        params.span("buffer"),
        params.span("start"),
    );
    // Only whole segments arrive: with less room than for those missing to `start` it would never
    // play.
    if buffer < start + segment {
        let fix = format!("\"{}\"", format_span(start + segment));
        return refuse(
            "buffer",
            "has no room for a segment in addition to start",
            fix,
        );
    }
    let (reservoir, cushion) = (params.number("reservoir"), params.number("cushion"));
    if cushion <= 0.0 || reservoir + cushion > 1.0 + 1e-9 {
        let most = if reservoir < 0.95 {
            1.0 - reservoir
        } else {
            0.05
        };
        return refuse(
            "cushion",
            "must be above 0; reservoir + cushion must be at most 1",
            format!("{most:.3}"),
        );
    }
    Ok(())
}

struct Video {
    ladder: Vec<Rate>,
    segment: Span,
    segments: u64,
    room: Span,
    start: Span,
    by_buffer: bool,
    safety: f64,
    samples: usize,
    /// Levels of the buffer at both ends of the cushion, s.
    cushion: (f64, f64),
    request: u64,
    setting: Setting,

    begun: Time,
    rung: usize,
    /// Segments requested, and complete segments.
    asked: u64,
    whole: u64,
    asked_at: Time,
    /// Total bytes of all requests so far, and of the segments that they request.
    asks: u64,
    answers: u64,
    size: u64,
    under_way: bool,
    answered: bool,
    next: Option<Time>,
    throughputs: VecDeque<f64>,

    /// Playback time in the buffer at `at`.
    ahead: Span,
    at: Time,
    playing: bool,
    /// Start of the present stall; before playback, the start of the video.
    dry_since: Option<Time>,
    startup: Option<Span>,
    stalls: u64,
    stalled: Span,
    played: Span,
    switches: u64,
    /// Sum of the bit rates of complete segments, Mbit/s.
    rates: f64,
}

const CONN: super::Conn = 0;

impl Video {
    fn new(params: &Params, setting: Setting) -> Video {
        let segment = params.span("segment");
        Video {
            ladder: params.rates("ladder").to_vec(),
            segment,
            segments: params
                .span("length")
                .as_ns()
                .div_ceil(segment.as_ns().max(1)),
            room: params.span("buffer"),
            start: params.span("start"),
            by_buffer: params.word("abr") == "buffer",
            safety: params.number("safety"),
            samples: params.count("samples") as usize,
            cushion: {
                let room = params.span("buffer").as_s();
                let low = room * params.number("reservoir");
                (low, low + room * params.number("cushion"))
            },
            request: params.bytes("request").get(),
            setting,
            begun: Time::ZERO,
            rung: 0,
            asked: 0,
            whole: 0,
            asked_at: Time::ZERO,
            asks: 0,
            answers: 0,
            size: 0,
            under_way: false,
            answered: true,
            next: None,
            throughputs: VecDeque::new(),
            ahead: Span::ZERO,
            at: Time::ZERO,
            playing: false,
            dry_since: None,
            startup: None,
            stalls: 0,
            stalled: Span::ZERO,
            played: Span::ZERO,
            switches: 0,
            rates: 0.0,
        }
    }

    /// Advances playback to `now`.
    fn play(&mut self, now: Time) {
        let passed = now.since(self.at);
        if self.playing {
            let heard = passed.min(self.ahead);
            self.played = self.played + heard;
            if self.ahead <= passed && self.whole < self.segments {
                if self.ahead < passed {
                    self.playing = false;
                    self.stalls += 1;
                    self.dry_since = Some(self.at + self.ahead);
                }
            } else if self.whole == self.segments && self.ahead <= passed {
                self.playing = false;
            }
            self.ahead = self.ahead - heard;
        }
        self.at = now;
    }
    fn may_play(&mut self, now: Time) {
        let enough = self.ahead >= self.start || self.whole == self.segments;
        if self.playing || !enough {
            return;
        }
        self.playing = true;
        match (self.startup, self.dry_since.take()) {
            (None, _) => self.startup = Some(now.since(self.begun)),
            (_, Some(since)) => self.stalled = self.stalled + now.since(since),
            _ => {}
        }
    }
    /// Requests the next segment, or waits until there is room.
    fn go_on(&mut self, now: Time, todo: &mut Vec<Action>) {
        self.next = None;
        if self.under_way || self.asked == self.segments {
            return;
        }
        let over = (self.ahead + self.segment)
            .as_ns()
            .saturating_sub(self.room.as_ns());
        if over > 0 && self.playing {
            self.next = Some(now + Span::ns(over));
            return;
        }
        let rung = if self.whole == 0 { 0 } else { self.choose() };
        self.switches += u64::from(self.asked > 0 && rung != self.rung);
        self.rung = rung;
        self.size = (self.ladder[rung] * self.segment).get().max(1);
        self.asked += 1;
        self.asked_at = now;
        (self.under_way, self.answered) = (true, false);
        self.asks += self.request;
        self.answers += self.size;
        todo.push(Action::Write {
            conn: CONN,
            from: Side::Client,
            bytes: self.request,
        });
    }
    fn choose(&self) -> usize {
        let highest = |most: f64| {
            let fits = |rate: &Rate| rate.as_bit() as f64 <= most;
            self.ladder.iter().rposition(fits).unwrap_or(0)
        };
        if !self.by_buffer {
            let inverse: f64 = self.throughputs.iter().map(|x| 1.0 / x).sum();
            return highest(self.safety * self.throughputs.len() as f64 / inverse);
        }
        let (low, high) = self.cushion;
        let last = self.ladder.len() - 1;
        let ahead = self.ahead.as_s();
        if ahead <= low {
            return 0;
        }
        if ahead >= high {
            return last;
        }
        let [least, most] = [self.ladder[0], self.ladder[last]].map(|rate| rate.as_bit() as f64);
        let line = least + (most - least) * (ahead - low) / (high - low);
        let at = |rung: usize| self.ladder[rung].as_bit() as f64;
        if line >= at((self.rung + 1).min(last)) {
            highest(line)
        } else if line <= at(self.rung.saturating_sub(1)) {
            self.ladder
                .iter()
                .position(|rate| rate.as_bit() as f64 >= line)
                .unwrap_or(last)
        } else {
            self.rung
        }
    }
    fn arrived(&mut self, now: Time, at: Side, bytes: u64, todo: &mut Vec<Action>) {
        if at == Side::Server {
            if bytes >= self.asks && !self.answered {
                self.answered = true;
                todo.push(Action::Write {
                    conn: CONN,
                    from: Side::Server,
                    bytes: self.size,
                });
            }
            return;
        }
        if bytes < self.answers || !self.under_way {
            return;
        }
        self.under_way = false;
        self.play(now);
        self.whole += 1;
        self.ahead = self.ahead + self.segment;
        self.rates += self.ladder[self.rung].as_mbit();
        let took = now.since(self.asked_at).as_s().max(1e-9);
        if self.throughputs.len() == self.samples {
            self.throughputs.pop_front();
        }
        self.throughputs.push_back(self.size as f64 * 8.0 / took);
        self.may_play(now);
        self.go_on(now, todo);
    }
}

impl Workload for Video {
    fn on_event(&mut self, now: Time, event: Event, todo: &mut Vec<Action>) {
        match event {
            Event::Started => {
                (self.begun, self.at) = (now, now);
                todo.push(Action::Open {
                    conn: CONN,
                    by: Side::Client,
                    answers: true,
                });
            }
            Event::Opened(_) => self.go_on(now, todo),
            Event::Woke => {
                self.play(now);
                self.go_on(now, todo);
            }
            Event::Arrived { at, bytes, .. } => self.arrived(now, at, bytes, todo),
            _ => {}
        }
    }
    fn next_wakeup(&self) -> Option<Time> {
        self.next.filter(|at| *at < self.setting.end)
    }
    fn metrics(&self, end: Time) -> WorkloadMetrics {
        // Playback since the last event, and a stall that is not over.
        let ahead = end.since(self.at);
        let heard = if self.playing {
            ahead.min(self.ahead)
        } else {
            Span::ZERO
        };
        let dries = self.playing && ahead > self.ahead && self.whole < self.segments;
        let dry_since = if dries {
            Some(self.at + self.ahead)
        } else {
            self.dry_since
        };
        let waits = dry_since.map_or(Span::ZERO, |since| end.since(since));
        let metrics = alloc::vec![
            ("segments", Metric::Count(self.whole)),
            (
                "startup_delay_s",
                Metric::Number(self.startup.map_or(f64::NAN, Span::as_s))
            ),
            ("stalls", Metric::Count(self.stalls + u64::from(dries))),
            ("stalled_s", Metric::Number((self.stalled + waits).as_s())),
            (
                "mean_bitrate_mbit",
                Metric::Number(self.rates / self.whole as f64)
            ),
            ("switches", Metric::Count(self.switches)),
            ("played_s", Metric::Number((self.played + heard).as_s())),
        ];
        WorkloadMetrics::new(KIND.name, metrics)
    }
}
