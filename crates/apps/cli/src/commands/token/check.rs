//! `throng token check`: what the server would say, and what the token says about its holder.

use std::io::Read as _;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use throng_auth::{Claims, KeyConfig, KeyError, TokenFault, Verifier};

use super::clock::now_unix_s;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::load::{self, ConfigFlag};
use crate::values::span;
use crate::{console, keys};

const TOKEN_BYTES_MAX: u64 = 1 << 20;

/// Check a token as the server would, and print its claims
///
/// Ends with 1 if the token is not accepted. The keys are --secret, or --key-file, or else those of
/// the configuration (--config FILE, or THRONG_ variables).
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The token; `-` reads standard input
    token: String,
    /// Check with this HMAC secret
    #[arg(long, conflicts_with = "key_file")]
    secret: Option<String>,
    /// Check with the key in this file: a public key in PEM, or else an HMAC secret
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigFlag,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Checks a token and prints the verdict.
pub(crate) fn run(args: &Args) -> Result {
    let verifier = verifier(args)?;
    let token = token(&args.token)?;
    let now = now_unix_s();
    let verdict = verifier.verify(&token, now);
    let claims = decoded(&token);
    let text = if args.json {
        let told = match &verdict {
            Ok(_) => json!({"valid": true, "claims": claims}),
            // Claims under a wrong signature are what somebody claims; the reason says so.
            Err(fault) => json!({"valid": false, "reason": fault.to_string(), "claims": claims}),
        };
        format!("{told}\n")
    } else {
        match &verdict {
            Ok(good) => format!(
                "the token is good: {}\n{}",
                summary(good, now),
                pretty(&claims)
            ),
            Err(fault) => format!(
                "the token is not accepted: {}\n{}",
                reason(*fault, &claims, now),
                pretty(&claims)
            ),
        }
    };
    console::print(text)?;
    Ok(if verdict.is_ok() {
        Exit::Good
    } else {
        Exit::Failed
    })
}

fn token(given: &str) -> Result<String> {
    if given != "-" {
        return Ok(given.trim().to_owned());
    }
    let mut text = String::new();
    let read = std::io::stdin()
        .lock()
        .take(TOKEN_BYTES_MAX)
        .read_to_string(&mut text);
    read.map_err(|error| {
        Failure::new(Exit::Failed, format!("cannot read standard input: {error}"))
    })?;
    Ok(text.trim().to_owned())
}

fn verifier(args: &Args) -> Result<Verifier> {
    if let Some(secret) = &args.secret {
        let config = KeyConfig {
            hmac_secret: Some(secret.as_bytes().into()),
            ..KeyConfig::default()
        };
        return Verifier::new(config).map_err(|error| Failure::usage(format!("--secret: {error}")));
    }
    if let Some(file) = &args.key_file {
        let place = format!("--key-file {}", file.display());
        let text = std::fs::read_to_string(file)
            .map_err(|error| Failure::new(Exit::Failed, format!("{place}: {error}")))?;
        return of_file(text.trim())
            .map_err(|error| Failure::new(Exit::Failed, format!("{place}: {error}")));
    }
    let loaded = load::complete(args.config.config.as_deref(), Vec::new())?;
    let auth = &loaded.config.auth;
    let key_source = throng_server::fetch_keys(auth)
        .map_err(|why| Failure::new(Exit::Failed, format!("auth.jwks_url: {why}")))?;
    let config = KeyConfig {
        key_source,
        ..keys::key_config(auth)
    };
    Verifier::new(config).map_err(|_| {
        Failure::usage("there is no key to check the token with")
            .advise("give --secret SECRET or --key-file FILE,")
            .advise("or --config FILE of a server with keys in [auth]")
    })
}

/// A PEM text tells by its content which key it is, so each kind is tried.
fn of_file(text: &str) -> std::result::Result<Verifier, KeyError> {
    let none = KeyConfig::default;
    if !text.contains("-----BEGIN") {
        return Verifier::new(KeyConfig {
            hmac_secret: Some(text.as_bytes().into()),
            ..none()
        });
    }
    let pem = || Some(Box::from(text));
    Verifier::new(KeyConfig {
        eddsa_public_pem: pem(),
        ..none()
    })
    .or_else(|_| {
        Verifier::new(KeyConfig {
            ecdsa_public_pem: pem(),
            ..none()
        })
    })
    .or_else(|_| {
        Verifier::new(KeyConfig {
            rsa_public_pem: pem(),
            ..none()
        })
    })
}

/// The claims as they stand in the token, whether they are true or not.
fn decoded(token: &str) -> Value {
    let payload = token.split('.').nth(1).unwrap_or_default();
    let bytes = URL_SAFE_NO_PAD.decode(payload).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or(Value::Null)
}

fn pretty(claims: &Value) -> String {
    match serde_json::to_string_pretty(claims) {
        Ok(text) if !claims.is_null() => format!("{text}\n"),
        _ => String::new(),
    }
}

fn summary(claims: &Claims, now: u64) -> String {
    let user = match &*claims.sub {
        "" => "an anonymous user".to_owned(),
        user => format!("user {user:?}"),
    };
    let kind = match &claims.channel {
        Some(channel) => format!("may subscribe to {channel:?}"),
        None => "may connect".to_owned(),
    };
    let end = claims.exp.map_or_else(
        || "for ever".to_owned(),
        |exp| format!("for another {}", span(exp.saturating_sub(now))),
    );
    format!("{user} {kind}, {end}")
}

fn reason(fault: TokenFault, claims: &Value, now: u64) -> String {
    let at = |claim: &str| claims.get(claim).and_then(Value::as_u64);
    match fault {
        TokenFault::Expired => at("exp").map_or_else(
            || fault.to_string(),
            |exp| format!("it expired {} ago", span(now.saturating_sub(exp))),
        ),
        TokenFault::NotYetValid => at("nbf").map_or_else(
            || fault.to_string(),
            |nbf| {
                format!(
                    "it is not valid for another {}",
                    span(nbf.saturating_sub(now))
                )
            },
        ),
        TokenFault::Algorithm => "its algorithm has no key here".to_owned(),
        TokenFault::Signature => "its signature was not made with this key".to_owned(),
        other => other.to_string(),
    }
}
