//! Credentials by a key of NATS: a credentials file, as `nsc` writes it, or a file with nothing but
//! a seed.
//!
//! A seed is 32 bytes of Ed25519 behind two bytes that say what it is for, with a checksum, in
//! base32 (github.com/nats-io/nkeys). The server says a nonce, and we sign it.

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use crc::{CRC_16_XMODEM, Crc};
use data_encoding::BASE32_NOPAD;

/// Begins the seed of a user: `S` in five bits, `U` in five.
const SEED_OF_USER: [u8; 2] = [18 << 3 | USER >> 5, (USER & 31) << 3];
/// Begins the public key of a user: `U`.
const USER: u8 = 20 << 3;
const CHECKSUM: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);

/// A key, and what the account says of it.
pub struct Credentials {
    /// The account's token for us, if the file has one.
    pub(crate) jwt: Option<String>,
    key: Ed25519KeyPair,
}

impl Credentials {
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let mut lines = text.lines().map(str::trim);
        let jwt = { &mut lines }
            .find(|line| line.starts_with("eyJ"))
            .map(str::to_owned);
        let mut words = text.split_whitespace();
        let seed = words.find_map(seed)?;
        let key = Ed25519KeyPair::from_seed_unchecked(&seed).ok()?;
        Some(Self { jwt, key })
    }

    /// The public key, as NATS writes it.
    pub(crate) fn public(&self) -> String {
        let mut bytes = vec![USER];
        bytes.extend_from_slice(self.key.public_key().as_ref());
        bytes.extend_from_slice(&CHECKSUM.checksum(&bytes).to_le_bytes());
        BASE32_NOPAD.encode(&bytes)
    }

    /// Signs a server's nonce, which proves that we have the key.
    pub(crate) fn sign(&self, nonce: &str) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(self.key.sign(nonce.as_bytes()))
    }
}

/// The seed of a user that a word is, if it is one.
fn seed(word: &str) -> Option<[u8; 32]> {
    let bytes = BASE32_NOPAD.decode(word.as_bytes()).ok()?;
    let (body, sum) = bytes.split_last_chunk::<2>()?;
    let (kind, seed) = body.split_first_chunk::<2>()?;
    let is_good = *kind == SEED_OF_USER && CHECKSUM.checksum(body) == u16::from_le_bytes(*sum);
    seed.try_into().ok().filter(|_| is_good)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text that `nk -gen user -pubout` of nats-server's own tool would write.
    fn written(seed: [u8; 32]) -> String {
        let mut bytes = SEED_OF_USER.to_vec();
        bytes.extend_from_slice(&seed);
        bytes.extend_from_slice(&CHECKSUM.checksum(&bytes).to_le_bytes());
        BASE32_NOPAD.encode(&bytes)
    }

    /// The pair that the documentation of NATS shows, page "NKeys".
    #[test]
    fn a_public_key_is_that_of_its_seed() {
        let text = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
        let ours = Credentials::read(text).expect("a seed");
        let public = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";
        assert_eq!(ours.public(), public);
    }

    #[test]
    fn a_file_has_a_seed_and_maybe_a_token() {
        let seed = written([7; 32]);
        assert!(seed.starts_with("SU"), "{seed}");
        let alone = Credentials::read(&format!("\n{seed}\n")).expect("a seed");
        assert!(alone.jwt.is_none() && alone.public().starts_with('U'));
        let file = format!(
            "-----BEGIN NATS USER JWT-----\neyJhbGciOi.x.y\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        );
        let both = Credentials::read(&file).expect("a seed");
        assert_eq!(both.jwt.as_deref(), Some("eyJhbGciOi.x.y"));
        assert_eq!(both.public(), alone.public());
        // 64 bytes.
        assert_eq!(both.sign("nonce").len(), 86);
        let broken = seed.replace(&seed[10..12], "AA");
        for wrong in ["", "eyJhbGciOi.x.y", &broken, &seed[1..]] {
            assert!(Credentials::read(wrong).is_none(), "{wrong}");
        }
    }
}
