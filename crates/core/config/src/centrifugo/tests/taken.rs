//! Options with a counterpart are written, others have a note, and guarded channels stay closed.

use super::*;

fn has(imported: &ImportedConfig, lines: &[&str]) {
    for line in lines {
        let is_there = imported.text.lines().any(|there| there == *line);
        assert!(is_there, "{line}: {}", imported.text);
    }
}

#[track_caller]
fn tells(imported: &ImportedConfig, notes: &[(Effect, &str)]) {
    let told = told(imported);
    for note in notes {
        assert!(told.contains(note), "{note:?}: {told:#?}");
    }
}

#[test]
fn other_brokers_leave_channels_in_this_process() {
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

/// Compression is an option of each channel here.
#[test]
fn compression_is_of_all_channels() {
    let imported =
        imported("[websocket]\ncompression = true\n[[channel.namespaces]]\nname = \"a\"\n");
    assert_eq!(imported.text.matches("\ncompression = true\n").count(), 2);
}

#[track_caller]
fn imported_of(text: &str) -> ImportedConfig {
    imported(text)
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
