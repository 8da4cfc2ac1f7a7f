//! `narrows-host serve`: the far end of measurements. Many clients at once on one port, TCP and UDP, of two protocols: narrows' own
//! ([`crate::wire`]) and iperf3's ([`crate::iperf3`]).
//!
//! Three kinds of threads: the [`door`] (every control connection), a few for load ([`crate::bulk`], which says why no runtime),
//! one for datagrams ([`udp`]). Nothing here needs a privilege but answers from inside the kernel ([`xdp`]), which are asked for. What a peer sends makes nothing grow: each table has a limit, each
//! wait a timeout, each message a length, and every refusal a counter ([`counters`]).
//!
//! `docs/reference/far-end.md` documents all of it.

pub mod answering;
pub mod counters;
pub mod door;
pub mod iperf;
pub mod options;
pub mod page;
pub mod session;
pub mod shared;
pub mod udp;
pub mod xdp;

use crate::bulk::Carriers;
use crate::latency::answer::{Answered, Responder};
use crate::{socket, sys, HostError};
use counters::Counters;
use door::{Door, Listener};
use options::Options;
use shared::Shared;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;
use udp::Exchange;

fn listen(at: SocketAddr) -> Result<OwnedFd, HostError> {
    socket::listen(at).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => HostError::Missing(format!(
            "{at} is taken: something listens there already; choose another with --port"
        )),
        io::ErrorKind::PermissionDenied => HostError::Missing(format!(
            "{at}: only root may take a port below 1024; choose another with --port"
        )),
        io::ErrorKind::AddrNotAvailable => {
            HostError::Missing(format!("{at} is no address of this machine: see --bind"))
        }
        _ => HostError::Failed("listening", error),
    })
}

/// Serves until a signal says stop. `ready` is told what is done where.
pub fn run(options: &Options, ready: &mut dyn FnMut(&str, SocketAddr)) -> Result<(), HostError> {
    socket::allow_descriptors();
    let mut at = SocketAddr::new(options.bind, options.port);
    let listener = match (listen(at), options.bound) {
        (Ok(listener), _) => listener,
        // A kernel without IPv6, and nobody asked for it.
        (Err(_), false) => {
            at = SocketAddr::new(std::net::Ipv4Addr::UNSPECIFIED.into(), options.port);
            listen(at)?
        }
        (Err(error), true) => return Err(error),
    };
    at = socket::local(&listener).map_err(HostError::failed("listening"))?;
    let counters = Arc::new(Counters::default());
    let exchange = Exchange::new(at, Arc::clone(&counters)).map_err(HostError::failed("listening for datagrams"))?;
    let mut listeners = vec![Listener {
        socket: listener,
        metrics: false,
    }];
    if let Some(at) = options.metrics {
        listeners.push(Listener {
            socket: listen(at)?,
            metrics: true,
        });
    }
    let only = options.bound.then_some(options.bind);
    let attach = |device: &String| xdp::Echo::attach(device, options.xdp_port, only);
    let echo = options.xdp.as_ref().map(attach).transpose()?;
    let shared = Shared {
        limits: options.limits,
        token: options.token.clone(),
        counters,
        carriers: Carriers::new().map_err(HostError::failed("threads for load"))?,
        exchange: Arc::new(exchange),
        answering: (options.policy.clone(), options.stall),
        echo,
    };
    let mut responders = Vec::new();
    for (answers, port) in &options.answers {
        let at = SocketAddr::new(at.ip(), *port);
        let responder = Responder::new(at, None, *answers, options.policy.clone(), options.stall);
        responders.push(responder.map_err(|e| {
            HostError::Missing(format!(
                "{at}: {e}; a port below 1024 needs root, and nobody else may have it"
            ))
        })?);
    }
    let stop = AtomicBool::new(false);
    let mut door = Door::new(listeners, &shared).map_err(HostError::failed("epoll"))?;
    ready("serving", at);
    for responder in &responders {
        let at = responder
            .local()
            .map_err(HostError::failed("listening for datagrams"))?;
        ready(responder.name(), at);
    }
    let done = Answered::default();
    let answer = |responder: Responder| {
        let answered = responder.run(&done, &stop);
        // One that cannot answer ends them all: nobody would notice.
        stop.store(true, Relaxed);
        answered
    };
    let answer = &answer;
    std::thread::scope(|scope| {
        scope.spawn(|| shared.exchange.run(&stop));
        let answering: Vec<_> = responders
            .into_iter()
            .map(|responder| scope.spawn(move || answer(responder)))
            .collect();
        let served = door.run(&stop).map_err(HostError::failed("waiting for clients"));
        stop.store(true, Relaxed);
        for thread in answering {
            thread
                .join()
                .map_err(|_| HostError::Broken("a thread that answers failed".into()))??;
        }
        served
    })?;
    if sys::stopped() {
        return Err(HostError::Stopped);
    }
    Ok(())
}
