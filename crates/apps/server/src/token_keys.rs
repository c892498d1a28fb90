//! Public keys for tokens that are fetched (`auth.jwks_url`): one source for each way to fetch
//! them, kept from one version of the configuration to the next.
//!
//! Never: ends a source that a version in use still needs; the last of those ends it.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use throng_auth::{KeySource, RefreshOptions};
use throng_config::Auth;
use throng_jwks::{Fetched, JwksOptions};
use throng_metrics::Counters;

use crate::options::StartError;

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

/// Options of a source, and the source as long as it is in use.
type Known = (JwksOptions, Weak<Fetched>);

/// The sources that are in use.
#[derive(Clone)]
pub(crate) struct TokenKeys {
    /// Bound: those that a version of the configuration holds; one, and during a reload two.
    known: Arc<Mutex<Vec<Known>>>,
    counters: Arc<Counters>,
}

/// A source in use.
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
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
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
    ///
    /// # Errors
    /// A sentence on why none came.
    pub(crate) fn wait(&self) -> Result<(), String> {
        match self.is_new {
            true => { self.source.wait() }.map_err(|why| format!("auth.jwks_url: {why}")),
            false => Ok(()),
        }
    }
}
