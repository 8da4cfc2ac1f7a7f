//! Changes of interfaces: queue disciplines and shapers.

use super::Making;
use crate::registry::linux;
use crate::tune::facts::{Interface, QDISC, Qdisc, State as Module};
use crate::tune::features::{self, has, release_and_commit};
use crate::tune::findings::queues::{carriers, is_configured};
use crate::tune::persist::{SYSCTL_FILE, qdisc_file};
use crate::tune::plan::{Change, Discipline, State, Target, absent, is_device, is_name};
use crate::tune::{is_paced, listed, quoted, shaper};
use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

const REPLACE: &str = "--replace replaces it";
const ADMINISTRATOR: &str = "configured by an administrator";

impl Making<'_> {
    pub(super) fn queues(&mut self) {
        let (facts, ask) = (self.facts, self.ask);
        if ask.qdisc.as_deref() == Some("keep") || ask.shape.is_some() {
            return;
        }
        let paced = ask.cc.as_deref().filter(|cc| is_paced(cc));
        let kind = match (ask.qdisc.as_deref(), paced) {
            (Some(kind), _) => kind,
            (None, None) => return,
            (None, Some(cc)) => {
                let kernel = facts.kernel();
                if has(kernel, "pacing") != Some(false) || !ask.to.is_empty() {
                    self.plan.effects.extend(features::own_timers(kernel, cc));
                    return;
                }
                let since = release_and_commit("pacing");
                self.plan.effects.push(format!(
                    "{cc} needs fq on this kernel, so fq is part of the plan ({since})."
                ));
                "fq"
            }
        };
        let module = format!("sch_{kind}");
        let mut state = facts.has_module(&module);
        let is_default = state == Module::Unknown && facts.value(QDISC) == Some(kind);
        if is_default || linux::Qdisc::named(kind).is_some_and(|qdisc| qdisc.built_in) {
            state = Module::Builtin;
        }
        if !self.module(&module, state, kind, true) {
            return;
        }
        let named = !ask.devices.is_empty();
        let chosen = if named {
            ask.devices
                .iter()
                .filter_map(|name| facts.interface(name))
                .collect()
        } else {
            carriers(facts)
        };
        for one in chosen {
            self.interface(one, kind, named);
        }
        if named {
            return;
        }
        if self.inner {
            let why = "it belongs to the initial network namespace";
            self.leave(QDISC, why, "select interfaces: --dev eth0");
            return;
        }
        self.keep(
            QDISC,
            kind,
            format!("interfaces that come up later get {kind}"),
        );
    }

    // The method returns after each reason not to change the interface.
    fn interface(&mut self, one: &Interface, kind: &str, named: bool) {
        let name = &one.name;
        if !is_device(name) {
            let why = "its name has characters that plans do not allow";
            self.leave(quoted(name), why, "");
            return;
        }
        let is_read = |q: &Qdisc| is_name(&q.kind) && is_class(&q.handle, &q.parent);
        if !one.qdiscs.iter().all(is_read) {
            self.leave(name, "the output of tc for it could not be read", "");
            return;
        }
        let Some(root) = one.root() else {
            if self.facts.said.contains("tc") {
                self.leave(name, "tc reports no queue discipline", "");
            } else {
                let why = "its queue discipline is unknown: tc is missing";
                self.leave(name, why, "install iproute2 (OpenWrt: tc-tiny)");
            }
            return;
        };
        let leaves = one.leaves();
        if !leaves.is_empty() && leaves.iter().all(|leaf| leaf.kind == kind) {
            if named {
                self.done.push(format!("{name} has {kind}"));
            }
            return;
        }
        let foreign: Vec<&Qdisc> = one.qdiscs.iter().filter(|q| is_configured(q)).collect();
        if !foreign.is_empty() && !self.ask.replace {
            self.leave(
                name,
                format!("it has {}, {ADMINISTRATOR}", kinds(&foreign)),
                REPLACE,
            );
            return;
        }
        if root.kind == "noqueue" && !(named && self.ask.replace) {
            if one.wireless {
                self.leave(name, "its packets wait in the fair queues of mac80211", "");
            } else {
                let why = "it has no queue; a device below it has one";
                self.leave(name, why, format!("--dev {name} --replace adds one"));
            }
            return;
        }
        let file = if named {
            self.interface_file(one, kind)
        } else {
            (!self.inner).then(|| SYSCTL_FILE.to_owned())
        };
        self.done.push(format!("{name} gets {kind}"));
        let mut change = |parent: &str, from: Option<State>, to: Discipline, why: &str| {
            let target = Target::keys(&[("dev", name), ("parent", parent)]);
            let change = Change::new("qdisc", target, from, State::Qdisc(to), why);
            self.plan.changes.push(change.persisted(file.as_deref()));
        };
        let keeps = |of: &str, kind: &str| {
            format!("{of} that is up keeps its {kind} when the default changes")
        };
        let wanted = Discipline::new(kind, None);
        if root.kind != "mq" {
            change(
                "root",
                Some(was(root)),
                wanted,
                &keeps("an interface", &root.kind),
            );
            return;
        }
        let mut handle = root.handle.as_str();
        if root.attached_by_kernel() {
            handle = "1:";
            let why = "only classes of a named mq can be changed";
            change(
                "root",
                Some(was(root)),
                Discipline::new("mq", Some(handle)),
                why,
            );
        }
        let minor = |leaf: &Qdisc| {
            leaf.parent
                .rsplit(':')
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        let mut leaves = leaves;
        leaves.sort_by_key(|leaf| u32::from_str_radix(&minor(leaf), 16).unwrap_or(0));
        for leaf in leaves {
            let from = (!root.attached_by_kernel()).then(|| was(leaf));
            let parent = format!("{handle}{}", minor(leaf));
            let why = keeps("a queue of an interface", &leaf.kind);
            change(&parent, from, wanted.clone(), &why);
        }
    }

    fn interface_file(&mut self, one: &Interface, kind: &str) -> Option<String> {
        if self.inside {
            return None;
        }
        let Some(file) = qdisc_file(self.facts, one, kind) else {
            let why = "the program that configures this interface at boot is unknown";
            self.leave(format!("{} after a reboot", one.name), why, "");
            return None;
        };
        let path = file.path.clone();
        self.file(file, format!("{} gets {kind} again at boot", one.name));
        Some(path)
    }

    pub(super) fn shaper(&mut self) {
        let (facts, ask) = (self.facts, self.ask);
        let Some(shape) = &ask.shape else { return };
        let unknown = Interface::named(shape);
        let one = facts.interface(shape).unwrap_or(&unknown);
        let name = &one.name;
        let kind = ask.qdisc.as_deref().unwrap_or_else(|| shaper::best(facts));
        let modules = shaper::modules(kind, ask.down_kbit.is_some());
        if modules
            .iter()
            .filter(|module| !self.shapes(module, kind))
            .count()
            > 0
        {
            return;
        }
        let link = shaper::ifb(name);
        let (into, out): (Vec<&Qdisc>, Vec<&Qdisc>) =
            one.qdiscs.iter().partition(|q| q.parent == "ingress");
        let into: Vec<&Qdisc> = into
            .into_iter()
            .filter(|_| ask.down_kbit.is_some())
            .collect();
        let out = out
            .into_iter()
            .filter(|q| ask.up_kbit.is_some() && is_configured(q));
        let foreign: Vec<&Qdisc> = out.chain(into.iter().copied()).collect();
        let ours = into.is_empty() || facts.interface(&link).is_some();
        if !(foreign.is_empty() || ask.replace && ours) {
            let fix = if ours { REPLACE } else { "remove it manually" };
            self.leave(
                name,
                format!("it has {}, {ADMINISTRATOR}", kinds(&foreign)),
                fix,
            );
            return;
        }
        let below = match kind {
            "cake" => kind.to_owned(),
            _ => format!("tbf with {kind}"),
        };
        if let Some(kbit) = ask.up_kbit {
            for (parent, wanted) in shaper::disciplines(kind, kbit, &shaper::free(one)).0 {
                let (from, why) = match parent.as_str() {
                    "root" => (
                        one.root().map(was),
                        "the queue forms in the shaper, which keeps it short",
                    ),
                    _ => (None, "it is the child of the token bucket filter"),
                };
                let target = Target::keys(&[("dev", name), ("parent", &parent)]);
                let change = Change::new("qdisc", target, from, State::Qdisc(wanted), why);
                self.plan.changes.push(change);
            }
            self.done.push(format!(
                "{below} shapes outgoing traffic of {name} to {kbit} kbit/s"
            ));
        }
        if let Some(kbit) = ask.down_kbit {
            let to = State::Ingress(shaper::disciplines(kind, kbit, "1:"));
            let why = "incoming traffic can only be queued on an intermediate device (ifb)";
            let target = Target::keys(&[("dev", name), ("ifb", &link)]);
            self.plan
                .changes
                .push(Change::new("ingress", target, None, to, why));
            self.done.push(format!(
                "{below} shapes incoming traffic of {name} to {kbit} kbit/s"
            ));
        }
        self.warn_of_load("host");
    }

    fn warn_of_load(&mut self, host: &str) {
        self.plan.effects.push(format!(
            "Shaping needs CPU time: check with `top` under load that no CPU of this {host} is \
             fully used."
        ));
    }

    /// Plans to load a module of a shaper; if the module is missing, the plan names the nearest
    /// alternative. Returns whether it is available.
    fn shapes(&mut self, module: &str, kind: &str) -> bool {
        let state = match self.facts.has_module(module) {
            Module::Unknown => Module::Builtin, // `apply` checks it
            state => state,
        };
        let feature = module.strip_prefix("sch_").unwrap_or(module);
        if self.module(module, state, feature, false) {
            return true;
        }
        let nearest = shaper::nearest(self.facts, kind).filter(|_| feature == kind);
        if let (Some(nearest), Some(need)) = (nearest, self.plan.needs.last_mut()) {
            need.why += &format!("; nearest available alternative: --qdisc {nearest}");
        }
        false
    }

    pub(super) fn sqm(&mut self) -> Result<(), String> {
        let (facts, ask) = (self.facts, self.ask);
        let (Some(sqm), Some(down), Some(up)) = (&ask.sqm, ask.down_kbit, ask.up_kbit) else {
            return Ok(());
        };
        if !facts.interfaces.is_empty() && facts.interface(sqm).is_none() {
            return Err(format!("--sqm {}", absent(facts, sqm)));
        }
        let cake = facts.has_module("sch_cake").is_there();
        for (name, why) in [
            ("kmod-sched-cake", "it contains the queue discipline cake"),
            ("sqm-scripts", "it configures the shaper, also at boot"),
        ] {
            if (cake && name == "kmod-sched-cake") || facts.packages.iter().any(|p| p == name) {
                continue;
            }
            if ask.install {
                self.install(name, why);
                continue;
            }
            let [tool, verb] = features::openwrt_install(facts);
            let why = format!("the package {name} is missing: {why}; --install installs it");
            self.need("package", name, &[tool, verb, name], why);
        }
        if !facts.sqm.is_empty() && !ask.replace {
            let why = format!("it was {ADMINISTRATOR}");
            self.leave("/etc/config/sqm", why, "--replace adds a shaper of narrows");
            return Ok(());
        }
        let (down_text, up_text) = (down.to_string(), up.to_string());
        let required = "required by sqm-scripts";
        for (key, value, why) in [
            ("", "queue", "the section of this shaper in /etc/config/sqm"),
            (".interface", sqm.as_str(), required),
            (".download", &down_text, "rate of --down, kbit/s"),
            (".upload", &up_text, "rate of --up, kbit/s"),
            (".qdisc", "cake", required),
            (".script", "piece_of_cake.qos", required),
            (".enabled", "1", required),
        ] {
            let target = format!("sqm.narrows{key}");
            let change = Change::new("uci", target.as_str().into(), None, value.into(), why);
            self.plan.changes.push(change);
        }
        self.done.push(format!(
            "cake shapes incoming traffic of {sqm} to {down} kbit/s and outgoing traffic to {up} \
             kbit/s"
        ));
        self.warn_of_load("router");
        Ok(())
    }
}

fn was(one: &Qdisc) -> State {
    State::Qdisc(Discipline::new(&one.kind, Some(&one.handle)))
}

fn kinds(qdiscs: &[&Qdisc]) -> String {
    let names: BTreeSet<&str> = qdiscs.iter().map(|qdisc| qdisc.kind.as_str()).collect();
    listed(&names.into_iter().collect::<Vec<_>>())
}

/// Whether handle and parent have the form of tc: hexadecimal numbers, `root` or `ingress`.
fn is_class(handle: &str, parent: &str) -> bool {
    let hex = |text: &str| {
        text.len() <= 4
            && text
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let major = handle.strip_suffix(':').filter(|major| !major.is_empty());
    let class = parent
        .split_once(':')
        .is_some_and(|(major, minor)| hex(major) && hex(minor));
    major.is_some_and(hex) && (class || matches!(parent, "root" | "ingress"))
}
