//! Encodes and decodes the messages between both ends of a measurement. All numbers are big-endian.
//!
//! `docs/reference/far-end.md` specifies the fields of hellos, frames and datagrams. The following
//! properties separate this protocol from others and protect against forged messages:
//!
//! - A hello has the length of the cookie of iperf3 and begins with an upper-case `N`, which is not
//!   part of such a cookie. An iperf3 server therefore answers it at once and can be identified.
//! - Each message has a field for its kind. The kind is never inferred from the length.
//! - The length of a frame is compared with its limit before it is used.
//! - The cookie of a session is 128 random bits, which the server sends over the control
//!   connection. A client that knows the cookie has proved that it receives at the address from
//!   which this connection was opened.

use serde_json::Value;

/// Version of the protocol over TCP. A server refuses other versions with a message. Since version
/// 2, both ends prove that they know the token ([`crate::protocols::handshake`]).
pub const VERSION: u8 = 2;
/// Version of the datagrams.
pub const DATAGRAM_VERSION: u8 = 1;
/// Default port: that of iperf3, so that an iperf3 client needs no option.
pub const PORT: u16 = 5201;
/// Length of a hello, bytes: that of iperf3's cookie.
pub const HELLO: usize = crate::protocols::iperf3::COOKIE;
/// Smallest length of a ping, bytes; the rest is padding.
pub const PING: usize = 64;
/// Smallest length of a timed question, bytes; the rest is padding, which the answer repeats.
pub const TIMED: usize = crate::sys::datagram::HEADER;
/// Largest frame of a client, bytes.
pub const REQUEST: usize = 4096;
/// Largest frame of a server, bytes: samples are split accordingly.
pub const ANSWER: usize = 64 << 10;
/// The cookie that identifies a session.
pub type Cookie = [u8; 16];

const TCP: &[u8; 4] = b"NARR";
const UDP: &[u8; 4] = b"NARP";

/// Why bytes of a peer are invalid.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Bad {
    /// They belong to another protocol.
    Foreign,
    /// Another version of this protocol.
    Version(u8),
    /// A frame beyond the limit.
    Long,
    /// A frame without a JSON object.
    Json,
}

/// The first message of a client on a TCP connection, which states the purpose of the connection.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Hello {
    /// A control connection for requests and answers; contains the client's nonce.
    Control([u8; 16]),
    /// A data connection, which carries the load of a stream: number of the stream, and cookie of
    /// the session.
    Data(u16, Cookie),
}

impl Hello {
    /// Encodes the hello.
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
    /// Decodes the first bytes of a connection; `None` while the hello is incomplete.
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

/// A hello with another version, by which a newer client determines the version of an older server.
pub fn older_hello(version: u8) -> [u8; HELLO] {
    let mut bytes = Hello::Control([0; 16]).to_bytes();
    bytes[4] = version;
    bytes
}

/// Decodes the first frame of `bytes`: its JSON object, and its length in bytes; `None` while it is
/// incomplete. `most`: largest length of the JSON text.
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

/// Encodes a frame.
pub fn to_frame(value: &Value) -> Vec<u8> {
    let text = value.to_string();
    let mut bytes = (text.len() as u32).to_be_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes
}

/// The purpose of a datagram.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A question.
    Question,
    /// An answer.
    Answer,
    /// Load, to be counted.
    Load,
}

/// A ping, its answer, or a datagram of load. Each time is that of the clock of the end that writes
/// it, ns.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Ping {
    /// The purpose of the datagram.
    pub kind: Kind,
    /// Traffic class with which the question arrived.
    pub class: u8,
    /// Index of the probe in the session.
    pub probe: u8,
    /// Cookie of the session.
    pub cookie: Cookie,
    /// Number, from zero.
    pub number: u32,
    /// Departure from the client.
    pub sent: u64,
    /// Arrival at the server.
    pub received: u64,
    /// Departure of the answer.
    pub answered: u64,
    /// Number of questions of this probe that the server has received, including this one.
    pub count: u32,
}

impl Ping {
    /// Encodes the datagram.
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
    /// Decodes a datagram; `None` if it is not one of narrows.
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

/// A timed question or its answer with the timestamps of the server, ns of its monotonic clock;
/// zero: unknown. A server without kernel timestamps, such as a small board, leaves unknown ones
/// zero.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Timed {
    /// Whether it is an answer.
    pub answer: bool,
    /// Traffic class with which the question arrived.
    pub class: u8,
    /// Cookie of the session.
    pub cookie: Cookie,
    /// Number, from zero.
    pub number: u32,
    /// Departure from the client, by the client's clock.
    pub sent: u64,
    /// Arrival in the server's kernel.
    pub received: u64,
    /// Time just before the server's application answered.
    pub answered: u64,
    /// Number of questions of this client that the server has received, including this one.
    pub count: u32,
    /// Time from which on the question had arrived and the application waited. It is later than
    /// `received` if the application was busy when the question arrived.
    pub ready: u64,
    /// Time at which the application received the question.
    pub read: u64,
    /// Departure of an earlier answer from the server's kernel. It becomes known only after that
    /// answer was sent.
    pub departed: u64,
    /// The number of that earlier answer.
    pub departed_number: u32,
}

impl Timed {
    /// Writes the fields to the beginning of a datagram and leaves the rest unchanged.
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
    /// Decodes a datagram; `None` if it is neither a timed question nor an answer to one.
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

/// A request to open a stream of datagrams, or its answer, which is as long. The client learns the
/// key of the stream from the answer, and proves by its next request that it receives at its
/// address and port.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Opening {
    /// Whether it is an answer.
    pub answer: bool,
    /// Number of the stream.
    pub stream: u16,
    /// Cookie of the session.
    pub cookie: Cookie,
    /// Key of the stream; zero if the client does not know it yet.
    pub key: [u8; 8],
}

impl Opening {
    /// Encodes the datagram.
    pub fn to_bytes(self) -> [u8; PING] {
        let mut bytes = [0; PING];
        bytes[..4].copy_from_slice(UDP);
        bytes[4] = DATAGRAM_VERSION;
        bytes[5] = if self.answer { b'k' } else { b'o' };
        bytes[6..8].copy_from_slice(&self.stream.to_be_bytes());
        bytes[8..24].copy_from_slice(&self.cookie);
        bytes[24..32].copy_from_slice(&self.key);
        bytes
    }
    /// Decodes a datagram; `None` if it is another one.
    pub fn from_bytes(bytes: &[u8]) -> Option<Opening> {
        let bytes = bytes.first_chunk::<PING>()?;
        let kind = bytes[5];
        if &bytes[..4] != UDP || bytes[4] != DATAGRAM_VERSION || !matches!(kind, b'o' | b'k') {
            return None;
        }
        let (mut cookie, mut key) = ([0; 16], [0; 8]);
        cookie.copy_from_slice(&bytes[8..24]);
        key.copy_from_slice(&bytes[24..32]);
        Some(Opening {
            answer: kind == b'k',
            stream: u16::from_be_bytes([bytes[6], bytes[7]]),
            cookie,
            key,
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
        let opening = Opening {
            answer: true,
            stream: 515,
            cookie: [4; 16],
            key: [6; 8],
        };
        let bytes = opening.to_bytes();
        assert_eq!(Opening::from_bytes(&bytes), Some(opening));
        assert_eq!(Opening::from_bytes(&bytes[..PING - 1]), None);
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
            let _ = Opening::from_bytes(&bytes);
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
