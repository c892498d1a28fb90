//! Any bytes as a frame of commands: reading never panics, a frame is never nothing, a fault is the
//! last item, and the data of a command fits a frame of one line again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use throng_centrifuge::{Connect, Request, append_payload, commands, payload_of};

fuzz_target!(|frame: &[u8]| {
    let mut all = commands(frame);
    let mut count = 0;
    for command in all.by_ref() {
        count += 1;
        match command.map(|command| command.request) {
            Ok(Request::Publish { data, .. } | Request::Rpc { data, .. } | Request::Send { data }) => {
                let mut line = Vec::new();
                append_payload(&payload_of(data.get().as_bytes().to_vec()), &mut line);
                assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
            }
            Ok(_) => {}
            Err(_) => break,
        }
    }
    assert_ne!(count, 0);
    assert!(all.next().is_none());
    let _ = Connect::parse(frame);
});
