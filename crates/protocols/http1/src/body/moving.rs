//! A decoder of a body as bytes, for another process that goes on reading.

use throng_types::{Save, Saved};

use super::{BodyDecoder, SIZE_DIGITS_MAX, State};

/// The states, by their numbers.
const STATES: [State; 15] = [
    State::Length,
    State::UntilClose,
    State::Size,
    State::SizeSpace,
    State::Extension,
    State::SizeLf,
    State::Chunk,
    State::ChunkCr,
    State::ChunkLf,
    State::TrailerStart,
    State::TrailerName,
    State::TrailerValue,
    State::TrailerLf,
    State::LastLf,
    State::Done,
];

impl Save for State {
    fn save(&self, out: &mut Vec<u8>) {
        // Whoever saw a fault has acted on it: nothing is read after it.
        let at = STATES.iter().position(|state| state == self);
        out.push(at.unwrap_or(STATES.len() - 1) as u8);
    }

    fn load(from: &mut Saved<'_>) -> Option<Self> {
        STATES.get(usize::from(u8::load(from)?)).copied()
    }
}

impl Save for BodyDecoder {
    fn save(&self, out: &mut Vec<u8>) {
        let Self {
            open_bytes,
            budget_bytes,
            framing_bytes_left,
            size_digits,
            state,
        } = self;
        (*open_bytes, *budget_bytes).save(out);
        (*framing_bytes_left, *size_digits).save(out);
        state.save(out);
    }

    fn load(from: &mut Saved<'_>) -> Option<Self> {
        let (open_bytes, budget_bytes) = Save::load(from)?;
        let (framing_bytes_left, size_digits) = Save::load(from)?;
        let state = State::load(from)?;
        // A size has been checked against the budget as far as it was read.
        let is_size = matches!(
            state,
            State::Size | State::SizeSpace | State::Extension | State::SizeLf
        );
        let is_size_sound = !is_size || open_bytes <= budget_bytes;
        // Data of which nothing is outstanding has ended.
        let is_data = matches!(state, State::Length | State::Chunk);
        let is_data_sound = !is_data || open_bytes > 0;
        let is_sound = size_digits <= SIZE_DIGITS_MAX && is_size_sound && is_data_sound;
        is_sound.then_some(Self {
            open_bytes,
            budget_bytes,
            framing_bytes_left,
            size_digits,
            state,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Body, Limits};

    fn feed(decoder: &mut BodyDecoder, mut input: &[u8], data: &mut Vec<u8>) -> bool {
        while !input.is_empty() {
            match decoder.feed(input) {
                Ok(step) => {
                    data.extend_from_slice(step.data);
                    input = &input[step.consumed..];
                    if step.done {
                        return true;
                    }
                    assert!(step.consumed > 0, "progress");
                }
                Err(_) => return false,
            }
        }
        false
    }

    #[test]
    fn a_body_goes_on_in_another_process_after_any_byte() {
        let wire = b"4;x=y\r\ndata\r\na\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n";
        for cut in 0..wire.len() {
            let mut data = Vec::new();
            let mut before = BodyDecoder::new(Body::Chunked, &Limits::default());
            feed(&mut before, &wire[..cut], &mut data);
            let bytes = before.saved();
            let mut after = BodyDecoder::load_whole(&bytes).expect("what was saved");
            assert!(feed(&mut after, &wire[cut..], &mut data), "cut at {cut}");
            assert_eq!(data, b"data0123456789");
            for at in 0..bytes.len() {
                assert!(BodyDecoder::load_whole(&bytes[..at]).is_none());
                for wrong in [0, 1, 14, 15, 0xff] {
                    let mut bytes = bytes.clone();
                    bytes[at] = wrong;
                    if let Some(mut decoder) = BodyDecoder::load_whole(&bytes) {
                        feed(&mut decoder, &wire[cut..], &mut Vec::new());
                    }
                }
            }
        }
    }
}
