//! Sign-in of browsers by an OpenID provider: `/session/oidc` leads there, `/session/callback` is
//! where the provider sends them back to, and `/session/state` says how far it is.
//!
//! The browser brings a cookie back that it got when it left, so a link that somebody else made
//! signs nobody in. That cookie is `SameSite=Lax`, because the way back begins at the provider's
//! page; the one that it gets then is as that of [`super::login`], and good for nothing until the
//! provider has said who it is. Where it leads back to is relative and the first cookie has no
//! path, so that all of it works below a path of a proxy, too.

use throng_types::json::Object;

use super::login::{COOKIE, cookie_name, cookies, is_secure};
use super::{Incoming, Reject, SAFE, respond, respond_json};
use crate::{Context, Opened, SignIn, SignInState};

/// Name of the cookie of a browser that is at the provider's page.
const AWAY: &str = "throng_oidc";

pub(super) fn sign_in<S>(
    incoming: &Incoming<'_, '_>,
    cx: &mut Context<'_>,
) -> Result<Opened<S>, Reject> {
    let pages = cx.shared.pages.clone();
    let provider = pages.sign_in();
    let path = incoming.request.path();
    if path == "/session/state" {
        return Ok(tell_state(incoming, provider, cx));
    }
    let provider = provider.ok_or_else(|| Reject::new(404, "no OpenID provider is set: [oidc]"))?;
    if path == "/session/oidc" {
        let begun = provider.begin(cx.now.mono);
        let begun = begun.map_err(|why| Reject::new(503, why))?;
        let terms = format!("Max-Age={}; SameSite=Lax", begun.lifetime_s);
        let cookie = [(AWAY, &*begun.secret, &*terms)];
        return Ok(lead(incoming, &begun.location, &cookie, cx));
    }
    let (mut state, mut code, mut issuer) = (None, None, None);
    for pair in incoming.parameters() {
        let (name, value) = pair?;
        match &*name {
            "state" => state = Some(value),
            "code" => code = Some(value),
            "iss" => issuer = Some(value),
            _ => {}
        }
    }
    let refused = |why: &'static str, cx: &Context<'_>| {
        let notices = &cx.shared.notices;
        notices.refused("sign in", incoming.request.path(), "", why);
        Reject::new(403, why)
    };
    let (Some(state), Some(code)) = (state, code) else {
        return Err(refused("the provider has signed nobody in", cx));
    };
    let name = cookie_name(AWAY, incoming.request.host());
    let secret = cookies(incoming.request, &name).next();
    let secret = secret.ok_or_else(|| refused("this sign-in has not begun in this browser", cx))?;
    let told = (&*state, &*code, issuer.as_deref());
    let back = provider.back(secret, told, (cx.id, incoming.client), cx.now.mono);
    let secret = back.map_err(|why| refused(why, cx))?;
    let lifetime_s = pages.logins().map_or(0, |logins| logins.lifetime_s());
    let terms = format!("Path=/; Max-Age={lifetime_s}; SameSite=Strict");
    let away = (AWAY, "", "Max-Age=0; SameSite=Lax");
    let cookies = [(COOKIE, &*secret, &*terms), away];
    Ok(lead(incoming, "../", &cookies, cx))
}

/// Sends a browser elsewhere, with cookies: their names, values and terms.
fn lead<S>(
    incoming: &Incoming<'_, '_>,
    location: &str,
    cookies: &[(&str, &str, &str)],
    cx: &mut Context<'_>,
) -> Opened<S> {
    let secure = if is_secure(incoming) { "; Secure" } else { "" };
    let cookies = cookies.iter().map(|(name, value, terms)| {
        let name = cookie_name(name, incoming.request.host());
        format!("{name}={value}; {terms}; HttpOnly{secure}")
    });
    let cookies: Vec<String> = cookies.collect();
    let mut headers = vec![("Cache-Control", "no-store"), ("Location", location)];
    headers.extend(SAFE);
    headers.extend(cookies.iter().map(|cookie| ("Set-Cookie", &**cookie)));
    let keep_alive = incoming.request.keep_alive();
    respond(303, &headers, b"", keep_alive, cx);
    Opened::Answered { keep_alive }
}

fn tell_state<S>(
    incoming: &Incoming<'_, '_>,
    provider: Option<&dyn SignIn>,
    cx: &mut Context<'_>,
) -> Opened<S> {
    let name = cookie_name(COOKIE, incoming.request.host());
    let mut secrets = cookies(incoming.request, &name);
    let now = cx.now.mono;
    let known = secrets.find_map(|secret| match provider?.state(secret, now) {
        SignInState::Unknown => None,
        state => Some(state),
    });
    let mut body = Vec::new();
    Object::append(&mut body, |body| {
        body.flag("provider", provider.is_some());
        let (state, why) = match &known {
            None | Some(SignInState::Unknown) => ("unknown", ""),
            Some(SignInState::Pending) => ("pending", ""),
            Some(SignInState::Done) => ("done", ""),
            Some(SignInState::Refused(why)) => ("refused", &**why),
        };
        body.text("state", state);
        body.text_if_any("why", why);
    });
    let keep_alive = incoming.request.keep_alive();
    respond_json(200, &body, keep_alive, cx);
    Opened::Answered { keep_alive }
}
