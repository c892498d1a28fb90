//! Any bytes as a frame of commands: reading never panics, a frame is never nothing, a fault is the
//! last item, and the data of a command fits a frame of one line again.

use throng_centrifuge::{ClientRequest, Codec, Commands, Connect};
use throng_types::json::append_payload;

pub(crate) const SEEDS: &[&[u8]] = &[
    b"{\"id\":1,\"connect\":{\"token\":\"t\",\"subs\":{\"a\":{\"recover\":true,\
      \"epoch\":\"x\",\"offset\":3}}}}\n{\"id\":2,\"subscribe\":{\"channel\":\"a\"}}\n",
    b"{\"id\":3,\"publish\":{\"channel\":\"a\",\"data\":{\"k\": [1, \"\\n\"]}}}\n{}\n\
      {\"id\":4,\"history\":{\"channel\":\"a\",\"limit\":5,\"since\":{\"offset\":1,\
      \"epoch\":\"e\"}}}",
    b"{\"id\":5,\"rpc\":{\"method\":\"m\",\"data\":1}}\n{\"send\":{\"data\":null}}\n\
      {\"id\":6,\"presence\":{\"channel\":\"a\"}}",
];

/// Runs one input of this target; panics if the target finds a fault.
pub fn centrifuge_commands(input: &[u8]) {
    read(Codec::Json.commands(input));
    let _ = Connect::parse(input);
}

/// Reads a frame in either form.
pub(crate) fn read(mut all: Commands<'_>) {
    let mut count = 0;
    for command in all.by_ref() {
        count += 1;
        match command.map(|command| command.request) {
            Ok(
                ClientRequest::Publish { data, .. }
                | ClientRequest::Rpc { data, .. }
                | ClientRequest::Send { data },
            ) => {
                let mut line = Vec::new();
                append_payload(&data.payload(), &mut line);
                assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
            }
            Ok(_) => {}
            Err(_) => break,
        }
    }
    assert_ne!(count, 0);
    assert!(all.next().is_none());
}
