//! Tokens: unsigned text is never accepted, whatever it looks like, and a signed one is read within
//! its time or refused.
//!
//! Input: a token, a NUL byte, claims. The claims are signed before they are read.

use std::sync::LazyLock;

use serde_json::value::RawValue;
use throng_auth::{Algorithm, Claims, KeyConfig, SigningKey, TokenFault, Verifier, sign};

use crate::pieces::{is_json, texts};

const SECRET: &[u8] = b"a secret of the targets' own";
const NOW_UNIX_S: u64 = 1_790_000_000;

pub(crate) const SEEDS: &[&[u8]] = &[
    b"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJ1In0.kF7QrUrGfkOBDIRaaq3OCeOF4ac12SLlwHv\
      LTLyu5ew\0{\"sub\":\"u\",\"exp\":1790000001,\"nbf\":1789999999,\"iat\":1.5,\
      \"jti\":\"j\",\"aud\":[\"a\",\"b\"],\"iss\":\"i\",\"info\":{\"a\":1}}",
    b"eyJhbGciOiJub25lIn0.eyJzdWIiOiJ1In0.\0{\"sub\":\"u\",\"channel\":\"c\",\"client\":\"x\",\
      \"b64info\":\"eyJhIjoxfQ==\",\"expire_at\":0,\
      \"override\":{\"presence\":{\"value\":true}},\"aud\":\"a\"}",
    b"eyJhbGciOiJFZERTQSIsImNyaXQiOltdfQ.e30.AA\0{\"channels\":[\"a\",\"b\"],\
      \"subs\":{\"c\":{\"info\":null,\"b64data\":\"AP8=\",\
      \"override\":{\"force_recovery\":{\"value\":false}}}},\"meta\":[],\
      \"allow\":{\"subscribe\":[\"news\",\"chat:*\"],\"publish\":[\"*\"]}}",
    b"\0{\"sub\":\"late\",\"exp\":18446744073709551615,\"nbf\":-1}",
];

static VERIFIER: LazyLock<Verifier> = LazyLock::new(|| {
    let keys = KeyConfig {
        hmac_secret: Some(SECRET.into()),
        leeway_s: 5,
        ..KeyConfig::default()
    };
    Verifier::new(keys).expect("a good key")
});

/// Runs one input of this target; panics if the target finds a fault.
pub fn auth_token(input: &[u8]) {
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
    for channel in &claims.channels {
        assert!(claims.may_subscribe(channel));
    }
    let is_connection = claims.check_connection().is_ok();
    assert_eq!(is_connection, claims.channel.is_none());
    let _ = (claims.may_publish("chat:a"), claims.ends_at_unix_s());
}
