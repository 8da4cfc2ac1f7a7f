//! A control session without a TCP connection, for fuzzing and tests: its state machine is fed
//! bytes and a simulated time.

use super::budget::Accounts;
use super::counters::Counters;
use super::limits::Limits;
use super::session::Session;
use super::shared::{Shared, Speaker};
use super::udp::Exchange;
use crate::latency::policy::Policy;
use crate::measure::bulk::Carriers;
use crate::measure::transport;
use crate::protocols::handshake::Transcript;
use crate::protocols::wire::{self, REQUEST};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, OnceLock};

/// Simulated time between two frames, ns.
const STEP: u64 = 50_000_000;
/// Requests that are skipped because they would act on this host: `latency` starts a thread with a
/// socket, and `forget` deletes cached TCP metrics.
const ACTING: [&str; 2] = ["latency", "forget"];

/// The shared state of a server without a listener, with default limits and without a token.
///
/// # Panics
/// If this host provides no socket or no thread.
pub fn shared() -> Shared {
    limited(Limits::default())
}

/// As [`shared`], with these limits.
///
/// # Panics
/// As [`shared`].
pub fn limited(limits: Limits) -> Shared {
    let accounts = Accounts::new(limits);
    let counters = Arc::new(Counters::default());
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let exchange =
        Exchange::new(any, &accounts, Arc::clone(&counters)).expect("a socket on loopback");
    Shared {
        exchange: Arc::new(exchange),
        accounts,
        token: None,
        public: Vec::new(),
        counters,
        carriers: Carriers::new().expect("threads for load"),
        ccs: transport::terms::standard(),
        answering: (Policy::default(), None),
        net_admin: false,
        echo: None,
    }
}

/// Feeds the frames in `bytes` to a new session, one after the other. The simulated time advances
/// by 50 ms per frame.
pub fn feed(bytes: &[u8]) {
    static SHARED: OnceLock<Shared> = OnceLock::new();
    let shared = SHARED.get_or_init(shared);
    let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
    let transcript = Transcript {
        client: [1; 16],
        server: [2; 16],
        from: peer,
        to: peer,
    };
    let (mut out, mut now, mut at) = (Vec::new(), STEP, 0);
    let mut session = Session::greeted(peer.ip(), transcript, now, &mut out, shared);
    while let Ok(Some((request, took))) = wire::frame(&bytes[at..], REQUEST) {
        at += took;
        now += STEP;
        let acts = request
            .get("do")
            .and_then(|name| name.as_str())
            .is_some_and(|name| ACTING.contains(&name));
        if acts {
            continue;
        }
        let heard = session.heard(&wire::to_frame(&request), &mut out, now, shared);
        if heard.is_err() || session.tick(&mut out, now, shared).is_err() {
            break;
        }
        out.clear();
    }
    // Bytes that form no frame end a session, too.
    let _ = session.heard(&bytes[at..], &mut out, now, shared);
    session.gone(shared);
}
