//! Plan for a machine: number of connections, their end, their price in memory.

use serde::Serialize;

/// End of the connections that lives on this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Accepting end of connections.
    #[default]
    Server,
    /// Opening end, towards another machine.
    Loadgen,
    /// Both ends, over loopback: memory, files and hash entries count twice.
    Both,
}

impl Role {
    /// Word for it in text and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Loadgen => "loadgen",
            Self::Both => "both",
        }
    }

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
    /// Memory of our process per accepted connection.
    pub server_user_bytes: u64,
    /// Memory of the kernel per accepted connection.
    pub server_kernel_bytes: u64,
    /// Memory of the load generator per opened connection.
    pub client_user_bytes: u64,
    /// Memory of the kernel per opened connection.
    pub client_kernel_bytes: u64,
    /// Bytes expected to sit in the kernel's buffers per connection end under load, where a page is
    /// the least that is counted. Idle connections have none.
    pub buffered_bytes: u64,
}

impl Plan {
    /// Makes a plan with the default prices: an idle connection on a current x86-64 kernel, with
    /// one epoll registration, costs about 3,970 bytes at the accepting end and about 4,200 at the
    /// opening one, which also holds bind buckets.
    pub const fn new(role: Role, connections: Option<u64>) -> Self {
        Self {
            connections,
            role,
            processes: 1,
            source_addresses: None,
            targets: 1,
            server_user_bytes: 256,
            server_kernel_bytes: 3_970,
            client_user_bytes: 256,
            client_kernel_bytes: 4_200,
            buffered_bytes: 4_096,
        }
    }

    /// Memory of one idle connection on this machine, all ends that live here, in bytes;
    /// at least 1.
    pub fn connection_bytes(&self) -> u64 {
        let server = self
            .server_user_bytes
            .saturating_add(self.server_kernel_bytes);
        let client = self
            .client_user_bytes
            .saturating_add(self.client_kernel_bytes);
        let bytes = match self.role {
            Role::Server => server,
            Role::Loadgen => client,
            Role::Both => server.saturating_add(client),
        };
        bytes.max(1)
    }
}
