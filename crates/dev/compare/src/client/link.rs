//! Socket of a connection: it connects, sends what waits as the kernel takes it, and reads.
//!
//! Never: waits.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

#[derive(Debug)]
pub(super) struct Link {
    stream: TcpStream,
    is_connected: bool,
    /// Bytes to send; `sent` of them have left.
    waiting: Vec<u8>,
    sent: usize,
}

impl Link {
    /// Begins to connect; nothing waits yet.
    pub(super) fn start(address: SocketAddr, registry: &Registry, token: Token) -> Result<Self> {
        let fd = throng_sys::socket::connect(None, address).context("cannot connect")?;
        let mut stream = TcpStream::from_std(fd.into());
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Self {
            stream,
            is_connected: false,
            waiting: Vec::new(),
            sent: 0,
        })
    }

    pub(super) fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// Returns what waits, to append to; it leaves with [`Link::send`].
    pub(super) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.waiting
    }

    /// Sends what waits, as far as the kernel takes it; the rest follows once there is room. False
    /// while the socket is not connected.
    pub(super) fn send(&mut self) -> Result<bool> {
        if !self.is_connected {
            if let Some(error) = self.stream.take_error()? {
                return Err(error).context("cannot connect");
            }
            self.is_connected = self.stream.peer_addr().is_ok();
            if !self.is_connected {
                return Ok(false);
            }
        }
        while self.sent < self.waiting.len() {
            match self.stream.write(&self.waiting[self.sent..]) {
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("cannot send"),
            }
        }
        self.waiting.clear();
        self.sent = 0;
        Ok(true)
    }

    /// Reads once: the number of bytes, 0 at the end of the connection, none if nothing is there.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<Option<usize>> {
        loop {
            match self.stream.read(buffer) {
                Ok(bytes) => return Ok(Some(bytes)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("the connection broke"),
            }
        }
    }
}
