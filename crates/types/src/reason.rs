//! Reasons for which the server ends a subscription or a connection.
//!
//! The numbers are Centrifugo's (client protocol v2, page "Codes"), because its SDKs
//! decide by them whether to come back; other protocols translate from here.

/// Declares an enum as a table: each variant with its number, if it has one, and its text.
///
/// The functions that the table begins with return them; `ALL` has every variant in its order.
#[macro_export]
macro_rules! coded_enum {
    ($(#[$meta:meta])* $vis:vis enum $Name:ident {
        $(#[$number_meta:meta])* fn $number:ident -> $Number:ty;
        $(#[$text_meta:meta])* fn $text:ident;
        $($(#[$doc:meta])* $Variant:ident = $code:expr, $words:expr;)+
    }) => {
        $crate::coded_enum! {
            $(#[$meta])* $vis enum $Name {
                $(#[$text_meta])* fn $text;
                $($(#[$doc])* $Variant = $words;)+
            }
        }

        impl $Name {
            $(#[$number_meta])*
            #[must_use]
            pub const fn $number(self) -> $Number {
                match self { $(Self::$Variant => $code),+ }
            }
        }
    };
    ($(#[$meta:meta])* $vis:vis enum $Name:ident {
        $(#[$text_meta:meta])* fn $text:ident;
        $($(#[$doc:meta])* $Variant:ident = $words:expr;)+
    }) => {
        $(#[$meta])*
        $vis enum $Name { $($(#[$doc])* $Variant),+ }

        impl $Name {
            /// Every variant, in the order of the table.
            pub const ALL: [Self; [$(stringify!($Variant)),+].len()] = [$(Self::$Variant),+];

            $(#[$text_meta])*
            #[must_use]
            pub const fn $text(self) -> &'static str {
                match self { $(Self::$Variant => $words),+ }
            }
        }
    };
}

/// Makes errors of types whose text a function returns: `error_text!(BadBody.reason)`, or
/// `error_text!(ErrorCode.message[code])` for one behind its number.
#[macro_export]
macro_rules! error_text {
    ($($Name:ident . $text:ident $([$number:ident])?),+ $(,)?) => {$(
        impl std::fmt::Display for $Name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $(write!(f, "{}: ", self.$number())?;)?
                f.write_str(self.$text())
            }
        }

        impl std::error::Error for $Name {}
    )+};
}

coded_enum! {
    /// Reason for which a connection is ended.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Disconnect {
        /// Code on the wire, also used as the WebSocket close code. 3000 to 3499 mean "come back",
        /// 3500 to 3999 "stay away".
        fn code -> u16;
        /// Text beside the code, fit for a WebSocket close reason (RFC 6455 section 5.5.1).
        fn reason;
        /// Closed in the normal course of things.
        Closed = 3000, "connection closed";
        /// The server is going away: come back, elsewhere or later.
        Shutdown = 3001, "shutdown";
        /// A fault of ours.
        ServerError = 3004, "internal server error";
        Expired = 3005, "connection expired";
        SubscriptionExpired = 3006, "subscription expired";
        /// The outbound queue reached its bound.
        Slow = 3008, "slow";
        WriteError = 3009, "write error";
        /// A gap was found that only a new connection can mend.
        InsufficientState = 3010, "insufficient state";
        /// An operator asked for it, and the client should come back.
        ForceReconnect = 3011, "force reconnect";
        NoPong = 3012, "no pong";
        /// Too many commands in too little time.
        TooManyRequests = 3013, "too many requests";
        InvalidToken = 3500, "invalid token";
        /// The client broke the protocol.
        BadRequest = 3501, "bad request";
        /// The client opened a connection and never sent credentials.
        Stale = 3502, "stale";
        /// An operator asked for it, and the client should stay away.
        ForceNoReconnect = 3503, "force disconnect";
        ConnectionLimit = 3504, "connection limit";
        ChannelLimit = 3505, "channel limit";
        /// A binary frame reached a text protocol.
        InappropriateProtocol = 3506, "inappropriate protocol";
        PermissionDenied = 3507, "permission denied";
        NotAvailable = 3508, "not available";
        TooManyErrors = 3509, "too many errors";
    }
}

impl Disconnect {
    /// Tells whether the client should come back by itself.
    #[must_use]
    pub const fn reconnect(self) -> bool {
        self.code() < 3500
    }
}

coded_enum! {
    /// Reason for which one subscription is ended and the connection left alone.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Unsubscribe {
        /// Code on the wire; from 2500 on the client subscribes again.
        fn code -> u16;
        fn reason;
        /// An operator asked for it: do not come back.
        Server = 2000, "server unsubscribe";
        /// Deliveries were lost: subscribe again and recover.
        InsufficientState = 2500, "insufficient state";
        Expired = 2501, "subscription expired";
    }
}
