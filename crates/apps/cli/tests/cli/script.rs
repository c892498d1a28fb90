//! Plays the stories in `stories/`: files, servers and commands with what they must print.
//!
//! Each story has a folder of its own, `$F`. A line is a verb and its words; `'…'` keeps a word
//! with spaces together, `$NAME` stands for a value, and `\n`, `\r`, `\e`, `\xff` for bytes.
//!
//! Before a command, or beside it:
//! - `file PATH` writes a file in the folder, `fake` plays a server at `$URL` that answers one
//!   connection after another; the lines behind that begin with a bar are the text, the answers.
//! - `serve …` starts a server: `$CLIENTS` and `$API` are its URLs, `$HOST` its address for
//!   clients. `banner A | B` are parts of its first lines, `hides A` is not in them. `stop` ends it
//!   with SIGTERM, and it ends well.
//! - `< TEXT` is the next command's standard input.
//!
//! `$ VAR=x … => 4 A | B` runs the binary to its end, `sh …` a line of the shell in which `$THRONG`
//! is the binary. Behind the arrow are the exit codes, 0 without it, and parts of standard output
//! for 0, of standard error else.
//!
//! Of the last command:
//! - `out A | B` and `err A | B` are more parts, `not A` is in neither stream, `prints TEXT` and
//!   `tells TEXT` are all of standard output, of standard error; `-> NAME` keeps the output.
//! - `json /a/0 VALUE` is a value in the JSON that it printed: of a text a part; `10 * /b` is ten
//!   times another.
//! - `holds PATH A | B` are parts of a file in the folder; `same A B` are two files that differ at
//!   most in the first line.
//! - `asked LINE` is the beginning of the next request to the played server; `with NAME: VALUE`,
//!   `without NAME` and `body TEXT` go on about it.
//! - `page NAME`: the page for people has a row for this mistake, with what the command told.

use std::collections::HashMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;

use serde_json::Value;

use crate::fake::{Asked, Fake, answer, events, line_stream};
use crate::program::{Done, Running, clean};
use crate::serve::Server;

struct Story {
    folder: tempfile::TempDir,
    values: HashMap<String, String>,
    fake: Option<Fake>,
    asked: Option<Asked>,
    server: Option<Server>,
    input: Option<Vec<u8>>,
    done: Option<Done>,
    parts: Vec<String>,
}

/// Plays all stories of a file.
pub(crate) fn play(text: &str) {
    let text = text.strip_prefix("== ").expect("a story");
    for story in text.split("\n== ") {
        let (name, steps) = story.split_once('\n').expect("steps");
        println!("== {name}");
        Story::begin().play(steps);
    }
}

impl Story {
    fn begin() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut values = HashMap::new();
        values.insert("F".to_owned(), folder.path().display().to_string());
        let nobody = nobody.local_addr().unwrap();
        values.insert("NOBODY".to_owned(), format!("http://{nobody}"));
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..").to_owned();
        values.insert("ROOT".to_owned(), root);
        let binary = env!("CARGO_BIN_EXE_throng").to_owned();
        values.insert("THRONG".to_owned(), binary);
        values.insert("VERSION".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        Self {
            folder,
            values,
            fake: None,
            asked: None,
            server: None,
            input: None,
            done: None,
            parts: Vec::new(),
        }
    }

    fn play(&mut self, steps: &str) {
        let mut lines = steps.lines().peekable();
        while let Some(line) = lines.next() {
            println!("{line}");
            let mut text = String::new();
            while let Some(more) = lines.next_if(|line| line.starts_with('|')) {
                text += more.strip_prefix("| ").unwrap_or("");
                text.push('\n');
            }
            let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
            self.step(verb, rest, &text);
        }
    }

    fn step(&mut self, verb: &str, rest: &str, text: &str) {
        match verb {
            "" | "#" => {}
            "file" => fs::write(self.folder.path().join(rest), self.filled(text)).unwrap(),
            "fake" => self.fake(text),
            "asked" => {
                let asked = self.fake.as_ref().expect("a fake server").asked();
                assert!(asked.line.starts_with(rest), "{asked:?}");
                self.asked = Some(asked);
            }
            "with" => {
                let (name, value) = rest.split_once(": ").expect("NAME: VALUE");
                assert_eq!(self.request().header(name), Some(value));
            }
            "without" => assert_eq!(self.request().header(rest), None),
            "body" => assert_eq!(self.request().body, bytes(rest)),
            "serve" => {
                let words = self.words(rest);
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let server = Server::start(&words);
                let host = server.client.trim_start_matches("http://").to_owned();
                for (name, value) in [
                    ("CLIENTS", &server.client),
                    ("API", &server.api),
                    ("HOST", &host),
                ] {
                    self.values.insert(name.to_owned(), value.clone());
                }
                self.server = Some(server);
            }
            "banner" | "hides" => {
                let banner = &self.server.as_ref().expect("a server").banner;
                for part in parts(rest) {
                    let found = banner.contains(&part);
                    assert_eq!(found, verb == "banner", "{part:?}: {banner}");
                }
            }
            "stop" => drop(self.server.take().expect("a server").stop()),
            "<" => self.input = Some(bytes(&self.filled(rest))),
            "$" => self.run(rest, false),
            "sh" => self.run(rest, true),
            "holds" => {
                let (path, wanted) = rest.split_once(' ').expect("PATH PARTS");
                let text = fs::read_to_string(self.folder.path().join(path)).unwrap();
                for part in parts(wanted) {
                    assert!(text.contains(&part), "{part:?} is not in {text}");
                }
            }
            "same" => {
                let text = |name: &str| {
                    let text = fs::read_to_string(self.folder.path().join(name)).unwrap();
                    text.split_once('\n').expect("lines").1.to_owned()
                };
                let (a, b) = rest.split_once(' ').expect("two files");
                assert_eq!(text(a), text(b));
            }
            "page" => documented(rest, &self.parts),
            _ => self.judge(verb, rest),
        }
    }

    /// Judges the last command.
    fn judge(&mut self, verb: &str, rest: &str) {
        let done = self.done.as_ref().expect("a command");
        let rest = &self.filled(rest);
        match verb {
            "out" | "err" => {
                let stream = if verb == "out" { &done.out } else { &done.err };
                for part in parts(rest) {
                    assert!(stream.contains(&part), "{part:?} is missing: {done:#?}");
                    self.parts.push(part);
                }
            }
            "not" => {
                let part = String::from_utf8(bytes(rest)).unwrap();
                let found = done.out.contains(&part) || done.err.contains(&part);
                assert!(!found, "{part:?} is there: {done:#?}");
            }
            "prints" => assert_eq!(done.out.as_bytes(), bytes(rest), "{done:#?}"),
            "tells" => assert_eq!(done.err.as_bytes(), bytes(rest), "{done:#?}"),
            "json" => {
                let (place, wanted) = rest.split_once(' ').expect("PLACE VALUE");
                let told: Value = serde_json::from_str(&done.out).unwrap();
                let at = |place: &str| told.pointer(place).unwrap_or(&Value::Null);
                let found = at(place);
                let holds = match (found, wanted.split_once(" * ")) {
                    (Value::String(text), _) => text.contains(wanted),
                    (value, Some((times, other))) => {
                        let times: u64 = times.parse().expect("a factor");
                        value.as_u64() == at(other).as_u64().map(|other| times * other)
                    }
                    (value, None) => {
                        serde_json::from_str(wanted).is_ok_and(|wanted: Value| *value == wanted)
                    }
                };
                assert!(holds, "{place} is {found}, not {wanted}: {told:#}");
            }
            "->" => {
                let kept = done.out.trim_end().to_owned();
                self.values.insert(rest.clone(), kept);
            }
            _ => panic!("{verb:?} is no verb of a story"),
        }
    }

    /// Runs a command to its end: a shell, or the binary with variables before its arguments.
    fn run(&mut self, line: &str, by_shell: bool) {
        let (command, end) = line.rsplit_once(" => ").unwrap_or((line, "0"));
        let (codes, wanted) = end.split_once(' ').unwrap_or((end, ""));
        let mut command = if by_shell {
            let mut shell = clean("sh");
            shell.args(["-c", &self.filled(command)]);
            shell
        } else {
            let words = self.words(command);
            let variable = |word: &&String| word.starts_with("THRONG_");
            let (variables, arguments) = words.split_at(words.iter().take_while(variable).count());
            let mut command = clean(env!("CARGO_BIN_EXE_throng"));
            command.envs(variables.iter().filter_map(|word| word.split_once('=')));
            command.args(arguments);
            command
        };
        let done = match self.input.take() {
            Some(input) => Running::start_with(&mut command, &input).wait(),
            None => Running::start(&mut command).wait(),
        };
        let code = done.code.expect("an exit code").to_string();
        assert!(codes.split('/').any(|other| other == code), "{done:#?}");
        self.done = Some(done);
        self.parts.clear();
        if !wanted.is_empty() {
            self.judge(if codes == "0" { "out" } else { "err" }, wanted);
        }
    }

    /// Answers of a played server: `STATUS BODY`, `events TEXT`, `endless TEXT` (events again and
    /// again), `line TEXT` (a stream of one line), `raw TEXT`, or `blurt TEXT`, which does not wait
    /// for the request.
    fn fake(&mut self, text: &str) {
        if let Some(text) = text.strip_prefix("blurt ") {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("https://{}", listener.local_addr().unwrap());
            self.values.insert("URL".to_owned(), url);
            let text = bytes(text.trim_end());
            std::thread::spawn(move || {
                for mut socket in listener.incoming().flatten() {
                    // The other side may have gone already.
                    let _ = socket.write_all(&text);
                    let _ = socket.read_to_end(&mut Vec::new());
                }
            });
            return;
        }
        let answers: Vec<String> = text
            .lines()
            .map(|line| {
                let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
                let rest = String::from_utf8(bytes(rest)).unwrap();
                match kind {
                    "raw" => rest,
                    "events" => events(&rest),
                    "endless" => events(&rest.repeat(10_000)),
                    "line" => line_stream(&rest),
                    status => answer(status.parse().expect("a status"), &rest),
                }
            })
            .collect();
        let answers: Vec<&str> = answers.iter().map(String::as_str).collect();
        let fake = Fake::new(&answers);
        let websocket = fake.url.replace("http://", "ws://");
        self.values.insert("WS".to_owned(), websocket);
        self.values.insert("URL".to_owned(), fake.url.clone());
        self.fake = Some(fake);
    }

    fn request(&self) -> &Asked {
        self.asked.as_ref().expect("a request")
    }

    fn words(&self, line: &str) -> Vec<String> {
        let mut words = Vec::new();
        for (n, piece) in line.split('\'').enumerate() {
            match n % 2 {
                1 => words.push(piece.to_owned()),
                _ => words.extend(piece.split_whitespace().map(str::to_owned)),
            }
        }
        words.iter().map(|word| self.filled(word)).collect()
    }

    /// Puts values in the places of their names, the longest name first.
    fn filled(&self, text: &str) -> String {
        let mut names: Vec<&String> = self.values.keys().collect();
        names.sort_by_key(|name| std::cmp::Reverse(name.len()));
        names.into_iter().fold(text.to_owned(), |text, name| {
            text.replace(&format!("${name}"), &self.values[name])
        })
    }
}

fn parts(text: &str) -> Vec<String> {
    text.split(" | ").map(str::to_owned).collect()
}

fn bytes(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut pieces = text.split('\\');
    out.extend_from_slice(pieces.next().unwrap_or_default().as_bytes());
    for piece in pieces {
        let rest = match piece.as_bytes() {
            [b'n', rest @ ..] => (b'\n', rest),
            [b'r', rest @ ..] => (b'\r', rest),
            [b'e', rest @ ..] => (0x1b, rest),
            [b'x', ..] => {
                let byte = u8::from_str_radix(&piece[1..3], 16).expect("two hex digits");
                (byte, &piece.as_bytes()[3..])
            }
            _ => panic!("\\{piece}"),
        };
        out.push(rest.0);
        out.extend_from_slice(rest.1);
    }
    out
}

/// The page for people has a row for the mistake, with the same words.
#[track_caller]
fn documented(mistake: &str, says: &[String]) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/guides/mistakes.md");
    let page = fs::read_to_string(page).unwrap();
    let start = format!("| {mistake} |");
    let row = page.lines().find(|line| line.starts_with(&start));
    let row = row.unwrap_or_else(|| panic!("no row for {mistake:?}"));
    for part in says {
        // What a test chose.
        let part = part.replace("http://127.0.0.1:1", "http://127.0.0.1:8001");
        assert!(row.contains(&part), "{part:?} is missing in {row}");
    }
}
