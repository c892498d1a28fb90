//! The way of `throng upgrade` to the server: a Unix socket that is named after the API port.
//!
//! The name is an abstract one (unix(7)): no file is left behind, and only processes of the same
//! network namespace find it. Permission is decided by the kernel's word on the user at the other
//! end: the server's own user and root.
//!
//! Any process may take such a name first. So who asks looks at the other end too: it must be of
//! the user that owns the API port, of root, or of who asks.
//!
//! One line asks, one line answers: `ok PID`, or `error SENTENCE`.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use rustix::process::{Uid, geteuid};

/// Start of the request line; the milliseconds follow that the new process may take until it is
/// ready.
const UPGRADE: &str = "upgrade ";
/// Longest time that the server may take besides: each of its steps has a bound, and all of them
/// together have a shorter one.
const STEPS: Duration = Duration::from_secs(90);
/// Longest line of the dialogue, in bytes.
const LINE_BYTES_MAX: u64 = 4096;
/// Longest wait of the server for the request line, which comes with the connection.
const QUESTION: Duration = Duration::from_millis(500);

fn address(api_port: u16) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("throng-control-{api_port}"))
}

/// The server's end of the socket.
pub(crate) struct Control(UnixListener);

/// Client of the control socket that waits for an answer.
pub(crate) struct UpgradeCaller {
    stream: UnixStream,
    /// Time that the new process may take until it is ready.
    pub(crate) patience: Duration,
}

impl Control {
    pub(crate) fn bind(api_port: u16) -> io::Result<Self> {
        let listener = UnixListener::bind_addr(&address(api_port)?)?;
        listener.set_nonblocking(true)?;
        Ok(Self(listener))
    }

    /// The user whose process has the name of this server's control socket, if it is neither the
    /// own one nor root.
    pub(crate) fn stranger(api_port: u16) -> Option<u32> {
        let stream = UnixStream::connect_addr(&address(api_port).ok()?).ok()?;
        let peer = socket_peercred(&stream).ok()?.uid;
        (peer != geteuid() && peer != Uid::ROOT).then(|| peer.as_raw())
    }

    /// Returns the next caller that asks for an upgrade and is allowed to, if there is one.
    pub(crate) fn next(&self) -> Option<UpgradeCaller> {
        let (stream, _) = self.0.accept().ok()?;
        let peer = socket_peercred(&stream).ok()?.uid;
        if peer != geteuid() && peer != Uid::ROOT {
            let patience = Duration::ZERO;
            let asker = UpgradeCaller { stream, patience };
            asker.answer(&Err(
                "only root and the server's own user may ask".to_owned()
            ));
            return None;
        }
        stream.set_nonblocking(false).ok()?;
        stream.set_read_timeout(Some(QUESTION)).ok()?;
        let mut line = String::new();
        BufReader::new((&stream).take(LINE_BYTES_MAX))
            .read_line(&mut line)
            .ok()?;
        let patience_ms = line.trim_end().strip_prefix(UPGRADE)?.parse().ok()?;
        let patience = Duration::from_millis(patience_ms);
        Some(UpgradeCaller { stream, patience })
    }
}

impl UpgradeCaller {
    /// Sends the outcome: the id of the new process, or why there is none.
    pub(crate) fn answer(&self, result: &Result<u32, String>) {
        let line = match result {
            Ok(pid) => format!("ok {pid}\n"),
            Err(why) => format!("error {}\n", why.replace('\n', " ")),
        };
        // It may have gone.
        let _ = (&self.stream).write_all(line.as_bytes());
    }
}

/// Asks the server with this API port to upgrade, and waits for the outcome. Fails if there is no
/// such server; inside, what it said.
pub(crate) fn ask(api_port: u16, patience: Duration) -> io::Result<Result<u32, String>> {
    let mut stream = UnixStream::connect_addr(&address(api_port)?)?;
    // The question tells nothing, and the server waits for it: it comes before a look at tables
    // that can be long.
    stream.write_all(format!("{UPGRADE}{}\n", patience.as_millis()).as_bytes())?;
    let peer = socket_peercred(&stream)?;
    if !may_answer(peer.uid.as_raw(), geteuid().as_raw(), || {
        port_owners(api_port)
    }) {
        let pid = peer.pid.as_raw_nonzero();
        return Ok(Err(format!(
            "process {pid} of user {} has the name of this server's control socket and is not \
             the server: end it, or send SIGUSR2 to the server",
            peer.uid.as_raw()
        )));
    }
    stream.set_read_timeout(Some(patience + STEPS))?;
    let mut line = String::new();
    BufReader::new(stream.take(LINE_BYTES_MAX)).read_line(&mut line)?;
    let said = line.trim_end();
    if let Some(pid) = said.strip_prefix("ok ").and_then(|pid| pid.parse().ok()) {
        wait_for(pid, api_port);
        return Ok(Ok(pid));
    }
    match said.strip_prefix("error ") {
        Some(why) => Ok(Err(why.to_owned())),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Whether a process of user `peer` may stand for the server. Only root and the user that owns the
/// API port can be trusted; the caller trusts itself.
fn may_answer(peer: u32, own: u32, owners: impl FnOnce() -> Vec<u32>) -> bool {
    peer == own || peer == Uid::ROOT.as_raw() || owners().contains(&peer)
}

/// Lists the users whose processes listen on a port of this network namespace.
fn port_owners(port: u16) -> Vec<u32> {
    let listeners = throng_sys::socket::listening().into_iter();
    let owners = listeners.filter(|listener| listener.port == port);
    owners.map(|listener| listener.user).collect()
}

/// Waits a moment until a process can be asked itself.
fn wait_for(pid: u32, api_port: u16) {
    for _ in 0..100 {
        let connected = address(api_port).and_then(|address| UnixStream::connect_addr(&address));
        let listener = connected.and_then(|stream| Ok(socket_peercred(&stream)?));
        if listener.is_ok_and(|peer| peer.pid.as_raw_nonzero().get().cast_unsigned() == pid) {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_of_the_port_may_answer() {
        for (peer, own, owners, may) in [
            (997, 0, &[997][..], true),
            (1000, 0, &[997], false),
            (1000, 0, &[], false),
            (0, 1000, &[997], true),
            (1000, 1000, &[], true),
            (1001, 1000, &[], false),
        ] {
            assert_eq!(
                may_answer(peer, own, || owners.to_vec()),
                may,
                "{peer} {own} {owners:?}"
            );
        }
        // The tables are long on a busy machine: they are read only if needed.
        let unread = || unreachable!("read without need");
        assert!(may_answer(0, 1000, unread) && may_answer(1000, 1000, unread));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        assert_eq!(port_owners(port), [geteuid().as_raw()]);
    }
}
