//! Centrifugo's clients as a gateway.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use throng_session::{
    Answered, Ask, BackendMail, Backends, Claim, Class, Event, Flow, Form, Gateway, Incoming,
    Opened, Patch, ProxyOptions, Question, Reject, Sender, ShardCalls, Shared, Transport,
    WayToBackends,
};
use throng_types::{ChannelName, ConnId, Millis, Now, Publication};

use crate::events::Session;
use crate::order::{Mail, Order, Upward};
use crate::{Cx, forms, open};

/// Centrifugo's clients on one shard.
#[derive(Default)]
pub struct Centrifuge {
    backends: WayToBackends,
    /// Empty channels of which a backend was told lately, with the time. Bound: [`EMPTY_MAX`].
    empty: VecDeque<(Millis, ChannelName)>,
}

/// Milliseconds during which a backend is not told again that a channel is empty, and the number of
/// channels remembered for that; a backend may be told too often, and never too seldom.
const EMPTY_MS: u64 = 1000;
const EMPTY_MAX: usize = 1024;

impl Centrifuge {
    /// With backends that are asked on behalf of clients.
    #[must_use]
    pub fn with_backends(own: ProxyOptions, backends: Box<dyn Backends>) -> Self {
        Self {
            backends: WayToBackends::new(own, backends),
            empty: VecDeque::new(),
        }
    }

    /// Tells a backend that a channel has no newest publication. The answer is ignored: subscribers
    /// get the backend's publications.
    fn tell_empty(&mut self, conn: ConnId, channel: ChannelName, question: Question, now: Now) {
        let is_new = |(at, _): &(Millis, ChannelName)| now.mono < *at + EMPTY_MS;
        while self.empty.front().is_some_and(|told| !is_new(told)) || self.empty.len() >= EMPTY_MAX
        {
            self.empty.pop_front();
        }
        if self.empty.iter().any(|(_, known)| *known == channel) {
            return;
        }
        // No session has a question with this number.
        let number = 0;
        if self.backends.ask(Ask {
            conn,
            number,
            question,
        }) {
            self.empty.push_back((now.mono, channel));
        }
    }

    /// Carries commands to their session, or towards its shard, and answers the request.
    fn carry(upward: Upward, shard: &mut impl ShardCalls<Self>) {
        let (to, request) = (upward.to.shard(), upward.request);
        let status = if to.0 >= shard.shards() || to == shard.this() {
            Self::deliver(&upward, shard);
            204
        } else if shard.has_room(to) {
            let upward = Upward {
                request: None,
                ..upward
            };
            shard.mail(to, Mail::Upward(upward));
            204
        } else {
            503
        };
        let Some(request) = request else {
            return;
        };
        shard.with(request, |session, cx| match session {
            Session::Upstream(request) => request.done(status, cx),
            _ => Flow::Stay,
        });
    }

    /// Lets the session carry them out, if it is still there.
    fn deliver(upward: &Upward, shard: &mut impl ShardCalls<Self>) {
        shard.with(upward.to, |session, cx| {
            if let Session::Socket(socket) = session {
                socket.upstream(&upward.data, cx);
            }
            Flow::Stay
        });
    }

    fn answered(number: u32, conn: ConnId, answer: Answered, shard: &mut impl ShardCalls<Self>) {
        shard.with(conn, |session, cx| {
            session.answered(number, answer, cx);
            Flow::Stay
        });
    }
}

impl Gateway for Centrifuge {
    type Session = Session;
    type Shared = ProxyOptions;
    type Order = Order;
    type Mail = Mail;

    const FORMS: &'static [Form] = forms::ALL;
    const CLIENT_PATHS: &'static str = "\
  GET  /connection/websocket           Centrifugo SDKs
  POST /connection/http_stream         the same where WebSockets do not pass
  GET  /connection/sse
  POST /emulation                      commands of these two
  GET  /connection/uni_websocket       Centrifugo, unidirectional
  GET  /connection/uni_sse
  POST /connection/uni_http_stream
";
    const API_PATHS: &'static [&'static str] = &["/api/…"];

    fn shared(&self) -> Rc<ProxyOptions> {
        self.backends.own.clone()
    }

    fn claim(_: &ProxyOptions, incoming: &Incoming<'_, '_>, shared: &Shared) -> Option<Claim> {
        open::claim(incoming, shared)
    }

    fn open(
        claim: &Claim,
        incoming: &Incoming<'_, '_>,
        cx: &mut Cx<'_>,
    ) -> Result<Opened<Session>, Reject> {
        open::open(claim, incoming, cx)
    }

    fn event(session: &mut Session, event: Event<'_>, cx: &mut Cx<'_>) -> Flow {
        match session {
            Session::Socket(socket) => socket.event(event, cx),
            Session::Call(call) => return call.event(event, cx),
            Session::Upstream(request) => return request.event(event, cx),
        }
        Flow::Stay
    }

    fn class(session: &Session) -> Class<'_> {
        match session {
            Session::Socket(it) => Class {
                transport: it.mode().transport(),
                is_client: true,
                is_connected: it.is_connected() && !it.is_closing() && !it.awaits_identity(),
                identity: it.identity(),
            },
            Session::Call(_) | Session::Upstream(_) => Class {
                transport: Transport::Http,
                is_client: false,
                is_connected: false,
                identity: None,
            },
        }
    }

    fn encode(
        _: &ProxyOptions,
        form: u8,
        publication: &Publication,
        patch: Option<Patch<'_>>,
        out: &mut Vec<u8>,
    ) {
        forms::encode(form, publication, patch, out);
    }

    fn moves(session: &Session) -> bool {
        session.moves()
    }

    fn encode_personal(session: &mut Session, publication: &Arc<Publication>, out: &mut Vec<u8>) {
        if let Session::Socket(socket) = session {
            socket.encode_filtered(publication, out);
        }
    }

    fn order(&mut self, order: Order, shard: &mut impl ShardCalls<Self>) {
        match order {
            Order::Upward(upward) => Self::carry(upward, shard),
            Order::CacheEmpty {
                conn,
                channel,
                question,
            } => self.tell_empty(conn, channel, question, shard.now()),
            Order::Ask(ask) => {
                let (conn, number) = (ask.conn, ask.number);
                if !self.backends.ask(ask) {
                    Self::answered(number, conn, None, shard);
                }
            }
        }
    }

    fn mail_bytes(mail: &Mail) -> usize {
        match mail {
            Mail::Upward(upward) => upward.data.len(),
            Mail::Backends(_) => 0,
        }
    }

    fn mail(&mut self, _: Sender, mail: Mail, shard: &mut impl ShardCalls<Self>) {
        match mail {
            Mail::Upward(upward) => Self::deliver(&upward, shard),
            Mail::Backends(BackendMail::Answered {
                conn,
                number,
                answer,
            }) => Self::answered(number, conn, answer, shard),
            Mail::Backends(BackendMail::Renewed(own, backends)) => {
                self.backends.renew(own, backends);
            }
        }
    }
}
