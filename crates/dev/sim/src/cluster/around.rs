//! Surroundings of readers and publishers.

use throng_http1::encode_request;

use super::witness::Witness;
use crate::http::Exchange;
use crate::net::Net;
use crate::node::Node;
use crate::setup::{API_KEY, PORT_CLIENT};

/// Everything else in a run, for readers and publishers.
pub(super) struct Around<'a> {
    pub(super) net: &'a Net,
    pub(super) nodes: &'a [Node],
    pub(super) witness: &'a mut Witness,
    pub(super) kernel_bytes: usize,
}

impl Around<'_> {
    /// Asks a node on a connection of its own; with the key, but on the port of clients.
    pub(super) fn ask(
        &self,
        node: usize,
        port: u8,
        method: &str,
        target: &str,
        body: Option<&[u8]>,
    ) -> Exchange {
        let headers = [("X-API-Key", API_KEY)];
        let headers = &headers[usize::from(port == PORT_CLIENT)..];
        let mut request = Vec::new();
        encode_request(method, target, "sim", headers, body, &mut request);
        let kernels = self.nodes[node].kernels();
        let conn = self.net.connect_to(kernels, port, self.kernel_bytes);
        Exchange::begin(self.net, conn, &request)
    }
}
