//! Plays the dialogues in the text files of this folder.
//!
//! Steps of client `N`, who is at the project `bench`: `N opens QUERY | HEADER | ..` connects, for
//! `files` unless a query is given; `from ADDRESS` is where the next ones connect from; `N comes
//! USER TEAM ..` connects to `files` with a session, and is let in as this user; `N brings TOKEN`
//! connects with a token of ann's that ends in a minute, as a member of team T; `N < JSON` sends a
//! message, and `N pings BYTES` a long one; `N > JSON` receives one that has these fields (see
//! [`Variables::fit`]), or `close CODE`. `N hears ID ..` receives these events and nothing else; `N
//! skips` drops what it got; `N waits MS`; `N is due in MS`; `N leaves`; `N is ended` by the
//! server; `N is bare`: its session owns nothing beside its slot; `N can move` to another process,
//! or `N stays`; `moves` does it with everybody, `moves to OPTION` to a server with an option;
//! `empty` is a hub without connections.
//!
//! The server, at the beginning of a story: `with no look-ups`, `with COUNT messages in MS`, `with
//! project ID HOST`; `trusts BLOCK` of proxies; `admits nobody`. `admitted ADDRESS ..` are those
//! counted since the last time; `refused REASON:COUNT ..` all refusals so far, `counted SERIES
//! [LABEL] COUNT` one series, and `connections COUNT`. `passes MS` for all; `tick`.
//!
//! Events: `event ID ROLE [JSON]` with more fields, `change ID USER ROLE` of a user without
//! details, `membership ID USER TEAM ROLE,..` or `gone`, `account USER WHAT JSON`. `begins EPOCH`:
//! events may have been lost. `holds`: events wait for `turn FRAMES more` or `done`, which makes so
//! many frames, or for `turns`, which makes all.
//!
//! Look-ups: `asked N PRIORITY PART [with CREDENTIAL at PROJECT]` is the next, and `answer K
//! ANSWER` answers the K-th of the story, from 1. Calls about presences: `put ID CREDENTIAL
//! [JSON]`, `delete ID CREDENTIAL`, and `result K ANSWER`. `full` and `roomy` switch the room for
//! both.

use throng_appwrite::{IdentityChange, Platforms, Rates};
use throng_dialogue::{Outcome, Variables, check_list, number, play};
use throng_proxy::Block;
use throng_session::Forwarded;
use throng_solo::counter;

use super::*;
use crate::{Credential, LookupPart, PresenceCall, PresenceReply};

#[test]
fn users_have_their_dialogues() {
    play("users.txt", include_str!("users.txt"), Stage::new);
}

#[test]
fn clients_have_their_dialogues() {
    play("clients.txt", include_str!("clients.txt"), Stage::new);
}

#[test]
fn openings_have_their_dialogues() {
    play("openings.txt", include_str!("openings.txt"), Stage::new);
}

#[test]
fn turns_have_their_dialogues() {
    play("turns.txt", include_str!("turns.txt"), Stage::new);
}

/// In the bytes that each generation of the official web SDK sends.
#[test]
fn sdks_have_their_dialogues() {
    play("sdks.txt", include_str!("sdks.txt"), Stage::new);
}

#[test]
fn presences_have_their_dialogues() {
    play("presences.txt", include_str!("presences.txt"), Stage::new);
}

struct Stage {
    variables: Variables,
    server: Server,
    /// Position of the last event.
    offset: u64,
    lookups: Vec<Lookup>,
    calls: Vec<PresenceCall>,
    /// Frames that no step has told yet.
    frames: BTreeMap<u32, VecDeque<Value>>,
    /// Where the next clients connect from.
    from: IpAddr,
    /// Events wait for a turn that the story names.
    holds: bool,
}

/// A server with this option, or as it is without any.
fn server_with(option: &str) -> Server {
    let words: Vec<&str> = option.split(' ').collect();
    Server::with(|own| match *words {
        [""] => {}
        ["no", "look-ups"] => own.identifies = false,
        [count, "messages", "in", ms] => {
            own.rates = Rates {
                messages_max: number(count),
                window_ms: number(ms),
                ..Rates::default()
            };
        }
        ["project", id, host] => {
            let project = AppwriteProject {
                id: id.into(),
                platforms: Platforms::new(&[host]),
            };
            *own = AppwriteShared::new(vec![project], own.outside.clone());
        }
        _ => panic!("no option"),
    })
}

impl Stage {
    fn new() -> Self {
        Self {
            variables: Variables::default(),
            server: Server::new(),
            offset: 0,
            lookups: Vec::new(),
            calls: Vec::new(),
            frames: BTreeMap::new(),
            from: PEER,
            holds: false,
        }
    }

    fn frames(&mut self, index: u32) -> &mut VecDeque<Value> {
        let frames = self.frames.entry(index).or_default();
        frames.extend(self.server.frames(index));
        frames
    }

    fn event(&mut self, event: &Value) {
        self.offset += 1;
        self.server.event(self.offset, event);
        if !self.holds {
            self.server.turn();
        }
    }

    fn client(&mut self, index: u32, step: &str) {
        let server = &mut self.server;
        let (verb, rest) = step.split_once(' ').unwrap_or((step, ""));
        match verb {
            "opens" => {
                let mut parts = rest.split(" | ");
                let query = parts.next().filter(|query| !query.is_empty());
                let headers: String = parts.map(|header| format!("{header}\r\n")).collect();
                server.open_from(self.from, index, query.unwrap_or(FILES), &headers);
            }
            "comes" => {
                let mut words = rest.split(' ');
                let user = words.next().expect("a user");
                server.open_as(index, user, &Vec::from_iter(words), FILES);
                assert_eq!(server.frames(index).len(), 1);
            }
            "brings" => {
                server.open(index, &format!("{FILES}&jwt={TOKEN}"), "");
                let lookup = server.lookup();
                server.answer(&lookup, user_of("ann", &["T"]));
                assert_eq!(server.frames(index).len(), 1);
            }
            "<" => server.say(index, rest),
            "pings" => {
                let (ping, bytes) = (r#"{"type":"ping"}"#, number(rest));
                server.say(index, &format!("{ping:bytes$}"));
            }
            ">" => {
                let expected = match rest.strip_prefix("close ") {
                    Some(code) => json!({ "close": number::<u16>(code) }),
                    None => parsed(rest),
                };
                let told = self.frames(index).pop_front().unwrap_or_default();
                self.variables.fit(&told, &expected).expect("a message");
            }
            "hears" => {
                let frames: Vec<Value> = self.frames(index).drain(..).collect();
                let ids = frames
                    .iter()
                    .map(|it| it["data"]["payload"]["$id"].as_str());
                let expected = rest.split(' ').filter(|id| *id != "nothing").map(Some);
                assert!(ids.eq(expected), "{frames:?}");
            }
            "skips" => self.frames(index).clear(),
            "waits" => server.wait(index, number(rest)),
            "leaves" => server.close(index),
            "is" if rest.starts_with("due in ") => {
                let due = server.deadline(index).expect("a deadline");
                let ms = due.since(server.floor.now.mono);
                assert_eq!(format!("due in {ms}"), rest);
            }
            "is" if rest == "bare" => assert!(server.is_bare(index)),
            "is" => assert!(rest == "ended" && server.floor.ended.contains(&index)),
            "can" => assert!(server.saved(index).is_some()),
            "stays" => assert_eq!(server.saved(index), None),
            _ => panic!("no step of a client"),
        }
    }

    fn asked(&mut self, step: &str) {
        let lookup = self.server.lookup();
        let part = match &lookup.part {
            LookupPart::Everything => "everything".to_owned(),
            LookupPart::Account => "account".to_owned(),
            LookupPart::Membership { user_id, team, id } => format!("{id} of {user_id} in {team}"),
        };
        let (index, priority) = (lookup.conn.index(), lookup.haste);
        let mut told = format!("{index} {priority:?} {part}");
        if step.contains(" with ") {
            let shown = match &lookup.credential {
                Credential::Session(session) => format!("session {session}"),
                Credential::Jwt(jwt) => format!("token {jwt}"),
            };
            told = format!("{told} with {shown} at {}", lookup.project);
        }
        assert_eq!(told, step);
        self.lookups.push(lookup);
    }

    fn answer(&mut self, step: &str) {
        let (which, answer) = step.split_once(' ').expect("a number");
        let words: Vec<&str> = answer.split(' ').collect();
        let changed = |user: &str, what| {
            let user_id = user.to_owned();
            LookupReply::Changed(IdentityChange { user_id, what })
        };
        let found = match *words {
            ["user", user, ref teams @ ..] => user_of(user, teams),
            ["nobody"] => LookupReply::Nobody,
            ["failed"] => LookupReply::Failed,
            ["expired"] => LookupReply::Expired("Invalid token: Expired".into()),
            ["blocked", user] => {
                let account = json!({"$id": user, "status": false, "emailVerification": true});
                let account = account.to_string();
                let identity = AppwriteIdentity::from_account(account.as_bytes(), &[]);
                LookupReply::User(Arc::new(identity.expect("an account")))
            }
            ["account", user, label, ref blocked @ ..] => {
                let what = Change::Account {
                    verified: true,
                    blocked: blocked == ["blocked"],
                    labels: vec![label.to_owned()],
                };
                changed(user, what)
            }
            ["membership", user, team, "gone"] => {
                let (team, id) = (team.to_owned(), "m".to_owned());
                changed(
                    user,
                    Change::Membership {
                        team,
                        id,
                        roles: None,
                    },
                )
            }
            _ => panic!("no answer"),
        };
        self.server
            .answer(&self.lookups[number::<usize>(which) - 1], found);
    }

    /// The next call about a presence; `credential` is that of whom it is made for.
    fn called(&mut self, is_put: bool, step: &str) {
        let mut call = None;
        self.server
            .world
            .change(|doings| call = doings.presences.pop_front());
        let call = call.expect("a call");
        assert_eq!(call.body.is_some(), is_put, "{call:?}");
        let (id, shown) = step.split_once(' ').expect("an id and a credential");
        let (shown, body) = shown.split_once(' ').unwrap_or((shown, ""));
        assert!(id == "*" || id == &*call.id, "{call:?}");
        assert_eq!(call.credential, Credential::Session(shown.into()));
        assert_eq!((&*call.project, &*call.user_id), ("bench", shown));
        if !body.is_empty() {
            let told: Value = serde_json::from_slice(call.body.as_deref().unwrap()).unwrap();
            assert_eq!(told, parsed(body));
        }
        self.calls.push(call);
    }

    fn result(&mut self, step: &str) {
        let words: Vec<&str> = step.split(' ').collect();
        let call = &self.calls[number::<usize>(words[0]) - 1];
        let answer = match *words {
            [_, "written", id] => PresenceReply::Written {
                document: json!({ "$id": id }).to_string().into(),
                id: id.into(),
            },
            [_, "refused"] => PresenceReply::Refused {
                code: 401,
                message: "no".into(),
            },
            [_, "failed"] => PresenceReply::Failed,
            _ => panic!("no result"),
        };
        let (conn, token) = (call.conn, call.token);
        self.server.news(News::Presence {
            conn,
            token,
            answer,
        });
        self.server.turn();
    }
}

impl throng_dialogue::Stage for Stage {
    fn variables(&mut self) -> &mut Variables {
        &mut self.variables
    }

    fn step(&mut self, step: &str, _: &str) -> Outcome {
        let (verb, rest) = step.split_once(' ').unwrap_or((step, ""));
        if let Ok(index) = verb.parse() {
            self.client(index, rest);
            return Ok(());
        }
        let words: Vec<&str> = rest.splitn(4, ' ').collect();
        match (verb, &*words) {
            ("event", [id, role]) => self.event(&event(id, role)),
            ("event", [id, role, more @ ..]) => {
                let mut event = event(id, role);
                merge(&mut event, parsed(&more.join(" ")));
                self.event(&event);
            }
            ("change", [id, user, role]) => self.event(&change(id, user, role)),
            ("membership", [id, user, team, "gone"]) => {
                self.event(&membership(id, user, team, None));
            }
            ("membership", [id, user, team, roles @ ..]) => {
                let roles = roles.first().map(|roles| roles.split(',').collect());
                let roles: Vec<&str> = roles.unwrap_or_default();
                self.event(&membership(id, user, team, Some(&roles)));
            }
            ("account", [user, what, payload @ ..]) => {
                self.event(&account(user, what, parsed(&payload.join(" "))));
            }
            ("begins", [epoch]) => {
                self.offset = 0;
                self.server.begin(number(epoch));
            }
            ("moves", _) => {
                let old = std::mem::replace(&mut self.server, Server::new());
                let option = rest.strip_prefix("to ").unwrap_or_default();
                self.server = old.hand_over(server_with(option));
                self.server.turn();
            }
            ("with", _) => self.server = server_with(rest),
            ("trusts", [block]) => {
                let trusted = Block::parse(block).expect("a block");
                self.server.shared().forwarded = Forwarded::new(Arc::new([trusted]), None);
            }
            ("from", [address]) => self.from = number(address),
            ("admits", ["nobody"]) => {
                let world = &self.server.world;
                world.change(|doings| doings.admits_nobody = true);
            }
            ("admitted", _) => {
                let check = |doings: &mut world::Doings| {
                    check_list(&std::mem::take(&mut doings.counted), rest, " ");
                };
                self.server.world.change(check);
            }
            ("refused", _) => check_list(&self.server.refusals(), rest, " "),
            ("counted", [series, label @ .., count]) => {
                check_list(&[self.server.counted(counter(series, label))], count, "");
            }
            ("connections", _) => {
                let Server {
                    appwrite, floor, ..
                } = &mut self.server;
                appwrite.tick(floor);
                let counters = &floor.shared.counters;
                check_list(&[counters.gauge(Gauge::AppwriteConnections)], rest, " ");
            }
            ("passes", [ms]) => self.server.pass(number(ms)),
            ("tick", _) => {
                self.server.appwrite.tick(&mut self.server.floor);
                if !self.holds {
                    self.server.turn();
                }
            }
            ("holds", _) => self.holds = true,
            ("turn", [frames, more]) => {
                let Server {
                    appwrite, floor, ..
                } = &mut self.server;
                assert_eq!(appwrite.turn(number(frames), floor), *more == "more");
            }
            ("turns", _) => self.server.turn(),
            ("empty", _) => assert_eq!(self.server.appwrite.hub.connections(), 0),
            ("asked", ["nothing"]) => self.server.nothing_asked(),
            ("asked", _) => self.asked(rest),
            ("answer", _) => self.answer(rest),
            ("put", _) => self.called(true, rest),
            ("delete", _) => self.called(false, rest),
            ("result", _) => self.result(rest),
            ("full" | "roomy", _) => {
                self.server
                    .world
                    .change(|doings| doings.is_full = verb == "full");
            }
            _ => panic!("no step"),
        }
        Ok(())
    }

    fn end(&mut self) -> Outcome {
        self.server.nothing_asked();
        let calls = |doings: &mut world::Doings| assert!(doings.presences.is_empty());
        self.server.world.change(calls);
        for index in self.server.floor.sent.keys().copied().collect::<Vec<_>>() {
            assert_eq!(*self.frames(index), [Value::Null; 0], "client {index}");
        }
        Ok(())
    }
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Sets these fields, and leaves the others.
fn merge(value: &mut Value, more: Value) {
    match more {
        Value::Object(fields) => {
            for (name, more) in fields {
                merge(&mut value[name], more);
            }
        }
        more => *value = more,
    }
}
