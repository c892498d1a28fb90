//! Presences of users, written and deleted by Appwrite's HTTP API.
//!
//! Owns: the calls that wait. The calls for one user are made one after the other, in the order in
//! which they came: a deletion never overtakes what it deletes, nor deletes what was written after
//! it.
//!
//! Rule for "full": a call beyond the bounds is refused. The writer gets that refusal; a presence
//! that is not deleted ends by itself.

use std::collections::{BTreeMap, VecDeque};

use serde::Deserialize;
use throng_appwrite::{PresenceCall, PresenceReply, QueueFull};
use throng_http1::origin::OriginRequest;

use crate::api::{Answer, Api, ApiError, escape, problem};
use crate::changes::User;

/// Calls at the same time.
const ASKED_MAX: usize = 4;
/// Calls that wait. Queue: `presences`.
const WAITING_MAX: usize = 65_536;
/// Bytes of their bodies.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// Calls that wait or are under way, by user.
#[derive(Default)]
pub(crate) struct Presences {
    /// Users with calls that are made or wait, with those that wait. Bound: [`WAITING_MAX`].
    users: BTreeMap<User, VecDeque<PresenceCall>>,
    /// Users with a call that may be made now. Bound: [`WAITING_MAX`].
    ready: VecDeque<User>,
    calls: usize,
    bytes: usize,
    /// Number of calls under way.
    asked: usize,
}

impl Presences {
    /// Takes a call.
    ///
    /// # Errors
    /// [`QueueFull`] if too many wait.
    pub(crate) fn put(&mut self, call: PresenceCall) -> Result<(), QueueFull> {
        let bytes = self.bytes + body_of(&call).len();
        if self.calls >= WAITING_MAX || bytes > WAITING_BYTES_MAX {
            return Err(QueueFull);
        }
        self.calls += 1;
        self.bytes = bytes;
        let user = user_of(&call);
        if let Some(calls) = self.users.get_mut(&user) {
            calls.push_back(call);
        } else {
            self.ready.push_back(user.clone());
            self.users.insert(user, VecDeque::from([call]));
        }
        Ok(())
    }

    /// The next call that may be made now. [`Presences::done`] follows.
    pub(crate) fn take(&mut self) -> Option<Box<PresenceCall>> {
        if self.asked >= ASKED_MAX {
            return None;
        }
        let user = self.ready.pop_front()?;
        let call = self.users.get_mut(&user)?.pop_front()?;
        self.calls -= 1;
        self.bytes -= body_of(&call).len();
        self.asked += 1;
        Some(Box::new(call))
    }

    /// Ends a user's call: the next one may be made.
    pub(crate) fn done(&mut self, call: &PresenceCall) {
        self.asked -= 1;
        let user = user_of(call);
        match self.users.get(&user) {
            Some(calls) if !calls.is_empty() => self.ready.push_back(user),
            _ => drop(self.users.remove(&user)),
        }
    }
}

fn user_of(call: &PresenceCall) -> User {
    (call.project.clone(), call.user_id.clone())
}

fn body_of(call: &PresenceCall) -> &[u8] {
    call.body.as_deref().unwrap_or_default()
}

impl Api {
    /// The request of a call, or its answer, if that is known.
    ///
    /// # Errors
    /// The answer, if no field may carry the credential.
    pub(crate) fn presence(&self, call: &PresenceCall) -> Result<OriginRequest, (u16, Vec<u8>)> {
        let method = match call.body {
            Some(_) => "PUT",
            None => "DELETE",
        };
        let path = format!("/presences/{}", escape(&call.id));
        let whose = (&*call.project, &call.credential);
        self.request(method, &path, whose, body_of(call).to_vec())
    }
}

#[derive(Deserialize)]
struct Stored {
    #[serde(rename = "$id")]
    id: Box<str>,
}

/// Reads the outcome of a call.
///
/// # Errors
/// [`ApiError`] if Appwrite does not say.
pub(crate) fn presence_answer(
    call: &PresenceCall,
    answer: Answer,
) -> Result<PresenceReply, ApiError> {
    let (status, body) = answer.map_err(|failure| ApiError::Transport(failure.detail))?;
    let document = String::from_utf8(body).unwrap_or_default();
    if call.body.is_none() && matches!(status, 200..=299 | 404) {
        let (id, document) = (call.id.clone(), document.into());
        return Ok(PresenceReply::Written { id, document });
    }
    if let (200..=299, Ok(Stored { id })) = (status, serde_json::from_str(&document)) {
        let document = document.into();
        return Ok(PresenceReply::Written { id, document });
    }
    let path = "/presences/…";
    problem(document.as_bytes())
        .filter(|problem| problem.code == status && (400..500).contains(&status))
        .map(|problem| PresenceReply::Refused {
            code: status,
            message: problem.message.into(),
        })
        .ok_or(ApiError::Status { path, status })
}

#[cfg(test)]
mod tests {
    use throng_appwrite::Credential;
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
        let mut waiting = Presences::default();
        for (user, token) in [("ann", 1), ("ann", 2), ("bob", 3), ("ann", 4)] {
            waiting.put(call(user, token, 1)).unwrap();
        }
        let first = waiting.take().unwrap();
        let other = waiting.take().unwrap();
        assert_eq!((first.token, other.token), (1, 3));
        assert!(waiting.take().is_none(), "ann's first is not done");
        waiting.done(&other);
        waiting.done(&first);
        for token in [2, 4] {
            let next = waiting.take().unwrap();
            assert_eq!(next.token, token);
            assert!(waiting.take().is_none());
            waiting.done(&next);
        }
        assert!(waiting.users.is_empty() && waiting.ready.is_empty());
        assert_eq!((waiting.calls, waiting.bytes, waiting.asked), (0, 0, 0));
    }

    #[test]
    fn few_calls_are_made_at_the_same_time() {
        let mut waiting = Presences::default();
        for number in 0..=ASKED_MAX {
            waiting.put(call(&number.to_string(), 1, 1)).unwrap();
        }
        let made: Vec<_> = std::iter::from_fn(|| waiting.take()).collect();
        assert_eq!(made.len(), ASKED_MAX);
        waiting.done(&made[1]);
        assert!(waiting.take().is_some());
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut waiting = Presences::default();
        waiting.put(call("ann", 1, WAITING_BYTES_MAX)).unwrap();
        assert_eq!(waiting.put(call("bob", 1, 1)), Err(QueueFull));
        for _ in 1..WAITING_MAX {
            waiting.put(call("bob", 1, 0)).unwrap();
        }
        assert_eq!(waiting.put(call("bob", 1, 0)), Err(QueueFull));
        let ann = waiting.take().unwrap();
        waiting.done(&ann);
        waiting.put(call("ann", 2, WAITING_BYTES_MAX)).unwrap();
    }

    #[test]
    fn requests_and_answers() {
        let api = Api::new(Default::default(), "a".to_owned(), "/v1");
        let (put, delete) = (call("ann", 1, 3), call("ann", 1, 0));
        let request = api.presence(&put).unwrap();
        assert_eq!(
            (&*request.method, &*request.path, &*request.body),
            ("PUT", "/v1/presences/id", &b"xxx"[..])
        );
        assert!(request.headers.iter().any(|field| field.is("content-type")));
        assert_eq!(api.presence(&delete).unwrap().method, "DELETE");
        let said = |call: &PresenceCall, status, body: &str| match presence_answer(
            call,
            Ok((status, body.into())),
        ) {
            Ok(PresenceReply::Written { id, .. }) => id.to_string(),
            Ok(PresenceReply::Refused { code, message }) => format!("{code} {message}"),
            Ok(PresenceReply::Failed) => "failed".to_owned(),
            Err(error) => error.to_string(),
        };
        let no = r#"{"message":"no","code":401}"#;
        assert_eq!(said(&put, 200, r#"{"$id":"other"}"#), "other");
        assert_eq!(said(&put, 401, no), "401 no");
        assert_eq!(said(&delete, 204, ""), "id");
        assert_eq!(said(&delete, 404, "{}"), "id");
        for (call, status, body) in [(&put, 200, "{}"), (&put, 404, "{}"), (&delete, 503, no)] {
            let expected = format!("/presences/… answered with status {status}");
            assert_eq!(said(call, status, body), expected, "{body}");
        }
    }
}
