//! Queue disciplines and settings of a Linux host that `narrows tune` may change. Both the plan
//! (Python) and the privileged helper that executes it read these tables.
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
    /// A default, or one without configuration: it may be replaced.
    Plain,
    /// With its own handle, it was configured: a shaper, a scheduler, an emulation.
    Configured,
    /// Not in the egress direction.
    Incoming,
}

impl Role {
    /// Its name in lists.
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
    /// Its role for its replacement.
    pub role: Role,
    /// Whether a plan may request it without options.
    pub planned: bool,
    /// Whether all flows share one first-in, first-out queue.
    pub fifo: bool,
    /// Whether it is part of every kernel, never a module.
    pub built_in: bool,
    /// Whether it creates its own classes, which then cannot be changed singly.
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

/// The queue disciplines of Linux with special treatment in a plan or an audit.
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
];

/// The form of a setting's value. Each has a regular expression, which Python matches against the
/// whole value.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Form {
    /// A number of one digit, from the first to the second.
    Digit(u8, u8),
    /// A number of up to ten digits.
    Count,
    /// Three such numbers.
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

/// A setting below `/proc/sys/net`.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Sysctl {
    /// sysctl's name.
    pub name: &'static str,
    /// The form of its value.
    pub form: Form,
    /// Whether it applies to the whole machine. Only the first network namespace has such a
    /// setting.
    pub global: bool,
}

const fn global(name: &'static str, form: Form) -> Sysctl {
    Sysctl {
        name,
        form,
        global: true,
    }
}

const fn local(name: &'static str, form: Form) -> Sysctl {
    Sysctl {
        name,
        form,
        global: false,
    }
}

/// The settings that a plan may change.
pub const SYSCTLS: &[Sysctl] = &[
    global("net.core.default_qdisc", Form::Name),
    global("net.core.rmem_max", Form::Count),
    global("net.core.wmem_max", Form::Count),
    global("net.core.netdev_max_backlog", Form::Count),
    local("net.core.somaxconn", Form::Count),
    local("net.ipv4.tcp_congestion_control", Form::Name),
    local("net.ipv4.tcp_allowed_congestion_control", Form::Words),
    local("net.ipv4.tcp_ecn", Form::Digit(0, 5)),
    local("net.ipv4.tcp_ecn_fallback", Form::Digit(0, 1)),
    local("net.ipv4.tcp_mtu_probing", Form::Digit(0, 2)),
    local("net.ipv4.tcp_base_mss", Form::Count),
    local("net.ipv4.tcp_rmem", Form::Three),
    local("net.ipv4.tcp_wmem", Form::Three),
    local("net.ipv4.tcp_moderate_rcvbuf", Form::Digit(0, 1)),
    local("net.ipv4.tcp_window_scaling", Form::Digit(0, 1)),
    local("net.ipv4.tcp_sack", Form::Digit(0, 1)),
    local("net.ipv4.tcp_timestamps", Form::Digit(0, 2)),
    local("net.ipv4.tcp_slow_start_after_idle", Form::Digit(0, 1)),
    local("net.ipv4.tcp_no_metrics_save", Form::Digit(0, 1)),
    local("net.ipv4.tcp_notsent_lowat", Form::Count),
    local("net.ipv4.tcp_limit_output_bytes", Form::Count),
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
