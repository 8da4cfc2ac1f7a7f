//! A scenario: what holds for every file.

use crate::common::*;
use narrows_core::kernel::{Rule, series};
use narrows_core::net::loss;
use narrows_core::param::Value;
use narrows_core::scenario::keys;
use narrows_core::scenario::list;
use narrows_core::scenario::*;
use narrows_core::tcp::{Clock, EcnMode, EcnNegotiation, Gso, Pacing};
use narrows_core::units::*;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// The same cases in every run.
fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 512,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn buffer() -> impl Strategy<Value = Option<Buffer>> {
    prop_oneof![
        Just(None),
        (1514u64..1_000_000_000_000).prop_map(|n| Some(Buffer::Bytes(Bytes::new(n)))),
        (1u64..=10_000_000).prop_map(|n| Some(Buffer::Packets(n))),
        (1e-9..10_000.0f64).prop_map(|x| Some(Buffer::Bdp(x))),
    ]
}

prop_compose! {
    fn scenario()(
        title in "\\PC{0,30}[\\x00-\\x7f]{0,9}",
        times in (1_000_000u64..86_400_000_000_000, 0.0..1.0f64, any::<u64>(),
        0u64..3_600_000_000_000),
        path in (1u64..=10_000_000_000_000, 1_000u64..=3_600_000_000_000, 0.0..1.0f64, buffer(),
        0.0..=1.0f64, any::<bool>()),
        shelf in (1_000u64..=1_000_000_000, 0.0..=1.0f64, any::<bool>()),
        burst in proptest::option::of(1514u64..1_000_000_000),
        host in (1u64..=1000, 4096u64..100_000_000, 0u64..100_000_000, 1u64..=(1 << 32)),
        ecn in 0usize..3,
        choices in (0usize..3, 0usize..2, 0usize..4, 1u32..=65_535, 1514u64..=65_536),
        ends in proptest::collection::vec(
            (0.0..1.0f64, proptest::option::of(1u64..9_000_000), any::<bool>(),
            0u64..=3_600_000_000_000), 1..4),
    ) -> Scenario {
        let mut s = good(FULL);
        s.title = title;
        s.duration = Span::ns(times.0);
        s.warmup = Gain(times.1) * s.duration;
        s.seed = times.2;
        s.start_jitter = Span::ns(times.3.min(times.0));
        s.path.hops[0].rate = Rate::bit(path.0);
        s.path.hops[0].rtt = Span::ns(path.1);
        s.path.hops[0].delay_forward = Gain(path.2) * s.path.hops[0].rtt;
        s.path.hops[0].buffer = path.3;
        let per = if path.5 { "packet" } else { "superpacket" };
        let set = [("probability", Value::Number(path.4)), ("per", Value::Word(per.into()))];
        s.path.hops[0].loss = Some(Choice::new("independent", loss::KINDS[0].params, &set));
        s.path.hops[0].link = burst.map_or(Link::Serial, |b| Link::Tbf { burst: Bytes::new(b),
        peak: None });
        s.path.hops[0].queue.params.set("target", Value::Span(Span::ns(shelf.0)));
        s.path.hops[0].queue.params.set("beta", Value::Number(shelf.1));
        s.path.hops[0].queue.params.set("ecn", Value::Bool(shelf.2));
        s.host.iw = host.0 as u32;
        s.host.rmem_default = Bytes::new(host.1);
        s.host.rmem_max = Bytes::new(host.1 + host.2);
        s.host.wmem_default = Bytes::new(host.1 / 2 + 4096);
        s.host.wmem_max = Bytes::new(host.1 / 2 + 4096 + host.2);
        s.host.notsent_lowat = Bytes::new(host.3);
        s.host.read_latency = Span::ns(host.3 % 100_001);
        let known = series();
        s.host.like = known[choices.3 as usize % known.len()].clone();
        s.host.with_rules = [Rule::TsoDeferralCapped][..choices.1 % 2].into();
        s.host.without_rules = [Rule::SackCompression][..choices.0 % 2].into();
        s.host.pacing = Pacing::ALL[choices.0];
        s.host.ecn = EcnMode::ALL[ecn];
        s.host.slow_start_after_idle = ecn == 0;
        s.host.clock = Clock::ALL[choices.1];
        s.host.gso = [Gso::On, Gso::Off, Gso::Segments(choices.3),
        Gso::Bytes(Bytes::new(choices.4))][choices.2];
        let flow = s.flows[0].clone();
        s.flows = ends.iter().enumerate().map(|(i, (start, size, stops, rtt))| {
            let rtt = Span::ns(*rtt);
            let start = Gain(*start) * s.duration;
            let stop = stops.then_some(start + Span::ns(1));
            let restart = stop.filter(|_| i % 2 == 1).map(|stop| stop + Span::ns(i as u64));
            let ecn = [EcnNegotiation::Off,
                [EcnNegotiation::Requested, EcnNegotiation::Accurate][i / 2 % 2]]
                [usize::from(s.host.ecn != EcnMode::Off && i % 2 == 0)];
            FlowSpec { id: format!("f{i}"), rtt, start, stop, restart, ecn,
            size: size.map(Bytes::new), ..flow.clone() }
        }).collect();
        s
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_written_scenario_is_read_back(s in scenario()) {
        let text = s.to_toml();
        prop_assert_eq!(&read(&text).unwrap_or_else(|e| panic!("{e}\n{text}")), &s);
        let json: serde_json::Value = serde_json::from_str(&s.to_json()).unwrap();
        prop_assert_eq!(json["seed"].as_u64(), Some(s.seed));
        prop_assert_eq!(json["flow"].as_array().unwrap().len(), s.flows.len());
    }

    #[test]
    fn no_change_of_bytes_crashes_the_parser(edits in proptest::collection::vec((any::<usize>(),
        any::<u8>(), 0..3u8), 1..6)) {
        let mut bytes = FULL.as_bytes().to_vec();
        for (at, byte, how) in edits {
            let at = at % bytes.len();
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        if let Err(e) = read(&text) {
            prop_assert!(!e.list().is_empty());
            prop_assert!(e.list().iter().all(|e| e.line.is_some()));
            prop_assert!(!e.to_string().is_empty());
        }
    }

    /// Values of any type under keys that exist: the corrected lines, put in, are accepted.
    #[test]
    fn a_correction_is_correct(
        key in proptest::sample::select(&["rate", "rtt", "delay_forward", "buffer", "loss"][..]),
        value in "(-?[0-9]{1,6}|-?[0-9]{1,3}\\.[0-9]{1,3}|nan|inf|true|\\[\\]|\"-?[0-9.]{0,4} \
            ?[a-zA-Z/%]{0,5}\")",
    ) {
        let mut lines: Vec<String> = ["[path]", "rate = \"20Mbit\"", "rtt = \
            \"40ms\""].map(String::from).to_vec();
        lines.retain(|l| !l.starts_with(&format!("{key} ")));
        let text = |line: &str| format!("duration = \"10s\"\n{}\n{line}\n[[probe]]\nkind = \
            \"ping\"\n", lines.join("\n"));
        if let Err(e) = read(&text(&format!("{key} = {value}"))) {
            // A shorter rtt than the forward delay may follow; the error itself must be gone.
            for e in e.list().iter().filter(|e| !e.key.is_empty()) {
                let fix = e.fix.as_ref().unwrap();
                if let Err(again) = read(&text(fix)) { prop_assert!(false, "{e}\nthen\n{again}"); }
            }
        }
    }
}

#[test]
fn the_canonical_text_is_a_fixed_point() {
    for text in [FULL, LEAST] {
        let once = good(text).to_toml();
        assert_eq!(good(&once).to_toml(), once);
        assert_eq!(good(&once), good(text));
    }
    assert_eq!(
        good(LEAST).to_toml(),
        include_str!("data/least.canonical.toml")
    );
}

#[test]
fn every_row_of_the_list_is_there() {
    let json: serde_json::Value =
        serde_json::from_str(&list::describe_json(&registry(), &[])).unwrap();
    let queues = json["queue"].as_array().unwrap();
    let shelf = queues.iter().find(|q| q["name"] == "shelf").unwrap();
    let target = &shelf["params"][0];
    assert_eq!(
        (&target["name"], &target["default"]),
        (&"target".into(), &"5ms".into())
    );
    assert_eq!(
        (&target["min"], &target["max"], &target["kind"]),
        (&"1us".into(), &"1s".into(), &"time".into())
    );
    assert_eq!(shelf["params"].as_array().unwrap().len(), SHELF.len());
    assert!(
        json["cc"]
            .as_array()
            .unwrap()
            .iter()
            .any(|k| k["name"] == "reno")
    );
    assert_eq!(
        json["scenario"].as_array().unwrap().len(),
        keys::all().count()
    );
}

/// The table of keys matches the parser: every default in it that is a value, written out, changes
/// nothing.
#[test]
fn the_defaults_in_the_table_are_the_parser_s() {
    let plain = good(&format!("{LEAST}[[probe]]\nkind = \"ping\"\n"));
    for k in
        keys::all().filter(|k| k.built && k.default().starts_with(|c: char| c.is_ascii_digit()))
    {
        let bare = ["count", "4 or 6"].contains(&k.takes()) || k.takes().starts_with("probability");
        // A scenario has these keys only if its text names them.
        if k.default().contains(' ')
            || ["rto_max", "rto_min", "mtu", "delayed_ack_max", "retries2"].contains(&k.name)
        {
            continue;
        }
        let value = if bare {
            k.default().to_string()
        } else {
            format!("\"{}\"", k.default())
        };
        let line = format!("{} = {value}\n", k.name);
        let section = |name: &str| if k.section == name { line.as_str() } else { "" };
        let text = format!(
            "{}duration = \"10s\"\n[path]\nrate = \"20Mbit\"\nrtt = \
             \"40ms\"\n{}[host]\n{}[[flow]]\ncc = \"reno\"\n{}[[probe]]\nkind = \"ping\"\n{}",
            section(""),
            section("path"),
            section("host"),
            section("flow"),
            section("probe"),
        );
        assert_eq!(good(&text), plain, "{}.{}", k.section, k.name);
    }
}
