//! A played Appwrite: its Redis, which tells nodes events and keeps none, and its HTTP API, which
//! knows users and keeps presences.
//!
//! A change of a user takes effect and is published at one moment. An answer of the API says what
//! was so when the request came, however late it is, and may be ahead of the events: a user who has
//! joined again may hear what its team was told while it was away, if that comes after the answer.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::ops::Range;

use serde_json::json;
use throng_http1::{BodyDecoder, HttpLimits, parse_request};

use super::redis::resp::{Reply, take_command};
use crate::net::Net;

/// The users, by what they show: `u0` and so on.
pub(super) const USERS: usize = 3;
/// Channels for everybody, and that of the team.
pub(super) const CHANNELS: [&str; 3] = ["files", "documents", "secret"];
pub(super) const SECRET: usize = 2;
/// Events of one run.
const EVENTS_MAX: usize = 400;

/// The section of the configuration that leads here.
pub(super) const CONFIG: &str = include_str!("appwrite.toml");

/// An event that was published; its payload has its number.
pub(super) enum Event {
    /// In this channel, for these users; all may hear it if it is no secret.
    Told(usize, [bool; USERS]),
    /// A user has joined or left.
    Change,
}

#[derive(Clone, Copy, Default)]
struct User {
    is_member: bool,
    /// Has been a member since a change of it may have been lost.
    was_member: bool,
    /// Number of events when it left last.
    left_at: usize,
    joined_at: usize,
    changes: usize,
}

/// A connection of a node.
#[derive(Default)]
struct Link {
    conn: usize,
    is_redis: bool,
    input: Vec<u8>,
    out: Vec<u8>,
    /// Redis tells it events.
    hears: bool,
    /// Nothing comes any more, and neither side is told.
    is_frozen: bool,
    /// An answer of the API that is to come, when it does, and the bytes behind which the
    /// connection ends.
    answers: VecDeque<(u64, Vec<u8>, Option<usize>)>,
}

pub(super) struct Appwrite {
    net: Net,
    links: Vec<Link>,
    /// Bound: [`EVENTS_MAX`], and some at the end.
    pub(super) events: Vec<Event>,
    users: [User; USERS],
    /// Ids of presences by users.
    pub(super) presences: BTreeMap<usize, String>,
    is_down: bool,
    is_paused: bool,
    /// Requests in a hundred that the API does not answer as it should.
    fails: usize,
    /// Times in a hundred that what is owed is written.
    haste: usize,
    /// Nothing of it ever fails.
    pub(super) is_good: bool,
    is_calm: bool,
}

impl Appwrite {
    pub(super) fn new(is_good: bool, net: &Net) -> Self {
        Self {
            net: net.clone(),
            links: Vec::new(),
            events: Vec::new(),
            users: Default::default(),
            presences: BTreeMap::new(),
            is_down: false,
            is_paused: false,
            fails: 0,
            haste: net.pick(&[100, 60, 20]),
            is_good,
            is_calm: false,
        }
    }

    /// Answers an attempt to connect to it; false if that goes elsewhere.
    pub(super) fn accept(&mut self, conn: usize, to: SocketAddr) -> bool {
        let is_redis = match to.to_string().as_str() {
            "10.0.1.1:6379" => true,
            "10.0.1.2:80" => false,
            _ => return false,
        };
        let ails = !self.is_good && !self.is_calm;
        let is_refused = ails && self.net.percent(5) || is_redis && self.is_down;
        self.net.answer_dial(conn, is_refused);
        if !is_refused {
            self.links.push(Link {
                conn,
                is_redis,
                ..Link::default()
            });
        }
        true
    }

    // ---- events ----

    /// Publishes an event of a channel for all who may hear it now.
    pub(super) fn tell(&mut self, channel: usize) {
        let may_hear = self.users.map(|user| channel != SECRET || user.is_member);
        let (name, n) = (CHANNELS[channel], self.events.len());
        let role = if channel == SECRET { "team:T" } else { "any" };
        self.events.push(Event::Told(channel, may_hear));
        self.publish(&json!({"project": "sim", "roles": [role], "data": {
            "events": [format!("{name}.create")], "channels": [name], "timestamp": "now",
            "payload": {"n": n, "pad": "x".repeat(self.net.pick(&[0, 30, 2_000]))}}}));
    }

    fn change(&mut self, at: usize) {
        let n = self.events.len();
        let user = &mut self.users[at];
        user.is_member = !user.is_member;
        user.changes += 1;
        user.was_member |= user.is_member;
        match user.is_member {
            true => user.joined_at = n,
            false => user.left_at = n,
        }
        let is_member = user.is_member;
        let action = if is_member { "update" } else { "delete" };
        // Some events do not name what has changed.
        let what = match self.net.percent(70) {
            true => format!("teams.T.memberships.m-u{at}.{action}"),
            false => "teams.T.create".to_owned(),
        };
        self.events.push(Event::Change);
        self.publish(
            &json!({"project": "sim", "roles": ["team:T"], "permissionsChanged": true,
            "userId": format!("u{at}"), "data": {"events": [what], "channels": ["memberships"],
            "payload": {"$id": format!("m-u{at}"), "teamId": "T", "confirm": is_member,
                        "roles": [], "n": n}}}),
        );
    }

    fn publish(&mut self, event: &serde_json::Value) {
        note!(self.net, "Appwrite tells {event}");
        self.say(event.to_string().as_bytes());
    }

    fn say(&mut self, message: &[u8]) {
        let push = [b"message".as_slice(), b"realtime", message];
        let push = push.map(|part| Reply::Bulk(part.to_vec()));
        let push = Reply::Array(push.into());
        for link in self.links.iter_mut().filter(|link| link.hears) {
            push.write(&mut link.out);
        }
    }

    /// Something happens at Appwrite; to no user if it is quiet.
    pub(super) fn happens(&mut self, is_quiet: bool) {
        if self.events.len() >= EVENTS_MAX || self.is_down {
            return;
        }
        match self.net.below(20) {
            0 => self.say(b"{\"project\":"),
            1..5 if !is_quiet => self.change(self.net.below(USERS)),
            _ => self.tell(self.net.below(CHANNELS.len())),
        }
    }

    fn is_of(&self, link: &Link, kernels: &Range<usize>) -> bool {
        let watched = self.net.0.borrow().conns[link.conn].watched;
        watched.is_some_and(|(kernel, ..)| kernels.contains(&kernel))
    }

    /// Whether a user may hear an event, and whether it must.
    pub(super) fn concerns(&self, n: usize, user: Option<usize>) -> (bool, bool) {
        let Event::Told(channel, may_hear) = &self.events[n] else {
            return (false, false);
        };
        if *channel != SECRET {
            return (true, true);
        }
        user.map_or((false, false), |at| {
            let user = self.users[at];
            let was = user.joined_at > n || !self.is_good && user.was_member;
            let is_still = may_hear[at] && user.left_at < n;
            (may_hear[at] || was, is_still)
        })
    }

    /// Number of changes of a user so far.
    pub(super) fn changes(&self, user: Option<usize>) -> usize {
        user.map_or(0, |at| self.users[at].changes)
    }

    /// Every node knows the users.
    pub(super) fn all_known(&mut self) {
        for user in &mut self.users {
            user.was_member = user.is_member;
        }
    }

    /// Number of connections on which these kernels hear events.
    pub(super) fn heard_by(&self, kernels: &Range<usize>) -> usize {
        let theirs = |link: &&Link| link.hears && self.is_of(link, kernels);
        self.links.iter().filter(theirs).count()
    }

    // ---- connections ----

    /// Reads, carries out and answers, or not yet unless it is hasty; whether there was anything to
    /// do.
    pub(super) fn act(&mut self, bytes_max: usize, is_hasty: bool) -> bool {
        let mut busy = false;
        for at in (0..self.links.len()).rev() {
            let link = &mut self.links[at];
            if link.is_redis && self.is_paused {
                continue;
            }
            let Some(bytes) = self.net.client_recv(link.conn, bytes_max) else {
                self.links.remove(at);
                continue;
            };
            busy |= !bytes.is_empty();
            link.input.extend(bytes);
            if link.is_frozen {
                link.out.clear();
            } else if link.is_redis {
                self.obey(at);
            } else {
                while let Some(answer) = self.request(at) {
                    self.links[at].answers.push_back(answer);
                }
            }
            let writes = is_hasty || self.net.percent(self.haste);
            busy |= writes && self.write(at);
        }
        busy
    }

    /// Time until all answers have gone that go at all.
    pub(super) fn owes_for_us(&self) -> Option<u64> {
        let now_us = self.net.now_us();
        let answers = self.links.iter().flat_map(|link| &link.answers);
        let ends = answers.map(|answer| answer.0).filter(|at| *at < u64::MAX);
        ends.max().map(|at| at.saturating_sub(now_us))
    }

    fn write(&mut self, at: usize) -> bool {
        let now_us = self.net.now_us();
        let link = &mut self.links[at];
        if let Some((_, answer, cut)) = { link.answers.front() }.filter(|it| it.0 <= now_us) {
            match *cut {
                Some(bytes) => {
                    link.out.extend(&answer[..bytes.min(answer.len())]);
                    let bytes = link.out.len();
                    self.cut(at, bytes);
                    return true;
                }
                None => link.out.extend(answer),
            }
            link.answers.pop_front();
        }
        let out = std::mem::take(&mut link.out);
        self.net.client_send(link.conn, &out);
        !out.is_empty()
    }

    /// Ends a connection behind so many bytes of what it is owed.
    fn cut(&mut self, at: usize, bytes: usize) {
        let link = self.links.remove(at);
        let bytes = if link.is_frozen {
            0
        } else {
            bytes.min(link.out.len())
        };
        note!(
            self.net,
            "Appwrite's connection {} is cut behind {bytes} bytes",
            link.conn
        );
        self.net.client_send(link.conn, &link.out[..bytes]);
        self.net.client_leaves(link.conn, self.net.percent(50));
    }

    fn obey(&mut self, at: usize) {
        let link = &mut self.links[at];
        while let Some(command) = take_command(&mut link.input) {
            let reply = match &*command[0] {
                b"SUBSCRIBE" => {
                    link.hears = true;
                    let name = Reply::Bulk(command[1].clone());
                    Reply::Array(vec![Reply::text("subscribe"), name, Reply::Int(1)])
                }
                b"PING" if link.hears => {
                    let text = command.get(1).cloned().unwrap_or_default();
                    Reply::Array(vec![Reply::text("pong"), Reply::Bulk(text)])
                }
                _ => panic!("Appwrite's Redis is told {command:?}"),
            };
            reply.write(&mut link.out);
        }
    }

    /// Carries out a request of a node, and gives the answer.
    fn request(&mut self, at: usize) -> Option<(u64, Vec<u8>, Option<usize>)> {
        let input = &mut self.links[at].input;
        let limits = HttpLimits::default();
        let parsed = parse_request(input, &limits).expect("requests are good");
        let (request, head_bytes) = parsed?;
        let mut body = BodyDecoder::new(request.body, &limits);
        let cookie = request.header("cookie").expect("a session");
        let user = cookie.strip_prefix("a_session_sim=u").expect("ours");
        let user: usize = user.parse().expect("a user's number");
        let (method, path) = (request.method.to_owned(), request.path().to_owned());
        let step = body.feed(&input[head_bytes..]).expect("bodies are good");
        if !step.done {
            return None;
        }
        let bytes = head_bytes + step.consumed;
        input.drain(..bytes);
        let (status, text) = self.carry_out(&method, &path, user);
        note!(self.net, "u{user} asks {method} {path}: {status} {text}");
        let now_us = self.net.now_us();
        let late_us = self.net.pick(&[0, 0, 1_000, 30_000, 900_000]);
        let mut answer = (now_us + late_us, response(status, &text), None);
        if !self.is_calm && self.net.percent(self.fails) {
            let problem = |code: u16, kind| {
                let text = json!({"message": "no", "code": code, "type": kind});
                response(code, &text.to_string())
            };
            match self.net.below(8) {
                0 => answer.1 = problem(500, "general_unknown"),
                1 => answer.1 = problem(429, "general_rate_limit_exceeded"),
                2 => answer.1 = response(401, "<html>who are you?</html>"),
                3 => answer.1 = response(502, "<html>bad gateway</html>"),
                4 => answer.1 = response(200, "{\"$id\":"),
                5 => answer.0 = u64::MAX,
                _ => answer.2 = Some(self.net.below(answer.1.len() + 1)),
            }
        }
        Some(answer)
    }

    fn carry_out(&mut self, method: &str, path: &str, user: usize) -> (u16, String) {
        let is_member = self.users[user].is_member;
        let gone = |kind| json!({"message": "no", "code": 404, "type": kind});
        let (status, text) = match (method, path) {
            ("GET", "/v1/account") => (
                200,
                json!({"$id": format!("u{user}"), "emailVerification": true}),
            ),
            ("GET", "/v1/teams") => {
                let teams = is_member.then(|| json!({"$id": "T"}));
                (200, json!({ "teams": Vec::from_iter(teams) }))
            }
            ("GET", "/v1/teams/T/memberships") if is_member => {
                let own = json!({"$id": format!("m-u{user}"), "teamId": "T", "confirm": true});
                (200, json!({ "memberships": [own] }))
            }
            ("GET", "/v1/teams/T/memberships") => (404, gone("team_not_found")),
            _ => {
                let id = path.strip_prefix("/v1/presences/").expect("a known path");
                if method == "PUT" {
                    // A user has one, whatever its id.
                    let id = self.presences.entry(user).or_insert_with(|| id.to_owned());
                    (200, json!({ "$id": id }))
                } else if self.presences.get(&user).is_some_and(|own| own == id) {
                    self.presences.remove(&user);
                    return (204, String::new());
                } else {
                    (404, gone("presence_not_found"))
                }
            }
        };
        (status, text.to_string())
    }

    // ---- faults ----

    /// Begins or ends a fault.
    pub(super) fn trouble(&mut self) {
        match self.net.below(10) {
            _ if self.is_down && self.net.percent(70) => self.is_down = false,
            0..3 if !self.links.is_empty() => {
                let bytes = self.net.pick(&[0, 1, 40, 300, 1 << 20]);
                self.cut(self.net.below(self.links.len()), bytes);
            }
            3 if !self.links.is_empty() => {
                let at = self.net.below(self.links.len());
                self.links[at].is_frozen = true;
            }
            4 | 5 => self.is_paused = !self.is_paused,
            6 => {
                note!(self.net, "Appwrite's Redis stops");
                self.is_down = true;
                self.is_paused = false;
                for at in (0..self.links.len()).rev() {
                    if self.links[at].is_redis {
                        self.cut(at, self.net.pick(&[0, 1, 300, 1 << 20]));
                    }
                }
            }
            _ => self.fails = self.net.pick(&[0, 0, 20, 60, 100]),
        }
    }

    /// Has no more faults.
    pub(super) fn calm(&mut self) {
        (self.is_calm, self.is_down, self.is_paused) = (true, false, false);
    }
}

fn response(status: u16, body: &str) -> Vec<u8> {
    let length = match status {
        204 => String::new(),
        _ => format!("Content-Length: {}\r\n", body.len()),
    };
    format!("HTTP/1.1 {status} So\r\n{length}\r\n{body}").into_bytes()
}
