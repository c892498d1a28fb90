//! Turns that read: the newest message of a channel, and what lies before it.

use throng_remote::Channels as _;
use throng_types::ChannelName;

use crate::api::Found;
use crate::batch::{Known, Opening};
use crate::flight::Flight;
use crate::node::Nats;
use crate::record::{Record, State};
use crate::stream::{Op, Stage, Turn};
use crate::walk::{Walk, answer, floor};

impl Nats {
    pub(crate) fn ask_last(&mut self, channel: &ChannelName) {
        let keeps = self.core.keeps(channel);
        let stream = self.names.stream_of(channel, keeps);
        let subject = self.names.store(channel, keeps);
        let body = format!("{{\"last_by_subj\":\"{subject}\"}}");
        self.ask_newest(Flight::Last(channel.clone()), &stream, &body);
    }

    /// Asks for a message that may be new: in a cluster of servers the leader, which has it if
    /// anybody does.
    pub(crate) fn ask_newest(&mut self, flight: Flight, stream: &str, body: &str) {
        let is_clustered = self.link.is_some_and(|link| link.is_clustered);
        let verb = if is_clustered {
            "STREAM.MSG.GET"
        } else {
            "DIRECT.GET"
        };
        self.api(flight, verb, stream, body);
    }

    /// The newest message of a channel is here.
    pub(crate) fn last(&mut self, channel: &ChannelName, found: Found) {
        let Some(stream) = self.streams.get_mut(channel) else {
            return;
        };
        if stream.turn.is_none() {
            return;
        }
        let newest = match found {
            Found::Nothing => None,
            Found::Record(seq, record, _) => Some((seq, record)),
            Found::Strange => {
                tracing::warn!(%channel, "the newest message is of a form that is not known");
                return self.fail(channel);
            }
        };
        stream.known = newest.as_ref().and_then(|(seq, record)| {
            let state = record.state.clone()?;
            Some(Known { seq: *seq, state })
        });
        let known = { self.streams.get(channel) }.and_then(|stream| stream.known.as_ref());
        let is_alive = known.is_some_and(|known| self.is_alive(known));
        if !is_alive && self.core.keeps(channel) {
            return self.ask_seeds(channel);
        }
        self.go_on_from(channel, newest.map(|(_, record)| record));
    }

    /// Whether a channel goes on from a message: none goes on from one that is too old.
    pub(crate) fn is_alive(&self, known: &Known) -> bool {
        self.time_ms() < known.state.time_ms + self.keep_ms
    }

    /// Goes on with a turn from the newest message, or without one.
    pub(crate) fn go_on_from(&mut self, channel: &ChannelName, newest: Option<Record>) {
        let Some(turn) = self.turn(channel) else {
            return;
        };
        let first = turn.ops.first();
        let is_publishing = matches!(first, Some(Op::Publish(..)));
        let forgets = matches!(first, Some(Op::Forget(..)));
        if is_publishing {
            return self.store(channel);
        }
        if forgets && newest.is_none() {
            return self.has_forgotten(channel);
        }
        let (mut state, is_new) = self.opened(channel);
        if forgets {
            state.forgotten = state.offset;
        }
        if !is_new && !forgets {
            return self.walk(channel, &state, newest.as_ref(), None);
        }
        let marker = Record {
            time_ms: state.time_ms,
            state: Some(state.clone()),
            items: Vec::new(),
        };
        if let Some(turn) = self.turn(channel) {
            turn.stage = Stage::Open(state, newest);
        }
        self.put(channel, &marker, None);
    }

    pub(crate) fn turn(&mut self, channel: &ChannelName) -> Option<&mut Turn> {
        self.streams.get_mut(channel)?.turn.as_mut()
    }

    /// Where a stream stands from now on, and whether that must be stored first.
    pub(crate) fn opened(&mut self, channel: &ChannelName) -> (State, bool) {
        let opening = Opening {
            server: self.link.map_or(0, |link| link.server),
            fresh: self.core.desk.fresh_epoch(),
            now_ms: self.time_ms(),
            keep_ms: self.keep_ms,
            seen: self.core.top(channel),
            empty: self.empty_epochs(channel),
        };
        let known = self.streams.get(channel).and_then(|it| it.known.as_ref());
        opening.open(known.filter(|known| self.is_alive(known)))
    }

    /// Reads as much of the history as the looks of this turn want.
    pub(crate) fn walk(
        &mut self,
        channel: &ChannelName,
        state: &State,
        newest: Option<&Record>,
        marker: Option<&Record>,
    ) {
        let options = self.core.desk.options.of(channel);
        let now_ms = self.time_ms();
        let Some(turn) = self.turn(channel) else {
            return;
        };
        let floors = turn.ops.iter().map(|op| match op {
            Op::Look(_, query) => floor(query, state),
            _ => state.offset,
        });
        let floor = floors.min().unwrap_or(state.offset);
        let mut walk = Walk::new(state, &options, floor, now_ms);
        for record in marker.into_iter().chain(newest) {
            walk.add(channel, record);
        }
        turn.stage = Stage::Walk(Box::new(walk));
        self.walk_on(channel);
    }

    fn walk_on(&mut self, channel: &ChannelName) {
        let Some(turn) = self.turn(channel) else {
            return;
        };
        let Stage::Walk(walk) = &mut turn.stage else {
            return;
        };
        let seqs = walk.ask();
        if seqs.is_empty() {
            return self.looked(channel);
        }
        for seq in seqs {
            self.ask_message(channel, seq, false);
        }
    }

    pub(crate) fn ask_message(&mut self, channel: &ChannelName, seq: u64, of_leader: bool) {
        let stream = self.names.stream_of(channel, self.core.keeps(channel));
        let verb = if of_leader {
            "STREAM.MSG.GET"
        } else {
            "DIRECT.GET"
        };
        let flight = Flight::Message(channel.clone(), seq, of_leader);
        self.api(flight, verb, &stream, &format!("{{\"seq\":{seq}}}"));
    }

    /// A message of a channel is here.
    pub(crate) fn message_found(&mut self, channel: &ChannelName, seq: u64, found: Found) {
        let Some(turn) = self.turn(channel) else {
            return;
        };
        if let Stage::Walk(walk) = &mut turn.stage {
            let has_all = walk.got(channel, seq, found);
            if has_all {
                self.walk_on(channel);
            }
        }
    }

    /// All that the looks of this turn want has been read.
    fn looked(&mut self, channel: &ChannelName) {
        let Some(stream) = self.streams.get_mut(channel) else {
            return;
        };
        let Some(turn) = stream.turn.take() else {
            return;
        };
        let Stage::Walk(walk) = turn.stage else {
            return;
        };
        let (state, found) = walk.publications();
        for op in turn.ops {
            if let Op::Look(purpose, query) = op {
                let looked = answer(&query, &state, &found);
                self.tell_looked(channel, purpose, looked);
            }
        }
        // Whoever was told may have asked for more.
        if !self.is_busy(channel) {
            self.begin(channel);
        }
    }
}
