//! When a held client is due for something: keep-alives, the response's timeout, the next
//! link, and retries of a link.
//!
//! Owns: arithmetic of deadlines. Never: reads a clock, keeps a timer, or makes randomness.

use throng_types::Millis;

use crate::instruct::KeepAlive;

/// Spread of keep-alives in milliseconds, so that clients that came together do not fire together.
pub const KEEP_ALIVE_SPREAD_MS: u64 = 1000;
/// Retries of a next link before the stream ends.
pub const LINK_RETRIES_MAX: u32 = 5;
/// Items that wait while a link is fetched (Pushpin drops the next one; close instead).
pub const LINK_QUEUE_MAX: usize = 100;

/// When the keep-alive after `from` is due. `random` is any number, new for each period.
#[must_use]
pub fn keep_alive_at(keep_alive: &KeepAlive, from: Millis, random: u64) -> Millis {
    let period_ms = u64::from(keep_alive.timeout_s).saturating_mul(1000);
    // At least a millisecond, so that a period of one second never becomes none.
    from + period_ms
        .saturating_sub(random % KEEP_ALIVE_SPREAD_MS)
        .max(1)
}

/// When a failed fetch of a link is tried again: 1 s, doubled each time, and up to a second
/// more. None after the last one. Nothing of the response may have gone out.
#[must_use]
pub fn link_retry_at(now: Millis, retries: u32, random: u64) -> Option<Millis> {
    (retries < LINK_RETRIES_MAX).then(|| now + ((1000 << retries) + random % 1000))
}

/// Resolves a link against the path and query of the request that it answers. An absolute link
/// comes back as it is; one with a path, or a query alone, becomes a path on the same origin
/// (RFC 3986 section 5.2). None if an absolute link is no http or https URI.
#[must_use]
pub fn resolve_link(request_path: &str, link: &str) -> Option<LinkTarget> {
    let link = link.split('#').next().unwrap_or_default();
    if let Some(at) = link.find("://")
        && link[..at]
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    {
        let scheme = &link[..at];
        let is_http = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
        return is_http.then(|| LinkTarget::Absolute(link.to_owned()));
    }
    if let Some(rest) = link.strip_prefix("//") {
        return Some(LinkTarget::SameScheme(rest.to_owned()));
    }
    let base = request_path.split('?').next().unwrap_or_default();
    let whole = match link.bytes().next() {
        None => request_path.to_owned(),
        Some(b'?') => format!("{base}{link}"),
        Some(b'/') => link.to_owned(),
        Some(_) => {
            let folder = base.rfind('/').map_or("/", |at| &base[..=at]);
            format!("{folder}{link}")
        }
    };
    let (path, query) = match whole.find('?') {
        Some(at) => whole.split_at(at),
        None => (whole.as_str(), ""),
    };
    Some(LinkTarget::Path(format!("{}{query}", without_dots(path))))
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkTarget {
    /// A whole http or https URI.
    Absolute(String),
    /// Authority and path, under the scheme of the request.
    SameScheme(String),
    /// Path and query on the origin of the request.
    Path(String),
}

/// Without `.` and `..` steps (RFC 3986 section 5.2.4).
fn without_dots(path: &str) -> String {
    let mut out: Vec<&str> = Vec::new();
    let mut steps = path.split('/').skip(1).peekable();
    while let Some(step) = steps.next() {
        let is_last = steps.peek().is_none();
        match step {
            "." | ".." => {
                if step == ".." {
                    out.pop();
                }
                if is_last {
                    out.push("");
                }
            }
            step => out.push(step),
        }
    }
    format!("/{}", out.join("/"))
}

#[cfg(test)]
mod tests {
    use throng_types::cases;

    use super::*;
    use crate::instruct::KeepAliveMode;

    #[test]
    fn keep_alives() {
        let keep_alive = |timeout_s| KeepAlive {
            data: b"\n".to_vec(),
            timeout_s,
            mode: KeepAliveMode::Idle,
        };
        assert_eq!(keep_alive_at(&keep_alive(55), Millis(5), 0), Millis(55_005));
        assert_eq!(
            keep_alive_at(&keep_alive(55), Millis(5), 1999),
            Millis(54_006)
        );
        assert_eq!(keep_alive_at(&keep_alive(1), Millis(5), 999), Millis(6));
        let retries: Vec<_> = (0..6).map(|n| link_retry_at(Millis(0), n, 1001)).collect();
        let expect = [1001, 2001, 4001, 8001, 16_001].map(|ms| Some(Millis(ms)));
        assert_eq!(retries[..5], expect);
        assert_eq!(retries[5], None);
    }

    #[test]
    fn links() {
        for (link, expected) in cases(include_str!("links.txt")) {
            let found = match resolve_link("/a/b?q=/w/", link) {
                Some(target) => format!("{target:?}"),
                None => "refused".to_owned(),
            };
            assert_eq!(found, expected, "{link}");
        }
    }
}
