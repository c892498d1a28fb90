//! The dashboard as an operator uses it, in a real browser: it asks for the key, looks up and acts.

use serde_json::json;
use throng_testkit::{Browser, Sdk, Setup, request, until};

use crate::support::{SECRET, signed_in};

const KEY: &str = "the-key-of-the-server-api-0123456789";

const CHANNELS: &str = r#"
[[namespace]]
name = "room"
subscribe = true
presence = true
history_size = 10
history_ttl = "5m"
"#;

/// Keeps a picture for people.
fn keep(browser: &Browser, name: &str) {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(path, browser.screenshot()).unwrap();
}

/// A tab of the lower panel, once its rows have content.
fn tab(browser: &Browser, name: &str, rows: &str, text: &str) {
    browser.run(&format!("document.getElementById('{name}-tab').click()"));
    let text = json!(text);
    let seen = format!("return document.getElementById('{rows}').textContent.includes({text})");
    browser.until(name, &seen);
}

#[test]
fn an_operator_enters_a_key_looks_up_and_acts() {
    let config = format!("[auth]\nhmac_secret = \"{SECRET}\"\n{CHANNELS}");
    let server = Setup::new(&config).shards(2).api_key(KEY).start();
    let (mut ann, _) = signed_in(Sdk::javascript, &server, "ann");
    ann.subscribe("room:blue");
    server.publish("room:blue", r#"{"text":"kept for later"}"#);
    let get = |target: &str| request(server.clients(), "GET", target, &[], "").status;
    assert_eq!(get("/sse?channel=room:blue"), 401);

    let browser = Browser::start();
    browser.open(&format!("http://{}/", server.api_address()));
    browser.until(
        "the question",
        "return document.getElementById('key-dialog').open",
    );
    browser.run(&format!(
        "document.getElementById('key').value = '{KEY}';
         document.querySelector('#key-form .go').click()"
    ));
    // One WebSocket; the page's own event stream is no client.
    let split = "[...document.querySelectorAll('#split dd')].map((at) => at.textContent)";
    browser.until("the client", &format!("return {split}.join() == '1,0,0,0'"));
    // Neither an address nor a script has the key, and the cookie is none of a script's business.
    assert_eq!(
        browser.run(
            "return location.search + location.hash + document.cookie
                 + JSON.stringify({...sessionStorage, ...localStorage})"
        ),
        "{}"
    );
    // Only the client counts, and neither the page's stream nor its questions.
    browser.until(
        "one connection",
        "return document.getElementById('total').textContent === '1'",
    );

    tab(&browser, "channels", "channels", "room:blue");
    browser.run("document.querySelector('#channels button').click()");
    browser.until(
        "the history",
        "return document.getElementById('history').textContent.includes('kept for later')",
    );
    browser.until(
        "who is there",
        "return document.getElementById('members').textContent.includes('ann')",
    );
    keep(&browser, "dashboard-channels.png");
    // Names that are not there.
    browser.run(
        "document.getElementById('pattern').value = 'green';
         document.getElementById('find').requestSubmit()",
    );
    browser.until(
        "no channel",
        "return document.getElementById('channels-note').textContent.startsWith('0 ')",
    );

    tab(&browser, "connections", "connections", "ann");
    let seek = |user: &str, address: &str, transport: &str, note: &str| {
        browser.run(&format!(
            "document.getElementById('seek-user').value = '{user}';
             document.getElementById('seek-address').value = '{address}';
             document.getElementById('seek-transport').value = '{transport}';
             document.getElementById('seek').requestSubmit()"
        ));
        let text = "document.getElementById('connections-note').textContent";
        browser.until(note, &format!("return {text} === '{note}'"));
    };
    seek("an", "127.0.0", "websocket", "1 connection");
    keep(&browser, "dashboard-connections.png");
    seek("bob", "", "", "0 connections");
    seek("", "192.0.2", "", "0 connections");
    seek("", "", "sse", "0 connections");
    seek("", "", "", "1 connection");
    browser.run("document.querySelector('#connections .row button').click()");
    let ended = ann.event("unsubscribed", &json!({}));
    assert_eq!(ended["channel"], "room:blue");
    tab(&browser, "slow", "slow-rows", "all of them keep up");
    tab(&browser, "slow", "slow-closed", "Nobody since the start.");
    assert_eq!(
        browser.run("return document.getElementById('nodes-tab').hidden"),
        true
    );

    tab(&browser, "refusals", "refusals", "no token");
    tab(&browser, "config", "config", "auth.api_keys");
    let shown = browser.run("return document.getElementById('config').textContent");
    let shown = shown.as_str().unwrap();
    assert!(!shown.contains(KEY) && !shown.contains(SECRET), "{shown}");
    keep(&browser, "dashboard-config.png");

    // A page that opens later has what was before it.
    until("two moments of the hour", || {
        let key = [("X-API-Key", KEY)];
        let hour = request(server.api_address(), "GET", "/stats/hour", &key, "");
        let hour: serde_json::Value = serde_json::from_str(&hour.body).ok()?;
        (hour["moments"].as_array()?.len() >= 2).then_some(())
    });
    browser.open(&format!("http://{}/", server.api_address()));
    browser.until(
        "the past",
        "return samples.filter((sample) => sample.every).length >= 2",
    );
    browser.run("document.querySelector('[data-window=\"3600000\"]').click()");
    keep(&browser, "dashboard-hour.png");

    browser.run("document.getElementById('channels-tab').click()");
    browser.run(
        "document.getElementById('who').value = 'ann';
         document.getElementById('kick').requestSubmit()",
    );
    ann.event("disconnected", &json!({}));
    // Signed out: it asks again.
    browser.run("document.getElementById('leave').click()");
    browser.until(
        "the question once more",
        "return document.getElementById('key-dialog').open",
    );
    assert_eq!(
        browser.run("return fetch('/config').then((answer) => answer.status)"),
        401
    );
    // The answers that made the page ask for the key.
    let errors = browser.console_errors();
    assert!(
        errors.iter().all(|error| error.contains("401")),
        "{errors:?}"
    );
    server.stop();
}

#[test]
fn what_operators_look_up_wants_a_key() {
    let server = Setup::default().shards(1).api_key(KEY).start();
    for path in ["/stats/hour", "/refusals", "/slow", "/config"] {
        let get = |headers: &[(&str, &str)]| {
            request(server.api_address(), "GET", path, headers, "").status
        };
        assert_eq!(get(&[]), 401, "{path}");
        assert_eq!(get(&[("X-API-Key", KEY)]), 200, "{path}");
        let elsewhere = request(server.clients(), "GET", path, &[("X-API-Key", KEY)], "");
        assert_eq!(elsewhere.status, 404, "{path}");
    }
    server.stop();
}
