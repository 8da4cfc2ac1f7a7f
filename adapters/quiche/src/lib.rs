//! The QUIC implementation quiche as a transport of narrows.
//!
//! Flow-control windows and the datagram size are those of quiche's command-line programs, because
//! its library has no defaults for them. All other settings are its defaults, except for the
//! congestion control. quiche returns a datagram with its release time. The adapter holds the
//! datagram until then, as Linux does with `SO_TXTIME`, and requests the next one only afterwards.
//! quiche accepts only as much data as its congestion window permits. The adapter writes when a
//! full datagram fits; otherwise, most packets would have a few bytes only. quiche does not use
//! ECN. It does not count congestion events. The sender opens the connection and one unidirectional
//! stream.
//!
//! `cubic_epoch` is CUBIC without the correction of quiche's pull request 2370, as in quiche 0.26
//! and before. quiche can switch this correction off.

mod determinism;
mod tls;

use narrows_adapter::{CHUNK, Clock, Supply, nanos, random};
use narrows_endpoint::{Ecn, Endpoint, Nanos, Role, Setting, Stats};
use quiche::{Config, Connection, ConnectionId, Error, RecvInfo};
use std::net::{Ipv4Addr, SocketAddr};

narrows_endpoint::export! {
    { "quiche", "quiche 0.28.0", "QUIC of quiche",
      "cubic,reno,bbr2,cubic_epoch", narrows_endpoint::UDP_HEADERS, open }
}

/// Payload of the largest UDP datagram in bytes, as in quiche's programs.
const DATAGRAM: usize = 1350;
/// Initial flow-control windows in bytes, as in quiche's programs.
const CONNECTION_WINDOW: u64 = 10_000_000;
const STREAM_WINDOW: u64 = 1_000_000;
/// The first unidirectional stream of a client (RFC 9000, section 2.1).
const STREAM: u64 = 2;

struct End {
    clock: Clock,
    role: Role,
    config: Config,
    id: [u8; 16],
    connection: Option<Connection>,
    local: SocketAddr,
    peer: SocketAddr,
    /// A datagram that waits for its release time.
    held: Option<(Nanos, Vec<u8>)>,
    buffer: Vec<u8>,
    supply: Supply,
    delivered: u64,
    due: Option<Nanos>,
    fault: Option<String>,
}

fn open(setting: &Setting<'_>) -> Result<Box<dyn Endpoint>, String> {
    determinism::set_time(0);
    random::seed(setting.seed);
    let config = configure(setting).map_err(|error| error.to_string());
    let mut config = config?;
    let server = setting.role == Role::Receiver;
    if server {
        tls::load(&mut config)?;
    }
    let mut id = [0; 16];
    random::fill(&mut id);
    let at = |last| SocketAddr::from((Ipv4Addr::new(192, 0, 2, last), 4433));
    let (local, peer) = if server {
        (at(2), at(1))
    } else {
        (at(1), at(2))
    };
    Ok(Box::new(End {
        clock: Clock::new(),
        role: setting.role,
        config,
        id,
        connection: None,
        local,
        peer,
        held: None,
        buffer: vec![0; 1 << 16],
        supply: Supply::default(),
        delivered: 0,
        due: None,
        fault: None,
    }))
}

fn configure(setting: &Setting<'_>) -> quiche::Result<Config> {
    let mut config = Config::new(quiche::PROTOCOL_VERSION)?;
    config.verify_peer(false);
    config.set_application_protos(&[b"narrows"])?;
    config.set_max_recv_udp_payload_size(DATAGRAM);
    config.set_max_send_udp_payload_size(DATAGRAM);
    config.set_initial_max_data(CONNECTION_WINDOW);
    config.set_initial_max_stream_data_uni(STREAM_WINDOW);
    config.set_initial_max_streams_uni(1);
    config.set_disable_active_migration(true);
    config.set_enable_cubic_idle_restart_fix(setting.cc != "cubic_epoch");
    let cc = setting.cc.strip_suffix("_epoch").unwrap_or(setting.cc);
    config.set_cc_algorithm_name(cc)?;
    Ok(config)
}

impl End {
    /// The connection, with the virtual time `now`. Each end creates it at its first event.
    fn at(&mut self, now: Nanos) -> Option<&mut Connection> {
        determinism::set_time(now);
        if self.connection.is_none() && self.fault.is_none() {
            let id = ConnectionId::from_ref(&self.id);
            let (local, peer, config) = (self.local, self.peer, &mut self.config);
            let created = match self.role {
                Role::Sender => quiche::connect(Some("narrows"), &id, local, peer, config),
                Role::Receiver => quiche::accept(&id, None, local, peer, config),
            };
            match created {
                Ok(connection) => self.connection = Some(connection),
                Err(error) => self.fault = Some(error.to_string()),
            }
        }
        self.connection.as_mut()
    }
    /// Reads the data that arrived and writes as much data as the connection accepts.
    fn process(&mut self) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        for stream in connection.readable() {
            while let Ok((count, _)) = connection.stream_recv(stream, &mut self.buffer) {
                self.delivered += count as u64;
            }
        }
        while self.role == Role::Sender && connection.is_established() && self.supply.next() > 0 {
            let chunk = &CHUNK[..self.supply.next()];
            // The stream exists after the first write.
            let room = chunk.len().min(DATAGRAM);
            let exists = self.supply.written > 0;
            if exists && !matches!(connection.stream_writable(STREAM, room), Ok(true)) {
                break;
            }
            match connection.stream_send(STREAM, chunk, false) {
                Ok(count) if count > 0 => self.supply.written += count as u64,
                _ => break,
            }
        }
        if connection.is_closed() {
            let reason = if connection.is_timed_out() {
                "timeout".into()
            } else {
                let error = connection.local_error().or(connection.peer_error());
                error.map_or_else(String::new, |e| format!("error {}", e.error_code))
            };
            self.fault = Some(format!("the connection is closed: {reason}"));
        }
    }
    /// Requests the next datagram and stores it with its release time.
    fn fetch(&mut self, now: Nanos) {
        determinism::set_time(now);
        let Some(connection) = &mut self.connection else {
            return;
        };
        match connection.send(&mut self.buffer) {
            Ok((size, info)) => {
                let at = self.clock.nanos(info.at);
                self.held = Some((at, self.buffer[..size].to_vec()));
            }
            Err(Error::Done) => {}
            Err(error) => self.fault = Some(error.to_string()),
        }
    }
}

impl Endpoint for End {
    fn start(&mut self, now: Nanos) {
        if self.role == Role::Sender {
            self.at(now);
            self.process();
        }
    }
    fn handle(&mut self, now: Nanos, datagram: &mut [u8], _ecn: Ecn) {
        let info = RecvInfo {
            from: self.peer,
            to: self.local,
        };
        if let Some(connection) = self.at(now)
            && let Err(error) = connection.recv(datagram, info)
        {
            self.fault = Some(error.to_string());
        }
        self.process();
    }
    fn poll(&mut self, now: Nanos, buffer: &mut Vec<u8>) -> Option<Ecn> {
        if self.held.is_none() {
            self.fetch(now);
            self.process();
        }
        if let Some((_, datagram)) = self.held.take_if(|(at, _)| *at <= now) {
            buffer.extend_from_slice(&datagram);
            return Some(Ecn::NotEct);
        }
        let release = self.held.as_ref().map(|(at, _)| *at);
        let connection = self.connection.as_ref();
        let timer = connection
            .and_then(Connection::timeout_instant)
            .map(|at| self.clock.nanos(at));
        self.due = [release, timer].into_iter().flatten().min();
        None
    }
    fn timeout(&self) -> Option<Nanos> {
        self.due
    }
    fn on_timeout(&mut self, now: Nanos) {
        determinism::set_time(now);
        if let Some(connection) = &mut self.connection {
            connection.on_timeout();
        }
        self.process();
    }
    fn offer(&mut self, now: Nanos, total: u64) {
        determinism::set_time(now);
        self.supply.offered = total;
        self.process();
    }
    fn stats(&self) -> Stats {
        let delivered = self.delivered;
        let path = self.connection.as_ref().and_then(|c| c.path_stats().next());
        let Some(path) = path else {
            return Stats {
                delivered,
                ..Stats::default()
            };
        };
        Stats {
            delivered,
            cwnd: path.cwnd as u64,
            in_flight: 0,
            srtt: path.min_rtt.map_or(0, |_| nanos(path.rtt)),
            min_rtt: path.min_rtt.map_or(0, nanos),
            lost_packets: path.lost as u64,
            lost_bytes: path.lost_bytes,
            congestion_events: 0,
            datagram: path.pmtu as u64,
        }
    }
    fn fault(&self) -> Option<String> {
        self.fault.clone()
    }
}
