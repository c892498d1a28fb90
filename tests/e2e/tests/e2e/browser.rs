//! A real browser: its `EventSource` over `/sse`, its rules about origins, and the dashboard.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use serde_json::{Value, json};
use throng_testkit::{Browser, Proxy, Server, Setup, Wire};

use crate::support::{RECOVERY, data, publish};

/// Publications sent while the page is away.
const MISSED: usize = 50;

/// Serves an empty page, from an origin that the test chooses by its address.
fn page() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            thread::spawn(move || serve(stream));
        }
    });
    address
}

fn serve(mut stream: TcpStream) {
    let mut bytes = [0; 4096];
    // One read holds a browser's whole head; a connection that it opened in advance sends nothing.
    if matches!(stream.read(&mut bytes), Ok(1..)) {
        let body = "<!doctype html><title>page</title>";
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n";
        let _ = write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len());
    }
}

/// Listens as a page does, and keeps what comes.
fn listen(browser: &Browser, url: &str) {
    browser.run(&format!(
        "window.heard = []; window.told = []; window.opened = 0; window.failed = 0;
         window.source = new EventSource({});
         source.onopen = () => opened++;
         source.onerror = () => failed++;
         source.onmessage = (event) => heard.push(JSON.parse(event.data));
         for (const name of ['subscribed', 'dropped', 'disconnect'])
           source.addEventListener(name, (event) => told.push([name, JSON.parse(event.data)]));",
        json!(url)
    ));
    browser.until("the first event", "return told.length == 1");
}

fn heard(browser: &Browser, count: usize) -> Vec<Value> {
    let script = format!("return heard.length >= {count} && heard.splice(0)");
    let heard = browser.until(&format!("{count} events"), &script);
    heard.as_array().cloned().unwrap_or_default()
}

/// In the order of one channel.
fn of(heard: &[Value], round: &str) -> Vec<Value> {
    heard
        .iter()
        .filter(|data| data["round"] == round)
        .cloned()
        .collect()
}

#[track_caller]
fn story(server: &Server, channels: &[&str]) {
    let proxy = Proxy::new(server.clients());
    let browser = Browser::start();
    browser.open(&format!("http://{}/", page()));
    let query: Vec<String> = channels
        .iter()
        .map(|channel| format!("channel={channel}"))
        .collect();
    listen(
        &browser,
        &format!("http://{}/sse?{}", proxy.address(), query.join("&")),
    );
    let first = browser.run("return told[0][1]");
    assert_eq!(
        (&first["recovered"], &first["resuming"]),
        (&json!(false), &json!(false)),
        "{first}"
    );
    for channel in channels {
        publish(server, channel, &data(&format!("{channel} first"), 2));
    }
    heard(&browser, 2 * channels.len());
    for round in 1..=2 {
        proxy.cut();
        browser.until("the cut", &format!("return failed >= {round}"));
        let missed = |channel: &str| data(&format!("{channel} missed {round}"), MISSED);
        let live = |channel: &str| data(&format!("{channel} live {round}"), 3);
        for channel in channels {
            publish(server, channel, &missed(channel));
        }
        proxy.mend();
        browser.until(
            "its return",
            &format!("return told.length == {}", 1 + round),
        );
        let back = browser.run(&format!("return told[{round}]"));
        assert_eq!(back[0], "subscribed");
        assert_eq!(
            (&back[1]["recovered"], &back[1]["resuming"]),
            (&json!(true), &json!(true)),
            "{back}"
        );
        for channel in channels {
            publish(server, channel, &live(channel));
        }
        let all = heard(&browser, (MISSED + 3) * channels.len());
        assert_eq!(all.len(), (MISSED + 3) * channels.len());
        for channel in channels {
            assert_eq!(
                of(&all, &format!("{channel} missed {round}")),
                missed(channel)
            );
            assert_eq!(of(&all, &format!("{channel} live {round}")), live(channel));
        }
    }
    assert_eq!(browser.run("return heard.length"), 0);
}

#[test]
fn an_event_source_hears_what_it_missed_on_one_channel() {
    let server = Setup::new(RECOVERY).shards(1).start();
    story(&server, &["chat:news"]);
    server.stop();
}

#[test]
fn an_event_source_hears_what_it_missed_on_several_channels() {
    let server = Setup::new(RECOVERY).shards(3).start();
    story(&server, &["chat:a", "chat:b", "chat:c", "chat:d", "chat:e"]);
    server.stop();
}

#[test]
fn an_event_source_hears_a_compressed_stream() {
    let server = Setup::new(&format!("{RECOVERY}compression = true\n")).start();
    story(&server, &["chat:news"]);
    let mut wire = Wire::connect(server.clients());
    wire.ask("/sse?channel=chat:news", "Accept-Encoding: gzip\r\n");
    assert_eq!(wire.head().header("content-encoding"), Some("gzip"));
    server.stop();
}

/// A page of a stranger gets nothing. What a browser would not send is in `pages.rs`.
#[test]
fn pages_of_strangers_are_refused() {
    let allowed = page();
    let server = Setup::new(&format!(
        "[auth]\nallowed_origins = \
                                      [\"http://{allowed}\"]\nanonymous = \
                                      true\n[channel]\nanonymous_subscribe = \
                                      true\n"
    ))
    .api_key("k")
    .start();
    let url = format!("http://{}/sse?channel=news", server.clients());
    let browser = Browser::start();
    browser.open(&format!("http://{}/", page()));
    browser.run(&format!(
        "window.failed = 0; window.source = new EventSource({}); source.onerror = () => failed++",
        json!(url)
    ));
    // Closed for good, since a refusal is no lost connection.
    browser.until(
        "the refusal",
        "return failed == 1 && source.readyState == 2",
    );
    browser.open(&format!("http://{allowed}/"));
    listen(&browser, &url);
    server.counts("throng_connections_refused_total{reason=\"origin\"}", 1);
    server.stop();
}

#[test]
fn the_dashboard_shows_live_numbers() {
    let server = Setup::default().shards(2).start();
    let mut streams: Vec<Wire> = (0..7).map(|_| Wire::connect(server.clients())).collect();
    for stream in &mut streams {
        stream.ask("/sse?channel=news", "");
        stream.through("subscribed");
    }
    let browser = Browser::start();
    browser.open(&format!("http://{}/", server.api_address()));
    // Seven streams and what the page itself holds open.
    browser.until(
        "a live number",
        "return Number(document.getElementById('total').textContent) >= 7",
    );
    let shards = browser.run("return document.getElementById('shards').textContent");
    assert_eq!(shards, "2");
    // It goes on ticking: the number follows.
    let many = browser.run("return Number(document.getElementById('total').textContent)");
    streams.truncate(2);
    let fewer =
        format!("return Number(document.getElementById('total').textContent) <= {many} - 5");
    browser.until("a smaller number", &fewer);
    // The page publishes, too.
    browser.run("document.getElementById('publish').requestSubmit()");
    assert!(streams[0].through("everyone").contains("hello"));
    browser.until(
        "the answer",
        "return !document.getElementById('answer').textContent.includes('Nothing')",
    );
    let picture = browser.screenshot();
    assert!(picture.starts_with(b"\x89PNG"));
    std::fs::write(
        std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("dashboard.png"),
        picture,
    )
    .unwrap();
    assert_eq!(browser.console_errors(), [""; 0]);
    server.stop();
}
