//! The documents of the API port.

use std::sync::Arc;

use throng_metrics::{CONTENT_TYPE, write_json, write_text};
use throng_session::{Page, Pages};

use crate::stats::Observatory;

const DASHBOARD: &str = include_str!("../../../../web/dashboard.html");

/// See the module's head.
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
                write_text(&observatory.totals(), observatory.version, &mut text);
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
