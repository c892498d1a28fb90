//! Whether this machine's kernel speaks TLS: tried on connections to the machine itself.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::{fmt, io};

use super::{Cipher, Keys, TLS_RX, TLS_TX, attach, set_keys};

/// Why this machine's kernel cannot speak TLS.
#[derive(Debug)]
pub enum Lack {
    /// There is no connection to try it on.
    NoConnection(io::Error),
    /// It knows no TLS.
    NoTls(io::Error),
    /// It does not know this cipher.
    NoCipher(Cipher, io::Error),
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoConnection(error) => {
                write!(f, "it could not be tried on a loopback connection: {error}")
            }
            Self::NoTls(error) => write!(f, "this kernel does not offer TLS: {error}"),
            Self::NoCipher(cipher, error) => {
                write!(f, "this kernel's TLS does not know {cipher}: {error}")
            }
        }
    }
}

/// Tries on connections to this machine itself whether the kernel speaks TLS 1.3 with each cipher,
/// both ways. A kernel that has it as a module loads it now, if this process may ask for that.
///
/// # Errors
/// What is not there.
pub fn probe() -> Result<(), Lack> {
    for cipher in Cipher::ALL {
        let (socket, _peer) = pair().map_err(Lack::NoConnection)?;
        attach(socket.as_fd()).map_err(Lack::NoTls)?;
        let keys = Keys {
            cipher,
            is_tls13: true,
            key: &[1; 32][..cipher.key_bytes()],
            iv: &[2; 12],
            sequence: 0,
        };
        set_keys(socket.as_fd(), TLS_TX, &keys)
            .and_then(|()| set_keys(socket.as_fd(), TLS_RX, &keys))
            .map_err(|error| Lack::NoCipher(cipher, error))?;
    }
    Ok(())
}

/// Both ends of a connection to this machine itself.
pub(super) fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let here = TcpStream::connect(listener.local_addr()?)?;
    let (there, _) = listener.accept()?;
    Ok((here, there))
}
