use super::*;
use proptest::prelude::*;

fn change(kind: &str, target: Value, from: Value, to: Value) -> Value {
    let phase = if kind == "file" { "boot" } else { "live" };
    json!({"id": format!("{kind}:x"), "kind": kind, "phase": phase, "target": target,
    "from": from, "to": to, "why": ""})
}

fn parsed(one: &Value) -> Result<Plan, String> {
    Plan::parse(
        json!({"plan": 1, "title": "t", "changes": [one]})
            .to_string()
            .as_bytes(),
    )
}

#[test]
fn a_plan_is_read() {
    let one = change(
        "sysctl",
        json!("net.ipv4.tcp_congestion_control"),
        json!("cubic"),
        json!("bbr"),
    );
    let plan = parsed(&one).unwrap();
    let expected = What::Sysctl(
        sysctl::CC.to_string(),
        "cubic".to_string(),
        "bbr".to_string(),
    );
    assert_eq!(plan.changes[0].what, expected);
    assert!(
        parsed(&change(
            "module",
            json!("tcp_bbr"),
            json!("absent"),
            json!("loaded")
        ))
        .is_ok()
    );
    let drop_in = json!({"text": "a = 1\n", "mode": "0644"});
    assert!(
        parsed(&change(
            "file",
            json!("/etc/sysctl.d/99-narrows.conf"),
            Value::Null,
            drop_in
        ))
        .is_ok()
    );
}

#[test]
fn what_could_be_meant_for_a_shell_is_refused() {
    let sysctl = |key: &str, to: &str| parsed(&change("sysctl", json!(key), json!("x"), json!(to)));
    for (key, to) in [
        ("net.core.default_qdisc", "fq; reboot"),
        ("net.core.default_qdisc", "$(reboot)"),
        ("net.core.default_qdisc", ""),
        ("net.core.default_qdisc", "fq\n"),
        ("kernel.core_pattern", "x"),
        ("net.core/../../kernel.core_pattern", "x"),
        ("net...kernel.x", "x"),
        ("net", "x"),
    ] {
        assert!(sysctl(key, to).is_err(), "{key} = {to}");
    }
    for module in ["-r", "tcp_bbr/../x", "TCP", "", "a b", "../../tmp/x.ko"] {
        assert!(
            parsed(&change(
                "module",
                json!(module),
                json!("absent"),
                json!("loaded")
            ))
            .is_err(),
            "{module}"
        );
    }
}

#[test]
fn files_are_our_own_or_refused() {
    for (name, right) in [
        ("/etc/sysctl.d/99-narrows.conf", true),
        ("/etc/modules-load.d/narrows.conf", true),
        ("/etc/udev/rules.d/99-narrows-eth0.rules", true),
        (
            "/etc/systemd/network/10-eth0.network.d/99-narrows.conf",
            true,
        ),
        ("/etc/sysctl.d/99-sysctl.conf", false),
        ("/etc/sysctl.d/../passwd", false),
        ("/etc/sudoers.d/narrows", false),
        ("/etc/cron.d/narrows.conf", false),
        ("/etc/systemd/network/narrows.conf", false),
        ("/etc/systemd/network/../x.network.d/narrows.conf", false),
        ("etc/sysctl.d/narrows.conf", false),
        ("/etc/sysctl.d/narrows.conf\n", false),
    ] {
        assert_eq!(path(name), right, "{name}");
    }
    let others = json!({"text": "", "mode": "0666"});
    assert!(
        parsed(&change(
            "file",
            json!("/etc/sysctl.d/99-narrows.conf"),
            Value::Null,
            others
        ))
        .is_err()
    );
}

#[test]
fn disciplines_of_one_device_are_one_change() {
    let queue = |parent: &str, kind: &str| {
        let target = json!({"dev": "eth0", "parent": parent});
        let mut one = change(
            "qdisc",
            target,
            Value::Null,
            json!({"kind": kind, "handle": null, "options": {}}),
        );
        one["id"] = json!(format!("qdisc:eth0:{parent}"));
        one
    };
    let plan = json!({"plan": 1, "changes": [queue("root", "mq"), queue("1:1", "fq"), queue("1:2",
        "fq")]});
    let plan = Plan::parse(plan.to_string().as_bytes()).unwrap();
    assert_eq!(plan.changes.len(), 1);
    let again = grouped(&[plan.changes[0].json.clone()]).unwrap();
    assert_eq!(again[0].what, plan.changes[0].what);
    assert!(parsed(&queue("root", "htb")).unwrap_err().contains("htb"));
    assert!(parsed(&queue("1:", "fq")).is_err());
}

#[test]
fn a_plan_that_is_not_able_says_what_it_needs() {
    let plan = json!({"plan": 1, "able": false, "needs": [{"why": "the kernel is older than \
        4.9"}], "changes": []});
    assert!(
        Plan::parse(plan.to_string().as_bytes())
            .unwrap_err()
            .contains("older than 4.9")
    );
}

/// Generates random JSON of at most five levels from keys and values that occur in plans and
/// journals.
fn any_json() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        Just("sysctl".to_string()),
        Just("qdisc".to_string()),
        Just("file".to_string()),
        Just("live".to_string()),
        Just("root".to_string()),
        Just("/etc/sysctl.d/99-narrows.conf".to_string()),
        "\\PC{0,12}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        word.prop_map(Value::from)
    ];
    let name = prop_oneof![
        Just("kind"),
        Just("target"),
        Just("from"),
        Just("to"),
        Just("phase"),
        Just("id"),
        Just("dev"),
        Just("parent"),
        Just("handle"),
        Just("changes"),
        Just("entries"),
        Just("change"),
        Just("before"),
        Just("hex"),
        Just("queues"),
        Just("below"),
    ];
    leaf.prop_recursive(5, 64, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(name.clone().prop_map(str::to_string), inner, 0..8)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn whatever_comes_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Plan::parse(&bytes);
        let _ = super::super::journal::Journal::parse(&bytes);
    }

    #[test]
    fn so_is_json_of_any_shape(list in prop::collection::vec(any_json(), 0..5),
        tree in any_json()) {
        let _ = Plan::parse(json!({"plan": 1, "changes": list}).to_string().as_bytes());
        let journal = json!({"journal": 1, "id": "x", "phase": "applied", "made_s": 1,
            "entries": list, "below": tree});
        let _ = super::super::journal::Journal::parse(journal.to_string().as_bytes());
        let _ = qdisc::Tree::from_json(&tree);
    }

    #[test]
    fn no_path_leads_out_of_our_folders(
        name in "/etc/[a-z./-]{0,30}(narrows)?[a-z.0-9/-]{0,12}(.conf)?"
    ) {
        if path(&name) {
            prop_assert!(!name.contains("..") && name.contains("narrows"));
            prop_assert!(FOLDERS.iter().any(|(folder, _)| name.starts_with(folder)));
        }
    }
}
