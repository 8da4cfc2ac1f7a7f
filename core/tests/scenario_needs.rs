//! Requirements of congestion controls on a path, and texts that a parameter names.

use crate::common::*;
use narrows_core::scenario::{Scenario, Tree};

/// The messages for a document whose last lines are a flow of this.
fn message(path: &str, flow: &str) -> String {
    bad(&format!("duration = \"10s\"\n{path}\n[[flow]]\n{flow}\n")).to_string()
}
const ONE: &str = "[path]\nrate = \"20Mbit\"\nrtt = \"40ms\"";

#[test]
fn feedback_requires_a_queue_that_supports_it() {
    assert_eq!(
        message(&format!("{ONE}\nqueue = \"codel\""), "cc = \"xcp\""),
        "x.toml:5: path.queue = \"codel\" is not sufficient for xcp, which needs routers that \
         write into its packets\n    \
         write: queue = \"xcp\""
    );
    assert_eq!(
        message(
            &format!("{ONE}\nqueue = {{ kind = \"fifo\", drop = \"head\" }}"),
            "cc = \"xcp\""
        ),
        "x.toml:5: path.queue = { kind = \"fifo\", drop = \"head\" } is not sufficient for xcp, \
         which needs routers that write into its packets\n    write: queue = \"xcp\""
    );
    assert_eq!(
        message(ONE, "cc = \"xcp\""),
        "x.toml:2: path.queue is missing for xcp, which needs routers that write into its \
         packets\n    \
         write: queue = \"xcp\""
    );
    good(&format!(
        "duration = \"10s\"\n{ONE}\nqueue = \"xcp\"\n[[flow]]\ncc = \"xcp\"\n[[flow]]\ncc = \
         \"reno\"\n"
    ));
}

#[test]
fn feedback_is_required_of_the_bottleneck_hop() {
    let hops = |second: &str| {
        format!(
            "[[path.hop]]\nrate = \"50Mbit\"\nrtt = \"1ms\"\n[[path.hop]]\nrate = \"20Mbit\"\nrtt \
             = \"40ms\"\nqueue = \"{second}\""
        )
    };
    assert_eq!(
        message(&hops("red"), "cc = \"xcp\"")
            .lines()
            .last()
            .map(str::trim),
        Some("write: queue = \"xcp\"")
    );
    assert!(
        message(&hops("fq"), "cc = \"xcp\"")
            .starts_with("x.toml:8: path.hop[1].queue = \"fq\" is not sufficient")
    );
    good(&format!(
        "duration = \"10s\"\n{}\n[[flow]]\ncc = \"xcp\"\n",
        hops("xcp")
    ));
}

#[test]
fn an_upload_needs_feedback_on_the_reverse_path() {
    let path = |down: &str, up: &str| {
        format!("{ONE}\nqueue = \"{down}\"\n[path.reverse]\nrate = \"5Mbit\"\nqueue = \"{up}\"")
    };
    let flow = "cc = \"xcp\"\ndirection = \"up\"";
    assert!(
        message(&path("xcp", "fifo"), flow)
            .starts_with("x.toml:8: path.reverse.queue = \"fifo\" is not sufficient for xcp")
    );
    good(&format!(
        "duration = \"10s\"\n{}\n[[flow]]\n{flow}\n",
        path("fifo", "xcp")
    ));
}

#[test]
fn a_tree_is_one_that_comes_with_narrows_a_text_or_a_file() {
    let doc = |tree: &str| {
        format!("duration = \"10s\"\n{ONE}\n[[flow]]\ncc = {{ kind = \"remy\", tree = {tree} }}\n")
    };
    let rule = "remy-tree 1\nmultiple 1 increment 1 intersend 3\n";
    let files = |name: &str| match name {
        "good.remy" => Ok(rule.to_string()),
        "bad.remy" => Ok("remy-tree 1\nrtt_ratio < two\n".to_string()),
        _ => Err("does not exist".to_string()),
    };
    let read = |text: &str| {
        let tree = Tree::from_toml(text, "x.toml").unwrap_or_else(|e| panic!("{e}"));
        Scenario::from_tree(&tree, "x.toml", Some(text), &registry(), &files)
    };
    let text_of = |s: &Scenario| s.flows[0].cc.params.text("tree").to_string();

    let shipped = read(&doc("\"small\"")).unwrap();
    assert_eq!(
        shipped,
        read(&doc("\"small\"").replace("{ kind = \"remy\", tree = \"small\" }", "\"remy\""))
            .unwrap()
    );
    let file = read(&doc("\"good.remy\"")).unwrap();
    let itself = read(&doc(
        "\"remy-tree 1\\nmultiple 1 increment 1 intersend 3\\n\"",
    ))
    .unwrap();
    assert_eq!(
        (text_of(&file), text_of(&itself)),
        (rule.into(), rule.into())
    );
    assert!(text_of(&shipped).lines().count() > 10);
    // A run carries what it was run from: the name, or the text.
    for scenario in [shipped, file, itself] {
        assert_eq!(read(&scenario.to_toml()).unwrap(), scenario);
    }
    let wrong = |tree: &str| read(&doc(tree)).unwrap_err().to_string();
    assert_eq!(
        wrong("\"smal\""),
        "x.toml:6: flow[0].cc.tree = \"smal\" does not exist; included in narrows: small\n    \
         write: cc = { kind = \"remy\", tree = \"small\" }"
    );
    assert_eq!(
        wrong("\"bad.remy\""),
        "x.toml:6: flow[0].cc.tree = \"bad.remy\" has a mistake in line 2: `two` is not a number; \
         write a plain decimal, as \
         `1.5`"
    );
    assert!(wrong("7").contains("is not the name of a file"));
}

#[test]
fn rules_need_pacing_and_a_fine_clock() {
    let hosts = |line: &str| format!("{ONE}\n[host]\n{line}");
    assert!(
        message(&hosts("pacing = \"off\""), "cc = \"remy\"")
            .contains("is not sufficient for remy, which needs pacing")
    );
    assert!(message(&hosts("clock = \"ms\""), "cc = \"remy\"").contains("RTTs in microseconds"));
}
