//! Messages of iperf3 3.x, as far as its server and its client need them.
//!
//! Each TCP connection of a test begins with the client's cookie: 36 characters of `[a-z2-7]` and a
//! zero byte. On the control connection, *states* (one signed byte each) and JSON texts (after a
//! length of 32 bits) follow. Since 3.12, the number -1 is sent as 2^64-1; both forms are read. A
//! datagram begins with its time of transmission (seconds and microseconds, 32 bits each) and its
//! sequence number, which counts from one. A UDP stream begins with a datagram of four bytes, which
//! is answered by one of four bytes.
//!
//! Source: packets exchanged with iperf3 3.12 in both roles. The payload of streams is not
//! specified by it.

use serde_json::Value;

/// Length of a cookie.
pub const COOKIE: usize = 37;
/// Largest JSON text of parameters, bytes: the limit of iperf3.
pub const PARAMS: usize = 8192;
/// Largest JSON text of results, bytes: 256 streams of about 200 bytes each, and a text.
pub const RESULTS: usize = 128 << 10;
/// Largest number of streams of one test in one direction: the limit of iperf3.
pub const MOST_STREAMS: u64 = 128;

/// The cookie of a test.
pub type Cookie = [u8; COOKIE];

/// The states, as bytes.
pub mod state {
    /// All streams are open.
    pub const TEST_START: u8 = 1;
    /// Data flows.
    pub const TEST_RUNNING: u8 = 2;
    /// The client ends the load.
    pub const TEST_END: u8 = 4;
    /// The server requests the parameters.
    pub const PARAM_EXCHANGE: u8 = 9;
    /// The server requests that the client opens the streams.
    pub const CREATE_STREAMS: u8 = 10;
    /// The server ends the test.
    pub const SERVER_TERMINATE: u8 = 11;
    /// The client ends the test early.
    pub const CLIENT_TERMINATE: u8 = 12;
    /// The results are exchanged, the client's first.
    pub const EXCHANGE_RESULTS: u8 = 13;
    /// The client displays the results.
    pub const DISPLAY_RESULTS: u8 = 14;
    /// The test is complete.
    pub const IPERF_DONE: u8 = 16;
    /// The server refuses the test.
    pub const ACCESS_DENIED: u8 = 0xff;
    /// An error; two numbers of 32 bits follow: that of iperf3, and that of the kernel.
    pub const SERVER_ERROR: u8 = 0xfe;
}

/// Error numbers of iperf3, each with the message of its client 3.12.
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

/// Whether these bytes may be the beginning of a cookie.
pub fn may_be_cookie(bytes: &[u8]) -> bool {
    let letter = |c: &u8| c.is_ascii_lowercase() || (b'2'..=b'7').contains(c);
    let n = bytes.len().min(COOKIE - 1);
    bytes[..n].iter().all(letter) && bytes.get(COOKIE - 1).is_none_or(|c| *c == 0)
}

/// A random cookie.
pub fn cookie(random: [u8; COOKIE]) -> Cookie {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut cookie = random.map(|byte| LETTERS[usize::from(byte & 31)]);
    cookie[COOKIE - 1] = 0;
    cookie
}

/// The number of the stream with index `place`: 1, 3, 4, 5; iperf3 always skips 2.
pub fn stream_id(place: usize) -> u64 {
    if place == 0 { 1 } else { place as u64 + 2 }
}

/// Reads a number that may be -1 in either form.
pub fn number(value: &Value) -> Option<f64> {
    let number = value.as_f64()?;
    Some(if number >= 9.2e18 { -1.0 } else { number })
}

/// The parameters of a test.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Params {
    /// Whether the streams are UDP; otherwise TCP.
    pub udp: bool,
    /// Duration of the first part of the load that the results exclude, s.
    pub omit: u64,
    /// Duration of the load, s; 0: it ends after an amount of data (`num` or `blockcount`).
    pub time: u64,
    /// Number of streams in each direction.
    pub parallel: u64,
    /// Payload of a datagram, or length of a write, bytes.
    pub len: u64,
    /// Rate of each stream, bit/s; zero: unlimited.
    pub bandwidth: u64,
    /// Pacing rate of each socket (`--fq-rate`), bit/s; 0: not paced.
    pub fqrate: u64,
    /// Size of each socket's buffers, bytes; 0: the default.
    pub window: u64,
    /// Maximum segment size, bytes; 0: the default.
    pub mss: u64,
    /// Traffic class.
    pub tos: u64,
    /// Whether only the server sends (`-R`).
    pub reverse: bool,
    /// Whether both ends send (`--bidir`).
    pub bidirectional: bool,
    /// Whether the Nagle algorithm is disabled.
    pub no_delay: bool,
    /// Whether sequence numbers of datagrams have 64 bits.
    pub wide: bool,
    /// Whether the client requests the text output of the server.
    pub get_server_output: bool,
    /// Congestion control of the senders.
    pub congestion: Option<String>,
    /// The text of `--extra-data`: the token, if the server requires one.
    pub extra_data: Option<String>,
    /// Version of the client.
    pub client_version: Option<String>,
}

impl Params {
    /// Reads JSON. Missing numbers are 0; `None` if a number has a wrong type, or if the test is
    /// neither TCP nor UDP.
    pub fn from_json(value: &Value) -> Option<Params> {
        let n = |key: &str| match value.get(key) {
            None => Some(0),
            Some(value) => number(value).map(|n| if n < 0.0 { 0 } else { n as u64 }),
        };
        // iperf3 writes true or 1.
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

/// Messages in datagrams.
pub mod datagram {
    /// The first datagram of a stream, and its answer.
    const HELLO: (&[u8; 4], &[u8; 4]) = (b"9876", b"6789");
    /// The same before 3.12, as integers in host byte order.
    const OLD: (u32, u32) = (123_456_789, 987_654_321);

    /// Length of a header with a sequence number of 32 bits (short) and of 64 bits (wide), bytes.
    const SHORT: usize = 12;
    const WIDE: usize = 16;

    /// The answer to a datagram that begins a stream; `None` if it does not.
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
    /// The header of a datagram with this sequence number, sent at `now` (ns), and its length in
    /// bytes.
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
    /// Reads the time (s, of the sender's clock) and sequence number of a datagram.
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
