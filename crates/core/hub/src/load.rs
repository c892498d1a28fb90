//! Load of one visit: publications, and their wire forms, each made at its first use.
//!
//! The next visit mostly carries the same, so a form is made once for all members that lack the
//! same publications, and the difference between two publications once for all forms that use it.
//!
//! Never: which members get it.

use std::ops::Range;
use std::sync::Arc;

use throng_fossil::DeltaUnit;
use throng_types::{PayloadKind, Publication, PublicationKind};

use crate::{Encoded, FormKind, Format, Patch, Sink};

/// Bytes for which a fan-out that is over keeps room, for the next one.
const KEPT_BYTES: usize = 1024;

/// Publications of one visit, with their encodings.
#[derive(Default)]
pub(crate) struct Load {
    pub(crate) span: Range<u64>,
    pub(crate) publications: Vec<Arc<Publication>>,
    /// The data before the first of them, in channels with deltas.
    pub(crate) base: Option<Arc<Publication>>,
    /// Difference of each publication from the data before it; `None` if it would not be shorter.
    /// Empty until it is needed.
    deltas: Vec<Option<Vec<u8>>>,
    /// Bound: one a wire form.
    encoded: Vec<(Format, Encoded)>,
    /// Buffer that is reused for wire forms.
    spare: Option<Encoded>,
}

impl Load {
    pub(crate) fn clear(&mut self) {
        for (_, mut encoded) in self.encoded.drain(..) {
            encoded.frames.clear(KEPT_BYTES);
            self.spare = Some(encoded);
        }
        self.publications.clear();
        self.deltas = Vec::new();
        self.base = None;
        self.span = 0..0;
    }

    /// The load in a shared wire form; nothing for personal ones.
    pub(crate) fn encoded(&mut self, format: Format, sink: &mut impl Sink) -> Option<usize> {
        if !format.is_encoded() {
            return None;
        }
        let known = self.encoded.iter().position(|(known, _)| *known == format);
        Some(known.unwrap_or_else(|| {
            let mut encoded = self.spare.take().unwrap_or_default();
            match format.kind() {
                FormKind::Delta => self.encode_deltas(format, &mut encoded, sink),
                _ => encode(format, &self.publications, &mut encoded, sink),
            }
            self.encoded.push((format, encoded));
            self.encoded.len() - 1
        }))
    }

    /// Wire form at the index that [`Load::encoded`] returned.
    pub(crate) fn form(&self, at: Option<usize>) -> Option<&Encoded> {
        self.encoded.get(at?).map(|(_, encoded)| encoded)
    }

    /// Whether some publication has data, so that a member has a base after this load.
    pub(crate) fn has_data(&self) -> bool {
        let mut all = self.publications.iter();
        all.any(|publication| publication.told == PublicationKind::Data)
    }

    /// Encodes publications as differences. For members without a base the first one is whole.
    fn encode_deltas(&mut self, format: Format, encoded: &mut Encoded, sink: &mut impl Sink) {
        encoded.has_gaps = false;
        if self.deltas.is_empty() {
            self.deltas = deltas(self.base.as_ref(), &self.publications);
        }
        let mut base = self.base.as_ref().filter(|_| format.has_base());
        for (publication, delta) in self.publications.iter().zip(&self.deltas) {
            if publication.told != PublicationKind::Data {
                if format.has_news() {
                    let write = |out: &mut Vec<u8>| sink.encode(format, publication, None, out);
                    encoded.frames.push(write);
                }
                continue;
            }
            let patch = base.zip(delta.as_deref()).map(|(base, delta)| {
                let base = &base.payload;
                Patch { base, delta }
            });
            let write = |out: &mut Vec<u8>| sink.encode(format, publication, patch, out);
            encoded.frames.push(write);
            base = Some(publication);
        }
    }
}

/// The difference of each publication from the data before it.
fn deltas(
    base: Option<&Arc<Publication>>,
    publications: &[Arc<Publication>],
) -> Vec<Option<Vec<u8>>> {
    let mut base = base;
    let delta = |publication| {
        let publication: &Arc<Publication> = publication;
        if publication.told != PublicationKind::Data {
            return None;
        }
        let before = &base.replace(publication)?.payload;
        let after = &publication.payload;
        let is_binary = |kind| kind == PayloadKind::Binary;
        let unit = match is_binary(before.kind) || is_binary(after.kind) {
            true => DeltaUnit::Byte,
            false => DeltaUnit::Char,
        };
        throng_fossil::encode(&before.bytes, &after.bytes, unit)
    };
    publications.iter().map(delta).collect()
}

/// Encodes each publication once in one wire form. Comings and goings are left out in forms without
/// them; in a form whose sessions compare frames with publications, they are an empty frame.
fn encode(
    format: Format,
    publications: &[Arc<Publication>],
    encoded: &mut Encoded,
    sink: &mut impl Sink,
) {
    encoded.has_gaps = false;
    let has_gaps = format.kind() == FormKind::Noted;
    for publication in publications {
        if publication.told != PublicationKind::Data && !format.has_news() {
            if has_gaps {
                encoded.frames.push(|_| ());
                encoded.has_gaps = true;
            }
            continue;
        }
        let before = encoded.frames.bytes().len();
        encoded
            .frames
            .push(|out| sink.encode(format, publication, None, out));
        encoded.has_gaps |= encoded.frames.bytes().len() == before;
    }
}
