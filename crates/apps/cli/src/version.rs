//! Which Throng this is.

use std::sync::LazyLock;

/// The version of this binary. A build that says which commit it is of (`cargo xtask dist`) sets
/// the variable `THRONG_VERSION`, such as `0.1.0 (2d05fe1)`.
pub(crate) const VERSION: &str = match option_env!("THRONG_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

/// The version, and what this binary was made for and can do: for `--version`, not for `-V`.
pub(crate) fn long() -> &'static str {
    static LONG: LazyLock<String> = LazyLock::new(|| {
        let commit = match option_env!("THRONG_VERSION") {
            Some(_) => "",
            None => "commit:    not recorded; cargo xtask dist records it\n",
        };
        let library = match (
            cfg!(target_env = "musl"),
            cfg!(target_feature = "crt-static"),
        ) {
            (true, true) => "static, musl, mimalloc",
            (true, false) => "musl, mimalloc",
            _ => "glibc",
        };
        let arch = std::env::consts::ARCH;
        format!(
            "{VERSION}\n\
             {commit}\
             built for: Linux {arch} ({library})\n\
             clients:   WebSocket, SSE, HTTP streams, Centrifugo (JSON, Protobuf), \
             Appwrite Realtime, GRIP, Pusher\n\
             brokers:   memory, Redis, NATS JetStream\n\
             TLS:       1.3 and 1.2 (rustls, aws-lc)"
        )
    });
    &LONG
}
