//! One gateway behind the front door, without a shard: for the tests of gateways. And hubs without
//! a shard, for tests of hubs and of gateways before one.
//!
//! A [`Solo`] is one connection. Its output and orders are collected; the orders are not carried
//! out, so a test decides about them. [`Heard`] collects what a hub says.

mod hubs;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;

pub use hubs::{
    Delivered, Encode, Heard, conn, draft, fan_out, hub, hub_of, name, name_at, namespaces,
    position, publication, subscribe,
};
use throng_auth::{ApiKeys, Origins};
use throng_broker::{
    ChannelOptions, Draft, NamespaceOptions, PresenceOptions, Recovery, Refusal, Subscribed,
};
use throng_hub::{Answer, Command, Format, ReplyTo};
use throng_metrics::{Counter, Counters};
use throng_session::{
    self as session, Admission, Claim, Context, DateCell, Event, Flow, Follow, Forwarded, Gateway,
    Guard, Guards, Http, Incoming, Meter, NodeKey, Notices, OPENING, Opened, Page, Pages, Port,
    Reject, Router, SessionLimits, Shared, Survey, Users, WorkLimits,
};
use throng_types::{Actions, ConnId, Load as _, Now, Position, Save as _, ShardId, check_saved};

/// Fields of a request that opens a WebSocket.
pub const WEBSOCKET: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\n\
                             Sec-WebSocket-Version: 13\r\n\
                             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// An order of a session, with what one for its gateway says; see [`session::Order`].
#[derive(Debug)]
pub enum Order<O> {
    Hub(Command),
    Survey { reply_to: ReplyTo, survey: Survey },
    Reload(ConnId),
    Gateway(O),
}

/// A server without pages.
struct NoPages;

impl Pages for NoPages {
    fn page(&self, _: &str, _: Option<&str>) -> Option<Page> {
        None
    }
}

/// State of the connection: front door, or the gateway's session.
enum State<G: Gateway> {
    Http(Http),
    Own(G::Session),
}

/// One connection of a gateway, without a server, for tests.
pub struct Solo<G: Gateway> {
    pub id: ConnId,
    pub now: Now,
    /// State that all sessions share.
    pub shared: Rc<Shared>,
    /// State that the gateway's sessions share.
    pub own: Rc<G::Shared>,
    /// Bytes written and not yet taken.
    pub out: Vec<u8>,
    /// Orders issued and not yet taken.
    pub orders: Vec<Order<G::Order>>,
    /// Actions that the last event requested.
    pub actions: Actions,
    state: State<G>,
}

/// Sends the requests of one connection to the one gateway.
struct OneGateway<'a, G: Gateway> {
    own: &'a G::Shared,
    orders: &'a mut VecDeque<G::Order>,
}

impl<G: Gateway> Router for OneGateway<'_, G> {
    type Session = G::Session;

    fn claim(&self, request: &Incoming<'_, '_>, shared: &Shared) -> Option<(u8, Claim)> {
        Some((0, G::claim(self.own, request, shared)?))
    }

    fn off(&self, _: &Incoming<'_, '_>) -> Option<&'static str> {
        None
    }

    fn client_paths(&self) -> String {
        G::CLIENT_PATHS.to_owned()
    }

    fn api_paths(&self) -> Vec<&'static str> {
        G::API_PATHS.to_vec()
    }

    fn open(
        &mut self,
        (_, claim): (u8, &Claim),
        request: &Incoming<'_, '_>,
        cx: &mut Context<'_>,
    ) -> Result<Opened<G::Session>, Reject> {
        let mut own = Context {
            id: cx.id,
            now: cx.now,
            shared: cx.shared,
            own: self.own,
            out: cx.out,
            actions: cx.actions,
            orders: cx.orders,
            own_orders: self.orders,
            place: 0,
            forms_from: 0,
        };
        G::open(claim, request, &mut own)
    }
}

/// Pages of the same host may connect, by any name.
fn guard() -> Guard {
    Guard {
        origins: Origins::new([""; 0], true).expect("an empty list"),
        hosts: None,
        programs_by_any_name: false,
    }
}

/// Finds the counter of a series, by its name and the value of its label, if it has one.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn counter(series: &str, label: &[&str]) -> Counter {
    let is_it = |counter: &&Counter| {
        let own = counter.label().map(|label| label.value);
        counter.name() == series && own == label.first().copied()
    };
    let found = Counter::ALL.iter().find(is_it);
    *found.unwrap_or_else(|| panic!("no series: {series} {label:?}"))
}

/// Options without keys, with channels open to all and the usual limits.
pub fn shared() -> Shared {
    let open = ChannelOptions {
        anonymous_subscribe: true,
        anonymous_publish: true,
        publish: true,
        history: true,
        presence: PresenceOptions {
            for_client: true,
            for_anonymous: true,
            for_subscriber: true,
            ..PresenceOptions::default()
        },
        ..ChannelOptions::default()
    };
    Shared {
        limits: SessionLimits::default(),
        namespaces: Arc::new(NamespaceOptions::new(open, Vec::new())),
        closed_namespaces: Arc::new([]),
        verifier: None,
        anonymous: true,
        personal_channel: false,
        api_for_clients: false,
        guards: Arc::new(Guards {
            client: guard(),
            api: guard(),
            own: guard(),
        }),
        api_keys: Arc::new(ApiKeys::new([""; 0]).expect("no keys")),
        node: NodeKey::new([7; 32]),
        notices: Notices::default(),
        follow: Follow::new(Arc::default(), ShardId(0)),
        forwarded: Forwarded::default(),
        meter: Meter::new(WorkLimits::NONE, [1, 2]),
        users: Users::default(),
        counters: Arc::new(Counters::new()),
        pages: Arc::new(NoPages),
        hooks: None,
        ends: Default::default(),
        dates: DateCell::default(),
        client_traces: Default::default(),
        turn_times: Default::default(),
        tracer: None,
        version: "solo",
        started_unix_ms: 0,
        is_tls: Default::default(),
        http2: Default::default(),
        draining: false,
    }
}

impl<G: Gateway> Solo<G> {
    /// A new connection to the server API.
    pub fn caller(shared: Shared) -> Self
    where
        G::Shared: Default,
    {
        Self::at(Port::Api, shared)
    }

    /// A new connection of this machine by a port.
    pub fn at(port: Port, shared: Shared) -> Self
    where
        G::Shared: Default,
    {
        let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
        Self::new(conn(1), port, peer, Rc::new(shared), Rc::default())
    }

    /// A new connection by a port.
    pub fn new(
        id: ConnId,
        port: Port,
        peer: IpAddr,
        shared: Rc<Shared>,
        own: Rc<G::Shared>,
    ) -> Self {
        let accepted = match port {
            Port::Own { port, .. } => G::accept(&own, port, peer),
            Port::Client | Port::Api => None,
        };
        let http = || State::Http(Http::new(port, peer, Admission::Welcome));
        Self {
            id,
            now: Now::default(),
            shared,
            own,
            out: Vec::new(),
            orders: Vec::new(),
            actions: Actions::default(),
            state: accepted.map_or_else(http, State::Own),
        }
    }

    /// The gateway's session, once a request was claimed.
    pub const fn session(&mut self) -> Option<&mut G::Session> {
        match &mut self.state {
            State::Http(_) => None,
            State::Own(session) => Some(session),
        }
    }

    /// Saves the gateway's session and loads it again, as another process does, if it may move.
    ///
    /// # Panics
    /// If there is none, or it does not come back.
    pub fn moves(&mut self) -> bool {
        let session = self.session().expect("a session");
        let moves = G::moves(session);
        if moves {
            check_saved(session);
            *session = G::Session::load_whole(&session.saved()).expect("what was saved");
        }
        moves
    }

    /// Tells how the server counts the connection: `client`, `transport` or `user`, whose name is
    /// empty for a client without one.
    ///
    /// # Panics
    /// If there is no session, or no such word.
    pub fn counts_as(&mut self, what: &str) -> String {
        let class = G::class(self.session().expect("a session"));
        match what {
            "client" => class.is_client.to_string(),
            "transport" => class.transport.as_str().to_owned(),
            "user" => { class.identity }.map_or_else(String::new, |it| it.user.to_string()),
            _ => panic!("no class has {what}"),
        }
    }

    /// Passes bytes from the client to the session.
    pub fn feed(&mut self, input: &[u8]) {
        let mut input = input.to_vec();
        self.event(Event::Bytes(&mut input));
    }

    /// Sends the head of a `GET`; `fields` end each line.
    pub fn get(&mut self, target: &str, fields: &str) {
        let head = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
        self.feed(head.as_bytes());
    }

    /// Takes the output as text.
    pub fn told(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.out)).into_owned()
    }

    /// Takes the answers that were written, each as its status and its body.
    ///
    /// # Panics
    /// If something else was written.
    pub fn answers(&mut self) -> Vec<String> {
        let told = self.told();
        let answers = told.split("HTTP/1.1 ").skip(1).map(|answer| {
            let (head, body) = answer.split_once("\r\n\r\n").expect("a whole head");
            format!("{} {}", &head[..3], body.trim_end())
        });
        answers.collect()
    }

    /// Takes the publications that were ordered: the first token of each order, and its drafts.
    ///
    /// # Panics
    /// If something else was ordered.
    pub fn published(&mut self) -> Vec<(u32, Vec<Draft>)> {
        let orders = std::mem::take(&mut self.orders).into_iter();
        let drafts = orders.map(|order| match order {
            Order::Hub(Command::Publish { reply_to, draft }) => (reply_to.token, vec![draft]),
            Order::Hub(Command::PublishAll { reply_to, drafts }) => (reply_to.token, drafts),
            other => panic!("{other:?}"),
        });
        drafts.collect()
    }

    /// Takes the subscribes that were ordered: the channel, the form, and since when.
    ///
    /// # Panics
    /// If something else was ordered.
    pub fn subscribes(&mut self) -> Vec<(String, Format, Option<Position>)> {
        let orders = std::mem::take(&mut self.orders).into_iter();
        let subscribes = orders.map(|order| match order {
            Order::Hub(Command::Subscribe {
                channel,
                format,
                since,
                ..
            }) => (channel.to_string(), format, since),
            other => panic!("{other:?}"),
        });
        subscribes.collect()
    }

    /// Answers a publication by its token.
    pub fn answer(&mut self, token: u32, result: session::PublishOutcome) {
        let answer = Answer::Published { result };
        self.event(Event::Answer { token, answer });
    }

    /// Answers a subscribe of the opening, from the position 3 on.
    pub fn subscribed(&mut self, channel: &str, result: Result<Recovery, Refusal>) {
        let (channel, position) = (name(channel), Some(position(3)));
        let result = result.map(|recovery| Subscribed { position, recovery });
        let answer = Answer::Subscribed { channel, result };
        let token = OPENING;
        self.event(Event::Answer { token, answer });
    }

    /// Lets the gateway's session do something, if there is one.
    pub fn act<R>(
        &mut self,
        act: impl FnOnce(&mut G::Session, &mut Context<'_, G::Shared, G::Order>) -> R,
    ) -> Option<R> {
        self.actions = Actions::default();
        let State::Own(session) = &mut self.state else {
            return None;
        };
        let (mut orders, mut own_orders) = (Vec::new(), VecDeque::new());
        let mut cx = Context {
            id: self.id,
            now: self.now,
            shared: &self.shared,
            own: &*self.own,
            out: &mut self.out,
            actions: &mut self.actions,
            orders: &mut orders,
            own_orders: &mut own_orders,
            place: 0,
            forms_from: 0,
        };
        let result = act(session, &mut cx);
        self.collect(orders, own_orders);
        Some(result)
    }

    fn collect(&mut self, orders: Vec<session::Order>, mut own: VecDeque<G::Order>) {
        let orders = orders.into_iter().map(|order| match order {
            session::Order::Hub(command) => Order::Hub(command),
            session::Order::Survey { reply_to, survey } => Order::Survey { reply_to, survey },
            session::Order::GatewaySurvey { .. } => unreachable!("no session orders it"),
            session::Order::Reload(conn) => Order::Reload(conn),
            session::Order::Gateway(_) => Order::Gateway(own.pop_front().expect("one for each")),
        });
        self.orders.extend(orders);
    }

    /// Runs `act` and follows its [`Flow`], which may return the connection to HTTP. False if there
    /// is no session.
    pub fn act_and_become(
        &mut self,
        act: impl FnOnce(&mut G::Session, &mut Context<'_, G::Shared, G::Order>) -> Flow,
    ) -> bool {
        let Some(flow) = self.act(act) else {
            return false;
        };
        if let Flow::Http(resume) = flow {
            self.go_on(Next::Http(Http::again(&resume), resume.raw));
        }
        true
    }

    /// Lets something happen to the session.
    pub fn event(&mut self, event: Event<'_>) {
        let next = self.act_or_http(event);
        self.go_on(next);
    }

    fn go_on(&mut self, next: Next<G>) {
        let mut rest = match next {
            Next::Stay => return,
            Next::Own(session, rest) => {
                self.state = State::Own(session);
                rest
            }
            Next::Http(http, rest) => {
                self.state = State::Http(http);
                rest
            }
        };
        if !rest.is_empty() && self.actions.end.is_none() {
            let before = self.actions;
            self.event(Event::Bytes(&mut rest));
            self.actions = Actions {
                deadline: self.actions.deadline.or(before.deadline),
                end: self.actions.end.or(before.end),
                hold: self.actions.hold.or(before.hold),
                forget_held: self.actions.forget_held || before.forget_held,
                pause: self.actions.pause.or(before.pause),
                http2: self.actions.http2.or(before.http2),
            };
        }
    }

    fn act_or_http(&mut self, event: Event<'_>) -> Next<G> {
        if let State::Http(http) = &mut self.state {
            self.actions = Actions::default();
            let (mut orders, mut own_orders) = (Vec::new(), VecDeque::new());
            let mut router = OneGateway::<G> {
                own: &self.own,
                orders: &mut own_orders,
            };
            let mut cx = Context {
                id: self.id,
                now: self.now,
                shared: &self.shared,
                own: &(),
                out: &mut self.out,
                actions: &mut self.actions,
                orders: &mut orders,
                own_orders: &mut VecDeque::new(),
                place: 0,
                forms_from: 0,
            };
            let becomes = http.event(event, &mut router, &mut cx);
            self.collect(orders, own_orders);
            return becomes.map_or(Next::Stay, |(session, rest)| Next::Own(session, rest));
        }
        match self.act(|session, cx| G::event(session, event, cx)) {
            Some(Flow::Http(resume)) => Next::Http(Http::again(&resume), resume.raw),
            Some(Flow::Stay) | None => Next::Stay,
        }
    }
}

/// State after an event, with the bytes that are not read yet.
enum Next<G: Gateway> {
    Stay,
    Own(G::Session, Vec<u8>),
    Http(Http, Vec<u8>),
}
