//! The documentation's own commands, run as a reader would run them.
//!
//! A page is a story. A comment before a block of code says what becomes of it:
//! - `<!-- file NAME -->`: it is written to that file;
//! - `<!-- server -->`: it starts the server, which runs until the end of the page;
//! - `<!-- run -->`: a shell runs it, and it succeeds; numbers behind `run` are the exit codes
//!   allowed;
//! - `<!-- background -->`: the same, and it goes on running;
//! - `<!-- shows -->`: its lines are among those that the block before has printed, in this
//!   order, with anything for `…`; `<!-- shows background -->` is about the newest block that runs
//!   in the background.
//!
//! `throng`, which is built already, takes the place of `cargo run --release --`. The ports of the
//! pages become those that the server got from the kernel, and 3000, where a page has its back end,
//! a free one.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use throng_testkit::{Browser, Process, free_port, javascript_of, throng};

/// Words that a comment may begin with; other comments are for people.
const VERBS: [&str; 5] = ["file", "server", "run", "background", "shows"];

/// A block and what its comment says.
struct Block {
    /// Line number, counted from 1.
    line: usize,
    order: String,
    text: String,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut order: Option<String> = None;
    let mut lines = page.lines().enumerate();
    while let Some((n, line)) = lines.next() {
        let comment = line.strip_prefix("<!-- ");
        let said = comment.and_then(|rest| rest.strip_suffix(" -->"));
        let verb = said.and_then(|said| said.split(' ').next());
        if let Some(said) = said.filter(|_| verb.is_some_and(|verb| VERBS.contains(&verb))) {
            order = Some(said.to_owned());
        } else if line.starts_with("```") {
            let inside = lines.by_ref().map(|(_, line)| line);
            let text: Vec<&str> = inside.take_while(|line| !line.starts_with("```")).collect();
            found.extend(order.take().map(|order| Block {
                line: n + 1,
                order,
                text: text.join("\n"),
            }));
        }
    }
    assert!(order.is_none(), "{order:?} has no block");
    found
}

/// Whether a line is what the page says, with anything for `…`.
fn is_like(line: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('…');
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    let mut is_open = false;
    for part in parts {
        is_open = true;
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.is_empty() || is_open && pattern.ends_with('…')
}

/// Whether all patterns are among the lines, in their order.
fn shows(lines: &[String], patterns: &str) -> bool {
    let mut lines = lines.iter();
    let mut patterns = patterns.lines();
    patterns.all(|pattern| lines.any(|line| is_like(line, pattern)))
}

/// Processes and files that a page has created so far.
struct Story {
    folder: TempDir,
    server: Option<Process>,
    clients: String,
    api: String,
    /// Port of the page's back end.
    backend: u16,
    background: Vec<Process>,
    /// Output of the last block that ran to its end; none after one in the background.
    printed: Option<Vec<String>>,
}

impl Story {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            server: None,
            clients: String::new(),
            api: String::new(),
            backend: free_port(),
            background: Vec::new(),
            printed: None,
        }
    }

    /// A shell that finds `throng`, in a folder of its own.
    fn shell(&self, script: &str) -> Command {
        let mut command = Command::new("bash");
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("THRONG_") {
                command.env_remove(name);
            }
        }
        let mut path = OsString::from(throng().parent().unwrap());
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        command.env("PATH", path).current_dir(self.folder.path());
        if self.server.is_some() {
            command.env("THRONG_API_URL", format!("http://{}", self.api));
            command.env("THRONG_SERVER_URL", format!("http://{}", self.clients));
        }
        command.args(["-euo", "pipefail", "-c", &self.placed(script)]);
        command
    }

    /// A text of the page with the ports that the server got, and the program that is built.
    fn placed(&self, text: &str) -> String {
        text.replace("cargo run --release --", "throng")
            .replace("127.0.0.1:8000", &self.clients)
            .replace("127.0.0.1:8001", &self.api)
            .replace("127.0.0.1:3000", &format!("127.0.0.1:{}", self.backend))
            .replace(
                "\"127.0.0.1\", 3000",
                &format!("\"127.0.0.1\", {}", self.backend),
            )
    }

    fn serve(&mut self, script: &str) {
        let mut command = self.shell(&format!("exec {script}"));
        for name in ["THRONG_LISTEN_CLIENT", "THRONG_LISTEN_API"] {
            command.env(name, "127.0.0.1:0");
        }
        command.env("THRONG_LOG_FORMAT", "json");
        let process = Process::start(&mut command, "bash is there");
        let serving = process.err("the line that says where it serves", |lines| {
            let lines = lines.iter();
            let mut lines = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
            lines.find(|line| line["message"] == "serving")
        });
        serving["clients"]
            .as_str()
            .unwrap()
            .clone_into(&mut self.clients);
        serving["api"].as_str().unwrap().clone_into(&mut self.api);
        self.server = Some(process);
    }

    fn step(&mut self, block: &Block) {
        let (verb, rest) = block.order.split_once(' ').unwrap_or((&block.order, ""));
        match verb {
            "file" => fs::write(self.folder.path().join(rest), self.placed(&block.text)).unwrap(),
            "server" => self.serve(&block.text),
            "run" => {
                let done = self.shell(&block.text).output().unwrap();
                let code = done.status.code().unwrap_or(-1).to_string();
                let allowed = if rest.is_empty() { "0" } else { rest };
                assert!(
                    allowed.split(' ').any(|known| known == code),
                    "line {}: exit code {code}\n{}{}",
                    block.line,
                    String::from_utf8_lossy(&done.stdout),
                    String::from_utf8_lossy(&done.stderr)
                );
                let printed = String::from_utf8_lossy(&done.stdout);
                self.printed = Some(printed.lines().map(str::to_owned).collect());
            }
            "background" => {
                let mut command = self.shell(&block.text);
                self.background
                    .push(Process::start(&mut command, "bash is there"));
                self.printed = None;
            }
            "shows" => {
                let expected = self.placed(&block.text);
                match self.printed.as_ref().filter(|_| rest.is_empty()) {
                    Some(printed) => assert!(
                        shows(printed, &expected),
                        "line {}: printed was\n{}",
                        block.line,
                        printed.join("\n")
                    ),
                    None => self
                        .background
                        .last()
                        .unwrap()
                        .out(&expected, |lines| shows(lines, &expected)),
                }
            }
            _ => panic!("line {}: what is `{}`?", block.line, block.order),
        }
    }
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// Plays a page up to a block with this order, or to its end.
fn play(page: &str, until: Option<&str>) -> Story {
    let text = fs::read_to_string(docs().join(page)).unwrap();
    let mut story = Story::new();
    for block in blocks(&text) {
        story.step(&block);
        if Some(&*block.order) == until {
            return story;
        }
    }
    assert!(until.is_none(), "{page} has no {until:?}");
    story
}

/// A test for each page that has blocks to run.
macro_rules! pages {
    ($($name:ident $path:literal)*) => {
        const PAGES: &[&str] = &[$($path),*];
        $(#[test] fn $name() { drop(play($path, None)); })*
    };
}

pages! {
    the_readme_works "../README.md"
    the_quick_start_works "quick-start.md"
    the_reference_of_the_api_works "api.md"
    the_reference_of_the_other_apis_works "api-compatible.md"
    the_guide_to_a_chat_works "guides/chat.md"
    the_guide_to_tokens_works "guides/tokens.md"
    the_guide_to_channels_works "guides/channels.md"
    the_guide_to_history_works "guides/history.md"
    the_guide_to_presence_works "guides/presence.md"
    the_guide_to_events_works "guides/sse.md"
    the_guide_to_monitoring_works "guides/monitoring.md"
    the_guide_to_backends_works "guides/backend.md"
    the_guide_to_load_tests_works "guides/load-testing.md"
}

/// The guide's page, with the SDK from npm in the place of a network's.
#[test]
fn two_people_talk_on_the_page_of_the_chat() {
    // What comes behind the page is for a terminal.
    let story = play("guides/chat.md", Some("file chat.html"));
    let sdk = javascript_of("example-chat", "examples/chat");
    let sdk = fs::read_to_string(sdk.join("node_modules/centrifuge/dist/centrifuge.js")).unwrap();
    let path = story.folder.path().join("chat.html");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page
        .split_once("<script src=\"https://unpkg.com/centrifuge@")
        .unwrap();
    let (version, after) = rest.split_once("/dist/centrifuge.js\"></script>").unwrap();
    let pinned = fs::read_to_string(docs().join("../examples/chat/package.json")).unwrap();
    assert!(pinned.contains(&format!("\"centrifuge\": \"{version}\"")));
    fs::write(&path, format!("{before}<script>{sdk}</script>{after}")).unwrap();

    let open = |user: &str| {
        let browser = Browser::start("");
        browser.open(&format!("http://127.0.0.1:{}/?user={user}", story.backend));
        browser
    };
    let reads = |browser: &Browser, text: &str| {
        let script = format!(
            "return document.body.innerText.includes({})",
            Value::from(text)
        );
        browser.until(text, &script);
    };
    let says = |browser: &Browser, text: &str| {
        browser.run(&format!(
            "document.forms[0].text.value = {};
             document.querySelector('button').click()",
            Value::from(text)
        ));
    };
    let (ann, bob) = (open("ann"), open("bob"));
    for browser in [&ann, &bob] {
        reads(browser, "Here: ann, bob");
    }
    says(&ann, "hello <b>bob</b>");
    reads(&bob, "ann: hello <b>bob</b>");
    says(&bob, "hello ann");
    reads(&ann, "ann: hello <b>bob</b>\nbob: hello ann");
    drop(bob);
    let script = "return document.getElementById('people').textContent === 'ann'";
    ann.until("an end of Bob", script);
    let carol = open("carol");
    reads(&carol, "Here: ann, carol");
    reads(&carol, "ann: hello <b>bob</b>\nbob: hello ann");
}

#[test]
fn no_page_with_blocks_is_forgotten() {
    for folder in ["..", "", "guides"] {
        for entry in fs::read_dir(docs().join(folder)).unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            if name.ends_with(".md") {
                let path = Path::new(folder).join(&name);
                let page = fs::read_to_string(entry.path()).unwrap();
                let is_known = PAGES.iter().any(|known| Path::new(known) == path);
                assert_eq!(is_known, !blocks(&page).is_empty(), "{}", path.display());
            }
        }
    }
}

#[test]
fn output_is_compared_with_gaps() {
    for (line, pattern, expect) in [
        ("a", "a", true),
        ("ab", "a", false),
        ("ab", "a…", true),
        ("a1b", "a…b", true),
        ("a1c", "a…b", false),
        ("xa", "a…", false),
        ("anything", "…", true),
    ] {
        assert_eq!(is_like(line, pattern), expect, "{line} {pattern}");
    }
    let lines = ["a", "b", "c"].map(str::to_owned);
    assert!(shows(&lines, "a\nc"));
    assert!(!shows(&lines, "c\na"));
}
