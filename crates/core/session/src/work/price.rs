//! Prices of all kinds of work, and the limits on them.

use throng_auth::Algorithm;
use throng_metrics::Counter;
use throng_types::Disconnect;

use super::table::{BURST_US, DEBT_MAX_US};

/// Charge for a good token, as a multiple of its price: its holder may not keep a shard busy with
/// it.
const GOOD_TOKEN: u32 = 2;
/// Charge for a bad token, as a multiple of its price.
const BAD_TOKEN: u32 = 10;
/// Price of each publication or member in an answer, in nanoseconds, beside its bytes.
const ANSWER_NS_PER_ITEM: u64 = 300;
/// Price of a KiB of an answer, in nanoseconds.
const ANSWER_NS_PER_KIB: u64 = 1_000;
/// An answer counts as a message more for each of these microseconds: one with the longest history
/// leaves a connection some of its allowance.
const ANSWER_US_OF_A_MESSAGE: u32 = 128;
/// Price of comparing a KiB with the previous publication, in microseconds.
const DELTA_US_PER_KIB: u32 = 10;

/// Price of a question to another node, for both nodes and the broker, in microseconds.
const CARRY_US: u32 = 150;
/// Price of each KiB of such a question, in microseconds: three read and write it.
const CARRY_US_PER_KIB: u32 = 7;

/// Something that a client makes the server do. Arrivals, sessions and deltas are charged to the
/// client's address alone, all else to its connection too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A ping, a message, a command that is answered at once.
    Message,
    /// A command that the broker carries out. Its answer is charged by its contents.
    Command,
    /// A command that subscribes. A client that connects sends many of them at once.
    Subscribe,
    Request,
    Arrival,
    /// A connection was accepted on which TLS is spoken: its handshake too.
    SecureArrival,
    /// A request became a session.
    Session,
    /// Bytes are brought to another node by the broker.
    Carry {
        bytes: u32,
    },
    /// A publication is compared with the one before it.
    Delta {
        bytes: u32,
    },
    /// The broker's answer was written for a client: members, history, missed publications.
    Answer {
        /// Publications or members in it.
        items: u32,
        bytes: u32,
    },
    Token {
        algorithm: Algorithm,
        /// Whether the issuer had signed it.
        is_good: bool,
    },
}

impl Work {
    /// An answer with so many publications or members, of so many bytes.
    pub fn answer(items: usize, bytes: usize) -> Self {
        Self::Answer {
            items: u32::try_from(items).unwrap_or(u32::MAX),
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
        }
    }

    /// Approximate CPU time, in microseconds. `cargo xtask counts` compares each price with the
    /// measured instructions.
    pub const fn cpu_us(self) -> u32 {
        match self {
            Self::Message => 4,
            Self::Command | Self::Subscribe => 8,
            Self::Request => 15,
            Self::Arrival => 30,
            // With an RSA key of 2,048 bits; an ECDSA key needs a third of it.
            Self::SecureArrival => 500,
            Self::Session => 20,
            Self::Carry { bytes } => CARRY_US + (bytes >> 10) * CARRY_US_PER_KIB,
            Self::Delta { bytes } => (bytes >> 10) * DELTA_US_PER_KIB,
            Self::Answer { items, bytes } => {
                let items_ns = items as u64 * ANSWER_NS_PER_ITEM;
                let bytes_ns = bytes as u64 * ANSWER_NS_PER_KIB / 1024;
                ((items_ns + bytes_ns) / 1000) as u32
            }
            Self::Token { algorithm, .. } => match algorithm {
                Algorithm::Hs256 | Algorithm::Hs384 | Algorithm::Hs512 => 6,
                Algorithm::Rs256 | Algorithm::Rs384 | Algorithm::Rs512 => 110,
                Algorithm::EdDsa => 110,
                Algorithm::Es256 => 240,
                Algorithm::Es384 => 1_150,
            },
        }
    }

    /// By how much more it counts than it costs.
    const fn weight(self) -> u32 {
        match self {
            Self::Token { is_good: true, .. } => GOOD_TOKEN,
            Self::Token { is_good: false, .. } => BAD_TOKEN,
            _ => 1,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overspent {
    /// Allowance of the connection.
    Connection,
    /// Allowance of all connections from the address.
    Address,
    /// The connection has brought too many bad tokens.
    Tokens,
    /// Commands of all connections of the user.
    User,
    /// Number of connections of the user.
    UserConnections,
}

impl Overspent {
    pub const fn counter(self) -> Counter {
        match self {
            Self::Connection => Counter::OverspentConnection,
            Self::Address => Counter::OverspentAddress,
            Self::Tokens => Counter::OverspentTokens,
            Self::User => Counter::OverspentUser,
            Self::UserConnections => Counter::RefusedPerUser,
        }
    }

    /// Returns the disconnect code for a WebSocket.
    pub const fn disconnect(self) -> Disconnect {
        match self {
            Self::Connection | Self::Address | Self::User => Disconnect::TooManyRequests,
            Self::Tokens => Disconnect::InvalidToken,
            Self::UserConnections => Disconnect::ConnectionLimit,
        }
    }

    /// The status and the sentence for an HTTP request.
    pub const fn status(self) -> (u16, &'static str) {
        match self {
            Self::Connection => (429, "this connection exceeds its rate limit; slow down"),
            Self::Address => (429, "your address exceeds its rate limit; slow down"),
            Self::Tokens => (401, "too many invalid tokens on this connection"),
            Self::User => (429, "this user exceeds its rate limit; slow down"),
            Self::UserConnections => (429, "this user has as many connections as it may"),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct WorkLimits {
    /// Messages of one connection in a second; zero for no bound.
    pub messages_per_s_max: u32,
    /// Requests of one connection in a second; zero for no bound.
    pub requests_per_s_max: u32,
    /// Milliseconds of each second that one address may keep the shard busy; zero for no bound.
    pub address_ms_per_s_max: u32,
    /// Channels that one connection may have; it may take all of them twice a second.
    pub channels_max: usize,
    /// Whether addresses count that proxies close by could have: those of private networks.
    pub counts_private: bool,
}

impl WorkLimits {
    pub const NONE: Self = Self {
        messages_per_s_max: 0,
        requests_per_s_max: 0,
        address_ms_per_s_max: 0,
        channels_max: 1,
        counts_private: false,
    };

    /// Charge of a piece of work to its connection, in microseconds of its allowance.
    pub(crate) fn connection_us(&self, work: Work) -> u32 {
        let share = |per_s: u32| 1_000_000_u32.checked_div(per_s).unwrap_or(0);
        match work {
            Work::Message | Work::Command => share(self.messages_per_s_max),
            Work::Subscribe => {
                let channels = u32::try_from(self.channels_max).unwrap_or(u32::MAX).max(1);
                share(self.messages_per_s_max).min(BURST_US / 4 / channels)
            }
            Work::Request => share(self.requests_per_s_max),
            Work::Arrival | Work::SecureArrival | Work::Session | Work::Delta { .. } => 0,
            Work::Carry { .. } | Work::Token { .. } => work.cpu_us() * work.weight(),
            Work::Answer { .. } => {
                let messages = work.cpu_us() / ANSWER_US_OF_A_MESSAGE;
                share(self.messages_per_s_max).saturating_mul(messages)
            }
        }
    }

    /// Charge of a piece of work to its address, in microseconds of its allowance.
    pub(super) fn address_us(&self, work: Work) -> u32 {
        let counted = u64::from(work.cpu_us() * work.weight()) * 1000;
        let us = counted.checked_div(u64::from(self.address_ms_per_s_max));
        us.map_or(0, |us| us.min(u64::from(DEBT_MAX_US)) as u32)
    }
}
