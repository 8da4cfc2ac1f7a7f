//! `narrows-host serve`: the server of measurements. It serves many clients at once on one port,
//! TCP and UDP, in two protocols: narrows' own ([`crate::protocols::wire`]) and iperf3's
//! ([`crate::protocols::iperf3`]).
//!
//! There are three kinds of threads: the [`listener`] (all control connections), a few for load
//! ([`crate::measure::bulk`]), and one for datagrams ([`udp`]). The documentation of
//! [`crate::measure::bulk`] explains why there is no async runtime. Further threads answer for
//! single clients ([`answering`]) and for the services of `narrows latency`. When a thread of the
//! server itself fails, the server ends with an error. The server needs root only for a port below
//! 1024, for answers by the kernel ([`xdp`]), and for what [`confine::Keep`] lists.
//!
//! Input of a peer cannot exhaust resources: each table has a limit ([`limits`]), each wait a
//! timeout, and each message a largest length. Every refusal is counted ([`counters`]). Output is
//! charged to a session and a source address ([`budget`]). The only sockets that send are those of
//! [`metered`] and the streams of [`crate::measure::bulk`], both of which require a budget.
//!
//! `docs/reference/far-end.md` documents the server for its users.

pub mod answering;
pub mod budget;
#[cfg(target_endian = "little")]
mod calls;
pub mod confine;
pub mod counters;
pub mod fed;
pub mod iperf;
pub mod limits;
pub mod listener;
pub mod metered;
pub mod options;
pub mod page;
pub mod pending;
pub mod session;
pub mod shared;
pub mod shares;
pub mod source;
pub mod udp;
pub mod xdp;

use crate::HostError;
use crate::latency::answer::{Answered, Responder};
use crate::latency::payer::Payer;
use crate::measure::bulk::Carriers;
use crate::serve::listener::{Listener, ListeningSocket};
use crate::sys;
use crate::sys::schedule;
use crate::sys::socket;
use budget::Accounts;
use confine::Keep;
use counters::Counters;
use limits::PRIVILEGED;
use options::Options;
use shared::Shared;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use udp::Exchange;

fn listen(at: SocketAddr) -> Result<OwnedFd, HostError> {
    socket::listen(at).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => HostError::Missing(format!(
            "{at} is in use by another program; select another port with --port"
        )),
        io::ErrorKind::PermissionDenied => HostError::Missing(format!(
            "{at}: only root may use a port below 1024; select another port with --port"
        )),
        io::ErrorKind::AddrNotAvailable => HostError::Missing(format!(
            "{at} is not an address of this host; write one with \
             --bind"
        )),
        _ => HostError::Failed("listening", error),
    })
}

/// Runs the server until a signal requests its end. `ready` is called with the name and address of
/// each service.
pub fn run(options: &Options, ready: &mut dyn FnMut(&str, SocketAddr)) -> Result<(), HostError> {
    let descriptors = socket::allow_descriptors();
    let mut at = SocketAddr::new(options.bind, options.port);
    let listener = match (listen(at), options.bound) {
        (Ok(listener), _) => listener,
        // No address was given, and this kernel may have no IPv6: IPv4 is tried.
        (Err(_), false) => {
            at = SocketAddr::new(std::net::Ipv4Addr::UNSPECIFIED.into(), options.port);
            listen(at)?
        }
        (Err(error), true) => return Err(error),
    };
    at = socket::local(&listener).map_err(HostError::failed("listening"))?;
    let counters = Arc::new(Counters::default());
    let accounts = Accounts::new(options.limits);
    accounts.descriptors().limit(descriptors);
    let exchange = Exchange::new(at, &accounts, Arc::clone(&counters));
    let exchange = exchange.map_err(HostError::failed("listening for datagrams"))?;
    let mut listeners = vec![ListeningSocket {
        socket: listener,
        metrics: false,
    }];
    if let Some(at) = options.metrics {
        listeners.push(ListeningSocket {
            socket: listen(at)?,
            metrics: true,
        });
    }
    let only = options.bound.then_some(options.bind);
    let services = options.answers.iter().map(|(_, port)| *port);
    let ports: Vec<u16> = [options.xdp_port, at.port()]
        .into_iter()
        .chain(services)
        .collect();
    let attach = |device: &String| xdp::Echo::attach(device, &ports, only);
    let echo = options.xdp.as_ref().map(attach).transpose()?;
    let mut responders = Vec::new();
    for (answers, port) in &options.answers {
        let at = SocketAddr::new(at.ip(), *port);
        let payer = Payer::Source(Arc::clone(&accounts));
        let responder = Responder::new(
            at,
            None,
            *answers,
            options.policy.clone(),
            options.stall,
            payer,
        );
        responders.push(responder.map_err(|e| {
            HostError::Missing(format!(
                "{at}: {e}; select a port that no other program uses, or run as root for one below \
                 1024"
            ))
        })?);
    }
    // All sockets are open, and no thread has started that would keep the privileges dropped here.
    options.policy.prepare();
    schedule::allow_niceness(udp::NICENESS);
    let keep = Keep {
        net_admin: options.net_admin,
        low_port: at.port() < PRIVILEGED,
        lock: options.policy.locks(),
        nice: options.policy.hastens(),
        bpf: options.xdp.is_some(),
    };
    let confined = confine::confine(options.user, keep, &[exchange.fd()])?;
    let shared = Shared {
        accounts: Arc::clone(&accounts),
        token: options.token.clone(),
        public: options.public(at.port()),
        counters,
        carriers: Carriers::new().map_err(HostError::failed("threads for load"))?,
        ccs: options.ccs.clone(),
        exchange: Arc::new(exchange),
        answering: (options.policy.clone(), options.stall),
        net_admin: options.net_admin,
        echo,
    };
    let mut ports = vec![at.port()];
    ports.extend(options.xdp.as_ref().map(|_| options.xdp_port));
    let locals: Result<Vec<SocketAddr>, _> = responders.iter().map(Responder::local).collect();
    let locals = locals.map_err(HostError::failed("listening for datagrams"))?;
    ports.extend(locals.iter().map(SocketAddr::port));
    accounts.answers_at(ports);
    let stop = AtomicBool::new(false);
    let mut listener =
        Listener::new(listeners, &shared, descriptors).map_err(HostError::failed("epoll"))?;
    for notice in confined
        .kept()
        .into_iter()
        .chain(shares::notice(descriptors))
    {
        crate::terminal::say(format!("narrows serve: {notice}"));
    }
    ready("serving", at);
    for (responder, at) in responders.iter().zip(locals) {
        let range =
            std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
        if let Some(notice) = responder
            .is_echo()
            .then(|| limits_clients(at.port(), &range))
            .flatten()
        {
            crate::terminal::say(format!("narrows serve: {notice}"));
        }
        ready(responder.name(), at);
    }
    let (done, stop) = (Answered::default(), &stop);
    let (shared, done) = (&shared, &done);
    std::thread::scope(|scope| {
        let mut threads = vec![scope.spawn(move || {
            guarded("datagrams", stop, || {
                shared.exchange.run(stop);
                Ok(())
            })
        })];
        threads.extend(responders.into_iter().map(|responder| {
            let name = responder.name();
            scope.spawn(move || guarded(name, stop, || responder.run(done, stop)))
        }));
        let served = guarded("connections", stop, || {
            listener.run(stop);
            Ok(())
        });
        let ended = threads.into_iter().map(|thread| {
            let broken = |_| Err(HostError::Broken("a thread of the server failed".into()));
            thread.join().unwrap_or_else(broken)
        });
        // The end of any thread has stopped the others.
        ended.fold(served, Result::and)
    })?;
    if sys::stopped() {
        return Err(HostError::Stopped);
    }
    Ok(())
}

/// A notice if an echo at `port` would give some clients only a few answers per second, because
/// their ports are not above it. `range`: the first and last ephemeral port of this kernel.
fn limits_clients(port: u16, range: &str) -> Option<String> {
    let first = range
        .split_whitespace()
        .next()
        .and_then(|first| first.parse::<u16>().ok())?;
    (port >= first).then(|| {
        format!(
            "--echo {port}: clients use ports from {first}, and those up to {port} get {} \
             answers per second; select a port below {first}",
            limits::UNRECOGNISED
        )
    })
}

/// Runs the work of one thread of the server. When it ends or fails, the other threads are stopped,
/// since a partial failure would go unnoticed.
fn guarded(
    name: &str,
    stop: &AtomicBool,
    work: impl FnOnce() -> Result<(), HostError>,
) -> Result<(), HostError> {
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    stop.store(true, Relaxed);
    done.unwrap_or_else(|_| {
        Err(HostError::Broken(format!(
            "the thread for {name} failed; see the lines above"
        )))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_among_the_ports_of_clients_is_reported() {
        assert_eq!(limits_clients(7777, "32768\t60999\n"), None);
        let notice = limits_clients(40_000, "32768\t60999\n").expect("a notice");
        assert!(
            notice.starts_with("--echo 40000: ") && notice.ends_with("below 32768"),
            "{notice}"
        );
        assert_eq!(limits_clients(40_000, ""), None);
    }

    #[test]
    fn a_thread_that_fails_ends_the_server_with_an_error() {
        let stop = AtomicBool::new(false);
        let error = guarded("datagrams", &stop, || panic!("on purpose")).expect_err("it failed");
        assert!(
            error
                .to_string()
                .contains("the thread for datagrams failed"),
            "{error}"
        );
        assert!(stop.load(Relaxed));
        let stop = AtomicBool::new(false);
        assert!(guarded("echo", &stop, || Ok(())).is_ok() && stop.load(Relaxed));
    }
}
