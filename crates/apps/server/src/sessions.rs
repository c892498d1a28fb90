//! Events on their way to sessions: the front door's, or a gateway's, and what becomes of them.

use throng_engine::Effects;
use throng_session::{
    Claim, Context, Event, Flow, Http, Incoming, Opened, Order, Reject, Router, Shared,
};
use throng_types::ConnId;

use crate::list::GatewayList;
use crate::standing::{count, recount, standing};

/// The gateways as the front door sees them.
struct FrontDoor<'a, L: GatewayList> {
    list: &'a mut L,
    orders: &'a mut Vec<Order<L::Order>>,
}

impl<L: GatewayList> Router for FrontDoor<'_, L> {
    type Session = L::Session;

    fn claim(&self, incoming: &Incoming<'_, '_>, cx: &Context<'_>) -> Option<(u8, Claim)> {
        self.list.claim(incoming, cx.shared)
    }

    fn off(&self, incoming: &Incoming<'_, '_>) -> Option<&'static str> {
        self.list.off(incoming)
    }

    fn open(
        &mut self,
        claim: (u8, &Claim),
        incoming: &Incoming<'_, '_>,
        cx: &mut Context<'_>,
    ) -> Result<Opened<L::Session>, Reject> {
        self.list.open(claim, incoming, cx, self.orders)
    }
}

/// Parts of the shard that events of sessions need.
pub struct Sessions<'a, L: GatewayList> {
    pub list: &'a mut L,
    /// State that all sessions of the shard share.
    pub shared: &'a Shared,
    /// Orders of gateways are added here.
    pub orders: &'a mut Vec<Order<L::Order>>,
}

impl<L: GatewayList> Sessions<'_, L> {
    /// Counts a new session, once and before its first event.
    pub fn count(&self, session: &L::Session) {
        count(self.shared, standing::<L>(session));
    }

    /// Lets something happen to a session, which may become something else; counts it as what it
    /// is afterwards.
    pub fn event(
        &mut self,
        id: ConnId,
        session: &mut L::Session,
        event: Event<'_>,
        effects: &mut Effects<'_>,
    ) {
        let before = standing::<L>(session);
        self.shared.notices.begin(id, effects.now);
        self.shared.is_tls.set(effects.is_tls);
        let mut cx = Context {
            id,
            now: effects.now,
            shared: self.shared,
            own: &(),
            out: effects.out,
            actions: &mut effects.actions,
            // The front door orders nothing.
            orders: &mut Vec::new(),
            forms_from: 0,
        };
        self.dispatch(session, event, &mut cx);
        recount(self.shared, before, standing::<L>(session));
    }

    fn dispatch(&mut self, session: &mut L::Session, event: Event<'_>, cx: &mut Context<'_>) {
        let rest = if let Some(http) = L::as_http(session) {
            let mut door = FrontDoor {
                list: self.list,
                orders: self.orders,
            };
            let becomes = match event {
                Event::Bytes(input) => http.bytes(input, &mut door, cx),
                Event::Answer { token, answer } => http.answer(token, &answer, &mut door, cx),
                Event::Timeout => {
                    http.timeout(cx);
                    None
                }
                Event::Close(why) => {
                    http.close(why, cx);
                    None
                }
                _ => None,
            };
            let Some((next, rest)) = becomes else {
                return;
            };
            *session = next;
            rest
        } else {
            match self.list.event(session, event, cx, self.orders) {
                Flow::Stay => return,
                Flow::Http(resume) => {
                    *session = L::http(Http::again(&resume));
                    resume.raw
                }
            }
        };
        self.feed(session, rest, cx);
    }

    /// Feeds bytes that arrived before the session was opened.
    fn feed(&mut self, session: &mut L::Session, mut rest: Vec<u8>, cx: &mut Context<'_>) {
        if !rest.is_empty() && !cx.has_ended() {
            self.dispatch(session, Event::Bytes(&mut rest), cx);
        }
    }
}
