//! What the driver is made of.

use std::path::PathBuf;

use throng_remote::RemoteOptions;

/// What the driver is made of.
#[derive(Clone)]
pub struct NatsOptions {
    /// `nats://user:password@host:port`, or `nats://token@host`; more servers of the same cluster
    /// behind commas. With `tls://` a server that does not speak TLS is not spoken to.
    pub url: String,
    /// A file with who we are, as `nsc` writes it, or with nothing but the seed of a user.
    pub credentials: Option<PathBuf>,
    /// How many servers keep each message, from 1 to 5.
    pub replicas: u8,
    /// What all drivers are made of.
    pub remote: RemoteOptions,
}
