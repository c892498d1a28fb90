//! The table: every option once, with its key, type, default, bounds and meaning.
//!
//! The comments here are the reference that users read, so each says what the option
//! does and in which unit. Adding an option is adding an entry.

mod channel;
mod dropins;
mod servers;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use throng_proxy::Block;

use crate::kind::{
    Address, AddressBlock, BaseUrl, Bool, Choice, Count, Duration, HostName, HttpUrl, List,
    ListenAddress, Listener, OPEN, Opt, Pem, SecretText, SigningSecret, Size, TargetLevel, Text,
    WebOrigin, choice,
};
use crate::secret::Secret;
use crate::section::section;

pub use channel::{ChannelOptions, DeltaType, RecoveryMode, SlowConsumer};
pub use dropins::{AppOptions, Appwrite, AppwriteProject, Grip, GripRoute, PusherOptions};
pub use servers::{
    Acknowledge, Broker, BrokerKind, DEFAULT_BACKEND, Feed, FeedBegin, FeedKind, History,
    OnDiskFailure, Proxy, ProxyBackend, WebhookEvent, WebhookOptions,
};

/// The most connections from one address while `limits.connections_per_ip` is not set: people
/// behind the one address of an office have fewer.
pub const CONNECTIONS_PER_IP: u32 = 4096;

const SECOND: u64 = 1000;
const HOUR: u64 = 3600 * SECOND;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

const fn loopback(port: u16) -> ListenAddress {
    ListenAddress {
        address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port),
        is_tls: false,
    }
}

section! {
    /// Where Throng listens. An address that other machines can reach needs keys, see `[auth]`.
    "listen" Listen {
        /// Addresses for clients: WebSocket, SSE and HTTP streaming. An address with `tls://`
        /// before it, as in `tls://0.0.0.0:443`, speaks TLS; see `[tls]`.
        client: Vec<ListenAddress>, List<Listener> = vec![loopback(8000)], restart,
            flag("--listen");
        /// The address of the server API, the metrics and the dashboard. With `tls://` before it,
        /// it speaks TLS.
        api: ListenAddress, Listener = loopback(8001), restart, flag("--api");
        /// Whether the addresses for clients serve the server API (`/api`) too, as in Centrifugo.
        /// It needs `auth.api_keys`. Callers there have the limits of clients.
        api_for_clients: bool, Bool = false;
        /// The proxies in front of Throng, by address or block. Throng takes a client's address
        /// from them: from PROXY headers, and from `X-Forwarded-For` (the last address there that
        /// is not a trusted proxy itself). Limits and logs use that address. Do not name addresses
        /// from which clients connect directly.
        trusted_proxies: Vec<Block>, List<AddressBlock>;
        /// Those addresses, out of `client` and `api`, on which each connection begins with a PROXY
        /// header of version 1 or 2 (HAProxy: `send-proxy`, `send-proxy-v2`). The header comes
        /// before TLS. Only trusted proxies may connect there.
        proxy_protocol: Vec<SocketAddr>, List<Address>, restart;
        /// The addresses that speak HTTP/2 beside HTTP/1.1. `tls`: those with `tls://`, to clients
        /// that offer it. `plain`: all; on those without TLS, to clients that begin with HTTP/2
        /// (prior knowledge). `off`: none.
        http2: Http2, Choice<Http2>, restart;
        /// Streams that one connection of HTTP/2 may have at once. Each counts as a connection in
        /// `[limits]`.
        http2_streams_max: u32, Count = 256, restart, range(1, 100_000);
    }
}

choice! {
    /// Addresses on which HTTP/2 is spoken.
    Http2 {
        /// Speak it on addresses with TLS.
        #[default]
        Tls = "tls",
        /// Speak it on all addresses, with TLS or without.
        Plain = "plain",
        /// Speak HTTP/1.1 alone on all.
        Off = "off",
    }
}

choice! {
    /// The lowest version of TLS.
    TlsVersion {
        /// TLS 1.2 (RFC 5246).
        #[default]
        Tls12 = "1.2",
        /// TLS 1.3 (RFC 8446).
        Tls13 = "1.3",
    }
}

choice! {
    /// Implementation of TLS records after the handshake.
    TlsRecords {
        /// rustls, from the handshake to the end.
        #[default]
        Rustls = "rustls",
        /// rustls during the handshake, then a record layer of our own.
        Lean = "lean",
        ; "kernel" => "records by the kernel (kTLS) are no more, since they took 4 kB of its \
            memory for each connection: set \"lean\", which takes 0.3 kB, or \"rustls\"",
    }
}

section! {
    /// Certificates for the addresses with `tls://` in `[listen]`. Throng reads the files again
    /// when they change and on a reload; open connections stay. A faulty file changes nothing, and
    /// the log says why.
    "tls" Tls {
        /// The PEM file with the server's certificate, followed by the intermediate certificates,
        /// for every host name that has no `[[tls.site]]`.
        certificate: Option<String>, Opt<Text>, file,
            example("\"/etc/throng/push.example.com.pem\"");
        /// The PEM file with the private key of `certificate`, without a password.
        key: Option<String>, Opt<Text>, file, example("\"/etc/throng/push.example.com.key\"");
        /// The lowest version of TLS that clients may use: `1.2` or `1.3`.
        min_version: TlsVersion, Choice<TlsVersion>, restart;
        /// The record layer that encrypts and decrypts after the handshake: `rustls`, or `lean`,
        /// our own, which needs a tenth of the memory per connection. rustls does the handshake in
        /// both cases.
        records: TlsRecords, Choice<TlsRecords>, restart;
        /// Time limit for a client's TLS handshake.
        handshake_timeout_ms as "handshake_timeout": u64, Duration = 10 * SECOND, range(100, HOUR);
        /// The PEM file with the certificate authorities for callers of the API port. A caller
        /// without a certificate from one of them is refused. It needs `tls://` in `listen.api`.
        /// API keys are needed as well.
        api_client_authorities: Option<String>, Opt<Text>, file, restart,
            example("\"/etc/throng/callers.pem\""), unset("no certificate is required");
    }
    lists {
        /// Certificates for more names.
        "site" sites: TlsSite;
    }
}

section! {
    /// The certificate for one more host name. Repeat the section for each name.
    "tls.site" TlsSite {
        /// The host name that clients ask for (SNI): `push.example.com`, or `*.example.com` for all
        /// names with one more label in front.
        name: String, HostName, example("\"push.example.com\"");
        /// The PEM file with its certificate, followed by the intermediate certificates.
        certificate: String, Text, file, example("\"/etc/throng/push.example.com.pem\"");
        /// The PEM file with its private key, without a password.
        key: String, Text, file, example("\"/etc/throng/push.example.com.key\"");
    }
}

section! {
    /// Threads, queues and how many connections one process takes.
    "engine" Engine {
        /// Number of shards, each a thread with its own connections. 0 means one per core, and 64
        /// on machines with more.
        shards: u32, Count = 0, restart, range(0, 64), flag("--shards");
        /// Maximum number of connections that wait in the kernel until Throng accepts them, per
        /// listener and shard.
        backlog: u32, Count = 4096, restart, range(1, 65_535);
        /// The most bytes that may wait for one slow connection. Beyond that the channel's
        /// `slow_consumer` rule applies.
        out_buffer_bytes_max: u64, Size = MIB, range(4 * KIB, GIB);
        /// The most connections of the whole process. 0 means as many as the file descriptors
        /// allow.
        connections_max: u32, Count = 0;
    }
}

section! {
    /// Limits for one client, address or request.
    "limits" Limits {
        /// The most connections from one IP address (from one /64 with IPv6); more are answered
        /// 429. 0 means no limit. A limit that you set counts every address. While it is not set,
        /// addresses of private networks are not counted as long as `listen.trusted_proxies` is
        /// empty, because each may be a proxy.
        connections_per_ip: Option<u32>, Opt<Count>, example("4096"), unset("4096");
        /// The most connections of one user on all nodes together. A user is whom a token or a
        /// backend names (`/ws`, `/sse`, `/stream`, Centrifugo's clients), or who is signed in to
        /// an app of Pusher or an Appwrite project. The next connection is refused;
        /// docs/guides/security.md says how exact this is with several nodes. 0 means no limit.
        connections_per_user_max: u32, Count = 0;
        /// The most commands a second of one user, by all connections on all nodes together. They
        /// count, and are refused, as with `messages_per_second_max`. 0 means no limit.
        commands_per_user_per_second_max: u32, Count = 0;
        /// The most channels that one connection may be subscribed to.
        channels_per_connection: u32, Count = 128, range(1, 65_535);
        /// The largest message from a client, in bytes.
        message_bytes_max: u64, Size = 64 * KIB, range(128, 64 * MIB);
        /// The most messages a second from one connection. It counts commands (a frame may
        /// hold many), pings, and messages to GRIP backends. Twice as many may come at once. A
        /// connection that sends more is closed with 3013 (1008 on WebSockets of GRIP). Subscribing
        /// counts less: a client may subscribe to all `channels_per_connection` twice a second. 0
        /// means no limit.
        messages_per_second_max: u32, Count = 100;
        /// The most HTTP requests a second on one connection to a client port, on all streams of
        /// HTTP/2 together. Beyond that Throng answers 429 and closes the connection; one of HTTP/2
        /// takes no more streams, and those that have begun go on. 0 means no limit.
        requests_per_second_max: u32, Count = 1000;
        /// For how much of each second the clients of one IP address (of one /64 with IPv6) may
        /// keep a shard busy. Throng estimates what each connection, request, command, token and
        /// answer costs, answers with history or members by their length; a bad token counts ten
        /// times. Beyond that, requests are answered 429 and WebSockets are closed with 3013. While
        /// `listen.trusted_proxies` is empty, addresses of private networks are not counted,
        /// because each may be a proxy. "0s" means no limit.
        address_work_max_ms as "address_work_max": u64, Duration = 500, range(1, HOUR), zero("off");
        /// The largest request head (request line and headers), in bytes.
        head_bytes_max: u64, Size = 16 * KIB, range(KIB, MIB);
        /// Time limit for a client to send a request head, or the next KiB of a body that goes to a
        /// GRIP backend.
        head_timeout_ms as "head_timeout": u64, Duration = 10 * SECOND, range(100, HOUR);
        /// Maximum time that an HTTP connection stays open without a request.
        keepalive_timeout_ms as "keepalive_timeout": u64, Duration = 60 * SECOND,
            range(SECOND, HOUR);
        /// The memory for the history of all channels together, in bytes; the oldest goes first.
        history_bytes_max: u64, Size = 256 * MIB, restart, range(MIB, 1024 * GIB);
        /// The most bytes that may wait for all clients together because they do not read; a
        /// publication that waits for many counts once. Beyond that, the longest queues that move
        /// least are closed as slow (3008, if that can still be said). While it is not set, it is
        /// an eighth of the memory of the machine or of the control group, and at least 64 MiB.
        queued_bytes_max: Option<u64>, Opt<Size>, range(MIB, 1024 * GIB), example("\"512MiB\""),
            unset("an eighth of the memory");
        /// The most publications in one answer with history. A longer page is cut. A client that
        /// missed more is told `recovered: false`.
        history_reply_max: u32, Count = 1000, range(1, 1_000_000);
        /// The most bytes in one answer with history. Only a single publication may be longer.
        history_reply_bytes_max: u64, Size = MIB, range(4 * KIB, GIB);
        /// The most members in one answer to `presence`. If a channel has more, the answer is an
        /// error; `presence_stats` still says how many there are.
        presence_reply_max: u32, Count = 10_000, range(1, 1_000_000);
        /// Maximum number of channels without subscribers and history whose position the broker in
        /// memory remembers, each for an hour, so that a client that comes back is told that it
        /// missed nothing. The oldest is forgotten first.
        streams_max: u32, Count = 2_000_000, range(1, 1_000_000_000);
        /// The largest request body on the server API, in bytes.
        publish_bytes_max: u64, Size = MIB, range(KIB, GIB);
    }
}

section! {
    /// Heartbeats of WebSocket connections.
    "websocket" Websocket {
        /// Interval of pings to an idle client. "0s" sends no pings.
        ping_interval_ms as "ping_interval": u64, Duration = 25 * SECOND, range(SECOND, HOUR),
            zero("off");
        /// Time limit for a client to answer a ping; shorter than `ping_interval`.
        pong_timeout_ms as "pong_timeout": u64, Duration = 8 * SECOND, range(100, HOUR);
    }
}

section! {
    /// Heartbeats of SSE and HTTP streaming connections.
    "stream" Stream {
        /// Interval of keep-alives on an idle stream, so that proxies do not close it. "0s" sends
        /// none.
        keepalive_interval_ms as "keepalive_interval": u64, Duration = 25 * SECOND,
            range(SECOND, HOUR), zero("off");
    }
}

section! {
    /// Access for clients and to the server API. With nothing set and all addresses on loopback,
    /// Throng runs in open mode: everyone on this machine may do everything.
    "auth" Auth {
        /// The secret that signs client tokens (HS256, HS384, HS512); 32 bytes or more.
        hmac_secret: Option<Secret>, Opt<SigningSecret>, secret,
            example("\"a random text of 32 bytes or more\"");
        /// The file that holds the HMAC secret.
        hmac_secret_file: Option<String>, Opt<Text>, file, example("\"/etc/throng/hmac-secret\"");
        /// A second HMAC secret that is accepted too. To rotate: put the old one here and the new
        /// one above, and remove it when the last token that it signed has expired.
        hmac_previous_secret: Option<Secret>, Opt<SigningSecret>, secret,
            example("\"a random text of 32 bytes or more\"");
        /// The file that holds the second HMAC secret.
        hmac_previous_secret_file: Option<String>, Opt<Text>, file,
            example("\"/etc/throng/hmac-previous-secret\"");
        /// Accept an HMAC secret of fewer than 32 bytes, which can be guessed. Only for the move
        /// from a server that had one.
        short_hmac_secret: bool, Bool = false;
        /// The RSA public key that checks client tokens (RS256, RS384, RS512), in PEM form.
        rsa_public_key: Option<String>, Opt<Pem>, example("\"-----BEGIN PUBLIC KEY-----…\"");
        /// The file that holds the RSA public key.
        rsa_public_key_file: Option<String>, Opt<Text>, file, example("\"/etc/throng/rsa.pem\"");
        /// The ECDSA public key that checks client tokens (ES256, ES384), in PEM form.
        ecdsa_public_key: Option<String>, Opt<Pem>, example("\"-----BEGIN PUBLIC KEY-----…\"");
        /// The file that holds the ECDSA public key.
        ecdsa_public_key_file: Option<String>, Opt<Text>, file,
            example("\"/etc/throng/ecdsa.pem\"");
        /// The Ed25519 public key that checks client tokens (EdDSA), in PEM form.
        eddsa_public_key: Option<String>, Opt<Pem>, example("\"-----BEGIN PUBLIC KEY-----…\"");
        /// The file that holds the Ed25519 public key.
        eddsa_public_key_file: Option<String>, Opt<Text>, file,
            example("\"/etc/throng/ed25519.pem\"");
        /// A set of public keys (JWK Set, RFC 7517), as JSON. A token names the key that checks it
        /// (`kid`). Keys for other purposes, secrets and private keys are left out.
        jwks: Option<String>, Opt<Text>,
            example("'{\"keys\": [{\"kty\": \"EC\", \"kid\": \"a\", …}]}'");
        /// The file that holds the set of public keys.
        jwks_file: Option<String>, Opt<Text>, file, example("\"/etc/throng/jwks.json\"");
        /// The URL where the issuer of tokens publishes its set of public keys. Fetched keys stay
        /// in use until the next successful fetch, also while the issuer is down. When a token
        /// names a key that is not known yet, Throng fetches the set and tells the client to try
        /// again.
        jwks_url: Option<String>, Opt<HttpUrl>,
            example("\"https://login.example.com/.well-known/jwks.json\"");
        /// Time limit for one request for the set.
        jwks_timeout_ms as "jwks_timeout": u64, Duration = 5 * SECOND, range(100, 60 * SECOND);
        /// Interval between fetches of the set.
        jwks_refresh_interval_ms as "jwks_refresh_interval": u64, Duration = 600 * SECOND,
            range(SECOND, 24 * HOUR);
        /// The shortest time between two fetches, regardless of the keys that tokens name: clients
        /// choose those. Also the pause after a failed fetch, which doubles with each further
        /// failure.
        jwks_refresh_interval_min_ms as "jwks_refresh_interval_min": u64, Duration = 10 * SECOND,
            range(100, HOUR);
        /// The audience that a token must name in its `aud` claim.
        audience: Option<String>, Opt<Text>, example("\"throng\""), unset("any audience");
        /// The issuer that a token must name in its `iss` claim.
        issuer: Option<String>, Opt<Text>, example("\"https://login.example.com\""),
            unset("any issuer");
        /// The difference allowed between the clocks of issuer and server. A token is accepted for
        /// this long before its `nbf` and after its `exp`.
        leeway_ms as "leeway": u64, Duration = 0, range(0, HOUR);
        /// Refuse tokens without `exp`. They would never expire.
        require_exp: bool, Bool = false;
        /// Subscribe each connection that has a user to the channel `#USER` when it connects.
        personal_channel: bool, Bool = false;
        /// Whether clients may connect without a token. GRIP's clients need none.
        anonymous: Option<bool>, Opt<Bool>, example("false"), unset(OPEN);
        /// The web origins whose pages may connect. `*` allows all. Without a list, pages of the
        /// same host may connect; on a port that asks for no key, only pages of this machine
        /// (localhost).
        allowed_origins: Vec<String>, List<WebOrigin>;
        /// The host names (header `Host`) that are accepted on a port that asks for no key: the
        /// server API without keys, GRIP's ports for publishers, and in open mode the client port.
        /// IP addresses and `localhost` are always accepted. `*.example.com` allows all names below
        /// a domain. `*` allows every name; then any web page can point its own name at this server
        /// and use the port. If other machines can reach the port, names without a dot are accepted
        /// too. With `grip.pushpin_conf`, GRIP's ports accept every name, except from browsers.
        allowed_hosts: Vec<String>, List<HostName>;
        /// The keys of the server API, sent as `X-API-Key`.
        api_keys: Vec<Secret>, List<SecretText>, secret;
        /// The file that holds the keys of the server API, one on each line.
        api_keys_file: Option<String>, Opt<Text>, file, example("\"/etc/throng/api-keys\"");
        /// Allow addresses that other machines can reach although no keys are set. Everyone who
        /// reaches them may do everything.
        insecure: bool, Bool = false;
    }
    lists {
        /// Keys of the server API with a name, each for certain calls.
        "api_key" named_api_keys: NamedApiKey;
    }
}

choice! {
    /// The calls of the server API that a key is for.
    ApiRole {
        /// Only the paths `/metrics` and `/stats`.
        Metrics = "metrics",
        /// Also whatever shows something and changes nothing.
        #[default]
        Read = "read",
        /// Publishing, and nothing else.
        Publish = "publish",
        /// All calls of the server API.
        Admin = "admin",
    }
}

section! {
    /// One more key of the server API, with a name that the log shows, and for certain calls only.
    /// The keys of `auth.api_keys` are for all calls. Repeat the section for each.
    "auth.api_key" NamedApiKey {
        /// The name of the key: 1 to 64 ASCII letters, digits, `-`, `_` and `.`.
        name: String, Text, example("\"prometheus\"");
        /// The key, sent as `X-API-Key`.
        key: Option<Secret>, Opt<SecretText>, secret, example("\"a long random text\""),
            unset("`key_file` has it");
        /// The file that holds the key.
        key_file: Option<String>, Opt<Text>, file, example("\"/etc/throng/prometheus-key\"");
        /// The calls that it is for: `metrics` for `/metrics` and `/stats`, `read` for these and
        /// all calls that change nothing, `publish` for publishing, `admin` for all calls. Others
        /// are refused with 403.
        roles: Vec<ApiRole>, List<Choice<ApiRole>> = vec![ApiRole::Read];
        /// The namespaces whose channels it may touch. Calls that concern other channels, or more
        /// than one channel, are refused with 403. An empty list is no limit, without `app`.
        namespaces: Vec<String>, List<Text>;
        /// The id of the `[[app]]` whose channels it may touch, besides those of `namespaces`: the
        /// app's channel NAME is `pusher:ID:NAME`, a cache channel `pusher-cache:ID:NAME`.
        app: Option<String>, Opt<Text>, example("\"1\"");
    }
}

section! {
    /// Shutdown of the server.
    "drain" Drain {
        /// Time for connections to leave after the server was asked to stop.
        timeout_ms as "timeout": u64, Duration = 30 * SECOND, range(0, 24 * HOUR);
        /// Time span over which clients are told to spread their reconnects.
        jitter_ms as "jitter": u64, Duration = 10 * SECOND, range(0, HOUR);
    }
}

section! {
    /// Traces for OpenTelemetry, of calls of the server API and events of feeds whose senders trace
    /// them.
    "trace" Trace {
        /// The collector that takes spans by OTLP over HTTP: an `http://` or `https://` URL, to
        /// which `/v1/traces` is added.
        otlp_url: Option<String>, Opt<BaseUrl>, restart, example("\"http://127.0.0.1:4318\""),
            unset("no spans are made");
    }
}

section! {
    /// Sign-in to the dashboard by an OpenID provider, besides the keys of `auth.api_keys`. A claim
    /// of the provider's ID token gives people roles, the same as those of `[[auth.api_key]]`. A
    /// sign-in lasts 12 hours.
    "oidc" Oidc {
        /// The provider's URL, as in its tokens (`iss`). Throng finds the provider's endpoints by
        /// `/.well-known/openid-configuration` below it.
        issuer: Option<String>, Opt<BaseUrl>, restart, example("\"https://login.example.com\"");
        /// The id of this client at the provider.
        client_id: Option<String>, Opt<Text>, restart, example("\"throng\"");
        /// The secret of this client. The variable `THRONG_OIDC_CLIENT_SECRET` keeps it out of the
        /// file.
        client_secret: Option<Secret>, Opt<SecretText>, secret, restart,
            example("\"a long random text\""), unset("none is sent, as for public clients");
        /// The URL to which the provider sends browsers back: the dashboard's public address,
        /// followed by `/session/callback`. The provider must have it registered.
        redirect_url: Option<String>, Opt<HttpUrl>, restart,
            example("\"https://push.example.com/session/callback\"");
        /// The scopes that Throng requests; `openid` must be among them.
        scopes: Vec<String>, List<Text> = vec!["openid".to_owned(), "email".to_owned()], restart;
        /// The claim that names people in the log; `sub`, if a token lacks it.
        user_claim: String, Text = "email".to_owned(), restart;
        /// The claim with the text, or list of texts, that the options below match. A nested claim
        /// is named by its path: "realm_access.roles".
        role_claim: String, Text = "groups".to_owned(), restart;
        /// Texts of that claim that give the role `metrics`. "*" gives it to everybody who can sign
        /// in at the provider.
        metrics: Vec<String>, List<Text>, restart;
        /// Texts that give the role `read`.
        read: Vec<String>, List<Text>, restart;
        /// Texts that give the role `publish`.
        publish: Vec<String>, List<Text>, restart;
        /// Texts that give the role `admin`.
        admin: Vec<String>, List<Text>, restart;
    }
}

choice! {
    /// The least severe lines that are logged.
    LogLevel {
        /// Only events that need attention now.
        Error = "error",
        /// Also events that may need it soon.
        Warn = "warn",
        /// Also events of normal operation.
        #[default]
        Info = "info",
        /// Also events that help to find a fault.
        Debug = "debug",
        /// Also everything else, for development.
        Trace = "trace",
    }
}

choice! {
    /// The form of log lines.
    LogFormat {
        /// Plain lines for people.
        #[default]
        Text = "text",
        /// One JSON object a line.
        Json = "json",
    }
}

section! {
    /// Content of the log, which goes to standard error.
    "log" Log {
        /// Level of the log: `error` (least), `warn`, `info`, `debug` or `trace` (most).
        level: LogLevel, Choice<LogLevel>, flag("--log-level");
        /// Levels of single targets, by prefix: "throng::audit=debug" adds publications of the
        /// server API, "throng::refused=warn" leaves refusals out. The longest prefix counts. `off`
        /// is a level too.
        targets: Vec<String>, List<TargetLevel>;
        /// The form of log lines: `text` for people, `json` for machines.
        format: LogFormat, Choice<LogFormat>, restart, flag("--log-format");
    }
}
