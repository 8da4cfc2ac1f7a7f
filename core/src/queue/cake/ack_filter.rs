//! The ACK filter: removes older ACKs that a newer ACK makes redundant.
//!
//! Algorithm: when a segment with an ACK joins a queue, pure ACKs of the same connection in the
//! queue are searched from the head. A queued ACK is redundant if the new ACK acknowledges at least
//! as much and has no older timestamps. In addition, the SACK blocks of the new ACK must cover
//! those of the queued ACK. A DSACK is never covered. The new ACK must also acknowledge or SACK
//! more bytes than the queued ACK, so duplicate ACKs are not removed.
//!
//! Conservative mode: the first redundant ACK is removed if the next redundant ACK has the same ECN
//! flags. If its flags differ, the search continues with that ACK as the first. Aggressive mode: a
//! single redundant ACK is also removed, if it is directly before the new ACK and has the same ECN
//! flags. Sources: tc-cake(8); Linux 6.12, compared case by case (`core/tests/queue_cake.rs`).

use super::Queued;
use crate::packet::{Ack, Packet};
use crate::queue::Sink;
use crate::queue::pool::{List, Pool};

/// The words of tc for the modes; the first is tc's default.
pub const WORDS: &[&str] = &["no-ack-filter", "ack-filter", "ack-filter-aggressive"];

/// The mode of the filter.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Filter {
    /// Removes no ACKs.
    Off,
    /// Removes the first of two redundant ACKs.
    Conservative,
    /// Also removes a single redundant ACK.
    Aggressive,
}

/// Returns whether `a` is before `b` in a sequence space that wraps.
fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// Returns whether `new` has all information of `old`, and more.
fn supersedes(old: &Ack, new: &Ack) -> bool {
    if !old.pure || before(new.next, old.next) {
        return false;
    }
    let times = |ack: &Ack| ack.timestamps.unwrap_or((0, 0));
    if let Some((value, echo)) = old.timestamps {
        let (new_value, new_echo) = times(new);
        if before(new_value, value) || before(new_echo, echo) {
            return false;
        }
    }
    let covered = |block: &(u32, u32)| {
        let duplicate = before(block.0, old.next);
        let by = |other: &(u32, u32)| !before(block.0, other.0) && !before(other.1, block.1);
        !duplicate && new.sack().iter().any(by)
    };
    if !old.sack().iter().all(covered) {
        return false;
    }
    let bytes = |ack: &Ack| -> u64 {
        ack.sack()
            .iter()
            .map(|(a, b)| u64::from(b.wrapping_sub(*a)))
            .sum()
    };
    new.next != old.next || bytes(new) > bytes(old)
}

impl Filter {
    /// The mode of tc's word.
    pub fn of(word: &str) -> Filter {
        match word {
            "ack-filter" => Filter::Conservative,
            "ack-filter-aggressive" => Filter::Aggressive,
            _ => Filter::Off,
        }
    }

    /// Removes and returns an ACK that the packet at the tail of `list` makes redundant. `sink`
    /// adds the fields of ACKs that packets do not store.
    pub(super) fn redundant_ack<P: Packet>(
        self,
        pool: &mut Pool<Queued<P>>,
        list: &mut List,
        sink: &dyn Sink<P>,
    ) -> Option<Queued<P>> {
        let ack_of = |queued: &Queued<P>| {
            let mut ack = queued.packet.ack()?;
            sink.completes(&queued.packet, &mut ack);
            Some(ack)
        };
        let new = ack_of(pool.back(list)?)?;
        let mut found = None;
        let mut second = false;
        let mut packets = pool.iter(list).peekable();
        while let Some((at, packet)) = packets.next() {
            // The packet at the tail is the new ACK itself.
            let Some((next, _)) = packets.peek() else {
                break;
            };
            let Some(old) = ack_of(packet) else { continue };
            if old.connection != new.connection || !supersedes(&old, &new) {
                continue;
            }
            if found.is_some_and(|(_, _, ecn)| ecn == old.ecn) {
                second = true;
                break;
            }
            // If the ECN flags change, ACKs before the change stay in the queue.
            found = Some((at, *next, old.ecn));
        }
        drop(packets);
        let (first, next, ecn) = found?;
        let alone = self == Filter::Aggressive && pool.is_back(list, next) && ecn == new.ecn;
        if second || alone {
            pool.remove(list, first)
        } else {
            None
        }
    }
}
