//! Runs all tests, and names and ends one that hangs.
//!
//! Reads what Rust's test programs print: they name a test that runs for a minute, and every test
//! when it is over. With one thread they name a test when it begins.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// More than any test takes, also on a machine where it first downloads the packages of others.
const LIMIT: Duration = Duration::from_mins(10);
/// Time after which a test program reports that a test still runs.
const TOLD_AFTER: Duration = Duration::from_mins(1);
/// Between two looks at the clock.
const GLANCE: Duration = Duration::from_secs(1);

/// Result of a command that runs tests.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    /// With the arguments of cargo that run each test program that failed, if it names them.
    Failed(Vec<String>),
}

/// Runs a command that runs tests, at most `LIMIT` each.
pub(crate) fn run(command: &mut Command) -> Result<Outcome> {
    watched(command, LIMIT, &mut std::io::stdout())
}

fn watched(command: &mut Command, limit: Duration, out: &mut impl Write) -> Result<Outcome> {
    let program = command.get_program().to_string_lossy().into_owned();
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.with_context(|| format!("cannot start {program}"))?;
    let (sender, pieces) = channel();
    let mut output = child.stdout.take().context("a pipe")?;
    thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(count @ 1..) = output.read(&mut piece) {
            if sender.send(piece[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    let errors = BufReader::new(child.stderr.take().context("a pipe")?);
    let errors = thread::spawn(move || failed_programs(errors));
    let mut running = Running::default();
    loop {
        match pieces.recv_timeout(GLANCE.min(limit)) {
            Ok(piece) => {
                out.write_all(&piece)?;
                out.flush()?;
                running.read(&piece, Instant::now());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                if child.wait()?.success() {
                    return Ok(Outcome::Passed);
                }
                return Ok(Outcome::Failed(errors.join().unwrap_or_default()));
            }
        }
        if let Some(name) = running.longer_than(limit, Instant::now()) {
            let minutes = limit.as_secs() / 60;
            writeln!(
                out,
                "\n=== {name} has not ended in {minutes} minutes and is killed"
            )?;
            end(child.id());
            child.wait()?;
            return Ok(Outcome::Failed(Vec::new()));
        }
    }
}

/// Shows what cargo writes; returns the arguments of each test program that it lists as failed.
fn failed_programs(errors: impl BufRead) -> Vec<String> {
    let mut failed = Vec::new();
    for line in errors.lines().map_while(Result::ok) {
        eprintln!("{line}");
        let listed = line
            .strip_prefix("    `-p ")
            .and_then(|it| it.strip_suffix('`'));
        failed.extend(listed.map(|program| format!("-p {program}")));
    }
    failed
}

/// Tests that run, according to the output.
#[derive(Default)]
struct Running {
    /// Beginning of a line whose end has not arrived.
    line: Vec<u8>,
    /// When that line began.
    line_since: Option<Instant>,
    /// Tests reported as still running, each with its start.
    told: BTreeMap<String, Instant>,
}

impl Running {
    fn read(&mut self, bytes: &[u8], now: Instant) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line_since.get_or_insert(now);
            self.line.extend_from_slice(piece);
            if let Some(line) = self.line.strip_suffix(b"\n") {
                let line = String::from_utf8_lossy(line).into_owned();
                self.line.clear();
                self.line_since = None;
                self.whole(&line, now);
            }
        }
    }

    fn whole(&mut self, line: &str, now: Instant) {
        let Some(line) = line.strip_prefix("test ") else {
            return;
        };
        if let Some((name, _)) = line.split_once(" has been running for over ") {
            let since = now.checked_sub(TOLD_AFTER).unwrap_or(now);
            self.told.insert(name.to_owned(), since);
        } else if line.starts_with("result: ") {
            self.told.clear();
        } else if let Some((name, _)) = line.split_once(" ... ") {
            self.told
                .remove(name.strip_suffix(" - should panic").unwrap_or(name));
        }
    }

    fn longer_than(&self, limit: Duration, now: Instant) -> Option<String> {
        let is_long = |since: Instant| now.duration_since(since) >= limit;
        let mut told = self.told.iter();
        if let Some((name, _)) = told.find(|(_, since)| is_long(**since)) {
            return Some(name.clone());
        }
        let line = String::from_utf8_lossy(&self.line);
        let name = line.strip_prefix("test ")?.strip_suffix(" ... ")?;
        let since = self.line_since?;
        is_long(since).then(|| name.to_owned())
    }
}

/// Ends a process and all that it has started, also what is in groups of its own.
fn end(id: u32) {
    let mut all = vec![id];
    let mut at = 0;
    let parents = parents();
    while let Some(parent) = all.get(at).copied() {
        let children = parents.iter().filter(|(_, of)| *of == parent);
        all.extend(children.map(|(child, _)| *child));
        at += 1;
    }
    let all: Vec<String> = all.iter().map(u32::to_string).collect();
    let script = format!("kill -KILL {} 2>&-", all.join(" "));
    // A process that has ended meanwhile is no fault.
    let _ = Command::new("sh").args(["-c", &script]).status();
}

/// All processes, each with its parent.
fn parents() -> Vec<(u32, u32)> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|entry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        // Behind the name, which may hold anything: the state, then the parent.
        let (_, rest) = stat.rsplit_once(") ")?;
        Some((id, rest.split(' ').nth(1)?.parse().ok()?))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_hangs_is_named() {
        let start = Instant::now();
        let at = |minutes| start + Duration::from_mins(minutes);
        let mut running = Running::default();
        let told = b"running 3 tests\ntest a::b has been running for over 60 seconds\n\
            test c has been running for over 60 seconds\ntest d ... ok\ntes";
        running.read(told, at(1));
        running.read(b"t a::b - should panic ... ok\n", at(2));
        assert_eq!(running.longer_than(LIMIT, at(9)), None);
        assert_eq!(running.longer_than(LIMIT, at(10)).as_deref(), Some("c"));
        running.read(b"test result: ok. 3 passed\n", at(11));
        assert_eq!(running.longer_than(LIMIT, at(99)), None);
    }

    #[test]
    fn with_one_thread_the_line_that_has_begun_names_it() {
        let start = Instant::now();
        let at = |minutes| start + Duration::from_mins(minutes);
        let mut running = Running::default();
        running.read(b"test a ... ok\ntest b ... ", at(0));
        assert_eq!(running.longer_than(LIMIT, at(9)), None);
        assert_eq!(running.longer_than(LIMIT, at(10)).as_deref(), Some("b"));
        running.read(b"FAILED\ncompiling", at(11));
        assert_eq!(running.longer_than(LIMIT, at(99)), None);
    }

    /// Also what the test has started is ended: else the pipe stays open, and the run goes on.
    #[test]
    fn a_test_that_hangs_is_ended() {
        let mut command = Command::new("sh");
        let script = "printf 'test a ... '; setsid sleep 600 & sleep 600";
        let (mut held, end) = std::io::pipe().unwrap();
        command.args(["-c", script]).stdin(end);
        let mut out = Vec::new();
        let killed = watched(&mut command, Duration::from_millis(100), &mut out);
        assert_eq!(killed.unwrap(), Outcome::Failed(Vec::new()));
        drop(command);
        // A surviving child holds the other end.
        let (sender, ended) = channel();
        thread::spawn(move || sender.send(held.read_to_end(&mut Vec::new()).is_ok()));
        assert_eq!(ended.recv_timeout(Duration::from_secs(30)), Ok(true));
        let told = String::from_utf8(out).unwrap();
        assert!(told.contains("=== a has not ended"), "{told}");
    }

    #[test]
    fn a_failure_says_which_programs_failed() {
        let ends = |script| {
            let mut command = Command::new("sh");
            watched(command.args(["-c", script]), LIMIT, &mut Vec::new()).unwrap()
        };
        assert_eq!(ends("true"), Outcome::Passed);
        assert_eq!(ends("false"), Outcome::Failed(Vec::new()));
        let listed = r"printf '    `-p a --lib`\n    `-p b --test c`\n' >&2; exit 101";
        let programs = ["-p a --lib", "-p b --test c"].map(str::to_owned);
        assert_eq!(ends(listed), Outcome::Failed(programs.into()));
    }
}
