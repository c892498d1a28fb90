//! Statistics as Pushpin's PUB socket sends them: the kinds of packets, and their two codings.
//!
//! A packet is one message: its kind, a space, `T` or `J`, and an object as a tnetstring or as
//! JSON. Owns: which fields a kind has. Never: counts anything.
//!
//! Source: Pushpin 1.41, `src/core/packet/statspacket.cpp` and `statsmanager.cpp`.

use std::net::IpAddr;

use throng_types::{Save, coded_enum};

use crate::tnet;
use crate::value::{NewObject, Value};

/// Coding of the packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatsFormat {
    /// `T` and a tnetstring.
    #[default]
    Tnetstring,
    /// `J` and a JSON object.
    Json,
}

coded_enum! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Save)]
    pub enum SubscriptionMode {
        /// Form of items for it, as `message` packets name it.
        fn transport -> &'static str;
        /// Name in `sub` packets.
        fn name;
        /// Long poll, answered by one item.
        Response = "http-response", "response";
        /// HTTP stream without an end.
        Stream = "http-stream", "stream";
        /// WebSocket, proxied or over HTTP.
        WebSocket = "ws-message", "ws";
    }
}

/// One packet. Times to live are in seconds: after so long without another packet the fact is to be
/// forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatsPacket<'a> {
    /// Requests and signs of life on a route since the last such packet.
    Activity {
        /// Requests and signs of life.
        count: u64,
    },
    /// Requests on all routes since the last such packet.
    Counts { requests: u64 },
    /// A connection is there, for the first time or still.
    Connected {
        id: &'a str,
        is_websocket: bool,
        /// Address of its client.
        peer: IpAddr,
        /// True if its client came by TLS.
        is_tls: bool,
        /// Until it is to be forgotten.
        ttl_s: u64,
    },
    /// A connection has gone.
    Disconnected { id: &'a str },
    /// A channel has subscribers, for the first time or still.
    Subscribed {
        mode: SubscriptionMode,
        channel: &'a str,
        /// Until they are to be forgotten.
        ttl_s: u64,
        subscribers: u64,
    },
    /// A channel has no subscriber any more.
    Unsubscribed {
        mode: SubscriptionMode,
        channel: &'a str,
    },
    /// An item went to subscribers.
    Message {
        channel: &'a str,
        item_id: Option<&'a str>,
        count: u64,
        /// Transport whose form was sent.
        mode: SubscriptionMode,
    },
    /// Sums of a route since the last report.
    Report(RouteStats),
}

/// Sums of a route over a while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteStats {
    /// The most connections at once.
    pub connections: u64,
    /// Minutes of connections that began.
    pub minutes: u64,
    /// Items from publishers; of no route in particular.
    pub received: u64,
    /// Items to subscribers, once for each.
    pub sent: u64,
    /// Those of `sent` that answered long polls.
    pub responses_sent: u64,
    /// Length of the while.
    pub duration_ms: u64,
}

impl StatsPacket<'_> {
    const fn kind(&self) -> &'static str {
        match self {
            Self::Activity { .. } => "activity",
            Self::Counts { .. } => "counts",
            Self::Connected { .. } | Self::Disconnected { .. } => "conn",
            Self::Subscribed { .. } | Self::Unsubscribed { .. } => "sub",
            Self::Message { .. } => "message",
            Self::Report(_) => "report",
        }
    }

    /// Encodes the packet of a server with a name; the route is empty for all that have no id.
    #[must_use]
    pub fn encode(&self, from: &str, route: &str, format: StatsFormat) -> Vec<u8> {
        let route = Some(route).filter(|route| !route.is_empty());
        let object = NewObject::default().with("from", from);
        let object = Value::from(self.fields(object.with_some("route", route)));
        let mut out = self.kind().as_bytes().to_vec();
        match format {
            StatsFormat::Tnetstring => {
                out.extend_from_slice(b" T");
                tnet::encode(&object, &mut out);
            }
            StatsFormat::Json => {
                out.extend_from_slice(b" J");
                out.extend_from_slice(object.into_json().to_string().as_bytes());
            }
        }
        out
    }

    fn fields(&self, object: NewObject) -> NewObject {
        match self {
            Self::Activity { count } => object.with("count", *count),
            Self::Counts { requests } => object.with("requests-received", *requests),
            Self::Connected {
                id,
                is_websocket,
                is_tls,
                ttl_s,
                peer,
            } => object
                .with("id", *id)
                .with("type", if *is_websocket { "ws" } else { "http" })
                .with("peer-address", &*peer.to_string())
                .with_some("ssl", is_tls.then_some(true))
                .with("ttl", *ttl_s),
            Self::Disconnected { id } => object.with("id", *id).with("unavailable", true),
            Self::Subscribed {
                mode,
                channel,
                ttl_s,
                subscribers,
            } => object
                .with("mode", mode.name())
                .with("channel", *channel)
                .with("ttl", *ttl_s)
                .with("subscribers", *subscribers),
            Self::Unsubscribed { mode, channel } => object
                .with("mode", mode.name())
                .with("channel", *channel)
                .with("unavailable", true),
            Self::Message {
                channel,
                item_id,
                count,
                mode,
            } => object
                .with("channel", *channel)
                .with_some("item-id", *item_id)
                .with("count", *count)
                .with("transport", mode.transport()),
            Self::Report(report) => object
                .with("connections", report.connections)
                .with("minutes", report.minutes)
                .with("received", report.received)
                .with("sent", report.sent)
                .with("http-response-sent", report.responses_sent)
                .with("duration", report.duration_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(packet: &StatsPacket<'_>, route: &str, expected: &str) {
        let found = packet.encode("me", route, StatsFormat::Tnetstring);
        assert_eq!(String::from_utf8_lossy(&found), expected);
        // The same fields in the other coding.
        let found = String::from_utf8(packet.encode("me", route, StatsFormat::Json)).unwrap();
        let (kind, object) = found.split_once(" J").unwrap();
        let object: serde_json::Value = serde_json::from_str(object).unwrap();
        let (same_kind, wire) = expected.split_once(" T").unwrap();
        assert_eq!(kind, same_kind);
        let (Value::Object(fields), _) = tnet::decode(wire.as_bytes()).unwrap() else {
            panic!("an object: {wire}");
        };
        assert_eq!(object.as_object().unwrap().len(), fields.len());
        for (name, value) in fields {
            let same = match value {
                Value::Bytes(text) => String::from_utf8(text).unwrap().into(),
                Value::Int(number) => number.into(),
                Value::Bool(is) => serde_json::Value::Bool(is),
                other => panic!("{name}: {other:?}"),
            };
            assert_eq!(object[&name], same, "{name}");
        }
    }

    #[test]
    fn every_kind_in_both_codings() {
        let peer = IpAddr::from([192, 0, 2, 1]);
        check(
            &StatsPacket::Activity { count: 3 },
            "",
            "activity T24:4:from,2:me,5:count,1:3#}",
        );
        check(
            &StatsPacket::Counts { requests: 2 },
            "",
            "counts T37:4:from,2:me,17:requests-received,1:2#}",
        );
        check(
            &StatsPacket::Connected {
                id: "a",
                is_websocket: true,
                peer,
                is_tls: true,
                ttl_s: 120,
            },
            "r",
            "conn T98:4:from,2:me,5:route,1:r,2:id,1:a,4:type,2:ws,12:peer-address,9:192.0.2.1,\
             3:ssl,4:true!3:ttl,3:120#}",
        );
        check(
            &StatsPacket::Connected {
                id: "a",
                is_websocket: false,
                peer,
                is_tls: false,
                ttl_s: 1,
            },
            "",
            "conn T73:4:from,2:me,2:id,1:a,4:type,4:http,12:peer-address,9:192.0.2.1,3:ttl,1:1#}",
        );
        check(
            &StatsPacket::Disconnected { id: "a" },
            "",
            "conn T43:4:from,2:me,2:id,1:a,11:unavailable,4:true!}",
        );
        check(
            &StatsPacket::Subscribed {
                mode: SubscriptionMode::Stream,
                channel: "c",
                ttl_s: 60,
                subscribers: 7,
            },
            "",
            "sub T72:4:from,2:me,4:mode,6:stream,7:channel,1:c,3:ttl,2:60#11:subscribers,1:7#}",
        );
        check(
            &StatsPacket::Unsubscribed {
                mode: SubscriptionMode::WebSocket,
                channel: "c",
            },
            "",
            "sub T60:4:from,2:me,4:mode,2:ws,7:channel,1:c,11:unavailable,4:true!}",
        );
        check(
            &StatsPacket::Message {
                channel: "c",
                item_id: Some("9"),
                count: 4,
                mode: SubscriptionMode::Response,
            },
            "",
            "message T81:4:from,2:me,7:channel,1:c,7:item-id,1:9,5:count,1:4#9:transport,\
             13:http-response,}",
        );
        check(
            &StatsPacket::Report(RouteStats {
                connections: 1,
                minutes: 2,
                received: 3,
                sent: 4,
                responses_sent: 5,
                duration_ms: 6,
            }),
            "",
            "report T112:4:from,2:me,11:connections,1:1#7:minutes,1:2#8:received,1:3#4:sent,1:4#\
             18:http-response-sent,1:5#8:duration,1:6#}",
        );
    }
}
