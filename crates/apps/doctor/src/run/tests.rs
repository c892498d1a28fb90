//! The whole diagnosis over fixture roots.

use std::path::Path;

use serde_json::Value;

use super::*;
use crate::Role;
use crate::tests::{container, get, put, stock, tree, tuned};

fn options(root: &Path, connections: u64) -> Options {
    Options {
        root: root.to_owned(),
        ..Options::new(Plan::new(Role::Server, Some(connections)))
    }
}

/// Runs with an answer to every question; returns outcome, output and the questions.
fn go(options: &Options, answer: bool) -> (Diagnosis, String, Vec<String>) {
    let (mut out, mut asked) = (Vec::new(), Vec::new());
    let outcome = run(options, &mut out, &mut |question| {
        asked.push(question.to_owned());
        answer
    });
    (outcome.unwrap(), String::from_utf8(out).unwrap(), asked)
}

const SYSCTL_D: &str = "etc/sysctl.d/60-throng.conf";
const DROP_IN: &str = "etc/systemd/system/throng.service.d/60-throng.conf";

#[test]
fn a_diagnosis_changes_nothing_and_asks_nothing() {
    let root = tree(&[stock()]);
    let (outcome, text, asked) = go(&options(root.path(), 1_000_000), true);
    assert_eq!((outcome, asked.len()), (Diagnosis::Short, 0));
    assert!(
        text.contains("nf_conntrack_max binds first") && !text.contains("Changes"),
        "{text}"
    );
    for (path, before) in stock() {
        assert_eq!(get(root.path(), path).as_deref(), Some(*before), "{path}");
    }
    assert_eq!(go(&options(root.path(), 1_000), true).0, Diagnosis::Good);
}

#[test]
fn no_means_no() {
    let root = tree(&[stock()]);
    let options = Options {
        fix: true,
        persist: true,
        ..options(root.path(), 1_000_000)
    };
    let (outcome, _, asked) = go(&options, false);
    assert_eq!((outcome, asked.len()), (Diagnosis::Unfixed, 3));
    assert!(
        asked[0].contains("net.netfilter.nf_conntrack_max=1048576"),
        "{}",
        asked[0]
    );
    for (path, before) in stock() {
        assert_eq!(get(root.path(), path).as_deref(), Some(*before), "{path}");
    }
    assert_eq!(get(root.path(), SYSCTL_D), None);
    assert_eq!(get(root.path(), DROP_IN), None);
}

#[test]
fn fix_and_persist_keep_what_was_lifted() {
    let root = tree(&[stock()]);
    let wanted = Options {
        fix: true,
        persist: true,
        yes: true,
        ..options(root.path(), 500_000)
    };
    let (outcome, text, asked) = go(&wanted, false);
    // nofile suffices, and all that failed was a setting.
    assert_eq!((outcome, asked.len()), (Diagnosis::Good, 0), "{text}");
    assert!(text.contains("by_hand   sysctl --system"), "{text}");
    assert!(
        get(root.path(), SYSCTL_D)
            .unwrap()
            .contains("net.netfilter.nf_conntrack_max = 524288\n")
    );
    assert_eq!(get(root.path(), DROP_IN), None);

    // A larger goal later adds to the file and replaces what it must.
    put(
        root.path(),
        SYSCTL_D,
        &(get(root.path(), SYSCTL_D).unwrap() + "# note = 1\nvm.swappiness = 1\n"),
    );
    let more = Options {
        plan: Plan::new(Role::Server, Some(600_000)),
        ..wanted
    };
    let (outcome, text, _) = go(&more, false);
    // A descriptor limit cannot be raised for others from here.
    assert_eq!(outcome, Diagnosis::Short, "{text}");
    let kept = get(root.path(), SYSCTL_D).unwrap();
    for line in [
        "nf_conntrack_max = 1048576\n",
        "vm.swappiness = 1\n",
        "net.core.somaxconn = 16384\n",
    ] {
        assert!(kept.contains(line), "{line} not in\n{kept}");
    }
    assert!(!kept.contains("note"), "{kept}");
    let drop_in = get(root.path(), DROP_IN).unwrap();
    assert!(
        drop_in.ends_with("[Service]\nLimitNOFILE=1048576\n"),
        "{drop_in}"
    );
}

#[test]
fn what_cannot_be_written_is_told() {
    let root = tree(&[container()]);
    // A file where a directory should be.
    put(root.path(), "etc", "");
    let wanted = Options {
        persist: true,
        yes: true,
        ..options(root.path(), 1_000_000)
    };
    let (outcome, text, _) = go(&wanted, false);
    assert_eq!(outcome, Diagnosis::Unfixed);
    assert!(text.contains("refused"), "{text}");
}

const TOP: &str = "applied binds_first checks connection_bytes connections container goal \
                   holds_connections role schema status steps summary";
const CHECK: &str = "allows_connections cost current fix id kind needed status title why";
const STATUS: &str = "ok info unknown warn fail";

#[track_caller]
fn check_schema(document: &Value) {
    let keys = |value: &Value| {
        let mut keys: Vec<&str> = { value.as_object().unwrap().keys() }
            .map(String::as_str)
            .collect();
        keys.sort_unstable();
        keys.join(" ")
    };
    let one_of = |value: &Value, words: &str| {
        let is_one = words.split(' ').any(|word| value == word);
        assert!(is_one, "{value} not in {words}");
    };
    assert_eq!(keys(document), TOP);
    assert_eq!(document["schema"], 2);
    one_of(&document["role"], "server loadgen both");
    one_of(&document["status"], STATUS);
    for number in ["connections", "holds_connections"] {
        let value = &document[number];
        assert!(value.is_u64() || value.is_null(), "{number}");
    }
    for check in document["checks"].as_array().unwrap() {
        assert_eq!(keys(check), CHECK);
        one_of(&check["kind"], "holds load rate");
        for amount in [&check["current"], &check["needed"]] {
            let is_number = |text: &str| text.replace(',', "").parse::<u64>().is_ok();
            assert!(!amount.as_str().is_some_and(is_number), "{amount}");
        }
        one_of(&check["status"], STATUS);
        for fix in check["fix"].as_array().unwrap() {
            one_of(&fix["kind"], "sysctl nofile unit command advice");
            assert!(fix["line"].is_string());
            assert_eq!(fix["kind"] == "sysctl", fix["key"].is_string(), "{fix}");
            assert_eq!(fix["kind"] == "sysctl", fix["scope"].is_string(), "{fix}");
        }
    }
    let steps = document["steps"].as_array().unwrap();
    assert!(steps.len() <= 3);
    for step in steps {
        assert!(step["id"].is_string() && step["line"].is_string(), "{step}");
    }
    for applied in document["applied"].as_array().unwrap() {
        one_of(&applied["effect"], "done refused by_hand");
        let is_done = applied["effect"] == "done";
        assert_eq!(applied["note"].is_null(), is_done, "{applied}");
    }
}

#[test]
fn json_keeps_its_layout() {
    for (layers, fix) in [
        (&[stock()][..], true),
        (&[stock()][..], false),
        (&[stock(), tuned()][..], false),
        (&[container()][..], true),
        (&[][..], true),
    ] {
        let root = tree(layers);
        for role in [Role::Server, Role::Loadgen, Role::Both] {
            for connections in [None, Some(1_000_000)] {
                let wanted = Options {
                    root: root.path().to_owned(),
                    json: true,
                    yes: true,
                    fix,
                    persist: fix,
                    ..Options::new(Plan::new(role, connections))
                };
                let (_, text, _) = go(&wanted, false);
                check_schema(&serde_json::from_str(&text).unwrap());
            }
        }
    }
}
