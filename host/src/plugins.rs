//! Registers the models of plugins for a live run, or for flows over UDP.
//!
//! A queue discipline of a plugin works as in the simulator. A congestion control of a plugin does
//! not in a live run, whose TCP is the kernel's ([`preflight`](crate::emulator::preflight)). It
//! sends in flows of [`measure::transport`](crate::measure::transport).

use crate::emulator::frame::Frame;
use crate::error::HostError;
use narrows_core::cc::CcKind;
use narrows_core::registry::Registry;
use narrows_plugin::monitor::{self, Model};
use narrows_plugin::{erased, load};
use std::path::PathBuf;
use std::time::Duration;

/// Interval at which it is checked whether a model has returned from its event.
const VISIT: Duration = Duration::from_millis(100);

/// Adds the models of these shared libraries to a registry. From then on, the program ends if a
/// model does not return from an event.
pub fn register(registry: &mut Registry<Frame>, files: &[PathBuf]) -> Result<(), HostError> {
    for file in files {
        let from = file.display().to_string();
        let wrong = |problem: String| HostError::Unlike(format!("{from}: {problem}"));
        let models = load::load(file).map_err(wrong)?;
        for of in models.ccs {
            registry.register_cc(of);
        }
        for of in models.queues {
            if erased::nests(&of) {
                return Err(wrong(format!(
                    "{}: has parameters that are queue disciplines; remove them",
                    of.name
                )));
            }
            let model = Box::leak(Box::new(Model {
                name: of.name.into(),
                from: from.clone(),
            }));
            registry.register_queue(monitor::queue(model, erased::kind(&of)));
        }
        failure()?;
    }
    if !files.is_empty() {
        std::thread::spawn(watch);
    }
    Ok(())
}

/// Adds the congestion controls of these shared libraries to `known`, as [`register`] does.
pub fn add_ccs(known: &mut Vec<CcKind>, files: &[PathBuf]) -> Result<(), HostError> {
    let mut registry = Registry::standard();
    known
        .iter()
        .for_each(|kind| registry.register_cc(kind.clone()));
    register(&mut registry, files)?;
    *known = registry.ccs().to_vec();
    Ok(())
}

/// Fails if a model has had a fault.
pub fn failure() -> Result<(), HostError> {
    match monitor::process().fault() {
        Some(fault) => Err(HostError::Broken(fault.to_string())),
        None => Ok(()),
    }
}

/// Ends the program, with the name of the model in the message, if a model does not return from an
/// event in time.
fn watch() {
    let process = monitor::process();
    let (mut last, mut since) = (None, 0.0);
    loop {
        std::thread::sleep(VISIT);
        let call = process.call();
        if call.is_none() || call != last {
            (last, since) = (call, processor_time());
        } else if processor_time() - since > monitor::MOST_EVENT_S {
            process.overdue();
            if let Err(error) = failure() {
                crate::terminal::say(error);
            }
            std::process::exit(2);
        }
    }
}

/// CPU time of this process, s. The unit of the file is 1/100 s.
fn processor_time() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks.filter_map(|n| n.parse::<f64>().ok()).sum::<f64>() / 100.0
}
