//! Routes and their keys, from the configuration and from the file that it names.
//!
//! Owns: reading that file and the files of keys. Never: decides what becomes of what is wrong; the
//! start goes on without lines that Pushpin passes over too, a reload goes on with what there was.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use throng_config::{Grip as Section, GripRoute};
use throng_gateway_grip::{GripOptions, RouteBook};
use throng_grip::routes::{Domain, Route, parse_routes};
use throng_grip::sig::KeyText;
use throng_http1::origin::{Destination, OriginTarget, OriginUrlError};

/// Routes and keys as read, with the faults, a sentence each.
#[derive(Debug, Default)]
pub(crate) struct Read {
    /// Routes and keys that can be used.
    pub(crate) book: RouteBook,
    /// Lines without which a server may start.
    pub(crate) skipped: Vec<String>,
    /// Faults with which a server may not start.
    pub(crate) refused: Vec<String>,
}

pub(crate) fn read(section: &Section) -> Read {
    let mut read = Read::default();
    if let Some(path) = &section.routes_file {
        match std::fs::read_to_string(path) {
            Ok(text) => read.file(section, path, &text),
            Err(error) => read.refused.push(at(path, &error)),
        }
    }
    for (index, wanted) in section.routes.iter().enumerate() {
        let added = route(wanted).and_then(|route| {
            let added = read.book.routes.add(on_all(route, section));
            added.map_err(|fault| fault.to_string())
        });
        if let Err(fault) = added {
            read.refused.push(format!("grip.route[{index}]: {fault}"));
        }
    }
    read.keys(section);
    read
}

fn at(path: &str, what: &impl std::fmt::Display) -> String {
    format!("grip.routes_file: {path}: {what}")
}

impl Read {
    fn file(&mut self, section: &Section, path: &str, text: &str) {
        let file = parse_routes(text);
        for fault in &file.faults {
            let told = at(path, fault);
            if fault.kind.is_skipped() {
                self.skipped
                    .push(format!("{told}; this line makes no route"));
            } else {
                self.refused.push(told);
            }
        }
        for route in file.routes.iter() {
            let mut route = on_all(route.clone(), section);
            Arc::make_mut(&mut route.to).response_timeout_ms = section.response_timeout_ms;
            // What was taken once is taken again.
            if let Err(fault) = self.book.routes.add(route) {
                self.refused.push(at(path, &fault));
            }
        }
    }

    /// Reads the keys that routes have of their own. Files count from that of the routes.
    fn keys(&mut self, section: &Section) {
        let file = section.routes_file.as_ref().map(PathBuf::from);
        let folder = file.as_deref().and_then(Path::parent);
        let folder = folder.unwrap_or_else(|| Path::new(""));
        let texts = self
            .book
            .routes
            .iter()
            .filter_map(|route| route.sig_key.clone());
        for text in texts.collect::<Vec<_>>() {
            match signing_key("sig_key of a route", &text, folder) {
                Ok(Some(key)) => self.book.keys.push((text, key)),
                Ok(None) => {}
                Err(fault) => self.refused.push(fault),
            }
        }
    }
}

/// A route with what holds for all.
fn on_all(route: Route, section: &Section) -> Route {
    Route {
        auto_cross_origin: route.auto_cross_origin || section.cross_origin,
        debug: route.debug || section.debug,
        ..route
    }
}

fn route(wanted: &GripRoute) -> Result<Route, String> {
    let targets = wanted.origin.iter().map(|url| {
        let mut target = OriginTarget::from_url(url)?;
        target.over_http = wanted.over_http;
        Ok::<_, OriginUrlError>(target)
    });
    let targets: Result<Vec<_>, _> = targets.collect();
    Ok(Route {
        domain: Domain::Any,
        path_prefix: wanted.path.clone(),
        channel_prefix: wanted.channel_prefix.clone().unwrap_or_default(),
        auto_cross_origin: wanted.cross_origin,
        debug: wanted.debug,
        to: Arc::new(Destination {
            connect_timeout_ms: wanted.connect_timeout_ms,
            response_timeout_ms: wanted.response_timeout_ms,
            targets: targets.map_err(|fault| fault.to_string())?,
        }),
        ..Route::default()
    })
}

/// A key that signs, or none for an empty text.
pub(super) fn signing_key(
    what: &str,
    text: &str,
    folder: &Path,
) -> Result<Option<Vec<u8>>, String> {
    let key = key_bytes(what, text, folder)?;
    if key.as_ref().is_some_and(|key| !GripOptions::can_sign(key)) {
        return Err(format!("{what}: this key cannot sign"));
    }
    Ok(key)
}

/// The bytes that a text stands for; the file that it may name counts from `folder`.
pub(super) fn key_bytes(what: &str, text: &str, folder: &Path) -> Result<Option<Vec<u8>>, String> {
    let key = match KeyText::parse(text).map_err(|fault| format!("{what}: {fault}"))? {
        None => return Ok(None),
        Some(KeyText::Bytes(key)) => key,
        Some(KeyText::File(path)) => {
            let content = std::fs::read(folder.join(&path));
            let content = content.map_err(|error| format!("{what}: {path}: {error}"))?;
            KeyText::of_file(&content)
        }
    };
    Ok(Some(key))
}
