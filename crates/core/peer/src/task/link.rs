//! Links in the hands of tasks.

use std::future::poll_fn;
use std::task::Poll;

use super::run::{Key, LinkState, Net, Wish};
use crate::{Dial, DialTls, Ended, LinkId};

/// A connection of a task. Dropping it ends it at once.
pub struct Link {
    net: Net,
    key: Key,
    is_released: bool,
}

impl Link {
    pub(super) fn begin(net: &Net, dial: Dial) -> Self {
        let mut world = net.0.borrow_mut();
        world.next_key += 1;
        let key = Key(world.next_key);
        world.links.insert(key, LinkState::default());
        world.wishes.push(Wish::Dial(key, dial));
        Self {
            net: net.clone(),
            key,
            is_released: false,
        }
    }

    /// Waits until `look` finds something; a link that has ended gives its end when `look` finds
    /// nothing.
    async fn wait<T>(&self, mut look: impl FnMut(&mut LinkState) -> Option<T>) -> Result<T, Ended> {
        poll_fn(|cx| {
            let mut world = self.net.0.borrow_mut();
            let Some(state) = world.links.get_mut(&self.key) else {
                return Poll::Ready(Err(Ended::ByPeer));
            };
            if let Some(found) = look(state) {
                return Poll::Ready(Ok(found));
            }
            if let Some(why) = &state.ended {
                return Poll::Ready(Err(why.clone()));
            }
            state.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    pub(super) async fn established(&self) -> Result<(), Ended> {
        let ready = self.wait(|state| state.is_ready.then_some(state.is_unprotected));
        match ready.await? {
            false => Ok(()),
            true => Err(Ended::Broken("it said something before TLS".to_owned())),
        }
    }

    /// Starts a TLS handshake on a plain link. Both sides have agreed on it, and nothing waits to
    /// be written.
    ///
    /// # Errors
    /// The link's end; the text has the fault of TLS. Input from before the handshake is refused:
    /// an attacker on the network path may have sent it.
    pub async fn secure(&mut self, tls: DialTls) -> Result<(), Ended> {
        {
            let mut world = self.net.0.borrow_mut();
            if let Some(state) = world.links.get_mut(&self.key) {
                state.is_ready = false;
            }
            world.wishes.push(Wish::Secure(self.key, tls));
        }
        self.established().await
    }

    /// Queues bytes to be sent.
    pub fn write(&mut self, bytes: Vec<u8>) {
        let mut world = self.net.0.borrow_mut();
        if let Some(state) = world.links.get_mut(&self.key) {
            state.is_writing = true;
        }
        world.wishes.push(Wish::Write(self.key, bytes));
    }

    /// Waits until the kernel has taken all that was written.
    ///
    /// # Errors
    /// The end of the link.
    pub async fn written(&mut self) -> Result<(), Ended> {
        self.wait(|state| (!state.is_writing).then_some(())).await
    }

    /// Waits for input, and takes all that is there. Dropping the future takes nothing.
    ///
    /// # Errors
    /// The end of the link, after all input.
    pub async fn read(&mut self) -> Result<Vec<u8>, Ended> {
        let read = self.wait(|state| {
            let is_held = std::mem::take(&mut state.is_held);
            let input = Vec::from(std::mem::take(&mut state.input));
            (!input.is_empty()).then_some((input, is_held))
        });
        let (input, is_held) = read.await?;
        if is_held {
            self.net.0.borrow_mut().wishes.push(Wish::Resume(self.key));
        }
        Ok(input)
    }

    /// Ends the link after its queued bytes.
    pub fn finish(mut self) {
        self.leave(Some(Wish::Finish(self.key)));
    }

    /// Gives the link to the peer itself, which gets its events from now on, with the unread input.
    /// `None` if it has ended meanwhile.
    #[must_use]
    pub fn release(mut self) -> Option<(LinkId, Vec<u8>)> {
        let (id, state) = self.leave(None)?;
        let has_ended = state.ended.is_some();
        let id = id.filter(|_| !has_ended)?;
        if state.is_held {
            self.net
                .0
                .borrow_mut()
                .wishes
                .push(Wish::ResumeReleased(id));
        }
        Some((id, Vec::from(state.input)))
    }

    /// Removes the link from the tasks; `wish` is its last one.
    fn leave(&mut self, wish: Option<Wish>) -> Option<(Option<LinkId>, LinkState)> {
        if std::mem::replace(&mut self.is_released, true) {
            return None;
        }
        let mut world = self.net.0.borrow_mut();
        let state = world.links.remove(&self.key)?;
        let is_over = state.ended.is_some();
        if let Some(wish) = wish.filter(|_| !is_over) {
            world.wishes.push(wish);
            return Some((None, state));
        }
        let id = world.names.remove(&self.key);
        if let Some(id) = id {
            world.ids.remove(&id);
        }
        Some((id, state))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.leave(Some(Wish::End(self.key)));
    }
}
