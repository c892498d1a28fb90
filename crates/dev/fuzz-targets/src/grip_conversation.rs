//! A conversation with a backend over HTTP: whatever either side does, one request is under way at
//! a time, the client is answered once, and after the end there is silence.
//!
//! Input: steps with NUL bytes between them; the first byte of each selects the action.

use throng_grip::instruct::ResponseHead;
use throng_grip::item::WsKind;
use throng_grip::ws_events::{
    Conversation, ConversationCommand, ConversationLimits, ConversationPhase, decode_events,
};
use throng_http1::field::HeaderRef;
use throng_http1::origin::OriginFailureKind;
use throng_http1::{HttpLimits, parse_response};
use throng_types::Millis;

const LIMITS: ConversationLimits = ConversationLimits {
    pending_bytes_max: 64,
    reply_bytes_max: 500,
    reject_bytes_max: 8,
    events_max: 3,
    retries_max: 2,
    retry_ms: 1000,
};

struct Watched {
    conversation: Conversation,
    now: Millis,
    is_busy: bool,
    is_lost: bool,
    answers: usize,
}

impl Watched {
    /// Looks at what one step asked for.
    fn look(&mut self, was: ConversationPhase, commands: &[ConversationCommand]) {
        if was == ConversationPhase::Done {
            assert_eq!(commands, [], "after the end");
            assert_eq!(self.conversation.phase(), ConversationPhase::Done);
        }
        for command in commands {
            match command {
                ConversationCommand::Request { headers, body } => {
                    decode_events(body).expect("what is written can be read");
                    assert!(headers.iter().any(|header| header.is("Connection-Id")));
                    // To the farewell of a detached client no answer is awaited.
                    if self.conversation.phase() != ConversationPhase::Detached {
                        assert!(!self.is_busy, "two requests at a time");
                        self.is_busy = true;
                    }
                }
                ConversationCommand::Accept { .. } => {
                    assert!(!self.is_lost, "nobody is there");
                    self.answers += 1;
                }
                ConversationCommand::Reject { body, .. } => {
                    self.answers += 1;
                    assert!(body.len() <= LIMITS.reject_bytes_max.max(50));
                }
                ConversationCommand::Send { .. } | ConversationCommand::Close { .. } => {
                    assert_eq!(self.answers, 1, "a word before the handshake");
                }
                _ => {}
            }
        }
        assert!(self.answers <= 1, "two answers to one handshake");
        assert!(!self.conversation.has_room(LIMITS.pending_bytes_max + 1));
        if was == ConversationPhase::Open && self.conversation.phase() == ConversationPhase::Open {
            let is_answered = self.answers == 1 || self.is_lost;
            assert!(is_answered, "open without an answer");
        }
    }

    fn step(&mut self, kind: u8, rest: &[u8], out: &mut Vec<ConversationCommand>) {
        let talk = &mut self.conversation;
        match kind {
            b'r' if self.is_busy => {
                let parsed = parse_response(rest, &HttpLimits::default(), false);
                let Ok(Some((response, head_bytes))) = parsed else {
                    return;
                };
                self.is_busy = false;
                let fields: Vec<HeaderRef<'_>> = response.headers().collect();
                let head = ResponseHead {
                    code: response.status,
                    reason: "",
                    headers: &fields,
                };
                talk.on_response(self.now, head, &rest[head_bytes..], out);
            }
            b'u' | b's' | b'x' if self.is_busy => {
                self.is_busy = false;
                let failure = match kind {
                    b'u' => OriginFailureKind::Unsent,
                    b's' => OriginFailureKind::Cut,
                    _ => OriginFailureKind::Unreachable,
                };
                talk.on_failure(self.now, failure, 17, out);
            }
            b'm' | b'b' | b'i' | b'o' => {
                let kind = match kind {
                    b'm' => WsKind::Text,
                    b'b' => WsKind::Binary,
                    b'i' => WsKind::Ping,
                    _ => WsKind::Pong,
                };
                let has_room = talk.has_room(rest.len());
                let taken = talk.on_message(kind, rest.to_vec(), out);
                assert!(taken.is_ok() || !has_room);
            }
            b'c' => {
                let code = rest.first().map(|&byte| 1000 + u16::from(byte));
                talk.on_close(code, rest, out);
            }
            b'l' => {
                self.is_lost = true;
                talk.on_lost(out);
            }
            b'f' => talk.refresh(out),
            b't' => {
                self.now = self.now + u64::from(rest.first().copied().unwrap_or(1)) * 500;
                talk.on_timeout(self.now, out);
                let next = self.conversation.next_timeout();
                assert!(next.is_none_or(|next| next > self.now), "due already");
            }
            _ => {}
        }
    }
}

pub(crate) fn grip_conversation(input: &[u8]) {
    let mut out = Vec::new();
    let conversation = Conversation::start(LIMITS, "id", &mut out);
    let mut watched = Watched {
        conversation,
        now: Millis(0),
        is_busy: false,
        is_lost: false,
        answers: 0,
    };
    watched.look(ConversationPhase::Connecting, &out);
    for step in input.split(|&byte| byte == 0) {
        let Some((&kind, rest)) = step.split_first() else {
            continue;
        };
        let was = watched.conversation.phase();
        out.clear();
        watched.step(kind, rest, &mut out);
        watched.look(was, &out);
    }
}
