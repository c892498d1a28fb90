//! Streams of HTTP/2 in the table.

use super::*;

/// A place of a stream on a connection, with the head of an answer that goes on.
fn carried(conns: &mut Conns<u32>, carrier: u32) -> u32 {
    let (mut out, mut block) = (Vec::new(), Vec::new());
    let mut client = throng_http2::Conn::client(&H2Limits::USUAL, &mut out);
    throng_http2::encode_request("GET", "http", "test", "/", None, [], &mut block);
    client.open(0, &block, true, &mut out).unwrap();
    conns.begin_carrier(carrier);
    let (mut input, mut bytes) = (&out[..], Vec::new());
    let stream = loop {
        assert!(!input.is_empty(), "no stream has begun");
        if let StreamNews::Begins(stream) = conns.read_frames(carrier, &mut input, &mut bytes) {
            break stream;
        }
    };
    let index = { conns.insert_stream(carrier, &stream, accepted(None)) }.index();
    conns.act(index, |_, _, fx| fx.out.extend(b"HTTP/1.1 200 \r\n\r\n"));
    conns.write_stream(index, &mut Flushed::default());
    index
}

#[test]
fn what_is_to_gather_waits_for_its_stream() {
    let (mut conns, _peer, id) = alone();
    let stream = carried(&mut conns, id.index());
    let parts = [Frame::new(b"some"), Frame::new(b"more")];
    // Joined bytes are never looked at.
    let delivery = Delivery {
        frames: Pieces::Parts(&parts),
        joined: &[],
        ..delivery(&parts[0], true)
    };
    conns.deliver(stream, &delivery);
    let stream = conns.id(stream).unwrap();
    assert_eq!(conns.queued_bytes(stream), 8);
}
