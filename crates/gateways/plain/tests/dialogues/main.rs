//! Clients of `/ws`, `/sse` and `/stream`, publishers, and calls of the API port: told in the text
//! files beside this one. Bytes, cuts and bounds are tested in Rust.

mod bytes;
mod given;
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
    dialogues! { api_port asking clients moved publisher publishing words }
}
