//! Load and pages from a web server: consecutive `GET` requests over persistent connections of
//! HTTP/1.1 (RFC 9112), with or without TLS.
//!
//! *Downloads* are load. The client requests an object repeatedly on the same connection, before
//! the previous one has arrived, so that the server never waits for requests. If a server closes
//! the connection, a new one is opened. *Pages* measure the load time of a document and a fixed
//! list of further objects, over `PARALLEL` connections as in browsers. Pages are loaded one
//! after the other during the phases `pages` and `loaded`.

use super::deadline::Deadline;
use super::http::{Body, Url, head};
use super::interval::totals;
use super::link::{self, connected};
use super::seen::{FlowSeen, PhaseSeen, StoppedBy};
use super::tls::{Connection, RECORD};
use super::{Run, plan, report};
use crate::HostError;
use crate::error::is_outage;
use crate::measure::bulk::{Budget, Role, Slot, Stream};
use crate::sys;
use crate::sys::socket::{self, Wanted};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Number of connections for a page, as in browsers.
const PARALLEL: usize = 6;
/// Size of a page's document and of its other objects, bytes. Together these are 31 objects with
/// 1.8 MB, near the median page of the HTTP Archive.
const DOCUMENT: u64 = 30_000;
const OBJECTS: [u64; 30] = [
    5_000, 10_000, 20_000, 40_000, 80_000, 200_000, 5_000, 10_000, 20_000, 40_000, 80_000, 200_000,
    5_000, 10_000, 20_000, 40_000, 80_000, 200_000, 5_000, 10_000, 20_000, 40_000, 80_000, 200_000,
    5_000, 10_000, 20_000, 40_000, 80_000, 200_000,
];
/// Sizes of the objects of a sequential page, bytes, which are repeated. With the document there
/// are 62 objects with 1.8 MB.
const IN_TURN: [u64; 6] = [5_000, 8_000, 12_000, 20_000, 40_000, 90_000];
const OBJECTS_IN_TURN: usize = 61;
/// Pause between two pages.
const PAUSE: Duration = Duration::from_millis(200);
/// Smallest amount of data for which requests are sent ahead, bytes: 50 ms at 2.5 Gbit/s.
const AHEAD: u64 = 16 << 20;
/// Largest number of pipelined requests; some servers close the connection after a hundred.
const MOST_ASKED: u64 = 64;
/// Time limit of each object of a page, ns. If an object takes longer, the page counts as failed.
pub const PATIENCE: u64 = 20_000_000_000;
/// Interval at which it is checked whether pages may start.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// Duration of a load phase from which on its results are kept if the server ends all objects
/// early, ns.
const LEAST_LOAD: u64 = 1_000_000_000;
const CUT_SHORT: &str = "the server closed the connection before the end of the object, whose \
                         length it had stated; check the server, or write another URL";
const NO_RESPONSE: &str =
    "the server closed the connection without a response; check that it serves HTTP/1.1 there";

fn missing(url: &Url, text: impl std::fmt::Display) -> HostError {
    HostError::Missing(format!("{url}: {text}"))
}

fn failed(url: &Url, error: &std::io::Error) -> HostError {
    if sys::stopped() {
        HostError::Stopped
    } else if is_outage(error) {
        HostError::Silent(
            format!("{url}: {error}"),
            "check that it serves the object".into(),
        )
    } else {
        missing(url, error)
    }
}

/// A connection over which objects are downloaded.
struct Download {
    connection: Connection,
    /// A second descriptor of the connection, from which the load is read.
    socket: OwnedFd,
    /// Length of a response with its head, bytes; `None` if the server does not state it or closes
    /// the connection after the response.
    each: Option<u64>,
    /// Number of requested bytes, not counting those that arrived with the first head; `None` if
    /// the server does not state the length.
    left: Option<u64>,
    /// Number of bytes of the first object that had not arrived with its head; 0 if the server does
    /// not state its length.
    first: u64,
}

impl Download {
    /// Requests as many objects as the server needs to have `ahead` bytes to send. `moved`: bytes
    /// received so far.
    fn ask(&mut self, url: &Url, moved: u64, ahead: u64) {
        let (Some(each), Some(left)) = (self.each, self.left) else {
            return;
        };
        let waiting = left.saturating_sub(moved);
        let wanted = ahead.saturating_sub(waiting).div_ceil(each);
        let times = wanted.min(MOST_ASKED.saturating_sub(waiting / each));
        let request = url.request(&url.path).repeat(times as usize);
        // If the connection accepts no more requests, it is used until its data ends, and then
        // replaced.
        match self.connection.write_all(request.as_bytes()) {
            Ok(()) => self.left = Some(left.saturating_add(times.saturating_mul(each))),
            Err(_) => self.each = None,
        }
    }
}

/// Connects to the server, requests the object, and reads the head of the response.
fn download(url: &Url, to: SocketAddr, dscp: u8) -> Result<Download, HostError> {
    let wanted = Wanted {
        dscp,
        ..Wanted::default()
    };
    let failed = |e: std::io::Error| failed(url, &e);
    let fd = socket::connect(to, &wanted).map_err(failed)?;
    let until = sys::monotonic() + link::PATIENCE;
    connected(&fd, to, until, "a web server")?;
    let socket = TcpStream::from(fd);
    socket.set_nonblocking(false).map_err(failed)?;
    let mut connection =
        Connection::new(socket, url.proves(), Deadline::at(until)).map_err(failed)?;
    connection
        .write_all(url.request(&url.path).as_bytes())
        .map_err(failed)?;
    let mut bytes = Vec::new();
    loop {
        let mut more = [0; 2048];
        match connection.read(&mut more).map_err(failed)? {
            0 => return Err(missing(url, NO_RESPONSE)),
            n => bytes.extend(&more[..n]),
        }
        let Some(head) = head(&bytes).map_err(|why| missing(url, why))? else {
            continue;
        };
        if let Some(why) = head.refusal(url) {
            return Err(missing(url, why));
        }
        let got = (bytes.len() - head.took) as u64 + if url.tls { RECORD } else { 0 };
        let socket = connection.socket();
        socket.set_nonblocking(true).map_err(failed)?;
        let socket = socket.try_clone().map_err(failed)?.into();
        let whole = head
            .length
            .map(|length| length.saturating_add(head.took as u64));
        let mut download = Download {
            connection,
            socket,
            each: whole.filter(|_| !head.closes),
            left: head.length.map(|length| length.saturating_sub(got)),
            first: head.length.map_or(0, |length| length.saturating_sub(got)),
        };
        download.ask(url, 0, AHEAD);
        return Ok(download);
    }
}

/// Starts one download for each DSCP, in parallel: one after the other, each would wait for the
/// RTTs of the previous ones.
fn downloads(url: &Url, to: SocketAddr, dscps: &[u8]) -> Result<Vec<Download>, HostError> {
    std::thread::scope(|scope| {
        let asked: Vec<_> = dscps
            .iter()
            .map(|dscp| scope.spawn(move || download(url, to, *dscp)))
            .collect();
        let broken = |_| HostError::Broken("a download ended in a panic".into());
        asked
            .into_iter()
            .map(|thread| thread.join().map_err(broken)?)
            .collect()
    })
}

/// Runs a load phase of downloads. Returns its start and end (ns), its flows, and why it ended.
pub fn loaded(
    url: &Url,
    run: &mut Run,
    to: SocketAddr,
) -> Result<(u64, u64, Vec<FlowSeen>, StoppedBy), HostError> {
    struct Flow {
        stream: Arc<Stream>,
        download: Download,
        /// Bytes received on this connection until the last sample.
        moved: u64,
        slot: Slot,
        before: u64,
        seen: FlowSeen,
    }
    let options = run.options;
    let specs: Vec<_> = plan::flows(options)
        .into_iter()
        .filter(|spec| spec.direction == plan::Direction::Down)
        .collect();
    let mut flows = Vec::new();
    let dscps: Vec<_> = specs.iter().map(|spec| spec.dscp).collect();
    for (spec, download) in specs.iter().zip(downloads(url, to, &dscps)?) {
        let socket = download
            .socket
            .try_clone()
            .map_err(HostError::failed("starting load"))?;
        let stream = Stream::new(socket, Role::Receiver, Arc::clone(&run.budget));
        let slot = run
            .carriers
            .start(&stream)
            .map_err(HostError::failed("starting load"))?;
        let id = run.name(spec.direction);
        let seen = FlowSeen {
            sender: false,
            ..FlowSeen::new(id, spec)
        };
        flows.push(Flow {
            stream,
            download,
            moved: 0,
            slot,
            before: 0,
            seen,
        });
    }
    let from = sys::monotonic();
    run.enter("loaded", None, from);
    flows
        .iter_mut()
        .for_each(|flow| flow.seen.note(&flow.stream, from));
    let (carriers, budget) = (Arc::clone(&run.carriers), Arc::clone(&run.budget));
    let (mut failed, mut again, mut short) = (None, 0, 0);
    let mut why = run.watch(from, |now| {
        let mut over = Vec::new();
        for flow in &mut flows {
            let moved = flow.stream.moved();
            flow.seen.count(now, flow.before + moved);
            let step = moved - std::mem::replace(&mut flow.moved, moved);
            flow.download.ask(url, moved, AHEAD.max(4 * step));
            // No more data will arrive on this connection: all objects are complete, the server has
            // closed it, or nothing has arrived for a second. It is replaced.
            let whole = flow.download.left.is_some_and(|left| moved >= left);
            if (whole || flow.stream.over() || flow.seen.stalled()) && !budget.spent() {
                carriers.stop(flow.slot);
                short += usize::from(flow.stream.over() && moved < flow.download.first);
                over.push(flow);
            }
        }
        let dscps: Vec<_> = over.iter().map(|flow| flow.seen.dscp).collect();
        again += over.len();
        // One connection may fail, but a server that ends all objects early is no source of load.
        let new = match short > specs.len() {
            true => Err(missing(url, CUT_SHORT)),
            false => downloads(url, to, &dscps),
        };
        let new = new.and_then(|new| {
            over.into_iter().zip(new).try_for_each(|(flow, download)| {
                let socket = download
                    .socket
                    .try_clone()
                    .map_err(HostError::failed("starting load"))?;
                flow.before += flow.stream.moved();
                flow.stream = Stream::new(socket, Role::Receiver, Arc::clone(&budget));
                (flow.download, flow.moved) = (download, 0);
                flow.slot = carriers
                    .start(&flow.stream)
                    .map_err(HostError::failed("starting load"))?;
                Ok(())
            })
        });
        failed = new.err();
        (
            failed.is_some(),
            totals(flows.iter().map(|flow| &flow.seen)),
        )
    })?;
    let until = sys::monotonic();
    if short > flows.len() && until - from < LEAST_LOAD {
        return Err(missing(url, CUT_SHORT));
    }
    // After an error, earlier observations are kept.
    match failed {
        Some(HostError::Stopped) => why = run.stopped()?,
        Some(error) => run
            .notes
            .push(format!("the server sent no more data: {error}")),
        None => {}
    }
    if (1..=flows.len()).contains(&short) {
        run.notes.push(format!(
            "{url}: {CUT_SHORT} (number of connections: {short})"
        ));
    } else if again > flows.len() {
        run.notes.push(format!(
            "the server closed the connection after the object {again} times, and each new \
             connection began in slow start: use a larger object"
        ));
    }
    let mut seen = Vec::new();
    for mut flow in flows {
        run.carriers.stop(flow.slot);
        let moved = flow.before + flow.stream.moved();
        flow.seen.count(until, moved);
        flow.seen.received = Some(moved);
        seen.push(flow.seen);
    }
    Ok((from, until, seen, why))
}

/// A page: the paths of its document and other objects.
#[derive(Clone, Debug)]
pub struct PageSpec {
    url: Url,
    document: String,
    objects: Vec<String>,
    /// Largest number of connections.
    parallel: usize,
}

/// Controls the thread that loads pages: whether a page may start, and whether one is loading.
#[derive(Debug, Default)]
pub struct Gate {
    open: AtomicBool,
    busy: AtomicBool,
    ended: AtomicBool,
    /// Set to abandon the page that is loading.
    given_up: Arc<AtomicBool>,
}

impl Gate {
    /// Permits pages to start.
    pub fn open(&self) {
        self.open.store(true, SeqCst);
    }
    /// Prevents further pages.
    pub fn close(&self) {
        self.open.store(false, SeqCst);
    }
    /// Ends the loading of pages after the present one.
    pub fn end(&self) {
        self.close();
        self.ended.store(true, SeqCst);
    }
    /// Ends the loading of pages and abandons the present one.
    pub fn give_up(&self) {
        self.end();
        self.given_up.store(true, SeqCst);
    }
    /// Whether a page is loading.
    pub fn busy(&self) -> bool {
        self.busy.load(SeqCst)
    }
    /// Marks a page as loading and returns `true`, if pages may start.
    fn begin(&self) -> bool {
        self.busy.store(true, SeqCst);
        let may = self.open.load(SeqCst);
        self.busy.store(may, SeqCst);
        may
    }
    /// The deadline of an object that is requested now.
    fn deadline(&self) -> Deadline {
        Deadline::within(PATIENCE).unless(&self.given_up)
    }
    fn done(&self) {
        self.busy.store(false, SeqCst);
    }
}

/// A loaded page.
#[derive(Copy, Clone, Debug)]
pub struct PageSeen {
    /// The start of the page, ns.
    at: u64,
    /// The load time of the page, ns; `None` if it failed.
    took: Option<u64>,
    /// Sum, over the objects of the page, of the time from request to end, ns.
    objects: u64,
    /// Sum, over the objects of the page, of the time from request to first byte, ns.
    waited: u64,
}

/// Size and times of an object, or their sums over several objects.
#[derive(Copy, Clone, Debug, Default)]
struct Fetched {
    bytes: u64,
    /// From request to end, ns.
    took: u64,
    /// From request to the first byte of the response, ns.
    waited: u64,
}

impl std::ops::AddAssign for Fetched {
    fn add_assign(&mut self, more: Fetched) {
        self.bytes += more.bytes;
        self.took += more.took;
        self.waited += more.waited;
    }
}

impl PageSpec {
    /// A page of a web server: the object of the URL. A sequential page (`in_turn`) has it 62
    /// times.
    pub fn of(url: &Url, in_turn: bool) -> PageSpec {
        PageSpec {
            url: url.clone(),
            document: url.path.clone(),
            // A sequential page has the object repeatedly.
            objects: vec![url.path.clone(); if in_turn { OBJECTS_IN_TURN } else { 0 }],
            parallel: if in_turn { 1 } else { PARALLEL },
        }
    }
    fn connections(&self) -> usize {
        self.parallel.min(self.objects.len() + 1)
    }
    /// A synthetic page of `narrows serve`.
    pub fn ours(to: SocketAddr, cookie: &[u8], in_turn: bool) -> PageSpec {
        let path = |bytes: &u64| format!("/{}/{bytes}", crate::digest::hex(cookie));
        let url = Url {
            tls: false,
            host: to.ip().to_string(),
            port: to.port(),
            path: path(&DOCUMENT),
        };
        PageSpec {
            document: path(&DOCUMENT),
            objects: if in_turn {
                IN_TURN
                    .iter()
                    .cycle()
                    .take(OBJECTS_IN_TURN)
                    .map(path)
                    .collect()
            } else {
                OBJECTS.iter().map(path).collect()
            },
            url,
            parallel: if in_turn { 1 } else { PARALLEL },
        }
    }
}

/// Loads one object; returns its times, and whether the connection can be used for the next one.
fn fetch(
    connection: &mut Connection,
    url: &Url,
    path: &str,
    budget: &Budget,
    gate: &Gate,
) -> std::io::Result<(Fetched, bool)> {
    let other = |why: &str| std::io::Error::other(why.to_string());
    let begin = sys::monotonic();
    connection.until(gate.deadline());
    connection.write_all(url.request(path).as_bytes())?;
    let mut bytes = vec![0; 64 << 10];
    let (mut start, mut waited) = (Vec::new(), None);
    let head = loop {
        match connection.read(&mut bytes)? {
            0 => return Err(other(NO_RESPONSE)),
            n => {
                waited.get_or_insert_with(|| sys::monotonic() - begin);
                start.extend(&bytes[..n]);
            }
        }
        if let Some(head) = head(&start).map_err(other)? {
            break head;
        }
    };
    if let Some(why) = head.refusal(url) {
        return Err(other(&why));
    }
    let mut body = Body::of(&head);
    let mut over = body.take(&start[head.took..]).map_err(other)?;
    let mut counted = 0;
    loop {
        budget.took(begin, body.bytes - counted);
        counted = body.bytes;
        if over {
            break;
        }
        if budget.spent() {
            return Err(other("all data has moved"));
        }
        over = match connection.read(&mut bytes)? {
            0 if body.ends_with_the_connection() => break,
            0 => return Err(other("cut short")),
            n => body.take(&bytes[..n]).map_err(other)?,
        };
    }
    let fetched = Fetched {
        bytes: body.bytes,
        took: sys::monotonic() - begin,
        waited: waited.unwrap_or(0),
    };
    Ok((fetched, over && !head.closes))
}

fn open(url: &Url, to: SocketAddr, gate: &Gate) -> std::io::Result<Connection> {
    let deadline = gate.deadline();
    let fd = socket::connect(to, &Wanted::default())?;
    deadline.connected(&fd)?;
    let socket = TcpStream::from(fd);
    socket.set_nonblocking(false)?;
    socket.set_nodelay(true)?;
    Connection::new(socket, url.proves(), deadline)
}

/// Loads a page; returns the sums of sizes and times of its objects.
fn load(page: &PageSpec, to: SocketAddr, budget: &Budget, gate: &Gate) -> std::io::Result<Fetched> {
    let mut first = open(&page.url, to, gate)?;
    let (fetched, kept) = fetch(&mut first, &page.url, &page.document, budget, gate)?;
    let (next, total) = (AtomicUsize::new(0), Mutex::new(Ok(fetched)));
    let work = |kept: Option<Connection>| {
        let mut all = Fetched::default();
        let mut stream = kept;
        let result = loop {
            let Some(path) = page.objects.get(next.fetch_add(1, Relaxed)) else {
                break Ok(all);
            };
            let fetched = match stream.take().map_or_else(|| open(&page.url, to, gate), Ok) {
                Ok(mut open) => {
                    fetch(&mut open, &page.url, path, budget, gate).map(|(fetched, kept)| {
                        stream = kept.then_some(open);
                        fetched
                    })
                }
                Err(error) => Err(error),
            };
            match fetched {
                Ok(fetched) => all += fetched,
                Err(error) => break Err(error),
            }
        };
        let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
        match (&mut *total, result) {
            (Ok(total), Ok(fetched)) => *total += fetched,
            (total, Err(error)) => *total = Err(error),
            _ => {}
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..page.connections() {
            scope.spawn(|| work(None));
        }
        work(kept.then_some(first));
    });
    total.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Loads pages while the gate is open, until it ends.
pub fn pages(page: &PageSpec, to: SocketAddr, budget: &Budget, gate: &Gate) -> Vec<PageSeen> {
    let mut seen = Vec::new();
    while !gate.ended.load(SeqCst) && !sys::stopped() && !budget.spent() {
        if !gate.begin() {
            std::thread::sleep(LOOK_AGAIN);
            continue;
        }
        let at = sys::monotonic();
        let loaded = load(page, to, budget, gate);
        let took = sys::monotonic() - at;
        gate.done();
        if loaded.is_ok() || !(budget.spent() || gate.given_up.load(SeqCst) || sys::stopped()) {
            let fetched = loaded.as_ref().copied().unwrap_or_default();
            seen.push(PageSeen {
                at,
                took: loaded.is_ok().then_some(took),
                objects: fetched.took,
                waited: fetched.waited,
            });
        }
        std::thread::sleep(PAUSE);
    }
    seen
}

/// The results of pages as JSON, for the phases without and with load.
pub fn told(page: &PageSpec, seen: &[PageSeen], phases: &[PhaseSeen]) -> Value {
    let of = |name: &str| {
        let within = |at: u64| {
            phases
                .iter()
                .any(|phase| phase.name == name && phase.from <= at && at < phase.to)
        };
        let pages: Vec<_> = seen.iter().filter(|page| within(page.at)).collect();
        let times = pages
            .iter()
            .filter_map(|page| page.took.map(|ns| ns as f64 / 1e9));
        let mut told = report::distribution(times.collect());
        told["failed"] = json!(pages.iter().filter(|page| page.took.is_none()).count());
        let came = || pages.iter().filter(|page| page.took.is_some());
        let objects: u64 = came().map(|page| page.objects).sum();
        let waited: u64 = came().map(|page| page.waited).sum();
        told["waiting_share"] = match objects {
            0 => Value::Null,
            objects => report::shown(waited as f64 / objects as f64),
        };
        told
    };
    json!({
        "objects": page.objects.len() + 1, "connections": page.connections(),
        "idle_s": of("pages"), "loaded_s": of("loaded"),
    })
}
