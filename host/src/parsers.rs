//! A list of all parsers that read untrusted input, each as a function of bytes.
//!
//! `make fuzz` runs libFuzzer on each entry (`fuzz/`), and the tests below run each on valid input
//! and on its prefixes. A parser must return without a panic, and its peak heap use must stay
//! within [`Parser::most_heap`].
//!
//! A new parser of data from the network or from a file gets an entry here.

use crate::Frame;
use crate::emulator::frame::{self, Ports};
use crate::latency::{irtt, stamp};
use crate::measure::http;
#[cfg(feature = "transport")]
use crate::measure::transport::{flow, segment};
use crate::protocols::iperf3::{self, Params, datagram};
use crate::protocols::tcp_info::Row;
use crate::protocols::wire::{self, Hello, Kind, Opening, Ping, TIMED, Timed};
use crate::serve::page;
use crate::tune::journal::Journal;
use crate::tune::plan::Plan;
use narrows_core::cc::remy;
use narrows_core::net::NEAR;
use narrows_core::net::trace::{Trace, delays};
use narrows_core::registry::Registry;
use narrows_core::scenario::Scenario;
#[cfg(feature = "transport")]
use narrows_core::tcp::wire::{AckSegment, Segment};
use narrows_core::tune::collector;
use narrows_core::tune::findings::{Path, audit};
use narrows_core::tune::text::Audit;
use narrows_core::units::Span;
use serde_json::{Value, json};

/// A parser and its test input.
pub struct Parser {
    /// The name of the parser, which is also that of its fuzz target.
    pub name: &'static str,
    /// The function.
    pub read: fn(&[u8]),
    /// Valid inputs, from which other inputs are derived.
    pub right: fn() -> Vec<Vec<u8>>,
    /// Largest heap use per byte of input, bytes.
    pub dear: u64,
}

impl Parser {
    /// Largest heap use while reading `len` bytes, bytes.
    pub fn most_heap(&self, len: usize) -> u64 {
        (1 << 16) + self.dear * len as u64
    }
}

/// Heap use per byte of JSON. An array of digits has a value of 32 bytes for every two bytes of
/// text, and grows by doubling.
const JSON: u64 = 64;
/// Heap use per byte of a scenario, which stores the position of each word for error messages, and
/// may have many flows in one line.
const TOML: u64 = 1 << 16;
/// Heap use per byte of a delivery trace, which stores a time for each line of two bytes or more.
const TRACE: u64 = 64;
/// Heap use per byte of a plan or journal, which stores each change both parsed and as JSON.
const CHANGES: u64 = 512;
/// Heap use per byte of a rule tree, which stores a region of four intervals for each node.
const TREE: u64 = 512;

/// Heap use per byte of datagrams of a flow. An ACK of 26 bytes releases some segments, each with a
/// record.
const FLOW: u64 = 4096;

/// Heap use per byte of the collector's text. A short line with an interface gives a record with
/// all properties, and several findings.
const FACTS: u64 = 4096;

/// The collector's text for a host with one interface.
const HOST: &str = "\
@ collector 1
@ who
|uid 0
@ files system
|proc/sys/kernel/osrelease:6.1.0-25-amd64
@ files sysctl
|net/ipv4/tcp_congestion_control:cubic
@ interface eth0
|sys/class/net/eth0/operstate:up
|device
@ sockets
|\t cubic wscale:7,7
@ end
";

/// A plan with a change of each of four kinds.
fn plan() -> Value {
    let change = |kind: &str, phase: &str, target: Value, from: Value, to: Value| {
        json!({ "id": format!("{kind}:x"), "kind": kind, "phase": phase,
        "target": target, "from": from, "to": to, "why": "" })
    };
    let drop_in = json!({ "text": "a = 1\n", "mode": "0644" });
    json!({ "plan": 1, "title": "t", "changes": [
        change("sysctl", "live", json!("net.ipv4.tcp_congestion_control"), json!("cubic"),
        json!("bbr")),
        change("module", "live", json!("tcp_bbr"), json!("absent"), json!("loaded")),
        change("file", "boot", json!("/etc/sysctl.d/99-narrows.conf"), Value::Null, drop_in),
        change("qdisc", "live", json!("eth0"), json!({ "kind": "fq_codel", "handle": null,
        "options": {} }),
            json!({ "kind": "fq", "handle": null, "options": {} })),
    ] })
}

/// Parsers of input from the network and of files that the user names.
pub const PARSERS: &[Parser] = &[
    Parser {
        name: "hello",
        dear: 4,
        read: |bytes| {
            let _ = Hello::from_bytes(bytes);
        },
        right: || vec![Hello::Control([4; 16]).to_bytes().to_vec()],
    },
    Parser {
        name: "ping",
        dear: 4,
        read: |bytes| {
            let _ = Ping::from_bytes(bytes);
        },
        right: || {
            let ping = |kind| Ping {
                kind,
                class: 3,
                probe: 1,
                cookie: [7; 16],
                number: 9,
                sent: 1,
                received: 2,
                answered: 3,
                count: 4,
            };
            [Kind::Load, Kind::Question]
                .map(|kind| ping(kind).to_bytes().to_vec())
                .into()
        },
    },
    Parser {
        name: "opening",
        dear: 4,
        read: |bytes| {
            let _ = Opening::from_bytes(bytes);
        },
        right: || {
            let opening = Opening {
                answer: false,
                stream: 1,
                cookie: [7; 16],
                key: [5; 8],
            };
            vec![opening.to_bytes().to_vec()]
        },
    },
    #[cfg(feature = "transport")]
    Parser {
        name: "flow",
        dear: FLOW,
        read: flow::feed,
        right: || {
            let syn_ack = AckSegment {
                syn: true,
                window: 1 << 16,
                ..AckSegment::default()
            };
            let ack = AckSegment {
                ack: 1448,
                window: 1 << 16,
                ..AckSegment::default()
            };
            let datagram = |head: &[u8]| [&[head.len() as u8, 20], head].concat();
            let acks = [syn_ack, ack].map(|ack| {
                let head = segment::of_ack(&[7; 8], &ack);
                datagram(&head[8..segment::ack_len(&ack)])
            });
            let data = [true, false].map(|syn| {
                let one = Segment {
                    syn,
                    ..Segment::default()
                };
                let head = segment::of_segment(&[7; 8], &one);
                datagram(&head[8..segment::DATA])
            });
            vec![acks.concat(), data.concat()]
        },
    },
    Parser {
        name: "timed",
        dear: 4,
        read: |bytes| {
            let _ = Timed::from_bytes(bytes);
        },
        right: || {
            let mut bytes = [0; TIMED];
            Timed::default().write(&mut bytes);
            vec![bytes.to_vec()]
        },
    },
    Parser {
        name: "stamp",
        dear: 32,
        read: |bytes| {
            let _ = stamp::reflect(&mut bytes.to_vec(), &stamp::Reflected::default());
        },
        right: || {
            // Class of service and follow-up telemetry behind a test packet.
            let mut bytes = vec![0; 44];
            bytes.extend([0x80, 4, 0, 4, 0xb8, 0, 0, 0, 0x80, 7, 0, 16]);
            bytes.extend([0; 16]);
            vec![bytes]
        },
    },
    Parser {
        name: "irtt",
        dear: 8,
        read: |bytes| {
            let _ = (
                irtt::flags(bytes),
                irtt::token(bytes),
                irtt::asked(bytes),
                irtt::opened(bytes),
            );
        },
        right: || {
            let params = irtt::asked(&irtt::open(irtt::Params::default()));
            vec![irtt::open(params.unwrap_or_default()), irtt::close(7)]
        },
    },
    Parser {
        name: "frame",
        dear: JSON,
        read: |bytes| {
            if let Ok(Some((value, _))) = wire::frame(bytes, wire::ANSWER) {
                let _ = Row::from_json(&value["row"]);
                drop(Params::from_json(&value));
            }
        },
        right: || {
            let words = [
                json!({ "do": "clock", "at": 12 }),
                json!({ "do": "start", "streams": [1, 2], "sample_ms": 50 }),
                json!({ "is": "stopped", "row": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
                15, 16] }),
            ];
            words.iter().map(wire::to_frame).collect()
        },
    },
    Parser {
        name: "control",
        dear: JSON,
        read: crate::serve::fed::feed,
        right: || {
            let words = [
                json!({ "proof": null }),
                json!({ "do": "clock", "at": 12 }),
                json!({ "do": "open", "stream": 1, "direction": "down", "cc": "cubic", "dscp": 8,
                "pacing_bytes": 1000 }),
                json!({ "do": "start", "streams": [1, 2], "sample_ms": 50 }),
                json!({ "do": "stop", "streams": [1] }),
                json!({ "do": "report" }),
                json!({ "do": "bye" }),
            ];
            vec![words.iter().flat_map(wire::to_frame).collect()]
        },
    },
    Parser {
        name: "iperf3",
        dear: JSON,
        read: |bytes| {
            let _ = iperf3::may_be_cookie(bytes);
            if let Ok(Some((value, _))) = wire::frame(bytes, 1 << 16) {
                drop(Params::from_json(&value));
                let _ = iperf3::number(&value["time"]);
            }
        },
        right: || {
            let params: Value = json!({ "tcp": true, "omit": 0, "time": 10, "parallel": 4,
                "len": 131_072, "reverse": true,
                "congestion": "bbr", "extra_data": "token", "client_version": "3.12" });
            vec![wire::to_frame(&params), iperf3::cookie([3; 37]).to_vec()]
        },
    },
    Parser {
        name: "datagram",
        dear: 4,
        read: |bytes| {
            for wide in [false, true] {
                let _ = datagram::read(bytes, wide);
            }
            let _ = datagram::greeting(bytes, bytes.len());
        },
        right: || {
            vec![
                datagram::header(77, 5_000_000_000, true).0.to_vec(),
                b"9876".to_vec(),
            ]
        },
    },
    Parser {
        name: "request",
        dear: 4,
        read: |bytes| {
            if let Ok(Some((path, ..))) = page::request(bytes) {
                let _ = page::object(path);
            }
        },
        right: || {
            let object = format!(
                "GET /{}/1000 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
                "0a".repeat(16)
            );
            vec![
                object.into_bytes(),
                b"GET /metrics HTTP/1.0\r\n\r\n".to_vec(),
            ]
        },
    },
    Parser {
        name: "answer",
        dear: 4,
        read: |bytes| {
            if let Ok(Some(head)) = http::head(bytes) {
                let _ = http::Url::parse("http://h/a").map(|url| head.refusal(&url));
                let _ = http::Body::of(&head).take(&bytes[head.took..]);
            }
        },
        right: || {
            vec![
                b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nConnection: \
                    keep-alive\r\n\r\n"
                    .to_vec(),
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX: \
                y\r\n\r\n"
                    .to_vec(),
                b"HTTP/1.1 302 Found\r\nLocation: https://example.net/\r\n\r\n".to_vec(),
            ]
        },
    },
    Parser {
        name: "url",
        dear: 4,
        read: |bytes| drop(std::str::from_utf8(bytes).map(http::Url::parse)),
        right: || {
            vec![
                b"http://[2001:db8::1]:8080/a/b?c=d".to_vec(),
                b"https://example.net".to_vec(),
            ]
        },
    },
    Parser {
        name: "packet",
        dear: 8,
        read: |bytes| {
            let ports = Ports {
                flows: (20_000, 2),
                probes: (7_000, 1),
            };
            for whole in [false, true] {
                frame::cut(bytes, NEAR, ports, whole, |frame| {
                    let mut head = [0; frame::HEAD];
                    for len in [0, 1, frame.payload()] {
                        let _ = frame.headers(len.min(frame.payload()), &mut head);
                        let _ = frame.body(len.min(frame.payload()));
                    }
                });
            }
        },
        right: || {
            // A super-packet with 3000 bytes of payload to port 20001, to be split at 1448, after
            // its `virtio_net_hdr`.
            let mut tcp = vec![0, 1, 52, 0, 0xa8, 0x05, 20, 0, 16, 0];
            tcp.resize(10 + 40, 0);
            tcp[10] = 0x45;
            tcp[12..14].copy_from_slice(&3040_u16.to_be_bytes());
            tcp[19] = 6;
            tcp[30..34].copy_from_slice(&[0x9c, 0x40, 0x4e, 0x21]);
            tcp[42] = 0x50;
            tcp.resize(10 + 40 + 3000, 0);
            vec![tcp]
        },
    },
    Parser {
        name: "scenario",
        dear: TOML,
        read: |bytes| {
            let registry = Registry::<Frame>::standard();
            let _ = std::str::from_utf8(bytes).map(|text| {
                Scenario::from_toml(text, "stdin", &registry).map_err(|errors| errors.to_string())
            });
        },
        right: || {
            let text = "duration = \"60s\"\n[path]\nrate = \"40Mbit\"\nrtt = \"40ms\"\nbuffer = \
                \"0.5bdp\"\n\
                        queue = { kind = \"fq_codel\", target = \"5ms\" }\n[[flow]]\ncc = \
                        \"bbr\"\ncount = 2\n";
            vec![text.as_bytes().to_vec()]
        },
    },
    Parser {
        name: "trace",
        dear: TRACE,
        read: |bytes| {
            let Ok(text) = std::str::from_utf8(bytes) else {
                return;
            };
            for repeats in [false, true] {
                match Trace::read(text, repeats) {
                    Ok(trace) => {
                        let _mean = trace.mean(Span::s(60));
                    }
                    Err(error) => drop(error),
                }
                drop(delays(text, repeats));
            }
        },
        right: || {
            vec![
                b"t_s,rate_mbit\n0,10\n1.5,2.25\n3,10\n".to_vec(),
                b"# milliseconds\n1\n2\n2\n40\n".to_vec(),
                b"0 25\n15000 31.5\n".to_vec(),
            ]
        },
    },
    Parser {
        name: "plan",
        dear: CHANGES,
        read: |bytes| drop(Plan::parse(bytes)),
        right: || vec![plan().to_string().into_bytes()],
    },
    Parser {
        name: "journal",
        dear: CHANGES,
        read: |bytes| drop(Journal::parse(bytes)),
        right: || {
            let entries: Vec<Value> = plan()["changes"]
                .as_array()
                .map(|changes| {
                    changes
                        .iter()
                        .map(|c| json!({ "change": c, "before": c["from"] }))
                        .collect()
                })
                .unwrap_or_default();
            let of = |below: Value| {
                json!({ "journal": 1, "narrows": "0", "id": "0a", "phase": "applied",
                "made": "2026-01-01T00:00:00Z",
                    "title": "t", "netns": null, "deadline": { "uptime_s": 1.5, "boot": "b" },
                    "entries": entries,
                    "below": below })
            };
            vec![of(of(Value::Null)).to_string().into_bytes()]
        },
    },
    Parser {
        name: "remy",
        dear: TREE,
        read: |bytes| {
            let _ = std::str::from_utf8(bytes)
                .map(|text| remy::Tree::read(text).map(|tree| tree.to_text()));
        },
        right: || vec![remy::TREES.shipped[0].1.as_bytes().to_vec()],
    },
    Parser {
        name: "dna",
        dear: TREE,
        read: |bytes| {
            let _ = remy::from_dna(bytes).map(|tree| tree.to_text());
        },
        right: || vec![vec![0x0a, 0x00], vec![0x12, 0x02, 0x08, 0x01, 0x1a, 0x00]],
    },
    Parser {
        name: "facts",
        dear: FACTS,
        read: |bytes| {
            let text = String::from_utf8_lossy(bytes);
            if let Ok(facts) = collector::parse(&text, "host") {
                Audit::new(&facts, audit(&facts, &Path::default())).lines(true);
            }
        },
        right: || vec![HOST.as_bytes().to_vec()],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path as File, PathBuf};

    /// The directory of the inputs with which `make fuzz` begins, one for each parser.
    fn corpus(parser: &Parser) -> PathBuf {
        File::new(env!("CARGO_MANIFEST_DIR"))
            .join("../fuzz/corpus")
            .join(parser.name)
    }

    #[test]
    fn valid_input_and_its_prefixes_are_read_without_a_panic() {
        for parser in PARSERS {
            for right in (parser.right)() {
                for end in 0..=right.len().min(300) {
                    (parser.read)(&right[..end]);
                }
                (parser.read)(&right);
            }
        }
    }

    #[test]
    fn valid_input_is_in_the_corpus() {
        for parser in PARSERS {
            for (number, right) in (parser.right)().iter().enumerate() {
                let file = corpus(parser).join(format!("valid-{number}"));
                if std::env::var("NARROWS_GOLDEN").as_deref() == Ok("write") {
                    std::fs::create_dir_all(corpus(parser)).unwrap();
                    std::fs::write(&file, right).unwrap();
                }
                let kept = std::fs::read(&file).unwrap_or_default();
                assert!(
                    kept == *right,
                    "{}: run this test with NARROWS_GOLDEN=write",
                    file.display()
                );
            }
        }
    }

    #[test]
    fn kept_inputs_are_read_without_a_panic() {
        for parser in PARSERS {
            let kept = std::fs::read_dir(corpus(parser)).unwrap();
            for file in kept {
                (parser.read)(&std::fs::read(file.unwrap().path()).unwrap());
            }
        }
    }
}
