//! Events of a run, to read after a failure; and a hash of all of them, to compare two runs.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt::{Display, Write};

/// Events kept of a run that is not printed as it goes.
const KEPT: usize = 80;
/// A longer event is cut where it is shown.
const LINE_BYTES_MAX: usize = 400;

/// Amount of a run that is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Keeps the last events only.
    Last,
    /// Everything, on standard output.
    Print,
}

/// The events of a run.
pub(crate) struct Trace {
    detail: Detail,
    last: RefCell<VecDeque<String>>,
    hash: Cell<u64>,
    line: RefCell<String>,
}

impl Trace {
    pub(crate) const fn new(detail: Detail) -> Self {
        Self {
            detail,
            last: RefCell::new(VecDeque::new()),
            // FNV-1a's offset basis.
            hash: Cell::new(0xcbf2_9ce4_8422_2325),
            line: RefCell::new(String::new()),
        }
    }

    pub(crate) fn note(&self, mono_us: u64, words: impl Display) {
        let mut line = self.line.borrow_mut();
        line.clear();
        let _ = write!(
            line,
            "{:>10}.{:03} ms  {words}",
            mono_us / 1000,
            mono_us % 1000
        );
        let mut hash = self.hash.get();
        for byte in line.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.hash.set(hash);
        let end = line.floor_char_boundary(LINE_BYTES_MAX);
        line.truncate(end);
        if self.detail == Detail::Print {
            println!("{line}");
        }
        let mut last = self.last.borrow_mut();
        let mut kept = if last.len() == KEPT {
            last.pop_front().unwrap_or_default()
        } else {
            String::new()
        };
        kept.clear();
        kept.push_str(&line);
        last.push_back(kept);
    }

    /// The hash of all events so far.
    pub(crate) const fn hash(&self) -> u64 {
        self.hash.get()
    }

    /// Returns the last events, oldest first.
    pub(crate) fn last(&self) -> Vec<String> {
        self.last.borrow().iter().cloned().collect()
    }
}
