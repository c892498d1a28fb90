//! State that few Appwrite connections need: the user, a lookup under way, messages that wait
//! behind it. Boxed, and dropped when empty, so that a guest owns none of it.

use std::collections::VecDeque;

use throng_appwrite::ConnectRequest;
use throng_types::{Millis, Position, Save};

use crate::shared::{Credential, LookupPart, LookupPriority};

/// Bytes of messages that may wait behind a question.
const WAITING_BYTES_MAX: usize = 128 << 10;

/// Credential of a client, and where it is valid.
#[derive(Clone, Debug, Save)]
pub(crate) struct Shown {
    pub(crate) credential: Credential,
    /// Whether the credential is for Appwrite's console, whatever the project.
    pub(crate) to_console: bool,
}

#[derive(Debug, Save)]
pub(super) struct User {
    pub(super) id: Box<str>,
    pub(super) shown: Shown,
}

/// The presence that a connection has asked for.
#[derive(Debug, Save)]
pub(crate) struct SetPresence {
    /// As asked for, and from the answer on as Appwrite has it.
    pub(crate) id: Box<str>,
    pub(crate) user_id: Box<str>,
    pub(crate) shown: Shown,
    pub(crate) token: u32,
    pub(crate) written: bool,
}

/// Request to open a connection, from its URL.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) request: ConnectRequest,
    pub(crate) shown: Option<Shown>,
    /// Position to recover from; the outer `None` without positions, the inner one for a first
    /// visit.
    pub(crate) recover: Option<Option<Position>>,
}

#[derive(Debug)]
pub(super) enum Asking {
    Open(Box<Opening>),
    Authentication(Shown),
    /// The user's roles may have changed.
    Check(Check),
}

#[derive(Clone, Debug, PartialEq, Eq, Save)]
pub(super) struct Check {
    /// As much as may have changed.
    pub(super) part: LookupPart,
    pub(super) haste: LookupPriority,
    /// Whether the hub's roles may be too many. If not, the change itself has named them, and the
    /// lookup only confirms.
    pub(super) unsure: bool,
    /// Time of the change that needs an answer.
    pub(super) since: Millis,
    pub(super) failures: u32,
}

impl Check {
    /// Merges two checks into one that covers both.
    pub(super) fn with(self, other: Self) -> Self {
        Self {
            part: match self.part == other.part {
                true => self.part,
                false => LookupPart::Everything,
            },
            haste: match (self.haste, other.haste) {
                (LookupPriority::Recheck, LookupPriority::Recheck) => LookupPriority::Recheck,
                _ => LookupPriority::Change,
            },
            unsure: self.unsure || other.unsure,
            since: self.since.min(other.since),
            failures: self.failures.max(other.failures),
        }
    }
}

/// State that few connections need: the user, a question under way, messages that wait.
#[derive(Debug, Default, Save)]
pub(super) struct More {
    pub(super) user: Option<User>,
    #[save(skip)]
    pub(super) asking: Option<Asking>,
    pub(super) token: u32,
    /// To be asked when the answer is there, which may be too old, or when it is time.
    pub(super) next: Option<Check>,
    /// When, if no answer is awaited.
    pub(super) next_at: Option<Millis>,
    /// The user's presence, if this connection has set it.
    pub(super) presence: Option<SetPresence>,
    #[save(skip)]
    pub(super) writing: u8,
    /// Position to recover from once there are subscriptions, as in [`Opening`].
    pub(super) recover: Option<Option<Position>>,
    /// Messages that wait for an answer. Bound: [`WAITING_BYTES_MAX`].
    #[save(skip)]
    waiting: VecDeque<Vec<u8>>,
    #[save(skip)]
    waiting_bytes: usize,
}

impl More {
    /// Whether another process can go on with it: no answer is awaited.
    pub(super) fn moves(&self) -> bool {
        self.asking.is_none() && self.waiting.is_empty() && self.writing == 0
    }

    /// Has something checked later, together with what already waits for that.
    pub(super) fn check_later(&mut self, check: Check) {
        self.next = Some(match self.next.take() {
            Some(next) => next.with(check),
            None => check,
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.user.is_none()
            && self.asking.is_none()
            && self.next.is_none()
            && self.presence.is_none()
            && self.writing == 0
            && self.recover.is_none()
            && self.waiting.is_empty()
    }

    /// Keeps a message until the answer is there; false if there is no room for it.
    pub(super) fn wait(&mut self, message: &[u8]) -> bool {
        let bytes = self.waiting_bytes + message.len();
        if bytes > WAITING_BYTES_MAX {
            return false;
        }
        self.waiting_bytes = bytes;
        self.waiting.push_back(message.to_vec());
        true
    }

    pub(super) fn next_message(&mut self) -> Option<Vec<u8>> {
        let message = self.waiting.pop_front()?;
        self.waiting_bytes -= message.len();
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each part alone is a reason to keep it.
    #[test]
    fn what_is_needed_is_kept() {
        let mut more = More::default();
        assert!(more.is_empty());
        more.token = 7;
        assert!(more.is_empty(), "a number alone is nothing");
        let check = Check {
            part: LookupPart::Everything,
            haste: LookupPriority::Change,
            unsure: false,
            since: Millis(0),
            failures: 0,
        };
        let shown = Shown {
            credential: Credential::Jwt("t".into()),
            to_console: false,
        };
        let parts: [More; 5] = [
            More {
                user: Some(User {
                    id: "ann".into(),
                    shown: shown.clone(),
                }),
                ..More::default()
            },
            More {
                asking: Some(Asking::Authentication(shown)),
                ..More::default()
            },
            More {
                next: Some(check),
                ..More::default()
            },
            More {
                recover: Some(None),
                ..More::default()
            },
            More {
                waiting: VecDeque::from([Vec::new()]),
                ..More::default()
            },
        ];
        for part in parts {
            assert!(!part.is_empty(), "{part:?}");
        }
    }

    /// Taking messages out gives all of their room back.
    #[test]
    fn messages_that_were_taken_take_no_room() {
        let mut more = More::default();
        let longest = vec![b'x'; WAITING_BYTES_MAX];
        for _ in 0..2 {
            assert!(more.wait(&longest) && more.wait(b"") && !more.wait(b"x"));
            assert_eq!(more.next_message().as_deref(), Some(&*longest));
            assert_eq!(more.next_message().as_deref(), Some(&b""[..]));
            assert_eq!(more.next_message(), None);
        }
    }

    /// One question about two changes asks for as much as either needs, as soon as either needs it.
    #[test]
    fn two_questions_in_one_ask_for_both() {
        let check = |part: &LookupPart, haste, unsure, since, failures| Check {
            part: part.clone(),
            haste,
            unsure,
            since: Millis(since),
            failures,
        };
        let (all, account) = (LookupPart::Everything, LookupPart::Account);
        let (change, recheck) = (LookupPriority::Change, LookupPriority::Recheck);
        for (one, other, both) in [
            (
                check(&account, change, false, 5, 1),
                check(&account, change, false, 7, 3),
                check(&account, change, false, 5, 3),
            ),
            (
                check(&account, recheck, true, 5, 3),
                check(&all, recheck, false, 3, 1),
                check(&all, recheck, true, 3, 3),
            ),
            (
                check(&all, recheck, true, 5, 0),
                check(&all, change, true, 5, 0),
                check(&all, change, true, 5, 0),
            ),
        ] {
            assert_eq!(one.clone().with(other.clone()), both);
            assert_eq!(other.with(one), both, "in either order");
        }
    }
}
