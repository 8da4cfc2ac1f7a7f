//! A run in slices, and the rows that the page has not read yet.

use crate::columns::Columns;
use narrows_core::engine::{Options, PacketTrace, check_rows};
use narrows_core::metrics::{
    DELAYS_OF, DROP_REASONS, MODE, NO_WORD, PHASES, PacketEvents, Samples, VERDICTS,
    metric_interval,
};
use narrows_core::registry::Registry;
use narrows_core::scenario::Scenario;
use narrows_core::units::{Rate, Span, Time};
use narrows_sim::{Packet, SimError, Streaming};
use serde_json::{Value, json};

/// Maximum number of drops and marks that are reported individually.
const MOST_VERDICTS: usize = 20_000;
/// Maximum number of packet events that are kept for the drawing.
const MOST_TRACED: usize = 60_000;
/// Maximum number of rows of samples, which need about 60 MB with their columns.
const MOST_ROWS: usize = 400_000;

/// The current run of the page; a new run replaces it.
#[derive(Default)]
pub struct Session {
    run: Option<Box<Streaming>>,
    read: Read,
}

/// Number of rows of each table that the page has read.
#[derive(Default)]
struct Read {
    flows: usize,
    queue: usize,
    states: usize,
    verdicts: usize,
}

fn seconds(value: f64) -> Span {
    // The conversion saturates: negative times and NaN become zero.
    Span::ns((value * 1e9) as u64)
}

impl Session {
    /// Starts the run of `scenario`.
    pub fn start(
        &mut self,
        scenario: Scenario,
        registry: &Registry<Packet>,
    ) -> Result<Value, String> {
        // This frees the memory of the previous run before the next run needs memory.
        *self = Session::default();
        let options = options(&scenario);
        let names = json!({
            "flows": scenario.flows.iter().map(|flow| &flow.id).collect::<Vec<_>>(),
            "probes": scenario.probes.len(),
            "seed": scenario.seed,
            "duration_s": scenario.duration.as_s(),
            "warmup_s": scenario.warmup.as_s(),
            "interval_s": options.sample_interval.map(Span::as_s),
            "phases": PHASES,
            "verdicts": VERDICTS,
            "reasons": DROP_REASONS,
            "delays_of": DELAYS_OF,
        });
        let run = Streaming::new(scenario, registry, options);
        self.run = Some(Box::new(run.map_err(|error| error.to_string())?));
        Ok(names)
    }
    /// Advances the run, and returns the rows since the last call.
    pub fn advance(&mut self, slice_s: f64, columns: &mut Columns) -> Result<Value, String> {
        let run = self.run.as_mut().ok_or("no run was started")?;
        run.advance(seconds(slice_s).max(Span::us(1)))
            .map_err(|error| error.to_string())?;
        let interval = metric_interval(run.scenario().duration);
        self.read
            .rows(run.samples(), run.verdicts(), interval, columns);
        Ok(json!({
            "now_s": run.now().as_s(),
            "finished": run.finished(),
            "events": run.events(),
            "words": run.samples().states.names,
        }))
    }
    /// Ends the run, and returns its metrics and the remaining rows.
    pub fn finish(
        &mut self,
        registry: &Registry<Packet>,
        columns: &mut Columns,
    ) -> Result<Value, String> {
        let run = self.run.take().ok_or("no run was started")?;
        let events = run.events();
        let interval = metric_interval(run.scenario().duration);
        let run = run
            .finish(registry)
            .map_err(|error: SimError| error.to_string())?;
        let samples = &run.samples;
        self.read
            .rows(samples, &samples.verdicts, interval, columns);
        let pings = &samples.pings;
        columns.push("pings", "t_s", pings.t_s.iter().copied());
        columns.push("pings", "probe", pings.probe.iter().map(|n| f64::from(*n)));
        columns.push("pings", "rtt_ms", pings.rtt_ms.iter().copied());
        let delays = &samples.delays;
        columns.push("delays", "of", delays.of.iter().map(|n| f64::from(*n)));
        columns.push(
            "delays",
            "number",
            delays.number.iter().map(|n| f64::from(*n)),
        );
        columns.push("delays", "delay_ms", delays.delay_ms.iter().copied());
        columns.push("delays", "share", delays.share.iter().copied());
        let written = serde_json::to_value(run.scenario.to_tree()).unwrap_or_default();
        Ok(json!({
            "now_s": run.scenario.duration.as_s(),
            "finished": true,
            "events": events,
            "words": samples.states.names,
            "verdicts_left_out": samples.verdicts.left_out(),
            "run": run.to_json(env!("CARGO_PKG_VERSION"), &written, None),
        }))
    }
    /// Starts to keep the packet events from `from_s` to `until_s` of `trace`, and discards those
    /// kept before.
    pub fn window(&mut self, trace: &Value) -> Result<Value, String> {
        let run = self.run.as_mut().ok_or("no run was started")?;
        let at = |key: &str| trace[key].as_f64().map(|t| Time::ZERO + seconds(t));
        let from = at("from_s").unwrap_or(Time::ZERO);
        let until = at("until_s").unwrap_or(Time::MAX);
        run.set_trace(PacketTrace::new(from, until, MOST_TRACED));
        Ok(json!({ "now_s": run.now().as_s() }))
    }
    /// Returns the packet events that were kept so far.
    pub fn trace(&mut self, columns: &mut Columns) -> Result<Value, String> {
        let run = self.run.as_ref().ok_or("no run was started")?;
        let trace = run.trace().ok_or("the run has no trace of packets")?;
        columns.push("packets", "t_s", trace.t_s.iter().copied());
        columns.push(
            "packets",
            "event",
            trace.event.iter().map(|n| f64::from(*n)),
        );
        columns.push("packets", "hop", trace.hop.iter().map(|n| f64::from(*n)));
        columns.push("packets", "flow", trace.flow.iter().map(|n| f64::from(*n)));
        columns.push(
            "packets",
            "bytes",
            trace.bytes.iter().map(|n| f64::from(*n)),
        );
        columns.push("packets", "entered_s", trace.entered_s.iter().copied());
        Ok(json!({ "now_s": run.now().as_s(), "left_out": trace.left_out }))
    }
}

/// The options of a run with samples for pictures. The interval is so long that the rows fit into
/// [`MOST_ROWS`]. The internal state of congestion controls is sampled if the run has at most a
/// tenth of these rows.
fn options(scenario: &Scenario) -> Options {
    let options = Options {
        verdicts: MOST_VERDICTS,
        ..Options::pictures(scenario)
    };
    let interval = options.sample_interval.unwrap_or(Span::ms(100));
    let instants = scenario.duration.as_ns() / interval.as_ns().max(1) + 1;
    let rows = instants as usize * scenario.flows.len().max(1);
    let least = rows.div_ceil(MOST_ROWS) as u64;
    let options = options.at_least(Span::ns(interval.as_ns() * least));
    let with_states = Options {
        states: true,
        ..options
    };
    let fits = rows <= MOST_ROWS / 10
        && check_rows(scenario, &with_states, Span::ZERO, Span::ZERO).is_ok();
    if fits { with_states } else { options }
}

impl Read {
    /// Appends the rows that the page has not read yet.
    fn rows(
        &mut self,
        samples: &Samples,
        verdicts: &PacketEvents,
        interval: Span,
        columns: &mut Columns,
    ) {
        let flows = &samples.flows;
        let goodput = flows.goodput_mbit(interval);
        let from = std::mem::replace(&mut self.flows, flows.t_s.len());
        let mut push = |name, rows: &mut dyn Iterator<Item = f64>| {
            columns.push("flows", name, rows.skip(from));
        };
        push("t_s", &mut flows.t_s.iter().copied());
        push("flow", &mut flows.flow.iter().map(|n| f64::from(*n)));
        push("goodput_mbit", &mut goodput.into_iter());
        push("rtt_ms", &mut flows.rtt_ms.iter().copied());
        push(
            "cwnd_packets",
            &mut flows.cwnd_packets.iter().map(|n| f64::from(*n)),
        );
        let in_flight = flows.in_flight_packets.iter();
        push("in_flight_packets", &mut in_flight.map(|n| f64::from(*n)));
        // The maximum rate stands for no pacing rate: before the first round trip there is no
        // pacing.
        let none = Rate::bit(u64::MAX).as_mbit();
        let pacing = flows.pacing_mbit.iter();
        let pacing = pacing.map(|x| if *x >= none { f64::NAN } else { *x });
        push("pacing_mbit", &mut { pacing });
        push(
            "retransmits",
            &mut flows.retransmits.iter().map(|n| *n as f64),
        );
        push("phase", &mut flows.phase.iter().map(|n| f64::from(*n)));

        let queue = &samples.queue;
        let from = std::mem::replace(&mut self.queue, queue.t_s.len());
        let mut push = |name, rows: &mut dyn Iterator<Item = f64>| {
            columns.push("queue", name, rows.skip(from));
        };
        push("t_s", &mut queue.t_s.iter().copied());
        push("queue", &mut queue.queue.iter().map(|n| f64::from(*n)));
        push(
            "backlog_bytes",
            &mut queue.backlog_bytes.iter().map(|n| *n as f64),
        );
        push(
            "backlog_packets",
            &mut queue.backlog_packets.iter().map(|n| *n as f64),
        );
        push("drops", &mut queue.drops.iter().map(|n| *n as f64));
        push("marks", &mut queue.marks.iter().map(|n| *n as f64));

        let states = &samples.states;
        let from = std::mem::replace(&mut self.states, states.t_s.len());
        let modes: Vec<usize> = (from..states.t_s.len())
            .filter(|row| states.word[*row] != NO_WORD)
            .filter(|row| states.names[states.name[*row] as usize] == MODE)
            .collect();
        let of = |column: &[u32]| modes.iter().map(|row| f64::from(column[*row])).collect();
        let (flow, word): (Vec<f64>, Vec<f64>) = (of(&states.flow), of(&states.word));
        columns.push("modes", "t_s", modes.iter().map(|row| states.t_s[*row]));
        columns.push("modes", "flow", flow.into_iter());
        columns.push("modes", "word", word.into_iter());

        let from = std::mem::replace(&mut self.verdicts, verdicts.t_s.len());
        let mut push = |name, rows: &mut dyn Iterator<Item = f64>| {
            columns.push("verdicts", name, rows.skip(from));
        };
        push("t_s", &mut verdicts.t_s.iter().copied());
        push("flow", &mut verdicts.flow.iter().map(|n| f64::from(*n)));
        push(
            "verdict",
            &mut verdicts.verdict.iter().map(|n| f64::from(*n)),
        );
        push("reason", &mut verdicts.reason.iter().map(|n| f64::from(*n)));
    }
}
