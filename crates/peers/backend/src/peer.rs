//! All exchanges, and the links that they are on.

use std::collections::BTreeMap;

use throng_http1::origin::OriginRequest;
use throng_peer::{Context, Ended, Flow, LinkId, Peer};
use throng_types::Millis;

use crate::call::{BackendLimits, Call, Reply, TicketId};
use crate::exchange::{Exchange, Next, To, Tools, Whole};
use crate::pool::{Pool, PoolLimits};

/// All HTTP backends, as one peer.
pub struct Backend<T> {
    limits: BackendLimits,
    /// Exchanges under way. Bound: the caller's.
    exchanges: BTreeMap<TicketId, Exchange<T>>,
    /// The exchange of each link that is in use. Bound: one a link.
    links: BTreeMap<LinkId, TicketId>,
    pool: Pool,
}

impl<T> Backend<T> {
    #[must_use]
    pub const fn new(limits: BackendLimits) -> Self {
        Self {
            limits,
            exchanges: BTreeMap::new(),
            links: BTreeMap::new(),
            pool: Pool::new(PoolLimits {
                of_place_max: limits.idle_max,
                all_max: limits.idle_all_max,
            }),
        }
    }

    /// Number of exchanges under way.
    #[must_use]
    pub fn exchanges(&self) -> usize {
        self.exchanges.len()
    }

    /// Lets an exchange act, and ends it if it is over. Its link may be another one afterwards.
    fn act<R: Default>(
        &mut self,
        ticket: TicketId,
        cx: &mut Context<'_, Reply<T>>,
        act: impl FnOnce(&mut Exchange<T>, &mut Tools<'_, '_, T>) -> (R, Next),
    ) -> R {
        let Some(exchange) = self.exchanges.get_mut(&ticket) else {
            return R::default();
        };
        let before = exchange.link();
        let (limits, pool) = (&self.limits, &mut self.pool);
        let mut tools = Tools { limits, pool, cx };
        let (result, next) = act(exchange, &mut tools);
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
        result
    }

    fn begin(
        &mut self,
        ticket: TicketId,
        request: OriginRequest,
        (to, token): (To, T),
        cx: &mut Context<'_, Reply<T>>,
    ) {
        let exchange = Exchange::new(request, to, token, cx.now.mono);
        self.exchanges.insert(ticket, exchange);
        self.act(ticket, cx, |exchange, tools| ((), exchange.start(tools)));
    }

    fn of(&self, link: LinkId) -> Option<TicketId> {
        self.links.get(&link).copied()
    }
}

impl<T: Send + 'static> Peer for Backend<T> {
    type Call = Call<T>;
    type Reply = Reply<T>;

    fn call(&mut self, call: Call<T>, cx: &mut Context<'_, Reply<T>>) {
        match call {
            Call::Submit {
                ticket,
                conn,
                number,
                request,
                token,
            } => self.begin(ticket, request, (To::Conn(conn, number), token), cx),
            Call::Ask {
                ticket,
                request,
                limits,
                token,
            } => self.begin(ticket, request, (To::Whole(Whole::new(limits)), token), cx),
            Call::Tell {
                ticket,
                request,
                token,
            } => self.begin(ticket, request, (To::Nobody, token), cx),
            Call::Grant(ticket, bytes) => self.act(ticket, cx, |exchange, tools| {
                exchange.granted(bytes, tools);
                ((), Next::On)
            }),
            Call::Follow(ticket, piece) => self.act(ticket, cx, |exchange, tools| {
                ((), exchange.follows(piece, tools))
            }),
            Call::Cancel(ticket) => {
                let link = { self.exchanges.remove(&ticket) }.and_then(|gone| gone.link());
                if let Some(link) = link {
                    self.links.remove(&link);
                    cx.end(link);
                }
            }
        }
    }

    fn connected(&mut self, link: LinkId, cx: &mut Context<'_, Reply<T>>) {
        if let Some(ticket) = self.of(link) {
            self.act(ticket, cx, |exchange, tools| {
                ((), exchange.connected(tools))
            });
        }
    }

    fn bytes(&mut self, link: LinkId, input: &[u8], cx: &mut Context<'_, Reply<T>>) -> Flow {
        match self.of(link) {
            Some(ticket) => {
                let got = |exchange: &mut Exchange<T>, tools: &mut Tools<'_, '_, T>| {
                    let (flow, next) = exchange.got(input, tools);
                    (flow == Flow::Hold, next)
                };
                match self.act(ticket, cx, got) {
                    true => Flow::Hold,
                    false => Flow::More,
                }
            }
            // Nobody asked for these.
            None => {
                self.pool.remove(link);
                cx.end(link);
                Flow::More
            }
        }
    }

    fn written(&mut self, link: LinkId, cx: &mut Context<'_, Reply<T>>) {
        if let Some(ticket) = self.of(link) {
            self.act(ticket, cx, |exchange, tools| ((), exchange.written(tools)));
        }
    }

    fn ended(&mut self, link: LinkId, why: Ended, cx: &mut Context<'_, Reply<T>>) {
        match self.of(link) {
            Some(ticket) => self.act(ticket, cx, |exchange, tools| {
                ((), exchange.ended(why, tools))
            }),
            None => {
                self.pool.remove(link);
            }
        }
    }

    fn timeout(
        &mut self,
        link: LinkId,
        waits_since: Option<Millis>,
        cx: &mut Context<'_, Reply<T>>,
    ) {
        match self.of(link) {
            Some(ticket) => self.act(ticket, cx, |exchange, tools| {
                ((), exchange.timeout(waits_since, tools))
            }),
            None => {
                self.pool.remove(link);
                cx.end(link);
            }
        }
    }

    fn destination(reply: &Reply<T>) -> Option<usize> {
        match reply {
            Reply::Event(conn, ..) => Some(conn.shard().index()),
            Reply::Whole(..) => None,
        }
    }
}
