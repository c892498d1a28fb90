//! What stands in for Appwrite's HTTP API: it answers `GET /v1/account`, `/v1/teams` and
//! `/v1/teams/T/memberships`, and keeps presences (`PUT` and `DELETE /v1/presences/P`), for whoever
//! shows a session or a token that it knows.
//!
//! The project is one made since 1.9.5: memberships do not name their user. Lists come in pages.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use serde_json::{Value, json};
use throng_testkit::Issued;

/// Sessions and tokens are texts with the user's name in them; the stand-in does not look inside.
#[derive(Default)]
struct State {
    /// Users by the session or token that signs them in.
    sessions: BTreeMap<String, String>,
    /// Teams of users, with roles there.
    memberships: BTreeMap<(String, String), Vec<String>>,
    /// Labels of each user.
    labels: BTreeMap<String, Vec<String>>,
    /// Status and body of every answer, if set.
    fault: Option<(u16, Value)>,
    /// The project's Teams service is off.
    teams_off: bool,
    /// The presence of each user that has one: Appwrite keeps no second one.
    presences: BTreeMap<String, Value>,
    /// The paths of all requests, with the method if it is not GET.
    asked: Vec<String>,
}

/// Serves until the test ends.
pub(crate) struct AccountApi {
    address: SocketAddr,
    scheme: &'static str,
    state: Arc<Mutex<State>>,
}

impl AccountApi {
    /// Starts it; by TLS, if it has a certificate for its address.
    pub(crate) fn with(issued: Option<Issued>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = state.clone();
        let scheme = issued.as_ref().map_or("http", |_| "https");
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (shared, issued) = (shared.clone(), issued.clone());
                thread::spawn(move || match issued {
                    Some(issued) => serve(issued.serve(stream), &shared),
                    None => serve(stream, &shared),
                });
            }
        });
        Self {
            address,
            scheme,
            state,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}://{}/v1", self.scheme, self.address)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Makes this session or token sign in that user.
    pub(crate) fn sign_in(&self, shown: &str, user: &str) {
        self.state().sessions.insert(shown.into(), user.into());
    }

    pub(crate) fn sign_out(&self, shown: &str) {
        self.state().sessions.remove(shown);
    }

    pub(crate) fn join(&self, user: &str, team: &str, roles: &str) {
        let roles = roles.split_whitespace().map(str::to_owned).collect();
        let key = (user.to_owned(), team.to_owned());
        self.state().memberships.insert(key, roles);
    }

    pub(crate) fn leave(&self, user: &str, team: &str) {
        let key = (user.to_owned(), team.to_owned());
        self.state().memberships.remove(&key);
    }

    pub(crate) fn label(&self, user: &str, labels: &str) {
        let labels = labels.split_whitespace().map(str::to_owned).collect();
        self.state().labels.insert(user.to_owned(), labels);
    }

    /// Answers nothing but this from now on.
    pub(crate) fn fail(&self, fault: Option<(u16, Value)>) {
        self.state().fault = fault;
    }

    /// Switches the project's Teams service off.
    pub(crate) fn teams_off(&self) {
        self.state().teams_off = true;
    }

    /// The presence that a user has.
    pub(crate) fn presence(&self, user: &str) -> Option<Value> {
        self.state().presences.get(user).cloned()
    }

    /// Takes the requests since the last call.
    pub(crate) fn take_asked(&self) -> Vec<String> {
        std::mem::take(&mut self.state().asked)
    }
}

fn serve(stream: impl Read + Write, state: &Mutex<State>) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if !matches!(reader.read_line(&mut line), Ok(1..)) {
                return;
            }
            if line == "\r\n" {
                break;
            }
            head.push(line.trim_end().to_owned());
        }
        let length = header(&head, "content-length").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let (status, body) = answer(&head, &body, &mut state.lock().unwrap());
        let body = match status {
            204 => String::new(),
            _ => body.to_string(),
        };
        let answer = format!(
            "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: \
             {}\r\n\r\n{body}",
            body.len()
        );
        let written = reader.get_mut().write_all(answer.as_bytes());
        if written.and_then(|()| reader.get_mut().flush()).is_err() {
            return;
        }
    }
}

fn header<'h>(head: &'h [String], name: &str) -> Option<&'h str> {
    head.iter().find_map(|line| {
        let (known, value) = line.split_once(':')?;
        known.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

fn answer(head: &[String], body: &[u8], state: &mut State) -> (u16, Value) {
    let header = |name: &str| header(head, name);
    let mut words = head[0].split(' ');
    let (method, target) = (words.next().unwrap(), words.next().unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    state.asked.push(match method {
        "GET" => path.to_owned(),
        _ => format!("{method} {path}"),
    });
    if let Some(fault) = &state.fault {
        return fault.clone();
    }
    let project = header("x-appwrite-project").unwrap_or_default();
    let session = format!("a_session_{project}=");
    let cookie = header("cookie").and_then(|cookies| cookies.strip_prefix(&session));
    let shown = header("x-appwrite-jwt").or(cookie).unwrap_or_default();
    let Some(user) = state.sessions.get(shown) else {
        let message = "User (role: guests) missing scope (account)";
        return refusal(401, message, "general_unauthorized_scope");
    };
    if state.teams_off && path != "/v1/account" {
        let message = "The requested service is disabled.";
        return refusal(403, message, "general_service_disabled");
    }
    if let Some(id) = path.strip_prefix("/v1/presences/") {
        let user = user.clone();
        return presence(&mut state.presences, &user, method, id, body);
    }
    let theirs = state.memberships.iter().filter(|((of, _), _)| of == user);
    match path {
        "/v1/account" => {
            let labels = state.labels.get(user).map_or(&[][..], Vec::as_slice);
            (200, account(user, labels))
        }
        "/v1/teams" => {
            let (limit, after) = page(query);
            let all: Vec<&String> = theirs.map(|((_, team), _)| team).collect();
            let from = after.map_or(0, |after| {
                1 + all.iter().position(|team| **team == after).unwrap()
            });
            let teams = all.iter().skip(from).take(limit);
            let teams: Vec<Value> = teams.map(|team| json!({"$id": team})).collect();
            (200, json!({"total": all.len(), "teams": teams}))
        }
        _ => {
            let team = path.strip_prefix("/v1/teams/").unwrap_or_default();
            let team = team.strip_suffix("/memberships").unwrap_or_default();
            // As the real one does, it shows only what the query asks for.
            assert!(
                query.contains("userId") && query.contains(user.as_str()),
                "{target}"
            );
            let memberships: Vec<Value> = theirs
                .filter(|((_, of), _)| of == team)
                .map(|((user, team), roles)| {
                    json!({"$id": format!("{user}-{team}"), "userId": "", "teamId": team,
                           "confirm": true, "roles": roles})
                })
                .collect();
            let total = memberships.len();
            (200, json!({"total": total, "memberships": memberships}))
        }
    }
}

/// Answer that refuses a request, as Appwrite words it.
fn refusal(code: u16, message: &str, kind: &str) -> (u16, Value) {
    let body = json!({"message": message, "code": code, "type": kind});
    (code, body)
}

/// A user's own presence is written or deleted. A user that has one keeps its id, as in Appwrite.
fn presence(
    presences: &mut BTreeMap<String, Value>,
    user: &str,
    method: &str,
    id: &str,
    body: &[u8],
) -> (u16, Value) {
    let own = presences.get(user).map(|own| own["$id"].clone());
    match method {
        "PUT" => {
            let mut presence: Value = serde_json::from_slice(body).unwrap();
            let foreign = json!(["read(\"team:other\")"]);
            if presence["permissions"] == foreign {
                let message = "Permissions must be one of: (any, users)";
                return refusal(401, message, "user_unauthorized");
            }
            presence["$id"] = own.unwrap_or_else(|| json!(id));
            presence["userId"] = json!(user);
            presences.insert(user.to_owned(), presence.clone());
            (200, presence)
        }
        "DELETE" if own == Some(json!(id)) => {
            presences.remove(user);
            (204, Value::Null)
        }
        _ => refusal(404, "Presence not found", "presence_not_found"),
    }
}

/// The limit and the cursor of a list's queries, Appwrite's 25 and none if they are not there.
fn page(query: &str) -> (usize, Option<String>) {
    let queries: Vec<Value> = query
        .split('&')
        .filter_map(|pair| pair.strip_prefix("queries%5B%5D="))
        .map(|text| serde_json::from_str(&decode(text)).unwrap())
        .collect();
    let find = |method: &str| {
        let found = queries.iter().find(|query| query["method"] == method)?;
        Some(found["values"][0].clone())
    };
    let limit = find("limit").and_then(|limit| limit.as_u64()).unwrap_or(25);
    let after = find("cursorAfter").map(|after| after.as_str().unwrap().to_owned());
    (limit as usize, after)
}

fn decode(text: &str) -> String {
    let mut parts = text.split('%');
    let mut decoded = parts.next().unwrap().to_owned();
    for part in parts {
        let (code, rest) = part.split_at(2);
        decoded.push(char::from(u8::from_str_radix(code, 16).unwrap()));
        decoded.push_str(rest);
    }
    decoded
}

/// A user with labels, as Appwrite tells of it.
pub(crate) fn account(user: &str, labels: &[impl AsRef<str>]) -> Value {
    let labels: Vec<&str> = labels.iter().map(AsRef::as_ref).collect();
    json!({
        "$id": user, "$createdAt": "2026-01-01T00:00:00.000+00:00",
        "$updatedAt": "2026-01-01T00:00:00.000+00:00", "name": user,
        "registration": "2026-01-01T00:00:00.000+00:00", "status": true, "labels": labels,
        "passwordUpdate": "", "email": format!("{user}@example.com"), "phone": "",
        "emailVerification": true, "phoneVerification": false, "mfa": false, "prefs": {},
        "targets": [], "accessedAt": ""
    })
}
