//! Connections whose records the kernel makes: how they begin, what of them is no data, and how
//! they end.
//!
//! Owns nothing: such a connection has a flag and no [`throng_tls::Link`]. It is written to and
//! read from as a plain one, so nothing here is called for data. Never: shakes hands; `secure.rs`
//! does, by rustls, and comes here.
//!
//! Invariants
//! - The kernel gets the keys when all that rustls has sealed was sent and all that was read was
//!   whole records. So both ends count the same.
//! - Such a connection is shut or closed only behind a word that found room, unless it is given up:
//!   what the kernel holds back above TCP would be lost.

use std::io;

use throng_sys::errno::{EBADMSG, EINVAL, EIO, EMSGSIZE};
use throng_tls::{
    ALERT, CLOSE_NOTIFY, Control, Fault, KERNEL_RECORDS_MAX, Unopened, control, unopened,
};

use super::links::TlsNews;
use super::{Conns, flag};
use crate::{Closed, Kernel};

/// As much as is looked at of a record that is not data. The rest of a longer one comes as another.
const CONTROL_BYTES: usize = 256;

/// What to do after a failed read.
pub(crate) enum Unread {
    /// Read on.
    Again,
    /// The peer has said that nothing more comes.
    End,
    /// The kernel has no more for now, or the connection has ended.
    Over,
}

impl<S, K: Kernel> Conns<S, K> {
    /// Gives the keys to the kernel as soon as it can go on, if it shall.
    pub(super) fn hand_to_kernel(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        if slot.has(flag::LEAVING | flag::SHAKING | flag::SAID_ALL) {
            return;
        }
        let queue = self.queues.get(slot.out);
        if queue.is_some_and(|queue| queue.sealed().is_some()) {
            return;
        }
        let Some(entry) = self.secured.links.get(index) else {
            return;
        };
        let taken = match entry.link.take_keys() {
            None => return,
            Some(Ok(keys)) => self.kernel.seal_from_here(&slot.socket, &keys),
            Some(Err(fault)) => {
                self.tell(index, |_| TlsNews::Broken(fault));
                return self.close(index, Closed::ByApp);
            }
        };
        match taken {
            Ok(()) => {
                slot.flags = slot.flags & !flag::SECURE | flag::KERNEL_TLS;
                self.secured.links.forget(index);
            }
            Err(error) => {
                let number = error.raw_os_error().unwrap_or(0);
                self.tell(index, |_| TlsNews::Broken(Fault::Kernel(number)));
                self.close(index, Closed::ByApp);
            }
        }
    }

    fn is_by_kernel(&self, index: u32) -> bool {
        self.slots
            .get(index)
            .is_some_and(|slot| slot.has(flag::KERNEL_TLS))
    }

    /// Looks at why a connection could not be read from. It may be a record that is not data.
    #[cold]
    pub(crate) fn unread(&mut self, index: u32, error: &io::Error) -> Unread {
        if !(self.is_by_kernel(index) && error.raw_os_error() == Some(EIO)) {
            self.fail(index, error);
            return Unread::Over;
        }
        let Some(slot) = self.slots.get(index) else {
            return Unread::Over;
        };
        let is_leaving = slot.has(flag::LEAVING);
        let mut buffer = [0; CONTROL_BYTES];
        let (kind, count) = match self.kernel.recv_record(&slot.socket, &mut buffer) {
            Ok((Some(kind), count)) => (kind, count),
            Ok((None, _)) => return Unread::End,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Unread::Over,
            Err(error) => {
                self.fail(index, &error);
                return Unread::Over;
            }
        };
        match control(kind, &buffer[..count]) {
            Control::GoOn => Unread::Again,
            Control::End => Unread::End,
            // What a peer says to its end is no news.
            Control::Refuse(..) if is_leaving => Unread::Again,
            Control::Refuse(alert, fault) => {
                self.refuse_by_kernel(index, alert, fault);
                Unread::Over
            }
        }
    }

    /// Whether a call failed because the kernel could not open a record. The connection then ends.
    pub(super) fn is_unopened(&mut self, index: u32, error: &io::Error) -> bool {
        let why = match error.raw_os_error() {
            Some(EBADMSG) => Unopened::Forged,
            Some(EMSGSIZE) => Unopened::TooLong,
            Some(EINVAL) => Unopened::Strange,
            _ => return false,
        };
        let Some(slot) = self
            .slots
            .get(index)
            .filter(|slot| slot.has(flag::KERNEL_TLS) && !slot.has(flag::CLOSED | flag::SAID_ALL))
        else {
            return false;
        };
        // It stands in the way of the alert.
        let _ = self.kernel.take_error(&slot.socket);
        let (alert, fault) = unopened(why);
        self.refuse_by_kernel(index, Some(alert), fault);
        true
    }

    /// Ends a connection whose peer does not keep to TLS, or to what the kernel knows of it.
    fn refuse_by_kernel(&mut self, index: u32, alert: Option<[u8; 2]>, fault: Fault) {
        if let (Some(alert), Some(slot)) = (alert, self.slots.get(index))
            && !slot.has(flag::SAID_ALL)
        {
            // Whoever leaves no room does not hear it.
            let _ = self.kernel.send_record(&slot.socket, ALERT, &alert);
        }
        self.give_up(index, fault);
    }

    /// Tells the peer that nothing more will come, once. False if there is no room for that: then
    /// it is tried again when the kernel says that there is.
    pub(super) fn say_all_by_kernel(&mut self, index: u32) -> bool {
        let Some(slot) = self.slots.get_mut(index) else {
            return true;
        };
        if slot.has(flag::SAID_ALL | flag::CLOSED) {
            return true;
        }
        let said = self.kernel.send_record(&slot.socket, ALERT, &CLOSE_NOTIFY);
        if said.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            self.ask_for_room(index);
            return false;
        }
        // If it failed, the connection has, and whoever uses it next will see that.
        slot.flags |= flag::SAID_ALL;
        true
    }

    /// Whether a key has sealed as many records as it may: then the connection ends in order, and
    /// its client comes back with new keys. Asked whenever a connection's time for something has
    /// come, a ping as a rule, since data passes without a count.
    pub(super) fn has_sealed_enough(&mut self, index: u32) -> bool {
        let Some(slot) = self.slots.get(index) else {
            return false;
        };
        if !slot.has(flag::KERNEL_TLS) || slot.has(flag::LEAVING) {
            return false;
        }
        let sealed = self.kernel.sealed_records(&slot.socket);
        let is_enough = sealed.is_ok_and(|sealed| KERNEL_RECORDS_MAX <= sealed);
        if is_enough {
            self.refuse_by_kernel(index, Some(CLOSE_NOTIFY), Fault::Exhausted);
        }
        is_enough
    }
}
