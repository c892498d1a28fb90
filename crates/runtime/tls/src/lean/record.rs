//! One record: how it looks on the wire, sealed and opened.
//!
//! Never: knows what records before it said.

use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce};
use rustls::{AlertDescription, ContentType, Error, InvalidMessage, PeerMisbehaved};

use super::keys::Direction;

pub(super) const HEADER_BYTES: usize = 5;
const TAG_BYTES: usize = 16;
const EXPLICIT_NONCE_BYTES: usize = 8;
/// Bytes that a record says at most (RFC 8446 section 5.1).
pub(super) const RECORD_BYTES_MAX: usize = 1 << 14;
/// Bytes that a sealed record adds to its text at most (RFC 5246 section 6.2.3; TLS 1.3 allows
/// 256).
const EXPANSION_MAX: usize = 2048;

const CHANGE_CIPHER_SPEC: u8 = 20;
pub(super) const ALERT: u8 = 21;
pub(super) const HANDSHAKE: u8 = 22;
pub(super) const DATA: u8 = 23;

/// Reason for ending a connection, and the alert for the peer, if any.
pub(super) type Refusal = (Option<AlertDescription>, Error);

pub(super) fn refuse<T>(alert: AlertDescription, error: impl Into<Error>) -> Result<T, Refusal> {
    Err((Some(alert), error.into()))
}

/// Returns the bytes of a record behind its header.
pub(super) fn body_bytes(header: [u8; HEADER_BYTES], is_tls13: bool) -> Result<usize, Refusal> {
    let [kind, major, _, high, low] = header;
    if !(CHANGE_CIPHER_SPEC..=DATA).contains(&kind) {
        let fault = InvalidMessage::InvalidContentType;
        return refuse(AlertDescription::DecodeError, fault);
    }
    if major != 3 {
        let fault = InvalidMessage::UnknownProtocolVersion;
        return refuse(AlertDescription::DecodeError, fault);
    }
    if is_tls13 && kind != DATA {
        return refuse(AlertDescription::UnexpectedMessage, inappropriate(kind));
    }
    let bytes = usize::from(u16::from_be_bytes([high, low]));
    if RECORD_BYTES_MAX + EXPANSION_MAX < bytes {
        return refuse(
            AlertDescription::RecordOverflow,
            InvalidMessage::MessageTooLarge,
        );
    }
    Ok(bytes)
}

pub(super) fn seal(
    seals: &mut Direction,
    key: &LessSafeKey,
    is_tls13: bool,
    (kind, plain): (u8, &[u8]),
    wire: &mut Vec<u8>,
) {
    let sequence = seals.sequence();
    let nonce = seals.nonce();
    let tag = if is_tls13 {
        let body_bytes = (plain.len() + 1 + TAG_BYTES) as u16;
        let header = header(DATA, body_bytes);
        wire.extend_from_slice(&header);
        let text_at = wire.len();
        wire.extend_from_slice(plain);
        wire.push(kind);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let text = &mut wire[text_at..];
        key.seal_in_place_separate_tag(nonce, Aad::from(header), text)
    } else {
        let explicit: &[u8] = match seals.aead.sends_nonce() {
            true => &nonce[nonce.len() - EXPLICIT_NONCE_BYTES..],
            false => &[],
        };
        let body_bytes = (explicit.len() + plain.len() + TAG_BYTES) as u16;
        wire.extend_from_slice(&header(kind, body_bytes));
        wire.extend_from_slice(explicit);
        let text_at = wire.len();
        wire.extend_from_slice(plain);
        let said = aad12(sequence, [kind, 3, 3], plain.len());
        let nonce = Nonce::assume_unique_for_key(nonce);
        let text = &mut wire[text_at..];
        key.seal_in_place_separate_tag(nonce, Aad::from(said), text)
    };
    let tag = tag.expect("a record is shorter than what AES-GCM and ChaCha20 can seal");
    wire.extend_from_slice(tag.as_ref());
}

/// Opens one record: what it is, and what it says.
pub(super) fn open<'a>(
    opens: &mut Direction,
    key: &LessSafeKey,
    is_tls13: bool,
    header: [u8; HEADER_BYTES],
    body: &'a mut [u8],
) -> Result<(u8, &'a [u8]), Refusal> {
    if is_tls13 {
        open13(opens, key, header, body)
    } else {
        open12(opens, key, header, body).map(|text| (header[0], text))
    }
}

fn header(kind: u8, body_bytes: u16) -> [u8; HEADER_BYTES] {
    let [high, low] = body_bytes.to_be_bytes();
    [kind, 3, 3, high, low]
}

/// Returns the data that TLS 1.2 authenticates beside the text (RFC 5246 section 6.2.3.3).
fn aad12(sequence: u64, head: [u8; 3], text_bytes: usize) -> [u8; 13] {
    let mut said = [0; 13];
    said[..8].copy_from_slice(&sequence.to_be_bytes());
    said[8..11].copy_from_slice(&head);
    said[11..].copy_from_slice(&(text_bytes as u16).to_be_bytes());
    said
}

pub(super) fn inappropriate(kind: u8) -> Error {
    Error::InappropriateMessage {
        expect_types: vec![ContentType::ApplicationData, ContentType::Handshake],
        got_type: ContentType::from(kind),
    }
}

/// Opens a record of TLS 1.3: what it is, and what it says (RFC 8446 section 5.2).
fn open13<'a>(
    opens: &mut Direction,
    key: &LessSafeKey,
    header: [u8; HEADER_BYTES],
    body: &'a mut [u8],
) -> Result<(u8, &'a [u8]), Refusal> {
    let nonce = Nonce::assume_unique_for_key(opens.nonce());
    let text = key
        .open_in_place(nonce, Aad::from(header), body)
        .map_err(|_| (Some(AlertDescription::BadRecordMac), Error::DecryptError))?;
    if RECORD_BYTES_MAX + 1 < text.len() {
        return refuse(
            AlertDescription::RecordOverflow,
            Error::PeerSentOversizedRecord,
        );
    }
    // The kind stands behind the text, and zeros may stand behind it.
    let Some(at) = text.iter().rposition(|byte| *byte != 0) else {
        let fault = PeerMisbehaved::IllegalTlsInnerPlaintext;
        return refuse(AlertDescription::UnexpectedMessage, fault);
    };
    Ok((text[at], &text[..at]))
}

fn open12<'a>(
    opens: &mut Direction,
    key: &LessSafeKey,
    header: [u8; HEADER_BYTES],
    body: &'a mut [u8],
) -> Result<&'a [u8], Refusal> {
    let broken = (Some(AlertDescription::BadRecordMac), Error::DecryptError);
    let sequence = opens.sequence();
    let (nonce, sealed) = if opens.aead.sends_nonce() {
        let Some((explicit, sealed)) = body.split_first_chunk_mut::<EXPLICIT_NONCE_BYTES>() else {
            return Err(broken);
        };
        (opens.nonce_with(*explicit), sealed)
    } else {
        (opens.nonce(), body)
    };
    let Some(text_bytes) = sealed.len().checked_sub(TAG_BYTES) else {
        return Err(broken);
    };
    let said = aad12(sequence, [header[0], header[1], header[2]], text_bytes);
    let nonce = Nonce::assume_unique_for_key(nonce);
    let Ok(text) = key.open_in_place(nonce, Aad::from(said), sealed) else {
        return Err(broken);
    };
    if RECORD_BYTES_MAX < text.len() {
        return refuse(
            AlertDescription::RecordOverflow,
            Error::PeerSentOversizedRecord,
        );
    }
    Ok(text)
}
