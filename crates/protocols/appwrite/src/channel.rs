//! Channel names that a client may ask for under its identity.
//!
//! Matching is equality of names within a project; there are no wildcards. Only `account` channels
//! depend on who asks (Appwrite's `convertChannels` and `rebindAccountChannels`):
//!
//! | asked for | a guest gets | user `U` gets |
//! |---|---|---|
//! | `account` | `account` | `account` and, at the end, `account.U` |
//! | `account.update` (an action) | the same | `account.U.update` |
//! | `account.` anything else | nothing | nothing |

/// The actions that may end a channel's name.
const ACTIONS: [&str; 4] = ["create", "update", "upsert", "delete"];

/// The channels that `user_id` (empty for a guest) gets for those asked for: duplicates collapse
/// into the first, what is not allowed is left out in silence.
#[must_use]
pub fn convert<S: AsRef<str>>(asked: &[S], user_id: &str) -> Vec<String> {
    let mut kept: Vec<String> = Vec::with_capacity(asked.len());
    let mut appended: Vec<String> = Vec::new();
    for channel in asked {
        let channel = channel.as_ref();
        let Some(rest) = channel.strip_prefix("account.") else {
            push_new(&mut kept, channel.to_owned());
            if channel == "account" && !user_id.is_empty() {
                push_new(&mut appended, format!("account.{user_id}"));
            }
            continue;
        };
        if !ACTIONS.contains(&rest) {
            continue;
        }
        if user_id.is_empty() {
            push_new(&mut kept, channel.to_owned());
        } else {
            push_new(&mut appended, format!("account.{user_id}.{rest}"));
        }
    }
    for channel in appended {
        push_new(&mut kept, channel);
    }
    kept
}

/// New name of a stored channel when its connection's user changes from `from` (empty for a guest)
/// to `to`; nothing when it stays. An empty `to` changes nothing.
#[must_use]
pub fn rebind(channel: &str, from: &str, to: &str) -> Option<String> {
    if to.is_empty() || from == to {
        return None;
    }
    let rest = channel.strip_prefix("account.")?;
    if from.is_empty() {
        return ACTIONS
            .contains(&rest)
            .then(|| format!("account.{to}.{rest}"));
    }
    match rest.strip_prefix(from)? {
        "" => Some(format!("account.{to}")),
        action => {
            let action = action.strip_prefix('.')?;
            ACTIONS
                .contains(&action)
                .then(|| format!("account.{to}.{action}"))
        }
    }
}

fn push_new(channels: &mut Vec<String>, channel: String) {
    if !channels.contains(&channel) {
        channels.push(channel);
    }
}

#[cfg(test)]
mod tests {
    use throng_types::cases;

    use super::*;

    #[test]
    fn account_channels_follow_the_identity() {
        for (case, expect) in cases(include_str!("channel.txt")) {
            let (asked, user_id) = case.split_once(" as ").unwrap_or((case, ""));
            let asked: Vec<&str> = asked.split(' ').collect();
            let expect: Vec<&str> = expect.split(' ').filter(|it| *it != "nothing").collect();
            assert_eq!(convert(&asked, user_id), expect, "{case}");
        }
    }

    #[test]
    fn stored_channels_follow_a_new_identity() {
        for (channel, from, to, expect) in [
            ("account.create", "", "U", Some("account.U.create")),
            ("account", "", "U", None),
            ("account.U", "U", "V", Some("account.V")),
            ("account.U.delete", "U", "V", Some("account.V.delete")),
            ("account.UX", "U", "V", None),
            ("account.U.other", "U", "V", None),
            ("account.U", "U", "U", None),
            ("account.U", "U", "", None),
            ("files", "", "U", None),
        ] {
            assert_eq!(rebind(channel, from, to).as_deref(), expect, "{channel}");
        }
    }
}
