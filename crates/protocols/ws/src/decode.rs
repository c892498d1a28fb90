//! Frames in: from any cut of a connection's bytes to messages, pings, pongs and the close.
//!
//! Owns: the bytes of a frame header that is not whole, and those of a message or control
//! frame that did not arrive in one read. Never: answers, waits, or reserves memory because
//! a header declared a length.
//!
//! Invariants
//! - What is reported, and the fault that ends it, do not depend on how the bytes were cut.
//! - Between messages nothing is on the heap. `progress` exists exactly while a message is
//!   open or a frame's payload has arrived in part.
//! - A header waits in `head` until the first byte of its payload is there, so a peer that
//!   writes header and payload apart costs no allocation.
//! - A compressed message is inflated once it is whole, up to the bound on messages.
//! - After a close frame or a fault nothing is parsed and nothing is held.

#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::ControlFlow;

use throng_types::{Load, Save, Saved};

use crate::deflate::inflate;
use crate::frame::{Context, Control, Header, Kind, Mask};
use crate::{CloseFrame, HEADER_BYTES_MAX, Opcode, WsError, WsRole};

/// Bounds on the memory that a peer may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WsLimits {
    /// The longest message, in bytes summed over its fragments. A longer one is refused
    /// when a header declares it, before its payload arrives. Queue: `partial message`.
    pub message_bytes_max: usize,
    /// True if messages may be compressed: permessage-deflate was agreed on.
    pub deflates: bool,
}

impl WsLimits {
    /// For messages up to so many bytes, none of them compressed.
    #[must_use]
    pub const fn new(message_bytes_max: usize) -> Self {
        Self {
            message_bytes_max,
            deflates: false,
        }
    }
}

/// Event on the connection. The bytes are unmasked and live until the callback returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WsEvent<'a> {
    /// Message that is whole, inflated if need be.
    Message {
        opcode: Opcode,
        /// The payload; valid UTF-8 if `opcode` is [`Opcode::Text`].
        data: &'a [u8],
    },
    /// A ping, to be answered with a pong of the same payload (RFC 6455 section 5.5.2).
    Ping(&'a [u8]),
    /// A pong, asked for or not (section 5.5.3).
    Pong(&'a [u8]),
    /// The end: nothing that follows is parsed. To be answered with a close frame unless
    /// we have sent one (section 5.5.1).
    Close(Option<CloseFrame<'a>>),
}

/// One direction of one connection: feed it what was read.
pub struct WsDecoder {
    progress: Option<Box<Progress>>,
    head: [u8; HEADER_BYTES_MAX],
    head_bytes: u8,
    phase: Phase,
}

/// Role and end in one byte; what is over needs no role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Save)]
enum Phase {
    OpenServer,
    OpenClient,
    Closed,
    /// Its connection is ended.
    #[save(skip)]
    Failed(WsError),
}

impl WsDecoder {
    /// A decoder for a connection on which we play `role`, after the handshake.
    #[must_use]
    pub const fn new(role: WsRole) -> Self {
        Self {
            progress: None,
            head: [0; HEADER_BYTES_MAX],
            head_bytes: 0,
            phase: match role {
                WsRole::Server => Phase::OpenServer,
                WsRole::Client => Phase::OpenClient,
            },
        }
    }

    /// Takes what was read, in order, and reports what it completes.
    ///
    /// Returns how many bytes were taken: all of `input`, unless `on_event` broke; then
    /// everything up to the end of the frame that it was told about, and the rest is to be
    /// fed again. Bytes taken are overwritten (unmasked in place), others are not touched.
    ///
    /// After a close frame everything is taken and ignored (RFC 6455 section 5.5.1).
    ///
    /// # Errors
    ///
    /// A [`WsError`] if the peer broke a rule. What came before was reported; from then on
    /// every call returns the same fault.
    pub fn feed(
        &mut self,
        input: &mut [u8],
        limits: &WsLimits,
        mut on_event: impl FnMut(WsEvent<'_>) -> ControlFlow<()>,
    ) -> Result<usize, WsError> {
        let mut taken = 0;
        while taken < input.len() {
            let role = match self.phase {
                Phase::OpenServer => WsRole::Server,
                Phase::OpenClient => WsRole::Client,
                Phase::Closed => return Ok(input.len()),
                Phase::Failed(fault) => return Err(fault),
            };
            let step = self.step(role, &mut input[taken..], limits, &mut on_event);
            let (step_bytes, flow) = step.map_err(|fault| self.end(Phase::Failed(fault), fault))?;
            taken += step_bytes;
            if flow.is_break() {
                return Ok(taken);
            }
        }
        Ok(taken)
    }

    /// Memory on the heap for what has arrived in part: zero between messages, at most
    /// about twice what arrived within one.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.progress.as_ref().map_or(0, |progress| {
            size_of::<Progress>() + progress.bytes.capacity()
        })
    }

    /// Takes one frame, or what there is of it.
    fn step(
        &mut self,
        role: WsRole,
        input: &mut [u8],
        limits: &WsLimits,
        on_event: &mut impl FnMut(WsEvent<'_>) -> ControlFlow<()>,
    ) -> Result<(usize, ControlFlow<()>), WsError> {
        if let Some(progress) = self.progress.take() {
            match progress.frame {
                Some(frame) => return self.step_payload(progress, frame, input, limits, on_event),
                None => self.progress = Some(progress),
            }
        }
        let Some((header, head_bytes)) = self.take_header(role, input, limits)? else {
            return Ok((input.len(), ControlFlow::Continue(())));
        };
        let rest = &mut input[head_bytes..];
        if let Some(payload) = rest.get_mut(..header.payload_bytes) {
            let mut mask = header.mask;
            let event = match header.kind {
                Kind::Control(control) => {
                    mask.apply(payload);
                    Some(self.control(control, payload)?)
                }
                Kind::Start(opcode) if header.fin => {
                    mask.apply(payload);
                    if header.deflated {
                        let message = inflate(payload, limits.message_bytes_max)?;
                        let flow = on_event(whole_message(opcode, &message)?);
                        return Ok((head_bytes + header.payload_bytes, flow));
                    }
                    Some(whole_message(opcode, payload)?)
                }
                Kind::Start(_) | Kind::Continuation => None,
            };
            if let Some(event) = event {
                return Ok((head_bytes + header.payload_bytes, on_event(event)));
            }
        }
        let mut progress = self.progress.take().unwrap_or_default();
        let frame = progress.begin(&header);
        let (payload_bytes, flow) = self.step_payload(progress, frame, rest, limits, on_event)?;
        Ok((head_bytes + payload_bytes, flow))
    }

    /// The next header and how many bytes of `input` belong to it. `None` if it is not
    /// whole, or has a payload of which nothing is there: then all of `input` was kept.
    fn take_header(
        &mut self,
        role: WsRole,
        input: &[u8],
        limits: &WsLimits,
    ) -> Result<Option<(Header, usize)>, WsError> {
        let message_bytes = self.progress.as_ref().map_or(0, |held| held.bytes.len());
        let context = Context {
            role,
            message_open: self.progress.is_some(),
            message_bytes_left: limits.message_bytes_max.saturating_sub(message_bytes),
            deflates: limits.deflates,
        };
        let kept_bytes = usize::from(self.head_bytes);
        let bytes = if kept_bytes == 0 {
            input
        } else {
            let (kept, free) = self.head.split_at_mut(kept_bytes);
            let added_bytes = free.len().min(input.len());
            free[..added_bytes].copy_from_slice(&input[..added_bytes]);
            let known_bytes = kept.len() + added_bytes;
            &self.head[..known_bytes]
        };
        if let Some(header) = Header::parse(bytes, &context)? {
            // What was kept is never more than the header.
            let head_bytes = header.header_bytes - kept_bytes;
            if header.payload_bytes == 0 || head_bytes < input.len() {
                self.head_bytes = 0;
                return Ok(Some((header, head_bytes)));
            }
        }
        // All of `input` belongs to the header, so it fits: a header is at most `head`.
        let known_bytes = kept_bytes + input.len();
        self.head[kept_bytes..known_bytes].copy_from_slice(input);
        self.head_bytes = known_bytes as u8;
        Ok(None)
    }

    /// Adds to the payload of `frame`, which `progress` was taken out for; puts it back if
    /// there is more to come.
    fn step_payload(
        &mut self,
        mut progress: Box<Progress>,
        mut frame: PartialFrame,
        input: &[u8],
        limits: &WsLimits,
        on_event: &mut impl FnMut(WsEvent<'_>) -> ControlFlow<()>,
    ) -> Result<(usize, ControlFlow<()>), WsError> {
        let chunk = &input[..frame.bytes_left.min(input.len())];
        progress.append(chunk, &mut frame, limits.message_bytes_max);
        if !frame.is_control() {
            progress.check_text(frame.fin && frame.bytes_left == 0)?;
        }
        progress.frame = (frame.bytes_left > 0).then_some(frame);
        let flow = match (frame.kind, progress.message) {
            _ if frame.bytes_left > 0 => {
                self.progress = Some(progress);
                ControlFlow::Continue(())
            }
            (Kind::Control(control), message) => {
                let event = self.control(control, &progress.bytes[frame.start..])?;
                let flow = on_event(event);
                if message.is_some() && self.phase != Phase::Closed {
                    progress.bytes.truncate(frame.start);
                    self.progress = Some(progress);
                }
                flow
            }
            (_, Some(opcode)) if frame.fin && progress.deflated => {
                let message = inflate(&progress.bytes, limits.message_bytes_max)?;
                on_event(whole_message(opcode, &message)?)
            }
            (_, Some(opcode)) if frame.fin => on_event(WsEvent::Message {
                opcode,
                data: &progress.bytes,
            }),
            _ => {
                self.progress = Some(progress);
                ControlFlow::Continue(())
            }
        };
        Ok((chunk.len(), flow))
    }

    /// Reads a whole control frame. A close frame ends the connection's input.
    fn control<'a>(&mut self, control: Control, payload: &'a [u8]) -> Result<WsEvent<'a>, WsError> {
        Ok(match control {
            Control::Ping => WsEvent::Ping(payload),
            Control::Pong => WsEvent::Pong(payload),
            Control::Close => {
                let frame = CloseFrame::parse(payload)?;
                self.end(Phase::Closed, WsEvent::Close(frame))
            }
        })
    }

    /// Parses nothing more and holds nothing more; hands `why` through.
    fn end<T>(&mut self, phase: Phase, why: T) -> T {
        self.phase = phase;
        self.progress = None;
        self.head_bytes = 0;
        why
    }
}

impl fmt::Debug for WsDecoder {
    /// Says nothing of the bytes: they are the users'.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WsDecoder")
            .field("phase", &self.phase)
            .field("head_bytes", &self.head_bytes)
            .field("held_bytes", &self.held_bytes())
            .finish()
    }
}

#[inline]
fn whole_message(opcode: Opcode, data: &[u8]) -> Result<WsEvent<'_>, WsError> {
    match opcode {
        Opcode::Text if simdutf8::basic::from_utf8(data).is_err() => Err(WsError::TextNotUtf8),
        _ => Ok(WsEvent::Message { opcode, data }),
    }
}

/// State while something has arrived in part.
#[derive(Default, Save)]
struct Progress {
    /// The open message so far, then the control frame that stands within it so far.
    bytes: Vec<u8>,
    /// Kind of the open message; none if only a control frame is in progress.
    message: Option<Opcode>,
    deflated: bool,
    /// The length of the part of `bytes` that is whole, valid characters of a text.
    text_bytes: usize,
    /// The frame whose payload is arriving; none between the fragments of a message.
    frame: Option<PartialFrame>,
}

/// A frame of whose payload more is to come.
#[derive(Clone, Copy, Save)]
struct PartialFrame {
    kind: Kind,
    fin: bool,
    /// The mask, turned to the next byte.
    mask: Mask,
    /// Offset of the payload in [`Progress::bytes`].
    start: usize,
    /// Bytes of the payload that have not arrived.
    bytes_left: usize,
}

impl PartialFrame {
    const fn is_control(&self) -> bool {
        matches!(self.kind, Kind::Control(_))
    }
}

impl Progress {
    /// Opens a frame, and the message if it is the first one.
    fn begin(&mut self, header: &Header) -> PartialFrame {
        if let Kind::Start(opcode) = header.kind {
            self.message = Some(opcode);
            self.deflated = header.deflated;
        }
        PartialFrame {
            kind: header.kind,
            fin: header.fin,
            mask: header.mask,
            start: self.bytes.len(),
            bytes_left: header.payload_bytes,
        }
    }

    /// Adds `chunk`, unmasked, to what has arrived of `frame`.
    fn append(&mut self, chunk: &[u8], frame: &mut PartialFrame, message_bytes_max: usize) {
        frame.bytes_left -= chunk.len();
        let end = self.bytes.len() + chunk.len();
        // No larger than the frame can make it, if nothing can follow the frame.
        let end_max = if frame.fin {
            end.saturating_add(frame.bytes_left)
        } else {
            message_bytes_max
        };
        self.grow(end, end_max);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(chunk);
        frame.mask.apply(&mut self.bytes[start..]);
    }

    /// Makes room for `end` bytes, and by doubling for as many again, but for no more than
    /// `end_max` without need: memory follows the bytes that came, not those declared.
    fn grow(&mut self, end: usize, end_max: usize) {
        if end > self.bytes.capacity() {
            let target = (2 * self.bytes.capacity()).max(GROWTH_BYTES_MIN);
            let target = target.min(end_max).max(end);
            self.bytes.reserve_exact(target - self.bytes.len());
        }
    }

    /// Fails on the first byte that cannot belong to a text, however the text was cut
    /// (RFC 6455 section 8.1), and on a character that `message_ends` cuts short.
    fn check_text(&mut self, message_ends: bool) -> Result<(), WsError> {
        if self.message != Some(Opcode::Text) || self.deflated {
            return Ok(());
        }
        let unchecked = &self.bytes[self.text_bytes..];
        match simdutf8::compat::from_utf8(unchecked) {
            Ok(_) => self.text_bytes = self.bytes.len(),
            // The end of the bytes, not a wrong one among them: the rest may still come.
            Err(error) if error.error_len().is_none() && !message_ends => {
                self.text_bytes += error.valid_up_to();
            }
            Err(_) => return Err(WsError::TextNotUtf8),
        }
        Ok(())
    }
}

/// The least room that is made at once.
const GROWTH_BYTES_MIN: usize = 64;

impl Save for WsDecoder {
    fn save(&self, out: &mut Vec<u8>) {
        let head = &self.head[..usize::from(self.head_bytes)];
        (self.phase, head, &self.progress).save(out);
    }
}

impl Load for WsDecoder {
    fn load(from: &mut Saved<'_>) -> Option<Self> {
        let (phase, kept) = (Phase::load(from)?, from.bytes()?);
        let progress = Option::<Box<Progress>>::load(from)?;
        let is_sound = progress.as_ref().is_none_or(|progress| {
            let bytes = progress.bytes.len();
            let starts = progress.frame.is_none_or(|frame| frame.start <= bytes);
            // What a control frame adds goes again when it is whole.
            let control = progress.frame.filter(PartialFrame::is_control);
            let stays = control.map_or(bytes, |frame| frame.start);
            progress.text_bytes <= stays && starts
        });
        if header_bytes(kept) < kept.len() || !is_sound {
            return None;
        }
        let mut head = [0; HEADER_BYTES_MAX];
        head.get_mut(..kept.len())?.copy_from_slice(kept);
        Some(Self {
            progress,
            head,
            head_bytes: kept.len() as u8,
            phase,
        })
    }
}

/// Length of the header that begins so (RFC 6455 section 5.2), as far as that can be told.
fn header_bytes(begin: &[u8]) -> usize {
    let Some(second) = begin.get(1) else {
        return HEADER_BYTES_MAX;
    };
    let length = match second & 0x7f {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    2 + length + if second & 0x80 == 0 { 0 } else { 4 }
}
