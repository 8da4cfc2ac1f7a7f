//! The metrics of each station of a `[wifi]`: its use of the medium, and where its packets waited.

use super::{Quantiles, QueueMeter, QueueMetrics, six_digits};
use crate::net::wifi::{AIR, DRIVER, STACK, Stack, UP, Usage, WifiSpec};
use crate::units::{Span, Time};
use alloc::string::String;
use alloc::vec::Vec;
use serde::Serialize;

/// The metrics of one station, after the warm-up.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct StationMetrics {
    /// Name of the station, unique in the scenario.
    pub name: String,
    /// Goodput of all flows of the station in both directions, Mbit/s.
    #[serde(serialize_with = "six_digits")]
    pub goodput_mbit: f64,
    /// Share of the summary interval that frames to and from the station occupy, including answers
    /// and failed transmissions. One minus the sum of this share over all stations is the share of
    /// contention and idle time.
    #[serde(serialize_with = "six_digits")]
    pub airtime_share: f64,
    /// Metrics of the transmissions to the station.
    pub aggregate: AggregateMetrics,
    /// Metrics of the transmissions from the station.
    pub aggregate_up: AggregateMetrics,
    /// Number of retransmitted frames to and from the station.
    pub retries: u64,
    /// Share of the transmissions to and from the station that collided.
    #[serde(serialize_with = "six_digits")]
    pub collision_share: f64,
    /// Waiting times at each level of packets to the station, milliseconds.
    pub delay_ms: LevelDelays,
}

/// Averages of transmissions.
#[derive(Copy, Clone, PartialEq, Debug, Serialize)]
pub struct AggregateMetrics {
    /// Frames per transmission.
    #[serde(serialize_with = "six_digits")]
    pub frames: f64,
    /// Bytes of Ethernet frames per transmission.
    #[serde(serialize_with = "six_digits")]
    pub bytes: f64,
}

impl AggregateMetrics {
    fn of((sent, frames, bytes): (u64, u64, u64)) -> AggregateMetrics {
        AggregateMetrics {
            frames: frames as f64 / sent as f64,
            bytes: bytes as f64 / sent as f64,
        }
    }
}

/// Waiting times of packets at each level; `None` at a level that the stack does not have.
#[derive(Copy, Clone, PartialEq, Debug, Serialize)]
pub struct LevelDelays {
    /// In the qdisc.
    pub qdisc: Option<Quantiles>,
    /// In mac80211.
    pub mac80211: Option<Quantiles>,
    /// Waiting times in driver and hardware, until the packet's transmission is the next one of its
    /// category.
    pub driver: Option<Quantiles>,
    /// Waiting times on the air: from then on until the packet and all frames before it have
    /// arrived.
    pub air: Option<Quantiles>,
}

/// A meter for each level of a stack, with the stations as classes.
pub fn level_meters(wifi: &WifiSpec, warmup: Time) -> Vec<QueueMeter> {
    let names: Vec<String> = wifi
        .stations
        .iter()
        .map(|station| station.name.clone())
        .collect();
    let of = |level: u8| match (level, wifi.stack) {
        (STACK, Stack::Before) => wifi.qdisc.kind.as_str(),
        (STACK, stack) => stack.name(),
        (DRIVER, Stack::Before) => "fifo",
        _ => wifi.standard_name(),
    };
    let meter = |(level, name): (u8, &str)| {
        QueueMeter::new(name.into(), of(level).into(), names.clone(), warmup)
    };
    (0..).zip(wifi.stack.levels()).map(meter).collect()
}

/// The stations' use of the medium after the warm-up.
#[derive(Clone, Debug)]
pub struct UsageMeter {
    warmup: Time,
    before: Option<Vec<Usage>>,
}

impl UsageMeter {
    /// From `warmup` on.
    pub fn new(warmup: Time) -> UsageMeter {
        UsageMeter {
            warmup,
            before: None,
        }
    }
    /// If `begins` has not been called yet and `now` has reached the end of the warm-up, returns
    /// this end. The medium must then be polled up to it, and `begins` called.
    pub fn due(&self, now: Time) -> Option<Time> {
        (self.before.is_none() && now >= self.warmup).then_some(self.warmup)
    }
    /// The warm-up ends.
    pub fn begins(&mut self, usage: &[Usage]) {
        self.before = Some(usage.to_vec());
    }
    /// The run ends: returns the use since the warm-up.
    pub fn used(&self, usage: &[Usage]) -> Vec<Usage> {
        let before = self.before.iter().flatten().copied();
        let before = before.chain(core::iter::repeat(Usage::default()));
        usage
            .iter()
            .zip(before)
            .map(|(now, before)| now.since(&before))
            .collect()
    }
}

/// Waiting times of one probe's pings at each level, on their way to a station.
#[derive(Clone, Debug, Default)]
pub struct LevelMeter {
    waited: [Vec<f64>; UP as usize],
}

impl LevelMeter {
    /// Counts a ping that leaves a level.
    pub fn departed(&mut self, level: u8, waited: Span) {
        if let Some(level) = self.waited.get_mut(usize::from(level)) {
            level.push(waited.as_ms());
        }
    }
    /// The metrics for this stack.
    pub fn metrics(mut self, stack: Stack) -> LevelDelays {
        LevelDelays::of(stack, |level| {
            let waited = self.waited.get_mut(usize::from(level))?;
            Some(Quantiles::of(waited))
        })
    }
}

impl LevelDelays {
    fn of(stack: Stack, mut delay: impl FnMut(u8) -> Option<Quantiles>) -> LevelDelays {
        let (above, before) = (delay(STACK), stack == Stack::Before);
        LevelDelays {
            qdisc: above.filter(|_| before),
            mac80211: above.filter(|_| !before),
            driver: delay(DRIVER),
            air: delay(AIR),
        }
    }
}

impl StationMetrics {
    /// For every station of a Wi-Fi over a summary interval of `time`. `used` is the stations' use
    /// of the medium. `levels` are the metrics of the levels with the stations as classes.
    /// `goodput` is that of each station in Mbit/s.
    pub fn of(
        wifi: &WifiSpec,
        time: Span,
        used: &[Usage],
        levels: &[QueueMetrics],
        goodput: &[f64],
    ) -> Vec<StationMetrics> {
        let metrics = |(i, usage): (usize, &Usage)| {
            let delay = |level: u8| {
                let classes = levels.get(usize::from(level)).map(|queue| &queue.classes);
                classes
                    .and_then(|classes| classes.get(i))
                    .map(|class| class.delay_ms)
            };
            StationMetrics {
                name: wifi
                    .stations
                    .get(i)
                    .map(|s| s.name.clone())
                    .unwrap_or_default(),
                goodput_mbit: goodput.get(i).copied().unwrap_or(f64::NAN),
                airtime_share: usage.airtime.as_s() / time.as_s(),
                aggregate: AggregateMetrics::of(usage.down),
                aggregate_up: AggregateMetrics::of(usage.up),
                retries: usage.retries,
                collision_share: usage.collisions as f64 / usage.transmissions as f64,
                delay_ms: LevelDelays::of(wifi.stack, delay),
            }
        };
        used.iter().enumerate().map(metrics).collect()
    }
}
