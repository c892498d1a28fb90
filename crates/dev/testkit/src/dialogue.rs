//! Plays dialogues: text files that say what is sent to a server and what must come back, so that a
//! story is read without Rust around it. `docs/TESTING.md` has the words.
//!
//! A file has sections, each a story with servers, clients and variables of its own; steps before
//! the first section begin each of them. A step is one line and the lines indented below it. Every
//! step passes, or the test fails with its line.

mod backend;
mod clients;
mod http;
mod programs;
mod steps;
mod values;

use std::collections::HashMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use tempfile::TempDir;

pub use self::backend::Backend;
use crate::{
    Authority, Browser, Issuer, Process, Proxy, Sdk, Server, TlsFiles, TokenKey, throng, until,
};

/// Result of a step: why it failed.
pub type Outcome = Result<(), String>;

/// Steps of one suite, beside those that all dialogues have.
pub trait Steps {
    /// Takes a step with its first word, the rest of its line and the lines below it; none if that
    /// word begins none of its steps.
    fn step(&mut self, story: &mut Story, verb: &str, rest: &str, block: &str) -> Option<Outcome>;
}

/// One line, with the lines indented below it.
struct Step {
    /// Line number in the file, counted from 1.
    line: usize,
    text: String,
    block: String,
}

/// Something with a name that steps speak to.
enum Thing {
    Wire(crate::Wire),
    Client(Sdk),
    Browser(Browser),
    Process(Process),
    Issuer(Issuer),
    Proxy(Proxy),
    Backend(Backend),
}

/// State of one story.
#[derive(Default)]
pub struct Story {
    suite: Option<Box<dyn Steps>>,
    server: Option<Server>,
    /// A certificate for this machine, and the folder of a story that has files.
    tls: Option<TlsFiles>,
    /// Keys that sign tokens, by their names.
    keys: HashMap<String, TokenKey>,
    /// Temporary folders of the story.
    folders: Vec<TempDir>,
    /// Authorities by their names.
    authorities: HashMap<String, Authority>,
    /// Servers that go on beside it, by their names.
    parked: HashMap<String, Server>,
    /// Whether the process that was started has handed over, so that its end is not waited for.
    has_moved: bool,
    /// Where programs are installed, if the server is to be upgraded.
    installed: Option<crate::Installed>,
    things: HashMap<String, Thing>,
    /// Texts by the names that stand for them, without the angle brackets.
    variables: HashMap<String, String>,
}

/// Plays each section of a file.
///
/// # Panics
/// If a step fails, with its line.
pub fn play(file: &Path) {
    play_with(file, |_| None);
}

/// Plays each section of a file with a suite's own steps, made anew for each; what makes them may
/// set variables.
///
/// # Panics
/// If a step fails, with its line.
pub fn play_with(file: &Path, suite: impl Fn(&mut Story) -> Option<Box<dyn Steps>>) {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
    let steps = steps_of(&text);
    let is_head = |step: &Step| step.text.starts_with("== ");
    let first = steps.iter().position(is_head).expect("a section");
    let (before, sections) = steps.split_at(first);
    for section in sections.chunk_by(|_, next| !is_head(next)) {
        eprintln!("{}", section[0].text);
        let mut story = Story::default();
        story.set("THRONG", throng().display().to_string());
        story.suite = suite(&mut story);
        let outcome = { story.run(before) }.and_then(|()| story.run(&section[1..]));
        if let Err((line, why)) = outcome {
            panic!("{}:{line}: {why}", file.display());
        }
        story.end();
    }
}

fn steps_of(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (n, line) in text.lines().enumerate() {
        if let Some(more) = line.strip_prefix("  ") {
            let step = steps.last_mut().expect("a step above an indented line");
            step.block.push_str(more);
            step.block.push('\n');
        } else if !line.is_empty() && !line.starts_with('#') {
            steps.push(Step {
                line: n + 1,
                text: line.to_owned(),
                block: String::new(),
            });
        }
    }
    steps
}

impl Story {
    /// Runs steps; a failure has the line of its step.
    fn run(&mut self, steps: &[Step]) -> Result<(), (usize, String)> {
        let mut at = 0;
        while let Some(step) = steps.get(at) {
            at += 1;
            if let Some(name) = step.text.strip_prefix("rows ") {
                self.set(name, step.block.clone());
                continue;
            }
            let Some(names) = step.text.strip_prefix("for ") else {
                // Steps below take their variables when it is their turn.
                let block = match &*step.text {
                    "until" => step.block.clone(),
                    _ => self.filled(&step.block),
                };
                self.step(&self.filled(&step.text), &block)
                    .map_err(|why| (step.line, format!("{}\n{why}", self.filled(&step.text))))?;
                continue;
            };
            let length = end_of(&steps[at..]).expect("a loop has an end");
            let body = &steps[at..at + length];
            at += length + 1;
            let (names, rows) = names.split_once(" in").expect("`for NAMES in ROWS`");
            let rows = self.filled(rows.trim());
            let (rows, block) = match rows.strip_prefix('@') {
                Some(name) => ("", self.variables[name].clone()),
                None => (&*rows, step.block.clone()),
            };
            for row in values::rows(rows, &block) {
                for (n, name) in names.split(" | ").enumerate() {
                    let cell = row.get(n).map_or("", String::as_str);
                    self.set(name, self.filled(cell));
                }
                self.run(body)
                    .map_err(|(line, why)| (line, format!("{why}\nwith {names} = {row:?}")))?;
            }
        }
        Ok(())
    }

    /// Sets the text that stands for a name in the steps that follow.
    pub fn set(&mut self, name: &str, value: String) {
        self.variables.insert(name.trim().to_owned(), value);
    }

    /// The text with variables in the place of their names.
    fn filled(&self, text: &str) -> String {
        let (mut out, mut rest) = (String::new(), text);
        while let Some((before, behind)) = rest.split_once('<') {
            out.push_str(before);
            let known = behind
                .split_once('>')
                .and_then(|(name, behind)| Some((self.variables.get(name)?, behind)));
            if let Some((value, behind)) = known {
                out.push_str(value);
                rest = behind;
            } else {
                out.push('<');
                rest = behind;
            }
        }
        out + rest
    }

    /// Takes one step: a verb of the story's own, of its server, of programs, or of a thing.
    fn step(&mut self, text: &str, block: &str) -> Outcome {
        let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
        match verb {
            "until" if rest.is_empty() => {
                let steps = steps_of(block);
                until("all of these steps", || self.run(&steps).is_ok());
                Ok(())
            }
            "until" => {
                let mut why = String::new();
                let has_come = |story: &mut Self, why: &mut String| {
                    let outcome = story.step(rest, block);
                    outcome.map_err(|not_yet| *why = not_yet).is_ok()
                };
                until(rest, || has_come(self, &mut why));
                Ok(())
            }
            "let" => self.define(rest),
            "drop" => {
                self.things.remove(rest);
                Ok(())
            }
            "browser" => {
                let browser = Thing::Browser(Browser::start());
                self.things.insert(rest.to_owned(), browser);
                Ok(())
            }
            "backend" => {
                let backend = Backend::start(block);
                self.set(rest, backend.address().to_string());
                self.things.insert(rest.to_owned(), Thing::Backend(backend));
                Ok(())
            }
            "proxy" => {
                let proxy = Proxy::new(self.server().clients());
                self.set(rest, proxy.address().to_string());
                self.things.insert(rest.to_owned(), Thing::Proxy(proxy));
                Ok(())
            }
            _ => { self.own_step(verb, rest, block) }
                .or_else(|| self.server_step(verb, rest, block))
                .or_else(|| self.program_step(verb, rest, block))
                .unwrap_or_else(|| self.thing_step(verb, rest, block)),
        }
    }

    fn own_step(&mut self, verb: &str, rest: &str, block: &str) -> Option<Outcome> {
        let mut suite = self.suite.take()?;
        let outcome = suite.step(self, verb, rest, block);
        self.suite = Some(suite);
        outcome
    }

    /// Server of the story.
    ///
    /// # Panics
    /// If no step has started one.
    pub fn server(&self) -> &Server {
        self.server.as_ref().expect("a step that starts a server")
    }

    /// Connection of a name.
    ///
    /// # Panics
    /// If nothing of that name is a connection.
    pub fn wire(&mut self, name: &str) -> &mut crate::Wire {
        match self.things.get_mut(name) {
            Some(Thing::Wire(wire)) => wire,
            _ => panic!("no connection has the name {name}"),
        }
    }

    /// Keeps a connection by a name, for the steps of connections.
    pub fn keep_wire(&mut self, name: &str, wire: crate::Wire) {
        self.things.insert(name.to_owned(), Thing::Wire(wire));
    }

    /// Address of a port: `clients`, `api`, one of GRIP's, or an address itself.
    pub fn port(&self, name: &str) -> SocketAddr {
        match name {
            "clients" => self.server().clients(),
            "api" => self.server().api_address(),
            other => other.parse().unwrap_or_else(|_| self.server().grip(other)),
        }
    }

    /// Ends what is left: a server that has not handed over must end well.
    fn end(mut self) {
        self.things.clear();
        if let Some(server) = self.server.take().filter(|_| !self.has_moved) {
            server.stop();
        }
    }
}

/// Number of steps before the `end` of a loop's body.
fn end_of(steps: &[Step]) -> Option<usize> {
    let mut depth = 1;
    steps.iter().position(|step| {
        match &*step.text {
            "end" => depth -= 1,
            text => depth += usize::from(text.starts_with("for ")),
        }
        depth == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_fails_is_told_with_its_line() {
        for (text, expected) in [
            ("same 1 1\n", None),
            ("let A = 2\n# a comment\nsame <A> 1\n", Some(3)),
            ("for A in 1..3\nsame <A> <A>\nend\nsame 1 2\n", Some(4)),
            ("for A in 1, 2\nsame <A> 1\nend\n", Some(2)),
            (
                "for A | B in\n  1 | 1\n  x | y\nsame <A> <B>\nend\n",
                Some(4),
            ),
            (
                "rows R\n  1 | ''\nfor A | B in @R\nsame <A><B> 1\nend\n",
                None,
            ),
            ("nothing of this name\n", Some(1)),
        ] {
            let failed = Story::default().run(&steps_of(text)).err();
            assert_eq!(failed.map(|(line, _)| line), expected, "{text}");
        }
    }
}
