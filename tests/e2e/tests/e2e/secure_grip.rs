//! GRIP's backends are told that clients came by TLS.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::process::Command;
use std::thread;

use serde_json::json;
use throng_testkit::{Process, Setup, TlsFiles, request};

/// A backend that holds every request as a stream on `room`, and answers with what it received.
fn backend() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let mut lines = BufReader::new(&socket).lines();
            let mut told = "nothing".to_owned();
            for line in lines
                .by_ref()
                .map_while(Result::ok)
                .take_while(|line| !line.is_empty())
            {
                if let Some(value) = line
                    .to_ascii_lowercase()
                    .strip_prefix("x-forwarded-proto: ")
                {
                    told = value.to_owned();
                }
            }
            let body = format!("told {told}\n");
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nGrip-Hold: stream\r\n\
                 Grip-Channel: room\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = (&socket).write_all(answer.as_bytes());
        }
    });
    address
}

#[test]
fn backends_of_grip_hear_that_clients_came_by_tls() {
    let tls = TlsFiles::default();
    let route = format!(
        "[grip]\nhttp_publish = \"127.0.0.1:0\"\n[[grip.route]]\npath = \"/\"\norigin = \
         [\"http://{}\"]\n",
        backend()
    );
    let config = tls.config(&route);
    let server = Setup::new(&config).shards(2).tls_clients().start();
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--cacert", &tls.trusted, "--no-buffer"]);
    curl.arg(format!("https://{}/anything", server.clients()));
    let held = Process::start(&mut curl, "see .ci/packages");
    held.out("what the backend was told", |lines| {
        lines.iter().any(|line| line == "told https")
    });
    let item = json!({ "items": [{
        "channel": "room", "formats": { "http-stream": { "content": "hello\n" } },
    }] });
    let to = server.grip("http_publish");
    let answer = request(to, "POST", "/publish/", &[], &item.to_string());
    assert_eq!(answer.status, 200, "{answer:?}");
    held.out("what was published", |lines| {
        lines.iter().any(|line| line == "hello")
    });
    server.stop();
}
