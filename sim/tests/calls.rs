//! Calls whose rate follows the path, and videos, compared with the equations of their rules and
//! with published behaviour.

use narrows_core::engine::Run;
use narrows_core::metrics::{Metric, WorkloadMetrics};
use narrows_core::registry::Registry;
use narrows_core::scenario::Scenario;
use narrows_sim::{Options, Packet};

fn play(text: &str) -> Run {
    let registry = Registry::<Packet>::standard();
    let scenario = Scenario::from_toml(text, "test", &registry).unwrap_or_else(|e| panic!("{e}"));
    let options = Options {
        sample_interval: None,
        ..Options::default()
    };
    narrows_sim::run(&scenario, &registry, &options, &mut |_| true).unwrap()
}

/// The metrics of the first flow's application.
fn of(run: &Run) -> &WorkloadMetrics {
    run.flows[0].workload.as_ref().unwrap()
}

/// A call at 3 Mbit/s and an RTT of 50 ms, with 300 ms of buffer, from 60 s to 120 s.
fn alone(call: &str, path: &str) -> Run {
    play(&format!(
        "duration = \"120s\"\nwarmup = \"60s\"\n[path]\nrate = \"3Mbit\"\nrtt = \"50ms\"\nbuffer = \
         \"112kB\"\n{path}\n[[flow]]\nworkload = {{ {call} }}\n"
    ))
}

/// The share of the rate of 3 Mbit/s, headers included, with packets of this size.
fn utilisation(run: &Run, packet: f64) -> f64 {
    of(run).number("received_mbit") * (packet + 42.0) / packet / 3.0
}

/// A call on a fast path without congestion, during the second after `from`.
fn fast(call: &str, from: u32) -> Run {
    let end = from + 1;
    play(&format!(
        "duration = \"{end}s\"\nwarmup = \"{from}s\"\nstart_jitter = \"0s\"\n[path]\nrate = \
         \"1Gbit\"\nrtt = \"40ms\"\n[[flow]]\nworkload = {{ {call} }}\n"
    ))
}

#[test]
fn frames_take_the_delay_of_the_path() {
    // A frame of 417 bytes is one packet, which takes half an RTT and its transmission.
    for kind in ["gcc", "scream"] {
        let run = fast(
            &format!("kind = \"{kind}\", max_rate = \"100kbit\", spread = 0"),
            10,
        );
        let seen = of(&run);
        assert_eq!(seen.number("frames"), 30.0, "{kind}");
        assert_eq!(seen.number("frame_loss_share"), 0.0, "{kind}");
        let delay = seen.quantiles("frame_delay_ms").unwrap();
        assert!((delay.mean - 20.0).abs() < 0.01, "{kind}: {}", delay.mean);
        assert!((seen.number("mean_bitrate_mbit") - 0.1).abs() < 1e-9);
    }
}

/// Section 5.5 of draft-ietf-rmcat-gcc-02: without congestion, the rate grows by 8 % per second.
#[test]
fn the_rate_of_gcc_grows_by_eight_per_cent_per_second() {
    let run = fast("kind = \"gcc\", start_rate = \"1Mbit\"", 20);
    let law = 1.08_f64.powf(20.5);
    let rate = of(&run).number("mean_bitrate_mbit");
    assert!((rate / law - 1.0).abs() < 0.02, "{rate}, not {law} Mbit/s");
}

/// Section 4.1.3 of RFC 8298: the rate grows by half of itself per second up to 400 kbit/s, which
/// takes 2 ln 4 s, and then by RAMP_UP_SPEED, 200 kbit/s per second.
#[test]
fn the_rate_of_scream_grows_by_its_ramp_up_speed() {
    let run = fast("kind = \"scream\", spread = 0", 20);
    let law = 0.4 + (20.5 - 2.0 * 4_f64.ln()) * 0.2;
    let rate = of(&run).number("mean_bitrate_mbit");
    assert!((rate / law - 1.0).abs() < 0.03, "{rate}, not {law} Mbit/s");
}

/// Carlucci et al., "Congestion Control for Web Real-Time Communication", IEEE/ACM Transactions on
/// Networking 2017: GCC contains the queueing delay with full link utilisation. Frames of random
/// size fill the queue for a moment, and cost a part of the rate.
#[test]
fn gcc_fills_its_link_without_filling_its_queue() {
    for (spread, least) in [("0", 0.9), ("0.15", 0.7)] {
        let run = alone(&format!("kind = \"gcc\", spread = {spread}"), "");
        let used = utilisation(&run, 1200.0);
        assert!(used > least && used < 1.0, "spread {spread}: {used}");
        assert_eq!(of(&run).number("loss"), 0.0);
        assert_eq!(of(&run).number("stalls"), 0.0);
        let queue = run.queue.delay_ms;
        assert!(queue.mean < 50.0 && queue.p95 < 100.0, "{queue:?}");
    }
}

/// The share of a call beside CUBIC on the path of [`alone`], from 80 s to 180 s.
fn beside_cubic(call: &str) -> f64 {
    let run = play(&format!(
        "duration = \"180s\"\nwarmup = \"80s\"\n[path]\nrate = \"3Mbit\"\nrtt = \"50ms\"\nbuffer = \
         \"112kB\"\n[[flow]]\nworkload = {{ {call} }}\n[[flow]]\ncc = \"cubic\"\nstart = \"40s\"\n"
    ));
    let [call, cubic] = [0, 1].map(|flow| run.flows[flow].goodput_mbit);
    call / (call + cubic)
}

/// The same paper and De Cicco et al., "Understanding the Dynamic Behaviour of the Google
/// Congestion Control for RTCWeb", Packet Video 2013: a flow that fills the queue starves GCC with
/// a constant threshold. The adaptive threshold prevents this.
#[test]
fn an_adaptive_threshold_keeps_gcc_from_starving_beside_cubic() {
    let adaptive = beside_cubic("kind = \"gcc\"");
    let constant = beside_cubic("kind = \"gcc\", k_up = 0, k_down = 0");
    assert!(adaptive > 0.15 && adaptive < 0.6, "{adaptive}");
    assert!(constant < 0.06, "{constant}");
}

/// The same paper: two calls share a link.
#[test]
fn two_calls_of_gcc_share_a_link() {
    let run = play(
        "duration = \"300s\"\nwarmup = \"150s\"\n[path]\nrate = \"3Mbit\"\nrtt = \"50ms\"\nbuffer \
         = \"112kB\"\n[[flow]]\nworkload = \"gcc\"\n[[flow]]\nworkload = \
         \"gcc\"\nstart = \"60s\"\n",
    );
    let [first, second] = [0, 1].map(|flow| run.flows[flow].goodput_mbit);
    let share = first / (first + second);
    assert!(share > 0.3 && share < 0.7, "{first} and {second} Mbit/s");
}

/// RFC 8298 section 4.1.2.3: without the compensation for competing flows, the throughput beside a
/// loss-based flow can be nearly zero.
#[test]
fn scream_competes_by_a_larger_target() {
    let compensated = beside_cubic("kind = \"scream\"");
    let constant = beside_cubic("kind = \"scream\", compensate = false");
    assert!(compensated > 0.25 && compensated < 0.75, "{compensated}");
    assert!(constant < 0.05, "{constant}");
}

/// RFC 8298 section 4.1.2.2: the window holds the queueing delay at its target, or below it while
/// the media rate does not fill the window.
#[test]
fn scream_holds_the_queueing_delay_near_its_target() {
    for target in [60.0, 100.0] {
        let run = alone(
            &format!("kind = \"scream\", target_low = \"{target}ms\""),
            "",
        );
        let queue = of(&run).quantiles("queueing_ms").unwrap().mean;
        assert!(
            queue > 0.6 * target && queue < 1.2 * target,
            "{queue} ms at a target of {target} ms"
        );
        let actual = run.queue.delay_ms.mean;
        assert!((queue - actual).abs() < 0.1 * target, "{queue}, {actual}");
        let used = utilisation(&run, 1000.0);
        assert!(used > 0.9, "{used}");
        assert_eq!(of(&run).number("loss"), 0.0);
    }
}

/// Packets of a call with ECN are marked instead of dropped.
#[test]
fn scream_reacts_to_ecn_marks_without_loss() {
    let codel = "queue = { kind = \"codel\", ecn = true }";
    let marked = alone("kind = \"scream\", ecn = true", codel);
    assert_eq!(of(&marked).number("loss"), 0.0);
    assert_eq!(of(&marked).number("frame_loss_share"), 0.0);
    assert!(of(&marked).number("congestion_events") > 0.0);
    assert!(marked.queue.marks > 0);
    let dropped = alone("kind = \"scream\"", codel);
    assert!(of(&dropped).number("loss") > 0.0);
    assert!(of(&dropped).number("frame_loss_share") > of(&dropped).number("loss"));
    assert_eq!(dropped.queue.marks, 0);
    for run in [&marked, &dropped] {
        assert!(
            run.queue.delay_ms.mean < 30.0,
            "{}",
            run.queue.delay_ms.mean
        );
        assert!(
            utilisation(run, 1000.0) > 0.6,
            "{}",
            utilisation(run, 1000.0)
        );
    }
}

/// During an outage, the picture stalls once. The call continues after it.
#[test]
fn a_call_survives_an_outage() {
    for kind in ["gcc", "scream"] {
        let run = play(&format!(
            "duration = \"60s\"\nwarmup = \"5s\"\n[path]\nrate = \"3Mbit\"\nrtt = \"50ms\"\nbuffer \
             = \"20p\"\noutages = [{{ at = \"20s\", lasts = \"4s\" }}]\n[path.reverse]\nrate = \
             \"3Mbit\"\nloss = \"10%\"\n[[flow]]\nworkload = {{ kind = \"{kind}\" }}\n"
        ));
        let seen = of(&run);
        let (stalls, stalled) = (seen.number("stalls"), seen.number("stalled_s"));
        assert!(
            stalls >= 1.0 && stalled >= 4.0,
            "{kind}: {stalls}, {stalled}"
        );
        let rate = seen.number("received_mbit");
        assert!(rate > 0.5, "{kind}: {rate} Mbit/s");
    }
}

/// Every metric of a call without a packet after the warm-up is zero or not measured.
#[test]
fn a_call_without_packets_has_no_metrics_and_no_faults() {
    for kind in ["gcc", "scream"] {
        let run = play(&format!(
            "duration = \"10s\"\nwarmup = \"5s\"\n[path]\nrate = \"3Mbit\"\nrtt = \
             \"50ms\"\n[[flow]]\nworkload = \"{kind}\"\nstop = \"1s\"\n"
        ));
        for (name, metric) in &of(&run).metrics {
            match metric {
                Metric::Count(n) => assert_eq!(*n, 0, "{kind}: {name}"),
                Metric::Number(x) => assert!(x.is_nan() || *x == 0.0, "{kind}: {name} = {x}"),
                _ => {}
            }
        }
        let run = play(&format!(
            "duration = \"10s\"\n[path]\nrate = \"1bit\"\nrtt = \"50ms\"\nbuffer = \
             \"1p\"\n[[flow]]\nworkload = \"{kind}\"\n"
        ));
        assert_eq!(of(&run).number("received_packets"), 0.0);
        assert_eq!(of(&run).number("loss"), 1.0);
    }
}

/// BBA-0 on a path between two bit rates (Huang et al., SIGCOMM 2014, section 3): the level of the
/// buffer moves between those at which the linear map reaches the two bit rates. Their mean is
/// the rate of the path, and the video never stalls.
#[test]
fn a_buffer_based_video_alternates_between_the_neighbours_of_the_rate() {
    // 300 kbit/s of frames carry 287 kbit/s of segments.
    let run = play(
        "duration = \"20000s\"\nwarmup = \"0s\"\n[path]\nrate = \"300kbit\"\nrtt = \
         \"40ms\"\nbuffer = \"100p\"\n[[flow]]\nworkload = { kind = \"video\", abr = \"buffer\", \
         ladder = [\"100kbit\", \"200kbit\", \"400kbit\"], buffer = \"240s\", length = \"20000s\" \
         }\n",
    );
    let seen = of(&run);
    assert_eq!(seen.number("stalls"), 0.0);
    let rate = run.flows[0].goodput_mbit * 1e3;
    let mean = seen.number("mean_bitrate_mbit") * 1e3;
    assert!((mean / rate - 1.0).abs() < 0.01, "{mean} and {rate} kbit/s");
    assert!(rate > 280.0, "{rate}");
    // The levels of 200 and 400 kbit/s are 42 and 126 s above the reservoir. The buffer grows by
    // rate / 200 − 1 seconds per second, and shrinks by 1 − rate / 400.
    let between = 126.0 - 42.0;
    let cycle = between / (rate / 200.0 - 1.0) + between / (1.0 - rate / 400.0);
    let switches = 2.0 * 20_000.0 / cycle;
    assert!(
        (seen.number("switches") / switches - 1.0).abs() < 0.1,
        "{} and {switches}",
        seen.number("switches")
    );
}

/// The rate-based rule selects the highest bit rate below `safety` times the harmonic mean.
#[test]
fn a_rate_based_video_stays_below_its_share_of_the_rate() {
    // 3 Mbit/s carry 2.87 Mbit/s, and 2.3 and 1.9 Mbit/s of them may be used.
    for (safety, rung) in [("0.8", 2.0), ("0.65", 1.5)] {
        let run = play(&format!(
            "duration = \"620s\"\nwarmup = \"0s\"\n[path]\nrate = \"3Mbit\"\nrtt = \
             \"20ms\"\nbuffer = \"1bdp\"\n[[flow]]\nworkload = {{ kind = \"video\", safety = \
             {safety}, samples = 3, ladder = [\"1Mbit\", \"1500kbit\", \"2Mbit\", \"2500kbit\"] \
             }}\n"
        ));
        let seen = of(&run);
        assert_eq!(seen.number("stalls"), 0.0);
        let mean = seen.number("mean_bitrate_mbit");
        assert!(
            (mean / rung - 1.0).abs() < 0.02,
            "{mean}, not {rung} Mbit/s"
        );
    }
}
