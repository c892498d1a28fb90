//! Standard output and error: colours on terminals alone, and no panic when a reader goes away.
//!
//! The macros of the standard library panic on a broken pipe, so nothing here uses them.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use crate::exit::Failure;

const BOLD: &str = "\x1b[1m";
const RED: &str = "\x1b[1;31m";
const YELLOW: &str = "\x1b[1;33m";
const GREEN: &str = "\x1b[1;32m";
const RESET: &str = "\x1b[0m";

/// Whether text may be coloured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint(bool);

impl Paint {
    /// Returns the choice for standard output.
    pub(crate) fn stdout() -> Self {
        Self(io::stdout().is_terminal() && wanted())
    }

    /// Returns the choice for standard error.
    pub(crate) fn stderr() -> Self {
        Self(io::stderr().is_terminal() && wanted())
    }

    /// Never colours, for texts that tests compare.
    #[cfg(test)]
    pub(crate) const fn none() -> Self {
        Self(false)
    }

    /// Whether there will be colour.
    pub(crate) fn is_on(self) -> bool {
        self.0
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.with(BOLD, text)
    }

    /// Colours a status word as the doctor's table does.
    pub(crate) fn status(self, text: &str) -> String {
        match text.to_ascii_lowercase().trim() {
            "ok" | "done" => self.with(GREEN, text),
            "warn" | "unknown" | "warning:" => self.with(YELLOW, text),
            "fail" | "refused" | "error:" => self.with(RED, text),
            _ => text.to_owned(),
        }
    }

    fn with(self, colour: &str, text: &str) -> String {
        if self.0 {
            format!("{colour}{text}{RESET}")
        } else {
            text.to_owned()
        }
    }
}

/// The convention of no-color.org, and terminals that know no colour.
fn wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Writes to standard output and flushes, so that a reader in a pipe sees it now.
pub(crate) fn print(text: impl AsRef<[u8]>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_ref())?;
    out.flush()
}

/// Prints a note beside the results, on standard error. A closed stream is ignored.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

pub(crate) fn report(failure: &Failure) {
    if !failure.is_silent() {
        note(&format!("{} {failure}", Paint::stderr().status("error:")));
    }
}

/// Asks on the terminal. Without a terminal the answer is no.
pub(crate) fn ask(question: &str) -> bool {
    if !io::stdin().is_terminal() {
        note(&format!(
            "{question}there is no terminal to confirm on: add --yes to go ahead"
        ));
        return false;
    }
    let _ = write!(io::stderr().lock(), "{question}Go ahead? [y/N] ");
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes" | "Yes")
}
