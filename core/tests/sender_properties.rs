//! The sender under hostile input, and a whole connection over any path.

use crate::pair::{Pair, build_cc, config as ends};
use narrows_core::cc;
use narrows_core::packet::Ecn;
use narrows_core::tcp::wire::{AckMarks, AckSegment, MAX_SACKS, Range, Segment};
use narrows_core::tcp::{EcnNegotiation, MSS, Sender};
use narrows_core::units::{Bytes, Rate, Span, Time};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// The same cases in every run.
fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// A position in the stream, to be resolved against what the sender has out.
#[derive(Copy, Clone, Debug)]
enum Position {
    /// So many bytes after `una`.
    Una(u64),
    /// So many segments after `una`.
    Segments(u64),
    /// So many bytes before, after `nxt`.
    BeforeNxt(u64),
    AfterNxt(u64),
    Any(u64),
}

#[derive(Clone, Debug)]
struct Hostile {
    wait_us: u64,
    timer: bool,
    ack: Position,
    window: u64,
    tsval: u32,
    ace: u8,
    /// ms before now.
    tsecr_age: Option<u32>,
    n_sacks: u8,
    sacks: [(Position, Position); MAX_SACKS],
    syn: bool,
    ece: bool,
}

fn position() -> impl Strategy<Value = Position> {
    prop_oneof![
        3 => (0u64..4000).prop_map(Position::Una),
        6 => (0u64..40).prop_map(Position::Segments),
        3 => (0u64..4000).prop_map(Position::BeforeNxt),
        1 => (0u64..4000).prop_map(Position::AfterNxt),
        1 => any::<u64>().prop_map(Position::Any),
    ]
}

prop_compose! {
    fn hostile()(
        wait_us in prop_oneof![4 => 0u64..3000, 2 => 3000u64..60_000, 1 => 60_000u64..3_000_000],
        timer in prop::bool::weighted(0.8),
        ack in prop_oneof![Just(Position::Una(0)), position()],
        window in prop_oneof![6 => 1u64<<16..1<<22, 1 => Just(0u64), 2 => 0u64..5000,
        1 => Just(u64::MAX), 1 => any::<u64>()],
        // Of a clock that stands at its end: what is older than that may be refused.
        tsval in prop_oneof![6 => (0u32..4).prop_map(|age| u32::MAX - age), 1 => any::<u32>()],
        ace in any::<u8>(),
        tsecr_age in prop::option::weighted(0.9, prop_oneof![4 => 0u32..100, 1 => any::<u32>()]),
        n_sacks in prop_oneof![8 => 0u8..=3, 1 => any::<u8>()],
        sacks in prop::array::uniform3((position(), position())),
        syn in prop::bool::weighted(0.02),
        ece in prop::bool::weighted(0.2),
    ) -> Hostile {
        Hostile { wait_us, timer, ack, window, tsval, ace, tsecr_age, n_sacks, sacks, syn, ece }
    }
}

/// A sender, what it has sent, and what must hold of it at any time.
struct Target {
    now: Time,
    sender: Sender,
    size: Option<u64>,
    nxt: u64,
    segments: u64,
    established: bool,
}

impl Target {
    fn took(&mut self, sent: Vec<Segment>) {
        // No event may let more go than a socket buffer holds.
        assert!(sent.len() < 200_000, "{} segments at once", sent.len());
        for s in sent.iter().filter(|s| s.len > 0) {
            assert!(
                s.len <= MSS && s.seq <= self.nxt,
                "a gap in the stream: {s:?}"
            );
            assert!(
                self.size
                    .is_none_or(|size| s.seq + u64::from(s.len) <= size)
            );
            self.nxt = self.nxt.max(s.seq + u64::from(s.len));
            self.segments += 1;
        }
        let info = self.sender.info();
        assert!(info.bytes_acked <= self.nxt);
        assert!(info.bytes_retrans <= info.bytes_sent);
        assert_eq!(
            info.bytes_sent - info.bytes_retrans,
            self.nxt,
            "new bytes are sent once"
        );
        // A count that fell below zero would be in the thousands of millions.
        assert!(u64::from(info.in_flight) <= 2 * self.segments, "{info:?}");
        assert!(info.cwnd >= 1 && info.cwnd < 1 << 30, "{info:?}");
        assert!(info.ssthresh.is_none_or(|s| s >= 1), "{info:?}");
        if self.nxt > info.bytes_acked {
            assert!(
                self.sender.next_wakeup().is_some(),
                "data outstanding, and no timer: {info:?}"
            );
        }
    }
    fn wait(&mut self, until: Time) {
        let mut fired = 0;
        while let Some(at) = self.sender.next_wakeup().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            let mut sent = Vec::new();
            self.sender.on_timer(self.now, &mut |s| sent.push(s));
            self.took(sent);
            fired += 1;
            assert!(fired < 10_000, "timers without end");
        }
        self.now = until;
    }
    fn at(&self, position: Position) -> u64 {
        let una = self.sender.info().bytes_acked;
        match position {
            Position::Una(n) => una + n,
            Position::Segments(n) => una + n * u64::from(MSS),
            Position::BeforeNxt(n) => self.nxt.saturating_sub(n),
            Position::AfterNxt(n) => self.nxt + n,
            Position::Any(n) => n,
        }
    }
    fn attack(&mut self, h: &Hostile) {
        let until = self.now + Span::us(h.wait_us);
        if h.timer {
            self.wait(until);
        } else {
            // A driver that is late: the ACK comes before the timer is served.
            self.now = until;
        }
        let sacks = h.sacks.map(|(start, end)| Range {
            start: self.at(start),
            end: self.at(end),
        });
        let ms = (self.now.as_us() / 1000) as u32;
        let ack = AckSegment {
            ack: self.at(h.ack),
            window: h.window,
            tsval: h.tsval,
            tsecr: h.tsecr_age.map_or(0, |age| ms.wrapping_sub(age)),
            n_sacks: h.n_sacks,
            sacks,
            syn: h.syn,
            ece: h.ece,
            marks: AckMarks::new(h.ace, Ecn::NotEct),
            ..AckSegment::default()
        };
        let mut sent = Vec::new();
        self.sender
            .on_segment(self.now, &ack, &mut |s| sent.push(s));
        self.established |= h.syn;
        self.took(sent);
    }
}

proptest! {
    #![proptest_config(config(512))]

    #[test]
    fn no_answer_makes_a_sender_lose_its_mind(
        cc in prop::sample::select(&["reno", "cubic", "bbr", "dctcp", "prague"][..]),
        size in prop::option::of(1u64..3_000_000),
        silent: bool,
        ecn: bool,
        attacks in prop::collection::vec(hostile(), 1..120),
    ) {
        let kind = cc::KINDS.iter().find(|k| k.name == cc).unwrap();
        let config = ends().under(kind.signals(), EcnNegotiation::Both);
        let sender = Sender::new(config.into(), build_cc(cc), size.map(Bytes::new));
        let mut t = Target { now: Time::ZERO + Span::ms(1), sender, size, nxt: 0, segments: 0,
            established: false };
        let mut sent = Vec::new();
        t.sender.connect(t.now, &mut |s| sent.push(s));
        t.took(sent);
        if !silent {
            t.wait(t.now + Span::ms(30));
            let answer = AckSegment { syn: true, window: 65_160, ece: ecn,
                ..AckSegment::default() };
            let mut sent = Vec::new();
            t.sender.on_segment(t.now, &answer, &mut |s| sent.push(s));
            t.established = true;
            t.took(sent);
        }
        for h in &attacks {
            t.attack(h);
        }
        // A receiver that is well again: the connection recovers.
        if t.established {
            for _ in 0..30 {
                t.wait(t.now + Span::ms(50));
                let tsecr = (t.now.as_us() / 1000) as u32;
                let ack = AckSegment { ack: t.nxt, window: 1 << 20, tsval: u32::MAX, tsecr,
                    ..AckSegment::default() };
                let mut sent = Vec::new();
                t.sender.on_segment(t.now, &ack, &mut |s| sent.push(s));
                t.took(sent);
            }
            let done = t.sender.finished() || (t.size.is_none_or(|s| s > t.nxt / 2) && t.nxt > 0);
            prop_assert!(done, "{:?} of {size:?}", t.sender.info());
        }
    }
}

/// A path and a transfer over it that does not take for ever.
#[derive(Clone, Debug)]
struct Any {
    cc: &'static str,
    rate: Rate,
    rtt: Span,
    buffer: u64,
    loss: f64,
    /// Of so many packets one is marked.
    mark: Option<u64>,
    size: u64,
    seed: u64,
}

prop_compose! {
    fn any_path()(
        cc in prop::sample::select(&["reno", "cubic", "bbr"][..]),
        // 10 kbit/s to 10 Gbit/s, 10 µs to 2 s, each order of magnitude as likely as the others.
        rate in 4.0..10.0f64, rtt in 1.0..6.3f64,
        frames in 2u64..40, bdp in 0.0..16.0f64, shallow: bool,
        loss in prop_oneof![2 => Just(0.0), 1 => 0.0..0.01f64, 1 => 0.0..0.4f64],
        mark in prop::option::of(1u64..100),
        size in prop_oneof![9 => 0.0..6.5f64, 1 => 6.5..8.0f64], seed: u64,
    ) -> Any {
        let rate = Rate::bit(10f64.powf(rate) as u64);
        let rtt = Span::us(10f64.powf(rtt) as u64);
        let deep = ((rate * rtt).get() as f64 * bdp) as u64;
        let buffer = if shallow { frames * 1514 } else { deep.clamp(2 * 1514, 100_000_000) };
        // At most ten minutes of the path's rate.
        let size = (10f64.powf(size) as u64).min((rate * Span::s(600)).get());
        Any { cc, rate, rtt, buffer, loss, mark, size, seed }
    }
}

proptest! {
    #![proptest_config(config(256))]

    /// Or gets on for a day, where the path is that bad.
    #[test]
    fn a_transfer_finishes_over_any_path(a in any_path()) {
        let mut p = Pair::new(a.cc, a.rate, a.rtt, a.buffer, a.loss, Some(a.size), a.seed);
        p.mark = a.mark;
        let (end, patience) = (Time::ZERO + Span::s(10 * 24 * 3600),
            Time::ZERO + Span::s(24 * 3600));
        let (mut una, mut progress) = (0, Time::ZERO);
        while !p.sender.finished() && p.now < patience {
            prop_assert!(p.step(end), "silent at {:?} with {:?}", p.now, p.sender.info());
            let info = p.sender.info();
            if info.bytes_acked > una {
                (una, progress) = (info.bytes_acked, p.now);
            }
            // Backed off to two minutes, some ten losses in a row: one in ten thousand at 40 %, not
            // one in this test.
            prop_assert!(p.now.since(progress) < Span::s(3600), "no progress since {progress:?}: \
                {info:?}");
            let delivered = p.receiver.delivered_bytes();
            prop_assert!(info.bytes_acked <= delivered && delivered <= a.size);
            prop_assert!(p.sender.finished() || p.sender.next_wakeup().is_some(), "no timer: \
                {info:?}");
        }
        if !p.sender.finished() {
            p.sender.stop();
            while p.step(end) {}
            prop_assert_eq!(p.entered, p.arrived + p.drops());
            return Ok(());
        }
        // Packets in flight arrive, and then nothing happens any more.
        while p.step(end) {}
        let info = p.sender.info();
        prop_assert_eq!((info.bytes_acked, p.receiver.delivered_bytes()), (a.size, a.size));
        prop_assert_eq!(info.bytes_sent - info.bytes_retrans, a.size);
        // Marks are reported, unless the last ACK was sent before.
        prop_assert!(p.marked == 0 || info.delivered_ce > 0 || a.loss > 0.0 || p.drops() > 0);
        prop_assert!(p.marked > 0 || info.delivered_ce == 0);
        prop_assert_eq!(p.entered, p.arrived + p.drops());
        prop_assert_eq!(info.in_flight, 0);
        prop_assert!(p.now < end, "it ends");
    }
}
