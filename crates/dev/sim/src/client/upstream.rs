//! Commands of a client whose transport emulates a WebSocket: each frame is a request on a
//! connection of its own, which may come to any shard.
//!
//! Two requests may overtake each other, so the client sends nothing before all that it sent is
//! answered. If a request fails, it is unknown whether it was carried out, and the client leaves.

use serde_json::json;
use throng_http1::encode_request;

use super::state::{Around, Client};
use crate::http::{Exchange, Progress};
use crate::setup::PORT_CLIENT;

impl Client {
    /// Sends commands, a line each, by a request of their own.
    pub(super) fn say_upstream(&mut self, lines: &str, around: &Around<'_>) {
        let Some(link) = self.link.as_mut().filter(|link| !link.shut) else {
            return;
        };
        let (session, node) = (&link.session, &link.node);
        let body = json!({ "session": session, "node": node, "data": lines }).to_string();
        let conn = around.net.connect(PORT_CLIENT, around.setup.kernel_bytes);
        let mut out = Vec::new();
        let headers = [("Connection", "close")];
        let body = Some(body.as_bytes());
        encode_request("POST", "/emulation", "sim", &headers, body, &mut out);
        link.upstream.push(Exchange::begin(around.net, conn, &out));
    }

    /// Reads answers. True if anything happened.
    pub(super) fn read_upstream(&mut self, around: &mut Around<'_>) -> bool {
        let Some(link) = self.link.as_mut() else {
            return false;
        };
        let net = around.net;
        let (mut busy, mut failed) = (false, false);
        link.upstream.retain_mut(|request| {
            net.arrive(request.conn, usize::MAX);
            let status = match request.read(net, usize::MAX) {
                Progress::Cut => Some(0),
                Progress::Open | Progress::Whole => request.status(),
            };
            if let Some(status) = status {
                busy = true;
                net.client_leaves(request.conn, false);
                match status {
                    204 => net.count("a request with commands is taken"),
                    _ => failed = true,
                }
            }
            status.is_none()
        });
        if failed {
            self.leave(around);
        }
        busy
    }
}
