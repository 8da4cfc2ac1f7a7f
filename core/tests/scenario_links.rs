//! Networks of links: buffers in BDP, the errors of switches, and notices about unused sections.

use crate::common::*;
use narrows_core::queue::Limit;
use narrows_core::scenario::{Scenario, Tree};
use narrows_core::units::{Bytes, Span};

/// Reads a scenario whose delay trace begins with 25 ms.
fn with_trace(text: &str) -> Scenario {
    let tree = Tree::from_toml(text, "x.toml").unwrap();
    let files = |_: &str| Ok("0 25\n2000 40\n4000 15\n".into());
    Scenario::from_tree(&tree, "x.toml", Some(text), &registry(), &files)
        .unwrap_or_else(|e| panic!("{e}\n{text}"))
}

#[test]
fn one_bdp_of_a_link_has_the_longest_base_rtt_of_a_flow_over_it() {
    let limits = |link: &str, flows: &str| {
        let text = format!("duration = \"10s\"\n[link.a]\nrate = \"20Mbit\"\n{link}\n{flows}");
        let s = with_trace(&text);
        let all = s.path.hops.iter().map(|hop| s.path.limit(hop).unwrap());
        let limits: Vec<Limit> = all.collect();
        assert_eq!(with_trace(&s.to_toml()), s);
        (limits, s)
    };
    let cubic = "[[flow]]\ncc = \"cubic\"\n";
    // 20 Mbit/s of 50 ms, twice the first delay of the table.
    let bytes = |ms: u64| Limit::Bytes(Bytes::new(2500 * ms));
    let trace = "delay_trace = \"d.txt\"\nbuffer = \"1bdp\"";
    let (found, s) = limits(trace, cubic);
    assert_eq!(found, [bytes(50)]);
    assert_eq!(s.rtt_of(&s.flows[0]), Span::ms(50));
    // The rtt of a flow counts, and so does that of the longest of several.
    let bdp = "buffer = \"1bdp\"";
    let far = format!("{cubic}rtt = \"40ms\"\n{cubic}rtt = \"8ms\"\n");
    assert_eq!(limits(bdp, &far).0, [bytes(40)]);
    assert_eq!(limits(trace, &far).0, [bytes(90)]);
    // So does a later route.
    let two = "delay = \"1ms\"\nbuffer = \"1bdp\"\n[link.b]\nrate = \"20Mbit\"\ndelay = \"2ms\"\n\
        buffer = \"1bdp\"";
    let rerouted = format!(
        "{cubic}rtt = \"30ms\"\nroute = [\"a\"]\nreroute = [{{ at = \"1s\", route = [\"b\"] }}]\n"
    );
    assert_eq!(limits(two, &rerouted).0, [bytes(32), bytes(34)]);
}

#[test]
fn a_buffer_in_bdp_without_an_rtt_is_an_error() {
    let text = "duration = \"10s\"\n[link.a]\nrate = \"20Mbit\"\nbuffer = \"1bdp\"\n[[flow]]\n\
        cc = \"cubic\"\n";
    assert_eq!(
        bad(text).to_string(),
        "x.toml:4: link.a.buffer = \"1bdp\" is a multiple of the longest base RTT of a flow over \
         the link, which is 0; write a buffer in packets or bytes, or a delay of the link\n    \
         write: buffer = \"100p\""
    );
    good(&text.replace("1bdp", "100p"));
}

#[test]
fn a_switch_with_an_error_is_known_to_its_links() {
    let text = "duration = \"1s\"\n[switch.s]\nbuffer = \"1MB\"\nalpha = -1\n[link.a]\nrate = \
        \"10Mbit\"\nswitch = \"s\"\n[[flow]]\ncc = \"cubic\"\n";
    let errors = bad(text);
    assert_eq!(errors.list().len(), 1, "{errors}");
    assert_eq!(errors.list()[0].key, "switch.s.alpha");
    let errors = bad(&text.replace("switch = \"s\"", "switch = \"t\"")).to_string();
    assert!(errors.contains("names no switch; known: s"), "{errors}");
}

const TWO: &str = "duration = \"10s\"\n[link.a]\nrate = \"10Mbit\"\ndelay = \"5ms\"\n[link.b]\n\
    rate = \"10Mbit\"\ndelay = \"5ms\"\nswitch = \"s\"\n[switch.s]\nbuffer = \"1MB\"\n[host.x]\n\
    iw = 5\n";

#[test]
fn sections_that_no_flow_uses_are_noticed() {
    let warnings = |rest: &str| good(&format!("{TWO}{rest}")).notices(&registry());
    let [host, link, switch] = [
        "No flow has [host.x] as sender or receiver, so the section has no effect; name the host \
         in a flow, or remove it.",
        "No route of a flow or probe crosses [link.b]; add a route, or remove the link.",
        "No route of a flow or probe crosses a link of [switch.s]; write switch = \"NAME\" in a \
         link, or remove the section.",
    ];
    let flow = "[[flow]]\ncc = \"cubic\"\n";
    let a = format!("{flow}route = [\"a\"]\n");
    assert_eq!(warnings(&a), [host, link, switch]);
    assert_eq!(warnings(&format!("{a}receiver = \"x\"\n")), [link, switch]);
    // A probe, a route back and a later route use links, too.
    for rest in [
        "[[probe]]\nkind = \"ping\"\nroute = [\"b\"]\n",
        "route_back = [\"b\"]\n",
        "reroute = [{ at = \"1s\", route = [\"b\"] }]\n",
    ] {
        assert_eq!(warnings(&format!("{a}{rest}")), [host]);
    }
    let many: String = (0..10).map(|i| format!("[host.h{i}]\niw = 3\n")).collect();
    let warnings = warnings(&format!(
        "{many}{flow}route = [\"a\", \"b\"]\nsender = \"x\"\n"
    ));
    assert!(
        warnings[0].contains("[host.h7] and 2 more as sender"),
        "{warnings:?}"
    );
}

#[test]
fn links_of_other_equal_routes_have_a_notice_of_their_own() {
    let links: String = [("a", "x", "y"), ("b", "x", "y"), ("c", "y", "x")]
        .iter()
        .map(|(name, from, to)| {
            format!(
                "[link.{name}]\nrate = \"1Gbit\"\ndelay = \"1ms\"\nfrom = \"{from}\"\n\
                 to = \"{to}\"\n"
            )
        })
        .collect();
    let flow = "[[flow]]\ncc = \"cubic\"\nfrom = \"x\"\nto = \"y\"\n";
    let s = good(&format!("duration = \"1s\"\n{links}{flow}"));
    let taken = s.flows[0].route.as_ref().unwrap().forward[0];
    let other = ["b", "a"][usize::from(taken)];
    assert_eq!(
        s.notices(&registry()),
        [format!(
            "No flow or probe crosses [link.{other}], although other routes of equal length do. A \
             hash selects one of the routes between from and to; write route to select one."
        )]
    );
}

#[test]
fn the_routes_of_a_dense_network_are_found_at_once() {
    // Between 16 layers of four nodes, each node has a link to all nodes of the next layer: there
    // are 4^14 routes of 15 links.
    let mut text = String::from("duration = \"1s\"\n");
    for layer in 0..15 {
        for (from, to) in (0..4).flat_map(|from| (0..4).map(move |to| (from, to))) {
            text += &format!(
                "[link.l{layer}-{from}-{to}]\nrate = \"1Gbit\"\ndelay = \"10us\"\n\
                 buffer = \"100p\"\nfrom = \"n{layer}-{from}\"\nto = \"n{}-{to}\"\n",
                layer + 1
            );
        }
    }
    text += "[[flow]]\ncc = \"cubic\"\ncount = 9\nfrom = \"n0-0\"\nto = \"n15-3\"\n";
    let s = good(&text);
    let name = |link: &u8| &s.path.links.as_ref().unwrap().links[usize::from(*link)];
    for flow in &s.flows {
        let route = &flow.route.as_ref().unwrap().forward;
        assert_eq!(route.len(), 15);
        let nodes = |link| (name(link).from.clone(), name(link).to.clone());
        assert!(
            route
                .windows(2)
                .all(|two| nodes(&two[0]).1 == nodes(&two[1]).0)
        );
        assert_eq!(nodes(&route[0]).0.as_deref(), Some("n0-0"));
        assert_eq!(nodes(&route[14]).1.as_deref(), Some("n15-3"));
    }
    // A node has no route to itself.
    let itself = text.replace("to = \"n15-3\"\n", "to = \"n0-0\"\n");
    assert!(bad(&itself).to_string().contains("cannot be reached"));
}
