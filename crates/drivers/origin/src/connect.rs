//! Connections to origins, with or without TLS.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::place::Key;
use crate::pool::Quiet;
use crate::tls::Connectors;

/// After so long without a byte, the kernel asks whether the origin is still there.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// A connection to an origin.
pub(crate) enum Stream {
    /// To the target `test`, which is in this process.
    Test(DuplexStream),
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Connects, within so long.
    pub(crate) async fn connect(
        key: &Key,
        tls: &Connectors,
        within: Duration,
    ) -> Result<Self, String> {
        let connecting = async {
            let place = &key.place;
            let tcp = TcpStream::connect((place.host.as_str(), place.port)).await?;
            tcp.set_nodelay(true)?;
            let keepalive = TcpKeepalive::new()
                .with_time(KEEPALIVE)
                .with_interval(KEEPALIVE);
            SockRef::from(&tcp).set_tcp_keepalive(&keepalive)?;
            if !place.tls {
                return Ok(Self::Plain(tcp));
            }
            let stream = tls.connect(key, tcp).await?;
            Ok(Self::Tls(Box::new(stream)))
        };
        let at = || format!("{}:{}", key.place.host, key.place.port);
        match tokio::time::timeout(within, connecting).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => {
                let error: io::Error = error;
                Err(format!("{}: {error}", at()))
            }
            Err(_) => Err(format!(
                "{}: no connection within {} ms",
                at(),
                within.as_millis()
            )),
        }
    }
}

impl Quiet for Stream {
    fn is_quiet(&self) -> bool {
        let tcp = match self {
            // Each of its connections is for one request.
            Self::Test(_) => return false,
            Self::Plain(tcp) => tcp,
            Self::Tls(tls) => tls.get_ref().0,
        };
        let error = tcp.try_read(&mut [0]);
        matches!(error, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Test(pipe) => Pin::new(pipe).poll_read(cx, buf),
            Self::Plain(tcp) => Pin::new(tcp).poll_read(cx, buf),
            Self::Tls(tls) => Pin::new(tls).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Test(pipe) => Pin::new(pipe).poll_write(cx, bytes),
            Self::Plain(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Self::Tls(tls) => Pin::new(tls).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Test(pipe) => Pin::new(pipe).poll_flush(cx),
            Self::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Self::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Test(pipe) => Pin::new(pipe).poll_shutdown(cx),
            Self::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Self::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}
