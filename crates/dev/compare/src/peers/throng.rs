//! Throng, from this checkout.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::peer::Peer;
use crate::args::Args;
use crate::cache::{checkout, output, target_folder};
use crate::origin::Origin;
use crate::server::Addresses;

pub(super) const KEY_ONE: &str = "throng";
pub(super) const KEY_ALL: &str = "throng-all";

#[derive(Debug)]
struct Throng {
    key: &'static str,
    binary: PathBuf,
    version: String,
    shards: usize,
    /// What it is a proxy for.
    origin: Option<SocketAddr>,
}

/// With one shard, and with one for each core where there are several.
pub(super) fn prepare(args: &Args, origin: Option<&Origin>) -> Result<Vec<Box<dyn Peer>>> {
    let cores = throng_sys::cpu::count();
    let wanted: Vec<_> = if args.shards.is_empty() {
        [(KEY_ONE, 1), (KEY_ALL, cores)]
            .into_iter()
            .filter(|(key, shards)| args.wants(key) && (*key == KEY_ONE || 1 < *shards))
            .collect()
    } else {
        { args.shards.iter() }
            .map(|&shards| (KEY_ALL, shards))
            .collect()
    };
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let binary = match &args.throng {
        Some(path) => path
            .canonicalize()
            .with_context(|| format!("cannot find {}", path.display()))?,
        None => build()?,
    };
    let version = output(Command::new(&binary).arg("version"))?;
    let version = version.split_whitespace().last().unwrap_or("?").to_owned();
    Ok(wanted
        .into_iter()
        .map(|(key, shards)| {
            let throng = Throng {
                key,
                binary: binary.clone(),
                version: version.clone(),
                shards,
                origin: origin.map(Origin::address),
            };
            Box::new(throng) as Box<dyn Peer>
        })
        .collect())
}

/// An old binary would be measured otherwise.
fn build() -> Result<PathBuf> {
    eprintln!("building Throng");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let status = Command::new(cargo)
        .args(["build", "--release", "--locked", "-p", "throng"])
        .current_dir(checkout())
        .stdin(Stdio::null())
        .status()
        .context("cannot run cargo; --throng names a binary that is there already")?;
    ensure!(status.success(), "cargo could not build Throng");
    Ok(target_folder().canonicalize()?.join("release/throng"))
}

impl Peer for Throng {
    fn key(&self) -> &'static str {
        self.key
    }

    fn title(&self) -> String {
        let shards = if self.shards == 1 { "shard" } else { "shards" };
        format!("Throng {}, {} {shards}", self.version, self.shards)
    }

    fn addresses(&self) -> Result<Addresses> {
        Addresses::pick()
    }

    fn command(&self, addresses: Addresses, folder: &Path) -> Result<Command> {
        let path = folder.join("throng.toml");
        let config = match self.origin {
            None => config(addresses, self.shards),
            Some(origin) => grip_config(addresses, self.shards, origin)?,
        };
        std::fs::write(&path, config)?;
        let mut command = Command::new(&self.binary);
        let variables = std::env::vars_os().map(|(name, _)| name);
        for name in variables.filter(|name| name.to_string_lossy().starts_with("THRONG_")) {
            command.env_remove(name);
        }
        command.arg("serve").arg("--config").arg(path);
        Ok(command)
    }
}

/// Defaults but for what a comparison needs. Channels that begin with `own:` keep history and
/// positions.
fn config(addresses: Addresses, shards: usize) -> String {
    format!(
        "[listen]\n\
         client = [\"{}\"]\n\
         api = \"{}\"\n\
         \n\
         [engine]\n\
         shards = {shards}\n\
         \n\
         [websocket]\n\
         ping_interval = \"1h\"\n\
         \n\
         [log]\n\
         level = \"warn\"\n\
         \n\
         [[namespace]]\n\
         name = \"own\"\n\
         history_size = 100\n\
         history_ttl = \"5m\"\n\
         recovery = true\n",
        addresses.subscribe, addresses.publish
    )
}

/// The API has nothing to do here, and a port of its own.
fn grip_config(addresses: Addresses, shards: usize, origin: SocketAddr) -> Result<String> {
    let api = Addresses::single()?.subscribe;
    Ok(format!(
        "[listen]\n\
         client = [\"{}\"]\n\
         api = \"{api}\"\n\
         \n\
         [engine]\n\
         shards = {shards}\n\
         \n\
         [log]\n\
         level = \"warn\"\n\
         \n\
         [grip]\n\
         http_publish = \"{}\"\n\
         sig_key = \"changeme\"\n\
         \n\
         [[grip.route]]\n\
         path = \"/\"\n\
         origin = [\"http://{origin}\"]\n",
        addresses.subscribe, addresses.publish
    ))
}
