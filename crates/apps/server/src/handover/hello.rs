//! The first words of the old process: the format's version, and what every new process needs.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use throng_types::{Load, Save, Saved};

use crate::options::Start;

const MAGIC: [u8; 8] = *b"throngHO";
/// The version of the format: of every message, and of all state as bytes. It rises with each
/// change of what any room saves. A process refuses every version but its own. A kind of item or
/// session that is new beside the others needs no other version: a process that does not know it
/// refuses it.
pub const VERSION: u32 = 11;
/// The most messages of listeners: as many addresses as a shard may listen on.
const GROUPS_MAX: usize = 16;

/// First message, from the old process.
#[derive(Save)]
pub(crate) struct Hello {
    /// Values that were drawn at the start of the first of all processes.
    pub(crate) start: Start,
    /// The zero of all times, on the machine's own clock, in microseconds.
    pub(crate) zero_us: u64,
    /// Number of shards, which the new process keeps.
    pub(crate) shards: u8,
    /// Number of addresses that are listened on; a message for each follows.
    pub(crate) addresses: u8,
    pub(crate) pid: u32,
    /// Version of the old process's software, for the log.
    pub(crate) software: String,
}

impl Hello {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = (MAGIC, VERSION).saved();
        self.save(&mut out);
        out
    }

    /// Reads it, if it is of a version that this program knows.
    pub(super) fn of_bytes(bytes: &[u8]) -> Result<Self, String> {
        let mut from = Saved::new(bytes);
        match <([u8; 8], u32)>::load(&mut from) {
            Some((MAGIC, VERSION)) => {}
            Some((MAGIC, other)) => {
                return Err(format!(
                    "its hand-over format has version {other}; this program knows only version \
                     {VERSION}"
                ));
            }
            _ => return Err("its first message does not begin a hand-over".to_owned()),
        }
        let hello = Self::load(&mut from).filter(|_| from.is_empty());
        let hello = hello.filter(|hello| usize::from(hello.addresses) <= GROUPS_MAX);
        hello.ok_or_else(|| "its first message is damaged".to_owned())
    }
}

/// The listeners at one address, one for each shard.
pub(crate) struct Group {
    /// As configured; port 0 is any.
    pub(crate) wanted: SocketAddr,
    pub(crate) bound: SocketAddr,
    pub(crate) listeners: Vec<OwnedFd>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello {
        Hello {
            start: Start {
                unix_ms: 1,
                seed: 2,
                secret: [3; 32],
            },
            zero_us: 4,
            shards: 5,
            addresses: 6,
            pid: 7,
            software: "1.2.3".to_owned(),
        }
    }

    /// The first message of a build that wrote version 6.
    const OF_VERSION_6: &[u8] = b"throngHO\x06\0\0\0\
        \x0e\xcf\xaf\x0a\xa2\x01\0\0\xc2\x3b\x66\x16\xbf\xba\x91\xee\
        0123456789abcdef0123456789abcdef\
        \x22\x0b\x98\xdd\x99\x04\0\0\x01\x02\xa3\x52\0\0\x05\0\0\x000.1.0";

    #[test]
    fn a_build_of_another_format_is_refused_by_its_version() {
        let why = Hello::of_bytes(OF_VERSION_6).err().expect("a refusal");
        let words = "its hand-over format has version 6; this program knows only version 11";
        assert_eq!(why, words);
    }

    #[test]
    fn a_first_message_is_understood_or_refused() {
        let bytes = hello().to_bytes();
        let read = Hello::of_bytes(&bytes).expect("its own version");
        assert_eq!(
            (read.zero_us, read.shards, read.software.as_str()),
            (4, 5, "1.2.3")
        );
        for (at, wrong, says) in [
            (0, b'x', "does not begin"),
            (8, 0xff, "format has version 255;"),
            (bytes.len() - 1, 0xff, "damaged"),
        ] {
            let mut bytes = bytes.clone();
            bytes[at] = wrong;
            let error = Hello::of_bytes(&bytes).err().expect("a refusal");
            assert!(error.contains(says), "{error}");
        }
        for cut in 0..bytes.len() {
            assert!(Hello::of_bytes(&bytes[..cut]).is_err(), "{cut}");
        }
        let crowd = Hello {
            addresses: 17,
            ..hello()
        };
        assert!(Hello::of_bytes(&crowd.to_bytes()).is_err());
    }
}
