//! Policers and token buckets: packet by packet as Linux 6.12, the worked examples of the
//! documents, and what must always hold.

use narrows_core::net::link::TokenBucket;
use narrows_core::net::policer::{Judgement, KINDS, Policer};
use narrows_core::packet::{Ecn, Packet};
use narrows_core::param::{Params, Value};
use narrows_core::units::{Bytes, Rate, Span, Time};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::collections::VecDeque;

#[derive(Clone, Debug)]
struct Frame {
    size: u64,
    dscp: u8,
}

impl Packet for Frame {
    fn size(&self) -> Bytes {
        Bytes::new(self.size)
    }
    fn enqueued_at(&self) -> Time {
        Time::ZERO
    }
    fn set_enqueued_at(&mut self, _: Time) {}
    fn flow_hash(&self, _: u64) -> u32 {
        0
    }
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }
    fn set_ce(&mut self) {}
    fn dscp(&self) -> u8 {
        self.dscp
    }
    fn set_dscp(&mut self, dscp: u8) {
        self.dscp = dscp;
    }
}

fn rate(bits: u64) -> Value {
    Value::Rate(Rate::bit(bits))
}
fn bytes(n: u64) -> Value {
    Value::Bytes(Bytes::new(n))
}
fn word(w: &str) -> Value {
    Value::Word(w.into())
}

/// Parameters of a kind, checked as a scenario's are.
fn params(kind: &str, set: &[(&'static str, Value)]) -> Params {
    let element = KINDS.iter().find(|k| k.name == kind).expect("a kind");
    let mut params = Params::defaults(element.params);
    for (name, value) in set {
        assert!(params.get(name).is_some(), "{kind} has no {name}");
        params.set(name, value.clone());
    }
    params
}
fn policer(kind: &str, set: &[(&'static str, Value)]) -> Policer {
    let params = params(kind, set);
    let element = KINDS.iter().find(|k| k.name == kind).expect("a kind");
    assert_eq!((element.check)(&params), Ok(()));
    Policer::new(kind, &params)
}
fn judge(policer: &mut Policer, ms: u64, size: u64) -> Judgement {
    policer.judge(Time::ZERO + Span::ms(ms), &mut Frame { size, dscp: 0 })
}

/// The lines of a recording: arrival, size, and the third column.
fn recording(text: &str) -> impl Iterator<Item = (Time, u64, &str)> {
    text.lines().filter(|l| !l.starts_with('#')).map(|l| {
        let mut columns = l.split(' ');
        let mut next = || columns.next().expect("a column");
        let (at, size) = (next().parse().expect("ns"), next().parse().expect("bytes"));
        (Time::from_ns(at), size, next())
    })
}

#[test]
fn act_police_judges_every_packet_as_linux() {
    let peak = [
        ("rate", rate(2_000_000)),
        ("burst", bytes(20_000)),
        ("peakrate", rate(4_000_000)),
        ("mtu", bytes(3000)),
    ];
    let odd = [
        ("rate", rate(3_333_333)),
        ("burst", bytes(10_001)),
        ("mtu", bytes(1000)),
    ];
    for (name, text, set) in [
        (
            "drop",
            include_str!("data/net/police-drop.txt"),
            &[("rate", rate(2_000_000)), ("burst", bytes(62_500))][..],
        ),
        ("mtu", include_str!("data/net/police-mtu.txt"), &odd),
        ("peak", include_str!("data/net/police-peak.txt"), &peak),
        (
            "slow",
            include_str!("data/net/police-slow.txt"),
            &[("rate", rate(64_000)), ("burst", bytes(3000))],
        ),
        (
            "tick",
            include_str!("data/net/police-tick.txt"),
            &[("rate", rate(700_000_000)), ("burst", bytes(3010))],
        ),
    ] {
        let mut policer = policer("police", set);
        let (mut packets, mut dropped) = (0, 0);
        for (at, size, verdict) in recording(text) {
            let judged = policer.judge(at, &mut Frame { size, dscp: 0 });
            let recorded = if verdict == "+" {
                Judgement::Pass
            } else {
                Judgement::Drop
            };
            assert_eq!(
                judged, recorded,
                "{name}: packet {packets} of {size} B at {at:?}"
            );
            packets += 1;
            dropped += u32::from(verdict == "-");
        }
        assert!(
            packets >= 200 && dropped >= 9,
            "{name}: {dropped} of {packets} dropped"
        );
    }
}

/// How much earlier and later than recorded a bucket with a queue of `limit` bytes serves the
/// recorded arrivals.
fn replay(text: &str, mut bucket: TokenBucket, limit: u64) -> (Span, Span) {
    let packets: Vec<_> = recording(text).collect();
    let (mut queue, mut waiting) = (VecDeque::new(), 0);
    let mut due = Time::MAX;
    let (mut early, mut late) = (Span::ZERO, Span::ZERO);
    let mut next = 0;
    while next < packets.len() || due < Time::MAX {
        let arrival = packets.get(next).map_or(Time::MAX, |p| p.0);
        let now = arrival.min(due);
        if arrival <= due {
            let (_, size, departure) = packets[next];
            if waiting + size <= limit {
                assert_ne!(departure, "-", "packet {next}");
                queue.push_back(next);
                waiting += size;
            } else {
                assert_eq!(departure, "-", "packet {next}");
            }
            next += 1;
            // The packet at the head has already been rejected; it is not retried before its time.
            if due < Time::MAX && now < due {
                continue;
            }
        }
        due = Time::MAX;
        while let Some(&head) = queue.front() {
            let (_, size, departure) = packets[head];
            if let Err(later) = bucket.take(now, Bytes::new(size)) {
                due = later;
                break;
            }
            queue.pop_front();
            waiting -= size;
            let recorded = Time::from_ns(departure.parse().expect("a departure"));
            early = early.max(recorded.since(now));
            late = late.max(now.since(recorded));
        }
    }
    (early, late)
}

#[test]
fn tbf_serves_every_packet_as_linux() {
    let tbf =
        |mbit: f64, burst| TokenBucket::new(Rate::bit((mbit * 1e6) as u64), Bytes::new(burst));
    let peak = tbf(7.0, 20_000).with_peak(Rate::mbit(11), Bytes::new(1600));
    for (name, text, bucket, limit) in [
        (
            "tbf",
            include_str!("data/net/tbf.txt"),
            tbf(7.0, 20_000),
            40_000,
        ),
        ("peak", include_str!("data/net/tbf-peak.txt"), peak, 60_000),
        (
            "slow",
            include_str!("data/net/tbf-slow.txt"),
            tbf(0.3, 3100),
            20_000,
        ),
    ] {
        let (early, late) = replay(text, bucket, limit);
        // The recorded clock has steps of 256 ns, and its timers come one or two steps late: 0 to
        // 511 ns.
        assert!(early <= Span::ns(600), "{name}: {early:?}");
        // Linux forgets a fraction of a nanosecond at each packet, we do not.
        let packets = recording(text).count() as u64;
        assert!(late <= Span::ns(packets), "{name}: {late:?}");
    }
}

#[test]
fn the_worked_example_with_one_bucket() {
    // Cisco, Traffic Policing: 8000 bit/s, normal burst 1000 B; exceeding is dropped.
    let mut one = policer("cir", &[("cir", rate(8000)), ("bc", bytes(1000))]);
    assert_eq!(judge(&mut one, 0, 450), Judgement::Pass);
    // 0.25 s later there are 800 B.
    assert_eq!(judge(&mut one, 250, 900), Judgement::Drop);
    assert_eq!(judge(&mut one, 250, 800), Judgement::Pass);
}

#[test]
fn the_worked_example_with_two_buckets() {
    // The same, excess burst 1000 B; what exceeds is marked, what violates is dropped.
    let set = [
        ("cir", rate(8000)),
        ("bc", bytes(1000)),
        ("be", bytes(1000)),
        ("exceed", word("af12")),
    ];
    let mut two = policer("cir", &set);
    for (ms, size, judgement) in [
        (0, 450, Judgement::Pass),
        // 800 B in the conform bucket, 900 B come: 100 B stay in the exceed bucket.
        (250, 900, Judgement::Remarked),
        // 400 B came: 1000 B and, spilled over, 300 B.
        (650, 1000, Judgement::Pass),
        (850, 400, Judgement::Drop),
    ] {
        assert_eq!(judge(&mut two, ms, size), judgement, "at {ms} ms");
    }
}

#[test]
fn a_rate_limit_lends_until_the_compounded_debt_is_too_much() {
    // 1000 B/s, 2000 B of normal and 4000 B of extended burst; 2000 B come each second.
    let set = [
        ("cir", rate(8000)),
        ("bc", bytes(2000)),
        ("be", bytes(4000)),
    ];
    let mut car = policer("car", &set);
    // Actual debts of 0, 1, 2, 3, compounded 0, 1, 3, 6: the last is refused. Then 2 again, and
    // compounded it begins anew: 2, 2 + 3, and again.
    let expect = [
        true, true, true, false, true, false, true, false, true, false,
    ];
    for (n, passes) in expect.into_iter().enumerate() {
        let judgement = judge(&mut car, 1000 * n as u64, 2000);
        assert_eq!(judgement == Judgement::Pass, passes, "packet {n}");
    }
    // Nothing is lent where the extended burst is not more than the normal one.
    let mut plain = policer(
        "car",
        &[
            ("cir", rate(8000)),
            ("bc", bytes(2000)),
            ("be", bytes(2000)),
        ],
    );
    assert_eq!(judge(&mut plain, 0, 2000), Judgement::Pass);
    assert_eq!(judge(&mut plain, 1999, 2000), Judgement::Drop);
    assert_eq!(judge(&mut plain, 2000, 2000), Judgement::Pass);
}

#[test]
fn three_colours_have_their_code_points() {
    let marks = [
        ("green", word("recolour")),
        ("yellow", word("recolour")),
        ("red", word("recolour")),
        ("header", bytes(0)),
    ];
    let single = [
        ("cir", rate(8000)),
        ("cbs", bytes(1000)),
        ("ebs", bytes(1000)),
    ];
    let two = [
        ("cir", rate(8000)),
        ("cbs", bytes(1000)),
        ("pir", rate(16_000)),
        ("pbs", bytes(2000)),
    ];
    for (kind, set) in [("srtcm", &single[..]), ("trtcm", &two[..])] {
        let aware = [("aware", Value::Bool(true))];
        let mut policer = policer(kind, &[set, &marks, &aware].concat());
        let mut colour = |dscp| {
            let mut packet = Frame { size: 500, dscp };
            policer.judge(Time::ZERO, &mut packet);
            packet.dscp
        };
        // AF23 stays red and costs nothing; AF22 cannot become green.
        assert_eq!(
            [22, 20, 18, 18].map(&mut colour),
            [22, 20, 18, 18],
            "{kind}"
        );
        // The first bucket is empty, 500 B are left in the second: yellow, and then red.
        assert_eq!([18, 18, 18].map(&mut colour), [20, 22, 22], "{kind}");
        // A code point outside of assured forwarding has no drop precedence to set.
        assert_eq!(colour(46), 46, "{kind}");
    }
}

#[test]
fn missing_keys_are_reported_with_a_valid_value() {
    let refusal = |kind: &str, set: &[(&'static str, Value)]| {
        let element = KINDS.iter().find(|k| k.name == kind).expect("a kind");
        (element.check)(&params(kind, set)).map_err(|r| (r.param, r.fix))
    };
    let err = |param, fix: &str| Err((param, fix.to_string()));
    assert_eq!(refusal("police", &[]), err("rate", "\"2Mbit\""));
    let two = [("rate", rate(2_000_000))];
    assert_eq!(refusal("police", &two), err("burst", "\"62500B\""));
    let peak = [
        two[0].clone(),
        ("burst", bytes(62_500)),
        ("peakrate", rate(4_000_000)),
    ];
    assert_eq!(refusal("police", &peak), err("mtu", "\"1514B\""));
    assert_eq!(
        refusal("srtcm", &[("cir", rate(2_000_000))]),
        err("cbs", "\"62500B\"")
    );
    assert_eq!(
        refusal("srtcm", &[("cir", rate(2_000_000)), ("ebs", bytes(1))]),
        Ok(())
    );
    let below = [
        ("cir", rate(2_000_000)),
        ("cbs", bytes(9000)),
        ("pir", rate(1_000_000)),
        ("pbs", bytes(9000)),
    ];
    assert_eq!(refusal("trtcm", &below), err("pir", "\"4Mbit\""));
    assert_eq!(refusal("trtcm", &below[..2]), err("pir", "\"4Mbit\""));
    assert_eq!(refusal("cir", &[]), err("cir", "\"2Mbit\""));
    assert_eq!(refusal("car", &[("cir", rate(8))]), err("bc", "\"3kB\""));
}

/// Gaps in microseconds and sizes of packets.
fn arrivals() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let gap = prop_oneof![Just(0), 0..2_000_u64, 0..100_000_u64];
    proptest::collection::vec((gap, 46..1515_u64), 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), failure_persistence: None,
    ..ProptestConfig::default() })]
    /// Between any two packets at most rate × time + burst conforms. A rejected packet costs
    /// nothing: a policer that never saw it judges all others in the same way.
    #[test]
    fn a_policer_enforces_its_rate_and_does_not_charge_for_drops(
        arrivals in arrivals(), bits in 10_000..20_000_000_u64, burst in 2_000..60_000_u64,
    ) {
        let single = [("cir", rate(bits)), ("cbs", bytes(burst)), ("yellow", word("drop"))];
        let two = [("cir", rate(bits)), ("cbs", bytes(burst)), ("pir", rate(bits * 3)), ("pbs",
            bytes(2 * burst))];
        // Upper bound of the conforming traffic: a rate and a burst. With two rates yellow passes
        // as well, up to the peak; a debt is paid back.
        for (kind, set, bits, burst) in [
            ("police", &[("rate", rate(bits)), ("burst", bytes(burst))][..], bits, burst),
            ("srtcm", &single, bits, burst),
            ("trtcm", &two, 3 * bits, 2 * burst),
            ("cir", &[("cir", rate(bits)), ("bc", bytes(burst)), ("be", bytes(burst))], bits,
            burst),
            ("car", &[("cir", rate(bits)), ("bc", bytes(burst)), ("be", bytes(2 * burst))], bits,
            3 * burst),
        ] {
            // Two buckets of `cir` and the memory of `car` change with what is refused: yellow is
            // charged, compounding begins anew.
            let forgets = kind != "car" && kind != "cir";
            let header = if matches!(kind, "cir" | "car") { 0 } else { 14 };
            let (mut all, mut kept) = (policer(kind, set), policer(kind, set));
            let mut now = Time::ZERO;
            let mut passed: Vec<(Time, u64)> = Vec::new();
            for &(gap, size) in &arrivals {
                now += Span::us(gap);
                if judge_at(&mut all, now, size) == Judgement::Pass {
                    passed.push((now, size - header));
                    if forgets {
                        prop_assert_eq!(judge_at(&mut kept, now, size), Judgement::Pass);
                    }
                }
            }
            for first in 0..passed.len().min(50) {
                let mut sum = 0;
                for &(at, size) in &passed[first..] {
                    sum += size;
                    let span_ns = u128::from(at.since(passed[first].0).as_ns());
                    let bits_allowed = u128::from(bits) * span_ns / 1_000_000_000;
                    // Linux rounds each packet's time down by less than a nanosecond.
                    let most = bits_allowed / 8 + u128::from(burst) + 1 + passed.len() as u128;
                    prop_assert!(u128::from(sum) <= most, "{}: {} B of {}", kind, sum, most);
                }
            }
        }
    }

    /// No rate, burst or time makes a policer panic.
    #[test]
    fn every_value_is_survived(
        bits in any::<u64>(), burst in 0..2_000_000_000_u64,
        times in proptest::collection::vec(any::<u64>(), 1..20),
    ) {
        for kind in KINDS {
            let mut params = Params::defaults(kind.params);
            for param in kind.params {
                match param.default() {
                    Value::Rate(_) => params.set(param.name, rate(bits)),
                    Value::Bytes(_) => params.set(param.name, bytes(burst)),
                    _ => {}
                }
            }
            let mut policer = Policer::new(kind.name, &params);
            for &at in &times {
                judge_at(&mut policer, Time::from_ns(at), at % 70_000);
            }
        }
    }
}

fn judge_at(policer: &mut Policer, now: Time, size: u64) -> Judgement {
    policer.judge(now, &mut Frame { size, dscp: 0 })
}
