//! Session of a connection of GRIP.
//!
//! What moves to a process that takes over: held clients and idle WebSockets over HTTP. A session
//! that waits for a backend stays, with its exchange, until that is over; so do tunnels, whose
//! backends hold the other end of a connection, and publishers, which reconnect. A session's route
//! moves with it: requests on a route continue with that one, also if the new process has others.

use std::rc::Rc;

use throng_session::Exchange;
use throng_types::Save;

use crate::held::Held;
use crate::over_http::OverHttp;
use crate::proxied::Proxied;
use crate::publish::Publishing;
use crate::request::Asked;
use crate::shared::GripShared;
use crate::stats::StatsReader;
use crate::tunnel::Tunnel;
use crate::zmtp::Zmtp;

/// One of GRIP's connections.
#[derive(Save)]
pub enum Session {
    /// A request whose backend is being asked.
    Proxied(Box<Proxied>),
    /// A backend holds it.
    Held(Held),
    /// Its stream has ended; it takes the next request when it has left its channels.
    #[save(skip)]
    Leaving(Box<Exchange>),
    /// A WebSocket whose backend speaks HTTP.
    OverHttp(Box<OverHttp>),
    /// A WebSocket whose backend speaks WebSocket.
    #[save(skip)]
    Tunnel(Box<Tunnel>),
    /// A publisher by HTTP whose items are on their way.
    #[save(skip)]
    Publishing(Box<Publishing>),
    /// A publisher by ZeroMQ.
    #[save(skip)]
    Zmtp(Zmtp),
    /// Reader of statistics by ZeroMQ.
    #[save(skip)]
    Stats(Box<StatsReader>),
}

impl Session {
    /// Whether another process can go on with it now.
    pub(crate) fn moves(&self) -> bool {
        match self {
            Self::Held(held) => held.moves(),
            Self::Proxied(proxied) => proxied.moves(),
            Self::OverHttp(socket) => socket.moves(),
            Self::Leaving(_)
            | Self::Tunnel(_)
            | Self::Publishing(_)
            | Self::Zmtp(_)
            | Self::Stats(_) => false,
        }
    }

    /// The request that a backend was asked.
    fn asked(&mut self) -> Option<&mut Asked> {
        match self {
            Self::Proxied(proxied) => Some(&mut proxied.asked),
            Self::OverHttp(socket) => Some(socket.asked()),
            Self::Held(held) => {
                let follow = held.state.follow.as_mut();
                follow.map(|follow| &mut follow.asked)
            }
            _ => None,
        }
    }

    /// Shares equal values with the sessions that are already here.
    pub(crate) fn settle(&mut self, shared: &GripShared) {
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
