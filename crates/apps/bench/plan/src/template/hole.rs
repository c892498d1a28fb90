//! The holes: which ones each place knows, and what they compile to.

use std::fmt;

use crate::Data;

/// What a template may speak about in the place where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A channel name: `n`, `rand`, `data`.
    Channel,
    /// Something one connection sends when it opens (URL, header, first frame): also `channel`,
    /// `worker`.
    Connection,
    /// A publish request: everything.
    Publish,
}

impl Place {
    pub(super) const fn knows(self, name: Name) -> bool {
        match name {
            Name::N | Name::Rand | Name::Data => true,
            // A channel's name must be the same whoever renders it.
            Name::Channel | Name::Worker => !matches!(self, Self::Channel),
            Name::Payload => matches!(self, Self::Publish),
        }
    }

    pub(super) fn names(self) -> impl Iterator<Item = Name> {
        Name::ALL.into_iter().filter(move |&name| self.knows(name))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Channel => "a channel name",
            Self::Connection => "what a connection sends when it opens",
            Self::Publish => "a publish request",
        })
    }
}

/// The holes by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    N,
    Rand,
    Channel,
    Payload,
    Worker,
    Data,
}

impl Name {
    pub(super) const ALL: [Self; 6] = [
        Self::N,
        Self::Rand,
        Self::Channel,
        Self::Payload,
        Self::Worker,
        Self::Data,
    ];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::N => "n",
            Self::Rand => "rand",
            Self::Channel => "channel",
            Self::Payload => "payload",
            Self::Worker => "worker",
            Self::Data => "data",
        }
    }

    /// How it is written, for people.
    pub(super) const fn shown(self) -> &'static str {
        match self {
            Self::Data => "data.NAME",
            other => other.as_str(),
        }
    }
}

/// A piece of a compiled template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Literal(Box<str>),
    Number(Source, Box<[Step]>),
    Rand {
        low: u64,
        high: u64,
    },
    Channel {
        url: bool,
    },
    Payload {
        base64: bool,
    },
    Data {
        data: Data,
        column: usize,
        url: bool,
    },
}

/// Where a number comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    N,
    Worker,
}

/// What is done to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Modulo(u64),
    Divide(u64),
    Add(u64),
    Multiply(u64),
}

impl Step {
    pub(super) const fn apply(self, value: u64) -> u64 {
        match self {
            // The parser refuses zero.
            Self::Modulo(by) => value % by,
            Self::Divide(by) => value / by,
            Self::Add(by) => value.wrapping_add(by),
            Self::Multiply(by) => value.wrapping_mul(by),
        }
    }
}
