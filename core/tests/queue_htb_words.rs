//! HTB in a scenario: errors have the corrected line, valid values are read back.

use crate::trace::Frame;
use narrows_core::registry::Registry;
use narrows_core::scenario::{Errors, Scenario};

fn read(queue: &str) -> Result<Scenario, Errors> {
    let text = format!(
        "duration = \"1s\"\n[path]\nrate = \"1Gbit\"\nrtt = \"10ms\"\n[path.queue]\nkind = \
         \"htb\"\n{queue}\n\
         [[flow]]\ncc = \"cubic\"\ncount = 2\n[[flow]]\nid = \"guest\"\ncc = \
         \"reno\"\n[[probe]]\nkind = \"ping\"\n"
    );
    Scenario::from_toml(&text, "htb.toml", &Registry::<Frame>::standard())
}

/// A list of classes, one a line.
fn classes(lines: &[&str]) -> String {
    format!("classes = [\n{},\n]", lines.join(",\n"))
}

const ROOT: &str = "{ id = \"1:1\", rate = \"20Mbit\" }";
const LEAF: &str = "{ id = \"1:10\", parent = \"1:1\", rate = \"5Mbit\" }";

#[test]
fn errors_of_classes_show_the_corrected_line() {
    for (wrong, problem, right) in [
        (
            "{ id = \"1:20\", parent = \"1:7\", rate = \"5Mbit\" }",
            "is not a class of this queue",
            "{ id = \"1:20\", parent = \"1:1\", rate = \"5Mbit\" },",
        ),
        (
            "{ id = \"1:20\", parent = \"1:20\", rate = \"5Mbit\" }",
            "leads back to the class",
            "{ id = \"1:20\", parent = \"1:\", rate = \"5Mbit\" },",
        ),
        (
            "{ id = \"1:10\", parent = \"1:1\", rate = \"5Mbit\" }",
            "is also the id of another class",
            "{ id = \"1:20\", parent = \"1:1\", rate = \"5Mbit\" },",
        ),
        (
            "{ id = \"1:20\", parent = \"1:1\", rate = \"5Mbit\", ceil = \"2Mbit\" }",
            "is below its rate",
            "{ id = \"1:20\", parent = \"1:1\", rate = \"5Mbit\", ceil = \"5Mbit\" },",
        ),
        (
            "{ parent = \"1:1\", rate = \"5Mbit\" }",
            "has no id",
            "{ parent = \"1:1\", rate = \"5Mbit\", id = \"1:20\" },",
        ),
        (
            "{ id = \"1:20\", name = \"direct\", rate = \"1Mbit\" }",
            "is the name or the id of another class",
            "{ id = \"1:20\", name = \"direct-2\", rate = \"1Mbit\" },",
        ),
        (
            "{ id = \"1:20\", name = \"a b\", rate = \"1Mbit\" }",
            "is not a name: letters, digits",
            "{ id = \"1:20\", name = \"a_b\", rate = \"1Mbit\" },",
        ),
        (
            "{ id = \"1:20\" }",
            "has no rate",
            "{ id = \"1:20\", rate = \"1Mbit\" },",
        ),
        (
            "{ id = \"2:20\", rate = \"1Mbit\" }",
            "belongs to another queue than the first class",
            "{ id = \"1:20\", rate = \"1Mbit\" },",
        ),
        (
            "{ id = 20, rate = \"1Mbit\" }",
            "is not a class identifier of tc: major:minor in hexadecimal digits",
            "{ id = \"1:20\", rate = \"1Mbit\" },",
        ),
        (
            "{ id = \"1:20\", rate = \"1Mbit\", quque = \"fq\" }",
            "is not a parameter of classes",
            "{ id = \"1:20\", rate = \"1Mbit\", queue = \"fq\" },",
        ),
        (
            "{ id = \"1:20\", rate = \"1Mbit\", queue = \"fq_coddel\" }",
            "is not a known queue",
            "{ id = \"1:20\", rate = \"1Mbit\", queue = \"fq_codel\" },",
        ),
        (
            "{ id = \"1:20\", rate = \"1Mbit\", queue = { kind = \"fq_codel\", target = 5 } }",
            "needs a unit",
            "{ id = \"1:20\", rate = \"1Mbit\", queue = { kind = \"fq_codel\", target = \"5ms\" } \
             },",
        ),
        (
            "{ id = \"1:20\", rate = \"1Mbit\", match = { flow = \"gest\" } }",
            "names an unknown flow; known: cubic0, cubic1, guest, ping0",
            "{ id = \"1:20\", rate = \"1Mbit\", match = { flow = \"guest\" } },",
        ),
        (
            "{ id = \"1:20\", rate = \"1Mbit\", match = { dscp = [\"EF\", \"CS9\"] } }",
            "is not a code point",
            "{ id = \"1:20\", rate = \"1Mbit\", match = { dscp = [\"EF\", \"EF\"] } },",
        ),
        (
            "{ id = \"1:20\", rate = \"1Mbit\", match = \"guest\" }",
            "is not a table of flow and dscp",
            "{ id = \"1:20\", rate = \"1Mbit\", match = { flow = \"guest\" } },",
        ),
    ] {
        let errors = read(&classes(&[ROOT, LEAF, wrong])).unwrap_err();
        let [error] = errors.list() else {
            panic!("{wrong}: {errors}")
        };
        assert_eq!(
            (error.line, error.fix.as_deref()),
            (Some(10), Some(right)),
            "{error}"
        );
        assert!(error.problem.contains(problem), "{wrong}: {error}");
        // The correction is valid.
        let corrected = classes(&[ROOT, LEAF, right.trim_end_matches(',')]);
        assert!(read(&corrected).is_ok(), "{corrected}");
    }
}

#[test]
fn chains_of_parents_are_finite_and_short() {
    let circle = [
        "{ id = \"1:1\", parent = \"1:2\", rate = \"1Mbit\" }",
        "{ id = \"1:2\", parent = \"1:1\", rate = \"1Mbit\" }",
    ];
    let errors = read(&classes(&circle)).unwrap_err();
    assert!(
        errors.to_string().contains("leads back to the class"),
        "{errors}"
    );
    let line = |n: usize| {
        let parent = if n > 1 {
            format!("parent = \"1:{:x}\", ", n - 1)
        } else {
            String::new()
        };
        format!("{{ id = \"1:{n:x}\", {parent}rate = \"1Mbit\" }}")
    };
    let deep: Vec<String> = (1..=9).map(line).collect();
    let deep: Vec<&str> = deep.iter().map(String::as_str).collect();
    assert!(read(&classes(&deep[..8])).is_ok());
    let errors = read(&classes(&deep)).unwrap_err();
    assert!(
        errors.to_string().contains("leads over more than 8 levels"),
        "{errors}"
    );
}

#[test]
fn the_default_is_a_class_that_holds_packets() {
    let with = |default: &str| {
        read(&format!(
            "default = \"{default}\"\n{}",
            classes(&[ROOT, LEAF])
        ))
    };
    assert!(with("1:10").is_ok());
    for (default, problem) in [
        ("1:11", "is not a class of this queue"),
        ("1:1", "is a class with children"),
    ] {
        let errors = with(default).unwrap_err();
        assert!(errors.to_string().contains(problem), "{errors}");
        assert_eq!(errors.list()[0].fix.as_deref(), Some("default = \"1:10\""));
    }
    let inner = "{ id = \"1:1\", rate = \"20Mbit\", match = { dscp = 8 } }";
    let errors = read(&classes(&[inner, LEAF])).unwrap_err();
    assert!(
        errors.to_string().contains("only leaves take packets"),
        "{errors}"
    );
}

#[test]
fn rates_may_sum_up_to_more_than_the_parent_s_as_in_linux() {
    assert!(
        read(&classes(&[
            ROOT,
            "{ id = \"1:10\", parent = \"1:1\", rate = \"90Mbit\" }"
        ]))
        .is_ok()
    );
}

#[test]
fn a_tree_is_read_back_as_it_was_written() {
    let full = "{ id = \"1:00A0\", parent = \"1:1\", rate = \"5Mbit\", ceil = \"9Mbit\", burst = \
        \"3kB\", cburst = \"4kB\", prio = 3, quantum = \"3028B\", \
                queue = { kind = \"fq_codel\", target = \"10ms\" }, limit = \"90p\", match = { \
                flow = [\"cubic\", \"ping0\"], dscp = [46, 3] }, \
                overhead = \"24B\", mpu = \"84B\", linklayer = \"atm\" }";
    let inner = "{ id = \"1:30\", parent = \"1:1\", rate = \"5Mbit\", queue = { kind = \"htb\", \
        classes = [{ id = \"2:1\", rate = \"1Mbit\", match = { flow = \"guest\" } }] } }";
    let scenario = read(&format!(
        "default = \"1:30\"\n{}",
        classes(&[ROOT, full, inner])
    ))
    .unwrap_or_else(|e| panic!("{e}"));
    let again = Scenario::from_toml(&scenario.to_toml(), "again", &Registry::<Frame>::standard());
    assert_eq!(
        again.unwrap_or_else(|e| panic!("{e}\n{}", scenario.to_toml())),
        scenario
    );
    let rows = scenario.path.hops[0].queue.params.rows("classes");
    assert_eq!(rows[1].word("id"), "1:a0");
    // All that are called cubic, and the probe behind the three flows.
    assert_eq!(rows[1].matching("match").unwrap().flows, [0, 1, 3]);
    let nested = rows[2].choice("queue").unwrap().params.rows("classes");
    assert_eq!(nested[0].matching("match").unwrap().flows, [2]);
}

#[test]
fn a_flow_with_a_workload_is_matched_by_its_code_point() {
    let with = |which: &str| {
        let text = format!(
            "duration = \"1s\"\n[path]\nrate = \"1Gbit\"\nrtt = \"10ms\"\n[path.queue]\nkind = \
             \"htb\"\n\
             classes = [{{ id = \"1:1\", rate = \"1Mbit\", match = {which} }}]\n\
             [[flow]]\nid = \"pages\"\ncc = \"cubic\"\nworkload = \"web\"\ndscp = \"AF11\"\n"
        );
        Scenario::from_toml(&text, "htb.toml", &Registry::<Frame>::standard())
    };
    let errors = with("{ flow = \"pages\" }").unwrap_err();
    assert!(
        errors
            .to_string()
            .contains("set its dscp, and match the dscp"),
        "{errors}"
    );
    assert!(with("{ dscp = \"AF11\" }").is_ok());
}

#[test]
fn trees_are_not_too_large_or_too_deep() {
    let many: Vec<String> = (1..=10_001)
        .map(|n| format!("{{ id = \"1:{n:x}\", rate = \"1Mbit\" }}"))
        .collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(
        read(&classes(&many))
            .unwrap_err()
            .to_string()
            .contains("has more than 10000 classes")
    );
    assert!(read(&classes(&many[..10_000])).is_ok());
    let mut deep = String::from("\"fifo\"");
    for _ in 0..12 {
        deep = format!(
            "{{ kind = \"htb\", classes = [{{ id = \"1:1\", rate = \"1Mbit\", queue = {deep} }}] }}"
        );
    }
    let errors = read(&format!(
        "classes = [{{ id = \"1:1\", rate = \"1Mbit\", queue = {deep} }}]"
    ))
    .unwrap_err();
    assert!(
        errors.to_string().contains("is nested too deeply"),
        "{errors}"
    );
}

#[test]
fn a_notice_reports_children_rates_above_the_parent_rate() {
    let notices = |leaves: [u32; 2]| {
        let leaf = |id: u32, rate| {
            format!(
                "{{ id = \"1:{id}\", parent = \"1:1\", rate = \"{rate}Mbit\", ceil = \"20Mbit\" }}"
            )
        };
        let [a, b] = leaves;
        let tree = format!(
            "default = \"1:10\"\n{}",
            classes(&[ROOT, &leaf(10, a), &leaf(20, b)])
        );
        let scenario = read(&tree).unwrap_or_else(|e| panic!("{e}"));
        scenario.notices(&Registry::<Frame>::standard())
    };
    assert_eq!(notices([15, 5]), [""; 0]);
    let warnings = notices([15, 10]);
    assert_eq!(warnings.len(), 1);
    for word in [
        "children of 1:1",
        "25Mbit",
        "the rate of 1:1 is 20Mbit",
        "sum up",
    ] {
        assert!(
            warnings[0].contains(word),
            "{word} is not in: {}",
            warnings[0]
        );
    }
}
