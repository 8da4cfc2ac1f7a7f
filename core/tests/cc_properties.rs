//! Properties of every congestion control, on any path: the window is never below its minimum nor
//! above its clamp, pacing is never zero, and nothing panics or overflows. The same events give the
//! same results.
//!
//! The events are those of a transport, in its order (`core/src/cc/mod.rs`): round trips of 1 µs to
//! 10 s, rates of 1 kbit/s to 1 Tbit/s, losses, marks, timeouts, undos, silences.

use narrows_core::cc::{
    self, Ack, Cause, CcKind, Delivery, Host, Loss, RateSample, Reduced, Rto, Sample, Sent,
    SpuriousLoss, Start, StateChange, Totals, Window,
};
use narrows_core::param::Params;
use narrows_core::tcp::State;
use narrows_core::units::{Rate, Span, Time};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const MSS: u64 = 1448;

/// The same cases in every run.
fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 128,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// The next event, after a number of ns.
#[derive(Clone, Debug)]
enum Step {
    /// ACKs arrive: so many, of so many packets each, with this round trip and this part of them
    /// marked.
    Acks {
        times: u32,
        packets: u32,
        rtt_us: u64,
        marked: bool,
    },
    /// Packets were lost: a reduction begins.
    Loss { packets: u32 },
    /// The reduction is over.
    Recovered,
    /// The timer fired.
    Timeout,
    /// The last reduction was a mistake.
    Mistake,
    /// Silence for so many ms, then data.
    Idle(u64),
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let gap = prop_oneof![4 => 1u64..10_000, 3 => 10_000u64..10_000_000,
        1 => 10_000_000u64..2_000_000_000];
    let rtt = prop_oneof![1u64..100, 100u64..100_000, 100_000u64..10_000_000];
    let step = prop_oneof![
        8 => (1u32..200, 1u32..64, rtt, any::<bool>())
            .prop_map(|(times, packets, rtt_us, marked)| Step::Acks { times, packets, rtt_us,
            marked }),
        2 => (1u32..100).prop_map(|packets| Step::Loss { packets }),
        2 => Just(Step::Recovered),
        1 => Just(Step::Timeout),
        1 => Just(Step::Mistake),
        1 => (1u64..100_000).prop_map(Step::Idle),
    ];
    prop::collection::vec((gap, step), 1..80)
}

/// Their window follows its own rule, and `ssthresh` decides nothing of it.
const OWN_RULE: &[&str] = &["bbr", "bbr2", "bbr3", "copa", "remy", "timely", "xcp"];

/// May this congestion control shrink its window on an ACK and then be in slow start? TCP-LP may,
/// since Linux's tcp_lp leaves `ssthresh` as it is; LEDBAT++ in its slowdowns, which return by slow
/// start (section 4.4 of the draft).
fn may_return_by_slow_start(name: &str, algorithm: &dyn cc::CongestionControl) -> bool {
    let mut slowdown = false;
    algorithm.describe(&mut |metric, value| slowdown |= metric == "slowdown" && value > 0.0);
    slowdown || name == "lp" || OWN_RULE.contains(&name)
}

/// A connection that accepts any input.
struct Connection {
    name: &'static str,
    cc: Box<dyn cc::CongestionControl>,
    w: Window,
    now: Time,
    una: u64,
    nxt: u64,
    srtt8_us: u64,
    totals: Totals,
    marked: u64,
    state: State,
    prior_cwnd: u32,
    seen: Vec<(u32, u32, Option<u64>)>,
}

impl Connection {
    fn new(kind: &CcKind, host: &Host) -> Connection {
        let mut it = Connection {
            name: kind.name,
            cc: (kind.make)(&Params::defaults(kind.params), host),
            w: Window::new(10),
            now: Time::ZERO + Span::ms(1),
            una: 0,
            nxt: 0,
            srtt8_us: 8,
            totals: Totals {
                delivered: 1,
                ..Totals::default()
            },
            marked: 0,
            state: State::Open,
            prior_cwnd: 10,
            seen: Vec::new(),
        };
        let mut ev = Start::at(it.now);
        (ev.srtt, ev.min_rtt, ev.totals) = (Span::us(1), Span::us(1), it.totals);
        it.cc.on_start(&mut it.w, &ev);
        it
    }
    fn set_state(&mut self, to: State) {
        let mut ev = StateChange::at(self.now);
        (ev.from, ev.to) = (self.state, to);
        self.cc.on_state(&mut self.w, &ev);
        self.state = to;
    }
    fn ack(&mut self, packets: u32, rtt_us: u64, marked: bool) {
        let prior = self.totals.delivered;
        let (cwnd, in_slow_start) = (self.w.cwnd, self.w.in_slow_start());
        let nothing_out = self.nxt == self.una;
        if nothing_out {
            let mut ev = Sent::at(self.now);
            ev.totals = self.totals;
            self.cc.on_sent(&mut self.w, &ev);
        }
        self.nxt = self
            .nxt
            .max(self.una + MSS * u64::from(self.w.cwnd.max(packets)));
        self.srtt8_us = if self.srtt8_us == 8 {
            rtt_us * 8
        } else {
            self.srtt8_us - self.srtt8_us / 8 + rtt_us
        };
        let mut ev = Sample::at(self.now);
        ev.rtt = Some(Span::us(rtt_us));
        ev.acked = packets;
        self.una += MSS * u64::from(packets);
        (ev.una, ev.nxt, ev.ece, ev.state) = (self.una, self.nxt, marked, self.state);
        (ev.srtt8_us, ev.delivered, ev.delivered_ce) = (self.srtt8_us, prior, self.marked);
        ev.pacing = self.w.pacing.unwrap_or(Rate::mbit(1));
        let ms = (self.now.as_ns() / 1_000_000) as u32;
        ev.stamps = (ms, ms.saturating_sub((rtt_us / 1000) as u32));
        self.cc.on_sample(&mut self.w, &ev);
        self.totals.delivered += u64::from(packets);
        self.totals.delivered_at = self.now;
        self.marked += if marked { u64::from(packets) } else { 0 };
        let mut ev = Ack::at(self.now);
        (ev.delivered, ev.una, ev.nxt, ev.ece, ev.state) =
            (packets, self.una, self.nxt, marked, self.state);
        ev.may_grow = !matches!(self.state, State::Recovery | State::Cwr);
        ev.in_flight = ((self.nxt - self.una) / MSS) as u32;
        let mut delivery = Delivery::default();
        delivery.sample = Some(RateSample {
            prior_delivered: prior.saturating_sub(u64::from(ev.in_flight)),
            delivered: u64::from(packets.max(ev.in_flight)),
            interval: Span::us(rtt_us),
            app_limited: false,
        });
        (delivery.rtt, delivery.totals) = (Some(Span::us(rtt_us)), self.totals);
        delivery.prior_in_flight = ev.in_flight.saturating_add(packets);
        delivery.next_departure = self.now;
        ev.delivery = self.cc.needs_delivery().then_some(delivery);
        self.cc.on_ack(&mut self.w, &ev);
        if self.state == State::Open
            && self.w.cwnd < cwnd
            && !in_slow_start
            && self.w.in_slow_start()
        {
            let may = may_return_by_slow_start(self.name, &*self.cc);
            assert!(
                may,
                "{}: slow start undoes {cwnd} -> {}",
                self.name, self.w.cwnd
            );
        }
    }
    fn reduce(&mut self, cause: Cause) {
        self.prior_cwnd = self.w.cwnd;
        self.w.cwnd_cnt = 0;
        let mut ev = Loss::at(self.now);
        (ev.cause, ev.in_flight) = (cause, ((self.nxt - self.una) / MSS) as u32);
        self.cc.on_loss(&mut self.w, &ev);
    }
    fn step(&mut self, gap_ns: u64, step: &Step) {
        self.now += Span::ns(gap_ns);
        match *step {
            Step::Acks {
                times,
                packets,
                rtt_us,
                marked,
            } => {
                for n in 0..times {
                    self.now += Span::ns(gap_ns.min(1_000_000));
                    self.ack(packets, rtt_us, marked && n % 3 == 0);
                    self.check();
                }
            }
            Step::Loss { packets } if matches!(self.state, State::Open | State::Disorder) => {
                self.totals.lost += u64::from(packets);
                self.reduce(Cause::Loss);
                self.set_state(State::Recovery);
                if !self.cc.owns_recovery() {
                    self.w.cwnd = self.w.cwnd.min(self.w.ssthresh).max(1);
                }
            }
            Step::Recovered if self.state != State::Open => {
                if !self.cc.owns_recovery() {
                    if self.state == State::Recovery {
                        self.w.cwnd = self.w.ssthresh;
                    }
                    self.cc.on_reduced(&mut self.w, &Reduced::at(self.now));
                }
                self.set_state(State::Open);
            }
            Step::Timeout => {
                if matches!(self.state, State::Open | State::Disorder) {
                    self.reduce(Cause::Timeout);
                }
                self.w.cwnd = 1;
                self.set_state(State::Loss);
                let mut ev = Rto::at(self.now);
                self.totals.lost += 1;
                ev.totals = self.totals;
                self.cc.on_rto(&mut self.w, &ev);
            }
            Step::Mistake if self.state != State::Open => {
                let mut ev = SpuriousLoss::at(self.now);
                (ev.prior_cwnd, ev.totals) = (self.prior_cwnd, self.totals);
                self.cc.on_spurious_loss(&mut self.w, &ev);
                self.set_state(State::Open);
            }
            Step::Idle(ms) => {
                self.now += Span::ms(ms);
                self.nxt = self.una;
                let mut ev = Sent::at(self.now);
                (ev.app_limited, ev.totals) = (true, self.totals);
                self.cc.on_sent(&mut self.w, &ev);
            }
            _ => {}
        }
        self.check();
    }
    fn check(&mut self) {
        let w = &self.w;
        assert!(w.cwnd >= 1, "no window");
        assert!(w.cwnd <= w.clamp, "{} beyond {}", w.cwnd, w.clamp);
        assert!(w.ssthresh >= 1, "no threshold");
        assert!(w.min_burst >= 1, "no burst");
        assert!(
            w.pacing.is_none_or(|rate| rate.as_bit() > 0),
            "no pacing rate"
        );
        self.seen
            .push((w.cwnd, w.ssthresh, w.pacing.map(Rate::as_bit)));
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_path_breaks_a_law(steps in steps(), hz in prop_oneof![Just(100u32), Just(250),
        Just(1000)], seed in 0u64..1000) {
        for kind in cc::KINDS {
            let host = Host { hz, seed, ..Host::default() };
            let once = || {
                let mut connection = Connection::new(kind, &host);
                steps.iter().for_each(|(gap, step)| connection.step(*gap, step));
                connection.seen
            };
            let run = || std::panic::catch_unwind(std::panic::AssertUnwindSafe(once));
            let first = run();
            prop_assert!(first.is_ok(), "{} broke", kind.name);
            prop_assert!(first.ok() == run().ok(), "{}: not the same twice", kind.name);
        }
    }

    /// A copy goes on as the original does.
    #[test]
    fn a_fork_is_a_copy(steps in steps()) {
        for kind in cc::KINDS {
            let mut one = Connection::new(kind, &Host::default());
            let half = steps.len() / 2;
            steps[..half].iter().for_each(|(gap, step)| one.step(*gap, step));
            let mut other = Connection { cc: one.cc.fork(), w: one.w.clone(),
                seen: one.seen.clone(), ..one };
            // `other` has taken the place of `one`: what it answers is compared with a third that
            // was never copied.
            let mut third = Connection::new(kind, &Host::default());
            steps.iter().for_each(|(gap, step)| third.step(*gap, step));
            steps[half..].iter().for_each(|(gap, step)| other.step(*gap, step));
            prop_assert!(other.seen == third.seen, "{}", kind.name);
        }
    }
}
