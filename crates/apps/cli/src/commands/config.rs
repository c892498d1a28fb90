//! `throng config`: write, check and explain configuration.

use std::path::PathBuf;

use clap::Subcommand;
use serde_json::json;

use crate::access::access;
use crate::commands::config_import;
use crate::commands::new_file::NewFile;
use crate::console::{self, Paint};
use crate::exit::Exit;
use crate::failure::Result;
use crate::load;

/// Write, check or explain the configuration
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Write a file with every option, its meaning and its default, all commented out
    Init {
        /// File to write; `-` is standard output
        #[arg(default_value = "throng.toml")]
        file: PathBuf,
        /// Overwrite a file that is there
        #[arg(long)]
        force: bool,
    },
    /// Check a file together with the environment, and the files that it names
    Check {
        /// The file; without one, defaults and environment are checked
        #[arg(env = "THRONG_CONFIG")]
        file: Option<PathBuf>,
        /// An option as on `throng serve`
        #[arg(long = "set", value_name = "PATH=VALUE", value_parser = load::assignment)]
        set: Vec<(String, String)>,
        /// Print one JSON object on standard output, also if there are problems
        #[arg(long)]
        json: bool,
    },
    /// Write a file from a configuration of Centrifugo, and list what differs
    Import(config_import::Args),
    /// Print every value and where it came from
    Show {
        /// The file; without one, defaults and environment are shown
        #[arg(env = "THRONG_CONFIG")]
        file: Option<PathBuf>,
        /// Show secrets as they are
        #[arg(long)]
        reveal: bool,
        /// An option as on `throng serve`
        #[arg(long = "set", value_name = "PATH=VALUE", value_parser = load::assignment)]
        set: Vec<(String, String)>,
    },
}

/// Does what was asked.
pub(crate) fn run(args: Args) -> Result {
    match args.action {
        Action::Init { file, force } => init(file, force),
        Action::Check { file, set, json } => check(file, set, json),
        Action::Import(args) => config_import::run(&args),
        Action::Show { file, reveal, set } => {
            let loaded = load::merged(file.as_deref(), set)?;
            warn(&loaded.warnings);
            console::print(loaded.show(reveal))?;
            Ok(Exit::Good)
        }
    }
}

fn init(file: PathBuf, force: bool) -> Result {
    let text = throng_config::init_text();
    if file.as_os_str() == "-" {
        console::print(text)?;
        return Ok(Exit::Good);
    }
    let place = file.display();
    let new_file = NewFile {
        force,
        is_secret: false,
        advice: "name another file, or overwrite it with --force",
    };
    new_file.write(&file, &text)?;
    console::print(format!(
        "{place} has every option, all commented out\n\
         next: edit it, then `throng config check {place}` and `throng serve --config {place}`\n"
    ))?;
    Ok(Exit::Good)
}

fn check(file: Option<PathBuf>, set: Vec<(String, String)>, json: bool) -> Result {
    let loaded = load::complete(file.as_deref(), set);
    if json {
        return told(loaded);
    }
    let loaded = loaded?;
    warn(&loaded.warnings);
    let what = file.map_or_else(
        || "the defaults and the environment are good; name a FILE to check one".to_owned(),
        |file| format!("{} is good", file.display()),
    );
    let access = access(&loaded.config);
    let lines = access.iter().map(|line| format!("  access     {line}\n"));
    console::print(format!("{what}\n{}", lines.collect::<String>()))?;
    Ok(Exit::Good)
}

/// Prints the outcome as JSON: `good`, `problems`, `warnings` and `access`, each list of sentences.
fn told(loaded: Result<throng_config::Loaded>) -> Result {
    let (told, exit) = match loaded {
        Ok(loaded) => {
            let access = access(&loaded.config);
            let told = json!({
                "good": true, "problems": [], "warnings": loaded.warnings, "access": access,
            });
            (told, Exit::Good)
        }
        Err(failure) if failure.exit == Exit::Config => {
            let problems = failure.advice();
            let told = json!({ "good": false, "problems": problems, "what": failure.what() });
            (told, Exit::Config)
        }
        Err(failure) => return Err(failure),
    };
    console::print(format!("{told}\n"))?;
    Ok(exit)
}

/// Prints warnings: settings that are allowed but probably not meant.
pub(crate) fn warn(warnings: &[String]) {
    let paint = Paint::stderr();
    for warning in warnings {
        console::note(&format!("{} {warning}", paint.status("warning:")));
    }
}
