//! Plays dialogues: text files that say what is sent to a server and what must come back, so that a
//! story is read without Rust around it. `docs/TESTING.md` has the words.
//!
//! [`throng_dialogue`] reads the files; each story has servers and clients of its own.

mod backend;
mod clients;
mod http;
mod programs;
mod steps;
mod values;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;

use tempfile::TempDir;
use throng_dialogue::{Outcome, Stage, Variables};

pub use self::backend::Backend;
use crate::{
    Authority, Browser, Issuer, Process, Proxy, Sdk, Server, TlsFiles, TokenKey, throng, until,
};

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
    /// Servers that go on beside it, by their names.
    parked: HashMap<String, Server>,
    /// Whether the process that was started has handed over, so that its end is not waited for.
    has_moved: bool,
    /// Where programs are installed, if the server is to be upgraded.
    installed: Option<crate::Installed>,
    things: HashMap<String, Thing>,
    variables: Variables,
}

/// Plays each section of a file.
///
/// # Panics
/// If a step fails, with its line.
pub fn play(file: &Path) {
    throng_dialogue::play_file(file, || {
        let mut story = Story::default();
        story.set("THRONG", throng().display().to_string());
        story
    });
}

impl Story {
    fn set(&mut self, name: &str, value: String) {
        self.variables.set(name, value);
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
}

impl Stage for Story {
    fn variables(&mut self) -> &mut Variables {
        &mut self.variables
    }

    fn several(&self, word: &str) -> Option<Vec<String>> {
        values::several(word)
    }

    /// Takes one step: a verb of the story's own, of its server, of programs, or of a thing.
    fn step(&mut self, text: &str, block: &str) -> Outcome {
        let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
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
            _ => { self.server_step(verb, rest, block) }
                .or_else(|| self.program_step(verb, rest, block))
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
