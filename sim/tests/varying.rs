//! Steps of delay and loss in whole runs.

use crate::common::{play, registry};
use narrows_core::scenario::Scenario;
use narrows_sim::Run;

fn run(text: &str) -> Run {
    play(&Scenario::from_toml(text, "varying", &registry()).unwrap_or_else(|e| panic!("{e}")))
}

/// A run of pings only, of which the second half counts.
fn pings(path: &str) -> Run {
    run(&format!(
        "duration = \"4s\"\nwarmup = \"2s\"\n[path]\nrate = \"10Mbit\"\n{path}\n[[probe]]\nkind = \
         \"ping\"\ninterval = \"10ms\"\n"
    ))
}

#[test]
fn pings_after_a_step_have_the_new_base_rtt() {
    for rtt in ["7ms", "95.25ms"] {
        let steps = format!("rtt = \"40ms\"\nsteps = [{{ at = \"1s\", rtt = \"{rtt}\" }}]");
        let (varying, constant) = (pings(&steps), pings(&format!("rtt = \"{rtt}\"")));
        assert_eq!(varying.probes[0].rtt_ms, constant.probes[0].rtt_ms, "{rtt}");
    }
}

/// A scenario with the same network as links and as a path has the same packets, over steps of
/// rate, delay and loss, with a route back and without.
#[test]
fn steps_of_links_are_those_of_a_path() {
    for reverse in [true, false] {
        let flows = |route: &str| {
            format!(
                "[[flow]]\ncc = \"cubic\"\ncount = 2{route}\n[[flow]]\nworkload = \
                 \"voip\"{route}\n[[probe]]\nkind = \"ping\"{route}\n"
            )
        };
        let steps = |key: &str, ms: u64| {
            format!(
                "steps = [{{ at = \"1s\", {key} = \"{ms}ms\" }}, {{ at = \"2s\", loss = \"1%\", \
                 rate = \"5Mbit\" }}, {{ at = \"3s\", {key} = \"{}ms\", loss = 0, ordered = false \
                 }}]\n",
                ms / 2
            )
        };
        let back = "[path.reverse]\nrate = \"2Mbit\"\n";
        let path = format!(
            "duration = \"5s\"\n[path]\nrate = \"20Mbit\"\nrtt = \"30ms\"\nbuffer = \
             \"60p\"\n{}{}{}",
            steps("rtt", 80),
            if reverse { back } else { "" },
            flows("")
        );
        // With links in both directions, each has its own steps.
        let back = "[link.reverse]\nrate = \"2Mbit\"\ndelay = \"15ms\"\nsteps = [{ at = \"1s\", \
             delay = \"40ms\" }, { at = \"3s\", delay = \"20ms\", ordered = false }]\n";
        let route = "\nroute = [\"path\"]";
        let both = format!("{route}\nroute_back = [\"reverse\"]");
        let links = format!(
            "duration = \"5s\"\n[link.path]\nrate = \"20Mbit\"\ndelay = \"15ms\"\nbuffer = \
             \"60p\"\n{}{}{}",
            steps("delay", 40),
            if reverse { back } else { "" },
            flows(if reverse { &both } else { route })
        );
        let (path, mut links) = (run(&path), run(&links));
        for flow in &mut links.flows {
            assert_eq!(flow.route, ["path"]);
            (flow.route, flow.route_back) = Default::default();
        }
        let text = |run: &Run| format!("{:?}", run.flows);
        assert_eq!(text(&path), text(&links), "{reverse}");
        assert_eq!(path.probes[0].rtt_ms, links.probes[0].rtt_ms, "{reverse}");
    }
}

/// Without loss before and after, only packets of the interval are lost.
#[test]
fn loss_between_two_steps_is_lost_between_them() {
    let of = |steps: &str| {
        let probes = pings(&format!("rtt = \"20ms\"\nsteps = [{steps}]")).probes;
        (probes[0].sent, probes[0].received)
    };
    let (sent, received) =
        of("{ at = \"1s\", loss = \"100%\" }, { at = \"1500ms\", loss = \"0%\" }");
    assert_eq!(sent - received, 50);
}
