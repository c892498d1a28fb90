//! Reader of the response to a request: its head, and its body as it comes.
//!
//! Owns: the bytes of a head that came in part. Never: keeps a byte of a body, or judges a status.
//! Responses before the final one (1xx, RFC 9110 section 15.2) are skipped; 101 is final, since
//! another protocol follows it.

use std::ops::ControlFlow;

use throng_http1::{
    BadBody, BadResponse, BodyDecoder, HttpLimits, Response, ResponseBody, parse_response,
};

enum Head<'b> {
    // The final response, and the length of everything up to the end of its head.
    Whole(Response<'b>, usize),
    // Not whole yet; so many bytes belong to responses before it.
    Partial(usize),
}

fn read_head<'b>(input: &'b [u8], limits: &HttpLimits) -> Result<Head<'b>, BadResponse> {
    let mut skipped = 0;
    loop {
        let rest = input.get(skipped..).unwrap_or_default();
        let Some((response, length)) = parse_response(rest, limits, false)? else {
            return Ok(Head::Partial(skipped));
        };
        skipped += length;
        if !matches!(response.status, 100..=199) || response.status == 101 {
            return Ok(Head::Whole(response, skipped));
        }
    }
}

/// Reader of one head. Holds no memory unless it comes in pieces.
#[derive(Debug, Default)]
pub struct HeadReader {
    kept: Vec<u8>,
}

/// Bytes that came behind a head.
#[derive(Debug)]
pub enum BytesAfterHead<'a> {
    /// End of the bytes that were handed in.
    Input(&'a mut [u8]),
    /// Bytes that were kept, with the number of those in front that are the head's.
    Kept(Vec<u8>, usize),
}

impl BytesAfterHead<'_> {
    /// Returns the bytes behind the head.
    pub fn bytes(&mut self) -> &mut [u8] {
        match self {
            Self::Input(bytes) => bytes,
            Self::Kept(bytes, head) => bytes.get_mut(*head..).unwrap_or_default(),
        }
    }
}

impl HeadReader {
    /// Takes bytes. When the head is whole, hands it to `read`, and returns its result and the
    /// bytes behind the head. A head that came in one piece is not copied. Errors: [`BadResponse`];
    /// nothing more can be read then.
    pub fn feed<'a, T>(
        &mut self,
        input: &'a mut [u8],
        limits: &HttpLimits,
        read: impl FnOnce(&Response<'_>) -> T,
    ) -> Result<Option<(T, BytesAfterHead<'a>)>, BadResponse> {
        if self.kept.is_empty() {
            return Ok(match read_head(input, limits)? {
                Head::Whole(response, end) => {
                    let found = read(&response);
                    let rest = input.get_mut(end..).unwrap_or_default();
                    Some((found, BytesAfterHead::Input(rest)))
                }
                Head::Partial(skipped) => {
                    let partial = input.get(skipped..).unwrap_or_default();
                    self.kept.extend_from_slice(partial);
                    None
                }
            });
        }
        self.kept.extend_from_slice(input);
        let (found, end) = match read_head(&self.kept, limits)? {
            Head::Whole(response, end) => (read(&response), end),
            Head::Partial(skipped) => {
                self.kept.drain(..skipped);
                return Ok(None);
            }
        };
        let rest = BytesAfterHead::Kept(std::mem::take(&mut self.kept), end);
        Ok(Some((found, rest)))
    }
}

#[derive(Debug)]
pub enum ResponseEvent<'a> {
    Head(&'a Response<'a>),
    /// Next bytes of its body, without its transfer coding; after 101 the other protocol's.
    Data(&'a [u8]),
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResponseReadError {
    /// Head that is not HTTP.
    #[error("the answer is not HTTP as expected: {0}")]
    Head(BadResponse),
    /// Body with broken framing.
    #[error("the answer's body is damaged: {0}")]
    Body(BadBody),
    /// Connection that ended before the response did.
    #[error("the server closed the connection")]
    Ended,
}

/// Reader of the responses on one connection, one after the other.
#[derive(Debug)]
pub struct ResponseReader {
    limits: HttpLimits,
    kept: Vec<u8>,
    body: Option<BodyDecoder>,
}

impl ResponseReader {
    /// Makes a reader that refuses larger heads and bodies than these.
    pub const fn new(limits: HttpLimits) -> Self {
        Self {
            limits,
            kept: Vec::new(),
            body: None,
        }
    }

    /// Takes bytes. After a break, the bytes that follow are dropped; so the connection must end.
    /// Errors: [`ResponseReadError`]; nothing more can be read then.
    pub fn feed(
        &mut self,
        input: &[u8],
        mut on_event: impl FnMut(ResponseEvent<'_>) -> ControlFlow<()>,
    ) -> Result<(), ResponseReadError> {
        let mut joined = std::mem::take(&mut self.kept);
        let mut rest = if joined.is_empty() {
            input
        } else {
            joined.extend_from_slice(input);
            &joined
        };
        loop {
            let body = if let Some(body) = &mut self.body {
                body
            } else if rest.is_empty() {
                return Ok(());
            } else {
                match read_head(rest, &self.limits).map_err(ResponseReadError::Head)? {
                    Head::Partial(skipped) => {
                        let partial = rest.get(skipped..).unwrap_or_default();
                        self.kept.extend_from_slice(partial);
                        return Ok(());
                    }
                    Head::Whole(response, end) => {
                        let flow = on_event(ResponseEvent::Head(&response));
                        let framing = match response.status {
                            101 => ResponseBody::UntilClose,
                            _ => response.body,
                        };
                        rest = rest.get(end..).unwrap_or_default();
                        let body = BodyDecoder::for_response(framing, &self.limits);
                        let body = self.body.insert(body);
                        if flow.is_break() {
                            return Ok(());
                        }
                        body
                    }
                }
            };
            while !rest.is_empty() && !body.is_done() {
                let step = body.feed(rest).map_err(ResponseReadError::Body)?;
                rest = rest.get(step.consumed..).unwrap_or_default();
                if !step.data.is_empty() && on_event(ResponseEvent::Data(step.data)).is_break() {
                    return Ok(());
                }
            }
            if !body.is_done() {
                return Ok(());
            }
            self.body = None;
            if on_event(ResponseEvent::End).is_break() {
                return Ok(());
            }
        }
    }

    /// Ends the connection. Returns true if that ends a response whose body had no other end.
    /// Errors: [`ResponseReadError::Ended`] in the middle of a response.
    pub fn end(&mut self) -> Result<bool, ResponseReadError> {
        match self.body.take() {
            Some(body) if body.may_end_here() => Ok(true),
            None if self.kept.is_empty() => Ok(false),
            _ => Err(ResponseReadError::Ended),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(reader: &mut ResponseReader, parts: &[&[u8]]) -> String {
        let mut all = String::new();
        for part in parts {
            let fed = reader.feed(part, |event| {
                match event {
                    ResponseEvent::Head(response) => {
                        all.extend(["<", &response.status.to_string(), ">"])
                    }
                    ResponseEvent::Data(data) => all += &String::from_utf8_lossy(data),
                    ResponseEvent::End => all.push('.'),
                }
                ControlFlow::Continue(())
            });
            if let Err(error) = fed {
                return error.to_string();
            }
        }
        all
    }

    #[track_caller]
    fn check(wire: &str, expect: &str, end: Result<bool, ResponseReadError>) {
        for cut in 0..=wire.len() {
            let mut reader = ResponseReader::new(HttpLimits::default());
            let (head, tail) = wire.as_bytes().split_at(cut);
            assert_eq!(told(&mut reader, &[head, tail]), expect, "cut at {cut}");
            assert_eq!(reader.end(), end, "cut at {cut}");
        }
    }

    #[test]
    fn responses_follow_each_other() {
        check(
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi\
             HTTP/1.1 204 No Content\r\n\r\n\
             HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\n",
            "<200>hi.<204>.<200>abc.",
            Ok(false),
        );
    }

    #[test]
    fn some_bodies_end_with_the_connection() {
        check("HTTP/1.1 200 OK\r\n\r\nhi", "<200>hi", Ok(true));
        let switched = "HTTP/1.1 101 Switching Protocols\r\n\r\nframes";
        check(switched, "<101>frames", Ok(true));
        let short = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi";
        check(short, "<200>hi", Err(ResponseReadError::Ended));
        check("HTTP/1.1 200 O", "", Err(ResponseReadError::Ended));
        check("", "", Ok(false));
    }

    #[test]
    fn what_is_not_http_is_refused() {
        for wire in [
            "SMTP ready\r\n\r\n",
            "HTTP/1.1 200 OK\r\nBad Name: x\r\n\r\n",
        ] {
            let mut reader = ResponseReader::new(HttpLimits::default());
            let text = told(&mut reader, &[wire.as_bytes()]);
            assert!(text.starts_with("the answer is not HTTP"), "{wire}: {text}");
        }
    }

    #[test]
    fn a_head_is_found_wherever_it_is_cut() {
        let wire = b"HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 101 Switching Protocols\r\n\r\nrest";
        for cut in 0..wire.len() - b"rest".len() {
            let mut reader = HeadReader::default();
            let mut bytes = wire.to_vec();
            let (head, tail) = bytes.split_at_mut(cut);
            let limits = HttpLimits::default();
            assert!(
                reader.feed(head, &limits, |_| ()).unwrap().is_none(),
                "cut at {cut}"
            );
            let (status, mut rest) = reader
                .feed(tail, &limits, |response| response.status)
                .unwrap()
                .expect("the head is whole");
            assert_eq!(
                (status, &*rest.bytes()),
                (101, &b"rest"[..]),
                "cut at {cut}"
            );
        }
    }
}
