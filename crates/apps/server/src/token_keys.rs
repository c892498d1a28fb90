//! Public keys for tokens that are fetched (`auth.jwks_url`): one source for each way to fetch
//! them, kept from one version of the configuration to the next.
//!
//! Never: ends a source that a version in use still needs; the last of those ends it. Nor decides
//! when to fetch or what a key is good for; `throng-auth` does, without a clock.
//!
//! A shard reads the keys when it checks a token, and may say that one is missing: it never waits.
//!
//! Invariant: an answer that is late, too long, not a set, or has no usable key changes nothing.
//! The keys from before stay, however long that lasts.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;

use throng_auth::{KEY_SET_BYTES_MAX, KeySet, KeySource, Refresh, RefreshOptions};
use throng_backend::{
    Address, AskLimits, BackendLimits, Client, ClientPeer, Requests, WholeAnswer,
};
use throng_config::Auth;
use throng_http1::field::Header;
use throng_metrics::{Counter, Counters, Gauge};
use throng_outward::{CallSender, Host};
use throng_types::{Now, lock};

use crate::options::StartError;

/// Bytes of an answer's head.
const HEAD_BYTES_MAX: usize = 32 << 10;

/// Reads the options of fetching; `None` without `auth.jwks_url`.
fn options(auth: &Auth) -> Option<JwksOptions> {
    Some(JwksOptions {
        url: auth.jwks_url.clone()?,
        timeout_ms: auth.jwks_timeout_ms,
        refresh: RefreshOptions {
            interval_ms: auth.jwks_refresh_interval_ms,
            interval_min_ms: auth.jwks_refresh_interval_min_ms,
        },
    })
}

/// Fetches the keys of a configuration once, if it names a source of keys.
pub fn fetch_keys(auth: &Auth) -> Result<Option<Arc<dyn KeySource>>, String> {
    let Some(options) = options(auth) else {
        return Ok(None);
    };
    let keys = Fetched::start(&options, Arc::default())?;
    keys.wait()?;
    Ok(Some(Arc::new(keys)))
}

/// Options of a source, and the source as long as it is in use.
type Known = (JwksOptions, Weak<Fetched>);

/// The sources that are in use.
#[derive(Clone)]
pub(crate) struct TokenKeys {
    /// Bound: those that a version of the configuration holds; one, and during a reload two.
    known: Arc<Mutex<Vec<Known>>>,
    counters: Arc<Counters>,
}

pub(crate) struct KeptKeys {
    source: Arc<Fetched>,
    /// No version of the configuration had it before.
    is_new: bool,
}

impl TokenKeys {
    /// None yet. The threads that fetch count here, one after the other.
    pub(crate) fn new(counters: Arc<Counters>) -> Self {
        Self {
            known: Arc::default(),
            counters,
        }
    }

    /// The source that a configuration names, if it names one: the one in use, or a new one.
    pub(crate) fn of(&self, auth: &Auth) -> Result<Option<KeptKeys>, StartError> {
        let Some(options) = options(auth) else {
            return Ok(None);
        };
        let mut known = lock(&self.known);
        known.retain(|(_, source)| source.strong_count() > 0);
        let same = known.iter().find(|(known, _)| *known == options);
        if let Some(source) = same.and_then(|(_, source)| source.upgrade()) {
            let is_new = false;
            return Ok(Some(KeptKeys { source, is_new }));
        }
        let source = Fetched::start(&options, self.counters.clone());
        let source =
            source.map_err(|why| StartError::TokenKeys(format!("auth.jwks_url: {why}")))?;
        let source = Arc::new(source);
        known.push((options, Arc::downgrade(&source)));
        let is_new = true;
        Ok(Some(KeptKeys { source, is_new }))
    }
}

impl KeptKeys {
    pub(crate) fn source(&self) -> Arc<dyn KeySource> {
        self.source.clone()
    }

    /// Waits until a new source has asked for keys once.
    pub(crate) fn wait(&self) -> Result<(), String> {
        match self.is_new {
            true => { self.source.wait() }.map_err(|why| format!("auth.jwks_url: {why}")),
            false => Ok(()),
        }
    }
}

/// Shared between the fetching and shards.
#[derive(Debug, Default)]
struct Inner {
    keys: RwLock<Arc<KeySet>>,
    /// A token has named a key that is not there.
    is_wanted: AtomicBool,
    /// The result of the first request.
    first: Mutex<Option<Result<(), String>>>,
    has_first: Condvar,
}

impl Inner {
    fn keys(&self) -> Arc<KeySet> {
        let keys = self.keys.read();
        keys.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Fetches one set, over and over.
struct Fetcher {
    inner: Arc<Inner>,
    address: Address,
    /// The address without a query, which may hold a secret.
    place: String,
    timeout_ms: u64,
    refresh: Refresh,
    is_fetching: bool,
    counters: Arc<Counters>,
}

impl Client for Fetcher {
    /// A key is missing, or it begins.
    type Call = ();
    type Token = ();

    fn call(&mut self, (): (), asks: &mut Requests<()>) {
        self.look(asks);
    }

    fn woken(&mut self, asks: &mut Requests<()>) {
        self.look(asks);
    }

    fn answered(&mut self, (): (), answer: WholeAnswer, asks: &mut Requests<()>) {
        let fetched = read(answer);
        self.is_fetching = false;
        self.refresh.end(fetched.is_ok(), asks.now.mono);
        self.take(fetched, asks.now);
        self.look(asks);
    }
}

impl Fetcher {
    /// Requests for the keys if they are due, or waits until they are.
    fn look(&mut self, asks: &mut Requests<()>) {
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
        let accept = "application/jwk-set+json, application/json";
        let headers = vec![Header::new("Accept", accept)];
        let request = self.address.request("GET", headers);
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
        lock(&self.inner.first).get_or_insert(result);
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

/// The address of a set of keys, and the intervals of fetching it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JwksOptions {
    /// `http://` or `https://`; redirects are not followed.
    pub(crate) url: String,
    /// Bound of one request, in milliseconds.
    pub(crate) timeout_ms: u64,
    pub(crate) refresh: RefreshOptions,
}

/// Keys that are fetched now and then, until this is dropped.
pub(crate) struct Fetched {
    inner: Arc<Inner>,
    calls: CallSender<()>,
    timeout_ms: u64,
    _host: Host<()>,
}

impl Fetched {
    /// Starts the thread, which fetches the keys at once. `counters` are its own.
    pub(crate) fn start(options: &JwksOptions, counters: Arc<Counters>) -> Result<Self, String> {
        let (url, timeout_ms) = (&options.url, options.timeout_ms);
        let inner = Arc::new(Inner::default());
        let fetcher = Fetcher {
            inner: inner.clone(),
            address: Address::from_url(url, timeout_ms).map_err(|fault| fault.to_string())?,
            place: place(url).to_owned(),
            timeout_ms,
            refresh: Refresh::new(options.refresh),
            is_fetching: false,
            counters,
        };
        let limits = BackendLimits {
            head_bytes_max: HEAD_BYTES_MAX,
            // The next one is minutes away.
            idle_max: 0,
            ..BackendLimits::default()
        };
        let peer = ClientPeer::new(fetcher, limits);
        let host = throng_outward::start("jwks", move || peer, Box::new(|reply| match reply {}));
        let host = host.map_err(|error| error.to_string())?;
        let calls = host.calls();
        calls.send(());
        Ok(Self {
            inner,
            calls,
            timeout_ms,
            _host: host,
        })
    }

    /// Waits until the first request is over, which takes as long as one may take. Error: a
    /// sentence on why there are no keys; they are asked for again later.
    fn wait(&self) -> Result<(), String> {
        let within = Duration::from_millis(self.timeout_ms) + Duration::from_secs(2);
        let waited =
            self.inner
                .has_first
                .wait_timeout_while(lock(&self.inner.first), within, |first| first.is_none());
        let (first, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let late = || Err("no answer came in time".to_owned());
        first.clone().unwrap_or_else(late)
    }
}

impl fmt::Debug for Fetched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl KeySource for Fetched {
    fn keys(&self) -> Arc<KeySet> {
        self.inner.keys()
    }

    fn want(&self) {
        if !self.inner.is_wanted.swap(true, Ordering::AcqRel) {
            self.calls.send(());
        }
    }
}

/// The address without a query, which may hold a secret.
fn place(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests;
