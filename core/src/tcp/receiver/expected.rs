//! The path of expected segments, like Linux's header prediction. Such a segment is full and the
//! next one, while no hole is open and ECN is not used. The path omits the steps for holes, ECN and
//! unread data. The result is that of [`Receiver::on_any_segment`], to which all other segments go.

use super::{Phase, Receiver, Unread, window};
use crate::tcp::wire::{AckSegment, Segment};
use crate::units::Time;

impl Receiver {
    /// Returns whether [`on_expected_segment`](Self::on_expected_segment) may handle a segment. The
    /// segment is the next one, full and not older than the last one. The application has read all
    /// earlier data, no hole is open, and the connection is established without ECN.
    #[inline(always)]
    pub(super) fn expects(&self, now: Time, seg: &Segment) -> bool {
        let has_read = match &self.unread {
            Some(unread) => unread.at < now,
            None => true,
        };
        seg.seq == self.nxt
            && seg.tsval >= self.ts_recent
            && !seg.syn
            && !seg.cwr
            && seg.congestion.is_none()
            && self.phase == Phase::Established
            && self.holes.is_empty()
            && !self.marks.on()
            && has_read
            && seg.len == self.window.segment()
    }

    /// Handles a segment as [`on_any_segment`](Self::on_any_segment) does, if
    /// [`expects`](Self::expects) returns true. `tick`: the tick of `now`.
    #[inline(always)]
    pub(super) fn on_expected_segment(
        &mut self,
        now: Time,
        tick: u64,
        seg: &Segment,
        wire: &mut impl FnMut(AckSegment),
    ) {
        self.clock = now;
        if let Some(unread) = &self.unread {
            let nxt = self.nxt;
            self.window.read(unread.at, unread.first_end, nxt, || nxt);
        }
        self.window.measure_rtt_by_stamp(now, seg, false);
        if seg.seq <= self.acks.acked && self.stamps {
            self.ts_recent = seg.tsval;
        }
        self.nxt = seg.seq + u64::from(seg.len);
        self.data_arrived(tick, seg.psh, false);
        self.window.measure_rtt_by_window(now, self.nxt);
        let queued = window::truesize(seg.len);
        if self.window.grow(seg.len, queued, true) {
            self.acks.quick |= 1;
        }
        self.unread = Some(Unread {
            at: now + self.reader.late(),
            start: seg.seq,
            first_end: self.nxt,
            segments: 1,
            full: false,
        });
        self.acknowledge(now, tick, queued, wire);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Ecn;
    use crate::rng::Rng;
    use crate::tcp::{Config, EcnUse};
    use crate::units::{Bytes, Span};

    /// Segments at random, of which most are the next one. The path of expected segments gives the
    /// same ACKs and the same state as that of any segment.
    #[test]
    fn the_path_of_expected_segments_changes_nothing() {
        let mut expected = 0;
        for seed in 0..200 {
            let mut rng = Rng::named(seed, "segments");
            let cfg = Config {
                ecn: [EcnUse::Off, EcnUse::Off, EcnUse::Latched][rng.below(3) as usize],
                sack: rng.below(4) > 0,
                timestamps: rng.below(4) > 0,
                quick_ack: rng.below(8) == 0,
                rmem_max: Bytes::new(if rng.below(2) == 0 { 200_000 } else { 6 << 20 }),
                ..Config::default()
            };
            let full = cfg.options(false).payload();
            let latency = Span::us([0, 10, 200][rng.below(3) as usize]);
            let mut receiver = Receiver::new(&cfg).reading(latency, rng.fork());
            let mut now = Time::ZERO;
            let syn = Segment {
                syn: true,
                cwr: true,
                ..Segment::default()
            };
            receiver.on_segment(now, &syn, &mut |_| {});
            let mut nxt = 0;
            for _ in 0..500 {
                now += Span::ns(match rng.below(20) {
                    0 => rng.below(300_000_000),
                    1..5 => 0,
                    _ => rng.below(400_000),
                });
                while let Some(due) = receiver.next_wakeup().filter(|due| *due <= now) {
                    receiver.on_timer(due, &mut |_| {});
                }
                let behind = rng.below(2) * rng.below(4 * u64::from(full));
                let seg = Segment {
                    seq: match rng.below(30) {
                        0 => nxt + behind,
                        1 => nxt - behind.min(nxt),
                        _ => nxt,
                    },
                    len: if rng.below(20) == 0 {
                        rng.below(full.into()) as u32
                    } else {
                        full
                    },
                    tsval: stamp_at(&cfg, now, rng.below(40) / 38 * 5),
                    tsecr: stamp_at(&cfg, now, 40 + rng.below(20) / 18),
                    psh: rng.below(9) == 0,
                    cwr: rng.below(100) == 0,
                    ecn: if rng.below(50) == 0 {
                        Ecn::Ce
                    } else {
                        cfg.ecn.data()
                    },
                    options: cfg.options(false),
                    ..Segment::default()
                };
                let mut other = receiver.clone();
                let (mut acks, mut others) = (alloc::vec![], alloc::vec![]);
                expected += u32::from(receiver.expects(now, &seg));
                receiver.on_segment(now, &seg, &mut |ack| acks.push(ack));
                other.on_any_segment(now, &seg, &mut |ack| others.push(ack));
                assert_eq!(acks, others);
                assert_eq!(alloc::format!("{receiver:?}"), alloc::format!("{other:?}"));
                nxt = receiver.delivered_bytes();
            }
        }
        assert!(expected > 20_000, "{expected}");
    }

    /// The timestamp of a segment at `now`, `before_ms` ms earlier.
    fn stamp_at(cfg: &Config, now: Time, before_ms: u64) -> u32 {
        let stamp = crate::tcp::sender::stamp(now).saturating_sub(before_ms as u32);
        if cfg.timestamps { stamp } else { 0 }
    }
}
