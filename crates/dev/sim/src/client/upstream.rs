//! Commands of a client whose transport emulates a WebSocket: each frame is a request on a
//! connection of its own, which may come to any shard.
//!
//! Two requests may overtake each other, so the client sends nothing before all that it sent is
//! answered. If a request fails, it is unknown whether it was carried out, and the client leaves.

use serde_json::json;
use throng_http1::{HttpLimits, encode_request, parse_response};

use super::state::{Around, Client, Upstream};
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
        around.net.client_send(conn, &out);
        link.upstream.push(Upstream {
            conn,
            input: Vec::new(),
        });
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
            let status = match net.client_recv(request.conn, usize::MAX) {
                None => Some(0),
                Some(bytes) => {
                    busy |= !bytes.is_empty();
                    request.input.extend(&bytes);
                    let head = parse_response(&request.input, &HttpLimits::default(), false);
                    let head = head.expect("a good response");
                    head.map(|(response, _)| response.status)
                }
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
