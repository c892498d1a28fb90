//! The keys that were fetched last, and the thread that fetches them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

use throng_auth::{KeySet, KeySource, Refresh, RefreshOptions};
use throng_metrics::{Counter, Counters, Gauge};
use throng_types::Millis;

use crate::fetch::Fetch;

/// Where a set of keys is, and how often it is fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwksOptions {
    /// `http://` or `https://`; redirects are not followed.
    pub url: String,
    /// How long one request may take, in milliseconds.
    pub timeout_ms: u64,
    /// When it is fetched.
    pub refresh: RefreshOptions,
}

/// Keys that are fetched now and then, until this is dropped.
#[derive(Debug)]
pub struct Fetched {
    inner: Arc<Inner>,
    thread: Thread,
    timeout_ms: u64,
}

#[derive(Debug)]
struct Inner {
    keys: RwLock<Arc<KeySet>>,
    /// A token has named a key that is not there.
    is_wanted: AtomicBool,
    ends: AtomicBool,
    /// What came of the first request.
    first: Mutex<Option<Result<(), String>>>,
    has_first: Condvar,
}

impl Inner {
    fn first(&self) -> MutexGuard<'_, Option<Result<(), String>>> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Fetched {
    /// Starts the thread, which fetches the keys at once. `counters` are its own.
    ///
    /// # Errors
    /// A sentence: the address is none, or the kernel gives no thread.
    pub fn start(options: &JwksOptions, counters: Arc<Counters>) -> Result<Self, String> {
        let fetch = Fetch::new(&options.url, options.timeout_ms)?;
        let inner = Arc::new(Inner {
            keys: RwLock::default(),
            is_wanted: AtomicBool::new(false),
            ends: AtomicBool::new(false),
            first: Mutex::default(),
            has_first: Condvar::new(),
        });
        let worker = Worker {
            inner: inner.clone(),
            fetch,
            place: place(&options.url).to_owned(),
            refresh: Refresh::new(options.refresh),
            started: Instant::now(),
            counters,
        };
        let thread = std::thread::Builder::new()
            .name("jwks".to_owned())
            .spawn(move || worker.run())
            .map_err(|error| error.to_string())?;
        Ok(Self {
            inner,
            thread: thread.thread().clone(),
            timeout_ms: options.timeout_ms,
        })
    }

    /// Waits until the first request is over, which takes as long as one may take.
    ///
    /// # Errors
    /// A sentence on why there are no keys; they are asked for again later.
    pub fn wait(&self) -> Result<(), String> {
        let within = Duration::from_millis(self.timeout_ms) + Duration::from_secs(2);
        let waited = self
            .inner
            .has_first
            .wait_timeout_while(self.inner.first(), within, |first| first.is_none());
        let (first, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let late = || Err("no answer came in time".to_owned());
        first.clone().unwrap_or_else(late)
    }
}

impl KeySource for Fetched {
    fn keys(&self) -> Arc<KeySet> {
        let keys = self.inner.keys.read();
        keys.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn want(&self) {
        if !self.inner.is_wanted.swap(true, Ordering::AcqRel) {
            self.thread.unpark();
        }
    }
}

impl Drop for Fetched {
    fn drop(&mut self) {
        self.inner.ends.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// The address without a query, which may hold a secret.
fn place(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

struct Worker {
    inner: Arc<Inner>,
    fetch: Fetch,
    place: String,
    refresh: Refresh,
    started: Instant,
    counters: Arc<Counters>,
}

impl Worker {
    fn now(&self) -> Millis {
        Millis(self.started.elapsed().as_millis() as u64)
    }

    fn run(mut self) {
        while !self.inner.ends.load(Ordering::Acquire) {
            let is_wanted = self.inner.is_wanted.load(Ordering::Acquire);
            let wait_ms = self.refresh.due(is_wanted).since(self.now());
            if wait_ms > 0 {
                // It may wake early; the time is looked at again.
                std::thread::park_timeout(Duration::from_millis(wait_ms));
                continue;
            }
            // Who misses a key from now on may miss it in this answer too.
            self.inner.is_wanted.store(false, Ordering::Release);
            self.refresh.begin(self.now());
            let fetched = self.fetch.once();
            self.refresh.end(fetched.is_ok(), self.now());
            self.take(fetched);
        }
    }

    fn take(&self, fetched: Result<KeySet, String>) {
        let place = &self.place;
        let result = match fetched {
            Ok(keys) => {
                let now_s = throng_sys::clock::unix_ms() / 1000;
                self.counters.count(Counter::TokenKeysGood);
                self.counters.set(Gauge::TokenKeys, keys.len() as u64);
                self.counters.set(Gauge::TokenKeysFetched, now_s);
                self.replace(keys);
                Ok(())
            }
            Err(why) => {
                self.counters.count(Counter::TokenKeysFailed);
                tracing::warn!("{place}: no keys for tokens came; those from before stay: {why}");
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
            tracing::info!(count, unused, names, "{place}: keys for tokens came");
        }
        *keys = Arc::new(fresh);
    }
}
