//! The client of a latency test: it sends questions and records the answers. It uses a [`Line`],
//! which provides a clock and carries datagrams. A line is a socket, a simulation in virtual time
//! for tests, or an immediate responder for the benchmark.
//!
//! **Absolute schedule.** The n-th question is due n intervals after the first, regardless of
//! earlier delays. The application wakes up early ([`Plan::lead`]) and polls the clock. How late
//! each question is sent is a separate metric. In ping-pong the next question is due when the
//! previous one has been answered, but not before one interval has passed.
//!
//! **Constant memory.** Questions are stored in a ring of [`RING`] entries, times in histograms,
//! and of the slow answers only the slowest [`MOST_SLOW`]. Tens of millions of exchanges need no
//! more memory than thousands.

pub use super::outcome::{Episode, MOST_EPISODES, MOST_SLOW, Outcome, Slow};
use crate::HostError;
use crate::latency::attribution::{Far, Near, PARTS, Part, attribute, split};
use crate::latency::protocol::{Answer, FILL, Heard, Mark, Protocol};
use crate::sys::timed_socket::{Got, Left};
use std::io;

/// Number of questions that are stored. An answer to an older question is ignored, and the question
/// counts as lost.
pub const RING: usize = 1 << 14;
/// Interval between two updates of progress and medians, ns.
const PULSE: u64 = 100_000_000;
/// Default threshold of slow answers, as excess over the median response time, ns.
const SLOW: u64 = 1_000_000;
/// Length from which on a wait is remembered, ns. A datagram that arrived during such a wait did
/// not find the application busy.
const LONG: u64 = 200_000;
/// Lateness beyond which a question is skipped, ns. The application was then suspended.
const STALE: u64 = 1_000_000_000;
/// Default duration, ns. At the default interval there are ten percent more questions than p99.9
/// needs answers, so that some may be lost.
pub const LASTS: u64 = 11_000_000_000;
/// Payload of the largest UDP datagram, bytes.
pub const LARGEST: usize = 65_507;

/// Carries datagrams and has a clock. All times are ns of its monotonic clock.
pub trait Line {
    /// The present time.
    fn now(&mut self) -> u64;
    /// Realtime clock minus monotonic clock, ns.
    fn ahead(&self) -> u64;
    /// Sends a datagram and returns its number for [`Line::departure`]; `None` if a buffer of this
    /// host is full.
    fn send(&mut self, bytes: &[u8]) -> io::Result<Option<u32>>;
    /// Receives the next datagram; waits until `until` at most. If not `exact`, it may wait some
    /// tens of milliseconds longer. The timestamp is that of the monotonic clock.
    fn wait(&mut self, to: &mut [u8], until: u64, exact: bool) -> io::Result<Option<Got>>;
    /// Sleeps until `until`, or until a signal, without receiving datagrams.
    fn rest(&mut self, until: u64);
    /// The next departure time that the kernel has reported, if there is one.
    fn departure(&mut self) -> Option<Left>;
    /// Whether departure times are reported.
    fn tells_departures(&self) -> bool;
    /// Size of the largest question, bytes.
    fn largest(&self) -> usize {
        LARGEST
    }
}

/// When the next question is due.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Pace {
    /// One interval after the previous one was due.
    Even,
    /// When the previous one has been answered, and at the earliest one interval after it was sent.
    PingPong,
}

/// Deliberate pauses of the application, to test the attribution of delay.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Stall {
    /// Duration of a pause, ns.
    pub lasts: u64,
    /// Interval between pauses, ns.
    pub every: u64,
}

/// The parameters of a test.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Size of a question, bytes.
    pub size: usize,
    /// Largest number of questions, including the warm-up.
    pub count: u32,
    /// Largest duration, ns: after the warm-up with [`Pace::Even`], from the start with
    /// [`Pace::PingPong`].
    pub lasts: u64,
    /// Interval between two questions, ns; with [`Pace::PingPong`] the smallest one.
    pub interval: u64,
    /// The schedule.
    pub pace: Pace,
    /// Time after which an unanswered question counts as lost, ns. It is used by ping-pong and at
    /// the end of the test.
    pub patience: u64,
    /// Response time from which on an answer is slow, ns; `None`: the median plus 1 ms.
    pub slow: Option<u64>,
    /// Time before each question is due at which the application wakes up, ns.
    pub lead: u64,
    /// Number of questions in the warm-up. They are not counted, because caches and neighbour
    /// entries are still empty.
    pub warmup: u32,
    /// Deliberate pauses, if any.
    pub stall: Option<Stall>,
    /// Duration of an interval whose replies are reported, ns; zero: none.
    pub lines: u64,
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
            lines: 0,
        }
    }
}

/// An interval of a test. Times are ns since its start. Requests of the warm-up do not count.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Interval {
    /// Start of the interval.
    pub from: u64,
    /// End of the interval.
    pub to: u64,
    /// Number of requests that were sent.
    pub sent: u64,
    /// Number of replies that arrived.
    pub answered: u64,
    /// Minimum RTT of these replies, ns.
    pub least: u64,
    /// Sum of their RTTs, ns.
    pub sum: u64,
    /// Maximum RTT of these replies, ns.
    pub most: u64,
}

impl Interval {
    fn hear(&mut self, rtt: u64) {
        self.least = if self.answered == 0 {
            rtt
        } else {
            self.least.min(rtt)
        };
        self.answered += 1;
        self.sum = self.sum.saturating_add(rtt);
        self.most = self.most.max(rtt);
    }
    /// The words of the line for programs; `-` stands for an unknown value.
    pub fn words(&self) -> String {
        let s = |ns: u64| ns as f64 / 1e9;
        let us = |ns: u64| match self.answered {
            0 => "-".to_string(),
            _ => format!("{:.1}", ns as f64 / 1e3),
        };
        let mean = self.sum.checked_div(self.answered).unwrap_or(0);
        format!(
            "interval {:.3} {:.3} {} {} {} {} {}",
            s(self.from),
            s(self.to),
            self.sent,
            self.answered,
            us(self.least),
            us(mean),
            us(self.most),
        )
    }
}

/// The progress of a test.
#[derive(Copy, Clone, Debug)]
pub struct Pulse<'a> {
    /// The interval that has ended, if one has.
    pub interval: Option<Interval>,
    /// The completed share, 0 to 1.
    pub share: f64,
    /// The result so far.
    pub outcome: &'a Outcome,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
enum State {
    #[default]
    Free,
    /// The answer is awaited.
    Asked,
    /// Answered; the departure time of the answer from the server's kernel, which the next answer
    /// reports, is awaited.
    Answered,
    Done,
}

#[derive(Copy, Clone, Debug, Default)]
struct Slot {
    state: State,
    number: u32,
    id: Option<u32>,
    mark: Mark,
    near: Near,
    far: Far,
    /// A wrong answer has arrived.
    corrupted: bool,
    left_hardware: u64,
    came_hardware: u64,
}

struct Engine<'a> {
    plan: &'a Plan,
    line: &'a mut dyn Line,
    protocol: &'a mut dyn Protocol,
    ring: Vec<Slot>,
    seen: Outcome,
    /// Start of the test, on the monotonic clock.
    began: u64,
    next: u32,
    open: u32,
    highest: Option<u32>,
    /// Time since which the application has only waited; `None` if it has been busy.
    idle: Option<u64>,
    /// The last long wait: start and end.
    slept: (u64, u64),
    /// Time at which the next question is due; `None` while ping-pong waits for an answer, and
    /// after the last question.
    due: Option<u64>,
    stall_due: u64,
    limit: u64,
    usual: [u64; PARTS],
    interval: Interval,
}

/// Runs a test. `pulse` receives the progress and returns whether to continue. After the first
/// `false`, no more questions are sent, and outstanding answers are awaited as at the end of a
/// test. After the second `false`, they are not awaited. The result contains everything until then.
pub fn run(
    plan: &Plan,
    line: &mut dyn Line,
    protocol: &mut dyn Protocol,
    pulse: &mut dyn FnMut(Pulse) -> bool,
) -> Result<Outcome, HostError> {
    let began = line.now();
    let mut engine = Engine {
        ring: vec![Slot::default(); RING],
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
        interval: Interval::default(),
        plan,
        line,
        protocol,
    };
    engine.all(began, pulse)?;
    Ok(engine.seen)
}

impl Engine<'_> {
    fn all(&mut self, began: u64, pulse: &mut dyn FnMut(Pulse) -> bool) -> Result<(), HostError> {
        let most = self.line.largest();
        if self.plan.size > most {
            self.seen.notes.push(format!(
                "Messages over TCP have a fixed size; --size {}B had no effect.",
                self.plan.size
            ));
        }
        let size = self.plan.size.min(most).max(self.protocol.least());
        self.seen.size = size;
        let mut question = vec![FILL; size];
        let mut answer = vec![0; LARGEST + 1];
        // Questions of the warm-up.
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
                    interval: self.passed(now - began),
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
                    match self.ask(&mut question, due, idle, sent) {
                        Err(lost) if self.keeps(&lost) => {
                            self.forget(sent);
                            break;
                        }
                        asked => asked?,
                    }
                    continue;
                }
                Some(due) => due - self.plan.lead,
                None => last_due.saturating_add(self.plan.patience),
            };
            if asking && self.due.is_none() && now >= until {
                // The answer is lost; the next question follows.
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
                Err(e) => {
                    let lost = HostError::Failed("waiting for answers", e);
                    if !self.keeps(&lost) {
                        return Err(lost);
                    }
                    self.forget(now);
                    break;
                }
            }
        }
        for at in 0..RING {
            self.settle(at);
        }
        self.look_around();
        let elapsed = self.line.now() - began;
        if let Some(interval) = self.rest(elapsed) {
            let _ = pulse(Pulse {
                interval: Some(interval),
                share: 1.0,
                outcome: &self.seen,
            });
        }
        self.seen.slow_limit = self.limit;
        self.seen.took = self.line.now() - began;
        Ok(())
    }

    /// Returns whether the results so far remain valid after an error, because some questions were
    /// answered before the far host was lost. A note then reports the error.
    fn keeps(&mut self, error: &HostError) -> bool {
        let lost = error.loss().filter(|_| self.seen.answered > 0);
        let after = self.line.now().saturating_sub(self.began) as f64 / 1e9;
        self.seen.notes.extend(
            lost.iter()
                .map(|why| format!("The measurement ended early, after {after:.1} s: {why}.")),
        );
        lost.is_some()
    }

    /// The interval in progress, if its time has passed at `elapsed` ns. The next one begins.
    fn passed(&mut self, elapsed: u64) -> Option<Interval> {
        let every = self.plan.lines;
        (every > 0 && elapsed / every > self.interval.from / every).then(|| self.turn(elapsed))
    }

    /// The interval in progress at the end, unless nothing has happened in it.
    fn rest(&mut self, elapsed: u64) -> Option<Interval> {
        let some = self.interval.sent + self.interval.answered > 0;
        (self.plan.lines > 0 && some).then(|| self.turn(elapsed))
    }

    fn turn(&mut self, elapsed: u64) -> Interval {
        let next = Interval {
            from: elapsed,
            ..Interval::default()
        };
        Interval {
            to: elapsed,
            ..std::mem::replace(&mut self.interval, next)
        }
    }

    /// The completed share of the test after `elapsed` ns, 0 to 1.
    fn share(&self, elapsed: u64) -> f64 {
        let of_time = elapsed as f64 / self.plan.lasts.max(1) as f64;
        let of_count = f64::from(self.next) / f64::from(self.plan.count.max(1));
        of_time.max(of_count).min(1.0)
    }

    /// Removes questions that may still be answered from the number of sent ones, so that they do
    /// not count as lost.
    fn forget(&mut self, now: u64) {
        let young = |slot: &&Slot| {
            slot.state == State::Asked
                && !slot.corrupted
                && now <= slot.near.due + self.plan.patience
        };
        let counted = |slot: &&Slot| self.counts(slot.number);
        self.seen.sent -= self.ring.iter().filter(young).filter(counted).count() as u64;
    }

    /// Updates the medians of the parts, and the threshold of slow answers.
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

    /// Records the present wait, if it has lasted longer than [`LONG`].
    fn slept_until(&mut self, now: u64) {
        if let Some(idle) = self.idle.filter(|idle| now - idle > LONG) {
            self.slept = (idle, now);
        }
    }

    /// Time since which the application was free for an event at `at`, if it has only waited since
    /// `idle`. An event during the last long wait found it free: an application that catches up
    /// after a late wake-up does not count as busy.
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
            // The error belongs to an earlier question, which the far host refused. This question
            // is sent again.
            self.seen.refused += 1;
            sent_off = self.line.send(question);
        }
        if matches!(&sent_off, Err(e) if e.kind() == io::ErrorKind::Interrupted) {
            // A request to stop arrived while the far host accepted no data. The results so far
            // are kept.
            sent_off = Ok(None);
        }
        let id = match sent_off {
            Ok(Some(id)) => id,
            Ok(None) => {
                self.seen.unsent += 1;
                self.idle = None;
                self.due = self.due.or(Some(sent + self.plan.interval.max(1000)));
                return Ok(());
            }
            // The far host has refused a question, and nothing has been answered yet or it refuses
            // again.
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
        self.ring[at] = Slot {
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
            ..Slot::default()
        };
        self.open += 1;
        if self.counts(number) {
            self.seen.sent += 1;
            self.interval.sent += 1;
            self.seen.late.record(sent.saturating_sub(due));
        }
        self.departures(Some(id));
        self.idle = None;
        Ok(())
    }

    fn counts(&self, number: u32) -> bool {
        number >= self.plan.warmup
    }

    /// Reads the reported departure times, up to that of datagram `id` if it is reported.
    fn departures(&mut self, id: Option<u32>) {
        if !self.line.tells_departures() {
            return;
        }
        while let Some(left) = self.line.departure() {
            // The kernel numbers datagrams. Their numbers and those of questions differ by the
            // datagrams that were never sent.
            let guess = left.id.wrapping_add(self.ring_shift(left.id)) as usize % RING;
            let slot = &mut self.ring[guess];
            if slot.id == Some(left.id) {
                // The first timestamp counts: a responder on this host may return the same packet,
                // which the kernel then stamps again.
                if left.stamp != 0 && slot.near.departed == 0 {
                    slot.near.departed = left.stamp;
                }
                if left.hardware != 0 && slot.left_hardware == 0 {
                    slot.left_hardware = left.hardware;
                }
            }
            if Some(left.id) == id && left.stamp != 0 {
                break;
            }
        }
    }

    /// Number of the last question minus the number of its datagram.
    fn ring_shift(&self, id: u32) -> u32 {
        let last = self.next.wrapping_sub(1);
        let slot = &self.ring[last as usize % RING];
        match slot.id {
            Some(last_id) if slot.state != State::Free => last.wrapping_sub(last_id),
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
        let slot = &mut self.ring[at];
        if slot.number != answer.number || slot.state == State::Free {
            self.seen.foreign += 1;
            return;
        }
        if slot.mark != answer.mark {
            return self.wrong(Some(answer.number));
        }
        if slot.state != State::Asked {
            self.seen.duplicates += 1;
            return;
        }
        slot.state = State::Answered;
        slot.near.arrived = got.stamp;
        slot.near.waiting = waiting;
        slot.near.read = read;
        slot.came_hardware = got.hardware;
        slot.far = answer.far;
        let (sent, due, stamped) = (slot.near.sent, slot.near.due, slot.near.departed != 0);
        let corrupted = std::mem::take(&mut slot.corrupted);
        self.open = self.open.saturating_sub(1);
        let counts = self.counts(answer.number);
        if counts {
            self.seen.answered += 1;
            // An earlier answer to this question was wrong; now it has a right one.
            self.seen.corrupted -= u64::from(corrupted);
            self.seen.last = read - self.began;
            self.seen.reordered +=
                u64::from(self.highest.is_some_and(|highest| answer.number < highest));
            self.seen.rtt.record(read.saturating_sub(sent));
            self.interval.hear(read.saturating_sub(sent));
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

    /// Counts a wrong answer, apparently to the question `number`.
    fn wrong(&mut self, number: Option<u32>) {
        self.seen.mismatches += 1;
        let Some(number) = number else { return };
        let counts = self.counts(number);
        let slot = &mut self.ring[number as usize % RING];
        if slot.number == number && slot.state == State::Asked && !slot.corrupted && counts {
            slot.corrupted = true;
            self.seen.corrupted += 1;
        }
    }

    /// Records the departure time of an earlier answer from the server's kernel.
    fn follow(&mut self, answer: &Answer) {
        let Some((number, departed)) = answer.followed else {
            return;
        };
        let at = number as usize % RING;
        let slot = &mut self.ring[at];
        if slot.number == number && slot.state == State::Answered {
            // An answer cannot have left before the application sent it.
            if departed >= slot.far.answered {
                slot.far.departed = departed;
            }
            self.settle(at);
        }
    }

    /// Records the one-way delays of an answered question, if the times at both ends are known.
    fn one_way(&mut self, slot: &Slot) {
        let (near, far) = (&slot.near, &slot.far);
        let (left, came) = match self.line.tells_departures() {
            true => (near.departed, near.arrived),
            false => (near.sent, near.read),
        };
        let there = if far.received == 0 {
            far.read
        } else {
            far.received
        };
        let back = match self.protocol.follows_up() {
            true => far.departed,
            false => far.answered,
        };
        let (all, at) = (&mut self.seen.one_way, near.sent);
        if left != 0 && there != 0 {
            all.forward.record(slot.number, left, there, at);
        }
        if back != 0 && came != 0 {
            all.reverse.record(slot.number, back, came, at);
        }
    }

    /// Adds an answered question to the result, once nothing more will be known about it.
    fn settle(&mut self, at: usize) {
        let slot = &mut self.ring[at];
        if slot.state != State::Answered {
            return;
        }
        slot.state = State::Done;
        if slot.left_hardware != 0 && slot.came_hardware > slot.left_hardware {
            slot.near.hardware = slot.came_hardware - slot.left_hardware;
        }
        let mut slot = *slot;
        if !self.counts(slot.number) {
            return;
        }
        let (mut parts, mut right) = split(&slot.near, &slot.far);
        if !right && slot.far.departed != 0 {
            // The reported departure lies after the arrival of the answer. It is treated as
            // unknown.
            slot.far.departed = 0;
            (parts, right) = split(&slot.near, &slot.far);
        }
        if !right {
            self.seen.contradicted += 1;
            return;
        }
        self.one_way(&slot);
        for (all, part) in self.seen.parts.iter_mut().zip(parts) {
            if let Some(took) = part {
                all.record(took);
            }
        }
        if self.seen.answered.is_power_of_two() {
            // The medians are updated often at first, then at growing intervals.
            self.look_around();
        }
        let took = slot.near.read.saturating_sub(slot.near.due);
        if took < self.limit {
            return;
        }
        let attributed = attribute(&parts, &self.usual).unwrap_or(Part::Beyond) as usize;
        self.seen.slow += 1;
        self.seen.attributed[attributed] += 1;
        let slow = Slow {
            took,
            number: slot.number,
            at: slot.near.due + self.line.ahead(),
            rtt: slot.near.read.saturating_sub(slot.near.sent),
            late: slot.near.sent.saturating_sub(slot.near.due),
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
