//! RED, random early detection: drops or marks at random, with a probability that grows with the
//! average backlog.
//!
//! Algorithm: each arrival updates the average, by which the control law decides whether the packet
//! is refused ([`law`]). A refused packet is marked if `ecn` is set and it is ECN-capable, else
//! dropped. With `harddrop`, every packet is dropped while the average is at `max` or above, even
//! with `ecn`. With `nodrop`, refused packets that are not ECN-capable pass. Packets that pass
//! enter a FIFO of `limit` bytes. The parameters and the values derived from them are tc's
//! ([`words`]).
//!
//! Sources: those of the control law; Linux 6.12 `red` over its `bfifo`; iproute2 6.1.
//!
//! The idle time begins with a dequeue from the empty queue. In Linux neither `htb` nor `tbf`
//! dequeues from an empty queue. The average of a RED queue below them therefore does not decay in
//! idle time (`core/tests/data/queue/red-rest.txt`). `prio` dequeues from an empty band if a band
//! after it has packets (`red-decay.txt`), and a device dequeues from an empty queue.
//!
//! Deviations from Linux:
//! - `adaptive` takes effect. Linux 6.12 reads the flag in the position where iproute2 before 5.7
//!   put it. With a newer iproute2, Linux never adapts the probability. With an older one, it
//!   adapts the probability every 504 ms (half a second, rounded up by its timers), as here.
//! - `gentle` is Floyd's; Linux does not have it: there, the probability jumps to 1 at `max`.
//! - The default of `bandwidth` is the rate of the link; in tc it is 10 Mbit/s.
//! - tc requires `limit`; here its default is 1 MB, a thousand packets of 1000 bytes.
//! - `min` below `avpkt` or not below `max` is rejected; tc accepts `min` equal to `max`.

pub mod law;
pub mod words;

use super::fifo::Fifo;
use super::{Backlog, DropReason, Limit, QueueContext, QueueDiscipline, QueueKind, Sink};
use crate::packet::{Ecn, Packet};
use crate::param::{Kind, Param, Params, Refusal};
use crate::rng::Rng;
use crate::transport::Jiffies;
use crate::units::{Bytes, Time};
use alloc::boxed::Box;
use law::{ADAPTED_EACH, Law, Vars, Verdict};
use words::Words;

const MOST: Bytes = Bytes::new(1 << 40);

/// The parameters of the queue discipline.
pub const PARAMS: &[Param] = &[
    Param {
        name: "limit",
        kind: Kind::Bytes(Bytes::new(1_000_000), Bytes::new(1), MOST),
        help: "largest backlog in bytes, if the path has no buffer",
        source: "tc-red(8); the default: a thousand packets of 1000 bytes",
    },
    Param {
        name: "min",
        kind: Kind::Bytes(Bytes::ZERO, Bytes::ZERO, MOST),
        help: "average backlog below which no packet is dropped; 0B: a third of max",
        source: "tc-red(8)",
    },
    Param {
        name: "max",
        kind: Kind::Bytes(Bytes::ZERO, Bytes::ZERO, MOST),
        help: "average backlog from which all packets are dropped; 0B: three times min if min is \
            given, otherwise a quarter of limit",
        source: "tc-red(8)",
    },
    words::AVPKT,
    words::BURST,
    words::PROBABILITY,
    words::BANDWIDTH,
    words::ECN,
    words::HARDDROP,
    Param {
        name: "nodrop",
        kind: Kind::Bool(false),
        help: "accept packets that would be marked but are not ECN-capable; needs ecn",
        source: "tc-red(8)",
    },
    Param {
        name: "adaptive",
        kind: Kind::Bool(false),
        help: "adjust the probability every 0.5 s so that the average stays half-way between min \
            and max",
        source: "tc-red(8)",
    },
    Param {
        name: "gentle",
        kind: Kind::Bool(false),
        help: "increase the probability to 1 between max and twice max, instead of at max; not in \
            Linux",
        source: "Floyd 2000",
    },
];

/// The treatment of refused packets.
#[derive(Copy, Clone, Debug)]
pub struct Refused {
    /// Whether ECN-capable packets are marked instead of dropped.
    pub ecn: bool,
    /// Whether no packets are marked while the average is at `max` or above.
    pub harddrop: bool,
    /// Whether packets that would be marked but are not ECN-capable pass.
    pub nodrop: bool,
}

impl Refused {
    /// Returns the treatment that the parameters specify.
    pub fn of(params: &Params) -> Refused {
        Refused {
            ecn: params.bool("ecn"),
            harddrop: params.bool("harddrop"),
            nodrop: params.bool("nodrop"),
        }
    }
    /// Returns whether ECN-capable packets with this verdict are marked instead of dropped.
    pub fn marks(self, verdict: Verdict) -> bool {
        self.ecn && !(self.harddrop && verdict == Verdict::Forced)
    }
}

/// Marks a packet if it is ECN-capable; returns whether it is ECN-capable.
pub fn mark<P: Packet>(now: Time, packet: &mut P, sink: &mut dyn Sink<P>) -> bool {
    let capable = packet.ecn() != Ecn::NotEct;
    if capable {
        packet.set_ce();
        sink.marked(now, packet, DropReason::Aqm);
    }
    capable
}

/// The queue discipline `red`.
pub struct Red<P> {
    law: Law,
    vars: Vars,
    refused: Refused,
    rng: Rng,
    /// The clock and the time of the next update of Adaptive RED; `None` without `adaptive`.
    adapts: Option<(Jiffies, Time)>,
    queue: Fifo<P>,
}

/// The words of tc for the parameters, for a queue of `limit` bytes before a link of `rate`.
fn words(params: &Params, limit: u64, rate: crate::units::Rate) -> Words {
    let (mut min, mut max) = (params.bytes("min").get(), params.bytes("max").get());
    if max == 0 {
        max = if min > 0 {
            min.saturating_mul(3)
        } else {
            limit / 4
        };
    }
    if min == 0 {
        min = max / 3;
    }
    Words::of(params, min, max, rate)
}

fn check(params: &Params) -> Result<(), Refusal> {
    if params.bool("nodrop") && !params.bool("ecn") {
        return Err(Refusal {
            param: "nodrop",
            problem: "goes only with ecn = true".into(),
            fix: "false".into(),
        });
    }
    words(
        params,
        params.bytes("limit").get(),
        crate::units::Rate::mbit(10),
    )
    .check(false)
}

impl<P: Packet + Send> Red<P> {
    /// An empty queue with these parameters.
    pub fn new(params: &Params, context: &QueueContext) -> Red<P> {
        let limit = context.limit.unwrap_or(Limit::Bytes(params.bytes("limit")));
        let bytes = match limit {
            Limit::Bytes(bytes) => bytes.get(),
            Limit::Packets(n) => n.saturating_mul(params.bytes("avpkt").get()),
        };
        let words = words(params, bytes, context.rate);
        let ticks = Jiffies::new(context.hz);
        Red {
            law: Law::new(&words, words.min, words.max, params.bool("gentle")),
            vars: Vars::default(),
            refused: Refused::of(params),
            rng: Rng::named(context.seed, "red"),
            adapts: params
                .bool("adaptive")
                .then(|| (ticks, ticks.fires(0, ticks.from_us(ADAPTED_EACH.as_us())))),
            queue: Fifo::new(limit),
        }
    }
    /// The average backlog, in whole bytes.
    pub fn average(&self) -> Bytes {
        Bytes::new(self.vars.average(&self.law))
    }
}

impl<P: Packet + Send> QueueDiscipline<P> for Red<P> {
    fn enqueue(&mut self, now: Time, mut packet: P, sink: &mut dyn Sink<P>) {
        self.vars
            .arrival(&self.law, now, self.queue.backlog().bytes.get());
        let verdict = self.vars.judge(&self.law, &mut self.rng);
        if verdict != Verdict::Pass {
            let marks = self.refused.marks(verdict);
            if !(marks && (mark(now, &mut packet, sink) || self.refused.nodrop)) {
                return sink.dropped(now, packet, DropReason::Aqm);
            }
        }
        self.queue.enqueue(now, packet, sink);
    }
    fn refuses(&self, reason: DropReason) -> bool {
        reason == DropReason::Overflow
    }
    fn dequeue(&mut self, now: Time, sink: &mut dyn Sink<P>) -> Option<P> {
        let packet = self.queue.dequeue(now, sink);
        if packet.is_none() {
            self.vars.idle(now);
        }
        packet
    }
    fn peek(&self) -> Option<Bytes> {
        self.queue.peek()
    }
    fn next_wakeup(&self) -> Option<Time> {
        self.adapts.map(|(_, at)| at)
    }
    fn on_wakeup(&mut self, now: Time, _sink: &mut dyn Sink<P>) {
        if let Some((ticks, at)) = &mut self.adapts {
            if *at <= now {
                self.law.adapt(&self.vars, now);
                let tick = ticks.at(now);
                *at = ticks.fires(tick, tick + ticks.from_us(ADAPTED_EACH.as_us()));
            }
        }
    }
    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }
}

/// The registry entry.
pub fn kind<P: Packet + Send + 'static>() -> QueueKind<P> {
    QueueKind {
        name: "red",
        help: "drops or marks packets at random by the average backlog",
        source: "Floyd, Jacobson 1993; Linux 6.12 red",
        params: PARAMS,
        check,
        feedback: false,
        make: &|params: &Params, context: &QueueContext| Box::new(Red::<P>::new(params, context)),
    }
}
