//! LEDBAT++: it uses the capacity that other flows leave, and gives way to flows that need it.

use crate::common::{play, registry};
use narrows_core::scenario::Scenario;
use narrows_sim::{Options, Run, run};

const PATH: &str = "[path]\nrate = \"20Mbit\"\nrtt = \"40ms\"\nbuffer = \"8bdp\"\n";

fn scenario(seconds: u32, flows: &str) -> Scenario {
    let text = format!("duration = \"{seconds}s\"\nstart_jitter = \"0ms\"\n{PATH}{flows}");
    Scenario::from_toml(&text, "ledbat", &registry()).unwrap_or_else(|e| panic!("{e}"))
}

fn flows(seconds: u32, flows: &str) -> Run {
    play(&scenario(seconds, flows))
}

/// Alone, LEDBAT++ keeps 60 ms of queue and loses nothing, while Reno fills the buffer of 320 ms.
#[test]
fn ledbat_keeps_its_target_in_the_queue() {
    let run = |cc: &str| flows(60, &format!("[[flow]]\ncc = \"{cc}\"\n"));
    let (ledbat, reno) = (run("ledbat"), run("reno"));
    assert!(
        (45.0..70.0).contains(&ledbat.queue.delay_ms.p50),
        "{}",
        ledbat.queue.delay_ms.p50
    );
    assert!(
        ledbat.queue.delay_ms.p99 < 80.0,
        "{}",
        ledbat.queue.delay_ms.p99
    );
    assert!(
        reno.queue.delay_ms.p50 > 150.0,
        "{}",
        reno.queue.delay_ms.p50
    );
    assert_eq!(ledbat.flows[0].retransmits, 0);
    assert!(
        ledbat.flows[0].goodput_mbit > 16.0,
        "{}",
        ledbat.flows[0].goodput_mbit
    );
}

/// In competition with CUBIC, LEDBAT++ gets almost no goodput, where Reno gets its share.
#[test]
fn ledbat_yields_to_cubic() {
    let share = |cc: &str| {
        let run = flows(
            60,
            &format!("[[flow]]\ncc = \"{cc}\"\n[[flow]]\ncc = \"cubic\"\n"),
        );
        run.flows[0].goodput_mbit / (run.flows[0].goodput_mbit + run.flows[1].goodput_mbit)
    };
    let (ledbat, reno) = (share("ledbat"), share("reno"));
    assert!(ledbat < 0.1, "{ledbat}");
    assert!(reno > 0.2, "{reno}");
}

/// The share of a second flow that begins 100 s after the first, from 10 s to 100 s after its
/// begin, for each of four seeds.
fn late_share(parameters: &str) -> Vec<f64> {
    let cc = format!("cc = {{ kind = \"ledbat\"{parameters} }}");
    let share = |seed| {
        let run = super::run(&format!(
            "duration = \"200s\"\nwarmup = \"110s\"\nseed = {seed}\n\
             [path]\nrate = \"10Mbit\"\nrtt = \"40ms\"\nbuffer = \"8bdp\"\n\
             [[flow]]\n{cc}\n[[flow]]\n{cc}\nstart = \"100s\"\n"
        ));
        run.flows[1].goodput_mbit / (run.flows[0].goodput_mbit + run.flows[1].goodput_mbit)
    };
    (1..=4).map(share).collect()
}

/// In the slowdowns the late flow sees the queue empty, as the first flow did, so neither flow
/// keeps an advantage.
#[test]
fn latecomers_have_no_advantage() {
    let shares = late_share("");
    assert!(
        shares.iter().all(|share| (0.47..=0.53).contains(share)),
        "{shares:?}"
    );
}

/// Without slowdowns the late flow measures the first flow's queue as part of the path's minimum
/// delay, and gets nearly all of the rate.
#[test]
fn without_slowdowns_the_second_flow_starves_the_first() {
    let shares = late_share(", slowdown_interval = 0");
    assert!(shares.iter().all(|share| *share >= 0.97), "{shares:?}");
}

/// Runs two flows over 100 ms with a buffer of 3 BDP, the second one from 60 s on. Returns the
/// difference of their windows divided by the sum, as the mean over each interval of `times` (in
/// s).
fn lead(rate: &str, host: &str, seed: u64, times: &[(f64, f64)]) -> Vec<f64> {
    let until = times.iter().map(|(_, to)| *to).fold(0.0, f64::max);
    let text = format!(
        "duration = \"{until}s\"\nseed = {seed}\n[host]\n{host}\n\
         [path]\nrate = \"{rate}\"\nrtt = \"100ms\"\nbuffer = \"3bdp\"\n\
         [[flow]]\ncc = \"ledbat\"\n[[flow]]\ncc = \"ledbat\"\nstart = \"60s\"\n"
    );
    let scenario =
        Scenario::from_toml(&text, "ledbat", &registry()).unwrap_or_else(|e| panic!("{e}"));
    let options = Options {
        sample_interval: Some(narrows_core::units::Span::ms(500)),
        ..Options::default()
    };
    let f = run(&scenario, &registry(), &options, &mut |_| true)
        .unwrap()
        .samples
        .flows;
    let window = |flow, (from, to): (f64, f64)| -> f64 {
        let rows = (0..f.len()).filter(|i| f.flow[*i] == flow && (from..to).contains(&f.t_s[*i]));
        rows.map(|i| f64::from(f.cwnd_packets[i])).sum()
    };
    let of = |time: &(f64, f64)| {
        let (first, late) = (window(0, *time), window(1, *time));
        (late - first) / (late + first)
    };
    times.iter().map(of).collect()
}

/// Each flow's window grows by GAIN packets per round trip, and both windows lose the same share,
/// so that their sum W is constant. Their difference therefore decays by the share 2 GAIN/W per
/// round trip. For a tenth of the time the flows are in slowdowns, without such decreases.
#[test]
fn a_lead_decays_with_the_time_constant_of_the_gain() {
    let (rate, rtt, gain) = (50e6, 0.1 + 0.06, 0.5);
    let packets = rate * rtt / (8.0 * 1514.0);
    let constant = packets * rtt / (2.0 * gain);
    let (mut early, mut late) = (0.0, 0.0);
    for seed in 1..=4 {
        let leads = lead(
            "50Mbit",
            "gso = \"off\"",
            seed,
            &[(80.0, 120.0), (200.0, 240.0)],
        );
        early += leads[0];
        late += leads[1];
    }
    let measured = 120.0 / f64::ln(early / late);
    assert!(
        (0.9..1.3).contains(&(measured / constant)),
        "{measured} s for {constant} s"
    );
}

/// The packets of a burst wait behind each other, so the minimum of four RTT samples is the RTT of
/// the burst's first packets. A burst is as large as a millisecond of the flow's rate, so the
/// faster flow's burst takes up to 0.7 ms more. At that rate 2 GAIN/W of the target delay is only
/// 0.05 ms.
#[test]
fn larger_bursts_of_the_faster_flow_keep_its_lead() {
    let late = [(400.0, 600.0)];
    let share = |host| (1.0 + lead("100Mbit", host, 1, &late)[0]) / 2.0;
    let (bursts, segments) = (share(""), share("gso = \"off\""));
    assert!((0.8..0.95).contains(&bursts), "{bursts}");
    assert!((0.45..0.62).contains(&segments), "{segments}");
}

/// The interval from a slowdown to the next is nine times as long as the slowdown.
#[test]
fn slowdowns_come_nine_times_their_length_apart() {
    let options = Options {
        sample_interval: Some(narrows_core::units::Span::ms(5)),
        ..Options::default()
    };
    let run = run(
        &scenario(60, "[[flow]]\ncc = \"ledbat\"\n"),
        &registry(),
        &options,
        &mut |_| true,
    )
    .unwrap();
    let f = &run.samples.flows;
    // A slowdown begins where the window falls to two packets, and ends where the window has its
    // previous value again. The initial window of ten packets does not count.
    let (mut begins, mut ends) = (Vec::new(), Vec::new());
    let mut before = 0;
    for i in (1..f.t_s.len()).filter(|i| f.t_s[*i] > 0.5) {
        if f.cwnd_packets[i] == 2 && f.cwnd_packets[i - 1] > 2 {
            begins.push(f.t_s[i]);
            before = f.cwnd_packets[i - 1];
        } else if ends.len() < begins.len() && f.cwnd_packets[i] >= before {
            ends.push(f.t_s[i]);
        }
    }
    assert!(begins.len() >= 3, "{begins:?} {ends:?}");
    for i in 1..begins.len() {
        let (length, wait) = (ends[i - 1] - begins[i - 1], begins[i] - ends[i - 1]);
        assert!((8.5..9.5).contains(&(wait / length)), "{begins:?} {ends:?}");
    }
}
