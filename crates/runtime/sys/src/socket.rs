//! TCP sockets, all nonblocking and close-on-exec.
//!
//! Owns: which socket options a listener, an accepted and an outgoing connection carry. Never:
//! waits, loops over readiness, keeps a descriptor, interprets bytes.
//!
//! Every call reports "not now" as [`io::ErrorKind::WouldBlock`]. `EINTR` is retried, since a
//! nonblocking call that was interrupted did nothing.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    self, AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketAddrUnix,
    SocketFlags, SocketType, ipproto, sockopt,
};

/// The most slices one [`send_vectored`] hands to the kernel (`UIO_MAXIOV`); more would be
/// refused with `EMSGSIZE`.
pub const SLICES_MAX: usize = 1024;

const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

/// Opens a listener at `addr` with `SO_REUSEADDR`, `SO_REUSEPORT` and `TCP_NODELAY`.
///
/// Linux copies these options to accepted sockets, so no call per connection is needed. Several
/// listeners of one user may share the address; the kernel spreads connections over them. The
/// kernel cuts `backlog` to `net.core.somaxconn` silently. A listener at `[::]` also takes IPv4
/// unless `net.ipv6.bindv6only` is set.
///
/// # Errors
/// Those of socket(2), bind(2) and listen(2).
pub fn listen(addr: SocketAddr, backlog: i32) -> io::Result<OwnedFd> {
    let fd = open(addr)?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    sockopt::set_socket_reuseport(&fd, true)?;
    sockopt::set_tcp_nodelay(&fd, true)?;
    net::bind(&fd, &addr)?;
    net::listen(&fd, backlog)?;
    Ok(fd)
}

/// Takes one connection from a listener, with its peer's address.
///
/// An IPv4 peer of an IPv6 listener has an IPv4-mapped address.
///
/// # Errors
/// `WouldBlock` when none waits. Errors of the connection itself (`ECONNABORTED`, `EPROTO` and
/// the network errors that accept(2) lists) concern that connection only: accept again. `EMFILE`
/// and `ENFILE` leave the connection in the queue, so a level-triggered loop spins until a
/// descriptor is free: back off.
pub fn accept(listener: BorrowedFd<'_>) -> io::Result<(OwnedFd, SocketAddr)> {
    let (fd, peer) = retry_on_intr(|| net::acceptfrom_with(listener, FLAGS))?;
    // The kernel always names the peer of an accepted TCP connection; its absence means that
    // the connection is gone.
    let peer = peer.ok_or(Errno::CONNABORTED)?;
    Ok((fd, SocketAddr::try_from(peer)?))
}

/// Starts a connection to `target`; success means established or in progress.
///
/// When the socket turns writable, [`take_error`] says how it ended. `TCP_NODELAY` is set.
///
/// `source` chooses the local address. With port 0 the kernel picks the port in connect(2) and
/// not in bind(2) (`IP_BIND_ADDRESS_NO_PORT`, ip(7)), so that one port serves as many
/// connections as there are targets. `SO_REUSEADDR` is set, so an explicit port is refused neither
/// by `TIME_WAIT` nor by another socket of this function that uses the port towards another
/// target. The same four numbers again are refused until `TIME_WAIT` ends or `tcp_tw_reuse`
/// allows it.
///
/// # Errors
/// `EADDRNOTAVAIL`: no source port is left for this target, or `source` is not an address of
/// this machine. `EMFILE`, `ENFILE`: no descriptor is left. Others as in connect(2).
pub fn connect(source: Option<SocketAddr>, target: SocketAddr) -> io::Result<OwnedFd> {
    let fd = open(target)?;
    sockopt::set_tcp_nodelay(&fd, true)?;
    if let Some(source) = source {
        // On both kinds: the kernel allows a second user of a port only if all agreed.
        sockopt::set_socket_reuseaddr(&fd, true)?;
        if source.port() == 0 {
            set_bind_address_no_port(fd.as_fd())?;
        }
        net::bind(&fd, &source)?;
    }
    match net::connect(&fd, &target) {
        // An interrupted connect(2) goes on in the background, as connect(2) says.
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(fd),
        Err(errno) => Err(errno.into()),
    }
}

/// Starts a connection to the socket at a path of this machine. Success means established.
///
/// # Errors
/// `WouldBlock` if its backlog is full; those of connect(2), and `ENAMETOOLONG`.
pub fn connect_path(path: &Path) -> io::Result<OwnedFd> {
    let target = SocketAddrUnix::new(path)?;
    let fd = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
    retry_on_intr(|| net::connect(&fd, &target))?;
    Ok(fd)
}

/// Probes the peer after so long without a byte, and again and again.
///
/// # Errors
/// Those of setsockopt(2).
pub fn keep_alive(socket: BorrowedFd<'_>, after: Duration) -> io::Result<()> {
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, after)?;
    sockopt::set_tcp_keepintvl(socket, after)?;
    Ok(())
}

/// A socket that is connected to nothing, to hold a descriptor with.
///
/// # Errors
/// Those of socket(2): `EMFILE` and `ENFILE` without descriptors.
pub fn spare() -> io::Result<OwnedFd> {
    open(SocketAddr::from(([127, 0, 0, 1], 0)))
}

/// Reads into `buf` and returns how many bytes came; 0 is the peer's end of stream (or an empty
/// `buf`).
///
/// # Errors
/// `WouldBlock` when nothing has arrived; those of recv(2).
pub fn recv(fd: BorrowedFd<'_>, buf: &mut [u8]) -> io::Result<usize> {
    let (read, _) = retry_on_intr(|| net::recv(fd, &mut *buf, RecvFlags::empty()))?;
    Ok(read)
}

/// Hands bytes to the kernel and returns how many it took. Never raises `SIGPIPE`.
///
/// # Errors
/// `WouldBlock` when the send buffer is full; `BrokenPipe` after the end; those of send(2).
pub fn send(fd: BorrowedFd<'_>, data: &[u8]) -> io::Result<usize> {
    Ok(retry_on_intr(|| net::send(fd, data, SendFlags::NOSIGNAL))?)
}

/// Hands several slices to the kernel in order, as one write; at most the first [`SLICES_MAX`].
///
/// Returns how many bytes it took in total. Never raises `SIGPIPE`.
///
/// # Errors
/// As [`send`].
pub fn send_vectored(fd: BorrowedFd<'_>, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    let slices = slices.get(..SLICES_MAX).unwrap_or(slices);
    let mut no_control = SendAncillaryBuffer::default();
    Ok(retry_on_intr(|| {
        net::sendmsg(fd, slices, &mut no_control, SendFlags::NOSIGNAL)
    })?)
}

/// Takes the pending error of a socket (`SO_ERROR`), which clears it.
///
/// # Errors
/// When the question itself fails, which means that `fd` is not a socket.
pub fn take_error(fd: BorrowedFd<'_>) -> io::Result<Option<io::Error>> {
    Ok(sockopt::socket_error(fd)?.err().map(io::Error::from))
}

/// The address a socket is bound to.
///
/// # Errors
/// Those of getsockname(2); `EAFNOSUPPORT` for a socket that is not IP.
pub fn local_addr(fd: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    Ok(SocketAddr::try_from(net::getsockname(fd)?)?)
}

/// The address of a connection's peer.
///
/// # Errors
/// Those of getpeername(2): `NotConnected` when the connection has been reset.
pub fn peer_addr(fd: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    let peer = net::getpeername(fd)?.ok_or(Errno::NOTCONN)?;
    Ok(SocketAddr::try_from(peer)?)
}

/// Ends the stream towards the peer; reading goes on.
///
/// # Errors
/// `NotConnected` when the peer has reset the connection.
pub fn shutdown_write(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(net::shutdown(fd, Shutdown::Write)?)
}

/// Makes close(2) reset the connection: unsent bytes are lost and no `TIME_WAIT` stays behind.
///
/// Meant for a load generator, which ends many connections and reuses their ports at once.
///
/// # Errors
/// When `fd` is not a socket.
pub fn set_linger_zero(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(sockopt::set_socket_linger(fd, Some(Duration::ZERO))?)
}

fn open(addr: SocketAddr) -> io::Result<OwnedFd> {
    let family = if addr.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    Ok(net::socket_with(
        family,
        SocketType::STREAM,
        FLAGS,
        Some(ipproto::TCP),
    )?)
}

/// Neither rustix nor socket2 knows this option.
fn set_bind_address_no_port(fd: BorrowedFd<'_>) -> io::Result<()> {
    set_option(fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)
}

/// Lets a listener hand over connections only once their first bytes are there, or after
/// about so many seconds without (`TCP_DEFER_ACCEPT`, tcp(7)).
///
/// Right where the client speaks first: accepting and reading then take one wake-up.
///
/// # Errors
/// Those of setsockopt(2).
pub fn defer_accept(listener: BorrowedFd<'_>, seconds: u16) -> io::Result<()> {
    let seconds = libc::c_int::from(seconds);
    set_option(listener, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, seconds)
}

fn set_option(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: `fd` is borrowed, hence open for the whole call. The pointer and the length
    // describe the local `value`, which outlives the call; the kernel reads it and keeps nothing.
    let outcome = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if outcome == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests;
