//! Publishers that come by ZeroMQ.
//!
//! Rule for "full": a publisher has at most [`UNANSWERED_MAX`] items on their way; until they are
//! taken nothing more is read from it, so that its own queue grows, which is where ZeroMQ
//! keeps what cannot be sent.

use throng_grip::Value;
use throng_grip::command::{CommandKind, CommandRequest};
use throng_grip::item::{Item, zmq_pull_item, zmq_sub_item};
use throng_grip::zmtp::{Message, Peer, PeerLimits, Role, encode_message};
use throng_hub::Asker;
use throng_metrics::Counter;
use throng_types::{ChannelName, ConnId};

use super::forms::own_name;
use super::order::GripOrder;
use crate::Desk;
use crate::effects::{End, Fx, Order};

/// Items of one publisher that are on their way to their channels' homes.
const UNANSWERED_MAX: u32 = 256;

/// Which socket a publisher connects to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Socket {
    /// Takes items.
    Pull,
    /// Asks for the items of channels that have subscribers, and takes them.
    Sub,
    /// Takes commands.
    Rep,
}

/// One publisher's connection.
pub(crate) struct Zmtp {
    socket: Socket,
    /// Made with the first bytes, because the peer speaks first.
    peer: Option<Box<Peer>>,
    unanswered: u32,
    is_listening: bool,
}

impl Zmtp {
    pub(crate) const fn new(socket: Socket) -> Self {
        Self {
            socket,
            peer: None,
            unanswered: 0,
            is_listening: false,
        }
    }

    pub(crate) fn bytes(&mut self, id: ConnId, input: &[u8], desk: &Desk, fx: &mut Fx<'_>) {
        let role = match self.socket {
            Socket::Pull => Role::Pull,
            Socket::Sub => Role::Sub,
            Socket::Rep => Role::Rep,
        };
        let limits = PeerLimits {
            message_bytes_max: desk.limits.publish_bytes_max,
            ..PeerLimits::default()
        };
        let out = &mut *fx.out;
        let peer = self
            .peer
            .get_or_insert_with(|| Box::new(Peer::new(role, limits, out)));
        let mut messages = Vec::new();
        let fed = peer.feed(input, fx.out, &mut messages);
        let is_ready = peer.is_ready();
        if is_ready && !self.is_listening {
            self.is_listening = true;
            fx.deadline = Some(None);
            if self.socket == Socket::Sub {
                fx.orders.push(Order::Grip(GripOrder::Listen { conn: id }));
            }
        }
        for message in messages {
            self.message(id, message, desk, fx);
            // What came behind the last word is not heard, whether or not it came with it.
            if fx.end.is_some() {
                break;
            }
        }
        if fed.is_err() {
            desk.board.count(Counter::BadRequests);
            fx.end(End::Flush);
        }
    }

    fn message(&mut self, id: ConnId, message: Message, desk: &Desk, fx: &mut Fx<'_>) {
        let item = match self.socket {
            Socket::Pull => zmq_pull_item(&message),
            Socket::Sub => zmq_sub_item(&message),
            Socket::Rep => return self.command(id, message, desk, fx),
        };
        match item {
            Ok(item) => self.publish(id, item, desk, fx),
            // There is nobody to tell.
            Err(_) => desk.board.count(Counter::GripItemFaults),
        }
    }

    fn publish(&mut self, conn: ConnId, item: Item, desk: &Desk, fx: &mut Fx<'_>) {
        desk.board.count(Counter::PublicationsGrip);
        self.unanswered += 1;
        if self.unanswered >= UNANSWERED_MAX {
            fx.pause = Some(true);
        }
        fx.orders.push(Order::Grip(GripOrder::Publish {
            asker: Asker { conn, token: 0 },
            item: Box::new(item),
            patient: true,
            counts: false,
        }));
    }

    /// An item was taken, or refused for a name that no channel can have.
    pub(crate) fn answer(&mut self, fx: &mut Fx<'_>) {
        self.unanswered = self.unanswered.saturating_sub(1);
        if self.unanswered == UNANSWERED_MAX / 2 {
            fx.pause = Some(false);
        }
    }

    /// A channel has got its first subscriber, or lost its last one.
    pub(crate) fn topic(&self, channel: &ChannelName, is_wanted: bool, fx: &mut Fx<'_>) {
        let Some(peer) = &self.peer else { return };
        let topic = own_name(channel).as_bytes();
        if is_wanted {
            peer.subscribe(topic, fx.out);
        } else {
            peer.unsubscribe(topic, fx.out);
        }
    }

    fn command(&mut self, id: ConnId, message: Message, desk: &Desk, fx: &mut Fx<'_>) {
        let Some((mut reply, body)) = Peer::split_request(message) else {
            return fx.end(End::Flush);
        };
        let request = body.first().and_then(|body| CommandRequest::parse(body));
        let Some(request) = request else {
            // Without an answer its socket would wait for ever.
            return fx.end(End::Flush);
        };
        let mut answer = Vec::new();
        match &request.command {
            CommandKind::GetZmqUris => {
                let uris = desk.grip.as_ref().map(|grip| grip.options.uris.to_value());
                request.reply(uris.unwrap_or(Value::Null), &mut answer);
            }
            CommandKind::Publish(Ok(items)) => {
                for item in items {
                    self.publish(id, item.clone(), desk, fx);
                }
                request.reply(Value::Null, &mut answer);
            }
            CommandKind::Publish(Err(_)) => request.reply_error("bad-request", &mut answer),
            CommandKind::Recover => {
                fx.orders.push(Order::Grip(GripOrder::Recover));
                request.reply(Value::Null, &mut answer);
            }
            CommandKind::Refresh {
                connection_id,
                channel,
            } => {
                let connection = connection_id
                    .as_deref()
                    .and_then(|text| desk.node.conn_id(text));
                let channel = channel.clone();
                fx.orders.push(Order::Grip(GripOrder::Refresh {
                    connection,
                    channel,
                }));
                request.reply(Value::Null, &mut answer);
            }
            CommandKind::ConnCheck { .. } | CommandKind::Unknown(_) => {
                request.reply_error("method-not-found", &mut answer);
            }
        }
        reply.push(answer);
        encode_message(&reply, fx.out);
    }
}
