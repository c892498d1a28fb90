//! Sets of keys and the tokens that name them, against the verifier as its users see it.
#![allow(
    clippy::disallowed_types,
    reason = "a source of keys is shared by its users"
)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::EncodingKey;
use proptest::prelude::*;
use serde_json::{Value, json};
use throng_auth::{
    Algorithm, KEY_SET_BYTES_MAX, KEY_SET_KEYS_MAX, KeyConfig, KeyError, KeySet, KeySetError,
    KeySource, TokenFault, Verifier,
};

const NOW: u64 = 1_790_000_000;
const RSA: &str = include_str!("keys/rsa.pem");
const RSA_PUBLIC: &str = include_str!("keys/rsa.pub.pem");
const RSA_SMALL: &str = include_str!("keys/rsa_small.pub.pem");
const P256: &str = include_str!("keys/p256.pem");
const P256_PUBLIC: &str = include_str!("keys/p256.pub.pem");
const P384: &str = include_str!("keys/p384.pem");
const P384_PUBLIC: &str = include_str!("keys/p384.pub.pem");
const ED25519: &str = include_str!("keys/ed25519.pem");
const ED25519_PUBLIC: &str = include_str!("keys/ed25519.pub.pem");

fn b64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The bytes of a PEM text.
fn der(pem: &str) -> Vec<u8> {
    let lines: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    base64::engine::general_purpose::STANDARD
        .decode(lines)
        .expect("a PEM text")
}

/// Modulus and exponent of a public key.
fn rsa_numbers(pem: &str) -> (Vec<u8>, Vec<u8>) {
    let key = jsonwebtoken::DecodingKey::from_rsa_pem(pem.as_bytes()).expect("an RSA key");
    let utils = &jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.key_utils;
    let components = utils.rsa_pub_components_from_public_key;
    components(key.try_get_as_bytes().expect("DER")).expect("a public key")
}

fn rsa(id: &str) -> Value {
    let (n, e) = rsa_numbers(RSA_PUBLIC);
    json!({"kty": "RSA", "kid": id, "n": b64(&n), "e": b64(&e)})
}

/// A key on a curve: its two coordinates are the end of the public key's DER.
fn ec(id: &str, curve: &str) -> Value {
    let (pem, bytes) = match curve {
        "P-256" => (P256_PUBLIC, 32),
        _ => (P384_PUBLIC, 48),
    };
    let der = der(pem);
    let (x, y) = der[der.len() - 2 * bytes..].split_at(bytes);
    json!({"kty": "EC", "crv": curve, "kid": id, "x": b64(x), "y": b64(y)})
}

fn ed25519(id: &str) -> Value {
    let der = der(ED25519_PUBLIC);
    json!({"kty": "OKP", "crv": "Ed25519", "kid": id, "x": b64(&der[der.len() - 32..])})
}

/// Adds members to a key; `null` removes one.
fn with(mut key: Value, more: &Value) -> Value {
    for (name, value) in more.as_object().expect("an object") {
        match value {
            Value::Null => key.as_object_mut().expect("an object").remove(name),
            value => key
                .as_object_mut()
                .expect("an object")
                .insert(name.clone(), value.clone()),
        };
    }
    key
}

fn set(keys: &[Value]) -> String {
    json!({ "keys": keys }).to_string()
}

fn token(algorithm: Algorithm, id: Option<&str>) -> String {
    let (key, library) = match algorithm {
        Algorithm::Rs256 => (EncodingKey::from_rsa_pem(RSA.as_bytes()), "RS256"),
        Algorithm::Rs512 => (EncodingKey::from_rsa_pem(RSA.as_bytes()), "RS512"),
        Algorithm::Es256 => (EncodingKey::from_ec_pem(P256.as_bytes()), "ES256"),
        Algorithm::Es384 => (EncodingKey::from_ec_pem(P384.as_bytes()), "ES384"),
        Algorithm::EdDsa => (EncodingKey::from_ed_pem(ED25519.as_bytes()), "EdDSA"),
        _ => panic!("{algorithm}"),
    };
    let mut header = json!({ "alg": library });
    if let Some(id) = id {
        header["kid"] = json!(id);
    }
    signed(&header, library, &key.expect("a key"))
}

fn signed(header: &Value, algorithm: &str, key: &EncodingKey) -> String {
    let claims = json!({"sub": "ann"}).to_string();
    let message = format!(
        "{}.{}",
        b64(header.to_string().as_bytes()),
        b64(claims.as_bytes())
    );
    let algorithm = algorithm.parse().expect("an algorithm");
    let signature = jsonwebtoken::crypto::sign(message.as_bytes(), key, algorithm);
    format!("{message}.{}", signature.expect("it signs"))
}

fn verifier(keys: &[Value]) -> Verifier {
    Verifier::new(KeyConfig {
        key_set: Some(set(keys).into()),
        ..KeyConfig::default()
    })
    .expect("a set of keys")
}

fn fault(verifier: &Verifier, token: &str) -> Option<TokenFault> {
    verifier.verify(token, NOW).err()
}

/// A source that a test fills.
#[derive(Debug, Default)]
struct Issuer {
    keys: Mutex<Arc<KeySet>>,
    wants: AtomicUsize,
}

impl Issuer {
    fn publishes(&self, keys: &[Value]) {
        let set = KeySet::parse(set(keys).as_bytes()).expect("a set");
        *self.keys.lock().expect("nobody panicked") = Arc::new(set);
    }

    fn wants(&self) -> usize {
        self.wants.load(Ordering::Relaxed)
    }
}

impl KeySource for Issuer {
    fn keys(&self) -> Arc<KeySet> {
        self.keys.lock().expect("nobody panicked").clone()
    }

    fn want(&self) {
        self.wants.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn every_kind_of_key_checks_the_tokens_that_name_it() {
    let keys = [
        rsa("r"),
        ec("p256", "P-256"),
        ec("p384", "P-384"),
        ed25519("ed"),
    ];
    let verifier = verifier(&keys);
    for (algorithm, id) in [
        (Algorithm::Rs256, "r"),
        (Algorithm::Rs512, "r"),
        (Algorithm::Es256, "p256"),
        (Algorithm::Es384, "p384"),
        (Algorithm::EdDsa, "ed"),
    ] {
        let (computed, claims) = verifier.check(&token(algorithm, Some(id)), NOW);
        assert_eq!(&*claims.expect(id).sub, "ann");
        assert_eq!(computed, Some(algorithm));
        // One key of each kind: the name is not needed.
        assert_eq!(
            fault(&verifier, &token(algorithm, None)),
            None,
            "{algorithm}"
        );
        // An unknown name, and names of other keys.
        let unknown = fault(&verifier, &token(algorithm, Some("other")));
        assert_eq!(unknown, Some(TokenFault::Signature), "{algorithm}");
        for other in ["r", "p256", "p384", "ed"]
            .into_iter()
            .filter(|other| *other != id)
        {
            let (computed, claims) = verifier.check(&token(algorithm, Some(other)), NOW);
            assert_eq!(
                claims.err(),
                Some(TokenFault::Algorithm),
                "{algorithm} {other}"
            );
            assert_eq!(computed, None);
        }
    }
}

#[test]
fn a_key_is_for_what_it_says_alone() {
    let only = with(rsa("r"), &json!({"alg": "RS512"}));
    let verifier = verifier(&[only]);
    assert_eq!(fault(&verifier, &token(Algorithm::Rs512, Some("r"))), None);
    let other = fault(&verifier, &token(Algorithm::Rs256, Some("r")));
    assert_eq!(other, Some(TokenFault::Algorithm));
}

#[test]
fn of_several_keys_the_token_names_one() {
    let keys = [ec("a", "P-256"), ec("b", "P-256")];
    let verifier = verifier(&keys);
    assert_eq!(fault(&verifier, &token(Algorithm::Es256, Some("b"))), None);
    let (computed, claims) = verifier.check(&token(Algorithm::Es256, None), NOW);
    assert_eq!(
        (computed, claims.err()),
        (None, Some(TokenFault::UnnamedKey))
    );
}

/// The public key of a set is no secret, and no HMAC is checked with one.
#[test]
fn a_public_key_is_no_secret() {
    let (n, _) = rsa_numbers(RSA_PUBLIC);
    let keys = [
        rsa("r"),
        json!({"kty": "oct", "kid": "o", "k": b64(b"secret")}),
    ];
    let verifier = verifier(&keys);
    for (id, secret) in [
        ("r", &n[..]),
        ("r", RSA_PUBLIC.as_bytes()),
        ("o", &b"secret"[..]),
    ] {
        let header = json!({"alg": "HS256", "kid": id});
        let forged = signed(&header, "HS256", &EncodingKey::from_secret(secret));
        assert_eq!(
            fault(&verifier, &forged),
            Some(TokenFault::Algorithm),
            "{id}"
        );
    }
    // A key in the token, or its address, is not used either.
    let brought = json!({"alg": "ES384", "jwk": ec("x", "P-384"), "jku": "http://x", "x5u": "x"});
    let key = EncodingKey::from_ec_pem(P384.as_bytes()).expect("a key");
    let forged = signed(&brought, "ES384", &key);
    assert_eq!(fault(&verifier, &forged), Some(TokenFault::Algorithm));
}

#[test]
fn what_cannot_check_tokens_is_left_out() {
    let lines = include_str!("left_out.txt").lines();
    let lines: Vec<&str> = lines.filter(|line| !line.starts_with('#')).collect();
    let changed = lines.iter().map(|line| {
        let mut cells = line.splitn(3, " | ");
        let (what, key) = (cells.next().unwrap(), cells.next().unwrap());
        let key = match key {
            "rsa" => rsa("r"),
            "p256" => ec("e", "P-256"),
            "ed25519" => ed25519("d"),
            _ => json!({}),
        };
        let more = serde_json::from_str(cells.next().unwrap()).expect("JSON");
        (what, with(key, &more))
    });
    let small = rsa_numbers(RSA_SMALL).0;
    let sizes = [
        ("a small modulus", small),
        ("a huge modulus", vec![255; 1025]),
    ];
    let sizes = sizes.map(|(what, n)| (what, with(rsa("r"), &json!({"n": b64(&n)}))));
    for (what, key) in changed.chain(sizes).chain([("no object", json!(7))]) {
        let alone = KeySet::parse(set(std::slice::from_ref(&key)).as_bytes());
        assert_eq!(alone.err(), Some(KeySetError::NoneUsable), "{what}");
        // The others stay.
        let good = KeySet::parse(set(&[key, ed25519("good")]).as_bytes()).expect(what);
        let ids: Vec<_> = good.ids().collect();
        assert_eq!((ids, good.unused()), (vec![Some("good")], 1), "{what}");
    }
    for good in [
        with(
            rsa("r"),
            &json!({"use": "sig", "key_ops": ["verify"], "alg": "RS256", "x5c": []}),
        ),
        with(rsa("r"), &json!({"kid": null})),
    ] {
        assert_eq!(
            KeySet::parse(set(&[good]).as_bytes()).expect("a set").len(),
            1
        );
    }
}

#[test]
fn a_set_has_bounds() {
    for wrong in [
        "",
        "{}",
        "[]",
        "{\"keys\":{}}",
        "{\"keys\":[",
        "{\"keys\":[]}x",
        "\u{feff}{}",
    ] {
        let error = KeySet::parse(wrong.as_bytes()).err();
        assert_eq!(error, Some(KeySetError::Malformed), "{wrong}");
    }
    assert_eq!(
        KeySet::parse(b"{\"keys\":[]}").err(),
        Some(KeySetError::NoneUsable)
    );
    let keys = |count: usize| vec![ed25519("k"); count];
    let most = set(&keys(KEY_SET_KEYS_MAX));
    assert_eq!(
        KeySet::parse(most.as_bytes()).expect("a set").len(),
        KEY_SET_KEYS_MAX
    );
    let more = set(&keys(KEY_SET_KEYS_MAX + 1));
    assert_eq!(
        KeySet::parse(more.as_bytes()).err(),
        Some(KeySetError::TooMany)
    );
    let mut long = set(&keys(1));
    long.push_str(&" ".repeat(KEY_SET_BYTES_MAX - long.len()));
    assert!(KeySet::parse(long.as_bytes()).is_ok());
    long.push(' ');
    assert_eq!(
        KeySet::parse(long.as_bytes()).err(),
        Some(KeySetError::TooLong)
    );
    let error = Verifier::new(KeyConfig {
        key_set: Some("{}".into()),
        ..KeyConfig::default()
    });
    assert_eq!(error.err(), Some(KeyError::KeySet(KeySetError::Malformed)));
}

#[test]
fn an_unknown_name_has_the_keys_fetched() {
    let issuer = Arc::new(Issuer::default());
    let verifier = Verifier::new(KeyConfig {
        key_source: Some(issuer.clone()),
        hmac_secret: Some(b"a secret of the same server".as_slice().into()),
        ..KeyConfig::default()
    })
    .expect("a source will do");
    let (first, second) = (
        token(Algorithm::Es256, Some("1")),
        token(Algorithm::EdDsa, Some("2")),
    );
    // Before the first set: no signature is computed, with or without a name.
    for early in [&first, &token(Algorithm::Rs256, None)] {
        let (computed, claims) = verifier.check(early, NOW);
        assert_eq!(
            (computed, claims.err()),
            (None, Some(TokenFault::UnknownKey))
        );
    }
    assert_eq!(issuer.wants(), 2);
    issuer.publishes(&[ec("1", "P-256")]);
    assert_eq!(fault(&verifier, &first), None);
    assert_eq!(issuer.wants(), 2);
    // A key that is not there yet, and then it is, beside the old one; then the old one goes.
    assert_eq!(fault(&verifier, &second), Some(TokenFault::UnknownKey));
    assert_eq!(issuer.wants(), 3);
    issuer.publishes(&[ec("1", "P-256"), ed25519("2")]);
    assert_eq!(
        (fault(&verifier, &first), fault(&verifier, &second)),
        (None, None)
    );
    issuer.publishes(&[ed25519("2")]);
    assert_eq!(fault(&verifier, &first), Some(TokenFault::UnknownKey));
    assert_eq!(issuer.wants(), 4);
    // Failures that a fetch cannot fix cause none: an HMAC, a wrong signature of a known key, an
    // unknown algorithm, a text that is not a signature.
    let mut forged = second;
    forged.truncate(forged.rfind('.').expect("a signature") + 1);
    let forged = format!("{forged}{}", b64(&[7; 64]));
    let header = json!({"alg": "HS256", "kid": "9"});
    let hmac = signed(
        &header,
        "HS256",
        &EncodingKey::from_secret(b"of somebody else"),
    );
    let garbage = format!("{}.!", first.rsplit_once('.').expect("a signature").0);
    for (token, expected) in [
        (&forged, TokenFault::Signature),
        (&hmac, TokenFault::Signature),
        (&garbage, TokenFault::Malformed),
    ] {
        assert_eq!(fault(&verifier, token), Some(expected));
    }
    assert_eq!(issuer.wants(), 4);
}

/// A key without a name, outside of sets, goes on beside a set: also for tokens that name one.
#[test]
fn a_key_outside_of_sets_stays() {
    let issuer = Arc::new(Issuer::default());
    let verifier = Verifier::new(KeyConfig {
        key_source: Some(issuer.clone()),
        ecdsa_public_pem: Some(P256_PUBLIC.into()),
        ..KeyConfig::default()
    })
    .expect("keys");
    for id in [None, Some("1")] {
        assert_eq!(fault(&verifier, &token(Algorithm::Es256, id)), None);
    }
    assert_eq!(issuer.wants(), 0);
    let other = fault(&verifier, &token(Algorithm::Es384, Some("1")));
    assert_eq!((other, issuer.wants()), (Some(TokenFault::UnknownKey), 1));
}

proptest! {
    /// Any bytes from an issuer give an answer, and never a panic.
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = KeySet::parse(&bytes);
    }

    /// A set that ends early is none, wherever it ends; one that is damaged never has keys that it
    /// did not have.
    #[test]
    fn damage_adds_no_key(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let whole = set(&[rsa("r"), ec("e", "P-384"), ed25519("d")]).into_bytes();
        let at = at.index(whole.len());
        prop_assert_eq!(KeySet::parse(&whole[..at]).err(), Some(KeySetError::Malformed));
        let mut damaged = whole;
        damaged[at] = byte;
        if let Ok(keys) = KeySet::parse(&damaged) {
            prop_assert!(keys.len() <= 3 && keys.len() + keys.unused() <= 3);
        }
    }
}
