//! What the two ends say to each other, one protocol behind one trait: a question onto a datagram,
//! an answer off one.
//!
//! | protocol | the far end tells | answers by |
//! |---|---|---|
//! | narrows ([`Own`]) | when its kernel got the question, when its application was free for it, had it and answered, when its kernel let the last answer go | `narrows serve`, or anything that fills in the 88 bytes of [`crate::protocols::wire`] |
//! | echo ([`Echo`]) | nothing | whatever sends a datagram back as it came (RFC 862) |
//! | STAMP ([`super::stamp`]) | when it got the question and answered; when the last answer left | any reflector of RFC 8762 |
//! | irtt ([`super::irtt`]) | when its application had the question and answered | `irtt server` |

use crate::latency::attribution::Far;
use crate::protocols::wire::{Cookie, TIMED, Timed};
use std::sync::mpsc::Receiver;

/// What a question is known by besides its number: an answer has to bring it back.
pub type Mark = u64;

/// What a datagram turned out to be.
#[derive(Copy, Clone, Debug)]
pub enum Heard {
    /// An answer.
    Answer(Answer),
    /// An answer that is not as it should be, and to which question it seems to be.
    Wrong(Option<u32>),
    /// None of this protocol, or not for us.
    Foreign,
}

/// An answer.
#[derive(Copy, Clone, Debug, Default)]
pub struct Answer {
    /// To which question.
    pub number: u32,
    /// What it brought back.
    pub mark: Mark,
    /// When it was there.
    pub far: Far,
    /// When an earlier answer left the far end's kernel: which, and when by its clock.
    pub followed: Option<(u32, u64)>,
    /// How many questions the far end has got, where it says so.
    pub count: Option<u32>,
    /// The traffic class with which the question arrived there, where it says so.
    pub class: Option<u8>,
}

/// A protocol, as the near end speaks it.
pub trait Protocol {
    /// Bytes of a question, at least.
    fn least(&self) -> usize;
    /// Does an answer tell when the one before it left?
    fn follows_up(&self) -> bool {
        false
    }
    /// A question onto a datagram that still holds the last one; `sent`: now on the even clock,
    /// `ahead`: the clock of dates minus it.
    fn ask(&mut self, number: u32, sent: u64, ahead: u64, to: &mut [u8]) -> Mark;
    /// What a datagram is; `asked`: how long questions are.
    fn hear(&mut self, bytes: &[u8], asked: usize) -> Heard;
}

/// Fills what no protocol uses: the answer must bring it back.
pub const FILL: u8 = 0x6e;

fn filled(rest: &[u8]) -> bool {
    rest.iter().all(|byte| *byte == FILL)
}

fn number_at(bytes: &[u8], at: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[at..at + 8]);
    u64::from_be_bytes(eight)
}

/// narrows' own.
#[derive(Copy, Clone, Debug)]
pub struct Own {
    /// The session's, or any where nobody asks.
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

/// narrows' own, in sessions that follow one another: whoever keeps them opens a new one when the
/// far end has restarted.
#[derive(Debug)]
pub struct Sessions {
    /// The session of now.
    pub own: Own,
    /// Those that follow.
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

/// Whatever comes back as it went: number and time, and filling.
#[derive(Copy, Clone, Debug, Default)]
pub struct Echo;

const ECHO: usize = 16;

impl Echo {
    /// Whether a datagram may be a question of ours: a number of 32 bits in 64, a time, and
    /// filling.
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
