//! `throng token create`: signs claims.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::value::RawValue;
use throng_auth::{Algorithm, AllowClaim, ChannelPattern, KeyError, NewToken, SigningKey, sign};
use throng_config::signing_secret_fault;
use throng_types::ChannelName;

use super::clock::now_unix_s;
use crate::commands::publish;
use crate::console;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::load::{self, ConfigFlag};
use crate::values::duration_s;

/// Print a token for a client
///
/// The key is --secret, or --key-file, or else the HMAC secret of the configuration (--config FILE,
/// THRONG_CONFIG or THRONG_AUTH_HMAC_SECRET), whose audience and issuer are taken over.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The user that the token is for; "" is an anonymous one
    #[arg(long)]
    user: String,
    /// Sign with this secret (HS256)
    #[arg(long, conflicts_with = "key_file")]
    secret: Option<String>,
    /// Sign with the key in this file: a private key in PEM, or else an HMAC secret
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigFlag,
    /// Lifetime of the token: 90s, 15m, 1h, 30d, or never
    #[arg(long, default_value = "1h", value_parser = ttl)]
    ttl: Ttl,
    /// Make a subscription token for this channel
    #[arg(long, value_parser = publish::channel)]
    channel: Option<ChannelName>,
    /// Allow subscribing to channels: a name, or a beginning with `*` behind it (chat:*)
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    allow_subscribe: Vec<String>,
    /// Allow publishing into channels
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    allow_publish: Vec<String>,
    /// JSON about the user that others may see
    #[arg(long, value_name = "JSON", value_parser = json)]
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

fn json(text: &str) -> std::result::Result<Box<RawValue>, String> {
    serde_json::from_str(text).map_err(|error| format!("this is not JSON: {error}"))
}

/// Signs a token and prints it.
pub(crate) fn run(args: &Args) -> Result {
    let key = key(args)?;
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

fn key(args: &Args) -> Result<Key> {
    let plain = |text: String, place: String| Key {
        text,
        place,
        audience: None,
        issuer: None,
    };
    if let Some(secret) = &args.secret {
        return Ok(plain(secret.clone(), "--secret".to_owned()));
    }
    if let Some(file) = &args.key_file {
        let place = format!("--key-file {}", file.display());
        let text = std::fs::read_to_string(file)
            .map_err(|error| Failure::new(Exit::Failed, format!("{place}: {error}")))?;
        return Ok(plain(text.trim().to_owned(), place));
    }
    let loaded = load::complete(args.config.config.as_deref(), Vec::new())?;
    let auth = loaded.config.auth;
    let Some(secret) = auth.hmac_secret else {
        return Err(Failure::usage("there is no key to sign with")
            .advise("give --secret SECRET or --key-file FILE,")
            .advise("or --config FILE of a server whose auth.hmac_secret is set"));
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
        let wrong =
            |error: KeyError| Failure::new(Exit::Failed, format!("{}: {error}", self.place));
        if !self.text.contains("-----BEGIN") {
            if let Some(fault) = signing_secret_fault(&self.text) {
                return Err(Failure::new(
                    Exit::Failed,
                    format!("{}: {fault}", self.place),
                ));
            }
            let key = SigningKey::HmacSecret(self.text.as_bytes());
            return sign(token, Algorithm::Hs256, key).map_err(wrong);
        }
        if self.text.contains("PUBLIC KEY-----") {
            return Err(Failure::new(
                Exit::Failed,
                format!("{}: this is a public key", self.place),
            )
            .advise("tokens are signed with the private one"));
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
            Failure::new(
                Exit::Failed,
                format!("{}: no private key that can sign tokens", self.place),
            )
            .advise("RSA, ECDSA on P-256 or P-384, and Ed25519 keys do, in PEM (PKCS #8)")
        })
    }
}
