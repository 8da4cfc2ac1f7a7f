//! Journals of other network namespaces. A plan that was applied in another namespace must be
//! reverted in that namespace; this module only lists it with the command for that.

use super::journal::{Journal, Phase, Store};
use super::netns::Namespace;
use crate::HostError;
use crate::tune::target::World;
use serde_json::{Value, json};
use std::fs;

/// A plan that was applied in another existing network namespace.
#[derive(Debug)]
pub struct Elsewhere {
    journal: Journal,
    namespace: Namespace,
}

impl Elsewhere {
    /// The command that runs `narrows tune VERB` in the other namespace; `None` if no way into that
    /// namespace is known.
    fn command(&self, verb: &str, world: &World) -> Option<String> {
        let (before, behind) = self.namespace.reached()?;
        Some(format!(
            "{before}narrows tune {verb}{behind}{}",
            world.options()
        ))
    }
    fn line(&self, verb: &str, world: &World) -> Option<String> {
        let Journal { title, made, .. } = &self.journal;
        let place = self.namespace.described();
        let command = self.command(verb, world)?;
        Some(format!(
            "{title:?} was applied in {place} on {made}\n    write: {command}"
        ))
    }
    /// Returns a summary of the journal, with the command that reverts it, as JSON.
    pub fn to_json(&self, world: &World) -> Value {
        json!({
            "title": self.journal.title,
            "made": self.journal.made,
            "namespace": self.namespace.described(),
            "unconfirmed": self.journal.phase == Phase::Unconfirmed,
            "revert": self.command("revert", world),
        })
    }
}

/// All plans of other namespaces, that of the initial namespace first. Unreadable journals, and
/// those of namespaces that no longer exist, are left out.
pub fn list(world: &World) -> Vec<Elsewhere> {
    let base = world.namespaces();
    let below = world.root.join(base.trim_start_matches('/'));
    let mut names: Vec<String> = fs::read_dir(below)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with("netns-"))
        .collect();
    names.sort();
    let places = names.into_iter().map(|name| format!("{base}/{name}"));
    let hosts = (!world.home).then(|| world.hosts());
    let journals = hosts
        .into_iter()
        .chain(places)
        .filter(|place| *place != world.state);
    let known = journals.filter_map(|place| {
        let journal = Store::peek(world, &place).ok().flatten()?;
        let namespace = journal.namespace.clone()?;
        let there = !namespace.is(&world.here) && namespace.reached().is_some();
        there.then_some(Elsewhere { journal, namespace })
    });
    known.collect()
}

/// Called if no plan was applied in this namespace. Fails if plans were applied in other
/// namespaces; the error lists the commands for them.
pub fn refuse(world: &World, verb: &str) -> Result<(), HostError> {
    let lines: Vec<String> = list(world)
        .iter()
        .filter_map(|one| one.line(verb, world))
        .collect();
    if lines.is_empty() {
        return Ok(());
    }
    let here = world.here.described();
    Err(HostError::Unlike(format!(
        "nothing was applied in {here}\n{}",
        lines.join("\n")
    )))
}

/// Checks that the journal belongs to this network namespace. With `force`, a journal of a
/// namespace that cannot be found is also accepted, such as that of the same container before a
/// restart.
pub fn refuse_others(
    journal: &Journal,
    world: &World,
    verb: &str,
    force: bool,
) -> Result<(), HostError> {
    let Some(namespace) = journal
        .namespace
        .clone()
        .filter(|_| !journal.is_here(world))
    else {
        return Ok(());
    };
    let other = Elsewhere {
        journal: journal.clone(),
        namespace,
    };
    let here = world.here.described();
    if let Some(line) = other.line(verb, world) {
        return Err(HostError::Unlike(format!(
            "{line}\n    this is {here}: nothing was changed"
        )));
    }
    if force {
        return Ok(());
    }
    let (title, there) = (&journal.title, other.namespace.described());
    Err(HostError::Unlike(format!(
        "{title:?} was applied in {there}, which cannot be found; this is {here}: nothing was \
         changed\n    if this is the same container after a restart: {} --force",
        world.command("revert")
    )))
}
