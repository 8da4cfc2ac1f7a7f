//! Streams of datagrams of a session ([`crate::measure::transport`]): their terms, and their start
//! when the client has proved its address and port.

use super::{Flow, Session, say};
use crate::digest::hex;
use crate::measure::bulk::{Role, Stream};
use crate::measure::pacer::Pacer;
use crate::measure::transport::segment::Key;
use crate::measure::transport::{self, Terms, quic};
use crate::serve::counters::Counters;
use crate::serve::shared::{Carried, Shared};
use crate::sys::socket;
use narrows_core::units::{Rate, Span};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;

/// Interval of looks at streams of datagrams that are being opened, ns.
const OPENING: u64 = 5_000_000;
/// Receive buffer of a rate-limited receiver, as the time in which the rate fills it. The second
/// value is the smallest such buffer, bytes.
const WAITING_INPUT: (Span, u64) = (Span::ms(100), 64 << 10);

/// The receive buffer at this rate, bytes. The kernel doubles it for its own data.
fn waiting(rate: Rate) -> u32 {
    let bytes = (rate * WAITING_INPUT.0).get().max(WAITING_INPUT.1);
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// A transport over UDP, with the terms of its flow.
#[derive(Copy, Clone, Debug)]
pub(super) enum Transport {
    /// Narrows' own TCP, with the pacer of its sender.
    Udp(Terms, Pacer),
    /// QUIC.
    Quic,
}

/// The transports of this server, beside the kernel's TCP.
pub(super) fn transports() -> &'static [&'static str] {
    match (transport::PRESENT, quic::PRESENT) {
        (true, true) => &["udp", "quic"],
        (true, false) => &["udp"],
        _ => &[],
    }
}

/// The transport of that name for a stream that a client requests, with the terms of its sender's
/// congestion control. `None` if the request is invalid; the inner error is the reason for a
/// refusal.
pub(super) fn requested(
    name: &str,
    request: &Value,
    role: Role,
    cc: Option<&str>,
    shared: &Shared,
) -> Option<Result<Transport, String>> {
    if !transports().contains(&name) {
        let known = name == "udp" || name == "quic";
        return known.then(|| Err(format!("this server has no transport {name}")));
    }
    if name == "quic" {
        let cc = cc.filter(|_| role == Role::Sender);
        return Some(quic::cc(cc).map(|_| Transport::Quic));
    }
    let theirs = request.get("terms").and_then(Terms::from_json)?;
    let pacer = match request.get("pacer") {
        Some(name) => Pacer::named(name.as_str()?)?,
        None => Pacer::Timer,
    };
    let terms = match role {
        Role::Receiver => Ok(theirs),
        Role::Sender => {
            let cc = transport::cc(&shared.ccs, cc);
            cc.map(|cc| Terms::of(cc).with_payload(theirs.payload))
        }
    };
    Some(terms.map(|terms| Transport::Udp(terms, pacer)))
}

impl Session {
    /// Joins the streams of datagrams whose client has proved its address and port.
    pub(super) fn join_datagrams(&mut self, out: &mut Vec<u8>, now: u64, shared: &Shared) {
        let Some(pinged) = self.pinged.clone() else {
            return;
        };
        for (stream, key, peer) in pinged.take_opened() {
            self.heard = now;
            match self.carry_datagrams(stream, (key, peer), shared) {
                Ok((carried, joined)) => {
                    say(out, &joined);
                    self.flows.insert(stream, Flow::Here(carried, Vec::new()));
                }
                Err(why) => {
                    self.flows.remove(&stream);
                    say(
                        out,
                        &json!({ "is": "refused", "stream": stream, "why": why }),
                    );
                }
            }
        }
        self.opening = if pinged.is_opening() {
            now + OPENING
        } else {
            u64::MAX
        };
    }
    /// The load of a stream of datagrams with a client at `peer`, and the message about it.
    fn carry_datagrams(
        &mut self,
        stream: u16,
        (key, peer): (Key, SocketAddr),
        shared: &Shared,
    ) -> Result<(Carried, Value), String> {
        let Some(Flow::Datagrams(role, wanted, transport)) = self.flows.get(&stream) else {
            return Err("it is not open".into());
        };
        let (role, dscp) = (*role, wanted.dscp);
        let Some(allowance) = &self.allowance else {
            return Err("the session has ended".into());
        };
        let descriptor = shared.accounts.descriptors().take(self.from.into());
        let descriptor = descriptor.ok_or("too many connections")?;
        let failed = |error: std::io::Error| format!("a socket for datagrams: {error}");
        let socket = shared.exchange.socket_to(peer).map_err(failed)?;
        if let (Role::Receiver, Some(rate)) = (role, shared.accounts.limits().rate) {
            socket::limit_input(&socket, waiting(rate));
        }
        let (cc, budget) = (wanted.cc.as_deref(), allowance.load());
        let (flow, mut joined) = match transport {
            Transport::Udp(terms, pacer) => {
                if role == Role::Sender {
                    pacer.prepare(&socket, peer.ip())?;
                }
                let terms = terms.fitted(&socket, peer.is_ipv4());
                let cc = transport::cc(&shared.ccs, cc)?;
                let flow = transport::own(role, (cc, *pacer), terms, (key, peer), dscp, budget);
                (flow, json!({ "cc": cc.name, "terms": terms.to_json() }))
            }
            Transport::Quic => {
                let cc = quic::cc(cc)?;
                let key = quic::public_key().map_err(failed)?;
                let token = shared.token.as_ref();
                let proof = token.map(|token| hex(&self.transcript.vouch(token, &key)));
                let flow = quic::accept(role, cc, peer, dscp, budget);
                (flow, json!({ "cc": cc, "key": hex(&key), "proof": proof }))
            }
        };
        let load = Stream::datagrams(socket, role, Arc::clone(budget), flow.map_err(failed)?);
        let mut carried = Carried::of(load, allowance, descriptor);
        Counters::more(&shared.counters.streams_total);
        if role == Role::Receiver {
            carried.start(shared);
        }
        joined["is"] = "joined".into();
        joined["stream"] = stream.into();
        Ok((carried, joined))
    }
}
