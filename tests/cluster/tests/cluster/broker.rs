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

enum Server {
    Redis(RedisServer),
    Nats(NatsServer),
}

/// A broker of a test's own.
pub(crate) struct Broker {
    server: Server,
}

impl Broker {
    /// Keeps nothing over its end.
    #[track_caller]
    pub(crate) fn start(kind: Kind) -> Self {
        let server = match kind {
            Kind::Redis => Server::Redis(RedisServer::start()),
            Kind::Nats => Server::Nats(NatsServer::start()),
        };
        Self { server }
    }

    /// Has all its data again when it comes back.
    #[track_caller]
    pub(crate) fn durable(kind: Kind) -> Self {
        let server = match kind {
            Kind::Redis => Server::Redis(RedisServer::durable()),
            Kind::Nats => Server::Nats(NatsServer::durable()),
        };
        Self { server }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        match &self.server {
            Server::Redis(server) => server.address(),
            Server::Nats(server) => server.address(),
        }
    }

    /// The server itself, where it is one of Redis.
    pub(crate) const fn redis(&self) -> Option<&RedisServer> {
        match &self.server {
            Server::Redis(server) => Some(server),
            Server::Nats(_) => None,
        }
    }

    pub(crate) fn go_away(&mut self) {
        match &mut self.server {
            Server::Redis(server) => server.go_away(),
            Server::Nats(server) => server.go_away(),
        }
    }

    #[track_caller]
    pub(crate) fn come_back(&mut self) {
        match &mut self.server {
            Server::Redis(server) => server.come_back(),
            Server::Nats(server) => server.come_back(),
        }
    }

    /// Makes a copy of its data, with which it comes back.
    #[track_caller]
    pub(crate) fn save(&mut self) {
        match &mut self.server {
            Server::Redis(server) => server.save(),
            Server::Nats(server) => server.save(),
        }
    }

    #[track_caller]
    pub(crate) fn pause(&self) {
        match &self.server {
            Server::Redis(server) => server.pause(),
            Server::Nats(server) => server.pause(),
        }
    }

    #[track_caller]
    pub(crate) fn resume(&self) {
        match &self.server {
            Server::Redis(server) => server.resume(),
            Server::Nats(server) => server.resume(),
        }
    }
}
