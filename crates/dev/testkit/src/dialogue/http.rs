//! Steps of dialogues that concern requests by HTTP and their answers.

use serde_json::Value;
use throng_dialogue::{Outcome, arrow, same, word};

use super::Story;
use super::values::{lines, parse};
use crate::{Response, Wire, unescaped};

impl Story {
    /// `PORT METHOD TARGET | field | field || body => STATUS; checks`, on a connection of its own.
    pub(super) fn ask(&mut self, rest: &str) -> Outcome {
        let (request, wanted) = arrow(rest);
        let (port, request) = word(request);
        let (head, body) = request.split_once(" || ").unwrap_or((request, ""));
        let (line, more) = head.split_once(" | ").unwrap_or((head, ""));
        let (method, target) = word(line);
        let to = self.port(port);
        let mut wire = Wire::connect(to);
        let more = lines(more);
        let host = match more.contains("Host: ") {
            true => String::new(),
            false => format!("Host: {to}\r\n"),
        };
        let length = match (method, body) {
            ("GET" | "HEAD" | "OPTIONS", "") => String::new(),
            _ => format!("Content-Length: {}\r\n", body.len()),
        };
        wire.send(&format!(
            "{method} {target} HTTP/1.1\r\n{host}{more}{length}Connection: close\r\n\r\n{body}"
        ));
        self.answers(&mut wire, method, wanted)
    }

    /// Reads an answer as far as the checks need it, and checks it.
    fn answers(&mut self, wire: &mut Wire, method: &str, wanted: &str) -> Outcome {
        let checks = wanted.split(" && ").skip(1);
        let is_field = |check: &str| word(check).0.ends_with(':');
        let answer = match { checks }.all(is_field) {
            true => wire.head(),
            false => wire.response(method),
        };
        self.answered(answer, wire, wanted)
    }

    /// `PORT bytes => STATUS; checks`: bytes with the escapes of Rust on a connection of its own.
    pub(super) fn raw(&mut self, rest: &str) -> Outcome {
        let (request, wanted) = arrow(rest);
        let (port, bytes) = word(request);
        let mut wire = Wire::connect(self.port(port));
        let bytes = unescaped(bytes);
        wire.send_bytes(&bytes);
        let method = String::from_utf8_lossy(&bytes);
        let method = word(method.trim_start()).0.to_owned();
        self.answers(&mut wire, &method, wanted)
    }

    /// Checks a whole answer, or its head: the status, and behind each `&&` one of `has x`,
    /// `lacks x`, `is x`, `json x` of the body, `closed` of the connection, or a field as in
    /// [`field_fits`](Self::field_fits).
    pub(super) fn answered(&mut self, head: Response, wire: &mut Wire, wanted: &str) -> Outcome {
        let mut checks = wanted.split(" && ");
        let status = checks.next().unwrap_or_default();
        if status != "*" {
            same(&head.status.to_string(), &status.to_owned())
                .map_err(|why| format!("{why}\n{head:?}"))?;
        }
        for check in checks {
            let (verb, rest) = word(check);
            let body = &head.body;
            let holds = match verb {
                "has" => body.contains(rest),
                "lacks" => !body.contains(rest),
                "is" => body.trim_end() == rest,
                "json" => {
                    let body: Value = serde_json::from_str(body).unwrap_or_default();
                    self.fit(&body, &parse(rest))?;
                    true
                }
                "closed" => wire.rest().is_empty(),
                name => {
                    let name = name.strip_suffix(':').expect("a check or a field's name");
                    self.field_fits(head.header(&name.to_ascii_lowercase()), rest)
                }
            };
            if !holds {
                return Err(format!("not {check}: {head:?}"));
            }
        }
        Ok(())
    }

    /// Whether a field of a head is so: `-` if there is none, `*` if there is one, `~x` if it
    /// contains x, `!x` if it is not x, `%x9` by letters and digits, `{NAME}x` if it ends with x,
    /// where what is before becomes a variable.
    pub fn field_fits(&mut self, found: Option<&str>, wanted: &str) -> bool {
        let Some(found) = found else {
            return wanted == "-";
        };
        if let Some((name, end)) = wanted.strip_prefix('{').and_then(|it| it.split_once('}')) {
            let value = found.strip_suffix(end).map(str::to_owned);
            return value.map(|value| self.set(name, value)).is_some();
        }
        match wanted.split_at(usize::from(wanted.len() > 1)) {
            (_, "-") => false,
            (_, "*") => true,
            ("~", part) => found.contains(part),
            ("!", other) => found != other,
            ("%", form) => {
                let fits = |(c, of): (char, char)| match of {
                    '9' => c.is_ascii_digit(),
                    'x' => c.is_ascii_alphabetic(),
                    of => c == of,
                };
                found.len() == form.len() && found.chars().zip(form.chars()).all(fits)
            }
            _ => found == wanted,
        }
    }
}
