//! The hosts of a run: their places in the network, and their settings in the kernel.
//!
//! Each place has a namespace. A host `[host.NAME]` has a namespace of its own at each port of the
//! network where a flow uses it. All hosts at a port have the same addresses: the ports of a packet
//! identify its flow, and thus its host. So classification by addresses is that of the simulator.
//!
//! | key | setting of the kernel |
//! |---|---|
//! | `mtu`, `gso` | device |
//! | `iw`, `quickack` | route |
//! | `mss` | route (`advmss`) and sockets (`TCP_MAXSEG`), which also limit sent segments |
//! | `rto_min` | `tcp_rto_min_us`; before Linux 6.11, the route |
//! | `delayed_ack_max` | sockets (`TCP_DELACK_MAX_US`, Linux 6.15) |
//! | `pacing` | queue discipline of the device |
//! | `nic`, `qdisc`, `buffer`, `link` | class of htb with a queue discipline (`shaper`) |
//! | `notsent_lowat` | sockets |
//! | `rmem`, `wmem`, `sack`, `timestamps`, `ecn`, `rack`, `rto_max`, `retries2`, … | sysctls |

use crate::emulator::frame::Frame;
use crate::emulator::{preflight, tc_words};
use crate::error::HostError;
use crate::netns::{Peer, QUEUE, Shaper, SpaceSpec, Sysctl};
use crate::sys;
use crate::sys::netlink::RouteMetrics;
use narrows_core::engine::UnknownQueue;
use narrows_core::net::{FAR, NEAR, Port};
use narrows_core::packet::Ip;
use narrows_core::param;
use narrows_core::registry::Registry;
use narrows_core::scenario::{Direction, FlowSpec, HostSpec, Link, Scenario, quoted_key};
use narrows_core::tcp::{EcnMode, Gso, Pacing, SmallQueues};
use narrows_core::units::Span;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::path::Path as FilePath;

/// The value of `tcp_ecn` with which both ends request and accept accurate ECN.
const ACCURATE_ECN: u32 = 3;
/// The smallest minimum RTO that a route can have.
const ROUTE_RTO: Span = Span::ms(1);
/// Length of an Ethernet header, bytes.
const ETHERNET: u64 = 14;
/// Bytes that a class may send before another class. There is one class, so any value will do. The
/// kernel warns of values above 200,000.
const QUANTUM: u32 = 60_000;

/// The place of a host.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// The port of the network.
    pub port: Port,
    /// The number of the section `[host.NAME]`; `None`: `[host]`.
    pub host: Option<u8>,
}

/// An address of the hosts at a port of the network. `number`: that of a far host of a path,
/// otherwise 0. With `ecn`, the address whose route negotiates ECN.
pub(crate) fn address(port: Port, number: u8, ip: Ip, ecn: bool) -> IpAddr {
    let (ecn, host) = (u8::from(ecn), port + 1);
    match ip {
        Ip::V4 => Ipv4Addr::new(10, number, ecn, host).into(),
        Ip::V6 => {
            let (number, ecn) = (u16::from(number), u16::from(ecn));
            Ipv6Addr::new(0xfd00, 0, number, ecn, 0, 0, 0, host.into()).into()
        }
    }
}

/// The address of a flow at a port of the network.
pub(crate) fn address_of(flow: &FlowSpec, port: Port, ecn: bool) -> IpAddr {
    let number = if port == NEAR { 0 } else { flow.host };
    address(port, number, flow.ip, ecn)
}

/// The port of the far host of a flow or probe: FAR, or in a Wi-Fi that of its station.
pub(crate) fn far(station: Option<u8>) -> Port {
    FAR + station.unwrap_or(0)
}

/// The places of the sending and the receiving host of a flow.
pub(crate) fn ends(flow: &FlowSpec) -> [Place; 2] {
    let ports = match flow.direction {
        Direction::Down => [NEAR, far(flow.station)],
        Direction::Up => [far(flow.station), NEAR],
    };
    let place = |port, host| Place { port, host };
    [place(ports[0], flow.sender), place(ports[1], flow.receiver)]
}

/// Number of hosts besides the one at NEAR, which is also the highest port.
pub(crate) fn far_hosts(scenario: &Scenario) -> Port {
    let stations = scenario.wifi.as_ref().map(|wifi| wifi.stations.len());
    stations.map_or(1, |count| count as Port)
}

/// The numbers of the far hosts of a path.
fn numbers(scenario: &Scenario) -> Vec<u8> {
    let flows = scenario.flows.iter().map(|flow| flow.host);
    let probes = scenario.probes.iter().map(|probe| probe.host);
    let mut all: Vec<u8> = [0].into_iter().chain(flows).chain(probes).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// All places. The index of a host of `[host]` is its port; hosts with names follow.
pub(crate) fn places(scenario: &Scenario) -> Vec<Place> {
    let usual = (NEAR..=far_hosts(scenario)).map(|port| Place { port, host: None });
    let mut all: Vec<Place> = usual.collect();
    for place in scenario.flows.iter().flat_map(ends) {
        if !all.contains(&place) {
            all.push(place);
        }
    }
    all
}

/// The index of a place.
pub(crate) fn index(places: &[Place], place: Place) -> usize {
    let found = places.iter().position(|other| *other == place);
    found.unwrap_or(usize::from(place.port))
}

/// The settings of a host.
pub(crate) fn of(scenario: &Scenario, host: Option<u8>) -> &HostSpec {
    let named = host.and_then(|number| scenario.hosts.get(usize::from(number)));
    named.map_or(&scenario.host, |(_, host)| host)
}

/// The path of a key of a host in a scenario file. Hosts of `[host]` come first, so a key that a
/// host with a name has from there is reported as that of `[host]`.
pub(crate) fn key_of(scenario: &Scenario, host: Option<u8>, key: &str) -> String {
    match host.and_then(|number| scenario.hosts.get(usize::from(number))) {
        Some((name, _)) => format!("host.{}.{key}", quoted_key(name)),
        None => format!("host.{key}"),
    }
}

/// Options of the sockets of a host.
#[derive(Clone, Debug, Default)]
pub struct SocketOptions {
    /// The application writes while less than this is unsent, bytes.
    pub notsent_lowat: u32,
    /// The largest segment to send and to announce, bytes; `None`: that of the device.
    pub mss: Option<u16>,
    /// The longest delay of an ACK, and the path of its key.
    pub delayed_ack: Option<(Span, String)>,
}

impl SocketOptions {
    /// The options of sockets of a host.
    pub(crate) fn of(scenario: &Scenario, host: Option<u8>, ip: Ip) -> SocketOptions {
        let spec = of(scenario, host);
        let delayed_ack = match spec.keys.get("delayed_ack_max") {
            Some(param::Value::Span(most)) => {
                Some((*most, key_of(scenario, host, "delayed_ack_max")))
            }
            _ => None,
        };
        SocketOptions {
            notsent_lowat: u32::try_from(spec.notsent_lowat.get()).unwrap_or(u32::MAX),
            mss: spec.keys.get("mss").is_some().then(|| spec.mss(ip) as u16),
            delayed_ack,
        }
    }
    /// Sets the options of a socket that has no connection yet. An accepted socket has those of its
    /// listening socket.
    pub fn set(&self, socket: &OwnedFd) -> io::Result<()> {
        sys::set_notsent_lowat(socket, self.notsent_lowat)?;
        if let Some(mss) = self.mss {
            sys::socket::set_mss(socket, mss);
        }
        match &self.delayed_ack {
            Some((most, _)) => sys::set_delayed_ack(socket, *most),
            None => Ok(()),
        }
    }
    /// Checks that the kernel of this thread's namespace supports the options.
    pub fn check(&self) -> Result<(), HostError> {
        let Some((most, key)) = &self.delayed_ack else {
            return Ok(());
        };
        let failed = HostError::failed("a socket");
        let socket = sys::tcp(std::net::SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0));
        match sys::set_delayed_ack(&socket.map_err(&failed)?, *most) {
            Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => {
                let problem = "needs Linux 6.15 or newer (TCP_DELACK_MAX_US), but this kernel is \
                    older; select another kernel, remove it, or write --engine sim";
                Err(HostError::Key(key.clone(), problem.into()))
            }
            set => set.map_err(failed),
        }
    }
}

/// The minimum RTO of connections of a host: the sysctl of new kernels, or the milliseconds of a
/// route.
fn rto_min(
    scenario: &Scenario,
    host: Option<u8>,
) -> Result<(Option<Sysctl>, Option<u32>), HostError> {
    let Some(param::Value::Span(least)) = of(scenario, host).keys.get("rto_min") else {
        return Ok((None, None));
    };
    let name = "ipv4/tcp_rto_min_us";
    if FilePath::new("/proc/sys/net").join(name).exists() {
        return Ok((Some(Sysctl::new(name, least.as_us())), None));
    }
    if least.as_ns() % ROUTE_RTO.as_ns() == 0 {
        return Ok((None, Some((least.as_ns() / ROUTE_RTO.as_ns()) as u32)));
    }
    let problem = "must be whole milliseconds in this kernel, because net.ipv4.tcp_rto_min_us \
        needs Linux 6.11; select another kernel, or write --engine sim";
    Err(HostError::Key(
        key_of(scenario, host, "rto_min"),
        problem.into(),
    ))
}

/// The settings of connections of a host; `ecn`: they request ECN.
fn metrics(host: &HostSpec, ip: Ip, ecn: bool, rto_min_ms: Option<u32>) -> RouteMetrics {
    // The default of a small device would exceed its MTU (net.ipv4.route.min_adv_mss).
    let given = ["mss", "mtu"]
        .iter()
        .any(|key| host.keys.get(key).is_some());
    RouteMetrics {
        iw: host.iw,
        ecn,
        mss: given.then(|| host.mss(ip)),
        quickack: host.quickack(),
        rto_min_ms,
    }
}

/// The class of htb that limits the rate of a host's interface; `None` without a rate.
///
/// Packets of the device have no Ethernet header. The rate and the burst of the class are therefore
/// those of the IP packets, if all of them have the size of the MTU.
pub(crate) fn shaper(
    scenario: &Scenario,
    number: Option<u8>,
    registry: &Registry<Frame>,
) -> Result<Option<Shaper>, HostError> {
    let host = of(scenario, number);
    let Some(nic) = &host.nic else {
        return Ok(None);
    };
    let refused = |key, problem: &str| {
        let problem = format!("is not supported by the engine linux, {problem}");
        Err(HostError::Key(key_of(scenario, number, key), problem))
    };
    let Link::Htb { burst } = nic.link else {
        let problem = "whose devices transmit in no time; write link = \"htb\" below it, or \
            --engine sim";
        return refused("nic", problem);
    };
    if nic.tsq != SmallQueues::ByRate {
        let problem = "because the limit of a connection is that of the kernel; remove it, or \
            write --engine sim";
        return refused("tsq", problem);
    }
    let context = nic.queue_context(&scenario.path, host.hz, scenario.seed);
    let kind = registry.queue(&nic.qdisc.kind);
    let kind = kind.ok_or_else(|| UnknownQueue(nic.qdisc.kind.clone()))?;
    let words = tc_words::words(&nic.qdisc, kind.params, &context, "--engine sim");
    let words = words.map_err(|error| match error {
        HostError::Key(key, problem) => {
            let key = key.replace("queue", "qdisc");
            HostError::Key(key_of(scenario, number, &key), problem)
        }
        other => other,
    })?;
    if words.options.is_some() || !tc_words::is_of_linux(&nic.qdisc.kind) {
        let problem = "because tc cannot set it; write another discipline, or --engine sim";
        return refused("qdisc", problem);
    }
    let share = |n: u64| n * host.mtu() / (host.mtu() + ETHERNET);
    let class = format!(
        "rate {}bit burst {1} cburst {1} quantum {QUANTUM}",
        share(nic.rate.as_bit()),
        share(burst.get())
    );
    let mut leaf = vec![words.kind];
    leaf.extend(words.words);
    Ok(Some(Shaper {
        class: class.split_whitespace().map(String::from).collect(),
        leaf,
        queue: words.device_queue.unwrap_or(QUEUE),
        remedy: format!(
            "change {}, or write --engine sim",
            key_of(scenario, number, "qdisc")
        ),
    }))
}

/// The configuration of a host: addresses, kernel settings, queue discipline. With `six`, the host
/// also has IPv6 addresses.
pub(crate) fn space(
    scenario: &Scenario,
    registry: &Registry<Frame>,
    place: Place,
    six: bool,
) -> Result<SpaceSpec, HostError> {
    let Place { port, host: number } = place;
    let host = of(scenario, number);
    // The interface of `[host]` is that of the near host.
    let shaper = if port == NEAR || number.is_some() {
        shaper(scenario, number, registry)?
    } else {
        None
    };
    let others = if port == NEAR {
        FAR..=far_hosts(scenario)
    } else {
        NEAR..=NEAR
    };
    let (rto_min, rto_min_ms) = rto_min(scenario, number)?;
    let versions = if six {
        &[Ip::V4, Ip::V6][..]
    } else {
        &[Ip::V4]
    };
    let ways = |port| {
        let numbers = match port {
            NEAR => vec![0],
            _ => numbers(scenario),
        };
        let kinds = versions.iter().flat_map(|ip| [(*ip, false), (*ip, true)]);
        kinds.flat_map(move |(ip, ecn)| {
            let of = move |number| (address(port, number, ip, ecn), ip, ecn);
            numbers.clone().into_iter().map(of)
        })
    };
    let peers = |port| {
        ways(port).map(move |(address, ip, ecn)| Peer {
            address,
            metrics: metrics(host, ip, ecn, rto_min_ms),
        })
    };
    let ipv6 = if six {
        // The device has no link-local address, so that the kernel sends no packets of its own.
        [
            Sysctl::new("ipv6/conf/e0/disable_ipv6", 0),
            Sysctl::new("ipv6/conf/e0/addr_gen_mode", 1),
        ]
    } else {
        [
            Sysctl::new("ipv6/conf/all/disable_ipv6", 1),
            Sysctl::new("ipv6/conf/default/disable_ipv6", 1),
        ]
    };
    let buffer = |default: u64, max: u64| format!("4096 {default} {max}");
    let ecn = match host.ecn {
        _ if preflight::accurate_ecn(scenario) => ACCURATE_ECN,
        EcnMode::Off => 0,
        EcnMode::Passive | EcnMode::On => 2,
    };
    let named = |key, name, value: String| {
        let key = key_of(scenario, number, key);
        Sysctl {
            key: Some(key),
            ..Sysctl::new(name, value)
        }
    };
    let rto_max = host.rto_max.map(|most| (most.as_us() / 1000).to_string());
    let rack = host.rack.map(|on| u8::from(on).to_string());
    let switch = |key, sysctl| match host.keys.get(key) {
        Some(param::Value::Bool(on)) => Some(named(key, sysctl, u8::from(*on).to_string())),
        _ => None,
    };
    let retries2 = match host.keys.get("retries2") {
        Some(param::Value::Count(n)) => Some(named("retries2", "ipv4/tcp_retries2", n.to_string())),
        _ => None,
    };
    let given = [
        retries2,
        switch("sack", "ipv4/tcp_sack"),
        switch("timestamps", "ipv4/tcp_timestamps"),
        rto_max.map(|ms| named("rto_max", "ipv4/tcp_rto_max_ms", ms)),
        rack.map(|bit| named("rack", "ipv4/tcp_recovery", bit)),
        rto_min,
    ];
    let usual = [
        Sysctl::new("ipv4/tcp_no_metrics_save", 1),
        Sysctl::new("ipv4/tcp_ecn", ecn),
        Sysctl::new(
            "ipv4/tcp_rmem",
            buffer(host.rmem_default.get(), host.rmem_max.get()),
        ),
        Sysctl::new(
            "ipv4/tcp_wmem",
            buffer(host.wmem_default.get(), host.wmem_max.get()),
        ),
        Sysctl::new(
            "ipv4/tcp_slow_start_after_idle",
            u8::from(host.slow_start_after_idle),
        ),
    ];
    Ok(SpaceSpec {
        addresses: ways(port).map(|(address, ..)| address).collect(),
        peers: others.flat_map(peers).collect(),
        sysctls: usual
            .into_iter()
            .chain(ipv6)
            .chain(given.into_iter().flatten())
            .collect(),
        qdisc: qdisc(host),
        shaper,
        mtu: host.mtu() as u32,
        gso: match host.gso {
            Gso::On => (None, None),
            Gso::Off => (Some(1), None),
            Gso::Segments(n) => (Some(n), None),
            Gso::Bytes(n) => (None, Some(n.get() as u32)),
        },
    })
}

/// The queue discipline of the device of a host.
pub(crate) fn qdisc(host: &HostSpec) -> &'static str {
    match host.pacing {
        _ if host.nic.is_some() => "htb",
        Pacing::Fq => "fq",
        Pacing::Auto | Pacing::Off => "pfifo",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shaped(nic: &str) -> Result<String, HostError> {
        let text = format!(
            "duration = \"5s\"\n[path]\nrate = \"100Mbit\"\nrtt = \"40ms\"\n\
             buffer = \"1bdp\"\n[host]\nnic = \"10Mbit\"\n{nic}\n[[flow]]\ncc = \"reno\"\n"
        );
        let registry = Registry::standard();
        let scenario = Scenario::from_toml(&text, "test", &registry).expect("a valid scenario");
        let shaper = shaper(&scenario, None, &registry)?.expect("a rate");
        let [class, leaf] = [shaper.class, shaper.leaf].map(|words| words.join(" "));
        Ok(format!("{class}; {leaf}; {}", shaper.queue))
    }

    #[test]
    fn the_rate_of_an_interface_is_a_class_of_htb_without_ethernet_headers() {
        let class = "rate 9907529bit burst 3051 cburst 3051 quantum 60000";
        for (nic, leaf) in [
            ("qdisc = \"fq_codel\"", "fq_codel limit 10240; 5000"),
            ("qdisc = \"fq\"\nbuffer = \"300p\"", "fq limit 300; 5000"),
            ("buffer = \"90p\"", "pfifo_fast; 90"),
        ] {
            let found = shaped(&format!("link = \"htb\"\n{nic}")).expect("words of tc");
            assert_eq!(found, format!("{class}; {leaf}"));
        }
    }

    #[test]
    fn an_interface_that_the_kernel_lacks_is_refused_by_its_key() {
        for (nic, key, remedy) in [
            ("", "host.nic", "write link = \"htb\""),
            ("link = \"htb\"\ntsq = false", "host.tsq", "remove it"),
            (
                "link = \"htb\"\nqdisc = \"dualpi2\"",
                "host.qdisc",
                "write another",
            ),
            (
                "link = \"htb\"\nqdisc = \"xcp\"",
                "host.qdisc",
                "select another",
            ),
            (
                "link = \"htb\"\nqdisc = { kind = \"red\", gentle = true }",
                "host.qdisc.gentle",
                "write --engine sim",
            ),
        ] {
            match shaped(nic) {
                Err(HostError::Key(found, problem)) => {
                    assert_eq!(found, key);
                    assert!(problem.contains(remedy), "{problem}");
                }
                other => panic!("{nic}: {other:?}"),
            }
        }
    }
}
