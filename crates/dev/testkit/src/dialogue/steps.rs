//! Steps of dialogues that start, ask and inspect a server, and begin what speaks to it.

use std::path::Path;

use serde_json::{Value, json};
use throng_dialogue::{Outcome, arrow, cell, numbers, same, word};

use super::output::command;
use super::values::{self, fields, lines, parse};
use super::{Story, Thing};
use crate::{
    HANDSHAKE, Installed, Sdk, Server, Setup, Signal, Wire, escaped, free_port, go_program,
    java_program, python_script, script, script_trusting, sign, unix_s,
};

impl Story {
    /// `let NAME = text`, or what a function gives: `docs/TESTING.md` lists them.
    pub(super) fn define(&mut self, rest: &str) -> Outcome {
        let (name, rest) = rest.split_once(" = ").ok_or("`let NAME = VALUE`")?;
        let (function, argument) = word(rest);
        let value = match function {
            "escaped" => escaped(argument),
            "times" => {
                let (count, part) = word(argument);
                part.repeat(count.parse().expect("a count"))
            }
            // A text for each number in the place of `#`, with this between.
            "each" => {
                let (range, argument) = word(argument);
                let (between, one) = word(argument);
                let numbers = numbers(range).expect("`FIRST..LAST`");
                let all = numbers.map(|number| one.replace('#', &number.to_string()));
                all.collect::<Vec<_>>().join(&values::text(between))
            }
            "token" => {
                let (claims, secret) = argument.rsplit_once("} ").ok_or("claims and a secret")?;
                sign(&parse(&format!("{claims}}}")), secret)
            }
            "series" => Value::from(values::series(rest)).to_string(),
            "lines" => argument.replace("\\n", "\n"),
            // A pattern of publications with these numbers, `FIRST..LAST`.
            "publications" => {
                let numbers = numbers(argument).expect("`FIRST..LAST`");
                let all = numbers.map(|n| json!({ "data": n }));
                all.collect::<Value>().to_string()
            }
            "sum" => {
                let numbers = argument
                    .split(' ')
                    .map(|it| it.parse::<u64>().expect("a number"));
                numbers.sum::<u64>().to_string()
            }
            "metric" => self.server().metric(argument).to_string(),
            // Parameters of a URL; those without a value are left out.
            "query" => {
                let parameters = argument.split(' ').filter_map(|it| it.split_once('='));
                let parameters = parameters.filter(|(_, value)| !value.is_empty());
                let parameters =
                    parameters.map(|(name, value)| name.to_owned() + "=" + &escaped(value));
                parameters.collect::<Vec<_>>().join("&")
            }
            "free-port" => free_port().to_string(),
            "length" => argument.chars().count().to_string(),
            "but-last" => argument[..argument.len() - 1].to_owned(),
            "now" => {
                let seconds = argument.parse().expect("seconds");
                unix_s().saturating_add_signed(seconds).to_string()
            }
            "replace" => {
                let (this, rest) = word(argument);
                let (that, text) = word(rest);
                text.replace(this, that.trim_matches('\''))
            }
            // A token of a key by its name, which is made if it is new, and its public half.
            "key-token" => {
                let (key, claims) = word(argument);
                self.key(key).sign(&parse(claims))
            }
            "jwk" => self.key(argument).jwk().to_string(),
            "grip" => self.server().grip(argument).to_string(),
            _ => rest.to_owned(),
        };
        self.set(name, value);
        Ok(())
    }

    /// A step about the server; none if the verb is no such.
    pub(super) fn server_step(&mut self, verb: &str, rest: &str, block: &str) -> Option<Outcome> {
        Some(match verb {
            "server" => {
                self.serve(rest, block);
                Ok(())
            }
            // Another server, which has a name: steps that begin with it are its own.
            "node" => {
                let (name, options) = word(rest);
                let server = self.start(options, block);
                self.set(name, server.clients().to_string());
                let api = server.api_address();
                self.set(&format!("{name}.api"), api.to_string());
                self.set(&format!("{name}.api-port"), api.port().to_string());
                self.things.insert(name.to_owned(), Thing::Node(server));
                Ok(())
            }
            "stop" => {
                self.server.take().expect("a server").stop();
                Ok(())
            }
            "kill" => {
                self.server = None;
                Ok(())
            }
            "configure" => {
                self.server().configure(block);
                Ok(())
            }
            "reload" => {
                let (status, told) = self.server().reload(block);
                let (wanted, pattern) = word(arrow(rest).1);
                same(&status.to_string(), &wanted.to_owned())
                    .and_then(|()| self.fit(&told, &fields(pattern)))
                    .map_err(|why| format!("{why}\n{told}"))
            }
            "signal" => {
                self.server().signal(signal(rest));
                Ok(())
            }
            "upgrade" => {
                self.server().upgrade_well();
                self.has_moved = true;
                Ok(())
            }
            "ends" => {
                self.has_moved = true;
                let server = self.server.as_mut().expect("a server");
                same(&server.wait().code(), &Some(0))
            }
            "same" => {
                let (found, wanted) = word(rest);
                same(&found, &wanted)
            }
            "differ" => {
                let (found, other) = rest.split_once(" | ").expect("two values");
                match found == cell(other) {
                    true => Err("they are the same".to_owned()),
                    false => Ok(()),
                }
            }
            "same-json" => {
                let (found, wanted) = rest.split_once(" == ").expect("two values");
                same(&parse(found), &parse(wanted))
            }
            "more" => {
                let numbers = rest
                    .split(' ')
                    .map(|it| it.parse::<u64>().expect("a number"));
                match numbers.is_sorted_by(|found, least| found >= least) {
                    true => Ok(()),
                    false => Err("it is less".to_owned()),
                }
            }
            "passed" => match rest.parse().is_ok_and(|time: u64| unix_s() > time) {
                true => Ok(()),
                false => Err("it is to come".to_owned()),
            },
            "ask" => self.ask(rest),
            "raw" => self.raw(rest),
            "call" => {
                let (call, wanted) = arrow(rest);
                let (method, body) = word(call);
                let told = self.server().call(method, &fields(body));
                self.fit(&told, &fields(wanted))
            }
            "publish" => {
                let (channel, data) = word(rest);
                self.server().publish(channel, data);
                Ok(())
            }
            "publish-all" => {
                let (channel, data) = word(rest);
                for data in values::series(data) {
                    self.server().publish(channel, &data.to_string());
                }
                Ok(())
            }
            "metric" => self.metric(rest),
            "logged" => match self.server().logged(rest) {
                0 => Err(format!("the log is {:?}", self.server().log())),
                _ => Ok(()),
            },
            "unlogged" => same(&self.server().logged(rest), &0),
            "log" => {
                let pattern = fields(rest);
                let log = self.server().log();
                let mut fits = log.iter().map(|line| self.fit(line, &pattern));
                match fits.any(|fits| fits.is_ok()) {
                    true => Ok(()),
                    false => Err(format!("the log is {log:?}")),
                }
            }
            "unlog" => {
                let log = self.server().log();
                let pattern = fields(rest);
                let found = log.iter().find(|line| self.fit(line, &pattern).is_ok());
                same(&found, &None)
            }
            "log-count" => {
                let (least, rest) = word(rest);
                let (most, pattern) = word(rest);
                let pattern = fields(pattern);
                let log = self.server().log();
                let found = log
                    .iter()
                    .filter(|line| self.fit(line, &pattern).is_ok())
                    .count();
                let [least, most] = [least, most].map(|it| it.parse().expect("a number"));
                match (least..=most).contains(&found) {
                    true => Ok(()),
                    false => Err(format!("{found} lines")),
                }
            }
            "open" => {
                let (name, port) = word(rest);
                let wire = Wire::connect(self.port(port));
                self.things.insert(name.to_owned(), Thing::Wire(wire));
                Ok(())
            }
            "stream" | "socket" => {
                let (name, target) = word(rest);
                let (target, more) = target.split_once(" | ").unwrap_or((target, ""));
                let mut wire = Wire::connect(self.port("clients"));
                let handshake = if verb == "socket" { HANDSHAKE } else { "" };
                wire.ask(target, &format!("{}{handshake}", lines(more)));
                let status = wire.head().status;
                self.things.insert(name.to_owned(), Thing::Wire(wire));
                same(&status, if verb == "socket" { &101 } else { &200 })
            }
            "client" => {
                let (name, kind) = word(rest);
                let client = match word(kind) {
                    ("ws", target) => {
                        let address = self.port("clients");
                        let client = script("ws.mjs", &[&format!("ws://{address}{target}")]);
                        client.event("open", &json!({}));
                        client
                    }
                    ("js", rest) => with_script(script, rest),
                    ("trusting", rest) => {
                        let trusted = self.variables.filled("<TRUSTED>");
                        with_script(|name, rest| script_trusting(&trusted, name, rest), rest)
                    }
                    ("py", rest) => with_script(python_script, rest),
                    ("java", rest) if !rest.is_empty() => with_script(java_program, rest),
                    ("go", rest) => with_script(go_program, rest),
                    ("run", line) => Sdk::start(&mut command(line)),
                    _ => values::start(kind),
                };
                self.things.insert(name.to_owned(), Thing::Client(client));
                Ok(())
            }
            _ => return None,
        })
    }

    /// Checks that a value fits a pattern of JSON, which may set variables.
    ///
    /// # Errors
    /// The first difference.
    pub fn fit(&mut self, found: &Value, pattern: &Value) -> Outcome {
        self.variables.fit(found, pattern)
    }

    /// Starts a server: `shards=2 key=KEY clock=+10 nofile=128 binary=PATH tls tls-api upgrades`,
    /// variables of its environment, and its configuration below.
    fn start(&mut self, options: &str, config: &str) -> Server {
        let mut setup = Setup::new(config);
        for option in options.split_whitespace() {
            setup = match option.split_once('=') {
                Some(("shards", count)) => setup.shards(count.parse().expect("a number")),
                Some(("key", key)) => setup.api_key(key),
                Some(("binary", path)) => setup.binary(Path::new(path)),
                Some(("nofile", most)) => setup.nofile(most.parse().expect("a number")),
                Some(("clock", ahead_s)) => setup.clock(ahead_s.parse().expect("seconds")),
                Some((name, value)) if name.starts_with(char::is_uppercase) => {
                    setup.variable(name, value)
                }
                None if option == "tls" => setup.tls_clients(),
                None if option == "tls-api" => setup.tls_api(),
                None if option == "upgrades" => {
                    let installed = self.installed.insert(Installed::default());
                    setup.binary(&installed.path())
                }
                _ => panic!("no option of a server: {option}"),
            };
        }
        setup.start()
    }

    fn serve(&mut self, options: &str, config: &str) {
        let server = self.start(options, config);
        self.set("CLIENTS", server.clients().to_string());
        self.set("API", server.api_address().to_string());
        self.set("PID", server.process().id().to_string());
        self.set("CLIENTS_PORT", server.clients().port().to_string());
        self.set("API_PORT", server.api_address().port().to_string());
        self.server = Some(server);
        self.has_moved = false;
    }

    /// `SERIES = 1` or `SERIES >= 1`.
    fn metric(&self, rest: &str) -> Outcome {
        let (rest, value) = rest.rsplit_once(' ').expect("a value");
        let (series, compare) = rest.rsplit_once(' ').expect("a comparison");
        let (found, value) = (
            self.server().metric(series),
            value.parse().expect("a number"),
        );
        let holds = match compare {
            "=" => found == value,
            ">=" => found >= value,
            "<=" => found <= value,
            other => panic!("no comparison: {other}"),
        };
        if holds {
            Ok(())
        } else {
            Err(format!("it is {found}"))
        }
    }
}

/// A signal by its name.
pub(super) fn signal(name: &str) -> Signal {
    match name {
        "CONT" => Signal::CONT,
        "HUP" => Signal::HUP,
        "INT" => Signal::INT,
        "STOP" => Signal::STOP,
        "TERM" => Signal::TERM,
        "USR2" => Signal::USR2,
        other => panic!("unknown signal {other}"),
    }
}

/// Starts a script: its name and its arguments.
fn with_script(start: impl Fn(&str, &[&str]) -> Sdk, rest: &str) -> Sdk {
    let words: Vec<&str> = rest.split(' ').collect();
    start(words[0], &words[1..])
}
