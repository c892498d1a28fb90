//! What stands behind the backend: logs that clients follow, WebSockets, echoes.
//!
//! A log is a row of lines `1`, `2`, …; the lines go out as items too, each with the id of the one
//! before it, and a client that gives its last line gets what is missing.

use throng_http1::origin::OriginRequest;
use throng_ws::handshake;

use super::answer::{Answered, Tunnel, answered, field};
use super::sockets::Sockets;
use super::talk::Talk;

/// Number of logs that clients follow.
pub(crate) const LOGS: usize = 2;

/// State of the backend between requests.
#[derive(Default)]
pub(crate) struct Site {
    /// The last line of each log.
    pub(crate) logs: [u64; LOGS],
    /// The WebSockets over HTTP.
    pub(crate) sockets: Sockets,
}

/// The channel of a log.
pub(crate) fn log_channel(log: usize) -> String {
    format!("log-{log}")
}

impl Site {
    /// Answers one request by its path.
    pub(super) fn answer(&mut self, request: &OriginRequest, chance: usize) -> Answered {
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        let log = || {
            path.as_bytes()
                .last()
                .map_or(0, |digit| usize::from(digit - b'0'))
        };
        if path.starts_with("/grip/log/") {
            self.stream(log(), query, request, chance)
        } else if path.starts_with("/grip/poll/") {
            self.poll(log(), query, chance)
        } else if path == "/grip/socket" {
            self.sockets.answer(request, chance)
        } else if path.starts_with("/grip/tunnel") {
            tunnel(path, request)
        } else {
            let names: Vec<&str> = query.split('&').filter(|name| !name.is_empty()).collect();
            let headers = [
                ("Grip-Hold", "stream".to_owned()),
                ("Grip-Channel", names.join(", ")),
            ];
            answered(&headers, b"welcome\n".to_vec())
        }
    }

    /// The lines of a log behind one.
    fn lines(&self, log: usize, behind: u64) -> String {
        let lines = behind + 1..=self.logs[log];
        lines.map(|line| format!("{line}\n")).collect()
    }

    /// A stream that goes on by links.
    fn stream(&self, log: usize, query: &str, request: &OriginRequest, chance: usize) -> Answered {
        let channel = log_channel(log);
        let end = self.logs[log];
        let last = field(request, "Grip-Last").map(|last| {
            let id = last.strip_prefix(&format!("{channel}; last-id="));
            let id = id.unwrap_or_else(|| panic!("{last:?} is not of {channel}"));
            id.parse().expect("a line's number")
        });
        let since = query
            .strip_prefix("since=")
            .and_then(|since| since.parse().ok());
        let (behind, first) = match (last, since) {
            (Some(last), _) => (last, String::new()),
            (None, Some(since)) => (since, format!("from={since}\n")),
            (None, None) => (end, format!("from={end}\n")),
        };
        assert!(behind <= end, "nobody has line {behind} of {end}");
        let link = format!("</grip/log/{log}>; rel=next; timeout=30");
        let mut headers = vec![
            ("Grip-Hold", "stream".to_owned()),
            ("Grip-Channel", format!("{channel}; prev-id={end}")),
            ("Grip-Link", link),
        ];
        if chance.is_multiple_of(3) {
            let beat = "\\n; format=cstring; timeout=20".to_owned();
            headers.push(("Grip-Keep-Alive", beat));
        }
        answered(
            &headers,
            format!("{first}{}", self.lines(log, behind)).into_bytes(),
        )
    }

    /// Returns the lines after `since`, or a hold if there are none.
    fn poll(&self, log: usize, query: &str, chance: usize) -> Answered {
        let since = query
            .strip_prefix("since=")
            .and_then(|since| since.parse().ok());
        let since: u64 = since.expect("polls say what they have");
        if since < self.logs[log] {
            return answered(&[], self.lines(log, since).into_bytes());
        }
        let headers = [
            ("Grip-Hold", "response".to_owned()),
            (
                "Grip-Channel",
                format!("{}; prev-id={since}", log_channel(log)),
            ),
            ("Grip-Timeout", (60 + chance % 20).to_string()),
        ];
        answered(&headers, b"none\n".to_vec())
    }
}

fn tunnel(path: &str, request: &OriginRequest) -> Answered {
    let fields = request.headers.iter();
    let fields = fields.map(|header| (header.name.as_str(), header.value.as_slice()));
    // The driver reports this to the backend itself.
    let fields = fields.chain([("Connection", b"Upgrade".as_slice())]);
    let accept = handshake::accept(&request.method, fields).expect("a good handshake");
    let key = String::from_utf8_lossy(&accept.key).into_owned();
    let mut headers = vec![
        ("Upgrade", "websocket".to_owned()),
        ("Sec-WebSocket-Accept", key),
    ];
    let talks = path.ends_with("/grip");
    let tunnel = if talks {
        headers.push(("Sec-WebSocket-Extensions", "grip".to_owned()));
        Tunnel::Talk(Box::default())
    } else {
        Tunnel::Echo
    };
    let mut answered = answered(&headers, Vec::new());
    answered.head.code = 101;
    answered.head.is_bodiless = true;
    answered.head.body_bytes = None;
    if talks {
        answered.body = Talk::first_words();
    }
    answered.tunnel = Some(tunnel);
    answered
}
