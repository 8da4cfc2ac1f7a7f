//! Error messages about the elements of a path: links, policers, loss and jitter, hops, varying
//! rates.

use crate::common::*;
use narrows_core::scenario::{Scenario, Tree};

/// The files of these tests, by name.
const FILES: &[(&str, &str)] = &[
    ("empty.csv", ""),
    ("letters.csv", "t_s,rate_mbit\n0,1\n1,x\n"),
    ("header.csv", "t_s,rate\n0,1\n"),
    ("order.csv", "t_s,rate_mbit\n0,1\n3,2\n2,1\n"),
    ("dark.csv", "t_s,rate_mbit\n0,0\n"),
    ("half.pps", "1\n2\n1.5\n"),
    ("good.pps", "1\n2\n"),
    ("good.csv", "t_s,rate_mbit\n0,4\n1,8\n"),
    ("delays.txt", "0 20\n10 30\n"),
    ("late.txt", "5 20\n"),
    ("long.txt", "0 20\n10 3600001\n"),
    ("twice.txt", "0 20\n0 20\n"),
];

fn file(name: &str) -> Result<String, String> {
    let found = FILES.iter().find(|(known, _)| *known == name);
    found.map_or(Err("does not exist".into()), |(_, text)| Ok((*text).into()))
}

/// The message for a scenario with these lines in its path (after `rtt`) and in its flow, without
/// the file's name.
fn message(path: &str, flow: &str) -> String {
    let text = format!(
        "duration = \"5s\"\n[path]\nrtt = \"40ms\"\n{path}\n[[flow]]\ncc = \"cubic\"\n{flow}\n"
    );
    let tree = Tree::from_toml(&text, "x").unwrap();
    match Scenario::from_tree(&tree, "x", Some(&text), &registry(), &file) {
        Ok(_) => "right".into(),
        Err(e) => e
            .to_string()
            .replace("\n    write: ", " → ")
            .replace("x:", ""),
    }
}

/// Each line of a path with a rate, and its message.
fn all(cases: &[(&str, &str)]) {
    for (line, expected) in cases {
        assert_eq!(
            message(&format!("rate = \"20Mbit\"\n{line}"), ""),
            *expected
        );
    }
}

#[test]
fn links_and_policers_report_missing_keys() {
    all(&[
        (
            "link = { burst = \"10kB\" }",
            "5: path.link = { burst = \"10kB\" } has no kind; known: serial, tbf, htb, \
             shape_average, shape_peak \
             → link = { kind = \"tbf\", burst = \"10kB\" }",
        ),
        (
            "link = \"shape_peak\"",
            "5: path.link = \"shape_peak\" has no bc → link = { kind = \"shape_peak\", bc = \
             \"25kB\" }",
        ),
        (
            "link = { kind = \"shape_average\", bc = \"1kB\" }",
            "5: path.link.bc = \"1kB\" must hold a full frame, 1514B → link = { kind = \
             \"shape_average\", bc = \"1514B\" }",
        ),
        (
            "policer = \"2Mbit\"",
            "5: path.policer = \"2Mbit\" has no burst → policer = { rate = \"2Mbit\", burst = \
             \"62500B\" }",
        ),
        (
            "policer = \"police\"",
            "5: path.policer = \"police\" has no rate → policer = { kind = \"police\", rate = \
             \"2Mbit\" }",
        ),
        (
            "policer = { kind = \"cir\", cir = \"2Mbit\", bc = \"10kB\", exced = \"cs1\" }",
            "5: path.policer.exced = \"cs1\" is not a parameter of cir; known: cir, bc, be, \
             conform, exceed, violate, \
             header → policer = { kind = \"cir\", cir = \"2Mbit\", bc = \"10kB\", exceed = \
             \"cs1\" }",
        ),
        (
            "policer = { kind = \"trtcm\", cir = \"2Mbit\", cbs = \"9kB\", pir = \"1Mbit\", pbs = \
             \"9kB\" }",
            "5: path.policer.pir = \"1Mbit\" is below cir (2Mbit) → policer = { kind = \"trtcm\", \
             cir = \"2Mbit\", \
             cbs = \"9kB\", pir = \"4Mbit\", pbs = \"9kB\" }",
        ),
    ]);
}

#[test]
fn elements_without_effect_are_reported() {
    all(&[
        (
            "jitter = \"gaussian\"",
            "5: path.jitter = \"gaussian\" is not a known jitter; known: uniform, normal, pareto, \
             paretonormal \
             → jitter = \"uniform\"",
        ),
        (
            "jitter = { kind = \"normal\" }",
            "5: path.jitter = { kind = \"normal\" } has no spread → jitter = { kind = \"normal\", \
             spread = \"1ms\" }",
        ),
        (
            "jitter = { kind = \"normal\", sprad = \"1ms\" }",
            "5: path.jitter.sprad = \"1ms\" is not a parameter of normal; known: spread, \
             correlation, ordered \
             → jitter = { kind = \"normal\", spread = \"1ms\" }",
        ),
        (
            "loss = { per = \"packet\" }",
            "5: path.loss = { per = \"packet\" } has no probability → loss = { per = \"packet\", \
             probability = \"1%\" }",
        ),
        ("jitter = \"0s\"", "right"),
        ("corrupt = { probability = 0.0 }", "right"),
        (
            "reorder = \"1%\"",
            "5: path.reorder = \"1%\" has a late that must be above 0: nothing overtakes a packet \
             that is not late \
             → reorder = { probability = \"1%\", late = \"1ms\" }",
        ),
        (
            "duplicate = \"often\"",
            "5: path.duplicate = \"often\" is not a probability: a number from 0 to 1, or a \
             percentage → duplicate = \"1%\"",
        ),
    ]);
}

#[test]
fn steps_and_outages_are_lists_of_tables() {
    all(&[
        ("steps = []", "right"),
        (
            "steps = { at = \"1s\", rate = \"5Mbit\" }",
            "5: path.steps = { at = \"1s\", rate = \"5Mbit\" } is not a list → steps = [{ at = \
             \"1s\", rate = \"5Mbit\" }]",
        ),
        (
            "steps = [[\"1s\", \"5Mbit\"]]",
            "5: path.steps[0] = [\"1s\", \"5Mbit\"] is not a table → steps = [{ at = \"10s\", \
             rate = \"5Mbit\" }]",
        ),
        (
            "steps = [{ at = \"1s\", rat = \"5Mbit\" }]",
            "5: path.steps[0].rat = \"5Mbit\" is not a key of [[path.steps]]; known: at, rate, \
             rtt, delay, ordered, loss → steps = [{ at = \"1s\", rate = \"5Mbit\" }]",
        ),
        (
            "steps = [{ at = \"1s\" }]",
            "5: path.steps[0].rate is missing: a step changes the rate, the delay or the loss → \
             rate = \"5Mbit\"",
        ),
        (
            "steps = [{ at = \"1s\", delay = \"5ms\" }]",
            "5: path.steps[0].delay = \"5ms\" is the one-way delay of a link; the steps of a hop \
             have rtt → steps = [{ at = \"1s\", rtt = \"5ms\" }]",
        ),
        (
            "steps = [{ at = \"1s\", rate = \"5Mbit\", ordered = false }]",
            "5: path.steps[0].ordered = false has no effect in a step without a change of the \
             delay",
        ),
        (
            "[path.reverse]\nrate = \"5Mbit\"\nsteps = [{ at = \"1s\", rtt = \"5ms\" }]",
            "7: path.reverse.steps[0].rtt = \"5ms\" cannot change here: the steps of [path] \
             change rtt in both directions",
        ),
        (
            "delay_trace = \"delays.txt\"\nsteps = [{ at = \"1s\", rtt = \"5ms\" }]",
            "6: path.steps = [{ at = \"1s\", rtt = \"5ms\" }] cannot change the delay beside a \
             delay_trace, which contains every delay",
        ),
        (
            "delay_trace = { repeat = false }",
            "5: path.delay_trace = { repeat = false } has no file → delay_trace = { file = \
             \"delays.txt\" }",
        ),
        (
            "outages = \"20s\"",
            "5: path.outages = \"20s\" is not a list → outages = [{ at = \"20s\", lasts = \"2s\" \
             }]",
        ),
        (
            "[path.reverse]\nrate = \"5Mbit\"\nsteps = [{ at = 1, rate = \"1Mbit\" }]",
            "7: path.reverse.steps[0].at = 1 needs a unit → steps = [{ at = \"1s\", rate = \
             \"1Mbit\" }]",
        ),
    ]);
}

#[test]
fn a_trace_with_a_mistake_names_its_line() {
    for (name, expected) in [
        (
            "empty.csv",
            "has a mistake: it is empty; write a table that begins with `t_s,rate_mbit`, or \
             milliseconds, one on each \
             line, like `1`",
        ),
        (
            "letters.csv",
            "has a mistake in line 3: it is not a time and a rate, both plain decimals; write a \
             line like `0.5,12.25`",
        ),
        (
            "header.csv",
            "has a mistake in line 1: `t_s,rate` is not a header of two columns; write \
             `t_s,rate_mbit`, or with t_ms, \
             t_us; rate_bit, rate_kbit, rate_gbit",
        ),
        (
            "order.csv",
            "has a mistake in line 4: `2,1` does not come after the line before it; sort the \
             lines by time, and use each time once",
        ),
        (
            "dark.csv",
            "has a mistake: no rate is above 0, so no packet would ever pass; use a rate above 0 \
             in at least one line",
        ),
        (
            "half.pps",
            "has a mistake in line 3: `1.5` is not a whole number of milliseconds; write `1`",
        ),
        ("none.csv", "does not exist"),
    ] {
        let message = message(&format!("trace = \"{name}\""), "");
        assert_eq!(message, format!("4: path.trace = \"{name}\" {expected}"));
    }
    for (name, expected) in [
        (
            "empty.csv",
            "has a mistake: it is empty; write lines like `0 25`",
        ),
        (
            "good.csv",
            "has a mistake in line 1: `t_s,rate_mbit` is not a time and a delay in milliseconds; \
             write a line like `15000 31.5`",
        ),
        (
            "late.txt",
            "has a mistake in line 1: the first time is 5, and the delay before it is unknown; \
             use 0 as the first time, and times relative to it in the other lines",
        ),
        (
            "long.txt",
            "has a mistake in line 2: `10 3600001` is out of range; times up to a year, delays up \
             to an hour",
        ),
        (
            "twice.txt",
            "has a mistake in line 2: `0 20` does not come after the line before it; sort the \
             lines by time, and use each time once",
        ),
    ] {
        let message = message(&format!("rate = \"5Mbit\"\ndelay_trace = \"{name}\""), "");
        assert_eq!(
            message,
            format!("5: path.delay_trace = \"{name}\" {expected}")
        );
    }
    assert_eq!(
        message("trace = \"good.csv\"\nrate = \"5Mbit\"", ""),
        "5: path.rate = \"5Mbit\" cannot be combined with a trace, which contains every rate → \
         trace = \
         \"good.csv\""
    );
    assert_eq!(
        message("trace = \"good.pps\"\nlink = \"tbf\"", ""),
        "5: path.link = \"tbf\" cannot be combined with a packet-delivery trace, which \
         determines when packets leave → link = \"serial\""
    );
}

#[test]
fn keys_of_hops_and_directions_are_reported_at_their_place() {
    all(&[
        (
            "[path.reverse]\nrate = \"5Mbit\"\nrtt = \"5ms\"",
            "7: path.reverse.rtt = \"5ms\" is a key of [path] only: the reverse path has the \
             part of rtt that delay_forward leaves",
        ),
        (
            "reverse = \"5Mbit\"",
            "5: path.reverse = \"5Mbit\" is not a section → [path.reverse]",
        ),
    ]);
    assert_eq!(
        message("rate = \"20Mbit\"", "direction = \"up\""),
        "7: flow[0].direction = \"up\" needs a [path.reverse] for its data → \
         [path.reverse]\n           rate = \"5Mbit\""
    );
    for (written, fix) in [
        ("\"ef\"", "\"EF\""),
        ("\"46\"", "46"),
        ("64", "63"),
        ("\"AF44\"", "\"AF41\""),
    ] {
        let message = message("rate = \"20Mbit\"", &format!("dscp = {written}"));
        assert!(message.ends_with(&format!("→ dscp = {fix}")), "{message}");
    }
}
