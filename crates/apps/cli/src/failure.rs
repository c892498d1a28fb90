//! Why a command ended early: what was wrong, where, and what to do.

use std::fmt;
use std::io;

use crate::exit::Exit;

/// An error for the person at the terminal.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Exit code of the process.
    pub(crate) exit: Exit,
    what: String,
    advice: Vec<String>,
}

/// Result of a command: the exit, or a failure.
pub(crate) type Result<T = Exit> = std::result::Result<T, Failure>;

impl Failure {
    /// `what` says what was wrong and where, without a full stop.
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

    pub(crate) fn what(&self) -> &str {
        &self.what
    }

    /// Returns what to do, or the problems one by one.
    pub(crate) fn advice(&self) -> &[String] {
        &self.advice
    }

    /// Returns what was wrong, then what to do, a line each.
    pub(crate) fn into_reasons(self) -> Vec<String> {
        std::iter::once(self.what).chain(self.advice).collect()
    }

    /// A reader that went away has seen what it wanted, so no message is printed.
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
