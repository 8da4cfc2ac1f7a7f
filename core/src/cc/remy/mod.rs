//! RemyCC: a congestion control found by a computer search, as a tree of rules.
//!
//! Algorithm, in ms and packets: a sender keeps moving averages (weight 1/8) of the gaps between
//! packets (`rec_send_ewma`) and between their ACKs (`rec_rec_ewma`). It also keeps a slow average
//! (weight 1/256) of the gaps between ACKs, `slow_rec_rec_ewma`, and `rtt_ratio`, the last RTT
//! divided by the minimum RTT. For each packet acknowledged, the rule for these values sets `window
//! = multiple · window + increment` and the gap `intersend` between packets. A loss does not change
//! these values, the window or the gap; the transport retransmits.
//!
//! | file | contents |
//! |---|---|
//! | `mod` | the sender's memory, and how rules act on the window |
//! | [`tree`] | the tree of rules, and its text format |
//! | [`dna`] | reader of Remy's own files |
//!
//! Sources: Winstein, Balakrishnan: TCP ex Machina: Computer-Generated Congestion Control (SIGCOMM
//! 2013). The slow average is from Sivaraman et al.: An Experimental Study of the Learnability of
//! Congestion Control (SIGCOMM 2014). Constants are from Remy's `memory.cc` and `dna.proto`.
//!
//! Deviations, all because TCP has selective and delayed ACKs:
//! - an ACK of several packets counts as that many ACKs, evenly spaced since the last ACK;
//! - gaps between ACKs are measured at their arrival at the sender, because an ACK contains the
//!   receiver's clock only in milliseconds;
//! - packets acknowledged by an ACK without an RTT sample (after a retransmission) count with the
//!   next ACK that has one;
//! - the window is at least one packet, because a sender without packets in flight receives no
//!   ACKs;
//! - the transport may send the packets of one millisecond together in a burst, and does not pace
//!   the first ten packets;
//! - a sender resets its memory when the application resumes after an idle period. Remy's sender
//!   does so at the start of every "on" period.

pub mod dna;
pub mod tree;

#[cfg(test)]
mod tests;

use super::{
    Ack, CcKind, CongestionControl, Family, Host, Loss, Need, Sample, Sent, SpuriousLoss, Start,
    Window,
};
use crate::param::{Kind, Param, Params, TextKind};
use crate::transport::MSS;
use crate::units::{Rate, Span, Time};
use alloc::boxed::Box;
use alloc::sync::Arc;
pub use dna::from_dna;
pub use tree::{Action, Memory, Tree};

/// Weight of a new value in the averages.
const ALPHA: f64 = 1.0 / 8.0;
/// Weight of a new value in the slow average.
const SLOW_ALPHA: f64 = 1.0 / 256.0;

/// The trees that are part of narrows.
pub static TREES: TextKind = TextKind {
    shipped: &[("small", include_str!("small.remy"))],
    check: |text| Tree::read(text).map(|_| ()),
};

/// The parameters.
pub const PARAMS: &[Param] = &[Param {
    name: "tree",
    kind: Kind::Text(&TREES),
    help: "tree of rules: one that is included in narrows, or a file",
    source: "docs/reference/remy-tree.md",
}];

/// The memory of a sender, and the values from which it is updated.
#[derive(Clone, PartialEq, Debug, Default)]
struct Past {
    memory: Memory,
    /// Times of transmission and acknowledgement of the last packet with an RTT sample.
    last: Option<(Time, Time)>,
    /// The minimum RTT.
    least: Option<Span>,
    /// Packets acknowledged since then by ACKs without an RTT sample.
    untold: u32,
}

impl Past {
    /// Handles an ACK that acknowledges `packets` packets, the last of which was sent `rtt` before
    /// `now`. Returns the number of packets that this ACK counts for. Also returns the gaps per
    /// packet in ms, between transmissions and between ACKs.
    fn hear(&mut self, now: Time, rtt: Span, packets: u32) -> (u32, Option<(f64, f64)>) {
        let packets = core::mem::take(&mut self.untold).saturating_add(packets);
        let sent = Time::from_ns(now.as_ns().saturating_sub(rtt.as_ns()));
        let least = self
            .least
            .map_or(rtt, |least| least.min(rtt))
            .max(Span::us(1));
        self.least = Some(least);
        let Some((last_sent, last_heard)) = self.last.replace((sent, now)) else {
            return (packets, None);
        };
        self.memory[2] = rtt.max(least).as_ns() as f64 / least.as_ns() as f64;
        let each = f64::from(packets.max(1));
        (
            packets,
            Some((
                sent.since(last_sent).as_ms() / each,
                now.since(last_heard).as_ms() / each,
            )),
        )
    }
    /// Adds one packet to the averages, with its gaps in ms: between transmissions, between ACKs.
    fn average(&mut self, (sent, heard): (f64, f64)) {
        let [by_send, by_heard, _, slowly] = &mut self.memory;
        *by_send += ALPHA * (sent - *by_send);
        *by_heard += ALPHA * (heard - *by_heard);
        *slowly += SLOW_ALPHA * (heard - *slowly);
    }
}

/// RemyCC's state.
#[derive(Clone, Debug)]
pub struct Remy {
    tree: Arc<Tree>,
    past: Past,
    window: u32,
    rtt: Option<Span>,
    mss: u32,
}

impl Remy {
    /// The state of a sender that follows `tree`.
    pub fn new(tree: Tree) -> Remy {
        Remy {
            tree: Arc::new(tree),
            past: Past::default(),
            window: 0,
            rtt: None,
            mss: MSS,
        }
    }
    /// Returns this state for full segments of `mss` bytes.
    pub fn with_mss(self, mss: u32) -> Remy {
        Remy { mss, ..self }
    }
    /// Applies the rule for the present memory once, to window and pacing rate.
    fn act(&mut self, w: &mut Window) {
        let action = self.tree.action(&self.past.memory);
        self.window = action.window(self.window);
        w.pacing = Some(rate(action.intersend_ms, self.mss));
        w.cwnd = self.window.max(1).min(w.clamp);
    }
    /// Resets memory and window, and applies the rule for an empty memory.
    fn begin(&mut self, w: &mut Window) {
        self.past = Past::default();
        self.window = 0;
        self.act(w);
    }
}

/// The pacing rate at which full packets of `mss` bytes leave `intersend_ms` apart.
fn rate(intersend_ms: f64, mss: u32) -> Rate {
    // The cast saturates: without a gap there is no limit.
    Rate::bit((f64::from(mss) * 8000.0 / intersend_ms) as u64).max(Rate::bit(1))
}

impl CongestionControl for Remy {
    fn on_start(&mut self, w: &mut Window, _ev: &Start) {
        w.min_burst = 1;
        self.begin(w);
    }
    fn on_sent(&mut self, w: &mut Window, ev: &Sent) {
        if ev.app_limited && ev.last_sent.is_some() {
            self.begin(w);
        }
    }
    fn on_sample(&mut self, _w: &mut Window, ev: &Sample) {
        self.rtt = ev.rtt;
    }
    fn on_ack(&mut self, w: &mut Window, ev: &Ack) {
        let Some(rtt) = self.rtt.take() else {
            self.past.untold = self.past.untold.saturating_add(ev.delivered);
            return;
        };
        let (packets, gaps) = self.past.hear(ev.now, rtt, ev.delivered);
        for _ in 0..packets {
            if let Some(gaps) = gaps {
                self.past.average(gaps);
            }
            self.act(w);
        }
        // After a timeout, the transport has set another window.
        w.cwnd = self.window.max(1).min(w.clamp);
    }
    fn on_loss(&mut self, _w: &mut Window, _ev: &Loss) {}
    fn on_spurious_loss(&mut self, _w: &mut Window, _ev: &SpuriousLoss) {}
    fn in_slow_start(&self, _w: &Window) -> bool {
        false
    }
    fn owns_recovery(&self) -> bool {
        true
    }
    fn needs_pacing(&self) -> bool {
        true
    }
    fn describe(&self, visit: &mut dyn FnMut(&'static str, f64)) {
        for (name, x) in tree::AXES.into_iter().zip(self.past.memory) {
            visit(name, x);
        }
        visit(
            "intersend_ms",
            self.tree.action(&self.past.memory).intersend_ms,
        );
    }
    fn fork(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

/// The tree of the parameter `tree`, whose text has already been checked.
fn tree_of(params: &Params) -> Tree {
    Tree::read(params.text("tree")).unwrap_or(Tree::of(UNTRAINED))
}

/// The rule with which Remy's search begins.
const UNTRAINED: Action = Action {
    multiple: 1.0,
    increment: 1,
    intersend_ms: 3.0,
};

/// The registry entry.
pub const KIND: CcKind = CcKind {
    name: "remy",
    help: "a tree of rules, found by a computer search, that maps RTTs and the gaps between \
        packets to changes of the window",
    source: "Winstein, Balakrishnan 2013",
    family: Family::Learned,
    year: 2013,
    needs: &[Need::Pacing, Need::FineRtt],
    default_in: &[],
    params: PARAMS,
    make: &|params, host: &Host| Box::new(Remy::new(tree_of(params)).with_mss(host.mss)),
};
