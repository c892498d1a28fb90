//! Steps of the front door for a whole request, before and instead of a gateway.

use throng_http1::Request;
use throng_metrics::Counter;

use super::login::{check_key, login};
use super::page::{check_page, reader};
use super::response::{keep_head, safe};
use super::subscribe::preflight;
use super::{Http, Incoming, Reject, Router, SAFE, allow_origin, answer_text, respond};
use crate::port::Port;
use crate::route::{CLIENT_ENDPOINTS, Claim, Own, SERVER_METHODS};
use crate::{Admission, Context, Opened, Overspent, Work};

const TOO_MANY_CONNECTIONS: &str = "too many connections from your address";

/// Owner of a request: a gateway, or the front door itself.
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
        router.claim(&self.incoming(request, (&[], false), cx), cx)
    }

    fn incoming<'r, 'b>(
        &self,
        request: &'r Request<'b>,
        (body, is_open): (&'r [u8], bool),
        cx: &Context<'_>,
    ) -> Incoming<'r, 'b> {
        Incoming {
            port: self.port,
            peer: self.peer,
            is_tls: cx.shared.is_tls.get(),
            client: self.client_of(request, cx.shared),
            allowance: self.allowance,
            request,
            body,
            is_open,
            first_token: { self.pipeline.as_ref() }.map_or(0, |pipeline| pipeline.next_token()),
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
        let start = cx.out.len();
        let incoming = self.incoming(request, body, cx);
        cx.shared.notices.comes_from(incoming.client);
        self.look_for_proxy(request, cx.shared);
        let opened = match self.admission {
            Admission::Welcome => self.answer_paid(incoming, claim, router, cx),
            Admission::AddressBusy => {
                let (status, sentence) = Overspent::Address.status();
                cx.count(Overspent::Address.counter());
                self.turn_away(status, sentence, request, cx)
            }
            Admission::AddressFull => {
                cx.count(Counter::RefusedPerIp);
                self.turn_away(429, TOO_MANY_CONNECTIONS, request, cx)
            }
            Admission::ServerFull => {
                cx.count(Counter::RefusedConnectionsMax);
                self.turn_away(
                    503,
                    "the server has reached its limit of connections",
                    request,
                    cx,
                )
            }
        };
        if request.method == "HEAD" {
            keep_head(start, cx.out);
        }
        opened
    }

    /// Answers a request that the client can pay for.
    fn answer_paid<R: Router>(
        &mut self,
        incoming: Incoming<'_, '_>,
        claim: Option<(u8, Claim)>,
        router: &mut R,
        cx: &mut Context<'_>,
    ) -> Opened<R::Session> {
        if !self.is_counted_for(incoming.client, cx) {
            cx.count(Counter::RefusedPerIp);
            return self.turn_away(429, TOO_MANY_CONNECTIONS, incoming.request, cx);
        }
        if let Err(over) = self.pay(incoming.client, cx) {
            let (status, sentence) = over.status();
            return self.turn_away(status, sentence, incoming.request, cx);
        }
        let incoming = Incoming {
            allowance: self.allowance,
            ..incoming
        };
        let opened = answer(&incoming, claim, router, cx);
        if matches!(opened, Opened::Session(_)) {
            cx.shared.meter.charge(Work::Session, cx.now);
        }
        self.allowance = cx.shared.meter.take_back();
        opened
    }

    fn turn_away<S>(
        &self,
        status: u16,
        sentence: &str,
        request: &Request<'_>,
        cx: &mut Context<'_>,
    ) -> Opened<S> {
        let notices = &cx.shared.notices;
        notices.refused("request", request.path(), "", sentence);
        let wait_s = if status == 429 { "2" } else { "5" };
        let mut headers = vec![("Retry-After", wait_s)];
        allow_origin(self.reader(request, cx), &mut headers);
        answer_text(status, sentence, &headers, false, cx);
        Opened::Answered { keep_alive: false }
    }

    /// Returns the origin of a page that may read an error, on the port that pages use.
    pub(super) fn reader<'b>(&self, request: &Request<'b>, cx: &Context<'_>) -> Option<&'b str> {
        let is_client = matches!(self.port, Port::Client);
        is_client.then(|| reader(self.port, request, cx.shared))?
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
    let is_for_pages = match &claim {
        Some((_, claim)) => claim.preflight,
        // So that a page reads that there is nothing.
        None => incoming.port == Port::Client,
    };
    let opened = match claim {
        Some((owner, claim)) => dispatch(incoming, owner, &claim, router, cx),
        None => {
            let hint = "nothing at this path; GET / lists the endpoints";
            Err(Reject::new(404, router.off(incoming).unwrap_or(hint)))
        }
    };
    opened.unwrap_or_else(|reject| {
        let has_lost_trust = cx.shared.meter.has_lost_trust();
        if has_lost_trust {
            cx.note_overspent(Overspent::Tokens);
        }
        let keep_alive = incoming.request.keep_alive() && !has_lost_trust;
        reject_with(reject, is_for_pages, incoming, keep_alive, cx);
        Opened::Answered { keep_alive }
    })
}

/// Writes the answer to a request that is not carried out.
pub(super) fn reject_with(
    reject: Reject,
    is_for_pages: bool,
    incoming: &Incoming<'_, '_>,
    keep_alive: bool,
    cx: &mut Context<'_>,
) {
    let reader = is_for_pages
        .then(|| reader(incoming.port, incoming.request, cx.shared))
        .flatten();
    let safe: &[_] = match incoming.port {
        Port::Api => &SAFE,
        Port::Client | Port::Own { .. } => &[],
    };
    reject.write((reader, safe), keep_alive, cx);
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
        let reject = Reject::new(405, format!("this path takes {methods}"));
        return Err(reject.with("Allow", methods));
    }
    if claim.checks_origin {
        check_page(incoming.port, incoming.request, cx)?;
    }
    if method == "OPTIONS" && claim.preflight {
        let keep_alive = preflight(incoming, cx);
        return Ok(Opened::Answered { keep_alive });
    }
    let needs_no_key = matches!(owner, Owner::FrontDoor(own) if own.needs_no_key());
    if claim.needs_key || incoming.port == Port::Api && !needs_no_key {
        check_key(incoming, cx)?;
    }
    match owner {
        Owner::Gateway(gateway) => router.open((gateway, claim), incoming, cx),
        Owner::FrontDoor(Own::Health) => health(incoming, cx),
        Owner::FrontDoor(Own::Login) => login(incoming, cx),
        Owner::FrontDoor(Own::Dashboard | Own::Page) => page(incoming, router, cx),
        Owner::FrontDoor(Own::Server) => {
            let keep_alive = incoming.request.keep_alive();
            respond(200, &[("Allow", SERVER_METHODS)], b"", keep_alive, cx);
            Ok(Opened::Answered { keep_alive })
        }
    }
}

fn health<S>(incoming: &Incoming<'_, '_>, cx: &mut Context<'_>) -> Result<Opened<S>, Reject> {
    if cx.shared.draining {
        return Err(Reject::new(503, "draining"));
    }
    let keep_alive = incoming.request.keep_alive();
    let headers = [("Cache-Control", "no-store"), SAFE[0]];
    // Not 503: who ends a server for that would cut all its clients.
    let state = cx.shared.pages.lacks().unwrap_or("ok");
    answer_text(200, state, &headers, keep_alive, cx);
    Ok(Opened::Answered { keep_alive })
}

fn page<R: Router>(
    incoming: &Incoming<'_, '_>,
    router: &R,
    cx: &mut Context<'_>,
) -> Result<Opened<R::Session>, Reject> {
    let keep_alive = incoming.request.keep_alive();
    if incoming.port == Port::Client {
        answer_text(200, CLIENT_ENDPOINTS, &[], keep_alive, cx);
        return Ok(Opened::Answered { keep_alive });
    }
    let hint = "nothing at this path; the API port has /, /metrics, /stats, /healthz, \
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
    let [a, b, c, d] = safe(page.policy);
    let content_type = ("Content-Type", page.content_type);
    let headers = [content_type, ("Cache-Control", "no-store"), a, b, c, d];
    let keep_alive = incoming.request.keep_alive();
    respond(200, &headers, &page.body, keep_alive, cx);
    Some(())
}
