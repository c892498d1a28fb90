//! SIGHUP: the configuration is read again. What can change while the server runs takes effect; the
//! log says what cannot. A configuration that is wrong changes nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;

use throng_config::Loaded;
use throng_server::Handle;

use crate::load;

/// Values by their paths, secrets among them: never shown.
type Values = BTreeMap<String, Option<String>>;

/// What the server was started with.
pub(super) struct Current {
    path: Option<PathBuf>,
    flags: Vec<(String, String)>,
    values: Values,
}

fn values(loaded: &Loaded) -> Values {
    let values = loaded.values(true).into_iter();
    values.map(|shown| (shown.path, shown.value)).collect()
}

impl Current {
    pub(super) fn new(
        path: Option<PathBuf>,
        flags: Vec<(String, String)>,
        loaded: &Loaded,
    ) -> Self {
        Self {
            path,
            flags,
            values: values(loaded),
        }
    }

    /// Reads it again.
    pub(super) fn reload(&mut self, handle: &Handle) {
        let loaded = match load::complete(self.path.as_deref(), self.flags.clone()) {
            Ok(loaded) => loaded,
            Err(failure) => {
                for line in failure.to_string().lines() {
                    tracing::error!("SIGHUP: nothing changes: {line}");
                }
                return;
            }
        };
        for warning in &loaded.warnings {
            tracing::warn!("{warning}");
        }
        let new = values(&loaded);
        let paths = self.values.keys().chain(new.keys());
        let changed = paths.filter(|path| self.values.get(*path) != new.get(*path));
        let mut waits: Vec<&str> = changed
            .filter(|path| !handle.reloads(path))
            .map(String::as_str)
            .collect();
        waits.sort_unstable();
        waits.dedup();
        if !waits.is_empty() {
            let options = waits.join(", ");
            tracing::warn!("SIGHUP: changed, and needs a restart: {options}");
        }
        tracing::info!("SIGHUP: the configuration was read again");
        handle.reload(&loaded.config);
    }
}
