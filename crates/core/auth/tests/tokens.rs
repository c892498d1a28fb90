//! Tokens of every algorithm, honest and forged, against the verifier as its users see it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;
use serde_json::{Value, json};
use throng_auth::{
    Algorithm, AllowClaim, ChannelPattern, Claims, KeyConfig, KeyError, NewToken, SigningKey,
    TokenFault, Verifier, sign,
};
use throng_types::cases;

const NOW: u64 = 1_790_000_000;
const SECRET: &[u8] = b"a secret that is long enough to look like one";
const RSA: &str = include_str!("keys/rsa.pem");
const RSA_PUBLIC: &str = include_str!("keys/rsa.pub.pem");
const P256: &str = include_str!("keys/p256.pem");
const P256_PUBLIC: &str = include_str!("keys/p256.pub.pem");
const P384: &str = include_str!("keys/p384.pem");
const P384_PUBLIC: &str = include_str!("keys/p384.pub.pem");
const ED25519: &str = include_str!("keys/ed25519.pem");
const ED25519_PUBLIC: &str = include_str!("keys/ed25519.pub.pem");

/// Whether the claim `allow` opens a channel for subscribing, and for publishing.
fn opens(claims: &Claims, channel: &str) -> (bool, bool) {
    let allow = claims.allow.clone().unwrap_or_default();
    let covers = |patterns: &[ChannelPattern]| patterns.iter().any(|it| it.covers(channel));
    (covers(&allow.subscribe), covers(&allow.publish))
}

fn hmac() -> KeyConfig {
    KeyConfig {
        hmac_secret: Some(SECRET.into()),
        ..KeyConfig::default()
    }
}

/// Every kind of key at once, with one of the two curves.
fn all_keys(curve: &str) -> KeyConfig {
    KeyConfig {
        rsa_public_pem: Some(RSA_PUBLIC.into()),
        ecdsa_public_pem: Some(curve.into()),
        eddsa_public_pem: Some(ED25519_PUBLIC.into()),
        ..hmac()
    }
}

fn signing_key(algorithm: Algorithm) -> SigningKey<'static> {
    match algorithm {
        Algorithm::Hs256 | Algorithm::Hs384 | Algorithm::Hs512 => SigningKey::HmacSecret(SECRET),
        Algorithm::Rs256 | Algorithm::Rs384 | Algorithm::Rs512 => SigningKey::RsaPem(RSA),
        Algorithm::Es256 => SigningKey::EcdsaPem(P256),
        Algorithm::Es384 => SigningKey::EcdsaPem(P384),
        Algorithm::EdDsa => SigningKey::EddsaPem(ED25519),
    }
}

fn curve_of(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Es384 => P384_PUBLIC,
        _ => P256_PUBLIC,
    }
}

fn hs256(claims: &Value) -> String {
    sign(claims, Algorithm::Hs256, SigningKey::HmacSecret(SECRET)).unwrap()
}

fn verify(config: KeyConfig, claims: &Value) -> Result<Claims, TokenFault> {
    Verifier::new(config).unwrap().verify(&hs256(claims), NOW)
}

/// Signs text that need not be JSON, under a header that need not be honest.
fn forge(header: &str, payload: &str, secret: &[u8]) -> String {
    let key = jsonwebtoken::EncodingKey::from_secret(secret);
    let message = [header, payload]
        .map(|part| URL_SAFE_NO_PAD.encode(part))
        .join(".");
    let signature =
        jsonwebtoken::crypto::sign(message.as_bytes(), &key, jsonwebtoken::Algorithm::HS256);
    format!("{message}.{}", signature.unwrap())
}

#[test]
fn every_algorithm_signs_and_verifies() {
    let claims = json!({"sub": "42", "exp": NOW + 1});
    for algorithm in Algorithm::ALL {
        let token = sign(&claims, algorithm, signing_key(algorithm)).unwrap();
        let verifier = Verifier::new(all_keys(curve_of(algorithm))).unwrap();
        let verified = verifier.verify(&token, NOW).unwrap();
        assert_eq!(
            (&*verified.sub, verified.exp),
            ("42", Some(NOW + 1)),
            "{algorithm}"
        );
        assert_eq!(Algorithm::from_name(algorithm.name()), Some(algorithm));
    }
}

#[test]
fn every_change_is_noticed() {
    let claims = json!({"sub": "42"});
    for algorithm in Algorithm::ALL {
        let token = sign(&claims, algorithm, signing_key(algorithm)).unwrap();
        let verifier = Verifier::new(all_keys(curve_of(algorithm))).unwrap();
        // Public-key checks are slow without optimisation, so not every byte of every token.
        for at in (0..token.len()).step_by(23) {
            let mut changed = token.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert!(
                verifier.verify(&changed, NOW).is_err(),
                "{algorithm} at {at}"
            );
        }
        let unsigned = &token[..=token.rfind('.').unwrap()];
        assert_eq!(
            verifier.verify(unsigned, NOW),
            Err(TokenFault::Signature),
            "{algorithm}"
        );
    }
}

#[test]
fn another_payload_under_the_same_signature_is_noticed() {
    let token = hs256(&json!({"sub": "42"}));
    let parts: Vec<_> = token.split('.').collect();
    let payload = URL_SAFE_NO_PAD.encode(r#"{"sub":"1"}"#);
    let forged = [parts[0], &payload, parts[2]].join(".");
    let verifier = Verifier::new(hmac()).unwrap();
    assert_eq!(verifier.verify(&forged, NOW), Err(TokenFault::Signature));
    assert!(verifier.verify(&token, NOW).is_ok());
}

#[test]
fn the_key_decides_the_algorithm() {
    let public_only = KeyConfig {
        hmac_secret: None,
        ..all_keys(P256_PUBLIC)
    };
    let verifier = Verifier::new(public_only).unwrap();
    let confused = |secret: &[u8], header| verifier.verify(&forge(header, "{}", secret), NOW);
    // The public key used as an HMAC secret, in any form that the attacker may have.
    for secret in [
        RSA_PUBLIC,
        RSA_PUBLIC.trim_end(),
        P256_PUBLIC,
        ED25519_PUBLIC,
    ] {
        assert_eq!(
            confused(secret.as_bytes(), r#"{"alg":"HS256"}"#),
            Err(TokenFault::Algorithm)
        );
        for header in [
            r#"{"alg":"RS256"}"#,
            r#"{"alg":"ES256"}"#,
            r#"{"alg":"EdDSA"}"#,
        ] {
            assert_eq!(
                confused(secret.as_bytes(), header),
                Err(TokenFault::Signature)
            );
        }
    }
    // Again with an HMAC secret configured beside the public keys.
    let all = Verifier::new(all_keys(P256_PUBLIC)).unwrap();
    let token = forge(r#"{"alg":"HS256"}"#, "{}", RSA_PUBLIC.as_bytes());
    assert_eq!(all.verify(&token, NOW), Err(TokenFault::Signature));
    // The other curve's algorithm.
    let token = sign(&json!({}), Algorithm::Es384, SigningKey::EcdsaPem(P384)).unwrap();
    assert_eq!(verifier.verify(&token, NOW), Err(TokenFault::Algorithm));
    // A key with a smaller purse.
    let hmac_only = Verifier::new(hmac()).unwrap();
    let token = sign(&json!({}), Algorithm::Rs256, SigningKey::RsaPem(RSA)).unwrap();
    assert_eq!(hmac_only.verify(&token, NOW), Err(TokenFault::Algorithm));
}

#[test]
fn none_is_not_an_algorithm() {
    let verifier = Verifier::new(all_keys(P256_PUBLIC)).unwrap();
    for alg in ["none", "None", "NONE", "", "hs256", "PS256", "HS256 "] {
        let header = format!(r#"{{"alg":"{alg}"}}"#);
        let token = forge(&header, "{}", SECRET);
        assert_eq!(
            verifier.verify(&token, NOW),
            Err(TokenFault::Algorithm),
            "{alg}"
        );
        let unsigned = &token[..=token.rfind('.').unwrap()];
        assert_eq!(
            verifier.verify(unsigned, NOW),
            Err(TokenFault::Algorithm),
            "{alg}"
        );
    }
}

#[test]
fn what_is_no_token_is_malformed() {
    let verifier = Verifier::new(hmac()).unwrap();
    let good = r#"{"alg":"HS256"}"#;
    for token in [
        String::new(),
        ".".into(),
        "..".into(),
        "...".into(),
        "a.b".into(),
        "a.b.c".into(),
        format!("{}.x", hs256(&json!({}))),
        format!(" {}", hs256(&json!({}))),
        format!("{}=", hs256(&json!({}))),
        forge("{}", "{}", SECRET),
        forge("[]", "{}", SECRET),
        forge(r#"{"alg":1}"#, "{}", SECRET),
        forge(r#"{"alg":"HS256","crit":["exp"]}"#, "{}", SECRET),
        forge(good, "", SECRET),
        forge(good, "[1]x", SECRET),
        forge(good, "\"text\"", SECRET),
        forge(good, r#"{"sub":"a","sub":"b"}"#, SECRET),
    ] {
        assert_eq!(
            verifier.verify(&token, NOW),
            Err(TokenFault::Malformed),
            "{token}"
        );
    }
}

/// Times are compared with the given now, audience and issuer must be ours, and no token opens the
/// server's own channels.
#[test]
fn claims_are_good_or_not() {
    for (case, expected) in cases(include_str!("claims.txt")) {
        let at = case.find('{').expect("claims");
        let (keys, claims) = case.split_at(at);
        let config = match *keys.split_whitespace().collect::<Vec<_>>() {
            [] => hmac(),
            ["leeway", seconds] => KeyConfig {
                leeway_s: seconds.parse().expect("seconds"),
                ..hmac()
            },
            ["ours"] => KeyConfig {
                audience: Some("push".into()),
                issuer: Some("login".into()),
                ..hmac()
            },
            ["strict"] => KeyConfig {
                require_exp: true,
                ..hmac()
            },
            _ => panic!("{case}"),
        };
        let verified = verify(config, &claims.parse().expect("JSON"));
        let told = verified.map_or_else(|fault| format!("{fault:?}"), |_| "good".to_owned());
        assert_eq!(told, expected, "{case}");
    }
}

#[test]
fn a_previous_secret_still_counts() {
    let previous: &[u8] = b"the secret before";
    let token = sign(
        &json!({}),
        Algorithm::Hs256,
        SigningKey::HmacSecret(previous),
    )
    .unwrap();
    let rotated = KeyConfig {
        hmac_previous_secret: Some(previous.into()),
        ..hmac()
    };
    let verifier = Verifier::new(rotated).unwrap();
    assert!(verifier.verify(&token, NOW).is_ok());
    assert!(verifier.verify(&hs256(&json!({})), NOW).is_ok());
    assert_eq!(
        Verifier::new(hmac()).unwrap().verify(&token, NOW),
        Err(TokenFault::Signature)
    );
}

#[test]
fn connection_claims_are_read() {
    let claims = verify(
        hmac(),
        &json!({
            "sub": "42", "iat": NOW - 1, "exp": NOW + 60, "jti": "t1", "expire_at": NOW + 600,
            "info": {"name": "Ada"}, "meta": {"plan": 2}, "channels": ["news"],
            "subs": {"user:42": {
                "info": [1], "b64data": "eyJhIjoxfQ==",
                "override": {"force_recovery": {"value": true}, "presence": {}}
            }},
            "allow": {"subscribe": ["chat:*"], "publish": ["chat:lobby"]},
            "something": "else"
        }),
    )
    .unwrap();
    assert_eq!(
        (&*claims.sub, claims.iat, claims.jti.as_deref()),
        ("42", Some(NOW - 1), Some("t1"))
    );
    assert_eq!(claims.ends_at_unix_s(), Some(NOW + 600));
    assert_eq!(claims.info.as_deref(), Some(r#"{"name":"Ada"}"#));
    assert_eq!(claims.meta.as_deref(), Some(r#"{"plan":2}"#));
    let personal = &claims.subs["user:42"];
    assert_eq!(personal.info.as_deref(), Some("[1]"));
    assert_eq!(personal.data.as_deref(), Some(r#"{"a":1}"#));
    assert_eq!(personal.force_recovery, Some(true));
    assert_eq!(
        (personal.presence, personal.join_leave),
        (Some(false), None)
    );
    assert_eq!(claims.channels, ["news".into()]);
    for (channel, subscribe, publish) in [
        ("chat:lobby", true, true),
        ("chat:1", true, false),
        ("chat", false, false),
        ("", false, false),
    ] {
        assert_eq!(opens(&claims, channel), (subscribe, publish), "{channel}");
    }
    assert_eq!(claims.check_connection(), Ok(()));
    assert_eq!(
        claims.check_subscription("news", "42", "c"),
        Err(TokenFault::Purpose)
    );
}

#[test]
fn subscription_claims_are_read() {
    let claims = json!({"sub": "42", "channel": "chat:1", "client": "c1", "info": 5});
    let claims = verify(hmac(), &claims).unwrap();
    assert_eq!(claims.check_connection(), Err(TokenFault::Purpose));
    assert_eq!(claims.options.info.as_deref(), Some("5"));
    assert_eq!(opens(&claims, "chat:1"), (false, false));
    for (channel, user, client, expected) in [
        ("chat:1", "42", "c1", Ok(())),
        ("chat:2", "42", "c1", Err(TokenFault::Purpose)),
        ("chat:1", "43", "c1", Err(TokenFault::Purpose)),
        ("chat:1", "", "c1", Err(TokenFault::Purpose)),
        ("chat:1", "42", "c2", Err(TokenFault::Purpose)),
    ] {
        assert_eq!(claims.check_subscription(channel, user, client), expected);
    }
}

#[test]
fn odd_claims_have_a_meaning() {
    let of = |claims: Value| verify(hmac(), &claims).unwrap();
    // The connection outlives its token.
    assert_eq!(
        of(json!({"exp": NOW + 1, "expire_at": 0})).ends_at_unix_s(),
        None
    );
    assert_eq!(
        of(json!({"exp": NOW + 1, "expire_at": -1})).ends_at_unix_s(),
        None
    );
    assert_eq!(of(json!({"exp": NOW + 1})).ends_at_unix_s(), Some(NOW + 1));
    // Binary info is still JSON when it is shown.
    assert_eq!(
        of(json!({"b64info": "AP8="})).info.as_deref(),
        Some("\"AP8=\"")
    );
    assert_eq!(
        of(json!({"b64info": "IjEi", "info": 2})).info.as_deref(),
        Some("\"1\"")
    );
    // Empty texts and null are no claim at all.
    assert_eq!(
        of(json!({"channel": "", "client": "", "info": null, "aud": null})),
        Claims::default()
    );
}

/// The text of a key by its file's name; a name without a dot is the text itself.
#[expect(clippy::disallowed_methods, reason = "the tables name files of keys")]
fn pem(name: &str) -> String {
    let path = format!("{}/tests/keys/{name}", env!("CARGO_MANIFEST_DIR"));
    match name.contains('.') {
        true => std::fs::read_to_string(path).expect("a key"),
        false => name.to_owned(),
    }
}

#[test]
fn bad_keys_are_found_at_start() {
    for (case, expected) in cases(include_str!("bad_keys.txt")) {
        let (kind, name) = case.split_once(' ').unwrap_or((case, ""));
        let pem = Some(pem(name).into());
        let none = KeyConfig::default;
        let config = match kind {
            "rsa" => KeyConfig {
                rsa_public_pem: pem,
                ..none()
            },
            "ecdsa" => KeyConfig {
                ecdsa_public_pem: pem,
                ..none()
            },
            "eddsa" => KeyConfig {
                eddsa_public_pem: pem,
                ..none()
            },
            "secret" => KeyConfig {
                hmac_secret: Some([].into()),
                ..none()
            },
            "previous" => KeyConfig {
                hmac_previous_secret: Some([].into()),
                ..hmac()
            },
            _ => none(),
        };
        let told =
            Verifier::new(config).map_or_else(|fault| format!("{fault:?}"), |_| "good".into());
        assert_eq!(told, expected, "{case}");
    }
    assert!(!format!("{:?}", hmac()).contains("secret that"));
}

#[test]
fn signing_wants_the_fitting_key() {
    for (case, expected) in cases(include_str!("signing_keys.txt")) {
        let mut words = case.split(' ');
        let algorithm = words.next().and_then(Algorithm::from_name).expect(case);
        let (kind, pem) = (words.next(), pem(words.next().unwrap_or_default()));
        let key = match kind {
            Some("rsa") => SigningKey::RsaPem(&pem),
            Some("ecdsa") => SigningKey::EcdsaPem(&pem),
            Some("eddsa") => SigningKey::EddsaPem(&pem),
            _ => SigningKey::HmacSecret(b""),
        };
        let signed = sign(&json!({}), algorithm, key);
        let told = signed.map_or_else(|fault| format!("{fault:?}"), |_| "good".to_owned());
        assert_eq!(told, expected, "{case}");
    }
    assert_eq!(
        sign(&f64::NAN, Algorithm::Hs256, SigningKey::HmacSecret(SECRET)),
        Err(KeyError::Claims)
    );
}

#[test]
fn a_new_token_says_what_it_was_given() {
    let info = serde_json::value::to_raw_value(&json!({"name": "Ada"})).unwrap();
    let token = NewToken {
        sub: "42",
        exp: Some(NOW + 60),
        info: Some(&info),
        channels: vec!["news"],
        allow: Some(AllowClaim {
            subscribe: vec!["chat:*"],
            publish: vec![],
        }),
        other: [("meta", json!(7))].into(),
        ..NewToken::default()
    };
    let token = sign(&token, Algorithm::Hs512, SigningKey::HmacSecret(SECRET)).unwrap();
    let claims = Verifier::new(hmac()).unwrap().verify(&token, NOW).unwrap();
    assert_eq!(
        (&*claims.sub, claims.ends_at_unix_s()),
        ("42", Some(NOW + 60))
    );
    assert_eq!(claims.info.as_deref(), Some(r#"{"name":"Ada"}"#));
    assert_eq!(claims.meta.as_deref(), Some("7"));
    assert_eq!(claims.channels, ["news".into()]);
    assert_eq!(opens(&claims, "chat:1"), (true, false));
    let anonymous = sign(
        &NewToken::default(),
        Algorithm::Hs256,
        SigningKey::HmacSecret(SECRET),
    );
    let payload = anonymous.unwrap();
    let payload = payload.split('.').nth(1).unwrap();
    assert_eq!(URL_SAFE_NO_PAD.decode(payload).unwrap(), br#"{"sub":""}"#);
}

proptest! {
    #[test]
    fn no_text_panics(token in "\\PC{0,80}") {
        let verifier = Verifier::new(hmac()).unwrap();
        prop_assert!(verifier.verify(&token, NOW).is_err());
    }

    #[test]
    fn no_signed_payload_panics(
        payload in proptest::collection::vec(any::<u8>(), 0..80),
        header in "\\PC{0,40}",
    ) {
        let verifier = Verifier::new(hmac()).unwrap();
        let payload = String::from_utf8_lossy(&payload);
        let _ = verifier.verify(&forge(r#"{"alg":"HS256"}"#, &payload, SECRET), NOW);
        let _ = verifier.verify(&forge(&header, &payload, SECRET), NOW);
    }

    #[test]
    fn no_cut_of_a_good_token_passes(cut in 0..150_usize) {
        let token = hs256(&json!({"sub": "42", "channels": ["a", "b"]}));
        let verifier = Verifier::new(hmac()).unwrap();
        prop_assume!(cut < token.len());
        prop_assert!(verifier.verify(&token[..cut], NOW).is_err());
        prop_assert!(verifier.verify(&token[token.len() - cut..], NOW).is_err());
    }

    #[test]
    fn signed_claims_come_back(
        sub in "\\PC{0,20}",
        channels in proptest::collection::vec("\\PC{1,10}", 0..4),
    ) {
        let claims = verify(hmac(), &json!({"sub": sub, "channels": channels})).unwrap();
        prop_assert_eq!(&*claims.sub, sub.as_str());
        let read = claims.channels.iter().map(|it| it.to_string());
        prop_assert!(read.eq(channels));
    }
}

#[test]
fn the_leeway_is_part_of_the_end() {
    let patient = KeyConfig {
        leeway_s: 30,
        ..hmac()
    };
    let claims = verify(patient, &json!({"exp": NOW - 29})).unwrap();
    assert_eq!(claims.exp, Some(NOW + 1), "a session would end at once");
}

#[test]
fn a_date_beyond_all_calendars_can_be_calculated_with() {
    for far in [json!(u64::MAX), json!(u64::MAX / 1000 + 1), json!(1e300)] {
        let claims = json!({"exp": far, "expire_at": far});
        let claims = verify(hmac(), &claims).unwrap();
        for date in [claims.exp, claims.expire_at.flatten()] {
            let ms = date.and_then(|date| date.checked_mul(1000));
            let sum = ms.and_then(|ms| ms.checked_add(NOW * 1000));
            assert!(sum.is_some(), "{far}");
        }
    }
}
