//! The server's side of an iperf3 test, for clients of any version 3.x, over TCP or UDP, with `-R`,
//! `--bidir` and `-P`.
//!
//! ```text
//! cookie -> 9, parameters -> 10, streams -> 1, 2 ... 4 from the client -> 13, its results, ours ->
//! 14, 16 from the client
//! ```
//!
//! The numbers are state bytes of iperf3's control connection. An arrow is followed by the state
//! that this server sends next. The server of iperf3 itself serves one client at a time and sends
//! 255 (access denied) to others. This server serves many; a cookie identifies the test of each
//! client. UDP streams carry no cookie. Their source address identifies them, so only one test of
//! an address opens UDP streams at a time. If a token is required, the client sends it by
//! `--extra-data`, unencrypted.
//!
//! Whatever the client does, a test ends at the server's limit of duration: its load stops and its
//! seat is free. Its client may still fetch the results for `FAREWELL`.

use super::budget::{Allowance, Refused};
use super::counters::Counters;
use super::metered::Connection;
use super::shared::{Carried, End, Key, Shared, Speaker};
use super::udp::{Awaited, Counts, UdpStream};
use crate::digest::same;
use crate::measure::bulk::Role;
use crate::protocols::iperf3::{
    Cookie, MOST_STREAMS, PARAMS, Params, RESULTS, error, state, stream_id,
};
use crate::sys;
use crate::sys::socket::{self, Wanted};
use serde_json::{Value, json};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Time limit of each step of a test, except the load, ns.
const STEP: u64 = 15_000_000_000;
/// Time limit between two UDP streams of a test, ns; meanwhile no other test of the same address
/// can open streams.
const STREAM: u64 = 3_000_000_000;
/// Time by which a client may exceed the duration that it requested, ns.
const GRACE: u64 = 30_000_000_000;
/// Time in which a client may fetch its results after the limit of duration, ns.
const FAREWELL: u64 = 2_000_000_000;
/// Smallest interval between two calls of a test, ns: while UDP streams are awaited, it is checked
/// at this interval whether they have arrived.
const LOOK: u64 = 2_000_000;
/// Largest payload of a datagram, and the default payload, which fits into the smallest MTU of IPv6
/// (1280), bytes.
const DATAGRAM: (u64, u64) = (65_507, 1_200);
/// Largest socket buffer that a client may request, bytes.
const MOST_WINDOW: u64 = 16 << 20;

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Step {
    Params,
    /// The test waits until another test of the same address has opened its UDP streams.
    Queue,
    Streams,
    Running,
    Results,
    Farewell,
}

/// Counters of a stream at the end of the omitted first part of the load (`-O`).
#[derive(Copy, Clone, Default)]
struct Omitted {
    bytes: u64,
    packets: u64,
    errors: u64,
    resent: u64,
}

/// An iperf3 test.
pub struct Test {
    from: IpAddr,
    cookie: Cookie,
    /// `None` until a required token has arrived.
    allowance: Option<Arc<Allowance>>,
    /// Time at which the limit of duration is reached, ns of the monotonic clock; `u64::MAX`
    /// without an allowance.
    until: u64,
    /// Whether the limit of duration is reached.
    expired: bool,
    step: Step,
    since: u64,
    params: Params,
    /// TCP streams in the order in which the client opens them; with `--bidir`, those towards this
    /// host come first.
    streams: Vec<Carried>,
    udp: Option<Arc<Awaited>>,
    omitted: Vec<Omitted>,
    measured: bool,
    ended: u64,
    cpu: u64,
}

/// Time at which a test that is admitted now reaches the limit of duration, ns of the monotonic
/// clock.
fn end_of(now: u64, shared: &Shared) -> u64 {
    now.saturating_add(shared.accounts.limits().duration.as_ns())
}

impl Test {
    /// A new test, whose client has sent its cookie.
    pub fn new(
        from: IpAddr,
        cookie: Cookie,
        now: u64,
        out: &mut Vec<u8>,
        shared: &Shared,
    ) -> Result<Test, End> {
        let allowance = match &shared.token {
            None => shared.admit(from, now).map(Some),
            Some(_) => shared.accounts.room(from, now).map(|()| None),
        };
        let allowance = allowance.map_err(|_| {
            out.push(state::ACCESS_DENIED);
            End::Full
        })?;
        out.push(state::PARAM_EXCHANGE);
        Counters::more(&shared.counters.iperf3_clients_total);
        Ok(Test {
            from,
            cookie,
            until: allowance.as_ref().map_or(u64::MAX, |_| end_of(now, shared)),
            expired: false,
            allowance,
            step: Step::Params,
            since: now,
            params: Params::default(),
            streams: Vec::new(),
            udp: None,
            omitted: Vec::new(),
            measured: false,
            ended: now,
            cpu: sys::process_cpu(),
        })
    }
    fn go(&mut self, step: Step, now: u64) {
        (self.step, self.since) = (step, now);
    }
    fn refuse(out: &mut Vec<u8>, code: i32, end: End) -> End {
        out.push(state::SERVER_ERROR);
        out.extend(code.to_be_bytes());
        out.extend(0_i32.to_be_bytes());
        end
    }
    fn take_params(
        &mut self,
        value: &Value,
        out: &mut Vec<u8>,
        now: u64,
        shared: &Shared,
    ) -> Result<(), End> {
        let params = Params::from_json(value).ok_or(End::Garbage)?;
        if let Some(token) = &shared.token {
            let mut denied = |end| {
                out.push(state::ACCESS_DENIED);
                Err(end)
            };
            let Some(given) = params.extra_data.as_deref() else {
                return denied(End::Token);
            };
            if shared.accounts.may_guess(self.from, now).is_err() {
                return denied(End::Token);
            }
            let right = same(token.as_bytes(), given.as_bytes());
            shared.accounts.guessed(self.from, right, now);
            if !right {
                return denied(End::Token);
            }
            match shared.admit(self.from, now) {
                Ok(allowance) => {
                    self.allowance = Some(allowance);
                    self.until = end_of(now, shared);
                }
                Err(Refused::Full | Refused::Address | Refused::Network) => {
                    return denied(End::Full);
                }
                Err(_) => return denied(End::Limit),
            }
        }
        let Some(allowance) = self.allowance.clone() else {
            return Err(End::Limit);
        };
        if params.parallel > MOST_STREAMS {
            return Err(Self::refuse(out, error::STREAMS, End::Limit));
        }
        if (params.time + params.omit) as f64 > shared.accounts.limits().duration.as_s() {
            return Err(Self::refuse(out, error::DURATION, End::Limit));
        }
        if params.udp && params.len > DATAGRAM.0 {
            return Err(Self::refuse(out, error::BLOCK_SIZE, End::Limit));
        }
        self.params = params;
        if self.params.udp {
            let len = if self.params.len == 0 {
                DATAGRAM.1
            } else {
                self.params.len.max(16)
            };
            let stream = |role| {
                UdpStream::new(
                    role,
                    len as usize,
                    self.params.bandwidth,
                    self.params.wide,
                    &allowance,
                )
            };
            let streams = (0..self.count())
                .map(|place| stream(self.role(place)))
                .collect();
            self.udp = Some(Arc::new(Awaited {
                ip: self.from,
                streams,
                come: 0.into(),
                from: Vec::new().into(),
                last: 0.into(),
                next: 0.into(),
            }));
            self.go(Step::Queue, now);
            self.queue(out, now, shared);
        } else {
            out.push(state::CREATE_STREAMS);
            self.go(Step::Streams, now);
        }
        Ok(())
    }
    /// Begins to wait for the UDP streams, unless another test of the same address is waiting for
    /// its own.
    fn queue(&mut self, out: &mut Vec<u8>, now: u64, shared: &Shared) {
        if self
            .udp
            .as_ref()
            .is_some_and(|udp| shared.exchange.await_streams(udp))
        {
            out.push(state::CREATE_STREAMS);
            self.go(Step::Streams, now);
        }
    }
    /// Number of streams in both directions.
    fn count(&self) -> usize {
        self.params.parallel as usize * if self.params.bidirectional { 2 } else { 1 }
    }
    /// The role of this host in the stream with the index `place`.
    fn role(&self, place: usize) -> Role {
        let reversed = if self.params.bidirectional {
            place >= self.params.parallel as usize
        } else {
            self.params.reverse
        };
        if reversed {
            Role::Sender
        } else {
            Role::Receiver
        }
    }
    fn begin(&mut self, out: &mut Vec<u8>, now: u64, shared: &Shared) {
        out.extend([state::TEST_START, state::TEST_RUNNING]);
        self.go(Step::Running, now);
        self.streams
            .iter_mut()
            .for_each(|stream| stream.start(shared));
        if let Some(udp) = &self.udp {
            shared.exchange.begin(udp);
        }
        self.measured = self.params.omit == 0;
    }
    /// Ends the load at the limit of duration: nothing more is sent or counted, and the seat is
    /// free.
    fn expire(&mut self, shared: &Shared) {
        self.expired = true;
        self.streams
            .iter_mut()
            .for_each(|stream| stream.stop(shared));
        if let Some(udp) = &self.udp {
            udp.streams.iter().for_each(|stream| stream.stop());
        }
        if let Some(allowance) = &self.allowance {
            shared.leave(allowance);
        }
    }
    fn end(&mut self, out: &mut Vec<u8>, now: u64, shared: &Shared) {
        for carried in &mut self.streams {
            carried.stop(shared);
            // A client waits for whole blocks: without the end of the stream it would wait for the
            // rest of a partial one.
            socket::end_sending(carried.stream.socket());
        }
        if let Some(udp) = &self.udp {
            udp.streams.iter().for_each(|stream| stream.stop());
        }
        self.ended = now;
        out.push(state::EXCHANGE_RESULTS);
    }
    fn seen(&self) -> Vec<(Role, Omitted, f64)> {
        let tcp = self.streams.iter().map(|carried| {
            let info = sys::tcp_info(carried.stream.socket()).unwrap_or_default();
            let role = carried.stream.role();
            let omitted = Omitted {
                bytes: carried.stream.moved(),
                resent: info.total_retrans.into(),
                ..Omitted::default()
            };
            (role, omitted, 0.0)
        });
        let udp = self.udp.iter().flat_map(|udp| &udp.streams).map(|stream| {
            let Counts {
                packets,
                errors,
                bytes,
                jitter,
                ..
            } = stream.counts();
            let omitted = Omitted {
                bytes,
                packets,
                errors,
                resent: 0,
            };
            (stream.role(), omitted, jitter)
        });
        tcp.chain(udp).collect()
    }
    fn results(&self) -> Value {
        let sends = self.params.reverse || self.params.bidirectional;
        let seconds = (self.ended.saturating_sub(self.since)) as f64 / 1e9;
        let seconds = (seconds - self.params.omit as f64).max(0.0);
        let streams = self
            .seen()
            .into_iter()
            .enumerate()
            .map(|(place, (role, seen, jitter))| {
                let before = self.omitted.get(place).copied().unwrap_or_default();
                let resent = match role {
                    Role::Sender if !self.params.udp => {
                        json!(seen.resent - before.resent.min(seen.resent))
                    }
                    _ => json!(-1),
                };
                // The client subtracts omitted errors and packets itself, but not omitted bytes and
                // retransmits.
                json!({
                    "id": stream_id(place), "bytes": seen.bytes.saturating_sub(before.bytes),
                    "retransmits": resent, "jitter": jitter,
                    "errors": seen.errors, "packets": seen.packets,
                    "omitted_errors": before.errors, "omitted_packets": before.packets,
                    "start_time": 0, "end_time": seconds,
                })
            });
        let streams: Vec<Value> = streams.collect();
        let cpu = sys::process_cpu().saturating_sub(self.cpu) as f64 / 1e7 / seconds.max(1e-3);
        let mut results = json!({
            "cpu_util_total": cpu, "cpu_util_user": 0.0, "cpu_util_system": cpu,
            "sender_has_retransmits": if sends && !self.params.udp { 1 } else { -1 },
            "streams": streams,
        });
        if let Some(carried) = self.streams.first() {
            results["congestion_used"] = socket::cc_of(carried.stream.socket()).into();
        }
        if self.params.get_server_output {
            let text = format!(
                "narrows {}: {} streams\n",
                env!("CARGO_PKG_VERSION"),
                self.count()
            );
            results["server_output_text"] = text.into();
        }
        results
    }
}

impl Speaker for Test {
    fn heard(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        now: u64,
        shared: &Shared,
    ) -> Result<usize, End> {
        let mut took = 0;
        while let Some(first) = input.get(took) {
            let json = |most| {
                crate::protocols::wire::frame(&input[took..], most).map_err(|_| End::Garbage)
            };
            match self.step {
                Step::Params => {
                    let Some((value, n)) = json(PARAMS)? else {
                        break;
                    };
                    took += n;
                    self.take_params(&value, out, now, shared)?;
                }
                Step::Results => {
                    let Some((_, n)) = json(RESULTS)? else { break };
                    took += n;
                    let text = self.results().to_string();
                    out.extend((text.len() as u32).to_be_bytes());
                    out.extend(text.as_bytes());
                    out.push(state::DISPLAY_RESULTS);
                    self.go(Step::Farewell, now);
                }
                _ => {
                    took += 1;
                    match (self.step, *first) {
                        (Step::Running, state::TEST_END) => {
                            self.end(out, now, shared);
                            self.step = Step::Results;
                        }
                        (Step::Farewell, state::IPERF_DONE) | (_, state::CLIENT_TERMINATE) => {
                            return Err(End::Done);
                        }
                        _ => return Err(End::Garbage),
                    }
                }
            }
        }
        Ok(took)
    }
    fn most(&self) -> usize {
        4 + match self.step {
            Step::Results => RESULTS,
            _ => PARAMS,
        }
    }
    fn joined(
        &mut self,
        _stream: u16,
        mut link: Connection,
        out: &mut Vec<u8>,
        now: u64,
        shared: &Shared,
    ) -> Result<(), End> {
        let count = self.count();
        let allowance = self.allowance.clone().filter(|_| {
            self.step == Step::Streams
                && !self.params.udp
                && link.from() == self.from
                && self.streams.len() < count
        });
        let Some(allowance) = allowance else {
            // The connection does not belong to the test. The answer of one byte is shorter than
            // the cookie that the connection has sent.
            let _ = link.send(&[state::ACCESS_DENIED], now);
            return Ok(());
        };
        let socket = link.fd();
        let (role, params) = (self.role(self.streams.len()), &self.params);
        if params.no_delay {
            socket::no_delay(socket);
        }
        if params.window > 0 {
            socket::set_buffers(socket, params.window.min(MOST_WINDOW) as u32);
        }
        if params.mss > 0 {
            socket::set_mss(socket, params.mss.min(u16::MAX.into()) as u16);
        }
        let paced = match (params.fqrate, params.bandwidth) {
            (0, 0) => None,
            (0, rate) => Some(rate / 8),
            (rate, 0) => Some(rate / 8),
            (a, b) => Some(a.min(b) / 8),
        };
        let wanted = Wanted {
            cc: None,
            dscp: 0,
            pacing: paced.filter(|_| role == Role::Sender),
        };
        let _ = wanted.apply(socket);
        socket::set_class(socket, params.tos.min(255) as u8);
        if let Some(cc) = params
            .congestion
            .as_deref()
            .filter(|_| role == Role::Sender)
        {
            if shared.may_choose(cc).is_err() || sys::choose_cc(socket, cc).is_err() {
                return Err(Self::refuse(out, error::CONGESTION, End::Limit));
            }
        }
        if role == Role::Sender {
            // iperf3 counts data as sent when the kernel accepts it, so the unsent data in the
            // kernel is limited to about 20 ms at the requested rate.
            let share = (self.params.bandwidth / 400)
                .clamp(16 << 10, crate::measure::bulk::UNSENT.into())
                as u32;
            let unsent = if self.params.bandwidth > 0 {
                share
            } else {
                crate::measure::bulk::UNSENT
            };
            let _ = sys::set_notsent_lowat(socket, unsent);
        }
        self.streams
            .push(Carried::new(link, role, &allowance, shared));
        if self.streams.len() == count {
            self.begin(out, now, shared);
        }
        Ok(())
    }
    fn tick(&mut self, out: &mut Vec<u8>, now: u64, shared: &Shared) -> Result<(), End> {
        let in_step = now.saturating_sub(self.since);
        if now > self.until && !self.expired {
            self.expire(shared);
        }
        if self.expired {
            let ending = matches!(self.step, Step::Running | Step::Results | Step::Farewell);
            if ending && now <= self.until.saturating_add(FAREWELL) {
                return Ok(());
            }
            out.push(state::SERVER_TERMINATE);
            return Err(End::Limit);
        }
        match self.step {
            Step::Queue => self.queue(out, now, shared),
            Step::Streams => {
                let all = |udp: &Arc<Awaited>| udp.come.load(Relaxed) == udp.streams.len();
                if self.udp.as_ref().is_some_and(all) {
                    self.begin(out, now, shared);
                } else if let Some(udp) = &self.udp {
                    if now.saturating_sub(self.since.max(udp.last.load(Relaxed))) > STREAM {
                        return Err(End::Timeout);
                    }
                }
            }
            Step::Running => {
                let omit = self.params.omit * 1_000_000_000;
                if !self.measured && in_step >= omit {
                    self.omitted = self.seen().into_iter().map(|(_, seen, _)| seen).collect();
                    self.measured = true;
                }
                let most = match self.params.time {
                    0 => shared.accounts.limits().duration.as_ns(),
                    time => time
                        .saturating_mul(1_000_000_000)
                        .saturating_add(omit + GRACE),
                };
                if in_step > most
                    || self
                        .allowance
                        .as_ref()
                        .is_some_and(|allowance| allowance.spent())
                {
                    out.push(state::SERVER_TERMINATE);
                    return Err(End::Limit);
                }
                return Ok(());
            }
            _ => {}
        }
        if in_step > STEP && self.step != Step::Results {
            return Err(End::Timeout);
        }
        if self.step == Step::Results && now.saturating_sub(self.ended) > STEP {
            return Err(End::Timeout);
        }
        Ok(())
    }
    fn due(&self) -> u64 {
        match self.step {
            Step::Queue => self.since,
            Step::Streams if self.udp.is_some() => self.since,
            Step::Running if !self.measured => self.since + self.params.omit * 1_000_000_000,
            Step::Running => self.since + GRACE,
            Step::Results => self.ended + STEP,
            _ => self.since + STEP,
        }
        .min(if self.expired {
            self.until.saturating_add(FAREWELL)
        } else {
            self.until
        })
        .max(sys::monotonic() + LOOK)
    }
    fn key(&self) -> Option<Key> {
        Some(Key::Iperf(self.cookie))
    }
    fn allowance(&self) -> Option<&Arc<Allowance>> {
        self.allowance.as_ref()
    }
    fn ended(&mut self, out: &mut Vec<u8>) {
        out.push(state::SERVER_TERMINATE);
    }
    fn look(&mut self, now: u64) {
        self.streams.iter_mut().for_each(|stream| stream.look(now));
    }
    fn gone(&mut self, shared: &Shared) {
        if let Some(allowance) = &self.allowance {
            shared.leave(allowance);
        }
        self.streams
            .iter_mut()
            .for_each(|stream| stream.stop(shared));
        if let Some(udp) = &self.udp {
            Counters::more(&shared.counters.streams_total);
            shared.exchange.forget(udp);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fed;
    use super::super::limits::Limits;
    use super::*;
    use narrows_core::units::Span;

    const SECOND: u64 = 1_000_000_000;

    /// A running test whose client requested `time` seconds, on a server that allows 3 s. It begins
    /// at 1 s of the clock.
    fn running(time: u64, shared: &Shared) -> Test {
        let (mut out, from) = (Vec::new(), "192.0.2.1".parse().expect("an address"));
        let mut test = Test::new(from, [b'a'; 37], SECOND, &mut out, shared).expect("a seat");
        let params = json!({ "tcp": true, "omit": 0, "time": time, "parallel": 1, "len": 1200,
            "reverse": true });
        let heard = test.heard(
            &crate::protocols::wire::to_frame(&params),
            &mut out,
            SECOND,
            shared,
        );
        assert!(heard.is_ok_and(|n| n > 0));
        assert_eq!(out, [state::PARAM_EXCHANGE, state::CREATE_STREAMS]);
        test.begin(&mut out, SECOND, shared);
        test
    }

    #[test]
    fn a_test_ends_with_the_limit_of_duration_whatever_its_client_does() {
        let shared = fed::limited(Limits {
            duration: Span::s(3),
            ..Limits::default()
        });
        for time in [0, 3] {
            let (mut test, mut out) = (running(time, &shared), Vec::new());
            assert_eq!(test.tick(&mut out, 4 * SECOND, &shared), Ok(()));
            assert_eq!(shared.accounts.clients(), 1);
            // From then on it sends nothing and has no seat, but a client that ends it now gets its
            // results.
            assert_eq!(test.tick(&mut out, 4 * SECOND + 1, &shared), Ok(()));
            assert!(
                shared.accounts.clients() == 0 && test.allowance().is_some_and(|of| of.spent())
            );
            assert_eq!(test.tick(&mut out, 4 * SECOND + FAREWELL, &shared), Ok(()));
            assert!(out.is_empty());
            let heard = test.heard(&[state::TEST_END], &mut out, 4 * SECOND + 2, &shared);
            assert_eq!(
                (heard, out.as_slice()),
                (Ok(1), [state::EXCHANGE_RESULTS].as_slice())
            );
            let late = test.tick(&mut out, 4 * SECOND + FAREWELL + 1, &shared);
            assert_eq!(
                (late, out.last()),
                (Err(End::Limit), Some(&state::SERVER_TERMINATE))
            );
            test.gone(&shared);
        }
    }

    #[test]
    fn a_test_that_never_begins_ends_with_the_limit_of_duration() {
        let shared = fed::limited(Limits {
            duration: Span::s(3),
            ..Limits::default()
        });
        let (mut out, from) = (Vec::new(), "192.0.2.1".parse().expect("an address"));
        let mut test = Test::new(from, [b'a'; 37], SECOND, &mut out, &shared).expect("a seat");
        assert_eq!(test.tick(&mut out, 4 * SECOND, &shared), Ok(()));
        assert_eq!(
            test.tick(&mut out, 4 * SECOND + 1, &shared),
            Err(End::Limit)
        );
        assert_eq!(shared.accounts.clients(), 0);
    }
}
