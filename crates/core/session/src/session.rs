//! The doors of a session: what may happen to it, dispatched to what it has become.

use std::net::IpAddr;
use std::sync::Arc;

use throng_appwrite::{Fault, Phase};
use throng_grip::exchange::OriginEvent;
use throng_hub::Answer;
use throng_types::{ChannelName, ConnId, Now, Publication, Unsubscribe};

use crate::appwrite::{Appwrite, Found};
use crate::effects::{End, Fx, Told};
use crate::grip::{Held, LastItem, OverHttp, Proxied, Socket, Tunnel, Zmtp};
use crate::http::Http;
use crate::standing::{Admission, Farewell, Standing, Transport};
use crate::stream::Stream;
use crate::ws::Ws;
use crate::{Desk, Identity};

/// What a session is at the moment.
pub(crate) enum Kind {
    Http(Http),
    Ws(Ws),
    Stream(Stream),
    Appwrite(Appwrite),
    /// A backend is asked.
    Proxied(Box<Proxied>),
    /// A backend holds it.
    Held(Held),
    /// A WebSocket whose backend speaks HTTP.
    OverHttp(Box<OverHttp>),
    /// A WebSocket whose backend speaks WebSocket.
    Tunnel(Box<Tunnel>),
    /// It publishes by ZeroMQ.
    Zmtp(Zmtp),
}

/// See the crate's head.
pub struct Session(pub(crate) Kind);

impl Session {
    /// A connection to the client port, and whence it comes.
    #[must_use]
    pub const fn client(admission: Admission, peer: IpAddr) -> Self {
        Self(Kind::Http(Http::client(admission, peer)))
    }

    /// A connection to the API port.
    #[must_use]
    pub const fn api() -> Self {
        Self(Kind::Http(Http::api()))
    }

    /// A connection to the port for GRIP's publishers.
    #[must_use]
    pub const fn publisher() -> Self {
        Self(Kind::Http(Http::publisher()))
    }

    /// A connection to the port with Pushpin's metrics.
    #[must_use]
    pub const fn metrics() -> Self {
        Self(Kind::Http(Http::metrics()))
    }

    /// A publisher's connection by ZeroMQ.
    #[must_use]
    pub const fn zmtp(socket: Socket) -> Self {
        Self(Kind::Zmtp(Zmtp::new(socket)))
    }

    /// How its peer is connected.
    #[must_use]
    pub fn transport(&self) -> Transport {
        match &self.0 {
            Kind::Http(_) | Kind::Proxied(_) | Kind::Zmtp(_) => Transport::Http,
            Kind::Held(_) => Transport::Stream,
            Kind::OverHttp(socket) if socket.is_open() => Transport::WebSocket,
            Kind::Tunnel(tunnel) if tunnel.is_open() => Transport::WebSocket,
            Kind::OverHttp(_) | Kind::Tunnel(_) => Transport::Http,
            Kind::Ws(_) | Kind::Appwrite(_) => Transport::WebSocket,
            Kind::Stream(stream) if stream.is_sse() => Transport::Sse,
            Kind::Stream(_) => Transport::Stream,
        }
    }

    /// What it counts as.
    #[must_use]
    pub fn standing(&self) -> Standing {
        Standing {
            transport: self.transport(),
            is_grip: self.looks_at_all(),
        }
    }

    /// Whether it belongs to a client, not to the server API.
    #[must_use]
    pub const fn is_client(&self) -> bool {
        match &self.0 {
            Kind::Http(http) => http.is_client(),
            Kind::Ws(_) | Kind::Stream(_) | Kind::Appwrite(_) => true,
            Kind::Proxied(_) | Kind::Held(_) | Kind::OverHttp(_) | Kind::Tunnel(_) => true,
            Kind::Zmtp(_) => false,
        }
    }

    /// Who it is, if its token says.
    #[must_use]
    pub fn identity(&self) -> Option<&Identity> {
        match &self.0 {
            // Appwrite's users are not users of tokens: their names are their project's alone.
            Kind::Http(_)
            | Kind::Appwrite(_)
            | Kind::Proxied(_)
            | Kind::Held(_)
            | Kind::OverHttp(_)
            | Kind::Tunnel(_)
            | Kind::Zmtp(_) => None,
            Kind::Ws(ws) => ws.identity(),
            Kind::Stream(stream) => stream.identity(),
        }
    }

    /// Bytes arrived; all of them are taken.
    pub fn bytes(&mut self, id: ConnId, input: &mut [u8], desk: &Desk, fx: &mut Fx<'_>) {
        let becomes = match &mut self.0 {
            Kind::Http(http) => http.bytes(id, input, desk, fx),
            Kind::Ws(ws) => {
                ws.bytes(id, input, desk, fx);
                None
            }
            // An event stream has nothing to say, but may pipeline in vain.
            Kind::Stream(_) | Kind::Held(_) => None,
            Kind::Proxied(proxied) => {
                proxied.bytes(id, input, desk, fx);
                None
            }
            Kind::Zmtp(zmtp) => {
                zmtp.bytes(id, input, desk, fx);
                None
            }
            Kind::OverHttp(socket) => {
                socket.bytes(id, input, desk, fx);
                None
            }
            Kind::Tunnel(tunnel) => {
                tunnel.bytes(id, input, desk, fx);
                None
            }
            Kind::Appwrite(appwrite) => {
                appwrite.bytes(id, input, desk, fx);
                None
            }
        };
        self.become_if(becomes, id, desk, fx);
    }

    fn become_if(
        &mut self,
        becomes: Option<(Kind, Vec<u8>)>,
        id: ConnId,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) {
        if let Some((kind, mut rest)) = becomes {
            self.0 = kind;
            if !rest.is_empty() && fx.end.is_none() {
                self.bytes(id, &mut rest, desk, fx);
            }
        }
    }

    /// Its deadline has come.
    pub fn timeout(&mut self, id: ConnId, desk: &Desk, fx: &mut Fx<'_>) {
        match &mut self.0 {
            Kind::Http(http) => http.timeout(desk, fx),
            Kind::Ws(ws) => ws.timeout(id, desk, fx),
            Kind::Stream(stream) => stream.timeout(id, desk, fx),
            Kind::Appwrite(appwrite) => appwrite.timeout(desk, fx),
            Kind::Held(held) => held.timeout(id, desk, fx),
            Kind::Zmtp(_) => fx.end(End::Now),
            Kind::OverHttp(socket) => socket.timeout(id, desk, fx),
            Kind::Tunnel(tunnel) => tunnel.timeout(desk, fx),
            Kind::Proxied(proxied) => {
                let becomes = proxied.timeout(id, desk, fx);
                self.become_if(becomes, id, desk, fx);
            }
        }
    }

    /// The hub answers; `token` is the one that the order carried.
    pub fn answer(&mut self, id: ConnId, token: u32, answer: Answer, desk: &Desk, fx: &mut Fx<'_>) {
        let becomes = match &mut self.0 {
            Kind::Http(http) => http.answer(id, token, answer, desk, fx),
            Kind::Ws(ws) => {
                ws.answer(id, token, answer, desk, fx);
                None
            }
            Kind::Stream(stream) => {
                stream.answer(id, token, answer, desk, fx);
                None
            }
            // It asks nothing of the hub.
            Kind::Appwrite(_) => None,
            Kind::Proxied(proxied) => proxied.answer(id, &answer, desk, fx),
            Kind::Held(held) => {
                held.answer(&answer, desk, fx);
                None
            }
            Kind::Zmtp(zmtp) => {
                zmtp.answer(fx);
                None
            }
            Kind::OverHttp(socket) => {
                socket.answer(&answer, fx);
                None
            }
            Kind::Tunnel(tunnel) => {
                tunnel.answer(&answer, fx);
                None
            }
        };
        self.become_if(becomes, id, desk, fx);
    }

    /// So many connections took one of the items that it publishes.
    pub fn receivers(&mut self, count: u64) {
        if let Kind::Http(http) = &mut self.0 {
            http.received(count);
        }
    }

    /// Every shard has answered a question of the server API.
    pub fn told(&mut self, id: ConnId, told: Vec<Told>, desk: &Desk, fx: &mut Fx<'_>) {
        if let Kind::Http(http) = &mut self.0 {
            let becomes = http.told(id, told, desk, fx);
            self.become_if(becomes, id, desk, fx);
        }
    }

    /// Appends a publication in this session's personal form; nothing while it must wait.
    pub fn encode_personal(&mut self, publication: &Arc<Publication>, out: &mut Vec<u8>) {
        if let Kind::Stream(stream) = &mut self.0 {
            stream.encode_personal(publication, out);
        }
    }

    /// Its queue has been full and is empty again; `dropped` deliveries were shed meanwhile.
    pub fn drained(&mut self, dropped: u32, fx: &mut Fx<'_>) {
        if dropped == 0 {
            return;
        }
        match &self.0 {
            // An Appwrite client that lags is ended, and misses nothing before.
            // A backend's stream has no words of ours in it.
            Kind::Http(_)
            | Kind::Appwrite(_)
            | Kind::Proxied(_)
            | Kind::Held(_)
            | Kind::OverHttp(_)
            | Kind::Tunnel(_)
            | Kind::Zmtp(_) => {}
            Kind::Ws(ws) => ws.tell_dropped(dropped, fx),
            Kind::Stream(stream) => stream.tell_dropped(dropped, fx),
        }
    }

    /// The server ended one of its subscriptions.
    pub fn unsubscribed(&mut self, channel: &ChannelName, why: Unsubscribe, fx: &mut Fx<'_>) {
        match &mut self.0 {
            Kind::Http(_)
            | Kind::Appwrite(_)
            | Kind::Proxied(_)
            | Kind::Held(_)
            | Kind::OverHttp(_)
            | Kind::Tunnel(_)
            | Kind::Zmtp(_) => {}
            Kind::Ws(ws) => ws.unsubscribed(channel, why, fx),
            Kind::Stream(stream) => stream.unsubscribed(channel, why, fx),
        }
    }

    /// Ends it, in the words of its protocol.
    pub fn farewell(&mut self, farewell: &Farewell, desk: &Desk, fx: &mut Fx<'_>) {
        match &mut self.0 {
            Kind::Http(http) => http.farewell(fx),
            Kind::Ws(ws) => ws.farewell(farewell, desk, fx),
            Kind::Stream(stream) => stream.farewell(farewell, desk, fx),
            Kind::Appwrite(appwrite) => appwrite.farewell(farewell, desk, fx),
            Kind::Held(held) => held.farewell(fx),
            Kind::Zmtp(_) => fx.end(End::Flush),
            Kind::OverHttp(socket) => socket.farewell(fx),
            Kind::Tunnel(tunnel) => tunnel.farewell(fx),
            Kind::Proxied(proxied) => proxied.farewell(desk, fx),
        }
    }

    /// A backend has done something; `token` is the one that the order carried.
    pub fn origin(
        &mut self,
        id: ConnId,
        token: u32,
        event: OriginEvent,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) {
        match &mut self.0 {
            Kind::Proxied(proxied) => {
                let becomes = proxied.origin(id, token, event, desk, fx);
                self.become_if(becomes, id, desk, fx);
            }
            Kind::Held(held) => held.origin(id, token, event, desk, fx),
            Kind::OverHttp(socket) => socket.origin(id, token, event, desk, fx),
            Kind::Tunnel(tunnel) => tunnel.origin(id, event, desk, fx),
            _ => {}
        }
    }

    /// A publication that it has to look at itself, because its form says so or because the
    /// shared form of it is empty.
    pub fn publication(
        &mut self,
        id: ConnId,
        publication: &Arc<Publication>,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) {
        match &mut self.0 {
            Kind::Proxied(proxied) => {
                let becomes = proxied.publication(id, publication, desk, fx);
                self.become_if(becomes, id, desk, fx);
            }
            Kind::Held(held) => held.publication(id, publication, desk, fx),
            Kind::OverHttp(socket) => socket.publication(id, publication, desk, fx),
            Kind::Tunnel(tunnel) => tunnel.publication(id, publication, desk, fx),
            _ => {}
        }
    }

    /// Whether it looks at publications that have no shared form, and writes what it likes.
    #[must_use]
    pub const fn looks_at_all(&self) -> bool {
        matches!(
            self.0,
            Kind::Proxied(_) | Kind::Held(_) | Kind::OverHttp(_) | Kind::Tunnel(_)
        )
    }

    /// Deliveries from shared bytes have gone out to it; true if it is a client of GRIP.
    pub fn delivered(&self, now: Now) -> bool {
        if let Kind::Held(held) = &self.0 {
            held.touch(now);
        }
        self.looks_at_all()
    }

    /// A channel of GRIP has got its first subscriber, or lost its last one.
    pub fn topic(&mut self, channel: &ChannelName, is_wanted: bool, fx: &mut Fx<'_>) {
        if let Kind::Zmtp(zmtp) = &self.0 {
            zmtp.topic(channel, is_wanted, fx);
        }
    }

    /// Which item of a channel went out last, as far as that is known.
    pub fn last_item(
        &mut self,
        id: ConnId,
        channel: &ChannelName,
        last: &LastItem,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) {
        match &mut self.0 {
            Kind::Proxied(proxied) => proxied.last_item(id, channel, last, desk, fx),
            Kind::Held(held) => held.last_item(id, channel, last, desk, fx),
            _ => {}
        }
    }

    /// A publisher wants everybody who can to ask their backend.
    pub fn recover(&mut self, id: ConnId, desk: &Desk, fx: &mut Fx<'_>) {
        match &mut self.0 {
            Kind::Proxied(proxied) => proxied.recover(id, desk, fx),
            Kind::Held(held) => held.recover(id, desk, fx),
            _ => {}
        }
    }

    /// A publisher wants its backend to be asked, if it is a WebSocket over HTTP.
    pub fn refresh(&mut self, id: ConnId, desk: &Desk, fx: &mut Fx<'_>) {
        if let Kind::OverHttp(socket) = &mut self.0 {
            socket.refresh(id, desk, fx);
        }
    }

    /// Its connection has gone: what it still wants said to others. True if it goes on until
    /// that is said, and wants to hear what backends do and of the time.
    pub fn gone(&mut self, id: ConnId, desk: &Desk, fx: &mut Fx<'_>) -> bool {
        match &mut self.0 {
            Kind::Held(held) => {
                held.gone(desk, fx);
                false
            }
            Kind::OverHttp(socket) => {
                socket.lost(id, desk, fx);
                !socket.is_over()
            }
            _ => false,
        }
    }

    /// Whether one that goes on after its connection has said everything.
    #[must_use]
    pub fn is_over(&self) -> bool {
        match &self.0 {
            Kind::OverHttp(socket) => socket.is_over(),
            _ => true,
        }
    }

    /// Appwrite has said who it is; `token` is the one that the question carried.
    pub fn found(&mut self, id: ConnId, token: u32, found: Found, desk: &Desk, fx: &mut Fx<'_>) {
        if let Kind::Appwrite(appwrite) = &mut self.0 {
            appwrite.found(id, token, found, desk, fx);
        }
    }

    /// Its user's roles may have changed: it asks Appwrite.
    pub fn reload(&mut self, id: ConnId, desk: &Desk, fx: &mut Fx<'_>) {
        if let Kind::Appwrite(appwrite) = &mut self.0 {
            appwrite.reload(id, desk, fx);
        }
    }

    /// Its room refuses something in its name.
    pub fn refuse(&mut self, fault: &Fault, phase: Phase, desk: &Desk, fx: &mut Fx<'_>) {
        if let Kind::Appwrite(appwrite) = &mut self.0 {
            appwrite.refuse(fault, phase, desk, fx);
        }
    }
}

/// When the first sign of life of a connection is due: somewhere within the first
/// interval, so that a crowd that came at once is not spoken to at once for ever.
pub(crate) fn first_beat(id: ConnId, interval_ms: u64, now: Now) -> throng_types::Millis {
    let spread = u64::from(id.index()).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    now.mono + interval_ms / 2 + ((spread * (interval_ms / 2).max(1)) >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_stays_small() {
        // Every idle connection pays this.
        assert!(size_of::<Session>() <= 72, "{}", size_of::<Session>());
    }
}
