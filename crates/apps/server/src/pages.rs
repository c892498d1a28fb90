//! The documents of the API port.

use std::sync::Arc;

use throng_gateway_grip::PUSHPIN_METRICS;
use throng_metrics::{CONTENT_TYPE, write_json, write_pushpin, write_text};
use throng_session::{Page, Pages};

use crate::stats::Observatory;

const DASHBOARD: &str = include_str!("../../../../web/dashboard.html");

/// Answers the front door's requests for pages of the whole server.
pub(crate) struct ServerPages(pub(crate) Arc<Observatory>);

impl Pages for ServerPages {
    fn page(&self, path: &str) -> Option<Page> {
        let observatory = &self.0;
        let mut text = String::new();
        let content_type = match path {
            "/" => {
                text.push_str(DASHBOARD);
                "text/html; charset=utf-8"
            }
            "/metrics" => {
                let totals = observatory.totals();
                write_text(&totals, observatory.version, &mut text);
                if let Some(pushpin) = observatory.pushpin.as_ref().filter(|p| !p.is_apart) {
                    write_pushpin(&totals, &pushpin.prefix, &mut text);
                }
                CONTENT_TYPE
            }
            PUSHPIN_METRICS => {
                let prefix = observatory.pushpin.as_ref();
                let prefix = prefix.map_or("", |pushpin| &pushpin.prefix);
                write_pushpin(&observatory.totals(), prefix, &mut text);
                CONTENT_TYPE
            }
            "/stats" => {
                write_json(&observatory.totals(), observatory.version, &mut text);
                "application/json"
            }
            _ => return None,
        };
        Some(Page {
            content_type,
            body: text.into_bytes(),
        })
    }
}
