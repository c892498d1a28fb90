//! The broker of a story: Redis or NATS, which stop, go away and come back alike.

use std::net::SocketAddr;

use throng_testkit::{NatsServer, RedisServer};

/// Product that serves as the broker.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Redis,
    Nats,
}

impl Kind {
    /// By its name in the log.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Redis => "Redis",
            Self::Nats => "NATS",
        }
    }
}

/// A broker of a test's own.
pub(crate) enum Broker {
    Redis(RedisServer),
    Nats(NatsServer),
}

macro_rules! either {
    ($broker:expr, $server:ident => $does:expr) => {
        match $broker {
            Broker::Redis($server) => $does,
            Broker::Nats($server) => $does,
        }
    };
}

impl Broker {
    /// Keeps nothing over its end.
    #[track_caller]
    pub(crate) fn start(kind: Kind) -> Self {
        match kind {
            Kind::Redis => Self::Redis(RedisServer::start()),
            Kind::Nats => Self::Nats(NatsServer::start()),
        }
    }

    /// Has all its data again when it comes back.
    #[track_caller]
    pub(crate) fn durable(kind: Kind) -> Self {
        match kind {
            Kind::Redis => Self::Redis(RedisServer::durable()),
            Kind::Nats => Self::Nats(NatsServer::durable()),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        either!(self, server => server.address())
    }

    pub(crate) fn go_away(&mut self) {
        either!(self, server => server.go_away());
    }

    #[track_caller]
    pub(crate) fn come_back(&mut self) {
        either!(self, server => server.come_back());
    }

    /// Makes a copy of its data, with which it comes back.
    #[track_caller]
    pub(crate) fn save(&mut self) {
        either!(self, server => server.save());
    }

    #[track_caller]
    pub(crate) fn pause(&self) {
        either!(self, server => server.pause());
    }

    #[track_caller]
    pub(crate) fn resume(&self) {
        either!(self, server => server.resume());
    }
}
