//! Views of a run that goes on: a screen on a terminal, one line a second elsewhere,
//! nothing with --json; and a page and statsd where they are asked for.

use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use throng_bench_plan::{Scenario, StatsdExport};
use throng_bench_report::live::{History, Page, ProgressLines, RunningStats, Screen, Statsd};
use throng_bench_report::{Observer, Snapshot};

use super::common::Common;
use crate::console;
use crate::exit::Exit;
use crate::failure::{Failure, Result};

/// The views that were asked for.
#[derive(Default)]
pub(super) struct Show {
    lines: Option<ProgressLines>,
    screen: Option<Screen>,
    stats: Option<RunningStats>,
    page: Option<Page>,
    statsd: Option<Statsd>,
}

impl Show {
    pub(super) fn new(scenario: &Scenario, common: &Common) -> Result<Self> {
        let page = { common.progress.web }
            .map(|address| listen(address, beside(common.results.out.as_deref())))
            .transpose()?;
        let export = match &common.progress.statsd {
            Some(to) => Some(export(to)?),
            None => scenario.statsd.clone(),
        };
        let statsd = export.as_ref().map(statsd).transpose()?;
        let mut show = Self {
            page,
            statsd,
            ..Self::default()
        };
        if common.results.json {
            return Ok(show);
        }
        if let Some(page) = &show.page {
            console::note(&format!("live page: http://{}/", page.address()));
        }
        if common.progress.running_stats {
            show.stats = Some(RunningStats::default());
        } else if std::io::stderr().is_terminal() && !common.progress.plain && is_able() {
            show.screen = Screen::open().ok();
        }
        if show.screen.is_none() && show.stats.is_none() {
            show.lines = Some(ProgressLines);
        }
        Ok(show)
    }
}

/// Returns true if the terminal has a cursor; others get lines.
fn is_able() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Folder of finished runs: beside the folder of this one, or as in the examples.
fn beside(out: Option<&Path>) -> PathBuf {
    match out.and_then(Path::parent) {
        Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
        Some(parent) => parent.to_owned(),
        None => PathBuf::from("results"),
    }
}

/// Serves the live page, which lists the finished runs of a folder.
pub(super) fn listen(address: SocketAddr, finished: PathBuf) -> Result<Page> {
    Page::listen(address, History::new(finished)).map_err(|error| {
        let failure = format!("cannot serve the live page at {address}: {error}");
        Failure::new(Exit::Start, failure)
    })
}

fn export(to: &str) -> Result<StatsdExport> {
    let wrong = || Failure::usage(format!("--statsd `{to}`: write HOST:PORT"));
    let (host, port) = to.rsplit_once(':').ok_or_else(wrong)?;
    Ok(StatsdExport {
        host: host.trim_matches(['[', ']']).to_owned(),
        port: port.parse().map_err(|_| wrong())?,
        ..StatsdExport::default()
    })
}

fn statsd(export: &StatsdExport) -> Result<Statsd> {
    Statsd::new(export).map_err(|error| {
        let to = format!("{}:{}", export.host, export.port);
        let failure = format!("cannot send statsd lines to {to}: {error}");
        Failure::new(Exit::Unreachable, failure)
    })
}

impl Observer for Show {
    fn on_row(&mut self, snapshot: &Snapshot<'_>) {
        if let Some(screen) = &mut self.screen {
            screen.on_row(snapshot);
        }
        if let Some(lines) = self.lines {
            console::note(&lines.line(snapshot));
        }
        if let Some(block) = self.stats.as_mut().and_then(|stats| stats.block(snapshot)) {
            console::note(&block);
        }
        if let Some(page) = &mut self.page {
            page.on_row(snapshot);
        }
        if let Some(statsd) = &mut self.statsd {
            statsd.on_row(snapshot);
        }
    }
}
