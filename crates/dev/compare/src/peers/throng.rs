//! Throng, from this checkout.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::args::Args;
use crate::cache::{checkout, output, target_folder};
use crate::origin::Origin;
use crate::server::{Addresses, Peer};
use crate::suite::Suite;
use crate::tls;

const KEY_ONE: &str = "throng";
const KEY_ALL: &str = "throng-all";
/// With rustls' records, where the others have Throng's own.
const KEY_RUSTLS: &str = "throng-rustls";

pub(super) const fn keys(suite: Suite) -> &'static [&'static str] {
    match suite {
        Suite::Tls => &[KEY_ONE, KEY_ALL, KEY_RUSTLS],
        _ => &[KEY_ONE, KEY_ALL],
    }
}

struct Throng {
    binary: PathBuf,
    shards: usize,
    origin: Option<SocketAddr>,
    /// Value of `tls.records`; none without TLS.
    records: Option<&'static str>,
    is_pusher: bool,
}

/// With one shard, and with one for each core where there are several.
pub(super) fn prepare(args: &Args, origin: Option<&Origin>) -> Result<Vec<Peer>> {
    let cores = throng_sys::cpu::count();
    let wanted: Vec<_> = if args.shards.is_empty() {
        let shards = |key| if key == KEY_ALL { cores } else { 1 };
        { keys(args.suite()).iter() }
            .map(|&key| (key, shards(key)))
            .filter(|(key, shards)| args.wants(key) && (*key != KEY_ALL || 1 < *shards))
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
    let version = version.split_whitespace().nth(1).unwrap_or("?").to_owned();
    let peer = |(key, shards)| {
        let throng = Throng {
            binary: binary.clone(),
            shards,
            origin: origin.map(Origin::address),
            records: match (args.suite(), key) {
                (Suite::Tls, KEY_RUSTLS) => Some("rustls"),
                (Suite::Tls, _) => Some("lean"),
                _ => None,
            },
            is_pusher: args.suite() == Suite::Pusher,
        };
        let records = throng.records.map(|records| format!(", {records} records"));
        let (records, plural) = (
            records.unwrap_or_default(),
            if shards == 1 { "" } else { "s" },
        );
        Peer {
            key,
            title: format!("Throng {version}, {shards} shard{plural}{records}"),
            has_two_ports: true,
            command: Box::new(move |addresses, folder| throng.command(addresses, folder)),
        }
    };
    Ok(wanted.into_iter().map(peer).collect())
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

impl Throng {
    fn command(&self, addresses: Addresses, folder: &Path) -> Result<Command> {
        let path = folder.join("throng.toml");
        std::fs::write(&path, self.config(addresses, folder)?)?;
        let mut command = Command::new(&self.binary);
        let variables = std::env::vars_os().map(|(name, _)| name);
        for name in variables.filter(|name| name.to_string_lossy().starts_with("THRONG_")) {
            command.env_remove(name);
        }
        command.arg("serve").arg("--config").arg(path);
        Ok(command)
    }

    fn config(&self, addresses: Addresses, folder: &Path) -> Result<String> {
        let (mut client, mut api) = (addresses.subscribe.to_string(), addresses.publish);
        let mut more = String::new();
        if let Some(records) = self.records {
            client = format!("tls://{client}");
            let [certificate, key] = tls::write(folder)?;
            // All clients have one address, and handshakes are limited by address.
            more = format!(
                "[limits]\naddress_work_max = \"0s\"\n[tls]\ncertificate = {certificate:?}\n\
                 key = {key:?}\nrecords = \"{records}\"\n"
            );
        }
        if let Some(origin) = self.origin {
            // The API has nothing to do here, and a port of its own.
            api = Addresses::pick(false, false).publish;
            more = format!(
                "[grip]\nhttp_publish = \"{}\"\nsig_key = \"changeme\"\n[[grip.route]]\n\
                 path = \"/\"\norigin = [\"http://{origin}\"]\n",
                addresses.publish
            );
        }
        if self.is_pusher {
            more = String::from(
                "[[app]]\nid = \"app-id\"\nkey = \"app-key\"\nsecret = \"app-secret\"\n\
                 activity_timeout = \"1h\"\n",
            );
        }
        let common = include_str!("throng.toml")
            .replace("@CLIENT@", &client)
            .replace("@API@", &api.to_string())
            .replace("@SHARDS@", &self.shards.to_string());
        Ok(common + &more)
    }
}
