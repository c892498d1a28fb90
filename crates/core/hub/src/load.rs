//! What one visit carries: publications, and their wire forms, each made at its first use.
//!
//! The next visit mostly carries the same, so a form is made once for all members who lack the
//! same publications, and the difference between two publications once for all forms that say it.
//!
//! Never: who gets it.

use std::ops::Range;
use std::sync::Arc;

use throng_fossil::DeltaUnit;
use throng_types::{PayloadKind, Publication, PublicationKind};

use crate::{Encoded, FormKind, Format, Patch, Sink};

/// Bytes for which a fan-out that is over keeps room, for the next one.
const KEPT_BYTES: usize = 1024;

/// The publications of one visit, and what was made of them.
#[derive(Default)]
pub(crate) struct Load {
    /// Their numbers.
    pub(crate) span: Range<u64>,
    pub(crate) publications: Vec<Arc<Publication>>,
    /// The data before the first of them, in channels with deltas.
    pub(crate) base: Option<Arc<Publication>>,
    /// What makes each of them of the data before it; nothing if that would not be shorter. Empty
    /// until it is needed.
    deltas: Vec<Option<Vec<u8>>>,
    encoded: Vec<(Format, Encoded)>,
    /// Room for wire forms.
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

    /// What [`Load::encoded`] found.
    pub(crate) fn form(&self, at: Option<usize>) -> Option<&Encoded> {
        self.encoded.get(at?).map(|(_, encoded)| encoded)
    }

    /// Whether there is data, after which a member has a base.
    pub(crate) fn has_data(&self) -> bool {
        let mut all = self.publications.iter();
        all.any(|publication| publication.told == PublicationKind::Data)
    }

    /// Publications in a form that says differences. Who has no base gets the first one whole.
    fn encode_deltas(&mut self, format: Format, encoded: &mut Encoded, sink: &mut impl Sink) {
        encoded.has_gaps = false;
        if self.deltas.is_empty() {
            self.deltas = deltas(self.base.as_ref(), &self.publications);
        }
        let mut base = self.base.as_ref().filter(|_| format.has_base());
        for (publication, delta) in self.publications.iter().zip(&self.deltas) {
            if publication.told != PublicationKind::Data {
                if format.has_news() {
                    let write = |out: &mut Vec<u8>| sink.encode(format, publication, out);
                    encoded.frames.push(write);
                }
                continue;
            }
            let patch = base.zip(delta.as_deref()).map(|(base, delta)| {
                let base = &base.payload;
                Patch { base, delta }
            });
            let write = |out: &mut Vec<u8>| sink.encode_delta(format, publication, patch, out);
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

/// Publications in one wire form, each once. Of comings and goings there is nothing for who does
/// not hear of them; in a form whose sessions compare frames with publications, an empty frame.
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
            .push(|out| sink.encode(format, publication, out));
        encoded.has_gaps |= encoded.frames.bytes().len() == before;
    }
}
