//! Scripts that drive other people's clients: orders go in as lines, events come out as lines of
//! JSON.

use std::process::Command;
use std::sync::Mutex;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{Process, binary, install};

/// A script of `tests/e2e/js`, started with these arguments.
#[track_caller]
pub fn script(name: &str, arguments: &[&str]) -> Sdk {
    Sdk::start(&mut node(name, arguments))
}

/// A script of `tests/e2e/python`, started with these arguments.
#[track_caller]
pub fn python_script(name: &str, arguments: &[&str]) -> Sdk {
    let mut python = Command::new(install::python());
    python.arg(binary::root().join("tests/e2e/python").join(name));
    Sdk::start(python.args(arguments))
}

/// A program of `tests/e2e/java`, started with these arguments.
#[track_caller]
pub fn java_program(name: &str, arguments: &[&str]) -> Sdk {
    let mut java = Command::new("java");
    java.args([
        "-Xmx64m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-cp",
    ]);
    java.arg(install::java()).arg(name);
    Sdk::start(java.args(arguments))
}

/// A program of `tests/e2e/go`, started with these arguments.
#[track_caller]
pub fn go_program(name: &str, arguments: &[&str]) -> Sdk {
    let program = install::go_programs().join(name);
    Sdk::start(Command::new(program).args(arguments))
}

/// A script of `tests/e2e/js` that believes servers with a certificate of the authorities in this
/// file too.
#[track_caller]
pub fn script_trusting(authorities: &str, name: &str, arguments: &[&str]) -> Sdk {
    Sdk::start(node(name, arguments).env("NODE_EXTRA_CA_CERTS", authorities))
}

#[track_caller]
fn node(name: &str, arguments: &[&str]) -> Command {
    let folder = install::javascript();
    let mut node = Command::new("node");
    node.arg(folder.join(name)).args(arguments);
    node
}

/// A client and the events that it has reported.
pub struct Sdk {
    process: Process,
    /// Which events have been taken, by their place.
    taken: Mutex<Vec<bool>>,
    orders: u64,
}

impl Sdk {
    /// The npm package `centrifuge`.
    #[track_caller]
    pub fn javascript() -> Self {
        script("sdk.mjs", &[])
    }

    /// Starts the JavaScript package in its Protobuf build.
    #[track_caller]
    pub fn javascript_protobuf() -> Self {
        script("sdk.mjs", &["protobuf"])
    }

    /// Starts the JavaScript package over HTTP streaming, in JSON.
    #[track_caller]
    pub fn javascript_stream() -> Self {
        script("sdk.mjs", &["http_stream"])
    }

    /// Starts the JavaScript package over HTTP streaming, in Protobuf.
    #[track_caller]
    pub fn javascript_protobuf_stream() -> Self {
        script("sdk.mjs", &["protobuf", "http_stream"])
    }

    /// Starts the JavaScript package over an event stream.
    #[track_caller]
    pub fn javascript_events() -> Self {
        script("sdk.mjs", &["sse"])
    }

    /// The PyPI package `centrifuge-python`.
    #[track_caller]
    pub fn python() -> Self {
        Self::python_with(&[])
    }

    /// Starts the Python package with Protobuf.
    #[track_caller]
    pub fn python_protobuf() -> Self {
        Self::python_with(&["protobuf"])
    }

    /// The Maven package `centrifuge-java`.
    #[track_caller]
    pub fn java() -> Self {
        java_program("Sdk", &[])
    }

    #[track_caller]
    fn python_with(arguments: &[&str]) -> Self {
        python_script("sdk.py", arguments)
    }

    /// Starts a program that takes orders and tells events as the scripts do.
    #[track_caller]
    pub fn start(command: &mut Command) -> Self {
        Self {
            process: Process::start(command, install::PROGRAMS),
            taken: Mutex::default(),
            orders: 0,
        }
    }

    /// Writes a line as it is.
    #[track_caller]
    pub fn say(&mut self, line: &str) {
        self.process.say(line);
    }

    /// Sends its process a signal, such as STOP for a client that does not read for a while.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Waits for the last of its events, behind the end of its process.
    #[track_caller]
    pub fn rests(&self) {
        self.process.rests();
    }

    /// Gives an order, and returns its number.
    #[track_caller]
    pub fn order(&mut self, name: &str, fields: &Value) -> u64 {
        self.orders += 1;
        let mut order = fields.clone();
        order["order"] = json!(name);
        order["id"] = json!(self.orders);
        self.process.say(&order.to_string());
        self.orders
    }

    /// Gives an order and waits for what comes of it: `done` with its fields, or `failed` with code
    /// and message.
    #[track_caller]
    pub fn result(&mut self, name: &str, fields: &Value) -> Value {
        let id = self.order(name, fields);
        self.take(&format!("the result of {name}"), |event| event["id"] == id)
    }

    /// Gives an order that must fail, and returns the code.
    #[track_caller]
    pub fn failure(&mut self, name: &str, fields: &Value) -> u64 {
        let result = self.result(name, fields);
        assert_eq!(result["event"], "failed", "{name} {fields}: {result}");
        result["code"]
            .as_u64()
            .unwrap_or_else(|| panic!("{result}"))
    }

    /// Connects, and waits until it is.
    #[track_caller]
    pub fn connect(&mut self, fields: &Value) -> Value {
        self.order("connect", fields);
        self.event("connected", &json!({}))
    }

    /// Subscribes, and waits until it is.
    #[track_caller]
    pub fn subscribe(&mut self, channel: &str) -> Value {
        self.order("subscribe", &json!({ "channel": channel }));
        self.event("subscribed", &json!({ "channel": channel }))
    }

    /// Unsubscribes, and waits until it is.
    #[track_caller]
    pub fn unsubscribe(&mut self, channel: &str) {
        self.order("unsubscribe", &json!({ "channel": channel }));
        self.event("unsubscribed", &json!({ "channel": channel, "code": 0 }));
    }

    /// Subscribes, and waits until that is refused with this code.
    #[track_caller]
    pub fn cannot_subscribe(&mut self, channel: &str, code: u32) {
        self.order("subscribe", &json!({ "channel": channel }));
        self.event("unsubscribed", &json!({ "channel": channel, "code": code }));
    }

    /// Waits until it is subscribed again, with all that it missed.
    #[track_caller]
    pub fn recovers(&self, channel: &str) -> Value {
        self.event(
            "subscribed",
            &json!({ "channel": channel, "recovered": true }),
        )
    }

    /// Takes the first event that was not taken yet, has that name and these fields.
    #[track_caller]
    pub fn event(&self, name: &str, fields: &Value) -> Value {
        self.take(&format!("{name} {fields}"), |event| {
            event["event"] == name && has(event, fields)
        })
    }

    /// Takes the first events of one channel that were not taken yet, and returns their data.
    #[track_caller]
    pub fn publications(&self, channel: &str, count: usize) -> Vec<Value> {
        let one = || self.event("publication", &json!({ "channel": channel }));
        (0..count).map(|_| one()["data"].clone()).collect()
    }

    /// Takes the first event that was not taken yet.
    #[track_caller]
    pub fn next_event(&self) -> Value {
        self.take("the next event", |_| true)
    }

    /// Number of events of that name that no call has taken yet.
    #[track_caller]
    pub fn left(&self, name: &str) -> usize {
        let events = self.process.out("its events", |lines| Some(parse(lines)));
        let taken = self.taken();
        let free = |(at, event): (usize, Value)| {
            event["event"] == name && !taken.get(at).copied().unwrap_or_default()
        };
        events
            .into_iter()
            .enumerate()
            .map(free)
            .filter(|free| *free)
            .count()
    }

    /// All events of that name so far, taken or not.
    #[track_caller]
    pub fn told(&self, name: &str) -> Vec<Value> {
        let events = self.process.out("its events", |lines| Some(parse(lines)));
        let named = events.into_iter().filter(|event| event["event"] == name);
        named.collect()
    }

    /// Forgets the events of that name so far.
    #[track_caller]
    pub fn forget(&self, name: &str) {
        for _ in 0..self.left(name) {
            self.event(name, &json!({}));
        }
    }

    #[track_caller]
    fn take(&self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        self.process.out(what, |lines| {
            let mut taken = self.taken();
            let seen = lines.len().max(taken.len());
            taken.resize(seen, false);
            let free = lines
                .iter()
                .zip(taken.iter_mut())
                .filter(|(_, taken)| !**taken);
            for (line, taken) in free {
                let event: Value = serde_json::from_str(line).unwrap_or_default();
                if fits(&event) {
                    *taken = true;
                    return Some(event);
                }
            }
            None
        })
    }

    fn taken(&self) -> std::sync::MutexGuard<'_, Vec<bool>> {
        self.taken
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }
}

fn parse(lines: &[String]) -> Vec<Value> {
    lines
        .iter()
        .map(|line| serde_json::from_str(line).unwrap_or_default())
        .collect()
}

fn has(event: &Value, fields: &Value) -> bool {
    let mut fields = fields.as_object().into_iter().flatten();
    fields.all(|(name, value)| event[name] == *value)
}
