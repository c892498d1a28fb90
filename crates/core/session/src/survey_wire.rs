//! Surveys and their replies as bytes, between the nodes of a cluster.
//!
//! Numbers are big-endian, texts stand behind their length in four bytes, and what may be missing
//! behind a byte that says whether it is there. What cannot be read is no survey: a node of another
//! version says so by not answering.

use throng_auth::SubscriptionOptions;
use throng_types::{ChannelName, Epoch, Position};

use crate::survey::{NodeCount, NodeReply, Survey, SurveyReply, Wish};

/// The form of both; another one is not read.
const FORM: u8 = 1;

/// Writes a survey.
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
        Survey::Wish { user, client, wish } => {
            out.byte(3);
            out.text(user);
            out.text(client);
            out.wish(wish);
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

/// Reads a survey.
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
        3 => Survey::Wish {
            user: from.text()?,
            client: from.text()?,
            wish: from.wish()?,
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
            SurveyReply::Elsewhere(_) | SurveyReply::Unanswered => out.byte(3),
        }
    }
    out.0
}

/// Reads what a node replied.
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

fn channel(name: &str) -> Option<ChannelName> {
    ChannelName::with_bound(name, usize::MAX).ok()
}

struct Writer(Vec<u8>);

impl Writer {
    fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_be_bytes());
    }

    fn numbers(&mut self, numbers: &[u64]) {
        self.number(numbers.len() as u64);
        numbers.iter().for_each(|number| self.number(*number));
    }

    fn optional_number(&mut self, number: Option<u64>) {
        self.byte(u8::from(number.is_some()));
        number.into_iter().for_each(|number| self.number(number));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0
            .extend_from_slice(&(bytes.len() as u32).to_be_bytes());
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn optional_text(&mut self, text: Option<&str>) {
        self.byte(u8::from(text.is_some()));
        text.into_iter().for_each(|text| self.text(text));
    }

    fn wish(&mut self, wish: &Wish) {
        match wish {
            Wish::Subscribe {
                channel,
                options,
                until_unix_s,
                since,
            } => {
                self.byte(0);
                self.text(channel.as_str());
                self.optional_text(options.info.as_deref());
                self.optional_text(options.data.as_deref());
                for flag in [
                    options.presence,
                    options.join_leave,
                    options.force_push_join_leave,
                    options.force_recovery,
                    options.force_positioning,
                ] {
                    self.byte(flag.map_or(2, u8::from));
                }
                self.optional_number(*until_unix_s);
                self.optional_number(since.map(|since| since.epoch.0));
                self.number(since.map_or(0, |since| since.offset));
            }
            Wish::Refresh {
                expired,
                until_unix_s,
            } => {
                self.byte(1);
                self.byte(u8::from(*expired));
                self.optional_number(*until_unix_s);
            }
            Wish::Hear(data) => {
                self.byte(2);
                self.bytes(data);
            }
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    fn flag(&mut self) -> Option<Option<bool>> {
        match self.byte()? {
            0 => Some(Some(false)),
            1 => Some(Some(true)),
            2 => Some(None),
            _ => None,
        }
    }

    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_be_bytes(*number))
    }

    fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    /// Several of a kind. Only what is there takes memory.
    fn many<T>(&mut self, one: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.number()?;
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(one(self)?);
        }
        Some(all)
    }

    fn optional<T>(&mut self, one: impl Fn(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.byte()? {
            0 => Some(None),
            1 => one(self).map(Some),
            _ => None,
        }
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.0.split_first_chunk::<4>()?;
        let (bytes, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        self.0 = rest;
        Some(bytes)
    }

    fn text(&mut self) -> Option<Box<str>> {
        Some(std::str::from_utf8(self.bytes()?).ok()?.into())
    }

    fn optional_text(&mut self) -> Option<Option<Box<str>>> {
        self.optional(Self::text)
    }

    fn wish(&mut self) -> Option<Wish> {
        Some(match self.byte()? {
            0 => Wish::Subscribe {
                channel: channel(&self.text()?)?,
                options: SubscriptionOptions {
                    info: self.optional_text()?,
                    data: self.optional_text()?,
                    presence: self.flag()?,
                    join_leave: self.flag()?,
                    force_push_join_leave: self.flag()?,
                    force_recovery: self.flag()?,
                    force_positioning: self.flag()?,
                },
                until_unix_s: self.optional(Self::number)?,
                since: {
                    let epoch = self.optional(Self::number)?;
                    let offset = self.number()?;
                    epoch.map(|epoch| Position {
                        epoch: Epoch(epoch),
                        offset,
                    })
                },
            },
            1 => Wish::Refresh {
                expired: self.byte()? == 1,
                until_unix_s: self.optional(Self::number)?,
            },
            2 => Wish::Hear(self.bytes()?.into()),
            _ => return None,
        })
    }

    fn reply(&mut self) -> Option<SurveyReply> {
        Some(match self.byte()? {
            0 => SurveyReply::Channels(self.many(|from| {
                let name = channel(&from.text()?)?;
                Some((name, from.small()?))
            })?),
            1 => SurveyReply::Count(NodeCount {
                clients: self.small()?,
                subscriptions: self.small()?,
                users: self.many(Self::number)?,
                channels: self.many(Self::number)?,
            }),
            2 => SurveyReply::Done(self.small()?),
            3 => SurveyReply::Unanswered,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests;
