//! Purity: no clock, chance, sockets, threads, files or environment in pure rooms, and `unsafe` in
//! one room.
//!
//! Clippy bans the same things by resolved path (`clippy.toml` in each pure room). This check needs
//! no compilation, also sees types and whole modules, and fails in the second that `tidy` takes.

use crate::finding::Finding;
use crate::paths::paths;
use crate::plan::{self, Ban, PLAN};
use crate::source::Source;
use crate::tree::{Tree, is_test_file};

/// Checks every Rust file of every crate.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, source) in tree.rust() {
        let Some(package) = tree.package_of(path) else {
            continue;
        };
        if plan::covers(&PLAN.pure, package.room()) && !is_test_file(path) {
            impurities(path, source, &mut findings);
        }
        if !plan::covers(&PLAN.with_unsafe, package.room()) {
            unsafes(path, source, &mut findings);
        }
    }
    findings
}

fn impurities(path: &str, source: &Source, findings: &mut Vec<Finding>) {
    for found in paths(source.live()) {
        if let Some(ban) = PLAN.bans.iter().find(|ban| is_banned(ban, &found.path)) {
            let message = format!("`{}` in a pure crate: {}", found.path, ban.instead);
            findings.push(Finding::at(path, found.line, message));
        }
    }
}

fn unsafes(path: &str, source: &Source, findings: &mut Vec<Finding>) {
    for token in source.tokens.iter().filter(|token| token.is("unsafe")) {
        let message = format!("`unsafe` outside {}", PLAN.with_unsafe.join(", "));
        findings.push(Finding::at(path, token.line, message));
    }
}

fn is_banned(ban: &Ban, path: &str) -> bool {
    let segments: Vec<_> = path.split("::").collect();
    ban.paths.iter().any(|banned| {
        let anchored = banned.strip_prefix("::");
        let pattern: Vec<_> = anchored.unwrap_or(banned).split("::").collect();
        let fits = |window: &[&str]| {
            let mut pairs = window.iter().zip(&pattern);
            pairs.all(|(segment, pattern)| plan::covers(&[pattern], segment))
        };
        let mut windows = segments.windows(pattern.len());
        match anchored {
            Some(_) => windows.next().is_some_and(fits),
            None => windows.any(fits),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(code: &str) -> Vec<String> {
        let mut findings = Vec::new();
        impurities("a.rs", &Source::parse(code).unwrap(), &mut findings);
        findings.into_iter().map(|finding| finding.place).collect()
    }

    #[test]
    fn impure_code_is_found() {
        for code in [
            "fn f() { let a = Instant::now(); }",
            "fn f() { let a = std::time::Instant::now(); }",
            "use std::time::{Duration, SystemTime};",
            "use std::net::TcpStream;",
            "use std::{fmt, net::{IpAddr, UdpSocket}};",
            "use std::thread;",
            "fn f() { std::thread::sleep(d); }",
            "fn f() { std::env::var(\"X\"); }",
            "use std::fs::File;",
            "fn f() { rand::random::<u8>(); }",
            "use tokio::sync::mpsc;",
            "use std::collections::hash_map::RandomState;",
        ] {
            assert_eq!(found(code), ["a.rs:1"], "{code}");
        }
    }

    #[test]
    fn pure_code_is_not() {
        for code in [
            "use std::net::{IpAddr, SocketAddr};",
            "use std::time::Duration;",
            "// Instant::now() is banned\nfn f(now: Instant) {}",
            "const A: &str = \"std::fs\";",
            "fn f(rand: u64) -> u64 { rand + 1 }",
            "const V: &str = env!(\"CARGO_PKG_VERSION\");",
            "#[cfg(test)]\nmod tests { use std::fs; }",
            "struct thread; fn f() { thread::new(); }",
        ] {
            assert_eq!(found(code), [""; 0], "{code}");
        }
    }

    #[test]
    fn unsafe_is_found_in_tests_too() {
        let count = |code: &str| {
            let mut findings = Vec::new();
            unsafes("a.rs", &Source::parse(code).unwrap(), &mut findings);
            findings.len()
        };
        assert_eq!(count("#[cfg(test)]\nfn f() { unsafe { g() } }"), 1);
        assert_eq!(count("// unsafe\nfn not_unsafe() {}"), 0);
    }
}
