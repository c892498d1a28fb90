//! The client's side of SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), without channel
//! binding.
//!
//! Passwords are used as they are: SASLprep changes nothing in those of printable ASCII.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, SHA512, digest};
use aws_lc_rs::hmac::{HMAC_SHA256, HMAC_SHA512, Key, Tag, sign};
use aws_lc_rs::pbkdf2::{PBKDF2_HMAC_SHA256, PBKDF2_HMAC_SHA512, derive};
use aws_lc_rs::{digest, hmac, pbkdf2};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::num::NonZeroU32;
use throng_types::Rng;

/// More rounds than any server asks for are refused: they would only cost time.
const ROUNDS_MAX: u32 = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hash {
    Sha256,
    Sha512,
}

impl Hash {
    const fn parts(
        self,
    ) -> (
        pbkdf2::Algorithm,
        hmac::Algorithm,
        &'static digest::Algorithm,
    ) {
        match self {
            Self::Sha256 => (PBKDF2_HMAC_SHA256, HMAC_SHA256, &SHA256),
            Self::Sha512 => (PBKDF2_HMAC_SHA512, HMAC_SHA512, &SHA512),
        }
    }
}

/// Printable randomness for an exchange.
pub(crate) fn nonce(rng: &mut Rng) -> String {
    STANDARD.encode(rng.bytes::<18>())
}

pub(crate) struct Scram {
    hash: Hash,
    password: String,
    nonce: String,
    first_bare: String,
    server_signature: Option<Tag>,
}

impl Scram {
    /// `nonce` is random; printable, without commas. PostgreSQL expects no user here.
    pub(crate) fn new(hash: Hash, user: &str, password: &str, nonce: String) -> Self {
        let user = user.replace('=', "=3D").replace(',', "=2C");
        Self {
            hash,
            password: password.to_owned(),
            first_bare: format!("n={user},r={nonce}"),
            nonce,
            server_signature: None,
        }
    }

    pub(crate) fn first(&self) -> String {
        format!("n,,{}", self.first_bare)
    }

    /// The client's final message, from the server's first one; nothing if that is wrong.
    pub(crate) fn last(&mut self, server: &[u8]) -> Option<String> {
        let server = str::from_utf8(server).ok()?;
        let nonce = field(server, "r=")?;
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return None;
        }
        let salt = STANDARD.decode(field(server, "s=")?).ok()?;
        let rounds: u32 = field(server, "i=")?.parse().ok()?;
        let rounds = NonZeroU32::new(rounds).filter(|rounds| rounds.get() <= ROUNDS_MAX)?;
        let (pbkdf2, hmac, sha) = self.hash.parts();
        let mut salted = vec![0; sha.output_len()];
        let password = self.password.as_bytes();
        derive(pbkdf2, rounds, &salt, password, &mut salted);
        let salted = Key::new(hmac, &salted);
        let client_key = sign(&salted, b"Client Key");
        let stored = digest(sha, client_key.as_ref());
        let without_proof = format!("c=biws,r={nonce}");
        let signed = format!("{},{server},{without_proof}", self.first_bare);
        let signature = sign(&Key::new(hmac, stored.as_ref()), signed.as_bytes());
        let pairs = client_key.as_ref().iter().zip(signature.as_ref());
        let proof: Vec<u8> = pairs.map(|(key, mask)| key ^ mask).collect();
        let server_key = sign(&salted, b"Server Key");
        let server_key = Key::new(hmac, server_key.as_ref());
        self.server_signature = Some(sign(&server_key, signed.as_bytes()));
        Some(format!("{without_proof},p={}", STANDARD.encode(proof)))
    }

    /// Whether the server's final message shows that it knows the password too.
    pub(crate) fn is_proven(&self, server: &[u8]) -> bool {
        let signature = str::from_utf8(server).ok().and_then(|it| field(it, "v="));
        let signature = signature.and_then(|it| STANDARD.decode(it).ok());
        match (signature, &self.server_signature) {
            (Some(theirs), Some(ours)) => verify_slices_are_equal(&theirs, ours.as_ref()).is_ok(),
            _ => false,
        }
    }
}

fn field<'a>(message: &'a str, name: &str) -> Option<&'a str> {
    message.split(',').find_map(|part| part.strip_prefix(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The dialogue of RFC 7677, section 3.
    #[test]
    fn the_dialogue_of_the_rfc() {
        let mut scram = Scram::new(
            Hash::Sha256,
            "user",
            "pencil",
            "rOprNGfwEbeRWgbNEkqO".to_owned(),
        );
        assert_eq!(scram.first(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let server = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                      s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let last = scram.last(server.as_bytes()).unwrap();
        assert_eq!(
            last,
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
             p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        assert!(scram.is_proven(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
        assert!(!scram.is_proven(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5="));
        assert!(!scram.is_proven(b"e=other-error"));
    }

    #[test]
    fn a_server_that_does_not_answer_to_us_is_refused() {
        let first = |text: &str| {
            let mut scram = Scram::new(Hash::Sha512, "", "x", "abc".to_owned());
            scram.last(text.as_bytes())
        };
        assert!(first("r=abcd,s=QUJD,i=4096").is_some());
        for wrong in [
            "r=abc,s=QUJD,i=4096",
            "r=xbcd,s=QUJD,i=4096",
            "r=abcd,s=?,i=4096",
            "r=abcd,s=QUJD,i=0",
            "r=abcd,s=QUJD,i=1000001",
            "s=QUJD,i=1",
            "",
        ] {
            assert!(first(wrong).is_none(), "{wrong}");
        }
    }
}
