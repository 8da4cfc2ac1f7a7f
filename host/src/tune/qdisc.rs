//! The queue disciplines of a device as a tree. The tree is read as a whole; a plan replaces single
//! disciplines in it; a revert restores the whole tree.
//!
//! The kernel reports a discipline with the options that create it (`TCA_OPTIONS`), so they can be
//! sent back unchanged. Handle `0:` marks a discipline that the kernel attached itself. To restore
//! such a discipline, that of narrows is removed. The kernel then attaches a discipline according
//! to `net.core.default_qdisc`, which is therefore restored first. A discipline with any other
//! handle was created by a program.
//!
//! Classes of HTB are handled in the same way. Filters cannot be restored, because their listing is
//! not the request that created them. If a discipline of another program with filters would be
//! replaced, the plan is therefore rejected.

use super::shape::{self, Shape};
use crate::sys;
use crate::sys::netlink::{Message, Netlink, attribute, attributes, text};
use narrows_core::registry::linux::{QDISCS, Qdisc, Role};
use serde_json::{Value, json};
use std::ffi::CString;
use std::io;

/// `TC_H_ROOT`, and the parent of disciplines outside the egress (`ingress`, `clsact`).
const ROOT: u32 = u32::MAX;
pub(super) const INGRESS: u32 = 0xffff_fff1;
/// Length of the header of qdisc and class messages (`struct tcmsg`), in bytes.
const FIXED: usize = 20;
const DUMP_MOST: usize = 4096;

/// Names of the disciplines that a plan may request without options. With options, only `tbf` and
/// `cake` are possible.
pub fn planned() -> impl Iterator<Item = &'static str> {
    QDISCS
        .iter()
        .filter(|qdisc| qdisc.planned)
        .map(|qdisc| qdisc.name)
}

/// A discipline or a class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// The name of the discipline or class, such as `fq_codel`.
    pub kind: String,
    /// The handle, such as `1:` of a discipline or `1:2` of a class. The upper 16 bits are the
    /// major number.
    pub handle: u32,
    /// The parent of the discipline or class.
    pub parent: u32,
    /// The options of the discipline or class, as the kernel reports them.
    pub options: Vec<u8>,
}

impl Node {
    /// A short description with the rate of a shaper, such as `tbf 1: root rate 18000kbit`.
    pub fn shown(&self) -> String {
        let rate = shape::printed(&self.kind, &self.options).map(|rate| format!(" {rate}"));
        let (handle, parent) = (shown(self.handle), shown(self.parent));
        format!(
            "{} {handle} {parent}{}",
            self.kind,
            rate.unwrap_or_default()
        )
    }
    /// The beginning of its line in `tc qdisc show`: `qdisc pfifo 20: parent 1:20`.
    fn as_tc(&self) -> String {
        let place = match (self.parent, self.parent >> 16) {
            (ROOT, _) => "root".to_string(),
            (minor, 0) => format!("parent :{minor:x}"),
            (parent, _) => format!("parent {}", shown(parent)),
        };
        let rate = shape::printed(&self.kind, &self.options).map(|rate| format!(" {rate}"));
        let (kind, handle) = (&self.kind, shown(self.handle));
        format!("qdisc {kind} {handle} {place}{}", rate.unwrap_or_default())
    }
}

/// The queue disciplines, classes and filters of a device's egress.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tree {
    /// Queue disciplines, parents before children.
    pub queues: Vec<Node>,
    /// Classes that a program created.
    pub classes: Vec<Node>,
    /// Number of filter entries that the kernel lists.
    pub filters: usize,
}

fn device(name: &str) -> io::Result<u32> {
    let odd = |e: io::Error| io::Error::new(e.kind(), format!("interface {name}: {e}"));
    let name = CString::new(name).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    sys::interface(&name).map_err(odd)
}

fn message(kind: u16, index: u32, handle: u32, parent: u32) -> Message {
    let fixed: [&[u8]; 5] = [
        &[0; 4],
        &index.to_ne_bytes(),
        &handle.to_ne_bytes(),
        &parent.to_ne_bytes(),
        &[0; 4],
    ];
    Message::new(kind, &fixed)
}

fn number(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .and_then(<[u8]>::first_chunk)
        .map_or(0, |n| u32::from_ne_bytes(*n))
}

/// Converts the options that HTB reports to options that can be set. HTB reports its version in the
/// upper half of a word, but expects it in the lower half. Among its options it also reports a
/// counter, which is set to 0.
fn as_told(mut options: Vec<u8>) -> Vec<u8> {
    /// `TCA_HTB_INIT`, and in it the offsets of the version and of the counter of direct packets
    /// (`struct tc_htb_glob`).
    const INIT: u16 = 2;
    const VERSION: usize = 0;
    const PAST: usize = 16;
    let Some(value) = attribute(&attributes(&options), INIT) else {
        return options;
    };
    let at = value.as_ptr() as usize - options.as_ptr() as usize;
    if value.len() < PAST + 4 {
        return options;
    }
    let version = number(&options, at + VERSION);
    let version = if version > 0xffff {
        version >> 16
    } else {
        version
    };
    options[at + VERSION..at + VERSION + 4].copy_from_slice(&version.to_ne_bytes());
    options[at + PAST..at + PAST + 4].fill(0);
    options
}

fn nodes(netlink: &mut Netlink, kind: u16, index: u32) -> io::Result<Vec<Node>> {
    let mut found = Vec::new();
    for body in netlink.list(message(kind, index, 0, 0))? {
        if number(&body, 4) != index {
            continue;
        }
        let told = attributes(body.get(FIXED..).unwrap_or_default());
        let name = attribute(&told, libc::TCA_KIND)
            .map(text)
            .unwrap_or_default();
        let options = attribute(&told, libc::TCA_OPTIONS)
            .unwrap_or_default()
            .to_vec();
        found.push(Node {
            options: if name == "htb" {
                as_told(options)
            } else {
                options
            },
            kind: name,
            handle: number(&body, 8),
            parent: number(&body, 12),
        });
    }
    Ok(found)
}

/// Reads the tree of the interface with this name.
pub fn read(name: &str) -> io::Result<Tree> {
    let index = device(name)?;
    let mut netlink = Netlink::new()?;
    let mut queues = nodes(&mut netlink, libc::RTM_GETQDISC, index)?;
    queues.retain(|q| q.parent != INGRESS && Qdisc::role_of(&q.kind) != Role::Incoming);
    queues.truncate(DUMP_MOST);
    let mut classes = nodes(&mut netlink, libc::RTM_GETTCLASS, index)?;
    // Classes of disciplines such as `mq` or `fq_codel` are created by the discipline itself.
    classes.retain(|c| !Qdisc::named(&c.kind).is_some_and(|qdisc| qdisc.own_classes));
    let mut filters = 0;
    for q in &queues {
        if q.handle != 0 && q.kind != "mq" {
            let chains = netlink.list(message(libc::RTM_GETTFILTER, index, 0, q.handle));
            // The request fails for a discipline that supports no filters.
            filters += chains.map_or(0, |chains| chains.len());
        }
    }
    sort(&mut queues, &mut classes);
    Ok(Tree {
        queues,
        classes,
        filters,
    })
}

/// Sorts disciplines and classes so that parents come before their children.
fn sort(queues: &mut [Node], classes: &mut [Node]) {
    queues.sort_by_key(|q| (q.parent != ROOT, q.parent));
    let parents: Vec<(u32, u32)> = classes.iter().map(|c| (c.handle, c.parent)).collect();
    let depth = |mut handle: u32| {
        let mut depth = 0;
        while let Some((_, parent)) = parents.iter().find(|(own, _)| *own == handle) {
            (handle, depth) = (*parent, depth + 1);
            if depth > parents.len() {
                break;
            }
        }
        depth
    };
    classes.sort_by_key(|c| (depth(c.handle), c.handle));
}

/// A handle in the form of tc, such as `1:2`.
pub fn shown(handle: u32) -> String {
    match handle {
        ROOT => "root".to_string(),
        _ if handle & 0xffff == 0 => format!("{:x}:", handle >> 16),
        _ => format!("{:x}:{:x}", handle >> 16, handle & 0xffff),
    }
}

/// Reads a handle in the form `root`, `1:`, `1:2` or `:2`; `None` if invalid.
pub fn handle(shown: &str) -> Option<u32> {
    if shown == "root" {
        return Some(ROOT);
    }
    let (major, minor) = shown.split_once(':')?;
    let part = |text: &str| match text {
        "" => Some(0),
        _ if text.len() <= 4 && text.bytes().all(|b| b.is_ascii_hexdigit()) => {
            u32::from_str_radix(text, 16).ok()
        }
        _ => None,
    };
    Some(part(major)? << 16 | part(minor)?)
}

impl Tree {
    /// The tree as JSON, with everything that is needed to restore it.
    pub fn to_json(&self) -> Value {
        let list = |nodes: &[Node]| -> Vec<Value> {
            let one = |n: &Node| {
                json!({"kind": n.kind, "handle": shown(n.handle),
                "parent": shown(n.parent), "hex": super::to_hex(&n.options)})
            };
            nodes.iter().map(one).collect()
        };
        json!({ "queues": list(&self.queues), "classes": list(&self.classes),
        "filters": self.filters })
    }
    /// Reads the JSON of [`to_json`](Self::to_json); `None` if invalid.
    pub fn from_json(value: &Value) -> Option<Tree> {
        let list = |value: &Value| -> Option<Vec<Node>> {
            let one = |n: &Value| {
                Some(Node {
                    kind: n["kind"]
                        .as_str()
                        .filter(|kind| kind.len() < 16)?
                        .to_string(),
                    handle: handle(n["handle"].as_str()?)?,
                    parent: handle(n["parent"].as_str()?)?,
                    options: super::from_hex(n["hex"].as_str()?)
                        .filter(|hex| hex.len() < DUMP_MOST)?,
                })
            };
            value.as_array()?.iter().map(one).collect()
        };
        Some(Tree {
            queues: list(&value["queues"])?,
            classes: list(&value["classes"])?,
            filters: usize::try_from(value["filters"].as_u64()?).ok()?,
        })
    }
    /// The disciplines as `tc qdisc show` prints them, joined to one line.
    pub fn as_tc(&self) -> String {
        let lines: Vec<String> = self.queues.iter().map(Node::as_tc).collect();
        if lines.is_empty() {
            return "no queue discipline".to_string();
        }
        lines.join("; ")
    }
    /// The discipline whose parent is `parent`. If the kernel created the root, the parents of its
    /// leaves are `:1`, `:2` and so on.
    pub fn at(&self, parent: u32) -> Option<&Node> {
        self.queues.iter().find(|q| q.parent == parent)
    }
    /// Disciplines configured by other programs that `steps` would replace.
    pub fn made(&self, steps: &[Step]) -> Vec<&Node> {
        let whole =
            |s: &Step| s.parent == ROOT && self.at(ROOT).is_some_and(|root| root.kind != s.kind);
        let all = steps.iter().any(whole);
        let kept = |q: &Node| {
            steps
                .iter()
                .any(|s| s.parent == q.parent && s.kind == q.kind)
        };
        let meant = |q: &&Node| {
            q.handle != 0 && (all || steps.iter().any(|s| s.parent == q.parent)) && !kept(q)
        };
        self.queues
            .iter()
            .filter(meant)
            .filter(|q| Qdisc::role_of(&q.kind) == Role::Configured)
            .collect()
    }
    /// Whether two trees have the same disciplines, options and classes. A handle that the kernel
    /// did not assign (0) matches any handle.
    pub fn same(&self, other: &Tree) -> bool {
        let alike = |a: &Node, b: &Node| {
            a.kind == b.kind
                && a.options == b.options
                && (a.handle == b.handle || a.handle == 0 || b.handle == 0)
                && (a.parent == b.parent
                    || a.parent & 0xffff == b.parent & 0xffff && (a.handle == 0 || b.handle == 0))
        };
        let all = |a: &[Node], b: &[Node]| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b))
        };
        all(&self.queues, &other.queues) && self.classes == other.classes
    }
}

/// A requested discipline and its place in the tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// The parent of the discipline: the root, or a class.
    pub parent: u32,
    /// The name of the discipline.
    pub kind: String,
    /// The handle of the discipline, if it must have a certain one.
    pub handle: u32,
    /// The shaping parameters, if the discipline shapes.
    pub shape: Option<Shape>,
}

impl Step {
    /// Whether the tree has this discipline in this place. For a shaper, only the rate is compared.
    pub fn is(&self, tree: &Tree) -> bool {
        let found = tree.at(self.parent).or_else(|| {
            // Leaves of an `mq` that the kernel created have no handle, for example after a reboot.
            tree.at(self.parent & 0xffff)
                .filter(|_| self.parent != ROOT)
        });
        found.is_some_and(|q| {
            q.kind == self.kind && self.shape.is_none_or(|shape| shape.is(&q.options))
        })
    }
}

fn named(kind: &str) -> Vec<u8> {
    [kind.as_bytes(), &[0]].concat()
}

fn put(netlink: &mut Netlink, index: u32, kind: u16, node: &Node, flags: i32) -> io::Result<()> {
    let mut made = message(kind, index, node.handle, node.parent)
        .attribute(libc::TCA_KIND, &named(&node.kind));
    if !node.options.is_empty() {
        made = made.attribute(libc::TCA_OPTIONS, &node.options);
    }
    netlink.tell(made, flags).map_err(|e| {
        let place = shown(node.parent);
        io::Error::new(e.kind(), format!("{} at {place}: {e}", node.kind))
    })
}

/// Creates the disciplines that the device does not have yet, in order. `done` is called after
/// each.
pub fn make(name: &str, steps: &[Step], done: &mut dyn FnMut()) -> io::Result<()> {
    let index = device(name)?;
    let mut netlink = Netlink::new()?;
    for step in steps {
        let tree = read(name)?;
        if step.is(&tree)
            && (step.handle == 0
                || tree
                    .at(step.parent)
                    .is_some_and(|q| q.handle == step.handle))
        {
            continue;
        }
        let node = Node {
            kind: step.kind.clone(),
            handle: step.handle,
            parent: step.parent,
            options: step.shape.map(Shape::options).unwrap_or_default(),
        };
        let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        put(&mut netlink, index, libc::RTM_NEWQDISC, &node, flags)
            .map_err(|e| io::Error::new(e.kind(), format!("qdisc of {name}: {e}")))?;
        done();
    }
    Ok(())
}

/// Restores the tree `before`, from the root on. `done` is called after each step.
pub fn restore(name: &str, before: &Tree, done: &mut dyn FnMut()) -> io::Result<()> {
    if read(name)? == *before {
        return Ok(());
    }
    let index = device(name)?;
    let mut netlink = Netlink::new()?;
    let at = |e: io::Error| io::Error::new(e.kind(), format!("qdisc of {name}: {e}"));
    match netlink.tell(message(libc::RTM_DELQDISC, index, 0, ROOT), 0) {
        Ok(()) => done(),
        // Disciplines that the kernel attached cannot be removed.
        Err(e) if matches!(e.raw_os_error(), Some(libc::ENOENT | libc::EINVAL)) => {}
        Err(e) => return Err(at(e)),
    }
    let create = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
    let mut own = before.queues.iter().filter(|q| q.handle != 0);
    if let Some(root) = own.next() {
        put(&mut netlink, index, libc::RTM_NEWQDISC, root, create).map_err(at)?;
        done();
        for class in &before.classes {
            put(
                &mut netlink,
                index,
                libc::RTM_NEWTCLASS,
                class,
                libc::NLM_F_CREATE,
            )
            .map_err(at)?;
            done();
        }
        for queue in own {
            put(&mut netlink, index, libc::RTM_NEWQDISC, queue, create).map_err(at)?;
            done();
        }
    }
    // The kernel may now attach another discipline than before. The previous discipline is then
    // created explicitly, and has a handle.
    if read(name)?.same(before) {
        return Ok(());
    }
    for queue in before
        .queues
        .iter()
        .filter(|q| q.handle == 0 && q.kind != "noqueue")
    {
        let live = read(name)?;
        let Some(mut root) = live.at(ROOT).cloned() else {
            continue;
        };
        let there = |parent: u32| {
            live.at(parent)
                .is_some_and(|q| q.kind == queue.kind && q.options == queue.options)
        };
        if there(queue.parent) {
            continue;
        }
        if queue.parent != ROOT && root.handle == 0 {
            // Leaves can be distinguished only below a root with a handle.
            put(&mut netlink, index, libc::RTM_NEWQDISC, &root, create).map_err(at)?;
            done();
            root = read(name)?.at(ROOT).cloned().unwrap_or(root);
        }
        let parent = if queue.parent == ROOT {
            ROOT
        } else {
            root.handle | queue.parent & 0xffff
        };
        if !there(parent) {
            put(
                &mut netlink,
                index,
                libc::RTM_NEWQDISC,
                &Node {
                    parent,
                    ..queue.clone()
                },
                create,
            )
            .map_err(at)?;
            done();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(kind: &str, handle: u32, parent: u32) -> Node {
        Node {
            kind: kind.to_string(),
            handle,
            parent,
            options: vec![1, 2],
        }
    }

    #[test]
    fn handles_are_written_as_tc_writes_them() {
        for (text, number) in [
            ("root", ROOT),
            ("1:", 0x10000),
            ("8001:a", 0x8001_000a),
            ("0:1", 1),
        ] {
            assert_eq!(handle(text), Some(number));
            assert_eq!(shown(number), text);
        }
        assert_eq!(handle(":2"), Some(2));
        for odd in ["", "1", "x:1", "12345:", "1:2:3", "+1:2"] {
            assert_eq!(handle(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_tree_is_printed_as_tc_prints_it() {
        let tree = Tree {
            queues: vec![
                node("htb", 0x10000, ROOT),
                node("pfifo", 0x200000, 0x10020),
                node("fq_codel", 0, 1),
            ],
            ..Tree::default()
        };
        let lines = [
            "qdisc htb 1: root",
            "qdisc pfifo 20: parent 1:20",
            "qdisc fq_codel 0: parent :1",
        ];
        assert_eq!(tree.as_tc(), lines.join("; "));
        assert_eq!(Tree::default().as_tc(), "no queue discipline");
    }

    #[test]
    fn a_tree_survives_its_own_json() {
        let tree = Tree {
            queues: vec![node("htb", 0x10000, ROOT), node("pfifo", 0x20000, 0x10001)],
            classes: vec![node("htb", 0x10001, 0x10000)],
            filters: 0,
        };
        assert_eq!(Tree::from_json(&tree.to_json()), Some(tree));
        assert_eq!(Tree::from_json(&json!({ "queues": [{}] })), None);
    }

    #[test]
    fn classes_stand_behind_what_they_hang_on() {
        let mut classes = [
            node("htb", 0x1000a, 0x10001),
            node("htb", 0x10001, 0x10000),
            node("htb", 0x10003, 0x1000a),
        ];
        sort(&mut [], &mut classes);
        assert_eq!(classes.map(|c| c.handle), [0x10001, 0x1000a, 0x10003]);
    }

    #[test]
    fn what_somebody_made_is_seen_and_what_the_kernel_made_is_not() {
        let step = [Step {
            parent: ROOT,
            kind: "fq".to_string(),
            handle: 0,
            shape: None,
        }];
        let tree = |kind, handle| Tree {
            queues: vec![node(kind, handle, ROOT)],
            ..Tree::default()
        };
        assert!(tree("cake", 0).made(&step).is_empty());
        assert!(tree("fq_codel", 0x10000).made(&step).is_empty());
        assert_eq!(tree("cake", 0x10000).made(&step).len(), 1);
        assert!(!step[0].is(&tree("cake", 0)));
    }
}
