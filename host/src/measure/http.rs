//! HTTP/1.1 (RFC 9112): URLs, heads of responses, and the end of bodies.

use std::fmt;

/// Largest head of a response, largest line with the size of a chunk, and largest trailer, bytes.
const HEAD: usize = 16 << 10;
/// Largest number of characters of a redirect's location that are shown.
const SHOWN: usize = 200;
/// Errors of a response, with what to do.
const LONG: &str =
    "the head of the response is longer than 16 KiB; write the URL of another server";
const FOREIGN: &str = "the response is not HTTP/1.1; write host and port of a web server";
const LENGTH: &str = "the response has an invalid Content-Length; write the URL of another server";

/// An `http://` or `https://` URL.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Url {
    /// Whether the scheme is `https`.
    pub tls: bool,
    /// The host name or address of the URL.
    pub host: String,
    /// The port of the URL [default: 80, with TLS 443].
    pub port: u16,
    /// The path of the URL, from `/` on.
    pub path: String,
}

impl Url {
    /// Reads a URL; `None` if invalid.
    pub fn parse(text: &str) -> Option<Url> {
        let plain = text.strip_prefix("http://");
        let tls = plain.is_none();
        let rest = plain.or_else(|| text.strip_prefix("https://"))?;
        let (server, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let bare = |c: char| c.is_ascii_graphic() && !"\\\"<>@".contains(c);
        let (host, port) = match server.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port.parse().ok()?),
            _ => (server, Url::usual(tls)),
        };
        (!host.is_empty() && text.chars().all(bare)).then(|| Url {
            tls,
            host: host.into(),
            port,
            path: path.into(),
        })
    }
    fn usual(tls: bool) -> u16 {
        if tls { 443 } else { 80 }
    }
    /// The name for which the server's certificate must be valid; `None` without TLS.
    pub fn proves(&self) -> Option<&str> {
        self.tls.then_some(self.host.as_str())
    }
    fn server(&self) -> String {
        let port = format!(":{}", self.port);
        let port = if self.port == Url::usual(self.tls) {
            ""
        } else {
            &port
        };
        format!("{}{port}", self.host)
    }
    /// The URL in the `Location` of a response: another URL, or a reference to this server (RFC
    /// 3986, section 4.2).
    fn resolve(&self, reference: &str) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        let server = self.server();
        let path = self.path.split(['?', '#']).next().unwrap_or("/");
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        match reference {
            whole if whole.contains("://") => whole.into(),
            other if other.starts_with("//") => format!("{scheme}:{other}"),
            other if other.starts_with('/') => format!("{scheme}://{server}{other}"),
            other => format!("{scheme}://{server}{folder}/{other}"),
        }
    }
    /// The request for the object at `path` of this server.
    pub fn request(&self, path: &str) -> String {
        let server = self.server();
        format!(
            "GET {path} HTTP/1.1\r\nHost: {server}\r\nUser-Agent: narrows\r\nAccept: */*\r\n\r\n"
        )
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.server(), self.path)
    }
}

/// The head of a response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Head {
    status: u16,
    /// Length of the object, bytes, if the server states it.
    pub length: Option<u64>,
    /// Length of the head, bytes.
    pub took: usize,
    /// Whether the server closes the connection after the object.
    pub closes: bool,
    chunked: bool,
    moved: Option<String>,
}

impl Head {
    /// Why the response to a request for `url` contains no object, and what to do. `None` if its
    /// status is 200 and the object is not empty.
    pub fn refusal(&self, url: &Url) -> Option<String> {
        let status = self.status;
        Some(match (status, &self.moved) {
            (200, _) if self.length == Some(0) => {
                "the object is empty; write the URL of an object with data".into()
            }
            (200, _) => return None,
            (300..=399, Some(to)) => {
                format!("it has moved to {}; write that URL", url.resolve(to))
            }
            (401 | 403, _) => {
                format!("status {status}; write the URL of an object that everybody may download")
            }
            (404 | 410, _) => format!("status {status}; write the URL of an existing object"),
            _ => format!("status {status}; write the URL of an object with status 200"),
        })
    }
}

/// Parses the head of a response; `None` while it is incomplete.
pub fn head(bytes: &[u8]) -> Result<Option<Head>, &'static str> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return if bytes.len() > HEAD {
            Err(LONG)
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
        status: status.ok_or(FOREIGN)?,
        length: None,
        took: end + 4,
        closes: first.starts_with("HTTP/1.0"),
        chunked: false,
        moved: None,
    };
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let (name, value) = (name.to_ascii_lowercase(), value.trim());
        match name.as_str() {
            "content-length" => {
                // A list of equal lengths is one length (RFC 9112, section 6.3).
                let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
                for text in value.split(',').map(str::trim) {
                    let length = text.parse().ok().filter(|_| digits(text)).ok_or(LENGTH)?;
                    if *seen.length.get_or_insert(length) != length {
                        return Err(LENGTH);
                    }
                }
            }
            "connection" => seen.closes |= value.to_ascii_lowercase().contains("close"),
            "transfer-encoding" => seen.chunked |= value.to_ascii_lowercase().contains("chunked"),
            "location" => {
                seen.moved = Some(
                    value
                        .chars()
                        .filter(char::is_ascii_graphic)
                        .take(SHOWN)
                        .collect(),
                )
            }
            _ => {}
        }
    }
    // With chunked transfer coding, Content-Length is ignored (RFC 9112, section 6.3).
    if seen.chunked {
        seen.length = None;
    }
    Ok(Some(seen))
}

/// How the end of a body is determined.
enum End {
    Length(u64),
    Chunks(Chunk),
    Connection,
}

/// The position within chunks (RFC 9112, section 7.1).
enum Chunk {
    /// In the line with the size: the number so far, whether its digits have ended, and the length
    /// of the line so far.
    Size(u64, bool, usize),
    /// In the data: remaining bytes, including the CRLF after the data.
    Data(u64),
    /// In the trailer after the last chunk: length of the present line, and of the whole trailer.
    Trailer(usize, usize),
}

/// The body of a response.
pub struct Body {
    end: End,
    /// Number of bytes of content received.
    pub bytes: u64,
}

impl Body {
    /// The body that follows a head.
    pub fn of(head: &Head) -> Body {
        let end = match (head.chunked, head.length) {
            (true, _) => End::Chunks(Chunk::Size(0, false, 0)),
            (_, Some(length)) => End::Length(length),
            _ => End::Connection,
        };
        Body { end, bytes: 0 }
    }
    /// Whether only the end of the connection marks the end of the body.
    pub fn ends_with_the_connection(&self) -> bool {
        matches!(self.end, End::Connection)
    }
    /// Adds received bytes; returns whether the body is complete.
    pub fn take(&mut self, mut bytes: &[u8]) -> Result<bool, &'static str> {
        let chunk = match &mut self.end {
            End::Chunks(chunk) => chunk,
            end => {
                self.bytes += bytes.len() as u64;
                return Ok(matches!(end, End::Length(length) if self.bytes >= *length));
            }
        };
        while let Some((first, rest)) = bytes.split_first() {
            match chunk {
                Chunk::Data(left) => {
                    let n = (*left).min(bytes.len() as u64);
                    // The line end is not data.
                    self.bytes += left.saturating_sub(2).min(n);
                    *left -= n;
                    bytes = &bytes[n as usize..];
                    if *left == 0 {
                        *chunk = Chunk::Size(0, false, 0);
                    }
                    continue;
                }
                Chunk::Size(size, ended, length) => {
                    *length += 1;
                    match (first, char::from(*first).to_digit(16)) {
                        (b'\n', _) if *length > 1 => {
                            *chunk = match *size {
                                0 => Chunk::Trailer(0, 0),
                                size => Chunk::Data(size + 2),
                            }
                        }
                        (_, Some(digit)) if !*ended => {
                            *size = size.checked_mul(16).ok_or("a chunk without end")?
                                + u64::from(digit);
                            if *size > u64::MAX / 32 {
                                return Err("a chunk without end");
                            }
                        }
                        (b';' | b'\r' | b' ' | b'\t', _) if *length > 1 => *ended = true,
                        _ if *ended && *length < HEAD => {}
                        _ => return Err("no chunk"),
                    }
                }
                Chunk::Trailer(line, all) => {
                    *all += 1;
                    match first {
                        b'\n' if *line == 0 => return Ok(true),
                        b'\n' => *line = 0,
                        b'\r' => {}
                        _ => *line += 1,
                    }
                    if *all > HEAD {
                        return Err("a trailer that does not end");
                    }
                }
            }
            bytes = rest;
        }
        Ok(false)
    }
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
        let safe = Url::parse("https://x/y").unwrap();
        assert_eq!(
            (safe.port, safe.proves(), safe.to_string().as_str()),
            (443, Some("x"), "https://x/y")
        );
        assert!(
            safe.request("/y").contains("Host: x\r\n")
                && url.request("/").contains("Host: example.org:8080\r\n")
        );
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nConnection: close\r\n\r\nabc";
        let seen = head(bytes).unwrap().unwrap();
        assert_eq!(
            (seen.status, seen.length, seen.took, seen.closes),
            (200, Some(12), bytes.len() - 3, true)
        );
        assert_eq!(seen.refusal(&url), None);
        assert_eq!(head(b"HTTP/1.1 200"), Ok(None));
        assert!(head(b"SSH-2.0\r\n\r\n").is_err());
    }

    #[test]
    fn a_response_without_an_object_says_what_to_write() {
        let url = Url::parse("http://h:81/a/b?c").unwrap();
        let refusal = |response: &str| head(response.as_bytes()).unwrap().unwrap().refusal(&url);
        let moved = |to: &str| refusal(&format!("HTTP/1.1 301 Moved\r\nLocation: {to}\r\n\r\n"));
        for (to, whole) in [
            ("https://x/\x1b[31m", "https://x/[31m"),
            ("/", "http://h:81/"),
            ("//x/y", "http://x/y"),
            ("d?e", "http://h:81/a/d?e"),
        ] {
            let said = format!("it has moved to {whole}; write that URL");
            assert_eq!(moved(to), Some(said));
        }
        for (status, said) in [
            (
                "404 Not Found",
                "status 404; write the URL of an existing object",
            ),
            (
                "403 No",
                "status 403; write the URL of an object that everybody may download",
            ),
            (
                "500 No",
                "status 500; write the URL of an object with status 200",
            ),
            (
                "200 OK\r\nContent-Length: 0",
                "the object is empty; write the URL of an object with data",
            ),
        ] {
            let refused = refusal(&format!("HTTP/1.1 {status}\r\n\r\n"));
            assert_eq!(refused.as_deref(), Some(said));
        }
    }

    #[test]
    fn an_invalid_length_is_an_error() {
        let of = |length: &str| {
            let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            head(response.as_bytes()).map(|head| head.unwrap().length)
        };
        assert_eq!(of("5"), Ok(Some(5)));
        assert_eq!(of("5, 5"), Ok(Some(5)));
        for wrong in ["-5", "+5", "5, 6", "", "x", "99999999999999999999"] {
            assert_eq!(of(wrong), Err(LENGTH), "{wrong}");
        }
    }

    fn chunked() -> Body {
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n";
        Body::of(&head(bytes).unwrap().unwrap())
    }

    #[test]
    fn chunks_end_where_they_say() {
        let mut body = chunked();
        assert_eq!(
            body.take(b"4\r\nWiki\r\n10;a=b\r\n0123456789abcdef\r\n0\r\nX: y\r\n\r\n"),
            Ok(true)
        );
        assert_eq!(body.bytes, 20);
        assert!(chunked().take(b"zz\r\n").is_err() && chunked().take(b"\r\n").is_err());
        assert!(chunked().take(b"fffffffffffffffff\r\n").is_err());
        assert!(
            chunked()
                .take(&[b"1;".to_vec(), vec![b'x'; HEAD]].concat())
                .is_err()
        );
        assert!(
            chunked()
                .take(&[b"0\r\n".to_vec(), vec![b'x'; HEAD + 1]].concat())
                .is_err()
        );
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
        #[test]
        fn chunks_may_come_in_any_pieces(
            sizes in proptest::collection::vec(1_usize..50, 0..8),
            cuts in proptest::collection::vec(1_usize..9, 1..200)
        ) {
            let mut text = Vec::new();
            for size in &sizes {
                text.extend(format!("{size:X}\r\n").bytes().chain(std::iter::repeat_n(b'z',
                *size)).chain(*b"\r\n"));
            }
            text.extend(b"0\r\n\r\n");
            let (mut body, mut rest, mut over) = (chunked(), &text[..], false);
            for cut in cuts.iter().cycle() {
                let (now, later) = rest.split_at((*cut).min(rest.len()));
                prop_assert!(!over);
                over = body.take(now).unwrap();
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert!(over);
            prop_assert_eq!(body.bytes, sizes.iter().sum::<usize>() as u64);
        }
    }
}
