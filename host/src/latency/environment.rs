//! The environment of a latency test: properties of the link, the network device, the processors
//! and the kernel that affect the result.
//!
//! This module only reads. It reports values that may increase delays in words, with a remedy and,
//! where it follows from the numbers, the delay. Values that cannot be read are null.
//!
//! Sources: Documentation/ABI/testing/sysfs-class-net, sysfs-devices-system-cpu,
//! Documentation/admin-guide/pm/cpuidle.rst, linux/ethtool.h; all of Linux 6.12.

use crate::sys;
use crate::sys::kernel;
use serde_json::{Value, json};
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

/// Exit latency of an idle state from which on the state is reported, µs.
const DEEP_US: u64 = 20;
/// Link rate below which the link is reported, Mbit/s.
const SLOW_LINK: u64 = 1000;
/// Bytes on the wire around a payload: UDP, IPv4, Ethernet with its checksum, preamble and gap.
const AROUND: u64 = 8 + 20 + 18 + 20;
/// Each ethtool request: its command, and the number of 32-bit words of its structure.
const COALESCING: (u32, usize) = (0x0e, 23);
const GRO: (u32, usize) = (0x2b, 2);
const GSO: (u32, usize) = (0x23, 2);
const TSO: (u32, usize) = (0x1e, 2);
const FLAGS: (u32, usize) = (0x25, 2);
const ENERGY: (u32, usize) = (0x44, 10);
const FLAG_LRO: u32 = 1 << 15;

/// Root of the kernel's files: `/`, or a directory of a test.
#[derive(Clone, Debug)]
struct Root(PathBuf);

impl Root {
    fn text(&self, path: &str) -> Option<String> {
        let text = fs::read_to_string(self.0.join(path)).ok()?;
        Some(text.trim_matches(['\0', '\n', ' ']).to_string()).filter(|text| !text.is_empty())
    }
    fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.parse().ok()
    }
    /// Names in a directory, sorted.
    fn names(&self, path: &str) -> Vec<String> {
        let found = fs::read_dir(self.0.join(path))
            .into_iter()
            .flatten()
            .flatten();
        let mut names: Vec<String> = found
            .filter_map(|f| f.file_name().into_string().ok())
            .collect();
        names.sort_by_key(|name| (name.len(), name.clone()));
        names
    }
    fn link(&self, path: &str) -> Option<String> {
        let to = fs::read_link(self.0.join(path)).ok()?;
        Some(to.file_name()?.to_str()?.to_string())
    }
}

fn device(root: &Root, name: &str, ask: &dyn Fn(u32, usize) -> Option<Vec<u32>>) -> Value {
    let of = |file: &str| format!("sys/class/net/{name}/{file}");
    let on = |(command, words): (u32, usize)| ask(command, words).map(|told| told[1] != 0);
    let coalescing = ask(COALESCING.0, COALESCING.1).map(|told| {
        json!({
            "rx_us": told[1], "rx_frames": told[2], "tx_us": told[5], "tx_frames": told[6],
            "adaptive_rx": told[10] != 0, "adaptive_tx": told[11] != 0,
        })
    });
    let affinity = |irq: &String| {
        let of = |what| root.text(&format!("proc/irq/{irq}/{what}"));
        json!({ "irq": irq, "may": of("smp_affinity_list"), "does": of("effective_affinity_list") })
    };
    let interrupts = root.names(&of("device/msi_irqs"));
    json!({
        "name": name,
        "driver": root.link(&of("device/driver")),
        "speed_mbit": root.number(&of("speed"))
            .filter(|speed| *speed > 0 && *speed < u64::from(u32::MAX)),
        "duplex": root.text(&of("duplex")).filter(|text| text != "unknown"),
        "mtu": root.number(&of("mtu")),
        "coalescing": coalescing,
        "gro_flush_timeout_ns": root.number(&of("gro_flush_timeout")),
        "napi_defer_hard_irqs": root.number(&of("napi_defer_hard_irqs")),
        "threaded": root.number(&of("threaded")),
        "offloads": {
            "gro": on(GRO), "gso": on(GSO), "tso": on(TSO),
            "lro": ask(FLAGS.0, FLAGS.1).map(|told| told[1] & FLAG_LRO != 0),
        },
        "eee_active": ask(ENERGY.0, ENERGY.1).map(|told| told[4] != 0),
        "interrupts": interrupts.iter().map(affinity).collect::<Vec<_>>(),
    })
}

fn idle_states(root: &Root) -> Vec<Value> {
    let folder = "sys/devices/system/cpu/cpu0/cpuidle";
    let state = |name: &String| {
        let of = |file: &str| format!("{folder}/{name}/{file}");
        json!({
            "name": root.text(&of("name")),
            "latency_us": root.number(&of("latency")),
            "disabled": root.number(&of("disable")).map(|n| n != 0),
        })
    };
    let names = root.names(folder);
    names
        .iter()
        .filter(|name| name.starts_with("state"))
        .map(state)
        .collect()
}

/// The distinct values that a file has for the processors.
fn of_processors(root: &Root, file: &str) -> Vec<String> {
    let cpus = root.names("sys/devices/system/cpu");
    let mut values: Vec<String> = cpus
        .iter()
        .filter(|name| {
            name.strip_prefix("cpu")
                .is_some_and(|n| n.parse::<u32>().is_ok())
        })
        .filter_map(|cpu| root.text(&format!("sys/devices/system/cpu/{cpu}/{file}")))
        .collect();
    values.sort();
    values.dedup();
    values
}

fn guest(root: &Root) -> Value {
    let info = root.text("proc/cpuinfo").unwrap_or_default();
    let flagged = info.lines().any(|line| {
        line.starts_with("flags") && line.split_whitespace().any(|flag| flag == "hypervisor")
    });
    let of = |file: &str| root.text(&format!("sys/class/dmi/id/{file}"));
    let hypervisor = root.text("sys/hypervisor/type");
    json!({
        "virtual": flagged || hypervisor.is_some(),
        "hypervisor": hypervisor,
        "vendor": of("sys_vendor"),
        "product": of("product_name"),
    })
}

fn look(root: &Root, name: &str, ask: &dyn Fn(u32, usize) -> Option<Vec<u32>>) -> Value {
    let cpu = |file: &str| root.text(&format!("sys/devices/system/cpu/{file}"));
    let sysctl = |name: &str| root.text(&format!("proc/sys/{name}"));
    json!({
        "device": device(root, name, ask),
        "processors": {
            "online": cpu("online"),
            "isolated": cpu("isolated"),
            "nohz_full": cpu("nohz_full").filter(|text| text != "(null)"),
            "smt": cpu("smt/active").map(|text| text == "1"),
            "governors": of_processors(root, "cpufreq/scaling_governor"),
            "idle_driver": cpu("cpuidle/current_driver").filter(|text| text != "none"),
            "idle_states": idle_states(root),
            "load": root.text("proc/loadavg")
                .and_then(|text| text.split(' ').next()?.parse::<f64>().ok()),
        },
        "guest": guest(root),
        "kernel": {
            "release": root.text("proc/sys/kernel/osrelease").unwrap_or_else(kernel::release),
            "real_time": root.text("sys/kernel/realtime").is_some_and(|text| text == "1"),
            "clock": root.text("sys/devices/system/clocksource/clocksource0/current_clocksource"),
            "rt_runtime_us": sysctl("kernel/sched_rt_runtime_us")
                .and_then(|text| text.parse::<i64>().ok()),
            "busy_read_us": sysctl("net/core/busy_read").and_then(|text| text.parse::<u64>().ok()),
        },
    })
}

fn finding(what: &str, says: String, cure: &str) -> Value {
    json!({ "what": what, "says": says,
    "cure": if cure.is_empty() { Value::Null } else { json!(cure) } })
}

/// The values in `seen` that may increase delays, for questions and answers of `size` bytes.
pub fn findings(seen: &Value, size: usize) -> Vec<Value> {
    let mut out = Vec::new();
    let device = &seen["device"];
    let name = device["name"].as_str().unwrap_or("the device");
    if let Some(speed) = device["speed_mbit"]
        .as_u64()
        .filter(|speed| *speed < SLOW_LINK)
    {
        let on_wire = |payload: u64| ((payload + AROUND).max(84) * 8) as f64 / speed as f64;
        let (both, full) = (2.0 * on_wire(size as u64), on_wire(1472));
        let says = format!(
            "The link of {name} runs at {speed} Mbit/s: a question and its answer occupy the \
             wire for {both:.1} µs, and a full frame of other traffic delays each of them by \
             {full:.0} µs."
        );
        out.push(finding(
            "link_speed",
            says,
            "use an adapter, cable and switch of 1 Gbit/s or more",
        ));
    }
    if device["duplex"] == "half" {
        let says = format!(
            "{name} is in half duplex: questions and answers delay each other and \
             collide."
        );
        out.push(finding(
            "duplex",
            says,
            "enable autonegotiation at both ends, or set both to full duplex",
        ));
    }
    let coalescing = &device["coalescing"];
    let waits = coalescing["rx_us"].as_u64().unwrap_or(0);
    if waits > 0 || coalescing["adaptive_rx"] == true {
        let adapts = if coalescing["adaptive_rx"] == true {
            ", adapted to the load"
        } else {
            ""
        };
        let says = format!(
            "{name} delays interrupts by up to {waits} µs to wait for more packets{adapts}."
        );
        let cure = format!("ethtool -C {name} adaptive-rx off rx-usecs 0");
        out.push(finding("coalescing", says, &cure));
    }
    if device["gro_flush_timeout_ns"].as_u64().unwrap_or(0) > 0 {
        let ns = &device["gro_flush_timeout_ns"];
        let says = format!("{name} delays interrupts by up to {ns} ns (gro_flush_timeout).");
        out.push(finding(
            "gro_flush_timeout",
            says,
            &format!("echo 0 > /sys/class/net/{name}/gro_flush_timeout"),
        ));
    }
    if device["offloads"]["lro"] == true {
        let says = format!("{name} merges packets in hardware (LRO).");
        out.push(finding("lro", says, &format!("ethtool -K {name} lro off")));
    }
    if device["eee_active"] == true {
        let says = format!(
            "{name} suspends the link between packets (Energy-Efficient Ethernet); each packet \
             has to wake it."
        );
        out.push(finding(
            "eee",
            says,
            &format!("ethtool --set-eee {name} eee off"),
        ));
    }
    let spread = |irq: &&Value| {
        irq["may"]
            .as_str()
            .is_some_and(|list| list.contains(['-', ',']))
    };
    let interrupts = device["interrupts"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let moving = interrupts.iter().filter(spread).count();
    if moving > 0 {
        let says = format!(
            "{moving} of {} interrupts of {name} may be delivered to more than one processor.",
            interrupts.len()
        );
        let cure = "set /proc/irq/N/smp_affinity_list and use the policy pin=N; irqbalance \
         would move them again";
        out.push(finding("interrupts", says, cure));
    }
    let processors = &seen["processors"];
    let governors = processors["governors"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let slow: Vec<&str> = governors
        .iter()
        .filter_map(Value::as_str)
        .filter(|g| *g != "performance")
        .collect();
    if !slow.is_empty() {
        let says = format!(
            "The frequency governor of the processors is {}: after an idle period they run at a \
             low frequency.",
            slow.join(", ")
        );
        out.push(finding(
            "governor",
            says,
            "cpupower frequency-set -g performance",
        ));
    }
    let states = processors["idle_states"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let deep = |state: &&Value| {
        state["disabled"] != true && state["latency_us"].as_u64().is_some_and(|us| us >= DEEP_US)
    };
    if let Some(deepest) = states
        .iter()
        .filter(deep)
        .max_by_key(|s| s["latency_us"].as_u64())
    {
        let (us, called) = (
            &deepest["latency_us"],
            deepest["name"].as_str().unwrap_or("a state"),
        );
        let says = format!(
            "An idle processor may enter a state ({called}) from which it needs {us} µs to wake \
             up."
        );
        out.push(finding(
            "idle_states",
            says,
            "use the policy awake, or `cpupower idle-set -D 10`",
        ));
    }
    if seen["guest"]["virtual"] == true {
        let whose = seen["guest"]["vendor"]
            .as_str()
            .map_or(String::new(), |vendor| format!(" ({vendor})"));
        let says = format!(
            "This is a virtual machine{whose}: its host may delay it regardless of the policy, \
             and each sleep and wake-up involves that host."
        );
        out.push(finding(
            "guest",
            says,
            "use the policy awake; to test a device, use a physical machine",
        ));
    }
    let clock = seen["kernel"]["clock"].as_str().unwrap_or("tsc");
    if matches!(clock, "hpet" | "acpi_pm" | "jiffies" | "refined-jiffies") {
        let says = format!(
            "The clock source is {clock}: reading it takes about as long as the measured times."
        );
        out.push(finding(
            "clock",
            says,
            "see the kernel's log for the reason why it does not use the TSC",
        ));
    }
    if let (Some(load), Some(cpus)) = (
        processors["load"].as_f64(),
        cpus(processors["online"].as_str()),
    ) {
        if load > cpus {
            let says = format!("The machine is busy: its load is {load:.1} on {cpus} processors.");
            out.push(finding(
                "load",
                says,
                "use an idle machine, or --load to measure under a defined load",
            ));
        }
    }
    out
}

/// Number of entries in a list such as `0-3,6`.
fn cpus(list: Option<&str>) -> Option<f64> {
    let mut all = 0;
    for part in list?.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        all += to.parse::<u32>().ok()?.checked_sub(from.parse().ok()?)? + 1;
    }
    Some(f64::from(all))
}

/// The device over which this host reaches `to`.
pub fn device_to(to: SocketAddr) -> Option<String> {
    let from: IpAddr = sys::source_towards(to).ok()?;
    let names = Root("/".into()).names("sys/class/net");
    names
        .into_iter()
        .find(|name| sys::addresses(name).is_ok_and(|all| all.contains(&from)))
}

/// The environment of this host for a test with `to`.
pub fn seen(to: SocketAddr) -> Value {
    let name = device_to(to).unwrap_or_default();
    let ask = |command: u32, words: usize| sys::ethtool(&name, command, words).ok();
    look(&Root(Path::new("/").into()), &name, &ask)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of a small server: a slow link with interrupt coalescing, deep idle states, a
    /// power-saving governor.
    fn tree() -> Root {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let n = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let root =
            std::env::temp_dir().join(format!("narrows-environment-{}-{n}", std::process::id()));
        for (path, text) in [
            ("sys/class/net/eth0/speed", "100\n"),
            ("sys/class/net/eth0/duplex", "full\n"),
            ("sys/class/net/eth0/mtu", "1500\n"),
            ("sys/class/net/eth0/gro_flush_timeout", "0\n"),
            ("sys/class/net/eth0/device/msi_irqs/42", "msix\n"),
            ("proc/irq/42/smp_affinity_list", "0-3\n"),
            ("proc/irq/42/effective_affinity_list", "2\n"),
            ("sys/devices/system/cpu/online", "0-3\n"),
            (
                "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
                "powersave\n",
            ),
            (
                "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor",
                "powersave\n",
            ),
            (
                "sys/devices/system/cpu/cpuidle/current_driver",
                "intel_idle\n",
            ),
            ("sys/devices/system/cpu/cpu0/cpuidle/state0/name", "POLL\n"),
            ("sys/devices/system/cpu/cpu0/cpuidle/state0/latency", "0\n"),
            ("sys/devices/system/cpu/cpu0/cpuidle/state1/name", "C6\n"),
            (
                "sys/devices/system/cpu/cpu0/cpuidle/state1/latency",
                "133\n",
            ),
            ("sys/devices/system/cpu/cpu0/cpuidle/state1/disable", "0\n"),
            (
                "proc/cpuinfo",
                "processor : 0\nflags : fpu hypervisor sse\n",
            ),
            ("proc/loadavg", "5.50 1.00 1.00 1/99 1234\n"),
            (
                "sys/devices/system/clocksource/clocksource0/current_clocksource",
                "hpet\n",
            ),
        ] {
            let file = root.join(path);
            fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
            fs::write(file, text).expect("a file");
        }
        Root(root)
    }

    fn answers(command: u32, words: usize) -> Option<Vec<u32>> {
        let mut told = vec![0; words];
        told[0] = command;
        match command {
            0x0e => (told[1], told[10]) = (50, 1),
            0x44 => told[4] = 1,
            _ => {}
        }
        Some(told)
    }

    #[test]
    fn what_stands_out_is_said_with_its_cure() {
        let root = tree();
        let seen = look(&root, "eth0", &answers);
        assert_eq!(seen["device"]["speed_mbit"], 100);
        assert_eq!(seen["device"]["interrupts"][0]["does"], "2");
        let told = findings(&seen, 64);
        let what: Vec<&str> = told.iter().filter_map(|f| f["what"].as_str()).collect();
        let expected = "link_speed coalescing eee interrupts governor idle_states guest clock load";
        assert_eq!(what.join(" "), expected);
        // (64 + 66) * 8 bits at 100 Mbit/s, twice; (1472 + 66) * 8 once.
        let says = told[0]["says"].as_str().expect("words");
        assert!(
            says.contains("20.8 µs") && says.contains("123 µs"),
            "{says}"
        );
        assert_eq!(
            told[1]["cure"],
            "ethtool -C eth0 adaptive-rx off rx-usecs 0"
        );
        assert!(told[5]["says"].as_str().expect("words").contains("C6"));
        fs::remove_dir_all(root.0).expect("removed");
    }

    #[test]
    fn what_cannot_be_read_is_null_and_says_nothing() {
        let root = Root(std::env::temp_dir().join("narrows-environment-none"));
        let seen = look(&root, "none", &|_, _| None);
        assert!(seen["device"]["speed_mbit"].is_null() && seen["device"]["coalescing"].is_null());
        assert_eq!(findings(&seen, 64), Vec::<Value>::new());
    }

    #[test]
    fn this_machine_is_read_and_loopback_is_found() {
        assert_eq!(
            device_to("127.0.0.1:9".parse().expect("an address")).as_deref(),
            Some("lo")
        );
        let seen = seen("127.0.0.1:9".parse().expect("an address"));
        assert_eq!(seen["device"]["name"], "lo");
        assert!(seen["processors"]["online"].is_string());
    }

    #[test]
    fn lists_of_processors_are_counted() {
        assert_eq!(cpus(Some("0-3,6")), Some(5.0));
        assert_eq!(cpus(Some("0")), Some(1.0));
        assert_eq!(cpus(Some("x")), None);
    }
}
