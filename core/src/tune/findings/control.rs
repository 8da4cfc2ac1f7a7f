//! Findings about the kernel, its congestion controls, and the connections and namespaces that use
//! them.

use super::{ERROR, Finding, GOOD, IP_SYSCTL, NOTE, Path, Rule, WARNING, pick};
use crate::tune::facts::{CC, Facts, State};
use crate::tune::features::{self, Feature, has, module_package, newer_kernel, release_and_commit};
use crate::tune::listed;
use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

pub(super) const RULES: &[Rule] = &[kernel, default, available, half, sockets, spaces];

/// Congestion controls for controlled networks or for background traffic.
const RESTRICTED: [&str; 4] = ["dctcp", "prague", "lp", "cdg"];

/// Maximum number of congestion controls that are named individually.
const FEW: usize = 3;

/// Finding about the release and the features of the kernel.
fn kernel(facts: &Facts, _: &Path, to: &mut Vec<Finding>) {
    let release = facts.kernel();
    if release.is_none() {
        to.push(Finding::new(
            "kernel",
            NOTE,
            "the release of the kernel is unknown",
            "only visible settings show the features of the kernel",
            "/proc/sys/kernel/osrelease",
        ));
        return;
    }
    let names = ["bbr", "pacing", "edt", "bbr_aggregation"];
    let (have, lack): (Vec<&Feature>, Vec<&Feature>) = names
        .iter()
        .filter_map(|name| features::named(name))
        .partition(|feature| has(release, feature.name) == Some(true));
    let since = |f: &&Feature| format!("{} (since Linux {}.{})", f.what, f.since.0, f.since.1);
    let lacks: Vec<String> = lack.iter().map(since).collect();
    let without = match lacks.len() {
        0 => String::new(),
        _ => format!(". This kernel lacks: {}", lacks.join("; ")),
    };
    let old = has(release, "bbr") == Some(false) && !facts.has_cc("bbr").is_there();
    let bbr = features::named("bbr").filter(|_| old);
    let fix = bbr
        .and_then(|bbr| newer_kernel(facts, bbr.since))
        .map(|cure| {
            let (line, why) = (cure.line(), cure.why);
            format!("`{line}` and a reboot: {why}; narrows does not install it")
        });
    let sources = if lack.is_empty() { &have } else { &lack };
    let sources: Vec<String> = sources
        .iter()
        .map(|feature| feature.release_and_commit())
        .collect();
    to.push(
        Finding::new(
            "kernel",
            pick(old || !lack.is_empty(), NOTE, GOOD),
            format!("{}, Linux {}{without}", facts.system(), facts.release),
            "the available congestion controls and the accuracy of pacing depend on the release",
            sources.join("; "),
        )
        .remedy(fix.unwrap_or_default()),
    );
}

/// Finding about the default congestion control of new connections.
fn default(facts: &Facts, _: &Path, to: &mut Vec<Finding>) {
    let Some(cc) = facts.default_cc() else {
        to.push(
            Finding::new(
                "cc-default",
                NOTE,
                "the default congestion control is not visible here",
                "the congestion control of new connections is therefore unknown",
                "/proc/sys/net/ipv4/tcp_congestion_control",
            )
            .remedy("a container may hide it; audit the host that runs the container"),
        );
        return;
    };
    let (odd, reno) = (RESTRICTED.contains(&cc), cc == "reno");
    let why = if odd {
        format!("{cc} is not designed for the open Internet, where it is unfair or starves")
    } else if reno {
        "after a loss, reno needs minutes to fill a fast path with a long RTT again".into()
    } else {
        "it determines how traffic from this host shares a path; the senders determine it for \
         received traffic"
            .into()
    };
    to.push(
        Finding::new(
            "cc-default",
            pick(odd || reno, WARNING, GOOD),
            format!("new connections use {cc}, unless their program or route selects another one"),
            why,
            format!("{IP_SYSCTL}: tcp_congestion_control"),
        )
        .remedy(pick(odd || reno, "`narrows tune plan --cc cubic`", "")),
    );
}

/// Findings about the available and loadable congestion controls, and about BBR.
fn available(facts: &Facts, _: &Path, to: &mut Vec<Finding>) {
    let available = facts.available();
    if available.is_empty() {
        return;
    }
    let modules: BTreeSet<&str> = facts.loadable.iter().map(String::as_str).collect();
    let ccs = modules
        .iter()
        .filter_map(|module| module.strip_prefix("tcp_"));
    let loadable: Vec<&str> = ccs
        .filter(|cc| *cc != "diag" && !available.contains(cc))
        .collect();
    let loads = match loadable.len() {
        0 => String::new(),
        _ => format!("; loadable as modules: {}", loadable.join(", ")),
    };
    let is_default = |cc: &&&str| facts.default_cc() == Some(**cc);
    let first = available.iter().filter(is_default);
    let mut named: Vec<String> = first.map(|cc| format!("{cc} (default)")).collect();
    let others = available.iter().filter(|cc| !is_default(cc));
    named.extend(others.map(|cc| (*cc).to_owned()));
    to.push(Finding::new(
        "cc-available",
        NOTE,
        format!(
            "congestion controls: {}{loads}. {}",
            named.join(", "),
            allowed(facts, &available, &loadable)
        ),
        "a program can select its own congestion control only from those that it can use. To run \
         one program with another one: `narrows with --cc NAME -- COMMAND`",
        format!("{IP_SYSCTL}: tcp_available_congestion_control, tcp_allowed_congestion_control"),
    ));
    if facts.has_cc("bbr").is_there() {
        return;
    }
    let option = facts.option("tcp_bbr");
    let packaged = facts.is_openwrt() && has(facts.kernel(), "bbr") == Some(true);
    let cure = (option == Some("m") || packaged).then(|| module_package(facts, "tcp_bbr"));
    let fix = cure
        .flatten()
        .map(|cure| format!("`{}`: {}", cure.line(), cure.why));
    to.push(
        Finding::new(
            "cc-bbr",
            NOTE,
            match option {
                Some("n") => "this kernel is built without BBR",
                Some("m") => "BBR is a module of this kernel, but the module is not installed",
                _ => "BBR was not found on this host",
            },
            "selecting it would fail, and a boot file that names it would have no effect",
            release_and_commit("bbr"),
        )
        .remedy(fix.unwrap_or_default()),
    );
}

/// A sentence, without its full stop, about the congestion controls that unprivileged programs can
/// use.
fn allowed(facts: &Facts, available: &[&str], loadable: &[&str]) -> String {
    let allowed = facts.value("net.ipv4.tcp_allowed_congestion_control");
    let allowed: Vec<&str> = allowed.unwrap_or_default().split_whitespace().collect();
    if allowed.is_empty() {
        return "It is unknown which of them unprivileged programs can use".into();
    }
    let all = available.iter().chain(loadable);
    let rest: Vec<&str> = all.filter(|cc| !allowed.contains(cc)).copied().collect();
    let others = match rest.len() {
        0 => String::new(),
        1 => format!("; {} requires root", rest[0]),
        n if n > FEW => "; the others require root".into(),
        _ => format!("; {} require root", listed(&rest)),
    };
    format!("Unprivileged programs can use {}{others}", listed(&allowed))
}

/// Reports a default congestion control that differs from the one in the files read at boot.
fn half(facts: &Facts, _: &Path, to: &mut Vec<Finding>) {
    let (Some(line), Some(cc)) = (facts.decided(CC), facts.default_cc()) else {
        return;
    };
    if line.value == cc {
        return;
    }
    let state = facts.has_cc(&line.value);
    let module = format!("tcp_{}", line.value);
    let early = facts.boot_modules.iter().any(|(_, name)| *name == module);
    let late = state == State::Loadable && !early;
    let mut why = "the file was not read, its value was rejected, or the value was changed since; \
                   the next boot may change it back"
        .to_string();
    if !state.is_there() {
        why += "; this kernel does not have this congestion control";
    }
    if late {
        why += "; its module is not loaded before the file is read at boot";
    }
    to.push(
        Finding::new(
            "cc-files",
            ERROR,
            format!("it contains `{}`, but the kernel uses {cc}", line.text),
            why,
            "sysctl.d(5)",
        )
        .about(format!("/{}", line.file))
        .remedy("`narrows tune plan` writes module and value in the right order"),
    );
}

/// Finding about the congestion controls of existing connections.
fn sockets(facts: &Facts, _: &Path, to: &mut Vec<Finding>) {
    if facts.lacks.contains("ss") {
        to.push(
            Finding::new(
                "cc-sockets",
                NOTE,
                "the congestion controls of existing connections are unknown: `ss` is missing",
                "a change of the default does not affect existing connections",
                "ss(8)",
            )
            .remedy("install iproute2 (OpenWrt: ss)"),
        );
        return;
    }
    let Some(default) = facts.default_cc().filter(|_| !facts.sockets.0.is_empty()) else {
        return;
    };
    let other = facts.sockets.0.iter().any(|(cc, _)| cc != default);
    let fix = format!("restart programs that should use {default} immediately");
    to.push(
        Finding::new(
            "cc-sockets",
            pick(other, NOTE, GOOD),
            format!("existing connections use: {}", counts(&facts.sockets.0)),
            "a connection keeps its congestion control; only new connections, including accepted \
             ones, use the default",
            "ss -ti, of the kernel's sock_diag",
        )
        .remedy(pick(other, fix, String::new())),
    );
}

/// Connections by congestion control, as text.
fn counts(sockets: &[(String, usize)]) -> String {
    let rows: Vec<String> = sockets.iter().map(|(cc, n)| format!("{n} {cc}")).collect();
    listed(&rows)
}

/// Findings about the congestion controls of other network namespaces (containers).
fn spaces(facts: &Facts, _: &Path, to: &mut Vec<Finding>) {
    for space in &facts.spaces {
        let Some(cc) = &space.cc else { continue };
        let used = match counts(&space.sockets.0) {
            none if none.is_empty() => "it has no connections".into(),
            used => format!("existing connections use: {used}"),
        };
        let differs = facts.default_cc().is_some_and(|default| cc != default);
        let fix = "`narrows tune plan --netns NAME`, or restart the container";
        to.push(
            Finding::new(
                "cc-namespaces",
                pick(differs, NOTE, GOOD),
                format!("its default is {cc}; {used}"),
                "each network namespace has its own default, which it copied from the initial \
                 namespace when it was created",
                release_and_commit("cc_netns"),
            )
            .about(format!("namespace of process {}", space.pid))
            .remedy(pick(differs, fix, "")),
        );
    }
}
