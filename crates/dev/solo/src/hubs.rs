//! Hubs over memory, names and publications for them, and a sink that records.

use std::sync::Arc;

use throng_broker::{Broker, ChannelOptions, Draft, MemoryOptions, NamespaceOptions, home_of};
use throng_hub::{Answer, Batch, Command, Format, Hub, HubOptions, Patch, ReplyTo, Sink};
use throng_types::{
    ChannelName, ConnId, Epoch, Now, Payload, Position, Publication, ShardId, SpanContext,
};

/// The hub of one of so many shards, over memory.
pub fn hub(shard: ShardId, shards: u8, namespaces: &Arc<NamespaceOptions>) -> Hub {
    let memory = MemoryOptions::for_tests(shards, Arc::clone(namespaces));
    let options = HubOptions {
        subscriptions_max: 128,
        hash_seed: 1,
        namespaces: Arc::clone(namespaces),
        hooks: None,
    };
    Hub::new(options, Broker::new(shard, shards, memory))
}

/// The only hub, with these namespaces beside the one without a name, which has no options.
pub fn hub_of(named: &[(&str, ChannelOptions)]) -> Hub {
    hub(ShardId(0), 1, &namespaces(named))
}

/// These namespaces, and no options for channels without one.
pub fn namespaces(named: &[(&str, ChannelOptions)]) -> Arc<NamespaceOptions> {
    let named = named
        .iter()
        .map(|(name, options)| ((*name).into(), *options));
    Arc::new(NamespaceOptions::new(
        ChannelOptions::default(),
        named.collect(),
    ))
}

/// A channel's name.
///
/// # Panics
/// If it is not good.
pub fn name(text: &str) -> ChannelName {
    ChannelName::new(text).expect("a good name")
}

/// A channel at home on one of two shards.
///
/// # Panics
/// If the namespace is not good.
pub fn name_at(home: ShardId, namespace: &str) -> ChannelName {
    let mut names = (0..).map(|n| name(&format!("{namespace}{n}")));
    { names.find(|name| home_of(name, 2) == home) }.expect("one of them")
}

/// The first connection in a slot of the first shard.
pub const fn conn(index: u32) -> ConnId {
    ConnId::new(ShardId(0), index, 1)
}

/// A position in the epoch of these tests.
pub const fn position(offset: u64) -> Position {
    Position {
        epoch: Epoch(7),
        offset,
    }
}

/// A publication of text at such a position.
pub fn publication(channel: &str, offset: u64, text: &str) -> Arc<Publication> {
    let position = Some(position(offset));
    Publication::new(name(channel), position, Payload::text(text)).shared()
}

/// A draft of text.
pub fn draft(channel: &str, text: &str) -> Draft {
    Draft::new(name(channel), Payload::text(text))
}

/// Subscribes a connection, without presence.
pub fn subscribe(
    (conn, token): (ConnId, u32),
    channel: &str,
    format: Format,
    since: Option<Position>,
) -> Command {
    Command::Subscribe {
        reply_to: ReplyTo::new(conn, token),
        channel: name(channel),
        format,
        since,
        presence: None,
    }
}

/// Fans out until every member has everything, with so many visits a turn.
///
/// # Panics
/// If that does not come to an end.
pub fn fan_out(hub: &mut Hub, visits: usize, now: Now, sink: &mut impl Sink) {
    let turns = (0..10_000).take_while(|_| hub.fan_out(visits, now, sink));
    assert!(turns.count() < 10_000, "fan-out comes to an end");
}

/// Writes the shared bytes of a publication.
pub type Encode = fn(&Publication, Option<Patch<'_>>, &mut Vec<u8>);

/// Answers and deliveries of a hub to the connections of its shard.
pub struct Heard {
    pub answers: Vec<(ReplyTo, Answer)>,
    pub deliveries: Vec<Delivered>,
    /// Publications with tags that all members have, and the deliveries made before.
    pub carried: Vec<(Publication, usize)>,
    /// Connections that have to subscribe again, with the channel.
    pub lost: Vec<(ConnId, ChannelName)>,
    /// Replies of a broker elsewhere to traced publications: their parents, when they went there,
    /// their channels, and whether they were taken.
    pub broker_replies: Vec<(SpanContext, u64, ChannelName, bool)>,
    /// Frames made since the start.
    pub encoded: usize,
    encode: Encode,
}

/// One batch for the connection in a slot.
#[derive(Clone, Debug)]
pub struct Delivered {
    pub index: u32,
    pub format: Format,
    pub publications: Vec<Arc<Publication>>,
    /// Each frame as text; `None` for forms without shared bytes.
    pub frames: Option<Vec<String>>,
    pub has_gaps: bool,
    pub gather: bool,
}

impl Heard {
    pub const fn encoding(encode: Encode) -> Self {
        Self {
            answers: Vec::new(),
            deliveries: Vec::new(),
            carried: Vec::new(),
            lost: Vec::new(),
            broker_replies: Vec::new(),
            encoded: 0,
            encode,
        }
    }
}

/// Frames are the data.
impl Default for Heard {
    fn default() -> Self {
        Self::encoding(|publication, _, out| out.extend_from_slice(&publication.payload.bytes))
    }
}

impl Sink for Heard {
    fn answer(&mut self, reply_to: ReplyTo, answer: Answer) {
        self.answers.push((reply_to, answer));
    }

    fn encode(
        &mut self,
        format: Format,
        publication: &Publication,
        patch: Option<Patch<'_>>,
        out: &mut Vec<u8>,
    ) {
        assert!(format.is_encoded(), "{format:?}");
        self.encoded += 1;
        (self.encode)(publication, patch, out);
    }

    fn deliver(&mut self, index: u32, batch: &Batch<'_>) {
        let frames = batch.encoded.map(|encoded| {
            let frames = encoded.frames.each();
            let frames = frames
                .iter()
                .map(|frame| String::from_utf8_lossy(frame).into_owned());
            let frames: Vec<String> = frames.collect();
            let joined = String::from_utf8_lossy(encoded.frames.bytes());
            assert_eq!(joined, frames.concat(), "the frames in one piece");
            frames
        });
        self.deliveries.push(Delivered {
            index,
            format: batch.format,
            publications: batch.publications.to_vec(),
            frames,
            has_gaps: batch.encoded.is_some_and(|encoded| encoded.has_gaps),
            gather: batch.gather,
        });
    }

    fn lost(&mut self, conn: ConnId, channel: &ChannelName) {
        self.lost.push((conn, channel.clone()));
    }

    fn broker_replied(
        &mut self,
        by: &SpanContext,
        since: u64,
        channel: &ChannelName,
        is_taken: bool,
    ) {
        let reply = (*by, since, channel.clone(), is_taken);
        self.broker_replies.push(reply);
    }

    fn carried(&mut self, publication: &Publication) {
        if publication.tags.is_none() {
            return;
        }
        let delivered = self.deliveries.iter().map(|it| it.publications.len());
        self.carried.push((publication.clone(), delivered.sum()));
    }
}
