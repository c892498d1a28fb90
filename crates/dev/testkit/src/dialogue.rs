//! Plays dialogues: text files that say what is sent to a server and what must come back, so that a
//! story is read without Rust around it. `docs/TESTING.md` has the words.
//!
//! A file has sections, each a story with servers, clients and variables of its own; steps before
//! the first section begin each of them. A step is one line and the lines indented below it. Every
//! step passes, or the test fails with its line.

mod backend;
mod clients;
mod commands;
mod http;
mod nodes;
mod numbers;
mod output;
mod peers;
mod programs;
mod steps;
mod values;

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use self::backend::Backend;
pub use self::numbers::Numbers;
use self::output::Commands;
use self::peers::Peer;
use crate::{
    Authority, Browser, Issuer, Process, Proxy, Sdk, Server, TlsFiles, TokenKey, throng, until,
};

/// Result of a step: why it failed.
type Outcome = Result<(), String>;

/// One line, with the lines indented below it.
#[derive(Clone)]
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
    Node(Server),
    Numbers(Numbers),
    Peer(Peer),
}

/// State of one story.
#[derive(Default)]
struct Story {
    server: Option<Server>,
    /// A certificate for this machine, and the folder of a story that has files.
    tls: Option<TlsFiles>,
    /// Keys that sign tokens, by their names.
    keys: HashMap<String, TokenKey>,
    /// Temporary folders of the story.
    folders: Vec<TempDir>,
    /// Authorities by their names.
    authorities: HashMap<String, Authority>,
    /// Folder of the file, in which it includes others.
    path: PathBuf,
    /// Steps that the file defines, by their names.
    defined: HashMap<String, Step>,
    /// Whether the process that was started has handed over, so that its end is not waited for.
    has_moved: bool,
    /// Where programs are installed, if the server is to be upgraded.
    installed: Option<crate::Installed>,
    things: HashMap<String, Thing>,
    commands: Commands,
    /// Texts by the names that stand for them, without the angle brackets.
    variables: HashMap<String, String>,
}

/// Makes a test of each file in the crate's folder `dialogues`: a module for each kind of run with
/// the files that are played so. Files that others include come first.
#[macro_export]
macro_rules! dialogues {
    (included: $($included:ident)*; $($kind:ident: $($name:ident)*;)*) => {
        $(
            mod $kind {
                $(
                    #[test]
                    fn $name() {
                        let folder = env!("CARGO_MANIFEST_DIR");
                        $crate::play(folder, stringify!($name), stringify!($kind));
                    }
                )*
            }
        )*

        #[test]
        fn no_file_is_forgotten() {
            let names = [$(stringify!($included),)* $($(stringify!($name),)*)*];
            $crate::has_only(env!("CARGO_MANIFEST_DIR"), &names);
        }
    };
}

/// Checks that a crate has these dialogues and no others.
///
/// # Panics
/// If one is missing or forgotten.
pub fn has_only(folder: &str, names: &[&str]) {
    let files = fs::read_dir(Path::new(folder).join("dialogues")).expect("the folder");
    let name = |file: fs::DirEntry| file.file_name().into_string().expect("UTF-8");
    let found: BTreeSet<String> = files.flatten().map(name).collect();
    assert_eq!(
        found,
        names.iter().map(|name| format!("{name}.txt")).collect()
    );
}

/// Plays each section of a crate's file; `<KIND>` stands for the kind of run.
///
/// # Panics
/// If a step fails, with its line.
pub fn play(folder: &str, name: &str, kind: &str) {
    let path = Path::new(folder).join("dialogues");
    let file = path.join(format!("{name}.txt"));
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
    let steps = steps_of(&text);
    let is_head = |step: &Step| step.text.starts_with("== ");
    let first = steps.iter().position(is_head).expect("a section");
    let (before, sections) = steps.split_at(first);
    for section in sections.chunk_by(|_, next| !is_head(next)) {
        eprintln!("{}", section[0].text);
        let mut story = Story {
            path: path.clone(),
            ..Story::default()
        };
        story.set("THRONG", throng().display().to_string());
        story.set("VERSION", env!("CARGO_PKG_VERSION").to_owned());
        story.set("ROOT", crate::binary::root().display().to_string());
        story.set("KIND", kind.to_owned());
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
            if let Some(name) = step.text.strip_prefix("steps ") {
                let name = values::word(name).0.to_owned();
                self.defined.insert(name, step.clone());
                continue;
            }
            let Some(names) = step.text.strip_prefix("for ") else {
                self.step(&self.filled(&step.text), &self.filled(&step.block))
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

    fn set(&mut self, name: &str, value: String) {
        self.variables.insert(name.trim().to_owned(), value);
    }

    /// The text with variables in the place of their names, the inner ones first.
    fn filled(&self, text: &str) -> String {
        let mut pieces = text.split('>');
        let mut out = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let name = out.rfind('<');
            match name.and_then(|at| Some((at, self.variables.get(&out[at + 1..])?))) {
                Some((at, value)) => {
                    out.truncate(at);
                    out.push_str(value);
                }
                None => out.push('>'),
            }
            out.push_str(piece);
        }
        out
    }

    /// Takes the steps that the file defines by this name, with words for their parameters; the
    /// last one has the rest of the line.
    fn defined_step(&mut self, step: &Step, mut rest: &str) -> Outcome {
        let mut names = step.text.split(' ').skip(2).peekable();
        while let Some(name) = names.next() {
            let (value, more) = match names.peek() {
                Some(_) => values::word(rest),
                None => (rest, ""),
            };
            self.set(name, value.to_owned());
            rest = more;
        }
        self.run(&steps_of(&step.block))
            .map_err(|(line, why)| format!("{why}\nline {line} of {}", step.text))
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
            "text" => {
                self.set(rest, block.to_owned());
                Ok(())
            }
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
            // In front of the server, or of an address.
            "proxy" => {
                let (name, to) = values::word(rest);
                let to = if to.is_empty() { "clients" } else { to };
                let proxy = Proxy::new(self.port(to));
                self.set(name, proxy.address().to_string());
                self.things.insert(name.to_owned(), Thing::Proxy(proxy));
                Ok(())
            }
            "include" => {
                let text = fs::read_to_string(self.path.join(rest)).expect("a file beside it");
                self.run(&steps_of(&text))
                    .map_err(|(line, why)| format!("{why}\nline {line} of {rest}"))
            }
            // A step of one of the cases that a file is played for.
            "when" => {
                let (found, rest) = values::word(rest);
                let (wanted, step) = values::word(rest);
                match found == values::cell(wanted) {
                    true => self.step(step, block),
                    false => Ok(()),
                }
            }
            "numbers" => {
                let (name, channel) = values::word(rest);
                let numbers = Numbers::new(channel);
                self.things.insert(name.to_owned(), Thing::Numbers(numbers));
                Ok(())
            }
            "peer" => {
                self.start_peers(rest, block);
                Ok(())
            }
            names if names.contains(',') => { names.split(',') }
                .try_for_each(|name| self.step(&format!("{name} {rest}"), block)),
            name if self.defined.contains_key(name) => {
                let step = self.defined[name].clone();
                self.defined_step(&step, rest)
            }
            _ => { self.server_step(verb, rest, block) }
                .or_else(|| self.program_step(verb, rest, block))
                .or_else(|| self.command_step(verb, rest, block))
                .unwrap_or_else(|| self.thing_step(verb, rest, block)),
        }
    }

    fn server(&self) -> &Server {
        self.server.as_ref().expect("a step that starts a server")
    }

    /// Address of a port: `clients`, `api`, one of GRIP's, or an address itself.
    fn port(&self, name: &str) -> SocketAddr {
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
            (
                "let A = 2\nlet B2 = 1\nsame <B<A>> 1\nsame <B<A>> 2\n",
                Some(4),
            ),
            (
                "steps S a b\n  same <a> 1\n  same-json [<b>] == [2, 3]\nS 1 2, 3\nS 1 2\n",
                Some(5),
            ),
            (
                "let B = 1\nwhen <B> 2 same 1 2\nwhen <B> 1 same 1 2\n",
                Some(3),
            ),
            ("nothing of this name\n", Some(1)),
        ] {
            let failed = Story::default().run(&steps_of(text)).err();
            assert_eq!(failed.map(|(line, _)| line), expected, "{text}");
        }
    }
}
