//! Streams of datagrams of a session ([`crate::measure::transport`]): their terms, and their start
//! when the client has proved its address and port.

use super::{Flow, Session, say};
use crate::measure::bulk::{Role, Stream};
use crate::measure::transport::segment::Key;
use crate::measure::transport::{self, Terms};
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

/// The transports of this server, beside the kernel's TCP.
pub(super) fn transports() -> &'static [&'static str] {
    if transport::PRESENT { &["udp"] } else { &[] }
}

/// The terms of a stream that a client requests: those of its sender's congestion control. `None`
/// if the request is invalid; the inner error is the reason for a refusal.
pub(super) fn terms(
    request: &Value,
    role: Role,
    cc: Option<&str>,
    shared: &Shared,
) -> Option<Result<Terms, String>> {
    let theirs = request.get("terms").and_then(Terms::from_json)?;
    Some(match role {
        Role::Receiver => Ok(theirs),
        Role::Sender => {
            let cc = transport::cc(&shared.ccs, cc);
            cc.map(|cc| Terms::of(cc).with_payload(theirs.payload))
        }
    })
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
        let Some(Flow::Datagrams(role, wanted, terms)) = self.flows.get(&stream) else {
            return Err("it is not open".into());
        };
        let Some(allowance) = &self.allowance else {
            return Err("the session has ended".into());
        };
        let descriptor = shared.accounts.descriptors().take(self.from.into());
        let descriptor = descriptor.ok_or("too many connections")?;
        let failed = |error: std::io::Error| format!("a socket for datagrams: {error}");
        let socket = shared.exchange.socket_to(peer).map_err(failed)?;
        let terms = terms.fitted(&socket, peer.is_ipv4());
        if let (Role::Receiver, Some(rate)) = (role, shared.accounts.limits().rate) {
            socket::limit_input(&socket, waiting(rate));
        }
        let cc = transport::cc(&shared.ccs, wanted.cc.as_deref())?;
        let budget = allowance.load();
        let flow = transport::Flow::new(*role, cc, terms, (key, peer), wanted.dscp, budget);
        let flow = flow.map_err(failed)?;
        let load = Stream::datagrams(socket, *role, Arc::clone(budget), flow);
        let mut carried = Carried::of(load, allowance, descriptor);
        Counters::more(&shared.counters.streams_total);
        if *role == Role::Receiver {
            carried.start(shared);
        }
        let joined = json!({
            "is": "joined", "stream": stream, "cc": cc.name, "terms": terms.to_json(),
        });
        Ok((carried, joined))
    }
}
