//! Replies, pushes and the publications inside.

use throng_types::{Position, Publication};

use crate::json::each_tag;
use crate::protobuf::wire::{append_delimited, bytes, flag, message, number};
use crate::reply::{Push, Reply};
use crate::{ClientInfo, ConnectResult, HistoryResult, SubscribeResult};

/// Appends the reply to command `id`, behind its length.
pub(crate) fn append_reply(id: u32, reply: &Reply<'_>, out: &mut Vec<u8>) {
    append_delimited(out, |out| {
        number(1, id.into(), out);
        match reply {
            Reply::Error(code) => {
                let (text, temporary) = (code.message(), code.temporary());
                message(2, out, |out| {
                    append_error(code.code(), text, temporary, out)
                });
            }
            Reply::Failure {
                code,
                message: text,
                temporary,
            } => message(2, out, |out| append_error(*code, text, *temporary, out)),
            Reply::Connect(result) => message(5, out, |out| append_connect(result, out)),
            Reply::Subscribe(result) => message(6, out, |out| append_subscribe(result, out)),
            Reply::Unsubscribe => message(7, out, |_| ()),
            Reply::Publish => message(8, out, |_| ()),
            Reply::Presence(present) => message(9, out, |out| {
                for info in *present {
                    message(1, out, |out| {
                        bytes(1, info.client.as_bytes(), out);
                        message(2, out, |out| append_info(info, out));
                    });
                }
            }),
            Reply::PresenceStats { clients, users } => message(10, out, |out| {
                number(1, (*clients).into(), out);
                number(2, (*users).into(), out);
            }),
            Reply::History(result) => message(11, out, |out| append_history(result, out)),
            Reply::Ping => message(12, out, |_| ()),
            Reply::Rpc(data) => message(13, out, |out| {
                bytes(1, data.map_or(&[], |data| &data.bytes), out);
            }),
            Reply::Refresh(result) => message(14, out, |out| {
                bytes(1, result.client.as_bytes(), out);
                bytes(2, result.version.as_bytes(), out);
                flag(3, result.expires, out);
                number(4, result.ttl_s.into(), out);
            }),
            Reply::SubRefresh(result) => message(15, out, |out| {
                flag(1, result.expires, out);
                number(2, result.ttl_s.into(), out);
            }),
        }
    });
}

fn append_error(code: u32, text: &str, temporary: bool, out: &mut Vec<u8>) {
    number(1, code.into(), out);
    bytes(2, text.as_bytes(), out);
    flag(3, temporary, out);
}

fn append_connect(result: &ConnectResult<'_>, out: &mut Vec<u8>) {
    bytes(1, result.client.as_bytes(), out);
    bytes(2, result.version.as_bytes(), out);
    flag(3, result.expires, out);
    number(4, result.ttl_s.into(), out);
    bytes(5, json(result.data), out);
    for (channel, sub) in result.subs {
        message(6, out, |out| {
            bytes(1, channel.as_bytes(), out);
            message(2, out, |out| append_subscribe(sub, out));
        });
    }
    number(7, result.ping_s.into(), out);
    flag(8, result.pong, out);
    bytes(9, result.session.as_bytes(), out);
    bytes(10, result.node.as_bytes(), out);
    number(11, result.time_unix_ms, out);
}

fn append_subscribe(result: &SubscribeResult<'_>, out: &mut Vec<u8>) {
    flag(1, result.expires, out);
    number(2, result.ttl_s.into(), out);
    flag(3, result.recoverable, out);
    append_epoch(6, result.position, out);
    for publication in result.publications {
        message(7, out, |out| append_publication(publication, None, out));
    }
    flag(8, result.recovered, out);
    number(9, offset(result.position), out);
    flag(10, result.positioned, out);
    bytes(11, json(result.data), out);
    flag(12, result.was_recovering, out);
    flag(13, result.delta, out);
}

fn append_history(result: &HistoryResult<'_>, out: &mut Vec<u8>) {
    for publication in result.publications {
        message(1, out, |out| append_publication(publication, None, out));
    }
    append_epoch(2, Some(result.position), out);
    number(3, result.position.offset, out);
}

/// One publication. Data is as it was published, whatever it is, or a patch in place of it; as in
/// JSON its time stays here.
pub(super) fn append_publication(
    publication: &Publication,
    patch: Option<&[u8]>,
    out: &mut Vec<u8>,
) {
    bytes(4, patch.unwrap_or(&publication.payload.bytes), out);
    if let Some(publisher) = &publication.publisher {
        let info = ClientInfo::from(&**publisher);
        message(5, out, |out| append_info(&info, out));
    }
    number(6, offset(publication.position), out);
    if let Some(tags) = publication.tags.as_deref() {
        append_tags(tags, out);
    }
    flag(8, patch.is_some(), out);
}

pub(super) fn append_info(info: &ClientInfo<'_>, out: &mut Vec<u8>) {
    bytes(1, info.user.as_bytes(), out);
    bytes(2, info.client.as_bytes(), out);
    bytes(3, json(info.conn_info), out);
    bytes(4, json(info.chan_info), out);
}

/// Tags are kept as the JSON object that they came as.
fn append_tags(tags: &str, out: &mut Vec<u8>) {
    each_tag(tags, |name, value| {
        message(7, out, |out| {
            bytes(1, name.as_bytes(), out);
            bytes(2, value.as_bytes(), out);
        });
    });
}

pub(super) fn append_epoch(field: u32, position: Option<Position>, out: &mut Vec<u8>) {
    if let Some(position) = position {
        bytes(field, position.epoch.to_string().as_bytes(), out);
    }
}

pub(super) fn offset(position: Option<Position>) -> u64 {
    position.map_or(0, |position| position.offset)
}

fn json(json: Option<&str>) -> &[u8] {
    json.unwrap_or_default().as_bytes()
}

/// Appends a push in a reply, behind its length.
pub(crate) fn append_push(push: &Push<'_>, out: &mut Vec<u8>) {
    append_delimited(out, |out| message(4, out, |out| append(push, out)));
}

fn append(push: &Push<'_>, out: &mut Vec<u8>) {
    match *push {
        Push::Publication(publication) => {
            bytes(2, publication.channel.as_str().as_bytes(), out);
            message(4, out, |out| append_publication(publication, None, out));
        }
        Push::Delta { publication, patch } => {
            bytes(2, publication.channel.as_str().as_bytes(), out);
            message(4, out, |out| append_publication(publication, patch, out));
        }
        Push::Join { channel, ref info } => {
            bytes(2, channel.as_bytes(), out);
            message(5, out, |out| message(1, out, |out| append_info(info, out)));
        }
        Push::Leave { channel, ref info } => {
            bytes(2, channel.as_bytes(), out);
            message(6, out, |out| message(1, out, |out| append_info(info, out)));
        }
        Push::Unsubscribe {
            channel,
            code,
            reason,
        } => {
            bytes(2, channel.as_bytes(), out);
            message(7, out, |out| {
                number(2, code.into(), out);
                bytes(3, reason.as_bytes(), out);
            });
        }
        Push::Message(data) => message(8, out, |out| bytes(1, &data.bytes, out)),
        Push::Disconnect { code, reason } => message(11, out, |out| {
            number(1, code.into(), out);
            bytes(2, reason.as_bytes(), out);
        }),
        Push::Subscribe { channel, subscribe } => {
            bytes(2, channel.as_bytes(), out);
            message(9, out, |out| {
                flag(1, subscribe.recoverable, out);
                append_epoch(4, subscribe.position, out);
                number(5, offset(subscribe.position), out);
                flag(6, subscribe.positioned, out);
                bytes(7, subscribe.data.unwrap_or_default().as_bytes(), out);
            });
        }
        Push::Refresh { ttl_s } => message(12, out, |out| {
            flag(1, ttl_s.is_some(), out);
            number(2, ttl_s.unwrap_or_default().into(), out);
        }),
    }
}
