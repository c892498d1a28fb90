//! Banner of a server that serves: where to connect, where to publish, who may, and how many
//! fit.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use serde_json::json;
use throng_config::{CONNECTIONS_PER_IP, Config};
use throng_doctor::{Report, summary_line};
use throng_types::fill::fill;

use super::upgrade;
use crate::console::Paint;
use crate::load::access;
use crate::version::VERSION;

pub(super) struct Facts<'a> {
    pub(super) config: &'a Config,
    /// As bound, so without port 0.
    pub(super) clients: &'a [SocketAddr],
    pub(super) api: SocketAddr,
    /// Addresses for GRIP's publishers, with the options of `[grip]`.
    pub(super) grip: &'a [(&'static str, SocketAddr)],
    pub(super) report: &'a Report,
    /// Bytes that may wait for all clients together.
    pub(super) queued_bytes_max: u64,
}

pub(super) fn text(facts: &Facts<'_>, paint: Paint) -> String {
    let config = facts.config;
    let clients = facts.clients.iter().zip(&config.listen.client);
    let clients = clients.map(|(address, listener)| {
        let s = if listener.is_tls { "s" } else { "" };
        json!({"at": reachable(*address), "s": s})
    });
    let grip = facts.grip.iter().map(|(option, address)| {
        let scheme = if option.starts_with("zmq") {
            "tcp"
        } else {
            "http"
        };
        json!({"scheme": scheme, "at": reachable(*address), "option": option})
    });
    let view = json!({
        "title": paint.bold(&format!("Throng {VERSION}")),
        "clients": clients.collect::<Vec<_>>(),
        "routes": config.grip.as_ref().is_some_and(|grip| !grip.own_endpoints),
        "token": if config.anonymous_allowed() { "" } else { "&token=TOKEN" },
        "key": if config.auth.api_keys_set() { " -H 'X-API-Key: KEY'" } else { "" },
        "scheme": if config.listen.api.is_tls { "https" } else { "http" },
        "api": reachable(facts.api),
        "grip": grip.collect::<Vec<_>>(),
        "access": access(config),
        "per_address": per_address(config),
        "queued": facts.queued_bytes_max >> 20,
        "room": summary_line(facts.report, !upgrade::is_service()),
    });
    fill(include_str!("banner.txt"), &view)
}

fn per_address(config: &Config) -> String {
    let set = config.limits.connections_per_ip;
    if set == Some(0) {
        return "no limit for the connections of one address".to_owned();
    }
    let most = set.unwrap_or(CONNECTIONS_PER_IP);
    let whom = match set.is_none() && config.listen.trusted_proxies.is_empty() {
        true => "; addresses of private networks are not counted, they may be proxies",
        false => "",
    };
    format!("{most} connections of one address (limits.connections_per_ip){whom}")
}

pub(super) fn log(facts: &Facts<'_>, warnings: &[String]) {
    let clients: Vec<String> = facts.clients.iter().map(SocketAddr::to_string).collect();
    let grip = facts.grip.iter();
    let grip: Vec<String> = grip
        .map(|(option, address)| format!("{option}={address}"))
        .collect();
    tracing::info!(
        version = VERSION,
        clients = clients.join(","),
        api = %facts.api,
        grip = grip.join(","),
        open_mode = facts.config.open_mode(),
        connections_per_ip = { facts.config.limits.connections_per_ip }
            .unwrap_or(CONNECTIONS_PER_IP),
        queued_bytes_max = facts.queued_bytes_max,
        holds_connections = facts.report.holds_connections,
        binds_first = facts.report.binds_first,
        "serving"
    );
    for warning in warnings {
        tracing::warn!("{warning}");
    }
}

/// An address that this machine can connect to: a socket on all interfaces is on loopback too.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use throng_config::Sources;
    use throng_doctor::{Machine, Plan, Role, assess};

    use super::*;

    #[track_caller]
    fn check(flags: &[(&str, &str)], expect: &[&str], absent: &[&str]) {
        let flags = flags
            .iter()
            .map(|(path, value)| ((*path).to_owned(), (*value).to_owned()));
        let sources = Sources {
            flags: flags.collect(),
            ..Sources::default()
        };
        let config = Config::load(&sources).unwrap().config;
        let report = assess(&Machine::default(), &Plan::new(Role::Server, None));
        let bound: Vec<_> = config
            .listeners()
            .map(|listener| listener.address)
            .collect();
        let (api, clients) = bound.split_last().unwrap();
        let facts = Facts {
            config: &config,
            clients,
            api: *api,
            grip: &[],
            report: &report,
            queued_bytes_max: 192 << 20,
        };
        let text = text(&facts, Paint::none());
        for part in expect {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        for part in absent {
            assert!(!text.contains(part), "{part} is in\n{text}");
        }
    }

    #[test]
    fn open_mode_says_so() {
        check(
            &[],
            &[
                "ws://127.0.0.1:8000/ws?channel=news\n",
                "http://127.0.0.1:8000/sse?channel=news\n",
                "http://127.0.0.1:8000/stream?channel=news\n",
                "ws://127.0.0.1:8000/connection/websocket ",
                "curl -d hello 'http://127.0.0.1:8001/pub?channel=news'\n",
                "http://127.0.0.1:8001/\n",
                "open mode",
                "connections",
            ],
            &["token", "X-API-Key"],
        );
    }

    #[test]
    fn the_limit_of_an_address_is_told() {
        let most = "4096 connections of one address (limits.connections_per_ip)";
        let queued = "192 MiB for all clients that do not read (limits.queued_bytes_max)";
        check(
            &[],
            &[most, "private networks are not counted", queued],
            &[],
        );
        let proxies = ("listen.trusted_proxies", "10.0.0.1");
        check(&[proxies], &[most], &["not counted"]);
        let set = |most| ("limits.connections_per_ip", most);
        check(&[set("9")], &["9 connections of one"], &["not counted"]);
        check(&[set("0")], &["no limit for the connections"], &["4096"]);
    }

    #[test]
    fn where_tls_is_spoken_addresses_say_so() {
        check(
            &[
                ("listen.client", "tls://127.0.0.1:8443,127.0.0.1:8000"),
                ("listen.api", "tls://127.0.0.1:8444"),
                ("tls.certificate", "c.pem"),
                ("tls.key", "k.pem"),
            ],
            &[
                "wss://127.0.0.1:8443/ws?channel=news\n",
                "https://127.0.0.1:8443/sse?channel=news\n",
                "ws://127.0.0.1:8000/ws?channel=news\n",
                "curl -d hello 'https://127.0.0.1:8444/pub?channel=news'\n",
                "https://127.0.0.1:8444/\n",
            ],
            &["http://127.0.0.1:8443", "http://127.0.0.1:8444"],
        );
    }

    #[test]
    fn protection_says_what_to_bring() {
        let secret = "0123456789abcdef0123456789abcdef";
        check(
            &[
                ("listen.client", "0.0.0.0:9000,[::]:9000"),
                ("auth.hmac_secret", secret),
                ("auth.api_keys", "k"),
            ],
            &[
                "ws://127.0.0.1:9000/ws?channel=news&token=TOKEN",
                "ws://[::1]:9000/",
                "-H 'X-API-Key: KEY'",
                "clients need a token",
                "publishing needs an API key",
            ],
            &["open mode", secret, "0.0.0.0", "by an address"],
        );
        check(
            &[("auth.insecure", "true"), ("listen.api", "0.0.0.0:9001")],
            &[
                "everyone who reaches its port may publish",
                "everyone who reaches the port may connect",
            ],
            &["open mode"],
        );
        // Clients need a token, publishers nothing: that is easily overlooked.
        check(
            &[("auth.hmac_secret", secret)],
            &[
                "the server API needs no key",
                "answers only to an address, localhost,",
            ],
            &["open mode"],
        );
        check(
            &[("auth.allowed_hosts", "push.internal")],
            &["answers only to an address, localhost, push.internal,"],
            &[],
        );
        check(
            &[("auth.allowed_hosts", "*")],
            &["to any host name"],
            &["answers only to"],
        );
    }
}
