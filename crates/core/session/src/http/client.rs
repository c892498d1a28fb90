//! The client that a request came from, and the allowance that pays for it.
//!
//! Only clients pay: calls of the server API are not charged.

use std::net::IpAddr;

use throng_http1::Request;
use throng_metrics::Counter;
use throng_proxy::client_of;
use throng_types::End;

use super::{Becomes, Http, Pending, Router};
use crate::port::Port;
use crate::{Admission, Context, Overspent, Payer, Shared, Work, is_close_by};

impl Http {
    /// Returns the client that a request came from.
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
}
