//! `pushpin.conf`: the options that mean something here, and a word on each of the others.
//!
//! Owns: reading the INI text. Never: reads files, so `include` is listed, not followed.

use crate::proxy::XffRule;

/// Options of a file; None where the file does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PushpinConf {
    /// `[runner] http_port`: where plain HTTP is listened to, as written, each with its address.
    pub http_ports: Vec<String>,
    /// `[runner] log_level`: 0 for errors, 1 for warnings, 2 for what is worth knowing, 3 and more
    /// for what helps to find a fault. The highest, if each service has its own.
    pub log_level: Option<u8>,
    /// `[runner] client_maxconn`: bound on open connections.
    pub connections_max: Option<u64>,
    /// `[global] port_offset`: added to the ports of the publish sockets.
    pub port_offset: Option<u16>,
    /// `[proxy] routesfile`, relative to the file.
    pub routes_file: Option<String>,
    /// `[proxy] debug`: errors tell clients what happened.
    pub debug: Option<bool>,
    /// `[proxy] auto_cross_origin`: CORS headers are added.
    pub auto_cross_origin: Option<bool>,
    /// `[proxy] accept_x_forwarded_protocol`: a client's scheme is believed.
    pub accept_forwarded_proto: Option<bool>,
    /// `[proxy] set_x_forwarded_protocol`: `true` and `proto-only` are the same here.
    pub set_forwarded_proto: Option<bool>,
    /// `[proxy] x_forwarded_for`: rule for ordinary clients.
    pub xff: Option<XffRule>,
    /// `[proxy] x_forwarded_for_trusted`: rule for trusted clients.
    pub xff_trusted: Option<XffRule>,
    /// `[proxy] accept_pushpin_route`: clients may name their route.
    pub accept_pushpin_route: Option<bool>,
    /// `[proxy] max_open_requests`; negative for no limit.
    pub requests_max: Option<i64>,
    /// `[proxy] cdn_loop`: our name in `CDN-Loop`.
    pub cdn_loop: Option<String>,
    /// `[proxy] sig_iss`: issuer of `Grip-Sig`.
    pub sig_iss: Option<String>,
    /// `[proxy] sig_key`: see [`crate::sig::KeyText`].
    pub sig_key: Option<String>,
    /// `[proxy] upstream_key`: key that makes clients trusted.
    pub upstream_key: Option<String>,
    /// `[handler] push_in_spec`: address of the PULL socket.
    pub zmq_pull: Option<String>,
    /// `[handler] push_in_sub_specs`, or the older `push_in_sub_spec`.
    pub zmq_sub: Vec<String>,
    /// `[handler] push_in_http_addr`: address of the publish port.
    pub publish_address: Option<String>,
    /// `[handler] push_in_http_port`: number of the publish port.
    pub publish_port: Option<u16>,
    /// `[handler] push_in_http_max_headers_size`, in bytes.
    pub publish_head_bytes_max: Option<u64>,
    /// `[handler] push_in_http_max_body_size`, in bytes.
    pub publish_body_bytes_max: Option<u64>,
    /// `[handler] command_spec`: address of the command socket.
    pub zmq_command: Option<String>,
    /// `[handler] stats_spec`: address of the PUB socket.
    pub stats_spec: Option<String>,
    /// `[handler] stats_format`: whether it is JSON.
    pub stats_json: Option<bool>,
    /// `[handler] stats_report_interval`, in seconds.
    pub stats_report_interval_s: Option<u64>,
    /// `[global] stats_connection_send`: single connections are reported.
    pub stats_connections: Option<bool>,
    /// `[global] stats_connection_ttl`, in seconds.
    pub stats_connection_ttl_s: Option<u64>,
    /// `[handler] stats_subscription_ttl`, in seconds.
    pub stats_subscription_ttl_s: Option<u64>,
    /// `[handler] subscription_linger`, in seconds.
    pub subscription_linger_s: Option<u64>,
    /// `[handler] message_wait`, in milliseconds.
    pub message_wait_ms: Option<u64>,
    /// `[handler] id_cache_ttl`, in seconds.
    pub id_cache_ttl_s: Option<u64>,
    /// `[handler] connection_subscription_max`: channels of one connection.
    pub subscriptions_max: Option<u64>,
    /// `[handler] update_on_first_subscription`: the backend hears of it.
    pub update_on_first_subscription: Option<bool>,
    /// `[handler] prometheus_port`: address of the metrics.
    pub prometheus_port: Option<String>,
    /// `[handler] prometheus_prefix`: begins each metric's name.
    pub prometheus_prefix: Option<String>,
    /// Everything that has no effect, in the file's order.
    pub notes: Vec<ConfNote>,
}

/// A line that has no effect, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfNote {
    /// Number of the line, from 1.
    pub line: usize,
    /// `section.option`, or the line itself.
    pub option: String,
    /// A fragment that follows "has no effect:", or "is not supported:".
    pub reason: &'static str,
    /// True if it is an error of the file, and not merely an option that is not needed here.
    pub is_fault: bool,
    /// True if clients or publishers would find a closed port, so that the server should not start.
    pub is_refused: bool,
}

enum Taken {
    Yes,
    BadValue,
    NoEffect(&'static str),
    Refused(&'static str),
    Unknown,
}

impl PushpinConf {
    /// Reads a file. `{libdir}` and the like stay as they are written. Options that nobody
    /// knows are noted, not refused: old files carry many.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut out = Self::default();
        let mut section = String::new();
        for (index, line) in text.lines().enumerate() {
            let line_number = index + 1;
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(name) = line
                .strip_prefix('[')
                .and_then(|line| line.strip_suffix(']'))
            {
                name.trim().clone_into(&mut section);
                continue;
            }
            let (option, taken) = match line.split_once('=') {
                Some((key, value)) => {
                    let option = format!("{section}.{}", key.trim());
                    let taken = out.take(&option, unquote(value.trim()));
                    (option, taken)
                }
                None => (line.to_owned(), Taken::BadValue),
            };
            let is_refused = matches!(taken, Taken::Refused(_));
            let (reason, is_fault) = match taken {
                Taken::Yes => continue,
                Taken::BadValue => ("it cannot be read", true),
                Taken::NoEffect(reason) | Taken::Refused(reason) => (reason, false),
                Taken::Unknown => ("nobody knows it", false),
            };
            out.notes.push(ConfNote {
                line: line_number,
                option,
                reason,
                is_fault,
                is_refused,
            });
        }
        out
    }

    fn take(&mut self, option: &str, value: &str) -> Taken {
        let conf = self;
        match option {
            "global.port_offset" => number(value, &mut conf.port_offset),
            "global.stats_connection_ttl" => number(value, &mut conf.stats_connection_ttl_s),
            "global.stats_connection_send" => flag(value, &mut conf.stats_connections),
            "runner.http_port" => list(value, &mut conf.http_ports),
            "runner.https_ports" => refused_if(!value.is_empty(), HTTPS),
            "runner.local_ports" => refused_if(!value.is_empty(), LOCAL),
            "runner.allow_compression" => compression(value),
            "runner.log_level" => parsed(log_level(value), &mut conf.log_level),
            "runner.client_maxconn" => number(value, &mut conf.connections_max),
            "proxy.routesfile" => text(value, &mut conf.routes_file),
            "proxy.debug" => flag(value, &mut conf.debug),
            "proxy.auto_cross_origin" => flag(value, &mut conf.auto_cross_origin),
            "proxy.accept_x_forwarded_protocol" => flag(value, &mut conf.accept_forwarded_proto),
            "proxy.set_x_forwarded_protocol" => proto(value, &mut conf.set_forwarded_proto),
            "proxy.x_forwarded_for" => parsed(XffRule::parse(value), &mut conf.xff),
            "proxy.x_forwarded_for_trusted" => parsed(XffRule::parse(value), &mut conf.xff_trusted),
            "proxy.accept_pushpin_route" => flag(value, &mut conf.accept_pushpin_route),
            "proxy.max_open_requests" => number(value, &mut conf.requests_max),
            "proxy.cdn_loop" => text(value, &mut conf.cdn_loop),
            "proxy.sig_iss" => text(value, &mut conf.sig_iss),
            "proxy.sig_key" => text(value, &mut conf.sig_key),
            "proxy.upstream_key" => text(value, &mut conf.upstream_key),
            "handler.push_in_spec" => text(value, &mut conf.zmq_pull),
            "handler.push_in_sub_specs" => list(value, &mut conf.zmq_sub),
            "handler.push_in_sub_spec" => list(value, &mut conf.zmq_sub),
            "handler.push_in_sub_connect" => sub_connect(value),
            "handler.push_in_http_addr" => text(value, &mut conf.publish_address),
            "handler.push_in_http_port" => number(value, &mut conf.publish_port),
            "handler.push_in_http_max_headers_size" => {
                number(value, &mut conf.publish_head_bytes_max)
            }
            "handler.push_in_http_max_body_size" => number(value, &mut conf.publish_body_bytes_max),
            "handler.command_spec" => text(value, &mut conf.zmq_command),
            "handler.stats_spec" => text(value, &mut conf.stats_spec),
            "handler.stats_format" => parsed(is_json(value), &mut conf.stats_json),
            "handler.stats_report_interval" => number(value, &mut conf.stats_report_interval_s),
            "handler.stats_subscription_ttl" => number(value, &mut conf.stats_subscription_ttl_s),
            "handler.subscription_linger" => number(value, &mut conf.subscription_linger_s),
            "handler.message_wait" => number(value, &mut conf.message_wait_ms),
            "handler.id_cache_ttl" => number(value, &mut conf.id_cache_ttl_s),
            "handler.connection_subscription_max" => number(value, &mut conf.subscriptions_max),
            "handler.update_on_first_subscription" => {
                flag(value, &mut conf.update_on_first_subscription)
            }
            "handler.prometheus_port" => text(value, &mut conf.prometheus_port),
            "handler.prometheus_prefix" => text(value, &mut conf.prometheus_prefix),
            _ => without_effect(option),
        }
    }
}

/// Options of Pushpin that have no counterpart: `option: reason`, one a line.
const WITHOUT_EFFECT: &str = include_str!("pushpin_conf/without_effect.txt");

const HTTPS: &str =
    "name the ports in `listen.client`, as `tls://…`, and the certificate in `[tls]`";
const LOCAL: &str = "unix sockets are not listened to";
const CONNECT: &str = "the SUB socket listens, and publishers connect to it";

const fn refused_if(is_wanted: bool, reason: &'static str) -> Taken {
    match is_wanted {
        true => Taken::Refused(reason),
        // As if it were not there.
        false => Taken::Yes,
    }
}

/// Reads `2`, or `proxy:3,handler:2`.
fn log_level(value: &str) -> Option<u8> {
    let levels = value.split(',').map(|word| {
        let level = word.rsplit(':').next().unwrap_or_default();
        level.trim().parse::<u8>().ok()
    });
    levels.collect::<Option<Vec<_>>>()?.into_iter().max()
}

fn without_effect(option: &str) -> Taken {
    let mut rows = WITHOUT_EFFECT
        .lines()
        .filter_map(|row| row.split_once(": "));
    rows.find(|(other, _)| *other == option)
        .map_or(Taken::Unknown, |(_, reason)| Taken::NoEffect(reason))
}

fn compression(value: &str) -> Taken {
    match flag(value, &mut None) {
        Taken::Yes => Taken::NoEffect("WebSockets of GRIP's routes are not compressed"),
        other => other,
    }
}

fn sub_connect(value: &str) -> Taken {
    let mut connects = None;
    match flag(value, &mut connects) {
        Taken::Yes => refused_if(connects == Some(true), CONNECT),
        other => other,
    }
}

fn proto(value: &str, out: &mut Option<bool>) -> Taken {
    flag(if value == "proto-only" { "true" } else { value }, out)
}

fn is_json(value: &str) -> Option<bool> {
    matches!(value, "json" | "tnetstring" | "").then_some(value == "json")
}

/// Takes a value that could be read.
fn parsed<T>(value: Option<T>, out: &mut Option<T>) -> Taken {
    match value {
        Some(value) => {
            *out = Some(value);
            Taken::Yes
        }
        None => Taken::BadValue,
    }
}

fn text(value: &str, out: &mut Option<String>) -> Taken {
    // An empty value switches an option off, as if it were not there.
    *out = Some(value.to_owned()).filter(|value| !value.is_empty());
    Taken::Yes
}

fn list(value: &str, out: &mut Vec<String>) -> Taken {
    *out = value
        .split(',')
        .map(|word| unquote(word.trim()).to_owned())
        .filter(|word| !word.is_empty())
        .collect();
    Taken::Yes
}

fn number<T: std::str::FromStr>(value: &str, out: &mut Option<T>) -> Taken {
    parsed(value.parse().ok(), out)
}

fn flag(value: &str, out: &mut Option<bool>) -> Taken {
    let flag = match value.to_ascii_lowercase().as_str() {
        "true" | "1" => Some(true),
        "false" | "0" | "" => Some(false),
        _ => None,
    };
    parsed(flag, out)
}

fn unquote(value: &str) -> &str {
    value
        .strip_prefix('"')
        .and_then(|value| value.strip_suffix('"'))
        .unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_shipped_file() {
        let conf = PushpinConf::parse(
            "[global]\ninclude={libdir}/internal.conf\nport_offset=0\n\n[runner]\nservices=condure,\
         pushpin-proxy\n\
         http_port=8000, 127.0.0.1:8001\n#https_ports=443\nclient_maxconn=1001000\n\
         [proxy]\nroutesfile=routes\ndebug=false\nset_x_forwarded_protocol=proto-only\n\
         x_forwarded_for=\"truncate:0,append\"\nsig_key=changeme\nupstream_key=\n\
         [handler]\npush_in_spec=tcp://127.0.0.1:5560\npush_in_sub_specs=tcp://127.0.0.1:5562\n\
         push_in_http_port=5561\nmessage_hwm=25000\nconnection_subscription_max=20\n",
        );
        assert_eq!(conf.http_ports, ["8000", "127.0.0.1:8001"]);
        assert_eq!(conf.connections_max, Some(1_001_000));
        assert_eq!((conf.port_offset, conf.publish_port), (Some(0), Some(5561)));
        assert_eq!(
            (conf.debug, conf.set_forwarded_proto),
            (Some(false), Some(true))
        );
        assert_eq!(
            conf.xff,
            Some(XffRule {
                truncate: Some(0),
                append: true
            })
        );
        assert_eq!(
            (conf.sig_key.as_deref(), conf.upstream_key),
            (Some("changeme"), None)
        );
        assert_eq!(conf.zmq_sub, ["tcp://127.0.0.1:5562"]);
        assert_eq!(conf.subscriptions_max, Some(20));
        let notes: Vec<_> = conf
            .notes
            .iter()
            .map(|note| (note.line, note.option.as_str(), note.is_fault))
            .collect();
        assert_eq!(
            notes,
            [
                (2, "global.include", false),
                (6, "runner.services", false),
                (21, "handler.message_hwm", false)
            ]
        );
    }

    #[test]
    fn what_cannot_be_read_is_noted() {
        let conf = PushpinConf::parse(
            "[proxy]\ndebug=maybe\nx_forwarded_for=all\nnew_thing=1\nnonsense\n[handler]\n\
         push_in_http_port=70000\n[x]\ny=1\n",
        );
        let notes: Vec<_> = conf
            .notes
            .iter()
            .map(|note| (note.line, note.option.as_str(), note.is_fault))
            .collect();
        assert_eq!(
            notes,
            [
                (2, "proxy.debug", true),
                (3, "proxy.x_forwarded_for", true),
                (4, "proxy.new_thing", false),
                (5, "nonsense", true),
                (7, "handler.push_in_http_port", true),
                (9, "x.y", false),
            ]
        );
        let none = PushpinConf {
            notes: Vec::new(),
            debug: conf.debug,
            ..PushpinConf::parse("")
        };
        assert_eq!(none, PushpinConf::default());
    }
}
