//! Interval lines: the data that a measurement transferred in each interval, while it runs.
//!
//! An interval ends when its time has passed, or with its phase. It has one line for each direction
//! with a load, and one line without a direction if there is no load. The RTT is the mean of the
//! pings whose replies arrived in the interval. Transferred bytes are those that arrived,
//! if this host is the receiver; otherwise those that are acknowledged. Retransmits are known if
//! this host sends. The other end reports its retransmits too late for an interval.

use super::plan::Direction;
use super::seen::FlowSeen;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// State that the thread of the pings shares with the thread of the load.
#[derive(Debug, Default)]
pub struct Pinged {
    /// Whether the pings must end.
    pub stop: AtomicBool,
    /// Number of answered pings, and the sum of their RTTs, ns.
    answered: Mutex<(u64, u64)>,
}

impl Pinged {
    /// Whether the pings must end.
    pub fn stopping(&self) -> bool {
        self.stop.load(Relaxed)
    }
    /// Records the RTT of an answered ping, ns.
    pub fn answered(&self, rtt: u64) {
        let mut all = self.so_far();
        *all = (all.0 + 1, all.1 + rtt);
    }
    fn so_far(&self) -> MutexGuard<'_, (u64, u64)> {
        self.answered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sums of all flows of a direction since the start of their phase.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Total {
    /// Payload, bytes.
    pub bytes: u64,
    /// Retransmitted segments; `None`: unknown.
    pub retransmits: Option<u64>,
}

/// The sums of both directions; `None`: without a load.
pub type Totals = [Option<Total>; 2];

/// The directions in the order of [`Totals`].
const DIRECTIONS: [Direction; 2] = [Direction::Down, Direction::Up];

/// The sums of the flows so far.
pub fn totals<'a>(flows: impl Iterator<Item = &'a FlowSeen>) -> Totals {
    let mut all = Totals::default();
    for flow in flows {
        let (first, last) = match (flow.rows.first(), flow.rows.last()) {
            (Some(first), Some(last)) => (*first, *last),
            _ => Default::default(),
        };
        let acknowledged = last.bytes.saturating_sub(first.bytes);
        let resent = last.retransmits.saturating_sub(first.retransmits);
        let place = usize::from(flow.direction == DIRECTIONS[1]);
        let sum = all[place].get_or_insert(Total {
            bytes: 0,
            retransmits: Some(0),
        });
        sum.bytes += flow.received.unwrap_or(acknowledged);
        sum.retransmits = sum
            .retransmits
            .filter(|_| flow.sender && flow.direction == Direction::Up)
            .map(|sum| sum + resent);
    }
    all
}

/// An interval line. Times are ns since the start of the measurement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// Start of the interval.
    pub from: u64,
    /// End of the interval.
    pub to: u64,
    /// Name of the phase.
    pub phase: &'static str,
    /// Requested congestion control of the load.
    pub cc: Option<String>,
    /// Direction of the load; `None` without a load.
    pub direction: Option<Direction>,
    /// The sums of the load in the interval.
    pub load: Total,
    /// Mean RTT of pings, ns.
    pub rtt: Option<u64>,
}

impl Line {
    /// The words of the line for programs; `-` stands for an unknown value.
    pub fn words(&self) -> String {
        let s = |ns: u64| ns as f64 / 1e9;
        let known = |word: Option<String>| word.unwrap_or_else(|| "-".into());
        format!(
            "interval {:.3} {:.3} {} {} {} {} {} {}",
            s(self.from),
            s(self.to),
            self.phase,
            self.direction.map_or("-", Direction::name),
            self.cc.as_deref().unwrap_or("-"),
            known(self.direction.map(|_| self.load.bytes.to_string())),
            known(self.rtt.map(|ns| format!("{:.3}", ns as f64 / 1e6))),
            known(self.load.retransmits.map(|n| n.to_string())),
        )
    }
}

/// The interval that is in progress.
#[derive(Debug, Default)]
pub struct Intervals {
    /// Duration of an interval, ns; zero: there are no lines.
    every: u64,
    begin: u64,
    phase: Option<(&'static str, Option<String>)>,
    from: u64,
    due: u64,
    before: (Totals, u64, u64),
    now: Totals,
}

impl Intervals {
    /// Lines for each interval of `every` ns, for a measurement that starts at `begin`.
    pub fn new(every: u64, begin: u64) -> Intervals {
        Intervals {
            every,
            begin,
            ..Intervals::default()
        }
    }
    /// Starts a phase.
    pub fn enter(&mut self, phase: &'static str, cc: Option<&str>, now: u64, pinged: &Pinged) {
        let (answered, sum) = *pinged.so_far();
        self.phase = Some((phase, cc.map(String::from)));
        (self.from, self.due) = (now, now + self.every);
        (self.before, self.now) = ((Totals::default(), answered, sum), Totals::default());
    }
    /// Records the sums of the flows.
    pub fn note(&mut self, now: Totals) {
        self.now = now;
    }
    /// The lines of the interval, if its time has passed.
    pub fn passed(&mut self, now: u64, pinged: &Pinged) -> Vec<Line> {
        if self.every == 0 || self.phase.is_none() || now < self.due {
            return Vec::new();
        }
        // After a pause of this process, one line covers several intervals.
        self.due += self.every * ((now - self.due) / self.every + 1);
        self.lines(now, pinged)
    }
    /// Ends the phase; returns the lines of the rest, unless it is too short for a rate.
    pub fn leave(&mut self, now: u64, pinged: &Pinged) -> Vec<Line> {
        let lines = if self.every > 0 && now.saturating_sub(self.from) > self.every / 10 {
            self.lines(now, pinged)
        } else {
            Vec::new()
        };
        self.phase = None;
        lines
    }
    fn lines(&mut self, now: u64, pinged: &Pinged) -> Vec<Line> {
        let Some((phase, cc)) = self.phase.clone() else {
            return Vec::new();
        };
        let (before, answered, sum) = self.before;
        let pings = *pinged.so_far();
        let rtt = (pings.1 - sum).checked_div(pings.0 - answered);
        let line = |direction, load| Line {
            from: self.from.saturating_sub(self.begin),
            to: now.saturating_sub(self.begin),
            phase,
            cc: cc.clone(),
            direction,
            load,
            rtt,
        };
        let mut lines: Vec<Line> = Vec::new();
        for ((direction, total), before) in DIRECTIONS.iter().zip(self.now).zip(before) {
            let Some(total) = total else { continue };
            let before = before.unwrap_or(Total {
                bytes: 0,
                retransmits: Some(0),
            });
            let more = total.retransmits.zip(before.retransmits);
            let load = Total {
                bytes: total.bytes.saturating_sub(before.bytes),
                retransmits: more.map(|(now, before)| now.saturating_sub(before)),
            };
            lines.push(line(Some(*direction), load));
        }
        if lines.is_empty() {
            lines.push(line(None, Total::default()));
        }
        (self.before, self.from) = ((self.now, pings.0, pings.1), now);
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::plan::FlowSpec;
    use crate::protocols::tcp_info::Row;

    const S: u64 = 1_000_000_000;

    fn down(bytes: u64, retransmits: Option<u64>) -> Totals {
        [Some(Total { bytes, retransmits }), None]
    }

    #[test]
    fn a_line_has_the_differences_of_its_interval() {
        let pinged = Pinged::default();
        let mut intervals = Intervals::new(S, 5 * S);
        pinged.answered(9_000_000);
        intervals.enter("loaded", Some("cubic"), 6 * S, &pinged);
        intervals.note(down(100, Some(1)));
        assert_eq!(intervals.passed(7 * S - 1, &pinged), []);
        pinged.answered(40_000_000);
        pinged.answered(20_000_000);
        let lines = intervals.passed(7 * S, &pinged);
        let words: Vec<String> = lines.iter().map(Line::words).collect();
        assert_eq!(
            words,
            ["interval 1.000 2.000 loaded down cubic 100 30.000 1"]
        );
        intervals.note(down(350, None));
        let lines = intervals.passed(8 * S + S / 2, &pinged);
        let words: Vec<String> = lines.iter().map(Line::words).collect();
        assert_eq!(words, ["interval 2.000 3.500 loaded down cubic 250 - -"]);
        // The next interval ends on the grid of the phase; a short rest has no line.
        assert_eq!(intervals.passed(9 * S - 1, &pinged), []);
        assert_eq!(intervals.passed(9 * S, &pinged).len(), 1);
        assert_eq!(intervals.leave(9 * S + S / 20, &pinged), []);
    }

    #[test]
    fn the_sums_of_a_download_have_no_retransmits() {
        let flow = |direction, bytes, received| {
            let spec = FlowSpec { direction, dscp: 0 };
            let mut flow = FlowSeen::new("a".into(), &spec);
            flow.rows = vec![Row::default(); 2];
            (flow.rows[1].bytes, flow.rows[1].retransmits) = (bytes, 3);
            flow.received = received;
            flow
        };
        let flows = [
            flow(Direction::Up, 10, None),
            flow(Direction::Up, 20, None),
            flow(Direction::Down, 10, Some(90)),
        ];
        let sum = |bytes, retransmits| Some(Total { bytes, retransmits });
        assert_eq!(totals(flows.iter()), [sum(90, None), sum(30, Some(6))]);
        assert_eq!(totals(flows[..1].iter()), [None, sum(10, Some(3))]);
    }

    #[test]
    fn a_phase_without_a_load_has_one_line_and_the_rest_of_it_too() {
        let pinged = Pinged::default();
        let mut intervals = Intervals::new(S, 0);
        intervals.enter("idle", None, 0, &pinged);
        let lines = intervals.leave(S / 2, &pinged);
        assert_eq!(lines[0].words(), "interval 0.000 0.500 idle - - - - -");
        assert_eq!(lines.len(), 1);
        // Between two phases there is no interval.
        assert_eq!(intervals.passed(3 * S, &pinged), []);
        let mut none = Intervals::new(0, 0);
        none.enter("idle", None, 0, &pinged);
        assert_eq!(
            (none.passed(9 * S, &pinged), none.leave(9 * S, &pinged)),
            (vec![], vec![])
        );
    }
}
