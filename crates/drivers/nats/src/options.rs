//! What the driver is made of.

use std::path::PathBuf;
use throng_remote::percent_decoded;

use throng_remote::RemoteOptions;

/// What the driver is made of.
#[derive(Clone)]
pub struct NatsOptions {
    /// `nats://user:password@host:port`, or `nats://token@host`; more servers of the same cluster
    /// behind commas. With `tls://` a server that does not speak TLS is not spoken to.
    pub url: String,
    /// A file with who we are, as `nsc` writes it, or with nothing but the seed of a user.
    pub credentials: Option<PathBuf>,
    /// How many servers keep each message, from 1 to 5.
    pub replicas: u8,
    /// What all drivers are made of.
    pub remote: RemoteOptions,
}

/// Why a URL is not one of NATS that can be used.
#[derive(Debug, thiserror::Error)]
pub enum NatsUrlError {
    /// It cannot be read.
    #[error("it is not a URL of the form nats://user:password@host:port")]
    Malformed,
}

/// Where a server is, and who we are there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// TLS is spoken, whatever the server wants.
    pub(crate) is_tls: bool,
    pub(crate) user: Option<String>,
    /// With a user; a token otherwise.
    pub(crate) secret: Option<String>,
}

/// Every server of a URL.
pub(crate) fn targets(url: &str) -> Result<Vec<Target>, NatsUrlError> {
    let mut targets: Vec<Target> = Vec::new();
    for part in url.split(',') {
        let mut target = target(part.trim()).ok_or(NatsUrlError::Malformed)?;
        if target.secret.is_none()
            && let Some(first) = targets.first()
        {
            target.user.clone_from(&first.user);
            target.secret.clone_from(&first.secret);
        }
        targets.push(target);
    }
    Ok(targets)
}

fn target(url: &str) -> Option<Target> {
    let (rest, is_tls) = match url.strip_prefix("tls://") {
        Some(rest) => (rest, true),
        None => (url.strip_prefix("nats://")?, false),
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (who, address) = match rest.rsplit_once('@') {
        Some((who, address)) => (Some(who), address),
        None => (None, rest),
    };
    let (mut user, mut secret) = (None, None);
    match who.map(|who| who.split_once(':').ok_or(who)) {
        None => {}
        Some(Err(token)) => secret = Some(percent_decoded(token)?),
        Some(Ok((name, password))) => {
            user = Some(percent_decoded(name)?);
            secret = Some(percent_decoded(password)?);
        }
    }
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
        _ => (address, 4222),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_host = !host.is_empty() && !host.contains(['/', '?', '#', ' ']);
    is_host.then(|| Target {
        host: host.to_owned(),
        port,
        is_tls,
        user,
        secret,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_servers_and_who_comes() {
        let one = |url: &str| targets(url).expect("a URL").remove(0);
        let full = one("nats://ann:p%40ss@nats.example:4333");
        assert_eq!((&*full.host, full.port), ("nats.example", 4333));
        assert_eq!(full.user.as_deref(), Some("ann"));
        assert_eq!(full.secret.as_deref(), Some("p@ss"));
        let token = one("nats://s3cret@nats.example");
        assert_eq!((token.port, token.user), (4222, None));
        assert_eq!(token.secret.as_deref(), Some("s3cret"));
        assert_eq!(one("nats://[::1]:1/").host, "::1");
        assert_eq!(one("nats://[::1]").port, 4222);
        assert!(one("tls://a").is_tls && !token.is_tls);
        let many = targets("nats://t@a:1, nats://b:2").expect("a URL");
        assert_eq!(many[1].secret.as_deref(), Some("t"));
        for wrong in [
            "",
            "x",
            "http://a",
            "nats://",
            "nats://a:x",
            "nats://a/b",
            "nats://%x@a",
        ] {
            assert!(targets(wrong).is_err(), "{wrong}");
        }
    }
}
