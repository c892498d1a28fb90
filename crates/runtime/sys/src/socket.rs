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
/// unless `net.ipv6.bindv6only` is set. Errors: those of socket(2), bind(2) and listen(2).
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
/// An IPv4 peer of an IPv6 listener has an IPv4-mapped address. Errors: `WouldBlock` when none
/// waits. Errors of the connection itself (`ECONNABORTED`, `EPROTO` and the network errors that
/// accept(2) lists) concern that connection only: accept again. `EMFILE` and `ENFILE` leave the
/// connection in the queue, so a level-triggered loop spins until a descriptor is free: back off.
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
/// `source` chooses the local address. With port 0 the kernel picks the port in connect(2) and not
/// in bind(2) (`IP_BIND_ADDRESS_NO_PORT`, ip(7)), so that one port serves as many connections as
/// there are targets. `SO_REUSEADDR` is set, so an explicit port is refused neither by `TIME_WAIT`
/// nor by another socket of this function that uses the port towards another target. The same four
/// numbers again are refused until `TIME_WAIT` ends or `tcp_tw_reuse` allows it. Errors:
/// `EADDRNOTAVAIL`: no source port is left for this target, or `source` is not an address of this
/// machine. `EMFILE`, `ENFILE`: no descriptor is left. Others as in connect(2).
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

/// Starts a connection to the socket at a path of this machine. Success means established. Errors:
/// `WouldBlock` if its backlog is full; those of connect(2), and `ENAMETOOLONG`.
pub fn connect_path(path: &Path) -> io::Result<OwnedFd> {
    let target = SocketAddrUnix::new(path)?;
    let fd = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
    retry_on_intr(|| net::connect(&fd, &target))?;
    Ok(fd)
}

/// Probes the peer after so long without a byte, and again and again. Errors: those of
/// setsockopt(2).
pub fn keep_alive(socket: BorrowedFd<'_>, after: Duration) -> io::Result<()> {
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, after)?;
    sockopt::set_tcp_keepintvl(socket, after)?;
    Ok(())
}

/// A socket that is connected to nothing, to hold a descriptor with. Errors: those of socket(2):
/// `EMFILE` and `ENFILE` without descriptors.
pub fn spare() -> io::Result<OwnedFd> {
    open(SocketAddr::from(([127, 0, 0, 1], 0)))
}

/// Reads into `buf` and returns how many bytes came; 0 is the peer's end of stream (or an empty
/// `buf`). Errors: `WouldBlock` when nothing has arrived; those of recv(2).
pub fn recv(fd: BorrowedFd<'_>, buf: &mut [u8]) -> io::Result<usize> {
    let (read, _) = retry_on_intr(|| net::recv(fd, &mut *buf, RecvFlags::empty()))?;
    Ok(read)
}

/// Hands bytes to the kernel and returns how many it took. Never raises `SIGPIPE`. Errors:
/// `WouldBlock` when the send buffer is full; `BrokenPipe` after the end; those of send(2).
pub fn send(fd: BorrowedFd<'_>, data: &[u8]) -> io::Result<usize> {
    Ok(retry_on_intr(|| net::send(fd, data, SendFlags::NOSIGNAL))?)
}

/// Hands several slices to the kernel in order, as one write; at most the first [`SLICES_MAX`].
///
/// Returns how many bytes it took in total. Never raises `SIGPIPE`.
pub fn send_vectored(fd: BorrowedFd<'_>, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    let slices = slices.get(..SLICES_MAX).unwrap_or(slices);
    let mut no_control = SendAncillaryBuffer::default();
    Ok(retry_on_intr(|| {
        net::sendmsg(fd, slices, &mut no_control, SendFlags::NOSIGNAL)
    })?)
}

/// Takes the pending error of a socket (`SO_ERROR`), which clears it. Errors: when the question
/// itself fails, which means that `fd` is not a socket.
pub fn take_error(fd: BorrowedFd<'_>) -> io::Result<Option<io::Error>> {
    Ok(sockopt::socket_error(fd)?.err().map(io::Error::from))
}

/// The address a socket is bound to. Errors: those of getsockname(2); `EAFNOSUPPORT` for a socket
/// that is not IP.
pub fn local_addr(fd: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    Ok(SocketAddr::try_from(net::getsockname(fd)?)?)
}

/// The address of a connection's peer. Errors: those of getpeername(2): `NotConnected` when the
/// connection has been reset.
pub fn peer_addr(fd: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    let peer = net::getpeername(fd)?.ok_or(Errno::NOTCONN)?;
    Ok(SocketAddr::try_from(peer)?)
}

/// Ends the stream towards the peer; reading goes on. Errors: `NotConnected` when the peer has
/// reset the connection.
pub fn shutdown_write(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(net::shutdown(fd, Shutdown::Write)?)
}

/// Makes close(2) reset the connection: unsent bytes are lost and no `TIME_WAIT` stays behind.
///
/// Meant for a load generator, which ends many connections and reuses their ports at once. Errors:
/// when `fd` is not a socket.
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
/// Right where the client speaks first: accepting and reading then take one wake-up. Errors: those
/// of setsockopt(2).
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

/// Listening TCP socket of this network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listening {
    pub port: u16,
    /// User whose process made it.
    pub user: u32,
    pub inode: u64,
}

/// Lists the listening TCP sockets, by the kernel's own tables (proc_net_tcp(5)). They have a line
/// for each connection too, so reading them takes long on a busy machine.
pub fn listening() -> Vec<Listening> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(std::fs::read_to_string);
    let lines = tables.iter().flatten().flat_map(|table| table.lines());
    lines.filter_map(listener_of).collect()
}

fn listener_of(line: &str) -> Option<Listening> {
    const LISTENS: &str = "0A";
    let mut words = line.split_whitespace();
    let (_, port) = words.nth(1)?.rsplit_once(':')?;
    let is_listening = words.nth(1)? == LISTENS;
    let listening = Listening {
        port: u16::from_str_radix(port, 16).ok()?,
        user: words.nth(3)?.parse().ok()?,
        inode: words.nth(1)?.parse().ok()?,
    };
    is_listening.then_some(listening)
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    const V4: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    const V6: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 0);

    /// Waits for the kernel, not for time: a hang here is a failure that the runner reports.
    fn wait(fd: &OwnedFd, flags: PollFlags) {
        let mut fds = [PollFd::new(fd, flags)];
        assert_eq!(retry_on_intr(|| poll(&mut fds, None)), Ok(1));
    }

    fn accept_one(listener: &OwnedFd) -> (OwnedFd, SocketAddr) {
        wait(listener, PollFlags::IN);
        accept(listener.as_fd()).expect("a connection waits")
    }

    fn pair(listener: &OwnedFd, source: Option<SocketAddr>) -> (OwnedFd, OwnedFd, SocketAddr) {
        let target = local_addr(listener.as_fd()).unwrap();
        let near = connect(source, target).expect("connect starts");
        wait(&near, PollFlags::OUT);
        assert!(take_error(near.as_fd()).unwrap().is_none());
        let (far, peer) = accept_one(listener);
        assert_eq!(local_addr(near.as_fd()).unwrap(), peer);
        (near, far, peer)
    }

    fn read_exactly(fd: &OwnedFd, len: usize) -> Vec<u8> {
        let mut got = Vec::new();
        let mut buf = [0; 4096];
        while got.len() < len {
            wait(fd, PollFlags::IN);
            let n = recv(fd.as_fd(), &mut buf).expect("readable");
            assert_ne!(n, 0, "the stream ended after {} bytes", got.len());
            got.extend_from_slice(&buf[..n]);
        }
        got
    }

    fn assert_flags(fd: &OwnedFd) {
        assert!(
            rustix::fs::fcntl_getfl(fd)
                .unwrap()
                .contains(rustix::fs::OFlags::NONBLOCK)
        );
        assert!(
            rustix::io::fcntl_getfd(fd)
                .unwrap()
                .contains(rustix::io::FdFlags::CLOEXEC)
        );
        assert!(sockopt::tcp_nodelay(fd).unwrap());
    }

    #[test]
    fn every_socket_is_nonblocking_close_on_exec_and_undelayed() {
        for addr in [V4, V6] {
            let Ok(listener) = listen(addr, 16) else {
                assert!(addr.is_ipv6(), "only IPv6 may be missing");
                continue;
            };
            let (near, far, _) = pair(&listener, None);
            for fd in [&listener, &near, &far] {
                assert_flags(fd);
            }
        }
    }

    #[test]
    fn nothing_to_do_is_would_block() {
        let listener = listen(V4, 16).unwrap();
        assert_eq!(
            accept(listener.as_fd()).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
        let (near, _far, _) = pair(&listener, None);
        assert_eq!(
            recv(near.as_fd(), &mut [0; 8]).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );

        let block = vec![0; 1 << 16];
        let full = loop {
            if let Err(error) = send(near.as_fd(), &block) {
                break error;
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn bytes_arrive_in_order_and_the_end_is_zero() {
        let listener = listen(V4, 16).unwrap();
        let (near, far, _) = pair(&listener, None);
        assert_eq!(send(near.as_fd(), b"one ").unwrap(), 4);
        let slices = [
            IoSlice::new(b"two "),
            IoSlice::new(b""),
            IoSlice::new(b"three"),
        ];
        assert_eq!(send_vectored(near.as_fd(), &slices).unwrap(), 9);
        assert_eq!(read_exactly(&far, 13), b"one two three");

        shutdown_write(near.as_fd()).unwrap();
        wait(&far, PollFlags::IN);
        assert_eq!(recv(far.as_fd(), &mut [0; 8]).unwrap(), 0);
        assert_eq!(send(far.as_fd(), b"still open").unwrap(), 10);
        assert_eq!(read_exactly(&near, 10), b"still open");
        assert_eq!(
            send(near.as_fd(), b"x").unwrap_err().kind(),
            io::ErrorKind::BrokenPipe
        );
    }

    #[test]
    fn more_slices_than_the_kernel_takes_are_cut_and_not_refused() {
        let listener = listen(V4, 16).unwrap();
        let (near, far, _) = pair(&listener, None);
        let slices = vec![IoSlice::new(b"x"); SLICES_MAX + 5];
        let sent = send_vectored(near.as_fd(), &slices).unwrap();
        assert_eq!(sent, SLICES_MAX);
        assert_eq!(read_exactly(&far, sent), vec![b'x'; SLICES_MAX]);
    }

    #[test]
    fn listeners_share_one_address() {
        let first = listen(V4, 16).unwrap();
        let addr = local_addr(first.as_fd()).unwrap();
        let second = listen(addr, 16).unwrap();
        assert_eq!(local_addr(second.as_fd()).unwrap(), addr);
    }

    #[test]
    fn a_source_without_port_leaves_the_port_to_connect() {
        for (bind, source) in [
            (V4, SocketAddr::from((Ipv4Addr::new(127, 0, 0, 77), 0))),
            (V6, V6),
        ] {
            let Ok(listener) = listen(bind, 16) else {
                assert!(bind.is_ipv6(), "only IPv6 may be missing");
                continue;
            };
            let (near, _far, peer) = pair(&listener, Some(source));
            assert_eq!(peer.ip(), source.ip());
            assert_ne!(peer.port(), 0);
            drop(near);
        }
        // The option itself: after bind(2) the port is still open.
        let fd = open(V4).unwrap();
        set_bind_address_no_port(fd.as_fd()).unwrap();
        net::bind(&fd, &V4).unwrap();
        assert_eq!(local_addr(fd.as_fd()).unwrap().port(), 0);
    }

    #[test]
    fn the_option_reports_a_descriptor_that_is_no_socket() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let error = set_bind_address_no_port(file.as_fd()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOTSOCK));
    }

    #[test]
    fn one_explicit_source_port_serves_several_targets() {
        let first = listen(V4, 16).unwrap();
        let second = listen(V4, 16).unwrap();
        let source = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 78), 0));
        let (near, _far, peer) = pair(&first, Some(source));
        let (_near, _far, again) = pair(&second, Some(peer));
        assert_eq!(again, peer);
        // The same pair of addresses a second time is refused.
        let target = local_addr(first.as_fd()).unwrap();
        let error = connect(Some(peer), target).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrNotAvailable);
        drop(near);
    }

    #[test]
    fn time_wait_does_not_refuse_an_explicit_source_port() {
        let listener = listen(V4, 16).unwrap();
        let second = listen(V4, 16).unwrap();
        let (near, far, peer) = pair(
            &listener,
            Some(SocketAddr::from((Ipv4Addr::new(127, 0, 0, 79), 0))),
        );
        // The active closer keeps TIME_WAIT.
        drop(near);
        wait(&far, PollFlags::IN);
        assert_eq!(recv(far.as_fd(), &mut [0; 1]).unwrap(), 0);
        drop(far);
        let (_near, _far, again) = pair(&second, Some(peer));
        assert_eq!(again, peer);
    }

    #[test]
    fn linger_zero_resets() {
        let listener = listen(V4, 16).unwrap();
        let (near, far, _) = pair(&listener, None);
        set_linger_zero(near.as_fd()).unwrap();
        drop(near);
        wait(&far, PollFlags::IN);
        let error = recv(far.as_fd(), &mut [0; 1]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }

    #[test]
    fn a_refused_connection_is_told_once() {
        let listener = listen(V4, 16).unwrap();
        let target = local_addr(listener.as_fd()).unwrap();
        drop(listener);
        let refused = match connect(None, target) {
            Err(error) => error,
            Ok(near) => {
                wait(&near, PollFlags::OUT);
                let error = take_error(near.as_fd()).unwrap().expect("refused");
                assert!(take_error(near.as_fd()).unwrap().is_none());
                error
            }
        };
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn listening_sockets_are_read_from_the_kernels_table() {
        let head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   \
                    uid  timeout inode";
        let line = |port: &str, state: &str| {
            format!(
                "   0: 0100007F:{port} 00000000:0000 {state} 00000000:00000000 00:00000000 \
                 00000000  997        0 4711 1 0000000000000000 100 0 0 10 0"
            )
        };
        let (port, user, inode) = (8001, 997, 4711);
        for (line, found) in [
            (line("1F41", "0A"), Some(Listening { port, user, inode })),
            (line("1F41", "01"), None),
            (line("x", "0A"), None),
            (head.to_owned(), None),
            (String::new(), None),
        ] {
            assert_eq!(listener_of(&line), found, "{line}");
        }
    }
}
