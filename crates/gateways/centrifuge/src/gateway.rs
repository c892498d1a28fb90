//! Centrifugo's clients as a gateway.

use std::rc::Rc;

use throng_session::{
    Claim, Class, Event, Family, Flow, Form, Gateway, Incoming, Opened, Reject, Sender, Shard,
    Shared, Transport,
};
use throng_types::Publication;

use crate::context::Cx;
use crate::session::Session;
use crate::upward::Upward;
use crate::{emulation, forms, open};

/// Centrifugo's clients on one shard.
#[derive(Default)]
pub struct Centrifuge;

impl Family for Centrifuge {
    type Session = Session;
    type Shared = ();
    type Order = Upward;
    type Mail = Upward;
}

impl Gateway for Centrifuge {
    const FORMS: &'static [Form] = forms::ALL;

    fn shared(&self) -> Rc<()> {
        Rc::new(())
    }

    fn claim((): &(), incoming: &Incoming<'_, '_>, shared: &Shared) -> Option<Claim> {
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
            Session::Stream(stream) => stream.event(event, cx),
            Session::Call(call) => return call.event(event, cx),
            Session::Upstream(request) => request.event(event, cx),
        }
        Flow::Stay
    }

    fn class(session: &Session) -> Class<'_> {
        let (transport, identity) = match session {
            Session::Socket(socket) => (socket.mode().transport(), socket.identity()),
            Session::Stream(stream) => (stream.transport(), stream.identity()),
            Session::Call(_) | Session::Upstream(_) => (Transport::Http, None),
        };
        Class {
            transport,
            is_client: matches!(session, Session::Socket(_) | Session::Stream(_)),
            identity,
        }
    }

    fn encode((): &(), form: u8, publication: &Publication, out: &mut Vec<u8>) {
        forms::encode(form, publication, out);
    }

    fn order(&mut self, upward: Upward, shard: &mut impl Shard<Self>) {
        emulation::carry(upward, shard);
    }

    fn mail_bytes(mail: &Upward) -> usize {
        mail.data.len()
    }

    fn mail(&mut self, _: Sender, upward: Upward, shard: &mut impl Shard<Self>) {
        emulation::deliver(&upward, shard);
    }
}
