//! Arguments of `throng subscribe` and `throng tail`.

use throng_types::ChannelName;

use crate::commands::publish;
use crate::http::{Endpoint, TrustArgs};
use crate::values;

/// Print the publications of channels, one on a line
///
/// A publication with line breaks takes several lines; --json keeps each on one.
/// When the connection breaks it is made again, and where the channels keep history nothing is
/// missed. Ctrl-C ends it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) follow: FollowArgs,
    /// Use this WebSocket instead, such as ws://127.0.0.1:8000/ws; it does not resume
    #[arg(long, value_name = "URL", value_parser = websocket, conflicts_with = "json")]
    pub(super) url: Option<Endpoint>,
    /// Print a JSON object for each publication, with channel, data and position
    #[arg(long)]
    pub(super) json: bool,
}

/// Watch channels: a line for each publication, with the time and the channel
///
/// Like subscribe, for people: the time is when the publication arrived here. When the connection
/// breaks it is made again, and where the channels keep history nothing is missed. Ctrl-C ends it.
#[derive(Debug, clap::Args)]
pub(crate) struct TailArgs {
    #[command(flatten)]
    pub(super) follow: FollowArgs,
}

/// Channels to follow, their server and the bounds.
#[derive(Debug, clap::Args)]
pub(super) struct FollowArgs {
    /// The channels to follow
    #[arg(required = true, value_name = "CHANNEL", value_parser = publish::channel)]
    pub(super) channels: Vec<ChannelName>,
    /// Address of the server's port for clients
    #[arg(
        long,
        value_name = "URL",
        env = "THRONG_SERVER_URL",
        default_value = "http://127.0.0.1:8000"
    )]
    pub(super) server: Endpoint,
    #[command(flatten)]
    pub(super) trust: TrustArgs,
    /// A token (`throng token create` makes one)
    #[arg(long, env = "THRONG_TOKEN", hide_env_values = true)]
    pub(super) token: Option<String>,
    /// End after this many publications
    #[arg(long, value_name = "N", value_parser = values::count)]
    pub(super) count: Option<u64>,
}

/// Form in which publications are read and printed.
pub(super) enum Form {
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
fn websocket(url: &str) -> Result<Endpoint, String> {
    let rest = url.strip_prefix("ws").filter(|rest| rest.contains("://"));
    let Some(rest) = rest else {
        return Err("expected an address such as ws://127.0.0.1:8000/ws".to_owned());
    };
    let endpoint: Endpoint = format!("http{rest}").parse()?;
    Ok(endpoint.or_path("/ws"))
}
