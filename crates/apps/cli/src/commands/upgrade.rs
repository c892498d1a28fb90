//! `throng upgrade`: the running server starts its binary anew and hands over.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::console;
use crate::control;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::load::{self, ConfigFlag};

/// Let the running server hand over to a newly installed binary
///
/// Install the new binary in the place of the old one first. The server starts it with its own
/// arguments and hands over its ports and connections; clients do not notice. If the new binary
/// does not take over, the old process goes on, and this command says why. Run it as root or as
/// the server's user, on its machine.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigFlag,
    /// The server's API port, if it is not the configuration's
    #[arg(long, value_name = "PORT")]
    api_port: Option<u16>,
    /// Seconds that the new process may take until it is ready; clients are served meanwhile
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    patience: u32,
}

/// Asks for an upgrade and waits for the outcome.
pub(crate) fn run(args: &Args) -> Result {
    let port = match args.api_port {
        Some(port) => port,
        None => api_port(args.config.config.as_ref())?,
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

fn api_port(config: Option<&PathBuf>) -> std::result::Result<u16, Failure> {
    let loaded = load::merged(config.map(PathBuf::as_path), Vec::new())?;
    Ok(loaded.config.listen.api.address.port())
}
