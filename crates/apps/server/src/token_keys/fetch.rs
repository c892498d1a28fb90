//! The fetching: when a set of keys is due, it is asked for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};

use throng_auth::{KEY_SET_BYTES_MAX, KeySet, Refresh};
use throng_backend::{Address, AskLimits, Asker, Asks, WholeAnswer};
use throng_grip::exchange::{OriginRequest, RequestRest};
use throng_grip::headers::Header;
use throng_metrics::{Counter, Counters, Gauge};
use throng_types::Now;

/// Shared between the fetching and shards.
#[derive(Debug, Default)]
pub(crate) struct Inner {
    keys: RwLock<Arc<KeySet>>,
    /// A token has named a key that is not there.
    pub(crate) is_wanted: AtomicBool,
    /// The result of the first request.
    first: Mutex<Option<Result<(), String>>>,
    pub(crate) has_first: Condvar,
}

impl Inner {
    pub(crate) fn first(&self) -> MutexGuard<'_, Option<Result<(), String>>> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn keys(&self) -> Arc<KeySet> {
        let keys = self.keys.read();
        keys.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Fetches one set, over and over.
pub(crate) struct Fetcher {
    pub(crate) inner: Arc<Inner>,
    pub(crate) address: Address,
    /// The address without a query, which may hold a secret.
    pub(crate) place: String,
    pub(crate) timeout_ms: u64,
    pub(crate) refresh: Refresh,
    pub(crate) is_fetching: bool,
    pub(crate) counters: Arc<Counters>,
}

impl Asker for Fetcher {
    /// A key is missing, or it begins.
    type Call = ();
    type Token = ();

    fn call(&mut self, (): (), asks: &mut Asks<()>) {
        self.look(asks);
    }

    fn woken(&mut self, asks: &mut Asks<()>) {
        self.look(asks);
    }

    fn answered(&mut self, (): (), answer: WholeAnswer, asks: &mut Asks<()>) {
        let fetched = read(answer);
        self.is_fetching = false;
        self.refresh.end(fetched.is_ok(), asks.now.mono);
        self.take(fetched, asks.now);
        self.look(asks);
    }
}

impl Fetcher {
    /// Asks for the keys if they are due, or waits until they are.
    fn look(&mut self, asks: &mut Asks<()>) {
        if self.is_fetching {
            return;
        }
        let is_wanted = self.inner.is_wanted.load(Ordering::Acquire);
        let due = self.refresh.due(is_wanted);
        if due > asks.now.mono {
            return asks.wake_at(due);
        }
        // A key that is missed from now on may be missing in this answer too.
        self.inner.is_wanted.store(false, Ordering::Release);
        self.refresh.begin(asks.now.mono);
        self.is_fetching = true;
        let request = OriginRequest {
            route: self.address.route.clone(),
            method: "GET".to_owned(),
            path: self.address.path.clone(),
            headers: vec![
                Header::new("Host", self.address.host.as_str()),
                Header::new("Accept", "application/jwk-set+json, application/json"),
            ],
            body: Vec::new(),
            rest: RequestRest::Nothing,
        };
        let limits = AskLimits {
            bytes_max: KEY_SET_BYTES_MAX,
            timeout_ms: self.timeout_ms,
        };
        asks.ask(request, limits, ());
    }

    fn take(&self, fetched: Result<KeySet, String>, now: Now) {
        let place = &self.place;
        let result = match fetched {
            Ok(keys) => {
                self.counters.count(Counter::TokenKeysGood);
                self.counters.set(Gauge::TokenKeys, keys.len() as u64);
                self.counters.set(Gauge::TokenKeysFetched, now.unix_s());
                self.replace(keys);
                Ok(())
            }
            Err(why) => {
                self.counters.count(Counter::TokenKeysFailed);
                tracing::warn!(
                    "{place}: cannot fetch keys for tokens, the former ones stay: {why}"
                );
                Err(format!("{place}: {why}"))
            }
        };
        self.inner.first().get_or_insert(result);
        self.inner.has_first.notify_all();
    }

    fn replace(&self, fresh: KeySet) {
        let keys = self.inner.keys.write();
        let mut keys = keys.unwrap_or_else(PoisonError::into_inner);
        if !fresh.ids().eq(keys.ids()) {
            let (place, count, unused) = (&self.place, fresh.len(), fresh.unused());
            let names: Vec<&str> = { fresh.ids() }
                .map(|name| name.unwrap_or("(without a name)"))
                .collect();
            let names = names.join(", ");
            tracing::info!(
                count,
                unused,
                names,
                "{place}: keys for tokens were fetched"
            );
        }
        *keys = Arc::new(fresh);
    }
}

/// The set in an answer, or a sentence on what is wrong with it.
fn read(answer: WholeAnswer) -> Result<KeySet, String> {
    let (status, body) = answer.map_err(|failure| failure.detail)?;
    if status != 200 {
        return Err(format!("the answer has status {status}"));
    }
    KeySet::parse(&body).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
