//! A Wi-Fi behind a path: the slower of both parts is the bottleneck, and behaves as without the
//! other one.

use narrows_core::engine::Run;
use narrows_core::registry::Registry;
use narrows_core::scenario::Scenario;
use narrows_sim::{Options, Packet};

const FLOWS: &str = "[[flow]]\ncc = \"cubic\"\ncount = 4\n";
const WAN: &str = "rtt = \"30ms\"\nqueue = \"fq_codel\"\n";

fn read(text: &str) -> Scenario {
    let registry = Registry::<Packet>::standard();
    let text = format!("duration = \"30s\"\nwarmup = \"5s\"\n{text}");
    Scenario::from_toml(&text, "test", &registry).unwrap_or_else(|e| panic!("{e}"))
}

fn play(text: &str) -> Run {
    let options = Options {
        sample_interval: None,
        ..Options::default()
    };
    let registry = Registry::standard();
    narrows_sim::run(&read(text), &registry, &options, &mut |_| true).unwrap()
}

fn goodput(run: &Run) -> f64 {
    run.flows.iter().map(|flow| flow.goodput_mbit).sum()
}

fn wifi(stack: &str, rtt: &str) -> String {
    format!(
        "[wifi]\nstack = \"{stack}\"\n[[wifi.station]]\nname = \"a\"\nmcs = 15\nrtt = \"{rtt}\"\n"
    )
}

fn close(measured: f64, expected: f64, what: &str) {
    assert!(
        (measured / expected - 1.0).abs() < 0.02,
        "{what}: {measured}, not {expected}"
    );
}

/// A path of a fifth of the Wi-Fi's rate has the goodput and the queueing delay that it has alone.
#[test]
fn a_slow_path_is_the_bottleneck() {
    let path = format!("[path]\nrate = \"20Mbit\"\n{WAN}");
    let alone = play(&format!("{path}{FLOWS}"));
    for stack in ["airtime", "fq_mac", "before"] {
        let run = play(&format!("{path}{}{FLOWS}", wifi(stack, "0ms")));
        close(goodput(&run), goodput(&alone), stack);
        assert_eq!(run.queue.name, "path");
        let (with, without) = (run.queue.delay_ms.mean, alone.queue.delay_ms.mean);
        assert!(
            (with / without - 1.0).abs() < 0.2,
            "{stack}: mean queueing delay {with} ms, {without} ms without the Wi-Fi"
        );
        let link = run.queue.link.unwrap();
        assert!(link.utilisation > 0.98, "{stack}: {link:?}");
        let waited: f64 = run.queues[..2].iter().map(|q| q.delay_ms.mean).sum();
        assert!(waited < 1.0, "{stack}: {waited} ms before the air");
    }
}

/// Behind a path of ten times its rate, a Wi-Fi has the goodput that it has without the path, if
/// the RTT is the same.
#[test]
fn a_slow_wifi_is_the_bottleneck() {
    for stack in ["airtime", "fq_mac", "before"] {
        let alone = play(&format!("{}{FLOWS}", wifi(stack, "30ms")));
        let run = play(&format!(
            "[path]\nrate = \"2Gbit\"\n{WAN}{}{FLOWS}",
            wifi(stack, "0ms")
        ));
        close(goodput(&run), goodput(&alone), stack);
        assert_eq!(run.queue.name, alone.queue.name);
        assert!(run.queues[4].delay_ms.mean < 1.0, "{:?}", run.queues[4]);
        assert_eq!(run.queues[4].drops, 0);
    }
}

/// Uploads: the reverse hop of the path is the bottleneck if it is slow.
#[test]
fn uploads_cross_the_reverse_hop() {
    let path = format!("[path]\nrate = \"500Mbit\"\n{WAN}reverse = {{ rate = \"10Mbit\" }}\n");
    let flows = format!("{FLOWS}direction = \"up\"\n");
    let alone = play(&format!("{path}{flows}"));
    let run = play(&format!("{path}{}{flows}", wifi("airtime", "0ms")));
    close(goodput(&run), goodput(&alone), "up");
    assert_eq!(run.queues[5].name, "reverse");
}

/// Without load, the RTT of a ping is the sum of both distances and the time of the transmissions.
#[test]
fn distances_are_added() {
    let run = play(&format!(
        "[path]\nrate = \"1Gbit\"\n{WAN}{}[[probe]]\nkind = \"ping\"\ninterval = \"20ms\"\n",
        wifi("airtime", "10ms")
    ));
    let probe = &run.probes[0];
    // The responses to the last two pings would arrive after the end.
    assert!(probe.received + 3 >= probe.sent, "{probe:?}");
    assert!(
        (40.0..41.0).contains(&probe.rtt_ms.p50),
        "{:?}",
        probe.rtt_ms
    );
    assert!((run.scenario.path.rtt().as_ms() - 40.0).abs() < 1e-9);
}

/// The written scenario is the same scenario.
#[test]
fn the_path_is_written() {
    let text = format!(
        "[path]\nrate = \"20Mbit\"\n{WAN}{}{FLOWS}",
        wifi("airtime", "5ms")
    );
    let scenario = read(&text);
    let registry = Registry::<Packet>::standard();
    let again = Scenario::from_toml(&scenario.to_toml(), "again", &registry).unwrap();
    assert_eq!(again, scenario);
}
