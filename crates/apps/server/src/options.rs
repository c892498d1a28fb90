//! Options with which a server is started, values that are drawn then and handed on to its
//! successors, and reasons for which it may not start.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use throng_auth::{EmptyKey, HostError, KeyError, OriginError};
use throng_config::Config;
use throng_types::{ConnId, Save};

use crate::stats::Capacity;

pub struct Options {
    /// The validated configuration, its key files read.
    pub config: Arc<Config>,
    /// Shown to clients and operators.
    pub version: &'static str,
    /// Capacity of this machine, for the dashboard.
    pub capacity: Option<Capacity>,
    /// Bytes of the machine's memory that this process may use at most, if known; see
    /// [`crate::queued_bytes_max`].
    pub memory_bytes: Option<u64>,
    /// Handler of the API port's requests for a reload; see
    /// [`crate::Handle::answer_reload`].
    pub ask_reload: Option<AskReload>,
}

/// Request on the API port for a reload of the configuration, which waits for the answer.
#[derive(Clone, Copy, Debug)]
pub struct ReloadRequest(pub(crate) ConnId);

/// Takes such requests, on any thread and at once; false if the server is ending.
pub type AskReload = Arc<dyn Fn(ReloadRequest) -> bool + Send + Sync>;

/// Values that differ from start to start, as arguments: so a simulator starts the same server
/// again.
#[derive(Clone, Copy, Debug, Save)]
pub struct Start {
    /// The wall clock, in Unix milliseconds.
    pub unix_ms: u64,
    /// Any number; epochs and hash seeds follow from it. Some are public, so no secret does.
    pub seed: u64,
    /// Secret random bytes; clients' ids are made with them.
    pub secret: [u8; 32],
}

/// Why a server did not start. Nothing of it is left behind.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot listen on {address}: {error}{}", hint(error))]
    Listen {
        address: SocketAddr,
        error: io::Error,
    },
    #[error("the keys for tokens cannot be used: {0}")]
    Key(#[from] KeyError),
    #[error("{0}")]
    TokenKeys(String),
    #[error("auth.api_keys: {0}")]
    ApiKey(#[from] EmptyKey),
    #[error("auth.allowed_origins: {0}")]
    Origin(#[from] OriginError),
    #[error("auth.allowed_hosts: {0}")]
    Host(#[from] HostError),
    /// Something outside that Appwrite Realtime needs cannot be used.
    #[error("{0}: {1}")]
    Appwrite(&'static str, String),
    #[error("{0}")]
    Grip(String),
    #[error("broker: {0}")]
    Broker(String),
    #[error("{0}")]
    Feed(String),
    #[error("history.path: {0}")]
    History(String),
    #[error("{0}")]
    Tls(String),
    #[error("{0}")]
    Proxy(String),
    #[error("webhook: {0}")]
    Webhook(String),
    #[error("oidc: {0}")]
    Oidc(String),
    #[error("trace.otlp_url: {0}")]
    Trace(String),
    /// The process whose place this one was to take does not hand over.
    #[error("nothing was taken over: {0}")]
    HandOver(String),
    /// The kernel gave no reactor or thread.
    #[error("a shard cannot be made: {0}")]
    Shard(io::Error),
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "; another program listens there: end it, \
             or choose another address with --listen or --api"
        }
        io::ErrorKind::PermissionDenied => {
            "; ports below 1024 need the capability CAP_NET_BIND_SERVICE"
        }
        io::ErrorKind::AddrNotAvailable => "; this machine does not have that address",
        _ => "",
    }
}
