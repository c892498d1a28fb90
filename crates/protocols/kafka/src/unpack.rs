//! Packed records, unpacked as they are read.

use std::io::{Cursor, Error, Read, Result};

use bytes::Bytes;

/// The most that one block of Snappy may unpack to, in bytes. Java's blocks have 32 KiB; other
/// clients pack a batch as one.
const SNAPPY_MAX: usize = 32 << 20;
/// Magic bytes at the start of Java's Snappy streams, and the length of the whole head: the magic
/// and two version numbers.
const SNAPPY_JAVA: &[u8] = b"\x82SNAPPY\0";
const SNAPPY_JAVA_HEAD: u64 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

impl Packing {
    pub(crate) const fn of(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::None,
            1 => Self::Gzip,
            2 => Self::Snappy,
            3 => Self::Lz4,
            4 => Self::Zstd,
            _ => return None,
        })
    }

    /// Unpacks as much as is read.
    pub(crate) fn unpack(self, bytes: Bytes) -> Result<Box<dyn Read + Send>> {
        let bytes = Cursor::new(bytes);
        Ok(match self {
            Self::None => Box::new(bytes),
            Self::Gzip => Box::new(flate2::bufread::GzDecoder::new(bytes)),
            Self::Snappy => Box::new(Snappy::new(bytes)),
            Self::Lz4 => Box::new(lz4_flex::frame::FrameDecoder::new(bytes)),
            Self::Zstd => {
                let decoder = ruzstd::decoding::StreamingDecoder::new(bytes);
                Box::new(decoder.map_err(Error::other)?)
            }
        })
    }
}

/// One block, or Java's stream of blocks with their lengths.
struct Snappy {
    bytes: Cursor<Bytes>,
    is_java: bool,
    block: Cursor<Vec<u8>>,
}

impl Snappy {
    fn new(mut bytes: Cursor<Bytes>) -> Self {
        let is_java = bytes.get_ref().as_ref().starts_with(SNAPPY_JAVA);
        if is_java {
            bytes.set_position(SNAPPY_JAVA_HEAD);
        }
        Self {
            bytes,
            is_java,
            block: Cursor::default(),
        }
    }

    /// Unpacks the next block; false at the end.
    fn next(&mut self) -> Result<bool> {
        let all = self.bytes.get_ref().as_ref();
        let at = usize::try_from(self.bytes.position()).unwrap_or(usize::MAX);
        let rest = all.get(at..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(false);
        }
        let short = || Error::other("a block of Snappy is cut off");
        let packed = match self.is_java {
            false => rest,
            true => {
                let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
                let length = u32::from_be_bytes(*length) as usize;
                rest.get(..length).ok_or_else(short)?
            }
        };
        let length = snap::raw::decompress_len(packed).map_err(Error::other)?;
        if length > SNAPPY_MAX {
            return Err(Error::other("a block of Snappy is too long"));
        }
        let block = snap::raw::Decoder::new().decompress_vec(packed);
        let head = if self.is_java { 4 } else { 0 };
        self.bytes.set_position((at + head + packed.len()) as u64);
        self.block = Cursor::new(block.map_err(Error::other)?);
        Ok(true)
    }
}

impl Read for Snappy {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        loop {
            let count = self.block.read(into)?;
            if count > 0 || into.is_empty() || !self.next()? {
                return Ok(count);
            }
        }
    }
}
