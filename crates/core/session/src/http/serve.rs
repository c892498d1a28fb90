//! Steps of the front door for a whole request, before and instead of a gateway: whose it is, which
//! client it came from, and the allowance that pays for it. Only clients pay: calls of the server
//! API are not charged.
//!
//! A publisher sends the same path and the same field lines with each publication. Once such a
//! request was carried out, the next one like it on the connection needs neither parsing nor
//! judging: sender, permission and owner of the path follow from the equal parts. Only the query
//! and the length of the body may differ, and the gateway reads both anew.
//!
//! Invariants of that
//! - On the API port alone, where nothing but the field lines and the path has a say in these
//!   questions. A key in the query is not remembered.
//! - Nothing is remembered beyond a reload, which may have taken the key away.

use std::net::IpAddr;
use std::sync::Arc;

use throng_http1::{Body, KnownHead, Request};
use throng_metrics::Counter;
use throng_proxy::client_of;
use throng_types::{Actions, End, Now, SpanContext};

use super::body::limits;

use super::grpc::{is_grpc, no_call, reject_grpc};
use super::login::{check_key, login};
use super::page::{check_page, reader};
use super::pipeline::{PATIENCE, Repeat, waiting_bytes_max};
use super::response::{keep_head, safe};
use super::sign_in::sign_in;
use super::subscribe::preflight;
use super::{
    Becomes, Decided, Http, Incoming, Pending, Reject, Router, SAFE, allow_origin, answer_text,
    respond,
};
use crate::close::Port;
use crate::route::{Access, CLIENT_PAGE, Claim, Own, Owner, SERVER_METHODS};
use crate::{Admission, Context, Opened, Overspent, Payer, Shared, Work, is_close_by};

const TOO_MANY_CONNECTIONS: (u16, &str) = (429, "too many connections from your address");
const SERVER_FULL: (u16, &str) = (503, "the server has reached its limit of connections");

impl Http {
    /// Decides whose a request is: the highest claim to it. Where a gateway and the front door
    /// claim the same, it is the gateway's.
    pub(super) fn decide<R: Router>(
        &self,
        request: &Request<'_>,
        router: &R,
        cx: &Context<'_>,
    ) -> Decided {
        if self.admission != Admission::Welcome {
            return None;
        }
        let incoming = self.incoming(request, (&[], false), cx);
        let own = Own::claim(&incoming).map(|(own, claim)| (Owner::FrontDoor(own), claim));
        let claimed = router.claim(&incoming, cx.shared);
        let claimed = claimed.map(|(place, claim)| (Owner::Gateway(place), claim));
        let claims = own.into_iter().chain(claimed);
        claims.max_by_key(|(_, claim)| claim.rank)
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
            caller: &None,
            allowance: self.allowance,
            request,
            body,
            is_open,
            first_token: { self.pipeline.as_ref() }.map_or(0, |pipeline| pipeline.next_token),
        }
    }

    pub(super) fn serve<R: Router>(
        &mut self,
        request: &Request<'_>,
        decided: Decided,
        body: (&[u8], bool),
        router: &mut R,
        cx: &mut Context<'_>,
    ) -> Opened<R::Session> {
        let start = cx.out.len();
        let incoming = self.incoming(request, body, cx);
        cx.shared.notices.comes_from(incoming.client);
        self.look_for_proxy(request, cx.shared);
        let overspent = |whose: Overspent| Some((whose.counter(), whose.status()));
        let refusal = match self.admission {
            Admission::Welcome => None,
            Admission::AddressBusy => overspent(Overspent::Address),
            Admission::ConnectionBusy => overspent(Overspent::Connection),
            Admission::AddressFull => Some((Counter::RefusedPerIp, TOO_MANY_CONNECTIONS)),
            Admission::ServerFull => Some((Counter::RefusedConnectionsMax, SERVER_FULL)),
        };
        let opened = match refusal {
            None => self.answer_paid(incoming, decided, router, cx),
            Some((counter, refusal)) => {
                cx.count(counter);
                self.turn_away(refusal, request, cx)
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
        decided: Decided,
        router: &mut R,
        cx: &mut Context<'_>,
    ) -> Opened<R::Session> {
        if !self.is_counted_for(incoming.client, cx) {
            cx.count(Counter::RefusedPerIp);
            return self.turn_away(TOO_MANY_CONNECTIONS, incoming.request, cx);
        }
        if let Err(over) = self.pay(incoming.client, cx) {
            return self.turn_away(over.status(), incoming.request, cx);
        }
        let incoming = Incoming {
            allowance: self.allowance,
            ..incoming
        };
        let opened = answer(&incoming, decided, router, cx);
        if matches!(opened, Opened::Session(_)) {
            cx.shared.meter.charge(Work::Session, cx.now);
            self.note_trace(incoming.request, cx);
        }
        self.allowance = cx.shared.meter.take_back();
        opened
    }

    /// Notes the trace of a client that stays, for what webhooks tell of it, in the place of that
    /// of an earlier request, which may have been another client's behind a proxy.
    fn note_trace(&self, request: &Request<'_>, cx: &Context<'_>) {
        if self.port == Port::Api || cx.shared.tracer.is_none() || cx.shared.hooks.is_none() {
            return;
        }
        match { request.header(SpanContext::FIELD) }.and_then(SpanContext::sampled) {
            Some(trace) => cx.shared.client_traces.note(cx.id, trace),
            None => cx.shared.client_traces.gone(cx.id),
        }
    }

    fn turn_away<S>(
        &self,
        (status, sentence): (u16, &str),
        request: &Request<'_>,
        cx: &mut Context<'_>,
    ) -> Opened<S> {
        let notices = &cx.shared.notices;
        notices.refused("request", request.path(), "", sentence);
        if is_grpc(request, cx) {
            reject_grpc(&Reject::new(status, sentence), cx);
            return Opened::Answered { keep_alive: false };
        }
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

    pub(super) fn client_of(&self, request: &Request<'_>, shared: &Shared) -> IpAddr {
        if !shared.forwarded.trusts(self.peer) {
            return self.peer;
        }
        let lines: Vec<&[u8]> = request.headers().values("x-forwarded-for").collect();
        client_of(self.peer, lines.into_iter(), shared.forwarded.trusted())
    }

    /// Notes a peer that names another client in its first request, and is close by or refused for
    /// its address: most likely the operator's own proxy, whose clients all count as one.
    pub(super) fn look_for_proxy(&self, request: &Request<'_>, shared: &Shared) {
        if self.has_served || !request.headers().are_forwarded() || self.port != Port::Client {
            return;
        }
        let is_full = matches!(
            self.admission,
            Admission::AddressFull | Admission::AddressBusy
        );
        if (is_full || is_close_by(self.peer)) && !shared.forwarded.trusts(self.peer) {
            shared.counters.count(Counter::UnnamedProxies);
            shared.forwarded.note_unnamed(self.peer);
        }
    }

    /// Reads the header of a proxy, and continues with the bytes behind it.
    pub(super) fn proxy_header<R: Router>(
        &mut self,
        input: &[u8],
        router: &mut R,
        cx: &mut Context<'_>,
    ) -> Becomes<R::Session> {
        let pending = self.pending.take();
        let mut raw = pending.map(|pending| pending.raw).unwrap_or_default();
        raw.extend_from_slice(input);
        match throng_proxy::parse(&raw) {
            Ok(Some(announced)) => {
                self.awaits_proxy = false;
                if let Some(client) = announced.client {
                    self.comes_from(client.ip(), cx);
                }
                self.requests(&raw[announced.length..], 0, router, cx)
            }
            Ok(None) => {
                self.pending = Some(Box::new(Pending {
                    raw,
                    ..Pending::default()
                }));
                None
            }
            Err(fault) => {
                let notices = &cx.shared.notices;
                notices.refused("connect", "", "", fault.reason());
                // There is no one to answer: the peer is no proxy.
                cx.count(Counter::BadRequests);
                cx.end(End::Now);
                None
            }
        }
    }

    /// Records the client that the proxy named.
    fn comes_from(&mut self, client: IpAddr, cx: &Context<'_>) {
        self.peer = client;
        if self.port != Port::Client || self.admission != Admission::Welcome {
            return;
        }
        if !cx.shared.forwarded.belongs_to(cx.id, client) {
            self.admission = Admission::AddressFull;
        } else if !cx.shared.meter.admits(client, Work::Arrival, cx.now) {
            self.admission = Admission::AddressBusy;
        }
    }

    /// Counts the connection for the client that a proxy named; false if that client has as many as
    /// it may.
    pub(super) fn is_counted_for(&self, client: IpAddr, cx: &Context<'_>) -> bool {
        let is_told = self.port == Port::Client && client != self.peer;
        !is_told || cx.shared.forwarded.belongs_to(cx.id, client)
    }

    /// As a stream of a connection of HTTP/2, which may have been refused, and whose allowance pays
    /// for the stream's request. Once that is used up, the connection is to take no more streams.
    pub fn carried_by(
        self,
        carrier: &mut Self,
        shared: &Shared,
        actions: &mut Actions,
        now: Now,
    ) -> Self {
        let admission = match carrier.admission {
            Admission::Welcome => match carrier.pays_for_stream(shared, now) {
                true => self.admission,
                false => {
                    actions.end(End::Flush);
                    Admission::ConnectionBusy
                }
            },
            refused => refused,
        };
        Self { admission, ..self }
    }

    /// Charges a stream's request to the connection; false if it has no allowance left. A trusted
    /// proxy's has the requests of many clients, and needs none.
    fn pays_for_stream(&mut self, shared: &Shared, now: Now) -> bool {
        let own = self.allowance.get_or_insert_default();
        self.port != Port::Client
            || shared.forwarded.trusts(self.peer)
            || shared.meter.spend_own(own, Work::Request, now)
    }

    /// Charges a request to the client, and lends its allowance to what the request leads to. A
    /// trusted proxy's connection has requests of many clients, and no allowance of its own.
    pub(super) fn pay(&mut self, client: IpAddr, cx: &Context<'_>) -> Result<(), Overspent> {
        if self.port != Port::Client {
            return Ok(());
        }
        let meter = &cx.shared.meter;
        let own = self.allowance.filter(|_| client == self.peer);
        meter.pays(match cx.shared.forwarded.trusts(client) {
            true => Payer::NOBODY,
            false => meter.payer(client),
        });
        meter.lend(own.unwrap_or_default());
        let paid = cx.spend(Work::Request);
        self.allowance = meter.take_back();
        if let Some(own) = self.allowance.filter(|_| paid.is_ok()) {
            meter.lend(own);
        }
        paid
    }

    /// Remembers a request whose publications were ordered.
    pub(super) fn learn(
        &mut self,
        head: &[u8],
        request: &Request<'_>,
        (gateway, claim): (u8, Claim),
        cx: &Context<'_>,
    ) {
        let has_key = cx.shared.api_keys.is_empty()
            || request
                .header("x-api-key")
                .is_some_and(|key| !key.is_empty());
        let is_usual = self.port == Port::Api
            && claim.pipelines
            && has_key
            && request.method == "POST"
            && request.keep_alive()
            && !request.expects_continue();
        let client = self.client_of(request, cx.shared);
        let Some(pipeline) = self.pipeline.as_mut().filter(|_| is_usual) else {
            return;
        };
        let habit = &mut pipeline.habit;
        if habit.patience > 0 {
            habit.patience -= 1;
            habit.known = KnownHead::of(head, request).map(|head| Repeat {
                head,
                gateway,
                claim,
                client,
                keys: cx.shared.api_keys.clone(),
                caller: cx.shared.notices.caller(),
            });
        }
    }

    /// Carries out the request at the start of `input`, if it is whole and like the one that is
    /// known; gives how long it was.
    pub(super) fn repeat<R: Router>(
        &mut self,
        input: &[u8],
        router: &mut R,
        cx: &mut Context<'_>,
    ) -> Option<usize> {
        // The answer has to say that the connection ends.
        let pipeline = self.pipeline.as_mut().filter(|_| !cx.shared.draining)?;
        let judged = &pipeline.habit.known.as_ref()?.keys;
        if !Arc::ptr_eq(judged, &cx.shared.api_keys) {
            pipeline.habit.known = None;
            return None;
        }
        let Repeat {
            head,
            gateway,
            claim,
            client,
            caller,
            ..
        } = pipeline.habit.known.as_ref()?;
        let (claim, place, client) = (*claim, *gateway, *client);
        let caller = caller.clone();
        let limits = limits(self.port, Some(&claim), cx);
        let (request, head_bytes) = head.read(input, &limits)?;
        let Body::Length(body_bytes) = request.body else {
            return None;
        };
        let bytes = head_bytes.checked_add(usize::try_from(body_bytes).ok()?)?;
        let body = input.get(head_bytes..bytes)?;
        let waiting_max = waiting_bytes_max(cx);
        if !pipeline.is_empty() && !pipeline.has_room(waiting_max) {
            return None;
        }
        pipeline.habit.patience = PATIENCE.min(pipeline.habit.patience + 1);
        let incoming = Incoming {
            port: self.port,
            peer: self.peer,
            is_tls: cx.shared.is_tls.get(),
            client,
            caller: &caller,
            allowance: self.allowance,
            request: &request,
            body,
            is_open: false,
            first_token: pipeline.next_token,
        };
        cx.shared.notices.comes_from(client);
        cx.shared.notices.called_by(&caller);
        let start = cx.out.len();
        let opened = router.open((place, &claim), &incoming, cx);
        let opened = opened.unwrap_or_else(|reject| {
            reject_with(reject, claim.preflight, &incoming, true, cx);
            Opened::Answered { keep_alive: true }
        });
        let session = self.opened(opened, (start, bytes), cx);
        debug_assert!(session.is_none(), "such claims open no session");
        Some(bytes)
    }
}

fn answer<R: Router>(
    incoming: &Incoming<'_, '_>,
    decided: Decided,
    router: &mut R,
    cx: &mut Context<'_>,
) -> Opened<R::Session> {
    let is_for_pages = match &decided {
        Some((_, claim)) => claim.preflight,
        // So that a page reads that there is nothing.
        None => incoming.port == Port::Client,
    };
    let opened = match decided {
        Some((owner, claim)) => dispatch(incoming, owner, &claim, router, cx),
        None => {
            let hint = "nothing at this path; GET / lists the endpoints";
            match is_grpc(incoming.request, cx) {
                true => Err(no_call()),
                false => Err(Reject::new(404, router.off(incoming).unwrap_or(hint))),
            }
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
fn reject_with(
    reject: Reject,
    is_for_pages: bool,
    incoming: &Incoming<'_, '_>,
    keep_alive: bool,
    cx: &mut Context<'_>,
) {
    if is_grpc(incoming.request, cx) {
        return reject_grpc(&reject, cx);
    }
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
    cx.shared.notices.called_by(&None);
    if !claim.takes(method) && is_grpc(incoming.request, cx) {
        return Err(no_call());
    }
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
    let needs_key = match claim.access {
        Access::OfPort => incoming.port == Port::Api,
        Access::ApiKey => true,
        Access::Own => false,
    };
    let caller = match needs_key {
        true => check_key(incoming, claim, cx)?,
        false => None,
    };
    let incoming = &Incoming {
        caller: &caller,
        ..*incoming
    };
    match owner {
        Owner::Gateway(gateway) => router.open((gateway, claim), incoming, cx),
        Owner::FrontDoor(Own::Health) => health(incoming, cx),
        Owner::FrontDoor(Own::Login) => login(incoming, cx),
        Owner::FrontDoor(Own::SignIn) => sign_in(incoming, cx),
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
        let [first, last] = CLIENT_PAGE;
        let page = [first, &router.client_paths(), last].concat();
        answer_text(200, &page, &[], keep_alive, cx);
        return Ok(Opened::Answered { keep_alive });
    }
    let hint = || {
        let paths = router.api_paths().join(", ");
        format!("nothing at this path; the API port has /, /metrics, /stats, /healthz, {paths}")
    };
    send_page(incoming, incoming.request.path(), cx)
        .map(|()| Opened::Answered { keep_alive })
        .ok_or_else(|| Reject::new(404, router.off(incoming).map_or_else(hint, str::to_owned)))
}

/// Answers with a document of [`crate::Pages`], if there is one at the path.
pub fn send_page<S, O>(
    incoming: &Incoming<'_, '_>,
    path: &str,
    cx: &mut Context<'_, S, O>,
) -> Option<()> {
    let accept = incoming.request.header("accept");
    let page = cx.shared.pages.page(path, accept)?;
    let [a, b, c, d] = safe(page.policy);
    let content_type = ("Content-Type", page.content_type);
    let headers = [content_type, ("Cache-Control", "no-store"), a, b, c, d];
    let keep_alive = incoming.request.keep_alive();
    respond(200, &headers, &page.body, keep_alive, cx);
    Some(())
}
