//! `throng subscribe` and `throng tail`: every publication on a line, over reconnects.

mod backoff;
mod follow;
mod stamp;

use throng_types::ChannelName;

use super::publish;
use crate::failure::Result;
use crate::http::{Endpoint, TrustArgs};
use crate::values;

/// Print what is published into channels, one publication on a line
///
/// A publication with line breaks takes several lines; --json keeps each on one.
/// When the connection breaks it is made again, and where the channels keep history nothing is
/// missed. Ctrl-C ends it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    follow: FollowArgs,
    /// Use this WebSocket instead, such as ws://127.0.0.1:8000/ws; it does not resume
    #[arg(long, value_name = "URL", value_parser = websocket, conflicts_with = "json")]
    url: Option<Endpoint>,
    /// Print a JSON object for each publication, with channel, data and position
    #[arg(long)]
    json: bool,
}

/// Watch channels: a line for each publication, with the time and the channel
///
/// Like subscribe, for people: the time is when the publication arrived here. When the connection
/// breaks it is made again, and where the channels keep history nothing is missed. Ctrl-C ends it.
#[derive(Debug, clap::Args)]
pub(crate) struct TailArgs {
    #[command(flatten)]
    follow: FollowArgs,
}

/// Channels to follow, their server and the bounds.
#[derive(Debug, clap::Args)]
struct FollowArgs {
    /// The channels to follow
    #[arg(required = true, value_name = "CHANNEL", value_parser = publish::channel)]
    channels: Vec<ChannelName>,
    /// Address of the server's port for clients
    #[arg(
        long,
        value_name = "URL",
        env = "THRONG_SERVER_URL",
        default_value = "http://127.0.0.1:8000"
    )]
    server: Endpoint,
    #[command(flatten)]
    trust: TrustArgs,
    /// A token (`throng token create` makes one)
    #[arg(long, env = "THRONG_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// End after this many publications
    #[arg(long, value_name = "N", value_parser = values::count)]
    count: Option<u64>,
}

/// Prints until the count is reached, the server refuses, or the output closes.
pub(crate) fn run(args: Args) -> Result {
    let form = match (args.url, args.json) {
        (Some(url), _) => Form::WebSocket(url),
        (None, true) => Form::Json,
        (None, false) => Form::Data,
    };
    follow::Follower::new(args.follow, form).run()
}

/// Prints as [`run`], with the time and the channel before each publication.
pub(crate) fn tail(args: TailArgs) -> Result {
    follow::Follower::new(args.follow, Form::Stamped).run()
}

/// Form in which publications are read and printed.
enum Form {
    /// Data of an event stream.
    Data,
    /// Lines of JSON as they come.
    Json,
    /// Lines of JSON with time and channel in front.
    Stamped,
    /// Messages of the WebSocket at this address.
    WebSocket(Endpoint),
}

/// Reads the URL of a WebSocket; without a path it is `/ws`.
fn websocket(url: &str) -> std::result::Result<Endpoint, String> {
    let rest = url.strip_prefix("ws").filter(|rest| rest.contains("://"));
    let Some(rest) = rest else {
        return Err("expected an address such as ws://127.0.0.1:8000/ws".to_owned());
    };
    let endpoint: Endpoint = format!("http{rest}").parse()?;
    Ok(endpoint.or_path("/ws"))
}
