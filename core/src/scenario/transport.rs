//! The transport of a flow, and the other keys of a flow that it permits.

use super::Choice;
use super::error::{Collector, Fix};
use super::parse::Known;
use super::read::{Field, Section, listed};
use super::write::quote;
use crate::param::Params;
use crate::registry::endpoint::Kind;
use alloc::format;

/// Keys of Linux's TCP and of its applications.
const OF_TCP: [(&str, &str); 3] = [
    ("workload", "only the TCP of narrows supports workloads"),
    ("like", "it is no part of Linux"),
    ("ip", "transports use IPv4"),
];
/// Maximum number of characters of a transport's name.
const MOST_NAME: usize = 64;

/// The transport of a flow; `Some(None)` for the TCP of Linux, `None` after an error.
pub(super) fn transport<'k>(
    out: &mut Collector<'_>,
    s: &Section<'_>,
    known: &'k Known,
) -> Option<Option<&'k Kind>> {
    let Some(f) = s.field("transport") else {
        return Some(None);
    };
    let name = out.text(&f, MOST_NAME)?;
    let Some(kind) = known.transports.iter().find(|kind| kind.name == name) else {
        let problem = format!(
            "is not loaded: build the adapter with `make adapters`, and load it with --plugin \
             {name}"
        );
        out.refuse(&f, problem, Fix::None);
        return None;
    };
    let mut good = Some(Some(kind));
    for (key, why) in OF_TCP {
        if let Some(other) = s.field(key) {
            let problem = format!("cannot be combined with a transport: {why}");
            out.refuse(&other, problem, Fix::None);
            good = None;
        }
    }
    good
}

/// The congestion control of a transport; by default its first one.
pub(super) fn cc(
    out: &mut Collector<'_>,
    f: Option<&Field<'_>>,
    transport: Option<&Kind>,
) -> Option<Choice> {
    let ccs = &transport?.ccs;
    let default = ccs.first().copied().unwrap_or("");
    let name = match f {
        Some(f) => out.text(f, MOST_NAME)?,
        None => default,
    };
    if !ccs.contains(&name) {
        let problem = format!(
            "is not a congestion control of this transport; known: {}",
            listed(ccs)
        );
        out.refuse(f?, problem, Fix::Value(quote(default)));
        return None;
    }
    Some(Choice {
        kind: name.into(),
        params: Params::default(),
    })
}
