//! The words of iperf3 3.x, as its peers exchange them: what both its server and its client need.
//!
//! A control connection begins with the client's cookie (36 of `[a-z2-7]` and a zero); every other
//! connection of the test with the same. After it come *states*, one signed byte each, and JSON
//! behind a length of 32 bits. Numbers that are -1 come as 2^64-1 from 3.12: they are read as
//! either. A datagram has its time (seconds and microseconds, 32 bits each) and its number, from
//! one; a stream of them begins with four bytes that are answered by four.
//!
//! Source: packets exchanged with iperf3 3.12 in both roles. It has no authority over how a
//! stream's payload looks.

use serde_json::Value;

/// Bytes of a cookie.
pub const COOKIE: usize = 37;
/// Bytes of the parameters, at most: what iperf3 itself reads.
pub const PARAMS: usize = 8192;
/// Bytes of the results: 256 streams of some 200 each, and a report in words.
pub const RESULTS: usize = 128 << 10;
/// Connections of one test, one way: iperf3's own limit.
pub const MOST_STREAMS: u64 = 128;

/// Who a test is.
pub type Cookie = [u8; COOKIE];

/// A state, as a byte.
pub mod state {
    /// The streams are there.
    pub const TEST_START: u8 = 1;
    /// Data flows.
    pub const TEST_RUNNING: u8 = 2;
    /// The client has had enough.
    pub const TEST_END: u8 = 4;
    /// The server wants the parameters.
    pub const PARAM_EXCHANGE: u8 = 9;
    /// The server wants the streams.
    pub const CREATE_STREAMS: u8 = 10;
    /// The server ends.
    pub const SERVER_TERMINATE: u8 = 11;
    /// The client ends, early.
    pub const CLIENT_TERMINATE: u8 = 12;
    /// Results, the client's first.
    pub const EXCHANGE_RESULTS: u8 = 13;
    /// The client shows them.
    pub const DISPLAY_RESULTS: u8 = 14;
    /// All is said.
    pub const IPERF_DONE: u8 = 16;
    /// Not now, or not you.
    pub const ACCESS_DENIED: u8 = 0xff;
    /// Two numbers of 32 bits follow: iperf3's own, and the kernel's.
    pub const SERVER_ERROR: u8 = 0xfe;
}

/// iperf3's numbers of errors, each seen put into words by its client 3.12.
pub mod error {
    /// "test duration too long".
    pub const DURATION: i32 = 5;
    /// "number of parallel streams too large".
    pub const STREAMS: i32 = 6;
    /// "block size too large".
    pub const BLOCK_SIZE: i32 = 7;
    /// "unable to set TCP congestion control".
    pub const CONGESTION: i32 = 134;
}

/// Could these bytes be the beginning of a cookie?
pub fn may_be_cookie(bytes: &[u8]) -> bool {
    let letter = |c: &u8| c.is_ascii_lowercase() || (b'2'..=b'7').contains(c);
    let n = bytes.len().min(COOKIE - 1);
    bytes[..n].iter().all(letter) && bytes.get(COOKIE - 1).is_none_or(|c| *c == 0)
}

/// A cookie of random bytes.
pub fn cookie(random: [u8; COOKIE]) -> Cookie {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut cookie = random.map(|byte| LETTERS[usize::from(byte & 31)]);
    cookie[COOKIE - 1] = 0;
    cookie
}

/// The number of the `place`-th stream, from zero: 1, 3, 4, 5; iperf3 leaves out 2, for ever.
pub fn stream_id(place: usize) -> u64 {
    if place == 0 { 1 } else { place as u64 + 2 }
}

/// A number that may be -1, however it is written.
pub fn number(value: &Value) -> Option<f64> {
    let number = value.as_f64()?;
    Some(if number >= 9.2e18 { -1.0 } else { number })
}

/// What a client asks for.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Params {
    /// Datagrams instead of connections.
    pub udp: bool,
    /// Seconds left out of the results.
    pub omit: u64,
    /// Seconds, or zero: until `num` or `blockcount`.
    pub time: u64,
    /// Streams each way.
    pub parallel: u64,
    /// Bytes of a datagram, or written at once.
    pub len: u64,
    /// bit/s of each stream; zero is as fast as it goes.
    pub bandwidth: u64,
    /// bit/s that a socket is paced at.
    pub fqrate: u64,
    /// Bytes of a socket's buffer.
    pub window: u64,
    /// Bytes of a segment.
    pub mss: u64,
    /// Traffic class.
    pub tos: u64,
    /// The server sends.
    pub reverse: bool,
    /// Both do.
    pub bidirectional: bool,
    /// Small writes leave at once.
    pub no_delay: bool,
    /// Numbers of datagrams have 64 bits.
    pub wide: bool,
    /// The server's words are wanted, too.
    pub get_server_output: bool,
    /// Congestion control of who sends.
    pub congestion: Option<String>,
    /// A text of the user's: here is a token, if one is asked for.
    pub extra_data: Option<String>,
    /// The client's version.
    pub client_version: Option<String>,
}

impl Params {
    /// From JSON. What is missing is zero; what is no number where one is due, or neither TCP nor
    /// UDP, is refused.
    pub fn from_json(value: &Value) -> Option<Params> {
        let n = |key: &str| match value.get(key) {
            None => Some(0),
            Some(value) => number(value).map(|n| if n < 0.0 { 0 } else { n as u64 }),
        };
        // iperf3 writes true, or one.
        let flag = |key: &str| {
            value
                .get(key)
                .is_some_and(|v| v.as_bool() == Some(true) || v.as_u64() == Some(1))
        };
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(String::from);
        if flag("sctp") || flag("tcp") == flag("udp") {
            return None;
        }
        Some(Params {
            udp: flag("udp"),
            omit: n("omit")?,
            time: n("time")?,
            parallel: n("parallel")?.max(1),
            len: n("len")?,
            bandwidth: n("bandwidth")?,
            fqrate: n("fqrate")?,
            window: n("window")?,
            mss: n("MSS")?,
            tos: n("TOS")?,
            reverse: flag("reverse"),
            bidirectional: flag("bidirectional"),
            no_delay: flag("nodelay"),
            wide: flag("udp_counters_64bit"),
            get_server_output: flag("get_server_output"),
            congestion: text("congestion"),
            extra_data: text("extra_data"),
            client_version: text("client_version"),
        })
    }
}

/// The words of datagrams.
pub mod datagram {
    /// A stream begins so, from little-endian hosts and others alike, and is answered so.
    const HELLO: (&[u8; 4], &[u8; 4]) = (b"9876", b"6789");
    /// Before 3.12, in the host's order: 123456789 and 987654321.
    const OLD: (u32, u32) = (123_456_789, 987_654_321);

    /// Bytes of a header: with numbers of 32 bits, and of 64.
    const SHORT: usize = 12;
    const WIDE: usize = 16;

    /// The answer to a datagram that begins a stream.
    pub fn greeting(bytes: &[u8], len: usize) -> Option<[u8; 4]> {
        let bytes = bytes.first_chunk::<4>().filter(|_| len == 4)?;
        if bytes == HELLO.0 {
            Some(*HELLO.1)
        } else if *bytes == OLD.0.to_le_bytes() {
            Some(OLD.1.to_le_bytes())
        } else if *bytes == OLD.0.to_be_bytes() {
            Some(OLD.1.to_be_bytes())
        } else {
            None
        }
    }
    /// The header of the `number`-th datagram, sent at `now` (ns), and its length.
    pub fn header(number: u64, now: u64, wide: bool) -> ([u8; 64], usize) {
        let mut head = [0; 64];
        head[..4].copy_from_slice(&((now / 1_000_000_000) as u32).to_be_bytes());
        head[4..8].copy_from_slice(&((now % 1_000_000_000 / 1000) as u32).to_be_bytes());
        if wide {
            head[8..16].copy_from_slice(&number.to_be_bytes());
            (head, WIDE)
        } else {
            head[8..12].copy_from_slice(&(number as u32).to_be_bytes());
            (head, SHORT)
        }
    }
    /// When it was sent (seconds of the sender's clock) and its number.
    pub fn read(bytes: &[u8], wide: bool) -> Option<(f64, u64)> {
        let word = |at: usize| {
            let four = bytes.get(at..at + 4)?;
            Some(four.iter().fold(0_u64, |n, b| n << 8 | u64::from(*b)))
        };
        let number = if wide {
            word(8)? << 32 | word(12)?
        } else {
            word(8)?
        };
        Some((word(0)? as f64 + word(4)? as f64 / 1e6, number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn the_parameters_of_a_real_client_are_read() {
        let seen = r#"{"tcp":true,"omit":0,"time":0,"num":2097152,"blockcount":0,"parallel":3,
            "len":131072,"pacing_timer":1000,"client_version":"3.12"}"#;
        let params = Params::from_json(&serde_json::from_str(seen).unwrap()).unwrap();
        assert_eq!(
            (params.udp, params.parallel, params.len),
            (false, 3, 131_072)
        );
        assert_eq!(Params::from_json(&json!({"tcp": true, "udp": true})), None);
        assert_eq!(
            Params::from_json(&json!({"tcp": true, "time": "long"})),
            None
        );
    }

    #[test]
    fn minus_one_is_read_in_either_form() {
        assert_eq!(
            number(&serde_json::from_str("18446744073709551615").unwrap()),
            Some(-1.0)
        );
        assert_eq!(number(&json!(-1)), Some(-1.0));
        assert_eq!(number(&json!(17)), Some(17.0));
    }

    #[test]
    fn a_cookie_is_what_iperf3_makes() {
        let ours = cookie(std::array::from_fn(|i| i as u8 * 7));
        assert!(may_be_cookie(&ours) && may_be_cookie(&ours[..5]));
        assert!(
            !may_be_cookie(b"NARR") && !may_be_cookie(b"GET ") && !may_be_cookie(&[b'a'; COOKIE])
        );
        assert_eq!((0..4).map(stream_id).collect::<Vec<_>>(), [1, 3, 4, 5]);
    }

    proptest! {
        #[test]
        fn any_datagram_is_read_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..40),
            wide: bool) {
            let _ = datagram::read(&bytes, wide);
            let _ = datagram::greeting(&bytes, bytes.len());
            let _ = may_be_cookie(&bytes);
        }
        #[test]
        fn a_header_is_read_again(number in 1..u64::from(u32::MAX), now in 0..1_u64 << 50,
            wide: bool) {
            let (head, len) = datagram::header(number, now, wide);
            let (sent, read) = datagram::read(&head[..len], wide).unwrap();
            prop_assert_eq!(read, number);
            prop_assert!((sent - now as f64 / 1e9).abs() < 2e-6);
        }
        #[test]
        fn any_object_is_parameters_or_none(n: f64, m: i64, text in ".{0,20}", flag: bool) {
            let _ = Params::from_json(&json!({
                "tcp": flag, "udp": !flag, "time": n, "omit": m, "parallel": m, "len": n,
                "TOS": text.clone(), "congestion": text,
            }));
        }
    }
}
