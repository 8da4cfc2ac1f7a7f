//! Random loss.
//!
//! Linux's `netem` on a sender's own interface draws once for what TCP hands down: a super-packet of two to 45 segments is
//! lost whole or not at all (measured on Linux 6.12: at 50 Mbit/s, 0.1 % loss takes segments in pairs and more, also where
//! the interface has its offloads off, for TCP's bursts are cut after the queue). That is what `loss` means; loss on a wire,
//! drawn for each packet, is `per = "packet"`.

use super::ElementKind;
use crate::param::{no_check, Kind, Param, Params};
use crate::rng::Rng;
use crate::scenario::Choice;

/// Its kinds.
pub const KINDS: &[ElementKind] = &[ElementKind {
    name: "independent",
    help: "each is lost independently of the others",
    source: "Linux 6.12 netem",
    params: INDEPENDENT,
    check: no_check,
}];

const INDEPENDENT: &[Param] = &[
    Param {
        name: "probability",
        kind: Kind::Probability(0.0),
        help: "of each unit",
        source: "",
    },
    Param {
        name: "per",
        kind: Kind::Word(&["superpacket", "packet"]),
        help: "what is lost at once",
        source: "",
    },
];

/// Does it never lose anything?
pub fn is_none(model: &Choice) -> bool {
    model.kind == KINDS[0].name && model.params.number("probability") <= 0.0
}

/// Each is lost independently of the others.
#[derive(Clone, Debug)]
pub struct LossModel {
    whole: bool,
    lost_before: bool,
    threshold: u64,
    rng: Rng,
}

impl LossModel {
    /// `None` where nothing is ever lost.
    pub fn new(model: &Choice, rng: Rng) -> Option<LossModel> {
        let params: &Params = &model.params;
        let probability = params.number("probability");
        (probability > 0.0).then(|| LossModel {
            whole: params.word("per") != "packet",
            lost_before: false,
            threshold: (probability * 18_446_744_073_709_551_616.0) as u64,
            rng,
        })
    }
    /// Is the next packet lost? `joined`: it shares a super-packet with the one before.
    pub fn is_lost(&mut self, joined: bool) -> bool {
        if !(joined && self.whole) {
            self.lost_before = self.rng.next_u64() < self.threshold;
        }
        self.lost_before
    }
}
