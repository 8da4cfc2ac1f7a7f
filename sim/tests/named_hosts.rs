//! Hosts with names, the size of segments, SACK, timestamps and delayed ACKs: the parser, and the
//! effects on a path.

use narrows_core::engine::Run;
use narrows_core::registry::Registry;
use narrows_core::scenario::Scenario;
use narrows_sim::{Options, Packet};

fn try_read(text: &str) -> Result<Scenario, String> {
    let registry = Registry::<Packet>::standard();
    Scenario::from_toml(text, "test", &registry).map_err(|e| e.to_string())
}

fn read(text: &str) -> Scenario {
    try_read(text).unwrap_or_else(|e| panic!("{e}"))
}

fn play(text: &str) -> Run {
    let options = Options {
        sample_interval: None,
        ..Options::default()
    };
    narrows_sim::run(&read(text), &Registry::standard(), &options, &mut |_| true).unwrap()
}

const PATH: &str = "duration = \"20s\"\nstart_jitter = \"0s\"\n[path]\nrate = \"20Mbit\"\nrtt = \
     \"40ms\"\nbuffer = \"1bdp\"\n";

/// Goodputs of all flows, Mbit/s.
fn goodputs(rest: &str) -> Vec<f64> {
    let run = play(&format!("{PATH}{rest}"));
    run.flows.iter().map(|flow| flow.goodput_mbit).collect()
}

/// The goodput of a flow whose buffer is so large that the link is always busy, Mbit/s.
fn busy(rest: &str) -> f64 {
    let path = PATH.replace("1bdp", "4bdp");
    play(&format!("{path}{rest}")).flows[0].goodput_mbit
}

#[track_caller]
fn near(value: f64, wanted: f64, share: f64) {
    assert!(
        (value / wanted - 1.0).abs() < share,
        "{value}, not {wanted}"
    );
}

#[test]
fn a_named_host_inherits_from_host() {
    let text = format!(
        "{PATH}[host]\niw = 5\nnic = \"1Gbit\"\nwith_rules = [\"rto_max\"]\n[host.a]\niw = \
         7\nwith_rules = []\n[host.b]\nnic = \"2Gbit\"\n[[flow]]\ncc = \"cubic\"\nsender = \
         \"a\"\nreceiver = \"b\"\n[[flow]]\ncc = \"reno\"\n"
    );
    let scenario = read(&text);
    let hosts: Vec<_> = scenario.hosts.iter().map(|(_, host)| host).collect();
    let nic = |at: usize| hosts[at].nic.as_ref().map(|nic| nic.rate.as_mbit());
    assert_eq!((hosts[0].iw, hosts[1].iw, scenario.host.iw), (7, 5, 5));
    assert_eq!((nic(0), nic(1)), (Some(1000.0), Some(2000.0)));
    assert_eq!(hosts[0].with_rules.len(), 0);
    assert_eq!(hosts[1].with_rules.len(), 1);
    let ends: Vec<_> = scenario
        .flows
        .iter()
        .map(|f| (f.sender, f.receiver))
        .collect();
    assert_eq!(ends, [(Some(0), Some(1)), (None, None)]);
    assert_eq!(read(&scenario.to_toml()), scenario);
}

#[test]
fn nodes_of_a_network_are_hosts() {
    let text = "duration = \"5s\"\n[link.there]\nrate = \"10Mbit\"\nfrom = \"a\"\nto = \
         \"b\"\n[link.back]\nrate = \"10Mbit\"\nfrom = \"b\"\nto = \"a\"\n[host.a]\niw = \
         3\n[[flow]]\ncc = \"cubic\"\nfrom = \"a\"\nto = \"b\"\n[[flow]]\ncc = \"cubic\"\nfrom = \
         \"a\"\nto = \"b\"\ndirection = \"up\"\n";
    let scenario = read(text);
    let ends: Vec<_> = scenario
        .flows
        .iter()
        .map(|f| (f.sender, f.receiver))
        .collect();
    assert_eq!(ends, [(Some(0), None), (None, Some(0))]);
    assert_eq!(read(&scenario.to_toml()), scenario);
    let other = text.replace(
        "to = \"b\"\n[[flow]]",
        "to = \"b\"\nsender = \"b\"\n[[flow]]",
    );
    let other = other.replace("[host.a]", "[host.b]\n[host.a]");
    let error = try_read(&other).unwrap_err();
    assert!(
        error.contains("test:17: flow[0].sender = \"b\" contradicts from"),
        "{error}"
    );
}

#[test]
fn mistakes_are_reported_with_their_line() {
    let flow = "[[flow]]\ncc = \"cubic\"\n";
    for (rest, wanted) in [
        (
            format!("[host.server]\n{flow}sender = \"servr\""),
            "test:10: flow[0].sender = \"servr\" names no host; known: server",
        ),
        (
            format!("{flow}receiver = \"a\""),
            "test:9: flow[0].receiver = \"a\" names no host; known: none",
        ),
        (
            format!("[host.a]\nmtu = \"1000B\"\nmss = \"1000B\"\n{flow}"),
            "test:9: host.a.mss = \"1000B\" exceeds the mtu minus 40B of headers, which is 960B",
        ),
        (
            format!("[host]\nquickack = true\ndelayed_ack_max = \"40ms\"\n{flow}"),
            "test:9: host.delayed_ack_max = \"40ms\" contradicts quickack",
        ),
        (
            format!("[host]\nmss = 536\n{flow}"),
            "test:8: host.mss = 536 needs a unit",
        ),
        (
            format!("[host.a]\nsakc = false\n{flow}"),
            "test:8: host.a.sakc = false is not a key of [host]",
        ),
        (
            format!("[host]\nnic = \"1Gbit\"\nqdics = {{ kind = \"fq\" }}\n{flow}"),
            "test:9: host.qdics",
        ),
        (
            "[host]\ntimestamps = false\n[[flow]]\ncc = \"xcp\"\n".into(),
            "test:10: flow[0].cc = \"xcp\" needs the default segment size and timestamps",
        ),
    ] {
        let error = try_read(&format!("{PATH}{rest}")).unwrap_err();
        assert!(error.contains(wanted), "{error}\nwithout: {wanted}");
    }
}

/// A name alone changes nothing.
#[test]
fn hosts_without_settings_give_the_same_run() {
    let rest = "{host}[[flow]]\ncc = \"cubic\"\n{ends}[[flow]]\ncc = \"bbr\"\nstart = \
         \"1s\"\n{ends}[[flow]]\nworkload = \"web\"\n{ends}";
    let of = |host: &str, ends: &str| {
        let rest = rest.replace("{host}", host).replace("{ends}", ends);
        format!("{:?}", play(&format!("{PATH}{rest}")).flows)
    };
    let usual = of("", "");
    assert_eq!(
        usual,
        of("[host.a]\n[host.b]\n", "sender = \"a\"\nreceiver = \"b\"\n")
    );
    let written = "[host]\nmtu = \"1500B\"\nmss = \"1460B\"\nsack = true\ntimestamps = \
         true\nquickack = false\ndelayed_ack_max = \"200ms\"\n";
    assert_eq!(usual, of(written, ""));
}

/// Payload over frame, for the segments of a flow that fills 20 Mbit/s.
#[test]
fn segments_have_their_size_on_the_link() {
    let flow = "[[flow]]\ncc = \"reno\"\n";
    for (keys, payload, headers) in [
        ("", 1448.0, 66.0),
        ("mss = \"536B\"", 524.0, 66.0),
        ("mtu = \"576B\"", 524.0, 66.0),
        ("mtu = \"9000B\"", 8948.0, 66.0),
        ("timestamps = false", 1460.0, 54.0),
        ("mss = \"536B\"\ntimestamps = false", 536.0, 54.0),
    ] {
        let found = busy(&format!("[host]\n{keys}\n{flow}"));
        near(found, 20.0 * payload / (payload + headers), 0.02);
    }
}

/// The smaller size of both hosts counts.
#[test]
fn one_host_decides_the_segments_of_a_flow() {
    let of = |end: &str| {
        let rest = format!("[host.a]\nmss = \"536B\"\n[[flow]]\ncc = \"cubic\"\n{end} = \"a\"\n");
        goodputs(&rest)[0]
    };
    let wanted = 20.0 * 524.0 / 590.0;
    near(of("sender"), wanted, 0.02);
    near(of("receiver"), wanted, 0.02);
}

/// Super-packets, a device and the options of accurate ECN do not change the size of segments.
#[test]
fn super_packets_have_segments_of_their_flow() {
    for (rest, headers) in [
        (
            "offload = true\n[host]\nmss = \"536B\"\n[[flow]]\ncc = \"cubic\"\n",
            66.0,
        ),
        (
            "[host]\nmss = \"536B\"\nnic = \"1Gbit\"\n[[flow]]\ncc = \"cubic\"\n",
            66.0,
        ),
        (
            "[host]\nmss = \"548B\"\n[[flow]]\ncc = \"cubic\"\necn = \"accecn\"\n",
            78.0,
        ),
    ] {
        near(busy(rest), 20.0 * 524.0 / (524.0 + headers), 0.01);
    }
}

#[test]
fn flows_share_the_interface_of_their_host_only() {
    let rest = "[host.a]\nnic = \"4Mbit\"\n[host.b]\nnic = \"4Mbit\"\n[[flow]]\ncc = \
         \"cubic\"\nsender = \"a\"\n[[flow]]\ncc = \"cubic\"\nsender = \"{other}\"\n";
    let shared: f64 = goodputs(&rest.replace("{other}", "a")).iter().sum();
    let apart: f64 = goodputs(&rest.replace("{other}", "b")).iter().sum();
    near(shared, 4.0 * 1448.0 / 1514.0, 0.03);
    near(apart, 8.0 * 1448.0 / 1514.0, 0.03);
    let run = play(&format!("{PATH}{}", rest.replace("{other}", "b")));
    let names: Vec<&str> = run.queues.iter().map(|queue| queue.name.as_str()).collect();
    assert!(names.ends_with(&["host.a", "host.b"]), "{names:?}");
}

/// An uploading host has its interface, too.
#[test]
fn a_far_host_has_an_interface() {
    let rest = "[path.reverse]\nrate = \"20Mbit\"\n[host.a]\nnic = \"4Mbit\"\n[[flow]]\ncc = \
         \"cubic\"\ndirection = \"up\"\nsender = \"a\"\n";
    near(goodputs(rest)[0], 4.0 * 1448.0 / 1514.0, 0.03);
}

/// With an initial window of one segment, the first ACK is that of a single segment. Linux sends it
/// at once, because a connection begins with quick ACKs.
#[test]
fn the_last_short_segment_waits_for_no_timer() {
    let of = |keys: &str| {
        let rest = format!("[host]\niw = 1\n{keys}\n[[flow]]\ncc = \"cubic\"\nsize = \"100kB\"\n");
        play(&format!("{PATH}{rest}")).flows[0].fct_s
    };
    let (usual, quick) = (of(""), of("quickack = true"));
    // The shortest delay of an ACK is 40 ms.
    assert!((quick..quick + 0.04).contains(&usual), "{quick} {usual}");
}

/// Without SACK, one hole is filled per round trip, so random losses cost more.
#[test]
fn recovery_without_sack_is_slower() {
    let of = |keys: &str| {
        let rest = format!("loss = \"1%\"\n[host]\n{keys}\n[[flow]]\ncc = \"cubic\"\n");
        goodputs(&rest)[0]
    };
    let (with, without) = (of(""), of("sack = false"));
    assert!(without < with && without > 0.5 * with, "{without} {with}");
}

/// The queue of DCTCP stays near the threshold K.
#[test]
fn a_threshold_in_packets_holds_the_queue() {
    let mean = |k: u64| {
        let text = format!(
            "duration = \"1s\"\n[path]\nrate = \"1Gbit\"\nrtt = \"500us\"\nbuffer = \
             \"300p\"\nqueue = {{ kind = \"fifo\", mark_above = \"{k}p\" }}\n[[flow]]\ncc = \
             \"dctcp\"\ncount = 2\n"
        );
        let run = play(&text);
        assert_eq!(
            run.flows.iter().map(|flow| flow.retransmits).sum::<u64>(),
            0
        );
        let goodput: f64 = run.flows.iter().map(|flow| flow.goodput_mbit).sum();
        assert!(goodput > 900.0, "{goodput}");
        run.queue.backlog_packets.mean
    };
    for k in [20, 65] {
        let found = mean(k);
        assert!(
            (0.4..1.4).contains(&(found / k as f64)),
            "{found} at K = {k}"
        );
    }
}

#[test]
fn parameters_with_their_defaults_are_not_written() {
    let text = format!("{PATH}queue = \"fifo\"\n[[flow]]\ncc = \"cubic\"\n");
    let written = read(&text).to_toml();
    assert!(
        !written.contains("mark_above") && !written.contains("beta"),
        "{written}"
    );
    let text = text.replace("\"cubic\"", "{ kind = \"cubic\", beta = 0.5, c = 4.0 }");
    let scenario = read(&text);
    assert!(scenario.to_toml().contains("beta"));
    assert_eq!(read(&scenario.to_toml()), scenario);
}
