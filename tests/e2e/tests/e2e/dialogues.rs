//! Dialogues in text files: requests and answers, clients' orders and events. `docs/TESTING.md` has
//! their words.

use std::fs;
use std::path::{Path, PathBuf};

use throng_testkit::play;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("dialogues")
}

/// A test for each file.
macro_rules! dialogues {
    ($($name:ident)*) => {
        const FILES: &[&str] = &[$(concat!(stringify!($name), ".txt")),*];
        $(#[test] fn $name() { play(&folder().join(concat!(stringify!($name), ".txt"))); })*
    };
}

dialogues! {
    answers backends browser commands compression curl dashboard delta history jwks lifetimes live
    logged openssl pages proxies publisher reload server_sdks sign_in story tls tokens upgrade work
}

#[test]
fn no_file_is_forgotten() {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder()).expect("the folder") {
        let name = entry.expect("a file").file_name();
        found.push(name.into_string().expect("UTF-8"));
    }
    found.sort();
    assert_eq!(found, FILES);
}
