//! Time during which a sender was busy, and the parts of it in which the peer's window or the send
//! buffer was the limit (TCP_INFO).
//!
//! Algorithm: the clock is in one of four states; if several apply, the last in this list. *Idle*:
//! no data is unsent or in flight. *Busy*: some data is unsent or in flight. *Peer's window*: the
//! window of the peer stopped an attempt to send; the state ends with the first attempt that the
//! window does not stop. *Send buffer*: the last attempt sent all data without being limited by the
//! window, and the application waits for room in the buffer. This state ends when the application
//! is woken. The resolution is a jiffy. Source: Linux 6.12 `tcp_chrono_start`, `tcp_chrono_stop`,
//! `tcp_cwnd_validate`, `tcp_get_info_chrono_stats`.

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
pub(super) struct Chrono {
    state: Limit,
    /// Ticks, which 32 bits hold for 49 days.
    since: u32,
    /// Ticks of the states busy, peer's window and send buffer.
    ticks: [u32; 3],
}

impl Chrono {
    fn set(&mut self, tick: u64, state: Limit) {
        let tick = tick as u32;
        if self.state > Limit::Idle {
            self.ticks[self.state as usize - 1] += tick.wrapping_sub(self.since);
        }
        self.state = state;
        self.since = tick;
    }
}

impl Sender {
    /// Enters a state, unless a greater one holds.
    pub(super) fn limit_begins(&mut self, now: Time, limit: Limit) {
        if limit > self.chrono.state {
            self.chrono.set(self.ticks.at(now), limit);
        }
    }
    /// Leaves a state.
    #[inline(always)]
    pub(super) fn limit_ends(&mut self, now: Time, limit: Limit) {
        if limit == self.chrono.state || self.board.packets_out() == 0 {
            self.end_limit(now, limit);
        }
    }
    #[inline(never)]
    fn end_limit(&mut self, now: Time, limit: Limit) {
        let state = if self.send_buffer.is_empty() && self.board.packets_out() == 0 {
            Limit::Idle
        } else if limit == self.chrono.state {
            Limit::Busy
        } else {
            return;
        };
        if state != self.chrono.state {
            self.chrono.set(self.ticks.at(now), state);
        }
    }
    /// Returns the time of each limit so far.
    pub fn limited(&self, now: Time) -> Limited {
        let mut chrono = self.chrono.clone();
        chrono.set(self.ticks.at(now).max(chrono.since.into()), Limit::Idle);
        let span = |ticks: u64| Span::us(self.ticks.to_us(ticks));
        let [busy, peer, buffer] = chrono.ticks.map(u64::from);
        Limited {
            busy: span(busy + peer + buffer),
            peer_window: span(peer),
            send_buffer: span(buffer),
        }
    }
}
