//! A thread that answers the timed questions of one client, on a socket of its own at the far end's usual address: the kernel gives it
//! what that client sends, and nothing else stands in its way.

use super::shared::Shared;
use crate::latency::answer::{Answered, Answers, Responder};
use crate::HostError;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;
use std::thread::JoinHandle;

/// The thread; it ends when this is dropped.
pub struct Answering {
    stop: Arc<AtomicBool>,
    done: Arc<Answered>,
    seen: u64,
    thread: Option<JoinHandle<()>>,
}

impl Answering {
    /// For the client at `peer`.
    pub fn start(shared: &Shared, peer: SocketAddr, answers: Answers) -> Result<Answering, HostError> {
        let failed = HostError::failed("a socket for timed questions");
        let (policy, stall) = shared.answering.clone();
        let responder = Responder::new(shared.exchange.at(), Some(peer), answers, policy, stall).map_err(failed)?;
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(Answered::default()));
        let (its_stop, its_done) = (Arc::clone(&stop), Arc::clone(&done));
        let thread = std::thread::Builder::new()
            .name("answering".into())
            // What it cannot do any more, the thread for everybody does.
            .spawn(move || drop(responder.run(&its_done, &its_stop)))
            .map_err(HostError::failed("a thread for timed questions"))?;
        Ok(Answering {
            stop,
            done,
            seen: 0,
            thread: Some(thread),
        })
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
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
