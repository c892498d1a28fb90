//! From the sections `[[app]]` to what shards need.

use std::sync::Arc;

use throng_auth::Origins;
use throng_config::{AppOptions, Config};
use throng_gateway_pusher::{AppLimits, CACHE_NAMESPACE, NAMESPACE, PusherApp, PusherShared};
use throng_pusher::AppKeys;
use throng_pusher::api::EventLimits;

use crate::options::StartError;

/// Longest name of an event, in bytes, as in Pusher.
const NAME_BYTES_MAX: usize = 200;

/// Keys of an app.
pub(crate) fn app_keys(app: &AppOptions) -> AppKeys {
    let secrets = [&app.secret, &app.previous_secret];
    let secrets = secrets.into_iter().flatten().map(|secret| &**secret);
    AppKeys::new(&app.key, secrets)
}

/// Beginnings of the names that an app's channels have in the hub.
pub(crate) fn app_prefixes(id: &str) -> Vec<Box<str>> {
    let namespaces = [NAMESPACE, CACHE_NAMESPACE].into_iter();
    { namespaces.map(|namespace| format!("{namespace}:{id}:").into()) }.collect()
}

/// Reads the sections. Apps that were there `before` keep their places and counters.
pub(crate) fn shared(config: &Config, before: &PusherShared) -> Result<PusherShared, StartError> {
    let app = |app: &AppOptions| {
        Ok(PusherApp {
            id: app.id.as_str().into(),
            keys: app_keys(app),
            is_enabled: app.enabled,
            origins: Origins::new(app.allowed_origins.iter().map(String::as_str), false)?,
            client_events: app.client_events,
            activity_timeout_s: (app.activity_timeout_ms / 1000) as u32,
            limits: EventLimits {
                name_bytes_max: NAME_BYTES_MAX,
                data_bytes_max: app.event_bytes_max as usize,
            },
            quota: AppLimits {
                connections_max: app.connections_max.into(),
                publications_per_s: app.publications_per_second_max.into(),
                client_events_per_s: app.client_events_per_second_max.into(),
                bytes_per_s: app.bytes_per_second_max,
                reads_per_s: app.reads_per_second_max.into(),
                channels_max: app.channels_max.into(),
                history_bytes_max: app.history_bytes_max,
            },
            used: Arc::default(),
            presence_members_max: app.presence_members_max,
            watchlists: app.watchlists,
            subscription_count: app.subscription_count,
        })
    };
    let apps: Result<Vec<_>, StartError> = config.apps.iter().map(app).collect();
    let path = config.pusher.path.as_deref().unwrap_or_default();
    Ok(before.renewed(apps?, path.trim_end_matches('/')))
}
