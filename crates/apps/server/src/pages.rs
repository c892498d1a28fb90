//! The documents of the API port.

use std::sync::{Arc, LazyLock};

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use throng_gateway_grip::PUSHPIN_METRICS;
use throng_metrics::{Exposition, write_json, write_pushpin, write_text};
use throng_session::{Logins, Page, Pages, SignIn};
use throng_types::lock;

use crate::stats::Observatory;

const MARKUP: &str = include_str!("../../../../web/dashboard.html");
const STYLE: &str = include_str!("../../../../web/dashboard.css");
const SCRIPT: &str = concat!(
    include_str!("../../../../web/link.js"),
    include_str!("../../../../web/words.js"),
    include_str!("../../../../web/charts.js"),
    include_str!("../../../../web/connections.js"),
    include_str!("../../../../web/look.js"),
    include_str!("../../../../web/follow.js"),
    include_str!("../../../../web/start.js"),
);

/// Description of the server API, which the code's tables wrote.
const OPENAPI: &str = include_str!("../../../../docs/openapi.json");

/// One document, so that a browser needs one request.
static DASHBOARD: LazyLock<String> = LazyLock::new(|| {
    MARKUP
        .replacen("</style>", &format!("{STYLE}</style>"), 1)
        .replacen("</script>", &format!("{SCRIPT}</script>"), 1)
});

/// Content security policy of the dashboard: its own script and style, and requests to its own
/// server. Script and style are named by their digests (Content Security Policy Level 3, section
/// 2.3.1), so that nothing else that finds its way into the page runs.
static DASHBOARD_POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = |text: &str| STANDARD.encode(digest(&SHA256, text.as_bytes()));
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash(SCRIPT),
        hash(STYLE)
    )
});

/// Answers the front door's requests for pages of the whole server.
pub(crate) struct ServerPages(pub(crate) Arc<Observatory>);

impl Pages for ServerPages {
    fn lacks(&self) -> Option<&'static str> {
        let broker = self.0.broker.get().and_then(|broker| {
            let (up, all) = broker.servers_up();
            match (up, broker.is_refusing()) {
                (0, _) => Some("degraded: the broker is unavailable"),
                (up, _) if up < all => Some("degraded: a server of the broker is unavailable"),
                (_, true) => Some("degraded: the broker refuses writes"),
                _ if broker.is_in_doubt() => Some("degraded: the broker contradicted itself"),
                _ => None,
            }
        });
        let is_written = || self.0.history.get().is_none_or(|is_written| is_written());
        let unwritten = || (!is_written()).then_some("degraded: history is not written to disk");
        let mut feeds = self.0.feeds.iter();
        broker
            .or_else(|| feeds.find_map(|feed| feed.lacks()))
            .or_else(unwritten)
    }

    fn logins(&self) -> Option<&dyn Logins> {
        Some(&*self.0.logins)
    }

    fn sign_in(&self) -> Option<&dyn SignIn> {
        self.0.sign_in.as_deref()
    }

    fn page(&self, path: &str, accept: Option<&str>) -> Option<Page> {
        let observatory = &self.0;
        let mut text = String::new();
        let mut policy = None;
        let content_type = match path {
            "/" => {
                text.push_str(&DASHBOARD);
                policy = Some(DASHBOARD_POLICY.as_str());
                "text/html; charset=utf-8"
            }
            "/metrics" => {
                let totals = observatory.totals();
                let exemplars = lock(&observatory.exemplars);
                let mut out = Exposition::new(accept, &exemplars);
                write_text(&totals, observatory.version, &mut out);
                observatory.write_parts(&mut out);
                if let Some(pushpin) = observatory.pushpin.as_ref().filter(|p| !p.is_apart) {
                    write_pushpin(&totals, &pushpin.prefix, &mut out);
                }
                let (content_type, all) = out.finish();
                text = all;
                content_type
            }
            PUSHPIN_METRICS => {
                let prefix = observatory.pushpin.as_ref();
                let prefix = prefix.map_or("", |pushpin| &pushpin.prefix);
                let mut out = Exposition::default();
                write_pushpin(&observatory.totals(), prefix, &mut out);
                let (content_type, all) = out.finish();
                text = all;
                content_type
            }
            path => {
                match path {
                    "/openapi.json" => text.push_str(OPENAPI),
                    "/stats/hour" => text = observatory.watch.hour(),
                    "/refusals" => text = observatory.watch.refusals(),
                    "/slow" => text = observatory.watch.slow(),
                    "/config" => text = observatory.watch.config(),
                    "/stats" => write_json(&observatory.totals(), observatory.version, &mut text),
                    _ => return None,
                }
                "application/json"
            }
        };
        Some(Page {
            content_type,
            policy,
            body: text.into_bytes(),
        })
    }
}
