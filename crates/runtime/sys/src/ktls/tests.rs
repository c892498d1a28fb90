//! What the kernel is told, and, where it speaks TLS, that both ends understand each other.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::AsFd as _;

use super::probe::pair;
use super::*;

const KEY: [u8; 32] = [3; 32];

fn keys(cipher: Cipher, is_tls13: bool, iv: &[u8; 12], sequence: u64) -> Keys<'_> {
    Keys {
        cipher,
        is_tls13,
        key: &KEY[..cipher.key_bytes()],
        iv,
        sequence,
    }
}

/// Two ends that speak TLS, if this machine's kernel does.
fn ends(cipher: Cipher, is_tls13: bool) -> Option<(TcpStream, TcpStream)> {
    if let Err(lack) = probe() {
        println!("skipped, nothing is proved: {lack}");
        return None;
    }
    let (here, there) = pair().unwrap();
    let (one, other) = ([5; 12], [6; 12]);
    let one = keys(cipher, is_tls13, &one, 7);
    let other = keys(cipher, is_tls13, &other, 1 << 40);
    begin(here.as_fd(), &one, &other).unwrap();
    begin(there.as_fd(), &other, &one).unwrap();
    Some((here, there))
}

#[test]
fn keys_look_as_the_kernel_wants_them() {
    let iv: [u8; 12] = std::array::from_fn(|at| at as u8);
    let (packed, used) = keys(Cipher::Aes128Gcm, true, &iv, 0x0102).pack().unwrap();
    assert_eq!(used, 40);
    assert_eq!(packed[..2], 0x0304_u16.to_ne_bytes());
    assert_eq!(packed[2..4], 51_u16.to_ne_bytes());
    assert_eq!(packed[4..12], iv[4..]);
    assert_eq!(packed[12..28], KEY[..16]);
    assert_eq!(packed[28..32], iv[..4]);
    assert_eq!(packed[32..40], [0, 0, 0, 0, 0, 0, 1, 2]);
    let (packed, used) = keys(Cipher::ChaCha20Poly1305, false, &iv, 1)
        .pack()
        .unwrap();
    assert_eq!(used, 56);
    assert_eq!(packed[..2], 0x0303_u16.to_ne_bytes());
    assert_eq!((&packed[4..16], packed[55]), (&iv[..], 1));
    let mut short = keys(Cipher::Aes256Gcm, true, &iv, 1);
    assert_eq!(short.pack().unwrap().1, 56);
    short.key = &KEY[..16];
    assert!(short.pack().is_none());
}

#[test]
fn without_the_module_a_connection_stays_as_it_is() {
    if probe().is_ok() {
        println!("not asked: this kernel speaks TLS");
        return;
    }
    let (here, mut there) = pair().unwrap();
    let iv = [0; 12];
    let some = keys(Cipher::Aes128Gcm, true, &iv, 0);
    assert!(begin(here.as_fd(), &some, &some).is_err());
    (&here).write_all(b"plain").unwrap();
    let mut bytes = [0; 5];
    there.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"plain");
}

#[test]
fn data_and_other_records_pass() {
    for cipher in Cipher::ALL {
        for is_tls13 in [true, false] {
            let Some((mut here, mut there)) = ends(cipher, is_tls13) else {
                return;
            };
            let long: Vec<u8> = (0..40_000_u32).map(|n| n as u8).collect();
            let mut back = vec![0; long.len()];
            here.write_all(&long).unwrap();
            there.read_exact(&mut back).unwrap();
            assert!(back == long, "{cipher}");
            assert_eq!(sealed_records(here.as_fd()).unwrap(), (cipher, 7 + 3));
            there.write_all(b"data").unwrap();
            assert_eq!(send_record(there.as_fd(), 21, &[1, 0]).unwrap(), 2);
            let mut bytes = [0; 16];
            assert_eq!(here.read(&mut bytes).unwrap(), 4);
            for _ in 0..2 {
                // It stays until it is taken as what it is.
                let error = here.read(&mut bytes).unwrap_err();
                assert_eq!(error.raw_os_error(), Some(libc::EIO));
            }
            let taken = recv_record(here.as_fd(), &mut bytes).unwrap();
            assert_eq!((taken, &bytes[..2]), ((Some(21), 2), &[1, 0][..]));
            there.write_all(b"more").unwrap();
            let taken = recv_record(here.as_fd(), &mut bytes).unwrap();
            assert_eq!((taken, &bytes[..4]), ((Some(23), 4), &b"more"[..]));
            drop(there);
            assert_eq!(recv_record(here.as_fd(), &mut bytes).unwrap(), (None, 0));
        }
    }
}
