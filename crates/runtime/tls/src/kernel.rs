//! What the kernel gets and gives where it makes the records: keys, and records that are not data.
//!
//! Never: makes a system call; the engine does. Keeps nothing of a connection.
//!
//! Invariant: no nonce that rustls has sealed with is in what the kernel will seal with.

use rustls::{
    AlertDescription, ConnectionTrafficSecrets, ContentType, Error, ExtractedSecrets,
    InvalidMessage, PeerMisbehaved,
};
use zeroize::Zeroize;

use crate::Fault;

const WARNING: u8 = 1;
const FATAL: u8 = 2;
const CLIENT_HELLO: u8 = 1;
const KEY_UPDATE: u8 = 24;
const KEY_BYTES_MAX: usize = 32;

/// The type of records that are alerts, for [`control`].
pub const ALERT: u8 = 21;
/// What says that nothing more will come (RFC 8446 section 6.1).
pub const CLOSE_NOTIFY: [u8; 2] = [WARNING, 0];
/// Records that one key of AES-GCM may seal: as many as with our own layer. The kernel makes no new
/// keys, so the connection ends here.
pub const KERNEL_RECORDS_MAX: u64 = 1 << 23;

/// What seals records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelCipher {
    /// AES-128-GCM.
    Aes128Gcm,
    /// AES-256-GCM.
    Aes256Gcm,
    /// ChaCha20-Poly1305.
    ChaCha20Poly1305,
}

/// The keys of one direction.
pub struct KernelKey {
    cipher: KernelCipher,
    is_tls13: bool,
    key: [u8; KEY_BYTES_MAX],
    iv: [u8; 12],
    sequence: u64,
}

impl KernelKey {
    pub(crate) fn new(
        is_tls13: bool,
        sequence: u64,
        keys: &ConnectionTrafficSecrets,
    ) -> Option<Self> {
        let (cipher, key, iv) = match keys {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (KernelCipher::Aes128Gcm, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (KernelCipher::Aes256Gcm, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => {
                (KernelCipher::ChaCha20Poly1305, key, iv)
            }
            _ => return None,
        };
        let mut new = Self {
            cipher,
            is_tls13,
            key: [0; KEY_BYTES_MAX],
            iv: iv.as_ref().try_into().ok()?,
            sequence,
        };
        new.key
            .get_mut(..key.as_ref().len())?
            .copy_from_slice(key.as_ref());
        Some(new)
    }

    /// The same for what is sealed from now on. In TLS 1.2 with GCM, rustls counts by XOR from the
    /// base, and the kernel adds to it: they would meet, so the kernel begins half way round, 2^63
    /// records from all that was used.
    pub(crate) const fn apart(mut self) -> Self {
        let counts = !self.is_tls13 && !matches!(self.cipher, KernelCipher::ChaCha20Poly1305);
        if counts {
            self.iv[4] ^= 0x80;
        }
        self
    }

    /// What it seals with.
    #[must_use]
    pub const fn cipher(&self) -> KernelCipher {
        self.cipher
    }

    /// TLS 1.3, not 1.2.
    #[must_use]
    pub const fn is_tls13(&self) -> bool {
        self.is_tls13
    }

    /// The key, as long as the cipher wants it.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        match self.cipher {
            KernelCipher::Aes128Gcm => &self.key[..16],
            KernelCipher::Aes256Gcm | KernelCipher::ChaCha20Poly1305 => &self.key,
        }
    }

    /// The base of the nonces; in TLS 1.2 with GCM the salt and the next explicit nonce.
    #[must_use]
    pub const fn iv(&self) -> &[u8; 12] {
        &self.iv
    }

    /// The number of the next record.
    #[must_use]
    pub const fn sequence(&self) -> u64 {
        self.sequence
    }
}

impl Drop for KernelKey {
    fn drop(&mut self) {
        self.key.zeroize();
        self.iv.zeroize();
    }
}

/// The keys of a connection whose hands are shaken; see [`crate::Link::take_keys`].
pub struct KernelKeys {
    /// What we seal with.
    pub sends: KernelKey,
    /// What the peer seals with.
    pub receives: KernelKey,
}

impl KernelKeys {
    pub(crate) fn new(secrets: &ExtractedSecrets, is_tls13: bool) -> Result<Self, Fault> {
        let key = |(sequence, keys): &(u64, ConnectionTrafficSecrets)| {
            KernelKey::new(is_tls13, *sequence, keys)
                .ok_or_else(|| Fault::Refused(Error::General("rustls keeps its keys".into())))
        };
        Ok(Self {
            sends: key(&secrets.tx)?.apart(),
            receives: key(&secrets.rx)?,
        })
    }
}

/// What follows from a record that is not application data.
#[derive(Debug)]
pub enum Control {
    /// It changes nothing; the connection goes on.
    GoOn,
    /// The peer has said that nothing more comes from it.
    End,
    /// The connection ends, after this alert if there is one.
    Refuse(Option<[u8; 2]>, Fault),
}

fn refuse(alert: AlertDescription, why: impl Into<Error>) -> Control {
    Control::Refuse(Some([FATAL, alert.into()]), Fault::Refused(why.into()))
}

/// What follows from a record of this type that the kernel has opened after the handshake. The
/// kernel keeps its keys, so a peer that asks for new ones hears that the connection ends here.
#[must_use]
pub fn control(kind: u8, said: &[u8]) -> Control {
    match kind {
        ALERT => alert(said),
        22 => match said.first() {
            Some(&KEY_UPDATE) => Control::Refuse(Some(CLOSE_NOTIFY), Fault::KeyUpdate),
            Some(&CLIENT_HELLO) => {
                let alert = [WARNING, AlertDescription::NoRenegotiation.into()];
                Control::Refuse(Some(alert), Fault::Refused(inappropriate(kind)))
            }
            _ => refuse(AlertDescription::UnexpectedMessage, inappropriate(kind)),
        },
        _ => refuse(AlertDescription::UnexpectedMessage, inappropriate(kind)),
    }
}

fn alert(said: &[u8]) -> Control {
    let &[level, what] = said else {
        return refuse(
            AlertDescription::DecodeError,
            InvalidMessage::MissingData("alert"),
        );
    };
    let what = AlertDescription::from(what);
    match (level, what) {
        (WARNING | FATAL, AlertDescription::CloseNotify) => Control::End,
        (WARNING, AlertDescription::UserCanceled) => Control::GoOn,
        (FATAL, _) => Control::Refuse(None, Fault::Refused(Error::AlertReceived(what))),
        (WARNING, _) => refuse(AlertDescription::DecodeError, Error::AlertReceived(what)),
        _ => refuse(
            AlertDescription::IllegalParameter,
            Error::AlertReceived(what),
        ),
    }
}

fn inappropriate(kind: u8) -> Error {
    Error::InappropriateMessage {
        expect_types: vec![ContentType::ApplicationData, ContentType::Alert],
        got_type: ContentType::from(kind),
    }
}

/// Why the kernel could not open a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unopened {
    /// It is not what the peer has sealed.
    Forged,
    /// It is longer than any record may be.
    TooLong,
    /// It is of another version of TLS, or none.
    Strange,
}

/// The alert for a record that the kernel could not open, and why the connection ends.
#[must_use]
pub fn unopened(why: Unopened) -> ([u8; 2], Fault) {
    let (alert, error) = match why {
        Unopened::Forged => (AlertDescription::BadRecordMac, Error::DecryptError),
        Unopened::TooLong => (
            AlertDescription::RecordOverflow,
            Error::PeerSentOversizedRecord,
        ),
        Unopened::Strange => (
            AlertDescription::ProtocolVersion,
            PeerMisbehaved::IllegalTlsInnerPlaintext.into(),
        ),
    };
    ([FATAL, alert.into()], Fault::Refused(error))
}
