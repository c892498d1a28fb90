//! Authorities whose certificates are believed.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::CertificateError;

/// Authorities whose certificates are believed.
#[derive(Clone, Debug)]
pub struct Authorities(pub(crate) Arc<RootCertStore>);

impl Authorities {
    /// Those of a text in PEM form.
    ///
    /// # Errors
    /// If it has none, or one that is no certificate.
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
    #[must_use]
    pub fn of_this_machine() -> Self {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Self(Arc::new(roots))
    }
}
