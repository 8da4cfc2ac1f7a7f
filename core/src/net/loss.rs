//! Random loss.
//!
//! Linux's `netem` on a sender's own interface draws once per super-packet of TCP, so two to 45
//! segments are lost together or not at all. Measured on Linux 6.12: at 50 Mbit/s, 0.1 % loss
//! removes two or more segments at a time. This holds with the offloads of the interface off, too,
//! because TCP's bursts are segmented after the queue. By default, the model draws once per
//! super-packet, too. `per = "packet"` draws for each packet, as on a wire.
//!
//! - `independent`: each unit (super-packet or packet) is lost with one probability. With
//!   `correlation`, a draw also depends on the previous one ([`Bernoulli`]).
//! - `gilbert_elliott`: a chain of two states that steps once for each unit. In the good state a
//!   unit is lost with `loss_good`, in the bad state with `loss_bad`. After each unit, the state
//!   changes from good to bad with probability `p`, and from bad to good with probability `r`. The
//!   bad state lasts for `1 / r` units on average, and contains the share `p / (p + r)` of all
//!   units. With the defaults of `loss_good` and `loss_bad` (Gilbert's model), `p / (p + r)` is the
//!   loss rate and `1 / r` the mean burst. `mean_loss` and `mean_burst` specify these two values
//!   directly. The chain starts in the good state. (Linux 6.12, `gemodel 2% 20%`, 60 000 packets:
//!   8.8 % in bursts of 4.8; the formulas give 9.1 and 5.)
//!
//! Sources: tc-netem(8) `loss random`, `loss gemodel`, Linux 6.12 `sch_netem` (its 1−h is
//! `loss_bad`, its 1−k `loss_good`); Gilbert 1960, Elliott 1963.

use super::ElementKind;
use super::bernoulli::{Bernoulli, CORRELATION, of_2_64};
use crate::param::{Choice, Kind, Param, Params, Refusal, no_check};
use crate::rng::Rng;
use alloc::string::String;

const PER: Param = Param {
    name: "per",
    kind: Kind::Word(&["superpacket", "packet"]),
    help: "unit of a loss: all packets that the sender releases at once (superpacket), or each \
        packet",
    source: "measured on Linux 6.12",
};

const INDEPENDENT: &[Param] = &[
    Param {
        name: "probability",
        kind: Kind::Probability(0.0),
        help: "loss probability",
        source: "tc-netem(8)",
    },
    CORRELATION,
    PER,
];

const GILBERT_ELLIOTT: &[Param] = &[
    Param {
        name: "p",
        kind: Kind::Probability(0.0),
        help: "probability of a change from the good to the bad state; required unless mean_loss \
            and mean_burst are given",
        source: "tc-netem(8) gemodel p",
    },
    Param {
        name: "r",
        kind: Kind::Probability(0.0),
        help: "probability of a change from the bad to the good state; 0: 1 - p, which makes \
            losses independent",
        source: "tc-netem(8) gemodel r",
    },
    Param {
        name: "loss_bad",
        kind: Kind::Probability(1.0),
        help: "loss probability in the bad state",
        source: "tc-netem(8) gemodel 1-h",
    },
    Param {
        name: "loss_good",
        kind: Kind::Probability(0.0),
        help: "loss probability in the good state",
        source: "tc-netem(8) gemodel 1-k",
    },
    Param {
        name: "mean_loss",
        kind: Kind::Probability(0.0),
        help: "mean loss rate, instead of p and r; 0: p and r determine it",
        source: "p / (p + r)",
    },
    Param {
        name: "mean_burst",
        kind: Kind::Number(0.0, 0.0, 1e9),
        help: "mean number of losses in a row, at least 1, instead of p and r; 0: p and r \
            determine it",
        source: "1 / r",
    },
    PER,
];

/// The models of loss.
pub const KINDS: &[ElementKind] = &[
    ElementKind {
        name: "independent",
        help: "independent losses with a probability",
        source: "tc-netem(8) loss random, Linux 6.12 sch_netem",
        params: INDEPENDENT,
        check: no_check,
    },
    ElementKind {
        name: "gilbert_elliott",
        help: "bursts of losses: a good and a bad state alternate",
        source: "tc-netem(8) loss gemodel, Linux 6.12 sch_netem; Gilbert 1960, Elliott 1963",
        params: GILBERT_ELLIOTT,
        check,
    },
];

/// Checks that the model is given once, and by a possible pair of values.
fn check(params: &Params) -> Result<(), Refusal> {
    let [p, r, loss, burst] = ["p", "r", "mean_loss", "mean_burst"].map(|name| params.number(name));
    let refuse = |param, problem: &str, fix: String| {
        Err(Refusal {
            param,
            problem: String::from(problem),
            fix,
        })
    };
    if loss == 0.0 && burst == 0.0 {
        return if p > 0.0 {
            Ok(())
        } else {
            refuse(
                "p",
                "must be above 0 unless mean_loss is given",
                String::from("\"1%\""),
            )
        };
    }
    if p > 0.0 || r > 0.0 {
        let other = if loss > 0.0 {
            "mean_loss"
        } else {
            "mean_burst"
        };
        return refuse(other, "cannot be combined with p and r", String::from("0"));
    }
    if params.number("loss_bad") != 1.0 {
        return refuse(
            "loss_bad",
            "must be 1 with mean_loss",
            String::from("\"100%\""),
        );
    }
    if params.number("loss_good") != 0.0 {
        return refuse("loss_good", "must be 0 with mean_loss", String::from("0.0"));
    }
    if loss == 0.0 {
        return refuse(
            "mean_loss",
            "must be above 0 with mean_burst",
            String::from("\"1%\""),
        );
    }
    if burst < 1.0 {
        return refuse(
            "mean_burst",
            "must be at least 1 with mean_loss",
            String::from("1.0"),
        );
    }
    if loss > burst / (1.0 + burst) {
        let least = libm::ceil(loss / (1.0 - loss)).min(1e9);
        let problem =
            "is too short for so much loss: there is at least one unit between two bursts";
        return if loss < 1.0 {
            refuse("mean_burst", problem, alloc::format!("{least:?}"))
        } else {
            refuse(
                "mean_loss",
                "leaves no unit between two bursts",
                String::from("\"50%\""),
            )
        };
    }
    Ok(())
}

/// The two-state chain.
#[derive(Clone, Debug)]
struct GilbertElliott {
    bad: bool,
    /// Probabilities in the good and the bad state, × 2⁶⁴: of a loss, and of the transition to the
    /// other state.
    lost: [u64; 2],
    turns: [u64; 2],
    rng: Rng,
}

impl GilbertElliott {
    fn new(params: &Params, rng: Rng) -> Option<GilbertElliott> {
        let [mut p, mut r, loss, burst] =
            ["p", "r", "mean_loss", "mean_burst"].map(|name| params.number(name));
        if loss > 0.0 {
            r = 1.0 / burst.max(1.0);
            p = (r * loss / (1.0 - loss)).min(1.0);
        } else if r == 0.0 {
            r = 1.0 - p;
        }
        let lost = [params.number("loss_good"), params.number("loss_bad")];
        let ever = lost[0] > 0.0 || (p > 0.0 && lost[1] > 0.0);
        ever.then(|| GilbertElliott {
            bad: false,
            lost: lost.map(of_2_64),
            turns: [p, r].map(of_2_64),
            rng,
        })
    }
    fn happens(&mut self) -> bool {
        let state = usize::from(self.bad);
        let lost = self.rng.next_u64() < self.lost[state];
        self.bad ^= self.rng.next_u64() < self.turns[state];
        lost
    }
}

#[derive(Clone, Debug)]
enum Process {
    Independent(Bernoulli),
    GilbertElliott(GilbertElliott),
}

/// A loss model of one of [`KINDS`].
#[derive(Clone, Debug)]
pub struct LossModel {
    per_packet: bool,
    lost_before: bool,
    /// Whether the next packet has a draw, even if it continues a super-packet.
    begins: bool,
    process: Process,
}

impl LossModel {
    /// Creates the model named `kind`; `None` if nothing is ever lost. An unknown name selects the
    /// first of [`KINDS`]; scenarios are checked before.
    pub fn new(kind: &str, params: &Params, rng: Rng) -> Option<LossModel> {
        let process = match kind {
            "gilbert_elliott" => Process::GilbertElliott(GilbertElliott::new(params, rng)?),
            _ => Process::Independent(Bernoulli::of(params, rng)?),
        };
        Some(LossModel {
            per_packet: params.word("per") == "packet",
            lost_before: false,
            begins: false,
            process,
        })
    }
    /// Returns this model, which begins during a run: its first draw may be for the rest of a
    /// super-packet.
    #[must_use]
    pub fn during_a_run(self) -> LossModel {
        LossModel {
            begins: true,
            ..self
        }
    }
    /// Returns whether the next packet is lost. `joined` states whether the packet belongs to the
    /// same super-packet as the packet before.
    pub fn is_lost(&mut self, joined: bool) -> bool {
        if !joined || self.per_packet || self.begins {
            self.begins = false;
            self.lost_before = match &mut self.process {
                Process::Independent(trial) => trial.happens(),
                Process::GilbertElliott(chain) => chain.happens(),
            };
        }
        self.lost_before
    }
}

/// Returns whether the model never loses a packet.
pub fn is_none(model: &Choice) -> bool {
    LossModel::new(&model.kind, &model.params, Rng::named(0, "")).is_none()
}
