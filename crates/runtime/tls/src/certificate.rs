//! Certificates and their keys: read, checked against each other, and looked at for what an
//! operator should know.
//!
//! Never: reads a file or the clock; texts and the time come in.

use std::fmt;
use std::sync::Arc;

use rustls::client::verify_server_name;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};

use crate::der;

const DAY_S: i64 = 86_400;
/// A certificate that holds for fewer days is worth a warning: those of ACME are renewed 30 days
/// before their end, so half of that is late.
const SOON_DAYS: i64 = 14;

/// Why a certificate or key cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    #[error(
        "there is no certificate in it; it needs lines from -----BEGIN CERTIFICATE----- to \
         -----END CERTIFICATE-----"
    )]
    NoCertificate,
    #[error(
        "there is no private key in it; it needs lines from -----BEGIN PRIVATE KEY----- (or EC, \
         or RSA) on, without a password"
    )]
    NoKey,
    #[error("the key does not belong to the certificate; both must come from the same order")]
    OtherKey,
    #[error(
        "the key belongs to a later certificate of the file; put the server's own first, then the \
         one that signed it, and so on"
    )]
    KeyOfLater,
    /// The text is not a certificate or key, or that one is of no use; says why.
    #[error("{0}")]
    Unusable(String),
}

impl CertificateError {
    pub(crate) fn of(why: &dyn fmt::Display) -> Self {
        Self::Unusable(why.to_string())
    }
}

/// Finding that is allowed but probably not meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Finding {
    #[error("the certificate expired {0} days ago: clients refuse it; renew it")]
    Expired(i64),
    #[error("the certificate expires in {0} days: renew it")]
    Soon(i64),
    /// The certificate is not valid yet.
    #[error("the certificate does not hold before {0} days have passed; check the clock")]
    Early(i64),
    /// The certificate of this place (from 1) was not signed by the one that follows.
    #[error(
        "certificate {0} of the file was not signed by the one after it; put the server's own \
         first, then the one that signed it, and so on"
    )]
    Order(usize),
    #[error("the certificate is not for {0}")]
    OtherName(String),
}

/// When a certificate holds, in Unix seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// First second at which the certificate is valid.
    pub not_before: i64,
    /// Last second at which the certificate is valid.
    pub not_after: i64,
}

impl Validity {
    /// Whole days until it ends; negative once it has.
    pub const fn days_left(self, now_s: i64) -> i64 {
        (self.not_after - now_s).div_euclid(DAY_S)
    }
}

/// A server's certificate, those between it and its authority, and its key.
#[derive(Clone, Debug)]
pub struct Site {
    /// The name that clients ask for, in lower case; empty for clients that ask for another.
    pub(crate) name: Box<str>,
    pub(crate) certified: Arc<CertifiedKey>,
    validity: Validity,
    findings: Vec<Finding>,
}

impl Site {
    /// Reads both from PEM texts. A name such as `push.example.com` or `*.example.com` is the one
    /// that clients ask for; the empty one stands for all others. Errors: a certificate that cannot
    /// be used, with the reason and what to do.
    pub fn read_certificate(name: &str, certificate: &[u8]) -> Result<Unkeyed, CertificateError> {
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(certificate)
            .collect::<Result<_, _>>()
            .map_err(|error| CertificateError::of(&error))?;
        let Some(own) = chain.first() else {
            return Err(CertificateError::NoCertificate);
        };
        let parsed =
            ParsedCertificate::try_from(own).map_err(|error| CertificateError::of(&error))?;
        let outlines: Option<Vec<_>> = chain.iter().map(|one| der::outline(one)).collect();
        let Some(outlines) = outlines else {
            return Err(CertificateError::of(
                &"one of its certificates cannot be read",
            ));
        };
        let mut findings = Vec::new();
        let mut pairs = outlines.windows(2);
        let wrong = pairs.position(|pair| pair[0].issuer != pair[1].subject);
        findings.extend(wrong.map(|before| Finding::Order(before + 1)));
        if !name.is_empty() && !covers(&parsed, name) {
            findings.push(Finding::OtherName(name.to_owned()));
        }
        let validity = Validity {
            not_before: outlines[0].not_before,
            not_after: outlines[0].not_after,
        };
        Ok(Unkeyed {
            name: name.to_ascii_lowercase().into(),
            chain,
            validity,
            findings,
        })
    }

    /// Returns the time for which the certificate is valid.
    pub const fn validity(&self) -> Validity {
        self.validity
    }

    /// Returns findings for the operator at this time (in Unix seconds).
    pub fn findings(&self, now_s: i64) -> Vec<Finding> {
        let days = self.validity.days_left(now_s);
        let time = if days < 0 {
            Some(Finding::Expired(-days))
        } else if now_s < self.validity.not_before {
            let wait = self.validity.not_before - now_s;
            Some(Finding::Early(wait.div_euclid(DAY_S) + 1))
        } else {
            (days < SOON_DAYS).then_some(Finding::Soon(days))
        };
        time.into_iter()
            .chain(self.findings.iter().cloned())
            .collect()
    }
}

/// A certificate whose key is yet to come.
pub struct Unkeyed {
    name: Box<str>,
    chain: Vec<CertificateDer<'static>>,
    validity: Validity,
    findings: Vec<Finding>,
}

impl Unkeyed {
    /// Adds the key, from a PEM text. Fails if it is none, or belongs to another certificate.
    pub fn with_key(self, key: &[u8]) -> Result<Site, CertificateError> {
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| match error {
            pem::Error::NoItemsFound => CertificateError::NoKey,
            other => CertificateError::of(&other),
        })?;
        let provider = aws_lc_rs::default_provider();
        let key = { provider.key_provider.load_private_key(key) }
            .map_err(|error| CertificateError::of(&error))?;
        let matches = |chain: Vec<CertificateDer<'static>>| {
            let certified = CertifiedKey::new(chain, key.clone());
            match certified.keys_match() {
                Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => Some(certified),
                Err(_) => None,
            }
        };
        let later = self.chain.get(1..).unwrap_or_default().to_vec();
        let Some(certified) = matches(self.chain) else {
            let is_later = later.into_iter().any(|one| matches(vec![one]).is_some());
            return Err(if is_later {
                CertificateError::KeyOfLater
            } else {
                CertificateError::OtherKey
            });
        };
        Ok(Site {
            name: self.name,
            certified: Arc::new(certified),
            validity: self.validity,
            findings: self.findings,
        })
    }
}

/// Whether a certificate is for a name, or for all below it if the name begins with `*.`.
fn covers(certificate: &ParsedCertificate<'_>, name: &str) -> bool {
    let name = match name.strip_prefix("*.") {
        Some(rest) => format!("any.{rest}"),
        None => name.to_owned(),
    };
    ServerName::try_from(name).is_ok_and(|name| verify_server_name(certificate, &name).is_ok())
}
