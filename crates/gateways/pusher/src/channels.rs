//! Channels and user of one client.
//!
//! Most clients have one channel and no user, and there may be a million of them: the first channel
//! is kept in the one allocation that such a client has, and all else in a second.

use throng_types::{ChannelName, Save};

use crate::membership::Membership;

/// Tokens of questions for users begin here.
const USERS: u32 = 1 << 16;

#[derive(Default, Save)]
pub(crate) struct More {
    first: Option<Subscription>,
    rest: Option<Box<Rest>>,
    /// Counts questions for users.
    #[save(skip)]
    asked: u16,
}

#[derive(Default, Save)]
struct Rest {
    /// Bound: `limits.channels_per_connection`, and the user's own.
    channels: Vec<Subscription>,
    user: Option<User>,
}

/// A user that has signed in.
#[derive(Save)]
pub(crate) struct User {
    pub(crate) id: Box<str>,
    /// JSON about the user, which presence channels show where a subscribe brings none.
    pub(crate) info: Option<Box<str>>,
}

#[derive(Save)]
pub(crate) struct Subscription {
    pub(crate) channel: ChannelName,
    /// Whether the client was told that it subscribes.
    pub(crate) is_live: bool,
    /// Set in presence channels.
    pub(crate) membership: Option<Box<Membership>>,
}

impl Subscription {
    /// Whether nothing about it is under way.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.is_live && { self.membership.as_ref() }.is_none_or(|it| it.joining.is_none())
    }
}

impl More {
    /// A token for a question for users.
    pub(crate) const fn next_token(&mut self) -> u32 {
        self.asked = self.asked.wrapping_add(1);
        USERS + self.asked as u32
    }

    pub(crate) fn channels(&self) -> impl Iterator<Item = &Subscription> {
        let rest = self.rest.iter().flat_map(|rest| &rest.channels);
        self.first.iter().chain(rest)
    }

    pub(crate) fn channels_mut(&mut self) -> impl Iterator<Item = &mut Subscription> {
        let rest = self.rest.iter_mut().flat_map(|rest| &mut rest.channels);
        self.first.iter_mut().chain(rest)
    }

    pub(crate) fn user(&self) -> Option<&User> {
        self.rest.as_ref()?.user.as_ref()
    }

    pub(crate) fn sign_in(&mut self, user: User) {
        self.rest.get_or_insert_default().user = Some(user);
    }

    /// Notes a channel that the hub has not answered yet.
    pub(crate) fn add(&mut self, channel: ChannelName, membership: Option<Box<Membership>>) {
        let new = Subscription {
            channel,
            is_live: false,
            membership,
        };
        match &self.first {
            None => self.first = Some(new),
            Some(_) => self.rest.get_or_insert_default().channels.push(new),
        }
    }

    /// Forgets a channel; false if it was not there.
    pub(crate) fn remove(&mut self, channel: &ChannelName) -> bool {
        let is_it = |known: &mut Subscription| known.channel == *channel;
        if self.first.take_if(is_it).is_some() {
            return true;
        }
        let rest = self.rest.as_mut().map(|rest| &mut rest.channels);
        rest.is_some_and(|rest| rest.extract_if(.., is_it).count() > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_channel_takes_one_small_allocation() {
        assert!(size_of::<More>() <= 56, "{}", size_of::<More>());
    }

    #[test]
    fn channels_come_and_go_in_any_order() {
        let names = ["a", "b", "c"].map(|name| ChannelName::new(name).unwrap());
        for gone in 0..names.len() {
            let mut more = More::default();
            for name in &names {
                more.add(name.clone(), None);
            }
            assert!(more.remove(&names[gone]) && !more.remove(&names[gone]));
            assert_eq!(more.channels().count(), 2);
            more.add(names[gone].clone(), None);
            for name in &names {
                let found = { more.channels_mut() }.filter(|known| known.channel == *name);
                assert_eq!(found.count(), 1);
            }
        }
    }
}
