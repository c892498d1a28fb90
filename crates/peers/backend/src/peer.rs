//! All exchanges, and the links that they are on.

use std::collections::BTreeMap;

use throng_peer::{LinkEvent, LinkId, Peer, PeerContext, ReadFlow};

use crate::call::{AnswerTo, BackendLimits, Call, Reply, TicketId};
use crate::exchange::{Exchange, Next, Tools};
use crate::grpc::{Carriers, MessageCall};
use crate::place::Key;
use crate::pool::{Pool, PoolLimits};
use crate::wire::host;

pub struct Backend<T> {
    limits: BackendLimits,
    /// Exchanges under way. Bound: the caller's.
    exchanges: BTreeMap<TicketId, Exchange<T>>,
    /// The exchange of each link that is in use. Bound: one a link.
    links: BTreeMap<LinkId, TicketId>,
    pool: Pool,
    carriers: Carriers<T>,
}

impl<T> Backend<T> {
    #[must_use]
    pub fn new(limits: BackendLimits) -> Self {
        Self {
            limits,
            exchanges: BTreeMap::new(),
            links: BTreeMap::new(),
            pool: Pool::new(PoolLimits {
                of_place_max: limits.idle_max,
                all_max: limits.idle_all_max,
            }),
            carriers: Carriers::new(&limits),
        }
    }

    #[must_use]
    pub fn exchanges(&self) -> usize {
        self.exchanges.len() + self.carriers.calls()
    }

    /// Lets an exchange act, and ends it if it is over. Its link may be another one afterwards.
    fn act(
        &mut self,
        ticket: TicketId,
        cx: &mut PeerContext<'_, Reply<T>>,
        act: impl FnOnce(&mut Exchange<T>, &mut Tools<'_, '_, T>) -> (ReadFlow, Next),
    ) -> ReadFlow {
        let Some(exchange) = self.exchanges.get_mut(&ticket) else {
            return ReadFlow::More;
        };
        let before = exchange.link();
        let (limits, pool) = (&self.limits, &mut self.pool);
        let mut tools = Tools { limits, pool, cx };
        let (flow, next) = act(exchange, &mut tools);
        let outcome = match next {
            Next::On => None,
            Next::Done => Some(Ok(())),
            Next::Failed(fault, what) => Some(Err((fault, what))),
        };
        let after = exchange.link().filter(|_| outcome.is_none());
        if before != after {
            if let Some(link) = before {
                self.links.remove(&link);
            }
            self.links.extend(after.map(|link| (link, ticket)));
        }
        if let Some(outcome) = outcome
            && let Some(exchange) = self.exchanges.remove(&ticket)
        {
            exchange.finish(outcome, tools);
        }
        flow
    }
}

impl<T: Send + 'static> Peer for Backend<T> {
    type Call = Call<T>;
    type Reply = Reply<T>;

    fn call(&mut self, call: Call<T>, cx: &mut PeerContext<'_, Reply<T>>) {
        match call {
            Call::Begin {
                ticket,
                to,
                request,
                token,
            } => {
                if let AnswerTo::Message(limits) = to
                    && let Some(target) = request.to.targets.first()
                {
                    let key = Key::of(target, &host(&request));
                    let call = MessageCall::new(key, request, limits, token, cx.now.mono);
                    return self.carriers.make(call, cx);
                }
                let exchange = Exchange::new(request, to, token, cx.now.mono);
                self.exchanges.insert(ticket, exchange);
                self.act(ticket, cx, |exchange, tools| {
                    (ReadFlow::More, exchange.start(tools))
                });
            }
            Call::Grant(ticket, bytes) => {
                self.act(ticket, cx, |exchange, tools| {
                    exchange.granted(bytes, tools);
                    (ReadFlow::More, Next::On)
                });
            }
            Call::Follow(ticket, piece) => {
                self.act(ticket, cx, |exchange, tools| {
                    (ReadFlow::More, exchange.follows(piece, tools))
                });
            }
            Call::Cancel(ticket) => {
                let link = { self.exchanges.remove(&ticket) }.and_then(|gone| gone.link());
                if let Some(link) = link {
                    self.links.remove(&link);
                    cx.end(link);
                }
            }
        }
    }

    fn event(
        &mut self,
        link: LinkId,
        event: LinkEvent<'_>,
        cx: &mut PeerContext<'_, Reply<T>>,
    ) -> ReadFlow {
        if let Some(ticket) = self.links.get(&link).copied() {
            return self.act(ticket, cx, |exchange, tools| exchange.event(event, tools));
        }
        if self.carriers.has(link) {
            self.carriers.event(link, event, cx);
            return ReadFlow::More;
        }
        match event {
            LinkEvent::Connected | LinkEvent::Written => {}
            LinkEvent::Ended(_) => self.pool.remove(link),
            // Bytes that nobody asked for, or it was kept for long enough.
            LinkEvent::Bytes(_) | LinkEvent::Timeout(_) => {
                self.pool.remove(link);
                cx.end(link);
            }
        }
        ReadFlow::More
    }

    fn destination(reply: &Reply<T>) -> Option<usize> {
        match reply {
            Reply::Event(conn, ..) => Some(conn.shard().index()),
            Reply::Whole(..) => None,
        }
    }
}
