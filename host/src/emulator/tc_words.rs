//! Converts the queue disciplines of scenarios to arguments of `tc`.
//!
//! Names of disciplines and parameters are those of tc, unless `TABLE` has another form. A
//! parameter with its default value is not passed, because the defaults are those of Linux. A
//! setting that Linux does not have is an error that names it.
//!
//! If the limit of a discipline is in packets, a buffer in bytes becomes a limit of as many full
//! frames. `dualpi2` is configured by netlink, because tc supports it only since iproute2 6.17.
//!
//! Sources: the manual pages of tc (iproute2 6.1); Linux 7.3 `include/uapi/linux/pkt_sched.h`.

use crate::error::HostError;
use crate::sys::netlink::Message;
use narrows_core::param::{Choice, Param, Params, Value};
use narrows_core::queue::{Limit, QueueContext};
use std::fmt::Write;

/// Size of a full frame, bytes.
const FRAME: u64 = 1514;

/// How a parameter is written for tc.
#[derive(Copy, Clone)]
enum Form {
    /// This word, followed by the value.
    Named(&'static str),
    /// This word, followed by a time in whole milliseconds without unit.
    Millis(&'static str),
    /// This word, followed by a value in percent.
    Percent(&'static str),
    /// The value alone.
    Word,
    /// One word for true, another one for false; an empty one is left out.
    Switch(&'static str, &'static str),
}

use Form::{Millis, Named, Percent, Switch, Word};

/// Parameters that are not written as their name followed by the value: discipline (`*`: any),
/// parameter, form.
const TABLE: &[(&str, &str, Form)] = &[
    ("*", "ecn", Switch("ecn", "noecn")),
    ("*", "bytemode", Switch("bytemode", "nobytemode")),
    (
        "*",
        "dq_rate_estimator",
        Switch("dq_rate_estimator", "no_dq_rate_estimator"),
    ),
    ("*", "harddrop", Switch("harddrop", "")),
    ("*", "headdrop", Switch("headdrop", "")),
    ("*", "nodrop", Switch("nodrop", "")),
    ("*", "adaptive", Switch("adaptive", "")),
    ("cake", "diffserv", Word),
    ("cake", "flows", Word),
    ("cake", "network", Word),
    ("cake", "line", Word),
    ("cake", "cells", Word),
    ("cake", "ack_filter", Word),
    ("cake", "ingress", Switch("ingress", "egress")),
    ("cake", "autorate_ingress", Switch("autorate-ingress", "")),
    ("cake", "ether_vlan", Switch("ether-vlan", "")),
    ("cake", "wash", Switch("wash", "nowash")),
    ("cake", "split_gso", Switch("split-gso", "no-split-gso")),
    ("fq", "pacing", Switch("pacing", "nopacing")),
    ("fq", "horizon_drop", Switch("horizon_drop", "horizon_cap")),
    ("fq_pie", "ecn_prob", Percent("ecn_prob")),
    ("sfb", "rehash", Millis("rehash")),
    ("sfb", "db", Millis("db")),
    ("dualpi2", "protection", Named("classic_protection")),
];

/// Parameters that cannot be set for a qdisc of the kernel: discipline, parameter, reason.
const LACKING: &[(&str, &str, &str)] = &[
    (
        "cake",
        "nat",
        "the virtual machine has no address translation",
    ),
    ("cake", "fwmark", "packets have no marks"),
    ("red", "gentle", "red of Linux has no gentle mode"),
    ("fq", "weight_high", "tc before 6.7 cannot set weights"),
    ("fq", "weight_middle", "tc before 6.7 cannot set weights"),
    ("fq", "weight_low", "tc before 6.7 cannot set weights"),
];

/// Disciplines of the core that this engine cannot use, and the reason.
const ABSENT: &[(&str, &str)] = &[
    ("xcp", "Linux has no such queue discipline"),
    (
        "htb",
        "its classes match flows of the scenario, which tc does not know",
    ),
    (
        "drr",
        "its classes need filters, which this engine does not set",
    ),
];

/// Disciplines of the core that this engine uses in the kernel.
const PRESENT: &[&str] = &[
    "cake",
    "choke",
    "codel",
    "dualpi2",
    "fifo",
    "fq",
    "fq_codel",
    "fq_pie",
    "hhf",
    "pfifo_fast",
    "pie",
    "red",
    "sfb",
    "sfq",
];

/// Whether the name is that of a discipline of the core; all others are those of plugins.
pub fn is_of_linux(kind: &str) -> bool {
    PRESENT.contains(&kind) || ABSENT.iter().any(|(name, _)| *name == kind)
}

/// The configuration of a queue discipline of the kernel.
#[derive(Clone, Debug, Default)]
pub struct Words {
    /// The name of the discipline in tc.
    pub kind: String,
    /// The arguments after the name.
    pub words: Vec<String>,
    /// The largest backlog, if it is known.
    pub limit: Option<Limit>,
    /// Queue length of the device (txqueuelen), packets, if that is the limit of the discipline.
    pub device_queue: Option<u32>,
    /// The options as a netlink message, if the discipline is configured without tc.
    pub options: Option<Message>,
}

/// Formats a value for tc; `None` if tc has no form for it.
fn text(value: &Value) -> Option<String> {
    Some(match value {
        Value::Count(n) | Value::Packets(n) => n.to_string(),
        Value::Number(x) => x.to_string(),
        Value::Span(span) => format!("{}us", span.as_us()),
        Value::Bytes(bytes) => bytes.get().to_string(),
        Value::Rate(rate) => format!("{}bit", rate.as_bit()),
        Value::Word(word) => word.clone(),
        _ => return None,
    })
}

/// The arguments for one parameter; `None` if tc has none.
fn words_of(kind: &str, name: &str, value: &Value) -> Option<Vec<String>> {
    let row = TABLE
        .iter()
        .find(|(of, what, _)| (*of == kind || *of == "*") && *what == name);
    let form = row.map(|(_, _, form)| *form);
    let named = |word: &str, value: String| Some(vec![word.to_string(), value]);
    match (form, value) {
        (Some(Switch(yes, no)), Value::Bool(on)) => {
            let word = if *on { yes } else { no };
            Some(word.split_whitespace().map(String::from).collect())
        }
        (Some(Word), _) => text(value).map(|word| vec![word]),
        (Some(Millis(word)), Value::Span(span)) => named(word, (span.as_us() / 1000).to_string()),
        (Some(Percent(word)), Value::Number(x)) => named(word, (x * 100.0).round().to_string()),
        (Some(Named(word)), _) => named(word, text(value)?),
        _ => named(name, text(value)?),
    }
}

/// The error of a key of a hop, whose path follows later. `instead`: the option with which the
/// simulated discipline is used.
fn unlike(key: &str, why: &str, instead: &str) -> HostError {
    let problem = format!("is not supported: {why}; remove it, or write {instead}");
    HostError::Key(key.into(), problem)
}

/// Converts a limit to packets.
fn packets(limit: Limit) -> u64 {
    match limit {
        Limit::Packets(n) => n,
        Limit::Bytes(bytes) => (bytes.get() / FRAME).max(1),
    }
}

/// The configuration of `fifo`, whose name in tc depends on its limit.
fn fifo(params: &Params, limit: Limit, instead: &str) -> Result<Words, HostError> {
    let (kind, most) = match (params.word("drop"), limit) {
        ("head", Limit::Packets(n)) => ("pfifo_head_drop", n),
        ("head", Limit::Bytes(_)) => {
            let why = "drop = \"head\" of Linux has a limit in packets, such as buffer = \"100p\"";
            return Err(unlike("queue", why, instead));
        }
        (_, Limit::Packets(n)) => ("pfifo", n),
        (_, Limit::Bytes(bytes)) => ("bfifo", bytes.get()),
    };
    Ok(Words {
        kind: kind.into(),
        words: vec!["limit".into(), most.to_string()],
        limit: Some(limit),
        ..Words::default()
    })
}

/// The netlink options of `dualpi2`.
fn dualpi2(params: &Params, limit: u64) -> Message {
    let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let micros = |name| small(params.span(name).as_us());
    let scaled = |name| (params.number(name) * 256.0).round() as u32;
    let byte = |n: u64| [n.min(255) as u8];
    Message::new(0, &[])
        .number(1, small(limit))
        .number(3, micros("target"))
        .number(4, micros("tupdate"))
        .number(5, scaled("alpha"))
        .number(6, scaled("beta"))
        .number(8, micros("step"))
        .number(9, small(params.count("min_qlen_step")))
        .attribute(10, &byte(params.count("coupling")))
        .attribute(11, &byte(u64::from(params.bool("drop_overload"))))
        .attribute(12, &byte(u64::from(params.bool("drop_early"))))
        .attribute(13, &byte(params.count("protection")))
}

/// The configuration of the discipline `choice` in the kernel. `table`: the parameters of the
/// discipline. The path of a key in an error begins at the hop. `instead`: the option with which
/// the simulated discipline is used.
pub fn words(
    choice: &Choice,
    table: &[Param],
    context: &QueueContext,
    instead: &str,
) -> Result<Words, HostError> {
    let (kind, params) = (choice.kind.as_str(), &choice.params);
    if let Some((_, why)) = ABSENT.iter().find(|(name, _)| *name == kind) {
        let problem = format!(
            "is not supported: the kernel cannot apply {kind}, because {why}; select another \
             queue, or write {instead}"
        );
        return Err(HostError::Key("queue".into(), problem));
    }
    if kind == "fifo" {
        return fifo(
            params,
            context.limit.unwrap_or(Limit::Packets(1000)),
            instead,
        );
    }
    let own = || match params.get("limit") {
        Some(Value::Bytes(bytes)) => Limit::Bytes(*bytes),
        _ => Limit::Packets(params.packets("limit")),
    };
    let limit = context.limit.unwrap_or_else(own);
    let mut told = Words {
        kind: kind.into(),
        limit: Some(limit).filter(|_| kind != "cake"),
        ..Words::default()
    };
    match kind {
        "cake" if context.limit.is_some() => {
            let why = "cake of Linux has a limit of memory, memlimit, and no buffer";
            return Err(unlike("buffer", why, instead));
        }
        "cake" => {}
        "pfifo_fast" => {
            told.device_queue = Some(u32::try_from(packets(limit)).unwrap_or(u32::MAX));
            return Ok(told);
        }
        "dualpi2" => {
            told.options = Some(dualpi2(params, packets(limit)));
            return Ok(told);
        }
        "red" => {
            let bytes = match limit {
                Limit::Bytes(bytes) => bytes.get(),
                Limit::Packets(n) => n.saturating_mul(params.bytes("avpkt").get()),
            };
            told.words.extend(["limit".into(), bytes.to_string()]);
        }
        _ => {
            let limit = packets(limit).to_string();
            told.words.extend(["limit".into(), limit]);
        }
    }
    if matches!(kind, "red" | "choke") {
        let avpkt = params.bytes("avpkt").get().to_string();
        told.words.extend(["avpkt".into(), avpkt]);
        if params.rate("bandwidth").as_bit() == 0 {
            let rate = format!("{}bit", context.rate.as_bit());
            told.words.extend(["bandwidth".into(), rate]);
        }
    }
    let mask = params.count("ce_threshold_mask");
    if mask != 0 {
        let mut value = String::new();
        let selector = params.count("ce_threshold_selector");
        // Writing to a text cannot fail.
        let _ = write!(value, "{selector:#x}/{mask:#x}");
        told.words.extend(["ce_threshold_selector".into(), value]);
    }
    for param in table {
        let name = param.name;
        let Some(value) = params.get(name).filter(|value| **value != param.default()) else {
            continue;
        };
        if matches!(
            name,
            "limit" | "avpkt" | "ce_threshold_mask" | "ce_threshold_selector"
        ) {
            continue;
        }
        let key = format!("queue.{name}");
        let lacks = LACKING
            .iter()
            .find(|(of, what, _)| *of == kind && *what == name);
        if let Some((_, _, why)) = lacks {
            return Err(unlike(&key, why, instead));
        }
        let words = words_of(kind, name, value);
        let words = words.ok_or_else(|| unlike(&key, "tc has no word for it", instead))?;
        told.words.extend(words);
    }
    Ok(told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulator::frame::Frame;
    use narrows_core::registry::Registry;
    use narrows_core::units::{Bytes, Rate, Span};

    fn told(kind: &str, set: &[(&'static str, Value)], limit: Option<Limit>) -> String {
        let registry = Registry::<Frame>::standard();
        let table = registry.queue(kind).expect("a registered name").params;
        let context = QueueContext {
            limit,
            rate: Rate::mbit(20),
            hz: 1000,
            seed: 1,
        };
        match words(
            &Choice::new(kind, table, set),
            table,
            &context,
            "--queues narrows",
        ) {
            Ok(words) => format!("{} {}", words.kind, words.words.join(" ")),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn every_discipline_of_the_core_is_applied_or_refused_by_name() {
        for queue in Registry::<Frame>::standard().queues() {
            assert!(is_of_linux(queue.name), "{}", queue.name);
        }
        assert!(!is_of_linux("blue"));
        assert!(told("xcp", &[], None).contains("the kernel cannot apply xcp"));
    }

    #[test]
    fn words_are_those_of_tc() {
        let bytes = |n| Some(Limit::Bytes(Bytes::new(n)));
        assert_eq!(told("fifo", &[], bytes(50_000)), "bfifo limit 50000");
        assert_eq!(told("fifo", &[], Some(Limit::Packets(9))), "pfifo limit 9");
        assert_eq!(told("codel", &[], bytes(15_140)), "codel limit 10");
        let set = [
            ("target", Value::Span(Span::ms(1))),
            ("ecn", Value::Bool(false)),
        ];
        assert_eq!(
            told("fq_codel", &set, None),
            "fq_codel limit 10240 target 1000us noecn"
        );
        let set = [
            ("bandwidth", Value::Rate(Rate::mbit(10))),
            ("diffserv", Value::Word("besteffort".into())),
        ];
        assert_eq!(
            told("cake", &set, None),
            "cake bandwidth 10000000bit besteffort"
        );
        assert_eq!(
            told("red", &[], None),
            "red limit 1000000 avpkt 1000 bandwidth 20000000bit"
        );
        assert!(told("cake", &[], bytes(1)).starts_with("buffer is not supported: cake of Linux"));
        let set = [("gentle", Value::Bool(true))];
        assert!(told("red", &set, None).starts_with("queue.gentle is not supported: red of Linux"));
    }
}
