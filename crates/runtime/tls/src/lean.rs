//! A record layer of our own, for the server's end of connections whose handshake rustls has done:
//! 330 bytes for an idle connection, where rustls keeps 2.5 kB. It goes on from the handshake, or
//! where rustls stands when a connection moves to another process.
//!
//! Owns: the keys of both directions, as raw secrets that are expanded for each burst of records,
//! and the start of a message that came in two records. Never: does a handshake, keeps plaintext or
//! sealed bytes, or goes on with a peer that it has refused.
//!
//! It speaks TLS 1.3 (RFC 8446), and TLS 1.2 with authenticated encryption (RFC 5288, RFC 7905).
//! It takes and refuses what rustls does; `tests/records.rs` compares the two.
//!
//! Invariants
//! - A nonce is used once for a key (see [`keys`]). A key of AES-GCM seals 2^23 records at most;
//!   then comes the next one, or the end in TLS 1.2.
//! - Nothing is taken after the peer's close_notify, and nothing is sealed after ours.
//! - Work that the peer asks for has a price: 32 updates of keys and empty records without data
//!   between them, one request to renegotiate, four warnings.

mod keys;
mod record;

use aws_lc_rs::aead::LessSafeKey;
use rustls::{AlertDescription, Error, ExtractedSecrets, InvalidMessage, PeerMisbehaved};
use throng_types::Save;

use self::keys::Direction;
use self::record::{
    ALERT, DATA, HANDSHAKE, HEADER_BYTES, RECORD_BYTES_MAX, Refusal, inappropriate, refuse,
};
use crate::TlsFault;

pub(crate) use self::keys::{Aead, Secret};

const WARNING: u8 = 1;
const FATAL: u8 = 2;
const CLIENT_HELLO: u8 = 1;
/// The type of a handshake message, and its length.
const HELLO_HEAD_BYTES: usize = 4;
/// A request for new keys (RFC 8446 section 4.6.3): type, length, and whether ours shall follow.
const KEY_UPDATE: [u8; 4] = [24, 0, 0, 1];
const KEY_UPDATE_BYTES: usize = KEY_UPDATE.len() + 1;
/// Updates of keys and empty records that may come without data between them.
const DATALESS_MAX: u8 = 32;
const WARNINGS_MAX: u8 = 4;

/// The server's end of a connection, from the end of the handshake on.
#[derive(Save)]
#[save(check = Self::is_sound)]
pub(crate) struct Lean {
    seals: Direction,
    opens: Direction,
    shaken: Shaken,
    /// The start of a handshake message, and how much of it is there.
    message: [u8; KEY_UPDATE_BYTES],
    message_bytes: u8,
    dataless_left: u8,
    warnings_left: u8,
    may_ask_to_shake: bool,
    has_closed: bool,
    peer_closed: bool,
}

impl Lean {
    /// Whether what was loaded can go on.
    fn is_sound(&self) -> bool {
        let is_tls13 = self.shaken.is_tls13;
        let has_keys = self.seals.is_of(is_tls13) && self.opens.is_of(is_tls13);
        has_keys && usize::from(self.message_bytes) < self.message.len()
    }

    /// Goes on where rustls stands, with what its two directions use. Hands are shaken, and nothing
    /// waits to be sent. In TLS 1.3 the keys come from two of `secrets`. Fails if rustls does not
    /// tell the keys.
    pub(crate) fn new(
        keys: ExtractedSecrets,
        secrets: &[Secret],
        shaken: Shaken,
    ) -> Result<Self, TlsFault> {
        let secrets = shaken.is_tls13.then_some(secrets);
        let direction = |(sequence, keys)| {
            Direction::new(sequence, &keys, secrets)
                .ok_or_else(|| TlsFault::Refused(Error::General("rustls keeps its keys".into())))
        };
        Ok(Self {
            seals: direction(keys.tx)?,
            opens: direction(keys.rx)?,
            shaken,
            message: [0; KEY_UPDATE_BYTES],
            message_bytes: 0,
            dataless_left: DATALESS_MAX,
            warnings_left: WARNINGS_MAX,
            may_ask_to_shake: true,
            has_closed: false,
            peer_closed: false,
        })
    }

    pub(crate) const fn shaken(&self) -> Shaken {
        self.shaken
    }

    /// Opens the whole records of `input`. Gives how much of it was read, and whether the peer says
    /// that nothing more will come.
    pub(crate) fn receive(
        &mut self,
        input: &mut [u8],
        plain: &mut Vec<u8>,
        wire: &mut Vec<u8>,
    ) -> (usize, Result<bool, TlsFault>) {
        let mut used = 0;
        let mut key = None;
        while !self.peer_closed {
            let read = self.record(&mut input[used..], &mut key, plain, wire);
            match read {
                Ok(0) => return (used, Ok(false)),
                Ok(bytes) => used += bytes,
                Err((alert, error)) => {
                    if let Some(alert) = alert {
                        self.alert(FATAL, alert, wire);
                    }
                    return (input.len(), Err(TlsFault::Refused(error)));
                }
            }
        }
        // Bytes after a close_notify are ignored (RFC 8446 section 6.1).
        (input.len(), Ok(true))
    }

    /// Opens one record. Gives its bytes, 0 if it is not whole.
    fn record(
        &mut self,
        input: &mut [u8],
        key: &mut Option<LessSafeKey>,
        plain: &mut Vec<u8>,
        wire: &mut Vec<u8>,
    ) -> Result<usize, Refusal> {
        let Some((header, rest)) = input.split_first_chunk_mut::<HEADER_BYTES>() else {
            return Ok(0);
        };
        let header = *header;
        let body_bytes = record::body_bytes(header, self.shaken.is_tls13)?;
        let Some(body) = rest.get_mut(..body_bytes) else {
            return Ok(0);
        };
        let key = key.get_or_insert_with(|| self.opens.expand());
        let is_tls13 = self.shaken.is_tls13;
        let (kind, opened) = record::open(&mut self.opens, key, is_tls13, header, body)?;
        if self.message_bytes != 0 && kind != HANDSHAKE {
            let fault = PeerMisbehaved::MessageInterleavedWithHandshakeMessage;
            return refuse(AlertDescription::UnexpectedMessage, fault);
        }
        match kind {
            DATA if opened.is_empty() => self.pay(PeerMisbehaved::TooManyEmptyFragments)?,
            DATA => {
                self.dataless_left = DATALESS_MAX;
                plain.extend_from_slice(opened);
            }
            ALERT => self.take_alert(opened)?,
            HANDSHAKE if self.shaken.is_tls13 => {
                if self.take_message(opened, wire)? {
                    *key = self.opens.expand();
                }
            }
            HANDSHAKE => self.take_hello(opened, wire)?,
            other => return refuse(AlertDescription::UnexpectedMessage, inappropriate(other)),
        }
        Ok(HEADER_BYTES + body_bytes)
    }

    fn take_alert(&mut self, said: &[u8]) -> Result<(), Refusal> {
        let &[level, what] = said else {
            let fault = InvalidMessage::MissingData("alert");
            return refuse(AlertDescription::DecodeError, fault);
        };
        let what = AlertDescription::from(what);
        if level != WARNING && level != FATAL {
            let fault = Error::AlertReceived(what);
            return refuse(AlertDescription::IllegalParameter, fault);
        }
        if what == AlertDescription::CloseNotify {
            self.peer_closed = true;
            return Ok(());
        }
        if level == FATAL {
            return Err((None, Error::AlertReceived(what)));
        }
        if self.warnings_left == 0 {
            let fault = PeerMisbehaved::TooManyWarningAlertsReceived;
            return refuse(AlertDescription::DecodeError, fault);
        }
        self.warnings_left -= 1;
        if self.shaken.is_tls13 && what != AlertDescription::UserCanceled {
            let fault = Error::AlertReceived(what);
            return refuse(AlertDescription::DecodeError, fault);
        }
        Ok(())
    }

    /// Takes a piece of a handshake message of TLS 1.2, which can only be a request to negotiate
    /// anew. Once its head is in `message`, the length there says how much of it is yet to come.
    fn take_hello(&mut self, mut piece: &[u8], wire: &mut Vec<u8>) -> Result<(), Refusal> {
        if piece.is_empty() {
            let fault = InvalidMessage::InvalidEmptyPayload;
            return refuse(AlertDescription::DecodeError, fault);
        }
        while let Some((byte, behind)) = piece.split_first() {
            let at = usize::from(self.message_bytes);
            if at == 0 && !(*byte == CLIENT_HELLO && self.may_ask_to_shake) {
                let fault = inappropriate(HANDSHAKE);
                return refuse(AlertDescription::UnexpectedMessage, fault);
            }
            if at < HELLO_HEAD_BYTES {
                self.message[at] = *byte;
                self.message_bytes += 1;
                piece = behind;
            }
            if usize::from(self.message_bytes) < HELLO_HEAD_BYTES {
                continue;
            }
            let [_, high, middle, low, _] = self.message;
            let left = u16::from_be_bytes([middle, low]);
            if high != 0 {
                let fault = InvalidMessage::HandshakePayloadTooLarge;
                return refuse(AlertDescription::DecodeError, fault);
            }
            let taken = piece.len().min(left.into());
            piece = &piece[taken..];
            let left = left - taken as u16;
            self.message[2..HELLO_HEAD_BYTES].copy_from_slice(&left.to_be_bytes());
            if left == 0 {
                self.message_bytes = 0;
                self.may_ask_to_shake = false;
                self.alert(WARNING, AlertDescription::NoRenegotiation, wire);
            }
        }
        Ok(())
    }

    /// Takes a piece of a handshake message of TLS 1.3. True if the peer has new keys from here on.
    fn take_message(&mut self, piece: &[u8], wire: &mut Vec<u8>) -> Result<bool, Refusal> {
        if piece.is_empty() {
            let fault = InvalidMessage::InvalidEmptyPayload;
            return refuse(AlertDescription::DecodeError, fault);
        }
        for (place, byte) in piece.iter().enumerate() {
            let at = usize::from(self.message_bytes);
            self.message[at] = *byte;
            self.message_bytes += 1;
            match KEY_UPDATE.get(at) {
                Some(expected) if expected == byte => {}
                Some(_) if at == 0 => {
                    let fault = inappropriate(HANDSHAKE);
                    return refuse(AlertDescription::UnexpectedMessage, fault);
                }
                Some(_) => {
                    let fault = InvalidMessage::InvalidKeyUpdate;
                    return refuse(AlertDescription::DecodeError, fault);
                }
                None => {
                    self.message_bytes = 0;
                    return self.take_key_update(*byte, &piece[place + 1..], wire);
                }
            }
        }
        Ok(false)
    }

    fn take_key_update(
        &mut self,
        request: u8,
        behind: &[u8],
        wire: &mut Vec<u8>,
    ) -> Result<bool, Refusal> {
        if !behind.is_empty() {
            let fault = PeerMisbehaved::KeyEpochWithPendingFragment;
            return refuse(AlertDescription::UnexpectedMessage, fault);
        }
        self.pay(PeerMisbehaved::TooManyKeyUpdateRequests)?;
        match request {
            0 => {}
            1 if self.has_closed => {}
            1 => self.update_keys(wire),
            _ => {
                let fault = InvalidMessage::InvalidKeyUpdate;
                return refuse(AlertDescription::IllegalParameter, fault);
            }
        }
        self.opens.update();
        Ok(true)
    }

    /// Takes the price of a record that costs work and brings no data.
    fn pay(&mut self, fault: PeerMisbehaved) -> Result<(), Refusal> {
        let Some(left) = self.dataless_left.checked_sub(1) else {
            return refuse(AlertDescription::UnexpectedMessage, fault);
        };
        self.dataless_left = left;
        Ok(())
    }

    /// Says that ours are new keys from here on.
    fn update_keys(&mut self, wire: &mut Vec<u8>) {
        let mut message = [0; KEY_UPDATE_BYTES];
        message[..KEY_UPDATE.len()].copy_from_slice(&KEY_UPDATE);
        let key = self.seals.expand();
        self.seal_one(&key, HANDSHAKE, &message, wire);
        self.seals.update();
    }

    /// Appends records that say `plain`. Fails if TLS 1.2 may seal no more with its keys.
    pub(crate) fn seal(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> Result<(), TlsFault> {
        if self.has_closed {
            return Ok(());
        }
        let mut key = self.seals.expand();
        for piece in plain.chunks(RECORD_BYTES_MAX) {
            if self.seals.is_used_up() {
                if !self.shaken.is_tls13 {
                    return Err(TlsFault::Exhausted);
                }
                self.update_keys(wire);
                key = self.seals.expand();
            }
            self.seal_one(&key, DATA, piece, wire);
        }
        Ok(())
    }

    /// Appends the word that nothing more will come, once.
    pub(crate) fn close(&mut self, wire: &mut Vec<u8>) {
        if !self.has_closed {
            self.alert(WARNING, AlertDescription::CloseNotify, wire);
            self.has_closed = true;
        }
    }

    fn alert(&mut self, level: u8, what: AlertDescription, wire: &mut Vec<u8>) {
        if !self.has_closed {
            let key = self.seals.expand();
            self.seal_one(&key, ALERT, &[level, what.into()], wire);
        }
    }

    fn seal_one(&mut self, key: &LessSafeKey, kind: u8, plain: &[u8], wire: &mut Vec<u8>) {
        record::seal(
            &mut self.seals,
            key,
            self.shaken.is_tls13,
            (kind, plain),
            wire,
        );
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Save)]
pub struct Shaken {
    pub is_tls13: bool,
    /// The client came back with a ticket.
    pub is_resumed: bool,
    /// Both sides have agreed to speak HTTP/2 (ALPN).
    pub is_http2: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Lean {
        /// As if the keys of now had sealed and opened all that they may.
        pub(crate) fn use_up(&mut self) {
            self.seals.use_up();
            self.opens.use_up();
        }

        /// Seals whatever a test likes, as a record of this kind.
        pub(crate) fn forge(&mut self, kind: u8, plain: &[u8], wire: &mut Vec<u8>) {
            let key = self.seals.expand();
            self.seal_one(&key, kind, plain, wire);
        }

        /// Goes on to new keys without a word.
        pub(crate) fn forge_update(&mut self) {
            self.seals.update();
        }
    }
}
