//! The facts about a host and its network configuration. A missing value is `None` or empty and
//! never guessed. A finding about it reports that the value is not visible.

use super::ordered::Ordered;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Major and minor number of a release of Linux.
pub type Release = (u32, u32);

/// `ARPHRD_LOOPBACK`.
const LOOPBACK: i128 = 772;

/// The default congestion control of new connections.
pub const CC: &str = "net.ipv4.tcp_congestion_control";
/// The default queue discipline of new interfaces.
pub const QDISC: &str = "net.core.default_qdisc";

/// One queue discipline of an interface, as tc prints it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Qdisc {
    /// Name of the queue discipline.
    pub kind: String,
    /// Its handle.
    pub handle: String,
    /// Its interface.
    pub dev: String,
    /// `root`, `ingress`, or the handle of the class to which the queue discipline is attached.
    pub parent: String,
    /// The options of the queue discipline, as tc prints them.
    pub words: Vec<String>,
    /// Number of dropped packets.
    pub dropped: Option<i128>,
    /// Number of packets that were over a limit.
    pub overlimits: Option<i128>,
}

impl Qdisc {
    /// Whether the kernel attached the queue discipline by default; it then has the handle `0:`.
    pub fn attached_by_kernel(&self) -> bool {
        self.handle == "0:"
    }
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Interface {
    /// Its name, which contains any characters except white space, `/` and `:`.
    pub name: String,
    /// Its index.
    pub index: Option<i128>,
    /// Its MTU, in bytes.
    pub mtu: Option<i128>,
    /// `operstate`, or `unknown`.
    pub state: String,
    /// Rate of the link, Mbit/s.
    pub speed_mbit: Option<i128>,
    /// `ARPHRD_…`: 1 is Ethernet, 772 loopback.
    pub kind: Option<i128>,
    /// Link-layer address.
    pub address: Option<String>,
    /// Name of the driver.
    pub driver: Option<String>,
    /// `DEVTYPE` of the kernel.
    pub devtype: Option<String>,
    /// Whether the interface belongs to a device.
    pub hardware: bool,
    /// Whether it is a wireless interface.
    pub wireless: bool,
    /// Whether it is a bridge.
    pub bridge: bool,
    /// Number of queues.
    pub queues: usize,
    /// `tx_queue_len`, in packets.
    pub tx_queue_len: Option<i128>,
    /// Number of sent bytes.
    pub tx_bytes: Option<i128>,
    /// Current byte queue limit of each transmit queue that has one, in bytes.
    pub bql_limits: Vec<i128>,
    /// Its queue disciplines.
    pub qdiscs: Vec<Qdisc>,
    /// Values of `ethtool -k`: `on`, `off`, `off [fixed]`.
    pub offloads: BTreeMap<String, String>,
    /// Size of the transmit ring, in packets.
    pub ring_tx: Option<i128>,
    /// Values of `ethtool -c`.
    pub coalesce: BTreeMap<String, String>,
    /// Lines of `iw dev NAME link`.
    pub link: Vec<String>,
    /// Lines of `iw dev NAME info`.
    pub about: Vec<String>,
}

impl Interface {
    /// An interface of which only the name is known.
    pub fn named(name: &str) -> Interface {
        Interface {
            name: name.into(),
            state: "unknown".into(),
            ..Interface::default()
        }
    }
    /// Whether this is the loopback interface.
    pub fn loopback(&self) -> bool {
        self.kind == Some(LOOPBACK) || self.name == "lo"
    }
    /// Whether the interface can carry traffic: its state is `up`, or `unknown` as for tunnels.
    pub fn up(&self) -> bool {
        matches!(self.state.as_str(), "up" | "unknown")
    }
    /// The root qdisc of the interface, if tc printed it.
    pub fn root(&self) -> Option<&Qdisc> {
        self.qdiscs.iter().find(|q| q.parent == "root")
    }
    /// The queue disciplines in which packets wait: those under mq or mqprio, otherwise the root.
    pub fn leaves(&self) -> Vec<&Qdisc> {
        let leaf = |q: &&Qdisc| q.parent != "root" && q.parent != "ingress" && q.kind != "ingress";
        match self.root() {
            None => Vec::new(),
            Some(root) if matches!(root.kind.as_str(), "mq" | "mqprio") => {
                self.qdiscs.iter().filter(leaf).collect()
            }
            Some(root) => [root].into(),
        }
    }
    /// The name of the driver in a sentence.
    pub fn driver_name(&self) -> &str {
        self.driver.as_deref().unwrap_or("an unnamed driver")
    }
}

/// A line with a sysctl in a file that is read at boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Path of the file, without its first `/`.
    pub file: String,
    /// The sysctl, with dots.
    pub key: String,
    /// Its value.
    pub value: String,
    /// The whole line.
    pub text: String,
}

impl Line {
    /// The name of the file, without its directory.
    pub fn name(&self) -> &str {
        self.file.rsplit('/').next().unwrap_or_default()
    }
}

/// Another network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    /// Number of the namespace.
    pub number: String,
    /// A process in it.
    pub pid: String,
    /// Its default congestion control.
    pub cc: Option<String>,
    /// Number of its connections by congestion control.
    pub sockets: Ordered<usize>,
}

/// Whether the kernel of a host has a module.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Part of the kernel.
    Builtin,
    /// A loaded module.
    Loaded,
    /// A module that can be loaded.
    Loadable,
    /// Neither part of the kernel nor a module.
    Missing,
    /// Unknown.
    Unknown,
}

impl State {
    /// Whether the kernel has the module or can load it.
    pub fn is_there(self) -> bool {
        matches!(self, State::Builtin | State::Loaded | State::Loadable)
    }
    /// The name of the state; `None` if unknown.
    pub fn name(self) -> Option<&'static str> {
        match self {
            State::Builtin => Some("builtin"),
            State::Loaded => Some("loaded"),
            State::Loadable => Some("loadable"),
            State::Missing => Some("missing"),
            State::Unknown => None,
        }
    }
}

/// The facts about a host that the collector found. If the collector read a directory tree, it
/// called no programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// User who ran the collector.
    pub uid: Option<i128>,
    /// Machine of `uname -m`.
    pub machine: Option<String>,
    /// Release of the kernel, such as `6.1.0-13-amd64`.
    pub release: String,
    /// Name of the host.
    pub hostname: String,
    /// Identifier of the boot.
    pub boot_id: Option<String>,
    /// Values of `/etc/os-release`.
    pub os: BTreeMap<String, String>,
    /// Values of `/etc/openwrt_release`.
    pub openwrt: BTreeMap<String, String>,
    /// Paths that exist.
    pub there: BTreeSet<String>,
    /// Whether the collector may write sysctls.
    pub writes_sysctl: bool,
    /// The network namespace: `initial`, `container` (that of a container) or `other` (not that of
    /// the host whose files were read). `None` if it is not visible.
    pub netns: Option<String>,
    /// Lines of `/proc/1/cgroup`.
    pub cgroup: Vec<String>,
    /// Type of the container, from systemd.
    pub container: Option<String>,
    /// Output of systemd-detect-virt.
    pub r#virtual: Option<String>,
    /// Vendor of the machine.
    pub vendor: Option<String>,
    /// Product name of the machine.
    pub product: Option<String>,
    /// Lines of `/proc/cpuinfo`.
    pub cpu: Vec<String>,
    /// CPU frequency governors.
    pub governors: Vec<String>,
    /// Values of sysctls, by key with dots.
    pub sysctl: BTreeMap<String, String>,
    /// Loaded modules.
    pub loaded: Vec<String>,
    /// Modules that can be loaded.
    pub loadable: Vec<String>,
    /// Modules that are part of the kernel.
    pub builtin: Vec<String>,
    /// Whether the modules of this kernel are known, from a directory or from lists of modules.
    pub modules_seen: bool,
    /// The kernel configuration.
    pub config: BTreeMap<String, String>,
    /// The file of this configuration.
    pub config_file: Option<String>,
    /// Lines of sysctl files, in the order in which they were collected. [`Facts::boot_order`]
    /// sorts them by their effect.
    pub boot: Vec<Line>,
    /// Names of files, by folder.
    pub boot_files: BTreeMap<String, Vec<String>>,
    /// Targets of symbolic links.
    pub links: BTreeMap<String, String>,
    /// File and module of each line of modules-load.d.
    pub boot_modules: Vec<(String, String)>,
    /// Lines of files of systemd-networkd, by path.
    pub networkd: BTreeMap<String, Vec<String>>,
    /// Texts with the index of an interface and the file with which networkd configures it.
    pub network_files: Vec<String>,
    /// Files that narrows wrote before: content by path.
    pub own: BTreeMap<String, String>,
    /// Lines of `/etc/config/sqm`.
    pub sqm: Vec<String>,
    /// Installed packages.
    pub packages: Vec<String>,
    /// The interfaces.
    pub interfaces: Vec<Interface>,
    /// Names of the interfaces of this network namespace. /sys may show the interfaces of another
    /// one.
    pub devices: Vec<String>,
    /// Address family and line of each route that `ip route` printed.
    pub routes: Vec<(String, String)>,
    /// Number of connections by congestion control, the largest first.
    pub sockets: Ordered<usize>,
    /// Other network namespaces.
    pub spaces: Vec<Space>,
    /// Named network namespaces.
    pub namespaces: Vec<String>,
    /// Lines of debugfs of mac80211, by path.
    pub debug: BTreeMap<String, Vec<String>>,
    /// Lines of `iw phy`.
    pub phys: Vec<String>,
    /// Programs that the host lacks.
    pub lacks: BTreeSet<String>,
    /// The names of the programs that the collector called.
    pub said: BTreeSet<String>,
}

impl Facts {
    /// The major and minor number of the kernel release; `None` if unknown.
    pub fn kernel(&self) -> Option<Release> {
        release(&self.release)
    }
    /// The name of the operating system, as shown to users.
    pub fn system(&self) -> String {
        if !self.openwrt.is_empty() {
            let version = self.openwrt.get("DISTRIB_RELEASE");
            return format!("OpenWrt {}", version.map_or("", |v| v))
                .trim()
                .into();
        }
        let known = |key: &str| self.os.get(key).filter(|name| !name.is_empty());
        let found = known("PRETTY_NAME").or(known("NAME")).cloned();
        found.unwrap_or_else(|| "an unknown system".into())
    }
    /// The id and version of the distribution, such as `("ubuntu", "16.04")`.
    pub fn distribution(&self) -> (&str, &str) {
        fn value<'a>(of: &'a BTreeMap<String, String>, key: &str) -> &'a str {
            of.get(key).map_or("", |v| v)
        }
        if self.openwrt.is_empty() {
            return (value(&self.os, "ID"), value(&self.os, "VERSION_ID"));
        }
        ("openwrt", value(&self.openwrt, "DISTRIB_RELEASE"))
    }
    /// Whether the host uses OpenWrt.
    pub fn is_openwrt(&self) -> bool {
        !self.openwrt.is_empty()
    }
    /// The value of a sysctl, by its key with dots; `None` if unknown.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.sysctl.get(key).map(String::as_str)
    }
    /// The numbers in the value of a sysctl; empty if it is unknown.
    pub fn numbers(&self, key: &str) -> Vec<i128> {
        let words = self.value(key).unwrap_or_default().split_whitespace();
        words.filter_map(number).collect()
    }
    /// Whether sysctls are read-only even for root. It is false if another user ran the collector,
    /// because only root can test this.
    pub fn locked(&self) -> bool {
        !self.writes_sysctl && matches!(self.uid, None | Some(0))
    }
    /// The interface with this name; `None` if there is none.
    pub fn interface(&self, name: &str) -> Option<&Interface> {
        self.interfaces.iter().find(|each| each.name == name)
    }
    /// Whether the host forwards IPv4 or IPv6 packets.
    pub fn forwards(&self) -> bool {
        self.value("net.ipv4.ip_forward") == Some("1")
            || self.value("net.ipv6.conf.all.forwarding") == Some("1")
    }
    /// The default congestion control of new connections.
    pub fn default_cc(&self) -> Option<&str> {
        self.value(CC)
    }
    /// The congestion controls that are built in or loaded now.
    pub fn available(&self) -> Vec<&str> {
        let all = self.value("net.ipv4.tcp_available_congestion_control");
        all.unwrap_or_default().split_whitespace().collect()
    }
    /// The state of a kernel module.
    pub fn has_module(&self, module: &str) -> State {
        let has = |list: &[String]| list.iter().any(|name| name == module);
        if has(&self.builtin) || self.option(module) == Some("y") {
            State::Builtin
        } else if has(&self.loaded) {
            State::Loaded
        } else if has(&self.loadable) {
            State::Loadable
        } else if self.modules_seen || !self.config.is_empty() {
            State::Missing
        } else {
            State::Unknown
        }
    }
    /// The state of a congestion control. One that the kernel lists as available is never missing
    /// or unknown.
    pub fn has_cc(&self, name: &str) -> State {
        let state = self.has_module(&format!("tcp_{name}"));
        if name != "reno" && !self.available().contains(&name) {
            return state;
        }
        match state {
            State::Missing | State::Unknown => State::Builtin,
            State::Loadable => State::Loaded,
            state => state,
        }
    }
    /// The value of the configuration option of a module: `y`, `m` or `n`.
    pub fn option(&self, module: &str) -> Option<&str> {
        self.config.get(&option(module)).map(String::as_str)
    }
    /// Whether the package manager of OpenWrt is apk.
    pub fn has_apk(&self) -> bool {
        self.there.contains("/usr/bin/apk")
    }
    /// The lines of sysctl files in the order in which they take effect at boot. Of several lines
    /// with the same key, the last one is effective.
    ///
    /// systemd-sysctl and `sysctl --system` of procps sort files by name, whatever their folder. A
    /// file in `/etc` hides files with the same name in `/run` and `/usr/lib`. `/etc/sysctl.conf`
    /// has the place of a link to it in `sysctl.d` (Debian until 12, Ubuntu), and is otherwise read
    /// last, as by OpenWrt and `sysctl --system`.
    pub fn boot_order(&self) -> Vec<&Line> {
        const FOLDERS: [&str; 5] = [
            "etc/sysctl.d",
            "run/sysctl.d",
            "usr/local/lib/sysctl.d",
            "usr/lib/sysctl.d",
            "lib/sysctl.d",
        ];
        let files = FOLDERS.map(|folder| -> BTreeSet<&str> {
            let files = self.boot_files.get(folder).into_iter().flatten();
            let names = files.map(String::as_str);
            names.filter(|name| name.ends_with(".conf")).collect()
        });
        let hidden = |folder: &str, name: &str| {
            let place = FOLDERS.iter().position(|each| *each == folder);
            let place = place.filter(|place| files[*place].contains(name));
            place.is_some_and(|place| files[..place].iter().any(|above| above.contains(name)))
        };
        let linked = self.links.values().any(|to| to.ends_with("sysctl.conf"));
        let mut lines = Vec::new();
        for line in &self.boot {
            let (folder, name) = line.file.rsplit_once('/').unwrap_or(("", &line.file));
            if hidden(folder, name) {
                continue;
            }
            if line.file != "etc/sysctl.conf" {
                lines.push((name, line));
            } else if !linked {
                // A linked file comes again under the name of the link.
                lines.push(("\u{ffff}", line));
            }
        }
        lines.sort_by_key(|(name, _)| *name);
        lines.into_iter().map(|(_, line)| line).collect()
    }
    /// The line that determines the value of a sysctl at boot; `None` if there is none.
    pub fn decided(&self, key: &str) -> Option<&Line> {
        self.boot_order().into_iter().rfind(|line| line.key == key)
    }
}

/// The option of a module in the kernel configuration.
///
/// ```
/// use narrows_core::tune::facts::option;
///
/// assert_eq!(option("sch_fq"), "CONFIG_NET_SCH_FQ");
/// assert_eq!(option("act_mirred"), "CONFIG_NET_ACT_MIRRED");
/// assert_eq!(option("ifb"), "CONFIG_IFB");
/// ```
pub fn option(module: &str) -> String {
    let (kind, name) = module.split_once('_').unwrap_or((module, ""));
    let group = match kind {
        "tcp" => "TCP_CONG".to_string(),
        "sch" => "NET_SCH".to_string(),
        "cls" => "NET_CLS".to_string(),
        "act" => "NET_ACT".to_string(),
        other => other.to_uppercase(),
    };
    match name {
        "" => format!("CONFIG_{group}"),
        name => format!("CONFIG_{group}_{}", name.to_uppercase()),
    }
}

/// The major and minor number of a kernel release; `None` if the text has none.
///
/// ```
/// use narrows_core::tune::facts::release;
///
/// assert_eq!(release("6.1.0-13-amd64"), Some((6, 1)));
/// assert_eq!(release("4.9"), Some((4, 9)));
/// assert_eq!(release("odd"), None);
/// ```
pub fn release(text: &str) -> Option<Release> {
    let (major, rest) = text.split_once('.')?;
    if major.len() > 4 || !is_digits(major) {
        return None;
    }
    let digits = rest.bytes().take(4).take_while(u8::is_ascii_digit).count();
    Some((major.parse().ok()?, rest[..digits].parse().ok()?))
}

/// Whether the text consists of one or more decimal digits.
pub fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// A whole number of at most 19 digits; `None` for other texts, because the kernel prints no longer
/// numbers.
pub fn number(text: &str) -> Option<i128> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    (digits.len() <= 19 && is_digits(digits))
        .then(|| text.parse().ok())
        .flatten()
}
