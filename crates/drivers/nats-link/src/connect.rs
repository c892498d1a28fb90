//! Connects: TLS, who we are, subscriptions.

use std::path::Path;
use std::time::{Duration, Instant};

use throng_nats_protocol::{Credentials, Op, ServerInfo, Target, introduce, write};
use throng_remote::Stream;

use crate::link::{LATE, Link};

/// Options of a connection.
#[derive(Clone, Copy)]
pub struct Door<'a> {
    /// The server, and the user and password for it.
    pub target: &'a Target,
    /// A credentials file, in place of the URL's user: as `nsc` writes it, or with nothing but the
    /// seed of a user. Read for each connection.
    pub credentials: Option<&'a Path>,
    /// A PEM file with the authorities that are trusted; without one, those of this machine.
    pub authorities: Option<&'a Path>,
    /// Bound of each step, of each answer afterwards, and of each write.
    pub timeout: Duration,
    /// Begins the subjects of answers to [`Link::ask`], before their numbers. A subscription must
    /// cover them.
    pub replies: &'a str,
}

impl Door<'_> {
    /// Connects, says who we are and subscribes to subjects by their numbers. The server believes
    /// us, and has the subscriptions.
    ///
    /// # Errors
    /// In words.
    pub fn connect(&self, subscriptions: &[(&str, u64)]) -> Result<(ServerInfo, Link), String> {
        let target = self.target;
        let stream = Stream::connect(&target.host, target.port, self.timeout);
        let stream = stream.map_err(|error| error.to_string())?;
        let mut link = Link::new(stream, self.timeout, self.replies);
        let until = Instant::now() + self.timeout;
        let info = link.next(until, |op| match op {
            Op::Info(info) => Some(ServerInfo::read(info)),
            _ => None,
        });
        let info = info?.ok_or(LATE)?;
        let info = info.ok_or("NATS is older than 2.9, or has no headers")?;
        if target.is_tls || info.wants_tls {
            // Nobody may have said more before TLS than NATS does.
            let trust = throng_remote::trust(self.authorities)?;
            let stream = link.into_stream().ok_or("NATS said something before TLS")?;
            // What was left for `INFO` is not what the handshake may take.
            let set = stream.set_read_timeout(self.timeout);
            set.map_err(|error| error.to_string())?;
            let stream = stream.secure(&target.host, &trust)?;
            link = Link::new(stream, self.timeout, self.replies);
        }
        let credentials = self.credentials.map(|path| {
            let at = path.display();
            let text = std::fs::read_to_string(path).map_err(|error| format!("{at}: {error}"))?;
            Credentials::read(&text).ok_or_else(|| format!("{at} has no seed of a user (SU...)"))
        });
        introduce(
            &mut link.out,
            &info,
            target,
            credentials.transpose()?.as_ref(),
        );
        for (subject, sid) in subscriptions {
            write::subscribe(&mut link.out, subject, *sid);
        }
        match link.ping(self.timeout, |_| {})? {
            true => Ok((info, link)),
            false => Err(LATE.to_owned()),
        }
    }
}
