//! A server that sends what the test asks for, one connection after another.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use crate::program::DEADLINE;

/// A request as it came.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Request line as it came.
    pub(crate) line: String,
    /// The header lines, in lower case up to the colon.
    headers: Vec<String>,
    pub(crate) body: Vec<u8>,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter_map(|line| line.split_once(": "));
        found
            .find(|(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }
}

/// Answers each connection with the next text, and closes it.
pub(crate) struct Fake {
    pub(crate) url: String,
    asked: Receiver<Asked>,
}

impl Fake {
    pub(crate) fn new(answers: &[&str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answers: Vec<String> = answers.iter().map(|&answer| answer.to_owned()).collect();
        let (sender, asked) = channel();
        thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let request = read(&mut BufReader::new(&stream));
                // The other side may have gone already, and the test may have ended.
                let _ = stream.write_all(answer.as_bytes());
                let _ = sender.send(request);
            }
        });
        Self { url, asked }
    }

    /// Returns the next request, and fails the test if none comes.
    #[track_caller]
    pub(crate) fn asked(&self) -> Asked {
        self.asked.recv_timeout(DEADLINE).expect("a request")
    }
}

fn read(stream: &mut impl std::io::BufRead) -> Asked {
    let mut lines = Vec::new();
    for line in stream.by_ref().lines() {
        let line = line.unwrap();
        if line.is_empty() {
            break;
        }
        lines.push(line);
    }
    let mut asked = Asked {
        line: lines.remove(0),
        headers: lines,
        body: Vec::new(),
    };
    let length = asked
        .header("content-length")
        .map_or(0, |length| length.parse().unwrap());
    stream.take(length).read_to_end(&mut asked.body).unwrap();
    asked
}

/// An event stream that ends with its connection.
pub(crate) fn events(text: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nConnection: \
         close\r\n\r\n{text}"
    )
}

/// An answer with a body.
pub(crate) fn answer(status: u16, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} Whatever\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A stream of JSON that ends after one line.
pub(crate) fn line_stream(line: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\
         \r\n{:x}\r\n{line}\n\r\n0\r\n\r\n",
        line.len() + 1
    )
}
