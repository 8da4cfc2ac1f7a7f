//! How many rows of samples a run would have, before it begins.

use crate::{Options, SimError, LEAST_INTERVAL, MOST_FLOW_SECONDS, MOST_ROWS};
use narrows_core::scenario::{FlowSpec, Scenario};
use narrows_core::units::Span;

/// Refuses what would not fit into memory.
pub(crate) fn check(scenario: &Scenario, options: &Options) -> Result<(), SimError> {
    let check = |of, interval: Span, per_instant: usize, least: Span| {
        let row_ns = scenario.duration.as_ns().saturating_mul(per_instant.max(1) as u64);
        let at_least = Span::us(row_ns.div_ceil(MOST_ROWS).div_ceil(1000)).max(least);
        if interval < at_least {
            Err(SimError::IntervalTooShort { of, interval, at_least })
        } else {
            Ok(())
        }
    };
    let stops = |flow: &FlowSpec| flow.stop.filter(|_| flow.restart.is_none());
    let lasts = |flow: &FlowSpec| stops(flow).unwrap_or(scenario.duration).min(scenario.duration) - flow.start;
    let flow_seconds = scenario.flows.iter().map(|flow| lasts(flow).as_ns()).sum::<u64>() / 1_000_000_000;
    if flow_seconds > MOST_FLOW_SECONDS {
        return Err(SimError::TooLong { flow_seconds });
    }
    if let Some(interval) = options.sample_interval {
        check("samples", interval, scenario.flows.len(), LEAST_INTERVAL)?;
    }
    let probes = &scenario.probes;
    probes
        .iter()
        .try_for_each(|probe| check("pings", probe.interval, probes.len(), Span::us(1)))
}
