//! A backend of stories, which answers by rules and remembers what it was asked.

use std::io::{BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use throng_testkit::{Backend, BackendMemory, Response, Wire, next_request, unescaped};

/// Where an answer waits until the origin is released.
const HELD: &str = "{held}";

/// A request: its line, and its fields as an answer has them.
pub(crate) type Asked = (String, Response);

pub(crate) type Origin = Backend<Asked>;

/// Starts an origin with a rule a line: `TARGET => ANSWER`, where the target `*` is any. An answer
/// is `STATUS | Field: value || body` with escapes, `raw BYTES` with the end of the connection
/// behind them, `dies`, or `silent` until the other side hangs up. `{line}` in an answer is the
/// line of the request, `{last}` the id in its `Grip-Last`, and at `{held}` it waits.
pub(crate) fn start(rules: &str) -> Origin {
    let rules = rules.lines().map(|line| {
        let (target, answer) = line.split_once(" => ").expect("a rule has =>");
        (target.to_owned(), answer.to_owned())
    });
    let rules: Vec<(String, String)> = rules.collect();
    Origin::start(move |reader, memory| serve(reader, &rules, memory))
}

/// Requests so far whose line contains a text.
pub(crate) fn asked(origin: &Origin, part: &str) -> Vec<Asked> {
    let asked = origin.asked();
    let fits = asked.iter().filter(|(line, _)| line.contains(part));
    fits.cloned().collect()
}

/// Answers the next request by the first rule whose target fits; false at the end of the
/// connection.
fn serve(
    reader: &mut BufReader<&TcpStream>,
    rules: &[(String, String)],
    memory: &BackendMemory<Asked>,
) -> bool {
    let Some((line, head)) = next_request(reader) else {
        return false;
    };
    let mut stream: &TcpStream = reader.get_ref();
    let target = line.split(' ').nth(1).unwrap_or_default();
    let fits = |(of, _): &&(String, String)| of == "*" || of == target;
    let answer = rules.iter().find(fits);
    let answer = answer.map_or_else(|| panic!("no rule for {line}"), |(_, answer)| answer);
    let last = head.header("grip-last").and_then(|it| it.split_once('='));
    let answer =
        { answer.replace("{line}", &line) }.replace("{last}", last.map_or("0", |(_, last)| last));
    memory.note((line, head));
    let (is_last, text) = match answer.split_once(' ').unwrap_or((&answer, "")) {
        ("dies", _) => return false,
        ("silent", _) => {
            while matches!(stream.read(&mut [0; 64]), Ok(1..)) {}
            return false;
        }
        ("raw", bytes) => (true, bytes.to_owned()),
        _ => (false, with_head(&answer)),
    };
    for (part, text) in text.split(HELD).enumerate() {
        if part > 0 {
            memory.hold();
        }
        // A client that closes early is no fault of the origin's.
        if stream.write_all(&unescaped(text)).is_err() {
            return false;
        }
    }
    !is_last
}

/// Text of an answer with its head, in which there is a length unless another framing is named.
fn with_head(answer: &str) -> String {
    let (head, body) = answer.split_once(" || ").unwrap_or((answer, ""));
    let (status, fields) = head.split_once(" | ").unwrap_or((head, ""));
    let is_framed = fields.contains("Content-Length:") || fields.contains("Transfer-Encoding:");
    let length = match is_framed || status == "304" {
        true => String::new(),
        false => format!(
            "Content-Length: {}\\r\\n",
            unescaped(&body.replace(HELD, "")).len()
        ),
    };
    let held = if status.starts_with(HELD) { HELD } else { "" };
    let status = &status[held.len()..];
    let fields = match fields {
        "" => String::new(),
        fields => fields.replace(" | ", "\\r\\n") + "\\r\\n",
    };
    format!("{held}HTTP/1.1 {status} X\\r\\n{length}{fields}\\r\\n{body}")
}

/// Takes the next connection of a listener, as the side of a backend.
pub(crate) fn accept(listener: &TcpListener) -> Wire {
    let (stream, _) = listener.accept().expect("a connection");
    Wire::accepted(stream)
}
