//! Refused configurations, with the exact messages.

use super::{load, load_all, refusals};
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

/// The server could not connect to these, and refused to start.
#[test]
fn urls_that_nothing_connects_to_are_refused_with_the_part_at_fault() {
    let port = "its port is a number from 1 to 65535";
    let user = "leave out the user name and password";
    let fragment = "leave out the \"#\" and what follows it";
    let (query, path) = ("leave out the query", "leave out the path");
    let has_no_query = ["trace.otlp_url", "oidc.issuer", "appwrite.api"];
    let mut count = 0;
    for option in options() {
        let is_url = matches!(option.kind.as_str(), "URL" | "list of URLs");
        if !is_url || option.rule.secret {
            continue;
        }
        let at = option.path();
        let is_origin = at == "grip.route.origin";
        for (url, advice, is_refused) in [
            ("http://a:99999", port, true),
            ("https://a:0/b", port, true),
            ("http://a:", port, true),
            ("http://[::1]:x", port, true),
            ("http://hunter2:hunter2@a", user, true),
            ("http://a/b#c", fragment, true),
            (
                "http://a?b",
                query,
                is_origin || has_no_query.contains(&&*at),
            ),
            ("http://a/b", path, is_origin),
            ("http://a/", "", false),
            ("https://[::1]:8443", "", false),
            ("grpc://a:99999", port, true),
            ("grpcs://hunter2@a:1", user, true),
            ("grpc://a/b", path, true),
            ("grpc://a?b", query, true),
        ] {
            if url.starts_with("grpc") && !option.section.starts_with("proxy") {
                continue;
            }
            let heading = match option.section {
                "webhook" | "proxy.backend" | "grip.route" => format!("[[{}]]", option.section),
                section => format!("[{section}]"),
            };
            let file = format!("{heading}\n{} = \"{url}\"\n", option.key);
            let problems = refusals(&file, &[], &[]).join("\n");
            let is_told = !advice.is_empty() && problems.contains(&format!("; {advice}"));
            assert_eq!(is_told, is_refused, "{file}{problems}");
            assert!(!problems.contains("hunter2"), "{problems}");
        }
        count += 1;
    }
    assert_eq!(count, 15);
    let added = "[trace]\notlp_url = \"http://a:4318/v1/traces/\"";
    let problem = "trace.otlp_url: leave out /v1/traces, which is added";
    assert_eq!(
        refusals(added, &[], &[]),
        [format!("throng.toml:2:12: {problem}")]
    );
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

/// `THRONG_AUTH_HMAC_SECRET=$UNSET`: without its key the server would be open to everyone.
#[test]
fn an_empty_variable_is_no_key() {
    for name in [
        "AUTH_HMAC_SECRET",
        "AUTH_HMAC_SECRET_FILE",
        "AUTH_HMAC_PREVIOUS_SECRET",
        "AUTH_RSA_PUBLIC_KEY",
        "AUTH_JWKS",
        "AUTH_JWKS_URL",
        "AUTH_API_KEYS",
        "AUTH_API_KEYS_FILE",
    ] {
        let name = format!("THRONG_{name}");
        let found = refusals("", &[(&name, "")], &[]);
        let [problem] = found.as_slice() else {
            panic!("{name}: {found:?}");
        };
        assert!(
            problem.starts_with(&format!("env {name}: "))
                && problem.ends_with(": it is empty; give it a value or unset it"),
            "{problem}"
        );
        // The file does not replace it: the variable has precedence.
        let file = "[auth]\nhmac_secret = \"0123456789abcdef0123456789abcdef\"";
        assert_eq!(refusals(file, &[(&name, "")], &[]), found);
    }
    for name in [
        "AUTH_ALLOWED_ORIGINS",
        "AUTH_ANONYMOUS",
        "AUTH_SHORT_HMAC_SECRET",
        "BROKER_URL",
    ] {
        load_all("", &[(&format!("THRONG_{name}"), "")], &[]);
    }
}

/// Files are read later, and held to what the file's own values are.
#[test]
fn secrets_in_files_are_checked() {
    let taken = |options: &str, text: &str| {
        let mut auth = load(&format!("[auth]\n{options}")).config.auth;
        let file = auth.files().remove(0);
        auth.take_file(&file, text)
    };
    for (secret, fine) in [
        ("0123456789abcdef0123456789abcde", false),
        ("0123456789abcdef0123456789abcdef", true),
        ("change-me-to-32-characters-or-more", false),
        ("an-example-key-that-everyone-knows", false),
    ] {
        for option in ["hmac_secret", "hmac_previous_secret"] {
            let found = taken(&format!("{option}_file = \"s\""), secret);
            assert_eq!(found.is_ok(), fine, "{secret}");
        }
    }
    let short = "hmac_secret_file = \"s\"\nshort_hmac_secret = true";
    assert_eq!(taken(short, "secret"), Ok(()));
    assert!(taken(short, "change-me").is_err());
    let keys = "api_keys_file = \"k\"";
    assert!(taken(keys, "an-example-key-that-everyone-knows").is_err());
    assert_eq!(
        taken(keys, "one\nChange-me\n"),
        Err("auth.api_keys_file: k: one of the keys is the placeholder of an example".to_owned())
    );
    assert_eq!(
        taken(keys, " \n"),
        Err("auth.api_keys_file: k: the file holds no key; put one on each line".to_owned())
    );
    assert_eq!(
        taken("hmac_secret_file = \"s\"", " \n"),
        Err(
            "auth.hmac_secret_file: s: expected a secret of at least 32 bytes, as \
             `openssl rand -hex 32` makes, and not the placeholder of an example, found something \
             else"
                .to_owned()
        )
    );
    let message = taken("eddsa_public_key_file = \"e\"", "MC4CAQ").expect_err("no PEM text");
    assert!(
        message.starts_with("auth.eddsa_public_key_file: e: expected a public key as PEM text"),
        "{message}"
    );
}
