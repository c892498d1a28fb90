//! Why connections fail or end, by the names that reports use, and how often.

use serde::{Deserialize, Serialize};

macro_rules! reasons {
    (
        $(#[$doc:meta])* $name:ident {
            $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            /// Every reason, in the order of reports.
            pub const ALL: [Self; [$(Self::$variant),*].len()] = [$(Self::$variant),*];

            /// The name in reports and exports.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            pub(super) const fn index(self) -> usize { self as usize }
        }
    };
}

reasons! {
    /// Why a connection never became usable.
    ConnectFailure {
        /// No free source port for this source and target.
        AddressNotAvailable = "address_not_available",
        /// The planned source port is taken.
        AddressInUse = "address_in_use",
        /// This process may not open more descriptors.
        ProcessDescriptors = "process_descriptors",
        /// The system may not open more descriptors.
        SystemDescriptors = "system_descriptors",
        /// The kernel has no memory for another socket.
        KernelMemory = "kernel_memory",
        /// Nobody listens.
        Refused = "refused",
        /// No route, or the network is down.
        Unreachable = "unreachable",
        /// No answer in time.
        ConnectTimeout = "connect_timeout",
        /// Reset before the handshake was over.
        Reset = "reset",
        /// Closed before the handshake was over.
        ClosedEarly = "closed_early",
        /// The TLS handshake failed.
        Tls = "tls",
        /// Connected, and no answer to the handshake in time.
        HandshakeTimeout = "handshake_timeout",
        /// The answer is not HTTP, or its head is broken.
        BadResponse = "bad_response",
        /// A status other than 101 or 200.
        Status = "status",
        /// 101 with a wrong or missing `Sec-WebSocket-Accept`.
        Accept = "accept",
        /// 200 with another content type than was asked for.
        ContentType = "content_type",
        /// The server refused the subscription.
        SubscribeRefused = "subscribe_refused",
        /// No acknowledgement of the subscription in time.
        SubscribeTimeout = "subscribe_timeout",
        /// Anything else.
        Other = "other",
    }
}

reasons! {
    /// Why a connection that had been usable ended without being asked to.
    LostReason {
        /// The server closed with a close frame, or ended its stream properly.
        ClosedByServer = "closed_by_server",
        /// The connection ended with no farewell.
        Eof = "eof",
        /// The connection was reset.
        Reset = "reset",
        /// The kernel gave up on it (keep-alive, retransmissions).
        TimedOut = "timed_out",
        /// No ping or message for too long.
        Silent = "silent",
        /// The server broke its protocol.
        Protocol = "protocol",
        /// A write failed.
        WriteFailed = "write_failed",
        /// The machine that held it has gone.
        AgentLost = "agent_lost",
    }
}

impl ConnectFailure {
    /// Translates a connect error of the kernel (a Linux errno).
    #[must_use]
    pub const fn from_errno(errno: i32) -> Self {
        match errno {
            99 => Self::AddressNotAvailable,
            98 => Self::AddressInUse,
            24 => Self::ProcessDescriptors,
            23 => Self::SystemDescriptors,
            12 | 105 => Self::KernelMemory,
            111 => Self::Refused,
            100 | 101 | 113 => Self::Unreachable,
            110 => Self::ConnectTimeout,
            104 => Self::Reset,
            _ => Self::Other,
        }
    }

    /// The limit that is behind it, by its kernel's name, and what it means; none where no limit
    /// is.
    #[must_use]
    pub const fn limit(self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            Self::AddressNotAvailable => (
                "ip_local_port_range",
                "no free source port for this source address and target: add source addresses \
                 (--source) or ports of the server",
            ),
            Self::AddressInUse => (
                "ip_local_reserved_ports",
                "planned source ports are taken by other sockets or by connections in TIME_WAIT \
                 of an earlier run",
            ),
            Self::ProcessDescriptors => (
                "nofile",
                "the generator's own limit on open descriptors is reached (ulimit -n, LimitNOFILE)",
            ),
            Self::SystemDescriptors => (
                "file-max",
                "the system's limit on open files is reached (fs.file-max)",
            ),
            Self::KernelMemory => (
                "tcp_mem",
                "the kernel has no memory for more sockets (net.ipv4.tcp_mem, memory, cgroup)",
            ),
            Self::ConnectTimeout => (
                "somaxconn",
                "connects go unanswered: the server's accept queue (somaxconn, \
                 tcp_max_syn_backlog) or connection tracking (nf_conntrack_max) is full",
            ),
            _ => return None,
        })
    }
}

/// Counts by the place of a reason in its list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reasons<T> {
    counts: [u64; 24],
    reason: std::marker::PhantomData<T>,
}

const _: () = assert!(ConnectFailure::ALL.len() <= 24 && LostReason::ALL.len() <= 24);

impl<T> Default for Reasons<T> {
    fn default() -> Self {
        Self {
            counts: [0; 24],
            reason: std::marker::PhantomData,
        }
    }
}

impl<T: Copy> Reasons<T> {
    pub(super) fn add(&mut self, index: usize, count: u64) {
        if let Some(slot) = self.counts.get_mut(index) {
            *slot += count;
        }
    }

    pub(super) fn sum(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (slot, count) in self.counts.iter_mut().zip(other.counts) {
            *slot += count;
        }
    }

    pub(super) fn happened(&self, all: &[T]) -> Vec<(T, u64)> {
        let mut happened: Vec<_> = all
            .iter()
            .copied()
            .zip(self.counts)
            .filter(|(_, count)| *count > 0)
            .collect();
        happened.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        happened
    }
}

/// Reasons as an object of names, so that a file outlives the order of the list.
pub(super) mod by_name {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{ConnectFailure, LostReason, Reasons};

    pub(in super::super) trait Named: Copy + 'static {
        const LIST: &'static [Self];
        fn name(self) -> &'static str;
    }

    impl Named for ConnectFailure {
        const LIST: &'static [Self] = &Self::ALL;
        fn name(self) -> &'static str {
            self.as_str()
        }
    }

    impl Named for LostReason {
        const LIST: &'static [Self] = &Self::ALL;
        fn name(self) -> &'static str {
            self.as_str()
        }
    }

    pub(in super::super) fn serialize<T: Named, S: Serializer>(
        reasons: &Reasons<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let map: BTreeMap<&str, u64> = reasons
            .happened(T::LIST)
            .into_iter()
            .map(|(reason, count)| (reason.name(), count))
            .collect();
        map.serialize(serializer)
    }

    pub(in super::super) fn deserialize<'de, T: Named, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Reasons<T>, D::Error> {
        let map = BTreeMap::<String, u64>::deserialize(deserializer)?;
        let mut reasons = Reasons::default();
        for (name, count) in map {
            let Some(index) = T::LIST.iter().position(|reason| reason.name() == name) else {
                return Err(serde::de::Error::custom(format_args!(
                    "unknown reason `{name}`"
                )));
            };
            reasons.add(index, count);
        }
        Ok(reasons)
    }
}
