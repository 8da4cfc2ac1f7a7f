//! The client side of the protocols of a latency test. All have the same trait, which writes a
//! question to a datagram and reads an answer from one.
//!
//! | protocol | times that the server reports | server |
//! |---|---|---|
//! | narrows ([`Own`]) | arrival, ready, read, answered, last departure | `narrows serve` |
//! | echo ([`Echo`]) | none | any service that returns datagrams unchanged (RFC 862) |
//! | STAMP ([`super::stamp`]) | receipt and answer, last departure | any reflector of RFC 8762 |
//! | irtt ([`super::irtt`]) | receipt and answer of the application | `irtt server` |

use crate::latency::attribution::Far;
use crate::protocols::wire::{Cookie, TIMED, Timed};
use std::sync::mpsc::Receiver;

/// A value that identifies a question besides its number. The answer must repeat it.
pub type Mark = u64;

/// The kind of a received datagram.
#[derive(Copy, Clone, Debug)]
pub enum Heard {
    /// An answer.
    Answer(Answer),
    /// A wrong answer, apparently to the question of this number, if it is known.
    Wrong(Option<u32>),
    /// Not a datagram of this protocol, or not for this client.
    Foreign,
}

/// An answer.
#[derive(Copy, Clone, Debug, Default)]
pub struct Answer {
    /// Number of the question that it answers.
    pub number: u32,
    /// The identifying value that it repeats.
    pub mark: Mark,
    /// Timestamps of the server.
    pub far: Far,
    /// Departure of an earlier answer from the server's kernel: number of its question, and time
    /// of the server's clock.
    pub followed: Option<(u32, u64)>,
    /// Number of questions that the server has received, if reported.
    pub count: Option<u32>,
    /// Traffic class with which the question arrived, if reported.
    pub class: Option<u8>,
}

/// The client side of a protocol.
pub trait Protocol {
    /// Smallest size of a question, bytes.
    fn least(&self) -> usize;
    /// Whether an answer reports the departure of the previous one.
    fn follows_up(&self) -> bool {
        false
    }
    /// Writes a question to a buffer that still has the previous one, and returns its mark. `sent`:
    /// present time of the monotonic clock, ns; `ahead`: realtime clock minus monotonic clock, ns.
    fn ask(&mut self, number: u32, sent: u64, ahead: u64, to: &mut [u8]) -> Mark;
    /// Reads a received datagram; `asked`: size of the questions, bytes.
    fn hear(&mut self, bytes: &[u8], asked: usize) -> Heard;
}

/// Value of the padding bytes of questions, which the answer must repeat.
pub const FILL: u8 = 0x6e;

fn filled(rest: &[u8]) -> bool {
    rest.iter().all(|byte| *byte == FILL)
}

/// The 64-bit number of a question or an answer at a place.
pub(super) fn number_at(bytes: &[u8], at: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[at..at + 8]);
    u64::from_be_bytes(eight)
}

/// The protocol of narrows.
#[derive(Copy, Clone, Debug)]
pub struct Own {
    /// Cookie of the session, or a random one without a session.
    pub cookie: Cookie,
}

impl Protocol for Own {
    fn least(&self) -> usize {
        TIMED
    }
    fn follows_up(&self) -> bool {
        true
    }
    fn ask(&mut self, number: u32, sent: u64, _ahead: u64, to: &mut [u8]) -> Mark {
        let Some(head) = to.first_chunk_mut::<TIMED>() else {
            return 0;
        };
        let timed = Timed {
            cookie: self.cookie,
            number,
            sent,
            ..Timed::default()
        };
        timed.write(head);
        sent
    }
    fn hear(&mut self, bytes: &[u8], asked: usize) -> Heard {
        let Some(told) =
            Timed::from_bytes(bytes).filter(|told| told.answer && told.cookie == self.cookie)
        else {
            return Heard::Foreign;
        };
        if bytes.len() != asked || !filled(&bytes[TIMED..]) {
            return Heard::Wrong(Some(told.number));
        }
        Heard::Answer(Answer {
            number: told.number,
            mark: told.sent,
            far: Far {
                received: told.received,
                ready: told.ready,
                read: told.read,
                answered: told.answered,
                departed: 0,
            },
            followed: (told.departed != 0).then_some((told.departed_number, told.departed)),
            count: (told.count != 0).then_some(told.count),
            class: Some(told.class),
        })
    }
}

/// The protocol of narrows over consecutive sessions. A new one is opened after the server was
/// restarted.
#[derive(Debug)]
pub struct Sessions {
    /// The present session.
    pub own: Own,
    /// Cookies of the following sessions.
    pub renewed: Receiver<Cookie>,
}

impl Protocol for Sessions {
    fn least(&self) -> usize {
        self.own.least()
    }
    fn follows_up(&self) -> bool {
        self.own.follows_up()
    }
    fn ask(&mut self, number: u32, sent: u64, ahead: u64, to: &mut [u8]) -> Mark {
        if let Ok(cookie) = self.renewed.try_recv() {
            self.own.cookie = cookie;
        }
        self.own.ask(number, sent, ahead, to)
    }
    fn hear(&mut self, bytes: &[u8], asked: usize) -> Heard {
        self.own.hear(bytes, asked)
    }
}

/// The protocol with a server that returns datagrams unchanged. A question consists of number,
/// time, and padding.
#[derive(Copy, Clone, Debug, Default)]
pub struct Echo;

/// Size of the smallest question of all protocols, bytes.
pub const ECHO: usize = 16;

impl Echo {
    /// Whether a datagram may be such a question: a number below 2³² in 64 bits, a time, and
    /// padding.
    pub fn recognises(bytes: &[u8]) -> bool {
        bytes.len() >= ECHO && bytes[..4] == [0; 4] && filled(&bytes[ECHO..])
    }
}

impl Protocol for Echo {
    fn least(&self) -> usize {
        ECHO
    }
    fn ask(&mut self, number: u32, sent: u64, _ahead: u64, to: &mut [u8]) -> Mark {
        if let Some(head) = to.first_chunk_mut::<ECHO>() {
            head[..8].copy_from_slice(&u64::from(number).to_be_bytes());
            head[8..].copy_from_slice(&sent.to_be_bytes());
        }
        sent
    }
    fn hear(&mut self, bytes: &[u8], asked: usize) -> Heard {
        if bytes.len() < ECHO {
            return Heard::Foreign;
        }
        let Ok(number) = u32::try_from(number_at(bytes, 0)) else {
            return Heard::Wrong(None);
        };
        if bytes.len() != asked || !filled(&bytes[ECHO..]) {
            return Heard::Wrong(Some(number));
        }
        Heard::Answer(Answer {
            number,
            mark: number_at(bytes, 8),
            ..Answer::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_is_the_question_and_nothing_else() {
        let mut bytes = [FILL; 40];
        let mark = Echo.ask(7, 99, 0, &mut bytes);
        assert!(
            matches!(Echo.hear(&bytes, 40), Heard::Answer(Answer { number: 7, mark: m,
            .. }) if m == mark)
        );
        assert!(matches!(Echo.hear(&bytes[..39], 40), Heard::Wrong(Some(7))));
        assert!(
            Echo::recognises(&bytes) && !Echo::recognises(b"hello") && !Echo::recognises(&[7; 40])
        );
        bytes[39] ^= 1;
        assert!(matches!(Echo.hear(&bytes, 40), Heard::Wrong(Some(7))));
        assert!(matches!(Echo.hear(b"hello", 40), Heard::Foreign));
    }

    #[test]
    fn an_answer_of_ours_is_for_its_cookie_only() {
        let mut own = Own { cookie: [4; 16] };
        let mut bytes = [FILL; TIMED + 1];
        let mark = own.ask(3, 5, 0, &mut bytes);
        assert!(matches!(own.hear(&bytes, TIMED + 1), Heard::Foreign));
        let told = Timed {
            answer: true,
            departed: 8,
            departed_number: 2,
            ..Timed::from_bytes(&bytes).unwrap()
        };
        told.write(bytes.first_chunk_mut().unwrap());
        let Heard::Answer(answer) = own.hear(&bytes, TIMED + 1) else {
            panic!("no answer")
        };
        assert_eq!(
            (answer.number, answer.mark, answer.followed),
            (3, mark, Some((2, 8)))
        );
        assert!(matches!(
            Own { cookie: [5; 16] }.hear(&bytes, TIMED + 1),
            Heard::Foreign
        ));
    }
}
