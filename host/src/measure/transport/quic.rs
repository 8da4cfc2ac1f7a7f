//! One end of a flow over QUIC (RFC 9000): the state machine `quinn-proto`, its socket, and its
//! application. The application sends as much as its budget permits.
//!
//! The client of the measurement opens the connection, and the sender opens one unidirectional
//! stream. The settings are the defaults of quinn, except for the windows of flow control, the
//! number of streams, and the idle timeout. Up to `SEGMENTS` datagrams leave as one super-packet,
//! as in the crate `quinn`.
//!
//! **Memory.** A receiver reads the data of its stream in any order, so that nothing is stored; the
//! data is discarded. Only the ranges of bytes that have arrived are kept. A peer with more than
//! `MOST_RANGES` of them loses its connection. A sender writes the same static bytes repeatedly.
//! An end has one connection. It sends no datagram in reply to one that belongs to no
//! connection.
//!
//! **Acknowledged bytes.** `quinn-proto` does not report them. Its send buffer releases each piece
//! that the application has written when all bytes up to its end are acknowledged. The count is
//! therefore cumulative, as that of TCP, with the resolution of one piece.

mod identity;

pub use identity::{KEY, PublicKey, public_key};

use super::breaker::{Breaker, Counts, SILENT, Tripped};
use super::flow::is_unsupported;
use super::terms::receive_buffer;
use crate::measure::bulk::{Budget, May, Promised, Role};
use crate::measure::datagram_flow::{DatagramFlow, Ended, Next};
use crate::protocols::tcp_info::Row;
use crate::sys;
use crate::sys::datagram::{self, BATCH};
use crate::sys::socket;
use crate::terminal::field;
use bytes::{Bytes, BytesMut};
use narrows_core::units::{Span, Time};
use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint, Endpoint,
    EndpointConfig, Event, ServerConfig, StreamEvent, StreamId, TransportConfig, VarInt,
};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Whether this program has the transport.
pub const PRESENT: bool = true;
/// The congestion controls of quinn; the first is the default.
pub const CCS: [&str; 3] = ["cubic", "newreno", "bbr"];
/// The name of the server in the handshake. It has no meaning, because the key is pinned.
const NAME: &str = "narrows";
/// Largest number of datagrams in one super-packet.
const SEGMENTS: usize = 10;
/// Largest number of super-packets that leave in one turn before datagrams are read again.
const BURST: usize = 32;
/// Largest number of receive rounds in one turn.
const READS: usize = 4;
/// Largest number of writes of the application in one turn.
const WRITES: usize = 64;
/// Smallest and largest size of a piece that the application writes, bytes.
const PIECE: (u64, u64) = (4 << 10, 64 << 10);
/// Unacknowledged data up to which the application writes: this many congestion windows, and this
/// many bytes more. Data in flight, retransmissions and unsent data fit into it.
const AHEAD: (u64, u64) = (4, 128 << 10);
/// Smallest and largest receive window, bytes.
const WINDOW: (u64, u64) = (256 << 10, 16 << 20);
/// Memory of the state of a connection without its packets, bytes, and the number of bytes of the
/// window per further byte. The record of a packet of 1200 bytes has about 200 bytes.
const MEMORY: (u64, u64) = (256 << 10, 4);
/// Largest number of ranges of bytes that have arrived. A window of 16 MiB has 14,000 packets, and
/// at most every second one can be missing.
const MOST_RANGES: usize = 8192;
/// Pause after the buffer of the socket was full, ns.
const FULL: u64 = 200_000;
/// Pause before the budget is checked again, ns.
const BRIEFLY: u64 = 1_000_000;
/// Longest time until the next turn, ns.
const LONGEST: u64 = 1_000_000_000;
/// Length of the longest datagram that is read, bytes.
const LONGEST_DATAGRAM: usize = 1500;

static ZEROS: [u8; PIECE.1 as usize] = [0; PIECE.1 as usize];

/// The congestion control of that name, or the default one; the error is the reason for a refusal.
pub fn cc(name: Option<&str>) -> Result<&'static str, String> {
    let name = name.unwrap_or(CCS[0]);
    CCS.into_iter().find(|one| *one == name).ok_or_else(|| {
        format!(
            "{name}: unknown; with --transport quic, write --cc with one of {}",
            CCS.join(", ")
        )
    })
}

fn failed(error: impl std::fmt::Display) -> std::io::Error {
    std::io::Error::other(error.to_string())
}

/// The settings of an end in this role, with a receive window of `window` bytes.
fn settings(role: Role, cc: &str, window: u64) -> std::io::Result<Arc<TransportConfig>> {
    let control: Arc<dyn ControllerFactory + Send + Sync> = match cc {
        "newreno" => Arc::new(NewRenoConfig::default()),
        "bbr" => Arc::new(BbrConfig::default()),
        _ => Arc::new(CubicConfig::default()),
    };
    let size = VarInt::from_u64(window).map_err(failed)?;
    let mut config = TransportConfig::default();
    config
        .congestion_controller_factory(control)
        .max_concurrent_bidi_streams(0_u8.into())
        .max_concurrent_uni_streams(u8::from(role == Role::Receiver).into())
        .stream_receive_window(size)
        .receive_window(size)
        .send_window(WINDOW.1 + PIECE.1)
        .datagram_receive_buffer_size(None)
        .max_idle_timeout(Some(
            Duration::from_nanos(SILENT.as_ns())
                .try_into()
                .map_err(failed)?,
        ));
    Ok(Arc::new(config))
}

/// The ranges of stream bytes that have arrived, and their sum.
#[derive(Debug, Default)]
struct Arrived {
    /// End of each range, by its start.
    ranges: BTreeMap<u64, u64>,
    bytes: u64,
}

impl Arrived {
    /// Adds a range that has not arrived before.
    fn add(&mut self, mut start: u64, len: u64) {
        self.bytes += len;
        let mut end = start + len;
        if let Some((&from, &to)) = self.ranges.range(..=start).next_back() {
            if to >= start {
                start = from;
                end = end.max(to);
            }
        }
        while let Some((&from, &to)) = self.ranges.range(start..=end).next() {
            self.ranges.remove(&from);
            end = end.max(to);
        }
        self.ranges.insert(start, end);
    }
}

/// Stream bytes of this length, which the send buffer holds until they are acknowledged.
struct Piece(usize, #[allow(dead_code)] Arc<()>);

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &ZEROS[..self.0]
    }
}

/// Whether the send buffer no longer holds a piece.
fn released((_, held): &(u64, Arc<()>)) -> bool {
    Arc::strong_count(held) == 1
}

/// A super-packet that waits for the socket.
struct Waiting {
    len: usize,
    segment: Option<usize>,
    class: u8,
}

/// One end of a flow.
pub struct Flow {
    role: Role,
    cc: &'static str,
    dscp: u8,
    peer: SocketAddr,
    /// One instant on both clocks: that of quinn, and ns of the monotonic clock.
    base: (Instant, u64),
    endpoint: Endpoint,
    /// The settings of a client, until it connects.
    client: Option<ClientConfig>,
    connection: Option<(ConnectionHandle, Connection)>,
    window: u64,
    stream: Option<StreamId>,
    /// The super-packet that waits, with its bytes.
    out: Vec<u8>,
    waiting: Option<Waiting>,
    scratch: Vec<u8>,
    gso: bool,
    promised: Promised,
    /// Bytes of the budget that are reserved for the next writes.
    reserved: u64,
    /// Stream bytes that the application has written, and those that are acknowledged.
    written: u64,
    acked: u64,
    /// Bytes that are charged to the budget.
    charged: u64,
    /// The pieces that are not acknowledged, with the position of their end.
    pieces: VecDeque<(u64, Arc<()>)>,
    arrived: Arrived,
    breaker: Breaker,
    ended: Option<Ended>,
    begun: bool,
    heard: u64,
    /// Number of frames received from the authenticated peer.
    frames: u64,
    /// Whether the last datagram was sent with ECT(0): the path and the peer support ECN.
    ecn: bool,
}

impl std::fmt::Debug for Flow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("quic::Flow").field("cc", &self.cc).finish()
    }
}

/// The end of a server, which exchanges datagrams with `peer` only.
pub fn accept(
    role: Role,
    cc: &'static str,
    peer: SocketAddr,
    dscp: u8,
    budget: &Arc<Budget>,
) -> std::io::Result<Box<dyn DatagramFlow>> {
    let window = receive_buffer().clamp(WINDOW.0, WINDOW.1);
    let mut config = ServerConfig::with_crypto(identity::server()?);
    config
        .transport_config(settings(role, cc, window)?)
        .migration(false);
    let settings = (role, cc, window);
    Ok(Box::new(Flow::new(
        settings,
        (None, Some(config)),
        peer,
        dscp,
        budget,
    )))
}

/// The end of a client, which accepts only a server with the public key `key`.
pub fn connect(
    role: Role,
    cc: &'static str,
    (key, peer): (PublicKey, SocketAddr),
    dscp: u8,
    budget: &Arc<Budget>,
) -> std::io::Result<Box<dyn DatagramFlow>> {
    let window = receive_buffer().clamp(WINDOW.0, WINDOW.1);
    let mut config = ClientConfig::new(Arc::new(identity::pinned(key)?));
    config.transport_config(settings(role, cc, window)?);
    let settings = (role, cc, window);
    Ok(Box::new(Flow::new(
        settings,
        (Some(config), None),
        peer,
        dscp,
        budget,
    )))
}

impl Flow {
    fn new(
        (role, cc, window): (Role, &'static str, u64),
        (client, server): (Option<ClientConfig>, Option<ServerConfig>),
        peer: SocketAddr,
        dscp: u8,
        budget: &Arc<Budget>,
    ) -> Flow {
        let config = Arc::new(EndpointConfig::default());
        let now = sys::monotonic();
        Flow {
            role,
            cc,
            dscp,
            peer,
            base: (Instant::now(), now),
            endpoint: Endpoint::new(config, server.map(Arc::new), true, None),
            client,
            connection: None,
            window,
            stream: None,
            out: Vec::new(),
            waiting: None,
            scratch: Vec::new(),
            gso: true,
            promised: Promised::new(budget),
            reserved: 0,
            written: 0,
            acked: 0,
            charged: 0,
            pieces: VecDeque::new(),
            arrived: Arrived::default(),
            breaker: Breaker::new(Time::ZERO),
            ended: None,
            begun: false,
            heard: now,
            frames: 0,
            ecn: false,
        }
    }
    fn instant(&self, now: u64) -> Instant {
        self.base.0 + Duration::from_nanos(now.saturating_sub(self.base.1))
    }
    fn time(&self, now: u64) -> Time {
        Time::from_ns(now.saturating_sub(self.base.1))
    }
    fn close(&mut self, why: String) {
        self.ended.get_or_insert(Ended::Closed(why));
    }
    /// Handles a datagram of the peer.
    fn arrive(&mut self, bytes: &[u8], class: u8, now: u64) {
        let (ecn, now) = (EcnCodepoint::from_bits(class), self.instant(now));
        self.scratch.clear();
        let data = BytesMut::from(bytes);
        let event = self
            .endpoint
            .handle(now, self.peer, None, ecn, data, &mut self.scratch);
        match (event, &mut self.connection) {
            (Some(DatagramEvent::ConnectionEvent(_, event)), Some((_, connection))) => {
                connection.handle_event(event);
            }
            (Some(DatagramEvent::NewConnection(incoming)), None) => {
                let accepted = self.endpoint.accept(incoming, now, &mut self.scratch, None);
                if let Ok(connection) = accepted {
                    self.connection = Some(connection);
                    // There is no second one.
                    self.endpoint.set_server_config(None);
                }
            }
            (Some(DatagramEvent::NewConnection(incoming)), Some(_)) => {
                self.endpoint.ignore(incoming);
            }
            _ => {}
        }
    }
    /// Connects a client, handles timers that are due, and moves data. Returns the time at which
    /// the application may write again, if its budget is the limit.
    fn advance(&mut self, now: u64, budget: &Budget) -> Option<u64> {
        let at = self.instant(now);
        if !self.begun {
            self.begun = true;
            (self.heard, self.breaker) = (now, Breaker::new(self.time(now)));
            if let Some(config) = self.client.take() {
                match self.endpoint.connect(at, config, self.peer, NAME) {
                    Ok(connection) => self.connection = Some(connection),
                    Err(error) => self.close(format!("no QUIC connection: {error}")),
                }
            }
        }
        if let Some((_, connection)) = &mut self.connection {
            if connection.poll_timeout().is_some_and(|due| due <= at) {
                connection.handle_timeout(at);
            }
        }
        self.handle_events();
        self.read();
        let wait = self.write(now, budget);
        self.listen(now);
        if self.breaker.due() <= self.time(now) {
            self.check(now);
        }
        wait
    }
    fn handle_events(&mut self) {
        let Some((handle, connection)) = &mut self.connection else {
            return;
        };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        let mut lost = None;
        while let Some(event) = connection.poll() {
            match event {
                Event::Connected if self.role == Role::Sender => {
                    self.stream = connection.streams().open(Dir::Uni);
                }
                Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) if self.stream.is_none() => {
                    self.stream = connection.streams().accept(Dir::Uni);
                }
                Event::ConnectionLost { reason } => lost = Some(reason),
                _ => {}
            }
        }
        if let Some(reason) = lost {
            let reason = field(&reason.to_string());
            self.close(format!("the QUIC connection ended: {reason}"));
        }
    }
    /// Discards the data that has arrived.
    fn read(&mut self) {
        let (Role::Receiver, Some(id)) = (self.role, self.stream) else {
            return;
        };
        let Some((_, connection)) = &mut self.connection else {
            return;
        };
        let mut stream = connection.recv_stream(id);
        if let Ok(mut chunks) = stream.read(false) {
            while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                self.arrived.add(chunk.offset, chunk.bytes.len() as u64);
            }
            // The window that it enlarges is sent with the next datagrams.
            let _ = chunks.finalize();
        }
        if self.arrived.ranges.len() > MOST_RANGES {
            self.close("the other end sends its data in too many parts".into());
        }
    }
    /// The application writes while its budget permits and little is unacknowledged.
    fn write(&mut self, now: u64, budget: &Budget) -> Option<u64> {
        while self.pieces.front().is_some_and(released) {
            self.acked = self.pieces.pop_front().map_or(self.acked, |(end, _)| end);
        }
        if self.role == Role::Receiver {
            return None;
        }
        for _ in 0..WRITES {
            self.charge(now);
            let (Some((_, connection)), Some(id)) = (&mut self.connection, self.stream) else {
                return None;
            };
            match budget.may_send(now) {
                May::Move => {}
                May::Wait(until) => return Some(until),
                May::Stop => return None,
            }
            let cwnd = connection.stats().path.cwnd;
            let most = cwnd.saturating_mul(AHEAD.0).saturating_add(AHEAD.1);
            let piece = (cwnd / 16).clamp(PIECE.0, PIECE.1);
            let piece = piece.min(budget.chunk() as u64);
            if self.written - self.acked + piece > most.min(WINDOW.1) {
                return None;
            }
            if self.reserved == 0 {
                self.reserved = self.promised.more(piece);
            }
            if self.reserved == 0 {
                return Some(now + BRIEFLY);
            }
            let held = Arc::new(());
            let piece = Piece(piece.min(self.reserved) as usize, Arc::clone(&held));
            let chunks = &mut [Bytes::from_owner(piece)];
            let written = connection.send_stream(id).write_chunks(chunks);
            // Blocked by the window of the receiver: its next datagram permits more.
            let bytes = written.map_or(0, |written| written.bytes) as u64;
            if bytes == 0 {
                return None;
            }
            self.written += bytes;
            self.reserved -= bytes;
            self.pieces.push_back((self.written, held));
        }
        self.charge(now);
        Some(now + 1)
    }
    /// Charges the bytes that were written, and those that headers and retransmissions add.
    fn charge(&mut self, now: u64) {
        let sent = self.connection.as_ref();
        let sent = sent.map_or(0, |(_, connection)| connection.stats().udp_tx.bytes);
        let total = self.written.max(sent).max(self.charged);
        self.promised.sent(now, total - self.charged);
        self.charged = total;
    }
    /// Records when the authenticated peer was last heard.
    fn listen(&mut self, now: u64) {
        let Some((_, connection)) = &self.connection else {
            return;
        };
        let seen = connection.stats().frame_rx;
        let frames = seen.acks + seen.stream + seen.crypto + seen.ping + seen.max_data;
        if frames != self.frames {
            (self.frames, self.heard) = (frames, now);
        }
    }
    /// Lets the circuit breaker check a sender.
    fn check(&mut self, now: u64) {
        if self.role == Role::Receiver {
            return;
        }
        let connection = self.connection.as_ref();
        let path = connection.map_or_else(Default::default, |(_, one)| one.stats().path);
        let counts = Counts {
            sent: path.sent_packets,
            resent: path.lost_packets,
            payload: 1,
        };
        let heard = self.time(self.heard);
        let srtt = Span::ns(u64::try_from(path.rtt.as_nanos()).unwrap_or(u64::MAX));
        let tripped = self.breaker.check(self.time(now), srtt, heard, counts);
        if let (Some(why), None) = (tripped, &self.ended) {
            self.ended = Some(Ended::Breaker(Tripped::text(why)));
        }
    }
    /// Time of the next timer, ns of the monotonic clock.
    fn due(&mut self) -> u64 {
        let connection = self.connection.as_mut();
        let due = connection.and_then(|(_, connection)| connection.poll_timeout());
        let since = |at: Instant| at.saturating_duration_since(self.base.0).as_nanos();
        let due = due.map_or(u64::MAX, |at| {
            let ns = u64::try_from(since(at)).unwrap_or(u64::MAX);
            self.base.1.saturating_add(ns)
        });
        let breaker = self.base.1.saturating_add(self.breaker.due().as_ns());
        if self.role == Role::Sender {
            due.min(breaker)
        } else {
            due
        }
    }
    /// Sends what the connection permits. Returns when the next turn must be at the latest.
    fn flush(&mut self, fd: &OwnedFd, budget: &Budget) -> u64 {
        let now = sys::monotonic();
        // Nothing is sent to a client without a sign of life.
        let silent = now > budget.alive_until();
        for _ in 0..BURST {
            if self.waiting.is_none() {
                let at = self.instant(now);
                let Some((_, connection)) = &mut self.connection else {
                    return u64::MAX;
                };
                self.out.clear();
                let most = if self.gso { SEGMENTS } else { 1 };
                let Some(sent) = connection.poll_transmit(at, most, &mut self.out) else {
                    return u64::MAX;
                };
                self.ecn = sent.ecn.is_some();
                self.waiting = Some(Waiting {
                    len: sent.size,
                    segment: sent.segment_size.filter(|size| *size < sent.size),
                    class: self.dscp << 2 | sent.ecn.map_or(0, |ecn| ecn as u8),
                });
            }
            if !silent && !self.send(fd) {
                return now + FULL;
            }
            self.waiting = None;
        }
        now + 1
    }
    /// Sends the super-packet that waits; `false` if the buffer of the socket is full.
    fn send(&mut self, fd: &OwnedFd) -> bool {
        let Some(waiting) = &self.waiting else {
            return true;
        };
        let (bytes, v6) = (&self.out[..waiting.len], self.peer.is_ipv6());
        match datagram::send_bytes(fd, bytes, waiting.segment, waiting.class, v6) {
            Ok(sent) => return sent,
            Err(error) if waiting.segment.is_some() && is_unsupported(&error) => self.gso = false,
            // The datagrams count as lost.
            Err(_) => return true,
        }
        let size = waiting.segment.unwrap_or(waiting.len);
        for part in bytes.chunks(size) {
            let _ = datagram::send_bytes(fd, part, None, waiting.class, v6);
        }
        true
    }
}

impl DatagramFlow for Flow {
    fn turn(&mut self, fd: &OwnedFd, budget: &Budget) -> Next {
        if !self.begun {
            socket::probe_mtu(fd);
        }
        let mut buffer = [0; LONGEST_DATAGRAM];
        for _ in 0..READS {
            let now = sys::monotonic();
            if budget.spent() || self.ended.is_some() {
                return Next::Stop;
            }
            let pause = match budget.may(now) {
                May::Wait(until) if self.role == Role::Receiver => Some(until),
                _ => None,
            };
            let mut got = 0;
            if pause.is_none() {
                // An error such as a refused datagram belongs to an earlier datagram.
                while let Ok(Some((len, class))) = datagram::receive_classed(fd, &mut buffer) {
                    got += 1;
                    if self.role == Role::Receiver {
                        budget.took(now, len as u64);
                    }
                    self.arrive(&buffer[..len], class, now);
                    if got == BATCH {
                        break;
                    }
                }
            } else {
                // Otherwise, epoll would report a pending error again and again.
                let _ = socket::error(fd);
            }
            let offered = self.advance(now, budget).unwrap_or(u64::MAX);
            let more = self.flush(fd, budget);
            self.handle_events();
            let due = self.due().min(more);
            if let Some(until) = pause {
                return Next::At(until.min(due).max(now + 1));
            }
            if got < BATCH {
                return Next::Until(due.min(offered).clamp(now + 1, now + LONGEST));
            }
        }
        // More datagrams may wait; other flows take their turn first.
        Next::Until(sys::monotonic())
    }
    fn cc(&self) -> &'static str {
        self.cc
    }
    fn payload(&self) -> u32 {
        let connection = self.connection.as_ref();
        connection.map_or(0, |(_, connection)| {
            connection.stats().path.current_mtu.into()
        })
    }
    fn ecn(&self) -> bool {
        self.ecn
    }
    fn ended(&self) -> Option<Ended> {
        self.ended.clone()
    }
    fn heard(&self) -> u64 {
        self.heard
    }
    fn progress(&self) -> u64 {
        match self.role {
            Role::Sender => self.acked,
            Role::Receiver => self.arrived.bytes,
        }
    }
    fn moved(&self) -> u64 {
        match self.role {
            Role::Sender => self.written,
            Role::Receiver => self.arrived.bytes,
        }
    }
    fn row(&self, now: u64) -> Row {
        let row = Row {
            at: now,
            bytes: self.progress(),
            ..Row::default()
        };
        let (Role::Sender, Some((_, connection))) = (self.role, &self.connection) else {
            return row;
        };
        let stats = connection.stats();
        let path = stats.path;
        // Without a sample, quinn has the RTT that it assumes.
        let us = |rtt: Duration| match self.stream {
            Some(_) => u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX),
            None => 0,
        };
        Row {
            cwnd: path.cwnd / u64::from(path.current_mtu.max(1)),
            rtt: us(path.rtt),
            min_rtt: us(path.min_rtt),
            retransmits: path.lost_packets,
            sent: stats.udp_tx.bytes,
            resent: path.lost_bytes,
            ..row
        }
    }
    fn memory(&self) -> u64 {
        MEMORY.0 + self.window.max(self.written - self.acked) / MEMORY.1
    }
}

#[cfg(test)]
#[path = "quic_tests.rs"]
mod tests;
