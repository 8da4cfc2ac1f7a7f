//! Tests of the algorithm rule by rule, of errors in the text of a tree, and of Remy's own files.

use super::*;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

fn at(ms: u64) -> Time {
    Time::ZERO + Span::ms(ms)
}
fn tree(text: &str) -> Tree {
    Tree::read(&format!("remy-tree 1\n{text}")).unwrap_or_else(|e| panic!("{e:?}"))
}
/// A sender that has started.
fn started(text: &str) -> (Remy, Window) {
    let mut remy = Remy::new(tree(text));
    let mut w = Window::new(10);
    remy.on_start(&mut w, &Start::at(at(0)));
    (remy, w)
}
/// An ACK of this many packets, the newest of them sent one `rtt` ago.
fn ack(remy: &mut Remy, w: &mut Window, now: Time, rtt: Option<Span>, packets: u32) {
    let mut sample = Sample::at(now);
    sample.rtt = rtt;
    remy.on_sample(w, &sample);
    let mut ev = Ack::at(now);
    ev.delivered = packets;
    remy.on_ack(w, &ev);
}

#[test]
fn the_window_is_multiplied_and_added_to_and_cut_to_whole_packets() {
    let action = |multiple, increment| Action {
        multiple,
        increment,
        intersend_ms: 1.0,
    };
    assert_eq!(action(0.9, 2).window(15), 15);
    assert_eq!(action(1.5, -3).window(3), 1);
    assert_eq!(action(0.0, -1).window(7), 0);
    assert_eq!(action(1000.0, 0).window(5_000), 1_000_000);
}

#[test]
fn the_initial_window_is_that_of_the_tree_for_an_empty_memory() {
    let (_, w) = started("multiple 1 increment 7 intersend 3");
    // A packet of 1448 bytes each 3 ms.
    assert_eq!((w.cwnd, w.min_burst), (7, 1));
    assert_eq!(w.pacing, Some(Rate::bit(1448 * 8 * 1000 / 3)));
}

#[test]
fn every_packet_acknowledged_moves_the_window_once() {
    let (mut remy, mut w) = started("multiple 1 increment 1 intersend 3");
    ack(&mut remy, &mut w, at(50), Some(Span::ms(50)), 1);
    ack(&mut remy, &mut w, at(60), Some(Span::ms(50)), 4);
    assert_eq!(w.cwnd, 1 + 1 + 4);
}

#[test]
fn no_gap_is_no_limit() {
    let (_, w) = started("multiple 1 increment 7 intersend 0");
    assert_eq!(w.pacing, Some(Rate::bit(u64::MAX)));
}

/// The first ACK only sets the start of the measurement, as in Remy. Then new values have a weight
/// of an eighth in the averages.
#[test]
fn the_memory_has_its_values_after_three_acks() {
    let (mut remy, mut w) = started("multiple 1 increment 1 intersend 3");
    ack(&mut remy, &mut w, at(100), Some(Span::ms(100)), 1);
    assert_eq!(remy.past.memory, [0.0; 4]);
    ack(&mut remy, &mut w, at(112), Some(Span::ms(104)), 1);
    // Sent at 0 and 8, acknowledged at 100 and 112.
    assert_eq!(remy.past.memory, [1.0, 1.5, 1.04, 12.0 / 256.0]);
    ack(&mut remy, &mut w, at(116), Some(Span::ms(100)), 1);
    let slow = 12.0 / 256.0 + (4.0 - 12.0 / 256.0) / 256.0;
    assert_eq!(
        remy.past.memory,
        [1.0 + (8.0 - 1.0) / 8.0, 1.5 + (4.0 - 1.5) / 8.0, 1.0, slow]
    );
}

#[test]
fn an_ack_of_several_packets_is_several_evenly_spaced() {
    let (mut one, mut w) = started("multiple 1 increment 1 intersend 3");
    let (mut two, mut v) = started("multiple 1 increment 1 intersend 3");
    ack(&mut one, &mut w, at(100), Some(Span::ms(100)), 1);
    ack(&mut two, &mut v, at(100), Some(Span::ms(100)), 1);
    ack(&mut one, &mut w, at(105), Some(Span::ms(100)), 1);
    ack(&mut one, &mut w, at(110), Some(Span::ms(100)), 1);
    ack(&mut two, &mut v, at(110), Some(Span::ms(100)), 2);
    assert_eq!((one.past.memory, w.cwnd), (two.past.memory, v.cwnd));
}

#[test]
fn packets_without_an_rtt_count_with_the_next_ack() {
    let (mut remy, mut w) = started("multiple 1 increment 1 intersend 3");
    ack(&mut remy, &mut w, at(100), Some(Span::ms(100)), 1);
    ack(&mut remy, &mut w, at(105), None, 1);
    assert_eq!(w.cwnd, 2);
    ack(&mut remy, &mut w, at(110), Some(Span::ms(100)), 1);
    assert_eq!(
        (w.cwnd, remy.past.memory[1]),
        (4, 5.0 / 8.0 + (5.0 - 5.0 / 8.0) / 8.0)
    );
}

#[test]
fn a_loss_changes_nothing() {
    let (mut remy, mut w) = started("multiple 1 increment 9 intersend 3");
    remy.on_loss(&mut w, &Loss::at(at(50)));
    assert_eq!((w.cwnd, w.ssthresh), (9, super::super::INFINITE_SSTHRESH));
    assert!(remy.owns_recovery());
    // A timeout leaves one packet; the next ACK sets the tree's window.
    w.cwnd = 1;
    ack(&mut remy, &mut w, at(60), Some(Span::ms(50)), 1);
    assert_eq!(w.cwnd, 18);
}

#[test]
fn one_packet_is_always_allowed() {
    let (mut remy, mut w) = started("multiple 0 increment -5 intersend 3");
    assert_eq!(w.cwnd, 1);
    ack(&mut remy, &mut w, at(60), Some(Span::ms(50)), 1);
    assert_eq!((w.cwnd, remy.window), (1, 0));
}

#[test]
fn a_silence_of_the_application_begins_anew_and_a_wait_for_an_ack_does_not() {
    let (mut remy, mut w) = started("multiple 1 increment 1 intersend 3");
    for i in 0..9 {
        ack(&mut remy, &mut w, at(100 + i), Some(Span::ms(100)), 1);
    }
    let mut sent = Sent::at(at(500));
    sent.last_sent = Some(at(100));
    remy.on_sent(&mut w, &sent);
    assert_eq!(w.cwnd, 10);
    sent.app_limited = true;
    remy.on_sent(&mut w, &sent);
    assert_eq!((w.cwnd, &remy.past), (1, &Past::default()));
}

const SMALL: &str = "\
rec_rec_ewma < 4.5
  rtt_ratio < 1.5
    multiple 1 increment 1 intersend 0.25
    multiple 0.9 increment -2 intersend 3
  multiple 1 increment 3 intersend 10
";

#[test]
fn below_a_bound_and_from_it_on() {
    let tree = tree(SMALL);
    let intersend = |memory: Memory| tree.action(&memory).intersend_ms;
    assert_eq!(tree.rules(), 3);
    assert_eq!(intersend([0.0; 4]), 0.25);
    assert_eq!(intersend([9.0, 4.49, 1.5, 0.0]), 3.0);
    assert_eq!(intersend([0.0, 4.5, 1.0, 0.0]), 10.0);
    // Outside of all regions.
    assert_eq!(intersend([1e300, 1e300, 1e300, 1e300]), 10.0);
}

#[test]
fn a_text_reads_back_as_it_is() {
    let text = format!("remy-tree 1\n{SMALL}");
    assert_eq!(tree(SMALL).to_text(), text);
    assert_eq!(
        tree(&format!("\n# a word\n{}", SMALL.replace('\n', "  \n\n"))),
        tree(SMALL)
    );
}

#[test]
fn the_tree_that_comes_with_narrows_is_right_and_written_as_it_should_be() {
    let text = TREES.shipped[0].1;
    let plain: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let tree = Tree::read(text).unwrap_or_else(|e| panic!("{e:?}"));
    assert_eq!(tree.to_text().lines().collect::<Vec<_>>(), plain);
    assert!(tree.rules() > 10);
}

/// Each error with its line and its correction.
#[test]
fn mistakes() {
    let deep: String = (0..70)
        .map(|i| format!("{:1$}rtt_ratio < {2}\n", "", 2 * i, 1e6 - i as f64))
        .collect();
    let cases: &[(&str, usize, &str, &str)] = &[
        ("", 0, "it is empty", "begin with `remy-tree 1`"),
        (
            "remy-tree 2\n",
            1,
            "does not begin so",
            "write `remy-tree 1` before it",
        ),
        (
            "remy-tree 1\n",
            1,
            "not over",
            "write `multiple 1 increment 1 intersend 3` below",
        ),
        (
            "remy-tree 1\nrtt_ratio < 2\n  multiple 1 increment 1 intersend 3\n",
            3,
            "not over",
            "`  multiple 1",
        ),
        (
            "remy-tree 1\nmultiple 1 increment 1 intersend 3\nrtt_ratio < 2\n",
            3,
            "has ended",
            "take it out",
        ),
        (
            "remy-tree 1\n\n  rtt_ratio < 2\n",
            3,
            "has 0 splits above it",
            "write `rtt_ratio < 2`",
        ),
        (
            "remy-tree 1\nrtt_ratio < 2\nmultiple 1 increment 1 intersend 3\n",
            3,
            "has 1 splits",
            "`  multiple 1 inc",
        ),
        (
            "remy-tree 1\nrtt < 2\n",
            2,
            "`rtt` is not a known signal",
            "rtt_ratio",
        ),
        (
            "remy-tree 1\nrtt_ratio < two\n",
            2,
            "`two` is not a number",
            "1.5",
        ),
        (
            "remy-tree 1\nrtt_ratio < inf\n",
            2,
            "`inf` is not a number",
            "1.5",
        ),
        (
            "remy-tree 1\nrtt_ratio < 0\n",
            2,
            "0 splits nothing off",
            "above 0 and below",
        ),
        (
            "remy-tree 1\nrtt_ratio < 2\n  rtt_ratio < 3\n",
            3,
            "leave 0 to 2",
            "above 0 and below 2",
        ),
        (
            "remy-tree 1\nrtt_ratio 2\n",
            2,
            "neither a rule nor a split",
            "write `multiple 1",
        ),
        (
            "remy-tree 1\nmultiple x increment 1 intersend 3\n",
            2,
            "`x` is not a number",
            "multiple 1",
        ),
        (
            "remy-tree 1\nmultiple 1 increment 1.5 intersend 3\n",
            2,
            "`1.5` is not a whole number",
            "increment 1",
        ),
        (
            "remy-tree 1\nmultiple 1 increment 1 intersend 3ms\n",
            2,
            "`3ms` is not a number",
            "intersend 3",
        ),
        (
            "remy-tree 1\nmultiple -1 increment 1 intersend 3\n",
            2,
            "multiple is out of range",
            "write 0 to 1000",
        ),
        (
            "remy-tree 1\nmultiple 1 increment 2000000 intersend 3\n",
            2,
            "increment is out",
            "-1000000 to 1000000",
        ),
        (
            "remy-tree 1\nmultiple 1 increment 1 intersend 1e9\n",
            2,
            "intersend is out",
            "0 to 3600000",
        ),
    ];
    for (text, line, problem, fix) in cases {
        let e = Tree::read(text).expect_err(text);
        assert!(
            e.line == *line && e.problem.contains(problem) && e.fix.contains(fix),
            "{text:?}: {e:?}"
        );
    }
    let e = Tree::read(&format!("remy-tree 1\n{deep}")).expect_err("too deep");
    assert!(
        e.line == 66 && e.problem.contains("more than 64 splits"),
        "{e:?}"
    );
}

fn message(field: u8, content: &[u8]) -> Vec<u8> {
    let mut out = alloc::vec![field << 3 | 2, content.len() as u8];
    out.extend(content);
    out
}
fn double(field: u16, x: f64) -> Vec<u8> {
    let key = field << 3 | 1;
    let mut out = alloc::vec![key as u8 | 0x80, (key >> 7) as u8];
    out.extend(x.to_le_bytes());
    out
}

/// The box of a file, with these fields of its lower and upper corner, and its active axes.
fn boxed(corners: &[(u16, f64, f64)], active: &[u8]) -> Vec<u8> {
    let corner = |of: fn(&(u16, f64, f64)) -> f64| -> Vec<u8> {
        corners
            .iter()
            .flat_map(|one| double(one.0, of(one)))
            .collect()
    };
    let mut content = [
        message(11, &corner(|one| one.1)),
        message(12, &corner(|one| one.2)),
    ]
    .concat();
    content.extend(active.iter().flat_map(|axis| [13 << 3, *axis]));
    message(1, &content)
}
/// A rule of a file: no change of the window, and this gap.
fn gap(intersend: f64) -> Vec<u8> {
    message(3, &[double(32, 1.0), double(33, intersend)].concat())
}

/// The published trees of 2013 have boxes with equal bounds, where Remy split at the lower bound.
#[test]
fn empty_boxes_of_a_file_have_no_rule_in_the_tree() {
    let child = |low: f64, high: f64, intersend: f64| {
        message(
            2,
            &[
                boxed(&[(21, 0.0, 16384.0), (23, low, high)], &[]),
                gap(intersend),
            ]
            .concat(),
        )
    };
    let file = [
        boxed(&[(21, 0.0, 16384.0), (23, 0.0, 16384.0)], &[]),
        child(0.0, 1.0, 2.0),
        child(1.0, 1.0, 99.0),
        child(1.0, 16384.0, 3.0),
    ]
    .concat();
    let wanted = "rtt_ratio < 1\n  multiple 1 increment 0 intersend 2\n  multiple 1 increment 0 \
        intersend 3\n";
    assert_eq!(from_dna(&file).map_err(|e| e.problem), Ok(tree(wanted)));
    // Without the box below, the memories there have no rule.
    let gapped = [
        boxed(&[(21, 0.0, 16384.0), (23, 0.0, 16384.0)], &[]),
        child(1.0, 1.0, 99.0),
        child(1.0, 16384.0, 3.0),
    ]
    .concat();
    assert!(from_dna(&gapped).is_err_and(|e| e.problem.contains("gap")));
}

/// The root lists active axes, or has bounds of every axis that the tree splits.
#[test]
fn axes_that_the_root_does_not_have_do_not_bound_its_rules() {
    let inactive = [
        boxed(&[(22, 0.0, 0.5), (23, 0.0, 9.0), (25, 0.0, 9.0)], &[2]),
        gap(4.0),
    ];
    let wanted = Ok(tree("multiple 1 increment 0 intersend 4\n"));
    assert_eq!(from_dna(&inactive.concat()).map_err(|e| e.problem), wanted);
    let further = |corners: &[_], active: &[u8]| {
        let read = from_dna(&[boxed(corners, active), gap(4.0)].concat());
        read.map_err(|e| format!("{}; {}", e.problem, e.fix))
    };
    for (corners, active, name) in [
        (&[(25, 0.0, f64::MAX)][..], &[][..], "rtt_diff"),
        (&[(21, 0.0, 9.0), (26, 0.0, 9.0)], &[0, 5], "queueing_delay"),
    ] {
        let problem = further(corners, active).expect_err(name);
        assert!(
            problem.contains(&format!("it splits {name}")) && problem.contains("slow_rec_rec_ewma"),
            "{problem}"
        );
    }
    let unknown = further(&[(21, 0.0, 9.0)], &[6]).expect_err("6");
    assert!(unknown.contains("active axis"), "{unknown}");
    let empty = further(&[(21, 9.0, 1.0)], &[]).expect_err("9 to 1");
    assert!(empty.contains("the box of its root is empty"), "{empty}");
}

/// An early format of Remy stored increments as doubles.
#[test]
fn a_rule_with_a_field_of_another_kind_is_an_error() {
    let file = [boxed(&[(21, 0.0, 9.0)], &[]), message(3, &double(31, 1.05))].concat();
    assert!(from_dna(&file).is_err_and(|e| e.problem.contains("of another kind")));
}

/// A file that the test encodes in protobuf by itself: two children, split at an `rtt_ratio` of 2.
#[test]
fn a_file_of_remys_byte_by_byte() {
    let memory = |ratio: f64| [double(21, 0.0), double(22, 0.0), double(23, ratio)].concat();
    let upper = |ratio: f64| {
        [
            double(21, 163_840.0),
            double(22, 163_840.0),
            double(23, ratio),
        ]
        .concat()
    };
    let domain =
        |low: f64, high: f64| [message(11, &memory(low)), message(12, &upper(high))].concat();
    let leaf = |low: f64, high: f64, increment: &[u8], multiple: f64, intersend: f64| {
        let rule = [
            &[0xf8, 0x01][..],
            increment,
            &double(32, multiple),
            &double(33, intersend),
        ]
        .concat();
        [message(1, &domain(low, high)), message(3, &rule)].concat()
    };
    // sint32: 3 is 6, −2 is 3.
    let below = leaf(0.0, 2.0, &[6], 1.0, 0.5);
    let above = leaf(2.0, 163_840.0, &[3], 0.75, 4.0);
    let fields = [
        message(1, &domain(0.0, 163_840.0)),
        // The other half first, with an irrelevant field between.
        message(2, &above),
        message(4, b"ignored"),
        message(2, &below),
    ];
    let file = fields.concat();
    let wanted = "rtt_ratio < 2\n  multiple 1 increment 3 intersend 0.5\n  multiple 0.75 \
        increment -2 intersend 4\n";
    assert_eq!(from_dna(&file).map_err(|e| e.problem), Ok(tree(wanted)));
    for n in 0..file.len() {
        assert!(from_dna(&file[..n]).is_err(), "{n} bytes");
    }
}
