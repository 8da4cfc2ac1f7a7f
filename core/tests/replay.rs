//! Replay of real kernels, packet by packet.
//!
//! Each file in `data/replay/` is one connection of Linux 6.12, recorded at one of its ends (its
//! header describes how). Our [`Sender`] or [`Receiver`] replaces that end. It gets the recorded
//! arrivals at their times and must do what Linux did: the same segments and ACKs, in the same
//! order, at the same time.
//!
//! Flags of a segment: P push, T ECT(0), X CE, C CWR; a SYN with C requests ECN. An ACK with ECE is
//! `AE`.
//!
//! A recording's clock is shifted so that its kernel's ticks coincide with ours; timers then fire
//! on the same edges.

use narrows_core::cc::{self, CcKind, Host, bbr, cubic};
use narrows_core::packet::Ecn;
use narrows_core::param::Params;
use narrows_core::tcp::wire::{AckSegment, MAX_SACKS, Range, Segment};
use narrows_core::tcp::{Config, EcnUse, MSS, Receiver, Sender, State};
use narrows_core::units::{Bytes, Time};

/// The sender's ticks are known to some microseconds only, so what a timer does may be off by as
/// much.
const TIMER_TOLERANCE_NS: u64 = 8_000;

/// The step of the recorded clocks, ns.
const CLOCK_STEP_NS: u64 = 256;

fn config(r: &Recording) -> Config {
    Config {
        ecn: if r.lines[0].1.last() == Some(&"C") {
            EcnUse::Latched
        } else {
            EcnUse::Off
        },
        rmem_default: r.rmem,
        rmem_max: r.rmem_max,
        ..Config::default()
    }
}

/// A recording: its lines, split, and the shift that puts its ticks on ours.
struct Recording {
    lines: Vec<(usize, Vec<&'static str>)>,
    start_ns: u64,
    /// The times at which Linux sent something, ns after the SYN.
    sent_ns: Vec<u64>,
    /// Seed of the congestion control's random choices.
    seed: u64,
    /// Size of the application's data; unlimited if the file has none.
    size: Option<Bytes>,
    /// The receive buffer, at first and at most (`tcp_rmem`).
    rmem: Bytes,
    rmem_max: Bytes,
    cc: &'static str,
}

impl Recording {
    fn parse(text: &'static str) -> Recording {
        let (mut tick_ns, mut jiffy, mut seed, mut size) = (0, 1, 1, None);
        let Config {
            rmem_default: mut rmem,
            mut rmem_max,
            ..
        } = Config::default();
        let mut cc = "cubic";
        let mut lines = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let words: Vec<&str> = line.split(' ').collect();
            match words[0] {
                "#" => {}
                "tick_ns" => tick_ns = num(words[1]),
                "jiffy_mod_512" => jiffy = num(words[1]),
                "seed" => seed = num(words[1]),
                "bytes" => size = Some(Bytes::new(num(words[1]))),
                "cc" => cc = words[1],
                "rmem" => (rmem, rmem_max) = (Bytes::new(num(words[1])), Bytes::new(num(words[2]))),
                _ => lines.push((number + 1, words)),
            }
        }
        // Well into the clock's life, so that no timestamp is 0.
        let start_ns = (512 * 16 + jiffy) * 1_000_000 - tick_ns;
        let sent = lines
            .iter()
            .filter(|(_, words): &&(usize, Vec<_>)| words[0] == "S");
        let sent_ns = sent.map(|(_, words)| num(words[1])).collect();
        Recording {
            lines,
            start_ns,
            sent_ns,
            seed,
            size,
            rmem,
            rmem_max,
            cc,
        }
    }
    fn time(&self, word: &str) -> Time {
        Time::from_ns(self.start_ns + num(word))
    }
    fn stamp(&self, word: &str) -> u32 {
        (self.start_ns / 1_000_000) as u32 + num(word) as u32
    }
    /// The time at which a timer set for `t` fired: the first transmission of Linux at `t` or less
    /// than two steps of its clock later. If there is none, `t` itself.
    fn fired(&self, t: Time) -> Time {
        let ns = self.since_start(t);
        let sent = self.sent_ns.get(self.sent_ns.partition_point(|s| *s < ns));
        let near = sent.filter(|s| **s < ns + 2 * CLOCK_STEP_NS);
        Time::from_ns(self.start_ns + near.copied().unwrap_or(ns))
    }
    fn since_start(&self, t: Time) -> u64 {
        t.as_ns() - self.start_ns
    }
}

fn num(word: &str) -> u64 {
    word.parse()
        .unwrap_or_else(|_| panic!("not a number: {word}"))
}

/// PSH, ECN bits and CWR.
fn flags(word: &str) -> (bool, Ecn, bool) {
    let ecn = match (word.contains('T'), word.contains('X')) {
        (true, _) => Ecn::Ect0,
        (_, true) => Ecn::Ce,
        _ => Ecn::NotEct,
    };
    (word.contains('P'), ecn, word.contains('C'))
}

fn sacks(words: &[&str]) -> ([Range; MAX_SACKS], u8) {
    let mut blocks = [Range::default(); MAX_SACKS];
    for (block, word) in blocks.iter_mut().zip(words) {
        let (start, end) = word.split_once('-').expect("start-end");
        *block = Range {
            start: num(start),
            end: num(end),
        };
    }
    (blocks, words.len().min(MAX_SACKS) as u8)
}

/// Lines of what was done lately, for the report of a difference.
fn tail(done: &[String]) -> String {
    done[done.len().saturating_sub(24)..].join("\n")
}

fn replay_receiver(text: &'static str) -> usize {
    let r = Recording::parse(text);
    let mut receiver = Receiver::new(&config(&r));
    let mut sent: Vec<(Time, AckSegment)> = Vec::new();
    let mut compared = 0;
    let mut done = Vec::new();
    for (number, words) in &r.lines {
        let at = r.time(words[1]);
        if words[0] == "D" {
            run_receiver(&mut receiver, at, &mut sent);
            let seg = match words[2] {
                "syn" => Segment {
                    syn: true,
                    tsval: r.stamp(words[3]),
                    cwr: words.get(4) == Some(&"C"),
                    ..Segment::default()
                },
                "ack" => Segment {
                    tsval: r.stamp(words[3]),
                    tsecr: r.stamp(words[4]),
                    ..Segment::default()
                },
                _ => {
                    let (psh, ecn, cwr) = flags(words[4]);
                    Segment {
                        seq: num(words[2]),
                        len: num(words[3]) as u32,
                        psh,
                        ecn,
                        cwr,
                        tsval: r.stamp(words[5]),
                        tsecr: r.stamp(words[6]),
                        ..Segment::default()
                    }
                }
            };
            receiver.on_segment(at, &seg, &mut |a| sent.push((at, a)));
        } else {
            run_receiver(
                &mut receiver,
                Time::from_ns(at.as_ns() + TIMER_TOLERANCE_NS),
                &mut sent,
            );
            let syn = words[2] == "syn";
            let (blocks, n) = sacks(if syn { &[] } else { &words[6..] });
            let expected = AckSegment {
                ack: if syn { 0 } else { num(words[2]) },
                window: num(words[3]),
                tsecr: r.stamp(words[4]),
                n_sacks: n,
                sacks: blocks,
                syn,
                ece: words[0] == "AE",
                tsval: 0,
                ..AckSegment::default()
            };
            let ours = sent
                .get(compared)
                .map(|(t, a)| (*t, AckSegment { tsval: 0, ..*a }));
            let same = ours.is_some_and(|(t, a)| a == expected && near(t, at));
            assert!(
                same,
                "line {number}: Linux sent at {} {expected:?}\nwe {:?}\nbefore:\n{}",
                r.since_start(at),
                ours.map(|(t, a)| (r.since_start(t), a)),
                tail(&done)
            );
            compared += 1;
        }
        done.push(words.join(" "));
    }
    assert_eq!(
        sent.len(),
        compared,
        "ACKs that Linux did not send: {:?}",
        &sent[compared..]
    );
    compared
}

fn near(ours: Time, theirs: Time) -> bool {
    ours.as_ns().abs_diff(theirs.as_ns()) <= TIMER_TOLERANCE_NS
}

fn run_receiver(receiver: &mut Receiver, until: Time, sent: &mut Vec<(Time, AckSegment)>) {
    while let Some(t) = receiver.next_wakeup().filter(|t| *t < until) {
        receiver.on_timer(t, &mut |a| sent.push((t, a)));
    }
}

/// Compares TCP_INFO of the recording with ours.
fn compare_info(r: &Recording, words: &[&str], sender: &Sender) -> Option<String> {
    let info = sender.info();
    let ours = format!(
        "{} {} {} {}",
        info.cwnd,
        info.ssthresh.map_or("-".into(), |s| s.to_string()),
        info.retransmits,
        match info.state {
            State::Open => "O",
            State::Disorder => "D",
            State::Cwr => "C",
            State::Recovery => "R",
            State::Loss => "L",
        }
    );
    let theirs = format!("{} {} {} {}", words[2], words[3], words[6], words[7]);
    (ours != theirs).then(|| {
        format!(
            "at {} TCP_INFO said {theirs}, we {ours}",
            r.since_start(r.time(words[1]))
        )
    })
}

/// Compares TCP_INFO and TCP_CC_INFO of BBR with ours.
fn compare_bbr(r: &Recording, words: &[&str], sender: &Sender) -> Option<String> {
    let mut state = [0.0; 4];
    sender.cc().describe(&mut |name, value| match name {
        "bw_packets_per_s" => state[0] = value,
        "min_rtt_ms" => state[1] = value,
        "pacing_gain" => state[2] = value,
        "cwnd_gain" => state[3] = value,
        _ => {}
    });
    let ours = [
        sender.info().pacing.as_bit() / 8,
        (state[0] * f64::from(MSS)) as u64,
        (state[1] * 1000.0).round() as u64,
        (state[2] * 256.0) as u64,
        (state[3] * 256.0) as u64,
    ];
    let theirs: Vec<u64> = words[2..].iter().map(|w| num(w)).collect();
    // Linux rounds the bandwidth more than once on the way to user space.
    let same = ours
        .iter()
        .zip(&theirs)
        .enumerate()
        .all(|(i, (a, b))| a.abs_diff(*b) <= u64::from(i == 1));
    (!same).then(|| {
        format!(
            "at {} BBR said {theirs:?}, ours {ours:?}",
            r.since_start(r.time(words[1]))
        )
    })
}

/// As [`replay_sender`], with the congestion control that the file names.
fn replay_named(text: &'static str) -> usize {
    let name = Recording::parse(text).cc;
    let kind = cc::KINDS.iter().find(|kind| kind.name == name);
    replay_sender(text, kind.expect("a shipped congestion control"))
}

/// Every transmission must have the same sequence number, length, flags, timestamp and time. The
/// window, threshold, retransmissions and state of TCP_INFO between them must be equal, too.
/// Returns the number of transmissions.
fn replay_sender(text: &'static str, kind: &CcKind) -> usize {
    let r = Recording::parse(text);
    let host = Host {
        seed: r.seed,
        ..Host::default()
    };
    let algorithm = (kind.make)(&Params::defaults(kind.params), &host);
    let mut sender = Sender::new(config(&r).into(), algorithm, r.size);
    let mut sent: Vec<(Time, Segment)> = Vec::new();
    sender.connect(r.time("0"), &mut |s| sent.push((r.time("0"), s)));
    let mut compared = 0;
    let mut done: Vec<String> = Vec::new();
    for (number, words) in &r.lines {
        let at = r.time(words[1]);
        let mut difference = None;
        match words[0] {
            "A" | "AE" => {
                run_sender(&r, &mut sender, at, &mut sent);
                let syn = words[2] == "syn";
                let (blocks, n) = sacks(if syn { &[] } else { &words[5..] });
                let ack = AckSegment {
                    ack: if syn { 0 } else { num(words[2]) },
                    window: num(words[3]),
                    tsecr: r.stamp(words[4]),
                    n_sacks: n,
                    sacks: blocks,
                    syn,
                    ece: words[0] == "AE",
                    tsval: 1,
                    ..AckSegment::default()
                };
                sender.on_segment(at, &ack, &mut |s| sent.push((at, s)));
            }
            "I" => {
                run_sender(&r, &mut sender, at, &mut sent);
                difference = compare_info(&r, words, &sender);
            }
            "B" => {
                run_sender(&r, &mut sender, at, &mut sent);
                difference = compare_bbr(&r, words, &sender);
            }
            _ => {
                // A timer may still send the missing segments within the tolerance.
                if sent.len() <= compared {
                    run_sender(
                        &r,
                        &mut sender,
                        Time::from_ns(at.as_ns() + TIMER_TOLERANCE_NS),
                        &mut sent,
                    );
                }
                let expected = match words[2] {
                    "syn" => {
                        let asks = words.get(4) == Some(&"C");
                        (0, 0, (false, Ecn::NotEct, asks), true, r.stamp(words[3]))
                    }
                    "ack" => (0, 0, flags("-"), false, r.stamp(words[3])),
                    _ => (
                        num(words[2]),
                        num(words[3]) as u32,
                        flags(words[4]),
                        false,
                        r.stamp(words[5]),
                    ),
                };
                let ours = sent.get(compared);
                let same =
                    |s: &Segment| (s.seq, s.len, (s.psh, s.ecn, s.cwr), s.syn, s.tsval) == expected;
                if ours.is_some_and(|(t, s)| same(s) && near(*t, at)) {
                    compared += 1;
                } else {
                    let ours = ours.map(|(t, s)| (r.since_start(*t), s.seq, s.len, s.ecn, s.cwr));
                    difference = Some(format!("Linux sent {}, we {ours:?}", words[1..].join(" ")));
                }
            }
        }
        if let Some(what) = difference {
            panic!(
                "line {number}: {what}\n{:?}\nbefore:\n{}",
                sender.info(),
                tail(&done)
            );
        }
        done.push(words.join(" "));
    }
    assert_eq!(sent.len(), compared, "segments that Linux did not send");
    compared
}

fn run_sender(r: &Recording, sender: &mut Sender, until: Time, sent: &mut Vec<(Time, Segment)>) {
    while let Some(t) = sender
        .next_wakeup()
        .map(|t| r.fired(t))
        .filter(|t| *t < until)
    {
        sender.on_timer(t, &mut |s| sent.push((t, s)));
    }
}

#[test]
fn receiver_through_slow_start_losses_and_recovery() {
    assert_eq!(
        replay_receiver(include_str!("data/replay/receiver.txt")),
        542
    );
}

#[test]
fn sender_through_random_losses() {
    assert_eq!(
        replay_sender(include_str!("data/replay/sack.txt"), &cubic::KIND),
        491
    );
}

#[test]
fn sender_through_reordering_and_losses() {
    assert_eq!(
        replay_sender(include_str!("data/replay/rack.txt"), &cubic::KIND),
        319
    );
}

#[test]
fn sender_undoes_reductions_caused_by_reordering() {
    assert_eq!(
        replay_sender(include_str!("data/replay/undo.txt"), &cubic::KIND),
        270
    );
}

#[test]
fn sender_comes_down_by_prr() {
    assert_eq!(
        replay_sender(include_str!("data/replay/prr.txt"), &cubic::KIND),
        511
    );
}

#[test]
fn bbr_through_startup_its_losses_and_drain() {
    assert_eq!(
        replay_sender(include_str!("data/replay/bbr.txt"), &bbr::KIND),
        2729
    );
}

#[test]
fn bbr_slow_with_bursts_of_one_segment_and_probe_rtt() {
    assert_eq!(
        replay_sender(include_str!("data/replay/bbr-slow.txt"), &bbr::KIND),
        1050
    );
}

#[test]
fn bbr_finds_a_policer_and_forgets_it() {
    assert_eq!(
        replay_sender(include_str!("data/replay/bbr-police.txt"), &bbr::KIND),
        1538
    );
}

#[test]
fn bbr_through_much_random_loss() {
    assert_eq!(
        replay_sender(include_str!("data/replay/bbr-loss.txt"), &bbr::KIND),
        1211
    );
}

#[test]
fn bbr_carries_a_file_through_losses_and_timeouts() {
    assert_eq!(
        replay_sender(include_str!("data/replay/bbr-transfer.txt"), &bbr::KIND),
        860
    );
}

#[test]
fn bbr_backs_off_where_little_arrives() {
    assert_eq!(
        replay_sender(include_str!("data/replay/bbr-timeouts.txt"), &bbr::KIND),
        109
    );
}

#[test]
fn bbr_carries_a_short_file() {
    assert_eq!(
        replay_sender(include_str!("data/replay/bbr-short.txt"), &bbr::KIND),
        210
    );
}

#[test]
fn bbr_makes_room_for_acks_in_clumps() {
    assert_eq!(
        replay_sender(include_str!("data/replay/bbr-clumps.txt"), &bbr::KIND),
        1152
    );
}

/// Any recording: `NARROWS_REPLAY=FILE cargo test --test replay -- --ignored`;
/// `NARROWS_REPLAY_CC=cubic` for another congestion control than BBR.
#[test]
#[ignore = "replays the file that NARROWS_REPLAY names"]
fn sender_through_a_recording_of_yours() {
    let Some(file) = std::env::var_os("NARROWS_REPLAY") else {
        return;
    };
    let text = std::fs::read_to_string(file).expect("a recording");
    let cubic = std::env::var_os("NARROWS_REPLAY_CC").is_some_and(|cc| cc == "cubic");
    let kind = if cubic { &cubic::KIND } else { &bbr::KIND };
    println!("{} segments", replay_sender(text.leak(), kind));
}

#[test]
fn sender_reacts_to_marks() {
    assert_eq!(replay_named(include_str!("data/replay/ecn-step.txt")), 389);
}

#[test]
fn sender_reacts_to_marks_with_reordering() {
    assert_eq!(replay_named(include_str!("data/replay/ecn-undo.txt")), 409);
}

#[test]
fn sender_sets_cwr_after_every_reduction() {
    assert_eq!(
        replay_named(include_str!("data/replay/ecn-timeouts.txt")),
        161
    );
}

#[test]
fn sender_retransmits_its_syn_without_ecn() {
    assert_eq!(
        replay_named(include_str!("data/replay/ecn-refused.txt")),
        78
    );
}

#[test]
fn receiver_echoes_marks_until_cwr() {
    assert_eq!(
        replay_receiver(include_str!("data/replay/ecn-receiver.txt")),
        186
    );
}

#[test]
fn receiver_equals_linux_with_marks_and_losses() {
    assert_eq!(
        replay_receiver(include_str!("data/replay/ecn-receiver-losses.txt")),
        349
    );
}
