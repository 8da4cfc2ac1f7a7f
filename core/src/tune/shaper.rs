//! Shapers of an interface, which move the bottleneck to a queue that this host manages.
//!
//! Outgoing traffic is shaped on the interface itself. Incoming traffic cannot be queued there.
//! Incoming traffic is redirected to an `ifb` device, which shapes it as outgoing traffic. `cake`
//! shapes by itself. Any other queue discipline is the child of a token bucket filter (`tbf`). If
//! the kernel has none of them, the short buffer of `tbf` is used alone.

use super::facts::{Facts, Interface, State};
use super::ordered::Ordered;
use super::plan::Discipline;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Queue disciplines of a shaper, the best first. The last one stands for the buffer of `tbf`
/// itself.
pub const KINDS: [&str; 4] = ["cake", "fq_codel", "sfq", BUFFER];
const BUFFER: &str = "bfifo";

const FRAME_BYTES: f64 = 1514.0;
/// Burst size of `tbf`: the data of 1 ms at its rate, at least two full frames.
const BURST_S: f64 = 1e-3;
/// Buffer size of `tbf`: the data of 50 ms at its rate, at least ten full frames.
const BUFFER_S: f64 = 0.05;

/// The kernel modules that a shaper with this queue discipline requires; with `incoming`, also
/// those for incoming traffic.
pub fn modules(kind: &str, incoming: bool) -> Vec<String> {
    let mut names = match kind {
        "cake" => Vec::from(["sch_cake".to_string()]),
        BUFFER => Vec::from(["sch_tbf".to_string()]),
        _ => Vec::from(["sch_tbf".to_string(), format!("sch_{kind}")]),
    };
    let into = ["ifb", "sch_ingress", "cls_u32", "act_mirred"];
    names.extend(into.iter().filter(|_| incoming).map(ToString::to_string));
    names
}

/// Whether the kernel has or can load a module. An unknown module counts as present; if it is
/// missing, applying the plan reports an error.
fn is_present(facts: &Facts, module: &str) -> bool {
    facts.has_module(module) != State::Missing
}

/// The best queue discipline of [`KINDS`] that this kernel has.
pub fn best(facts: &Facts) -> &'static str {
    let mut kinds = KINDS.into_iter();
    let found = kinds.find(|kind| is_present(facts, &format!("sch_{kind}")));
    found.unwrap_or(BUFFER)
}

/// The best queue discipline other than `kind` whose modules this kernel all has; `None` if there
/// is none.
pub fn nearest(facts: &Facts, kind: &str) -> Option<&'static str> {
    let whole = |kind: &str| {
        modules(kind, false)
            .iter()
            .all(|name| is_present(facts, name))
    };
    KINDS.into_iter().find(|each| *each != kind && whole(each))
}

/// The queue disciplines of a shaper with the rate `kbit` (kbit/s), by their parent (`root` or a
/// class).
pub fn disciplines(kind: &str, kbit: u64, handle: &str) -> Ordered<Discipline> {
    let options = |rows: &[(&str, String)]| {
        let rows = rows
            .iter()
            .map(|(name, value)| ((*name).into(), value.clone()));
        Ordered(rows.collect())
    };
    if kind == "cake" {
        let options = options(&[("bandwidth", format!("{kbit}kbit"))]);
        let cake = Discipline {
            options,
            ..Discipline::new("cake", None)
        };
        return Ordered(Vec::from([("root".to_string(), cake)]));
    }
    let bytes_per_s = kbit as f64 * 125.0;
    let bytes = |seconds: f64, frames: f64| {
        let most = libm::rint(seconds * bytes_per_s).max(frames * FRAME_BYTES);
        format!("{most:.0}b")
    };
    let options = options(&[
        ("rate", format!("{kbit}kbit")),
        ("burst", bytes(BURST_S, 2.0)),
        ("limit", bytes(BUFFER_S, 10.0)),
    ]);
    let tbf = Discipline {
        options,
        ..Discipline::new("tbf", Some(handle))
    };
    let mut made = Vec::from([("root".to_string(), tbf)]);
    if kind != BUFFER {
        made.push((format!("{handle}1"), Discipline::new(kind, None)));
    }
    Ordered(made)
}

/// A handle that no queue discipline of the interface has; if the root is a configured token
/// bucket, its handle.
pub fn free(one: &Interface) -> String {
    let own = one
        .root()
        .filter(|root| root.kind == "tbf" && !root.attached_by_kernel());
    if let Some(root) = own {
        return root.handle.clone();
    }
    let is_taken = |handle: &String| one.qdiscs.iter().any(|qdisc| qdisc.handle == *handle);
    let mut handles = (1..256).map(|n| format!("{n:x}:"));
    handles
        .find(|handle| !is_taken(handle))
        .unwrap_or_else(|| "1:".into())
}

/// The name of the `ifb` device for the incoming traffic of an interface, cut to the 15 characters
/// that Linux allows.
///
/// ```
/// use narrows_core::tune::shaper::ifb;
///
/// assert_eq!(ifb("eth0"), "ifb-eth0");
/// assert_eq!(ifb("a-long-name-150"), "ifb-a-long-name");
/// ```
pub fn ifb(device: &str) -> String {
    format!("ifb-{device}").chars().take(15).collect()
}
