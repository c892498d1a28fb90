//! Surveys and their replies as bytes, between the nodes of a cluster.
//!
//! Numbers are big-endian, texts have their length in four bytes before them, and optional parts a
//! byte that shows whether they follow. Bytes that cannot be decoded are ignored: a node of another
//! version does not answer.

mod bytes;

use throng_types::ChannelName;

use crate::survey::{NodeReply, Search, Survey, SurveyReply};
use bytes::{Reader, Writer, channel, transport_number, transport_of};

/// The form of both; another one is not read.
const FORM: u8 = 1;

/// Encodes a survey for other nodes.
#[must_use]
pub fn encode_survey(survey: &Survey) -> Vec<u8> {
    let mut out = Writer(vec![FORM]);
    match survey {
        Survey::Channels => out.byte(0),
        Survey::Count => out.byte(1),
        Survey::Disconnect {
            user,
            client,
            code,
            reason,
            whitelist,
        } => {
            out.byte(2);
            out.text(user);
            out.text(client);
            out.number(u64::from(*code));
            out.text(reason);
            out.number(whitelist.len() as u64);
            whitelist.iter().for_each(|client| out.text(client));
        }
        Survey::Control {
            user,
            client,
            command,
        } => {
            out.byte(3);
            out.text(user);
            out.text(client);
            out.command(command);
        }
        Survey::Unsubscribe {
            user,
            client,
            channel,
        } => {
            out.byte(4);
            out.text(user);
            out.text(client);
            out.optional_text(channel.as_ref().map(ChannelName::as_str));
        }
        Survey::Find(search) => {
            out.byte(6);
            out.text(&search.user);
            out.text(&search.address);
            out.byte(search.transport.map_or(0, transport_number));
            out.optional_text(search.channel.as_ref().map(ChannelName::as_str));
            out.byte(u8::from(search.slow));
            out.number(u64::from(search.rows_max));
        }
        Survey::Carry {
            node,
            session,
            data,
        } => {
            out.byte(5);
            out.text(node);
            out.text(session);
            out.bytes(data);
        }
    }
    out.0
}

/// Decodes a survey; `None` if the bytes are not of this version.
#[must_use]
pub fn decode_survey(bytes: &[u8]) -> Option<Survey> {
    let mut from = Reader(bytes);
    if from.byte()? != FORM {
        return None;
    }
    Some(match from.byte()? {
        0 => Survey::Channels,
        1 => Survey::Count,
        2 => Survey::Disconnect {
            user: from.text()?,
            client: from.text()?,
            code: u16::try_from(from.number()?).ok()?,
            reason: from.text()?,
            whitelist: from.many(Reader::text)?,
        },
        3 => Survey::Control {
            user: from.text()?,
            client: from.text()?,
            command: from.command()?,
        },
        4 => Survey::Unsubscribe {
            user: from.text()?,
            client: from.text()?,
            channel: match from.optional_text()? {
                Some(name) => Some(channel(&name)?),
                None => None,
            },
        },
        5 => Survey::Carry {
            node: from.text()?,
            session: from.text()?,
            data: from.bytes()?.into(),
        },
        6 => Survey::Find(Search {
            user: from.text()?,
            address: from.text()?,
            transport: match from.byte()? {
                0 => None,
                number => Some(transport_of(number)?),
            },
            channel: match from.optional_text()? {
                Some(name) => Some(channel(&name)?),
                None => None,
            },
            slow: from.byte()? == 1,
            rows_max: from.small()?,
        }),
        _ => return None,
    })
}

/// Writes the replies of a node's shards. Those of other nodes are left out.
#[must_use]
pub fn encode_replies(uid: &str, version: &str, uptime_s: u32, replies: &[SurveyReply]) -> Vec<u8> {
    let mut out = Writer(vec![FORM]);
    out.text(uid);
    out.text(version);
    out.number(u64::from(uptime_s));
    out.number(replies.len() as u64);
    for reply in replies {
        match reply {
            SurveyReply::Channels(channels) => {
                out.byte(0);
                out.number(channels.len() as u64);
                for (name, count) in channels {
                    out.text(name.as_str());
                    out.number(u64::from(*count));
                }
            }
            SurveyReply::Count(count) => {
                out.byte(1);
                out.number(u64::from(count.clients));
                out.number(u64::from(count.subscriptions));
                out.numbers(&count.users);
                out.numbers(&count.channels);
            }
            SurveyReply::Done(count) => {
                out.byte(2);
                out.number(u64::from(*count));
            }
            SurveyReply::Matches(found) => {
                out.byte(4);
                out.found(found);
            }
            SurveyReply::Elsewhere(_) | SurveyReply::Unanswered => out.byte(3),
        }
    }
    out.0
}

/// Decodes a node's reply.
#[must_use]
pub fn decode_replies(bytes: &[u8]) -> Option<NodeReply> {
    let mut from = Reader(bytes);
    if from.byte()? != FORM {
        return None;
    }
    Some(NodeReply {
        uid: from.text()?,
        version: from.text()?,
        uptime_s: from.small()?,
        replies: from.many(Reader::reply)?,
    })
}

#[cfg(test)]
mod tests;
