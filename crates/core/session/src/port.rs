//! The ports that connections come in by.

use throng_types::{Save, Saved};

/// The port that a connection came in by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// Port for clients' connections.
    Client,
    /// Port of the server API.
    Api,
    /// One of a gateway's own, by the gateway's place in the list and its own number.
    Own {
        /// Place of the gateway in the list.
        gateway: u8,
        /// Which of its ports.
        port: u8,
    },
}

impl Save for Port {
    fn save(&self, out: &mut Vec<u8>) {
        match self {
            Self::Client => out.push(0),
            Self::Api => out.push(1),
            Self::Own { gateway, port } => [2, *gateway, *port].save(out),
        }
    }

    fn load(from: &mut Saved<'_>) -> Option<Self> {
        Some(match u8::load(from)? {
            0 => Self::Client,
            1 => Self::Api,
            2 => Self::Own {
                gateway: Save::load(from)?,
                port: Save::load(from)?,
            },
            _ => return None,
        })
    }
}
