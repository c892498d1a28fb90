//! Publishers by HTTP.

use std::net::SocketAddr;

use crate::client::Client;
use crate::normal::Names;

/// Publishes items, one a line; what is answered unless all is well.
pub(crate) fn publish(to: SocketAddr, items: &[String], names: &Names) -> Vec<String> {
    let body = format!("{{\"items\": [{}]}}", items.join(", "));
    let mut client = Client::connect(to, names);
    client.send(
        format!(
            "POST /publish/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .as_bytes(),
    );
    let answer = client.response();
    let is_fine = answer.first().is_some_and(|line| line.contains(" 200 "));
    if is_fine { Vec::new() } else { answer }
}
