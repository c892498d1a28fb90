//! A peer whose whole business is to ask HTTP backends: an [`Asker`] says what, and gets answers.

use std::collections::VecDeque;
use std::convert::Infallible;

use throng_http1::origin::OriginRequest;
use throng_peer::{Context, Flow, LinkEvent, LinkId, Peer};
use throng_types::{Millis, Now};

use crate::call::{AskLimits, BackendLimits, Call, Reply, TicketId, WholeAnswer};
use crate::peer::Backend;

/// A state machine that asks HTTP backends. It bounds what it has under way, and hands on what it
/// learns by itself.
pub trait Asker {
    /// A request of the rest of the server.
    type Call: Send + 'static;
    /// Comes back with the answer to a question.
    type Token: Send + 'static;

    /// Takes a request of the rest of the server.
    fn call(&mut self, call: Self::Call, asks: &mut Asks<Self::Token>);

    /// Takes the answer to a question.
    fn answered(&mut self, token: Self::Token, answer: WholeAnswer, asks: &mut Asks<Self::Token>);

    /// Acts on its own deadline, which is unset now.
    fn woken(&mut self, asks: &mut Asks<Self::Token>);
}

/// The time, and a place for questions.
pub struct Asks<T> {
    /// The clocks, as read at the start of the turn.
    pub now: Now,
    /// Bound: what the asker may have under way.
    questions: Vec<(OriginRequest, AskLimits, T)>,
    wake_at: Option<Millis>,
}

impl<T> Asks<T> {
    /// Asks; exactly one [`Asker::answered`] follows.
    pub fn ask(&mut self, request: OriginRequest, limits: AskLimits, token: T) {
        self.questions.push((request, limits, token));
    }

    /// Moves the asker's own deadline, for [`Asker::woken`].
    pub const fn wake_at(&mut self, at: Millis) {
        self.wake_at = Some(at);
    }
}

pub struct Asking<A: Asker> {
    asker: A,
    backend: Backend<A::Token>,
    /// Bound: what the asker has under way.
    answers: VecDeque<Reply<A::Token>>,
    questions: u64,
}

impl<A: Asker> Asking<A> {
    pub const fn new(asker: A, limits: BackendLimits) -> Self {
        Self {
            asker,
            backend: Backend::new(limits),
            answers: VecDeque::new(),
            questions: 0,
        }
    }

    /// Lets the asker act, and sends its questions.
    fn ask(
        &mut self,
        cx: &mut Context<'_, Infallible>,
        act: impl FnOnce(&mut A, &mut Asks<A::Token>),
    ) {
        let mut asks = Asks {
            now: cx.now,
            questions: Vec::new(),
            wake_at: None,
        };
        act(&mut self.asker, &mut asks);
        if asks.wake_at.is_some() {
            cx.wake_at(asks.wake_at);
        }
        for (request, limits, token) in asks.questions {
            self.questions += 1;
            let call = Call::Ask {
                ticket: TicketId(self.questions),
                request,
                limits,
                token,
            };
            self.backend.call(call, &mut cx.inner(&mut self.answers));
        }
    }

    /// Hands answers of backends to the asker.
    fn hand_on(&mut self, cx: &mut Context<'_, Infallible>) {
        while let Some(reply) = self.answers.pop_front() {
            if let Reply::Whole(token, answer) = reply {
                self.ask(cx, |asker, asks| asker.answered(token, answer, asks));
            }
        }
    }
}

impl<A: Asker> Peer for Asking<A> {
    type Call = A::Call;
    type Reply = Infallible;

    fn call(&mut self, call: A::Call, cx: &mut Context<'_, Infallible>) {
        self.ask(cx, |asker, asks| asker.call(call, asks));
        self.hand_on(cx);
    }

    fn event(
        &mut self,
        link: LinkId,
        event: LinkEvent<'_>,
        cx: &mut Context<'_, Infallible>,
    ) -> Flow {
        let mut inner = cx.inner(&mut self.answers);
        let flow = self.backend.event(link, event, &mut inner);
        self.hand_on(cx);
        flow
    }

    fn woken(&mut self, cx: &mut Context<'_, Infallible>) {
        self.ask(cx, A::woken);
        self.hand_on(cx);
    }

    fn destination(reply: &Infallible) -> Option<usize> {
        match *reply {}
    }
}

#[cfg(test)]
mod tests {
    use throng_peer::Want;
    use throng_play::Play;

    use super::*;
    use crate::place::Address;

    /// Asks three questions and one without a backend, and is woken a second later.
    #[derive(Default)]
    struct Three {
        answers: Vec<(u32, WholeAnswer)>,
        woken: usize,
    }

    impl Asker for Three {
        type Call = OriginRequest;
        type Token = u32;

        fn call(&mut self, request: OriginRequest, asks: &mut Asks<u32>) {
            let limits = AskLimits {
                bytes_max: 100,
                timeout_ms: 1000,
            };
            asks.wake_at(asks.now.mono + 1000);
            for token in 0..3 {
                asks.ask(request.clone(), limits, token);
            }
            let to = Default::default();
            asks.ask(OriginRequest { to, ..request }, limits, 3);
        }

        fn answered(&mut self, token: u32, answer: WholeAnswer, _: &mut Asks<u32>) {
            self.answers.push((token, answer));
        }

        fn woken(&mut self, _: &mut Asks<u32>) {
            self.woken += 1;
        }
    }

    #[test]
    fn each_question_has_one_answer() {
        let address = Address::from_url("http://a:1/x", 500).unwrap();
        let request = OriginRequest::new(address.to, "GET", address.path, Vec::new());
        let mut play = Play::new(Asking::new(Three::default(), BackendLimits::default()));
        let wants = play.act(|peer, cx| peer.call(request, cx)).1;
        assert!(matches!(&play.peer.asker.answers[..], [(3, Err(_))]));
        assert!(wants.contains(&Want::Wake(Some(Millis(1000)))));
        let links: Vec<LinkId> = { wants.iter() }
            .filter_map(|want| match want {
                Want::Dial(link, _) => Some(*link),
                _ => None,
            })
            .collect();
        assert_eq!(links.len(), 3);
        let why = Ended::Unreachable("no".to_owned());
        play.act(|peer, cx| peer.ended(links[1], why, cx));
        play.act(|peer, cx| peer.connected(links[0], cx));
        play.act(|peer, cx| peer.written(links[0], cx));
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
        play.act(|peer, cx| peer.bytes(links[0], answer, cx));
        play.now.mono = Millis(1000);
        play.act(|peer, cx| peer.timeout(links[2], None, cx));
        play.act(Asking::woken);
        let Three { answers, woken } = play.peer.asker;
        assert_eq!((answers.len(), woken), (4, 1));
        assert!(matches!(&answers[1], (1, Err(_))));
        assert_eq!(answers[2], (0, Ok((200, b"hi".to_vec()))));
        assert!(matches!(&answers[3], (2, Err(_))));
    }
}
