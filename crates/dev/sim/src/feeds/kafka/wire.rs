//! Kafka's protocol from a broker's side: requests of our versions, and batches of records.
//!
//! Requests come from our own code: one that makes no sense ends the run.

use crc::{CRC_32_ISCSI, Crc};

/// The one topic that there is.
pub(super) const TOPIC: &str = "t";
static SUM: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);

pub(super) struct Request {
    pub(super) key: i16,
    pub(super) correlation: i32,
    pub(super) body: Vec<u8>,
}

/// Takes a whole request from the front of the input.
pub(super) fn take_request(input: &mut Vec<u8>) -> Option<Request> {
    let length = input.first_chunk::<4>()?;
    let end = 4 + u32::from_be_bytes(*length) as usize;
    let frame: Vec<u8> = input.get(4..end)?.to_vec();
    input.drain(..end);
    let mut frame = Reader(&frame);
    let (key, _version, correlation) = (frame.i16(), frame.i16(), frame.i32());
    let _client = frame.text();
    let body = frame.0.to_vec();
    Some(Request {
        key,
        correlation,
        body,
    })
}

/// Puts an answer into a frame.
pub(super) fn framed(correlation: i32, body: &Out) -> Vec<u8> {
    let mut out = Out::default();
    out.i32(body.0.len() as i32 + 4);
    out.i32(correlation);
    out.0.extend(&body.0);
    out.0
}

pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (head, rest) = self.0.split_first_chunk().expect("a number");
        self.0 = rest;
        *head
    }

    fn many(&mut self, length: usize) -> Vec<u8> {
        let (head, rest) = self.0.split_at(length);
        self.0 = rest;
        head.to_vec()
    }

    /// A text; none is empty.
    pub(super) fn text(&mut self) -> String {
        let length = usize::try_from(self.i16()).unwrap_or_default();
        String::from_utf8(self.many(length)).expect("text")
    }

    pub(super) fn bytes(&mut self) -> Vec<u8> {
        let length = usize::try_from(self.i32()).unwrap_or_default();
        self.many(length)
    }

    pub(super) fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.i32()).map(|_| item(self)).collect()
    }

    /// Items of partitions of the one topic that there is.
    pub(super) fn partitions<T>(&mut self, mut item: impl FnMut(&mut Self) -> T) -> Vec<(i32, T)> {
        let topics = self.list(|it| {
            assert_eq!(it.text(), TOPIC);
            it.list(|it| (it.i32(), item(it)))
        });
        topics.into_iter().flatten().collect()
    }
}

#[derive(Default)]
pub(super) struct Out(pub(super) Vec<u8>);

/// Reads and writes numbers of each size.
macro_rules! numbers {
    ($($size:ident)+) => {
        impl Reader<'_> {
            $(pub(super) fn $size(&mut self) -> $size {
                $size::from_be_bytes(self.take())
            })+
        }

        impl Out {
            $(pub(super) fn $size(&mut self, number: $size) {
                self.0.extend(number.to_be_bytes());
            })+
        }
    };
}

numbers! { i8 i16 i32 i64 }

impl Out {
    /// Begins as most answers do, with the time for which a client is held back.
    pub(super) fn begun() -> Self {
        Self(vec![0; 4])
    }

    pub(super) fn text(&mut self, text: &str) {
        self.i16(text.len() as i16);
        self.0.extend(text.as_bytes());
    }

    pub(super) fn no_text(&mut self) {
        self.i16(-1);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.i32(bytes.len() as i32);
        self.0.extend(bytes);
    }

    pub(super) fn list<T>(&mut self, items: &[T], mut item: impl FnMut(&mut Self, &T)) {
        self.i32(items.len() as i32);
        items.iter().for_each(|it| item(self, it));
    }

    /// Items of partitions of the one topic that there is.
    pub(super) fn partitions<T>(
        &mut self,
        items: &[(i32, T)],
        mut item: impl FnMut(&mut Self, &T),
    ) {
        self.list(&[()], |out, ()| {
            out.text(TOPIC);
            out.list(items, |out, (partition, it)| {
                out.i32(*partition);
                item(out, it);
            });
        });
    }
}

/// A record: its offset, key, value, and header with the channel.
pub(super) struct Record {
    pub(super) offset: i64,
    pub(super) value: Option<Vec<u8>>,
    pub(super) channel: String,
}

/// Number of variable length.
fn number(number: i64, out: &mut Vec<u8>) {
    let mut left = ((number << 1) ^ (number >> 63)).cast_unsigned();
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

fn text(bytes: Option<&[u8]>, out: &mut Vec<u8>) {
    number(bytes.map_or(-1, |bytes| bytes.len() as i64), out);
    out.extend(bytes.unwrap_or_default());
}

/// A batch of records, from its first offset to its last, which need not have one.
pub(super) fn batch((first, last): (i64, i64), time_ms: i64, records: &[Record]) -> Vec<u8> {
    let mut rest = Out::default();
    let attributes = 0;
    rest.i16(attributes);
    rest.i32((last - first) as i32);
    rest.i64(time_ms);
    rest.i64(time_ms);
    let (no_producer, no_epoch, no_sequence) = (-1, -1, -1);
    rest.i64(no_producer);
    rest.i16(no_epoch);
    rest.i32(no_sequence);
    rest.i32(records.len() as i32);
    for record in records {
        let mut body = vec![0];
        number(0, &mut body);
        number(record.offset - first, &mut body);
        text(Some(b"key"), &mut body);
        text(record.value.as_deref(), &mut body);
        number(1, &mut body);
        text(Some(b"channel"), &mut body);
        text(Some(record.channel.as_bytes()), &mut body);
        number(body.len() as i64, &mut rest.0);
        rest.0.extend(body);
    }
    let mut out = Out::default();
    out.i64(first);
    out.i32(rest.0.len() as i32 + 9);
    let epoch = 0;
    out.i32(epoch);
    out.i8(2);
    out.i32(SUM.checksum(&rest.0).cast_signed());
    out.0.extend(rest.0);
    out.0
}
