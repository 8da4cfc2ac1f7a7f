//! DualPI2 as a whole: who goes first, what is marked, what each queue gets (RFC 9332; Linux 6.17).

use crate::trace::Frame;
use narrows_core::packet::Ecn;
use narrows_core::param::{Params, Value};
use narrows_core::queue::dualpi2::{DualPi2, PARAMS};
use narrows_core::queue::{DropReason, QueueContext, QueueDiscipline, Sink};
use narrows_core::units::{Rate, Span, Time};

const CONTEXT: QueueContext = QueueContext {
    limit: None,
    rate: Rate::mbit(100),
    hz: 1000,
    seed: 1,
};

fn queue(set: &[(&'static str, Value)]) -> DualPi2<Frame> {
    let mut params = Params::defaults(PARAMS);
    set.iter()
        .for_each(|(name, value)| params.set(name, value.clone()));
    DualPi2::new(&params, &CONTEXT)
}

fn frame(number: u32, ecn: Ecn, at: Time) -> Frame {
    Frame {
        number,
        flow: 0,
        size: 1514,
        dscp: 0,
        ecn,
        enqueued_at: at,
        ack: None,
    }
}

#[derive(Default)]
struct Seen {
    marked: Vec<u32>,
    dropped: Vec<(u32, DropReason)>,
}

impl Sink<Frame> for Seen {
    fn dropped(&mut self, _now: Time, packet: Frame, reason: DropReason) {
        self.dropped.push((packet.number, reason));
    }
    fn marked(&mut self, _now: Time, packet: &Frame, _why: DropReason) {
        self.marked.push(packet.number);
    }
}

fn at(ms: u64) -> Time {
    Time::ZERO + Span::ms(ms)
}

#[test]
fn l_is_served_first_and_c_gets_a_tenth() {
    let (mut q, mut seen) = (queue(&[]), Seen::default());
    for n in 0..4000 {
        let ecn = if n % 2 == 0 { Ecn::NotEct } else { Ecn::Ect1 };
        q.enqueue(at(0), frame(n, ecn, at(0)), &mut seen);
    }
    let out: Vec<usize> = (0..1000)
        .map(|_| {
            q.dequeue(at(0), &mut seen).unwrap();
            q.class_served()
        })
        .collect();
    assert_eq!(out[0], 0);
    let classic = out.iter().sum::<usize>();
    assert!((99..=101).contains(&classic), "{classic} of 1000");
    assert!(seen.dropped.is_empty() && seen.marked.is_empty());
}

#[test]
fn the_step_marks_only_packets_of_l() {
    let (mut q, mut seen) = (queue(&[]), Seen::default());
    q.enqueue(at(0), frame(0, Ecn::Ect1, at(0)), &mut seen);
    q.enqueue(at(0), frame(1, Ecn::Ect0, at(0)), &mut seen);
    q.enqueue(at(2), frame(2, Ecn::Ect1, at(2)), &mut seen);
    for _ in 0..3 {
        q.dequeue(at(2), &mut seen);
    }
    assert_eq!(seen.marked, [0]);
    assert!(seen.dropped.is_empty());
}

#[test]
fn the_step_spares_packets_that_arrived_at_a_short_queue() {
    let (mut q, mut seen) = (
        queue(&[("min_qlen_step", Value::Count(1))]),
        Seen::default(),
    );
    q.enqueue(at(0), frame(0, Ecn::Ect1, at(0)), &mut seen);
    q.enqueue(at(0), frame(1, Ecn::Ect1, at(0)), &mut seen);
    q.dequeue(at(5), &mut seen);
    q.dequeue(at(5), &mut seen);
    assert_eq!(seen.marked, [1]);
}

/// A head that has waited for 60 ms sets the probability to 0.16 · 0.045 + 3.2 · 0.06 = 0.2. C is
/// dropped with 4 % (it cannot be marked here), L marked with 40 %.
#[test]
fn two_full_frames_are_spared_at_any_probability() {
    let (mut q, mut seen) = (
        queue(&[("step", Value::Span(Span::s(10)))]),
        Seen::default(),
    );
    q.enqueue(at(0), frame(0, Ecn::NotEct, at(0)), &mut seen);
    let now = at(60);
    q.on_wakeup(now, &mut seen);
    assert!((q.law().probability() - 0.2).abs() < 0.002);
    // Nothing is behind it.
    assert!(q.dequeue(now, &mut seen).is_some());
    for n in 1..1001 {
        let ecn = if n % 2 == 0 { Ecn::NotEct } else { Ecn::Ect1 };
        q.enqueue(now, frame(n, ecn, now), &mut seen);
    }
    let left = std::iter::from_fn(|| q.dequeue(now, &mut seen)).count();
    assert_eq!(left + seen.dropped.len(), 1000);
    assert!(
        (160..240).contains(&seen.marked.len()),
        "{}",
        seen.marked.len()
    );
    assert!(
        (8..36).contains(&seen.dropped.len()),
        "{}",
        seen.dropped.len()
    );
    assert!(
        seen.dropped
            .iter()
            .all(|(_, reason)| *reason == DropReason::Aqm)
    );
    // With one frame behind each of them, they are spared again; with two, they are not.
    let struck = seen.marked.len();
    let mut pass = |first: u32, behind: u32| {
        for n in first..first + behind {
            q.enqueue(now, frame(n, Ecn::Ect1, now), &mut seen);
        }
        for n in first + behind..first + 500 {
            q.enqueue(now, frame(n, Ecn::Ect1, now), &mut seen);
            assert!(q.dequeue(now, &mut seen).is_some());
        }
        while q.dequeue(now, &mut seen).is_some() {}
        seen.marked.len()
    };
    assert_eq!(pass(1001, 1), struck);
    assert!((160..240).contains(&(pass(2001, 2) - struck)));
}

#[test]
fn the_limit_applies_to_both_queues_together() {
    let (mut q, mut seen) = (queue(&[("limit", Value::Packets(10))]), Seen::default());
    for n in 0..12 {
        let ecn = if n % 2 == 0 { Ecn::NotEct } else { Ecn::Ect1 };
        q.enqueue(at(0), frame(n, ecn, at(0)), &mut seen);
    }
    assert_eq!(
        seen.dropped,
        [(10, DropReason::Overflow), (11, DropReason::Overflow)]
    );
}

#[test]
fn drop_early_decides_on_arrival() {
    let (mut q, mut seen) = (queue(&[("drop_early", Value::Bool(true))]), Seen::default());
    for n in 0..3 {
        q.enqueue(at(0), frame(n, Ecn::NotEct, at(0)), &mut seen);
    }
    let mut now = at(500);
    for _ in 0..200 {
        now = now.max(q.next_wakeup().unwrap());
        q.on_wakeup(now, &mut seen);
    }
    for n in 3..103 {
        q.enqueue(now, frame(n, Ecn::NotEct, now), &mut seen);
    }
    assert!(seen.dropped.len() > 80, "{}", seen.dropped.len());
    let before = seen.dropped.len();
    while q.dequeue(now, &mut seen).is_some() {}
    assert_eq!(seen.dropped.len(), before);
}

/// Congestion that was experienced before does not tell whose packet it is: it goes with L (RFC
/// 9331 section 5.1).
#[test]
fn ect1_and_ce_are_classified_as_l() {
    for (ecn, class) in [
        (Ecn::Ect1, 0),
        (Ecn::Ce, 0),
        (Ecn::Ect0, 1),
        (Ecn::NotEct, 1),
    ] {
        let (mut q, mut seen) = (queue(&[]), Seen::default());
        q.enqueue(at(0), frame(0, ecn, at(0)), &mut seen);
        assert_eq!(q.backlog_of(class).packets, 1, "{ecn:?}");
    }
}
