//! What has begun and is not over, for shards and for the thread that asks the provider.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use throng_auth::{KeyRights, Verifier};
use throng_backend::Address;
use throng_config::Oidc as Section;
use throng_http1::query;
use throng_types::{ConnId, Millis, lock};

use crate::logins::Table;

/// Sign-ins under way at once, before and after the way back from the provider.
pub(super) const UNDER_WAY_MAX: usize = 64;
/// Milliseconds for one request to the provider.
pub(super) const TIMEOUT_MS: u64 = 10_000;

/// Endpoints of the provider, as its document names them.
pub(super) struct Provider {
    pub(super) authorization: String,
    pub(super) token: Address,
    /// Whether the secret goes into the body of a request, since the field `Authorization` is not
    /// understood.
    pub(super) secret_in_body: bool,
    pub(super) verifier: Verifier,
}

/// A browser that is at the provider's page.
pub(super) struct Begun {
    pub(super) digest: Vec<u8>,
    pub(super) state: String,
    pub(super) nonce: String,
    pub(super) verifier: String,
    pub(super) until: Millis,
}

/// A browser that is back, and waits for the provider's word.
pub(super) struct Pending {
    pub(super) digest: Vec<u8>,
    pub(super) until: Millis,
    /// Set once it is over: a sentence on why nobody signed in.
    pub(super) outcome: Option<Result<(), String>>,
}

#[derive(Default)]
pub(super) struct UnderWay {
    /// The oldest first. Bound: [`UNDER_WAY_MAX`].
    pub(super) begun: VecDeque<Begun>,
    /// The oldest first. Bound: [`UNDER_WAY_MAX`].
    pub(super) pending: VecDeque<Pending>,
    pub(super) provider: Option<Arc<Provider>>,
}

pub(super) struct Inner {
    pub(super) section: Section,
    pub(super) under_way: Mutex<UnderWay>,
    pub(super) logins: Arc<Table>,
}

/// Order of a shard to the thread that asks the provider.
pub(super) enum Order {
    /// Find the provider, if it is not known.
    Find,
    Exchange(Box<Exchange>),
}

/// Code of the provider that is to be exchanged for a token.
pub(super) struct Exchange {
    pub(super) code: String,
    pub(super) verifier: String,
    pub(super) nonce: String,
    /// Digest of the secret that the browser has.
    pub(super) digest: Vec<u8>,
    /// End of its login, by the clock of shards.
    pub(super) until: Millis,
    /// Connection on which the browser came back, and its client's address: for the log.
    pub(super) from: (ConnId, IpAddr),
}

impl Inner {
    pub(super) fn open(&self) -> MutexGuard<'_, UnderWay> {
        lock(&self.under_way)
    }

    pub(super) fn client_id(&self) -> &str {
        self.section.client_id.as_deref().unwrap_or_default()
    }

    pub(super) fn redirect_url(&self) -> &str {
        self.section.redirect_url.as_deref().unwrap_or_default()
    }

    /// Notes how a sign-in ended, and who may come in by it.
    pub(super) fn end(&self, exchange: &Exchange, outcome: Result<KeyRights, String>) {
        let (connection, address) = exchange.from;
        let outcome = outcome.map(|rights| {
            let key = &*rights.name;
            tracing::info!(
                target: "throng::audit",
                %address, %connection, key, what = "sign in", object = "", user = "", client = "",
                "API call"
            );
            let caller = Some(Arc::new(rights));
            let digest = exchange.digest.clone();
            self.logins.admit(digest, caller, exchange.until);
        });
        if let Err(why) = &outcome {
            let object = "/session/callback";
            tracing::info!(
                target: "throng::refused",
                %address, %connection, user = "", what = "sign in", object, why, key = "",
                "refused"
            );
        }
        let mut under_way = self.open();
        let mut pending = under_way.pending.iter_mut();
        if let Some(pending) = pending.find(|pending| pending.digest == exchange.digest) {
            pending.outcome = Some(outcome);
        }
    }
}

/// Fields of a form or a query (WHATWG URL, `application/x-www-form-urlencoded`).
pub(super) fn form(fields: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, value) in fields {
        if !text.is_empty() {
            text.push('&');
        }
        query::encode(name, &mut text);
        text.push('=');
        query::encode(value, &mut text);
    }
    text
}
