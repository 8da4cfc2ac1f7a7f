//! The protocol of irtt, version 1, without its optional HMAC. All numbers are little-endian.
//!
//! ```text
//! magic 14 a7 5b | flags u8: 1 open, 2 reply, 4 close, 8 HMAC | token u64 (not in a client's open) |
//! open:  parameters, each a type and a value as zig-zag varints
//! else:  number u32 | [received count u32] | [received window u64] | [times i64 each: received wall, mono; midpoint wall, mono;
//!        sent wall, mono] | padding
//! ```
//!
//! The parameters of the open determine which of these fields exist. A client sends them as zeros,
//! so that both directions have the same length. The timestamps are those of the server's
//! application, so the delay of its kernel cannot be separated from that of the network.
//!
//! The answer to an open contains the token. It is 8 bytes longer than the question, as the
//! protocol requires. This server sends it only if its source has sent enough unanswered bytes
//! before, so a client may have to repeat its open. A client that returns the token has proved that
//! it receives at its address. Every other answer is as long as its question.

use crate::latency::attribution::Far;
use crate::latency::protocol::{Answer, Heard, Mark, Protocol};

/// The port of irtt's server.
pub const PORT: u16 = 2112;
const MAGIC: [u8; 3] = [0x14, 0xa7, 0x5b];
/// Flag: open.
pub const OPEN: u8 = 1;
/// Flag: reply of the server.
pub const REPLY: u8 = 2;
/// Flag: close.
pub const CLOSE: u8 = 4;
const HMAC: u8 = 8;
/// Length of magic, flags and token, bytes.
const HEAD: usize = 12;
const VERSION: i64 = 1;

/// The parameters of a test, which the client requests and the server may adjust; missing ones are
/// 0.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Params {
    /// Protocol version.
    pub version: i64,
    /// Duration of the test, ns.
    pub duration: i64,
    /// Interval between questions, ns.
    pub interval: i64,
    /// Size of a question, bytes.
    pub length: i64,
    /// Reported statistics of received questions; 1: count, 2: window, 3: both.
    pub received: i64,
    /// Timestamps; 1: sent, 2: received, 3: both, 4: midpoint.
    pub stamp_at: i64,
    /// Clocks; 1: wall, 2: monotonic, 3: both.
    pub clock: i64,
    /// Traffic class.
    pub dscp: i64,
}

fn put_varint(to: &mut Vec<u8>, value: i64) {
    let mut rest = (value << 1 ^ value >> 63) as u64;
    while rest > 0x7f {
        to.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    to.push(rest as u8);
}

fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

impl Params {
    fn fields(&mut self) -> [(u64, &mut i64); 8] {
        [
            (1, &mut self.version),
            (2, &mut self.duration),
            (3, &mut self.interval),
            (4, &mut self.length),
            (5, &mut self.received),
            (6, &mut self.stamp_at),
            (7, &mut self.clock),
            (8, &mut self.dscp),
        ]
    }
    /// Encodes the parameters.
    pub fn to_bytes(mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (kind, value) in self.fields() {
            if *value != 0 {
                bytes.push(kind as u8);
                put_varint(&mut bytes, *value);
            }
        }
        bytes
    }
    /// Decodes parameters. Unknown ones are skipped; `None` if the list is invalid.
    pub fn from_bytes(bytes: &[u8]) -> Option<Params> {
        /// Parameter with the text with which a server fills its packets. It is skipped.
        const FILLED: u64 = 9;
        let mut params = Params::default();
        let mut at = 0;
        while at < bytes.len() {
            let kind = varint(bytes, &mut at)?;
            let value = varint(bytes, &mut at)?;
            if kind == FILLED {
                at = at
                    .checked_add(usize::try_from(value).ok()?)
                    .filter(|at| *at <= bytes.len())?;
                continue;
            }
            let value = (value >> 1) as i64 ^ -((value & 1) as i64);
            if let Some((_, field)) = params.fields().into_iter().find(|(k, _)| *k == kind) {
                *field = value;
            }
        }
        Some(params)
    }
    /// The offsets of the fields after the sequence number.
    pub fn layout(&self) -> Layout {
        let mut at = HEAD + 4;
        let mut field = |present: bool, len: usize| {
            let here = present.then_some(at);
            at += if present { len } else { 0 };
            here
        };
        let (wall, mono) = (self.clock & 1 != 0, self.clock & 2 != 0);
        let (sent, received, middle) = (
            self.stamp_at & 1 != 0 && self.stamp_at < 4,
            self.stamp_at & 2 != 0,
            self.stamp_at == 4,
        );
        Layout {
            count: field(self.received & 1 != 0, 4),
            window: field(self.received & 2 != 0, 8),
            received: (field(received && wall, 8), field(received && mono, 8)),
            middle: (field(middle && wall, 8), field(middle && mono, 8)),
            sent: (field(sent && wall, 8), field(sent && mono, 8)),
            len: at,
        }
    }
}

/// The offset of each field in a datagram, bytes, if the field exists. A time has two offsets: for
/// the wall clock and for the monotonic clock.
#[derive(Copy, Clone, Debug)]
pub struct Layout {
    /// Count of received questions.
    pub count: Option<usize>,
    /// Bits that state which of the last 64 questions were received.
    pub window: Option<usize>,
    /// Time of arrival.
    pub received: (Option<usize>, Option<usize>),
    /// Midpoint of arrival and departure.
    pub middle: (Option<usize>, Option<usize>),
    /// Time of departure.
    pub sent: (Option<usize>, Option<usize>),
    /// Length of a datagram without padding, bytes.
    pub len: usize,
}

fn head(flags: u8, token: Option<u64>) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.push(flags);
    bytes.extend(token.iter().flat_map(|token| token.to_le_bytes()));
    bytes
}

fn eight(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).map_or(0, |b| {
        u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]])
    })
}

fn four(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
}

/// The flags of a packet; `None` if it is no packet of irtt or has an HMAC.
pub fn flags(bytes: &[u8]) -> Option<u8> {
    let (magic, rest) = bytes.split_first_chunk::<3>()?;
    let flags = *rest.first()?;
    (*magic == MAGIC && flags & HMAC == 0).then_some(flags)
}

/// The open of a client.
pub fn open(params: Params) -> Vec<u8> {
    let mut bytes = head(OPEN, None);
    bytes.extend(params.to_bytes());
    bytes
}

/// The close of a client.
pub fn close(token: u64) -> Vec<u8> {
    head(CLOSE, Some(token))
}

/// Reads the server's answer to an open: token and parameters. A refusal has the flag for close.
/// `None`: it is another packet.
pub fn opened(bytes: &[u8]) -> Option<Result<(u64, Params), &'static str>> {
    let flags = flags(bytes)?;
    if flags & (OPEN | REPLY) != OPEN | REPLY || bytes.len() < HEAD {
        return None;
    }
    if flags & CLOSE != 0 {
        return Some(Err("it refuses"));
    }
    let token = eight(bytes, 4);
    Some(
        Params::from_bytes(&bytes[HEAD..])
            .map(|params| (token, params))
            .ok_or("its parameters cannot be read"),
    )
}

/// The client of a test that the server has accepted.
#[derive(Clone, Debug)]
pub struct Client {
    token: u64,
    layout: Layout,
}

impl Client {
    /// A client with the token and the parameters that the server has sent.
    pub fn new(token: u64, params: &Params) -> Client {
        Client {
            token,
            layout: params.layout(),
        }
    }
    /// The parameters to request, with all statistics and both timestamps of both clocks.
    pub fn wanted(duration: u64, interval: u64, length: usize, dscp: u8) -> Params {
        Params {
            version: VERSION,
            duration: i64::try_from(duration).unwrap_or(i64::MAX),
            interval: i64::try_from(interval).unwrap_or(i64::MAX),
            length: length as i64,
            received: 3,
            stamp_at: 3,
            clock: 3,
            dscp: i64::from(dscp << 2),
        }
    }
}

impl Protocol for Client {
    fn least(&self) -> usize {
        self.layout.len
    }
    fn ask(&mut self, number: u32, _sent: u64, _ahead: u64, to: &mut [u8]) -> Mark {
        to[..self.layout.len].fill(0);
        to[..3].copy_from_slice(&MAGIC);
        to[4..HEAD].copy_from_slice(&self.token.to_le_bytes());
        to[HEAD..HEAD + 4].copy_from_slice(&number.to_le_bytes());
        // A server of irtt returns no field but the number.
        0
    }
    fn hear(&mut self, bytes: &[u8], asked: usize) -> Heard {
        let mine = flags(bytes).is_some_and(|flags| flags & REPLY != 0 && flags & OPEN == 0);
        if !mine || bytes.len() < HEAD || eight(bytes, 4) != self.token {
            return Heard::Foreign;
        }
        if bytes.len() != asked {
            return Heard::Wrong(None);
        }
        let stamp = |at: Option<usize>| at.map_or(0, |at| eight(bytes, at));
        let layout = &self.layout;
        Heard::Answer(Answer {
            number: four(bytes, HEAD),
            mark: 0,
            far: Far {
                read: stamp(layout.received.1),
                answered: stamp(layout.sent.1),
                ..Far::default()
            },
            count: layout.count.map(|at| four(bytes, at)),
            ..Answer::default()
        })
    }
}

/// The server's state of a client.
#[derive(Clone, Debug)]
pub struct Session {
    /// The agreed parameters.
    pub params: Params,
    layout: Layout,
    count: u32,
    /// Bits that state which of the last 64 questions were received; the newest is the lowest bit.
    window: u64,
    newest: u32,
}

impl Session {
    /// Creates a session from the requested parameters; `None` if the version is not supported. A
    /// smaller interval than `least_interval` and a longer duration than `longest` (both ns) are
    /// adjusted.
    pub fn new(mut params: Params, least_interval: i64, longest: i64) -> Option<Session> {
        if params.version != VERSION {
            return None;
        }
        params.interval = params.interval.max(least_interval);
        if params.duration <= 0 || params.duration > longest {
            params.duration = longest;
        }
        Some(Session {
            layout: params.layout(),
            params,
            count: 0,
            window: 0,
            newest: 0,
        })
    }
    /// Converts a question into its answer, in place. Each time is a pair of wall clock and
    /// monotonic clock, ns. `false`: the datagram is too short.
    pub fn answer(&mut self, bytes: &mut [u8], received: (u64, u64), answered: (u64, u64)) -> bool {
        if bytes.len() < self.layout.len {
            return false;
        }
        let number = four(bytes, HEAD);
        self.count = self.count.wrapping_add(1);
        let ahead = number.wrapping_sub(self.newest) as i32;
        if self.count == 1 {
            (self.newest, self.window) = (number, 1);
        } else if ahead > 0 {
            self.window = self.window.checked_shl(ahead as u32).unwrap_or(0) | 1;
            self.newest = number;
        } else {
            self.window |= 1_u64.checked_shl(ahead.unsigned_abs()).unwrap_or(0);
        }
        bytes[3] = REPLY;
        let mut put = |at: Option<usize>, value: &[u8]| {
            if let Some(at) = at {
                bytes[at..at + value.len()].copy_from_slice(value);
            }
        };
        let layout = &self.layout;
        put(layout.count, &self.count.to_le_bytes());
        put(layout.window, &self.window.to_le_bytes());
        let middle = (
            received.0 / 2 + answered.0 / 2,
            received.1 / 2 + answered.1 / 2,
        );
        for (at, times) in [
            (layout.received, received),
            (layout.middle, middle),
            (layout.sent, answered),
        ] {
            put(at.0, &times.0.to_le_bytes());
            put(at.1, &times.1.to_le_bytes());
        }
        true
    }
    /// The answer to the open.
    pub fn welcome(&self, token: u64) -> Vec<u8> {
        let mut bytes = head(OPEN | REPLY, Some(token));
        bytes.extend(self.params.to_bytes());
        bytes
    }
}

/// The token of a client's packet.
pub fn token(bytes: &[u8]) -> Option<u64> {
    (bytes.len() >= HEAD).then(|| eight(bytes, 4))
}

/// The parameters that an open requests.
pub fn asked(bytes: &[u8]) -> Option<Params> {
    Params::from_bytes(bytes.get(4..)?)
}

#[cfg(test)]
mod tests {
    use super::super::protocol::FILL;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_open_is_as_irtt_0_9_writes_it() {
        let params = Params {
            version: 1,
            duration: 50_000_000,
            interval: 10_000_000,
            received: 3,
            stamp_at: 3,
            clock: 3,
            ..Params::default()
        };
        let bytes = open(params);
        let hex = crate::digest::hex(&bytes);
        assert_eq!(hex, "14a75b0101020280c2d72f0380dac409050606060706");
        assert_eq!(asked(&bytes), Some(params));
        assert_eq!(params.layout().len, 60);
    }

    #[test]
    fn a_client_understands_a_server() {
        let mut session =
            Session::new(Client::wanted(1_000_000, 1000, 0, 0), 5000, 1 << 40).unwrap();
        assert_eq!(session.params.interval, 5000);
        let welcome = session.welcome(9);
        let (token, params) = opened(&welcome).unwrap().unwrap();
        assert_eq!((token, params), (9, session.params));
        let mut client = Client::new(token, &params);
        let mut windows = Vec::new();
        for number in [0, 2, 1, 3] {
            let mut bytes = [FILL; 70];
            client.ask(number, 0, 0, &mut bytes);
            assert!(session.answer(&mut bytes, (100, 5), (200, 7)));
            let Heard::Answer(answer) = client.hear(&bytes, 70) else {
                panic!("no answer")
            };
            assert_eq!(
                (answer.number, answer.far.read, answer.far.answered),
                (number, 5, 7)
            );
            windows.push(session.window);
        }
        // A late question must not reset the window.
        assert_eq!(windows, [1, 0b101, 0b111, 0b1111]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Params::from_bytes(&bytes);
            let mut ours = MAGIC.to_vec();
            ours.extend(&bytes);
            let _ = (flags(&ours), opened(&ours), asked(&ours), token(&ours));
            if let Some(params) = Params::from_bytes(&bytes) {
                prop_assert_eq!(Params::from_bytes(&params.to_bytes()), Some(params));
                let _ = Client::new(0, &params).hear(&ours, ours.len());
            }
        }
    }
}
