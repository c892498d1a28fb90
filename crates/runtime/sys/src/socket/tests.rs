//! Sockets against the real kernel, over loopback only.

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
