//! Plain clients as a gateway: their paths, and the session that a request at each becomes.

use std::rc::Rc;
use std::sync::Arc;

use throng_session::http::{
    Entry, Params, StreamHead, check_chunks, check_draining, write_stream_head,
};
use throng_session::{
    Answered, Ask, BackendMail, Backends, Claim, Class, Event, Flow, Form, Gateway, Incoming,
    KeyRole, Opened, Overspent, Own, Patch, Port, ProxyOptions, Reject, Sender, ShardCalls, Shared,
    Transport, WayToBackends, answer_handshake,
};
use throng_types::{ChannelName, ConnId, Epoch, Position, Publication, Save};
use throng_ws::handshake;

use crate::asking::{Asking, Way};
use crate::cursor::Cursor;
use crate::follow::follow;
use crate::framing::Framing;
use crate::publish::{Reloading, publish};
use crate::publisher::PublisherSession;
use crate::socket::SocketSession;
use crate::stream::StreamSession;
use crate::{Cx, forms};

const WS: u8 = 0;
const SSE: u8 = 1;
const LINES: u8 = 2;
const PUBLISH: u8 = 3;
const PUBLISHER: u8 = 4;
const RELOAD: u8 = 5;
const FOLLOW: u8 = 6;

/// The subprotocol of a publisher's WebSocket.
const SUBPROTOCOL: &str = "throng-publish";

#[derive(Save)]
pub enum Session {
    /// WebSocket client of `/ws`.
    Socket(SocketSession),
    /// Stream client of `/sse` or `/stream`.
    Stream(StreamSession),
    /// One of these, while backends are asked about it. Boxed, because it is so for a moment.
    #[save(skip)]
    Asking(Box<Asking>),
    /// A publisher's WebSocket. Boxed, because there are few.
    Publisher(Box<PublisherSession>),
    /// `/api/reload`. Boxed, because there are few.
    #[save(skip)]
    Reloading(Box<Reloading>),
    /// An operator's stream of `/follow`. Boxed, because there are few.
    #[save(skip)]
    Following(Box<StreamSession>),
}

/// The clients of `/ws`, `/sse`, `/stream` and `/pub` on one shard.
#[derive(Default)]
pub struct Plain {
    backends: WayToBackends,
}

impl Plain {
    /// With backends that are asked about clients.
    pub fn with_backends(own: ProxyOptions, backends: Box<dyn Backends>) -> Self {
        Self {
            backends: WayToBackends::new(own, backends),
        }
    }

    /// A backend has answered the question with this number, or failed to.
    pub fn answered(
        session: &mut Session,
        number: u32,
        answer: Answered,
        cx: &mut Own<'_, Self>,
    ) -> Flow {
        let Session::Asking(asking) = session else {
            return Flow::Stay;
        };
        let entry = match asking.answered(number, answer, cx) {
            Ok(Some(entry)) => match admit(&entry, cx) {
                Ok(()) => entry,
                Err(over) => return asking.refuse(over.into(), cx),
            },
            Ok(None) => return Flow::Stay,
            Err(why) => return asking.refuse(why, cx),
        };
        let (way, origin, last_event_id, mut rest) = asking.let_in();
        let mut next = enter(way, origin, last_event_id, entry, cx);
        if let (Session::Socket(socket), false) = (&mut next, rest.is_empty()) {
            socket.event(Event::Bytes(&mut rest), cx);
        }
        *session = next;
        Flow::Stay
    }

    fn tell(number: u32, conn: ConnId, answer: Answered, shard: &mut impl ShardCalls<Self>) {
        shard.with(conn, |session, cx| {
            Self::answered(session, number, answer, cx)
        });
    }
}

impl Gateway for Plain {
    type Session = Session;
    type Shared = ProxyOptions;
    type Order = Ask;
    type Mail = BackendMail;

    const FORMS: &'static [Form] = forms::ALL;
    const CLIENT_PATHS: &'static str = "\
  GET  /ws?channel=NAME                WebSocket, one frame a publication
  GET  /sse?channel=NAME               EventSource, resumes by Last-Event-ID
  GET  /stream?channel=NAME            one JSON object a line
";
    const API_PATHS: &'static [&'static str] = &["/pub"];

    fn shared(&self) -> Rc<ProxyOptions> {
        self.backends.own.clone()
    }

    fn claim(_: &ProxyOptions, incoming: &Incoming<'_, '_>, _: &Shared) -> Option<Claim> {
        const SUBSCRIBE: &str = "GET, OPTIONS";
        Some(match (incoming.port, incoming.request.path()) {
            (Port::Client, "/ws") => Claim::endpoint(WS, "GET"),
            (Port::Client, "/stream") => Claim::endpoint(LINES, SUBSCRIBE),
            (Port::Client, "/sse") => Claim::endpoint(SSE, SUBSCRIBE),
            (Port::Api, "/sse") => Claim {
                role: Some(KeyRole::Read),
                ..Claim::endpoint(SSE, SUBSCRIBE)
            },
            (Port::Api, "/follow") => Claim {
                role: Some(KeyRole::Read),
                by_channel: true,
                ..Claim::endpoint(FOLLOW, "GET")
            },
            (Port::Api, "/pub") if is_upgrade(incoming) => Claim {
                role: Some(KeyRole::Publish),
                by_channel: true,
                ..Claim::endpoint(PUBLISHER, "GET")
            },
            (Port::Api, "/pub") => Claim {
                pipelines: true,
                role: Some(KeyRole::Publish),
                by_channel: true,
                ..Claim::endpoint(PUBLISH, "POST")
            },
            // Never on the client port: there, `api_for_clients` serves Centrifugo's calls alone.
            (Port::Api, "/api/reload") => Claim::endpoint(RELOAD, "POST"),
            _ => return None,
        })
    }

    #[inline]
    fn open(
        claim: &Claim,
        incoming: &Incoming<'_, '_>,
        cx: &mut Cx<'_>,
    ) -> Result<Opened<Session>, Reject> {
        let session = match claim.endpoint {
            PUBLISH => return publish(incoming, cx).map(Opened::Later),
            PUBLISHER => Session::Publisher(Box::new(publisher(incoming, cx)?)),
            RELOAD => Session::Reloading(Box::new(Reloading::open(incoming, cx))),
            FOLLOW => Session::Following(Box::new(follow(incoming, cx)?)),
            WS => websocket(incoming, cx)?,
            SSE => stream(incoming, Framing::Sse, cx)?,
            _ => stream(incoming, Framing::Lines, cx)?,
        };
        Ok(Opened::Session(session))
    }

    fn event(session: &mut Session, event: Event<'_>, cx: &mut Cx<'_>) -> Flow {
        match session {
            Session::Socket(socket) => socket.event(event, cx),
            Session::Stream(stream) => stream.event(event, cx),
            Session::Following(stream) => stream.event(event, cx),
            Session::Asking(asking) => return asking.event(event, cx),
            Session::Publisher(publisher) => publisher.event(event, cx),
            Session::Reloading(call) => return call.event(event, cx),
        }
        Flow::Stay
    }

    fn class(session: &Session) -> Class<'_> {
        let (transport, identity, is_connected) = match session {
            Session::Socket(it) => (Transport::WebSocket, it.identity(), !it.is_closing()),
            Session::Stream(it) => (it.transport(), it.identity(), !it.is_closing()),
            Session::Asking(asking) => (Transport::Http, asking.identity(), false),
            Session::Publisher(_) => (Transport::WebSocket, None, false),
            // No client, whatever it is sent by.
            Session::Following(_) | Session::Reloading(_) => (Transport::Http, None, false),
        };
        Class {
            transport,
            is_client: !matches!(
                session,
                Session::Publisher(_) | Session::Reloading(_) | Session::Following(_)
            ),
            is_connected,
            identity,
        }
    }

    fn encode(
        _: &ProxyOptions,
        form: u8,
        publication: &Publication,
        _: Option<Patch<'_>>,
        out: &mut Vec<u8>,
    ) {
        forms::encode(form, publication, out);
    }

    /// One that waits for a backend or a reload stays: the process that asked has the answer. So
    /// does a follower, of whom the other process does not know.
    fn moves(session: &Session) -> bool {
        match session {
            Session::Socket(socket) => socket.moves(),
            Session::Stream(stream) => stream.moves(),
            Session::Publisher(publisher) => publisher.moves(),
            Session::Reloading(_) | Session::Asking(_) | Session::Following(_) => false,
        }
    }

    fn encode_personal(session: &mut Session, publication: &Arc<Publication>, out: &mut Vec<u8>) {
        if let Session::Stream(stream) = session {
            stream.encode_personal(publication, out);
        }
    }

    fn order(&mut self, ask: Ask, shard: &mut impl ShardCalls<Self>) {
        let (conn, number) = (ask.conn, ask.number);
        if !self.backends.ask(ask) {
            Self::tell(number, conn, None, shard);
        }
    }

    fn mail(&mut self, _: Sender, mail: BackendMail, shard: &mut impl ShardCalls<Self>) {
        match mail {
            BackendMail::Answered {
                conn,
                number,
                answer,
            } => Self::tell(number, conn, answer, shard),
            BackendMail::Renewed(own, backends) => self.backends.renew(own, backends),
        }
    }
}

/// Whether a request wants a WebSocket. A `GET` that does not is told to `POST`.
fn is_upgrade(incoming: &Incoming<'_, '_>) -> bool {
    incoming.request.method == "GET" && incoming.request.wants_upgrade("websocket")
}

fn websocket(incoming: &Incoming<'_, '_>, cx: &mut Cx<'_>) -> Result<Session, Reject> {
    let accept = incoming.accept_websocket()?;
    check_draining(cx.shared)?;
    let params = Params::read(incoming)?;
    params.refuse_protobuf(&accept)?;
    subscriber(incoming, params, Way::socket(&accept), cx)
}

fn publisher(incoming: &Incoming<'_, '_>, cx: &mut Cx<'_>) -> Result<PublisherSession, Reject> {
    let accept = incoming.accept_websocket()?;
    check_draining(cx.shared)?;
    let subprotocol = accept.protocols.contains(SUBPROTOCOL);
    handshake::encode_response(&accept, subprotocol.then_some(SUBPROTOCOL), None, cx.out);
    Ok(PublisherSession::open(incoming.caller.clone(), cx))
}

fn stream(
    incoming: &Incoming<'_, '_>,
    framing: Framing,
    cx: &mut Cx<'_>,
) -> Result<Session, Reject> {
    check_draining(cx.shared)?;
    check_chunks(incoming, framing.is_lines())?;
    let params = Params::read(incoming)?;
    subscriber(incoming, params, Way::stream(framing, incoming), cx)
}

/// Lets a client in, or asks backends about it first.
fn subscriber(
    incoming: &Incoming<'_, '_>,
    params: Params<'_>,
    way: Way,
    cx: &mut Cx<'_>,
) -> Result<Session, Reject> {
    let is_backends = incoming.port == Port::Client && cx.own.decides(params.token.as_deref());
    let entry = match is_backends {
        true => None,
        false => Some(Entry::new(&params, incoming.port, cx)?),
    };
    match entry {
        Some(entry) if entry.channels.iter().all(|wanted| wanted.ask.is_none()) => {
            admit(&entry, cx)?;
            let origin = match way {
                Way::Socket(_) => None,
                Way::Stream { .. } => incoming.request.header("origin"),
            };
            Ok(enter(
                &way,
                origin,
                params.last_event_id.as_deref(),
                entry,
                cx,
            ))
        }
        entry => {
            let asking = Asking::open(incoming, params, way, entry, cx)?;
            Ok(Session::Asking(Box::new(asking)))
        }
    }
}

/// Counts a client that is let in for its user.
fn admit(entry: &Entry, cx: &Cx<'_>) -> Result<(), Overspent> {
    let user = { entry.identity.as_ref() }.map_or("", |identity| &*identity.user);
    cx.admit_user("", user)
}

/// Lets a client in: writes the head of its answer, and subscribes it.
fn enter(
    way: &Way,
    origin: Option<&str>,
    last_event_id: Option<&str>,
    entry: Entry,
    cx: &mut Cx<'_>,
) -> Session {
    let (framing, takes_gzip) = match way {
        Way::Socket(accept) => {
            let deflate = answer_handshake(accept, None, cx);
            return Session::Socket(SocketSession::open(entry, deflate, cx));
        }
        Way::Stream {
            framing,
            takes_gzip,
        } => (*framing, *takes_gzip),
    };
    let Entry { identity, channels } = entry;
    let channels_max = cx.shared.limits.channels_max;
    let cursor = last_event_id
        .filter(|id| !id.is_empty())
        // An unknown id is a position that cannot be found, and the client must be told so.
        .map(|id| Cursor::parse(id, channels_max).unwrap_or_default());
    let since = |channel: &ChannelName| {
        let known = cursor.as_ref()?.position(channel);
        let nowhere = Position {
            epoch: Epoch(0),
            offset: 0,
        };
        Some(known.unwrap_or(nowhere))
    };
    let channels = channels.into_iter();
    let channels = channels.map(|wanted| (wanted.channel.clone(), since(&wanted.channel)));
    let channels: Vec<_> = channels.collect();
    let framing = match takes_gzip && compresses(&channels, cx) {
        true => framing.with_gzip(),
        false => framing,
    };
    let head = StreamHead {
        is_gzip: framing.is_gzip(),
        ..StreamHead::of(framing.is_lines())
    };
    write_stream_head(origin, head, cx);
    Session::Stream(StreamSession::open(framing, identity, channels, cx))
}

/// Whether the stream is to be compressed, and its deliveries are shared.
fn compresses<T>(channels: &[(ChannelName, T)], cx: &Cx<'_>) -> bool {
    let [(channel, _)] = channels else {
        return false;
    };
    let options = cx.shared.namespaces.find(channel);
    options.is_some_and(|options| options.compression)
}
