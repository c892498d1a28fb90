//! From the sections `[[app]]` to what shards need.

use throng_auth::Origins;
use throng_config::Config;
use throng_gateway_pusher::{PusherApp, PusherShared};
use throng_pusher::AppKeys;
use throng_pusher::api::EventLimits;

use crate::options::StartError;

/// Longest name of an event, in bytes, as in Pusher.
const NAME_BYTES_MAX: usize = 200;

/// Reads the sections; `None` if there are none.
pub(crate) fn shared(config: &Config) -> Result<Option<PusherShared>, StartError> {
    let app = |app: &throng_config::AppOptions| {
        let secrets = [&app.secret, &app.previous_secret];
        Ok(PusherApp {
            id: app.id.as_str().into(),
            keys: AppKeys::new(
                &app.key,
                secrets.into_iter().flatten().map(|secret| &**secret),
            ),
            origins: Origins::new(app.allowed_origins.iter().map(String::as_str), false)?,
            client_events: app.client_events,
            activity_timeout_s: (app.activity_timeout_ms / 1000) as u32,
            limits: EventLimits {
                name_bytes_max: NAME_BYTES_MAX,
                data_bytes_max: app.event_bytes_max as usize,
            },
        })
    };
    let apps: Result<Vec<_>, StartError> = config.apps.iter().map(app).collect();
    let apps = apps?;
    Ok((!apps.is_empty()).then_some(PusherShared { apps }))
}
