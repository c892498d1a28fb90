//! A connection to a server: plain, or by TLS.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

use throng_tls::{Authorities, ClientTls, Stream as TlsStream, Trust};

use super::Endpoint;

/// Authorities that are trusted for TLS.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct TrustArgs {
    /// With https:// or wss://, accept any certificate
    #[arg(long, conflicts_with = "ca")]
    insecure: bool,
    /// With https:// or wss://, accept certificates of these authorities instead of this machine's:
    /// a PEM file
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

impl TrustArgs {
    fn trust(&self) -> io::Result<Trust> {
        if self.insecure {
            return Ok(Trust::Anybody);
        }
        let Some(file) = &self.ca else {
            return Ok(Trust::Of(Authorities::of_this_machine()));
        };
        let fail = |why: &dyn std::fmt::Display| {
            io::Error::other(format!("--ca {}: {why}", file.display()))
        };
        let pem = std::fs::read(file).map_err(|error| fail(&error))?;
        let authorities = Authorities::read(&pem).map_err(|error| fail(&error))?;
        Ok(Trust::Of(authorities))
    }
}

/// A connection to a server.
pub(super) enum Stream {
    Plain(TcpStream),
    Secure(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Performs the TLS handshake, if the endpoint speaks TLS.
    pub(super) fn over(
        socket: TcpStream,
        endpoint: &Endpoint,
        trust: &TrustArgs,
    ) -> io::Result<Self> {
        if !endpoint.is_tls() {
            return Ok(Self::Plain(socket));
        }
        let (host, _) = endpoint.host_and_port();
        let tls = ClientTls::new(host, &trust.trust()?, false).map_err(io::Error::other)?;
        Ok(Self::Secure(Box::new(TlsStream::connect(socket, &tls)?)))
    }

    pub(super) fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.set_read_timeout(timeout),
            Self::Secure(stream) => stream.socket().set_read_timeout(timeout),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(into),
            Self::Secure(stream) => stream.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Secure(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Secure(stream) => stream.flush(),
        }
    }
}
