//! Appwrite's users of a run: members of the team, users that know of it, and look-ups that wait.
//!
//! Stands where the driver would, and keeps its promise: an answer is newer than every change
//! reported before it. Beyond that it is as late and as old as can be, in any order, and may fail.
//!
//! Invariant: a user that gets an event of the team was a member when it happened, or had been and
//! the change could not be known. At the end of a run, the members get the event, and no other
//! user.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use throng_appwrite::{AppwriteIdentity, Change, IdentityChange, MembershipList};
use throng_gateway_appwrite::{Credential, Lookup, LookupPart, LookupReply, QueueFull};
use throng_server::gateways::Lookups;
use throng_types::ConnId;

/// The users, by what they show: `u0` and so on.
pub(crate) const USERS: usize = 3;
/// The channel of the team's things.
pub(crate) const SECRET: &str = "secret";

#[derive(Clone, Copy, Default)]
struct User {
    /// Whether the user is in the team.
    member: bool,
    /// Membership as far as events have reported it.
    told: bool,
    /// The latest change reported, or gap in which one may have been lost.
    changed: u64,
}

struct Asked {
    lookup: Lookup,
    /// Number of changes reported before it was asked, and the members then.
    began: u64,
    members: [bool; USERS],
}

#[derive(Default)]
struct State {
    users: [User; USERS],
    clock: u64,
    waiting: VecDeque<Asked>,
    /// Users that may get each event, by the event's number.
    allowed: Vec<[bool; USERS]>,
}

/// Team members and waiting look-ups; shared with the shards' apps.
#[derive(Clone, Default)]
pub(crate) struct Directory(Arc<Mutex<State>>);

impl Lookups for Directory {
    fn ask(&self, lookup: Lookup) -> Result<(), QueueFull> {
        let mut state = self.state();
        let (began, members) = (state.clock, state.users.map(|user| user.member));
        state.waiting.push_back(Asked {
            lookup,
            began,
            members,
        });
        Ok(())
    }
}

/// Answer to one look-up, with its receiver.
pub(crate) struct Answer {
    pub(crate) conn: ConnId,
    pub(crate) token: u32,
    pub(crate) found: LookupReply,
    /// A change came between.
    pub(crate) overtaken: bool,
}

impl Directory {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("one thread")
    }

    pub(crate) fn waiting(&self) -> usize {
        self.state().waiting.len()
    }

    /// A user joins or leaves the team, and an event will report it. Returns whether it is a member
    /// now.
    pub(crate) fn change(&self, user: usize) -> bool {
        let mut state = self.state();
        state.clock += 1;
        let clock = state.clock;
        let one = &mut state.users[user];
        *one = User {
            member: !one.member,
            told: !one.member,
            changed: clock,
        };
        one.member
    }

    /// Changes a user's membership without an event.
    pub(crate) fn change_unheard(&self, user: usize) {
        let one = &mut self.state().users[user];
        one.member = !one.member;
    }

    /// Records that changes may have been lost.
    pub(crate) fn gap(&self) {
        let mut state = self.state();
        state.clock += 1;
        let clock = state.clock;
        state.users.iter_mut().for_each(|user| user.changed = clock);
    }

    /// All look-ups have been answered since.
    pub(crate) fn all_known(&self) {
        for user in &mut self.state().users {
            user.told = user.member;
        }
    }

    /// Something of the team's happens: its number.
    pub(crate) fn secret(&self) -> usize {
        let mut state = self.state();
        let allowed = state.users.map(|user| user.member || user.told);
        state.allowed.push(allowed);
        state.allowed.len() - 1
    }

    /// Whether a user may get an event.
    pub(crate) fn allows(&self, secret: usize, user: usize) -> bool {
        self.state().allowed[secret][user]
    }

    /// Answers one of the look-ups that wait, or lets it fail.
    pub(crate) fn answer(&self, at: usize, fails: bool) -> Option<Answer> {
        let mut state = self.state();
        let Asked {
            lookup,
            began,
            members,
        } = state.waiting.remove(at)?;
        let Credential::Session(name) = &lookup.credential else {
            panic!("nobody shows a token");
        };
        let number: usize = name[1..].parse().expect("a user of ours");
        let user = state.users[number];
        let overtaken = user.changed > began;
        let member = if overtaken {
            user.member
        } else {
            members[number]
        };
        let found = match fails {
            true => LookupReply::Failed,
            false => found(name, member, &lookup.part),
        };
        Some(Answer {
            conn: lookup.conn,
            token: lookup.token,
            found,
            overtaken,
        })
    }
}

fn found(name: &str, member: bool, part: &LookupPart) -> LookupReply {
    let membership = format!(
        r#"{{"memberships":[{{"$id":"m-{name}","teamId":"T","confirm":{member},"roles":[]}}]}}"#
    );
    let list = MembershipList {
        body: membership.as_bytes(),
        is_own: true,
    };
    let account = format!(r#"{{"$id":"{name}","emailVerification":true}}"#);
    let what = match part {
        LookupPart::Everything => {
            let identity = AppwriteIdentity::from_account(account.as_bytes(), &[list]);
            return LookupReply::User(Arc::new(identity.expect("an account")));
        }
        LookupPart::Account => Change::Account {
            verified: true,
            blocked: false,
            labels: Vec::new(),
        },
        LookupPart::Membership { team, id, .. } => {
            Change::of_membership(&list, name, team, id).expect("a list")
        }
    };
    let user_id = name.to_owned();
    LookupReply::Changed(IdentityChange { user_id, what })
}
