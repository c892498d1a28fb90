//! Blocks of fields in (RFC 7541 sections 3, 4 and 6).

use std::collections::VecDeque;

use throng_types::Save;

use super::{fixed, huffman};

/// Says that bytes are no block of fields: the connection ends with COMPRESSION_ERROR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotHpack;

/// Bytes of the dynamic table before the peer has heard that we want none (RFC 9113 section 6.5.2).
const TABLE_BYTES: usize = 4096;

/// Bytes of an entry beside its name and value, by the RFC's count (section 4.1). Our own bound on
/// the bytes of a head counts them, too.
pub(crate) const ENTRY_BYTES: usize = 32;

/// Reads the blocks of one connection, in their order.
///
/// Our SETTINGS ask for no table, and a peer that had one says in its next block that it is gone
/// (RFC 7541 section 4.2). One that goes on with a table, as h2spec does, may: it costs us
/// [`TABLE_BYTES`], and refusing it would serve nobody.
#[derive(Debug, Save)]
#[save(check = Self::is_sound)]
pub(crate) struct Decoder {
    /// None if no field is in it.
    table: Option<Box<Table>>,
    /// As the peer has set it: at most [`TABLE_BYTES`].
    bytes_max: u16,
}

/// Fields that the peer may name by number.
#[derive(Debug, Default, Save)]
struct Table {
    /// Newest first. Bound: [`TABLE_BYTES`], by the RFC's count.
    entries: VecDeque<Entry>,
    bytes: usize,
}

#[derive(Debug, Save)]
#[save(check = Self::is_sound)]
struct Entry {
    text: Box<[u8]>,
    name_bytes: u16,
}

impl Entry {
    fn is_sound(&self) -> bool {
        usize::from(self.name_bytes) <= self.text.len()
    }

    fn parts(&self) -> (&[u8], &[u8]) {
        self.text.split_at(usize::from(self.name_bytes))
    }

    fn bytes(&self) -> usize {
        self.text.len() + ENTRY_BYTES
    }
}

impl Table {
    fn shrink(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max {
            let oldest = self.entries.pop_back();
            self.bytes -= oldest.map_or(self.bytes, |entry| entry.bytes());
        }
    }
}

impl Decoder {
    pub(crate) const fn new() -> Self {
        Self {
            table: None,
            bytes_max: TABLE_BYTES as u16,
        }
    }

    fn is_sound(&self) -> bool {
        let bytes_max = usize::from(self.bytes_max);
        bytes_max <= TABLE_BYTES
            && self.table.as_ref().is_none_or(|table| {
                let bytes: usize = table.entries.iter().map(Entry::bytes).sum();
                bytes == table.bytes && bytes <= bytes_max
            })
    }

    /// Memory on the heap, about.
    pub(crate) fn held_bytes(&self) -> usize {
        let table = self.table.as_ref();
        table.map_or(0, |table| {
            let entries = table.entries.capacity() * size_of::<Entry>();
            size_of::<Table>() + table.bytes + entries
        })
    }

    /// Reads a whole block and reports each field. `text` is where texts in Huffman's code are
    /// decoded.
    ///
    /// Work and memory follow the bytes of the block, but for fields that are named by number: the
    /// sink bounds what it keeps of them.
    pub(crate) fn decode(
        &mut self,
        block: &[u8],
        text: &mut Vec<u8>,
        mut sink: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), NotHpack> {
        let mut rest = block;
        let mut fields = 0;
        while let Some(&first) = rest.first() {
            if first & 0xe0 == 0x20 {
                let bytes_max = number(&mut rest, 5)?;
                if fields > 0 {
                    return Err(NotHpack);
                }
                self.resize(bytes_max)?;
                continue;
            }
            fields += 1;
            if first & 0x80 != 0 {
                let (name, value) = self.named(number(&mut rest, 7)?)?;
                sink(name, value);
                continue;
            }
            let enters = first & 0x40 != 0;
            let index = number(&mut rest, if enters { 6 } else { 4 })?;
            text.clear();
            if index == 0 {
                string(&mut rest, text)?;
            } else {
                text.extend_from_slice(self.named(index)?.0);
            }
            let name_bytes = text.len();
            string(&mut rest, text)?;
            let (name, value) = text.split_at(name_bytes);
            sink(name, value);
            if enters {
                self.insert(name, value);
            }
        }
        Ok(())
    }

    fn resize(&mut self, bytes_max: usize) -> Result<(), NotHpack> {
        if bytes_max > TABLE_BYTES {
            return Err(NotHpack);
        }
        self.bytes_max = bytes_max as u16;
        self.shrink(bytes_max);
        Ok(())
    }

    /// Forgets the oldest fields until the others have so many bytes.
    fn shrink(&mut self, bytes_max: usize) {
        if let Some(table) = &mut self.table {
            table.shrink(bytes_max);
            if table.entries.is_empty() {
                self.table = None;
            }
        }
    }

    fn insert(&mut self, name: &[u8], value: &[u8]) {
        let bytes = name.len() + value.len() + ENTRY_BYTES;
        let bytes_max = usize::from(self.bytes_max);
        self.shrink(bytes_max.saturating_sub(bytes));
        // A field that is larger than the table empties it and stays out (section 4.4).
        if bytes <= bytes_max {
            let table = self.table.get_or_insert_default();
            table.bytes += bytes;
            table.entries.push_front(Entry {
                text: [name, value].concat().into(),
                name_bytes: name.len() as u16,
            });
        }
    }

    /// Finds a field by its number: those of the static table count from 1, then the newest of the
    /// dynamic one.
    fn named(&self, index: usize) -> Result<(&[u8], &[u8]), NotHpack> {
        let index = index.checked_sub(1).ok_or(NotHpack)?;
        if let Some((name, value)) = fixed::FIELDS.get(index) {
            return Ok((name.as_bytes(), value.as_bytes()));
        }
        let table = self.table.as_ref().ok_or(NotHpack)?;
        let entry = table.entries.get(index - fixed::FIELDS.len());
        entry.map(Entry::parts).ok_or(NotHpack)
    }
}

/// The largest number that is read: more than any index or length can be.
const NUMBER_BITS: u32 = 28;

/// Reads a number that begins in the low bits of a byte (section 5.1).
fn number(rest: &mut &[u8], bits: u32) -> Result<usize, NotHpack> {
    let (&first, mut bytes) = rest.split_first().ok_or(NotHpack)?;
    let mask = 0xff_u8 >> (8 - bits);
    let mut value = usize::from(first & mask);
    if first & mask == mask {
        let mut shift = 0;
        loop {
            let (&byte, behind) = bytes.split_first().ok_or(NotHpack)?;
            bytes = behind;
            if shift >= NUMBER_BITS {
                return Err(NotHpack);
            }
            value += usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
    }
    *rest = bytes;
    Ok(value)
}

/// Appends a text, decoded (section 5.2).
fn string(rest: &mut &[u8], out: &mut Vec<u8>) -> Result<(), NotHpack> {
    let is_huffman = rest.first().is_some_and(|first| first & 0x80 != 0);
    let length = number(rest, 7)?;
    let (text, behind) = rest.split_at_checked(length).ok_or(NotHpack)?;
    *rest = behind;
    if is_huffman {
        return huffman::decode(text, out).ok_or(NotHpack);
    }
    out.extend_from_slice(text);
    Ok(())
}
