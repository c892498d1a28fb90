//! Visitors that follow a log: by long polls, or on a stream.

use super::came::Came;
use crate::client::{Around, Message, Shape, Wire};
use crate::http::Answer;

/// Takes a line of a log: the next one.
fn line(who: &str, line: &[u8], last: &mut u64, around: &mut Around<'_>) {
    let text = String::from_utf8_lossy(line);
    let number: u64 = text
        .parse()
        .unwrap_or_else(|_| panic!("{who} gets {text:?}"));
    assert_eq!(number, *last + 1, "{who}: the next line");
    *last = number;
    around.net.count("a line of a log comes");
}

/// Long polls, one after the other on one connection.
#[derive(Default)]
pub(super) struct Polls {
    input: Vec<u8>,
    answer: Answer,
    has_answer: bool,
}

impl Polls {
    pub(super) fn read(
        &mut self,
        who: &str,
        bytes: &[u8],
        last: &mut u64,
        around: &mut Around<'_>,
    ) -> Came {
        self.input.extend_from_slice(bytes);
        let is_whole = self.answer.take(&mut self.input);
        match self.answer.status {
            Some(200) if is_whole => {}
            None | Some(200) => return Came::More,
            Some(status) => return Came::Refused(status),
        }
        let more = String::from_utf8_lossy(&self.input);
        assert!(more.is_empty(), "{who}: nobody asked for {more:?}");
        let Answer {
            keeps_alive: stays,
            body,
            ..
        } = std::mem::take(&mut self.answer);
        note!(
            around.net,
            "{who} gets {:?}",
            String::from_utf8_lossy(&body)
        );
        if body != b"none\n" {
            for text in body
                .split(|&byte| byte == b'\n')
                .filter(|text| !text.is_empty())
            {
                line(who, text, last, around);
            }
        }
        self.has_answer = stays;
        if stays { Came::More } else { Came::Over }
    }

    /// Whether the next poll is due; once for each.
    pub(super) fn asks_again(&mut self) -> bool {
        std::mem::take(&mut self.has_answer)
    }
}

/// A stream that goes on by links.
pub(super) struct Stream {
    wire: Wire,
    /// Line behind which it goes on.
    since: Option<u64>,
    has_begun: bool,
}

impl Stream {
    pub(super) const fn new(since: Option<u64>) -> Self {
        Self {
            wire: Wire::new([0; 16]),
            since,
            has_begun: false,
        }
    }

    pub(super) const fn has_begun(&self) -> bool {
        self.has_begun
    }

    pub(super) fn read(
        &mut self,
        who: &str,
        bytes: &mut [u8],
        last: &mut Option<u64>,
        around: &mut Around<'_>,
    ) -> Came {
        for message in self.wire.take(bytes, Shape::Lines, "") {
            note!(around.net, "{who} gets {}", message.shown());
            match message {
                Message::Begun => {}
                Message::Refused(status) => return Came::Refused(status),
                Message::LastChunk => return Came::Over,
                // A keep-alive.
                Message::Line(text) if text.is_empty() => {}
                Message::Line(text) if !self.has_begun => {
                    let text = String::from_utf8_lossy(&text);
                    let from = text
                        .strip_prefix("from=")
                        .and_then(|from| from.parse().ok());
                    let from = from.unwrap_or_else(|| panic!("{who} begins with {text:?}"));
                    assert!(
                        self.since.is_none_or(|since| since == from),
                        "{who}: {from}"
                    );
                    self.has_begun = true;
                    *last = Some(from);
                }
                Message::Line(text) => {
                    line(who, &text, last.as_mut().expect("it has begun"), around);
                }
                other => panic!("{who} gets {other:?}"),
            }
        }
        Came::More
    }
}
