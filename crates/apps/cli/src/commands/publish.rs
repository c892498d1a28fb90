//! `throng publish`: one publication, by the server API.

use std::io::{self, IsTerminal as _, Read as _};

use throng_client::ResponseReadError;
use throng_types::ChannelName;

use crate::console;
use crate::exit::{Exit, Failure, Result};
use crate::http::{ApiArgs, Endpoint, RequestError, is_plain, query};

/// The largest body that any server takes (`limits.publish_bytes_max` goes no higher).
const DATA_BYTES_MAX: u64 = 1 << 30;

/// Advice for a channel whose namespace the server does not have.
pub(crate) const UNKNOWN_NAMESPACE: &str = "the part before the `:` is a namespace: add a \
     [[namespace]] with that name to the server's configuration, or correct the channel";

/// Advice for a server whose certificate is not believed.
pub(crate) const UNTRUSTED: &str =
    "--ca FILE names the authorities to believe, --insecure believes anybody";

/// An answer to a publication is a line.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Publish data into a channel
///
/// The data are sent as they are: `echo hello | throng publish news` publishes "hello" and a line
/// break.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Channel that gets the message
    #[arg(value_parser = channel)]
    channel: ChannelName,
    /// The data; `-` or nothing reads standard input to its end
    data: Option<String>,
    #[command(flatten)]
    server: ApiArgs,
    /// Print the server's answer, which has the position in the channel
    #[arg(long)]
    json: bool,
}

pub(crate) fn channel(name: &str) -> std::result::Result<ChannelName, String> {
    ChannelName::new(name).map_err(|error| error.to_string())
}

pub(crate) fn run(mut args: Args) -> Result {
    let data = data(args.data.take())?;
    let target = format!("/pub{}", query([("channel", args.channel.as_str())]));
    let content = ("Content-Type", "application/octet-stream");
    let answer = args
        .server
        .post(&target, Some(content), &data, ANSWER_BYTES_MAX);
    let (status, body) = answer.map_err(|fault| unanswered(&args.server.api, &fault))?;
    if !(200..300).contains(&status) {
        return Err(refused(status, &body, &args));
    }
    if args.json {
        console::print([body.trim_ascii_end(), b"\n"].concat())?;
    }
    Ok(Exit::Good)
}

fn data(given: Option<String>) -> Result<Vec<u8>> {
    match given {
        Some(data) if data != "-" => return Ok(data.into_bytes()),
        None if io::stdin().is_terminal() => {
            return Err(Failure::usage("there is nothing to publish")
                .advise("give the data behind the channel: throng publish news hello")
                .advise("or pipe them in: printf hello | throng publish news"));
        }
        _ => {}
    }
    let mut data = Vec::new();
    let read = io::stdin()
        .lock()
        .take(DATA_BYTES_MAX + 1)
        .read_to_end(&mut data);
    read.map_err(|error| Failure::failed(format!("cannot read standard input: {error}")))?;
    if data.len() as u64 > DATA_BYTES_MAX {
        return Err(Failure::usage(
            "standard input is larger than 1 GiB, which no server takes",
        ));
    }
    Ok(data)
}

/// Failure without an answer, with advice by its cause.
fn unanswered(api: &Endpoint, fault: &RequestError) -> Failure {
    let failure = Failure::unreachable(format!("cannot publish at {api}: {fault}"));
    match fault {
        RequestError::Connect(_) => failure
            .advise("is the server running? start it with `throng serve`")
            .advise("if its API is elsewhere, say where: --api http://HOST:PORT"),
        RequestError::Resolve(_) => failure.advise("check the name behind --api"),
        RequestError::Answer(ResponseReadError::Head(_)) => {
            failure.advise("--api takes the address of the server API, by default port 8001")
        }
        RequestError::Tls(error) if is_plain(error) => failure,
        RequestError::Tls(_) => failure.advise(UNTRUSTED),
        RequestError::Io(_) | RequestError::Answer(_) | RequestError::Upgrade(_) => {
            failure.advise("whether the message was published is unknown")
        }
    }
}

fn refused(status: u16, body: &[u8], args: &Args) -> Failure {
    let failure = Failure::refused(format!(
        "{} refused to publish into {:?}: {}",
        args.server.api,
        args.channel.as_str(),
        said(status, body)
    ));
    match status {
        401 | 403 => args.server.advise_key(status, failure),
        404 if String::from_utf8_lossy(body).contains("namespace") => {
            failure.advise(UNKNOWN_NAMESPACE)
        }
        404 | 405 => {
            failure.advise("is this the API port (by default 8001), not the clients' one?")
        }
        413 => failure.advise("raise limits.publish_bytes_max on the server"),
        _ => failure,
    }
}

/// A status, and the first line of what came with it.
pub(crate) fn said(status: u16, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let line = text
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default();
    let line: String = line
        .trim()
        .chars()
        .filter(|c| !c.is_control())
        .take(500)
        .collect();
    if line.is_empty() {
        format!("{status} {}", throng_http1::reason_phrase(status))
    } else {
        format!("{status}, {line}")
    }
}
