//! The kinds whose values are addresses, written as TOML strings.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};

use throng_proxy::Block;

use super::text::TextKind;

/// An IP address with a port.
pub(crate) struct Address;

impl TextKind for Address {
    type Field = SocketAddr;
    const NAME: &'static str = "address";

    fn wanted() -> String {
        "an IP address with a port, such as \"127.0.0.1:8000\" or \"[::]:8000\"".to_owned()
    }

    fn of(text: &str) -> Option<SocketAddr> {
        text.trim().parse().ok()
    }

    fn text(value: &SocketAddr) -> String {
        value.to_string()
    }
}

/// An address to listen on, and what is spoken there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenAddress {
    /// The address and port.
    pub address: SocketAddr,
    /// TLS is spoken there.
    pub is_tls: bool,
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        Self {
            address,
            is_tls: false,
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { TLS } else { "" };
        write!(f, "{scheme}{}", self.address)
    }
}

const TLS: &str = "tls://";

/// An address to listen on, in plain text, or by TLS if `tls://` stands before it.
pub(crate) struct Listener;

impl TextKind for Listener {
    type Field = ListenAddress;
    const NAME: &'static str = "address";

    fn wanted() -> String {
        "an IP address with a port, such as \"127.0.0.1:8000\" or \"[::]:8000\", with tls:// \
         before it where TLS is to be spoken"
            .to_owned()
    }

    fn of(text: &str) -> Option<ListenAddress> {
        let text = text.trim();
        let (address, is_tls) = match text.strip_prefix(TLS) {
            Some(address) => (address, true),
            None => (text, false),
        };
        Some(ListenAddress {
            address: address.parse().ok()?,
            is_tls,
        })
    }

    fn text(value: &ListenAddress) -> String {
        value.to_string()
    }
}

/// An IP address, or a block of them.
pub(crate) struct AddressBlock;

impl TextKind for AddressBlock {
    type Field = Block;
    const NAME: &'static str = "block";

    fn wanted() -> String {
        "an IP address or a block of them, such as \"10.0.0.0/8\" or \"2001:db8::/32\"".to_owned()
    }

    fn of(text: &str) -> Option<Block> {
        Block::parse(text.trim())
    }

    fn text(value: &Block) -> String {
        value.to_string()
    }
}

/// An address as `ZeroMQ` and its users write it: `tcp://` is optional, `*` stands for all
/// interfaces.
pub(crate) struct Endpoint;

impl TextKind for Endpoint {
    type Field = SocketAddr;
    const NAME: &'static str = "address";

    fn wanted() -> String {
        "an address such as \"127.0.0.1:5561\", \"tcp://127.0.0.1:5560\" or \"tcp://*:5560\""
            .to_owned()
    }

    fn of(text: &str) -> Option<SocketAddr> {
        let text = text.trim();
        let text = text.strip_prefix("tcp://").unwrap_or(text);
        match text.strip_prefix("*:") {
            Some(port) => Some(SocketAddr::from((
                Ipv4Addr::UNSPECIFIED,
                port.parse().ok()?,
            ))),
            None => text.parse().ok(),
        }
    }

    fn text(value: &SocketAddr) -> String {
        value.to_string()
    }
}
