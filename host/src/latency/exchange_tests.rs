//! Tests of counts, attribution and stored answers, over a line that answers each question as
//! specified.

use super::super::histogram::Histogram;
use super::super::null_line::{Fate, NullLine, PlayedLine};
use super::super::protocol::{Echo, Own};
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
    // Every tenth answer takes nine intervals, which must not delay questions.
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
    assert!(
        late.iter().all(|late| (900..1100).contains(late)),
        "{late:?}"
    );
    assert_eq!((seen.sent, seen.answered, seen.lost()), (100, 100, 0));
    assert!(seen.late.extremes().unwrap().1 < 100);
    // Each of them arrived after the answers to later questions.
    assert_eq!((seen.reordered, seen.duplicates), (10, 0));
    assert_eq!(
        (seen.slow, seen.attributed[Part::Beyond as usize]),
        (10, 10)
    );
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
    assert_eq!(
        (seen.answered, seen.rtt.extremes().unwrap().1 / 1000),
        (50, 5000)
    );
    assert!(
        sent.windows(2)
            .all(|two| two[1] - two[0] < 5_001_000 && two[1] - two[0] >= 20_000)
    );
    // A lost question delays the next one by the timeout, once.
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
    let sized = Plan {
        size: 64,
        ..plan(200)
    };
    let (seen, _) = played(&sized, fate);
    // Each question counts as exactly one of answered, corrupted and lost.
    assert_eq!(
        (seen.sent, seen.answered, seen.corrupted, seen.lost()),
        (200, 180, 10, 10)
    );
    assert_eq!(
        (seen.duplicates, seen.mismatches, seen.reordered),
        (10, 10, 10)
    );
}

#[test]
fn a_right_answer_after_a_wrong_one_is_an_answer() {
    let mut line = PlayedLine::new(|_| Fate {
        again: Some(1000),
        ..usual()
    });
    // Each question has two answers, of which the first has damaged padding.
    let mut damaged = false;
    line.damage_on_arrival = Some(Box::new(move || {
        damaged = !damaged;
        damaged
    }));
    let seen = run(&plan(50), &mut line, &mut Echo, &mut |_| true).unwrap();
    assert_eq!(
        (seen.answered, seen.mismatches, seen.corrupted, seen.lost()),
        (50, 50, 0, 0)
    );
}

#[test]
fn the_default_carries_the_percentiles_of_the_headline_though_some_are_lost() {
    let lossy = |n| {
        if n % 20 == 0 {
            Fate::default()
        } else {
            usual()
        }
    };
    let (seen, _) = played(&Plan::default(), lossy);
    assert_eq!(seen.sent, 11_000);
    assert!(seen.response.percentile(1000).is_some() && seen.rtt.percentile(1000).is_some());
}

#[test]
fn a_stall_is_one_episode() {
    // The path stalls for 100 ms. Much later a single answer is delayed.
    let stands = |n| match n {
        500..600 => Fate {
            after: Some(u64::from(600 - n) * 1_000_000),
            ..usual()
        },
        800 => Fate {
            after: Some(3_000_000),
            ..usual()
        },
        _ => usual(),
    };
    let (seen, _) = played(&plan(1000), stands);
    let episodes: Vec<&Episode> = seen.episodes.values().collect();
    assert_eq!(episodes.len(), 2);
    assert_eq!(episodes[0].answers + episodes[1].answers, seen.slow);
    assert_eq!((episodes[0].worst.number, episodes[1].answers), (500, 1));
    assert!((98..=100).contains(&episodes[0].answers), "{episodes:?}");
    let lasted = episodes[0].until - episodes[0].from;
    assert!((99_900_000..100_200_000).contains(&lasted), "{lasted}");
}

#[test]
fn episodes_are_joined_in_any_order_and_bounded() {
    let slow = |at: u64, took: u64| Slow {
        took,
        number: 0,
        at,
        rtt: took,
        late: 0,
        parts: [None; PARTS],
        attributed: Part::Wire as usize,
    };
    let mut seen = Outcome::default();
    for (at, took) in [(500, 10), (100, 50), (480, 15), (140, 400), (900, 1)] {
        seen.happened(Episode::of(slow(at, took)));
    }
    let spans: Vec<_> = seen
        .episodes
        .values()
        .map(|e| (e.from, e.until, e.answers))
        .collect();
    assert_eq!(spans, [(100, 540, 4), (900, 901, 1)]);
    for at in 1..=MOST_EPISODES as u64 {
        seen.happened(Episode::of(slow(at * 10_000, 5)));
    }
    assert_eq!((seen.episodes.len(), seen.forgotten), (MOST_EPISODES, 2));
    assert!(seen.episodes.contains_key(&100), "the longest stays");
}

/// A line that reports the departure of each question twice, as on a host that runs the responder,
/// too.
struct TwiceStamped(NullLine, Option<Left>, Option<Left>);

impl Line for TwiceStamped {
    fn now(&mut self) -> u64 {
        self.0.now()
    }
    fn ahead(&self) -> u64 {
        self.0.ahead()
    }
    fn send(&mut self, bytes: &[u8]) -> io::Result<Option<u32>> {
        let id = self.0.send(bytes);
        self.1 = self.0.departure();
        id
    }
    fn wait(&mut self, to: &mut [u8], until: u64, exact: bool) -> io::Result<Option<Got>> {
        self.0.wait(to, until, exact)
    }
    fn rest(&mut self, until: u64) {
        self.0.rest(until);
    }
    fn departure(&mut self) -> Option<Left> {
        if let Some(again) = self.2.take() {
            return Some(again);
        }
        let left = self.1.take()?;
        self.2 = Some(Left {
            stamp: left.stamp + 8,
            ..left
        });
        Some(left)
    }
    fn tells_departures(&self) -> bool {
        true
    }
}

#[test]
fn the_first_stamp_of_a_departure_counts() {
    let plan = Plan {
        pace: Pace::PingPong,
        interval: 0,
        ..plan(100)
    };
    let wire = |line: &mut dyn Line| {
        let seen = run(&plan, line, &mut Own { cookie: [1; 16] }, &mut |_| true).unwrap();
        assert_eq!((seen.answered, seen.contradicted), (100, 0));
        seen.parts[Part::Wire as usize].extremes()
    };
    let once = wire(&mut NullLine::default());
    assert!(once.is_some());
    assert_eq!(
        wire(&mut TwiceStamped(NullLine::default(), None, None)),
        once
    );
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
        seen.slow >= 19 && seen.attributed[Part::ClientApplication as usize] == seen.slow,
        "{:?}",
        seen.attributed
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
    assert_eq!(
        (seen.slow, seen.attributed[Part::ClientKernel as usize]),
        (20, 20)
    );
}

#[test]
fn parts_add_up_and_memory_does_not() {
    let mut line = NullLine::default();
    let plan = Plan {
        pace: Pace::PingPong,
        interval: 0,
        ..plan(200_000)
    };
    let seen = run(&plan, &mut line, &mut Own { cookie: [1; 16] }, &mut |_| {
        true
    })
    .unwrap();
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
    // Answers take 50 ms, so some are outstanding when the test is stopped after a second.
    let far = |_| Fate {
        after: Some(50_000_000),
        ..usual()
    };
    let mut looks = 0;
    let seen = run(
        &plan(10_000),
        &mut PlayedLine::new(far),
        &mut Echo,
        &mut |_| {
            looks += 1;
            looks != 10
        },
    )
    .unwrap();
    assert!(
        seen.interrupted && (800..1000).contains(&seen.sent),
        "{}",
        seen.sent
    );
    assert_eq!((seen.answered, seen.rtt.count()), (seen.sent, seen.sent));
    // Stopped twice: outstanding questions do not count as lost, but the earlier lost question
    // does.
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
    let seen = run(
        &patient,
        &mut PlayedLine::new(never),
        &mut Echo,
        &mut |_| {
            looks += 1;
            looks < 15
        },
    )
    .unwrap();
    assert!(seen.interrupted && seen.answered > 100);
    assert_eq!(seen.lost(), 1);
}

/// A far host that ends the session after some answers: the results until then are kept, and the
/// outstanding questions do not count as lost. Without an answer, the test fails.
#[test]
fn the_end_of_a_session_keeps_the_answers_until_then() {
    struct Ends(PlayedLine<fn(u32) -> Fate>, usize);
    impl Line for Ends {
        fn now(&mut self) -> u64 {
            self.0.now()
        }
        fn ahead(&self) -> u64 {
            0
        }
        fn send(&mut self, bytes: &[u8]) -> io::Result<Option<u32>> {
            self.0.send(bytes)
        }
        fn wait(&mut self, to: &mut [u8], until: u64, exact: bool) -> io::Result<Option<Got>> {
            if self.0.sent_at.len() > self.1 {
                let why = "the server ended the session: time is up";
                return Err(io::Error::new(io::ErrorKind::ConnectionAborted, why));
            }
            self.0.wait(to, until, exact)
        }
        fn rest(&mut self, until: u64) {
            self.0.rest(until);
        }
        fn departure(&mut self) -> Option<Left> {
            self.0.departure()
        }
        fn tells_departures(&self) -> bool {
            true
        }
        fn largest(&self) -> usize {
            64
        }
    }
    let play = |answers| {
        let mut line = Ends(PlayedLine::new(|_| usual()), answers);
        let large = Plan {
            size: 1000,
            ..plan(100)
        };
        run(&large, &mut line, &mut Echo, &mut |_| true)
    };
    let seen = play(30).unwrap();
    assert_eq!((seen.sent, seen.answered, seen.lost()), (30, 30, 0));
    assert_eq!(seen.size, 64);
    assert!(seen.notes[0].contains("--size 1000B had no effect"));
    assert!(
        seen.notes[1].ends_with("the server ended the session: time is up."),
        "{:?}",
        seen.notes
    );
    assert!(matches!(play(0), Err(HostError::Failed(..))));
}
