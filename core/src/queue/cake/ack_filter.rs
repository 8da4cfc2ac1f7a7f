//! The ACK filter: a newer ACK that says all that an older one does makes the older one needless.
//!
//! Law: when a segment with an ACK joins a queue, pure ACKs of the same connection that wait there
//! are looked through from the head. One can go if the new one acknowledges as much, its timestamps
//! are not older, and its SACK blocks cover the old ones (a DSACK is never covered); but it must
//! say something new, so duplicate ACKs stay. Conservative: the first that can go does so if
//! a second follows with the same ECN flags; where they change, the search begins anew. Aggressive:
//! it also goes alone, if it is right before the new one and has the same ECN flags. Source:
//! tc-cake(8); Linux 6.12, case by case (`core/tests/queue_cake.rs`).

use crate::packet::{Ack, Packet};
use crate::queue::Sink;
use crate::queue::pool::{List, Pool};

/// tc's words; the first is its default.
pub const WORDS: &[&str] = &["no-ack-filter", "ack-filter", "ack-filter-aggressive"];

/// How much is filtered.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Filter {
    /// Nothing.
    Off,
    /// One of two.
    Conservative,
    /// One of one.
    Aggressive,
}

/// Is `a` before `b`, in a space that wraps?
fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// Does `new` say all that `old` does, and more?
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
    /// Of tc's word.
    pub fn of(word: &str) -> Filter {
        match word {
            "ack-filter" => Filter::Conservative,
            "ack-filter-aggressive" => Filter::Aggressive,
            _ => Filter::Off,
        }
    }

    /// The ACK that the packet at the tail of `list` makes needless, taken out; `sink` knows what
    /// packets do not carry themselves.
    pub fn needless<P: Packet>(
        self,
        pool: &mut Pool<P>,
        list: &mut List,
        sink: &dyn Sink<P>,
    ) -> Option<P> {
        let says = |packet: &P| {
            let mut ack = packet.ack()?;
            sink.completes(packet, &mut ack);
            Some(ack)
        };
        let new = says(pool.back(list)?)?;
        let mut found = None;
        let mut second = false;
        let mut packets = pool.iter(list).peekable();
        while let Some((at, packet)) = packets.next() {
            // The new one itself is at the tail.
            let Some((next, _)) = packets.peek() else {
                break;
            };
            let Some(old) = says(packet) else { continue };
            if old.connection != new.connection || !supersedes(&old, &new) {
                continue;
            }
            if found.is_some_and(|(_, _, ecn)| ecn == old.ecn) {
                second = true;
                break;
            }
            // Where the flags change, what came before the change stays.
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
