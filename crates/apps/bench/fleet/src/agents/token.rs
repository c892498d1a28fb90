//! Proof of the token without sending it: HMAC-SHA256 over the role and both nonces.
//!
//! The role keeps one side's proof from being sent back as the other's, the nonces keep an old one
//! from being used again.

use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign, verify as verify_mac};

use super::Nonce;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Controller,
    Agent,
}

fn message(role: Side, agent: Nonce, controller: Nonce) -> Vec<u8> {
    let role: &[u8] = match role {
        Side::Controller => b"throng-bench 1 controller",
        Side::Agent => b"throng-bench 1 agent",
    };
    [role, &agent.to_be_bytes(), &controller.to_be_bytes()].concat()
}

fn key(token: &str) -> Key {
    Key::new(HMAC_SHA256, token.as_bytes())
}

pub fn proof(token: &str, role: Side, agent: Nonce, controller: Nonce) -> String {
    let tag = sign(&key(token), &message(role, agent, controller));
    let digits = tag.as_ref().iter().map(|byte| format!("{byte:02x}"));
    digits.collect()
}

/// Checks a proof, in a time that does not depend on how wrong it is.
pub fn verify(token: &str, role: Side, agent: Nonce, controller: Nonce, proof: &str) -> bool {
    let pairs = proof.as_bytes().chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return false;
    }
    let digits = pairs.map(|pair| {
        let digit = |byte: u8| char::from(byte).to_digit(16);
        Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8)
    });
    let message = message(role, agent, controller);
    digits
        .collect::<Option<Vec<u8>>>()
        .is_some_and(|bytes| verify_mac(&key(token), &message, &bytes).is_ok())
}

pub(super) fn write_nonce(nonce: Nonce) -> String {
    format!("{nonce:032x}")
}

pub(super) fn read_nonce(text: &str) -> Option<Nonce> {
    let plain = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain.then(|| Nonce::from_str_radix(text, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_right_for_its_token_role_and_nonces_alone() {
        let right = proof("secret", Side::Agent, 1, 2);
        assert_eq!(right.len(), 64);
        assert!(verify("secret", Side::Agent, 1, 2, &right));
        for (token, role, a, c) in [
            ("other", Side::Agent, 1, 2),
            ("secret", Side::Controller, 1, 2),
            ("secret", Side::Agent, 2, 1),
            ("", Side::Agent, 1, 2),
        ] {
            assert!(!verify(token, role, a, c, &right));
        }
        for wrong in ["", "0", &right[2..], "zz", &format!("{right}00"), "é"] {
            assert!(!verify("secret", Side::Agent, 1, 2, wrong), "{wrong}");
        }
    }

    #[test]
    fn nonces_have_one_form() {
        assert_eq!(read_nonce(&write_nonce(u128::MAX)), Some(u128::MAX));
        for wrong in [
            "",
            "1",
            &"g".repeat(32),
            &format!("+{}", "0".repeat(31)),
            &"0".repeat(33),
        ] {
            assert_eq!(read_nonce(wrong), None, "{wrong}");
        }
    }
}
