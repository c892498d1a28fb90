//! A PostgreSQL server of a test's own, which can be killed and come back.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::daemon::{Daemon, is_daemon};
use crate::{Issued, until};

const INSTALL: &str = "install postgresql, see .ci/packages";
const PASSWORD: &str = "a-password";

/// Runs until it is dropped, on a port of its own, with its files in a temporary folder.
/// Clients prove themselves by SCRAM.
pub struct PostgresServer {
    programs: PathBuf,
    daemon: Daemon,
    /// Whether it speaks TLS.
    is_secure: bool,
    /// User that it runs as, if the test runs as root: PostgreSQL refuses to run as root.
    user: Option<(u32, u32)>,
}

is_daemon!(PostgresServer);

impl PostgresServer {
    /// With an empty database.
    #[track_caller]
    pub fn start() -> Self {
        Self::start_with(None)
    }

    /// Starts a server that speaks TLS with this certificate.
    #[track_caller]
    pub fn start_secure(certificate: &Issued) -> Self {
        Self::start_with(Some(certificate))
    }

    #[track_caller]
    fn start_with(certificate: Option<&Issued>) -> Self {
        let daemon = Daemon::new();
        let user = rustix::process::getuid().is_root().then(postgres_user);
        if let Some((uid, gid)) = user {
            chown(daemon.folder(), Some(uid), Some(gid)).expect("root may give folders away");
        }
        let mut server = Self {
            programs: programs(),
            daemon,
            is_secure: certificate.is_some(),
            user,
        };
        server.initialize();
        if let Some(issued) = certificate {
            server.add("server.crt", &issued.certificate);
            server.add("server.key", &issued.key);
        }
        server.come_back();
        server
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.current_dir(self.daemon.folder());
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
        command
    }

    #[track_caller]
    fn initialize(&self) {
        let file = self.daemon.folder().join("password");
        fs::write(&file, PASSWORD).expect("a file in it");
        let mut command = self.command("initdb");
        command.args(["--username", "throng", "--auth", "scram-sha-256"]);
        command.args(["--encoding", "UTF8", "--no-sync", "--pwfile"]);
        command.arg(&file).arg(self.data());
        let done = command.output();
        let done = done.unwrap_or_else(|error| panic!("cannot start initdb: {error}; {INSTALL}"));
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "initdb: {said}");
    }

    /// A file among its data that it alone may read, or it would refuse a key.
    #[track_caller]
    fn add(&self, name: &str, text: &str) {
        let path = self.data().join(name);
        fs::write(&path, text).expect("a file in the data folder");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its owner's file");
        if let Some((uid, gid)) = self.user {
            chown(&path, Some(uid), Some(gid)).expect("root may give files away");
        }
    }

    fn data(&self) -> PathBuf {
        self.daemon.folder().join("data")
    }

    /// URL of the server, `postgres://…`.
    pub fn url(&self) -> String {
        let address = self.address();
        format!("postgres://throng:{PASSWORD}@{address}/postgres")
    }

    /// Starts it again, and waits until it serves.
    #[track_caller]
    pub fn come_back(&mut self) {
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data());
        command.args(["-p", &self.daemon.port().to_string()]);
        command.args(["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"]);
        command.args(["-c", "unix_socket_directories="]);
        if self.is_secure {
            command.args(["-c", "ssl=on"]);
        }
        // What was killed may hold its memory for another moment, and then this one ends.
        until("a PostgreSQL that starts", || {
            self.daemon.start(&mut command, |process| {
                until("a PostgreSQL that serves, or ends", || {
                    let lines = process.err_lines();
                    let is_ready = |line: &String| line.contains("ready to accept connections");
                    match lines.iter().any(is_ready) {
                        true => Some(true),
                        false => (!process.runs()).then_some(false),
                    }
                })
            })
        });
    }

    /// Carries out a statement by itself; gives what it selects, one line a row.
    #[track_caller]
    pub fn sql(&self, sql: &str) -> String {
        let mut command = Command::new(self.programs.join("psql"));
        command.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"]);
        command.args(["--set", "ON_ERROR_STOP=1", "--command", sql]);
        let done = command.arg(self.url()).output();
        let done = done.unwrap_or_else(|error| panic!("cannot start psql: {error}; {INSTALL}"));
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{sql}: {said}");
        String::from_utf8_lossy(&done.stdout).into_owned()
    }
}

/// The folder of the newest installed version's programs: Debian has one for each.
#[track_caller]
fn programs() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let versions = versions.flatten().map(|entry| entry.path().join("bin"));
    let mut versions: Vec<PathBuf> = versions.filter(|it| it.join("initdb").exists()).collect();
    versions.sort();
    let newest = versions.pop();
    newest.unwrap_or_else(|| panic!("no PostgreSQL below /usr/lib/postgresql: {INSTALL}"))
}

/// The user and group that Debian's package makes.
#[track_caller]
fn postgres_user() -> (u32, u32) {
    let users = fs::read_to_string(Path::new("/etc/passwd")).expect("a list of users");
    let found = users.lines().find_map(|line| {
        let rest = line.strip_prefix("postgres:")?;
        let mut fields = rest.split(':').skip(1);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    });
    found.unwrap_or_else(|| panic!("no user postgres: {INSTALL}"))
}
