//! Plan for a machine: number of connections, their end, their price in memory.

use serde::Serialize;
use throng_types::coded_enum;

coded_enum! {
    /// End of the connections that lives on this machine.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Role {
        /// Word for it in text and JSON.
        fn name;
        /// Accepting end of connections.
        #[default]
        Server = "server";
        /// Opening end, towards another machine.
        Loadgen = "loadgen";
        /// Both ends, over loopback: memory, files and hash entries count twice.
        Both = "both";
    }
}

impl Role {
    /// Returns true if source ports of this machine are spent.
    pub const fn opens(self) -> bool {
        !matches!(self, Self::Server)
    }

    /// Returns true if this machine listens.
    pub const fn accepts(self) -> bool {
        !matches!(self, Self::Loadgen)
    }

    /// Number of ends of one connection that live here.
    pub const fn ends(self) -> u64 {
        match self {
            Self::Server | Self::Loadgen => 1,
            Self::Both => 2,
        }
    }
}

/// Memory of an idle connection at the accepting end: our process, and a current x86-64 kernel with
/// one epoll registration.
const ACCEPTED_BYTES: u64 = 256 + 3_970;
/// Memory of an idle connection at the opening end, which also holds bind buckets.
const OPENED_BYTES: u64 = 256 + 4_200;

/// Plan to judge a machine against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Connections wanted at once. `None` asks how far the machine's memory would reach.
    pub connections: Option<u64>,
    /// End of connections that lives here.
    pub role: Role,
    /// Processes that share the connections evenly; `nofile` and `nr_open` bind each of them. With
    /// [`Role::Both`] these are the clients: the server is one process and has all connections.
    pub processes: u64,
    /// Source addresses of the opening end. `None`: every address of this machine, or a single
    /// one over loopback.
    pub source_addresses: Option<u64>,
    /// Distinct pairs of address and port the opening end connects to; each gives it the
    /// whole port range anew.
    pub targets: u64,
}

impl Plan {
    /// Makes a plan for one process, one target and the addresses that this machine has.
    pub const fn new(role: Role, connections: Option<u64>) -> Self {
        Self {
            connections,
            role,
            processes: 1,
            source_addresses: None,
            targets: 1,
        }
    }

    /// Memory of one idle connection on this machine, all ends that live here, in bytes.
    pub const fn connection_bytes(&self) -> u64 {
        match self.role {
            Role::Server => ACCEPTED_BYTES,
            Role::Loadgen => OPENED_BYTES,
            Role::Both => ACCEPTED_BYTES + OPENED_BYTES,
        }
    }
}
