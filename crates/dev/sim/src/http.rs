//! Answers by HTTP on their way to a client: what readers, publishers and commands share.

use throng_http1::{BodyDecoder, HttpLimits, parse_response};

use crate::net::Net;

/// An answer, as far as it has come.
#[derive(Default)]
pub(crate) struct Answer {
    /// Known once the head has come.
    pub(crate) status: Option<u16>,
    /// The connection goes on behind it.
    pub(crate) keeps_alive: bool,
    decoder: Option<BodyDecoder>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// Takes its bytes from the front of the input; whether it is whole.
    pub(crate) fn take(&mut self, input: &mut Vec<u8>) -> bool {
        if self.decoder.is_none() {
            let limits = HttpLimits::default();
            let head = parse_response(input, &limits, false).expect("a good response");
            let Some((response, bytes)) = head else {
                return false;
            };
            self.status = Some(response.status);
            self.keeps_alive = response.keep_alive();
            self.decoder = Some(BodyDecoder::for_response(response.body, &limits));
            input.drain(..bytes);
        }
        let decoder = self.decoder.as_mut().expect("the head came");
        while !decoder.is_done() {
            let step = decoder.feed(input).expect("a good body");
            self.body.extend(step.data);
            let consumed = step.consumed;
            input.drain(..consumed);
            if consumed == 0 {
                break;
            }
        }
        decoder.is_done()
    }
}

/// One exchange on a connection of its own.
pub(crate) struct Exchange {
    pub(crate) conn: usize,
    input: Vec<u8>,
    answer: Answer,
    is_whole: bool,
}

/// Progress of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More of the answer may come.
    Open,
    /// The answer is whole.
    Whole,
    /// The connection ended before.
    Cut,
}

impl Exchange {
    pub(crate) fn begin(net: &Net, conn: usize, request: &[u8]) -> Self {
        net.client_send(conn, request);
        Self {
            conn,
            input: Vec::new(),
            answer: Answer::default(),
            is_whole: false,
        }
    }

    /// Reads at most so many bytes.
    pub(crate) fn read(&mut self, net: &Net, bytes_max: usize) -> Progress {
        if self.is_whole {
            return Progress::Whole;
        }
        let Some(bytes) = net.client_recv(self.conn, bytes_max) else {
            return Progress::Cut;
        };
        self.input.extend(bytes);
        self.is_whole = self.answer.take(&mut self.input);
        match self.is_whole {
            true => Progress::Whole,
            false => Progress::Open,
        }
    }

    pub(crate) const fn status(&self) -> Option<u16> {
        self.answer.status
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.answer.body
    }

    /// Takes a whole line off the body.
    pub(crate) fn line(&mut self) -> Option<Vec<u8>> {
        let body = &mut self.answer.body;
        let end = body.iter().position(|byte| *byte == b'\n')?;
        Some(body.drain(..=end).collect())
    }
}
