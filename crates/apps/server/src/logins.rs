//! People who have signed in to the dashboard.
//!
//! Owns their secrets, as digests, only in memory: people have to sign in again after
//! a restart, an upgrade, and a reload that changes the API keys. Shared by all shards behind a
//! lock, which only requests with a cookie take. Never: sees an API key.
//!
//! Rule for "full": who has signed in first is signed out.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use throng_auth::{ApiKeys, Caller};
use throng_session::Logins;
use throng_types::{Millis, lock};

/// People who may be signed in at once.
const LOGINS_MAX: usize = 64;
/// Lifetime of a login, in milliseconds.
pub(crate) const LIFETIME_MS: u64 = 12 * 3_600_000;

type Secret = [u8; 32];

#[derive(Default)]
pub(crate) struct Table(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// The oldest first. Bound: [`LOGINS_MAX`].
    logins: VecDeque<Login>,
    /// The API keys that let them in.
    keys: Arc<ApiKeys>,
}

struct Login {
    digest: Vec<u8>,
    caller: Caller,
    until: Millis,
}

impl Table {
    /// Puts these API keys into force. People who signed in by others have to sign in again.
    pub(crate) fn renew(&self, keys: &Arc<ApiKeys>) {
        let mut known = lock(&self.0);
        if known.keys != *keys {
            known.keys = keys.clone();
            known.logins.clear();
        }
    }

    fn begin_with(&self, secret: Secret, caller: Caller, now: Millis) -> String {
        let secret = URL_SAFE_NO_PAD.encode(secret);
        lock(&self.0).logins.retain(|login| login.until > now);
        self.admit(digest_of(&secret), caller, now + LIFETIME_MS);
        secret
    }

    /// Lets somebody in by the digest of a secret.
    pub(crate) fn admit(&self, digest: Vec<u8>, caller: Caller, until: Millis) {
        let mut known = lock(&self.0);
        if known.logins.len() >= LOGINS_MAX {
            known.logins.pop_front();
        }
        known.logins.push_back(Login {
            digest,
            caller,
            until,
        });
    }
}

impl Logins for Table {
    fn begin(&self, caller: Caller, now: Millis) -> String {
        self.begin_with(random_secret(), caller, now)
    }

    fn caller(&self, secret: &str, now: Millis) -> Option<Caller> {
        // Digests may be compared in any time: nobody can choose one.
        let digest = digest_of(secret);
        let known = lock(&self.0);
        let mut logins = known.logins.iter();
        let login = logins.find(|login| login.digest == digest && login.until > now)?;
        Some(login.caller.clone())
    }

    fn end(&self, secret: &str) {
        let digest = digest_of(secret);
        lock(&self.0).logins.retain(|login| login.digest != digest);
    }

    fn lifetime_s(&self) -> u64 {
        LIFETIME_MS / 1000
    }
}

fn random_secret() -> Secret {
    let mut secret = Secret::default();
    aws_lc_rs::rand::fill(&mut secret).expect("the system has randomness");
    secret
}

/// Makes a text that cannot be guessed.
pub(crate) fn new_secret() -> String {
    URL_SAFE_NO_PAD.encode(random_secret())
}

pub(crate) fn digest_of(secret: &str) -> Vec<u8> {
    digest(&SHA256, secret.as_bytes()).as_ref().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys<const N: usize>(keys: [&str; N]) -> Arc<ApiKeys> {
        Arc::new(ApiKeys::new(keys).expect("good keys"))
    }

    fn knows(table: &Table, secret: &str, now: Millis) -> bool {
        table.caller(secret, now).is_some()
    }

    #[test]
    fn a_login_is_good_until_it_ends() {
        let table = Table::default();
        let now = Millis(1_000);
        let [one, other] = [[1; 32], [2; 32]].map(|secret| table.begin_with(secret, None, now));
        assert_ne!(one, other);
        assert!(knows(&table, &one, now) && knows(&table, &other, now));
        for wrong in ["", "x", &one[1..], &one.to_lowercase()] {
            assert!(!knows(&table, wrong, now), "{wrong}");
        }
        table.end(&one);
        assert!(!knows(&table, &one, now) && knows(&table, &other, now));
        assert!(knows(&table, &other, now + (LIFETIME_MS - 1)));
        assert!(!knows(&table, &other, now + LIFETIME_MS));
    }

    #[test]
    fn a_full_table_signs_out_who_came_first() {
        let table = Table::default();
        let begin = |n: usize| table.begin_with([n as u8; 32], None, Millis(n as u64));
        let all: Vec<_> = (0..=LOGINS_MAX).map(begin).collect();
        let is_known = |secret: &String| knows(&table, secret, Millis(100));
        assert!(!is_known(&all[0]));
        assert!(all[1..].iter().all(is_known));
        // Those that have expired make room first.
        let late = Millis(LIFETIME_MS + 50);
        table.begin_with([99; 32], None, late);
        assert!(knows(&table, &all[LOGINS_MAX], late));
        assert!(!knows(&table, &all[1], late));
    }

    #[test]
    fn other_keys_sign_everybody_out_and_the_same_nobody() {
        let table = Table::default();
        table.renew(&keys(["a", "b"]));
        let secret = table.begin_with([1; 32], None, Millis(0));
        table.renew(&keys(["a", "b"]));
        assert!(knows(&table, &secret, Millis(0)));
        table.renew(&keys(["b"]));
        assert!(!knows(&table, &secret, Millis(0)));
    }
}
