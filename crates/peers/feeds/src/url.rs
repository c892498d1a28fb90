//! The URL of a source: `scheme://user:password@host:port/path?option=value`.

use throng_types::percent_decoded;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UrlError(pub &'static str);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) scheme: String,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    /// Hosts with their ports, if given; several stand behind commas.
    pub(crate) hosts: Vec<(String, Option<u16>)>,
    /// The path without its slash.
    pub(crate) path: String,
    pub(crate) options: Vec<(String, String)>,
}

impl Url {
    pub(crate) fn read(text: &str) -> Result<Self, UrlError> {
        let error = UrlError("it is not of the form scheme://user:password@host:port/path");
        let (scheme, rest) = text.trim().split_once("://").ok_or_else(|| error.clone())?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (who, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = who.split_once(':').unwrap_or((who, ""));
        let user = percent_decoded(user).ok_or_else(|| error.clone())?;
        let password = percent_decoded(password).ok_or_else(|| error.clone())?;
        let hosts = hosts.split(',').map(host).collect::<Option<_>>();
        let option = |pair: &str| {
            let (name, value) = pair.split_once('=')?;
            Some((percent_decoded(name)?, percent_decoded(value)?))
        };
        let options = query.split('&').filter(|pair| !pair.is_empty());
        Ok(Self {
            scheme: scheme.to_owned(),
            user: Some(user).filter(|user| !user.is_empty()),
            password: Some(password).filter(|password| !password.is_empty()),
            hosts: hosts.ok_or_else(|| error.clone())?,
            path: percent_decoded(path).ok_or_else(|| error.clone())?,
            options: options.map(option).collect::<Option<_>>().ok_or(error)?,
        })
    }

    pub(crate) fn option(&self, name: &str) -> Option<&str> {
        let found = self.options.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

fn host(text: &str) -> Option<(String, Option<u16>)> {
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (name, port) = rest.split_once(']')?;
            (name, port.strip_prefix(':'))
        }
        None => match text.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (text, None),
        },
    };
    let port = port
        .map(|port| port.parse().ok())
        .map_or(Some(None), |it| it.map(Some))?;
    (!name.is_empty()).then(|| (name.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts() {
        let url = Url::read("postgres://me:p%40ss@[::1]:5432/db?sslmode=require&a=b").unwrap();
        assert_eq!(url.scheme, "postgres");
        assert_eq!(url.user.as_deref(), Some("me"));
        assert_eq!(url.password.as_deref(), Some("p@ss"));
        assert_eq!(url.hosts, [("::1".to_owned(), Some(5432))]);
        assert_eq!(url.path, "db");
        assert_eq!(url.option("sslmode"), Some("require"));
        let url = Url::read("kafka://a:1,b").unwrap();
        let hosts = [("a".to_owned(), Some(1)), ("b".to_owned(), None)];
        assert_eq!((url.hosts.as_slice(), url.user), (&hosts[..], None));
        for wrong in ["x", "a://", "a://b:x", "a://b,", "a://%zz@b", "a://[::1"] {
            assert!(Url::read(wrong).is_err(), "{wrong}");
        }
    }
}
