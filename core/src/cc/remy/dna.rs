//! Reader of Remy's own files (`.dna`), which are protobuf messages.
//!
//! ```text
//! WhiskerTree   1 domain: MemoryRange   2 children: WhiskerTree, repeated   3 leaf: Whisker
//! MemoryRange  11 lower: Memory        12 upper: Memory              13 active axes: enum, repeated
//! Memory       21 to 24: doubles, in the order of AXES               25, 26: further signals
//! Whisker      31 window_increment: sint32   32 window_multiple: double   33 intersend: double
//! ```
//!
//! Other fields of a file (on its training) are ignored. The children of a node together fill the
//! node's domain, its box of memory values. The reader separates them, one bound at a time, into
//! the two-way splits of a [`Tree`]. Remy makes children by such splits, so this is always
//! possible. An absent bound means no bound.
//!
//! The root defines which axes a tree has: its active axes or, if it lists none, those with
//! different lower and upper bounds. Files that are older than an axis have no bounds of it, or
//! equal ones. Below the root, equal bounds are an empty box. Remy writes such boxes when it splits
//! a box at its lower bound. No memory is inside an empty box, so the reader omits it. The
//! published trees of 2013 contain such boxes. The signals `rtt_diff` and `queueing_delay` of later
//! files have no model here; a tree that splits them is an error.
//!
//! Sources: Remy's `protobufs/dna.proto` for the field numbers; its `memoryrange.cc` for active
//! axes and for boxes, which exclude their upper bound; protobuf.dev/programming-guides/encoding
//! for the encoding.

use super::tree::{
    AXES, Action, Builder, DEEPEST, MOST_BYTES, MOST_NODES, Node, Region, Tree, WHOLE, cut,
};
use crate::param::Mistake;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Maximum number of children of a node; Remy makes sixteen at most.
const MOST_CHILDREN: usize = 64;

/// Names of the signals of Remy's files that have no model, after those of [`AXES`].
const FURTHER: [&str; 2] = ["rtt_diff", "queueing_delay"];

/// Number of signals that a file may contain.
const SIGNALS: usize = AXES.len() + FURTHER.len();

fn wrong<T>(problem: impl Into<String>) -> Result<T, Mistake> {
    Err(Mistake {
        line: 0,
        problem: problem.into(),
        fix: "use a .dna file that Remy wrote".into(),
    })
}

/// Reads the tree of a `.dna` file. Errors have no line number.
pub fn from_dna(bytes: &[u8]) -> Result<Tree, Mistake> {
    if bytes.is_empty() || bytes.len() > MOST_BYTES {
        return wrong(format!("it is empty or has more than {MOST_BYTES} bytes"));
    }
    let mut nodes = 0;
    let root = branch(bytes, 0, &mut nodes)?;
    let axes = root.domain.axes()?;
    let region = root.domain.within(&WHOLE, axes);
    if is_empty(&region) {
        return wrong("the box of its root is empty");
    }
    let mut builder = Builder::default();
    emit(&root, &region, axes, &mut builder)?;
    Ok(builder.finish())
}

/// The content of a protobuf field, by its wire type.
enum Wire<'a> {
    Varint(u64),
    Double(f64),
    Bytes(&'a [u8]),
    Other,
}

/// The bytes of one protobuf message that are still to be read as fields.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Result<u64, Mistake> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let Some((byte, rest)) = self.0.split_first() else {
                break;
            };
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        wrong("it breaks off in a number")
    }
    fn take(&mut self, n: u64) -> Result<&'a [u8], Mistake> {
        match usize::try_from(n)
            .ok()
            .and_then(|n| self.0.split_at_checked(n))
        {
            Some((taken, rest)) => {
                self.0 = rest;
                Ok(taken)
            }
            None => wrong("it breaks off in a field"),
        }
    }
    fn next(&mut self) -> Result<Option<(u64, Wire<'a>)>, Mistake> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let wire = match key & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => {
                let mut eight = [0; 8];
                eight.copy_from_slice(self.take(8)?);
                Wire::Double(f64::from_le_bytes(eight))
            }
            2 => {
                let n = self.varint()?;
                Wire::Bytes(self.take(n)?)
            }
            5 => {
                self.take(4)?;
                Wire::Other
            }
            _ => return wrong("it does not have the encoding of Protocol Buffers"),
        };
        Ok(Some((key >> 3, wire)))
    }
}

/// A box of memory values as encoded in a file.
#[derive(Copy, Clone, Default)]
struct Domain {
    lower: [Option<f64>; SIGNALS],
    upper: [Option<f64>; SIGNALS],
    /// Whether a signal is in the list of active axes.
    active: [bool; SIGNALS],
}

/// Whether a tree has the axis, in the order of [`AXES`].
type Axes = [bool; 4];

impl Domain {
    /// The axes of a tree with this box as its root.
    fn axes(&self) -> Result<Axes, Mistake> {
        let listed = self.active.contains(&true);
        let mut axes = [false; 4];
        for signal in 0..SIGNALS {
            let bounded = self.lower[signal].unwrap_or(0.0) != self.upper[signal].unwrap_or(0.0);
            if !(if listed { self.active[signal] } else { bounded }) {
                continue;
            }
            match axes.get_mut(signal) {
                Some(axis) => *axis = true,
                None => {
                    let name = FURTHER[signal - AXES.len()];
                    return Err(Mistake {
                        line: 0,
                        problem: format!("it splits {name}, a signal that `remy` does not have"),
                        fix: format!("use a tree with these signals only: {}", AXES.join(", ")),
                    });
                }
            }
        }
        Ok(axes)
    }

    /// The part of the box that lies in `region`.
    fn within(&self, region: &Region, axes: Axes) -> Region {
        let mut own = *region;
        for axis in (0..4).filter(|axis| axes[*axis]) {
            own.0[axis] = self.lower[axis].unwrap_or(0.0).max(region.0[axis]);
            own.1[axis] = self.upper[axis].unwrap_or(f64::MAX).min(region.1[axis]);
        }
        own
    }
}

/// Returns whether no memory is inside of a box.
fn is_empty(region: &Region) -> bool {
    (0..4).any(|axis| region.0[axis] >= region.1[axis])
}

/// A node of the tree as encoded in a file.
#[derive(Default)]
struct Branch {
    domain: Domain,
    children: Vec<Branch>,
    leaf: Option<Action>,
}

fn branch(bytes: &[u8], depth: usize, nodes: &mut usize) -> Result<Branch, Mistake> {
    *nodes += 1;
    if depth > DEEPEST || *nodes > MOST_NODES {
        return wrong(format!(
            "more than {MOST_NODES} nodes, or deeper than {DEEPEST}"
        ));
    }
    let mut found = Branch::default();
    let mut fields = Fields(bytes);
    while let Some((number, wire)) = fields.next()? {
        match (number, wire) {
            (1, Wire::Bytes(bytes)) => found.domain = domain(bytes)?,
            (2, Wire::Bytes(_)) if found.children.len() >= MOST_CHILDREN => {
                return wrong(format!("a node has more than {MOST_CHILDREN} children"));
            }
            (2, Wire::Bytes(bytes)) => found.children.push(branch(bytes, depth + 1, nodes)?),
            (3, Wire::Bytes(bytes)) => found.leaf = Some(whisker(bytes)?),
            (1..=3, _) => return wrong("a node has a field of another kind"),
            _ => {}
        }
    }
    Ok(found)
}

fn domain(bytes: &[u8]) -> Result<Domain, Mistake> {
    let mut domain = Domain::default();
    let mut fields = Fields(bytes);
    while let Some((number, wire)) = fields.next()? {
        match (number, wire) {
            (11, Wire::Bytes(bytes)) => domain.lower = memory(bytes)?,
            (12, Wire::Bytes(bytes)) => domain.upper = memory(bytes)?,
            (13, Wire::Varint(axis)) => match usize::try_from(axis) {
                Ok(axis) if axis < SIGNALS => domain.active[axis] = true,
                _ => return wrong("an active axis is not one of Remy's signals"),
            },
            (11..=13, _) => return wrong("a box has a field of another kind"),
            _ => {}
        }
    }
    Ok(domain)
}

fn memory(bytes: &[u8]) -> Result<[Option<f64>; SIGNALS], Mistake> {
    let mut memory = [None; SIGNALS];
    let mut fields = Fields(bytes);
    while let Some((number, wire)) = fields.next()? {
        if let (21..=26, Wire::Double(x)) = (number, wire) {
            if !x.is_finite() || x < 0.0 {
                return wrong("a bound is negative or no number");
            }
            memory[(number - 21) as usize] = Some(x);
        }
    }
    Ok(memory)
}

fn whisker(bytes: &[u8]) -> Result<Action, Mistake> {
    let mut action = Action {
        multiple: 0.0,
        increment: 0,
        intersend_ms: 0.0,
    };
    let mut fields = Fields(bytes);
    while let Some((number, wire)) = fields.next()? {
        match (number, wire) {
            // sint32: the sign is in the lowest bit.
            (31, Wire::Varint(n)) => action.increment = ((n >> 1) as i32) ^ -((n & 1) as i32),
            (32, Wire::Double(x)) => action.multiple = x,
            (33, Wire::Double(x)) => action.intersend_ms = x,
            (31..=33, _) => return wrong("a rule has a field of another kind"),
            _ => {}
        }
    }
    match action.refused() {
        None => Ok(action),
        Some((name, least, most)) => wrong(format!("a rule's {name} is not {least} to {most}")),
    }
}

/// Adds the node `branch` and the nodes below it, which together fill `region`, to `builder`.
fn emit(
    branch: &Branch,
    region: &Region,
    axes: Axes,
    builder: &mut Builder,
) -> Result<(), Mistake> {
    if let (Some(action), true) = (branch.leaf, branch.children.is_empty()) {
        return push(builder, Node::Rule(action));
    }
    if branch.children.is_empty() {
        return wrong("a node has neither a rule nor children");
    }
    let mut children: Vec<(Region, &Branch)> = branch
        .children
        .iter()
        .map(|child| (child.domain.within(region, axes), child))
        .filter(|(own, _)| !is_empty(own))
        .collect();
    divide(&mut children, region, axes, builder)
}

/// Separates `children`, which together fill `region`, by splits, and adds them to `builder`.
fn divide(
    children: &mut [(Region, &Branch)],
    region: &Region,
    axes: Axes,
    builder: &mut Builder,
) -> Result<(), Mistake> {
    if let [(own, child)] = children {
        if own != region {
            return wrong("children leave a gap in their node's box");
        }
        return emit(child, region, axes, builder);
    }
    for axis in 0..4 {
        children.sort_by(|(a, _), (b, _)| a.0[axis].total_cmp(&b.0[axis]));
        let cut_at = clear_cut(children, axis);
        let Some((n, at)) = cut_at.filter(|(_, at)| *at > region.0[axis] && *at < region.1[axis])
        else {
            continue;
        };
        push(builder, Node::Split { axis, at, above: 0 })?;
        let (below, above) = cut(region, axis, at);
        let (left, right) = children.split_at_mut(n);
        divide(left, &below, axes, builder)?;
        return divide(right, &above, axes, builder);
    }
    wrong("children overlap, or leave a gap in their node's box")
}

/// Finds a bound on `axis` that splits no child. Of several, the one whose sides have the most
/// equal numbers of children is returned, with the number of children below it. `children` must be
/// sorted by their lower bound on `axis`.
fn clear_cut(children: &[(Region, &Branch)], axis: usize) -> Option<(usize, f64)> {
    let mut reach = 0.0f64;
    let mut best: Option<(usize, f64)> = None;
    for (n, (own, _)) in children.iter().enumerate() {
        let at = own.0[axis];
        let off = |n: usize| (2 * n).abs_diff(children.len());
        if n > 0 && reach <= at && best.is_none_or(|(other, _)| off(n) < off(other)) {
            best = Some((n, at));
        }
        reach = reach.max(own.1[axis]);
    }
    best
}

fn push(builder: &mut Builder, node: Node) -> Result<(), Mistake> {
    builder.push(node).or_else(|(problem, _)| wrong(problem))
}
