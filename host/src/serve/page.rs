//! The HTTP server. It serves the counters of the server (only at the address of `--metrics`), and
//! objects of a requested length. Clients compose web pages from these objects.
//!
//! `GET /COOKIE/BYTES HTTP/1.1` with the cookie of a session requests one object of up to `MOST`
//! bytes, over a persistent connection (RFC 9112). Without a valid cookie the server serves no
//! object, so it cannot be used as a download site.

use super::budget::Allowance;
use super::limits::GONE;
use super::shared::{End, Shared};
use crate::digest::from_hex;
use crate::measure::bulk::May;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Largest head of a request, bytes.
const HEAD: usize = 2048;
/// Largest object, bytes (8 MiB). The largest object of the average page has about 1 MB.
const MOST: u64 = 8 << 20;
/// Largest part of an object that is written at once, bytes.
const FILL: usize = 128 << 10;
/// Pause before a connection again requests bytes from its session, ns. Bytes that were reserved
/// for other connections may have become available.
const AGAIN: u64 = 10_000_000;
/// The service of an HTTP connection.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum What {
    /// The counters of the server.
    Metrics,
    /// Objects of pages.
    Objects,
}

/// An HTTP connection.
pub struct Page {
    what: What,
    heard: u64,
    /// Part of the head of the response that is not written yet.
    head: Vec<u8>,
    /// Bytes of the response, with its head, that are not written yet.
    left: u64,
    last: bool,
    /// Cookie and length of the requested object, until the listener has reported whether the
    /// session exists.
    asked: Option<(crate::protocols::wire::Cookie, u64)>,
    /// The session to which the object being written is charged.
    allowance: Option<Arc<Allowance>>,
    /// Time before which the connection may not write, ns of the monotonic clock.
    wait: u64,
}

/// Parses a request: its path, whether the connection persists, and the length of the request;
/// `None` while the request is incomplete.
pub fn request(input: &[u8]) -> Result<Option<(&str, bool, usize)>, End> {
    let Some(end) = input.windows(4).position(|four| four == b"\r\n\r\n") else {
        return if input.len() > HEAD {
            Err(End::Garbage)
        } else {
            Ok(None)
        };
    };
    let head = std::str::from_utf8(&input[..end]).map_err(|_| End::Garbage)?;
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    match (words.next(), words.next(), words.next(), words.next()) {
        (Some("GET"), Some(path), Some("HTTP/1.1" | "HTTP/1.0"), None) => {
            let closes = |line: &str| {
                let line = line.to_ascii_lowercase();
                line.starts_with("connection:") && line.contains("close")
            };
            let kept = head
                .lines()
                .next()
                .is_some_and(|line| line.ends_with("1.1"))
                && !lines.any(closes);
            Ok(Some((path, kept, end + 4)))
        }
        _ => Err(End::Garbage),
    }
}

/// Parses the path of an object: cookie of the session, and length in bytes.
pub fn object(path: &str) -> Option<(crate::protocols::wire::Cookie, u64)> {
    let (cookie, bytes) = path.strip_prefix('/')?.split_once('/')?;
    let bytes = bytes.parse().ok().filter(|n| *n <= MOST)?;
    Some((from_hex(cookie)?, bytes))
}

fn head(out: &mut Vec<u8>, status: &str, kind: &str, length: u64, kept: bool) {
    let kept = if kept { "" } else { "Connection: close\r\n" };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{kept}\r\n"
    );
    out.extend(head.as_bytes());
}

impl Page {
    /// A new HTTP connection, which has sent the beginning of its first request.
    pub fn new(what: What, now: u64) -> Page {
        Page {
            what,
            heard: now,
            head: Vec::new(),
            left: 0,
            last: false,
            asked: None,
            allowance: None,
            wait: 0,
        }
    }
    /// Whether an object is requested that is not written completely yet.
    pub fn busy(&self) -> bool {
        self.left > 0 || self.asked.is_some()
    }
    /// Whether more may be written now.
    pub fn more(&self, now: u64) -> bool {
        self.left > 0 && self.wait <= now
    }
    /// The cookie of a requested object's session. The caller looks it up and passes the result to
    /// [`Page::allow`].
    pub fn asked(&self) -> Option<crate::protocols::wire::Cookie> {
        self.asked.map(|(cookie, _)| cookie)
    }
    /// Sets the session to which the requested object is charged; `None` refuses the object.
    pub fn allow(&mut self, allowance: Option<Arc<Allowance>>, out: &mut Vec<u8>, shared: &Shared) {
        let Some((_, bytes)) = self.asked.take() else {
            return;
        };
        if allowance.is_some() {
            // The session pays for the head as well: an object may be empty.
            head(
                &mut self.head,
                "200 OK",
                "application/octet-stream",
                bytes,
                !self.last,
            );
            self.left = self.head.len() as u64 + bytes;
            shared.counters.down_bytes_total.fetch_add(bytes, Relaxed);
        } else {
            head(out, "404 Not Found", "text/plain", 0, false);
            self.last = true;
        }
        self.allowance = allowance;
    }
    /// Processes one request at the beginning of `input`, if it is complete, and returns its
    /// length.
    pub fn heard(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        now: u64,
        shared: &Shared,
    ) -> Result<usize, End> {
        if self.left > 0 || self.asked.is_some() || self.last {
            return Ok(0);
        }
        let Some((path, kept, took)) = request(input)? else {
            return Ok(0);
        };
        self.heard = now;
        self.last |= !kept;
        match self.what {
            What::Metrics if path == "/metrics" => {
                let text = shared.counted();
                head(
                    out,
                    "200 OK",
                    "text/plain; version=0.0.4",
                    text.len() as u64,
                    false,
                );
                out.extend(text.as_bytes());
                self.last = true;
            }
            What::Objects if object(path).is_some() => self.asked = object(path),
            _ => {
                head(out, "404 Not Found", "text/plain", 0, false);
                return Err(End::Done);
            }
        }
        Ok(took)
    }
    /// Largest number of unprocessed bytes of requests.
    pub fn most(&self) -> usize {
        2 * HEAD
    }
    /// Writes the next part of an object if its session may send now. `promise` reserves bytes of
    /// the session's limit, and returns how many of the wanted ones it reserved.
    pub fn tick(
        &mut self,
        out: &mut Vec<u8>,
        now: u64,
        promise: impl FnOnce(u64) -> u64,
    ) -> Result<(), End> {
        let before = self.left;
        if let Some(allowance) = self
            .allowance
            .as_ref()
            .filter(|_| before > 0 && out.len() < FILL)
        {
            match allowance.load().may_send(now) {
                May::Move => {
                    let most = (FILL - out.len()).min(allowance.load().chunk()) as u64;
                    let more = promise(self.left.min(most));
                    if more > 0 {
                        let whole = out.len() + more as usize;
                        out.extend(self.head.drain(..self.head.len().min(more as usize)));
                        out.resize(whole, b'n');
                        self.left -= more;
                        self.heard = now;
                    } else {
                        // Bytes that are reserved for other connections may become available later.
                        self.wait = now + AGAIN;
                    }
                }
                May::Wait(until) => self.wait = until,
                May::Stop => return Err(End::Limit),
            }
        }
        if self.left == 0 && self.last && (before > 0 || !out.is_empty()) {
            return Err(End::Done);
        }
        if now.saturating_sub(self.heard) > GONE {
            return Err(End::Timeout);
        }
        Ok(())
    }
    /// Latest time of the next call, ns of the monotonic clock.
    pub fn due(&self) -> u64 {
        let silent = self.heard + GONE;
        if self.left > 0 && self.wait > self.heard {
            silent.min(self.wait)
        } else {
            silent
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_request_is_read_and_an_object_is_somebodys() {
        let text = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\nGET";
        assert_eq!(request(text), Ok(Some(("/metrics", true, text.len() - 3))));
        let close = b"GET / HTTP/1.1\r\nConnection: Close\r\n\r\n";
        assert!(!request(close).unwrap().unwrap().1);
        assert_eq!(request(b"POST / HTTP/1.1\r\n\r\n"), Err(End::Garbage));
        assert_eq!(request(&[b'G'; HEAD + 1]), Err(End::Garbage));
        assert_eq!(
            object(&format!("/{}/1000", "0a".repeat(16))),
            Some(([10; 16], 1000))
        );
        assert_eq!(object(&format!("/{}/999999999", "0a".repeat(16))), None);
        assert_eq!(object("/../etc"), None);
    }

    #[test]
    fn parts_of_an_object_are_those_that_its_session_promises() {
        let accounts = super::super::budget::Accounts::new(super::super::limits::Limits::default());
        let allowance = accounts.admit("192.0.2.1".parse().unwrap(), 5).unwrap();
        let mut page = Page::new(What::Objects, 5);
        (page.left, page.allowance) = (10_000, Some(allowance));
        let mut out = Vec::new();
        assert_eq!(page.tick(&mut out, 6, |wanted| wanted - 1000), Ok(()));
        assert_eq!((out.len(), page.left, page.more(6)), (9000, 1000, true));
        // No bytes are available for it: it asks again a little later.
        assert_eq!(page.tick(&mut out, 6, |_| 0), Ok(()));
        assert_eq!(
            (out.len(), page.more(6), page.due()),
            (9000, false, 6 + AGAIN)
        );
        assert_eq!(page.tick(&mut out, 6 + AGAIN, |wanted| wanted), Ok(()));
        assert_eq!((out.len(), page.left), (10_000, 0));
    }

    #[test]
    fn the_session_pays_for_the_head_of_an_empty_object() {
        let shared = super::super::fed::shared();
        let accounts = super::super::budget::Accounts::new(super::super::limits::Limits::default());
        let allowance = accounts.admit("192.0.2.1".parse().unwrap(), 5).unwrap();
        let mut page = Page::new(What::Objects, 5);
        let mut out = Vec::new();
        page.asked = Some(([0; 16], 0));
        page.allow(Some(allowance), &mut out, &shared);
        assert!(out.is_empty() && page.busy());
        assert_eq!(page.tick(&mut out, 6, |_| 10), Ok(()));
        assert_eq!(out, b"HTTP/1.1 2");
        assert_eq!(page.tick(&mut out, 6, |wanted| wanted), Ok(()));
        assert!(out.ends_with(b"Content-Length: 0\r\n\r\n") && !page.busy());
    }

    proptest! {
        #[test]
        fn any_head_is_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut head = b"GET ".to_vec();
            head.extend(&bytes);
            head.extend(b"\r\n\r\n");
            let _ = request(&head).map(|seen| seen.map(|(path, ..)| object(path)));
            let _ = request(&bytes);
        }
    }
}
