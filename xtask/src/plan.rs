//! Dependency rules as tables: the rooms that each room may use, and the outside packages that each
//! may use.
//!
//! Owns: every rule about dependencies. Never: reads a manifest; `tidy/edges.rs` does and asks
//! here.
//!
//! A room is named by its folder below `crates/`; `core/*` means every room of that floor. A new
//! room needs a new row, which is the moment to decide where it belongs.

/// Dependencies that one room may have inside the workspace.
pub(crate) struct Room {
    /// The folder below `crates/`.
    pub(crate) name: &'static str,
    /// The rooms that it may name in its manifest.
    pub(crate) uses: &'static [&'static str],
}

const fn room(name: &'static str, uses: &'static [&'static str]) -> Room {
    Room { name, uses }
}

/// From the cellar to the roof. What a row does not list is forbidden.
#[rustfmt::skip]
pub(crate) const HOUSE: &[Room] = &[
    // The shared words, and the wire formats that know nothing else of ours.
    room("types/derive", &[]),
    room("types",     &["types/derive"]),
    room("protocols/*",    &["types"]),
    // GRIP travels in fields and bodies of HTTP.
    room("protocols/grip", &["types", "protocols/http1"]),

    // Pure logic: each room sees those to its left, `types < auth, config, metrics, broker < hub <
    // session`.
    room("core/auth",      &["types", "protocols/*"]),
    room("core/config",    &["types", "protocols/*"]),
    room("core/metrics",   &["types", "protocols/*"]),
    room("core/broker",    &["types", "protocols/*"]),
    room("core/broker/suite", &["types", "core/broker"]),
    room("core/hub", &[
        "types", "core/auth", "core/config", "core/metrics", "core/broker", "protocols/*",
    ]),
    room("core/session", &[
        "types", "core/auth", "core/config", "core/metrics", "core/broker", "core/hub",
        "protocols/*",
    ]),

    // The trait of what we connect to, and one kind of server each; none knows another.
    room("core/peer",      &["types"]),
    room("peers/*",        &["types", "protocols/*", "core/peer"]),
    room("peers/appwrite", &[
        "types", "core/metrics", "core/peer", "protocols/*", "peers/backend", "peers/redis-link",
    ]),
    // Brokers of several nodes: what they have in common, and the link that feeds use too.
    room("peers/redis", &[
        "types", "core/broker", "core/metrics", "core/peer", "peers/remote", "peers/redis-link",
    ]),
    room("peers/remote",   &["types", "core/broker", "core/metrics", "core/peer"]),
    room("peers/nats", &[
        "types", "core/broker", "core/metrics", "core/peer", "protocols/*", "peers/nats-link",
        "peers/remote",
    ]),
    room("peers/feeds", &[
        "types", "protocols/*", "core/broker", "core/metrics", "core/peer", "peers/redis-link",
        "peers/nats-link",
    ]),

    // One family of clients each; none knows another.
    room("gateways/*",     &["types", "protocols/*", "core/*"]),

    // The roles of a client, for code that talks to a server: the meter, the command line, tests.
    room("client",         &["types", "protocols/*"]),

    // The kernel. The engine meets sessions through its own trait, so it knows neither them nor the
    // hub.
    room("runtime/sys",    &["types"]),
    room("runtime/tls",    &["types"]),
    room("runtime/engine", &["types", "runtime/sys", "runtime/tls"]),

    // Hosts a peer on a shard, as the server hosts gateways.
    room("runtime/outward", &[
        "types", "core/peer", "runtime/tls", "runtime/engine",
    ]),

    room("drivers/history", &["types", "core/broker", "core/metrics"]),

    // What users start. The meter shares no code with what it measures, except wire formats and the
    // reactor.
    room("apps/server", &[
        "types", "core/*", "protocols/*", "peers/*", "gateways/*", "runtime/*", "drivers/*",
    ]),
    room("apps/doctor",    &["types", "core/config", "runtime/sys"]),
    room("apps/bench/plan",    &["types", "client", "core/config"]),
    room("apps/bench/measure", &["types", "apps/bench/plan"]),
    room("apps/bench/report",  &["types", "client", "apps/bench/plan", "apps/bench/measure"]),
    room("apps/bench/worker", &[
        "types", "client", "protocols/*", "runtime/*", "apps/bench/plan", "apps/bench/measure",
    ]),
    room("apps/bench/fleet",   &["types", "client", "protocols/*", "runtime/*", "apps/bench/*"]),
    room("apps/cli", &[
        "types", "core/*", "protocols/*", "gateways/*", "client", "runtime/*", "drivers/*",
        "apps/*",
    ]),

    // Tests and automation.
    room("dev/*",          &["*"]),
    room("dev/compare", &[
        "types", "protocols/*", "client", "runtime/sys", "runtime/tls", "dev/testkit",
    ]),
    room("dev/fuzz-targets", &[
        "types", "core/*", "protocols/*", "gateways/*", "client", "runtime/engine", "runtime/tls",
        "peers/redis-link", "apps/server", "dev/solo", "dev/testkit",
    ]),
    room("tests/*",        &["dev/*"]),
    room("xtask",          &["core/config", "core/metrics"]),
];

/// Rooms that any room may use in its tests, and only there.
pub(crate) const FOR_TESTS: &[&str] = &["dev/*", "core/broker/suite"];

/// Rooms where bytes, time and chance come in as arguments.
pub(crate) const PURE: &[&str] = &[
    "types",
    "core/*",
    "protocols/*",
    "peers/*",
    "gateways/*",
    "client",
];

/// Rooms that may contain `unsafe`.
pub(crate) const UNSAFE: &[&str] = &["runtime/sys"];

/// Packages from outside that only some rooms may name.
pub(crate) struct Fence {
    /// Package names; a final `*` stands for any ending.
    pub(crate) packages: &'static [&'static str],
    /// The rooms inside the fence.
    pub(crate) rooms: &'static [&'static str],
    /// Property that would be lost without the fence.
    pub(crate) why: &'static str,
}

/// The fences, none of which a single room crosses.
pub(crate) const FENCES: &[Fence] = &[
    Fence {
        packages: &[
            "tokio", "tokio-*", "hyper", "hyper-*", "reqwest", "axum", "tower", "smol", "async-*",
        ],
        rooms: &["dev/*"],
        why: "a task for each connection costs the memory that this server exists to save",
    },
    Fence {
        packages: &["mio", "socket2"],
        rooms: &["runtime/*", "drivers/*", "dev/*"],
        why: "sockets belong to the runtime, where a test can replace them",
    },
    Fence {
        packages: &["libc", "nix"],
        rooms: &["runtime/sys"],
        why: "raw system calls are unsafe, and all unsafe code is in one room",
    },
    Fence {
        packages: &["rustix", "signal-hook*"],
        rooms: &["runtime/*", "apps/*", "dev/*"],
        why: "pure rooms do not speak to the kernel",
    },
    Fence {
        packages: &["rustls", "rustls-*"],
        rooms: &["runtime/tls", "drivers/*", "dev/*"],
        why: "one room knows how TLS is spoken, so that a port and a client agree",
    },
    Fence {
        packages: &["rand", "rand_*", "getrandom", "fastrand"],
        rooms: &["runtime/*", "apps/*", "drivers/*", "dev/*"],
        why: "chance comes into pure rooms as an argument, so that a seed replays a run",
    },
    Fence {
        packages: &["anyhow"],
        rooms: &["apps/cli", "dev/*", "xtask"],
        why: "below the command line, errors are enums that say whose fault it is",
    },
];

/// The row for a room, the exact one before the one for its floor.
pub(crate) fn row(name: &str) -> Option<&'static Room> {
    HOUSE
        .iter()
        .find(|row| row.name == name)
        .or_else(|| HOUSE.iter().find(|row| matches(row.name, name)))
}

/// Whether any of the patterns covers the name.
pub(crate) fn covers(patterns: &[&str], name: &str) -> bool {
    patterns.iter().any(|pattern| matches(pattern, name))
}

/// `core/*` matches `core/hub`, `*` matches all, and anything else only itself.
fn matches(pattern: &str, name: &str) -> bool {
    pattern
        .strip_suffix('*')
        .map_or(pattern == name, |start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_cover_a_floor_or_one_room() {
        assert!(covers(&["core/*"], "core/hub"));
        assert!(!covers(&["core/*"], "protocols/ws"));
        assert!(covers(&["core/hub"], "core/hub"));
        assert!(!covers(&["core/hub"], "core/hubs"));
        assert!(covers(&["tokio-*"], "tokio-util"));
        assert!(covers(&["*"], "anything"));
    }

    #[test]
    fn exact_rows_come_before_their_floor() {
        assert_eq!(row("types").unwrap().uses, ["types/derive"]);
        assert_eq!(row("protocols/ws").unwrap().name, "protocols/*");
        assert!(row("attic/box").is_none());
    }

    /// Names the promise that a weaker plan would break.
    #[test]
    fn the_plan_keeps_its_promises() {
        let may = |from: &str, to: &str| covers(row(from).unwrap().uses, to);
        for stranger in [
            "core/hub",
            "core/session",
            "core/broker",
            "apps/server",
            "gateways/grip",
        ] {
            for part in ["plan", "measure", "worker", "report", "fleet"] {
                let part = format!("apps/bench/{part}");
                assert!(!may(&part, stranger), "{part} uses {stranger}");
            }
            assert!(!may("runtime/engine", stranger), "engine uses {stranger}");
        }
        assert!(!may("protocols/ws", "protocols/http1"));
        assert!(!may("core/hub", "core/session"));
        assert!(!may("gateways/grip", "gateways/plain"));
        assert!(!may("core/broker", "core/metrics"));
        assert!(may("core/session", "core/hub"));
    }
}
