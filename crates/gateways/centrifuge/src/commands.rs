//! The Centrifugo client protocol, version 2: dispatch of commands.
//!
//! Replies carry the command's id; the hub's answers bring it back as their token. Commands for one
//! channel are answered in order, and a delivery never overtakes its subscription's reply.
//! Otherwise a reply may overtake another one.

use throng_centrifuge::{ClientRequest, Codec, Reply};
use throng_hub::Command;
use throng_metrics::Counter;
use throng_session::Work;
use throng_types::Disconnect;

use crate::Cx;
use crate::asked::Hello;
use crate::socket::Socket;
use crate::{channels, connect, subscribing};

/// Carries out the commands of one frame. Each of them is charged to the client.
pub(crate) fn run_all(ws: &mut Socket, frame: &[u8], cx: &mut Cx<'_>) {
    let mut commands = ws.mode().codec().commands(frame);
    let is_json = ws.mode().codec() == Codec::Json;
    let mut rest = frame;
    loop {
        let is_over = rest.is_empty() || is_json && rest.trim_ascii().is_empty();
        if ws.awaits_identity() && !is_over {
            return ws.keep_for_later(rest, cx);
        }
        let Some(command) = commands.next() else {
            return;
        };
        if ws.is_closing() {
            return;
        }
        let words = &rest[..rest.len() - commands.rest().len()];
        rest = commands.rest();
        match command {
            Ok(command) if may(ws, &command.request, cx) => {
                run(ws, command, words, cx);
                ws.check_trust(cx);
            }
            Ok(_) => {}
            Err(_) => {
                cx.count(Counter::BadRequests);
                ws.disconnect(Disconnect::BadRequest, cx);
            }
        }
    }
}

/// Charges a command; the answer to our own ping is free, and any other pong ends the connection.
fn may(ws: &mut Socket, request: &ClientRequest<'_>, cx: &mut Cx<'_>) -> bool {
    price(request).is_none_or(|work| ws.may(work, cx))
}

/// Work for which a client pays before its command is carried out; `None` for the answer to our own
/// ping. Answers are charged by length, and tokens when they are checked.
#[must_use]
pub const fn price(request: &ClientRequest<'_>) -> Option<Work> {
    match request {
        ClientRequest::Pong => None,
        ClientRequest::Subscribe(_) => Some(Work::Subscribe),
        ClientRequest::Unsubscribe { .. }
        | ClientRequest::Publish { .. }
        | ClientRequest::Presence { .. }
        | ClientRequest::PresenceStats { .. }
        | ClientRequest::History(_) => Some(Work::Command),
        ClientRequest::Connect(_)
        | ClientRequest::Ping
        | ClientRequest::Send { .. }
        | ClientRequest::Rpc { .. }
        | ClientRequest::Refresh { .. }
        | ClientRequest::SubRefresh { .. }
        | ClientRequest::Refused(_) => Some(Work::Message),
    }
}

/// Runs one command; `words` is its encoded form.
fn run(
    ws: &mut Socket,
    command: throng_centrifuge::ClientCommand<'_>,
    words: &[u8],
    cx: &mut Cx<'_>,
) {
    let throng_centrifuge::ClientCommand {
        id: command,
        request,
    } = command;
    cx.count(counter(&request));
    let (known, connects) = (
        ws.is_connected(),
        matches!(request, ClientRequest::Connect(_)),
    );
    if known == connects {
        // Connect comes first, and once.
        return ws.disconnect(Disconnect::BadRequest, cx);
    }
    match request {
        ClientRequest::Pong => ws.pong(cx),
        ClientRequest::Connect(connect) => {
            let hello = Hello {
                command,
                request: words,
                connect: &connect,
            };
            connect::connect(ws, &hello, cx);
        }
        ClientRequest::Subscribe(subscribe) => subscribing::subscribe(ws, command, &subscribe, cx),
        ClientRequest::Unsubscribe { channel } => {
            if let Some(channel) = ws.channel(command, &channel, cx) {
                ws.cancel_subscribe(&channel, cx);
                cx.hub(Command::Unsubscribe {
                    conn: cx.id,
                    channel,
                    token: Some(command),
                });
            }
        }
        ClientRequest::Publish { channel, data } => {
            channels::publish(ws, command, &channel, data, cx)
        }
        ClientRequest::History(history) => channels::history(ws, command, &history, cx),
        ClientRequest::Ping => ws.reply(command, &Reply::Ping, cx),
        // No one receives messages outside channels here; without an error the client would not
        // know.
        ClientRequest::Send { .. } => ws.disconnect(Disconnect::NotAvailable, cx),
        ClientRequest::Presence { channel } => channels::presence(ws, command, &channel, true, cx),
        ClientRequest::PresenceStats { channel } => {
            channels::presence(ws, command, &channel, false, cx)
        }
        ClientRequest::Rpc { method, data } => channels::rpc(ws, command, &method, data, cx),
        ClientRequest::Refresh { token } => connect::refresh(ws, command, &token, cx),
        ClientRequest::SubRefresh { channel, token } => {
            channels::sub_refresh(ws, command, &channel, &token, cx);
        }
        ClientRequest::Refused(code) => ws.error(command, code, cx),
    }
}

const fn counter(request: &ClientRequest<'_>) -> Counter {
    match request {
        ClientRequest::Connect(_) => Counter::CommandConnect,
        ClientRequest::Subscribe(_) => Counter::CommandSubscribe,
        ClientRequest::Unsubscribe { .. } => Counter::CommandUnsubscribe,
        ClientRequest::Publish { .. } => Counter::CommandPublish,
        ClientRequest::Presence { .. } => Counter::CommandPresence,
        ClientRequest::PresenceStats { .. } => Counter::CommandPresenceStats,
        ClientRequest::History(_) => Counter::CommandHistory,
        ClientRequest::Pong | ClientRequest::Ping => Counter::CommandPing,
        ClientRequest::Send { .. } => Counter::CommandSend,
        ClientRequest::Rpc { .. } | ClientRequest::Refused(_) => Counter::CommandRpc,
        ClientRequest::Refresh { .. } => Counter::CommandRefresh,
        ClientRequest::SubRefresh { .. } => Counter::CommandSubRefresh,
    }
}
