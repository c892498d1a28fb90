//! A decoder as bytes, for another process that goes on reading where this one stopped.

use throng_types::{Save, Saved, save_choice, save_fields};

use super::progress::{PartialFrame, Progress};
use super::{Decoder, Phase};
use crate::frame::{Control, Kind};
use crate::mask::Mask;
use crate::{HEADER_BYTES_MAX, Opcode};

save_choice!(Opcode { 1: Text, 2: Binary });
save_choice!(Control {
    8: Close,
    9: Ping,
    10: Pong
});

impl Save for Mask {
    fn save(&self, out: &mut Vec<u8>) {
        self.0.save(out);
    }

    fn load(from: &mut Saved<'_>) -> Option<Self> {
        Save::load(from).map(Self)
    }
}

impl Save for Kind {
    fn save(&self, out: &mut Vec<u8>) {
        match self {
            Self::Start(opcode) => (0_u8, *opcode).save(out),
            Self::Continuation => out.push(1),
            Self::Control(control) => (2_u8, *control).save(out),
        }
    }

    fn load(from: &mut Saved<'_>) -> Option<Self> {
        match u8::load(from)? {
            0 => Opcode::load(from).map(Self::Start),
            1 => Some(Self::Continuation),
            2 => Control::load(from).map(Self::Control),
            _ => None,
        }
    }
}

save_fields!(PartialFrame {
    kind,
    fin,
    mask,
    start,
    bytes_left
});
save_fields!(Progress {
    bytes,
    message,
    deflated,
    text_bytes,
    frame
});

impl Save for Decoder {
    fn save(&self, out: &mut Vec<u8>) {
        out.push(match self.phase {
            Phase::OpenServer => 0,
            Phase::OpenClient => 1,
            // Either way nothing more is parsed; whoever saw the fault has acted on it.
            Phase::Closed | Phase::Failed(_) => 2,
        });
        self.head[..usize::from(self.head_bytes)].to_vec().save(out);
        self.progress.save(out);
    }

    fn load(from: &mut Saved<'_>) -> Option<Self> {
        let phase = match u8::load(from)? {
            0 => Phase::OpenServer,
            1 => Phase::OpenClient,
            2 => Phase::Closed,
            _ => return None,
        };
        let kept = Vec::<u8>::load(from)?;
        let progress = Option::<Box<Progress>>::load(from)?;
        let is_sound = progress.as_ref().is_none_or(|progress| {
            let bytes = progress.bytes.len();
            let starts = progress.frame.is_none_or(|frame| frame.start <= bytes);
            // What a control frame adds goes again when it is whole.
            let control = progress.frame.filter(PartialFrame::is_control);
            let stays = control.map_or(bytes, |frame| frame.start);
            progress.text_bytes <= stays && starts
        });
        if header_bytes(&kept) < kept.len() || !is_sound {
            return None;
        }
        let mut head = [0; HEADER_BYTES_MAX];
        head.get_mut(..kept.len())?.copy_from_slice(&kept);
        Some(Self {
            progress,
            head,
            head_bytes: kept.len() as u8,
            phase,
        })
    }
}

/// How long the header is that begins so (RFC 6455 section 5.2), as far as that can be told.
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

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::{Event, Limits, Role};

    /// What is told of the bytes, as texts.
    fn feed(decoder: &mut Decoder, bytes: &[u8]) -> Vec<String> {
        let (mut told, mut bytes) = (Vec::new(), bytes.to_vec());
        let fed = decoder.feed(&mut bytes, &Limits::new(1000), |event| {
            told.push(match event {
                Event::Message { opcode, data } => format!("{opcode:?} {data:?}"),
                Event::Ping(data) => format!("ping {data:?}"),
                Event::Pong(data) => format!("pong {data:?}"),
                Event::Close(frame) => format!("close {}", frame.is_some()),
            });
            ControlFlow::Continue(())
        });
        if let Err(fault) = fed {
            told.push(format!("{fault:?}"));
        }
        told
    }

    #[test]
    fn a_decoder_goes_on_in_another_process_after_any_byte() {
        // A text in two fragments with a ping between them, a binary message with a long header,
        // and a text with a character that is cut.
        let mut wire = vec![0x01, 0x83, 1, 2, 3, 4, b'a' ^ 1, b'b' ^ 2, b'c' ^ 3];
        wire.extend([0x89, 0x82, 9, 8, 7, 6, 1, 2]);
        wire.extend([0x80, 0x81, 5, 5, 5, 5, b'd' ^ 5]);
        wire.extend([0x82, 0xfe, 0, 200, 0, 0, 0, 0]);
        wire.extend([7; 200]);
        wire.extend([0x81, 0x82, 0, 0, 0, 0, 0xc3, 0xa4, 0x88, 0x80, 1, 1, 1, 1]);
        let whole = feed(&mut Decoder::new(Role::Server), &wire);
        assert_eq!(whole.len(), 5, "{whole:?}");
        for cut in 0..=wire.len() {
            let mut before = Decoder::new(Role::Server);
            let mut told = feed(&mut before, &wire[..cut]);
            let bytes = before.saved();
            let mut after = Decoder::load_whole(&bytes).expect("what was saved");
            assert_eq!(after.saved(), bytes);
            told.extend(feed(&mut after, &wire[cut..]));
            assert_eq!(told, whole, "cut at {cut}");
            for at in 0..bytes.len() {
                assert!(Decoder::load_whole(&bytes[..at]).is_none());
                for wrong in [0, 1, 2, 0x7f, 0x80, 0xff] {
                    let mut bytes = bytes.clone();
                    bytes[at] = wrong;
                    if let Some(mut decoder) = Decoder::load_whole(&bytes) {
                        feed(&mut decoder, &wire[cut..]);
                    }
                }
            }
        }
    }
}
