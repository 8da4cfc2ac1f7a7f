//! Parses the section `[host]`, the properties of both ends of every flow, and writes it back.

use super::error::{Collector, Fix, printable, show};
use super::keys::{self, OTHER_QUEUES};
use super::parse::{Known, optional};
use super::quantity::within;
use super::read::{Field, Section, listed};
use super::schema::Values;
use super::value::{Node, Table, Value};
use super::write::{Entries, choice_node, put, put_all, quote, write};
use super::{Buffer, Choice, Link, PathSpec, hop};
use crate::kernel::{self, Kernel, Rule, TABLE};
use crate::packet::Ip;
use crate::param::{self, Params};
use crate::queue::{QueueContext, pfifo_fast};
use crate::tcp::rtt::RTO_MIN_US;
use crate::tcp::{Clock, Config, Device, EcnMode, EcnUse, Gso, Pacing, RETRIES, SmallQueues};
use crate::transport::USUAL_MTU;
use crate::units::{Bytes, Rate, Span, UnitError, format_bytes};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The properties of a host.
#[derive(Clone, PartialEq, Debug)]
pub struct HostSpec {
    /// The kernel whose rules both ends follow: `linux-6.12`, `linux-6.12.5`.
    pub like: String,
    /// Rules that both ends follow although the release does not have them.
    pub with_rules: Vec<Rule>,
    /// Rules of the release that neither end follows.
    pub without_rules: Vec<Rule>,
    /// Initial window in packets.
    pub iw: u32,
    /// Timer frequency of the kernel, in Hz.
    pub hz: u32,
    /// The clock that measures round trips.
    pub clock: Clock,
    /// Which flows are paced.
    pub pacing: Pacing,
    /// The largest super-packet.
    pub gso: Gso,
    /// Whether bursts are sized by the rate; otherwise they are as large as `gso` permits.
    pub autosize: bool,
    /// Bursts and small queues hold the data of 2⁻ˢʰⁱᶠᵗ s at the pacing rate.
    pub pacing_shift: u32,
    /// Which flows request explicit congestion notification.
    pub ecn: EcnMode,
    /// Whether an unused window is reduced.
    pub slow_start_after_idle: bool,
    /// The sender's own interface, if it has a rate.
    pub nic: Option<Nic>,
    /// Initial receive buffer.
    pub rmem_default: Bytes,
    /// Maximum receive buffer of auto-tuning.
    pub rmem_max: Bytes,
    /// Initial send buffer.
    pub wmem_default: Bytes,
    /// Maximum send buffer.
    pub wmem_max: Bytes,
    /// The application writes while fewer bytes than this are unsent.
    pub notsent_lowat: Bytes,
    /// Maximum of the random time from the wake-up of a receiving application until it reads.
    pub read_latency: Span,
    /// The longest retransmission timeout; `None` for Linux's.
    pub rto_max: Option<Span>,
    /// Whether RACK detects losses; `None` for Linux's default, true.
    pub rack: Option<bool>,
    /// Keys that have no field, by name.
    pub keys: Params,
}

/// Default number of super-packets in the ring of an interface.
pub(super) const RING: u32 = 256;
/// Default queue discipline of an interface.
pub(super) const QDISC: &str = "pfifo_fast";
/// Links of an interface; the first is the default.
pub(super) const LINKS: [&str; 2] = ["serial", "htb"];

/// The sender's own interface: all flows and pings share it.
#[derive(Clone, PartialEq, Debug)]
pub struct Nic {
    /// Rate of its wire.
    pub rate: Rate,
    /// Maximum number of super-packets in the ring of the interface's device.
    pub ring: u32,
    /// Byte queue limits.
    pub bql: bool,
    /// TCP small queues.
    pub tsq: SmallQueues,
    /// The discipline above the ring.
    pub qdisc: Choice,
    /// The limit of the interface's queue discipline; `None` for the discipline's own. One `bdp` is
    /// the interface's rate times the path's RTT.
    pub buffer: Option<Buffer>,
    /// The link of the interface: a wire, or a class of htb before a device that takes no time.
    pub link: Link,
}

impl Nic {
    /// The context of the interface's queue discipline, on a host with `hz` ticks per second before
    /// this path.
    pub fn queue_context(&self, path: &PathSpec, hz: u32, seed: u64) -> QueueContext {
        QueueContext {
            limit: self.buffer.map(|buffer| path.resolve(buffer, self.rate)),
            rate: self.rate,
            hz,
            seed,
        }
    }
    /// Linux's defaults, at `rate`.
    pub fn new(rate: Rate) -> Nic {
        Nic {
            rate,
            ring: RING,
            bql: true,
            tsq: SmallQueues::ByRate,
            qdisc: Choice::new(QDISC, pfifo_fast::PARAMS, &[]),
            buffer: None,
            link: Link::Serial,
        }
    }
    /// Returns whether the interface's discipline keeps departure times.
    fn paces(&self) -> bool {
        self.qdisc.kind == "fq" && self.qdisc.params.bool("pacing")
    }
}

impl Default for HostSpec {
    fn default() -> HostSpec {
        HostSpec::of(&mut Values::defaults("host"))
    }
}

/// TCP header without options, bytes.
const TCP: u64 = 20;
/// Minimum and maximum buffer of a host.
const LEAST: Bytes = Bytes::new(4096);
const MOST: Bytes = Bytes::new(1 << 31);
/// The send buffer of Linux with 4 GB of memory or more (`tcp_wmem`).
const WMEM: (Bytes, Bytes) = (Bytes::new(16 << 10), Bytes::new(4 << 20));
/// The value of `rmem` and `wmem` for the buffers of the release.
const RELEASE: &str = "release";
const GSO_LEAST: Bytes = Bytes::new(1514);
const GSO_MOST: Bytes = Bytes::new(65_536);
const GSO_MOST_SEGMENTS: u32 = 65_535;

/// The valid sizes of `rmem`, `wmem` and `tsq` in words.
pub(super) fn buffer_range() -> String {
    format!("{} to {}", format_bytes(LEAST), format_bytes(MOST))
}

/// The valid values of `gso` in words.
pub(super) fn gso_range() -> String {
    let (least, most) = (format_bytes(GSO_LEAST), format_bytes(GSO_MOST));
    format!("on, off, 1p to {GSO_MOST_SEGMENTS}p, {least} to {most}")
}

impl HostSpec {
    /// The set of rules that both hosts follow.
    pub fn kernel(&self) -> Kernel {
        kernel(&self.like, &self.with_rules, &self.without_rules)
    }

    /// Returns whether `fq` paces above interfaces without a rate of their own.
    pub fn paces_below(&self) -> bool {
        self.nic.is_none() && self.pacing == Pacing::Fq
    }

    /// The configuration of senders and receivers.
    pub fn config(&self) -> Config {
        let d = Config::default();
        Config {
            iw: self.iw,
            hz: self.hz,
            kernel: self.kernel(),
            pacing: self.pacing,
            gso: self.gso,
            tso: d.tso,
            ecn: if self.ecn == EcnMode::On {
                EcnUse::Latched
            } else {
                EcnUse::Off
            },
            sack: self.switch("sack", true),
            slow_start_after_idle: self.slow_start_after_idle,
            device: match &self.nic {
                Some(nic) => Some(Device {
                    tsq: nic.tsq,
                    paces: nic.paces(),
                }),
                None => self.paces_below().then_some(Device {
                    tsq: SmallQueues::ByRate,
                    paces: true,
                }),
            },
            autosize: self.autosize,
            pacing_shift: self.pacing_shift,
            clock: self.clock,
            rmem_default: self.rmem_default,
            rmem_max: self.rmem_max,
            wmem_default: self.wmem_default,
            wmem_max: self.wmem_max,
            notsent_lowat: self.notsent_lowat,
            rto_max: self.rto_max.unwrap_or(d.rto_max),
            rack: self.rack.unwrap_or(d.rack),
            retries: match self.keys.get("retries2") {
                Some(param::Value::Count(n)) => *n as u32,
                _ => RETRIES,
            },
            rto_min_us: match self.keys.get("rto_min") {
                Some(param::Value::Span(least)) => least.as_us() as u32,
                _ => RTO_MIN_US as u32,
            },
            mss: self.mss(Ip::V4),
            peer_mss: self.mss(Ip::V4),
            timestamps: self.switch("timestamps", true),
            quick_ack: self.quickack(),
            delayed_ack_max: match self.keys.get("delayed_ack_max") {
                Some(param::Value::Span(most)) => *most,
                _ => d.delayed_ack_max,
            },
            ip: d.ip,
        }
    }

    /// The value of a key that may be absent.
    fn switch(&self, key: &str, absent: bool) -> bool {
        match self.keys.get(key) {
            Some(param::Value::Bool(on)) => *on,
            _ => absent,
        }
    }
    fn size(&self, key: &str) -> Option<u64> {
        match self.keys.get(key) {
            Some(param::Value::Bytes(bytes)) => Some(bytes.get()),
            _ => None,
        }
    }
    /// Whether the host acknowledges each segment at once.
    pub fn quickack(&self) -> bool {
        self.switch("quickack", false)
    }
    /// The largest IP packet of the host's interface, bytes.
    pub fn mtu(&self) -> u64 {
        self.size("mtu").unwrap_or(u64::from(USUAL_MTU))
    }
    /// The maximum segment size that the host announces over this version of IP, bytes.
    pub fn mss(&self, ip: Ip) -> u32 {
        let most = self.mtu() - u64::from(ip.header()) - TCP;
        self.size("mss").map_or(most, |mss| mss.min(most)) as u32
    }
    /// The first key of this host that changes its segments or ACKs, if there is one.
    pub fn unusual(&self) -> Option<&'static str> {
        let keys = [
            "mtu",
            "mss",
            "sack",
            "timestamps",
            "quickack",
            "delayed_ack_max",
        ];
        keys.into_iter().find(|key| self.keys.get(key).is_some())
    }

    /// The configuration of the host `far`: only the host `near` has an interface with a rate.
    pub fn far_config(&self) -> Config {
        let config = self.config();
        Config {
            device: config.device.filter(|_| self.nic.is_none()),
            ..config
        }
    }

    /// A host with these values of keys, and the defaults of Linux for everything else.
    fn of(values: &mut Values) -> HostSpec {
        let config = Config::default();
        HostSpec {
            like: kernel::DEFAULT.into(),
            with_rules: Vec::new(),
            without_rules: Vec::new(),
            iw: values.take("iw"),
            hz: values.take("hz"),
            clock: values.word("clock", &Clock::ALL.map(|clock| (clock.word(), clock))),
            pacing: values.word("pacing", &Pacing::ALL.map(|pacing| (pacing.word(), pacing))),
            gso: config.gso,
            autosize: values.take("autosize"),
            pacing_shift: values.take("pacing_shift"),
            ecn: values.word("ecn", &EcnMode::ALL.map(|ecn| (ecn.word(), ecn))),
            slow_start_after_idle: values.take("slow_start_after_idle"),
            nic: None,
            rmem_default: config.rmem_default,
            rmem_max: config.rmem_max,
            wmem_default: config.wmem_default,
            wmem_max: config.wmem_max,
            notsent_lowat: values.take("notsent_lowat"),
            read_latency: values.take("read_latency"),
            rto_max: values.optional("rto_max"),
            rack: values.optional("rack"),
            keys: Params::default(),
        }
    }

    /// Reads the section. `written`: the keys that it has itself; those of a host with a name may
    /// come from `[host]`.
    pub(super) fn read(
        out: &mut Collector<'_>,
        s: &Section<'_>,
        written: &Table,
        known: &Known,
    ) -> Option<HostSpec> {
        let d = HostSpec::default();
        let like = optional(s.field("like"), d.like, |f| like(out, &f));
        let with_rules = optional(s.field("with_rules"), Vec::new(), |f| rules(out, &f));
        let without_rules = optional(s.field("without_rules"), Vec::new(), |f| rules(out, &f));
        let contradiction = without_rules.as_ref().and_then(|without| {
            let both = |rule: &&Rule| with_rules.iter().flatten().any(|with| with == *rule);
            without.iter().find(both)
        });
        if let (Some(rule), Some(f)) = (contradiction, s.field("without_rules")) {
            let problem = format!("contradicts with_rules, which has {}", rule.row().name);
            out.refuse(&f, problem, Fix::None);
            return None;
        }
        let mut values = out.values(s);
        let gso = optional(s.field("gso"), d.gso, |f| gso(out, &f));
        let nic = nic(out, s, known, &mut values);
        let (with_rules, without_rules, like) = (with_rules?, without_rules?, like?);
        let (start, most) = kernel(&like, &with_rules, &without_rules).receive_buffer();
        let own = (Bytes::new(start), Bytes::new(most));
        let rmem = buffer(out, s, "rmem", (d.rmem_default, d.rmem_max), own);
        let wmem = buffer(out, s, "wmem", (d.wmem_default, d.wmem_max), WMEM);
        let ((rmem_default, rmem_max), (wmem_default, wmem_max)) = (rmem?, wmem?);
        let host = HostSpec {
            like,
            with_rules,
            without_rules,
            gso: gso?,
            nic: nic?,
            rmem_default,
            rmem_max,
            wmem_default,
            wmem_max,
            ..HostSpec::of(&mut values)
        };
        let host = HostSpec {
            keys: values.rest()?,
            ..host
        };
        host.check(out, s, written)?;
        Some(host)
    }

    /// Rejects values that contradict each other.
    fn check(&self, out: &mut Collector<'_>, s: &Section<'_>, own: &Table) -> Option<()> {
        let most = self.mtu() - u64::from(Ip::V4.header()) - TCP;
        let f = s.field("mss");
        let text = format_bytes(Bytes::new(most));
        let problem = format!("exceeds the mtu minus 40B of headers, which is {text}");
        let fits = self.size("mss").is_none_or(|mss| mss <= most);
        let inherited = |key: &str| own.get(key).is_none();
        if let (false, true, Some(f)) = (fits, inherited("mss"), s.field("mtu")) {
            let mss = self.size("mss").unwrap_or_default();
            let problem = format!(
                "permits segments of {text}, but [host] has mss = {}",
                quote(&format_bytes(Bytes::new(mss)))
            );
            let mtu = show(&f.entry.node.value);
            let line = format!("mtu = {mtu}\nmss = {}", quote(&text));
            out.refuse(&f, problem, Fix::Line(line));
            return None;
        }
        let fit = out.require(f.as_ref(), fits, &problem, || quote(&text));
        let f = s.field("delayed_ack_max");
        let (problem, f) = match s.field("quickack") {
            Some(quick) if f.is_some() && inherited("delayed_ack_max") => (
                "contradicts delayed_ack_max of [host]: with quickack, no ACK is delayed",
                Some(quick),
            ),
            _ => ("contradicts quickack, with which no ACK is delayed", f),
        };
        let delays = !self.quickack() || s.field("delayed_ack_max").is_none();
        if let (false, Some(f)) = (delays, &f) {
            out.refuse(f, problem, Fix::None);
            return None;
        }
        fit
    }

    /// The section for this host; `named`: it is not the one for all other hosts.
    pub(super) fn node(&self, named: bool) -> Node {
        let mut e = Entries::new();
        put(&mut e, "like", Node::string(self.like.clone()));
        for (key, rules) in [
            ("with_rules", &self.with_rules),
            ("without_rules", &self.without_rules),
        ] {
            // A named host without rules must not take those of [host].
            if named || !rules.is_empty() {
                let names = rules.iter().map(|rule| Node::string(rule.row().name));
                put(&mut e, key, Node::array(names.collect()));
            }
        }
        write(&mut e, "iw", &self.iw);
        write(&mut e, "hz", &self.hz);
        put(&mut e, "clock", Node::string(self.clock.word()));
        put(&mut e, "pacing", Node::string(self.pacing.word()));
        put(&mut e, "gso", Node::string(gso_text(self.gso)));
        write(&mut e, "autosize", &self.autosize);
        write(&mut e, "pacing_shift", &self.pacing_shift);
        put(&mut e, "ecn", Node::string(self.ecn.word()));
        write(&mut e, "slow_start_after_idle", &self.slow_start_after_idle);
        if let Some(nic) = &self.nic {
            write(&mut e, "nic", &nic.rate);
            write(&mut e, "ring", &nic.ring);
            write(&mut e, "bql", &nic.bql);
            put(
                &mut e,
                "tsq",
                match nic.tsq {
                    SmallQueues::ByRate => Node::bool(true),
                    SmallQueues::Off => Node::bool(false),
                    SmallQueues::Bytes(most) => Node::string(format_bytes(most)),
                },
            );
            put(&mut e, "qdisc", choice_node(&nic.qdisc));
            if let Some(buffer) = nic.buffer {
                put(&mut e, "buffer", Node::string(hop::buffer_text(buffer)));
            }
            put(&mut e, "link", hop::link_node(nic.link));
        }
        put(
            &mut e,
            "rmem",
            Node::string(range_text(self.rmem_default, self.rmem_max)),
        );
        put(
            &mut e,
            "wmem",
            Node::string(range_text(self.wmem_default, self.wmem_max)),
        );
        write(&mut e, "notsent_lowat", &self.notsent_lowat);
        write(&mut e, "read_latency", &self.read_latency);
        if let Some(rto_max) = &self.rto_max {
            write(&mut e, "rto_max", rto_max);
        }
        if let Some(rack) = &self.rack {
            write(&mut e, "rack", rack);
        }
        put_all(&mut e, &self.keys);
        Node::table(e)
    }
}

/// The rules of a release, with and without some.
fn kernel(like: &str, with: &[Rule], without: &[Rule]) -> Kernel {
    let kernel = Kernel::named(like).unwrap_or_default();
    let kernel = with.iter().fold(kernel, |kernel, rule| kernel.with(*rule));
    without
        .iter()
        .fold(kernel, |kernel, rule| kernel.without(*rule))
}

/// The interface of the sender: `nic` is its rate. Its other keys (`ring`, `bql`, `tsq`, `qdisc`,
/// `buffer`, `link`) require `nic`.
fn nic(
    out: &mut Collector<'_>,
    s: &Section<'_>,
    known: &Known,
    values: &mut Values,
) -> Option<Option<Nic>> {
    let (ring, bql) = (values.optional("ring"), values.take("bql"));
    if values.is_wrong("nic") {
        return None;
    }
    let Some(rate) = values.optional("nic") else {
        let lone = ["ring", "bql", "tsq", "qdisc", "buffer", "link"]
            .into_iter()
            .find_map(|name| s.field(name));
        let Some(f) = lone else { return Some(None) };
        let line = format!(
            "nic = \"1Gbit\"\n{} = {}",
            f.name(),
            show(&f.entry.node.value)
        );
        out.refuse(
            &f,
            "needs nic, the rate of the sender's interface",
            Fix::Line(line),
        );
        return None;
    };
    let d = Nic::new(rate);
    let tsq = optional(s.field("tsq"), d.tsq, |f| small_queues(out, &f));
    let qdisc = match s.field("qdisc") {
        Some(f) => out.choice(&f, "queue", &known.queues, OTHER_QUEUES),
        None => Some(d.qdisc.clone()),
    };
    let buffer = optional(s.field("buffer"), None, |f| hop::buffer(out, &f).map(Some));
    let link = optional(s.field("link"), d.link, |f| {
        let link = hop::link(out, &f, Some(rate))?;
        if matches!(link, Link::Serial | Link::Htb { .. }) {
            return Some(link);
        }
        out.refuse(
            &f,
            format!("is not a link of an interface; known: {}", listed(&LINKS)),
            Fix::Value(quote("htb")),
        );
        None
    });
    Some(Some(Nic {
        ring: ring.unwrap_or(d.ring),
        bql,
        tsq: tsq?,
        qdisc: qdisc?,
        buffer: buffer?,
        link: link?,
        ..d
    }))
}

/// `true`, `false`, or the bytes of each connection that may wait.
fn small_queues(out: &mut Collector<'_>, f: &Field<'_>) -> Option<SmallQueues> {
    match f.entry.node.value {
        Value::String(_) => out.quantity(f, "KiB", LEAST, MOST).map(SmallQueues::Bytes),
        _ => out.switch(f).map(|on| {
            if on {
                SmallQueues::ByRate
            } else {
                SmallQueues::Off
            }
        }),
    }
}

/// The name of a release.
pub(super) fn like(out: &mut Collector<'_>, f: &Field<'_>) -> Option<String> {
    let like = out.text(f, 100)?;
    if Kernel::named(like).is_some() {
        return Some(like.into());
    }
    let (problem, near) = match like.strip_prefix("linux-") {
        Some(number) => ("is not a release of this version", kernel::nearest(number)),
        None => ("is not a known host", kernel::DEFAULT.into()),
    };
    out.refuse(
        f,
        format!("{problem}; known: {}", kernel::range()),
        Fix::Value(quote(&near)),
    );
    None
}

/// A list of names of rules.
fn rules(out: &mut Collector<'_>, f: &Field<'_>) -> Option<Vec<Rule>> {
    let Value::Array(items) = &f.entry.node.value else {
        let fix = Fix::Value(format!("[{}]", show(&f.entry.node.value)));
        out.refuse(f, "is not a list of rules", fix);
        return None;
    };
    let mut found = Vec::new();
    for (i, item) in items.iter().enumerate() {
        let written = match &item.value {
            Value::String(name) => name.as_str(),
            _ => "",
        };
        let Some(rule) = Rule::named(written) else {
            let mut near = near_rules(written);
            let problem = match near.len() {
                0 => "is not a rule; `narrows list rules` prints the known ones".into(),
                _ => format!("is not a rule; near names: {}", listed(&near)),
            };
            let fix = match near.len() {
                0 => Fix::None,
                _ => Fix::Value(quote(near.remove(0))),
            };
            let path = format!("{}[{i}]", f.path);
            out.value(path, f.entry.key_at.as_ref(), item, problem, fix);
            return None;
        };
        if !found.contains(&rule) {
            found.push(rule);
        }
    }
    Some(found)
}

/// Names of rules that resemble `written`, the nearest first: a misspelt one, or those with a
/// word of it.
fn near_rules(written: &str) -> Vec<&'static str> {
    const SHOWN: usize = 5;
    let names = || TABLE.iter().map(|row| row.name);
    let mut near: Vec<&'static str> = keys::nearest(written, names()).into_iter().collect();
    let low = written.to_lowercase();
    let words = || {
        low.split(|c: char| !c.is_alphanumeric())
            .filter(|word| word.len() > 2)
    };
    let shared = |name: &str| words().filter(|word| name.contains(*word)).count();
    let mut others: Vec<&'static str> = names().filter(|name| shared(name) > 0).collect();
    others.sort_by_key(|name| core::cmp::Reverse(shared(name)));
    others.retain(|name| !near.contains(name));
    near.extend(others);
    near.truncate(SHOWN);
    near
}

/// `"on"`, `"off"`, `"17p"`, `"16KiB"`; also `true` and `false`.
fn gso(out: &mut Collector<'_>, f: &Field<'_>) -> Option<Gso> {
    const FORM: &str = "is not on, off, packets (17p) or bytes (16KiB)";
    let text = match &f.entry.node.value {
        Value::Bool(true) => return Some(Gso::On),
        Value::Bool(false) => return Some(Gso::Off),
        Value::String(text) => text.trim(),
        Value::Integer(n) => {
            let fix = match u64::try_from(*n).unwrap_or(0) {
                n @ 0..=44 => format!("{}p", n.max(1)),
                n => format_bytes(Bytes::new(n).clamp(GSO_LEAST, GSO_MOST)),
            };
            out.refuse(f, FORM, Fix::Value(quote(&fix)));
            return None;
        }
        _ => {
            out.refuse(f, FORM, Fix::Value(quote("on")));
            return None;
        }
    };
    match text {
        "on" => return Some(Gso::On),
        "off" => return Some(Gso::Off),
        _ => {}
    }
    if let Some(number) = text.strip_suffix('p') {
        let n = number.trim().parse::<u32>().unwrap_or(0);
        if (1..=GSO_MOST_SEGMENTS).contains(&n) {
            return Some(Gso::Segments(n));
        }
        let problem = format!("must be whole packets from 1p to {GSO_MOST_SEGMENTS}p");
        out.refuse(f, problem, Fix::Value(quote("1p")));
        return None;
    }
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        let near = keys::nearest(text, ["off", "on"].into_iter()).unwrap_or("on");
        out.refuse(f, FORM, Fix::Value(quote(near)));
        return None;
    }
    match within(text, "B", GSO_LEAST, GSO_MOST) {
        Ok(bytes) => Some(Gso::Bytes(bytes)),
        Err(e) => {
            let problem = e.problem.replace("known: ", "known: on, off, p, ");
            out.refuse(f, problem, Fix::Value(quote(&e.fix)));
            None
        }
    }
}

/// The inverse of `gso`.
pub(super) fn gso_text(gso: Gso) -> String {
    match gso {
        Gso::On => "on".into(),
        Gso::Off => "off".into(),
        Gso::Segments(n) => format!("{n}p"),
        Gso::Bytes(bytes) => format_bytes(bytes),
    }
}

/// `128KiB…512MiB`.
pub(super) fn range_text(default: Bytes, max: Bytes) -> String {
    format!("{}…{}", format_bytes(default), format_bytes(max))
}

/// `"128kB…512MB"`, also with two or three dots; the default if it is absent, and `own` for
/// `"release"`.
fn buffer(
    out: &mut Collector<'_>,
    s: &Section<'_>,
    name: &str,
    (start, end): (Bytes, Bytes),
    own: (Bytes, Bytes),
) -> Option<(Bytes, Bytes)> {
    let Some(f) = s.field(name) else {
        return Some((start, end));
    };
    let text = match &f.entry.node.value {
        Value::String(text) => text.as_str(),
        _ => {
            let fix = quote(&range_text(start, end));
            out.refuse(
                &f,
                "is not a range of bytes: initial size…maximum",
                Fix::Value(fix),
            );
            return None;
        }
    };
    if text.trim() == RELEASE {
        return Some(own);
    }
    let parts = text
        .split_once('…')
        .or_else(|| text.split_once("..."))
        .or_else(|| text.split_once(".."));
    let Some((low, high)) = parts else {
        let (problem, high) = match within(text, "B", LEAST, MOST) {
            Ok(n) => (
                "is not a range of bytes: initial size…maximum".into(),
                format_bytes(n),
            ),
            Err(e) => (format!("is not a range of bytes, and {}", e.problem), e.fix),
        };
        let low = within(&high, "B", LEAST, MOST).map_or(LEAST, |h| h.min(start));
        out.refuse(
            &f,
            problem,
            Fix::Value(quote(&format!("{}…{high}", format_bytes(low)))),
        );
        return None;
    };
    match (
        within(low, "B", LEAST, MOST),
        within(high, "B", LEAST, MOST),
    ) {
        (Ok(low), Ok(high)) if low <= high => Some((low, high)),
        (Ok(low), Ok(high)) => {
            out.refuse(
                &f,
                "has an initial size above its maximum",
                Fix::Value(quote(&range_text(high, low))),
            );
            None
        }
        (low_read, high_read) => {
            let problems: Vec<String> = [(low, &low_read), (high, &high_read)]
                .iter()
                .filter_map(|(text, read)| {
                    read.as_ref()
                        .err()
                        .map(|e| format!("({}) {}", text.trim(), e.problem))
                })
                .map(|p| printable(&p, 120))
                .collect();
            let text = |read: Result<Bytes, UnitError>| read.map_or_else(|e| e.fix, format_bytes);
            let fix = format!("{}…{}", text(low_read), text(high_read));
            out.refuse(&f, problems.join(" and "), Fix::Value(quote(&fix)));
            None
        }
    }
}
