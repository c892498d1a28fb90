//! The suites of TLS 1.3 for rustls' own records, with keys that are expanded for each record, and
//! with traffic secrets that can be taken out together with the keys.
//!
//! rustls keeps what its crypto library makes of a key for as long as the connection lives: 0.7 kB
//! for each direction of AES-GCM, which an idle connection has no use for. Here a connection keeps
//! 56 bytes, and pays for an expansion at each record.
//!
//! Owns: nothing beside the keys that rustls hands over, and traffic secrets while [`overhear`]
//! runs. Never: chooses a nonce, since rustls
//! counts; suites of TLS 1.2, which stay as the library has them.

use std::cell::RefCell;
use std::sync::LazyLock;

use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce as RecordNonce, UnboundKey};
use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, InboundPlainMessage, Iv, MessageDecrypter, MessageEncrypter,
    Nonce, OutboundOpaqueMessage, OutboundPlainMessage, PrefixedPayload, Tls13AeadAlgorithm,
    UnsupportedOperationError, make_tls13_aad,
};
use rustls::crypto::tls13::{Hkdf, HkdfExpander, OkmBlock};
use rustls::crypto::{ActiveKeyExchange, CryptoProvider, aws_lc_rs as library, hmac};
use rustls::{
    CipherSuite, CipherSuiteCommon, ConnectionTrafficSecrets, ContentType, Error, ProtocolVersion,
    SupportedCipherSuite, Tls13CipherSuite,
};

use crate::lean::{Aead, Secret};

/// Name of HTTP/2 in ALPN (RFC 9113 section 3.1).
pub(crate) const HTTP2: &[u8] = b"h2";

/// The library's provider, with these suites in place of its own for TLS 1.3.
pub(crate) fn provider() -> CryptoProvider {
    let mut provider = library::default_provider();
    for suite in &mut provider.cipher_suites {
        let ours = SUITES
            .iter()
            .find(|ours| ours.common.suite == suite.suite());
        if let Some(ours) = ours {
            *suite = SupportedCipherSuite::Tls13(ours);
        }
    }
    provider
}

static SUITES: LazyLock<Vec<Tls13CipherSuite>> = LazyLock::new(|| {
    let suites = library::DEFAULT_CIPHER_SUITES.iter();
    let suites = suites.filter_map(|suite| {
        let theirs = suite.tls13()?;
        Some(Tls13CipherSuite {
            common: CipherSuiteCommon {
                suite: theirs.common.suite,
                hash_provider: theirs.common.hash_provider,
                confidentiality_limit: theirs.common.confidentiality_limit,
            },
            // Once for the process.
            hkdf_provider: Box::leak(Box::new(Overheard(theirs.hkdf_provider))),
            aead_alg: aead(theirs.common.suite)?,
            quic: None,
        })
    });
    suites.collect()
});

fn aead(suite: CipherSuite) -> Option<&'static dyn Tls13AeadAlgorithm> {
    Some(match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => &Aead::Aes128,
        CipherSuite::TLS13_AES_256_GCM_SHA384 => &Aead::Aes256,
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => &Aead::ChaCha,
        _ => return None,
    })
}

impl Tls13AeadAlgorithm for Aead {
    fn encrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageEncrypter> {
        let aead = *self;
        Box::new(Way { aead, key, iv })
    }

    fn decrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageDecrypter> {
        let aead = *self;
        Box::new(Way { aead, key, iv })
    }

    fn key_len(&self) -> usize {
        self.algorithm().key_len()
    }

    fn extract_keys(
        &self,
        key: AeadKey,
        iv: Iv,
    ) -> Result<ConnectionTrafficSecrets, UnsupportedOperationError> {
        Ok(match self {
            Self::Aes128 => ConnectionTrafficSecrets::Aes128Gcm { key, iv },
            Self::Aes256 => ConnectionTrafficSecrets::Aes256Gcm { key, iv },
            Self::ChaCha => ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv },
        })
    }
}

thread_local! {
    /// Secrets that were expanded while [`overhear`] runs; none at other times. Bound: two of the
    /// connection whose keys are taken out.
    static HEARD: RefCell<Option<Vec<Secret>>> = const { RefCell::new(None) };
}

/// Runs `give`, in which rustls gives the keys of a connection away, and returns the traffic
/// secrets that it expands them from in TLS 1.3: they are not accessible, and the next keys come
/// from them.
pub(crate) fn overhear<T>(give: impl FnOnce() -> T) -> (T, Vec<Secret>) {
    HEARD.set(Some(Vec::with_capacity(2)));
    let given = give();
    (given, HEARD.take().unwrap_or_default())
}

/// The library's HKDF, for [`overhear`].
struct Overheard(&'static dyn Hkdf);

impl Hkdf for Overheard {
    fn extract_from_zero_ikm(&self, salt: Option<&[u8]>) -> Box<dyn HkdfExpander> {
        self.0.extract_from_zero_ikm(salt)
    }

    fn extract_from_secret(&self, salt: Option<&[u8]>, secret: &[u8]) -> Box<dyn HkdfExpander> {
        self.0.extract_from_secret(salt, secret)
    }

    fn extract_from_kx_shared_secret(
        &self,
        salt: Option<&[u8]>,
        exchange: Box<dyn ActiveKeyExchange>,
        peer_key: &[u8],
    ) -> Result<Box<dyn HkdfExpander>, Error> {
        self.0
            .extract_from_kx_shared_secret(salt, exchange, peer_key)
    }

    fn expander_for_okm(&self, secret: &OkmBlock) -> Box<dyn HkdfExpander> {
        HEARD.with_borrow_mut(|heard| {
            if let Some(heard) = heard {
                heard.push(Secret::new(secret.as_ref()));
            }
        });
        self.0.expander_for_okm(secret)
    }

    fn hmac_sign(&self, key: &OkmBlock, message: &[u8]) -> hmac::Tag {
        self.0.hmac_sign(key, message)
    }

    fn fips(&self) -> bool {
        self.0.fips()
    }
}

/// Keys of one direction, to seal or to open.
struct Way {
    aead: Aead,
    /// Wiped when it is dropped, as rustls has it.
    key: AeadKey,
    iv: Iv,
}

impl Way {
    fn expand(&self) -> Result<LessSafeKey, Error> {
        UnboundKey::new(self.aead.algorithm(), self.key.as_ref())
            .map(LessSafeKey::new)
            .map_err(|_| Error::EncryptError)
    }

    /// The nonce of a record (RFC 8446, section 5.3).
    fn nonce(&self, sequence: u64) -> RecordNonce {
        let Nonce(bytes) = Nonce::new(&self.iv, sequence);
        RecordNonce::assume_unique_for_key(bytes)
    }
}

impl MessageEncrypter for Way {
    fn encrypt(
        &mut self,
        message: OutboundPlainMessage<'_>,
        sequence: u64,
    ) -> Result<OutboundOpaqueMessage, Error> {
        let length = self.encrypted_payload_len(message.payload.len());
        let mut record = PrefixedPayload::with_capacity(length);
        record.extend_from_chunks(&message.payload);
        record.extend_from_slice(&message.typ.to_array());
        self.expand()?
            .seal_in_place_append_tag(
                self.nonce(sequence),
                Aad::from(make_tls13_aad(length)),
                &mut record,
            )
            .map_err(|_| Error::EncryptError)?;
        Ok(OutboundOpaqueMessage::new(
            ContentType::ApplicationData,
            // All records say so (RFC 8446, section 5.2).
            ProtocolVersion::TLSv1_2,
            record,
        ))
    }

    fn encrypted_payload_len(&self, payload_len: usize) -> usize {
        payload_len + size_of::<u8>() + self.aead.algorithm().tag_len()
    }
}

impl MessageDecrypter for Way {
    fn decrypt<'a>(
        &mut self,
        mut message: InboundOpaqueMessage<'a>,
        sequence: u64,
    ) -> Result<InboundPlainMessage<'a>, Error> {
        let key = self.expand()?;
        let record = &mut message.payload;
        let aad = Aad::from(make_tls13_aad(record.len()));
        let plain = key
            .open_in_place(self.nonce(sequence), aad, record)
            .map_err(|_| Error::DecryptError)?;
        let plain_bytes = plain.len();
        record.truncate(plain_bytes);
        message.into_tls13_unpadded_message()
    }
}
