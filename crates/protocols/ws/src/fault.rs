//! Faults of a peer on an open connection, each with the close code that answers it.

use throng_types::{coded_enum, error_text};

coded_enum! {
    /// Reason for failing a connection (RFC 6455 section 7.1.7).
    ///
    /// Every fault is the peer's; [`WsError::MessageTooBig`] alone depends on our limits.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum WsError {
        /// Code for our close frame (section 7.4.1): 1002, 1007 or 1009.
        fn close_code -> u16;
        /// Sentence for our close frame and the log; it fits a close frame.
        fn reason;
        /// RSV1, RSV2 or RSV3 is set although no extension was agreed on (section 5.2).
        ReservedBits = 1002, "a reserved bit is set without an extension";
        /// Opcodes 0x3 to 0x7 and 0xB to 0xF are reserved (section 5.2).
        UnknownOpcode = 1002, "the opcode is reserved";
        /// A client sent a frame without a mask (section 5.1).
        MaskMissing = 1002, "a client's frame must be masked";
        /// A server sent a frame with a mask (section 5.1).
        MaskForbidden = 1002, "a server's frame must not be masked";
        /// The length is written in more bytes than it needs (section 5.2).
        LengthNotMinimal = 1002, "the length takes more bytes than it needs";
        /// The top bit of a 64-bit length is set (section 5.2).
        LengthTopBit = 1002, "the top bit of the length is set";
        /// A control frame is not final (section 5.5).
        ControlFragmented = 1002, "a control frame must not be fragmented";
        /// A control frame declares more than 125 bytes (section 5.5).
        ControlTooLong = 1002, "a control frame holds at most 125 bytes";
        /// A continuation, and there is nothing to continue (section 5.4).
        ContinuationUnexpected = 1002, "there is no message to continue";
        /// A new message although the last one has not ended (section 5.4).
        ContinuationExpected = 1002, "the last message has not ended";
        /// A close frame with half a code: one byte of payload (section 5.5.1).
        CloseCodeTruncated = 1002, "a close code takes two bytes";
        /// A close code that must not be sent (section 7.4).
        CloseCodeInvalid = 1002, "this close code must not be sent";
        /// A close reason that is not UTF-8 (section 5.5.1).
        CloseReasonNotUtf8 = 1007, "the close reason is not UTF-8";
        /// A text message that is not UTF-8 (section 8.1).
        TextNotUtf8 = 1007, "the text is not UTF-8";
        /// A message that declares more bytes, over all its fragments, than the limit,
        /// or that is longer once it is inflated.
        MessageTooBig = 1009, "the message is too big";
        /// A compressed message whose bytes are not DEFLATE (RFC 7692 section 7.2.2).
        NotDeflate = 1007, "the compressed message cannot be inflated";
    }
}

error_text!(WsError.reason);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CLOSE_REASON_BYTES_MAX, close_code_valid};

    #[test]
    fn every_fault_can_be_sent() {
        for fault in WsError::ALL {
            assert!(close_code_valid(fault.close_code()), "{fault:?}");
            assert!(fault.reason().len() <= CLOSE_REASON_BYTES_MAX, "{fault:?}");
        }
    }
}
