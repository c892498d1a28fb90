//! Plain clients as a gateway.

use std::rc::Rc;
use std::sync::Arc;

use throng_session::{
    Answered, Ask, BackendMail, Backends, Claim, Class, Event, Flow, Form, Gateway, Incoming,
    Opened, Own, Patch, ProxyOptions, Reject, Sender, Shard, Shared, Transport, WayToBackends,
};
use throng_types::{ConnId, Publication};

use crate::Cx;
use crate::open::Session;
use crate::{forms, open};

/// The clients of `/ws`, `/sse`, `/stream` and `/pub` on one shard.
#[derive(Default)]
pub struct Plain {
    backends: WayToBackends,
}

impl Plain {
    /// With backends that are asked about clients.
    #[must_use]
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
        open::answered(session, number, answer, cx)
    }

    fn tell(number: u32, conn: ConnId, answer: Answered, shard: &mut impl Shard<Self>) {
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
        open::claim(incoming)
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
            Session::Stream(stream) => stream.event(event, cx),
            Session::Asking(asking) => return asking.event(event, cx),
            Session::Publisher(publisher) => publisher.event(event, cx),
            Session::Reloading(call) => return call.event(event, cx),
        }
        Flow::Stay
    }

    fn class(session: &Session) -> Class<'_> {
        let (transport, identity) = match session {
            Session::Socket(socket) => (Transport::WebSocket, socket.identity()),
            Session::Stream(stream) => (stream.transport(), stream.identity()),
            Session::Asking(asking) => (Transport::Http, asking.identity()),
            Session::Publisher(_) => (Transport::WebSocket, None),
            Session::Reloading(_) => (Transport::Http, None),
        };
        Class {
            transport,
            is_client: !matches!(session, Session::Publisher(_) | Session::Reloading(_)),
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

    fn moves(session: &Session) -> bool {
        session.moves()
    }

    fn encode_personal(session: &mut Session, publication: &Arc<Publication>, out: &mut Vec<u8>) {
        if let Session::Stream(stream) = session {
            stream.encode_personal(publication, out);
        }
    }

    fn order(&mut self, ask: Ask, shard: &mut impl Shard<Self>) {
        let (conn, number) = (ask.conn, ask.number);
        if !self.backends.ask(ask) {
            Self::tell(number, conn, None, shard);
        }
    }

    fn mail(&mut self, _: Sender, mail: BackendMail, shard: &mut impl Shard<Self>) {
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
