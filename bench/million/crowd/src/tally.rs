//! Counters of a `crowd hold`, as a file of lines that `guest-crowd` adds up.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use crate::plan::ROUNDS_MAX;

/// Counters of one process.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) attempted: u64,
    /// Answered with 101 and the right `Sec-WebSocket-Accept`, or with 200 and an event stream.
    pub(crate) opened: u64,
    pub(crate) alive: u64,
    /// Never opened: refused by the kernel or by the server.
    pub(crate) failed: u64,
    pub(crate) lost: u64,
    pub(crate) pings: u64,
    /// Connections that got at least one.
    pub(crate) pinged: u64,
    /// Connections that got each broadcast, by its number.
    pub(crate) rounds: [u64; ROUNDS_MAX as usize],
    pub(crate) own: u64,
    pub(crate) duplicate: u64,
    pub(crate) stray: u64,
    /// Messages and protocol bytes that make no sense.
    pub(crate) garbled: u64,
    pub(crate) bytes: u64,
    /// Number of connections that failed or were lost, by reason.
    pub(crate) reasons: BTreeMap<String, u64>,
}

impl Tally {
    pub(crate) fn because(&mut self, reason: &str) {
        *self.reasons.entry(reason.replace(' ', "_")).or_default() += 1;
    }

    /// Lines of a name and a number, which `guest-crowd` adds up over all processes.
    fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, count: u64| text += &format!("{name} {count}\n");
        for (name, count) in [
            ("attempted", self.attempted),
            ("opened", self.opened),
            ("alive", self.alive),
            ("failed", self.failed),
            ("lost", self.lost),
            ("pings", self.pings),
            ("pinged", self.pinged),
            ("own", self.own),
            ("duplicate", self.duplicate),
            ("stray", self.stray),
            ("garbled", self.garbled),
            ("bytes", self.bytes),
        ] {
            line(name, count);
        }
        for (n, &count) in self.rounds.iter().enumerate() {
            line(&format!("round_{n}"), count);
        }
        for (reason, &count) in &self.reasons {
            line(&format!("because_{reason}"), count);
        }
        text
    }

    /// Writes the file in one step: a reader sees the old text or the new.
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        let fresh = path.with_extension("new");
        std::fs::write(&fresh, self.text())?;
        std::fs::rename(&fresh, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_is_a_line_and_so_is_every_reason() {
        let mut tally = Tally {
            attempted: 5,
            lost: 2,
            ..Tally::default()
        };
        tally.rounds[7] = 3;
        tally.because("closed by the server");
        let text = tally.text();
        assert_eq!(text.lines().count(), 12 + 8 + 1);
        for line in [
            "attempted 5",
            "lost 2",
            "round_7 3",
            "because_closed_by_the_server 1",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}");
        }
    }
}
