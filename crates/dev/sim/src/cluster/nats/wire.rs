//! The client protocol of NATS from the server's side: commands as clients send them, messages as
//! a server writes them, subjects and which of them match.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// Headers of a message: names and values.
pub(crate) type Headers = Vec<(String, String)>;

/// A message on its way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message {
    pub(crate) subject: String,
    pub(crate) reply: Option<String>,
    /// Status in place of a message, such as `503`.
    pub(crate) status: Option<&'static str>,
    pub(crate) headers: Headers,
    pub(crate) payload: Vec<u8>,
}

/// A command of a client.
#[derive(Debug)]
pub(crate) enum Command {
    Connect,
    Ping,
    Pong,
    Subscribe(String, u64),
    Unsubscribe(u64),
    Publish(Message),
}

impl Message {
    pub(crate) fn new(subject: String, payload: Vec<u8>) -> Self {
        Self {
            subject,
            payload,
            ..Self::default()
        }
    }

    /// A status in place of an answer.
    pub(crate) fn status(subject: String, status: &'static str) -> Self {
        Self {
            status: Some(status),
            ..Self::new(subject, Vec::new())
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let header = self.headers.iter().find(|(known, _)| known == name);
        header.map(|(_, value)| &**value)
    }

    /// Writes it as a delivery to a subscription.
    pub(crate) fn write(&self, sid: u64, out: &mut Vec<u8>) {
        let subject = &self.subject;
        let reply = { self.reply.as_ref() }.map_or(String::new(), |reply| format!("{reply} "));
        let bytes = self.payload.len();
        if self.headers.is_empty() && self.status.is_none() {
            out.extend(format!("MSG {subject} {sid} {reply}{bytes}\r\n").into_bytes());
        } else {
            let mut head = "NATS/1.0".to_owned();
            if let Some(status) = self.status {
                let _ = write!(head, " {status}");
            }
            head.push_str("\r\n");
            for (name, value) in &self.headers {
                let _ = write!(head, "{name}: {value}\r\n");
            }
            head.push_str("\r\n");
            let (first, all) = (head.len(), head.len() + bytes);
            let line = format!("HMSG {subject} {sid} {reply}{first} {all}\r\n{head}");
            out.extend(line.into_bytes());
        }
        out.extend(&self.payload);
        out.extend(b"\r\n");
    }
}

/// Answer of JetStream to a request that it does not carry out.
pub(crate) fn error(code: u64, err_code: u64, description: &str) -> Value {
    json!({"error": {"code": code, "err_code": err_code, "description": description}})
}

/// Takes a whole command from the front of the input.
pub(crate) fn take_command(input: &mut Vec<u8>) -> Option<Command> {
    let end = input.windows(2).position(|it| it == b"\r\n")?;
    let line = String::from_utf8(input[..end].to_vec()).expect("a line of text");
    let words: Vec<&str> = line.split(' ').collect();
    let number = |word: &str| word.parse::<usize>().expect("a number");
    let text = |word: &str| word.to_owned();
    let mut taken = end + 2;
    let command = match words[..] {
        ["CONNECT", ..] => Command::Connect,
        ["PING"] => Command::Ping,
        ["PONG"] => Command::Pong,
        ["SUB", subject, sid] => Command::Subscribe(text(subject), number(sid) as u64),
        ["UNSUB", sid] => Command::Unsubscribe(number(sid) as u64),
        ["PUB" | "HPUB", subject, ref rest @ ..] => {
            let sizes = if words[0] == "PUB" { 1 } else { 2 };
            let (reply, sizes) = rest.split_at(rest.len() - sizes);
            let all = number(sizes[sizes.len() - 1]);
            let head = if sizes.len() == 2 {
                number(sizes[0])
            } else {
                0
            };
            taken += all + 2;
            let body = input.get(end + 2..taken)?;
            let (head, payload) = body[..all].split_at(head);
            Command::Publish(Message {
                subject: text(subject),
                reply: reply.first().map(|reply| text(reply)),
                status: None,
                headers: headers(head),
                payload: payload.to_vec(),
            })
        }
        _ => panic!("the played NATS has no {line:?}"),
    };
    input.drain(..taken);
    Some(command)
}

fn headers(head: &[u8]) -> Headers {
    let text = std::str::from_utf8(head).expect("headers of text");
    let lines = text.split("\r\n").skip(1);
    let headers = lines.filter_map(|line| line.split_once(": "));
    headers
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Whether a subject is one of those that a filter with `*` and `>` names.
pub(crate) fn matches(filter: &str, subject: &str) -> bool {
    let (mut filter, mut subject) = (filter.split('.'), subject.split('.'));
    loop {
        match (filter.next(), subject.next()) {
            (None, None) => return true,
            (Some(">"), Some(_)) => return true,
            (Some(wanted), Some(word)) if wanted == "*" || wanted == word => {}
            _ => return false,
        }
    }
}
