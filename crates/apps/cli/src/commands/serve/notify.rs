//! Messages to systemd: that the server serves, and which process is the service.
//!
//! The protocol is that of sd_notify(3): a datagram of lines to the socket that `NOTIFY_SOCKET`
//! names. No listener is needed.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

pub(super) fn ready() {
    tell("READY=1");
}

/// Another process is the service from now on.
pub(super) fn main_pid(pid: u32) {
    tell(&format!("READY=1\nMAINPID={pid}"));
}

/// Why systemd, or a container, would end the new process together with this one; `None` if it
/// would not.
pub(super) fn objection() -> Option<&'static str> {
    let id = std::process::id();
    if id == 1 {
        return Some("this is process 1, with which the container ends: replace the container");
    }
    // Set for the process that a unit starts (systemd.exec(5)).
    let of_unit = std::env::var("SYSTEMD_EXEC_PID").ok();
    let is_service = of_unit.and_then(|text| text.parse::<u32>().ok()) == Some(id);
    (is_service && std::env::var_os("NOTIFY_SOCKET").is_none()).then_some(
        "systemd would not know of the new process and would end it: the unit needs Type=notify",
    )
}

fn tell(lines: &str) {
    if let Some(name) = std::env::var_os("NOTIFY_SOCKET")
        && let Err(error) = send(&name, lines)
    {
        tracing::warn!("cannot notify systemd: {error}");
    }
}

fn send(name: &OsStr, lines: &str) -> io::Result<()> {
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.send_to_addr(lines.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_arrive_at_a_name_and_at_a_path() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let name = format!("throng-test-notify-{}", std::process::id());
        let named = SocketAddr::from_abstract_name(&name).expect("a name");
        for (socket, at) in [
            (UnixDatagram::bind(&path), path.into_os_string()),
            (UnixDatagram::bind_addr(&named), format!("@{name}").into()),
        ] {
            send(&at, "READY=1").expect("somebody listens");
            let mut bytes = [0; 16];
            let count = socket
                .expect("a socket")
                .recv(&mut bytes)
                .expect("a datagram");
            assert_eq!(&bytes[..count], b"READY=1");
        }
        assert!(send(OsStr::new("/nobody/here"), "READY=1").is_err());
    }
}
