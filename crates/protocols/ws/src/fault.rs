//! What a peer can do wrong on an open connection, and the close code that answers it.

use std::fmt;

/// Why a connection must be failed (RFC 6455 section 7.1.7).
///
/// Every fault is the peer's; [`Fault::MessageTooBig`] alone depends on our limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// RSV1, RSV2 or RSV3 is set although no extension was agreed on (section 5.2).
    ReservedBits,
    /// Opcodes 0x3 to 0x7 and 0xB to 0xF are reserved (section 5.2).
    UnknownOpcode,
    /// A client sent a frame without a mask (section 5.1).
    MaskMissing,
    /// A server sent a frame with a mask (section 5.1).
    MaskForbidden,
    /// The length is written in more bytes than it needs (section 5.2).
    LengthNotMinimal,
    /// The top bit of a 64-bit length is set (section 5.2).
    LengthTopBit,
    /// A control frame is not final (section 5.5).
    ControlFragmented,
    /// A control frame declares more than 125 bytes (section 5.5).
    ControlTooLong,
    /// A continuation, and there is nothing to continue (section 5.4).
    ContinuationUnexpected,
    /// A new message although the last one has not ended (section 5.4).
    ContinuationExpected,
    /// A close frame with half a code: one byte of payload (section 5.5.1).
    CloseCodeTruncated,
    /// A close code that must not be sent (section 7.4).
    CloseCodeInvalid,
    /// A close reason that is not UTF-8 (section 5.5.1).
    CloseReasonNotUtf8,
    /// A text message that is not UTF-8 (section 8.1).
    TextNotUtf8,
    /// A message that declares more bytes, over all its fragments, than the limit, or that is
    /// longer once it is inflated.
    MessageTooBig,
    /// A compressed message whose bytes are not DEFLATE (RFC 7692 section 7.2.2).
    NotDeflate,
}

impl Fault {
    /// Every fault, for tables and tests.
    pub const ALL: [Self; 16] = [
        Self::ReservedBits,
        Self::UnknownOpcode,
        Self::MaskMissing,
        Self::MaskForbidden,
        Self::LengthNotMinimal,
        Self::LengthTopBit,
        Self::ControlFragmented,
        Self::ControlTooLong,
        Self::ContinuationUnexpected,
        Self::ContinuationExpected,
        Self::CloseCodeTruncated,
        Self::CloseCodeInvalid,
        Self::CloseReasonNotUtf8,
        Self::TextNotUtf8,
        Self::MessageTooBig,
        Self::NotDeflate,
    ];

    /// The code for our close frame (section 7.4.1): 1002, 1007 or 1009.
    #[must_use]
    pub const fn close_code(self) -> u16 {
        match self {
            Self::CloseReasonNotUtf8 | Self::TextNotUtf8 | Self::NotDeflate => 1007,
            Self::MessageTooBig => 1009,
            _ => 1002,
        }
    }

    /// A sentence for our close frame and the log; it fits a close frame.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::ReservedBits => "a reserved bit is set without an extension",
            Self::UnknownOpcode => "the opcode is reserved",
            Self::MaskMissing => "a client's frame must be masked",
            Self::MaskForbidden => "a server's frame must not be masked",
            Self::LengthNotMinimal => "the length takes more bytes than it needs",
            Self::LengthTopBit => "the top bit of the length is set",
            Self::ControlFragmented => "a control frame must not be fragmented",
            Self::ControlTooLong => "a control frame holds at most 125 bytes",
            Self::ContinuationUnexpected => "there is no message to continue",
            Self::ContinuationExpected => "the last message has not ended",
            Self::CloseCodeTruncated => "a close code takes two bytes",
            Self::CloseCodeInvalid => "this close code must not be sent",
            Self::CloseReasonNotUtf8 => "the close reason is not UTF-8",
            Self::TextNotUtf8 => "the text is not UTF-8",
            Self::MessageTooBig => "the message is too big",
            Self::NotDeflate => "the compressed message cannot be inflated",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CLOSE_REASON_BYTES_MAX, close_code_valid};

    #[test]
    fn every_fault_can_be_sent() {
        for fault in Fault::ALL {
            assert!(close_code_valid(fault.close_code()), "{fault:?}");
            assert!(fault.reason().len() <= CLOSE_REASON_BYTES_MAX, "{fault:?}");
        }
    }
}
