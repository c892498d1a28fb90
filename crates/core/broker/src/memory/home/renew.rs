//! A home whose options change while it is in use.

use throng_types::{ChannelName, Millis};

use super::Home;
use crate::LiveOptions;
use crate::memory::stream::Stream;

impl Home {
    /// Replaces the options; what exceeds them is dropped when it is next looked at.
    ///
    /// Where history is switched off, streams begin anew: publications without a position come
    /// between those that have one and those that will, and no client may take the two for a whole.
    pub(in crate::memory) fn renew(&mut self, options: LiveOptions, now: Millis) {
        let now = now + self.shift;
        let before = std::mem::replace(&mut self.options.namespaces, options.namespaces);
        self.options.reply = options.reply;
        self.options.streams_max = options.streams_max;
        if !before.keeps_beyond(&self.options.namespaces) {
            return;
        }
        let ended = |(channel, stream): &(&ChannelName, &Stream)| {
            stream.top > 0 && !self.retention(channel).keeps()
        };
        let ended: Vec<ChannelName> = { self.streams.iter() }
            .filter(ended)
            .map(|(channel, _)| channel.clone())
            .collect();
        for channel in ended {
            let Some(key) = self.streams.key(&channel) else {
                continue;
            };
            while self.drop_oldest(key) {}
            self.versions.remove(&key);
            self.ancestry.remove(key);
            self.forgotten = self.forgotten.wrapping_add(1);
            self.note_forgotten(key, &channel);
            let generation = self.forgotten;
            if let Some(stream) = self.streams.at_mut(key) {
                self.idle.remove(&(stream.due, key));
                let interest = stream.interest;
                *stream = Stream::new(generation);
                stream.interest = interest;
            }
            self.rest(key, now);
        }
    }
}
