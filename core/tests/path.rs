//! A path against closed forms, and what must hold for any arrivals.

use narrows_core::net::path::Path;
use narrows_core::net::{ElementKind, bernoulli, jitter, loss, policer};
use narrows_core::net::{FAR, NEAR, Network, NetworkObserver, Port};
use narrows_core::packet::{Ecn, Packet};
use narrows_core::param::Value;
use narrows_core::queue::fifo::Fifo;
use narrows_core::queue::{Backlog, DropReason, Limit, QueueDiscipline, Sink};
use narrows_core::scenario::{Choice, HopSpec, Link, PathSpec};
use narrows_core::units::{Bytes, Rate, Span, Time};
use proptest::prelude::*;

#[derive(Clone, Debug, PartialEq)]
struct Frame {
    number: u64,
    size: u64,
    joined: bool,
    entered: Time,
}

impl Packet for Frame {
    fn size(&self) -> Bytes {
        Bytes::new(self.size)
    }
    fn enqueued_at(&self) -> Time {
        self.entered
    }
    fn set_enqueued_at(&mut self, now: Time) {
        self.entered = now;
    }
    fn flow_hash(&self, _seed: u64) -> u32 {
        0
    }
    fn joined(&self) -> bool {
        self.joined
    }
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }
    fn set_ce(&mut self) {}
    fn damage(&mut self) {
        self.number += DAMAGED;
    }
}

/// Added to the number of a damaged packet.
const DAMAGED: u64 = 1 << 32;

#[derive(Default, Debug, PartialEq)]
struct Log {
    arrived: Vec<(Time, Port, u64)>,
    departed: Vec<(Time, u64, Span)>,
    /// Time and queueing delay of each departure, also in closed form.
    delays: Vec<(Time, Span)>,
    dropped: Vec<(Time, u64, DropReason)>,
}

impl NetworkObserver<Frame> for Log {
    fn duplicate(&mut self, p: &Frame) -> Option<Frame> {
        Some(p.clone())
    }
    fn dropped(&mut self, now: Time, _hop: u8, p: Frame, reason: DropReason) {
        self.dropped.push((now, p.number, reason));
    }
    fn arrived(&mut self, now: Time, port: Port, p: Frame) {
        self.arrived.push((now, port, p.number));
    }
    fn departed(&mut self, now: Time, _hop: u8, _class: u8, p: &Frame) {
        self.departed
            .push((now, p.number, now.since(p.enqueued_at())));
        self.delays.push((now, now.since(p.enqueued_at())));
    }
    fn have_departed(&mut self, _hop: u8, departures: impl Iterator<Item = (Time, Time)>) {
        self.delays
            .extend(departures.map(|(now, entered)| (now, now.since(entered))));
    }
}

const SERIAL: Link = Link::Serial;
const TBF: Link = Link::Tbf {
    burst: Bytes::new(3000),
    peak: None,
};

/// 8 Mbit/s: a byte per microsecond; 10 ms there, 10 ms back.
fn path(link: Link, limit: Limit, loss: f64, seed: u64) -> Path<Frame> {
    Path::new(&spec(link, loss), vec![Box::new(Fifo::new(limit))], seed)
}

fn spec(link: Link, loss: f64) -> PathSpec {
    hop(link, loss, "superpacket").into()
}

fn hop(link: Link, loss: f64, per: &str) -> HopSpec {
    let set = [
        ("probability", Value::Number(loss)),
        ("per", Value::Word(per.into())),
    ];
    HopSpec {
        link,
        loss: (loss > 0.0).then(|| Choice::new("independent", loss::KINDS[0].params, &set)),
        ..HopSpec::new(Rate::mbit(8), Span::ms(20), Choice::new("fifo", &[], &[]))
    }
}

fn frame(number: u64, size: u64) -> Frame {
    Frame {
        number,
        size,
        joined: false,
        entered: Time::ZERO,
    }
}

fn drain(path: &mut Path<Frame>, log: &mut Log) {
    while let Some(at) = path.next_wakeup() {
        path.poll(at, log);
    }
}

fn burst(link: Link, limit: Limit, n: u64) -> Log {
    let (mut path, mut log) = (path(link, limit, 0.0, 1), Log::default());
    for number in 0..n {
        path.push(Time::ZERO, NEAR, frame(number, 1000), &mut log);
    }
    drain(&mut path, &mut log);
    log
}

fn us(n: u64) -> Time {
    Time::from_ns(n * 1000)
}

#[test]
fn a_packet_needs_its_transmission_and_propagation_time() {
    let log = burst(SERIAL, Limit::Packets(10), 1);
    assert_eq!(log.departed, [(us(1000), 0, Span::ms(1))]);
    assert_eq!(log.arrived, [(us(11_000), FAR, 0)]);
    // A bucket with tokens lets it through as if there were no link.
    let log = burst(TBF, Limit::Packets(10), 1);
    assert_eq!(log.departed, [(us(0), 0, Span::ZERO)]);
    assert_eq!(log.arrived, [(us(10_000), FAR, 0)]);
}

#[test]
fn a_burst_leaves_at_the_rate() {
    let log = burst(SERIAL, Limit::Packets(10), 5);
    assert_eq!(
        log.departed,
        (0..5)
            .map(|i| (us(1000 * (i + 1)), i, Span::ms(i + 1)))
            .collect::<Vec<_>>()
    );
    // The bucket's three packets at once, then one per millisecond.
    let log = burst(TBF, Limit::Packets(10), 6);
    let after = |i: u64| i.saturating_sub(2);
    assert_eq!(
        log.departed,
        (0..6)
            .map(|i| (us(1000 * after(i)), i, Span::ms(after(i))))
            .collect::<Vec<_>>()
    );
}

#[test]
fn packets_beyond_the_limit_are_dropped() {
    // In service: 1. In the buffer: 4 of 1000 B in 4999 B, 3 of them in three places.
    assert_eq!(
        burst(SERIAL, Limit::Bytes(Bytes::new(4999)), 20)
            .dropped
            .len(),
        20 - 1 - 4
    );
    assert_eq!(
        burst(SERIAL, Limit::Packets(3), 20).dropped.len(),
        20 - 1 - 3
    );
    // Through the bucket: 3; the head that waits for tokens is still in its buffer.
    assert_eq!(
        burst(TBF, Limit::Bytes(Bytes::new(4999)), 20).dropped.len(),
        20 - 3 - 4
    );
    assert_eq!(burst(TBF, Limit::Packets(3), 20).dropped.len(), 20 - 3 - 3);
}

#[test]
fn a_packet_bigger_than_the_bucket_never_leaves() {
    let (mut path, mut log) = (path(TBF, Limit::Packets(9), 0.0, 1), Log::default());
    path.push(Time::ZERO, NEAR, frame(0, 3001), &mut log);
    assert_eq!(log.dropped, [(Time::ZERO, 0, DropReason::Overflow)]);
    assert_eq!(path.next_wakeup(), None);
}

#[test]
fn a_reverse_path_without_a_queue_only_delays() {
    let (mut path, mut log) = (path(SERIAL, Limit::Packets(1), 1.0, 1), Log::default());
    for number in 0..3 {
        path.push(us(5), FAR, frame(number, 9999), &mut log);
    }
    drain(&mut path, &mut log);
    assert_eq!(
        log.arrived,
        [
            (us(10_005), NEAR, 0),
            (us(10_005), NEAR, 1),
            (us(10_005), NEAR, 2)
        ]
    );
    assert!(log.departed.is_empty());
}

#[test]
fn random_loss_occurs_before_the_queue() {
    let (mut path, mut log) = (
        path(SERIAL, Limit::Packets(1 << 20), 0.1, 3),
        Log::default(),
    );
    for number in 0..100_000 {
        path.push(Time::ZERO, NEAR, frame(number, 100), &mut log);
    }
    assert!(log.dropped.iter().all(|d| d.2 == DropReason::Loss));
    // Five standard deviations of a binomial.
    assert!(
        log.dropped.len().abs_diff(10_000) < 475,
        "{}",
        log.dropped.len()
    );
}

#[test]
fn a_super_packet_is_lost_as_one() {
    let (mut path, mut log) = (
        path(SERIAL, Limit::Packets(1 << 20), 0.1, 3),
        Log::default(),
    );
    for number in 0..90_000 {
        path.push(
            Time::ZERO,
            NEAR,
            Frame {
                joined: number % 3 != 0,
                ..frame(number, 100)
            },
            &mut log,
        );
    }
    let lost: Vec<u64> = log.dropped.iter().map(|d| d.1).collect();
    assert!(lost.len().abs_diff(9000) < 3 * 260, "{}", lost.len());
    assert!(
        lost.chunks(3)
            .all(|three| three[0] % 3 == 0 && three[2] == three[0] + 2)
    );
}

#[test]
fn loss_per_packet_parts_a_super_packet() {
    let mut spec = spec(SERIAL, 0.1);
    spec.hops[0] = hop(SERIAL, 0.1, "packet");
    let fifo = Box::new(Fifo::new(Limit::Packets(1 << 20)));
    let (mut path, mut log) = (Path::new(&spec, vec![fifo], 3), Log::default());
    for number in 0..90_000 {
        let joined = number % 3 != 0;
        path.push(
            Time::ZERO,
            NEAR,
            Frame {
                joined,
                ..frame(number, 100)
            },
            &mut log,
        );
    }
    let lost: Vec<u64> = log.dropped.iter().map(|d| d.1).collect();
    assert!(lost.len().abs_diff(9000) < 450, "{}", lost.len());
    let whole = lost
        .windows(3)
        .filter(|w| w[0] % 3 == 0 && w[2] == w[0] + 2)
        .count();
    // Three at a time by chance: one super-packet in a thousand.
    assert!(whole < 60, "{whole}");
}

#[test]
fn a_late_poll_keeps_the_rate() {
    let (mut path, mut log) = (path(SERIAL, Limit::Packets(9), 0.0, 1), Log::default());
    for number in 0..3 {
        path.push(Time::ZERO, NEAR, frame(number, 1000), &mut log);
    }
    path.poll(us(2500), &mut log);
    assert_eq!(
        log.departed,
        [(us(1000), 0, Span::ms(1)), (us(2000), 1, Span::ms(2))]
    );
    // Nobody sees the third leave before the first arrives; by then it has left in time.
    assert_eq!(path.next_wakeup(), Some(us(11_000)));
    path.poll(us(11_000), &mut log);
    assert_eq!(log.departed[2], (us(3000), 2, Span::ms(3)));
}

/// Holds every packet until the next whole 5 ms, and does not know its head.
struct Gate {
    open: bool,
    inner: Fifo<Frame>,
    due: Option<Time>,
}

impl QueueDiscipline<Frame> for Gate {
    fn enqueue(&mut self, now: Time, packet: Frame, sink: &mut dyn Sink<Frame>) {
        self.inner.enqueue(now, packet, sink);
        self.open = false;
        self.due = Some(us((now.as_us() / 5000 + 1) * 5000));
    }
    fn dequeue(&mut self, now: Time, sink: &mut dyn Sink<Frame>) -> Option<Frame> {
        if self.open {
            self.inner.dequeue(now, sink)
        } else {
            None
        }
    }
    fn next_wakeup(&self) -> Option<Time> {
        self.due
    }
    fn on_wakeup(&mut self, now: Time, _sink: &mut dyn Sink<Frame>) {
        assert_eq!(self.due.take(), Some(now));
        self.open = true;
    }
    fn backlog(&self) -> Backlog {
        self.inner.backlog()
    }
}

#[test]
fn a_discipline_gets_its_wakeup_in_time() {
    for link in [SERIAL, TBF] {
        let gate = Gate {
            open: false,
            inner: Fifo::new(Limit::Packets(9)),
            due: None,
        };
        let (mut path, mut log) = (
            Path::new(&spec(link, 0.0), vec![Box::new(gate)], 1),
            Log::default(),
        );
        path.push(us(1), NEAR, frame(0, 2000), &mut log);
        path.push(us(2), NEAR, frame(1, 2000), &mut log);
        assert_eq!(path.next_wakeup(), Some(us(5000)));
        path.poll(us(5000), &mut log);
        // One in service, or one that the bucket has taken out: the other waits either way.
        assert_eq!(path.hops().next().unwrap().backlog().packets, 1);
        drain(&mut path, &mut log);
        let at: Vec<_> = log.departed.iter().map(|d| d.0).collect();
        assert_eq!(
            at,
            if link == SERIAL {
                [us(7000), us(9000)]
            } else {
                [us(5000), us(6000)]
            }
        );
    }
}

fn several(rates_mbit: &[u64]) -> Path<Frame> {
    let hops: Vec<HopSpec> = rates_mbit
        .iter()
        .map(|rate| {
            HopSpec::new(
                Rate::mbit(*rate),
                Span::ms(20),
                Choice::new("fifo", &[], &[]),
            )
        })
        .collect();
    let fifos = hops
        .iter()
        .map(|_| Box::new(Fifo::new(Limit::Packets(100))) as _);
    let fifos: Vec<Box<dyn QueueDiscipline<Frame>>> = fifos.collect();
    let spec = PathSpec {
        hops,
        reverse: None,
        offload: false,
        nat: false,
        links: None,
        keys: Default::default(),
    };
    Path::new(&spec, fifos, 1)
}

/// 1000 B take 1 ms at 8 Mbit/s, 2 ms at 4 Mbit/s; 10 ms lie behind each hop.
#[test]
fn hops_follow_each_other() {
    let (mut path, mut log) = (several(&[8, 4, 8]), Log::default());
    for number in 0..5 {
        path.push(Time::ZERO, NEAR, frame(number, 1000), &mut log);
    }
    drain(&mut path, &mut log);
    let arrived: Vec<_> = log.arrived.iter().map(|a| a.0).collect();
    // 1 ms, then one each 2 ms behind the narrowest, then 1 ms, and 30 ms of distance.
    let due: Vec<_> = (0..5)
        .map(|n| us(1000 + 2000 * (n + 1) + 1000 + 30_000))
        .collect();
    assert_eq!(arrived, due);
    // The third of them waits nowhere but before the second hop: it comes a millisecond after the
    // packet before it, which takes two.
    let waits: Vec<_> = log
        .departed
        .iter()
        .filter(|d| d.1 == 2)
        .map(|d| d.2)
        .collect();
    assert_eq!(waits, [Span::ms(3), Span::ms(4), Span::ms(1)]);
    path.push(us(50_000), FAR, frame(9, 66), &mut log);
    drain(&mut path, &mut log);
    assert_eq!(log.arrived.last(), Some(&(us(80_000), NEAR, 9)));
}

/// Hops that are polled late handle every event at its own instant all the same.
#[test]
fn a_late_poll_of_several_hops_keeps_their_times() {
    let (mut one, mut all) = (Log::default(), Log::default());
    let (mut often, mut late) = (several(&[8, 4, 8]), several(&[8, 4, 8]));
    for number in 0..50 {
        often.push(Time::ZERO, NEAR, frame(number, 1000), &mut one);
        late.push(Time::ZERO, NEAR, frame(number, 1000), &mut all);
    }
    drain(&mut often, &mut one);
    late.poll(us(1_000_000), &mut all);
    assert_eq!(one.departed, all.departed);
    assert_eq!(all.arrived.len(), 50);
}

/// 66 B at 52.8 kbit/s: an ACK each 10 ms, behind a queue of three packets.
#[test]
fn the_reverse_path_may_have_its_own_queue() {
    let mut spec = spec(SERIAL, 0.0);
    spec.reverse = Some(HopSpec::new(
        Rate::bit(52_800),
        Span::ZERO,
        Choice::new("fifo", &[], &[]),
    ));
    let fifo = || Box::new(Fifo::new(Limit::Packets(3)));
    let (mut path, mut log) = (Path::new(&spec, vec![fifo(), fifo()], 1), Log::default());
    for number in 0..9 {
        path.push(Time::ZERO, FAR, frame(number, 66), &mut log);
    }
    path.push(Time::ZERO, NEAR, frame(9, 1000), &mut log);
    drain(&mut path, &mut log);
    assert_eq!(log.dropped.len(), 5);
    let back: Vec<_> = log
        .arrived
        .iter()
        .filter(|a| a.1 == NEAR)
        .map(|a| a.0)
        .collect();
    assert_eq!(back, [us(20_000), us(30_000), us(40_000), us(50_000)]);
    assert!(log.arrived.contains(&(us(11_000), FAR, 9)));
}

/// A class of htb dequeues from its discipline when it may send, not before.
#[test]
fn htb_dequeues_no_packet_before_it_may_be_sent() {
    let gate = Gate {
        open: true,
        inner: Fifo::new(Limit::Packets(9)),
        due: None,
    };
    let htb = Link::Htb {
        burst: Bytes::new(1514),
    };
    let (mut path, mut log) = (
        Path::new(&spec(htb, 0.0), vec![Box::new(gate)], 1),
        Log::default(),
    );
    path.push(us(1), NEAR, frame(0, 2000), &mut log);
    path.push(us(2), NEAR, frame(1, 2000), &mut log);
    path.poll(us(5000), &mut log);
    // The first left when the gate opened and owes 486 B; the second waits in the queue itself.
    assert_eq!(log.departed.len(), 1);
    path.poll(us(5485), &mut log);
    assert_eq!(path.hops().next().unwrap().queue().backlog().packets, 1);
    path.poll(us(5486), &mut log);
    assert_eq!(log.departed[1].0, us(5486));
}

fn made(
    kind: &str,
    kinds: &'static [ElementKind],
    set: &[(&'static str, Value)],
) -> Option<Choice> {
    let table = kinds.iter().find(|k| k.name == kind).unwrap().params;
    Some(Choice::new(kind, table, set))
}

fn only(hop: HopSpec, packets: u64) -> (Path<Frame>, Log) {
    let fifo = Box::new(Fifo::new(Limit::Packets(1 << 20)));
    let (mut path, mut log) = (Path::new(&hop.into(), vec![fifo], 3), Log::default());
    for number in 0..packets {
        path.push(Time::ZERO, NEAR, frame(number, 1000), &mut log);
    }
    (path, log)
}

/// Corruption spares the queue nothing; a copy goes right behind the first; both with their
/// probability.
#[test]
fn some_packets_are_damaged_and_some_are_there_twice() {
    let p = |x| [("probability", Value::Number(x))];
    let (mut path, mut log) = only(
        HopSpec {
            corrupt: made("independent", bernoulli::CORRUPT, &p(0.1)),
            duplicate: made("independent", bernoulli::DUPLICATE, &p(0.2)),
            ..hop(SERIAL, 0.0, "packet")
        },
        50_000,
    );
    drain(&mut path, &mut log);
    let numbers: Vec<u64> = log.arrived.iter().map(|a| a.2 % DAMAGED).collect();
    let twice = numbers.windows(2).filter(|two| two[0] == two[1]).count();
    assert_eq!(numbers.len(), 50_000 + twice);
    assert!(
        numbers.is_sorted() && twice.abs_diff(10_000) < 300,
        "{twice}"
    );
    let mut damaged: Vec<u64> = log
        .arrived
        .iter()
        .map(|a| a.2)
        .filter(|n| *n >= DAMAGED)
        .collect();
    damaged.dedup();
    assert!(damaged.len().abs_diff(5000) < 220, "{}", damaged.len());
}

/// A policer drops before the queue, and reports it.
#[test]
fn a_policer_comes_before_the_queue() {
    let set = [
        ("rate", Value::Rate(Rate::mbit(2))),
        ("burst", Value::Bytes(Bytes::new(5000))),
        ("header", Value::Bytes(Bytes::ZERO)),
    ];
    let policed = HopSpec {
        policer: made("police", policer::KINDS, &set),
        ..hop(SERIAL, 0.0, "packet")
    };
    assert_eq!(policed.target(), Rate::mbit(2));
    let (mut path, mut log) = only(policed, 9);
    drain(&mut path, &mut log);
    assert_eq!(log.departed.len(), 5);
    assert!(log.dropped.iter().all(|d| d.2 == DropReason::Policer) && log.dropped.len() == 4);
}

/// Variation lies behind the queue: departures are exact, arrivals within the spread, in order
/// unless they may overtake.
#[test]
fn jitter_lies_behind_the_queue() {
    for ordered in [true, false] {
        let set = [
            ("spread", Value::Span(Span::ms(5))),
            ("ordered", Value::Bool(ordered)),
        ];
        let varying = HopSpec {
            jitter: made("uniform", jitter::KINDS, &set),
            ..hop(SERIAL, 0.0, "packet")
        };
        let (mut path, mut log) = only(varying, 500);
        drain(&mut path, &mut log);
        for (number, departed) in log.departed.iter().enumerate() {
            assert_eq!(departed.0, us(1000 * (number as u64 + 1)));
        }
        for (at, _, number) in &log.arrived {
            let late = at.since(us(1000 * (number + 1)));
            // One that keeps its turn may wait for one that is late.
            let most = if ordered { 30 } else { 15 };
            assert!(
                late >= Span::ms(5) && late <= Span::ms(most),
                "{number}: {late:?}"
            );
        }
        let numbers: Vec<u64> = log.arrived.iter().map(|a| a.2).collect();
        assert_eq!(numbers.is_sorted(), ordered);
        assert_eq!(numbers.len(), 500);
    }
}

proptest! {
    /// Departures that are computed on entry are those of the events.
    #[test]
    fn the_closed_form_of_a_hop_agrees_with_its_general_form(
        arrivals in arrivals(),
        packets in 0u64..30,
        in_bytes: bool,
        polls: bool,
    ) {
        let limit = if in_bytes {
            Limit::Bytes(Bytes::new(packets * 1000))
        } else {
            Limit::Packets(packets)
        };
        let (mut general, waiting) = backlogs(false, polls, limit, &arrivals);
        let (closed, waiting_closed) = backlogs(true, polls, limit, &arrivals);
        prop_assert_eq!(waiting, waiting_closed);
        prop_assert!(closed.departed.is_empty());
        general.departed.clear();
        prop_assert_eq!(general, closed);
    }
}

fn arrivals() -> impl Strategy<Value = Vec<(u64, bool, u64)>> {
    prop::collection::vec(
        (0u64..3_000_000, prop::bool::weighted(0.8), 40u64..2000),
        1..300,
    )
}

/// As [`play`] without loss, with the backlog after each arrival at the hop; `polls`: polled at
/// every wake-up.
fn backlogs(
    closed: bool,
    polls: bool,
    limit: Limit,
    arrivals: &[(u64, bool, u64)],
) -> (Log, Vec<Backlog>) {
    let (mut path, mut log) = (path(SERIAL, limit, 0.0, 1), Log::default());
    if closed {
        path.use_closed_form();
    }
    let (mut now, mut backlogs) = (Time::ZERO, Vec::new());
    for (number, (gap, there, size)) in arrivals.iter().enumerate() {
        // Many arrive at the instant of a departure.
        now += Span::us(gap / 1000);
        while let Some(at) = path.next_wakeup().filter(|at| polls && *at <= now) {
            path.poll(at, &mut log);
        }
        let port = if *there { NEAR } else { FAR };
        path.push(now, port, frame(number as u64, *size), &mut log);
        // A packet in the other direction does not serve the hop.
        if *there {
            backlogs.extend(path.hops().next().map(|hop| hop.backlog()));
        }
    }
    drain(&mut path, &mut log);
    (log, backlogs)
}

/// Pushes each arrival after its gap, polling at every wake-up on the way; checks conservation at
/// each step.
fn play(link: Link, limit: Limit, loss: f64, seed: u64, arrivals: &[(u64, bool, u64)]) -> Log {
    let (mut path, mut log) = (path(link, limit, loss, seed), Log::default());
    let mut now = Time::ZERO;
    for (number, (gap, there, size)) in arrivals.iter().enumerate() {
        now += Span::ns(*gap);
        while let Some(at) = path.next_wakeup().filter(|at| *at <= now) {
            path.poll(at, &mut log);
        }
        let port = if *there { NEAR } else { FAR };
        path.push(now, port, frame(number as u64, *size), &mut log);
        let out = log.arrived.len() + log.dropped.len();
        assert_eq!(number as u64 + 1, out as u64 + path.in_transit());
    }
    drain(&mut path, &mut log);
    assert_eq!(path.in_transit(), 0);
    log
}

proptest! {
    #[test]
    fn packets_are_conserved_and_keep_their_order(
        arrivals in arrivals(), tbf: bool, bytes: bool, limit in 1u64..20, loss in 0.0..0.3,
        seed: u64,
    ) {
        let link = if tbf { TBF } else { SERIAL };
        let limit =
            if bytes { Limit::Bytes(Bytes::new(limit * 500)) } else { Limit::Packets(limit) };
        let log = play(link, limit, loss, seed, &arrivals);
        prop_assert_eq!(log.arrived.len() + log.dropped.len(), arrivals.len());
        for port in [NEAR, FAR] {
            let order: Vec<_> = log.arrived.iter().filter(|a| a.1 == port).map(|a| a.2).collect();
            prop_assert!(order.windows(2).all(|w| w[0] < w[1]));
        }
        prop_assert!(log.arrived.windows(2).all(|w| w[0].0 <= w[1].0));
        // Never above the rate: between any two departures at most the burst more than the rate
        // allows.
        let slack = if tbf { 3000 } else { 0 };
        let mut sent = 0;
        let sizes: Vec<_> = log.departed.iter().map(|d| arrivals[d.1 as usize].2).collect();
        if let Some(first) = log.departed.first() {
            for (d, size) in log.departed.iter().zip(&sizes).skip(usize::from(!tbf)) {
                sent += size;
                prop_assert!(sent * 1000 <= d.0.since(first.0).as_ns() + slack * 1000 + 1);
            }
        }
        prop_assert_eq!(log, play(link, limit, loss, seed, &arrivals));
    }
}
