//! Presences of users, written and deleted by Appwrite's HTTP API.
//!
//! Owns: the calls that wait, and the threads that make them. The calls for one user are made one
//! after the other, in the order in which they came: a deletion never overtakes what it deletes,
//! nor deletes what was written after it.
//!
//! Rule for "full": a call beyond the bounds is refused. Who writes is told so; a presence that is
//! not deleted ends by itself.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;
use std::{io, thread};

use serde::Deserialize;
use throng_gateway_appwrite::{News, PresenceAnswer, PresenceCall, Refused};
use throng_metrics::Counter;
use ureq::http::Method;

use crate::account::{escape, problem};
use crate::sampled::Sampled;
use crate::work::Work;
use crate::{AccountApi, ApiError, Feed, Meter};

/// Calls at the same time, each with a thread.
const THREADS: usize = 4;
/// Calls that wait. Queue: `presences`.
const WAITING_MAX: usize = 65_536;
/// Bytes of their bodies.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// A project, and a user of it.
type User = (Box<str>, Box<str>);

/// Calls by user.
#[derive(Default)]
struct Waiting {
    /// Who has calls, with those that no thread has taken. Bound: [`WAITING_MAX`].
    users: HashMap<User, VecDeque<PresenceCall>>,
    /// Users with a call that may be made now. Bound: [`WAITING_MAX`].
    ready: VecDeque<User>,
    calls: usize,
    bytes: usize,
}

impl Waiting {
    fn put(&mut self, call: PresenceCall) -> Result<(), Refused> {
        let bytes = self.bytes + body_of(&call).len();
        if self.calls >= WAITING_MAX || bytes > WAITING_BYTES_MAX {
            return Err(Refused);
        }
        self.calls += 1;
        self.bytes = bytes;
        let user = (call.project.clone(), call.user_id.clone());
        if let Some(calls) = self.users.get_mut(&user) {
            calls.push_back(call);
        } else {
            self.ready.push_back(user.clone());
            self.users.insert(user, VecDeque::from([call]));
        }
        Ok(())
    }

    /// The next call. [`Waiting::done`] follows.
    fn take(&mut self) -> Option<(User, PresenceCall)> {
        let user = self.ready.pop_front()?;
        let call = self.users.get_mut(&user)?.pop_front()?;
        self.calls -= 1;
        self.bytes -= body_of(&call).len();
        Some((user, call))
    }

    /// A user's call is made: the next one may be.
    fn done(&mut self, user: User) {
        match self.users.get(&user) {
            Some(calls) if !calls.is_empty() => self.ready.push_back(user),
            _ => drop(self.users.remove(&user)),
        }
    }
}

fn body_of(call: &PresenceCall) -> &[u8] {
    call.body.as_deref().unwrap_or_default()
}

/// Has presences written and deleted.
pub struct Presences {
    api: AccountApi,
    feed: Arc<Feed>,
    meter: Meter,
    work: Work<Waiting>,
    failures: Sampled,
}

/// A presence as Appwrite shows it.
#[derive(Deserialize)]
struct Stored {
    #[serde(rename = "$id")]
    id: Box<str>,
}

impl Presences {
    /// Starts the threads.
    ///
    /// # Errors
    /// If the kernel gives none.
    pub fn start(api: AccountApi, feed: Arc<Feed>, meter: Meter) -> io::Result<Arc<Self>> {
        let presences = Arc::new(Self {
            api,
            feed,
            meter,
            work: Work::default(),
            failures: Sampled::default(),
        });
        for number in 0..THREADS {
            let presences = presences.clone();
            thread::Builder::new()
                .name(format!("appwrite-here-{number}"))
                .spawn(move || presences.run())?;
        }
        Ok(presences)
    }

    /// Takes a call; [`News::Presence`] follows one that writes.
    ///
    /// # Errors
    /// [`Refused`] if too many wait.
    pub fn ask(&self, call: PresenceCall) -> Result<(), Refused> {
        let put = self.work.lock().put(call);
        match put {
            Ok(()) => self.work.wake_one(),
            Err(Refused) => self.meter.count(Counter::AppwritePresencesFull),
        }
        put
    }

    fn run(&self) {
        while let Some((user, call)) = self.work.next(&self.feed, Waiting::take) {
            let answer = self.make(&call);
            let PresenceCall { conn, token, .. } = call;
            if call.body.is_some() {
                let news = News::Presence {
                    conn,
                    token,
                    answer,
                };
                self.feed.tell(conn.shard().index(), news);
            }
            self.work.lock().done(user);
            // Another thread may sleep since before there was more for this user.
            self.work.wake_one();
        }
    }

    /// Asks Appwrite, and counts what it says.
    fn make(&self, call: &PresenceCall) -> PresenceAnswer {
        let answer = self.answer(call).unwrap_or_else(|error| {
            let project = &*call.project;
            if let Some(unsaid) = self.failures.next(Instant::now()) {
                tracing::warn!(%error, project, unsaid, "Appwrite does not say what became of a \
                                    presence");
            }
            PresenceAnswer::Failed
        });
        self.meter.count(match (&answer, &call.body) {
            (PresenceAnswer::Written { .. }, Some(_)) => Counter::AppwritePresencesWritten,
            (PresenceAnswer::Written { .. }, None) => Counter::AppwritePresencesDeleted,
            (PresenceAnswer::Refused { .. }, _) => Counter::AppwritePresencesRefused,
            (PresenceAnswer::Failed, _) => Counter::AppwritePresencesFailed,
        });
        answer
    }

    fn answer(&self, call: &PresenceCall) -> Result<PresenceAnswer, ApiError> {
        const PATH: &str = "/presences/…";
        let path = format!("/presences/{}", escape(&call.id));
        let method = match call.body {
            Some(_) => Method::PUT,
            None => Method::DELETE,
        };
        let (project, body) = (&call.project, body_of(call));
        let (status, answer) = self
            .api
            .send(method, &path, project, &call.credential, body)?;
        let document = String::from_utf8(answer).unwrap_or_default();
        if call.body.is_none() && matches!(status, 200..=299 | 404) {
            let id = call.id.clone();
            let document = document.into();
            return Ok(PresenceAnswer::Written { id, document });
        }
        if let (200..=299, Ok(Stored { id })) = (status, serde_json::from_str(&document)) {
            let document = document.into();
            return Ok(PresenceAnswer::Written { id, document });
        }
        problem(document.as_bytes())
            .filter(|problem| problem.code == status && (400..500).contains(&status))
            .map(|problem| PresenceAnswer::Refused {
                code: status,
                message: problem.message.into(),
            })
            .ok_or(ApiError::Status { path: PATH, status })
    }
}

#[cfg(test)]
mod tests {
    use throng_gateway_appwrite::Credential;
    use throng_types::{ConnId, ShardId};

    use super::*;

    fn call(user: &str, token: u32, bytes: usize) -> PresenceCall {
        PresenceCall {
            conn: ConnId::new(ShardId(0), 0, 1),
            token,
            project: "p".into(),
            user_id: user.into(),
            credential: Credential::Session("s".into()),
            id: "id".into(),
            body: (bytes > 0).then(|| vec![b'x'; bytes].into()),
        }
    }

    #[test]
    fn calls_of_one_user_wait_for_each_other() {
        let mut waiting = Waiting::default();
        for (user, token) in [("ann", 1), ("ann", 2), ("bob", 3), ("ann", 4)] {
            waiting.put(call(user, token, 1)).unwrap();
        }
        let (ann, first) = waiting.take().unwrap();
        let (bob, other) = waiting.take().unwrap();
        assert_eq!((first.token, other.token), (1, 3));
        assert!(waiting.take().is_none(), "ann's first is not done");
        waiting.done(bob);
        waiting.done(ann);
        for token in [2, 4] {
            let (ann, next) = waiting.take().unwrap();
            assert_eq!(next.token, token);
            assert!(waiting.take().is_none());
            waiting.done(ann);
        }
        assert!(waiting.users.is_empty() && waiting.ready.is_empty());
        assert_eq!((waiting.calls, waiting.bytes), (0, 0));
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut waiting = Waiting::default();
        waiting.put(call("ann", 1, WAITING_BYTES_MAX)).unwrap();
        assert_eq!(waiting.put(call("bob", 1, 1)), Err(Refused));
        for _ in 1..WAITING_MAX {
            waiting.put(call("bob", 1, 0)).unwrap();
        }
        assert_eq!(waiting.put(call("bob", 1, 0)), Err(Refused));
        let (ann, _) = waiting.take().unwrap();
        waiting.done(ann);
        waiting.put(call("ann", 2, WAITING_BYTES_MAX)).unwrap();
    }
}
