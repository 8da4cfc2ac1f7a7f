//! The limits of the server in one table, from which `serve --help`, `--limits` and
//! `docs/reference/far-end.md` are generated.

use super::source::Most;
use narrows_core::units::{Bytes, Rate, Span, parse_bytes, parse_rate, parse_seconds};
use serde_json::{Value, json};

/// Streams of one session at once, and datagram streams of one iperf3 test.
pub const STREAMS: usize = 256;
/// Rows of samples that this host takes and sends for one session per second.
pub const ROWS: u64 = 2560;
/// Connections for objects of pages of one session at once.
pub const OBJECTS: u64 = 32;
/// Connections that do not belong to a session yet.
pub const PENDING: usize = 512;
/// Connections of one address that do not belong to a session yet.
pub const PENDING_OF_ADDRESS: usize = 64;
/// Bytes that this host sends to such a connection.
pub const PENDING_BYTES: u64 = 4096;
/// Time that such a connection may take to name its protocol, ns.
pub const UNKNOWN: u64 = 5_000_000_000;
/// Time that a request may take from its first to its last byte, ns.
pub const REQUEST: u64 = 15_000_000_000;
/// Time without a sign of life of a client after which nothing is sent for its session, ns.
pub const SILENCE: u64 = 2_000_000_000;
/// Data that this host sends to a client without a question for each part of it, and the file that
/// checks the budget first. Each stops within [`SILENCE`] of the last sign of life. None keeps a
/// seat longer than [`GONE`] for a client that reads nothing. `sender_tests` tests every row.
pub const SENDERS: [(&str, &str); 4] = [
    ("downloads", "bulk.rs"),
    ("iperf3 -R", "bulk.rs"),
    ("iperf3 -u -R", "budget.rs"),
    ("objects of pages", "page.rs"),
];
/// A session whose client has shown no sign of life, or a load that has made no progress, for so
/// long ends, ns.
pub const GONE: u64 = 15_000_000_000;
/// A session without load ends after so long without a request, ns.
pub const IDLE: u64 = 60_000_000_000;
/// Datagrams per second that an unvalidated source gets back from `--echo` where they are not those
/// of `narrows latency`.
pub const UNRECOGNISED: u64 = 100;
/// Clients that one of `--stamp`, `--irtt` and `--board` remembers.
pub const REMEMBERED: usize = 1024;
/// Clients of one source that one of these services remembers.
pub const REMEMBERED_OF_SOURCE: usize = 16;
/// A source may be ahead of its packet rate by so much, ns.
pub const BURST: u64 = 100_000_000;
/// Bytes of unanswered questions that are remembered for an unvalidated source.
pub const CREDIT: u32 = 2048;
/// Ports below are privileged: services that may answer an answer.
pub const PRIVILEGED: u16 = 1024;
/// The wrong token of one address after which it has to wait for the first time.
pub const FREE_GUESSES: u32 = 3;
/// The first wait after them and the longest, ns; each is twice the one before.
pub const BACKOFF: (u64, u64) = (1_000_000_000, 60_000_000_000);

/// The limits that options set.
#[derive(Copy, Clone, Debug)]
pub struct Limits {
    /// Rate of all streams of one session, in each direction.
    pub rate: Option<Rate>,
    /// Rate of the datagrams that this host sends for one session without a question for each.
    pub udp_rate: Rate,
    /// Number of the same datagrams per second.
    pub udp_packets: u64,
    /// Duration of one session.
    pub duration: Span,
    /// Payload of one session.
    pub bytes: Bytes,
    /// Concurrent sessions.
    pub clients: u64,
    /// Concurrent sessions of one address; `None` is a quarter of all.
    pub per_address: Option<u64>,
    /// Answers per second to one source, and to one session.
    pub packets: u64,
    /// Socket memory of all sessions; one address may have half.
    pub memory: Bytes,
    /// New connections per second from one address, and the size of a burst of them.
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

/// One limit, in the form for users.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// The option that sets it; empty where it is fixed.
    pub option: &'static str,
    /// The metavar of its value.
    pub metavar: &'static str,
    /// The object to which it applies: a session, an address or the host.
    pub of: &'static str,
    /// The default value.
    pub default: String,
    /// The limited quantity, complete without `of`.
    pub text: String,
}

/// A text in lines of at most 100 columns, of which the first is indented already by `column`.
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
    /// Sessions of one address.
    pub fn per_address(&self) -> u64 {
        self.per_address.unwrap_or((self.clients / 4).max(1))
    }
    /// Sessions of one /16 of IPv4 or /32 of IPv6, of one /24 or /48, and of one address. One
    /// address that may have more raises the limits of the networks that it is in.
    pub fn seats(&self) -> Most {
        let address = self.per_address();
        [self.clients * 3 / 4, self.clients / 2, address].map(|most| most.max(address))
    }
    /// Connections of one address that do not belong to a session: as many as its sessions may need
    /// to begin together.
    pub fn pending_per_address(&self) -> usize {
        PENDING_OF_ADDRESS.max(self.per_address() as usize)
    }
    /// Connections of all addresses that do not belong to a session.
    pub fn pending(&self) -> usize {
        PENDING.max(self.clients as usize)
    }
    /// Reads one of the options; `None` where it is no limit's.
    pub fn set(&mut self, option: &str, value: &str) -> Option<Result<(), String>> {
        let unit =
            |e: narrows_core::units::UnitError| format!("{}; write {option} {}", e.problem, e.fix);
        let number = |most: u64| {
            let n = value.parse().ok().filter(|n| (1..=most).contains(n));
            n.ok_or(format!("must be a whole number from 1 to {most}"))
        };
        let done = match option {
            "--rate" => parse_rate(value)
                .map(|rate| self.rate = Some(rate))
                .map_err(unit),
            "--udp-rate" => parse_rate(value)
                .map(|rate| self.udp_rate = rate)
                .map_err(unit),
            "--duration" => parse_seconds(value)
                .map(|span| self.duration = span)
                .map_err(unit),
            "--bytes" => parse_bytes(value)
                .map(|bytes| self.bytes = bytes)
                .map_err(unit),
            "--memory" => parse_bytes(value)
                .map(|bytes| self.memory = bytes)
                .map_err(unit),
            "--clients" => number(10_000).map(|n| self.clients = n),
            "--clients-per-address" => number(10_000).map(|n| self.per_address = Some(n)),
            "--udp-packets" => number(10_000_000).map(|n| self.udp_packets = n),
            "--packets" => number(10_000_000).map(|n| self.packets = n),
            "--new-connections" => number(1_000_000).map(|n| self.new_connections = (n, 4 * n)),
            _ => return None,
        };
        Some(done)
    }
    /// All limits, those of options first.
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
                "maximum number of concurrent sessions from one address; a larger value also \
                 raises the limits of the networks of the address",
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
                "maximum socket memory of all sessions; one address may use at most half of it, or \
                 an equal share when all is in use",
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
    /// The lines of the usage for the options among the limits.
    pub fn help() -> String {
        let rows = Limits::table();
        let lines = rows.iter().filter(|row| !row.option.is_empty()).map(|row| {
            let name = format!("{} {}", row.option, row.metavar);
            let text = format!("{} [default: {}]", row.text, row.default);
            format!("  {name:<24} {}\n", wrapped(&text, 27))
        });
        lines.collect()
    }
    /// For tools.
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
            // A default that is no value says so in words.
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
        assert!(
            limits
                .set("--clients", "0")
                .is_some_and(|done| done.is_err())
        );
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
