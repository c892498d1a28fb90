//! What a connection reads of blocks of fields: heads of requests and responses, and trailers.

use throng_http1::{Body, ResponseBody};

use super::read::{Aids, Step};
use super::{Block, Conn, H2Event, Role};
use crate::frame::{Code, FRAME_BYTES_MAX};
use crate::head::{self, BadHead, HeadKind, encode_response};
use crate::streams::{ANSWERED, Gone, PEER_ENDED, UNKNOWN};
use crate::{H2Fault, Scratch, budget};

impl Conn {
    /// Takes a part of a block of fields; the last one makes a head.
    pub(super) fn block_came<'a>(
        &mut self,
        id: u32,
        ends: bool,
        is_last: bool,
        part: &[u8],
        scratch: &'a mut Scratch,
        aids: &mut Aids<'_, '_>,
    ) -> Step<'a> {
        if self.block.is_none() && is_last {
            return self.head_came(id, ends, part, scratch, aids);
        }
        let mut block = self.block.take().unwrap_or_else(|| {
            Box::new(Block {
                id,
                ends,
                continuations: 0,
                bytes: Vec::new(),
            })
        });
        // A head that is somewhat too large is answered; this bounds what is held for it.
        if block.bytes.len() + part.len() > aids.limits.http.head_bytes_max + FRAME_BYTES_MAX {
            return Err(H2Fault::BlockTooLarge);
        }
        block.bytes.extend_from_slice(part);
        if is_last {
            return self.head_came(id, block.ends, &block.bytes, scratch, aids);
        }
        self.block = Some(block);
        Ok(None)
    }

    fn head_came<'a>(
        &mut self,
        id: u32,
        ends: bool,
        block: &[u8],
        scratch: &'a mut Scratch,
        aids: &mut Aids<'_, '_>,
    ) -> Step<'a> {
        let stream = self.streams.get(id).copied();
        let kind = match (self.role, stream) {
            (Role::Server, None) if id > self.last => HeadKind::Request,
            (Role::Client, Some(stream)) if !stream.is(ANSWERED) => HeadKind::Response,
            _ => HeadKind::Trailers,
        };
        // Whatever becomes of it, the decoder has to see it.
        let http = &aids.limits.http;
        let decoded = head::decode(&mut self.decoder, block, kind, ends, http, scratch);
        let decoded = decoded.map_err(|_| H2Fault::Compression)?;
        if decoded.is_err() {
            self.charge((block.len() / budget::BYTES_A_POINT) as u32, aids)?;
        }
        let tag = match (kind, stream) {
            (HeadKind::Request, _) => return self.request_came(id, ends, decoded, scratch, aids),
            (_, Some(stream)) if !stream.is(PEER_ENDED) => stream.tag,
            (_, Some(_)) => return self.refuse(id, Code::STREAM_CLOSED, aids),
            (_, None) => return self.late_head(id, aids),
        };
        let fits_end = |body_left: u32| !ends || matches!(body_left, 0 | UNKNOWN);
        if kind == HeadKind::Trailers {
            let body_left = stream.map_or(0, |stream| stream.body_left);
            let fields = decoded.and_then(|_| head::trailers(scratch, http));
            return match fields {
                Ok(fields) if ends && fits_end(body_left) => {
                    self.charge(budget::IGNORED, aids)?;
                    self.note_ended(id, ends, aids);
                    Ok(Some(H2Event::Trailers { id, tag, fields }))
                }
                _ => self.refuse(id, Code::PROTOCOL_ERROR, aids),
            };
        }
        let response = decoded.and_then(|_| head::response(scratch, http));
        let is_interim = |status: u16| status < 200;
        match response {
            Ok(response) if !(ends && is_interim(response.status)) && response.status != 101 => {
                if !is_interim(response.status)
                    && let Some(stream) = self.streams.get_mut(id)
                {
                    stream.flags |= ANSWERED;
                    if let (ResponseBody::Length(length), false) = (response.body, ends) {
                        stream.body_left = u32::try_from(length).unwrap_or(UNKNOWN);
                    }
                }
                self.note_ended(id, ends, aids);
                Ok(Some(H2Event::Response {
                    id,
                    tag,
                    response,
                    ends,
                }))
            }
            _ => self.refuse(id, Code::PROTOCOL_ERROR, aids),
        }
    }

    /// Judges a head on a stream that is not there any more.
    fn late_head<'a>(&mut self, id: u32, aids: &mut Aids<'_, '_>) -> Step<'a> {
        match self.streams.why_gone(id) {
            Some(Gone::WeReset) => self.charge(budget::IGNORED, aids).map(|()| None),
            Some(Gone::PeerReset) => self.refuse(id, Code::STREAM_CLOSED, aids),
            Some(Gone::Ended) => Err(H2Fault::StreamEnded),
            // Numbers must grow (section 5.1.1).
            None => Err(H2Fault::StreamNumber),
        }
    }

    fn request_came<'a>(
        &mut self,
        id: u32,
        ends: bool,
        decoded: Result<bool, BadHead>,
        scratch: &'a Scratch,
        aids: &mut Aids<'_, '_>,
    ) -> Step<'a> {
        self.last = id;
        if self.served.is_some_and(|served| id > served) {
            self.streams.note_gone(id, Gone::WeReset);
            return self.charge(budget::RESET, aids).map(|()| None);
        }
        if self.streams.len() >= self.streams_max as usize {
            return self.refuse(id, Code::REFUSED_STREAM, aids);
        }
        let request = decoded.and_then(|connects| {
            let request = head::request(scratch, &aids.limits.http, connects, ends)?;
            Ok((request, connects))
        });
        let ((request, head), connects) = match request {
            Ok(request) => request,
            Err(BadHead::Malformed) => return self.refuse(id, Code::PROTOCOL_ERROR, aids),
            Err(BadHead::Refused(fault)) => {
                let (reason, mut block) = (fault.reason(), Vec::new());
                let length = reason.len().to_string();
                let fields = [("content-type", "text/plain"), ("content-length", &length)];
                let fields = fields.map(|(name, value)| (name, value.as_bytes()));
                encode_response(fault.status(), fields, &mut block);
                self.begin(id, 0, UNKNOWN);
                self.note_ended(id, ends, aids);
                // The answer to HEAD ends with it, and takes no data.
                self.head(id, &block, scratch.asks_head, aids.out);
                let bytes = self.data(id, reason.len(), true, aids.out);
                aids.out.extend_from_slice(&reason.as_bytes()[..bytes]);
                self.release(id, aids.out);
                return self.charge(budget::RESET, aids).map(|()| None);
            }
        };
        let body_left = match request.body {
            Body::Length(length) => u32::try_from(length).unwrap_or(UNKNOWN),
            Body::None | Body::Chunked => UNKNOWN,
        };
        self.begin(id, 0, body_left);
        self.note_ended(id, ends, aids);
        Ok(Some(H2Event::Request {
            id,
            request,
            head,
            connects,
            ends,
        }))
    }
}
