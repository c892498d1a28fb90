//! Configuration from this machine: the file, the environment, the flags, and the files that it
//! names; the keys in it that check tokens; and who may do what under it, in sentences.
//!
//! Owns: the reading, and the text of problems. The checks are `throng-config`'s.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::builder::{OsStringValueParser, TypedValueParser as _};
use rustix::fs::Access;
use rustix::process::geteuid;
use throng_auth::{KeyConfig, Verifier};
use throng_config::{Auth, Config, ConfigFile, ConfigProblem, Loaded, Secret, Sources};

use crate::exit::{Exit, Failure, Result};

/// Variables of commands that talk to a server. They begin like those of options and are none.
const CLIENT_VARIABLES: [&str; 4] = [
    "THRONG_API_URL",
    "THRONG_API_KEY",
    "THRONG_SERVER_URL",
    "THRONG_TOKEN",
];

/// Merges everything and checks it, without the files that `[auth]` names. Errors: [`Exit::Config`]
/// with all problems.
pub(crate) fn merged(path: Option<&Path>, flags: Vec<(String, String)>) -> Result<Loaded> {
    let file = path.map(read_file).transpose()?;
    let mut sources = Sources {
        file,
        env: environment(),
        flags,
        ..Sources::default()
    };
    let (pushpin, apps) = Config::named_files(&sources);
    if let Some(name) = pushpin {
        let text = std::fs::read_to_string(&name)
            .map_err(|error| told(path, vec![format!("grip.pushpin_conf: {name}: {error}")]))?;
        sources.pushpin = Some(ConfigFile { name, text });
    }
    if let Some(folder) = apps {
        sources.apps = app_files(&folder)
            .map_err(|fault| told(path, vec![format!("pusher.apps_dir: {fault}")]))?;
    }
    Config::load(&sources).map_err(|problems| refused(path, &problems))
}

/// As [`merged`], then reads the files that `[auth]`, `[grip]` and `[tls]` name and tries every
/// key, route and certificate. Errors: [`Exit::Config`] with all problems.
pub(crate) fn complete(path: Option<&Path>, flags: Vec<(String, String)>) -> Result<Loaded> {
    let mut loaded = merged(path, flags)?;
    let mut wrong = Vec::new();
    for file in loaded.config.auth.files() {
        let read = std::fs::read_to_string(&file.path);
        let taken = read
            .map_err(|error| format!("auth.{}: cannot read {}: {error}", file.key, file.path))
            .and_then(|text| loaded.config.auth.take_file(&file, &text));
        wrong.extend(taken.err());
    }
    if wrong.is_empty() {
        wrong.extend(key_faults(&loaded.config.auth));
    }
    for (known, refused) in [
        throng_server::check_routes(&loaded.config),
        throng_server::check_certificates(&loaded.config),
    ] {
        loaded.warnings.extend(known);
        wrong.extend(refused);
    }
    wrong.extend({ loaded.config.history.path.as_ref() }.and_then(|path| folder_fault(path)));
    if wrong.is_empty() {
        return Ok(loaded);
    }
    Err(told(path, wrong))
}

/// Tries whether the history's folder can be written, or made where it is missing, and makes
/// nothing. Gives what is wrong with it.
fn folder_fault(path: &str) -> Option<String> {
    let mut above = Path::new(path).ancestors();
    let there = above.find(|folder| folder.symlink_metadata().is_ok());
    let there = there.unwrap_or_else(|| Path::new("."));
    let place = there.display();
    if !there.is_dir() {
        return Some(format!(
            "history.path: {place} is no folder; name one, or one to be made"
        ));
    }
    let error = rustix::fs::access(there, Access::WRITE_OK | Access::EXEC_OK).err()?;
    Some(format!(
        "history.path: cannot write in {place}: {error}; it is for the user that the server runs as"
    ))
}

/// Reads the files of a folder whose names end in `.toml`, in the order of their names. Error: the
/// file or folder that cannot be read, and why.
fn app_files(folder: &str) -> std::result::Result<Vec<ConfigFile>, String> {
    let fault = |error| format!("cannot read {folder}: {error}");
    let entries = std::fs::read_dir(folder).map_err(fault)?;
    let paths = entries.map(|entry| Ok(entry?.path()));
    let mut paths = paths.collect::<std::io::Result<Vec<_>>>().map_err(fault)?;
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "toml"));
    paths.sort();
    let files = paths.into_iter().map(|path| {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(&path);
        let text = text.map_err(|error| format!("cannot read {name}: {error}"))?;
        Ok(ConfigFile { name, text })
    });
    files.collect()
}

fn read_file(path: &Path) -> Result<ConfigFile> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        let failure = Failure::new(
            Exit::Config,
            format!("cannot read the configuration {}: {error}", path.display()),
        );
        match error.kind() {
            ErrorKind::NotFound => failure.advise(format!(
                "`throng config init {}` writes one with every option",
                path.display()
            )),
            ErrorKind::PermissionDenied => failure.advise(format!(
                "this runs as user {}, who has to be able to read it",
                geteuid().as_raw()
            )),
            _ => failure,
        }
    })?;
    Ok(ConfigFile {
        name: path.display().to_string(),
        text,
    })
}

/// Variables that are not Unicode are none of ours: no option has such a name, and a value would be
/// refused; those that begin like ours are handed on with their damage visible.
fn environment() -> Vec<(String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            let ours = name.starts_with("THRONG_") && !CLIENT_VARIABLES.contains(&name.as_str());
            ours.then(|| (name, value.to_string_lossy().into_owned()))
        })
        .collect()
}

fn refused(path: Option<&Path>, problems: &[ConfigProblem]) -> Failure {
    told(
        path,
        problems.iter().map(ConfigProblem::to_string).collect(),
    )
}

fn told(path: Option<&Path>, problems: Vec<String>) -> Failure {
    let count = match problems.len() {
        1 => "1 problem".to_owned(),
        many => format!("{many} problems"),
    };
    let place = path.map_or_else(String::new, |path| format!(" {}", path.display()));
    let failure = Failure::new(
        Exit::Config,
        format!("the configuration{place} has {count}"),
    );
    problems.into_iter().fold(failure, Failure::advise)
}

/// The keys, after the files were read, and without those that are to be fetched.
pub(crate) fn key_config(auth: &Auth) -> KeyConfig {
    let text = |text: &Option<String>| text.as_deref().map(Box::from);
    let secret = |secret: &Option<Secret>| secret.as_ref().map(|secret| secret.as_bytes().into());
    KeyConfig {
        hmac_secret: secret(&auth.hmac_secret),
        hmac_previous_secret: secret(&auth.hmac_previous_secret),
        rsa_public_pem: text(&auth.rsa_public_key),
        ecdsa_public_pem: text(&auth.ecdsa_public_key),
        eddsa_public_pem: text(&auth.eddsa_public_key),
        key_set: text(&auth.jwks),
        key_source: None,
        audience: text(&auth.audience),
        issuer: text(&auth.issuer),
        leeway_s: auth.leeway_ms / 1000,
        require_exp: auth.require_exp,
    }
}

/// Tries every key of the configuration by itself; each fault names its option.
fn key_faults(auth: &Auth) -> Vec<String> {
    let all = key_config(auth);
    macro_rules! alone {
        ($option:literal, $field:ident) => {
            all.$field.clone().and_then(|key| {
                let alone = KeyConfig {
                    $field: Some(key),
                    ..KeyConfig::default()
                };
                let error = Verifier::new(alone).err()?;
                Some(format!("auth.{}: {error}", $option))
            })
        };
    }
    let faults = [
        alone!("hmac_secret", hmac_secret),
        alone!("rsa_public_key", rsa_public_pem),
        alone!("ecdsa_public_key", ecdsa_public_pem),
        alone!("eddsa_public_key", eddsa_public_pem),
        alone!("jwks", key_set),
    ];
    faults.into_iter().flatten().collect()
}

/// Splits `path=value` into path and value.
pub(crate) fn assignment(text: &str) -> std::result::Result<(String, String), String> {
    match text.split_once('=') {
        Some((path, value)) if !path.trim().is_empty() => {
            Ok((path.trim().to_owned(), value.to_owned()))
        }
        _ => Err("expected path=value, such as channel.history_size=100".to_owned()),
    }
}

/// The flag `--config`, which several commands have.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ConfigFlag {
    /// The configuration file, in TOML. `throng config init` writes one
    #[arg(
        long = "config",
        value_name = "FILE",
        env = "THRONG_CONFIG",
        value_parser = OsStringValueParser::new().try_map(file_name),
    )]
    pub(crate) config: Option<PathBuf>,
}

/// The file of commands that take it as an argument, too.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct FileArgument {
    /// The file, as with `--config`; without either, defaults and environment alone hold
    #[arg(value_parser = OsStringValueParser::new().try_map(file_name))]
    file: Option<PathBuf>,
    #[command(flatten)]
    flag: ConfigFlag,
}

impl FileArgument {
    pub(crate) fn name(self) -> Option<PathBuf> {
        self.file.or(self.flag.config)
    }
}

fn file_name(text: OsString) -> std::result::Result<PathBuf, &'static str> {
    match text.is_empty() {
        true => Err("it is empty: name a file, or unset THRONG_CONFIG"),
        false => Ok(text.into()),
    }
}

/// Returns the permissions of clients and of backends under this configuration, a sentence a line.
pub(crate) fn access(config: &Config) -> Vec<String> {
    let mut lines = if config.open_mode() {
        vec![
            "open mode: everyone on this machine may do everything; other machines cannot reach it"
                .to_owned(),
        ]
    } else {
        sides(config)
    };
    lines.extend(names(config));
    lines
}

/// Host names to which ports without a key answer, which keeps web pages away.
fn names(config: &Config) -> Option<String> {
    let auth = &config.auth;
    if auth.api_keys_set() {
        return None;
    }
    if auth.allowed_hosts.iter().any(|name| name == "*") {
        return Some(
            "without a key the API port answers to any host name, also to a web page's own \
             (auth.allowed_hosts)"
                .to_owned(),
        );
    }
    let mut known = vec!["an address", "localhost"];
    known.extend(auth.allowed_hosts.iter().map(String::as_str));
    Some(format!(
        "a port without a key answers only to {}, so that no web page gets in \
         (auth.allowed_hosts)",
        known.join(", ")
    ))
}

fn sides(config: &Config) -> Vec<String> {
    let others = config.ways_without_tokens();
    let clients = match (config.auth.client_keys(), config.anonymous_allowed()) {
        (true, false) => "clients need a token (`throng token create` makes one)".to_owned(),
        (true, true) => "clients may come with or without a token".to_owned(),
        (false, true) => {
            "clients need no token: everyone who reaches the port may connect".to_owned()
        }
        (false, false) if others.is_empty() => {
            "no client may connect: no key is set and anonymous use is off".to_owned()
        }
        (false, false) => format!(
            "clients may come by {} only (auth.anonymous)",
            others.join(" and ")
        ),
    };
    let api = if config.auth.api_keys_set() {
        "publishing needs an API key"
    } else {
        "the server API needs no key: everyone who reaches its port may publish and disconnect"
    };
    vec![clients, api.to_owned()]
}
