//! Makes the plan for a host: the changes that the requested options require, in their order.
//!
//! | module | contents |
//! |---|---|
//! | `interfaces` | queue disciplines and shapers |
//! | `boot` | routes, and the files that repeat changes at boot |

mod boot;
mod interfaces;

use super::facts::{CC, Facts, QDISC, State as Module};
use super::features::{self, has};
use super::findings::system::container;
use super::ordered::Ordered;
use super::persist::{SYSCTL_FILE, SYSCTL_FILE_LAST, modules_file};
use super::plan::{Ask, Change, Host, Left, Need, Plan, VERSION, check};
use super::quoted;
use crate::registry::linux::{self, SYSCTLS, Sysctl};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

const ALLOWED: &str = "net.ipv4.tcp_allowed_congestion_control";

/// Returns a plan with the changes that the options require, in the order of application.
///
/// # Errors
///
/// If an option has an invalid value, or one that this host cannot have.
pub fn plan(facts: &Facts, ask: &Ask) -> Result<Plan, String> {
    check(facts, ask)?;
    let mut made = Making::new(facts, ask);
    if !made.locked {
        made.congestion_control();
        made.queues();
        made.settings()?;
        made.sqm()?;
        made.shaper();
        made.routes()?;
        made.files();
    }
    made.complete();
    Ok(made.plan)
}

struct Making<'a> {
    facts: &'a Facts,
    ask: &'a Ask,
    plan: Plan,
    /// Modules that are loaded at boot.
    modules: BTreeSet<String>,
    /// Sysctls that the plan sets, which are also written to the file for the next boot.
    kept: Ordered<String>,
    done: Vec<String>,
    locked: bool,
    /// Whether the plan is for a network namespace that shares the files and the kernel modules of
    /// its host.
    inside: bool,
    /// Whether the plan is not for the initial network namespace; a restricted congestion control
    /// then cannot be the default.
    restricted: bool,
    inner: bool,
}

impl<'a> Making<'a> {
    fn new(facts: &'a Facts, ask: &'a Ask) -> Making<'a> {
        let kind = container(facts);
        let netns = facts.netns.as_deref();
        let inside = ask.netns.is_some() || netns == Some("other");
        let hidden = !facts.sysctl.is_empty() && facts.value(QDISC).is_none();
        let mut made = Making {
            facts,
            ask,
            plan: Plan {
                narrows: env!("CARGO_PKG_VERSION"),
                plan: VERSION,
                title: String::new(),
                asked: ask.clone(),
                host: Host::of(facts),
                netns: ask.netns.clone(),
                able: true,
                needs: Vec::new(),
                changes: Vec::new(),
                left: Vec::new(),
                effects: Vec::new(),
            },
            modules: BTreeSet::new(),
            kept: Ordered::default(),
            done: Vec::new(),
            locked: kind.is_some() && facts.locked(),
            inside,
            restricted: inside || netns == Some("container"),
            inner: inside || kind.is_some() || hidden,
        };
        if let Some(kind) = kind.filter(|_| made.locked) {
            let why = "settings cannot be written in this container; change the host that runs it";
            made.need("host", &kind, &[], why);
        }
        made
    }

    fn need(&mut self, what: &str, name: &str, command: &[&str], why: impl Into<String>) {
        let row = Need {
            what: what.into(),
            name: name.into(),
            command: command.iter().map(ToString::to_string).collect(),
            why: why.into(),
        };
        if !self.plan.needs.contains(&row) {
            self.plan.needs.push(row);
        }
    }

    fn need_package(&mut self, what: &str, cure: &features::Cure, why: String) {
        let command: Vec<&str> = cure.command.iter().map(String::as_str).collect();
        self.need(what, &cure.name, &command, why);
    }

    fn leave(&mut self, what: impl Into<String>, why: impl Into<String>, fix: impl Into<String>) {
        let (what, why, fix) = (what.into(), why.into(), fix.into());
        self.plan.left.push(Left { what, why, fix });
    }

    fn keep(&mut self, key: &str, value: impl Into<String>, done: String) {
        *self.kept.entry(key) = value.into();
        self.done.push(done);
    }

    fn kept(&self, key: &str) -> Option<&str> {
        let row = self.kept.0.iter().find(|(own, _)| own == key);
        row.map(|(_, value)| value.as_str())
    }

    fn congestion_control(&mut self) {
        let Some(cc) = self.ask.cc.as_deref() else {
            return;
        };
        let state = self.facts.has_cc(cc);
        if self.module(&format!("tcp_{cc}"), state, cc, true) && self.ask.to.is_empty() {
            self.keep(CC, cc, format!("new TCP connections use {cc}"));
        }
    }

    /// Plans to load a module now and, with `boot`, at boot; returns false if it is not available.
    fn module(&mut self, name: &str, state: Module, feature: &str, boot: bool) -> bool {
        let mut state = state;
        if !state.is_there() {
            if !self.package(name, feature) {
                return false;
            }
            state = Module::Loadable;
        }
        if self.inside && state == Module::Loadable {
            let why = format!("{name} must first be loaded outside of the namespace");
            self.need("module", name, &["modprobe", name], why);
            return false;
        }
        if self.inside || state == Module::Builtin {
            return true;
        }
        if boot {
            self.modules.insert(name.into());
        }
        if state == Module::Loadable {
            let why = format!("the kernel has {feature} as a module");
            let change = Change::new(
                "module",
                name.into(),
                Some("absent".into()),
                "loaded".into(),
                why,
            );
            let file = modules_file(self.facts).filter(|_| boot);
            self.plan.changes.push(change.persisted(file));
        }
        true
    }

    /// Plans to install the package of a missing module; returns false if this is not possible or
    /// not requested.
    fn package(&mut self, name: &str, feature: &str) -> bool {
        let facts = self.facts;
        let system = facts.system();
        let known = features::named(feature);
        if let Some(since) = known.filter(|_| has(facts.kernel(), feature) == Some(false)) {
            let (major, minor) = since.since;
            let text = format!(
                "{feature} needs Linux {major}.{minor} or newer, and this host runs {}",
                facts.release
            );
            match features::newer_kernel(facts, since.since) {
                None => {
                    let why =
                        format!("{text}; narrows knows no package of {system} that contains it");
                    self.need("kernel", "", &[], why);
                }
                Some(cure) => {
                    let (package, contents) = (&cure.name, &cure.why);
                    let why =
                        format!("{text}. Install the package {package} ({contents}) and reboot");
                    self.need_package("kernel", &cure, why);
                }
            }
            return false;
        }
        let without = facts.option(name) == Some("n");
        let Some(cure) = features::module_package(facts, name).filter(|_| !without) else {
            let text = if without {
                "is built without it"
            } else {
                "has it neither built in nor as a module"
            };
            let why = format!("{name} is missing: the kernel of {system} {text}");
            self.need("module", name, &[], why);
            return false;
        };
        let openwrt = facts.distribution().0 == "openwrt";
        if !self.ask.install || !openwrt {
            let mut why = format!("{name} is missing; {}", cure.why);
            if openwrt && !self.ask.install {
                why += "; --install installs the package";
            }
            self.need_package("package", &cure, why);
            return false;
        }
        self.install(&cure.name, &cure.why);
        true
    }

    fn install(&mut self, name: &str, why: &str) {
        let change = Change::new(
            "package",
            name.into(),
            Some("absent".into()),
            "installed".into(),
            why,
        );
        self.plan.changes.push(change);
    }

    fn settings(&mut self) -> Result<(), String> {
        let ask = self.ask;
        if let Some(ecn) = &ask.ecn {
            let (value, done) = match ecn.as_str() {
                "on" => ("1", "ECN is requested"),
                "off" => ("0", "ECN is off"),
                "passive" => ("2", "ECN is accepted only"),
                _ => return Err(format!("--ecn {ecn}: must be one of on, off, passive")),
            };
            self.keep("net.ipv4.tcp_ecn", value, done.into());
        }
        if ask.mtu_probing {
            let done = "TCP probes smaller packets after timeouts";
            self.keep("net.ipv4.tcp_mtu_probing", "1", done.into());
        }
        self.buffers();
        for setting in &ask.settings {
            let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
            let (key, value) = (key.trim(), super::collector::joined(value));
            let Some(row) = sysctl(key) else {
                let known: Vec<&str> = SYSCTLS.iter().map(|row| row.name).collect();
                return Err(format!("--set {setting}: not one of {}", known.join(", ")));
            };
            if !setting.contains('=') || !row.form.fits(&value) {
                let value = quoted(&value);
                return Err(format!("--set {setting}: {value} is not a value of {key}"));
            }
            let done = format!("{key} is {value}");
            self.keep(key, value, done);
        }
        for (key, value) in self.kept.0.clone() {
            self.setting(&key, &value)?;
        }
        Ok(())
    }

    fn setting(&mut self, key: &str, value: &str) -> Result<(), String> {
        let was = self.facts.value(key);
        if was == Some(value) || (key == CC && self.restricted && !self.allowed(value)) {
            return Ok(());
        }
        let Some(was) = was else {
            if self.inner && sysctl(key).is_some_and(|row| row.global) {
                self.leave(key, "it belongs to the initial network namespace", "");
            } else {
                self.need(
                    "kernel",
                    key,
                    &[],
                    format!("{key} cannot be read on this host"),
                );
            }
            return Ok(());
        };
        if !linux::Form::Words.fits(was) {
            let was = quoted(was);
            return Err(format!(
                "{key}: the current value {was} could not be restored"
            ));
        }
        let why = match key {
            CC => "new connections use the default, unless a program or route selects another one",
            QDISC => "interfaces that come up use the default",
            "net.ipv4.tcp_wmem" => {
                "the send buffer limits the data in flight, and about half of it is payload"
            }
            "net.ipv4.tcp_rmem" => "the receive window is about half of the receive buffer",
            "net.ipv4.tcp_ecn" => "queues that mark packets signal congestion without loss",
            "net.ipv4.tcp_mtu_probing" => {
                "full packets are lost on tunnels with filtered ICMP messages"
            }
            _ => "as requested",
        };
        let file = self.sysctl_file();
        let change = Change::new("sysctl", key.into(), Some(was.into()), value.into(), why);
        self.plan.changes.push(change.persisted(file));
        Ok(())
    }

    /// Whether a congestion control can be the default here. Outside of the initial network
    /// namespace, the kernel accepts only unrestricted ones.
    fn allowed(&mut self, cc: &str) -> bool {
        let everybody = self.facts.value(ALLOWED).filter(|all| !all.is_empty());
        let everybody: Vec<&str> = everybody.unwrap_or(cc).split_whitespace().collect();
        let is_allowed = everybody.contains(&cc);
        if !is_allowed {
            let setting = format!("{ALLOWED}={} {cc}", everybody.join(" "));
            let why = format!(
                "{cc} is restricted, and outside of the initial network namespace the default \
                 must be one of {}; allow it on the host, or name destinations: --to default",
                everybody.join(", ")
            );
            self.need("setting", ALLOWED, &["sysctl", "-w", &setting], why);
        }
        is_allowed
    }

    fn sysctl_file(&self) -> Option<&'static str> {
        if self.inside || self.locked {
            return None;
        }
        let own = SYSCTL_FILE.rsplit('/').next().unwrap_or_default();
        let later = self.facts.boot_order().into_iter().any(|line| {
            let overrides = self
                .kept(&line.key)
                .is_some_and(|value| value != line.value);
            overrides
                && line.name() > own
                && !line.file.ends_with("narrows.conf")
                && line.file != "etc/sysctl.conf"
        });
        let last = self
            .facts
            .own
            .get(SYSCTL_FILE_LAST)
            .is_some_and(|text| !text.is_empty());
        Some(if later || last {
            SYSCTL_FILE_LAST
        } else {
            SYSCTL_FILE
        })
    }

    fn buffers(&mut self) {
        let Some(bdp) = self.ask.path.bdp_bytes() else {
            return;
        };
        let most = libm::ceil(2.0 * bdp / 65536.0) as i128 * 65536;
        for key in ["net.ipv4.tcp_wmem", "net.ipv4.tcp_rmem"] {
            // Least, default, most.
            match self.facts.numbers(key)[..] {
                [_, _, now] if now >= most => {
                    let why = format!(
                        "its limit of {now} bytes is already at least twice the bandwidth-delay \
                         product of the path, {bdp:.0} bytes"
                    );
                    self.leave(key, why, "");
                }
                [least, default, _] => {
                    let done = format!("{key} may grow to {most} bytes");
                    self.keep(key, format!("{least} {default} {most}"), done);
                }
                _ => self.leave(key, "it is not readable here", ""),
            }
        }
    }

    fn complete(&mut self) {
        self.plan.able = self.plan.needs.is_empty();
        if !self.plan.able {
            self.plan.changes.clear();
        }
        if self.plan.changes.is_empty() {
            self.plan.title = match self.plan.able {
                true => "No changes are needed".into(),
                false => "No changes are possible yet".into(),
            };
            self.plan.effects.clear();
            return;
        }
        self.plan.title = capital(&match self.done.len() {
            0 => "nothing".into(),
            _ => self.done.join("; "),
        });
        let facts = self.facts;
        let is = |id: &str| self.plan.changes.iter().any(|change| change.id == id);
        let mut effects = Vec::new();
        if is(&format!("sysctl:{CC}")) {
            effects.push(
                "Existing connections keep their congestion control until they end. Services need \
                 no restart: new connections use the default, unless a service selects its own.",
            );
            if facts.forwards() {
                effects.push(
                    "This host forwards packets: its congestion control does not affect forwarded \
                     connections.",
                );
            }
            if !facts.spaces.is_empty() {
                effects.push("Existing network namespaces (containers) keep their default.");
            }
        }
        if facts.forwards() && self.kept(QDISC) == Some("fq") {
            effects.push(
                "This host forwards packets: fq paces local connections; fq_codel or cake is \
                 better for forwarded ones.",
            );
        }
        self.plan
            .effects
            .extend(effects.into_iter().map(String::from));
        if let Some(last) = facts
            .decided(CC)
            .filter(|last| last.file == "etc/sysctl.conf")
        {
            if self.kept(CC).is_some_and(|value| value != last.value) {
                let why = format!(
                    "it contains `{}` and is read after every drop-in",
                    last.text
                );
                self.leave(format!("/{}", last.file), why, "remove this line manually");
            }
        }
        let lasts = self.lasts();
        self.plan.effects.push(lasts);
    }

    /// A sentence about the duration of the changes.
    fn lasts(&self) -> String {
        let has = |kind: &str| self.plan.changes.iter().any(|change| change.kind == kind);
        if has("file") {
            return "The changes need no reboot and no `sysctl -p`; the files are for the next boot."
                .into();
        }
        if self.inside {
            return "The changes last as long as the namespace.".into();
        }
        if !has("uci") {
            return "The change is not stored for the next boot: after a reboot, the existing \
                    configuration files apply."
                .into();
        }
        let packages = match has("package") {
            true => " and the packages that the script installed",
            false => "",
        };
        format!(
            "The change is stored in /etc/config/sqm and persists across reboots. The script with \
             the argument `revert` removes this change{packages}."
        )
    }
}

/// A title. Its first word gets a capital letter unless it is a name.
fn capital(title: &str) -> String {
    let word = title.split_whitespace().next().unwrap_or_default();
    if !super::text::SENTENCES.contains(&word) {
        return title.into();
    }
    let mut letters = title.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

fn sysctl(key: &str) -> Option<&'static Sysctl> {
    SYSCTLS.iter().find(|row| row.name == key)
}
