//! Policers: a rate without a queue. Packets above the rate are dropped, or forwarded with another
//! code point (DSCP).
//!
//! - `police`, the policer of Linux: a packet of `L` bytes conforms if the first bucket holds the
//!   time `L/rate` and the second the time `L/peakrate`. Tokens are removed only if the packet
//!   conforms. A packet larger than `mtu` never conforms. Sources: Linux 6.12 `act_police` (its
//!   verdicts on single packets were measured), tc-police(8).
//! - `srtcm` (RFC 2697): tokens at `cir` fill C up to `cbs`, and the excess fills E up to `ebs`. A
//!   packet is green if C holds enough tokens for it, else yellow if E does, else red. A green
//!   packet is charged to C, and a yellow packet to E; a red packet is not charged.
//! - `trtcm` (RFC 2698) has the buckets P (`pir`, `pbs`) and C (`cir`, `cbs`). A packet is red if P
//!   does not hold enough tokens for it, else yellow if C does not, else green. A yellow packet is
//!   charged to P, and a green packet to both.
//! - `cir`, the `police cir bc be` of routers: conform, exceed and violate are the colours green,
//!   yellow and red of a colour-blind `srtcm`. Such a policer ignores the code points of arriving
//!   packets. Source: Cisco, "Traffic Policing" (IOS 12.2T), its algorithm with two token buckets
//!   and both of its worked examples.
//! - `car`, the older `rate-limit cir bc be` of routers: one bucket that may lend tokens. See
//!   `Lender`.
//!
//! All buckets start full and fill continuously: no tokens are lost between packets. The first
//! `header` bytes of a frame do not count. By default, `police`, `srtcm` and `trtcm` count the
//! bytes of IP packets, as the RFCs and the ingress of Linux do; `cir` and `car` count whole
//! frames.
//!
//! Deviations: Linux's `act_police` can also meter an average (`avrate`) or count packets
//! (`pkts_rate`); this file cannot. In Linux, `mtu` applies to packets that the network card has
//! merged (GRO); here packets are not merged.

use super::ElementKind;
use crate::packet::Packet;
use crate::param::{Kind, Param, Params, Refusal};
use crate::queue::psched::{self, Pace};
use crate::units::{Bytes, Rate, Span, Time, format_bytes, format_rate};
use alloc::format;
use alloc::string::String;

/// The verdict on a packet.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Judgement {
    /// The packet is forwarded unchanged.
    Pass,
    /// The packet is forwarded with another code point, which [`judge`](Policer::judge) has set.
    Remarked,
    /// The packet is dropped.
    Drop,
}

/// The colour of a packet: green conforms, yellow exceeds, red violates.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Colour {
    Green,
    Yellow,
    Red,
}

/// The action on the packets of a colour.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Action {
    Pass,
    Drop,
    Set(u8),
    /// Set the drop precedence of the packet's own AF class to the colour (RFC 2697, 5).
    Recolour,
}

macro_rules! actions {
    ($first:literal, $second:literal) => {
        Kind::Word(&[
            $first, $second, "recolour", "cs0", "le", "cs1", "af11", "af12", "af13", "cs2", "af21",
            "af22", "af23", "cs3", "af31", "af32", "af33", "cs4", "af41", "af42", "af43", "cs5",
            "va", "ef", "cs6", "cs7",
        ])
    };
}
const PASSES: Kind = actions!("pass", "drop");
const DROPS: Kind = actions!("drop", "pass");

impl Action {
    fn named(word: &str) -> Action {
        let digit = |at: usize| word.as_bytes().get(at).map_or(0, |c| c.wrapping_sub(b'0'));
        match word {
            "pass" => Action::Pass,
            "recolour" => Action::Recolour,
            "le" => Action::Set(1),
            "va" => Action::Set(44),
            "ef" => Action::Set(46),
            _ if word.starts_with("cs") => Action::Set(8 * digit(2)),
            _ if word.starts_with("af") => Action::Set(8 * digit(2) + 2 * digit(3)),
            _ => Action::Drop,
        }
    }
    fn on<P: Packet>(self, colour: Colour, packet: &mut P) -> Judgement {
        let dscp = match self {
            Action::Pass => return Judgement::Pass,
            Action::Drop => return Judgement::Drop,
            Action::Set(dscp) => dscp,
            Action::Recolour => match assured(packet.dscp()) {
                Some(_) => (packet.dscp() & 0b11_1000) + 2 * (colour as u8 + 1),
                None => return Judgement::Pass,
            },
        };
        if dscp == packet.dscp() {
            return Judgement::Pass;
        }
        packet.set_dscp(dscp);
        Judgement::Remarked
    }
}

/// The colour of an assured-forwarding code point, AFxy of RFC 2597: y is 1 for green, 2 for
/// yellow, 3 for red.
fn assured(dscp: u8) -> Option<Colour> {
    match (dscp >> 3, dscp & 7) {
        (1..=4, 2) => Some(Colour::Green),
        (1..=4, 4) => Some(Colour::Yellow),
        (1..=4, 6) => Some(Colour::Red),
        _ => None,
    }
}

const HELP_HEADER: &str = "bytes of each frame that do not count; 14: the Ethernet header";
const HELP_DSCP: &str = "action on packets of this class: pass, drop, a code point to set, or \
    recolour (the drop precedence in their own AF class)";
const MOST: Bytes = Bytes::new(2_000_000_000);

const fn rate(name: &'static str, help: &'static str, source: &'static str) -> Param {
    let kind = Kind::Rate(Rate::bit(0), Rate::bit(0), Rate::bit(u64::MAX));
    Param {
        name,
        kind,
        help,
        source,
    }
}
const fn bucket(name: &'static str, help: &'static str, source: &'static str) -> Param {
    let kind = Kind::Bytes(Bytes::ZERO, Bytes::ZERO, MOST);
    Param {
        name,
        kind,
        help,
        source,
    }
}
const fn header(most: u64, source: &'static str) -> Param {
    let kind = Kind::Bytes(Bytes::new(most), Bytes::ZERO, Bytes::new(100));
    Param {
        name: "header",
        kind,
        help: HELP_HEADER,
        source,
    }
}
const fn action(name: &'static str, kind: Kind, source: &'static str) -> Param {
    Param {
        name,
        kind,
        help: HELP_DSCP,
        source,
    }
}

const MAN: &str = "tc-police(8)";
const POLICE: &[Param] = &[
    rate("rate", "maximum rate of conforming packets; required", MAN),
    bucket(
        "burst",
        "bytes that may pass at once after idle time; required",
        MAN,
    ),
    bucket(
        "mtu",
        "maximum size of a conforming packet, and the burst size of peakrate; 0: the default of \
         tc, 2040B",
        MAN,
    ),
    rate("peakrate", "rate within a burst; 0bit: unlimited", MAN),
    action("exceed", DROPS, MAN),
    header(14, "Linux 6.12, measured: its ingress counts IP packets"),
];

const RFC_SINGLE: &str = "RFC 2697";
const SINGLE: &[Param] = &[
    rate("cir", "committed rate; required", RFC_SINGLE),
    bucket("cbs", "committed burst: the depth of bucket C", RFC_SINGLE),
    bucket("ebs", "excess burst: the depth of bucket E", RFC_SINGLE),
    AWARE,
    action("green", PASSES, RFC_SINGLE),
    action("yellow", PASSES, RFC_SINGLE),
    action("red", DROPS, RFC_SINGLE),
    header(14, "RFC 2697: bytes of IP packets"),
];

const RFC_TWO: &str = "RFC 2698";
const TWO: &[Param] = &[
    rate("cir", "committed rate; required", RFC_TWO),
    bucket(
        "cbs",
        "committed burst: the depth of bucket C; required",
        RFC_TWO,
    ),
    rate("pir", "peak rate, not below cir; required", RFC_TWO),
    bucket(
        "pbs",
        "peak burst: the depth of bucket P; required",
        RFC_TWO,
    ),
    AWARE,
    action("green", PASSES, RFC_TWO),
    action("yellow", PASSES, RFC_TWO),
    action("red", DROPS, RFC_TWO),
    header(14, "RFC 2698: bytes of IP packets"),
];

const AWARE: Param = Param {
    name: "aware",
    kind: Kind::Bool(false),
    help: "colour-aware: the colour of a packet can only get worse; AFx1 arrives green, AFx2 \
        yellow, AFx3 red, everything else green",
    source: "RFC 2697, RFC 2698, RFC 2597",
};

const ROUTER: &str = "Cisco, Traffic Policing (IOS 12.2T)";
const CIR: &[Param] = &[
    rate("cir", "committed rate; required", ROUTER),
    bucket("bc", "committed burst; required", ROUTER),
    bucket(
        "be",
        "excess burst: collects the tokens that exceed bc",
        ROUTER,
    ),
    action("conform", PASSES, ROUTER),
    action("exceed", DROPS, ROUTER),
    action("violate", DROPS, ROUTER),
    header(0, "routers differ in what they count: whole frames here"),
];

const LENDING: &str = "Cisco, Policing and Shaping Overview (IOS 15.1)";
const CAR: &[Param] = &[
    rate("cir", "committed rate; required", LENDING),
    bucket(
        "bc",
        "normal burst: the depth of the bucket; required",
        LENDING,
    ),
    bucket(
        "be",
        "extended burst: upper limit of the accumulated debt; nothing is lent unless it exceeds bc",
        LENDING,
    ),
    action("conform", PASSES, LENDING),
    action("exceed", DROPS, LENDING),
    header(0, "routers differ in what they count: whole frames here"),
];

/// The policers; the first is the default.
pub const KINDS: &[ElementKind] = &[
    ElementKind {
        name: "police",
        help: "policer of Linux: a rate and a burst; excess packets are dropped or re-marked",
        source: "Linux 6.12 act_police",
        params: POLICE,
        check: check_police,
    },
    ElementKind {
        name: "srtcm",
        help: "single-rate three-colour marker: one rate, two bursts",
        source: "RFC 2697",
        params: SINGLE,
        check: check_single,
    },
    ElementKind {
        name: "trtcm",
        help: "two-rate three-colour marker: a committed and a peak rate",
        source: "RFC 2698",
        params: TWO,
        check: check_two,
    },
    ElementKind {
        name: "cir",
        help: "police cir bc be of routers: conform, exceed, violate",
        source: ROUTER,
        params: CIR,
        check: |params| given(params, "cir", "bc"),
    },
    ElementKind {
        name: "car",
        help: "older rate-limit cir bc be of routers: one bucket that lends",
        source: LENDING,
        params: CAR,
        check: |params| given(params, "cir", "bc"),
    },
];

/// Returns the error for a missing rate, which proposes `fix`.
fn missing_rate(param: &'static str, fix: Rate) -> Refusal {
    Refusal {
        param,
        problem: String::from("must be given"),
        fix: format!("\"{}\"", format_rate(fix)),
    }
}

/// Checks that rate and burst are given. The proposed burst is the data of a quarter of a second,
/// which is enough for a TCP flow with a usual RTT.
fn given(params: &Params, named: &'static str, burst: &'static str) -> Result<(), Refusal> {
    if params.rate(named) == Rate::default() {
        return Err(missing_rate(named, Rate::mbit(2)));
    }
    if params.bytes(burst) == Bytes::ZERO {
        let fix = (params.rate(named) * Span::ms(250)).clamp(Bytes::new(3000), MOST);
        return Err(Refusal {
            param: burst,
            problem: String::from("must be given"),
            fix: format!("\"{}\"", format_bytes(fix)),
        });
    }
    Ok(())
}
fn check_police(params: &Params) -> Result<(), Refusal> {
    given(params, "rate", "burst")?;
    if params.rate("peakrate") != Rate::default() && params.bytes("mtu") == Bytes::ZERO {
        return Err(Refusal {
            param: "mtu",
            problem: String::from("must be given with peakrate: it is the burst at that rate"),
            fix: String::from("\"1514B\""),
        });
    }
    Ok(())
}
fn check_single(params: &Params) -> Result<(), Refusal> {
    // RFC 2697: at least one of the two must be larger than 0.
    if params.bytes("ebs") > Bytes::ZERO && params.rate("cir") != Rate::default() {
        return Ok(());
    }
    given(params, "cir", "cbs")
}
fn check_two(params: &Params) -> Result<(), Refusal> {
    given(params, "cir", "cbs")?;
    let cir = params.rate("cir");
    if params.rate("pir") == Rate::default() {
        return Err(missing_rate(
            "pir",
            Rate::bit(cir.as_bit().saturating_mul(2)),
        ));
    }
    if params.rate("pir") < cir {
        return Err(Refusal {
            param: "pir",
            problem: format!("is below cir ({})", format_rate(cir)),
            fix: format!(
                "\"{}\"",
                format_rate(Rate::bit(cir.as_bit().saturating_mul(2)))
            ),
        });
    }
    given(params, "pir", "pbs")
}

/// Returns the long-term rate to which a policer limits traffic; `None` for `police` if excess
/// packets are not dropped.
pub fn passes(kind: &str, params: &Params) -> Option<Rate> {
    let name = match kind {
        "police" if params.word("exceed") != "drop" => return None,
        "police" => "rate",
        "trtcm" if params.word("yellow") != "drop" => "pir",
        _ => "cir",
    };
    Some(params.rate(name)).filter(|rate| *rate > Rate::default())
}

/// Returns the sum of the sizes of all buckets of a policer.
pub fn saved(params: &Params) -> Bytes {
    let depths = ["burst", "cbs", "ebs", "pbs", "bc", "be"];
    let sum: u64 = depths.iter().map(|name| params.bytes(name).get()).sum();
    Bytes::new(sum)
}

/// The metering algorithm of a policer.
#[derive(Clone, Debug)]
enum Meter {
    Linux(Linux),
    Single(Single),
    Two(Two),
    Lender(Lender),
}

/// A policer.
#[derive(Clone, Debug)]
pub struct Policer {
    meter: Meter,
    /// Bytes of a frame that are not counted.
    header: Bytes,
    /// The actions for green, yellow and red.
    actions: [Action; 3],
}

impl Policer {
    /// Creates a policer with full buckets. `kind` is a name of [`KINDS`], and `params` are its
    /// checked parameters. An unknown name selects the first kind; scenarios are checked before.
    pub fn new(kind: &str, params: &Params) -> Policer {
        let (rate, bytes) = (
            |name: &str| params.rate(name),
            |name: &str| params.bytes(name),
        );
        let named = |name: &str| Action::named(params.word(name));
        let aware = params.bool("aware");
        let (meter, actions) = match kind {
            "srtcm" => {
                let meter =
                    Meter::Single(Single::new(rate("cir"), bytes("cbs"), bytes("ebs"), aware));
                (meter, [named("green"), named("yellow"), named("red")])
            }
            "trtcm" => {
                let committed = Bucket::new(rate("cir"), bytes("cbs"));
                let peak = Bucket::new(rate("pir"), bytes("pbs"));
                let meter = Meter::Two(Two {
                    committed,
                    peak,
                    aware,
                });
                (meter, [named("green"), named("yellow"), named("red")])
            }
            "cir" => {
                let meter =
                    Meter::Single(Single::new(rate("cir"), bytes("bc"), bytes("be"), false));
                (meter, [named("conform"), named("exceed"), named("violate")])
            }
            "car" => {
                let meter = Meter::Lender(Lender::new(rate("cir"), bytes("bc"), bytes("be")));
                (meter, [named("conform"), named("exceed"), named("exceed")])
            }
            _ => {
                let peak = (rate("peakrate") != Rate::default()).then(|| rate("peakrate"));
                let meter =
                    Meter::Linux(Linux::new(rate("rate"), bytes("burst"), bytes("mtu"), peak));
                (meter, [Action::Pass, named("exceed"), named("exceed")])
            }
        };
        Policer {
            meter,
            header: bytes("header"),
            actions,
        }
    }

    /// Decides on the packet that arrives at `now`, and sets its code point for
    /// [`Judgement::Remarked`].
    pub fn judge<P: Packet>(&mut self, now: Time, packet: &mut P) -> Judgement {
        let size = packet.size() - self.header;
        let colour = match &mut self.meter {
            Meter::Linux(meter) => meter.colour(now, size),
            Meter::Single(meter) => meter.colour(now, size, packet.dscp()),
            Meter::Two(meter) => meter.colour(now, size, packet.dscp()),
            Meter::Lender(meter) => meter.colour(now, size),
        };
        self.actions[colour as usize].on(colour, packet)
    }
}

/// Linux's `act_police`. Tokens are nanoseconds at the rate.
#[derive(Clone, Debug)]
struct Linux {
    mtu: Bytes,
    pace: Pace,
    burst: i64,
    tokens: i64,
    /// Rate, depth and tokens of the peak bucket.
    peak: Option<(Pace, i64, i64)>,
    /// Time of the last conforming packet.
    at: Time,
    begun: bool,
}

impl Linux {
    fn new(rate: Rate, burst: Bytes, mtu: Bytes, peak: Option<Rate>) -> Linux {
        // tc's default: the 255 cells of 8 bytes of its rate table.
        let mtu = if mtu == Bytes::ZERO {
            Bytes::new(2040)
        } else {
            mtu
        };
        let burst = psched::burst(rate, burst);
        let peak = peak.map(|rate| {
            let pace = Pace::new(rate);
            (pace, pace.ns(mtu), pace.ns(mtu))
        });
        Linux {
            mtu,
            pace: Pace::new(rate),
            burst,
            tokens: burst,
            peak,
            at: Time::ZERO,
            begun: false,
        }
    }
    fn colour(&mut self, now: Time, size: Bytes) -> Colour {
        if size > self.mtu {
            return Colour::Red;
        }
        // The clock may start at any time: before the first packet the buckets were full.
        let since = if self.begun {
            now.since(self.at)
        } else {
            Span::ZERO
        };
        let earned = i64::try_from(since.as_ns())
            .unwrap_or(i64::MAX)
            .min(self.burst);
        let rest = self.tokens.saturating_add(earned).min(self.burst) - self.pace.ns(size);
        let peak_rest = match self.peak {
            Some((pace, depth, tokens)) => tokens.saturating_add(earned).min(depth) - pace.ns(size),
            None => 0,
        };
        if rest < 0 || peak_rest < 0 {
            return Colour::Red;
        }
        (self.tokens, self.at, self.begun) = (rest, now, true);
        if let Some((_, _, tokens)) = &mut self.peak {
            *tokens = peak_rest;
        }
        Colour::Green
    }
}

/// Bit-nanoseconds in a byte. A rate of `r` bit/s gives `r` of these units per nanosecond, so
/// nothing is rounded.
const PER_BYTE: u64 = 8_000_000_000;

fn work(size: Bytes) -> u64 {
    size.get().saturating_mul(PER_BYTE)
}

/// A bucket that fills at an exact rate.
#[derive(Clone, Debug)]
struct Bucket {
    bits: u64,
    depth: u64,
    tokens: u64,
    at: Time,
}

impl Bucket {
    fn new(rate: Rate, depth: Bytes) -> Bucket {
        Bucket {
            bits: rate.as_bit(),
            depth: work(depth),
            tokens: work(depth),
            at: Time::ZERO,
        }
    }
    /// Adds the tokens up to `now`; returns the tokens that the bucket cannot hold.
    fn fill(&mut self, now: Time) -> u64 {
        let earned = now.since(self.at).as_ns().saturating_mul(self.bits);
        self.at = self.at.max(now);
        let taken = earned.min(self.depth - self.tokens);
        self.tokens += taken;
        earned - taken
    }
    fn holds(&self, size: Bytes) -> bool {
        self.tokens >= work(size)
    }
    fn charge(&mut self, size: Bytes) {
        self.tokens = self.tokens.saturating_sub(work(size));
    }
}

/// The colour of an arriving packet before metering.
fn coming(aware: bool, dscp: u8) -> Colour {
    assured(dscp).filter(|_| aware).unwrap_or(Colour::Green)
}

/// RFC 2697.
#[derive(Clone, Debug)]
struct Single {
    committed: Bucket,
    excess: Bucket,
    aware: bool,
}

impl Single {
    fn new(cir: Rate, cbs: Bytes, ebs: Bytes, aware: bool) -> Single {
        Single {
            committed: Bucket::new(cir, cbs),
            // It has no rate of its own; the excess of the other bucket is added.
            excess: Bucket::new(Rate::bit(0), ebs),
            aware,
        }
    }
    fn colour(&mut self, now: Time, size: Bytes, dscp: u8) -> Colour {
        let spilled = self.committed.fill(now);
        self.excess.tokens = self
            .excess
            .tokens
            .saturating_add(spilled)
            .min(self.excess.depth);
        let came = coming(self.aware, dscp);
        if came == Colour::Green && self.committed.holds(size) {
            self.committed.charge(size);
            Colour::Green
        } else if came <= Colour::Yellow && self.excess.holds(size) {
            self.excess.charge(size);
            Colour::Yellow
        } else {
            Colour::Red
        }
    }
}

/// RFC 2698.
#[derive(Clone, Debug)]
struct Two {
    committed: Bucket,
    peak: Bucket,
    aware: bool,
}

impl Two {
    fn colour(&mut self, now: Time, size: Bytes, dscp: u8) -> Colour {
        self.committed.fill(now);
        self.peak.fill(now);
        let came = coming(self.aware, dscp);
        if came == Colour::Red || !self.peak.holds(size) {
            return Colour::Red;
        }
        self.peak.charge(size);
        if came == Colour::Yellow || !self.committed.holds(size) {
            return Colour::Yellow;
        }
        self.committed.charge(size);
        Colour::Green
    }
}

/// Committed access rate (`car`): a bucket of depth `bc` that lends. If the bucket holds too few
/// tokens for a packet, the packet would raise the debt to `a`. The compounded debt is the sum of
/// these `a` since the last rejected packet. A packet is rejected when `a` or the compounded debt
/// would exceed `be`. A rejected packet takes no tokens, and it sets the compounded debt to 0. The
/// longer a flow borrows, the likelier a packet is rejected. If `be` is not above `bc`, the bucket
/// does not lend.
///
/// Sources: Cisco, "Policing and Shaping Overview"; A. Witt, "Extended Burst Methodology" (NANOG
/// 14, 1998). Deviation: a common example (token rate 1, normal burst 2, extended burst 4) loses
/// the tokens of an interval in which a packet is rejected. This file follows Cisco's text, which
/// removes no tokens for a rejected packet.
#[derive(Clone, Debug)]
struct Lender {
    bucket: Bucket,
    /// The extended burst; zero if the bucket does not lend.
    extended: u64,
    debt: u64,
    compounded: u64,
}

impl Lender {
    fn new(cir: Rate, bc: Bytes, be: Bytes) -> Lender {
        Lender {
            bucket: Bucket::new(cir, bc),
            extended: if be > bc { work(be) } else { 0 },
            debt: 0,
            compounded: 0,
        }
    }
    fn colour(&mut self, now: Time, size: Bytes) -> Colour {
        let before = self.bucket.at;
        let earned = now.since(before).as_ns().saturating_mul(self.bucket.bits);
        let paid = earned.min(self.debt);
        self.debt -= paid;
        self.bucket.at = self.bucket.at.max(now);
        self.bucket.tokens = self
            .bucket
            .tokens
            .saturating_add(earned - paid)
            .min(self.bucket.depth);
        if self.bucket.holds(size) {
            self.bucket.charge(size);
            return Colour::Green;
        }
        let debt = self.debt.saturating_add(work(size) - self.bucket.tokens);
        let compounded = self.compounded.saturating_add(debt);
        if debt.max(compounded) > self.extended {
            self.compounded = 0;
            return Colour::Yellow;
        }
        (self.debt, self.compounded, self.bucket.tokens) = (debt, compounded, 0);
        Colour::Green
    }
}
