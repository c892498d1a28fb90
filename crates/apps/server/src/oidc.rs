//! Sign-in to the dashboard by an OpenID provider (`[oidc]`): OpenID Connect Core 1.0, the
//! authorization code flow, with PKCE (RFC 7636) and discovery (OpenID Connect Discovery 1.0).
//!
//! Owns what has begun and is not over, and the thread that asks the provider. Never: lets anybody
//! in by itself; a sign-in that succeeds becomes a login of [`Table`], whose secret the browser has
//! had since its way back from the provider.
//!
//! Rule for "full": of those under way the oldest is forgotten, and its browser begins anew.
//!
//! Invariants
//! - A code is exchanged once, for the browser that began: its cookie and `state` belong together.
//! - A token counts only by a key of the provider's set, for this client, with the nonce of the
//!   browser that began.

mod asker;
mod rights;
mod under_way;

use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use throng_backend::{Address, BackendLimits, ClientPeer};
use throng_config::Config;
use throng_outward::{CallSender, Host};
use throng_session::{SignIn, SignInBegun, SignInState};
use throng_types::{ConnId, Millis};

use self::asker::ProviderClient;
use self::under_way::{Begun, Exchange, Inner, Order, Pending, TIMEOUT_MS, UNDER_WAY_MAX, form};
use crate::logins::{LIFETIME_MS, Table, digest_of, new_secret};
use crate::watch::push;

/// Milliseconds that somebody has at the provider's page.
const AT_PROVIDER_MS: u64 = 600_000;
/// Milliseconds for which an outcome is told.
const TOLD_MS: u64 = 60_000;

/// The handle of the thread, which shards ask.
pub(crate) struct Oidc {
    inner: Arc<Inner>,
    calls: CallSender<Order>,
    _host: Host<Order>,
}

impl Oidc {
    /// Starts the thread; `None` without a provider. Error: a sentence on what cannot be used.
    pub(crate) fn start(config: &Config, logins: Arc<Table>) -> Result<Option<Self>, String> {
        let Some(section) = &config.oidc else {
            return Ok(None);
        };
        let issuer = section.issuer.as_deref().unwrap_or_default();
        let url = format!(
            "{}/.well-known/openid-configuration",
            issuer.trim_end_matches('/')
        );
        let document = Address::from_url(&url, TIMEOUT_MS);
        let document = document.map_err(|fault| fault.to_string())?;
        let inner = Arc::new(Inner {
            section: section.clone(),
            under_way: Mutex::default(),
            logins,
        });
        let asker = ProviderClient::new(inner.clone(), document);
        let limits = BackendLimits {
            idle_max: 0,
            ..BackendLimits::default()
        };
        let peer = ClientPeer::new(asker, limits);
        let host = throng_outward::start("oidc", move || peer, Box::new(|reply| match reply {}));
        let host = host.map_err(|error| error.to_string())?;
        let calls = host.calls();
        calls.send(Order::Find);
        Ok(Some(Self {
            inner,
            calls,
            _host: host,
        }))
    }
}

impl SignIn for Oidc {
    fn begin(&self, now: Millis) -> Result<SignInBegun, &'static str> {
        let inner = &self.inner;
        let mut under_way = inner.open();
        let provider = under_way.provider.clone();
        let provider = provider.ok_or_else(|| {
            self.calls.send(Order::Find);
            "the provider is not reached; try again in a moment"
        })?;
        let [secret, state, nonce, verifier] = [(); 4].map(|()| new_secret());
        // RFC 7636 section 4.2.
        let challenge = digest(&SHA256, verifier.as_bytes());
        let challenge = URL_SAFE_NO_PAD.encode(challenge.as_ref());
        let scope = inner.section.scopes.join(" ");
        let fields = form(&[
            ("response_type", "code"),
            ("client_id", inner.client_id()),
            ("redirect_uri", inner.redirect_url()),
            ("scope", &scope),
            ("state", &state),
            ("nonce", &nonce),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ]);
        let authorization = &provider.authorization;
        let mark = if authorization.contains('?') {
            '&'
        } else {
            '?'
        };
        let location = format!("{authorization}{mark}{fields}");
        under_way.begun.retain(|begun| begun.until > now);
        let begun = Begun {
            digest: digest_of(&secret),
            state,
            nonce,
            verifier,
            until: now + AT_PROVIDER_MS,
        };
        push(&mut under_way.begun, begun, UNDER_WAY_MAX);
        Ok(SignInBegun {
            location,
            secret,
            lifetime_s: AT_PROVIDER_MS / 1000,
        })
    }

    fn back(
        &self,
        secret: &str,
        (state, code, issuer): (&str, &str, Option<&str>),
        from: (ConnId, IpAddr),
        now: Millis,
    ) -> Result<String, &'static str> {
        let digest = digest_of(secret);
        let mut under_way = self.inner.open();
        let is_it = |begun: &Begun| begun.digest == digest && begun.until > now;
        let at = under_way.begun.iter().position(is_it);
        let begun = at.and_then(|at| under_way.begun.remove(at));
        let begun = begun.ok_or("this sign-in has not begun here, or took too long")?;
        if begun.state != state {
            return Err("this sign-in is another browser's");
        }
        // RFC 9207 section 2.4.
        if issuer.is_some_and(|issuer| Some(issuer) != self.inner.section.issuer.as_deref()) {
            return Err("this sign-in is of another provider");
        }
        let secret = new_secret();
        let exchange = Exchange {
            code: code.to_owned(),
            verifier: begun.verifier,
            nonce: begun.nonce,
            digest: digest_of(&secret),
            until: now + LIFETIME_MS,
            from,
        };
        under_way.pending.retain(|pending| pending.until > now);
        let pending = Pending {
            digest: exchange.digest.clone(),
            until: now + TOLD_MS,
            outcome: None,
        };
        push(&mut under_way.pending, pending, UNDER_WAY_MAX);
        self.calls.send(Order::Exchange(Box::new(exchange)));
        Ok(secret)
    }

    fn state(&self, secret: &str, now: Millis) -> SignInState {
        let digest = digest_of(secret);
        let under_way = self.inner.open();
        let mut pending = under_way.pending.iter();
        match pending.find(|pending| pending.digest == digest && pending.until > now) {
            None => SignInState::Unknown,
            Some(Pending { outcome, .. }) => match outcome {
                None => SignInState::Pending,
                Some(Ok(())) => SignInState::Done,
                Some(Err(why)) => SignInState::Refused(why.clone()),
            },
        }
    }
}
