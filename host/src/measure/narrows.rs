//! Load between this host and `narrows serve`. The client opens, starts, samples and stops streams
//! by requests over the control connection.
//!
//! The sending host records the samples. For a download that is the server, which sends its rows
//! during the phase. Their times are those of the server's clock; the difference found by
//! [`Link::offset`] converts them to this host's clock.

use super::Run;
use super::datagram_flow::Ended;
use super::interval::{Total, totals};
use super::link::{FAR_END, Link, Offset, PATIENCE, connected, send_all};
use super::opener::Opener;
use super::options::{Options, Transport};
use super::plan::{Direction, FlowSpec};
use super::seen::{FlowSeen, StoppedBy};
use crate::HostError;
use crate::error::{is_outage, reason};
use crate::measure::bulk::{Role, Slot, Stream, UNSENT};
use crate::protocols::tcp_info::Row;
use crate::protocols::wire::{Hello, Kind, PING, Ping};
use crate::sys;
use crate::sys::datagram::{self, BATCH, Outgoing};
use crate::sys::socket::{self, Wanted};
use crate::terminal::field;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

/// UDP payload of a datagram of load, bytes. The IPv4 packet has 1500 bytes.
const DATAGRAM: usize = 1472;

/// Number of rows per flow that a server may send beyond one per interval: at the beginning, at the
/// end, and late ones.
const ROWS_BESIDE: u64 = 100;
/// Amount by which a sample may be ahead of this host's clock, ns: an error of the clock offset.
const LATEST: u64 = 1_000_000_000;
/// Largest payload of a segment, bytes.
const MOST_MSS: u64 = 0xffff;

struct Flow {
    stream: Arc<Stream>,
    slot: Slot,
    seen: FlowSeen,
    /// Number of rows that the server may still send. This limit bounds the memory that the rows
    /// use on this host.
    room: u64,
}

/// Socket options of a flow's socket on this host. For a download, congestion control and pacing
/// are set on the server instead.
fn wanted(options: &Options, spec: &FlowSpec, cc: Option<&str>) -> Wanted {
    let sends = spec.direction == Direction::Up;
    Wanted {
        cc: cc.filter(|_| sends).map(String::from),
        dscp: spec.dscp,
        pacing: options
            .pacing
            .filter(|_| sends)
            .map(|rate| rate.as_bit() / 8),
    }
}

fn cc_missing(cc: Option<&str>, error: &std::io::Error) -> HostError {
    let (cc, ccs) = (cc.unwrap_or("?"), crate::sys::kernel::ccs());
    HostError::Missing(format!(
        "{cc}: {error}; write --cc {} (net.ipv4.tcp_allowed_congestion_control of this host)",
        ccs.allowed.join(" or ")
    ))
}

/// Runs a load phase. Returns its start and end (ns), its flows, and why it ended.
pub fn loaded(
    link: &mut Link,
    run: &mut Run,
    to: SocketAddr,
    specs: &[FlowSpec],
    cc: Option<&str>,
    offset: Offset,
) -> Result<(u64, u64, Vec<FlowSeen>, StoppedBy), HostError> {
    let first = run.next_stream;
    run.next_stream = run.next_stream.wrapping_add(specs.len() as u16);
    let number = |i: usize| first.wrapping_add(i as u16);
    let transport = run.options.transport;
    let udp = transport != Transport::Tcp;
    let mut openers = Vec::new();
    for (i, spec) in specs.iter().enumerate() {
        let mut request = json!({
            "do": "open", "stream": number(i), "direction": spec.direction.name(), "cc": cc,
            "dscp": spec.dscp,
            "pacing_bytes": run.options.pacing.map(|rate| rate.as_bit() / 8),
        });
        if udp {
            let opener = Opener::new(link, to, number(i), spec.direction, run.options, cc)?;
            request["transport"] = transport.name().into();
            request["pacer"] = run.options.pacer.unwrap_or_default().name().into();
            request["terms"] = opener.terms();
            openers.push(opener);
        }
        link.say(&request)?;
        link.expect(&["open"])?;
    }
    let interval = run.sample_interval(specs.len());
    let room = run.options.duration.as_ns() / interval + ROWS_BESIDE;
    let mut flows: HashMap<u16, Flow> = HashMap::new();
    for (i, (opener, spec)) in openers.into_iter().zip(specs).enumerate() {
        let (stream, cc) = opener.join(link, spec, &run.budget)?;
        let seen = FlowSeen {
            cc: Some(cc),
            protocol: transport.name(),
            ..FlowSeen::new(run.name(spec.direction), spec)
        };
        let flow = Flow {
            stream,
            slot: Slot::default(),
            seen,
            room,
        };
        flows.insert(number(i), flow);
    }
    for (i, spec) in specs.iter().enumerate().filter(|_| !udp) {
        let refused = |error: std::io::Error| match cc {
            _ if is_outage(&error) => {
                HostError::Silent(format!("{to}: {}", reason(&error)), "check the path".into())
            }
            Some(_) => cc_missing(cc, &error),
            None => HostError::Failed("the socket of a flow", error),
        };
        let fd = socket::connect(to, &wanted(run.options, spec, cc)).map_err(refused)?;
        connected(&fd, to, sys::monotonic() + PATIENCE, FAR_END)?;
        send_all(&fd, &Hello::Data(number(i), link.cookie).to_bytes())?;
        let joined = link.expect(&["joined"])?;
        let up = spec.direction == Direction::Up;
        let ours = socket::cc_of(&fd);
        let seen = FlowSeen {
            cc: if up {
                Some(ours)
            } else {
                joined["cc"].as_str().map(field)
            },
            arrived: joined["class"]
                .as_u64()
                .filter(|_| up)
                .map(|class| (class >> 2) as u8),
            ..FlowSeen::new(run.name(spec.direction), spec)
        };
        let role = if up { Role::Sender } else { Role::Receiver };
        if up {
            let _ = sys::set_notsent_lowat(&fd, UNSENT);
        }
        let stream = Stream::new(fd, role, Arc::clone(&run.budget));
        flows.insert(
            number(i),
            Flow {
                stream,
                slot: Slot::default(),
                seen,
                room,
            },
        );
    }
    let numbers: Vec<u16> = (0..specs.len()).map(number).collect();
    let failed = HostError::failed("starting load");
    link.say(&json!({ "do": "start", "streams": numbers, "sample_ms": interval / 1_000_000 }))?;
    let ways = |direction| specs.iter().any(|spec| spec.direction == direction);
    if ways(Direction::Up) && ways(Direction::Down) {
        // The server starts to send when it receives the request, half an RTT from now. This host
        // waits as long, so that both directions start together.
        sys::sleep_until(sys::monotonic() + offset.error);
    }
    let from = sys::monotonic();
    run.enter("loaded", cc, from);
    for flow in flows.values_mut() {
        flow.seen.note(&flow.stream, from);
        flow.slot = run.carriers.start(&flow.stream).map_err(&failed)?;
    }
    let until = from + run.options.duration.as_ns();
    let mut sample = from + interval;
    let mut why = StoppedBy::Duration;
    loop {
        let now = sys::monotonic();
        if now >= until {
            break;
        }
        if run.budget.spent() {
            why = StoppedBy::MaxData;
            break;
        }
        if now >= sample {
            sample = (sample + interval).max(now);
            flows
                .values_mut()
                .for_each(|flow| flow.seen.note(&flow.stream, now));
            run.note(totals(flows.values().map(|flow| &flow.seen)));
            if let Some(ended) = flows.values().find_map(|flow| flow.stream.ended()) {
                run.notes.push(ended.text().into());
                why = match ended {
                    Ended::Breaker(_) => StoppedBy::Breaker,
                    Ended::Closed(_) => StoppedBy::Lost,
                };
                break;
            }
            if !run.pulse(now)? {
                why = StoppedBy::User;
                break;
            }
        }
        let wait = sample.min(until).saturating_sub(sys::monotonic());
        let heard = match link.hear(wait) {
            Err(HostError::Stopped) => {
                why = run.stopped()?;
                break;
            }
            // After an error, earlier observations are kept.
            Err(error) => {
                why = StoppedBy::Lost;
                run.notes.push(error.to_string());
                break;
            }
            Ok(heard) => heard,
        };
        if let Some(told) = heard {
            if told["is"] == "over" {
                why = StoppedBy::Peer;
                run.notes.extend(told["why"].as_str().map(field));
                break;
            }
            if let Err(error) = hear(&mut flows, &told, offset) {
                why = StoppedBy::Lost;
                run.notes.push(error.to_string());
                break;
            }
        }
    }
    let to = sys::monotonic();
    for flow in flows.values_mut() {
        if flow.stream.broken() {
            run.notes
                .push(format!("{} failed before its end", flow.seen.id));
        }
        flow.seen.note(&flow.stream, to);
        if flow.stream.role() == Role::Sender {
            run.carriers.stop(flow.slot);
            flow.seen.close(&flow.stream);
        }
    }
    if !matches!(why, StoppedBy::Peer | StoppedBy::Lost) {
        if let Err(error) = ended(link, &numbers, &mut flows, offset) {
            match error {
                HostError::Stopped => why = StoppedBy::User,
                _ => {
                    run.notes.push(error.to_string());
                    if why != StoppedBy::User {
                        why = StoppedBy::Lost;
                    }
                }
            }
        }
    }
    let mut seen = Vec::new();
    for number in numbers {
        let Some(flow) = flows.remove(&number) else {
            continue;
        };
        run.carriers.stop(flow.slot);
        let _ = sys::set_reset(flow.stream.socket());
        seen.push(flow.seen);
    }
    Ok((from, to, seen, why))
}

/// Requests that the server stops the flows, and receives their last rows.
fn ended(
    link: &mut Link,
    numbers: &[u16],
    flows: &mut HashMap<u16, Flow>,
    offset: Offset,
) -> Result<(), HostError> {
    link.say(&json!({ "do": "stop", "streams": numbers }))?;
    let until = sys::monotonic() + PATIENCE;
    let mut open = numbers.len();
    while open > 0 {
        let told = link.expect_until(&["stopped", "samples"], until)?;
        open -= usize::from(told["is"] == "stopped");
        hear(flows, &told, offset)?;
    }
    Ok(())
}

/// Processes a message of the server about a flow.
fn hear(flows: &mut HashMap<u16, Flow>, told: &Value, offset: Offset) -> Result<(), HostError> {
    let number = told["stream"].as_u64().and_then(|n| u16::try_from(n).ok());
    let Some(flow) = number.and_then(|n| flows.get_mut(&n)) else {
        return Ok(());
    };
    let rows = told["rows"].as_array().map_or(0, Vec::len).max(1) as u64;
    let Some(room) = flow.room.checked_sub(rows) else {
        return Err(HostError::Broken(format!(
            "the server sends more samples of {} than requested",
            flow.seen.id
        )));
    };
    flow.room = room;
    let latest = sys::monotonic() + LATEST;
    let id = &flow.seen.id;
    // A row with the time of this host; an error for values that no kernel reports.
    let ours = |row: &Value| -> Result<Row, HostError> {
        let row = Row::from_json(row).and_then(|mut row| {
            row.at = u64::try_from(i128::from(row.at) - offset.ns).unwrap_or(0);
            (row.at <= latest).then_some(row)
        });
        row.ok_or_else(|| {
            HostError::Broken(format!(
                "the server sent an impossible TCP sample of flow {id}"
            ))
        })
    };
    let sends = flow.stream.role() == Role::Receiver;
    match told["is"].as_str() {
        Some("samples") if sends => {
            let rows = told["rows"].as_array().into_iter().flatten();
            let rows: Vec<Row> = rows.map(ours).collect::<Result<_, _>>()?;
            flow.seen.rows.extend(rows);
        }
        Some("stopped") if sends => {
            let row = ours(&told["row"])?;
            flow.seen.rows.push(row);
            flow.seen.mss = told["mss"].as_u64().filter(|mss| *mss <= MOST_MSS);
            flow.seen.ecn = told["ecn"].as_bool();
        }
        Some("stopped") => flow.seen.received = told["moved"].as_u64(),
        _ => {}
    }
    Ok(())
}

/// Runs a load phase of datagrams to the server at the rate of `--pacing`, or `FLOOD`. Returns
/// its start and end (ns), a JSON object with the datagrams sent and those counted by the server,
/// and why it ended.
pub fn flooded(
    link: &mut Link,
    run: &mut Run,
    to: SocketAddr,
) -> Result<(u64, u64, Value, StoppedBy), HostError> {
    let failed = HostError::failed("the socket of load");
    let any: SocketAddr = if to.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" }
        .parse()
        .map_err(|_| HostError::Stopped)?;
    let fd = socket::datagrams(any).map_err(&failed)?;
    socket::connect_datagrams(&fd, to).map_err(&failed)?;
    socket::set_class(&fd, run.options.dscp << 2);
    let rate = run
        .options
        .pacing
        .map_or(FLOOD, |rate| rate.as_bit())
        .max(1);
    let interval = (DATAGRAM as u64 * 8).saturating_mul(1_000_000_000) / rate;
    link.say(&json!({ "do": "report" }))?;
    link.expect(&["report"])?;
    let from = sys::monotonic();
    run.enter("loaded", None, from);
    let until = from + run.options.duration.as_ns();
    let (mut next, mut number, mut unsent) = (from, 0_u32, 0_u64);
    let mut why = StoppedBy::Duration;
    loop {
        let now = sys::monotonic();
        if now >= until {
            break;
        }
        if run.budget.spent() {
            why = StoppedBy::MaxData;
            break;
        }
        if next > now {
            let sent = Total {
                bytes: u64::from(number) * DATAGRAM as u64,
                retransmits: None,
            };
            run.note([None, Some(sent)]);
            if !run.pulse(now)? {
                why = StoppedBy::User;
                break;
            }
            // The datagrams of at least half a millisecond are sent together, which costs one
            // system call.
            sys::sleep_until(next.max(now + 500_000).min(until));
            continue;
        }
        let due = (now - next)
            .checked_div(interval)
            .map_or(BATCH as u64, |n| (n + 1).min(BATCH as u64));
        let promised = run.budget.promise(due * DATAGRAM as u64);
        let fit = promised / DATAGRAM as u64;
        if fit == 0 {
            run.budget.kept(now, promised, 0);
            why = StoppedBy::MaxData;
            break;
        }
        let datagrams: Vec<Outgoing> = (0..fit as u32)
            .map(|i| {
                let ping = Ping {
                    kind: Kind::Load,
                    class: 0,
                    probe: 0,
                    cookie: link.cookie,
                    number: number.wrapping_add(i),
                    sent: now,
                    received: 0,
                    answered: 0,
                    count: 0,
                };
                Outgoing {
                    to: None,
                    class: None,
                    departs: None,
                    head: datagram::header(&ping.to_bytes()),
                    head_len: PING,
                    len: DATAGRAM,
                }
            })
            .collect();
        let sent = datagram::send(&fd, &datagrams, false).unwrap_or(0) as u64;
        unsent += fit - sent;
        number = number.wrapping_add(sent as u32);
        next += fit * interval;
        run.budget.kept(now, promised, sent * DATAGRAM as u64);
    }
    let to = sys::monotonic();
    // The last datagrams may still be in transit.
    sys::sleep_until(to + 500_000_000);
    let report = link
        .say(&json!({ "do": "report" }))
        .and_then(|()| link.expect(&["report"]));
    let report = match report {
        Ok(report) => report,
        Err(error) => {
            run.notes.push(error.to_string());
            if why != StoppedBy::User {
                why = StoppedBy::Lost;
            }
            Value::Null
        }
    };
    let load = &report["load"];
    let known = !report.is_null();
    let (packets, bytes) = (
        load["packets"].as_u64().unwrap_or(0),
        load["bytes"].as_u64().unwrap_or(0),
    );
    let span = (to - from) as f64 / 1e9;
    let took = load["last"]
        .as_u64()
        .unwrap_or(0)
        .saturating_sub(load["first"].as_u64().unwrap_or(0)) as f64
        / 1e9;
    let told = json!({
        "direction": "up", "packet_bytes": DATAGRAM, "asked_mbit": rate as f64 / 1e6,
        "sent": number, "unsent": unsent,
        "received": if known { json!(packets) } else { Value::Null },
        "reordered": load["reordered"].as_u64(),
        "sent_mbit": f64::from(number) * DATAGRAM as f64 * 8.0 / 1e6 / span,
        "received_mbit": if took > 0.0 {
            json!(bytes as f64 * 8.0 / 1e6 / took)
        } else { Value::Null },
        "loss": if number > 0 && known {
            json!(1.0 - packets.min(number.into()) as f64 / f64::from(number))
        } else { Value::Null },
    });
    Ok((from, to, told, why))
}

/// Default rate of datagram load, bit/s.
const FLOOD: u64 = 10_000_000;
