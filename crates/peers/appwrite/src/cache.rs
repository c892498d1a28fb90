//! Answers of late, by project and credential.
//!
//! Owns: answers, each for a while, and never more than so many. Never: asks, or reads a clock.
//!
//! Rule for "full": the answer that was given first goes first.

use std::collections::{BTreeMap, VecDeque};

use throng_appwrite::{Credential, LookupReply};
use throng_types::Millis;

/// A project, and a client's credential for it.
pub(crate) type Key = (Box<str>, Credential);

/// Time for which an identity is remembered, in milliseconds.
pub(crate) const USER_MS: u64 = 60_000;
/// Time for which it is remembered that a credential is no good, in milliseconds.
const NOBODY_MS: u64 = 5_000;

struct Entry {
    found: LookupReply,
    until: Millis,
    number: u64,
}

impl Entry {
    /// Whether the answer names a user, which stays true; a credential that was refused may be good
    /// by now.
    const fn is_user(&self) -> bool {
        matches!(self.found, LookupReply::User(_))
    }
}

/// Identities that Appwrite has told lately, by credential.
pub(crate) struct Cache {
    /// Entries by key. Bound: `entries_max`.
    entries: BTreeMap<Key, Entry>,
    /// Keys in the order in which they were put in; replaced entries stay until their turn.
    /// Bound: `entries_max`.
    order: VecDeque<(u64, Key)>,
    entries_max: usize,
    /// Time beyond that for which an identity serves while Appwrite does not answer, in
    /// milliseconds.
    grace_ms: u64,
    puts: u64,
}

impl Cache {
    pub(crate) fn new(entries_max: usize, grace_ms: u64) -> Self {
        Self {
            entries: BTreeMap::new(),
            order: VecDeque::new(),
            entries_max,
            grace_ms,
            puts: 0,
        }
    }

    pub(crate) fn get(&self, key: &Key, now: Millis) -> Option<LookupReply> {
        let entry = self.entries.get(key).filter(|entry| now < entry.until)?;
        Some(entry.found.clone())
    }

    /// An answer that may be too old, for when there is no other.
    pub(crate) fn old(&self, key: &Key, now: Millis) -> Option<LookupReply> {
        let entry = self.entries.get(key).filter(|entry| entry.is_user())?;
        (now < entry.until + self.grace_ms).then(|| entry.found.clone())
    }

    /// Keeps an answer, unless it is none.
    pub(crate) fn put(&mut self, key: Key, found: &LookupReply, now: Millis) {
        let until = match found {
            LookupReply::User(_) => now + USER_MS,
            LookupReply::Nobody | LookupReply::Expired(_) => now + NOBODY_MS,
            LookupReply::Changed(_) | LookupReply::Failed => return,
        };
        self.puts += 1;
        self.order.push_back((self.puts, key.clone()));
        let entry = Entry {
            found: found.clone(),
            until,
            number: self.puts,
        };
        self.entries.insert(key, entry);
        while self.order.len() > self.entries_max {
            let Some((number, key)) = self.order.pop_front() else {
                break;
            };
            if self.entries.get(&key).is_some_and(|e| e.number == number) {
                self.entries.remove(&key);
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        self.entries = BTreeMap::new();
        self.order = VecDeque::new();
    }

    pub(crate) fn forget(&mut self, project: &str, user_id: &str) {
        self.entries.retain(|(of, _), entry| {
            let theirs = matches!(&entry.found, LookupReply::User(user) if user.user_id == user_id);
            !(theirs && &**of == project)
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use throng_appwrite::AppwriteIdentity;

    use super::*;

    fn key(session: &str) -> Key {
        ("p".into(), Credential::Session(session.into()))
    }

    fn user(id: &str) -> LookupReply {
        let mut identity = AppwriteIdentity::guest();
        identity.user_id = id.to_owned();
        LookupReply::User(Arc::new(identity))
    }

    #[test]
    fn answers_age_and_are_bounded() {
        let now = Millis(0);
        let mut cache = Cache::new(2, USER_MS);
        cache.put(key("a"), &user("A"), now);
        cache.put(key("b"), &LookupReply::Nobody, now);
        cache.put(key("f"), &LookupReply::Failed, now);
        assert!(matches!(
            cache.get(&key("a"), now),
            Some(LookupReply::User(_))
        ));
        assert!(cache.get(&key("b"), now + NOBODY_MS / 2).is_some());
        assert!(cache.get(&key("b"), now + NOBODY_MS).is_none());
        assert!(cache.get(&key("a"), now + USER_MS).is_none());
        assert!(cache.old(&key("a"), now + USER_MS).is_some());
        assert!(cache.old(&key("a"), now + 2 * USER_MS).is_none());
        assert!(cache.old(&key("b"), now).is_none());
        assert!(cache.get(&key("f"), now).is_none());
        cache.put(key("a"), &user("A"), now);
        assert!(cache.get(&key("a"), now).is_some(), "the newer entry stays");
        cache.put(key("c"), &user("C"), now);
        assert!(cache.get(&key("b"), now).is_none());
        assert!(cache.entries.len() <= 2 && cache.order.len() <= 2);
    }

    #[test]
    fn a_user_is_forgotten_everywhere_in_the_project() {
        let now = Millis(0);
        let mut cache = Cache::new(9, USER_MS);
        for session in ["a", "b"] {
            cache.put(key(session), &user("A"), now);
        }
        cache.put(key("c"), &user("C"), now);
        cache.forget("other", "A");
        assert!(cache.get(&key("a"), now).is_some());
        cache.forget("p", "A");
        assert!(cache.get(&key("a"), now).is_none() && cache.get(&key("b"), now).is_none());
        assert!(cache.get(&key("c"), now).is_some());
        cache.clear();
        assert!(cache.get(&key("c"), now).is_none() && cache.old(&key("c"), now).is_none());
    }
}
