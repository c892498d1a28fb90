//! Applying fixes to fixture roots.

use super::*;
use crate::tests::{get, put, stock, tree};
use crate::{Machine, Plan, Role, assess};

fn report(root: &Path) -> Report {
    assess(
        &Machine::read(root),
        &Plan::new(Role::Server, Some(2_000_000)),
    )
}

#[test]
fn settings_are_written_then_nofile_is_raised() {
    let root = tree(&[stock()]);
    let before = report(root.path());
    let nr_open = || get(root.path(), "proc/sys/fs/nr_open");
    let mut seen = Vec::new();
    let applied = apply(root.path(), &before, &mut |limit| {
        seen.push((limit, nr_open()));
        ChangeOutcome::Done
    });
    assert_eq!(seen, [(2_097_152, Some(String::from("2097152\n")))]);
    let effect = |line: &str| {
        let found = applied
            .iter()
            .find(|applied| applied.line.starts_with(line));
        found.unwrap_or_else(|| panic!("no {line}")).effect.name()
    };
    assert_eq!(effect("sysctl -w fs.nr_open=2097152"), "done");
    assert_eq!(effect("sysctl -w net.ipv4.tcp_mem="), "done");
    assert_eq!(effect("ulimit -n 2097152"), "done");
    assert_eq!(effect("LimitNOFILE=2097152"), "by_hand");
    assert_eq!(effect("ethtool"), "by_hand");
    // What was written counts when the machine is read again.
    let after = report(root.path());
    for id in [
        "nr_open",
        "max_user_watches",
        "nf_conntrack_max",
        "tcp_mem",
        "somaxconn",
    ] {
        assert_ne!(
            before.check(id).unwrap().status,
            crate::CheckStatus::Ok,
            "{id}"
        );
        assert_eq!(
            after.check(id).unwrap().status,
            crate::CheckStatus::Ok,
            "{id}"
        );
    }
}

#[test]
fn a_setting_the_kernel_does_not_show_is_not_invented() {
    let root = tree(&[]);
    let path = "net.core.somaxconn";
    let effect = write_setting(root.path(), path, "1", Scope::Namespace, false);
    assert!(
        matches!(&effect, ChangeOutcome::Refused(note) if note.contains("does not show")),
        "{effect:?}"
    );
    assert_eq!(get(root.path(), "proc/sys/net/core/somaxconn"), None);
}

#[test]
fn a_refusal_names_who_could() {
    let root = tree(&[]);
    // A directory where a file should be refuses everybody, root too.
    put(root.path(), "proc/sys/fs/nr_open/x", "");
    for (scope, container, hint) in [
        (Scope::Host, false, "needs root"),
        (Scope::Host, true, "on the host"),
        (Scope::Namespace, true, "--sysctl"),
    ] {
        let effect = write_setting(root.path(), "fs.nr_open", "1", scope, container);
        assert!(
            effect.note().is_some_and(|note| note.contains(hint)),
            "{effect:?}"
        );
    }
}
