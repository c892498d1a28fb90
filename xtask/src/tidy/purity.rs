//! Purity: no clock, chance, sockets, threads, files or environment in pure rooms, and `unsafe` in
//! one room.
//!
//! Clippy bans the same things by resolved path (`clippy.toml` in each pure room). This check needs
//! no compilation, also sees types and whole modules, and fails in the second that `tidy` takes.

use crate::finding::Finding;
use crate::paths::paths;
use crate::plan::{self, PLAN};
use crate::source::Source;
use crate::tree::{Tree, is_test_file};

/// A path that pure code may not name, and what to do instead.
struct Ban {
    /// Consecutive segments; `Tcp*` covers any ending. A leading `::` means "from the first
    /// segment".
    path: &'static str,
    instead: &'static str,
}

const fn ban(path: &'static str, instead: &'static str) -> Ban {
    Ban { path, instead }
}

const TIME: &str = "take `now` as an argument";
const CHANCE: &str = "take the seed or the bytes as an argument";
const KERNEL: &str = "return what should be done, and let the shell do it";
const OUTSIDE: &str = "take the text or the values as an argument";

const BANS: &[Ban] = &[
    ban("Instant::now", TIME),
    ban("SystemTime", TIME),
    ban("::rand::*", CHANCE),
    ban("::getrandom::*", CHANCE),
    ban("RandomState", CHANCE),
    ban("std::net::Tcp*", KERNEL),
    ban("std::net::Udp*", KERNEL),
    ban("std::os", KERNEL),
    ban("std::thread", KERNEL),
    ban("std::process", KERNEL),
    ban("std::fs", OUTSIDE),
    ban("std::env", OUTSIDE),
    ban("::tokio::*", KERNEL),
    ban("::mio::*", KERNEL),
    ban("::libc::*", KERNEL),
];

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
        if let Some(ban) = BANS.iter().find(|ban| ban.covers(&found.path)) {
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

impl Ban {
    fn covers(&self, path: &str) -> bool {
        let (pattern, anchored) = match self.path.strip_prefix("::") {
            Some(pattern) => (pattern, true),
            None => (self.path, false),
        };
        let pattern: Vec<_> = pattern.split("::").collect();
        let segments: Vec<_> = path.split("::").collect();
        let mut windows = segments.windows(pattern.len());
        let fits = |window: &[&str]| {
            window
                .iter()
                .zip(&pattern)
                .all(|(segment, pattern)| plan::covers(&[pattern], segment))
        };
        if anchored {
            windows.next().is_some_and(fits)
        } else {
            windows.any(fits)
        }
    }
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
