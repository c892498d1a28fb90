//! Steps of the stories of Appwrite, beside those that all dialogues have: its Redis, its events,
//! and what answers for its API. `docs/TESTING.md` lists them.

use serde_json::{Value, json};
use throng_testkit::{
    Authority, HANDSHAKE, Outcome, PemFiles, RedisServer, Steps, Story, Wire, free_port,
    javascript_of,
};

use crate::account::AccountApi;
use crate::container;
use crate::event::{Publisher, message};

/// Stands for Appwrite in a story.
#[derive(Default)]
struct Appwrite {
    redis: Option<RedisServer>,
    sentinel: Option<RedisServer>,
    accounts: Option<AccountApi>,
    files: Option<PemFiles>,
    /// Events about roles so far: no two are the same, as Appwrite's are not.
    rounds: u32,
}

/// Steps of a story, whose variables are set.
pub(crate) fn steps(story: &mut Story) -> Option<Box<dyn Steps>> {
    let project = "[[appwrite.project]]\nid = \"bench\"\nplatforms = [\"localhost\", \
                   \"*.example.com\"]";
    story.set("PROJECT", project.to_owned());
    let folder = javascript_of("appwrite-js", "tests/appwrite/js");
    // Node looks for packages beside the script.
    let script = folder.join("sdk.mjs");
    std::fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/js/sdk.mjs"), &script)
        .expect("a copy below target");
    story.set("SDK", format!("node {}", script.display()));
    Some(Box::new(Appwrite::default()))
}

/// Splits off the first word.
fn word(text: &str) -> (&str, &str) {
    text.split_once(' ').unwrap_or((text, ""))
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

fn check(holds: bool, why: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(why()) }
}

/// Takes the next message, after any pings: its opcode and its data.
fn next(wire: &mut Wire) -> (u8, Vec<u8>) {
    loop {
        let (opcode, data) = wire.frame();
        if opcode != 9 {
            return (opcode, data);
        }
    }
}

/// Takes the next message, which is text.
pub(crate) fn tells(wire: &mut Wire) -> Value {
    let (opcode, data) = next(wire);
    assert_eq!(opcode, 1, "{}", String::from_utf8_lossy(&data));
    serde_json::from_slice(&data).expect("JSON")
}

/// Takes the next message, which is an event; gives the id of what it is about.
pub(crate) fn hears(wire: &mut Wire) -> String {
    let told = tells(wire);
    assert_eq!(told["type"], "event", "{told}");
    told["data"]["payload"]["$id"]
        .as_str()
        .expect("an id")
        .to_owned()
}

impl Appwrite {
    fn redis(&mut self) -> &mut RedisServer {
        self.redis.as_mut().expect("a step `redis`")
    }

    fn publisher(&mut self) -> Publisher {
        Publisher::new(&self.redis().url())
    }

    fn accounts(&self) -> &AccountApi {
        self.accounts.as_ref().expect("a step `accounts`")
    }

    /// Steps about Redis and its events.
    fn redis_step(&mut self, story: &mut Story, verb: &str, rest: &str) -> Option<Outcome> {
        match verb {
            "redis" => {
                let options = rest.split_whitespace();
                let options: Vec<&str> = ["--save", "", "--appendonly", "no"]
                    .into_iter()
                    .chain(options)
                    .collect();
                let redis = self.redis.insert(RedisServer::with(&options));
                story.set("REDIS", redis.url());
                story.set("REDIS_ADDRESS", redis.address().to_string());
            }
            "sentinel" => {
                let sentinel = self.sentinel.insert(RedisServer::sentinel(rest));
                story.set("SENTINEL", sentinel.address().to_string());
            }
            "redis-goes" => self.redis().go_away(),
            "redis-comes" => self.redis().come_back(),
            "listened" | "unheard" => {
                let count = self.publisher().listeners();
                return Some(check((count > 0) == (verb == "listened"), || {
                    format!("{count} listen")
                }));
            }
            "publish" => {
                let count = self.publisher().publish(&message(rest));
                return Some(check(count == 1, || format!("{count} listen")));
            }
            "publish-text" => {
                let count = self.publisher().publish(rest);
                return Some(check(count > 0, || "nobody listens".to_owned()));
            }
            "message" => {
                let (name, event) = word(rest);
                story.set(name, message(event));
            }
            "cut" => {
                let (name, text) = word(rest);
                story.set(name, text[..text.len() - 20].to_owned());
            }
            _ => return None,
        }
        Some(Ok(()))
    }

    /// Steps about what answers for Appwrite's API.
    fn api_step(&mut self, story: &mut Story, verb: &str, rest: &str) -> Option<Outcome> {
        let (first, more) = word(rest);
        let (second, third) = word(more);
        match verb {
            "accounts" => {
                let accounts = self.accounts.insert(AccountApi::with(None));
                story.set("ACCOUNTS", accounts.url());
            }
            "accounts-tls" => {
                let (ours, others) = (Authority::new("ours"), Authority::new("others"));
                let files = self.files.insert(PemFiles::new());
                story.set("OURS", files.write("ours.pem", ours.pem()));
                story.set("OTHERS", files.write("others.pem", others.pem()));
                let issued = ours.issue(&["127.0.0.1"]);
                let accounts = self.accounts.insert(AccountApi::with(Some(issued)));
                story.set("ACCOUNTS", accounts.url());
            }
            "sign-in" => self.accounts().sign_in(first, more),
            "sign-out" => self.accounts().sign_out(first),
            "member" => self.accounts().join(first, second, third),
            "leave" => self.accounts().leave(first, second),
            "label" => self.accounts().label(first, more),
            "teams-off" => self.accounts().teams_off(),
            "api-says" => {
                let status = first.parse().expect("a status");
                self.accounts().fail(Some((status, parse(more))));
            }
            "api-works" => self.accounts().fail(None),
            "api-asked" => {
                let asked = self.accounts().take_asked();
                return Some(check(json!(asked) == parse(rest), || format!("{asked:?}")));
            }
            "api-forget" => _ = self.accounts().take_asked(),
            "api-has" => {
                let asked = self.accounts().take_asked();
                return Some(check(asked.iter().any(|it| it == rest), || {
                    format!("{asked:?}")
                }));
            }
            "api-asked-less" => {
                let asked = self.accounts().take_asked();
                let most = first.parse().expect("a count");
                let fits = (1..most).contains(&asked.len()) && asked.iter().all(|it| it == more);
                return Some(check(fits, || format!("{asked:?}")));
            }
            "presence" => {
                let kept = self.accounts().presence(first);
                return Some(match (kept, more) {
                    (None, "none") => Ok(()),
                    (Some(kept), pattern) if pattern != "none" => story.fit(&kept, &parse(pattern)),
                    (kept, _) => Err(format!("{kept:?}")),
                });
            }
            "signed-in" => {
                self.accounts().sign_in(second, second);
                let mut wire = Wire::connect(story.port("clients"));
                let cookie = format!("Cookie: x=1; a_session_bench={second}\r\n");
                wire.ask(
                    &format!("/v1/realtime?{third}"),
                    &format!("{cookie}{HANDSHAKE}"),
                );
                assert_eq!(wire.head().status, 101);
                let told = tells(&mut wire);
                story.keep_wire(first, wire);
                return Some(check(told["data"]["user"]["$id"] == second, || {
                    told.to_string()
                }));
            }
            _ => return None,
        }
        Some(Ok(()))
    }

    /// Whether a socket gets an event for a role, of one for that role and one for all.
    fn has_role(&mut self, wire: &mut Wire, role: &str) -> bool {
        self.rounds += 1;
        let [ours, any] = ["ours", "any"].map(|name| format!("{name}{}", self.rounds));
        let mut publisher = self.publisher();
        for event in [
            format!("document {ours} {role}"),
            format!("document {any} any"),
        ] {
            assert!(publisher.publish(&message(&event)) > 0, "somebody listens");
        }
        let first = hears(wire);
        if first == ours {
            assert_eq!(hears(wire), any);
            return true;
        }
        assert_eq!(first, any);
        false
    }

    /// Takes a step of a socket, by its name.
    fn socket_step(&mut self, story: &mut Story, name: &str, step: &str) -> Option<Outcome> {
        let (verb, rest) = word(step);
        let (first, more) = word(rest);
        Some(match verb {
            "tells" => {
                let told = tells(story.wire(name));
                story.fit(&told, &parse(rest))
            }
            "hears" => {
                for id in rest.split(' ') {
                    let heard = hears(story.wire(name));
                    if heard != id {
                        return Some(Err(format!("it hears {heard}")));
                    }
                }
                Ok(())
            }
            "closed-with" => closes(next(story.wire(name)), rest),
            "drains" => {
                let wire = story.wire(name);
                let mut count = 0;
                let last = loop {
                    let (opcode, data) = next(wire);
                    if opcode != 1 {
                        break (opcode, data);
                    }
                    count += 1;
                };
                story.set(first, count.to_string());
                closes(last, more)
            }
            "errs-within" => {
                let most = first.parse().expect("a count");
                let wire = story.wire(name);
                let errs = (0..most).any(|_| {
                    wire.say(more);
                    tells(wire)["type"] == "error"
                });
                check(errs, || "no error".to_owned())
            }
            "has-role" | "lacks-role" => {
                let has = self.has_role(story.wire(name), rest);
                check(has == (verb == "has-role"), || format!("has it: {has}"))
            }
            _ => return None,
        })
    }
}

/// Checks that a frame closes with a code.
fn closes((opcode, data): (u8, Vec<u8>), code: &str) -> Outcome {
    let found = data
        .first_chunk::<2>()
        .map(|code| u16::from_be_bytes(*code).to_string());
    check(opcode == 8 && found.as_deref() == Some(code), || {
        format!("{opcode}: {}", String::from_utf8_lossy(&data))
    })
}

impl Steps for Appwrite {
    fn step(&mut self, story: &mut Story, verb: &str, rest: &str, _: &str) -> Option<Outcome> {
        match verb {
            "container" => {
                story.set(rest, container::file());
                return Some(Ok(()));
            }
            "free-port" => {
                story.set(rest, free_port().to_string());
                return Some(Ok(()));
            }
            _ => {}
        }
        self.redis_step(story, verb, rest)
            .or_else(|| self.api_step(story, verb, rest))
            .or_else(|| self.socket_step(story, verb, rest))
    }
}
