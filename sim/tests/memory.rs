//! Heap memory of flows and packets, counted by the allocator.

mod common;
#[path = "common/counting.rs"]
mod counting;

use common::{flow, registry, scenario};
use counting::{Counting, counts};
use narrows_core::metrics::FlowMeter;
use narrows_core::param::Params;
use narrows_core::scenario::{Buffer, Scenario};
use narrows_core::tcp::scoreboard::Seg;
use narrows_core::tcp::{Receiver, Sender};
use narrows_core::units::{Rate, Span, Time};
use narrows_sim::{Options, run};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const NO_SAMPLES: Options = Options {
    sample_interval: None,
    verdicts: 0,
    states: false,
    threads: 1,
};

/// The congestion controls of a list that are registered.
fn ccs() -> impl Iterator<Item = &'static str> {
    let registry = registry();
    ["cubic", "bbr"]
        .into_iter()
        .filter(move |name| registry.cc(name).is_some())
}

fn crowd(cc: &str, flows: usize, rate: Rate, rtt: Span, duration: Span) -> Scenario {
    let mut s = scenario(duration);
    (s.warmup, s.start_jitter) = (Span::ZERO, rtt);
    (
        s.path.hops[0].rate,
        s.path.hops[0].rtt,
        s.path.hops[0].delay_forward,
    ) = (rate, rtt, Span::ns(rtt.as_ns() / 2));
    s.path.hops[0].buffer = Some(Buffer::Bdp(1.0));
    let params = Params::defaults(registry().cc(cc).expect("a registered one").params);
    s.flows = (0..flows).map(|i| flow(&format!("{cc}{i}"), cc)).collect();
    s.flows
        .iter_mut()
        .for_each(|flow| flow.cc.params = params.clone());
    s
}

/// The number of heap allocations between two times of a run, and the number of events between
/// them.
fn allocations(s: &Scenario, from: Time, to: Time) -> (u64, u64) {
    let (mut first, mut last) = (None, None);
    run(s, &registry(), &NO_SAMPLES, &mut |p| {
        if p.now >= from && p.now <= to {
            last = Some((counts().allocations, p.events));
            first = first.or(last);
        }
        true
    })
    .expect("a run");
    let (first, last) = (first.expect("a look"), last.expect("a look"));
    (last.0 - first.0, last.1 - first.1)
}

/// A buffer grows when its length exceeds the previous maximum, which becomes ever rarer and at
/// most doubles it. A tenth of the flows may still grow a buffer once in half a million events.
/// Nothing else may allocate during a run. The time of a buffer's maximum is random, so the test
/// takes the minimum of three seeds.
#[test]
fn packets_allocate_no_heap_memory() {
    for cc in ccs() {
        for (flows, loss, growths) in [(1, 0.0, 0), (10, 0.0, 0), (10, 0.001, 1), (100, 0.001, 10)]
        {
            let mut s = crowd(cc, flows, Rate::mbit(500), Span::ms(20), Span::s(42));
            s.path.hops[0].loss = common::loss(loss);
            // The interval lies between two doublings of the vectors of metrics. A flow needs 40 or
            // 50 bytes per second for samples and about 10 for its series.
            let (from, to) = (Time::ZERO + Span::s(30), Time::ZERO + Span::s(38));
            let mut runs = [1, 2, 3].map(|seed| {
                s.seed = seed;
                allocations(&s, from, to)
            });
            runs.sort_unstable();
            let (allocations, events) = runs[0];
            println!("{flows} {cc}, loss {loss}: {runs:?} (allocations, events)");
            assert!(events > 60_000);
            assert!(
                allocations <= growths,
                "{flows} {cc}, loss {loss}: {allocations} in {events} events"
            );
        }
    }
}

/// Additional heap memory of a flow after three seconds, except the ring of its window: both ends,
/// congestion control, timers and metrics so far. Packets in transit belong to the path, and their
/// number depends little on the number of flows. Rings are the only blocks that are aligned to
/// cache lines. Their capacities are those of all flows at that time.
#[test]
fn the_memory_of_a_flow_is_within_its_limit() {
    println!(
        "sender {} bytes, receiver {}, meter {}",
        std::mem::size_of::<Sender>(),
        std::mem::size_of::<Receiver>(),
        std::mem::size_of::<FlowMeter>()
    );
    for cc in ccs() {
        let live = |flows| {
            let s = crowd(cc, flows, Rate::mbit(1000), Span::ms(50), Span::s(3));
            let before = counts();
            let (mut beside, mut rings) = (0, 0);
            run(&s, &registry(), &NO_SAMPLES, &mut |_| {
                let now = counts();
                rings = now.in_lines - before.in_lines;
                beside = now.live - before.live - rings;
                true
            })
            .expect("a run");
            (beside as i64, rings as i64)
        };
        let ((more, more_rings), (less, less_rings)) = (live(2000), live(1000));
        let (beside, rings) = ((more - less) / 1000, (more_rings - less_rings) / 1000);
        println!("{cc}: {beside} bytes for each flow, and {rings} for the ring of its window");
        // The smallest ring has 16 segments.
        assert!(less_rings >= 1000 * 16 * std::mem::size_of::<Seg>() as i64);
        assert!(beside <= 2048, "{cc}: {beside}");
    }
}

/// Twenty thousand connections begin and end, few at the same time. The memory that they allocated
/// is freed or used again.
#[test]
fn short_connections_release_their_memory() {
    let text = "duration = \"450s\"\nwarmup = \"0s\"\n[path]\nrate = \"100Mbit\"\nrtt = \
        \"20ms\"\n[[flow]]\n\
                workload = { kind = \"poisson\", load = \"4Mbit\", mean = \"10kB\", sizes = \
                \"exponential\" }\n";
    let registry = registry();
    let scenario = Scenario::from_toml(text, "short", &registry).expect("right");
    let mut live = Vec::new();
    let before = counts().live;
    let done = run(&scenario, &registry, &NO_SAMPLES, &mut |p| {
        live.push((p.now, counts().live - before));
        true
    })
    .expect("a run");
    let workload = done.flows[0].workload.as_ref().expect("one");
    let completed = workload.number("completed");
    assert!(completed > 20_000.0, "{completed}");
    // The table of completed transfers is a result. Its vector doubles when it is full.
    let table = |s: u64| {
        let is_complete = |(start, _, fct): &&(f64, u64, f64)| start + fct <= s as f64;
        let rows = workload.transfers.iter().filter(is_complete).count();
        (rows.next_power_of_two() * std::mem::size_of::<(f64, u64, f64)>()) as u64
    };
    let at = |s: u64| {
        let (_, live) = live
            .iter()
            .find(|(now, _)| *now >= Time::ZERO + Span::s(s))
            .expect("a look");
        live - table(s)
    };
    // Except for connections and that table, only metrics grow, by about 112 bytes per second. A
    // vector that outgrows its capacity doubles it.
    assert!(
        at(400) < at(50) + 110_000,
        "{} after 50 s, {} after 400 s",
        at(50),
        at(400)
    );
    assert!(at(400) < 1_500_000, "{}", at(400));
}
