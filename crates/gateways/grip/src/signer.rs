//! Makes the tokens of `Grip-Sig`, each for a while.

use std::cell::RefCell;
use std::rc::Rc;

use throng_auth::{Algorithm, SigningKey, sign};
use throng_grip::sig::{SigClaims, is_pem};
use throng_types::Now;

/// Seconds that one signature is used again; it is valid for an hour.
const SIG_REUSE_S: u64 = 60;

/// A key, and the token that was last made with it.
pub(crate) struct Signer {
    pub(crate) iss: String,
    pub(crate) key: Vec<u8>,
    made: RefCell<Option<(u64, Rc<str>)>>,
}

impl Signer {
    /// Has made nothing yet.
    pub(crate) fn new(iss: &str, key: &[u8]) -> Self {
        Self {
            iss: iss.to_owned(),
            key: key.to_vec(),
            made: RefCell::default(),
        }
    }

    /// A token that is good for most of an hour; none if the key cannot sign.
    pub(crate) fn token(&self, now: Now) -> Option<Rc<str>> {
        let mut made = self.made.borrow_mut();
        if let Some((at_s, token)) = &*made
            && now.unix_s() < at_s + SIG_REUSE_S
        {
            return Some(token.clone());
        }
        let claims = SigClaims::new(&self.iss, now);
        let token = match str::from_utf8(&self.key) {
            Ok(pem) if is_pem(&self.key) => {
                sign(&claims, Algorithm::Es256, SigningKey::EcdsaPem(pem))
                    .or_else(|_| sign(&claims, Algorithm::Rs256, SigningKey::RsaPem(pem)))
            }
            _ => sign(&claims, Algorithm::Hs256, SigningKey::HmacSecret(&self.key)),
        };
        // The key was tried at the start.
        let token: Rc<str> = token.ok()?.into();
        *made = Some((now.unix_s(), token.clone()));
        Some(token)
    }
}
