//! The options of backends that are asked on behalf of Centrifugo's clients.

use super::SECOND;
use crate::kind::{
    Bool, Count, Duration, HttpUrl, List, Opt, ProxyStatus, Rule, SecretText, StatusText, Text,
};
use crate::secret::Secret;
use crate::section::section;

section! {
    /// Backends that are asked on behalf of Centrifugo's clients, by `POST` of JSON. Each address
    /// is used for one kind of questions; without one nobody is asked. `[[proxy.backend]]` has
    /// others.
    "proxy" Proxy {
        /// Who a client is that brings no token.
        "connect" connect: Option<String>, Opt<HttpUrl>, None,
            Rule::ANY.example("\"http://127.0.0.1:3000/connect\"");
        /// Whether a connection goes on that `connect` has let in and that has expired.
        "refresh" refresh: Option<String>, Opt<HttpUrl>, None,
            Rule::ANY.example("\"http://127.0.0.1:3000/refresh\"");
        /// Who may subscribe, in channels with `subscribe_proxy_enabled`.
        "subscribe" subscribe: Option<String>, Opt<HttpUrl>, None,
            Rule::ANY.example("\"http://127.0.0.1:3000/subscribe\"");
        /// Who may publish and what, in channels with `publish_proxy_enabled`.
        "publish" publish: Option<String>, Opt<HttpUrl>, None,
            Rule::ANY.example("\"http://127.0.0.1:3000/publish\"");
        /// Whether a subscription goes on that `subscribe` has allowed and that has expired, in
        /// channels with `sub_refresh_proxy_enabled`.
        "sub_refresh" sub_refresh: Option<String>, Opt<HttpUrl>, None,
            Rule::ANY.example("\"http://127.0.0.1:3000/sub_refresh\"");
        /// What clients call by `rpc`.
        "rpc" rpc: Option<String>, Opt<HttpUrl>, None,
            Rule::ANY.example("\"http://127.0.0.1:3000/rpc\"");
        /// Who is told that a client subscribes to a channel with `cache_empty_proxy_enabled` whose
        /// newest publication it would get, and that there is none. It may publish one then.
        "cache_empty" cache_empty: Option<String>, Opt<HttpUrl>, None,
            Rule::ANY.example("\"http://127.0.0.1:3000/cache_empty\"");
        /// What `rpc` is called for, if there are several backends for that: methods whose names
        /// begin with one of these and a colon, besides those without a colon. As soon as this or a
        /// backend's own `rpc_namespaces` has a name, others are unknown (error 104).
        "rpc_namespaces" rpc_namespaces: Vec<String>, List<Text>, Vec::new(), Rule::ANY;
        /// How long a question may take.
        "timeout" timeout_ms: u64, Duration, SECOND, Rule::ANY.range(10, 60 * SECOND);
        /// Fields of a client's own request that go with each question, such as "Cookie".
        "http_headers" http_headers: Vec<String>, List<Text>, Vec::new(), Rule::ANY;
        /// Fields that go with each question too, out of `headers` of the client's `connect`, for
        /// browsers, which cannot set any on a WebSocket. The client alone says what is in them; a
        /// field of the request itself that stands in `http_headers` goes before one of these.
        "emulated_headers" emulated_headers: Vec<String>, List<Text>, Vec::new(), Rule::ANY;
        /// The field `Authorization` of each question.
        "authorization" authorization: Option<Secret>, Opt<SecretText>, None,
            Rule::ANY.secret().example("\"Bearer a-long-text\"").unset("none is sent");
        /// Whether data travel in base64, as `b64data`, rather than as JSON.
        "binary_encoding" binary_encoding: bool, Bool, false, Rule::ANY;
        /// Whether questions carry the `meta` that the answer to `connect` had.
        "include_connection_meta" include_connection_meta: bool, Bool, false, Rule::ANY;
        /// What other statuses than 200 mean: "404 error 1404 not found", "503 temporary 1503 try
        /// again", "403 disconnect 4403 forbidden". Without a meaning the question has failed.
        "status_codes" status_codes: Vec<ProxyStatus>, List<StatusText>, Vec::new(), Rule::ANY;
        /// The most questions that may be under way, of all clients. More fail.
        "requests_max" requests_max: u32, Count, 1000, Rule::ANY.restart().range(1, 100_000);
    }
    lists {
        /// Backends with names.
        backends: Vec<ProxyBackend>;
    }
}

section! {
    /// A backend with a name, for the channels and methods that name it. Repeat the section for
    /// each. It takes over nothing from `[proxy]` but `requests_max`.
    "proxy.backend" ProxyBackend {
        /// What options of channels call it, as in `subscribe_proxy_name`. The backend of `[proxy]`
        /// is `default`.
        "name" name: String, Text, String::new(), Rule::ANY.example("\"chat\"");
        /// Where it is asked, whatever the question.
        "endpoint" endpoint: Option<String>, Opt<HttpUrl>, None,
            Rule::ANY.example("\"http://127.0.0.1:3001/ask\"");
        /// Methods of `rpc` that it carries out: those whose names begin with one of these and a
        /// colon.
        "rpc_namespaces" rpc_namespaces: Vec<String>, List<Text>, Vec::new(), Rule::ANY;
        /// As in `[proxy]`.
        "timeout" timeout_ms: u64, Duration, SECOND, Rule::ANY.range(10, 60 * SECOND);
        /// As in `[proxy]`.
        "http_headers" http_headers: Vec<String>, List<Text>, Vec::new(), Rule::ANY;
        /// As in `[proxy]`.
        "emulated_headers" emulated_headers: Vec<String>, List<Text>, Vec::new(), Rule::ANY;
        /// As in `[proxy]`.
        "authorization" authorization: Option<Secret>, Opt<SecretText>, None,
            Rule::ANY.secret().example("\"Bearer a-long-text\"").unset("none is sent");
        /// As in `[proxy]`.
        "binary_encoding" binary_encoding: bool, Bool, false, Rule::ANY;
        /// As in `[proxy]`.
        "include_connection_meta" include_connection_meta: bool, Bool, false, Rule::ANY;
        /// As in `[proxy]`.
        "status_codes" status_codes: Vec<ProxyStatus>, List<StatusText>, Vec::new(), Rule::ANY;
    }
}

/// What channels call the backend of `[proxy]`.
pub const DEFAULT_BACKEND: &str = "default";
