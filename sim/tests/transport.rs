//! Flows of a transport protocol that is defined outside narrows. The protocol here has a fixed
//! window of datagrams, each of which is acknowledged.

use crate::common::{flow, json, registry, scenario};
use narrows_core::param::{Choice, Params};
use narrows_core::registry::Registry;
use narrows_core::registry::endpoint::{
    Ecn, Endpoint, Kind, Nanos, Role, Setting, Stats, UDP_HEADERS,
};
use narrows_core::scenario::{Direction, FlowSpec, Scenario};
use narrows_core::tcp::EcnNegotiation;
use narrows_core::units::{Bytes, Span};
use narrows_sim::{Options, Packet, Run, SimError, run};

/// The window of the test protocol, in datagrams.
const WINDOW: u64 = 20;
/// Bytes of payload of a full datagram, and bytes of its headers.
const PAYLOAD: u64 = 1192;
const HEADER: usize = 8;
/// Time without an acknowledgement after which the window is sent again, in ns.
const TIMEOUT: Nanos = 500_000_000;

/// The test protocol: it numbers datagrams, acknowledges each of them, and sends the whole window
/// again after a timeout.
struct Fixed {
    role: Role,
    ecn: Ecn,
    offered: u64,
    next: u64,
    acked: u64,
    /// Time of the last transmission of each datagram.
    times: Vec<Nanos>,
    sent_at: Nanos,
    srtt: Nanos,
    lost: u64,
    marks: u64,
    received: Vec<bool>,
    delivered: u64,
    acks: Vec<[u8; HEADER]>,
    due: Option<Nanos>,
}

fn open(setting: &Setting<'_>) -> Result<Box<dyn Endpoint>, String> {
    if setting.cc == "refused" {
        return Err("no such window".into());
    }
    Ok(Box::new(Fixed {
        role: setting.role,
        ecn: if setting.ecn { Ecn::Ect0 } else { Ecn::NotEct },
        offered: 0,
        next: 0,
        acked: 0,
        times: Vec::new(),
        sent_at: 0,
        srtt: 0,
        lost: 0,
        marks: 0,
        received: Vec::new(),
        delivered: 0,
        acks: Vec::new(),
        due: None,
    }))
}

impl Endpoint for Fixed {
    fn start(&mut self, _now: Nanos) {}
    fn handle(&mut self, now: Nanos, datagram: &mut [u8], ecn: Ecn) {
        let number = u64::from_le_bytes(datagram[..HEADER].try_into().unwrap());
        if self.role == Role::Sender {
            self.acked = self.acked.max(number + 1);
            self.srtt = now - self.times[number as usize];
            return;
        }
        assert_eq!(datagram.len() as u64, PAYLOAD + HEADER as u64);
        self.marks += u64::from(ecn == Ecn::Ce);
        let place = number as usize;
        if self.received.len() <= place {
            self.received.resize(place + 1, false);
        }
        if !std::mem::replace(&mut self.received[place], true) {
            self.delivered += PAYLOAD;
        }
        self.acks.push(number.to_le_bytes());
    }
    fn poll(&mut self, now: Nanos, buffer: &mut Vec<u8>) -> Option<Ecn> {
        if self.role == Role::Receiver {
            buffer.extend_from_slice(&self.acks.pop()?);
            return Some(Ecn::NotEct);
        }
        let all = self.offered.div_ceil(PAYLOAD);
        if self.next >= all.min(self.acked + WINDOW) {
            self.due = (self.next > self.acked).then_some(self.sent_at + TIMEOUT);
            return None;
        }
        buffer.extend_from_slice(&self.next.to_le_bytes());
        buffer.resize(HEADER + PAYLOAD as usize, 0);
        self.times.resize(self.next as usize, 0);
        self.times.push(now);
        self.next += 1;
        self.sent_at = now;
        Some(self.ecn)
    }
    fn timeout(&self) -> Option<Nanos> {
        self.due
    }
    fn on_timeout(&mut self, now: Nanos) {
        if now >= self.sent_at + TIMEOUT {
            self.lost += self.next - self.acked;
            self.next = self.acked;
        }
    }
    fn offer(&mut self, _now: Nanos, total: u64) {
        self.offered = total.max(self.next * PAYLOAD);
    }
    fn stats(&self) -> Stats {
        Stats {
            delivered: self.delivered,
            cwnd: WINDOW * PAYLOAD,
            srtt: self.srtt,
            lost_packets: self.lost,
            lost_bytes: self.lost * PAYLOAD,
            congestion_events: self.marks,
            datagram: PAYLOAD,
            ..Stats::default()
        }
    }
}

fn with_fixed() -> Registry<Packet> {
    let mut registry = registry();
    registry.register_transport(Kind {
        name: "fixed",
        version: "fixed 1",
        help: "a window of 20 datagrams",
        ccs: vec!["none", "refused"],
        headers: UDP_HEADERS,
        open: &open,
    });
    registry
}

fn fixed(id: &str) -> FlowSpec {
    FlowSpec {
        transport: Some("fixed".into()),
        ..flow(id, "none")
    }
}

fn play(s: &Scenario) -> Run {
    run(s, &with_fixed(), &Options::default(), &mut |_| true).unwrap()
}

/// A scenario with `flows` on a path without random loss or jitter.
fn alone(flows: Vec<FlowSpec>) -> Scenario {
    Scenario {
        flows,
        start_jitter: Span::ZERO,
        ..scenario(Span::s(10))
    }
}

#[test]
fn a_window_per_round_trip_is_its_goodput() {
    // 20 datagrams of 1242 bytes take 19.9 ms at 10 Mbit/s, so a window of 20 fills the RTT of
    // 20 ms and leaves nearly no queue.
    let run = play(&alone(vec![fixed("f")]));
    let flow = &run.flows[0];
    let most = 10.0 * PAYLOAD as f64 / (PAYLOAD as f64 + HEADER as f64 + f64::from(UDP_HEADERS));
    assert!(
        (0.94 * most..=most).contains(&flow.goodput_mbit),
        "{}",
        flow.goodput_mbit
    );
    assert_eq!((flow.retransmits, flow.cc.as_str()), (0, "fixed:none"));
    assert!(
        (20.0..23.0).contains(&flow.rtt_ms.p50),
        "{}",
        flow.rtt_ms.p50
    );
    assert_eq!(flow.cwnd_packets.mean, 20.0);
}

#[test]
fn it_shares_the_path_with_tcp_and_runs_are_equal() {
    let mut s = alone(vec![fixed("f"), flow("cubic", "cubic")]);
    s.path.hops[0].loss = crate::common::loss(0.001);
    s.flows[0].rtt = Span::ms(10);
    let run = play(&s);
    assert_eq!(json(&run), json(&play(&s)));
    assert!(run.flows.iter().all(|flow| flow.goodput_mbit > 1.0));
    assert!(run.flows[0].rtt_ms.p50 > 30.0);
}

#[test]
fn a_transfer_ends_with_its_last_byte_and_a_pause_stops_the_application() {
    let mut s = alone(vec![fixed("size"), fixed("pause")]);
    s.flows[0].size = Some(Bytes::new(100 * PAYLOAD));
    s.flows[0].direction = Direction::Down;
    (s.flows[1].start, s.flows[1].stop, s.flows[1].restart) =
        (Span::s(1), Some(Span::s(2)), Some(Span::s(9)));
    let run = play(&s);
    // Five windows take one round trip each.
    let fct = run.flows[0].fct_s;
    assert!((0.1..0.13).contains(&fct), "{fct}");
    let delivered: Vec<u64> = run.flows[1].series.iter().map(|point| point.1).collect();
    let idle = delivered.windows(2).filter(|two| two[0] == two[1]).count();
    assert!((5..=7).contains(&idle), "{delivered:?}");
}

#[test]
fn ecn_bits_cross_the_path() {
    let mut s = alone(vec![fixed("f"), flow("cubic", "cubic")]);
    let params = registry().queue("fq_codel").map(|kind| kind.params);
    s.path.hops[0].queue = Choice {
        kind: "fq_codel".into(),
        params: Params::defaults(params.unwrap()),
    };
    s.path.hops[0].buffer = None;
    for (ecn, marked) in [
        (EcnNegotiation::Off, false),
        (EcnNegotiation::Requested, true),
    ] {
        s.flows[0].ecn = ecn;
        assert_eq!(play(&s).queue.marks > 0, marked);
    }
}

#[test]
fn an_unknown_transport_is_an_error_that_names_the_remedy() {
    let s = alone(vec![fixed("f")]);
    let error = run(&s, &registry(), &Options::default(), &mut |_| true).unwrap_err();
    assert!(error.to_string().contains("make adapters"), "{error}");
    let mut refused = alone(vec![fixed("f")]);
    refused.flows[0].cc.kind = "refused".into();
    let error = run(&refused, &with_fixed(), &Options::default(), &mut |_| true).unwrap_err();
    assert!(matches!(error, SimError::Transport { .. }), "{error}");
}

#[test]
fn a_scenario_names_a_loaded_transport_only() {
    let text = "duration = \"2s\"\n[path]\nrate = \"10Mbit\"\nrtt = \"20ms\"\n[[flow]]\n\
                transport = \"fixed\"\n";
    let s = Scenario::from_toml(text, "x.toml", &with_fixed()).unwrap();
    assert_eq!(
        (s.flows[0].id.as_str(), s.flows[0].cc.kind.as_str()),
        ("fixed0", "none")
    );
    let again = Scenario::from_toml(&s.to_toml(), "x.toml", &with_fixed()).unwrap();
    assert_eq!(s, again);
    let wrong = |text: &str, registry: &Registry<Packet>| {
        Scenario::from_toml(text, "x.toml", registry)
            .unwrap_err()
            .to_string()
    };
    let absent = wrong(text, &registry());
    assert!(
        absent.contains("x.toml:6") && absent.contains("make adapters"),
        "{absent}"
    );
    for (line, expected) in [
        ("cc = \"cubic\"", "known: none, refused"),
        ("workload = \"web\"", "cannot be combined with a transport"),
        (
            "like = \"linux-6.1\"",
            "cannot be combined with a transport",
        ),
    ] {
        let error = wrong(&format!("{text}{line}\n"), &with_fixed());
        assert!(error.contains(expected), "{error}");
    }
}
