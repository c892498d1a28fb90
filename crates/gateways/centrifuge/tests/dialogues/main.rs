//! Commands of clients in Centrifugo's protocol, and the answers: the dialogues of the reference
//! server, told in the text files beside this one. Bytes and bounds are tested in Rust.

mod bounds;
mod bytes;
mod client;
mod given;
mod protobuf;
mod shard;
mod stage;

mod dialogues {
    fn play(file: &std::path::Path) {
        throng_dialogue::play_file(file, crate::stage::Story::default);
    }

    throng_dialogue::dialogues! {
        "tests/dialogues", play;
        backends changed codes moved order protobuf rights server_api streams transports wishes
    }
}
