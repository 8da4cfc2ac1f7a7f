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
        "what a person calls it",
    ),
    key(
        "",
        "duration",
        "time",
        "required",
        "1ms to 24h",
        "how long it runs",
    ),
    key(
        "",
        "warmup",
        "time",
        "20% of duration",
        "0s to duration",
        "left out of the summary",
    ),
    key(
        "",
        "seed",
        "count",
        "1",
        "0 to 2^64 - 1",
        "of every random choice",
    ),
    key(
        "",
        "start_jitter",
        "time",
        "one rtt, the longest of a flow",
        "0s to the duration, 1h at most",
        "the most that a flow's start is moved at random",
    ),
    key(
        "",
        "path",
        "section",
        "required without wifi",
        "",
        "what lies between the hosts",
    ),
    key(
        "",
        "wifi",
        "section",
        "none",
        "",
        "an access point and its stations, in the place of \
        path",
    ),
    key("", "host", "section", "Linux 6.12", "", "both ends"),
    key(
        "",
        "flow",
        "list of sections",
        "at least one flow or probe",
        "",
        "who sends",
    ),
    key(
        "",
        "probe",
        "list of sections",
        "none",
        "",
        "what is measured beside the flows",
    ),
    key(
        "path",
        "rate",
        "rate",
        "required",
        "1bit to 10Tbit",
        "of the bottleneck",
    ),
    key(
        "path",
        "rtt",
        "time",
        "required",
        "1us to 1h",
        "two-way propagation",
    )
    .of_a_distance(),
    key(
        "path",
        "delay_forward",
        "time",
        "half of rtt",
        "0s to rtt",
        "the part of rtt towards the receiver",
    )
    .of_a_distance(),
    key(
        "path",
        "buffer",
        "buffer",
        "the discipline's own limit",
        "1514B to 1000GB, 1p to 10000000p, above 0bdp to 10000bdp",
        "of the bottleneck: bytes, packets (170p) or bandwidth-delay products (0.5bdp)",
    ),
    key(
        "path",
        "queue",
        "name or { kind, parameters }",
        "fifo",
        "",
        "the discipline at the bottleneck",
    ),
    key(
        "path",
        "link",
        "name or { kind, parameters }",
        "serial",
        "serial, tbf, htb, shape_average, shape_peak",
        "how the rate is kept",
    ),
    key(
        "path",
        "offload",
        "switch",
        "false",
        "true, false; with serial and htb only",
        "super-packets cross the path whole, as between machines with TSO and GRO: queue, loss \
         and receiver see one packet",
    )
    .of_the_whole_path(),
    plain(
        "path",
        "nat",
        Kind::Bool(false),
        "the hosts at the far end share one address on the path, as behind a home's router: a \
         queue tells them apart only if it looks behind it",
    )
    .of_the_whole_path(),
    key(
        "path",
        "loss",
        "probability or { kind, parameters }",
        "none",
        "0 to 1, or 0% to 100%, or a kind of `narrows list loss`; per superpacket (the default) \
         or packet",
        "before the queue: of each super-packet (a burst shares its fate) or of each packet",
    ),
    key(
        "path",
        "steps",
        "list of { at, rate }",
        "none",
        "",
        "from each time on another rate: [{ at = \"10s\", rate = \"5Mbit\" }]",
    ),
    key(
        "path",
        "outages",
        "list of { at, lasts }",
        "none",
        "",
        "from each time on nothing leaves, for so long: [{ at = \"20s\", lasts = \"2s\" }]",
    ),
    key(
        "path",
        "trace",
        "file name or { file, repeat }",
        "none",
        "CSV of time and rate, or mahimahi's packet-delivery trace",
        "a rate that follows a file, in the place of rate; found relative to the scenario",
    ),
    key(
        "path.steps",
        "at",
        "time",
        "required",
        "0s to 24h",
        "from when on",
    ),
    key(
        "path.steps",
        "rate",
        "rate",
        "required",
        "0bit to 10Tbit",
        "the rate then",
    ),
    key(
        "path.outages",
        "at",
        "time",
        "required",
        "0s to 24h",
        "from when on",
    ),
    key(
        "path.outages",
        "lasts",
        "time",
        "required",
        "0s to 24h",
        "for how long",
    ),
    key(
        "path.trace",
        "file",
        "text",
        "required",
        "",
        "its name, relative to the scenario",
    ),
    key(
        "path.trace",
        "repeat",
        "switch",
        "true",
        "true, false",
        "begin anew after its end; a packet-delivery trace always does",
    ),
    key(
        "path",
        "jitter",
        "time or { kind, parameters }",
        "none",
        "a spread, or a kind of `narrows list jitter`",
        "propagation that varies, behind the queue",
    ),
    key(
        "path",
        "reorder",
        "probability or { probability, late, correlation }",
        "none",
        "0 to 1, or 0% to 100%",
        "packets that come later than their turn while others overtake",
    ),
    key(
        "path",
        "duplicate",
        "probability or { probability, correlation }",
        "none",
        "0 to 1, or 0% to 100%",
        "packets that are there twice, before the policer and the queue",
    ),
    key(
        "path",
        "corrupt",
        "probability or { probability, correlation }",
        "none",
        "0 to 1, or 0% to 100%",
        "packets that arrive damaged, so that their receiver drops them",
    ),
    key(
        "path",
        "policer",
        "{ rate, burst } or { kind, parameters }",
        "none",
        "a kind of `narrows list policer`",
        "what lets pass a rate and no more, before the queue",
    ),
    key(
        "path",
        "reverse",
        "section",
        "nothing but distance",
        "the path's keys but rtt and delay_forward",
        "the hop that ACKs, answers and flows that go up meet",
    )
    .of_the_whole_path(),
    key(
        "path",
        "hop",
        "list of sections",
        "one hop, of the path's own keys",
        "up to 16, each with the path's keys",
        "several hops, in the order of the data, each with the propagation behind it",
    )
    .of_the_whole_path(),
    key(
        "host",
        "like",
        "word",
        "linux-6.12",
        "linux-6.12, linux-5.15, linux-4.15",
        "whose rules it follows: what a later release does otherwise it does not",
    ),
    plain(
        "host",
        "iw",
        Kind::Count(10, 1, 1000),
        "initial window in packets",
    ),
    plain(
        "host",
        "hz",
        Kind::Count(1000, 100, 1000),
        "the kernel's tick",
    ),
    plain(
        "host",
        "clock",
        Kind::Word(&["us", "ms", "jiffies"]),
        "what round trips are measured with: microseconds, whole milliseconds, or whole ticks \
         (hz) as Linux did before 3.15",
    ),
    plain(
        "host",
        "pacing",
        Kind::Word(&["auto", "off", "fq"]),
        "who is paced: who asks for it, nobody at all, or everybody as by fq at the sender",
    ),
    key(
        "host",
        "gso",
        "on, off, packets or bytes",
        "on",
        "on, off, 1p to 65535p, 1514B to 64KiB",
        "the largest super-packet, and with it the largest burst: on is 64KiB, off one segment",
    ),
    plain(
        "host",
        "autosize",
        Kind::Bool(true),
        "bursts carry about a millisecond of the flow's rate; without, all that gso and window \
         let them, as before Linux 3.12",
    ),
    // With more a burst of any rate is two segments, with less a whole second.
    plain(
        "host",
        "pacing_shift",
        Kind::Count(10, 1, 20),
        "bursts and small queues hold 2 to the minus this of a second of the rate: 10 is about a \
         millisecond, Wi-Fi drivers ask for 8 or 7",
    ),
    key(
        "host",
        "rmem",
        "bytes…bytes",
        "128KiB…512MiB",
        "4KiB to 2GiB",
        "receive buffer: at the start…at most",
    ),
    key(
        "host",
        "wmem",
        "bytes…bytes",
        "16KiB…512MiB",
        "4KiB to 2GiB",
        "send buffer: at the start…at most",
    ),
    plain(
        "host",
        "notsent_lowat",
        Kind::Bytes(Bytes::new(128 << 10), Bytes::new(1), Bytes::new(1 << 32)),
        "the application writes while less than this waits unsent",
    ),
    // What an idle Linux needs to run who was woken: some microseconds
    // (`validation/evidence/reading.md`); beyond the most,
    // that an ACK waits for the application would be seen.
    plain(
        "host",
        "read_latency",
        Kind::Span(Span::us(10), Span::ZERO, Span::us(100)),
        "a receiving application runs up to so long after it was woken, at random",
    ),
    plain(
        "host",
        "slow_start_after_idle",
        Kind::Bool(true),
        "halve a window for each timeout that nothing was sent, down to the initial one",
    ),
    key(
        "host",
        "nic",
        "rate",
        "never the limit",
        "1kbit to 10Tbit",
        "of the sender's own interface, which all flows and pings of the scenario share",
    ),
    key(
        "host",
        "ring",
        "count",
        "256 of a nic",
        "1 to 65536",
        "super-packets that its device takes; needs nic",
    ),
    key(
        "host",
        "bql",
        "switch",
        "true",
        "true, false",
        "byte queue limits: the device takes only what keeps it busy; needs nic",
    ),
    key(
        "host",
        "tsq",
        "switch or bytes",
        "true",
        "true, false, 4KiB to 2GiB",
        "TCP small queues: about a millisecond of each flow waits in its own host, the rest in \
         TCP; bytes for a fixed amount, as before Linux 3.12 (128KiB); needs nic",
    ),
    key(
        "host",
        "qdisc",
        "name or { kind, parameters }",
        "pfifo_fast",
        "",
        "the queue discipline of its interface, any that a path may have; needs nic",
    ),
    key(
        "host",
        "buffer",
        "bytes, packets or bdp",
        "its own",
        "1514B to 1TB, 1p to 10000000p, 0bdp to 10000bdp",
        "what the discipline of its interface may hold, super-packets counting as one (txqueuelen \
         of pfifo_fast); needs nic",
    ),
    key(
        "host",
        "link",
        "name or { kind, parameters }",
        "serial",
        "serial, htb",
        "how its interface keeps the rate: a wire, or a class of htb before a device that takes \
         no time; needs nic",
    ),
    key(
        "host",
        "ecn",
        "word",
        "passive",
        "passive, on, off",
        "explicit congestion notification: for flows that ask, for all that do not say otherwise, \
         for none",
    ),
    key(
        "flow",
        "cc",
        "name or { kind, parameters }",
        "required; with a workload, that workload's",
        "",
        "its congestion control",
    ),
    key(
        "flow",
        "count",
        "count",
        "1",
        "1 to 100000, in all flows together",
        "how many of them",
    ),
    plain(
        "flow",
        "rtt",
        Kind::Span(Span::ZERO, Span::ZERO, Span::s(3600)),
        "added to the path's rtt: its receiver lies so much farther away",
    ),
    key(
        "flow",
        "start",
        "time",
        "0s",
        "0s to duration",
        "when it connects",
    ),
    key(
        "flow",
        "stop",
        "time",
        "the end",
        "after start, to 24h",
        "when it stops sending",
    ),
    key(
        "flow",
        "restart",
        "time",
        "never",
        "after stop, to 24h",
        "when it writes again, on the same connection; until then what it had written drains",
    ),
    key(
        "flow",
        "size",
        "bytes",
        "unbounded",
        "1B to 1000000GB",
        "a transfer of so many bytes",
    ),
    key(
        "flow",
        "id",
        "text",
        "<cc><n>",
        "up to 64 letters, digits, _ - .",
        "its name; with a count, followed by 0, 1, 2 …",
    ),
    key(
        "flow",
        "ecn",
        "switch",
        "both ends as its cc needs; else true where the host's is on",
        "true, false",
        "its ends negotiate explicit congestion notification; true: with an ordinary far end, \
         which knows RFC 3168's alone",
    ),
    key(
        "flow",
        "direction",
        "word",
        "down",
        "down, up; up needs [path.reverse]",
        "which way its data goes: over the path's hops, or over the reverse hop",
    ),
    key(
        "flow",
        "dscp",
        "name or count",
        "BE",
        "BE, LE, CS0 to CS7, AF11 to AF43, VA, EF, or 0 to 63",
        "differentiated-services code point of its packets, ACKs included",
    ),
    key(
        "flow",
        "workload",
        "name or { kind, parameters }",
        "sends all it can",
        "a kind of `narrows list workload`",
        "what its application does: pages, calls, transfers that arrive at random",
    ),
    key(
        "flow",
        "host",
        "count",
        "one for all that do not say",
        "1 to 63; with a path",
        "which host at the far end it is of: flows of one number have one address there",
    ),
    key(
        "probe",
        "host",
        "count",
        "one for all that do not say",
        "1 to 63; with a path",
        "which host at the far end answers",
    ),
    key(
        "flow",
        "station",
        "text",
        "the only one of a wifi",
        "a station, or those of a count",
        "whose flow it is; of several stations each has one",
    ),
    key(
        "probe",
        "station",
        "text",
        "the only one of a wifi",
        "a station, or those of a count",
        "who answers; of several stations each does",
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
        "of the channel; 80MHz is \
        802.11ac's",
    ),
    key(
        "wifi",
        "band",
        "word",
        "5GHz",
        "5GHz, 2.4GHz",
        "where in the spectrum: it decides slots \
        and spaces; 802.11ac has 5GHz",
    ),
    key(
        "wifi",
        "guard",
        "word",
        "short",
        "short, long",
        "between symbols: they last 3.6 or 4 us",
    ),
    key(
        "wifi",
        "stack",
        "word",
        "airtime",
        "before, fq_mac, airtime",
        "what queues for the air, at the access point and at stations: a qdisc above a deep \
         driver, FQ-CoDel inside mac80211, the same with airtime fairness and AQL",
    ),
    key(
        "wifi",
        "qdisc",
        "name or { kind, parameters }",
        "pfifo_fast",
        "",
        "of the stack before: the discipline above the driver",
    ),
    key(
        "wifi",
        "driver",
        "count",
        "123",
        "1 to 1000000",
        "of the stack before: frames of each category that the driver takes",
    ),
    key(
        "wifi",
        "aggregate",
        "section",
        "the standard's",
        "",
        "what one transmission may be",
    ),
    key(
        "wifi",
        "station",
        "list of sections",
        "at least one",
        "up to 250",
        "who is on the medium",
    ),
    key(
        "wifi.aggregate",
        "frames",
        "count",
        "64",
        "1 to 64",
        "frames of one transmission",
    ),
    key(
        "wifi.aggregate",
        "bytes",
        "bytes",
        "65535B of 802.11n, 1048575B of 802.11ac",
        "1600B to 1048575B",
        "bytes of one transmission on the air",
    ),
    key(
        "wifi.aggregate",
        "duration",
        "time",
        "4ms",
        "100us to 5484us",
        "how long its symbols may last; ath9k's limit",
    ),
    key(
        "wifi.station",
        "name",
        "text",
        "required",
        "up to 64 letters, digits, _ - .",
        "its name; \
        with a count, followed by 0, 1, 2 …",
    ),
    key(
        "wifi.station",
        "count",
        "count",
        "1",
        "1 to 250, in all together",
        "how many of it",
    ),
    key(
        "wifi.station",
        "mcs",
        "count",
        "required without rate",
        "0 to 31 of 802.11n, 0 to 9 of 802.11ac",
        "modulation and coding, to it and from it; of 802.11n also its streams: 8 to 15 are two",
    ),
    key(
        "wifi.station",
        "streams",
        "count",
        "1",
        "1 to 8",
        "of 802.11ac: streams in space",
    ),
    key(
        "wifi.station",
        "rate",
        "rate",
        "that of mcs",
        "6, 9, 12, 18, 24, 36, 48, 54Mbit; at 2.4GHz 1, 2, 5.5, 11Mbit",
        "a rate of 802.11a, b or g in the place of mcs, without aggregation",
    ),
    key(
        "wifi.station",
        "rate_control",
        "word",
        "fixed",
        "fixed, minstrel",
        "who chooses the rate: nobody, or a control that learns, up to mcs",
    ),
    key(
        "wifi.station",
        "snr",
        "text",
        "40dB",
        "0dB to 60dB",
        "of minstrel: the signal over the \
        noise",
    ),
    plain(
        "wifi.station",
        "error",
        Kind::Probability(0.0),
        "how often a single frame arrives damaged",
    ),
    plain(
        "wifi.station",
        "rtt",
        Kind::Span(Span::ms(2), Span::ZERO, Span::s(3600)),
        "two-way distance between the access point and the other end of its flows",
    ),
    key(
        "probe",
        "kind",
        "word",
        "required",
        "ping",
        "ping: UDP, 64 bytes of payload, through the same bottleneck",
    ),
    plain(
        "probe",
        "interval",
        Kind::Span(Span::ms(20), Span::us(100), Span::s(3600)),
        "from one to the next",
    ),
    key(
        "probe",
        "dscp",
        "name or count",
        "BE",
        "BE, LE, CS0 to CS7, AF11 to AF43, VA, EF, or 0 to 63",
        "differentiated-services code point of its packets and their answers",
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
