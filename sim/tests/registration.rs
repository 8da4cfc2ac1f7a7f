//! A congestion control from outside the project: it uses only the public interface, is registered,
//! and is named in a scenario.

use narrows_core::cc::{Ack, CcKind, CongestionControl, Family, Loss, Window};
use narrows_core::param::{Kind, Param, Params};
use narrows_core::registry::Registry;
use narrows_core::scenario::Scenario;
use narrows_sim::{Options, Packet, run};

/// Adds a constant to the window per round trip, and multiplies the window by a constant on loss.
#[derive(Clone)]
struct Aimd {
    increase: f64,
    factor: f64,
    /// The fraction of a packet that the window has grown by since its last whole packet.
    rest: f64,
}

impl CongestionControl for Aimd {
    fn on_ack(&mut self, w: &mut Window, ev: &Ack) {
        if !ev.may_grow || !ev.cwnd_limited {
            return;
        }
        self.rest += f64::from(ev.delivered)
            * if w.in_slow_start() {
                1.0
            } else {
                self.increase / f64::from(w.cwnd)
            };
        let whole = self.rest as u32;
        self.rest -= f64::from(whole);
        w.cwnd = w.cwnd.saturating_add(whole).min(w.clamp);
    }
    fn on_loss(&mut self, w: &mut Window, _ev: &Loss) {
        w.ssthresh = ((f64::from(w.cwnd) * self.factor) as u32).max(2);
    }
    fn fork(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

const PARAMS: &[Param] = &[
    Param {
        name: "increase",
        kind: Kind::Number(1.0, 0.01, 100.0),
        help: "packets per round trip",
        source: "RFC 5681",
    },
    Param {
        name: "factor",
        kind: Kind::Number(0.5, 0.1, 0.95),
        help: "what is left of the window after a loss",
        source: "RFC 5681",
    },
];

const KIND: CcKind = CcKind {
    name: "aimd",
    help: "additive increase, multiplicative decrease",
    source: "Chiu and Jain 1989",
    family: Family::Loss,
    year: 1989,
    needs: &[],
    default_in: &[],
    params: PARAMS,
    make: &|params: &Params, _host| {
        Box::new(Aimd {
            increase: params.number("increase"),
            factor: params.number("factor"),
            rest: 0.0,
        })
    },
};

const SCENARIO: &str = r#"
duration = "10s"
[path]
rate   = "20Mbit"
rtt    = "40ms"
buffer = "0.5bdp"
[[flow]]
cc = { kind = "aimd", factor = 0.8 }
"#;

#[test]
fn a_scenario_may_name_what_was_registered() {
    let mut registry = Registry::standard();
    registry.register_cc(KIND);
    let scenario = Scenario::from_toml(SCENARIO, "aimd.toml", &registry).unwrap();
    let run = run(&scenario, &registry, &Options::default(), &mut |_| true).unwrap();
    assert_eq!(run.flows[0].id, "aimd0");
    assert!(
        run.flows[0].goodput_mbit > 17.0,
        "{}",
        run.flows[0].goodput_mbit
    );
}

#[test]
fn its_parameters_are_checked_as_any_other() {
    let mut registry = Registry::<Packet>::standard();
    registry.register_cc(KIND);
    let wrong = SCENARIO.replace("0.8", "1.5");
    let errors = Scenario::from_toml(&wrong, "aimd.toml", &registry).unwrap_err();
    assert!(errors.to_string().contains("factor"), "{errors}");
}
