//! The sockets by which the server sends. Each charges what it sends to a budget and offers no way
//! to send without one. No other file of this folder sends (a test compares).
//!
//! | socket | for | charged to |
//! |---|---|---|
//! | [`Connection`] | control connections, HTTP | a few bytes of its own, then a session's [`Allowance`] |
//! | [`DatagramSocket`] | pings, iperf3's datagrams | a [`Permit`] for each answer, an [`Allowance`] for the rest |
//! | [`AnswerSocket`] | echo, STAMP, irtt, timed questions | a [`Permit`] for each answer |
//!
//! TCP load is sent by [`crate::measure::bulk`], whose streams cannot be made without the budget of
//! a session.

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

/// Largest document of counters, bytes.
const METRICS: u64 = 64 << 10;
/// Largest unsent part of an object, or of answers, in the kernel, bytes.
const UNSENT: u32 = 128 << 10;
/// Largest unread part of requests in the kernel, bytes.
const UNREAD: u32 = 32 << 10;
/// Data that the kernel may still deliver by itself after a connection is closed, bytes.
const REST: u64 = PENDING_BYTES;

/// The budget of a connection.
enum Payer {
    /// No session yet: bytes left.
    Nobody(u64),
    /// A session, for its control connection.
    Control(Arc<Allowance>),
    /// A session, for objects of pages, and the bytes promised to this connection.
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
    /// Ends the payment by a session; false if there was none.
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
    /// No connection waits.
    None,
    /// A connection.
    Connection(Connection),
    /// The address has too many connections, or opens them too fast: the connection was closed.
    TooMany,
}

impl Connection {
    /// Accepts the next connection of a listening socket.
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
            // A reset leaves no state in this kernel.
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
    /// The source of the client, for limits.
    pub fn source(&self) -> Source {
        self.ticket.source
    }
    /// The number of the connection among all accepted ones.
    pub fn id(&self) -> u64 {
        self.ticket.id
    }
    /// The descriptor, for options, polling and reading.
    pub fn fd(&self) -> &OwnedFd {
        &self.socket
    }
    /// Whether it belongs to no session yet.
    pub fn pending(&self) -> bool {
        matches!(self.ticket.payer, Payer::Nobody(_))
    }
    /// Makes it the control connection of a session.
    pub fn admit(&mut self, allowance: &Arc<Allowance>) {
        if self.pending() {
            self.ticket.settled();
            socket::watch_peer(&self.socket);
            self.limit_buffers();
            self.ticket.payer = Payer::Control(Arc::clone(allowance));
        }
    }
    /// Makes it fetch objects of a session; false if the session has the largest number of such
    /// connections.
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
    /// Limits the data in the kernel that this host has not read, and that has not been sent yet.
    fn limit_buffers(&self) {
        let _ = sys::set_notsent_lowat(&self.socket, UNSENT);
        socket::limit_input(&self.socket, UNREAD);
    }
    /// Whether it fetches objects of a session.
    pub fn fetches(&self) -> bool {
        matches!(self.ticket.payer, Payer::Objects(..))
    }
    /// Whether it fetches objects of a session that has ended.
    pub fn orphaned(&self) -> bool {
        matches!(&self.ticket.payer, Payer::Objects(allowance, _) if allowance.spent())
    }
    /// Bytes that were written and that the peer has not acknowledged, if they are more than the
    /// kernel may deliver by itself.
    pub fn rest(&self) -> u64 {
        let rest = sys::unacknowledged(&self.socket).unwrap_or(0);
        if rest > REST { rest } else { 0 }
    }
    /// Closes it. A peer that does not read would otherwise keep data in the kernel that belongs to
    /// no session.
    pub fn close(self) {
        if self.rest() > 0 {
            let _ = sys::set_reset(&self.socket);
        } else {
            socket::limit_output_time(&self.socket);
        }
    }
    /// Reserves up to `wanted` bytes of an object, as far as the session has them and no other
    /// connection is going to send them.
    pub fn promise(&mut self, wanted: u64) -> u64 {
        match &mut self.ticket.payer {
            Payer::Objects(_, promised) => promised.more(wanted),
            Payer::Nobody(_) | Payer::Control(_) => 0,
        }
    }
    /// Ends its session; it may still send a farewell of this many bytes.
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
    /// Charges the memory of its socket and `more` bytes of buffers, and records when its peer was
    /// heard.
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
    /// The socket alone, for load of a session: [`crate::measure::bulk::Stream`] charges its bytes.
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
    /// Adds an answer if its permit covers it.
    pub fn push(&mut self, answer: Outgoing, permit: Permit) {
        if answer.len <= permit.bytes() {
            self.list.push(answer);
        }
    }
    /// Removes all answers.
    pub fn iter(&self) -> impl Iterator<Item = &Outgoing> {
        self.list.iter()
    }
    /// An empty list.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// The result of sending unrequested datagrams.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Flooded {
    /// This many were sent.
    All(u64),
    /// This many were sent; the socket has no room for more.
    Some(u64),
    /// None may be sent before this time, ns of the monotonic clock.
    Wait(u64),
    /// None may be sent any more.
    Stop,
}

/// The datagram socket of all sessions.
pub struct DatagramSocket {
    fd: OwnedFd,
    v6: bool,
}

impl DatagramSocket {
    /// A socket at that address, which sockets of single clients may share.
    pub fn new(at: SocketAddr) -> io::Result<DatagramSocket> {
        let fd = socket::shared_datagrams(at)?;
        socket::refuse_broadcasts(&fd)?;
        Ok(DatagramSocket {
            fd,
            v6: at.is_ipv6(),
        })
    }
    /// Changes the owner to the user that root becomes: only sockets of one user may share an
    /// address.
    pub fn fd(&self) -> &OwnedFd {
        &self.fd
    }
    /// The address of the socket.
    pub fn local(&self) -> io::Result<SocketAddr> {
        socket::local(&self.fd)
    }
    /// Received datagrams, and the number lost before them if the kernel reports it.
    pub fn receive(&self, to: &mut Vec<Datagram>) -> io::Result<Option<u32>> {
        datagram::receive(&self.fd, to)
    }
    /// Waits for datagrams, at most for this time, ns.
    pub fn wait(&self, ns: u64) {
        let _ = sys::wait_readable(&[self.fd.as_raw_fd()], ns);
    }
    /// Sends the answers. An answer for which the socket has no room is lost.
    pub fn answer(&self, answers: &mut Answers) {
        for some in answers.list.chunks(BATCH) {
            let _ = datagram::send(&self.fd, some, self.v6);
        }
        answers.list.clear();
    }
    /// Sends up to `wanted` datagrams of `len` bytes, as many as the allowance permits now.
    /// `datagram` builds each from its index.
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
    /// A socket at that address; with a peer, it is connected.
    pub fn new(at: SocketAddr, peer: Option<SocketAddr>) -> io::Result<AnswerSocket> {
        let socket = TimedSocket::new(at, peer, true, peer.is_some())?;
        socket::refuse_broadcasts(socket.fd())?;
        Ok(AnswerSocket { socket })
    }
    /// The address of the socket.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.socket.local()
    }
    /// The descriptor, for options.
    pub fn fd(&self) -> &OwnedFd {
        self.socket.fd()
    }
    /// The next datagram; with `waits` it sleeps until one arrives or some time has passed.
    pub fn receive(&self, to: &mut [u8], waits: bool) -> io::Result<Option<Got>> {
        if waits {
            self.socket.wait_for(to)
        } else {
            self.socket.receive(to)
        }
    }
    /// Sends an answer and returns its number; `None` if the permit does not cover it or the socket
    /// has no room.
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
    /// The next departure of an answer.
    pub fn departure(&self) -> Option<Left> {
        self.socket.departure()
    }
}

#[cfg(test)]
mod tests {
    /// A service that sent by a socket of its own would be charged nothing.
    #[test]
    fn nothing_else_of_the_far_end_sends() {
        let files = [
            ("answering.rs", include_str!("answering.rs")),
            ("budget.rs", include_str!("budget.rs")),
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
