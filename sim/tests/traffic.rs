//! Random traffic compared with queueing theory, and incast with a long and a short minimum
//! retransmission timeout.

use narrows_core::engine::Run;
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

/// Bytes of all headers of one datagram on the wire.
const HEADERS: f64 = 42.0;

/// The sizes in bytes on the wire of the datagrams of `poisson_udp`, with their probabilities.
fn frames(sizes: &str, mean: f64) -> Vec<(f64, f64)> {
    if sizes == "fixed" {
        return vec![(mean + HEADERS, 1.0)];
    }
    // Sizes of payload are rounded, and limited to the range from 1 to 1472 bytes.
    let above = |x: f64| (-x / mean).exp();
    let size = |k: u32| {
        let least = if k == 1 { 0.0 } else { f64::from(k) - 0.5 };
        let rest = if k == 1472 {
            0.0
        } else {
            above(f64::from(k) + 0.5)
        };
        (f64::from(k) + HEADERS, above(least) - rest)
    };
    (1..=1472).map(size).collect()
}

/// The mean time in a queue with Poisson arrivals, including the transmission, is E[S] + λ E[S²] /
/// (2 (1 − ρ)) (Pollaczek and Khinchine). For datagrams of one size this is M/D/1. Exponential
/// sizes with headers are nearly M/M/1.
#[test]
fn random_datagrams_have_the_waiting_time_of_queueing_theory() {
    let rate = 100e6;
    for (sizes, packet) in [("fixed", 1000.0), ("exponential", 300.0)] {
        for load in [0.3, 0.6, 0.8] {
            let sizes_on_wire = frames(sizes, packet);
            let moment = |n: i32| -> f64 {
                let parts = sizes_on_wire.iter();
                parts.map(|(size, p)| p * (8.0 * size / rate).powi(n)).sum()
            };
            let lambda = load / moment(1);
            let payload = lambda * 8.0 * packet;
            let run = play(&format!(
                "duration = \"100s\"\nwarmup = \"1s\"\n[path]\nrate = \"100Mbit\"\nrtt = \
                 \"1ms\"\nbuffer = \"10000p\"\n[[flow]]\nworkload = {{ kind = \"poisson_udp\", \
                 rate = \"{payload:.0}bit\", packet = \"{packet}B\", sizes = \"{sizes}\" }}\n"
            ));
            let law = 1e3 * (moment(1) + lambda * moment(2) / (2.0 * (1.0 - load)));
            let measured = run.queue.delay_ms.mean;
            assert!(
                (measured / law - 1.0).abs() < 0.02,
                "{sizes}, {load}: {measured} ms, not {law} ms"
            );
        }
    }
}

/// In M/M/1 with the load ρ, the time in the system, including the transmission, is exponential
/// with the mean E[S] / (1 − ρ) (Kleinrock, Queueing Systems, volume 1, section 5.7). Frames have
/// at least 43 bytes of the mean of 1500, and the MTU is ten times this mean, so that both limits
/// change the law by less than 0.5 %.
#[test]
fn exponential_frames_wait_as_long_as_in_m_m_1() {
    let (rate, frame) = (1e9, 1500.0);
    for load in [0.3, 0.6, 0.8] {
        let payload = load * rate * (frame - HEADERS) / frame;
        let packet = frame - HEADERS;
        let run = play(&format!(
            "duration = \"40s\"\nwarmup = \"1s\"\n[path]\nrate = \"1Gbit\"\nrtt = \"1ms\"\n\
             buffer = \"100000p\"\n[host]\nmtu = \"16000B\"\n[[flow]]\nworkload = {{ kind = \
             \"poisson_udp\", rate = \"{payload:.0}bit\", packet = \"{packet}B\", sizes = \
             \"exponential_frames\" }}\n"
        ));
        let service = 8e3 * frame / rate;
        let law = service / (1.0 - load);
        let measured = run.queue.delay_ms.mean;
        assert!(
            (measured / law - 1.0).abs() < 0.02,
            "{load}: {measured} ms, not {law} ms"
        );
        // The median of an exponential distribution is ln 2 times its mean.
        let median = run.queue.delay_ms.p50 / law;
        assert!(
            (median / core::f64::consts::LN_2 - 1.0).abs() < 0.03,
            "{load}: {median}"
        );
    }
}

/// Transfers with sizes from a distribution in a file request the intended load, and are listed
/// with their slowdown.
#[test]
fn empirical_transfers_have_the_load_of_their_distribution() {
    let run = play(
        "duration = \"40s\"\nwarmup = \"5s\"\n[path]\nrate = \"10Gbit\"\nrtt = \"100us\"\nbuffer = \
         \"1MB\"\n[[flow]]\nworkload = { kind = \"empirical\", load = \"3Gbit\" }\n",
    );
    let work = run.flows[0].workload.as_ref().unwrap();
    // There are 220 transfers per second of 1.7 MB on average, with a standard deviation of 4.3 MB.
    // Over 35 s the load therefore has a standard deviation of 3 %.
    assert!((work.number("asked_mbit") / 3000.0 - 1.0).abs() < 0.09);
    assert!((work.number("asked") / (35.0 * 3e9 / 8.0 / 1.711e6) - 1.0).abs() < 0.04);
    let slowdown = &run.samples.transfers.slowdown;
    assert!(slowdown.iter().filter(|x| x.is_finite()).all(|x| *x > 0.9));
}

/// If the simultaneous responses of workers exceed the buffer of a switch, a query waits for a
/// retransmission timeout of 200 ms, so goodput collapses. A minimum timeout of 1 ms restores the
/// goodput (Vasudevan et al., SIGCOMM 2009).
#[test]
fn incast_collapses_and_a_short_timeout_cures_it() {
    let answered = |workers: u32, host: &str, queue: &str| {
        let run = play(&format!(
            "duration = \"4s\"\nwarmup = \"1s\"\n[path]\nrate = \"1Gbit\"\nrtt = \"100us\"\n\
             buffer = \"64kB\"\n{queue}[path.reverse]\nrate = \"1Gbit\"\n{host}[[flow]]\n\
             workload = {{ kind = \"partition\", workers = {workers}, answer = \"{}B\" }}\n",
            1_000_000 / workers
        ));
        run.flows[0]
            .workload
            .as_ref()
            .unwrap()
            .number("answered_mbit")
    };
    let few = answered(2, "", "");
    let many = answered(40, "", "");
    let cured = answered(40, "[host]\nrto_min = \"1ms\"\n", "");
    assert!(
        few > 800.0 && many < 200.0 && cured > 600.0,
        "{few}, {many}, {cured} Mbit/s"
    );
}
