//! `throng health`: whether a server serves, as an exit code. For containers that have no shell.

use crate::commands::publish::said;
use crate::console;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::http::{Endpoint, TrustArgs, ask};

/// An answer is a word or a sentence.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Ask a server whether it serves
///
/// Ends with 0 if it does, also while its broker is away, and with 6 while it drains.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
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

pub(crate) fn run(args: &Args) -> Result {
    let close = [("Connection", "close")];
    let answer = ask(&args.api, &args.trust, "GET", "/healthz", &close, None)
        .and_then(|mut answer| Ok((answer.status, answer.read_all(ANSWER_BYTES_MAX)?)));
    let (status, body) = answer.map_err(|fault| {
        let text = format!("cannot ask {}: {fault}", args.api);
        Failure::unreachable(text)
            .advise("is the server running, and is its API elsewhere? --api http://HOST:PORT")
    })?;
    if status != 200 {
        let text = format!("{} does not serve: {}", args.api, said(status, &body));
        return Err(Failure::refused(text));
    }
    console::print([body.trim_ascii_end(), b"\n"].concat())?;
    Ok(Exit::Good)
}
