//! A server that runs for one measurement: its start, its cost, its end.
//!
//! Owns: the process and those that it starts. Never: speaks the server's protocol.

mod tree;

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use throng_client::IncomingResponse;
use throng_http1::encode_request;
use throng_testkit::free_port;

use crate::client::Dialect;

/// Longest wait for a server to accept connections, and to end after it was asked to.
const PATIENCE: Duration = Duration::from_secs(15);
const LOOK: Duration = Duration::from_millis(20);
/// A server that uses less than this share of one CPU does nothing but wait.
const QUIET_SHARE: f64 = 0.01;
/// Over how long that is observed.
const QUIET_WINDOW: Duration = Duration::from_millis(400);
/// A server that never rests is measured all the same.
const QUIET_PATIENCE: Duration = Duration::from_secs(4);

const METRICS_BYTES_MAX: usize = 4 << 20;

/// Addresses of a server; [`Dialect`] speaks to them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    pub(crate) subscribe: SocketAddr,
    pub(crate) publish: SocketAddr,
    pub(crate) is_secure: bool,
}

impl Addresses {
    /// On loopback: two for a server with a port for publishers.
    pub(crate) fn pick(has_two_ports: bool, is_secure: bool) -> Self {
        let free = || SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let subscribe = free();
        Self {
            subscribe,
            publish: if has_two_ports { free() } else { subscribe },
            is_secure,
        }
    }
}

/// Makes the command that starts a server in the foreground; it may keep files in the folder, which
/// is empty.
type Start = dyn Fn(Addresses, &Path) -> Result<Command>;

/// Server that can be started.
pub(crate) struct Peer {
    /// Name on the command line.
    pub(crate) key: &'static str,
    /// Row in the table, with the version.
    pub(crate) title: String,
    /// True if publishers have a port of their own.
    pub(crate) has_two_ports: bool,
    pub(crate) command: Box<Start>,
}

/// A running server. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    dialect: Dialect,
    addresses: Addresses,
}

impl Server {
    /// Starts it and waits until it accepts. What it prints goes to `output.log` in `folder`.
    pub(crate) fn start(
        command: &mut Command,
        dialect: Dialect,
        addresses: Addresses,
        folder: &Path,
    ) -> Result<Self> {
        let log_path = folder.join("output.log");
        let log = File::create(&log_path)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot run {}", command.get_program().to_string_lossy()))?;
        let mut server = Self {
            child,
            dialect,
            addresses,
        };
        let deadline = Instant::now() + PATIENCE;
        for address in [addresses.subscribe, addresses.publish] {
            while TcpStream::connect(address).is_err() {
                if let Some(status) = server.child.try_wait()? {
                    bail!("the server ended ({status}); see {}", log_path.display());
                }
                if deadline < Instant::now() {
                    bail!("the server does not listen; see {}", log_path.display());
                }
                sleep(LOOK);
            }
        }
        // Listeners of several processes open before these have found each other.
        while !dialect.is_ready(addresses.subscribe) {
            if deadline < Instant::now() {
                bail!("the server does not answer; see {}", log_path.display());
            }
            sleep(LOOK);
        }
        Ok(server)
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.dialect
    }

    pub(crate) fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// User and system time of all its processes since their start, in µs.
    pub(crate) fn cpu_us(&self) -> Result<f64> {
        tree::processes(self.child.id())?
            .into_iter()
            .map(tree::cpu_us)
            .sum()
    }

    /// Returns the costs so far, of Throng alone: CPU time in µs, context switches, messages
    /// between shards, shards woken, write calls.
    pub(crate) fn costs(&self) -> Result<[f64; 5]> {
        let mut request = Vec::new();
        encode_request("GET", "/metrics", "localhost", &[], None, &mut request);
        let stream = TcpStream::connect(self.addresses.publish)?;
        let answer = IncomingResponse::send(stream, &request)?.read_all(METRICS_BYTES_MAX)?;
        let answer = String::from_utf8(answer)?;
        let count = |name: &str| -> Result<f64> {
            let line = answer.lines().find_map(|line| line.strip_prefix(name));
            let value = line.with_context(|| format!("the server does not count {name}"))?;
            Ok(value.trim().parse()?)
        };
        let switches = tree::processes(self.child.id())?.into_iter();
        let switches: u64 = switches.map(tree::switches).sum();
        Ok([
            self.cpu_us()?,
            switches as f64,
            count("throng_mail_total ")?,
            count("throng_wakes_total ")?,
            count("throng_writes_total ")?,
        ])
    }

    /// Memory of all its processes, in bytes: each shared page is counted once.
    pub(crate) fn pss_bytes(&self) -> Result<u64> {
        let mut bytes = 0;
        for pid in tree::processes(self.child.id())? {
            bytes += throng_sys::memory::process(Some(pid))
                .with_context(|| format!("cannot read the memory of process {pid}"))?
                .pss_bytes;
        }
        Ok(bytes)
    }

    /// Waits until it only waits; calls `meanwhile` all the time with how long that may take.
    pub(crate) fn settle(&self, mut meanwhile: impl FnMut(Duration) -> Result<()>) -> Result<()> {
        let deadline = Instant::now() + QUIET_PATIENCE;
        loop {
            let (start, before_us) = (Instant::now(), self.cpu_us()?);
            while start.elapsed() < QUIET_WINDOW {
                meanwhile(LOOK)?;
            }
            let used_us = self.cpu_us()? - before_us;
            let quiet = used_us < QUIET_SHARE * start.elapsed().as_micros() as f64;
            if quiet || deadline < Instant::now() {
                return Ok(());
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let family = tree::processes(self.child.id()).unwrap_or_default();
        signal(self.child.id(), Signal::TERM);
        let deadline = Instant::now() + PATIENCE;
        while let Ok(None) = self.child.try_wait() {
            if deadline < Instant::now() {
                // Its workers would outlive it.
                family.iter().for_each(|pid| signal(*pid, Signal::KILL));
                let _ = self.child.wait();
            }
            sleep(LOOK);
        }
    }
}

fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // It may have ended by itself.
        let _ = kill_process(pid, signal);
    }
}
