//! Peers as scripts: `NAME.sh prepare` gets one and prints its row's title, `NAME.sh start` writes
//! its configuration and prints the command that starts it, a word on each line, behind the
//! variables that it needs.
//!
//! They get their places by variables: `$HERE` with the scripts, `$CACHE` for what is fetched, and
//! at the start `$FOLDER`, the addresses, a certificate where TLS is spoken, and the origin.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::cache::{Cache, output};
use crate::origin::Origin;
use crate::server::{Addresses, Peer};
use crate::tls;

struct Script {
    key: &'static str,
    cache: PathBuf,
    origin: Option<SocketAddr>,
}

pub(super) fn prepare(key: &'static str, cache: &Cache, origin: Option<&Origin>) -> Result<Peer> {
    let script = Script {
        key,
        cache: cache.folder(key)?,
        origin: origin.map(Origin::address),
    };
    Ok(Peer {
        key,
        title: output(&mut script.play("prepare"))?,
        // Alone of them, Pushpin publishes at a port of its own.
        has_two_ports: origin.is_some(),
        command: Box::new(move |addresses, folder| script.start(addresses, folder)),
    })
}

impl Script {
    fn play(&self, verb: &str) -> Command {
        let here = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src/peers"));
        let mut command = Command::new("sh");
        command
            .arg(here.join(format!("{}.sh", self.key)))
            .arg(verb)
            .env("HERE", here)
            .env("CACHE", &self.cache);
        command
    }

    fn start(&self, addresses: Addresses, folder: &Path) -> Result<Command> {
        let [certificate, key] = match addresses.is_secure {
            true => tls::write(folder)?,
            false => Default::default(),
        };
        let Addresses {
            subscribe, publish, ..
        } = addresses;
        let origin = self.origin.map(|origin| origin.to_string());
        let words = output(self.play("start").env("FOLDER", folder).envs([
            ("SUBSCRIBE", subscribe.to_string()),
            ("SUBSCRIBE_PORT", subscribe.port().to_string()),
            ("PUBLISH", publish.to_string()),
            ("PUBLISH_PORT", publish.port().to_string()),
            ("CERTIFICATE", certificate),
            ("KEY", key),
            ("ORIGIN", origin.unwrap_or_default()),
            ("DESCRIPTORS", throng_sys::limits::nofile().soft.to_string()),
        ]))?;
        let mut words = words.lines();
        let is_variable = |word: &&str| word.starts_with(|c: char| c.is_ascii_uppercase());
        let variables: Vec<_> = words.clone().take_while(is_variable).collect();
        let program = words.nth(variables.len());
        let mut command = Command::new(program.context("the script names no program")?);
        command.envs(variables.iter().filter_map(|word| word.split_once('=')));
        command.args(words);
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debian_versions_hold_those_of_the_authors() {
        let script = Script {
            key: "nchan",
            cache: PathBuf::new(),
            origin: None,
        };
        for version in ["1%3a1.3.6+dfsg-2", "1:1.3.6+dfsg-2", "1.3.6-1", "1.3.6"] {
            let mut command = script.play("upstream");
            command.arg(version);
            assert_eq!(output(&mut command).unwrap(), "1.3.6", "{version}");
        }
    }
}
