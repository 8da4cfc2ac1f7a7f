//! What applications see on paths where it can be worked out by hand.

use narrows_core::figures::{Figure, Run, WorkloadFigures};
use narrows_core::registry::Registry;
use narrows_core::scenario::Scenario;
use narrows_sim::Options;

/// Runs a scenario; nothing is sampled.
fn run(text: &str) -> Run {
    let registry = Registry::standard();
    let scenario = Scenario::from_toml(text, "test", &registry).unwrap_or_else(|e| panic!("{e}"));
    let options = Options {
        sample_interval: None,
        verdicts: 0,
    };
    narrows_sim::run(&scenario, &registry, &options, &mut |_| true).unwrap()
}

/// The first flow's application.
fn of(run: &Run) -> &WorkloadFigures {
    run.flows[0].workload.as_ref().unwrap()
}

/// One flow on a path so fast that only round trips count.
fn fast(rtt: &str, seconds: u32, flow: &str) -> Run {
    run(&format!(
        "duration = \"{seconds}s\"\nwarmup = \"0s\"\nstart_jitter = \"0s\"\n[path]\nrate = \"100Gbit\"\nrtt = \"{rtt}\"\n\
         [[flow]]\n{flow}\n"
    ))
}

#[test]
fn datagrams_leave_at_exactly_the_rate_asked_for() {
    let one = fast(
        "40ms",
        10,
        "workload = { kind = \"udp\", rate = \"2Mbit\", packet = \"1000B\" }",
    );
    // 250 a second, the first at 0.
    assert_eq!(
        (of(&one).number("sent_packets"), of(&one).number("received_packets")),
        (2500.0, 2500.0)
    );
    assert_eq!((of(&one).number("received_mbit"), of(&one).number("loss")), (2.0, 0.0));
    let delay = of(&one).quantiles("delay_ms").unwrap();
    assert!((delay.p50 - 20.0).abs() < 0.1 && of(&one).number("jitter_ms") < 1e-3);
    let burst = fast(
        "40ms",
        10,
        "workload = { kind = \"bursty\", rate = \"2Mbit\", packet = \"1000B\" }",
    );
    assert_eq!(of(&burst).number("sent_packets"), 2475.0, "ninety-nine bursts of 25");
    assert_eq!(burst.flows[0].cc, "udp");
}

#[test]
fn datagrams_that_do_not_fit_are_lost_and_nothing_else_is() {
    let one = run(
        "duration = \"20s\"\nwarmup = \"4s\"\n[path]\nrate = \"1514kbit\"\nrtt = \"10ms\"\nbuffer = \"20p\"\n\
                   [[flow]]\nworkload = { kind = \"udp\", rate = \"2944kbit\", packet = \"1472B\" }\n",
    );
    // 250 frames of 1514 bytes a second, and 125 pass.
    let loss = of(&one).number("loss");
    assert!((loss - 0.5).abs() < 1e-3, "{loss}");
    let mbit = of(&one).number("received_mbit");
    assert!((mbit - 1.472).abs() < 0.003, "{mbit}");
}

#[test]
fn an_on_off_source_sends_its_rate_for_its_share_of_the_time() {
    for transport in ["udp", "tcp"] {
        let one = fast(
            "2ms",
            2000,
            &format!(
                "workload = {{ kind = \"on_off\", rate = \"1Mbit\", on = \"100ms\", off = \"300ms\", transport = \"{transport}\" }}"
            ),
        );
        let (share, mbit) = (of(&one).number("on_share"), of(&one).number("received_mbit"));
        assert!((mbit - share).abs() < 1e-3, "{transport}: {mbit} of a share of {share}");
        // 5000 cycles: the share's deviation is some 0.25 · √(2 · (3/4)² / 5000).
        assert!((share - 0.25).abs() < 4.0 * 0.0038, "{share}");
    }
}

#[test]
fn poisson_transfers_come_to_the_load_asked_for() {
    let one = fast(
        "2ms",
        2000,
        "workload = { kind = \"poisson\", load = \"4Mbit\", mean = \"10kB\", sizes = \"exponential\" }",
    );
    // 50 a second for 2000 s, of exponential sizes: √(2 / 100 000) of deviation.
    let asked = of(&one).number("asked");
    assert!((asked / 1e5 - 1.0).abs() < 4.0 / 1e5f64.sqrt(), "{asked}");
    let mbit = of(&one).number("asked_mbit");
    assert!((mbit / 4.0 - 1.0).abs() < 4.0 * (2.0 / 1e5f64).sqrt(), "{mbit}");
    assert!(of(&one).number("completed") >= asked - 2.0);
    assert!((one.flows[0].goodput_mbit / mbit - 1.0).abs() < 1e-3);
}

#[test]
fn a_transfer_of_one_window_takes_a_round_trip_and_a_half() {
    let one = fast(
        "100ms",
        60,
        "workload = { kind = \"poisson\", load = \"1Mbit\", mean = \"14480B\", sizes = \"fixed\" }",
    );
    let took = of(&one).quantiles("completion_ms").unwrap();
    assert!(
        (took.mean - 150.0).abs() < 0.5 && (took.p99 - 150.0).abs() < 0.7,
        "{took:?}"
    );
}

/// Seconds that one page takes at 100 ms.
fn page(flow: &str) -> f64 {
    let one = fast("100ms", 120, &format!("workload = {{ kind = \"web\", {flow} }}"));
    assert_eq!(of(&one).number("pages"), 1.0, "{flow}");
    of(&one).quantiles("page_load_s").unwrap().mean
}

#[test]
fn a_page_on_an_empty_path_takes_its_round_trips() {
    let trips = |flow: &str, n: f64| {
        let took = page(flow) / 0.1;
        // Ticks of a millisecond, and what a hundred gigabits take.
        assert!((took - n).abs() < 0.03, "{flow}: {took} round trips instead of {n}");
    };
    let ten = "objects = 10, total = \"100kB\", spread = \"even\"";
    // One look-up; then of each object TCP, TLS and its request.
    trips(
        &format!("{ten}, fetch = \"sequential\", dns = false, tls = 0"),
        10.0 * 2.0,
    );
    trips(&format!("{ten}, fetch = \"sequential\", tls = 0"), 1.0 + 10.0 * 2.0);
    trips(&format!("{ten}, fetch = \"sequential\""), 1.0 + 10.0 * 3.0);
    trips(&format!("{ten}, fetch = \"sequential\", tls = 2"), 1.0 + 10.0 * 4.0);
    trips(&format!("{ten}, fetch = \"sequential\", hosts = 3"), 3.0 + 10.0 * 3.0);
    trips(
        &format!("{ten}, fetch = \"sequential\", keepalive = true"),
        1.0 + 2.0 + 10.0,
    );
    // The first alone, after 4. Two more on its connection until, after 6, five others are there: six at once, then one.
    trips(&format!("{ten}, fetch = \"parallel\""), 1.0 + 3.0 + 2.0 + 1.0 + 1.0);
    // 70 segments are an initial window of 10, then 20, then 40.
    trips(
        "sizes = [\"100kB\"], fetch = \"sequential\", dns = false, tls = 0",
        2.0 + 2.0,
    );
    trips(
        "sizes = [\"14480B\"], fetch = \"sequential\", dns = false, tls = 0",
        2.0,
    );
    trips(
        "sizes = [\"14481B\"], fetch = \"sequential\", dns = false, tls = 0",
        3.0,
    );
}

#[test]
fn the_share_of_setting_up_is_that_of_its_round_trips() {
    let one = fast(
        "100ms",
        30,
        "workload = { kind = \"web\", objects = 10, total = \"100kB\", spread = \"even\", fetch = \"sequential\" }",
    );
    let share = of(&one).number("setup_share");
    assert!((share - 21.0 / 31.0).abs() < 1e-3, "{share}");
    assert!(of(&one).number("before_data_share") > 0.999);
    let whole = ["setup_s", "waiting_s", "receiving_s"].map(|name| of(&one).number(name));
    let load = of(&one).quantiles("page_load_s").unwrap().mean;
    assert!((whole.iter().sum::<f64>() - load).abs() < 1e-9);
}

#[test]
fn a_lost_question_is_asked_again_after_five_seconds() {
    let lossy = "duration = \"600s\"\nwarmup = \"0s\"\n[path]\nrate = \"100Mbit\"\nrtt = \"20ms\"\n\
                 loss = { probability = \"30%\", per = \"packet\" }\n\
                 [[flow]]\nworkload = { kind = \"web\", sizes = [\"1kB\"], tls = 0, pages = 100, think = \"0s\" }\n";
    let one = run(lossy);
    let load = of(&one).quantiles("page_load_s").unwrap();
    assert_eq!(of(&one).number("pages"), 100.0);
    // A look-up's answer, a SYN-ACK, the page: what is lost costs 5 s, 1 s, or a timeout.
    assert!(load.p95 > 5.0 && load.p50 < 1.1, "{load:?}");
}

#[test]
fn a_flow_stops_and_starts_when_it_is_told() {
    let one = fast(
        "10ms",
        10,
        "start = \"2s\"\nstop = \"6s\"\nworkload = { kind = \"udp\", rate = \"800kbit\", packet = \"1000B\" }",
    );
    assert_eq!(of(&one).number("sent_packets"), 400.0);
    assert_eq!(of(&one).number("received_mbit"), 0.8);
    // The last ones were under way when it stopped.
    assert!(
        (one.flows[0].goodput_mbit - 0.8).abs() < 0.003,
        "{}",
        one.flows[0].goodput_mbit
    );
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let text = |seed: u64| {
        format!(
            "duration = \"5s\"\nseed = {seed}\n[path]\nrate = \"10Mbit\"\nrtt = \"20ms\"\nqueue = \"fq_codel\"\n\
             [path.reverse]\nrate = \"2Mbit\"\n\
             [[flow]]\nworkload = \"poisson\"\n[[flow]]\nworkload = \"web\"\n[[flow]]\nworkload = \"on_off\"\n\
             [[flow]]\nworkload = {{ kind = \"web\", fetch = \"sequential\" }}\ndirection = \"up\"\n[[flow]]\ncc = \"bbr\"\n"
        )
    };
    let json = |seed| run(&text(seed)).to_json("", &serde_json::Value::Null, None);
    assert_eq!(json(1), json(1));
    assert_ne!(json(1), json(2));
}

#[test]
fn a_scenario_with_workloads_reads_back_as_it_was_written() {
    let registry: Registry<narrows_sim::Packet> = Registry::standard();
    let text = "duration = \"5s\"\n[path]\nrate = \"10Mbit\"\nrtt = \"20ms\"\n[path.reverse]\nrate = \"2Mbit\"\n\
                [[flow]]\nworkload = { kind = \"web\", sizes = [\"3kB\", \"1MB\"] }\n[[flow]]\nworkload = \"udp\"\n\
                [[flow]]\nworkload = \"poisson\"\ncc = \"bbr\"\n";
    let one = Scenario::from_toml(text, "test", &registry).unwrap();
    assert_eq!(Scenario::from_toml(&one.to_toml(), "test", &registry).unwrap(), one);
    assert_eq!(
        one.flows.iter().map(|f| f.id.as_str()).collect::<Vec<_>>(),
        ["web0", "udp0", "poisson0"]
    );
}

/// The Figure type is what every kind's figures are made of; classes are rows of it.
#[test]
fn completion_times_are_told_by_size() {
    let one = fast("10ms", 100, "workload = { kind = \"poisson\", load = \"20Mbit\" }");
    let Some(Figure::Rows(rows)) = of(&one).get("by_size") else {
        panic!("no rows");
    };
    let names: Vec<_> = rows.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["to_10kB", "to_100kB", "to_1MB", "above_1MB"]);
    let p50 = |i: usize| match &rows[i].1[1].1 {
        Figure::Quantiles(q) => q.p50,
        _ => f64::NAN,
    };
    assert!(p50(1) < p50(2) && p50(2) < p50(3));
}

/// The file without the flows behind the first.
fn alone(text: &str) -> String {
    let second = text.rfind("[[flow]]").unwrap();
    text[..second].into()
}

/// Measured with wget: 8 s alone, 232.8 s beside twelve streams. The network's rate is not told; its round trip follows from
/// the 8 s, and the queue of a second from what else was measured.
#[test]
fn a_page_that_takes_eight_seconds_takes_minutes_beside_a_second_of_queue() {
    let text = include_str!("../../scenarios/workload/page-beside-a-download.toml");
    for seed in 1..=3 {
        let seeded = |text: &str| format!("seed = {seed}\n{text}");
        let load = |run: &Run| of(run).quantiles("page_load_s").unwrap().mean;
        let (idle, busy) = (run(&seeded(&alone(text))), run(&seeded(text)));
        assert!((6.0..10.0).contains(&load(&idle)), "{}", load(&idle));
        assert!((150.0..300.0).contains(&load(&busy)), "{}", load(&busy));
        assert_eq!(of(&busy).number("connections"), 62.0);
        // Each object has waited at least twice for the queue before its first byte came.
        let before = of(&busy).number("setup_s") + of(&busy).number("waiting_s");
        assert!(before > 62.0 * 2.0 * 0.8, "{before}");
    }
}
