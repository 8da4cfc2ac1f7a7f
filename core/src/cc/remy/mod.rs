//! RemyCC: a congestion control that a computer has found: a tree of rules.
//!
//! Law, ms and packets: a sender remembers moving averages (1/8) of the gaps between packets as
//! they were sent (`rec_send_ewma`) and as their ACKs came (`rec_rec_ewma`, and a slow one of
//! 1/256), and the last round trip over the least (`rtt_ratio`). The rule for where that lies says,
//! for each packet acknowledged, `window = multiple · window + increment`, and that packets leave
//! `intersend` apart. A loss changes nothing: sending again is the transport's.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | what is remembered and done |
//! | [`tree`] | the tree, and its text |
//! | [`dna`] | Remy's own files |
//!
//! Sources: Winstein, Balakrishnan: TCP ex Machina: Computer-Generated Congestion Control (SIGCOMM
//! 2013); Sivaraman et al.: An Experimental Study of the Learnability of Congestion Control
//! (SIGCOMM 2014) for the slow average; Remy's `memory.cc` and `dna.proto` for constants.
//! Deviations, all because this is a TCP with selective and delayed ACKs:
//! - an ACK of several packets counts as so many that came evenly since the last one;
//! - gaps are of arrivals at the sender, since an ACK tells the receiver's clock in milliseconds
//!   only;
//! - an ACK that tells no round trip (of what was sent twice) is remembered with the next one that
//!   does;
//! - one packet is always allowed, for who may send none hears of nothing;
//! - what leaves within a millisecond may leave together (bursts are the transport's), and its
//!   first ten packets are not paced;
//! - a sender forgets everything when the application has more to send after a silence, as Remy's
//!   does with every "on" period.

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

/// Of what is new in the averages, and in the slow one.
const ALPHA: f64 = 1.0 / 8.0;
const SLOW_ALPHA: f64 = 1.0 / 256.0;

/// The trees that come with narrows.
static TREES: TextKind = TextKind {
    shipped: &[("small", include_str!("small.remy"))],
    check: |text| Tree::read(text).map(|_| ()),
};

/// The parameters.
pub const PARAMS: &[Param] = &[Param {
    name: "tree",
    kind: Kind::Text(&TREES),
    help: "the tree of rules: one that comes with narrows, or a file",
    source: "docs/reference/remy-tree.md",
}];

/// What a sender remembers.
#[derive(Clone, PartialEq, Debug, Default)]
struct Past {
    memory: Memory,
    /// When the newest acknowledged packet was sent, and when its ACK came.
    last: Option<(Time, Time)>,
    least: Option<Span>,
    /// Acknowledged since.
    untold: u32,
}

impl Past {
    /// An ACK of a packet sent one `rtt` ago; answers of how many packets it tells, and by how much
    /// the gaps of each move the averages.
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
    /// One packet more, so far after the one before it (ms; as sent, as heard of).
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
}

impl Remy {
    /// A sender that follows `tree`.
    pub fn new(tree: Tree) -> Remy {
        Remy {
            tree: Arc::new(tree),
            past: Past::default(),
            window: 0,
            rtt: None,
        }
    }
    /// Does what the tree says for one packet.
    fn act(&mut self, w: &mut Window) {
        let action = self.tree.action(&self.past.memory);
        self.window = action.window(self.window);
        w.pacing = Some(rate(action.intersend_ms));
        w.cwnd = self.window.max(1).min(w.clamp);
    }
    /// As at the start: nothing is remembered, and the window is what the tree makes of none.
    fn begin(&mut self, w: &mut Window) {
        self.past = Past::default();
        self.window = 0;
        self.act(w);
    }
}

/// The rate of full packets so far apart.
fn rate(intersend_ms: f64) -> Rate {
    // The cast saturates: no gap is no limit.
    Rate::bit((f64::from(MSS) * 8000.0 / intersend_ms) as u64).max(Rate::bit(1))
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
        // Recovery, after a timeout, may have set another.
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

/// The tree of a text that has been read before.
fn tree_of(params: &Params) -> Tree {
    Tree::read(params.text("tree")).unwrap_or(Tree::of(UNTRAINED))
}

/// What Remy begins from.
const UNTRAINED: Action = Action {
    multiple: 1.0,
    increment: 1,
    intersend_ms: 3.0,
};

/// Its line in the registry.
pub const KIND: CcKind = CcKind {
    name: "remy",
    help: "a tree of rules that a computer has found, over gaps and round-trip times",
    source: "Winstein, Balakrishnan 2013",
    family: Family::Learned,
    year: 2013,
    needs: &[Need::Pacing, Need::FineRtt],
    default_in: &[],
    params: PARAMS,
    make: |params, _: &Host| Box::new(Remy::new(tree_of(params))),
};
