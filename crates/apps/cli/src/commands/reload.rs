//! `throng reload`: a running server reads its configuration again, by the server API.

use std::fmt::Write as _;

use serde_json::Value;

use crate::commands::publish::said;
use crate::console;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::http::ApiArgs;

/// An answer names options, or has a line a mistake.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Let a running server read its configuration again
///
/// Connections stay. What can change takes effect at once, what needs a restart is named, and a
/// configuration with a mistake changes nothing.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    server: ApiArgs,
    /// Print the server's answer as it is
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result {
    let api = &args.server.api;
    let answer = args.server.post("/api/reload", None, b"", ANSWER_BYTES_MAX);
    let (status, body) = answer.map_err(|fault| {
        let text = format!("cannot ask {api} for a reload: {fault}");
        Failure::unreachable(text)
            .advise("is the server running, and is its API elsewhere? --api http://HOST:PORT")
    })?;
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
        let failure = Failure::new(exit, text);
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
