//! Names and numbers: the address, the channels and the messages of connection number `n`.
//!
//! Everything follows from the number, so that `guest-crowd`, which publishes, and receivers agree
//! without talking to each other. A message has 128 bytes: `round 0 all`, `round 0 17` or
//! `own 17 -`, a space, and dots.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::str::FromStr;

/// Ports of each source address. An explicit port for each connection spares the kernel the search.
const PORTS: u32 = 60_000;
const PORT_FIRST: u16 = 1_025;
/// 127.1.0.1: all of 127.0.0.0/8 is loopback, and the server's own ports are on 127.0.0.1.
const SOURCE_FIRST: u32 = 0x7f01_0001;
/// As many channels as in the run of a million streams that the layout comes from.
const GROUPS: u32 = 1_000;
/// Most broadcasts in one run: each is a bit of a connection's state.
pub(crate) const ROUNDS_MAX: u32 = 8;
const MESSAGE_BYTES: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Ws,
    Sse,
}

impl FromStr for Transport {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "ws" => Ok(Self::Ws),
            "sse" => Ok(Self::Sse),
            _ => Err(()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// `all`, and a channel of its own.
    Own,
    /// Every connection is in one of [`GROUPS`].
    Groups,
}

impl FromStr for Layout {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "own" => Ok(Self::Own),
            "groups" => Ok(Self::Groups),
            _ => Err(()),
        }
    }
}

impl Layout {
    pub(crate) fn query(self, n: u32) -> String {
        match self {
            Self::Own => format!("channel=all&channel=own-{n}"),
            Self::Groups => format!("channel=group-{}", n % GROUPS),
        }
    }
}

/// Meaning of a message for the connection that got it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    Round(u32),
    Own,
    Stray,
    /// Not a message of ours, or not all of one.
    Garbled,
}

pub(crate) fn meaning(layout: Layout, n: u32, payload: &[u8]) -> Meaning {
    if payload.len() != MESSAGE_BYTES {
        return Meaning::Garbled;
    }
    let Ok(text) = std::str::from_utf8(payload) else {
        return Meaning::Garbled;
    };
    let mut words = text.split(' ');
    let mut next = || words.next().unwrap_or_default();
    let (kind, number, whom) = (next(), next().parse::<u32>(), next());
    match (kind, number) {
        ("own", Ok(number)) if number == n => Meaning::Own,
        ("own", Ok(_)) => Meaning::Stray,
        ("round", Ok(round)) if round < ROUNDS_MAX => {
            let mine = match layout {
                Layout::Own => whom == "all",
                Layout::Groups => whom.parse() == Ok(n % GROUPS),
            };
            if mine {
                Meaning::Round(round)
            } else {
                Meaning::Stray
            }
        }
        _ => Meaning::Garbled,
    }
}

pub(crate) fn source(n: u32) -> SocketAddrV4 {
    let port = PORT_FIRST + u16::try_from(n % PORTS).unwrap_or_default();
    SocketAddrV4::new(Ipv4Addr::from(SOURCE_FIRST + n / PORTS), port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(head: &str) -> String {
        format!("{:.<MESSAGE_BYTES$}", format!("{head} "))
    }

    #[test]
    fn every_message_is_understood_by_whom_it_is_for_and_by_nobody_else() {
        for n in [0, 7, 999, 1_000, 999_999] {
            let own = message(&format!("own {n} -"));
            assert!(Layout::Own.query(n).ends_with(&format!("own-{n}")));
            let of = |layout, n, text: &str| meaning(layout, n, text.as_bytes());
            assert_eq!(of(Layout::Own, n, &own), Meaning::Own);
            assert_eq!(of(Layout::Own, n + 1, &own), Meaning::Stray);
            assert_eq!(of(Layout::Own, n, &own[1..]), Meaning::Garbled);
            for group in 0..GROUPS {
                let mine = Layout::Groups.query(n) == format!("channel=group-{group}");
                let expect = if mine {
                    Meaning::Round(3)
                } else {
                    Meaning::Stray
                };
                let text = message(&format!("round 3 {group}"));
                assert_eq!(of(Layout::Groups, n, &text), expect);
            }
            let all = message("round 0 all");
            assert_eq!(of(Layout::Own, n, &all), Meaning::Round(0));
        }
    }

    #[test]
    fn no_two_connections_share_a_source() {
        let sources: std::collections::HashSet<_> = (0..200_000).map(source).collect();
        assert_eq!(sources.len(), 200_000);
        assert!(sources.iter().all(|source| source.port() >= 1_024));
    }
}
