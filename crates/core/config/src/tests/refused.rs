//! Refused configurations, with the exact messages.

use super::{load, refusals};
use crate::*;

#[test]
fn sizes_and_durations_of_zero_are_refused_where_they_would_stop_everything() {
    for option in options() {
        let zero = match option.kind.as_str() {
            "size" => "\"0B\"",
            "duration" => "\"0s\"",
            _ => continue,
        };
        if option.section.contains('.') {
            continue;
        }
        let file = format!("[{}]\n{} = {zero}\n", option.section, option.key);
        let allowed = matches!(
            option.path().as_str(),
            "websocket.ping_interval"
                | "stream.keepalive_interval"
                | "auth.leeway"
                | "drain.timeout"
                | "drain.jitter"
                | "channel.history_ttl"
                | "namespace.history_ttl"
                | "channel.max_delay"
                | "appwrite.history"
                | "limits.address_work_max"
                | "history.sync"
                | "appwrite.api_grace"
                | "grip.message_wait"
                | "grip.response_timeout"
                | "grip.id_cache_ttl"
                | "grip.stats_report_interval"
                | "grip.subscription_linger"
        );
        if option.section != "namespace" {
            assert_eq!(refusals(&file, &[], &[]).is_empty(), allowed, "{file}");
        }
    }
}

#[test]
fn proxy_headers_need_a_listener_and_trusted_proxies() {
    for (file, part) in [
        (
            "proxy_protocol = \"127.0.0.1:8000\"",
            "listen.trusted_proxies",
        ),
        (
            "proxy_protocol = \"127.0.0.1:9\"\ntrusted_proxies = \"10.0.0.1\"",
            "neither in listen.client nor listen.api",
        ),
        (
            "trusted_proxies = \"10.0.0.1/33\"",
            "an IP address or a block",
        ),
        (
            "trusted_proxies = \"proxy.example\"",
            "an IP address or a block",
        ),
    ] {
        let problems = refusals(&format!("[listen]\n{file}\n"), &[], &[]);
        assert!(
            matches!(&problems[..], [one] if one.contains(part)),
            "{file}: {problems:?}"
        );
    }
}

#[test]
fn secrets_stay_out_of_messages_and_lists() {
    let pem = "-----BEGIN PRIVATE KEY-----hunter2";
    let wrong = [
        ("[auth]\nhmac_secret = [\"hunter2\"]\n".to_owned(), "a list"),
        (
            "[auth]\napi_keys = [\"\", \"hunter2\"]\n".to_owned(),
            "another text",
        ),
        (
            format!("[auth]\nrsa_public_key = \"{pem}\"\n"),
            "a private key",
        ),
        (
            "[appwrite]\nredis = \"http://:hunter2@host\"\n".to_owned(),
            "another text",
        ),
    ];
    for (file, found) in wrong {
        let problems = refusals(&file, &[], &[]).join("\n");
        assert!(problems.contains(&format!("found {found}")), "{problems}");
        assert!(!problems.contains("hunter2"), "{problems}");
    }
    let problems = refusals(
        "",
        &[("THRONG_APPWRITE_REDIS", "http://:hunter2@host")],
        &[],
    );
    assert_eq!(problems.len(), 1);
    assert!(!problems.concat().contains("hunter2"), "{problems:?}");

    let loaded = load(
        "[auth]\nhmac_secret = \"hunter2-hunter2-hunter2-hunter2-\"\napi_keys = [\"hunter2\", \
         \"hunter2b\"]\n\
         [appwrite]\nredis = \"redis://:hunter2@host\"\n[grip]\nsig_key = \"hunter2\"\n",
    );
    let shown = loaded.show(false);
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(shown.contains("api_keys = [\"********\"]"), "{shown}");
    assert!(!format!("{loaded:?}").contains("hunter2"));
    assert_eq!(loaded.show(true).matches("hunter2b").count(), 1);
}

#[test]
fn addresses_that_others_reach_need_keys() {
    let client = "listen.client: other machines can reach 0.0.0.0:8000, but clients need no key: \
        set auth.hmac_secret or a public key (auth.rsa_public_key, auth.ecdsa_public_key, \
        auth.eddsa_public_key, auth.jwks_url), or auth.insecure = true to do without";
    let api = "listen.api: other machines can reach [::]:8001, but the server API needs no key: \
        set auth.api_keys, or auth.insecure = true to do without";
    let file = "[listen]\nclient = \"0.0.0.0:8000\"\napi = \"[::]:8001\"\n";
    let by_flag = refusals("", &[], &[("--listen", "0.0.0.0:8000")]);
    assert_eq!(by_flag, [format!("flag --listen: {client}")]);
    let by_variable = refusals("", &[("THRONG_LISTEN_API", "[::]:8001")], &[]);
    assert_eq!(by_variable, [format!("env THRONG_LISTEN_API: {api}")]);

    for keys in [
        "eddsa_public_key_file = \"f\"",
        "jwks_file = \"f\"",
        "jwks_url = \"https://login.example.com/keys\"",
        "ecdsa_public_key = \"-----BEGIN PUBLIC KEY-----\"",
    ] {
        let channel = "[channel]\nsubscribe = true";
        let loaded = load(&format!(
            "{file}[auth]\napi_keys_file = \"f\"\n{keys}\n{channel}"
        ));
        assert!(!loaded.config.open_mode() && !loaded.config.anonymous_allowed());
        assert_eq!(loaded.warnings, [""; 0]);
    }
    let loaded = load(&format!("{file}[auth]\ninsecure = true\n"));
    assert!(!loaded.config.open_mode() && loaded.config.anonymous_allowed());
    for loopback in ["127.0.0.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
        assert!(
            load(&format!("[listen]\napi = \"{loopback}\""))
                .config
                .open_mode(),
            "{loopback}"
        );
    }
}

const NOTHING_IS_OPEN: &str = "keys are set and no option opens any channel: clients may \
    subscribe only where their token names the channel or they bring a subscription token; \
    subscribe = true in [channel] or a [[namespace]] opens its channels to clients with a token";

#[test]
fn keys_without_an_open_channel_are_told() {
    let auth = "[auth]\nhmac_secret = \"0123456789abcdef0123456789abcdef\"\n";
    for (channels, is_told) in [
        ("", true),
        ("[channel]\npublish = true\nhistory = true", true),
        ("[[namespace]]\nname = \"a\"\nsubscribe = false", true),
        ("[channel]\nsubscribe = true", false),
        ("[channel]\nuser_channels = true", false),
        ("[channel]\nanonymous_subscribe = true", false),
        ("[[namespace]]\nname = \"a\"\nsubscribe = true", false),
    ] {
        let warnings = load(&format!("{auth}{channels}")).warnings;
        assert_eq!(
            warnings.contains(&NOTHING_IS_OPEN.to_owned()),
            is_told,
            "{channels}"
        );
    }
    assert!(load("").warnings.is_empty(), "open mode opens all");
}

/// The place in every channel stands in the id that an `EventSource` brings back.
#[test]
fn ids_of_event_streams_fit_into_a_head_or_it_is_told() {
    let kept = "recovery = true\nhistory_size = 1\nhistory_ttl = \"1m\"\n";
    let channel = format!("[channel]\n{kept}");
    let namespace = format!("[[namespace]]\nname = \"a\"\n{kept}");
    for (limits, channels, is_told) in [
        ("channels_per_connection = 350", &*channel, true),
        ("channels_per_connection = 350", &*namespace, true),
        ("channels_per_connection = 350", "", false),
        ("channels_per_connection = 300", &*channel, false),
        ("head_bytes_max = \"4KiB\"", &*channel, true),
        (
            "channels_per_connection = 350\nhead_bytes_max = \"32KiB\"",
            &*channel,
            false,
        ),
    ] {
        let loaded = load(&format!("[limits]\n{limits}\n{channels}"));
        let told = |warning: &String| warning.contains("an EventSource with so many channels");
        assert_eq!(
            loaded.warnings.iter().any(told),
            is_told,
            "{limits}\n{channels}"
        );
    }
}

#[test]
fn keys_are_fetched_by_tls() {
    for (url, is_warned) in [
        ("https://login.example.com/keys", false),
        ("http://login.example.com/keys", true),
        ("http://localhost.example.com/keys", true),
        ("http://127.0.0.1.example.com:80/keys", true),
        ("http://localhost:3000/keys", false),
        ("http://127.0.0.9", false),
        ("http://[::1]:3000?k", false),
    ] {
        let loaded = load(&format!("[auth]\njwks_url = \"{url}\"\n"));
        let warned = |warning: &String| warning.starts_with("auth.jwks_url: without TLS");
        assert_eq!(loaded.warnings.iter().any(warned), is_warned, "{url}");
    }
}
