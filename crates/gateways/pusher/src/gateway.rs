//! Pusher's clients as a gateway: their paths, and the session that a request becomes.

use std::rc::Rc;

use throng_broker::{ChannelOptions, HookConnection, HookEvent, Refusal};
use throng_http1::query;
use throng_pusher::CloseCode;
use throng_session::http::check_draining;
use throng_session::{
    Access, Claim, Class, Elsewhere, Event, Flow, Form, Gateway, Incoming, Opened, Patch, Port,
    Reject, Sender, ShardCalls, Shared, SurveyReply, Transport,
};
use throng_types::{ChannelName, ConnId, Load as _, Publication, Save, Saved, ShardId};
use throng_ws::handshake;

use crate::apps::NO_APP;
use crate::counts::Counts;
use crate::quota::RATES;
use crate::socket_id::socket_id;
use crate::{
    CACHE_NAMESPACE, Cx, NAMESPACE, PusherConnection, PusherShared, WaitingCall, api, forms,
};

const CLIENT: u8 = 0;
const CALL: u8 = 1;

/// First byte of words between nodes about apps.
const FORM: u8 = 0x40;

/// The oldest version of the protocol whose clients understand ours.
const VERSION_MIN: u32 = 5;

/// Session of this gateway: a client, or a call of a back end.
#[derive(Save)]
pub enum PusherSession {
    Client(PusherConnection),
    /// A call that waits for all shards; boxed, because it is rare and clients are small.
    #[save(skip)]
    Call(Box<WaitingCall>),
}

/// Mail of this gateway between shards, and from a reload.
pub enum PusherMail {
    /// Other apps, from a reload.
    Apps(PusherShared),
    /// Channels at home on the shard whose numbers of subscribers have changed.
    Changed(Vec<ChannelName>),
}

/// Gateway of Pusher's apps on one shard; owned by its thread.
pub struct Pusher {
    shared: Rc<PusherShared>,
    /// Whether clients came from another process whose app is not served here: the next tick closes
    /// them.
    has_strays: bool,
    counts: Counts,
    /// Use of apps on other nodes; on the first shard.
    elsewhere: Elsewhere<RATES>,
}

impl Pusher {
    pub fn new(shared: PusherShared) -> Self {
        Self {
            shared: Rc::new(shared),
            has_strays: false,
            counts: Counts::default(),
            elsewhere: Elsewhere::new(FORM),
        }
    }

    fn each_client(
        shard: &mut impl ShardCalls<Self>,
        act: impl Fn(&mut PusherConnection, &mut Cx<'_>),
    ) {
        for conn in shard.sessions() {
            shard.with(conn, |session, cx| {
                if let PusherSession::Client(client) = session {
                    act(client, cx);
                }
                Flow::Stay
            });
        }
    }

    /// Notes that the channels of a client have other numbers of subscribers.
    fn note_channels(&mut self, session: &PusherSession) {
        if let PusherSession::Client(client) = session
            && let Some(app) = self.shared.app(client.ws.state.app)
            && app.subscription_count
        {
            let channels = client.channels().map(|known| &known.channel);
            for channel in channels.filter(|channel| forms::is_counted(channel)) {
                self.counts.note(channel.clone());
            }
        }
    }

    fn leave(&self, session: &PusherSession) {
        if let PusherSession::Client(client) = session {
            client.leave(&self.shared);
        }
    }
}

impl Gateway for Pusher {
    type Session = PusherSession;
    type Shared = PusherShared;
    /// A channel whose number of subscribers has changed.
    type Order = ChannelName;
    type Mail = PusherMail;

    const FORMS: &'static [Form] = &[forms::EVENTS];
    const NAMESPACES: &'static [&'static str] = &[NAMESPACE, CACHE_NAMESPACE];
    const CLIENT_PATHS: &'static str =
        "  GET  /app/KEY                        Pusher's SDKs, if an [[app]] is configured\n";
    const API_PATHS: &'static [&'static str] = &["/apps/ID/events", "/apps/ID/channels"];

    fn channel_options(namespace: &str) -> ChannelOptions {
        forms::channel_options(namespace)
    }

    fn shared(&self) -> Rc<PusherShared> {
        self.shared.clone()
    }

    fn claim(own: &PusherShared, incoming: &Incoming<'_, '_>, shared: &Shared) -> Option<Claim> {
        own.apps().next()?;
        let claim = claim(incoming.port, own.inner_path(incoming.request.path())?)?;
        // Bodies of back ends are as long on the clients' port.
        let bytes_max = (claim.endpoint == CALL).then_some(shared.limits.publish_bytes_max);
        Some(Claim {
            body_bytes_max: bytes_max,
            ..claim
        })
    }

    fn off(port: Port, path: &str) -> Option<&'static str> {
        claim(port, path).map(
            |_| "no app is served at this path; see [[app]] and pusher.path in the configuration",
        )
    }

    fn open(
        claim: &Claim,
        incoming: &Incoming<'_, '_>,
        cx: &mut Cx<'_>,
    ) -> Result<Opened<PusherSession>, Reject> {
        match claim.endpoint {
            CALL => {
                let opened = api::open(incoming, cx)?;
                Ok(opened.map(|call| PusherSession::Call(Box::new(call))))
            }
            _ => {
                let client = websocket(incoming, cx)?;
                Ok(Opened::Session(PusherSession::Client(client)))
            }
        }
    }

    fn event(session: &mut PusherSession, event: Event<'_>, cx: &mut Cx<'_>) -> Flow {
        match session {
            PusherSession::Client(client) => client.event(event, cx),
            PusherSession::Call(call) => return call.event(event, cx),
        }
        Flow::Stay
    }

    /// Leaves the identity out: users of an app are not users of tokens.
    fn class(session: &PusherSession) -> Class<'_> {
        let client = match session {
            PusherSession::Client(client) => Some(client),
            PusherSession::Call(_) => None,
        };
        Class {
            transport: match client {
                Some(_) => Transport::WebSocket,
                None => Transport::Http,
            },
            is_client: client.is_some(),
            is_connected: client.is_some_and(|client| !client.ws.is_closing()),
            identity: None,
        }
    }

    fn user(session: &PusherSession) -> &str {
        match session {
            PusherSession::Client(client) => client.user(),
            PusherSession::Call(_) => "",
        }
    }

    fn client(
        own: &PusherShared,
        session: &PusherSession,
        conn: ConnId,
        shared: &Shared,
    ) -> HookConnection {
        let PusherSession::Client(client) = session else {
            return HookConnection::default();
        };
        let app = own.app(client.ws.state.app);
        HookConnection {
            scope: app.map_or_else(Box::default, |app| {
                format!("{NAMESPACE}:{}:", app.id).into()
            }),
            id: socket_id(&shared.node, conn).into(),
            ..shared.client(conn, client.user())
        }
    }

    fn encode(
        _: &PusherShared,
        _: u8,
        publication: &Publication,
        _: Option<Patch<'_>>,
        out: &mut Vec<u8>,
    ) {
        forms::encode(publication, out);
    }

    fn moves(session: &PusherSession) -> bool {
        matches!(session, PusherSession::Client(client) if client.moves())
    }

    fn save_kept(&self, _: ConnId, session: &PusherSession, out: &mut Vec<u8>) -> bool {
        let PusherSession::Client(client) = session else {
            return false;
        };
        let app = self.shared.app(client.ws.state.app);
        app.map(|app| app.id.save(out)).is_some()
    }

    fn load_kept(
        &mut self,
        _: ConnId,
        session: &mut PusherSession,
        from: &mut Saved<'_>,
    ) -> Option<()> {
        let id = Box::<str>::load(from)?;
        if let PusherSession::Client(client) = session {
            let known = self.shared.by_id(&id).filter(|(_, app)| app.is_enabled);
            self.has_strays |= known.is_none();
            client.ws.state.app = known.map_or(NO_APP, |(place, app)| {
                app.used.take_over();
                client.recount(None, Some(app));
                place
            });
            // Clients that did not move may have gone.
            self.note_channels(session);
        }
        Some(())
    }

    fn give_up(&mut self, _: ConnId, session: PusherSession) {
        self.leave(&session);
    }

    fn order(&mut self, changed: ChannelName, _: &mut impl ShardCalls<Self>) {
        self.counts.note(changed);
    }

    fn mail_bytes(mail: &PusherMail) -> usize {
        match mail {
            PusherMail::Apps(_) => 0,
            PusherMail::Changed(channels) => channels.iter().map(|it| it.as_str().len()).sum(),
        }
    }

    fn mail(&mut self, _: Sender, mail: PusherMail, shard: &mut impl ShardCalls<Self>) {
        let next = match mail {
            PusherMail::Apps(next) => next,
            PusherMail::Changed(channels) => return self.counts.take(channels),
        };
        let before = std::mem::replace(&mut self.shared, Rc::new(next));
        let next = &*self.shared;
        let is_other = |place| {
            let limits =
                |apps: &PusherShared| apps.app(place).map(|app| app.quota.channels_max > 0);
            before.end_code(place, next).is_some() || limits(&before) != limits(next)
        };
        if before.places().any(is_other) {
            Self::each_client(shard, |client, cx| {
                let place = client.ws.state.app;
                match before.end_code(place, next) {
                    Some(code) => client.end_with_app(code, cx),
                    None => client.recount(before.app(place), next.app(place)),
                }
            });
        }
    }

    fn surveyed(&mut self, replies: Vec<SurveyReply>, shard: &mut impl ShardCalls<Self>) {
        let now = shard.now().mono;
        self.counts.tell(replies, now, |channel, count| {
            if count > 0
                && let Err((Refusal::Busy, _)) = shard.publish(forms::count(channel.clone(), count))
            {
                return false;
            }
            if let Some(hooks) = &shard.shared().hooks {
                hooks.tell(HookEvent::Count {
                    channel: channel.clone(),
                    subscribers: count,
                });
            }
            true
        });
    }

    fn closed(&mut self, _: ConnId, session: PusherSession, _: &mut impl ShardCalls<Self>) {
        self.leave(&session);
        self.note_channels(&session);
    }

    fn turn(&mut self, _: usize, shard: &mut impl ShardCalls<Self>) -> bool {
        if !self.counts.has_changed() {
            return false;
        }
        for (home, channels) in self.counts.take_changed(shard.shards()) {
            let home = ShardId(home);
            if home == shard.this() {
                self.counts.take(channels);
            } else if shard.has_room(home) {
                shard.mail(home, PusherMail::Changed(channels));
            } else {
                channels.into_iter().for_each(|it| self.counts.note(it));
            }
        }
        false
    }

    fn heard(&mut self, word: &[u8], shard: &mut impl ShardCalls<Self>) {
        let (own, now) = (shard.shared().node.name(), shard.now().mono);
        self.shared.hear(word, &mut self.elsewhere, &own, now);
    }

    fn tick(&mut self, shard: &mut impl ShardCalls<Self>) {
        // What stays behind in an upgrade has the name of the process that goes on.
        if shard.this().0 == 0 && !shard.shared().draining {
            let now = shard.now().mono;
            shard.tell_nodes(|own| self.shared.words(&mut self.elsewhere, own, now));
        }
        if let Some(survey) = self.counts.ask(shard.now().mono) {
            shard.survey(survey);
        }
        if std::mem::take(&mut self.has_strays) {
            Self::each_client(shard, |client, cx| {
                if client.ws.state.app == NO_APP {
                    client.end_with_app(CloseCode::NoApp, cx);
                }
            });
        }
    }
}

fn claim(port: Port, path: &str) -> Option<Claim> {
    // An app has origins of its own, and keys that the front door does not know.
    let own = |endpoint, methods| Claim {
        checks_origin: false,
        access: Access::Own,
        ..Claim::endpoint(endpoint, methods)
    };
    if port == Port::Client && path.starts_with("/app/") {
        return Some(own(CLIENT, "GET"));
    }
    let is_call = matches!(port, Port::Client | Port::Api) && path.starts_with("/apps/");
    is_call.then(|| own(CALL, "GET, POST"))
}

/// Answers the handshake, and opens the session or refuses it. Refusals are frames, because
/// libraries decide by them whether to come back.
fn websocket(incoming: &Incoming<'_, '_>, cx: &mut Cx<'_>) -> Result<PusherConnection, Reject> {
    let accept = incoming.accept_websocket()?;
    check_draining(cx.shared)?;
    handshake::encode_response(&accept, None, None, cx.out);
    Ok(match admit(incoming, cx) {
        Ok(app) => PusherConnection::open(app, cx),
        Err(why) => PusherConnection::refused(why, cx),
    })
}

/// Finds the app that a client asks for, in its place, and counts the client.
fn admit(incoming: &Incoming<'_, '_>, cx: &Cx<'_>) -> Result<u16, CloseCode> {
    let request = incoming.request;
    let path = cx.own.inner_path(request.path()).unwrap_or_default();
    let key = path.strip_prefix("/app/").unwrap_or_default();
    let (place, app) = cx.own.by_key(key).ok_or(CloseCode::NoApp)?;
    if !app.is_enabled {
        return Err(CloseCode::Disabled);
    }
    if let Some((_, version)) = query::pairs(request.query()).find(|(name, _)| name == "protocol") {
        let version: u32 = version.parse().map_err(|_| CloseCode::BadVersion)?;
        if version < VERSION_MIN {
            return Err(CloseCode::OldVersion);
        }
    }
    let host = request.header("host").unwrap_or_default();
    let origin = request.header("origin");
    if !origin.is_none_or(|origin| app.origins.matches(origin, host)) {
        return Err(CloseCode::Unauthorized);
    }
    match app.used.enter(&app.quota) {
        true => Ok(place),
        false => Err(CloseCode::OverQuota),
    }
}
