//! `cargo xtask ci` and `cargo xtask test`: steps in the order that fails soonest.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::{tidy, tree};

/// The script that knows which programs the tests use.
const INSTALL: &str = ".ci/install";

/// One step of a run.
struct Step {
    /// What the heading says.
    name: &'static str,
    /// What runs, and what to type to run it again.
    action: Action,
}

enum Action {
    /// `tidy`, without another process.
    Tidy,
    /// A program and its arguments, after variables for its environment.
    Run(
        &'static [(&'static str, &'static str)],
        &'static [&'static str],
    ),
}

const DENY_WARNINGS: &[(&str, &str)] = &[("RUSTDOCFLAGS", "-D warnings")];

const CI: &[Step] = &[
    Step {
        name: "format",
        action: Action::Run(&[], &["cargo", "fmt", "--all", "--check"]),
    },
    Step {
        name: "tidy",
        action: Action::Tidy,
    },
    Step {
        name: "clippy",
        action: Action::Run(
            &[],
            &[
                "cargo",
                "clippy",
                "--locked",
                "--workspace",
                "--all-targets",
                "--",
                "-D",
                "warnings",
            ],
        ),
    },
    TEST,
    Step {
        name: "documentation",
        action: Action::Run(
            DENY_WARNINGS,
            &["cargo", "doc", "--locked", "--workspace", "--no-deps"],
        ),
    },
];

const TEST: Step = Step {
    name: "test",
    action: Action::Run(&[], &["cargo", "test", "--locked", "--workspace"]),
};

/// Licences and bans; the advisories need a download and have their own line in `CONTRIBUTING.md`.
const DENY: Step = Step {
    name: "deny",
    action: Action::Run(
        &[],
        &[
            "cargo",
            "deny",
            "--locked",
            "check",
            "--hide-inclusion-graph",
            "bans",
            "licenses",
            "sources",
        ],
    ),
};

/// All gates. A program that a test needs and that is missing is said first, and fails its test
/// later.
pub(crate) fn ci() -> Result<bool> {
    let root = tree::root()?;
    let script = root.join(INSTALL);
    let complete = Command::new(&script)
        .arg("--check")
        .current_dir(&root)
        .status()
        .with_context(|| format!("cannot start {INSTALL}"))?;
    if !complete.success() {
        println!("warning: the tests that use them will fail; `cargo xtask test` installs them");
    }
    let mut steps: Vec<&Step> = CI.iter().collect();
    if installed("cargo-deny") {
        steps.push(&DENY);
    } else {
        println!(
            "note: licences are not checked; `cargo install cargo-deny --locked` brings the checker"
        );
    }
    run(&root, &steps)
}

/// Installs what the tests use, then runs them all.
pub(crate) fn test() -> Result<bool> {
    let install = Step {
        name: "programs that tests use",
        action: Action::Run(&[], &[INSTALL]),
    };
    run(&tree::root()?, &[&install, &TEST])
}

fn run(root: &Path, steps: &[&Step]) -> Result<bool> {
    let start = Instant::now();
    for (n, step) in steps.iter().enumerate() {
        println!("\n=== {}/{} {}", n + 1, steps.len(), step.name);
        let step_start = Instant::now();
        if !step.action.run(root)? {
            println!(
                "\n=== {} failed after {}. To run it again:\n    {}",
                step.name,
                shown(step_start.elapsed()),
                step.action.command()
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

impl Action {
    fn run(&self, root: &Path) -> Result<bool> {
        match self {
            Self::Tidy => tidy::check(),
            Self::Run(variables, line) => {
                let (program, arguments) = line.split_first().context("an empty command")?;
                let status = Command::new(program)
                    .args(arguments)
                    .envs(variables.iter().copied())
                    .current_dir(root)
                    .stdin(Stdio::null())
                    .status()
                    .with_context(|| format!("cannot start {program}"))?;
                Ok(status.success())
            }
        }
    }

    fn command(&self) -> String {
        match self {
            Self::Tidy => "cargo xtask tidy".to_owned(),
            Self::Run(variables, line) => variables
                .iter()
                .map(|(name, value)| format!("{name}='{value}' "))
                .chain([line.join(" ")])
                .collect(),
        }
    }
}

fn installed(program: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
    })
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

    const fn step(line: &'static [&'static str]) -> Step {
        Step {
            name: "step",
            action: Action::Run(&[("A", "b c")], line),
        }
    }

    #[test]
    fn a_run_stops_at_the_first_failure() {
        let folder = tempfile::tempdir().unwrap();
        let steps = [
            step(&["true"]),
            step(&["false"]),
            step(&["touch", "reached"]),
        ];
        let steps: Vec<&Step> = steps.iter().collect();
        assert!(!run(folder.path(), &steps).unwrap());
        assert!(!folder.path().join("reached").exists());
        assert!(run(folder.path(), &[&step(&["touch", "reached"])]).unwrap());
        assert!(folder.path().join("reached").exists());
    }

    #[test]
    fn the_command_can_be_typed() {
        assert_eq!(
            step(&["cargo", "doc"]).action.command(),
            "A='b c' cargo doc"
        );
        assert_eq!(Action::Tidy.command(), "cargo xtask tidy");
    }

    #[test]
    fn a_missing_program_is_an_error_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let error = run(folder.path(), &[&step(&["no-such-program"])]).unwrap_err();
        assert!(format!("{error:#}").contains("no-such-program"));
        assert!(!installed("no-such-program"));
        assert!(installed("cargo"));
    }

    #[test]
    fn durations_are_short() {
        assert_eq!(shown(Duration::from_millis(1_240)), "1.2 s");
        assert_eq!(shown(Duration::from_millis(75_400)), "75 s");
    }
}
