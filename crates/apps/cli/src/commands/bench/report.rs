//! `throng bench report`: results of a run, two runs side by side, or a page on which to pick them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use throng_bench_report::{Results, compare, comparison_page, report_page, summary};

use super::common::stop_flag;
use super::show::listen;
use crate::console;
use crate::exit::Exit;
use crate::failure::{Failure, Result};

/// Show the results of a run, or compare those of two
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder of a run; with --web the folder in which runs have theirs
    a: PathBuf,
    /// The folder of a run to compare it with
    b: Option<PathBuf>,
    /// Also write a page that opens from disk
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Serve a page here that lists the runs in the folder and compares any two, until Ctrl-C
    #[arg(long, value_name = "ADDR", conflicts_with_all = ["b", "html", "json"])]
    web: Option<SocketAddr>,
}

/// Interval at which the stop flag is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

pub(super) fn run(args: &Args) -> Result {
    if let Some(address) = args.web {
        return serve(address, &args.a);
    }
    let a = read(&args.a)?;
    let (text, page, json) = match &args.b {
        None => (summary(&a), report_page(&a), serde_json::to_string(&a)),
        Some(folder) => {
            let b = read(folder)?;
            let names = (name(&args.a), name(folder));
            (
                compare(&a, &b).to_text(),
                comparison_page(&a, &b, (&names.0, &names.1)),
                serde_json::to_string(&[&a, &b]),
            )
        }
    };
    if let Some(path) = &args.html {
        std::fs::write(path, page).map_err(|error| {
            let failure = format!("cannot write {}: {error}", path.display());
            Failure::new(Exit::Failed, failure)
        })?;
    }
    if args.json {
        let json = json.map_err(|error| {
            Failure::new(Exit::Failed, format!("cannot print results: {error}"))
        })?;
        console::print(json + "\n")?;
    } else {
        console::print(text)?;
    }
    Ok(Exit::Good)
}

fn serve(address: SocketAddr, folder: &Path) -> Result {
    if !folder.is_dir() {
        return Err(
            Failure::usage(format!("{} is not a folder", folder.display()))
                .advise("name the folder in which runs have theirs, such as results"),
        );
    }
    let stop = stop_flag()?;
    let page = listen(address, folder.to_owned())?;
    page.rest();
    console::note(&format!("finished runs: http://{}/", page.address()));
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(Exit::Good)
}

fn name(folder: &Path) -> String {
    folder.file_name().map_or_else(
        || folder.display().to_string(),
        |name| name.to_string_lossy().into_owned(),
    )
}

fn read(folder: &Path) -> Result<Results> {
    let path = folder.join("results.json");
    let results = std::fs::read_to_string(&path).map_err(|error| {
        Failure::usage(format!("cannot read {}: {error}", path.display()))
            .advise("name the folder that a run wrote with --out")
    })?;
    // The series is a file of its own, and a run can be shown without it.
    let series = std::fs::read_to_string(folder.join("series.json")).ok();
    Results::read(&results, series.as_deref())
        .map_err(|error| Failure::new(Exit::Failed, format!("{}: {error}", path.display())))
}
