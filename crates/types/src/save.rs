//! State as bytes: the one codec for what only Throng reads, such as a hand-over, history on disk,
//! questions of nodes.
//!
//! Numbers are as they are, little-endian; what has a variable length stands behind it, in four
//! bytes. A struct is its fields and an enum its variant's number and fields, by `#[derive(Save)]`.
//! Never: versions. The code that frames the bytes says which version they are of, and does not
//! look at those of another one.
//!
//! Why a derive of our own, and not serde with postcard: many types read JSON by serde already, by
//! rules for strangers' text, and serde has one reader for each type; serde reserves up to 1 MiB on
//! a claimed length, and moves shared bytes one by one; and what is on disks already has this form.
//!
//! Invariants
//! - `load` of what `save` wrote gives an equal value and takes exactly those bytes.
//! - No bytes make `load` panic, or reserve more than they have: a length that is not covered by
//!   what is left is refused, and so are boxes and lists too deep within each other.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

/// Implements [`trait@Save`] and [`Load`].
///
/// ```
/// use throng_types::{Load, Save};
///
/// #[derive(Debug, PartialEq, Save)]
/// enum Shape {
///     Point,
///     Circle { radius: u32, name: Option<String> },
/// }
///
/// let shape = Shape::Circle { radius: 7, name: Some("here".into()) };
/// assert_eq!(Shape::load_whole(&shape.saved()), Some(shape));
/// assert_eq!(Shape::Point.saved(), [0]);
/// ```
pub use throng_types_derive::Save;

/// A value that has bytes, of its own or borrowed.
pub trait Save {
    fn save(&self, out: &mut Vec<u8>);

    /// Appends several values' bytes, without their number.
    fn save_all(values: &[Self], out: &mut Vec<u8>)
    where
        Self: Sized,
    {
        values.iter().for_each(|value| value.save(out));
    }

    fn saved(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.save(&mut out);
        out
    }
}

/// A value that comes back from the bytes of [`trait@Save`].
pub trait Load: Sized {
    /// Reads a value; `None` if the bytes are not of one.
    fn load(from: &mut Saved<'_>) -> Option<Self>;

    /// Reads several values, whose number [`Saved::count`] has checked.
    fn load_all(count: usize, from: &mut Saved<'_>) -> Option<Vec<Self>> {
        // Grows as values come: their number alone reserves nothing.
        (0..count).map(|_| Self::load(from)).collect()
    }

    /// Reads a value that takes all of the bytes.
    fn load_whole(bytes: &[u8]) -> Option<Self> {
        let mut from = Saved::new(bytes);
        Self::load(&mut from).filter(|_| from.is_empty())
    }
}

/// Bytes that something was saved in, and how far they were read.
pub struct Saved<'a> {
    rest: &'a [u8],
    /// Boxes and lists that may still be within each other here.
    depth_left: u8,
}

impl<'a> Saved<'a> {
    /// Boxes and lists within each other, at most: the bound of a type that contains itself.
    const DEPTH_MAX: u8 = 64;

    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            depth_left: Self::DEPTH_MAX,
        }
    }

    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    /// Reads the number of values that follow. Each takes a byte at least, so there are no more
    /// than bytes.
    pub fn count(&mut self) -> Option<usize> {
        let count = u32::load(self)? as usize;
        (count <= self.rest.len()).then_some(count)
    }

    /// Reads what is within a box or a list.
    fn within<T>(&mut self, load: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.depth_left = self.depth_left.checked_sub(1)?;
        let value = load(self);
        self.depth_left += 1;
        value
    }

    /// Reads bytes behind their length.
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = self.count()?;
        self.take(count)
    }

    /// Reads a text behind its length.
    pub fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
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

    pub fn end(&mut self) {
        if !self.piece.is_empty() {
            (self.send)(&self.piece);
            self.piece.clear();
        }
    }
}

/// Appends how many values follow.
///
/// # Panics
/// From 4 Gi on, which no queue or message of ours may have.
pub fn save_count(count: usize, out: &mut Vec<u8>) {
    u32::try_from(count).expect("below 4 Gi").save(out);
}

/// Checks a type's bytes, for tests: a value comes back from what it saved, from nothing shorter
/// and nothing longer, and bytes that differ in one place do no harm.
///
/// # Panics
/// If one of these does not hold.
#[track_caller]
pub fn check_saved<T: Save + Load>(value: &T) {
    let bytes = value.saved();
    let loaded = T::load_whole(&bytes).expect("what was saved");
    assert!(loaded.saved() == bytes, "another value: {bytes:?}");
    let longer = [&bytes[..], &[0]].concat();
    assert!(T::load_whole(&longer).is_none(), "one byte more: {bytes:?}");
    for at in 0..bytes.len() {
        let part = T::load(&mut Saved::new(&bytes[..at]));
        assert!(part.is_none(), "{at} bytes of {bytes:?}");
        for wrong in [0, 1, 2, 3, 0x7f, 0xff] {
            let mut bytes = bytes.clone();
            bytes[at] = wrong;
            let _ = T::load_whole(&bytes).map(|value| value.saved());
        }
    }
}

macro_rules! numbers {
    ($($Number:ident),+) => {$(
        impl Save for $Number {
            fn save(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
        }

        impl Load for $Number {
            fn load(from: &mut Saved<'_>) -> Option<Self> {
                <[u8; size_of::<Self>()]>::load(from).map(Self::from_le_bytes)
            }
        }
    )+};
}
numbers!(u16, u32, u64, u128, i32, i64);

impl Save for u8 {
    fn save(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }

    fn save_all(values: &[Self], out: &mut Vec<u8>) {
        out.extend_from_slice(values);
    }
}

impl Load for u8 {
    fn load(from: &mut Saved<'_>) -> Option<Self> {
        from.take(1).map(|byte| byte[0])
    }

    fn load_all(count: usize, from: &mut Saved<'_>) -> Option<Vec<Self>> {
        from.take(count).map(<[Self]>::to_vec)
    }
}

impl<T: Save, const N: usize> Save for [T; N] {
    fn save(&self, out: &mut Vec<u8>) {
        T::save_all(self, out);
    }
}

impl<T: Load + Copy + Default, const N: usize> Load for [T; N] {
    fn load(from: &mut Saved<'_>) -> Option<Self> {
        let mut values = [T::default(); N];
        for value in &mut values {
            *value = T::load(from)?;
        }
        Some(values)
    }
}

/// Saves a type as another one: `Type as Other: to other, from other`.
macro_rules! saved_as {
    ($($Type:ty as $Other:ty: $to:expr, $from:expr;)+) => {$(
        impl Save for $Type {
            fn save(&self, out: &mut Vec<u8>) {
                let to: fn(&Self) -> $Other = $to;
                to(self).save(out);
            }
        }

        impl Load for $Type {
            fn load(from: &mut Saved<'_>) -> Option<Self> {
                <$Other>::load(from).and_then($from)
            }
        }
    )+};
}
saved_as! {
    usize as u64: |number| *number as u64, |number| Self::try_from(number).ok();
    bool as u8: |is_set| u8::from(*is_set), |number| match number {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    };
    () as [u8; 0]: |()| [], |_| Some(());
    Ipv4Addr as [u8; 4]: Self::octets, |octets| Some(Self::from(octets));
    Ipv6Addr as [u8; 16]: Self::octets, |octets| Some(Self::from(octets));
    SocketAddr as (IpAddr, u16): |at| (at.ip(), at.port()), |at| Some(Self::from(at));
}

impl Save for IpAddr {
    fn save(&self, out: &mut Vec<u8>) {
        match self {
            Self::V4(address) => (4_u8, address).save(out),
            Self::V6(address) => (6_u8, address).save(out),
        }
    }
}

impl Load for IpAddr {
    fn load(from: &mut Saved<'_>) -> Option<Self> {
        match u8::load(from)? {
            4 => Ipv4Addr::load(from).map(Self::V4),
            6 => Ipv6Addr::load(from).map(Self::V6),
            _ => None,
        }
    }
}

impl<T: Save> Save for [T] {
    fn save(&self, out: &mut Vec<u8>) {
        save_count(self.len(), out);
        T::save_all(self, out);
    }
}

impl Save for str {
    fn save(&self, out: &mut Vec<u8>) {
        self.as_bytes().save(out);
    }
}

macro_rules! borrowed {
    ($($Holder:ty),+) => {$(
        impl<T: Save + ?Sized> Save for $Holder {
            fn save(&self, out: &mut Vec<u8>) {
                T::save(self, out);
            }
        }
    )+};
}
borrowed!(&T, Box<T>, Arc<T>, Rc<T>);

macro_rules! boxes {
    ($($Box:ident),+) => {$(
        impl<T: Load> Load for $Box<T> {
            fn load(from: &mut Saved<'_>) -> Option<Self> {
                from.within(T::load).map(Self::new)
            }
        }
    )+};
}
boxes!(Box, Arc, Rc);

impl<T: Save + Copy> Save for Cell<T> {
    fn save(&self, out: &mut Vec<u8>) {
        self.get().save(out);
    }
}

impl<T: Load> Load for Cell<T> {
    fn load(from: &mut Saved<'_>) -> Option<Self> {
        T::load(from).map(Self::new)
    }
}

impl Save for String {
    fn save(&self, out: &mut Vec<u8>) {
        self.as_str().save(out);
    }
}

macro_rules! texts {
    ($($Text:ty),+) => {$(
        impl Load for $Text {
            fn load(from: &mut Saved<'_>) -> Option<Self> {
                from.text().map(Into::into)
            }
        }
    )+};
}
texts!(String, Box<str>, Arc<str>);

impl Load for Arc<[u8]> {
    fn load(from: &mut Saved<'_>) -> Option<Self> {
        from.bytes().map(Into::into)
    }
}

impl<T: Load> Load for Box<[T]> {
    fn load(from: &mut Saved<'_>) -> Option<Self> {
        Vec::load(from).map(Into::into)
    }
}

impl<T: Save> Save for Vec<T> {
    fn save(&self, out: &mut Vec<u8>) {
        self.as_slice().save(out);
    }
}

impl<T: Load> Load for Vec<T> {
    fn load(from: &mut Saved<'_>) -> Option<Self> {
        let count = from.count()?;
        from.within(|from| T::load_all(count, from))
    }
}

macro_rules! collections {
    ($($Collection:ident<$($Item:ident $(: $Bound:ident)?),+>;)+) => {$(
        impl<$($Item: Save),+> Save for $Collection<$($Item),+> {
            fn save(&self, out: &mut Vec<u8>) {
                save_count(self.len(), out);
                self.iter().for_each(|item| item.save(out));
            }
        }

        impl<$($Item: Load $(+ $Bound)?),+> Load for $Collection<$($Item),+> {
            fn load(from: &mut Saved<'_>) -> Option<Self> {
                Vec::load(from).map(Self::from_iter)
            }
        }
    )+};
}
collections! {
    VecDeque<T>;
    BTreeSet<T: Ord>;
    BTreeMap<K: Ord, V>;
}

impl<T: Save> Save for Option<T> {
    fn save(&self, out: &mut Vec<u8>) {
        self.is_some().save(out);
        self.iter().for_each(|value| value.save(out));
    }
}

impl<T: Load> Load for Option<T> {
    fn load(from: &mut Saved<'_>) -> Option<Self> {
        match bool::load(from)? {
            true => T::load(from).map(Some),
            false => Some(None),
        }
    }
}

macro_rules! tuples {
    ($($($Item:ident)*;)+) => {$(
        impl<$($Item: Save),*> Save for ($($Item,)*) {
            #[expect(non_snake_case, reason = "each is named as its type")]
            fn save(&self, out: &mut Vec<u8>) {
                let ($($Item,)*) = self;
                $($Item.save(out);)*
            }
        }

        impl<$($Item: Load),*> Load for ($($Item,)*) {
            fn load(from: &mut Saved<'_>) -> Option<Self> {
                Some(($($Item::load(from)?,)*))
            }
        }
    )+};
}
tuples! {
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        ChannelName, ConnId, Epoch, Payload, PayloadKind, Position, Publication, PublicationKind,
    };

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
            trace: None,
        }
    }

    const LAST: u8 = b'z';

    /// Every shape that the derive knows.
    #[derive(Debug, PartialEq, Save)]
    #[save(check = Self::is_sound)]
    #[repr(u8)]
    enum Shape<T> {
        Unit,
        Tuple(u8, T) = 7,
        Named {
            left: T,
            #[save(skip)]
            right: u32,
        },
        #[expect(dead_code, reason = "it is never made")]
        #[save(skip)]
        Never,
        Last([u8; 2]) = LAST,
    }

    impl<T> Shape<T> {
        fn is_sound(&self) -> bool {
            !matches!(self, Self::Last([0, _]))
        }
    }

    #[derive(Save)]
    struct Newtype(Vec<u8>);

    #[test]
    fn values_survive() {
        check_saved(&(u8::MAX, (u16::MAX, (u32::MAX, (u64::MAX, u128::MAX)))));
        check_saved(&vec![Some(Box::<str>::from("ä")), None]);
        check_saved(&VecDeque::from([(true, 5_usize)]));
        check_saved(&BTreeMap::from([(1_u8, Rc::new(2_i32)), (3, Rc::new(-4))]));
        for address in ["1.2.3.4:5", "[1:2::3]:65535"] {
            check_saved(&address.parse::<SocketAddr>().unwrap());
        }
        check_saved(&publication("a", b"", false));
        check_saved(&Arc::new(publication("$x:y#1", b"\0\xff", true)));
        check_saved(&ConnId::from_bits(77));
        check_saved(&(Newtype(vec![1, 2]), Box::<[u16]>::from([3, 4])));
    }

    #[test]
    fn a_derived_type_is_numbers_and_fields() {
        for (shape, bytes) in [
            (Shape::Unit, &[0][..]),
            (Shape::Tuple(5, 6_u16), &[7, 5, 6, 0]),
            (Shape::Named { left: 3, right: 0 }, &[8, 3, 0]),
            (Shape::Last([1, 2]), b"z\x01\x02"),
        ] {
            check_saved(&shape);
            assert_eq!(shape.saved(), bytes);
            assert_eq!(Shape::load_whole(bytes), Some(shape));
        }
        let skips = Shape::Named { left: 3, right: 9 };
        let loaded = Shape::load_whole(&skips.saved());
        assert_eq!(loaded, Some(Shape::Named { left: 3, right: 0 }));
        for wrong in [&[1][..], &[9], b"z\0\x02"] {
            assert_eq!(Shape::<u16>::load_whole(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn borrowed_values_have_the_bytes_of_owned_ones() {
        let owned = ("a".to_owned(), (vec![1_u32], Some(Box::<str>::from("b"))));
        let borrowed = ("a", &([1_u32].as_slice(), Some("b")));
        assert_eq!(borrowed.saved(), owned.saved());
    }

    #[derive(Save)]
    enum Nest {
        _Egg,
        _Box(Box<Self>),
        _List(Vec<Self>),
    }

    #[test]
    fn depth_is_bounded() {
        for level in [&[1][..], &[2, 1, 0, 0, 0]] {
            let nest = |depth| [level.repeat(depth), vec![0]].concat();
            assert!(Nest::load_whole(&nest(64)).is_some());
            assert!(Nest::load_whole(&nest(65)).is_none());
            assert!(Nest::load_whole(&nest(100_000)).is_none());
        }
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
