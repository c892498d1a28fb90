//! What becomes of each option of Pushpin's files: a table of `docs/GRIP.md`.
//!
//! Owns: which options there are, by the documentation of Pushpin 1.36 to 1.41, and what those that
//! are taken are here. What is refused or has no effect is asked of `throng config check`, with a
//! file for each, so that the table cannot say what is not so.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use throng_testkit::throng;

/// An option with a value, and what it is here; `differs:` begins what is taken and yet otherwise.
struct Known(&'static str, &'static str, &'static str);

const CONF: &[Known] = &[
    Known("global.include", "{libdir}/internal.conf", ""),
    Known("global.rundir", "run", ""),
    Known("global.ipc_prefix", "pushpin-", ""),
    Known(
        "global.port_offset",
        "0",
        "added to the ports of publishers",
    ),
    Known(
        "global.stats_connection_ttl",
        "120",
        "`grip.stats_connection_ttl`",
    ),
    Known(
        "global.stats_connection_send",
        "true",
        "`grip.stats_connections`",
    ),
    Known(
        "runner.services",
        "condure,pushpin-proxy,pushpin-handler",
        "",
    ),
    Known("runner.http_port", "7999", "`listen.client`"),
    Known("runner.https_ports", "443", ""),
    Known("runner.local_ports", "{rundir}/server", ""),
    Known("runner.logdir", "/var/log/pushpin", ""),
    Known(
        "runner.log_level",
        "2",
        "differs: `log.level`, the highest if services have their own",
    ),
    Known("runner.client_buffer_size", "8192", ""),
    Known("runner.client_maxconn", "50000", "`engine.connections_max`"),
    Known("runner.allow_compression", "true", ""),
    Known("runner.condure_bin", "condure", ""),
    Known("runner.mongrel2_bin", "mongrel2", ""),
    Known("runner.m2sh_bin", "m2sh", ""),
    Known("runner.zurl_bin", "zurl", ""),
    Known(
        "proxy.routesfile",
        "routes",
        "`grip.routes_file`; a change is seen within 3 s",
    ),
    Known("proxy.debug", "false", "`grip.debug`; the texts differ"),
    Known(
        "proxy.auto_cross_origin",
        "false",
        "differs: `grip.cross_origin`, CORS alone; JSON-P is not offered",
    ),
    Known(
        "proxy.accept_x_forwarded_protocol",
        "false",
        "`grip.accept_forwarded_proto`",
    ),
    Known(
        "proxy.set_x_forwarded_protocol",
        "proto-only",
        "differs: `grip.set_forwarded_proto`; `true` adds no `X-Forwarded-Protocol`, and a \
         client's own field never passes",
    ),
    Known(
        "proxy.x_forwarded_for",
        "truncate:0,append",
        "`grip.forwarded_for`",
    ),
    Known(
        "proxy.x_forwarded_for_trusted",
        "append",
        "`grip.forwarded_for_trusted`",
    ),
    Known("proxy.orig_headers_need_mark", "", ""),
    Known(
        "proxy.accept_pushpin_route",
        "false",
        "`grip.accept_pushpin_route`",
    ),
    Known("proxy.cdn_loop", "me", "`grip.cdn_loop`"),
    Known("proxy.log_from", "false", ""),
    Known("proxy.log_user_agent", "false", ""),
    Known("proxy.sig_iss", "pushpin", "`grip.sig_iss`"),
    Known("proxy.sig_key", "changeme", "`grip.sig_key`"),
    Known("proxy.upstream_key", "key", "`grip.upstream_key`"),
    Known("proxy.sockjs_url", "http://x", ""),
    Known(
        "proxy.max_open_requests",
        "2000",
        "`grip.requests_max`; -1 keeps Throng's own bound",
    ),
    Known("proxy.workers", "1", ""),
    Known("proxy.prometheus_port", "9000", ""),
    Known("proxy.prometheus_prefix", "x", ""),
    Known("proxy.stats_report_interval", "10", ""),
    Known("proxy.updates_check", "off", ""),
    Known("proxy.organization_name", "", ""),
    Known("handler.ipc_file_mode", "777", ""),
    Known(
        "handler.push_in_spec",
        "tcp://127.0.0.1:5560",
        "differs: `grip.zmq_pull`; not by ipc",
    ),
    Known(
        "handler.push_in_sub_specs",
        "tcp://127.0.0.1:5562",
        "differs: `grip.zmq_sub`, the first; not by ipc",
    ),
    Known(
        "handler.push_in_sub_spec",
        "tcp://127.0.0.1:5562",
        "`grip.zmq_sub`",
    ),
    Known("handler.push_in_sub_connect", "true", ""),
    Known(
        "handler.push_in_http_addr",
        "127.0.0.1",
        "`grip.http_publish`",
    ),
    Known("handler.push_in_http_port", "5561", "`grip.http_publish`"),
    Known("handler.push_in_http_max_headers_size", "10000", ""),
    Known(
        "handler.push_in_http_max_body_size",
        "1000000",
        "`limits.publish_bytes_max`; larger is 413",
    ),
    Known(
        "handler.stats_spec",
        "tcp://127.0.0.1:5564",
        "differs: `grip.zmq_stats`; not by ipc",
    ),
    Known(
        "handler.command_spec",
        "tcp://127.0.0.1:5563",
        "differs: `grip.zmq_command`; not by ipc",
    ),
    Known("handler.state_spec", "tcp://x", ""),
    Known("handler.share_all", "false", ""),
    Known("handler.message_rate", "2500", ""),
    Known("handler.message_hwm", "25000", ""),
    Known("handler.message_block_size", "1", ""),
    Known("handler.message_wait", "5000", "`grip.message_wait`"),
    Known("handler.id_cache_ttl", "60", "`grip.id_cache_ttl`"),
    Known(
        "handler.update_on_first_subscription",
        "true",
        "differs: streams with a prev-id and a next link ask after a first subscription, others \
         never",
    ),
    Known(
        "handler.connection_subscription_max",
        "20",
        "`grip.channels_per_connection`",
    ),
    Known(
        "handler.subscription_linger",
        "60",
        "differs: `grip.subscription_linger`, for statistics; publishers by SUB socket are told \
         within 10 s",
    ),
    Known(
        "handler.stats_subscription_ttl",
        "60",
        "`grip.stats_subscription_ttl`",
    ),
    Known(
        "handler.stats_report_interval",
        "10",
        "`grip.stats_report_interval`",
    ),
    Known("handler.stats_format", "tnetstring", "`grip.stats_json`"),
    Known(
        "handler.prometheus_port",
        "9797",
        "`grip.prometheus`; not by ipc",
    ),
    Known("handler.prometheus_prefix", "x", "`grip.prometheus_prefix`"),
];

/// In a condition; `=` and a value where there is one.
const CONDITION: &[Known] = &[
    Known("proto", "=ws", "same"),
    Known("ssl", "=yes", "by `X-Forwarded-Proto`, if that is accepted"),
    Known("path_beg", "=/a", "same"),
    Known("id", "=a", "differs: two routes with one id are refused"),
    Known("sig_iss", "=a", "same"),
    Known("sig_key", "=a", "same"),
    Known("prefix", "=a", "same"),
    Known("orig_headers", "", "same"),
    Known("as_host", "=a", "same"),
    Known("path_rem", "=1", "differs: what is no number is refused"),
    Known("replace_beg", "=/a", "same"),
    Known("debug", "", "the texts differ"),
    Known("aco", "", "differs: CORS alone; JSON-P is not offered"),
    Known("jsonp_mode", "=basic", ""),
    Known("jsonp_cb", "=a", ""),
    Known("jsonp_body", "=a", ""),
    Known("jsonp_defcb", "=a", ""),
    Known("jsonp_defmethod", "=GET", ""),
    Known("session", "", ""),
    Known("sockjs", "=/a", ""),
    Known("sockjs_as_path", "=/a", ""),
    Known("header", "=a:b", "same"),
    Known("no_grip", "", "same"),
    Known(
        "log_level",
        "=2",
        "differs: taken, and without effect: levels are for all",
    ),
];

/// Targets, and their options.
const TARGET: &[Known] = &[
    Known("host:port", "h:1", "same"),
    Known("[address]:port", "[::1]:1", "same"),
    Known("test", "test", "its own greeting at `/`; else the same"),
    Known("zhttp/SPEC", "zhttp/ipc://x", ""),
    Known("zhttpreq/SPEC", "zhttpreq/ipc://x", ""),
    Known("ssl", "h:1,ssl", "same"),
    Known("insecure", "h:1,insecure", "same"),
    Known("trust_connect_host", "h:1,trust_connect_host", "same"),
    Known(
        "untrusted",
        "h:1,untrusted",
        "differs: taken, and without effect: there are no policies",
    ),
    Known("host", "h:1,host=a", "same"),
    Known("sub", "h:1,sub=a", "same"),
    Known("over_http", "h:1,over_http", "same"),
    Known("one_event", "h:1,one_event", "same"),
    Known("ipc_file_mode", "h:1,ipc_file_mode=777", ""),
    Known("client_cert", "h:1,client_cert=a", ""),
    Known("client_key", "h:1,client_key=a", ""),
];

/// Returns the outcome for an option: a verdict and some words.
fn verdict(told: &str, refused: Option<String>, name: &str) -> (&'static str, String) {
    match (refused, told.strip_prefix("differs: ")) {
        (Some(reason), _) => {
            assert!(told.is_empty(), "{name} is not taken: {reason}");
            ("refused", reason)
        }
        (None, Some(words)) => ("differs", words.to_owned()),
        (None, None) => {
            assert!(!told.is_empty(), "{name} is taken: say what it is here");
            let words = if told == "same" { "" } else { told };
            ("same", words.to_owned())
        }
    }
}

/// Runs a configuration check. Returns whether the configuration is good, and the output.
fn check(folder: &Path, grip: &str) -> (bool, String) {
    let file = folder.join("throng.toml");
    let text = format!("[auth]\nanonymous = false\n[grip]\n{grip}\n");
    fs::write(&file, text).expect("a file");
    let mut command = Command::new(throng());
    let done = command.args(["config", "check"]).arg(&file).output();
    let done = done.expect("it was just built");
    let words = String::from_utf8_lossy(&done.stderr).into_owned();
    (done.status.success(), words)
}

/// Returns the text behind some words, to the end of the line.
fn behind(text: &str, words: &str) -> Option<String> {
    let mut lines = text.lines();
    lines.find_map(|line| Some(line.split_once(words)?.1.to_owned()))
}

fn of_conf(known: &Known, folder: &Path) -> (&'static str, String) {
    let Known(name, value, told) = known;
    let (section, option) = name.split_once('.').expect("section.option");
    let conf = folder.join("pushpin.conf");
    let text = format!("[{section}]\n{option}={value}\n");
    fs::write(&conf, text).expect("a file");
    let (is_good, said) = check(folder, &format!("pushpin_conf = {conf:?}"));
    if !is_good {
        let reason = behind(&said, &format!(":2:1: {name} is not supported: "));
        let reason = reason.unwrap_or_else(|| panic!("{name}: {said}"));
        let reason = reason.trim_end_matches("; take the line out");
        return verdict(told, Some(reason.to_owned()), name);
    }
    let Some(reason) = behind(&said, &format!("{name} has no effect: ")) else {
        return verdict(told, None, name);
    };
    assert!(told.is_empty(), "{name} has no effect: {reason}");
    assert!(
        !reason.contains("nobody") || reason.contains("reported"),
        "{name}: {reason}"
    );
    ("no effect", reason)
}

fn of_line(name: &str, told: &str, line: &str, folder: &Path) -> (&'static str, String) {
    let routes = folder.join("line");
    fs::write(&routes, line).expect("a file");
    let (is_good, said) = check(folder, &format!("routes_file = {routes:?}"));
    assert!(!said.contains("makes no route"), "{line}: {said}");
    let reason = behind(&said, ": line 1: ").map(|text| match text.split_once("supported: ") {
        Some(_) if text.starts_with("targets by ZeroMQ") => {
            "targets by ZeroMQ are not offered".into()
        }
        Some((_, words)) => words.to_owned(),
        None => text,
    });
    assert_eq!(is_good, reason.is_none(), "{line}: {said}");
    verdict(told, reason, name)
}

/// The tables in Markdown.
pub(crate) fn tables() -> String {
    let mut out = String::from(
        "\n## Pushpin's files, option by option\n\n\
         The options are those of the documentation of 1.36 to 1.41. `same`: the option means the \
         same as in Pushpin. `no effect`: Throng has\n\
         nothing that it could apply to, and says so at the start. `refused`: Throng cannot do \
         what it asks for, so `throng config check` and\n\
         `throng serve` refuse the file and name the line.\n\n\
         | `pushpin.conf` | here | |\n|---|---|---|\n",
    );
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("routes"), "* test\n").expect("a file");
    let mut rows: Vec<(String, (&str, String))> = Vec::new();
    for known in CONF {
        rows.push((known.0.to_owned(), of_conf(known, folder.path())));
    }
    let conf_rows = rows.len();
    for Known(name, value, told) in CONDITION {
        let line = format!("*,{name}{value} a:1");
        rows.push((name.to_string(), of_line(name, told, &line, folder.path())));
    }
    for Known(name, target, told) in TARGET {
        let line = format!("* {target}");
        let shown = format!("target: {name}");
        rows.push((shown, of_line(name, told, &line, folder.path())));
    }
    for (at, (name, (verdict, words))) in rows.into_iter().enumerate() {
        if at == conf_rows {
            out.push_str("\n| `routes` | here | |\n|---|---|---|\n");
        }
        writeln!(out, "| `{name}` | {verdict} | {words} |").expect("text");
    }
    out
}

/// Every option of the file that the package ships is in the table.
#[test]
fn shipped_options_are_all_known() {
    let shipped = fs::read_to_string(crate::sites::PACKAGED).expect("the package pushpin");
    let mut section = String::new();
    for line in shipped.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').to_owned();
        } else if let Some((name, _)) = line.trim_start_matches('#').split_once('=')
            && name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'_' || byte.is_ascii_digit())
        {
            let option = format!("{section}.{name}");
            let is_known = CONF.iter().any(|Known(known, ..)| *known == option);
            assert!(is_known, "{option}");
        }
    }
}
