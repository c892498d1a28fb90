//! GRIP's own ports, for publishers and for metrics.

/// Protocol of one of GRIP's own ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// Publishing by HTTP, at `POST /publish/`.
    Http,
    /// Publishing or commands by ZeroMQ.
    Zmq(Socket),
    /// Statistics for readers by ZeroMQ.
    Stats,
    /// Pushpin's metrics by HTTP.
    Metrics,
}

/// Which socket a publisher connects to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Socket {
    /// PULL socket, which takes items.
    Pull,
    /// Asks for the items of channels that have subscribers, and takes them.
    Sub,
    /// REP socket, which takes commands.
    Rep,
}
