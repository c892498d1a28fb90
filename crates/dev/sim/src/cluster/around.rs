//! Surroundings of readers and publishers.

use super::node::Node;
use super::witness::Witness;
use crate::net::Net;

/// Everything else in a run, for readers and publishers.
pub(super) struct Around<'a> {
    pub(super) net: &'a Net,
    pub(super) nodes: &'a [Node],
    pub(super) witness: &'a mut Witness,
    pub(super) kernel_bytes: usize,
}

impl Around<'_> {
    /// Connects to a node.
    pub(super) fn connect(&self, node: usize, port: u8) -> usize {
        let kernels = self.nodes[node].kernels();
        self.net.connect_to(kernels, port, self.kernel_bytes)
    }
}
