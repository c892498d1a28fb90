//! The keys that were fetched last, and the thread that hosts the fetching.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use throng_auth::{KeySet, KeySource, Refresh, RefreshOptions};
use throng_backend::{Address, Asking, BackendLimits};
use throng_metrics::Counters;
use throng_outward::{CallSender, Host};

use crate::fetch::{Fetcher, Inner};

/// Bytes of an answer's head.
const HEAD_BYTES_MAX: usize = 32 << 10;

/// The address of a set of keys, and the intervals of fetching it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwksOptions {
    /// `http://` or `https://`; redirects are not followed.
    pub url: String,
    /// Bound of one request, in milliseconds.
    pub timeout_ms: u64,
    /// Intervals at which keys are fetched.
    pub refresh: RefreshOptions,
}

/// Keys that are fetched now and then, until this is dropped.
pub struct Fetched {
    inner: Arc<Inner>,
    calls: CallSender<()>,
    timeout_ms: u64,
    _host: Host<()>,
}

impl Fetched {
    /// Starts the thread, which fetches the keys at once. `counters` are its own.
    ///
    /// # Errors
    /// A sentence: the address is none, or the kernel gives no thread.
    pub fn start(options: &JwksOptions, counters: Arc<Counters>) -> Result<Self, String> {
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
        let peer = Asking::new(fetcher, limits);
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
