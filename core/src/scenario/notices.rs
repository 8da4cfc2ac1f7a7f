//! Warnings about a valid scenario that its author may not intend; the run reports them.

use super::{HopSpec, HostSpec, Scenario, links};
use crate::cc::Need;
use crate::kernel::{Kernel, Rule};
use crate::metrics::{FRAME_MBIT, SUPER_MBIT};
use crate::packet::Packet;
use crate::param::Choice;
use crate::queue::htb;
use crate::registry::Registry;
use crate::tcp::EcnNegotiation;
use crate::tcp::rtt::RTO_MAX;
use crate::units::{Span, format_span};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Maximum number of unused sections that are listed.
const MOST_NAMES: usize = 8;
/// Maximum number of late steps and outages that are listed.
const MOST_LATE: usize = 5;
/// A summary interval in which fewer full packets fit causes a warning. The packet in transmission
/// at its start counts in full. In so short an interval, this packet is more than the share of
/// headers (4 %), so goodput may exceed the rate.
const LEAST_PACKETS: f64 = 22.0;
/// The same threshold, in Wi-Fi transmissions, of which at least a tenth is overhead.
const LEAST_TRANSMISSIONS: f64 = 10.0;
/// Maximum difference of two delays with jitter, in spreads; with uniform jitter it is 2.
const MOST_SPREADS: u64 = 8;

/// The section of a host in a scenario; `None` is the host without a name.
fn section(name: Option<&String>) -> String {
    match name {
        Some(name) => format!("[host.{name}]"),
        None => "[host]".into(),
    }
}

impl Scenario {
    /// Returns the warnings of a run in the simulator as sentences, with corrections.
    pub fn notices<P: Packet + Send + 'static>(&self, registry: &Registry<P>) -> Vec<String> {
        self.warnings(registry, self.unsupported())
    }

    /// Returns the warnings of a run with the TCP of the Linux kernel `release`, such as
    /// `linux-6.18`. This kernel, not the key `like`, determines which keys have an effect.
    pub fn kernel_notices<P: Packet + Send + 'static>(
        &self,
        registry: &Registry<P>,
        release: &str,
    ) -> Vec<String> {
        self.warnings(registry, self.unsupported_by(release))
    }

    /// All warnings; `unsupported` are those about keys that kernels ignore.
    fn warnings<P: Packet + Send + 'static>(
        &self,
        registry: &Registry<P>,
        unsupported: Vec<String>,
    ) -> Vec<String> {
        let mut asking = BTreeMap::<&str, usize>::new();
        for flow in self
            .flows
            .iter()
            .filter(|flow| flow.transport.is_none() && flow.ecn == EcnNegotiation::Requested)
        {
            *asking.entry(&flow.cc.kind).or_default() += 1;
        }
        let warnings = asking.into_iter().filter_map(|(cc, n)| {
            let kind = registry.cc(cc)?;
            let why = if kind.needs(Need::EcnEcho) {
                "without ECN: an ordinary host rejects ECN if the SYN itself is ECN-capable"
            } else if kind.needs(Need::EcnCount) {
                "with the ECN of RFC 3168: an ordinary host does not count marks"
            } else {
                return None;
            };
            let (flows, run) = if n == 1 {
                ("flow", "runs")
            } else {
                ("flows", "run")
            };
            Some(format!(
                "{n} {cc} {flows} with ecn = true {run} as Reno, {why}; remove ecn, and both ends \
                 provide what {cc} needs."
            ))
        });
        let warnings = warnings.chain(self.queues().flat_map(queue_notices));
        warnings
            .chain(unsupported)
            .chain(self.unused())
            .chain(self.too_late())
            .chain(self.too_short())
            .chain(self.too_uneven())
            .collect()
    }

    /// Warns about keys of hosts that their releases ignore.
    fn unsupported(&self) -> Vec<String> {
        // A host with a name may have the value of [host], which is reported there.
        let own = |name: Option<&String>, same: bool| name.is_none() || !same;
        // The value has an effect on another release that has it, too.
        let elsewhere = |works: &dyn Fn(&HostSpec, Kernel) -> bool| {
            let mut flows = self.flows.iter();
            flows.any(|flow| works(self.sender_of(flow), self.kernel_of(flow)))
        };
        let mut warnings = Vec::new();
        for (name, host) in self.all_hosts() {
            // Without the rule, the limit is RTO_MAX.
            let idle = |most: &Span| {
                *most != RTO_MAX
                    && own(name, host.rto_max == self.host.rto_max)
                    && !host.kernel().follows(Rule::RtoMax)
                    && !elsewhere(&|sender, kernel| {
                        sender.rto_max == Some(*most) && kernel.follows(Rule::RtoMax)
                    })
            };
            if let Some(most) = host.rto_max.filter(idle) {
                let (section, most) = (section(name), format_span(most));
                warnings.push(format!(
                    "rto_max = \"{most}\" of {section} has no effect: {} has no \
                     tcp_rto_max_ms; write like = \"linux-6.15\" or later, or with_rules = \
                     [\"rto_max\"].",
                    host.like
                ));
            }
            if host.rack == Some(false)
                && own(name, host.rack == self.host.rack)
                && host.kernel().follows(Rule::RackOnly)
                && !elsewhere(&|sender, kernel| {
                    sender.rack == Some(false) && !kernel.follows(Rule::RackOnly)
                })
            {
                let section = section(name);
                warnings.push(format!(
                    "rack = false of {section} has no effect: {} always uses RACK; write like = \
                     \"linux-6.16\" or earlier, or without_rules = [\"rack_only\"].",
                    host.like
                ));
            }
        }
        warnings
    }

    /// Warns about keys of hosts that the Linux kernel `release` ignores. A kernel without the
    /// sysctl of a key is an error of the engine.
    fn unsupported_by(&self, release: &str) -> Vec<String> {
        if !Kernel::named(release).is_some_and(|kernel| kernel.follows(Rule::RackOnly)) {
            return Vec::new();
        }
        self.all_hosts()
            .filter(|(name, host)| {
                host.rack == Some(false) && (name.is_none() || host.rack != self.host.rack)
            })
            .map(|(name, _)| {
                format!(
                    "rack = false of {} has no effect: {release} always uses RACK; remove rack, \
                     or use the simulator with like = \"linux-6.16\" or earlier.",
                    section(name)
                )
            })
            .collect()
    }

    /// `[host]` without a name, and all hosts with names.
    fn all_hosts(&self) -> impl Iterator<Item = (Option<&String>, &HostSpec)> {
        let named = self.hosts.iter().map(|(name, host)| (Some(name), host));
        core::iter::once((None, &self.host)).chain(named)
    }

    /// Warns about hosts, links and switches that no flow uses.
    fn unused(&self) -> Vec<String> {
        let ends = |number: usize| {
            let number = u8::try_from(number).ok();
            let mut flows = self.flows.iter();
            flows.any(|flow| flow.sender == number || flow.receiver == number)
        };
        let hosts = self.hosts.iter().enumerate();
        let hosts = hosts.filter(|(number, _)| !ends(*number));
        let hosts: Vec<&str> = hosts.map(|(_, (name, _))| name.as_str()).collect();
        let mut warnings = Vec::new();
        if let Some(names) = sections("host", &hosts) {
            warnings.push(format!(
                "No flow has {names} as sender or receiver, so the section has no effect; name \
                 the host in a flow, or remove it."
            ));
        }
        let Some(network) = &self.path.links else {
            return warnings;
        };
        let routes = self.flows.iter().filter_map(|flow| flow.route.as_deref());
        let routes = routes.chain(self.probes.iter().filter_map(|p| p.route.as_deref()));
        let mut crossed = [false; 256];
        let mut ends_of_routes = BTreeSet::new();
        for route in routes {
            for links in [&route.forward, &route.back] {
                ends_of_routes.extend(links.first().copied().zip(links.last().copied()));
            }
            let later = route.changes.iter().flat_map(|c| [&c.forward, &c.back]);
            for link in [&route.forward, &route.back]
                .into_iter()
                .chain(later)
                .flatten()
            {
                crossed[usize::from(*link)] = true;
            }
        }
        let all = || network.links.iter().zip(crossed);
        let equal = links::on_equal_routes(&network.links, &ends_of_routes);
        let idle = |selectable: bool| -> Vec<&str> {
            let idle = all().zip(equal).filter(|((_, crossed), _)| !crossed);
            let idle = idle.filter(|(_, equal)| *equal == selectable);
            idle.map(|((link, _), _)| link.name.as_str()).collect()
        };
        if let Some(names) = sections("link", &idle(false)) {
            warnings.push(format!(
                "No route of a flow or probe crosses {names}; add a route, or remove the link."
            ));
        }
        if let Some(names) = sections("link", &idle(true)) {
            warnings.push(format!(
                "No flow or probe crosses {names}, although other routes of equal length do. A \
                 hash selects one of the routes between from and to; write route to select one."
            ));
        }
        let ports = |number: usize| {
            let number = u8::try_from(number).ok();
            all().any(|(link, crossed)| crossed && link.switch == number)
        };
        let switches = network.switches.iter().enumerate();
        let switches = switches.filter(|(number, _)| !ports(*number));
        let switches: Vec<&str> = switches.map(|(_, s)| s.name.as_str()).collect();
        if let Some(names) = sections("switch", &switches) {
            warnings.push(format!(
                "No route of a flow or probe crosses a link of {names}; write switch = \"NAME\" \
                 in a link, or remove the section."
            ));
        }
        warnings
    }

    /// Warns about a summary interval that is short compared with the data in flight at its start.
    fn too_short(&self) -> Option<String> {
        let left = self.duration - self.warmup;
        let air = self.wifi.as_ref().filter(|wifi| wifi.narrower().is_none());
        let (fits, least, what) = match air {
            Some(wifi) => {
                let fits = left.as_s() / wifi.limits.duration.as_s();
                (
                    fits,
                    LEAST_TRANSMISSIONS,
                    "transmissions of the greatest duration",
                )
            }
            None => {
                let (frame, what) = if self.path.offload {
                    (
                        SUPER_MBIT,
                        "super-packets of 64 KiB at the rate of the path",
                    )
                } else {
                    (FRAME_MBIT, "full packets at the rate of the path")
                };
                let fits = left.as_s() * self.path.bottleneck().target().as_mbit() / frame;
                (fits, LEAST_PACKETS, what)
            }
        };
        (!self.flows.is_empty() && fits < least).then(|| {
            let left = format_span(left);
            format!(
                "The summary interval of {left} is the time of {fits:.1} {what}. Data in \
                 transmission at its start \
                 counts in full, so goodput may exceed the rate of the path; use a longer run or a \
                 shorter warm-up."
            )
        })
    }

    /// Warns about a summary interval in which more data may arrive than the path's rate permits,
    /// because delays vary.
    fn too_uneven(&self) -> Option<String> {
        let rtts = || {
            self.flows
                .iter()
                .map(|flow| self.path.forward_part(flow.rtt))
        };
        let apart = rtts().max()? - rtts().min()?;
        let varies = self
            .path
            .hops
            .iter()
            .filter_map(|hop| hop.jitter.as_ref())
            .map(|jitter| {
                let spreads = if jitter.kind == "uniform" {
                    2
                } else {
                    MOST_SPREADS
                };
                Span::ns(jitter.params.span("spread").as_ns() * spreads)
            });
        let steps = self.path.hops.iter().map(HopSpec::delay_range);
        let varies = varies.chain(steps).fold(apart, |all, one| all + one);
        let left = self.duration - self.warmup;
        (left.as_s() < LEAST_PACKETS * varies.as_s()).then(|| {
            let (left, varies) = (format_span(left), format_span(varies));
            format!(
                "The delay between bottleneck and receivers varies by up to {varies}, which is a \
                 large part of the summary interval of {left}: more data may arrive in it than the \
                 path can carry. Use a longer run."
            )
        })
    }

    /// Warns about steps and outages that begin after the end of the run.
    fn too_late(&self) -> Vec<String> {
        let hops = self.path.hops.iter().chain(&self.path.reverse);
        let warnings = hops
            .filter_map(|hop| hop.varying.as_ref())
            .flat_map(|varying| {
                let outages = varying.outages.iter().map(|(at, _)| ("outage", *at));
                let steps = varying.steps.iter().map(|step| ("step", step.at));
                outages.chain(steps)
            });
        let late = warnings.filter(|(_, at)| *at >= self.duration);
        late.map(|(what, at)| {
            let (at, end) = (format_span(at), format_span(self.duration));
            format!(
                "The {what} at {at} begins after the end of the run at {end} and has no effect; \
                 choose an earlier time."
            )
        })
        .take(MOST_LATE)
        .collect()
    }

    /// The queue disciplines of all hops, and of the sender's own host.
    fn queues(&self) -> impl Iterator<Item = &Choice> {
        let hops = self.path.hops.iter().chain(&self.path.reverse);
        let hosts = core::iter::once(&self.host).chain(self.hosts.iter().map(|(_, host)| host));
        let own = hosts
            .filter_map(|host| host.nic.as_ref())
            .map(|nic| &nic.qdisc);
        hops.map(|hop| &hop.queue).chain(own)
    }
}

/// The headers of sections for a sentence: `[link.a], [link.b]`. `None` without names.
fn sections(section: &str, names: &[&str]) -> Option<String> {
    let headers = names.iter().take(MOST_NAMES);
    let headers: Vec<String> = headers.map(|name| format!("[{section}.{name}]")).collect();
    let more = match names.len().saturating_sub(MOST_NAMES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!names.is_empty()).then(|| format!("{}{more}", headers.join(", ")))
}

/// Warnings about one queue discipline.
fn queue_notices(queue: &Choice) -> Vec<String> {
    if queue.kind != "htb" {
        return Vec::new();
    }
    htb::notices(&queue.params)
}
