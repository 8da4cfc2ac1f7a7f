//! A scenario: what a good file means.

use crate::common::*;
use narrows_core::queue::Limit;
use narrows_core::scenario::*;
use narrows_core::tcp::{Clock, Config, EcnMode, EcnNegotiation, EcnUse, Gso, Pacing};
use narrows_core::units::*;

#[test]
fn a_complete_file_is_parsed() {
    let s = good(FULL);
    assert_eq!(s.title, "Everything that this version knows");
    assert_eq!(
        (s.duration, s.warmup, s.seed, s.start_jitter),
        (Span::s(30), Span::s(5), 7, Span::ZERO)
    );
    let p = s.path.bottleneck();
    assert_eq!(
        (p.rate, p.rtt, p.delay_forward),
        (Rate::mbit(40), Span::ms(40), Span::ms(10))
    );
    assert_eq!(
        (p.buffer, s.path.limit(p)),
        (
            Some(Buffer::Bdp(0.5)),
            Some(Limit::Bytes(Bytes::new(100_000)))
        )
    );
    assert_eq!(p.queue.kind, "shelf");
    assert_eq!(p.queue.params.span("target"), Span::ms(7));
    assert_eq!(p.queue.params.count("depth"), 3);
    assert_eq!(p.queue.params.number("beta"), 0.7);
    assert!(p.queue.params.bool("ecn"));
    assert_eq!(p.queue.params.bytes("quantum"), Bytes::new(1514));
    assert_eq!(p.queue.params.word("mode"), "hard");
    assert_eq!(
        (
            p.link,
            p.loss.as_ref().map(|l| l.params.number("probability"))
        ),
        (
            Link::Tbf {
                burst: Bytes::new(20_000),
                peak: None
            },
            Some(0.01)
        )
    );
    let h = &s.host;
    assert_eq!((h.like.as_str(), h.iw, h.hz), ("linux-6.12", 20, 250));
    assert_eq!(
        (h.rmem_default, h.rmem_max),
        (Bytes::new(128_000), Bytes::new(6_000_000))
    );
    assert_eq!(
        (h.clock, h.pacing, h.gso, h.notsent_lowat),
        (Clock::Ms, Pacing::Fq, Gso::Segments(17), Bytes::new(65_536))
    );
    assert_eq!(
        (h.wmem_default, h.wmem_max),
        (Bytes::new(16 << 10), Bytes::new(4 << 20))
    );
    assert_eq!(
        (h.ecn, s.flows[0].ecn, s.flows[2].ecn),
        (EcnMode::On, EcnNegotiation::Requested, EcnNegotiation::Off)
    );
    assert!(
        !h.slow_start_after_idle
            && h.config().ecn == EcnUse::Latched
            && !h.config().slow_start_after_idle
    );
    assert_eq!(s.flows[3].restart, Some(Span::s(25)));
    let ids: Vec<&str> = s.flows.iter().map(|f| f.id.as_str()).collect();
    assert_eq!(ids, ["reno0", "reno1", "short", "web0", "web1", "reno2"]);
    assert_eq!(
        (s.flows[2].size, s.flows[2].start),
        (Some(Bytes::new(1_000_000)), Span::s(2))
    );
    assert_eq!(
        (s.flows[3].stop, s.flows[3].rtt),
        (Some(Span::s(20)), Span::ms(80))
    );
    assert_eq!(
        s.probes,
        [ProbeSpec {
            kind: ProbeKind::Ping,
            interval: Span::ms(10),
            spacing: Default::default(),
            dscp: 0,
            host: 0,
            ip: Default::default(),
            station: None,
            route: None,
            section: Default::default(),
            keys: Default::default(),
        }]
    );
}

#[test]
fn omitted_keys_have_their_defaults() {
    let s = good(LEAST);
    assert_eq!(
        (s.title.as_str(), s.warmup, s.seed, s.start_jitter),
        ("", Span::s(2), 1, Span::ms(40))
    );
    let p = s.path.bottleneck();
    assert_eq!(
        (p.delay_forward, p.buffer, p.queue.kind.as_str()),
        (Span::ms(20), None, "fifo")
    );
    assert_eq!(
        (
            p.link,
            p.loss.as_ref().map(|l| l.params.number("probability"))
        ),
        (Link::Serial, None)
    );
    let h = &s.host;
    assert_eq!((h.like.as_str(), h.iw, h.hz), ("linux-6.12", 10, 1000));
    assert_eq!(
        (h.rmem_default, h.rmem_max),
        (Bytes::new(131_072), Bytes::new(536_870_912))
    );
    assert_eq!((h, h.config()), (&HostSpec::default(), Config::default()));
    assert_eq!(
        (
            s.flows.len(),
            s.flows[0].start,
            s.flows[0].stop,
            s.flows[0].size
        ),
        (1, Span::ZERO, None, None)
    );
    assert!(s.probes.is_empty());
}

#[test]
fn a_bucket_without_a_burst_holds_two_frames_or_a_quarter_of_a_millisecond() {
    let burst = |rate: &str| {
        good(&LEAST.replace(
            "rate = \"20Mbit\"",
            &format!("rate = \"{rate}\"\nlink = \"tbf\""),
        ))
        .path
        .bottleneck()
        .link
    };
    assert_eq!(
        burst("20Mbit"),
        Link::Tbf {
            burst: Bytes::new(3080),
            peak: None
        }
    );
    assert_eq!(
        burst("1Gbit"),
        Link::Tbf {
            burst: Bytes::new(31_250),
            peak: None
        }
    );
}

#[test]
fn the_same_thing_in_other_words_is_the_same_scenario() {
    let same = |a: &str, b: &str| {
        let of =
            |line: &str| good(&LEAST.replace("rtt = \"40ms\"", &format!("rtt = \"40ms\"\n{line}")));
        assert_eq!(of(a), of(b), "{a} | {b}");
    };
    same("loss = \"1%\"", "loss = 0.01");
    same("loss = \"1%\"", "loss = { probability = 0.01 }");
    same(
        "loss = { per = \"superpacket\", probability = \"1%\" }",
        "loss = 0.01",
    );
    same("queue = \"fifo\"", "queue = { kind = \"fifo\" }");
    same(
        "queue = \"shelf\"",
        "queue = { kind = \"shelf\", target = \"5ms\" }",
    );
    same(
        "link = \"tbf\"",
        "link = { kind = \"tbf\", burst = \"3080B\" }",
    );
    same("buffer = \"250kB\"", "buffer = \"250000B\"");
    same(
        "[host]\nrmem = \"128kB…1MB\"",
        "[host]\nrmem = \"128kB..1MB\"",
    );
    same("[host]\ngso = false", "[host]\ngso = \"off\"");
    same("[host]\ngso = true", "");
    same(
        "[host]\nwmem = \"16KiB…1MB\"",
        "[host]\nwmem = \"16384B...1000kB\"",
    );
    same("", "loss = 0");
}

#[test]
fn a_former_name_of_a_parameter_is_read_and_not_written() {
    let of = |params: &str| {
        let cc = format!("cc = {{ kind = \"bbr\", {params} }}");
        read(&LEAST.replace("cc = \"reno\"", &cc))
    };
    let scenario = of("relief_gain = 0.5").unwrap();
    assert_eq!(scenario, of("probe_down_gain = 0.5").unwrap());
    assert!(!scenario.to_toml().contains("relief_gain"));
    let both = of("relief_gain = 0.5, probe_down_gain = 0.6").unwrap_err();
    let message = "is the former name of probe_down_gain, which is present";
    assert!(both.to_string().contains(message), "{both}");
}

#[test]
fn super_packets_are_bounded_in_packets_or_in_bytes() {
    let of = |gso: &str| {
        good(&LEAST.replace("[[flow]]", &format!("[host]\ngso = \"{gso}\"\n[[flow]]"))).host
    };
    for (text, gso) in [
        ("on", Gso::On),
        ("off", Gso::Off),
        ("17p", Gso::Segments(17)),
        ("16KiB", Gso::Bytes(Bytes::new(16_384))),
    ] {
        let host = of(text);
        assert_eq!((host.gso, host.config().gso), (gso, gso));
    }
}

/// One RTT is that of the flow farthest away, but no more than the scenario lasts.
#[test]
fn starts_are_moved_by_the_longest_rtt() {
    let of = |rtt: &str| {
        let flow = format!("cc = \"reno\"\n[[flow]]\ncc = \"reno\"\nrtt = \"{rtt}\"");
        good(&LEAST.replace("cc = \"reno\"", &flow)).start_jitter
    };
    assert_eq!(
        [of("0s"), of("80ms"), of("1h")],
        [Span::ms(40), Span::ms(120), Span::s(10)]
    );
}

/// A flow's own distance is parted as the path's is.
#[test]
fn added_distance_keeps_the_path_s_proportion() {
    let mut path = good(LEAST).path;
    assert_eq!(path.forward_part(Span::ms(81)), Span::us(40_500));
    for (forward, part) in [
        (Span::ZERO, Span::ZERO),
        (Span::ms(10), Span::ms(20)),
        (path.rtt(), Span::ms(80)),
    ] {
        path.hops[0].delay_forward = forward;
        assert_eq!(path.forward_part(Span::ms(80)), part);
    }
}

#[test]
fn loss_is_of_super_packets_or_of_packets() {
    let of =
        |line: &str| good(&LEAST.replace("rtt = \"40ms\"", &format!("rtt = \"40ms\"\n{line}")));
    let loss = |s: &Scenario| s.path.hops[0].loss.clone().unwrap();
    assert_eq!(loss(&of("loss = 0.01")).params.word("per"), "superpacket");
    let s = of("loss = { probability = \"1%\", per = \"packet\" }");
    let params = loss(&s).params;
    assert_eq!(
        (params.number("probability"), params.word("per")),
        (0.01, "packet")
    );
    assert!(s.to_toml().contains(
        "loss = { kind = \"independent\", correlation = 0.0, per = \"packet\", \
            probability = 0.01 }\n"
    ));
    assert!(s.to_json().contains(
        "\"loss\":{\"kind\":\"independent\",\"correlation\":0.0,\"per\":\"packet\",\
            \"probability\":0.01}"
    ));
    assert_eq!(good(&s.to_toml()), s);
}

#[test]
fn a_tree_from_another_language_is_parsed_in_the_same_way() {
    use narrows_core::scenario::value::Node;
    let path = Node::table(vec![
        ("rate".into(), Node::string("20Mbit")),
        ("rtt".into(), Node::string("40ms")),
    ]);
    let flow = Node::table(vec![("cc".into(), Node::string("reno"))]);
    let tree = Tree::new(vec![
        ("duration".into(), Node::string("10s")),
        ("path".into(), path),
        ("flow".into(), Node::array(vec![flow])),
    ]);
    assert_eq!(
        Scenario::from_tree(&tree, "", None, &registry(), &no_files).unwrap(),
        good(LEAST)
    );
}

const SMALL: &str =
    "duration = \"1s\"\n[path]\nrate = \"1Mbit\"\nrtt = \"10ms\"\n[[flow]]\ncc = \"reno\"\n";

#[test]
fn a_scenario_names_its_format() {
    let given = good(SMALL);
    assert!(given.to_toml().starts_with("format = 1\n"));
    assert_eq!(good(&given.to_toml()), given);
    assert_eq!(good(&format!("format = 1\n{SMALL}")), given);
}

#[test]
fn a_newer_format_is_the_only_error() {
    assert_eq!(
        bad(&format!("format = 7\nunknown = 1\n{SMALL}")).to_string(),
        "x.toml:1: format = 7 is newer than format 1, which this version of narrows reads; \
         install a newer version"
    );
    for wrong in ["0", "-1", "\"1\"", "1.5"] {
        let message = bad(&format!("format = {wrong}\nunknown = 1\n{SMALL}")).to_string();
        assert!(message.starts_with("x.toml:1: format = "), "{message}");
        assert!(message.contains("write: format = 1"), "{message}");
        assert!(message.contains("unknown"), "{message}");
    }
}
