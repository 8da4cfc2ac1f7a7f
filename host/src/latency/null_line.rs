//! Lines without a network: a simulation in virtual time for tests, and an immediate responder to
//! measure the cost of the engine.

use super::exchange::Line;
use crate::protocols::wire::{TIMED, Timed};
use crate::sys::timed_socket::{Got, Left};
use std::collections::VecDeque;
use std::io;

/// Answers every timed question at once. Its clock advances with each reading. The real duration of
/// a run is the cost of the engine without system calls.
#[derive(Debug, Default)]
pub struct NullLine {
    now: u64,
    sent: u32,
    left: Option<Left>,
    waiting: Option<[u8; TIMED]>,
    len: usize,
}

/// Advance of the clock per reading, ns: about the time that reading a real clock takes.
const STEP: u64 = 30;

impl Line for NullLine {
    fn now(&mut self) -> u64 {
        self.now += STEP;
        self.now
    }
    fn ahead(&self) -> u64 {
        1_700_000_000_000_000_000
    }
    fn send(&mut self, bytes: &[u8]) -> io::Result<Option<u32>> {
        let id = self.sent;
        self.sent += 1;
        self.left = Some(Left {
            id,
            stamp: self.now + 1,
            hardware: 0,
        });
        self.len = bytes.len();
        self.waiting = bytes.first_chunk::<TIMED>().copied();
        Ok(Some(id))
    }
    fn wait(&mut self, to: &mut [u8], until: u64, _exact: bool) -> io::Result<Option<Got>> {
        let Some(mut head) = self.waiting.take() else {
            self.now = self.now.max(until);
            return Ok(None);
        };
        if let Some(told) = Timed::from_bytes(&head) {
            let answer = Timed {
                answer: true,
                received: self.now + 2,
                ready: self.now + 2,
                read: self.now + 3,
                answered: self.now + 4,
                departed: self.now.saturating_sub(100),
                departed_number: told.number.wrapping_sub(1),
                ..told
            };
            answer.write(&mut head);
        }
        to[..TIMED].copy_from_slice(&head);
        to[TIMED..self.len].fill(crate::latency::protocol::FILL);
        Ok(Some(Got {
            len: self.len,
            from: None,
            class: 0,
            ttl: 64,
            stamp: self.now + 10,
            hardware: 0,
            lost: 0,
        }))
    }
    fn rest(&mut self, until: u64) {
        self.now = self.now.max(until);
    }
    fn departure(&mut self) -> Option<Left> {
        self.left.take()
    }
    fn tells_departures(&self) -> bool {
        true
    }
}

/// How a [`PlayedLine`] answers a question.
#[derive(Copy, Clone, Debug, Default)]
pub struct Fate {
    /// Time from the question to its answer, ns; `None`: no answer.
    pub after: Option<u64>,
    /// Time from the answer to a duplicate of it, ns; `None`: no duplicate.
    pub again: Option<u64>,
    /// Whether one byte of the answer is changed.
    pub damaged: bool,
    /// Time from the arrival of the answer until the application wakes up, ns.
    pub woken_late: u64,
}

/// Answers in virtual time, each question as its [`Fate`] states.
pub struct PlayedLine<F: FnMut(u32) -> Fate> {
    /// The present virtual time, ns.
    pub now: u64,
    /// Departure of each question, ns.
    pub sent_at: Vec<u64>,
    /// Called for each answer; returns whether one byte of the answer is changed.
    pub damage_on_arrival: Option<Box<dyn FnMut() -> bool>>,
    fate: F,
    coming: VecDeque<(u64, u64, Vec<u8>)>,
}

impl<F: FnMut(u32) -> Fate> PlayedLine<F> {
    /// A line whose questions have these fates; its clock starts at 1 s.
    pub fn new(fate: F) -> PlayedLine<F> {
        PlayedLine {
            now: 1_000_000_000,
            sent_at: Vec::new(),
            damage_on_arrival: None,
            fate,
            coming: VecDeque::new(),
        }
    }
}

impl<F: FnMut(u32) -> Fate> Line for PlayedLine<F> {
    fn now(&mut self) -> u64 {
        self.now += STEP;
        self.now
    }
    fn ahead(&self) -> u64 {
        0
    }
    fn send(&mut self, bytes: &[u8]) -> io::Result<Option<u32>> {
        let id = self.sent_at.len() as u32;
        self.sent_at.push(self.now);
        let fate = (self.fate)(id);
        let mut bytes = bytes.to_vec();
        if fate.damaged {
            if let Some(last) = bytes.last_mut() {
                *last ^= 1;
            }
        }
        if let Some(after) = fate.after {
            let at = self.now + after;
            self.coming
                .push_back((at, at + fate.woken_late, bytes.clone()));
            if let Some(again) = fate.again {
                self.coming.push_back((at + again, at + again, bytes));
            }
        }
        self.coming.make_contiguous().sort_by_key(|(at, ..)| *at);
        Ok(Some(id))
    }
    fn wait(&mut self, to: &mut [u8], until: u64, _exact: bool) -> io::Result<Option<Got>> {
        match self.coming.front() {
            Some((_, woken, _)) if *woken <= until.max(self.now) => {}
            _ => {
                self.now = self.now.max(until);
                return Ok(None);
            }
        }
        let Some((at, woken, mut bytes)) = self.coming.pop_front() else {
            return Ok(None);
        };
        if self
            .damage_on_arrival
            .as_mut()
            .is_some_and(|damaged| damaged())
        {
            if let Some(last) = bytes.last_mut() {
                *last ^= 1;
            }
        }
        self.now = self.now.max(woken);
        to[..bytes.len()].copy_from_slice(&bytes);
        Ok(Some(Got {
            len: bytes.len(),
            from: None,
            class: 0,
            ttl: 64,
            stamp: at,
            hardware: 0,
            lost: 0,
        }))
    }
    fn rest(&mut self, until: u64) {
        self.now = self.now.max(until);
    }
    fn departure(&mut self) -> Option<Left> {
        let id = self.sent_at.len() as u32 - 1;
        Some(Left {
            id,
            stamp: *self.sent_at.last()? + 500,
            hardware: 0,
        })
    }
    fn tells_departures(&self) -> bool {
        true
    }
}
