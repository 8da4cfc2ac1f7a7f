//! The self-check of a run with the kernel's TCP. It determines how far the run deviates from the
//! scenario, and whether its metrics can be trusted. docs/reference/figures.md lists the criteria.

use crate::emulator::frame::Frame;
use crate::emulator::traffic::Writes;
use narrows_core::metrics::Histogram;
use narrows_core::net::{NEAR, Port};
use narrows_core::packet::Packet as _;
use narrows_core::units::{Rate, Span, Time};
use serde_json::{Value, json};

/// Length of the windows in which the rate is checked.
const WINDOW: Span = Span::ms(100);
/// Share of the rate that must be due in a window for the window to be checked.
const BUSY: f64 = 0.9;
/// Lateness of a wake-up from which on it is assumed that the kernel has throttled the real-time
/// class.
const THROTTLED: Span = Span::ms(40);

/// Lateness of packets, and the rate at which they were written.
#[derive(Debug)]
pub struct Lateness {
    real_time: bool,
    /// Whether the processors were kept out of idle states.
    pub awake: bool,
    rate: Rate,
    late: Histogram,
    most: Span,
    gaps: u64,
    longest: Span,
    /// Bytes to the far hosts in each window: due in it, and written in it.
    windows: Vec<(u64, u64)>,
    end: Time,
    cpu_ns: u64,
    /// Number of packets that were not forwarded: no valid IPv4 or IPv6, or without a destination
    /// in the network.
    pub foreign: u64,
    /// Number of packets that a device did not accept.
    pub refused: u64,
    /// Number of packets lost because the device of their host was down.
    pub down: u64,
    /// Error that ended the forwarding before the end of the run, if any.
    pub ended: Option<String>,
}

impl Lateness {
    pub(crate) fn new(real_time: bool, rate: Rate) -> Lateness {
        Lateness {
            real_time,
            awake: false,
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
    /// Records that `frame`, which was due at the time `at`, is written to the device at `port`
    /// now.
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
    /// Records a wake-up that was due at `at`.
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
    /// Relative errors of the rate in busy windows: number of windows, mean, standard deviation,
    /// and largest absolute value.
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

/// The values that the self-check needs besides the lateness of packets.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// Smallest base RTT of all flows and probes.
    pub rtt: Span,
    /// Number of packets dropped by the emulated queues.
    pub drops: u64,
    /// Number of packets dropped by the queues of the hosts' devices.
    pub overflow: u64,
    /// Writes of the sending applications.
    pub writes: Writes,
    /// Queue discipline of the devices.
    pub qdisc: &'static str,
    /// Timer interval while packets wait; `None`: a timer for each packet.
    pub tick: Option<Span>,
    /// Whether consecutive packets leave as one.
    pub joined: bool,
    /// Whether a sender uses the largest delivery rate that it has measured, as BBR does. Such a
    /// sender mistakes a burst of late packets for a higher rate.
    pub peaks: bool,
    /// CPU time of the whole process.
    pub process_cpu: Span,
    /// Whether processing takes time, unlike in virtual time.
    pub takes_time: bool,
    /// Settings of `[host]` that differ in this kernel: key, and the kernel's value.
    pub otherwise: Vec<(&'static str, String)>,
}

/// Limit of the p99 of lateness, as a share of the base RTT; the limit is at least
/// [`ALWAYS_SMALL`].
const PART_OF_RTT: f64 = 0.05;
const ALWAYS_SMALL: Span = Span::us(200);
/// Limit of the p99.9 of lateness, as a share of the base RTT; the limit is at least
/// [`WORST_ALWAYS_SMALL`].
const WORST_OF_RTT: f64 = 0.25;
/// The same limit if a sender uses the largest delivery rate of the last ten round trips, as BBR
/// does. Such a sender sends too fast by this share, and the excess is queued. This was measured in
/// six runs of BBR at 20 Mbit/s and 40 ms. Four with less than 1.1 ms had an RTT of 45.1 to 45.7
/// ms; with 2.4 ms it was 48.7 ms.
const PEAK_OF_RTT: f64 = 0.05;
const WORST_ALWAYS_SMALL: Span = Span::ms(1);
/// Limit of the mean rate error.
const RATE: f64 = 0.005;
/// Limit of the drops of the hosts' devices, as a share of the drops of the emulated queues.
const OVERFLOW: f64 = 0.01;
/// Limit of the late writes of sending applications, as a share of all their writes.
const STARVED: f64 = 0.01;

fn shown(x: f64) -> Value {
    // Six significant digits, as in all metrics.
    let rounded: f64 = format!("{x:.5e}").parse().unwrap_or(x);
    json!(rounded)
}

/// A time in us as text; in ms if it has more than four digits.
pub fn lateness(us: f64) -> String {
    if us < 9999.5 {
        format!("{us:.0} us")
    } else {
        format!("{:.1} ms", us / 1e3)
    }
}

/// The result of the self-check as JSON, with the verdict. It is the key `instruments` of a run.
pub fn confess(seen: &Lateness, on: &Conditions) -> Value {
    let us = |span: Span| span.as_ns() as f64 / 1e3;
    let at = |q| seen.late.percentile(q).map_or(0.0, us);
    let (windows, mean, sd, worst) = seen.rate_errors();
    let mut why: Vec<String> = Vec::new();
    let limit = (on.rtt.as_ns() as f64 / 1e3 * PART_OF_RTT).max(us(ALWAYS_SMALL));
    if at(0.99) > limit {
        why.push(format!(
            "1 % of packets left more than {} late; the limit at an RTT of {:.1} ms is {}: use an \
             idle machine, or run as root",
            lateness(at(0.99)),
            on.rtt.as_ms(),
            lateness(limit)
        ));
    }
    let worst_part = if on.peaks { PEAK_OF_RTT } else { WORST_OF_RTT };
    let worst_limit = (on.rtt.as_ns() as f64 / 1e3 * worst_part).max(us(WORST_ALWAYS_SMALL));
    if at(0.999) > worst_limit {
        why.push(format!(
            "0.1 % of packets left more than {} late; the limit at an RTT of {:.1} ms is {}: use \
             an idle machine, or run as root",
            lateness(at(0.999)),
            on.rtt.as_ms(),
            lateness(worst_limit)
        ));
    }
    if windows > 0 && mean.abs() > RATE {
        why.push(format!(
            "the rate differed by {:.2} % from that of the scenario; the limit is {:.1} %: write a \
             lower rate, or use a faster machine",
            mean * 100.0,
            RATE * 100.0
        ));
    }
    if on.overflow as f64 > OVERFLOW * on.drops as f64 {
        why.push(format!(
            "the hosts' own devices dropped {} packets, the emulated queues {}: use an idle \
             machine",
            on.overflow, on.drops
        ));
    }
    // In virtual time, the send buffer can only run empty because of `notsent_lowat`, as in Linux.
    if on.takes_time && on.writes.late as f64 > STARVED * on.writes.asked as f64 {
        why.push(format!(
            "applications wrote too late {} of {} times, so that no data was left to send: use an \
             idle machine, or write a larger notsent_lowat",
            on.writes.late, on.writes.asked
        ));
    }
    if seen.refused > 0 {
        why.push(format!(
            "the hosts did not accept {} packets: add memory",
            seen.refused
        ));
    }
    if seen.down > 0 {
        why.push(format!(
            "the device of a host was down, and {} packets for it were lost: `ip link set e0 up`",
            seen.down
        ));
    }
    if let Some(ended) = &seen.ended {
        why.push(format!(
            "forwarding ended before the run, as after the device of a host is deleted: {ended}"
        ));
    }
    if seen.real_time && seen.gaps > 0 {
        why.push(format!(
            "the kernel suspended the real-time thread {} times (up to {:.0} ms): write a lower \
             rate, or set kernel.sched_rt_runtime_us=-1",
            seen.gaps,
            seen.longest.as_ms()
        ));
    }
    // Without a packet there is no verdict.
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
        "idle_states": !seen.awake,
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

    /// Observations of one second at 80 Mbit/s: 1 MB is due in each window, of which `written`
    /// bytes were written.
    fn seen(late: Span, written: u64) -> Lateness {
        let mut seen = Lateness::new(true, Rate::mbit(80));
        (0..1000).for_each(|_| seen.late.record(late));
        for n in 0..10 {
            *seen.window(Time::ZERO + Span::ms(100 * n)) = (1_000_000, written);
        }
        // A window that was not busy does not count.
        *seen.window(Time::ZERO + Span::s(1)) = (500_000, 0);
        seen
    }
    #[test]
    fn long_times_are_written_in_ms() {
        assert_eq!(lateness(64.4), "64 us");
        assert_eq!(lateness(9999.4), "9999 us");
        assert_eq!(lateness(19_857.0), "19.9 ms");
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
            takes_time: true,
            otherwise: vec![("hz", "250".into())],
        }
    }

    #[test]
    fn a_small_error_is_trusted_and_reported() {
        let told = confess(&seen(Span::us(900), 999_000), &on(Span::ms(20)));
        assert_eq!((&told["trusted"], &told["why"]), (&json!(true), &json!([])));
        assert_eq!(told["rate_error"]["windows"], 10);
        assert_eq!(told["rate_error"]["mean"], -0.001);
        assert_eq!(told["otherwise"]["hz"], "250");
    }

    #[test]
    fn every_kind_of_error_has_a_reason() {
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
        let in_virtual_time = Conditions {
            takes_time: false,
            ..starved
        };
        assert_eq!(reasons(&seen(Span::us(10), 1_000_000), &in_virtual_time), 0);
        let mut kept = seen(Span::us(10), 1_000_000);
        kept.woke(Time::ZERO, Time::ZERO + Span::ms(50));
        kept.refused = 1;
        assert_eq!(reasons(&kept, &on(Span::ms(20))), 2);
        (kept.down, kept.ended) = (1, Some("no such device".into()));
        assert_eq!(reasons(&kept, &on(Span::ms(20))), 4);
    }

    #[test]
    fn without_a_packet_there_is_no_verdict() {
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
