//! `throng config import`: a Centrifugo configuration as one of ours.

use std::path::{Path, PathBuf};

use throng_config::centrifugo::{Effect, ImportNote, import, put_variables};
use throng_config::{Config, ConfigFile, Sources};

use crate::commands::new_file::NewFile;
use crate::console::{self, Paint};
use crate::exit::Exit;
use crate::failure::{Failure, Result};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The configuration of Centrifugo 4, 5 or 6: JSON, TOML or YAML by the name's ending
    #[arg(required_unless_present = "env")]
    file: Option<PathBuf>,
    /// Read the variables CENTRIFUGO_… of this environment, too; they go before the file
    #[arg(long)]
    env: bool,
    /// File to write ours to; `-` is standard output
    #[arg(long, value_name = "FILE", default_value = "throng.toml")]
    out: PathBuf,
    /// Overwrite a file that is there
    #[arg(long)]
    force: bool,
}

/// Translates, writes, and prints what differs.
pub(crate) fn run(args: &Args) -> Result {
    let file = args.file.as_deref();
    let name = file.map(|file| file.display().to_string());
    let name = name.unwrap_or_else(|| "variables CENTRIFUGO_…".to_owned());
    let mut tree = file.map(read).transpose()?.unwrap_or_default();
    if args.env {
        let variables = std::env::vars_os();
        let variables = variables.filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        put_variables(&mut tree, variables);
    }
    let imported = import(&name, &tree);
    let place = args.out.display().to_string();
    let is_file = args.out.as_os_str() != "-";
    if is_file {
        let new_file = NewFile {
            force: args.force,
            is_secret: true,
            advice: "name another file with --out, or overwrite it with --force",
        };
        new_file.write(&args.out, &imported.text)?;
        console::print(format!("{place} is written\n"))?;
    } else {
        console::print(&imported.text)?;
    }
    tell(&imported.notes);
    let problems = problems(&place, imported.text);
    let paint = Paint::stderr();
    for problem in &problems {
        console::note(&format!("{} {problem}", paint.status("not good yet:")));
    }
    console::note(&format!(
        "next: read the notes above, then `throng config check {place}`{}",
        match args.env {
            true => "",
            false => "; variables CENTRIFUGO_… are read only with --env",
        }
    ));
    Ok(Exit::Good)
}

fn read(path: &Path) -> Result<toml::Table> {
    let name = path.display();
    let wrong = |error: String| Failure::new(Exit::Config, format!("cannot read {name}: {error}"));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let ending = path.extension().and_then(|ending| ending.to_str());
    let value: serde_json::Value = match ending {
        Some("json") => serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?,
        Some("toml") => {
            let tree = toml::from_str::<toml::Table>(&text);
            return tree.map_err(|error| wrong(error.to_string()));
        }
        Some("yaml" | "yml") => {
            serde_saphyr::from_str(&text).map_err(|error| wrong(error.to_string()))?
        }
        _ => return Err(wrong("its name ends in none of .json, .toml, .yaml".into())),
    };
    match tree_of(value) {
        Some(toml::Value::Table(table)) => Ok(table),
        _ => Err(wrong("it is not an object".into())),
    }
}

/// Converts the tree; null values are left out.
fn tree_of(value: serde_json::Value) -> Option<toml::Value> {
    use serde_json::Value;
    Some(match value {
        Value::Null => return None,
        Value::Bool(is) => toml::Value::Boolean(is),
        Value::String(text) => toml::Value::String(text),
        Value::Number(number) => match number.as_i64() {
            Some(number) => toml::Value::Integer(number),
            None => toml::Value::Float(number.as_f64()?),
        },
        Value::Array(all) => toml::Value::Array(all.into_iter().filter_map(tree_of).collect()),
        Value::Object(all) => {
            let all = all.into_iter();
            let all = all.filter_map(|(key, value)| Some((key, tree_of(value)?)));
            toml::Value::Table(all.collect())
        }
    })
}

/// Returns the problems that our own checks find in the file.
fn problems(place: &str, text: String) -> Vec<String> {
    let sources = Sources {
        file: Some(ConfigFile {
            name: place.to_owned(),
            text,
        }),
        ..Sources::default()
    };
    match Config::load(&sources) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().map(ToString::to_string).collect(),
    }
}

/// All notes, what matters most first.
fn tell(notes: &[ImportNote]) {
    let paint = Paint::stderr();
    for note in notes {
        let effect = match note.effect {
            Effect::Wider => "wider:",
            Effect::Narrower => "narrower:",
            Effect::Missing => "missing:",
            Effect::Changed => "changed:",
        };
        let ImportNote { option, text, .. } = note;
        console::note(&format!("{} {option}: {text}", paint.status(effect)));
    }
}
