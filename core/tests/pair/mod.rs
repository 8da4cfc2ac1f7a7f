//! Two ends and a path, in virtual time: no driver, no scenario. Tests step it and look inside.
#![allow(dead_code)] // each test uses a part of it

use crate::frame::Frame;
use narrows_core::cc::{self, CongestionControl};
use narrows_core::net::loss;
use narrows_core::net::path::Path;
use narrows_core::net::{FAR, NEAR, Network, NetworkObserver, Port};
use narrows_core::packet::Ecn;
use narrows_core::param::Params;
use narrows_core::param::Value;
use narrows_core::queue::fifo::Fifo;
use narrows_core::queue::{DropReason, Limit};
use narrows_core::scenario::{Choice, HopSpec, Link, PathSpec};
use narrows_core::tcp::wire::{AckSegment, Segment};
use narrows_core::tcp::{Config, EcnUse, Receiver, Sender};
use narrows_core::units::{Bytes, Rate, Span, Time};
use std::collections::VecDeque;

#[derive(Clone, Debug)]
pub enum Content {
    Data(Segment),
    Ack(AckSegment),
}

#[derive(Default)]
struct Arrivals {
    frames: VecDeque<(Port, Frame<Content>)>,
    drops: u64,
}
impl NetworkObserver<Frame<Content>> for Arrivals {
    fn dropped(&mut self, _: Time, _: u8, _: Frame<Content>, _: DropReason) {
        self.drops += 1;
    }
    fn arrived(&mut self, _: Time, port: Port, frame: Frame<Content>) {
        self.frames.push_back((port, frame));
    }
}

/// The packets that passed, for inspection.
#[derive(Clone, Debug)]
pub enum Event {
    Sent(Time, Segment),
    AckArrived(Time, AckSegment),
}

pub struct Pair {
    pub now: Time,
    pub sender: Sender,
    pub receiver: Receiver,
    path: Path<Frame<Content>>,
    out: Arrivals,
    pub log: Vec<Event>,
    pub keep_log: bool,
    /// Segments that entered the path, and that left it.
    pub entered: u64,
    pub arrived: u64,
    /// Of so many ECN-capable packets one is marked as it enters.
    pub mark: Option<u64>,
    pub marked: u64,
}

pub fn build_cc(name: &str) -> Box<dyn CongestionControl> {
    let kind = cc::KINDS
        .iter()
        .find(|k| k.name == name)
        .expect("a shipped congestion control");
    (kind.make)(&Params::defaults(kind.params), &cc::Host::default())
}

pub fn config() -> Config {
    Config {
        ecn: EcnUse::Latched,
        ..Config::default()
    }
}

impl Pair {
    /// A flow over `rate`, `rtt` (all of it on the reverse path), a drop-tail buffer and random
    /// loss.
    pub fn new(
        cc: &str,
        rate: Rate,
        rtt: Span,
        buffer: u64,
        loss: f64,
        size: Option<u64>,
        seed: u64,
    ) -> Pair {
        let burst = Bytes::new((rate.as_bit() / 8 / 4000).max(3080));
        let set = [("probability", Value::Number(loss))];
        let hop = HopSpec {
            delay_forward: Span::ZERO,
            link: Link::Tbf { burst, peak: None },
            loss: (loss > 0.0).then(|| Choice::new("independent", loss::KINDS[0].params, &set)),
            ..HopSpec::new(rate, rtt, Choice::new("fifo", &[], &[]))
        };
        let spec = PathSpec::from(hop);
        let fifo = Box::new(Fifo::new(Limit::Bytes(Bytes::new(buffer))));
        let path = Path::new(&spec, vec![fifo], seed);
        let cfg = config();
        let mut pair = Pair {
            now: Time::ZERO,
            sender: Sender::new(cfg.clone().into(), build_cc(cc), size.map(Bytes::new)),
            receiver: Receiver::new(&cfg),
            path,
            out: Arrivals::default(),
            log: Vec::new(),
            keep_log: false,
            entered: 0,
            arrived: 0,
            mark: None,
            marked: 0,
        };
        let mut sent = Vec::new();
        pair.sender.connect(pair.now, &mut |s| sent.push(s));
        pair.put(sent);
        pair
    }
    fn put(&mut self, sent: Vec<Segment>) {
        for mut s in sent {
            if s.ecn == Ecn::Ect0 && self.mark.is_some_and(|n| self.entered % n == 0) {
                s.ecn = Ecn::Ce;
                self.marked += 1;
            }
            if self.keep_log {
                self.log.push(Event::Sent(self.now, s));
            }
            self.entered += 1;
            let frame = Frame::new(s.size().get(), Content::Data(s));
            self.path.push(self.now, NEAR, frame, &mut self.out);
        }
    }
    fn put_back(&mut self, acks: Vec<AckSegment>) {
        for a in acks {
            let frame = Frame::new(a.size().get(), Content::Ack(a));
            self.path.push(self.now, FAR, frame, &mut self.out);
        }
    }
    pub fn drops(&self) -> u64 {
        self.out.drops
    }
    /// Goes to the next event; answers false when nothing will ever happen again or `until` is
    /// reached.
    pub fn step(&mut self, until: Time) -> bool {
        let times = [
            self.path.next_wakeup(),
            self.sender.next_wakeup(),
            self.receiver.next_wakeup(),
        ];
        let Some(next) = times.into_iter().flatten().min() else {
            return false;
        };
        if next > until {
            self.now = until;
            return false;
        }
        self.now = next;
        let (mut sent, mut acks) = (Vec::new(), Vec::new());
        self.path.poll(next, &mut self.out);
        while let Some((port, frame)) = self.out.frames.pop_front() {
            match frame.content {
                Content::Data(s) => {
                    assert_eq!(port, FAR);
                    self.arrived += 1;
                    self.receiver.on_segment(next, &s, &mut |a| acks.push(a));
                }
                Content::Ack(a) => {
                    assert_eq!(port, NEAR);
                    if self.keep_log {
                        self.log.push(Event::AckArrived(next, a));
                    }
                    self.sender.on_segment(next, &a, &mut |s| sent.push(s));
                    let now_sent = std::mem::take(&mut sent);
                    self.put(now_sent);
                }
            }
        }
        if self.receiver.next_wakeup().is_some_and(|t| t <= next) {
            self.receiver.on_timer(next, &mut |a| acks.push(a));
        }
        if self.sender.next_wakeup().is_some_and(|t| t <= next) {
            self.sender.on_timer(next, &mut |s| sent.push(s));
        }
        self.put(sent);
        self.put_back(acks);
        true
    }
    pub fn run(&mut self, until: Time) {
        while self.step(until) {}
    }
}
