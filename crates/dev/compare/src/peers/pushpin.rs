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

/// Returns the shipped configuration, without the limits that drop messages and without the sockets
/// that are not needed here.
fn config(addresses: Addresses, folder: &Path) -> String {
    let folder = folder.display();
    // The package runs this process as a service of its own; here it belongs to the others.
    let zurl = "ipc://{rundir}/{ipc_prefix}zurl";
    let (subscribe, publish) = (addresses.subscribe, addresses.publish);
    format!(
        "[global]\n\
         include={{libdir}}/internal.conf\n\
         rundir={folder}\n\
         ipc_prefix=compare-\n\
         [runner]\n\
         services=condure,zurl,pushpin-proxy,pushpin-handler\n\
         http_port={subscribe}\n\
         logdir={folder}\n\
         log_level=1\n\
         client_buffer_size=8192\n\
         client_maxconn=18000\n\
         [proxy]\n\
         routesfile=routes\n\
         sig_key=changeme\n\
         zurl_out_specs={zurl}-in\n\
         zurl_out_stream_specs={zurl}-in-stream\n\
         zurl_in_specs={zurl}-out\n\
         [handler]\n\
         push_in_http_addr={}\n\
         push_in_http_port={}\n\
         stats_spec=ipc://{{rundir}}/{{ipc_prefix}}stats\n\
         message_rate=0\n\
         message_hwm=0\n",
        publish.ip(),
        publish.port()
    )
}
