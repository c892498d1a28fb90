//! Plays dialogues: text files that say what is sent to a server and what must come back, so that a
//! story is read without Rust around it. `docs/TESTING.md` has the words.
//!
//! [`throng_dialogue`] reads the files; each story has servers and clients of its own.

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

use std::collections::HashMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
pub use throng_dialogue::Outcome;
use throng_dialogue::{Stage, Variables, cell, word};

use self::backend::Backend;
pub use self::numbers::Numbers;
use self::output::Commands;
use self::peers::Peer;
pub use self::values::{EMULATED, SDKS, Start};
use crate::{
    Authority, Browser, Issuer, Process, Proxy, Sdk, Server, TlsFiles, TokenKey, throng, until,
};

/// Steps of one suite, beside those that all dialogues have.
pub trait Steps {
    /// Takes a step with its first word, the rest of its line and the lines below it; none if that
    /// word begins none of its steps.
    fn step(&mut self, story: &mut Story, verb: &str, rest: &str, block: &str) -> Option<Outcome>;
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
    /// Folder of the file, in which it includes others.
    path: PathBuf,
    /// Parameters and steps of those that the file defines, by their names.
    defined: HashMap<String, (String, String)>,
    /// Whether the process that was started has handed over, so that its end is not waited for.
    has_moved: bool,
    /// Where programs are installed, if the server is to be upgraded.
    installed: Option<crate::Installed>,
    things: HashMap<String, Thing>,
    commands: Commands,
    variables: Variables,
}

/// Plays each section of a file; `<KIND>` stands for the kind of run.
///
/// # Panics
/// If a step fails, with its line.
pub fn play(file: &Path, kind: &str) {
    play_with(file, |story| {
        story.set("KIND", kind.to_owned());
        None
    });
}

/// Plays each section of a file with a suite's own steps, made anew for each; what makes them may
/// set variables.
///
/// # Panics
/// If a step fails, with its line.
pub fn play_with(file: &Path, suite: impl Fn(&mut Story) -> Option<Box<dyn Steps>>) {
    throng_dialogue::play_file(file, || {
        let mut story = Story {
            path: file.parent().expect("its folder").to_owned(),
            ..Story::default()
        };
        story.set("THRONG", throng().display().to_string());
        story.set("VERSION", env!("CARGO_PKG_VERSION").to_owned());
        story.set("ROOT", crate::binary::root().display().to_string());
        story.suite = suite(&mut story);
        story
    });
}

impl Story {
    /// Sets the text that stands for a name in the steps that follow.
    pub fn set(&mut self, name: &str, value: String) {
        self.variables.set(name, value);
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

    /// Takes the steps that the file defines by this name, with words for their parameters; the
    /// last one has the rest of the line.
    fn defined_step(&mut self, (names, block): &(String, String), mut rest: &str) -> Outcome {
        let mut names = names.split(' ').peekable();
        while let Some(name) = names.next() {
            let (value, more) = match names.peek() {
                Some(_) => word(rest),
                None => (rest, ""),
            };
            self.set(name, value.to_owned());
            rest = more;
        }
        throng_dialogue::take(block, self)
            .map_err(|(line, why)| format!("{why}\nline {line} of it"))
    }
}

impl Stage for Story {
    fn variables(&mut self) -> &mut Variables {
        &mut self.variables
    }

    fn several(&self, word: &str) -> Option<Vec<String>> {
        values::several(word)
    }

    /// Takes one step: one of the suite, a verb of the story's own, of its server, of programs, or
    /// of a thing.
    fn step(&mut self, text: &str, block: &str) -> Outcome {
        let (verb, rest) = word(text);
        if let Some(outcome) = self.own_step(verb, rest, block) {
            return outcome;
        }
        match verb {
            "until" if rest.is_empty() => {
                let taken = |story: &mut Self| throng_dialogue::take(block, story).is_ok();
                until("all of these steps", || taken(self));
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
            "steps" => {
                let (name, names) = word(rest);
                let defined = (names.to_owned(), block.to_owned());
                self.defined.insert(name.to_owned(), defined);
                Ok(())
            }
            "text" => {
                self.set(rest, block.to_owned());
                Ok(())
            }
            "drop" => {
                self.things.remove(rest);
                Ok(())
            }
            "browser" => {
                let (name, flags) = word(rest);
                let browser = Thing::Browser(Browser::start(flags));
                self.things.insert(name.to_owned(), browser);
                Ok(())
            }
            "backend" => {
                let backend = Backend::by_rules(block);
                self.set(rest, backend.address().to_string());
                self.things.insert(rest.to_owned(), Thing::Backend(backend));
                Ok(())
            }
            // In front of the server, or of an address.
            "proxy" => {
                let (name, to) = word(rest);
                let to = if to.is_empty() { "clients" } else { to };
                let proxy = Proxy::new(self.port(to));
                self.set(name, proxy.address().to_string());
                self.things.insert(name.to_owned(), Thing::Proxy(proxy));
                Ok(())
            }
            "include" => {
                let text = fs::read_to_string(self.path.join(rest)).expect("a file beside it");
                throng_dialogue::take(&text, self)
                    .map_err(|(line, why)| format!("{why}\nline {line} of {rest}"))
            }
            // A step of one of the cases that a file is played for.
            "when" => {
                let (found, rest) = word(rest);
                let (wanted, step) = word(rest);
                match found == cell(wanted) {
                    true => self.step(step, block),
                    false => Ok(()),
                }
            }
            "numbers" => {
                let (name, channel) = word(rest);
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

    /// Ends what is left: a server that has not handed over must end well.
    fn end(&mut self) -> Outcome {
        self.things.clear();
        if let Some(server) = self.server.take().filter(|_| !self.has_moved) {
            server.stop();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_defined_and_chosen() {
        for (text, expected) in [
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
            let failed = throng_dialogue::take(text, &mut Story::default()).err();
            assert_eq!(failed.map(|(line, _)| line), expected, "{text}");
        }
    }
}
