//! `throng config`: write, check and explain configuration, and take over that of another server.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::json;
use throng_config::centrifugo::{self, Effect, ImportNote, put_variables};
use throng_config::pusher::{self, PusherServer};
use throng_config::{Config, ConfigFile, Sources};

use crate::console::{self, Paint};
use crate::exit::{Exit, Failure, Result};
use crate::load::{self, FileArgument, access};

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Write a file with every option, its meaning and its default, all commented out
    Init {
        /// File to write; `-` is standard output
        #[arg(default_value = "throng.toml")]
        file: PathBuf,
        /// Overwrite a file that is there
        #[arg(long)]
        force: bool,
    },
    /// Print the JSON Schema of the file, for editors and checks
    Schema,
    /// Check a file together with the environment, and the files that it names
    Check {
        #[command(flatten)]
        file: FileArgument,
        /// An option as on `throng serve`
        #[arg(long = "set", value_name = "PATH=VALUE", value_parser = load::assignment)]
        set: Vec<(String, String)>,
        /// Print one JSON object on standard output, also if there are problems
        #[arg(long)]
        json: bool,
    },
    /// Write a file from a configuration of Centrifugo, soketi or Reverb, and list what differs
    Import(ImportArgs),
    /// Print every value and where it came from
    Show {
        #[command(flatten)]
        file: FileArgument,
        /// Show secrets as they are
        #[arg(long)]
        reveal: bool,
        /// An option as on `throng serve`
        #[arg(long = "set", value_name = "PATH=VALUE", value_parser = load::assignment)]
        set: Vec<(String, String)>,
    },
}

pub(crate) fn run(action: Action) -> Result {
    match action {
        Action::Init { file, force } => init(file, force),
        Action::Schema => {
            console::print(throng_config::schema_text())?;
            Ok(Exit::Good)
        }
        Action::Check { file, set, json } => check(file.name(), set, json),
        Action::Import(args) => import_from(&args),
        Action::Show { file, reveal, set } => {
            let loaded = load::merged(file.name().as_deref(), set)?;
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
    // Its first line names it, so that an editor needs no network and has that of this version.
    let schema = file.with_file_name("throng.schema.json");
    let new_schema = NewFile {
        force: true,
        ..new_file
    };
    new_schema.write(&schema, &throng_config::schema_text())?;
    console::print(format!(
        "{place} has every option, all commented out; {} is for editors\n\
         next: edit it, then `throng config check {place}` and `throng serve --config {place}`\n",
        schema.display()
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
            let problems = failure.advice;
            let told = json!({ "good": false, "problems": problems, "what": failure.what });
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

#[derive(Debug, clap::Args)]
pub(crate) struct ImportArgs {
    /// The configuration of Centrifugo 4, 5 or 6, of soketi, or of Reverb: JSON, TOML or YAML by
    /// the name's ending, or lines NAME=value in a file `.env`
    #[arg(required_unless_present = "env")]
    file: Option<PathBuf>,
    /// Read the variables CENTRIFUGO_…, SOKETI_… or REVERB_… of this environment, too; they go
    /// before the file
    #[arg(long)]
    env: bool,
    /// File to write ours to; `-` is standard output
    #[arg(long, value_name = "FILE", default_value = "throng.toml")]
    out: PathBuf,
    /// Overwrite a file that is there
    #[arg(long)]
    force: bool,
}

fn import_from(args: &ImportArgs) -> Result {
    let file = args.file.as_deref();
    let name = file.map(|file| file.display().to_string());
    let name = name.unwrap_or_else(|| "variables".to_owned());
    let (mut tree, mut variables) = (toml::Table::new(), Vec::new());
    match file {
        Some(file) if is_of_variables(file) => variables = lines(&text(file)?),
        Some(file) => tree = read(file)?,
        None => {}
    }
    if args.env {
        let all = std::env::vars_os();
        variables.extend(all.filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        }));
    }
    // Lists and objects are JSON in variables of soketi.
    let value = |text: &str| {
        let json = serde_json::from_str::<serde_json::Value>(text).ok();
        let json = json.filter(|json| json.is_array() || json.is_object());
        json.and_then(tree_of)
            .unwrap_or_else(|| toml::Value::String(text.to_owned()))
    };
    let values = { variables.iter() }.map(|(name, text)| (name.clone(), value(text)));
    let values: Vec<(String, toml::Value)> = values.collect();
    let has = |start: &str| variables.iter().any(|(name, _)| name.starts_with(start));
    let imported = match PusherServer::of(&tree, &values) {
        Some(of) => pusher::import(of, &name, &tree, values),
        None if file.is_some_and(is_of_variables) && !has("CENTRIFUGO_") => {
            let what = format!("{name} has no variable SOKETI_…, REVERB_… or CENTRIFUGO_…");
            return Err(Failure::new(Exit::Config, what));
        }
        None => {
            put_variables(&mut tree, variables);
            centrifugo::import(&name, &tree)
        }
    };
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
            false => "; variables of this environment are read only with --env",
        }
    ));
    Ok(Exit::Good)
}

fn text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| {
        let what = format!("cannot read {}: {error}", path.display());
        Failure::new(Exit::Config, what)
    })
}

/// Whether a file is called `.env`, `.env.production`, `soketi.env` or the like.
fn is_of_variables(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with(".env") || name.ends_with(".env"))
}

/// Reads lines `NAME=value`; a value may be quoted, and name an earlier one as `${NAME}`.
fn lines(text: &str) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        let line = line.strip_prefix("export ").unwrap_or(line);
        let Some((name, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let value = value.trim();
        let quoted = ['"', '\'']
            .iter()
            .find_map(|quote| value.strip_prefix(*quote)?.split_once(*quote));
        let value = match quoted {
            Some((inside, _)) => inside,
            None => value.split(" #").next().unwrap_or(value).trim_end(),
        };
        let mut value = value.to_owned();
        for (name, earlier) in &all {
            value = value.replace(&format!("${{{name}}}"), earlier);
        }
        all.push((name.trim_end().to_owned(), value));
    }
    all
}

fn read(path: &Path) -> Result<toml::Table> {
    let name = path.display();
    let wrong = |error: String| Failure::new(Exit::Config, format!("cannot read {name}: {error}"));
    let text = text(path)?;
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
        _ => {
            return Err(wrong(
                "it is called none of .json, .toml, .yaml, .env".into(),
            ));
        }
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

struct NewFile {
    force: bool,
    /// Secrets are in it: if it is new, only its owner may read it.
    is_secret: bool,
    /// Advice to the user if the file is there already.
    advice: &'static str,
}

impl NewFile {
    fn write(&self, path: &Path, text: &str) -> Result<()> {
        let mut options = OpenOptions::new();
        options.write(true);
        if self.force {
            options.create(true).truncate(true);
        } else {
            options.create_new(true);
        }
        if self.is_secret {
            options.mode(0o600);
        }
        let written = options.open(path);
        let written = written.and_then(|mut out| out.write_all(text.as_bytes()));
        written.map_err(|error| {
            let what = format!("cannot write {}: {error}", path.display());
            let failure = Failure::failed(what);
            if error.kind() == io::ErrorKind::AlreadyExists {
                failure.advise(self.advice)
            } else {
                failure
            }
        })
    }
}
