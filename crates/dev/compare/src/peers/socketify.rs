//! socketify: uWebSockets as a shared library with Python on top, from PyPI.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::cache::{Cache, output};
use crate::origin::Origin;
use crate::server::{Addresses, Peer};

pub(super) const KEY: &str = "socketify";

const SCRIPT: &str = include_str!("socketify.py");

pub(super) fn prepare(cache: &Cache, _: Option<&Origin>) -> Result<Peer> {
    let packages = cache.folder("socketify")?;
    let version = match version(&packages) {
        Ok(version) => version,
        Err(_) => {
            let flags = ["-m", "pip", "install", "--quiet", "--upgrade", "--target"];
            output(
                Command::new("python3")
                    .args(flags)
                    .arg(&packages)
                    .arg("socketify"),
            )
            .context("cannot install PyPI's package socketify")?;
            version(&packages).context("PyPI's package socketify does not run here")?
        }
    };
    Ok(Peer {
        key: KEY,
        title: format!("socketify {version} (uWebSockets inside), 1 thread"),
        has_two_ports: false,
        command: Box::new(move |addresses, folder| command(&packages, addresses, folder)),
    })
}

/// Loads the shared library too.
fn version(packages: &Path) -> Result<String> {
    let script = "import socketify, importlib.metadata; \
                  print(importlib.metadata.version('socketify'))";
    let mut command = Command::new("python3");
    output(command.env("PYTHONPATH", packages).args(["-c", script]))
}

fn command(packages: &Path, addresses: Addresses, folder: &Path) -> Result<Command> {
    let script = folder.join("server.py");
    std::fs::write(&script, SCRIPT)?;
    let mut command = Command::new("python3");
    command.env("PYTHONPATH", packages);
    command
        .arg(script)
        .arg(addresses.subscribe.port().to_string());
    Ok(command)
}
