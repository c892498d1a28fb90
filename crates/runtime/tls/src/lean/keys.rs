//! The keys of one direction of a connection, as raw secrets.
//!
//! Owns: key, nonce base, sequence number and, for TLS 1.3, the traffic secret that the next keys
//! come from. Never: keeps an expanded key; the code that seals or opens expands one for the burst.
//!
//! Invariants
//! - A nonce is given once for a key: [`Direction::nonce`] counts on each time, and new keys begin
//!   at zero.
//! - Secrets are wiped when they are replaced or dropped.

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Algorithm, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, UnboundKey,
};
use aws_lc_rs::hkdf;
use rustls::ConnectionTrafficSecrets;
use throng_types::Save;
use zeroize::Zeroize;

const KEY_BYTES_MAX: usize = 32;
const SECRET_BYTES_MAX: usize = 48;
/// Records that AES-GCM may seal with one key (RFC 8446 section 5.5 allows 2^24.5).
const GCM_RECORDS_MAX: u64 = 1 << 23;

#[derive(Clone, Copy, PartialEq, Eq, Save)]
pub(crate) enum Aead {
    Aes128,
    Aes256,
    ChaCha,
}

impl Aead {
    pub(crate) fn algorithm(self) -> &'static Algorithm {
        match self {
            Self::Aes128 => &AES_128_GCM,
            Self::Aes256 => &AES_256_GCM,
            Self::ChaCha => &CHACHA20_POLY1305,
        }
    }

    /// Whether TLS 1.2 sends half of the nonce with each record (RFC 5288 section 3).
    pub(super) fn sends_nonce(self) -> bool {
        self != Self::ChaCha
    }
}

/// A traffic secret of TLS 1.3 (RFC 8446 section 7.1): 32 bytes or 48, as long as its hash.
#[derive(Clone, Save)]
pub(crate) struct Secret {
    bytes: [u8; SECRET_BYTES_MAX],
    /// None for TLS 1.2, which has no such secret.
    used: u8,
}

impl Secret {
    const NONE: Self = Self {
        bytes: [0; SECRET_BYTES_MAX],
        used: 0,
    };

    pub(crate) fn new(secret: &[u8]) -> Self {
        let mut new = Self::NONE;
        if let Some(bytes) = new.bytes.get_mut(..secret.len()) {
            bytes.copy_from_slice(secret);
            new.used = secret.len() as u8;
        }
        new
    }

    /// Whether it is as long as one of TLS 1.3, or there is none, as in TLS 1.2.
    fn is_of(&self, is_tls13: bool) -> bool {
        match self.used {
            0 => !is_tls13,
            used => is_tls13 && [32, SECRET_BYTES_MAX].contains(&used.into()),
        }
    }

    /// Whether this is what rustls has expanded `key` from.
    fn makes(&self, key: &[u8]) -> bool {
        let mut made = [0; KEY_BYTES_MAX];
        let Some(made) = made.get_mut(..key.len()) else {
            return false;
        };
        self.expand(b"key", made);
        let is_it = made == key;
        made.zeroize();
        is_it
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.used)]
    }

    /// HKDF-Expand-Label with an empty context (RFC 8446 section 7.1).
    fn expand(&self, label: &[u8], out: &mut [u8]) {
        let algorithm = match usize::from(self.used) {
            SECRET_BYTES_MAX => hkdf::HKDF_SHA384,
            _ => hkdf::HKDF_SHA256,
        };
        let length = (out.len() as u16).to_be_bytes();
        let name_bytes = [(b"tls13 ".len() + label.len()) as u8];
        let info = [&length[..], &name_bytes, b"tls13 ", label, &[0]];
        hkdf::Prk::new_less_safe(algorithm, self.as_bytes())
            .expand(&info, Bytes(out.len()))
            .and_then(|okm| okm.fill(out))
            .expect("a key is shorter than 255 hashes");
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.bytes.zeroize();
    }
}

struct Bytes(usize);

impl hkdf::KeyType for Bytes {
    fn len(&self) -> usize {
        self.0
    }
}

#[derive(Save)]
pub(super) struct Direction {
    pub(super) aead: Aead,
    key: [u8; KEY_BYTES_MAX],
    iv: [u8; NONCE_LEN],
    secret: Secret,
    /// Records sealed or opened with this key.
    sequence: u64,
}

impl Direction {
    /// Whether TLS of this version can go on with it.
    pub(super) fn is_of(&self, is_tls13: bool) -> bool {
        self.secret.is_of(is_tls13)
    }

    /// Takes over the keys of rustls, with which `sequence` records were sealed or opened. For TLS
    /// 1.3, the key comes from one of `secrets`.
    pub(super) fn new(
        sequence: u64,
        keys: &ConnectionTrafficSecrets,
        secrets: Option<&[Secret]>,
    ) -> Option<Self> {
        let (aead, key, iv) = match keys {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (Aead::Aes128, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (Aead::Aes256, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (Aead::ChaCha, key, iv),
            _ => return None,
        };
        let mut direction = Self {
            aead,
            key: [0; KEY_BYTES_MAX],
            iv: iv.as_ref().try_into().ok()?,
            secret: Secret::NONE,
            sequence,
        };
        direction.key[..key.as_ref().len()].copy_from_slice(key.as_ref());
        if let Some(secrets) = secrets {
            let source = { secrets.iter() }.find(|secret| secret.makes(key.as_ref()))?;
            direction.secret = source.clone();
        }
        Some(direction)
    }

    /// The key, ready for a burst of records.
    pub(super) fn expand(&self) -> LessSafeKey {
        let algorithm = self.aead.algorithm();
        let key = UnboundKey::new(algorithm, &self.key[..algorithm.key_len()]);
        LessSafeKey::new(key.expect("the key is as long as its algorithm says"))
    }

    /// Whether this key may seal no further record.
    pub(super) fn is_used_up(&self) -> bool {
        self.aead.sends_nonce() && GCM_RECORDS_MAX <= self.sequence
    }

    #[cfg(test)]
    pub(super) fn use_up(&mut self) {
        self.sequence = GCM_RECORDS_MAX;
    }

    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The nonce of the next record (RFC 8446 section 5.3), which has then been used.
    pub(super) fn nonce(&mut self) -> [u8; NONCE_LEN] {
        let mut nonce = self.iv;
        for (byte, count) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= count;
        }
        self.sequence += 1;
        nonce
    }

    /// The nonce of a record that brings half of it (TLS 1.2 with GCM).
    pub(super) fn nonce_with(&mut self, explicit: [u8; 8]) -> [u8; NONCE_LEN] {
        let mut nonce = self.iv;
        nonce[4..].copy_from_slice(&explicit);
        self.sequence += 1;
        nonce
    }

    /// Goes on to the next keys (RFC 8446 section 7.2).
    pub(super) fn update(&mut self) {
        let mut next = self.secret.clone();
        let secret_bytes = usize::from(next.used);
        self.secret
            .expand(b"traffic upd", &mut next.bytes[..secret_bytes]);
        let key_bytes = self.aead.algorithm().key_len();
        next.expand(b"key", &mut self.key[..key_bytes]);
        next.expand(b"iv", &mut self.iv);
        self.secret = next;
        self.sequence = 0;
    }
}

impl Drop for Direction {
    fn drop(&mut self) {
        self.key.zeroize();
        self.iv.zeroize();
    }
}
