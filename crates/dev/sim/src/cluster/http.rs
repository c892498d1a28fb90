//! One HTTP exchange at a time on a connection of its own: what readers and publishers share.

use throng_http1::{BodyDecoder, HttpLimits, parse_response};

use crate::net::Net;

/// An exchange whose answer may come in pieces.
pub(super) struct Exchange {
    pub(super) conn: usize,
    input: Vec<u8>,
    status: Option<u16>,
    decoder: Option<BodyDecoder>,
    body: Vec<u8>,
    is_whole: bool,
}

/// Progress of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// More of the answer may come.
    Open,
    /// The answer is whole.
    Whole,
    /// The connection ended before.
    Cut,
}

impl Exchange {
    pub(super) fn begin(net: &Net, conn: usize, request: &[u8]) -> Self {
        net.client_send(conn, request);
        Self {
            conn,
            input: Vec::new(),
            status: None,
            decoder: None,
            body: Vec::new(),
            is_whole: false,
        }
    }

    /// Reads at most so many bytes.
    pub(super) fn read(&mut self, net: &Net, bytes_max: usize) -> Progress {
        if self.is_whole {
            return Progress::Whole;
        }
        let Some(bytes) = net.client_recv(self.conn, bytes_max) else {
            return Progress::Cut;
        };
        self.input.extend(bytes);
        if self.decoder.is_none() {
            let limits = HttpLimits::default();
            let head = parse_response(&self.input, &limits, false).expect("a good response");
            let Some((response, bytes)) = head else {
                return Progress::Open;
            };
            self.status = Some(response.status);
            self.decoder = Some(BodyDecoder::for_response(response.body, &limits));
            self.input.drain(..bytes);
        }
        let decoder = self.decoder.as_mut().expect("the head came");
        loop {
            let step = decoder.feed(&self.input).expect("a good body");
            self.body.extend(step.data);
            let (consumed, done) = (step.consumed, step.done);
            self.input.drain(..consumed);
            if done {
                self.is_whole = true;
                return Progress::Whole;
            }
            if consumed == 0 {
                return Progress::Open;
            }
        }
    }

    pub(super) const fn status(&self) -> Option<u16> {
        self.status
    }

    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    /// Takes a whole line off the body.
    pub(super) fn line(&mut self) -> Option<Vec<u8>> {
        let end = self.body.iter().position(|byte| *byte == b'\n')?;
        let line = self.body.drain(..=end).collect();
        Some(line)
    }
}
