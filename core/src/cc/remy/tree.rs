//! A tree of rules, which maps a sender's memory to an action. Its text format is described in
//! docs/reference/remy-tree.md.

use crate::param::Mistake;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// A sender's memory, in the order of [`AXES`]: ms, ms, a ratio, ms.
pub type Memory = [f64; 4];

/// The names of the memory's values, in Remy's order.
pub const AXES: [&str; 4] = [
    "rec_send_ewma",
    "rec_rec_ewma",
    "rtt_ratio",
    "slow_rec_rec_ewma",
];

/// Maximum number of rules and splits of a tree.
pub const MOST_NODES: usize = 65_535;
/// Maximum number of splits above a rule.
pub const DEEPEST: usize = 64;
/// Maximum size of a tree's text, bytes.
pub const MOST_BYTES: usize = 16 << 20;
/// Upper end of every axis: splits have bounds below it.
pub const FARTHEST: f64 = 1e9;
/// Maximum window, packets.
pub const MOST_WINDOW: i32 = 1_000_000;
/// Maximum factor of the window.
const MOST_MULTIPLE: f64 = 1000.0;
/// Maximum gap between packets, ms: an hour.
const MOST_INTERSEND: f64 = 3_600_000.0;
/// The first line of the text.
const HEAD: &str = "remy-tree 1";
/// Number of spaces before a line of the text for each split above its node.
const INDENT: usize = 2;

/// An action: the window becomes `multiple · window + increment`, and packets leave `intersend_ms`
/// apart.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Action {
    /// Factor of the window.
    pub multiple: f64,
    /// Packets to add.
    pub increment: i32,
    /// Gap between packets, ms.
    pub intersend_ms: f64,
}

impl Action {
    /// The window after `window`, packets.
    pub fn window(&self, window: u32) -> u32 {
        // The cast truncates, as Remy's does.
        let next = (f64::from(window) * self.multiple + f64::from(self.increment)) as i32;
        next.clamp(0, MOST_WINDOW) as u32
    }
    /// Name, minimum and maximum of the first value that is out of range; `None` if all are in
    /// range.
    pub(super) fn refused(&self) -> Option<(&'static str, f64, f64)> {
        let most = f64::from(MOST_WINDOW);
        let rows = [
            ("multiple", self.multiple, 0.0, MOST_MULTIPLE),
            ("increment", f64::from(self.increment), -most, most),
            ("intersend", self.intersend_ms, 0.0, MOST_INTERSEND),
        ];
        rows.into_iter()
            .find(|(_, x, least, most)| !(least..=most).contains(&x))
            .map(|(name, _, least, most)| (name, least, most))
    }
}

/// A node of the tree. A split is followed in the list by the nodes below its bound `at`. The nodes
/// from `at` on begin at the index `above`.
#[derive(Copy, Clone, PartialEq, Debug)]
pub(super) enum Node {
    Split { axis: usize, at: f64, above: u32 },
    Rule(Action),
}

/// A tree of rules.
#[derive(Clone, PartialEq, Debug)]
pub struct Tree {
    nodes: Vec<Node>,
}

/// A box of memory values: the lower and the upper bound of each axis.
pub(super) type Region = (Memory, Memory);

/// The box that contains every memory.
pub(super) const WHOLE: Region = ([0.0; 4], [FARTHEST; 4]);

/// Splits a box at the bound `at` of `axis`; returns the lower and the upper part.
pub(super) fn cut(region: &Region, axis: usize, at: f64) -> (Region, Region) {
    let (mut below, mut above) = (*region, *region);
    below.1[axis] = at;
    above.0[axis] = at;
    (below, above)
}

fn wrong<T>(line: usize, problem: impl Into<String>, fix: impl Into<String>) -> Result<T, Mistake> {
    Err(Mistake {
        line,
        problem: problem.into(),
        fix: fix.into(),
    })
}

impl Tree {
    /// A tree of one rule.
    pub fn of(action: Action) -> Tree {
        Tree {
            nodes: alloc::vec![Node::Rule(action)],
        }
    }

    /// The action of the rule whose box contains `memory`. A memory outside of every box counts as
    /// the nearest memory inside of one.
    pub fn action(&self, memory: &Memory) -> &Action {
        let mut i = 0;
        loop {
            match &self.nodes[i] {
                Node::Rule(action) => return action,
                Node::Split { axis, at, above } => {
                    i = if memory[*axis] < *at {
                        i + 1
                    } else {
                        *above as usize
                    }
                }
            }
        }
    }

    /// Number of rules.
    pub fn rules(&self) -> usize {
        self.nodes
            .iter()
            .filter(|node| matches!(node, Node::Rule(_)))
            .count()
    }

    /// Reads a tree's text.
    pub fn read(text: &str) -> Result<Tree, Mistake> {
        if text.len() > MOST_BYTES {
            return wrong(
                0,
                format!("it has more than {MOST_BYTES} bytes"),
                "use a smaller tree",
            );
        }
        let numbered = text
            .lines()
            .enumerate()
            .map(|(i, line)| (i + 1, line.trim_end()));
        let mut lines =
            numbered.filter(|(_, line)| !line.is_empty() && !line.trim_start().starts_with('#'));
        match lines.next() {
            Some((_, HEAD)) => {}
            Some((n, _)) => {
                return wrong(
                    n,
                    "a tree of rules does not begin so",
                    format!("write `{HEAD}` before it"),
                );
            }
            None => return wrong(0, "it is empty", format!("begin with `{HEAD}`")),
        }
        let mut builder = Builder::default();
        let mut last = 1;
        for (n, line) in lines {
            last = n;
            let Some(depth) = builder.depth() else {
                return wrong(
                    n,
                    "the tree has ended before it",
                    "take it out, or split above",
                );
            };
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let spaces = line.len() - line.trim_start_matches(' ').len();
            if spaces != INDENT * depth || line.starts_with('\t') {
                let right = format!("{:1$}{2}", "", INDENT * depth, words.join(" "));
                return wrong(
                    n,
                    format!("it has {depth} splits above it"),
                    format!("write `{right}`"),
                );
            }
            let node = match words.as_slice() {
                [axis, "<", at] => split(n, axis, at, builder.region())?,
                [
                    "multiple",
                    multiple,
                    "increment",
                    increment,
                    "intersend",
                    intersend,
                ] => rule(n, multiple, increment, intersend)?,
                _ => {
                    let fix = "write `multiple 1 increment 1 intersend 3`, or `rtt_ratio < 1.5` \
                        and a branch for each case";
                    return wrong(n, "it is neither a rule nor a split", fix);
                }
            };
            if let Err((problem, fix)) = builder.push(node) {
                return wrong(n, problem, fix);
            }
        }
        match builder.depth() {
            None => Ok(builder.finish()),
            Some(depth) => {
                let right = format!(
                    "{:1$}multiple 1 increment 1 intersend 3",
                    "",
                    INDENT * depth
                );
                wrong(
                    last,
                    "the tree is not over after it",
                    format!("write `{right}` below"),
                )
            }
        }
    }

    /// Returns the text of the tree, which reads back as the same tree.
    pub fn to_text(&self) -> String {
        let mut text = format!("{HEAD}\n");
        let mut depths = alloc::vec![0];
        for node in &self.nodes {
            let depth = depths.pop().unwrap_or(0);
            text.push_str(&format!("{:1$}", "", INDENT * depth));
            text.push_str(&match node {
                Node::Split { axis, at, .. } => {
                    depths.extend([depth + 1, depth + 1]);
                    format!("{} < {at}\n", AXES[*axis])
                }
                Node::Rule(a) => {
                    let (multiple, increment) = (a.multiple, a.increment);
                    format!(
                        "multiple {multiple} increment {increment} intersend {}\n",
                        a.intersend_ms
                    )
                }
            });
        }
        text
    }
}

fn number<T: core::str::FromStr>(text: &str) -> Option<T> {
    // Neither inf nor nan.
    let plain = text
        .bytes()
        .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'e'));
    text.parse().ok().filter(|_| plain && text.len() <= 400)
}

fn split(n: usize, axis: &str, at: &str, region: &Region) -> Result<Node, Mistake> {
    let Some(axis) = AXES.iter().position(|name| *name == axis) else {
        return wrong(
            n,
            format!("`{axis}` is not a known signal"),
            format!("one of: {}", AXES.join(", ")),
        );
    };
    let (least, most) = (region.0[axis], region.1[axis]);
    match number::<f64>(at) {
        Some(at) if at > least && at < most => Ok(Node::Split { axis, at, above: 0 }),
        Some(_) => {
            let fix =
                format!("write a bound above {least} and below {most}, or take the split out");
            wrong(
                n,
                format!("{at} splits nothing off: the splits above leave {least} to {most}"),
                fix,
            )
        }
        None => wrong(
            n,
            format!("`{at}` is not a number"),
            "write a plain decimal, as `1.5`",
        ),
    }
}

fn rule(n: usize, multiple: &str, increment: &str, intersend: &str) -> Result<Node, Mistake> {
    let bad = |text: &str, what: &str, example: &str| {
        wrong(
            n,
            format!("`{text}` is not {what}"),
            format!("write `{example}`"),
        )
    };
    let Some(window_multiple) = number(multiple) else {
        return bad(multiple, "a number", "multiple 1");
    };
    let Some(window_increment) = number(increment) else {
        return bad(increment, "a whole number of packets", "increment 1");
    };
    let Some(intersend_ms) = number(intersend) else {
        return bad(intersend, "a number of milliseconds", "intersend 3");
    };
    let action = Action {
        multiple: window_multiple,
        increment: window_increment,
        intersend_ms,
    };
    match action.refused() {
        None => Ok(Node::Rule(action)),
        Some((name, least, most)) => wrong(
            n,
            format!("its {name} is out of range"),
            format!("write {least} to {most}"),
        ),
    }
}

/// A part of the tree whose nodes have not been added yet.
#[derive(Copy, Clone)]
struct Open {
    depth: usize,
    region: Region,
    /// The index of the split whose upper part this is; `None` for a lower part and the root.
    above_of: Option<usize>,
}

/// A tree under construction, node after node in the order of the text.
pub(super) struct Builder {
    nodes: Vec<Node>,
    open: Vec<Open>,
}

impl Default for Builder {
    fn default() -> Builder {
        let root = Open {
            depth: 0,
            region: WHOLE,
            above_of: None,
        };
        Builder {
            nodes: Vec::new(),
            open: alloc::vec![root],
        }
    }
}

impl Builder {
    /// Depth of the next node; `None` if the tree is complete.
    fn depth(&self) -> Option<usize> {
        self.open.last().map(|open| open.depth)
    }
    /// The region of the next node.
    fn region(&self) -> &Region {
        self.open.last().map_or(&WHOLE, |open| &open.region)
    }
    /// Adds the next node. An error consists of the problem and the correction.
    pub fn push(&mut self, node: Node) -> Result<(), (String, String)> {
        let Some(open) = self.open.pop() else {
            return Err(("the tree has ended before it".into(), "take it out".into()));
        };
        let i = self.nodes.len();
        if i >= MOST_NODES {
            return Err((
                format!("more than {MOST_NODES} rules and splits"),
                "use a smaller tree".into(),
            ));
        }
        if let Some(Node::Split { above, .. }) =
            open.above_of.and_then(|split| self.nodes.get_mut(split))
        {
            *above = i as u32;
        }
        if let Node::Split { axis, at, .. } = node {
            if open.depth >= DEEPEST {
                return Err((
                    format!("more than {DEEPEST} splits above it"),
                    "use a flatter tree".into(),
                ));
            }
            let (below, above) = cut(&open.region, axis, at);
            let half = |region, above_of| Open {
                depth: open.depth + 1,
                region,
                above_of,
            };
            self.open.extend([half(above, Some(i)), half(below, None)]);
        }
        self.nodes.push(node);
        Ok(())
    }
    /// Returns the tree, which must be complete.
    pub fn finish(self) -> Tree {
        debug_assert!(self.open.is_empty());
        Tree { nodes: self.nodes }
    }
}
