//! HTB, hierarchical token bucket: a tree of classes that share a link. Each class has a guaranteed
//! rate, and a maximum rate (ceil) up to which it may borrow from its parent.
//!
//! ```text
//!             1:1 rate 20 Mbit/s                  mode of a class  tokens of rate  tokens of ceil
//!            /        |         \                  can send         >= 0            >= 0
//!     1:10 5, ceil 20   1:20 3, ceil 20   …        may borrow        < 0            >= 0
//!        |                 |                        can't send                       < 0
//!     fq_codel            cake     (leaves hold any discipline)
//! ```
//!
//! Algorithm: a packet that leaves is charged to its class and all ancestors, at their rate and at
//! their ceil. A charge may exceed the available tokens. The class is then in debt until enough
//! tokens have accumulated (`bucket`). Leaves that have tokens of their own rate are served
//! first. Leaves that borrow from a parent with tokens of its rate follow, and then leaves whose
//! parent borrows. On each level, the lowest priority number is served first. Leaves with the same
//! priority take turns of a `quantum` (`tree`). A class that borrows is charged at its ceil, but
//! not at its rate. The mode of a class in debt is computed again when the debt has ended
//! (`agenda`). Packets that no class matches go to the `default` class. Without a `default`
//! class, they bypass all classes: they are sent before all others, without a rate limit.
//!
//! Sources: Linux 6.12 `sch_htb`, compared packet by packet (`core/tests/queue_replay.rs`);
//! tc-htb(8); Devera, *HTB Linux queuing discipline manual, user guide* (2002).
//!
//! As in Linux, the sum of the children's rates may exceed the rate of their parent. Each child
//! then still receives its own rate, and the ceil of the parent does not limit the sum. A debt is
//! limited to the tokens of one minute. There is no hysteresis, as in Linux with the default of the
//! module parameter `htb_hysteresis`.
//!
//! Deviations: a class with children must not be the `default` class and must not have a `match`. A
//! ceil must not be below the rate of its class. Linux accepts such configurations, but does not do
//! what they describe. Instead of Linux's filters, the `match` of a class specifies flows and code
//! points. Of more than 255 leaves, the last ones have no metrics of their own.

mod agenda;
mod bucket;
mod classify;
mod params;
mod ranks;
mod tree;

pub use params::{CLASS, NAME, PARAMS, notices};

use super::fifo::Fifo;
use super::{Backlog, ClassCounts, Factory, Limit, QueueContext, QueueDiscipline, QueueKind, Sink};
use crate::packet::{Packet, flow_hash};
use crate::param::{Choice, Params};
use crate::units::{Bytes, Rate, Time};
use agenda::Agenda;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use bucket::{Bucket, Line};
use classify::Classifier;
use params::{DIRECT, check_all, is_root, label, numbers, positions};
use tree::{LEVELS, Spec, Tree};

/// Maximum number of leaves with metrics of their own, because the class of a packet is reported as
/// a byte.
const MOST_TOLD: usize = 255;
/// Minimum and maximum of the default quantum, in bytes.
const TURN: (u64, u64) = (1000, 200_000);
const NONE: u32 = u32::MAX;

/// A class without children, which contains packets.
struct Leaf<P> {
    name: String,
    /// The number of the class in the tree.
    class: u32,
    queue: Box<dyn QueueDiscipline<P>>,
    wakes: bool,
    backlog: Backlog,
    arrived: u64,
}

/// The queue discipline `htb`: a tree of classes.
pub struct Htb<P> {
    tree: Tree,
    leaves: Vec<Leaf<P>>,
    /// The index in `leaves` of each class; `NONE` for classes with children.
    leaf_of: Vec<u32>,
    classifier: Classifier,
    default: Option<usize>,
    /// The queue of packets without a class.
    direct: Fifo<P>,
    /// Number of packets without a class that arrived, and the packets without a class that were
    /// sent.
    direct_counts: (u64, Backlog),
    backlog: Backlog,
    /// Time at which the mode of a class changes next, if no class may send now.
    due: Option<Time>,
    /// The wake-up times of the disciplines of the leaves.
    wakeups: Agenda,
    /// The leaf that was served last.
    served: usize,
    /// Disciplines that are still to be created: the leaf, the choice and the context of each.
    wanted: Vec<(usize, Choice, QueueContext)>,
}

fn spec(class: &Params, r2q: u64, by_id: &alloc::collections::BTreeMap<&str, usize>) -> Spec {
    let rate = class.rate("rate");
    let ceil = ceil_of(class);
    let quantum = match class.bytes("quantum").get() {
        0 => (rate.as_bit() / 8 / r2q.max(1)).clamp(TURN.0, TURN.1),
        quantum => quantum,
    };
    let parent = class.word("parent");
    Spec {
        parent: by_id.get(parent).copied().filter(|_| !is_root(parent)),
        id: numbers(class.word("id")).1,
        prio: class.count("prio").min(7) as u8,
        quantum,
        rate: Bucket::new(rate, class.bytes("burst")),
        ceil: Bucket::new(ceil, class.bytes("cburst")),
        line: Line {
            overhead: class.bytes("overhead").get(),
            least: class.bytes("mpu").get(),
            atm: class.word("linklayer") == "atm",
        },
    }
}

fn ceil_of(class: &Params) -> Rate {
    let (rate, ceil) = (class.rate("rate"), class.rate("ceil"));
    if ceil.as_bit() == 0 { rate } else { ceil }
}

impl<P: Packet + Send + 'static> Htb<P> {
    /// A tree from parameters that have been checked. The leaves have FIFO queues until
    /// [`build_nested`](QueueDiscipline::build_nested) creates their disciplines.
    pub fn new(params: &Params, context: &QueueContext) -> Htb<P> {
        let classes = params.rows("classes");
        let by_id = positions(classes);
        let specs: Vec<Spec> = classes
            .iter()
            .map(|class| spec(class, params.count("r2q"), &by_id))
            .collect();
        let mut inner = alloc::vec![false; specs.len()];
        specs
            .iter()
            .filter_map(|spec| spec.parent)
            .for_each(|parent| inner[parent] = true);
        let mut leaf_of = alloc::vec![NONE; specs.len()];
        let (mut leaves, mut wanted) = (Vec::new(), Vec::new());
        for (i, class) in classes.iter().enumerate().filter(|(i, _)| !inner[*i]) {
            let limit = match class.packets("limit") {
                0 => context.limit,
                packets => Some(Limit::Packets(packets)),
            };
            let inside = QueueContext {
                limit,
                rate: ceil_of(class),
                hz: context.hz,
                seed: context.seed
                    ^ u64::from(flow_hash(u64::from(specs[i].id), context.seed)) << 16,
            };
            leaf_of[i] = leaves.len() as u32;
            leaves.push(Leaf {
                name: label(class).into(),
                class: i as u32,
                queue: Box::new(Fifo::new(limit.unwrap_or(Limit::Packets(1000))))
                    as Box<dyn QueueDiscipline<P>>,
                wakes: false,
                backlog: Backlog::default(),
                arrived: 0,
            });
            wanted.extend(
                class
                    .choice("queue")
                    .map(|choice| (leaves.len() - 1, choice.clone(), inside)),
            );
        }
        let leaf_classes = (0..classes.len()).filter(|i| leaf_of[*i] != NONE);
        let classifier = Classifier::new(
            leaf_classes.filter_map(|i| Some((leaf_of[i] as usize, classes[i].matching("match")?))),
        );
        let default = by_id.get(params.word("default")).map(|i| leaf_of[*i]);
        Htb {
            tree: Tree::new(&specs),
            wakeups: Agenda::new(leaves.len()),
            leaves,
            default: default
                .filter(|leaf| *leaf != NONE)
                .map(|leaf| leaf as usize),
            leaf_of,
            classifier,
            direct: Fifo::new(
                context
                    .limit
                    .unwrap_or(Limit::Packets(params.packets("direct_qlen"))),
            ),
            direct_counts: (0, Backlog::default()),
            backlog: Backlog::default(),
            due: None,
            served: 0,
            wanted,
        }
    }
}

impl<P: Packet + Send> Htb<P> {
    /// Updates the backlog and the wake-up of a leaf's discipline after a change.
    #[inline]
    fn look_at(&mut self, leaf: usize) {
        let Leaf {
            queue,
            wakes,
            backlog,
            ..
        } = &mut self.leaves[leaf];
        let after = queue.backlog();
        self.backlog.bytes = self.backlog.bytes + after.bytes - backlog.bytes;
        self.backlog.packets = self.backlog.packets + after.packets - backlog.packets;
        *backlog = after;
        if *wakes {
            self.wakeups.set(leaf, queue.next_wakeup());
        }
    }

    /// Returns a packet of a leaf that sends with the tokens of a class on `level`, at the priority
    /// `prio`.
    fn serve(&mut self, level: usize, prio: usize, now: Time, sink: &mut dyn Sink<P>) -> Option<P> {
        let mut class = self.tree.turn(level, prio)?;
        let mut start = class;
        loop {
            let leaf = self.leaf_of[class] as usize;
            if self.leaves[leaf].backlog.packets == 0 {
                // The leaf is empty, because its discipline has dropped its packets.
                self.tree.deactivate(class);
                if self.tree.ready(level) >> prio & 1 == 0 {
                    return None;
                }
                let next = self.tree.turn(level, prio)?;
                if class == start {
                    start = next;
                }
                class = next;
                continue;
            }
            let packet = self.leaves[leaf].queue.dequeue(now, sink);
            self.look_at(leaf);
            if let Some(packet) = packet {
                let size = packet.size();
                self.tree.spend(class, level, prio, size);
                if self.leaves[leaf].backlog.packets == 0 {
                    self.tree.deactivate(class);
                }
                self.tree.charge(class, level, size, now);
                self.served = leaf;
                return Some(packet);
            }
            // The leaf's discipline holds its packets back: the other leaves have their turns.
            self.tree.pass(class, level, prio);
            class = self.tree.turn(level, prio)?;
            if class == start {
                return None;
            }
        }
    }
}

impl<P: Packet + Send> QueueDiscipline<P> for Htb<P> {
    fn enqueue(&mut self, now: Time, packet: P, sink: &mut dyn Sink<P>) {
        let Some(leaf) = self.classifier.class_of(&packet).or(self.default) else {
            let before = self.direct.backlog();
            self.direct_counts.0 += 1;
            self.direct.enqueue(now, packet, sink);
            let after = self.direct.backlog();
            self.backlog.bytes = self.backlog.bytes + after.bytes - before.bytes;
            self.backlog.packets = self.backlog.packets + after.packets - before.packets;
            return;
        };
        self.leaves[leaf].arrived += 1;
        self.leaves[leaf].queue.enqueue(now, packet, sink);
        self.look_at(leaf);
        if self.leaves[leaf].backlog.packets > 0 {
            self.tree.activate(self.leaves[leaf].class as usize);
        }
    }

    fn dequeue(&mut self, now: Time, sink: &mut dyn Sink<P>) -> Option<P> {
        self.due = None;
        if self.backlog.packets == 0 {
            return None;
        }
        if let Some(packet) = self.direct.dequeue(now, sink) {
            self.backlog.remove(packet.size());
            self.direct_counts.1.add(packet.size());
            self.served = self.leaves.len();
            return Some(packet);
        }
        for level in 0..LEVELS {
            self.tree.events(level, now);
            let ready = self.tree.ready(level);
            for prio in tree::priorities(ready) {
                if let Some(packet) = self.serve(level, prio, now, sink) {
                    return Some(packet);
                }
            }
        }
        self.due = self.tree.next_event();
        None
    }

    fn next_wakeup(&self) -> Option<Time> {
        Time::earlier(self.due, self.wakeups.first().map(|(at, _)| at))
    }
    fn on_wakeup(&mut self, now: Time, sink: &mut dyn Sink<P>) {
        // The wake-up was delivered; the link dequeues the packet.
        if self.due.is_some_and(|due| due <= now) {
            self.due = None;
        }
        while let Some((at, leaf)) = self.wakeups.first() {
            if at > now {
                return;
            }
            self.leaves[leaf].queue.on_wakeup(now, sink);
            self.look_at(leaf);
            if self.wakeups.first() == Some((at, leaf)) {
                // A discipline that requests its present wake-up time again would stop the clock.
                self.wakeups.remove(leaf);
            }
        }
    }
    fn backlog(&self) -> Backlog {
        self.backlog
    }
    fn build_nested(&mut self, make: &mut Factory<'_, P>) {
        for (leaf, choice, context) in core::mem::take(&mut self.wanted) {
            let Some(queue) = make(&choice, &context) else {
                continue;
            };
            self.leaves[leaf].wakes = queue.wakes();
            self.leaves[leaf].queue = queue;
            self.look_at(leaf);
        }
    }
    fn classes(&self) -> Vec<String> {
        if self.leaves.is_empty() {
            return Vec::new();
        }
        let names = self.leaves.iter().map(|leaf| leaf.name.clone());
        names
            .chain([String::from(DIRECT)])
            .take(MOST_TOLD)
            .collect()
    }
    fn backlog_of(&self, class: usize) -> Backlog {
        self.leaves
            .get(class)
            .map_or(self.direct.backlog(), |leaf| leaf.backlog)
    }
    fn class_served(&self) -> usize {
        self.served.min(MOST_TOLD)
    }
    fn counts_of(&self, class: usize) -> Option<ClassCounts> {
        let Some(leaf) = self.leaves.get(class) else {
            let (arrived, sent) = self.direct_counts;
            return Some(ClassCounts {
                sent,
                drops: arrived - sent.packets - self.direct.backlog().packets,
                overlimits: 0,
                borrowed: 0,
            });
        };
        let counts = self.tree.counts(leaf.class as usize);
        Some(ClassCounts {
            sent: Backlog {
                bytes: Bytes::new(counts.bytes),
                packets: counts.packets,
            },
            drops: leaf.arrived - counts.packets - leaf.backlog.packets,
            overlimits: counts.overlimits,
            borrowed: counts.borrowed,
        })
    }
}

/// The registry entry.
pub fn kind<P: Packet + Send + 'static>() -> QueueKind<P> {
    QueueKind {
        name: "htb",
        help: "a tree of classes with rates, which borrow from their parents up to their ceil; \
            each leaf has a queue discipline",
        source: "Linux 6.12 sch_htb, tc-htb(8)",
        params: PARAMS,
        check: check_all,
        feedback: false,
        make: &|params: &Params, context: &QueueContext| Box::new(Htb::<P>::new(params, context)),
    }
}
