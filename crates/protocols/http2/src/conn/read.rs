//! What a connection reads: one step at a time, with at most one event.

use std::borrow::Cow;

use throng_types::Millis;

use super::{Body, Conn, H2Event, H2Limits, PREFACE, Partial, Phase, Role};
use crate::budget;
use crate::frame::{
    ACK, Code, END_HEADERS, END_STREAM, FRAME_BYTES_MAX, HEAD_BYTES, Head, Kind, NUMBER_MAX,
    PADDED, block_in, check_dependency, setting, write_frame, write_number,
};
use crate::streams::{BLOCKED, Gone, PEER_ENDED, UNKNOWN, WE_ENDED};
use crate::{H2Fault, Scratch};

/// CONTINUATION frames of one block: a head of the greatest size needs none.
const CONTINUATIONS_MAX: u8 = 16;

/// Event of a step, if there is one, or the end of the connection.
pub(super) type Step<'a> = Result<Option<H2Event<'a>>, H2Fault>;

/// Rest of a frame that was judged by its head, and an event.
type Judged<'a> = Result<(Partial, Option<H2Event<'a>>), H2Fault>;

/// Arguments that all parts of a step need.
pub(super) struct Aids<'l, 'o> {
    now: Millis,
    pub(super) limits: &'l H2Limits,
    pub(super) out: &'o mut Vec<u8>,
}

impl Conn {
    /// Takes what it can of `input` for one step, and reports an event if there is one; to be
    /// called again while `input` has bytes. Answers that the protocol asks for are appended to
    /// `out`: a caller whose peer does not read them should not read either.
    ///
    /// # Errors
    /// An [`H2Fault`] if the connection ends; GOAWAY was appended. Every call after it takes
    /// everything and returns the same fault.
    pub fn read<'i: 'a, 'a>(
        &mut self,
        input: &mut &'i [u8],
        now: Millis,
        limits: &H2Limits,
        scratch: &'a mut Scratch,
        out: &mut Vec<u8>,
    ) -> Step<'a> {
        let mut aids = Aids { now, limits, out };
        let step = match self.phase {
            Phase::Failed(fault) => {
                *input = &[];
                return Err(fault);
            }
            Phase::Preface(at) => self.preface(usize::from(at), input),
            _ => match self.partial.take() {
                None => self.next_frame(input, scratch, &mut aids),
                Some(partial) => self.go_on(partial, input, scratch, &mut aids),
            },
        };
        step.inspect_err(|fault| self.fail(*fault, out))
    }

    fn fail(&mut self, fault: H2Fault, out: &mut Vec<u8>) {
        self.close(fault.code(), fault.reason(), out);
        self.phase = Phase::Failed(fault);
        self.held = Vec::new();
        self.block = None;
    }

    pub(super) fn charge(&mut self, points: u32, aids: &Aids<'_, '_>) -> Result<(), H2Fault> {
        let streams = match self.role {
            Role::Server => self.streams_max,
            // A server may reset all that were opened, when it leaves.
            Role::Client => self.next / 2,
        };
        self.budget.charge(points, aids.now, streams)
    }

    fn preface<'a>(&mut self, at: usize, input: &mut &'a [u8]) -> Step<'a> {
        let left = &PREFACE[at..];
        let (begin, rest) = input.split_at(left.len().min(input.len()));
        if !left.starts_with(begin) {
            return Err(H2Fault::Preface);
        }
        *input = rest;
        self.phase = match at + begin.len() {
            at if at == PREFACE.len() => Phase::First,
            at => Phase::Preface(at as u8),
        };
        Ok(None)
    }

    fn next_frame<'i: 'a, 'a>(
        &mut self,
        input: &mut &'i [u8],
        scratch: &'a mut Scratch,
        aids: &mut Aids<'_, '_>,
    ) -> Step<'a> {
        let Some(head) = gather(&mut self.held, input, HEAD_BYTES) else {
            return Ok(None);
        };
        let head = Head::parse(head.first_chunk().copied().unwrap_or_default())?;
        if self.phase == Phase::First {
            if head.kind != Kind::Settings || head.has(ACK) {
                return Err(H2Fault::FirstFrame);
            }
            self.phase = Phase::Open;
        }
        // Nothing may stand within a block of fields (RFC 9113 section 4.3).
        let is_expected = match &self.block {
            Some(block) => head.kind == Kind::Continuation && head.stream == block.id,
            None => head.kind != Kind::Continuation,
        };
        if !is_expected {
            return Err(H2Fault::Continuation);
        }
        let judged = self.judge(head, aids)?;
        self.go_on_judged(judged, input, scratch, aids)
    }

    fn go_on_judged<'i: 'a, 'a>(
        &mut self,
        (partial, event): (Partial, Option<H2Event<'a>>),
        input: &mut &'i [u8],
        scratch: &'a mut Scratch,
        aids: &mut Aids<'_, '_>,
    ) -> Step<'a> {
        if event.is_some() {
            self.partial = match partial {
                Partial::Skipped(left) => skipped(left),
                partial => Some(partial),
            };
            return Ok(event);
        }
        self.go_on(partial, input, scratch, aids)
    }

    /// Judges a frame by its head alone.
    fn judge<'a>(&mut self, head: Head, aids: &mut Aids<'_, '_>) -> Judged<'a> {
        match head.kind {
            Kind::Data => return self.judge_data(head, aids),
            Kind::Headers if head.stream.is_multiple_of(2) => return Err(H2Fault::StreamNumber),
            Kind::RstStream | Kind::WindowUpdate if self.is_idle(head.stream) => {
                return Err(H2Fault::StreamIdle);
            }
            Kind::Continuation => {
                let block = self.block.as_mut().ok_or(H2Fault::Continuation)?;
                block.continuations += 1;
                if block.continuations > CONTINUATIONS_MAX {
                    return Err(H2Fault::TooManyContinuations);
                }
                self.charge(budget::ANSWERED, aids)?;
            }
            Kind::PushPromise => return Err(H2Fault::Push),
            Kind::Other => {
                self.charge(budget::IGNORED, aids)?;
                return Ok((Partial::Skipped(head.length), None));
            }
            _ => {}
        }
        Ok((Partial::Whole(head), None))
    }

    /// Tells whether a stream was never opened.
    fn is_idle(&self, id: u32) -> bool {
        match (self.role, id % 2) {
            _ if id == 0 => false,
            (Role::Server, 1) => id > self.last,
            (Role::Client, 1) => id >= self.next,
            _ => true,
        }
    }

    fn judge_data<'a>(&mut self, head: Head, aids: &mut Aids<'_, '_>) -> Judged<'a> {
        let id = head.stream;
        if self.is_idle(id) {
            return Err(H2Fault::StreamIdle);
        }
        // Even what is refused was sent, so it counts (section 6.9).
        self.recv = { self.recv.checked_sub(head.length) }.ok_or(H2Fault::WindowExceeded)?;
        let code = match self.streams.get_mut(id) {
            Some(stream) if stream.is(PEER_ENDED) => Code::STREAM_CLOSED,
            Some(stream) if stream.recv < head.length => Code::FLOW_CONTROL_ERROR,
            Some(stream) => {
                stream.recv -= head.length;
                if head.has(PADDED) && head.length == 0 {
                    return Err(H2Fault::Padding);
                }
                if head.has(PADDED) {
                    return Ok((Partial::Padding(head), None));
                }
                return self.begin_data(head, head.length, 0, aids);
            }
            None => Code::STREAM_CLOSED,
        };
        // Nobody wants it, so it is given back at once.
        self.return_window(head.length, aids.out);
        let unwanted = Partial::Skipped(head.length);
        if self.streams.why_gone(id) == Some(Gone::WeReset) {
            self.charge(budget::IGNORED, aids)?;
            return Ok((unwanted, None));
        }
        Ok((unwanted, self.refuse(id, code, aids)?))
    }

    /// Judges a part of a body by its length: a small one has a price, and more or less than was
    /// declared is malformed (section 8.1.1).
    fn begin_data<'a>(
        &mut self,
        head: Head,
        left: u32,
        padding: u8,
        aids: &mut Aids<'_, '_>,
    ) -> Judged<'a> {
        let (id, ends) = (head.stream, head.has(END_STREAM));
        match left {
            0 if !ends => self.charge(budget::EMPTY, aids)?,
            1..budget::SMALL_BYTES if !ends => self.charge(budget::SMALL, aids)?,
            _ => {}
        }
        if let Some(stream) = self.streams.get_mut(id)
            && stream.body_left != UNKNOWN
        {
            let body_left = stream.body_left.checked_sub(left);
            match body_left.filter(|&left| left == 0 || !ends) {
                Some(left) => stream.body_left = left,
                None => {
                    let refused = self.refuse(id, Code::PROTOCOL_ERROR, aids)?;
                    return Ok((Partial::Skipped(left + u32::from(padding)), refused));
                }
            }
        }
        let body = Body {
            id,
            left,
            padding,
            ends,
        };
        Ok((Partial::Data(body), None))
    }

    fn go_on<'i: 'a, 'a>(
        &mut self,
        partial: Partial,
        input: &mut &'i [u8],
        scratch: &'a mut Scratch,
        aids: &mut Aids<'_, '_>,
    ) -> Step<'a> {
        match partial {
            Partial::Whole(head) => {
                let Some(payload) = gather(&mut self.held, input, head.length as usize) else {
                    self.partial = Some(partial);
                    return Ok(None);
                };
                self.whole(head, &payload, scratch, aids)
            }
            Partial::Skipped(left) => {
                self.partial = skipped(left - take(input, left).len() as u32);
                Ok(None)
            }
            Partial::Padding(head) => {
                let Some((&padding, rest)) = input.split_first() else {
                    self.partial = Some(partial);
                    return Ok(None);
                };
                *input = rest;
                let left = head.length - 1;
                let left = { left.checked_sub(padding.into()) }.ok_or(H2Fault::Padding)?;
                self.took(head.stream, usize::from(padding) + 1, aids.out);
                let judged = self.begin_data(head, left, padding, aids)?;
                self.go_on_judged(judged, input, scratch, aids)
            }
            Partial::Data(body) => self.data_came(body, input, aids),
        }
    }

    /// Hands out what has come of a body.
    fn data_came<'a>(
        &mut self,
        mut body: Body,
        input: &mut &'a [u8],
        aids: &mut Aids<'_, '_>,
    ) -> Step<'a> {
        let data = take(input, body.left);
        body.left -= data.len() as u32;
        let Body { id, left, ends, .. } = body;
        let Some(stream) = self.streams.get(id) else {
            // Its owner has reset it meanwhile, which gave the whole frame back to the window.
            self.partial = skipped(left + u32::from(body.padding));
            return Ok(None);
        };
        self.partial = match left {
            0 => skipped(body.padding.into()),
            _ => Some(Partial::Data(body)),
        };
        let ends = ends && left == 0;
        if data.is_empty() && !ends {
            return Ok(None);
        }
        let tag = stream.tag;
        self.note_ended(id, ends, aids);
        Ok(Some(H2Event::Data {
            id,
            tag,
            data,
            ends,
        }))
    }

    pub(super) fn note_ended(&mut self, id: u32, ends: bool, aids: &mut Aids<'_, '_>) {
        if ends && let Some(stream) = self.streams.get_mut(id) {
            stream.flags |= PEER_ENDED;
            if stream.is(WE_ENDED) {
                self.remove(id, Gone::Ended, aids.out);
            }
        }
    }

    /// Resets a stream for what came on it.
    pub(super) fn refuse<'a>(&mut self, id: u32, code: Code, aids: &mut Aids<'_, '_>) -> Step<'a> {
        write_number(Kind::RstStream, id, code.0, aids.out);
        self.charge(budget::RESET, aids)?;
        let removed = self.remove(id, Gone::WeReset, aids.out);
        if removed.is_none() {
            self.streams.note_gone(id, Gone::WeReset);
        }
        Ok(removed.map(|stream| H2Event::Reset {
            id,
            tag: stream.tag,
            code,
        }))
    }

    /// Takes a frame that is whole.
    fn whole<'a>(
        &mut self,
        head: Head,
        payload: &[u8],
        scratch: &'a mut Scratch,
        aids: &mut Aids<'_, '_>,
    ) -> Step<'a> {
        let number = |at: usize| -> u32 {
            let bytes = payload.get(at..).and_then(<[u8]>::first_chunk);
            bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
        };
        let id = head.stream;
        match head.kind {
            Kind::Headers => {
                let block = block_in(&head, payload)?;
                self.block_came(
                    id,
                    head.has(END_STREAM),
                    head.has(END_HEADERS),
                    block,
                    scratch,
                    aids,
                )
            }
            Kind::Continuation => {
                self.block_came(id, false, head.has(END_HEADERS), payload, scratch, aids)
            }
            Kind::Priority => {
                self.charge(budget::IGNORED, aids)?;
                check_dependency(id, number(0))?;
                Ok(None)
            }
            Kind::RstStream => match self.remove(id, Gone::PeerReset, aids.out) {
                Some(stream) => {
                    self.charge(budget::RESET, aids)?;
                    Ok(Some(H2Event::Reset {
                        id,
                        tag: stream.tag,
                        code: Code(number(0)),
                    }))
                }
                None => self.charge(budget::IGNORED, aids).map(|()| None),
            },
            Kind::Settings => self.settings(head.has(ACK), payload, aids),
            // We send no pings.
            Kind::Ping if head.has(ACK) => self.charge(budget::ANSWERED, aids).map(|()| None),
            Kind::Ping => {
                if !std::mem::take(&mut self.has_sent) {
                    self.charge(budget::ANSWERED, aids)?;
                }
                write_frame(Kind::Ping, ACK, 0, payload, aids.out);
                Ok(None)
            }
            Kind::GoAway => {
                self.charge(budget::ANSWERED, aids)?;
                self.peer_leaves = true;
                Ok(Some(H2Event::GoAway {
                    last: number(0) & NUMBER_MAX,
                    code: Code(number(4)),
                }))
            }
            Kind::WindowUpdate => self.window_grew(id, number(0) & NUMBER_MAX, aids),
            Kind::Data | Kind::PushPromise | Kind::Other => Ok(None),
        }
    }

    fn window_grew<'a>(&mut self, id: u32, step: u32, aids: &mut Aids<'_, '_>) -> Step<'a> {
        self.charge(budget::WINDOW, aids)?;
        let grown = |window: i32| {
            let grown = i64::from(window) + i64::from(step);
            i32::try_from(grown).ok()
        };
        if id == 0 {
            if step == 0 {
                return Err(H2Fault::WindowStep);
            }
            self.send = grown(self.send).ok_or(H2Fault::WindowTooLarge)?;
            return Ok(self.writable(true));
        }
        let Some(stream) = self.streams.get_mut(id) else {
            return Ok(None);
        };
        match grown(stream.send) {
            _ if step == 0 => self.refuse(id, Code::PROTOCOL_ERROR, aids),
            None => self.refuse(id, Code::FLOW_CONTROL_ERROR, aids),
            Some(window) => {
                stream.send = window;
                let waits = stream.is(BLOCKED) && window > 0;
                Ok(self.writable(waits))
            }
        }
    }

    /// Reports that streams may go on, if what `grew` lets one.
    fn writable<'a>(&self, grew: bool) -> Option<H2Event<'a>> {
        let may = grew && self.send > 0 && self.streams.any_blocked();
        may.then_some(H2Event::Writable)
    }

    fn settings<'a>(&mut self, ack: bool, payload: &[u8], aids: &mut Aids<'_, '_>) -> Step<'a> {
        // One that changes windows looks at all streams.
        let looks = payload.len() / 6 + self.streams.len();
        self.charge(budget::ANSWERED + looks as u32 / 64, aids)?;
        if ack {
            return Ok(None);
        }
        let window = self.peer_window;
        for entry in payload.as_chunks::<6>().0 {
            let [a, b, value @ ..] = *entry;
            self.setting(u16::from_be_bytes([a, b]), u32::from_be_bytes(value))?;
        }
        let grown_by = i64::from(self.peer_window) - i64::from(window);
        if !self.streams.move_windows(grown_by) {
            return Err(H2Fault::InitialWindow);
        }
        write_frame(Kind::Settings, ACK, 0, &[], aids.out);
        Ok(self.writable(grown_by > 0))
    }

    fn setting(&mut self, name: u16, value: u32) -> Result<(), H2Fault> {
        let frame_bytes = FRAME_BYTES_MAX as u32..1 << 24;
        match name {
            setting::INITIAL_WINDOW_SIZE if value > NUMBER_MAX => Err(H2Fault::InitialWindow),
            setting::INITIAL_WINDOW_SIZE => {
                self.peer_window = value;
                Ok(())
            }
            setting::MAX_CONCURRENT_STREAMS => {
                self.peer_streams_max = value;
                Ok(())
            }
            // It is not taken back (RFC 8441 section 3).
            setting::ENABLE_CONNECT_PROTOCOL
                if value == 1 || (value == 0 && !self.peer_connects) =>
            {
                self.peer_connects = value == 1;
                Ok(())
            }
            setting::ENABLE_PUSH if value == 0 || (value == 1 && self.role == Role::Server) => {
                Ok(())
            }
            setting::MAX_FRAME_SIZE if frame_bytes.contains(&value) => Ok(()),
            setting::ENABLE_CONNECT_PROTOCOL | setting::ENABLE_PUSH | setting::MAX_FRAME_SIZE => {
                Err(H2Fault::Setting)
            }
            _ => Ok(()),
        }
    }
}

/// Payload of which so many bytes are skipped, if any.
fn skipped(left: u32) -> Option<Partial> {
    (left > 0).then_some(Partial::Skipped(left))
}

/// Takes up to so many bytes.
fn take<'a>(input: &mut &'a [u8], bytes: u32) -> &'a [u8] {
    let (taken, rest) = input.split_at(input.len().min(bytes as usize));
    *input = rest;
    taken
}

/// Takes so many bytes: where they are, if all are there, or out of `held`, where they are
/// collected until they are.
fn gather<'a>(held: &mut Vec<u8>, input: &mut &'a [u8], bytes: usize) -> Option<Cow<'a, [u8]>> {
    if held.is_empty() && input.len() >= bytes {
        return Some(Cow::Borrowed(take(input, bytes as u32)));
    }
    let missing = bytes - held.len();
    held.extend_from_slice(take(input, missing as u32));
    (held.len() == bytes).then(|| Cow::Owned(std::mem::take(held)))
}
