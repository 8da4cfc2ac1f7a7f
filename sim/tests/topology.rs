//! Networks of links compared with formulas for shares and buffers, and with the sequence of hops
//! of a `[path]`.

use narrows_core::engine::Run;
use narrows_core::registry::Registry;
use narrows_core::scenario::Scenario;
use narrows_sim::{Options, Packet};

fn read(text: &str) -> Scenario {
    let registry = Registry::<Packet>::standard();
    Scenario::from_toml(text, "test", &registry).unwrap_or_else(|e| panic!("{e}"))
}

fn play(text: &str) -> Run {
    let options = Options {
        sample_interval: None,
        ..Options::default()
    };
    let registry = Registry::standard();
    narrows_sim::run(&read(text), &registry, &options, &mut |_| true).unwrap()
}

fn goodput(run: &Run, id: &str) -> f64 {
    let named = |flow: &&narrows_core::metrics::FlowMetrics| {
        let rest = flow.id.strip_prefix(id);
        rest.is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()))
    };
    run.flows
        .iter()
        .filter(named)
        .map(|flow| flow.goodput_mbit)
        .sum()
}

/// A route over links in sequence behaves as a path with the same hops: the same packets at the
/// same times.
#[test]
fn links_in_sequence_are_a_path() {
    let elements = "loss = \"0.1%\"\njitter = \"1ms\"\n";
    let flows = "[[flow]]\ncc = \"cubic\"\ncount = 3{route}\n[[flow]]\ncc = \"reno\"\nstart = \
         \"1s\"\nsize = \"2MB\"{route}\n[[flow]]\nworkload = \"voip\"{route}\n[[probe]]\nkind = \
         \"ping\"{route}\n";
    let path = format!(
        "duration = \"6s\"\n[path.reverse]\nrate = \"2Mbit\"\nqueue = \"codel\"\n[[path.hop]]\n\
         rate = \"30Mbit\"\nrtt = \"10ms\"\nbuffer = \"60p\"\n[[path.hop]]\nrate = \"20Mbit\"\n\
         rtt = \"30ms\"\nqueue = \"fq_codel\"\n{elements}{}",
        flows.replace("{route}", "")
    );
    let route = "\nroute = [\"hop0\", \"hop1\"]\nroute_back = [\"reverse\"]";
    let links = format!(
        "duration = \"6s\"\n[link.reverse]\nrate = \"2Mbit\"\nqueue = \"codel\"\ndelay = \
         \"20ms\"\n[link.hop0]\nrate = \"30Mbit\"\ndelay = \"5ms\"\nbuffer = \"60p\"\n[link.hop1]\n\
         rate = \"20Mbit\"\ndelay = \"15ms\"\nqueue = \"fq_codel\"\n{elements}{}",
        flows.replace("{route}", route)
    );
    let (path, mut links) = (play(&path), play(&links));
    for flow in &mut links.flows {
        assert_eq!(flow.route.len(), 2);
        assert_eq!(flow.route_back.len(), 1);
        (flow.route, flow.route_back) = Default::default();
    }
    // Metrics are compared as text, because an unknown value (NaN) is not equal to itself.
    let text = |run: &Run| format!("{:?}", run.flows);
    assert_eq!(text(&path), text(&links));
    assert_eq!(path.probes[0].rtt_ms, links.probes[0].rtt_ms);
    for (there, here) in [("hop0", 0), ("hop1", 1), ("reverse", 2)] {
        let of = |run: &Run, name: &str| {
            let queue = run.queues.iter().find(|queue| queue.name == name).unwrap();
            (queue.drops, queue.delay_ms)
        };
        assert_eq!(of(&path, &path.queues[here].name), of(&links, there));
    }
}

#[test]
fn a_scenario_that_is_written_and_read_gives_the_same_run() {
    for name in ["parking-lot", "fan-in", "leaf-spine", "isp-tree", "reroute"] {
        let file = format!(
            "{}/../scenarios/topologies/{name}.toml",
            env!("CARGO_MANIFEST_DIR")
        );
        let scenario = read(&std::fs::read_to_string(file).unwrap());
        let text = scenario.to_toml();
        let again = Scenario::from_toml(&text, "again", &Registry::<Packet>::standard());
        assert_eq!(again.unwrap_or_else(|e| panic!("{e}")), scenario);
    }
}

/// TOML text of links with `rates` in Mbit/s, named a, b, c …
fn links(rates: &[u32], keys: &str) -> String {
    let link = |(name, rate): (char, &u32)| {
        format!("[link.{name}]\nrate = \"{rate}Mbit\"\ndelay = \"5ms\"\n{keys}\n")
    };
    ('a'..='z').zip(rates).map(link).collect()
}

/// Runs five flows with the routes a-b, b-c, a, b and c over links a, b and c of 10, 6 and 20
/// Mbit/s. `keys` are further keys of each flow.
fn mesh(seconds: u32, queue: &str, keys: &str) -> Run {
    let flow =
        |(id, route): (&str, &str)| format!("[[flow]]\nid = \"{id}\"\nroute = [{route}]\n{keys}\n");
    let flows = [
        ("ab", "\"a\", \"b\""),
        ("bc", "\"b\", \"c\""),
        ("x", "\"a\""),
        ("y", "\"b\""),
        ("z", "\"c\""),
    ];
    play(&format!(
        "duration = \"{seconds}s\"\n{}{}",
        links(&[10, 6, 20], &format!("queue = \"{queue}\"")),
        flows.map(flow).concat()
    ))
}

/// Datagrams do not react to drops: each fair queue divides its link equally among the flows that
/// exceed their share there, and the next link receives what remains.
#[test]
fn fair_queues_divide_each_link() {
    for queue in ["drr", "fq_codel"] {
        let run = mesh(
            10,
            queue,
            "workload = { kind = \"udp\", rate = \"30Mbit\" }",
        );
        // A datagram has 1448 bytes of UDP payload in 1490 bytes on the wire.
        let share = 1448.0 / 1490.0;
        for (id, fair) in [
            ("ab", 2.0),
            ("bc", 2.0),
            ("y", 2.0),
            ("x", 5.0),
            ("z", 18.0),
        ] {
            let measured = goodput(&run, id) / share;
            assert!(
                (measured / fair - 1.0).abs() < 0.01,
                "{queue}, {id}: {measured}, not {fair}"
            );
        }
        for link in &run.queues {
            let link = link.link.unwrap();
            assert!((link.utilisation - 1.0).abs() < 0.01, "{queue}: {link:?}");
        }
    }
}

/// TCP has the max-min fair shares of progressive filling (Bertsekas and Gallager, Data Networks,
/// 6.5.2). Link b fills first, with 2 Mbit/s for each of its three flows. Then the flow over a
/// alone gets 8 Mbit/s, and the flow over c alone 18 Mbit/s.
#[test]
fn tcp_over_fair_queues_is_max_min_fair() {
    let run = mesh(120, "fq_codel", "cc = \"cubic\"\nrtt = \"10ms\"");
    for (id, fair) in [
        ("ab", 2.0),
        ("bc", 2.0),
        ("y", 2.0),
        ("x", 8.0),
        ("z", 18.0),
    ] {
        let measured = goodput(&run, id) * 1514.0 / 1448.0;
        assert!(
            (measured / fair - 1.0).abs() < 0.1,
            "{id}: {measured}, not {fair}"
        );
    }
}

/// Reno over n links with equal loss probabilities, each with flows of its own: the rate is
/// c / (RTT sqrt(p)) with the sum of the probabilities on the route. At the same RTT, a cross flow
/// then has sqrt(n) times the rate of a long flow. (Massoulié and Roberts, INFOCOM 1999: TCP
/// minimises the potential delay.)
#[test]
fn reno_in_a_parking_lot_has_the_shares_of_minimum_potential_delay() {
    for n in [2_u32, 4] {
        let names: Vec<String> = ('a'..='z')
            .take(n as usize)
            .map(|c| format!("\"{c}\""))
            .collect();
        // Random early detection drops each packet with a probability that depends on the mean
        // queue.
        let queue = "buffer = \"400p\"\nqueue = { kind = \"red\", min = \"30kB\", max = \"300kB\", \
             probability = 0.02 }";
        let mut text = format!(
            "duration = \"200s\"\nwarmup = \"50s\"\n{}",
            links(&vec![40; n as usize], queue)
        );
        text += &format!(
            "[[flow]]\nid = \"long\"\ncc = \"reno\"\ncount = 8\nrtt = \"{}ms\"\nroute = [{}]\n",
            100 - 10 * n,
            names.join(", ")
        );
        for (i, name) in names.iter().enumerate() {
            text += &format!(
                "[[flow]]\nid = \"cross{}x\"\ncc = \"reno\"\ncount = 8\nrtt = \"90ms\"\nroute = \
                 [{name}]\n",
                char::from(b'a' + i as u8)
            );
        }
        let run = play(&text);
        let long = goodput(&run, "long");
        let cross: f64 = ('a'..='z')
            .take(n as usize)
            .map(|c| goodput(&run, &format!("cross{c}x")))
            .sum();
        let ratio = cross / f64::from(n) / long;
        let rtt = |id: &str| {
            let flow = run.flows.iter().find(|flow| flow.id.starts_with(id));
            flow.unwrap().rtt_ms.mean
        };
        let law = f64::from(n).sqrt() * rtt("long") / rtt("cross");
        assert!(
            (ratio / law - 1.0).abs() < 0.15,
            "{n} links: {ratio}, not {law}"
        );
    }
}

/// With a shared buffer B and S overloaded ports, the queue of each such port is α B / (1 + α S)
/// long (Choudhury and Hahne 1998, eq. 2). Each queued packet changes the threshold by α packets.
#[test]
fn dynamic_thresholds_share_the_memory_of_a_switch() {
    for (alpha, ports) in [(1.0, 1_u32), (1.0, 3), (0.5, 2), (8.0, 4)] {
        let mut text = format!(
            "duration = \"2s\"\nwarmup = \"1s\"\nstart_jitter = \"1ms\"\n[switch.s]\nbuffer = \
             \"600kB\"\nalpha = {alpha}\n"
        );
        for name in ('a'..='z').take(ports as usize) {
            text += &format!(
                "[link.{name}]\nrate = \"100Mbit\"\nswitch = \"s\"\nbuffer = \"10MB\"\n[[flow]]\n\
                 id = \"{name}\"\nroute = [\"{name}\"]\nworkload = {{ kind = \"udp\", rate = \
                 \"150Mbit\" }}\n"
            );
        }
        let run = play(&text);
        let expected = alpha * 600e3 / (1.0 + alpha * f64::from(ports)) / 1490.0;
        for queue in &run.queues {
            let measured = queue.backlog_packets.mean;
            assert!(
                (measured - expected).abs() < alpha.max(2.0),
                "{alpha}, {ports}: {measured}, {expected}"
            );
        }
    }
}

/// Ports with an α of their own: the free memory F is B / (1 + Σ αᵢ), and the queue of port i is
/// αᵢ F long.
#[test]
fn each_port_of_a_switch_may_have_a_threshold_of_its_own() {
    let alphas = [0.5, 1.0, 4.0];
    let mut text = String::from(
        "duration = \"2s\"\nwarmup = \"1s\"\nstart_jitter = \"1ms\"\n[switch.s]\nbuffer = \
         \"600kB\"\n",
    );
    for (name, alpha) in ["a", "b", "c"].iter().zip(alphas) {
        // Port b has the alpha of the switch, which is 1.
        let own = if alpha == 1.0 {
            String::new()
        } else {
            format!("alpha = {alpha}\n")
        };
        text += &format!(
            "[link.{name}]\nrate = \"100Mbit\"\nswitch = \"s\"\n{own}buffer = \"10MB\"\n[[flow]]\n\
             id = \"{name}\"\nroute = [\"{name}\"]\nworkload = {{ kind = \"udp\", rate = \
             \"150Mbit\" }}\n"
        );
    }
    let run = play(&text);
    let free = 600e3 / (1.0 + alphas.iter().sum::<f64>()) / 1490.0;
    for (queue, alpha) in run.queues.iter().zip(alphas) {
        let (measured, expected) = (queue.backlog_packets.mean, alpha * free);
        assert!(
            (measured - expected).abs() < 4.0,
            "{alpha}: {measured}, {expected}"
        );
    }
    let scenario = read(&text);
    assert_eq!(read(&scenario.to_toml()), scenario);
}

/// All routes of equal cost are used, each flow keeps its route, and the hash depends on the seed.
#[test]
fn ecmp_distributes_flows() {
    let text = include_str!("../../scenarios/topologies/leaf-spine.toml");
    let scenario = read(&text.replace("count = 16", "count = 1600"));
    let mut on = [0; 8];
    for flow in &scenario.flows {
        let route = &flow.route.as_ref().unwrap().forward;
        assert_eq!((route.len(), route[0] + 4), (2, route[1]));
        route.iter().for_each(|link| on[usize::from(*link)] += 1);
    }
    // 400 flows each, with a standard deviation of sqrt(1600 · 1/4 · 3/4) = 17.
    assert!(on.iter().all(|n| (400_i32 - n).abs() < 60), "{on:?}");
    let other = read(&format!(
        "seed = 2\n{}",
        text.replace("count = 16", "count = 1600")
    ));
    assert_ne!(scenario.flows[..16], other.flows[..16]);
}

/// The route changes at 1 s from 5 ms to 25 ms of propagation delay one way, and back at 2 s.
#[test]
fn pings_follow_the_route() {
    let run = play(
        "duration = \"3s\"\nwarmup = \"0s\"\n[link.short]\nrate = \"1Gbit\"\ndelay = \"5ms\"\n\
         [link.long]\nrate = \"1Gbit\"\ndelay = \"25ms\"\n[link.back]\nrate = \"1Gbit\"\ndelay = \
         \"5ms\"\n[[probe]]\nkind = \"ping\"\ninterval = \"10ms\"\nroute = [\"short\"]\nroute_back \
         = [\"back\"]\nreroute = [{ at = \"1s\", route = [\"long\"], route_back = [\"back\"] }, { \
         at = \"2s\", route = [\"short\"], route_back = [\"back\"] }]\n",
    );
    let probe = &run.probes[0];
    assert_eq!((probe.sent, probe.received), (300, 300));
    // One hundred of the three hundred pings are over the longer route.
    assert!(
        (probe.rtt_ms.mean - (10.0 + 20.0 / 3.0)).abs() < 0.01,
        "{:?}",
        probe.rtt_ms
    );
}

/// The error of each mistake in a scenario is one sentence that names the key.
#[test]
fn mistakes_are_named() {
    let two = "duration = \"1s\"\n[link.a]\nrate = \"1Mbit\"\nfrom = \"x\"\nto = \"y\"\n[link.b]\n\
         rate = \"1Mbit\"\nfrom = \"z\"\nto = \"x\"\n";
    let flow = "[[flow]]\ncc = \"reno\"\n";
    for (text, message) in [
        (format!("{two}{flow}"), "flow[0].route is missing"),
        (
            format!("{two}{flow}route = [\"c\"]"),
            "names no link; known: a, b",
        ),
        (
            format!("{two}{flow}route = [\"a\", \"a\"]"),
            "contains \"a\" twice",
        ),
        (
            format!("{two}{flow}route = [\"a\", \"b\"]"),
            "is interrupted: \"a\" ends at \"y\"",
        ),
        (
            format!("{two}{flow}route = \"a\""),
            "is not a list of links",
        ),
        (format!("{two}{flow}route = []"), "is empty"),
        (
            format!("{two}{flow}from = \"y\"\nto = \"z\""),
            "cannot be reached",
        ),
        (format!("{two}{flow}from = \"y\""), "flow[0].to is missing"),
        (
            format!("{two}{flow}route = [\"a\"]\nroute_back = [\"a\"]"),
            "carries one direction",
        ),
        (
            format!("{two}{flow}route = [\"a\"]\ndirection = \"up\""),
            "needs links of the reverse direction for its data",
        ),
        (
            format!("{two}[path]\nrate = \"1Mbit\"\nrtt = \"1ms\"\n{flow}route = [\"a\"]"),
            "cannot be combined with [link.NAME]",
        ),
        (
            format!(
                "duration = \"1s\"\n[path]\nrate = \"1Mbit\"\nrtt = \"1ms\"\n{flow}from = \"a\""
            ),
            "needs a network of links",
        ),
        (
            format!("{two}[host]\nnic = \"1Gbit\"\n{flow}route = [\"a\"]"),
            "is the interface of one sending host",
        ),
        (
            format!("{two}switch = \"s\"\n{flow}route = [\"a\"]"),
            "names no switch",
        ),
        (
            format!("{two}rtt = \"1ms\"\n{flow}route = [\"a\"]"),
            "link.b.rtt",
        ),
        (
            format!("{two}alpha = 2\n{flow}route = [\"a\"]"),
            "link.b.alpha = 2 needs a switch",
        ),
    ] {
        let registry = Registry::<Packet>::standard();
        let errors = Scenario::from_toml(&text, "x", &registry)
            .unwrap_err()
            .to_string();
        assert!(errors.contains(message), "{text}\n{errors}");
    }
}

/// Transfers over two routes use the same slots for their connections. ACKs of a closed connection
/// may still be on their long route back when a transfer over the other route uses its slot. They
/// are dropped and counted behind the first link of their route back. No other packet is dropped.
#[test]
fn late_acks_of_closed_connections_are_dropped_and_counted() {
    let link = |name: &str, delay: &str| {
        format!("[link.{name}]\nrate = \"100Mbit\"\ndelay = \"{delay}\"\n")
    };
    let flow = |id: &str, route: &str, back: &str| {
        format!(
            "[[flow]]\nid = \"{id}\"\nworkload = {{ kind = \"poisson\", load = \"5Mbit\" }}\n\
             route = [{route}]\nroute_back = [{back}]\n"
        )
    };
    let text = format!(
        "duration = \"5s\"\n{}{}{}{}{}{}{}",
        link("a", "1ms"),
        link("b", "30ms"),
        link("c", "1ms"),
        link("d", "1ms"),
        link("e", "1ms"),
        flow("long", "\"a\"", "\"b\", \"c\""),
        flow("short", "\"d\"", "\"e\""),
    );
    let run = play(&text);
    for queue in &run.queues {
        assert_eq!(queue.drops > 0, queue.name == "b", "{queue:?}");
    }
}
