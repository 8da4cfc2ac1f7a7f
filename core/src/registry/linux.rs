//! Congestion controls, queue disciplines and settings of a Linux host: those that exist, those
//! that `narrows tune` may change, and those that `narrows advise` compares. The plan (Python) and
//! the privileged helper that executes it read these tables.
//!
//! A *plain* discipline is a default of the host, of networkd or of an earlier plan: replacing it
//! loses no configuration. One with its own handle that is not plain was configured by a user.
//! (`tc` gives each new discipline a handle; handle `0:` is the kernel's own.) `ingress` and
//! `clsact` are attached to `ffff:fff1`, apart from the egress root, so replacing the root does not
//! change them.
//!
//! Sources: Linux 6.12 `net/sched` (`sch_generic.c`, `sch_fifo.c` and `sch_mq.c` are always built
//! in), tc(8), systemd.network(5), Documentation/networking/ip-sysctl.rst and
//! admin-guide/sysctl/net.rst.

use alloc::format;
use alloc::string::String;

/// The role of a queue discipline for its replacement.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Role {
    /// A default discipline, or one without configuration: it may be replaced.
    Plain,
    /// A shaper, a scheduler or an emulation: if it has its own handle, a user configured it.
    Configured,
    /// Not in the egress direction.
    Incoming,
}

impl Role {
    /// Returns the name of the role in lists.
    pub fn name(self) -> &'static str {
        match self {
            Role::Plain => "plain",
            Role::Configured => "configured",
            Role::Incoming => "incoming",
        }
    }
}

/// A queue discipline of Linux.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Qdisc {
    /// tc's name.
    pub name: &'static str,
    /// The role of the queue discipline for its replacement.
    pub role: Role,
    /// Whether a plan may request the discipline without options.
    pub planned: bool,
    /// Whether all flows share one first-in, first-out queue.
    pub fifo: bool,
    /// Whether the discipline is part of every kernel, never a module.
    pub built_in: bool,
    /// Whether the discipline creates its own classes, which then cannot be changed singly.
    pub own_classes: bool,
}

impl Qdisc {
    const fn new(name: &'static str, role: Role) -> Qdisc {
        Qdisc {
            name,
            role,
            planned: false,
            fifo: false,
            built_in: false,
            own_classes: false,
        }
    }
    const fn planned(self) -> Qdisc {
        Qdisc {
            planned: true,
            ..self
        }
    }
    const fn fifo(self) -> Qdisc {
        Qdisc { fifo: true, ..self }
    }
    const fn built_in(self) -> Qdisc {
        Qdisc {
            built_in: true,
            ..self
        }
    }
    const fn own_classes(self) -> Qdisc {
        Qdisc {
            own_classes: true,
            ..self
        }
    }
    /// The row of `name`; a discipline without a row is [`Role::Configured`] and has no other
    /// property.
    pub fn named(name: &str) -> Option<&'static Qdisc> {
        QDISCS.iter().find(|qdisc| qdisc.name == name)
    }
    /// The role of the discipline called `name`.
    pub fn role_of(name: &str) -> Role {
        Qdisc::named(name).map_or(Role::Configured, |qdisc| qdisc.role)
    }
}

/// A congestion control of Linux.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct CongestionControl {
    /// The kernel's name.
    pub name: &'static str,
    /// Whether the entry is in common use: `narrows advise` recommends the installation of its
    /// package, and prefers it among equal results.
    pub common: bool,
}

const fn cc(name: &'static str, common: bool) -> CongestionControl {
    CongestionControl { name, common }
}

/// The congestion controls that request pacing, including those that no released kernel has. The
/// list does not need their code, which the program for routers therefore lacks.
pub const PACED: [&str; 7] = ["bbr", "bbr2", "bbr3", "copa", "prague", "remy", "timely"];

/// The congestion controls of Linux, the common ones first. Versions 2 and 3 of BBR are not part of
/// a released kernel; `bbr` is version 1.
pub const CONGESTION_CONTROLS: &[CongestionControl] = &[
    cc("cubic", true),
    cc("bbr", true),
    cc("reno", true),
    cc("bic", false),
    cc("cdg", false),
    cc("dctcp", false),
    cc("highspeed", false),
    cc("htcp", false),
    cc("hybla", false),
    cc("illinois", false),
    cc("lp", false),
    cc("nv", false),
    cc("scalable", false),
    cc("vegas", false),
    cc("veno", false),
    cc("westwood", false),
    cc("yeah", false),
];

/// Queue disciplines that `narrows advise` compares at a bottleneck of this host.
pub const AT_BOTTLENECK: &[&str] = &["fq_codel", "cake", "codel", "pie", "fq_pie", "sfq", "fq"];

/// Queue disciplines that `narrows advise` compares below a shaper. These disciplines are in common
/// use and are preferred among equal results.
pub const BELOW_SHAPER: &[&str] = &["cake", "fq_codel"];

/// The queue disciplines of Linux 2.6 to 6.17 by the names that tc(8) uses. The disciplines with
/// special treatment in a plan or an audit come first.
pub const QDISCS: &[Qdisc] = &[
    Qdisc::new("fq", Role::Plain).planned().own_classes(),
    Qdisc::new("fq_codel", Role::Plain).planned().own_classes(),
    Qdisc::new("cake", Role::Configured).planned().own_classes(),
    Qdisc::new("pfifo_fast", Role::Plain)
        .planned()
        .fifo()
        .built_in(),
    Qdisc::new("pfifo", Role::Plain).planned().fifo().built_in(),
    Qdisc::new("bfifo", Role::Plain).planned().fifo().built_in(),
    Qdisc::new("mq", Role::Plain)
        .planned()
        .built_in()
        .own_classes(),
    Qdisc::new("sfq", Role::Plain).planned().own_classes(),
    Qdisc::new("noqueue", Role::Plain).built_in(),
    Qdisc::new("codel", Role::Plain).own_classes(),
    Qdisc::new("fq_pie", Role::Plain),
    Qdisc::new("mqprio", Role::Configured).own_classes(),
    Qdisc::new("multiq", Role::Configured).own_classes(),
    Qdisc::new("netem", Role::Configured).own_classes(),
    Qdisc::new("prio", Role::Configured).own_classes(),
    Qdisc::new("red", Role::Configured).own_classes(),
    Qdisc::new("tbf", Role::Configured).own_classes(),
    Qdisc::new("ingress", Role::Incoming),
    Qdisc::new("clsact", Role::Incoming),
    Qdisc::new("atm", Role::Configured),
    Qdisc::new("blackhole", Role::Configured),
    Qdisc::new("bpf", Role::Configured),
    Qdisc::new("cbq", Role::Configured),
    Qdisc::new("cbs", Role::Configured),
    Qdisc::new("choke", Role::Configured),
    Qdisc::new("drr", Role::Configured),
    Qdisc::new("dsmark", Role::Configured),
    Qdisc::new("dualpi2", Role::Configured),
    Qdisc::new("etf", Role::Configured),
    Qdisc::new("ets", Role::Configured),
    Qdisc::new("gred", Role::Configured),
    Qdisc::new("hfsc", Role::Configured),
    Qdisc::new("hhf", Role::Configured),
    Qdisc::new("htb", Role::Configured),
    Qdisc::new("noop", Role::Configured),
    Qdisc::new("pfifo_head_drop", Role::Configured),
    Qdisc::new("pie", Role::Configured),
    Qdisc::new("plug", Role::Configured),
    Qdisc::new("qfq", Role::Configured),
    Qdisc::new("sfb", Role::Configured),
    Qdisc::new("skbprio", Role::Configured),
    Qdisc::new("taprio", Role::Configured),
    Qdisc::new("teql", Role::Configured),
];

/// The form of a setting's value. Each has a regular expression, which Python matches against the
/// whole value.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Form {
    /// A number of one digit, from the first to the second.
    Digit(u8, u8),
    /// A number of up to ten digits.
    Count,
    /// Three numbers of up to ten digits each.
    Three,
    /// A name: of a congestion control or a queue discipline.
    Name,
    /// Several words.
    Words,
}

impl Form {
    /// As a regular expression of the whole value.
    pub fn pattern(self) -> String {
        const COUNT: &str = r"\d{1,10}";
        match self {
            Form::Digit(least, most) => format!("[{least}-{most}]"),
            Form::Count => COUNT.into(),
            Form::Three => format!("{COUNT} {COUNT} {COUNT}"),
            Form::Name => "[a-z0-9][a-z0-9_]{0,31}".into(),
            Form::Words => "[a-z0-9_]+( [a-z0-9_]+)*".into(),
        }
    }
    /// Returns whether `value` has this form.
    pub fn fits(self, value: &str) -> bool {
        let count =
            |text: &str| (1..=10).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        let word = |text: &str| {
            !text.is_empty()
                && text
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        };
        match self {
            Form::Digit(least, most) => {
                value.len() == 1 && (b'0' + least..=b'0' + most).contains(&value.as_bytes()[0])
            }
            Form::Count => count(value),
            Form::Three => value.split(' ').count() == 3 && value.split(' ').all(count),
            Form::Name => value.len() <= 32 && word(value) && !value.starts_with('_'),
            Form::Words => value.split(' ').all(word),
        }
    }
}

/// The data of connections that a setting affects.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Acts {
    /// Data that this host sends.
    Sent,
    /// Data that this host receives.
    Received,
    /// Data of both directions, because both ends negotiate it for a connection.
    Negotiated,
    /// No data: the setting affects which connections exist, or which settings are permitted.
    Neither,
}

impl Acts {
    /// Returns the name of the data in lists.
    pub fn name(self) -> &'static str {
        match self {
            Acts::Sent => "sent",
            Acts::Received => "received",
            Acts::Negotiated => "negotiated",
            Acts::Neither => "neither",
        }
    }
}

/// A setting below `/proc/sys/net`.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Sysctl {
    /// sysctl's name.
    pub name: &'static str,
    /// The form of its value.
    pub form: Form,
    /// Whether the setting applies to the whole machine. Only the first network namespace has such
    /// a setting.
    pub global: bool,
    /// The data of connections that the setting affects.
    pub acts: Acts,
}

const fn global(name: &'static str, form: Form, acts: Acts) -> Sysctl {
    Sysctl {
        name,
        form,
        global: true,
        acts,
    }
}

const fn local(name: &'static str, form: Form, acts: Acts) -> Sysctl {
    Sysctl {
        name,
        form,
        global: false,
        acts,
    }
}

/// The settings that a plan may change.
pub const SYSCTLS: &[Sysctl] = &[
    global("net.core.default_qdisc", Form::Name, Acts::Sent),
    global("net.core.rmem_max", Form::Count, Acts::Received),
    global("net.core.wmem_max", Form::Count, Acts::Sent),
    global("net.core.netdev_max_backlog", Form::Count, Acts::Received),
    local("net.core.somaxconn", Form::Count, Acts::Neither),
    local("net.ipv4.tcp_congestion_control", Form::Name, Acts::Sent),
    local(
        "net.ipv4.tcp_allowed_congestion_control",
        Form::Words,
        Acts::Neither,
    ),
    local("net.ipv4.tcp_ecn", Form::Digit(0, 5), Acts::Negotiated),
    local(
        "net.ipv4.tcp_ecn_fallback",
        Form::Digit(0, 1),
        Acts::Negotiated,
    ),
    local("net.ipv4.tcp_mtu_probing", Form::Digit(0, 2), Acts::Sent),
    local("net.ipv4.tcp_base_mss", Form::Count, Acts::Sent),
    local("net.ipv4.tcp_rmem", Form::Three, Acts::Received),
    local("net.ipv4.tcp_wmem", Form::Three, Acts::Sent),
    local(
        "net.ipv4.tcp_moderate_rcvbuf",
        Form::Digit(0, 1),
        Acts::Received,
    ),
    local(
        "net.ipv4.tcp_window_scaling",
        Form::Digit(0, 1),
        Acts::Negotiated,
    ),
    local("net.ipv4.tcp_sack", Form::Digit(0, 1), Acts::Negotiated),
    local(
        "net.ipv4.tcp_timestamps",
        Form::Digit(0, 2),
        Acts::Negotiated,
    ),
    local(
        "net.ipv4.tcp_slow_start_after_idle",
        Form::Digit(0, 1),
        Acts::Sent,
    ),
    local(
        "net.ipv4.tcp_no_metrics_save",
        Form::Digit(0, 1),
        Acts::Sent,
    ),
    local("net.ipv4.tcp_notsent_lowat", Form::Count, Acts::Sent),
    local("net.ipv4.tcp_limit_output_bytes", Form::Count, Acts::Sent),
];

impl Sysctl {
    /// The row of `name`.
    pub fn named(name: &str) -> Option<&'static Sysctl> {
        SYSCTLS.iter().find(|sysctl| sysctl.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_one_row() {
        for (i, qdisc) in QDISCS.iter().enumerate() {
            assert!(
                QDISCS[..i].iter().all(|q| q.name != qdisc.name),
                "{}",
                qdisc.name
            );
        }
        for (i, sysctl) in SYSCTLS.iter().enumerate() {
            assert!(
                SYSCTLS[..i].iter().all(|s| s.name != sysctl.name),
                "{}",
                sysctl.name
            );
        }
        assert_eq!(Qdisc::role_of("htb"), Role::Configured);
    }

    #[test]
    fn compared_queue_disciplines_are_listed_and_congestion_controls_have_a_model() {
        for name in AT_BOTTLENECK.iter().chain(BELOW_SHAPER) {
            assert!(Qdisc::named(name).is_some(), "{name}");
        }
        for cc in CONGESTION_CONTROLS {
            let model = crate::cc::KINDS.iter().any(|kind| kind.name == cc.name);
            assert!(model, "{}", cc.name);
        }
        for kind in crate::cc::KINDS {
            assert_eq!(kind.paced(), PACED.contains(&kind.name), "{}", kind.name);
        }
    }

    #[test]
    fn a_value_has_the_form_of_its_setting() {
        for (form, right, wrong) in [
            (
                Form::Digit(0, 2),
                &["0", "2"][..],
                &["3", "", "00", "a"][..],
            ),
            (
                Form::Count,
                &["0", "4294967296"],
                &["", "-1", "12345678901", "1 2"],
            ),
            (
                Form::Three,
                &["4096 131072 6291456"],
                &["1 2", "1 2 3 4", "1  3", "a b c"],
            ),
            (
                Form::Name,
                &["bbr", "fq_codel"],
                &["", "BBR", "_bbr", "reno cubic"],
            ),
            (
                Form::Words,
                &["reno cubic", "bbr"],
                &["", "reno  cubic", "reno;"],
            ),
        ] {
            assert!(right.iter().all(|value| form.fits(value)), "{form:?}");
            assert!(wrong.iter().all(|value| !form.fits(value)), "{form:?}");
        }
    }
}
