//! The keys of a scenario: one table for the parser's suggestions, for `narrows list` and for the
//! docs.

use super::schema::{key, plain};
use crate::param::Kind;
use crate::units::{Bytes, Span};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

pub use super::schema::{Form, Key};

/// Every key, those to come included.
pub const KEYS: &[Key] = &[
    key(
        "",
        "title",
        "text",
        "empty",
        "up to 200 characters",
        "title of the scenario in reports",
    ),
    key(
        "",
        "duration",
        "time",
        "required",
        "1ms to 24h",
        "length of the run",
    ),
    key(
        "",
        "warmup",
        "time",
        "20% of duration",
        "0s to duration",
        "initial part of the run that the summary excludes",
    ),
    key(
        "",
        "seed",
        "count",
        "1",
        "0 to 2^64 - 1",
        "seed of all random choices",
    ),
    key(
        "",
        "start_jitter",
        "time",
        "the largest RTT of a flow",
        "0s to duration, at most 1h",
        "upper limit of the random delay that is added to the start of each flow",
    ),
    key(
        "",
        "path",
        "section",
        "required unless wifi is given",
        "",
        "path between the hosts",
    ),
    key(
        "",
        "wifi",
        "section",
        "none",
        "",
        "access point and stations, instead of a path",
    ),
    key(
        "",
        "host",
        "section",
        "Linux 6.12",
        "",
        "TCP settings of both ends",
    ),
    key(
        "",
        "flow",
        "list of sections",
        "at least one flow or probe",
        "",
        "flows, which send the data",
    ),
    key(
        "",
        "probe",
        "list of sections",
        "none",
        "",
        "measurements beside the flows",
    ),
    key(
        "path",
        "rate",
        "rate",
        "required",
        "1bit to 10Tbit",
        "rate of the bottleneck",
    ),
    key(
        "path",
        "rtt",
        "time",
        "required",
        "1us to 1h",
        "two-way propagation delay",
    )
    .of_a_distance(),
    key(
        "path",
        "delay_forward",
        "time",
        "half of rtt",
        "0s to rtt",
        "part of rtt on the forward path",
    )
    .of_a_distance(),
    key(
        "path",
        "buffer",
        "buffer",
        "the default limit of the queue discipline",
        "1514B to 1000GB, 1p to 10000000p, above 0bdp to 10000bdp",
        "buffer of the bottleneck in bytes, packets (170p) or bandwidth-delay products (0.5bdp)",
    ),
    key(
        "path",
        "queue",
        "name or { kind, parameters }",
        "fifo",
        "",
        "queue discipline of the bottleneck",
    ),
    key(
        "path",
        "link",
        "name or { kind, parameters }",
        "serial",
        "serial, tbf, htb, shape_average, shape_peak",
        "mechanism that limits the rate: a serial line or a shaper",
    ),
    key(
        "path",
        "offload",
        "switch",
        "false",
        "true, false; with serial and htb only",
        "super-packets cross the path in one piece, as between machines with TSO and GRO: queue, \
         loss model and receiver process each one as a single packet",
    )
    .of_the_whole_path(),
    plain(
        "path",
        "nat",
        Kind::Bool(false),
        "the hosts at the far end share one address, as behind a home router; a queue discipline \
         can separate them only if it looks up the addresses behind NAT",
    )
    .of_the_whole_path(),
    key(
        "path",
        "loss",
        "probability or { kind, parameters }",
        "none",
        "0 to 1, or 0% to 100%, or a kind of `narrows list loss`; per superpacket (the default) \
         or packet",
        "loss before the queue, drawn once for each super-packet (all of its segments are lost \
         together) or for each packet",
    ),
    key(
        "path",
        "steps",
        "list of { at, rate }",
        "none",
        "",
        "changes of the rate: [{ at = \"10s\", rate = \"5Mbit\" }]",
    ),
    key(
        "path",
        "outages",
        "list of { at, lasts }",
        "none",
        "",
        "times without any transmission: [{ at = \"20s\", lasts = \"2s\" }]",
    ),
    key(
        "path",
        "trace",
        "file name or { file, repeat }",
        "none",
        "CSV of time and rate, or packet-delivery trace of Mahimahi",
        "file with the rate over time, instead of rate; its name is relative to the scenario",
    ),
    key(
        "path.steps",
        "at",
        "time",
        "required",
        "0s to 24h",
        "time of the change",
    ),
    key(
        "path.steps",
        "rate",
        "rate",
        "required",
        "0bit to 10Tbit",
        "rate from this time on",
    ),
    key(
        "path.outages",
        "at",
        "time",
        "required",
        "0s to 24h",
        "start of the outage",
    ),
    key(
        "path.outages",
        "lasts",
        "time",
        "required",
        "0s to 24h",
        "duration of the outage",
    ),
    key(
        "path.trace",
        "file",
        "text",
        "required",
        "",
        "file name, relative to the scenario",
    ),
    key(
        "path.trace",
        "repeat",
        "switch",
        "true",
        "true, false",
        "restart the trace at its end; a packet-delivery trace always restarts",
    ),
    key(
        "path",
        "jitter",
        "time or { kind, parameters }",
        "none",
        "a width, or a kind of `narrows list jitter`",
        "variable part of the propagation delay, behind the queue",
    ),
    key(
        "path",
        "reorder",
        "probability or { probability, late, correlation }",
        "none",
        "0 to 1, or 0% to 100%",
        "packets that are delayed so that later packets overtake them",
    ),
    key(
        "path",
        "duplicate",
        "probability or { probability, correlation }",
        "none",
        "0 to 1, or 0% to 100%",
        "packets that are duplicated before the policer and the queue",
    ),
    key(
        "path",
        "corrupt",
        "probability or { probability, correlation }",
        "none",
        "0 to 1, or 0% to 100%",
        "packets that arrive damaged, so that the receiver drops them",
    ),
    key(
        "path",
        "policer",
        "{ rate, burst } or { kind, parameters }",
        "none",
        "a kind of `narrows list policer`",
        "rate limit without a queue, in front of the queue: a policer drops excess packets",
    ),
    key(
        "path",
        "reverse",
        "section",
        "propagation delay only",
        "the keys of [path] except rtt and delay_forward",
        "bottleneck of the reverse path, which ACKs, responses and uploads cross",
    )
    .of_the_whole_path(),
    key(
        "path",
        "hop",
        "list of sections",
        "one hop with the keys of [path]",
        "up to 16, each with the keys of [path]",
        "several hops in the order of the forward path, each with its own propagation delay \
         behind it",
    )
    .of_the_whole_path(),
    key(
        "host",
        "like",
        "word",
        "linux-6.12",
        "linux-6.12, linux-5.15, linux-4.15",
        "Linux release whose TCP rules the host follows; rules of later releases are off",
    ),
    plain(
        "host",
        "iw",
        Kind::Count(10, 1, 1000),
        "initial congestion window in packets",
    ),
    plain(
        "host",
        "hz",
        Kind::Count(1000, 100, 1000),
        "timer interrupts of the kernel per second (CONFIG_HZ)",
    ),
    plain(
        "host",
        "clock",
        Kind::Word(&["us", "ms", "jiffies"]),
        "resolution of RTT samples: microseconds, milliseconds, or the ticks of hz as in Linux \
         before 3.15",
    ),
    plain(
        "host",
        "pacing",
        Kind::Word(&["auto", "off", "fq"]),
        "flows that are paced: those whose congestion control requests it (auto), none (off), or \
         all, as with the qdisc fq at the sender (fq)",
    ),
    key(
        "host",
        "gso",
        "on, off, packets or bytes",
        "on",
        "on, off, 1p to 65535p, 1514B to 64KiB",
        "largest super-packet, and thus the largest burst: 64KiB (on), one segment (off), or a \
         limit",
    ),
    plain(
        "host",
        "autosize",
        Kind::Bool(true),
        "TSO autosizing: a burst contains about 1 ms of the flow's rate; false: as much as gso \
         and the window allow, as before Linux 3.12",
    ),
    // With more a burst of any rate is two segments, with less a whole second.
    plain(
        "host",
        "pacing_shift",
        Kind::Count(10, 1, 20),
        "bursts and TCP small queues contain 1/2^n of a second of the rate: 10 is about 1 ms; \
         Wi-Fi drivers use 8 or 7",
    ),
    key(
        "host",
        "rmem",
        "bytes…bytes",
        "128KiB…512MiB",
        "4KiB to 2GiB",
        "receive buffer: initial size…maximum",
    ),
    key(
        "host",
        "wmem",
        "bytes…bytes",
        "16KiB…512MiB",
        "4KiB to 2GiB",
        "send buffer: initial size…maximum",
    ),
    plain(
        "host",
        "notsent_lowat",
        Kind::Bytes(Bytes::new(128 << 10), Bytes::new(1), Bytes::new(1 << 32)),
        "the application writes while the send buffer contains less unsent data than this \
         (TCP_NOTSENT_LOWAT)",
    ),
    // What an idle Linux needs to run who was woken: some microseconds
    // (`validation/evidence/reading.md`); beyond the most,
    // that an ACK waits for the application would be seen.
    plain(
        "host",
        "read_latency",
        Kind::Span(Span::us(10), Span::ZERO, Span::us(100)),
        "upper limit of the random delay between the wake-up of a receiving application and its \
         read",
    ),
    plain(
        "host",
        "slow_start_after_idle",
        Kind::Bool(true),
        "halve the congestion window once per retransmission timeout of idle time, but not below \
         iw",
    ),
    key(
        "host",
        "nic",
        "rate",
        "unlimited",
        "1kbit to 10Tbit",
        "rate of the sender's network interface, which all flows and probes share",
    ),
    key(
        "host",
        "ring",
        "count",
        "256",
        "1 to 65536",
        "super-packets that the transmit ring of the interface holds; needs nic",
    ),
    key(
        "host",
        "bql",
        "switch",
        "true",
        "true, false",
        "byte queue limits (BQL): the device accepts only as much data as keeps it busy; needs nic",
    ),
    key(
        "host",
        "tsq",
        "switch or bytes",
        "true",
        "true, false, 4KiB to 2GiB",
        "TCP small queues (TSQ): a flow has about 1 ms of its rate in qdisc and device, the rest \
         waits in TCP; bytes set a fixed limit, as before Linux 3.12 (128KiB); needs nic",
    ),
    key(
        "host",
        "qdisc",
        "name or { kind, parameters }",
        "pfifo_fast",
        "",
        "queue discipline of the interface, one of those for a path; needs nic",
    ),
    key(
        "host",
        "buffer",
        "bytes, packets or bdp",
        "the default limit of the queue discipline",
        "1514B to 1TB, 1p to 10000000p, 0bdp to 10000bdp",
        "limit of the interface's queue discipline, where a super-packet counts as one packet \
         (txqueuelen of pfifo_fast); needs nic",
    ),
    key(
        "host",
        "link",
        "name or { kind, parameters }",
        "serial",
        "serial, htb",
        "mechanism that limits the rate of the interface: a serial line, or a class of htb in \
         front of a device without delay; needs nic",
    ),
    key(
        "host",
        "ecn",
        "word",
        "passive",
        "passive, on, off",
        "explicit congestion notification (ECN): for flows that request it (passive), for all \
         flows except those that disable it (on), or for none (off)",
    ),
    key(
        "flow",
        "cc",
        "name or { kind, parameters }",
        "required; a workload has its own",
        "",
        "congestion control",
    ),
    key(
        "flow",
        "count",
        "count",
        "1",
        "1 to 100000, for all flows together",
        "number of identical flows",
    ),
    plain(
        "flow",
        "rtt",
        Kind::Span(Span::ZERO, Span::ZERO, Span::s(3600)),
        "propagation delay in addition to the path's rtt, for a more distant receiver",
    ),
    key(
        "flow",
        "start",
        "time",
        "0s",
        "0s to duration",
        "time of the connection setup",
    ),
    key(
        "flow",
        "stop",
        "time",
        "the end of the run",
        "after start, to 24h",
        "time at which the application stops writing",
    ),
    key(
        "flow",
        "restart",
        "time",
        "never",
        "after stop, to 24h",
        "time at which the application resumes writing on the same connection; \
         data written before stop is still sent",
    ),
    key(
        "flow",
        "size",
        "bytes",
        "unbounded",
        "1B to 1000000GB",
        "bytes to transfer",
    ),
    key(
        "flow",
        "id",
        "text",
        "<cc><n>",
        "up to 64 letters, digits, _ - .",
        "name of the flow; with a count, a number is appended: 0, 1, 2 …",
    ),
    key(
        "flow",
        "ecn",
        "switch",
        "as the cc requires; otherwise true if ecn of [host] is on",
        "true, false",
        "the ends negotiate ECN; true: the receiver supports RFC 3168 only",
    ),
    key(
        "flow",
        "direction",
        "word",
        "down",
        "down, up; up needs [path.reverse]",
        "direction of the data: down over the hops of the path, or up over the reverse hop",
    ),
    key(
        "flow",
        "dscp",
        "name or count",
        "BE",
        "BE, LE, CS0 to CS7, AF11 to AF43, VA, EF, or 0 to 63",
        "differentiated-services code point (DSCP) of the packets, including ACKs",
    ),
    key(
        "flow",
        "workload",
        "name or { kind, parameters }",
        "unlimited data",
        "a kind of `narrows list workload`",
        "application of the flow: web pages, calls, transfers with random arrivals",
    ),
    key(
        "flow",
        "host",
        "count",
        "one host for all flows and probes without this key",
        "1 to 63; needs a path",
        "number of the host at the far end; flows with the same number share one address",
    ),
    key(
        "probe",
        "host",
        "count",
        "one host for all flows and probes without this key",
        "1 to 63; needs a path",
        "number of the host at the far end that responds",
    ),
    key(
        "flow",
        "station",
        "text",
        "the only station",
        "the name of a station, or of a group with a count",
        "station of the flow; with a group of stations, each one has such a flow",
    ),
    key(
        "probe",
        "station",
        "text",
        "the only station",
        "the name of a station, or of a group with a count",
        "station that responds; with a group of stations, each one has such a probe",
    ),
    key(
        "wifi",
        "standard",
        "word",
        "n",
        "n, ac",
        "802.11n or 802.11ac",
    ),
    key(
        "wifi",
        "width",
        "word",
        "20MHz",
        "20MHz, 40MHz, 80MHz",
        "channel width; 80MHz needs 802.11ac",
    ),
    key(
        "wifi",
        "band",
        "word",
        "5GHz",
        "5GHz, 2.4GHz",
        "frequency band, which determines slot times and interframe spaces; 802.11ac needs 5GHz",
    ),
    key(
        "wifi",
        "guard",
        "word",
        "short",
        "short, long",
        "guard interval: a symbol lasts 3.6us (short) or 4us (long)",
    ),
    key(
        "wifi",
        "stack",
        "word",
        "airtime",
        "before, fq_mac, airtime",
        "transmit queues of the access point and the stations: a qdisc above a deep driver queue \
         (before), FQ-CoDel in mac80211 (fq_mac), or also airtime fairness and AQL (airtime)",
    ),
    key(
        "wifi",
        "qdisc",
        "name or { kind, parameters }",
        "pfifo_fast",
        "",
        "queue discipline above the driver; needs stack = \"before\"",
    ),
    key(
        "wifi",
        "driver",
        "count",
        "123",
        "1 to 1000000",
        "frames of each access category that the driver accepts; needs stack = \"before\"",
    ),
    key(
        "wifi",
        "aggregate",
        "section",
        "the limits of the standard",
        "",
        "limits of one transmission (A-MPDU)",
    ),
    key(
        "wifi",
        "station",
        "list of sections",
        "at least one",
        "up to 250",
        "stations of the access point",
    ),
    key(
        "wifi.aggregate",
        "frames",
        "count",
        "64",
        "1 to 64",
        "largest number of frames in one transmission",
    ),
    key(
        "wifi.aggregate",
        "bytes",
        "bytes",
        "65535B of 802.11n, 1048575B of 802.11ac",
        "1600B to 1048575B",
        "largest number of bytes in one transmission",
    ),
    key(
        "wifi.aggregate",
        "duration",
        "time",
        "4ms",
        "100us to 5484us",
        "longest duration of the symbols of one transmission; 4ms is the limit of ath9k",
    ),
    key(
        "wifi.station",
        "name",
        "text",
        "required",
        "up to 64 letters, digits, _ - .",
        "name of the station; with a count, a number is appended: 0, 1, 2 …",
    ),
    key(
        "wifi.station",
        "count",
        "count",
        "1",
        "1 to 250, for all stations together",
        "number of identical stations",
    ),
    key(
        "wifi.station",
        "mcs",
        "count",
        "required unless rate is given",
        "0 to 31 of 802.11n, 0 to 9 of 802.11ac",
        "modulation and coding scheme, in both directions; in 802.11n it includes the spatial \
         streams: 8 to 15 have two",
    ),
    key(
        "wifi.station",
        "streams",
        "count",
        "1",
        "1 to 8",
        "spatial streams of 802.11ac",
    ),
    key(
        "wifi.station",
        "rate",
        "rate",
        "the rate of mcs",
        "6, 9, 12, 18, 24, 36, 48, 54Mbit; at 2.4GHz 1, 2, 5.5, 11Mbit",
        "rate of 802.11a, b or g instead of mcs, without aggregation",
    ),
    key(
        "wifi.station",
        "rate_control",
        "word",
        "fixed",
        "fixed, minstrel",
        "selection of the rate: fixed, or minstrel, which selects rates up to mcs",
    ),
    key(
        "wifi.station",
        "snr",
        "text",
        "40dB",
        "0dB to 60dB",
        "signal-to-noise ratio; needs rate_control = \"minstrel\"",
    ),
    plain(
        "wifi.station",
        "error",
        Kind::Probability(0.0),
        "probability that a frame arrives damaged",
    ),
    plain(
        "wifi.station",
        "rtt",
        Kind::Span(Span::ms(2), Span::ZERO, Span::s(3600)),
        "two-way propagation delay between the access point and the other end of the flows",
    ),
    key(
        "probe",
        "kind",
        "word",
        "required",
        "ping",
        "ping: UDP packets with 64 bytes of payload on the path of the flows",
    ),
    plain(
        "probe",
        "interval",
        Kind::Span(Span::ms(20), Span::us(100), Span::s(3600)),
        "time between two probe packets",
    ),
    key(
        "probe",
        "dscp",
        "name or count",
        "BE",
        "BE, LE, CS0 to CS7, AF11 to AF43, VA, EF, or 0 to 63",
        "DSCP of the probe packets and of their responses",
    ),
];

/// Names that the format knows and this version does not: refused as such, unless a registry has
/// them.
pub(super) const LATER_QUEUES: &[&str] = &["pfifo", "bfifo"];

/// The keys of one section. A hop has the path's, in whatever section it stands.
pub(super) fn of(section: &str) -> impl Iterator<Item = &'static Key> + use<'_> {
    KEYS.iter().filter(move |k| k.is_of(section))
}

/// An example of an entry, for sections that people write inline.
pub(super) fn entry(section: &str) -> Option<&'static str> {
    match section {
        "path.steps" => Some("{ at = \"10s\", rate = \"5Mbit\" }"),
        "path.outages" => Some("{ at = \"20s\", lasts = \"2s\" }"),
        "path.trace" => Some("{ file = \"rates.csv\" }"),
        _ => None,
    }
}

/// The last word of a section's name.
pub(super) fn last(section: &'static str) -> &'static str {
    section.rsplit('.').next().unwrap_or(section)
}

/// How a section is opened.
pub(super) fn header(section: &str) -> String {
    match section {
        "flow" | "probe" | "path.hop" | "wifi.station" | "path.steps" | "path.outages" => {
            format!("[[{section}]]")
        }
        _ => format!("[{section}]"),
    }
}

/// The name nearest to `written`, if it is near enough to have been meant.
pub(super) fn nearest<'a>(written: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if written.len() > 40 {
        return None;
    }
    let low = written.to_lowercase().replace('-', "_");
    names
        .map(|name| (distance(&low, name), name))
        .filter(|(d, name)| *d <= (name.len().min(low.len()) / 3).max(1) && *d < name.len())
        .min_by_key(|(d, _)| *d)
        .map(|(_, name)| name)
}

/// Edits (insert, delete, replace, swap of neighbours) from one word to the other.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = alloc::vec![i];
        for j in 1..=b.len() {
            let replace = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut d = replace.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                d = d.min(before[j - 2] + 1);
            }
            row.push(d);
        }
        before = core::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A plain key that nobody takes out stays in the `keys` of its section; what has none would
    /// lose it.
    #[test]
    fn plain_keys_stand_in_sections_that_keep_them() {
        const KEEP: [&str; 7] = ["", "path", "host", "flow", "probe", "wifi", "wifi.station"];
        for key in KEYS.iter().filter(|key| key.param().is_some()) {
            assert!(KEEP.contains(&key.section), "{}.{}", key.section, key.name);
        }
    }
}
