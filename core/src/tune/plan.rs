//! The format of a plan: a list of changes to a host, which are applied in order and reverted in
//! the opposite order.
//!
//! The order is modules, queue disciplines, settings, routes, and files that make the changes
//! persistent. Queue disciplines come before the sysctl `net.core.default_qdisc`. A revert
//! therefore restores this sysctl before it lets the kernel attach its default again.
//! docs/reference/tune.md describes the JSON document.

use super::facts::{Facts, State as Module};
use super::features::{has, release_and_commit};
use super::findings::Path;
use super::ordered::Ordered;
use super::{quoted, shaper};
use crate::registry::linux::{self, CONGESTION_CONTROLS, QDISCS};
use crate::scenario::keys::nearest;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Version of the document.
pub const VERSION: u32 = 1;

fn none<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The options of `narrows tune plan`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ask {
    /// Congestion control of new connections.
    #[serde(skip_serializing_if = "none")]
    pub cc: Option<String>,
    /// A queue discipline, or `keep` for the present one. `None` means fq if the congestion control
    /// requires it for pacing, otherwise the present one.
    #[serde(skip_serializing_if = "none")]
    pub qdisc: Option<String>,
    /// Interfaces to which the queue discipline is limited; the default queue discipline is then
    /// not changed.
    #[serde(skip_serializing_if = "none")]
    pub devices: Vec<String>,
    /// Destinations to which the congestion control is limited; the default congestion control is
    /// then not changed.
    #[serde(skip_serializing_if = "none")]
    pub to: Vec<String>,
    /// `on`, `off` or `passive`.
    #[serde(skip_serializing_if = "none")]
    pub ecn: Option<String>,
    /// Whether TCP tries smaller packets after timeouts.
    #[serde(skip_serializing_if = "none")]
    pub mtu_probing: bool,
    /// The path that one connection should be able to fill.
    pub path: Path,
    /// Sysctls, each as `key=value`.
    #[serde(skip_serializing_if = "none")]
    pub settings: Vec<String>,
    /// On OpenWrt: the interface that sqm shapes to the rates `down_kbit` and `up_kbit`.
    #[serde(skip_serializing_if = "none")]
    pub sqm: Option<String>,
    /// The interface that is shaped to `down_kbit`, `up_kbit` or both, with `qdisc` or the best
    /// available queue discipline.
    #[serde(skip_serializing_if = "none")]
    pub shape: Option<String>,
    /// Rate of incoming traffic, kbit/s.
    #[serde(skip_serializing_if = "none")]
    pub down_kbit: Option<u64>,
    /// Rate of outgoing traffic, kbit/s.
    #[serde(skip_serializing_if = "none")]
    pub up_kbit: Option<u64>,
    /// Whether configured queue disciplines are replaced.
    #[serde(skip_serializing_if = "none")]
    pub replace: bool,
    /// Whether missing packages are installed, on OpenWrt.
    #[serde(skip_serializing_if = "none")]
    pub install: bool,
    /// The network namespace of the plan.
    #[serde(skip_serializing_if = "none")]
    pub netns: Option<String>,
}

/// The state of a queue discipline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discipline {
    /// Its name.
    pub kind: String,
    /// Its handle; `None` if the kernel selects it.
    pub handle: Option<String>,
    /// Its options, as `tc` writes them.
    pub options: Ordered<String>,
}

impl Discipline {
    /// A queue discipline without options.
    pub fn new(kind: &str, handle: Option<&str>) -> Discipline {
        Discipline {
            kind: kind.into(),
            handle: handle.map(String::from),
            options: Ordered::default(),
        }
    }
}

/// The state of the target of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum State {
    /// The value of a sysctl, or the state of a module or a package.
    Text(String),
    /// The words of a route.
    Words(Vec<String>),
    /// A file.
    File {
        /// Its text.
        text: String,
        /// Its mode, such as `0644`.
        mode: String,
    },
    /// A queue discipline.
    Qdisc(Discipline),
    /// The queue disciplines of an intermediate device, by parent.
    Ingress(Ordered<Discipline>),
}

impl From<&str> for State {
    fn from(text: &str) -> State {
        State::Text(text.into())
    }
}

/// The object of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Target {
    /// A name.
    Name(String),
    /// The keys of an interface, a queue discipline or a route.
    Keys(Ordered<String>),
}

impl Target {
    /// A target with keys.
    pub fn keys(rows: &[(&str, &str)]) -> Target {
        let rows = rows
            .iter()
            .map(|(key, value)| ((*key).into(), (*value).into()));
        Target::Keys(Ordered(rows.collect()))
    }
}

impl From<&str> for Target {
    fn from(name: &str) -> Target {
        Target::Name(name.into())
    }
}

/// One change of a plan; docs/reference/tune.md describes its keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Its kind and the names of its target.
    pub id: String,
    /// `sysctl`, `module`, `qdisc`, `route`, `file`, …
    pub kind: &'static str,
    /// `live`, or `boot` for a file that is read when the host boots.
    pub phase: &'static str,
    /// The object of the change.
    pub target: Target,
    /// The present value of the target; `None` if the target does not exist.
    pub from: Option<State>,
    /// The new value of the target.
    pub to: State,
    /// The reason.
    pub why: String,
    /// The file that repeats the change after a reboot; `None` if there is none.
    pub persist: Option<String>,
}

impl Change {
    /// A change that takes effect at once and is not repeated at boot.
    pub fn new(
        kind: &'static str,
        target: Target,
        from: Option<State>,
        to: State,
        why: impl Into<String>,
    ) -> Change {
        let names: Vec<&str> = match &target {
            Target::Name(name) => [name.as_str()].into(),
            Target::Keys(Ordered(rows)) => {
                let named = rows
                    .iter()
                    .filter(|(key, value)| value != "main" && key != "ifb");
                named.map(|(_, value)| value.as_str()).collect()
            }
        };
        Change {
            id: format!("{kind}:{}", names.join(":")),
            kind,
            phase: "live",
            target,
            from,
            to,
            why: why.into(),
            persist: None,
        }
    }
    /// The change with the file that repeats it at boot.
    pub fn persisted(self, persist: Option<&str>) -> Change {
        let persist = persist.map(ToOwned::to_owned);
        Change { persist, ..self }
    }
}

/// Something that is missing on the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Need {
    /// Kind of the requirement, such as `package`.
    pub what: String,
    /// Its name.
    pub name: String,
    /// The command that installs it; empty if there is none.
    pub command: Vec<String>,
    /// The reason.
    pub why: String,
}

/// Something that the plan does not change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// Its name.
    pub what: String,
    /// The reason.
    pub why: String,
    /// A command that changes it; empty if there is none.
    pub fix: String,
}

/// The host of an audit or of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// The release of its kernel.
    pub kernel: String,
    /// Its operating system.
    pub system: String,
}

impl Host {
    /// The host of these facts.
    pub fn of(facts: &Facts) -> Host {
        Host {
            name: facts.hostname.clone(),
            kernel: facts.release.clone(),
            system: facts.system(),
        }
    }
}

/// A plan; docs/reference/tune.md describes its document.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// Version of narrows.
    pub narrows: &'static str,
    /// Version of the document.
    pub plan: u32,
    /// The effects of the plan, as a sentence without its full stop.
    pub title: String,
    /// The options with which the plan was made.
    pub asked: Ask,
    /// Name, kernel and system of the host.
    pub host: Host,
    /// Name of the network namespace; `None` for the host's own.
    pub netns: Option<String>,
    /// Whether the changes are possible: no requirement is missing.
    pub able: bool,
    /// Requirements that are missing on the host; no change is possible without them.
    pub needs: Vec<Need>,
    /// The changes, in the order of their application.
    pub changes: Vec<Change>,
    /// Settings that the plan does not change, with reasons.
    pub left: Vec<Left>,
    /// Sentences about consequences of the changes.
    pub effects: Vec<String>,
}

/// Whether a text can be the name of a congestion control or a queue discipline.
pub fn is_name(text: &str) -> bool {
    linux::Form::Name.fits(text)
}

/// Whether a text can be the name of an interface in a plan.
pub fn is_device(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'@' | b'-');
    text.len() <= 15
        && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && text.bytes().all(inner)
}

/// A message about an interface that the host does not have.
pub fn absent(facts: &Facts, name: &str) -> String {
    let known = interfaces(facts);
    let known = if known.is_empty() { "none" } else { &known };
    format!("{name}: this host has no interface {name}; its interfaces: {known}")
}

fn interfaces(facts: &Facts) -> String {
    let names = facts.interfaces.iter().filter(|one| !one.loopback());
    let names: Vec<&str> = names.map(|one| one.name.as_str()).collect();
    names.join(", ")
}

/// Checks the requested options.
///
/// # Errors
///
/// If an option contains an invalid or unknown name, or if options cannot be combined or cannot
/// apply to this host.
pub fn check(facts: &Facts, ask: &Ask) -> Result<(), String> {
    for (option, name) in [("--cc", &ask.cc), ("--qdisc", &ask.qdisc)] {
        if let Some(name) = name.as_deref().filter(|name| !is_name(name)) {
            let name = quoted(name);
            return Err(format!(
                "{option} {name}: a name has lower-case letters, digits and _"
            ));
        }
    }
    if let Some(cc) = &ask.cc {
        check_cc(facts, cc)?;
    }
    if let Some(qdisc) = &ask.qdisc {
        check_qdisc(facts, qdisc)?;
    }
    for name in &ask.devices {
        if !is_device(name) {
            let name = quoted(name);
            return Err(format!("--dev {name}: not a valid name of an interface"));
        }
        if !facts.interfaces.is_empty() && facts.interface(name).is_none() {
            return Err(format!("--dev {}", absent(facts, name)));
        }
    }
    if !ask.to.is_empty() && ask.cc.is_none() {
        return Err(
            "--to: a destination needs a congestion control; write: --to PREFIX --cc bbr".into(),
        );
    }
    if !ask.devices.is_empty() && matches!(ask.qdisc.as_deref(), None | Some("keep")) {
        return Err(
            "--dev: an interface needs a queue discipline; write: --dev eth0 --qdisc fq".into(),
        );
    }
    check_shaper(facts, ask)?;
    let full = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
    let named = [&ask.shape, &ask.sqm, &ask.cc, &ask.qdisc, &ask.ecn];
    let bdp = ask.path.bdp_bytes().is_some_and(|bdp| bdp != 0.0);
    if !named.into_iter().any(full) && !ask.mtu_probing && ask.settings.is_empty() && !bdp {
        return Err(
            "no change is requested; write, for instance: --cc bbr, --qdisc fq, or --rate 1Gbit \
             --rtt 80ms"
                .into(),
        );
    }
    if let Some(netns) = ask
        .netns
        .as_ref()
        .filter(|_| full(&ask.cc) && ask.to.is_empty())
    {
        if has(facts.kernel(), "cc_netns") == Some(false) {
            return Err(format!(
                "--netns {netns}: namespaces share one default here; {}; leave --netns out, or \
                 name destinations: --to 192.0.2.0/24",
                release_and_commit("cc_netns")
            ));
        }
    }
    Ok(())
}

fn check_cc(facts: &Facts, cc: &str) -> Result<(), String> {
    if facts.has_cc(cc).is_there() {
        return Ok(());
    }
    let mut known: Vec<&str> = CONGESTION_CONTROLS.iter().map(|cc| cc.name).collect();
    for cc in facts.available() {
        if !known.contains(&cc) {
            known.push(cc);
        }
    }
    if known.contains(&cc) {
        return Ok(());
    }
    let fix = nearest(cc, known.iter().copied()).map(|close| format!("; write --cc {close}"));
    Err(format!(
        "--cc {cc}: not a known congestion control; known: {}{}",
        known.join(", "),
        fix.unwrap_or_default()
    ))
}

fn check_qdisc(facts: &Facts, qdisc: &str) -> Result<(), String> {
    let state = facts.has_module(&format!("sch_{qdisc}"));
    let known = qdisc == "keep" || linux::Qdisc::named(qdisc).is_some();
    if known || !matches!(state, Module::Missing | Module::Unknown) {
        return Ok(());
    }
    let fix = match nearest(qdisc, QDISCS.iter().map(|qdisc| qdisc.name)) {
        Some(close) => format!("; write --qdisc {close}"),
        None => ", such as fq or fq_codel".into(),
    };
    Err(format!(
        "--qdisc {qdisc}: not a queue discipline of Linux{fix}"
    ))
}

fn check_shaper(facts: &Facts, ask: &Ask) -> Result<(), String> {
    let (down, up) = (ask.down_kbit.is_some(), ask.up_kbit.is_some());
    if let Some(shape) = &ask.shape {
        let one = facts.interface(shape);
        let loopback = one.is_some_and(|one| one.loopback());
        if loopback {
            let there = interfaces(facts);
            let there = if there.is_empty() { "none" } else { &there };
            return Err(format!(
                "--shape {shape}: the loopback interface has no link to shape; there are: {there}"
            ));
        }
        if !is_device(shape) || (!facts.interfaces.is_empty() && one.is_none()) {
            return Err(format!("--shape {}", absent(facts, shape)));
        }
        if ask.sqm.is_some() || !ask.devices.is_empty() {
            return Err("--shape: its value is the interface; omit --sqm and --dev".into());
        }
        if !up && !down {
            return Err(format!(
                "--shape {shape}: a rate is missing; write --up 18Mbit for outgoing traffic, \
                 --down 90Mbit for incoming traffic, or both"
            ));
        }
        if let Some(qdisc) = ask
            .qdisc
            .as_deref()
            .filter(|qdisc| !shaper::KINDS.contains(qdisc))
        {
            let kinds = shaper::KINDS.join(", ");
            return Err(format!("--qdisc {qdisc}: a shaper has one of {kinds}"));
        }
        return Ok(());
    }
    let Some(sqm) = ask.sqm.as_ref().filter(|_| down && up) else {
        return match ask.sqm.is_some() || down || up {
            false => Ok(()),
            true => Err(
                "--sqm, --down and --up belong together: --sqm eth0 --down 90Mbit --up 18Mbit"
                    .into(),
            ),
        };
    };
    if !is_device(sqm) {
        let name = quoted(sqm);
        return Err(format!(
            "--sqm {name}: this is not the name of an interface"
        ));
    }
    if !facts.is_openwrt() {
        let system = facts.system();
        return Err(format!(
            "--sqm is for OpenWrt's shaper, and this is {system}; cake-qos or sqm-scripts have \
             others"
        ));
    }
    Ok(())
}
