//! Options of a feed from PostgreSQL: its URL, its table.

use crate::url::{Url, UrlError};

/// The longest channel and tags that are read, in characters; no good ones are longer.
pub(super) const NAME_MAX: usize = 4096;
pub(super) const TAGS_MAX: usize = 64 << 10;

/// Modes of TLS: libpq's `sslmode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SslMode {
    Disable,
    Prefer,
    Require,
    VerifyFull,
}

#[derive(Clone)]
pub struct PostgresFeedOptions {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) user: String,
    pub(super) password: Option<String>,
    pub(super) database: String,
    pub(super) ssl: SslMode,
    /// Quotes an identifier or a text for SQL.
    pub(super) table: String,
    /// Begins the places of rows.
    pub(super) name: String,
    /// In quotes; no notifications without one.
    pub(super) notify: Option<String>,
    /// Between two looks at the table, in milliseconds.
    pub(super) poll_ms: u64,
    /// The longest data as text; what is longer is read as nothing.
    pub(super) text_bytes_max: usize,
}

impl PostgresFeedOptions {
    /// `url` is `postgres://user:password@host:port/database`. `table` may have a schema before a
    /// dot; `notify` names the channel on which the database says that there are rows.
    ///
    /// # Errors
    /// [`UrlError`] with the reason.
    pub fn new(
        url: &str,
        feed: &str,
        table: &str,
        notify: Option<&str>,
        poll_ms: u64,
        data_bytes_max: usize,
    ) -> Result<Self, UrlError> {
        let url = Url::read(url)?;
        if !matches!(url.scheme.as_str(), "postgres" | "postgresql") {
            return Err(UrlError("it does not begin with postgres://"));
        }
        let [(host, port)] = url.hosts.as_slice() else {
            return Err(UrlError("it names several hosts"));
        };
        let ssl = match url.option("sslmode") {
            None | Some("prefer" | "allow") => SslMode::Prefer,
            Some("disable") => SslMode::Disable,
            Some("require") => SslMode::Require,
            Some("verify-full") => SslMode::VerifyFull,
            Some(_) => {
                return Err(UrlError(
                    "sslmode is disable, prefer, require or verify-full",
                ));
            }
        };
        let user = url.user.clone().ok_or(UrlError("it names no user"))?;
        let database = match url.path.as_str() {
            "" => user.clone(),
            path => path.to_owned(),
        };
        let parts: Vec<String> = table.split('.').map(identifier).collect();
        Ok(Self {
            host: host.clone(),
            port: port.unwrap_or(5432),
            user,
            password: url.password.clone(),
            database,
            ssl,
            table: parts.join("."),
            name: format!("pg {feed}"),
            notify: notify.map(identifier),
            poll_ms,
            // `bytea` travels as two digits a byte.
            text_bytes_max: 2 * data_bytes_max + 2,
        })
    }
}

impl PostgresFeedOptions {
    pub(super) const fn row_bytes_max(&self) -> usize {
        self.text_bytes_max + 4 * (NAME_MAX + TAGS_MAX) + (64 << 10)
    }
}

/// A name of SQL, in quotes.
fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text of SQL, in quotes; `standard_conforming_strings` is on.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(url: &str) -> Result<PostgresFeedOptions, UrlError> {
        PostgresFeedOptions::new(url, "f", "app.Out\"box", None, 1_000, 10)
    }

    #[test]
    fn urls() {
        let good = options("postgres://me:x@db/app?sslmode=verify-full").unwrap();
        assert_eq!((good.host.as_str(), good.port), ("db", 5432));
        assert_eq!(good.database, "app");
        assert_eq!(good.ssl, SslMode::VerifyFull);
        assert_eq!(good.table, "\"app\".\"Out\"\"box\"");
        assert_eq!(options("postgresql://me@db").unwrap().database, "me");
        for wrong in [
            "postgres://db/app",
            "postgres://me@a,b/app",
            "mysql://me@db/app",
            "postgres://me@db/app?sslmode=maybe",
        ] {
            assert!(options(wrong).is_err(), "{wrong}");
        }
    }
}
