//! STAMP, the Simple Two-Way Active Measurement Protocol, in its open mode (RFC 8762). The session
//! identifier and the extensions for class of service and follow-up telemetry are those of RFC
//! 8972. All numbers are big-endian.
//!
//! ```text
//! sender      number u32 | time u64 | error u16 | session u16 | zero 28                                        44 bytes, then TLVs
//! reflector   number u32 | time u64 | error u16 | session u16 | received u64 | sender's number u32 | sender's time u64 |
//!             sender's error u16 | zero 2 | sender's TTL u8 | zero 3                                           44 bytes, then TLVs
//! TLV         flags u8 (0x80 not understood, 0x40 malformed) | type u8 | length u16 | value
//!   1 extra padding
//!   4 class of service: code point wanted 6 bits, code point seen 6, ECN seen 2, reverse path 2, zero 16
//!   7 follow-up: number of the last reflected packet u32 | when it left u64 | how that was stamped u8 | zero 3
//! ```
//!
//! This reflector is stateful: it counts the packets of each session, so that losses of the two
//! directions can be distinguished. An answer is as long as its question; packets shorter than 44
//! bytes get none. Times are in the format of NTP: seconds since 1900, and units of 2⁻³² s. The
//! error estimate states 1 µs, and that the clock is not known to be synchronised.

use crate::latency::attribution::Far;
use crate::latency::protocol::{Answer, FILL, Heard, Mark, Protocol};

/// The UDP port of reflectors.
pub const PORT: u16 = 862;
/// Length of a packet without TLVs, bytes.
pub const BASE: usize = 44;
/// From 1900 to 1970, s.
const ERA: u64 = 2_208_988_800;
/// Error estimate: not synchronised; multiplier 1, scale 12, which means 2¹² × 2⁻³² s.
const ERROR: u16 = 12 << 8 | 1;
/// Length of the head of a TLV, bytes.
const HEAD: usize = 4;
/// Flag: not understood. The sender sets it, and a reflector that understands the TLV clears it.
const UNKNOWN: u8 = 0x80;
const MALFORMED: u8 = 0x40;
const PADDING: u8 = 1;
const CLASS: u8 = 4;
const FOLLOW_UP: u8 = 7;
/// Lengths of the values of TLVs, bytes.
const CLASS_LEN: usize = 4;
const FOLLOW_LEN: usize = 16;
/// Number of answers that are remembered until their follow-up arrives.
const NUMBERS: usize = 256;
/// Timestamp method: software of the host.
const SOFTWARE: u8 = 2;

/// Converts a date in ns since 1970 to the format of NTP.
pub fn to_ntp(ns: u64) -> u64 {
    let (s, ns) = (ns / 1_000_000_000, ns % 1_000_000_000);
    (((s + ERA) & 0xffff_ffff) << 32) | (((ns << 32) + 500_000_000) / 1_000_000_000)
}

/// Converts a time of NTP to ns since 1970. Times before 1970 are taken as those of the era that
/// begins in 2036.
pub fn from_ntp(time: u64) -> u64 {
    if time == 0 {
        return 0;
    }
    let s = time >> 32;
    let s = if s >= ERA {
        s - ERA
    } else {
        s + (1 << 32) - ERA
    };
    s * 1_000_000_000 + (((time & 0xffff_ffff) * 1_000_000_000 + (1 << 31)) >> 32)
}

fn put<const N: usize>(to: &mut [u8], at: usize, bytes: [u8; N]) {
    if let Some(to) = to.get_mut(at..at + N) {
        to.copy_from_slice(&bytes);
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .map_or(0, |b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
}

fn time(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) << 32 | u64::from(word(bytes, at + 4))
}

/// The TLVs after the first 44 bytes: offset, type and length of the value of each. A TLV that
/// exceeds the packet ends the list, with `None` as its length.
fn tlvs(bytes: &[u8]) -> impl Iterator<Item = (usize, u8, Option<usize>)> + '_ {
    let mut at = BASE;
    std::iter::from_fn(move || {
        let head = bytes.get(at..at + HEAD)?;
        let len = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let here = (at, head[1]);
        if at + HEAD + len > bytes.len() {
            at = bytes.len();
            return Some((here.0, here.1, None));
        }
        at += HEAD + len;
        Some((here.0, here.1, Some(len)))
    })
}

/// The session-sender: the client side of STAMP.
#[derive(Clone, Debug)]
pub struct Sender {
    /// Session identifier.
    pub session: u16,
    /// Requested DSCP of the answers.
    pub dscp: u8,
    /// For each of the last answers: the reflector's number, and the number of its question.
    numbers: [(u32, u32); NUMBERS],
}

impl Sender {
    /// A sender of the session with this identifier.
    pub fn new(session: u16, dscp: u8) -> Sender {
        Sender {
            session,
            dscp,
            numbers: [(0, u32::MAX); NUMBERS],
        }
    }
}

impl Protocol for Sender {
    fn least(&self) -> usize {
        BASE + 2 * HEAD + CLASS_LEN + FOLLOW_LEN
    }
    fn follows_up(&self) -> bool {
        true
    }
    fn ask(&mut self, number: u32, sent: u64, ahead: u64, to: &mut [u8]) -> Mark {
        let at = to_ntp(sent + ahead);
        let least = self.least();
        to[..least.min(BASE)].fill(0);
        put(to, 0, number.to_be_bytes());
        put(to, 4, at.to_be_bytes());
        put(to, 12, ERROR.to_be_bytes());
        put(to, 14, self.session.to_be_bytes());
        let mut next = BASE;
        let mut tlv = |kind: u8, len: usize| {
            put(to, next, [UNKNOWN, kind]);
            put(to, next + 2, (len as u16).to_be_bytes());
            let value = next + HEAD;
            next = value + len;
            if kind != PADDING {
                to[value..next].fill(0);
            }
            (value, next)
        };
        let (class, _) = tlv(CLASS, CLASS_LEN);
        let (_, end) = tlv(FOLLOW_UP, FOLLOW_LEN);
        if to.len() >= end + HEAD {
            let len = to.len() - end - HEAD;
            put(to, end, [UNKNOWN, PADDING]);
            put(to, end + 2, (len as u16).to_be_bytes());
        }
        put(to, class, [self.dscp << 2]);
        at
    }
    fn hear(&mut self, bytes: &[u8], asked: usize) -> Heard {
        if bytes.len() < BASE {
            return Heard::Foreign;
        }
        let session = u16::from_be_bytes([bytes[14], bytes[15]]);
        // A reflector that only implements RFC 8762 sends zeros there.
        if session != self.session && session != 0 {
            return Heard::Foreign;
        }
        let (reflected, number) = (word(bytes, 0), word(bytes, 24));
        if bytes.len() > asked {
            return Heard::Wrong(Some(number));
        }
        let mut answer = Answer {
            number,
            mark: time(bytes, 28),
            far: Far {
                received: from_ntp(time(bytes, 16)),
                answered: from_ntp(time(bytes, 4)),
                ..Far::default()
            },
            count: Some(reflected.wrapping_add(1)),
            ..Answer::default()
        };
        for (at, kind, len) in tlvs(bytes) {
            let flags = bytes[at];
            let value = at + HEAD;
            match (kind, len) {
                _ if flags & (UNKNOWN | MALFORMED) != 0 => {}
                (CLASS, Some(CLASS_LEN)) => {
                    let both = u16::from_be_bytes([bytes[value], bytes[value + 1]]);
                    answer.class = Some(((both >> 2) & 0xff) as u8);
                }
                (FOLLOW_UP, Some(FOLLOW_LEN)) if time(bytes, value + 4) != 0 => {
                    let (of, question) = self.numbers[word(bytes, value) as usize % NUMBERS];
                    if of == word(bytes, value) && question != u32::MAX {
                        answer.followed = Some((question, from_ntp(time(bytes, value + 4))));
                    }
                }
                (PADDING, Some(len))
                    if !bytes[value..value + len].iter().all(|byte| *byte == FILL) =>
                {
                    return Heard::Wrong(Some(number));
                }
                _ => {}
            }
        }
        self.numbers[reflected as usize % NUMBERS] = (reflected, number);
        Heard::Answer(answer)
    }
}

/// The data of the reflector about a question.
#[derive(Copy, Clone, Debug, Default)]
pub struct Reflected {
    /// Time of arrival, ns since 1970.
    pub received: u64,
    /// Time of the answer, ns since 1970.
    pub answered: u64,
    /// Number of earlier packets of the session.
    pub count: u32,
    /// TTL or hop limit with which it arrived.
    pub ttl: u8,
    /// Traffic class with which it arrived.
    pub class: u8,
    /// Number and departure of the last reflected packet, if known.
    pub followed: Option<(u32, u64)>,
}

/// Whether a packet is one of a sender. In these, bytes 16 to 43 are zero (RFC 8762, section
/// 4.2.1), where packets of a reflector contain the received fields. Without this check two
/// reflectors would reflect each other's packets forever. The RFC requires reflectors to ignore
/// these bytes; this is a deviation.
pub fn is_question(bytes: &[u8]) -> bool {
    bytes
        .get(16..BASE)
        .is_some_and(|zeros| zeros.iter().all(|byte| *byte == 0))
}

/// Converts a question into its answer, in place. Returns the traffic class of the answer; `None`
/// if the packet is shorter than 44 bytes.
pub fn reflect(bytes: &mut [u8], told: &Reflected) -> Option<u8> {
    if bytes.len() < BASE {
        return None;
    }
    let mut class = told.class;
    let mut base = [0; BASE];
    put(&mut base, 0, told.count.to_be_bytes());
    put(&mut base, 4, to_ntp(told.answered).to_be_bytes());
    put(&mut base, 12, ERROR.to_be_bytes());
    base[14..16].copy_from_slice(&bytes[14..16]);
    put(&mut base, 16, to_ntp(told.received).to_be_bytes());
    // Number, time and error estimate of the sender.
    base[24..38].copy_from_slice(&bytes[..14]);
    base[40] = told.ttl;
    let found: Vec<_> = tlvs(bytes).collect();
    for (at, kind, len) in found {
        let value = at + HEAD;
        match (kind, len) {
            (PADDING, Some(_)) => bytes[at] = 0,
            (CLASS, Some(CLASS_LEN)) => {
                bytes[at] = 0;
                let wanted = bytes[value] >> 2;
                let seen = u16::from(told.class >> 2) << 4 | u16::from(told.class & 3) << 2;
                put(bytes, value, (u16::from(wanted) << 10 | seen).to_be_bytes());
                class = wanted << 2;
            }
            (FOLLOW_UP, Some(FOLLOW_LEN)) => {
                bytes[at] = 0;
                let (number, left) = told.followed.unwrap_or_default();
                put(bytes, value, number.to_be_bytes());
                put(
                    bytes,
                    value + 4,
                    if left == 0 {
                        [0; 8]
                    } else {
                        to_ntp(left).to_be_bytes()
                    },
                );
                put(bytes, value + 12, [if left == 0 { 0 } else { SOFTWARE }]);
            }
            (CLASS | FOLLOW_UP, Some(_)) | (_, None) => bytes[at] |= MALFORMED,
            // TLVs that are not understood are returned with the flag set.
            _ => bytes[at] |= UNKNOWN,
        }
    }
    bytes[..BASE].copy_from_slice(&base);
    Some(class)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_sender_understands_a_reflector() {
        let mut sender = Sender::new(77, 46);
        let mut bytes = [FILL; 200];
        let mark = sender.ask(5, 1_000, 1_700_000_000_000_000_000, &mut bytes);
        let told = Reflected {
            received: 1_700_000_000_000_005_000,
            answered: 1_700_000_000_000_006_000,
            count: 4,
            ttl: 63,
            class: 0x21,
            followed: Some((3, 1_700_000_000_000_000_900)),
        };
        // The reflector's third packet was the answer to the fourth question, because one question
        // was lost.
        let mut earlier = [FILL; 200];
        sender.ask(4, 0, told.received, &mut earlier);
        reflect(&mut earlier, &Reflected { count: 3, ..told });
        assert!(matches!(
            sender.hear(&earlier, 200),
            Heard::Answer(Answer { followed: None, .. })
        ));
        assert_eq!(reflect(&mut bytes, &told), Some(46 << 2));
        assert_eq!(bytes[40], 63);
        let Heard::Answer(answer) = sender.hear(&bytes, 200) else {
            panic!("no answer")
        };
        assert_eq!(
            (answer.number, answer.mark, answer.count),
            (5, mark, Some(5))
        );
        assert_eq!(
            (answer.far.received, answer.far.answered),
            (told.received, told.answered)
        );
        assert_eq!(answer.followed, Some((4, 1_700_000_000_000_000_900)));
        assert_eq!(answer.class, Some(0x21));
        bytes[199] ^= 1;
        assert!(matches!(sender.hear(&bytes, 200), Heard::Wrong(Some(5))));
    }

    #[test]
    fn what_is_not_understood_goes_back_and_says_so() {
        let mut bytes = vec![0; BASE];
        bytes.extend([0x80, 99, 0, 2, 1, 2]);
        bytes.extend([0x80, CLASS, 0, 3, 1, 2, 3]);
        bytes.extend([0x80, PADDING, 1, 0, 9]);
        let before = bytes.clone();
        assert_eq!(
            reflect(
                &mut bytes,
                &Reflected {
                    class: 8,
                    ..Reflected::default()
                }
            ),
            Some(8)
        );
        assert_eq!(bytes[BASE..BASE + 6], before[BASE..BASE + 6]);
        assert_eq!(bytes[BASE + 6], UNKNOWN | MALFORMED);
        assert_eq!(bytes[BASE + 13], UNKNOWN | MALFORMED);
        assert_eq!(reflect(&mut bytes[..43], &Reflected::default()), None);
    }

    #[test]
    fn what_was_reflected_is_no_question() {
        let mut bytes = [FILL; 200];
        Sender::new(77, 46).ask(5, 1_000, 1_700_000_000_000_000_000, &mut bytes);
        assert!(is_question(&bytes) && is_question(&[0; BASE]) && !is_question(&[0; BASE - 1]));
        reflect(&mut bytes, &Reflected::default());
        // The time of receipt in an answer is never zero, since times count from 1900.
        assert!(!is_question(&bytes));
    }

    proptest! {
        #[test]
        fn a_date_comes_back(ns in 1_u64..4_000_000_000_000_000_000) {
            prop_assert_eq!(from_ntp(to_ntp(ns)), ns);
        }

        #[test]
        fn any_bytes_are_reflected_as_long_as_they_are(
            bytes in proptest::collection::vec(any::<u8>(), 0..300)
        ) {
            let mut answer = bytes.clone();
            let answered = reflect(&mut answer, &Reflected::default());
            prop_assert_eq!(answered.is_some(), bytes.len() >= BASE);
            let _ = Sender::new(0, 0).hear(&bytes, bytes.len());
        }
    }
}
