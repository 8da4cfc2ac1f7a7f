//! The sockets by which the server sends. Each charges what it sends to a budget, and offers no way
//! to send without one. A test checks that no other file of this directory sends.
//!
//! | socket | for | charged to |
//! |---|---|---|
//! | [`Connection`] | control connections, HTTP | a few bytes of its own, then a session's [`Allowance`] |
//! | [`DatagramSocket`] | pings, iperf3's datagrams | a [`Permit`] for each answer, an [`Allowance`] for the rest |
//! | [`AnswerSocket`] | echo, STAMP, irtt, timed questions | a [`Permit`] for each answer |
//!
//! TCP load is sent by [`crate::measure::bulk`], whose streams cannot be created without the budget
//! of a session.

use super::budget::{Accounts, Allowance, Datagrams, Permit};
use super::limits::PENDING_BYTES;
use super::shares::Descriptor;
use super::source::Source;
use crate::measure::bulk::Promised;
use crate::sys;
use crate::sys::datagram::{self, BATCH, Datagram, Outgoing};
use crate::sys::socket;
use crate::sys::timed_socket::{Got, Left, TimedSocket};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

/// Bytes that may be sent to a connection of `--metrics`.
const METRICS: u64 = 64 << 10;
/// Largest amount of unsent data in the kernel of one connection (control or HTTP), bytes.
const UNSENT: u32 = 128 << 10;
/// Largest amount of unread requests in the kernel of one connection, bytes.
const UNREAD: u32 = 32 << 10;
/// Amount of unacknowledged data up to which a connection is closed without a reset, bytes. The
/// kernel then delivers the data by itself.
const REST: u64 = PENDING_BYTES;

/// The budget to which a connection is charged.
enum Payer {
    /// No session yet: number of bytes that may still be sent.
    Nobody(u64),
    /// The session of a control connection.
    Control(Arc<Allowance>),
    /// The session of a connection for objects of pages, and the bytes reserved for this
    /// connection.
    Objects(Arc<Allowance>, Promised),
}

/// The account of a connection.
struct Ticket {
    source: Source,
    /// Number of the connection.
    id: u64,
    accounts: Arc<Accounts>,
    payer: Payer,
    charged: u64,
}

impl Ticket {
    /// Records that the connection is no longer pending.
    fn settled(&self) {
        self.accounts.settled(self.source, self.id);
    }
    /// Ends the charges to a session; `false` if the connection belonged to none.
    fn leave(&mut self) -> bool {
        match std::mem::replace(&mut self.payer, Payer::Nobody(PENDING_BYTES)) {
            Payer::Nobody(left) => {
                self.payer = Payer::Nobody(left);
                return false;
            }
            Payer::Control(allowance) => allowance.release(&mut self.charged),
            Payer::Objects(allowance, _) => {
                allowance.release(&mut self.charged);
                allowance.remove_object();
            }
        }
        true
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.leave() {
            self.settled();
        }
    }
}

/// An accepted TCP connection.
pub struct Connection {
    socket: OwnedFd,
    from: SocketAddr,
    ticket: Ticket,
    descriptor: Descriptor,
}

/// The result of accepting.
pub enum Accepted {
    /// No connection waits to be accepted.
    None,
    /// An accepted connection.
    Connection(Connection),
    /// The source address or its network has too many connections, or the address opens them too
    /// fast: the connection was reset.
    TooMany,
}

impl Connection {
    /// Accepts the next connection of a listening socket. `metrics`: the socket only serves the
    /// counters.
    pub fn accept(
        listener: &OwnedFd,
        accounts: &Arc<Accounts>,
        metrics: bool,
        now: u64,
    ) -> io::Result<Accepted> {
        let Some((socket, from)) = socket::accept(listener)? else {
            return Ok(Accepted::None);
        };
        let source = Source::from(from.ip());
        let number = || accounts.connected(source, now);
        let admitted = accounts.descriptors().take(source);
        let Some((descriptor, id)) = admitted.and_then(|descriptor| Some((descriptor, number()?)))
        else {
            // After a reset, no state of the connection is left in this kernel.
            let _ = sys::set_reset(&socket);
            return Ok(Accepted::TooMany);
        };
        let ticket = Ticket {
            source,
            id,
            accounts: Arc::clone(accounts),
            payer: Payer::Nobody(if metrics { METRICS } else { PENDING_BYTES }),
            charged: 0,
        };
        Ok(Accepted::Connection(Connection {
            socket,
            from,
            ticket,
            descriptor,
        }))
    }
    /// The address of the client.
    pub fn from(&self) -> IpAddr {
        self.from.ip()
    }
    /// The address and port of the client.
    pub fn peer(&self) -> SocketAddr {
        self.from
    }
    /// The source of the client: the unit to which limits apply.
    pub fn source(&self) -> Source {
        self.ticket.source
    }
    /// The number of the connection among all accepted ones.
    pub fn id(&self) -> u64 {
        self.ticket.id
    }
    /// The socket, for options, polling and reading.
    pub fn fd(&self) -> &OwnedFd {
        &self.socket
    }
    /// Whether the connection belongs to no session.
    pub fn pending(&self) -> bool {
        matches!(self.ticket.payer, Payer::Nobody(_))
    }
    /// Makes the connection the control connection of a session, unless it belongs to one.
    pub fn admit(&mut self, allowance: &Arc<Allowance>) {
        if self.pending() {
            self.ticket.settled();
            socket::watch_peer(&self.socket);
            self.limit_buffers();
            self.ticket.payer = Payer::Control(Arc::clone(allowance));
        }
    }
    /// Makes the connection one for objects of a session. Returns `false` if it belongs to another
    /// session, the session has too many such connections, or has ended.
    pub fn fetch(&mut self, allowance: &Arc<Allowance>) -> bool {
        if let Payer::Objects(now, _) = &self.ticket.payer {
            return Arc::ptr_eq(now, allowance) && !allowance.spent();
        }
        if !self.pending() || !allowance.add_object() {
            return false;
        }
        self.ticket.settled();
        self.limit_buffers();
        self.ticket.payer = Payer::Objects(Arc::clone(allowance), Promised::new(allowance.load()));
        true
    }
    /// Limits the unread and the unsent data of the connection in the kernel.
    fn limit_buffers(&self) {
        let _ = sys::set_notsent_lowat(&self.socket, UNSENT);
        socket::limit_input(&self.socket, UNREAD);
    }
    /// Whether the connection is one for objects of a session.
    pub fn fetches(&self) -> bool {
        matches!(self.ticket.payer, Payer::Objects(..))
    }
    /// Whether the connection is one for objects of a session that has ended.
    pub fn orphaned(&self) -> bool {
        matches!(&self.ticket.payer, Payer::Objects(allowance, _) if allowance.spent())
    }
    /// Number of written bytes that the peer has not acknowledged; 0 if they are at most `REST`,
    /// which the kernel may deliver by itself.
    pub fn rest(&self) -> u64 {
        let rest = sys::unacknowledged(&self.socket).unwrap_or(0);
        if rest > REST { rest } else { 0 }
    }
    /// Closes the connection, by a reset if more than `REST` bytes are unacknowledged. Otherwise
    /// a peer that does not read would keep data in the kernel that belongs to no session.
    pub fn close(self) {
        if self.rest() > 0 {
            let _ = sys::set_reset(&self.socket);
        } else {
            socket::limit_output_time(&self.socket);
        }
    }
    /// Reserves up to `wanted` bytes of the session's limit for an object, and returns how many
    /// were reserved. Bytes reserved by other connections are not available.
    pub fn promise(&mut self, wanted: u64) -> u64 {
        match &mut self.ticket.payer {
            Payer::Objects(_, promised) => promised.more(wanted),
            Payer::Nobody(_) | Payer::Control(_) => 0,
        }
    }
    /// Detaches the connection from its session. It may still send `farewell` bytes.
    pub fn dismiss(&mut self, farewell: usize) {
        if self.ticket.leave() {
            self.ticket
                .accounts
                .unsettled(self.ticket.source, self.ticket.id);
            self.ticket.payer = Payer::Nobody(farewell as u64);
        }
    }
    /// Writes as many of `bytes` as the kernel accepts; `None` if it accepts none now.
    pub fn send(&mut self, bytes: &[u8], now: u64) -> io::Result<Option<usize>> {
        let most = match &self.ticket.payer {
            Payer::Nobody(0) => return Err(io::Error::other("its limit is used up")),
            Payer::Nobody(left) => usize::try_from(*left).unwrap_or(usize::MAX),
            Payer::Objects(allowance, _) if allowance.spent() => {
                return Err(io::Error::other("its session has ended"));
            }
            Payer::Control(_) | Payer::Objects(..) => usize::MAX,
        };
        let sent = sys::send_some(&self.socket, &bytes[..bytes.len().min(most)])?;
        if let Some(n) = sent {
            match &mut self.ticket.payer {
                Payer::Nobody(left) => *left -= n as u64,
                Payer::Control(allowance) => allowance.load().took(now, n as u64),
                Payer::Objects(_, promised) => promised.sent(now, n as u64),
            }
        }
        Ok(sent)
    }
    /// Charges the memory of the socket and `more` bytes of buffers to the session, and records
    /// when the peer was last heard.
    pub fn look(&mut self, more: usize, now: u64) {
        let ticket = &mut self.ticket;
        if let Payer::Control(allowance) | Payer::Objects(allowance, _) = &ticket.payer {
            allowance.hold(
                &mut ticket.charged,
                socket::memory(&self.socket) + more as u64,
                now,
            );
            allowance.alive(now.saturating_sub(socket::silence(&self.socket)));
        }
    }
    /// Returns the socket alone, for load of a session; [`crate::measure::bulk::Stream`] charges
    /// its bytes.
    pub fn into_load(self) -> (OwnedFd, Descriptor) {
        (self.socket, self.descriptor)
    }
}

/// Answers that are sent together.
#[derive(Default)]
pub struct Answers {
    list: Vec<Outgoing>,
}

impl Answers {
    /// Adds an answer if it is no longer than its permit allows; otherwise drops it.
    pub fn push(&mut self, answer: Outgoing, permit: Permit) {
        if answer.len <= permit.bytes() {
            self.list.push(answer);
        }
    }
    /// Iterates over the answers.
    pub fn iter(&self) -> impl Iterator<Item = &Outgoing> {
        self.list.iter()
    }
    /// Whether the list has no answers.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// The result of sending datagrams of UDP load.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Flooded {
    /// This many were sent, all that the allowance permits now.
    All(u64),
    /// This many were sent; the buffer of the socket is full.
    Some(u64),
    /// None may be sent before this time, ns of the monotonic clock.
    Wait(u64),
    /// None may be sent any more.
    Stop,
}

/// The datagram socket that all sessions share.
pub struct DatagramSocket {
    fd: OwnedFd,
    v6: bool,
}

impl DatagramSocket {
    /// A socket bound to that address. Sockets for single clients may be bound to the same address
    /// and port.
    pub fn new(at: SocketAddr) -> io::Result<DatagramSocket> {
        let fd = socket::shared_datagrams(at)?;
        socket::refuse_broadcasts(&fd)?;
        Ok(DatagramSocket {
            fd,
            v6: at.is_ipv6(),
        })
    }
    /// The socket, so that its owner can be changed to the user that root becomes. Only sockets of
    /// the same user may share an address and port.
    pub fn fd(&self) -> &OwnedFd {
        &self.fd
    }
    /// The address of the socket.
    pub fn local(&self) -> io::Result<SocketAddr> {
        socket::local(&self.fd)
    }
    /// Appends received datagrams to `to`. Returns the number of datagrams that the socket has
    /// dropped so far, if the kernel reports it.
    pub fn receive(&self, to: &mut Vec<Datagram>) -> io::Result<Option<u32>> {
        datagram::receive(&self.fd, to)
    }
    /// Waits until a datagram arrives, or for `ns`.
    pub fn wait(&self, ns: u64) {
        let _ = sys::wait_readable(&[self.fd.as_raw_fd()], ns);
    }
    /// Sends the answers and clears the list. If the buffer of the socket is full, answers are
    /// lost.
    pub fn answer(&self, answers: &mut Answers) {
        for some in answers.list.chunks(BATCH) {
            let _ = datagram::send(&self.fd, some, self.v6);
        }
        answers.list.clear();
    }
    /// Sends up to `wanted` datagrams of `len` bytes, as many as the allowance permits now.
    /// `datagram` builds each datagram from its index.
    pub fn flood(
        &self,
        allowance: &Allowance,
        (wanted, len): (usize, usize),
        now: u64,
        datagram: impl FnMut(usize) -> Outgoing,
    ) -> Flooded {
        let n = match allowance.datagrams(wanted.min(BATCH), len, now) {
            Datagrams::Send(n) => n,
            Datagrams::Wait(until) => return Flooded::Wait(until),
            Datagrams::Stop => return Flooded::Stop,
        };
        let list: Vec<Outgoing> = (0..n).map(datagram).collect();
        let sent = datagram::send(&self.fd, &list, self.v6).unwrap_or(0);
        allowance
            .load()
            .took(now, list[..sent].iter().map(|one| one.len as u64).sum());
        if sent < n {
            Flooded::Some(sent as u64)
        } else {
            Flooded::All(sent as u64)
        }
    }
}

/// The socket of a service that answers single datagrams.
pub struct AnswerSocket {
    socket: TimedSocket,
}

impl AnswerSocket {
    /// A socket bound to that address; if there is a peer, it is connected to it.
    pub fn new(at: SocketAddr, peer: Option<SocketAddr>) -> io::Result<AnswerSocket> {
        let socket = TimedSocket::new(at, peer, true, peer.is_some())?;
        socket::refuse_broadcasts(socket.fd())?;
        Ok(AnswerSocket { socket })
    }
    /// The address of the socket.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.socket.local()
    }
    /// The socket, for options.
    pub fn fd(&self) -> &OwnedFd {
        self.socket.fd()
    }
    /// Receives the next datagram. With `waits`, sleeps until one arrives or some time has passed;
    /// otherwise returns `None` at once if there is none.
    pub fn receive(&self, to: &mut [u8], waits: bool) -> io::Result<Option<Got>> {
        if waits {
            self.socket.wait_for(to)
        } else {
            self.socket.receive(to)
        }
    }
    /// Sends an answer and returns its number among the sent ones. `None` if it is longer than the
    /// permit allows, or if the socket's buffer is full.
    pub fn send(
        &mut self,
        bytes: &[u8],
        to: Option<SocketAddr>,
        class: u8,
        permit: Permit,
    ) -> io::Result<Option<u32>> {
        if bytes.len() > permit.bytes() {
            return Ok(None);
        }
        self.socket.send(bytes, to, Some(class))
    }
    /// The next departure time of an answer that the kernel has reported.
    pub fn departure(&self) -> Option<Left> {
        self.socket.departure()
    }
}

#[cfg(test)]
mod tests {
    /// Data that a service sent by a socket of its own would be charged to nobody.
    #[test]
    fn nothing_else_of_the_far_end_sends() {
        let files = [
            ("answering.rs", include_str!("answering.rs")),
            ("budget.rs", include_str!("budget.rs")),
            ("calls.rs", include_str!("calls.rs")),
            ("confine.rs", include_str!("confine.rs")),
            ("counters.rs", include_str!("counters.rs")),
            ("fed.rs", include_str!("fed.rs")),
            ("iperf.rs", include_str!("iperf.rs")),
            ("limits.rs", include_str!("limits.rs")),
            ("listener.rs", include_str!("listener.rs")),
            ("mod.rs", include_str!("mod.rs")),
            ("options.rs", include_str!("options.rs")),
            ("page.rs", include_str!("page.rs")),
            ("pending.rs", include_str!("pending.rs")),
            ("session.rs", include_str!("session.rs")),
            ("session/datagrams.rs", include_str!("session/datagrams.rs")),
            ("shared.rs", include_str!("shared.rs")),
            ("shares.rs", include_str!("shares.rs")),
            ("source.rs", include_str!("source.rs")),
            ("udp.rs", include_str!("udp.rs")),
            ("latency/answer.rs", include_str!("../latency/answer.rs")),
        ];
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/serve");
        let there = std::fs::read_dir(folder)
            .expect("the sources")
            .filter(|file| {
                let name = file.as_ref().expect("a source").file_name();
                !name.to_string_lossy().ends_with("_tests.rs")
            })
            .count();
        // This file and the XDP program, which the kernel runs, are not compared.
        assert_eq!(
            there,
            files.len() - 1 + 2,
            "a file of {folder} is not compared"
        );
        for (name, text) in files {
            let text = text.split("#[cfg(test)]").next().unwrap_or_default();
            for call in [
                "sys::send",
                "sys::write",
                "datagram::send",
                "libc::send",
                "libc::write",
                "TimedSocket",
                "UdpSocket",
                "TcpStream",
                ".write_all(",
                "Budget::new",
            ] {
                assert!(
                    !text.contains(call),
                    "{name}: {call} sends without a budget"
                );
            }
        }
    }
}
