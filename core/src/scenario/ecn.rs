//! The key `ecn` of a flow: a switch, or the name of accurate ECN.

use super::error::{Collector, Fix};
use super::read::Field;
use super::value::{Node, Value};
use super::write::quote;
use crate::tcp::EcnNegotiation;
use alloc::format;

/// The value of the key for accurate ECN.
const ACCURATE: &str = "accecn";

/// Reads the key.
pub(super) fn read(out: &mut Collector<'_>, f: &Field<'_>) -> Option<EcnNegotiation> {
    if let Value::String(name) = &f.node().value {
        if name == ACCURATE {
            return Some(EcnNegotiation::Accurate);
        }
        if name.to_lowercase().starts_with("acc") {
            let problem = format!("is neither true, false nor {ACCURATE}");
            out.refuse(f, problem, Fix::Value(quote(ACCURATE)));
            return None;
        }
    }
    Some(if out.switch(f)? {
        EcnNegotiation::Requested
    } else {
        EcnNegotiation::Off
    })
}

/// The value in a scenario's notation; `None` if the key is absent, so that both ends use what the
/// congestion control needs.
pub(super) fn node(ecn: EcnNegotiation) -> Option<Node> {
    match ecn {
        EcnNegotiation::Both => None,
        EcnNegotiation::Accurate => Some(Node::string(ACCURATE)),
        EcnNegotiation::Off | EcnNegotiation::Requested => {
            Some(Node::bool(ecn == EcnNegotiation::Requested))
        }
    }
}
