//! Checks before a run with the kernel's TCP. They test whether this host and user can run it, and
//! whether engine and kernel support every setting of the scenario.

use crate::emulator::frame::Frame;
use crate::emulator::{Machine, Queues, kernel_queue};
use crate::error::HostError;
use crate::netns::{Space, SpaceSpec};
use crate::sys;
use narrows_core::cc::{CcKind, Family, KINDS, Need};
use narrows_core::engine::{Options, check_rows};
use narrows_core::param::Params;
use narrows_core::registry::Registry;
use narrows_core::scenario::{FlowSpec, Scenario};
use narrows_core::tcp::{Clock, EcnNegotiation, Pacing};
use narrows_core::units::{Span, Time};
use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddrV4};

/// Largest number of flows of a run.
pub const MOST_FLOWS: usize = 1000;
/// Largest number of probes of a run.
pub const MOST_PROBES: usize = 100;
/// Largest number of Wi-Fi stations.
pub const MOST_STATIONS: usize = 60;
/// Smallest sample interval.
pub const LEAST_INTERVAL: Span = Span::ms(1);
/// Smallest interval of pings.
const LEAST_PINGS: Span = Span::us(100);

/// Sample interval of the metrics of a run that ends at `end`.
pub fn metric_interval(end: Time) -> Span {
    narrows_core::metrics::metric_interval(end.since(Time::ZERO)).max(LEAST_INTERVAL)
}

fn is_accurate(flow: &FlowSpec) -> bool {
    flow.ecn == EcnNegotiation::Accurate
}

/// Returns whether a flow, and so all hosts, use accurate ECN.
pub fn accurate_ecn(scenario: &Scenario) -> bool {
    scenario.flows.iter().any(is_accurate)
}

/// Checks that the engine supports every setting of a scenario.
pub fn check_scenario(
    machine: Machine,
    scenario: &Scenario,
    registry: &Registry<Frame>,
    options: &Options,
) -> Result<(), HostError> {
    let unlike = |text: String| Err(HostError::Unlike(text));
    let host = &scenario.host;
    let engine = machine.engine();
    if machine == Machine::Virtual(Queues::Kernel) {
        kernel_queue::check(scenario, registry)?;
    }
    if let Some(wifi) = scenario
        .wifi
        .as_ref()
        .filter(|wifi| wifi.stations.len() > MOST_STATIONS)
    {
        return unlike(format!(
            "wifi: {} stations, but the engine {engine} supports at most {MOST_STATIONS}; remove \
             some, or write --engine sim",
            wifi.stations.len()
        ));
    }
    if scenario
        .wifi
        .as_ref()
        .is_some_and(|wifi| wifi.wan.is_some())
    {
        return unlike(format!(
            "path: the engine {engine} does not support a path and a Wi-Fi together; remove one of \
             them, or write --engine sim"
        ));
    }
    if host.nic.is_some() {
        return unlike(format!(
            "host.nic: the engine {engine} does not emulate a NIC rate; remove nic, or write \
             --engine sim"
        ));
    }
    for key in ["rto_min", "mtu", "delayed_ack_max"] {
        if host.keys.get(key).is_some() {
            return unlike(format!(
                "host.{key}: the engine {engine} does not set {key} in the kernel; remove it, or \
                 write --engine sim"
            ));
        }
    }
    if let Some((name, _)) = scenario.hosts.first() {
        return unlike(format!(
            "host.{name}: the engine {engine} gives both hosts the same settings; write them \
             under [host], or write --engine sim"
        ));
    }
    if host.clock != Clock::Us {
        return unlike(
            "host.clock: current kernels measure RTTs in microseconds; write clock = \"us\"".into(),
        );
    }
    if scenario.path.nat {
        return unlike(format!(
            "path.nat: the engine {engine} does not support address translation; remove nat, or \
             write --engine sim"
        ));
    }
    if scenario.flows.iter().any(|flow| flow.host > 0)
        || scenario.probes.iter().any(|probe| probe.host > 0)
    {
        return unlike(format!(
            "flow.host: the engine {engine} has a single far host; remove host, or write \
             --engine sim"
        ));
    }
    if let Some(flow) = scenario
        .flows
        .iter()
        .find(|flow| accurate_ecn(scenario) && !is_accurate(flow))
    {
        return unlike(format!(
            "flow {}: with ecn = \"accecn\" in one flow, all flows of the engine {engine} request \
             it; write ecn = \"accecn\" for this flow, too, or --engine sim",
            flow.id
        ));
    }
    for flow in &scenario.flows {
        if let Some(workload) = flow.workload.as_ref().filter(|w| w.params.bool("ecn")) {
            return unlike(format!(
                "flow {}: the engine {engine} does not support ECN for datagrams; remove ecn of \
                 the workload {}, or write --engine sim",
                flow.id, workload.kind
            ));
        }
        if !flow.has_cc() {
            continue;
        }
        let cc = &flow.cc;
        let kind = registry.cc(&cc.kind);
        if kind.is_some() && !KINDS.iter().any(|known| known.name == cc.kind) {
            return unlike(format!(
                "flow {}: {} comes from a plugin, but the congestion control of a live run is \
                 the kernel's; select a cc of the kernel, or write --engine sim",
                flow.id, cc.kind
            ));
        }
        if let Some(kind) =
            kind.filter(|kind| kind.needs(Need::Feedback) || kind.family == Family::Learned)
        {
            let lacks = if kind.needs(Need::Feedback) {
                "congestion headers"
            } else {
                "trees of rules"
            };
            return unlike(format!(
                "flow {}: kernels do not support {}, because they do not support {lacks}; select \
                 another cc, or write --engine sim",
                flow.id, cc.kind
            ));
        }
        let table = kind.map_or(&[][..], |kind| kind.params);
        if cc.params != Params::defaults(table) {
            return unlike(format!(
                "flow {}: the parameters of {} cannot be set in the kernel; write cc = \"{}\"",
                flow.id, cc.kind, cc.kind
            ));
        }
        if host.pacing == Pacing::Off && kind.is_some_and(CcKind::paced) {
            return unlike(format!(
                "flow {}: the kernel's {} is always paced; write pacing = \"auto\" under [host]",
                flow.id, cc.kind
            ));
        }
    }
    if scenario.flows.len() > MOST_FLOWS || scenario.probes.len() > MOST_PROBES {
        return unlike(format!(
            "the engine {engine} supports at most {MOST_FLOWS} flows and {MOST_PROBES} probes; \
             remove some"
        ));
    }
    Ok(check_rows(scenario, options, LEAST_INTERVAL, LEAST_PINGS)?)
}

/// Checks the host without a scenario: privilege, a namespace with a device, and the congestion
/// controls `ccs`.
pub fn check_machine(ccs: &[String]) -> Result<(), HostError> {
    gain_privilege()?;
    let spec = SpaceSpec {
        qdisc: "pfifo",
        ..SpaceSpec::default()
    };
    let space = Space::new(&spec)?;
    std::thread::scope(|scope| {
        scope
            .spawn(|| space.enter().and_then(|()| check_ccs(ccs)))
            .join()
    })
    .unwrap_or_else(|_| Err(missing("a thread failed")))
}

fn missing(text: impl Into<String>) -> HostError {
    HostError::Missing(text.into())
}

/// Ensures that this process may create network namespaces: as root, or by entering a new user
/// namespace. The process must still have a single thread.
pub fn gain_privilege() -> Result<(), HostError> {
    match fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/net/tun")
    {
        Ok(_) => {}
        Err(e) if matches!(e.kind(), ErrorKind::PermissionDenied) => {
            return Err(missing(
                "this user may not open /dev/net/tun: `sudo chmod 666 /dev/net/tun` (the default \
                 of most distributions), or run as root",
            ));
        }
        Err(e) => {
            return Err(missing(format!(
                "/dev/net/tun cannot be opened ({e}): `sudo modprobe tun`; for a container, \
                 --device /dev/net/tun"
            )));
        }
    }
    // A thread tries to create one; both the thread and the namespace end at once.
    let may = std::thread::spawn(sys::new_network).join();
    if matches!(may, Ok(Ok(()))) {
        return Ok(());
    }
    let (user, group) = sys::ids();
    sys::new_user().map_err(|e| {
        let remedy = if fs::read_to_string("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
            .is_ok_and(|s| s.trim() == "1")
        {
            "`sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0`"
        } else if fs::read_to_string("/proc/sys/kernel/unprivileged_userns_clone")
            .is_ok_and(|s| s.trim() == "0")
        {
            "`sudo sysctl kernel.unprivileged_userns_clone=1`"
        } else {
            "`sudo sysctl user.max_user_namespaces=10000`; for a container, --cap-add SYS_ADMIN"
        };
        missing(format!(
            "this user may not create namespaces ({e}): {remedy}, or run as root"
        ))
    })?;
    let own = [
        ("setgroups", "deny".to_string()),
        ("uid_map", format!("0 {user} 1")),
        ("gid_map", format!("0 {group} 1")),
    ];
    for (file, line) in own {
        fs::write(format!("/proc/self/{file}"), line).map_err(|e| {
            missing(format!(
                "this user may not map user IDs in a user namespace ({file}: {e}): run as root"
            ))
        })?;
    }
    Ok(())
}

/// Checks that this thread's namespace has all of these congestion controls. The kernel loads a
/// module on request if that is permitted.
pub fn check_ccs(names: &[String]) -> Result<(), HostError> {
    let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
    for name in names {
        let socket = sys::tcp(any).map_err(HostError::failed("a socket"))?;
        let Err(error) = sys::choose_cc(&socket, name) else {
            continue;
        };
        let read = |what| {
            fs::read_to_string(format!("/proc/sys/net/ipv4/tcp_{what}_congestion_control"))
                .unwrap_or_default()
        };
        let known = read("available");
        let text = if error.kind() == ErrorKind::PermissionDenied {
            let allowed = read("allowed");
            format!(
                "this user may not select {name}: `sudo sysctl \
                 net.ipv4.tcp_allowed_congestion_control=\"{} {name}\"`, or run as root",
                allowed.trim()
            )
        } else {
            format!(
                "this kernel has no congestion control {name} (it has {}): `sudo modprobe \
                 tcp_{name}`, or select another",
                known.trim().replace(' ', ", ")
            )
        };
        return Err(missing(text));
    }
    Ok(())
}
