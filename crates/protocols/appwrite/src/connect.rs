//! The URL of a connection, in every form that an official SDK has sent since 2021.
//!
//! Owns: which project, channels, slots and credentials the query names. Never: decides whether
//! they are allowed, nor who the client is.
//!
//! Forms: `project` with `channels[]` (SDKs before 22.1), also `channel[slot][]=query` (22.1 to
//! 24.2), `project` alone with later `subscribe` messages (from 25.0), and `jwt` (from 25.2).

use throng_types::json::{Object, append_str, append_strs};

pub use crate::url::Key as Slot;
use crate::url::{Param, Params, UrlError};
use crate::{MessageLimits, QueryFilter, RealtimeError, channel};

/// The project that needs no platform and stands for Appwrite's own console.
pub const CONSOLE: &str = "console";

/// Request that a client's URL makes. Identity may take a while to find out, so channels are
/// resolved later, by [`ConnectRequest::subscriptions`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectRequest {
    /// The project; [`CONSOLE`] if the URL names none. A header `X-Appwrite-Project` goes before
    /// it.
    pub project: String,
    /// The channels as asked for, without duplicates, before accounts are rewritten.
    pub channels: Vec<String>,
    /// Token of the `jwt` parameter.
    pub jwt: Option<String>,
    /// `mode=admin`: identity comes from the console's session.
    pub admin: bool,
    params: Params,
}

/// One subscription from the URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotSubscription {
    /// The client's number for it, which [`write_slot_ids`] gives back.
    pub slot: Slot,
    /// The channels under the client's identity.
    pub channels: Vec<String>,
    pub filter: QueryFilter,
}

impl ConnectRequest {
    /// Reads a URL's query, without the `?`.
    ///
    /// # Errors
    /// [`RealtimeError::Internal`] where PHP would stumble (`channels` as a text, broken UTF-8) and
    /// [`RealtimeError::UrlQuery`] beyond a limit.
    pub fn parse(query: &str, limits: &MessageLimits) -> Result<Self, RealtimeError> {
        let params = Params::parse(query, limits.url_params_max).map_err(|error| match error {
            UrlError::Encoding => RealtimeError::Internal("Malformed UTF-8 in the URL".to_owned()),
            UrlError::TooMany => RealtimeError::UrlQuery("Too many parameters".to_owned()),
            UrlError::TooDeep => RealtimeError::UrlQuery("Parameters nest too deep".to_owned()),
        })?;
        let text = |name| params.get(name).and_then(Param::as_text);
        let project = match text("project") {
            None | Some("") => CONSOLE,
            Some(project) => project,
        };
        Ok(Self {
            project: project.to_owned(),
            channels: channels(&params, limits)?,
            jwt: text("jwt").filter(|jwt| !jwt.is_empty()).map(str::to_owned),
            admin: text("mode") == Some("admin"),
            params,
        })
    }

    /// The subscriptions of the URL for `user_id` (empty for a guest), in the order in which
    /// Appwrite numbers them. A channel without queries of its own belongs to slot 0; the first
    /// channel of a slot gives the slot's queries.
    ///
    /// Empty means that the client will send `subscribe` messages.
    ///
    /// # Errors
    /// [`RealtimeError::UrlQuery`] and [`RealtimeError::Internal`] for queries that cannot be used,
    /// [`RealtimeError::UrlQuery`] beyond a limit.
    pub fn subscriptions(
        &self,
        user_id: &str,
        limits: &MessageLimits,
    ) -> Result<Vec<SlotSubscription>, RealtimeError> {
        let mut slots: Vec<SlotSubscription> = Vec::new();
        for channel in channel::convert(&self.channels, user_id) {
            let Some(param) = self.slots_of(&channel) else {
                join(&mut slots, Slot::Number(0), &channel, || {
                    Ok(QueryFilter::ALL)
                })?;
                continue;
            };
            match param {
                Param::Text(query) => join(&mut slots, Slot::Number(0), &channel, || {
                    QueryFilter::parse(&[query], limits, RealtimeError::UrlQuery)
                })?,
                Param::List(entries) => {
                    for (key, queries) in entries {
                        join(&mut slots, key.clone(), &channel, || {
                            slot_filter(queries, limits)
                        })?;
                    }
                }
            }
            if slots.len() > limits.subscriptions_max {
                return Err(RealtimeError::UrlQuery("Too many subscriptions".to_owned()));
            }
        }
        Ok(slots)
    }

    /// The parameter that holds a channel's queries, under the name that PHP gives it. A channel
    /// called `project` does not take the project's id for a query.
    fn slots_of(&self, channel: &str) -> Option<&Param> {
        let name = channel.replace('.', "_");
        let param = self.params.get(&name)?;
        (name != "project" || param.as_text().is_none()).then_some(param)
    }
}

/// Appends the `subscriptions` of a `connected` frame: slot to id. Numbers that count up from 0
/// make a list, as in PHP, and anything else an object; clients are known that insist.
pub fn write_slot_ids<S: AsRef<str>>(slots: &[(Slot, S)], out: &mut Vec<u8>) {
    let counts_up = slots
        .iter()
        .enumerate()
        .all(|(n, (slot, _))| *slot == Slot::Number(n as i64));
    if counts_up {
        append_strs(slots.iter().map(|(_, id)| id), out);
        return;
    }
    Object::append(out, |ids| {
        for (slot, id) in slots {
            let out = match slot {
                Slot::Number(number) => ids.value_of(&number.to_string()),
                Slot::Name(name) => ids.value_of(name),
            };
            append_str(id.as_ref(), out);
        }
    });
}

fn channels(params: &Params, limits: &MessageLimits) -> Result<Vec<String>, RealtimeError> {
    let mut channels = Vec::new();
    let entries = match params.get("channels") {
        None => return Ok(channels),
        Some(Param::List(entries)) => entries,
        Some(Param::Text(_)) => {
            return Err(RealtimeError::Internal("channels is not a list".to_owned()));
        }
    };
    for (_, param) in entries {
        let Some(channel) = param.as_text() else {
            return Err(RealtimeError::Internal(
                "a channel is not a text".to_owned(),
            ));
        };
        if channel.len() > limits.channel_bytes_max {
            return Err(RealtimeError::UrlQuery(
                "A channel's name is too long".to_owned(),
            ));
        }
        if channels.iter().all(|known| known != channel) {
            channels.push(channel.to_owned());
        }
        if channels.len() > limits.channels_max {
            return Err(RealtimeError::UrlQuery("Too many channels".to_owned()));
        }
    }
    Ok(channels)
}

fn slot_filter(queries: &Param, limits: &MessageLimits) -> Result<QueryFilter, RealtimeError> {
    let mut texts = Vec::new();
    match queries {
        Param::Text(query) => texts.push(query.as_str()),
        Param::List(entries) => {
            for (_, query) in entries {
                let Some(query) = query.as_text() else {
                    return Err(RealtimeError::Internal("a query is not a text".to_owned()));
                };
                texts.push(query);
            }
        }
    }
    QueryFilter::parse(&texts, limits, RealtimeError::UrlQuery)
}

/// Adds a channel to its slot; a new slot asks for its queries.
fn join(
    slots: &mut Vec<SlotSubscription>,
    slot: Slot,
    channel: &str,
    filter: impl FnOnce() -> Result<QueryFilter, RealtimeError>,
) -> Result<(), RealtimeError> {
    if let Some(known) = slots.iter_mut().find(|known| known.slot == slot) {
        if known.channels.iter().all(|name| name != channel) {
            known.channels.push(channel.to_owned());
        }
        return Ok(());
    }
    slots.push(SlotSubscription {
        slot,
        channels: vec![channel.to_owned()],
        filter: filter()?,
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use throng_types::cases;

    use super::*;

    fn parse(query: &str) -> Result<ConnectRequest, RealtimeError> {
        ConnectRequest::parse(query, &MessageLimits::default())
    }

    fn number(slot: i64) -> Slot {
        Slot::Number(slot)
    }

    #[test]
    fn slots_of_every_generation() {
        for (case, expect) in cases(include_str!("connect.txt")) {
            let (query, user_id) = case.split_once(" as ").unwrap_or((case, ""));
            let request = parse(query).unwrap();
            let slots = request.subscriptions(user_id, &MessageLimits::default());
            let slots = slots.unwrap().into_iter().map(|it| {
                let name = match it.slot {
                    Slot::Number(number) => number.to_string(),
                    Slot::Name(name) => name,
                };
                format!("{name}: {} {}", it.channels.join(","), it.filter.text())
            });
            let slots: Vec<String> = slots.collect();
            let told = match slots.is_empty() {
                true => "nothing".to_owned(),
                false => slots.join("; "),
            };
            assert_eq!(told, expect, "{query}");
        }
    }

    #[test]
    fn projects_and_credentials() {
        let request = parse("project=console&channels[]=files").unwrap();
        assert_eq!(
            (&*request.project, &*request.channels),
            (CONSOLE, &["files".to_owned()][..])
        );
        let request = parse("project=bench&jwt=a.b%2Bc").unwrap();
        assert_eq!(request.jwt.as_deref(), Some("a.b+c"));
        assert!(request.channels.is_empty());
        assert_eq!(parse("").unwrap().project, CONSOLE);
        assert!(parse("mode=admin").unwrap().admin);
    }

    #[test]
    fn refusals() {
        for wrong in ["channels=files", "channels[][x]=files"] {
            assert!(matches!(parse(wrong), Err(RealtimeError::Internal(_))));
        }
        let long = format!("channels[]={}", "x".repeat(513));
        let many: String = (0..257).map(|n| format!("channels[]={n}&")).collect();
        for beyond in [long, many] {
            assert!(matches!(parse(&beyond), Err(RealtimeError::UrlQuery(_))));
        }
        let request = parse("channels[]=a&a[0][]=%7B").unwrap();
        assert_eq!(
            request.subscriptions("", &MessageLimits::default()),
            Err(RealtimeError::UrlQuery(
                "Invalid query: Syntax error".to_owned()
            ))
        );
        let slots: String = (0..257)
            .map(|n| format!("a[{n}][]=%7B%22method%22:%22or%22%7D&"))
            .collect();
        let request = parse(&format!("channels[]=a&{slots}")).unwrap();
        let limits = MessageLimits {
            subscriptions_max: 256,
            ..MessageLimits::default()
        };
        assert!(request.subscriptions("", &limits).is_err());
    }

    #[test]
    fn slot_ids_take_the_form_that_php_gives_them() {
        let write = |slots: &[(Slot, &str)]| {
            let mut out = Vec::new();
            write_slot_ids(slots, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(write(&[]), "[]");
        assert_eq!(write(&[(number(0), "x"), (number(1), "y")]), r#"["x","y"]"#);
        assert_eq!(write(&[(number(1), "x")]), r#"{"1":"x"}"#);
        assert_eq!(
            write(&[(number(1), "x"), (number(0), "y")]),
            r#"{"1":"x","0":"y"}"#
        );
        assert_eq!(write(&[(Slot::Name("n".to_owned()), "x")]), r#"{"n":"x"}"#);
    }

    proptest! {
        #[test]
        fn nothing_panics(query in "(channels|project|a|account)?[\\[\\]=&%a-z0-9.+]{0,60}") {
            if let Ok(request) = parse(&query) {
                let _ = request.subscriptions("U", &MessageLimits::default());
            }
        }
    }
}
