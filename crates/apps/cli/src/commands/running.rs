//! `throng health`, `reload` and `upgrade`: questions and orders to a server that runs.

use std::fmt::Write as _;
use std::io;
use std::time::Duration;

use serde_json::Value;

use crate::commands::publish::said;
use crate::console;
use crate::control;
use crate::exit::{Exit, Failure, Result};
use crate::http::{ApiArgs, Endpoint, TrustArgs, ask, no_api};
use crate::load::{self, ConfigFlag};

/// Bytes of the longest answer. One to a reload names options, or has a line a mistake.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Ask a server whether it serves
///
/// Ends with 0 if it does, also while its broker is away, and with 6 while it drains.
#[derive(Debug, clap::Args)]
pub(crate) struct HealthArgs {
    /// Address of the server: its clients' port or its API port
    #[arg(
        long,
        value_name = "URL",
        env = "THRONG_API_URL",
        default_value = "http://127.0.0.1:8001"
    )]
    api: Endpoint,
    #[command(flatten)]
    trust: TrustArgs,
}

pub(crate) fn health(args: &HealthArgs) -> Result {
    let close = [("Connection", "close")];
    let answer = ask(&args.api, &args.trust, "GET", "/healthz", &close, None)
        .and_then(|mut answer| Ok((answer.status, answer.read_all(ANSWER_BYTES_MAX)?)));
    let (status, body) =
        answer.map_err(|fault| no_api(format!("cannot ask {}: {fault}", args.api)))?;
    if status != 200 {
        let text = format!("{} does not serve: {}", args.api, said(status, &body));
        return Err(Failure::refused(text));
    }
    console::print([body.trim_ascii_end(), b"\n"].concat())?;
    Ok(Exit::Good)
}

/// Let a running server read its configuration again
///
/// Connections stay. What can change takes effect at once, what needs a restart is named, and a
/// configuration with a mistake changes nothing.
#[derive(Debug, clap::Args)]
pub(crate) struct ReloadArgs {
    #[command(flatten)]
    server: ApiArgs,
    /// Print the server's answer as it is
    #[arg(long)]
    json: bool,
}

pub(crate) fn reload(args: &ReloadArgs) -> Result {
    let api = &args.server.api;
    let answer = args.server.post("/api/reload", None, b"", ANSWER_BYTES_MAX);
    let (status, body) =
        answer.map_err(|fault| no_api(format!("cannot ask {api} for a reload: {fault}")))?;
    let told: Value = serde_json::from_slice(&body).unwrap_or_default();
    if status != 200 {
        let problems = list(&told, "problems");
        let text = match status {
            422 => "nothing changes: the configuration has mistakes".to_owned(),
            status => format!("{api} refused to reload: {}", said(status, &body)),
        };
        let exit = match status {
            422 => Exit::Config,
            _ => Exit::Refused,
        };
        let failure = args.server.advise_key(status, Failure::new(exit, text));
        return Err(problems.into_iter().fold(failure, Failure::advise));
    }
    if args.json {
        console::print([body.trim_ascii_end(), b"\n"].concat())?;
        return Ok(Exit::Good);
    }
    let mut text = String::new();
    for (what, key) in [
        ("changed", "changed"),
        ("needs a restart", "needs_restart"),
        ("warning", "warnings"),
    ] {
        for line in list(&told, key) {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{what}: {line}");
        }
    }
    if text.is_empty() {
        text.push_str("nothing has changed\n");
    }
    console::print(text)?;
    Ok(Exit::Good)
}

fn list(told: &Value, key: &str) -> Vec<String> {
    let texts = told
        .get(key)
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    texts
        .filter_map(|text| text.as_str().map(str::to_owned))
        .collect()
}

/// Let the running server hand over to a newly installed binary
///
/// Install the new binary in the place of the old one first. The server starts it with its own
/// arguments and hands over its ports and connections; clients do not notice. If the new binary
/// does not take over, the old process goes on, and this command says why. Run it as root or as
/// the server's user, on its machine.
#[derive(Debug, clap::Args)]
pub(crate) struct UpgradeArgs {
    #[command(flatten)]
    config: ConfigFlag,
    /// The server's API port, if it is not the configuration's
    #[arg(long, value_name = "PORT")]
    api_port: Option<u16>,
    /// Seconds that the new process may take until it is ready; clients are served meanwhile
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    patience: u32,
}

pub(crate) fn upgrade(args: &UpgradeArgs) -> Result {
    let port = match args.api_port {
        Some(port) => port,
        None => {
            let loaded = load::merged(args.config.config.as_deref(), Vec::new())?;
            loaded.config.listen.api.address.port()
        }
    };
    match control::ask(port, Duration::from_secs(args.patience.into())) {
        Ok(Ok(pid)) => {
            console::print(format!("process {pid} serves now\n"))?;
            Ok(Exit::Good)
        }
        Ok(Err(why)) => Err(Failure::refused(format!("nothing has changed: {why}"))),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            Err(Failure::unreachable(format!(
                "no server with the API port {port} runs on this machine"
            ))
            .advise("name the configuration with --config, or the port with --api-port"))
        }
        Err(error) => Err(Failure::unreachable(format!(
            "the server with the API port {port} did not answer: {error}"
        ))),
    }
}
