//! Connection between a controller and an agent: TLS if it is wanted, frames in by a thread, frames
//! out at once.
//!
//! Never: decides who may start a load; the token does, inside.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use throng_tls::{
    Authorities, CertificateError, Certificates, ClientTls, MinVersion, RecordLayer, ServerTls,
    Site, TlsStream, Trust,
};

use crate::agents::{self, Nonce, ProtocolError};

/// Time in which a peer must complete the handshake.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// Time after which a peer that takes nothing is gone.
const WRITE_WITHIN: Duration = Duration::from_secs(10);
const READ_BYTES: usize = 64 << 10;

/// Certificate and key that an agent shows to controllers.
#[derive(Clone, Debug)]
pub struct AgentTls(ServerTls);

/// Certificates of agents that a controller accepts: of these authorities, or one of these itself.
#[derive(Clone, Debug)]
pub struct ControllerTls(Authorities);

#[derive(Debug, thiserror::Error)]
#[error("{file}: {why}")]
pub struct TlsError {
    file: String,
    why: String,
}

impl TlsError {
    fn of(file: &Path, why: impl fmt::Display) -> Self {
        Self {
            file: file.display().to_string(),
            why: why.to_string(),
        }
    }
}

fn read(file: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(file).map_err(|error| TlsError::of(file, error))
}

impl AgentTls {
    /// Reads PEM files: the agent's certificate, any between it and its authority behind it, and
    /// its key.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let site = Site::read_certificate("", &read(certificate)?)
            .map_err(|error| TlsError::of(certificate, error))?
            .with_key(&read(key)?)
            .map_err(|error| match error {
                CertificateError::OtherKey | CertificateError::KeyOfLater => {
                    TlsError::of(certificate, error)
                }
                _ => TlsError::of(key, error),
            })?;
        let shown = Certificates::new(&[site]);
        ServerTls::new(&shown, MinVersion::Tls12, RecordLayer::Rustls, None)
            .map(Self)
            .map_err(|error| TlsError::of(certificate, error))
    }

    /// Makes the handshake with a controller that has connected.
    pub(super) fn accept(&self, socket: TcpStream) -> io::Result<Ends> {
        Ends::secure(socket, |socket| TlsStream::accept(socket, &self.0))
            .map_err(|error| with_hint(error, "does the controller have --tls-ca?"))
    }
}

impl ControllerTls {
    pub fn read(authorities: &Path) -> Result<Self, TlsError> {
        Authorities::read(&read(authorities)?)
            .map(Self)
            .map_err(|error| TlsError::of(authorities, error))
    }

    /// Makes the handshake with an agent, whose certificate must be for `host`.
    pub(super) fn connect(&self, host: &str, socket: TcpStream) -> io::Result<Ends> {
        let tls = ClientTls::new(host, &Trust::Of(self.0.clone()), false);
        let tls = tls.map_err(io::Error::other)?.without_http();
        Ends::secure(socket, |socket| TlsStream::connect(socket, &tls))
            .map_err(|error| with_hint(error, "does the agent have --tls-cert, and for this name?"))
    }
}

fn with_hint(error: io::Error, hint: &str) -> io::Error {
    io::Error::new(error.kind(), format!("no TLS: {error}; {hint}"))
}

/// Ends of a connection, for a thread that reads and one that writes.
pub(super) struct Ends {
    socket: TcpStream,
    reads: Box<dyn Read + Send>,
    writes: Box<dyn Write + Send>,
}

impl Ends {
    pub(super) fn plain(socket: TcpStream) -> io::Result<Self> {
        Ok(Self {
            reads: Box::new(socket.try_clone()?),
            writes: Box::new(socket.try_clone()?),
            socket,
        })
    }

    fn secure(
        socket: TcpStream,
        shake: impl FnOnce(TcpStream) -> io::Result<TlsStream<TcpStream>>,
    ) -> io::Result<Self> {
        socket.set_read_timeout(Some(HANDSHAKE_WITHIN))?;
        socket.set_write_timeout(Some(HANDSHAKE_WITHIN))?;
        let stream = shake(socket.try_clone()?)?;
        socket.set_read_timeout(None)?;
        let (reads, writes) = stream.split(socket.try_clone()?);
        Ok(Self {
            socket,
            reads: Box::new(reads),
            writes: Box::new(writes),
        })
    }
}

pub(super) enum PeerEvent<M> {
    Message(M),
    End(String),
}

pub(super) struct PeerSender {
    socket: TcpStream,
    writes: Box<dyn Write + Send>,
}

impl PeerSender {
    pub(super) fn send<M: Serialize>(&mut self, message: &M) -> io::Result<()> {
        let mut frame = Vec::new();
        agents::encode(message, &mut frame).map_err(io::Error::other)?;
        self.writes.write_all(&frame)
    }

    /// Ends the connection in both directions, so that the thread that reads it ends too.
    pub(super) fn close(&self) {
        // The connection may have ended already.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }
}

/// Splits a connection: messages go to `on` from a thread of their own.
pub(super) fn split<M: DeserializeOwned + Send + 'static>(
    ends: Ends,
    mut on: impl FnMut(PeerEvent<M>) + Send + 'static,
) -> io::Result<PeerSender> {
    let Ends {
        socket,
        reads,
        writes,
    } = ends;
    socket.set_nodelay(true)?;
    socket.set_write_timeout(Some(WRITE_WITHIN))?;
    std::thread::Builder::new()
        .name("peer".into())
        .spawn(move || {
            let why = read_all(reads, &mut on);
            on(PeerEvent::End(why));
        })?;
    Ok(PeerSender { socket, writes })
}

/// Hands out messages as they become whole; returns the reason of the connection's end.
fn read_all<M: DeserializeOwned>(
    mut reads: impl Read,
    on: &mut impl FnMut(PeerEvent<M>),
) -> String {
    let mut kept: Vec<u8> = Vec::new();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match reads.read(&mut buffer) {
            Ok(0) => return "the connection ended".to_owned(),
            Ok(count) => kept.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return error.to_string(),
        }
        if let Err(error) = hand_out(&mut kept, on) {
            return error.to_string();
        }
    }
}

fn hand_out<M: DeserializeOwned>(
    kept: &mut Vec<u8>,
    on: &mut impl FnMut(PeerEvent<M>),
) -> Result<(), ProtocolError> {
    while let Some((message, used)) = agents::decode::<M>(kept)? {
        kept.drain(..used);
        on(PeerEvent::Message(message));
    }
    Ok(())
}

/// Draws 128 bits that nobody can guess.
pub(super) fn nonce() -> Nonce {
    let half = || u128::from(throng_sys::random::seed());
    half() << 64 | half()
}
