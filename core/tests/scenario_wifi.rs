//! The section `[wifi]`: its meaning, its written form, and its error messages.

use crate::common::*;
use narrows_core::net::wifi::Stack;
use narrows_core::scenario::*;
use narrows_core::units::{Rate, Span};

const TWO: &str = r#"
duration = "10s"

[wifi]
stack = "before"
qdisc = "fq_codel"
aggregate = { frames = 32 }

[[wifi.station]]
name = "near"
count = 2
mcs = 15
error = "5%"

[[wifi.station]]
name = "far"
mcs = 0
rtt = "30ms"

[[flow]]
cc = "cubic"
station = "near"
count = 2

[[flow]]
cc = "cubic"
station = "far"
direction = "up"

[[probe]]
kind = "ping"
station = "near1"
"#;

#[test]
fn a_name_with_a_count_means_all_of_them() {
    let s = good(TWO);
    let wifi = s.wifi.as_ref().unwrap();
    let names: Vec<&str> = wifi
        .stations
        .iter()
        .map(|station| station.name.as_str())
        .collect();
    assert_eq!(names, ["near0", "near1", "far"]);
    assert_eq!(wifi.stack, Stack::Before);
    assert_eq!((wifi.limits.frames, wifi.driver), (32, Some(123)));
    assert_eq!(wifi.stations[0].speed, Speed::Mcs(7, 2));
    let stations: Vec<Option<u8>> = s.flows.iter().map(|flow| flow.station).collect();
    assert_eq!(stations, [Some(0), Some(0), Some(1), Some(1), Some(2)]);
    assert_eq!(s.flows[4].direction, Direction::Up);
    assert_eq!(s.probes[0].station, Some(1));
    let rates: Vec<Rate> = wifi.peers().iter().map(|peer| peer.phy.rate()).collect();
    assert_eq!(rates[0], s.path.bottleneck().rate);
    assert_eq!(wifi.peers()[2].forward, Span::ms(15));
}

#[test]
fn a_written_wifi_scenario_is_read_back() {
    for stack in ["before", "fq_mac", "airtime"] {
        let text = TWO.replace("stack = \"before\"", &format!("stack = \"{stack}\""));
        let text = if stack == "before" {
            text
        } else {
            text.replace("qdisc = \"fq_codel\"", "")
        };
        let s = good(&text);
        assert_eq!(good(&s.to_toml()), s, "{}", s.to_toml());
    }
}

#[test]
fn every_setting_of_mac80211_is_written_back() {
    let wifi = r#"
driver = 64
aql_low = "1ms"
aql_high = "20ms"
aql_threshold = "0s"
weight = 300
quantum = "1514B"
codel_target = "5ms"
codel_slow_rate = "6Mbit"
codel_slow_interval = "200ms"
"#;
    let text = TWO
        .replace("stack = \"before\"\nqdisc = \"fq_codel\"", wifi)
        .replace(
            "name = \"far\"",
            "name = \"far\"\naql_high = \"30ms\"\nweight = 100\ncodel_interval = \"50ms\"",
        );
    let s = good(&text);
    let wifi = s.wifi.as_ref().unwrap();
    let (near, far) = (&wifi.stations[0], &wifi.stations[2]);
    assert_eq!((near.weight, far.weight), (300, 100));
    assert_eq!((near.aql.low, near.aql.high), (Span::ms(1), Span::ms(20)));
    assert_eq!((far.aql.low, far.aql.high), (Span::ms(1), Span::ms(30)));
    assert_eq!(near.codel, None);
    assert_eq!(far.codel, Some((Span::ms(5), Span::ms(50))));
    let slow = wifi.tuning.slow.unwrap();
    assert_eq!(slow.rate, Rate::mbit(6));
    assert_eq!(slow.codel, (Span::ms(50), Span::ms(200)));
    assert_eq!(wifi.driver, Some(64));
    assert_eq!(good(&s.to_toml()), s, "{}", s.to_toml());
}

#[test]
fn errors_of_wifi_show_the_corrected_line() {
    let near = "[[wifi.station]]\nname = \"near\"\nmcs = 7\n";
    let flow = "[[flow]]\ncc = \"cubic\"\n";
    let cases = [
        (format!("[wifi]\n{flow}"), "[[wifi.station]]"),
        (
            format!("[wifi]\nstack = \"airtme\"\n{near}{flow}"),
            "stack = \"airtime\"",
        ),
        (
            format!("[wifi]\nwidth = \"80MHz\"\n{near}{flow}"),
            "width = \"40MHz\"",
        ),
        (
            format!("[wifi]\nqdisc = \"fifo\"\n{near}{flow}"),
            "needs stack = \"before\"",
        ),
        (
            format!("[wifi]\nstack = \"airtime\"\nweight = \"512us\"\n{near}{flow}"),
            "write: weight = 512",
        ),
        (
            format!("[wifi]\nstack = \"fq_mac\"\naql_low = \"1ms\"\n{near}{flow}"),
            "needs stack = \"airtime\"",
        ),
        (
            format!("[wifi]\naql_low = \"5\"\n{near}{flow}"),
            "aql_low = \"5ms\"",
        ),
        (
            format!("[wifi]\naql_high = \"0s\"\n{near}{flow}"),
            "aql_high = \"1us\"",
        ),
        (
            format!("[wifi]\naql = false\naql_threshold = \"1ms\"\n{near}{flow}"),
            "needs aql = true",
        ),
        (
            format!("[wifi]\naql = false\n{near}aql_high = \"1ms\"\n{flow}"),
            "needs aql = true in the section wifi",
        ),
        (
            format!("[wifi]\nstack = \"before\"\nquantum = \"300B\"\n{near}{flow}"),
            "needs stack = \"fq_mac\" or \"airtime\"",
        ),
        (
            format!("[wifi]\nquantum = \"0B\"\n{near}{flow}"),
            "quantum = \"1B\"",
        ),
        (
            format!("[wifi]\nstack = \"fq_mac\"\nweight = 300\n{near}{flow}"),
            "needs stack = \"airtime\"",
        ),
        (
            format!("[wifi]\nstack = \"before\"\n{near}codel_target = \"5ms\"\n{flow}"),
            "needs stack = \"fq_mac\" or \"airtime\"",
        ),
        (
            format!("[wifi]\ncodel_slow_target = \"50ms\"\n{near}{flow}"),
            "needs codel_slow_rate = \"6Mbit\"",
        ),
        (
            format!("[wifi]\ncodel_slow_rate = \"6\"\n{near}{flow}"),
            "codel_slow_rate = \"6Mbit\"",
        ),
        (format!("[wifi]\n{near}{near}{flow}"), "name = \"near-2\""),
        (
            format!("[wifi]\n{near}{flow}station = \"neer\"\n"),
            "station = \"near\"",
        ),
        (
            format!("[wifi]\n{near}{}{flow}", near.replace("near", "far")),
            "station = \"near\"",
        ),
        (
            format!(
                "[wifi]\n{}{flow}",
                near.replace("mcs = 7", "rate = \"1Mbit\"")
            ),
            "rate = \"6Mbit\"",
        ),
        (
            format!("[wifi]\n{}{flow}", near.replace("mcs = 7", "")),
            "mcs = 7",
        ),
        (
            format!("[wifi]\n{}{flow}", near.replace("mcs = 7", "mcs = 40")),
            "mcs = 31",
        ),
        (
            format!(
                "[wifi]\nstandard = \"ac\"\n{}{flow}",
                near.replace("= 7", "= 9")
            ),
            "mcs = 8",
        ),
        (format!("[wifi]\n{near}count = 300\n{flow}"), "count = 250"),
        (
            format!(
                "[wifi]\n{near}[path]\nrate = \"1Mbit\"\nrtt = \"1ms\"\noffload = true\n{flow}"
            ),
            "cannot be combined with [wifi]",
        ),
        (
            format!("[path]\nrate = \"1Mbit\"\nrtt = \"1ms\"\n{flow}station = \"near\"\n"),
            "needs a [wifi]",
        ),
    ];
    for (text, right) in cases {
        let text = format!("duration = \"1s\"\n{text}");
        let message = bad(&text).to_string();
        assert!(message.contains(right), "{text}\n{message}");
    }
}
