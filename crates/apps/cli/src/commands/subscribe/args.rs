//! The arguments of `throng subscribe`.

use throng_types::ChannelName;

use crate::commands::publish;
use crate::http::{Endpoint, TrustArgs};
use crate::values;

/// Print what is published into channels, one publication on a line
///
/// A publication with line breaks takes several lines; --json keeps each on one.
/// When the connection breaks it is made again, and where the channels keep history nothing is
/// missed. Ctrl-C ends it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The channels
    #[arg(required = true, value_name = "CHANNEL", value_parser = publish::channel)]
    pub(super) channels: Vec<ChannelName>,
    /// Where the server's port for clients is
    #[arg(
        long,
        value_name = "URL",
        env = "THRONG_SERVER_URL",
        default_value = "http://127.0.0.1:8000"
    )]
    pub(super) server: Endpoint,
    /// Use this WebSocket instead, such as ws://127.0.0.1:8000/ws; it does not resume
    #[arg(long, value_name = "URL", value_parser = websocket, conflicts_with = "json")]
    pub(super) url: Option<Endpoint>,
    #[command(flatten)]
    pub(super) trust: TrustArgs,
    /// A token (`throng token create` makes one)
    #[arg(long, env = "THRONG_TOKEN", hide_env_values = true)]
    pub(super) token: Option<String>,
    /// Print a JSON object for each publication, with channel, data and position
    #[arg(long)]
    pub(super) json: bool,
    /// End after this many publications
    #[arg(long, value_name = "N", value_parser = values::count)]
    pub(super) count: Option<u64>,
    /// Each publication has a line of its own, with its time and channel.
    #[arg(skip)]
    pub(super) stamped: bool,
}

/// Watch channels: a line for each publication, with the time and the channel
///
/// Like subscribe, for people: the time is when the publication arrived here. When the connection
/// breaks it is made again, and where the channels keep history nothing is missed. Ctrl-C ends it.
#[derive(Debug, clap::Args)]
pub(crate) struct TailArgs {
    /// The channels
    #[arg(required = true, value_name = "CHANNEL", value_parser = publish::channel)]
    channels: Vec<ChannelName>,
    /// Where the server's port for clients is
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

impl From<TailArgs> for Args {
    fn from(args: TailArgs) -> Self {
        Self {
            channels: args.channels,
            server: args.server,
            url: None,
            trust: args.trust,
            token: args.token,
            json: true,
            count: args.count,
            stamped: true,
        }
    }
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
