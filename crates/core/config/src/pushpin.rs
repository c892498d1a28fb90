//! `pushpin.conf` as a layer below our own file: each of its options that means something
//! here as the option that it stands for, and a sentence on each that has no effect.
//!
//! Owns: which option stands for which. Never: reads a file; the values are checked by the
//! options that they are for.

use std::path::Path;

use throng_grip::pushpin_conf::PushpinConf;

use crate::kind::TextKind as _;
use crate::kind::{Endpoint, ForwardedFor};
use crate::origin::Origin;
use crate::problem::Problem;
use crate::sources::ConfigFile;

/// A value for one of our options.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    /// Path of our option, such as `listen.client`.
    pub(crate) path: &'static str,
    pub(crate) text: String,
    pub(crate) origin: Origin,
}

/// Values and messages from a file of Pushpin's.
#[derive(Default)]
pub(crate) struct Beneath {
    pub(crate) values: Vec<Value>,
    /// Reasons not to start with this file.
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<String>,
}

/// Translates a file of Pushpin's.
pub(crate) fn read(file: &ConfigFile) -> Beneath {
    let conf = PushpinConf::parse(&file.text);
    let mut out = Layer {
        file,
        offset: conf.port_offset.unwrap_or(0),
        out: Beneath::default(),
    };
    for note in conf.notes.iter().filter(|note| note.is_refused) {
        let message = format!(
            "{} is not supported: {}; take the line out",
            note.option, note.reason
        );
        let place = Origin::File {
            name: file.name.clone(),
            line: u32::try_from(note.line).unwrap_or(u32::MAX),
            column: 1,
        };
        out.out.problems.push(Problem::new(place, message));
    }
    for note in conf.notes.iter().filter(|note| !note.is_refused) {
        let text = format!(
            "{}:{}: {} has no effect: {}",
            file.name, note.line, note.option, note.reason
        );
        out.out.warnings.push(text);
    }
    out.listeners(&conf);
    out.publishing(&conf);
    out.proxy(&conf);
    out.handler(&conf);
    out.out
}

struct Layer<'f> {
    file: &'f ConfigFile,
    /// Added to the ports of publishers.
    offset: u16,
    out: Beneath,
}

impl Layer<'_> {
    fn put(&mut self, option: &'static str, path: &'static str, text: impl ToString) {
        self.out.values.push(Value {
            path,
            text: text.to_string(),
            origin: Origin::Pushpin {
                name: self.file.name.clone(),
                option,
            },
        });
    }

    fn put_if(&mut self, option: &'static str, path: &'static str, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.put(option, path, value);
        }
    }

    fn without_effect(&mut self, option: &str, reason: &str) {
        let text = format!("{}: {option} has no effect: {reason}", self.file.name);
        self.out.warnings.push(text);
    }

    fn listeners(&mut self, conf: &PushpinConf) {
        if !conf.http_ports.is_empty() {
            let all: Vec<String> = conf.http_ports.iter().map(|port| address(port)).collect();
            self.put("runner.http_port", "listen.client", all.join(","));
        }
        let level = conf.log_level.map(|level| match level {
            0 => "error",
            1 => "warn",
            2 => "info",
            _ => "debug",
        });
        self.put_if("runner.log_level", "log.level", level);
        // Size that Pushpin takes of a WebSocket's message.
        self.put("proxy", "limits.message_bytes_max", 200_000);
        // Pushpin has no limit on clients' messages.
        self.put("proxy", "limits.messages_per_second_max", 0);
        self.put_if(
            "runner.client_maxconn",
            "engine.connections_max",
            conf.connections_max,
        );
    }

    fn publishing(&mut self, conf: &PushpinConf) {
        let http = conf.publish_port.map(|port| {
            let host = conf.publish_address.as_deref().unwrap_or("127.0.0.1");
            let host = if host.contains(':') && !host.starts_with('[') {
                format!("[{host}]")
            } else {
                host.replace("localhost", "127.0.0.1")
            };
            format!("{host}:{}", port.saturating_add(self.offset))
        });
        self.put_if("handler.push_in_http_port", "grip.http_publish", http);
        self.put_if(
            "handler.push_in_http_max_body_size",
            "limits.publish_bytes_max",
            conf.publish_body_bytes_max,
        );
        if conf.publish_head_bytes_max.is_some() {
            let reason = "limits.head_bytes_max bounds the heads of all requests";
            self.without_effect("handler.push_in_http_max_headers_size", reason);
        }
        self.zmq(
            "handler.push_in_spec",
            "grip.zmq_pull",
            conf.zmq_pull.as_deref(),
        );
        self.zmq(
            "handler.command_spec",
            "grip.zmq_command",
            conf.zmq_command.as_deref(),
        );
        let mut specs = conf.zmq_sub.iter();
        self.zmq(
            "handler.push_in_sub_specs",
            "grip.zmq_sub",
            specs.next().map(String::as_str),
        );
        for spec in specs {
            let option = format!("handler.push_in_sub_specs ({spec})");
            self.without_effect(&option, "only the first SUB socket is used");
        }
    }

    fn zmq(&mut self, option: &'static str, path: &'static str, spec: Option<&str>) {
        let Some(spec) = spec else { return };
        if spec.starts_with("ipc:") || spec.starts_with("inproc:") {
            return self.without_effect(option, "only TCP addresses are supported");
        }
        let text = spec.replace("//localhost:", "//127.0.0.1:");
        let text = text.replace("//*:", "//0.0.0.0:");
        let text = match Endpoint::of(&text) {
            Some(mut at) => {
                at.set_port(at.port().saturating_add(self.offset));
                at.to_string()
            }
            // The check of the option reports what is wrong with it.
            None => text,
        };
        self.put(option, path, text);
    }

    fn proxy(&mut self, conf: &PushpinConf) {
        let routes = conf.routes_file.as_ref().map(|routes| {
            let folder = Path::new(&self.file.name).parent();
            let folder = folder.unwrap_or_else(|| Path::new(""));
            folder.join(routes).display().to_string()
        });
        self.put_if("proxy.routesfile", "grip.routes_file", routes);
        self.put_if("proxy.debug", "grip.debug", conf.debug);
        self.put_if(
            "proxy.auto_cross_origin",
            "grip.cross_origin",
            conf.auto_cross_origin,
        );
        self.put_if(
            "proxy.accept_x_forwarded_protocol",
            "grip.accept_forwarded_proto",
            conf.accept_forwarded_proto,
        );
        self.put_if(
            "proxy.set_x_forwarded_protocol",
            "grip.set_forwarded_proto",
            conf.set_forwarded_proto,
        );
        // Without the option Pushpin leaves the field alone, and we would append.
        let rule = conf.xff.unwrap_or_default();
        self.put(
            "proxy.x_forwarded_for",
            "grip.forwarded_for",
            ForwardedFor::text(&rule),
        );
        let rule = conf.xff_trusted.map(|rule| ForwardedFor::text(&rule));
        self.put_if(
            "proxy.x_forwarded_for_trusted",
            "grip.forwarded_for_trusted",
            rule,
        );
        self.put_if(
            "proxy.accept_pushpin_route",
            "grip.accept_pushpin_route",
            conf.accept_pushpin_route,
        );
        // Pushpin waits for backends without a limit.
        self.put("proxy", "grip.response_timeout", "0s");
        // -1 means no limit in Pushpin.
        let requests = conf.requests_max.and_then(|most| u32::try_from(most).ok());
        self.put_if(
            "proxy.max_open_requests",
            "grip.requests_max",
            requests.filter(|most| *most > 0),
        );
        self.put_if("proxy.cdn_loop", "grip.cdn_loop", conf.cdn_loop.as_ref());
        self.put_if("proxy.sig_iss", "grip.sig_iss", conf.sig_iss.as_ref());
        self.put_if("proxy.sig_key", "grip.sig_key", conf.sig_key.as_ref());
        self.put_if(
            "proxy.upstream_key",
            "grip.upstream_key",
            conf.upstream_key.as_ref(),
        );
    }

    fn handler(&mut self, conf: &PushpinConf) {
        let wait = conf.message_wait_ms.map(|ms| format!("{ms}ms"));
        self.put_if("handler.message_wait", "grip.message_wait", wait);
        let ttl = conf.id_cache_ttl_s.map(|s| format!("{s}s"));
        self.put_if("handler.id_cache_ttl", "grip.id_cache_ttl", ttl);
        self.put_if(
            "handler.connection_subscription_max",
            "grip.channels_per_connection",
            conf.subscriptions_max,
        );
        if conf.update_on_first_subscription == Some(false) {
            let reason = "streams with a prev-id and a next link always ask after a first \
                          subscription, others never";
            self.without_effect("handler.update_on_first_subscription", reason);
        }
        self.statistics(conf);
        match conf.prometheus_port.as_deref() {
            Some(ipc) if ipc.starts_with("ipc:") => {
                let reason = "only TCP addresses are supported";
                self.without_effect("handler.prometheus_port", reason);
            }
            port => self.put_if(
                "handler.prometheus_port",
                "grip.prometheus",
                port.map(address),
            ),
        }
        let prefix = conf.prometheus_prefix.clone().unwrap_or_default();
        self.put(
            "handler.prometheus_prefix",
            "grip.prometheus_prefix",
            prefix,
        );
    }
}

impl Layer<'_> {
    fn statistics(&mut self, conf: &PushpinConf) {
        self.zmq(
            "handler.stats_spec",
            "grip.zmq_stats",
            conf.stats_spec.as_deref(),
        );
        self.put_if("handler.stats_format", "grip.stats_json", conf.stats_json);
        self.put_if(
            "global.stats_connection_send",
            "grip.stats_connections",
            conf.stats_connections,
        );
        let times = [
            (
                "handler.stats_report_interval",
                "grip.stats_report_interval",
                conf.stats_report_interval_s,
            ),
            (
                "global.stats_connection_ttl",
                "grip.stats_connection_ttl",
                conf.stats_connection_ttl_s,
            ),
            (
                "handler.stats_subscription_ttl",
                "grip.stats_subscription_ttl",
                conf.stats_subscription_ttl_s,
            ),
            (
                "handler.subscription_linger",
                "grip.subscription_linger",
                conf.subscription_linger_s,
            ),
        ];
        for (option, path, seconds) in times {
            self.put_if(option, path, seconds.map(|seconds| format!("{seconds}s")));
        }
    }
}

/// A port as Pushpin takes it, alone or behind an address. Alone it is on all interfaces.
fn address(port: &str) -> String {
    if port.bytes().all(|byte| byte.is_ascii_digit()) {
        format!("0.0.0.0:{port}")
    } else {
        port.replace("localhost:", "127.0.0.1:")
    }
}
