//! Addresses of servers, and the user and password for them.

use throng_types::percent_decoded;

#[derive(Debug, thiserror::Error)]
pub enum NatsUrlError {
    #[error("it is not a URL of the form nats://user:password@host:port")]
    Malformed,
}

/// A server's address, and the user and password for it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ServerAddress {
    pub host: String,
    /// 4222 if the URL has none.
    pub port: u16,
    /// Set if TLS is required, whatever the server announces.
    pub is_tls: bool,
    /// The user, if the URL names one.
    pub user: Option<String>,
    /// A password with a user, a token without.
    pub secret: Option<String>,
}

/// Every server of a URL: `nats://user:password@host:port`, `nats://token@host` or `tls://…`,
/// several behind commas. One that names neither a user nor a token has those of the first.
///
/// # Errors
/// If it is not such a URL.
pub fn targets(url: &str) -> Result<Vec<ServerAddress>, NatsUrlError> {
    let mut targets: Vec<ServerAddress> = Vec::new();
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

fn target(url: &str) -> Option<ServerAddress> {
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
    is_host.then(|| ServerAddress {
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
