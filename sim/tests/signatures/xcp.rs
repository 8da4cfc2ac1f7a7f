//! XCP: routers tell each flow the change of its window, so that the link is full, the queue empty,
//! and the shares equal at any RTT.

use crate::common::{play, registry};
use narrows_core::scenario::Scenario;
use narrows_core::units::Span;
use narrows_sim::{Options, Run, run};

fn scenario(text: &str) -> Scenario {
    Scenario::from_toml(text, "signature", &registry()).unwrap_or_else(|e| panic!("{e}"))
}
/// The goodput of a flow from `from_s` to `to_s`, in Mbit/s.
fn goodput(run: &Run, flow: usize, from_s: f64, to_s: f64) -> f64 {
    let bytes = |at: f64| {
        let series = &run.flows[flow].series;
        series
            .iter()
            .take_while(|point| point.0 <= at)
            .last()
            .map_or(0.0, |point| point.1 as f64)
    };
    (bytes(to_s) - bytes(from_s)) * 8e-6 / (to_s - from_s)
}
/// Runs five flows with RTTs of 20 to 400 ms, each with `cc`.
fn near_and_far(cc: &str, queue: &str) -> Run {
    let mut text = format!(
        "duration = \"90s\"\nwarmup = \"30s\"\n[path]\nrate = \"45Mbit\"\nrtt = \"20ms\"\nbuffer \
         = \"400p\"\nqueue = \"{queue}\"\n"
    );
    for more in [0, 90, 180, 280, 380] {
        text.push_str(&format!("[[flow]]\ncc = \"{cc}\"\nrtt = \"{more}ms\"\n"));
    }
    play(&scenario(&text))
}

/// Figure 5 of the paper at a smaller scale: equal shares for RTTs from 20 to 400 ms, where Reno's
/// shares depend on the RTT.
#[test]
fn short_and_long_rtts_have_equal_shares_without_a_queue() {
    let (xcp, reno) = (near_and_far("xcp", "xcp"), near_and_far("reno", "fifo"));
    let total: f64 = xcp.flows.iter().map(|f| f.goodput_mbit).sum();
    // 97 % of 45 Mbit/s, less headers.
    assert!(total > 0.97 * 45.0 * 1448.0 / 1514.0, "{total}");
    assert!(xcp.fairness.jain > 0.99, "{}", xcp.fairness.jain);
    assert!(xcp.queue.delay_ms.p99 < 5.0, "{:?}", xcp.queue.delay_ms);
    assert_eq!(xcp.queue.drops, 0);
    assert!(reno.fairness.jain < 0.8, "{}", reno.fairness.jain);
    assert!(reno.queue.drops > 0 && reno.queue.delay_ms.p99 > 50.0);
}

/// The window grows from ten to 700 packets within a second without a loss, while Reno's slow start
/// overflows the buffer.
#[test]
fn a_long_fat_path_is_full_within_some_round_trips() {
    let text = |cc: &str, queue: &str| {
        format!(
            "duration = \"10s\"\nstart_jitter = \"0s\"\n[path]\nrate = \"100Mbit\"\nrtt = \
             \"80ms\"\nbuffer = \"1bdp\"\n\
             queue = \"{queue}\"\n[[flow]]\ncc = \"{cc}\"\n"
        )
    };
    let [xcp, reno] =
        [("xcp", "xcp"), ("reno", "fifo")].map(|(cc, queue)| play(&scenario(&text(cc, queue))));
    let soon = goodput(&xcp, 0, 1.0, 2.0);
    assert!(soon > 90.0, "{soon}");
    assert_eq!((xcp.queue.drops, xcp.flows[0].retransmits), (0, 0));
    assert!(reno.queue.drops > 0);
}

/// Five flows begin at the same time. The router allots 0.4 of the free capacity in each round
/// trip, so 0.6 of it stays free. The initial windows use 36 % of the link (at 0.12 s). Four round
/// trips later the link is nearly full, with equal shares all the time.
#[test]
fn five_that_begin_together_fill_the_link_in_four_round_trips() {
    let text = "duration = \"1s\"\nstart_jitter = \"0s\"\n[path]\nrate = \"40Mbit\"\nrtt = \
        \"40ms\"\nbuffer = \"2bdp\"\n\
         queue = \"xcp\"\n[[flow]]\ncc = \"xcp\"\ncount = 5\n";
    let options = Options {
        sample_interval: Some(Span::ms(40)),
        ..Options::default()
    };
    let run = run(&scenario(text), &registry(), &options, &mut |_| true).expect("a run");
    let rows = &run.samples.flows;
    let acked = |tick: usize, flow: u32| {
        let at = (0..rows.t_s.len())
            .find(|i| rows.flow[*i] == flow && (rows.t_s[*i] - 0.04 * tick as f64).abs() < 1e-6);
        at.map_or(0.0, |i| rows.delivered_bytes[i] as f64)
    };
    let during = |tick: usize| {
        (0..5)
            .map(|flow| (acked(tick, flow) - acked(tick - 1, flow)) * 8e-6 / 0.04)
            .collect::<Vec<f64>>()
    };
    let (first, later) = (during(3), during(7));
    let sum = |rates: &[f64]| rates.iter().sum::<f64>();
    let jain = |rates: &[f64]| {
        sum(rates).powi(2) / 5.0 / rates.iter().map(|rate| rate * rate).sum::<f64>()
    };
    assert!((sum(&first) / 40.0 - 0.36).abs() < 0.01, "{first:?}");
    assert!(sum(&later) / 40.0 > 0.9 && jain(&later) > 0.95, "{later:?}");
    assert_eq!(run.queue.drops, 0);
}

/// Two flows use the link. A third flow that begins later has a third of it within ten round trips,
/// and the other two give up as much.
#[test]
fn a_late_flow_gets_its_share_in_some_round_trips() {
    let text = |cc: &str, queue: &str| {
        format!(
            "duration = \"14s\"\nstart_jitter = \"0s\"\n[path]\nrate = \"30Mbit\"\nrtt = \
             \"50ms\"\nbuffer = \"2bdp\"\n\
             queue = \"{queue}\"\n[[flow]]\ncc = \"{cc}\"\ncount = 2\n[[flow]]\ncc = \
             \"{cc}\"\nstart = \"10s\"\n"
        )
    };
    let [xcp, reno] =
        [("xcp", "xcp"), ("reno", "fifo")].map(|(cc, queue)| play(&scenario(&text(cc, queue))));
    let third = 30.0 * 1448.0 / 1514.0 / 3.0;
    for flow in 0..3 {
        let share = goodput(&xcp, flow, 12.0, 14.0) / third;
        assert!((0.9..1.1).contains(&share), "{flow}: {share}");
    }
    assert_eq!(xcp.queue.drops, 0);
    let least = (0..3)
        .map(|flow| goodput(&reno, flow, 12.0, 14.0) / third)
        .fold(f64::MAX, f64::min);
    assert!(least < 0.8, "{least}");
}

/// The paper's theorem: `0 < α < π/(4√2)`, `β = α²√2`. Far beyond this bound the queue oscillates.
#[test]
fn it_is_stable_up_to_the_bound_and_not_beyond() {
    let swing = |alpha: f64| {
        let beta = alpha * alpha * std::f64::consts::SQRT_2;
        let text = format!(
            "duration = \"40s\"\nwarmup = \"10s\"\n[path]\nrate = \"20Mbit\"\nrtt = \
             \"200ms\"\nbuffer = \"2bdp\"\n\
             queue = {{ kind = \"xcp\", alpha = {alpha}, beta = {beta} }}\n[[flow]]\ncc = \
             \"xcp\"\ncount = 4\n"
        );
        let options = Options {
            sample_interval: Some(Span::ms(50)),
            ..Options::default()
        };
        let run = run(&scenario(&text), &registry(), &options, &mut |_| true).expect("a run");
        (
            run.queue.delay_ms.p99,
            run.flows.iter().map(|f| f.goodput_mbit).sum::<f64>(),
        )
    };
    for alpha in [0.2, 0.4, 0.55] {
        let (delay, goodput) = swing(alpha);
        assert!(
            delay < 10.0 && goodput > 0.97 * 20.0 * 1448.0 / 1514.0,
            "{alpha}: {delay} {goodput}"
        );
    }
    let (delay, goodput) = swing(1.5);
    assert!(delay > 50.0 || goodput < 17.0, "{delay} {goodput}");
}

/// A flow that requests less than its share gets it, and the others get the rest.
#[test]
fn no_flow_gets_more_than_it_requests() {
    let text = "duration = \"20s\"\n[path]\nrate = \"20Mbit\"\nrtt = \"40ms\"\nbuffer = \
        \"2bdp\"\nqueue = \"xcp\"\n\
                [[flow]]\ncc = { kind = \"xcp\", rate = \"4Mbit\" }\n[[flow]]\ncc = \"xcp\"\n";
    let run = play(&scenario(text));
    let (little, rest) = (run.flows[0].goodput_mbit, run.flows[1].goodput_mbit);
    assert!((3.4..4.0).contains(&little), "{little}");
    // The unused part of the capacity that shuffling assigns to a limited flow is lost, a few per
    // cent of the link.
    assert!(rest > 14.0, "{rest}");
}

/// Packets without an XCP header do not disturb XCP: the router counts them as input traffic.
#[test]
fn traffic_without_headers_is_accounted_for() {
    let text = "duration = \"20s\"\n[path]\nrate = \"20Mbit\"\nrtt = \"40ms\"\nbuffer = \
        \"1bdp\"\nqueue = \"xcp\"\n\
                [[flow]]\ncc = \"xcp\"\n[[flow]]\ncc = \"cubic\"\n";
    let run = play(&scenario(text));
    assert!(run.flows.iter().map(|f| f.goodput_mbit).sum::<f64>() > 17.0);
    assert!(run.flows[0].goodput_mbit > 0.1);
}

/// Parts of an XCP header are stored outside the packet. Loss, duplicates, corruption and
/// reordering must not assign them to another packet.
#[test]
fn headers_survive_loss_duplication_and_reordering() {
    let text = "duration = \"20s\"\n[path]\nrate = \"20Mbit\"\nrtt = \"40ms\"\nbuffer = \
        \"2bdp\"\nqueue = \"xcp\"\n\
                loss = \"0.1%\"\ncorrupt = \"0.1%\"\nduplicate = \"1%\"\njitter = \
                \"1ms\"\n[host]\nnic = \"50Mbit\"\n\
                [[flow]]\ncc = \"xcp\"\ncount = 2\nsize = \"10MB\"\n";
    let run = play(&scenario(text));
    for flow in &run.flows {
        assert!(flow.fct_s.is_finite(), "{}", flow.id);
    }
}
