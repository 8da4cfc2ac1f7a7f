//! An endpoint of quinn-proto.
//!
//! The configuration is quinn's default, except for the congestion control. As on Linux, one call
//! sends at most ten datagrams as a super-packet, which the path receives datagram by datagram. The
//! sender opens the connection and one unidirectional stream.

use bytes::{Bytes, BytesMut};
use narrows_adapter::{CHUNK, Clock, Supply, nanos, random, tls};
use narrows_endpoint::{Ecn, Endpoint, Nanos, Role, Setting, Stats};
use quinn_proto::congestion::{BbrConfig, CubicConfig, NewRenoConfig};
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint, EndpointConfig,
    Event, ServerConfig, StreamEvent, StreamId, TransportConfig,
};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

/// Maximum number of datagrams per super-packet, as in the crate `quinn`.
const SEGMENTS: usize = 10;

struct End {
    clock: Clock,
    endpoint: quinn_proto::Endpoint,
    /// The configuration of the client, until it connects.
    client: Option<ClientConfig>,
    connection: Option<(ConnectionHandle, Connection)>,
    peer: SocketAddr,
    ecn: bool,
    /// Datagrams that wait to be sent, with their ECN codepoints.
    queue: VecDeque<(Vec<u8>, Ecn)>,
    buffer: Vec<u8>,
    supply: Supply,
    stream: Option<StreamId>,
    incoming: Option<StreamId>,
    chunk: Bytes,
    delivered: u64,
    due: Option<Nanos>,
    fault: Option<String>,
}

/// Creates an endpoint.
pub fn open(setting: &Setting<'_>) -> Result<Box<dyn Endpoint>, String> {
    let wrong = |error: &dyn std::fmt::Display| error.to_string();
    random::seed(setting.seed);
    let mut transport = TransportConfig::default();
    match setting.cc {
        "cubic" => transport.congestion_controller_factory(Arc::new(CubicConfig::default())),
        "newreno" => transport.congestion_controller_factory(Arc::new(NewRenoConfig::default())),
        "bbr" => transport.congestion_controller_factory(Arc::new(BbrConfig::default())),
        other => return Err(format!("quinn has no congestion control {other}")),
    };
    let transport = Arc::new(transport);
    let (mut client, mut server) = (None, None);
    if setting.role == Role::Sender {
        let tls = tls::client().map_err(|e| wrong(&e))?;
        let tls = QuicClientConfig::try_from(tls).map_err(|e| wrong(&e))?;
        let mut config = ClientConfig::new(Arc::new(tls));
        config.transport_config(transport);
        client = Some(config);
    } else {
        let tls = tls::server().map_err(|e| wrong(&e))?;
        let tls = QuicServerConfig::try_from(tls).map_err(|e| wrong(&e))?;
        let mut config = ServerConfig::with_crypto(Arc::new(tls));
        config.transport_config(transport);
        server = Some(Arc::new(config));
    }
    // Each end has its own connection identifiers.
    let seed = random::bytes(setting.seed ^ u64::from(server.is_some()));
    let endpoint = quinn_proto::Endpoint::new(
        Arc::new(EndpointConfig::default()),
        server,
        true,
        Some(seed),
    );
    Ok(Box::new(End {
        clock: Clock::new(),
        endpoint,
        client,
        connection: None,
        peer: SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 4433)),
        ecn: setting.ecn,
        queue: VecDeque::new(),
        buffer: Vec::new(),
        supply: Supply::default(),
        stream: None,
        incoming: None,
        chunk: Bytes::from_static(CHUNK),
        delivered: 0,
        due: None,
        fault: None,
    }))
}

fn bits(ecn: Option<EcnCodepoint>) -> Ecn {
    ecn.map_or(Ecn::NotEct, |ecn| Ecn::from_bits(ecn as u8))
}

impl End {
    /// Handles all events of the connection, reads the data that arrived, and writes as much data
    /// as the connection accepts.
    fn process(&mut self) {
        let Some((handle, connection)) = &mut self.connection else {
            return;
        };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        while let Some(event) = connection.poll() {
            match event {
                Event::Connected if self.stream.is_none() => {
                    self.stream = connection.streams().open(Dir::Uni);
                }
                Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                    self.incoming = connection.streams().accept(Dir::Uni);
                }
                Event::ConnectionLost { reason } => {
                    self.fault = Some(format!("the connection is lost: {reason}"));
                }
                _ => {}
            }
        }
        if let Some(id) = self.incoming {
            let mut stream = connection.recv_stream(id);
            if let Ok(mut chunks) = stream.read(true) {
                while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                    self.delivered += chunk.bytes.len() as u64;
                }
                let _transmit = chunks.finalize();
            }
        }
        if let Some(id) = self.stream {
            while self.supply.next() > 0 {
                let chunk = self.chunk.slice(..self.supply.next());
                match connection.send_stream(id).write_chunks(&mut [chunk]) {
                    Ok(written) => self.supply.written += written.bytes as u64,
                    Err(_) => break,
                }
            }
        }
    }
    fn respond(&mut self, size: usize, ecn: Option<EcnCodepoint>) {
        let datagram = self.buffer[..size].to_vec();
        self.queue.push_back((datagram, bits(ecn)));
    }
}

impl Endpoint for End {
    fn start(&mut self, now: Nanos) {
        let Some(config) = self.client.take() else {
            return;
        };
        let now = self.clock.instant(now);
        match self.endpoint.connect(now, config, self.peer, tls::NAME) {
            Ok(connection) => self.connection = Some(connection),
            Err(error) => self.fault = Some(error.to_string()),
        }
        self.process();
    }
    fn handle(&mut self, now: Nanos, datagram: &mut [u8], ecn: Ecn) {
        let now = self.clock.instant(now);
        let ecn = EcnCodepoint::from_bits(ecn as u8);
        let data = BytesMut::from(&*datagram);
        self.buffer.clear();
        let event = self
            .endpoint
            .handle(now, self.peer, None, ecn, data, &mut self.buffer);
        match event {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) if self.connection.is_none() => {
                self.buffer.clear();
                match self.endpoint.accept(incoming, now, &mut self.buffer, None) {
                    Ok(connection) => self.connection = Some(connection),
                    Err(error) => self.fault = Some(error.cause.to_string()),
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.endpoint.ignore(incoming),
            Some(DatagramEvent::Response(transmit)) => self.respond(transmit.size, transmit.ecn),
            None => {}
        }
        self.process();
    }
    fn poll(&mut self, now: Nanos, buffer: &mut Vec<u8>) -> Option<Ecn> {
        if self.queue.is_empty() {
            let (_, connection) = self.connection.as_mut()?;
            self.buffer.clear();
            let now = self.clock.instant(now);
            if let Some(sent) = connection.poll_transmit(now, SEGMENTS, &mut self.buffer) {
                let ecn = if self.ecn {
                    bits(sent.ecn)
                } else {
                    Ecn::NotEct
                };
                let size = sent.segment_size.unwrap_or(sent.size);
                for part in self.buffer[..sent.size].chunks(size) {
                    self.queue.push_back((part.to_vec(), ecn));
                }
            }
            self.process();
        }
        let Some((datagram, ecn)) = self.queue.pop_front() else {
            let connection = self.connection.as_mut();
            self.due = connection
                .and_then(|(_, c)| c.poll_timeout())
                .map(|at| self.clock.nanos(at));
            return None;
        };
        buffer.extend_from_slice(&datagram);
        Some(ecn)
    }
    fn timeout(&self) -> Option<Nanos> {
        self.due
    }
    fn on_timeout(&mut self, now: Nanos) {
        if let Some((_, connection)) = &mut self.connection {
            connection.handle_timeout(self.clock.instant(now));
        }
        self.process();
    }
    fn offer(&mut self, _now: Nanos, total: u64) {
        self.supply.offered = total;
        self.process();
    }
    fn stats(&self) -> Stats {
        let delivered = self.delivered;
        let Some((_, connection)) = &self.connection else {
            return Stats {
                delivered,
                ..Stats::default()
            };
        };
        let path = connection.stats().path;
        Stats {
            delivered,
            cwnd: path.cwnd,
            in_flight: 0,
            srtt: if connection.is_handshaking() {
                0
            } else {
                nanos(path.rtt)
            },
            min_rtt: nanos(crate::min_rtt(&path)),
            lost_packets: path.lost_packets,
            lost_bytes: path.lost_bytes,
            congestion_events: path.congestion_events,
            datagram: u64::from(path.current_mtu),
        }
    }
    fn fault(&self) -> Option<String> {
        self.fault.clone()
    }
}
