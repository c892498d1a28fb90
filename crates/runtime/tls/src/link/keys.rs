//! How the keys leave rustls, or one process for another.
//!
//! Never: seals or opens with them.

use std::mem;
use std::sync::Arc;

use throng_types::{Save, Saved, save_bytes};

use super::aside::Aside;
use super::{Link, PARTIAL_BYTES_MAX, Side};
use crate::Fault;
use crate::lean::Lean;

impl Link {
    /// Takes the keys from rustls, once hands are shaken and all is said.
    pub(super) fn slim(&mut self) -> Result<(), Fault> {
        let may = self.common().is_some_and(|common| !common.wants_write());
        let (true, Some(shaken), Some(captured)) = (may, self.shaken(), self.captured()) else {
            return Ok(());
        };
        let captured = Arc::clone(captured);
        let Side::Server(connection) = mem::replace(&mut self.side, Side::Gone) else {
            return Ok(());
        };
        if let Some(aside) = &mut self.aside {
            aside.captured = None;
        }
        let (of_client, of_server) = captured.take();
        let secrets = connection.dangerous_into_kernel_connection();
        let lean = secrets
            .map_err(Fault::Refused)
            .and_then(|(secrets, _)| Lean::new(secrets, (of_server, of_client), shaken));
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
/// Whoever loads them must not seal before the one that saved them has stopped doing so, or a nonce
/// would be used twice.
impl Save for Link {
    fn save(&self, out: &mut Vec<u8>) {
        match &self.side {
            Side::Lean(lean) => lean.save(out),
            _ => debug_assert!(false, "a link of rustls' does not move"),
        }
        let partial = self.aside.as_ref().map(|aside| &*aside.partial);
        save_bytes(partial.unwrap_or_default(), out);
    }

    fn load(from: &mut Saved<'_>) -> Option<Self> {
        let lean = Lean::load(from).filter(Lean::is_sound)?;
        let partial = from.bytes()?;
        let aside = Aside {
            partial: partial.to_vec(),
            ..Aside::default()
        };
        let link = Self::new(Side::Lean(Box::new(lean)), aside);
        (partial.len() <= PARTIAL_BYTES_MAX).then_some(link)
    }
}
