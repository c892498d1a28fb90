//! What stands in for Appwrite's HTTP API: it answers `GET /v1/account`, `/v1/teams` and
//! `/v1/teams/T/memberships` to whoever shows a session or a token that it knows.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use serde_json::{Value, json};

/// Sessions and tokens are texts with the user's name in them; the stand-in does not look inside.
#[derive(Default)]
struct State {
    /// Who shows it, by what is shown.
    sessions: BTreeMap<String, String>,
    /// Teams of users, with roles there.
    memberships: BTreeMap<(String, String), Vec<String>>,
    /// It answers nothing but 503.
    away: bool,
    /// Requests for accounts.
    asked: usize,
}

/// Serves until the test ends.
pub(crate) struct AccountApi {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl AccountApi {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = shared.clone();
                thread::spawn(move || serve(&stream, &shared));
            }
        });
        Self { address, state }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Whoever shows this is that user.
    pub(crate) fn sign_in(&self, shown: &str, user: &str) {
        self.state().sessions.insert(shown.into(), user.into());
    }

    pub(crate) fn sign_out(&self, shown: &str) {
        self.state().sessions.remove(shown);
    }

    pub(crate) fn join(&self, user: &str, team: &str, roles: &[&str]) {
        let roles = roles.iter().map(|&role| role.to_owned()).collect();
        let key = (user.to_owned(), team.to_owned());
        self.state().memberships.insert(key, roles);
    }

    pub(crate) fn leave(&self, user: &str, team: &str) {
        let key = (user.to_owned(), team.to_owned());
        self.state().memberships.remove(&key);
    }

    pub(crate) fn go_away(&self, away: bool) {
        self.state().away = away;
    }

    pub(crate) fn asked(&self) -> usize {
        self.state().asked
    }
}

fn serve(stream: &TcpStream, state: &Mutex<State>) {
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
        let (status, body) = answer(&head, &mut state.lock().unwrap());
        let body = body.to_string();
        let answer = format!(
            "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: \
             {}\r\n\r\n{body}",
            body.len()
        );
        if (&mut &*stream).write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn answer(head: &[String], state: &mut State) -> (u16, Value) {
    let header = |name: &str| {
        head.iter().find_map(|line| {
            let (known, value) = line.split_once(':')?;
            known.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    };
    let target = head[0].split(' ').nth(1).unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    state.asked += usize::from(path == "/v1/account");
    if state.away {
        return (503, json!({"message": "Service unavailable", "code": 503}));
    }
    let project = header("x-appwrite-project").unwrap_or_default();
    let session = format!("a_session_{project}=");
    let cookie = header("cookie").and_then(|cookies| cookies.strip_prefix(&session));
    let shown = header("x-appwrite-jwt").or(cookie).unwrap_or_default();
    let Some(user) = state.sessions.get(shown) else {
        let message = "User (role: guests) missing scope (account)";
        return (
            401,
            json!({"message": message, "code": 401, "type": "general_unauthorized_scope"}),
        );
    };
    let theirs = state.memberships.iter().filter(|((of, _), _)| of == user);
    match path {
        "/v1/account" => (200, account(user)),
        "/v1/teams" => {
            let teams: Vec<Value> = theirs.map(|((_, team), _)| json!({"$id": team})).collect();
            (200, json!({"total": teams.len(), "teams": teams}))
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
                    json!({"$id": format!("{user}-{team}"), "userId": user, "teamId": team,
                           "confirm": true, "roles": roles})
                })
                .collect();
            (
                200,
                json!({"total": memberships.len(), "memberships": memberships}),
            )
        }
    }
}

fn account(user: &str) -> Value {
    json!({
        "$id": user, "$createdAt": "2026-01-01T00:00:00.000+00:00",
        "$updatedAt": "2026-01-01T00:00:00.000+00:00", "name": user,
        "registration": "2026-01-01T00:00:00.000+00:00", "status": true, "labels": [],
        "passwordUpdate": "", "email": format!("{user}@example.com"), "phone": "",
        "emailVerification": true, "phoneVerification": false, "mfa": false, "prefs": {},
        "targets": [], "accessedAt": ""
    })
}
