//! One version of npm `appwrite` in a browser made of Node.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::{Value, json};
use throng_testkit::Process;

/// A version, and which of its two interfaces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Version {
    pub(crate) number: &'static str,
    /// `client.subscribe`, which all have, or the class `Realtime`.
    pub(crate) api: &'static str,
    /// Subscribes by message, and not in the URL.
    pub(crate) by_message: bool,
    /// Whether this version has queries.
    pub(crate) queries: bool,
    /// Sends a token in the URL.
    pub(crate) jwt: bool,
}

/// A page with one SDK.
pub(crate) struct Sdk {
    process: Process,
    version: Version,
}

impl Sdk {
    #[track_caller]
    pub(crate) fn start(version: Version) -> Self {
        let package = format!("appwrite-{}", version.number);
        let mut node = Command::new("node");
        node.arg(folder().join("sdk.mjs"))
            .args([&package, version.api]);
        let process = Process::start(&mut node, "install nodejs and npm, see .ci/packages");
        Self { process, version }
    }

    /// Sends one order to the page.
    #[track_caller]
    pub(crate) fn order(&mut self, name: &str, mut fields: Value) {
        fields["order"] = json!(name);
        self.process.say(&fields.to_string());
    }

    /// Subscribes and waits until the server has it, on the `nth` socket of this page.
    #[track_caller]
    pub(crate) fn subscribe(&mut self, fields: Value, nth: usize) {
        self.order("subscribe", fields);
        self.wait_connected(nth);
    }

    /// Waits until the server holds the subscriptions of the `nth` socket.
    #[track_caller]
    pub(crate) fn wait_connected(&self, nth: usize) {
        let to = |frame: &Value| match self.version.by_message {
            true => frame["type"] == "response" && frame["data"]["to"] == "subscribe",
            false => frame["type"] == "connected",
        };
        self.frame("the subscription", nth, to);
    }

    /// The first frame on the `nth` socket that fits.
    #[track_caller]
    pub(crate) fn frame(&self, what: &str, nth: usize, fits: impl Fn(&Value) -> bool) -> Value {
        let what = format!("{what} ({:?})", self.version);
        self.process.out(&what, |lines| {
            let mut socket = 0;
            lines.iter().map(|line| parse(line)).find_map(|event| {
                socket += usize::from(event["event"] == "socket");
                let fits = event["event"] == "frame" && socket == nth && fits(&event["frame"]);
                fits.then(|| event["frame"].clone())
            })
        })
    }

    /// The ids that one subscription has received, once `last` is among them.
    #[track_caller]
    pub(crate) fn heard(&self, subscription: &str, last: &str) -> Vec<String> {
        let what = format!("{last} on {subscription} ({:?})", self.version);
        self.process.out(&what, |lines| {
            let ids: Vec<String> = lines
                .iter()
                .map(|line| parse(line))
                .filter(|event| event["event"] == "event" && event["as"] == subscription)
                .map(|event| {
                    event["payload"]["$id"]
                        .as_str()
                        .unwrap_or_default()
                        .to_owned()
                })
                .collect();
            ids.iter().any(|id| id == last).then_some(ids)
        })
    }

    /// The first error that the SDK reported to its page: code and message.
    #[track_caller]
    pub(crate) fn error(&self) -> (u64, String) {
        self.process.out("an error", |lines| {
            let mut events = lines.iter().map(|line| parse(line));
            let error = events.find(|event| event["event"] == "error")?;
            let message = error["message"].as_str()?.to_owned();
            Some((error["code"].as_u64()?, message))
        })
    }

    /// The code with which the first socket was closed.
    #[track_caller]
    pub(crate) fn closed(&self) -> u64 {
        self.process.out("the close", |lines| {
            let mut events = lines.iter().map(|line| parse(line));
            events.find(|event| event["event"] == "closed")?["code"].as_u64()
        })
    }
}

fn parse(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_default()
}

/// The packages that this checkout pins, installed once below `target`.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("js");
        let files = ["package.json", "package-lock.json", "sdk.mjs"];
        let mut hasher = DefaultHasher::new();
        for file in files {
            fs::read(from.join(file)).unwrap().hash(&mut hasher);
        }
        let all = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let folder = all.join(format!("appwrite-js-{:016x}", hasher.finish()));
        // Several test processes may want it at the same time.
        let lock = File::create(all.join("appwrite-js.lock")).unwrap();
        lock.lock().unwrap();
        if !folder.join("complete").exists() {
            fs::create_dir_all(&folder).unwrap();
            for file in files {
                fs::copy(from.join(file), folder.join(file)).unwrap();
            }
            install(&folder);
            fs::write(folder.join("complete"), "").unwrap();
        }
        folder
    })
}

fn install(folder: &Path) {
    let mut npm = Command::new("npm");
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
    let done = npm.current_dir(folder).output();
    let done = done.expect("npm starts; .ci/packages says where it comes from");
    assert!(
        done.status.success(),
        "npm ci needs its package registry: {}",
        String::from_utf8_lossy(&done.stderr)
    );
}
