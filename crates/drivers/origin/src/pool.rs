//! Connections that wait for another request.
//!
//! Invariant: what is in the pool has been read to the end of an answer, so the next bytes on it
//! belong to the next answer.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use throng_grip::routes::Target;

use crate::connect::Stream;

/// What makes two connections interchangeable.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) tls: bool,
    pub(crate) insecure: bool,
    /// The name that the certificate was checked for.
    pub(crate) name: String,
}

impl Key {
    /// Where a target is; `None` for targets that are no origin.
    pub(crate) fn of(target: &Target, requested_host: &str) -> Option<Self> {
        let throng_grip::routes::TargetAddress::Origin { host, port } = &target.address else {
            return None;
        };
        let asked = target.host.as_deref().unwrap_or(requested_host);
        let asked = asked.rsplit_once(':').map_or(asked, |(host, _)| host);
        let name = if target.trust_connect_host || asked.is_empty() {
            host.as_str()
        } else {
            asked
        };
        Some(Self {
            host: host.clone(),
            port: *port,
            tls: target.tls,
            insecure: target.insecure,
            // Without TLS it makes no difference.
            name: if target.tls {
                name.to_owned()
            } else {
                String::new()
            },
        })
    }
}

struct Idle {
    stream: Stream,
    since: Instant,
}

/// Idle connections to backends, by address and kind.
pub(crate) struct Pool {
    idle: Mutex<HashMap<Key, Vec<Idle>>>,
    idle_max: usize,
    idle_timeout: Duration,
}

impl Pool {
    pub(crate) fn new(idle_max: usize, idle_timeout_ms: u64) -> Self {
        Self {
            idle: Mutex::default(),
            idle_max,
            idle_timeout: Duration::from_millis(idle_timeout_ms),
        }
    }

    /// The connection that was used last and is still open.
    pub(crate) fn take(&self, key: &Key) -> Option<Stream> {
        let mut all = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = all.get_mut(key)?;
        while let Some(Idle { stream, since }) = idle.pop() {
            if since.elapsed() < self.idle_timeout && stream.is_quiet() {
                return Some(stream);
            }
        }
        all.remove(key);
        None
    }

    pub(crate) fn put(&self, key: Key, stream: Stream) {
        let mut all = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = all.entry(key).or_default();
        let old = idle
            .iter()
            .take_while(|idle| idle.since.elapsed() > self.idle_timeout);
        let old = old.count();
        idle.drain(..old);
        if idle.len() < self.idle_max {
            let since = Instant::now();
            idle.push(Idle { stream, since });
        }
    }
}
