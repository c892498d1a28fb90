//! TLS between a controller and its agents, over blocking sockets.
//!
//! Owns: keys and certificates from files, the handshake, and one connection that two threads use:
//! one reads, the other writes. Never: decides who may start a load; the token does, inside.
//!
//! Invariant: the state of the connection is locked while bytes go through it, never while a socket
//! is waited for.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, Connection, RootCertStore};
use rustls::{ServerConfig, ServerConnection};

/// Time in which a peer must complete the handshake.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// Certificate and key that an agent shows to controllers.
#[derive(Clone, Debug)]
pub struct AgentTls(Arc<ServerConfig>);

/// Certificates of agents that a controller accepts: of these authorities, or one of these itself.
#[derive(Clone, Debug)]
pub struct ControllerTls(Arc<ClientConfig>);

/// Refusal of a file for TLS.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {why}")]
pub struct TlsError {
    file: String,
    why: String,
}

impl TlsError {
    fn of(file: &Path, why: impl fmt::Display) -> Self {
        Self {
            file: file.display().to_string(),
            why: why.to_string(),
        }
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Vec<_> = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|error| TlsError::of(file, error))?;
    if found.is_empty() {
        return Err(TlsError::of(file, "there is no certificate in it"));
    }
    Ok(found)
}

impl AgentTls {
    /// Reads PEM files: the agent's certificate, any between it and its authority behind it, and
    /// its key.
    ///
    /// # Errors
    /// [`TlsError`] for files that cannot be read or do not belong together.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let chain = certificates(certificate)?;
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| TlsError::of(key, error))?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|config| config.with_no_client_auth().with_single_cert(chain, secret))
            .map_err(|error| TlsError::of(certificate, error))?;
        Ok(Self(Arc::new(config)))
    }

    /// Makes the handshake with a controller that has connected.
    pub(super) fn accept(&self, socket: &mut TcpStream) -> io::Result<Secured> {
        let connection = ServerConnection::new(self.0.clone()).map_err(io::Error::other)?;
        handshake(connection.into(), socket)
            .map_err(|error| with_hint(error, "does the controller have --tls-ca?"))
    }
}

impl ControllerTls {
    /// Reads a PEM file of authorities.
    ///
    /// # Errors
    /// [`TlsError`] for a file that cannot be read or has no certificate.
    pub fn read(authorities: &Path) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(authorities)? {
            let added = roots.add(certificate);
            added.map_err(|error| TlsError::of(authorities, error))?;
        }
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::of(authorities, error))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(Arc::new(config)))
    }

    /// Makes the handshake with an agent, whose certificate must be for `host`.
    pub(super) fn connect(&self, host: &str, socket: &mut TcpStream) -> io::Result<Secured> {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(bare.to_owned()).map_err(io::Error::other)?;
        let connection = ClientConnection::new(self.0.clone(), name).map_err(io::Error::other)?;
        handshake(connection.into(), socket)
            .map_err(|error| with_hint(error, "does the agent have --tls-cert, and for this name?"))
    }
}

fn with_hint(error: io::Error, hint: &str) -> io::Error {
    io::Error::new(error.kind(), format!("no TLS: {error}; {hint}"))
}

fn handshake(mut connection: Connection, socket: &mut TcpStream) -> io::Result<Secured> {
    // A message goes out whole, however long it is.
    connection.set_buffer_limit(None);
    socket.set_read_timeout(Some(HANDSHAKE_WITHIN))?;
    socket.set_write_timeout(Some(HANDSHAKE_WITHIN))?;
    while connection.is_handshaking() {
        connection.complete_io(socket)?;
    }
    socket.set_read_timeout(None)?;
    Ok(Secured(Arc::new(Mutex::new(connection))))
}

/// Connection after its handshake; clones share it.
#[derive(Clone)]
pub(super) struct Secured(Arc<Mutex<Connection>>);

impl Secured {
    fn lock(&self) -> io::Result<MutexGuard<'_, Connection>> {
        let panicked = |_| io::Error::other("the thread beside this one panicked");
        self.0.lock().map_err(panicked)
    }

    /// Decrypts bytes of the socket and appends their plaintext to `plain`.
    pub(super) fn receive(&self, mut sealed: &[u8], plain: &mut Vec<u8>) -> io::Result<()> {
        let mut connection = self.lock()?;
        loop {
            let state = connection.process_new_packets().map_err(io::Error::other)?;
            let length = plain.len();
            plain.resize(length + state.plaintext_bytes_to_read(), 0);
            connection
                .reader()
                .read_exact(plain.get_mut(length..).unwrap_or_default())?;
            if sealed.is_empty() {
                return Ok(());
            }
            connection.read_tls(&mut sealed)?;
        }
    }

    /// Encrypts `plain` and appends the bytes for the socket to `sealed`, with those of TLS itself.
    pub(super) fn send(&self, plain: &[u8], sealed: &mut Vec<u8>) -> io::Result<()> {
        let mut connection = self.lock()?;
        connection.writer().write_all(plain)?;
        while connection.wants_write() {
            connection.write_tls(sealed)?;
        }
        Ok(())
    }
}
