//! Keeps the session with the server open during a test, and opens a new one after the server was
//! restarted.
//!
//! A separate thread waits for the control connection, so that no question is delayed. The
//! connection ends if the server is restarted or ends the session. The thread then tries to connect
//! every `RETRY`. It passes the cookie of the new session to
//! [`Sessions`](crate::latency::protocol::Sessions), whose questions use it from then on. TCP
//! keepalives detect a server that disappeared.

use crate::HostError;
use crate::measure::link::{self, Link, Peer};
use crate::protocols::wire::Cookie;
use crate::sys;
use crate::sys::socket;
use portable_atomic::AtomicU64;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Interval between two attempts to connect.
const RETRY: Duration = Duration::from_millis(250);
/// Longest wait for input of the connection, ns. The end of the test is noticed within this time.
const LONGEST: u64 = 1_000_000_000;
/// TCP keepalives: seconds of silence before the first one, interval in s, and number of unanswered
/// ones after which the connection ends.
const KEEPALIVE: (u32, u32, u32) = (2, 1, 3);

struct Shared {
    link: Mutex<Link>,
    over: AtomicBool,
    again: AtomicU64,
}

impl Shared {
    fn link(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the session of a test open until it is dropped.
pub struct Keeper(Arc<Shared>);

/// Requests a thread of the server for questions from `port`; returns the server's answer.
pub fn ask_from(link: &mut Link, port: u16) -> Result<Value, HostError> {
    link.say(&json!({ "do": "latency", "port": port }))?;
    let answer = link.expect(&["latency"])?;
    socket::keep_alive(link.socket(), KEEPALIVE);
    Ok(answer)
}

impl Keeper {
    /// Keeps the session of `link` open, for questions from `port`. The returned receiver gets the
    /// cookies of later sessions.
    pub fn new(
        link: Link,
        to: SocketAddr,
        token: Option<String>,
        port: u16,
    ) -> (Keeper, Receiver<Cookie>) {
        let shared = Arc::new(Shared {
            link: Mutex::new(link),
            over: AtomicBool::new(false),
            again: AtomicU64::new(0),
        });
        let (renew, renewed) = channel();
        let held = Arc::clone(&shared);
        std::thread::spawn(move || hold(&held, to, token.as_deref(), port, &renew));
        (Keeper(shared), renewed)
    }
    /// Number of sessions that were opened again.
    pub fn reconnections(&self) -> u64 {
        self.0.again.load(Relaxed)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.over.store(true, Relaxed);
        let _ = self.0.link().say(&json!({ "do": "bye" }));
    }
}

fn hold(shared: &Shared, to: SocketAddr, token: Option<&str>, port: u16, renew: &Sender<Cookie>) {
    while !shared.over.load(Relaxed) {
        let fd = shared.link().socket().as_raw_fd();
        let _ = sys::wait_readable(&[fd], LONGEST);
        if shared.over.load(Relaxed) {
            return;
        }
        // The content of messages is ignored; only the end of the connection matters.
        let heard = shared.link().hear(0);
        match heard {
            Ok(_) => continue,
            // The main thread handles the signal. The session stays open until the test ends.
            Err(HostError::Stopped) => {
                std::thread::sleep(RETRY);
                continue;
            }
            Err(_) => {}
        }
        let Some(mut link) = again(shared, to, token, port) else {
            return;
        };
        if shared.over.load(Relaxed) {
            let _ = link.say(&json!({ "do": "bye" }));
            return;
        }
        let cookie = link.cookie;
        *shared.link() = link;
        shared.again.fetch_add(1, Relaxed);
        if renew.send(cookie).is_err() {
            return;
        }
    }
}

fn again(shared: &Shared, to: SocketAddr, token: Option<&str>, port: u16) -> Option<Link> {
    while !shared.over.load(Relaxed) && !sys::stopped() {
        if let Ok(Peer::Narrows(mut link)) = link::meet(to, token, "`narrows serve`") {
            if ask_from(&mut link, port).is_ok() {
                return Some(link);
            }
        }
        std::thread::sleep(RETRY);
    }
    None
}
