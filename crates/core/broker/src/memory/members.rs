//! Members of the channels whose home is one shard.
//!
//! Owns the lists. Never: permissions to see them, announcements of a coming or going.
//!
//! Cost of a member: its hub keeps its data in any case and shares it with the list, which adds
//! two entries of ordered sets, some 40 bytes. The list of a channel without members is not there.
//!
//! Invariants
//! - `users` counts the members of each user; all counts add up to the members.
//! - There is no list without a member.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use throng_types::{ChannelName, Publisher};

use crate::{ChannelMap, Present, Refusal, Request};

/// A member in the order of public ids.
struct Member(Arc<Publisher>);

/// One member of a user, in the order of users.
struct User(Arc<Publisher>);

macro_rules! ordered_by {
    ($Type:ident, $field:ident) => {
        impl PartialEq for $Type {
            fn eq(&self, other: &Self) -> bool {
                self.0.$field == other.0.$field
            }
        }

        impl Eq for $Type {}

        impl PartialOrd for $Type {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for $Type {
            fn cmp(&self, other: &Self) -> Ordering {
                self.0.$field.cmp(&other.0.$field)
            }
        }

        impl Borrow<str> for $Type {
            fn borrow(&self) -> &str {
                &self.0.$field
            }
        }
    };
}

ordered_by!(Member, client);
ordered_by!(User, user);

#[derive(Default)]
struct List {
    /// By client. Bound: one a subscription of the channel.
    members: BTreeSet<Member>,
    /// Clients of each user. Bound: `members`.
    users: BTreeMap<User, u32>,
}

impl List {
    /// Adds a member; true if its user had none.
    fn add(&mut self, who: &Arc<Publisher>) -> bool {
        let is_first = !self.users.contains_key(&*who.user);
        self.remove(&who.client);
        self.members.insert(Member(who.clone()));
        *self.users.entry(User(who.clone())).or_default() += 1;
        is_first
    }

    /// Removes a member, and says whether it was its user's last; `None` if it was not there.
    fn remove(&mut self, client: &str) -> Option<bool> {
        let Member(who) = self.members.take(client)?;
        let count = self.users.get_mut(&*who.user)?;
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            self.users.remove(&*who.user);
        }
        Some(is_last)
    }
}

/// The lists of all channels at home on a shard.
pub(super) struct Members {
    lists: ChannelMap<List>,
    total: usize,
}

impl Members {
    pub(super) fn new(hash_seed: u64) -> Self {
        Self {
            lists: ChannelMap::new(hash_seed),
            total: 0,
        }
    }

    pub(super) const fn total(&self) -> usize {
        self.total
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&ChannelName, &Arc<Publisher>)> {
        self.lists
            .iter()
            .flat_map(|(channel, list)| list.members.iter().map(move |Member(who)| (channel, who)))
    }

    /// Lists who comes with a request, or takes out who leaves; true if its user had no other
    /// member before, or has none now.
    pub(super) fn note(&mut self, request: &Request) -> bool {
        match request {
            Request::Subscribe {
                channel,
                presence: Some(presence),
                ..
            } if presence.is_listed => self.add(channel, &presence.who),
            Request::Quit { channel, presence } if presence.is_listed => {
                self.remove(channel, &presence.who.client) == Some(true)
            }
            _ => false,
        }
    }

    /// Adds a member, or replaces its older data; true if its user had none.
    pub(super) fn add(&mut self, channel: &ChannelName, who: &Arc<Publisher>) -> bool {
        let key = self.lists.key_or_insert(channel, List::default);
        let Some(list) = self.lists.at_mut(key) else {
            return false;
        };
        let before = list.members.len();
        let is_first = list.add(who);
        self.total += list.members.len() - before;
        is_first
    }

    /// Removes a member, and says whether it was its user's last; `None` if it was not there.
    fn remove(&mut self, channel: &ChannelName, client: &str) -> Option<bool> {
        let key = self.lists.key(channel)?;
        let list = self.lists.at_mut(key)?;
        let is_last = list.remove(client)?;
        self.total -= 1;
        if list.members.is_empty() {
            self.lists.remove(key);
        }
        Some(is_last)
    }

    /// Counts members and users; lists all members if asked.
    pub(super) fn present(
        &self,
        channel: &ChannelName,
        with_members: bool,
        members_max: usize,
    ) -> Result<Present, Refusal> {
        let Some(list) = self.lists.get(channel) else {
            return Ok(Present {
                members: with_members.then(Vec::new),
                ..Present::default()
            });
        };
        if with_members && list.members.len() > members_max {
            return Err(Refusal::TooLong);
        }
        let members = list.members.iter().map(|Member(who)| who.clone());
        Ok(Present {
            clients: list.members.len() as u32,
            users: list.users.len() as u32,
            members: with_members.then(|| members.collect()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(client: &str, user: &str) -> Arc<Publisher> {
        Arc::new(Publisher {
            client: client.into(),
            user: user.into(),
            ..Publisher::default()
        })
    }

    #[test]
    fn members_come_once_and_go_once() {
        let channel = ChannelName::new("c").expect("a name");
        let mut members = Members::new(1);
        for (client, user, is_first) in [
            ("1", "ann", true),
            ("2", "ann", false),
            ("3", "", true),
            ("1", "ann", false),
        ] {
            assert_eq!(members.add(&channel, &who(client, user)), is_first);
        }
        let numbers = |members: &Members| {
            let present = members.present(&channel, false, 0).expect("numbers");
            assert_eq!(present.members, None);
            (members.total(), present.clients, present.users)
        };
        assert_eq!(numbers(&members), (3, 3, 2));
        let all = members.present(&channel, true, 3).expect("room").members;
        let all = all.unwrap_or_default();
        let clients: Vec<&str> = all.iter().map(|who| &*who.client).collect();
        assert_eq!(clients, ["1", "2", "3"]);
        assert_eq!(members.present(&channel, true, 2), Err(Refusal::TooLong));
        // The same connection as another user.
        members.add(&channel, &who("3", "bob"));
        assert_eq!(numbers(&members), (3, 3, 2));
        for (client, was_last) in [
            ("1", Some(false)),
            ("1", None),
            ("2", Some(true)),
            ("4", None),
        ] {
            assert_eq!(members.remove(&channel, client), was_last, "{client}");
        }
        assert_eq!(numbers(&members), (1, 1, 1));
        assert_eq!(members.remove(&channel, "3"), Some(true));
        assert_eq!(numbers(&members), (0, 0, 0));
        assert!(members.lists.is_empty());
        // A request for the members gets a list, even an empty one.
        for with_members in [true, false] {
            let present = members.present(&channel, with_members, 0).expect("nobody");
            assert_eq!(present.members, with_members.then(Vec::new));
        }
    }
}
