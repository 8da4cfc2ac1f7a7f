//! ACK timing.
//!
//! An ACK leaves at once
//!
//! - when more data than one full segment is unacknowledged;
//! - in quick-ACK mode. This mode lasts for up to 16 ACKs at the start and after each duplicate
//!   segment, and for one ACK when the window grows;
//! - when the last hole was filled ([`Rule::AckOnHoleRepair`]);
//! - when a segment with PSH, or a short one, has been read.
//!
//! Otherwise the ACK leaves after a delay that adapts to the gaps between segments. At first the
//! delay is 40 ms. With each gap that is shorter than the delay, the delay becomes half of its
//! previous value plus the gap. A gap below 20 ms counts as 20 ms, and the retransmission timeout
//! bounds the delay. The timer uses the least of this delay, the round-trip time (at least 40 ms)
//! and 200 ms. If the host's minimum RTO differs from 200 ms, the timer is at least one tick
//! shorter than this minimum (`tcp_delack_max` since Linux 6.7). Each time the timer has to fire,
//! the delay doubles.
//!
//! Behind a hole, the first three duplicate ACKs leave at once. After these three duplicate ACKs,
//! one ACK covers all segments of an interval, at most 44 segments (SACK compression). The interval
//! is 1 ms or, if that is less, 5 % of the round trip (33 % since 6.19). Without SACK nothing is
//! compressed.
//!
//! An end that sends data within the ACK delay after data arrived is in interactive mode
//! (`pingpong`). The data of such an end carries the pending ACK, so there are no quick ACKs and
//! PSH has no effect. The mode ends when the delayed-ACK timer had to send an ACK, or when a
//! duplicate segment arrived. (In Linux 5.1 to 5.18, interactive mode begins only after three such
//! responses. Before and since, one response begins it, as here.)
//!
//! Source: Linux 6.12 `tcp_event_data_recv`, `__tcp_ack_snd_check`, `tcp_send_delayed_ack`,
//! `tcp_event_data_sent`, `tcp_cleanup_rbuf`.

#[cfg(doc)]
use crate::kernel::Rule;
use crate::kernel::rules_of_component;
use crate::tcp::rtt::RTO_MIN_US;
use crate::tcp::{Config, DELAYED_ACK_MAX};
use crate::transport::Jiffies;
use crate::units::{MaybeTime, Span, Time};

/// Maximum number of quick ACKs granted at the start and after a duplicate.
pub(super) const MAX_QUICK: u32 = 16;
/// Duplicates sent uncompressed for each value of the ACK number.
const UNCOMPRESSED: u32 = 3;
/// `tcp_comp_sack_nr`.
const COMPRESS_MOST: u32 = 44;
/// `tcp_comp_sack_delay_ns`.
const COMPRESS_NS: u64 = 1_000_000;
/// `tcp_comp_sack_rtt_percent` since Linux 6.19; the constant below is its value before.
const COMPRESS_PERCENT: u64 = 33;
const COMPRESS_PERCENT_BEFORE: u64 = 5;
/// `tcp_comp_sack_slack_ns` since Linux 6.19; the constant below is its value before. The timer of
/// compressed ACKs may fire late by this time, and on an otherwise idle CPU it does.
const COMPRESS_SLACK_NS: u64 = 10_000;
const COMPRESS_SLACK_NS_BEFORE: u64 = 100_000;

/// The timer that sends an ACK.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Due {
    Delayed,
    Compressed,
}

rules_of_component! {
    ack_on_hole_repair: AckOnHoleRepair,
    sack_compression: SackCompression,
    sack_compression_third: SackCompressionThird,
    sack_compression_slack: SackCompressionSlack,
    compressed_ack_stamp: CompressedAckStamp,
}

/// `us` in ticks, at most `u32::MAX`.
fn ticks_of(ticks: Jiffies, us: u64) -> u32 {
    u32::try_from(ticks.from_us(us)).unwrap_or(u32::MAX)
}

#[derive(Clone, Debug)]
pub(super) struct Acks {
    rules: Rules,
    /// The acknowledgement number of the last ACK.
    pub acked: u64,
    /// Number of quick ACKs left.
    pub quick: u32,
    /// Whether an ACK is pending.
    pub scheduled: bool,
    /// Whether the pending ACK covers the end of a write (PSH) or a short segment.
    pub pushed: bool,
    /// Whether the pending ACK covers a short segment that arrived after another short segment or
    /// one with PSH.
    pushed_twice: bool,
    /// Interactive mode: own data follows arriving data (`pingpong`).
    dialogue: bool,
    /// Whether the ACK must leave at once.
    pub now: bool,
    /// Number of compressed duplicate ACKs.
    pub compressed: u32,
    ato: u32,
    ato_min: u32,
    delay_max: u32,
    /// The longest delay, in ticks: one tick less than the host's minimum RTO, unless that is
    /// 200 ms, and at most the host's maximum. `u32::MAX` without either.
    delay_most: u32,
    /// Whether all ACKs are quick.
    always_quick: bool,
    last_data: u64,
    /// The delayed-ACK timer: its expiry as a tick, and the time when it fires. The timer keeps
    /// running when its ACK leaves for another reason; if ACKs are then held back by compression,
    /// the timer releases them.
    delayed: (u64, MaybeTime),
    /// Whether an ACK still waits for the delayed-ACK timer.
    delayed_owed: bool,
    compress_timer: MaybeTime,
    duplicates: u32,
    duplicates_of: u64,
}

impl Acks {
    /// The state for a host with this configuration.
    pub fn new(cfg: &Config, ticks: Jiffies) -> Acks {
        let hz = cfg.hz;
        let below_rto = match u64::from(cfg.rto_min_us) {
            RTO_MIN_US => u32::MAX,
            us => ticks_of(ticks, us).max(2) - 1,
        };
        let most = match cfg.delayed_ack_max {
            DELAYED_ACK_MAX => u32::MAX,
            most => ticks_of(ticks, most.as_us()),
        };
        Acks {
            rules: Rules::of(cfg.kernel),
            acked: 0,
            quick: 0,
            scheduled: false,
            pushed: false,
            pushed_twice: false,
            dialogue: false,
            now: false,
            compressed: 0,
            ato: 0,
            ato_min: (hz / 25).max(1),
            delay_max: (hz / 5).max(1),
            delay_most: below_rto.min(most),
            always_quick: cfg.quick_ack,
            last_data: 0,
            delayed: (0, MaybeTime::NONE),
            delayed_owed: false,
            compress_timer: MaybeTime::NONE,
            duplicates: 0,
            duplicates_of: 0,
        }
    }
    pub fn established(&mut self, tick: u64) {
        self.last_data = tick;
    }
    pub fn schedule(&mut self) {
        self.scheduled = true;
    }
    pub fn enter_quick(&mut self, most: u32) {
        self.quick = self.quick.max(most);
        self.ato = self.ato_min;
        self.dialogue = false;
    }
    /// Handles the transmission of own data.
    pub fn own_data(&mut self, tick: u64) {
        self.dialogue |= tick.saturating_sub(self.last_data) < u64::from(self.ato);
    }

    /// Handles data that arrived in order: the delay follows the gap since the last data. `quick`
    /// and `rto` are functions, because they are seldom needed.
    #[inline]
    pub fn data_arrived(
        &mut self,
        tick: u64,
        pushed: bool,
        short: bool,
        quick: impl Fn() -> u32,
        rto: impl Fn() -> u64,
    ) {
        self.scheduled = true;
        self.pushed_twice |= self.pushed && short;
        self.pushed |= pushed || short;
        if self.ato == 0 {
            self.quick = self.quick.max(quick());
            self.ato = self.ato_min;
        } else {
            let gap = tick.saturating_sub(self.last_data);
            if gap <= u64::from(self.ato_min / 2) {
                self.ato = self.ato / 2 + self.ato_min / 2;
            } else if gap < u64::from(self.ato) {
                self.ato = (u64::from(self.ato / 2) + gap).min(rto()) as u32;
            } else if gap > rto() {
                self.quick = self.quick.max(quick());
            }
        }
        self.last_data = tick;
    }

    /// Returns whether an ACK must leave now, even with holes. `many`: more data than one full
    /// segment is unacknowledged.
    #[inline]
    pub fn at_once(&self, many: bool) -> bool {
        many || (self.quick > 0 && !self.dialogue) || self.now || self.always_quick
    }
    /// Returns whether an ACK leaves as soon as all data has been read.
    #[inline]
    pub fn once_read(&self) -> bool {
        self.pushed_twice || (self.pushed && !self.dialogue)
    }

    /// The last hole was filled: with [`Rule::AckOnHoleRepair`], the ACK must leave at once.
    pub fn whole(&mut self) {
        self.now |= self.rules.ack_on_hole_repair;
    }

    /// Handles a segment beyond a hole. Returns whether its ACK leaves now; otherwise the
    /// compressed ACK leaves by its timer.
    pub fn compress(&mut self, now: Time, nxt: u64, rtt_us: u64) -> bool {
        if self.compressed >= COMPRESS_MOST || !self.rules.sack_compression {
            return true;
        }
        if self.duplicates_of != nxt {
            self.duplicates_of = nxt;
            self.duplicates = 0;
        }
        if self.duplicates < UNCOMPRESSED {
            self.duplicates += 1;
            return true;
        }
        self.compressed += 1;
        let percent = if self.rules.sack_compression_third {
            COMPRESS_PERCENT
        } else {
            COMPRESS_PERCENT_BEFORE
        };
        let slack = if self.rules.sack_compression_slack {
            COMPRESS_SLACK_NS
        } else {
            COMPRESS_SLACK_NS_BEFORE
        };
        // Computed in any case: the processor cannot predict whether the timer is armed.
        let at = MaybeTime::at(now + Span::ns(COMPRESS_NS.min(rtt_us * 10 * percent) + slack));
        let armed = self.compress_timer;
        self.compress_timer = if armed.is_none() { at } else { armed };
        false
    }

    /// Returns whether the timestamp of a compressed ACK is the time when it leaves; otherwise, it
    /// is the time of the last arrival.
    pub fn stamps_compressed(&self) -> bool {
        self.rules.compressed_ack_stamp
    }

    /// Sets the delayed-ACK timer at `tick`. Returns whether the timer would fire so soon that the
    /// ACK should leave now.
    #[inline(always)]
    pub fn delay(&mut self, tick: u64, ticks: Jiffies, rtt_us: u64) -> bool {
        let mut ato = self.ato;
        if ato > self.ato_min {
            let mut most = if self.pushed || self.dialogue {
                self.delay_max
            } else {
                self.delay_max * 5 / 2
            };
            if rtt_us > 0 {
                most = most.min(ticks_of(ticks, rtt_us).max(self.ato_min));
            }
            ato = ato.min(most);
        }
        ato = ato.min(self.delay_max).min(self.delay_most);
        let mut expires = tick + u64::from(ato);
        let (earlier, fires) = self.delayed;
        if self.delayed_owed && !fires.is_none() {
            if earlier <= tick + u64::from(ato / 4) {
                return true;
            }
            expires = expires.min(earlier);
        }
        if fires.is_none() || earlier != expires {
            self.delayed = (expires, MaybeTime::at(ticks.fires(tick, expires)));
        }
        self.delayed_owed = true;
        false
    }

    /// Returns whether an ACK waits for the delayed-ACK timer.
    pub fn is_delayed(&self) -> bool {
        self.delayed_owed
    }

    /// Returns the reason for which an ACK is due by now, if there is one.
    pub fn timer_fired(&mut self, now: Time, rto: u64) -> Option<Due> {
        let mut due = None;
        if self.compress_timer.is_due(now) {
            self.compress_timer = MaybeTime::NONE;
            due = (self.compressed > 0).then_some(Due::Compressed);
        }
        if self.delayed.1.is_due(now) {
            self.delayed.1 = MaybeTime::NONE;
            if self.compressed > 0 {
                due = Some(Due::Delayed);
            } else if self.delayed_owed && self.scheduled {
                // The delay was too short for this sender: double it. In interactive mode no own
                // data followed.
                self.ato = if self.dialogue {
                    self.ato_min
                } else {
                    (2 * u64::from(self.ato)).min(rto) as u32
                };
                self.dialogue = false;
                due = Some(Due::Delayed);
            }
            self.delayed_owed = false;
        }
        due
    }
    /// The time of the next timer; [`Time::MAX`] for none.
    #[inline]
    pub fn next_wakeup(&self) -> Time {
        self.delayed.1.or_max().min(self.compress_timer.or_max())
    }

    /// An ACK for less data than `nxt` has left, to report marks; the ACK for all data up to `nxt`
    /// is still pending.
    pub fn sent_before(&mut self, nxt: u64) {
        self.acked = nxt;
        self.compressed = 0;
        self.compress_timer = MaybeTime::NONE;
    }

    /// An ACK up to `nxt` has left.
    #[inline]
    pub fn sent(&mut self, nxt: u64) {
        if self.quick > 0 {
            let one = u32::from(self.scheduled);
            if one >= self.quick {
                self.quick = 0;
                self.ato = self.ato_min;
            } else {
                self.quick -= one;
            }
        }
        self.acked = nxt;
        self.scheduled = false;
        self.pushed = false;
        self.pushed_twice = false;
        self.now = false;
        self.delayed_owed = false;
        self.compressed = 0;
        self.compress_timer = MaybeTime::NONE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Kernel;

    fn acks(kernel: Kernel) -> Acks {
        let cfg = Config {
            kernel,
            ..Config::default()
        };
        Acks::new(&cfg, Jiffies::new(cfg.hz))
    }

    #[test]
    fn acks_are_compressed_since_4_18() {
        let at_once = |kernel| {
            let mut acks = super::tests::acks(kernel);
            (0..6)
                .filter(|_| acks.compress(Time::ZERO, 0, 40_000))
                .count()
        };
        assert_eq!(
            [Kernel::published(4, 17), Kernel::published(4, 18)].map(at_once),
            [6, UNCOMPRESSED as usize]
        );
    }

    /// As Linux 6.12 does with responses of 60 kB to requests 20 ms after the last: each second
    /// segment of all but the first.
    #[test]
    fn in_a_dialogue_no_ack_is_quick_until_one_had_to_wait() {
        let mut acks = super::tests::acks(Kernel::published(6, 12));
        let arrives =
            |acks: &mut Acks, tick| acks.data_arrived(tick, true, false, || MAX_QUICK, || 200);
        arrives(&mut acks, 100);
        assert!(acks.at_once(false) && acks.once_read());
        acks.own_data(100 + u64::from(acks.ato));
        assert!(acks.at_once(false), "too late for an answer");
        acks.own_data(99 + u64::from(acks.ato));
        assert!(!acks.at_once(false) && !acks.once_read() && acks.at_once(true));
        acks.delay(100, Jiffies::new(1000), 30_000);
        assert_eq!(
            acks.timer_fired(Time::ZERO + Span::ms(200), 200),
            Some(Due::Delayed)
        );
        assert!(acks.at_once(false) && acks.ato == 40);
    }

    #[test]
    fn the_last_hole_s_filling_is_told_at_once_since_4_19() {
        let at_once = |kernel| {
            let mut acks = super::tests::acks(kernel);
            acks.whole();
            acks.at_once(false)
        };
        assert_eq!(
            [Kernel::published(4, 18), Kernel::published(4, 19)].map(at_once),
            [false, true]
        );
    }

    /// The delay of a compressed ACK with an RTT of 2 ms and of 40 ms, in µs.
    #[test]
    fn compressed_acks_wait_for_a_third_of_the_rtt_since_6_19() {
        let delay = |kernel, rtt_us| {
            let mut acks = super::tests::acks(kernel);
            while acks.compress(Time::ZERO, 0, rtt_us) {}
            acks.next_wakeup().as_us()
        };
        let of = |kernel| [2_000, 40_000].map(|rtt_us| delay(kernel, rtt_us));
        assert_eq!(of(Kernel::published(6, 18)), [200, 1_100]);
        assert_eq!(of(Kernel::published(6, 19)), [670, 1_010]);
    }
}
