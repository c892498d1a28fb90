//! Servers of others that nodes connect to: Redis, NATS, PostgreSQL, Kafka.

use std::net::SocketAddr;
use std::thread::{self, JoinHandle};

use throng_dialogue::{Outcome, arrow, cell, numbers, same, word};

use super::values::{fields, text};
use super::{Story, Thing};
use crate::{KafkaServer, NatsServer, PostgresServer, RedisCluster, RedisServer};

/// Server of one of these products, and an order to it that goes on in a thread of its own.
pub(super) struct Peer {
    server: Product,
    order: Option<JoinHandle<String>>,
}

enum Product {
    Redis(RedisServer),
    Nats(NatsServer),
    Postgres(PostgresServer),
    Kafka(KafkaServer),
}

macro_rules! each {
    ($product:expr, $server:ident => $does:expr) => {
        match $product {
            Product::Redis($server) => $does,
            Product::Nats($server) => $does,
            Product::Postgres($server) => $does,
            Product::Kafka($server) => $does,
        }
    };
}

impl Product {
    /// Asks by the product's own words: a command of Redis, a statement, an order to Kafka's
    /// client; a subject of NATS, with `SUBJECT | name: value || body || body` if need be, where
    /// `1..9` are nine bodies. Each must be answered; the last answer counts.
    fn ask(&self, question: &str) -> Result<String, String> {
        match self {
            Self::Redis(redis) => redis.try_ask(question).map_err(|error| error.to_string()),
            Self::Postgres(postgres) => Ok(postgres.sql(question).trim().to_owned()),
            Self::Kafka(kafka) => Ok(kafka.ask(question)),
            Self::Nats(nats) => {
                let (head, bodies) = question.split_once(" || ").unwrap_or((question, ""));
                let mut parts = head.split(" | ");
                let subject = parts.next().unwrap_or_default();
                let headers: Vec<_> = parts.filter_map(|it| it.split_once(": ")).collect();
                let bodies: Vec<String> = match numbers(bodies) {
                    Some(numbers) => numbers.map(|number| number.to_string()).collect(),
                    None => bodies.split(" || ").map(cell).collect(),
                };
                let bodies: Vec<&str> = bodies.iter().map(String::as_str).collect();
                let answers = nats.tell(subject, &headers, &bodies);
                same(&answers.len(), &bodies.len())?;
                Ok(answers.last().cloned().unwrap_or_default())
            }
        }
    }
}

impl Story {
    /// `NAME PRODUCT OPTIONS`: with `durable` it has all its data again when it comes back; with
    /// `secure` it speaks TLS with the story's certificate; `sentinel` has the lines below; other
    /// options are arguments of the program. Three names with commas are one cluster, where the
    /// option is a version; six are three of Redis and a replica of each.
    pub(super) fn start_peers(&mut self, rest: &str, block: &str) {
        let (names, rest) = word(rest);
        let (product, options) = word(rest);
        let names: Vec<&str> = names.split(',').collect();
        let options: Vec<String> = options.split_whitespace().map(cell).collect();
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let redis = |cluster: RedisCluster| {
            let servers = cluster.into_servers().into_iter();
            servers.map(Product::Redis).collect()
        };
        let servers = match (product, &*options, names.len()) {
            ("redis", [], 3) => redis(RedisCluster::start()),
            ("redis", [], 6) => redis(RedisCluster::with_replicas()),
            ("redis", [], _) => vec![Product::Redis(RedisServer::start())],
            ("redis", ["durable"], _) => vec![Product::Redis(RedisServer::durable())],
            ("redis", ["sentinel"], _) => vec![Product::Redis(RedisServer::sentinel(block))],
            ("redis", ["secure", arguments @ ..], _) => {
                let files = ["server.pem", "server.key"]
                    .map(|name| self.variables.filled("<FOLDER>/") + name);
                vec![Product::Redis(RedisServer::with_tls(&files, arguments))]
            }
            ("redis", arguments, _) => vec![Product::Redis(RedisServer::with(arguments))],
            ("nats", version, 3) => {
                let servers = NatsServer::cluster(version.first().copied());
                servers.into_iter().map(Product::Nats).collect()
            }
            ("nats", [], _) => vec![Product::Nats(NatsServer::start())],
            ("nats", ["durable"], _) => vec![Product::Nats(NatsServer::durable())],
            ("nats", arguments, _) => vec![Product::Nats(NatsServer::with(arguments))],
            ("postgres", [], _) => vec![Product::Postgres(PostgresServer::start())],
            ("postgres", ["secure"], _) => {
                let server = PostgresServer::start_secure(&self.issued());
                vec![Product::Postgres(server)]
            }
            ("kafka", [], 3) => {
                let servers = KafkaServer::start_three();
                servers.into_iter().map(Product::Kafka).collect()
            }
            ("kafka", [], _) => vec![Product::Kafka(KafkaServer::start())],
            ("kafka", ["secure"], _) => {
                let server = KafkaServer::start_secure(&self.issued());
                vec![Product::Kafka(server)]
            }
            _ => panic!("no such peer: {rest}"),
        };
        for (name, server) in names.into_iter().zip(servers) {
            let address: SocketAddr = each!(&server, server => server.address());
            self.set(name, address.to_string());
            self.set(&format!("{name}.port"), address.port().to_string());
            self.set(
                &format!("{name}.url"),
                each!(&server, server => server.url()),
            );
            if let Product::Kafka(kafka) = &server {
                self.set(
                    &format!("{name}.secure"),
                    kafka.secure_address().to_string(),
                );
            }
            let order = None;
            self.things
                .insert(name.to_owned(), Thing::Peer(Peer { server, order }));
        }
    }

    pub(super) fn peer_step(&mut self, peer: &mut Peer, verb: &str, rest: &str) -> Outcome {
        match verb {
            "away" => each!(&mut peer.server, server => server.go_away()),
            "back" => each!(&mut peer.server, server => server.come_back()),
            // A copy of its data, with which it comes back.
            "save" => match &mut peer.server {
                Product::Redis(server) => server.save(),
                Product::Nats(server) => server.save(),
                _ => panic!("it has no copies"),
            },
            "pause" => each!(&peer.server, server => server.pause()),
            "resume" => each!(&peer.server, server => server.resume()),
            // The answer as it is, a part of it with the escapes of Rust behind `~`, or a pattern of
            // JSON.
            "ask" => {
                let (question, wanted) = arrow(rest);
                let answer = peer.server.ask(question)?;
                let answer = answer.trim().to_owned();
                return match wanted.split_at_checked(1) {
                    None => Ok(()),
                    Some(("~", part)) if answer.contains(&text(part)) => Ok(()),
                    Some(("{", _)) => self.fit(
                        &serde_json::from_str(&answer).unwrap_or_default(),
                        &fields(wanted),
                    ),
                    _ => same(&answer, &cell(wanted)),
                };
            }
            // The answer becomes a variable.
            "gives" => {
                let (name, question) = word(rest);
                let answer = peer.server.ask(question)?;
                self.set(name, answer.trim().to_owned());
            }
            // Kafka's client goes on with it, and waits for Kafka where that is away.
            "begins" => {
                let Product::Kafka(kafka) = &peer.server else {
                    panic!("only Kafka's client goes on by itself");
                };
                let (client, order) = (kafka.client(), rest.to_owned());
                peer.order = Some(thread::spawn(move || client.ask(&order)));
            }
            "ends" => {
                let order = peer.order.take().expect("an order that goes on");
                order.join().expect("Kafka's client");
            }
            other => panic!("no step of a peer: {other}"),
        }
        Ok(())
    }
}
