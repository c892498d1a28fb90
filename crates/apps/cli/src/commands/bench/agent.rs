//! `throng bench agent`: this machine makes load for whoever knows the token.

use std::net::{SocketAddr, TcpListener};

use throng_bench::run::{AGENT_PORT, AgentOptions, serve_agent};

use crate::console;
use crate::exit::Exit;
use crate::failure::{Failure, Result};

/// Make load for runs that are started elsewhere with --agents
///
/// The connection is not encrypted. Neither side sends the token itself, and nothing is started for who does not
/// know it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to listen
    #[arg(long, value_name = "ADDR", default_value_t = SocketAddr::from(([127, 0, 0, 1], AGENT_PORT)))]
    listen: SocketAddr,
    /// What the other side must know too
    #[arg(long, env = "THRONG_AGENT_TOKEN", hide_env_values = true)]
    token: String,
    /// Threads that open connections
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

/// Serves until a signal.
pub(super) fn run(args: Args) -> Result {
    if args.token.is_empty() {
        return Err(Failure::usage(
            "the token is empty: anybody could use this machine",
        ));
    }
    let listener = TcpListener::bind(args.listen).map_err(|error| {
        Failure::new(
            Exit::Start,
            format!("cannot listen on {}: {error}", args.listen),
        )
    })?;
    let stop = super::stop_flag()?;
    let address = listener.local_addr().unwrap_or(args.listen);
    console::note(&format!("agent listens on {address}"));
    let options = AgentOptions {
        token: args.token,
        threads: args.threads,
        stop,
    };
    serve_agent(&listener, &options, &mut console::note)
        .map_err(|error| Failure::new(Exit::Failed, format!("the agent failed: {error}")))?;
    Ok(Exit::Good)
}
