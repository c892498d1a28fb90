//! What happened last, for whoever reads a failure.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use throng_types::Now;

/// Events kept of a run that is not printed as it goes.
const KEPT: usize = 60;

/// A longer event is cut.
const LINE_BYTES_MAX: usize = 300;

#[derive(Default)]
struct Events {
    last: VecDeque<String>,
    step: usize,
}

/// How much of a run is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Only the number of the step: a run that is expected to pass.
    Nothing,
    /// The last events.
    Last,
    /// Everything, on standard output.
    Print,
}

/// A log that outlives the run, also when the run panics.
#[derive(Clone)]
pub(crate) struct Trace {
    detail: Detail,
    events: Rc<RefCell<Events>>,
}

impl Trace {
    pub(crate) fn new(detail: Detail) -> Self {
        Self {
            detail,
            events: Rc::default(),
        }
    }

    pub(crate) fn at_step(&self, step: usize) {
        self.events.borrow_mut().step = step;
    }

    pub(crate) fn note(&self, step: usize, now: Now, words: impl FnOnce() -> String) {
        if self.detail == Detail::Nothing {
            return;
        }
        let mut line = format!("{step:>6} {:>10} ms  {}", now.mono.0, words());
        line.truncate(line.floor_char_boundary(LINE_BYTES_MAX));
        if self.detail == Detail::Print {
            println!("{line}");
        }
        let mut events = self.events.borrow_mut();
        if events.last.len() == KEPT {
            events.last.pop_front();
        }
        events.last.push_back(line);
    }

    /// The last step that was begun, and the last events.
    pub(crate) fn end(&self) -> (usize, Vec<String>) {
        let events = self.events.borrow();
        (events.step, events.last.iter().cloned().collect())
    }
}
