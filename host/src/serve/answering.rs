//! A thread that answers the timed questions of one client, on a socket of its own at the far end's
//! usual address: the kernel gives it what that client sends, and nothing else stands in its way.

use super::budget::Allowance;
use super::shared::Shared;
use crate::HostError;
use crate::latency::answer::{Answered, Answers, Payer, Responder};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The thread; it ends by itself, a moment after this is dropped: nobody waits for it.
pub struct Answering {
    peer: SocketAddr,
    stop: Arc<AtomicBool>,
    done: Arc<Answered>,
    seen: u64,
}

impl Answering {
    /// Whether a client may be answered at that port: without one its thread would get what all
    /// others send.
    pub fn allowed(shared: &Shared, peer: SocketAddr) -> Result<(), HostError> {
        let port = peer.port();
        let refused =
            || format!("port {port}: choose one above 1023 at which this host does not answer");
        let answerable = shared.accounts.answerable(port);
        answerable
            .then_some(())
            .ok_or_else(|| HostError::Missing(refused()))
    }
    /// For the client at `peer`, charged to its session.
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
            // What it cannot do any more, the thread for everybody does.
            .spawn(move || drop(responder.run(&its_done, &its_stop)))
            .map_err(HostError::failed("a thread for timed questions"))?;
        Ok(Answering {
            peer,
            stop,
            done,
            seen: 0,
        })
    }
    /// Whom it answers.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }
    /// Has it answered anything since it was last asked?
    pub fn works(&mut self) -> bool {
        let answers = self.answers();
        std::mem::replace(&mut self.seen, answers) != answers
    }
    /// How many questions it has answered.
    pub fn answers(&self) -> u64 {
        self.done.answers.load(Relaxed)
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
    }
}
