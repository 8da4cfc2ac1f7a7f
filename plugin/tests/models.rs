//! Both sides of a plugin in one program: erased packets, checks of a queue discipline, and a
//! panic. The guard replaces the panic hook, so there is one test for all of it.

use narrows_core::cc::{Ack, CcKind, CongestionControl, Family, Host as CcHost, Loss, Window};
use narrows_core::packet::{Ecn, Packet};
use narrows_core::param::{Params, no_check};
use narrows_core::queue::{
    Backlog, DropReason, Limit, QueueContext, QueueDiscipline, QueueKind, Sink, fifo,
};
use narrows_core::units::{Bytes, Rate, Time};
use narrows_plugin::monitor::{self, Model, Monitor};
use narrows_plugin::{AnyPacket, Host, Models, erased, guard};
use std::sync::Arc;

/// A packet of a driver.
struct Frame;

impl Packet for Frame {
    fn size(&self) -> Bytes {
        Bytes::new(1514)
    }
    fn enqueued_at(&self) -> Time {
        Time::ZERO
    }
    fn set_enqueued_at(&mut self, _now: Time) {}
    fn flow_hash(&self, _seed: u64) -> u32 {
        0
    }
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }
    fn set_ce(&mut self) {}
}

#[derive(Default)]
struct Drops(Vec<DropReason>);

impl<P> Sink<P> for Drops {
    fn dropped(&mut self, _now: Time, _packet: P, why: DropReason) {
        self.0.push(why);
    }
}

fn place(packets: u64) -> QueueContext {
    QueueContext {
        limit: Some(Limit::Packets(packets)),
        rate: Rate::mbit(10),
        hz: 1000,
        seed: 1,
    }
}

/// Forgets every second packet.
#[derive(Default)]
struct Leaky {
    held: Vec<AnyPacket>,
    n: u64,
}

impl QueueDiscipline<AnyPacket> for Leaky {
    fn enqueue(&mut self, _now: Time, packet: AnyPacket, _sink: &mut dyn Sink<AnyPacket>) {
        self.n += 1;
        if self.n % 2 == 1 {
            self.held.push(packet);
        }
    }
    fn dequeue(&mut self, _now: Time, _sink: &mut dyn Sink<AnyPacket>) -> Option<AnyPacket> {
        self.held.pop()
    }
    fn backlog(&self) -> Backlog {
        Backlog {
            bytes: Bytes::ZERO,
            packets: self.held.len() as u64,
        }
    }
}

/// Panics at its second ACK.
#[derive(Clone, Default)]
struct Nervous(u32);

impl CongestionControl for Nervous {
    fn on_ack(&mut self, w: &mut Window, _ev: &Ack) {
        self.0 += 1;
        assert!(self.0 < 2, "too many ACKs");
        w.cwnd += 1;
    }
    fn on_loss(&mut self, _w: &mut Window, _ev: &Loss) {}
    fn fork(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

const NERVOUS: CcKind = CcKind {
    name: "nervous",
    help: "panics",
    source: "this test",
    family: Family::Loss,
    year: 0,
    needs: &[],
    default_in: &[],
    params: &[],
    make: &|_, _| Box::<Nervous>::default(),
};

fn leaky() -> QueueKind<AnyPacket> {
    QueueKind {
        name: "leaky",
        help: "forgets packets",
        source: "this test",
        params: &[],
        check: no_check,
        feedback: false,
        make: &|_, _| Box::<Leaky>::default(),
    }
}

fn model(name: &str) -> &'static Model {
    Box::leak(Box::new(Model {
        name: name.into(),
        from: "test.so".into(),
    }))
}

fn watched(act: impl FnOnce()) -> Option<String> {
    let monitor = Arc::<Monitor>::default();
    monitor::watched(&monitor, act);
    monitor.fault().map(|fault| fault.to_string())
}

fn a_queue_keeps_order_and_limit(fifo: &QueueKind<AnyPacket>) {
    let kind: QueueKind<Frame> = monitor::queue(model("fifo"), erased::kind(fifo));
    let fault = watched(|| {
        let mut queue = (kind.make)(&Params::defaults(kind.params), &place(2));
        let mut drops = Drops::default();
        for _ in 0..3 {
            queue.enqueue(Time::ZERO, Frame, &mut drops);
        }
        assert_eq!(drops.0, [DropReason::Overflow]);
        assert_eq!(queue.backlog().packets, 2);
        assert!(queue.dequeue(Time::ZERO, &mut drops).is_some());
        assert!(queue.dequeue(Time::ZERO, &mut drops).is_some());
        assert!(queue.dequeue(Time::ZERO, &mut drops).is_none());
    });
    assert_eq!(fault, None);
}

fn a_lost_packet_is_a_fault(leaky: &QueueKind<AnyPacket>) {
    let kind: QueueKind<Frame> = monitor::queue(model("leaky"), erased::kind(leaky));
    let fault = watched(|| {
        let mut queue = (kind.make)(&Params::default(), &place(9));
        let mut drops = Drops::default();
        for s in 1..9 {
            queue.enqueue(Time::from_ns(s), Frame, &mut drops);
        }
        // After the fault, nothing is queued any more.
        assert_eq!(drops.0.len(), 6);
    });
    let text = fault.expect("a fault");
    let begin = "test.so: leaky: enqueue at 0.000000 s: backlog() reports 1 packets, but 2 are";
    assert!(text.starts_with(begin), "{text}");
}

fn a_panic_is_a_fault(nervous: &CcKind) {
    let kind = monitor::cc(model("nervous"), nervous.clone());
    let mut w = Window::new(10);
    let fault = watched(|| {
        let mut cc = (kind.make)(&Params::default(), &CcHost::default());
        for ms in 1..5 {
            cc.on_ack(&mut w, &Ack::at(Time::from_ns(ms * 1_000_000)));
        }
    });
    assert_eq!(w.cwnd, 11);
    let text = fault.expect("a fault");
    let begin = "test.so: nervous: on_ack at 0.002000 s: panic: too many ACKs (";
    assert!(text.starts_with(begin), "{text}");
    assert!(text.contains("models.rs:"), "{text}");
}

#[test]
fn models_of_a_plugin_are_guarded_and_monitored() {
    let host = Host {
        fail: monitor::fail,
    };
    let models = guard::guarded(host, || Models {
        ccs: vec![NERVOUS],
        queues: vec![fifo::kind(), leaky()],
    });
    a_queue_keeps_order_and_limit(&models.queues[0]);
    a_lost_packet_is_a_fault(&models.queues[1]);
    a_panic_is_a_fault(&models.ccs[0]);
}
