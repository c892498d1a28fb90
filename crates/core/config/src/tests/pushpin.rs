//! Pushpin's file below our own.

use super::*;
use crate::document::rows;
use crate::{ForwardedFor, Grip, OptionSpec, options};

const SHIPPED: &str = "[global]\ninclude={libdir}/internal.conf\nport_offset=0\n[runner]\n\
                       services=connmgr,proxy,handler\n\
    http_port=127.0.0.1:7999\nclient_maxconn=50000\n[proxy]\nroutesfile=routes\n\
    auto_cross_origin=true\n\
    set_x_forwarded_protocol=proto-only\nmax_open_requests=2000\n\
    x_forwarded_for=\"truncate:0,append\"\n\
    sig_key=changeme\n\
    upstream_key=theirs\n[handler]\npush_in_spec=tcp://127.0.0.1:5560\n\
    push_in_sub_specs=tcp://127.0.0.1:5562\npush_in_http_addr=127.0.0.1\npush_in_http_port=5561\n\
    command_spec=tcp://localhost:5563\nmessage_hwm=25000\nmessage_wait=3000\nid_cache_ttl=30\n\
    connection_subscription_max=20\nprometheus_port=9797\nprometheus_prefix=p_\n";

fn with(text: &str, file: &str, flags: &[(&str, &str)]) -> Sources {
    Sources {
        pushpin: Some(ConfigFile {
            name: "/etc/pushpin/pushpin.conf".to_owned(),
            text: text.to_owned(),
        }),
        ..sources(file, &[], flags)
    }
}

#[track_caller]
fn loaded(text: &str, file: &str) -> Loaded {
    Config::load(&with(text, file, &[])).unwrap_or_else(|problems| panic!("{problems:#?}"))
}

/// Debian's file listens on all interfaces. `[grip]` with no option for clients serves GRIP only.
#[test]
fn it_needs_no_other_option_on_an_address_that_others_reach() {
    let conf = "[runner]\nhttp_port=7999\n[proxy]\nroutesfile=routes\n";
    let config = loaded(conf, "[grip]").config;
    assert!(!config.open_mode() && !config.anonymous_allowed());
    let with_clients = with(conf, "[grip]\n[auth]\nanonymous = true", &[]);
    let problems = Config::load(&with_clients).unwrap_err();
    assert!(problems[0].to_string().contains("clients need no key"));
}

#[test]
fn its_options_take_effect() {
    let loaded = loaded(SHIPPED, "[grip]");
    let shown = loaded.values(true);
    for (path, expected) in [
        ("listen.client", "[\"127.0.0.1:7999\"]"),
        ("limits.message_bytes_max", "\"200000B\""),
        ("limits.messages_per_second_max", "0"),
        ("engine.connections_max", "50000"),
        ("grip.routes_file", "\"/etc/pushpin/routes\""),
        ("grip.cross_origin", "true"),
        ("grip.set_forwarded_proto", "true"),
        ("grip.response_timeout", "\"0s\""),
        ("grip.requests_max", "2000"),
        ("grip.forwarded_for", "\"truncate:0,append\""),
        ("grip.sig_key", "\"changeme\""),
        ("grip.upstream_key", "\"theirs\""),
        ("grip.http_publish", "\"127.0.0.1:5561\""),
        ("grip.zmq_pull", "\"127.0.0.1:5560\""),
        ("grip.zmq_sub", "\"127.0.0.1:5562\""),
        ("grip.zmq_command", "\"127.0.0.1:5563\""),
        ("grip.message_wait", "\"3s\""),
        ("grip.id_cache_ttl", "\"30s\""),
        ("grip.channels_per_connection", "20"),
        ("grip.prometheus", "\"0.0.0.0:9797\""),
        ("grip.prometheus_prefix", "\"p_\""),
    ] {
        let found = shown.iter().find(|shown| shown.path == path);
        let found = found.unwrap_or_else(|| panic!("{path} is missing"));
        assert_eq!(found.value.as_deref(), Some(expected), "{path}");
        let origin = found.origin.to_string();
        assert!(
            origin.starts_with("/etc/pushpin/pushpin.conf: "),
            "{path}: {origin}"
        );
    }
    for line in [
        "/etc/pushpin/pushpin.conf:2: global.include has no effect: only this one file is read",
        "/etc/pushpin/pushpin.conf:5: runner.services has no effect: there is one process",
    ] {
        assert!(
            loaded.warnings.contains(&line.to_owned()),
            "{:#?}",
            loaded.warnings
        );
    }
    assert!(
        loaded
            .warnings
            .iter()
            .any(|text| text.contains("handler.message_hwm"))
    );
}

#[test]
fn our_own_file_and_flags_stand_above_it() {
    let file = "[listen]\nclient = \"127.0.0.1:1\"\n[grip]\nsig_key = \"ours\"";
    let flags = [("grip.message_wait", "9s")];
    let loaded = Config::load(&with(SHIPPED, file, &flags)).expect("good");
    let one = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
    assert_eq!(loaded.config.listen.client, [one.into()]);
    let grip = loaded.config.grip.expect("there");
    assert_eq!(grip.sig_key.as_ref().map(|key| key.expose()), Some("ours"));
    assert_eq!(grip.message_wait_ms, 9000);
}

#[test]
fn what_means_nothing_here_is_told() {
    for (text, expected) in [
        (
            "[handler]\npush_in_spec=ipc://x",
            "handler.push_in_spec has no effect: only TCP addresses",
        ),
        (
            "[runner]\nallow_compression=true",
            "runner.allow_compression has no effect",
        ),
        (
            "[handler]\npush_in_sub_specs=tcp://127.0.0.1:1,tcp://127.0.0.1:2",
            "(tcp://127.0.0.1:2) has no effect",
        ),
        (
            "[handler]\nupdate_on_first_subscription=false",
            "update_on_first_subscription has no effect",
        ),
        (
            "[handler]\nprometheus_port=ipc://x",
            "prometheus_port has no effect",
        ),
        (
            "[handler]\npush_in_http_max_headers_size=9",
            "limits.head_bytes_max",
        ),
        (
            "[proxy]\ndebug=maybe",
            "proxy.debug has no effect: it cannot be read",
        ),
    ] {
        let warnings = loaded(text, "[grip]").warnings;
        assert!(
            warnings.iter().any(|text| text.contains(expected)),
            "{expected}: {warnings:#?}"
        );
    }
}

#[test]
fn what_would_shut_people_out_is_refused_with_its_line() {
    for (text, expected) in [
        ("[runner]\n\nhttps_ports=443", "3:1: runner.https_ports"),
        ("[runner]\nlocal_ports=/run/x", "2:1: runner.local_ports"),
        (
            "[handler]\npush_in_sub_connect=true",
            "2:1: handler.push_in_sub_connect",
        ),
    ] {
        let refused = Config::load(&with(text, "[grip]", &[])).err();
        let refused: Vec<String> = refused.iter().flatten().map(ToString::to_string).collect();
        let expected = format!("/etc/pushpin/pushpin.conf:{expected} is not supported: ");
        assert_eq!(refused.len(), 1, "{refused:?}");
        assert!(refused[0].starts_with(&expected), "{refused:?}");
    }
    // As the package ships them.
    loaded(
        "[runner]\nhttps_ports=\nlocal_ports=\n[handler]\npush_in_sub_connect=false",
        "[grip]",
    );
}

#[test]
fn its_log_level_is_ours() {
    for (text, expected) in [
        ("0", "error"),
        ("2", "info"),
        ("proxy:1,handler:3", "debug"),
    ] {
        let text = format!("[runner]\nlog_level={text}");
        let shown = loaded(&text, "[grip]").values(true);
        let level = shown.iter().find(|shown| shown.path == "log.level");
        let level = level.and_then(|shown| shown.value.as_deref());
        assert_eq!(level, Some(format!("\"{expected}\"").as_str()), "{text}");
    }
}

#[test]
fn its_values_are_checked_like_ours() {
    let problems = |text: &str| match Config::load(&with(text, "[grip]", &[])) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
    };
    let found = problems("[handler]\npush_in_spec=tcp://somewhere:1");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with(
            "/etc/pushpin/pushpin.conf: handler.push_in_spec: grip.zmq_pull: expected an address"
        ),
        "{found:?}"
    );
}

#[test]
fn ports_move_by_the_offset() {
    let grip = loaded(
        "[global]\nport_offset=10\n[runner]\nhttp_port=127.0.0.1:7999\n\
         [handler]\npush_in_spec=tcp://*:5560\npush_in_http_port=5561\npush_in_http_addr=::1",
        "[grip]",
    );
    assert_eq!(grip.config.listen.client[0].address.port(), 7999);
    let grip = grip.config.grip.expect("there");
    assert_eq!(grip.zmq_pull, Some(([0, 0, 0, 0], 5570).into()));
    assert_eq!(
        grip.http_publish.map(|at| at.to_string()).as_deref(),
        Some("[::1]:5571")
    );
    // Pushpin leaves the field alone unless it is told.
    assert_eq!(grip.forwarded_for, ForwardedFor::default());
}

#[test]
fn the_file_is_named_by_any_layer() {
    for (file, flags) in [
        ("[grip]\npushpin_conf = \"a\"", &[][..]),
        ("", &[("grip.pushpin_conf", "a")][..]),
    ] {
        let named = Config::pushpin_conf(&sources(file, &[], flags));
        assert_eq!(named.as_deref(), Some("a"));
    }
    assert_eq!(Config::pushpin_conf(&sources("[grip]", &[], &[])), None);
    assert_eq!(Config::pushpin_conf(&sources("[gri", &[], &[])), None);
}

#[test]
fn what_has_no_effect_is_told_with_its_line() {
    let text = "[proxy]\ndebug=maybe\nx_forwarded_for=append, truncate:x\nnew_thing=1\nnonsense\n\
                [handler]\n; message_hwm=1\npush_in_http_port=70000\n[x]\ny=1\n[global]\n\
                rundir=\"x\"\n";
    let loaded = loaded(text, "[grip]");
    let expected = [
        "2: proxy.debug has no effect: it cannot be read",
        "3: proxy.x_forwarded_for has no effect: it cannot be read",
        "4: proxy.new_thing has no effect: nobody knows it",
        "5: nonsense has no effect: it cannot be read",
        "8: handler.push_in_http_port has no effect: it cannot be read",
        "10: x.y has no effect: nobody knows it",
        "12: global.rundir has no effect: there are no runtime files",
    ];
    let expected = expected.map(|text| format!("/etc/pushpin/pushpin.conf:{text}"));
    assert_eq!(loaded.warnings[..expected.len()], expected);
    let grip = loaded.config.grip.expect("there");
    assert!(!grip.debug && grip.forwarded_for == ForwardedFor::default());
}

/// The shipped file names several addresses at once, and switches others off.
#[test]
fn values_are_read_as_pushpin_reads_them() {
    let text = "[runner]\nhttp_port=8000, 127.0.0.1:7999\n[proxy]\nupstream_key=\n\
                max_open_requests=-1\n\
                set_x_forwarded_protocol=proto-only\n[handler]\npush_in_sub_spec=tcp://*:1\n";
    let config = loaded(text, "[grip]").config;
    let all = config.listen.client.iter().map(ToString::to_string);
    assert_eq!(all.collect::<Vec<_>>(), ["0.0.0.0:8000", "127.0.0.1:7999"]);
    let grip = config.grip.expect("there");
    assert!(grip.upstream_key.is_none() && grip.set_forwarded_proto);
    assert_eq!(grip.zmq_sub, Some(([0, 0, 0, 0], 1).into()));
    assert_eq!(grip.requests_max, Grip::default().requests_max);
}

#[test]
fn each_row_names_an_option_or_a_reason() {
    let known: Vec<String> = options().iter().map(OptionSpec::path).collect();
    for [option, reading, end] in rows(include_str!("../pushpin.txt")) {
        match reading.split(' ').next() {
            Some("unused" | "refused") => assert!(!end.is_empty(), "{option}"),
            _ => assert!(
                end.is_empty() || known.contains(&end.to_owned()),
                "{option}"
            ),
        }
    }
}
