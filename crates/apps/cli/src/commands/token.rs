//! `throng token`: make tokens for clients, and find out why one is not accepted.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::Subcommand;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use throng_auth::{
    Algorithm, AllowClaim, ChannelPattern, Claims, KeyConfig, KeyError, NewToken, SigningKey,
    TokenFault, Verifier, sign,
};
use throng_config::{Auth, signing_secret_fault};
use throng_types::ChannelName;

use crate::commands::publish;
use crate::console;
use crate::exit::{Exit, Failure, Result};
use crate::load::{self, ConfigFlag};
use crate::values::{duration_s, span};

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    Create(CreateArgs),
    Check(CheckArgs),
}

pub(crate) fn run(action: Action) -> Result {
    match action {
        Action::Create(args) => create(&args),
        Action::Check(args) => check(&args),
    }
}

/// Returns the Unix time in seconds. A clock before 1970 makes tokens that have expired, which is
/// what its owner would expect.
fn now_unix_s() -> u64 {
    throng_sys::clock::unix_ms() / 1000
}

#[derive(Debug, clap::Args)]
struct KeyArgs {
    /// Use this HMAC secret
    #[arg(long, conflicts_with = "key_file")]
    secret: Option<String>,
    /// Use the key in this file: in PEM the private one to sign, the public one to check, or else
    /// an HMAC secret
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigFlag,
}

impl KeyArgs {
    /// Returns the text of the key that was given, and its place for errors; none leaves it to the
    /// configuration.
    fn given(&self) -> Result<Option<(String, String)>> {
        if let Some(secret) = &self.secret {
            return Ok(Some((secret.clone(), "--secret".to_owned())));
        }
        let Some(file) = &self.key_file else {
            return Ok(None);
        };
        let place = format!("--key-file {}", file.display());
        let text = std::fs::read_to_string(file)
            .map_err(|error| Failure::failed(format!("{place}: {error}")))?;
        Ok(Some((text.trim().to_owned(), place)))
    }

    /// Returns the keys of the configuration.
    fn configured(&self) -> Result<Auth> {
        let loaded = load::complete(self.config.config.as_deref(), Vec::new())?;
        Ok(loaded.config.auth)
    }
}

/// Says that there is no key for what was asked.
fn no_key(purpose: &str, configured: &str) -> Failure {
    Failure::usage(format!("there is no key to {purpose} with"))
        .advise("give --secret SECRET or --key-file FILE,")
        .advise(format!("or --config FILE of a server {configured}"))
}

/// Print a token for a client
///
/// The key is --secret, or --key-file, or else the HMAC secret of the configuration (--config FILE,
/// THRONG_CONFIG or THRONG_AUTH_HMAC_SECRET), whose audience and issuer are taken over.
#[derive(Debug, clap::Args)]
pub(crate) struct CreateArgs {
    /// The user that the token is for; "" is an anonymous one
    #[arg(long)]
    user: String,
    #[command(flatten)]
    key: KeyArgs,
    /// Lifetime of the token: 90s, 15m, 1h, 30d, or never
    #[arg(long, default_value = "1h", value_parser = ttl)]
    ttl: Ttl,
    /// Make a subscription token for this channel
    #[arg(long, value_parser = publish::channel)]
    channel: Option<ChannelName>,
    /// Allow subscribing to channels: a name, or a beginning with `*` behind it (chat:*); may be
    /// repeated
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    allow_subscribe: Vec<String>,
    /// Allow publishing into channels; may be repeated
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    allow_publish: Vec<String>,
    /// JSON about the user that others may see
    #[arg(long, value_name = "JSON", value_parser = raw_json)]
    info: Option<Box<RawValue>>,
    /// Audience that the token is for (`aud`)
    #[arg(long)]
    audience: Option<String>,
    /// Issuer of the token (`iss`)
    #[arg(long)]
    issuer: Option<String>,
}

#[derive(Clone, Copy, Debug)]
enum Ttl {
    Seconds(u64),
    Never,
}

fn ttl(text: &str) -> std::result::Result<Ttl, String> {
    if text == "never" {
        return Ok(Ttl::Never);
    }
    duration_s(text)
        .map(Ttl::Seconds)
        .map_err(|error| format!("{error}, or never"))
}

fn pattern(text: &str) -> std::result::Result<String, String> {
    ChannelPattern::new(text)
        .map(|_| text.to_owned())
        .map_err(|error| error.to_string())
}

fn raw_json(text: &str) -> std::result::Result<Box<RawValue>, String> {
    serde_json::from_str(text).map_err(|error| format!("this is not JSON: {error}"))
}

fn create(args: &CreateArgs) -> Result {
    let key = key(&args.key)?;
    let now = now_unix_s();
    let allow = AllowClaim {
        subscribe: args.allow_subscribe.iter().map(String::as_str).collect(),
        publish: args.allow_publish.iter().map(String::as_str).collect(),
    };
    let token = NewToken {
        sub: &args.user,
        exp: match args.ttl {
            Ttl::Seconds(seconds) => Some(now.saturating_add(seconds)),
            Ttl::Never => None,
        },
        nbf: None,
        iat: Some(now),
        aud: args.audience.as_deref().or(key.audience.as_deref()),
        iss: args.issuer.as_deref().or(key.issuer.as_deref()),
        channel: args.channel.as_ref().map(ChannelName::as_str),
        info: args.info.as_deref(),
        channels: Vec::new(),
        allow: (!allow.subscribe.is_empty() || !allow.publish.is_empty()).then_some(allow),
        other: BTreeMap::new(),
    };
    let signed = key.sign(&token)?;
    console::print(format!("{signed}\n"))?;
    Ok(Exit::Good)
}

/// A key's text, and what the configuration says beside it.
struct Key {
    text: String,
    place: String,
    audience: Option<String>,
    issuer: Option<String>,
}

fn key(args: &KeyArgs) -> Result<Key> {
    if let Some((text, place)) = args.given()? {
        return Ok(Key {
            text,
            place,
            audience: None,
            issuer: None,
        });
    }
    let auth = args.configured()?;
    let Some(secret) = auth.hmac_secret else {
        return Err(no_key("sign", "whose auth.hmac_secret is set"));
    };
    Ok(Key {
        text: secret.expose().to_owned(),
        place: "auth.hmac_secret".to_owned(),
        audience: auth.audience,
        issuer: auth.issuer,
    })
}

impl Key {
    /// A PEM text tells by its content which key it is, so each kind is tried.
    fn sign(&self, token: &NewToken<'_>) -> Result<String> {
        let wrong = |error: KeyError| Failure::failed(format!("{}: {error}", self.place));
        if !self.text.contains("-----BEGIN") {
            if let Some(fault) = signing_secret_fault(&self.text) {
                return Err(Failure::failed(format!("{}: {fault}", self.place)));
            }
            let key = SigningKey::HmacSecret(self.text.as_bytes());
            return sign(token, Algorithm::Hs256, key).map_err(wrong);
        }
        if self.text.contains("PUBLIC KEY-----") {
            return Err(
                Failure::failed(format!("{}: this is a public key", self.place))
                    .advise("tokens are signed with the private one"),
            );
        }
        let kinds = [
            (Algorithm::EdDsa, SigningKey::EddsaPem(&self.text)),
            (Algorithm::Es256, SigningKey::EcdsaPem(&self.text)),
            (Algorithm::Es384, SigningKey::EcdsaPem(&self.text)),
            (Algorithm::Rs256, SigningKey::RsaPem(&self.text)),
        ];
        let mut signed = kinds
            .into_iter()
            .filter_map(|(algorithm, key)| sign(token, algorithm, key).ok());
        signed.next().ok_or_else(|| {
            Failure::failed(format!(
                "{}: no private key that can sign tokens",
                self.place
            ))
            .advise("RSA, ECDSA on P-256 or P-384, and Ed25519 keys do, in PEM (PKCS #8)")
        })
    }
}

const TOKEN_BYTES_MAX: u64 = 1 << 20;

/// Check a token as the server would, and print its claims
///
/// Ends with 1 if the token is not accepted. The keys are --secret, or --key-file, or else those of
/// the configuration (--config FILE, or THRONG_ variables).
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// The token; `-` reads standard input
    token: String,
    #[command(flatten)]
    key: KeyArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn check(args: &CheckArgs) -> Result {
    let verifier = verifier(&args.key)?;
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
    read.map_err(|error| Failure::failed(format!("cannot read standard input: {error}")))?;
    Ok(text.trim().to_owned())
}

fn verifier(args: &KeyArgs) -> Result<Verifier> {
    if let Some((text, place)) = args.given()? {
        return of_text(&text).map_err(|error| Failure::failed(format!("{place}: {error}")));
    }
    let auth = args.configured()?;
    let key_source = throng_server::fetch_keys(&auth)
        .map_err(|why| Failure::failed(format!("auth.jwks_url: {why}")))?;
    let config = KeyConfig {
        key_source,
        ..load::key_config(&auth)
    };
    Verifier::new(config).map_err(|_| no_key("check the token", "with keys in [auth]"))
}

/// A PEM text tells by its content which key it is, so each kind is tried.
fn of_text(text: &str) -> std::result::Result<Verifier, KeyError> {
    if !text.contains("-----BEGIN") {
        return Verifier::new(KeyConfig {
            hmac_secret: Some(text.as_bytes().into()),
            ..KeyConfig::default()
        });
    }
    let try_as = |put: fn(&mut KeyConfig, Option<Box<str>>)| {
        let mut config = KeyConfig::default();
        put(&mut config, Some(text.into()));
        Verifier::new(config)
    };
    try_as(|config, pem| config.eddsa_public_pem = pem)
        .or_else(|_| try_as(|config, pem| config.ecdsa_public_pem = pem))
        .or_else(|_| try_as(|config, pem| config.rsa_public_pem = pem))
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
