//! HTTP/1.1 (RFC 9112) as far as a measurement needs it: `GET`, one object after the other over a kept connection. No TLS: a crate for it
//! would be the heaviest of all, and what it adds to a transfer is not the path's.
//!
//! *Downloads* are load: an object asked for again whenever it has ended. *Pages* are what a person waits for: a document, then what it
//! names, over [`PARALLEL`] connections as browsers do, again and again while the load comes and goes.

use super::link::{connected, send_all, PATIENCE};
use super::seen::{FlowSeen, PhaseSeen, StoppedBy};
use super::{plan, report, Run};
use crate::bulk::{Budget, Place, Stream, Way};
use crate::socket::{self, Wanted};
use crate::{sys, HostError};
use serde_json::{json, Value};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Connections of a browser to one server.
const PARALLEL: usize = 6;
/// Bytes of a page's document, and of what it names: 31 objects of 1.8 MB, near the median page of the HTTP Archive in bytes.
const DOCUMENT: u64 = 30_000;
const OBJECTS: [u64; 30] = [
    5_000, 10_000, 20_000, 40_000, 80_000, 200_000, 5_000, 10_000, 20_000, 40_000, 80_000, 200_000, 5_000, 10_000,
    20_000, 40_000, 80_000, 200_000, 5_000, 10_000, 20_000, 40_000, 80_000, 200_000, 5_000, 10_000, 20_000, 40_000,
    80_000, 200_000,
];
/// From the end of a page to the beginning of the next.
const PAUSE: Duration = Duration::from_millis(200);
/// A page that takes longer has failed.
const TOO_LONG: Duration = Duration::from_secs(20);
/// Bytes of an answer's head.
const HEAD: usize = 16 << 10;

/// A place on the web.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Url {
    /// Its server.
    pub host: String,
    /// 80.
    pub port: u16,
    /// From `/` on.
    pub path: String,
}

impl Url {
    /// From text.
    pub fn parse(text: &str) -> Option<Url> {
        let rest = text.strip_prefix("http://")?;
        let (server, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let bare = |c: char| c.is_ascii_graphic() && !"\\\"<>@".contains(c);
        let (host, port) = match server.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port.parse().ok()?),
            _ => (server, 80),
        };
        (!host.is_empty() && text.chars().all(bare)).then(|| Url {
            host: host.into(),
            port,
            path: path.into(),
        })
    }
    fn request(&self, path: &str) -> String {
        let (host, port) = (&self.host, self.port);
        format!("GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUser-Agent: narrows\r\nAccept: */*\r\n\r\n")
    }
}

/// What an answer's head says.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Head {
    status: u16,
    length: Option<u64>,
    /// Bytes of the head itself.
    took: usize,
    closes: bool,
}

/// `None` while some is missing.
pub fn head(bytes: &[u8]) -> Result<Option<Head>, &'static str> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return if bytes.len() > HEAD {
            Err("a head that does not end")
        } else {
            Ok(None)
        };
    };
    let text = String::from_utf8_lossy(&bytes[..end]);
    let mut lines = text.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let status = first
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.get(2..5)?.parse().ok());
    let mut seen = Head {
        status: status.ok_or("no HTTP")?,
        length: None,
        took: end + 4,
        closes: first.starts_with("HTTP/1.0"),
    };
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        if name.eq_ignore_ascii_case("content-length") {
            seen.length = value.trim().parse().ok();
        } else if name.eq_ignore_ascii_case("connection") {
            seen.closes |= value.to_ascii_lowercase().contains("close");
        }
    }
    Ok(Some(seen))
}

fn missing(url: &Url, text: impl std::fmt::Display) -> HostError {
    HostError::Missing(format!("http://{}:{}{}: {text}", url.host, url.port, url.path))
}

/// Asks for the object over a new connection, which then is load.
fn download(url: &Url, to: SocketAddr, dscp: u8) -> Result<OwnedFd, HostError> {
    let wanted = Wanted {
        dscp,
        ..Wanted::default()
    };
    let fd = socket::connect(to, &wanted).map_err(|e| missing(url, e))?;
    connected(&fd, to, sys::monotonic() + PATIENCE)?;
    send_all(&fd, url.request(&url.path).as_bytes())?;
    let until = sys::monotonic() + PATIENCE;
    let mut bytes = Vec::new();
    loop {
        let mut more = [0; 2048];
        match socket::read(&fd, &mut more) {
            Ok(Some(0)) | Err(_) => return Err(missing(url, "no answer")),
            Ok(Some(n)) => bytes.extend(&more[..n]),
            Ok(None) if sys::stopped() => return Err(HostError::Stopped),
            Ok(None) if sys::monotonic() > until => return Err(missing(url, "no answer")),
            Ok(None) => {
                let _ = sys::wait_readable(&[fd.as_raw_fd()], 50_000_000);
            }
        }
        match head(&bytes).map_err(|why| missing(url, why))? {
            Some(head) if head.status == 200 => return Ok(fd),
            Some(head) => return Err(missing(url, format!("status {}", head.status))),
            None => {}
        }
    }
}

/// One loaded phase of downloads.
pub fn loaded(url: &Url, run: &mut Run, to: SocketAddr) -> Result<(u64, u64, Vec<FlowSeen>, StoppedBy), HostError> {
    struct Flow {
        stream: Arc<Stream>,
        place: Place,
        before: u64,
        seen: FlowSeen,
    }
    let options = run.options;
    let mut flows = Vec::new();
    for spec in plan::flows(options)
        .iter()
        .filter(|spec| spec.direction == plan::Direction::Down)
    {
        let budget = Arc::clone(&run.budget);
        let stream = Stream::new(download(url, to, spec.dscp)?, Way::In, budget);
        let place = run
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
            place,
            before: 0,
            seen,
        });
    }
    let from = sys::monotonic();
    flows.iter_mut().for_each(|flow| flow.seen.note(&flow.stream, from));
    let (carriers, budget) = (Arc::clone(&run.carriers), Arc::clone(&run.budget));
    let mut failed = None;
    let why = run.watch(from, |now| {
        for flow in &mut flows {
            flow.seen.count(now, flow.before + flow.stream.moved());
            // The object has ended, and its server has hung up or waits for the next request: a new connection asks again.
            let idle = flow.seen.stalled();
            if (flow.stream.over() || idle) && !budget.spent() {
                carriers.stop(flow.place);
                flow.before += flow.stream.moved();
                let again = download(url, to, flow.seen.dscp).and_then(|fd| {
                    flow.stream = Stream::new(fd, Way::In, Arc::clone(&budget));
                    carriers.start(&flow.stream).map_err(HostError::failed("starting load"))
                });
                match again {
                    Ok(place) => flow.place = place,
                    Err(error) => failed = Some(error),
                }
            }
        }
        failed.is_some()
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    let until = sys::monotonic();
    let mut seen = Vec::new();
    for mut flow in flows {
        run.carriers.stop(flow.place);
        let moved = flow.before + flow.stream.moved();
        flow.seen.count(until, moved);
        flow.seen.received = Some(moved);
        run.moved += moved;
        seen.push(flow.seen);
    }
    Ok((from, until, seen, why))
}

/// A page: where its objects are.
#[derive(Clone, Debug)]
pub struct PageSpec {
    url: Url,
    document: String,
    objects: Vec<String>,
}

impl PageSpec {
    /// Of a web server: the one object.
    pub fn of(url: &Url) -> PageSpec {
        PageSpec {
            url: url.clone(),
            document: url.path.clone(),
            objects: Vec::new(),
        }
    }
    /// Of a far end of ours, made up.
    pub fn ours(to: SocketAddr, cookie: &[u8]) -> PageSpec {
        let path = |bytes: &u64| format!("/{}/{bytes}", crate::digest::hex(cookie));
        let url = Url {
            host: to.ip().to_string(),
            port: to.port(),
            path: path(&DOCUMENT),
        };
        PageSpec {
            document: path(&DOCUMENT),
            objects: OBJECTS.iter().map(path).collect(),
            url,
        }
    }
}

/// One object over a kept connection; answers its bytes and whether the connection is kept.
fn fetch(stream: &mut TcpStream, url: &Url, path: &str) -> std::io::Result<(u64, bool)> {
    let other = |why: String| std::io::Error::other(why);
    stream.write_all(url.request(path).as_bytes())?;
    let mut bytes = vec![0; 64 << 10];
    let mut start = Vec::new();
    loop {
        let n = stream.read(&mut bytes)?;
        if n == 0 {
            return Err(other("no answer".into()));
        }
        start.extend(&bytes[..n]);
        let Some(head) = head(&start).map_err(|why| other(why.into()))? else {
            continue;
        };
        if head.status != 200 {
            return Err(other(format!("status {}", head.status)));
        }
        let mut got = (start.len() - head.took) as u64;
        // Without a length the end of the connection is the object's.
        while head.length.is_none_or(|length| got < length) {
            match stream.read(&mut bytes)? {
                0 if head.length.is_none() => break,
                0 => return Err(other("cut short".into())),
                n => got += n as u64,
            }
        }
        return Ok((got, head.length.is_some() && !head.closes));
    }
}

fn open(to: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&to, TOO_LONG)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TOO_LONG))?;
    Ok(stream)
}

/// The whole page once; answers its bytes.
fn load(page: &PageSpec, to: SocketAddr) -> std::io::Result<u64> {
    let mut first = open(to)?;
    let (bytes, kept) = fetch(&mut first, &page.url, &page.document)?;
    let (next, total) = (AtomicUsize::new(0), Mutex::new(Ok(bytes)));
    let work = |kept: Option<TcpStream>| {
        let mut all = 0;
        let mut stream = kept;
        let result = loop {
            let Some(path) = page.objects.get(next.fetch_add(1, Relaxed)) else {
                break Ok(all);
            };
            let fetched = match stream.take().map_or_else(|| open(to), Ok) {
                Ok(mut open) => fetch(&mut open, &page.url, path).map(|(bytes, kept)| {
                    stream = kept.then_some(open);
                    bytes
                }),
                Err(error) => Err(error),
            };
            match fetched {
                Ok(bytes) => all += bytes,
                Err(error) => break Err(error),
            }
        };
        let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
        match (&mut *total, result) {
            (Ok(total), Ok(bytes)) => *total += bytes,
            (total, Err(error)) => *total = Err(error),
            _ => {}
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..PARALLEL.min(page.objects.len() + 1) {
            scope.spawn(|| work(None));
        }
        work(kept.then_some(first));
    });
    total.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Page after page until it is told to stop: when each began (ns), and how long it took (ns) if it came.
pub fn pages(page: &PageSpec, to: SocketAddr, budget: &Budget, stop: &AtomicBool) -> Vec<(u64, Option<u64>)> {
    let mut seen = Vec::new();
    while !stop.load(Relaxed) && !sys::stopped() && !budget.spent() {
        let begin = sys::monotonic();
        let loaded = load(page, to);
        let end = sys::monotonic();
        budget.took(end, *loaded.as_ref().unwrap_or(&0));
        seen.push((begin, loaded.is_ok().then(|| end - begin)));
        std::thread::sleep(PAUSE);
    }
    seen
}

/// What pages came to, by phase.
pub fn told(page: &PageSpec, seen: &[(u64, Option<u64>)], phases: &[PhaseSeen]) -> Value {
    let of = |name: &str| {
        let within = |at: u64| {
            phases
                .iter()
                .any(|phase| phase.name == name && phase.from <= at && at < phase.to)
        };
        let pages: Vec<_> = seen.iter().filter(|(at, _)| within(*at)).collect();
        let times = pages
            .iter()
            .filter_map(|(_, took)| took.map(|ns| ns as f64 / 1e9))
            .collect();
        let mut told = report::distribution(times);
        told["failed"] = json!(pages.iter().filter(|(_, took)| took.is_none()).count());
        told
    };
    json!({
        "objects": page.objects.len() + 1, "connections": PARALLEL.min(page.objects.len() + 1),
        "idle_s": of("idle"), "loaded_s": of("loaded"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_url_and_a_head_are_read() {
        let url = Url::parse("http://example.org:8080/a?b").unwrap();
        assert_eq!(
            (url.host.as_str(), url.port, url.path.as_str()),
            ("example.org", 8080, "/a?b")
        );
        assert_eq!(Url::parse("http://[::1]/").unwrap().host, "[::1]");
        assert_eq!(Url::parse("http://x").unwrap().path, "/");
        assert!(Url::parse("http://").is_none() && Url::parse("http://x/\r\nEvil: y").is_none());
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nConnection: close\r\n\r\nabc";
        let seen = head(bytes).unwrap().unwrap();
        assert_eq!(
            (seen.status, seen.length, seen.took, seen.closes),
            (200, Some(12), bytes.len() - 3, true)
        );
        assert_eq!(head(b"HTTP/1.1 200"), Ok(None));
        assert!(head(b"SSH-2.0\r\n\r\n").is_err());
    }

    proptest! {
        #[test]
        fn any_head_is_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut answer = b"HTTP/1.1 ".to_vec();
            answer.extend(&bytes);
            answer.extend(b"\r\n\r\n");
            let _ = head(&answer);
            let _ = head(&bytes);
        }
    }
}
