//! Clients behind a proxy that speaks TLS, and behind a real one; others are in
//! `dialogues/proxies.txt`.

use serde_json::json;
use throng_testkit::{Browser, Issuer, Setup, TlsFiles, Wire, post, until};

use crate::support::Nginx;

fn v2(source: [u8; 4]) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c".to_vec();
    header.extend(source);
    header.extend([127, 0, 0, 1, 0xdd, 0xd5, 0x1f, 0x40]);
    header
}

/// Proxies send the header in front of everything, TLS included: those that pass TLS through, and
/// those that speak it with us themselves.
#[test]
fn a_proxy_header_stands_before_tls() {
    for records in ["rustls", "lean"] {
        let tls = TlsFiles::default();
        let config = tls.config(&format!(
            "records = \"{records}\"\n[limits]\nconnections_per_ip = 1\n[listen]\n\
             trusted_proxies = [\"127.0.0.1\"]\nproxy_protocol = [\"127.0.0.1:0\"]\n"
        ));
        let server = Setup::new(&config).shards(2).tls_clients().start();
        let open = |before: &[u8]| {
            let to = server.clients();
            let mut wire = Wire::connect_secure_behind(to, tls.authority.pem(), before);
            wire.ask("/stream?channel=a", "");
            let status = wire.try_head().map(|head| head.status);
            (wire, status)
        };
        let v1 = |source: &str| format!("PROXY TCP4 {source} 127.0.0.1 4711 443\r\n");
        let mut kept = [
            open(v1("192.0.2.1").as_bytes()),
            open(&v2([192, 0, 2, 2])),
            open(b"PROXY UNKNOWN\r\n"),
        ];
        for (_, status) in &kept {
            assert_eq!(*status, Some(200), "{records}");
        }
        assert_eq!(open(&v2([192, 0, 2, 1])).1, Some(429));
        assert_eq!(open(v1("192.0.2.2").as_bytes()).1, Some(429));
        // The API port has the same address, and requires a header too.
        let api = |request: &str| {
            let mut wire = Wire::connect(server.api_address());
            wire.send(&format!("PROXY UNKNOWN\r\n{request}"));
            wire.response("POST")
        };
        assert_eq!(api(&post("/pub?channel=a", "hello")).status, 200);
        for (wire, _) in &mut kept {
            wire.through("hello");
        }
        // TLS without a header, a wrong header, and a header behind TLS: none is answered.
        for before in [&b""[..], b"PROXY NONSENSE\r\n"] {
            assert_eq!(open(before).1, None, "{}", before.escape_ascii());
        }
        let mut late = Wire::connect_secure(server.clients(), tls.authority.pem());
        late.send(&v1("192.0.2.3"));
        assert!(late.try_head().is_none());
        // A client may see its end before the counters do.
        until("three handshakes that were refused", || {
            let metrics = api("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").body;
            metrics.contains("throng_tls_handshakes_total{result=\"refused\"} 3\n")
        });
        server.stop();
    }
}

/// A real proxy, at an address of its own.
const NGINX: &str = "server { listen 127.0.0.1:PORT; location / {
proxy_pass http://SERVER; proxy_bind 127.0.0.3; proxy_http_version 1.1;
proxy_buffering off; proxy_set_header Connection \"\";
proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; } }
";

#[test]
fn behind_nginx_the_client_counts_and_not_what_it_says() {
    let config = "[limits]\nconnections_per_ip = 1\n[listen]\ntrusted_proxies = [\"127.0.0.3\"]\n";
    let server = Setup::new(config).shards(2).start();
    let nginx = Nginx::start(&NGINX.replace("SERVER", &server.clients().to_string()));
    let stream = |client: &str| {
        let mut wire = Wire::connect(nginx.address);
        let header = format!("X-Forwarded-For: {client}\r\n");
        wire.ask("/stream?channel=a", &header);
        (wire.head().status, wire)
    };
    let (status, _kept) = stream("198.51.100.1");
    assert_eq!(status, 200);
    // Another invention is the same client.
    assert_eq!(stream("198.51.100.2").0, 429);
    server.stop();
}

/// The API port below a path.
const BELOW: &str = "server { listen 127.0.0.1:PORT; location /dash/ {
proxy_pass http://SERVER/; proxy_http_version 1.1; proxy_buffering off;
proxy_set_header Connection \"\"; proxy_set_header Host $http_host; } }
";

const KEY: &str = "the-key-of-the-server-api-0123456789";

#[test]
fn the_dashboard_works_below_a_path() {
    let issuer = Issuer::start(&[]);
    let provider = issuer.url().replace("/keys", "");
    let config = format!(
        "[oidc]\nissuer = \"{provider}\"\nclient_id = \"throng\"\nclient_secret = \"secret\"\n\
         redirect_url = \"http://127.0.0.1:1/dash/session/callback\"\nread = [\"*\"]\n"
    );
    let server = Setup::new(&config).api_key(KEY).shards(2).start();
    let nginx = Nginx::start(&BELOW.replace("SERVER", &server.api_address().to_string()));
    issuer.open(
        "throng:secret",
        &nginx.address.to_string(),
        json!({"sub": "ann"}),
    );
    let browser = Browser::start("");
    let locked = "return document.getElementById('key-dialog').open";
    let live = "return link.phase === 'live' && location.pathname === '/dash/'";
    browser.open(&format!("http://{}/dash/", nginx.address));
    browser.until("it asks for a key", locked);
    browser.run(&format!(
        "document.getElementById('key').value = '{KEY}';
         document.querySelector('#key-form .go').click()"
    ));
    browser.until("samples by a key", live);
    browser.run("document.getElementById('publish').requestSubmit()");
    browser.until(
        "it publishes",
        "return document.getElementById('answer-status').textContent.startsWith('200')",
    );
    browser.until(
        "curl has the path, too",
        "return curlLines().publish.includes('/dash/pub?')",
    );
    for (tab, rows, text) in [
        ("channels", "channels", "No channel"),
        ("slow", "slow-closed", "Nobody"),
        ("refusals", "refusals", "no valid API key"),
        ("config", "config", "oidc.issuer"),
    ] {
        browser.run(&format!("document.getElementById('{tab}-tab').click()"));
        browser.until(
            tab,
            &format!("return document.getElementById('{rows}').textContent.includes('{text}')"),
        );
    }
    browser.run("followThis('channel', 'news')");
    browser.until(
        "it follows",
        "return document.getElementById('follow-note').textContent.startsWith('Following')",
    );
    browser.run("document.getElementById('leave').click()");
    browser.until("it asks again", locked);

    until("the provider is found", || {
        (server.ask("GET", "/session/oidc", "").status == 303).then_some(())
    });
    browser.until(
        "the provider is offered",
        "return !document.getElementById('provider').hidden",
    );
    browser.run("document.querySelector('#provider a').click()");
    browser.until("samples by a provider", live);
    server.stop();
}
