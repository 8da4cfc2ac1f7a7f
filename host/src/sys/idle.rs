//! Idle states of the processors. A halted processor wakes up late. While /dev/cpu_dma_latency is
//! held open with the value zero, processors poll instead of halting
//! (Documentation/power/pm_qos_interface.rst in Linux). This needs a cpuidle driver, and permission
//! to open the file, which by default only root has.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The file /dev/cpu_dma_latency. The limit of wake-up times written to it applies while it is
/// open.
#[derive(Debug)]
struct Latency {
    file: File,
    holders: Mutex<usize>,
}

/// The file, opened by [`prepare`].
static LATENCY: OnceLock<Arc<Latency>> = OnceLock::new();

impl Latency {
    /// `PM_QOS_CPU_LATENCY_DEFAULT_VALUE` of linux/pm_qos.h, µs: no limit.
    const ANY: i32 = 2_000_000_000;

    /// Opens the file at `path`, if a cpuidle driver selects idle states.
    fn open(path: &str, driver: &str) -> Option<Arc<Latency>> {
        if matches!(driver.trim(), "" | "none") {
            return None;
        }
        let file = OpenOptions::new().write(true).open(path).ok()?;
        let holders = Mutex::default();
        Some(Arc::new(Latency { file, holders }))
    }
    fn of_host() -> Option<Arc<Latency>> {
        let driver = std::fs::read_to_string("/sys/devices/system/cpu/cpuidle/current_driver")
            .unwrap_or_default();
        Latency::open("/dev/cpu_dma_latency", &driver)
    }
    fn change(&self, more: bool) -> io::Result<()> {
        let mut holders = self.holders.lock().unwrap_or_else(PoisonError::into_inner);
        let after = if more {
            *holders + 1
        } else {
            holders.saturating_sub(1)
        };
        if (*holders == 0) != (after == 0) {
            let asked = if more { 0 } else { Latency::ANY };
            (&self.file).write_all(&asked.to_ne_bytes())?;
        }
        *holders = after;
        Ok(())
    }
}

/// A request that processors do not enter idle states. It is withdrawn when this value is dropped,
/// and by the kernel when the process ends.
#[derive(Debug)]
pub struct Held(Arc<Latency>);

impl Held {
    fn new(latency: Arc<Latency>) -> io::Result<Held> {
        latency.change(true)?;
        Ok(Held(latency))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.change(false);
    }
}

/// Opens the file, to be used by [`forbid`] after this process has dropped its privileges.
pub fn prepare() {
    if let Some(latency) = Latency::of_host() {
        let _ = LATENCY.set(latency);
    }
}

/// Keeps the processors of this machine out of idle states; `None` if there is no cpuidle driver,
/// or this process may not open the file.
pub fn forbid() -> io::Result<Option<Held>> {
    let latency = LATENCY.get().cloned().or_else(Latency::of_host);
    latency.map(Held::new).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_kept_awake_by_a_descriptor_that_was_opened_before() {
        let path = std::env::temp_dir().join(format!("narrows-latency-{}", std::process::id()));
        std::fs::write(&path, []).unwrap();
        let open = |driver| Latency::open(path.to_str().unwrap(), driver);
        assert!(open("").is_none() && open("none\n").is_none());
        let latency = open("acpi_idle\n").unwrap();
        let asked = || -> Vec<i32> {
            let bytes = std::fs::read(&path).unwrap();
            bytes
                .chunks_exact(4)
                .map(|four| i32::from_ne_bytes(four.try_into().unwrap()))
                .collect()
        };
        // Without holders no limit is written. Of several holders, the first one sets the limit and
        // the last one withdraws it.
        assert!(asked().is_empty());
        let (one, other) = (
            Held::new(latency.clone()).unwrap(),
            Held::new(latency.clone()).unwrap(),
        );
        assert_eq!(asked(), [0]);
        drop(one);
        assert_eq!(asked(), [0]);
        drop(other);
        assert_eq!(asked(), [0, Latency::ANY]);
        let again = Held::new(latency).unwrap();
        assert_eq!(asked(), [0, Latency::ANY, 0]);
        // The open descriptor is enough; the path may be inaccessible by now.
        let file = File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        drop(again);
        assert_eq!(file.metadata().unwrap().len(), 16);
    }
}
