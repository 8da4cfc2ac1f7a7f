//! Identifies the server, and keeps the client's control connection to `narrows serve`. Every wait
//! has a time limit.

use super::deadline::{Deadline, ReadError};
use crate::HostError;
use crate::digest::{from_hex, hex, random};
use crate::error::{is_outage, reason};
use crate::protocols::handshake::{Role, Transcript, canonical};
use crate::protocols::iperf3::state;
use crate::protocols::wire::{self, ANSWER, Cookie, HELLO, Hello, VERSION};
use crate::sys;
use crate::sys::socket::{self, Wanted};
use crate::terminal::field;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// Time limit of a connection attempt and of an answer, ns.
pub const PATIENCE: u64 = 10_000_000_000;
/// Time limit of the first byte of the server's answer to the hello, ns.
const HELLO_PATIENCE: u64 = 5_000_000_000;
/// Number of request/response exchanges that compare the clocks. The one with the shortest RTT is
/// used.
const EXCHANGES: usize = 8;

/// The identified server.
pub enum Peer {
    /// `narrows serve`.
    Narrows(Link),
    /// An iperf3 server: the connection, the hello, which the server took for a cookie, and the
    /// first state byte that it sent.
    Iperf3(OwnedFd, [u8; HELLO], u8),
}

/// The control connection of a session.
pub struct Link {
    socket: OwnedFd,
    input: Vec<u8>,
    to: SocketAddr,
    /// Cookie of the session.
    pub cookie: Cookie,
    /// Version of narrows on the server.
    pub version: String,
    /// The server's `welcome` message, which ends the handshake.
    pub welcome: Value,
    /// The handshake and the token, if the server requires one.
    proved: Option<Box<(Transcript, String)>>,
}

/// Difference of the clocks: the server's minus that of this host.
#[derive(Copy, Clone, Debug)]
pub struct Offset {
    /// Difference, ns.
    pub ns: i128,
    /// Uncertainty of the difference: half of the shortest RTT, ns.
    pub error: u64,
}

fn broken(text: impl Into<String>) -> HostError {
    HostError::Broken(text.into())
}

/// The commands that start a server which this client supports, for messages.
pub const FAR_END: &str = "`narrows serve` or `iperf3 -s`";

/// Waits until a socket is connected to `to`. Errors recommend to start `whom` there.
pub fn connected(fd: &OwnedFd, to: SocketAddr, until: u64, whom: &str) -> Result<(), HostError> {
    Deadline::at(until)
        .connected(fd)
        .map_err(|error| match error {
            ReadError::Stopped => HostError::Stopped,
            ReadError::TimedOut => HostError::Silent(
                format!("{to} does not answer"),
                format!("start {whom} there, and permit its port in firewalls"),
            ),
            ReadError::Failed(error) if is_outage(&error) => HostError::Silent(
                format!("{to}: {}", reason(&error)),
                format!("start {whom} there"),
            ),
            ReadError::Failed(error) => {
                HostError::Missing(format!("{to}: {}; start {whom} there", reason(&error)))
            }
        })
}

/// Sends all bytes, and waits while the send buffer is full.
pub fn send_all(fd: &OwnedFd, mut bytes: &[u8]) -> Result<(), HostError> {
    let until = sys::monotonic() + PATIENCE;
    while !bytes.is_empty() {
        let failed = |e| {
            broken(format!(
                "the connection to the server failed: {}",
                reason(&e)
            ))
        };
        match sys::send_some(fd, bytes).map_err(failed)? {
            Some(n) => bytes = &bytes[n..],
            None if sys::stopped() => return Err(HostError::Stopped),
            None if sys::monotonic() > until => {
                return Err(broken("the server no longer accepts data"));
            }
            None => sys::sleep_until(sys::monotonic() + 1_000_000),
        }
    }
    Ok(())
}

/// The first byte that the peer sends; `None` if it closes the connection instead.
fn first_byte(socket: &OwnedFd, to: SocketAddr) -> Result<Option<u8>, HostError> {
    let mut first = [0_u8; 1];
    match Deadline::within(HELLO_PATIENCE).read(socket, &mut first) {
        Ok(0) | Err(ReadError::Failed(_)) => Ok(None),
        Ok(_) => Ok(Some(first[0])),
        Err(ReadError::Stopped) => Err(HostError::Stopped),
        Err(ReadError::TimedOut) => Err(HostError::Missing(format!(
            "{to} sends nothing; start {FAR_END} there"
        ))),
    }
}

/// The versions of the protocol and of narrows of an older server, which closed the connection
/// after the hello of this version. Connects once more, with the previous version of the hello. The
/// token is not used.
fn version_of(to: SocketAddr) -> Option<(u64, String)> {
    let socket = socket::connect(to, &Wanted::default()).ok()?;
    connected(&socket, to, sys::monotonic() + PATIENCE, FAR_END).ok()?;
    send_all(&socket, &wire::older_hello(VERSION - 1)).ok()?;
    let first = first_byte(&socket, to).ok()??;
    let mut link = Link {
        socket,
        input: vec![first],
        to,
        cookie: [0; 16],
        version: String::new(),
        welcome: Value::Null,
        proved: None,
    };
    let greeting = link.hear(HELLO_PATIENCE).ok()??;
    let narrows = greeting["narrows"]
        .as_str()?
        .chars()
        .filter(char::is_ascii_graphic);
    Some((greeting["protocol"].as_u64()?, narrows.take(20).collect()))
}

/// Connects and identifies the server. Errors recommend to start `whom` there.
pub fn meet(to: SocketAddr, token: Option<&str>, whom: &str) -> Result<Peer, HostError> {
    // A server that fails before the first request is no server of this protocol.
    identified(to, token, whom).map_err(|error| match error {
        HostError::Broken(text) => HostError::Missing(format!("{text}; start {whom} there")),
        other => other,
    })
}

fn identified(to: SocketAddr, token: Option<&str>, whom: &str) -> Result<Peer, HostError> {
    let wrong = |e: std::io::Error| HostError::Missing(format!("{to}: {e}"));
    let socket = socket::connect(to, &Wanted::default()).map_err(wrong)?;
    connected(&socket, to, sys::monotonic() + PATIENCE, whom)?;
    socket::no_delay(&socket);
    let client = random().map_err(HostError::failed("random numbers"))?;
    let hello = Hello::Control(client).to_bytes();
    send_all(&socket, &hello).map_err(|error| error.of(to))?;
    let Some(first) = first_byte(&socket, to)? else {
        return Err(match version_of(to) {
            Some((version, narrows)) => HostError::Missing(format!(
                "{to} is older: it runs narrows {narrows} with version {version} of the \
                 protocol, and this narrows uses version {VERSION}; update narrows there"
            )),
            None => HostError::Missing(format!(
                "{to} closed the connection: it supports neither narrows' protocol nor \
                 iperf3's, or has too many clients"
            )),
        });
    };
    // A frame of narrows begins with the most significant byte of its length, which is zero.
    if first != 0 {
        return match stranger(first) {
            None => Ok(Peer::Iperf3(socket, hello, first)),
            Some(what) => Err(HostError::Missing(format!("{to}: {what}"))),
        };
    }
    let mut link = Link {
        socket,
        input: vec![first],
        to,
        cookie: [0; 16],
        version: String::new(),
        welcome: Value::Null,
        proved: None,
    };
    let greeting = link.expect(&["greeting"])?;
    link.version = greeting["narrows"].as_str().map(field).unwrap_or_default();
    let server = greeting["nonce"].as_str().and_then(from_hex);
    let from = greeting["you"].as_str().and_then(|you| you.parse().ok());
    let (Some(server), Some(from)) = (server, from) else {
        let problem = "the server sent a greeting without a nonce or without our address";
        return Err(broken(problem).of(to));
    };
    let transcript = Transcript {
        client,
        server,
        from,
        to: canonical(to),
    };
    let token = match (greeting["token"].as_bool(), token) {
        (Some(true), None) => {
            return Err(HostError::Missing(format!(
                "{to} requires a token: write --token, or set $NARROWS_TOKEN"
            )));
        }
        (Some(true), Some(token)) => Some(token),
        (_, None) => None,
        (_, Some(_)) => {
            return Err(HostError::Missing(format!(
                "{to} requires no token, so it cannot prove its identity: leave out --token and \
                 $NARROWS_TOKEN, or start that server with the token"
            )));
        }
    };
    let proof = token.map(|token| hex(&transcript.proof(token, Role::Client)));
    link.say(&json!({ "proof": proof, "to": transcript.to.to_string() }))?;
    link.welcome = link.expect(&["welcome"])?;
    if let Some(token) = token {
        let proof = link.welcome["proof"].as_str().and_then(from_hex::<32>);
        if !proof.is_some_and(|proof| transcript.proves(token, Role::Server, &proof)) {
            return Err(HostError::Missing(format!(
                "{to} does not know the token: it is another server, or a host on the path \
                 changes the messages"
            )));
        }
        link.proved = Some(Box::new((transcript, token.to_string())));
    }
    let cookie = link.welcome["cookie"].as_str().and_then(from_hex);
    let problem = "the server sent a welcome without a cookie";
    link.cookie = cookie.ok_or_else(|| broken(problem).of(to))?;
    Ok(Peer::Narrows(link))
}

/// Describes the service that answers with this first byte; `None` if it may be iperf3. An iperf3
/// server begins with the state for the exchange of parameters, a refusal, or an error.
fn stranger(first: u8) -> Option<String> {
    match first {
        state::PARAM_EXCHANGE | state::ACCESS_DENIED | state::SERVER_ERROR => None,
        b'H' => Some(
            "a web server answers there, not `narrows serve` or `iperf3 -s`; write its URL: \
             http://HOST:PORT/PATH"
                .into(),
        ),
        _ => Some(format!(
            "the service there is not {FAR_END}: its first byte is {first}; select the port of \
             one of them with --port"
        )),
    }
}

impl Link {
    /// Sends a frame.
    pub fn say(&mut self, value: &Value) -> Result<(), HostError> {
        send_all(&self.socket, &wire::to_frame(value)).map_err(|error| error.of(self.to))
    }
    /// Whether the server of this session has the public key `key`, as `proof` states. Without a
    /// token, no proof is possible, and the control connection is trusted.
    pub fn vouched(&self, key: &[u8], proof: Option<&str>) -> bool {
        let Some((transcript, token)) = self.proved.as_deref() else {
            return true;
        };
        let proof = proof.and_then(from_hex::<32>);
        proof.is_some_and(|proof| transcript.vouches(token, key, &proof))
    }
    /// The socket, for polling.
    pub fn socket(&self) -> &OwnedFd {
        &self.socket
    }
    /// Receives the next frame; waits up to `wait` ns for the whole frame, then returns `None`. A
    /// server that sends continuously cannot delay a request to stop.
    pub fn hear(&mut self, wait: u64) -> Result<Option<Value>, HostError> {
        self.next(wait).map_err(|error| error.of(self.to))
    }
    fn next(&mut self, wait: u64) -> Result<Option<Value>, HostError> {
        let mut deadline = Deadline::within(wait);
        loop {
            if sys::stopped() {
                return Err(HostError::Stopped);
            }
            let seen = wire::frame(&self.input, ANSWER);
            let seen = seen.map_err(|_| broken("the server sent an invalid message"))?;
            if let Some((value, n)) = seen {
                self.input.drain(..n);
                return Ok(Some(value));
            }
            let mut bytes = [0; 16 << 10];
            match deadline.read(&self.socket, &mut bytes) {
                Ok(0) => return Err(broken("the server has closed the connection")),
                Ok(n) => self.input.extend(&bytes[..n]),
                Err(ReadError::TimedOut) => return Ok(None),
                Err(ReadError::Stopped) => return Err(HostError::Stopped),
                Err(ReadError::Failed(e)) => {
                    return Err(broken(format!(
                        "the connection to the server failed: {}",
                        reason(&e)
                    )));
                }
            }
        }
    }
    /// Receives the next frame of one of `kinds`, and ignores others. A refusal becomes an error
    /// with its reason.
    pub fn expect(&mut self, kinds: &[&str]) -> Result<Value, HostError> {
        self.expect_until(kinds, sys::monotonic() + PATIENCE)
    }
    /// As `expect`, with a deadline (ns of the monotonic clock), which several calls may share.
    pub fn expect_until(&mut self, kinds: &[&str], until: u64) -> Result<Value, HostError> {
        loop {
            let left = until.saturating_sub(sys::monotonic());
            let heard = if left == 0 { None } else { self.hear(left)? };
            let Some(value) = heard else {
                let problem = format!("the server does not answer ({})", kinds.join(", "));
                return Err(broken(problem).of(self.to));
            };
            match value["is"].as_str() {
                Some(is) if kinds.contains(&is) => return Ok(value),
                Some("refused" | "over") => {
                    let why = value["why"]
                        .as_str()
                        .map_or("without a reason".into(), field);
                    return Err(HostError::Missing(format!("{}: {why}", self.to)));
                }
                _ => {}
            }
        }
    }
    /// Estimates the difference of the clocks.
    pub fn offset(&mut self) -> Result<Offset, HostError> {
        let mut best: Option<Offset> = None;
        for _ in 0..EXCHANGES {
            let at = sys::monotonic();
            self.say(&json!({ "do": "clock", "at": at }))?;
            let answer = self.expect(&["clock"])?;
            let back = sys::monotonic();
            let here = answer["here"]
                .as_u64()
                .ok_or_else(|| broken("the server sent a clock without a time").of(self.to))?;
            let error = (back - at) / 2;
            if best.is_none_or(|best| error < best.error) {
                let ns = i128::from(here) - i128::from(at + error);
                best = Some(Offset { ns, error });
            }
        }
        best.ok_or_else(|| broken("the server sent no clock").of(self.to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn frames_without_end_do_not_postpone_a_deadline() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let mut link = Link {
            socket: near.into(),
            input: Vec::new(),
            to: "127.0.0.1:1".parse().unwrap(),
            cookie: [0; 16],
            version: String::new(),
            welcome: Value::Null,
            proved: None,
        };
        for _ in 0..3 {
            far.write_all(&wire::to_frame(&json!({ "is": "samples", "stream": 9 })))
                .unwrap();
        }
        let until = sys::monotonic() + PATIENCE;
        assert!(link.expect_until(&["samples"], until).is_ok());
        sys::AHEAD.set(PATIENCE);
        // The next frame has already arrived, but the deadline has passed.
        let late = link.expect_until(&["samples"], until);
        sys::AHEAD.set(0);
        assert!(matches!(late, Err(HostError::Broken(_))));
        assert!(link.expect_until(&["samples"], until).is_ok());
    }

    #[test]
    fn an_error_of_a_link_names_the_server() {
        for (sent, problem) in [
            (&[0xff; 8][..], "the server sent an invalid message"),
            (&[0, 0, 0, 1, b'x'], "the server sent an invalid message"),
            (&[], "the server has closed the connection"),
        ] {
            let (near, mut far) = UnixStream::pair().unwrap();
            let mut link = Link {
                socket: near.into(),
                input: Vec::new(),
                to: "127.0.0.1:1".parse().unwrap(),
                cookie: [0; 16],
                version: String::new(),
                welcome: Value::Null,
                proved: None,
            };
            far.write_all(sent).unwrap();
            drop(far);
            let error = link.expect(&["samples"]).unwrap_err();
            assert_eq!(error.to_string(), format!("127.0.0.1:1: {problem}"));
        }
    }

    #[test]
    fn a_stranger_is_known_by_its_first_byte() {
        for iperf3 in [
            state::PARAM_EXCHANGE,
            state::ACCESS_DENIED,
            state::SERVER_ERROR,
        ] {
            assert_eq!(stranger(iperf3), None);
        }
        assert!(
            stranger(b'H')
                .unwrap()
                .starts_with("a web server answers there")
        );
        assert!(stranger(b'S').unwrap().contains("its first byte is 83"));
    }
}
