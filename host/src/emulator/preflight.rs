//! Checks before a run with the kernel's TCP. They test whether this host and user can run it, and
//! whether engine and kernel support every setting of the scenario.

use crate::emulator::frame::Frame;
use crate::emulator::{Machine, Queues, hosts, kernel_queue, module_parameters};
use crate::error::HostError;
use crate::netns::{Space, SpaceSpec};
use crate::sys;
use narrows_core::cc::{CcKind, Family, KINDS, Need};
use narrows_core::engine::{Options, check_rows};
use narrows_core::param::Params;
use narrows_core::registry::Registry;
use narrows_core::scenario::error::Error;
use narrows_core::scenario::{FlowSpec, HostSpec, Scenario, Tree};
use narrows_core::tcp::{Clock, EcnNegotiation, Pacing};
use narrows_core::units::{Span, Time};
use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};

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

/// The error of a key that an engine does not support.
fn key(path: impl Into<String>, problem: impl Into<String>) -> HostError {
    HostError::Key(path.into(), problem.into())
}

/// Adds file and line to the error of a key: those of the scenario in `tree`.
pub fn locate(error: HostError, tree: &Tree, file: &str, source: &str) -> HostError {
    match error {
        HostError::Key(path, problem) => {
            let error = Error::unsupported(tree, file, Some(source), &path, &problem);
            HostError::Unlike(error.to_string())
        }
        other => other,
    }
}

/// The path of the section of a flow in a scenario file: flows of one section have the path of this
/// section.
fn section_of(scenario: &Scenario, number: usize) -> String {
    format!("flow[{}]", scenario.flows[number].section.0)
}

/// Checks that the engine supports every setting of a scenario.
pub fn check_scenario(
    machine: Machine,
    scenario: &Scenario,
    registry: &Registry<Frame>,
    options: &Options,
) -> Result<(), HostError> {
    let engine = machine.engine();
    if machine == Machine::Virtual(Queues::Kernel) {
        kernel_queue::check(scenario, registry)?;
    }
    check_network(engine, scenario)?;
    check_hosts(engine, scenario)?;
    if machine != Machine::Host {
        let settings = module_parameters::settings(scenario, registry)?;
        settings
            .iter()
            .try_for_each(module_parameters::Setting::check)?;
    }
    for number in 0..scenario.flows.len() {
        check_flow(machine, scenario, number, registry)?;
    }
    for (name, count, most) in [
        ("flow", scenario.flows.len(), MOST_FLOWS),
        ("probe", scenario.probes.len(), MOST_PROBES),
    ] {
        if count > most {
            let problem = format!(
                "describes {count} {name}s, but the engine {engine} supports at most {most}; \
                 remove some"
            );
            return Err(key(name, problem));
        }
    }
    Ok(check_rows(scenario, options, LEAST_INTERVAL, LEAST_PINGS)?)
}

/// Checks the path or the Wi-Fi of a scenario.
fn check_network(engine: &str, scenario: &Scenario) -> Result<(), HostError> {
    let stations = scenario.wifi.as_ref().map_or(0, |w| w.stations.len());
    if stations > MOST_STATIONS {
        let problem = format!(
            "describes {stations} stations, but the engine {engine} supports at most \
             {MOST_STATIONS}; remove some, or write --engine sim"
        );
        return Err(key("wifi.station", problem));
    }
    if scenario.path.nat {
        let problem = format!(
            "is not supported by the engine {engine}, which has no address translation; remove \
             nat, or write --engine sim"
        );
        return Err(key("path.nat", problem));
    }
    Ok(())
}

/// Checks `[host]` and all `[host.NAME]`.
fn check_hosts(engine: &str, scenario: &Scenario) -> Result<(), HostError> {
    let named = (0..).zip(&scenario.hosts).map(|(number, _)| Some(number));
    [None]
        .into_iter()
        .chain(named)
        .try_for_each(|number| check_host(engine, scenario, number))
}

/// Checks the settings of a host. The kernel has no setting for the keys that are refused here.
fn check_host(engine: &str, scenario: &Scenario, number: Option<u8>) -> Result<(), HostError> {
    let (host, usual) = (hosts::of(scenario, number), HostSpec::default());
    let refused = |name: &str, why: &str| {
        let problem = format!(
            "is not supported by the engine {engine}, {why}; remove {name}, or write --engine sim"
        );
        Err(key(hosts::key_of(scenario, number, name), problem))
    };
    if host.nic.is_some() {
        return refused("nic", "which does not emulate the rate of an interface");
    }
    if host.clock != Clock::Us {
        let problem = format!(
            "is not supported by the engine {engine}: current kernels measure RTTs in \
             microseconds; write clock = \"us\""
        );
        return Err(key(hosts::key_of(scenario, number, "clock"), problem));
    }
    for (name, same) in [
        ("autosize", host.autosize == usual.autosize),
        ("pacing_shift", host.pacing_shift == usual.pacing_shift),
    ] {
        if !same {
            return refused(
                name,
                "because the sizes of bursts are constants of the kernel",
            );
        }
    }
    if host.read_latency != usual.read_latency {
        let why = "whose applications read as soon as this machine runs them";
        return refused("read_latency", why);
    }
    for (name, rules) in [
        ("with_rules", &host.with_rules),
        ("without_rules", &host.without_rules),
    ] {
        if !rules.is_empty() {
            return refused(name, "whose kernel has the rules of its own release");
        }
    }
    Ok(())
}

/// Checks one flow.
fn check_flow(
    machine: Machine,
    scenario: &Scenario,
    number: usize,
    registry: &Registry<Frame>,
) -> Result<(), HostError> {
    let (engine, flow) = (machine.engine(), &scenario.flows[number]);
    let section = section_of(scenario, number);
    let of = |name: &str, problem: String| Err(key(format!("{section}.{name}"), problem));
    if accurate_ecn(scenario) && !is_accurate(flow) {
        let problem = format!(
            "of flow \"{}\" must be \"accecn\", because another flow has it and all flows of the \
             engine {engine} request the same ECN; write ecn = \"accecn\", or --engine sim",
            flow.id
        );
        return of("ecn", problem);
    }
    if !flow.has_cc() {
        return Ok(());
    }
    let cc = &flow.cc;
    let kind = registry.cc(&cc.kind);
    if kind.is_some() && !KINDS.iter().any(|known| known.name == cc.kind) {
        let problem = format!(
            "comes from a plugin, but the engine {engine} uses the congestion controls of the \
             kernel; select one of them, or write --engine sim"
        );
        return of("cc", problem);
    }
    if let Some(kind) =
        kind.filter(|kind| kind.needs(Need::Feedback) || kind.family == Family::Learned)
    {
        let lacks = if kind.needs(Need::Feedback) {
            "congestion headers"
        } else {
            "trees of rules"
        };
        let problem = format!(
            "is not supported by the engine {engine}, because kernels have no {lacks}; select \
             another cc, or write --engine sim"
        );
        return of("cc", problem);
    }
    let table = kind.map_or(&[][..], |kind| kind.params);
    if machine == Machine::Host && cc.params != Params::defaults(table) {
        let problem = format!(
            "has parameters, which the engine {engine} does not change in the kernel of this host; \
             write cc = \"{}\", --engine linux, or --engine sim",
            cc.kind
        );
        return of("cc", problem);
    }
    if flow.like.is_some() {
        let problem = format!(
            "is not supported by the engine {engine}, whose flows all have the TCP of its kernel; \
             remove like, or write --engine sim"
        );
        return of("like", problem);
    }
    if scenario.sender_of(flow).pacing == Pacing::Off && kind.is_some_and(CcKind::paced) {
        let problem = format!(
            "is not supported by the engine {engine} with the {} of flow {}, which kernels always \
             pace; write pacing = \"auto\"",
            cc.kind, flow.id
        );
        return Err(key(hosts::key_of(scenario, flow.sender, "pacing"), problem));
    }
    Ok(())
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
    match unavailable(names, Machine::Host)? {
        Some((_, why)) => Err(missing(why)),
        None => Ok(()),
    }
}

/// Checks that this thread's namespace has these congestion controls of the flows of a scenario.
pub fn check_flow_ccs(
    machine: Machine,
    scenario: &Scenario,
    names: &[String],
) -> Result<(), HostError> {
    let Some((name, why)) = unavailable(names, machine)? else {
        return Ok(());
    };
    let named = |flow: &FlowSpec| flow.cc.of_kernel().unwrap_or(&flow.cc.kind) == name;
    Err(match scenario.flows.iter().position(named) {
        Some(number) => key(
            format!("{}.cc", section_of(scenario, number)),
            format!("is not available: {why}"),
        ),
        None => missing(why),
    })
}

/// The first of these congestion controls that this thread's namespace does not have, and the
/// reason.
fn unavailable(names: &[String], machine: Machine) -> Result<Option<(&str, String)>, HostError> {
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
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
            // A virtual machine has no modules.
            let load = match machine {
                Machine::Host => format!("run `sudo modprobe tcp_{name}`, or "),
                Machine::Virtual(_) => String::new(),
            };
            format!(
                "this kernel has no congestion control {name} (it has {}); {load}select another",
                known.trim().replace(' ', ", ")
            )
        };
        return Ok(Some((name, text)));
    }
    Ok(None)
}
