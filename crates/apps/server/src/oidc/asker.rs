//! Client of the provider: finds it, exchanges codes, and checks the tokens that it gets.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use throng_auth::{KeyConfig, KeyRights, RefreshOptions, TokenFault, Verifier};
use throng_backend::{Address, AskLimits, Client, Requests, WholeAnswer};
use throng_http1::field::Header;
use throng_http1::origin::OriginRequest;
use throng_http1::query;
use throng_types::{Millis, Now};

use super::rights::{rights, texts};
use super::under_way::{Exchange, Inner, Order, Provider, TIMEOUT_MS, form};
use crate::token_keys::{Fetched, JwksOptions};

/// Bytes of an answer of the provider.
const ANSWER_BYTES_MAX: usize = 256 << 10;
/// Between two tries to find the provider, in milliseconds.
const FIND_EVERY_MS: u64 = 10_000;
/// Pause between two tries while somebody waits to sign in, in milliseconds.
const FIND_EVERY_MIN_MS: u64 = 1000;
/// Looks at a token whose key is not known yet, one a second.
const KEY_TRIES: u32 = 5;
const KEY_WAIT_MS: u64 = 1000;
/// Seconds by which the provider's clock may differ.
const LEEWAY_S: u64 = 60;
/// Question to the provider, which its answer comes back to.
pub(super) enum Question {
    Document,
    Code(Box<Exchange>),
}

/// Client of the provider.
pub(super) struct ProviderClient {
    inner: Arc<Inner>,
    document: Address,
    is_finding: bool,
    tried_at: Millis,
    find_at: Millis,
    /// Tokens whose keys are being fetched, with the looks that are left. Bound: the sign-ins under
    /// way.
    unknown: Vec<(Box<Exchange>, String, u32)>,
}

impl Client for ProviderClient {
    type Call = Order;
    type Token = Question;

    fn call(&mut self, order: Order, asks: &mut Requests<Question>) {
        let Order::Exchange(exchange) = order else {
            self.find_at = self.find_at.min(self.tried_at + FIND_EVERY_MIN_MS);
            return self.find(asks);
        };
        let Some(provider) = self.inner.open().provider.clone() else {
            let why = "the provider is not reached".to_owned();
            return self.inner.end(&exchange, Err(why));
        };
        self.exchange(&provider, exchange, asks);
    }

    fn woken(&mut self, asks: &mut Requests<Question>) {
        for (exchange, token, tries) in std::mem::take(&mut self.unknown) {
            self.check(exchange, token, tries, asks);
        }
        self.find(asks);
    }

    fn answered(&mut self, question: Question, answer: WholeAnswer, asks: &mut Requests<Question>) {
        match question {
            Question::Document => {
                self.is_finding = false;
                match self.found(answer) {
                    Ok(provider) => self.inner.open().provider = Some(Arc::new(provider)),
                    Err(why) => {
                        let issuer = self.inner.section.issuer.as_deref().unwrap_or_default();
                        tracing::warn!("oidc.issuer: {issuer}: nobody can sign in: {why}");
                        self.find_at = asks.now.mono + FIND_EVERY_MS;
                        asks.wake_at(self.find_at);
                    }
                }
            }
            Question::Code(exchange) => match token_of(answer) {
                Ok(token) => self.check(exchange, token, KEY_TRIES, asks),
                Err(why) => self.inner.end(&exchange, Err(why)),
            },
        }
    }
}

impl ProviderClient {
    /// Client of a provider whose document is at an address.
    pub(super) const fn new(inner: Arc<Inner>, document: Address) -> Self {
        Self {
            inner,
            document,
            is_finding: false,
            tried_at: Millis(0),
            find_at: Millis(0),
            unknown: Vec::new(),
        }
    }

    /// Asks for the provider's document, until it is known.
    fn find(&mut self, asks: &mut Requests<Question>) {
        if self.is_finding || self.inner.open().provider.is_some() {
            return;
        }
        if self.find_at > asks.now.mono {
            return asks.wake_at(self.find_at);
        }
        self.is_finding = true;
        self.tried_at = asks.now.mono;
        let headers = vec![Header::new("Accept", "application/json")];
        let request = self.document.request("GET", headers);
        asks.ask(request, limits(), Question::Document);
    }

    /// Reads the provider's document, and begins to fetch its keys.
    fn found(&self, answer: WholeAnswer) -> Result<Provider, String> {
        let document = json_of(answer)?;
        let text = |name: &str| {
            let text = document.get(name).and_then(Value::as_str);
            text.ok_or_else(|| format!("its document has no {name}"))
        };
        let issuer = self.inner.section.issuer.as_deref().unwrap_or_default();
        // OpenID Connect Discovery 1.0 section 4.3.
        if text("issuer")? != issuer {
            return Err(format!("its document is of {}", text("issuer")?));
        }
        let authorization = text("authorization_endpoint")?.to_owned();
        let token = Address::from_url(text("token_endpoint")?, TIMEOUT_MS);
        let token = token.map_err(|fault| format!("token_endpoint: {fault}"))?;
        let options = JwksOptions {
            url: text("jwks_uri")?.to_owned(),
            timeout_ms: TIMEOUT_MS,
            refresh: RefreshOptions {
                interval_ms: 600_000,
                interval_min_ms: 1000,
            },
        };
        let keys = Fetched::start(&options, Arc::default());
        let keys = keys.map_err(|why| format!("jwks_uri: {why}"))?;
        let verifier = Verifier::new(KeyConfig {
            key_source: Some(Arc::new(keys)),
            audience: Some(self.inner.client_id().into()),
            issuer: Some(issuer.into()),
            leeway_s: LEEWAY_S,
            require_exp: true,
            ..KeyConfig::default()
        });
        let methods = document.get("token_endpoint_auth_methods_supported");
        let methods = methods.map_or_else(Vec::new, texts);
        Ok(Provider {
            authorization,
            token,
            secret_in_body: !methods.is_empty() && !methods.contains(&"client_secret_basic"),
            verifier: verifier.map_err(|error| error.to_string())?,
        })
    }

    /// Exchanges a code for a token (RFC 6749 section 4.1.3, RFC 7636 section 4.5).
    fn exchange(
        &self,
        provider: &Provider,
        exchange: Box<Exchange>,
        asks: &mut Requests<Question>,
    ) {
        let inner = &self.inner;
        let id = inner.client_id();
        let secret = inner.section.client_secret.as_deref();
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("code", &*exchange.code),
            ("redirect_uri", inner.redirect_url()),
            ("client_id", id),
            ("code_verifier", &*exchange.verifier),
        ];
        let mut headers = vec![
            Header::new("Accept", "application/json"),
            Header::new("Content-Type", "application/x-www-form-urlencoded"),
        ];
        match secret {
            Some(secret) if provider.secret_in_body => fields.push(("client_secret", secret)),
            Some(secret) => {
                // RFC 6749 section 2.3.1.
                let mut pair = String::new();
                query::encode(id, &mut pair);
                pair.push(':');
                query::encode(secret, &mut pair);
                let basic = format!("Basic {}", STANDARD.encode(pair));
                headers.push(Header::new("Authorization", basic.as_str()));
            }
            None => {}
        }
        let request = OriginRequest {
            body: form(&fields).into_bytes(),
            ..provider.token.request("POST", headers)
        };
        asks.ask(request, limits(), Question::Code(exchange));
    }

    /// Checks a token, and ends its sign-in; waits if its key is being fetched.
    fn check(
        &mut self,
        exchange: Box<Exchange>,
        token: String,
        tries: u32,
        asks: &mut Requests<Question>,
    ) {
        match self.checked(&exchange, &token, asks.now) {
            Err(CheckFault::UnknownKey) if tries > 0 => {
                self.unknown.push((exchange, token, tries - 1));
                asks.wake_at(asks.now.mono + KEY_WAIT_MS);
            }
            Err(fault) => self.inner.end(&exchange, Err(fault.to_string())),
            Ok(rights) => self.inner.end(&exchange, Ok(rights)),
        }
    }

    /// OpenID Connect Core 1.0 section 3.1.3.7.
    fn checked(&self, exchange: &Exchange, token: &str, now: Now) -> Result<KeyRights, CheckFault> {
        let provider = self.inner.open().provider.clone();
        let provider = provider.ok_or(CheckFault::UnknownKey)?;
        let payload = provider.verifier.payload(token, now.unix_s());
        let payload = payload.map_err(|fault| match fault {
            TokenFault::UnknownKey => CheckFault::UnknownKey,
            fault => CheckFault::Other(format!("the provider's {fault}")),
        })?;
        let claims: Value = serde_json::from_slice(&payload).unwrap_or_default();
        let is =
            |name: &str, wanted: &str| claims.get(name).and_then(Value::as_str) == Some(wanted);
        if !is("nonce", &exchange.nonce) {
            let why = "the provider's token is for another sign-in";
            return Err(CheckFault::Other(why.to_owned()));
        }
        if claims.get("azp").is_some() && !is("azp", self.inner.client_id()) {
            let why = "the provider's token is for another client";
            return Err(CheckFault::Other(why.to_owned()));
        }
        rights(&self.inner.section, &claims).map_err(CheckFault::Other)
    }
}

#[derive(Debug, thiserror::Error)]
enum CheckFault {
    #[error("the provider's keys are not reached")]
    UnknownKey,
    #[error("{0}")]
    Other(String),
}

const fn limits() -> AskLimits {
    AskLimits {
        bytes_max: ANSWER_BYTES_MAX,
        timeout_ms: TIMEOUT_MS,
    }
}

fn json_of(answer: WholeAnswer) -> Result<Value, String> {
    let (status, body) = answer.map_err(|failure| failure.detail)?;
    if status != 200 {
        return Err(format!("its answer has status {status}"));
    }
    serde_json::from_slice(&body).map_err(|_| "its answer is no JSON".to_owned())
}

/// The ID token in the answer to a code.
fn token_of(answer: WholeAnswer) -> Result<String, String> {
    let answer = json_of(answer).map_err(|why| format!("the provider takes no code: {why}"))?;
    let token = answer.get("id_token").and_then(Value::as_str);
    token
        .map(str::to_owned)
        .ok_or_else(|| "the provider gives no ID token; is openid one of oidc.scopes?".to_owned())
}
