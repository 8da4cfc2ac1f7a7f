//! Load between this host and an iperf3 server: TCP, in one or both directions, with any number of
//! streams.
//!
//! The protocol of iperf3 has no pings, and an additional connection to the server's port can break
//! its test. RTTs are therefore measured by handshakes with a closed port of the server, which
//! answers with a reset. While a download runs, only its received bytes are known; the server
//! reports its retransmits at the end. A server that is busy with another client refuses at once.

use super::Run;
use super::deadline::{Deadline, ReadError};
use super::interval::totals;
use super::link::{FAR_END, PATIENCE, connected, send_all};
use super::options::{Options, Test};
use super::plan::{self, Direction};
use super::seen::{FlowSeen, StoppedBy};
use crate::HostError;
use crate::digest::random;
use crate::measure::bulk::{Role, Stream, UNSENT};
use crate::protocols::iperf3::{self, Cookie, RESULTS, state, stream_id};
use crate::sys;
use crate::sys::socket::{self, Wanted};
use crate::terminal::field;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// TCP port 1 (tcpmux), which is closed on almost every host.
pub const CLOSED: u16 = 1;

/// The control connection to an iperf3 server.
pub struct Control {
    socket: OwnedFd,
    input: Vec<u8>,
    cookie: Cookie,
}

fn broken(text: impl Into<String>) -> HostError {
    HostError::Broken(text.into())
}

/// Fails if an iperf3 server does not support the test.
pub fn able(options: &Options) -> Result<(), HostError> {
    match options.test {
        Test::Rrul | Test::UdpFlood | Test::Voip | Test::Page | Test::PageSequential => {
            Err(HostError::Missing(format!(
                "{} requires `narrows serve` on the far host, but {} is an iperf3 server; it \
                 supports tcp_up, tcp_down, tcp_nup, tcp_ndown, bidir, rrul_be and ping",
                options.test.name(),
                options.host
            )))
        }
        _ => Ok(()),
    }
}

impl Control {
    /// A control connection over which the client has sent `cookie`, and the server has answered
    /// with the state byte `first`.
    pub fn new(socket: OwnedFd, cookie: Cookie, first: u8) -> Result<Control, HostError> {
        let control = Control {
            socket,
            input: vec![first],
            cookie,
        };
        if first == state::ACCESS_DENIED {
            return Err(HostError::Missing(
                "the iperf3 server is busy with another client: try again later".into(),
            ));
        }
        Ok(control)
    }
    /// Opens the control connection of a further test with the same server.
    pub fn again(to: SocketAddr) -> Result<Control, HostError> {
        let failed = HostError::failed("a connection to the iperf3 server");
        // The server accepts a client only after the previous test has ended.
        let until = sys::monotonic() + PATIENCE;
        loop {
            let socket = socket::connect(to, &Wanted::default()).map_err(&failed)?;
            connected(&socket, to, until, FAR_END)?;
            socket::no_delay(&socket);
            let cookie = iperf3::cookie(random().map_err(&failed)?);
            send_all(&socket, &cookie)?;
            let mut control = Control {
                socket,
                input: Vec::new(),
                cookie,
            };
            match control.byte() {
                Ok(state::ACCESS_DENIED) | Err(HostError::Broken(_))
                    if sys::monotonic() < until =>
                {
                    sys::sleep_until(sys::monotonic() + 100_000_000);
                }
                Ok(first) => {
                    control.input.insert(0, first);
                    return Ok(control);
                }
                Err(error) => return Err(error),
            }
        }
    }
    /// Waits until `n` bytes of input are available.
    fn need(&mut self, n: usize, deadline: &mut Deadline) -> Result<(), HostError> {
        while self.input.len() < n {
            let mut bytes = [0; 4096];
            match deadline.read(&self.socket, &mut bytes) {
                Ok(0) => return Err(broken("the iperf3 server has closed the connection")),
                Ok(n) => self.input.extend(&bytes[..n]),
                Err(ReadError::Stopped) => return Err(HostError::Stopped),
                Err(ReadError::TimedOut) => {
                    return Err(broken("the iperf3 server does not answer"));
                }
                Err(ReadError::Failed(error)) => {
                    return Err(broken(format!(
                        "the connection to the iperf3 server failed: \
                     {error}"
                    )));
                }
            }
        }
        Ok(())
    }
    fn byte(&mut self) -> Result<u8, HostError> {
        self.need(1, &mut Deadline::within(PATIENCE))?;
        Ok(self.input.remove(0))
    }
    fn expect(&mut self, wanted: u8) -> Result<(), HostError> {
        match self.byte()? {
            state if state == wanted => Ok(()),
            state::ACCESS_DENIED => Err(HostError::Missing(
                "the iperf3 server is busy with another client".into(),
            )),
            state::SERVER_ERROR => {
                self.need(8, &mut Deadline::within(PATIENCE))?;
                let code = u32::from_be_bytes([
                    self.input[0],
                    self.input[1],
                    self.input[2],
                    self.input[3],
                ]);
                Err(HostError::Missing(format!(
                    "the iperf3 server refused the test (its error {code})"
                )))
            }
            state => Err(broken(format!(
                "the iperf3 server sent state {state} instead of {wanted}"
            ))),
        }
    }
    fn say(&self, value: &Value) -> Result<(), HostError> {
        send_all(&self.socket, &crate::protocols::wire::to_frame(value))
    }
    fn json(&mut self) -> Result<Value, HostError> {
        let mut deadline = Deadline::within(PATIENCE);
        loop {
            let seen = crate::protocols::wire::frame(&self.input, RESULTS);
            if let Some((value, n)) =
                seen.map_err(|_| broken("the iperf3 server's results are invalid"))?
            {
                self.input.drain(..n);
                return Ok(value);
            }
            self.need(self.input.len() + 1, &mut deadline)?;
        }
    }
    /// Whether the server has ended the test.
    fn ended(&mut self) -> bool {
        let mut bytes = [0; 16];
        match socket::read(&self.socket, &mut bytes) {
            Ok(Some(0)) | Err(_) => true,
            Ok(Some(n)) => {
                self.input.extend(&bytes[..n]);
                self.input
                    .iter()
                    .any(|state| matches!(*state, state::SERVER_TERMINATE | state::SERVER_ERROR))
            }
            Ok(None) => false,
        }
    }
}

/// Runs one load phase. Returns its start and end (ns), its flows, and why it ended.
pub fn loaded(
    mut control: Control,
    run: &mut Run,
    to: SocketAddr,
    cc: Option<&str>,
) -> Result<(u64, u64, Vec<FlowSeen>, StoppedBy), HostError> {
    let options = run.options;
    let specs = plan::flows(options);
    let has = |direction| specs.iter().any(|spec| spec.direction == direction);
    let (up, down) = (has(Direction::Up), has(Direction::Down));
    control.expect(state::PARAM_EXCHANGE)?;
    let mut params = json!({
        "tcp": true, "omit": 0, "time": options.duration.as_s().ceil() as u64, "num": 0,
        "blockcount": 0,
        "parallel": options.streams, "len": 131_072, "pacing_timer": 1000, "client_version": "3.12",
    });
    if up && down {
        params["bidirectional"] = json!(true);
    } else if down {
        params["reverse"] = json!(true);
    }
    if options.dscp > 0 {
        params["TOS"] = json!(options.dscp << 2);
    }
    if let Some(rate) = options.pacing {
        // `fqrate` paces the socket of the server. Servers that do not support it limit the rate in
        // the application (`bandwidth`).
        params["fqrate"] = json!(rate.as_bit());
        params["bandwidth"] = json!(rate.as_bit());
    }
    if let Some(cc) = cc {
        params["congestion"] = json!(cc);
    }
    control.say(&params)?;
    control.expect(state::CREATE_STREAMS)?;
    let mut flows: Vec<(Arc<Stream>, FlowSeen)> = Vec::new();
    // Both the plan and iperf3 have upload flows first.
    for spec in &specs {
        let sends = spec.direction == Direction::Up;
        let wanted = Wanted {
            cc: cc.filter(|_| sends).map(String::from),
            dscp: spec.dscp,
            pacing: options
                .pacing
                .filter(|_| sends)
                .map(|rate| rate.as_bit() / 8),
        };
        let fd = socket::connect(to, &wanted).map_err(HostError::failed("the socket of a flow"))?;
        connected(&fd, to, sys::monotonic() + PATIENCE, FAR_END)?;
        send_all(&fd, &control.cookie)?;
        let id = run.name(spec.direction);
        let seen = FlowSeen {
            cc: sends.then(|| socket::cc_of(&fd)),
            sender: sends,
            ..FlowSeen::new(id, spec)
        };
        if sends {
            let _ = sys::set_notsent_lowat(&fd, UNSENT);
        }
        let role = if sends { Role::Sender } else { Role::Receiver };
        flows.push((Stream::new(fd, role, Arc::clone(&run.budget)), seen));
    }
    control.expect(state::TEST_START)?;
    control.expect(state::TEST_RUNNING)?;
    let from = sys::monotonic();
    let failed = HostError::failed("starting load");
    let mut places = Vec::new();
    run.enter("loaded", cc, from);
    for (stream, seen) in &mut flows {
        seen.note(stream, from);
        places.push(run.carriers.start(stream).map_err(&failed)?);
    }
    let mut why = run.watch(from, |now| {
        flows
            .iter_mut()
            .for_each(|(stream, seen)| seen.note(stream, now));
        (control.ended(), totals(flows.iter().map(|(_, seen)| seen)))
    })?;
    let until = sys::monotonic();
    for ((stream, seen), place) in flows.iter_mut().zip(&places) {
        seen.note(stream, until);
        seen.close(stream);
        if stream.role() == Role::Sender {
            run.carriers.stop(*place);
        }
    }
    if why != StoppedBy::Peer {
        // After an error, earlier observations are kept.
        match finish(&mut control, &mut flows, (until - from) as f64 / 1e9, run) {
            Ok(()) => {}
            Err(HostError::Stopped) => why = StoppedBy::User,
            Err(error) => {
                run.notes.push(format!(
                    "the iperf3 server did not report at the end: {error}"
                ));
                if why == StoppedBy::Duration {
                    why = StoppedBy::Lost;
                }
            }
        }
    }
    for place in &places {
        run.carriers.stop(*place);
    }
    Ok((
        from,
        until,
        flows.into_iter().map(|(_, seen)| seen).collect(),
        why,
    ))
}

/// Ends a test: exchanges the results and completes the observations of the flows.
fn finish(
    control: &mut Control,
    flows: &mut [(Arc<Stream>, FlowSeen)],
    seconds: f64,
    run: &mut Run,
) -> Result<(), HostError> {
    send_all(&control.socket, &[state::TEST_END])?;
    control.expect(state::EXCHANGE_RESULTS)?;
    let ours = flows.iter().enumerate().map(|(place, (stream, seen))| {
        let resent = seen
            .rows
            .last()
            .filter(|_| seen.sender)
            .map_or(json!(-1), |row| json!(row.retransmits));
        json!({
            "id": stream_id(place), "bytes": stream.moved(), "retransmits": resent, "jitter": 0,
            "errors": 0, "packets": 0,
            "omitted_errors": 0, "omitted_packets": 0, "start_time": 0, "end_time": seconds,
        })
    });
    let streams: Vec<Value> = ours.collect();
    let sends = flows.iter().any(|(_, seen)| seen.sender);
    control.say(&json!({
        "cpu_util_total": 0.0, "cpu_util_user": 0.0, "cpu_util_system": 0.0,
        "sender_has_retransmits": if sends { 1 } else { -1 }, "streams": streams,
    }))?;
    let theirs = control.json()?;
    for (place, (_, seen)) in flows.iter_mut().enumerate() {
        let list = theirs["streams"].as_array().into_iter().flatten();
        let id = stream_id(place) as f64;
        let Some(told) = list
            .into_iter()
            .find(|told| told["id"].as_f64() == Some(id))
        else {
            run.notes.push(format!(
                "the iperf3 server reported no results of {}",
                seen.id
            ));
            continue;
        };
        let count = |key: &str| {
            told.get(key)
                .and_then(iperf3::number)
                .filter(|n| *n >= 0.0)
                .map(|n| n as u64)
        };
        if seen.sender {
            seen.received = count("bytes");
        } else {
            seen.resent = count("retransmits");
            seen.cc = theirs["congestion_used"].as_str().map(field);
        }
    }
    control.expect(state::DISPLAY_RESULTS)?;
    send_all(&control.socket, &[state::IPERF_DONE])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn results_that_come_byte_by_byte_have_one_deadline() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let mut control = Control {
            socket: near.into(),
            input: Vec::new(),
            cookie: iperf3::cookie([0; iperf3::COOKIE]),
        };
        let whole = crate::protocols::wire::to_frame(&json!({ "streams": [] }));
        far.write_all(&whole[..whole.len() - 1]).unwrap();
        let mut deadline = Deadline::within(PATIENCE);
        control.need(whole.len() - 1, &mut deadline).unwrap();
        sys::AHEAD.set(PATIENCE);
        far.write_all(&whole[whole.len() - 1..]).unwrap();
        let late = control.need(whole.len(), &mut deadline);
        assert!(matches!(late, Err(HostError::Broken(_))));
        // The next message has a new deadline.
        assert_eq!(control.json().unwrap(), json!({ "streams": [] }));
        sys::AHEAD.set(0);
    }
}
