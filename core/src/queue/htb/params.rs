//! The parameters of `htb` and of its classes, with the names of tc-htb(8), and the conditions
//! between them.

use super::tree::LEVELS;
use crate::param::{Kind, Misplaced, Param, Params, Refusal, Rows};
use crate::units::{Bytes, Rate, format_rate};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Maximum number of classes, above the number in any practical configuration.
const MOST_CLASSES: usize = 10_000;
const MOST_RATE: Rate = Rate::mbit(10_000_000);
const MOST_BYTES: Bytes = Bytes::new(1_000_000_000);

const fn param(name: &'static str, kind: Kind, help: &'static str) -> Param {
    Param {
        name,
        kind,
        help,
        source: "Linux 6.12 sch_htb, tc-htb(8)",
    }
}

const fn bytes(name: &'static str, help: &'static str) -> Param {
    param(
        name,
        Kind::Bytes(Bytes::ZERO, Bytes::ZERO, MOST_BYTES),
        help,
    )
}

const fn rate(name: &'static str, help: &'static str) -> Param {
    param(
        name,
        Kind::Rate(Rate::bit(0), Rate::bit(0), MOST_RATE),
        help,
    )
}

/// The name of the packets without a class in results.
pub(super) const DIRECT: &str = "direct";

/// The parameters of the queue discipline.
pub const PARAMS: &[Param] = &[
    param(
        "default",
        Kind::Handle(""),
        "class of packets that no class matches; without it, they leave at once, before all others",
    ),
    param("classes", Kind::Rows(&CLASSES), "the tree of classes"),
    param(
        "r2q",
        Kind::Count(10, 1, u32::MAX as u64),
        "divisor of the quantum: rate in bytes/s / r2q, from 1000 to 200000 bytes",
    ),
    param(
        "direct_qlen",
        Kind::Packets(1000, 1, u32::MAX as u64),
        "largest backlog of packets without a class, if the path has no buffer",
    ),
];

/// The rows of the parameter `classes`.
pub static CLASSES: Rows = Rows {
    what: "classes",
    one: "class",
    required: &["id", "rate"],
    params: CLASS,
    check,
    most: MOST_CLASSES,
};

/// The parameter that names a class.
pub const NAME: &str = "name";

/// The parameters of a class.
pub const CLASS: &[Param] = &[
    param(
        "id",
        Kind::Handle(""),
        "identifier of the class, also the order among equals; required",
    ),
    param(
        NAME,
        Kind::Name,
        "name of the class in tables and results, instead of its id",
    ),
    param(
        "parent",
        Kind::Handle(""),
        "class from which this class borrows; empty: none",
    ),
    rate("rate", "guaranteed rate; required"),
    rate(
        "ceil",
        "maximum rate, while the parent has capacity that other classes do not use; 0: the value \
         of rate",
    ),
    bytes(
        "burst",
        "bytes at its rate that may leave at once after idle time; 0: one frame, as in tc with a \
         high-resolution clock",
    ),
    bytes(
        "cburst",
        "bytes at its ceil that may leave at once after idle time",
    ),
    param(
        "prio",
        Kind::Count(0, 0, 7),
        "priority for borrowed capacity: 0 comes before 1",
    ),
    bytes(
        "quantum",
        "bytes that the class may send in its turn while it borrows; 0: rate / r2q",
    ),
    param(
        "queue",
        Kind::Choice("fifo"),
        "queue discipline of the class, if it is a leaf",
    ),
    param(
        "limit",
        Kind::Packets(0, 0, u32::MAX as u64),
        "largest backlog in packets; 0p: the path's buffer, otherwise the default of the queue \
         discipline",
    ),
    param(
        "match",
        Kind::Match,
        "flows and code points of the class; the first class that matches takes the packet",
    ),
    bytes("overhead", "bytes that the link layer adds to a frame"),
    bytes("mpu", "smallest number of bytes that a frame counts"),
    param(
        "linklayer",
        Kind::Word(&["ethernet", "atm"]),
        "atm: cells of 48 in 53 bytes",
    ),
];

fn refuse(
    param: &'static str,
    problem: impl Into<String>,
    fix: impl Into<String>,
) -> Result<(), Refusal> {
    Err(Refusal {
        param,
        problem: problem.into(),
        fix: fix.into(),
    })
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

/// The major and the minor number of a handle, which are hexadecimal.
pub(super) fn numbers(handle: &str) -> (u32, u32) {
    let (major, minor) = handle.split_once(':').unwrap_or(("", ""));
    let number = |digits| u32::from_str_radix(digits, 16).unwrap_or(0);
    (number(major), number(minor))
}

/// The index of each class by its id; of two classes with the same id, the first.
pub(super) fn positions(classes: &[Params]) -> BTreeMap<&str, usize> {
    let positions = classes.iter().enumerate().rev();
    positions.map(|(i, class)| (class.word("id"), i)).collect()
}

/// The name of a class in results: that of the scenario, or else its id.
pub(super) fn label(class: &Params) -> &str {
    match class.word(NAME) {
        "" => class.word("id"),
        name => name,
    }
}

/// Returns a warning for each class whose rate is less than the sum of its children's rates. Linux
/// accepts this, but few users intend it.
pub fn notices(params: &Params) -> Vec<String> {
    let classes = params.rows("classes");
    let positions = positions(classes);
    let mut promised = alloc::vec![0u64; classes.len()];
    for class in classes {
        if let Some(parent) = positions.get(class.word("parent")) {
            promised[*parent] = promised[*parent].saturating_add(class.rate("rate").as_bit());
        }
    }
    let over = classes
        .iter()
        .zip(promised)
        .filter(|(class, promised)| *promised > class.rate("rate").as_bit());
    let warnings = over.map(|(class, promised)| {
        let (id, own) = (label(class), class.rate("rate"));
        format!(
            "The rates of the children of {id} sum up to {}, but the rate of {id} is {}: htb does \
             not check this, as in Linux, and the ceil of {id} does not limit them. Reduce their \
             rates, and give each a ceil for borrowing.",
            format_rate(Rate::bit(promised)),
            format_rate(own),
        )
    });
    warnings.collect()
}

/// Returns whether `parent` stands for the discipline itself: its minor number is 0.
pub(super) fn is_root(parent: &str) -> bool {
    numbers(parent).1 == 0
}

/// Checks each class, in the order of the list.
fn check(classes: &[Params]) -> Result<(), Misplaced> {
    let positions = positions(classes);
    let major = classes
        .first()
        .map_or(1, |class| numbers(class.word("id")).0.max(1));
    let mut parents = alloc::vec![false; classes.len()];
    for class in classes {
        if let Some(parent) = positions.get(class.word("parent")) {
            parents[*parent] = true;
        }
    }
    let free = || {
        let minor = (0x10..)
            .step_by(0x10)
            .find(|n| !positions.contains_key(format!("{major:x}:{n:x}").as_str()));
        quoted(&format!("{major:x}:{:x}", minor.unwrap_or(0xffff)))
    };
    let mut labels = BTreeSet::new();
    for (i, class) in classes.iter().enumerate() {
        one(class, i, major, &positions, &free).map_err(|refusal| (i, refusal))?;
        let name = class.word(NAME);
        if name == DIRECT || !labels.insert(label(class)) {
            let problem = "is the name or the id of another class, or of the packets without one";
            let fix = quoted(&format!("{name}-2"));
            return refuse(NAME, problem, fix).map_err(|refusal| (i, refusal));
        }
        lineage(class, classes, &positions).map_err(|refusal| (i, refusal))?;
        if parents[i]
            && class
                .matching("match")
                .is_some_and(|m| !m.names.is_empty() || m.dscp != 0)
        {
            let problem = "is the match of a class with children: only leaves take packets";
            return refuse("match", problem, "{}").map_err(|refusal| (i, refusal));
        }
    }
    Ok(())
}

/// Checks the id, the parent, the rate and the ceil of a class.
fn one(
    class: &Params,
    place: usize,
    major: u32,
    positions: &BTreeMap<&str, usize>,
    free: &dyn Fn() -> String,
) -> Result<(), Refusal> {
    let (id, parent) = (class.word("id"), class.word("parent"));
    if id.is_empty() {
        return refuse("id", "must be given", free());
    }
    if numbers(id).1 == 0 {
        return refuse("id", "is the id of the queue itself", free());
    }
    if numbers(id).0 != major {
        let (_, minor) = numbers(id);
        return refuse(
            "id",
            "belongs to another queue than the first class",
            quoted(&format!("{major:x}:{minor:x}")),
        );
    }
    if positions.get(id) != Some(&place) {
        return refuse("id", "is also the id of another class", free());
    }
    let (rate, ceil) = (class.rate("rate"), class.rate("ceil"));
    if rate.as_bit() < 8 {
        return refuse("rate", "must be given", "\"1Mbit\"");
    }
    if ceil.as_bit() > 0 && ceil < rate {
        return refuse("ceil", "is below its rate", quoted(&format_rate(rate)));
    }
    if !parent.is_empty() && !is_root(parent) && !positions.contains_key(parent) {
        let near = positions
            .keys()
            .copied()
            .find(|other| *other != id && numbers(other).0 == major);
        return refuse(
            "parent",
            "is not a class of this queue",
            quoted(near.unwrap_or("1:")),
        );
    }
    Ok(())
}

/// Checks the ancestors of a class: no cycle, and not too many levels.
fn lineage(
    class: &Params,
    classes: &[Params],
    positions: &BTreeMap<&str, usize>,
) -> Result<(), Refusal> {
    let up = |class: &&Params| {
        let parent = class.word("parent");
        positions
            .get(parent)
            .filter(|_| !is_root(parent))
            .map(|i| &classes[*i])
    };
    let above = core::iter::successors(Some(class), up)
        .take(classes.len() + 2)
        .count();
    if above > classes.len() {
        return refuse("parent", "leads back to the class", quoted("1:"));
    }
    if above > LEVELS {
        return refuse(
            "parent",
            format!("leads over more than {LEVELS} levels"),
            quoted("1:"),
        );
    }
    Ok(())
}

/// Checks that the `default` class is a class without children.
pub(super) fn check_all(params: &Params) -> Result<(), Refusal> {
    let (default, classes) = (params.word("default"), params.rows("classes"));
    if default.is_empty() || is_root(default) {
        return Ok(());
    }
    let is_leaf = |id: &str| classes.iter().all(|class| class.word("parent") != id);
    let ids = || classes.iter().map(|class| class.word("id"));
    if ids().any(|id| id == default && is_leaf(id)) {
        return Ok(());
    }
    let leaf = ids().rfind(|id| is_leaf(id));
    let problem = if ids().any(|id| id == default) {
        "is a class with children"
    } else {
        "is not a class of this queue"
    };
    refuse("default", problem, quoted(leaf.unwrap_or("")))
}
