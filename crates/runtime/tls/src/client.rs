//! TLS settings of clients, and the authorities that they trust.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, Resumption};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use crate::suites::HTTP2;
use crate::{CertificateError, suites};

/// Servers that a client trusts.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Servers with a certificate of these authorities, for the name by which they were asked.
    Of(Authorities),
    /// Any server; certificates are not verified.
    Anybody,
}

/// TLS settings of a client for one server. Clones share the configuration.
#[derive(Clone)]
pub struct ClientTls {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) name: ServerName<'static>,
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientTls({:?})", self.name)
    }
}

impl ClientTls {
    /// Makes the settings for the server of this name or address. With `resumes`, later connections
    /// begin where earlier ones ended (tickets are kept, at most 256 of them). Fails if the name is
    /// none.
    pub fn new(name: &str, trust: &Trust, resumes: bool) -> Result<Self, Error> {
        let name = server_name(name)?;
        let mut config = client_config(trust)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        if !resumes {
            config.resumption = Resumption::disabled();
        }
        Ok(Self {
            config: Arc::new(config),
            name,
        })
    }

    /// A client as this one, for a server of another name. Fails if the name is none.
    pub fn for_name(&self, name: &str) -> Result<Self, Error> {
        Ok(Self {
            config: self.config.clone(),
            name: server_name(name)?,
        })
    }

    /// Returns these settings without HTTP's protocol name (ALPN), for other protocols.
    pub fn without_http(mut self) -> Self {
        Arc::make_mut(&mut self.config).alpn_protocols.clear();
        self
    }

    /// Returns these settings for connections that speak HTTP/2 alone.
    pub fn with_http2(mut self) -> Self {
        Arc::make_mut(&mut self.config).alpn_protocols = vec![HTTP2.to_vec()];
        self
    }

    /// Returns a client of the same name with another configuration.
    #[cfg(test)]
    pub(crate) fn with_config(&self, config: ClientConfig) -> Self {
        Self {
            config: Arc::new(config),
            name: self.name.clone(),
        }
    }
}

fn server_name(name: &str) -> Result<ServerName<'static>, Error> {
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(address) => Ok(ServerName::from(address)),
        Err(_) => {
            ServerName::try_from(bare.to_owned()).map_err(|error| Error::General(error.to_string()))
        }
    }
}

/// Returns the configuration that all clients start from, without application protocols (ALPN):
/// both versions, one provider. Fails if the provider does not know the versions.
pub fn client_config(trust: &Trust) -> Result<ClientConfig, Error> {
    let provider = Arc::new(suites::provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?;
    let builder = match trust {
        Trust::Of(Authorities(roots)) => builder.with_root_certificates(roots.clone()),
        Trust::Anybody => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody(provider))),
    };
    Ok(builder.with_no_client_auth())
}

/// Takes any certificate, but still checks that the server holds its key.
#[derive(Debug)]
pub(crate) struct Anybody(pub(crate) Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[derive(Clone, Debug)]
pub struct Authorities(pub(crate) Arc<RootCertStore>);

impl Authorities {
    /// Those of a text in PEM form. Fails if it has none, or one that is no certificate.
    pub fn read(pem: &[u8]) -> Result<Self, CertificateError> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| CertificateError::of(&error))?;
            roots
                .add(certificate)
                .map_err(|error| CertificateError::of(&error))?;
        }
        if roots.is_empty() {
            return Err(CertificateError::NoCertificate);
        }
        Ok(Self(Arc::new(roots)))
    }

    /// Those that this machine believes. Certificates that cannot be read are left out; without any
    /// no peer is trusted.
    pub fn of_this_machine() -> Self {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Self(Arc::new(roots))
    }
}
