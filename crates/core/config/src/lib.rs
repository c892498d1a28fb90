//! Configuration: text and variables in, validated options out, each with where it came from.
//!
//! Owns: the table of options (`options`), the order of the layers (defaults, Pushpin's file, file,
//! environment, flags: the later wins), the checks across options, and every text that
//! is made from the table: the commented file, the list of values, the reference.
//!
//! Never: reads a file or the environment, resolves a host name, or stops at the first
//! problem. Secrets appear in no message and in no `Debug` form.
//!
//! Invariants
//! - A value that was refused leaves the default in place and a [`ConfigProblem`] behind, and then
//!   no configuration comes out.
//! - What [`init_text`] writes is read back as the defaults.

pub mod centrifugo;
mod check;
mod config;
mod kind;
mod layout;
mod load;
mod options;
pub mod pusher;
mod pushpin;
mod reload;
mod secret;
mod section;
mod show;
mod sources;

#[cfg(test)]
mod tests;

pub use config::{AuthFile, Config, Namespace};
pub use kind::{ForwardedFor, ListenAddress, ProxyStatus};
pub use options::{
    Acknowledge, ApiRole, AppOptions, Appwrite, AppwriteProject, Auth, Broker, BrokerKind,
    CONNECTIONS_PER_IP, ChannelOptions, DEFAULT_BACKEND, DeltaType, Drain, Engine, Feed, FeedBegin,
    FeedKind, Grip, GripRoute, History, Http2, Limits, Listen, Log, LogFormat, LogLevel,
    NamedApiKey, Oidc, OnDiskFailure, Proxy, ProxyBackend, PusherOptions, RecoveryMode,
    SlowConsumer, Stream, Tls, TlsRecords, TlsSite, TlsVersion, Trace, WebhookEvent,
    WebhookOptions, Websocket,
};
pub use reload::Renewal;
pub use secret::{Secret, signing_secret_fault};
pub use section::OptionSpec;
pub use show::{init_text, options, reference_text, schema_text};
pub use sources::{ConfigFile, ConfigProblem, Loaded, Origin, Sources};
