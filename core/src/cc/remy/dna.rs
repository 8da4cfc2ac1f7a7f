//! Reader of Remy's own files (`.dna`), which are protobuf messages.
//!
//! ```text
//! WhiskerTree   1 domain: MemoryRange   2 children: WhiskerTree, repeated   3 leaf: Whisker
//! MemoryRange  11 lower: Memory        12 upper: Memory
//! Memory       21 to 24: doubles, in the order of AXES
//! Whisker      31 window_increment: sint32   32 window_multiple: double   33 intersend: double
//! ```
//!
//! Other fields of a file (on its training) are ignored. The children of a node together fill the
//! node's domain, its box of memory values. The reader separates them, one bound at a time, into
//! the two-way splits of a [`Tree`]. Remy makes children by such splits, so this is always
//! possible. An absent bound means no bound. An axis with equal lower and upper bounds has no
//! bounds either: so do files that are older than the axis encode it. Sources: Remy's
//! `protobufs/dna.proto` for the field numbers; protobuf.dev/programming-guides/encoding for the
//! encoding.

use super::tree::{
    Action, Builder, DEEPEST, MOST_BYTES, MOST_NODES, Node, Region, Tree, WHOLE, cut,
};
use crate::param::Mistake;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Maximum number of children of a node; Remy makes sixteen at most.
const MOST_CHILDREN: usize = 64;

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
    let mut builder = Builder::default();
    let region = root.domain.within(&WHOLE);
    emit(&root, &region, &mut builder)?;
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
            _ => return wrong("it is not in protobuf's encoding"),
        };
        Ok(Some((key >> 3, wire)))
    }
}

/// A box of memory values as encoded in a file.
#[derive(Copy, Clone, Default)]
struct Domain {
    lower: [Option<f64>; 4],
    upper: [Option<f64>; 4],
}

impl Domain {
    /// The part of the box that lies in `region`.
    fn within(&self, region: &Region) -> Region {
        let mut own = *region;
        for axis in 0..4 {
            let (lower, upper) = (self.lower[axis], self.upper[axis]);
            if lower.unwrap_or(0.0) == upper.unwrap_or(0.0) {
                continue;
            }
            own.0[axis] = lower.unwrap_or(0.0).max(region.0[axis]);
            own.1[axis] = upper.unwrap_or(f64::MAX).min(region.1[axis]);
        }
        own
    }
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
            _ => {}
        }
    }
    Ok(domain)
}

fn memory(bytes: &[u8]) -> Result<[Option<f64>; 4], Mistake> {
    let mut memory = [None; 4];
    let mut fields = Fields(bytes);
    while let Some((number, wire)) = fields.next()? {
        if let (21..=24, Wire::Double(x)) = (number, wire) {
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
            _ => {}
        }
    }
    match action.refused() {
        None => Ok(action),
        Some((name, least, most)) => wrong(format!("a rule's {name} is not {least} to {most}")),
    }
}

/// Adds the node `branch` and the nodes below it, which together fill `region`, to `builder`.
fn emit(branch: &Branch, region: &Region, builder: &mut Builder) -> Result<(), Mistake> {
    if let (Some(action), true) = (branch.leaf, branch.children.is_empty()) {
        return push(builder, Node::Rule(action));
    }
    if branch.children.is_empty() {
        return wrong("a node has neither a rule nor children");
    }
    let mut children: Vec<(Region, &Branch)> = branch
        .children
        .iter()
        .map(|child| (child.domain.within(region), child))
        .collect();
    divide(&mut children, region, builder)
}

/// Separates `children`, which together fill `region`, by splits, and adds them to `builder`.
fn divide(
    children: &mut [(Region, &Branch)],
    region: &Region,
    builder: &mut Builder,
) -> Result<(), Mistake> {
    if let [(own, child)] = children {
        if own != region {
            return wrong("children leave a gap in their node's box");
        }
        return emit(child, region, builder);
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
        divide(left, &below, builder)?;
        return divide(right, &above, builder);
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
