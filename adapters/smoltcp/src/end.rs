//! An endpoint of smoltcp.
//!
//! The datagrams that narrows carries are smoltcp's IPv4 packets, so its own IP and TCP headers
//! cross the path. Each end is an interface with one socket, whose buffers hold 1 MiB; Nagle's
//! algorithm and delayed ACKs are those of smoltcp's defaults. smoltcp reports neither window, RTT
//! nor losses. The adapter therefore counts a segment as lost when it is sent again, that is, below
//! the highest sequence number sent. It measures the RTT of segments that were sent once (RFC
//! 6298). smoltcp's clock has a resolution of 1 µs.

use narrows_adapter::{CHUNK, Nanos, Supply};
use narrows_endpoint::{Ecn, Endpoint, Role, Setting, Stats};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, Device, DeviceCapabilities, Medium};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::time::Instant;
use smoltcp::wire::{
    HardwareAddress, IpAddress, IpCidr, Ipv4Address, Ipv4Packet, TcpPacket, TcpSeqNumber,
};
use std::collections::VecDeque;

/// Size of a socket's send buffer and of its receive buffer, in bytes.
const BUFFER: usize = 1 << 20;
const PORT: u16 = 5001;
/// The first of the dynamic ports (RFC 6335, section 6), from which the client's port is chosen.
const FIRST_PORT: u16 = 49_152;

/// A network device of smoltcp: the packets that arrived and the packets that it sent.
struct Wire {
    mtu: usize,
    arrived: VecDeque<Vec<u8>>,
    sent: VecDeque<Vec<u8>>,
}

struct Arrived(Vec<u8>);
struct Leaving<'a>(&'a mut VecDeque<Vec<u8>>);

impl phy::RxToken for Arrived {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

impl phy::TxToken for Leaving<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        let mut packet = vec![0; length];
        let result = write(&mut packet);
        self.0.push_back(packet);
        result
    }
}

impl Device for Wire {
    type RxToken<'a> = Arrived;
    type TxToken<'a> = Leaving<'a>;
    fn receive(&mut self, _now: Instant) -> Option<(Arrived, Leaving<'_>)> {
        let packet = self.arrived.pop_front()?;
        Some((Arrived(packet), Leaving(&mut self.sent)))
    }
    fn transmit(&mut self, _now: Instant) -> Option<Leaving<'_>> {
        Some(Leaving(&mut self.sent))
    }
    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities
    }
}

/// What the adapter derives from the packets of a sender: RTT and losses.
#[derive(Default)]
struct Seen {
    /// The sequence number after the highest segment sent; `acked` is the highest acknowledgement
    /// number.
    highest: Option<TcpSeqNumber>,
    acked: Option<TcpSeqNumber>,
    /// The end of the measured segment and the time of its transmission.
    measured: Option<(TcpSeqNumber, Nanos)>,
    srtt: Nanos,
    min_rtt: Nanos,
    lost: u64,
    lost_bytes: u64,
    largest: u64,
}

impl Seen {
    fn sent(&mut self, now: Nanos, packet: &[u8]) {
        let Some((seq, _, length)) = segment(packet) else {
            return;
        };
        if length == 0 {
            return;
        }
        self.largest = self.largest.max(length as u64);
        let end = seq + length;
        if self.highest.is_some_and(|highest| end <= highest) {
            self.lost += 1;
            self.lost_bytes += length as u64;
            self.measured = None;
            return;
        }
        self.highest = Some(end);
        self.measured.get_or_insert((end, now));
    }
    fn received(&mut self, now: Nanos, packet: &[u8]) {
        let Some((_, Some(ack), _)) = segment(packet) else {
            return;
        };
        if self.acked.is_none_or(|acked| ack > acked) {
            self.acked = Some(ack);
        }
        if let Some((_, sent)) = self.measured.filter(|(end, _)| ack >= *end) {
            let rtt = now - sent;
            self.measured = None;
            self.srtt = if self.srtt == 0 {
                rtt
            } else {
                (7 * self.srtt + rtt) / 8
            };
            self.min_rtt = if self.min_rtt == 0 {
                rtt
            } else {
                self.min_rtt.min(rtt)
            };
        }
    }
    fn in_flight(&self) -> u64 {
        match (self.highest, self.acked) {
            (Some(highest), Some(acked)) if highest > acked => (highest - acked) as u64,
            _ => 0,
        }
    }
}

/// Sequence number, acknowledgement number and bytes of payload of a packet.
fn segment(packet: &[u8]) -> Option<(TcpSeqNumber, Option<TcpSeqNumber>, usize)> {
    let ip = Ipv4Packet::new_checked(packet).ok()?;
    let tcp = TcpPacket::new_checked(ip.payload()).ok()?;
    let ack = tcp.ack().then(|| tcp.ack_number());
    Some((tcp.seq_number(), ack, tcp.payload().len()))
}

struct End {
    role: Role,
    local_port: u16,
    wire: Wire,
    interface: Interface,
    sockets: SocketSet<'static>,
    socket: SocketHandle,
    started: bool,
    supply: Supply,
    delivered: u64,
    seen: Seen,
    due: Option<Nanos>,
    fault: Option<String>,
}

/// Creates an endpoint.
pub fn open(setting: &Setting<'_>) -> Result<Box<dyn Endpoint>, String> {
    let mut wire = Wire {
        mtu: setting.mtu as usize,
        arrived: VecDeque::new(),
        sent: VecDeque::new(),
    };
    let mut config = Config::new(HardwareAddress::Ip);
    config.random_seed = setting.seed ^ u64::from(setting.role == Role::Receiver);
    let mut interface = Interface::new(config, &mut wire, Instant::ZERO);
    let last = if setting.role == Role::Sender { 1 } else { 2 };
    interface.update_ip_addrs(|addresses| {
        let address = IpCidr::new(IpAddress::v4(192, 0, 2, last), 24);
        let _room = addresses.push(address);
    });
    let buffer = || SocketBuffer::new(vec![0; BUFFER]);
    let mut socket = Socket::new(buffer(), buffer());
    socket.set_congestion_control(match setting.cc {
        "cubic" => CongestionControl::Cubic,
        "reno" => CongestionControl::Reno,
        "none" => CongestionControl::None,
        other => return Err(format!("smoltcp has no congestion control {other}")),
    });
    let mut sockets = SocketSet::new(Vec::new());
    let socket = sockets.add(socket);
    Ok(Box::new(End {
        role: setting.role,
        local_port: FIRST_PORT + (setting.seed % 16_384) as u16,
        wire,
        interface,
        sockets,
        socket,
        started: false,
        supply: Supply::default(),
        delivered: 0,
        seen: Seen::default(),
        due: None,
        fault: None,
    }))
}

fn instant(now: Nanos) -> Instant {
    Instant::from_micros((now / 1000) as i64)
}

impl End {
    /// The application writes what the send buffer accepts, and reads what arrived.
    fn serve(&mut self) {
        let socket = self.sockets.get_mut::<Socket<'_>>(self.socket);
        while socket.can_send() && self.supply.next() > 0 {
            match socket.send_slice(&CHUNK[..self.supply.next()]) {
                Ok(written) => self.supply.written += written as u64,
                Err(_) => break,
            }
        }
        while socket.can_recv() {
            match socket.recv(|data| (data.len(), data.len())) {
                Ok(read) if read > 0 => self.delivered += read as u64,
                _ => break,
            }
        }
        if self.started && socket.state() == State::Closed {
            self.fault = Some("the connection is closed".into());
        }
    }
}

impl Endpoint for End {
    fn start(&mut self, _now: Nanos) {
        let peer = IpAddress::Ipv4(Ipv4Address::new(192, 0, 2, 2));
        let socket = self.sockets.get_mut::<Socket<'_>>(self.socket);
        let opened = match self.role {
            Role::Receiver => socket.listen(PORT).map_err(|e| e.to_string()),
            Role::Sender => socket
                .connect(self.interface.context(), (peer, PORT), self.local_port)
                .map_err(|e| e.to_string()),
        };
        self.fault = opened.err();
        self.started = true;
    }
    fn handle(&mut self, now: Nanos, datagram: &mut [u8], _ecn: Ecn) {
        if self.role == Role::Sender {
            self.seen.received(now, datagram);
        }
        self.wire.arrived.push_back(datagram.to_vec());
    }
    fn poll(&mut self, now: Nanos, buffer: &mut Vec<u8>) -> Option<Ecn> {
        if self.wire.sent.is_empty() {
            // The application reads what arrived, so that a window update may be sent immediately.
            let at = instant(now);
            self.serve();
            self.interface.poll(at, &mut self.wire, &mut self.sockets);
            self.serve();
            self.interface.poll(at, &mut self.wire, &mut self.sockets);
            let next = self.interface.poll_at(at, &self.sockets);
            // A deadline that is already due is moved to the next tick of smoltcp's clock, 1 µs
            // after `now`.
            self.due = next.map(|next| (next.max(at).total_micros() as u64 * 1000).max(now + 1000));
        }
        let packet = self.wire.sent.pop_front()?;
        if self.role == Role::Sender {
            self.seen.sent(now, &packet);
        }
        buffer.extend_from_slice(&packet);
        Some(Ecn::NotEct)
    }
    fn timeout(&self) -> Option<Nanos> {
        self.due
    }
    fn on_timeout(&mut self, _now: Nanos) {}
    fn offer(&mut self, _now: Nanos, total: u64) {
        self.supply.offered = total;
    }
    fn stats(&self) -> Stats {
        let seen = &self.seen;
        Stats {
            delivered: self.delivered,
            cwnd: 0,
            in_flight: seen.in_flight(),
            srtt: seen.srtt,
            min_rtt: seen.min_rtt,
            lost_packets: seen.lost,
            lost_bytes: seen.lost_bytes,
            congestion_events: 0,
            datagram: seen.largest,
        }
    }
    fn fault(&self) -> Option<String> {
        self.fault.clone()
    }
}
