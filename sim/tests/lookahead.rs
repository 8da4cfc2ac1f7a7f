//! A run with lookahead (`sim/src/lookahead/`) is equal to a run event by event. A run with a
//! packet capture is always event by event, so it is the reference here. A run on two threads is
//! equal to a run on one.

use crate::common::{json, registry};
use narrows_core::capture::{Capture, INTERFACES};
use narrows_core::scenario::Scenario;
use narrows_core::units::Span;
use narrows_sim::{Options, Run, run, run_recorded};

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

/// Paths on which lookahead is used.
fn paths() -> Vec<String> {
    let queue = |rest: &str| format!("rate = \"20Mbit\"\nrtt = \"20ms\"\n{rest}\n");
    let hops = "[[path.hop]]\nrate = \"30Mbit\"\nrtt = \"10ms\"\nqueue = \"codel\"\n\
                [[path.hop]]\nrate = \"20Mbit\"\nrtt = \"10ms\"\nbuffer = \"50kB\"\n";
    vec![
        queue("buffer = \"1bdp\""),
        queue("buffer = \"1bdp\"\nloss = \"1%\""),
        queue("buffer = \"1bdp\"\noffload = true"),
        queue("buffer = \"100p\"").replace("20ms", "150us"),
        queue("queue = \"fq_codel\""),
        queue("buffer = \"1bdp\"").replace("20ms", "120ms"),
        queue("queue = \"pie\"\nlink = \"tbf\""),
        hops.to_string(),
    ]
}

/// Fails unless the metrics and the samples of both runs are equal.
fn assert_equal(a: &Run, b: &Run, what: &str) {
    assert!(json(a) == json(b), "{what}");
    // Samples are compared as text, because an unknown delay (NaN) is not equal to itself.
    let rows = |run: &Run| format!("{:?}", run.samples);
    assert!(rows(a) == rows(b), "{what}");
}

#[test]
fn lookahead_changes_no_result() {
    for path in paths() {
        let s = scenario(&path, FLOWS);
        let capture = Capture::new("", INTERFACES, Box::new(|_| true));
        assert_equal(&play(&s, None), &play(&s, Some(capture)), &path);
    }
}

/// Runs `scenario` on one thread and on two, with rows of samples and without.
fn assert_equal_on_two_threads(scenario: &Scenario, what: &str) {
    for sample_interval in [None, Some(Span::ms(7))] {
        let [one, two] = [1, 2].map(|threads| {
            let options = Options {
                sample_interval,
                verdicts: 1000,
                states: true,
                threads,
            };
            run(scenario, &registry(), &options, &mut |_| true).expect("a run")
        });
        assert_equal(&one, &two, what);
    }
}

#[test]
fn a_second_thread_changes_no_result() {
    for path in paths() {
        assert_equal_on_two_threads(&scenario(&path, FLOWS), &path);
    }
}

/// With more flows, windows have enough events for the second thread, and flows have events at one
/// instant: all begin, stop and continue at the same times.
#[test]
fn a_second_thread_changes_no_result_of_many_flows() {
    let flows = "[[flow]]\ncc = \"cubic\"\ncount = 151\n\
                 [[flow]]\ncc = \"bbr\"\ncount = 90\nstop = \"1s\"\nrestart = \"1.5s\"\n\
                 [[flow]]\ncc = \"dctcp\"\ncount = 40\n\
                 [[flow]]\ncc = \"reno\"\ncount = 30\nsize = \"100kB\"\n\
                 [[probe]]\nkind = \"ping\"\ninterval = \"1ms\"\n";
    let path = |rest: &str| format!("rate = \"400Mbit\"\nrtt = \"20ms\"\n{rest}\n");
    for rest in [
        "buffer = \"1bdp\"",
        "queue = \"fq_codel\"",
        "buffer = \"0.2bdp\"\nloss = \"0.5%\"\nduplicate = \"1%\"\ncorrupt = \"0.1%\"",
    ] {
        let mut scenario = scenario(&path(rest), flows);
        scenario.duration = Span::ms(2500);
        assert_equal_on_two_threads(&scenario, rest);
    }
}

/// Scenarios that run on one thread although two are permitted.
#[test]
fn a_second_thread_changes_no_result_where_it_is_not_used() {
    let path = |rest: &str| format!("rate = \"20Mbit\"\nrtt = \"20ms\"\n{rest}\n");
    let usual = path("buffer = \"1bdp\"");
    let reverse = format!("{usual}[path.reverse]\nrate = \"1Mbit\"\nbuffer = \"20p\"\n");
    for (path, flows) in [
        (&usual, "[[flow]]\ncc = \"cubic\"\n"),
        (
            &reverse,
            "[[flow]]\ncc = \"cubic\"\ndirection = \"up\"\ncount = 2\n",
        ),
        (
            &usual,
            "[[flow]]\ncc = \"cubic\"\nrtt = \"50ms\"\ncount = 2\n",
        ),
        (
            &usual,
            "[[flow]]\ncc = \"cubic\"\ncount = 2\n[[flow]]\ncc = \"cubic\"\nworkload = \"web\"\n",
        ),
        (
            &path("queue = \"xcp\""),
            "[[flow]]\ncc = \"xcp\"\ncount = 2\n",
        ),
        (&reverse, FLOWS),
    ] {
        assert_equal_on_two_threads(&scenario(path, flows), &format!("{path}{flows}"));
    }
}
