//! Which path means what, on the client port and on the API port.

use throng_centrifuge::api::Method;

/// The port that a connection came in by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    Client,
    Api,
    /// GRIP's own port for publishers.
    Publish,
    /// GRIP's own port for metrics.
    Metrics,
}

/// What a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// `/ws`.
    PlainWs,
    /// `/sse`.
    Sse,
    /// `/stream`.
    Stream,
    /// `/connection/websocket`.
    Centrifuge,
    /// `/connection/uni_websocket`.
    UniWs,
    /// `/connection/uni_sse`.
    UniSse,
    /// `/connection/uni_http_stream`.
    UniHttp,
    /// `/v1/realtime`, and anything below it: Appwrite's own server takes every path.
    Appwrite,
    /// `/v1/realtime/events` on the API port.
    AppwriteEvents,
    /// `/api/{method}`.
    Api(Method),
    /// `/pub`.
    Publish,
    /// `/publish/` and `/recover` for GRIP; all paths of its own port.
    Grip,
    /// `/healthz`.
    Health,
    /// Anything that [`crate::Pages`] may know, on the API port; what there is, on the client port.
    Page,
}

/// What there is on the client port, for people who come without a path.
pub(crate) const CLIENT_ENDPOINTS: &str = "\
Throng's client port:
  GET  /ws?channel=NAME                WebSocket, one frame a publication
  GET  /sse?channel=NAME               EventSource, resumes by Last-Event-ID
  GET  /stream?channel=NAME            one JSON object a line
  GET  /connection/websocket           Centrifugo SDKs
  GET  /connection/uni_websocket       Centrifugo, unidirectional
  GET  /connection/uni_sse
  POST /connection/uni_http_stream
  GET  /v1/realtime                    Appwrite SDKs, if [appwrite] is configured
  GET  /healthz
Publishing is on the API port.
";

impl Endpoint {
    /// The endpoint at a path, if there is one.
    pub(crate) fn find(port: Port, path: &str) -> Option<Self> {
        Some(match (port, path) {
            (Port::Publish, _)
            | (Port::Api, "/publish" | "/publish/" | "/recover" | "/recover/") => Self::Grip,
            (Port::Metrics, "/" | "/metrics") => Self::Page,
            (Port::Metrics, _) => return None,
            (_, "/healthz") => Self::Health,
            (_, "/sse") => Self::Sse,
            (Port::Client, "/ws") => Self::PlainWs,
            (Port::Client, "/stream") => Self::Stream,
            (Port::Client, "/connection/websocket") => Self::Centrifuge,
            (Port::Client, "/connection/uni_websocket") => Self::UniWs,
            (Port::Client, "/connection/uni_sse") => Self::UniSse,
            (Port::Client, "/connection/uni_http_stream") => Self::UniHttp,
            (Port::Client, "/") => Self::Page,
            (Port::Client, path) if is_appwrite(path) => Self::Appwrite,
            (Port::Client, _) => return None,
            (Port::Api, "/pub") => Self::Publish,
            (Port::Api, "/v1/realtime/events") => Self::AppwriteEvents,
            (Port::Api, path) => match path.strip_prefix("/api/") {
                Some(method) => Self::Api(Method::from_name(method)?),
                None => Self::Page,
            },
        })
    }

    /// The methods that the endpoint takes, as the header Allow lists them.
    pub(crate) const fn methods(self) -> &'static str {
        match self {
            Self::Publish | Self::Api(_) | Self::AppwriteEvents => "POST",
            Self::Grip => "GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH",
            Self::UniHttp => "POST, OPTIONS",
            Self::Health | Self::Page => "GET, HEAD",
            Self::Sse | Self::Stream | Self::UniSse => "GET, OPTIONS",
            Self::PlainWs | Self::Centrifuge | Self::UniWs | Self::Appwrite => "GET",
        }
    }

    /// Whether it takes this method.
    pub(crate) fn takes(self, method: &str) -> bool {
        self.methods().split(", ").any(|known| known == method)
    }

    /// Whether browsers may be kept from it by their pages' origin. Appwrite's projects have
    /// platforms for that.
    pub(crate) const fn guards_origin(self) -> bool {
        !matches!(self, Self::Health | Self::Appwrite)
    }
}

fn is_appwrite(path: &str) -> bool {
    let rest = path.strip_prefix("/v1/realtime");
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
