//! The Centrifugo client protocol, version 2, over a WebSocket: what each command does.
//!
//! Replies carry the command's id; the hub's answers bring it back as their token. A
//! reply may overtake another one's, a delivery never overtakes its subscription's reply.

use throng_centrifuge::{ErrorCode, Request, encode_ping_result, encode_unsubscribe_result};
use throng_metrics::Counter;
use throng_types::{ChannelName, Disconnect, Payload, PayloadKind};

use throng_session::Work;
use throng_session::encode::ws_text;

use crate::channels;
use crate::connect;
use crate::context::Cx;
use crate::reply::error;
use crate::socket::Socket;

/// Carries out the commands of one frame. Each of them is charged to the client.
pub(crate) fn run_all(ws: &mut Socket, frame: &[u8], cx: &mut Cx<'_>) {
    for command in throng_centrifuge::commands(frame) {
        if ws.is_closing() {
            return;
        }
        match command {
            Ok(command) if may(ws, &command.request, cx) => {
                run(ws, command.id, command.request, cx);
                ws.ws.check_trust(cx);
            }
            Ok(_) => {}
            Err(_) => {
                cx.count(Counter::BadRequests);
                ws.disconnect(Disconnect::BadRequest, cx);
            }
        }
    }
}

/// Charges a command; the answer to our own ping is free.
fn may(ws: &mut Socket, request: &Request<'_>, cx: &mut Cx<'_>) -> bool {
    let work = match request {
        Request::Pong if ws.ws.awaits_pong() => return true,
        Request::Subscribe(_) => Work::Subscribe,
        _ => Work::Message,
    };
    ws.ws.may(work, cx)
}

fn run(ws: &mut Socket, command: u32, request: Request<'_>, cx: &mut Cx<'_>) {
    cx.count(counter(&request));
    let (known, connects) = (
        ws.ws.state.connected,
        matches!(request, Request::Connect(_)),
    );
    if known == connects {
        // Connect comes first, and once.
        return ws.disconnect(Disconnect::BadRequest, cx);
    }
    match request {
        Request::Pong => ws.alive(cx),
        Request::Connect(connect) => connect::connect(ws, command, &connect, cx),
        Request::Subscribe(subscribe) => channels::subscribe(ws, command, &subscribe, cx),
        Request::Unsubscribe { channel } => {
            let Ok(channel) = ChannelName::new(&channel) else {
                return error(command, ErrorCode::BadRequest, cx);
            };
            if ws.identity().is_some() {
                ws.identity_mut().set_subscription_until(&channel, None);
            }
            cx.unsubscribe(channel);
            ws_text(cx.out, |out| encode_unsubscribe_result(command, out));
        }
        Request::Publish { channel, data } => {
            let payload = Payload {
                bytes: data.get().as_bytes().into(),
                kind: PayloadKind::Json,
            };
            channels::publish(ws, command, &channel, payload, cx);
        }
        Request::History(history) => channels::history(ws, command, &history, cx),
        Request::Ping => ws_text(cx.out, |out| encode_ping_result(command, out)),
        // Nobody here listens to messages outside channels, and no reply is expected.
        Request::Send { .. } => {}
        Request::Rpc { .. } | Request::Presence { .. } | Request::PresenceStats { .. } => {
            error(command, ErrorCode::NotAvailable, cx);
        }
        Request::Refresh { token } => connect::refresh(ws, command, &token, cx),
        Request::SubRefresh { channel, token } => {
            channels::sub_refresh(ws, command, &channel, &token, cx);
        }
        Request::Refused(code) => error(command, code, cx),
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
