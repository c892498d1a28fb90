//! State as bytes: how one process tells another what it holds, when it hands over.
//!
//! Owns the codec: numbers as they are (little-endian), everything of variable length behind its
//! length. Each room saves and loads its own types. Never: versions; whoever frames the bytes says
//! which version they are of, and a reader of another one does not look at them.
//!
//! Invariants
//! - `load` of what `save` wrote gives an equal value and takes exactly those bytes.
//! - No bytes make `load` panic, or reserve more than they have: a length that is not covered by
//!   what is left is refused.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use crate::{
    ChannelName, ConnId, Epoch, Millis, Payload, PayloadKind, Position, Publication,
    PublicationKind, Publisher,
};

/// A value that can be handed over.
pub trait Save: Sized {
    /// Appends the value's bytes.
    fn save(&self, out: &mut Vec<u8>);

    /// Reads it back; `None` if the bytes are none of [`Save::save`].
    fn load(from: &mut Saved<'_>) -> Option<Self>;

    /// Reads a value that takes all of the bytes.
    fn load_whole(bytes: &[u8]) -> Option<Self> {
        let mut from = Saved::new(bytes);
        let value = Self::load(&mut from)?;
        from.is_empty().then_some(value)
    }

    /// Bytes of this value alone.
    fn saved(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.save(&mut out);
        out
    }
}

/// Bytes that something was saved in, and how far they were read.
pub struct Saved<'a>(&'a [u8]);

impl<'a> Saved<'a> {
    /// Reader of bytes from their beginning.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Tells whether everything was read.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next so many bytes.
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// Reads the number of values that follow. Each takes a byte at least, so there are no more
    /// than bytes.
    pub fn count(&mut self) -> Option<usize> {
        let count = u32::load(self)? as usize;
        (count <= self.0.len()).then_some(count)
    }

    /// Bytes behind their length, as [`save_bytes`] wrote them.
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = self.count()?;
        self.take(count)
    }
}

/// Items of several kinds, in pieces of bounded size.
pub struct Parts<'a> {
    piece: Vec<u8>,
    send: &'a mut dyn FnMut(&[u8]),
}

impl<'a> Parts<'a> {
    /// A piece is sent when it has so many bytes; a single item may have more.
    const PIECE_BYTES: usize = 256 << 10;

    /// Pieces go to `send`.
    pub fn new(send: &'a mut dyn FnMut(&[u8])) -> Self {
        Self {
            piece: Vec::new(),
            send,
        }
    }

    /// Appends an item behind the number of its kind.
    pub fn item(&mut self, kind: u8, item: &impl Save) {
        self.piece.push(kind);
        item.save(&mut self.piece);
        if self.piece.len() >= Self::PIECE_BYTES {
            self.end();
        }
    }

    /// Sends what is left.
    pub fn end(&mut self) {
        if !self.piece.is_empty() {
            (self.send)(&self.piece);
            self.piece.clear();
        }
    }
}

/// Appends bytes behind their length.
///
/// # Panics
/// From 4 GiB on, which no queue or message of ours may have.
pub fn save_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    save_count(bytes.len(), out);
    out.extend_from_slice(bytes);
}

/// Appends how many values follow.
///
/// # Panics
/// As [`save_bytes`].
pub fn save_count(count: usize, out: &mut Vec<u8>) {
    u32::try_from(count).expect("below 4 Gi").save(out);
}

/// Appends what an [`Option`] of it would, without one.
pub fn save_option<T: Save>(value: Option<&T>, out: &mut Vec<u8>) {
    value.is_some().save(out);
    if let Some(value) = value {
        value.save(out);
    }
}

/// Saves a struct field by field, in this order, or the one field of a newtype. All fields must be
/// named, so none can be forgotten.
///
/// ```
/// use throng_types::{Save, save_fields};
///
/// #[derive(Debug, PartialEq)]
/// struct Point {
///     x: u32,
///     name: Option<String>,
/// }
/// save_fields!(Point { x, name });
///
/// let point = Point { x: 7, name: Some("here".into()) };
/// assert_eq!(Point::load_whole(&point.saved()), Some(point));
/// ```
#[macro_export]
macro_rules! save_fields {
    ($Type:ident $(<$($Param:ident),+>)? { $($field:ident),* $(,)? }) => {
        impl $(<$($Param: $crate::Save),+>)? $crate::Save for $Type $(<$($Param),+>)? {
            fn save(&self, out: &mut Vec<u8>) {
                let Self { $($field),* } = self;
                $($crate::Save::save($field, out);)*
            }

            fn load(from: &mut $crate::Saved<'_>) -> Option<Self> {
                $(let $field = $crate::Save::load(from)?;)*
                Some(Self { $($field),* })
            }
        }
    };
    ($Type:ident($field:ident)) => {
        impl $crate::Save for $Type {
            fn save(&self, out: &mut Vec<u8>) {
                let Self($field) = self;
                $crate::Save::save($field, out);
            }

            fn load(from: &mut $crate::Saved<'_>) -> Option<Self> {
                $crate::Save::load(from).map(Self)
            }
        }
    };
}

/// Saves an enum as the number of its variant, then the variant's fields in this order:
/// `save_choice!(Shape { 0: Point, 1: Circle(radius), 2: Box { width, height } })`.
#[macro_export]
macro_rules! save_choice {
    ($Type:ident {
        $($number:literal: $Variant:ident $(($($item:ident),+))? $({ $($field:ident),+ })?),+
        $(,)?
    }) => {
        impl $crate::Save for $Type {
            fn save(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$Variant $(($($item),+))? $({ $($field),+ })? => {
                        out.push($number);
                        $($($crate::Save::save($item, out);)+)?
                        $($($crate::Save::save($field, out);)+)?
                    })+
                }
            }

            fn load(from: &mut $crate::Saved<'_>) -> Option<Self> {
                match <u8 as $crate::Save>::load(from)? {
                    $($number => {
                        $($(let $item = $crate::Save::load(from)?;)+)?
                        $($(let $field = $crate::Save::load(from)?;)+)?
                        Some(Self::$Variant $(($($item),+))? $({ $($field),+ })?)
                    })+
                    _ => None,
                }
            }
        }
    };
}

macro_rules! numbers {
    ($($Number:ident),+) => {$(
        impl Save for $Number {
            fn save(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn load(from: &mut Saved<'_>) -> Option<Self> {
                let bytes = from.take(size_of::<Self>())?;
                Some(Self::from_le_bytes(bytes.try_into().ok()?))
            }
        }
    )+};
}
numbers!(u8, u16, u32, u64, i32, i64);

impl Save for usize {
    fn save(&self, out: &mut Vec<u8>) {
        (*self as u64).save(out);
    }

    fn load(from: &mut Saved<'_>) -> Option<Self> {
        Self::try_from(u64::load(from)?).ok()
    }
}

impl Save for bool {
    fn save(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn load(from: &mut Saved<'_>) -> Option<Self> {
        match u8::load(from)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl<const N: usize> Save for [u8; N] {
    fn save(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn load(from: &mut Saved<'_>) -> Option<Self> {
        from.take(N)?.try_into().ok()
    }
}

macro_rules! texts {
    ($($Text:ty),+) => {$(
        impl Save for $Text {
            fn save(&self, out: &mut Vec<u8>) {
                save_bytes(self.as_bytes(), out);
            }

            fn load(from: &mut Saved<'_>) -> Option<Self> {
                Some(std::str::from_utf8(from.bytes()?).ok()?.into())
            }
        }
    )+};
}
texts!(String, Box<str>, Arc<str>);

impl Save for Arc<[u8]> {
    fn save(&self, out: &mut Vec<u8>) {
        save_bytes(self, out);
    }

    fn load(from: &mut Saved<'_>) -> Option<Self> {
        Some(from.bytes()?.into())
    }
}

impl<T: Save> Save for Option<T> {
    fn save(&self, out: &mut Vec<u8>) {
        save_option(self.as_ref(), out);
    }

    fn load(from: &mut Saved<'_>) -> Option<Self> {
        match bool::load(from)? {
            true => T::load(from).map(Some),
            false => Some(None),
        }
    }
}

macro_rules! boxes {
    ($($Box:ident),+) => {$(
        impl<T: Save> Save for $Box<T> {
            fn save(&self, out: &mut Vec<u8>) {
                T::save(self, out);
            }

            fn load(from: &mut Saved<'_>) -> Option<Self> {
                T::load(from).map(Self::new)
            }
        }
    )+};
}
boxes!(Box, Arc);

macro_rules! lists {
    ($($List:ident . $push:ident),+) => {$(
        impl<T: Save> Save for $List<T> {
            fn save(&self, out: &mut Vec<u8>) {
                save_count(self.len(), out);
                for value in self {
                    value.save(out);
                }
            }

            fn load(from: &mut Saved<'_>) -> Option<Self> {
                let mut values = $List::new();
                for _ in 0..from.count()? {
                    values.$push(T::load(from)?);
                }
                Some(values)
            }
        }
    )+};
}
lists!(Vec.push, VecDeque.push_back);

impl<A: Save, B: Save> Save for (A, B) {
    fn save(&self, out: &mut Vec<u8>) {
        self.0.save(out);
        self.1.save(out);
    }

    fn load(from: &mut Saved<'_>) -> Option<Self> {
        Some((A::load(from)?, B::load(from)?))
    }
}

/// Nothing takes no bytes.
impl Save for () {
    fn save(&self, _: &mut Vec<u8>) {}

    fn load(_: &mut Saved<'_>) -> Option<Self> {
        Some(())
    }
}

impl Save for IpAddr {
    fn save(&self, out: &mut Vec<u8>) {
        match self {
            Self::V4(address) => (4_u8, address.octets()).save(out),
            Self::V6(address) => (6_u8, address.octets()).save(out),
        }
    }

    fn load(from: &mut Saved<'_>) -> Option<Self> {
        match u8::load(from)? {
            4 => Some(Self::V4(Ipv4Addr::from(<[u8; 4]>::load(from)?))),
            6 => Some(Self::V6(Ipv6Addr::from(<[u8; 16]>::load(from)?))),
            _ => None,
        }
    }
}

impl Save for SocketAddr {
    fn save(&self, out: &mut Vec<u8>) {
        (self.ip(), self.port()).save(out);
    }

    fn load(from: &mut Saved<'_>) -> Option<Self> {
        <(IpAddr, u16)>::load(from).map(Self::from)
    }
}

save_fields!(Millis(ms));
save_fields!(Epoch(number));

impl Save for ConnId {
    fn save(&self, out: &mut Vec<u8>) {
        self.to_bits().save(out);
    }

    fn load(from: &mut Saved<'_>) -> Option<Self> {
        u64::load(from).map(Self::from_bits)
    }
}

impl Save for ChannelName {
    fn save(&self, out: &mut Vec<u8>) {
        save_bytes(self.as_str().as_bytes(), out);
    }

    fn load(from: &mut Saved<'_>) -> Option<Self> {
        let name = std::str::from_utf8(from.bytes()?).ok()?;
        // GRIP's names may be longer than others; whoever made it has checked its bound.
        Self::with_bound(name, usize::MAX).ok()
    }
}

save_choice!(PayloadKind {
    0: Json,
    1: Text,
    2: Binary
});
save_choice!(PublicationKind {
    0: Data,
    1: Joined,
    2: Left
});
save_fields!(Position { epoch, offset });
save_fields!(Payload { bytes, kind });
save_fields!(Publisher {
    client,
    user,
    conn_info,
    chan_info
});
save_fields!(Publication {
    channel,
    told,
    position,
    payload,
    publisher,
    tags,
    time_unix_ms
});

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Checks that a value is loaded as it was saved, that nothing shorter is, and that no bytes do
    /// harm.
    #[track_caller]
    fn check<T: Save + PartialEq + std::fmt::Debug>(value: &T) {
        let bytes = value.saved();
        assert_eq!(T::load_whole(&bytes).as_ref(), Some(value));
        for cut in 0..bytes.len() {
            assert_eq!(
                T::load_whole(&bytes[..cut]),
                None,
                "{cut} bytes of {bytes:?}"
            );
        }
        for at in 0..bytes.len() {
            for wrong in [0, 1, 0x7f, 0xff] {
                let mut bytes = bytes.clone();
                bytes[at] = wrong;
                let _ = T::load_whole(&bytes);
            }
        }
    }

    fn publication(channel: &str, data: &[u8], with: bool) -> Publication {
        Publication {
            channel: ChannelName::new(channel).unwrap(),
            told: PublicationKind::Joined,
            position: with.then_some(Position {
                epoch: Epoch(7),
                offset: u64::MAX,
            }),
            payload: Payload {
                bytes: data.into(),
                kind: PayloadKind::Binary,
            },
            publisher: with.then(Box::default),
            tags: with.then(|| "{}".into()),
            time_unix_ms: 1,
        }
    }

    #[test]
    fn values_survive() {
        check(&(u8::MAX, (u16::MAX, (u32::MAX, u64::MAX))));
        check(&vec![Some(Box::<str>::from("ä")), None]);
        check(&VecDeque::from([(true, 5_usize)]));
        for address in ["1.2.3.4:5", "[1:2::3]:65535"] {
            check(&address.parse::<SocketAddr>().unwrap());
        }
        check(&publication("a", b"", false));
        check(&Arc::new(publication("$x:y#1", b"\0\xff", true)));
        check(&ConnId::from_bits(77));
    }

    #[test]
    fn a_length_without_its_bytes_reserves_nothing() {
        assert_eq!(Vec::<u8>::load_whole(&u32::MAX.saved()), None);
        assert_eq!(String::load_whole(&u32::MAX.saved()), None);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Vec::<Publication>::load_whole(&bytes);
            let _ = <(SocketAddr, Vec<Option<Box<str>>>)>::load_whole(&bytes);
        }
    }
}
