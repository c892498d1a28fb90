//! `Date` on answers that are passed on (RFC 9110 section 6.6.1).

use std::io::Write as _;

use throng_testkit::{Server, Wire};

use crate::support::{Backend, get, item, open, publish, server, subscribed};

/// The backend's own, which must pass as it is.
const OWN: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

/// All values of the field in a head.
fn dates(wire: &mut Wire) -> Vec<String> {
    let head = wire.through("\r\n\r\n");
    let fields = head.lines().filter_map(|line| line.split_once(": "));
    let fields = fields.filter(|(name, _)| name.eq_ignore_ascii_case("date"));
    fields.map(|(_, value)| value.to_owned()).collect()
}

/// Checks that there is one date, and that it is the server's own: of today, and well written.
#[track_caller]
fn check_own(wire: &mut Wire, what: &str) {
    let dates = dates(wire);
    let [date] = &dates[..] else {
        panic!("{what}: {dates:?}");
    };
    // `Sun, 06 Nov 1994 08:49:37 GMT`: section 5.6.7.
    let shape: String = date
        .chars()
        .map(|letter| match letter {
            '0'..='9' => '9',
            'a'..='z' => 'a',
            'A'..='Z' => 'A',
            other => other,
        })
        .collect();
    assert_eq!(shape, "Aaa, 99 Aaa 9999 99:99:99 AAA", "{what}: {date}");
    assert!(date.ends_with(" GMT") && date != OWN, "{what}: {date}");
}

fn head(server: &Server, method: &str, target: &str) -> Wire {
    let mut wire = Wire::connect(server.clients());
    wire.send(&format!(
        "{method} {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"
    ));
    wire
}

#[test]
fn an_answer_without_a_date_gets_one_and_a_date_stays() {
    let backend = Backend::start(|asked, stream| {
        let target = asked.line.split(' ').nth(1).unwrap_or_default();
        let (status, fields) = match target {
            "/dated" => ("200 OK", format!("Date: {OWN}\r\nContent-Length: 0\r\n")),
            "/304" => ("304 Not Modified", "ETag: \"a\"\r\n".to_owned()),
            "/chunks" => ("200 OK", "Transfer-Encoding: chunked\r\n".to_owned()),
            "/stream" | "/poll" => {
                let mode = if target == "/poll" {
                    "response"
                } else {
                    "stream"
                };
                let hold = format!("Grip-Hold: {mode}\r\nGrip-Channel: a\r\nGrip-Timeout: 60\r\n");
                ("200 OK", format!("{hold}Content-Length: 0\r\n"))
            }
            "/socket" => ("403 Forbidden", "Content-Length: 0\r\n".to_owned()),
            _ => ("200 OK", "Content-Length: 0\r\n".to_owned()),
        };
        let end = if target == "/chunks" { "0\r\n\r\n" } else { "" };
        let answer = format!("HTTP/1.1 {status}\r\n{fields}\r\n{end}");
        stream.write_all(answer.as_bytes()).is_ok()
    });
    let server = server(&[backend.address], "");
    for target in ["/", "/304", "/chunks"] {
        check_own(&mut head(&server, "GET", target), target);
    }
    check_own(&mut head(&server, "HEAD", "/"), "HEAD");
    // A WebSocket that the backend refuses.
    check_own(&mut open(&server, "/socket"), "/socket");
    check_own(&mut get(&server, "/stream"), "/stream");
    let mut poll = get(&server, "/poll");
    subscribed(&server, 1);
    publish(&server, &item("a", "x", ""));
    check_own(&mut poll, "/poll");
    assert_eq!(dates(&mut head(&server, "GET", "/dated")), [OWN]);
    server.stop();
}
