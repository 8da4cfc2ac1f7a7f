//! Instruments confess: how far a run is from what was asked for, and whether its figures can be
//! trusted.

use crate::emulator::frame::Frame;
use crate::emulator::traffic::Writes;
use narrows_core::figures::Histogram;
use narrows_core::net::{NEAR, Port};
use narrows_core::packet::Packet as _;
use narrows_core::units::{Rate, Span, Time};
use serde_json::{Value, json};

/// The rate is compared in windows of so long.
const WINDOW: Span = Span::ms(100);
/// A window is busy when so much of the rate was due in it.
const BUSY: f64 = 0.9;
/// So late a wake-up of the real-time class is one that the kernel kept from it.
const THROTTLED: Span = Span::ms(40);

/// How late packets were written, and how much of the rate was.
#[derive(Debug)]
pub struct Lateness {
    real_time: bool,
    rate: Rate,
    late: Histogram,
    most: Span,
    gaps: u64,
    longest: Span,
    /// Bytes to FAR by window: due, and written.
    windows: Vec<(u64, u64)>,
    end: Time,
    cpu_ns: u64,
    /// Packets that were no IPv4.
    pub foreign: u64,
    /// Packets that a device did not take.
    pub refused: u64,
    /// Packets that did not arrive because their host's device was down.
    pub down: u64,
    /// Why no packet passed any more before the run was over.
    pub ended: Option<String>,
}

impl Lateness {
    pub(crate) fn new(real_time: bool, rate: Rate) -> Lateness {
        Lateness {
            real_time,
            rate,
            late: Histogram::new(),
            most: Span::ZERO,
            gaps: 0,
            longest: Span::ZERO,
            windows: Vec::new(),
            end: Time::MAX,
            cpu_ns: 0,
            foreign: 0,
            refused: 0,
            down: 0,
            ended: None,
        }
    }
    /// `frame` was due at `port` at `at` and is written now.
    pub(crate) fn left(&mut self, now: Time, at: Time, port: Port, frame: &Frame) {
        if at > self.end {
            return;
        }
        let late = now.since(at);
        self.late.record(late);
        self.most = self.most.max(late);
        if port != NEAR {
            let size = frame.size().get();
            self.window(at).0 += size;
            self.window(now).1 += size;
        }
    }
    fn window(&mut self, at: Time) -> &mut (u64, u64) {
        let place = (at.as_ns() / WINDOW.as_ns()) as usize;
        if place >= self.windows.len() {
            self.windows.resize(place + 1, (0, 0));
        }
        &mut self.windows[place]
    }
    /// It wanted to wake up at `at` at the latest and did so now.
    pub(crate) fn woke(&mut self, at: Time, now: Time) {
        let late = now.since(at);
        self.longest = self.longest.max(late);
        self.gaps += u64::from(late > THROTTLED);
    }
    pub(crate) fn close(&mut self, end: Time) {
        self.end = end;
    }
    pub(crate) fn cpu(&mut self, ns: u64) {
        self.cpu_ns = ns;
    }
    /// Relative errors of the rate in busy windows: how many windows, mean, standard deviation, the
    /// worst.
    fn rate_errors(&self) -> (usize, f64, f64, f64) {
        let full = (self.rate * WINDOW).get() as f64;
        let busy = self
            .windows
            .iter()
            .filter(|(due, _)| *due as f64 >= BUSY * full);
        let errors: Vec<f64> = busy
            .map(|(due, written)| *written as f64 / *due as f64 - 1.0)
            .collect();
        let n = errors.len();
        if n == 0 {
            return (0, 0.0, 0.0, 0.0);
        }
        let mean = errors.iter().sum::<f64>() / n as f64;
        let variance = errors.iter().map(|e| (e - mean) * (e - mean)).sum::<f64>() / n as f64;
        let worst = errors.iter().fold(0.0, |worst: f64, e| worst.max(e.abs()));
        (n, mean, variance.sqrt(), worst)
    }
}

/// What else is known of a run's conditions.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// The least propagation that a flow or probe has, both ways.
    pub rtt: Span,
    /// Packets that a queue dropped.
    pub drops: u64,
    /// Packets that the devices of both hosts could not hold.
    pub overflow: u64,
    /// How sending applications kept up.
    pub writes: Writes,
    /// The devices' queue discipline.
    pub qdisc: &'static str,
    /// From one wake-up to the next while something waits.
    pub tick: Option<Span>,
    /// What follows each other went out as one.
    pub joined: bool,
    /// Some sender goes by the greatest rate that it saw, as BBR does: to it a clump of packets is
    /// a rate.
    pub peaks: bool,
    /// Processor time of the whole process.
    pub process_cpu: Span,
    /// What the scenario asks of its hosts and this kernel does otherwise: key, and what it is
    /// here.
    pub otherwise: Vec<(&'static str, String)>,
}

/// Late by more than this part of the least RTT is not small beside the figures, but this late
/// always is.
const PART_OF_RTT: f64 = 0.05;
const ALWAYS_SMALL: Span = Span::us(200);
/// Of the latest packets, one in a thousand, this part is not small.
const WORST_OF_RTT: f64 = 0.25;
/// The same where a sender goes by the greatest rate of ten round trips: it sends too fast by this
/// part, and what that is too much queues. Of six runs of BBR at 20 Mbit/s and 40 ms, four with
/// less than 1.1 ms had an RTT of 45.1 to 45.7 ms; with 2.4 ms it was 48.7.
const PEAK_OF_RTT: f64 = 0.05;
const WORST_ALWAYS_SMALL: Span = Span::ms(1);
/// The rate may be off by this.
const RATE: f64 = 0.005;
/// So much of the drops may be the devices'.
const OVERFLOW: f64 = 0.01;
/// So often may an application come late.
const STARVED: f64 = 0.01;

fn shown(x: f64) -> Value {
    // Six significant digits, as in all figures.
    let rounded: f64 = format!("{x:.5e}").parse().unwrap_or(x);
    json!(rounded)
}

/// The confession as JSON: `instruments` of a run, with its verdict.
pub fn confess(seen: &Lateness, on: &Conditions) -> Value {
    let us = |span: Span| span.as_ns() as f64 / 1e3;
    let at = |q| seen.late.percentile(q).map_or(0.0, us);
    let (windows, mean, sd, worst) = seen.rate_errors();
    let mut why: Vec<String> = Vec::new();
    let limit = (on.rtt.as_ns() as f64 / 1e3 * PART_OF_RTT).max(us(ALWAYS_SMALL));
    if at(0.99) > limit {
        why.push(format!(
            "1 % of packets left more than {:.0} us late, which is not small beside an RTT of \
             {:.1} ms: a quieter machine, or root",
            at(0.99),
            on.rtt.as_ms()
        ));
    }
    let worst_part = if on.peaks { PEAK_OF_RTT } else { WORST_OF_RTT };
    let worst_limit = (on.rtt.as_ns() as f64 / 1e3 * worst_part).max(us(WORST_ALWAYS_SMALL));
    if at(0.999) > worst_limit {
        why.push(format!(
            "packets in clumps: 0.1 % left more than {:.0} us late at an RTT of {:.1} ms: a \
             quieter machine, or root",
            at(0.999),
            on.rtt.as_ms()
        ));
    }
    if windows > 0 && mean.abs() > RATE {
        why.push(format!(
            "the rate was off by {:.2} %: a lower rate, or a faster machine",
            mean * 100.0
        ));
    }
    if on.overflow as f64 > OVERFLOW * on.drops as f64 {
        why.push(format!(
            "the hosts' own devices dropped {} packets beside {} of the queues: a quieter machine",
            on.overflow, on.drops
        ));
    }
    if on.writes.late as f64 > STARVED * on.writes.asked as f64 {
        why.push(format!(
            "applications wrote too late {} of {} times, so that nothing was there to send: a \
             quieter machine, or a larger notsent_lowat",
            on.writes.late, on.writes.asked
        ));
    }
    if seen.refused > 0 {
        why.push(format!(
            "the hosts did not take {} packets: more memory",
            seen.refused
        ));
    }
    if seen.down > 0 {
        why.push(format!(
            "a host's device was down, and {} packets did not arrive there: ip link set e0 up",
            seen.down
        ));
    }
    if let Some(ended) = &seen.ended {
        why.push(format!(
            "no packet passed any more, as after a host's device was deleted: {ended}"
        ));
    }
    if seen.real_time && seen.gaps > 0 {
        why.push(format!(
            "the kernel kept the real-time thread from running {} times (up to {:.0} ms): a lower \
             rate, or kernel.sched_rt_runtime_us=-1",
            seen.gaps,
            seen.longest.as_ms()
        ));
    }
    // Nothing was late because nothing passed: that says nothing about this machine.
    let nothing = why.is_empty() && seen.late.count() == 0;
    if nothing {
        why.push("no packet crossed the path".to_string());
    }
    let trusted = if nothing {
        Value::Null
    } else {
        json!(why.is_empty())
    };
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: f64 = load
        .split_whitespace()
        .next()
        .and_then(|x| x.parse().ok())
        .unwrap_or(0.0);
    json!({
        "trusted": trusted,
        "why": why,
        "packets": seen.late.count(),
        "lateness_us": {
            "p50": shown(at(0.5)), "p99": shown(at(0.99)), "p99_9": shown(at(0.999)),
            "max": shown(us(seen.most)),
        },
        "rate_error": { "windows": windows, "mean": shown(mean), "sd": shown(sd),
        "worst": shown(worst) },
        "device": { "qdisc": on.qdisc, "queue_packets": crate::netns::QUEUE,
        "overflow": on.overflow, "refused": seen.refused, "down": seen.down },
        "writes": { "asked": on.writes.asked, "late": on.writes.late },
        "foreign_packets": seen.foreign,
        "late_wakeups": { "over_40_ms": seen.gaps, "longest_ms": shown(seen.longest.as_ms()) },
        "class": if seen.real_time { "real-time" } else { "ordinary" },
        "tick_us": on.tick.map(us),
        "joined": on.joined,
        "cpu_s": { "emulator": shown(seen.cpu_ns as f64 / 1e9),
        "process": shown(on.process_cpu.as_s()) },
        "load": load,
        "kernel": std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim(),
        "otherwise": on.otherwise.iter().map(|(key, here)| ((*key).to_string(),
        json!(here))).collect::<serde_json::Map<_, _>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A second at 80 Mbit/s, 1 MB in each window, of which `written` were.
    fn seen(late: Span, written: u64) -> Lateness {
        let mut seen = Lateness::new(true, Rate::mbit(80));
        (0..1000).for_each(|_| seen.late.record(late));
        for n in 0..10 {
            *seen.window(Time::ZERO + Span::ms(100 * n)) = (1_000_000, written);
        }
        // One that was not busy does not count.
        *seen.window(Time::ZERO + Span::s(1)) = (500_000, 0);
        seen
    }
    fn on(rtt: Span) -> Conditions {
        Conditions {
            rtt,
            drops: 1000,
            overflow: 10,
            writes: Writes {
                asked: 100,
                late: 1,
            },
            qdisc: "pfifo",
            tick: None,
            joined: false,
            peaks: false,
            process_cpu: Span::ZERO,
            otherwise: vec![("hz", "250".into())],
        }
    }

    #[test]
    fn a_small_error_is_trusted_and_told() {
        let told = confess(&seen(Span::us(900), 999_000), &on(Span::ms(20)));
        assert_eq!((&told["trusted"], &told["why"]), (&json!(true), &json!([])));
        assert_eq!(told["rate_error"]["windows"], 10);
        assert_eq!(told["rate_error"]["mean"], -0.001);
        assert_eq!(told["otherwise"]["hz"], "250");
    }

    #[test]
    fn every_kind_of_error_has_its_words() {
        let reasons = |seen: &Lateness, on: &Conditions| {
            confess(seen, on)["why"].as_array().map_or(0, Vec::len)
        };
        assert_eq!(
            reasons(&seen(Span::us(900), 1_000_000), &on(Span::ms(5))),
            1
        );
        assert_eq!(reasons(&seen(Span::us(190), 1_000_000), &on(Span::ZERO)), 0);
        assert_eq!(reasons(&seen(Span::us(10), 990_000), &on(Span::ms(20))), 1);
        let much = Conditions {
            overflow: 11,
            ..on(Span::ms(20))
        };
        assert_eq!(reasons(&seen(Span::us(10), 1_000_000), &much), 1);
        let starved = Conditions {
            writes: Writes {
                asked: 100,
                late: 2,
            },
            ..on(Span::ms(20))
        };
        assert_eq!(reasons(&seen(Span::us(10), 1_000_000), &starved), 1);
        let mut kept = seen(Span::us(10), 1_000_000);
        kept.woke(Time::ZERO, Time::ZERO + Span::ms(50));
        kept.refused = 1;
        assert_eq!(reasons(&kept, &on(Span::ms(20))), 2);
        (kept.down, kept.ended) = (1, Some("no such device".into()));
        assert_eq!(reasons(&kept, &on(Span::ms(20))), 4);
    }

    #[test]
    fn without_a_packet_nobody_can_tell() {
        let calm = Conditions {
            overflow: 0,
            ..on(Span::ms(20))
        };
        let told = confess(&Lateness::new(true, Rate::mbit(80)), &calm);
        assert_eq!(
            (&told["trusted"], &told["why"]),
            (&Value::Null, &json!(["no packet crossed the path"]))
        );
        let mut refused = Lateness::new(true, Rate::mbit(80));
        refused.refused = 1;
        assert_eq!(confess(&refused, &calm)["trusted"], false);
    }
}
