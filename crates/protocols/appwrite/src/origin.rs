//! Pages and apps that may connect to a project.
//!
//! Rules of Appwrite's `Origin` and `Hostname` validators: a native app sends no origin and may; a
//! page's host must match one of the project's platforms, whatever its port, or be the host that
//! the request itself went to (Appwrite's `_APP_DOMAIN`, for which every project is open); any
//! other scheme must be on the list of schemes.
//!
//! The own host may also stand there without a scheme, as Tsung and other load tools send it. No
//! browser leaves the scheme out, so no page gains by that.
//!
//! The console is no exception here. Stock lets every page open it, with the cookie of whoever
//! looks at the page; its own pages come from the host that they connect to.

use crate::RealtimeError;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Platforms {
    hosts: Vec<String>,
    schemes: Vec<String>,
}

impl Platforms {
    /// Takes host patterns (`localhost`, `*.example.com`, `*`). Native SDKs and Expo are allowed,
    /// and the `appwrite-callback-ID` scheme of the project. Without any pattern only pages of the
    /// server's own host may connect.
    #[must_use]
    pub fn new<S: AsRef<str>>(hosts: &[S]) -> Self {
        Self {
            hosts: hosts
                .iter()
                .map(|host| host.as_ref().to_ascii_lowercase())
                .collect(),
            schemes: { NATIVE.iter().map(|(scheme, _)| *scheme) }
                .chain([EXPO])
                .map(str::to_owned)
                .collect(),
        }
    }

    /// Allows one more scheme, without `://`.
    pub fn allow_scheme(&mut self, scheme: &str) {
        self.schemes.push(scheme.to_ascii_lowercase());
    }

    /// Decides on an `Origin` header (none and empty mean a native app), given the `Host` header.
    ///
    /// # Errors
    /// [`RealtimeError::Origin`], [`RealtimeError::OriginScheme`] or
    /// [`RealtimeError::OriginEmpty`].
    pub fn check(
        &self,
        project: &str,
        origin: Option<&str>,
        own_host: Option<&str>,
    ) -> Result<(), RealtimeError> {
        let origin = origin.unwrap_or_default().trim();
        if origin.is_empty() || is_bare(origin, own_host) {
            return Ok(());
        }
        let (scheme, host) = split(origin);
        if let Some(platform) = web_platform(&scheme) {
            let is_own = own_host.is_some_and(|own| !host.is_empty() && host_of(own) == host);
            if is_own || self.allows_host(&host) {
                return Ok(());
            }
            return Err(RealtimeError::Origin { host, platform });
        }
        let is_callback = |scheme: &str| {
            let id = scheme.strip_prefix("appwrite-callback-");
            id.is_some_and(|id| id.eq_ignore_ascii_case(project))
        };
        if !scheme.is_empty() && (self.schemes.contains(&scheme) || is_callback(&scheme)) {
            return Ok(());
        }
        if let Some(&(_, platform)) = NATIVE.iter().find(|(native, _)| *native == scheme) {
            return Err(RealtimeError::Origin { host, platform });
        }
        if scheme.is_empty() && host.is_empty() {
            return Err(RealtimeError::OriginEmpty);
        }
        Err(RealtimeError::OriginScheme {
            scheme,
            origin: origin.to_owned(),
        })
    }

    fn allows_host(&self, host: &str) -> bool {
        let allows = |host: &str| self.hosts.iter().any(|pattern| matches(pattern, host));
        // A project that trusts localhost trusts its other spellings too.
        allows(host) || (matches!(host, "127.0.0.1" | "[::1]") && allows("localhost"))
    }
}

/// Tells whether an origin is the request's own host and nothing else. `null` is what browsers say
/// of pages that they keep apart, and never a host's name here.
fn is_bare(origin: &str, own_host: Option<&str>) -> bool {
    let origin = origin.to_ascii_lowercase();
    origin != "null" && own_host.is_some_and(|own| host_of(own) == origin)
}

/// Tells whether a host (lower case, without port) matches a pattern: equality, `*` for everything,
/// and a leading `*` for any prefix. `*.example.com` leaves `example.com` itself out.
fn matches(pattern: &str, host: &str) -> bool {
    let is_host = !host.is_empty() && host.len() <= 253 && !host.contains(['/', ':']);
    if !is_host {
        return false;
    }
    match pattern.strip_prefix('*') {
        Some(suffix) => host.ends_with(suffix),
        None => host == pattern,
    }
}

/// The scheme and host of an origin in lower case, each empty if missing.
fn split(origin: &str) -> (String, String) {
    let Some((scheme, rest)) = origin.split_once(':') else {
        return (String::new(), String::new());
    };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    if !is_scheme {
        return (String::new(), String::new());
    }
    let authority = rest.strip_prefix("//").unwrap_or_default();
    let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
    let host_port = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    (scheme.to_ascii_lowercase(), host_of(host_port))
}

/// The host of `HOST:PORT` in lower case.
fn host_of(host_port: &str) -> String {
    let host = match host_port.find(']') {
        Some(end) if host_port.starts_with('[') => &host_port[..=end],
        _ => host_port
            .split_once(':')
            .map_or(host_port, |(host, _)| host),
    };
    host.to_ascii_lowercase()
}

/// Appwrite's name for the platform of a scheme whose host counts.
fn web_platform(scheme: &str) -> Option<&'static str> {
    Some(match scheme {
        "http" | "https" => "Web",
        "chrome-extension" => "Web (Chrome Extension)",
        "moz-extension" => "Web (Firefox Extension)",
        "safari-web-extension" => "Web (Safari Extension)",
        "ms-browser-extension" => "Web (Edge Extension)",
        "tauri" => "Web (Tauri)",
        _ => return None,
    })
}

/// Schemes of Appwrite's native SDKs, which name an app and not a page, and their platforms.
const NATIVE: [(&str, &str); 7] = [
    ("appwrite-ios", "iOS"),
    ("appwrite-macos", "macOS"),
    ("appwrite-watchos", "watchOS"),
    ("appwrite-tvos", "tvOS"),
    ("appwrite-android", "Android"),
    ("appwrite-windows", "Windows"),
    ("appwrite-linux", "Linux"),
];

/// The scheme of Expo, an app too.
const EXPO: &str = "exp";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use throng_types::cases;

    use super::*;

    fn platforms() -> Platforms {
        Platforms::new(&["localhost", "*.example.com"])
    }

    fn check(platforms: &Platforms, origin: &str) -> Result<(), RealtimeError> {
        platforms.check("bench", Some(origin), Some("rt.own.test:8443"))
    }

    #[test]
    fn allowed() {
        for origin in [
            "http://localhost",
            "https://LOCALHOST:5173",
            "http://127.0.0.1:3000",
            "http://[::1]:3000",
            "https://a.example.com",
            "https://a.b.example.com:8443",
            "tauri://localhost",
            "exp://192.168.0.2:8081",
            "appwrite-callback-bench://x",
            "appwrite-ios://com.example.app",
            "",
        ] {
            assert_eq!(check(&platforms(), origin), Ok(()), "{origin}");
        }
        assert_eq!(platforms().check("bench", None, None), Ok(()));
        let everyone = Platforms::new(&["*"]);
        assert_eq!(check(&everyone, "https://any.where"), Ok(()));
        let mut more = platforms();
        more.allow_scheme("myapp");
        assert_eq!(check(&more, "myapp://x"), Ok(()));
        // Appwrite's own domain is open to every project, whatever the ports.
        let nobody = Platforms::new::<&str>(&[]);
        assert_eq!(check(&nobody, "https://RT.own.test"), Ok(()));
        // As Tsung 1.7.0 sends it, beside `Host: 127.0.0.1`.
        let own = |host| nobody.check("console", Some(host), Some(host));
        assert_eq!(own("127.0.0.1"), Ok(()));
        assert_eq!(own("RT.own.test"), Ok(()));
        assert!(own("null").is_err());
        assert!(own("http://").is_err());
    }

    #[test]
    fn refused() {
        for (origin, text) in cases(include_str!("origin.txt")) {
            let fault = check(&platforms(), origin).unwrap_err();
            assert_eq!((&*fault.to_string(), fault.code()), (text, 1008));
        }
        let nobody = Platforms::new::<&str>(&[]);
        for origin in [
            "http://localhost",
            "http://own.test",
            "own.test",
            "rt.own.test:8443",
            "appwrite-callback-other://x",
        ] {
            assert!(check(&nobody, origin).is_err(), "{origin}");
        }
        assert!(nobody.check("bench", Some("http://"), Some("")).is_err());
    }

    proptest! {
        #[test]
        fn nothing_panics(origin in "[a-z:/.@\\[\\]0-9é*]{0,30}") {
            let _ = check(&platforms(), &origin);
        }
    }
}
