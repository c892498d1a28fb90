//! Bun: a JavaScript runtime whose server is uWebSockets, from npm.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::cache::{Cache, output};
use crate::origin::Origin;
use crate::server::{Addresses, Peer};
use crate::tls;

pub(super) const KEY: &str = "bun";

const SCRIPT: &str = include_str!("bun.js");

pub(super) fn prepare(cache: &Cache, _: Option<&Origin>) -> Result<Peer> {
    let folder = cache.folder("bun")?;
    if binary(&folder).is_none() {
        let flags = [
            "install",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--prefix",
        ];
        output(
            Command::new("npm")
                .args(flags)
                .arg(&folder)
                .arg("bun@latest"),
        )
        .context("cannot install npm's package bun")?;
    }
    let (binary, version) =
        binary(&folder).context("npm's package bun has no binary that runs on this machine")?;
    Ok(Peer {
        key: KEY,
        title: format!("Bun {version} (uWebSockets inside), 1 thread"),
        has_two_ports: false,
        command: Box::new(move |addresses, folder| command(&binary, addresses, folder)),
    })
}

/// The package depends on one package for each kind of processor and C library; npm installs those
/// that may fit, and the first that runs does.
fn binary(folder: &Path) -> Option<(PathBuf, String)> {
    let builds = std::fs::read_dir(folder.join("node_modules/@oven")).ok()?;
    builds.flatten().find_map(|build| {
        let path = build.path().join("bin/bun");
        let version = output(Command::new(&path).arg("--version")).ok()?;
        Some((path, version))
    })
}

fn command(binary: &Path, addresses: Addresses, folder: &Path) -> Result<Command> {
    let script = folder.join("server.js");
    std::fs::write(&script, SCRIPT)?;
    let mut command = Command::new(binary);
    command
        .arg(script)
        .arg(addresses.subscribe.port().to_string());
    if addresses.is_secure {
        command
            .arg(addresses.publish.port().to_string())
            .args(tls::write(folder)?);
    }
    Ok(command)
}
