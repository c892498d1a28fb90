//! Way of the keys out of rustls, or from one process to another.
//!
//! Never: seals or opens with them.

use std::mem;

use rustls::CommonState;
use throng_types::{Load, Save, Saved};

use super::aside::Aside;
use super::{Link, PARTIAL_BYTES_MAX, Side, record_bytes};
use crate::lean::Lean;
use crate::suites::overhear;
use crate::talk::Words;
use crate::{Fault, Shaken};

impl Link {
    /// Whether another process can go on with it, once [`Link::leave_rustls`] has taken its keys
    /// out. It cannot during the handshake, nor for a client's end.
    #[must_use]
    pub fn can_move(&self) -> bool {
        !self.has_failed
            && match &self.side {
                Side::Lean(_) => true,
                // What rustls has seen of a handshake message that is not whole is still in there.
                Side::Server(_) => self.shaken().is_some() && !self.holds_whole_record(),
                Side::Client(_) | Side::Gone => false,
            }
    }

    fn holds_whole_record(&self) -> bool {
        let partial = self.aside.as_ref().map(|aside| &*aside.partial);
        partial.and_then(record_bytes).is_some()
    }

    /// Takes the keys from rustls, so that the link can be saved and goes on with records of our
    /// own, wherever it does. What rustls had yet to say is appended to `wire`. False, and nothing
    /// changes, where [`Link::can_move`] says no.
    ///
    /// The caller has neither said that nothing more comes nor heard it.
    ///
    /// # Errors
    /// If rustls does not tell the keys; the connection cannot go on.
    pub fn leave_rustls(&mut self, wire: &mut Vec<u8>) -> Result<bool, Fault> {
        let shaken = match &self.side {
            Side::Server(_) if self.can_move() => self.shaken(),
            _ => None,
        };
        if let Some(shaken) = shaken {
            if shaken.is_tls13 {
                // The answer to an update of keys waits for the next record, and would be lost.
                self.say(Words::Waiting, wire)?;
            }
            self.take_keys(shaken)?;
        }
        Ok(matches!(self.side, Side::Lean(_)))
    }

    /// Takes the keys from rustls, once the handshake is done and all is said, if records shall be
    /// ours.
    pub(super) fn slim(&mut self) -> Result<(), Fault> {
        match self.shaken() {
            Some(shaken) if self.is_for_lean() => self.take_keys(shaken),
            _ => Ok(()),
        }
    }

    fn take_keys(&mut self, shaken: Shaken) -> Result<(), Fault> {
        if self.common().is_none_or(CommonState::wants_write) {
            return Ok(());
        }
        let Side::Server(connection) = mem::replace(&mut self.side, Side::Gone) else {
            return Ok(());
        };
        if let Some(aside) = &mut self.aside {
            aside.is_for_lean = false;
        }
        let (given, secrets) = overhear(|| connection.dangerous_into_kernel_connection());
        let lean = given
            .map_err(Fault::Refused)
            .and_then(|(keys, _)| Lean::new(keys, &secrets, shaken));
        match lean {
            Ok(lean) => self.side = Side::Lean(Box::new(lean)),
            Err(fault) => {
                self.fail();
                return Err(fault);
            }
        }
        Ok(())
    }
}

/// The keys, too, stand in the bytes: they are for a process that may know them, and are not wiped.
/// The process that loads them must not seal before the one that saved them has stopped doing so,
/// or a nonce would be used twice.
impl Save for Link {
    fn save(&self, out: &mut Vec<u8>) {
        match &self.side {
            Side::Lean(lean) => lean.save(out),
            _ => debug_assert!(false, "it has not left rustls"),
        }
        let partial = self.aside.as_ref().map(|aside| &*aside.partial);
        partial.unwrap_or_default().save(out);
    }
}

impl Load for Link {
    fn load(from: &mut Saved<'_>) -> Option<Self> {
        let lean = Lean::load(from)?;
        let partial = from.bytes()?;
        let aside = Aside {
            partial: partial.to_vec(),
            ..Aside::default()
        };
        let link = Self::new(Side::Lean(Box::new(lean)), aside);
        (partial.len() <= PARTIAL_BYTES_MAX).then_some(link)
    }
}
