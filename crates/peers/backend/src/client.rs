//! A peer whose whole business is to ask HTTP backends: a [`Client`] says what, and gets answers.

use std::collections::VecDeque;
use std::convert::Infallible;

use throng_http1::origin::OriginRequest;
use throng_peer::{LinkEvent, LinkId, Peer, PeerContext, ReadFlow};
use throng_types::{Millis, Now};

use crate::call::{AnswerTo, AskLimits, BackendLimits, Call, Reply, TicketId, WholeAnswer};
use crate::peer::Backend;

/// A state machine that requests HTTP backends. It bounds what it has under way, and hands on what
/// it learns by itself.
pub trait Client {
    type Call: Send + 'static;
    /// Comes back with the answer to a question.
    type Token: Send + 'static;

    /// Takes a request of the rest of the server.
    fn call(&mut self, call: Self::Call, requests: &mut Requests<Self::Token>);

    fn answered(
        &mut self,
        token: Self::Token,
        answer: WholeAnswer,
        requests: &mut Requests<Self::Token>,
    );

    /// Acts on its own deadline, which is unset now.
    fn woken(&mut self, requests: &mut Requests<Self::Token>);
}

pub struct Requests<T> {
    /// The clocks, as read at the start of the turn.
    pub now: Now,
    /// Bound: what the client may have under way.
    questions: Vec<(OriginRequest, AskLimits, T)>,
    wake_at: Option<Millis>,
}

impl<T> Requests<T> {
    /// Requests; exactly one [`Client::answered`] follows.
    pub fn ask(&mut self, request: OriginRequest, limits: AskLimits, token: T) {
        self.questions.push((request, limits, token));
    }

    /// Moves the client's own deadline, for [`Client::woken`].
    pub const fn wake_at(&mut self, at: Millis) {
        self.wake_at = Some(at);
    }
}

pub struct ClientPeer<A: Client> {
    client: A,
    backend: Backend<A::Token>,
    /// Bound: what the client has under way.
    answers: VecDeque<Reply<A::Token>>,
    questions: u64,
}

impl<A: Client> ClientPeer<A> {
    pub fn new(client: A, limits: BackendLimits) -> Self {
        Self {
            client,
            backend: Backend::new(limits),
            answers: VecDeque::new(),
            questions: 0,
        }
    }

    fn ask(
        &mut self,
        cx: &mut PeerContext<'_, Infallible>,
        act: impl FnOnce(&mut A, &mut Requests<A::Token>),
    ) {
        let mut requests = Requests {
            now: cx.now,
            questions: Vec::new(),
            wake_at: None,
        };
        act(&mut self.client, &mut requests);
        if requests.wake_at.is_some() {
            cx.wake_at(requests.wake_at);
        }
        for (request, limits, token) in requests.questions {
            self.questions += 1;
            let call = Call::Begin {
                ticket: TicketId(self.questions),
                to: AnswerTo::Whole(limits),
                request,
                token,
            };
            self.backend.call(call, &mut cx.inner(&mut self.answers));
        }
    }

    fn hand_on(&mut self, cx: &mut PeerContext<'_, Infallible>) {
        while let Some(reply) = self.answers.pop_front() {
            if let Reply::Whole(token, answer) = reply {
                self.ask(cx, |client, requests| {
                    client.answered(token, answer, requests)
                });
            }
        }
    }
}

impl<A: Client> Peer for ClientPeer<A> {
    type Call = A::Call;
    type Reply = Infallible;

    fn call(&mut self, call: A::Call, cx: &mut PeerContext<'_, Infallible>) {
        self.ask(cx, |client, requests| client.call(call, requests));
        self.hand_on(cx);
    }

    fn event(
        &mut self,
        link: LinkId,
        event: LinkEvent<'_>,
        cx: &mut PeerContext<'_, Infallible>,
    ) -> ReadFlow {
        let mut inner = cx.inner(&mut self.answers);
        let flow = self.backend.event(link, event, &mut inner);
        self.hand_on(cx);
        flow
    }

    fn woken(&mut self, cx: &mut PeerContext<'_, Infallible>) {
        self.ask(cx, A::woken);
        self.hand_on(cx);
    }

    fn destination(reply: &Infallible) -> Option<usize> {
        match *reply {}
    }
}

#[cfg(test)]
mod tests {
    use throng_peer::{Ended, Want};
    use throng_play::Play;

    use super::*;
    use crate::place::Address;

    /// Requests three questions and one without a backend, and is woken a second later.
    #[derive(Default)]
    struct Three {
        answers: Vec<(u32, WholeAnswer)>,
        woken: usize,
    }

    impl Client for Three {
        type Call = OriginRequest;
        type Token = u32;

        fn call(&mut self, request: OriginRequest, requests: &mut Requests<u32>) {
            let limits = AskLimits {
                bytes_max: 100,
                timeout_ms: 1000,
            };
            requests.wake_at(requests.now.mono + 1000);
            for token in 0..3 {
                requests.ask(request.clone(), limits, token);
            }
            let to = Default::default();
            requests.ask(OriginRequest { to, ..request }, limits, 3);
        }

        fn answered(&mut self, token: u32, answer: WholeAnswer, _: &mut Requests<u32>) {
            self.answers.push((token, answer));
        }

        fn woken(&mut self, _: &mut Requests<u32>) {
            self.woken += 1;
        }
    }

    #[test]
    fn each_question_has_one_answer() {
        let address = Address::from_url("http://a:1/x", 500).unwrap();
        let request = OriginRequest::new(address.to, "GET", address.path, Vec::new());
        let mut play = Play::new(ClientPeer::new(Three::default(), BackendLimits::default()));
        let wants = play.act(|peer, cx| peer.call(request, cx)).1;
        assert!(matches!(&play.peer.client.answers[..], [(3, Err(_))]));
        assert!(wants.contains(&Want::Wake(Some(Millis(1000)))));
        let links: Vec<LinkId> = { wants.iter() }
            .filter_map(|want| match want {
                Want::Dial(link, _) => Some(*link),
                _ => None,
            })
            .collect();
        assert_eq!(links.len(), 3);
        let why = Ended::Unreachable("no".to_owned());
        play.event(links[1], LinkEvent::Ended(why));
        play.event(links[0], LinkEvent::Connected);
        play.event(links[0], LinkEvent::Written);
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
        play.event(links[0], LinkEvent::Bytes(answer));
        play.now.mono = Millis(1000);
        play.event(links[2], LinkEvent::Timeout(None));
        play.act(ClientPeer::woken);
        let Three { answers, woken } = play.peer.client;
        assert_eq!((answers.len(), woken), (4, 1));
        assert!(matches!(&answers[1], (1, Err(_))));
        assert_eq!(answers[2], (0, Ok((200, b"hi".to_vec()))));
        assert!(matches!(&answers[3], (2, Err(_))));
    }
}
