//! `throng bench run` and `throng bench tcpkali`: scenarios from files, ours or Tsung's, and from
//! the command line of TCPKali.

use std::path::{Path, PathBuf};

use throng_bench_plan::import::{Imported, TsungOptions, read_tcpkali, read_tsung};
use throng_bench_plan::{Scenario, Target, read_toml_with};
use throng_types::units::parse_duration_us;

use super::common::Common;
use super::execute::{bad_scenario, execute};
use super::load::read_data;
use crate::console;
use crate::failure::{Failure, Result};

/// Run a scenario: a TOML file, or the XML of Tsung
#[derive(Debug, clap::Args)]
#[command(after_help = "Example, a file groups.toml:
  scenario = \"fan-out\"
  targets = [\"ws://127.0.0.1:8000/ws?channel={channel:url}\"]
  channels = \"group-{n%10}\"
  duration = \"1m\"
  checks = [\"missing==0\", \"p99<50ms\"]
  [connect]
  clients = 1000
  rate = \"100/s\"
  [publish]
  to = \"http://127.0.0.1:8001\"
  rate = \"50/s\"
Every key, template and check: docs/guides/load-testing.md.")]
pub(crate) struct Args {
    /// The scenario; a file whose name ends in .xml is read as Tsung's
    file: PathBuf,
    /// Go here instead of where the file says; several nodes with commas between, whose clients are
    /// dealt out evenly
    #[arg(long = "target", value_name = "URL", value_delimiter = ',', value_parser = Target::parse)]
    targets: Vec<Target>,
    /// Multiply numbers of clients and rates: 0.001
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    scale: Option<f64>,
    /// An upper bound of the whole run: 10s
    #[arg(long, value_name = "TIME", value_parser = parse_duration_us)]
    duration: Option<u64>,
    #[command(flatten)]
    common: Common,
}

fn factor(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if factor > 0.0 && factor <= 1e6 => Ok(factor),
        _ => Err(format!("`{text}` is not a factor above 0, such as 0.001")),
    }
}

pub(super) fn run(args: Args) -> Result {
    let text = std::fs::read_to_string(&args.file)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", args.file.display())))?;
    let Imported { scenario, notes } = if is_xml(&args.file, &text) {
        let options = TsungOptions {
            target: args.targets.first().cloned(),
            scale: args.scale.unwrap_or(1.0),
            duration_us: args.duration,
        };
        let mut imported = read_tsung(&text, &options)
            .map_err(|problem| bad_scenario(&args.file.display().to_string(), vec![problem]))?;
        go_to(&mut imported.scenario.targets, &args.targets);
        imported
    } else {
        // Files that it names are beside it.
        let folder = args.file.parent().unwrap_or_else(|| Path::new(""));
        let scenario = read_toml_with(&text, &|name| read_data(&folder.join(name)))
            .map_err(|problems| bad_scenario(&args.file.display().to_string(), problems))?;
        Imported {
            scenario: adapted(scenario, &args),
            notes: Vec::new(),
        }
    };
    imported(scenario, &args.common, notes)
}

/// Run a command line of TCPKali
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  throng bench tcpkali -- -c 250 --connect-rate 200 -T 10s --ws 127.0.0.1:8000/ws")]
pub(crate) struct TcpkaliArgs {
    #[command(flatten)]
    common: Common,
    /// Arguments as they would follow `tcpkali`
    #[arg(last = true, required = true, value_name = "ARGUMENTS")]
    arguments: Vec<String>,
}

pub(super) fn run_tcpkali(args: TcpkaliArgs) -> Result {
    let Imported { scenario, notes } = read_tcpkali(&args.arguments).map_err(Failure::usage)?;
    imported(scenario, &args.common, notes)
}

fn imported(scenario: Scenario, common: &Common, notes: Vec<String>) -> Result {
    for note in &notes {
        console::note(&format!("note: {note}"));
    }
    execute(scenario, common, true, notes)
}

fn is_xml(path: &Path, text: &str) -> bool {
    path.extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("xml"))
        || text.trim_start().starts_with("<?xml")
}

fn adapted(mut scenario: Scenario, args: &Args) -> Scenario {
    go_to(&mut scenario.targets, &args.targets);
    if let Some(factor) = args.scale {
        scenario.scale(factor);
    }
    if let Some(bound_us) = args.duration {
        scenario.bound_duration(bound_us);
    }
    scenario
}

/// Replaces the targets by the given ones, if there are any.
fn go_to(targets: &mut Vec<Target>, given: &[Target]) {
    if given.is_empty() {
        return;
    }
    // A path of `/` is what a URL without one has, and keeps the file's.
    let path = targets.first().map(|first| first.path.clone());
    let there = given.iter().map(|target| match &path {
        Some(path) if target.path == "/" => target.with_path(path),
        _ => target.clone(),
    });
    *targets = there.collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_targets_keep_the_path_of_the_file() {
        let parse = |url: &str| Target::parse(url).unwrap();
        let mut targets = vec![parse("ws://a:1/ws")];
        go_to(&mut targets, &[]);
        assert_eq!(targets, [parse("ws://a:1/ws")]);
        go_to(&mut targets, &[parse("ws://b:1"), parse("ws://c:2/other")]);
        assert_eq!(targets, [parse("ws://b:1/ws"), parse("ws://c:2/other")]);
    }
}
