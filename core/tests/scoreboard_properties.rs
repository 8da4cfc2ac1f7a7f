//! The scoreboard against a model that anybody can check: a list of records, walked from end to end
//! for every question.

use narrows_core::tcp::scoreboard::{
    EVER_RETRANS, GLUED, LOST, RETRANS, SACKED, Scoreboard, Seg, Snapshot,
};
use narrows_core::tcp::wire::Range;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const MSS: u32 = 1448;

/// The same cases in every run.
fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 512,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

#[derive(Copy, Clone, Debug)]
struct Record {
    number: u64,
    seq: u64,
    len: u32,
    sent_us: u64,
    /// Retransmitted and assumed in flight. Segments that are SACKed, or lost by RACK or a timeout,
    /// are not visited again.
    watched: bool,
    /// Taken from the watched by a timeout.
    timed_out: bool,
    sacked: bool,
    lost: bool,
    retrans: bool,
    ever_retrans: bool,
}

impl Record {
    fn end(&self) -> u64 {
        self.seq + u64::from(self.len)
    }
    fn waits(&self) -> bool {
        self.lost && !self.retrans && !self.sacked
    }
}

#[derive(Default)]
struct Model {
    records: Vec<Record>,
    una: u64,
    nxt: u64,
    sent: u64,
    lost_total: u64,
}

impl Model {
    fn count(&self, of: impl Fn(&Record) -> bool) -> u32 {
        self.records.iter().filter(|r| of(r)).count() as u32
    }
    fn at(&mut self, number: u64) -> &mut Record {
        self.records
            .iter_mut()
            .find(|r| r.number == number)
            .unwrap()
    }
    fn push(&mut self, len: u32, now: u64) {
        let (number, seq) = (self.sent, self.nxt);
        self.records.push(Record {
            number,
            seq,
            len,
            sent_us: now,
            watched: true,
            timed_out: false,
            sacked: false,
            lost: false,
            retrans: false,
            ever_retrans: false,
        });
        self.sent += 1;
        self.nxt += u64::from(len);
    }
    fn sack(&mut self, block: Range) {
        for r in &mut self.records {
            if !r.sacked && block.start <= r.seq && r.end() <= block.end {
                r.sacked = true;
                r.watched = false;
                if r.lost {
                    (r.lost, r.retrans) = (false, false);
                }
            }
        }
    }
    fn ack(&mut self, to: u64) {
        while self.records.first().is_some_and(|r| r.end() <= to) {
            self.una = self.records.remove(0).end();
        }
    }
    fn mark_lost(&mut self, number: u64) {
        let r = self.at(number);
        if r.sacked || r.waits() {
            return;
        }
        if r.lost {
            r.retrans = false;
        }
        r.lost = true;
        self.lost_total += 1;
    }
    fn resend(&mut self, number: u64, now: u64, counted: bool) {
        let r = self.at(number);
        r.sent_us = now;
        r.retrans |= counted;
        r.ever_retrans = true;
        (r.watched, r.timed_out) = (true, false);
    }
    fn undo(&mut self) {
        for r in &mut self.records {
            r.lost = false;
            r.watched |= r.timed_out && !r.sacked;
            r.timed_out &= r.sacked;
        }
    }
}

/// One thing that happens, its operands to be fitted to what is in flight: (what, two numbers).
type Step = (u8, u32, u32);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let what = prop_oneof![6 => Just(0u8), 4 => Just(1), 3 => Just(2), 3 => 3u8..6, 4 => Just(6),
        2 => 7u8..11];
    prop::collection::vec((what, any::<u32>(), any::<u32>()), 1..160)
}

fn apply(board: &mut Scoreboard, model: &mut Model, (what, a, b): Step, now: u64) {
    let (a, b) = (u64::from(a), u64::from(b));
    let numbers = board.numbers();
    let some = (!numbers.is_empty()).then(|| numbers.start + a % (numbers.end - numbers.start));
    match what {
        // Bursts, some with a short segment at their end.
        0 => {
            for i in 0..=a % 8 {
                let short = i == a % 8 && b % 3 == 0;
                let len = if short {
                    1 + (b % u64::from(MSS)) as u32
                } else {
                    MSS
                };
                board.push(
                    len.into(),
                    &Seg::sent(now, &Snapshot::default()),
                    if i < a % 8 { GLUED } else { 0 },
                );
                model.push(len, now);
            }
        }
        // A block between two segments, or anywhere.
        1 => {
            let Some(first) = some else { return };
            let seg = *board.seg(first);
            let mut block = Range {
                start: seg.seq,
                end: (seg.seq + (1 + b % 6) * u64::from(MSS)).min(board.nxt()),
            };
            if b % 7 == 0 {
                (block.start, block.end) =
                    (block.start + b % 100, block.end.saturating_sub(a % 100));
            }
            model.sack(block);
            let mut at = board.number_of(block.start);
            while let Some(i) = board.next_unsacked(at, block.end) {
                board.sack(i);
                at = i + 1;
            }
        }
        // A cumulative ACK, sometimes into the middle of a segment.
        2 => {
            let Some(last) = some else { return };
            let to = board.seg(last).end() - u64::from(b % 5 == 0);
            while board.pop_acked(to).is_some() {}
            model.ack(to);
        }
        3..=5 => {
            let Some(i) = some else { return };
            match what {
                3 => board.mark_lost(i),
                4 => board.mark_lost_by_rack(i),
                _ => board.mark_lost_by_timeout(i),
            }
            model.mark_lost(i);
            let r = model.at(i);
            match what {
                4 => r.watched = false,
                5 if r.watched && r.waits() => (r.watched, r.timed_out) = (false, true),
                _ => {}
            }
        }
        6 => {
            let Some(i) = board.next_to_retransmit() else {
                return;
            };
            board.resend(i, now, &Snapshot::default(), true);
            model.resend(i, now, true);
        }
        // A tail loss probe.
        7 => {
            let Some(i) = board.last_number() else { return };
            board.resend(i, now, &Snapshot::default(), false);
            model.resend(i, now, false);
        }
        8 => {
            let Some(i) = some else { return };
            board.clear_retrans(i);
            model.at(i).retrans = false;
        }
        9 => {
            board.unmark_all_lost();
            model.undo();
        }
        // A receiver that goes back on its SACKs: a timeout follows, by which everything is lost.
        _ => {
            if b % 4 > 0 {
                return;
            }
            board.forget_sacks();
            model.records.iter_mut().for_each(|r| r.sacked = false);
            for i in board.numbers() {
                board.mark_lost(i);
                model.mark_lost(i);
            }
        }
    }
}

/// The segments under watch, oldest transmission first; walked the other way it must be the same.
fn order(board: &Scoreboard) -> Vec<u64> {
    let forward: Vec<u64> =
        std::iter::successors(board.oldest_sent(), |&i| board.next_sent(i)).collect();
    let mut backward: Vec<u64> =
        std::iter::successors(board.newest_sent(), |&i| board.previous_sent(i)).collect();
    backward.reverse();
    assert_eq!(forward, backward);
    forward
}

/// `before_us`: when the newest segment that has arrived was sent; never less than in the call
/// before.
fn compare(board: &mut Scoreboard, model: &Model, before_us: u64) {
    assert_eq!((board.una(), board.nxt()), (model.una, model.nxt));
    assert_eq!(board.packets_out(), model.records.len() as u32);
    assert_eq!(board.sacked_out(), model.count(|r| r.sacked), "sacked_out");
    assert_eq!(board.lost_out(), model.count(|r| r.lost), "lost_out");
    assert_eq!(
        board.retrans_out(),
        model.count(|r| r.retrans),
        "retrans_out"
    );
    assert_eq!(board.lost_total(), model.lost_total);
    let flying = |r: &Record| u32::from(!r.sacked && !r.lost) + u32::from(r.retrans);
    // A probe's target may be SACKed and count as retransmitted: Linux, too, then counts it once
    // less.
    let in_flight: u32 = model.records.iter().map(flying).sum();
    assert_eq!(board.in_flight(), in_flight, "in_flight");
    let fack = model
        .records
        .iter()
        .filter(|r| r.sacked)
        .map(Record::end)
        .max();
    assert_eq!(board.fack(), fack.unwrap_or(model.una), "fack");
    let waiting = model.records.iter().find(|r| r.waits()).map(|r| r.number);
    assert_eq!(board.next_to_retransmit(), waiting, "next_to_retransmit");
    let first = model.records.first().is_some_and(|r| r.ever_retrans);
    assert_eq!(
        board.any_retransmitted(),
        first || model.count(|r| r.retrans) > 0
    );
    assert_eq!(board.numbers().count(), model.records.len());
    for (number, r) in board.numbers().zip(&model.records) {
        let seg = board.seg(number);
        assert_eq!(
            (number, seg.seq, seg.len, seg.sent_us),
            (r.number, r.seq, r.len, r.sent_us)
        );
        let flags = [SACKED, LOST, RETRANS, EVER_RETRANS].map(|f| seg.is(f));
        assert_eq!(
            flags,
            [r.sacked, r.lost, r.retrans, r.ever_retrans],
            "segment {number}"
        );
        assert_eq!(
            (board.number_of(r.seq), board.starting_at(r.seq)),
            (number, Some(number))
        );
        let next = (r.len == 1)
            .then_some(number + 1)
            .filter(|n| board.numbers().contains(n));
        assert_eq!(
            (board.number_of(r.seq + 1), board.starting_at(r.seq + 1)),
            (number + 1, next)
        );
    }
    // Segments of the same microsecond have no order.
    let watched = order(board);
    let times: Vec<u64> = watched.iter().map(|&i| board.seg(i).sent_us).collect();
    assert!(times.is_sorted(), "{times:?}");
    let last = watched
        .iter()
        .copied()
        .rfind(|&i| board.seg(i).sent_us < before_us);
    assert_eq!(board.last_sent_before(|seg| seg.sent_us < before_us), last);
    let mut watched = watched;
    watched.sort_unstable();
    let expected: Vec<u64> = model
        .records
        .iter()
        .filter(|r| r.watched)
        .map(|r| r.number)
        .collect();
    assert_eq!(watched, expected, "under watch");
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn whatever_happens_the_scoreboard_is_the_model(steps in steps()) {
        let (mut board, mut model) = (Scoreboard::default(), Model::default());
        for (i, step) in steps.into_iter().enumerate() {
            // Some things happen in the same microsecond.
            let now = 1000 + i as u64 / 3 * 100;
            apply(&mut board, &mut model, step, now);
            compare(&mut board, &model, now / 1000 * 900);
        }
    }
}
