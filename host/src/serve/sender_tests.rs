//! Tests over loopback. Each kind of load in [`SENDERS`] stops without a sign of life of the
//! client, and a client that reads nothing loses its seat. Further tests cover incomplete requests,
//! a listener whose epoll fails, and clients that do not read.

use super::super::budget::Allowance;
use super::super::fed;
use super::super::limits::{GONE, IDLE, Limits, REQUEST, SENDERS};
use super::*;
use crate::measure::bulk::{Budget, Role};
use crate::measure::datagram_flow::DatagramFlow;
use crate::measure::pacer::Pacer;
use crate::measure::transport::{self, Terms, quic, terms};
use crate::protocols::wire::{ANSWER, Opening, frame, to_frame};
use narrows_core::units::Rate;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time limit of a step, far more than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time without a byte after which a load counts as stopped.
const QUIET: Duration = Duration::from_millis(300);

/// Ends the thread for datagrams when it is dropped, also if a test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// A client of a listener that runs on the same thread.
struct Client<'a, 'b> {
    listener: &'a mut Listener<'b>,
    at: SocketAddr,
    datagrams: SocketAddr,
    control: TcpStream,
    input: Vec<u8>,
}

/// The client's end of a load.
enum Load {
    Stream(TcpStream),
    Datagrams(UdpSocket),
    /// A receiver of the transport over UDP, with its socket.
    Flow(OwnedFd, Box<dyn DatagramFlow>),
}

impl Load {
    /// Reads what has arrived and returns its length in bytes; `None` at the end.
    fn read(&mut self) -> Option<usize> {
        let mut bytes = vec![0; 1 << 16];
        let read = match self {
            Load::Flow(socket, flow) => {
                let before = flow.moved();
                flow.turn(socket, &Budget::new(None, u64::MAX));
                return Some((flow.moved() - before) as usize);
            }
            Load::Stream(stream) => stream.read(&mut bytes),
            Load::Datagrams(socket) => socket.recv(&mut bytes),
        };
        match read {
            Ok(0) => None,
            Ok(n) => Some(n),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Some(0),
            Err(_) => None,
        }
    }
}

impl Client<'_, '_> {
    fn connect(&mut self) -> TcpStream {
        let stream = TcpStream::connect(self.at).expect("a connection");
        stream.set_nonblocking(true).expect("an option");
        stream
    }
    /// The next `n` bytes of the control connection.
    fn bytes(&mut self, n: usize) -> Vec<u8> {
        let begun = Instant::now();
        while self.input.len() < n {
            assert!(begun.elapsed() < PATIENCE, "nothing comes");
            self.listener.step();
            let mut more = [0; 4096];
            if let Ok(got) = self.control.read(&mut more) {
                assert!(got > 0, "it hung up");
                self.input.extend(&more[..got]);
            }
        }
        self.input.drain(..n).collect()
    }
    fn state(&mut self, expected: u8) {
        assert_eq!(self.bytes(1), [expected]);
    }
    fn answer(&mut self) -> Value {
        let mut head = self.bytes(4);
        let length = u32::from_be_bytes(*head.first_chunk().expect("four bytes")) as usize;
        head.extend(self.bytes(length));
        frame(&head, ANSWER).expect("a frame").expect("all of it").0
    }
    fn say(&mut self, bytes: &[u8]) {
        self.control.write_all(bytes).expect("room for a few bytes");
    }
    fn ask(&mut self, request: &Value) -> Value {
        self.say(&to_frame(request));
        self.answer()
    }
    /// Starts a session of narrows' own protocol and returns its cookie.
    fn session(&mut self) -> String {
        self.say(&Hello::Control([7; 16]).to_bytes());
        self.answer();
        let welcome = self.ask(&json!({ "proof": null }));
        welcome["cookie"].as_str().expect("a cookie").to_string()
    }
    /// Starts an iperf3 test up to the creation of its streams.
    fn test(&mut self, udp: bool) -> [u8; COOKIE] {
        let mut cookie = [b'a'; COOKIE];
        cookie[COOKIE - 1] = 0;
        self.say(&cookie);
        self.state(iperf3::state::PARAM_EXCHANGE);
        let params = json!({ "tcp": !udp, "udp": udp, "omit": 0, "time": 500, "parallel": 1,
            "len": 1200, "reverse": true,
            "bandwidth": if udp { 10_000_000 } else { 0 } });
        self.say(&to_frame(&params));
        self.state(iperf3::state::CREATE_STREAMS);
        cookie
    }
    /// Starts the load of that name.
    fn load(&mut self, name: &str) -> Load {
        match name {
            "downloads" => {
                let cookie = crate::digest::from_hex(&self.session()).expect("a cookie");
                self.ask(&json!({ "do": "open", "stream": 1, "direction": "down" }));
                let mut load = self.connect();
                load.write_all(&Hello::Data(1, cookie).to_bytes())
                    .expect("room");
                assert_eq!(self.answer()["is"], "joined");
                self.ask(&json!({ "do": "start", "streams": [1], "sample_ms": 1000 }));
                Load::Stream(load)
            }
            "downloads over UDP" | "downloads over QUIC" => {
                let transport = if name.ends_with("QUIC") {
                    "quic"
                } else {
                    "udp"
                };
                let cookie = crate::digest::from_hex(&self.session()).expect("a cookie");
                let ccs = terms::standard();
                let cc = transport::cc(&ccs, Some("cubic")).expect("a congestion control");
                let terms = Terms::of(cc);
                self.ask(&json!({ "do": "open", "stream": 1, "direction": "down",
                    "transport": transport, "terms": terms.to_json() }));
                let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
                socket.connect(self.datagrams).expect("a peer");
                socket.set_read_timeout(Some(PATIENCE)).expect("an option");
                let mut key = [0; 8];
                for _ in 0..2 {
                    let opening = Opening {
                        answer: false,
                        stream: 1,
                        cookie,
                        key,
                    };
                    socket.send(&opening.to_bytes()).expect("room");
                    let mut answer = [0; 256];
                    let n = socket.recv(&mut answer).expect("an answer");
                    // No longer than the request.
                    assert_eq!(n, opening.to_bytes().len());
                    key = Opening::from_bytes(&answer).expect("an answer").key;
                }
                let joined = self.answer();
                assert_eq!(joined["is"], "joined");
                socket.set_nonblocking(true).expect("an option");
                let (to, budget) = (self.datagrams, Budget::new(None, u64::MAX));
                let flow = if transport == "quic" {
                    let public = crate::digest::from_hex(joined["key"].as_str().expect("a key"));
                    let to = (public.expect("its digits"), to);
                    quic::connect(Role::Receiver, "cubic", to, 0, &budget)
                } else {
                    transport::own(
                        Role::Receiver,
                        (cc, Pacer::Timer),
                        terms,
                        (key, to),
                        0,
                        &budget,
                    )
                };
                self.ask(&json!({ "do": "start", "streams": [1], "sample_ms": 1000 }));
                Load::Flow(socket.into(), flow.expect("an end"))
            }
            "iperf3 -R" => {
                let cookie = self.test(false);
                let mut load = self.connect();
                load.write_all(&cookie).expect("room");
                self.state(iperf3::state::TEST_START);
                Load::Stream(load)
            }
            "iperf3 -u -R" => {
                self.test(true);
                let load = UdpSocket::bind("127.0.0.1:0").expect("a socket");
                load.connect(self.datagrams).expect("a peer");
                load.set_nonblocking(true).expect("an option");
                load.send(b"9876").expect("room");
                self.state(iperf3::state::TEST_START);
                Load::Datagrams(load)
            }
            "objects of pages" => {
                let cookie = self.session();
                let mut load = self.connect();
                let request = format!("GET /{cookie}/8000000 HTTP/1.1\r\n\r\n");
                load.write_all(request.as_bytes()).expect("room");
                Load::Stream(load)
            }
            other => panic!("{other} is not tried: add it here"),
        }
    }
    fn allowance(&self) -> Option<Arc<Allowance>> {
        let mut clients = self
            .listener
            .conns
            .iter()
            .flatten()
            .filter_map(|conn| match &conn.who {
                Who::Client(client) => client.allowance().cloned(),
                _ => None,
            });
        clients.next_back()
    }
    /// Runs the listener until the time `after` has passed and nothing has been sent for [`QUIET`].
    /// `reads`: the load that the client reads meanwhile.
    fn until_quiet(&mut self, allowance: &Allowance, after: u64, mut reads: Option<&mut Load>) {
        let (begun, mut last, mut since) = (Instant::now(), 0, Instant::now());
        while last == 0 || since.elapsed() < QUIET || sys::monotonic() <= after {
            assert!(begun.elapsed() < PATIENCE, "it goes on: {last} bytes");
            self.listener.step();
            while reads
                .as_mut()
                .is_some_and(|load| load.read().is_some_and(|n| n > 0))
            {}
            let now = allowance.load().moved();
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
    }
}

/// Runs `what` for a client of a new listener. At the rate of 20 Mbit/s, an object of 8 MB takes 3
/// s, longer than a client may be silent.
fn served(what: impl FnOnce(&mut Client)) {
    let limits = Limits {
        rate: Some(Rate::mbit(20)),
        ..Limits::default()
    };
    let (shared, stop) = (fed::limited(limits), AtomicBool::new(false));
    let socket = socket::listen("127.0.0.1:0".parse().expect("an address")).expect("a listener");
    let at = socket::local(&socket).expect("its address");
    let listener = ListeningSocket {
        socket,
        metrics: false,
    };
    let mut listener = Listener::new(vec![listener], &shared, 1 << 20).expect("a listener");
    std::thread::scope(|scope| {
        scope.spawn(|| shared.exchange.run(&stop));
        let _ends = Ends(&stop);
        let control = TcpStream::connect(at).expect("a connection");
        control.set_nonblocking(true).expect("an option");
        let datagrams = shared.exchange.at();
        what(&mut Client {
            listener: &mut listener,
            at,
            datagrams,
            control,
            input: Vec::new(),
        });
    });
}

#[test]
fn every_file_that_asks_a_budget_for_sending_is_in_the_table() {
    let files = [
        ("bulk.rs", include_str!("../measure/bulk.rs")),
        ("budget.rs", include_str!("budget.rs")),
        ("listener.rs", include_str!("listener.rs")),
        ("iperf.rs", include_str!("iperf.rs")),
        ("metered.rs", include_str!("metered.rs")),
        ("flow.rs", include_str!("../measure/transport/flow.rs")),
        ("quic.rs", include_str!("../measure/transport/quic.rs")),
        ("page.rs", include_str!("page.rs")),
        ("session.rs", include_str!("session.rs")),
        ("shared.rs", include_str!("shared.rs")),
        ("udp.rs", include_str!("udp.rs")),
    ];
    for (name, text) in files {
        let text = text
            .split("#[cfg(test)]\nmod tests")
            .next()
            .unwrap_or_default();
        let asks = text.contains(".may_send(");
        assert_eq!(
            asks,
            SENDERS.iter().any(|(_, file)| *file == name),
            "{name}"
        );
    }
}

#[test]
fn every_sender_stops_without_a_sign_of_life() {
    let stops = |name: &str| {
        served(|client| {
            let mut load = client.load(name);
            let allowance = client.allowance().expect("a seat");
            // From now on the listener does not record that the client is alive, although the
            // client reads.
            client.listener.looked = u64::MAX / 2;
            client.until_quiet(&allowance, allowance.load().alive_until(), Some(&mut load));
            assert!(!allowance.spent(), "{name} has paused, not ended");
            // With the next sign of life the load continues.
            let before = allowance.load().moved();
            let begun = Instant::now();
            while allowance.load().moved() == before {
                assert!(begun.elapsed() < PATIENCE, "{name} does not go on");
                allowance.alive(sys::monotonic());
                client.listener.step();
                load.read();
            }
        });
    };
    // Each waits for some seconds.
    std::thread::scope(|scope| SENDERS.map(|(name, _)| drop(scope.spawn(move || stops(name)))));
}

#[test]
fn a_client_that_reads_nothing_keeps_no_seat() {
    for (name, _) in SENDERS {
        // Datagrams are not acknowledged. That test ends after the requested duration.
        if name == "iperf3 -u -R" {
            continue;
        }
        served(|client| {
            let load = client.load(name);
            let allowance = client.allowance().expect("a seat");
            client.until_quiet(&allowance, 0, None);
            let begun = sys::monotonic();
            let mut lasted = 0;
            while client.listener.shared.accounts.clients() > 0 {
                // The client's kernel still answers for it.
                sys::AHEAD.set(sys::AHEAD.get() + GONE / 5);
                client.listener.step();
                lasted = sys::monotonic() - begun;
                assert!(lasted < 2 * IDLE, "{name} keeps its seat");
            }
            // A session whose only load is objects ends when it has had no load and no request for
            // IDLE.
            let most = if name == "objects of pages" {
                IDLE
            } else {
                GONE
            };
            assert!(
                lasted < most + GONE,
                "{name} kept its seat for {} s",
                lasted / 1_000_000_000
            );
            drop(load);
        });
        sys::AHEAD.set(0);
    }
}

#[test]
fn a_request_that_stays_incomplete_ends_its_connection() {
    let frame = to_frame(&json!({ "do": "clock", "at": 5 }));
    let requests: [(&str, &[u8]); 3] = [
        ("a frame of a session", &frame[..frame.len() - 1]),
        ("the length of a frame", &frame[..2]),
        ("a request for an object", b"GET /0/1 HTTP/1.1\r\n"),
    ];
    for (name, part) in requests {
        served(|client| {
            client.session();
            let mut page = None;
            if part.starts_with(b"GET") {
                let mut load = client.connect();
                load.write_all(part).expect("room");
                page = Some(load);
            } else {
                // A complete request before it must not affect its time limit.
                assert_eq!(client.ask(&json!({ "do": "clock", "at": 4 }))["at"], 4);
                client.say(part);
            }
            let open = |client: &Client| client.listener.conns.iter().flatten().count();
            let begun = Instant::now();
            let waits = |client: &Client| {
                let mut conns = client.listener.conns.iter().flatten();
                conns.any(|conn| conn.partial.is_some())
            };
            while !waits(client) {
                assert!(begun.elapsed() < PATIENCE, "{name} does not come");
                client.listener.step();
            }
            let before = open(client);
            // Each step is a byte that its client might have sent.
            for _ in 0..5 {
                sys::AHEAD.set(sys::AHEAD.get() + REQUEST / 5);
                assert_eq!(open(client), before, "{name}");
                client.listener.looked = u64::MAX / 2;
                client.listener.step();
            }
            sys::AHEAD.set(sys::AHEAD.get() + REQUEST / 5);
            client.listener.step();
            client.listener.step();
            assert_eq!(open(client), before - 1, "{name}");
            drop(page);
        });
        sys::AHEAD.set(0);
    }
}

#[test]
fn an_epoll_that_fails_does_not_end_the_server() {
    served(|client| {
        client.session();
        client.listener.epoll = Epoll::broken();
        // The existing client is still served, and the next one is accepted.
        assert_eq!(client.ask(&json!({ "do": "clock", "at": 5 }))["at"], 5);
        client.listener.epoll = Epoll::broken();
        let next = client.connect();
        let _first = std::mem::replace(&mut client.control, next);
        client.session();
        assert_eq!(client.listener.shared.accounts.clients(), 2);
    });
}

#[test]
fn a_client_that_reads_no_answers_leaves_the_door_asleep() {
    served(|client| {
        client.session();
        let allowance = client.allowance().expect("a seat");
        let request = to_frame(&json!({ "do": "clock", "at": 1 }));
        let many = request.repeat(200);
        // Small buffers of the client fill soon, also where each call is slow.
        let control = client.control.try_clone().expect("a descriptor");
        socket::set_buffers(&control.into(), 1 << 16);
        let (begun, mut sent, mut quiet, mut before) = (Instant::now(), 0, 0, (0, 0, 0));
        // Until all buffers are full and nothing moves.
        while quiet < 5 {
            assert!(begun.elapsed() < PATIENCE, "it goes on");
            let before_these = sent;
            while let Ok(n) = client.control.write(&many[sent % request.len()..]) {
                sent += n;
            }
            client.listener.step();
            let conn = client
                .listener
                .conns
                .iter()
                .flatten()
                .next()
                .expect("its connection");
            let waiting = (
                conn.input.len(),
                conn.output.len(),
                allowance.load().moved(),
            );
            let moves = std::mem::replace(&mut before, waiting) != waiting || sent > before_these;
            quiet = if moves { 0 } else { quiet + 1 };
        }
        assert!(before.0 > 0 && before.1 > 0, "{before:?}");
        let events = client.listener.epoll.wait(0).expect("events");
        assert!(events.is_empty(), "{events:?}");
        // Once the client reads, it gets the answers to all requests.
        let (begun, mut answers, mut bytes) = (Instant::now(), 0, vec![0; 1 << 16]);
        while answers < sent / request.len() {
            assert!(begun.elapsed() < PATIENCE, "{answers} answers have come");
            match client.control.read(&mut bytes) {
                Ok(n) => client.input.extend(&bytes[..n]),
                Err(_) => client.listener.step(),
            }
            let mut read = 0;
            while let Ok(Some((answer, n))) = frame(&client.input[read..], ANSWER) {
                assert_eq!(answer["is"], "clock");
                (read, answers) = (read + n, answers + 1);
            }
            client.input.drain(..read);
        }
    });
}

#[test]
fn requests_behind_an_object_wait_without_waking_the_door() {
    served(|client| {
        let cookie = client.session();
        let mut load = client.connect();
        let request = |bytes: u32| format!("GET /{cookie}/{bytes} HTTP/1.1\r\n\r\n");
        // The first one takes some 400 ms; those behind it are more than may wait.
        let requests = request(1_000_000) + &request(1).repeat(200);
        load.write_all(requests.as_bytes()).expect("room");
        let begun = Instant::now();
        let full =
            |conn: &Conn| matches!(&conn.who, Who::Page(page) if conn.input.len() == page.most());
        while !client.listener.conns.iter().flatten().any(full) {
            assert!(begun.elapsed() < PATIENCE, "nothing comes");
            client.listener.step();
        }
        let events = client.listener.epoll.wait(0).expect("events");
        assert!(
            events.iter().all(|(events, _)| events & sys::READABLE == 0),
            "{events:?}"
        );
        // Each head has four lines, and no object has an end of a line.
        let (mut lines, mut bytes) = (0, vec![0; 1 << 16]);
        while lines < 4 * 201 {
            assert!(begun.elapsed() < PATIENCE, "{lines} lines have come");
            client.listener.step();
            if let Ok(n) = load.read(&mut bytes) {
                assert!(n > 0, "it hung up");
                lines += bytes[..n].iter().filter(|byte| **byte == b'\r').count();
            }
        }
    });
}
