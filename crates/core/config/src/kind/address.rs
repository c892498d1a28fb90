//! The kinds whose values are addresses, written as TOML strings.

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
