//! From a configuration to the rules by which ports keep web pages away.
//!
//! A port that asks for no key is protected by these rules alone: pages of this machine may use it,
//! by an address or a name that nobody else can give. Where a key or a token is needed, a page may
//! use the host that it came from, because it would have to bring the key.

use std::net::SocketAddr;

use throng_auth::{Hosts, OriginError, Origins};
use throng_config::Config;
use throng_session::{Guard, Guards};

use crate::gateways::OwnPort;
use crate::options::StartError;

const LOCAL_PAGES: [&str; 6] = [
    "http://localhost:*",
    "http://127.0.0.1:*",
    "http://[::1]:*",
    "https://localhost:*",
    "https://127.0.0.1:*",
    "https://[::1]:*",
];

/// The rules of all ports; `own` are those of the gateways.
pub(crate) fn guards(config: &Config, own: &[OwnPort]) -> Result<Guards, StartError> {
    let keyless = |mut addresses: Box<dyn Iterator<Item = SocketAddr> + '_>| {
        let is_reachable = addresses.any(|address| !address.ip().to_canonical().is_loopback());
        let names = config.auth.allowed_hosts.iter().map(String::as_str);
        Ok::<_, StartError>(Guard {
            origins: origins(config, &LOCAL_PAGES, false)?,
            hosts: Some(Hosts::new(names, is_reachable)?),
            programs_by_any_name: false,
        })
    };
    let keyed = || {
        Ok::<_, StartError>(Guard {
            origins: origins(config, &[], true)?,
            hosts: None,
            programs_by_any_name: false,
        })
    };
    Ok(Guards {
        client: match config.open_mode() {
            true => {
                let clients = config.listen.client.iter();
                keyless(Box::new(clients.map(|listener| listener.address)))?
            }
            false => keyed()?,
        },
        api: match config.auth.api_keys_set() {
            true => keyed()?,
            false => keyless(Box::new([config.listen.api.address].into_iter()))?,
        },
        // Publishers of GRIP have no keys, and Pushpin, whose file this is, looks at no `Host`.
        own: Guard {
            programs_by_any_name: { config.grip.as_ref() }
                .is_some_and(|grip| grip.pushpin_conf.is_some()),
            ..keyless(Box::new(own.iter().map(|port| port.address)))?
        },
    })
}

fn origins(config: &Config, more: &[&str], same_host: bool) -> Result<Origins, OriginError> {
    let listed = config.auth.allowed_origins.iter().map(String::as_str);
    Origins::new(listed.chain(more.iter().copied()), same_host)
}
