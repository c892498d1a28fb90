//! Questions to backends on behalf of clients, and what the gateway has to know about backends.
//!
//! Never: connects to anything. Who does is behind [`Backends`].

use throng_broker::BackendId;
use throng_centrifuge::ErrorCode;
use throng_centrifuge::proxy::{ProxyKind, ProxyRefusal};
use throng_types::ConnId;

/// A question to a backend: a `POST` of JSON.
#[derive(Debug)]
pub struct Question {
    /// Which backend.
    pub to: BackendId,
    /// What kind of question it is; the backend without a name has an address for each.
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

/// What the options say of one backend.
#[derive(Clone, Debug, Default)]
pub struct BackendOptions {
    /// Names of the fields of a client's request that go with a question, in lower case.
    pub http_headers: Vec<Box<str>>,
    /// Names that the client may give in `headers` of its `connect`, as if they were such fields,
    /// in lower case.
    pub emulated_headers: Vec<Box<str>>,
    /// Data travel in base64.
    pub is_binary: bool,
    /// It gets the `meta` that the answer to `connect` had.
    pub sends_meta: bool,
    /// Statuses that mean something.
    pub statuses: Vec<StatusMeaning>,
}

/// What the options say of backends.
#[derive(Clone, Debug, Default)]
pub struct ProxyOptions {
    /// The kinds of questions that the backend without a name is asked.
    pub kinds: Vec<ProxyKind>,
    /// By their [`BackendId`]: first the one without a name. Empty if nobody is asked.
    pub backends: Vec<BackendOptions>,
    /// Who is called by methods whose names begin with one of these and a colon. Where there are
    /// any, other names with a colon are unknown.
    pub rpc_namespaces: Vec<(Box<str>, BackendId)>,
}

impl ProxyOptions {
    /// Whether there is a backend without a name for this kind of question.
    #[must_use]
    pub fn has(&self, kind: ProxyKind) -> bool {
        self.kinds.contains(&kind)
    }

    /// What is said of one backend.
    #[must_use]
    pub fn backend(&self, id: BackendId) -> Option<&BackendOptions> {
        self.backends.get(usize::from(id.0))
    }

    /// Who carries out a method.
    ///
    /// # Errors
    /// What the client is told: that there is no such method, or that none is carried out.
    pub fn of_method(&self, method: &str) -> Result<BackendId, ErrorCode> {
        let namespace = method.split_once(':').map(|(namespace, _)| namespace);
        match namespace.filter(|_| !self.rpc_namespaces.is_empty()) {
            Some(namespace) => {
                let mut all = self.rpc_namespaces.iter();
                let found = all.find(|(known, _)| **known == *namespace);
                found.map(|(_, id)| *id).ok_or(ErrorCode::MethodNotFound)
            }
            None if self.has(ProxyKind::Rpc) => Ok(BackendId::DEFAULT),
            None => Err(ErrorCode::NotAvailable),
        }
    }

    /// Names of fields that any backend wants to know.
    pub(crate) fn wanted(
        &self,
        names: fn(&BackendOptions) -> &[Box<str>],
    ) -> impl Iterator<Item = &str> {
        let mut all: Vec<&str> = { self.backends.iter() }
            .flat_map(|backend| names(backend).iter().map(|name| &**name))
            .collect();
        all.sort_unstable();
        all.dedup();
        all.into_iter()
    }
}
