//! One connection's TLS: bytes from the peer in, what they say and what to answer out.
//!
//! Owns the connection's keys, and the start of a record that is not whole. Never: touches a
//! socket; keeps plaintext or sealed bytes, which are the caller's to queue.
//!
//! Invariants
//! - What [`Link::seal`] and its like append to `wire` leaves in that order, each byte once:
//!   nothing is ever sealed a second time.
//! - Whatever rustls has not read yet is kept in `partial`, since it keeps places in there.
//! - A link that has failed takes and gives nothing more.

use std::mem;
use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{CommonState, HandshakeKind, ProtocolVersion};

use crate::{ClientTls, Fault, ServerTls};

/// Bytes that may wait for their record or handshake message to be whole. Queue: `tls input`.
/// rustls takes handshake messages of 64 KiB, and a peer may cut one into small records.
const PARTIAL_BYTES_MAX: usize = 72 << 10;
/// What a record is longer than what it says, at most (TLS 1.2 with an explicit nonce).
const RECORD_OVERHEAD: usize = 5 + 8 + 16 + 1;
/// Bytes that a record says at most (RFC 8446 section 5.1).
const RECORD_BYTES_MAX: usize = 1 << 14;
/// Room for what rustls has to say itself, beside a record.
const SPARE_BYTES: usize = 64;

/// What is known once hands are shaken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shaken {
    /// TLS 1.3, not 1.2.
    pub is_tls13: bool,
    /// The client came back with a ticket.
    pub is_resumed: bool,
}

enum Side {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

/// One connection's TLS.
pub struct Link {
    side: Side,
    /// Bound: [`PARTIAL_BYTES_MAX`].
    partial: Vec<u8>,
    has_failed: bool,
}

impl Link {
    /// The server's end of a new connection.
    ///
    /// # Errors
    /// If there is no randomness to be had.
    pub fn server(tls: &ServerTls) -> Result<Self, Fault> {
        let side = UnbufferedServerConnection::new(tls.config()).map_err(Fault::Refused)?;
        Ok(Self::new(Side::Server(side)))
    }

    /// The client's end of a new connection to the server of this name.
    ///
    /// # Errors
    /// If there is no randomness to be had.
    pub fn client(tls: &ClientTls) -> Result<Self, Fault> {
        let name: ServerName<'static> = tls.name().clone();
        let config = Arc::clone(tls.config());
        let side = UnbufferedClientConnection::new(config, name).map_err(Fault::Refused)?;
        Ok(Self::new(Side::Client(side)))
    }

    const fn new(side: Side) -> Self {
        Self {
            side,
            partial: Vec::new(),
            has_failed: false,
        }
    }

    fn common(&self) -> &CommonState {
        match &self.side {
            Side::Server(connection) => connection,
            Side::Client(connection) => connection,
        }
    }

    /// Whether nothing can be sealed yet.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        self.common().is_handshaking()
    }

    /// Whether this is the client's end.
    #[must_use]
    pub const fn is_client(&self) -> bool {
        matches!(self.side, Side::Client(_))
    }

    /// How hands were shaken; none before.
    #[must_use]
    pub fn shaken(&self) -> Option<Shaken> {
        let common = self.common();
        (!common.is_handshaking()).then(|| Shaken {
            is_tls13: common.protocol_version() == Some(ProtocolVersion::TLSv1_3),
            is_resumed: common.handshake_kind() == Some(HandshakeKind::Resumed),
        })
    }

    /// Bytes that wait for their record to be whole.
    #[cfg(test)]
    pub(crate) fn partial_bytes(&self) -> usize {
        self.partial.capacity()
    }

    /// Appends what a client says first to `wire`.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn start(&mut self, wire: &mut Vec<u8>) -> Result<(), Fault> {
        self.receive(&mut [], &mut Vec::new(), wire).map(drop)
    }

    /// Takes bytes of the peer's. Appends what they say to `plain`, and what is to be sent because
    /// of them to `wire`. True if the peer has said that nothing more will come from it.
    ///
    /// # Errors
    /// What ends the connection; `wire` may have got an alert that tells the peer. What `plain` got
    /// was said before.
    pub fn receive(
        &mut self,
        input: &mut [u8],
        plain: &mut Vec<u8>,
        wire: &mut Vec<u8>,
    ) -> Result<bool, Fault> {
        if self.has_failed {
            return Ok(false);
        }
        let mut talk = Talk::new(plain, wire);
        let result = if self.partial.is_empty() {
            let (used, result) = self.drive(input, &mut talk);
            self.partial.extend_from_slice(&input[used..]);
            result
        } else {
            let mut held = mem::take(&mut self.partial);
            held.extend_from_slice(input);
            let (used, result) = self.drive(&mut held, &mut talk);
            if used < held.len() {
                held.drain(..used);
                self.partial = held;
            }
            result
        };
        let peer_closed = talk.peer_closed;
        result?;
        if PARTIAL_BYTES_MAX < self.partial.len() {
            self.fail();
            return Err(Fault::TooLong);
        }
        Ok(peer_closed)
    }

    /// Appends records that say `plain` to `wire`. Nothing is sealed before hands are shaken.
    ///
    /// # Errors
    /// See [`Fault`]; the connection cannot go on.
    pub fn seal(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> Result<(), Fault> {
        self.say(Words::Data(plain), wire)
    }

    /// Appends the word that nothing more will come (close_notify) to `wire`, once. What comes from
    /// the peer is still read.
    pub fn close(&mut self, wire: &mut Vec<u8>) {
        // Without keys there is nobody to say it to.
        let _ = self.say(Words::Close, wire);
    }

    fn say(&mut self, words: Words<'_>, wire: &mut Vec<u8>) -> Result<(), Fault> {
        let mut nothing = Vec::new();
        let mut talk = Talk::new(&mut nothing, wire);
        talk.words = words;
        // rustls keeps places in what it has not read, so it sees the same bytes again.
        let mut held = mem::take(&mut self.partial);
        let (used, result) = self.drive(&mut held, &mut talk);
        debug_assert!(used == 0 && talk.plain.is_empty(), "all was read before");
        self.partial = held;
        result
    }

    fn fail(&mut self) {
        self.has_failed = true;
        self.partial = Vec::new();
    }

    /// Lets rustls read `input` and say what it has to. Gives how much was read.
    fn drive(&mut self, input: &mut [u8], talk: &mut Talk<'_>) -> (usize, Result<(), Fault>) {
        let mut used = 0;
        while !self.has_failed {
            let (discard, next) = self.step(&mut input[used..], talk);
            used += discard;
            match next {
                Ok(Next::Again) => {}
                Ok(Next::Enough) => break,
                Err(fault) => {
                    // The alert that tells the peer. While there is one, nothing more is read.
                    while self.common().wants_write() {
                        let _ = self.step(&mut input[used..], talk);
                    }
                    self.fail();
                    return (input.len(), Err(fault));
                }
            }
        }
        (used, Ok(()))
    }

    fn step(&mut self, unread: &mut [u8], talk: &mut Talk<'_>) -> (usize, Result<Next, Fault>) {
        match &mut self.side {
            Side::Server(connection) => talk.step(connection.process_tls_records(unread)),
            Side::Client(connection) => talk.step(connection.process_tls_records(unread)),
        }
    }
}

/// What the caller wants said.
#[derive(Clone, Copy)]
enum Words<'a> {
    Nothing,
    Data(&'a [u8]),
    Close,
}

enum Next {
    Again,
    Enough,
}

/// What one call takes and gives.
struct Talk<'a> {
    plain: &'a mut Vec<u8>,
    wire: &'a mut Vec<u8>,
    words: Words<'a>,
    peer_closed: bool,
}

impl<'a> Talk<'a> {
    const fn new(plain: &'a mut Vec<u8>, wire: &'a mut Vec<u8>) -> Self {
        Self {
            plain,
            wire,
            words: Words::Nothing,
            peer_closed: false,
        }
    }

    /// Does what one state of rustls' asks for. Gives how many bytes it has read.
    fn step<D>(&mut self, status: UnbufferedStatus<'_, '_, D>) -> (usize, Result<Next, Fault>) {
        let mut discard = status.discard;
        let state = match status.state {
            Ok(state) => state,
            Err(error) => return (discard, Err(Fault::Refused(error))),
        };
        let next = match state {
            ConnectionState::ReadTraffic(mut traffic) => {
                while let Some(record) = traffic.next_record() {
                    match record {
                        Ok(record) => {
                            discard += record.discard;
                            self.plain.extend_from_slice(record.payload);
                        }
                        Err(error) => return (discard, Err(Fault::Refused(error))),
                    }
                }
                Ok(Next::Again)
            }
            ConnectionState::EncodeTlsData(mut data) => append(self.wire, SPARE_BYTES, |room| {
                data.encode(room).map_err(|error| match error {
                    EncodeError::InsufficientSize(size) => Some(size.required_size),
                    EncodeError::AlreadyEncoded => None,
                })
            })
            .map(|()| Next::Again),
            ConnectionState::TransmitTlsData(data) => {
                data.done();
                Ok(Next::Again)
            }
            ConnectionState::PeerClosed => {
                self.peer_closed = true;
                Ok(Next::Again)
            }
            ConnectionState::WriteTraffic(mut traffic) => {
                let size = |error| match error {
                    EncryptError::InsufficientSize(size) => Some(size.required_size),
                    EncryptError::EncryptExhausted => None,
                };
                match mem::replace(&mut self.words, Words::Nothing) {
                    Words::Nothing => Ok(()),
                    Words::Data(data) => append(self.wire, sealed_bytes(data.len()), |room| {
                        traffic.encrypt(data, room).map_err(size)
                    }),
                    Words::Close => append(self.wire, SPARE_BYTES, |room| {
                        traffic.queue_close_notify(room).map_err(size)
                    }),
                }
                .map(|()| Next::Enough)
            }
            // Early data is never offered (`ServerConfig::max_early_data_size`).
            _ => Ok(Next::Enough),
        };
        (discard, next)
    }
}

const fn sealed_bytes(plain: usize) -> usize {
    plain + (plain / RECORD_BYTES_MAX + 1) * RECORD_OVERHEAD + SPARE_BYTES
}

/// Appends what `write` writes into the room that it is given. It says how much it needs if that is
/// more, or that it cannot.
fn append(
    wire: &mut Vec<u8>,
    guess: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<usize>>,
) -> Result<(), Fault> {
    let start = wire.len();
    let mut room = guess;
    loop {
        wire.resize(start + room, 0);
        match write(&mut wire[start..]) {
            Ok(written) => {
                wire.truncate(start + written);
                return Ok(());
            }
            Err(Some(needed)) if room < needed => room = needed,
            Err(_) => {
                wire.truncate(start);
                return Err(Fault::Exhausted);
            }
        }
    }
}
