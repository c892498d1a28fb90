//! A conversation as bytes, for a process that takes over: one in which nothing is under way.

use throng_types::{Save, Saved, save_choice, save_fields};

use super::{ClientEnd, Conversation, Line, Stage};
use crate::ws_events::command::ConversationLimits;

save_choice!(Stage {
    0: Opening,
    1: Talking,
    2: Detached,
    3: Over
});
save_fields!(ConversationLimits {
    pending_bytes_max,
    reply_bytes_max,
    reject_bytes_max,
    events_max,
    retries_max,
    retry_ms
});

impl Conversation {
    /// Appends it; false, and nothing is to be used, if it waits for its backend, or either side
    /// has ended it.
    pub fn save(&self, out: &mut Vec<u8>) -> bool {
        let Line::Free { ask_at } = &self.line else {
            return false;
        };
        self.limits.save(out);
        self.connection_id.save(out);
        self.stage.save(out);
        ask_at.save(out);
        self.keep_alive_s.save(out);
        self.meta.save(out);
        self.grip.save(out);
        let is_idle = self.uplink.messages() == 0 && !self.ask && !self.is_paused;
        let is_here = matches!(self.client, ClientEnd::Here) && !self.backend_closed;
        is_idle && is_here && matches!(self.stage, Stage::Talking | Stage::Detached)
    }

    /// Reads it back.
    pub fn load(from: &mut Saved<'_>) -> Option<Self> {
        Some(Self {
            limits: Save::load(from)?,
            connection_id: Save::load(from)?,
            stage: Save::load(from)?,
            line: Line::Free {
                ask_at: Save::load(from)?,
            },
            keep_alive_s: Save::load(from)?,
            meta: Save::load(from)?,
            grip: Save::load(from)?,
            uplink: Default::default(),
            client: ClientEnd::Here,
            backend_closed: false,
            ask: false,
            is_paused: false,
            failures: 0,
        })
    }
}
