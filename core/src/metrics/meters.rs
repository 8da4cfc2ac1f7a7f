//! Meters: an engine reports events to them, and they compute metrics.

use super::history::{Sample, SampleHistory, Series};
use super::samples::PingSample;
use super::{
    ClassMetrics, CountMetrics, DelaySamples, DropMetrics, FlowMetrics, Histogram, LimitMetrics,
    LinkMetrics, PingSamples, ProbeMetrics, Quantiles, QueueMetrics, Spread,
};
use crate::queue::{Backlog, DropReason, QueueDiscipline};
use crate::tcp::{Info, Limited};
use crate::units::{Bytes, Rate, Span, Time};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// Counters of a flow: so far, or for a part of the run.
#[derive(Copy, Clone, Debug, Default)]
struct Counters {
    /// Payload bytes acknowledged in order.
    acked: u64,
    /// Payload bytes that the receiver has, as known to the sender.
    delivered: u64,
    /// Payload bytes sent, including retransmissions, and retransmitted payload bytes.
    sent: u64,
    retransmitted: u64,
    /// Packets.
    retransmits: u64,
}

impl Counters {
    fn of(info: &Info) -> Counters {
        Counters {
            acked: info.bytes_acked,
            delivered: info.bytes_acked + info.bytes_sacked,
            sent: info.bytes_sent,
            retransmitted: info.bytes_retrans,
            retransmits: info.retransmits,
        }
    }
    fn since(&self, before: &Counters) -> Counters {
        Counters {
            acked: self.acked - before.acked,
            // A receiver may discard data that it has SACKed.
            delivered: self.delivered.saturating_sub(before.delivered),
            sent: self.sent - before.sent,
            retransmitted: self.retransmitted - before.retransmitted,
            retransmits: self.retransmits - before.retransmits,
        }
    }
    fn retransmit_rate(&self) -> f64 {
        self.retransmitted as f64 / self.sent.max(1) as f64
    }
}

/// Meters one flow. The engine calls [`started`](Self::started) at connect, the sampling calls on
/// time, and [`ended`](Self::ended) once. It calls [`measure`](Self::measure) at the end of the
/// warm-up, or at the start if that is later.
#[derive(Clone, Debug)]
pub struct FlowMeter {
    /// [`Time::MAX`] before the start.
    started: Time,
    /// Start of the flow's part of the summary interval, [`Time::MAX`] before it, and the counters
    /// then.
    mark: (Time, Counters),
    samples: SampleHistory,
    /// Counters (their lower halves) and RTT at the sample before, to detect new ACKs.
    heard: (u32, u32, Span),
    series: Series,
    result: Option<Box<FlowResult>>,
}

/// The silence of a flow, and its results that are known at its end.
#[derive(Clone, Debug, Default)]
struct FlowResult {
    /// Begin and end of the interval in which its application is silent.
    silence: Option<(Time, Time)>,
    ended: Option<Time>,
    fct: Option<Span>,
    timed_out: Option<Time>,
    /// Payload bytes that arrived in the summary interval, if an engine has both ends.
    received: Option<u64>,
    whole: Counters,
    limited: Limited,
}

impl Default for FlowMeter {
    fn default() -> FlowMeter {
        FlowMeter::new()
    }
}

impl FlowMeter {
    /// A flow that has not started.
    pub fn new() -> FlowMeter {
        FlowMeter {
            started: Time::MAX,
            mark: (Time::MAX, Counters::default()),
            samples: SampleHistory::default(),
            heard: (0, 0, Span::ZERO),
            series: Series::default(),
            result: None,
        }
    }
    fn result(&mut self) -> &mut FlowResult {
        self.result.get_or_insert_default()
    }
    /// Reports that the application is silent from `from` to `to`, which does not count as active
    /// time.
    pub fn silent(&mut self, from: Time, to: Time) {
        self.result().silence = Some((from, to));
    }
    /// Sets the time for which each limit has applied to the flow until its end.
    pub fn limited(&mut self, limited: Limited) {
        self.result().limited = limited;
    }
    /// Sets the payload bytes that arrived in the summary interval, each counted once.
    pub fn received(&mut self, bytes: u64) {
        self.result().received = Some(bytes);
    }
    /// The flow connects.
    pub fn started(&mut self, now: Time) {
        self.started = now;
    }
    /// Returns whether the flow has connected.
    fn has_started(&self) -> bool {
        self.started != Time::MAX
    }
    /// Returns whether the flow has connected and not ended.
    pub fn runs(&self) -> bool {
        let ended = |result: &FlowResult| result.ended.is_some();
        self.has_started() && !self.result.as_deref().is_some_and(ended)
    }
    /// Starts the flow's part of the summary interval.
    pub fn measure(&mut self, now: Time, info: &Info) {
        if self.runs() {
            self.mark = (now, Counters::of(info));
        }
    }
    /// Takes a sample; called each [`metric_interval`](super::metric_interval).
    pub fn sample(&mut self, now: Time, info: &Info) {
        let silence = self.result.as_deref().and_then(|result| result.silence);
        let silent = silence.is_some_and(|(from, to)| from <= now && now < to);
        // There is no smoothed RTT before the handshake is complete.
        if !silent && self.runs() && self.mark.0 != Time::MAX && info.srtt > Span::ZERO {
            let heard = (info.delivered as u32, info.bytes_acked as u32, info.srtt);
            let fresh = self.heard != heard;
            self.heard = heard;
            self.samples.push(Sample::of(info, fresh));
        }
    }
    /// Takes a point of the series; called each [`SERIES_INTERVAL`](super::SERIES_INTERVAL).
    pub fn point(&mut self, now: Time, info: &Info) {
        if self.runs() {
            self.series.push(now, info);
        }
    }
    /// The last byte of its transfer was acknowledged.
    pub fn finished(&mut self, now: Time, info: &Info) {
        if self.runs() {
            self.result().fct = Some(now.since(self.started));
            self.point(now, info);
            self.ended(now, info);
        }
    }
    /// Reports that the flow was stopped before the end of the run.
    pub fn stopped(&mut self, now: Time, info: &Info) {
        self.point(now, info);
        self.ended(now, info);
    }
    /// Reports that the sender ended the connection, because nothing was acknowledged for too long.
    pub fn timed_out(&mut self, now: Time, info: &Info) {
        if self.runs() {
            self.result().timed_out = Some(now);
            self.stopped(now, info);
        }
    }
    /// Ends the run of this flow; later calls are ignored.
    pub fn ended(&mut self, now: Time, info: &Info) {
        if self.runs() {
            let result = self.result();
            (result.ended, result.whole) = (Some(now), Counters::of(info));
        }
    }
    /// Returns the metrics of the flow, with these names. `interval` is the length of the run
    /// without its warm-up.
    pub fn metrics(self, id: String, cc: String, interval: Span) -> FlowMetrics {
        let result = self.result.map(|result| *result).unwrap_or_default();
        let whole = result.whole;
        let (from, before) = self.mark;
        let summary = result.ended.filter(|_| from != Time::MAX).and_then(|to| {
            let silent = result.silence.map_or(Span::ZERO, |(off, on)| {
                on.min(to).max(from).since(off.clamp(from, to))
            });
            let active = to.since(from) - silent;
            // Nothing was to be sent: later acknowledgements are no rate.
            (active > Span::ZERO).then(|| (active, whole.since(&before)))
        });
        let mbit = |bytes: u64, over: Span| {
            summary.map_or(f64::NAN, |_| bytes as f64 * 8.0 / over.as_s() / 1e6)
        };
        let active = summary.map_or(Span::ZERO, |(active, _)| active);
        let counted = summary.map(|(_, had)| had).unwrap_or_default();
        let ran = result.ended.map_or(Span::ZERO, |to| to.since(self.started));
        let limits = LimitMetrics {
            busy_s: result.limited.busy.as_s(),
            rwnd_limited_s: result.limited.peer_window.as_s(),
            sndbuf_limited_s: result.limited.send_buffer.as_s(),
            app_limited_s: Span::ns(ran.as_ns().saturating_sub(result.limited.busy.as_ns())).as_s(),
        };
        let (mut sampled, mut fresh, mut cwnd) = (Vec::new(), Vec::new(), Vec::new());
        for sample in self.samples.iter() {
            sampled.push(sample.srtt_us);
            fresh.extend(sample.is_fresh.then_some(sample.srtt_us));
            cwnd.extend(sample.cwnd);
        }
        let sampled_rtt_ms = rtt_quantiles(&mut sampled);
        let rtt_ms = if fresh.len() < sampled.len() {
            rtt_quantiles(&mut fresh)
        } else {
            sampled_rtt_ms
        };
        cwnd.sort_unstable();
        FlowMetrics {
            id,
            cc,
            goodput_mbit: mbit(result.received.unwrap_or(counted.delivered), interval),
            active_goodput_mbit: mbit(counted.acked, active),
            active_s: active.as_s(),
            retransmits: whole.retransmits,
            retransmit_rate: whole.retransmit_rate(),
            summary_retransmits: counted.retransmits,
            summary_retransmit_rate: counted.retransmit_rate(),
            run_retransmit_rate: whole.retransmit_rate(),
            rtt_ms,
            sampled_rtt_ms,
            cwnd_packets: Spread::of_sorted(cwnd.len(), |i| f64::from(cwnd[i].get())),
            fct_s: result.fct.map_or(f64::NAN, Span::as_s),
            timed_out_s: result.timed_out.map(|at| at.as_us() as f64 / 1e6),
            limits,
            route: Vec::new(),
            route_back: Vec::new(),
            workload: None,
            series: self.series.points(),
        }
    }
}

/// Quantiles in milliseconds of RTTs in microseconds, which are sorted.
fn rtt_quantiles(us: &mut [u32]) -> Quantiles {
    us.sort_unstable();
    Quantiles::of_sorted(us.len(), |i| Span::us(u64::from(us[i])).as_ms())
}

/// Waiting times in a class of a queue.
#[derive(Clone, Debug)]
struct ClassMeter {
    name: String,
    delay: Histogram,
    backlog: Vec<u32>,
    counted: Option<CountMetrics>,
}

/// Meters one queue.
#[derive(Clone, Debug)]
pub struct QueueMeter {
    name: String,
    kind: String,
    warmup: Time,
    lost: DropMetrics,
    /// Packets lost after the warm-up, for every reason.
    lost_later: u64,
    marks: u64,
    delay: Histogram,
    /// Packets, at each [`metric_interval`](super::metric_interval) after the warm-up.
    backlog: Vec<u32>,
    classes: Vec<ClassMeter>,
    /// The metrics of the link behind the queue; only in a network of links.
    link: Option<LinkMetrics>,
    /// The summary interval of the link.
    measured: Span,
}

/// A backlog as stored for metrics.
fn counted(backlog: Backlog) -> u32 {
    u32::try_from(backlog.packets).unwrap_or(u32::MAX)
}

impl QueueMeter {
    /// Creates the meter of the queue at the hop called `name`, with the discipline `kind` and
    /// these classes. Delays and backlogs count from `warmup` on, drops and marks from the start.
    pub fn new(name: String, kind: String, classes: Vec<String>, warmup: Time) -> QueueMeter {
        let class = |name| ClassMeter {
            name,
            delay: Histogram::new(),
            backlog: Vec::new(),
            counted: None,
        };
        QueueMeter {
            name,
            kind,
            warmup,
            lost: DropMetrics::default(),
            lost_later: 0,
            marks: 0,
            delay: Histogram::new(),
            backlog: Vec::new(),
            classes: classes.into_iter().map(class).collect(),
            link: None,
            measured: Span::ZERO,
        }
    }
    /// Counts a drop; random losses count separately.
    pub fn dropped(&mut self, now: Time, reason: DropReason) {
        self.lost.add(reason);
        self.lost_later += u64::from(now >= self.warmup);
    }
    /// Counts a mark.
    pub fn marked(&mut self) {
        self.marks += 1;
    }
    /// Counts a packet of `class` that left and had entered at `entered`.
    #[inline(always)]
    pub fn departed(&mut self, now: Time, entered: Time, class: u8) {
        if now >= self.warmup {
            self.delay.record(now.since(entered));
            if let Some(class) = self.classes.get_mut(usize::from(class)) {
                class.delay.record(now.since(entered));
            }
        }
    }
    /// Takes a sample of the backlog, in total and by class; called each
    /// [`metric_interval`](super::metric_interval).
    pub fn sample(&mut self, now: Time, backlog: Backlog, of_class: impl Fn(usize) -> Backlog) {
        if now >= self.warmup {
            self.backlog.push(counted(backlog));
            for (i, class) in self.classes.iter_mut().enumerate() {
                class.backlog.push(counted(of_class(i)));
            }
        }
    }
    /// Stores the discipline's own counters at the end of the run.
    pub fn counted<P>(&mut self, queue: &dyn QueueDiscipline<P>) {
        for (i, class) in self.classes.iter_mut().enumerate() {
            class.counted = queue.counts_of(i).map(CountMetrics::from);
        }
    }
    /// Returns a meter that also covers the link behind the queue. `rate` is the mean rate of the
    /// link over the summary interval, whose length is `measured`.
    pub fn with_link(mut self, rate: Rate, measured: Span) -> QueueMeter {
        self.measured = measured;
        self.link = Some(LinkMetrics::new(rate));
        self
    }
    /// Stores the bytes that the link has carried in the summary interval.
    pub fn carried(&mut self, bytes: Bytes) {
        if let Some(link) = &mut self.link {
            link.carried(bytes, self.measured);
        }
    }
    /// Number of its classes.
    pub fn classes(&self) -> usize {
        self.classes.len()
    }
    /// Drops so far.
    pub fn drops(&self) -> u64 {
        self.lost.drops()
    }
    /// Random losses of the hop so far, packets.
    pub fn random_losses(&self) -> u64 {
        self.lost.loss
    }
    /// Marks so far.
    pub fn marks(&self) -> u64 {
        self.marks
    }
    /// The delays so far, as queue `number`'s.
    pub fn delays(&self, number: u32, to: &mut DelaySamples) {
        to.push_queue(number, &self.delay);
    }
    /// The metrics so far.
    pub fn metrics(&self) -> QueueMetrics {
        let packets = |samples: &[u32]| {
            let mut samples = samples.to_vec();
            samples.sort_unstable();
            Spread::of_sorted(samples.len(), |i| f64::from(samples[i]))
        };
        let class = |c: &ClassMeter| ClassMetrics {
            name: c.name.clone(),
            delay_ms: c.delay.quantiles(),
            backlog_packets: packets(&c.backlog),
            counted: c.counted,
        };
        QueueMetrics {
            name: self.name.clone(),
            kind: self.kind.clone(),
            drops: self.lost.drops(),
            marks: self.marks,
            delay_ms: self.delay.quantiles(),
            backlog_packets: packets(&self.backlog),
            classes: self.classes.iter().map(class).collect(),
            link: self
                .link
                .map(|link| link.losing(self.lost, self.lost_later, &self.delay)),
        }
    }
}

/// Meters one probe.
#[derive(Clone, Debug, Default)]
pub struct ProbeMeter {
    sent: Vec<(Time, Option<Span>)>,
}

impl ProbeMeter {
    /// A probe that has sent nothing.
    pub fn new() -> ProbeMeter {
        ProbeMeter::default()
    }
    /// Counts the next ping, which leaves; returns its number.
    pub fn sent(&mut self, now: Time) -> u64 {
        self.sent.push((now, None));
        self.sent.len() as u64 - 1
    }
    /// Counts the response to ping `number`.
    pub fn received(&mut self, now: Time, number: u64) {
        if let Some((sent, rtt)) = usize::try_from(number)
            .ok()
            .and_then(|i| self.sent.get_mut(i))
        {
            // Of duplicates the first counts.
            rtt.get_or_insert(now.since(*sent));
        }
    }
    /// The metrics of a probe of this kind; round-trip times of pings sent from `warmup` on.
    pub fn metrics(&self, kind: &'static str, warmup: Time) -> ProbeMetrics {
        let answered = || {
            self.sent
                .iter()
                .filter_map(|(sent, rtt)| Some((*sent, (*rtt)?)))
        };
        let mut rtts: Vec<f64> = answered()
            .filter(|(sent, _)| *sent >= warmup)
            .map(|(_, rtt)| rtt.as_ms())
            .collect();
        ProbeMetrics {
            kind,
            sent: self.sent.len() as u64,
            received: answered().count() as u64,
            rtt_ms: Quantiles::of(&mut rtts),
            delay_ms: None,
        }
    }
    /// The round-trip times of pings sent from `warmup` on, as probe `number`'s.
    pub fn delays(&self, number: u32, warmup: Time, to: &mut DelaySamples) {
        let counted = self.sent.iter().filter(|(sent, _)| *sent >= warmup);
        to.push_probe(number, counted.filter_map(|(_, rtt)| *rtt).collect());
    }
    /// Every ping in order of sending.
    pub fn samples(&self, probe: u32, to: &mut PingSamples) {
        for (sent, rtt) in &self.sent {
            to.push(PingSample {
                t_s: sent.as_s(),
                probe,
                rtt_ms: rtt.map_or(f64::NAN, Span::as_ms),
            });
        }
    }
}
