//! Clients of `/ws`, `/sse` and `/stream`, publishers, and calls of the API port: told in the text
//! files beside this one. Bytes, cuts and bounds are tested in Rust.

mod bytes;
mod given;
mod stage;

mod dialogues {
    fn play(file: &std::path::Path) {
        throng_dialogue::play_file(file, crate::stage::Story::default);
    }

    throng_dialogue::dialogues! {
        "tests/dialogues", play;
        api_port asking clients moved publisher publishing words
    }
}
