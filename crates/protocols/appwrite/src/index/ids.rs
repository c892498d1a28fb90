//! The ids of a connection's subscriptions, packed.
//!
//! Ids that servers and SDKs make are 20 hexadecimal digits and take ten bytes; any other text
//! takes its length and one more. One id of the usual form needs no memory of its own.

use throng_types::json::append_str;

/// The longest id; the length 255 marks packed digits.
pub(super) const ID_BYTES_MAX: usize = 254;

const PACKED: u8 = 255;
const PACKED_BYTES: usize = 10;

/// Ids in the order of their ordinals.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Ids {
    #[default]
    None,
    One([u8; PACKED_BYTES]),
    /// A number of ids, then each with a length or [`PACKED`] in front.
    Many(Box<[u8]>),
}

impl Ids {
    /// Packs ids of at most [`ID_BYTES_MAX`] bytes, of which 16 bits can count.
    pub(super) fn from_names(names: &[String]) -> Self {
        if let [one] = names
            && let Some(packed) = pack(one)
        {
            return Self::One(packed);
        }
        if names.is_empty() {
            return Self::None;
        }
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&(names.len() as u16).to_le_bytes());
        for name in names {
            match pack(name) {
                Some(packed) => {
                    bytes.push(PACKED);
                    bytes.extend_from_slice(&packed);
                }
                None => {
                    let name = &name.as_bytes()[..name.len().min(ID_BYTES_MAX)];
                    bytes.push(name.len() as u8);
                    bytes.extend_from_slice(name);
                }
            }
        }
        Self::Many(bytes.into())
    }

    pub(super) fn to_names(&self) -> Vec<String> {
        self.iter().map(|id| id.to_name()).collect()
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::One(_) => 1,
            Self::Many(bytes) => match bytes.first_chunk() {
                Some(count) => usize::from(u16::from_le_bytes(*count)),
                None => 0,
            },
        }
    }

    /// Appends the ids with these ordinals, which rise, as JSON strings with commas between.
    pub(super) fn write(&self, ordinals: &[u16], out: &mut Vec<u8>) {
        let mut wanted = ordinals.iter().copied().peekable();
        let mut first = true;
        for (ordinal, id) in self.iter().enumerate() {
            let Some(&next) = wanted.peek() else { return };
            if usize::from(next) != ordinal {
                continue;
            }
            wanted.next();
            if !std::mem::take(&mut first) {
                out.push(b',');
            }
            id.write(out);
        }
    }

    fn iter(&self) -> Iter<'_> {
        match self {
            Self::None => Iter(&[], None),
            Self::One(packed) => Iter(&[], Some(Id::Packed(packed))),
            Self::Many(bytes) => Iter(bytes.get(2..).unwrap_or_default(), None),
        }
    }
}

/// One id, still packed if it was.
enum Id<'i> {
    Packed(&'i [u8; PACKED_BYTES]),
    Text(&'i str),
}

impl Id<'_> {
    fn to_name(&self) -> String {
        let mut name = Vec::new();
        match self {
            Self::Packed(packed) => unpack(packed, &mut name),
            Self::Text(text) => name.extend_from_slice(text.as_bytes()),
        }
        String::from_utf8(name).unwrap_or_default()
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Packed(packed) => {
                out.push(b'"');
                unpack(packed, out);
                out.push(b'"');
            }
            Self::Text(text) => append_str(text, out),
        }
    }
}

struct Iter<'i>(&'i [u8], Option<Id<'i>>);

impl<'i> Iterator for Iter<'i> {
    type Item = Id<'i>;

    fn next(&mut self) -> Option<Id<'i>> {
        if let Some(only) = self.1.take() {
            return Some(only);
        }
        let (&tag, rest) = self.0.split_first()?;
        if tag == PACKED {
            let (packed, rest) = rest.split_first_chunk()?;
            self.0 = rest;
            return Some(Id::Packed(packed));
        }
        let (text, rest) = rest.split_at_checked(usize::from(tag))?;
        self.0 = rest;
        Some(Id::Text(std::str::from_utf8(text).unwrap_or_default()))
    }
}

fn pack(name: &str) -> Option<[u8; PACKED_BYTES]> {
    let digits: &[u8; 2 * PACKED_BYTES] = name.as_bytes().try_into().ok()?;
    let mut packed = [0; PACKED_BYTES];
    for (byte, pair) in packed.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(packed)
}

/// Lower case only, so that unpacking gives back what was packed.
fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

fn unpack(packed: &[u8; PACKED_BYTES], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in packed {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_usual_id_needs_no_memory() {
        let ids = Ids::from_names(&["6511f2a30b1c2abcdef0".to_owned()]);
        assert_eq!((ids.len(), ids.heap_bytes()), (1, 0));
        let upper = Ids::from_names(&["6511F2A30B1C2ABCDEF0".to_owned()]);
        assert_eq!(upper.to_names(), ["6511F2A30B1C2ABCDEF0"]);
    }

    proptest! {
        #[test]
        fn ids_survive_packing(
            names in proptest::collection::vec(
                prop_oneof!["[0-9a-f]{20}", "[a-zé\"]{0,30}"],
                0..12,
            ),
            picks in proptest::collection::btree_set(0..12_u16, 0..6),
        ) {
            let ids = Ids::from_names(&names);
            prop_assert_eq!(&ids.to_names(), &names);
            prop_assert_eq!(ids.len(), names.len());
            let picks = picks.into_iter().filter(|p| usize::from(*p) < names.len());
            let picks: Vec<u16> = picks.collect();
            let mut out = b"[".to_vec();
            ids.write(&picks, &mut out);
            out.push(b']');
            let expect: Vec<&String> = picks.iter().map(|p| &names[usize::from(*p)]).collect();
            let written: Vec<String> = serde_json::from_slice(&out).unwrap();
            prop_assert_eq!(written.iter().collect::<Vec<_>>(), expect);
        }
    }
}
