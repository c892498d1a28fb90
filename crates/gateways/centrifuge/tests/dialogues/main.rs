//! Commands of clients in Centrifugo's protocol, and the answers: the dialogues of the reference
//! server, told in the text files beside this one. Bytes and bounds are tested in Rust.

mod bounds;
mod bytes;
mod client;
mod given;
mod protobuf;
mod shard;
mod stage;

/// A test for each file.
macro_rules! dialogues {
    ($($name:ident)*) => { $(
        #[test]
        fn $name() {
            let file = concat!(stringify!($name), ".txt");
            let text = include_str!(concat!(stringify!($name), ".txt"));
            throng_dialogue::play(file, text, crate::stage::Story::default);
        }
    )* };
}

mod dialogues {
    dialogues! {
        backends changed codes moved order protobuf rights server_api streams transports wishes
    }
}
