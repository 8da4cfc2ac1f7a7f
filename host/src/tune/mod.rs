//! `narrows-host tune`: audits a host, changes its settings and reverts them.
//!
//! The rules of audits and plans are in `narrows_core::tune`; the Python package uses them, too. A
//! plan is one JSON document (docs/reference/tune.md), which this module validates completely
//! before it executes it.
//!
//! | module | contents |
//! |---|---|
//! | [`audit`] | audits and plans: options, the collector |
//! | [`options`] | options of the commands that change a host |
//! | [`plan`] | the plan and its validation |
//! | [`engine`] | the order of steps: apply, confirm, revert, verify |
//! | [`journal`] | the previous values, stored before a change |
//! | [`watchdog`] | two processes that revert unconfirmed changes |
//! | [`sysctl`], [`qdisc`], [`ingress`], [`route`], [`module`], [`file`](mod@file) | kinds of changes |
//! | [`shape`] | options of shaping disciplines |
//! | [`diag`] | congestion controls of existing connections |
//! | [`boot`] | configuration files that take effect after those of narrows |
//! | [`elsewhere`] | journals of other network namespaces |
//! | [`safe_file`] | safe access to files as root |
//! | [`netns`] | identification of the network namespace, and ownership of files |
//! | [`target`] | file tree, network namespace and journal of a change |
//! | [`exec_with_cc`] | one program with another congestion control |

pub mod audit;
pub mod boot;
pub mod diag;
pub mod elsewhere;
pub mod engine;
pub mod exec_with_cc;
pub mod file;
pub mod ingress;
pub mod journal;
pub mod module;
pub mod netns;
pub mod options;
pub mod plan;
pub mod qdisc;
pub mod route;
pub mod safe_file;
pub mod shape;
pub mod sysctl;
pub mod target;
pub mod watchdog;

use crate::HostError;
use crate::sys;
use crate::tune::target::World;
use options::{Command, Options};
use plan::Plan;
use serde_json::{Value, json};

/// Hexadecimal digits of bytes.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The bytes of hexadecimal digits; `None` if invalid.
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |b: u8| char::from(b).to_digit(16).map(|d| d as u8);
    let pair = |pair: &[u8]| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?);
    text.as_bytes().chunks(2).map(pair).collect()
}

fn plan(file: &str) -> Result<Plan, HostError> {
    let wrong = |e: std::io::Error| HostError::Unlike(e.to_string());
    let bytes = if file == "-" {
        safe_file::read_whole(std::io::stdin(), "-").map_err(wrong)?
    } else {
        safe_file::read_trusted(std::path::Path::new(file)).map_err(wrong)?
    };
    Plan::parse(&bytes).map_err(|problem| {
        HostError::Unlike(match file {
            "-" => problem,
            file => format!("{file}: {problem}"),
        })
    })
}

/// Enters the network namespace of this name. Returns whether it differs from the namespace that
/// the process was in before.
fn enter(netns: Option<&str>) -> Result<bool, HostError> {
    let Some(name) = netns else { return Ok(false) };
    let open = || {
        let dir = std::fs::File::open("/run/netns")?;
        sys::files::open_file(&dir.into(), name)
    };
    let ns = open().map_err(|e| {
        HostError::Unlike(format!(
            "network namespace {name}: {e}; ip netns list prints all names"
        ))
    })?;
    let own = || netns::Namespace::own().map_err(HostError::failed("the network namespace"));
    let before = own()?;
    sys::enter_network(&ns)
        .map_err(|e| HostError::Unlike(format!("network namespace {name}: {e}; run as root")))?;
    Ok(own()? != before)
}

/// Enters the network namespace `netns`, if one is named, and records the namespace and its journal
/// directory in `world`.
fn settle(world: &mut World, netns: Option<&str>) -> Result<(), HostError> {
    let entered = enter(netns)?;
    world
        .settle(entered)
        .map_err(HostError::failed("the network namespace"))
}

/// Runs the subcommand. Returns its JSON output, and `false` if `verify` found a difference or a
/// missing watchdog.
pub fn run(mut options: Options) -> Result<(Value, bool), HostError> {
    sys::remember_signals(false);
    let answer = match options.command {
        Command::Apply => {
            let plan = plan(&options.plan)?;
            let netns = options.netns.clone().or(plan.netns.clone());
            settle(&mut options.world, netns.as_deref())?;
            let plan = Plan { netns, ..plan };
            engine::apply(&plan, &options.world, options.within)?
        }
        _ => {
            // The watchdog is started in the plan's network namespace, and `--state` is the
            // directory of the journal itself.
            if matches!(options.command, Command::Watch) {
                options.world.state = options.world.hosts();
            } else {
                settle(&mut options.world, options.netns.as_deref())?;
            }
            match options.command {
                Command::Confirm => engine::confirm(&options.world)?,
                Command::Revert => engine::revert(&options.world, options.foreign, options.last)?,
                Command::Verify => engine::verify(&options.world)?,
                _ => {
                    crate::tune::watchdog::run(&options.world, &options.id)?;
                    json!({})
                }
            }
        }
    };
    let yes = [answer.get("so"), answer.get("watched")]
        .iter()
        .all(|told| *told != Some(&json!(false)));
    Ok((answer, yes))
}
