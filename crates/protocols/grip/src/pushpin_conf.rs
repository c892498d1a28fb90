//! `pushpin.conf`: the options that mean something here, and a word on each of the others.
//!
//! Owns: reading the INI text. Never: reads files, so `include` is listed, not followed.

use crate::proxy::XffRule;

/// Declares the options that mean something here: the name in the file, the field, and the function
/// that reads its value.
macro_rules! options {
    ($($(#[$doc:meta])* $($option:literal)|+ => $field:ident: $Type:ty = $read:ident;)+) => {
        /// Options of a file; None where the file does not say.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct PushpinConf {
            $($(#[$doc])* pub $field: $Type,)+
            /// Everything that has no effect, in the file's order.
            pub notes: Vec<ConfNote>,
        }

        impl PushpinConf {
            fn take(&mut self, option: &str, value: &str) -> Taken {
                match option {
                    $($($option)|+ => $read(value, &mut self.$field),)+
                    "runner.https_ports" => refused_if(!value.is_empty(), HTTPS),
                    "runner.local_ports" => refused_if(!value.is_empty(), LOCAL),
                    "runner.allow_compression" => compression(value),
                    "handler.push_in_sub_connect" => sub_connect(value),
                    _ => without_effect(option),
                }
            }
        }
    };
}

options! {
    /// `[runner] http_port`: where plain HTTP is listened to, as written, each with its address.
    "runner.http_port" => http_ports: Vec<String> = list;
    /// `[runner] log_level`: 0 for errors, 1 for warnings, 2 for what is worth knowing, 3 and more
    /// for what helps to find a fault. The highest, if each service has its own.
    "runner.log_level" => log_level: Option<u8> = log_level;
    /// `[runner] client_maxconn`: bound on open connections.
    "runner.client_maxconn" => connections_max: Option<u64> = number;
    /// `[global] port_offset`: added to the ports of the publish sockets.
    "global.port_offset" => port_offset: Option<u16> = number;
    /// `[proxy] routesfile`, relative to the file.
    "proxy.routesfile" => routes_file: Option<String> = text;
    /// `[proxy] debug`: errors tell clients what happened.
    "proxy.debug" => debug: Option<bool> = flag;
    /// `[proxy] auto_cross_origin`: CORS headers are added.
    "proxy.auto_cross_origin" => auto_cross_origin: Option<bool> = flag;
    /// `[proxy] accept_x_forwarded_protocol`: a client's scheme is believed.
    "proxy.accept_x_forwarded_protocol" => accept_forwarded_proto: Option<bool> = flag;
    /// `[proxy] set_x_forwarded_protocol`: `true` and `proto-only` are the same here.
    "proxy.set_x_forwarded_protocol" => set_forwarded_proto: Option<bool> = proto;
    /// `[proxy] x_forwarded_for`: rule for ordinary clients.
    "proxy.x_forwarded_for" => xff: Option<XffRule> = xff;
    /// `[proxy] x_forwarded_for_trusted`: rule for trusted clients.
    "proxy.x_forwarded_for_trusted" => xff_trusted: Option<XffRule> = xff;
    /// `[proxy] accept_pushpin_route`: clients may name their route.
    "proxy.accept_pushpin_route" => accept_pushpin_route: Option<bool> = flag;
    /// `[proxy] max_open_requests`; negative for no limit.
    "proxy.max_open_requests" => requests_max: Option<i64> = number;
    /// `[proxy] cdn_loop`: our name in `CDN-Loop`.
    "proxy.cdn_loop" => cdn_loop: Option<String> = text;
    /// `[proxy] sig_iss`: issuer of `Grip-Sig`.
    "proxy.sig_iss" => sig_iss: Option<String> = text;
    /// `[proxy] sig_key`: see [`crate::sig::KeyText`].
    "proxy.sig_key" => sig_key: Option<String> = text;
    /// `[proxy] upstream_key`: key that makes clients trusted.
    "proxy.upstream_key" => upstream_key: Option<String> = text;
    /// `[handler] push_in_spec`: address of the PULL socket.
    "handler.push_in_spec" => zmq_pull: Option<String> = text;
    /// `[handler] push_in_sub_specs`, or the older `push_in_sub_spec`.
    "handler.push_in_sub_specs" | "handler.push_in_sub_spec" => zmq_sub: Vec<String> = list;
    /// `[handler] push_in_http_addr`: address of the publish port.
    "handler.push_in_http_addr" => publish_address: Option<String> = text;
    /// `[handler] push_in_http_port`: number of the publish port.
    "handler.push_in_http_port" => publish_port: Option<u16> = number;
    /// `[handler] push_in_http_max_headers_size`, in bytes.
    "handler.push_in_http_max_headers_size" => publish_head_bytes_max: Option<u64> = number;
    /// `[handler] push_in_http_max_body_size`, in bytes.
    "handler.push_in_http_max_body_size" => publish_body_bytes_max: Option<u64> = number;
    /// `[handler] command_spec`: address of the command socket.
    "handler.command_spec" => zmq_command: Option<String> = text;
    /// `[handler] stats_spec`: address of the PUB socket.
    "handler.stats_spec" => stats_spec: Option<String> = text;
    /// `[handler] stats_format`: whether it is JSON.
    "handler.stats_format" => stats_json: Option<bool> = is_json;
    /// `[handler] stats_report_interval`, in seconds.
    "handler.stats_report_interval" => stats_report_interval_s: Option<u64> = number;
    /// `[global] stats_connection_send`: single connections are reported.
    "global.stats_connection_send" => stats_connections: Option<bool> = flag;
    /// `[global] stats_connection_ttl`, in seconds.
    "global.stats_connection_ttl" => stats_connection_ttl_s: Option<u64> = number;
    /// `[handler] stats_subscription_ttl`, in seconds.
    "handler.stats_subscription_ttl" => stats_subscription_ttl_s: Option<u64> = number;
    /// `[handler] subscription_linger`, in seconds.
    "handler.subscription_linger" => subscription_linger_s: Option<u64> = number;
    /// `[handler] message_wait`, in milliseconds.
    "handler.message_wait" => message_wait_ms: Option<u64> = number;
    /// `[handler] id_cache_ttl`, in seconds.
    "handler.id_cache_ttl" => id_cache_ttl_s: Option<u64> = number;
    /// `[handler] connection_subscription_max`: channels of one connection.
    "handler.connection_subscription_max" => subscriptions_max: Option<u64> = number;
    /// `[handler] update_on_first_subscription`: the backend hears of it.
    "handler.update_on_first_subscription" => update_on_first_subscription: Option<bool> = flag;
    /// `[handler] prometheus_port`: address of the metrics.
    "handler.prometheus_port" => prometheus_port: Option<String> = text;
    /// `[handler] prometheus_prefix`: begins each metric's name.
    "handler.prometheus_prefix" => prometheus_prefix: Option<String> = text;
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
fn log_level(value: &str, out: &mut Option<u8>) -> Taken {
    let levels = value.split(',').map(|word| {
        let level = word.rsplit(':').next().unwrap_or_default();
        level.trim().parse::<u8>().ok()
    });
    let levels = levels.collect::<Option<Vec<_>>>();
    parsed(levels.and_then(|levels| levels.into_iter().max()), out)
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

fn is_json(value: &str, out: &mut Option<bool>) -> Taken {
    let is_known = matches!(value, "json" | "tnetstring" | "");
    parsed(is_known.then_some(value == "json"), out)
}

fn xff(value: &str, out: &mut Option<XffRule>) -> Taken {
    parsed(XffRule::parse(value), out)
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
