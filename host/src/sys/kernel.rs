//! Properties of the running kernel: release, boot, tick rate, congestion controls.

use crate::sys;
use narrows_core::kernel::nearest;
use serde_json::{Value, json};
use std::fs;
use std::io;

/// The congestion controls of this kernel.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ccs {
    /// Congestion controls that are built in or loaded.
    pub available: Vec<String>,
    /// The congestion controls that every user may select; root may select any.
    pub allowed: Vec<String>,
    /// Congestion controls of installed modules that are not loaded.
    pub loadable: Vec<String>,
}

/// The release, such as `6.12.3-amd64`.
pub fn release() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    text.trim().to_string()
}

/// A digest of this boot and time namespace. Processes with the same digest share a monotonic
/// clock.
pub fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    // Time namespaces shift the clock within one boot.
    let moved = fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    crate::digest::hex(&crate::digest::sha256(&[b"narrows", id.as_bytes(), moved.as_bytes()])[..16])
}

/// The congestion controls of this kernel, as seen in this thread's network namespace.
pub fn ccs() -> Ccs {
    let list = |what| {
        let text = fs::read_to_string(format!("/proc/sys/net/ipv4/tcp_{what}_congestion_control"));
        text.unwrap_or_default()
            .split_whitespace()
            .map(String::from)
            .collect::<Vec<_>>()
    };
    let available = list("available");
    let modules = fs::read_dir(format!("/lib/modules/{}/kernel/net/ipv4", release()));
    let names = modules.into_iter().flatten().flatten();
    let mut loadable: Vec<String> = names
        .filter_map(|file| module(file.file_name().to_str()?).map(String::from))
        .filter(|name| !available.contains(name))
        .collect();
    loadable.sort();
    Ccs {
        available,
        allowed: list("allowed"),
        loadable,
    }
}

/// The congestion control of a module file, from its name, such as `tcp_vegas.ko.xz`.
fn module(file: &str) -> Option<&str> {
    let (name, _) = file.strip_prefix("tcp_")?.split_once(".ko")?;
    (name != "diag").then_some(name)
}

/// Unloads a kernel module; fails if it is in use.
pub fn unload(module: &str) -> io::Result<()> {
    let name = sys::c_string(module)?;
    // SAFETY: `name` is a C string that outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_delete_module, name.as_ptr(), libc::O_NONBLOCK) };
    sys::check(result as i32).map(drop)
}

/// The properties of the kernel as JSON.
pub fn to_json() -> Value {
    let (release, ccs) = (release(), ccs());
    json!({
        "release": release,
        "like": nearest(&release),
        "hz": sys::kernel_hz(),
        "ccs": { "available": ccs.available, "allowed": ccs.allowed, "loadable": ccs.loadable },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_known_by_their_files() {
        assert_eq!(module("tcp_vegas.ko.xz"), Some("vegas"));
        assert_eq!(module("tcp_diag.ko"), None);
        assert_eq!(module("udp_tunnel.ko"), None);
    }
}
