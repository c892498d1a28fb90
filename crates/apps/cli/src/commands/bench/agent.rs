//! `throng bench agent`: this machine makes load for controllers that know the token.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;

use throng_bench_fleet::{AGENT_PORT, AgentOptions, AgentTls, serve_agent};

use super::common::stop_flag;
use crate::console;
use crate::exit::Exit;
use crate::failure::{Failure, Result};

/// Make load for runs that are started elsewhere with --agents
///
/// Neither side sends the token itself, and an agent starts nothing for a coordinator without
/// it. The connection is encrypted if --tls-cert and --tls-key are given here, and --tls-ca at
/// the other side.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Address to listen on
    #[arg(
        long,
        value_name = "ADDR",
        env = "THRONG_AGENT_LISTEN",
        default_value_t = SocketAddr::from(([127, 0, 0, 1], AGENT_PORT))
    )]
    listen: SocketAddr,
    /// Token that the other side must know too
    #[arg(long, env = "THRONG_AGENT_TOKEN", hide_env_values = true)]
    token: String,
    /// The certificate to show, a PEM file; the other side has its authority, or itself, as
    /// --tls-ca
    #[arg(
        long,
        value_name = "FILE",
        env = "THRONG_AGENT_TLS_CERT",
        requires = "tls_key"
    )]
    tls_cert: Option<PathBuf>,
    /// The key to the certificate, a PEM file
    #[arg(
        long,
        value_name = "FILE",
        env = "THRONG_AGENT_TLS_KEY",
        requires = "tls_cert"
    )]
    tls_key: Option<PathBuf>,
    /// Number of threads that open connections
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
    let tls = args.tls_cert.as_ref().zip(args.tls_key.as_ref());
    let tls = tls
        .map(|(cert, key)| AgentTls::read(cert, key))
        .transpose()
        .map_err(|error| Failure::usage(format!("TLS: {error}")))?;
    let listener = TcpListener::bind(args.listen).map_err(|error| {
        Failure::new(
            Exit::Start,
            format!("cannot listen on {}: {error}", args.listen),
        )
    })?;
    let stop = stop_flag()?;
    let address = listener.local_addr().unwrap_or(args.listen);
    let how = if tls.is_some() { " with TLS" } else { "" };
    console::note(&format!("agent listens on {address}{how}"));
    let options = AgentOptions {
        token: args.token,
        tls,
        threads: args.threads,
        stop,
    };
    serve_agent(&listener, &options, &mut console::note)
        .map_err(|error| Failure::new(Exit::Failed, format!("the agent failed: {error}")))?;
    Ok(Exit::Good)
}
