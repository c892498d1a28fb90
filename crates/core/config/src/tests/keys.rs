//! Missing keys: empty variables, and secrets that are public.

use super::{load, load_all, refusals};
use crate::*;

/// `THRONG_AUTH_HMAC_SECRET=$UNSET`: without its key the server would be open to everyone.
#[test]
fn an_empty_variable_is_no_key() {
    for name in [
        "AUTH_HMAC_SECRET",
        "AUTH_HMAC_SECRET_FILE",
        "AUTH_HMAC_PREVIOUS_SECRET",
        "AUTH_RSA_PUBLIC_KEY",
        "AUTH_JWKS",
        "AUTH_JWKS_URL",
        "AUTH_API_KEYS",
        "AUTH_API_KEYS_FILE",
    ] {
        let name = format!("THRONG_{name}");
        let found = refusals("", &[(&name, "")], &[]);
        let [problem] = found.as_slice() else {
            panic!("{name}: {found:?}");
        };
        assert!(
            problem.starts_with(&format!("env {name}: "))
                && problem.ends_with(": it is empty; give it a value or unset it"),
            "{problem}"
        );
        // The file does not replace it: the variable has precedence.
        let file = "[auth]\nhmac_secret = \"0123456789abcdef0123456789abcdef\"";
        assert_eq!(refusals(file, &[(&name, "")], &[]), found);
    }
    for name in [
        "AUTH_ALLOWED_ORIGINS",
        "AUTH_ANONYMOUS",
        "AUTH_SHORT_HMAC_SECRET",
        "BROKER_URL",
    ] {
        load_all("", &[(&format!("THRONG_{name}"), "")], &[]);
    }
}

/// Secrets in our pages are public; their commands run on loopback.
#[test]
fn printed_secrets_are_for_loopback_alone() {
    let auth = "[auth]\nhmac_secret = \"replace-this-with-32-random-bytes\"\n\
                hmac_previous_secret = \"an-example-secret-that-everyone-knows\"\n\
                api_keys = [\"good\", \"Replace-this-key-too\"]\n";
    let printed = "it is printed in the documentation, so it is public; make one \
                   with `openssl rand -hex 32`";
    let paths = [
        ("2:15", "auth.hmac_secret"),
        ("3:24", "auth.hmac_previous_secret"),
        ("4:12", "auth.api_keys"),
    ];
    let loaded = load(auth);
    for (_, path) in paths {
        assert!(loaded.warnings.contains(&format!("{path}: {printed}")));
    }
    let problems = paths.map(|(at, path)| format!("throng.toml:{at}: {path}: {printed}"));
    for listen in ["client = \"0.0.0.0:1\"", "api = \"10.0.0.1:1\""] {
        assert_eq!(
            refusals(&format!("{auth}[listen]\n{listen}"), &[], &[]),
            problems
        );
    }
    let mut auth = load("[auth]\nhmac_secret_file = \"s\"\napi_keys_file = \"k\"")
        .config
        .auth;
    for file in auth.files() {
        let taken = auth.take_file(&file, "an-example-key-that-everyone-knows");
        assert!(taken.is_err(), "{file:?}");
    }
}

#[test]
fn secrets_that_can_be_guessed_are_refused() {
    let wanted = "expected a secret of at least 32 bytes, as `openssl rand -hex 32` makes, and not \
                  the placeholder of an example, found another text";
    for (secret, fine) in [
        ("0123456789abcdef0123456789abcde", false),
        ("0123456789abcdef0123456789abcdef", true),
        ("change-me-to-32-characters-or-more", false),
    ] {
        assert_eq!(signing_secret_fault(secret).is_none(), fine, "{secret}");
        for option in ["hmac_secret", "hmac_previous_secret"] {
            let found = refusals(&format!("[auth]\n{option} = \"{secret}\""), &[], &[]);
            let column = option.len() + 4;
            let why = match secret.len() {
                ..32 => signing_secret_fault(secret).unwrap_or_default(),
                _ => wanted,
            };
            let expected = format!("throng.toml:2:{column}: auth.{option}: {why}");
            assert_eq!(
                found,
                if fine { vec![] } else { vec![expected] },
                "{secret}"
            );

            let mut auth = load(&format!("[auth]\n{option}_file = \"s\"")).config.auth;
            let file = auth.files().remove(0);
            assert_eq!(auth.take_file(&file, secret).is_ok(), fine, "{secret}");
        }
    }
    let short = load("[auth]\nhmac_secret = \"secret\"\nshort_hmac_secret = true");
    assert!(
        short
            .warnings
            .iter()
            .any(|warning| warning.starts_with("auth.hmac_secret: shorter than 32 bytes")),
        "{:?}",
        short.warnings
    );
    let mut auth = load("[auth]\nhmac_secret_file = \"s\"\nshort_hmac_secret = true")
        .config
        .auth;
    let file = auth.files().remove(0);
    assert_eq!(auth.take_file(&file, "secret"), Ok(()));
    assert!(auth.take_file(&file, "change-me").is_err());
    let mut auth = load("[auth]\napi_keys_file = \"k\"").config.auth;
    let file = auth.files().remove(0);
    assert_eq!(
        auth.take_file(&file, "one\nChange-me\n"),
        Err("auth.api_keys_file: k: one of the keys is the placeholder of an example".to_owned())
    );
}
