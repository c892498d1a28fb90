//! Names of channels. The prefix of a name decides who may subscribe and what a subscriber gets.

/// Longest name of a channel, in bytes. Pusher itself stops at 164; its libraries at 200.
pub const NAME_BYTES_MAX: usize = 200;

/// Channel of a user that has signed in, before the user's id.
const SERVER_TO_USER: &str = "#server-to-user-";

/// Proof that a channel asks of a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelAccess {
    Public,
    /// A signature of the app's back end.
    Private,
    /// A signature that also names the member.
    Presence,
    /// A signature. Data are encrypted from back end to client, so clients publish nothing there.
    Encrypted,
    /// A sign-in as the channel's user.
    User,
}

/// Meaning of a channel name's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelKind {
    pub access: ChannelAccess,
    /// Whether a new subscriber gets the newest event, which the server keeps.
    pub is_cache: bool,
}

impl ChannelKind {
    /// Reads a name: ASCII letters, digits and `-_=@,.;`, at most [`NAME_BYTES_MAX`]. A user's
    /// own channel has any characters behind its prefix. `None` for all others.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        if name.len() > NAME_BYTES_MAX {
            return None;
        }
        if let Some(user) = name.strip_prefix(SERVER_TO_USER) {
            let access = ChannelAccess::User;
            return (!user.is_empty()).then_some(Self {
                access,
                is_cache: false,
            });
        }
        let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=@,.;".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_good) {
            return None;
        }
        let prefixes = [
            ("private-encrypted-", ChannelAccess::Encrypted),
            ("private-", ChannelAccess::Private),
            ("presence-", ChannelAccess::Presence),
            ("", ChannelAccess::Public),
        ];
        prefixes.into_iter().find_map(|(prefix, access)| {
            let rest = name.strip_prefix(prefix)?;
            let is_cache = rest.starts_with("cache-");
            Some(Self { access, is_cache })
        })
    }

    /// Whether subscribers need a signature.
    #[must_use]
    pub const fn is_signed(self) -> bool {
        matches!(
            self.access,
            ChannelAccess::Private | ChannelAccess::Presence | ChannelAccess::Encrypted
        )
    }

    /// Whether clients may send events there, if their app lets them.
    #[must_use]
    pub const fn takes_client_events(self) -> bool {
        matches!(
            self.access,
            ChannelAccess::Private | ChannelAccess::Presence
        )
    }
}

/// Name of the channel on which a back end reaches all connections of a user.
#[must_use]
pub fn server_to_user(user_id: &str) -> String {
    [SERVER_TO_USER, user_id].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_decide() {
        for (name, access, is_cache) in [
            ("news", ChannelAccess::Public, false),
            ("cache-news", ChannelAccess::Public, true),
            ("private-news", ChannelAccess::Private, false),
            ("private-cache-news", ChannelAccess::Private, true),
            ("private-encrypted-news", ChannelAccess::Encrypted, false),
            (
                "private-encrypted-cache-news",
                ChannelAccess::Encrypted,
                true,
            ),
            ("presence-news", ChannelAccess::Presence, false),
            ("presence-cache-news", ChannelAccess::Presence, true),
            ("#server-to-user-42", ChannelAccess::User, false),
            ("#server-to-user-a:b c", ChannelAccess::User, false),
            ("privatenews", ChannelAccess::Public, false),
            ("-_=@,.;aZ9", ChannelAccess::Public, false),
        ] {
            assert_eq!(
                ChannelKind::of(name),
                Some(ChannelKind { access, is_cache }),
                "{name}"
            );
        }
        assert_eq!(server_to_user("42"), "#server-to-user-42");
    }

    #[test]
    fn names_have_few_characters_and_an_end() {
        let long = "a".repeat(NAME_BYTES_MAX);
        assert!(ChannelKind::of(&long).is_some());
        for wrong in [
            "",
            "a b",
            "a:b",
            "a/b",
            "é",
            "#other",
            "#server-to-user-",
            &(long + "a"),
        ] {
            assert_eq!(ChannelKind::of(wrong), None, "{wrong}");
        }
    }
}
