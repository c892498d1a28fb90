//! The records of a batch, one after the other.

use std::io::{self, ErrorKind, Read};

use crate::batch::RecordBatch;
use crate::wire::Reader;

/// The longest number, in bytes.
const NUMBER_MAX: usize = 10;

/// Why the rest of a batch cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordFault {
    /// The records cannot be decompressed.
    Packing(String),
    /// A record is not what it should be.
    Malformed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub name: String,
    pub value: Option<Vec<u8>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    pub offset: i64,
    pub key: Option<Vec<u8>>,
    /// Value; a mark that the key is deleted has none.
    pub value: Option<Vec<u8>>,
    /// Headers, in order; a name may occur twice.
    pub headers: Vec<Header>,
    /// Set if the record is longer than the bound: only its offset was read.
    pub is_too_long: bool,
}

/// The records of a batch that are still to come.
pub struct Records {
    bytes: Box<dyn Read + Send>,
    base_offset: i64,
    left: u32,
    record_bytes_max: usize,
}

impl Records {
    /// Begins with the first. Of records that are longer than so many bytes the offset alone is
    /// read.
    ///
    /// # Errors
    /// If the batch cannot be unpacked.
    pub fn new(batch: RecordBatch, record_bytes_max: usize) -> Result<Self, RecordFault> {
        let bytes: Box<dyn Read + Send> = match batch.count {
            0 => Box::new(io::empty()),
            _ => batch.packing.unpack(batch.bytes)?,
        };
        Ok(Self {
            bytes,
            base_offset: batch.base_offset,
            left: batch.count,
            record_bytes_max,
        })
    }

    /// The next record.
    ///
    /// # Errors
    /// [`RecordFault`]; none that follows can be read.
    pub fn next_record(&mut self) -> Result<Option<Record>, RecordFault> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        // Kafka's lengths have 31 bits.
        let length = u32::try_from(self.number()?)
            .ok()
            .filter(|it| it >> 31 == 0);
        let length = length.ok_or(RecordFault::Malformed)? as usize;
        let is_too_long = length > self.record_bytes_max;
        // Of a long one the bytes that its offset is in.
        let count = if is_too_long { 3 * NUMBER_MAX } else { length };
        let count = count.min(length);
        let mut bytes = Vec::new();
        let mut part = self.bytes.by_ref().take(count as u64);
        if part.read_to_end(&mut bytes)? < count {
            return Err(RecordFault::Malformed);
        }
        let rest = (length - count) as u64;
        if io::copy(&mut self.bytes.by_ref().take(rest), &mut io::sink())? < rest {
            return Err(RecordFault::Malformed);
        }
        let record = record(&mut Reader(&bytes), self.base_offset, is_too_long);
        record.map(Some).ok_or(RecordFault::Malformed)
    }

    fn number(&mut self) -> Result<i64, RecordFault> {
        let mut bytes = [0; NUMBER_MAX];
        for count in 0..NUMBER_MAX {
            self.bytes.read_exact(&mut bytes[count..=count])?;
            if bytes[count] & 0x80 == 0 {
                let number = number(&mut Reader(&bytes[..=count]));
                return number.ok_or(RecordFault::Malformed);
            }
        }
        Err(RecordFault::Malformed)
    }
}

impl From<io::Error> for RecordFault {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::UnexpectedEof => Self::Malformed,
            _ => Self::Packing(error.to_string()),
        }
    }
}

fn record(body: &mut Reader<'_>, base_offset: i64, is_too_long: bool) -> Option<Record> {
    let _attributes = body.i8()?;
    let _time = number(body)?;
    let offset = base_offset.checked_add(number(body)?)?;
    if is_too_long {
        return Some(Record {
            offset,
            is_too_long,
            ..Record::default()
        });
    }
    let key = bytes(body)?;
    let value = bytes(body)?;
    let mut headers = Vec::new();
    for _ in 0..number(body)? {
        let name = bytes(body)??;
        headers.push(Header {
            name: String::from_utf8_lossy(&name).into_owned(),
            value: bytes(body)?,
        });
    }
    Some(Record {
        offset,
        key,
        value,
        headers,
        is_too_long,
    })
}

/// Seven bits a byte, the lowest first; the sign is the lowest bit.
fn number(body: &mut Reader<'_>) -> Option<i64> {
    let mut value = 0u64;
    for shift in (0..NUMBER_MAX as u32).map(|n| 7 * n) {
        let byte = body.i8()?.cast_unsigned();
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed());
        }
    }
    None
}

fn bytes(body: &mut Reader<'_>) -> Option<Option<Vec<u8>>> {
    match number(body)? {
        -1 => Some(None),
        length => {
            let bytes = body.take(usize::try_from(length).ok()?)?;
            Some(Some(bytes.to_vec()))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::batch::batches;
    use crate::batch::tests::made;

    fn put(number: i64, out: &mut Vec<u8>) {
        let mut value = ((number << 1) ^ (number >> 63)).cast_unsigned();
        while value > 0x7f {
            out.push(value as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
    }

    fn put_bytes(bytes: Option<&[u8]>, out: &mut Vec<u8>) {
        put(bytes.map_or(-1, |bytes| bytes.len() as i64), out);
        out.extend(bytes.unwrap_or_default());
    }

    /// Two records: one with all, one with nothing.
    fn packed() -> Vec<u8> {
        let mut all = Vec::new();
        for (delta, text) in [(0, Some(&b"text"[..])), (300, None)] {
            let mut one = vec![0];
            put(-5, &mut one);
            put(delta, &mut one);
            put_bytes(text, &mut one);
            put_bytes(text, &mut one);
            put(i64::from(text.is_some()), &mut one);
            if text.is_some() {
                put_bytes(Some(b"h"), &mut one);
                put_bytes(None, &mut one);
            }
            put_bytes(Some(&one), &mut all);
        }
        all
    }

    fn read(attributes: i16, bytes: &[u8], max: usize) -> Result<Vec<Record>, RecordFault> {
        let batch = made(1000, 2, attributes, bytes);
        let batch = batches(&batch.into(), &[]).unwrap().remove(0);
        let mut records = Records::new(batch, max)?;
        let mut found = Vec::new();
        while let Some(record) = records.next_record()? {
            found.push(record);
        }
        Ok(found)
    }

    fn expected() -> [Record; 2] {
        let first = Record {
            offset: 1000,
            key: Some(b"text".to_vec()),
            value: Some(b"text".to_vec()),
            headers: vec![Header {
                name: "h".to_owned(),
                value: None,
            }],
            is_too_long: false,
        };
        let second = Record {
            offset: 1300,
            ..Record::default()
        };
        [first, second]
    }

    #[test]
    fn records_are_read_however_they_are_packed() {
        let plain = packed();
        let level = flate2::Compression::fast();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), level);
        gzip.write_all(&plain).unwrap();
        let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
        lz4.write_all(&plain).unwrap();
        let snappy = snap::raw::Encoder::new().compress_vec(&plain).unwrap();
        let mut java = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec();
        for part in plain.chunks(7) {
            let block = snap::raw::Encoder::new().compress_vec(part).unwrap();
            java.extend((block.len() as u32).to_be_bytes());
            java.extend(block);
        }
        let zstd = ruzstd::encoding::compress_to_vec(
            plain.as_slice(),
            ruzstd::encoding::CompressionLevel::Fastest,
        );
        for (attributes, bytes) in [
            (0, plain),
            (1, gzip.finish().unwrap()),
            (2, snappy),
            (2, java),
            (3, lz4.finish().unwrap()),
            (4, zstd),
        ] {
            let found = read(attributes, &bytes, 1000);
            assert_eq!(found.as_deref(), Ok(&expected()[..]), "{attributes}");
            for end in 0..bytes.len() {
                let found = read(attributes, &bytes[..end], 1000);
                // What checks a stream's end may be missing.
                let is_whole = found.as_deref() == Ok(&expected()[..]);
                assert!(is_whole || found.is_err(), "{attributes} until {end}");
            }
        }
    }

    #[test]
    fn of_a_long_record_the_offset_is_read() {
        let mut bytes = vec![0];
        put(0, &mut bytes);
        put(1, &mut bytes);
        put_bytes(None, &mut bytes);
        put_bytes(Some(&[b'x'; 500]), &mut bytes);
        put(0, &mut bytes);
        let mut all = Vec::new();
        put_bytes(Some(&bytes), &mut all);
        put_bytes(Some(&bytes), &mut all);
        let found = read(0, &all, 499).unwrap();
        let long = Record {
            offset: 1001,
            is_too_long: true,
            ..Record::default()
        };
        assert_eq!(found, [long.clone(), long]);
        let whole = read(0, &all, 520).unwrap();
        assert_eq!(whole[0].value.as_deref(), Some(&[b'x'; 500][..]));
    }

    #[test]
    fn what_makes_no_sense_is_a_fault() {
        for bytes in [
            &b""[..],
            b"\x01",
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\xfe\xff\xff\xff\x0f",
            b"\x02\0",
            b"\x0a\0\0\0\x7f\0",
        ] {
            assert!(read(0, bytes, 1000).is_err(), "{bytes:?}");
        }
        for packing in 1..=4 {
            assert!(read(packing, b"nothing packed", 1000).is_err(), "{packing}");
        }
    }
}
