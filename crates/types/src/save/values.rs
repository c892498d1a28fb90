//! How plain values are saved: numbers, texts, collections, and what this crate defines.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use super::{Save, Saved, save_bytes, save_count, save_option};
use crate::{
    ChannelName, ConnId, Epoch, Millis, Payload, PayloadKind, Position, Publication, Publisher,
    Told, save_choice, save_fields,
};

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

impl Save for Millis {
    fn save(&self, out: &mut Vec<u8>) {
        self.0.save(out);
    }

    fn load(from: &mut Saved<'_>) -> Option<Self> {
        u64::load(from).map(Self)
    }
}

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

impl Save for Epoch {
    fn save(&self, out: &mut Vec<u8>) {
        self.0.save(out);
    }

    fn load(from: &mut Saved<'_>) -> Option<Self> {
        u64::load(from).map(Self)
    }
}

save_choice!(PayloadKind {
    0: Json,
    1: Text,
    2: Binary
});
save_choice!(Told {
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

    /// What is saved is loaded again; nothing shorter is, and no other bytes do harm.
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
            told: Told::Joined,
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
