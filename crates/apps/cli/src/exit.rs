//! How a command ends: every exit code once, with its meaning; and why it ended early.
//!
//! Owns: the table of codes. The help text and `docs/exit-codes.md` are made from it.

use std::fmt;
use std::io;
use std::process::ExitCode;

use throng_doctor::Diagnosis;

/// Outcome of the process. The numbers are part of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything that was asked for happened.
    Good,
    /// The answer is no; or something failed for which this table has no other code.
    Failed,
    /// The command line makes no sense.
    Usage,
    /// The doctor was not allowed to change something.
    Unfixed,
    /// The configuration is wrong.
    Config,
    /// No answer from the server.
    Unreachable,
    /// The server said no.
    Refused,
    /// The server could not start.
    Start,
    /// A run of the load generator, whose library has codes of its own.
    Bench(throng_bench_plan::check::BenchExit),
}

/// Code and meaning of every way to end, as rows of a table.
///
/// 10 to 13 belong to `throng bench`, whose library defines them. 130 and 143 come from the shell.
const TABLE: &str = "\
| 0 | Success. Also the end of a server that was told to stop, and of a command whose reader went \
     away, such as `head -1`. |
| 1 | The answer is no: `doctor` found the machine too small, `token check` found a bad token, \
     a protocol did not pass `probe`. Also every failure that no other row names, and every \
     failure of `pushpin-publish`. |
| 2 | A mistake in the command line or in a scenario. |
| 3 | `doctor` was asked to change something and was refused, by the machine or by you. |
| 4 | The configuration is wrong; standard error has every problem with its place. |
| 5 | The server cannot be reached, or does not speak HTTP there; no client of `probe` reached it. |
| 6 | The server refused the request: a missing key, a forbidden channel, a message too large; \
     an `upgrade` that failed: the old process goes on. |
| 7 | The server could not start, mostly because an address is in use. |
| 10 | `bench`: a check failed. |
| 11 | `bench`: a check had no data. |
| 12 | `bench`: no check failed, but the generator was the bottleneck, so the figures are not \
     the server's. |
| 13 | `bench`: the machine cannot hold what was asked for. |
| 130 | Interrupted (SIGINT, Ctrl-C) before it was done. `serve` ends with 0 instead. |
| 143 | Told to end (SIGTERM) before it was done. `serve` ends with 0 instead. |
";

impl Exit {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Good => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Unfixed => 3,
            Self::Config => 4,
            Self::Unreachable => 5,
            Self::Refused => 6,
            Self::Start => 7,
            Self::Bench(exit) => exit.code(),
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

impl From<Diagnosis> for Exit {
    fn from(outcome: Diagnosis) -> Self {
        match outcome {
            Diagnosis::Good => Self::Good,
            Diagnosis::Short => Self::Failed,
            Diagnosis::Unfixed => Self::Unfixed,
        }
    }
}

/// The table as a page, for `docs/exit-codes.md`.
pub(crate) fn reference_text() -> String {
    format!(
        "# Exit codes\n\n\
         Every command of `throng` ends with one of these codes. Errors go to standard error and \
         say what was\n\
         wrong, where, and what to do.\n\n\
         This page is generated from the table of exit codes: `throng reference exit-codes`.\n\n\
         | code | meaning |\n|---|---|\n{TABLE}"
    )
}

/// An error for the person at the terminal.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// Sentence on the mistake and its place, without a full stop.
    pub(crate) what: String,
    /// Sentences on the way out, or the problems one by one.
    pub(crate) advice: Vec<String>,
}

/// Result of a command: the exit, or a failure.
pub(crate) type Result<T = Exit> = std::result::Result<T, Failure>;

impl Failure {
    pub(crate) fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self {
            exit,
            what: what.into(),
            advice: Vec::new(),
        }
    }

    /// A mistake in the command line that only the command itself could find.
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::new(Exit::Usage, what)
    }

    pub(crate) fn failed(what: impl Into<String>) -> Self {
        Self::new(Exit::Failed, what)
    }

    pub(crate) fn unreachable(what: impl Into<String>) -> Self {
        Self::new(Exit::Unreachable, what)
    }

    pub(crate) fn refused(what: impl Into<String>) -> Self {
        Self::new(Exit::Refused, what)
    }

    pub(crate) fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice.push(advice.into());
        self
    }

    /// Returns what was wrong, then what to do, a line each.
    pub(crate) fn into_reasons(self) -> Vec<String> {
        std::iter::once(self.what).chain(self.advice).collect()
    }

    /// Whether no message is printed. A reader of standard output that went away (a broken pipe)
    /// has seen what it wanted: the exit code is that of success.
    pub(crate) fn is_silent(&self) -> bool {
        self.what.is_empty()
    }
}

/// Errors of writing to standard output; everything else is named where it happens.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::new(Exit::Good, "");
        }
        Self::failed(format!("cannot write to standard output: {error}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        for advice in &self.advice {
            write!(f, "\n  {advice}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Exit; 8] = [
        Exit::Good,
        Exit::Failed,
        Exit::Usage,
        Exit::Unfixed,
        Exit::Config,
        Exit::Unreachable,
        Exit::Refused,
        Exit::Start,
    ];

    #[test]
    fn every_code_is_in_the_table_once() {
        let code = |row: &str| row.split(' ').nth(1).unwrap().parse().unwrap();
        let codes: Vec<u8> = TABLE.lines().map(code).collect();
        for exit in ALL {
            let found = codes.iter().filter(|code| **code == exit.code());
            assert_eq!(found.count(), 1, "{exit:?}");
        }
        assert!(codes.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn the_doctor_has_the_codes_that_it_promises() {
        for (outcome, code) in [
            (Diagnosis::Good, 0),
            (Diagnosis::Short, 1),
            (Diagnosis::Unfixed, 3),
        ] {
            assert_eq!(Exit::from(outcome).code(), code);
        }
    }

    #[test]
    fn the_page_is_what_the_table_says() {
        let page = include_str!("../../../../docs/exit-codes.md");
        assert_eq!(
            page,
            reference_text(),
            "run `cargo run -- reference exit-codes > docs/exit-codes.md`"
        );
    }
}
