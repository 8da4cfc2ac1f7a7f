//! A run with lookahead (`sim/src/lookahead/`) is equal to a run event by event. A run with a
//! packet capture is always event by event, so it is the reference here.

use crate::common::{json, registry};
use narrows_core::capture::{Capture, INTERFACES};
use narrows_core::scenario::Scenario;
use narrows_sim::{Options, Run, run_recorded};

/// Flows of several kinds that begin at one instant. One of them is a transfer, and one stops
/// sending.
const FLOWS: &str = "[[flow]]\ncc = \"bbr\"\ncount = 3\n[[flow]]\ncc = \"cubic\"\ncount = \
    2\n[[flow]]\ncc = \"reno\"\nsize = \"2MB\"\n\
                     [[flow]]\ncc = \"cubic\"\nstop = \"1s\"\nrestart = \"1.5s\"\n[[probe]]\nkind \
                     = \"ping\"\ninterval = \"5ms\"\n";

fn scenario(path: &str, flows: &str) -> Scenario {
    let text = format!(
        "duration = \"3s\"\nwarmup = \"500ms\"\nstart_jitter = \"0s\"\n[path]\n{path}\n{flows}"
    );
    Scenario::from_toml(&text, "lookahead", &registry()).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn play(scenario: &Scenario, capture: Option<Capture>) -> Run {
    let options = Options {
        verdicts: 1000,
        ..Options::default()
    };
    run_recorded(scenario, &registry(), &options, capture, &mut |_| true).expect("a run")
}

#[test]
fn lookahead_changes_no_result() {
    let queue = |rest: &str| format!("rate = \"20Mbit\"\nrtt = \"20ms\"\n{rest}\n");
    let hops = "[[path.hop]]\nrate = \"30Mbit\"\nrtt = \"10ms\"\nqueue = \"codel\"\n\
                [[path.hop]]\nrate = \"20Mbit\"\nrtt = \"10ms\"\nbuffer = \"50kB\"\n";
    let paths = [
        queue("buffer = \"1bdp\""),
        queue("buffer = \"1bdp\"\nloss = \"1%\""),
        queue("buffer = \"1bdp\"\noffload = true"),
        queue("buffer = \"100p\"").replace("20ms", "150us"),
        queue("queue = \"fq_codel\""),
        queue("buffer = \"1bdp\"").replace("20ms", "120ms"),
        queue("queue = \"pie\"\nlink = \"tbf\""),
        hops.to_string(),
    ];
    for path in paths {
        let s = scenario(&path, FLOWS);
        let (windows, events) = (
            play(&s, None),
            play(&s, Some(Capture::new("", INTERFACES, Box::new(|_| true)))),
        );
        assert!(json(&windows) == json(&events), "{path}");
        // Samples are compared as text, because an unknown delay (NaN) is not equal to itself.
        let rows = |run: &Run| format!("{:?}", run.samples);
        assert!(rows(&windows) == rows(&events), "{path}");
    }
}
