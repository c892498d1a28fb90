//! Questions of publishers about connections, and orders that connections ask their backends.
//!
//! A connection's id names its shard, so each shard is asked about its own, and the answers meet at
//! the shard of the publisher. A question that finds no room is answered at once as a failed one.

use throng_grip::Value;
use throng_grip::command::CommandRequest;
use throng_grip::zmtp::ZmtpMessage;
use throng_session::Flow;
use throng_types::{ConnId, ShardId};

use crate::GripShard;
use crate::order::{ConnCommand, ConnLook, Mail};

/// A publisher's command for connections, until all their shards have answered.
pub(crate) struct Look {
    /// Number of the command on the publisher's connection.
    pub(crate) token: u32,
    /// Goes in front of the answer.
    envelope: ZmtpMessage,
    request: CommandRequest,
    command: ConnCommand,
    /// With the ids as the publisher wrote them.
    conns: Vec<(ConnId, String)>,
    /// Number of shards without an answer.
    left: usize,
    /// Those that are there. Bound: `conns`.
    found: Vec<ConnId>,
    has_failed: bool,
}

impl Look {
    pub(crate) fn new(
        token: u32,
        (envelope, request): (ZmtpMessage, CommandRequest),
        command: ConnCommand,
        conns: Vec<(ConnId, String)>,
    ) -> Self {
        let mut shards: Vec<ShardId> = conns.iter().map(|(conn, _)| conn.shard()).collect();
        shards.sort_unstable();
        shards.dedup();
        Self {
            token,
            envelope,
            request,
            command,
            conns,
            left: shards.len(),
            found: Vec::new(),
            has_failed: false,
        }
    }

    /// Takes a shard's answer, `None` if it could not be asked; true after the last one.
    pub(crate) fn answered(&mut self, found: Option<Vec<ConnId>>) -> bool {
        match found {
            Some(found) => self.found.extend(found),
            None => self.has_failed = true,
        }
        self.left = self.left.saturating_sub(1);
        self.is_whole()
    }

    pub(crate) const fn is_whole(&self) -> bool {
        self.left == 0
    }

    /// The publisher's answer, in its envelope.
    pub(crate) fn into_answer(self) -> ZmtpMessage {
        let Self {
            mut envelope,
            request,
            ..
        } = self;
        let mut answer = Vec::new();
        match self.command {
            _ if self.has_failed => request.reply_error("proxy-request-failed", &mut answer),
            ConnCommand::Check => {
                let is_there = |(conn, _): &(ConnId, String)| self.found.contains(conn);
                let there = self.conns.into_iter().filter(is_there);
                let there = there.map(|(_, id)| Value::Text(id)).collect();
                request.reply(Value::List(there), &mut answer);
            }
            ConnCommand::Refresh if self.found.is_empty() => {
                request.reply_error("item-not-found", &mut answer);
            }
            ConnCommand::Refresh => request.reply(Value::Null, &mut answer),
        }
        envelope.push(answer);
        envelope
    }
}

/// Asks the shards of these connections.
pub(crate) fn look(mut look: ConnLook, shard: &mut impl GripShard) {
    let (asker, command) = (look.asker, look.command);
    look.conns.sort_unstable_by_key(|conn| conn.shard());
    for of_shard in look.conns.chunk_by(|a, b| a.shard() == b.shard()) {
        let to = of_shard[0].shard();
        // An id from before a restart may name a shard that is no more.
        if to.0 >= shard.shards() {
            answer(asker, Some(Vec::new()), shard);
        } else if to == shard.this() {
            let found = find(command, of_shard, shard);
            answer(asker, Some(found), shard);
        } else if shard.has_room(to) {
            let conns = of_shard.to_vec();
            let look = ConnLook {
                asker,
                command,
                conns,
            };
            shard.mail(to, Mail::Look(look));
        } else {
            answer(asker, None, shard);
        }
    }
}

/// Finds those connections that are open on this shard, and makes them ask their backends if
/// requested.
pub(crate) fn find(
    command: ConnCommand,
    conns: &[ConnId],
    shard: &mut impl GripShard,
) -> Vec<ConnId> {
    let mut found = Vec::new();
    for &conn in conns {
        shard.with(conn, |session, cx| {
            match command {
                ConnCommand::Check if session.is_client() => found.push(conn),
                ConnCommand::Refresh if session.is_websocket() => {
                    found.push(conn);
                    session.refresh(cx);
                }
                ConnCommand::Check | ConnCommand::Refresh => {}
            }
            Flow::Stay
        });
    }
    found
}

/// Passes a shard's answer to the publisher that asked.
pub(crate) fn answer(
    (conn, token): (ConnId, u32),
    found: Option<Vec<ConnId>>,
    shard: &mut impl GripShard,
) {
    shard.with(conn, |session, cx| {
        session.found(token, found, cx);
        Flow::Stay
    });
}
