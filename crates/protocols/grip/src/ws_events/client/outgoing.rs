//! What waits for the backend: what a request takes of it, and what an answer takes off it.

use super::{Conversation, InFlight};
use crate::ws_events::event::{Event, EventKind, encode_event};
use crate::ws_events::reply::ReplyFault;

impl Conversation {
    /// Takes what the backend accepted off the front, and says whether it has seen the close.
    pub(super) fn accept(
        &mut self,
        sent: &InFlight,
        accepted: Option<usize>,
    ) -> Result<bool, ReplyFault> {
        let offered = sent.content_bytes + sent.close_bytes;
        let accepted = accepted.unwrap_or(offered);
        if accepted > offered {
            return Err(ReplyFault::Accepted);
        }
        let content = accepted.min(sent.content_bytes);
        let messages = self.remove(content, sent.messages);
        if sent.is_partial && messages == 0 && content == 0 {
            return Err(ReplyFault::Accepted);
        }
        self.replay_messages = sent.messages - messages;
        self.replay_bytes = sent.content_bytes - content;
        if !sent.has_close || content < sent.content_bytes {
            return Ok(false);
        }
        // There is nothing left to wait for, so the close cannot be put off.
        if accepted < offered {
            return Err(ReplyFault::Accepted);
        }
        self.pending.clear();
        self.pending_bytes = 0;
        self.replay_messages = 0;
        self.replay_bytes = 0;
        self.close_sent = true;
        Ok(true)
    }

    /// Removes bytes from the front, at most so many messages, and says how many went whole.
    fn remove(&mut self, mut bytes: usize, messages_max: usize) -> usize {
        let mut removed = 0;
        while removed < messages_max {
            let Some((_, content)) = self.pending.front_mut() else {
                break;
            };
            if bytes < content.len() {
                content.drain(..bytes);
                self.pending_bytes -= bytes;
                break;
            }
            bytes -= content.len();
            self.pending_bytes -= content.len();
            self.pending.pop_front();
            removed += 1;
        }
        removed
    }

    pub(super) fn needs_update(&self) -> bool {
        if self.is_lost && !self.disconnect_sent || self.refresh_due {
            return true;
        }
        if self.is_paused {
            return false;
        }
        let has_news =
            self.pending.len() > self.replay_messages || self.pending_bytes > self.replay_bytes;
        let close_due = self.client_close.is_some() && !self.close_sent;
        !self.pending.is_empty() && has_news || close_due
    }

    pub(super) fn gather(&self, sent: &mut InFlight) {
        for (kind, content) in self.pending.iter().take(self.limits.events_max) {
            let is_bare = content.is_empty() && matches!(kind, EventKind::Ping | EventKind::Pong);
            let content = Some(content.as_slice()).filter(|_| !is_bare);
            encode_event(
                Event {
                    kind: *kind,
                    content,
                },
                &mut sent.body,
            );
            sent.messages += 1;
            sent.content_bytes += content.map_or(0, <[u8]>::len);
        }
        sent.is_partial = sent.messages < self.pending.len();
        let Some(close) = self.client_close.as_deref().filter(|_| !self.close_sent) else {
            return;
        };
        if sent.messages < self.limits.events_max {
            let content = Some(close).filter(|close| !close.is_empty());
            encode_event(
                Event {
                    kind: EventKind::Close,
                    content,
                },
                &mut sent.body,
            );
            sent.close_bytes = close.len();
            sent.has_close = true;
        }
    }
}
