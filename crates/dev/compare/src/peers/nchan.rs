//! nchan: a module of nginx, from Debian's packages.
//!
//! An installed nginx with the module is used where it is; otherwise the two packages are fetched
//! and unpacked below the cache, which needs neither root nor changes to the machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::cache::{Cache, output};
use crate::origin::Origin;
use crate::server::{Addresses, Peer};
use crate::tls;

pub(super) const KEY: &str = "nchan";

const PACKAGES: [&str; 2] = ["nginx", "libnginx-mod-nchan"];
const NGINX: &str = "usr/sbin/nginx";
const MODULE: &str = "usr/lib/nginx/modules/ngx_nchan_module.so";

struct Nchan {
    nginx: PathBuf,
    module: PathBuf,
}

pub(super) fn prepare(cache: &Cache, _: Option<&Origin>) -> Result<Peer> {
    let fetched = cache.folder("nchan")?;
    let installed = PathBuf::from("/");
    let root = if has_both(&installed) {
        installed
    } else {
        if !has_both(&fetched) {
            fetch(&fetched).context(
                "cannot fetch Debian's packages (is this Debian, and did `apt-get update` run?)",
            )?;
        }
        fetched
    };
    let (nginx, module) = (root.join(NGINX), root.join(MODULE));
    // It prints its version on standard error, so the shell turns it round.
    let version = output(
        Command::new("sh")
            .args(["-c", "\"$0\" -v 2>&1"])
            .arg(&nginx),
    )?;
    let title = format!(
        "nchan{} (nginx {}, 1 worker)",
        nchan_version(&root).map_or_else(String::new, |version| format!(" {version}")),
        version.rsplit('/').next().unwrap_or("?")
    );
    let nchan = Nchan { nginx, module };
    Ok(Peer {
        key: KEY,
        title,
        has_two_ports: false,
        command: Box::new(move |addresses, folder| nchan.command(addresses, folder)),
    })
}

fn has_both(root: &Path) -> bool {
    root.join(NGINX).is_file() && root.join(MODULE).is_file()
}

fn fetch(into: &Path) -> Result<()> {
    output(
        Command::new("apt-get")
            .arg("download")
            .args(PACKAGES)
            .current_dir(into),
    )?;
    for entry in std::fs::read_dir(into)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            output(
                Command::new("dpkg-deb")
                    .arg("-x")
                    .args([path.as_path(), into]),
            )?;
        }
    }
    Ok(())
}

/// The version comes from the name of the fetched file, or from the package manager: the module
/// does not report it.
fn nchan_version(root: &Path) -> Option<String> {
    let installed = || {
        let format = ["-W", "-f", "${Version}", PACKAGES[1]];
        output(Command::new("dpkg-query").args(format)).ok()
    };
    let fetched = || {
        let names = std::fs::read_dir(root)
            .ok()?
            .flatten()
            .map(|entry| entry.file_name());
        names
            .filter_map(|name| {
                let rest = name
                    .to_str()?
                    .strip_prefix(PACKAGES[1])?
                    .strip_prefix('_')?;
                Some(rest.split('_').next()?.to_owned())
            })
            .next()
    };
    fetched()
        .or_else(installed)
        .map(|version| upstream(&version))
}

/// `1%3a1.3.6+dfsg-2` is `1.3.6` of its authors.
fn upstream(version: &str) -> String {
    let version = version.replace("%3a", ":");
    let version = version
        .split_once(':')
        .map_or(version.as_str(), |(_, rest)| rest);
    version
        .split(['+', '-'])
        .next()
        .unwrap_or(version)
        .to_owned()
}

impl Nchan {
    fn command(&self, addresses: Addresses, folder: &Path) -> Result<Command> {
        let path = folder.join("nginx.conf");
        std::fs::write(&path, self.config(addresses, folder)?)?;
        let mut command = Command::new(&self.nginx);
        command.arg("-p").arg(folder).arg("-c").arg(path);
        command.arg("-e").arg(folder.join("error.log"));
        Ok(command)
    }

    fn config(&self, addresses: Addresses, folder: &Path) -> Result<String> {
        let (subscribe, publish) = (addresses.subscribe, addresses.publish);
        let mut listen = format!("listen {subscribe} backlog=4096;");
        if addresses.is_secure {
            let [certificate, key] = tls::write(folder)?;
            listen = format!(
                "listen {subscribe} ssl backlog=4096; listen {publish}; \
                 ssl_certificate {certificate}; ssl_certificate_key {key}; \
                 ssl_protocols TLSv1.2 TLSv1.3;"
            );
        }
        let descriptors = throng_sys::limits::nofile().soft;
        Ok(include_str!("nchan.conf")
            .replace("@MODULE@", &self.module.display().to_string())
            .replace("@FOLDER@", &folder.display().to_string())
            .replace("@LISTEN@", &listen)
            .replace("@DESCRIPTORS@", &descriptors.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debian_versions_hold_those_of_the_authors() {
        for version in ["1%3a1.3.6+dfsg-2", "1:1.3.6+dfsg-2", "1.3.6-1", "1.3.6"] {
            assert_eq!(upstream(version), "1.3.6", "{version}");
        }
    }
}
