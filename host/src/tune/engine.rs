//! Apply, confirm, revert and verify: the order of their steps.
//!
//! ```text
//!   apply:   read the present values ── write the journal ── change each value and read it back
//!   revert:  read the journal ── restore each value and read it back ── delete the journal
//! ```
//!
//! If a step of `apply` fails, all changes are reverted. If the process is killed at any step, a
//! later `revert` restores all values from the journal.

use super::journal::{Deadline, Entry, Journal, Phase, Store, UNDONE};
use super::plan::{Change, Plan, What};
use super::{boot as files, diag, elsewhere, ingress, qdisc, sysctl, watchdog};
use crate::HostError;
use crate::sys;
use crate::tune::target::World;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Treatment, in a revert, of a value that another program changed after the plan was applied.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Foreign {
    /// Restore no value at all, and report the changed ones.
    Refuse,
    /// Keep the changed value and restore the others.
    Leave,
    /// Restore the changed value, too.
    Overwrite,
}

type Answer = Result<Value, HostError>;

fn broken(e: std::io::Error) -> HostError {
    HostError::Broken(e.to_string())
}

/// A value of a change in the form of reports.
fn shown(change: &Change, value: &Value) -> Value {
    match &change.what {
        What::Module(_) => json!(if *value == json!(true) {
            "loaded"
        } else {
            "absent"
        }),
        What::Sysctl(..) | What::Allowed(_) => {
            json!(sysctl::plain(value.as_str().unwrap_or_default()))
        }
        What::Qdisc(..) => {
            let tree = qdisc::Tree::from_json(value).unwrap_or_default();
            json!(
                tree.queues
                    .iter()
                    .map(qdisc::Node::shown)
                    .collect::<Vec<_>>()
            )
        }
        What::Ingress(_) => ingress::Shaped::shown(value),
        What::Route(..) if value.is_null() => json!("no such route"),
        What::Route(..) => json!(
            value["cc"]
                .as_str()
                .unwrap_or("no congestion control of its own")
        ),
        What::File(..) => json!(if value["absent"] == json!(true) {
            "absent"
        } else {
            "there"
        }),
    }
}

/// Returns a value as text for a message, with queue disciplines in the form of `tc`.
fn said(change: &Change, value: &Value) -> String {
    match (&change.what, shown(change, value)) {
        (What::Qdisc(..), _) => qdisc::Tree::from_json(value).unwrap_or_default().as_tc(),
        (_, Value::String(text)) => text,
        (_, other) => other.to_string(),
    }
}

/// Reads the present values and rejects changes that are unsafe; changes nothing. Returns the
/// changes to be made with the values before them, and the names of those whose values are already
/// the requested ones.
fn look(plan: &Plan, world: &World) -> Result<(Vec<Entry>, Vec<Value>), HostError> {
    let (mut entries, mut already, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
    for change in plan.changes.iter().filter(|change| belongs(change, world)) {
        let before = match change.live(world) {
            Ok(before) => before,
            Err(e) => {
                wrong.push(e.to_string());
                continue;
            }
        };
        if change.reached(&before) {
            already.push(json!(change.id));
            continue;
        }
        wrong.extend(
            change
                .expected(&before)
                .err()
                .map(|text| format!("{text}; create the plan again")),
        );
        wrong.extend(made_by_somebody(change, &before, world));
        wrong.extend(not_from_here(change, world));
        let beside = change.beside();
        entries.push(Entry {
            change: change.clone(),
            before,
        });
        if let Some(beside) = beside {
            let before = beside.live(world).map_err(broken)?;
            entries.push(Entry {
                change: beside,
                before,
            });
        }
    }
    if wrong.is_empty() {
        Ok((entries, already))
    } else {
        Err(HostError::Unlike(wrong.join("\n")))
    }
}

/// Whether this namespace may make the change. Files for the next boot belong to the host and are
/// written only from its own network namespace.
fn belongs(change: &Change, world: &World) -> bool {
    world.home || !change.boot
}

/// Changes of a plan that are not made in this namespace, with the reason.
fn left(plan: &Plan, world: &World) -> Vec<Value> {
    let why = format!(
        "{} shares the files of the host: at the next boot they would change the host",
        world.here.described()
    );
    let out = plan.changes.iter().filter(|change| !belongs(change, world));
    out.map(|change| json!({ "id": change.id, "why": why }))
        .collect()
}

/// The error for a change that must not be made from this namespace. One case is loading a module
/// from a namespace other than the host's. The other is a default congestion control that is
/// restricted to root.
fn not_from_here(change: &Change, world: &World) -> Option<String> {
    let here = world.here.described();
    match &change.what {
        What::Module(name) if !world.home => Some(format!(
            "module {name}: it is loaded for the whole host, and this is {here}; outside of it: \
             modprobe {name}"
        )),
        What::Sysctl(key, _, cc) if key == sysctl::CC && !world.here.initial => {
            let allowed = sysctl::read(sysctl::ALLOWED).ok()?;
            let restricted = !sysctl::words(&allowed).contains(&cc.as_str());
            restricted.then(|| {
                let all = format!("{} {cc}", sysctl::plain(&allowed));
                format!(
                    "{key}: {cc} is restricted, and only the initial network namespace may have a \
                     restricted default\n    \
                     on the host: sysctl -w {}=\"{all}\"",
                    sysctl::ALLOWED
                )
            })
        }
        _ => None,
    }
}

fn made_by_somebody(change: &Change, before: &Value, world: &World) -> Option<String> {
    let What::Qdisc(device, steps, _) = &change.what else {
        return None;
    };
    let tree = qdisc::Tree::from_json(before)?;
    let made: Vec<String> = tree
        .made(steps)
        .iter()
        .map(|q| format!("{} {}", q.kind, qdisc::shown(q.handle)))
        .collect();
    if made.is_empty() {
        return None;
    }
    if !world.replace {
        return Some(format!(
            "{device}: another program has configured {}; to replace it, write --replace",
            made.join(", ")
        ));
    }
    if tree.filters > 0 {
        return Some(format!(
            "{device}: {} has filters, which narrows cannot restore; remove it yourself",
            made[0]
        ));
    }
    let odd = tree.classes.iter().find(|c| c.kind != "htb");
    odd.map(|c| {
        format!(
            "{device}: {} has classes, which narrows cannot restore; remove it yourself",
            c.kind
        )
    })
}

/// Applies a plan. `within`: time in which the plan must be confirmed, s; `None`: no confirmation
/// is required.
pub fn apply(plan: &Plan, world: &World, within: Option<f64>) -> Answer {
    // Nothing is created, not even a directory, before a change is known to be needed.
    let below = match Store::open(world, false)? {
        Some(store) => coverable(store.read()?, world)?,
        None => None,
    };
    let (entries, already) = look(plan, world)?;
    let left = left(plan, world);
    if entries.is_empty() {
        let steps = world.steps.get();
        return Ok(
            json!({ "done": [], "already": already, "left": left, "nothing_to_do": true,
            "steps": steps }),
        );
    }
    let mut journal = Journal::new(plan.title.clone(), plan.netns.clone(), world.here.clone());
    journal.entries = entries;
    let under = below.as_ref().map(|j| j.id.clone());
    journal.below = below.map(Box::new);
    journal.deadline = within.map(Deadline::within);
    if !journal.fits() {
        return Err(HostError::Unlike(format!(
            "the plan and those below it are too long for the journal; nothing was changed: \
             write a shorter plan, or {} first",
            world.command("revert")
        )));
    }
    let store = Store::open(world, true)?
        .ok_or_else(|| HostError::Broken("the journal's directory vanished".to_string()))?;
    if coverable(store.read()?, world)?.map(|j| j.id) != under {
        return Err(HostError::Unlike(
            "another narrows tune was running; check the settings and apply again".to_string(),
        ));
    }
    store.write(Some(&journal))?;
    let told = match carry_out(&store, &mut journal, world, within) {
        Ok(told) => told,
        Err(error) => return Err(rolled_back(&store, &journal, world, error)),
    };
    Ok(merged(
        told,
        json!({ "already": already, "left": left, "steps": world.steps.get() }),
    ))
}

fn coverable(below: Option<Journal>, world: &World) -> Result<Option<Journal>, HostError> {
    let Some(j) = below else { return Ok(None) };
    elsewhere::refuse_others(&j, world, "revert", false)?;
    let (confirm, revert) = (world.command("confirm"), world.command("revert"));
    let text = match j.phase {
        Phase::Unconfirmed => {
            format!("an earlier plan is not confirmed: {confirm}, or {revert}")
        }
        Phase::Applied if j.may_be_covered() => return Ok(Some(j)),
        Phase::Applied => {
            format!("too many plans are applied; {revert}, then apply one plan for all changes")
        }
        _ => format!("an earlier change was interrupted; {revert} first"),
    };
    Err(HostError::Unlike(text))
}

fn merged(mut a: Value, b: Value) -> Value {
    if let (Some(a), Value::Object(b)) = (a.as_object_mut(), b) {
        a.extend(b);
    }
    a
}

fn carry_out(store: &Store, journal: &mut Journal, world: &World, within: Option<f64>) -> Answer {
    if within.is_some() {
        watchdog::start(world, journal)?;
        world.step();
    }
    let mut done = make(journal, false, world)?;
    let proof = prove(journal)?;
    if within.is_none() {
        done.extend(make(journal, true, world)?);
    }
    journal.phase = if within.is_some() {
        Phase::Unconfirmed
    } else {
        Phase::Applied
    };
    store.write(Some(journal))?;
    let notes = files::overridden(journal.entries.iter().map(|e| &e.change.what), world);
    Ok(json!({
        "done": done,
        "proof": proof,
        "still": still(journal),
        "overridden": notes,
        "unconfirmed_s": within,
        "confirm": world.command("confirm"),
        "revert": world.command("revert"),
        "id": journal.id,
    }))
}

/// Makes the changes for the running system, or with `boot` those for the next boot, and reads each
/// value back.
fn make(journal: &Journal, boot: bool, world: &World) -> Result<Vec<Value>, HostError> {
    let mut done = Vec::new();
    for entry in journal.entries.iter().filter(|e| e.change.boot == boot) {
        if sys::stopped() {
            return Err(HostError::Stopped);
        }
        let change = &entry.change;
        change.make(world).map_err(broken)?;
        let after = change.live(world).map_err(broken)?;
        if !change.reached(&after) {
            let text = format!("{}: was set, but is {}", change.id, said(change, &after));
            return Err(HostError::Broken(text));
        }
        done.push(
            json!({ "id": change.id, "before": shown(change, &entry.before),
        "after": shown(change, &after) }),
        );
    }
    Ok(done)
}

/// The default congestion control that the plan of a journal sets, if it sets one.
fn default_cc(journal: &Journal) -> Option<&str> {
    journal.entries.iter().find_map(|e| match &e.change.what {
        What::Sysctl(key, _, to) if key == sysctl::CC => Some(to.as_str()),
        _ => None,
    })
}

/// If the plan sets the default congestion control, opens a new connection and fails if it uses
/// another one. Returns its name, and the number of users of its kernel module.
fn prove(journal: &Journal) -> Answer {
    let Some(cc) = default_cc(journal) else {
        return Ok(Value::Null);
    };
    let fresh = diag::fresh()
        .map_err(|e| HostError::Broken(format!("a new connection for the test: {e}")))?;
    let listed = fresh.listed.as_deref();
    if fresh.socket != cc || listed.is_some_and(|listed| listed != cc) {
        let seen = listed.unwrap_or(&fresh.socket);
        return Err(HostError::Broken(format!(
            "a new connection uses {seen}, not {cc}"
        )));
    }
    let module = format!("tcp_{cc}");
    Ok(
        json!({ "cc": fresh.socket, "listed": listed, "module": module,
        "module_users": super::module::users(&module) }),
    )
}

/// Established connections that keep another congestion control than the new default, counted by
/// congestion control and program.
fn still(journal: &Journal) -> Value {
    let Some(cc) = default_cc(journal) else {
        return json!([]);
    };
    let mut old: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for connection in diag::connections().unwrap_or_default() {
        if connection.cc != cc {
            old.entry(connection.cc).or_default().push(connection.inode);
        }
    }
    let holders = if old.is_empty() {
        BTreeMap::new()
    } else {
        diag::holders()
    };
    let row = |(cc, inodes): (String, Vec<u32>)| {
        let mut programs: BTreeMap<&String, u64> = BTreeMap::new();
        for name in inodes
            .iter()
            .filter_map(|inode| holders.get(inode))
            .flatten()
        {
            *programs.entry(name).or_default() += 1;
        }
        let programs: Vec<Value> = programs
            .iter()
            .map(|(name, n)| json!({ "program": name, "connections": n }))
            .collect();
        json!({ "cc": cc, "connections": inodes.len(), "programs": programs })
    };
    Value::Array(old.into_iter().map(row).collect())
}

/// Reverts a plan that could not be applied; returns the error to report.
fn rolled_back(store: &Store, journal: &Journal, world: &World, why: HostError) -> HostError {
    let below = journal.below.as_deref();
    let undone = undo(journal, world, Foreign::Overwrite)
        .and_then(|notes| store.write(below).map(|()| notes));
    match (undone, why) {
        (Ok(_), HostError::Stopped) => HostError::Stopped,
        (Ok(_), why) => HostError::Broken(format!("{why}\n    everything was restored")),
        (Err(worse), why) => HostError::Broken(format!(
            "{why}\n    and not everything could be restored: {worse}; {}",
            world.command("revert")
        )),
    }
}

/// The entries of a journal in the order in which they are reverted.
fn backwards(journal: &Journal) -> Vec<&Entry> {
    let mut list: Vec<(u8, usize, &Entry)> = journal
        .entries
        .iter()
        .enumerate()
        .map(|(i, e)| (e.change.rank(), i, e))
        .collect();
    list.sort_by_key(|(rank, at, _)| (*rank, usize::MAX - at));
    list.into_iter().map(|(_, _, entry)| entry).collect()
}

/// The present value, if another program has changed it since the plan was applied; otherwise
/// `None`.
fn foreign(entry: &Entry, journal: &Journal, world: &World) -> Result<Option<Value>, HostError> {
    let live = match entry.change.live(world) {
        Ok(live) => live,
        // The queue disciplines of a removed interface no longer exist.
        Err(e) if gone(&entry.change, &e) => return Ok(None),
        Err(e) => return Err(broken(e)),
    };
    let change = &entry.change;
    // After an interruption, a device may have some of the plan's disciplines; narrows left this
    // state itself.
    let in_parts = matches!(change.what, What::Qdisc(..) | What::Ingress(_));
    let halfway = matches!(journal.phase, Phase::Applying | Phase::Reverting) && in_parts;
    let vanished = matches!(change.what, What::Route(..)) && live.is_null();
    // At each boot the kernel attaches its own disciplines.
    let booted = journal.is_of_another_boot() && change.is_of_the_kernel(&live);
    let ours =
        halfway || vanished || booted || change.remains(&live) || known(change, &live, journal);
    Ok((!ours).then_some(live))
}

/// Whether this plan, or one below it, set this value or found it before its change. A plan below
/// it may already be reverted.
fn known(change: &Change, live: &Value, journal: &Journal) -> bool {
    let same = |e: &Entry| {
        e.change.id == change.id && (e.change.same(live, &e.before) || e.change.reached(live))
    };
    let here = journal.entries.iter().any(same);
    here || journal
        .below
        .as_deref()
        .is_some_and(|below| known(change, live, below))
}

fn gone(change: &Change, error: &std::io::Error) -> bool {
    /// Text of `ENODEV`. The error has no `ErrorKind`, and its number is lost when the name of the
    /// interface is added to its text.
    const NO_DEVICE: &str = "No such device";
    let absent =
        error.kind() == std::io::ErrorKind::NotFound || error.to_string().contains(NO_DEVICE);
    absent && matches!(change.what, What::Qdisc(..))
}

/// Fails if another program has changed a value since the plan was applied. The revert then
/// restores nothing.
fn refuse_foreign(journal: &Journal, world: &World) -> Result<(), HostError> {
    let mut list = Vec::new();
    for entry in &journal.entries {
        if let Some(live) = foreign(entry, journal, world)? {
            let change = &entry.change;
            let (is, was) = (said(change, &live), said(change, &entry.before));
            let id = &change.id;
            list.push(if is == was {
                format!("{id}: is {is} now, with other options than narrows found or set")
            } else {
                format!("{id}: is {is} now, which narrows did not set; before it was {was}")
            });
        }
    }
    if list.is_empty() {
        return Ok(());
    }
    let list = list.join("\n");
    Err(HostError::Broken(format!(
        "{list}\n    nothing was restored; to restore everything nevertheless: {} --force",
        world.command("revert")
    )))
}

/// Restores all values of one journal, except those that other programs changed, unless `mode` is
/// to overwrite them; returns messages.
fn undo(journal: &Journal, world: &World, mode: Foreign) -> Result<Vec<String>, HostError> {
    let (mut notes, mut wrong, mut changed) = (Vec::new(), Vec::new(), Vec::new());
    for entry in backwards(journal) {
        match foreign(entry, journal, world) {
            Ok(Some(live)) => changed.push((entry, live)),
            Ok(None) => {}
            Err(e) => wrong.push(e.to_string()),
        }
    }
    for entry in backwards(journal) {
        let change = &entry.change;
        if mode != Foreign::Overwrite && changed.iter().any(|(e, _)| e.change.id == change.id) {
            notes.push(format!(
                "{}: not restored, because it was changed since",
                change.id
            ));
            continue;
        }
        match put_back(entry, world) {
            Ok(note) => notes.extend(note),
            Err(text) => wrong.push(text),
        }
    }
    wrong.dedup();
    if wrong.is_empty() {
        Ok(notes)
    } else {
        Err(HostError::Broken(wrong.join("\n")))
    }
}

fn put_back(entry: &Entry, world: &World) -> Result<Option<String>, String> {
    let change = &entry.change;
    let live = match change.live(world) {
        Ok(live) => live,
        Err(e) if gone(change, &e) => {
            return Ok(Some(format!(
                "{}: the interface no longer exists",
                change.id
            )));
        }
        Err(e) => return Err(e.to_string()),
    };
    // Files are restored even if unchanged, since an interrupted write may have left a temporary
    // file beside them.
    if live == entry.before && !matches!(change.what, What::File(..)) {
        return Ok(None);
    }
    let note = change
        .restore(&entry.before, world)
        .map_err(|e| e.to_string())?;
    let after = change.live(world).map_err(|e| e.to_string())?;
    let vanished = matches!(change.what, What::Route(..)) && after.is_null();
    if note.is_some() || vanished || change.same(&after, &entry.before) {
        return Ok(note);
    }
    Err(format!(
        "{}: is {} and was {}",
        change.id,
        said(change, &after),
        said(change, &entry.before)
    ))
}

/// Reverts all applied plans, the last one first; with `last`, only the plan applied last.
///
/// A full disk does not prevent the revert. If the journal cannot be written, all values are
/// restored and the journal stays as it is, so that the revert can be repeated.
pub fn revert(world: &World, mode: Foreign, last: bool) -> Answer {
    let store = Store::open(world, false)?;
    let journal = store.as_ref().map_or(Ok(None), Store::read)?;
    let (Some(store), Some(mut journal)) = (store, journal) else {
        elsewhere::refuse(world, "revert")?;
        return Ok(json!({ "reverted": [], "notes": [], "nothing_to_do": true }));
    };
    elsewhere::refuse_others(&journal, world, "revert", mode == Foreign::Overwrite)?;
    let (mut notes, mut reverted, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    // The error of writing the journal, and the identifiers of journals that were marked as
    // reverting instead.
    let (mut unwritten, mut marked) = (None, Vec::new());
    let covered = loop {
        if mode == Foreign::Refuse {
            refuse_foreign(&journal, world)?;
        }
        let keep = unwritten.is_some() || !failed.is_empty();
        match revert_top(&store, &mut journal, world, mode, keep) {
            Ok((told, why)) => {
                notes.extend(told);
                unwritten = unwritten.or(why);
            }
            Err(error) => failed.push(error.to_string()),
        }
        reverted.extend(backwards(&journal).iter().map(|e| e.change.id.clone()));
        marked.push(journal.id.clone());
        match journal.below.take() {
            Some(below) if !last => journal = *below,
            below => break below.is_some(),
        }
    };
    let revert = world.command("revert");
    if !failed.is_empty() {
        let list = failed.join("\n");
        return Err(HostError::Broken(format!(
            "{list}\n    everything else was restored; {revert} does the rest"
        )));
    }
    if let Some(error) = unwritten {
        let text = format!(
            "{error}; the journal still contains changes that were restored: {revert} once \
             more, later"
        );
        if covered {
            return Err(HostError::Broken(text));
        }
        // Removing the journal needs no disk space.
        match store.write(None) {
            Ok(()) => marked.iter().for_each(|id| store.forget_reverting(id)),
            Err(_) => notes.push(text),
        }
    }
    let elsewhere: Vec<Value> = elsewhere::list(world)
        .iter()
        .map(|one| one.to_json(world))
        .collect();
    let steps = world.steps.get();
    Ok(json!({ "reverted": reverted, "notes": notes, "elsewhere": elsewhere, "steps": steps }))
}

/// Reverts one journal and keeps those below it. Returns messages, and the error if the journal
/// file could not be written. `keep`: the journal file is not written, because an earlier step of
/// this revert failed.
pub fn revert_top(
    store: &Store,
    journal: &mut Journal,
    world: &World,
    mode: Foreign,
    keep: bool,
) -> Result<(Vec<String>, Option<HostError>), HostError> {
    // From now on a device may be partly reverted. The phase records that narrows left this state.
    if journal.phase != Phase::Reverting {
        journal.phase = Phase::Reverting;
        if !keep && store.write(Some(journal)).is_err() {
            store.mark_reverting(&journal.id);
        }
    }
    let notes = undo(journal, world, mode)?;
    if keep {
        return Ok((notes, None));
    }
    let unwritten = store.write(journal.below.as_deref()).err();
    if unwritten.is_none() {
        store.forget_reverting(&journal.id);
    }
    Ok((notes, unwritten))
}

/// The last automatic revert, as a sentence.
fn last_undone(store: Option<&Store>, world: &World) -> String {
    let Some(last) = store.and_then(Store::last_undone) else {
        return String::new();
    };
    let text = |key: &str| last[key].as_str().unwrap_or("?").to_string();
    format!(
        "\n    {:?} was undone on {}: {} ({}/{UNDONE})",
        text("title"),
        text("at"),
        text("why"),
        world.state
    )
}

/// Confirms the plan applied last, and writes the files that make its changes persist over a boot.
pub fn confirm(world: &World) -> Answer {
    let store = Store::open(world, false)?;
    let journal = store.as_ref().map_or(Ok(None), Store::read)?;
    if let Some(journal) = &journal {
        elsewhere::refuse_others(journal, world, "confirm", false)?;
    }
    let (applied, waiting) = (
        journal.is_some(),
        journal.filter(|j| j.phase == Phase::Unconfirmed),
    );
    let (Some(store), Some(mut journal)) = (store.as_ref(), waiting) else {
        if !applied {
            elsewhere::refuse(world, "confirm")?;
        }
        let undone = last_undone(store.as_ref(), world);
        return Err(HostError::Unlike(format!(
            "no plan is to be confirmed{undone}"
        )));
    };
    in_time(&journal, world)?;
    // If this process dies from here on, a later revert must remove the files that it wrote.
    journal.phase = Phase::Applying;
    store.write(Some(&journal))?;
    let done = match make(&journal, true, world) {
        Ok(done) => done,
        Err(error) => return Err(rolled_back(store, &journal, world, error)),
    };
    journal.phase = Phase::Applied;
    journal.deadline = None;
    store.write(Some(&journal))?;
    let notes = files::overridden(journal.entries.iter().map(|e| &e.change.what), world);
    Ok(json!({ "done": done, "overridden": notes, "steps": world.steps.get() }))
}

/// A confirmation after the deadline is rejected: the watchdog may be reverting already.
fn in_time(journal: &Journal, world: &World) -> Result<(), HostError> {
    let Some(deadline) = &journal.deadline else {
        return Ok(());
    };
    let revert = world.command("revert");
    match deadline.remains() {
        Some(seconds) if seconds > 0.0 => Ok(()),
        Some(seconds) => Err(HostError::Unlike(format!(
            "too late by {:.0} s: the limit was {} s, so nothing was confirmed\n    write: \
             {revert}, and apply it again",
            -seconds, deadline.within
        ))),
        None => Err(HostError::Unlike(format!(
            "the host has booted since: the plan was not confirmed in time, and its settings \
             are lost\n    write: {revert}, and apply it again"
        ))),
    }
}

/// Compares the present values with those that the applied plans set.
pub fn verify(world: &World) -> Answer {
    let store = Store::open(world, false)?;
    let top = store.as_ref().map_or(Ok(None), Store::read)?;
    let (Some(store), Some(top)) = (store.as_ref(), top) else {
        elsewhere::refuse(world, "verify")?;
        let undone = last_undone(store.as_ref(), world);
        return Err(HostError::Unlike(format!(
            "no plan is applied here; apply one with narrows tune apply{undone}"
        )));
    };
    elsewhere::refuse_others(&top, world, "verify", false)?;
    let mut seen: Vec<String> = Vec::new();
    let (mut drifted, mut right) = (Vec::new(), Vec::new());
    let mut notes = Vec::new();
    if top.phase == Phase::Applying || top.phase == Phase::Reverting {
        drifted.push(json!({ "id": "journal", "is": "cut short", "fix": world.command("revert") }));
    }
    let mut next = Some(&top);
    while let Some(journal) = next {
        for entry in &journal.entries {
            let change = &entry.change;
            let waits = change.boot && journal.phase == Phase::Unconfirmed;
            if seen.contains(&change.id) || waits || matches!(change.what, What::Allowed(_)) {
                continue;
            }
            seen.push(change.id.clone());
            match change.live(world) {
                Ok(live) if change.reached(&live) => right.push(json!(change.id)),
                Ok(live) => drifted.push(json!({ "id": change.id, "is": shown(change, &live),
                    "fix": "narrows tune apply" })),
                Err(e) => drifted.push(json!({ "id": change.id, "is": e.to_string(),
                "fix": "narrows tune apply" })),
            }
        }
        notes.extend(files::overridden(
            journal.entries.iter().map(|e| &e.change.what),
            world,
        ));
        next = journal.below.as_deref();
    }
    let fresh = match default_cc(&top).map(|cc| (cc, diag::fresh())) {
        Some((cc, Ok(fresh))) if fresh.socket != cc => {
            drifted.push(
                json!({ "id": "a new connection", "is": fresh.socket, "fix": "narrows \
                tune apply" }),
            );
            json!(fresh.socket)
        }
        Some((_, Ok(fresh))) => json!(fresh.socket),
        _ => Value::Null,
    };
    let unconfirmed = top.phase == Phase::Unconfirmed;
    let watching = unconfirmed.then(|| watchdog::Watching::of(&top.id, store.is_watched()));
    Ok(json!({
        "so": drifted.is_empty(),
        "right": right,
        "drifted": drifted,
        "overridden": notes,
        "new_connection": fresh,
        "title": top.title,
        "made": top.made,
        "unconfirmed": unconfirmed,
        "remaining_s": if unconfirmed {
            top.deadline.as_ref().and_then(Deadline::remains)
        } else { None },
        // A watchdog must exist: without one the deadline has no effect.
        "watched": watching.as_ref().map(watchdog::Watching::works),
        "watchers": watching.as_ref().map(watchdog::Watching::to_json),
        "booted": top.is_of_another_boot(),
        "confirm": world.command("confirm"),
        "revert": world.command("revert"),
    }))
}
