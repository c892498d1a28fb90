//! Options with a counterpart are written, others have a note, and guarded channels stay closed.

use super::*;

fn has(imported: &Imported, lines: &[&str]) {
    for line in lines {
        let is_there = imported.text.lines().any(|there| there == *line);
        assert!(is_there, "{line}: {}", imported.text);
    }
}

#[track_caller]
fn tells(imported: &Imported, notes: &[(Effect, &str)]) {
    let told = told(imported);
    for note in notes {
        assert!(told.contains(note), "{note:?}: {told:#?}");
    }
}

#[test]
fn tls_is_taken_over_from_files_alone() {
    for text in [
        "tls = true\ntls_cert = \"/c.pem\"\ntls_key = \"/k.pem\"\ninternal_port = \"9\"\n\
         api_key = \"k\"\n",
        "[http_server]\ninternal_port = \"9\"\n[http_server.tls]\nenabled = true\n\
         cert_pem = \"/c.pem\"\nkey_pem = \"/k.pem\"\n[http_api]\nkey = \"k\"\n",
    ] {
        let imported = imported(text);
        let lines = [
            "client = [\"tls://0.0.0.0:8000\"]",
            "api = \"tls://0.0.0.0:9\"",
            "certificate = \"/c.pem\"",
            "key = \"/k.pem\"",
        ];
        has(&imported, &lines);
    }
    let lost = imported(
        "[http_server.tls]\nenabled = true\ncert_pem = \"-----BEGIN CERTIFICATE-----\"\nkey_pem \
         = \"LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0t==\"\nclient_ca_pem = \"x.pem\"\n",
    );
    has(&lost, &["client = [\"0.0.0.0:8000\"]"]);
    tells(
        &lost,
        &[
            (Effect::Wider, "http_server.tls.enabled"),
            (Effect::Wider, "http_server.tls.client_ca_pem"),
        ],
    );
    let lost = imported("[http_server.tls_autocert]\nenabled = true\n");
    tells(
        &lost,
        &[(Effect::Wider, "http_server.tls_autocert.enabled")],
    );
}

#[test]
fn several_nodes_are_taken_over() {
    for (text, lines) in [
        (
            "engine = \"redis\"\nredis_address = \"a:1,b:2\"\nredis_password = \"p@ss\"\n\
             redis_prefix = \"app\"\nredis_tls = true\nredis_db = 3",
            &[
                "prefix = \"app\"",
                "url = \"rediss://:p%40ss@a:1/3,rediss://:p%40ss@b:2/3\"",
            ][..],
        ),
        (
            "[engine]\ntype = \"redis\"\n[engine.redis]\naddress = [\"redis://x:y@a:1/2\"]",
            &["url = \"redis://x:y@a:1/2\""],
        ),
        (
            "[engine]\ntype = \"redis\"\n[engine.redis]\nsentinel_address = [\"a:1\", \"b:2\"]\n\
             sentinel_master_name = \"m\"\nuser = \"u\"\npassword = \"p\"",
            &["url = \"redis+sentinel://u:p@a:1,b:2/m\""],
        ),
        (
            "[engine]\ntype = \"redis\"\n[engine.redis]\naddress = \
             \"redis+sentinel://u:p@a:1/3?sentinel_master_name=m&addr=b:2\"",
            &["url = \"redis+sentinel://u:p@a:1,b:2/m/3\""],
        ),
        (
            "[engine]\ntype = \"redis\"\n[engine.redis]\naddress = \
             \"rediss+cluster://a:1?addr=b:2&addr=c:3\"",
            &["url = \"rediss+cluster://a:1,b:2,c:3\""],
        ),
        (
            "[engine]\ntype = \"redis\"\n[engine.redis]\ncluster_address = [\"a:1,b:2\", \"c:3\"]",
            &["url = \"redis+cluster://a:1,b:2,redis+cluster://c:3\""],
        ),
        (
            "broker = \"nats\"\nnats_url = \"nats://n:4222\"",
            &["kind = \"nats\"", "url = \"nats://n:4222\""],
        ),
        (
            "[broker]\nenabled = true\ntype = \"nats\"\n[broker.nats]\nprefix = \"app\"\n\
             [broker.nats.tls]\nenabled = true\nserver_ca_pem = \"/ca.pem\"\n\
             insecure_skip_verify = true",
            &[
                "url = \"tls://127.0.0.1:4222\"",
                "authorities = \"/ca.pem\"",
                "prefix = \"app\"",
            ],
        ),
    ] {
        has(&imported(text), lines);
    }
    for text in [
        "engine = \"tarantool\"",
        "[broker]\nenabled = true\ntype = \"postgres\"",
    ] {
        let imported = imported(text);
        assert!(!imported.text.contains("[broker]"), "{}", imported.text);
        let missing = |note: &ImportNote| {
            note.effect == Effect::Missing && note.text.starts_with("channels live in this process")
        };
        assert!(imported.notes.iter().any(missing), "{:?}", imported.notes);
    }
}

#[test]
fn consumers_of_data_are_feeds() {
    let imported = imported(
        r#"
[[consumers]]
name = "k"
enabled = true
type = "kafka"
[consumers.kafka]
brokers = ["a:1", "b:2"]
topics = ["t"]
consumer_group = "g"
sasl_mechanism = "scram-sha-256"
sasl_user = "u"
sasl_password = "p/w"
tls = { enabled = true }
publication_data_mode = { enabled = true, channels_header = "ch" }
[[consumers]]
name = "n"
enabled = true
type = "nats_jetstream"
[consumers.nats_jetstream]
url = "nats://n:4222"
stream_name = "S"
subjects = ["s.>"]
durable_consumer_name = "d"
publication_data_mode = { enabled = true }
[[consumers]]
name = "calls"
enabled = true
type = "kafka"
[[consumers]]
name = "outbox"
enabled = true
type = "postgresql"
[[consumers]]
name = "off"
enabled = false
type = "kafka"
"#,
    );
    has(
        &imported,
        &[
            "url = \"kafkas://u:p%2Fw@a:1,b:2?sasl=scram-sha-256\"",
            "topics = [\"t\"]",
            "group = \"g\"",
            "channel_header = \"ch\"",
            "stream = \"S\"",
            "subject = \"s.>\"",
            "group = \"d\"",
            "channel_header = \"centrifugo-channels\"",
        ],
    );
    assert_eq!(imported.text.matches("[[feed]]").count(), 2);
    tells(
        &imported,
        &[
            (Effect::Changed, "consumers.k"),
            (Effect::Missing, "consumers.calls"),
            (Effect::Missing, "consumers.outbox"),
        ],
    );
    let told = told(&imported);
    assert!(!told.iter().any(|(_, option)| option.contains("off")));
}

/// Personal channels, compression, and the API where clients connect.
#[test]
fn what_has_an_option_is_written() {
    let imported = imported(
        "[client.subscribe_to_user_personal_channel]\nenabled = true\nsingle_connection = true\n\
         [websocket]\ncompression = true\n[http_api]\nkey = \"k\"\n[[channel.namespaces]]\n\
         name = \"a\"\n",
    );
    let single = "client.subscribe_to_user_personal_channel.single_connection";
    tells(&imported, &[(Effect::Wider, single)]);
    has(
        &imported,
        &["personal_channel = true", "api_for_clients = true"],
    );
    assert_eq!(imported.text.matches("\ncompression = true\n").count(), 2);
    let elsewhere = imported_of(
        "user_subscribe_to_personal = true\nuser_personal_channel_namespace = \"p\"\n\
         internal_port = 9\napi_key = \"k\"\n",
    );
    assert!(!elsewhere.text.contains("personal_channel"));
    assert!(!elsewhere.text.contains("api_for_clients"));
    tells(
        &elsewhere,
        &[(Effect::Narrower, "user_personal_channel_namespace")],
    );
}

#[track_caller]
fn imported_of(text: &str) -> Imported {
    imported(text)
}

/// The SDKs' test suites use this: all clients have all rights, and the server starts.
#[test]
fn insecure_servers_are_what_they_were() {
    let imported = imported(
        "[client]\ninsecure = true\n[client.token]\nhmac_secret_key = \"secret\"\n[http_api]\n\
         insecure = true\n[channel.without_namespace]\npresence = true\nhistory_size = 1\n\
         history_ttl = \"1m\"\n",
    );
    has(
        &imported,
        &[
            "hmac_secret = \"secret\"",
            "short_hmac_secret = true",
            "insecure = true",
            "anonymous = true",
            "api_for_clients = true",
            "subscribe = true",
            "anonymous_subscribe = true",
            "publish = true",
            "anonymous_publish = true",
            "history = true",
            "allow_presence_for_anonymous = true",
        ],
    );
    tells(
        &imported,
        &[
            (Effect::Changed, "client.insecure"),
            (Effect::Changed, "client.token.hmac_secret_key"),
            (Effect::Changed, "http_api.insecure"),
        ],
    );
    // Only clients: the API cannot be called from elsewhere.
    let clients = imported_of("client_insecure = true\ninternal_port = 9000\n");
    has(&clients, &["insecure = true", "api = \"127.0.0.1:9000\""]);
    tells(
        &clients,
        &[
            (Effect::Narrower, "http_server.internal_port"),
            (Effect::Wider, "http_api.key"),
        ],
    );
}

/// A login by cookie passes the cookie, and each backend its own fields.
#[test]
fn each_backend_keeps_its_settings() {
    let imported = imported(
        r#"
granular_proxy_mode = true
connect_proxy_name = "login"
rpc_proxy_name = "calls"
subscribe_stream_proxy_name = "login"
allow_subscribe_for_client = true
[[proxies]]
name = "login"
endpoint = "http://login/"
timeout = "7s"
http_headers = ["Cookie"]
static_http_headers = { Authorization = "Bearer x" }
http_status_to_code_transforms = [
    { status_code = 403, to_disconnect = { code = 4403, reason = "no" } },
    { status_code = 503, to_error = { code = 1503, message = "later", temporary = true } },
    { status_code = 500, to_error = { code = 1, message = "?" } },
]
[[proxies]]
name = "calls"
endpoint = "http://calls/"
[[rpc_namespaces]]
name = "a"
rpc_proxy_name = "login"
[[rpc_namespaces]]
name = "b"
rpc_proxy_name = "nobody"
"#,
    );
    let proxy = "[proxy]\nconnect = \"http://login/\"\nrpc = \"http://calls/\"\n\
                 http_headers = [\"Cookie\"]\n\
                 status_codes = [\"403 disconnect 4403 no\", \"503 temporary 1503 later\"]\n\
                 timeout = \"7s\"\nauthorization = \"Bearer x\"\n";
    assert!(imported.text.contains(proxy), "{}", imported.text);
    has(
        &imported,
        &["rpc_namespaces = [\"a\"]", "subscribe = false"],
    );
    tells(
        &imported,
        &[
            (Effect::Wider, "rpc_proxy_name"),
            (Effect::Narrower, "rpc.namespaces.b"),
            (
                Effect::Narrower,
                "proxies.login.http_status_to_code_transforms",
            ),
            (Effect::Narrower, "subscribe_stream_proxy_name"),
        ],
    );
    // Methods of unnamed namespaces stay unknown.
    let calls = imported_of("proxy_rpc_endpoint = \"http://calls/\"\n");
    has(&calls, &["rpc_namespaces = [\"(none)\"]"]);
    // Methods without a namespace have no backend.
    let calls = imported_of(
        "[rpc.proxy]\nendpoint = \"http://calls/\"\n[[rpc.namespaces]]\nname = \"a\"\n\
         proxy_enabled = true\n",
    );
    assert!(!calls.text.contains("\nrpc = "), "{}", calls.text);
    has(&calls, &["rpc_namespaces = [\"a\"]"]);
}

/// Channels of other kinds must not become open streams here.
#[test]
fn namespaces_of_other_kinds_stay_closed() {
    for kind in ["map", "map_clients", "shared_poll"] {
        let imported = imported(&format!(
            "[client]\ninsecure = true\n[[channel.namespaces]]\nname = \"ns\"\n\
             subscription_type = \"{kind}\"\nallow_subscribe_for_client = true\n\
             allow_publish_for_client = true\n"
        ));
        let section = imported.text.split("[[namespace]]").nth(1).unwrap();
        assert!(!section.contains("true"), "{section}");
        tells(&imported, &[(Effect::Narrower, "ns.subscription_type")]);
    }
}

/// Patterns of names are a PRO feature.
#[test]
fn names_that_are_none_here_are_left_out() {
    let imported = imported("namespaces = [{ name = \"/users/:user\", presence = true }]\n");
    assert!(!imported.text.contains("[[namespace]]"));
    tells(
        &imported,
        &[(Effect::Narrower, "namespace \"/users/:user\"")],
    );
}

/// Centrifugo allows fields that its own requests set, and does not pass on the client's.
#[test]
fn fields_that_a_question_has_of_its_own_are_left_out() {
    for own in [
        "Host",
        "content-type",
        "Content-Length",
        "Connection",
        "Transfer-Encoding",
    ] {
        for text in [
            format!(
                "proxy_connect_endpoint = \"http://b/\"\nproxy_http_headers = [\"Cookie\", \
                 {own:?}]\n"
            ),
            format!(
                "[client.proxy.connect]\nenabled = true\nendpoint = \"http://b/\"\n\
                 http_headers = [\"Cookie\", {own:?}]\nemulated_headers = [{own:?}]\n"
            ),
            format!(
                "[[proxies]]\nname = \"a\"\nendpoint = \"http://b/\"\nhttp_headers = [\"Cookie\", \
                 {own:?}]\n"
            ),
        ] {
            let imported = imported(&text);
            has(&imported, &["http_headers = [\"Cookie\"]"]);
            let note = imported.notes.iter().find(|note| note.text.contains(own));
            let note = note.unwrap_or_else(|| panic!("{own}: {:#?}", imported.notes));
            assert_eq!(note.effect, Effect::Changed);
            assert!(note.option.ends_with("_headers"), "{}", note.option);
        }
    }
    // A backend with the operator's own authorization cannot get the client's.
    let given = "http_headers = [\"authorization\", \"Cookie\"]\n";
    let fixed = "http = { static_headers = { Authorization = \"Bearer x\" } }\n";
    let connect = "[client.proxy.connect]\nenabled = true\nendpoint = \"http://b/\"\n";
    let both = imported(&format!("{connect}{given}{fixed}"));
    has(
        &both,
        &[
            "http_headers = [\"Cookie\"]",
            "authorization = \"Bearer x\"",
        ],
    );
    tells(
        &both,
        &[(Effect::Narrower, "client.proxy.connect.http_headers")],
    );
    let named = "[[proxies]]\nname = \"a\"\nendpoint = \"http://b/\"\n";
    let named = imported(&format!("{named}{given}{fixed}"));
    tells(&named, &[(Effect::Narrower, "proxies.a.http_headers")]);
    has(
        &imported(&format!("{connect}{given}")),
        &["http_headers = [\"Cookie\", \"authorization\"]"],
    );
    let refresh = "[client.proxy.refresh]\nenabled = true\nendpoint = \"http://b/r\"\n";
    let joined = imported(&format!("{connect}{given}{refresh}{fixed}"));
    has(
        &joined,
        &[
            "http_headers = [\"Cookie\"]",
            "authorization = \"Bearer x\"",
        ],
    );
    tells(
        &joined,
        &[(Effect::Narrower, "client.proxy.refresh.endpoint")],
    );
}
