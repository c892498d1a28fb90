//! SIGUSR2 and `throng upgrade`: this binary's file is started anew and takes over. systemd is told
//! which process is the service.
//!
//! The protocol is that of sd_notify(3): a datagram of lines to the socket that `NOTIFY_SOCKET`
//! names. No listener is needed.

use std::ffi::{OsStr, OsString};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use signal_hook::consts::SIGUSR2;
use throng_server::Handle;
use throng_server::handover::{Predecessor, Program};

use crate::control::{Control, UpgradeCaller};
use crate::exit::{Exit, Failure};

/// Flag that tells a new process to take over.
const TAKE_OVER: &str = "--take-over";

/// Longest wait until a new process is ready, unless the caller asks for another.
const PATIENCE: Duration = Duration::from_secs(20);

/// Ways to ask for an upgrade, and the program that is started then.
pub(super) struct Upgrade {
    program: Program,
    signal: Arc<AtomicBool>,
    api_port: u16,
    control: Option<Control>,
    /// The name of the control socket was not free when it was last tried.
    is_taken: bool,
}

/// Listens to the process that this one takes over from.
pub(super) fn greet() -> Result<Predecessor, Failure> {
    let fail = |why: String| Failure::new(Exit::Start, format!("nothing to take over: {why}"));
    let socket = io::stdin().as_fd().try_clone_to_owned();
    Predecessor::greet(socket.map_err(|error| fail(error.to_string()))?).map_err(fail)
}

impl Upgrade {
    /// Catches SIGUSR2 from now on, and remembers how this process was started.
    pub(super) fn prepare() -> Result<Self, Failure> {
        let signal = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGUSR2, signal.clone())
            .map_err(|error| Failure::new(Exit::Start, format!("cannot catch signals: {error}")))?;
        Ok(Self {
            program: program(std::env::args_os()),
            signal,
            api_port: 0,
            control: None,
            is_taken: false,
        })
    }

    /// Lets `throng upgrade` find this server, as soon as no other one has its name.
    pub(super) const fn listen(&mut self, api: SocketAddr) {
        self.api_port = api.port();
    }

    /// Hands over if that was requested; true if another process serves now.
    pub(super) fn look(&mut self, handle: &Handle) -> bool {
        self.bind();
        let asker = self.control.as_ref().and_then(Control::next);
        if asker.is_none() && !self.signal.swap(false, Ordering::SeqCst) {
            return false;
        }
        self.program.patience = asker.as_ref().map_or(PATIENCE, |asker| asker.patience);
        let result = self.hand_over(handle);
        if result.is_ok() {
            // The new process listens there from now on.
            self.control = None;
        }
        asker
            .iter()
            .for_each(|asker: &UpgradeCaller| asker.answer(&result));
        result.is_ok()
    }

    fn hand_over(&self, handle: &Handle) -> Result<u32, String> {
        let path = self.program.path.display();
        tracing::info!("upgrade: starting {path}");
        let result = match objection() {
            Some(objection) => Err(objection.to_owned()),
            None => handle
                .hand_over(&self.program)
                .map_err(|error| error.to_string()),
        };
        match &result {
            Ok(pid) => {
                tell(&format!("READY=1\nMAINPID={pid}"));
                tracing::info!(pid, "upgrade: process {pid} serves from now on");
            }
            Err(why) => tracing::error!("upgrade failed, this process goes on: {why}"),
        }
        result
    }

    fn bind(&mut self) {
        if self.control.is_none() && self.api_port != 0 {
            let bound = Control::bind(self.api_port);
            if let Err(error) = &bound
                && !std::mem::replace(&mut self.is_taken, true)
            {
                let name = format!("throng-control-{}", self.api_port);
                match Control::stranger(self.api_port) {
                    Some(user) => tracing::warn!(
                        user,
                        "a process of another user has the control socket's name {name}: `throng \
                         upgrade` does not reach this server while it runs; SIGUSR2 does"
                    ),
                    // The old process lets go of it within a moment.
                    None => {
                        tracing::debug!("`throng upgrade` does not find this server yet: {error}");
                    }
                }
            }
            self.control = bound.ok();
        }
    }
}

/// Returns the program that this process was started as, with the flag to take over.
fn program(arguments: impl IntoIterator<Item = OsString>) -> Program {
    let mut arguments = arguments.into_iter();
    // The name by which it was called, not the file that this led to: a link may lead to another
    // version by now.
    let path = arguments.next().unwrap_or_else(|| "throng".into()).into();
    let others = arguments.filter(|argument| argument != TAKE_OVER);
    Program {
        path,
        arguments: others.chain([TAKE_OVER.into()]).collect(),
        patience: PATIENCE,
    }
}

/// Whether systemd has started this, or what started this (systemd.exec(5)).
pub(super) fn is_service() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some();
    is_set("INVOCATION_ID") || is_set("NOTIFY_SOCKET")
}

pub(super) fn ready() {
    tell("READY=1");
}

/// Why systemd, or a container, would end the new process together with this one; `None` if it
/// would not.
fn objection() -> Option<&'static str> {
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
        [b'@', name @ ..] => UnixAddr::from_abstract_name(name)?,
        _ => UnixAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.send_to_addr(lines.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_successor_is_started_as_this_process_was() {
        let arguments = ["./throng", "serve", "--take-over", "--shards", "2"];
        let program = program(arguments.map(OsString::from));
        assert_eq!(program.path.to_str(), Some("./throng"));
        assert_eq!(program.arguments, ["serve", "--shards", "2", "--take-over"]);
    }

    #[test]
    fn lines_arrive_at_a_name_and_at_a_path() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let name = format!("throng-test-notify-{}", std::process::id());
        let named = UnixAddr::from_abstract_name(&name).expect("a name");
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
