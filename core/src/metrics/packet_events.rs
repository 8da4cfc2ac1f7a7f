//! Packets that a path dropped, marked or lost, one by one. Forwarded packets without a mark have
//! no row.
//!
//! There may be millions of such packets: an engine keeps the first ones and counts the rest.

use super::serialize;
use crate::queue::DropReason;
use crate::units::Time;
use alloc::vec::Vec;

/// The verdicts; columns have indices into this list. `lost` is random loss on the path (`loss`),
/// before the queue.
pub const VERDICTS: &[&str] = &["dropped", "marked", "lost"];

/// The drop reasons: no room, the queue discipline's active queue management, random loss, a
/// policer. Columns have indices into this list.
pub const DROP_REASONS: &[&str] = &["overflow", "law", "loss", "policer"];

fn index(reason: DropReason) -> u8 {
    match reason {
        DropReason::Overflow => 0,
        DropReason::Aqm => 1,
        DropReason::Loss => 2,
        DropReason::Policer => 3,
    }
}

/// The verdict on one packet.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum PacketEvent {
    /// The packet was dropped.
    Dropped(DropReason),
    /// The packet was marked and is forwarded.
    Marked(DropReason),
}

/// Columns of verdicts, in order.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PacketEvents {
    most: usize,
    left_out: u64,
    /// Time in seconds.
    pub t_s: Vec<f64>,
    /// The flow of the packet, by its index in the scenario; probes follow the last flow.
    pub flow: Vec<u32>,
    /// Index into [`VERDICTS`].
    pub verdict: Vec<u8>,
    /// Index into [`DROP_REASONS`].
    pub reason: Vec<u8>,
    /// Time in the queue, in milliseconds; NaN if it was never in one.
    pub waited_ms: Vec<f64>,
}

impl PacketEvents {
    /// An empty table that keeps the first `most` verdicts.
    pub fn keep(most: usize) -> PacketEvents {
        PacketEvents {
            most,
            ..PacketEvents::default()
        }
    }
    /// Returns whether verdicts are kept.
    pub fn wanted(&self) -> bool {
        self.most > 0
    }
    /// Appends a verdict, or counts it if there is no room. `entered` is the time at which the
    /// packet entered the queue; a packet that was never in a queue has none.
    pub fn push(&mut self, now: Time, flow: u32, verdict: PacketEvent, entered: Option<Time>) {
        if self.t_s.len() >= self.most {
            self.left_out += 1;
            return;
        }
        let (what, because) = match verdict {
            PacketEvent::Dropped(DropReason::Loss) => (2, DropReason::Loss),
            PacketEvent::Dropped(because) => (0, because),
            PacketEvent::Marked(because) => (1, because),
        };
        self.t_s.push(now.as_s());
        self.flow.push(flow);
        self.verdict.push(what);
        self.reason.push(index(because));
        let entered = entered.filter(|_| because != DropReason::Loss);
        self.waited_ms
            .push(entered.map_or(f64::NAN, |at| now.since(at).as_ms()));
    }
    /// Appends them to `to` as bytes.
    pub(super) fn put(&self, to: &mut Vec<u8>) {
        serialize::put(
            &[self.most as u64, self.left_out, self.t_s.len() as u64],
            to,
        );
        serialize::put(&self.t_s, to);
        serialize::put(&self.flow, to);
        serialize::put(&self.verdict, to);
        serialize::put(&self.reason, to);
        serialize::put(&self.waited_ms, to);
    }
    /// Reads the bytes of [`put`](Self::put).
    pub(super) fn take(from: &mut &[u8]) -> Option<PacketEvents> {
        let (most, left_out): (u64, u64) =
            (serialize::Cell::take(from)?, serialize::Cell::take(from)?);
        let rows = serialize::Cell::take(from)?;
        Some(PacketEvents {
            most: usize::try_from(most).ok()?,
            left_out,
            t_s: serialize::take(rows, from)?,
            flow: serialize::take(rows, from)?,
            verdict: serialize::take(rows, from)?,
            reason: serialize::take(rows, from)?,
            waited_ms: serialize::take(rows, from)?,
        })
    }
    /// Number of verdicts that had no room.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Span;

    #[test]
    fn the_first_are_kept_and_the_rest_is_counted() {
        let mut verdicts = PacketEvents::keep(2);
        let at = |ms| Time::ZERO + Span::ms(ms);
        verdicts.push(at(5), 0, PacketEvent::Dropped(DropReason::Loss), None);
        verdicts.push(at(9), 1, PacketEvent::Marked(DropReason::Aqm), Some(at(2)));
        verdicts.push(
            at(9),
            1,
            PacketEvent::Dropped(DropReason::Overflow),
            Some(at(9)),
        );
        let words: Vec<_> = verdicts
            .verdict
            .iter()
            .map(|i| VERDICTS[usize::from(*i)])
            .collect();
        assert_eq!(words, ["lost", "marked"]);
        assert_eq!((verdicts.left_out(), verdicts.waited_ms[1]), (1, 7.0));
        assert!(verdicts.waited_ms[0].is_nan());
    }
}
