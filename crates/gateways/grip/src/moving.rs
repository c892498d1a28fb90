//! Held clients and idle WebSockets over HTTP as bytes, for a process that takes over.
//!
//! A session that waits for a backend stays, with its exchange, until that is over; so do tunnels,
//! whose backends hold the other end of a connection, and publishers, which reconnect. A session's
//! route moves with it: requests on a route continue with that one, also if the new process has
//! others.
//!
//! The gateway's own part: clients in statistics, addresses of IPv6 clients, the order of items in
//! the channels at home here, and topics sent to publishers.

use std::net::IpAddr;
use std::rc::Rc;

use throng_types::{ConnId, Save, Saved, save_count, save_fields};

use crate::event::Session;
use crate::following::{Follow, Followed, Following};
use crate::held::{Held, NextRequest};
use crate::long_poll::Wait;
use crate::over_http::OverHttp;
use crate::proxied::{Proxied, Stage};
use crate::request::Asked;
use crate::shard::Grip;
use crate::shared::GripShared;
use crate::topics::{Topic, Topics};

/// Kinds of sessions in saved bytes.
const HELD: u8 = 0;
const WAITING: u8 = 1;
const OVER_HTTP: u8 = 2;

save_fields!(Followed {
    channel,
    prefix_bytes,
    last_id,
    filters
});
save_fields!(Following { channels, meta });
save_fields!(Wait {
    following,
    reply,
    body
});
save_fields!(Topic { shards, told });

/// IPv6 addresses are with the gateway.
impl Save for NextRequest {
    fn save(&self, out: &mut Vec<u8>) {
        match self {
            Self::Never => out.push(0),
            Self::OfV4(peer) => (1_u8, peer.octets()).save(out),
            Self::OfV6 => out.push(2),
        }
    }

    fn load(from: &mut Saved<'_>) -> Option<Self> {
        match u8::load(from)? {
            0 => Some(Self::Never),
            1 => <[u8; 4]>::load(from).map(|octets| Self::OfV4(octets.into())),
            2 => Some(Self::OfV6),
            _ => None,
        }
    }
}

/// Appends a session; false if it cannot move now.
pub(crate) fn save(session: &Session, out: &mut Vec<u8>) -> bool {
    match session {
        Session::Held(held) => {
            out.push(HELD);
            held.save(out)
        }
        Session::Proxied(proxied) => {
            out.push(WAITING);
            proxied.save(out)
        }
        Session::OverHttp(socket) => {
            out.push(OVER_HTTP);
            socket.save(out)
        }
        Session::Leaving(_)
        | Session::Tunnel(_)
        | Session::Publishing(_)
        | Session::Zmtp(_)
        | Session::Stats(_) => false,
    }
}

/// Restores a session from its saved bytes.
pub(crate) fn load(from: &mut Saved<'_>) -> Option<Session> {
    match u8::load(from)? {
        HELD => Held::load(from).map(Session::Held),
        WAITING => Proxied::load(from).map(|it| Session::Proxied(Box::new(it))),
        OVER_HTTP => OverHttp::load(from).map(|it| Session::OverHttp(Box::new(it))),
        _ => None,
    }
}

impl Proxied {
    fn save(&self, out: &mut Vec<u8>) -> bool {
        let Stage::Waiting(wait) = &self.stage else {
            return false;
        };
        self.exchange.save(out);
        self.asked.save(out);
        (self.minor_version, self.token).save(out);
        wait.save(out);
        !self.is_uploading()
    }

    fn load(from: &mut Saved<'_>) -> Option<Self> {
        let (exchange, asked) = Save::load(from)?;
        let (minor_version, token) = Save::load(from)?;
        let stage = Stage::Waiting(Save::load(from)?);
        Some(Self::moved(exchange, asked, (minor_version, token), stage))
    }
}

impl Session {
    /// The request that a backend was asked.
    fn asked(&mut self) -> Option<&mut Asked> {
        match self {
            Self::Proxied(proxied) => Some(&mut proxied.asked),
            Self::OverHttp(socket) => Some(socket.asked()),
            Self::Held(held) => {
                let follow = held.state.follow.as_mut();
                follow.map(|follow: &mut Box<Follow>| &mut follow.asked)
            }
            _ => None,
        }
    }

    /// Shares equal values with the sessions that are already here.
    fn settle(&mut self, shared: &GripShared) {
        if let Some(asked) = self.asked() {
            let book = shared.book();
            if let Some(known) = book.routes.same(&asked.route) {
                asked.route = known.clone();
            }
        }
        if let Self::Held(held) = self
            && let Some(own) = held.state.keep_alive.take()
        {
            let own = Rc::try_unwrap(own).unwrap_or_else(|own| (*own).clone());
            held.state.keep_alive = Some(shared.keep_alive(own));
        }
    }
}

impl Topics {
    fn save(&self, out: &mut Vec<u8>) {
        save_count(self.own.len(), out);
        self.own.iter().for_each(|channel| channel.save(out));
        save_count(self.wanted.len(), out);
        for (channel, wanted) in &self.wanted {
            channel.save(out);
            wanted.save(out);
        }
        self.look_at.save(out);
    }

    /// Restores the topics without listeners: publishers reconnect, and are told all topics then.
    fn load(from: &mut Saved<'_>) -> Option<Self> {
        let own: Vec<_> = Save::load(from)?;
        let wanted: Vec<_> = Save::load(from)?;
        Some(Self {
            own: own.into_iter().collect(),
            wanted: wanted.into_iter().collect(),
            listeners: Vec::new(),
            look_at: Save::load(from)?,
        })
    }
}

impl Grip {
    /// Appends the gateway's state of a connection beside its session.
    pub(crate) fn save_conn(&self, conn: ConnId, out: &mut Vec<u8>) {
        self.shared.peer(conn).save(out);
        self.shared.save_known(conn, out);
    }

    pub(crate) fn load_conn(
        &self,
        conn: ConnId,
        session: &mut Session,
        from: &mut Saved<'_>,
    ) -> Option<()> {
        if let Some(IpAddr::V6(peer)) = Save::load(from)? {
            self.shared.keep_peer(conn, peer);
        }
        self.shared.load_known(conn, from)?;
        session.settle(&self.shared);
        Some(())
    }

    /// Appends the gateway's state that belongs to no one connection.
    pub(crate) fn save_own(&self, out: &mut Vec<u8>) {
        self.topics.save(out);
        self.shared.topics_told().save(out);
        (self.connected_ms, self.counted_at).save(out);
        self.items.sequencer.save(out);
    }

    pub(crate) fn load_own(&mut self, from: &mut Saved<'_>) -> Option<()> {
        self.topics = Topics::load(from)?;
        self.shared.set_topics_told(Save::load(from)?);
        (self.connected_ms, self.counted_at) = Save::load(from)?;
        self.items.sequencer.load(from)?;
        // The collector of the new process has yet to get the clients that are here.
        self.shared.stats(|book| book.tell_all());
        Some(())
    }
}
