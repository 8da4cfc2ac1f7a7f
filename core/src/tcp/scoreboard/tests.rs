use super::*;
use crate::tcp::rack::Rack;
use crate::tcp::rtt::Rtt;
use crate::tcp::wire::{MAX_SACKS, Range};

const MSS: u64 = crate::tcp::MSS as u64;

/// Of ten segments, 3, 5, 6 and 9 are SACKed: 0, 1, 2 and 4 have three above them, 7 and 8 have
/// not. Each segment is judged once, unless all are judged anew.
#[test]
fn what_has_enough_sacked_above_it_is_lost() {
    let mut board = Scoreboard::default();
    for i in 0..10 {
        board.push(MSS, &Seg::sent(i, &Snapshot::default()), 0);
    }
    let lost = |board: &Scoreboard| -> Vec<u64> {
        board.numbers().filter(|&i| board.seg(i).is(LOST)).collect()
    };
    for i in [3, 5] {
        board.sack(i);
    }
    board.mark_lost_by_count(3);
    assert_eq!(lost(&board), [0; 0]);
    board.sack(6);
    board.mark_lost_by_count(3);
    assert_eq!(lost(&board), [0, 1, 2]);
    board.sack(9);
    board.mark_lost_by_count(3);
    assert_eq!(lost(&board), [0, 1, 2, 4]);
    assert_eq!((board.lost_out(), board.in_flight()), (4, 2));
    board.unmark_all_lost();
    board.mark_lost_by_count(3);
    assert_eq!(lost(&board), [0, 1, 2, 4]);
}

/// A board of up to `most` segments, SACKed, lost and retransmitted at random.
fn random_board(rng: &mut crate::rng::Rng, most: u64) -> Scoreboard {
    let mut board = Scoreboard::default();
    let touched = 1 + rng.below(30);
    for sent in 0..1 + rng.below(most) {
        let flags = if rng.below(2) == 0 { GLUED } else { 0 };
        board.push(MSS, &Seg::sent(sent / 3, &Snapshot::default()), flags);
        let i = rng.below(board.tail);
        match rng.below(touched) {
            0 if !board.seg(i).is(SACKED) => {
                board.sack(i);
            }
            1 => board.mark_lost_by_rack(i),
            2 => board.mark_lost_by_timeout(i),
            3 if board.seg(i).flags & (LOST | SACKED | RETRANS) == LOST => {
                board.resend(i, sent / 3, &Snapshot::default(), true);
            }
            4 => board.unmark_all_lost(),
            5 => {
                board.last_sent_before(|seg| seg.sent_us < sent / 6);
            }
            _ => {}
        }
    }
    board
}

/// The segments in flight, the ends of the board and its counts, for comparisons.
pub(in crate::tcp) fn state(b: &Scoreboard) -> impl PartialEq + core::fmt::Debug + use<> {
    let live = b.numbers().map(|i| {
        let seg = b.seg(i);
        // Others keep links that are not read any more.
        let links = seg.is(LINKED).then_some((seg.older, seg.newer));
        (links, seg.skip, seg.flags, seg.seq, seg.sent_us)
    });
    let ends = (
        b.head,
        b.tail,
        b.oldest,
        b.newest,
        b.before,
        b.una,
        b.fack(),
    );
    let counts = (
        b.sacked_out,
        b.lost_out,
        b.retrans_out,
        b.buffers,
        (b.lost_from, b.lost_to),
    );
    (live.collect::<Vec<_>>(), ends, counts)
}

/// Two copies of a board have the same segments, SACKed, lost and retransmitted at random. One copy
/// removes segments one by one, and the other in runs. Both must remove the same segments and be
/// equal afterwards.
#[test]
fn runs_of_untouched_segments_are_removed_as_single_ones() {
    let mut rng = crate::rng::Rng::named(1, "untouched");
    for _ in 0..2000 {
        let mut board = random_board(&mut rng, 60);
        let ack = (rng.below(board.tail + 2) * MSS).saturating_sub(7 * rng.below(2));
        let (mut runs, mut all) = (board.clone(), board.clone());
        let most = rng.below(20);
        let popped = all.pop_all_untouched(ack, most).map(|run| run.segments);
        let (mut one_by_one, mut flags, mut in_runs) = (Vec::new(), Vec::new(), 0);
        while let Some(seg) = board.pop_acked(ack) {
            one_by_one.push((seg.seq, seg.sent_us));
            flags.push(seg.flags);
        }
        loop {
            if let Some(run) = runs.pop_untouched(ack) {
                assert_eq!((run.first_seq, run.first_sent_us), one_by_one[in_runs]);
                in_runs += run.segments as usize;
                assert_eq!((run.last.seq, run.last.sent_us), one_by_one[in_runs - 1]);
            }
            let sacked = runs.sacked_out;
            let of_run = runs.pop_sacked(ack);
            let end = in_runs + (sacked - runs.sacked_out) as usize;
            assert_eq!(
                of_run,
                flags[in_runs..end].iter().fold(0, |all, one| all | one)
            );
            in_runs = end;
            if runs.pop_acked(ack).is_none() {
                break;
            }
            in_runs += 1;
        }
        assert_eq!(in_runs, one_by_one.len());
        assert_eq!(state(&board), state(&runs));
        // All segments below the ACK, or none.
        if let Some(segments) = popped {
            assert!(u64::from(segments) <= most && segments as usize == one_by_one.len());
            assert_eq!(state(&board), state(&all));
        } else {
            let kept = one_by_one.len() as u32 + board.packets_out();
            assert_eq!(all.packets_out(), kept);
        }
    }
}

/// Two copies of a board have the same segments, SACKed, lost and retransmitted at random. One copy
/// SACKs segments one by one, and the other all together. Both must be equal afterwards.
#[test]
fn a_run_of_untouched_segments_is_sacked_as_single_ones() {
    let mut rng = crate::rng::Rng::named(1, "sacked together");
    let mut together = 0;
    for _ in 0..2000 {
        let mut board = random_board(&mut rng, 30);
        let from = rng.below(board.tail);
        let next = (from + 1 + rng.below(4)).min(board.tail);
        let most = 1 + rng.below(6);
        let mut single = board.clone();
        let before = state(&board);
        let run = board.sack_all_untouched(from, next * MSS, most).map(|run| {
            assert_eq!(run.first_seq, from * MSS);
            (
                run.segments,
                run.first_sent_us,
                run.last_number,
                run.last.sent_us,
            )
        });
        let Some(run) = run else {
            assert_eq!(before, state(&board));
            continue;
        };
        let sacked: Vec<Seg> = (from..next).map(|i| single.sack(i)).collect();
        let (first, last) = (sacked[0].sent_us, sacked[sacked.len() - 1].sent_us);
        assert_eq!(run, (sacked.len() as u32, first, next - 1, last));
        assert!(next - from <= most);
        assert_eq!(state(&board), state(&single));
        together += 1;
    }
    assert!(together > 500, "{together}");
}

/// `n` segments leave, 1 µs apart, and of each two the first is lost. Each other segment is
/// SACKed by its own ACK, with earlier blocks repeated. RACK finds the holes; each is
/// retransmitted and acknowledged in the end. Returns the number of visited records. With a
/// reordering `window` (µs), losses are detected later.
fn looks(n: u64, window: u64) -> u64 {
    let rtt_us = 2 * n;
    let (mut board, mut rack) = (Scoreboard::default(), Rack::default());
    let rtt = Rtt::new(1000);
    for i in 0..n {
        board.push(MSS, &Seg::sent(i, &Snapshot::default()), 0);
    }
    for arrived in (1..n).step_by(2) {
        let now = arrived + rtt_us;
        for back in (0..MAX_SACKS as u64).filter(|b| arrived > 2 * b) {
            let start = (arrived - 2 * back) * MSS;
            let block = Range {
                start,
                end: start + MSS,
            };
            let mut at = board.number_of(block.start);
            while let Some(i) = board.next_unsacked(at, block.end) {
                at = i + 1;
                let seg = board.sack(i);
                rack.delivered(now, seg.sent_us, seg.end(), seg.flags, &rtt);
            }
        }
        // RACK's segment left `rtt_us` ago; a hole is lost if it left at least as long before.
        let longest = (window > 0).then(|| window - 1);
        assert_eq!(rack.detect(now, &mut board, window), longest);
        if let Some(lost) = board.next_to_retransmit() {
            assert_eq!(lost, arrived - window - 1 + window % 2);
            board.resend(lost, now, &Snapshot::default(), true);
        }
    }
    assert_eq!(u64::from(board.retrans_out()), (n - window) / 2);
    // The retransmissions arrive in order: each fills a hole, and the ACK passes the SACKed
    // segments behind it.
    for filled in (2..=n).step_by(2) {
        while board.pop_acked(filled * MSS).is_some() {}
    }
    assert_eq!(board.packets_out(), 0);
    board.looks.get()
}

/// Work is counted, not timed: twice the holes cost twice the work, not four times.
#[test]
fn an_ack_costs_the_same_however_many_holes_there_are() {
    for window in [0, 5_000] {
        let (some, twice) = (looks(20_000, window), looks(40_000, 2 * window));
        assert!(some < 20_000 * 40, "{some}");
        assert!(twice <= 2 * some + some / 20, "{some} {twice}");
    }
}

/// One block that grows over everything, as behind a single loss: SACKed runs are skipped.
#[test]
fn an_ack_costs_the_same_however_long_its_block_is() {
    let looks = |n: u64| {
        let mut board = Scoreboard::default();
        for i in 0..n {
            board.push(MSS, &Seg::sent(i, &Snapshot::default()), 0);
        }
        for end in 2..=n {
            let block = Range {
                start: MSS,
                end: end * MSS,
            };
            let mut at = board.number_of(block.start);
            while let Some(i) = board.next_unsacked(at, block.end) {
                at = i + 1;
                board.sack(i);
            }
        }
        assert_eq!(u64::from(board.sacked_out()), n - 1);
        board.looks.get()
    };
    let (some, twice) = (looks(20_000), looks(40_000));
    assert!(some < 20_000 * 40, "{some}");
    assert!(twice <= 2 * some + some / 20, "{some} {twice}");
}

/// All of `n` segments are lost and retransmitted in order; then, one ACK after another reports
/// that one of the retransmissions is lost, too. Returns the number of visited records per loss.
fn looks_for_repeated_losses(n: u64) -> u64 {
    let mut board = Scoreboard::default();
    for i in 0..n {
        board.push(MSS, &Seg::sent(i, &Snapshot::default()), 0);
    }
    (0..n).for_each(|i| board.mark_lost(i));
    for i in 0..n / 2 {
        assert_eq!(board.next_to_retransmit(), Some(i));
        board.resend(i, n + i, &Snapshot::default(), true);
    }
    let before = board.looks.get();
    for i in (0..n / 4).step_by(2) {
        board.mark_lost(i);
        assert_eq!(board.next_to_retransmit(), Some(i));
        board.resend(i, 2 * n + i, &Snapshot::default(), true);
        assert_eq!(board.next_to_retransmit(), Some(n / 2));
    }
    (board.looks.get() - before) / (n / 8)
}

/// The search for a segment whose retransmission is lost does not pass all retransmissions again.
#[test]
fn a_repeated_loss_costs_the_same_however_many_retransmissions_there_are() {
    for n in [1_000, 10_000] {
        let looks = looks_for_repeated_losses(n);
        assert!(looks < 20, "{n}: {looks}");
    }
}

/// The next segment to retransmit is the first one that is lost and not retransmitted, also after
/// repeated losses, timeouts and undone losses.
#[test]
fn the_first_waiting_segment_is_retransmitted_next() {
    let mut rng = crate::rng::Rng::named(1, "waiting");
    let mut again = 0;
    for _ in 0..2000 {
        let mut board = random_board(&mut rng, 60);
        for now in 100..160 {
            let i = board.head + rng.below(board.tail - board.head);
            match rng.below(20) {
                0 => {
                    let ack = board.seg(i).end();
                    while board.pop_acked(ack).is_some() {}
                }
                1 => (board.head..board.tail).for_each(|i| board.mark_lost_by_timeout(i)),
                2 => board.unmark_all_lost(),
                3..9 => board.mark_lost(i),
                _ => {}
            }
            let waits = |i: &u64| board.seg(*i).flags & (LOST | RETRANS | SACKED) == LOST;
            let expected = board.numbers().find(waits);
            assert_eq!(board.next_to_retransmit(), expected);
            again += u64::from(board.lost_again.is_some());
            if let Some(i) = expected {
                board.resend(i, now, &Snapshot::default(), true);
            }
            if board.head == board.tail {
                break;
            }
        }
    }
    assert!(again > 1000, "{again}");
}

/// The number of places in use changes at random on one of two boards. Both stay equal.
#[test]
fn the_number_of_places_changes_nothing() {
    let mut rng = crate::rng::Rng::named(1, "places");
    let (mut fewer, mut more) = (0, 0);
    for _ in 0..300 {
        let mut board = random_board(&mut rng, 200);
        let mut other = board.clone();
        for _ in 0..60 {
            let places = board.places();
            board.fit(rng.below(100));
            fewer += u32::from(board.places() < places);
            let places = board.places();
            assert!(places.is_power_of_two() && places <= board.ring.len());
            let segments = rng.below(20);
            let i = board.head + rng.below(board.packets_out().into());
            for board in [&mut board, &mut other] {
                board.push(segments * MSS, &Seg::sent(9, &Snapshot::default()), 0);
                board.mark_lost(i);
                let ack = board.seg(i).end();
                while board.packets_out() > 1 && board.pop_acked(ack).is_some() {}
            }
            more += u32::from(board.places() > places);
            assert_eq!(state(&board), state(&other));
        }
    }
    assert!(fewer > 1000 && more > 1000, "{fewer}, {more}");
}
