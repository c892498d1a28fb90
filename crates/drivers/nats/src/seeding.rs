//! Reads the seeds of a stream, and replaces them, for turns of channels that have no message.

use std::collections::hash_map::Entry;

use throng_types::ChannelName;

use crate::api::{self, EXPECTED, Given, WRONG_SEQUENCE};
use crate::batch::EmptyEpoch;
use crate::flight::Flight;
use crate::node::Nats;
use crate::seeds::{Seed, decode, encode, renewed};
use crate::stream::Stage;

impl Nats {
    /// Epochs that a channel without a message may have, newest first.
    pub(crate) fn empty_epochs(&self, channel: &ChannelName) -> Vec<EmptyEpoch> {
        let stream = self.names.stream_of(channel, true);
        let server = self.link.map_or(0, |link| link.server);
        let list = self.seeds.get(&*stream).map_or(&[][..], |it| &it.list);
        let epoch = |seed: &Seed| EmptyEpoch {
            epoch: seed.epoch(channel),
            is_of_this_server: seed.server == server,
        };
        list.iter().map(epoch).collect()
    }

    /// Reads the seeds for a turn of a channel that has no message.
    pub(crate) fn ask_seeds(&mut self, channel: &ChannelName) {
        let Some(turn) = self.turn(channel) else {
            return;
        };
        turn.stage = Stage::Seeds;
        let stream = self.names.stream_of(channel, true);
        let seeds = self.seeds.entry(stream.as_str().into()).or_default();
        seeds.waiting.push(channel.clone());
        if seeds.waiting.len() == 1 {
            self.read_seeds(&stream);
        }
    }

    fn read_seeds(&mut self, stream: &str) {
        let subject = self.names.seeds(stream);
        let body = format!("{{\"last_by_subj\":\"{subject}\"}}");
        self.ask_newest(Flight::Seeds(stream.into()), stream, &body);
    }

    /// Seeds of a stream are here.
    pub(crate) fn seeds_found(&mut self, stream: &str, given: Option<Given>) {
        let fresh = Seed {
            number: self.core.desk.rng.next_u64(),
            server: self.link.map_or(0, |link| link.server),
            time_ms: self.time_ms(),
        };
        let seq = given.as_ref().map_or(0, |given| given.seq).to_string();
        let stored = given.map_or(Some(Vec::new()), |given| decode(&given.payload));
        let Some(stored) = stored else {
            tracing::warn!(
                stream,
                "the seeds of epochs are of a form that is not known"
            );
            return self.no_seeds(stream);
        };
        let (list, is_new) = renewed(stored, fresh, self.keep_ms);
        if !is_new {
            return self.has_seeds(stream, list);
        }
        let text = encode(&list);
        if let Entry::Occupied(mut seeds) = self.seeds.entry(stream.into()) {
            seeds.get_mut().next = list;
            let subject = self.names.seeds(stream);
            let headers = [(EXPECTED, &*seq)];
            let flight = Flight::SeedsStored(stream.into());
            self.ask(flight, &subject, &headers, text.as_bytes());
        }
    }

    /// NATS has said whether the seeds of this node are stored.
    pub(crate) fn seeds_stored(&mut self, stream: &str, payload: &[u8]) {
        match api::stored(payload) {
            Ok(_) => {
                let next = { self.seeds.get_mut(stream) }.map(|it| std::mem::take(&mut it.next));
                self.has_seeds(stream, next.unwrap_or_default());
            }
            // Another node was first.
            Err(error) if error.code == WRONG_SEQUENCE => self.read_seeds(stream),
            Err(error) => {
                tracing::warn!(stream, error = error.text, "NATS stores no seed of epochs");
                self.no_seeds(stream);
            }
        }
    }

    fn has_seeds(&mut self, stream: &str, list: Vec<Seed>) {
        if let Some(seeds) = self.seeds.get_mut(stream) {
            seeds.list = list;
        }
        for channel in self.waiting_for_seeds(stream) {
            self.go_on_from(&channel, None);
        }
    }

    /// Nothing is known of a stream's seeds.
    pub(crate) fn no_seeds(&mut self, stream: &str) {
        for channel in self.waiting_for_seeds(stream) {
            self.fail(&channel);
        }
    }

    fn waiting_for_seeds(&mut self, stream: &str) -> Vec<ChannelName> {
        let seeds = self.seeds.get_mut(stream);
        let mut waiting = seeds.map_or(Vec::new(), |it| std::mem::take(&mut it.waiting));
        waiting.retain(|channel| {
            { self.turn(channel) }.is_some_and(|turn| matches!(turn.stage, Stage::Seeds))
        });
        waiting
    }
}
