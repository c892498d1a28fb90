//! Codes with which a connection ends, or a frame is refused.

use throng_types::coded_enum;

coded_enum! {
    /// Reason for ending a connection, or for refusing a frame. pusher-js decides by the code of
    /// the close when it connects again: 4100 to 4199 after a second, 4200 to 4299 at once, others
    /// from 4000 on never.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum CloseCode {
        /// Code of the event `pusher:error`, and of a close that follows it.
        fn code -> u16;
        /// Sentence for both of them.
        fn reason;
        NoApp = 4001, "there is no app with this key";
        Disabled = 4003, "the app is disabled";
        OverQuota = 4004, "the app has as many connections as it may have";
        /// `protocol` is not a number.
        BadVersion = 4006, "the protocol's version is not a number";
        OldVersion = 4007, "this version of the protocol is not spoken here; use 5 to 7";
        Unauthorized = 4009, "unauthorized";
        /// A drain, a queue that is full, or a gap.
        OverCapacity = 4100, "over capacity";
        /// Answers a frame that cannot be read; the connection stays.
        Reconnect = 4200, "reconnect at once";
        NoPong = 4201, "no answer to a ping";
        /// Refuses one event or membership; the connection stays.
        ClientEvent = 4301, "the client event was refused";
    }
}
