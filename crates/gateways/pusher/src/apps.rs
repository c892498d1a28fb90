//! Apps that are served, what each may use, and what the sessions of a shard share.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use throng_auth::Origins;
use throng_pusher::api::EventLimits;
use throng_pusher::{AppKeys, CloseCode};
use throng_session::{Elsewhere, SharedDebt};
use throng_types::{ChannelName, Millis};

use crate::names::own_name;
use crate::quota::{AppLimits, AppUse, RATES};

/// Place of no app, so that a node has at most 65,535 apps.
pub(crate) const NO_APP: u16 = u16::MAX;

/// One app: a tenant with channels, keys and limits of its own.
#[derive(Clone, Debug)]
pub struct PusherApp {
    /// Part of its paths and of its channels' names in the hub; at most 36 bytes.
    pub id: Box<str>,
    pub keys: AppKeys,
    /// Whether it is served; its clients and back ends are refused otherwise.
    pub is_enabled: bool,
    /// Origins of pages that may connect.
    pub origins: Origins,
    /// Whether clients may send events to each other in private and presence channels.
    pub client_events: bool,
    /// Silence after which clients ping, in seconds; not 0.
    pub activity_timeout_s: u32,
    pub limits: EventLimits,
    /// Bounds of what it may use on this node.
    pub quota: AppLimits,
    /// Counters of what it uses on this node, which all shards share. They live as long as the app
    /// is there, over reloads too.
    pub used: Arc<AppUse>,
    /// Users that each of its presence channels may have, on all nodes together.
    pub presence_members_max: u32,
    /// Whether users that have signed in can watch each other.
    pub watchlists: bool,
    /// Whether subscribers are told how many they are.
    pub subscription_count: bool,
}

impl PusherApp {
    /// Whether a channel of its is counted: it limits them, and this is not one of a user.
    pub(crate) fn counts(&self, channel: &ChannelName) -> bool {
        self.quota.channels_max > 0 && !own_name(channel).starts_with('#')
    }
}

/// Apps that the sessions of a shard know; the same on each shard, until a reload brings the next
/// version.
#[derive(Clone, Debug, Default)]
pub struct PusherShared {
    apps: Arc<Apps>,
    /// Path before those of all apps; empty for none.
    pub path: Box<str>,
}

#[derive(Debug, Default)]
struct Apps {
    /// Sessions know their app by its place here, which is empty once the app is removed.
    places: Vec<Option<PusherApp>>,
    /// Places by the apps' ids. Bound: `places`.
    by_id: HashMap<Box<str>, u16>,
    /// Places by the apps' keys. Bound: `places`.
    by_key: HashMap<Box<str>, u16>,
}

impl PusherShared {
    /// Makes the next version, with these apps alone. An app with an id that was there before keeps
    /// its place and its counters. Apps that find no place, above 65,535, are left out.
    #[must_use]
    pub fn renewed(&self, apps: Vec<PusherApp>, path: &str) -> Self {
        let before = &self.apps;
        let mut next = Apps::default();
        next.places.resize_with(before.places.len(), || None);
        let (old, new): (Vec<_>, Vec<_>) = apps
            .into_iter()
            .partition(|app| before.by_id.contains_key(&app.id));
        for mut app in old {
            let place = before.by_id[&app.id];
            if let Some(known) = self.app(place) {
                app.used = known.used.clone();
            }
            if app.quota.history_bytes_max == 0 {
                app.used.held.forget_caches();
            }
            next.put(place, app);
        }
        let mut free = 0..NO_APP;
        for app in new {
            let is_free = |place: &u16| {
                let place = next.places.get(usize::from(*place));
                place.is_none_or(Option::is_none)
            };
            if let Some(place) = free.find(is_free) {
                next.put(place, app);
            }
        }
        Self {
            apps: Arc::new(next),
            path: path.into(),
        }
    }

    /// Returns the apps, in the order of their places.
    pub fn apps(&self) -> impl Iterator<Item = &PusherApp> {
        self.apps.places.iter().flatten()
    }

    /// Has apps know of their connections on other nodes, and makes words about those here, once a
    /// second. Only of apps with limits.
    pub(crate) fn words(
        &self,
        elsewhere: &mut Elsewhere<RATES>,
        own: &str,
        now: Millis,
    ) -> Vec<Vec<u8>> {
        let limited = self.apps().filter(|app| app.quota != AppLimits::default());
        let row = |app: &PusherApp| {
            let (used, others) = (&app.used, elsewhere.connections(&app.id));
            used.elsewhere.store(others, Relaxed);
            let charged = used.rates.each_ref().map(SharedDebt::counted_us);
            (used.connections(), charged)
        };
        let rows: Vec<_> = limited.map(|app| (&*app.id, row(app))).collect();
        elsewhere.words(own, &rows, true, now)
    }

    /// Takes a word of some node, which may be about something else.
    pub(crate) fn hear(
        &self,
        word: &[u8],
        elsewhere: &mut Elsewhere<RATES>,
        own: &str,
        now: Millis,
    ) {
        let debts = |id: &str| Some(&self.by_id(id)?.1.used.rates);
        elsewhere.hear(word, own, now, debts);
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = u16> {
        (0..=NO_APP).take(self.apps.places.len())
    }

    /// Code with which clients of the app in a place end because of the `next` version: the app is
    /// gone, or not served any more.
    pub(crate) fn end_code(&self, place: u16, next: &Self) -> Option<CloseCode> {
        let app = self.app(place)?;
        match next.app(place).filter(|next| next.id == app.id) {
            None => Some(CloseCode::NoApp),
            Some(next) => (!next.is_enabled).then_some(CloseCode::Disabled),
        }
    }

    /// Strips [`Self::path`] off a path; `None` if it does not begin with that.
    pub(crate) fn inner_path<'p>(&self, path: &'p str) -> Option<&'p str> {
        path.strip_prefix(&*self.path)
    }

    /// The app with a public key, with its place.
    pub(crate) fn by_key(&self, key: &str) -> Option<(u16, &PusherApp)> {
        let place = *self.apps.by_key.get(key)?;
        Some((place, self.app(place)?))
    }

    /// The app with an id, with its place.
    pub(crate) fn by_id(&self, id: &str) -> Option<(u16, &PusherApp)> {
        let place = *self.apps.by_id.get(id)?;
        Some((place, self.app(place)?))
    }

    /// The app in a place; `None` if a session belongs to none.
    pub(crate) fn app(&self, place: u16) -> Option<&PusherApp> {
        self.apps.places.get(usize::from(place))?.as_ref()
    }
}

impl Apps {
    fn put(&mut self, place: u16, app: PusherApp) {
        let index = usize::from(place);
        if self.places.len() <= index {
            self.places.resize_with(index + 1, || None);
        }
        self.by_id.insert(app.id.clone(), place);
        self.by_key.insert(app.keys.key().into(), place);
        self.places[index] = Some(app);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quota::EventSource::{BackEnd, Client};

    fn app(id: &str, key: &str) -> PusherApp {
        PusherApp {
            id: id.into(),
            keys: AppKeys::new(key, ["secret"]),
            ..crate::tests::app()
        }
    }

    /// Sessions know their app by its place, so that must not move under them.
    #[test]
    fn an_app_keeps_its_place_and_counters_until_it_goes() {
        let first = PusherShared::default().renewed(vec![app("a", "1"), app("b", "2")], "");
        let place = |shared: &PusherShared, id| shared.by_id(id).map(|(place, _)| place);
        let of_b = place(&first, "b");
        first.by_key("2").expect("there").1.used.take_over();
        // Another key, another order, and another app before it.
        let second = first.renewed(vec![app("c", "1"), app("b", "3")], "/p");
        assert_eq!(place(&second, "b"), of_b);
        assert_eq!(place(&second, "a"), None);
        let (found, b) = second.by_key("3").expect("there");
        assert_eq!((Some(found), b.used.connections()), (of_b, 1));
        assert!(second.by_key("2").is_none());
        assert_eq!(second.inner_path("/p/app/3"), Some("/app/3"));
        assert_eq!(second.inner_path("/app/3"), None);
        // The place of the one that went has another app, whose clients those are not.
        let codes = |before: &PusherShared, next: &PusherShared| -> Vec<_> {
            let places = before.places();
            places.map(|place| before.end_code(place, next)).collect()
        };
        assert_eq!(place(&second, "c"), place(&first, "a"));
        assert_eq!(codes(&first, &second), [Some(CloseCode::NoApp), None]);
        let off = PusherApp {
            is_enabled: false,
            ..app("b", "3")
        };
        let third = second.renewed(vec![off], "");
        let expected = [Some(CloseCode::NoApp), Some(CloseCode::Disabled)];
        assert_eq!(codes(&second, &third), expected);
        assert_eq!(
            codes(&third, &PusherShared::default().renewed(vec![], "")),
            [None, Some(CloseCode::NoApp)]
        );
    }

    fn limited() -> PusherShared {
        let quota = AppLimits {
            connections_max: 3,
            publications_per_s: 10,
            bytes_per_s: 100,
            ..AppLimits::default()
        };
        let app = PusherApp {
            quota,
            ..crate::tests::app()
        };
        PusherShared::default().renewed(vec![app], "")
    }

    #[test]
    fn an_app_has_its_limits_on_all_nodes_together() {
        let [mut here, mut there] = [(); 2].map(|()| Elsewhere::new(1));
        let [own, others] = [(); 2].map(|()| limited());
        let [app, other] = [&own, &others].map(|apps| apps.apps().next().expect("one"));
        let mut tell = |ms: u64, is_there: bool| {
            let words = others.words(&mut there, "there", Millis(ms));
            for word in words.iter().filter(|_| is_there) {
                own.hear(word, &mut here, "here", Millis(ms));
            }
            for _ in 0..2 {
                own.words(&mut here, "here", Millis(ms));
            }
        };
        tell(0, true);
        for _ in 0..2 {
            assert!(other.used.enter(&other.quota));
        }
        assert!(app.used.enter(&app.quota));
        let publish = |app: &PusherApp, from, size, ms| {
            let now = throng_types::Now::new(ms, 0);
            (app.used).publish(from, size, &[], &app.quota, now).is_ok()
        };
        assert!(publish(other, BackEnd, (60, 0), 0));
        assert!(publish(other, Client, (1, 100), 0));
        assert!(publish(app, BackEnd, (5, 0), 0));
        tell(1_000, true);
        assert!(!app.used.enter(&app.quota));
        // The 60 of the other node are paid back in six seconds.
        assert!(!publish(app, BackEnd, (1, 0), 5_000));
        assert!(publish(app, BackEnd, (1, 0), 7_000));
        assert!(
            publish(app, BackEnd, (1, 90), 7_000),
            "clients have their own"
        );
        assert!(!publish(app, Client, (1, 90), 1_000));
        // A connection goes there, and then the node.
        other.used.leave();
        tell(2_000, true);
        assert!(app.used.enter(&app.quota) && !app.used.enter(&app.quota));
        tell(20_000, false);
        assert!(app.used.enter(&app.quota));
    }
}
