//! Steps of dialogues that run `throng` as its users do, judge what it printed, and play a server
//! to it.

use std::fs;
use std::net::TcpListener;

use serde_json::Value;
use throng_dialogue::{Outcome, same, word};

use super::Story;
use super::output::{command, finished, play};
use super::values::text;
use crate::{DEADLINE, Process, binary, unescaped};

impl Story {
    /// A step about commands; none if the verb is no such.
    pub(super) fn command_step(&mut self, verb: &str, rest: &str, block: &str) -> Option<Outcome> {
        Some(match verb {
            "<" => {
                self.commands.input = unescaped(rest);
                Ok(())
            }
            // Variables come before the program.
            "$" => {
                let is_variable = |word: &&str| word.starts_with("THRONG_");
                let variables = rest.split_inclusive(' ').take_while(is_variable);
                let (variables, rest) = rest.split_at(variables.map(str::len).sum());
                self.run_command(&format!("{variables}throng {rest}"), false)
            }
            "sh" => self.run_command(rest, true),
            "serve" => {
                self.serve_as_users_do(rest);
                Ok(())
            }
            "served" => self.served(rest),
            "fake" => {
                self.fake(block);
                Ok(())
            }
            "asked" => {
                let fake = self.commands.fake.as_ref().expect("a played server");
                let asked = fake.recv_timeout(DEADLINE).expect("a request");
                let line = asked.line.clone();
                self.commands.asked = Some(asked);
                match line.starts_with(rest) {
                    true => Ok(()),
                    false => Err(format!("the request is {line}")),
                }
            }
            "with" | "without" | "body" => {
                let asked = self.commands.asked.as_ref().expect("a request");
                match (verb, rest.split_once(": ")) {
                    ("with", Some((name, value))) => same(&asked.field(name), &Some(value)),
                    ("without", _) => same(&asked.field(rest), &None),
                    _ => same(&asked.body, &unescaped(rest)),
                }
            }
            "file" => {
                fs::write(rest, block).expect("a file in a folder");
                Ok(())
            }
            "holds" => {
                let (path, wanted) = word(rest);
                let text = fs::read_to_string(path).expect("a file");
                has_all(&text, wanted).map(drop)
            }
            "page" => self.documented(rest),
            "out" | "err" | "not" | "prints" | "tells" | "json" | "->" => self.judge(verb, rest),
            _ => return None,
        })
    }

    /// Runs a line `COMMAND => CODES A | B` to its end, by a shell or not: one of the exit codes,
    /// which have slashes between, and parts of standard output for 0, of standard error else.
    fn run_command(&mut self, line: &str, by_shell: bool) -> Outcome {
        let (line, end) = line.rsplit_once(" => ").unwrap_or((line, "0"));
        let (codes, wanted) = word(end);
        let command = match by_shell {
            true => {
                let mut shell = command("sh");
                shell.args(["-c", line]);
                shell
            }
            false => command(line),
        };
        let input = std::mem::take(&mut self.commands.input);
        let (code, done) = finished(command, &input)?;
        let done = self.commands.done.insert(done);
        if !codes.split('/').any(|other| Some(other) == code.as_deref()) {
            return Err(format!("it ended with {code:?}: {done:#?}"));
        }
        self.commands.parts.clear();
        match wanted {
            "" => Ok(()),
            wanted if codes == "0" => self.judge("out", wanted),
            wanted => self.judge("err", wanted),
        }
    }

    /// Judges the last command.
    fn judge(&mut self, verb: &str, rest: &str) -> Outcome {
        let done = self.commands.done.take().expect("a command");
        let outcome = match verb {
            "out" | "err" => {
                let stream = if verb == "out" { &done.out } else { &done.err };
                has_all(stream, rest).map(|parts| self.commands.parts.extend(parts))
            }
            "not" => {
                let part = text(rest);
                let is_there = done.out.contains(&part) || done.err.contains(&part);
                same(&is_there, &false)
            }
            "prints" => same(&done.out, &text(rest)),
            "tells" => same(&done.err, &text(rest)),
            "->" => {
                self.set(rest, done.out.trim_end().to_owned());
                Ok(())
            }
            _ => points(&done.out, rest),
        };
        let outcome = outcome.map_err(|why| format!("{why}\n{done:#?}"));
        self.commands.done = Some(done);
        outcome
    }

    /// Starts a server with these arguments, which says where it is in its first lines.
    fn serve_as_users_do(&mut self, arguments: &str) {
        let own = "throng serve --listen 127.0.0.1:0 --api 127.0.0.1:0 --shards 1";
        let process = Process::start(
            &mut command(&format!("{own} {arguments}")),
            "cargo built it",
        );
        let banner = process.out("the first lines", |lines| {
            let has_all = lines.iter().any(|line| line.starts_with("  room "));
            has_all.then(|| lines.join("\n"))
        });
        for (name, row) in [("CLIENTS", "/sse?"), ("API", "dashboard")] {
            let line = banner.lines().find(|line| line.contains(row));
            let url = line
                .and_then(|line| line.split_once("http://"))
                .expect("a URL");
            let (address, _) = url.1.split_once('/').expect("an address");
            self.set(name, address.to_owned());
        }
        self.commands.server = Some((process, banner));
    }

    /// `has A | B` of its first lines, `lacks A`; `err A | B` waits for a line; `signal NAME`;
    /// `stops` ends it with SIGTERM, `ends` waits for a good end.
    fn served(&mut self, rest: &str) -> Outcome {
        let (verb, rest) = word(rest);
        let (server, banner) = self.commands.server.as_mut().expect("a step `serve`");
        match verb {
            "has" => return has_all(banner, rest).map(drop),
            "lacks" => return same(&banner.contains(rest), &false),
            "err" => server.err(rest, |lines| {
                lines.iter().any(|line| has_all(line, rest).is_ok())
            }),
            "signal" => server.signal(super::steps::signal(rest)),
            "stops" => {
                server.signal(crate::Signal::TERM);
                return same(&server.wait().code(), &Some(0));
            }
            "ends" => return same(&server.wait().code(), &Some(0)),
            other => panic!("no step of a server: {other}"),
        }
        Ok(())
    }

    /// Plays a server at `<URL>` that answers one connection after another: `STATUS BODY`, `events
    /// TEXT`, `endless TEXT` (events again and again), `line TEXT` (a stream of one line) or `raw
    /// TEXT`; or `blurt TEXT`, which does not wait for requests.
    fn fake(&mut self, answers: &str) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        self.set("WS", format!("ws://{address}"));
        let is_blurt = answers.starts_with("blurt ");
        self.set(
            "URL",
            format!("http{}://{address}", if is_blurt { "s" } else { "" }),
        );
        self.commands.fake = play(listener, answers);
    }

    /// The page for people has a row for the mistake, with the words that the command said.
    fn documented(&self, mistake: &str) -> Outcome {
        let page = binary::root().join("docs/guides/mistakes.md");
        let page = fs::read_to_string(page).expect("a page");
        let start = format!("| {mistake} |");
        let row = page.lines().find(|line| line.starts_with(&start));
        let row = row.ok_or("it has no row")?;
        for part in &self.commands.parts {
            // What a test chose.
            has_all(
                row,
                &part.replace("http://127.0.0.1:1", "http://127.0.0.1:8001"),
            )?;
        }
        Ok(())
    }
}

/// Checks that all parts are in a text, and returns them.
fn has_all(found: &str, wanted: &str) -> Result<Vec<String>, String> {
    let parts: Vec<String> = wanted.split(" | ").map(str::to_owned).collect();
    match parts.iter().find(|part| !found.contains(*part)) {
        Some(part) => Err(format!("{part:?} is missing in {found}")),
        None => Ok(parts),
    }
}

/// `/a/0 VALUE`: a value in JSON, of a text a part; `10 * /b` is ten times another.
fn points(out: &str, wanted: &str) -> Outcome {
    let (place, wanted) = word(wanted);
    let told: Value = serde_json::from_str(out).map_err(|error| error.to_string())?;
    let at = |place: &str| told.pointer(place).unwrap_or(&Value::Null);
    let holds = match (at(place), wanted.split_once(" * ")) {
        (Value::String(text), _) => text.contains(wanted),
        (value, Some((times, other))) => {
            let times: u64 = times.parse().expect("a factor");
            value.as_u64() == at(other).as_u64().map(|other| times * other)
        }
        (value, None) => serde_json::from_str(wanted).is_ok_and(|wanted: Value| *value == wanted),
    };
    match holds {
        true => Ok(()),
        false => Err(format!("it is {}", at(place))),
    }
}
