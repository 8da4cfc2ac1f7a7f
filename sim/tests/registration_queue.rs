//! A queue discipline from outside the project: it uses only the public interface, is registered,
//! and is named in a scenario.

use narrows_core::packet::Packet as _;
use narrows_core::param::{Kind, Param};
use narrows_core::queue::{Backlog, DropReason, Limit, QueueDiscipline, QueueKind, Sink};
use narrows_core::registry::Registry;
use narrows_core::scenario::Scenario;
use narrows_core::units::{Bytes, Time};
use narrows_sim::{Options, Packet, Run, run};

/// A queue that is last in, first out, as an example of an unusual discipline.
struct Lifo {
    stack: Vec<Packet>,
    most: usize,
}

impl QueueDiscipline<Packet> for Lifo {
    fn enqueue(&mut self, now: Time, packet: Packet, sink: &mut dyn Sink<Packet>) {
        if self.stack.len() < self.most {
            self.stack.push(packet);
        } else {
            sink.dropped(now, packet, DropReason::Overflow);
        }
    }
    fn dequeue(&mut self, _now: Time, _sink: &mut dyn Sink<Packet>) -> Option<Packet> {
        self.stack.pop()
    }
    fn backlog(&self) -> Backlog {
        Backlog {
            bytes: Bytes::new(self.stack.iter().map(|p| p.size().get()).sum()),
            packets: self.stack.len() as u64,
        }
    }
}

const LIFO_PARAMS: &[Param] = &[Param {
    name: "depth",
    kind: Kind::Count(100, 1, 100_000),
    help: "packets, where the path has no buffer of so many",
    source: "",
}];

fn lifo() -> QueueKind<Packet> {
    QueueKind {
        name: "lifo",
        help: "last in, first out",
        source: "",
        params: LIFO_PARAMS,
        check: narrows_core::param::no_check,
        feedback: false,
        make: &|params, context| {
            let most = match context.limit {
                Some(Limit::Packets(n)) => n,
                _ => params.count("depth"),
            };
            Box::new(Lifo {
                stack: Vec::new(),
                most: most as usize,
            })
        },
    }
}

fn registry() -> Registry<Packet> {
    let mut registry = Registry::standard();
    registry.register_queue(lifo());
    registry
}

/// A scenario with BBR, which keeps packets in the queue although the queue reorders them.
fn text(path: &str) -> String {
    format!(
        "duration = \"10s\"\n[path]\nrate = \"20Mbit\"\nrtt = \"40ms\"\n{path}\n[[flow]]\ncc = \
         \"bbr\"\n"
    )
}

fn play(path: &str) -> Run {
    let registry = registry();
    let scenario = Scenario::from_toml(&text(path), "lifo.toml", &registry).unwrap();
    run(&scenario, &registry, &Options::default(), &mut |_| true).unwrap()
}

#[test]
fn a_scenario_may_name_what_was_registered() {
    let fifo = play("buffer = \"40p\"");
    let lifo = play("buffer = \"1bdp\"\nqueue = { kind = \"lifo\", depth = 40 }");
    let (first, last) = (fifo.queue.delay_ms, lifo.queue.delay_ms);
    // The newest packet leaves next; an older packet waits for all packets that arrive after it.
    assert!(
        last.p50 < 0.5 * first.p50 && last.p99 > 2.0 * first.p99,
        "{first:?} {last:?}"
    );
    assert!(lifo.queue.drops > 0 && lifo.flows[0].retransmits > 0);
}

#[test]
fn its_parameters_are_checked_as_any_other() {
    let wrong = text("queue = { kind = \"lifo\", depth = 0 }");
    let errors = Scenario::from_toml(&wrong, "lifo.toml", &registry()).unwrap_err();
    assert!(
        errors.to_string().contains("depth = 0 must be at least 1"),
        "{errors}"
    );
}
