//! Orders and mail in few words, for the trace.

use throng_broker::{Draft, Recovery, Reply, Request};
use throng_hub::{Command, Mail};

use crate::payload;

fn draft(draft: &Draft) -> String {
    let n = payload::number(&draft.payload.bytes).unwrap_or(0);
    format!("publish n={n} in {}", draft.channel)
}

pub(crate) fn command(command: &Command) -> String {
    match command {
        Command::Subscribe {
            asker,
            channel,
            since,
            ..
        } => format!(
            "{:?} orders: subscribe to {channel} since {since:?}",
            asker.conn
        ),
        Command::Unsubscribe { conn, channel } => {
            format!("{conn:?} orders: unsubscribe from {channel}")
        }
        Command::Publish {
            asker,
            draft: wanted,
        } => format!("{:?} orders: {}", asker.conn, draft(wanted)),
        Command::History { asker, channel, .. } => {
            format!("{:?} orders: history of {channel}", asker.conn)
        }
    }
}

pub(crate) fn mail(mail: &Mail) -> String {
    match mail {
        Mail::Request(request) => match request {
            Request::Subscribe {
                ticket,
                channel,
                since,
            } => format!("asks {}: subscribe to {channel} since {since:?}", ticket.0),
            Request::Leave { channel } => format!("leaves {channel}"),
            Request::Publish {
                ticket,
                draft: wanted,
            } => format!("asks {}: {}", ticket.0, draft(wanted)),
            Request::History {
                ticket, channel, ..
            } => format!("asks {}: history of {channel}", ticket.0),
        },
        Mail::Reply(reply) => match reply {
            Reply::Subscribed { ticket, result } => {
                let Ok(result) = result else {
                    return format!("answers {}: {result:?}", ticket.0);
                };
                let recovery = match &result.recovery {
                    Recovery::NotAsked => "not asked".to_owned(),
                    Recovery::Lost => "lost".to_owned(),
                    Recovery::Whole(missed) => format!("{} missed", missed.len()),
                };
                format!(
                    "answers {}: subscribed at {:?}, {recovery}",
                    ticket.0, result.position
                )
            }
            Reply::Published { ticket, result } => {
                format!("answers {}: published {result:?}", ticket.0)
            }
            Reply::History { ticket, .. } => format!("answers {}: history", ticket.0),
            Reply::Delivery(publication) => {
                let n = payload::number(&publication.payload.bytes).unwrap_or(0);
                format!(
                    "delivers n={n} of {} at {:?}",
                    publication.channel, publication.position
                )
            }
        },
    }
}
