//! Encoding of the parts of surveys and replies.

use throng_auth::SubscriptionOptions;
use throng_types::{ChannelName, Epoch, Position};

use crate::Transport;
use crate::survey::{ControlCommand, MatchedConnection, Matches, NodeCount, SurveyReply};

const TRANSPORTS: [Transport; 4] = [
    Transport::Http,
    Transport::WebSocket,
    Transport::Sse,
    Transport::Stream,
];

/// Number on the wire, from 1 on; 0 for a transport that is not in the table.
pub(super) fn transport_number(transport: Transport) -> u8 {
    let place = TRANSPORTS.iter().position(|known| *known == transport);
    place.map_or(0, |place| place as u8 + 1)
}

pub(super) fn transport_of(number: u8) -> Option<Transport> {
    TRANSPORTS.get(usize::from(number).checked_sub(1)?).copied()
}

pub(super) fn channel(name: &str) -> Option<ChannelName> {
    ChannelName::with_bound(name, usize::MAX).ok()
}

/// Bytes of one question or answer, which grow at their end.
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub(super) fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_be_bytes());
    }

    pub(super) fn numbers(&mut self, numbers: &[u64]) {
        self.number(numbers.len() as u64);
        numbers.iter().for_each(|number| self.number(*number));
    }

    pub(super) fn optional_number(&mut self, number: Option<u64>) {
        self.byte(u8::from(number.is_some()));
        number.into_iter().for_each(|number| self.number(number));
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.0
            .extend_from_slice(&(bytes.len() as u32).to_be_bytes());
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub(super) fn optional_text(&mut self, text: Option<&str>) {
        self.byte(u8::from(text.is_some()));
        text.into_iter().for_each(|text| self.text(text));
    }

    pub(super) fn found(&mut self, found: &Matches) {
        self.number(u64::from(found.count));
        self.byte(u8::from(found.is_cut));
        self.number(found.rows.len() as u64);
        for row in &found.rows {
            self.text(&row.client);
            self.text(&row.user);
            self.text(&row.address);
            self.byte(transport_number(row.transport));
            self.number(row.queued_bytes);
            self.number(u64::from(row.subscriptions));
            self.number(row.channels.len() as u64);
            row.channels
                .iter()
                .for_each(|name| self.text(name.as_str()));
        }
    }

    pub(super) fn command(&mut self, command: &ControlCommand) {
        match command {
            ControlCommand::Subscribe {
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
            ControlCommand::Refresh {
                expired,
                until_unix_s,
            } => {
                self.byte(1);
                self.byte(u8::from(*expired));
                self.optional_number(*until_unix_s);
            }
            ControlCommand::Execute(data) => {
                self.byte(2);
                self.bytes(data);
            }
        }
    }
}

/// Reader of the bytes from the front; `None` for unexpected bytes.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    pub(super) fn flag(&mut self) -> Option<Option<bool>> {
        match self.byte()? {
            0 => Some(Some(false)),
            1 => Some(Some(true)),
            2 => Some(None),
            _ => None,
        }
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_be_bytes(*number))
    }

    pub(super) fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    /// Reads a list. Memory grows only with entries that are there.
    pub(super) fn many<T>(&mut self, one: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.number()?;
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(one(self)?);
        }
        Some(all)
    }

    pub(super) fn optional<T>(
        &mut self,
        one: impl Fn(&mut Self) -> Option<T>,
    ) -> Option<Option<T>> {
        match self.byte()? {
            0 => Some(None),
            1 => one(self).map(Some),
            _ => None,
        }
    }

    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.0.split_first_chunk::<4>()?;
        let (bytes, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(super) fn text(&mut self) -> Option<Box<str>> {
        Some(std::str::from_utf8(self.bytes()?).ok()?.into())
    }

    pub(super) fn optional_text(&mut self) -> Option<Option<Box<str>>> {
        self.optional(Self::text)
    }

    pub(super) fn command(&mut self) -> Option<ControlCommand> {
        Some(match self.byte()? {
            0 => ControlCommand::Subscribe {
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
            1 => ControlCommand::Refresh {
                expired: self.byte()? == 1,
                until_unix_s: self.optional(Self::number)?,
            },
            2 => ControlCommand::Execute(self.bytes()?.into()),
            _ => return None,
        })
    }

    pub(super) fn found(&mut self) -> Option<Matches> {
        Some(Matches {
            count: self.small()?,
            is_cut: self.byte()? == 1,
            rows: self.many(|from| {
                Some(MatchedConnection {
                    client: from.text()?,
                    user: from.text()?,
                    address: from.text()?,
                    transport: transport_of(from.byte()?)?,
                    queued_bytes: from.number()?,
                    subscriptions: from.small()?,
                    channels: from.many(|from| channel(&from.text()?))?,
                })
            })?,
        })
    }

    pub(super) fn reply(&mut self) -> Option<SurveyReply> {
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
            4 => SurveyReply::Matches(self.found()?),
            _ => return None,
        })
    }
}
