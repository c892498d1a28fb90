//! TLS settings of servers: versions, tickets, and the certificate for each name.
//!
//! Owns the certificates, which can be replaced while connections live: those keep what they have.
//!
//! Invariant: ports that ask clients for certificates have tickets of their own, since a ticket
//! stands for a client that has shown one.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::server::{
    ClientHello, NoServerSessionStorage, ResolvesServerCert, ServerConfig, WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};

use crate::opening::PrefaceLength;
use crate::suites::HTTP2;
use crate::{Authorities, CertificateError, Site, suites};

/// Tickets that a client gets. One connection follows another, so each needs one; each costs a
/// record when the handshake is done.
const TICKETS: usize = 1;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MinVersion {
    /// TLS 1.2 (RFC 5246), with forward secrecy and authenticated encryption alone.
    #[default]
    Tls12,
    Tls13,
}

/// Record layer of connections after the handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordLayer {
    /// rustls, as during the handshake.
    #[default]
    Rustls,
    /// A record layer of our own, which takes a tenth of the memory.
    Lean,
}

/// The certificates of a server, by name. Clones are the same ones.
#[derive(Clone)]
pub struct Certificates(Arc<RwLock<Table>>);

struct Table {
    /// Used for clients that ask for no name, or for one that is not there.
    other: Option<Arc<CertifiedKey>>,
    named: HashMap<Box<str>, Arc<CertifiedKey>>,
}

impl Table {
    fn new(sites: &[Site]) -> Self {
        let other = sites.iter().find(|site| site.name.is_empty());
        let other = other.or_else(|| sites.first());
        let named = sites
            .iter()
            .map(|site| (site.name.clone(), site.certified.clone()));
        Self {
            other: other.map(|site| site.certified.clone()),
            named: named.collect(),
        }
    }

    fn find(&self, name: &str) -> Option<&Arc<CertifiedKey>> {
        let name = name.to_ascii_lowercase();
        let below = || {
            let (_, rest) = name.split_once('.')?;
            self.named.get(format!("*.{rest}").as_str())
        };
        self.named.get(name.as_str()).or_else(below)
    }
}

impl Certificates {
    /// With one certificate for each name. The first one is for all others if none is named so.
    pub fn new(sites: &[Site]) -> Self {
        Self(Arc::new(RwLock::new(Table::new(sites))))
    }

    /// Replaces all; handshakes from now on see them.
    pub fn replace(&self, sites: &[Site]) {
        let table = Table::new(sites);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = table;
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificates")
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let table = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let named = hello.server_name().and_then(|name| table.find(name));
        named.or(table.other.as_ref()).cloned()
    }
}

/// TLS settings of a listening port. Clones share the ticket keys.
#[derive(Clone, Debug)]
pub struct ServerTls {
    pub(crate) config: Arc<ServerConfig>,
    records: RecordLayer,
    pub(crate) preface: Option<PrefaceLength>,
}

impl ServerTls {
    /// A port with these certificates. With authorities, clients must show a certificate of one of
    /// them. Fails if the authorities cannot be used, or there is no randomness for tickets.
    pub fn new(
        certificates: &Certificates,
        min_version: MinVersion,
        records: RecordLayer,
        clients: Option<&Authorities>,
    ) -> Result<Self, CertificateError> {
        let versions = match min_version {
            MinVersion::Tls12 => &[&TLS13, &TLS12][..],
            MinVersion::Tls13 => &[&TLS13][..],
        };
        let fail = |error: &dyn fmt::Display| CertificateError::of(error);
        let provider = Arc::new(suites::provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)
            .map_err(|error| fail(&error))?;
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(Authorities(roots)) => {
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(roots.clone(), provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|error| fail(&error))?)
            }
        };
        let mut config = builder.with_cert_resolver(Arc::new(certificates.clone()));
        // Both are spoken (RFC 9112 section 2.3); a client that offers both gets the newer one.
        config.alpn_protocols = vec![b"http/1.1".to_vec(), b"http/1.0".to_vec()];
        // Tickets keep sessions with the clients; nothing of them is kept here.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.ticketer = Ticketer::new().map_err(|error| fail(&error))?;
        config.send_tls13_tickets = TICKETS;
        // For our own records, from the handshake or from an upgrade on.
        config.enable_secret_extraction = true;
        Ok(Self {
            config: Arc::new(config),
            records,
            preface: None,
        })
    }

    /// Returns these settings for a port that also speaks HTTP/2, with clients that offer it.
    pub fn with_http2(mut self) -> Self {
        let config = Arc::make_mut(&mut self.config);
        config.alpn_protocols.insert(0, HTTP2.to_vec());
        self
    }

    /// Returns these settings for a port on which other bytes come before TLS. The connection ends
    /// if it does not begin with them.
    pub const fn behind(mut self, preface: PrefaceLength) -> Self {
        self.preface = Some(preface);
        self
    }

    pub(crate) fn is_lean(&self) -> bool {
        self.records == RecordLayer::Lean
    }
}
