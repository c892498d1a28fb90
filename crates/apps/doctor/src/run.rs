//! Whole diagnosis, for the command line.

use std::io::{self, Write};
use std::path::PathBuf;

use crate::apply::{Applied, ChangeOutcome, apply};
use crate::apply::{PersistedFile, persist, write_persisted};
use crate::assess::assess;
use crate::machine::Machine;
use crate::plan::Plan;
use crate::report::{CheckStatus, Fix, Report};
use crate::text::render_json;
use crate::text::render_text;

/// Options of the command line.
#[derive(Clone, Debug)]
pub struct Options {
    /// Root of the machine: `/`, or a tree laid out like it.
    pub root: PathBuf,
    /// Process to judge; `None` is this one. A running server's limits may differ from
    /// those of the shell.
    pub pid: Option<u32>,
    /// Plan to judge the machine against.
    pub plan: Plan,
    /// True to lift limits now.
    pub fix: bool,
    /// True to keep them lifted after a reboot.
    pub persist: bool,
    /// True to change without asking.
    pub yes: bool,
    /// True to write JSON instead of text.
    pub json: bool,
    /// Name of the systemd service that `persist` writes a drop-in for, without `.service`.
    pub unit: String,
}

impl Options {
    /// Makes options for this machine that change nothing.
    pub fn new(plan: Plan) -> Self {
        Self {
            root: PathBuf::from("/"),
            pid: None,
            plan,
            fix: false,
            persist: false,
            yes: false,
            json: false,
            unit: String::from("throng"),
        }
    }
}

/// Diagnosis of a diagnosis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Diagnosis {
    /// No check failed; there may be warnings.
    Good,
    /// At least one check fails for the number of connections asked for.
    Short,
    /// A change was asked for and at least one line was refused, or the answer was no.
    Unfixed,
}

/// Diagnoses, and makes the changes that were asked for.
///
/// The report describes the machine after the changes. `ask` gets the lines at stake and returns
/// true for yes; with `yes` it is not called. Errors: those of writing to `out`. Refusals of the
/// machine are in the report.
pub fn run(
    options: &Options,
    out: &mut dyn Write,
    ask: &mut dyn FnMut(&str) -> bool,
) -> io::Result<Diagnosis> {
    let look = || {
        assess(
            &Machine::read_for(&options.root, options.pid),
            &options.plan,
        )
    };
    let before = look();
    let mut changes = Changes {
        options,
        ask,
        applied: Vec::new(),
        refused: false,
    };
    if options.fix {
        changes.fix(&before);
    }
    if options.persist {
        // From the report before the fix: a limit lifted just now still has to be kept.
        changes.keep(persist(&options.root, &before, &options.unit));
    }
    let Changes {
        applied, refused, ..
    } = changes;
    let after = if options.fix { look() } else { before };
    if options.json {
        out.write_all(render_json(&after, &applied)?.as_bytes())?;
    } else {
        out.write_all(render_text(&after).as_bytes())?;
        write_applied(&applied, out)?;
    }
    Ok(match after.status() {
        _ if refused => Diagnosis::Unfixed,
        CheckStatus::Fail => Diagnosis::Short,
        CheckStatus::Ok | CheckStatus::Info | CheckStatus::Unknown | CheckStatus::Warn => {
            Diagnosis::Good
        }
    })
}

struct Changes<'a> {
    options: &'a Options,
    ask: &'a mut dyn FnMut(&str) -> bool,
    applied: Vec<Applied>,
    refused: bool,
}

impl Changes<'_> {
    fn fix(&mut self, report: &Report) {
        let lines = report.checks.iter().flat_map(|check| &check.fix);
        let lines = lines.filter(|fix| matches!(fix, Fix::Sysctl { .. }));
        let lines: Vec<String> = lines.map(|fix| format!("  {}\n", fix.line())).collect();
        if lines.is_empty() || !self.agreed(&format!("Apply now:\n{}", lines.concat())) {
            return;
        }
        self.add(apply(&self.options.root, report));
    }

    fn keep(&mut self, files: Vec<PersistedFile>) {
        for file in files {
            let line = format!("/{}", file.path);
            if !self.agreed(&format!("Write {line}:\n{}", file.text)) {
                continue;
            }
            let effect = match write_persisted(&self.options.root, &file) {
                Ok(()) => ChangeOutcome::Done,
                Err(error) => ChangeOutcome::Refused(format!("{error}; needs root")),
            };
            let done = effect == ChangeOutcome::Done;
            self.add(vec![Applied { line, effect }]);
            if done {
                let effect = ChangeOutcome::ByHand(String::from("makes the file count now"));
                let line = file.activate.to_owned();
                self.add(vec![Applied { line, effect }]);
            }
        }
    }

    fn agreed(&mut self, question: &str) -> bool {
        let agreed = self.options.yes || (self.ask)(question);
        self.refused |= !agreed;
        agreed
    }

    fn add(&mut self, applied: Vec<Applied>) {
        let is_refused = |line: &Applied| matches!(line.effect, ChangeOutcome::Refused(_));
        self.refused |= applied.iter().any(is_refused);
        self.applied.extend(applied);
    }
}

fn write_applied(applied: &[Applied], out: &mut dyn Write) -> io::Result<()> {
    if applied.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nChanges")?;
    for Applied { line, effect } in applied {
        let name = effect.name();
        match effect.note() {
            Some(note) => writeln!(out, "  {name:<8}  {line}   ({note})")?,
            None => writeln!(out, "  {name:<8}  {line}")?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
