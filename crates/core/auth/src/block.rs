//! One block of 16 bytes under a secret key: a permutation that needs the key.
//!
//! For names of things, not for messages: equal blocks become equal blocks.

use aws_lc_rs::cipher::{
    AES_128, DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext, UnboundCipherKey,
};

/// AES-128 on single blocks (FIPS 197).
pub struct BlockKey {
    encrypting: EncryptingKey,
    decrypting: DecryptingKey,
}

impl BlockKey {
    /// Expands a key for both directions.
    #[must_use]
    pub fn new(key: [u8; 16]) -> Self {
        let unbound = || UnboundCipherKey::new(&AES_128, &key).expect("a key of 16 bytes");
        Self {
            encrypting: EncryptingKey::ecb(unbound()).expect("AES has this mode"),
            decrypting: DecryptingKey::ecb(unbound()).expect("AES has this mode"),
        }
    }

    /// Encrypts a block; equal blocks give equal results.
    #[must_use]
    pub fn seal(&self, mut block: [u8; 16]) -> [u8; 16] {
        let sealed = self
            .encrypting
            .less_safe_encrypt(&mut block, EncryptionContext::None);
        sealed.expect("one whole block");
        block
    }

    /// The inverse of [`BlockKey::seal`].
    #[must_use]
    pub fn open(&self, mut block: [u8; 16]) -> [u8; 16] {
        let opened = self.decrypting.decrypt(&mut block, DecryptionContext::None);
        opened.expect("one whole block");
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 197, appendix C.1.
    #[test]
    fn it_is_aes() {
        let key = BlockKey::new(std::array::from_fn(|n| n as u8));
        let plain: [u8; 16] = std::array::from_fn(|n| n as u8 * 0x11);
        let sealed = 0x69c4_e0d8_6a7b_0430_d8cd_b780_70b4_c55a_u128.to_be_bytes();
        assert_eq!(key.seal(plain), sealed);
        assert_eq!(key.open(sealed), plain);
    }
}
