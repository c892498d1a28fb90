//! The server's process: started, asked to hand over to a new one, ended.
//!
//! Invariant: a process that takes over is waited for as a child. It belongs to the old one, and
//! comes to this one when that has ended.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, kill_process, set_child_subreaper, waitpid,
};

use crate::drive::API_PORT;
use crate::sample::read;
use crate::settings::Settings;

const END: Duration = Duration::from_secs(600);
/// Seconds that the new process may take until it is ready; emulation is slow.
const PATIENCE_S: &str = "900";

pub(crate) struct Server {
    pid: Pid,
}

fn pid(number: u32) -> Result<Pid, String> {
    let raw = i32::try_from(number).ok().and_then(Pid::from_raw);
    raw.ok_or_else(|| format!("{number} is no process"))
}

/// Where it listens and, with TLS, what it shows there: a certificate that is made now.
fn listen(settings: &Settings) -> Result<Vec<String>, String> {
    let Some(records) = &settings.tls else {
        return Ok(vec!["127.0.0.1:8000".to_owned()]);
    };
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])
        .map_err(|error| format!("a certificate: {error}"))?;
    let mut words = vec!["tls://127.0.0.1:8000".to_owned()];
    // In emulation, handshakes of many clients wait for each other for longer than the usual 10 s.
    for option in [
        format!("tls.records={records}"),
        "tls.handshake_timeout=120s".to_owned(),
    ] {
        words.extend(["--set".to_owned(), option]);
    }
    for (name, text) in [
        ("certificate", made.cert.pem()),
        ("key", made.signing_key.serialize_pem()),
    ] {
        let path = settings.out.join(format!("{name}.pem"));
        std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|error| format!("{}: {error}", path.display()))?;
        words.extend(["--set".to_owned(), format!("tls.{name}={}", path.display())]);
    }
    Ok(words)
}

impl Server {
    pub(crate) fn start(settings: &Settings) -> Result<Self, String> {
        // Children of a process that ends become children of this one.
        let this = rustix::process::getpid();
        set_child_subreaper(Some(this)).map_err(|error| format!("subreaper: {error}"))?;
        let log = std::fs::File::create(settings.out.join("server.log"))
            .map_err(|error| format!("server.log: {error}"))?;
        let again = log
            .try_clone()
            .map_err(|error| format!("server.log: {error}"))?;
        let ping = settings.ping_s;
        // It is waited for by its number, as the one that takes over from it is.
        let child = Command::new(&settings.throng)
            .args(["serve", "--api", "127.0.0.1:8001", "--listen"])
            .args(listen(settings)?)
            .args(["--set", &format!("websocket.ping_interval={ping}s")])
            .args(["--set", &format!("websocket.pong_timeout={}s", ping - 1)])
            .args(["--set", &format!("stream.keepalive_interval={ping}s")])
            // A packet that is lost comes again after 15 s here, see `guest-init`.
            .args(["--set", "limits.head_timeout=60s"])
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(again)
            .spawn()
            .map_err(|error| format!("{}: {error}", settings.throng.display()))?;
        Ok(Self {
            pid: pid(child.id())?,
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid.as_raw_pid().unsigned_abs()
    }

    /// This process, and the one that it has started to take over, if there is one.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let pid = self.pid();
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
        let children = tasks.into_iter().flatten().flatten().flat_map(|task| {
            let path = task.path().join("children");
            let words = read(&path.to_string_lossy());
            words
                .split_whitespace()
                .filter_map(|word| word.parse().ok())
                .collect::<Vec<u32>>()
        });
        [pid].into_iter().chain(children).collect()
    }

    /// Lets the server hand over, looking around meanwhile; the old process has ended then.
    pub(crate) fn upgrade(
        &mut self,
        settings: &Settings,
        mut look: impl FnMut(&Self),
    ) -> Result<(), String> {
        let port = API_PORT.to_string();
        let mut command = Command::new(&settings.throng)
            .args(["upgrade", "--api-port", &port, "--patience", PATIENCE_S])
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("throng upgrade: {error}"))?;
        while matches!(command.try_wait(), Ok(None)) {
            look(self);
        }
        let output = command
            .wait_with_output()
            .map_err(|error| format!("throng upgrade: {error}"))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let new = said
            .split_whitespace()
            .find_map(|word| word.parse().ok())
            .filter(|_| output.status.success())
            .ok_or_else(|| format!("throng upgrade ended with {}: {said}", output.status))?;
        let deadline = Instant::now() + END;
        loop {
            match waitpid(Some(self.pid), WaitOptions::NOHANG) {
                Ok(Some(_)) => break,
                Ok(None) if Instant::now() < deadline => look(self),
                _ => return Err("the old process does not end".to_owned()),
            }
        }
        self.pid = pid(new)?;
        Ok(())
    }

    /// Ends it with SIGTERM; whether it ended well.
    pub(crate) fn end(&mut self) -> bool {
        if kill_process(self.pid, Signal::TERM).is_err() {
            return false;
        }
        let deadline = Instant::now() + Duration::from_secs(120);
        while Instant::now() < deadline {
            match waitpid(Some(self.pid), WaitOptions::NOHANG) {
                Ok(Some((_, status))) => return status.exit_status() == Some(0),
                Ok(None) => std::thread::sleep(Duration::from_millis(100)),
                Err(_) => return false,
            }
        }
        false
    }

    /// Ends it if it is still there, without a word.
    pub(crate) fn kill(&mut self) {
        if matches!(waitpid(Some(self.pid), WaitOptions::NOHANG), Ok(None)) {
            let _ = kill_process(self.pid, Signal::KILL);
            let _: Option<(Pid, WaitStatus)> =
                waitpid(Some(self.pid), WaitOptions::empty()).ok().flatten();
        }
    }
}
