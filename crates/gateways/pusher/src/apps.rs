//! Apps that are served, and what the sessions of a shard share.

use throng_auth::Origins;
use throng_pusher::AppKeys;
use throng_pusher::api::EventLimits;

/// One app: a tenant with channels, keys and limits of its own.
#[derive(Clone, Debug)]
pub struct PusherApp {
    /// Part of its paths and of its channels' names in the hub; at most 36 bytes.
    pub id: Box<str>,
    pub keys: AppKeys,
    /// Origins of pages that may connect.
    pub origins: Origins,
    /// Whether clients may send events to each other.
    pub client_events: bool,
    /// Silence after which clients ping, in seconds; not 0.
    pub activity_timeout_s: u32,
    pub limits: EventLimits,
}

/// State that the sessions of all apps share. Each shard has a copy with equal contents.
#[derive(Clone, Debug)]
pub struct PusherShared {
    /// Apps, in the order of the configuration. Sessions know theirs by its place.
    pub apps: Vec<PusherApp>,
}

impl PusherShared {
    /// Place of the app with a public key.
    pub(crate) fn by_key(&self, key: &str) -> Option<u16> {
        self.place(|app| app.keys.key() == key)
    }

    /// Place of the app with an id.
    pub(crate) fn by_id(&self, id: &str) -> Option<u16> {
        self.place(|app| *app.id == *id)
    }

    fn place(&self, is_it: impl Fn(&PusherApp) -> bool) -> Option<u16> {
        let place = self.apps.iter().position(is_it)?;
        u16::try_from(place).ok()
    }

    /// The app in a place; `None` if a session belongs to none.
    pub(crate) fn app(&self, place: u16) -> Option<&PusherApp> {
        self.apps.get(usize::from(place))
    }
}
