//! A publisher's question about connections: the request, the shards' answers, and the reply.
//!
//! Owns the answers to one question so far. Never: asks shards.

use throng_grip::Value;
use throng_grip::command::CommandRequest;
use throng_grip::zmtp::ZmtpMessage;
use throng_types::{ConnId, ShardId};

/// Action that a publisher requests for connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// To know which of them are there.
    Check,
    /// Makes them ask their backends, as far as they are WebSockets.
    Refresh,
}

/// Answer of one shard to a publisher's question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Connections that are open on that shard.
    These(Vec<ConnId>),
    /// The shard could not be asked.
    Failed,
}

/// A publisher's question, until all shards have answered.
pub(crate) struct Look {
    /// Which of the publisher's.
    pub(crate) token: u32,
    /// Where its answer goes.
    envelope: ZmtpMessage,
    request: CommandRequest,
    wanted: Wanted,
    /// As the publisher names them.
    ids: Vec<(ConnId, String)>,
    /// Number of shards without an answer.
    left: usize,
    found: Vec<ConnId>,
    has_failed: bool,
}

impl Look {
    pub(crate) fn new(
        token: u32,
        (envelope, request): (ZmtpMessage, CommandRequest),
        wanted: Wanted,
        ids: Vec<(ConnId, String)>,
    ) -> Self {
        let mut shards: Vec<ShardId> = ids.iter().map(|(conn, _)| conn.shard()).collect();
        shards.sort_unstable();
        shards.dedup();
        Self {
            token,
            envelope,
            request,
            wanted,
            ids,
            left: shards.len(),
            found: Vec::new(),
            has_failed: false,
        }
    }

    /// Takes a shard's answer; true after the last one.
    pub(crate) fn hear(&mut self, found: Found) -> bool {
        match found {
            Found::These(these) => self.found.extend(these),
            Found::Failed => self.has_failed = true,
        }
        self.left = self.left.saturating_sub(1);
        self.is_whole()
    }

    pub(crate) const fn is_whole(&self) -> bool {
        self.left == 0
    }

    /// The answer, in its envelope.
    pub(crate) fn into_answer(self) -> ZmtpMessage {
        let Self {
            mut envelope,
            request,
            ..
        } = self;
        let mut answer = Vec::new();
        match self.wanted {
            _ if self.has_failed => request.reply_error("proxy-request-failed", &mut answer),
            Wanted::Check => {
                let is_there = |(conn, _): &(ConnId, String)| self.found.contains(conn);
                let there = self.ids.into_iter().filter(is_there);
                let there = there.map(|(_, id)| Value::Text(id)).collect();
                request.reply(Value::List(there), &mut answer);
            }
            Wanted::Refresh if self.found.is_empty() => {
                request.reply_error("item-not-found", &mut answer);
            }
            Wanted::Refresh => request.reply(Value::Null, &mut answer),
        }
        envelope.push(answer);
        envelope
    }
}
