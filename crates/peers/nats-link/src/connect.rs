//! Connects: TLS, the handshake, subscriptions.

use std::path::{Path, PathBuf};

use throng_nats_protocol::{Credentials, Op, ServerInfo, Target, introduce, write};
use throng_peer::task::Net;
use throng_peer::{Dial, DialTls};

use crate::link::{LATE, Link, fault};

/// A file with the credentials of a user, as `nsc` writes it, or with nothing but a seed.
#[derive(Clone, Debug)]
pub struct CredentialsFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Reads a file, for each connection anew. Errors name the file.
    pub read: fn(&Path) -> Result<String, String>,
}

impl CredentialsFile {
    fn credentials(&self) -> Result<Credentials, String> {
        let text = (self.read)(&self.path)?;
        let at = self.path.display();
        Credentials::read(&text).ok_or_else(|| format!("{at} has no user seed (SU...)"))
    }
}

/// Options of a connection.
#[derive(Clone, Copy)]
pub struct Door<'a> {
    /// The server, and the user and password for it.
    pub target: &'a Target,
    /// Credentials in place of the URL's user.
    pub credentials: Option<&'a CredentialsFile>,
    /// A PEM file with the authorities that are trusted; without one, those of this machine.
    pub authorities: Option<&'a Path>,
    /// Bound of each step, of each answer afterwards, and of each write.
    pub timeout_ms: u64,
    /// Begins the subjects of answers to [`Link::ask`], before their numbers. A subscription must
    /// cover them.
    pub replies: &'a str,
}

impl Door<'_> {
    /// Connects, authenticates and subscribes to subjects by their numbers. The server has
    /// confirmed both when this ends.
    ///
    /// # Errors
    /// A sentence.
    pub async fn connect(
        &self,
        net: &Net,
        subscriptions: &[(&str, u64)],
    ) -> Result<(ServerInfo, Link), String> {
        let (target, timeout_ms) = (self.target, self.timeout_ms);
        let dial = Dial {
            host: target.host.clone(),
            port: target.port,
            // Follows `INFO`.
            tls: None,
            timeout_ms,
        };
        let dialled = net.dial(dial).await.map_err(fault)?;
        let mut link = Link::new(net.clone(), dialled, timeout_ms, self.replies);
        let until = net.now().mono + timeout_ms;
        let info = link.next(until, |op| match op {
            Op::Info(info) => Some(ServerInfo::read(info)),
            _ => None,
        });
        let info = info.await?.ok_or(LATE)?;
        let info = info.ok_or("NATS is older than 2.9, or has no headers")?;
        if target.is_tls || info.wants_tls {
            let tls = DialTls {
                name: target.host.clone(),
                insecure: false,
                authorities: self.authorities.map(Path::to_owned),
            };
            link.secure(tls).await?;
        }
        let credentials = self.credentials.map(CredentialsFile::credentials);
        let credentials = credentials.transpose()?;
        introduce(&mut link.out, &info, target, credentials.as_ref());
        for (subject, sid) in subscriptions {
            write::subscribe(&mut link.out, subject, *sid);
        }
        match link.ping(timeout_ms, |_| {}).await? {
            true => Ok((info, link)),
            false => Err(LATE.to_owned()),
        }
    }
}
