mod taken;

use super::*;
use crate::{Config, ConfigFile, Sources};

/// Walks the cases of `imports.txt`, which says at its head how they are written.
#[test]
fn files_are_taken_over_as_the_table_says() {
    let (mut file, mut checks, mut cases) = (String::new(), Vec::new(), 0);
    for line in include_str!("tests/imports.txt").lines().chain([""]) {
        match line.split_once("> ") {
            Some((kind @ ("=" | "!" | "~" | "!~"), text)) => checks.push((kind, text)),
            _ if line.starts_with('#') => {}
            _ if !line.is_empty() => file.extend([line, "\n"]),
            _ if file.is_empty() => {}
            _ => {
                let imported = imported(&file);
                for (kind, text) in std::mem::take(&mut checks) {
                    let mut lines = imported.text.lines();
                    let mut notes = imported.notes.iter();
                    let is_there = match kind {
                        "=" => lines.any(|line| line == text),
                        "!" => !lines.any(|line| line.contains(text)),
                        "~" => {
                            notes.any(|note| format!("{:?} {}", note.effect, note.option) == text)
                        }
                        _ => !notes.any(|note| note.option.contains(text)),
                    };
                    assert!(is_there, "{kind}> {text}: {imported:#?}\n{}", imported.text);
                }
                (file, cases) = (String::new(), cases + 1);
            }
        }
    }
    assert_eq!(cases, 24);
}

/// Imports a text, and checks that the result is a valid configuration.
#[track_caller]
fn imported(text: &str) -> ImportedConfig {
    let tree = text
        .parse()
        .unwrap_or_else(|error| panic!("{error}\n{text}"));
    let imported = import("centrifugo.toml", &tree);
    let sources = Sources {
        file: Some(ConfigFile {
            name: "throng.toml".to_owned(),
            text: imported.text.clone(),
        }),
        ..Sources::default()
    };
    if let Err(problems) = Config::load(&sources) {
        panic!("{problems:#?}\n{}", imported.text);
    }
    imported
}

/// Effect and option of each note.
fn told(imported: &ImportedConfig) -> Vec<(Effect, &str)> {
    let notes = imported.notes.iter();
    notes
        .map(|note| (note.effect, note.option.as_str()))
        .collect()
}

/// Notes on every configuration that leaves these options out.
const ALWAYS: [(Effect, &str); 4] = [
    (Effect::Wider, "client.allowed_origins"),
    (Effect::Wider, "http_api.key"),
    (Effect::Changed, "http_server.internal_port"),
    (Effect::Changed, "limits.messages_per_second_max"),
];

#[test]
fn a_tree_of_version_six() {
    let imported = imported(include_str!("tests/six.toml"));
    assert_eq!(imported.text, include_str!("tests/six_here.toml"));
    assert_eq!(
        told(&imported),
        [
            (Effect::Wider, "news.allow_history_for_client"),
            (Effect::Narrower, "chat.allow_publish_for_subscriber"),
            (Effect::Narrower, "client.allowed_origins"),
            (Effect::Changed, "client.token.hmac_previous_secret_key"),
            (Effect::Changed, "engine.type"),
            (Effect::Changed, "limits.messages_per_second_max"),
        ]
    );
}

#[test]
fn a_row_of_version_five() {
    let imported = imported(include_str!("tests/five.toml"));
    assert_eq!(imported.text, include_str!("tests/five_here.toml"));
    let told = told(&imported);
    for expected in [
        (
            Effect::Wider,
            "allow_history_for_subscriber (without namespace)",
        ),
        (Effect::Wider, "client_user_connection_limit"),
        // The backend was to decide these rights.
        (Effect::Narrower, "private.proxy_subscribe"),
        (Effect::Narrower, "private.proxy_publish"),
        (Effect::Missing, "sockjs"),
        (Effect::Changed, "engine"),
        (Effect::Changed, "admin"),
        (Effect::Changed, "health"),
    ] {
        assert!(told.contains(&expected), "{expected:?}: {told:#?}");
    }
    let nobody = imported
        .notes
        .iter()
        .find(|note| note.text.starts_with("unknown option"));
    assert_eq!(nobody, None);
}

/// An empty file grants no rights, regardless of our own defaults.
#[test]
fn an_empty_file_opens_nothing() {
    let imported = imported("");
    assert_eq!(told(&imported), ALWAYS);
    let rights = imported.text.split("[channel]").nth(1).unwrap();
    assert!(!rights.contains("true"), "{rights}");
    assert!(imported.text.contains("anonymous = false"));
    // Centrifugo's own defaults cause no notes.
    let defaults = imported_text(
        "[admin]\nenabled = false\n[http_server]\ntls = {}\n[client]\nconcurrency = 0\n\
         [channel]\nprivate_prefix = \"$\"\nuser_separator = \",\"\n[engine]\ntype = \"memory\"\n",
    );
    assert_eq!(defaults, ALWAYS.map(|(_, option)| option.to_owned()));
}

fn imported_text(text: &str) -> Vec<String> {
    let notes = imported(text).notes;
    notes.into_iter().map(|note| note.option).collect()
}

/// The rights of one namespace, by what Centrifugo allows.
#[test]
fn rights_are_those_of_centrifugo() {
    // subscribe, anonymous_subscribe, publish, anonymous_publish, history
    for (allowed, expected) in [
        ("", "----- "),
        ("allow_subscribe_for_client", "s---- "),
        // It widens no right by itself.
        ("allow_subscribe_for_anonymous", "----- "),
        (
            "allow_subscribe_for_client allow_subscribe_for_anonymous",
            "sa--- ",
        ),
        ("allow_publish_for_client", "--p-- "),
        ("allow_publish_for_anonymous", "----- "),
        (
            "allow_publish_for_client allow_publish_for_anonymous",
            "--pb- ",
        ),
        (
            "allow_publish_for_subscriber",
            "----- allow_publish_for_subscriber",
        ),
        (
            "allow_publish_for_client allow_publish_for_subscriber",
            "--p-- ",
        ),
        ("allow_history_for_client", "----h "),
        ("allow_history_for_subscriber", "----- "),
        (
            "allow_subscribe_for_client allow_subscribe_for_anonymous allow_history_for_client",
            "sa--h allow_history_for_client",
        ),
        (
            "allow_subscribe_for_client allow_subscribe_for_anonymous allow_history_for_client \
             allow_history_for_anonymous",
            "sa--h ",
        ),
        (
            "presence allow_subscribe_for_client allow_subscribe_for_anonymous \
             allow_presence_for_subscriber",
            "sa--- allow_presence_for_subscriber",
        ),
        // Rights to a feature that is off cause no notes.
        ("force_push_join_leave allow_presence_for_client", "----- "),
        (
            "subscribe_proxy_enabled allow_subscribe_for_client allow_subscribe_for_anonymous",
            "----- subscribe_proxy_enabled",
        ),
        (
            "subscribe_stream_proxy_enabled allow_subscribe_for_client",
            "----- subscribe_stream_proxy_enabled",
        ),
        (
            "publish_proxy_enabled allow_publish_for_client allow_publish_for_anonymous",
            "----- publish_proxy_enabled",
        ),
    ] {
        let history = if allowed.contains("history") {
            "history_size = 1\nhistory_ttl = \"1m\"\n"
        } else {
            ""
        };
        let options: String = allowed
            .split_whitespace()
            .map(|option| format!("{option} = true\n"))
            .collect();
        let text = format!("[[channel.namespaces]]\nname = \"ns\"\n{history}{options}");
        let imported = imported(&text);
        let section = imported.text.split("[[namespace]]").nth(1).unwrap();
        let rights = [
            ("subscribe", 's'),
            ("anonymous_subscribe", 'a'),
            ("publish", 'p'),
            ("anonymous_publish", 'b'),
            ("history", 'h'),
        ];
        let found: String = rights
            .into_iter()
            .map(
                |(right, letter)| match section.contains(&format!("\n{right} = true\n")) {
                    true => letter,
                    false => '-',
                },
            )
            .collect();
        let told = told(&imported).into_iter().map(|(_, option)| option);
        let told: Vec<&str> = told
            .filter_map(|option| option.strip_prefix("ns."))
            .collect();
        assert_eq!(format!("{found} {}", told.join(" ")), expected, "{allowed}");
    }
}

/// Every option of 5.4.9, set to some value, is taken over or has a note with a reason.
#[test]
fn every_option_of_version_five_is_known() {
    let names = include_str!("tests/five.txt").split_whitespace();
    let names = names.filter(|name| !name.ends_with("namespaces"));
    let unknown: Vec<&str> = names
        .filter(|name| {
            let tree = format!("{name} = \"7\"").parse().unwrap();
            let mut notes = import("five", &tree).notes.into_iter();
            notes.any(|note| note.text.starts_with("unknown option"))
        })
        .collect();
    assert_eq!(unknown, [""; 0]);
}

/// Each section of 6.9.1 with a made-up option in it, and an unknown section.
#[test]
fn what_nobody_knows_is_told() {
    let told = |text: &str| -> Vec<String> {
        let notes = imported(text).notes.into_iter();
        let notes = notes.filter(|note| note.text.starts_with("unknown option"));
        notes.map(|note| note.option).collect()
    };
    assert_eq!(
        told(
            "[client]\npublish_debounce_interval = \"1s\"\n[[channel.namespaces]]\nname = \
              \"a1\"\nallow_everything = true\n[mistyped]\noption = 1\n"
        ),
        [
            "a1.allow_everything",
            "client.publish_debounce_interval",
            "mistyped.option"
        ]
    );
    for section in [
        "http_server.http3",
        "sse",
        "http_stream",
        "webtransport",
        "uni_websocket",
        "uni_sse",
        "uni_http_stream",
        "uni_grpc",
        "emulation",
        "admin",
        "prometheus",
        "health",
        "swagger",
        "debug",
        "opentelemetry",
        "graphite",
        "usage_stats",
        "node",
        "init",
        "broker",
        "presence_manager",
        "map_broker",
        "controller",
        "grpc_api",
        "rpc.ping",
        "client.proxy.connect",
        "client.proxy.refresh",
        "channel.proxy.subscribe",
        "client.connect_code_to_unidirectional_disconnect",
    ] {
        assert_eq!(
            told(&format!("[{section}]\nenabled = true\n")),
            [""; 0],
            "{section}"
        );
    }
    assert_eq!(
        told("consumers = [{ name = \"a\" }]\nproxies = [{ name = \"a\" }]\n"),
        [""; 0]
    );
}

/// Backends reached by HTTP keep their decisions.
#[test]
fn backends_are_taken_over() {
    let imported = imported(
        r#"
[client.proxy.connect]
enabled = true
endpoint = "https://backend/connect"
timeout = "2s"
http_headers = ["Cookie", "X-Id"]
[client.proxy.refresh]
endpoint = "https://backend/refresh"
[channel.proxy.subscribe]
endpoint = "http://backend/subscribe"
http_headers = ["Cookie"]
[channel.proxy.publish]
endpoint = "grpc://backend:3000"
[[channel.namespaces]]
name = "asked"
subscribe_proxy_enabled = true
publish_proxy_enabled = true
allow_subscribe_for_client = true
allowed_delta_types = ["fossil"]
allow_tags_filter = true
[[channel.namespaces]]
name = "other"
subscribe_proxy_enabled = true
subscribe_proxy_name = "mine"
"#,
    );
    let text = &imported.text;
    // Backends reached in another way have a section of their own.
    let proxy = "[proxy]\nconnect = \"https://backend/connect\"\nhttp_headers = [\"Cookie\", \
                 \"X-Id\"]\ntimeout = \"2s\"\n\n[[proxy.backend]]\nname = \
                 \"default-subscribe\"\nendpoint = \"http://backend/subscribe\"\n\
                 http_headers = [\"Cookie\"]\n";
    assert!(text.contains(proxy), "{text}");
    let (asked, other) = text.split_once("name = \"other\"").unwrap();
    for line in [
        "subscribe_proxy_enabled = true\nsubscribe_proxy_name = \"default-subscribe\"",
        "allowed_delta_types = [\"fossil\"]",
        "allow_tags_filter = true",
        "subscribe = false",
    ] {
        assert!(asked.contains(line), "{line}: {asked}");
    }
    assert!(!text.contains("publish_proxy_enabled"), "{text}");
    assert!(!other.contains("subscribe_proxy_enabled"), "{other}");
    let told = told(&imported);
    for option in [
        "channel.proxy.publish.endpoint",
        "asked.publish_proxy_enabled",
        "other.subscribe_proxy_enabled",
    ] {
        assert!(
            told.contains(&(Effect::Narrower, option)),
            "{option}: {told:#?}"
        );
    }
}

/// Backends with names, and the methods that each carries out.
#[test]
fn backends_with_names_are_taken_over() {
    let imported = imported(
        r#"
[[proxies]]
name = "chat"
endpoint = "http://chat/ask"
timeout = "3s"
http_headers = ["Cookie"]
emulated_headers = ["X-Id"]
binary_encoding = true
http = { static_headers = { a = "b" } }
[[proxies]]
name = "remote"
endpoint = "grpc://chat:1"
[client.proxy.connect]
enabled = true
endpoint = "http://backend/connect"
emulated_headers = ["Authorization"]
[rpc.proxy]
endpoint = "http://backend/rpc"
[rpc.without_namespace]
proxy_enabled = true
[[rpc.namespaces]]
name = "a"
proxy_enabled = true
[[rpc.namespaces]]
name = "b"
proxy_enabled = true
proxy_name = "chat"
[[rpc.namespaces]]
name = "c"
[[channel.namespaces]]
name = "asked"
subscribe_proxy_enabled = true
subscribe_proxy_name = "chat"
sub_refresh_proxy_enabled = true
sub_refresh_proxy_name = "chat"
publish_proxy_enabled = true
publish_proxy_name = "remote"
allow_publish_for_client = true
"#,
    );
    let text = &imported.text;
    for part in [
        "[proxy]\nconnect = \"http://backend/connect\"\nrpc = \"http://backend/rpc\"\n\
         rpc_namespaces = [\"a\"]\nemulated_headers = [\"Authorization\"]\n",
        "[[proxy.backend]]\nname = \"chat\"\nendpoint = \"http://chat/ask\"\n\
         rpc_namespaces = [\"b\"]\n",
        "timeout = \"3s\"\n",
        "http_headers = [\"Cookie\"]\n",
        "emulated_headers = [\"X-Id\"]\n",
        "binary_encoding = true\n",
        "subscribe_proxy_enabled = true\nsubscribe_proxy_name = \"chat\"\n",
        "sub_refresh_proxy_enabled = true\nsub_refresh_proxy_name = \"chat\"\n",
        "\npublish = false\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("publish_proxy_enabled"), "{text}");
    let told = told(&imported);
    for note in [
        (Effect::Narrower, "proxies.remote.endpoint"),
        (Effect::Narrower, "proxies.chat.http.static_headers.a"),
        (Effect::Narrower, "asked.publish_proxy_enabled"),
    ] {
        assert!(told.contains(&note), "{note:?}: {told:#?}");
    }
}

/// In version 5 a name alone switches a backend on.
#[test]
fn names_of_version_5_are_taken_over() {
    let imported = imported(
        r#"
granular_proxy_mode = true
connect_proxy_name = "a"
subscribe_proxy_name = "a"
allow_subscribe_for_client = true
[[proxies]]
name = "a"
endpoint = "http://backend/a"
"#,
    );
    let text = &imported.text;
    for part in [
        "[proxy]\nconnect = \"http://backend/a\"\n",
        "[[proxy.backend]]\nname = \"a\"\nendpoint = \"http://backend/a\"\n",
        "subscribe_proxy_enabled = true\nsubscribe_proxy_name = \"a\"\nsubscribe = false\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn durations_of_gos_are_ours() {
    for (there, here) in [
        ("300s", Some("300s")),
        ("1h30m", Some("1h30m")),
        ("1.5h", Some("1.5h")),
        ("500ms", Some("500ms")),
        ("60", Some("60s")),
        ("10us", None),
        ("s", None),
        ("5 minutes", None),
        ("", None),
    ] {
        assert_eq!(server::duration(there).as_deref(), here, "{there}");
    }
}
