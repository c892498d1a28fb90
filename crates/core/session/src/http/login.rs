//! Authentication of API calls: by an API key, or by the cookie of a browser that has shown one.
//!
//! `POST /session` with a key answers with the cookie, `DELETE /session` takes it away. The cookie
//! counts on the API port alone, because browsers send it to every port of a host.
//!
//! Invariants
//! - A key that is sent along decides; a cookie does not mend a wrong one.
//! - A cookie counts only for pages of this very server: whatever changes something has to come
//!   with `Sec-Fetch-Site` or `Origin`, which pages cannot forge (Fetch section 3.2). `SameSite`
//!   keeps the cookie from other sites, but other ports of one host are the same site.

use throng_auth::{ApiCredentials, Caller, is_same_origin};
use throng_http1::{Request, query};
use throng_metrics::Counter;

use super::{Incoming, Reject, SAFE, respond};
use crate::close::Port;
use crate::route::Claim;
use crate::{Context, Opened, may_call, may_touch};

const COOKIES_MAX: usize = 64;

/// Name of the cookie of a browser that has signed in.
pub(super) const COOKIE: &str = "throng_session";

/// Asks for a key, if there are any, and whether it is for the calls of the claim.
pub(super) fn check_key(
    incoming: &Incoming<'_, '_>,
    claim: &Claim,
    cx: &Context<'_>,
) -> Result<Caller, Reject> {
    if cx.shared.api_keys.is_empty() {
        return Ok(None);
    }
    let caller = match key_of(incoming, cx) {
        Some(caller) => caller.cloned(),
        None => match cookie_of(incoming, cx) {
            Some((_, caller)) => {
                check_origin(incoming, cx)?;
                Some(caller)
            }
            None => None,
        },
    };
    let caller = caller.ok_or_else(|| refused(incoming, cx))?;
    cx.shared.notices.called_by(&caller);
    if let Some(role) = claim.role {
        may_call(&caller, role, incoming.request.path(), cx)?;
    }
    if !claim.by_channel {
        may_touch(&caller, None, cx)?;
    }
    Ok(caller)
}

pub(super) fn login<S>(
    incoming: &Incoming<'_, '_>,
    cx: &mut Context<'_>,
) -> Result<Opened<S>, Reject> {
    let is_new = incoming.request.method == "POST";
    let logins = cx.shared.pages.logins();
    let cookie = match logins {
        // Without keys there is nothing to sign in to.
        Some(_) if cx.shared.api_keys.is_empty() => None,
        Some(logins) if is_new => {
            let Some(Some(caller)) = key_of(incoming, cx) else {
                return Err(refused(incoming, cx));
            };
            cx.shared.notices.called_by(caller);
            cx.shared.notices.changed("sign in", "", [""; 2]);
            let secret = logins.begin(caller.clone(), cx.now.mono);
            Some((secret, logins.lifetime_s()))
        }
        Some(logins) => {
            check_origin(incoming, cx)?;
            if let Some((secret, caller)) = cookie_of(incoming, cx) {
                logins.end(secret);
                cx.shared.notices.called_by(&caller);
                cx.shared.notices.changed("sign out", "", [""; 2]);
            }
            Some((String::new(), 0))
        }
        None => None,
    };
    let cookie = cookie.map(|(secret, lifetime_s)| {
        let name = cookie_name(COOKIE, incoming.request.host());
        let secure = if is_secure(incoming) { "; Secure" } else { "" };
        format!("{name}={secret}; Path=/; Max-Age={lifetime_s}; HttpOnly; SameSite=Strict{secure}")
    });
    let mut headers = vec![("Cache-Control", "no-store")];
    headers.extend(SAFE);
    headers.extend(cookie.as_deref().map(|cookie| ("Set-Cookie", cookie)));
    let keep_alive = incoming.request.keep_alive();
    respond(204, &headers, b"", keep_alive, cx);
    Ok(Opened::Answered { keep_alive })
}

/// The caller by the key that was sent, `Some(None)` if it is no good one; `None` if none was sent.
fn key_of<'a>(incoming: &Incoming<'_, '_>, cx: &Context<'a>) -> Option<Option<&'a Caller>> {
    let request = incoming.request;
    let from_query = query::pairs(request.query()).find(|(name, _)| name == "api_key");
    let credentials = ApiCredentials {
        x_api_key: request.header("x-api-key"),
        authorization: request.header("authorization"),
        query: from_query.as_ref().map(|(_, key)| &**key),
    };
    let sent = credentials.x_api_key.or(credentials.authorization);
    let is_sent = sent.or(credentials.query).is_some();
    is_sent.then(|| cx.shared.api_keys.admit(credentials))
}

fn refused(incoming: &Incoming<'_, '_>, cx: &Context<'_>) -> Reject {
    cx.count(Counter::AuthApiKey);
    let path = incoming.request.path();
    cx.shared
        .notices
        .refused("request", path, "", "no valid API key");
    let sentence = "an API key is needed: send it as the header `X-API-Key`";
    Reject::new(401, sentence)
}

/// The secret of a browser that has signed in, and its caller.
fn cookie_of<'b>(incoming: &Incoming<'_, 'b>, cx: &Context<'_>) -> Option<(&'b str, Caller)> {
    if incoming.port != Port::Api {
        return None;
    }
    let logins = cx.shared.pages.logins()?;
    let name = cookie_name(COOKIE, incoming.request.host());
    let mut secrets = cookies(incoming.request, &name);
    secrets.find_map(|secret| Some((secret, logins.caller(secret, cx.now.mono)?)))
}

/// The values of a cookie (RFC 6265 section 4.2.1).
pub(super) fn cookies<'b>(request: &Request<'b>, name: &str) -> impl Iterator<Item = &'b str> {
    let lines = request.headers().values("cookie");
    let lines = lines.filter_map(|line| str::from_utf8(line).ok());
    let pairs = lines.flat_map(|line| line.split(';')).take(COOKIES_MAX);
    pairs.filter_map(move |pair| {
        let (known, value) = pair.trim().split_once('=')?;
        (known == name).then_some(value)
    })
}

/// Browsers send a cookie to every port of a host, so the port stands in its name.
pub(super) fn cookie_name(name: &str, host: &str) -> String {
    match host.rsplit_once(':') {
        Some((_, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{name}_{port}")
        }
        _ => name.to_owned(),
    }
}

/// Whether the browser uses TLS: to us, or to a proxy in front, as its page's origin shows.
pub(super) fn is_secure(incoming: &Incoming<'_, '_>) -> bool {
    let origin = incoming.request.header("origin").unwrap_or_default();
    incoming.is_tls || origin.starts_with("https://")
}

/// A cookie counts for pages of this server alone.
fn check_origin(incoming: &Incoming<'_, '_>, cx: &Context<'_>) -> Result<(), Reject> {
    let request = incoming.request;
    let is_ours = match (request.header("sec-fetch-site"), request.header("origin")) {
        (Some("same-origin"), _) => true,
        // A URL typed in by a user.
        (Some("none"), None) => matches!(request.method, "GET" | "HEAD"),
        (Some(_), _) => false,
        // Browsers without it, and all of them over plain HTTP.
        (None, Some(origin)) => is_same_origin(origin, request.host()),
        (None, None) => matches!(request.method, "GET" | "HEAD"),
    };
    if is_ours {
        return Ok(());
    }
    cx.count(Counter::RefusedOrigin);
    let origin = request.header("origin").unwrap_or("none");
    let why = format_args!("signed in, but origin {origin}");
    let notices = &cx.shared.notices;
    notices.refused("request", request.path(), "", why);
    let sentence = "a signed-in browser may call only from the dashboard's own page: \
                    elsewhere send the key as the header `X-API-Key`";
    Err(Reject::new(403, sentence))
}
