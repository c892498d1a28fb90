//! Plain clients as a gateway.

use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use throng_session::{
    Claim, Class, Event, Family, Flow, Form, Gateway, Incoming, Opened, Reject, Shared, Transport,
};
use throng_types::{Publication, Saved};

use crate::context::Cx;
use crate::session::Session;
use crate::{forms, moving, open};

/// The clients of `/ws`, `/sse`, `/stream` and `/pub` on one shard.
#[derive(Default)]
pub struct Plain;

impl Family for Plain {
    type Session = Session;
    type Shared = ();
    type Order = Infallible;
    type Mail = Infallible;
}

impl Gateway for Plain {
    const FORMS: &'static [Form] = forms::ALL;

    fn shared(&self) -> Rc<()> {
        Rc::new(())
    }

    fn claim((): &(), incoming: &Incoming<'_, '_>, _: &Shared) -> Option<Claim> {
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
            Session::Publisher(publisher) => publisher.event(event, cx),
            Session::Reloading(call) => return call.event(event, cx),
        }
        Flow::Stay
    }

    fn class(session: &Session) -> Class<'_> {
        let (transport, identity) = match session {
            Session::Socket(socket) => (Transport::WebSocket, socket.identity()),
            Session::Stream(stream) => (stream.transport(), stream.identity()),
            Session::Publisher(_) => (Transport::WebSocket, None),
            Session::Reloading(_) => (Transport::Http, None),
        };
        Class {
            transport,
            is_client: !matches!(session, Session::Publisher(_) | Session::Reloading(_)),
            identity,
        }
    }

    fn encode((): &(), form: u8, publication: &Publication, out: &mut Vec<u8>) {
        forms::encode(form, publication, out);
    }

    fn save(session: &Session, out: &mut Vec<u8>) -> bool {
        moving::save(session, out)
    }

    fn load(from: &mut Saved<'_>) -> Option<Session> {
        moving::load(from)
    }

    fn encode_personal(session: &mut Session, publication: &Arc<Publication>, out: &mut Vec<u8>) {
        if let Session::Stream(stream) = session {
            stream.encode_personal(publication, out);
        }
    }
}
