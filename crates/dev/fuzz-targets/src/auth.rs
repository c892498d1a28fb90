//! Origins, hosts and tokens; texts that clients bring back.

use std::sync::LazyLock;

use serde_json::value::RawValue;
use throng_auth::{
    Algorithm, ApiCredentials, ApiKeys, ChannelPattern, Claims, Hosts, KeyConfig, Origins,
    SigningKey, TokenFault, Verifier, sign,
};
use throng_gateway_plain::Cursor;
use throng_session::NodeKey;
use throng_types::{ChannelName, ConnId, ShardId};

use crate::pieces::{is_json, texts};

/// `Origin` and `Host` headers against an allow-list: no page of another site gets in, by no name
/// of its own, and a list is read or refused.
///
/// Input: an origin, a host, a pattern, with NUL bytes between them.
pub(crate) fn auth_origin(input: &[u8]) {
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
    let credentials = ApiCredentials {
        x_api_key: Some(origin),
        ..ApiCredentials::default()
    };
    assert!(keys.admit(credentials).is_none() || origin == "the key");
}

const SECRET: &[u8] = b"a secret of the targets' own";
const NOW_UNIX_S: u64 = 1_790_000_000;

static VERIFIER: LazyLock<Verifier> = LazyLock::new(|| {
    let keys = KeyConfig {
        hmac_secret: Some(SECRET.into()),
        leeway_s: 5,
        ..KeyConfig::default()
    };
    Verifier::new(keys).expect("a good key")
});

/// Tokens: unsigned text is never accepted, whatever it looks like, and a signed one is read within
/// its time or refused.
///
/// Input: a token, a NUL byte, claims. The claims are signed before they are read.
pub(crate) fn auth_token(input: &[u8]) {
    let Some([token, claims]) = texts::<2>(input) else {
        return;
    };
    let verified = VERIFIER.verify(token, NOW_UNIX_S);
    assert!(verified.is_err(), "nobody has signed this");

    let Ok(claims) = serde_json::from_str::<&RawValue>(claims) else {
        return;
    };
    let key = SigningKey::HmacSecret(SECRET);
    let Ok(token) = sign(&claims, Algorithm::Hs256, key) else {
        return;
    };
    match VERIFIER.verify(&token, NOW_UNIX_S) {
        Ok(claims) => accepted(&claims),
        Err(fault) => assert!(
            matches!(
                fault,
                TokenFault::Malformed | TokenFault::Expired | TokenFault::NotYetValid
            ),
            "{fault}"
        ),
    }
    // One bit of the signature: its last character has two that count for nothing, and must be 0.
    let mut forged = token.into_bytes();
    if let Some(last) = forged.last_mut() {
        *last = if *last == b'A' { b'E' } else { b'A' };
    }
    let forged = String::from_utf8(forged).expect("ASCII");
    assert!(VERIFIER.verify(&forged, NOW_UNIX_S).is_err(), "forged");
}

/// Checks accepted claims: their time is right, and texts that go into JSON later are JSON.
fn accepted(claims: &Claims) {
    assert!(
        claims
            .exp
            .is_none_or(|exp| NOW_UNIX_S < exp.saturating_add(5))
    );
    assert!(claims.nbf.is_none_or(|nbf| nbf <= NOW_UNIX_S + 5));
    let texts = [&claims.info, &claims.meta, &claims.options.info];
    let of_subs = claims.subs.values().flat_map(|sub| [&sub.info, &sub.data]);
    for text in texts.into_iter().chain(of_subs).flatten() {
        assert!(is_json(text.as_bytes()), "{text}");
    }
    let is_connection = claims.check_connection().is_ok();
    assert_eq!(is_connection, claims.channel.is_none());
    let _ = claims.ends_at_unix_s();
}

/// Texts that clients bring back: cursors of event streams, public ids of connections. What is
/// accepted is what was given out.
///
/// Input: the text.
pub(crate) fn session_ids(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    if let Some(cursor) = Cursor::parse(text, 4) {
        let mut again = String::new();
        cursor.write(&mut again);
        assert_eq!(Cursor::parse(&again, 4), Some(cursor));
    }
    let key = NodeKey::new([0x5e; 32]);
    if let Some(conn) = key.conn_id(text) {
        assert_eq!(key.client_id(conn).as_str(), text);
    }
    let conn = ConnId::new(ShardId(3), 7, input.len() as u32);
    assert_eq!(key.conn_id(key.client_id(conn).as_str()), Some(conn));
    if let Ok(channel) = ChannelName::new(text) {
        assert_eq!(channel.as_str(), text);
    }
}
