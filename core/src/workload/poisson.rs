//! `poisson`: transfers with random arrivals, each a TCP connection of its own from the server.
//! `empirical`: the same with the sizes of a file.
//!
//! Algorithm: gaps between arrivals are exponential with mean `8 · mean size / load`, so `load` is
//! the requested payload per second in the long run. Sizes are bounded Pareto, exponential or
//! constant ([`super::draw`]), or have the distribution of a file ([`super::cdf`]).
//!
//! Arrivals are independent of each other: with a load above the path's rate, the number of active
//! transfers grows. Transfers that would exceed the engine's limit of connections are rejected, and
//! counted.
//!
//! Completion time of a transfer: from its SYN until the client reads its last byte. On an empty
//! path, this time consists of one and a half round trips and the transmission time. Each further
//! round of slow start adds a round trip. The metrics cover transfers that arrive after the
//! warm-up. A transfer that is incomplete at the end has no completion time.

use super::cdf::{self, Cdf};
use super::draw::{Sizes, exponential};
use super::{Action, Event, Names, Setting, Side, Workload, WorkloadKind, tcp};
use crate::metrics::{Histogram, Metric, WorkloadMetrics};
use crate::param::{Kind, Param, Params, Refusal};
use crate::rng::Rng;
use crate::units::{Bytes, Rate, Span, Time, format_bytes, format_rate};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// Random transfers.
pub const KIND: WorkloadKind = WorkloadKind {
    name: "poisson",
    help: "transfers with random arrivals and heavy-tailed sizes, each on a connection of its own",
    source: "M/G arrivals as in evaluations of queue disciplines; sizes after Crovella and \
        Bestavros 1997",
    params: &[
        Param {
            name: "load",
            kind: Kind::Rate(Rate::mbit(5), Rate::bit(1000), Rate::mbit(100_000)),
            help: "requested payload per second in the long run",
            source: "",
        },
        Param {
            name: "mean",
            kind: Kind::Bytes(
                Bytes::new(100_000),
                Bytes::new(1),
                Bytes::new(1_000_000_000),
            ),
            help: "mean size of a transfer",
            source: "",
        },
        Param {
            name: "sizes",
            kind: Kind::Word(&["pareto", "exponential", "fixed"]),
            help: "distribution of the sizes",
            source: "Crovella and Bestavros 1997: heavy tails",
        },
        Param {
            name: "shape",
            kind: Kind::Number(1.2, 0.5, 10.0),
            help: "shape of the pareto distribution: smaller values have a heavier tail",
            source: "Crovella and Bestavros 1997: 1.06 to 1.16 for what is transferred",
        },
        Param {
            name: "most",
            kind: Kind::Bytes(
                Bytes::new(10_000_000),
                Bytes::new(1),
                Bytes::new(100_000_000_000),
            ),
            help: "largest size of the pareto distribution",
            source: "a tail that ends: of an endless one no mean is seen",
        },
    ],
    check,
    cc: "cubic",
    traffic: tcp,
    make: |params, setting| {
        let mean = params.bytes("mean").get() as f64;
        let most = params.bytes("most").get() as f64;
        let sizes = match params.word("sizes") {
            "exponential" => Sizes::Exponential(mean),
            "fixed" => Sizes::Fixed(mean),
            _ => Sizes::pareto(mean, most, params.number("shape")),
        };
        let source = Source::Formula(sizes);
        Box::new(Poisson::new(KIND.name, params, mean, source, setting))
    },
};

/// Random transfers with the sizes of a file.
pub const EMPIRICAL: WorkloadKind = WorkloadKind {
    name: "empirical",
    help: "transfers with random arrivals and the sizes of a measured distribution, each on a \
        connection of its own",
    source: "open-loop arrivals as in evaluations of data-center transports (pFabric, SIGCOMM \
        2013)",
    params: &[
        Param {
            name: "load",
            kind: Kind::Rate(Rate::mbit(500), Rate::bit(1000), Rate::mbit(1_000_000)),
            help: "requested payload per second in the long run",
            source: "",
        },
        Param {
            name: "sizes",
            kind: Kind::Text(&cdf::SHIPPED),
            help: "distribution of the sizes: one that is included in narrows, or a file with a \
                size in bytes and a cumulative probability per line",
            source: "DCTCP (SIGCOMM 2010), VL2 (SIGCOMM 2009)",
        },
    ],
    check: check_empirical,
    cc: "cubic",
    traffic: tcp,
    make: |params, setting| {
        let mean = mean_of(params);
        let source = Source::File(sizes_of(params));
        Box::new(Poisson::new(EMPIRICAL.name, params, mean, source, setting))
    },
};

/// The distribution in the parameters; its text was checked when it was read.
fn sizes_of(params: &Params) -> Option<Cdf> {
    Cdf::read(params.text("sizes")).ok()
}

fn mean_of(params: &Params) -> f64 {
    sizes_of(params).map_or(1.0, |sizes| sizes.mean().max(1.0))
}

fn check_empirical(params: &Params) -> Result<(), Refusal> {
    let most = mean_of(params) * 8.0 * MOST_A_SECOND as f64;
    if params.rate("load").as_bit() as f64 <= most {
        return Ok(());
    }
    Err(Refusal {
        param: "load",
        problem: "is too large for these sizes: more than a million arrivals per second".into(),
        fix: ["\"", format_rate(Rate::bit(most as u64)).as_str(), "\""].concat(),
    })
}

/// The source of sizes.
enum Source {
    Formula(Sizes),
    File(Option<Cdf>),
}

impl Source {
    fn draw(&self, rng: &mut Rng) -> Bytes {
        match self {
            Source::Formula(sizes) => sizes.draw(rng),
            Source::File(sizes) => sizes.as_ref().map_or(Bytes::new(1), |cdf| cdf.draw(rng)),
        }
    }
}

/// Maximum number of arrivals per second.
const MOST_A_SECOND: u64 = 1_000_000;

fn check(params: &Params) -> Result<(), Refusal> {
    let (mean, most) = (params.bytes("mean"), params.bytes("most"));
    let least = params.rate("load").as_bit().div_ceil(8 * MOST_A_SECOND);
    if mean.get() < least {
        return Err(Refusal {
            param: "mean",
            problem: "is too small for this load: more than a million arrivals per second".into(),
            fix: ["\"", format_bytes(Bytes::new(least)).as_str(), "\""].concat(),
        });
    }
    if params.word("sizes") != "pareto" || mean < most {
        return Ok(());
    }
    let ten = format_bytes(Bytes::new(mean.get().saturating_mul(10)));
    Err(Refusal {
        param: "most",
        problem: "is not above the mean".into(),
        fix: ["\"", ten.as_str(), "\""].concat(),
    })
}

/// Classes of sizes by upper bound in bytes, and a class above.
const CLASSES: [(u64, &str); 3] = [
    (10_000, "to_10kB"),
    (100_000, "to_100kB"),
    (1_000_000, "to_1MB"),
];
const ABOVE: &str = "above_1MB";

/// Maximum number of completed transfers that the table of transfers lists: 24 MB.
const MOST_TRANSFERS: usize = 1_000_000;

#[derive(Copy, Clone, Debug)]
struct Transfer {
    asked: Time,
    size: u64,
}

struct Poisson {
    kind: &'static str,
    setting: Setting,
    gaps: Rng,
    draws: Rng,
    gap: Span,
    sizes: Source,
    next: Option<Time>,
    names: Names,
    under_way: Vec<Option<Transfer>>,
    asked: u64,
    asked_bytes: u64,
    refused: u64,
    done: u64,
    times: Histogram,
    by_size: [Histogram; 4],
    transfers: Vec<(f64, u64, f64)>,
}

impl Poisson {
    /// Transfers of this mean size, in bytes.
    fn new(
        kind: &'static str,
        params: &Params,
        mean: f64,
        sizes: Source,
        setting: Setting,
    ) -> Poisson {
        Poisson {
            kind,
            setting,
            gaps: Rng::named(setting.seed, "arrivals"),
            draws: Rng::named(setting.seed, "sizes"),
            gap: Span::ns((mean * 8e9 / params.rate("load").as_bit() as f64) as u64),
            sizes,
            next: None,
            names: Names::default(),
            under_way: Vec::new(),
            asked: 0,
            asked_bytes: 0,
            refused: 0,
            done: 0,
            times: Histogram::new(),
            by_size: [(); 4].map(|()| Histogram::new()),
            transfers: Vec::new(),
        }
    }
    fn wait(&mut self, since: Time) {
        let next = since + exponential(&mut self.gaps, self.gap);
        self.next = Some(next).filter(|at| *at < self.setting.end);
    }
    fn arrive(&mut self, now: Time, todo: &mut Vec<Action>) {
        let (conn, size) = (self.names.take(), self.sizes.draw(&mut self.draws).get());
        if self.under_way.len() <= conn as usize {
            self.under_way.resize(conn as usize + 1, None);
        }
        self.under_way[conn as usize] = Some(Transfer { asked: now, size });
        if now >= self.setting.from {
            self.asked += 1;
            self.asked_bytes += size;
        }
        let by = Side::Server;
        todo.push(Action::Open {
            conn,
            by,
            answers: false,
        });
        todo.push(Action::Write {
            conn,
            from: by,
            bytes: size,
        });
    }
    fn complete(&mut self, now: Time, transfer: Transfer) {
        if transfer.asked >= self.setting.from {
            let took = now.since(transfer.asked);
            let class = CLASSES.iter().position(|(most, _)| transfer.size <= *most);
            self.done += 1;
            self.times.record(took);
            self.by_size[class.unwrap_or(CLASSES.len())].record(took);
            if self.transfers.len() < MOST_TRANSFERS {
                let row = (transfer.asked.as_s(), transfer.size, took.as_s());
                self.transfers.push(row);
            }
        }
    }
}

impl Workload for Poisson {
    fn on_event(&mut self, now: Time, event: Event, todo: &mut Vec<Action>) {
        match event {
            Event::Started => self.wait(now),
            Event::Woke => {
                while let Some(at) = self.next.filter(|at| *at <= now) {
                    self.arrive(now, todo);
                    self.wait(at);
                }
            }
            Event::Refused(conn) => {
                let gone = self.under_way[conn as usize].take();
                self.refused += u64::from(gone.is_some_and(|t| t.asked >= self.setting.from));
                self.names.give_back(conn);
            }
            Event::Arrived { conn, bytes, .. } => {
                let place = &mut self.under_way[conn as usize];
                if let Some(transfer) = place.filter(|t| bytes >= t.size) {
                    *place = None;
                    self.names.give_back(conn);
                    todo.push(Action::Close(conn));
                    self.complete(now, transfer);
                }
            }
            _ => {}
        }
    }
    fn next_wakeup(&self) -> Option<Time> {
        self.next
    }
    fn metrics(&self, end: Time) -> WorkloadMetrics {
        let seconds = end.since(self.setting.from).as_s();
        let names = CLASSES.iter().map(|(_, name)| *name).chain([ABOVE]);
        let by_size = names.zip(&self.by_size).map(|(name, times)| {
            let row = alloc::vec![
                ("completed", Metric::Count(times.count())),
                ("completion_ms", Metric::Quantiles(times.quantiles())),
            ];
            (String::from(name), row)
        });
        let metrics = alloc::vec![
            ("asked", Metric::Count(self.asked)),
            ("completed", Metric::Count(self.done)),
            ("refused", Metric::Count(self.refused)),
            (
                "asked_mbit",
                Metric::Number(self.asked_bytes as f64 * 8.0 / seconds / 1e6)
            ),
            ("completion_ms", Metric::Quantiles(self.times.quantiles())),
            ("by_size", Metric::Rows(by_size.collect())),
        ];
        let incomplete = self.under_way.iter().flatten();
        let counted = incomplete.filter(|t| t.asked >= self.setting.from);
        let counted = counted.map(|t| (t.asked.as_s(), t.size, f64::NAN));
        let mut transfers: Vec<_> = self.transfers.iter().copied().chain(counted).collect();
        transfers.sort_by(|a, b| a.0.total_cmp(&b.0));
        WorkloadMetrics {
            transfers,
            ..WorkloadMetrics::new(self.kind, metrics).with_delays(&self.times)
        }
    }
}
