//! Servers of others that nodes connect to: Redis, NATS, PostgreSQL, Kafka.

use std::thread::JoinHandle;

use throng_dialogue::{cell, numbers, same};

use crate::{KafkaServer, NatsServer, PostgresServer, RedisServer};

/// Server of one of these products, and an order to it that goes on in a thread of its own.
pub(super) struct Peer {
    pub(super) server: Product,
    pub(super) order: Option<JoinHandle<String>>,
}

pub(super) enum Product {
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

pub(super) use each;

impl Product {
    /// Asks by the product's own words: a command of Redis, a statement, an order to Kafka's
    /// client; a subject of NATS, with `SUBJECT | name: value || body || body` if need be, where
    /// `1..9` are nine bodies. Each must be answered; the last answer counts.
    pub(super) fn ask(&self, question: &str) -> Result<String, String> {
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
