//! TLS to origins: certificates checked against the machine's own list, or, for routes that
//! say `insecure`, not at all.

use std::io;
use std::sync::{Arc, OnceLock};

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

use crate::place::Key;

/// Made when the first route needs them: reading the machine's certificates takes a while.
#[derive(Default)]
pub(crate) struct Connectors {
    checking: OnceLock<TlsConnector>,
    trusting: OnceLock<TlsConnector>,
}

impl Connectors {
    pub(crate) async fn connect(
        &self,
        key: &Key,
        tcp: TcpStream,
    ) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(key.name.clone());
        let name = name.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let connector = if key.place.insecure {
            self.trusting.get_or_init(trusting)
        } else {
            self.checking.get_or_init(checking)
        };
        connector.connect(name, tcp).await
    }
}

fn builder()
-> tokio_rustls::rustls::ConfigBuilder<ClientConfig, tokio_rustls::rustls::WantsVerifier> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider knows the default versions")
}

fn checking() -> TlsConnector {
    let mut roots = RootCertStore::empty();
    // Certificates that cannot be read are left out; a machine without any refuses all origins.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let config = builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

fn trusting() -> TlsConnector {
    let verifier = Arc::new(Trust(aws_lc_rs::default_provider()));
    let config = builder()
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    TlsConnector::from(Arc::new(config.with_no_client_auth()))
}

/// Takes any certificate, but still checks that the origin holds its key.
#[derive(Debug)]
struct Trust(CryptoProvider);

impl ServerCertVerifier for Trust {
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
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(
            message,
            cert,
            dss,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(
            message,
            cert,
            dss,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
