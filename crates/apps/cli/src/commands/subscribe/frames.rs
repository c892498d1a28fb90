//! A subscription over a WebSocket: each message is a publication, and pings want answers.
//!
//! Pure: bytes in, publications out; what is to be answered waits here until the caller takes it.

use std::ops::ControlFlow;

use throng_ws::{CloseFrame, Decoder, Event, Limits, Masking, Role, encode_close, encode_pong};

use super::wire::{Found, LINE_BYTES_MAX, News};

const LIMITS: Limits = Limits {
    message_bytes_max: LINE_BYTES_MAX,
};

/// A server tells in a ping how many publications it dropped: data frames are for data alone.
const DROPPED: &[u8] = b"dropped=";

/// One connection's frames, both ways.
pub(super) struct Frames {
    decoder: Decoder,
    answers: Vec<Answer>,
}

enum Answer {
    Pong(Vec<u8>),
    Close,
}

impl Frames {
    pub(super) fn new() -> Self {
        Self {
            decoder: Decoder::new(Role::Client),
            answers: Vec::new(),
        }
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// A sentence, if the server broke a rule.
    pub(super) fn feed(
        &mut self,
        data: &[u8],
        on_found: &mut impl FnMut(Found<'_>),
    ) -> Result<(), String> {
        let answers = &mut self.answers;
        let taken = self.decoder.feed(&mut data.to_vec(), &LIMITS, |event| {
            match event {
                Event::Message { data, .. } => on_found(Found::Publication(data)),
                Event::Ping(payload) => {
                    if let Some(count) = dropped(payload) {
                        on_found(Found::News(News::Dropped(count)));
                    }
                    answers.push(Answer::Pong(payload.to_vec()));
                }
                Event::Pong(_) => {}
                Event::Close(frame) => {
                    answers.push(Answer::Close);
                    on_found(Found::News(News::Disconnect {
                        // RFC 6455 section 7.1.5: no code means 1005.
                        code: frame.map_or(1005, |frame| frame.code.into()),
                        reason: frame.map_or("", |frame| frame.reason).to_owned(),
                    }));
                }
            }
            ControlFlow::Continue(())
        });
        taken.map(|_| ()).map_err(|fault| fault.to_string())
    }

    /// What is to be sent now. `key` draws a mask key for each frame.
    pub(super) fn answers(&mut self, mut key: impl FnMut() -> [u8; 4]) -> Vec<u8> {
        let mut out = Vec::new();
        for answer in self.answers.drain(..) {
            let masking = Masking::Client(key());
            match answer {
                Answer::Pong(payload) => encode_pong(masking, &payload, &mut out),
                Answer::Close => {
                    let frame = CloseFrame {
                        code: 1000,
                        reason: "",
                    };
                    encode_close(masking, Some(frame), &mut out);
                }
            }
        }
        out
    }
}

fn dropped(payload: &[u8]) -> Option<u64> {
    let digits = payload.strip_prefix(DROPPED)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use throng_ws::{Opcode, encode_message, encode_ping};

    use super::*;

    #[test]
    fn messages_are_publications_and_pings_are_answered() {
        let mut bytes = Vec::new();
        encode_message(Masking::Server, Opcode::Text, b"one", &mut bytes);
        encode_ping(Masking::Server, b"dropped=7", &mut bytes);
        encode_ping(Masking::Server, b"", &mut bytes);
        encode_message(Masking::Server, Opcode::Binary, b"\xff", &mut bytes);
        let frame = CloseFrame {
            code: 3001,
            reason: "shutdown",
        };
        encode_close(Masking::Server, Some(frame), &mut bytes);
        for cut in 0..=bytes.len() {
            let (mut frames, mut found) = (Frames::new(), Vec::new());
            for part in [&bytes[..cut], &bytes[cut..]] {
                frames
                    .feed(part, &mut |one| {
                        found.push(match one {
                            Found::Publication(data) => format!("P {data:?}"),
                            Found::News(news) => format!("N {news:?}"),
                        });
                    })
                    .unwrap();
            }
            assert_eq!(
                found,
                [
                    "P [111, 110, 101]",
                    "N Dropped(7)",
                    "P [255]",
                    "N Disconnect { code: 3001, reason: \"shutdown\" }",
                ]
            );
            let mut answer = frames.answers(|| [1, 2, 3, 4]);
            let mut heard = Vec::new();
            let mut server = Decoder::new(Role::Server);
            let taken = server.feed(&mut answer, &LIMITS, |event| {
                heard.push(format!("{event:?}"));
                ControlFlow::Continue(())
            });
            assert!(taken.is_ok());
            assert_eq!(heard.len(), 3, "{heard:?}");
            assert!(
                heard[0].contains("Pong") && heard[2].contains("1000"),
                "{heard:?}"
            );
            assert!(frames.answers(|| [0; 4]).is_empty());
        }
    }

    #[test]
    fn a_server_that_breaks_a_rule_is_left() {
        // A masked frame, which only clients send.
        assert!(
            Frames::new()
                .feed(b"\x81\x80\0\0\0\0", &mut |_| {})
                .is_err()
        );
    }
}
