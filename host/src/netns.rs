//! An emulated host: a network namespace of its own with one TUN device, `e0`.
//!
//! The namespace has no name. It exists as long as the descriptor of a [`Space`] or a thread that
//! has entered it. So nothing remains after the end of the process, however it ends.
//!
//! The queue of the device is a `pfifo` (or `fq`) of [`QUEUE`] packets, which is also the limit of
//! the device itself. The emulator empties the queue at each wake-up. The self-check of a run
//! reports the drops of the queue. A [`Shaper`] takes its place if the host limits its rate.

use crate::error::HostError;
use crate::sys;
use crate::sys::netlink::{Link, Netlink, RouteMetrics};
use narrows_core::transport::USUAL_MTU;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

/// Name of the device.
pub const DEVICE: &str = "e0";
/// Largest number of packets in the queue of the device.
pub const QUEUE: u32 = 5000;
const LOOPBACK: u32 = 1;
/// Another host that this host can reach.
#[derive(Copy, Clone, Debug)]
pub struct Peer {
    /// The address of the host.
    pub address: IpAddr,
    /// The settings of connections to it.
    pub metrics: RouteMetrics,
}

/// A setting of the kernel for a namespace.
#[derive(Clone, Debug)]
pub struct Sysctl {
    /// The name under `/proc/sys/net`.
    pub name: &'static str,
    /// The value.
    pub value: String,
    /// The path of the key of the scenario that needs the setting, if there is one.
    pub key: Option<String>,
}

impl Sysctl {
    /// A setting that no key of a scenario needs.
    pub fn new(name: &'static str, value: impl ToString) -> Sysctl {
        Sysctl {
            name,
            value: value.to_string(),
            key: None,
        }
    }
    /// Sets it in the namespace of this thread.
    pub fn set(&self) -> Result<(), HostError> {
        let Sysctl { name, value, key } = self;
        if name.starts_with("ipv6/") && !has_ipv6() {
            // A kernel without IPv6.
            return Ok(());
        }
        let path = format!("/proc/sys/net/{name}");
        fs::write(&path, value).map_err(|e| match key {
            Some(key) if e.kind() == io::ErrorKind::NotFound => {
                let setting = format!("net.{}", name.replace('/', "."));
                let problem = format!(
                    "is not supported by this kernel, which has no {setting}; select another \
                     kernel, remove it, or write --engine sim"
                );
                HostError::Key(key.clone(), problem)
            }
            _ if *name == "ipv4/tcp_ecn" && e.raw_os_error() == Some(libc::EINVAL) => {
                HostError::Missing(format!(
                    "this kernel has no accurate ECN (tcp_ecn = {value}): boot Linux 7.0 or \
                     newer, remove ecn = \"accecn\" from the flows, or write --engine sim"
                ))
            }
            _ => HostError::Failed(
                "a setting of the namespace",
                io::Error::new(e.kind(), format!("{path} = {value}: {e}")),
            ),
        })
    }
}

/// A class of htb with a queue discipline.
#[derive(Clone, PartialEq, Debug)]
pub struct Shaper {
    /// The words of `tc class add` after `htb`.
    pub class: Vec<String>,
    /// The words of `tc qdisc add` after the parent.
    pub leaf: Vec<String>,
    /// Queue length of the device (txqueuelen), packets.
    pub queue: u32,
    /// The remedy in the error message if tc rejects a setting.
    pub remedy: String,
}

impl Shaper {
    /// Creates the class and its queue discipline in this thread's namespace.
    fn set(&self) -> Result<(), HostError> {
        fn words<'a>(first: &'a str, rest: &'a [String]) -> Vec<&'a str> {
            let rest = rest.iter().map(String::as_str);
            first.split_whitespace().chain(rest).collect()
        }
        let root = "qdisc replace dev e0 root handle 1: htb default 1";
        let class = "class add dev e0 parent 1: classid 1:1 htb";
        let leaf = "qdisc add dev e0 parent 1:1 handle 2:";
        tc(&words(root, &[]), &self.remedy)?;
        tc(&words(class, &self.class), &self.remedy)?;
        tc(&words(leaf, &self.leaf), &self.remedy)
    }
}

/// Runs tc in this thread's namespace. `remedy`: the end of the error message.
pub fn tc(words: &[&str], remedy: &str) -> Result<(), HostError> {
    let done = Command::new("tc").args(words).stdin(Stdio::null()).output();
    let done = done.map_err(|e| {
        HostError::Missing(format!(
            "tc: {e}; it sets queue disciplines: install iproute2, or {remedy}"
        ))
    })?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(HostError::Unlike(format!(
        "tc {}: {}; {remedy}",
        words.join(" "),
        said.lines().next().unwrap_or("it failed").trim()
    )))
}

/// The configuration of a host.
#[derive(Clone, Debug)]
pub struct SpaceSpec {
    /// The addresses of the host.
    pub addresses: Vec<IpAddr>,
    /// Other hosts that it can reach.
    pub peers: Vec<Peer>,
    /// Settings of the kernel.
    pub sysctls: Vec<Sysctl>,
    /// Queue discipline of the device.
    pub qdisc: &'static str,
    /// The limit of the rate; it replaces `qdisc`.
    pub shaper: Option<Shaper>,
    /// MTU of the device, bytes.
    pub mtu: u32,
    /// Largest super-packet (GSO), in segments and in bytes; `None`: the default of the kernel.
    pub gso: (Option<u32>, Option<u32>),
}

impl Default for SpaceSpec {
    /// A host without addresses, with the defaults of the kernel.
    fn default() -> SpaceSpec {
        SpaceSpec {
            addresses: Vec::new(),
            peers: Vec::new(),
            sysctls: Vec::new(),
            qdisc: "pfifo",
            shaper: None,
            mtu: u32::from(USUAL_MTU),
            gso: (None, None),
        }
    }
}

/// A host.
#[derive(Debug)]
pub struct Space {
    namespace: OwnedFd,
    /// The device of the host: packets that the host sends are read here, packets for the host are
    /// written here.
    pub device: OwnedFd,
}

impl Space {
    /// Creates a host.
    pub fn new(spec: &SpaceSpec) -> Result<Space, HostError> {
        in_new_network(|| Space::make(spec))
    }
    fn make(spec: &SpaceSpec) -> Result<Space, HostError> {
        if spec.addresses.iter().any(IpAddr::is_ipv6) && !has_ipv6() {
            return Err(HostError::Missing(
                "this kernel has no IPv6: remove ip = 6 from flows and probes, or boot it without \
                 ipv6.disable=1"
                    .into(),
            ));
        }
        let file = fs::File::open("/proc/thread-self/ns/net")
            .map_err(HostError::failed("/proc/thread-self/ns/net"))?;
        let supers = spec.gso.0 != Some(1);
        let device = sys::open_tun(DEVICE, supers).map_err(HostError::failed("/dev/net/tun"))?;
        spec.sysctls.iter().try_for_each(Sysctl::set)?;
        configure(spec).map_err(HostError::failed("the device of a namespace"))?;
        spec.shaper.iter().try_for_each(Shaper::set)?;
        Ok(Space {
            namespace: file.into(),
            device,
        })
    }
    /// Moves this thread into the namespace. Without privilege, the thread cannot return.
    pub fn enter(&self) -> Result<(), HostError> {
        sys::enter_network(&self.namespace).map_err(HostError::failed("a network namespace"))
    }
}

/// Returns whether this kernel has IPv6.
pub fn has_ipv6() -> bool {
    Path::new("/proc/sys/net/ipv6").exists()
}

/// Calls `make` on a new thread in a new network namespace, which lasts as long as the descriptors
/// that `make` opens there. A thread cannot leave a namespace without privilege.
pub fn in_new_network<T: Send>(
    make: impl FnOnce() -> Result<T, HostError> + Send,
) -> Result<T, HostError> {
    let doing = "a network namespace";
    let made = || {
        sys::new_network().map_err(HostError::failed(doing))?;
        make()
    };
    let thread = thread::scope(|scope| scope.spawn(made).join());
    thread.unwrap_or_else(|_| {
        Err(HostError::Failed(
            doing,
            io::Error::other("its thread failed"),
        ))
    })
}

/// Number of packets that the queue of the device in this thread's namespace has dropped.
pub fn overflow() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix(DEVICE)?.strip_prefix(':'));
    // Eight numbers about reception, then bytes, packets, errors and drops of transmission.
    let dropped = line.and_then(|line| line.split_whitespace().nth(11)?.parse().ok());
    dropped.unwrap_or(0)
}

/// Brings up the devices of this thread's namespace, and adds the queue discipline, addresses and
/// routes.
fn configure(spec: &SpaceSpec) -> io::Result<()> {
    let index = sys::interface(c"e0")?;
    let mut netlink = Netlink::new()?;
    let link = Link {
        mtu: Some(spec.mtu),
        queue: Some(spec.shaper.as_ref().map_or(QUEUE, |shaper| shaper.queue)),
        gso_segments: spec.gso.0,
        gso_bytes: spec.gso.1,
    };
    netlink.up(LOOPBACK, &Link::default())?;
    netlink.up(index, &link)?;
    let refused =
        |e: io::Error| io::Error::new(e.kind(), format!("queue discipline {}: {e}", spec.qdisc));
    if spec.shaper.is_none() {
        netlink.queue(index, spec.qdisc).map_err(refused)?;
    }
    spec.addresses
        .iter()
        .try_for_each(|own| netlink.address(index, *own))?;
    spec.peers
        .iter()
        .try_for_each(|peer| netlink.route(index, peer.address, &peer.metrics))
}
