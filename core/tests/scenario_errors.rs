//! Error messages of a scenario. The golden texts below are the messages for users.

use crate::common::*;
use narrows_core::scenario::value::Node;
use narrows_core::scenario::{Error, Scenario, Tree};

/// `LEAST` with one line replaced (or, where `old` is empty, added to the end).
fn with(old: &str, new: &str) -> String {
    if old.is_empty() {
        return format!("{LEAST}{new}\n");
    }
    assert!(LEAST.contains(old));
    LEAST.replace(old, new)
}

/// The errors of `LEAST` with this change.
fn message(old: &str, new: &str) -> String {
    bad(&with(old, new)).to_string()
}

/// The errors of `LEAST` with this line in its `[path]`.
fn path(line: &str) -> String {
    message("rtt = \"40ms\"", &format!("rtt = \"40ms\"\n{line}"))
}

#[test]
fn a_bare_number_gets_its_unit() {
    assert_eq!(
        message("rtt = \"40ms\"", "rtt = 40        # two-way"),
        "x.toml:5: path.rtt = 40 needs a unit\n    write: rtt = \"40ms\""
    );
    assert_eq!(
        message("duration = \"10s\"", "duration = 10.5"),
        "x.toml:1: duration = 10.5 needs a unit\n    write: duration = \"10.5s\""
    );
    assert_eq!(
        message("rate = \"20Mbit\"", "rate = 20000000"),
        "x.toml:4: path.rate = 20000000 needs a unit\n    write: rate = \"20000000bit\""
    );
    assert_eq!(
        message("rtt = \"40ms\"", "rtt = 0.04"),
        "x.toml:5: path.rtt = 0.04 needs a unit\n    write: rtt = \"0.04s\""
    );
    assert_eq!(
        path("buffer = 170"),
        "x.toml:6: path.buffer = 170 needs a unit: bdp, p (packets) or bytes\n    write: buffer = \
         \"170p\""
    );
}

#[test]
fn a_corrected_line_keeps_its_valid_parts() {
    assert_eq!(
        path("queue = { kind = \"shelf\", target = 5, depth = 2 }"),
        "x.toml:6: path.queue.target = 5 needs a unit\n    write: queue = { kind = \"shelf\", \
         target = \"5ms\", depth = 2 }"
    );
    assert_eq!(
        path("queue = { kind = \"shelf\", tarhet = \"5ms\" }"),
        "x.toml:6: path.queue.tarhet = \"5ms\" is not a parameter of shelf; known: target, \
         depth, beta, ecn, quantum, \
         drain, mode\n    write: queue = { kind = \"shelf\", target = \"5ms\" }"
    );
    assert_eq!(
        message("", "cuont = 3"),
        "x.toml:9: flow[0].cuont = 3 is not a key of [[flow]]; known: route, route_back, from, \
         to, reroute, cc, count, rtt, start, stop, restart, size, id, transport, ecn, direction, \
         dscp, like, workload, sender, receiver, host, ip, station\n    write: count = 3"
    );
    assert_eq!(
        message("[path]", "[paht]").lines().nth(1).unwrap().trim(),
        "write: [path]",
    );
}

#[test]
fn corrections_by_line() {
    for (line, fix) in [
        ("loss = 5", "loss = \"5%\""),
        ("loss = \"0.01\"", "loss = 0.01"),
        ("loss = -0.1", "loss = 0.0"),
        ("loss = nan", "loss = \"1%\""),
        ("loss = \"200%\"", "loss = \"100%\""),
        ("loss = true", "loss = \"1%\""),
        (
            "loss = { probability = 2 }",
            "loss = { probability = \"2%\" }",
        ),
        (
            "loss = { probability = {}, per = \"packet\" }",
            "loss = { probability = \"1%\", per = \"packet\" }",
        ),
        (
            "loss = { probability = 0.02, per = \"pakcet\" }",
            "loss = { probability = 0.02, per = \"packet\" }",
        ),
        (
            "loss = { probability = 0.02, per = 1 }",
            "loss = { probability = 0.02, per = \"superpacket\" }",
        ),
        (
            "loss = { probabilty = \"2%\", per = \"packet\" }",
            "loss = { probability = \"2%\", per = \"packet\" }",
        ),
        ("buffer = \"1BDP\"", "buffer = \"1bdp\""),
        ("buffer = \"0.5 BPD\"", "buffer = \"0.5bdp\""),
        ("buffer = \"170 packets\"", "buffer = \"170p\""),
        ("buffer = \"64KB\"", "buffer = \"64kB\""),
        ("buffer = \"100B\"", "buffer = \"1514B\""),
        ("buffer = \"0bdp\"", "buffer = \"1bdp\""),
        ("buffer = \"1e30bdp\"", "buffer = \"10000bdp\""),
        ("buffer = \"1e400bdp\"", "buffer = \"10000bdp\""),
        ("buffer = \"200ms\"", "buffer = \"1bdp\""),
        ("loss = \"nan%\"", "loss = \"1%\""),
        ("buffer = \"-1bdp\"", "buffer = \"1bdp\""),
        ("buffer = 0.5", "buffer = \"0.5bdp\""),
        ("buffer = 250000", "buffer = \"250kB\""),
        ("queue = \"ffio\"", "queue = \"fifo\""),
        ("queue = \"bfifo\"", "queue = \"fifo\""),
        (
            "queue = { kind = \"shelf\", depth = 9 }",
            "queue = { kind = \"shelf\", depth = 8 }",
        ),
        (
            "queue = { kind = \"shelf\", depth = \"3\" }",
            "queue = { kind = \"shelf\", depth = 3 }",
        ),
        (
            "queue = { kind = \"shelf\", beta = \"0.3\" }",
            "queue = { kind = \"shelf\", beta = 0.3 }",
        ),
        (
            "queue = { kind = \"shelf\", ecn = 1 }",
            "queue = { kind = \"shelf\", ecn = true }",
        ),
        (
            "queue = { kind = \"shelf\", ecn = \"yes\" }",
            "queue = { kind = \"shelf\", ecn = true }",
        ),
        (
            "queue = { kind = \"shelf\", ecn = \"off\" }",
            "queue = { kind = \"shelf\", ecn = false }",
        ),
        (
            "queue = { kind = \"shelf\", mode = \"herd\" }",
            "queue = { kind = \"shelf\", mode = \"hard\" }",
        ),
        (
            "queue = { kind = \"shelf\", target = \"2s\" }",
            "queue = { kind = \"shelf\", target = \"1s\" }",
        ),
        ("link = \"tfb\"", "link = \"tbf\""),
        (
            "link = { kind = \"tbf\", burst = 3080 }",
            "link = { kind = \"tbf\", burst = \"3080B\" }",
        ),
        (
            "link = { kind = \"tbf\", brust = \"3kB\" }",
            "link = { kind = \"tbf\", burst = \"3kB\" }",
        ),
        ("delay_forward = \"50ms\"", "delay_forward = \"40ms\""),
        ("jitter = 5", "jitter = \"5ms\""),
        (
            "jitter = { kind = \"norml\", spread = \"5ms\" }",
            "jitter = { kind = \"normal\", spread = \"5ms\" }",
        ),
        ("duplicate = 2", "duplicate = \"2%\""),
        (
            "policer = { rate = \"2Mbit\" }",
            "policer = { rate = \"2Mbit\", burst = \"62500B\" }",
        ),
        (
            "link = \"shape_peak\"",
            "link = { kind = \"shape_peak\", bc = \"25kB\" }",
        ),
        (
            "steps = [{ at = 10, rate = \"5Mbit\" }]",
            "steps = [{ at = \"10s\", rate = \"5Mbit\" }]",
        ),
        ("steps = [{ at = \"10s\" }]", "rate = \"5Mbit\""),
        (
            "outages = [{ at = \"10s\", last = \"2s\" }]",
            "outages = [{ at = \"10s\", lasts = \"2s\" }]",
        ),
        ("[host]\niw = 0", "iw = 1"),
        ("[host]\nhz = 5000", "hz = 1000"),
        ("[host]\nlike = \"linux-4.3\"", "like = \"linux-4.4\""),
        ("[host]\nlike = \"linux-7.9\"", "like = \"linux-7.3\""),
        (
            "[host]\nwith_rules = [\"tso_deferral_caped\"]",
            "with_rules = [\"tso_deferral_capped\"]",
        ),
        (
            "[host]\nwithout_rules = \"sack_compression\"",
            "without_rules = [\"sack_compression\"]",
        ),
        ("[host]\nlike = \"plan9\"", "like = \"linux-6.12\""),
        ("[host]\nclock = \"msec\"", "clock = \"us\""),
        ("[host]\nclock = 1", "clock = \"us\""),
        ("[host]\npacing = \"of\"", "pacing = \"off\""),
        ("[host]\necn = \"pasive\"", "ecn = \"passive\""),
        ("[host]\necn = 1", "ecn = \"on\""),
        ("[host]\necn = false", "ecn = \"off\""),
        (
            "[host]\nslow_start_after_idle = 0",
            "slow_start_after_idle = false",
        ),
        ("[host]\npacing = false", "pacing = \"off\""),
        ("[host]\ngso = 17", "gso = \"17p\""),
        ("[host]\ngso = 0", "gso = \"1p\""),
        ("[host]\ngso = 65536", "gso = \"64KiB\""),
        ("[host]\ngso = 1000000", "gso = \"64KiB\""),
        ("[host]\ngso = \"0p\"", "gso = \"1p\""),
        ("[host]\ngso = \"of\"", "gso = \"off\""),
        ("[host]\ngso = \"16KIB\"", "gso = \"16KiB\""),
        ("[host]\ngso = \"1B\"", "gso = \"1514B\""),
        ("[host]\ngso = []", "gso = \"on\""),
        ("[host]\nwmem = \"4MB\"", "wmem = \"16KiB…4MB\""),
        ("[host]\nwmem = 4194304", "wmem = \"16KiB…512MiB\""),
        (
            "[host]\nnotsent_lowat = 16384",
            "notsent_lowat = \"16384B\"",
        ),
        ("[host]\nnotsent_lowat = \"0B\"", "notsent_lowat = \"1B\""),
        ("[host]\nread_latency = 5", "read_latency = \"5us\""),
        ("[host]\nread_latency = \"1ms\"", "read_latency = \"100us\""),
        ("[host]\nrmem = \"6MB\"", "rmem = \"128KiB…6MB\""),
        ("[host]\nrmem = \"6MB…1MB\"", "rmem = \"1MB…6MB\""),
        ("[host]\nrmem = \"128KB..6MB\"", "rmem = \"128kB…6MB\""),
    ] {
        let errors = bad(&with("rtt = \"40ms\"", &format!("rtt = \"40ms\"\n{line}")));
        assert_eq!(errors.list().len(), 1, "{errors}");
        assert_eq!(errors.list()[0].fix.as_deref(), Some(fix), "{errors}");
    }
    for (line, fix) in [
        ("count = 0", "count = 1"),
        ("count = 1000000", "count = 100000"),
        ("count = 2.0", "count = 2"),
        ("rtt = 120", "rtt = \"120ms\""),
        ("rtt = \"2h\"", "rtt = \"1h\""),
        ("start = \"11s\"", "start = \"0s\""),
        ("start = \"2s\"\nstop = \"1s\"", "stop = \"10s\""),
        ("restart = \"4s\"", "stop = \"2s\"\nrestart = \"4s\""),
        ("stop = \"3s\"\nrestart = \"3s\"", "restart = \"4s\""),
        ("stop = \"3s\"\nrestart = 5", "restart = \"5s\""),
        ("ecn = \"yes\"", "ecn = true"),
        ("ecn = \"AccECN\"", "ecn = \"accecn\""),
        ("ecn = \"accecn\"\n[host]\necn = \"off\"", "ecn = false"),
        ("dscp = \"ef\"", "dscp = \"EF\""),
        ("dscp = 64", "dscp = 63"),
        ("direction = \"upp\"", "direction = \"up\""),
        ("direction = \"up\"", "[path.reverse]\nrate = \"5Mbit\""),
        ("ecn = true\n[host]\necn = \"off\"", "ecn = false"),
        ("size = \"0B\"", "size = \"1B\""),
        ("id = \"a b\"", "id = \"a_b\""),
        ("[[probe]]\nkind = \"png\"", "kind = \"ping\""),
        (
            "[[probe]]\nkind = \"ping\"\ninterval = 20",
            "interval = \"20ms\"",
        ),
        ("[[probe]]\ninterval = \"20ms\"", "kind = \"ping\""),
    ] {
        let errors = bad(&with("", line));
        assert_eq!(errors.list().len(), 1, "{errors}");
        assert_eq!(errors.list()[0].fix.as_deref(), Some(fix), "{errors}");
    }
}

#[test]
fn interface_keys_require_its_rate() {
    for line in ["ring = 4", "bql = false", "tsq = false"] {
        let text = path(&format!("[host]\n{line}"));
        assert!(
            text.contains("needs nic, the rate of the sender's interface"),
            "{text}"
        );
        assert!(
            text.contains(&format!("write: nic = \"1Gbit\"\n           {line}")),
            "{text}"
        );
    }
}

#[test]
fn a_queue_that_is_fifo_with_a_certain_buffer_is_explained() {
    for (name, buffer) in [
        ("pfifo", "packets, such as 1000p"),
        ("bfifo", "bytes, such as 150kB"),
    ] {
        let text = path(&format!("queue = \"{name}\""));
        let problem = format!("is fifo with a buffer in {buffer}");
        assert!(text.contains(&problem), "{text}");
        assert!(text.contains("write: queue = \"fifo\""), "{text}");
    }
}

#[test]
fn an_unknown_unit_of_a_buffer_is_not_called_a_spelling_of_another() {
    let text = path("buffer = \"1bdpp\"");
    assert!(
        text.contains("has the unknown unit bdpp; did you mean bdp?"),
        "{text}"
    );
    for (unit, right) in [("BDP", "bdp"), ("pkts", "p")] {
        let text = path(&format!("buffer = \"10{unit}\""));
        let problem = format!("has the unit {unit}, which is written {right}");
        assert!(text.contains(&problem), "{text}");
    }
}

#[test]
fn a_correction_contains_no_other_error() {
    let fixes = |cc: &str| -> Vec<Option<String>> {
        let errors = bad(&with("cc = \"reno\"", &format!("cc = {cc}")));
        errors.list().iter().map(|e| e.fix.clone()).collect()
    };
    // The correction of each error contains that of the other ones in the same line.
    let right = Some("cc = { kind = \"cubic\", beta = 0.99, c = 0.4 }".to_string());
    let wrong = "{ kind = \"cubic\", bta = 0.99, c = \"x\" }";
    assert_eq!(fixes(wrong), [right.clone(), right.clone()]);
    let wrong = "{ kind = \"cubic\", beta = 7, c = \"x\" }";
    assert_eq!(fixes(wrong), [right.clone(), right]);
    // A name that is present is no correction of another one.
    for wrong in [
        "{ kind = \"cubic\", bta = 0.7, beta = 0.8 }",
        "{ kind = \"cubic\", beta = 0.8, bta = 0.7 }",
    ] {
        assert_eq!(fixes(wrong), [None], "{wrong}");
    }
    let wrong = "{ kind = \"cubic\", beat = 0.7, bta = 0.8 }";
    assert_eq!(fixes(wrong).iter().flatten().count(), 1);
    let twice = "{ kind = \"cubic\", beta = 0.7, beta = 0.8 }";
    let text = message("cc = \"reno\"", &format!("cc = {twice}"));
    assert_eq!(
        text,
        "x.toml:8:36: not TOML: duplicate key beta; write it once"
    );
}

#[test]
fn a_value_of_another_type_is_reported_by_its_type() {
    for (line, problem) in [
        ("buffer = \"200ms\"", "is a time, but a buffer is a size"),
        ("buffer = \"1e400bdp\"", "must be above 0bdp and at most"),
        ("loss = \"nan%\"", "is not a number from 0 to 1"),
    ] {
        let text = path(line);
        assert!(text.contains(problem), "{text}");
    }
}

#[test]
fn keys_that_conflict_with_a_workload_are_reported() {
    let flow = |line: &str| message("", line);
    let text = flow("workload = \"wbe\"");
    assert!(
        text.contains("is not a known workload; known: web, "),
        "{text}"
    );
    assert!(text.contains("write: workload = \"web\""), "{text}");
    for key in ["size = \"1MB\"", "rtt = \"10ms\""] {
        let text = flow(&format!("workload = \"web\"\n{key}"));
        assert!(
            text.contains("cannot be combined with a workload"),
            "{text}"
        );
    }
    let text = flow("workload = \"udp\"");
    assert!(
        text.contains("sends datagrams without congestion control"),
        "{text}"
    );
    let text = flow("workload = { kind = \"web\", sizes = [\"3kB\", \"5\"] }");
    assert!(
        text.contains("an entry, number 2, that needs a unit"),
        "{text}"
    );
    assert!(
        text.contains("write: workload = { kind = \"web\", sizes = [\"3kB\", \"5B\"] }"),
        "{text}"
    );
    let text = flow("workload = { kind = \"web\", sizes = \"3kB\" }");
    assert!(
        text.contains("is not a list") && text.contains("sizes = [\"3kB\"]"),
        "{text}"
    );
    let text = flow("workload = { kind = \"poisson\", mean = \"1MB\", most = \"10kB\" }");
    assert!(
        text.contains("is not above the mean") && text.contains("most = \"10MB\""),
        "{text}"
    );
    let text = flow("workload = { kind = \"bursty\", sleep = \"60s\", rate = \"1Gbit\" }");
    assert!(
        text.contains("more than 100000 datagrams in a burst"),
        "{text}"
    );
    let text = flow("workload = { kind = \"torrent\", down = 0, up = 0 }");
    assert!(
        text.contains("down = 0 leaves no peer") && text.contains("down = 20, up = 0"),
        "{text}"
    );
}

#[test]
fn all_errors_are_reported_together_in_the_order_of_lines() {
    let text = "duration = 10\n\n[[flow]]\ncount = \"two\"\n\n[path]\nrtt = \"40msec\"\n";
    assert_eq!(
        bad(text).to_string(),
        "x.toml:1: duration = 10 needs a unit
    write: duration = \"10s\"
x.toml:3: flow[0].cc is missing
    write: cc = \"reno\"
x.toml:4: flow[0].count = \"two\" is not a count (a whole number without unit)
    write: count = 1
x.toml:6: path.rate is missing
    write: rate = \"20Mbit\"
x.toml:7: path.rtt = \"40msec\" has the unit msec, which is written ms
    write: rtt = \"40ms\""
    );
}

#[test]
fn missing_required_keys_are_reported() {
    assert!(
        bad("")
            .to_string()
            .contains("write: [path]\n           rate = ")
    );
    let text = message("[[flow]]\ncc = \"reno\"\n", "");
    assert!(text.contains("at least one flow or probe"), "{text}");
    assert!(message("[[flow]]", "[flow]").contains("write: [[flow]]"));
    assert!(
        message("", "id = \"a\"\n[[flow]]\ncc = \"reno\"\nid = \"a\"").contains("another flow")
    );
}

#[test]
fn a_key_in_the_wrong_section_is_reported_with_its_section() {
    assert_eq!(
        message("duration = \"10s\"", "duration = \"10s\"\nrate = \"1Mbit\""),
        "x.toml:2: rate = \"1Mbit\" is not a key of the top level, but of [path]
    write: [path]
           rate = \"1Mbit\""
    );
    assert_eq!(
        message("", "seed = 4"),
        "x.toml:9: flow[0].seed = 4 is not a key of [[flow]], but of the top level, before any \
         section\n    write: seed = 4"
    );
}

#[test]
fn errors_of_syntax_have_line_and_column() {
    let errors = bad(&with("rtt = \"40ms\"", "rtt = 40ms"));
    let e = &errors.list()[0];
    assert_eq!(
        (errors.list().len(), e.line, e.key.as_str()),
        (1, Some(5), "")
    );
    assert!(e.column.is_some());
    assert_eq!(e.fix.as_deref(), Some("rtt = \"40ms\""), "{errors}");
    assert!(
        bad("a = 1\na = 2\n")
            .to_string()
            .starts_with("x.toml:2:1: not TOML: ")
    );
    assert_eq!(bad("[path\n").list()[0].line, Some(1));
}

#[test]
fn without_text_the_key_is_the_place() {
    let path = Node::table(vec![
        ("rate".into(), Node::string("20Mbit")),
        ("rtt".into(), Node::integer(40)),
    ]);
    let flow = Node::table(vec![("cc".into(), Node::string("rneo"))]);
    let tree = Tree::new(vec![
        ("duration".into(), Node::string("10s")),
        ("path".into(), path),
        ("flow".into(), Node::array(vec![flow])),
    ]);
    let errors = Scenario::from_tree(
        &tree,
        "",
        None,
        &registry(),
        &narrows_core::scenario::no_files,
    )
    .unwrap_err();
    let text = errors.to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "path.rtt = 40 needs a unit");
    assert_eq!(lines[1], "    write: rtt = \"40ms\"");
    assert!(
        lines[2]
            .starts_with("flow[0].cc = \"rneo\" is not a known congestion control; known: reno"),
        "{text}"
    );
    assert_eq!(lines[3], "    write: cc = \"reno\"");
    assert_eq!(errors.list()[0].line, None);
}

#[test]
fn no_input_crashes_the_parser() {
    let deep = "[".repeat(100_000);
    for text in [
        format!("a = {deep}"),
        format!("{}b = 1", "a.".repeat(100_000)),
        format!("[{}b]", "a.".repeat(100_000)),
        "seed = 99999999999999999999999999999999999999999999999999".into(),
        "seed = -1\nduration = inf\nwarmup = nan".into(),
        "duration = \"\\u0000\\u001b[31m\"".into(),
        "title = 1979-05-27".into(),
        "\"\\u001b\" = 1".into(),
        "\"\" = \"\"".into(),
        "path = [[[]]]\nflow = [1, [2], {}]\nprobe = {}\nhost = 3".into(),
        format!("title = \"{}\"", "x".repeat(1_000_000)),
        format!("{} = 1", "x".repeat(1_000_000)),
        (0..10_000).map(|i| format!("k{i} = 1\n")).collect(),
        format!("{LEAST}count = 100000\n[[flow]]\ncc = \"reno\"\n"),
    ] {
        let shown = bad(&text).to_string();
        assert!(shown.len() < 20_000, "{} bytes", shown.len());
        assert!(
            !shown.chars().any(|c| c.is_control() && c != '\n'),
            "{shown:?}"
        );
    }
}

#[test]
fn an_error_in_host_is_reported_once() {
    let message = message("", "[host]\niw_ = 10");
    assert_eq!(message.matches("host.iw_").count(), 1, "{message}");
}

/// `hop` is a section: the number was not meant as one.
#[test]
fn a_number_is_not_moved_to_where_a_section_belongs() {
    let message = message("", "hop = 2");
    assert!(
        message.contains("flow[0].hop = 2 is not a key of [[flow]]; known: "),
        "{message}"
    );
    assert!(!message.contains("[path]\n"), "{message}");
}

/// Errors beyond the listed ones are only counted: no correction is computed.
#[test]
fn twenty_thousand_unknown_keys_are_counted() {
    let keys: String = (0..20_000).map(|n| format!("ket{n} = 1\n")).collect();
    let begin = std::time::Instant::now();
    let message = bad(&with("rtt = \"40ms\"", &keys)).to_string();
    assert!(
        message.contains("… and 19951 more"),
        "{}",
        &message[message.len() - 200..]
    );
    // It took a minute when each key was compared with each other; a busy machine takes a second.
    assert!(begin.elapsed().as_secs() < 30, "{:?}", begin.elapsed());
}

/// The first of bbr3 and the thirty-first of bbr would both be bbr30.
#[test]
fn generated_ids_never_collide() {
    let text = LEAST.replace(
        "[[flow]]",
        "[[flow]]\ncc = \"bbr3\"\n[[flow]]\ncc = \"bbr\"\ncount = 31\n[[flow]]",
    );
    let s = good(&text);
    assert_eq!(
        (s.flows[0].id.as_str(), s.flows[31].id.as_str()),
        ("bbr30", "bbr30-2")
    );
    let ids: std::collections::BTreeSet<&str> =
        s.flows.iter().map(|flow| flow.id.as_str()).collect();
    assert_eq!(ids.len(), s.flows.len());
    // One that somebody wrote stays, wherever it stands.
    let kind = &s.flows[32].cc.kind;
    let text = format!("{LEAST}[[flow]]\ncc = \"{kind}\"\nid = \"{kind}0\"\n");
    let s = good(&text);
    assert_eq!(
        [s.flows[0].id.clone(), s.flows[1].id.clone()],
        [format!("{kind}0-2"), format!("{kind}0")]
    );
}

#[test]
fn an_outage_after_the_end_is_noticed() {
    let message = |at: &str| {
        let line = format!("rtt = \"40ms\"\noutages = [{{ at = \"{at}\", lasts = \"1s\" }}]");
        good(&with("rtt = \"40ms\"", &line)).notices(&registry())
    };
    assert!(message("9s").is_empty());
    assert_eq!(
        message("10s"),
        [
            "The outage at 10s begins after the end of the run at 10s and has no effect; choose an \
             earlier time."
        ]
    );
}

#[test]
fn a_summary_interval_of_a_few_packets_is_noticed() {
    // LEAST has 20 Mbit/s, of which 22 full packets take 13.3 ms.
    let message = |warmup: &str| {
        let line = format!("duration = \"10s\"\nwarmup = \"{warmup}\"");
        good(&with("duration = \"10s\"", &line)).notices(&registry())
    };
    assert!(message("9986ms").is_empty());
    let message = message("9988ms");
    assert_eq!(message.len(), 1);
    // A super-packet crosses the path whole.
    let whole = with(
        "duration = \"10s\"",
        "duration = \"10s\"\nwarmup = \"9800ms\"",
    );
    assert!(good(&whole).notices(&registry()).is_empty());
    let whole = whole.replace("rtt = \"40ms\"", "rtt = \"40ms\"\noffload = true");
    assert!(good(&whole).notices(&registry())[0].contains("the time of 7.6 super-packets"));
    assert!(
        message[0].starts_with("The summary interval of 12ms is the time of 19.8 full packets"),
        "{message:?}"
    );
}

#[test]
fn hops_that_are_no_list_do_not_put_the_keys_of_the_path_in_doubt() {
    let errors = bad(&with("rtt = \"40ms\"", "rtt = \"40ms\"\nhop = 2"));
    assert_eq!(errors.list().len(), 1, "{errors}");
    assert_eq!(errors.list()[0].key, "path.hop");
}

#[test]
fn a_key_that_an_engine_does_not_support_has_its_line() {
    let text = "duration = \"1s\"\n[path]\nrate = \"1Mbit\"\nrtt = \"1ms\"\nqueue = { kind = \
                \"codel\", ecn = true }\n[host]\niw = 3\n[host.a]\niw = 4\n[[flow]]\ncc = \
                \"cubic\"\n[[flow]]\ncc = \"reno\"\nhost = 2\n";
    good(text);
    let tree = Tree::from_toml(text, "x.toml").unwrap();
    let message = |key: &str| {
        Error::unsupported(&tree, "x.toml", Some(text), key, "is unsupported").to_string()
    };
    for (key, place) in [
        ("path.queue.ecn", "5: path.queue.ecn = true"),
        ("host.a", "8: host.a"),
        ("flow[1].host", "14: flow[1].host = 2"),
        // An absent key has the place of its section.
        ("flow[1].ecn", "12: flow[1].ecn"),
        ("path.buffer", "2: path.buffer"),
    ] {
        assert_eq!(message(key), format!("x.toml:{place} is unsupported"));
    }
}

#[test]
fn datagrams_fit_into_the_mtu_of_their_hosts() {
    let text = |host: &str, packet: &str| {
        format!(
            "duration = \"1s\"\n[path]\nrate = \"1Mbit\"\nrtt = \"1ms\"\n[host]\n{host}\n[[flow]]\n\
             workload = {{ kind = \"udp\", packet = \"{packet}\" }}\n"
        )
    };
    good(&text("", "1472B"));
    good(&text("mtu = \"9000B\"", "8972B"));
    let errors = bad(&text("", "1473B"));
    assert_eq!(
        errors.to_string(),
        "x.toml:8: flow[0].workload.packet = \"1473B\" exceeds the mtu of its hosts minus 28B of \
         headers\n    write: workload = { kind = \"udp\", packet = \"1472B\" }"
    );
    // The default is checked, too.
    let usual = text("mtu = \"1000B\"", "").replace(", packet = \"\"", "");
    assert!(
        bad(&usual)
            .to_string()
            .contains("has a packet that exceeds the mtu"),
        "{}",
        bad(&usual)
    );
}
