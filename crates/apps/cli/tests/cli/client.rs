//! `publish` and `subscribe` against a server that the test plays.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Stdio;

use crate::fake::{Fake, answer, events};
use crate::program::{failing, run, run_line, run_with, throng};

/// An address on which nobody listens.
fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[test]
fn publishing_sends_the_data_as_they_are() {
    let ok = answer(200, "{\"offset\":1}");
    let fake = Fake::new(&[&ok, &ok, &ok, &ok]);
    let (data, more) = ("hé\"llo", ["--api", &fake.url, "--api-key", "k"]);
    let done = run(&[&["publish", "a b", data], &more[..]].concat()).expect(0);
    assert_eq!((done.out.as_str(), done.err.as_str()), ("", ""));
    let asked = fake.asked();
    assert_eq!(asked.line, "POST /pub?channel=a%20b HTTP/1.1");
    assert_eq!(asked.header("x-api-key"), Some("k"));
    assert_eq!(asked.body, "hé\"llo".as_bytes());

    for arguments in [vec!["publish", "news", "-"], vec!["publish", "news"]] {
        let arguments = [arguments, vec!["--api", &fake.url]].concat();
        run_with(&arguments, b"\x00\xffline\n").expect(0);
        let asked = fake.asked();
        assert_eq!(
            (asked.header("x-api-key"), asked.body.as_slice()),
            (None, &b"\x00\xffline\n"[..])
        );
    }
    let done = run(&["publish", "news", "x", "--json", "--api", &fake.url]).expect(0);
    assert_eq!(done.out, "{\"offset\":1}\n");
}

#[test]
fn a_refused_publication_says_why_and_what_to_do() {
    let too_large = ["413, too large", "limits.publish_bytes_max"];
    for (answer, code, parts) in [
        (answer(401, "a key\n"), 6, ["401, a key", "--api-key"]),
        (answer(404, ""), 6, ["404 Not Found", "8001"]),
        (answer(413, "too large"), 6, too_large),
        (answer(500, "\x1b[31mred"), 6, ["500, [31mred", ""]),
        ("SSH-2.0-OpenSSH\r\n".into(), 5, ["not HTTP", ""]),
        (String::new(), 5, ["closed", "unknown"]),
    ] {
        let fake = Fake::new(&[&answer]);
        let done = run(&["publish", "news", "x", "--api", &fake.url]).expect(code);
        assert_eq!(done.out, "");
        done.says(&parts);
    }
    let nobody = nobody();
    failing(&format!(
        "publish news x --api {nobody} => 5 connection refused | throng serve"
    ));
    run(&["publish", "", "x"])
        .expect(2)
        .says(&["channel name is empty"]);
    // A server that gets a TLS hello and answers in plain text.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let secure = format!("https://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            let _ = socket.read_to_end(&mut Vec::new());
        }
    });
    failing(&format!(
        "publish news x --api {secure} --insecure => 5 TLS failed | the bytes received are not TLS
publish news x --api {secure} --ca /nowhere.pem => 5 --ca /nowhere.pem"
    ));
}

#[test]
fn subscribing_prints_and_resumes_where_it_was() {
    let fake = Fake::new(&[
        &events(
            "event: subscribed\nretry: 1\ndata: {\"recovered\":false,\"resuming\":false}\nid: 0\n\
             \nid: 1\ndata: one\n\n: alive\n\ndata: cut",
        ),
        &answer(503, "starting"),
        &events(
            "event: subscribed\ndata: {\"recovered\":true,\"resuming\":true}\n\nid: 2\ndata: two\n\
             \nid: 3\ndata: three\n\ndata: four\n\n",
        ),
    ]);
    let server = &fake.url;
    let line = format!("subscribe a b:c --server {server} --token T --count 3");
    let done = run_line(&line).expect(0);
    assert_eq!(done.out, "one\ntwo\nthree\n");
    done.says(&[
        "closed the connection; coming back",
        "503, starting",
        "nothing was missed",
    ]);
    let first = fake.asked();
    assert_eq!(first.line, "GET /sse?channel=a&channel=b%3Ac HTTP/1.1");
    assert_eq!(
        (first.header("authorization"), first.header("last-event-id")),
        (Some("Bearer T"), None)
    );
    for _ in 0..2 {
        assert_eq!(fake.asked().header("last-event-id"), Some("1"));
    }
}

#[test]
fn what_was_missed_is_told() {
    let one = "event: subscribed\ndata: {\"recovered\":false,\"resuming\":false}\n\n";
    let lost = events(
        "event: subscribed\ndata: {\"recovered\":false,\"resuming\":true}\n\nevent: dropped\n\
         data: {\"dropped\":2}\n\ndata: x\n\n",
    );
    let without = Fake::new(&[&events(one), &events("data: x\n\n")]);
    let arguments = ["subscribe", "a", "--count", "1", "--server"];
    run(&[&arguments[..], &[&without.url]].concat())
        .expect(0)
        .says(&["keep no history"]);
    let with = Fake::new(&[&events("id: 1\nevent: subscribed\ndata: {}\n\n"), &lost]);
    let done = run(&[&arguments[..], &[&with.url]].concat()).expect(0);
    done.says(&["does not reach back", "dropped 2"])
        .prints(&["x\n"]);
}

/// A stream of JSON that ends after one line.
fn lines(line: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\
         \r\n{:x}\r\n{line}\n\r\n0\r\n\r\n",
        line.len() + 1
    )
}

#[test]
fn json_lines_come_as_the_server_wrote_them() {
    let line = "{\"channel\":\"a\",\"data\":{\"x\": 1.50},\"offset\":1,\"id\":\"7\"}";
    let stream = lines(line);
    let fake = Fake::new(&[&stream, &stream]);
    let server = &fake.url;
    let done = run_line(&format!("subscribe a --json --count 2 --server {server}")).expect(0);
    assert_eq!(done.out, format!("{line}\n{line}\n"));
    assert!(fake.asked().line.starts_with("GET /stream?channel=a "));
    assert_eq!(fake.asked().header("last-event-id"), Some("7"));
}

#[test]
fn tail_has_a_line_for_each_publication() {
    let line = "{\"channel\":\"a\",\"data\":{\"x\":1},\"offset\":1}";
    let fake = Fake::new(&[&lines(line)]);
    let done = run(&["tail", "a", "--count", "1", "--server", &fake.url]).expect(0);
    let (time, shown) = done.out.split_once("  ").expect("a time before it");
    assert_eq!(shown, "a  {\"x\":1}\n");
    assert!(time.len() == 13 && time.ends_with('Z'), "{time}");
    assert!(fake.asked().line.starts_with("GET /stream?channel=a "));
}

#[test]
fn top_shows_samples_and_nothing_else() {
    let samples = events(
        "event: subscribed\ndata: {\"recovered\":false}\n\ndata: {\"time_unix_ms\":1,\"pid\":42,\
         \"publications_per_s\":7000}\n\n",
    );
    let fake = Fake::new(&[&samples, &samples, &answer(401, "an API key is needed")]);
    let top = |more: &[&str]| run(&[&["top", "--api", &fake.url], more].concat());
    let done = top(&["--count", "1", "--api-key", "K"]).expect(0);
    let done = done.prints(&["pid 42", "7,000/s published"]);
    assert_eq!(done.out.matches("Throng ").count(), 1, "{}", done.out);
    // No terminal, no codes for one.
    assert!(!done.out.contains('\x1b'), "{}", done.out);
    let asked = fake.asked();
    assert_eq!(asked.line, "GET /sse?channel=throng:stats HTTP/1.1");
    assert_eq!(asked.header("x-api-key"), Some("K"));
    top(&[]).expect(5).says(&["ended the stream"]);
    top(&[])
        .expect(6)
        .says(&["an API key is needed", "--api-key"]);
}

#[test]
fn subscribing_ends_when_there_is_no_sense_in_going_on() {
    let ended = |text: &str| events(&format!("data: x\n\n{text}"));
    for (first, code, part) in [
        (answer(403, "no"), 6, "--token"),
        (answer(404, ""), 6, "8000"),
        (answer(503, "starting"), 6, "503, starting"),
        (answer(200, "<html>"), 5, "not with a stream"),
        (
            ended("event: disconnect\ndata: {\"code\":3500,\"reason\":\"gone\"}\n\n"),
            6,
            "for good: gone (3500)",
        ),
        (
            ended("event: unsubscribed\ndata: {\"unsubscribed\":\"a\"}\n\n"),
            6,
            "no subscription is left",
        ),
        ("nonsense".to_owned(), 5, "not HTTP"),
    ] {
        let fake = Fake::new(&[&first]);
        run(&["subscribe", "a", "--server", &fake.url])
            .expect(code)
            .says(&[part]);
    }
    let nobody = nobody();
    failing(&format!(
        "subscribe a --server {nobody} => 5 throng serve\nsubscribe => 2 CHANNEL"
    ));
}

#[test]
fn a_websocket_is_asked_for_properly_and_may_be_refused() {
    let fake = Fake::new(&[
        &answer(403, "no"),
        "HTTP/1.1 101 Yes\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    ]);
    let url = fake.url.replace("http://", "ws://");
    failing(&format!("subscribe a --url {url} => 6 403, no | --token"));
    let asked = fake.asked();
    assert_eq!(asked.line, "GET /ws?channel=a HTTP/1.1");
    assert_eq!(asked.header("upgrade"), Some("websocket"));
    let http = &fake.url;
    failing(&format!(
        "subscribe a --url {url} => 5 not a WebSocket
subscribe a --url {http} => 2 ws://
subscribe a --url {url} --json => 2 cannot be used with"
    ));
}

/// A pipe whose reader has gone is the ordinary end of `throng subscribe news | head -1`.
#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let endless =
        events(&"data: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n\n".repeat(10_000));
    let fake = Fake::new(&[&endless]);
    for arguments in [
        vec!["subscribe", "a", "--server", &fake.url],
        vec!["config", "show"],
        vec!["--help"],
    ] {
        let mut child = throng(&arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let mut told = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut told)
            .unwrap();
        assert_eq!(
            (child.wait().unwrap().code(), told.as_str()),
            (Some(0), ""),
            "{arguments:?}"
        );
    }
}

#[test]
fn health_is_an_exit_code_for_containers() {
    for (status, body, code, out) in [
        (200, "ok\n", 0, "ok\n"),
        (503, "draining", 6, ""),
        (404, "", 6, ""),
    ] {
        let fake = Fake::new(&[&answer(status, body)]);
        let done = run(&["health", "--api", &fake.url]).expect(code);
        assert_eq!(done.out, out);
        assert_eq!(fake.asked().line, "GET /healthz HTTP/1.1");
        if code != 0 {
            done.says(&["does not serve", &status.to_string()]);
        }
    }
    let nobody = nobody();
    failing(&format!(
        "health --api {nobody} => 5 connection refused | --api"
    ));
}
