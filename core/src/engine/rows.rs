//! The rows of a run: one for each flow, which also has the metrics of the whole run. Sweeps and
//! replications store them.
//!
//! The values come from the JSON document of the run, so that rows of all engines have the same
//! definition. Only the statistics of completed transfers come from their table.

use crate::metrics::rank;
use alloc::vec::Vec;
use serde_json::Value;

/// The place of the value of a column. Lists of names are keys of nested objects.
enum Place {
    /// In the document.
    Run(&'static [&'static str]),
    /// In the first probe.
    Probe(&'static [&'static str]),
    /// A statistic of the completion times of all transfers.
    CompletionTimes(usize),
    /// A statistic of the slowdowns of all transfers.
    Slowdowns(usize),
    /// The name of the kernel.
    Kernel,
    /// The key of the kernel.
    KernelKey,
    /// In the flow.
    Flow(&'static [&'static str]),
    /// In the workload of the flow.
    Workload(&'static [&'static str]),
    /// In the workload of a flow of datagrams. For a call in both directions, the value is the
    /// larger one.
    Datagrams(&'static [&'static str]),
    /// A statistic of the slowdowns of the flow's transfers.
    Slowdown(usize),
    /// The index of the flow.
    Number,
}

/// The indices of the statistics of several values. A percentile is the value at its rank, without
/// interpolation.
const MEAN: usize = 0;
const P50: usize = 1;
const P95: usize = 2;
const P99: usize = 3;

/// The columns and their places. Columns of the whole run precede those of the flow.
#[rustfmt::skip]
const COLUMNS: &[(&str, Place)] = &[
    ("rate_mbit", Place::Run(&["path", "rate_mbit"])),
    ("rtt_ms", Place::Run(&["path", "rtt_ms"])),
    ("buffer_bdp", Place::Run(&["path", "buffer_bdp"])),
    ("queue_delay_mean_ms", Place::Run(&["queue", "delay_ms", "mean"])),
    ("queue_delay_p50_ms", Place::Run(&["queue", "delay_ms", "p50"])),
    ("queue_delay_p95_ms", Place::Run(&["queue", "delay_ms", "p95"])),
    ("queue_delay_p99_ms", Place::Run(&["queue", "delay_ms", "p99"])),
    ("queue_drops", Place::Run(&["queue", "drops"])),
    ("queue_marks", Place::Run(&["queue", "marks"])),
    ("backlog_mean_packets", Place::Run(&["queue", "backlog_packets", "mean"])),
    ("ping_mean_ms", Place::Probe(&["rtt_ms", "mean"])),
    ("ping_p50_ms", Place::Probe(&["rtt_ms", "p50"])),
    ("ping_p95_ms", Place::Probe(&["rtt_ms", "p95"])),
    ("ping_p99_ms", Place::Probe(&["rtt_ms", "p99"])),
    ("jain", Place::Run(&["fairness", "jain"])),
    ("jain_down", Place::Run(&["fairness", "by_direction", "down", "jain"])),
    ("jain_up", Place::Run(&["fairness", "by_direction", "up", "jain"])),
    ("transfers_fct_mean_s", Place::CompletionTimes(MEAN)),
    ("transfers_fct_p50_s", Place::CompletionTimes(P50)),
    ("transfers_fct_p95_s", Place::CompletionTimes(P95)),
    ("transfers_fct_p99_s", Place::CompletionTimes(P99)),
    ("transfers_slowdown_mean", Place::Slowdowns(MEAN)),
    ("transfers_slowdown_p50", Place::Slowdowns(P50)),
    ("transfers_slowdown_p95", Place::Slowdowns(P95)),
    ("transfers_slowdown_p99", Place::Slowdowns(P99)),
    ("like", Place::Run(&["scenario", "host", "like"])),
    ("version", Place::Run(&["narrows"])),
    ("scenario_format", Place::Run(&["scenario", "format"])),
    ("engine", Place::Run(&["engine"])),
    ("kernel", Place::Kernel),
    ("kernel_key", Place::KernelKey),
    ("rtt_mean_ms", Place::Flow(&["rtt_ms", "mean"])),
    ("rtt_p50_ms", Place::Flow(&["rtt_ms", "p50"])),
    ("rtt_p95_ms", Place::Flow(&["rtt_ms", "p95"])),
    ("rtt_p99_ms", Place::Flow(&["rtt_ms", "p99"])),
    ("cwnd_mean_packets", Place::Flow(&["cwnd_packets", "mean"])),
    ("cwnd_p5_packets", Place::Flow(&["cwnd_packets", "p5"])),
    ("cwnd_p95_packets", Place::Flow(&["cwnd_packets", "p95"])),
    ("cc", Place::Flow(&["cc"])),
    ("goodput_mbit", Place::Flow(&["goodput_mbit"])),
    ("retransmits", Place::Flow(&["retransmits"])),
    ("retransmit_rate", Place::Flow(&["retransmit_rate"])),
    ("run_retransmit_rate", Place::Flow(&["run_retransmit_rate"])),
    ("summary_retransmits", Place::Flow(&["summary_retransmits"])),
    ("summary_retransmit_rate", Place::Flow(&["summary_retransmit_rate"])),
    ("fct_s", Place::Flow(&["fct_s"])),
    ("workload", Place::Workload(&["kind"])),
    ("udp_loss", Place::Datagrams(&["loss"])),
    ("udp_delay_p95_ms", Place::Datagrams(&["delay_ms", "p95"])),
    ("udp_jitter_ms", Place::Datagrams(&["jitter_ms"])),
    ("page_load_mean_s", Place::Workload(&["page_load_s", "mean"])),
    ("page_load_p50_s", Place::Workload(&["page_load_s", "p50"])),
    ("page_load_p95_s", Place::Workload(&["page_load_s", "p95"])),
    ("page_load_p99_s", Place::Workload(&["page_load_s", "p99"])),
    ("startup_delay_s", Place::Workload(&["startup_delay_s"])),
    ("stalls", Place::Workload(&["stalls"])),
    ("stalled_s", Place::Workload(&["stalled_s"])),
    ("mean_bitrate_mbit", Place::Workload(&["mean_bitrate_mbit"])),
    ("switches", Place::Workload(&["switches"])),
    ("frames", Place::Workload(&["frames"])),
    ("frame_loss_share", Place::Workload(&["frame_loss_share"])),
    ("frame_delay_mean_ms", Place::Workload(&["frame_delay_ms", "mean"])),
    ("frame_delay_p50_ms", Place::Workload(&["frame_delay_ms", "p50"])),
    ("frame_delay_p95_ms", Place::Workload(&["frame_delay_ms", "p95"])),
    ("frame_delay_p99_ms", Place::Workload(&["frame_delay_ms", "p99"])),
    ("mos", Place::Workload(&["mos"])),
    ("r", Place::Workload(&["r"])),
    ("response_mean_ms", Place::Workload(&["response_ms", "mean"])),
    ("response_p50_ms", Place::Workload(&["response_ms", "p50"])),
    ("response_p95_ms", Place::Workload(&["response_ms", "p95"])),
    ("response_p99_ms", Place::Workload(&["response_ms", "p99"])),
    ("answers_per_s", Place::Workload(&["answers_per_s"])),
    ("asked", Place::Workload(&["asked"])),
    ("refused", Place::Workload(&["refused"])),
    ("completed", Place::Workload(&["completed"])),
    ("completion_mean_ms", Place::Workload(&["completion_ms", "mean"])),
    ("completion_p50_ms", Place::Workload(&["completion_ms", "p50"])),
    ("completion_p95_ms", Place::Workload(&["completion_ms", "p95"])),
    ("completion_p99_ms", Place::Workload(&["completion_ms", "p99"])),
    ("completion_to_10kB_p50_ms",
        Place::Workload(&["by_size", "to_10kB", "completion_ms", "p50"])),
    ("completion_to_10kB_p99_ms",
        Place::Workload(&["by_size", "to_10kB", "completion_ms", "p99"])),
    ("completion_to_100kB_p50_ms",
        Place::Workload(&["by_size", "to_100kB", "completion_ms", "p50"])),
    ("completion_to_100kB_p99_ms",
        Place::Workload(&["by_size", "to_100kB", "completion_ms", "p99"])),
    ("completion_to_1MB_p50_ms",
        Place::Workload(&["by_size", "to_1MB", "completion_ms", "p50"])),
    ("completion_to_1MB_p99_ms",
        Place::Workload(&["by_size", "to_1MB", "completion_ms", "p99"])),
    ("completion_above_1MB_p50_ms",
        Place::Workload(&["by_size", "above_1MB", "completion_ms", "p50"])),
    ("completion_above_1MB_p99_ms",
        Place::Workload(&["by_size", "above_1MB", "completion_ms", "p99"])),
    ("down_mbit", Place::Workload(&["down_mbit"])),
    ("up_mbit", Place::Workload(&["up_mbit"])),
    ("slowdown_mean", Place::Slowdown(MEAN)),
    ("slowdown_p50", Place::Slowdown(P50)),
    ("slowdown_p95", Place::Slowdown(P95)),
    ("slowdown_p99", Place::Slowdown(P99)),
    ("flow_number", Place::Number),
    ("flow", Place::Flow(&["id"])),
];

/// A completed transfer.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Transfer {
    /// The index of the flow.
    pub flow: usize,
    /// Completion time in seconds.
    pub fct_s: f64,
    /// Slowdown; NaN if it is unknown.
    pub slowdown: f64,
}

/// The value of a column.
#[derive(Copy, Clone, PartialEq, Debug)]
pub enum Cell<'a> {
    /// A number or text of the document.
    Json(&'a Value),
    /// A statistic.
    Number(f64),
    /// The index of a flow.
    Index(usize),
}

/// Returns whether the values of a column are the same in all rows of a run.
pub fn is_of_run(column: usize) -> bool {
    matches!(
        COLUMNS[column].1,
        Place::Run(_)
            | Place::Probe(_)
            | Place::CompletionTimes(_)
            | Place::Slowdowns(_)
            | Place::Kernel
            | Place::KernelKey
    )
}

/// The names of the columns.
pub fn columns() -> impl ExactSizeIterator<Item = &'static str> {
    COLUMNS.iter().map(|(name, _)| *name)
}

/// Calls `visit` for each value of the rows of a run, with the indices of row and column. Returns
/// the number of rows. A run without flows has one row, with the columns of the whole run only.
pub fn rows<'a>(
    document: &'a Value,
    transfers: &[Transfer],
    mut visit: impl FnMut(usize, usize, Cell<'a>),
) -> usize {
    let flows = document["flows"].as_array().map_or(&[][..], Vec::as_slice);
    let transfers = if flows.iter().any(has_transfers) {
        transfers
    } else {
        &[]
    };
    let whole = Whole::of(document, transfers);
    let run: Vec<(usize, Cell<'a>)> = (0..)
        .zip(COLUMNS)
        .filter_map(|(at, (_, place))| Some((at, whole.cell(place)?)))
        .collect();
    for row in 0..flows.len().max(1) {
        run.iter().for_each(|(at, cell)| visit(row, *at, *cell));
    }
    for (number, flow) in flows.iter().enumerate() {
        let own = Own::of(number, flow, transfers);
        for (at, (_, place)) in COLUMNS.iter().enumerate() {
            if let Some(cell) = own.cell(place) {
                visit(number, at, cell);
            }
        }
    }
    flows.len().max(1)
}

/// The value at a place of nested objects, unless it is missing or null.
fn at<'a>(mut tree: &'a Value, place: &[&str]) -> Option<Cell<'a>> {
    for key in place {
        tree = tree.get(key)?;
    }
    (!tree.is_null()).then_some(Cell::Json(tree))
}

/// Returns whether a flow has completed its transfer or has a workload of transfers.
fn has_transfers(flow: &Value) -> bool {
    let kind = flow["workload"]["kind"].as_str();
    !flow["fct_s"].is_null() || matches!(kind, Some("poisson" | "empirical"))
}

/// The sources of the columns of the whole run.
struct Whole<'a> {
    document: &'a Value,
    times: Option<[f64; 4]>,
    slowdowns: Option<[f64; 4]>,
    kernel: Option<&'a Value>,
    kernel_key: Option<&'a Value>,
}

impl<'a> Whole<'a> {
    fn of(document: &'a Value, transfers: &[Transfer]) -> Whole<'a> {
        let engine = document["engine"].as_str();
        let used = &document["provenance"]["kernel"];
        let (kernel, kernel_key) = match engine {
            Some("linux") if used.is_object() => (&used["name"], &used["key"]),
            Some("live") => (&document["instruments"]["kernel"], &Value::Null),
            _ => (&Value::Null, &Value::Null),
        };
        Whole {
            document,
            times: statistics(transfers.iter().map(|done| done.fct_s).collect()),
            slowdowns: slowdowns(transfers),
            kernel: Some(kernel).filter(|name| !name.is_null()),
            kernel_key: Some(kernel_key).filter(|key| !key.is_null()),
        }
    }
    fn cell(&self, place: &Place) -> Option<Cell<'a>> {
        match place {
            Place::Run(keys) => at(self.document, keys),
            Place::Probe(keys) => at(self.document["probes"].get(0)?, keys),
            Place::CompletionTimes(which) => self.times.map(|of| Cell::Number(of[*which])),
            Place::Slowdowns(which) => self.slowdowns.map(|of| Cell::Number(of[*which])),
            Place::Kernel => self.kernel.map(Cell::Json),
            Place::KernelKey => self.kernel_key.map(Cell::Json),
            _ => None,
        }
    }
}

/// The sources of the columns of a flow.
struct Own<'a> {
    number: usize,
    flow: &'a Value,
    workload: Option<&'a Value>,
    slowdowns: Option<[f64; 4]>,
}

impl<'a> Own<'a> {
    fn of(number: usize, flow: &'a Value, transfers: &[Transfer]) -> Own<'a> {
        let own: Vec<Transfer> = transfers
            .iter()
            .filter(|done| done.flow == number)
            .copied()
            .collect();
        Own {
            number,
            flow,
            workload: flow.get("workload"),
            slowdowns: slowdowns(&own),
        }
    }
    fn cell(&self, place: &Place) -> Option<Cell<'a>> {
        match place {
            Place::Flow(keys) => at(self.flow, keys),
            Place::Workload(keys) => at(self.workload?, keys),
            Place::Datagrams(keys) => datagrams(self.workload?, keys),
            Place::Slowdown(which) => self.slowdowns.map(|of| Cell::Number(of[*which])),
            Place::Number => Some(Cell::Index(self.number)),
            _ => None,
        }
    }
}

/// The value of a receiver of datagrams; the larger one if both directions have a receiver.
fn datagrams<'a>(workload: &'a Value, keys: &[&str]) -> Option<Cell<'a>> {
    let size = |cell: &Cell<'_>| match cell {
        Cell::Json(value) => value.as_f64().unwrap_or(f64::NAN),
        _ => f64::NAN,
    };
    let larger = |a: Cell<'a>, b| if size(&b) > size(&a) { b } else { a };
    match workload.get("ways") {
        Some(ways) => ways
            .as_object()?
            .values()
            .filter_map(|way| at(way, keys))
            .reduce(larger),
        None => workload.get("jitter_ms").and_then(|_| at(workload, keys)),
    }
}

/// Statistics of the known slowdowns of transfers.
fn slowdowns(transfers: &[Transfer]) -> Option<[f64; 4]> {
    let known = transfers.iter().map(|done| done.slowdown);
    statistics(known.filter(|slowdown| !slowdown.is_nan()).collect())
}

/// Mean and percentiles of values; `None` without values.
fn statistics(mut values: Vec<f64>) -> Option<[f64; 4]> {
    values.sort_unstable_by(f64::total_cmp);
    let percentile = |q| rank(q, values.len()).map(|at| values[at]);
    let mean = exact_sum(&values) / values.len() as f64;
    Some([mean, percentile(0.5)?, percentile(0.95)?, percentile(0.99)?])
}

/// The sum of values, rounded once (Shewchuk: Adaptive precision floating-point arithmetic, 1997).
fn exact_sum(values: &[f64]) -> f64 {
    // The sum of the parts is exact. Their magnitudes increase, and they do not overlap.
    let mut parts: Vec<f64> = Vec::new();
    for value in values {
        let mut sum = *value;
        let mut kept = 0;
        for at in 0..parts.len() {
            let (large, small) = if sum.abs() < parts[at].abs() {
                (parts[at], sum)
            } else {
                (sum, parts[at])
            };
            sum = large + small;
            let rest = small - (sum - large);
            if rest != 0.0 {
                parts[kept] = rest;
                kept += 1;
            }
        }
        parts.truncate(kept);
        parts.push(sum);
    }
    let mut sum = parts.pop().unwrap_or(0.0);
    while let Some(part) = parts.pop() {
        let before = sum;
        sum = before + part;
        let rest = part - (sum - before);
        if rest != 0.0 {
            // A sum half way between two numbers is rounded by the sign of the next part.
            let next = parts.last().copied().unwrap_or(0.0);
            let twice = sum + 2.0 * rest;
            if rest * next > 0.0 && twice - sum == 2.0 * rest {
                sum = twice;
            }
            break;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The values of a row, by column.
    fn row(document: &Value, transfers: &[Transfer], wanted: usize) -> Vec<(&'static str, Value)> {
        let mut found = Vec::new();
        rows(document, transfers, |row, column, cell| {
            if row == wanted {
                let value = match cell {
                    Cell::Json(value) => value.clone(),
                    Cell::Number(x) => x.into(),
                    Cell::Index(n) => n.into(),
                };
                found.push((COLUMNS[column].0, value));
            }
        });
        found
    }

    fn transfer(flow: usize, fct_s: f64, slowdown: f64) -> Transfer {
        Transfer {
            flow,
            fct_s,
            slowdown,
        }
    }

    #[test]
    fn a_row_has_the_values_of_its_flow_and_of_the_run() {
        let document = json!({
            "engine": "sim", "path": {"rate_mbit": 10, "buffer_bdp": null}, "probes": [],
            "fairness": {"jain": 1, "by_direction": {"up": {"jain": 0.5}}},
            "flows": [{"id": "a", "cc": "reno"}, {"id": "b", "rtt_ms": {"p95": 4.5}}],
        });
        let whole = [
            ("rate_mbit", json!(10)),
            ("jain", json!(1)),
            ("jain_up", json!(0.5)),
            ("engine", json!("sim")),
        ];
        let a = [
            ("cc", json!("reno")),
            ("flow_number", json!(0)),
            ("flow", json!("a")),
        ];
        let b = [
            ("rtt_p95_ms", json!(4.5)),
            ("flow_number", json!(1)),
            ("flow", json!("b")),
        ];
        assert_eq!(row(&document, &[], 0), [&whole[..], &a].concat());
        assert_eq!(row(&document, &[], 1), [&whole[..], &b].concat());
    }

    #[test]
    fn a_run_without_flows_has_one_row() {
        let document = json!({"engine": "live", "probes": [{"rtt_ms": {"p50": 2}}],
            "instruments": {"kernel": "6.12"}, "flows": []});
        let expected = [
            ("ping_p50_ms", json!(2)),
            ("engine", json!("live")),
            ("kernel", json!("6.12")),
        ];
        assert_eq!(row(&document, &[], 0), expected);
    }

    #[test]
    fn a_call_in_both_directions_has_the_larger_values() {
        let ways = json!({"to_client": {"loss": 0.1, "jitter_ms": 0.5},
            "to_server": {"loss": 0, "delay_ms": {"p95": 30}, "jitter_ms": 0.7}});
        let document = json!({"flows": [{"workload": {"kind": "voip", "ways": ways}},
            {"workload": {"kind": "web", "loss": 0.2}}]});
        let both = [
            ("workload", json!("voip")),
            ("udp_loss", json!(0.1)),
            ("udp_delay_p95_ms", json!(30)),
            ("udp_jitter_ms", json!(0.7)),
            ("flow_number", json!(0)),
        ];
        assert_eq!(row(&document, &[], 0), both);
        // The workload has no receiver of datagrams.
        let web = [("workload", json!("web")), ("flow_number", json!(1))];
        assert_eq!(row(&document, &[], 1), web);
    }

    #[test]
    fn statistics_of_transfers_are_of_the_run_and_of_the_flow() {
        let document = json!({"flows": [{"fct_s": 2}, {"workload": {"kind": "web"}}]});
        let transfers = [
            transfer(0, 2.0, 4.0),
            transfer(0, 1.0, 2.0),
            transfer(1, 6.0, f64::NAN),
        ];
        let expected = [
            ("transfers_fct_mean_s", 3.0),
            ("transfers_fct_p50_s", 2.0),
            ("transfers_fct_p95_s", 6.0),
            ("transfers_fct_p99_s", 6.0),
            ("transfers_slowdown_mean", 3.0),
            ("transfers_slowdown_p50", 4.0),
            ("transfers_slowdown_p95", 4.0),
            ("transfers_slowdown_p99", 4.0),
        ]
        .map(|(name, value)| (name, json!(value)));
        assert_eq!(row(&document, &transfers, 0)[..8], expected);
        let own = row(&document, &transfers, 0);
        assert!(own.contains(&("slowdown_mean", json!(3.0))), "{own:?}");
        let other = row(&document, &transfers, 1);
        assert!(
            other.iter().all(|(name, _)| !name.starts_with("slowdown")),
            "{other:?}"
        );
    }

    #[test]
    fn a_sum_is_rounded_once() {
        assert_eq!(exact_sum(&[0.1; 10]), 1.0);
        assert_eq!(exact_sum(&[1e100, 1.0, -1e100]), 1.0);
        assert_eq!(exact_sum(&[]), 0.0);
        // Half way between two numbers, the smallest value decides.
        let half = f64::EPSILON / 2.0;
        assert_eq!(exact_sum(&[1.0, half]), 1.0);
        assert_eq!(exact_sum(&[1.0, half, 1e-40]), 1.0 + f64::EPSILON);
    }
}
