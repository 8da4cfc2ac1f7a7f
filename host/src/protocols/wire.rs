//! What the two ends of a measurement say to each other, byte by byte. All numbers are big-endian.
//!
//! ```text
//! TCP   hello, 37 bytes:  N A R R | version 2 | kind | stream u16 | cookie 16 | zero 13
//!       kind c: a control connection (stream zero; the client's nonce in place of the cookie)
//!       kind d: a data connection, nothing but load after the hello
//!       frames on a control connection:  length u32 | so many bytes of JSON, one object
//! UDP   64 bytes or more: N A R P | version 1 | kind | class | probe | cookie 16 | number u32 |
//!       sent u64 | received u64 | answered u64 | count u32 | zero u32
//!       kind q: a question, a: its answer (same length), f: load that is counted and never answered
//! UDP   88 bytes or more, up to byte 56 the same:
//!       … | ready u64 | read u64 | departed u64 | departed number u32 | zero u32
//!       kind t: a timed question, s: its answer (same length), for `narrows latency`
//! ```
//!
//! A first byte of ours is an upper-case `N`: an iperf3 client begins with its cookie, which has
//! none. A hello is as long as that cookie, so that an iperf3 server answers it at once and shows
//! what it is. The kind of a message is never guessed from its length, and no length is believed
//! before it is compared with what is allowed. The cookie is the server's, 128 random bits told
//! over the control connection: who has it can hear at the address that opened it.
//! [docs/reference/far-end.md](../../docs/reference/far-end.md) has the frames one by one.

use serde_json::Value;

/// Of this protocol over TCP; another is refused in words. 2: both ends prove that they know the
/// token ([`crate::protocols::handshake`]).
pub const VERSION: u8 = 2;
/// Of its datagrams, which are as they were.
pub const DATAGRAM_VERSION: u8 = 1;
/// Where iperf3 listens, so that its plain client needs no option.
pub const PORT: u16 = 5201;
/// Bytes of a hello: iperf3's cookie has as many.
pub const HELLO: usize = crate::protocols::iperf3::COOKIE;
/// Bytes of a ping, at least; the rest is padding.
pub const PING: usize = 64;
/// Bytes of a timed question, at least; the rest is padding, and comes back.
pub const TIMED: usize = 88;
/// Bytes of a frame that a client may send: its longest request has some 300.
pub const REQUEST: usize = 4096;
/// Bytes of a frame that a server may send: samples are cut to fit.
pub const ANSWER: usize = 64 << 10;
/// Who a client or stream is.
pub type Cookie = [u8; 16];

const TCP: &[u8; 4] = b"NARR";
const UDP: &[u8; 4] = b"NARP";

/// Why bytes of a peer are not understood.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Bad {
    /// Not this protocol at all.
    Foreign,
    /// Ours, in another version.
    Version(u8),
    /// A frame that is longer than allowed.
    Long,
    /// No JSON object.
    Json,
}

/// What a connection is for.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Hello {
    /// Requests and answers; the client's nonce.
    Control([u8; 16]),
    /// Load, of this stream of that session.
    Data(u16, Cookie),
}

impl Hello {
    /// To bytes.
    pub fn to_bytes(self) -> [u8; HELLO] {
        let mut bytes = [0; HELLO];
        bytes[..4].copy_from_slice(TCP);
        bytes[4] = VERSION;
        match self {
            Hello::Control(nonce) => {
                bytes[5] = b'c';
                bytes[8..24].copy_from_slice(&nonce);
            }
            Hello::Data(stream, cookie) => {
                bytes[5] = b'd';
                bytes[6..8].copy_from_slice(&stream.to_be_bytes());
                bytes[8..24].copy_from_slice(&cookie);
            }
        }
        bytes
    }
    /// From the first bytes of a connection; `None` while some are missing.
    pub fn from_bytes(bytes: &[u8]) -> Result<Option<Hello>, Bad> {
        if bytes.iter().zip(TCP).any(|(a, b)| a != b) {
            return Err(Bad::Foreign);
        }
        match bytes.get(4) {
            Some(version) if *version != VERSION => return Err(Bad::Version(*version)),
            _ => {}
        }
        let Some(bytes) = bytes.first_chunk::<HELLO>() else {
            return Ok(None);
        };
        let mut cookie = [0; 16];
        cookie.copy_from_slice(&bytes[8..24]);
        match bytes[5] {
            b'c' => Ok(Some(Hello::Control(cookie))),
            b'd' => Ok(Some(Hello::Data(
                u16::from_be_bytes([bytes[6], bytes[7]]),
                cookie,
            ))),
            _ => Err(Bad::Foreign),
        }
    }
}

/// What a client says first that speaks only this version: by it a newer one finds out which
/// version an older far end speaks.
pub fn older_hello(version: u8) -> [u8; HELLO] {
    let mut bytes = Hello::Control([0; 16]).to_bytes();
    bytes[4] = version;
    bytes
}

/// The first frame of `bytes` and how many it took; `None` while some are missing.
pub fn frame(bytes: &[u8], most: usize) -> Result<Option<(Value, usize)>, Bad> {
    let Some(head) = bytes.first_chunk::<4>() else {
        return Ok(None);
    };
    let len = u32::from_be_bytes(*head) as usize;
    if len > most {
        return Err(Bad::Long);
    }
    let Some(text) = bytes.get(4..4 + len) else {
        return Ok(None);
    };
    match serde_json::from_slice(text) {
        Ok(value @ Value::Object(_)) => Ok(Some((value, 4 + len))),
        _ => Err(Bad::Json),
    }
}

/// A frame.
pub fn to_frame(value: &Value) -> Vec<u8> {
    let text = value.to_string();
    let mut bytes = (text.len() as u32).to_be_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes
}

/// What a datagram is for.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// To be answered.
    Question,
    /// The answer.
    Answer,
    /// To be counted.
    Load,
}

/// A datagram of ours. Times are those of the clock of whoever wrote them, ns.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Ping {
    /// What it is for.
    pub kind: Kind,
    /// Traffic class that the question arrived with.
    pub class: u8,
    /// Which of the session's probes.
    pub probe: u8,
    /// Whose.
    pub cookie: Cookie,
    /// From zero.
    pub number: u32,
    /// When the client sent it.
    pub sent: u64,
    /// When the server got it.
    pub received: u64,
    /// When the server answered.
    pub answered: u64,
    /// How many questions of this probe the server has got, this one included.
    pub count: u32,
}

impl Ping {
    /// To bytes.
    pub fn to_bytes(&self) -> [u8; PING] {
        let mut bytes = [0; PING];
        bytes[..4].copy_from_slice(UDP);
        bytes[4] = DATAGRAM_VERSION;
        bytes[5] = match self.kind {
            Kind::Question => b'q',
            Kind::Answer => b'a',
            Kind::Load => b'f',
        };
        bytes[6] = self.class;
        bytes[7] = self.probe;
        bytes[8..24].copy_from_slice(&self.cookie);
        bytes[24..28].copy_from_slice(&self.number.to_be_bytes());
        for (at, time) in [(28, self.sent), (36, self.received), (44, self.answered)] {
            bytes[at..at + 8].copy_from_slice(&time.to_be_bytes());
        }
        bytes[52..56].copy_from_slice(&self.count.to_be_bytes());
        bytes
    }
    /// From a datagram; `None` when it is none of ours.
    pub fn from_bytes(bytes: &[u8]) -> Option<Ping> {
        let bytes = bytes.first_chunk::<PING>()?;
        if &bytes[..4] != UDP || bytes[4] != DATAGRAM_VERSION {
            return None;
        }
        let kind = match bytes[5] {
            b'q' => Kind::Question,
            b'a' => Kind::Answer,
            b'f' => Kind::Load,
            _ => return None,
        };
        let mut cookie = [0; 16];
        cookie.copy_from_slice(&bytes[8..24]);
        let word = |at: usize| {
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let time = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 4));
        Some(Ping {
            kind,
            class: bytes[6],
            probe: bytes[7],
            cookie,
            number: word(24),
            sent: time(28),
            received: time(36),
            answered: time(44),
            count: word(52),
        })
    }
}

/// A timed question or its answer: what the far end saw, stamp by stamp. Times of the far end are
/// of its even clock, ns; zero is not known. A far end without a kernel that stamps (a small board)
/// leaves what it does not know zero.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Timed {
    /// The answer?
    pub answer: bool,
    /// Traffic class that the question arrived with.
    pub class: u8,
    /// Whose.
    pub cookie: Cookie,
    /// From zero.
    pub number: u32,
    /// When the client sent it, of its own clock.
    pub sent: u64,
    /// When the far end's kernel got it.
    pub received: u64,
    /// Just before the far end's application answered.
    pub answered: u64,
    /// How many questions of this client it has got, this one included.
    pub count: u32,
    /// From when on both the question and the application were there: later than `received` if
    /// that was busy.
    pub ready: u64,
    /// When the application had it in hand.
    pub read: u64,
    /// When an earlier answer left the far end's kernel, which it learns too late for that answer
    /// itself.
    pub departed: u64,
    /// Which one that was.
    pub departed_number: u32,
}

impl Timed {
    /// Onto the front of a datagram; the rest stays as it is.
    pub fn write(&self, to: &mut [u8; TIMED]) {
        to[..4].copy_from_slice(UDP);
        to[4] = DATAGRAM_VERSION;
        to[5] = if self.answer { b's' } else { b't' };
        to[6] = self.class;
        to[7] = 0;
        to[8..24].copy_from_slice(&self.cookie);
        to[24..28].copy_from_slice(&self.number.to_be_bytes());
        to[52..56].copy_from_slice(&self.count.to_be_bytes());
        for (at, time) in [
            (28, self.sent),
            (36, self.received),
            (44, self.answered),
            (56, self.ready),
            (64, self.read),
            (72, self.departed),
        ] {
            to[at..at + 8].copy_from_slice(&time.to_be_bytes());
        }
        to[80..84].copy_from_slice(&self.departed_number.to_be_bytes());
        to[84..].fill(0);
    }
    /// From a datagram; `None` when it is none of these.
    pub fn from_bytes(bytes: &[u8]) -> Option<Timed> {
        let bytes = bytes.first_chunk::<TIMED>()?;
        if &bytes[..4] != UDP || bytes[4] != DATAGRAM_VERSION || !matches!(bytes[5], b't' | b's') {
            return None;
        }
        let mut cookie = [0; 16];
        cookie.copy_from_slice(&bytes[8..24]);
        let word = |at: usize| {
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let time = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 4));
        Some(Timed {
            answer: bytes[5] == b's',
            class: bytes[6],
            cookie,
            number: word(24),
            sent: time(28),
            received: time(36),
            answered: time(44),
            count: word(52),
            ready: time(56),
            read: time(64),
            departed: time(72),
            departed_number: word(80),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn what_is_written_is_read_again() {
        for hello in [Hello::Control([5; 16]), Hello::Data(513, [7; 16])] {
            let bytes = hello.to_bytes();
            assert_eq!(Hello::from_bytes(&bytes), Ok(Some(hello)));
            assert_eq!(Hello::from_bytes(&bytes[..HELLO - 1]), Ok(None));
        }
        let value = json!({"do": "start", "streams": [1, 2]});
        let bytes = to_frame(&value);
        assert_eq!(frame(&bytes, REQUEST), Ok(Some((value, bytes.len()))));
        assert_eq!(frame(&bytes[..bytes.len() - 1], REQUEST), Ok(None));
        let ping = Ping {
            kind: Kind::Answer,
            class: 0xb8,
            probe: 3,
            cookie: [9; 16],
            number: 70_000,
            sent: u64::MAX,
            received: 1,
            answered: 1 << 40,
            count: 5,
        };
        assert_eq!(Ping::from_bytes(&ping.to_bytes()), Some(ping));
        let timed = Timed {
            answer: true,
            class: 1,
            cookie: [3; 16],
            number: 9,
            sent: 2,
            received: u64::MAX,
            answered: 3,
            count: 4,
            ready: 5,
            read: 6,
            departed: 7,
            departed_number: u32::MAX,
        };
        let mut bytes = [0xff; TIMED];
        timed.write(&mut bytes);
        assert_eq!(Timed::from_bytes(&bytes), Some(timed));
        assert_eq!(Ping::from_bytes(&bytes), None);
    }

    #[test]
    fn a_length_is_not_believed() {
        assert_eq!(frame(&u32::MAX.to_be_bytes(), REQUEST), Err(Bad::Long));
        assert_eq!(frame(&to_frame(&json!([1])), REQUEST), Err(Bad::Json));
        assert_eq!(Hello::from_bytes(b"NARR\x01"), Err(Bad::Version(1)));
        assert_eq!(Hello::from_bytes(b"abcd"), Err(Bad::Foreign));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Hello::from_bytes(&bytes);
            let _ = Ping::from_bytes(&bytes);
            let _ = Timed::from_bytes(&bytes);
            if let Ok(Some((_, took))) = frame(&bytes, REQUEST) {
                prop_assert!(took <= bytes.len());
            }
            let mut ours = b"NARR\x02".to_vec();
            ours.extend(&bytes);
            let _ = Hello::from_bytes(&ours);
            let mut ping = b"NARP\x01".to_vec();
            ping.extend(&bytes);
            if let Some(ping) = Ping::from_bytes(&ping) {
                prop_assert_eq!(Ping::from_bytes(&ping.to_bytes()), Some(ping));
            }
        }
    }
}
