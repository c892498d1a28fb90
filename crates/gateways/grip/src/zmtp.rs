//! Publishers by ZeroMQ.
//!
//! Rule for "full": a publisher has at most [`UNANSWERED_MAX`] items on their way; until they are
//! taken nothing more is read from it, so that its own queue grows, which is where ZeroMQ keeps
//! unsent messages.

use throng_grip::Value;
use throng_grip::command::{CommandKind, CommandRequest};
use throng_grip::item::{Item, zmq_pull_item, zmq_sub_item};
use throng_grip::zmtp::{PeerLimits, SocketRole, ZmtpMessage, ZmtpPeer, encode_message};
use throng_metrics::Counter;
use throng_types::{ChannelName, ConnId, End};

use crate::Cx;
use crate::forms::own_name;
use crate::look::Look;
use crate::order::{ConnCommand, ConnLook, Order};
use crate::shared::ZmqSocket;

/// Items of one publisher that are on their way to their channels' homes.
const UNANSWERED_MAX: u32 = 256;

/// Connection of one publisher.
pub struct Zmtp {
    socket: ZmqSocket,
    /// Made with the first bytes, because the peer speaks first.
    peer: Option<Box<ZmtpPeer>>,
    unanswered: u32,
    is_listening: bool,
    /// Questions about connections that wait for other shards. Bound: as for items.
    looks: Vec<Look>,
    looked: u32,
}

impl Zmtp {
    pub(crate) const fn new(socket: ZmqSocket) -> Self {
        Self {
            socket,
            peer: None,
            unanswered: 0,
            is_listening: false,
            looks: Vec::new(),
            looked: 0,
        }
    }

    pub(crate) fn bytes(&mut self, input: &[u8], cx: &mut Cx<'_>) {
        let role = match self.socket {
            ZmqSocket::Pull => SocketRole::Pull,
            ZmqSocket::Sub => SocketRole::Sub,
            ZmqSocket::Rep => SocketRole::Rep,
        };
        let limits = PeerLimits {
            message_bytes_max: cx.shared.limits.publish_bytes_max,
            ..PeerLimits::default()
        };
        let out = &mut *cx.out;
        let peer = self
            .peer
            .get_or_insert_with(|| Box::new(ZmtpPeer::new(role, limits, out)));
        let mut messages = Vec::new();
        let fed = peer.feed(input, cx.out, &mut messages);
        let is_ready = peer.is_ready();
        if is_ready && !self.is_listening {
            self.is_listening = true;
            cx.set_deadline(None);
            if self.socket == ZmqSocket::Sub {
                cx.order(Order::Listen { conn: cx.id });
            }
        }
        for message in messages {
            self.message(message, cx);
            // Bytes behind the last message are ignored.
            if cx.has_ended() {
                break;
            }
        }
        if fed.is_err() {
            cx.count(Counter::BadRequests);
            cx.end(End::Flush);
        }
    }

    fn message(&mut self, message: ZmtpMessage, cx: &mut Cx<'_>) {
        let item = match self.socket {
            ZmqSocket::Pull => zmq_pull_item(&message),
            ZmqSocket::Sub => zmq_sub_item(&message),
            ZmqSocket::Rep => return self.command(message, cx),
        };
        match item {
            Ok(item) => self.publish(item, cx),
            // There is no way to report this to the publisher.
            Err(_) => cx.count(Counter::GripItemFaults),
        }
    }

    /// One more is on its way.
    fn begin(&mut self, cx: &mut Cx<'_>) {
        self.unanswered += 1;
        if self.unanswered >= UNANSWERED_MAX {
            cx.pause(true);
        }
    }

    fn publish(&mut self, item: Item, cx: &mut Cx<'_>) {
        cx.count(Counter::PublicationsGrip);
        self.begin(cx);
        let reply_to = cx.reply_to(0);
        cx.order(Order::Publish {
            reply_to,
            item: Box::new(item),
            patient: true,
            counts: false,
            trace: None,
        });
    }

    /// An item was taken, a question answered, or refused for a name that no channel can have.
    pub(crate) fn answer(&mut self, cx: &mut Cx<'_>) {
        self.unanswered = self.unanswered.saturating_sub(1);
        if self.unanswered == UNANSWERED_MAX / 2 {
            cx.pause(false);
        }
    }

    /// A channel has got its first subscriber, or lost its last one.
    pub(crate) fn topic(&self, channel: &ChannelName, is_wanted: bool, cx: &mut Cx<'_>) {
        let Some(peer) = &self.peer else { return };
        let topic = own_name(channel).as_bytes();
        if is_wanted {
            peer.subscribe(topic, cx.out);
        } else {
            peer.unsubscribe(topic, cx.out);
        }
    }

    fn command(&mut self, message: ZmtpMessage, cx: &mut Cx<'_>) {
        let Some((mut reply, body)) = ZmtpPeer::split_request(message) else {
            return cx.end(End::Flush);
        };
        let request = body.first().and_then(|body| CommandRequest::parse(body));
        let Some(request) = request else {
            // Without an answer its socket would wait for ever.
            return cx.end(End::Flush);
        };
        let mut answer = Vec::new();
        match &request.command {
            CommandKind::GetZmqUris => {
                request.reply(cx.own.options.uris.to_value(), &mut answer);
            }
            CommandKind::Publish(Ok(items)) => {
                for item in items {
                    self.publish(item.clone(), cx);
                }
                request.reply(Value::Null, &mut answer);
            }
            CommandKind::Publish(Err(_)) => request.reply_error("bad-request", &mut answer),
            CommandKind::Recover => {
                cx.order(Order::Recover);
                request.reply(Value::Null, &mut answer);
            }
            CommandKind::Refresh {
                connection_id: Some(id),
                ..
            } => {
                let ids = vec![id.clone()];
                return self.look((reply, request), ConnCommand::Refresh, ids, cx);
            }
            CommandKind::Refresh {
                channel: Some(channel),
                ..
            } => {
                let channel = channel.clone();
                cx.order(Order::Refresh { channel });
                request.reply(Value::Null, &mut answer);
            }
            CommandKind::ConnCheck { ids: Some(ids) } => {
                let ids = ids.clone();
                return self.look((reply, request), ConnCommand::Check, ids, cx);
            }
            CommandKind::Refresh { .. } | CommandKind::ConnCheck { ids: None } => {
                request.reply_error("bad-request", &mut answer);
            }
            CommandKind::Unknown(_) => request.reply_error("method-not-found", &mut answer),
        }
        reply.push(answer);
        encode_message(&reply, cx.out);
    }

    /// Asks the shards about connections. Unknown ids count as closed.
    fn look(
        &mut self,
        asked: (ZmtpMessage, CommandRequest),
        command: ConnCommand,
        ids: Vec<String>,
        cx: &mut Cx<'_>,
    ) {
        let node = &cx.shared.node;
        let known = |id: String| Some((node.conn_id(&id)?, id));
        let ids: Vec<(ConnId, String)> = ids.into_iter().filter_map(known).collect();
        let conns: Vec<ConnId> = ids.iter().map(|(conn, _)| *conn).collect();
        self.looked = self.looked.wrapping_add(1);
        let look = Look::new(self.looked, asked, command, ids);
        if look.is_whole() {
            return encode_message(&look.into_answer(), cx.out);
        }
        self.begin(cx);
        let asker = (cx.id, look.token);
        self.looks.push(look);
        cx.order(Order::Look(ConnLook {
            asker,
            command,
            conns,
        }));
    }

    /// Handles a shard's answer about connections.
    pub(crate) fn found(&mut self, token: u32, found: Option<Vec<ConnId>>, cx: &mut Cx<'_>) {
        let Some(at) = self.looks.iter().position(|look| look.token == token) else {
            return;
        };
        if self.looks[at].answered(found) {
            let look = self.looks.remove(at);
            encode_message(&look.into_answer(), cx.out);
            self.answer(cx);
        }
    }
}
