//! Both ends of a flow over a path in memory, in virtual time, and hostile datagrams.

use super::super::terms::{Terms, cc, standard};
use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const KEY: Key = *b"flow key";
const MS: u64 = 1_000_000;

fn end(role: Role, name: &str, budget: &Arc<Budget>) -> Flow {
    end_with(role, (name, Pacer::Timer), budget)
}

fn end_with(role: Role, (name, pacer): (&str, Pacer), budget: &Arc<Budget>) -> Flow {
    let known = standard();
    let cc = cc(&known, Some(name)).unwrap();
    let peer = "192.0.2.1:5201".parse().unwrap();
    let mut flow = Flow::new(role, (cc, pacer), Terms::of(cc), (KEY, peer), 0, budget).unwrap();
    flow.wire.base = 0;
    flow
}

/// A link of one direction: rate, delay, a buffer, and a rule by which it drops datagrams.
struct Link {
    /// Time to send one byte, ns.
    byte: u64,
    delay: u64,
    /// Largest wait for the link, ns.
    buffer: u64,
    /// Whether the datagram with this number is dropped.
    drops: fn(u64) -> bool,
    free: u64,
    number: u64,
    /// Number of datagrams that were passed on before their departure times.
    early: u64,
    transit: BTreeMap<(u64, u64), Outgoing>,
}

impl Link {
    fn new(mbit: u64, drops: fn(u64) -> bool) -> Link {
        Link {
            byte: 8000 / mbit,
            delay: 10 * MS,
            buffer: 20 * MS,
            drops,
            free: 0,
            number: 0,
            early: 0,
            transit: BTreeMap::new(),
        }
    }
    /// Takes a datagram, which the queue discipline of its host keeps until its departure time.
    fn push(&mut self, now: u64, one: Outgoing) {
        let departs = one.departs.unwrap_or(now);
        self.early += u64::from(departs > now);
        let now = now.max(departs);
        self.number += 1;
        if (self.drops)(self.number) || self.free > now + self.buffer {
            return;
        }
        self.free = self.free.max(now) + self.byte * (one.len as u64 + 42);
        self.transit
            .insert((self.free + self.delay, self.number), one);
    }
}

/// Runs both ends for `ms`. Returns the sender and the receiver.
fn run(name: &str, ms: u64, links: (Link, Link), budget: &Arc<Budget>) -> [Flow; 2] {
    run_with((name, Pacer::Timer), ms, links, budget).0
}

/// Runs both ends with this pacer. Also returns the number of datagrams that the sender passed on
/// before their departure times.
fn run_with(
    (name, pacer): (&str, Pacer),
    ms: u64,
    (there, back): (Link, Link),
    budget: &Arc<Budget>,
) -> ([Flow; 2], u64) {
    let unlimited = Budget::new(None, u64::MAX);
    let mut ends = [
        end_with(Role::Sender, (name, pacer), budget),
        end(Role::Receiver, name, &unlimited),
    ];
    let (mut links, mut now) = ([there, back], 0);
    let mut wait = [0; 2];
    while now < ms * MS {
        for at in 0..2 {
            let budget = if at == 0 { budget } else { &unlimited };
            while let Some(first) = links[1 - at].transit.first_entry() {
                if first.key().0 > now {
                    break;
                }
                let one = first.remove();
                let bytes = one.head[..one.head_len].to_vec();
                let class = one.class.unwrap_or(0);
                ends[at].arrive(&bytes, (one.len, class), now, budget);
            }
            wait[at] = ends[at].advance(now, budget).unwrap_or(u64::MAX);
            let out: Vec<Outgoing> = ends[at].wire.out.drain(..).collect();
            out.into_iter().for_each(|one| links[at].push(now, one));
        }
        if ends[0].tripped.is_some() {
            break;
        }
        let arrivals = links.iter().filter_map(|link| link.transit.keys().next());
        let next = arrivals
            .map(|(at, _)| *at)
            .chain(ends.iter().map(Flow::due));
        now = next.chain(wait).min().unwrap().max(now + 1);
    }
    (ends, links[0].early)
}

#[test]
fn departure_times_pace_as_timers_do() {
    // Above `fq`, all flows are paced, so both congestion controls are ones that request pacing.
    for name in ["bbr", "bbr3"] {
        let results = Pacer::ALL.map(|pacer| {
            let path = (Link::new(10, |_| false), Link::new(10, |_| false));
            let unlimited = Budget::new(None, u64::MAX);
            let (ends, early) = run_with((name, pacer), 5000, path, &unlimited);
            let row = ends[0].row(5000 * MS);
            (row.bytes as f64, row.rtt, early)
        });
        let [timer, txtime] = results;
        assert!((txtime.0 / timer.0 - 1.0).abs() < 0.03, "{results:?}");
        assert!(timer.1 < 60_000 && txtime.1 < 60_000, "{results:?}");
        // 5 s are some 4300 segments, most of which the host keeps for a while.
        assert!(timer.2 == 0 && txtime.2 > 3500, "{results:?}");
    }
}

#[test]
fn any_control_fills_the_path_and_loses_nothing() {
    for name in [
        "reno", "cubic", "bbr", "bbr3", "vegas", "copa", "ledbat", "newreno",
    ] {
        let path = (Link::new(10, |_| false), Link::new(10, |_| false));
        let [sender, receiver] = run(name, 5000, path, &Budget::new(None, u64::MAX));
        let mbit = receiver.moved() as f64 * 8.0 / 5e6;
        assert!((7.5..9.7).contains(&mbit), "{name}: {mbit} Mbit/s");
        let row = sender.row(5000 * MS);
        assert!(row.bytes <= receiver.moved() && row.bytes + (1 << 20) > receiver.moved());
        assert!(row.min_rtt >= 20_000 && row.rtt < 60_000, "{name}: {row:?}");
    }
}

#[test]
fn losses_are_repaired() {
    let path = (
        Link::new(10, |n| n % 97 == 0),
        Link::new(10, |n| n % 31 == 0),
    );
    let [sender, receiver] = run("cubic", 3000, path, &Budget::new(None, u64::MAX));
    let row = sender.row(3000 * MS);
    assert!(
        row.retransmits > 10 && row.resent < row.sent / 20,
        "{row:?}"
    );
    assert!(receiver.moved() > 500_000);
}

#[test]
fn the_budget_limits_rate_and_bytes() {
    let path = || (Link::new(100, |_| false), Link::new(100, |_| false));
    let [_, receiver] = run("cubic", 3000, path(), &Budget::new(Some(250_000), u64::MAX));
    let mbit = receiver.moved() as f64 * 8.0 / 3e6;
    assert!((1.7..2.1).contains(&mbit), "{mbit} Mbit/s");
    let [_, receiver] = run("cubic", 1000, path(), &Budget::new(None, 1_000_000));
    assert!(
        (900_000..=1_000_000).contains(&receiver.moved()),
        "{}",
        receiver.moved()
    );
}

#[test]
fn nothing_but_the_handshake_is_sent_to_a_silent_client() {
    let budget = Budget::watched(None, u64::MAX);
    let path = (Link::new(100, |_| false), Link::new(100, |_| false));
    let [sender, receiver] = run("cubic", 1000, path, &budget);
    assert_eq!((sender.moved(), receiver.moved()), (0, 0));
}

#[test]
fn a_path_that_loses_most_packets_ends_the_flow() {
    let path = |drops| (Link::new(100, drops), Link::new(100, |_| false));
    let lossy: fn(u64) -> bool = |n| n > 4 && n % 3 != 0;
    let [sender, _] = run("bbr", 20_000, path(lossy), &Budget::new(None, u64::MAX));
    assert_eq!(sender.tripped, Some(Tripped::Loss));
    let [sender, _] = run(
        "bbr",
        20_000,
        path(|n| n % 4 == 0),
        &Budget::new(None, u64::MAX),
    );
    assert_eq!(sender.tripped, None);
    // After the handshake, nothing arrives any more.
    let [sender, _] = run(
        "bbr",
        20_000,
        path(|n| n > 100),
        &Budget::new(None, u64::MAX),
    );
    assert_eq!(sender.tripped, Some(Tripped::Silence));
}

/// A datagram with the right key, and any other contents.
fn hostile() -> impl Strategy<Value = (Vec<u8>, usize, u8)> {
    let bytes = proptest::collection::vec(any::<u8>(), segment::DATA - 8..80);
    // Places near those in use, so that more than the first check is reached.
    let place = prop_oneof![0..200_000_u64, any::<u64>()];
    let range = proptest::collection::vec(0..200_000_u64, 6);
    (
        bytes,
        place,
        range,
        0..3000_usize,
        any::<u8>(),
        any::<bool>(),
    )
        .prop_map(|(bytes, place, ranges, len, class, ack)| {
            let mut all = KEY.to_vec();
            all.extend(&bytes);
            (all[8], all[9]) = (all[8] & 0b1111 | u8::from(ack) << 4, 0);
            all[10..16].copy_from_slice(&place.to_be_bytes()[2..]);
            for (i, place) in ranges.iter().enumerate() {
                if let Some(to) = all.get_mut(32 + 6 * i..38 + 6 * i) {
                    to.copy_from_slice(&place.to_be_bytes()[2..]);
                }
            }
            if all.len() > 25 {
                (all[24], all[25]) = (all[24] & 0b111, all[25] & 0b11);
            }
            let whole = if ack {
                32 + 12 * usize::from(all.get(25).map_or(0, |n| *n))
            } else {
                len
            };
            all.resize(whole.clamp(segment::DATA, 256), 0);
            (all, whole, class)
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn hostile_datagrams_break_no_end_and_fill_no_memory(
        input in proptest::collection::vec((hostile(), 0..50_u64), 1..200),
    ) {
        let budget = Budget::new(None, u64::MAX);
        for role in [Role::Sender, Role::Receiver] {
            let mut flow = end(role, "cubic", &budget);
            let mut now = 1;
            flow.advance(now, &budget);
            // The handshake is right.
            let syn = Segment { syn: true, ..Segment::default() };
            let answer = AckSegment { syn: true, window: 1 << 20, ..AckSegment::default() };
            let first = match role {
                Role::Sender => (segment::of_ack(&KEY, &answer), 32),
                Role::Receiver => (segment::of_segment(&KEY, &syn), segment::DATA),
            };
            flow.arrive(&first.0, (first.1, 0), now, &budget);
            for ((bytes, len, class), ms) in &input {
                now += ms * MS;
                flow.arrive(bytes, (*len, *class), now, &budget);
                flow.advance(now, &budget);
                let most = flow.terms.config().wmem_max.get() / 1000;
                prop_assert!(flow.wire.out.len() as u64 <= most);
                flow.wire.out.clear();
            }
            if let End::Receiver(receiver) = &flow.end {
                let most = flow.terms.config().rmem_max.get();
                prop_assert!(receiver.waiting_memory() <= most + (1 << 20));
            }
        }
    }
}
