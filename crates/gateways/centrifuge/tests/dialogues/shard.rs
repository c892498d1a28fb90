//! Clients of the gateway in front of three hubs, played without the server's shards.
//!
//! Orders are carried out after each input, as a shard does it at the end of a turn; mail between
//! the shards takes another round.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;

use throng_auth::{KeyConfig, Verifier};
use throng_broker::{
    BackendId, ChannelOptions, Draft, NamespaceOptions, ProxySwitches, Published, Refusal,
    Retention,
};
use throng_centrifuge::proxy::{ProxyKind, ProxyRefusal};
use throng_gateway_centrifuge::{Centrifuge, Mail, Session};
use throng_hub::{Answer, Batch, Command, Format, Hub, Patch, ReplyTo, Sink};
use throng_session::{
    BackendOptions, Backends, Event, Flow, Gateway as _, Own, Port, ProxyOptions, Question, Sender,
    ShardCalls, Shared, StatusMeaning, Survey,
};
use throng_solo::{Order, Solo};
use throng_types::{ConnId, Frame, Millis, Now, Publication, ShardId};

use crate::given::in_words;

pub(crate) const SHARDS: u8 = 3;
/// Signs the tokens of tests.
pub(crate) const SECRET: &str = "a secret that is long enough for HS256";
/// The time at which every story begins, in Unix seconds.
pub(crate) const BEGIN_S: u64 = 1_790_000_000;

/// Publications to the connection of an index, and their shared bytes.
type Delivery = (u32, Vec<Arc<Publication>>, Option<Vec<u8>>);

/// Answers and deliveries of a hub to the connections of its shard.
#[derive(Default)]
struct Outlet {
    answers: Vec<(ReplyTo, Answer)>,
    deliveries: Vec<Delivery>,
}

impl Sink for Outlet {
    fn answer(&mut self, reply_to: ReplyTo, answer: Answer) {
        self.answers.push((reply_to, answer));
    }

    fn encode(
        &mut self,
        format: Format,
        publication: &Publication,
        patch: Option<Patch<'_>>,
        out: &mut Vec<u8>,
    ) {
        let proxies = ProxyOptions::default();
        Centrifuge::encode(&proxies, format.number(), publication, patch, out);
    }

    fn deliver(&mut self, index: u32, batch: &Batch<'_>) {
        let shared = batch.encoded.map(|encoded| encoded.frames.bytes().to_vec());
        self.deliveries
            .push((index, batch.publications.to_vec(), shared));
    }
}

/// Channels in `open:` and `kept:` are for clients with a token, `anyone:` for all, `asked:` for
/// those that a backend lets in, `other:` for those that the second one lets in, `latest:` with the
/// newest publication, `changed:` as differences or filtered, `zipped:` compressed; others need a
/// token of their own.
fn options() -> NamespaceOptions {
    let closed = ChannelOptions::default();
    let open = ChannelOptions {
        subscribe: true,
        publish: true,
        ..closed
    };
    let kept = ChannelOptions {
        retention: Retention {
            publications_max: 3,
            ttl_ms: 60_000,
        },
        recovery: true,
        ..open
    };
    let anyone = ChannelOptions {
        anonymous_subscribe: true,
        ..closed
    };
    let proxied = |backend| ChannelOptions {
        proxies: ProxySwitches {
            subscribe: Some(backend),
            publish: Some(backend),
            ..ProxySwitches::default()
        },
        ..closed
    };
    let mut asked = ChannelOptions {
        user_channels: true,
        ..proxied(BackendId::DEFAULT)
    };
    asked.proxies.sub_refresh = Some(BackendId::DEFAULT);
    let mut latest = ChannelOptions {
        cache: true,
        ..kept
    };
    latest.proxies.cache_empty = Some(BackendId(1));
    let changed = ChannelOptions {
        delta: true,
        tags_filter: true,
        ..kept
    };
    let zipped = ChannelOptions {
        compression: true,
        ..open
    };
    let named = [
        ("open", open),
        ("kept", kept),
        ("anyone", anyone),
        ("asked", asked),
        ("other", proxied(BackendId(1))),
        ("latest", latest),
        ("changed", changed),
        ("zipped", zipped),
        ("throng", anyone),
    ];
    NamespaceOptions::new(closed, named.map(|(name, it)| (name.into(), it)).into())
}

/// Options of a server with keys for clients.
fn shared() -> Shared {
    let keys = KeyConfig {
        hmac_secret: Some(SECRET.as_bytes().into()),
        ..KeyConfig::default()
    };
    Shared {
        namespaces: Arc::new(options()),
        verifier: Some(Arc::new(Verifier::new(keys).expect("a good key"))),
        anonymous: false,
        ..throng_solo::shared()
    }
}

/// Two backends that are asked about everything: the first gets header fields of requests and of
/// `connect`, and has a status of its own; the second is asked in base64.
pub(crate) fn proxies() -> ProxyOptions {
    ProxyOptions {
        kinds: ProxyKind::ALL.into(),
        backends: vec![
            BackendOptions {
                http_headers: vec!["cookie".into(), "x-request".into()],
                emulated_headers: vec!["cookie".into(), "x-said".into()],
                is_binary: false,
                sends_meta: true,
                statuses: vec![StatusMeaning {
                    status: 403,
                    refusal: ProxyRefusal::disconnect(4403, "forbidden").expect("a good code"),
                }],
                grpc: Vec::new(),
            },
            BackendOptions {
                emulated_headers: vec!["x-said".into()],
                is_binary: true,
                ..BackendOptions::default()
            },
        ],
        rpc_namespaces: vec![("second".into(), BackendId(1))],
        is_traced: true,
    }
}

/// Questions to backends, each with the connection that asks and its number for it.
pub(crate) type Questions = Rc<RefCell<VecDeque<(ConnId, u32, Question)>>>;

/// Backends that collect what they are asked.
pub(crate) struct Asked {
    pub(crate) questions: Questions,
    pub(crate) has_room: bool,
}

impl Backends for Asked {
    fn ask(&self, conn: ConnId, number: u32, question: Question) -> bool {
        let mut questions = self.questions.borrow_mut();
        questions.push_back((conn, number, question));
        self.has_room
    }
}

/// Connection of one client, and its output that nobody has read yet.
pub(crate) struct Connection {
    pub(crate) solo: Solo<Centrifuge>,
    pub(crate) heard: Vec<u8>,
}

/// All connections, as the gateway sees them from one shard.
pub(crate) struct Floor {
    this: ShardId,
    pub(crate) shared: Rc<Shared>,
    pub(crate) now: Now,
    pub(crate) conns: Vec<Connection>,
    pub(crate) has_room: bool,
    mails: VecDeque<(ShardId, Mail)>,
}

impl Floor {
    fn find(&mut self, conn: ConnId) -> Option<&mut Connection> {
        self.conns.iter_mut().find(|it| it.solo.id == conn)
    }
}

/// Three shards of a server: their hubs, the gateway, and all connections.
pub(crate) struct Server {
    pub(crate) gateway: Centrifuge,
    pub(crate) floor: Floor,
    hubs: [Hub; SHARDS as usize],
    pub(crate) asked: Questions,
    /// Surveys sent to every shard, until they are looked at.
    pub(crate) surveys: VecDeque<Survey>,
    /// Orders for hubs that are not carried out, in words; none where all are.
    pub(crate) held: Option<Vec<String>>,
    /// Mail of the gateway: the receiver, and the bytes that a client chose.
    pub(crate) mailed: Vec<(u8, usize)>,
}

impl Default for Server {
    fn default() -> Self {
        let shared = shared();
        let hub = |shard| throng_solo::hub(ShardId(shard), SHARDS, &shared.namespaces);
        Self {
            gateway: Centrifuge::default(),
            hubs: [0, 1, 2].map(hub),
            asked: Questions::default(),
            surveys: VecDeque::new(),
            held: None,
            mailed: Vec::new(),
            floor: Floor {
                this: ShardId(0),
                shared: Rc::new(shared),
                now: Now {
                    mono: Millis(1_000_000),
                    unix_ms: BEGIN_S * 1000,
                },
                conns: Vec::new(),
                has_room: true,
                mails: VecDeque::new(),
            },
        }
    }
}

impl Server {
    /// Changes options; before the first connection only.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut Shared)) {
        change(Rc::get_mut(&mut self.floor.shared).expect("no connection yet"));
    }

    /// Opens a connection to a shard, and returns its place.
    pub(crate) fn connect(&mut self, port: Port, shard: u8) -> usize {
        let floor = &mut self.floor;
        let at = floor.conns.len();
        let id = ConnId::new(ShardId(shard), 3 + at as u32, 1);
        let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let mut solo = Solo::new(id, port, peer, floor.shared.clone(), self.gateway.shared());
        solo.now = floor.now;
        let heard = Vec::new();
        floor.conns.push(Connection { solo, heard });
        at
    }

    /// Lets something happen to a connection, and all that follows.
    pub(crate) fn event(&mut self, at: usize, event: Event<'_>) {
        self.floor.conns[at].solo.event(event);
        self.settle();
    }

    pub(crate) fn pass_ms(&mut self, ms: u64) {
        self.floor.now.mono = self.floor.now.mono + ms;
        self.floor.now.unix_ms += ms;
        for conn in &mut self.floor.conns {
            conn.solo.now = self.floor.now;
        }
    }

    /// Publishes by the server.
    pub(crate) fn publish(&mut self, draft: Draft) {
        let conn = ConnId::new(ShardId(0), 99, 9);
        let reply_to = ReplyTo { conn, token: 0 };
        self.carry_out(ShardId(0), Command::Publish { reply_to, draft });
        self.settle();
    }

    /// Hands mail to the gateway.
    pub(crate) fn mail(&mut self, to: ShardId, from: Sender, mail: Mail) {
        self.floor.this = to;
        self.gateway.mail(from, mail, &mut self.floor);
        self.settle();
    }

    fn carry_out(&mut self, shard: ShardId, command: Command) {
        let mut outlet = Outlet::default();
        self.hubs[shard.index()].handle(command, self.floor.now, &mut outlet);
        self.take(shard, outlet);
    }

    fn take(&mut self, shard: ShardId, outlet: Outlet) {
        for (reply_to, answer) in outlet.answers {
            let token = reply_to.token;
            if let Some(conn) = self.floor.find(reply_to.conn) {
                conn.solo.event(Event::Answer { token, answer });
            }
        }
        for conn in &mut self.floor.conns {
            conn.heard.append(&mut conn.solo.out);
        }
        for (index, publications, shared) in outlet.deliveries {
            let Some(conn) = self.floor.find(ConnId::new(shard, index, 1)) else {
                continue;
            };
            let session = conn.solo.session().expect("a subscriber");
            let personal = |publication| {
                let mut out = Vec::new();
                Centrifuge::encode_personal(session, publication, &mut out);
                out
            };
            let bytes = shared.unwrap_or_else(|| publications.iter().flat_map(personal).collect());
            conn.heard.extend_from_slice(&bytes);
        }
    }

    /// Carries out orders, mail and fan-out until nothing is left.
    pub(crate) fn settle(&mut self) {
        loop {
            let mut is_quiet = true;
            for at in 0..self.floor.conns.len() {
                let conn = &mut self.floor.conns[at];
                conn.heard.append(&mut conn.solo.out);
                let (id, shard) = (conn.solo.id, conn.solo.id.shard());
                for order in std::mem::take(&mut conn.solo.orders) {
                    is_quiet = false;
                    match order {
                        Order::Hub(command) => match &mut self.held {
                            Some(held) => held.push(in_words(&command)),
                            None => self.carry_out(shard, command),
                        },
                        Order::Survey { survey, .. } => self.surveys.push_back(survey),
                        Order::Gateway(order) => {
                            self.floor.this = shard;
                            self.gateway.order(order, &mut self.floor);
                        }
                        Order::Reload(_) => panic!("{id:?} reloads"),
                    }
                }
            }
            while let Some((to, mail)) = self.floor.mails.pop_front() {
                is_quiet = false;
                self.mailed.push((to.0, Centrifuge::mail_bytes(&mail)));
                let from = Sender::Shard(self.floor.this);
                self.floor.this = to;
                self.gateway.mail(from, mail, &mut self.floor);
            }
            for (from, to) in [(0, 1), (0, 2), (2, 0), (1, 0), (1, 2), (2, 1)] {
                while let Some(mail) = self.hubs[from].broker.take_mail(ShardId(to as u8)) {
                    is_quiet = false;
                    let mut outlet = Outlet::default();
                    let from = ShardId(from as u8);
                    self.hubs[to].mail(from, mail, self.floor.now, &mut outlet);
                    self.take(ShardId(to as u8), outlet);
                }
            }
            for shard in 0..SHARDS {
                let mut outlet = Outlet::default();
                let hub = &mut self.hubs[usize::from(shard)];
                is_quiet &= !hub.fan_out(100, self.floor.now, &mut outlet);
                self.take(ShardId(shard), outlet);
            }
            if is_quiet {
                return;
            }
        }
    }
}

impl ShardCalls<Centrifuge> for Floor {
    fn this(&self) -> ShardId {
        self.this
    }

    fn shards(&self) -> u8 {
        SHARDS
    }

    fn now(&self) -> Now {
        self.now
    }

    fn shared(&self) -> &Shared {
        &self.shared
    }

    fn hub(&self) -> &Hub {
        panic!("nothing is asked of it here")
    }

    fn publish(&mut self, draft: Draft) -> Result<Published, (Refusal, Draft)> {
        Err((Refusal::Busy, draft))
    }

    fn survey(&mut self, survey: Survey) {
        panic!("{survey:?}")
    }

    fn is_connected(&self, conn: ConnId) -> bool {
        self.conns.iter().any(|it| it.solo.id == conn)
    }

    fn conn(&self, _: u32) -> Option<ConnId> {
        None
    }

    fn sessions(&self) -> Vec<ConnId> {
        self.conns.iter().map(|it| it.solo.id).collect()
    }

    fn queued_bytes(&self, _: ConnId) -> usize {
        0
    }

    fn with(
        &mut self,
        conn: ConnId,
        act: impl FnOnce(&mut Session, &mut Own<'_, Centrifuge>) -> Flow,
    ) -> bool {
        let found = self.find(conn);
        found.is_some_and(|it| it.solo.act_and_become(act))
    }

    fn with_gone(
        &mut self,
        _: ConnId,
        _: &mut Session,
        _: impl FnOnce(&mut Session, &mut Own<'_, Centrifuge>),
    ) {
    }

    fn take_orders(&mut self) -> Vec<throng_gateway_centrifuge::Order> {
        Vec::new()
    }

    fn deliver(&mut self, _: ConnId, _: &[u8], _: &Frame) {}

    fn has_room(&self, _: ShardId) -> bool {
        self.has_room
    }

    fn mail(&mut self, to: ShardId, mail: Mail) {
        self.mails.push_back((to, mail));
    }
}
