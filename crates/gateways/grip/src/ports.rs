//! GRIP's own ports, for publishers and for metrics.

/// What a port of GRIP's own takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// `POST /publish/`.
    Http,
    /// A ZeroMQ socket.
    Zmq(Socket),
    /// Statistics by ZeroMQ.
    Stats,
    /// Pushpin's metrics.
    Metrics,
}

/// Which socket a publisher connects to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Socket {
    /// Takes items.
    Pull,
    /// Asks for the items of channels that have subscribers, and takes them.
    Sub,
    /// Takes commands.
    Rep,
}
