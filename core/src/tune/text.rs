//! Audits and plans as text and as JSON.

use super::facts::Facts;
use super::findings::{Finding, SEVERITIES, Severity, count, verdict};
use super::ordered::Ordered;
use super::plan::{Discipline, Host, Left, Need, State, Target};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// First words of titles that begin with a capital letter.
pub const SENTENCES: [&str; 5] = ["new", "interfaces", "connections", "smaller", "nothing"];

/// An audit; docs/reference/tune.md describes its document.
#[derive(Clone, Debug, Serialize)]
pub struct Audit {
    narrows: &'static str,
    audit: u32,
    host: Host,
    verdict: String,
    counts: Ordered<usize>,
    findings: Vec<Finding>,
}

impl Audit {
    /// The document of an audit.
    pub fn new(facts: &Facts, found: Vec<Finding>) -> Audit {
        let counts = SEVERITIES
            .iter()
            .map(|(of, name)| (name.to_string(), count(&found, *of)));
        Audit {
            narrows: env!("CARGO_PKG_VERSION"),
            audit: 1,
            host: Host::of(facts),
            verdict: verdict(&found),
            counts: Ordered(counts.collect()),
            findings: found,
        }
    }
    /// Whether settings contradict each other or have no effect.
    pub fn has_errors(&self) -> bool {
        count(&self.findings, Severity::Error) > 0
    }
    /// The audit as lines of text: the verdict first, then each finding with its reason, remedy and
    /// source. Unless `every`, findings with the severity `good` are only named.
    pub fn lines(&self, every: bool) -> Vec<String> {
        let host = &self.host;
        let name = if host.name.is_empty() {
            "This host"
        } else {
            &host.name
        };
        let mut output = Vec::from([format!(
            "{name}: {}, Linux {}. {}",
            host.system, host.kernel, self.verdict
        )]);
        let is_good = |finding: &&Finding| finding.severity == Severity::Good;
        for finding in self
            .findings
            .iter()
            .filter(|finding| every || !is_good(finding))
        {
            let mark = match finding.severity {
                Severity::Error => "ERROR",
                Severity::Warning => "warning",
                Severity::Note => "note",
                Severity::Good => "ok",
            };
            let (id, why, source) = (&finding.id, &finding.why, &finding.source);
            output.push(String::new());
            output.push(format!("{mark:<8} [{id}] {}.", fact(finding)));
            output.push(format!("{:<8} why: {why}.", ""));
            if !finding.fix.is_empty() {
                output.push(format!("{:<8} remedy: {}.", "", finding.fix));
            }
            output.push(format!("{:<8} source: {source}.", ""));
        }
        let faulty = |id: &str| self.findings.iter().any(|f| f.id == id && !is_good(&f));
        let mut good: Vec<&str> = Vec::new();
        for finding in &self.findings {
            let id = finding.id.as_ref();
            if !faulty(id) && !good.contains(&id) {
                good.push(id);
            }
        }
        if !good.is_empty() && !every {
            output.push(String::new());
            output.push(format!(
                "Checked without a finding: {}. Option --all prints them.",
                good.join(", ")
            ));
        }
        output
    }
}

/// The subject and the fact of a finding as a sentence without its full stop.
fn fact(finding: &Finding) -> String {
    let (subject, what) = (&finding.subject, &finding.what);
    match what.strip_prefix("it ") {
        _ if subject.is_empty() => what.clone(),
        Some(rest) => format!("{subject} {rest}"),
        None => format!("{subject}: {what}"),
    }
}

/// The parts of a plan that are shown; the document may be one of a user.
#[derive(Deserialize)]
#[serde(default)]
struct Document {
    title: String,
    netns: Option<String>,
    able: bool,
    needs: Vec<Need>,
    changes: Vec<Row>,
    left: Vec<Left>,
    effects: Vec<String>,
}

impl Default for Document {
    fn default() -> Document {
        Document {
            title: "A plan".into(),
            netns: None,
            able: true,
            needs: Vec::new(),
            changes: Vec::new(),
            left: Vec::new(),
            effects: Vec::new(),
        }
    }
}

#[derive(Deserialize)]
struct Row {
    kind: String,
    #[serde(default)]
    phase: String,
    target: Target,
    from: Option<State>,
    to: Option<State>,
    #[serde(default)]
    why: String,
}

impl Row {
    fn name(&self) -> String {
        let keys = match &self.target {
            Target::Name(name) => return format!("{} {name}", self.kind),
            Target::Keys(Ordered(rows)) => rows,
        };
        let value = |key: &str| {
            let row = keys.iter().find(|(own, _)| own == key);
            row.map_or("", |(_, value)| value)
        };
        match (self.kind.as_str(), value("parent")) {
            ("qdisc", "root") => format!("qdisc of {}", value("dev")),
            ("qdisc", class) => format!("qdisc of {} class {class}", value("dev")),
            ("ingress", _) => format!("ingress of {}, by {}", value("dev"), value("ifb")),
            ("route", _) => format!("route to {}", value("prefix")),
            (kind, _) => {
                let values: Vec<&str> = keys.iter().map(|(_, value)| value.as_str()).collect();
                format!("{kind} {}", values.join(" "))
            }
        }
    }
}

fn discipline(one: &Discipline) -> String {
    let mut text = one.kind.clone();
    let handle = one
        .handle
        .as_ref()
        .filter(|handle| *handle != "0:" && !handle.is_empty());
    let options = one.options.0.iter().flat_map(|(name, value)| [name, value]);
    for word in handle.into_iter().chain(options) {
        text += &format!(" {word}");
    }
    text
}

fn value(state: Option<&State>) -> Vec<String> {
    match state {
        None => Vec::new(),
        Some(State::Text(text)) => Vec::from([text.clone()]),
        Some(State::Words(words)) => Vec::from([words.join(" ")]),
        Some(State::File { text, .. }) => text.lines().map(String::from).collect(),
        Some(State::Qdisc(one)) => Vec::from([discipline(one)]),
        Some(State::Ingress(all)) => all.0.iter().map(|(_, one)| discipline(one)).collect(),
    }
}

/// The words of a command, quoted for a POSIX shell.
fn command(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./-_".contains(c);
    let word = |word: &String| match !word.is_empty() && word.chars().all(plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', "'\"'\"'")),
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// A plan as lines of text: `-` marks current values, `+` new values.
///
/// # Errors
///
/// If the text is not the JSON of a plan.
pub fn plan_lines(document: &str) -> Result<Vec<String>, serde_json::Error> {
    let plan: Document = serde_json::from_str(document)?;
    let first = plan
        .title
        .split(' ')
        .next()
        .unwrap_or_default()
        .to_lowercase();
    let title = match SENTENCES.contains(&first.as_str()) {
        true => {
            let mut letters = plan.title.chars();
            let small = letters.next().map(|letter| letter.to_ascii_lowercase());
            small.into_iter().chain(letters).collect()
        }
        false => plan.title.clone(),
    };
    let mut output = Vec::new();
    output.push(match plan.able && !plan.changes.is_empty() {
        true => format!("After the plan is applied, {title}."),
        false => format!("{}.", plan.title),
    });
    if let Some(netns) = plan.netns.filter(|name| !name.is_empty()) {
        output.push(format!("In the network namespace {netns}."));
    }
    for need in &plan.needs {
        output.extend([String::new(), format!("required first: {}", need.why)]);
        if !need.command.is_empty() {
            output.push(format!("  {}", command(&need.command)));
        }
    }
    for row in &plan.changes {
        let boot = if row.phase == "boot" {
            ", for the next boot"
        } else {
            ""
        };
        output.extend([String::new(), format!("{}{boot}", row.name())]);
        let lines = |sign, state| {
            value(state)
                .into_iter()
                .map(move |line| format!("{sign} {line}"))
        };
        output.extend(lines('-', row.from.as_ref()));
        output.extend(lines('+', row.to.as_ref()));
        output.push(format!("  reason: {}", row.why));
    }
    if !plan.left.is_empty() {
        output.push(String::new());
    }
    for left in &plan.left {
        let fix = match left.fix.is_empty() {
            true => String::new(),
            false => format!(" ({})", left.fix),
        };
        output.push(format!("unchanged: {}: {}{fix}", left.what, left.why));
    }
    if !plan.effects.is_empty() {
        output.push(String::new());
        output.extend(plan.effects);
    }
    // A line of untrusted text stays one line.
    Ok(output
        .iter()
        .map(|line| line.replace('\n', "\\u000a"))
        .collect())
}
