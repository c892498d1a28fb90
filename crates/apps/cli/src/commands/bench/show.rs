//! How a run is shown while it goes on: a screen on a terminal, one line a second elsewhere, nothing with --json.

use throng_bench::plan::Scenario;
use throng_bench::run::{Observer, Snapshot};
use throng_bench::{RunOptions, live};

use super::Common;
use crate::console;
use crate::failure::Result;

/// See the module's head.
pub(super) struct Show {
    lines: Option<live::Lines>,
}

impl Show {
    pub(super) fn new(_: &Scenario, common: &Common, _: &RunOptions) -> Result<Self> {
        Ok(Self {
            lines: (!common.json).then(live::Lines::default),
        })
    }
}

impl Observer for Show {
    fn on_row(&mut self, snapshot: &Snapshot<'_>) {
        if let Some(lines) = &mut self.lines {
            console::note(&lines.line(snapshot));
        }
    }
}
