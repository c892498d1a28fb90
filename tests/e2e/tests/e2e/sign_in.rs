//! A browser that shows an API key once, and is known by a cookie since: what the cookie is good
//! for, and for whom.

use serde_json::json;
use throng_testkit::{Response, Server, Setup, request};

const KEY: &str = "the-key-of-the-server-api-0123456789";
const OTHER: &str = "another-key-of-the-server-api-987654321";

/// Method, target, headers, and the status that answers.
type Case<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], u16);

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
    let cookie_line = ("Cookie", cookie.as_str());
    // The port is the same host's, so the browser sends the cookie there, too.
    let elsewhere = ("Origin", neighbour.as_str());
    let here = ("Origin", own.as_str());
    let cases: [Case<'_>; 19] = [
        ("GET", "/config", &[cookie_line], 200),
        ("GET", "/config", &[("Cookie", &both)], 200),
        ("GET", "/config", &[], 401),
        ("GET", "/config", &[("Cookie", &name)], 401),
        (
            "GET",
            "/config",
            &[("Cookie", &cookie[..cookie.len() - 1])],
            401,
        ),
        (
            "GET",
            "/config",
            &[("Cookie", &cookie.replace("session_", "session_1"))],
            401,
        ),
        (
            "GET",
            "/config",
            &[cookie_line, ("Sec-Fetch-Site", "same-origin")],
            200,
        ),
        (
            "GET",
            "/config",
            &[cookie_line, ("Sec-Fetch-Site", "none")],
            200,
        ),
        (
            "GET",
            "/config",
            &[cookie_line, ("Sec-Fetch-Site", "same-site")],
            403,
        ),
        (
            "GET",
            "/config",
            &[cookie_line, ("Sec-Fetch-Site", "cross-site")],
            403,
        ),
        ("GET", "/config", &[cookie_line, elsewhere], 403),
        ("POST", "/api/publish", &[cookie_line], 403),
        ("POST", "/api/publish", &[cookie_line, here], 200),
        ("POST", "/api/publish", &[cookie_line, elsewhere], 403),
        (
            "POST",
            "/api/publish",
            &[cookie_line, ("Origin", "null")],
            403,
        ),
        (
            "POST",
            "/api/publish",
            &[cookie_line, ("Sec-Fetch-Site", "none")],
            403,
        ),
        // A wrong key is not mended by the cookie, and a good one needs none.
        (
            "POST",
            "/api/publish",
            &[cookie_line, here, ("X-API-Key", "wrong")],
            401,
        ),
        ("POST", "/api/publish", &[("X-API-Key", KEY)], 200),
        // A signed-in browser cannot stay so for ever.
        ("POST", "/session", &[cookie_line, here], 401),
    ];
    for (method, target, headers, status) in cases {
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
    assert_eq!(client(&[cookie_line, ("Origin", &neighbour)]), 401);

    assert_eq!(
        ask(&server, "DELETE", "/session", &[cookie_line]).status,
        403
    );
    assert_eq!(
        ask(&server, "DELETE", "/session", &[cookie_line, elsewhere]).status,
        403
    );
    assert_eq!(ask(&server, "GET", "/config", &[cookie_line]).status, 200);
    let answer = ask(&server, "DELETE", "/session", &[cookie_line, here]);
    assert_eq!(answer.status, 204);
    let gone = answer.header("set-cookie").expect("it is taken away");
    assert!(
        gone.starts_with(&format!("{name}; Path=/; Max-Age=0;")),
        "{gone}"
    );
    assert_eq!(ask(&server, "GET", "/config", &[cookie_line]).status, 401);
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
        wire.send(&format!(
            "GET /sse?channel={channel} HTTP/1.1\r\nHost: localhost\r\n\r\n"
        ));
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
    throng_testkit::until("it has gone", || {
        (find(json!({}))["num_found"] == 2).then_some(())
    });
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
