//! Pushpin, as Debian's package installs it.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::cache::{Cache, output};
use crate::origin::Origin;
use crate::server::{Addresses, Peer};

pub(super) const KEY: &str = "pushpin";

pub(super) fn prepare(_: &Cache, origin: Option<&Origin>) -> Result<Peer> {
    let origin = origin.context("Pushpin needs an origin")?.address();
    let version = output(Command::new("pushpin").arg("--version"))
        .context("not installed (Debian: apt-get install pushpin)")?;
    let version = version.split_whitespace().last().unwrap_or("?").to_owned();
    Ok(Peer {
        key: KEY,
        title: format!("Pushpin {version}, all its processes"),
        has_two_ports: true,
        command: Box::new(move |addresses, folder| command(origin, addresses, folder)),
    })
}

fn command(origin: SocketAddr, addresses: Addresses, folder: &Path) -> Result<Command> {
    let path = folder.join("pushpin.conf");
    std::fs::write(&path, config(addresses, folder))?;
    std::fs::write(folder.join("routes"), format!("* {}\n", origin))?;
    let mut command = Command::new("pushpin");
    command.arg("--config").arg(path);
    Ok(command)
}

fn config(addresses: Addresses, folder: &Path) -> String {
    let (subscribe, publish) = (addresses.subscribe, addresses.publish);
    include_str!("pushpin.conf")
        .replace("@FOLDER@", &folder.display().to_string())
        .replace("@SUBSCRIBE@", &subscribe.to_string())
        .replace("@PUBLISH_IP@", &publish.ip().to_string())
        .replace("@PUBLISH_PORT@", &publish.port().to_string())
}
