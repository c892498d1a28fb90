//! A browser that shows an API key once, and is known by a cookie since: what the cookie is good
//! for, and for whom.

use serde_json::json;
use throng_testkit::{Response, Server, Setup, request};

const KEY: &str = "the-key-of-the-server-api-0123456789";
const OTHER: &str = "another-key-of-the-server-api-987654321";

/// Method and target, headers, and the status that answers.
type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], u16);

fn config(key: &str) -> String {
    format!("[auth]\napi_keys = [\"{key}\"]\n[listen]\napi_for_clients = true\n")
}

/// Asks the API port with these headers.
fn ask(server: &Server, method: &str, target: &str, headers: &[(&str, &str)]) -> Response {
    let body = if target == "/api/publish" {
        r#"{"channel":"c","data":1}"#
    } else {
        ""
    };
    request(server.api_address(), method, target, headers, body)
}

/// Signs in; gives what goes into the header `Cookie`, and the attributes.
fn sign_in(server: &Server, headers: &[(&str, &str)]) -> (String, String) {
    let headers = [&[("X-API-Key", KEY)], headers].concat();
    let answer = ask(server, "POST", "/session", &headers);
    assert_eq!(answer.status, 204, "{}", answer.body);
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let cookie = answer.header("set-cookie").expect("a cookie");
    let (cookie, attributes) = cookie.split_once("; ").expect("attributes");
    (cookie.to_owned(), attributes.to_owned())
}

#[test]
fn a_cookie_is_good_for_the_dashboard_s_own_page_alone() {
    let server = Setup::new(&config(KEY)).shards(2).start();
    for wrong in ["", "wrong", OTHER] {
        let answer = ask(&server, "POST", "/session", &[("X-API-Key", wrong)]);
        assert_eq!(answer.status, 401, "{wrong}");
        assert_eq!(answer.header("set-cookie"), None, "{wrong}");
    }
    assert_eq!(ask(&server, "GET", "/session", &[]).status, 405);

    let (cookie, attributes) = sign_in(&server, &[]);
    let port = server.api_address().port();
    let name = format!("throng_session_{port}=");
    assert!(cookie.starts_with(&name), "{cookie}");
    assert_eq!(cookie.len(), name.len() + 43);
    assert_eq!(
        attributes,
        "Path=/; Max-Age=43200; HttpOnly; SameSite=Strict"
    );
    let secure = format!("https://{}", server.api_address());
    let (_, attributes) = sign_in(&server, &[("Origin", &secure)]);
    assert!(
        attributes.ends_with("; SameSite=Strict; Secure"),
        "{attributes}"
    );

    let own = format!("http://{}", server.api_address());
    let neighbour = format!("http://{}", server.clients());
    let both = format!("theme=dark; {cookie}");
    let line = ("Cookie", cookie.as_str());
    // The port is the same host's, so the browser sends the cookie there, too.
    let elsewhere = ("Origin", neighbour.as_str());
    let here = ("Origin", own.as_str());
    let site = |site| ("Sec-Fetch-Site", site);
    let (config, publish) = ("GET /config", "POST /api/publish");
    let shorter = &cookie[..cookie.len() - 1];
    let other = &*cookie.replace("session_", "session_1");
    let null = ("Origin", "null");
    let (key, wrong) = (("X-API-Key", KEY), ("X-API-Key", "wrong"));
    let cases: [Case<'_>; 19] = [
        (config, &[line], 200),
        (config, &[("Cookie", &both)], 200),
        (config, &[], 401),
        (config, &[("Cookie", &name)], 401),
        (config, &[("Cookie", shorter)], 401),
        (config, &[("Cookie", other)], 401),
        (config, &[line, site("same-origin")], 200),
        (config, &[line, site("none")], 200),
        (config, &[line, site("same-site")], 403),
        (config, &[line, site("cross-site")], 403),
        (config, &[line, elsewhere], 403),
        (publish, &[line], 403),
        (publish, &[line, here], 200),
        (publish, &[line, elsewhere], 403),
        (publish, &[line, null], 403),
        (publish, &[line, site("none")], 403),
        // A wrong key is not mended by the cookie, and a good one needs none.
        (publish, &[line, here, wrong], 401),
        (publish, &[key], 200),
        // A signed-in browser cannot stay so for ever.
        ("POST /session", &[line, here], 401),
    ];
    for (request, headers, status) in cases {
        let (method, target) = request.split_once(' ').expect("two words");
        let answer = ask(&server, method, target, headers);
        assert_eq!(
            answer.status, status,
            "{method} {target} {headers:?}: {}",
            answer.body
        );
    }
    // On the client port a key counts, and no cookie.
    let body = r#"{"channel":"c","data":1}"#;
    let client = |headers: &[(&str, &str)]| {
        request(server.clients(), "POST", "/api/publish", headers, body).status
    };
    assert_eq!(client(&[("X-API-Key", KEY)]), 200);
    assert_eq!(client(&[line, ("Origin", &neighbour)]), 401);

    assert_eq!(ask(&server, "DELETE", "/session", &[line]).status, 403);
    assert_eq!(
        ask(&server, "DELETE", "/session", &[line, elsewhere]).status,
        403
    );
    assert_eq!(ask(&server, "GET", "/config", &[line]).status, 200);
    let answer = ask(&server, "DELETE", "/session", &[line, here]);
    assert_eq!(answer.status, 204);
    let gone = answer.header("set-cookie").expect("it is taken away");
    assert!(
        gone.starts_with(&format!("{name}; Path=/; Max-Age=0;")),
        "{gone}"
    );
    assert_eq!(ask(&server, "GET", "/config", &[line]).status, 401);
    server.stop();
}

#[test]
fn other_keys_sign_everybody_out() {
    let server = Setup::new(&config(KEY)).shards(1).start();
    let (cookie, _) = sign_in(&server, &[]);
    let cookie = [("Cookie", cookie.as_str())];
    let key = [("X-API-Key", KEY)];
    assert_eq!(ask(&server, "POST", "/api/reload", &key).status, 200);
    assert_eq!(ask(&server, "GET", "/config", &cookie).status, 200);
    server.configure(&config(OTHER));
    assert_eq!(ask(&server, "POST", "/api/reload", &key).status, 200);
    assert_eq!(ask(&server, "GET", "/config", &cookie).status, 401);
    server.stop();
}

#[test]
fn without_keys_there_is_nothing_to_sign_in_to() {
    let server = Setup::default().shards(1).start();
    let answer = ask(&server, "POST", "/session", &[]);
    assert_eq!((answer.status, answer.header("set-cookie")), (204, None));
    server.stop();
}

#[test]
fn connections_are_found_and_answers_are_bounded() {
    let server = Setup::default().shards(2).start();
    let mut streams = Vec::new();
    for channel in ["a", "a", "b"] {
        let mut wire = throng_testkit::Wire::connect(server.clients());
        wire.ask(&format!("/sse?channel={channel}"), "");
        wire.through("\r\n\r\n");
        streams.push(wire);
    }
    let find = |wanted: serde_json::Value| {
        let answer = server.ask("POST", "/api/connections", &wanted.to_string());
        let answer: serde_json::Value = serde_json::from_str(&answer.body).expect("JSON");
        answer["result"].clone()
    };
    for (wanted, found, rows) in [
        (json!({}), 3, 3),
        (json!({"transport": "sse"}), 3, 3),
        (json!({"transport": "websocket"}), 0, 0),
        (json!({"address": "127.0.0."}), 3, 3),
        (json!({"address": "127.0.0.", "limit": 2}), 3, 2),
        (json!({"address": "10."}), 0, 0),
        (json!({"user": "ann"}), 0, 0),
        (json!({"channel": "a"}), 2, 2),
        (json!({"channel": "a", "limit": 1}), 2, 1),
        (json!({"slow": true}), 0, 0),
    ] {
        let result = find(wanted.clone());
        assert_eq!(result["num_found"], found, "{wanted}");
        assert_eq!(result["cut"], false, "{wanted}");
        let listed = result["connections"].as_array().expect("a list");
        assert_eq!(listed.len(), rows, "{wanted}");
        for row in listed {
            assert_eq!(
                (&row["address"], &row["transport"]),
                (&json!("127.0.0.1"), &json!("sse"))
            );
        }
    }
    let one = find(json!({"channel": "b"}))["connections"][0].clone();
    assert_eq!(one["channels"], json!(["b"]));
    let ends = json!({"client": one["client"]}).to_string();
    assert_eq!(server.ask("POST", "/api/disconnect", &ends).status, 200);
    throng_testkit::until("it has gone", || find(json!({}))["num_found"] == 2);
    for wrong in [json!({"transport": "pigeon"}), json!({"channel": ""})] {
        let answer = server.ask("POST", "/api/connections", &wrong.to_string());
        let is_refused = answer.body.contains("bad request");
        assert_eq!(
            is_refused,
            wrong.get("transport").is_some(),
            "{}",
            answer.body
        );
    }
    let channels = server.ask("POST", "/api/channels", r#"{"limit":1}"#);
    assert_eq!(
        channels.body.trim(),
        r#"{"result":{"channels":{"a":{"num_clients":2}},"num_found":1}}"#
    );
    server.stop();
}
