//! Parameters of congestion controls that are module parameters of Linux, for the engine `linux`.
//!
//! A module parameter applies to all connections of a kernel. The command line of a virtual machine
//! sets it before the modules start, because CUBIC computes further constants from `beta` and
//! `bic_scale` then. The first process of the machine compares the values with those of the kernel.

use crate::emulator::frame::Frame;
use crate::error::HostError;
use narrows_core::param::{Params, Value};
use narrows_core::registry::Registry;
use narrows_core::scenario::{FlowSpec, Scenario};
use std::fs;

/// How a module parameter represents a value.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Form {
    /// The number itself, or 0 and 1.
    Same,
    /// In units of 1/1024.
    Of1024,
    /// In units of 10/1024.
    Of102,
    /// In ms.
    Millis,
    /// 0 for `off`, 1 for `linux`.
    HyStart,
}

use Form::{HyStart, Millis, Of102, Of1024, Same};

/// Congestion control, parameter, module parameter, and its form.
const TABLE: &[(&str, &str, &str, Form)] = &[
    ("bic", "beta", "beta", Same),
    ("bic", "fast_convergence", "fast_convergence", Same),
    ("bic", "low_window", "low_window", Same),
    ("bic", "max_increment", "max_increment", Same),
    ("bic", "smooth_part", "smooth_part", Same),
    ("cdg", "backoff_beta", "backoff_beta", Same),
    ("cdg", "backoff_factor", "backoff_factor", Same),
    ("cdg", "hystart_detect", "hystart_detect", Same),
    ("cdg", "use_ineff", "use_ineff", Same),
    ("cdg", "use_shadow", "use_shadow", Same),
    ("cdg", "use_tolerance", "use_tolerance", Same),
    ("cdg", "window", "window", Same),
    ("cubic", "beta", "beta", Of1024),
    ("cubic", "c", "bic_scale", Of102),
    ("cubic", "fast_convergence", "fast_convergence", Same),
    ("cubic", "hystart", "hystart", HyStart),
    ("cubic", "tcp_friendliness", "tcp_friendliness", Same),
    ("dctcp", "alpha_on_init", "dctcp_alpha_on_init", Same),
    ("dctcp", "shift_g", "dctcp_shift_g", Same),
    ("htcp", "bandwidth_switch", "use_bandwidth_switch", Same),
    ("htcp", "rtt_scaling", "use_rtt_scaling", Same),
    ("hybla", "rtt0", "rtt0", Millis),
    ("nv", "nv_min_cwnd", "nv_min_cwnd", Same),
    ("nv", "nv_pad", "nv_pad", Same),
    ("nv", "nv_reset_period", "nv_reset_period", Same),
    ("vegas", "alpha", "alpha", Same),
    ("vegas", "beta", "beta", Same),
    ("vegas", "gamma", "gamma", Same),
];

/// The value of a module parameter; `None` if it has no such value.
fn number(form: Form, value: &Value) -> Option<u64> {
    match (form, value) {
        (Same, Value::Bool(on)) => Some(u64::from(*on)),
        (Same, Value::Count(n) | Value::Packets(n)) => Some(*n),
        (Of1024, Value::Number(x)) => Some((x * 1024.0).round() as u64),
        (Of102, Value::Number(x)) => Some((x * 102.4).round() as u64),
        (Millis, Value::Span(span)) if span.as_us() % 1000 == 0 => Some(span.as_us() / 1000),
        (HyStart, Value::Word(word)) => match word.as_str() {
            "off" => Some(0),
            "linux" => Some(1),
            _ => None,
        },
        _ => None,
    }
}

/// A module parameter that a scenario sets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    module: String,
    name: &'static str,
    value: u64,
    /// The path of the key.
    key: String,
}

impl Setting {
    /// The word for the command line of a kernel.
    pub fn word(&self) -> String {
        format!("{}.{}={}", self.module, self.name, self.value)
    }
    /// Checks that the kernel of this machine has the value.
    pub fn check(&self) -> Result<(), HostError> {
        let file = format!("/sys/module/{}/parameters/{}", self.module, self.name);
        let text = fs::read_to_string(&file).unwrap_or_default();
        let here = match text.trim() {
            "Y" => Some(1),
            "N" => Some(0),
            other => other.parse().ok(),
        };
        if here == Some(self.value) {
            return Ok(());
        }
        let problem = format!(
            "is not supported by this kernel, in which {} is {:?} instead of {}; remove it, or \
             write --engine sim",
            file,
            text.trim(),
            self.value
        );
        Err(HostError::Key(self.key.clone(), problem))
    }
}

/// The module parameters that the flows of a scenario need.
pub fn settings(
    scenario: &Scenario,
    registry: &Registry<Frame>,
) -> Result<Vec<Setting>, HostError> {
    let mut found = Vec::new();
    for flow in scenario.flows.iter().filter(|flow| flow.has_cc()) {
        let Some(kind) = registry.cc(&flow.cc.kind) else {
            continue;
        };
        let usual = Params::defaults(kind.params);
        let others = || {
            let same = |other: &&FlowSpec| other.has_cc() && other.cc.kind == flow.cc.kind;
            scenario.flows.iter().filter(same)
        };
        for (name, value) in flow.cc.params.iter() {
            if usual.get(name) == Some(value) {
                continue;
            }
            let key = format!("flow[{}].cc.{name}", flow.section.0);
            let refused = |why: String| {
                let problem = format!(
                    "is not supported by the engine linux, {why}; remove it, or write --engine sim"
                );
                HostError::Key(key.clone(), problem)
            };
            if let Some(other) = others().find(|other| other.cc.params.get(name) != Some(value)) {
                return Err(refused(format!(
                    "in which all flows with {} have the same parameters, because flow \"{}\" has \
                     another {name}",
                    flow.cc.kind, other.id
                )));
            }
            let row = TABLE
                .iter()
                .find(|(cc, own, ..)| *cc == flow.cc.kind && *own == name);
            let Some((_, _, parameter, form)) = row else {
                return Err(refused("because Linux has no such parameter".into()));
            };
            let Some(number) = number(*form, value) else {
                return Err(refused("because Linux does not have this value".into()));
            };
            let setting = Setting {
                module: format!("tcp_{}", flow.cc.kind),
                name: parameter,
                value: number,
                key,
            };
            if !found
                .iter()
                .any(|other: &Setting| other.word() == setting.word())
            {
                found.push(setting);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_core::cc::KINDS;

    fn words(flows: &str) -> Result<Vec<String>, HostError> {
        let text = format!("duration = \"2s\"\n[path]\nrate = \"10Mbit\"\nrtt = \"10ms\"\n{flows}");
        let registry = Registry::standard();
        let scenario = Scenario::from_toml(&text, "test", &registry).unwrap();
        let found = settings(&scenario, &registry)?;
        Ok(found.iter().map(Setting::word).collect())
    }

    #[test]
    fn constants_of_cubic_have_the_units_of_linux() {
        let flow = "[[flow]]\ncc = { kind = \"cubic\", beta = 0.5, c = 0.8, hystart = \"off\" }\n";
        let expected = [
            "tcp_cubic.beta=512",
            "tcp_cubic.bic_scale=82",
            "tcp_cubic.hystart=0",
        ];
        assert_eq!(words(flow).unwrap(), expected);
        assert!(words("[[flow]]\ncc = \"cubic\"\n").unwrap().is_empty());
    }

    #[test]
    fn flows_with_other_parameters_and_values_that_linux_lacks_are_refused() {
        let two = "[[flow]]\ncc = { kind = \"cubic\", beta = 0.5 }\n[[flow]]\ncc = \"cubic\"\n";
        let plus = "[[flow]]\ncc = { kind = \"cubic\", hystart = \"plusplus\" }\n";
        let theta = "[[flow]]\ncc = { kind = \"illinois\", theta = 6 }\n";
        for (flows, key) in [
            (two, "flow[0].cc.beta"),
            (plus, "flow[0].cc.hystart"),
            (theta, "flow[0].cc.theta"),
        ] {
            let Err(HostError::Key(path, _)) = words(flows) else {
                panic!("{flows}");
            };
            assert_eq!(path, key);
        }
    }

    #[test]
    fn each_row_is_a_parameter_of_the_core() {
        for (cc, name, _, form) in TABLE {
            let kind = KINDS.iter().find(|kind| kind.name == *cc).unwrap();
            let default = Params::defaults(kind.params);
            let value = default.get(name).unwrap();
            assert!(number(*form, value).is_some(), "{cc} {name}");
        }
    }
}
