//! Codes with which a connection ends, or with which a frame is refused.

use throng_types::coded_enum;

coded_enum! {
    /// Reason for which a connection ends. pusher-js decides by the hundreds: 4000 to 4099 never
    /// again, 4100 to 4199 after a second, 4200 to 4299 at once, above never again.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum CloseCode {
        /// Code of the WebSocket close, and of the event `pusher:error` before it.
        fn code -> u16;
        fn reason;
        NoApp = 4001, "there is no app with this key";
        Disabled = 4003, "the app is disabled";
        OverQuota = 4004, "the app has as many connections as it may have";
        /// `protocol` is not a number.
        BadVersion = 4006, "the protocol's version is not a number";
        OldVersion = 4007, "this version of the protocol is not spoken here; use 5 to 7";
        Unauthorized = 4009, "unauthorized";
        /// Clients come back after a second; a drain tells them a few at a time.
        OverCapacity = 4100, "over capacity";
        Reconnect = 4200, "reconnect at once";
        NoPong = 4201, "no answer to a ping";
        ClientEvent = 4301, "the client event was refused";
    }
}
