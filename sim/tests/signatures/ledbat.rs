//! LEDBAT++: fills what others leave, and leaves what others want.

use crate::common::{play, registry};
use narrows_core::scenario::Scenario;
use narrows_sim::{run, Options, Run};

const PATH: &str = "[path]\nrate = \"20Mbit\"\nrtt = \"40ms\"\nbuffer = \"8bdp\"\n";

fn scenario(seconds: u32, flows: &str) -> Scenario {
    let text = format!("duration = \"{seconds}s\"\nstart_jitter = \"0ms\"\n{PATH}{flows}");
    Scenario::from_toml(&text, "ledbat", &registry()).unwrap_or_else(|e| panic!("{e}"))
}

fn flows(seconds: u32, flows: &str) -> Run {
    play(&scenario(seconds, flows))
}

/// Alone it keeps 60 ms in the queue and loses nothing; Reno fills the 320 ms that there are.
#[test]
fn ledbat_keeps_its_target_in_the_queue() {
    let run = |cc: &str| flows(60, &format!("[[flow]]\ncc = \"{cc}\"\n"));
    let (ledbat, reno) = (run("ledbat"), run("reno"));
    assert!(
        (45.0..70.0).contains(&ledbat.queue.delay_ms.p50),
        "{}",
        ledbat.queue.delay_ms.p50
    );
    assert!(ledbat.queue.delay_ms.p99 < 80.0, "{}", ledbat.queue.delay_ms.p99);
    assert!(reno.queue.delay_ms.p50 > 150.0, "{}", reno.queue.delay_ms.p50);
    assert_eq!(ledbat.flows[0].retransmits, 0);
    assert!(ledbat.flows[0].goodput_mbit > 16.0, "{}", ledbat.flows[0].goodput_mbit);
}

/// Beside CUBIC it gets next to nothing where Reno gets its share.
#[test]
fn ledbat_gives_way() {
    let share = |cc: &str| {
        let run = flows(60, &format!("[[flow]]\ncc = \"{cc}\"\n[[flow]]\ncc = \"cubic\"\n"));
        run.flows[0].goodput_mbit / (run.flows[0].goodput_mbit + run.flows[1].goodput_mbit)
    };
    let (ledbat, reno) = (share("ledbat"), share("reno"));
    assert!(ledbat < 0.1, "{ledbat}");
    assert!(reno > 0.2, "{reno}");
}

/// The late comer's share over four seeds, from 10 s to 100 s after it came; the first flow had been there for 100 s.
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

/// The one that comes late sees the queue empty in the slowdowns, as the first one has, and neither keeps an advantage.
#[test]
fn latecomers_have_no_advantage() {
    let shares = late_share("");
    assert!(shares.iter().all(|share| (0.47..=0.53).contains(share)), "{shares:?}");
}

/// The advantage that slowdowns take away: the late one takes the first one's queue for the path.
#[test]
fn without_slowdowns_the_latecomer_takes_all() {
    let shares = late_share(", slowdown_interval = 0");
    assert!(shares.iter().all(|share| *share >= 0.97), "{shares:?}");
}

/// Nine tenths of the time in between: a slowdown, and nine times as long until the next.
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
    // Where the window falls to two packets, and where it is back where it was; not the handshake's ten.
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
