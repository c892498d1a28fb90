//! The options of the replacements for other servers: Appwrite Realtime, Pushpin and Pusher.

use std::net::SocketAddr;

use super::{HOUR, KIB, MIB, SECOND};
use crate::kind::{
    BaseUrl, Bool, Count, Duration, Endpoint, ForwardedFor, ForwardedForText, List, MetricPrefix,
    Opt, OriginUrl, PathPrefix, RedisUrl, SecretText, Size, Text, WebOrigin,
};
use crate::secret::Secret;
use crate::section::section;

/// Throng adds the address of the client, as proxies do.
const APPEND: ForwardedFor = ForwardedFor {
    truncate: None,
    append: true,
};

section! {
    /// Appwrite Realtime at `/v1/realtime`. It is on when this section is there.
    "appwrite" Appwrite {
        /// The Redis server on which Appwrite announces events.
        redis: Option<Secret>, Opt<RedisUrl>, restart, secret,
            example("\"redis://127.0.0.1:6379\""), unset("events come only from the server API");
        /// The address of Appwrite's own API. Throng asks it about sessions and users. The
        /// certificate of an `https://` address is checked against the authorities of the machine
        /// (`SSL_CERT_FILE` names others).
        api: Option<String>, Opt<BaseUrl>, restart, example("\"http://127.0.0.1:80/v1\""),
            unset("every client is a guest");
        /// Time that events are kept for clients that come back. "0s" keeps none.
        history_ms as "history": u64, Duration = 0, restart, range(0, 24 * HOUR);
        /// Time limit for one request to Appwrite's API.
        api_timeout_ms as "api_timeout": u64, Duration = 3 * SECOND, restart,
            range(100, 60 * SECOND);
        /// Time that known roles stay valid while Appwrite's API does not answer: for connections
        /// whose user may have changed, and for users who come back. After that they are
        /// disconnected or refused.
        api_grace_ms as "api_grace": u64, Duration = 120 * SECOND, restart, range(0, HOUR);
        /// Whether clients are pinged, as `websocket.ping_interval` says, and closed if they do not
        /// answer. Appwrite's own server sends no pings, and some load tools never answer them.
        pings: bool, Bool = false, restart;
        /// Maximum number of connections that one address may open a minute. If a proxy in a
        /// private network sends `X-Forwarded-For`, the last address in it counts. Programs on this
        /// machine are not counted. 0 means no limit.
        connections_per_minute: u32, Count = 128, restart;
        /// Maximum number of messages that one connection may send a minute. Further ones are
        /// answered with an error. 0 means no limit.
        messages_per_minute: u32, Count = 32, restart;
        /// Whether a refused client gets a close code that makes SDKs stop retrying. Appwrite's own
        /// server sends none.
        close_codes: bool, Bool = true, restart;
        /// Whether clients get `Error: Server Error` instead of most reasons, as from Appwrite in
        /// production.
        hide_errors: bool, Bool = false, restart;
    }
    lists {
        /// Appwrite projects that are served.
        "project" projects: AppwriteProject;
    }
}

section! {
    /// One Appwrite project. Repeat the section for each.
    "appwrite.project" AppwriteProject {
        /// The project's id in Appwrite. `*` stands for every project without a section of its own;
        /// Throng then does not check that the project exists.
        id: String, Text, example("\"my-project\"");
        /// The host names of the web platforms whose pages may connect; `*` allows all. Pages of
        /// the host that they connect to always may. Without a list only those may.
        platforms: Vec<String>, List<Text>;
        /// Schemes of apps that may connect, such as `myapp` for an origin `myapp://…`. The schemes
        /// of Appwrite's native SDKs and of Expo, and `appwrite-callback-ID`, always may.
        schemes: Vec<String>, List<Text>;
    }
}

section! {
    /// GRIP: requests go to a backend, which says what to hold and what to stream. It is on when
    /// this section is there.
    "grip" Grip {
        /// Address of the HTTP port for publishing (`POST /publish/`). Anyone who reaches it may
        /// publish.
        http_publish: Option<SocketAddr>, Opt<Endpoint>, restart, example("\"127.0.0.1:5561\"");
        /// Address of the ZeroMQ PULL socket for publishing. Anyone who reaches it may publish.
        zmq_pull: Option<SocketAddr>, Opt<Endpoint>, restart, example("\"tcp://127.0.0.1:5560\"");
        /// Address of the ZeroMQ SUB socket for publishing. Anyone who reaches it may publish.
        zmq_sub: Option<SocketAddr>, Opt<Endpoint>, restart, example("\"tcp://127.0.0.1:5562\"");
        /// Address of the ZeroMQ REP socket for commands. Anyone who reaches it may give them.
        zmq_command: Option<SocketAddr>, Opt<Endpoint>, restart,
            example("\"tcp://127.0.0.1:5563\"");
        /// Address of a ZeroMQ PUB socket with statistics as Pushpin sends them. Anyone who reaches
        /// it may read them.
        zmq_stats: Option<SocketAddr>, Opt<Endpoint>, restart, example("\"tcp://127.0.0.1:5564\""),
            unset("no statistics are sent");
        /// Whether these statistics are JSON instead of tnetstrings.
        stats_json: bool, Bool = false, restart;
        /// Interval of these statistics' reports on a route. "0s" sends no reports.
        stats_report_interval_ms as "stats_report_interval": u64, Duration = 10 * SECOND, restart,
            range(SECOND, HOUR), zero("no reports");
        /// Whether these statistics report each connection.
        stats_connections: bool, Bool = true, restart;
        /// Time that readers of these statistics remember a connection after its last report.
        /// Throng reports an open connection again before that.
        stats_connection_ttl_ms as "stats_connection_ttl": u64, Duration = 120 * SECOND, restart,
            range(2 * SECOND, 24 * HOUR);
        /// Time that readers remember a channel's subscribers after their last report.
        stats_subscription_ttl_ms as "stats_subscription_ttl": u64, Duration = 60 * SECOND, restart,
            range(2 * SECOND, 24 * HOUR);
        /// Time that these statistics still report subscribers for a channel of long polls after
        /// the last poll was answered, because clients usually ask again.
        subscription_linger_ms as "subscription_linger": u64, Duration = 60 * SECOND, restart,
            range(0, HOUR);
        /// The key that signs the `Grip-Sig` header of requests to backends. With an empty key, as
        /// in Pushpin, the header is sent but proves nothing.
        sig_key: Option<Secret>, Opt<SecretText>, restart, secret,
            example("\"a long random text\""), unset("the key is empty");
        /// The claim `iss` in that header: the signer.
        sig_iss: String, Text = "pushpin".to_owned(), restart;
        /// A file of routes in Pushpin's format, in addition to the routes here.
        routes_file: Option<String>, Opt<Text>, file, example("\"/etc/pushpin/routes\"");
        /// Whether Throng's own endpoints on the client port (`/ws`, `/sse`, `/stream`,
        /// `/connection/…`, `/v1/realtime`, `/healthz`) keep their paths where a route covers them
        /// without naming them. Otherwise everything that a route covers goes to the backend.
        own_endpoints: bool, Bool = false, restart;
        /// A configuration file of Pushpin's (`pushpin.conf`). Its settings apply unless they are
        /// set here. `throng config check` and the start of the server list those without effect.
        pushpin_conf: Option<String>, Opt<Text>, file, example("\"/etc/pushpin/pushpin.conf\"");
        /// The key of GRIP proxies in front of Throng. A request with a `Grip-Sig` signed by this
        /// key keeps its `Grip-*` fields, and its answer is passed on unchanged.
        upstream_key: Option<Secret>, Opt<SecretText>, restart, secret,
            example("\"a long random text\""), unset("no proxy in front is trusted");
        /// Whether the header `Pushpin-Route` of a request chooses the route, by the route's id.
        accept_pushpin_route: bool, Bool = false, restart;
        /// Whether missing CORS headers are filled in on all routes, regardless of the route's own
        /// option.
        cross_origin: bool, Bool = false;
        /// Whether clients are told what went wrong with a backend on all routes, regardless of the
        /// route's own option.
        debug: bool, Bool = false;
        /// Rule for `X-Forwarded-For`: `append` adds the client's address, `truncate:N` keeps the
        /// last N addresses before that. An empty text leaves the header as it is.
        forwarded_for: ForwardedFor, ForwardedForText = APPEND, restart;
        /// Rule for `X-Forwarded-For` in requests that `upstream_key` has signed.
        forwarded_for_trusted: ForwardedFor, ForwardedForText, restart;
        /// Whether Throng believes a request's own `X-Forwarded-Proto` on whether the client used
        /// TLS, for the routes' condition `ssl` and for `set_forwarded_proto`. Only for a port that
        /// only your own proxy can reach.
        accept_forwarded_proto: bool, Bool = false, restart;
        /// Whether backends learn from `X-Forwarded-Proto` that the client used TLS. The client's
        /// own header never reaches a backend.
        set_forwarded_proto: bool, Bool = true, restart;
        /// Time limit for a backend's answer on the routes of `routes_file`. "0s" means no limit;
        /// with a `pushpin_conf` that is the default, as in Pushpin.
        response_timeout_ms as "response_timeout": u64, Duration = 60 * SECOND,
            range(10, 24 * HOUR), zero("as long as it takes");
        /// The most requests that wait for backends at once. Further clients get 503.
        requests_max: u32, Count = 20_000, restart, range(1, 10_000_000);
        /// The most WebSockets to backends that speak WebSocket themselves. Each keeps a connection
        /// to its backend as long as it lasts, and does not count towards `requests_max`.
        tunnels_max: u32, Count = 100_000, restart, range(1, 10_000_000);
        /// The name that is added to `CDN-Loop` on requests to backends.
        cdn_loop: Option<String>, Opt<Text>, restart, example("\"push.example.com\"");
        /// Time that an item waits for the item that its `prev-id` names.
        message_wait_ms as "message_wait": u64, Duration = 5 * SECOND, restart, range(0, HOUR);
        /// Time that an item's `id` is remembered, so that it is not delivered twice. "0s"
        /// remembers none.
        id_cache_ttl_ms as "id_cache_ttl": u64, Duration = 60 * SECOND, restart,
            range(0, 24 * HOUR);
        /// The most channels that a backend may hold one client in. Further ones are ignored. 0
        /// means as many as `limits.channels_per_connection`.
        channels_per_connection: u32, Count = 0, restart, range(0, 65_535);
        /// The address of a port that serves only Pushpin's metrics, without a key.
        prometheus: Option<SocketAddr>, Opt<Endpoint>, restart, example("\"127.0.0.1:9797\""),
            unset("the API port serves them");
        /// Prefix of the names of these metrics.
        prometheus_prefix: Option<String>, Opt<MetricPrefix>, restart, example("\"pushpin_\""),
            unset("`pushpin_`, or with a `pushpin_conf` nothing");
    }
    lists {
        /// The routes, the longest matching path first.
        "route" routes: GripRoute;
    }
}

section! {
    /// One GRIP route. Repeat the section for each.
    "grip.route" GripRoute {
        /// Requests whose path begins with this take the route.
        path: String, PathPrefix, example("\"/\"");
        /// The backends. The first one that answers is used.
        origin: Vec<String>, List<OriginUrl>, example("[\"http://127.0.0.1:9000\"]");
        /// Whether WebSockets reach the backends as HTTP requests with events
        /// (WebSocket-over-HTTP). Otherwise the backends speak WebSocket, with or without the
        /// extension `grip`.
        over_http: bool, Bool = false;
        /// Put in front of the channel names that the backends use.
        channel_prefix: Option<String>, Opt<Text>, example("\"site-\"");
        /// Whether CORS headers that the backends leave out are filled in, so that pages of any
        /// origin may send requests.
        cross_origin: bool, Bool = false;
        /// Whether clients are told what went wrong with a backend, addresses included.
        debug: bool, Bool = false;
        /// Time limit for connecting to a backend.
        connect_timeout_ms as "connect_timeout": u64, Duration = 5 * SECOND, range(10, HOUR);
        /// Time limit for a backend's answer, and before that for it to take any of the request.
        response_timeout_ms as "response_timeout": u64, Duration = 60 * SECOND,
            range(10, 24 * HOUR), zero("as long as it takes");
    }
}

section! {
    /// Pusher's clients and back ends: where their apps are read from, and their paths.
    "pusher" PusherOptions {
        /// A folder with a file for each app, `*.toml`, with the options of a section `[[app]]` and
        /// no heading. They are read with this file, and again with each reload.
        apps_dir: Option<String>, Opt<Text>, file, example("\"/etc/throng/apps\"");
        /// A path before those of all apps, such as `/push`: clients connect to `/push/app/KEY`
        /// (`wsPath` in pusher-js), and back ends call `/push/apps/ID`.
        path: Option<String>, Opt<PathPrefix>, example("\"/push\"");
    }
}

section! {
    /// One app of Pusher's clients and back ends: clients connect to `/app/KEY`, and back ends send
    /// signed requests to `/apps/ID`. Repeat the section for each. A reload adds, changes and
    /// removes apps; the clients of one that is gone are closed with 4001.
    "app" AppOptions {
        /// The app's id: 1 to 36 ASCII letters, digits, `-`, `_` and `.`.
        id: String, Text, example("\"1\"");
        /// The public key, which clients connect with.
        key: String, Text, example("\"app-key\"");
        /// The secret that back ends sign with.
        secret: Option<Secret>, Opt<SecretText>, secret,
            example("\"a long random text\""), unset("needed");
        /// The previous secret, which is accepted too while back ends change to the new one.
        previous_secret: Option<Secret>, Opt<SecretText>, secret,
            example("\"another long random text\""), unset("only `secret` counts");
        /// Whether the app is served. If not, its clients are closed with 4003, and its back ends
        /// get 403.
        enabled: bool, Bool = true;
        /// The origins of web pages that may connect, as in `auth.allowed_origins`. `*` allows all:
        /// a page gets public channels, and whatever a back end signs for it.
        allowed_origins: Vec<String>, List<WebOrigin> = vec!["*".to_owned()];
        /// Whether clients may send events (`client-…`) to each other in private and presence
        /// channels.
        client_events: bool, Bool = false;
        /// The most bytes of an event's data; Pusher takes 10 KiB. Whole messages of
        /// clients are limited by `limits.message_bytes_max`, requests of back ends by
        /// `limits.publish_bytes_max`.
        event_bytes_max: u64, Size = 100 * KIB, range(KIB, 16 * MIB);
        /// Silence after which clients send a ping.
        activity_timeout_ms as "activity_timeout": u64, Duration = 120 * SECOND,
            range(SECOND, HOUR);
        /// The most connections of the app's clients on all nodes together, which tell each other
        /// once a second how many they have. Further ones are closed with 4004. 0 means no limit.
        connections_max: u32, Count = 0;
        /// The most events of back ends a second on all nodes together, each counted once for each
        /// of its channels. Further ones get 429. 0 means no limit.
        publications_per_second_max: u32, Count = 0;
        /// The most events a second of all clients together, on all nodes. Further ones are refused
        /// with the error 4301. 0 means no limit.
        client_events_per_second_max: u32, Count = 0;
        /// The most bytes a second of events on all nodes: of back ends (429), and as many of all
        /// clients together (error 4301). 0 means no limit.
        bytes_per_second_max: u64, Size = 0;
        /// The most reads of back ends (`GET`) a second on all nodes. Further ones get 429. 0 means
        /// no limit.
        reads_per_second_max: u32, Count = 0;
        /// The most channels with subscribers on one node, not counting users' own channels. A
        /// subscribe to one more is refused. 0 means no limit.
        channels_max: u32, Count = 0;
        /// The most bytes of names and newest events of cache channels. Each node counts those that
        /// came through it since it started. A call of a back end for more gets 429. 0 means no
        /// limit except `limits.history_bytes_max`, which all channels share.
        history_bytes_max: u64, Size = 0;
        /// The most users of a presence channel. One more is refused, and so is one in a channel
        /// with more than `limits.presence_reply_max` connections.
        presence_members_max: u32, Count = 100, range(1, 1_000_000);
        /// Whether users that sign in are told when others come online and go offline: the first
        /// 100 of the `watchlist` in the data that a back end signs.
        watchlists: bool, Bool = false;
        /// Whether the subscribers of a channel without presence are told how many they are, on all
        /// nodes: within a second of a change, and every five seconds above 100.
        subscription_count: bool, Bool = false;
    }
}
