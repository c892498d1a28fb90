//! One connection's TLS: bytes from the peer in, what they say and what to answer out.
//!
//! Owns the connection's keys, and the start of a record that is not whole. Never: touches a
//! socket; keeps plaintext or sealed bytes, which are the caller's to queue.
//!
//! Invariants
//! - What [`TlsLink::seal`] and its like append to `wire` leaves in that order, each byte once:
//!   nothing is ever sealed a second time.
//! - Whatever was not read yet is kept in `partial`; rustls keeps places in there.
//! - If records shall be ours from the handshake on, rustls sees one at a time, and none after the
//!   last of the handshake: its answer to an update of keys would be lost when they change hands.
//! - A link that has failed takes and gives nothing more.

use std::mem;

use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::{CommonState, HandshakeKind, ProtocolVersion};
use throng_types::{Load, Save, Saved};

use crate::lean::{Lean, Shaken};
use crate::opening::{Opening, Preface};
use crate::suites::HTTP2;
use crate::suites::overhear;
use crate::talk::{Next, Talk, Words};
use crate::{ClientTls, ServerTls, TlsFault};

/// Bytes that may wait for their record or handshake message to be whole. Queue: `tls input`.
/// rustls takes handshake messages of 64 KiB, and a peer may cut one into small records.
const PARTIAL_BYTES_MAX: usize = 72 << 10;

enum Side {
    Server(Box<UnbufferedServerConnection>),
    Client(Box<UnbufferedClientConnection>),
    /// A server's, whose handshake rustls has done.
    Lean(Box<Lean>),
    /// Failed while the keys moved from rustls to our records.
    Gone,
}

pub struct TlsLink {
    side: Side,
    /// State that most connections need during the handshake, and hardly ever afterwards.
    aside: Option<Box<Aside>>,
    has_failed: bool,
}

impl TlsLink {
    /// The server's end of a new connection. Fails if there is no randomness to be had.
    pub fn server(tls: &ServerTls) -> Result<Self, TlsFault> {
        let config = tls.config.clone();
        let side = UnbufferedServerConnection::new(config).map_err(TlsFault::Refused)?;
        let aside = Aside {
            is_for_lean: tls.is_lean(),
            preface: tls.preface.map(Preface::new),
            opening: Some(Opening::default()),
            ..Aside::default()
        };
        Ok(Self::new(Side::Server(Box::new(side)), aside))
    }

    /// The client's end of a new connection to the server of this name. Fails if there is no
    /// randomness to be had.
    pub fn client(tls: &ClientTls) -> Result<Self, TlsFault> {
        let name = tls.name.clone();
        let config = tls.config.clone();
        let side = UnbufferedClientConnection::new(config, name).map_err(TlsFault::Refused)?;
        Ok(Self::new(Side::Client(Box::new(side)), Aside::default()))
    }

    fn new(side: Side, aside: Aside) -> Self {
        Self {
            side,
            aside: aside.is_of_use().then(|| Box::new(aside)),
            has_failed: false,
        }
    }

    /// Takes what waits to be whole.
    fn take_partial(&mut self) -> Vec<u8> {
        let aside = self.aside.as_mut();
        aside.map_or_else(Vec::new, |aside| mem::take(&mut aside.partial))
    }

    /// Keeps what is not whole, and nothing that is of no more use.
    fn keep(&mut self, partial: Vec<u8>) {
        let is_shaken = self.shaken().is_some();
        if let Some(aside) = self.aside.as_mut().filter(|_| is_shaken) {
            aside.opening = None;
        }
        if !partial.is_empty() && !self.has_failed {
            self.aside.get_or_insert_default().partial = partial;
        }
        if self.aside.as_ref().is_some_and(|aside| !aside.is_of_use()) {
            self.aside = None;
        }
    }

    fn is_for_lean(&self) -> bool {
        self.aside.as_ref().is_some_and(|aside| aside.is_for_lean)
    }

    /// Returns rustls's state of the connection, as long as rustls has it.
    pub(crate) fn common(&self) -> Option<&CommonState> {
        match &self.side {
            Side::Server(connection) => Some(connection),
            Side::Client(connection) => Some(connection),
            Side::Lean(_) | Side::Gone => None,
        }
    }

    pub const fn is_client(&self) -> bool {
        matches!(self.side, Side::Client(_))
    }

    /// Returns the outcome of the handshake; `None` before its end.
    pub fn shaken(&self) -> Option<Shaken> {
        if let Side::Lean(lean) = &self.side {
            return Some(lean.shaken());
        }
        let common = self.common()?;
        (!common.is_handshaking()).then(|| Shaken {
            is_tls13: common.protocol_version() == Some(ProtocolVersion::TLSv1_3),
            is_resumed: common.handshake_kind() == Some(HandshakeKind::Resumed),
            is_http2: common.alpn_protocol() == Some(HTTP2),
        })
    }

    /// Appends what a client says first to `wire`.
    pub fn start(&mut self, wire: &mut Vec<u8>) -> Result<(), TlsFault> {
        self.receive(&mut [], &mut Vec::new(), wire).map(drop)
    }

    /// Takes bytes of the peer's. Appends what they say to `plain`, and what is to be sent because
    /// of them to `wire`. True if the peer has said that nothing more will come from it. What
    /// stands before TLS, see [`ServerTls::behind`], goes to `plain` first, once the handshake is
    /// done. Errors: the fault that ends the connection; `wire` may have got an alert for the peer.
    /// Bytes in `plain` came before it.
    pub fn receive(
        &mut self,
        input: &mut [u8],
        plain: &mut Vec<u8>,
        wire: &mut Vec<u8>,
    ) -> Result<bool, TlsFault> {
        if self.has_failed {
            return Ok(false);
        }
        if let Some(preface) = self.aside.as_mut().and_then(|aside| aside.preface.take()) {
            return self.receive_behind(preface, input, plain, wire);
        }
        if let Some(opening) = self.aside.as_mut().and_then(|aside| aside.opening.as_mut())
            && let Err(fault) = opening.look(input, wire)
        {
            self.fail();
            return Err(fault);
        }
        let mut talk = Talk::new(plain, wire);
        let mut held = self.take_partial();
        let result = if held.is_empty() {
            let (used, result) = self.drive(input, &mut talk);
            held.extend_from_slice(&input[used..]);
            result
        } else {
            held.extend_from_slice(input);
            let (used, result) = self.drive(&mut held, &mut talk);
            if used < held.len() {
                held.drain(..used);
            } else {
                held = Vec::new();
            }
            result
        };
        let is_too_long = PARTIAL_BYTES_MAX < held.len();
        self.keep(held);
        let peer_closed = talk.peer_closed;
        result?;
        if is_too_long {
            self.fail();
            return Err(TlsFault::TooLong);
        }
        Ok(peer_closed)
    }

    /// Receives behind a preface, which is kept until the handshake is done.
    fn receive_behind(
        &mut self,
        mut preface: Preface,
        input: &mut [u8],
        plain: &mut Vec<u8>,
        wire: &mut Vec<u8>,
    ) -> Result<bool, TlsFault> {
        let result = match preface.take(input) {
            Err(why) => {
                self.fail();
                return Err(TlsFault::Preface(why));
            }
            Ok(None) => Ok(false),
            Ok(Some(mut rest)) => {
                let mut said = Vec::new();
                let result = self.receive(&mut rest, &mut said, wire);
                if self.shaken().is_some() {
                    plain.extend_from_slice(preface.bytes());
                    plain.append(&mut said);
                    return result;
                }
                result
            }
        };
        if !self.has_failed {
            self.aside.get_or_insert_default().preface = Some(preface);
        }
        result
    }

    /// Appends records that say `plain` to `wire`. Nothing is sealed before the handshake is done.
    /// Errors: see [`TlsFault`]; the connection cannot go on.
    pub fn seal(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> Result<(), TlsFault> {
        match &mut self.side {
            Side::Lean(_) if self.has_failed => Ok(()),
            Side::Lean(lean) => lean.seal(plain, wire),
            _ => self.say(Words::Data(plain), wire),
        }
    }

    /// Appends the word that nothing more will come (close_notify) to `wire`, once. What comes from
    /// the peer is still read.
    pub fn close(&mut self, wire: &mut Vec<u8>) {
        match &mut self.side {
            Side::Lean(_) if self.has_failed => {}
            Side::Lean(lean) => lean.close(wire),
            // Without keys it cannot be sealed.
            _ => drop(self.say(Words::Close, wire)),
        }
    }

    fn say(&mut self, words: Words<'_>, wire: &mut Vec<u8>) -> Result<(), TlsFault> {
        let mut nothing = Vec::new();
        let mut talk = Talk::new(&mut nothing, wire);
        talk.words = words;
        // rustls keeps places in what it has not read, so it sees the same bytes again.
        let mut held = self.take_partial();
        let (used, result) = self.drive(&mut held, &mut talk);
        debug_assert!(used == 0 && talk.plain.is_empty(), "all was read before");
        self.keep(held);
        result
    }

    fn fail(&mut self) {
        self.has_failed = true;
        self.aside = None;
    }

    /// Reads `input` and says what must be said. Gives how much was read.
    fn drive(&mut self, input: &mut [u8], talk: &mut Talk<'_>) -> (usize, Result<(), TlsFault>) {
        let mut used = 0;
        let aside = self.aside.as_mut();
        let mut whole = aside.map_or(0, |aside| mem::take(&mut aside.whole_bytes)) as usize;
        while !matches!(self.side, Side::Lean(_)) {
            let is_for_lean = self.is_for_lean();
            let record = { is_for_lean.then(|| &input[whole..]) }.and_then(record_bytes);
            let shown = record.map_or(input.len(), |bytes| whole + bytes);
            let result = self.shake(&mut input[..shown], &mut used, talk);
            let result = result.and_then(|()| {
                if used == shown && !talk.peer_closed {
                    self.slim()
                } else {
                    Ok(())
                }
            });
            if result.is_err() {
                return (input.len(), result);
            }
            if record.is_none() {
                if let Some(aside) = &mut self.aside {
                    aside.whole_bytes = whole.saturating_sub(used) as u32;
                }
                break;
            }
            whole = shown;
        }
        let Side::Lean(lean) = &mut self.side else {
            return (used, Ok(()));
        };
        let (opened, result) = lean.receive(&mut input[used..], talk.plain, talk.wire);
        if result.is_err() {
            self.fail();
        }
        let result = result.map(|peer_closed| talk.peer_closed = peer_closed);
        (used + opened, result)
    }

    /// Has rustls read what it has not `used` of `input`, and say what it must.
    fn shake(
        &mut self,
        input: &mut [u8],
        used: &mut usize,
        talk: &mut Talk<'_>,
    ) -> Result<(), TlsFault> {
        while !self.has_failed {
            let (discard, next) = self.step(&mut input[*used..], talk);
            *used += discard;
            match next {
                Ok(Next::Again) => {}
                Ok(Next::Enough) => break,
                Err(fault) => {
                    let alert_at = talk.wire.len();
                    // The alert for the peer. While there is one, nothing more is read.
                    while self.common().is_some_and(CommonState::wants_write) {
                        let _ = self.step(&mut input[*used..], talk);
                    }
                    let opening = self.aside.as_mut().and_then(|aside| aside.opening.take());
                    self.fail();
                    let alert = &mut talk.wire[alert_at..];
                    return Err(match opening {
                        Some(opening) => opening.correct(fault, alert),
                        None => fault,
                    });
                }
            }
        }
        Ok(())
    }

    fn step(&mut self, unread: &mut [u8], talk: &mut Talk<'_>) -> (usize, Result<Next, TlsFault>) {
        match &mut self.side {
            Side::Server(connection) => talk.step(connection.process_tls_records(unread)),
            Side::Client(connection) => talk.step(connection.process_tls_records(unread)),
            Side::Lean(_) | Side::Gone => (0, Ok(Next::Enough)),
        }
    }

    /// Whether another process can go on with it, once [`TlsLink::leave_rustls`] has taken its keys
    /// out. It cannot during the handshake, nor for a client's end.
    pub fn can_move(&self) -> bool {
        !self.has_failed
            && match &self.side {
                Side::Lean(_) => true,
                // What rustls has seen of a handshake message that is not whole is still in there.
                Side::Server(_) => self.shaken().is_some() && !self.holds_whole_record(),
                Side::Client(_) | Side::Gone => false,
            }
    }

    fn holds_whole_record(&self) -> bool {
        let partial = self.aside.as_ref().map(|aside| &*aside.partial);
        partial.and_then(record_bytes).is_some()
    }

    /// Takes the keys from rustls, so that the link can be saved and goes on with records of our
    /// own, wherever it does. What rustls had yet to say is appended to `wire`. False, and nothing
    /// changes, where [`TlsLink::can_move`] says no.
    ///
    /// The caller has neither said that nothing more comes nor heard it. Fails if rustls does not
    /// tell the keys; the connection cannot go on.
    pub fn leave_rustls(&mut self, wire: &mut Vec<u8>) -> Result<bool, TlsFault> {
        let shaken = match &self.side {
            Side::Server(_) if self.can_move() => self.shaken(),
            _ => None,
        };
        if let Some(shaken) = shaken {
            if shaken.is_tls13 {
                // The answer to an update of keys waits for the next record, and would be lost.
                self.say(Words::Waiting, wire)?;
            }
            self.take_keys(shaken)?;
        }
        Ok(matches!(self.side, Side::Lean(_)))
    }

    /// Takes the keys from rustls, once the handshake is done and all is said, if records shall be
    /// ours.
    pub(super) fn slim(&mut self) -> Result<(), TlsFault> {
        match self.shaken() {
            Some(shaken) if self.is_for_lean() => self.take_keys(shaken),
            _ => Ok(()),
        }
    }

    fn take_keys(&mut self, shaken: Shaken) -> Result<(), TlsFault> {
        if self.common().is_none_or(CommonState::wants_write) {
            return Ok(());
        }
        let Side::Server(connection) = mem::replace(&mut self.side, Side::Gone) else {
            return Ok(());
        };
        if let Some(aside) = &mut self.aside {
            aside.is_for_lean = false;
        }
        let (given, secrets) = overhear(|| connection.dangerous_into_kernel_connection());
        let lean = given
            .map_err(TlsFault::Refused)
            .and_then(|(keys, _)| Lean::new(keys, &secrets, shaken));
        match lean {
            Ok(lean) => self.side = Side::Lean(Box::new(lean)),
            Err(fault) => {
                self.fail();
                return Err(fault);
            }
        }
        Ok(())
    }
}

/// Returns the bytes of the first record, if it is whole.
fn record_bytes(input: &[u8]) -> Option<usize> {
    let (&[_, _, _, high, low], body) = input.split_first_chunk()?;
    let body_bytes = usize::from(u16::from_be_bytes([high, low]));
    (body_bytes <= body.len()).then_some(input.len() - body.len() + body_bytes)
}

/// State beside a connection's keys, kept as long as it is needed.
#[derive(Default)]
pub(super) struct Aside {
    /// Bytes of an incomplete record or handshake message. Bound: [`PARTIAL_BYTES_MAX`].
    pub(super) partial: Vec<u8>,
    /// Bytes at the start of `partial` that are whole records rustls has seen, if
    /// [`crate::lean::Lean`] goes on after the handshake.
    pub(super) whole_bytes: u32,
    /// [`crate::lean::Lean`] shall go on after the handshake.
    pub(super) is_for_lean: bool,
    /// Bytes that must come before TLS, until the handshake is done.
    pub(super) preface: Option<Preface>,
    /// First bytes of a client, until the handshake is done.
    pub(super) opening: Option<Opening>,
}

impl Aside {
    pub(super) const fn is_of_use(&self) -> bool {
        let is_shaking = self.preface.is_some() || self.opening.is_some();
        is_shaking || self.is_for_lean || !self.partial.is_empty()
    }
}

/// The keys, too, stand in the bytes: they are for a process that may know them, and are not wiped.
/// The process that loads them must not seal before the one that saved them has stopped doing so,
/// or a nonce would be used twice.
impl Save for TlsLink {
    fn save(&self, out: &mut Vec<u8>) {
        match &self.side {
            Side::Lean(lean) => lean.save(out),
            _ => debug_assert!(false, "it has not left rustls"),
        }
        let partial = self.aside.as_ref().map(|aside| &*aside.partial);
        partial.unwrap_or_default().save(out);
    }
}

impl Load for TlsLink {
    fn load(from: &mut Saved<'_>) -> Option<Self> {
        let lean = Lean::load(from)?;
        let partial = from.bytes()?;
        let aside = Aside {
            partial: partial.to_vec(),
            ..Aside::default()
        };
        let link = Self::new(Side::Lean(Box::new(lean)), aside);
        (partial.len() <= PARTIAL_BYTES_MAX).then_some(link)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lean::Secret;

    impl TlsLink {
        /// The record layer, once it is ours.
        pub(crate) fn lean(&mut self) -> Option<&mut Lean> {
            match &mut self.side {
                Side::Lean(lean) => Some(lean),
                _ => None,
            }
        }

        /// A client that has done its handshake, as a record layer that sends whatever a test
        /// likes.
        pub(crate) fn into_forger(self, secrets: &[Secret]) -> Lean {
            let shaken = self.shaken().unwrap();
            let Side::Client(connection) = self.side else {
                panic!("a client's end");
            };
            let (keys, _) = connection.dangerous_into_kernel_connection().unwrap();
            Lean::new(keys, secrets, shaken).unwrap_or_else(|fault| panic!("{fault}"))
        }

        /// Bytes that wait for their record to be whole.
        pub(crate) fn partial_bytes(&self) -> usize {
            self.aside
                .as_ref()
                .map_or(0, |aside| aside.partial.capacity())
        }
    }
}
