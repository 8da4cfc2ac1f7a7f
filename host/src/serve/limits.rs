//! The limits of the server. One table contains all of them; `serve --help`, `--limits` and
//! `docs/reference/far-end.md` are generated from it.

use super::source::Most;
use crate::arguments::rate_limit;
use narrows_core::units::{Bytes, Rate, Span, format_bytes, parse_bytes, parse_seconds};
use serde_json::{Value, json};

/// Largest number of concurrent streams of a session, and of datagram streams of an iperf3 test.
pub const STREAMS: usize = 256;
/// Largest number of rows of samples that the server takes and sends for one session per second.
pub const ROWS: u64 = 2560;
/// Largest number of concurrent connections of a session for objects of pages.
pub const OBJECTS: u64 = 32;
/// Largest number of connections that do not belong to a session yet (pending connections).
pub const PENDING: usize = 512;
/// Largest number of pending connections of one source address.
pub const PENDING_OF_ADDRESS: usize = 64;
/// Largest number of bytes that the server sends to a pending connection.
pub const PENDING_BYTES: u64 = 4096;
/// Time in which a pending connection must identify its protocol, ns.
pub const UNKNOWN: u64 = 5_000_000_000;
/// Largest time from the first to the last byte of a request, ns.
pub const REQUEST: u64 = 15_000_000_000;
/// Time without a sign of life of a client after which nothing more is sent for its session, ns.
pub const SILENCE: u64 = 2_000_000_000;
/// The kinds of load that this server sends to a client without a request for each packet. For
/// each, it has the source file that checks the budget before sending. Each kind stops within
/// [`SILENCE`] of the client's last sign of life. TCP load keeps its seat for at most [`GONE`] if
/// the client reads nothing. `sender_tests` tests every row.
pub const SENDERS: [(&str, &str); 6] = [
    ("downloads", "bulk.rs"),
    ("downloads over UDP", "flow.rs"),
    ("downloads over QUIC", "quic.rs"),
    ("iperf3 -R", "bulk.rs"),
    ("iperf3 -u -R", "budget.rs"),
    ("objects of pages", "page.rs"),
];
/// A session ends if its load has made no progress for this time, ns. The time is also the limit
/// for closing connections and for sessions that exceed their share of memory.
pub const GONE: u64 = 15_000_000_000;
/// A session without load ends after this time without a request, ns.
pub const IDLE: u64 = 60_000_000_000;
/// Largest number of datagrams per second that `--echo` returns to one source, unless they are
/// questions of `narrows latency`.
pub const UNRECOGNISED: u64 = 100;
/// Largest number of clients for which each of `--stamp`, `--irtt` and `--board` stores a state.
pub const REMEMBERED: usize = 1024;
/// Largest number of clients of one source for which each of these services stores a state.
pub const REMEMBERED_OF_SOURCE: usize = 16;
/// Burst of a packet rate, as the time in which the rate would send it, ns.
pub const BURST: u64 = 100_000_000;
/// Largest number of received, unanswered bytes that are credited to an unvalidated source.
pub const CREDIT: u32 = 2048;
/// Ports below this number are privileged. Services at such ports may answer an answer, so nothing
/// is sent to them.
pub const PRIVILEGED: u16 = 1024;
/// Number of consecutive wrong tokens after which an address must wait.
pub const FREE_GUESSES: u32 = 3;
/// The first wait after wrong tokens, and the longest one, ns. Each further wrong token doubles the
/// wait.
pub const BACKOFF: (u64, u64) = (1_000_000_000, 60_000_000_000);

/// Smallest limit of socket memory. One address may use half of it. That is enough for one TCP flow
/// with the default buffers of Linux: 128 KiB to receive and 16 KiB to send.
const LEAST_MEMORY: Bytes = Bytes::new(1_000_000);

/// The limits that options can change.
#[derive(Copy, Clone, Debug)]
pub struct Limits {
    /// Largest rate of all traffic of a session together, in each direction; `None`: no limit.
    pub rate: Option<Rate>,
    /// Largest rate of the UDP load that the server sends in a session.
    pub udp_rate: Rate,
    /// Largest number of datagrams per second of the same load.
    pub udp_packets: u64,
    /// Largest duration of a session.
    pub duration: Span,
    /// Largest payload of a session, in both directions together.
    pub bytes: Bytes,
    /// Largest number of concurrent sessions.
    pub clients: u64,
    /// Largest number of concurrent sessions of one address; `None`: a quarter of `clients`.
    pub per_address: Option<u64>,
    /// Largest number of answers per second to one unvalidated source, and the same for one
    /// session.
    pub packets: u64,
    /// Largest socket memory of all sessions together; one address may use half of it.
    pub memory: Bytes,
    /// Largest number of new connections per second from one address, and the burst.
    pub new_connections: (u64, u64),
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            rate: None,
            udp_rate: Rate::mbit(1000),
            udp_packets: 250_000,
            duration: Span::s(600),
            bytes: Bytes::new(100_000_000_000),
            clients: 64,
            per_address: None,
            packets: 250_000,
            memory: Bytes::new(512_000_000),
            new_connections: (256, 1024),
        }
    }
}

/// One limit in the table for users.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// The option that sets the limit; empty if the limit is fixed.
    pub option: &'static str,
    /// The metavar of the option's value.
    pub metavar: &'static str,
    /// The entity that has the limit, such as `session`, `address` or `host`.
    pub of: &'static str,
    /// The default value.
    pub default: String,
    /// The limited quantity, in a text that is complete without `of`.
    pub text: String,
}

/// Wraps a text into lines of at most 100 columns. Lines after the first are indented by `column`;
/// the caller prints the first one at that column.
fn wrapped(text: &str, column: usize) -> String {
    const WIDTH: usize = 100;
    let (mut lines, mut length) = (String::new(), column);
    for word in text.split(' ') {
        if length > column && length + 1 + word.len() > WIDTH {
            lines.push_str(&format!("\n{:column$}", ""));
            length = column;
        } else if length > column {
            lines.push(' ');
            length += 1;
        }
        lines.push_str(word);
        length += word.len();
    }
    lines
}

fn seconds(ns: u64) -> String {
    format!("{}s", ns / 1_000_000_000)
}

impl Limits {
    /// Largest number of sessions of one address.
    pub fn per_address(&self) -> u64 {
        self.per_address.unwrap_or((self.clients / 4).max(1))
    }
    /// Largest number of sessions of one IPv4 /16 or IPv6 /32, of one /24 or /48, and of one
    /// address. No prefix has a lower limit than one address.
    pub fn seats(&self) -> Most {
        let address = self.per_address();
        [self.clients * 3 / 4, self.clients / 2, address].map(|most| most.max(address))
    }
    /// Largest number of pending connections of one address. It is enough for all sessions of the
    /// address to begin at the same time.
    pub fn pending_per_address(&self) -> usize {
        PENDING_OF_ADDRESS.max(self.per_address() as usize)
    }
    /// Largest number of pending connections of all addresses together.
    pub fn pending(&self) -> usize {
        PENDING.max(self.clients as usize)
    }
    /// Sets the limit of an option; `None` if the option belongs to no limit.
    pub fn set(&mut self, option: &str, value: &str) -> Option<Result<(), String>> {
        let unit =
            |e: narrows_core::units::UnitError| format!("{}; write {option} {}", e.problem, e.fix);
        let number = |most: u64| {
            let n = value.parse().ok().filter(|n| (1..=most).contains(n));
            n.ok_or(format!("must be a whole number from 1 to {most}"))
        };
        let done = match option {
            "--rate" => rate_limit(option, value).map(|rate| self.rate = Some(rate)),
            "--udp-rate" => rate_limit(option, value).map(|rate| self.udp_rate = rate),
            "--duration" => parse_seconds(value)
                .map(|span| self.duration = span)
                .map_err(unit),
            "--bytes" => parse_bytes(value)
                .map(|bytes| self.bytes = bytes)
                .map_err(unit),
            "--memory" => match parse_bytes(value) {
                Ok(bytes) if bytes < LEAST_MEMORY => {
                    let least = format_bytes(LEAST_MEMORY);
                    Err(format!("too little; write {option} {least} or more"))
                }
                Ok(bytes) => {
                    self.memory = bytes;
                    Ok(())
                }
                Err(e) => Err(unit(e)),
            },
            "--clients" => number(10_000).map(|n| self.clients = n),
            "--clients-per-address" => number(10_000).map(|n| self.per_address = Some(n)),
            "--udp-packets" => number(10_000_000).map(|n| self.udp_packets = n),
            "--packets" => number(10_000_000).map(|n| self.packets = n),
            "--new-connections" => number(1_000_000).map(|n| self.new_connections = (n, 4 * n)),
            _ => return None,
        };
        Some(done)
    }
    /// The table of all limits; those that options set come first.
    pub fn table() -> Vec<Row> {
        let limits = Limits::default();
        let row = |option, metavar, of, default: &dyn std::fmt::Display, text: &str| Row {
            option,
            metavar,
            of,
            default: default.to_string(),
            text: text.into(),
        };
        let senders = SENDERS.map(|(name, _)| name).join(", ");
        let (new, at_once) = limits.new_connections;
        vec![
            row(
                "--rate",
                "RATE",
                "session",
                &"none",
                "maximum rate of all traffic of a session together (streams, pages, datagrams), in \
                 each direction",
            ),
            row(
                "--udp-rate",
                "RATE",
                "session",
                &"1Gbit",
                "maximum rate of the UDP load that this host sends in a session (download, iperf3 \
                 -u -R)",
            ),
            row(
                "--udp-packets",
                "N",
                "session",
                &limits.udp_packets,
                "maximum number of packets per second of the UDP load that this host sends in a \
                 session (download, iperf3 -u -R)",
            ),
            row(
                "--duration",
                "SPAN",
                "session",
                &"10min",
                "maximum duration of a session",
            ),
            row(
                "--bytes",
                "BYTES",
                "session",
                &"100GB",
                "maximum payload of a session, in both directions together",
            ),
            row(
                "--clients",
                "N",
                "host",
                &limits.clients,
                "maximum number of concurrent sessions. At most half of them may come from one \
                 IPv4 /24 or IPv6 /48. At most three quarters may come from one IPv4 /16 or IPv6 \
                 /32",
            ),
            row(
                "--clients-per-address",
                "N",
                "address",
                &"a quarter of --clients",
                "maximum number of concurrent sessions from one address. If this number exceeds \
                 the limit of --clients for a network (/24, /16, /48 or /32), it replaces that \
                 limit",
            ),
            row(
                "--packets",
                "N",
                "session, source",
                &limits.packets,
                "maximum rate of replies to UDP packets such as latency probes, in packets per \
                 second, for each session and for each source address",
            ),
            row(
                "--memory",
                "BYTES",
                "host",
                &"512MB",
                "maximum socket memory of all sessions. One address may use at most half of it. \
                 When all of it is in use, each address with sessions may use an equal share",
            ),
            row(
                "--new-connections",
                "N",
                "address",
                &new,
                "maximum number of new TCP connections from one address per second; burst: 4 × N",
            ),
            row(
                "",
                "",
                "session",
                &STREAMS,
                "maximum number of concurrent streams of a session",
            ),
            row(
                "",
                "",
                "session",
                &ROWS,
                "maximum number of samples of the streams of a session per second; more streams \
                 are sampled less often",
            ),
            row(
                "",
                "",
                "session",
                &OBJECTS,
                "maximum number of concurrent connections of a session for objects of pages",
            ),
            row(
                "",
                "",
                "session",
                &seconds(SILENCE),
                &format!(
                    "time without a packet from the client after which this host sends it nothing \
                     more ({senders})"
                ),
            ),
            row(
                "",
                "",
                "session",
                &seconds(GONE),
                "time without a packet from the client, or without progress of a load, after \
                 which the session ends; the same applies to a session that exceeds its share of \
                 --memory for this time",
            ),
            row(
                "",
                "",
                "session",
                &seconds(IDLE),
                "time without load and without a request after which the session ends",
            ),
            row(
                "",
                "",
                "host",
                &PENDING,
                "maximum number of TCP connections that do not belong to a session yet \
                 (--clients, if that is larger); above this limit, the network prefix with the \
                 most of these connections loses its oldest one",
            ),
            row(
                "",
                "",
                "address",
                &PENDING_OF_ADDRESS,
                "maximum number of TCP connections of one address that do not belong to a session \
                 yet (--clients-per-address, if that is larger); above this limit, the oldest one \
                 is closed",
            ),
            row(
                "",
                "",
                "address",
                &"a quarter",
                "maximum number of TCP connections of one address, including load, as a share of \
                 the file descriptors of the process; an IPv4 /24 or IPv6 /48 may have half, an \
                 IPv4 /16 or IPv6 /32 three quarters",
            ),
            row(
                "",
                "",
                "connection",
                &seconds(UNKNOWN),
                "maximum time in which a connection must identify its protocol",
            ),
            row(
                "",
                "",
                "connection",
                &seconds(REQUEST),
                "maximum time from the first to the last byte of a request",
            ),
            row(
                "",
                "",
                "connection",
                &PENDING_BYTES,
                "maximum number of bytes that this host sends to a connection before that belongs \
                 to a session",
            ),
            row(
                "",
                "",
                "address",
                &FREE_GUESSES,
                "wrong tokens after which an address must wait 1 s; each further wrong token \
                 doubles the wait, up to 60 s",
            ),
            row(
                "",
                "",
                "source",
                &UNRECOGNISED,
                "maximum number of datagrams per second that --echo returns to one source, except \
                 to `narrows latency` at a port above that of --echo",
            ),
            row(
                "",
                "",
                "service",
                &REMEMBERED,
                "maximum number of clients for which --stamp, --irtt or --board stores a state; \
                 above this limit, the network prefix with the most clients loses the state of its \
                 longest silent one",
            ),
            row(
                "",
                "",
                "source",
                &REMEMBERED_OF_SOURCE,
                "maximum number of clients of one source for which --stamp, --irtt or --board \
                 stores a state; above this limit, the state of the longest silent one is \
                 deleted",
            ),
            row(
                "",
                "",
                "source",
                &at_once,
                "maximum number of new TCP connections from one address at once, with the default \
                 of --new-connections",
            ),
        ]
    }
    /// The lines of the usage text for the options that set limits.
    pub fn help() -> String {
        let rows = Limits::table();
        let lines = rows.iter().filter(|row| !row.option.is_empty()).map(|row| {
            let name = format!("{} {}", row.option, row.metavar);
            let text = format!("{} [default: {}]", row.text, row.default);
            format!("  {name:<24} {}\n", wrapped(&text, 27))
        });
        lines.collect()
    }
    /// The table of all limits as JSON.
    pub fn to_json() -> Value {
        let row = |row: &Row| {
            json!({ "option": row.option, "metavar": row.metavar, "of": row.of,
            "default": row.default, "text": row.text })
        };
        Limits::table().iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_of_the_table_is_read_and_its_default_is_the_default() {
        let mut limits = Limits::default();
        for row in Limits::table().iter().filter(|row| !row.option.is_empty()) {
            // Some defaults are words instead of a value.
            let words = row.default == "none" || row.default.contains(' ');
            let set = limits.set(row.option, if words { "7" } else { &row.default });
            assert!(set.is_some(), "{}", row.option);
            assert!(
                words || set == Some(Ok(())),
                "{} {}: {set:?}",
                row.option,
                row.default
            );
        }
        limits.rate = None;
        limits.per_address = None;
        assert_eq!(format!("{limits:?}"), format!("{:?}", Limits::default()));
        assert_eq!(limits.set("--port", "1"), None);
        // With these limits, a session could not transfer anything.
        for (option, least) in [
            ("--clients", "from 1 to"),
            ("--rate", "8bit or more"),
            ("--udp-rate", "8bit or more"),
            ("--memory", "1MB or more"),
        ] {
            let unit = match option {
                "--clients" => "",
                "--memory" => "B",
                _ => "bit",
            };
            let refused = limits
                .set(option, &format!("0{unit}"))
                .unwrap()
                .unwrap_err();
            assert!(refused.contains(least), "{option}: {refused}");
        }
    }

    #[test]
    fn one_address_never_has_all_seats_of_two_or_more() {
        for clients in 2..100 {
            let limits = Limits {
                clients,
                ..Limits::default()
            };
            assert!(
                limits
                    .seats()
                    .into_iter()
                    .all(|most| (1..clients).contains(&most))
            );
        }
    }
}
