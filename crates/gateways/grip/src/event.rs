//! Events of a GRIP session, passed on to the kind of session that it is.

use std::rc::Rc;
use std::sync::Arc;

use throng_grip::stats::SubscriptionMode;
use throng_http1::origin::OriginEvent;
use throng_hub::Answer;
use throng_session::{CloseReason, Event, Exchange, Flow};
use throng_types::{ChannelName, ConnId, Disconnect, End, Publication, Save};

use crate::Cx;
use crate::held::Held;
use crate::order::Order;
use crate::over_http::OverHttp;
use crate::proxied::{Becomes, Next, Proxied};
use crate::publish::Publishing;
use crate::request::BackendRequest;
use crate::sequencer::LastItem;
use crate::shared::GripShared;
use crate::stats::StatsReader;
use crate::tunnel::Tunnel;
use crate::zmtp::Zmtp;

/// One of GRIP's connections.
#[derive(Save)]
pub enum Session {
    /// A request whose backend is being asked.
    Proxied(Box<Proxied>),
    /// A backend holds it.
    Held(Held),
    /// Its stream has ended; it takes the next request when it has left its channels.
    #[save(skip)]
    Leaving(Box<Exchange>),
    /// A WebSocket whose backend speaks HTTP.
    OverHttp(Box<OverHttp>),
    /// A WebSocket whose backend speaks WebSocket.
    #[save(skip)]
    Tunnel(Box<Tunnel>),
    /// A publisher by HTTP whose items are on their way.
    #[save(skip)]
    Publishing(Box<Publishing>),
    /// A publisher by ZeroMQ.
    #[save(skip)]
    Zmtp(Zmtp),
    /// Reader of statistics by ZeroMQ.
    #[save(skip)]
    Stats(Box<StatsReader>),
}

impl Session {
    /// Whether another process can go on with it now: held clients and idle WebSockets over HTTP.
    ///
    /// A session that waits for a backend stays, with its exchange, until that is over; so do
    /// tunnels, whose backends hold the other end of a connection, and publishers, which reconnect.
    /// A session's route moves with it: requests on a route continue with that one, also if the new
    /// process has others.
    pub(crate) fn moves(&self) -> bool {
        match self {
            Self::Held(held) => held.moves(),
            Self::Proxied(proxied) => proxied.moves(),
            Self::OverHttp(socket) => socket.moves(),
            Self::Leaving(_)
            | Self::Tunnel(_)
            | Self::Publishing(_)
            | Self::Zmtp(_)
            | Self::Stats(_) => false,
        }
    }

    /// The request that a backend was asked.
    fn asked(&mut self) -> Option<&mut BackendRequest> {
        match self {
            Self::Proxied(proxied) => Some(&mut proxied.asked),
            Self::OverHttp(socket) => Some(socket.asked()),
            Self::Held(held) => {
                let follow = held.state.follow.as_mut();
                follow.map(|follow| &mut follow.asked)
            }
            _ => None,
        }
    }

    /// Shares equal values with the sessions that are already here.
    pub(crate) fn settle(&mut self, shared: &GripShared) {
        if let Some(asked) = self.asked() {
            let book = shared.book();
            if let Some(known) = book.routes.same(&asked.route) {
                asked.route = known.clone();
            }
        }
        if let Self::Held(held) = self
            && let Some(own) = held.state.keep_alive.take()
        {
            let own = Rc::try_unwrap(own).unwrap_or_else(|own| (*own).clone());
            held.state.keep_alive = Some(shared.keep_alive(own));
        }
    }

    pub(crate) fn event(&mut self, event: Event<'_>, cx: &mut Cx<'_>) -> Flow {
        let flow = self.happens(event, cx);
        self.leave_if_over(cx);
        note_end(&flow, cx);
        flow
    }

    fn happens(&mut self, event: Event<'_>, cx: &mut Cx<'_>) -> Flow {
        match event {
            Event::Bytes(input) => self.bytes(input, cx),
            Event::Timeout => return self.timeout(cx),
            Event::Publication(publication) => return self.publication(publication, cx),
            Event::Answer { token, answer } => return self.answer(token, &answer, cx),
            Event::Close(CloseReason::Because(Disconnect::Slow)) if let Self::Held(held) = self => {
                held.cut(cx);
            }
            Event::Close(_) => self.close(cx),
            // A backend's stream carries no messages of ours, and no session sends surveys.
            Event::Drained { .. }
            | Event::Unsubscribed { .. }
            | Event::Surveyed(_)
            | Event::Reloaded(_)
            | Event::Control(_) => {}
        }
        Flow::Stay
    }

    /// A stream that has ended in order leaves its connection to the next request.
    fn leave_if_over(&mut self, cx: &mut Cx<'_>) {
        if let Self::Held(held) = self
            && let Some(peer) = held.left(cx)
        {
            held.gone(cx);
            *self = Self::Leaving(Box::new(Exchange::of_client(peer)));
        }
    }

    /// The client has left the channels of its stream: the next request may come.
    pub(crate) fn left(&mut self, cx: &mut Cx<'_>) -> Flow {
        let Self::Leaving(exchange) = self else {
            return Flow::Stay;
        };
        cx.forget_held();
        exchange.keep_alive &= !cx.shared.draining;
        let flow = exchange.done(cx);
        note_end(&flow, cx);
        flow
    }

    /// A request's session may become something else.
    fn become_if(&mut self, becomes: Becomes) -> Flow {
        match becomes {
            None => Flow::Stay,
            Some(Next::Http(resume)) => Flow::Http(resume),
            Some(Next::Held(held)) => {
                *self = Self::Held(held);
                Flow::Stay
            }
        }
    }

    fn bytes(&mut self, input: &mut [u8], cx: &mut Cx<'_>) {
        if self.is_websocket() {
            cx.own.stats(|book| book.said(cx.id, cx.now.mono));
        }
        match self {
            Self::Stats(reader) => reader.bytes(input, cx),
            Self::Proxied(proxied) => proxied.bytes(input, cx),
            Self::OverHttp(socket) => socket.bytes(input, cx),
            Self::Tunnel(tunnel) => tunnel.bytes(input, cx),
            Self::Zmtp(zmtp) => zmtp.bytes(input, cx),
            Self::Publishing(publishing) => publishing.bytes(input, cx),
            // A held client sends no data, but may send requests, which get no answer.
            Self::Held(held) => held.said(),
            Self::Leaving(exchange) => {
                exchange.keep(input, cx.shared.limits.head_bytes_max, cx);
            }
        }
    }

    fn timeout(&mut self, cx: &mut Cx<'_>) -> Flow {
        match self {
            Self::Proxied(proxied) => {
                let becomes = proxied.timeout(cx);
                return self.become_if(becomes);
            }
            Self::Held(held) => held.timeout(cx),
            Self::OverHttp(socket) => socket.timeout(cx),
            Self::Tunnel(tunnel) => tunnel.timeout(cx),
            Self::Zmtp(_) | Self::Stats(_) => cx.end(End::Now),
            Self::Publishing(_) | Self::Leaving(_) => {}
        }
        Flow::Stay
    }

    fn publication(&mut self, publication: &Arc<Publication>, cx: &mut Cx<'_>) -> Flow {
        match self {
            Self::Proxied(proxied) => {
                let becomes = proxied.publication(publication, cx);
                return self.become_if(becomes);
            }
            Self::Held(held) => held.publication(publication, cx),
            Self::OverHttp(socket) => socket.publication(publication, cx),
            Self::Tunnel(tunnel) => tunnel.publication(publication, cx),
            Self::Publishing(_) | Self::Zmtp(_) | Self::Stats(_) | Self::Leaving(_) => {}
        }
        Flow::Stay
    }

    fn answer(&mut self, token: u32, answer: &Answer, cx: &mut Cx<'_>) -> Flow {
        if let Self::Publishing(publishing) = self {
            return publishing.published(token, answer, cx);
        }
        // A publisher that learns of a subscriber may publish at once, so it is told only of one
        // that gets publications.
        if let Answer::Subscribed { channel, result } = answer
            && result.is_ok()
        {
            if cx.own.tells_topics {
                cx.order(Order::Subscribed {
                    channel: channel.clone(),
                });
            }
            cx.own
                .stats(|book| book.subscribed(cx.id, channel, self.mode()));
        }
        match self {
            Self::Proxied(proxied) => {
                let becomes = proxied.answer(answer, cx);
                return self.become_if(becomes);
            }
            Self::Held(held) => held.answer(answer, cx),
            Self::OverHttp(socket) => socket.answer(answer, cx),
            Self::Tunnel(tunnel) => tunnel.answer(answer, cx),
            Self::Zmtp(zmtp) => zmtp.answer(cx),
            Self::Publishing(_) | Self::Stats(_) | Self::Leaving(_) => {}
        }
        Flow::Stay
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        match self {
            Self::Proxied(proxied) => proxied.close(cx),
            Self::Held(held) => held.close(cx),
            Self::OverHttp(socket) => socket.close(cx),
            Self::Tunnel(tunnel) => tunnel.close(cx),
            Self::Zmtp(_) | Self::Stats(_) | Self::Leaving(_) => cx.end(End::Flush),
            Self::Publishing(publishing) => publishing.close(),
        }
    }

    // ---- from the shard ----

    /// A backend has done something; `token` is the one that the order carried.
    pub(crate) fn origin(&mut self, token: u32, event: OriginEvent, cx: &mut Cx<'_>) -> Flow {
        let mut flow = Flow::Stay;
        match self {
            Self::Proxied(proxied) => {
                let becomes = proxied.origin(token, event, cx);
                flow = self.become_if(becomes);
            }
            Self::Held(held) => held.origin(token, event, cx),
            Self::OverHttp(socket) => socket.origin(token, event, cx),
            Self::Tunnel(tunnel) => tunnel.origin(event, cx),
            Self::Publishing(_) | Self::Zmtp(_) | Self::Stats(_) | Self::Leaving(_) => {}
        }
        self.leave_if_over(cx);
        note_end(&flow, cx);
        flow
    }

    /// Number of channels that publishers had been told of when the backend was first asked; `None`
    /// for sessions other than held streams with filters, ids or links.
    pub(crate) fn topics_told(&self) -> Option<u64> {
        match self {
            Self::Held(held) => held.topics_told(),
            _ => None,
        }
    }

    /// Connections that a publisher asked about, as a shard has found them.
    pub(crate) fn found(&mut self, token: u32, found: Option<Vec<ConnId>>, cx: &mut Cx<'_>) {
        if let Self::Zmtp(zmtp) = self {
            zmtp.found(token, found, cx);
        }
    }

    /// Which item of a channel went out last, as far as that is known.
    pub(crate) fn last_item(&mut self, channel: &ChannelName, last: &LastItem, cx: &mut Cx<'_>) {
        match self {
            Self::Proxied(proxied) => proxied.last_item(channel, last, cx),
            Self::Held(held) => held.last_item(channel, last, cx),
            _ => {}
        }
        self.leave_if_over(cx);
    }

    /// Makes the session ask its backend again, for a publisher, if it can.
    pub(crate) fn recover(&mut self, cx: &mut Cx<'_>) {
        match self {
            Self::Proxied(proxied) => proxied.recover(cx),
            Self::Held(held) => held.recover(cx),
            _ => {}
        }
        self.leave_if_over(cx);
    }

    /// Makes a WebSocket over HTTP ask its backend, for a publisher.
    pub(crate) fn refresh(&mut self, cx: &mut Cx<'_>) {
        if let Self::OverHttp(socket) = self {
            socket.refresh(cx);
        }
    }

    /// Whether it is a client's, as publishers mean it that check connections.
    pub(crate) const fn is_client(&self) -> bool {
        !matches!(self, Self::Publishing(_) | Self::Zmtp(_) | Self::Stats(_))
    }

    /// Subscription mode of the session, for statistics.
    const fn mode(&self) -> SubscriptionMode {
        match self {
            Self::Held(_) => SubscriptionMode::Stream,
            Self::OverHttp(_) | Self::Tunnel(_) => SubscriptionMode::WebSocket,
            _ => SubscriptionMode::Response,
        }
    }

    /// Whether it is a WebSocket whose handshake was answered.
    pub(crate) const fn is_websocket(&self) -> bool {
        match self {
            Self::OverHttp(socket) => socket.is_open(),
            Self::Tunnel(tunnel) => tunnel.is_open(),
            _ => false,
        }
    }

    /// Handles the end of its connection. True if the session stays until its backend is notified,
    /// and needs events of backends and of time.
    pub(crate) fn connection_gone(&mut self, cx: &mut Cx<'_>) -> bool {
        match self {
            Self::Held(held) => {
                cx.own.take_peer(cx.id);
                held.gone(cx);
            }
            Self::OverHttp(socket) => socket.lost(cx),
            _ => {}
        }
        !self.is_over()
    }

    /// Whether a session without a connection has notified its backend.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Self::OverHttp(socket) => socket.is_over(),
            _ => true,
        }
    }
}

/// A request that is answered, for statistics; its connection takes the next one.
fn note_end(flow: &Flow, cx: &Cx<'_>) {
    if let Flow::Http(_) = flow {
        cx.own.stats(|book| book.closed(cx.id, cx.now.mono));
    }
}
