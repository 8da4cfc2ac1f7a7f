//! A thread that answers the latency probes ("timed questions") of one client. Its socket shares
//! address and port with the server's common datagram socket, and is connected to the client. The
//! kernel delivers the client's datagrams to that socket, so no other traffic delays the answers.

use super::budget::Allowance;
use super::shared::Shared;
use crate::HostError;
use crate::latency::answer::{Answered, Answers, Responder};
use crate::latency::payer::Payer;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The handle of the thread. After the handle is dropped, the thread ends by itself; nothing waits
/// for it.
pub struct Answering {
    peer: SocketAddr,
    stop: Arc<AtomicBool>,
    done: Arc<Answered>,
    seen: u64,
}

impl Answering {
    /// Fails if a client at the port of `peer` may not have a thread. A socket connected to port 0
    /// would receive the datagrams of all clients.
    pub fn allowed(shared: &Shared, peer: SocketAddr) -> Result<(), HostError> {
        let port = peer.port();
        let refused =
            || format!("port {port}: select a port above 1023 at which this host does not answer");
        let answerable = shared.accounts.answerable(port);
        answerable
            .then_some(())
            .ok_or_else(|| HostError::Missing(refused()))
    }
    /// Starts a thread for the client at `peer`; its answers are charged to the session of
    /// `allowance`.
    pub fn start(
        shared: &Shared,
        allowance: &Arc<Allowance>,
        peer: SocketAddr,
        answers: Answers,
    ) -> Result<Answering, HostError> {
        Answering::allowed(shared, peer)?;
        let failed = HostError::failed("a socket for timed questions");
        let (policy, stall) = shared.answering.clone();
        let payer = Payer::Session(Arc::clone(allowance));
        let responder = Responder::new(
            shared.exchange.at(),
            Some(peer),
            answers,
            policy,
            stall,
            payer,
        );
        let responder = responder.map_err(failed)?;
        let (stop, done) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(Answered::default()),
        );
        let (its_stop, its_done) = (Arc::clone(&stop), Arc::clone(&done));
        std::thread::Builder::new()
            .name("answering".into())
            // If this thread fails, the common datagram thread answers.
            .spawn(move || drop(responder.run(&its_done, &its_stop)))
            .map_err(HostError::failed("a thread for timed questions"))?;
        Ok(Answering {
            peer,
            stop,
            done,
            seen: 0,
        })
    }
    /// The address and port of the client.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }
    /// Whether the thread has answered a question since the last call.
    pub fn works(&mut self) -> bool {
        let answers = self.answers();
        std::mem::replace(&mut self.seen, answers) != answers
    }
    /// Number of questions that the thread has answered.
    pub fn answers(&self) -> u64 {
        self.done.answers.load(Relaxed)
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
    }
}
