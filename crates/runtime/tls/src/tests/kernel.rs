//! Keys for a kernel: when they can be taken, what they say, and what follows from records that are
//! not data. What a kernel does with them is tested where one is: `engine/tests/loopback`.

use rustls::ConnectionTrafficSecrets;
use rustls::crypto::cipher::{AeadKey, Iv};

use super::records::{only, suites};
use super::*;
use crate::kernel::KernelKey;

/// Wherever the bytes are cut, keys are given at a record's border and not before.
#[test]
fn keys_are_given_when_all_that_was_read_was_whole() {
    let (tls, client) = both_with(Records::Kernel);
    for suite in suites() {
        let client = only(&client, suite);
        let is_tls13 = suite.tls13().is_some();
        for cut in 0.. {
            let (mut server, mut client) = ends(&tls, &client);
            assert!(server.link.take_keys().is_none(), "hands are not shaken");
            carry(&mut server, &mut client, 1000);
            assert!(client.link.take_keys().is_none(), "it is the client's");
            client.link.seal(b"hello", &mut client.wire).unwrap();
            client.link.seal(b"world", &mut client.wire).unwrap();
            let said = std::mem::take(&mut client.wire);
            if said.len() < cut {
                break;
            }
            let one = said.len() / 2;
            server.take(&said[..cut]);
            let whole = cut / one;
            let is_border = cut % one == 0;
            let keys = server.link.take_keys();
            assert_eq!(keys.is_some(), is_border, "{suite:?} {cut} of {one}");
            assert_eq!(server.plain.len(), 5 * whole);
            let Some(keys) = keys else {
                // It goes on as it is.
                server.take(&said[cut..]);
                assert_eq!(server.plain, b"helloworld");
                server.link.seal(b"back", &mut server.wire).unwrap();
                carry(&mut server, &mut client, 1000);
                assert_eq!(client.plain, b"back");
                continue;
            };
            let keys = keys.unwrap();
            // In TLS 1.2 each side's Finished has been sealed with these keys, and in TLS 1.3
            // the ticket.
            assert_eq!(keys.sends.sequence(), 1, "{suite:?}");
            let before = u64::from(!is_tls13);
            assert_eq!(keys.receives.sequence(), before + whole as u64, "{suite:?}");
            assert_eq!(keys.sends.is_tls13(), is_tls13);
            assert_ne!(keys.sends.key(), keys.receives.key());
            // Nothing more comes of it.
            server.take(&said[cut..]);
            assert_eq!(server.plain.len(), 5 * whole);
            server.link.seal(b"back", &mut server.wire).unwrap();
            assert!(server.wire.is_empty() && server.link.take_keys().is_none());
        }
    }
}

#[test]
fn other_records_keep_their_keys() {
    for records in [Records::Rustls, Records::Lean] {
        let (tls, client) = both_with(records);
        let (mut server, mut client) = ends(&tls, &client);
        carry(&mut server, &mut client, 1000);
        assert!(server.link.take_keys().is_none());
    }
}

/// rustls counts by XOR from the base and the kernel adds to it: in TLS 1.2 with GCM they must
/// not meet.
#[test]
fn no_nonce_is_used_twice() {
    let gcm = |iv: [u8; 12]| ConnectionTrafficSecrets::Aes256Gcm {
        key: AeadKey::from([7; 32]),
        iv: Iv::new(iv),
    };
    let explicit = |key: &KernelKey| u64::from_be_bytes(*key.iv().last_chunk().unwrap());
    for base in [0, 1, 2, u64::MAX, u64::MAX / 2, 1 << 63] {
        let mut iv = [9; 12];
        iv[4..].copy_from_slice(&base.to_be_bytes());
        let kernel = KernelKey::new(false, 3, &gcm(iv)).unwrap().apart();
        assert_eq!((&kernel.iv()[..4], kernel.sequence()), (&[9; 4][..], 3));
        let start = explicit(&kernel);
        for used in 0..3 {
            assert!(start.wrapping_sub(base ^ used) > 1 << 62, "{base:x}");
            assert!((base ^ used).wrapping_sub(start) > 1 << 62, "{base:x}");
        }
        // Where a nonce is base and sequence number alone, both agree.
        assert_eq!(KernelKey::new(true, 3, &gcm(iv)).unwrap().apart().iv(), &iv);
        let chacha = ConnectionTrafficSecrets::Chacha20Poly1305 {
            key: AeadKey::from([7; 32]),
            iv: Iv::new(iv),
        };
        let chacha = KernelKey::new(false, 3, &chacha).unwrap().apart();
        assert_eq!(chacha.iv(), &iv);
    }
}

#[test]
fn what_is_not_data_ends_or_is_refused() {
    let told = |kind, said: &[u8]| match control(kind, said) {
        Control::GoOn => "go on".to_owned(),
        Control::End => "end".to_owned(),
        Control::Refuse(alert, fault) => format!("{alert:?}: {fault}"),
    };
    for (kind, said, what) in [
        (ALERT, &[1, 0][..], "end"),
        (ALERT, &[2, 0], "end"),
        (ALERT, &[1, 90], "go on"),
        (
            ALERT,
            &[2, 40],
            "None: received fatal alert: HandshakeFailure",
        ),
        (ALERT, &[1], "Some([2, 50])"),
        (ALERT, &[], "Some([2, 50])"),
        (ALERT, &[1, 100], "Some([2, 50])"),
        (ALERT, &[3, 40], "Some([2, 47])"),
        (
            22,
            &[24, 0, 0, 1, 0],
            "Some([1, 0]): the client asks for new keys",
        ),
        (22, &[24], "Some([1, 0])"),
        (22, &[1, 0, 0, 1], "Some([1, 100])"),
        (22, &[20], "Some([2, 10])"),
        (22, &[], "Some([2, 10])"),
        (20, &[1], "Some([2, 10])"),
        (99, &[1], "Some([2, 10])"),
    ] {
        let told = told(kind, said);
        assert!(told.contains(what), "{kind} {said:?}: {told}");
    }
    for (why, alert) in [
        (Unopened::Forged, 20),
        (Unopened::TooLong, 22),
        (Unopened::Strange, 70),
    ] {
        assert_eq!(unopened(why).0, [2, alert]);
    }
}
