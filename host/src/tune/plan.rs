//! Reads and validates a plan. A plan is untrusted input, and it is executed as root.
//!
//! docs/reference/tune.md specifies the format. A plan with an unknown key is rejected, and the
//! error names the key. No part of a plan becomes a shell command: values are passed to system
//! calls. The only program that is started, `modprobe`, gets a name of letters, digits and `_`
//! behind `--`.

use super::shape::Shape;
use super::{file, ingress, module, qdisc, route, sysctl, target::World};
use narrows_core::registry::linux::Sysctl;
use serde_json::{Map, Value, json};
use std::io;

/// Version of the format.
const VERSION: u64 = 1;
/// Largest number of changes in a plan.
const MOST: usize = 256;
/// Directories of files that narrows writes, with the suffixes of their names.
const FOLDERS: [(&str, &str); 5] = [
    ("/etc/sysctl.d", ".conf"),
    ("/etc/modules-load.d", ".conf"),
    ("/etc/modules.d", ""),
    ("/etc/udev/rules.d", ".rules"),
    ("/etc/systemd/network", ".conf"),
];
/// Kinds of changes that only the script of a plan makes (`narrows tune plan --script`); here they
/// are an error.
const SCRIPTS_ONLY: [&str; 2] = ["package", "uci"];

/// The requested content of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Text {
    /// Content.
    pub text: String,
    /// Permission bits.
    pub mode: u32,
}

/// The setting that a change applies to, and its values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    /// A kernel module to load.
    Module(String),
    /// A sysctl setting: key, value when the plan was created, new value.
    Sysctl(String, String, String),
    /// The list of congestion controls that all users may select. The kernel adds a new default to
    /// this list; the value is the new default.
    Allowed(String),
    /// Queue disciplines of a device: name of the device, requested disciplines, and for each the
    /// discipline in its place at the creation of the plan. That is its name and whether the kernel
    /// attached it.
    Qdisc(String, Vec<qdisc::Step>, Vec<Option<(String, bool)>>),
    /// Shaping of a device's received traffic.
    Ingress(ingress::Shaped),
    /// The congestion control of a route: destination, value when the plan was created, new value;
    /// `None`: the route sets none.
    Route(route::Prefix, Option<String>, Option<String>),
    /// A file of narrows: path and requested content; `None`: the file is removed.
    File(String, Option<Text>),
}

/// A change.
#[derive(Clone, Debug)]
pub struct Change {
    /// Identifier of the change, unique in its plan.
    pub id: String,
    /// Whether the change only takes effect at the next boot. Such a change writes or removes a
    /// file.
    pub boot: bool,
    /// The object of the change.
    pub what: What,
    /// The JSON of the change in the plan.
    pub json: Value,
}

/// A plan.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The title of the plan, which states its purpose.
    pub title: String,
    /// The name of the network namespace in which to apply the plan; `None`: that of the caller.
    pub netns: Option<String>,
    /// The changes of the plan in order.
    pub changes: Vec<Change>,
}

/// Whether a text is a name of at most `most` bytes. The first character is a letter or digit; the
/// others may also be `_` or any of `rest`. If `rest` is empty, the first character must not be an
/// uppercase letter.
fn name(text: &str, most: usize, rest: &str) -> bool {
    let first = |b: u8| {
        b.is_ascii_lowercase() || b.is_ascii_digit() || b.is_ascii_uppercase() && !rest.is_empty()
    };
    let more = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || rest.as_bytes().contains(&b);
    !text.is_empty() && text.len() <= most && first(text.as_bytes()[0]) && text.bytes().all(more)
}

/// Whether a text has the form of the name of a kernel module or congestion control: lowercase
/// letters, digits and `_`.
fn plain_name(text: &str, most: usize) -> bool {
    name(text, most, "") && !text.bytes().any(|b| b.is_ascii_uppercase())
}

fn interface(text: &str) -> bool {
    let text_ = text.trim_start_matches('_');
    text.len() < 16
        && text != "."
        && text != ".."
        && (text_.is_empty() != text.is_empty() || name(text_, 15, ".@-"))
}

/// Whether a text has the form of the name of a network namespace.
pub fn namespace(text: &str) -> bool {
    !text.contains("..") && name(text.trim_start_matches('_'), 64, ".-")
}

/// Whether a path is that of a file of narrows in one of [`FOLDERS`].
fn path(text: &str) -> bool {
    let Some((folder, file)) = text.rsplit_once('/') else {
        return false;
    };
    let letters = |b: u8| b.is_ascii_alphanumeric() || b"._@-".contains(&b);
    let parts = |p: &str| {
        p.split('/')
            .skip(1)
            .all(|part| !part.is_empty() && !part.starts_with('.') && part.bytes().all(letters))
    };
    let ours = file.starts_with("narrows")
        || file.as_bytes().first().is_some_and(u8::is_ascii_digit) && file.contains("-narrows");
    let known = FOLDERS.iter().any(|(known, end)| {
        let within = match folder.strip_prefix(known) {
            Some("") => *known != "/etc/systemd/network",
            // A drop-in file of networkd is in a directory named after the `.network` file.
            Some(rest) => {
                *known == "/etc/systemd/network"
                    && rest.ends_with(".network.d")
                    && rest.matches('/').count() == 1
            }
            None => false,
        };
        within && file.ends_with(end)
    });
    text.len() < 200 && parts(text) && ours && known
}

type Object = Map<String, Value>;

fn object<'a>(value: &'a Value, what: &str) -> Result<&'a Object, String> {
    value
        .as_object()
        .ok_or_else(|| format!("{what}: must be an object"))
}

fn string<'a>(of: &'a Object, key: &str, what: &str) -> Result<&'a str, String> {
    of.get(key)
        .and_then(Value::as_str)
        .ok_or_else(|| format!("{what}: {key} must be a text"))
}

fn known(of: &Object, keys: &[&str], what: &str) -> Result<(), String> {
    match of.keys().find(|key| !keys.contains(&key.as_str())) {
        Some(key) => Err(format!(
            "{what}: {key} is unknown; a newer narrows may have made this plan"
        )),
        None => Ok(()),
    }
}

fn ensure(right: bool, what: &str, problem: impl FnOnce() -> String) -> Result<(), String> {
    if right {
        Ok(())
    } else {
        Err(format!("{what}: {}", problem()))
    }
}

fn handle(of: &Object, what: &str) -> Result<u32, String> {
    match of.get("handle") {
        None | Some(Value::Null) => Ok(0),
        Some(text) => text
            .as_str()
            .and_then(qdisc::handle)
            .filter(|h| h & 0xffff == 0)
            .ok_or_else(|| format!("{what}: handle {text} is invalid; write \"1:\"")),
    }
}

/// Reads a queue discipline that a plan requests.
fn step(of: &Object, parent: u32, what: &str) -> Result<qdisc::Step, String> {
    known(of, &["kind", "handle", "options"], what)?;
    let kind = string(of, "kind", what)?;
    let none = Map::new();
    let options = of
        .get("options")
        .and_then(Value::as_object)
        .unwrap_or(&none);
    let shape = Shape::parse(kind, options).map_err(|problem| format!("{what}: {problem}"))?;
    ensure(
        shape.is_some() || qdisc::planned().any(|name| name == kind),
        what,
        || {
            format!(
                "{kind:?}: write one of {}, tbf",
                qdisc::planned().collect::<Vec<_>>().join(", ")
            )
        },
    )?;
    Ok(qdisc::Step {
        parent,
        kind: kind.to_string(),
        handle: handle(of, what)?,
        shape,
    })
}

/// Reads the queue discipline that existed when the plan was created: its name, and whether the
/// kernel attached it.
fn found(of: &Object, what: &str) -> Result<(String, bool), String> {
    known(of, &["kind", "handle", "options"], what)?;
    Ok((
        string(of, "kind", what)?.to_string(),
        handle(of, what)? == 0,
    ))
}

fn device<'a>(of: &'a Object, key: &str, what: &str) -> Result<&'a str, String> {
    let name = string(of, key, what)?;
    ensure(interface(name), what, || {
        format!("{name:?} is not the name of an interface")
    })?;
    Ok(name)
}

fn place(parent: &str, what: &str) -> Result<u32, String> {
    let place = qdisc::handle(parent).filter(|h| h & 0xffff != 0);
    place.ok_or_else(|| format!("{what}: parent {parent:?} is invalid; write \"root\" or \"1:2\""))
}

/// Reads a change that shapes received traffic. The key `to` has the queue discipline for each
/// place of the ifb device's egress.
fn ingress_change(one: &Object, what: &str) -> Result<What, String> {
    let target = object(one.get("target").unwrap_or(&Value::Null), what)?;
    known(target, &["dev", "ifb"], what)?;
    let (dev, ifb) = (device(target, "dev", what)?, device(target, "ifb", what)?);
    let to = object(one.get("to").unwrap_or(&Value::Null), what)?;
    // The root discipline is created first, regardless of the order of keys.
    known(to, &["root", "1:1"], what)?;
    let steps = ["root", "1:1"].into_iter().filter_map(|parent| {
        to.get(parent)
            .map(|of| step(object(of, what)?, place(parent, what)?, what))
    });
    let steps: Vec<qdisc::Step> = steps.collect::<Result<_, _>>()?;
    ensure(dev != ifb && to.contains_key("root"), what, || {
        "it needs another device, and a discipline for its root".to_string()
    })?;
    Ok(What::Ingress(ingress::Shaped {
        dev: dev.to_string(),
        ifb: ifb.to_string(),
        steps,
    }))
}

fn queue(one: &Object, what: &str) -> Result<What, String> {
    let target = object(one.get("target").unwrap_or(&Value::Null), what)?;
    known(target, &["dev", "parent"], what)?;
    let device = device(target, "dev", what)?;
    let place = place(string(target, "parent", what)?, what)?;
    let to = step(
        object(one.get("to").unwrap_or(&Value::Null), what)?,
        place,
        what,
    )?;
    let from = match one.get("from") {
        None | Some(Value::Null) => None,
        Some(from) => Some(found(object(from, what)?, what)?),
    };
    Ok(What::Qdisc(device.to_string(), vec![to], vec![from]))
}

/// The congestion control in the words after `ip route replace`; outer `None`: there is no route,
/// inner `None`: the route sets no congestion control.
fn congctl(words: Option<&Value>, what: &str) -> Result<Option<Option<String>>, String> {
    let Some(list) = words.filter(|w| !w.is_null()) else {
        return Ok(None);
    };
    let list: Option<Vec<&str>> = list
        .as_array()
        .and_then(|list| list.iter().map(Value::as_str).collect());
    let list = list.ok_or_else(|| format!("{what}: a route is a list of words"))?;
    let at = list.iter().position(|w| *w == "congctl");
    let Some(at) = at else { return Ok(Some(None)) };
    let name = list[at + 1..]
        .iter()
        .find(|w| **w != "lock")
        .copied()
        .unwrap_or_default();
    ensure(plain_name(name, 15), what, || {
        format!("{name:?} is not the name of a congestion control")
    })?;
    Ok(Some(Some(name.to_string())))
}

fn route_change(one: &Object, what: &str) -> Result<What, String> {
    let target = object(one.get("target").unwrap_or(&Value::Null), what)?;
    known(target, &["family", "table", "prefix"], what)?;
    let v6 = match string(target, "family", what)? {
        "inet" => false,
        "inet6" => true,
        other => {
            return Err(format!(
                "{what}: family {other:?} is invalid; write \"inet\" or \"inet6\""
            ));
        }
    };
    let table = string(target, "table", what)?;
    ensure(table == "main", what, || {
        format!("table {table:?}: only routes of \"main\" are changed")
    })?;
    let prefix = string(target, "prefix", what)?;
    let to = route::Prefix::parse(prefix, v6)
        .ok_or_else(|| format!("{what}: {prefix:?} is not a prefix"))?;
    let cc = congctl(one.get("to"), what)?
        .ok_or_else(|| format!("{what}: a plan creates routes and removes none"))?;
    let from = congctl(one.get("from"), what)?.flatten();
    Ok(What::Route(to, from, cc))
}

fn file_change(one: &Object, what: &str) -> Result<What, String> {
    let target = string(one, "target", what)?;
    ensure(path(target), what, || {
        format!(
            "{target:?} is not a file of narrows; these are below {}",
            FOLDERS.map(|(f, _)| f).join(", ")
        )
    })?;
    let to = match one.get("to") {
        Some(to @ Value::Object(of)) => {
            known(of, &["text", "mode"], what)?;
            let mode = to["mode"]
                .as_str()
                .and_then(|m| u32::from_str_radix(m, 8).ok());
            let mode = mode.filter(|m| m & !0o755 == 0 && m & 0o400 != 0);
            let text = string(of, "text", what)?;
            ensure(text.len() < 1 << 16 && !text.contains('\0'), what, || {
                "its text is too long, or contains a zero byte".to_string()
            })?;
            Some(Text {
                text: text.to_string(),
                mode: mode.ok_or_else(|| {
                    format!("{what}: mode must be like \"0644\", and only the owner may write")
                })?,
            })
        }
        Some(Value::Null) => None,
        _ => return Err(format!("{what}: to must be null, or have text and mode")),
    };
    Ok(What::File(target.to_string(), to))
}

impl Change {
    /// Reads and validates the change with the index `at` of a plan.
    pub fn parse(json: &Value, at: usize) -> Result<Change, String> {
        let of = object(json, &format!("change {}", at + 1))?;
        let id = string(of, "id", &format!("change {}", at + 1))?;
        let what = format!("change {} ({id:.80})", at + 1);
        known(
            of,
            &[
                "id", "kind", "phase", "target", "from", "to", "why", "persist",
            ],
            &what,
        )?;
        let boot = match string(of, "phase", &what)? {
            "live" => false,
            "boot" => true,
            other => {
                return Err(format!(
                    "{what}: phase {other:?} is invalid; write \"live\" or \"boot\""
                ));
            }
        };
        let kind = string(of, "kind", &what)?;
        ensure((kind == "file") == boot, &what, || {
            format!("a {kind} cannot be in that phase")
        })?;
        let done = match kind {
            "module" => {
                let name = string(of, "target", &what)?;
                ensure(plain_name(name, 64), &what, || {
                    format!("{name:?} is not the name of a module")
                })?;
                ensure(string(of, "to", &what)? == "loaded", &what, || {
                    "a module can only be \"loaded\"".to_string()
                })?;
                What::Module(name.to_string())
            }
            "sysctl" => {
                let name = string(of, "target", &what)?;
                let sysctl = Sysctl::named(name).ok_or_else(|| {
                    format!("{what}: {name:?} is not a setting that narrows changes")
                })?;
                let (from, to) = (string(of, "from", &what)?, string(of, "to", &what)?);
                ensure(to.len() < 256 && sysctl.form.fits(to), &what, || {
                    format!(
                        "{to:?} is not a value of {name}; write {}",
                        sysctl.form.pattern()
                    )
                })?;
                What::Sysctl(name.to_string(), from.to_string(), to.to_string())
            }
            "allowed" => What::Allowed(string(of, "to", &what)?.to_string()),
            "qdisc" => queue(of, &what)?,
            "ingress" => ingress_change(of, &what)?,
            "route" => route_change(of, &what)?,
            "file" => file_change(of, &what)?,
            other if SCRIPTS_ONLY.contains(&other) => {
                return Err(format!(
                    "{what}: only the script of the plan changes a {other}: narrows tune plan \
                     --script"
                ));
            }
            other => return Err(format!("{what}: kind {other:?} is unknown")),
        };
        Ok(Change {
            id: id.to_string(),
            boot,
            what: done,
            json: json.clone(),
        })
    }
    /// If the change sets the default congestion control, the kernel also adds it to the list of
    /// permitted ones. Returns the change that lets the journal record that list.
    pub fn beside(&self) -> Option<Change> {
        let What::Sysctl(key, _, to) = &self.what else {
            return None;
        };
        (key == sysctl::CC && sysctl::writable(sysctl::ALLOWED)).then(|| Change {
            id: format!("allowed:{to}"),
            boot: false,
            what: What::Allowed(to.clone()),
            json: json!({"id": format!("allowed:{to}"), "kind": "allowed", "phase": "live",
            "to": to}),
        })
    }
    /// The present value, with everything that is needed to restore it.
    pub fn live(&self, world: &World) -> io::Result<Value> {
        Ok(match &self.what {
            What::Module(name) => json!(module::present(name)),
            What::Sysctl(key, ..) => json!(sysctl::read(key)?),
            What::Allowed(_) => json!(sysctl::read(sysctl::ALLOWED)?),
            What::Qdisc(device, ..) => qdisc::read(device)?.to_json(),
            What::Ingress(shaped) => shaped.live()?,
            What::Route(to, ..) => route::live(to)?,
            What::File(path, _) => file::live(path, world)?,
        })
    }
    /// Whether the present value is the requested one.
    pub fn reached(&self, live: &Value) -> bool {
        match &self.what {
            What::Module(_) => *live == json!(true),
            What::Sysctl(_, _, to) => live.as_str().is_some_and(|live| sysctl::plain(live) == *to),
            What::Allowed(cc) => live
                .as_str()
                .is_some_and(|live| sysctl::words(live).contains(&cc.as_str())),
            What::Qdisc(_, steps, _) => {
                qdisc::Tree::from_json(live).is_some_and(|tree| steps.iter().all(|s| s.is(&tree)))
            }
            What::Ingress(shaped) => shaped.reached(live),
            What::Route(_, _, cc) => !live.is_null() && live["cc"].as_str() == cc.as_deref(),
            What::File(_, Some(to)) => file::is(live, &to.text, to.mode),
            What::File(_, None) => live["absent"] == json!(true),
        }
    }
    /// Whether two values of the changed object are equivalent.
    pub fn same(&self, a: &Value, b: &Value) -> bool {
        match &self.what {
            What::Module(_) => a == b,
            What::Sysctl(..) => a == b,
            What::Allowed(_) => a.as_str().map(sysctl::words) == b.as_str().map(sysctl::words),
            What::Qdisc(..) => match (qdisc::Tree::from_json(a), qdisc::Tree::from_json(b)) {
                (Some(a), Some(b)) => a.same(&b),
                _ => false,
            },
            What::Ingress(_) => ingress::Shaped::same(a, b),
            What::Route(..) => a["cc"] == b["cc"] && a.is_null() == b.is_null(),
            What::File(..) => file::same(a, b),
        }
    }
    /// Whether another program only removed a part of this change, so that a revert of the rest
    /// overwrites nothing of another program.
    pub fn remains(&self, live: &Value) -> bool {
        matches!(&self.what, What::Ingress(shaped) if shaped.remains(live))
    }
    /// For queue disciplines: whether the kernel attached all of them itself. For other changes:
    /// `false`.
    pub fn is_of_the_kernel(&self, live: &Value) -> bool {
        let tree = qdisc::Tree::from_json(live).filter(|_| matches!(self.what, What::Qdisc(..)));
        tree.is_some_and(|tree| {
            tree.classes.is_empty() && tree.queues.iter().all(|q| q.handle == 0)
        })
    }
    /// Checks that the present value is the one for which the plan was created; the error states
    /// both values.
    pub fn expected(&self, live: &Value) -> Result<(), String> {
        let odd = |is: &str, said: &str| {
            Err(format!(
                "{}: is {is} here, but the plan was created for {said}",
                self.id
            ))
        };
        match &self.what {
            What::Sysctl(_, from, _) => {
                let is = sysctl::plain(live.as_str().unwrap_or_default());
                if is == sysctl::plain(from) {
                    Ok(())
                } else {
                    odd(&is, from)
                }
            }
            What::Qdisc(_, steps, from) => {
                let tree = qdisc::Tree::from_json(live).unwrap_or_default();
                for (step, from) in steps.iter().zip(from) {
                    let is = tree.at(step.parent);
                    if let (Some(is), Some((kind, _))) = (is, from) {
                        if is.kind != *kind && is.kind != step.kind {
                            return odd(&is.kind, kind);
                        }
                    }
                }
                Ok(())
            }
            What::Ingress(shaped) => shaped.expected(live),
            What::Route(_, from, _) => {
                let is = live["cc"].as_str();
                if is == from.as_deref() {
                    Ok(())
                } else {
                    odd(
                        is.unwrap_or("without one"),
                        from.as_deref().unwrap_or("none"),
                    )
                }
            }
            _ => Ok(()),
        }
    }
    /// Makes the change. [`What::Allowed`] needs no action, since the kernel makes that change.
    pub fn make(&self, world: &World) -> io::Result<()> {
        match &self.what {
            What::Module(name) => module::load(name)?,
            What::Sysctl(key, _, to) => sysctl::write(key, to)?,
            What::Allowed(_) => return Ok(()),
            What::Qdisc(device, steps, _) => {
                return qdisc::make(device, steps, &mut || world.step());
            }
            What::Ingress(shaped) => return shaped.make(&mut || world.step()),
            What::Route(to, _, cc) => route::set(to, cc.as_deref())?,
            What::File(path, Some(to)) => return file::write(path, &to.text, to.mode, world),
            What::File(path, None) => file::remove(path, world)?,
        }
        world.step();
        Ok(())
    }
    /// Restores the previous value. Returns a message if a module stays loaded because it is in
    /// use.
    pub fn restore(&self, before: &Value, world: &World) -> io::Result<Option<String>> {
        match &self.what {
            What::Module(name) => {
                if *before == json!(false) && module::present(name) && !module::unload(name)? {
                    let users = module::users(name).unwrap_or(0);
                    let text = "it stays loaded until they end or the host boots, without any \
                     effect";
                    return Ok(Some(format!(
                        "module {name} is in use by {users} (for example connections): {text}"
                    )));
                }
            }
            What::Sysctl(key, ..) => sysctl::write(key, before.as_str().unwrap_or_default())?,
            What::Allowed(_) => {
                sysctl::write(sysctl::ALLOWED, before.as_str().unwrap_or_default())?
            }
            What::Qdisc(device, ..) => {
                let tree = qdisc::Tree::from_json(before).unwrap_or_default();
                qdisc::restore(device, &tree, &mut || world.step())?;
                return Ok(None);
            }
            What::Ingress(shaped) => {
                shaped.restore(before, &mut || world.step())?;
                return Ok(None);
            }
            What::Route(to, ..) => route::restore(to, before)?,
            What::File(path, _) => {
                file::restore(path, before, world)?;
                return Ok(None);
            }
        }
        world.step();
        Ok(None)
    }
    /// The position of this kind of change in a revert; lower ranks are reverted first. The default
    /// queue discipline is restored before the queue disciplines of devices, which depend on it.
    pub fn rank(&self) -> u8 {
        match self.what {
            What::File(..) => 0,
            What::Sysctl(..) => 1,
            What::Allowed(_) => 2,
            What::Route(..) => 3,
            What::Qdisc(..) | What::Ingress(_) => 4,
            What::Module(_) => 5,
        }
    }
}

impl Plan {
    /// Reads and validates the JSON of a plan.
    pub fn parse(bytes: &[u8]) -> Result<Plan, String> {
        let json: Value =
            serde_json::from_slice(bytes).map_err(|e| format!("the plan is not JSON: {e}"))?;
        let of = object(&json, "the plan")?;
        let keys = [
            "narrows", "plan", "title", "asked", "host", "netns", "able", "needs", "changes",
            "left", "effects",
        ];
        known(of, &keys, "the plan")?;
        ensure(
            of.get("plan").and_then(Value::as_u64) == Some(VERSION),
            "the plan",
            || format!("its format must be {VERSION}: \"plan\": {VERSION}"),
        )?;
        if of.get("able") == Some(&json!(false)) {
            let words = |need: &Value| {
                need["why"]
                    .as_str()
                    .or(need["name"].as_str())
                    .unwrap_or("something")
                    .to_string()
            };
            let needs: Vec<String> = json["needs"]
                .as_array()
                .into_iter()
                .flatten()
                .map(words)
                .collect();
            return Err(format!(
                "the plan cannot be applied yet: {}",
                needs.join("; ")
            ));
        }
        let netns = of.get("netns").filter(|n| !n.is_null());
        let netns = netns.map(|n| {
            n.as_str()
                .filter(|n| namespace(n))
                .ok_or("the plan: netns is not a name")
        });
        let list = of.get("changes").and_then(Value::as_array);
        let list = list.filter(|list| list.len() <= MOST);
        let list =
            list.ok_or_else(|| format!("the plan: changes must be a list of at most {MOST}"))?;
        Ok(Plan {
            title: of
                .get("title")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .chars()
                .take(200)
                .collect(),
            netns: netns.transpose()?.map(str::to_string),
            changes: grouped(list)?,
        })
    }
}

/// Reads a list of changes, and merges the queue disciplines of the same device into one change.
pub fn grouped(list: &[Value]) -> Result<Vec<Change>, String> {
    let mut changes: Vec<Change> = Vec::new();
    for (at, json) in list.iter().enumerate() {
        // In a journal, merged changes are stored as an array.
        let parts = json
            .as_array()
            .map_or(std::slice::from_ref(json), Vec::as_slice);
        for part in parts {
            let change = Change::parse(part, at)?;
            let same = |c: &&mut Change| {
                matches!((&c.what, &change.what), (What::Qdisc(a, ..),
                What::Qdisc(b, ..)) if a == b)
            };
            let Some(earlier) = changes.iter_mut().find(same) else {
                if changes.iter().any(|c| c.id == change.id) {
                    return Err(format!("{}: occurs twice", change.id));
                }
                changes.push(change);
                continue;
            };
            if let (What::Qdisc(_, steps, froms), What::Qdisc(_, more, found)) =
                (&mut earlier.what, change.what)
            {
                steps.extend(more);
                froms.extend(found);
            }
            earlier.json = match earlier.json.take() {
                Value::Array(mut list) => {
                    list.push(change.json);
                    Value::Array(list)
                }
                one => json!([one, change.json]),
            };
        }
    }
    Ok(changes)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
