//! `Origin` and `Host` headers against an allow-list: no page of another site gets in, by no name
//! of its own, and a list is read or refused.
//!
//! Input: an origin, a host, a pattern, with NUL bytes between them.

use throng_auth::{ApiKeys, ChannelPattern, Credentials, Hosts, Origins};

use crate::pieces::texts;

pub(crate) const SEEDS: &[&[u8]] = &[
    b"https://www.example.com\0localhost:8000\0https://*.example.com",
    b"https://example.com.evil.org:443\0a\0http://localhost:*",
    b"https://user@x.example.com/\0[::1]:80\0https://[::1]:8443",
    b"null\0h\0chat:*",
    b"ht]tps://a/\0ht]tps://a/:80\0*",
];

/// Runs one input of this target; panics if the target finds a fault.
pub fn auth_origin(input: &[u8]) {
    let Some([origin, host, pattern]) = texts::<3>(input) else {
        return;
    };
    let one = Origins::new(["https://*.example.com"], false).expect("a good list");
    if one.matches(origin, "") {
        // What a browser takes for the host: between the slashes and a port.
        let origin = origin.to_ascii_lowercase();
        let rest = origin.strip_prefix("https://").expect("its scheme");
        let name = rest.strip_suffix(":443").unwrap_or(rest);
        assert!(name.ends_with(".example.com"), "{origin}");
        assert!(!name.contains(['/', '\\', '@', '?', '#', ':']), "{origin}");
    }
    let none = Origins::new([], false).expect("a good list");
    // The one exception is documented at `matches`: tools that send the host's bare name.
    let is_host = host
        .get(..origin.len())
        .is_some_and(|name| name.eq_ignore_ascii_case(origin));
    assert!(!none.matches(origin, host) || is_host);
    if let Ok(list) = Origins::new([pattern], false)
        && pattern.contains("://")
        && !pattern.contains('*')
    {
        assert!(list.matches(pattern, host), "an origin is itself");
    }
    let local = Hosts::new([], false).expect("a good list");
    // A name that can be registered has a dot and ends in a letter.
    let name = host.split(':').next().unwrap_or_default();
    let last = name.trim_end_matches('.').bytes().last();
    if name.trim_end_matches('.').contains('.') && last.is_some_and(|b| b.is_ascii_alphabetic()) {
        assert!(!local.matches(host), "{host}");
    }
    if let Ok(list) = Hosts::new([pattern], false)
        && !pattern.starts_with('*')
    {
        assert!(list.matches(pattern), "a name is itself");
    }
    if let Ok(channels) = ChannelPattern::new(pattern) {
        let covers = channels.covers(origin);
        let is_open = pattern.ends_with('*') || pattern == origin;
        assert!(!covers || is_open);
    }
    let keys = ApiKeys::new(["the key"]).expect("a good key");
    assert!(!keys.has(origin) || origin == "the key");
    let _ = keys.admit(Credentials::default());
}
