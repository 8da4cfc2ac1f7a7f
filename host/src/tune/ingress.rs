//! Shaping of received traffic. A filter redirects the traffic to a device of type `ifb`, whose
//! egress has the shaping queue discipline.
//!
//! ```text
//!   eth0 ── ingress ── u32: everything ── mirred ──▶ ifb-eth0 ── tbf ── fq_codel ──▶ as if eth0 had had it
//! ```
//!
//! The parts are created from right to left, so that traffic is never redirected to a missing
//! device, and removed from left to right. If the device already has another `ingress` or `clsact`,
//! nothing is changed.

use super::qdisc::{self, INGRESS, Step, Tree};
use super::shape;
use crate::sys::netlink::{Link, Message, Netlink, attribute, attributes, text};
use serde_json::{Value, json};
use std::io;

/// Length of the header of a link message (`struct ifinfomsg`), in bytes.
const LINK: usize = 16;
/// Length of the header of qdisc and filter messages (`struct tcmsg`), in bytes.
const FILTER: usize = 20;
/// `ffff:`, the parent of ingress filters.
const HANDLE: u32 = 0xffff_0000;
/// `TCA_U32_CLASSID`, `TCA_U32_SEL`, `TCA_U32_ACT`; `TC_U32_TERMINAL`.
const CLASS: u16 = 1;
const SELECTOR: u16 = 5;
const ACTION: u16 = 7;
const TERMINAL: u8 = 1;
/// `TCA_ACT_KIND`, `TCA_ACT_OPTIONS`, `TCA_MIRRED_PARMS`; in the last (`struct tc_mirred`) the
/// offsets of the verdict (`TC_ACT_STOLEN`), the action (`TCA_EGRESS_REDIR`), and the device.
const KIND: u16 = 1;
const OPTIONS: u16 = 2;
const MIRRED: u16 = 2;
const BECOMES: usize = 8;
const STOLEN: u32 = 4;
const DOES: usize = 20;
const REDIRECT: u32 = 1;
const TO: usize = 24;
/// Device index that the kernel reports for a redirection to a removed device. Here it also stands
/// for a filter that is not such a redirection.
const GONE: u32 = 0;
const FOREIGN: u32 = u32::MAX;

/// The requested shaping of a device's received traffic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shaped {
    /// The device that receives the traffic.
    pub dev: String,
    /// The ifb device.
    pub ifb: String,
    /// The requested queue disciplines of the egress of the ifb device.
    pub steps: Vec<Step>,
}

fn number(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..).and_then(<[u8]>::first_chunk);
    four.map_or(0, |n| u32::from_ne_bytes(*n))
}

/// The interface of a name: its index, whether it is up, and its type (such as `ifb`).
fn link(netlink: &mut Netlink, name: &str) -> io::Result<Option<(u32, bool, String)>> {
    let links = netlink.list(Message::new(libc::RTM_GETLINK, &[&[0; LINK]]))?;
    for body in links {
        let told = attributes(body.get(LINK..).unwrap_or_default());
        if attribute(&told, libc::IFLA_IFNAME).map(text).as_deref() != Some(name) {
            continue;
        }
        let about = attribute(&told, libc::IFLA_LINKINFO).unwrap_or_default();
        let kind = attribute(&attributes(about), libc::IFLA_INFO_KIND).map(text);
        let up = number(&body, 8) & libc::IFF_UP as u32 != 0;
        return Ok(Some((number(&body, 4), up, kind.unwrap_or_default())));
    }
    Ok(None)
}

fn of(kind: u16, index: u32, handle: u32, parent: u32, info: u32) -> Message {
    let fixed: [&[u8]; 5] = [
        &[0; 4],
        &index.to_ne_bytes(),
        &handle.to_ne_bytes(),
        &parent.to_ne_bytes(),
        &info.to_ne_bytes(),
    ];
    Message::new(kind, &fixed)
}

/// The ingress of a device: the kind of its discipline (`ingress` or `clsact`), and its filters. A
/// filter is the index of the device to which it redirects all traffic, or [`FOREIGN`].
fn incoming(netlink: &mut Netlink, index: u32) -> io::Result<Option<(String, Vec<u32>)>> {
    let queues = netlink.list(of(libc::RTM_GETQDISC, index, 0, 0, 0))?;
    let here = |body: &&Vec<u8>| number(body, 4) == index && number(body, 12) == INGRESS;
    let Some(found) = queues.iter().find(here) else {
        return Ok(None);
    };
    let told = attributes(found.get(FILTER..).unwrap_or_default());
    let kind = attribute(&told, libc::TCA_KIND)
        .map(text)
        .unwrap_or_default();
    let mut to = Vec::new();
    for body in netlink.list(of(libc::RTM_GETTFILTER, index, 0, HANDLE, 0))? {
        let told = attributes(body.get(FILTER..).unwrap_or_default());
        let options = attributes(attribute(&told, libc::TCA_OPTIONS).unwrap_or_default());
        // The kernel also lists the hash tables of `u32`, which have no selector and are no
        // filters.
        if attribute(&options, SELECTOR).is_some()
            || attribute(&told, libc::TCA_KIND).map(text).as_deref() != Some("u32")
        {
            to.push(redirected(&options).unwrap_or(FOREIGN));
        }
    }
    Ok(Some((kind, to)))
}

/// The index of the device to which a filter redirects all traffic; `None` if the filter does
/// anything else.
fn redirected(options: &[(u16, &[u8])]) -> Option<u32> {
    let selector = attribute(options, SELECTOR)?;
    let actions = attributes(attribute(options, ACTION)?);
    let [(_, action)] = actions[..] else {
        return None;
    };
    let action = attributes(action);
    let mirred = attribute(&attributes(attribute(&action, OPTIONS)?), MIRRED)?;
    let everything = selector.get(16..20)? == [0; 4];
    (everything && number(mirred, DOES) == REDIRECT).then(|| number(mirred, TO))
}

/// The request that creates a filter on the ingress of device `index`, which redirects all traffic
/// to device `to`.
fn redirect(index: u32, to: u32) -> Message {
    let priority = 1 << 16;
    let everything = u32::from((libc::ETH_P_ALL as u16).to_be());
    let mut mirred = [0; 28];
    for (at, value) in [(BECOMES, STOLEN), (DOES, REDIRECT), (TO, to)] {
        mirred[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }
    // One key with an empty mask.
    let mut selector = [0; 32];
    (selector[0], selector[2]) = (TERMINAL, 1);
    let nest = Message::new(0, &[]);
    let options = nest.clone().attribute(MIRRED, &mirred);
    let action = nest
        .clone()
        .attribute(KIND, b"mirred\0")
        .attribute(OPTIONS, options.body());
    let actions = nest.clone().attribute(1, action.body());
    let filter = nest
        .number(CLASS, 0x0001_0001)
        .attribute(SELECTOR, &selector)
        .attribute(ACTION, actions.body());
    of(
        libc::RTM_NEWTFILTER,
        index,
        0,
        HANDLE,
        priority | everything,
    )
    .attribute(libc::TCA_KIND, b"u32\0")
    .attribute(libc::TCA_OPTIONS, filter.body())
}

impl Shaped {
    /// The present state as JSON. `dev`: whether the shaped device exists; `in`: its ingress;
    /// `ifb`: the ifb device and the queue disciplines of its egress.
    pub fn live(&self) -> io::Result<Value> {
        let mut netlink = Netlink::new()?;
        let dev = link(&mut netlink, &self.dev)?;
        let ifb = link(&mut netlink, &self.ifb)?;
        let (incoming, there) = match dev {
            Some((index, ..)) => (incoming(&mut netlink, index)?, true),
            None => (None, false),
        };
        let to_ifb = |to: &u32| ifb.as_ref().is_some_and(|(index, ..)| index == to);
        let incoming = incoming.map(|(kind, to)| {
            let mut told =
                json!({"kind": kind, "filters": to.len(), "ours": to.iter().all(to_ifb)});
            // If the target of a redirection was removed, the kernel reports index 0.
            if ifb.is_none() && to == [GONE] {
                told["lost"] = json!(true);
            }
            told
        });
        let ifb = match &ifb {
            Some((_, up, kind)) => {
                json!({"kind": kind, "up": up, "tree": qdisc::read(&self.ifb)?.to_json()})
            }
            None => Value::Null,
        };
        Ok(json!({ "dev": there, "in": incoming, "ifb": ifb }))
    }
    fn tree(live: &Value) -> Option<Tree> {
        Tree::from_json(&live["ifb"]["tree"])
    }
    fn led(live: &Value) -> bool {
        let incoming = &live["in"];
        incoming["kind"] == json!("ingress")
            && incoming["filters"] == json!(1)
            && incoming["ours"] == json!(true)
    }
    /// Whether the state is the requested one.
    pub fn reached(&self, live: &Value) -> bool {
        let shaped = Self::tree(live).is_some_and(|tree| self.steps.iter().all(|s| s.is(&tree)));
        shaped && Self::led(live) && live["ifb"]["up"] == json!(true)
    }
    /// Whether another program removed one end of the redirection, and the rest is still that of
    /// narrows.
    pub fn remains(&self, live: &Value) -> bool {
        let without_device = live["ifb"].is_null()
            && live["in"]["kind"] == json!("ingress")
            && live["in"]["lost"] == json!(true);
        let made = Self::tree(live).is_some_and(|tree| self.steps.iter().all(|s| s.is(&tree)));
        without_device || live["in"].is_null() && live["ifb"]["kind"] == json!("ifb") && made
    }
    /// Whether two states have the same ingress and equivalent queue disciplines of the ifb device.
    pub fn same(a: &Value, b: &Value) -> bool {
        let trees = match (Self::tree(a), Self::tree(b)) {
            (Some(a), Some(b)) => a.same(&b),
            (a, b) => a.is_none() && b.is_none(),
        };
        trees && a["in"] == b["in"]
    }
    /// Succeeds if the device has no ingress and there is no ifb device, or if both are as a plan
    /// of narrows creates them. Otherwise the error names what another program configured.
    pub fn expected(&self, live: &Value) -> Result<(), String> {
        let Self { dev, ifb, .. } = self;
        if live["dev"] != json!(true) {
            return Err(format!("interface {dev}: does not exist"));
        }
        if live["ifb"].is_null() && live["in"].is_null()
            || live["ifb"]["kind"] == json!("ifb") && Self::led(live)
        {
            return Ok(());
        }
        let what = if live["in"].is_null() {
            format!("a device {ifb}")
        } else {
            format!(
                "{} of {dev}",
                live["in"]["kind"].as_str().unwrap_or("something")
            )
        };
        Err(format!(
            "{what}: another program has configured it; remove it yourself"
        ))
    }
    /// A short description of a state, for reports.
    pub fn shown(live: &Value) -> Value {
        let incoming = &live["in"];
        let Some(tree) = Self::tree(live) else {
            let what = match (incoming["kind"].as_str(), incoming["filters"].as_u64()) {
                (Some("ingress"), _) if incoming["lost"] == json!(true) => {
                    "redirected to a removed device".to_string()
                }
                (Some(kind), Some(filters)) => {
                    format!("{kind} with {filters} other filters")
                }
                _ => "not shaped".to_string(),
            };
            return json!(what);
        };
        let of = |q: &qdisc::Node| {
            let rate = shape::printed(&q.kind, &q.options).map(|rate| format!(" {rate}"));
            format!("{}{}", q.kind, rate.unwrap_or_default())
        };
        let kinds: Vec<String> = tree.queues.iter().map(of).collect();
        let led = if Self::led(live) {
            "shaped by"
        } else {
            "not led to"
        };
        json!(format!("{led} {}", kinds.join(" ")))
    }
    /// Creates the parts that are missing. `done` is called after each step.
    pub fn make(&self, done: &mut dyn FnMut()) -> io::Result<()> {
        let at = |what: &'static str| {
            move |e: io::Error| io::Error::new(e.kind(), format!("{what}: {e}"))
        };
        let mut netlink = Netlink::new()?;
        let create = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        if link(&mut netlink, &self.ifb)?.is_none() {
            let kind = Message::new(0, &[]).attribute(libc::IFLA_INFO_KIND, b"ifb\0");
            let name = [self.ifb.as_bytes(), &[0]].concat();
            let made = Message::new(libc::RTM_NEWLINK, &[&[0; LINK]])
                .attribute(libc::IFLA_IFNAME, &name)
                .attribute(libc::IFLA_LINKINFO, kind.body());
            netlink
                .tell(made, create)
                .map_err(at("a device of the kind ifb"))?;
            done();
        }
        let missing = || io::Error::new(io::ErrorKind::NotFound, "the interface no longer exists");
        let (ifb, up, _) = link(&mut netlink, &self.ifb)?.ok_or_else(missing)?;
        if !up {
            netlink.up(ifb, &Link::default())?;
            done();
        }
        qdisc::make(&self.ifb, &self.steps, done)?;
        let (dev, ..) = link(&mut netlink, &self.dev)?.ok_or_else(missing)?;
        let found = incoming(&mut netlink, dev)?;
        if found.is_none() {
            let made = of(libc::RTM_NEWQDISC, dev, HANDLE, INGRESS, 0)
                .attribute(libc::TCA_KIND, b"ingress\0");
            netlink.tell(made, create).map_err(at("ingress"))?;
            done();
        }
        if found.is_none_or(|(_, to)| to.is_empty()) {
            netlink
                .tell(redirect(dev, ifb), create)
                .map_err(at("u32 with mirred"))?;
            done();
        }
        Ok(())
    }
    /// Restores the previous state: removes the ingress and the ifb device, or, if the ifb device
    /// existed before, restores its queue disciplines.
    pub fn restore(&self, before: &Value, done: &mut dyn FnMut()) -> io::Result<()> {
        if let Some(tree) = Self::tree(before) {
            return qdisc::restore(&self.ifb, &tree, done);
        }
        let mut netlink = Netlink::new()?;
        if let Some((dev, ..)) = link(&mut netlink, &self.dev)? {
            if incoming(&mut netlink, dev)?.is_some() {
                netlink.tell(of(libc::RTM_DELQDISC, dev, HANDLE, INGRESS, 0), 0)?;
                done();
            }
        }
        if let Some((ifb, ..)) = link(&mut netlink, &self.ifb)? {
            let fixed: [&[u8]; 4] = [&[0; 4], &ifb.to_ne_bytes(), &[0; 4], &[0; 4]];
            netlink.tell(Message::new(libc::RTM_DELLINK, &fixed), 0)?;
            done();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_that_is_made_is_the_one_that_is_known() {
        let made = redirect(3, 7);
        let told = attributes(&made.body()[FILTER..]);
        let options = attributes(attribute(&told, libc::TCA_OPTIONS).unwrap());
        assert_eq!(redirected(&options), Some(7));
        assert_eq!(redirected(&options[..2]), None);
    }

    #[test]
    fn nothing_and_our_own_are_expected_and_all_else_is_not() {
        let shaped = Shaped {
            dev: "eth0".to_string(),
            ifb: "ifb-eth0".to_string(),
            steps: Vec::new(),
        };
        let ours = json!({"kind": "ingress", "filters": 1, "ours": true});
        let ifb = json!({"kind": "ifb", "up": true, "tree": Tree::default().to_json()});
        let live = |incoming: &Value, ifb: &Value| json!({"dev": true, "in": incoming, "ifb": ifb});
        assert_eq!(shaped.expected(&live(&Value::Null, &Value::Null)), Ok(()));
        assert_eq!(shaped.expected(&live(&ours, &ifb)), Ok(()));
        assert!(shaped.reached(&live(&ours, &ifb)));
        let others = json!({"kind": "clsact", "filters": 1, "ours": true});
        assert!(shaped.expected(&live(&others, &Value::Null)).is_err());
        assert!(shaped.expected(&live(&Value::Null, &ifb)).is_err());
        assert!(
            shaped
                .expected(&json!({"dev": false, "in": null, "ifb": null}))
                .is_err()
        );
    }
}
