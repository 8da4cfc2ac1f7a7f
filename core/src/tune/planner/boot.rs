//! Routes, and the files that repeat changes at boot.

use super::{Making, sysctl};
use crate::registry::linux;
use crate::tune::facts::CC;
use crate::tune::features::{has, release_and_commit};
use crate::tune::persist::{
    File, SYSCTL_FILE, SYSCTL_FILE_LAST, modules_file, route_file, sysctl_text,
};
use crate::tune::plan::{Change, State, Target, is_name};
use crate::tune::routes::replacement;
use crate::tune::{quoted, routes};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

impl Making<'_> {
    pub(super) fn routes(&mut self) -> Result<(), String> {
        let Some(cc) = self.ask.cc.as_deref() else {
            return Ok(());
        };
        self.ask.to.iter().try_for_each(|text| self.route(text, cc))
    }

    fn route(&mut self, text: &str, cc: &str) -> Result<(), String> {
        let facts = self.facts;
        let network = routes::network(text)?;
        let (prefix, family) = (network.text(), network.family());
        let since = release_and_commit("congctl");
        if has(facts.kernel(), "congctl") == Some(false) {
            let why = format!("a congestion control per route requires a newer kernel ({since})");
            self.need("kernel", "", &[], why);
            return Ok(());
        }
        let known = facts.routes.iter().filter(|(of, _)| of == family);
        let known: Vec<Vec<String>> = known
            .map(|(_, line)| routes::words(line))
            .filter(|words| !words.is_empty())
            .collect();
        let exact = known.iter().find(|words| words[0] == prefix);
        let Some(covering) = exact.or_else(|| routes::covering(&network, &known)) else {
            return Err(format!(
                "--to {text}: this host has no route to this destination"
            ));
        };
        if exact.is_some_and(|words| routes::congctl(words) == Some(cc)) {
            self.done.push(format!("{prefix} uses {cc} already"));
            return Ok(());
        }
        let kept = routes::stripped(covering);
        let mut after = Vec::from([prefix.clone()]);
        if exact.is_some() {
            after.extend(kept.into_iter().skip(1));
        } else {
            after.extend(routes::next_hop(&kept));
        }
        after.extend(["congctl".into(), cc.into()]);
        for word in after.iter().chain(exact.into_iter().flatten()) {
            let plain = |c: char| c.is_ascii_alphanumeric() || "_.:/@%-".contains(c);
            if word.is_empty() || !word.chars().all(plain) || word.starts_with('-') {
                let word = quoted(word);
                return Err(format!(
                    "--to {text}: the route to it contains an unsupported word: {word}"
                ));
            }
        }
        let found = route_file(facts, family, &after).filter(|_| !self.inside);
        if found.is_none() && !self.inside {
            let why = "the program that sets the routes of this host at boot is unknown";
            let command = replacement(family, &after);
            let fix = format!("add this command to its configuration: {command}");
            self.leave(format!("{prefix} after a reboot"), why, fix);
        }
        self.done.push(format!("connections to {prefix} use {cc}"));
        let why =
            format!("connections to {prefix} use {cc} independently of the default ({since})");
        let target = Target::keys(&[("family", family), ("table", "main"), ("prefix", &prefix)]);
        let from = exact.map(|words| State::Words(words.clone()));
        let change = Change::new("route", target, from, State::Words(after), why);
        let path = found.as_ref().map(|file| file.path.as_str());
        self.plan.changes.push(change.persisted(path));
        if let Some(file) = found {
            self.file(
                file,
                format!("the route to {prefix} has {cc} again at boot"),
            );
        }
        self.plan.effects.push(
            "A DHCP client or routing daemon that replaces this route removes the setting.".into(),
        );
        Ok(())
    }

    pub(super) fn file(&mut self, file: File, why: String) {
        let File { path, text, mode } = file;
        let target = Target::Name(path);
        let planned = self
            .plan
            .changes
            .iter_mut()
            .find(|change| change.target == target);
        if let Some(State::File { text: planned, .. }) = planned.map(|change| &mut change.to) {
            *planned += &text;
            return;
        }
        let Target::Name(path) = &target else { return };
        let before = self.facts.own.get(path);
        if before != Some(&text) {
            let from = before.map(|text| State::File {
                text: text.clone(),
                mode: mode.into(),
            });
            let change = Change::new(
                "file",
                target,
                from,
                State::File {
                    text,
                    mode: mode.into(),
                },
                why,
            );
            self.plan.changes.push(Change {
                phase: "boot",
                ..change
            });
        }
    }

    pub(super) fn files(&mut self) {
        let is_file = |change: &Change| change.kind == "file";
        let all = core::mem::take(&mut self.plan.changes);
        let (early, others): (Vec<Change>, Vec<Change>) = all.into_iter().partition(is_file);
        self.plan.changes = others;
        if !self.inside && !self.locked && self.plan.needs.is_empty() {
            self.modules_file();
            self.settings_file();
        }
        self.plan.changes.extend(early);
        let file = self.sysctl_file().filter(|file| *file == SYSCTL_FILE_LAST);
        for change in &mut self.plan.changes {
            if change.kind == "qdisc" && change.persist.as_deref() == Some(SYSCTL_FILE) {
                change.persist = file.map(String::from).or(change.persist.take());
            }
        }
    }

    fn modules_file(&mut self) {
        let Some(path) = modules_file(self.facts).filter(|_| !self.modules.is_empty()) else {
            return;
        };
        let own = self.facts.own.get(path).map_or("", |text| text);
        let mut names = self.modules.clone();
        names.extend(
            own.split('\n')
                .filter(|word| is_name(word))
                .map(String::from),
        );
        let lines: Vec<String> = names.iter().map(|name| format!("{name}\n")).collect();
        let (path, text, mode) = (path.into(), lines.concat(), "0644");
        let why = "modules must be loaded before the settings";
        self.file(File { path, text, mode }, why.into());
    }

    fn settings_file(&mut self) {
        let decided = |(key, value): &(String, String)| self.is_decided(key, value);
        if self.kept.0.iter().all(decided) {
            return;
        }
        let path = self.sysctl_file().unwrap_or(SYSCTL_FILE);
        let own = self.facts.own.get(path).map_or("", |text| text);
        let rows = own.split('\n').filter(|line| !line.starts_with('#'));
        let rows = rows.filter_map(|line| line.split_once('='));
        let mut settings: BTreeMap<String, String> = rows
            .map(|(key, value)| (key.trim().into(), value.trim().into()))
            .filter(|(key, value): &(String, String)| {
                sysctl(key).is_some() && linux::Form::Words.fits(value)
            })
            .collect();
        settings.extend(self.kept.0.iter().cloned());
        let (path, text, mode) = (path.into(), sysctl_text(&settings), "0644");
        let why = "settings without a file are lost at a reboot";
        self.file(File { path, text, mode }, why.into());
    }

    fn is_decided(&self, key: &str, value: &str) -> bool {
        if let Some(line) = self.facts.decided(key) {
            return line.value == value;
        }
        let compiled = self.facts.config.get("CONFIG_DEFAULT_TCP_CONG");
        key == CC && compiled.is_some_and(|cc| cc == value) && self.facts.value(key) == Some(value)
    }
}
