//! Many requests, sent to Throng and to nginx: both must see the same number of requests in the
//! same bytes and answer each in the same class, or the row gives the reason why Throng does not.
//!
//! Behind each request follows another that closes the connection. A server that sees the first one
//! end in the right place answers both; a server that refuses it as ambiguous ends the connection.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};

use throng_testkit::{DEADLINE, Setup, unescaped};

use crate::support::Nginx;

/// A row of `nginx/rows.txt`.
struct Row {
    bytes: Vec<u8>,
    /// Reason for which Throng and nginx differ; empty if they do not.
    why: &'static str,
    /// Throng's one answer, where it matters which.
    status: Option<u16>,
}

/// Is there enough for a sample?
const ROWS_MIN: usize = 160;

const LAST: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// Throng's paths. A backend of its own takes bodies, since nginx reads them only for a backend.
const PATHS: &str = r#"
  client_header_buffer_size 1k;
  large_client_header_buffers 2 16k;
  client_max_body_size 1m;
  default_type text/plain;
  server {
    listen 127.0.0.1:PORT;
    location = /healthz {
      if ($request_method !~ ^(GET|HEAD)$) { return 405; }
      return 200 "ok\n";
    }
    location = /pub {
      if ($request_method != POST) { return 405; }
      proxy_pass http://unix:FOLDER/backend:/;
    }
    location / { return 404 "nothing here\n"; }
  }
  server {
    listen unix:FOLDER/backend;
    location / { return 200 "{}\n"; }
  }
"#;

/// The statuses of all answers; a last 0 is something else than an answer.
fn ask(to: SocketAddr, bytes: &[u8]) -> Vec<u16> {
    let mut stream = TcpStream::connect_timeout(&to, DEADLINE).expect("somebody listens");
    stream.set_read_timeout(Some(DEADLINE)).expect("a deadline");
    // A server that has refused the beginning may not take the rest.
    let _ = stream.write_all(&[bytes, LAST].concat());
    let mut told = Vec::new();
    let mut piece = [0; 16 * 1024];
    loop {
        match stream.read(&mut piece) {
            Ok(count @ 1..) => told.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                panic!("{to} waits for more behind {}", shown(bytes))
            }
            Ok(0) | Err(_) => break,
        }
    }
    let _ = stream.shutdown(Shutdown::Both);
    let first = bytes.trim_ascii_start();
    statuses(&told, first.starts_with(b"HEAD "))
}

/// Takes answers apart, without the code that is tested.
fn statuses(mut told: &[u8], mut is_head: bool) -> Vec<u16> {
    let mut all = Vec::new();
    while !told.is_empty() {
        let end = told.windows(4).position(|window| window == b"\r\n\r\n");
        let head = String::from_utf8_lossy(&told[..end.unwrap_or(0)]).to_lowercase();
        let Some(status) = head
            .strip_prefix("http/1.1 ")
            .and_then(|rest| rest[..3].parse().ok())
        else {
            all.push(0);
            break;
        };
        told = &told[end.unwrap_or(0) + 4..];
        if status == 100 {
            continue;
        }
        all.push(status);
        let length = head
            .split("\r\n")
            .find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.map_or(0, |digits| digits.parse().expect("a length"));
        let chunks = head.contains("transfer-encoding: chunked");
        assert!(!chunks, "nobody here sends chunks: {head}");
        let length = if std::mem::take(&mut is_head) {
            0
        } else {
            length
        };
        told = told.get(length..).unwrap_or_default();
    }
    all
}

/// Class of each status, such as 4 for 404; only classes are compared.
fn classes(statuses: &[u16]) -> Vec<u16> {
    statuses.iter().map(|status| status / 100).collect()
}

fn shown(bytes: &[u8]) -> String {
    let text = bytes.escape_ascii().to_string();
    match text.char_indices().nth(150) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

/// Reads the table; its head says how.
fn rows() -> Vec<Row> {
    let (mut reasons, mut rows, mut around) = (HashMap::new(), Vec::new(), ("", ""));
    let lines = include_str!("nginx/rows.txt").lines();
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(request) = line.strip_prefix("== ") {
            around = request.split_once('…').expect("a place for rows");
        } else if let Some((words, bytes)) = line.split_once('\t') {
            let words = || words.split(' ').filter(|word| *word != "-");
            rows.push(Row {
                bytes: unescaped(&[around.0, bytes, around.1].concat()),
                why: words()
                    .find_map(|word| reasons.get(word))
                    .copied()
                    .unwrap_or_default(),
                status: words().find_map(|word| word.parse().ok()),
            });
        } else {
            let (word, why) = line.split_once(": ").expect("a reason");
            reasons.insert(word, why);
        }
    }
    rows.extend(long_rows(reasons["LIMIT"]));
    rows
}

/// What would be long in the table.
fn long_rows(limit: &'static str) -> impl Iterator<Item = Row> {
    let get = |fields: &str| format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
    let line = |line: &str| format!("{line} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let rows = [
        (line(&format!("GET /{}", "x".repeat(20_000))), ""),
        (line(&format!("{} /", "A".repeat(100))), limit),
        (get(&format!("A: {}\r\n", "x".repeat(8000))), ""),
        (get(&format!("A: {}\r\n", "x".repeat(20_000))), ""),
        (get(&format!("{}: b\r\n", "A".repeat(1000))), ""),
        (get(&"A: b\r\n".repeat(60)), ""),
        (get(&"A: b\r\n".repeat(100)), limit),
    ];
    rows.into_iter().map(|(text, why)| Row {
        bytes: text.into_bytes(),
        why,
        status: None,
    })
}

#[test]
fn requests_are_read_as_nginx_reads_them() {
    let nginx = Nginx::start(PATHS);
    let throng = Setup::default().shards(1).start();
    let rows = rows();
    assert!(rows.len() >= ROWS_MIN, "{} rows", rows.len());
    let mut wrong = Vec::new();
    for row in &rows {
        let theirs = ask(nginx.address, &row.bytes);
        let ours = ask(throng.api_address(), &row.bytes);
        let agree = classes(&theirs) == classes(&ours);
        let text = shown(&row.bytes);
        let is_as_said = row.status.is_none_or(|status| ours == [status]);
        match (agree, row.why) {
            _ if !is_as_said => wrong.push(format!("{text}\n    Throng {ours:?}")),
            (true, "") => {}
            (false, why) if !why.is_empty() => {}
            (false, _) => wrong.push(format!("{text}\n    nginx {theirs:?}, Throng {ours:?}")),
            (true, why) => wrong.push(format!("{text}\n    both {ours:?}, which is not: {why}")),
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} rows:\n{}",
        wrong.len(),
        rows.len(),
        wrong.join("\n")
    );
    throng.stop();
}
