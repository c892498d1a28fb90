//! What the front door does with a whole request before and instead of a gateway.

use throng_auth::Credentials;
use throng_http1::{Request, encode_response, query};
use throng_metrics::Counter;
use throng_types::End;

use super::subscribe::preflight;
use super::{Http, Incoming, Reject, Router, answer_text, refuse};
use crate::route::{CLIENT_ENDPOINTS, Claim, Own, Port};
use crate::{Admission, Context, Opened, Overspent, Work};

/// Who a request belongs to.
enum Owner {
    Gateway(u8),
    FrontDoor(Own),
}

impl Http {
    pub(super) fn claim<R: Router>(
        &self,
        request: &Request<'_>,
        router: &R,
        cx: &Context<'_>,
    ) -> Option<(u8, Claim)> {
        if self.admission != Admission::Welcome {
            return None;
        }
        router.claim(&self.incoming(request, (&[], false)), cx)
    }

    const fn incoming<'r, 'b>(
        &self,
        request: &'r Request<'b>,
        (body, is_open): (&'r [u8], bool),
    ) -> Incoming<'r, 'b> {
        Incoming {
            port: self.port,
            peer: self.peer,
            allowance: self.allowance,
            request,
            body,
            is_open,
        }
    }

    pub(super) fn serve<R: Router>(
        &mut self,
        request: &Request<'_>,
        claim: Option<(u8, Claim)>,
        body: (&[u8], bool),
        router: &mut R,
        cx: &mut Context<'_>,
    ) -> Opened<R::Session> {
        match self.admission {
            Admission::Welcome => {}
            Admission::AddressBusy => {
                let (status, sentence) = Overspent::Address.status();
                cx.count(Overspent::Address.counter());
                refuse(status, sentence, cx);
                return Opened::Answered { keep_alive: false };
            }
            Admission::AddressFull => {
                cx.count(Counter::RefusedPerIp);
                refuse(429, "your address has as many connections as it may", cx);
                return Opened::Answered { keep_alive: false };
            }
            Admission::ServerFull => {
                cx.count(Counter::RefusedConnectionsMax);
                refuse(503, "the server has as many connections as it may", cx);
                return Opened::Answered { keep_alive: false };
            }
        }
        if let Err(over) = self.pay(cx) {
            let (status, sentence) = over.status();
            answer_text(status, sentence, &[("Retry-After", "2")], false, cx.out);
            cx.end(End::Flush);
            return Opened::Answered { keep_alive: false };
        }
        let start = cx.out.len();
        let opened = answer(&self.incoming(request, body), claim, router, cx);
        if matches!(opened, Opened::Session(_)) {
            cx.shared.meter.charge(Work::Session, cx.now);
        }
        self.allowance = cx.shared.meter.take_back();
        if request.method == "HEAD" {
            keep_head(start, cx.out);
        }
        opened
    }
}

impl Http {
    /// Charges a request to the client, and lends its allowance to what the request leads to. Only
    /// clients pay: whoever may call the server API may do so as often as he likes.
    fn pay(&mut self, cx: &Context<'_>) -> Result<(), Overspent> {
        if self.port != Port::Client {
            return Ok(());
        }
        let meter = &cx.shared.meter;
        let own = self.allowance;
        meter.pays(meter.payer(self.peer));
        meter.lend(own.unwrap_or_default());
        let paid = cx.spend(Work::Request);
        self.allowance = meter.take_back();
        if let Some(own) = self.allowance.filter(|_| paid.is_ok()) {
            meter.lend(own);
        }
        paid
    }
}

/// The answer to HEAD is that to GET without its body (RFC 9110 section 9.3.2).
fn keep_head(start: usize, out: &mut Vec<u8>) {
    const END: &[u8] = b"\r\n\r\n";
    let answer = out.get(start..).unwrap_or_default();
    if let Some(at) = answer.windows(END.len()).position(|window| window == END) {
        out.truncate(start + at + END.len());
    }
}

fn answer<R: Router>(
    incoming: &Incoming<'_, '_>,
    claim: Option<(u8, Claim)>,
    router: &mut R,
    cx: &mut Context<'_>,
) -> Opened<R::Session> {
    let claim = claim.map(|(gateway, claim)| (Owner::Gateway(gateway), claim));
    let own = Own::claim(incoming).map(|(own, claim)| (Owner::FrontDoor(own), claim));
    let claims = own.into_iter().chain(claim);
    let claim = claims.max_by_key(|(_, claim)| claim.rank);
    let allow = claim.as_ref().and_then(|(_, claim)| claim.methods);
    let opened = match claim {
        Some((owner, claim)) => dispatch(incoming, owner, &claim, router, cx),
        None => {
            let hint = "there is nothing at this path; GET / says what there is";
            Err(Reject::new(404, router.off(incoming).unwrap_or(hint)))
        }
    };
    opened.unwrap_or_else(|Reject(status, sentence)| {
        let has_lost_trust = cx.shared.meter.has_lost_trust();
        if has_lost_trust {
            cx.count(Overspent::Tokens.counter());
        }
        let keep_alive = incoming.request.keep_alive() && !has_lost_trust;
        let headers: &[(&str, &str)] = match status {
            405 => &[("Allow", allow.unwrap_or_default())],
            401 => &[("WWW-Authenticate", "Bearer")],
            503 => &[("Retry-After", "5")],
            _ => &[],
        };
        answer_text(status, &sentence, headers, keep_alive, cx.out);
        Opened::Answered { keep_alive }
    })
}

fn dispatch<R: Router>(
    incoming: &Incoming<'_, '_>,
    owner: Owner,
    claim: &Claim,
    router: &mut R,
    cx: &mut Context<'_>,
) -> Result<Opened<R::Session>, Reject> {
    let method = incoming.request.method;
    if !claim.takes(method) {
        let methods = claim.methods.unwrap_or_default();
        return Err(Reject::new(405, format!("this path takes {methods}")));
    }
    if claim.checks_origin {
        check_origin(incoming, cx)?;
    }
    if method == "OPTIONS" && claim.preflight {
        let keep_alive = preflight(incoming, cx.out);
        return Ok(Opened::Answered { keep_alive });
    }
    let is_health = matches!(owner, Owner::FrontDoor(Own::Health));
    if incoming.port == Port::Api && !is_health {
        check_key(incoming, cx)?;
    }
    match owner {
        Owner::Gateway(gateway) => router.open((gateway, claim), incoming, cx),
        Owner::FrontDoor(Own::Health) => health(incoming, cx),
        Owner::FrontDoor(Own::Page) => page(incoming, router, cx),
    }
}

/// Refuses requests that come from pages of other origins: a browser tells where its page came
/// from.
fn check_origin(incoming: &Incoming<'_, '_>, cx: &Context<'_>) -> Result<(), Reject> {
    let Some(origin) = incoming.request.header("origin") else {
        return Ok(());
    };
    if cx.shared.origins.matches(origin, incoming.request.host()) {
        return Ok(());
    }
    cx.count(Counter::RefusedOrigin);
    let sentence =
        format!("pages of {origin} may not connect; list the origin in auth.allowed_origins");
    Err(Reject::new(403, sentence))
}

/// Asks for a key on the API port, if there are any.
fn check_key(incoming: &Incoming<'_, '_>, cx: &Context<'_>) -> Result<(), Reject> {
    if cx.shared.api_keys.is_empty() {
        return Ok(());
    }
    let request = incoming.request;
    let from_query = query::pairs(request.query()).find(|(name, _)| name == "api_key");
    let credentials = Credentials {
        x_api_key: request.header("x-api-key"),
        authorization: request.header("authorization"),
        query: from_query.as_ref().map(|(_, key)| &**key),
    };
    if cx.shared.api_keys.admit(credentials) {
        return Ok(());
    }
    cx.count(Counter::AuthApiKey);
    let sentence = "an API key is needed: send it as the header `X-API-Key`";
    Err(Reject::new(401, sentence))
}

fn health<S>(incoming: &Incoming<'_, '_>, cx: &mut Context<'_>) -> Result<Opened<S>, Reject> {
    if cx.shared.draining {
        return Err(Reject::new(503, "draining"));
    }
    let keep_alive = incoming.request.keep_alive();
    answer_text(
        200,
        "ok",
        &[("Cache-Control", "no-store")],
        keep_alive,
        cx.out,
    );
    Ok(Opened::Answered { keep_alive })
}

fn page<R: Router>(
    incoming: &Incoming<'_, '_>,
    router: &R,
    cx: &mut Context<'_>,
) -> Result<Opened<R::Session>, Reject> {
    let keep_alive = incoming.request.keep_alive();
    if incoming.port == Port::Client {
        answer_text(200, CLIENT_ENDPOINTS, &[], keep_alive, cx.out);
        return Ok(Opened::Answered { keep_alive });
    }
    let hint = "there is nothing at this path; the API port has /, /metrics, /stats, /healthz, \
                /pub, /api/… and /v1/realtime/events";
    send_page(incoming, incoming.request.path(), cx)
        .map(|()| Opened::Answered { keep_alive })
        .ok_or_else(|| Reject::new(404, router.off(incoming).unwrap_or(hint)))
}

/// Answers with a document of [`crate::Pages`], if there is one at the path.
pub fn send_page<S, O>(
    incoming: &Incoming<'_, '_>,
    path: &str,
    cx: &mut Context<'_, S, O>,
) -> Option<()> {
    let page = cx.shared.pages.page(path)?;
    let headers = [
        ("Content-Type", page.content_type),
        ("Cache-Control", "no-store"),
    ];
    encode_response(
        200,
        &headers,
        &page.body,
        incoming.request.keep_alive(),
        cx.out,
    );
    Some(())
}
