//! What an exchange counts, blames and keeps, over a line that does as it is told.

use super::super::null_line::{Fate, NullLine, PlayedLine};
use super::super::speak::{Echo, Own};
use super::*;

fn plan(count: u32) -> Plan {
    Plan {
        count,
        warmup: 0,
        lasts: u64::MAX,
        ..Plan::default()
    }
}

fn usual() -> Fate {
    Fate {
        after: Some(20_000),
        ..Fate::default()
    }
}

fn played(plan: &Plan, fate: impl FnMut(u32) -> Fate) -> (Outcome, Vec<u64>) {
    let mut line = PlayedLine::new(fate);
    let seen = run(plan, &mut line, &mut Echo, &mut |_| true).unwrap();
    (seen, line.sent_at)
}

#[test]
fn questions_leave_at_absolute_times() {
    // Every tenth answer takes nine intervals, and that delays no question.
    let slow = |n| {
        if n % 10 == 0 {
            Fate {
                after: Some(9_000_000),
                ..usual()
            }
        } else {
            usual()
        }
    };
    let (seen, sent) = played(&plan(100), slow);
    let late: Vec<u64> = sent
        .iter()
        .enumerate()
        .map(|(n, at)| at + 1000 - sent[0] - n as u64 * 1_000_000)
        .collect();
    assert!(late.iter().all(|late| (900..1100).contains(late)), "{late:?}");
    assert_eq!((seen.sent, seen.answered, seen.lost()), (100, 100, 0));
    assert!(seen.late.extremes().unwrap().1 < 100);
    // They came after nine others each.
    assert_eq!((seen.reordered, seen.duplicates), (10, 0));
    assert_eq!((seen.slow, seen.blamed[Part::Beyond as usize]), (10, 10));
}

#[test]
fn pingpong_asks_when_it_was_answered() {
    let slow = Plan {
        pace: Pace::PingPong,
        interval: 0,
        ..plan(50)
    };
    let (seen, sent) = played(&slow, |n| Fate {
        after: Some(if n == 20 { 5_000_000 } else { 20_000 }),
        ..usual()
    });
    assert_eq!((seen.answered, seen.rtt.extremes().unwrap().1 / 1000), (50, 5000));
    assert!(sent
        .windows(2)
        .all(|two| two[1] - two[0] < 5_001_000 && two[1] - two[0] >= 20_000));
    // A lost one is given up after its time, once.
    let (seen, sent) = played(&slow, |n| if n == 20 { Fate::default() } else { usual() });
    assert_eq!((seen.answered, seen.lost()), (49, 1));
    assert!(sent[21] - sent[20] >= 1_000_000_000);
}

#[test]
fn what_comes_twice_or_wrong_or_never_is_counted() {
    let fate = |n| match n % 20 {
        3 => Fate {
            again: Some(1000),
            ..usual()
        },
        5 => Fate {
            damaged: true,
            ..usual()
        },
        7 => Fate::default(),
        9 => Fate {
            after: Some(1_500_000),
            ..usual()
        },
        _ => usual(),
    };
    let sized = Plan { size: 64, ..plan(200) };
    let (seen, _) = played(&sized, fate);
    assert_eq!((seen.sent, seen.answered, seen.lost()), (200, 180, 20));
    assert_eq!((seen.duplicates, seen.mismatches, seen.reordered), (10, 10, 10));
}

#[test]
fn a_client_that_stands_still_is_blamed_itself_and_one_woken_late_is_not() {
    let stalls = Plan {
        stall: Some(Stall {
            lasts: 4_000_000,
            every: 100_000_000,
        }),
        slow: Some(2_000_000),
        ..plan(2000)
    };
    let (seen, _) = played(&stalls, |_| usual());
    assert!(
        seen.slow >= 19 && seen.blamed[Part::ClientApplication as usize] == seen.slow,
        "{:?}",
        seen.blamed
    );
    let woken = |n| Fate {
        woken_late: if n % 100 == 50 { 4_000_000 } else { 0 },
        ..usual()
    };
    let (seen, _) = played(
        &Plan {
            stall: None,
            interval: 10_000_000,
            ..stalls
        },
        woken,
    );
    assert_eq!((seen.slow, seen.blamed[Part::ClientKernel as usize]), (20, 20));
}

#[test]
fn parts_add_up_and_memory_does_not() {
    let mut line = NullLine::default();
    let plan = Plan {
        pace: Pace::PingPong,
        interval: 0,
        ..plan(200_000)
    };
    let seen = run(&plan, &mut line, &mut Own { cookie: [1; 16] }, &mut |_| true).unwrap();
    assert_eq!(
        (seen.sent, seen.answered, seen.mismatches, seen.contradicted),
        (200_000, 200_000, 0, 0)
    );
    let all: u64 = seen.parts.iter().map(Histogram::count).sum();
    assert_eq!(all, 5 * 200_000);
    assert!(seen.slowest.len() <= MOST_SLOW);
}

#[test]
fn who_stops_it_keeps_what_was_seen() {
    // Answers take 50 ms: some are on their way when it is stopped, after a second.
    let far = |_| Fate {
        after: Some(50_000_000),
        ..usual()
    };
    let mut looks = 0;
    let seen = run(&plan(10_000), &mut PlayedLine::new(far), &mut Echo, &mut |_| {
        looks += 1;
        looks != 10
    })
    .unwrap();
    assert!(seen.interrupted && (800..1000).contains(&seen.sent), "{}", seen.sent);
    assert_eq!((seen.answered, seen.rtt.count()), (seen.sent, seen.sent));
    // Twice: what was not answered by then is not lost, and what was lost before stays so.
    let never = |n| {
        if n == 3 {
            Fate::default()
        } else {
            Fate {
                after: Some(900_000_000),
                ..usual()
            }
        }
    };
    let patient = Plan {
        patience: 950_000_000,
        ..plan(10_000)
    };
    let mut looks = 0;
    let seen = run(&patient, &mut PlayedLine::new(never), &mut Echo, &mut |_| {
        looks += 1;
        looks < 15
    })
    .unwrap();
    assert!(seen.interrupted && seen.answered > 100);
    assert_eq!(seen.lost(), 1);
}
