//! Filters of a subscription: receivers of an item, and the values written into its marks (`%I`,
//! `%(argument)s`, `%%`).
//!
//! Owns: the five filters of Pushpin 1.41 and their order. Never: knows connections; what it
//! needs of one comes in as a [`FilterContext`].

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use throng_types::{Save, coded_enum};

/// The most filters that one subscription has, the limit of Pushpin since 1.41.
pub const FILTERS_MAX: usize = 5;

coded_enum! {
    /// One of Pushpin's filters, in its wire order.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Save)]
    pub enum Filter {
        /// Name in headers and documents.
        fn name;
        /// Drops if the publication's `sender` is the connection's `user`.
        SkipSelf = "skip-self";
        /// Drops if the connection's `user` is in the publication's comma list `skip_users`.
        SkipUsers = "skip-users";
        /// Drops unless the connection is also subscribed to the publication's `require_sub`.
        RequireSub = "require-sub";
        /// Replaces `%I` and `%(id)I` by an id made after the connection's `id_format`.
        BuildId = "build-id";
        /// Replaces `%(name)s` by the connection's meta of that name.
        VarSubst = "var-subst";
    }
}

impl Filter {
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|filter| filter.name() == name)
    }

    /// Tells whether it rewrites content, so that `content-filters` of an item speaks about it.
    #[must_use]
    pub const fn is_content(self) -> bool {
        matches!(self, Self::BuildId | Self::VarSubst)
    }
}

/// The filters of one subscription in their order: five bytes, because a connection keeps them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Save)]
pub struct Filters {
    list: [Option<Filter>; FILTERS_MAX],
}

/// More than [`FILTERS_MAX`] filters, known or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {FILTERS_MAX} filters")]
pub struct TooManyFilters;

impl Filters {
    /// From names. A name that nobody knows filters nothing but counts towards the limit,
    /// as in Pushpin.
    pub fn from_names<'n>(
        names: impl IntoIterator<Item = &'n str>,
    ) -> Result<Self, TooManyFilters> {
        let mut out = Self::default();
        let mut free = 0;
        for (count, name) in names.into_iter().enumerate() {
            if count >= FILTERS_MAX {
                return Err(TooManyFilters);
            }
            if let (Some(filter), Some(slot)) = (Filter::from_name(name), out.list.get_mut(free)) {
                *slot = Some(filter);
                free += 1;
            }
        }
        Ok(out)
    }

    /// Tells whether nothing is filtered: the item may go out as bytes shared with others.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list[0].is_none()
    }

    /// The filters in their order.
    pub fn iter(&self) -> impl Iterator<Item = Filter> {
        self.list.into_iter().flatten()
    }

    /// Tells whether an item's `content-filters` are exactly the content filters here, in order.
    /// An item without that list goes to everybody.
    #[must_use]
    pub fn match_content_filters(&self, names: Option<&[String]>) -> bool {
        names.is_none_or(|names| {
            self.iter()
                .filter(|filter| filter.is_content())
                .map(Filter::name)
                .eq(names.iter().map(String::as_str))
        })
    }

    /// Runs the filters over one item for one connection.
    pub fn apply<'c>(
        &self,
        context: &FilterContext<'_>,
        content: &'c [u8],
    ) -> Result<Filtered<'c>, FilterError> {
        let mut content = Cow::Borrowed(content);
        for filter in self.iter() {
            let keep = match filter {
                Filter::SkipSelf => context.is_not_self(),
                Filter::SkipUsers => context.is_not_skipped(),
                Filter::RequireSub => context.has_required_sub(),
                Filter::BuildId => {
                    let id = BuiltId::new(context)?;
                    let mut out = Vec::with_capacity(content.len());
                    let done = id.render_piece(&content, &mut out)?;
                    if done < content.len() {
                        return Err(MarkError::Cut { at: done }.into());
                    }
                    content = Cow::Owned(out);
                    true
                }
                Filter::VarSubst => {
                    let value = |name: &[u8]| get_bytes(context.sub_meta, name);
                    content = Cow::Owned(with_names(&content, value)?);
                    true
                }
            };
            if !keep {
                return Ok(Filtered::Drop);
            }
        }
        Ok(Filtered::Send(content))
    }
}

/// Input of the filters. Keys of both metas are unique.
#[derive(Clone, Copy, Debug)]
pub struct FilterContext<'a> {
    /// The connection's meta: `Grip-Set-Meta`, or `set-meta` of a WebSocket.
    pub sub_meta: &'a [(String, String)],
    /// Meta of the item that is published.
    pub pub_meta: &'a [(String, String)],
    /// The connection's channels, without the route's prefix, each with its last id if known.
    pub channels: &'a [(&'a str, Option<&'a str>)],
}

impl FilterContext<'_> {
    fn is_not_self(&self) -> bool {
        let user = get(self.sub_meta, "user").unwrap_or_default();
        user.is_empty() || get(self.pub_meta, "sender") != Some(user)
    }

    fn is_not_skipped(&self) -> bool {
        let user = get(self.sub_meta, "user").unwrap_or_default();
        let skipped = get(self.pub_meta, "skip_users").unwrap_or_default();
        user.is_empty() || !skipped.split(',').any(|name| name.trim() == user)
    }

    fn has_required_sub(&self) -> bool {
        let required = get(self.pub_meta, "require_sub").unwrap_or_default();
        required.is_empty() || self.channels.iter().any(|&(name, _)| name == required)
    }
}

/// Verdict on an item for one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filtered<'c> {
    Drop,
    /// Goes out with this content; borrowed if no filter touched it.
    Send(Cow<'c, [u8]>),
}

/// Why content could not be rewritten. The fault is in the backend's meta or the item's content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    #[error("build-id: the connection has no meta 'id_format'")]
    NoIdFormat,
    #[error("build-id: id_encoding is 'hex' or absent, not '{0}'")]
    Encoding(String),
    #[error("build-id: in id_format, {0}")]
    IdFormat(MarkError),
    #[error("in the content, {0}")]
    Content(#[from] MarkError),
}

/// The id that `build-id` writes: made once for a connection, then put into any content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltId {
    id: Option<Vec<u8>>,
    hex: bool,
}

impl BuiltId {
    /// Renders the connection's `id_format` with the last ids of its channels.
    pub fn new(context: &FilterContext<'_>) -> Result<Self, FilterError> {
        let format = get(context.sub_meta, "id_format").ok_or(FilterError::NoIdFormat)?;
        let id = if context.channels.is_empty() {
            None
        } else {
            let last = |name: &[u8]| {
                let mut channels = context.channels.iter();
                channels.find(|(channel, _)| channel.as_bytes() == name)?.1
            };
            let id = with_names(format.as_bytes(), last).map_err(FilterError::IdFormat)?;
            Some(id)
        };
        let hex = match get(context.sub_meta, "id_encoding") {
            None => false,
            Some("hex") => true,
            Some(other) => return Err(FilterError::Encoding(other.to_owned())),
        };
        Ok(Self { id, hex })
    }

    /// Renders a piece of a stream and says how many bytes of it are done; the rest is the
    /// start of a mark and must come again in front of the next piece.
    pub fn render_piece(&self, piece: &[u8], out: &mut Vec<u8>) -> Result<usize, FilterError> {
        for part in Pieces::new(piece) {
            match part {
                Piece::Plain(text) => out.extend_from_slice(text),
                Piece::Cut(at) => return Ok(at),
                Piece::Mark {
                    letter: b'I',
                    argument,
                    at,
                } => {
                    let id = argument.as_deref().or(self.id.as_deref());
                    self.write(id.ok_or(MarkError::NoId { at })?, out);
                }
                Piece::Mark { letter, at, .. } => {
                    return Err(MarkError::Unknown { letter, at }.into());
                }
            }
        }
        Ok(piece.len())
    }

    fn write(&self, id: &[u8], out: &mut Vec<u8>) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        if self.hex {
            let digits = |&byte: &u8| [byte >> 4, byte & 15];
            let digits = id.iter().flat_map(digits);
            out.extend(digits.map(|digit| DIGITS[usize::from(digit)]));
        } else {
            out.extend_from_slice(id);
        }
    }
}

/// A text whose marks are all `%(name)s`, with the values in their places.
fn with_names<'v>(
    text: &[u8],
    value: impl Fn(&[u8]) -> Option<&'v str>,
) -> Result<Vec<u8>, MarkError> {
    let mut out = Vec::with_capacity(text.len());
    for piece in Pieces::new(text) {
        match piece {
            Piece::Plain(text) => out.extend_from_slice(text),
            Piece::Cut(at) => return Err(MarkError::Cut { at }),
            Piece::Mark {
                letter: b's',
                argument: Some(name),
                at,
            } => match value(&name) {
                Some(value) => out.extend_from_slice(value.as_bytes()),
                None => {
                    let name = crate::headers::text(&name);
                    return Err(MarkError::NoValue { name, at });
                }
            },
            Piece::Mark {
                letter: b's', at, ..
            } => return Err(MarkError::NoName { at }),
            Piece::Mark { letter, at, .. } => return Err(MarkError::Unknown { letter, at }),
        }
    }
    Ok(out)
}

fn get_bytes<'m>(meta: &'m [(String, String)], key: &[u8]) -> Option<&'m str> {
    let found = meta.iter().find(|(other, _)| other.as_bytes() == key);
    found.map(|(_, value)| value.as_str())
}

fn get<'m>(meta: &'m [(String, String)], key: &str) -> Option<&'m str> {
    get_bytes(meta, key.as_bytes())
}

/// A stretch of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'t> {
    /// As it stands; `%%` has become `%`.
    Plain(&'t [u8]),
    /// A letter, and what stood in parentheses before it.
    Mark {
        letter: u8,
        argument: Option<Cow<'t, [u8]>>,
        /// Offset of the letter, in bytes from the start.
        at: usize,
    },
    /// The text ends inside a mark, which begins here.
    Cut(usize),
}

/// The pieces of a text, in order.
pub(crate) struct Pieces<'t> {
    text: &'t [u8],
    at: usize,
}

impl<'t> Pieces<'t> {
    pub(crate) const fn new(text: &'t [u8]) -> Self {
        Self { text, at: 0 }
    }

    fn mark(&self) -> Option<(Piece<'t>, usize)> {
        let inside = self.text.get(self.at + 1..)?;
        match inside {
            [] => None,
            [b'%', ..] => Some((Piece::Plain(&inside[..1]), 2)),
            [b'(', rest @ ..] => {
                let end = closing(rest)?;
                let letter = *rest.get(end + 1)?;
                let argument = Some(without_escapes(&rest[..end]));
                let at = self.at + end + 3;
                let mark = Piece::Mark {
                    letter,
                    argument,
                    at,
                };
                Some((mark, end + 4))
            }
            &[letter, ..] => {
                let (argument, at) = (None, self.at + 1);
                let mark = Piece::Mark {
                    letter,
                    argument,
                    at,
                };
                Some((mark, 2))
            }
        }
    }
}

impl<'t> Iterator for Pieces<'t> {
    type Item = Piece<'t>;

    fn next(&mut self) -> Option<Piece<'t>> {
        let rest = self.text.get(self.at..).filter(|rest| !rest.is_empty())?;
        let plain = memchr::memchr(b'%', rest).unwrap_or(rest.len());
        if plain > 0 {
            self.at += plain;
            return Some(Piece::Plain(&rest[..plain]));
        }
        match self.mark() {
            Some((piece, bytes)) => {
                self.at += bytes;
                Some(piece)
            }
            None => {
                let cut = Piece::Cut(self.at);
                self.at = self.text.len();
                Some(cut)
            }
        }
    }
}

/// Finds the closing parenthesis; a backslash takes the meaning from the byte behind it.
fn closing(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr::memchr2(b')', b'\\', text.get(at..)?)?;
        if text[at] == b')' {
            return Some(at);
        }
        at += 2;
    }
}

fn without_escapes(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\\', text).is_none() {
        return Cow::Borrowed(text);
    }
    let mut escaped = false;
    let keep = |&byte: &u8| {
        escaped = byte == b'\\' && !escaped;
        !escaped
    };
    Cow::Owned(text.iter().copied().filter(keep).collect())
}

/// Why text with marks cannot be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MarkError {
    #[error("byte {at}: %{} means nothing", char::from(*.letter))]
    Unknown {
        /// Letter behind the percent sign.
        letter: u8,
        /// Offset of the letter, in bytes.
        at: usize,
    },
    #[error("byte {at}: %s wants a name, as in %(name)s")]
    NoName {
        /// Offset of the letter, in bytes.
        at: usize,
    },
    #[error("byte {at}: nothing is known by the name '{name}'")]
    NoValue {
        /// Name between the parentheses, as written.
        name: String,
        /// Offset of the letter, in bytes.
        at: usize,
    },
    #[error("byte {at}: there is no id to put here")]
    NoId {
        /// Offset of the letter, in bytes.
        at: usize,
    },
    #[error("byte {at}: this % begins something that does not end; write %% for a percent sign")]
    Cut {
        /// Offset of the percent sign, in bytes.
        at: usize,
    },
}
