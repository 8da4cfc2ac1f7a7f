//! Question and answer, again and again: the engine of a latency test. It sees the world through a
//! [`Line`], which tells the time and carries datagrams; a real one is a socket, that of the tests
//! plays in virtual time, that of the benchmark answers at once.
//!
//! **Paced by absolute times.** The n-th question is due n intervals after the first, whatever
//! happened before; what makes one late makes no other late. The application wakes a little early
//! ([`Plan::lead`]) and watches the clock for the rest; how late each left is a figure of its own.
//! In ping-pong the next is due when the last was answered (and no sooner than an interval after
//! it).
//!
//! **Flat.** What waits for its answer lies in a ring of [`RING`] places, spans in histograms, and
//! of slow answers the slowest [`MOST_SLOW`]: tens of millions of exchanges take no more memory
//! than thousands.

pub use super::outcome::{Episode, MOST_EPISODES, MOST_SLOW, Outcome, Slow};
use crate::HostError;
use crate::latency::attribution::{Far, Near, PARTS, Part, attribute, split};
use crate::latency::protocol::{Answer, FILL, Heard, Mark, Protocol};
use crate::sys::timed_socket::{Got, Left};
use std::io;

/// So many questions are remembered; an answer to one before that is lost.
pub const RING: usize = 1 << 14;
/// From one look around (progress, medians) to the next, ns.
const PULSE: u64 = 100_000_000;
/// A slow answer takes so much longer than half of them, ns, unless a limit is given.
const SLOW: u64 = 1_000_000;
/// Waiting for longer, ns, is a sleep that can be too long.
const LONG: u64 = 200_000;
/// A question that is late by more is not asked any more, ns: the sender stood still.
const STALE: u64 = 1_000_000_000;
/// Duration unless another is asked for, ns: at the default interval a tenth more questions than
/// p99.9 needs answers, so that some may be lost.
pub const LASTS: u64 = 11_000_000_000;
/// The largest datagram.
pub const LARGEST: usize = 65_507;

/// What carries datagrams, and a clock. All times are of its even clock, ns.
pub trait Line {
    /// Now.
    fn now(&mut self) -> u64;
    /// The clock of dates minus the even one.
    fn ahead(&self) -> u64;
    /// Sends; answers the datagram's number for [`Line::departure`], or `None` when there was no
    /// room.
    fn send(&mut self, bytes: &[u8]) -> io::Result<Option<u32>>;
    /// The next datagram, waiting for it until `until`, or for a shorter time; not `exact`: some
    /// tens of milliseconds longer will do. Its stamp is of the even clock.
    fn wait(&mut self, to: &mut [u8], until: u64, exact: bool) -> io::Result<Option<Got>>;
    /// Sleeps until `until`, or for a shorter time, without looking at datagrams.
    fn rest(&mut self, until: u64);
    /// When a datagram left, if that is known by now.
    fn departure(&mut self) -> Option<Left>;
    /// Will departures be told?
    fn tells_departures(&self) -> bool;
}

/// When the next question is due.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Pace {
    /// An interval after the last was due.
    Even,
    /// When the last was answered, and no sooner than an interval after it.
    PingPong,
}

/// The application stands still now and then, to see whether it is attributed for that.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Stall {
    /// For so long, ns.
    pub lasts: u64,
    /// So often, ns.
    pub every: u64,
}

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Bytes of a question.
    pub size: usize,
    /// Questions, at most.
    pub count: u32,
    /// Of all of it behind the warm-up, ns, at most.
    pub lasts: u64,
    /// ns.
    pub interval: u64,
    /// When the next is due.
    pub pace: Pace,
    /// How long an answer is awaited, in ping-pong and at the end, ns.
    pub patience: u64,
    /// An answer is slow from here on, ns after its question was due; without, some time above the
    /// median.
    pub slow: Option<u64>,
    /// So much before a question is due the application wakes, ns.
    pub lead: u64,
    /// The first answers are not counted: caches and neighbours' addresses are still missing.
    pub warmup: u32,
    /// Stand still now and then.
    pub stall: Option<Stall>,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            size: 64,
            count: u32::MAX,
            lasts: LASTS,
            interval: 1_000_000,
            pace: Pace::Even,
            patience: 1_000_000_000,
            slow: None,
            lead: 60_000,
            warmup: 20,
            stall: None,
        }
    }
}

/// How far it is.
#[derive(Copy, Clone, Debug)]
pub struct Pulse<'a> {
    /// Of all of it, 0 to 1.
    pub share: f64,
    /// What came of it so far.
    pub outcome: &'a Outcome,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
enum State {
    #[default]
    Free,
    /// Its answer is awaited.
    Asked,
    /// What the far end's kernel took of it is awaited.
    Answered,
    Done,
}

#[derive(Copy, Clone, Debug, Default)]
struct Place {
    state: State,
    number: u32,
    id: Option<u32>,
    mark: Mark,
    near: Near,
    far: Far,
    /// A wrong answer came.
    corrupted: bool,
    left_hardware: u64,
    came_hardware: u64,
}

struct Engine<'a> {
    plan: &'a Plan,
    line: &'a mut dyn Line,
    protocol: &'a mut dyn Protocol,
    ring: Vec<Place>,
    seen: Outcome,
    /// When it began, on the even clock.
    began: u64,
    next: u32,
    open: u32,
    highest: Option<u32>,
    /// Since when the application does nothing but wait, if it does.
    idle: Option<u64>,
    /// The last time that it did so for long: since when, until when.
    slept: (u64, u64),
    /// The next question.
    due: Option<u64>,
    stall_due: u64,
    limit: u64,
    usual: [u64; PARTS],
}

/// Runs it to its end; `pulse` is told how far it is, and says whether it goes on. Where it does
/// not, nothing more is asked, and answers are awaited as at the end; where it does not once more,
/// they are not. What was seen until then is the outcome.
pub fn run(
    plan: &Plan,
    line: &mut dyn Line,
    protocol: &mut dyn Protocol,
    pulse: &mut dyn FnMut(Pulse) -> bool,
) -> Result<Outcome, HostError> {
    let began = line.now();
    let mut engine = Engine {
        ring: vec![Place::default(); RING],
        seen: Outcome {
            began: began + line.ahead(),
            ..Outcome::default()
        },
        began,
        next: 0,
        open: 0,
        highest: None,
        idle: None,
        slept: (0, 0),
        due: Some(began),
        stall_due: plan.stall.map_or(u64::MAX, |stall| began + stall.every),
        limit: plan.slow.unwrap_or(u64::MAX),
        usual: [0; PARTS],
        plan,
        line,
        protocol,
    };
    engine.all(began, pulse)?;
    Ok(engine.seen)
}

impl Engine<'_> {
    fn all(&mut self, began: u64, pulse: &mut dyn FnMut(Pulse) -> bool) -> Result<(), HostError> {
        let size = self.plan.size.clamp(self.protocol.least(), LARGEST);
        self.seen.size = size;
        let mut question = vec![FILL; size];
        let mut answer = vec![0; LARGEST + 1];
        // Questions that do not count come before.
        let warmup = match self.plan.pace {
            Pace::Even => u64::from(self.plan.warmup).saturating_mul(self.plan.interval),
            Pace::PingPong => 0,
        };
        let end = began.saturating_add(warmup).saturating_add(self.plan.lasts);
        let mut pulsed = began;
        let mut last_due = began;
        loop {
            let now = self.line.now();
            if now >= pulsed {
                pulsed = now + PULSE;
                self.look_around();
                let at = Pulse {
                    share: self.share(now - began),
                    outcome: &self.seen,
                };
                if !pulse(at) {
                    if self.seen.interrupted {
                        self.forget(now);
                        break;
                    }
                    self.seen.interrupted = true;
                }
            }
            if now >= self.stall_due {
                self.stall(now);
                continue;
            }
            let asking = !self.seen.interrupted
                && self.next < self.plan.count
                && self.due.unwrap_or(now) < end;
            if !asking {
                self.due = None;
                if self.open == 0 || now > last_due + self.plan.patience {
                    break;
                }
            }
            let idle = *self.idle.get_or_insert(now);
            self.slept_until(now);
            let until = match self.due {
                Some(due) if due <= now + self.plan.lead => {
                    let mut sent = now;
                    while sent < due {
                        sent = self.line.now();
                    }
                    self.slept_until(sent);
                    last_due = due;
                    self.ask(&mut question, due, idle, sent)?;
                    continue;
                }
                Some(due) => due - self.plan.lead,
                None => last_due.saturating_add(self.plan.patience),
            };
            if asking && self.due.is_none() && now >= until {
                // Lost: the next one.
                self.open = 0;
                self.due = Some(now);
                continue;
            }
            let exact = self.due.is_some();
            let until = until.min(pulsed).min(self.stall_due).max(now + 1);
            if self.open == 0 && self.due.is_some() {
                self.line.rest(until);
                continue;
            }
            match self.line.wait(&mut answer, until, exact) {
                Ok(Some(got)) => {
                    let read = self.line.now();
                    self.slept_until(read);
                    self.hear(&answer[..got.len.min(answer.len())], &got, size, idle, read);
                }
                Ok(None) => {}
                Err(e) if e.raw_os_error() == Some(libc::ECONNREFUSED) => {
                    self.seen.refused += 1;
                    if self.seen.refused > 10 && self.seen.answered == 0 {
                        break;
                    }
                }
                Err(e) => return Err(HostError::Failed("waiting for answers", e)),
            }
        }
        for at in 0..RING {
            self.settle(at);
        }
        self.look_around();
        self.seen.slow_limit = self.limit;
        self.seen.took = self.line.now() - began;
        Ok(())
    }

    /// How much of it is done after so long, ns.
    fn share(&self, elapsed: u64) -> f64 {
        let of_time = elapsed as f64 / self.plan.lasts.max(1) as f64;
        let of_count = f64::from(self.next) / f64::from(self.plan.count.max(1));
        of_time.max(of_count).min(1.0)
    }

    /// What may still be answered counts neither as lost nor as asked.
    fn forget(&mut self, now: u64) {
        let young = |place: &&Place| {
            place.state == State::Asked
                && !place.corrupted
                && now <= place.near.due + self.plan.patience
        };
        let counted = |place: &&Place| self.counts(place.number);
        self.seen.sent -= self.ring.iter().filter(young).filter(counted).count() as u64;
    }

    /// What is usual by now.
    fn look_around(&mut self) {
        for (usual, part) in self.usual.iter_mut().zip(&self.seen.parts) {
            *usual = part.below(2).unwrap_or(0);
        }
        if self.plan.slow.is_none() {
            self.limit = self
                .seen
                .response
                .below(2)
                .map_or(u64::MAX, |half| half + SLOW);
        }
    }

    /// The application has done nothing but wait until now.
    fn slept_until(&mut self, now: u64) {
        if let Some(idle) = self.idle.filter(|idle| now - idle > LONG) {
            self.slept = (idle, now);
        }
    }

    /// Since when the application was free for what happened at `at`, if it has done nothing but
    /// wait since `idle`: whoever was held asleep by its kernel and then has much to catch up
    /// with is not busy by its own fault.
    fn free_for(&self, at: u64, idle: u64) -> u64 {
        if self.slept.0 <= at && at <= self.slept.1 {
            return at.min(idle);
        }
        idle
    }

    fn stall(&mut self, now: u64) {
        let Some(stall) = self.plan.stall else { return };
        let until = now + stall.lasts;
        self.idle = None;
        while self.line.now() < until {
            self.line.rest(until);
        }
        self.stall_due = now + stall.every.max(stall.lasts);
    }

    fn ask(
        &mut self,
        question: &mut [u8],
        due: u64,
        idle: u64,
        sent: u64,
    ) -> Result<(), HostError> {
        self.due = match self.plan.pace {
            Pace::Even => Some(due + self.plan.interval),
            Pace::PingPong => None,
        };
        if sent > due + STALE {
            self.seen.skipped += 1;
            self.idle = None;
            self.due = self.due.or(Some(sent));
            return Ok(());
        }
        let number = self.next;
        let mark = self.protocol.ask(number, sent, self.line.ahead(), question);
        let mut sent_off = self.line.send(question);
        if matches!(&sent_off, Err(e) if e.raw_os_error() == Some(libc::ECONNREFUSED))
            && self.seen.answered > 0
        {
            // What an earlier question met there; the host has said it now, and this one may leave.
            self.seen.refused += 1;
            sent_off = self.line.send(question);
        }
        let id = match sent_off {
            Ok(Some(id)) => id,
            Ok(None) => {
                self.seen.unsent += 1;
                self.idle = None;
                self.due = self.due.or(Some(sent + self.plan.interval.max(1000)));
                return Ok(());
            }
            // What the last question met there.
            Err(e) if e.raw_os_error() == Some(libc::ECONNREFUSED) => {
                self.seen.refused += 1;
                self.idle = None;
                self.due = self.due.or(Some(sent + self.plan.interval.max(1_000_000)));
                self.next += u32::from(self.seen.answered == 0);
                return Ok(());
            }
            Err(e) => return Err(HostError::Failed("sending a question", e)),
        };
        self.next += 1;
        let at = number as usize % RING;
        self.settle(at);
        self.open -= u32::from(self.ring[at].state == State::Asked && self.open > 0);
        self.ring[at] = Place {
            state: State::Asked,
            number,
            id: Some(id),
            mark,
            near: Near {
                due,
                rested: self.free_for(due, idle),
                sent,
                ..Near::default()
            },
            ..Place::default()
        };
        self.open += 1;
        if self.counts(number) {
            self.seen.sent += 1;
            self.seen.late.record(sent.saturating_sub(due));
        }
        self.departures(Some(id));
        self.idle = None;
        Ok(())
    }

    fn counts(&self, number: u32) -> bool {
        number >= self.plan.warmup
    }

    /// Stamps of what has left; at least until that of `id` is there, if it is there already.
    fn departures(&mut self, id: Option<u32>) {
        if !self.line.tells_departures() {
            return;
        }
        while let Some(left) = self.line.departure() {
            // Numbers of datagrams and of questions differ by what never left.
            let guess = left.id.wrapping_add(self.ring_shift(left.id)) as usize % RING;
            let place = &mut self.ring[guess];
            if place.id == Some(left.id) {
                // The first time counts: a far end on this host that sends the very packet back has
                // it stamped again.
                if left.stamp != 0 && place.near.departed == 0 {
                    place.near.departed = left.stamp;
                }
                if left.hardware != 0 && place.left_hardware == 0 {
                    place.left_hardware = left.hardware;
                }
            }
            if Some(left.id) == id && left.stamp != 0 {
                break;
            }
        }
    }

    /// How much the numbers of questions are ahead of those of datagrams, as far as the last
    /// question tells.
    fn ring_shift(&self, id: u32) -> u32 {
        let last = self.next.wrapping_sub(1);
        let place = &self.ring[last as usize % RING];
        match place.id {
            Some(last_id) if place.state != State::Free => last.wrapping_sub(last_id),
            _ => last.wrapping_sub(id),
        }
    }

    fn hear(&mut self, bytes: &[u8], got: &Got, size: usize, idle: u64, read: u64) {
        self.idle = None;
        self.seen.socket_drops = got.lost.into();
        let answer = match self.protocol.hear(bytes, size) {
            Heard::Answer(answer) if got.len == bytes.len() => answer,
            Heard::Foreign => {
                self.seen.foreign += 1;
                return;
            }
            Heard::Answer(Answer { number, .. }) => return self.wrong(Some(number)),
            Heard::Wrong(number) => return self.wrong(number),
        };
        let at = answer.number as usize % RING;
        let waiting = self.free_for(got.stamp, idle);
        let place = &mut self.ring[at];
        if place.number != answer.number || place.state == State::Free {
            self.seen.foreign += 1;
            return;
        }
        if place.mark != answer.mark {
            return self.wrong(Some(answer.number));
        }
        if place.state != State::Asked {
            self.seen.duplicates += 1;
            return;
        }
        place.state = State::Answered;
        place.near.arrived = got.stamp;
        place.near.waiting = waiting;
        place.near.read = read;
        place.came_hardware = got.hardware;
        place.far = answer.far;
        let (sent, due, stamped) = (place.near.sent, place.near.due, place.near.departed != 0);
        let corrupted = std::mem::take(&mut place.corrupted);
        self.open = self.open.saturating_sub(1);
        let counts = self.counts(answer.number);
        if counts {
            self.seen.answered += 1;
            // The wrong answer was not the only one.
            self.seen.corrupted -= u64::from(corrupted);
            self.seen.last = read - self.began;
            self.seen.reordered +=
                u64::from(self.highest.is_some_and(|highest| answer.number < highest));
            self.seen.rtt.record(read.saturating_sub(sent));
            self.seen.response.record(read.saturating_sub(due));
            self.seen.far_count = answer.count;
            self.seen.classes = (answer.class, got.class);
            self.seen.ttl = got.ttl;
        }
        self.highest = self.highest.max(Some(answer.number));
        if !stamped {
            self.departures(None);
        }
        if self.plan.pace == Pace::PingPong && self.due.is_none() && answer.number + 1 == self.next
        {
            self.due = Some(read.max(sent.saturating_add(self.plan.interval)));
        }
        if !self.protocol.follows_up() {
            self.settle(at);
        }
        self.follow(&answer);
    }

    /// An answer came that is not as it should be, to the question of that number as it seems.
    fn wrong(&mut self, number: Option<u32>) {
        self.seen.mismatches += 1;
        let Some(number) = number else { return };
        let counts = self.counts(number);
        let place = &mut self.ring[number as usize % RING];
        if place.number == number && place.state == State::Asked && !place.corrupted && counts {
            place.corrupted = true;
            self.seen.corrupted += 1;
        }
    }

    /// What the far end's kernel took of an earlier answer.
    fn follow(&mut self, answer: &Answer) {
        let Some((number, departed)) = answer.followed else {
            return;
        };
        let at = number as usize % RING;
        let place = &mut self.ring[at];
        if place.number == number && place.state == State::Answered {
            // An answer cannot have left before it was given.
            if departed >= place.far.answered {
                place.far.departed = departed;
            }
            self.settle(at);
        }
    }

    /// Nothing more will be known of a question: what is known is counted.
    fn settle(&mut self, at: usize) {
        let place = &mut self.ring[at];
        if place.state != State::Answered {
            return;
        }
        place.state = State::Done;
        if place.left_hardware != 0 && place.came_hardware > place.left_hardware {
            place.near.hardware = place.came_hardware - place.left_hardware;
        }
        let place = *place;
        if !self.counts(place.number) {
            return;
        }
        let (mut parts, mut right) = split(&place.near, &place.far);
        if !right && place.far.departed != 0 {
            // A far end that stamps after the answer has arrived already: not known is better than
            // wrong.
            (parts, right) = split(
                &place.near,
                &Far {
                    departed: 0,
                    ..place.far
                },
            );
        }
        if !right {
            self.seen.contradicted += 1;
            return;
        }
        for (all, part) in self.seen.parts.iter_mut().zip(parts) {
            if let Some(took) = part {
                all.record(took);
            }
        }
        if self.seen.answered.is_power_of_two() {
            // Soon at first, then more and more rarely.
            self.look_around();
        }
        let took = place.near.read.saturating_sub(place.near.due);
        if took < self.limit {
            return;
        }
        let attributed = attribute(&parts, &self.usual).unwrap_or(Part::Beyond) as usize;
        self.seen.slow += 1;
        self.seen.attributed[attributed] += 1;
        let slow = Slow {
            took,
            number: place.number,
            at: place.near.due + self.line.ahead(),
            rtt: place.near.read.saturating_sub(place.near.sent),
            late: place.near.sent.saturating_sub(place.near.due),
            parts,
            attributed,
        };
        self.seen.keep(slow);
        self.seen.happened(Episode::of(slow));
    }
}

#[cfg(test)]
#[path = "exchange_tests.rs"]
mod tests;
