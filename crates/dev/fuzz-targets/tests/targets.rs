//! Every target on its seeds, on their prefixes and on mutations of them.
//!
//! `THRONG_FUZZ` is the number of mutations of each target, `THRONG_FUZZ_ONLY` the start of the
//! names of those to run.

use std::env;
use std::fs;
use std::panic;
use std::path::Path;
use std::thread;

use throng_fuzz_targets::drive::drive;
use throng_fuzz_targets::{ALL, Target};

/// Some seconds in a debug build.
const MUTATIONS: usize = 2000;

#[test]
fn no_target_fails() {
    let mutations = match env::var("THRONG_FUZZ") {
        Ok(number) => number.parse().expect("THRONG_FUZZ is a number"),
        Err(_) => MUTATIONS,
    };
    let only = env::var("THRONG_FUZZ_ONLY").unwrap_or_default();
    // Failures are reported below; on the way to a small input there are hundreds.
    panic::set_hook(Box::new(|_| {}));
    let run = |target: &'static Target| {
        // A thread that overflows its stack takes the process along, but prints its name.
        let thread = thread::Builder::new().name(target.name.to_owned());
        let drive = move || drive(target, mutations);
        thread.spawn(drive).expect("threads")
    };
    let all: Vec<_> = ALL
        .iter()
        .filter(|target| target.name.starts_with(&only))
        .map(run)
        .collect();
    let failures: Vec<String> = all
        .into_iter()
        .filter_map(|thread| thread.join().expect("a driver does not panic").err())
        .map(|failure| failure.to_string())
        .collect();
    let _ = panic::take_hook();
    assert!(failures.is_empty(), "\n{}\n", failures.join("\n"));
}

#[test]
fn seeds_are_there_and_small() {
    for target in ALL {
        let seeds = target.seeds();
        assert!(!seeds.is_empty(), "{}", target.name);
        for seed in seeds {
            assert!(seed.len() <= 600, "{}: {} bytes", target.name, seed.len());
        }
    }
}

/// cargo-fuzz needs an entry for each target.
#[test]
fn fuzz_has_every_target() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz");
    let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).expect("fuzz/Cargo.toml");
    assert_eq!(
        manifest.matches("[[bin]]").count(),
        ALL.len(),
        "an entry without a target"
    );
    for Target { name, .. } in ALL {
        let entry = format!(
            "[[bin]]\nname = \"{name}\"\npath = \"target.rs\"\ntest = false\ndoc = false\n\
             bench = false\n"
        );
        assert!(manifest.contains(&entry), "fuzz/Cargo.toml lacks\n{entry}");
    }
}
