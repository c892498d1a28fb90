//! Instructions and routes as bytes, for the hand-over to another process.

use throng_types::{Save, Saved, save_choice, save_fields};

use crate::filters::Filters;
use crate::instruct::{HeldReply, KeepAlive, KeepAliveMode, NextLink, ReplyBody};
use crate::item::WsKind;
use crate::routes::{Domain, Protocol, Route};
use crate::stats::SubscriptionMode;
use crate::ws_events::WsKeepAlive;

save_choice!(KeepAliveMode {
    0: Idle,
    1: Interval
});
save_fields!(KeepAlive {
    data,
    timeout_s,
    mode
});
save_fields!(NextLink { uri, timeout_s });
save_fields!(HeldReply {
    code,
    reason,
    headers,
    body
});
save_choice!(WsKind {
    0: Text,
    1: Binary,
    2: Ping,
    3: Pong
});
save_fields!(WsKeepAlive {
    kind,
    content,
    timeout_s,
    is_interval
});
save_choice!(Protocol { 0: Http, 1: Ws });
save_choice!(SubscriptionMode {
    0: Response,
    1: Stream,
    2: WebSocket
});
save_fields!(Route {
    domain,
    protocol,
    is_tls,
    path_prefix,
    id,
    sig_iss,
    sig_key,
    channel_prefix,
    orig_headers,
    as_host,
    path_remove_bytes,
    path_prepend,
    debug,
    auto_cross_origin,
    headers,
    grip,
    log_level,
    to
});

save_choice!(ReplyBody {
    0: AsReceived,
    1: Replaced(body)
});
save_choice!(Domain {
    0: Exact(domain),
    1: Any,
    2: None
});

/// By their names, as backends give them.
impl Save for Filters {
    fn save(&self, out: &mut Vec<u8>) {
        let names: Vec<String> = self.iter().map(|filter| filter.name().to_owned()).collect();
        names.save(out);
    }

    fn load(from: &mut Saved<'_>) -> Option<Self> {
        let names = Vec::<String>::load(from)?;
        let filters = Self::from_names(names.iter().map(String::as_str)).ok()?;
        (!filters.has_unknown()).then_some(filters)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use throng_http1::origin::{Destination, Target, TargetAddress};

    use super::*;
    use crate::headers::Header;

    /// Checks that a value is loaded as it was saved, that nothing shorter is, and that no bytes do
    /// harm.
    #[track_caller]
    fn check<T: Save + PartialEq + std::fmt::Debug>(value: &T) {
        let bytes = value.saved();
        assert_eq!(T::load_whole(&bytes).as_ref(), Some(value));
        for at in 0..bytes.len() {
            assert_eq!(T::load_whole(&bytes[..at]), None, "{at} bytes");
            for wrong in [0, 1, 0x7f, 0xff] {
                let mut bytes = bytes.clone();
                bytes[at] = wrong;
                let _ = T::load_whole(&bytes);
            }
        }
    }

    #[test]
    fn what_is_said_survives() {
        let address = TargetAddress::Origin {
            host: "::1".to_owned(),
            port: 7,
        };
        let route = Route {
            domain: Domain::Exact("a.example".to_owned()),
            protocol: Some(Protocol::Ws),
            log_level: Some(-1),
            headers: vec![Header::new("A", "b")],
            to: Arc::new(Destination {
                targets: vec![Target::new(address), Target::new(TargetAddress::Test)],
                ..Destination::default()
            }),
            ..Route::default()
        };
        check(&route);
        check(&Route {
            domain: Domain::None,
            ..route
        });
        check(&HeldReply {
            code: 200,
            reason: None,
            headers: Vec::new(),
            body: ReplyBody::Replaced(b"x".to_vec()),
        });
        check(&ReplyBody::AsReceived);
        let all = crate::filters::Filter::ALL;
        check(&Filters::from_names(all.map(|filter| filter.name())).expect("as many as may be"));
        check(&WsKeepAlive {
            kind: WsKind::Pong,
            content: b"x".to_vec(),
            timeout_s: 1,
            is_interval: true,
        });
        let keep_alive = KeepAlive {
            data: b"x".to_vec(),
            timeout_s: 1,
            mode: KeepAliveMode::Interval,
        };
        let uri = "/".to_owned();
        check(&(keep_alive, NextLink { uri, timeout_s: 3 }));
        check(&vec![
            SubscriptionMode::Response,
            SubscriptionMode::Stream,
            SubscriptionMode::WebSocket,
        ]);
    }
}
