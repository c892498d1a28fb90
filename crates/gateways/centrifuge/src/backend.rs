//! Questions to backends on behalf of clients, and what the gateway has to know about backends.
//!
//! Never: connects to anything. Who does is behind [`Backends`].

use throng_centrifuge::proxy::{ProxyKind, ProxyRefusal};
use throng_types::ConnId;

/// A question to a backend: a `POST` of JSON.
#[derive(Debug)]
pub struct Question {
    /// Which backend.
    pub kind: ProxyKind,
    /// Fields of the client's request that go with it.
    pub headers: Vec<(Box<str>, Box<str>)>,
    /// The body.
    pub body: Vec<u8>,
}

/// An answer: its status and body; nothing if there is none.
pub type Answered = Option<(u16, Vec<u8>)>;

/// Asks backends. Calls return at once; the answer comes as [`crate::Mail::Answered`].
pub trait Backends {
    /// Takes a question of a connection, who has given it a number. False if there is no room;
    /// nothing follows then.
    fn ask(&self, conn: ConnId, number: u32, question: Question) -> bool;
}

/// Backends on their way to a shard.
pub struct NewBackends(pub Box<dyn Backends + Send>);

impl std::fmt::Debug for NewBackends {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NewBackends")
    }
}

/// A status that means something, and what.
#[derive(Clone, Debug)]
pub struct StatusMeaning {
    /// Not 200.
    pub status: u16,
    /// What the client is told.
    pub refusal: ProxyRefusal,
}

/// What the options say of backends.
#[derive(Clone, Debug, Default)]
pub struct ProxyOptions {
    /// The kinds of questions that have a backend.
    pub kinds: Vec<ProxyKind>,
    /// Names of the fields of a client's request that go with a question.
    pub http_headers: Vec<Box<str>>,
    /// Data travel in base64.
    pub is_binary: bool,
    /// Backends get the `meta` that they gave.
    pub sends_meta: bool,
    /// Statuses that mean something.
    pub statuses: Vec<StatusMeaning>,
}

impl ProxyOptions {
    /// Whether there is a backend for this kind of question.
    #[must_use]
    pub fn has(&self, kind: ProxyKind) -> bool {
        self.kinds.contains(&kind)
    }
}
