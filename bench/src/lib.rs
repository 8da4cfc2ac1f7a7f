//! Shared code of the benchmarks. `benches/` and `bin/` contain the programs that measure;
//! `../scale.py` and `../process.py` run some of them. `make bench` runs all benchmarks.

use narrows_core::packet::Packet as _;
use narrows_core::param::Params;
use narrows_core::queue::{DropReason, Limit, QueueContext, QueueDiscipline, QueueKind, Sink};
use narrows_core::rng::Rng;
use narrows_core::tcp::wire::Segment;
use narrows_core::units::{Rate, Span, Time};
use narrows_sim::Packet;
use std::hint::black_box;
use std::process::ExitCode;

/// Number of packets that are enqueued and dequeued in one turn.
pub const TURN: usize = 2_000;

struct Nobody;

impl Sink<Packet> for Nobody {
    fn dropped(&mut self, _: Time, packet: Packet, _: DropReason) {
        black_box(packet);
    }
}

/// A queue discipline alone, with a standing backlog of packets.
///
/// Packets arrive from all flows in random order, and one packet leaves for each that arrives.
/// Virtual time advances so slowly that no packet waits for long, so control laws run and drop
/// nothing.
pub struct Standing {
    queue: Box<dyn QueueDiscipline<Packet>>,
    packets: Vec<Packet>,
    now: Time,
}

impl Standing {
    /// A discipline with `flows` flows and `standing` queued packets; `None` if the default
    /// parameters of the discipline are not valid together.
    pub fn new(kind: &QueueKind<Packet>, flows: u64, standing: usize) -> Option<Standing> {
        let params = Params::defaults(kind.params);
        (kind.check)(&params).ok()?;
        let context = QueueContext {
            limit: Some(Limit::Packets(1_000_000)),
            rate: Rate::mbit(10_000),
            hz: 1000,
            seed: 1,
        };
        let mut rng = Rng::named(1, "bench/queues");
        let segment = Segment {
            len: 1448,
            ..Segment::default()
        };
        let mut all = Standing {
            queue: (kind.make)(&params, &context),
            packets: (0..TURN)
                .map(|_| Packet::data(rng.below(flows) as u32, &segment))
                .collect(),
            now: Time::ZERO,
        };
        (0..standing).for_each(|i| all.put(all.packets[i % TURN]));
        Some(all)
    }
    fn put(&mut self, mut packet: Packet) {
        packet.set_enqueued_at(self.now);
        self.queue.enqueue(self.now, packet, &mut Nobody);
    }
    /// Enqueues [`TURN`] packets, and dequeues one packet after each.
    pub fn turn(&mut self) {
        for i in 0..TURN {
            self.now += Span::ns(100);
            self.put(self.packets[i]);
            black_box(self.queue.dequeue(self.now, &mut Nobody));
        }
    }
}

/// Prints the result of a program to stdout, or its error to stderr, and returns the exit code.
pub fn exit_code(done: Result<String, String>) -> ExitCode {
    match done {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::from(2)
        }
    }
}
