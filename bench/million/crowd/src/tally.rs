//! What a `crowd hold` counted, as a file of lines that `crowd drive` adds up.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use crate::plan::ROUNDS_MAX;

/// Counters of one process, or the sum over several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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

    /// Sum that grows as long as a phase makes progress. Pings are left out: they never stop.
    pub(crate) fn progress(&self) -> u64 {
        self.opened + self.failed + self.own + self.rounds.iter().sum::<u64>()
    }

    /// Names and places of the plain counters, for both directions of the file.
    fn fields(&mut self) -> Vec<(String, &mut u64)> {
        let mut fields = vec![
            ("attempted".to_owned(), &mut self.attempted),
            ("opened".to_owned(), &mut self.opened),
            ("alive".to_owned(), &mut self.alive),
            ("failed".to_owned(), &mut self.failed),
            ("lost".to_owned(), &mut self.lost),
            ("pings".to_owned(), &mut self.pings),
            ("pinged".to_owned(), &mut self.pinged),
            ("own".to_owned(), &mut self.own),
            ("duplicate".to_owned(), &mut self.duplicate),
            ("stray".to_owned(), &mut self.stray),
            ("garbled".to_owned(), &mut self.garbled),
            ("bytes".to_owned(), &mut self.bytes),
        ];
        let rounds = self.rounds.iter_mut().enumerate();
        fields.extend(rounds.map(|(n, count)| (format!("round_{n}"), count)));
        fields
    }

    pub(crate) fn text(&self) -> String {
        let mut copy = self.clone();
        let reasons = std::mem::take(&mut copy.reasons);
        let mut text = String::new();
        for (name, count) in copy.fields() {
            text += &format!("{name} {count}\n");
        }
        for (reason, count) in reasons {
            text += &format!("because_{reason} {count}\n");
        }
        text
    }

    pub(crate) fn add(&mut self, text: &str) {
        for line in text.lines() {
            let Some((name, Ok(count))) = line.split_once(' ').map(|(n, c)| (n, c.parse::<u64>()))
            else {
                continue;
            };
            if let Some(reason) = name.strip_prefix("because_") {
                *self.reasons.entry(reason.to_owned()).or_default() += count;
            } else if let Some((_, place)) = self.fields().into_iter().find(|(n, _)| n == name) {
                *place += count;
            }
        }
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
    fn tallies_add_up() {
        let mut one = Tally {
            attempted: 5,
            lost: 2,
            ..Tally::default()
        };
        one.rounds[7] = 3;
        one.because("closed by the server");
        let mut sum = Tally::default();
        sum.add(&one.text());
        assert_eq!(sum, one);
        sum.add(&one.text());
        assert_eq!((sum.attempted, sum.rounds[7]), (10, 6));
        assert_eq!(sum.reasons["closed_by_the_server"], 2);
    }
}
