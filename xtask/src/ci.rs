//! `cargo xtask ci` and `cargo xtask test`: steps in the order that fails soonest.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::watch::Outcome;
use crate::{tidy, tree, watch};

/// Environment variable that limits how many tests run at once, as Rust's test programs read it.
const TEST_THREADS: &str = "RUST_TEST_THREADS";

/// Variables for a build that is not repeated: without what makes the next one quicker, and without
/// line numbers in backtraces; panics name their own anyway.
const ONCE: &[(&str, &str)] = &[("CARGO_INCREMENTAL", "0"), ("CARGO_PROFILE_DEV_DEBUG", "0")];

/// Environment variable by which tests find the server; they build it otherwise, with the features
/// of its own dependencies alone, which are a second build of half of the workspace.
const BINARY: &str = "THRONG_BIN";

/// One step of a run.
struct Step {
    /// Text of the heading.
    name: &'static str,
    /// Variables for its environment.
    variables: &'static [(&'static str, &'static str)],
    /// A program and its arguments, separated by spaces: to run, and to type in order to repeat
    /// the step.
    line: &'static str,
}

/// Runs without another process.
const TIDY: &str = "cargo xtask tidy";

const CI: &[Step] = &[
    INSTALLED,
    step("format", "cargo fmt --all --check"),
    step("tidy", TIDY),
    // Before the long ones. The advisories need a download, see `CONTRIBUTING.md`.
    step(
        "licences",
        "cargo deny --locked check --hide-inclusion-graph bans licenses sources",
    ),
    step(
        "clippy",
        "cargo clippy --locked --workspace --all-targets -- -D warnings",
    ),
    TEST,
    Step {
        name: "documentation",
        variables: &[("RUSTDOCFLAGS", "-D warnings")],
        line: "cargo doc --locked --workspace --no-deps",
    },
    step(
        "fuzz targets",
        "cargo check --manifest-path fuzz/Cargo.toml --target-dir target",
    ),
    // Last, because it builds the server as users get it.
    COUNTS,
];

/// The script knows which programs the tests use, and installs those that are missing.
const INSTALLED: Step = step("programs that tests use", ".ci/install");

/// All failures of a run are told at once.
const TEST: Step = step("test", "cargo test --locked --workspace --no-fail-fast");

/// Test programs that may fail and pass alone. More is a fault, and not a slow machine.
const TRIED_ALONE: usize = 3;

/// Built as users get it: figures of an unoptimised build mean nothing.
const COUNTS: Step = step("counts", "cargo run --locked --release -p throng-counts");

const fn step(name: &'static str, line: &'static str) -> Step {
    Step {
        name,
        variables: &[],
        line,
    }
}

/// Installs what the checks use, then runs all gates.
pub(crate) fn ci() -> Result<bool> {
    run(&tree::root()?, &CI.iter().collect::<Vec<_>>())
}

/// Installs what the tests use, then runs them all.
pub(crate) fn test() -> Result<bool> {
    run(&tree::root()?, &[&INSTALLED, &TEST])
}

/// Counts instructions and allocations, and compares them with what is recorded.
pub(crate) fn counts() -> Result<bool> {
    run(&tree::root()?, &[&COUNTS])
}

/// Counts them and records what was found.
pub(crate) fn record_counts() -> Result<bool> {
    const RECORD: Step = step(
        "counts",
        "cargo run --locked --release -p throng-counts -- --update",
    );
    run(&tree::root()?, &[&RECORD])
}

fn run(root: &Path, steps: &[&Step]) -> Result<bool> {
    let start = Instant::now();
    for (n, step) in steps.iter().enumerate() {
        println!("\n=== {}/{} {}", n + 1, steps.len(), step.name);
        let step_start = Instant::now();
        if !step.run(root)? {
            println!(
                "\n=== {} failed after {}. To run it again:\n    {}",
                step.name,
                shown(step_start.elapsed()),
                step.command()
            );
            return Ok(false);
        }
        println!(
            "=== {} passed in {}",
            step.name,
            shown(step_start.elapsed())
        );
    }
    println!(
        "\n=== all {} steps passed in {}",
        steps.len(),
        shown(start.elapsed())
    );
    Ok(true)
}

/// A program and its arguments, separated by spaces, to run in a folder without input. What it
/// builds is built as for a run of all checks.
fn command_in(root: &Path, line: &str) -> Result<Command> {
    let mut words = line.split(' ');
    let mut command = Command::new(words.next().context("an empty command")?);
    command.args(words).current_dir(root).stdin(Stdio::null());
    let target = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    // Built with all else, before the first test runs.
    let binary = root.join(target).join("debug/throng");
    let once = ONCE.iter().map(|(name, value)| (*name, value.into()));
    let variables = once.chain([(BINARY, binary.into_os_string())]);
    command.envs(variables.filter(|(name, _)| env::var_os(name).is_none()));
    Ok(command)
}

/// Runs test programs that failed once more, one test at a time: real brokers and browsers beside
/// each other can be too much for a small machine. What fails again has failed.
fn alone(programs: &[String], root: &Path) -> Result<bool> {
    if programs.is_empty() || programs.len() > TRIED_ALONE {
        return Ok(false);
    }
    for program in programs {
        println!("\n=== {program} failed; its tests run again, one at a time");
        let mut command = command_in(root, &format!("cargo test --locked {program}"))?;
        if watch::run(command.env(TEST_THREADS, "1"))? != Outcome::Passed {
            return Ok(false);
        }
    }
    println!("\n=== UNSTABLE: passed only alone: {}", programs.join(", "));
    Ok(true)
}

impl Step {
    fn run(&self, root: &Path) -> Result<bool> {
        if self.line == TIDY {
            return tidy::check();
        }
        let mut command = command_in(root, self.line)?;
        if env::var_os(TEST_THREADS).is_none() {
            // Most tests wait for servers and brokers, and leave the processors idle.
            let threads = 2 * available_parallelism().map_or(1, usize::from);
            command.env(TEST_THREADS, threads.to_string());
        }
        command.envs(self.variables.iter().copied());
        match watch::run(&mut command)? {
            Outcome::Passed => Ok(true),
            Outcome::Failed(programs) => alone(&programs, root),
        }
    }

    fn command(&self) -> String {
        let variables = self.variables.iter();
        let variables = variables.map(|(name, value)| format!("{name}='{value}' "));
        variables.chain([self.line.to_owned()]).collect()
    }
}

/// `75 s` is easier to compare than `1 min 15 s`, and a tenth matters below ten.
fn shown(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 10.0 {
        format!("{seconds:.1} s")
    } else {
        format!("{seconds:.0} s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn of(line: &'static str) -> Step {
        Step {
            variables: &[("A", "b c")],
            ..step("step", line)
        }
    }

    #[test]
    fn a_run_stops_at_the_first_failure() {
        let folder = tempfile::tempdir().unwrap();
        let steps = [of("true"), of("false"), of("touch reached")];
        let steps: Vec<&Step> = steps.iter().collect();
        assert!(!run(folder.path(), &steps).unwrap());
        assert!(!folder.path().join("reached").exists());
        assert!(run(folder.path(), &[&of("touch reached")]).unwrap());
        assert!(folder.path().join("reached").exists());
    }

    /// A fresh machine needs the commands of the README and no others, by hand or by `.ci/run`.
    #[test]
    fn the_command_of_the_readme_sets_everything_up_itself() {
        let root = tree::root().unwrap();
        let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
        assert_eq!(CI[0].command(), ".ci/install");
        let readme = read("README.md");
        let tests = readme.find("cargo xtask ci").unwrap();
        assert!(readme.find(".ci/").is_none_or(|at| tests < at));
        let script = read(".ci/run");
        let commands: Vec<&str> = script.lines().filter(|it| !it.starts_with('#')).collect();
        assert_eq!(
            commands,
            ["cd \"$(dirname \"$0\")/..\" && exec cargo xtask ci"]
        );
    }

    #[test]
    fn the_command_can_be_typed() {
        assert_eq!(of("cargo doc").command(), "A='b c' cargo doc");
        assert_eq!(CI[2].command(), "cargo xtask tidy");
    }

    #[test]
    fn a_missing_program_is_an_error_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let error = run(folder.path(), &[&of("no-such-program")]).unwrap_err();
        assert!(format!("{error:#}").contains("no-such-program"));
    }

    #[test]
    fn durations_are_short() {
        assert_eq!(shown(Duration::from_millis(1_240)), "1.2 s");
        assert_eq!(shown(Duration::from_millis(75_400)), "75 s");
    }
}
