//! A connection to a broker's server, with or without TLS.
//!
//! One thread makes it and introduces itself; then it is split into what that thread reads on, and
//! what the driver writes to.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::time::Duration;

use throng_tls::{Authorities, ClientTls, ReadHalf, Trust, WriteHalf};

/// Whose certificates are believed: those of the authorities in this PEM file, or of those that
/// this machine believes. The file is read each time, so that it can be replaced.
///
/// # Errors
/// In words.
pub fn trust(authorities: Option<&Path>) -> Result<Trust, String> {
    let Some(path) = authorities else {
        return Ok(Trust::Of(Authorities::of_this_machine()));
    };
    let pem = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let read = Authorities::read(&pem);
    let read = read.map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Trust::Of(read))
}

/// The end of a connection that is written to, and that ends it.
pub trait Wire: Write + Send {
    /// Ends the connection: who reads it hears of that.
    fn shut_down(&self);
}

impl Wire for TcpStream {
    fn shut_down(&self) {
        let _ = self.shutdown(Shutdown::Both);
    }
}

impl Wire for WriteHalf<TcpStream> {
    fn shut_down(&self) {
        self.socket().shut_down();
    }
}

/// A connection that one thread has.
pub enum Stream {
    /// Without TLS.
    Plain(TcpStream),
    /// With it.
    Tls(Box<throng_tls::Stream<TcpStream>>),
}

/// The end of a connection that is read.
pub enum Reader {
    /// Without TLS.
    Plain(TcpStream),
    /// With it.
    Tls(Box<ReadHalf<TcpStream>>),
}

impl Stream {
    /// Connects to the first address of a name that answers. Every step may take `timeout` at most,
    /// and so may each read and write afterwards.
    ///
    /// # Errors
    /// The last address's reason.
    pub fn connect(host: &str, port: u16, timeout: Duration) -> io::Result<Self> {
        let mut stream = Err(io::Error::other("the name has no address"));
        for address in (host, port).to_socket_addrs()? {
            stream = TcpStream::connect_timeout(&address, timeout);
            if stream.is_ok() {
                break;
            }
        }
        let stream = stream?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(timeout))?;
        stream.set_read_timeout(Some(timeout))?;
        Ok(Self::Plain(stream))
    }

    /// Shakes hands with the server of this name.
    ///
    /// # Errors
    /// In words.
    pub fn secure(self, host: &str, trust: &Trust) -> Result<Self, String> {
        let Self::Plain(socket) = self else {
            return Ok(self);
        };
        let tls = ClientTls::new(host, trust, false);
        let tls = tls.map_err(|error| format!("TLS: {error}"))?;
        let stream = throng_tls::Stream::connect(socket, &tls.without_http());
        let stream = stream.map_err(|error| format!("TLS: {error}"))?;
        Ok(Self::Tls(Box::new(stream)))
    }

    /// How long a read may take from now on; at least a millisecond.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_read_timeout(&self, timeout: Duration) -> io::Result<()> {
        // Nothing at all would mean for ever.
        let timeout = timeout.max(Duration::from_millis(1));
        self.socket().set_read_timeout(Some(timeout))
    }

    /// Reads once, and waits for so long at most; how many bytes came, or none if nothing did in
    /// time.
    ///
    /// # Errors
    /// The kernel's or TLS's, and `UnexpectedEof` at the end.
    pub fn read_within(&mut self, wait: Duration, bytes: &mut [u8]) -> io::Result<Option<usize>> {
        self.set_read_timeout(wait)?;
        match self.read(bytes) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => Ok(Some(count)),
            Err(error) => match error.kind() {
                ErrorKind::Interrupted => Ok(Some(0)),
                ErrorKind::TimedOut | ErrorKind::WouldBlock => Ok(None),
                _ => Err(error),
            },
        }
    }

    const fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => stream.socket(),
        }
    }

    /// As two ends for two threads. From now on a read waits for as long as it takes.
    ///
    /// # Errors
    /// If the kernel has no descriptor.
    pub fn split(self) -> io::Result<(Reader, Box<dyn Wire>)> {
        self.socket().set_read_timeout(None)?;
        let writes = self.socket().try_clone()?;
        Ok(match self {
            Self::Plain(socket) => (Reader::Plain(socket), Box::new(writes)),
            Self::Tls(stream) => {
                let (reads, writes) = stream.split(writes);
                (Reader::Tls(Box::new(reads)), Box::new(writes))
            }
        })
    }
}

impl Reader {
    /// Ends the connection.
    pub fn shut_down(&self) {
        match self {
            Self::Plain(socket) => socket.shut_down(),
            Self::Tls(half) => half.socket().shut_down(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(into),
            Self::Tls(stream) => stream.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

impl Read for Reader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(into),
            Self::Tls(half) => half.read(into),
        }
    }
}
