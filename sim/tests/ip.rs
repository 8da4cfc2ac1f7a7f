//! Flows and probes over IPv6, whose header has 20 bytes more than that of IPv4.

use crate::common;
use narrows_core::scenario::Scenario;
use narrows_sim::Run;

/// A link of 20 Mbit/s and 20 ms in each direction.
const PATH: &str = "duration = \"20s\"\nstart_jitter = \"0s\"\n[link.down]\nrate = \
                    \"20Mbit\"\ndelay = \"20ms\"\nbuffer = \"200p\"\n[link.up]\nrate = \
                    \"20Mbit\"\ndelay = \"20ms\"\n";
/// The route of a flow or probe.
const ROUTE: &str = "route = [\"down\"]\nroute_back = [\"up\"]\n";

fn read(rest: &str) -> Result<Scenario, String> {
    let text = format!("{PATH}{}", rest.replace("ip = ", &format!("{ROUTE}ip = ")));
    Scenario::from_toml(&text, "test", &common::registry()).map_err(|e| e.to_string())
}

fn play(rest: &str) -> Run {
    common::play(&read(rest).unwrap_or_else(|e| panic!("{e}")))
}

fn near(found: f64, wanted: f64, tolerance: f64) {
    let apart = (found / wanted - 1.0).abs();
    assert!(apart < tolerance, "{found} instead of {wanted}");
}

/// A transfer of one segment takes two base RTTs, and the transmission of SYN, SYN-ACK, ACK, data
/// and ACK, except that the first ACK and the data overlap.
#[test]
fn a_transfer_of_one_segment_has_the_closed_form() {
    // 20 Mbit/s are 2.5 bytes per µs.
    let line = |bytes: f64| bytes / 2.5 * 1e-6;
    for (ip, more) in [(4, 0.0), (6, 20.0)] {
        let keys = format!("[[flow]]\ncc = \"reno\"\nsize = \"1000B\"\nip = {ip}\n");
        let run = play(&format!("{keys}[[probe]]\nkind = \"ping\"\nip = {ip}\n"));
        let handshake = line(74.0 + more) + line(74.0 + more);
        let data = line(66.0 + more) + line(1066.0 + more) + line(66.0 + more);
        let fct = run.flows[0].fct_s;
        assert!((fct - 0.08 - handshake - data).abs() < 1e-9, "{ip}: {fct}");
        // A ping and its answer have 64 bytes of payload and 42 or 62 of headers.
        let rtt = run.probes[0].rtt_ms.p50;
        let wanted = 40.0 + 2e3 * line(106.0 + more);
        assert!((rtt - wanted).abs() < 1e-6, "{ip}: {rtt}");
    }
}

/// Payload over frame on a full link, with the MTU, the maximum segment size and the options of the
/// hosts. Super-packets and a device do not change the size of segments.
#[test]
fn a_full_link_carries_less_payload() {
    for (host, payload, headers) in [
        ("[host]\n", 1428.0, 86.0),
        ("[host]\nmss = \"1440B\"\n", 1428.0, 86.0),
        ("[host]\nmss = \"1460B\"\n", 1428.0, 86.0),
        ("[host]\nmss = \"536B\"\n", 524.0, 86.0),
        ("[host]\nmtu = \"9000B\"\n", 8928.0, 86.0),
        ("[host]\nmtu = \"1520B\"\n", 1448.0, 86.0),
        ("[host]\ntimestamps = false\n", 1440.0, 74.0),
    ] {
        for (cc, more) in [("cubic", ""), ("bbr", ""), ("cubic", "ecn = \"accecn\"\n")] {
            let option = if more.is_empty() { 0.0 } else { 12.0 };
            let run = play(&format!("{host}[[flow]]\ncc = \"{cc}\"\nip = 6\n{more}"));
            let wanted = (payload - option) / (payload + headers);
            near(run.flows[0].goodput_mbit / carried(&run), wanted, 1e-3);
        }
    }
}

/// The rate of frames on the forward link, Mbit/s.
fn carried(run: &Run) -> f64 {
    run.queue.link.as_ref().expect("a link").carried_mbit
}

/// A super-packet has the headers of all its segments, on the path and in a device.
#[test]
fn super_packets_fill_a_link_with_the_same_payload() {
    for more in ["offload = true\n", "[host]\nnic = \"1Gbit\"\n"] {
        let text = format!(
            "duration = \"20s\"\n[path]\nrate = \"20Mbit\"\nrtt = \"40ms\"\nbuffer = \
             \"2bdp\"\n{more}[[flow]]\ncc = \"cubic\"\nip = 6\n"
        );
        let run = common::play(&read_whole(&text));
        near(run.flows[0].goodput_mbit, 20.0 * 1428.0 / 1514.0, 2e-3);
    }
}

/// Flows of both versions share a link. The key is written and read again.
#[test]
fn both_versions_share_a_link() {
    let rest = "[[flow]]\ncc = \"reno\"\nip = 4\n[[flow]]\ncc = \"reno\"\nip = 6\n[[probe]]\nkind \
                = \"ping\"\nip = 6\n";
    let scenario = read(rest).expect("a scenario");
    assert_eq!(read_whole(&scenario.to_toml()), scenario);
    let run = play(rest);
    let sum: f64 = run.flows.iter().map(|flow| flow.goodput_mbit).sum();
    assert!(
        (20.0 * 1428.0 / 1514.0..20.0 * 1448.0 / 1514.0).contains(&sum),
        "{sum}"
    );
}

fn read_whole(text: &str) -> Scenario {
    Scenario::from_toml(text, "test", &common::registry()).expect("a scenario")
}

/// Datagrams of a constant rate: the rate on the link is that of the payload times frame over
/// payload.
#[test]
fn datagrams_have_longer_headers() {
    let rest = "[[flow]]\nworkload = { kind = \"udp\", rate = \"2Mbit\", packet = \"500B\" }\nip = \
                6\n";
    let run = play(rest);
    near(run.flows[0].goodput_mbit, 2.0, 1e-2);
    near(
        carried(&run) / run.flows[0].goodput_mbit,
        562.0 / 500.0,
        1e-3,
    );
}

/// With an application, both directions of a connection use the version of the flow.
#[test]
fn applications_use_ipv6() {
    let of = |ip: u8| {
        let run = play(&format!("[[flow]]\nworkload = \"poisson\"\nip = {ip}\n"));
        (run.flows[0].goodput_mbit, carried(&run))
    };
    let ((four, link4), (six, link6)) = (of(4), of(6));
    assert!(four > 0.0 && six > 0.0, "{four}, {six}");
    let more = (link6 / six) / (link4 / four);
    assert!((1.013..1.03).contains(&more), "{more}");
}

#[test]
fn mistakes_are_reported_with_their_line() {
    for (rest, wanted) in [
        (
            "[[flow]]\ncc = \"cubic\"\nip = 5\n",
            "test:14: flow[0].ip = 5 is neither 4 nor 6",
        ),
        (
            "[[flow]]\ncc = \"cubic\"\nip = \"6\"\n",
            "test:14: flow[0].ip = \"6\" is neither 4 nor 6",
        ),
        (
            "[[flow]]\ncc = \"xcp\"\nip = 6\n",
            "test:11: flow[0].cc = \"xcp\" needs the default segment size; remove ip = 6",
        ),
        (
            "[[flow]]\nworkload = { kind = \"udp\", packet = \"1453B\" }\nip = 6\n",
            "exceeds the mtu of its hosts minus 48B of headers",
        ),
    ] {
        let error = read(rest).unwrap_err();
        assert!(error.contains(wanted), "{error}\nwithout: {wanted}");
    }
}
