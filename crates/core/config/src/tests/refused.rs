//! Refused configurations, with the exact messages.

use super::{check, load, refusals};
use crate::*;

#[test]
fn nothing_waits_for_a_disk_that_is_not_there() {
    let needs = "it needs history on disk; set history.path";
    check(
        "[history]\nacknowledge = \"written\"\n",
        &[&format!("throng.toml:2:15: history.acknowledge: {needs}")],
    );
    check(
        "[channel]\nhistory_acknowledge = \"synced\"\n",
        &[&format!(
            "throng.toml:2:23: channel.history_acknowledge: {needs}"
        )],
    );
    check(
        "[history]\npath = \"/h\"\n[channel]\nhistory_acknowledge = \"synced\"\n",
        &[],
    );
}

#[test]
fn strange_keys_are_named_with_what_was_meant() {
    check(
        "[websocket]\npign_interval = \"25s\"\n",
        &[
            "throng.toml:2:1: unknown option \"pign_interval\" in [websocket]: did you mean \
             \"ping_interval\"?",
        ],
    );
    check(
        "[stream]\nping_interval = \"25s\"\n  zzzzzzzz = 1",
        &[
            "throng.toml:2:1: unknown option \"ping_interval\" in [stream]: it belongs in \
             [websocket]",
            "throng.toml:3:3: unknown option \"zzzzzzzz\" in [stream]: the options there are \
             keepalive_interval",
        ],
    );
    check(
        "[websokcet]\nping_interval = \"1s\"\n",
        &["throng.toml:1:2: unknown section \"websokcet\": did you mean [websocket]?"],
    );
    check(
        "[[namespaces]]\nname = \"x\"",
        &["throng.toml:1:3: unknown section \"namespaces\": did you mean [[namespace]]?"],
    );
    check(
        "client = \"127.0.0.1:1\"\n",
        &["throng.toml:1:1: unknown option \"client\" outside any section: put it under [listen]"],
    );
    check(
        "[wholly_else]\n",
        &[
            "throng.toml:1:2: unknown section \"wholly_else\": the sections are [listen], \
             [tls], [engine], [limits], \
           [websocket], [stream], [auth], [drain], [broker], [history], [channel], \
             [[namespace]], [[feed]], [log], \
           [proxy], \
           [appwrite], \
           [grip]",
        ],
    );
    check(
        "[[namespace]]\nname = \"x\"\nrecover = true\n[[grip.route]]\npath = \"/\"\norigin = \
         \"http://a\"\ntimeout = 1\n[grip]\nroutes = 1",
        &[
            "throng.toml:3:1: unknown option \"recover\" in [[namespace]]: did you mean \
             \"recovery\"?",
            "throng.toml:7:1: unknown option \"timeout\" in [[grip.route]]: it belongs in [drain]",
            "throng.toml:9:1: unknown option \"routes\" in [grip]: did you mean \"route\"?",
        ],
    );
}

/// Each of these options reads or passes by publications that another option drops.
#[test]
fn what_may_be_dropped_is_not_needed_by_other_options() {
    check(
        "[channel]\nallowed_delta_types = [\"fossil\"]\nslow_consumer = \"latest-only\"\n",
        &[
            "throng.toml:2:23: channel.allowed_delta_types: it needs slow_consumer = \"close\": a \
             difference cannot be read without the publication before",
        ],
    );
    let filtered = "[[namespace]]\nname = \"a\"\nallow_tags_filter = true\n";
    check(
        &format!("{filtered}max_delay = \"50ms\"\nslow_consumer = \"latest-only\"\n"),
        &[
            "throng.toml:3:21: namespace[0].allow_tags_filter: it needs max_delay = \"0s\" or \
             another slow_consumer: the newest publication of a window may not be the newest that \
             passes a filter",
        ],
    );
}

#[test]
fn a_feed_needs_a_name_of_its_own_and_a_source() {
    let url = "url = \"postgres://me:secret@db/app\"\n";
    check(
        "[[feed]]\n",
        &[
            "throng.toml:1:1: feed[0] has no name: add name = \"orders\", or another",
            "throng.toml:1:1: feed[0] has no url: add url = \"postgres://...\"",
        ],
    );
    check(
        &format!("[[feed]]\nname = \"a\"\n{url}[[feed]]\nname = \"a\"\n{url}"),
        &["throng.toml:5:8: feed[1].name: another feed is named \"a\" too"],
    );
    check(
        &format!("[[feed]]\nname = \"a b\"\n{url}"),
        &[
            "throng.toml:2:8: feed[0].name: a name has 1 to 64 ASCII letters, digits, \"-\", \
             \"_\" and \".\"",
        ],
    );
    check(
        "[[feed]]\nname = \"a\"\nurl = \"mysql://me:secret@db/app\"\n",
        &[
            "throng.toml:3:7: feed[0].url: with kind = \"postgres\" it is postgres:// or \
             postgresql://...",
        ],
    );
    check(
        "[[feed]]\nname = \"a\"\nkind = \"redis\"\nurl = \"redis://a\"\n",
        &["throng.toml:1:1: feed[0] has no stream: add stream = \"events\""],
    );
    let kafka = "[[feed]]\nname = \"a\"\nkind = \"kafka\"\nurl = \"kafka://a\"\n";
    check(
        kafka,
        &["throng.toml:1:1: feed[0] has no topics: add topics = [\"orders\"]"],
    );
    check(
        &format!("{kafka}topics = [\"a b\", \"c\", \"c\"]\nbegin = \"now\"\n"),
        &[
            "throng.toml:5:10: feed[0].topics: \"a b\" is no topic: one has 1 to 249 ASCII \
             letters, digits, \"-\", \"_\" and \".\"",
            "throng.toml:5:10: feed[0].topics: a topic appears twice",
            "throng.toml:6:9: feed[0].begin: expected one of \"oldest\", \"newest\", \
             found \"now\"",
        ],
    );
    let nats = "[[feed]]\nname = \"a\"\nkind = \"nats\"\nurl = \"nats://a\"\n";
    check(
        nats,
        &["throng.toml:1:1: feed[0] has no stream: add stream = \"events\""],
    );
    check(
        &format!("{nats}stream = \"a.b\"\ngroup = \"c d\"\nsubject = \"a.>.b\"\n"),
        &[
            "throng.toml:5:10: feed[0].stream: \"a.b\" is no name of NATS: one has 1 to 255 bytes \
             without blanks, \".\", \"*\", \">\", \"/\" and \"\\\"",
            "throng.toml:6:9: feed[0].group: \"c d\" is no name of NATS: one has 1 to 255 bytes \
             without blanks, \".\", \"*\", \">\", \"/\" and \"\\\"",
            "throng.toml:7:11: feed[0].subject: \"a.>.b\" is no subject, as \"orders.>\" is one",
        ],
    );
    check(
        &format!("[[feed]]\nname = \"a\"\nkind = \"postgre\"\n{url}"),
        &[
            "throng.toml:3:8: feed[0].kind: expected one of \"postgres\", \"redis\", \"kafka\", \
             \"nats\", found \"postgre\"",
        ],
    );
}

#[test]
fn a_broker_elsewhere_needs_an_address_that_can_be_used() {
    check(
        "[broker]\nkind = \"redis\"\n",
        &[
            "throng.toml:2:8: broker.kind is \"redis\" without a server: add url = \
           \"redis://host:port\"",
        ],
    );
    for url in ["unix:///a", "nats://a"] {
        check(
            &format!("[broker]\nkind = \"redis\"\nurl = \"{url}\"\n"),
            &[
                "throng.toml:3:7: broker.url: with broker.kind = \"redis\" it is \
                 redis://user:password@host:port/db, rediss://, redis+sentinel:// or \
                 redis+cluster://",
            ],
        );
    }
    for url in ["redis+sentinel://a:26379", "rediss+sentinel://a/"] {
        check(
            &format!("[broker]\nkind = \"redis\"\nurl = \"{url}\"\n"),
            &[
                "throng.toml:3:7: broker.url: Sentinels need the name of a master: write \
                 redis+sentinel://HOST:PORT,HOST:PORT/MASTER",
            ],
        );
    }
    check(
        "[broker]\nkind = \"nats\"\n",
        &[
            "throng.toml:2:8: broker.kind is \"nats\" without a server: add url = \
           \"nats://host:port\"",
        ],
    );
    check(
        "[broker]\nkind = \"nats\"\nurl = \"redis://a\"\n",
        &[
            "throng.toml:3:7: broker.url: with broker.kind = \"nats\" it is \
             nats://user:password@host:port or tls://",
        ],
    );
    check(
        "[broker]\nkind = \"redis\"\nurl = \"redis://a\"\n[history]\npath = \"/a\"\n",
        &["throng.toml:5:8: history.path: the broker keeps the history; remove one of the two"],
    );
    check(
        "[broker]\nprefix = \"{a}\"\n",
        &["throng.toml:2:10: broker.prefix must not be empty and has no braces"],
    );
}

#[test]
fn wrong_shapes_say_how_to_write_it() {
    check(
        "[namespace]\nname = \"x\"\n",
        &[
            "throng.toml:1:1: namespace may stand several times: write it in double brackets, \
             [[namespace]]",
        ],
    );
    check(
        "namespace = [1]\n",
        &[
            "throng.toml:1:14: namespace is a section: write [[namespace]], and its options \
             below it",
        ],
    );
    check(
        "[[listen]]\n",
        &["throng.toml:1:1: [listen] can stand only once: write it in single brackets"],
    );
    check(
        "listen = 4\n",
        &["throng.toml:1:10: listen is a section: write [listen], and its options below it"],
    );
    check(
        "grip = false\n",
        &["throng.toml:1:8: grip is a section: write [grip], and its options below it"],
    );
    check(
        "[listen\nclient = 4\n[a",
        &[
            "throng.toml:1:8: not valid TOML: unclosed table, expected `]`",
            "throng.toml:3:3: not valid TOML: unclosed table, expected `]`",
        ],
    );
    check(
        "[listen]\napi = \"1\"\napi = \"2\"",
        &["throng.toml:3:1: not valid TOML: duplicate key"],
    );
}

#[test]
fn wrong_values_say_what_is_expected() {
    check(
        "[websocket]\nping_interval = 25\n",
        &[
            "throng.toml:2:17: websocket.ping_interval: expected a duration from \"1s\" to \
             \"1h\" or \"0s\" (off), found the number 25",
        ],
    );
    check(
        "[engine]\nbacklog = 0\nshards = -1\nout_buffer_bytes_max = \"1k\"\nconnections_max = 1.5",
        &[
            "throng.toml:2:11: engine.backlog: expected a whole number from 1 to 65535, found \
             the number 0",
            "throng.toml:3:10: engine.shards: expected a whole number from 0 to 256, found the \
             number -1",
            "throng.toml:4:24: engine.out_buffer_bytes_max: expected a size from \"4KiB\" to \
             \"1GiB\", found \"1k\"",
            "throng.toml:5:19: engine.connections_max: expected a whole number from 0 to \
             4294967295, found a number with a fraction",
        ],
    );
    check(
        "[listen]\nclient = [\"127.0.0.1:8000\",\n  \"localhost:9\"]\napi = true\n",
        &[
            "throng.toml:3:3: listen.client: expected an IP address with a port, such as \
             \"127.0.0.1:8000\" or \"[::]:8000\", with tls:// before it where TLS is to be \
             spoken, found \"localhost:9\"",
            "throng.toml:4:7: listen.api: expected an IP address with a port, such as \
             \"127.0.0.1:8000\" or \"[::]:8000\", with tls:// before it where TLS is to be \
             spoken, found true",
        ],
    );
    check(
        "[log]\nlevel = \"verbose\"\nformat = 1979-05-27\n",
        &[
            "throng.toml:2:9: log.level: expected one of \"error\", \"warn\", \"info\", \
             \"debug\", \"trace\", found \"verbose\"",
            "throng.toml:3:10: log.format: expected one of \"text\", \"json\", found a date or \
             time",
        ],
    );
    check(
        "[auth]\nallowed_origins = [\"https://a.b/\"]\ninsecure = \"yes\"\naudience = []\nissuer \
         = {}",
        &[
            "throng.toml:2:20: auth.allowed_origins: expected a web origin such as \
             \"https://app.example.com\", without a path, or \"*\", found \"https://a.b/\"",
            "throng.toml:3:12: auth.insecure: expected true or false, found \"yes\"",
            "throng.toml:4:12: auth.audience: expected a text that is not empty, found a list",
            "throng.toml:5:10: auth.issuer: expected a text that is not empty, found a section",
        ],
    );
}

/// Values of older versions are refused with the new value and the reason.
#[test]
fn records_by_the_kernel_are_no_more() {
    check(
        "[tls]\nrecords = \"kernel\"\n",
        &[
            "throng.toml:2:11: tls.records: expected one of \"rustls\", \"lean\", found \
             \"kernel\"; records by the kernel (kTLS) are no more, since they took 4 kB of its \
             memory for each connection: set \"lean\", which takes 0.3 kB, or \"rustls\"",
        ],
    );
}

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

/// A field that each request sets itself would be there twice.
#[test]
fn backends_get_no_field_of_clients_that_is_ours() {
    check(
        "[proxy]\nhttp_headers = [\"Cookie\", \"host\"]\nemulated_headers = [\"Content-Type\"]\n",
        &[
            "throng.toml:2:16: proxy.http_headers: Throng sets host itself; remove it",
            "throng.toml:3:20: proxy.emulated_headers: Throng sets Content-Type itself; remove it",
        ],
    );
    // A client's own field is passed on where we set none.
    let named = "[proxy]\n[[proxy.backend]]\nname = \"a\"\nendpoint = \"http://a\"\n\
        http_headers = [\"authorization\"]\n";
    load(named);
    check(
        &format!("{named}authorization = \"Bearer x\"\n"),
        &["throng.toml:5:16: proxy.backend[0].http_headers: \
             proxy.backend[0].authorization sets authorization too; keep one of the two"],
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
    let both = [
        format!("throng.toml:2:10: {client}"),
        format!("throng.toml:3:7: {api}"),
    ];
    check(file, &[&both[0], &both[1]]);
    check(&format!("{file}[auth]\napi_keys = [\"k\"]"), &[&both[0]]);
    check(
        &format!("{file}[auth]\nhmac_secret_file = \"f\""),
        &[&both[1]],
    );
    // A key that is given and wrong is one problem, not two.
    check(
        &format!("{file}[auth]\napi_keys = [\"k\"]\nhmac_secret = 1"),
        &[
            "throng.toml:6:15: auth.hmac_secret: expected a secret of at least 32 bytes, as \
           `openssl rand -hex 32` makes, and not the placeholder of an example, found a number",
        ],
    );
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
    assert_eq!(
        loaded.warnings,
        [
            "auth.insecure: clients reach 0.0.0.0:8000 and no key checks them",
            "auth.insecure: everyone who reaches [::]:8001 may use the server API",
        ]
    );
    for loopback in ["127.0.0.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
        assert!(
            load(&format!("[listen]\napi = \"{loopback}\""))
                .config
                .open_mode(),
            "{loopback}"
        );
    }
}

#[test]
fn combinations_that_cannot_work_are_refused() {
    check(
        "[listen]\nclient = []",
        &["throng.toml:2:10: listen.client is empty: name at least one address"],
    );
    check(
        "[listen]\nclient = [\"127.0.0.1:1\", \"127.0.0.1:1\"]\napi = \
         \"127.0.0.1:1\"\n[grip]\nzmq_pull = \"tcp://127.0.0.1:1\"",
        &[
            "throng.toml:2:10: listen.client: 127.0.0.1:1 appears twice",
            "throng.toml:3:7: listen.api: 127.0.0.1:1 is taken by listen.client; give each its \
             own port",
            "throng.toml:5:12: grip.zmq_pull: 127.0.0.1:1 is taken by listen.client; give each \
             its own port",
        ],
    );
    check(
        "[listen]\nclient = [\"127.0.0.1:0\", \"127.0.0.1:0\"]\napi = \"127.0.0.1:0\"\n",
        &[],
    );
    check(
        "[auth]\nhmac_secret = \"0123456789abcdef0123456789abcdef\"\nhmac_secret_file = \"b\"",
        &[
            "throng.toml:3:20: auth.hmac_secret_file: auth.hmac_secret is set too; keep one of \
             the two",
        ],
    );
    check(
        "[websocket]\nping_interval = \"5s\"\n",
        &[
            "websocket.pong_timeout: \"8s\" has to be shorter than websocket.ping_interval, \
             which is \"5s\"",
        ],
    );
    check("[websocket]\nping_interval = \"0s\"\n", &[]);
    check(
        "[limits]\nmessage_bytes_max = \"2MiB\"\n",
        &[
            "throng.toml:2:21: limits.message_bytes_max: a message of \"2MiB\" would not fit \
             into any connection's queue; \
           raise engine.out_buffer_bytes_max, which is \"1MiB\"",
        ],
    );
}

#[test]
fn channels_are_checked_together() {
    let recovery = "recovery: there is nothing to recover from; set";
    for (options, missing) in [
        ("recovery = true", "history_size and history_ttl"),
        ("recovery = true\nhistory_size = 1", "history_ttl"),
        ("recovery = true\nhistory_ttl = \"1m\"", "history_size"),
    ] {
        check(
            &format!("[channel]\n{options}"),
            &[&format!(
                "throng.toml:2:12: channel.{recovery} {missing} above 0"
            )],
        );
    }
    check(
        "[channel]\nrecovery = true\nhistory_size = 1\nhistory_ttl = \"1m\"",
        &[],
    );
    check(
        "[[namespace]]\nhistory_size = 5\nhistory_ttl = \"1s\"\n[[namespace]]\nname = \"a \
         b\"\n[[namespace]]\nname = \"x\"\n\
         [[namespace]]\nname = \"x\"\nrecovery = true\nslow_consumer = \"drop\"",
        &[
            "throng.toml:1:1: namespace[0] has no name: add name = \"…\"",
            "throng.toml:5:8: namespace[1].name: expected 1 to 64 ASCII letters, digits, \"-\", \
             \"_\" or \".\", found \"a b\"",
            "throng.toml:9:8: namespace[3].name: the namespace \"x\" appears twice; join the \
             two or rename one",
            "throng.toml:10:12: namespace[3].recovery: there is nothing to recover from; set \
             history_size and history_ttl above 0",
            "throng.toml:11:17: namespace[3].slow_consumer: expected one of \"close\", \
             \"drop-oldest\", \"latest-only\", found \"drop\"",
        ],
    );
    let loaded = load(
        "[channel]\nhistory_size = 5\n[auth]\nanonymous = true\n\
         hmac_secret = \"0123456789abcdef0123456789abcdef\"",
    );
    assert_eq!(
        loaded.warnings,
        [
            "listen.api: every program of this machine may publish and disconnect at \
             127.0.0.1:8001, since the server API needs no key: set auth.api_keys",
            "channel keeps no history: history_ttl is 0",
            NOTHING_IS_OPEN,
            "auth.anonymous is true, but no channel has anonymous_subscribe = true: \
             clients without a token can connect and do nothing",
        ]
    );
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
fn keys_are_fetched_by_tls_and_not_all_the_time() {
    let intervals = "jwks_refresh_interval = \"5s\"\njwks_refresh_interval_min = \"6s\"\n";
    let found = refusals(
        &format!("[auth]\njwks_url = \"https://a/k\"\n{intervals}"),
        &[],
        &[],
    );
    let expected = "throng.toml:4:29: auth.jwks_refresh_interval_min: it is longer than \
                    auth.jwks_refresh_interval";
    assert_eq!(found, [expected]);
    let found = refusals("[auth]\njwks = \"{}\"\njwks_file = \"f\"\n", &[], &[]);
    assert_eq!(
        found,
        ["throng.toml:3:13: auth.jwks_file: auth.jwks is set too; keep one of the two"]
    );
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

#[test]
fn what_tls_needs_is_named() {
    check(
        "[listen]\nclient = [\"tls://127.0.0.1:1\"]\n",
        &[
            "throng.toml:2:10: listen.client: tls://127.0.0.1:1 needs a certificate: set \
           tls.certificate and tls.key",
        ],
    );
    check(
        "[listen]\napi = \"tls://127.0.0.1:1\"\n[tls]\ncertificate = \"c\"\n",
        &["throng.toml:4:15: tls.certificate: its key is missing: set tls.key"],
    );
    check(
        "[tls]\nkey = \"k\"\napi_client_authorities = \"a\"\n",
        &[
            "throng.toml:2:7: tls.key: its certificate is missing: set tls.certificate",
            "throng.toml:3:26: tls.api_client_authorities: callers can show certificates only by \
             TLS: put tls:// before listen.api",
        ],
    );
    check(
        "[[tls.site]]\nname = \"a.example\"\n[[tls.site]]\nname = \"A.example\"\n\
         certificate = \"c\"\nkey = \"k\"\n",
        &[
            "throng.toml:1:1: tls.site[0] has no certificate: add certificate = \"…\"",
            "throng.toml:1:1: tls.site[0] has no key: add key = \"…\"",
            "throng.toml:4:8: tls.site[1].name: a.example appears twice",
        ],
    );
    check(
        "[listen]\nclient = [\"tls://127.0.0.1:1\"]\nproxy_protocol = \"127.0.0.1:1\"\n\
         trusted_proxies = \"10.0.0.1\"\n[tls]\ncertificate = \"c\"\nkey = \"k\"\n",
        // The header stands before TLS.
        &[],
    );
}
