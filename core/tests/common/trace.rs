//! Recordings of queue disciplines in Linux, and their replay.
//!
//! A file in `data/queue/` has the result of one discipline for each packet of an artificial
//! arrival pattern. Its header has the discipline, its parameters (`queue = …`, as in a scenario)
//! and the link below it. In the replay, each packet is enqueued at its arrival in Linux, and a
//! packet is dequeued at each departure in Linux: both in the recorded order, at the recorded time.
//! The results are compared with Linux's, packet by packet.
#![allow(dead_code)]

use narrows_core::packet::{Ack, Ecn, Packet};
use narrows_core::queue::{DropReason, QueueContext, QueueDiscipline, Sink};
use narrows_core::registry::Registry;
use narrows_core::scenario::Scenario;
use narrows_core::units::{Bytes, Span, Time};

/// A packet of a recording: a UDP datagram, or a segment of TCP.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// By arrival, from 0.
    pub number: u32,
    /// Below 1024 its flow, above these ten bits six of the host it comes from, and then how the
    /// one differs that it goes to.
    pub flow: u32,
    /// Bytes of the whole frame.
    pub size: u16,
    /// The code point.
    pub dscp: u8,
    /// As it is now.
    pub ecn: Ecn,
    /// When it entered.
    pub enqueued_at: Time,
    /// Its acknowledgement, if that was recorded.
    pub ack: Option<Ack>,
}

impl Packet for Frame {
    fn size(&self) -> Bytes {
        Bytes::new(u64::from(self.size))
    }
    fn enqueued_at(&self) -> Time {
        self.enqueued_at
    }
    fn set_enqueued_at(&mut self, now: Time) {
        self.enqueued_at = now;
    }
    /// Where a discipline has 1024 buckets (or a power of two below), flow `n` is in bucket `n`: a
    /// filter did that in Linux. `fq` looks at the lowest bits instead.
    fn flow_hash(&self, _seed: u64) -> u32 {
        self.flow << 22 | self.flow
    }
    /// Its host: flows 1024 and up are of further ones.
    fn src_hash(&self, _seed: u64) -> u32 {
        self.flow >> 10 & 63
    }
    fn dst_hash(&self, seed: u64) -> u32 {
        (self.src_hash(seed) ^ self.flow >> 16) << 6
    }
    fn ack(&self) -> Option<Ack> {
        self.ack
    }
    fn ecn(&self) -> Ecn {
        self.ecn
    }
    fn set_ce(&mut self) {
        self.ecn = Ecn::Ce;
    }
    fn dscp(&self) -> u8 {
        self.dscp
    }
    /// Measured: `memory_used` of `fq_codel` over datagrams of 64 to 1514 bytes.
    fn memory(&self, _size: Bytes) -> Bytes {
        Bytes::new(match self.size {
            0..=303 => 896,
            304..=687 => 1280,
            _ => 2304,
        })
    }
}

/// The verdict on a packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Default)]
pub enum Verdict {
    /// It never came out.
    #[default]
    Drop,
    /// It came out as it was, at this time.
    Pass(Time),
    /// It came out with a mark it had not.
    Mark(Time),
    /// It had not come out when the recording ended.
    Waits,
    /// It came out never, or after the recording ended.
    Unknown,
}

impl Verdict {
    /// The same, but for the time?
    pub fn agrees(self, other: Verdict) -> bool {
        let unknown = [self, other].contains(&Verdict::Unknown);
        unknown || std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
    /// When it came out.
    pub fn departure(self) -> Option<Time> {
        match self {
            Verdict::Pass(at) | Verdict::Mark(at) => Some(at),
            Verdict::Drop | Verdict::Waits | Verdict::Unknown => None,
        }
    }
}

/// The events in Linux, in order.
#[derive(Copy, Clone, Debug)]
pub enum Event {
    /// It arrived.
    Arrival(Time, Frame),
    /// One left.
    Departure(Time),
}

/// The words of an ACK of this connection: `a<number>:<flags> t<timestamp>/<echo>` and SACK blocks
/// `<from>-<to>`.
fn acknowledgement(connection: u64, words: &[&str]) -> Option<Ack> {
    let (next, flags) = words.first()?.strip_prefix('a')?.split_once(':')?;
    let mut ack = Ack {
        connection,
        pure: flags.contains('p'),
        next: next.parse().ok()?,
        ecn: (flags.contains('E'), flags.contains('W')),
        ..Ack::default()
    };
    for word in &words[1..] {
        let pair = |word: &str, by| -> Option<(u32, u32)> {
            let (a, b) = word.split_once(by)?;
            Some((a.parse().ok()?, b.parse().ok()?))
        };
        match word.strip_prefix('t') {
            Some(times) => ack.timestamps = Some(pair(times, '/')?),
            None => {
                *ack.blocks.0.get_mut(usize::from(ack.blocks.1))? = pair(word, '-')?;
                ack.blocks.1 += 1;
            }
        }
    }
    Some(ack)
}

/// A recording.
pub struct Recording {
    /// Its file.
    pub name: String,
    /// The discipline, as a scenario would have it.
    pub scenario: Scenario,
    /// In order.
    pub events: Vec<Event>,
    /// By the packet's number.
    pub verdicts: Vec<Verdict>,
}

impl Recording {
    /// Reads one; the headers say what its lines mean.
    pub fn parse(name: &str, text: &str) -> Recording {
        let (mut queue, mut rate, mut step_ns, mut now_ns) = ("", "", 1, 0);
        let (mut events, mut verdicts) = (Vec::new(), Vec::<Verdict>::new());
        for (at, line) in text.lines().enumerate() {
            let bad = || -> ! { panic!("{name}:{}: {line}", at + 1) };
            let num = |word: &str| word.parse::<u64>().unwrap_or_else(|_| bad());
            let words: Vec<&str> = line.split(' ').collect();
            match (line.as_bytes().first(), line.split_once(" = ")) {
                (Some(b'#'), _) => {}
                (_, Some(("queue", _))) => queue = line,
                (_, Some(("rate", _))) => rate = line,
                (_, Some(("clock_ns", value))) => now_ns = num(value),
                (_, Some(("step_ns", value))) => step_ns = num(value),
                (Some(sign @ (b'w' | b'?')), _) => {
                    let verdict = if *sign == b'w' {
                        Verdict::Waits
                    } else {
                        Verdict::Unknown
                    };
                    words[1..]
                        .iter()
                        .for_each(|n| verdicts[num(n) as usize] = verdict);
                }
                (Some(sign @ (b'+' | b'-')), _) => {
                    now_ns += num(&words[0][1..]) * step_ns;
                    let now = Time::from_ns(now_ns);
                    if *sign == b'+' {
                        let ecn = match words.get(3) {
                            None | Some(&"-") => Ecn::NotEct,
                            Some(&"0") => Ecn::Ect0,
                            Some(&"1") => Ecn::Ect1,
                            Some(&"c") => Ecn::Ce,
                            Some(_) => bad(),
                        };
                        let frame = Frame {
                            number: verdicts.len() as u32,
                            flow: num(words[1]) as u32,
                            size: num(words[2]) as u16,
                            dscp: words.get(4).map_or(0, |word| num(word) as u8),
                            ecn,
                            enqueued_at: now,
                            ack: words
                                .get(5..)
                                .and_then(|ack| acknowledgement(num(words[1]), ack)),
                        };
                        verdicts.push(Verdict::Drop);
                        events.push(Event::Arrival(now, frame));
                    } else {
                        // No number: a dequeue of the discipline returned nothing.
                        if let Some(number) = words.get(1) {
                            let marked = words.get(2) == Some(&"c");
                            verdicts[num(number) as usize] = if marked {
                                Verdict::Mark(now)
                            } else {
                                Verdict::Pass(now)
                            };
                        }
                        events.push(Event::Departure(now));
                    }
                }
                _ => bad(),
            }
        }
        let text = format!(
            "duration = \"1s\"\n[path]\n{rate}\nrtt = \"1ms\"\n{queue}\n[[flow]]\ncc = \"cubic\"\n"
        );
        let scenario = Scenario::from_toml(&text, name, &Registry::<Frame>::standard())
            .unwrap_or_else(|e| panic!("{e}"));
        Recording {
            name: name.into(),
            scenario,
            events,
            verdicts,
        }
    }

    /// Every recording of these disciplines, by name of the file.
    pub fn of(kinds: &[&str]) -> Vec<Recording> {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/queue");
        let mut files: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|file| file.unwrap().path())
            .collect();
        files.sort();
        let recordings = files.iter().filter_map(|file| {
            let name = file.file_name()?.to_str()?;
            // `fq_codel-limit100.txt` is one of `fq_codel`.
            let kind = name.strip_suffix(".txt")?.split('-').next()?;
            let text = || std::fs::read_to_string(file).unwrap();
            kinds
                .contains(&kind)
                .then(|| Recording::parse(name, &text()))
        });
        recordings.collect()
    }

    /// A discipline as the recording's, its randomness from `seed`.
    pub fn discipline(&self, seed: u64) -> Box<dyn QueueDiscipline<Frame>> {
        let registry = Registry::<Frame>::standard();
        let choice = &self.scenario.path.bottleneck().queue;
        let context = QueueContext {
            limit: None,
            rate: self.scenario.path.bottleneck().rate,
            hz: 1000,
            seed,
        };
        registry.make_queue(choice, &context).unwrap()
    }

    /// Returns the verdict on each packet, by its number.
    pub fn play(&self, queue: &mut dyn QueueDiscipline<Frame>) -> Vec<Verdict> {
        let mut played = Played {
            verdicts: vec![Verdict::Waits; self.verdicts.len()],
        };
        let mut came = Vec::with_capacity(self.verdicts.len());
        for event in &self.events {
            let (Event::Arrival(now, _) | Event::Departure(now)) = *event;
            while let Some(at) = queue.next_wakeup().filter(|at| *at <= now) {
                queue.on_wakeup(at, &mut played);
                assert!(
                    queue.next_wakeup().is_none_or(|next| next > at),
                    "{}: it asks again for {at:?}",
                    self.name
                );
            }
            match *event {
                Event::Arrival(now, frame) => {
                    came.push(frame.ecn);
                    queue.enqueue(now, frame, &mut played);
                }
                Event::Departure(now) => {
                    if let Some(frame) = queue.dequeue(now, &mut played) {
                        let verdict = &mut played.verdicts[frame.number as usize];
                        assert_eq!(
                            *verdict,
                            Verdict::Waits,
                            "{}: packet {} again",
                            self.name,
                            frame.number
                        );
                        *verdict = if frame.ecn == came[frame.number as usize] {
                            Verdict::Pass(now)
                        } else {
                            Verdict::Mark(now)
                        };
                    }
                }
            }
        }
        played.verdicts
    }

    /// Compares, packet by packet.
    pub fn compare(&self, ours: &[Verdict]) -> Agreement {
        let mut agreement = Agreement {
            packets: ours.len(),
            verdicts: 0,
            times: 0,
            first: None,
        };
        for (number, (ours, linux)) in ours.iter().zip(&self.verdicts).enumerate() {
            agreement.verdicts += usize::from(ours.agrees(*linux));
            let near = match (ours.departure(), linux.departure()) {
                (Some(a), Some(b)) => a.since(b).max(b.since(a)) <= Span::us(1),
                (a, b) => a == b || *linux == Verdict::Unknown,
            };
            agreement.times += usize::from(near && ours.agrees(*linux));
            if agreement.first.is_none() && !(near && ours.agrees(*linux)) {
                agreement.first = Some((number, *ours, *linux));
            }
        }
        agreement
    }
}

/// How many packets agree.
#[derive(Debug)]
pub struct Agreement {
    /// Of so many.
    pub packets: usize,
    /// Passed, marked or dropped as in Linux.
    pub verdicts: usize,
    /// That, and left within a microsecond of when they did.
    pub times: usize,
    /// The first that differs: its number, ours, Linux's.
    pub first: Option<(usize, Verdict, Verdict)>,
}

struct Played {
    verdicts: Vec<Verdict>,
}

impl Sink<Frame> for Played {
    fn dropped(&mut self, _now: Time, frame: Frame, _why: DropReason) {
        let verdict = &mut self.verdicts[frame.number as usize];
        assert_eq!(
            *verdict,
            Verdict::Waits,
            "packet {} dropped again",
            frame.number
        );
        *verdict = Verdict::Drop;
    }
}
