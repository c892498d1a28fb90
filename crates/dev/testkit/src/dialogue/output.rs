//! Programs that a dialogue runs to their end, their output, and a server that is played to them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use throng_dialogue::word;

use super::values::text;
use crate::{Process, install, throng, unescaped};

/// State of a story's commands.
#[derive(Default)]
pub(super) struct Commands {
    /// Standard input of the next one.
    pub(super) input: Vec<u8>,
    pub(super) done: Option<Done>,
    /// Parts that were found in what it printed.
    pub(super) parts: Vec<String>,
    /// Server that was started as its users do, and its first lines.
    pub(super) server: Option<(Process, String)>,
    pub(super) fake: Option<Receiver<Asked>>,
    pub(super) asked: Option<Asked>,
}

/// Request to a played server.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) line: String,
    /// Header lines as they came.
    fields: Vec<String>,
    pub(super) body: Vec<u8>,
}

impl Asked {
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter().filter_map(|line| line.split_once(": "));
        fields
            .find(|(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }
}

/// Output of a command that has ended.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) out: String,
    pub(super) err: String,
}

/// Runs a command to its end: its exit code, if it has one, and its output.
pub(super) fn finished(
    mut command: Command,
    input: &[u8],
) -> Result<(Option<String>, Done), String> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{error}; see .ci/packages"))?;
    // It may have gone already.
    let _ = { child.stdin.take().expect("piped") }.write_all(input);
    let done = child.wait_with_output().expect("it ends");
    let code = done.status.code().map(|code| code.to_string());
    let [out, err] =
        [done.stdout, done.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok((code, Done { out, err }))
}

/// A program with its arguments, which apostrophes hold together. `throng` is this checkout's.
/// Words `NAME=value` before it are variables of its environment.
pub(super) fn command(line: &str) -> Command {
    let parts = line
        .split('\'')
        .enumerate()
        .flat_map(|(n, part)| match n % 2 {
            0 => part.split_whitespace().collect(),
            _ => vec![part],
        });
    let words: Vec<&str> = parts.collect();
    let is_variable = |word: &&&str| word.starts_with("THRONG_") && word.contains('=');
    let variables = words.iter().take_while(is_variable).count();
    let (variables, words) = words.split_at(variables);
    let (program, words) = words.split_first().expect("a program");
    let mut command = match *program {
        "throng" => Command::new(throng()),
        "grpcurl" => Command::new(install::grpcurl()),
        other => Command::new(other),
    };
    // Those are options of the server, and none of the story's.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("THRONG_") {
            command.env_remove(name);
        }
    }
    command.envs(variables.iter().filter_map(|word| word.split_once('=')));
    command.args(words);
    command
}

/// Plays a server with these answers, of which `docs/TESTING.md` lists the kinds; gives the
/// requests to it, unless it does not wait for them.
pub(super) fn play(listener: TcpListener, answers: &str) -> Option<Receiver<Asked>> {
    if let Some(blurt) = answers.strip_prefix("blurt ") {
        let blurt = unescaped(blurt.trim_end());
        thread::spawn(move || {
            for mut socket in listener.incoming().flatten() {
                // The other side may have gone already.
                let _ = socket.write_all(&blurt);
                let _ = socket.read_to_end(&mut Vec::new());
            }
        });
        return None;
    }
    let answers: Vec<String> = answers.lines().map(answer).collect();
    let (sender, asked) = channel();
    thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().expect("a connection");
            let request = read(&mut BufReader::new(&stream));
            // The other side may have gone already, and the test may have ended.
            let _ = stream.write_all(answer.as_bytes());
            let _ = sender.send(request);
        }
    });
    Some(asked)
}

fn read(stream: &mut impl std::io::BufRead) -> Asked {
    let mut fields = Vec::new();
    for line in stream.by_ref().lines() {
        let line = line.expect("a line of a request");
        if line.is_empty() {
            break;
        }
        fields.push(line);
    }
    let mut asked = Asked {
        line: fields.remove(0),
        fields,
        body: Vec::new(),
    };
    let length = asked.field("content-length");
    let length = length.map_or(0, |length| length.parse().expect("a length"));
    stream
        .take(length)
        .read_to_end(&mut asked.body)
        .expect("a body");
    asked
}

/// Answer of a played server by a line of its steps.
fn answer(line: &str) -> String {
    let (kind, rest) = word(line);
    let rest = text(rest);
    let events = |text: &str| {
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nConnection: \
             close\r\n\r\n{text}"
        )
    };
    match kind {
        "raw" => rest,
        "events" => events(&rest),
        "endless" => events(&rest.repeat(10_000)),
        "line" => format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: \
             chunked\r\n\r\n{:x}\r\n{rest}\n\r\n0\r\n\r\n",
            rest.len() + 1
        ),
        status => format!(
            "HTTP/1.1 {status} Whatever\r\nContent-Length: {}\r\n\r\n{rest}",
            rest.len()
        ),
    }
}
