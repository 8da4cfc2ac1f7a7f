//! Rates over time against their integrals; links that follow them; the files that say them.

use narrows_core::net::delivery_trace::DeliveryTrace;
use narrows_core::net::link::{Serial, TokenBucket};
use narrows_core::net::rate_schedule::RateSchedule;
use narrows_core::net::trace::{Trace, TraceError, deliveries, rates};
use narrows_core::units::{Bytes, Rate, Span, Time};
use proptest::prelude::*;

const FULL: Bytes = Bytes::new(1514);
/// Bit-nanoseconds in a byte.
const PER_BYTE: u128 = 8_000_000_000;

fn at(ns: u64) -> Time {
    Time::from_ns(ns)
}
fn ms(n: u64) -> Time {
    at(n * 1_000_000)
}

#[test]
fn a_constant_profile_is_a_product() {
    let schedule = RateSchedule::constant(Rate::mbit(8));
    assert_eq!(schedule.work(ms(3), ms(5)), 1000 * 2 * PER_BYTE);
    assert_eq!(schedule.when(ms(3), 1000 * PER_BYTE), ms(4));
    assert_eq!(schedule.when(ms(3), 1), Time::from_ns(3_000_001));
    assert_eq!(schedule.when(ms(3), 0), ms(3));
    assert_eq!(schedule.mean(Span::s(1)), Rate::mbit(8));
    assert_eq!(schedule.mean(Span::ZERO), Rate::mbit(8));
}

#[test]
fn an_outage_stands_still_and_the_last_rate_holds() {
    let schedule = RateSchedule::new(Rate::mbit(8), &[(ms(20), Rate::mbit(16))]).with_outages(&[
        (ms(5), Span::ms(5)),
        (ms(8), Span::ms(4)),
        (ms(30), Span::ZERO),
    ]);
    assert_eq!(schedule.rate(ms(5)), Rate::bit(0));
    assert_eq!(schedule.rate(ms(12)), Rate::mbit(8));
    assert_eq!(schedule.rate(ms(1 << 40)), Rate::mbit(16));
    // Work that is complete when an outage begins is complete then. The next nanosecond's work is
    // complete only after the outage.
    assert_eq!(schedule.when(Time::ZERO, 5000 * PER_BYTE), ms(5));
    assert_eq!(
        schedule.when(Time::ZERO, 5000 * PER_BYTE + 1),
        at(12_000_001)
    );
    assert_eq!(schedule.when(ms(6), 1), at(12_000_001));
    assert_eq!(
        schedule.mean(Span::ms(40)),
        Rate::bit((13_000 + 40_000) * 8 * 25)
    );
    let over = RateSchedule::constant(Rate::mbit(1)).with_outages(&[(ms(5), Span::ns(u64::MAX))]);
    assert_eq!(over.when(ms(6), 1), Time::MAX);
    assert_eq!(over.when(ms(4), 1_000_000_000_000), ms(5));
}

#[test]
fn a_repetition_comes_again_with_its_outages() {
    let schedule = RateSchedule::new(
        Rate::mbit(8),
        &[(ms(90), Rate::mbit(80)), (ms(200), Rate::mbit(9))],
    )
    .repeating(Span::ms(100))
    .with_outages(&[(ms(40), Span::ms(10)), (ms(95), Span::s(1))]);
    // 80 ms at 1 kB, 5 ms at 10 kB.
    let each = 130_000 * PER_BYTE;
    assert_eq!(schedule.work(ms(0), ms(100)), each);
    assert_eq!(schedule.work(ms(37), ms(100_037)), 1000 * each);
    assert_eq!(schedule.when(ms(95), 1), at(100_000_001));
    assert_eq!(schedule.when(ms(95), 1_000_000 * each), ms(100_000_095));
    assert_eq!(schedule.mean(Span::ZERO), Rate::bit(10_400_000));
    assert_eq!(
        RateSchedule::constant(Rate::bit(0))
            .repeating(Span::s(1))
            .when(ms(1), 1),
        Time::MAX
    );
}

#[test]
fn a_wire_slows_down_in_the_middle_of_a_packet() {
    // A third of 1000 B takes 111 us at 24 Mbit/s, before the rate falls to a third; then the
    // others take 667 us.
    let schedule = RateSchedule::new(Rate::mbit(24), &[(ms(1), Rate::mbit(8))]);
    let mut wire = Serial::following(schedule);
    assert_eq!(
        wire.serve(at(1_000_000 - 111_111), Bytes::new(1000)),
        at(1_666_667)
    );
    let dead = RateSchedule::new(Rate::mbit(8), &[(ms(1), Rate::bit(0))]);
    let mut wire = Serial::following(dead.clone());
    assert_eq!(wire.serve(Time::ZERO, Bytes::new(1000)), ms(1));
    assert_eq!(wire.serve(ms(1), Bytes::new(1)), at(u64::MAX - 1));
    let mut bucket = TokenBucket::new(Rate::mbit(8), Bytes::new(1500)).following(dead);
    assert_eq!(bucket.take(ms(1), Bytes::new(1500)), Ok(()));
    assert_eq!(bucket.take(ms(1), Bytes::new(1)), Err(at(u64::MAX - 1)));
}

#[test]
fn a_million_steps_and_a_million_packets() {
    // A step each 100 us for 100 s; the last packet leaves as the integral requires.
    let steps: Vec<(Time, Rate)> = (1..1_000_000)
        .map(|n| (at(n * 100_000), Rate::mbit(1 + n * 7919 % 200)))
        .collect();
    let schedule = RateSchedule::new(Rate::mbit(5), &steps);
    let mut wire = Serial::following(schedule.clone());
    let now = (0..800_000).fold(ms(3), |now, _| wire.serve(now, FULL));
    let whole = schedule.when(ms(3), 800_000 * 1514 * PER_BYTE);
    assert!(
        whole.since(now) <= Span::ns(1) && now <= whole,
        "{now:?} {whole:?}"
    );
}

/// A schedule and the same as a list of (from, rate) that is looked up naively.
fn any_schedule() -> impl Strategy<Value = (RateSchedule, Vec<u64>, Option<u64>)> {
    let steps = prop::collection::vec(
        (
            0u64..300,
            prop_oneof![2 => Just(0u64), 5 => 1u64..50, 1 => 0u64..3_000_000],
        ),
        0..12,
    );
    let outages = prop::collection::vec((0u64..300, 0u64..60), 0..4);
    (0u64..40, steps, outages, proptest::option::of(1u64..300)).prop_map(
        |(first, steps, outages, period)| {
            let list: Vec<(Time, Rate)> =
                steps.iter().map(|(t, r)| (at(*t), Rate::bit(*r))).collect();
            let dark: Vec<(Time, Span)> = outages
                .iter()
                .map(|(t, l)| (at(*t), Span::ns(*l)))
                .collect();
            let mut schedule = RateSchedule::new(Rate::bit(first), &list);
            if let Some(period) = period {
                schedule = schedule.repeating(Span::ns(period));
            }
            schedule = schedule.with_outages(&dark);
            // The rate in each nanosecond up to the last step and beyond.
            let rate = |t: u64| {
                let dark = outages
                    .iter()
                    .any(|(from, lasts)| (*from..from + lasts).contains(&t));
                let last = steps.iter().filter(|s| s.0 <= t).max_by_key(|s| s.0);
                let newest = last.map(|l| steps.iter().rfind(|s| s.0 == l.0).unwrap().1);
                if dark { 0 } else { newest.unwrap_or(first) }
            };
            let until = period.unwrap_or(400);
            (schedule, (0..until).map(rate).collect(), period)
        },
    )
}

fn naive(rates: &[u64], period: Option<u64>, t: u64) -> u64 {
    match period {
        Some(period) => rates[(t % period) as usize],
        None => rates[(t as usize).min(rates.len() - 1)],
    }
}

proptest! {
    #[test]
    fn the_integral_is_the_sum((schedule, rates, period) in any_schedule(), from in 0u64..900,
        split in 0u64..900, to in 0u64..900) {
        let mut times = [from, split, to];
        times.sort_unstable();
        let [from, split, to] = times;
        let sum: u128 = (from..to).map(|t| u128::from(naive(&rates, period, t))).sum();
        prop_assert_eq!(schedule.work(at(from), at(to)), sum);
        prop_assert_eq!(schedule.work(at(from), at(split)) + schedule.work(at(split), at(to)), sum);
        prop_assert_eq!(schedule.rate(at(to)).as_bit(), naive(&rates, period, to));
        prop_assert_eq!(schedule.work(at(to), at(from)), 0);
    }

    #[test]
    fn when_is_the_first_instant((schedule, rates, period) in any_schedule(), from in 0u64..900,
        work in 1u64..40_000) {
        let end = schedule.when(at(from), u128::from(work));
        if end == Time::MAX {
            prop_assert!(naive(&rates, period, 100_000) == 0 || rates.iter().all(|r| *r == 0));
            prop_assert!(schedule.work(at(from), at(u64::MAX)) < u128::from(work));
        } else {
            prop_assert!(schedule.work(at(from), end) >= u128::from(work));
            prop_assert!(schedule.work(at(from), at(end.as_ns() - 1)) < u128::from(work));
        }
    }

    #[test]
    fn packets_back_to_back_take_the_time_of_their_sum((schedule, ..) in any_schedule(),
        from in 0u64..900, sizes in prop::collection::vec(1u64..3000, 1..40)) {
        // In thousandths of a nanosecond nothing happens: rates are scaled up so that a packet
        // takes some nanoseconds.
        let scaled = |t: u64| schedule.rate(at(t)).as_bit() * 1_000_000_000;
        let steps: Vec<(Time, Rate)> = (1..1000).map(|t| (at(t), Rate::bit(scaled(t)))).collect();
        let fast = RateSchedule::new(Rate::bit(scaled(0)), &steps);
        let mut wire = Serial::following(fast.clone());
        let (mut now, mut sum) = (at(from), 0);
        for size in sizes {
            now = wire.serve(now, Bytes::new(size));
            sum += u128::from(size) * PER_BYTE;
            let whole = fast.when(at(from), sum);
            prop_assert!(now == whole.min(at(u64::MAX - 1)) || now + Span::ns(1) == whole, "{:?} \
                {:?}", now, whole);
            if whole == Time::MAX { break; }
        }
    }

    #[test]
    fn a_constant_profile_serves_as_a_constant_rate(rate in 1u64..200_000_000_000,
        jobs in prop::collection::vec((0u64..3_000_000, 1u64..70_000), 1..60)) {
        let schedule = RateSchedule::constant(Rate::bit(rate));
        let mut wires = (Serial::new(Rate::bit(rate)), Serial::following(schedule.clone()));
        let burst = Bytes::new(70_000);
        let mut buckets = (TokenBucket::new(Rate::bit(rate), burst),
            TokenBucket::new(Rate::bit(1), burst).following(schedule.clone()));
        let mut owing = (TokenBucket::owing(Rate::bit(rate), burst),
            TokenBucket::owing(Rate::bit(1), burst).following(schedule));
        let (mut free, mut now) = (Time::ZERO, Time::ZERO);
        for (gap, size) in jobs {
            let (start, size) = (free + Span::ns(gap.saturating_sub(1_000_000)), Bytes::new(size));
            free = wires.0.serve(start, size);
            prop_assert_eq!(free, wires.1.serve(start, size));
            now += Span::ns(gap);
            prop_assert_eq!(buckets.0.take(now, size), buckets.1.take(now, size));
            prop_assert_eq!(owing.0.take(now, size), owing.1.take(now, size));
        }
    }

    #[test]
    fn no_profile_panics(first: u64, steps in prop::collection::vec((any::<u64>(), any::<u64>()),
        0..5), outages in prop::collection::vec((any::<u64>(), any::<u64>()), 0..3),
                         period in proptest::option::of(any::<u64>()), a: u64, b: u64, work: u128,
                         size: u64) {
        let steps: Vec<_> = steps.into_iter().map(|(t, r)| (at(t), Rate::bit(r))).collect();
        let outages: Vec<_> = outages.into_iter().map(|(t, l)| (at(t), Span::ns(l))).collect();
        let mut schedule = RateSchedule::new(Rate::bit(first), &steps).with_outages(&outages);
        if let Some(period) = period {
            schedule = schedule.repeating(Span::ns(period));
        }
        let (from, to) = (at(a.min(b)), at(a.max(b)));
        let done = schedule.work(from, to);
        prop_assert!(schedule.when(from, done) <= to);
        prop_assert!(schedule.when(from, work) >= from);
        schedule.mean(Span::ns(b));
        let mut wire = Serial::following(schedule.clone());
        let left = wire.serve(from, Bytes::new(size));
        prop_assert!(left >= from.min(at(u64::MAX - 1)) && left < Time::MAX);
        prop_assert!(wire.serve(left, Bytes::new(size)) >= left);
        let mut bucket = TokenBucket::owing(Rate::bit(1), Bytes::new(b)).following(schedule);
        let _ = bucket.take(from, Bytes::new(size));
        let _ = bucket.take(to, Bytes::new(size));
    }

    #[test]
    fn no_file_panics(text in prop_oneof!["[ -~\n]{0,200}",
        "(t_s,rate_mbit\n)?([0-9]{1,25}(\\.[0-9]{0,12})?[,\n]){0,30}", "([0-9]{1,4}\n){0,30}",
        any::<String>()], repeats: bool, now: u64, size: u64) {
        match Trace::read(&text, repeats) {
            Ok(Trace::Rates(schedule)) => {
                schedule.when(at(now), u128::from(size));
            }
            Ok(Trace::Deliveries(mut link)) => {
                let left = link.serve(at(now), Bytes::new(size));
                prop_assert!(left < Time::MAX && (left > at(now) || now > u64::MAX - 2), "{:?}",
                    left);
                prop_assert!(link.serve(left, Bytes::new(size)) >= left);
            }
            Err(TraceError { line, problem, fix }) => {
                prop_assert!(line <= text.lines().count());
                prop_assert!(!problem.is_empty() && problem.len() < 400 && !fix.is_empty());
            }
        }
    }
}

fn link(text: &str) -> DeliveryTrace {
    deliveries(text).unwrap()
}

#[test]
fn a_trace_of_one_line_is_twelve_megabits() {
    // A full frame each millisecond: 1514 B on our wire, 12.112 Mbit/s.
    let mut link = link("1\n");
    assert_eq!(link.mean(), Rate::bit(12_112_000));
    let mut now = at(300_000);
    for n in 1..=1000 {
        now = link.serve(now, FULL);
        assert_eq!(now, ms(n));
    }
}

#[test]
fn bytes_of_opportunities_are_shared_and_carried() {
    let mut link = link("5\n5\n20\n");
    // 1514 B on the wire take the first of 5 ms; then 510 and 504 on TUN take 1014 of the second.
    assert_eq!(link.serve(Time::ZERO, FULL), ms(5));
    assert_eq!(link.serve(ms(5), Bytes::new(520)), ms(5));
    assert_eq!(link.serve(ms(5), Bytes::new(514)), ms(5));
    // 490 B are left of it; a full one takes them and 1014 of the next, at 20 ms.
    assert_eq!(link.serve(ms(5), FULL), ms(20));
    // The 490 left there go to the next packet, and then the first of 25 ms.
    assert_eq!(link.serve(ms(20), Bytes::new(500)), ms(20));
    assert_eq!(link.serve(ms(20), Bytes::new(11)), ms(25));
    // An idle link loses the rest: 26 ms is the second repetition's 45.
    assert_eq!(link.serve(ms(26), FULL), ms(40));
    assert_eq!(link.serve(ms(40), Bytes::new(10 + 3 * 1504)), ms(60));
}

#[test]
fn an_opportunity_serves_only_earlier_arrivals() {
    let mut first = link("0\n10\n");
    // A packet that comes with the opportunity waits for the next; the end of one repetition is the
    // beginning of another.
    assert_eq!(first.serve(Time::ZERO, FULL), ms(10));
    assert_eq!(first.serve(ms(10), FULL), ms(10));
    assert_eq!(first.serve(ms(10), FULL), ms(20));
    assert_eq!(first.serve(ms(30), FULL), ms(40));
    // After any number of repetitions.
    assert_eq!(first.serve(ms(1_000_000_005), FULL), ms(1_000_000_010));
    assert_eq!(first.serve(at(u64::MAX - 5), FULL), at(u64::MAX - 1));
}

#[test]
fn a_saturated_trace_delivers_all_opportunities() {
    let mut seed = 7u64;
    let mut line = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % 5000
    };
    let mut times: Vec<u64> = (0..3000).map(|_| line()).collect();
    times.push(5000);
    times.sort_unstable();
    let text: String = times.iter().map(|t| format!("{t}\n")).collect();
    let mut link = link(&text);
    let mut now = Time::ZERO;
    for repetition in 0..3 {
        // Those at 0 of the first repetition were before anybody came.
        for t in times.iter().filter(|t| repetition > 0 || **t > 0) {
            now = link.serve(now, FULL);
            assert_eq!(now, ms(repetition * 5000 + t));
        }
    }
    assert_eq!(link.mean(), Rate::bit(3001 * 1514 * 8 / 5));
}

#[test]
fn a_table_of_rates_is_parsed() {
    let text = "# a lift\r\nt_s,rate_mbit\r\n0,12\r\n\r\n1.5, 0\r\n2,8.25\r\n";
    let steps = [
        (at(1_500_000_000), Rate::bit(0)),
        (at(2_000_000_000), Rate::bit(8_250_000)),
    ];
    let schedule = RateSchedule::new(Rate::mbit(12), &steps);
    assert_eq!(rates(text, false), Ok(schedule.clone()));
    // The last line lasts as long as the one before: half a second.
    assert_eq!(
        rates(text, true),
        Ok(schedule.clone().repeating(Span::ms(2500)))
    );
    assert_eq!(Trace::read(text, false), Ok(Trace::Rates(schedule)));
    let kbit = rates("\u{feff}t_ms,rate_kbit\n0,500\n", true);
    assert_eq!(kbit, Ok(RateSchedule::constant(Rate::bit(500_000))));
    assert_eq!(
        Trace::read("1\n2", true).unwrap().mean(Span::ZERO),
        Rate::bit(12_112_000)
    );
}

#[test]
fn errors_are_reported_with_line_and_correction() {
    for (text, line, problem, fix) in [
        ("", 0, "is empty", "like `1`"),
        (
            "0,12\n1,13",
            1,
            "`0,12` is not a header",
            "put `t_s,rate_mbit`",
        ),
        ("time,rate\n0,1", 1, "not a header", "`t_s,rate_mbit`"),
        ("rate_mbit,t_s\n0,1", 1, "not a header", "`t_s,rate_mbit`"),
        ("t_s,rate_mbit\n", 1, "no line", "`0,12`"),
        (
            "t_s,rate_mbit\n0,1\n#\n1,2,3",
            4,
            "not a time and a rate",
            "`0.5,12.25`",
        ),
        ("t_s,rate_mbit\n0,5m", 2, "not a time and a rate", "like"),
        ("t_s,rate_mbit\n0,-5", 2, "not a time and a rate", "like"),
        ("t_s,rate_mbit\n0,1e3", 2, "not a time and a rate", "like"),
        ("t_s,rate_mbit\n0,99999999", 2, "out of range", "10 Tbit/s"),
        (
            "t_s,rate_mbit\n0,99999999999999999999999",
            2,
            "too large",
            "10 Tbit/s",
        ),
        ("t_s,rate_mbit\n1,1", 2, "first time is 1", "0"),
        (
            "t_s,rate_mbit\n0,1\n2,1\n2,3",
            4,
            "does not come after",
            "sort",
        ),
        (
            "t_s,rate_mbit\n0,0\n2,0",
            0,
            "no rate is above 0",
            "one line",
        ),
        ("1\n2.5\n", 2, "not a whole number", "`2`"),
        ("1\nx\n", 2, "not a whole number", "`12`"),
        ("1\n-3\n", 2, "not a whole number", "`12`"),
        ("1\n+3\n", 2, "not a whole number", "`12`"),
        ("4\n3\n", 2, "before the line", "sort"),
        ("0\n0\n", 0, "all its times are 0", "`1`"),
        ("99999999999999\n", 1, "later than a year", "beginning"),
    ] {
        let error = Trace::read(text, false).unwrap_err();
        assert_eq!(error.line, line, "{text:?}: {error:?}");
        assert!(
            error.problem.contains(problem) && error.fix.contains(fix),
            "{text:?}: {error:?}"
        );
    }
    let long = "9".repeat(100_000);
    assert!(Trace::read(&long, false).unwrap_err().problem.len() < 200);
}
