//! What limits a sender, in time, as TCP_INFO tells it: busy, and of that for want of the peer's
//! window or of its own buffer.
//!
//! Law: the clock runs in one of four states, the greatest that holds. *Idle*: nothing written
//! waits or is in flight. *Busy*: something does. *Peer's window*: an attempt to send was stopped
//! by it; until one is not. *Send buffer*: data left, the window was not the limit, nothing more
//! waits, and the application waits for room; until it is told of room. Jiffies, not nanoseconds.
//! Source: Linux 6.12 `tcp_chrono_start`, `tcp_chrono_stop`, `tcp_cwnd_validate`,
//! `tcp_get_info_chrono_stats`.

use super::Sender;
use crate::tcp::Limited;
use crate::units::{Span, Time};

#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) enum Limit {
    #[default]
    Idle,
    Busy,
    PeerWindow,
    SendBuffer,
}

/// The clock.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits {
    state: Limit,
    since: u64,
    /// Ticks spent busy, for want of the peer's window, for want of buffer.
    ticks: [u64; 3],
}

impl Limits {
    fn set(&mut self, tick: u64, state: Limit) {
        if self.state > Limit::Idle {
            self.ticks[self.state as usize - 1] += tick - self.since;
        }
        self.state = state;
        self.since = tick;
    }
}

impl Sender {
    /// A limit begins to hold, unless a greater one does.
    pub(super) fn limit_begins(&mut self, now: Time, limit: Limit) {
        if limit > self.limits.state {
            self.limits.set(self.ticks.at(now), limit);
        }
    }
    /// It holds no longer.
    pub(super) fn limit_ends(&mut self, now: Time, limit: Limit) {
        let state = if self.writer.is_empty() && self.board.packets_out() == 0 {
            Limit::Idle
        } else if limit == self.limits.state {
            Limit::Busy
        } else {
            return;
        };
        if state != self.limits.state {
            self.limits.set(self.ticks.at(now), state);
        }
    }
    /// For how long what has limited it so far.
    pub fn limited(&self, now: Time) -> Limited {
        let mut limits = self.limits.clone();
        limits.set(self.ticks.at(now).max(limits.since), Limit::Idle);
        let span = |ticks: u64| Span::us(self.ticks.to_us(ticks));
        let [busy, peer, buffer] = limits.ticks;
        Limited {
            busy: span(busy + peer + buffer),
            peer_window: span(peer),
            send_buffer: span(buffer),
        }
    }
}
