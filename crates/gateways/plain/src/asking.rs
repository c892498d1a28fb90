//! A client that waits until backends have answered about it.
//!
//! Its request waits, so that the status of the answer shows the outcome, as it does where a token
//! decides.
//!
//! Owns: the contents of the request. Never: the session after the client is let in.

use throng_broker::BackendId;
use throng_session::http::{Entry, Params};
use throng_session::{
    Answered, AskingClient, CannotAsk, CloseReason, Codec, Event, Exchange, Flow, Identity,
    Incoming, InitialSubscription, Open, ProxyAnswer, ProxyCall, ProxyRefusal, Questions, Reject,
    claims_of, note_ends,
};
use throng_types::{ChannelName, End};
use throng_ws::handshake::{Accept, Protocols};

use crate::Cx;
use crate::framing::Framing;

/// Kind of session that a request asks for, once its client is let in.
pub(crate) enum Way {
    /// `/ws`, with the handshake's answer.
    Socket(Accept<'static>),
    /// Stream of `/sse` or `/stream`.
    Stream { framing: Framing, takes_gzip: bool },
}

impl Way {
    /// A WebSocket without a subprotocol.
    pub(crate) fn socket(accept: &Accept<'_>) -> Self {
        Self::Socket(Accept {
            key: accept.key,
            protocols: Protocols::default(),
            deflate: accept.deflate,
        })
    }

    pub(crate) fn stream(framing: Framing, incoming: &Incoming<'_, '_>) -> Self {
        Self::Stream {
            framing,
            takes_gzip: incoming.request.headers().accepts_coding("gzip"),
        }
    }

    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Socket(_) => "plain_websocket",
            Self::Stream { framing, .. } if framing.is_lines() => "plain_stream",
            Self::Stream { .. } => "plain_sse",
        }
    }
}

/// Subject of a question to a backend about a client.
enum About {
    /// Whether it may connect, and as which user.
    Connect,
    Subscribe(ChannelName),
}

/// One client that waits.
pub struct Asking {
    exchange: Exchange,
    params: Params<'static>,
    /// The page that may read the answer.
    origin: Option<Box<str>>,
    way: Way,
    questions: Questions<About>,
    identity: Option<Box<Identity>>,
}

impl Asking {
    /// Begins with a request. `entry` comes from its tokens; without it, a backend identifies the
    /// client.
    pub(crate) fn open(
        incoming: &Incoming<'_, '_>,
        params: Params<'_>,
        way: Way,
        entry: Option<Entry>,
        cx: &mut Cx<'_>,
    ) -> Result<Self, Reject> {
        let mut this = Self {
            exchange: Exchange::new(incoming),
            params: params.into_owned(),
            origin: incoming.request.header("origin").map(Into::into),
            way,
            questions: Questions::new(incoming, cx.own),
            identity: None,
        };
        match entry {
            Some(entry) => this.begin_with(entry, cx).map(|_| ())?,
            None => this.ask_who(cx)?,
        }
        cx.set_deadline(None);
        Ok(this)
    }

    pub(crate) fn identity(&self) -> Option<&Identity> {
        self.identity.as_deref()
    }

    fn ask_who(&mut self, cx: &mut Cx<'_>) -> Result<(), Reject> {
        let channels: Vec<&str> = self.params.channels.iter().map(|name| &**name).collect();
        let call = ProxyCall::Connect {
            data: None,
            name: "",
            version: "",
            channels: &channels,
        };
        let (to, asker) = ((BackendId::DEFAULT, call), asker(&self.way, None));
        let asked = self.questions.ask(&asker, to, About::Connect, cx);
        asked.map_err(|_| no_answer())
    }

    /// Asks about the channels that backends decide. Returns the entry when nothing is left to ask.
    fn begin_with(&mut self, entry: Entry, cx: &mut Cx<'_>) -> Result<Option<Entry>, Reject> {
        self.identity = entry.identity;
        let asker = asker(&self.way, self.identity.as_deref());
        let about = About::Subscribe;
        let left = { &mut self.questions }.begin_with(entry.channels, &asker, about, cx);
        self.is_done(left)
    }

    fn is_done(
        &mut self,
        left: Result<Option<Vec<InitialSubscription>>, CannotAsk>,
    ) -> Result<Option<Entry>, Reject> {
        let channels = left.map_err(|why| match why {
            CannotAsk::NoAnswer => no_answer(),
            CannotAsk::Overspent(over) => Reject::from(over),
        })?;
        Ok(channels.map(|channels| {
            let mut identity = self.identity.take();
            note_ends(&mut identity, &channels);
            Entry { identity, channels }
        }))
    }

    /// Handles a backend's answer or its failure. Returns the entry when nothing is left to ask.
    pub(crate) fn answered(
        &mut self,
        number: u32,
        answer: Answered,
        cx: &mut Cx<'_>,
    ) -> Result<Option<Entry>, Reject> {
        let Some(Open { to, pending, .. }) = self.questions.take(number) else {
            return Ok(None);
        };
        match cx.own.read(answer, to) {
            None => Err(no_answer()),
            Some(Err(refusal)) => {
                let user = { self.identity.as_ref() }.map_or("", |identity| &identity.user);
                Err(refused(&refusal, &pending, user, cx))
            }
            Some(Ok(answer)) => {
                self.questions.lend_allowance(cx);
                let done = self.allowed(&answer, pending, cx);
                self.questions.take_allowance_back(cx);
                done
            }
        }
    }

    fn allowed(
        &mut self,
        answer: &ProxyAnswer,
        about: About,
        cx: &mut Cx<'_>,
    ) -> Result<Option<Entry>, Reject> {
        let mut claims = claims_of(answer).ok_or_else(no_answer)?;
        match about {
            About::Connect if answer.result.is_none() => {
                let sentence =
                    "the backend does not accept this client, and the client sent no token";
                Err(Reject::new(401, sentence))
            }
            About::Connect => {
                self.questions.meta = claims.meta.take();
                let entry = Entry::of_claims(&self.params, Some(&claims), cx)?;
                self.begin_with(entry, cx)
            }
            About::Subscribe(channel) => {
                self.questions.allow(&channel, claims);
                let asker = asker(&self.way, self.identity.as_deref());
                let left = { &mut self.questions }.ask_where(&asker, About::Subscribe, cx);
                self.is_done(left)
            }
        }
    }

    /// Returns what a session needs once the client is let in: its way, its origin, its last event
    /// id, and the bytes sent behind its request.
    pub(crate) fn let_in(&mut self) -> (&Way, Option<&str>, Option<&str>, Vec<u8>) {
        let rest = self.exchange.take_rest();
        let id = self.params.last_event_id.as_deref();
        (&self.way, self.origin.as_deref(), id, rest)
    }

    /// Refuses the client. Answers that are still to come are ignored.
    pub(crate) fn refuse(&mut self, why: Reject, cx: &mut Cx<'_>) -> Flow {
        let questions = std::mem::take(&mut self.questions);
        self.exchange.allowance = questions.allowance;
        let keep_alive = self.exchange.keep_alive;
        why.write((self.origin.as_deref(), &[]), keep_alive, cx);
        self.exchange.done(cx)
    }

    pub(crate) fn event(&mut self, event: Event<'_>, cx: &mut Cx<'_>) -> Flow {
        match event {
            Event::Bytes(input) => {
                let bytes_max = cx.shared.limits.head_bytes_max;
                self.exchange.keep(input, bytes_max, cx);
            }
            // It was refused, and is on its way out.
            Event::Close(_) if self.questions.is_quiet() => {}
            Event::Close(why) => {
                cx.count(why.counter());
                self.exchange.keep_alive = false;
                return self.refuse(ended(why), cx);
            }
            Event::Timeout => cx.end(End::Flush),
            _ => {}
        }
        Flow::Stay
    }
}

fn asker<'a>(way: &Way, identity: Option<&'a Identity>) -> AskingClient<'a> {
    AskingClient {
        transport: way.name(),
        protocol: Codec::Json,
        user: identity.map_or("", |identity| &identity.user),
    }
}

fn no_answer() -> Reject {
    let sentence = "the backend gave no valid answer; try again in a moment";
    Reject::new(503, sentence)
}

fn refused(refusal: &ProxyRefusal, about: &About, user: &str, cx: &Cx<'_>) -> Reject {
    let (what, channel, wish) = match about {
        About::Connect => ("connect", "", "to connect".to_owned()),
        About::Subscribe(channel) => {
            let wish = format!("to subscribe to {channel}");
            ("subscribe", channel.as_str(), wish)
        }
    };
    let notices = &cx.shared.notices;
    notices.refused(what, channel, user, format_args!("backend: {refusal}"));
    Reject::new(403, format!("no permission {wish}: {refusal}"))
}

fn ended(why: &CloseReason) -> Reject {
    match why {
        CloseReason::Custom { code, reason } => Reject::new(403, format!("{code} {reason}")),
        _ => Reject::new(503, format!("{}; connect again in a moment", why.reason())),
    }
}
