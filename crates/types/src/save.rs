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

mod values;

/// A value that can be handed over.
pub trait Save: Sized {
    /// Appends it.
    fn save(&self, out: &mut Vec<u8>);

    /// Reads it back; `None` if the bytes are none of [`Save::save`].
    fn load(from: &mut Saved<'_>) -> Option<Self>;

    /// It alone, from all of the bytes.
    fn load_whole(bytes: &[u8]) -> Option<Self> {
        let mut from = Saved::new(bytes);
        let value = Self::load(&mut from)?;
        from.is_empty().then_some(value)
    }

    /// Its bytes.
    fn saved(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.save(&mut out);
        out
    }
}

/// Bytes that something was saved in, and how far they were read.
pub struct Saved<'a>(&'a [u8]);

impl<'a> Saved<'a> {
    /// From the beginning.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether everything was read.
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

    /// How many values follow. Each takes a byte at least, so there are no more than bytes.
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

/// Saves a struct field by field, in this order. All of its fields must be named, so none can be
/// forgotten.
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
}

/// Saves a plain enum as a number: `save_choice!(Colour { 0: Red, 1: Blue })`.
#[macro_export]
macro_rules! save_choice {
    ($Type:ident { $($number:literal: $Variant:ident),+ $(,)? }) => {
        impl $crate::Save for $Type {
            fn save(&self, out: &mut Vec<u8>) {
                out.push(match self { $(Self::$Variant => $number),+ });
            }

            fn load(from: &mut $crate::Saved<'_>) -> Option<Self> {
                match <u8 as $crate::Save>::load(from)? {
                    $($number => Some(Self::$Variant),)+
                    _ => None,
                }
            }
        }
    };
}
