//! The sockets by which the far end sends. Each charges what it sends to a budget, and none shows
//! how to send without one: the only calls of this folder that send are in this file (a test
//! compares).
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
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// Bytes of one document of counters.
const METRICS: u64 = 64 << 10;
/// Unsent bytes of an object that wait in the kernel.
const OBJECT_UNSENT: u32 = 128 << 10;

/// Who pays for what a connection sends.
enum Payer {
    /// Nobody yet: so many bytes are left.
    Nobody(u64),
    /// A session, for its control connection.
    Control(Arc<Allowance>),
    /// A session, for objects of pages, and what it has promised to this connection.
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
    /// The connection is not pending any more.
    fn settled(&self) {
        self.accounts.settled(self.source, self.id);
    }
    /// Nobody pays for it any more; false where nobody did.
    fn leave(&mut self) -> bool {
        match std::mem::replace(&mut self.payer, Payer::Nobody(PENDING_BYTES)) {
            Payer::Nobody(left) => {
                self.payer = Payer::Nobody(left);
                return false;
            }
            Payer::Control(allowance) => allowance.hold(&mut self.charged, 0),
            Payer::Objects(allowance, _) => {
                allowance.hold(&mut self.charged, 0);
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

/// A TCP connection that was accepted.
pub struct Connection {
    socket: OwnedFd,
    from: SocketAddr,
    ticket: Ticket,
    descriptor: Descriptor,
}

/// What came of accepting.
pub enum Accepted {
    /// Nobody waits.
    None,
    /// A connection.
    Connection(Connection),
    /// One whose address makes or has more of them than it may: it was closed at once.
    TooMany,
}

impl Connection {
    /// The next connection of a listener.
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
            // A reset leaves nothing behind in this kernel.
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
    /// The client's address.
    pub fn from(&self) -> IpAddr {
        self.from.ip()
    }
    /// The same with its port.
    pub fn peer(&self) -> SocketAddr {
        self.from
    }
    /// The same, as limits see it.
    pub fn source(&self) -> Source {
        self.ticket.source
    }
    /// Its number among all that were accepted.
    pub fn id(&self) -> u64 {
        self.ticket.id
    }
    /// For options, for waiting, and for reading.
    pub fn fd(&self) -> &OwnedFd {
        &self.socket
    }
    /// Number of the descriptor: the kernel gives the lowest that is free.
    pub fn number(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
    /// Whether it does not belong to a session.
    pub fn pending(&self) -> bool {
        matches!(self.ticket.payer, Payer::Nobody(_))
    }
    /// It is the control connection of a session from now on.
    pub fn admit(&mut self, allowance: &Arc<Allowance>) {
        if self.pending() {
            self.ticket.settled();
            socket::watch_peer(&self.socket);
            self.ticket.payer = Payer::Control(Arc::clone(allowance));
        }
    }
    /// It fetches objects of a session from now on; false where that has as many such connections
    /// as it may.
    pub fn fetch(&mut self, allowance: &Arc<Allowance>) -> bool {
        if let Payer::Objects(now, _) = &self.ticket.payer {
            return Arc::ptr_eq(now, allowance) && !allowance.spent();
        }
        if !self.pending() || !allowance.add_object() {
            return false;
        }
        self.ticket.settled();
        let _ = sys::set_notsent_lowat(&self.socket, OBJECT_UNSENT);
        self.ticket.payer = Payer::Objects(Arc::clone(allowance), Promised::new(allowance.load()));
        true
    }
    /// Up to `wanted` bytes of an object that its session has left, and that nobody else is going
    /// to send.
    pub fn promise(&mut self, wanted: u64) -> u64 {
        match &mut self.ticket.payer {
            Payer::Objects(_, promised) => promised.more(wanted),
            Payer::Nobody(_) | Payer::Control(_) => 0,
        }
    }
    /// Its session has ended: it may send a farewell of so many bytes yet.
    pub fn dismiss(&mut self, farewell: usize) {
        if self.ticket.leave() {
            self.ticket
                .accounts
                .unsettled(self.ticket.source, self.ticket.id);
            self.ticket.payer = Payer::Nobody(farewell as u64);
        }
    }
    /// Writes what the kernel takes of `bytes`; `None` where that is nothing now.
    pub fn send(&mut self, bytes: &[u8], now: u64) -> io::Result<Option<usize>> {
        let most = match &self.ticket.payer {
            Payer::Nobody(0) => return Err(io::Error::other("it may send nothing more")),
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
    /// Charges the memory that its socket and `more` bytes of ours take, and notes when its peer
    /// was heard.
    pub fn look(&mut self, more: usize, now: u64) {
        let ticket = &mut self.ticket;
        if let Payer::Control(allowance) | Payer::Objects(allowance, _) = &ticket.payer {
            allowance.hold(
                &mut ticket.charged,
                socket::memory(&self.socket) + more as u64,
            );
            allowance.alive(now.saturating_sub(socket::silence(&self.socket)));
        }
    }
    /// The socket alone, for load of a session: [`crate::measure::bulk::Stream`] charges what it
    /// moves.
    pub fn into_load(self) -> (OwnedFd, Descriptor) {
        (self.socket, self.descriptor)
    }
}

/// Answers that leave together.
#[derive(Default)]
pub struct Answers {
    list: Vec<Outgoing>,
}

impl Answers {
    /// One more, where its permit covers it.
    pub fn push(&mut self, answer: Outgoing, permit: Permit) {
        if answer.len <= permit.bytes() {
            self.list.push(answer);
        }
    }
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Outgoing> {
        self.list.iter()
    }
    /// None yet.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// What has left of datagrams that nobody asked for one by one.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Flooded {
    /// So many, and the socket took all of them.
    All(u64),
    /// So many: the socket has no room for more.
    Some(u64),
    /// None before this time, ns of the even clock.
    Wait(u64),
    /// None any more.
    Stop,
}

/// The datagram socket of all sessions.
pub struct DatagramSocket {
    fd: OwnedFd,
    v6: bool,
}

impl DatagramSocket {
    /// At that address, which sockets of single clients may share.
    pub fn new(at: SocketAddr) -> io::Result<DatagramSocket> {
        let fd = socket::shared_datagrams(at)?;
        Ok(DatagramSocket {
            fd,
            v6: at.is_ipv6(),
        })
    }
    /// For whom root becomes: sockets of single clients share its address, and only one user's may.
    pub fn fd(&self) -> &OwnedFd {
        &self.fd
    }
    /// Where it is.
    pub fn local(&self) -> io::Result<SocketAddr> {
        socket::local(&self.fd)
    }
    /// Datagrams that have come; how many were lost before them, where the kernel says so.
    pub fn receive(&self, to: &mut Vec<Datagram>) -> io::Result<Option<u32>> {
        datagram::receive(&self.fd, to)
    }
    /// Waits for datagrams, for so many ns.
    pub fn wait(&self, ns: u64) {
        let _ = sys::wait_readable(&[self.fd.as_raw_fd()], ns);
    }
    /// Sends the answers. One that the socket has no room for is lost like any other.
    pub fn answer(&self, answers: &mut Answers) {
        for some in answers.list.chunks(BATCH) {
            let _ = datagram::send(&self.fd, some, self.v6);
        }
        answers.list.clear();
    }
    /// Sends up to `wanted` datagrams of `len` bytes, as many as the allowance has now; `datagram`
    /// is told their places, from zero.
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
    /// At `at`; with a peer, for that one alone.
    pub fn new(at: SocketAddr, peer: Option<SocketAddr>) -> io::Result<AnswerSocket> {
        Ok(AnswerSocket {
            socket: TimedSocket::new(at, peer, true, peer.is_some())?,
        })
    }
    /// Where it is.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.socket.local()
    }
    /// For options.
    pub fn fd(&self) -> &OwnedFd {
        self.socket.fd()
    }
    /// The next datagram; `waits`: for some time, asleep.
    pub fn receive(&self, to: &mut [u8], waits: bool) -> io::Result<Option<Got>> {
        if waits {
            self.socket.wait_for(to)
        } else {
            self.socket.receive(to)
        }
    }
    /// Sends an answer; its number, or `None` where the permit does not cover it or there is no
    /// room.
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
    /// When an answer left.
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
