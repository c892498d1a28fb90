//! Backends that decide about clients, and the parts that every gateway needs to ask them.
//!
//! Owns: routing of questions to backends, and parsing of answers. Never: connects to anything; the
//! implementation of [`Backends`] does. Open questions of a connection are in [`crate::Questions`].

use std::rc::Rc;

use throng_auth::Claims;
use throng_broker::BackendId;
use throng_centrifuge::proxy::{ProxyAnswer, ProxyKind, ProxyRefusal};
use throng_centrifuge::{Codec, ErrorCode};
use throng_types::{ConnId, SpanContext};

/// A question to a backend: a `POST` of JSON, or a call of gRPC.
#[derive(Debug)]
pub struct Question {
    pub to: BackendId,
    /// Kind of the question; the backend without a name has an address for each.
    pub kind: ProxyKind,
    /// Fields of the client's request that go with it.
    pub headers: Vec<(Box<str>, Box<str>)>,
    /// JSON, or Protobuf for calls of gRPC; see [`ProxyOptions::codec`].
    pub body: Vec<u8>,
}

/// An answer: its status and body; nothing if there is none.
pub type Answered = Option<(u16, Vec<u8>)>;

/// Asks backends. Calls return at once; the answer comes as [`BackendMail::Answered`].
pub trait Backends {
    /// Takes a question of a connection, under the connection's own number. False if there is no
    /// room; no answer follows then.
    fn ask(&self, conn: ConnId, number: u32, question: Question) -> bool;
}

#[derive(Debug)]
pub struct Ask {
    pub conn: ConnId,
    pub number: u32,
    pub question: Question,
}

pub enum BackendMail {
    Answered {
        conn: ConnId,
        number: u32,
        answer: Answered,
    },
    /// Replaces options and backends for later questions; open ones are still answered.
    Renewed(ProxyOptions, Option<Box<dyn Backends + Send>>),
}

/// One gateway's way to the backends, on one shard.
#[derive(Default)]
pub struct WayToBackends {
    /// Options of the backends; sessions share them.
    pub own: Rc<ProxyOptions>,
    backends: Option<Box<dyn Backends>>,
}

impl WayToBackends {
    pub fn new(own: ProxyOptions, backends: Box<dyn Backends>) -> Self {
        Self {
            own: Rc::new(own),
            backends: Some(backends),
        }
    }

    /// Asks a backend. False if there is no backend or no room; no answer follows then.
    #[must_use]
    pub fn ask(&self, ask: Ask) -> bool {
        let backends = self.backends.as_ref();
        backends.is_some_and(|backends| backends.ask(ask.conn, ask.number, ask.question))
    }

    pub fn renew(&mut self, own: ProxyOptions, backends: Option<Box<dyn Backends + Send>>) {
        self.own = Rc::new(own);
        self.backends = backends.map(|backends| backends as Box<dyn Backends>);
    }
}

#[derive(Clone, Debug)]
pub struct StatusMeaning {
    /// HTTP status, any but 200.
    pub status: u16,
    pub refusal: ProxyRefusal,
}

#[derive(Clone, Debug, Default)]
pub struct BackendOptions {
    /// Names of the fields of a client's request that go with a question, in lower case.
    pub http_headers: Vec<Box<str>>,
    /// Names that the client may give in `headers` of its `connect`, as if they were such fields,
    /// in lower case.
    pub emulated_headers: Vec<Box<str>>,
    /// Data travel in base64.
    pub is_binary: bool,
    /// Questions carry the `meta` of the answer to `connect`.
    pub sends_meta: bool,
    pub statuses: Vec<StatusMeaning>,
    /// Kinds of questions that are asked by gRPC.
    pub grpc: Vec<ProxyKind>,
}

#[derive(Clone, Debug, Default)]
pub struct ProxyOptions {
    /// Kinds of questions for the backend without a name.
    pub kinds: Vec<ProxyKind>,
    /// Options by [`BackendId`]: first the backend without a name. Empty without backends.
    pub backends: Vec<BackendOptions>,
    /// Backends for methods whose names begin with the given prefix and a colon. Unless this is
    /// empty, other names with a colon are unknown.
    pub rpc_namespaces: Vec<(Box<str>, BackendId)>,
    /// Questions carry the client's `traceparent`, if it is sampled.
    pub is_traced: bool,
}

impl ProxyOptions {
    /// Whether there is a backend without a name for this kind of question.
    pub fn has(&self, kind: ProxyKind) -> bool {
        self.kinds.contains(&kind)
    }

    /// Whether a backend identifies the client, because it sent no token.
    pub fn decides(&self, token: Option<&str>) -> bool {
        token.is_none_or(str::is_empty) && self.has(ProxyKind::Connect)
    }

    pub fn backend(&self, id: BackendId) -> Option<&BackendOptions> {
        self.backends.get(usize::from(id.0))
    }

    /// The form in which a backend is asked; its answers are JSON here.
    pub fn codec(&self, id: BackendId, kind: ProxyKind) -> Codec {
        match self.backend(id).is_some_and(|it| it.grpc.contains(&kind)) {
            true => Codec::Protobuf,
            false => Codec::Json,
        }
    }

    /// Finds the backend that carries out a method. Error: `MethodNotFound` for an unknown
    /// namespace, `NotAvailable` where RPC is not configured.
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

    /// Parses a backend's answer: its body for status 200, the configured refusal for other
    /// statuses. `None` if the question failed or the answer cannot be read.
    pub fn read(
        &self,
        answer: Answered,
        from: BackendId,
    ) -> Option<Result<ProxyAnswer, ProxyRefusal>> {
        let (status, body) = answer?;
        if status == 200 {
            return ProxyAnswer::parse(&body);
        }
        let mut meanings = self.backend(from)?.statuses.iter();
        let meaning = meanings.find(|meaning| meaning.status == status)?;
        Some(Err(meaning.refusal.clone()))
    }

    pub(crate) fn wanted(
        &self,
        names: fn(&BackendOptions) -> &[Box<str>],
    ) -> impl Iterator<Item = &str> {
        let mut all: Vec<&str> = { self.backends.iter() }
            .flat_map(|backend| names(backend).iter().map(|name| &**name))
            .chain(self.is_traced.then_some(SpanContext::FIELD))
            .collect();
        all.sort_unstable();
        all.dedup();
        all.into_iter()
    }
}

/// Converts a backend's answer to the claims that a token would carry.
pub fn claims_of(answer: &ProxyAnswer) -> Option<Claims> {
    let json = answer.result.as_deref().unwrap_or("{}");
    Claims::of_backend(&answer.user, json).ok()
}
