//! Replies and pushes of a socket, in its form of the protocol, and helpers for several commands.

use throng_broker::Refusal;
use throng_centrifuge::{ErrorCode, Push, Reply, encode_push};
use throng_metrics::Counter;
use throng_types::{ChannelError, ChannelName, Disconnect, Now};

use crate::context::Cx;
use crate::socket::Socket;

impl Socket {
    /// Writes the reply to a command.
    pub(crate) fn reply(&self, command: u32, reply: &Reply<'_>, cx: &mut Cx<'_>) {
        let mode = self.mode();
        mode.frame(cx.out, |out| mode.codec().reply(command, reply, out));
    }

    /// Answers a command with an error.
    pub(crate) fn error(&self, command: u32, code: ErrorCode, cx: &mut Cx<'_>) {
        cx.count(Counter::error(code.code()));
        self.reply(command, &Reply::Error(code), cx);
    }

    /// Writes a push, which answers no command.
    pub(crate) fn push(&self, push: &Push<'_>, cx: &mut Cx<'_>) {
        let mode = self.mode();
        mode.frame(cx.out, |out| match mode.is_bidirectional() {
            true => mode.codec().push(push, out),
            false => encode_push(push, false, out),
        });
    }

    /// The channel that a command names. An empty name ends the connection, as in Centrifugo;
    /// another that is no name is an error.
    pub(crate) fn channel(
        &mut self,
        command: u32,
        name: &str,
        cx: &mut Cx<'_>,
    ) -> Option<ChannelName> {
        match ChannelName::new(name) {
            Ok(channel) => return Some(channel),
            Err(ChannelError::Empty) => self.disconnect(Disconnect::BadRequest, cx),
            Err(_) => self.error(command, ErrorCode::BadRequest, cx),
        }
        None
    }
}

/// Seconds from now to a moment.
pub(crate) fn ttl(at_unix_s: u64, now: Now) -> u32 {
    u32::try_from(at_unix_s.saturating_sub(now.unix_s())).unwrap_or(u32::MAX)
}

/// Maps the hub's refusal to an error code.
pub(crate) const fn code_of(refusal: Refusal) -> ErrorCode {
    match refusal {
        Refusal::Busy => ErrorCode::TooManyRequests,
        // A temporary code: a client that still needs the subscription asks again.
        Refusal::Cancelled
        | Refusal::Unavailable
        | Refusal::Unknown
        | Refusal::NotWritten
        | Refusal::NotOnDisk => ErrorCode::Internal,
        Refusal::UnknownChannel => ErrorCode::UnknownChannel,
        Refusal::AlreadySubscribed => ErrorCode::AlreadySubscribed,
        Refusal::ChannelLimit | Refusal::TooLong => ErrorCode::LimitExceeded,
        Refusal::NotAvailable => ErrorCode::NotAvailable,
        Refusal::UnrecoverablePosition => ErrorCode::UnrecoverablePosition,
    }
}
