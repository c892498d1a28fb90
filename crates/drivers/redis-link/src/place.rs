//! A server of Redis on the network.

use std::path::Path;
use std::time::Duration;

use redis::{Client, ConnectionAddr};
use throng_remote::Stream;

/// Where Redis is, and who we are there.
#[derive(Clone, PartialEq, Eq)]
pub struct Place {
    /// A name or an address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// TLS is spoken.
    pub is_tls: bool,
    /// Without one, a password is the default user's.
    pub user: Option<String>,
    /// Nothing where none is asked for.
    pub password: Option<String>,
    /// The number of the database.
    pub db: i64,
}

impl std::fmt::Debug for Place {
    /// Without the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}/{}", self.host, self.port, self.db)
    }
}

impl Place {
    /// Reads what an address says; nothing if that is no server on the network, or one whose
    /// certificate is not to be looked at.
    #[must_use]
    pub fn of(client: &Client) -> Option<Self> {
        let info = client.get_connection_info();
        let (host, port, is_tls) = match info.addr() {
            ConnectionAddr::Tcp(host, port) => (host, port, false),
            ConnectionAddr::TcpTls {
                host,
                port,
                insecure: false,
                ..
            } => (host, port, true),
            _ => return None,
        };
        let settings = info.redis_settings();
        Some(Self {
            host: host.clone(),
            port: *port,
            is_tls,
            user: settings.username().map(str::to_owned),
            password: settings.password().map(str::to_owned),
            db: settings.db(),
        })
    }

    /// Connects; nothing is said yet. Each step, read and write may take `timeout`.
    ///
    /// # Errors
    /// In words.
    pub fn connect(&self, timeout: Duration, authorities: Option<&Path>) -> Result<Stream, String> {
        let stream = Stream::connect(&self.host, self.port, timeout);
        let stream = stream.map_err(|error| error.to_string())?;
        if !self.is_tls {
            return Ok(stream);
        }
        stream.secure(&self.host, &throng_remote::trust(authorities)?)
    }
}
