//! The protocols of a latency test, behind one trait: it writes a question to a datagram and reads
//! an answer from one.
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

/// Identification of a question besides its number; an answer must repeat it.
pub type Mark = u64;

/// The meaning of a datagram.
#[derive(Copy, Clone, Debug)]
pub enum Heard {
    /// An answer.
    Answer(Answer),
    /// A wrong answer, apparently to this question.
    Wrong(Option<u32>),
    /// Not a datagram of this protocol, or not for this client.
    Foreign,
}

/// An answer.
#[derive(Copy, Clone, Debug, Default)]
pub struct Answer {
    /// Number of its question.
    pub number: u32,
    /// The identification that it repeats.
    pub mark: Mark,
    /// Times of the server.
    pub far: Far,
    /// Departure of an earlier answer from the server's kernel: number of its question, and time
    /// of the server's clock.
    pub followed: Option<(u32, u64)>,
    /// Number of questions that the server has received, if reported.
    pub count: Option<u32>,
    /// Traffic class with which the question arrived, if reported.
    pub class: Option<u8>,
}

/// A protocol of the client.
pub trait Protocol {
    /// Smallest size of a question, bytes.
    fn least(&self) -> usize;
    /// Whether an answer reports the departure of the previous one.
    fn follows_up(&self) -> bool {
        false
    }
    /// Writes a question to a datagram that still holds the last one. `sent`: present monotonic
    /// time; `ahead`: offset of the realtime clock from it.
    fn ask(&mut self, number: u32, sent: u64, ahead: u64, to: &mut [u8]) -> Mark;
    /// Reads a datagram; `asked`: size of questions.
    fn hear(&mut self, bytes: &[u8], asked: usize) -> Heard;
}

/// Bytes that no protocol uses; the answer must repeat them.
pub const FILL: u8 = 0x6e;

fn filled(rest: &[u8]) -> bool {
    rest.iter().all(|byte| *byte == FILL)
}

fn number_at(bytes: &[u8], at: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[at..at + 8]);
    u64::from_be_bytes(eight)
}

/// The protocol of narrows.
#[derive(Copy, Clone, Debug)]
pub struct Own {
    /// Cookie of the session, or any without a session.
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

/// The protocol of narrows in consecutive sessions: a new one is opened after the server has
/// restarted.
#[derive(Debug)]
pub struct Sessions {
    /// The present session.
    pub own: Own,
    /// The following sessions.
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

/// Datagrams that are returned unchanged: number, time, and padding.
#[derive(Copy, Clone, Debug, Default)]
pub struct Echo;

const ECHO: usize = 16;

impl Echo {
    /// Whether a datagram may be a question of narrows: a number of 32 bits in 64, a time, and
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
