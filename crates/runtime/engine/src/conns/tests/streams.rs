//! Streams of HTTP/2 in the table.

use super::*;

/// Places of streams on a connection, each with the head of an answer that goes on.
fn carried(conns: &mut Conns<u32>, carrier: u32, count: usize) -> Vec<u32> {
    let limits = H2Limits {
        stream_window: 1 << 20,
        connection_window: 1 << 20,
        ..H2Limits::USUAL
    };
    let (mut out, mut block) = (Vec::new(), Vec::new());
    let mut client = throng_http2::Conn::client(&limits, &mut out);
    throng_http2::encode_request("GET", "http", "test", "/", None, [], &mut block);
    for _ in 0..count {
        client.open(0, &block, true, &mut out).unwrap();
    }
    conns.begin_carrier(carrier, std::net::Ipv4Addr::LOCALHOST.into());
    let (mut input, mut bytes, mut streams) = (&out[..], Vec::new(), Vec::new());
    while !input.is_empty() {
        if let StreamNews::Begins(stream) = conns.read_frames(carrier, &mut input, &mut bytes) {
            let id = conns.insert_stream(carrier, &stream, accepted(None));
            conns.act(id.index(), |_, _, fx| {
                fx.out.extend(b"HTTP/1.1 200 \r\n\r\n")
            });
            conns.write_stream(id.index(), &mut Flushed::default());
            streams.push(id.index());
        }
    }
    streams
}

#[test]
fn what_is_to_gather_waits_for_its_stream() {
    let (mut conns, _peer, id) = alone();
    let [stream] = carried(&mut conns, id.index(), 1)[..] else {
        panic!("one stream was asked for");
    };
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

#[test]
fn streams_wait_for_room_in_turn_and_not_beyond_their_end() {
    let (mut conns, _peer, id) = alone();
    let streams = carried(&mut conns, id.index(), 3);
    let frame = Frame::new(&[b'x'; 16_000]);
    let mut flushed = Flushed::default();
    // More than the connection's queue takes of one.
    for &index in &streams {
        for _ in 0..10 {
            conns.deliver(index, &delivery(&frame, false));
        }
        // One frame may be more than there is room for.
        for _ in 0..2 {
            conns.write_stream(index, &mut flushed);
        }
    }
    let waiting = |conns: &Conns<u32>| {
        let carrier = conns.streams.carriers.peek(id.index());
        Vec::from_iter(carrier.unwrap().waiting.iter().copied())
    };
    assert_eq!(waiting(&conns), streams);
    conns.close(streams[1], Closed::ByPeer);
    assert_eq!(gone(&mut conns).len(), 1);
    assert_eq!(waiting(&conns), [streams[0], streams[2]]);
    // The kernel takes a little: no more than others might fill again.
    let queue = conns.slots.get(id.index()).unwrap().out;
    conns.queues.get_mut(queue).unwrap().sent(20_000);
    conns.wrote(id.index(), true, &mut flushed);
    assert_eq!(waiting(&conns), [0; 0]);
}

#[test]
fn the_limits_say_how_long_a_connection_is_kept_without_streams() {
    for idle_timeout_ms in [500, 90_000] {
        let (mut conns, _peer, id) = alone();
        conns.set_limits(ConnLimits {
            idle_timeout_ms,
            ..ConnLimits::USUAL
        });
        conns.set_now(at(1_000));
        assert!(carried(&mut conns, id.index(), 0).is_empty());
        conns.set_carrier_deadline(id.index());
        let kept_ms = conns.wheel.get(id.index()).unwrap().0 - 1_000;
        // The wheel rounds up.
        let right = idle_timeout_ms..=idle_timeout_ms * 9 / 8;
        assert!(right.contains(&kept_ms), "{kept_ms} for {idle_timeout_ms}");
    }
}

#[test]
fn a_slow_stream_that_was_told_so_ends_whole_and_another_does_not() {
    const WHOLE: (u8, u8) = (0, 1);
    const RESET: u8 = 3;
    for word in [&b"too slow"[..], b""] {
        let (mut conns, mut peer, id) = alone();
        let [stream] = carried(&mut conns, id.index(), 1)[..] else {
            panic!("one stream was asked for");
        };
        conns.end_slow(stream);
        assert_eq!(conns.take_slow(), Some(stream));
        conns.act_slow(stream, |_, _, fx| fx.out.extend(word));
        flush(&mut conns);
        assert_eq!(gone(&mut conns).len(), 1);
        flush(&mut conns);
        let mut wire = vec![0; conns.stats().sent_bytes as usize];
        peer.read_exact(&mut wire).unwrap();
        let (mut rest, mut last) = (&wire[..], (0, 0));
        while let [_, high, low, kind, flags, _, _, _, _, behind @ ..] = rest {
            last = (*kind, *flags);
            rest = &behind[usize::from(*high) << 8 | usize::from(*low)..];
        }
        match word {
            b"" => assert_eq!(last.0, RESET),
            _ => assert_eq!(last, WHOLE),
        }
    }
}
