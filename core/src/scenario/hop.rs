//! Parses a hop of a path from the tables of a scenario, and writes it back: `[path]` itself, each
//! `[[path.hop]]`, `[path.reverse]`, and each `[link.NAME]`.

use super::error::{Collector, Fix};
use super::keys::{self, OTHER_QUEUES};
use super::model::offers;
use super::nested::default_of;
use super::parse::{DAY, FRAME, HOUR, Known, missing, optional, section, sections};
use super::quantity::within;
use super::read::{Field, Section};
use super::value::{Node, Value};
use super::varying;
use super::write::{Entries, choice_node, put, put_all, quote, write, write_some};
use super::{Buffer, Choice, HopSpec, Link, PathSpec};
use crate::net::trace::Trace;
use crate::net::{link, loss};
use crate::units::{Bytes, Rate, Span, format_bytes, format_rate, parse_span};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The default queue discipline of a hop.
pub(super) const QUEUE: &str = "fifo";
/// Maximum number of hops.
pub(super) const MOST_HOPS: usize = 16;
const MOST_BUFFER: Bytes = Bytes::new(1_000_000_000_000);
const MOST_PACKETS: u64 = 10_000_000;
const MOST_BDP: f64 = 10_000.0;

/// The valid buffers in words.
pub(super) fn buffer_range() -> String {
    let (least, most) = (format_bytes(FRAME), format_bytes(MOST_BUFFER));
    format!("{least} to {most}, 1p to {MOST_PACKETS}p, above 0bdp to {MOST_BDP}bdp")
}

/// The discipline called `kind` with its defaults.
pub(super) fn usual_queue(kind: &str, known: &Known) -> Choice {
    default_of(kind, &known.queues).unwrap_or_else(|| Choice::new(kind, &[], &[]))
}

/// `[path]`.
pub(super) fn path(out: &mut Collector<'_>, top: &Section<'_>, known: &Known) -> Option<PathSpec> {
    let Some(s) = section(out, top, "path").ok()? else {
        return missing(
            out,
            top,
            "path",
            "[path]\nrate = \"20Mbit\"\nrtt = \"40ms\"",
        );
    };
    let hops = match s.field("hop") {
        None => hop(out, &s, known, Place::Forward).map(|hop| alloc::vec![hop]),
        Some(f) => {
            let twice: Vec<&str> = keys::of("path.hop")
                .map(|k| k.name)
                .filter(|name| s.table.get(name).is_some())
                .collect();
            // A value that is no list has no hops: the path's own keys may be right.
            for name in twice
                .iter()
                .filter(|_| matches!(f.entry.node.value, Value::Array(_)))
            {
                if let Some(f) = s.field(name) {
                    out.refuse(
                        &f,
                        "belongs in a [[path.hop]] if the path has several hops",
                        Fix::None,
                    );
                }
            }
            let list = sections(out, &s, "path.hop")?;
            if list.len() > MOST_HOPS {
                out.refuse(&f, format!("has more than {MOST_HOPS} hops"), Fix::None);
                return None;
            }
            let hops: Vec<Option<HopSpec>> = list
                .iter()
                .map(|s| hop(out, s, known, Place::Forward))
                .collect();
            hops.into_iter()
                .collect::<Option<Vec<HopSpec>>>()
                .filter(|_| twice.is_empty())
        }
    };
    let reverse = match section(out, &s, "path.reverse") {
        Ok(Some(s)) => hop(out, &s, known, Place::Reverse).map(Some),
        Ok(None) => Some(None),
        Err(()) => None,
    };
    let tbf = hops
        .iter()
        .flatten()
        .any(|hop| !matches!(hop.link, Link::Serial | Link::Htb { .. }));
    let whole = keys::of("path").filter(|key| key.is_of_the_whole_path());
    let mut values = out.values_of(&s, whole);
    let offload = values.take("offload");
    let problem =
        "is not supported by the link, which splits super-packets; htb and serial keep them whole";
    let f = s.field("offload");
    out.require(f.as_ref(), !(offload && tbf), problem, || "false".into())?;
    Some(PathSpec {
        hops: hops?,
        reverse: reverse?,
        offload,
        nat: values.take("nat"),
        links: None,
        keys: values.rest()?,
    })
}

/// The place of a hop.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// On the forward path, with propagation behind it.
    Forward,
    /// On the reverse path.
    Reverse,
    /// A link, with propagation behind it.
    Link,
}

/// Reads the keys of a hop.
pub(super) fn hop(
    out: &mut Collector<'_>,
    s: &Section<'_>,
    known: &Known,
    place: Place,
) -> Option<HopSpec> {
    let varying = varying::read(out, s, place);
    let trace = varying.as_ref().and_then(|v| v.as_ref()?.trace.as_ref());
    let rows = keys::of(match place {
        Place::Forward => "path.hop",
        Place::Reverse => "path.reverse",
        Place::Link => "link",
    });
    let mut values = out.values_of(s, rows);
    let rate = match (s.field("rate"), trace) {
        (Some(f), Some(trace)) => {
            varying::refuse_rate(out, &f, trace);
            None
        }
        (Some(_), None) => values.optional("rate"),
        (None, Some(file)) => Some(file.trace.mean(DAY).max(Rate::bit(1))),
        // The error of a wrong trace has been reported.
        (None, None) if s.field("trace").is_some() => None,
        (None, None) => missing(out, s, "rate", "rate = \"20Mbit\""),
    };
    // The reverse hop has no rtt.
    let rtt: Option<Span> = values.optional("rtt");
    let whole = rtt.unwrap_or(HOUR);
    let delay_forward = match place {
        Place::Link => Some(values.take("delay")),
        _ => optional(
            s.field("delay_forward").filter(|_| place == Place::Forward),
            Span::ns(whole.as_ns() / 2),
            |f| out.quantity(&f, "ms", Span::ZERO, whole),
        ),
    };
    let buffer = optional(s.field("buffer"), None, |f| buffer(out, &f).map(Some));
    let queue = match s.field("queue") {
        Some(f) => out.choice(&f, "queue", &known.queues, OTHER_QUEUES),
        None => Some(usual_queue(QUEUE, known)),
    };
    let link = optional(s.field("link"), Link::Serial, |f| link(out, &f, rate));
    let has_rates = matches!(&varying, Some(Some(v)) if v.has_rates());
    if let (true, Some(Link::ShapeAverage { .. } | Link::ShapePeak { .. }), Some(f)) =
        (has_rates, link, s.field("link"))
    {
        out.refuse(
            &f,
            "needs a constant rate, but the rate of the hop varies",
            Fix::Value("\"tbf\"".into()),
        );
        return None;
    }
    if let (Some(Some(v)), Some(f)) = (&varying, s.field("link")) {
        let deliveries =
            matches!(&v.trace, Some(file) if matches!(file.trace, Trace::Deliveries(_)));
        if deliveries && link != Some(Link::Serial) {
            out.refuse(
                &f,
                "cannot be combined with a packet-delivery trace, which determines when packets \
                 leave",
                Fix::Value("\"serial\"".into()),
            );
            return None;
        }
    }
    let rate = rate?;
    let loss: Option<Choice> = values.optional("loss");
    Some(HopSpec {
        rate,
        varying: varying?,
        rtt: rtt.unwrap_or_default(),
        delay_forward: delay_forward?,
        longest_rtt: Span::ZERO,
        buffer: buffer?,
        queue: queue?,
        link: link?,
        loss: loss.filter(|loss| !loss::is_none(loss)),
        corrupt: values.optional("corrupt"),
        duplicate: values.optional("duplicate"),
        policer: values.optional("policer"),
        jitter: values.optional("jitter"),
        reorder: values.optional("reorder"),
        keys: values.rest()?,
    })
}

/// Reads a buffer: `"0.5bdp"`, `"170p"`, `"250kB"`.
pub(super) fn buffer(out: &mut Collector<'_>, f: &Field<'_>) -> Option<Buffer> {
    const FORM: &str = "needs a unit: bdp, p (packets) or bytes";
    let text = match &f.entry.node.value {
        Value::String(text) => text.trim(),
        Value::Integer(n) => {
            // Small numbers probably mean bandwidth-delay products, medium ones packets, large ones
            // bytes.
            let fix = match n {
                i128::MIN..=0 => "1bdp".into(),
                1..=10 => format!("{n}bdp"),
                11..=10_000 => format!("{n}p"),
                n => format_bytes(Bytes::new(
                    u64::try_from(*n).unwrap_or(u64::MAX).min(MOST_BUFFER.get()),
                )),
            };
            out.refuse(f, FORM, Fix::Value(quote(&fix)));
            return None;
        }
        Value::Float(x) => {
            let x = if *x > 0.0 && *x <= MOST_BDP { *x } else { 1.0 };
            out.refuse(f, FORM, Fix::Value(quote(&format!("{x}bdp"))));
            return None;
        }
        _ => {
            out.refuse(
                f,
                "is not a buffer: bdp, p (packets) or bytes",
                Fix::Value("\"1bdp\"".into()),
            );
            return None;
        }
    };
    let digits = |from: usize| {
        let other = |c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-'));
        text[from..].find(other).map_or(text.len(), |n| from + n)
    };
    let mut unit_at = digits(0);
    // An `e` belongs to the number if digits follow.
    if text[unit_at..].starts_with(['e', 'E']) {
        let end = digits(unit_at + 1);
        if text[unit_at..end].ends_with(|c: char| c.is_ascii_digit()) {
            unit_at = end;
        }
    }
    let (number, unit) = (text[..unit_at].trim(), text[unit_at..].trim());
    if number.is_empty() {
        out.refuse(
            f,
            "is not a buffer: bdp, p (packets) or bytes",
            Fix::Value("\"1bdp\"".into()),
        );
        return None;
    }
    match unit.to_lowercase().as_str() {
        unit_text if keys::nearest(unit_text, ["bdp"].into_iter()).is_some() => {
            let x: f64 = number.parse().unwrap_or(f64::NAN);
            let good = x > 0.0 && x <= MOST_BDP;
            if good && unit == "bdp" {
                return Some(Buffer::Bdp(x));
            }
            let problem = if good && unit_text == "bdp" {
                format!("has the unit {unit}, which is written bdp")
            } else if good {
                format!("has the unknown unit {unit}; did you mean bdp?")
            } else {
                format!("must be above 0bdp and at most {MOST_BDP}bdp")
            };
            let fix = if good {
                x
            } else if x > MOST_BDP {
                MOST_BDP
            } else {
                1.0
            };
            out.refuse(f, problem, Fix::Value(quote(&format!("{fix}bdp"))));
            None
        }
        "p" | "pkt" | "pkts" | "packet" | "packets" => {
            let n: Option<u64> = number.parse().ok();
            match n {
                Some(n @ 1..=MOST_PACKETS) if unit == "p" => return Some(Buffer::Packets(n)),
                Some(n @ 1..=MOST_PACKETS) => {
                    out.refuse(
                        f,
                        format!("has the unit {unit}, which is written p"),
                        Fix::Value(quote(&format!("{n}p"))),
                    );
                }
                _ => {
                    let near = number
                        .parse::<f64>()
                        .map_or(1000.0, |x| libm::round(x).clamp(1.0, MOST_PACKETS as f64));
                    out.refuse(
                        f,
                        format!("must be whole packets from 1p to {MOST_PACKETS}p"),
                        Fix::Value(quote(&format!("{near}p"))),
                    );
                }
            }
            None
        }
        "" => {
            let x: f64 = number.parse().unwrap_or(1.0);
            let fix = if x > 0.0 && x <= 10.0 {
                format!("{x}bdp")
            } else {
                "1bdp".into()
            };
            out.refuse(f, FORM, Fix::Value(quote(&fix)));
            None
        }
        _ => match within(text, "kB", FRAME, MOST_BUFFER) {
            Ok(n) => Some(Buffer::Bytes(n)),
            Err(e) => {
                let (problem, fix) = match parse_span(text) {
                    Ok(_) => (
                        "is a time, but a buffer is a size: bdp, p (packets) or bytes".into(),
                        "1bdp".into(),
                    ),
                    Err(_) => (e.problem.replace("known: ", "known: bdp, p, "), e.fix),
                };
                out.refuse(f, problem, Fix::Value(quote(&fix)));
                None
            }
        },
    }
}

/// Reads a link: `"serial"`, `"tbf"`, `{ kind = "htb", burst = "3080B" }`.
pub(super) fn link(out: &mut Collector<'_>, f: &Field<'_>, rate: Option<Rate>) -> Option<Link> {
    let Choice { kind, params } = out.choice(f, "link", &offers(link::KINDS), &[])?;
    let burst = match params.bytes("burst") {
        Bytes::ZERO => tbf_burst(rate.unwrap_or_default()),
        burst => burst,
    };
    let (bc, be) = (params.bytes("bc"), params.bytes("be"));
    let peak = Some((params.rate("peakrate"), params.bytes("mtu")))
        .filter(|(rate, _)| *rate > Rate::default());
    Some(match kind.as_str() {
        "tbf" => Link::Tbf { burst, peak },
        "htb" => Link::Htb { burst },
        "shape_average" => Link::ShapeAverage { bc, be },
        "shape_peak" => Link::ShapePeak { bc, be },
        _ => Link::Serial,
    })
}

/// The default burst of a token bucket. This burst is the greater of two frames with their link
/// layer's overhead, and the data of a quarter of a millisecond.
fn tbf_burst(rate: Rate) -> Bytes {
    Bytes::new(3080)
        .max(rate * Span::us(250))
        .min(Bytes::new(1_000_000_000))
}

/// The hop as the entries of its section.
pub(super) fn entries(hop: &HopSpec, place: Place) -> Entries {
    let mut e = Entries::new();
    if hop.varying.as_ref().is_none_or(|v| v.trace.is_none()) {
        write(&mut e, "rate", &hop.rate);
    }
    for (name, node) in hop.varying.iter().flat_map(|v| varying::nodes(v)) {
        put(&mut e, name, node);
    }
    match place {
        Place::Forward => {
            write(&mut e, "rtt", &hop.rtt);
            write(&mut e, "delay_forward", &hop.delay_forward);
        }
        Place::Reverse => {}
        Place::Link => write(&mut e, "delay", &hop.delay_forward),
    }
    if let Some(buffer) = hop.buffer {
        put(&mut e, "buffer", Node::string(buffer_text(buffer)));
    }
    put(&mut e, "queue", choice_node(&hop.queue));
    put(&mut e, "link", link_node(hop.link));
    for (name, element) in [
        ("loss", &hop.loss),
        ("corrupt", &hop.corrupt),
        ("duplicate", &hop.duplicate),
        ("policer", &hop.policer),
        ("jitter", &hop.jitter),
        ("reorder", &hop.reorder),
    ] {
        write_some(&mut e, name, element);
    }
    put_all(&mut e, &hop.keys);
    e
}

/// The inverse of `buffer`.
pub(super) fn buffer_text(buffer: Buffer) -> String {
    match buffer {
        Buffer::Bytes(n) => format_bytes(n),
        Buffer::Packets(n) => format!("{n}p"),
        Buffer::Bdp(x) => format!("{x}bdp"),
    }
}

/// The link in a scenario's notation.
pub(super) fn link_node(link: Link) -> Node {
    match link {
        Link::Serial => Node::string("serial"),
        Link::Tbf { burst, peak } => {
            let mut parts = alloc::vec![("burst", format_bytes(burst))];
            if let Some((rate, mtu)) = peak {
                parts.extend([("peakrate", format_rate(rate)), ("mtu", format_bytes(mtu))]);
            }
            kind("tbf", parts)
        }
        Link::Htb { burst } => kind("htb", alloc::vec![("burst", format_bytes(burst))]),
        Link::ShapeAverage { bc, be } => kind(
            "shape_average",
            alloc::vec![("bc", format_bytes(bc)), ("be", format_bytes(be))],
        ),
        Link::ShapePeak { bc, be } => kind(
            "shape_peak",
            alloc::vec![("bc", format_bytes(bc)), ("be", format_bytes(be))],
        ),
    }
}

/// `[path]`.
pub(super) fn path_node(path: &PathSpec) -> Node {
    let mut e = match path.hops.as_slice() {
        [hop] => entries(hop, Place::Forward),
        hops => {
            let hops = hops
                .iter()
                .map(|hop| Node::table(entries(hop, Place::Forward)))
                .collect();
            alloc::vec![("hop".into(), Node::array(hops))]
        }
    };
    if let Some(hop) = &path.reverse {
        put(&mut e, "reverse", Node::table(entries(hop, Place::Reverse)));
    }
    write(&mut e, "offload", &path.offload);
    if path.nat {
        write(&mut e, "nat", &path.nat);
    }
    put_all(&mut e, &path.keys);
    Node::table(e)
}

/// A model with parameters that are quantities, in a scenario's notation.
fn kind(kind: &str, parts: Vec<(&str, String)>) -> Node {
    let mut e = alloc::vec![("kind".into(), Node::string(kind))];
    e.extend(
        parts
            .into_iter()
            .map(|(name, text)| (name.into(), Node::string(text))),
    );
    Node::table(e)
}
