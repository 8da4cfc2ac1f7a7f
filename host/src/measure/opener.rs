//! Opens a flow of datagrams to `narrows serve` ([`super::transport`]), as its client.

use super::link::{Link, PATIENCE};
use super::options::{Options, Transport};
use super::pacer::Pacer;
use super::plan::{Direction, FlowSpec};
use super::transport::segment::Key;
use super::transport::{Terms, cc as control, own, quic};
use crate::HostError;
use crate::digest::from_hex;
use crate::error::{is_outage, reason};
use crate::measure::bulk::{Budget, Role, Stream};
use crate::protocols::wire::{Cookie, Opening, PING};
use crate::sys;
use crate::sys::datagram::{self, Outgoing};
use crate::sys::socket;
use crate::terminal::field;
use narrows_core::cc::CcKind;
use serde_json::Value;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Interval of the datagrams that open a flow, ns.
const AGAIN: u64 = 100_000_000;
/// Time limit for opening a flow, ns.
const MOST: u64 = PATIENCE / 2;
/// Interval of looks at datagrams while the control connection is read, ns.
const LOOK: u64 = 2_000_000;

/// The public key of the server for QUIC, for which it has vouched by the token.
fn pinned(joined: &Value, link: &Link) -> Result<quic::PublicKey, HostError> {
    let key = joined["key"].as_str().and_then(from_hex::<{ quic::KEY }>);
    let key = key.filter(|key| link.vouched(key, joined["proof"].as_str()));
    let problem = "the server sent no public key for QUIC, or did not vouch for it by the token";
    key.ok_or_else(|| HostError::Broken(problem.into()))
}

/// A flow that is being opened.
pub struct Opener {
    socket: OwnedFd,
    to: SocketAddr,
    stream: u16,
    cookie: Cookie,
    /// Key of the flow; zero until the server has sent it.
    key: Key,
    flow: Proposal,
    pacer: Pacer,
}

/// The proposal of this end for the flow.
enum Proposal {
    /// Narrows' own TCP. The congestion control is that of the sender, if this host sends.
    Udp(Box<CcKind>, Terms),
    /// QUIC, likewise.
    Quic(&'static str),
}

impl Opener {
    /// A socket for flow `stream`, whose sender has the congestion control `cc`. Fails if the
    /// server does not have the transport, or if this host sends without knowing `cc`.
    pub fn new(
        link: &Link,
        to: SocketAddr,
        stream: u16,
        direction: Direction,
        options: &Options,
        cc: Option<&str>,
    ) -> Result<Opener, HostError> {
        let (transport, ccs) = (options.transport, &options.ccs);
        let (known, name) = (link.welcome["transports"].as_array(), transport.name());
        if !known.is_some_and(|known| known.iter().any(|one| one == name)) {
            return Err(HostError::Missing(format!(
                "{to} does not have --transport {name}: its narrows {} is older, or a small build; \
                 update it, or write --transport tcp",
                link.version
            )));
        }
        let pacers = link.welcome["pacers"].as_array();
        let has = |name| pacers.is_some_and(|known| known.iter().any(|one| one == name));
        let pacer = options.pacer.unwrap_or_default();
        if direction == Direction::Down && pacer != Pacer::Timer && !has(pacer.name()) {
            return Err(HostError::Missing(format!(
                "{to} does not have --pacer {}: its narrows {} is older; update it, or write \
                 --pacer timer",
                pacer.name(),
                link.version
            )));
        }
        let failed = |error: std::io::Error| match is_outage(&error) {
            true => HostError::Silent(format!("{to}: {}", reason(&error)), "check the path".into()),
            false => HostError::Failed("the socket of a flow", error),
        };
        // The server knows the congestion control of a download.
        let cc = cc.filter(|_| direction == Direction::Up);
        let wrong = |why: String| HostError::Missing(format!("--cc {why}"));
        let flow = if transport == Transport::Quic {
            Proposal::Quic(quic::cc(cc).map_err(wrong)?)
        } else {
            let cc = control(ccs, cc).map_err(wrong)?.clone();
            let terms = Terms::of(&cc);
            Proposal::Udp(Box::new(cc), terms)
        };
        let any: SocketAddr = match to {
            SocketAddr::V4(_) => (std::net::Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = socket::datagrams(any).map_err(failed)?;
        socket::limit_output(&socket);
        socket::connect_datagrams(&socket, to).map_err(failed)?;
        if direction == Direction::Up {
            pacer
                .prepare(&socket, to.ip())
                .map_err(HostError::Missing)?;
        }
        let flow = match flow {
            Proposal::Udp(cc, terms) => Proposal::Udp(cc, terms.fitted(&socket, to.is_ipv4())),
            quic => quic,
        };
        Ok(Opener {
            socket,
            to,
            stream,
            cookie: link.cookie,
            key: Key::default(),
            flow,
            pacer,
        })
    }
    /// The terms that this end proposes; null if there are none.
    pub fn terms(&self) -> Value {
        match &self.flow {
            Proposal::Udp(_, terms) => terms.to_json(),
            Proposal::Quic(_) => Value::Null,
        }
    }
    /// Opens the flow: proves to the server that this host receives, and waits until the server has
    /// joined it. Returns the load of the flow, and the congestion control of its sender.
    pub fn join(
        mut self,
        link: &mut Link,
        spec: &FlowSpec,
        budget: &Arc<Budget>,
    ) -> Result<(Arc<Stream>, String), HostError> {
        let (until, mut next) = (sys::monotonic() + MOST, 0);
        let joined = loop {
            let now = sys::monotonic();
            if now > until {
                return Err(HostError::Silent(
                    format!("{}: no datagram of the server arrives", self.to),
                    "permit UDP to its port in firewalls, or write --transport tcp".into(),
                ));
            }
            if now >= next {
                next = now + AGAIN;
                self.ask();
            }
            if self.learn() {
                next = now;
                continue;
            }
            let Some(told) = link.hear(LOOK)? else {
                continue;
            };
            if told["stream"] != self.stream {
                continue;
            }
            match told["is"].as_str() {
                Some("joined") => break told,
                Some("refused") => {
                    let why = told["why"].as_str().map_or_else(String::new, field);
                    return Err(HostError::Missing(format!("{}: {why}", self.to)));
                }
                _ => {}
            }
        };
        let role = match spec.direction {
            Direction::Up => Role::Sender,
            Direction::Down => Role::Receiver,
        };
        let (cc, flow) = match &self.flow {
            Proposal::Udp(cc, terms) => {
                let theirs = Terms::from_json(&joined["terms"]).ok_or_else(|| {
                    HostError::Broken("the server proposes impossible terms".into())
                })?;
                let (terms, to) = (theirs.with_payload(terms.payload), (self.key, self.to));
                (
                    cc.name,
                    own(role, (cc, self.pacer), terms, to, spec.dscp, budget),
                )
            }
            Proposal::Quic(cc) => {
                let to = (pinned(&joined, link)?, self.to);
                (*cc, quic::connect(role, cc, to, spec.dscp, budget))
            }
        };
        let cc = match role {
            Role::Sender => cc.to_string(),
            Role::Receiver => joined["cc"].as_str().map_or_else(String::new, field),
        };
        let flow = flow.map_err(HostError::failed("a flow of datagrams"))?;
        let stream = Stream::datagrams(self.socket, role, Arc::clone(budget), flow);
        Ok((stream, cc))
    }
    /// Sends a datagram that opens the flow.
    fn ask(&self) {
        let opening = Opening {
            answer: false,
            stream: self.stream,
            cookie: self.cookie,
            key: self.key,
        };
        let one = Outgoing {
            to: None,
            class: None,
            departs: None,
            head: datagram::header(&opening.to_bytes()),
            head_len: PING,
            len: PING,
        };
        // A datagram that does not leave is repeated.
        let _ = datagram::send(&self.socket, &[one], false);
    }
    /// Reads the answers of the server; returns whether one has the key, which was unknown before.
    fn learn(&mut self) -> bool {
        let mut got = Vec::new();
        let _ = datagram::receive(&self.socket, &mut got);
        let before = self.key;
        for datagram in &got {
            let answer = Opening::from_bytes(datagram.bytes()).filter(|opening| {
                opening.answer && opening.stream == self.stream && opening.cookie == self.cookie
            });
            if let Some(answer) = answer {
                self.key = answer.key;
            }
        }
        self.key != before
    }
}
