//! The port and the time at which the data of each flow of a scenario enters the network.

use crate::net::{FAR, NEAR, Port};
use crate::rng::Rng;
use crate::scenario::{Direction, FlowSpec, Scenario};
use crate::units::{Span, Time};
use alloc::format;

/// Returns the time at which a flow starts: its `start` plus a random start jitter.
pub fn start(scenario: &Scenario, flow: &FlowSpec) -> Time {
    let mut rng = Rng::named(scenario.seed, &format!("start/{}", flow.id));
    Time::ZERO + flow.start + Span::ns(rng.below(scenario.start_jitter.as_ns()))
}

/// Returns the port at which a flow's data enters the path.
pub fn sender_port(flow: &FlowSpec) -> Port {
    match flow.direction {
        Direction::Down => NEAR,
        Direction::Up => FAR,
    }
}

/// Returns the propagation delays of a flow's access link: that of data, then that of ACKs.
pub fn access_delays(scenario: &Scenario, flow: &FlowSpec) -> (Span, Span) {
    let forward = scenario.path.forward_part(flow.rtt);
    let reverse = flow.rtt - forward;
    match flow.direction {
        Direction::Down => (forward, reverse),
        Direction::Up => (reverse, forward),
    }
}
