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
    assert_eq!((wifi.limits.frames, wifi.driver), (32, 123));
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
fn what_is_written_back_reads_the_same() {
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
fn mistakes_are_told_with_the_line_as_it_should_be() {
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
        let told = bad(&text).to_string();
        assert!(told.contains(right), "{text}\n{told}");
    }
}
