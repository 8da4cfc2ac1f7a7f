//! The pacer of flows over UDP: timers of this program, or the queue discipline of the host.
//!
//! With `txtime`, each datagram has its departure time (`SO_TXTIME`), and the queue discipline `fq`
//! releases it at that time. A sender then does not depend on the moment at which its thread runs.
//! `fq` keeps departure times since Linux 4.20. All other disciplines ignore them, so flows would
//! not be paced; [`Pacer::prepare`] therefore refuses them. It also refuses `etf`, which drops each
//! datagram without a departure time in the future.
//!
//! Sources: socket(7), tc-fq(8), tc-etf(8); Linux 6.12 `sock_setsockopt`, `fq_enqueue`.

use crate::sys::datagram::allow_departures;
use crate::sys::device::device_name;
use crate::sys::kernel;
use crate::sys::netlink::{Discipline, Netlink};
use narrows_core::kernel::{Kernel, Rule, nearest};
use std::net::IpAddr;
use std::os::fd::OwnedFd;

/// The discipline that keeps departure times.
const KEEPS: &str = "fq";

/// The pacer of a flow over UDP.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Pacer {
    /// Timers of this program.
    #[default]
    Timer,
    /// Departure times, which the queue discipline `fq` of the sending host keeps.
    Txtime,
}

impl Pacer {
    /// All pacers, the default first.
    pub const ALL: [Pacer; 2] = [Pacer::Timer, Pacer::Txtime];

    /// The name of the pacer.
    pub fn name(self) -> &'static str {
        match self {
            Pacer::Timer => "timer",
            Pacer::Txtime => "txtime",
        }
    }
    /// The pacer of that name.
    pub fn named(name: &str) -> Option<Pacer> {
        Pacer::ALL.into_iter().find(|one| one.name() == name)
    }
    /// Prepares the socket of a sender whose datagrams go to `to`; the error is the reason for
    /// which the host cannot pace them.
    pub fn prepare(self, socket: &OwnedFd, to: IpAddr) -> Result<(), String> {
        if self == Pacer::Timer {
            return Ok(());
        }
        let wrong = |why: String| format!("--pacer {}: {why}", self.name());
        let release = kernel::release();
        let kernel = Kernel::named(&nearest(&release)).unwrap_or_default();
        if !kernel.follows(Rule::EarliestDepartureTime) {
            return Err(wrong(format!(
                "Linux {release} ignores departure times of datagrams, which Linux 4.20 added; \
                 write --pacer timer"
            )));
        }
        let (device, disciplines) =
            disciplines_to(to).map_err(|error| wrong(format!("the route to {to}: {error}")))?;
        keeps_departures(&device, &disciplines).map_err(wrong)?;
        allow_departures(socket).map_err(|error| wrong(format!("SO_TXTIME: {error}")))
    }
}

/// The device by which datagrams to an address leave, and its queue disciplines.
fn disciplines_to(to: IpAddr) -> std::io::Result<(String, Vec<Discipline>)> {
    let mut netlink = Netlink::new()?;
    let index = netlink.device_to(to.to_canonical())?;
    Ok((device_name(index)?, netlink.disciplines(index)?))
}

/// Whether a device keeps departure times: each discipline without children is `fq`.
fn keeps_departures(device: &str, all: &[Discipline]) -> Result<(), String> {
    let is_inner = |one: &Discipline| {
        let major = one.handle >> 16;
        major != 0 && all.iter().any(|child| child.parent >> 16 == major)
    };
    let mut leaves = all.iter().filter(|one| !is_inner(one)).peekable();
    let other = match leaves.peek() {
        None => Some("noqueue"),
        Some(_) => leaves.map(|one| &*one.kind).find(|kind| *kind != KEEPS),
    };
    let fix = format!(
        "run `tc qdisc replace dev {device} root fq` on the sending host, or write --pacer timer"
    );
    match other {
        None => Ok(()),
        Some("etf") => Err(format!(
            "the queue discipline etf of {device} drops datagrams whose departure time has passed; \
             {fix}"
        )),
        Some(kind) => Err(format!(
            "the queue discipline {kind} of {device} ignores departure times; {fix}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::datagram::{self, Outgoing};

    fn tree(nodes: &[(&str, u32, u32)]) -> Vec<Discipline> {
        let node = |(kind, handle, parent): &(&str, u32, u32)| Discipline {
            kind: (*kind).into(),
            handle: *handle,
            parent: *parent,
        };
        nodes.iter().map(node).collect()
    }

    #[test]
    fn every_leaf_must_be_fq() {
        const ROOT: u32 = u32::MAX;
        let keeps = |nodes: &[_]| keeps_departures("eth0", &tree(nodes));
        assert_eq!(keeps(&[("fq", 0x8001_0000, ROOT)]), Ok(()));
        let queues = [
            ("mq", 0x1_0000, ROOT),
            ("fq", 0, 0x1_0001),
            ("fq", 0, 0x1_0002),
        ];
        assert_eq!(keeps(&queues), Ok(()));
        let mut mixed = queues;
        mixed[2].0 = "fq_codel";
        for (nodes, kind) in [
            (&mixed[..], "fq_codel"),
            (&[("pfifo_fast", 0, ROOT)], "pfifo_fast"),
            (&[("mq", 0x1_0000, ROOT)], "mq"),
            (&[("etf", 0x1_0000, ROOT)], "etf"),
            (&[], "noqueue"),
        ] {
            let why = keeps(nodes).unwrap_err();
            let named = format!("queue discipline {kind} of eth0");
            assert!(
                why.contains(&named) && why.contains("--pacer timer"),
                "{why}"
            );
        }
    }

    #[test]
    fn only_a_prepared_socket_takes_departure_times() {
        let far = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let near = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        near.connect(far.local_addr().unwrap()).unwrap();
        let near: OwnedFd = near.into();
        let one = Outgoing {
            to: None,
            class: Some(0),
            departs: Some(crate::sys::monotonic() + 1_000_000),
            head: datagram::header(b"paced"),
            head_len: 5,
            len: 100,
        };
        let both = || {
            let one_by_one = datagram::send(&near, &[one], false).ok();
            (
                one_by_one,
                datagram::send_super_packet(&near, &[one, one], false).ok(),
            )
        };
        assert_eq!(both(), (None, None));
        allow_departures(&near).unwrap();
        assert_eq!(both(), (Some(1), Some(true)));
    }

    #[test]
    fn the_loopback_device_is_refused_and_timers_need_nothing() {
        let socket: OwnedFd = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().into();
        let here = IpAddr::from([127, 0, 0, 1]);
        assert_eq!(Pacer::Timer.prepare(&socket, here), Ok(()));
        let why = Pacer::Txtime.prepare(&socket, here).unwrap_err();
        assert!(
            why.starts_with("--pacer txtime: ") && why.contains("of lo"),
            "{why}"
        );
    }
}
