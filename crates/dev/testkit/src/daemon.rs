//! A server of others that a test starts, which can stop, go away and come back.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::{Process, free_port, until};

/// Gives a server of others what each of them can do, by its daemon.
macro_rules! is_daemon {
    ($server:ty) => {
        impl $server {
            /// Address of the listener.
            pub const fn address(&self) -> std::net::SocketAddr {
                self.daemon.address()
            }

            /// Kills the process without a graceful end.
            pub fn go_away(&mut self) {
                self.daemon.go_away();
            }

            /// Stops the process with SIGSTOP; its connections stay open.
            #[track_caller]
            pub fn pause(&self) {
                self.daemon.pause();
            }

            /// Continues the process with SIGCONT.
            #[track_caller]
            pub fn resume(&self) {
                self.daemon.resume();
            }
        }
    };
}

pub(crate) use is_daemon;

/// Runs until it is dropped, on a port of its own, with its files in a temporary folder.
pub(crate) struct Daemon {
    port: u16,
    process: Option<Process>,
    folder: TempDir,
}

impl Daemon {
    /// One that does not run yet.
    #[track_caller]
    pub(crate) fn new() -> Self {
        Self {
            port: free_port(),
            process: None,
            folder: new_folder(),
        }
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), self.port)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// From now on its files are there.
    pub(crate) fn set_folder(&mut self, folder: TempDir) {
        self.folder = folder;
    }

    /// Starts the program; `wait` returns when it serves.
    #[track_caller]
    pub(crate) fn start<T>(
        &mut self,
        command: &mut Command,
        wait: impl FnOnce(&mut Process) -> T,
    ) -> T {
        let name = command.get_program().to_string_lossy().into_owned();
        let process = Process::start(command, &format!("install {name}, see .ci/packages"));
        wait(self.process.insert(process))
    }

    pub(crate) fn go_away(&mut self) {
        self.process = None;
    }

    #[track_caller]
    pub(crate) fn pause(&self) {
        let process = self.running();
        process.signal(Signal::STOP);
        // Its threads stop one after the other.
        let stat = format!("/proc/{}/stat", process.id());
        until("a server that is stopped", || {
            let stat = std::fs::read_to_string(&stat).ok()?;
            stat.rsplit_once(") ")?.1.starts_with('T').then_some(())
        });
    }

    #[track_caller]
    pub(crate) fn resume(&self) {
        self.running().signal(Signal::CONT);
    }

    #[track_caller]
    fn running(&self) -> &Process {
        self.process.as_ref().expect("it runs")
    }
}

#[track_caller]
pub(crate) fn new_folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}
