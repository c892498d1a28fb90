//! The Centrifugo client protocol, version 2, over a WebSocket: what each command does.
//!
//! Replies carry the command's id; the hub's answers bring it back as their token. A
//! reply may overtake another one's, a delivery never overtakes its subscription's reply.

mod channels;
mod connect;

use throng_broker::Refusal;
use throng_centrifuge::{
    ErrorCode, Request, encode_error, encode_ping_result, encode_unsubscribe_result,
};
use throng_hub::Command;
use throng_metrics::Counter;
use throng_types::{ChannelName, ConnId, Disconnect, Now, Payload, PayloadKind};

pub(crate) use channels::{answer, subscribed};
pub(crate) use connect::{connect_result, opened, subscriptions, uni_channels, uni_connect};

use crate::Desk;
use crate::effects::Fx;
use crate::format::ws_text;
use crate::ws::Ws;

/// Carries out the commands of one frame.
pub(crate) fn commands(ws: &mut Ws, id: ConnId, frame: &[u8], desk: &Desk, fx: &mut Fx<'_>) {
    for command in throng_centrifuge::commands(frame) {
        if ws.is_closing() {
            return;
        }
        match command {
            Ok(command) => run(ws, id, command.id, command.request, desk, fx),
            Err(_) => {
                desk.board.count(Counter::BadRequests);
                ws.disconnect(Disconnect::BadRequest, desk, fx);
            }
        }
    }
}

fn run(ws: &mut Ws, id: ConnId, command: u32, request: Request<'_>, desk: &Desk, fx: &mut Fx<'_>) {
    desk.board.count(counter(&request));
    let (known, connects) = (ws.connected, matches!(request, Request::Connect(_)));
    if known == connects {
        // Connect comes first, and once.
        return ws.disconnect(Disconnect::BadRequest, desk, fx);
    }
    match request {
        Request::Pong => ws.alive(desk, fx),
        Request::Connect(connect) => connect::connect(ws, id, command, &connect, desk, fx),
        Request::Subscribe(subscribe) => channels::subscribe(ws, id, command, &subscribe, desk, fx),
        Request::Unsubscribe { channel } => {
            let Ok(channel) = ChannelName::new(&channel) else {
                return error(command, ErrorCode::BadRequest, desk, fx);
            };
            if ws.identity().is_some() {
                ws.identity_mut().set_subscription_until(&channel, None);
            }
            fx.hub(Command::Unsubscribe { conn: id, channel });
            ws_text(fx.out, |out| encode_unsubscribe_result(command, out));
        }
        Request::Publish { channel, data } => {
            let payload = Payload {
                bytes: data.get().as_bytes().into(),
                kind: PayloadKind::Json,
            };
            channels::publish(ws, id, command, &channel, payload, desk, fx);
        }
        Request::History(history) => channels::history(ws, id, command, &history, desk, fx),
        Request::Ping => ws_text(fx.out, |out| encode_ping_result(command, out)),
        // Nobody here listens to messages outside channels, and no reply is expected.
        Request::Send { .. } => {}
        Request::Rpc { .. } | Request::Presence { .. } | Request::PresenceStats { .. } => {
            error(command, ErrorCode::NotAvailable, desk, fx);
        }
        Request::Refresh { token } => connect::refresh(ws, id, command, &token, desk, fx),
        Request::SubRefresh { channel, token } => {
            channels::sub_refresh(ws, id, command, &channel, &token, desk, fx);
        }
        Request::Refused(code) => error(command, code, desk, fx),
    }
}

const fn counter(request: &Request<'_>) -> Counter {
    match request {
        Request::Connect(_) => Counter::CommandConnect,
        Request::Subscribe(_) => Counter::CommandSubscribe,
        Request::Unsubscribe { .. } => Counter::CommandUnsubscribe,
        Request::Publish { .. } => Counter::CommandPublish,
        Request::Presence { .. } => Counter::CommandPresence,
        Request::PresenceStats { .. } => Counter::CommandPresenceStats,
        Request::History(_) => Counter::CommandHistory,
        Request::Pong | Request::Ping => Counter::CommandPing,
        Request::Send { .. } => Counter::CommandSend,
        Request::Rpc { .. } | Request::Refused(_) => Counter::CommandRpc,
        Request::Refresh { .. } => Counter::CommandRefresh,
        Request::SubRefresh { .. } => Counter::CommandSubRefresh,
    }
}

fn error(command: u32, code: ErrorCode, desk: &Desk, fx: &mut Fx<'_>) {
    desk.board.count(Counter::error(code.code()));
    ws_text(fx.out, |out| encode_error(command, code, out));
}

/// Seconds from now to a moment.
fn ttl(at_unix_s: u64, now: Now) -> u32 {
    u32::try_from(at_unix_s.saturating_sub(now.unix_s())).unwrap_or(u32::MAX)
}

/// The code that says why the hub refused.
const fn code_of(refusal: Refusal) -> ErrorCode {
    match refusal {
        Refusal::Busy => ErrorCode::TooManyRequests,
        // A temporary code: who still wants the subscription asks again.
        Refusal::TakenBack => ErrorCode::Internal,
        Refusal::UnknownChannel => ErrorCode::UnknownChannel,
        Refusal::AlreadySubscribed => ErrorCode::AlreadySubscribed,
        Refusal::ChannelLimit => ErrorCode::LimitExceeded,
        Refusal::NotAvailable => ErrorCode::NotAvailable,
        Refusal::UnrecoverablePosition => ErrorCode::UnrecoverablePosition,
    }
}
