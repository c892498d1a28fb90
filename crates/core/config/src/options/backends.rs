//! The options of backends that are asked on behalf of clients.

use super::SECOND;
use crate::kind::{
    Bool, Count, Duration, HttpUrl, List, Opt, ProxyStatus, SecretText, StatusText, Text,
};
use crate::secret::Secret;
use crate::section::section;

section! {
    /// Backends that Throng asks on behalf of clients, with a `POST` of JSON. Each address is for
    /// one kind of question. Without an address, questions of that kind are not asked.
    /// `[[proxy.backend]]` names more backends.
    "proxy" Proxy {
        /// Asked who a client is that connects without a token.
        connect: Option<String>, Opt<HttpUrl>, example("\"http://127.0.0.1:3000/connect\"");
        /// Asked whether a connection of Centrifugo's transports may go on that `connect` let in
        /// and that has expired.
        refresh: Option<String>, Opt<HttpUrl>, example("\"http://127.0.0.1:3000/refresh\"");
        /// Asked whether a client may subscribe, in channels with `subscribe_proxy_enabled`.
        subscribe: Option<String>, Opt<HttpUrl>, example("\"http://127.0.0.1:3000/subscribe\"");
        /// Asked whether a client may publish and what, in channels with `publish_proxy_enabled`.
        publish: Option<String>, Opt<HttpUrl>, example("\"http://127.0.0.1:3000/publish\"");
        /// Asked whether an SDK's subscription may go on that `subscribe` allowed and that has
        /// expired, in channels with `sub_refresh_proxy_enabled`.
        sub_refresh: Option<String>, Opt<HttpUrl>, example("\"http://127.0.0.1:3000/sub_refresh\"");
        /// Carries out what clients call with `rpc`.
        rpc: Option<String>, Opt<HttpUrl>, example("\"http://127.0.0.1:3000/rpc\"");
        /// Told when a client subscribes to a channel with `cache_empty_proxy_enabled` and would
        /// get its newest publication, but there is none. The backend may then publish one.
        cache_empty: Option<String>, Opt<HttpUrl>, example("\"http://127.0.0.1:3000/cache_empty\"");
        /// The methods that `rpc` carries out, if there are several backends for `rpc`: those whose
        /// names begin with one of these and a colon, and those without a colon. As soon as this
        /// list or that of a backend has a name, methods of other namespaces are unknown (error
        /// 104).
        rpc_namespaces: Vec<String>, List<Text>;
        /// Time limit for a backend's answer.
        timeout_ms as "timeout": u64, Duration = SECOND, range(10, 60 * SECOND);
        /// Header fields of the client's own request that are sent with each question, such as
        /// "Cookie"; none that a question has of its own (Host, Content-Type, and Authorization if
        /// it is set below).
        http_headers: Vec<String>, List<Text>;
        /// Header fields that are sent with each question too, taken from `headers` in the client's
        /// `connect`. They are for browsers, which cannot set header fields on a WebSocket. Only
        /// the client says what they hold, so they prove nothing. If the request itself has a field
        /// that `http_headers` names, that field is used instead.
        emulated_headers: Vec<String>, List<Text>;
        /// The field `Authorization` of each question.
        authorization: Option<Secret>, Opt<SecretText>, secret, example("\"Bearer a-long-text\""),
            unset("none is sent");
        /// Whether data is sent in base64, as `b64data`, rather than as JSON.
        binary_encoding: bool, Bool = false;
        /// Whether questions include the `meta` from the answer to `connect`.
        include_connection_meta: bool, Bool = false;
        /// Meanings of statuses other than 200: "404 error 1404 not found", "503 temporary 1503 try
        /// again", "403 disconnect 4403 forbidden". A status without a meaning is a failure.
        status_codes: Vec<ProxyStatus>, List<StatusText>;
        /// The most questions under way at once, of all clients together. Further ones fail.
        requests_max: u32, Count = 1000, restart, range(1, 100_000);
    }
    lists {
        /// Backends with names, each a `[[proxy.backend]]` section.
        "backend" backends: ProxyBackend;
    }
}

section! {
    /// A backend with a name, for the channels and methods that name it. Repeat the section for
    /// each. It takes only `requests_max` from `[proxy]`.
    "proxy.backend" ProxyBackend {
        /// Its name, for channel options such as `subscribe_proxy_name`. The backend of `[proxy]`
        /// is called `default`.
        name: String, Text, example("\"chat\"");
        /// Its address, for every kind of question.
        endpoint: Option<String>, Opt<HttpUrl>, example("\"http://127.0.0.1:3001/ask\"");
        /// The methods of `rpc` that it carries out: those whose names begin with one of these and
        /// a colon.
        rpc_namespaces: Vec<String>, List<Text>;
        /// Time limit for an answer, as in `[proxy]`.
        timeout_ms as "timeout": u64, Duration = SECOND, range(10, 60 * SECOND);
        /// Header fields of the client's request, as in `[proxy]`.
        http_headers: Vec<String>, List<Text>;
        /// Header fields from the client's `connect`, as in `[proxy]`.
        emulated_headers: Vec<String>, List<Text>;
        /// The field `Authorization`, as in `[proxy]`.
        authorization: Option<Secret>, Opt<SecretText>, secret, example("\"Bearer a-long-text\""),
            unset("none is sent");
        /// Whether data is sent in base64, as in `[proxy]`.
        binary_encoding: bool, Bool = false;
        /// Whether requests include the connection's `meta`, as in `[proxy]`.
        include_connection_meta: bool, Bool = false;
        /// Meanings of statuses other than 200, as in `[proxy]`.
        status_codes: Vec<ProxyStatus>, List<StatusText>;
    }
}

/// Name of the backend of `[proxy]` in the options of channels.
pub const DEFAULT_BACKEND: &str = "default";
