//! `web`: pages of objects, fetched one after the other or as in a browser.
//!
//! Algorithm: a page is `objects` with the sum `total`, or the list `sizes`; object i is on host i
//! mod `hosts`. Before the first connection to a host, the name of the host is looked up (`dns`). A
//! look-up is one datagram in each direction, repeated after 5 s without an answer. A connection is
//! TCP's handshake, then `tls` round trips, then a request for each object that it fetches.
//!
//! - `sequential`, as wget: one object after the other, each on its own connection unless
//!   `keepalive`.
//! - `parallel`, as a browser: the first object alone, because it names the others. Then all other
//!   objects, on up to `connections` connections to each host, which stay open until the page is
//!   complete.
//!
//! | step | client sends | server sends | source |
//! |---|---|---|---|
//! | look-up | 47 bytes | 111 | RFC 1035, 6891: name of 20 characters, four addresses |
//! | TLS 1.3, `tls = 1` | 517, then 74 | 4 096 | RFC 8446: padded hello; 2 or 3 certificates |
//! | TLS 1.2, `tls = 2` | 517, then 126 | 4 096, then 51 | RFC 5246 |
//!
//! The 74 bytes of TLS 1.3 are sent with the first request.
//!
//! Metrics cover the whole run. The time of a page begins with its first look-up, or without `dns`
//! with its first connection. It ends when the last object of the page is complete. The time of
//! each connection is split by its activity: setup (look-up, TCP, TLS), waiting (from request to
//! first byte of the response), receiving. `setup_share` is the time of setup divided by the sum of
//! the three times. `before_data_share` is the time of setup and waiting divided by the sum of the
//! three times. With `sequential`, setup and waiting correspond to the difference between wget's
//! wall-clock time and its download time. With parallel connections, the parts are sums over
//! connections.
//!
//! Deviations: look-ups and connections are not kept beyond a page; computation and rendering take
//! no time.

use super::draw::Sizes;
use super::{Action, Conn, Event, Names, Setting, Side, Workload, WorkloadKind, tcp};
use crate::metrics::{Metric, Quantiles, WorkloadMetrics};
use crate::packet::Ecn;
use crate::param::{Kind, Param, Params, no_check};
use crate::rng::Rng;
use crate::units::{Bytes, Span, Time};
use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

/// Timeout of glibc's resolver (resolv.conf(5), `timeout`).
const LOOKUP_AGAIN: Span = Span::s(5);
const QUESTION: u16 = 47;
const ANSWER: u16 = 111;
const CLIENT_HELLO: u64 = 517;
const CERTIFICATES: u64 = 4096;
const FINISHED_13: u64 = 74;
const KEYS_12: u64 = 126;
const FINISHED_12: u64 = 51;
/// Time until the next attempt after the engine has rejected a connection.
const OPEN_AGAIN: Span = Span::s(1);

/// Pages.
pub const KIND: WorkloadKind = WorkloadKind {
    name: "web",
    help: "pages of objects: DNS lookups, handshakes, requests; in sequence as wget, or in \
        parallel as a browser",
    source: "RFC 1035, 5246, 8446, 9112; medians of pages from the HTTP Archive",
    params: &[
        Param {
            name: "objects",
            kind: Kind::Count(70, 1, 10_000),
            help: "number of objects of a page",
            source: "HTTP Archive, Web Almanac 2024: the median page on a desktop",
        },
        Param {
            name: "total",
            kind: Kind::Bytes(
                Bytes::new(2_600_000),
                Bytes::new(1),
                Bytes::new(100_000_000_000),
            ),
            help: "total size of the objects",
            source: "HTTP Archive, Web Almanac 2024: the median page on a desktop",
        },
        Param {
            name: "spread",
            kind: Kind::Word(&["pareto", "even"]),
            help: "distribution of the total: heavy-tailed (bounded Pareto, shape 1.2, range of a \
                factor of 1000), or even",
            source: "Crovella and Bestavros 1997",
        },
        Param {
            name: "sizes",
            kind: Kind::Sizes(&[], Bytes::new(1), Bytes::new(100_000_000_000)),
            help: "size of each object, instead of objects, total and spread",
            source: "",
        },
        Param {
            name: "hosts",
            kind: Kind::Count(1, 1, 1000),
            help: "number of hosts over which the objects are distributed in turn",
            source: "",
        },
        Param {
            name: "dns",
            kind: Kind::Bool(true),
            help: "look up the name of each host first",
            source: "RFC 1035",
        },
        Param {
            name: "tls",
            kind: Kind::Count(1, 0, 2),
            help: "RTTs of the TLS handshake: 0 without TLS, 1 as TLS 1.3, 2 as TLS 1.2",
            source: "RFC 8446, RFC 5246",
        },
        Param {
            name: "fetch",
            kind: Kind::Word(&["parallel", "sequential"]),
            help: "all objects at once as a browser, or one after the other as wget",
            source: "",
        },
        Param {
            name: "keepalive",
            kind: Kind::Bool(false),
            help: "sequential: fetch all objects of a host on one connection; parallel fetches \
                always do",
            source: "RFC 9112 section 9.3",
        },
        Param {
            name: "connections",
            kind: Kind::Count(6, 1, 256),
            help: "parallel: largest number of connections to each host",
            source: "what browsers do",
        },
        Param {
            name: "request",
            kind: Kind::Bytes(Bytes::new(400), Bytes::new(1), Bytes::new(100_000)),
            help: "size of a request",
            source: "headers of a browser's request",
        },
        Param {
            name: "pages",
            kind: Kind::Count(1, 1, 10_000),
            help: "number of pages, one after the other",
            source: "",
        },
        Param {
            name: "think",
            kind: Kind::Span(Span::s(1), Span::ZERO, Span::s(3600)),
            help: "time from one page to the next",
            source: "",
        },
    ],
    check: no_check,
    cc: "cubic",
    traffic: tcp,
    make: |params, setting| Box::new(Web::new(params, setting)),
};

/// The activity of a connection.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Doing {
    /// TCP's handshake.
    Connecting,
    /// Number of TLS round trips that are complete.
    Greeting(u64),
    Idle,
    /// Time of the request, and of the first byte of its response, if it has arrived.
    Fetching(Time, Option<Time>),
}

#[derive(Clone, Debug)]
struct Link {
    host: usize,
    doing: Doing,
    since: Time,
    /// Ends of the request in progress and of its response, bytes.
    asks: u64,
    answers: u64,
    answer: u64,
    fetched: u64,
}

#[derive(Clone, Debug, Default)]
struct Host {
    known: bool,
    /// Times of the first look-up and of its repetition.
    lookup: Option<(Time, Time)>,
    /// Objects to be fetched, by size.
    waiting: VecDeque<u64>,
    /// The connections to the host, those being set up, and the idle ones.
    links: u64,
    coming: u64,
    idle: Vec<Conn>,
}

struct Web {
    rng: Rng,
    sizes: Vec<Bytes>,
    count: usize,
    total: Bytes,
    spread: Sizes,
    dns: bool,
    tls: u64,
    parallel: bool,
    keepalive: bool,
    most_links: u64,
    request: u64,
    pages: u64,
    think: Span,
    end: Time,

    page: u64,
    begun: Time,
    /// Objects that are not requested yet, as host and size. With `parallel`, no object is left
    /// here after the first one is complete.
    later: VecDeque<(usize, u64)>,
    unfinished: usize,
    hosts: Vec<Host>,
    /// Number of hosts being looked up.
    asking: usize,
    names: Names,
    links: Vec<Option<Link>>,
    next_page: Option<Time>,
    again: Option<Time>,

    loads: Vec<f64>,
    objects: u64,
    connections: u64,
    setup: Span,
    waited: Span,
    received: Span,
}

impl Web {
    fn new(params: &Params, setting: Setting) -> Web {
        let sizes = params.sizes("sizes").to_vec();
        let listed = Bytes::new(sizes.iter().map(|b| b.get()).sum());
        Web {
            rng: Rng::named(setting.seed, "pages"),
            count: params.count("objects") as usize,
            total: if sizes.is_empty() {
                params.bytes("total")
            } else {
                listed
            },
            sizes,
            spread: match params.word("spread") {
                "even" => Sizes::Fixed(1.0),
                // The mean of a distribution over a factor of 1000; only ratios count.
                _ => Sizes::Pareto {
                    least: 1.0,
                    most: 1000.0,
                    shape: 1.2,
                },
            },
            dns: params.bool("dns"),
            tls: params.count("tls"),
            parallel: params.word("fetch") == "parallel",
            keepalive: params.bool("keepalive") || params.word("fetch") == "parallel",
            most_links: params.count("connections"),
            request: params.bytes("request").get(),
            pages: params.count("pages"),
            think: params.span("think"),
            end: setting.end,
            page: 0,
            begun: Time::ZERO,
            later: VecDeque::new(),
            unfinished: 0,
            hosts: alloc::vec![Host::default(); params.count("hosts") as usize],
            asking: 0,
            names: Names::default(),
            links: Vec::new(),
            next_page: None,
            again: None,
            loads: Vec::new(),
            objects: 0,
            connections: 0,
            setup: Span::ZERO,
            waited: Span::ZERO,
            received: Span::ZERO,
        }
    }

    fn begin_page(&mut self, now: Time, todo: &mut Vec<Action>) {
        (self.begun, self.next_page) = (now, None);
        let sizes = if self.sizes.is_empty() {
            self.spread.share(&mut self.rng, self.count, self.total)
        } else {
            self.sizes.clone()
        };
        let n = self.hosts.len();
        self.hosts
            .iter_mut()
            .for_each(|host| *host = Host::default());
        self.asking = 0;
        self.unfinished = sizes.len();
        self.later = sizes
            .iter()
            .enumerate()
            .map(|(i, size)| (i % n, size.get()))
            .collect();
        self.request_next(now, 1, todo);
    }
    /// Requests the next `n` objects, as far as possible.
    fn request_next(&mut self, now: Time, n: usize, todo: &mut Vec<Action>) {
        let n = n.min(self.later.len());
        let hosts: BTreeSet<usize> = self.later.iter().take(n).map(|(host, _)| *host).collect();
        for (host, size) in self.later.drain(..n) {
            self.hosts[host].waiting.push_back(size);
        }
        hosts
            .into_iter()
            .for_each(|host| self.serve(now, host, todo));
    }
    /// Starts everything that is possible now for the objects of a host.
    fn serve(&mut self, now: Time, host: usize, todo: &mut Vec<Action>) {
        if self.hosts[host].waiting.is_empty() {
            return;
        }
        if self.dns && !self.hosts[host].known {
            return self.look_up(now, host, todo);
        }
        while !self.hosts[host].waiting.is_empty() {
            let Some(conn) = self.hosts[host].idle.pop() else {
                break;
            };
            self.fetch(now, conn, todo);
        }
        let of = &self.hosts[host];
        let wanted = (of.waiting.len() as u64).saturating_sub(of.coming);
        let room = self.most_links.saturating_sub(of.links);
        (0..wanted.min(room)).for_each(|_| self.open(now, host, todo));
    }
    fn look_up(&mut self, now: Time, host: usize, todo: &mut Vec<Action>) {
        let lookup = &mut self.hosts[host].lookup;
        if lookup.is_some_and(|(_, again)| again > now) {
            return;
        }
        self.asking += usize::from(lookup.is_none());
        let first = lookup.map_or(now, |(first, _)| first);
        *lookup = Some((first, now + LOOKUP_AGAIN));
        todo.push(Action::Send {
            from: Side::Client,
            number: self.page << 32 | host as u64,
            bytes: QUESTION,
            ecn: Ecn::NotEct,
        });
    }
    fn looked_up(&mut self, now: Time, number: u64, todo: &mut Vec<Action>) {
        let place = number as u32 as usize;
        let Some(host) = self
            .hosts
            .get_mut(place)
            .filter(|_| number >> 32 == self.page)
        else {
            return;
        };
        if let Some((first, _)) = host.lookup.take() {
            host.known = true;
            self.asking -= 1;
            self.setup = self.setup + now.since(first);
            self.serve(now, place, todo);
        }
    }
    fn open(&mut self, now: Time, host: usize, todo: &mut Vec<Action>) {
        let conn = self.names.take();
        if self.links.len() <= conn as usize {
            self.links.resize(conn as usize + 1, None);
        }
        self.links[conn as usize] = Some(Link {
            host,
            doing: Doing::Connecting,
            since: now,
            asks: 0,
            answers: 0,
            answer: 0,
            fetched: 0,
        });
        self.hosts[host].links += 1;
        self.hosts[host].coming += 1;
        self.connections += 1;
        todo.push(Action::Open {
            conn,
            by: Side::Client,
            answers: true,
        });
    }
    fn close(&mut self, conn: Conn) -> Option<Link> {
        let link = self.links.get_mut(conn as usize)?.take()?;
        self.hosts[link.host].links -= 1;
        self.names.give_back(conn);
        Some(link)
    }
    /// The client sends `asks` bytes and will receive `answers`.
    fn exchange(&mut self, conn: Conn, asks: u64, answers: u64, todo: &mut Vec<Action>) {
        if let Some(link) = &mut self.links[conn as usize] {
            link.asks += asks;
            link.answers += answers;
            link.answer = answers;
            todo.push(Action::Write {
                conn,
                from: Side::Client,
                bytes: asks,
            });
        }
    }
    /// Advances a connection: the next TLS step, or its first request.
    fn step(&mut self, now: Time, conn: Conn, done: u64, todo: &mut Vec<Action>) {
        let Some(link) = &mut self.links[conn as usize] else {
            return;
        };
        if done < self.tls {
            link.doing = Doing::Greeting(done);
            let (asks, answers) = match done {
                0 => (CLIENT_HELLO, CERTIFICATES),
                _ => (KEYS_12, FINISHED_12),
            };
            return self.exchange(conn, asks, answers, todo);
        }
        let (host, since) = (link.host, link.since);
        self.setup = self.setup + now.since(since);
        self.rest(conn);
        self.hosts[host].coming -= 1;
        self.serve(now, host, todo);
    }
    /// A connection becomes idle.
    fn rest(&mut self, conn: Conn) {
        if let Some(link) = &mut self.links[conn as usize] {
            link.doing = Doing::Idle;
            self.hosts[link.host].idle.push(conn);
        }
    }
    fn fetch(&mut self, now: Time, conn: Conn, todo: &mut Vec<Action>) {
        let tls_13 = self.tls == 1;
        let Some(link) = self.links[conn as usize].as_mut() else {
            return;
        };
        let Some(size) = self.hosts[link.host].waiting.pop_front() else {
            return;
        };
        link.doing = Doing::Fetching(now, None);
        let finished = if tls_13 && link.fetched == 0 {
            FINISHED_13
        } else {
            0
        };
        link.fetched += 1;
        self.exchange(conn, self.request + finished, size, todo);
    }
    /// Handles a complete object.
    fn fetched(&mut self, now: Time, conn: Conn, todo: &mut Vec<Action>) {
        let Some(link) = self.links[conn as usize].as_mut() else {
            return;
        };
        if let Doing::Fetching(asked, first) = link.doing {
            let first = first.unwrap_or(now);
            self.waited = self.waited + first.since(asked);
            self.received = self.received + now.since(first);
        }
        let host = link.host;
        self.objects += 1;
        self.unfinished -= 1;
        if self.keepalive {
            self.rest(conn);
        } else {
            self.close(conn);
            todo.push(Action::Close(conn));
        }
        if self.unfinished == 0 {
            return self.finish(now, todo);
        }
        self.serve(now, host, todo);
        self.request_next(now, if self.parallel { usize::MAX } else { 1 }, todo);
    }
    fn finish(&mut self, now: Time, todo: &mut Vec<Action>) {
        self.loads.push(now.since(self.begun).as_s());
        for conn in 0..self.links.len() as Conn {
            if self.close(conn).is_some() {
                todo.push(Action::Close(conn));
            }
        }
        self.page += 1;
        self.next_page =
            Some(now + self.think).filter(|at| self.page < self.pages && *at < self.end);
    }
    fn arrived(&mut self, now: Time, conn: Conn, at: Side, bytes: u64, todo: &mut Vec<Action>) {
        let Some(link) = self.links.get_mut(conn as usize).and_then(Option::as_mut) else {
            return;
        };
        if at == Side::Server {
            // A request may arrive in parts; it is answered once, when it is complete.
            if bytes >= link.asks && link.answer > 0 {
                let bytes = core::mem::take(&mut link.answer);
                let from = Side::Server;
                todo.push(Action::Write { conn, from, bytes });
            }
            return;
        }
        if let Doing::Fetching(_, first) = &mut link.doing {
            first.get_or_insert(now);
        }
        if bytes < link.answers {
            return;
        }
        match link.doing {
            Doing::Greeting(done) => self.step(now, conn, done + 1, todo),
            Doing::Fetching(..) => self.fetched(now, conn, todo),
            Doing::Connecting | Doing::Idle => {}
        }
    }
}

impl Workload for Web {
    fn on_event(&mut self, now: Time, event: Event, todo: &mut Vec<Action>) {
        match event {
            Event::Started => self.begin_page(now, todo),
            Event::Woke => {
                if self.again.is_some_and(|at| at <= now) {
                    self.again = None;
                }
                if self.next_page.is_some_and(|at| at <= now) {
                    self.begin_page(now, todo);
                } else {
                    (0..self.hosts.len()).for_each(|host| self.serve(now, host, todo));
                }
            }
            Event::Opened(conn) => self.step(now, conn, 0, todo),
            Event::Refused(conn) => {
                if let Some(link) = self.close(conn) {
                    self.hosts[link.host].coming -= 1;
                }
                self.connections -= 1;
                self.again = Some(now + OPEN_AGAIN);
            }
            Event::Arrived { conn, at, bytes } => self.arrived(now, conn, at, bytes, todo),
            Event::Datagram {
                at: Side::Server,
                number,
                ..
            } => todo.push(Action::Send {
                from: Side::Server,
                number,
                bytes: ANSWER,
                ecn: Ecn::NotEct,
            }),
            Event::Datagram { number, .. } => self.looked_up(now, number, todo),
        }
    }
    fn next_wakeup(&self) -> Option<Time> {
        let asked = match self.asking {
            0 => None,
            _ => self
                .hosts
                .iter()
                .filter_map(|host| Some(host.lookup?.1))
                .min(),
        };
        Time::earlier(Time::earlier(asked, self.next_page), self.again)
    }
    fn metrics(&self, _end: Time) -> WorkloadMetrics {
        let whole = (self.setup + self.waited + self.received).as_s();
        let share = |part: Span| Metric::Number(part.as_s() / whole);
        let metrics = alloc::vec![
            ("pages", Metric::Count(self.loads.len() as u64)),
            ("objects", Metric::Count(self.objects)),
            ("connections", Metric::Count(self.connections)),
            (
                "page_load_s",
                Metric::Quantiles(Quantiles::of(&mut self.loads.clone()))
            ),
            ("setup_share", share(self.setup)),
            ("before_data_share", share(self.setup + self.waited)),
            ("setup_s", Metric::Number(self.setup.as_s())),
            ("waiting_s", Metric::Number(self.waited.as_s())),
            ("receiving_s", Metric::Number(self.received.as_s())),
        ];
        WorkloadMetrics::new(KIND.name, metrics).with_times(self.loads.clone())
    }
}
