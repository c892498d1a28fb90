//! Stories in text files, one test a file. `docs/TESTING.md` has the words of all stories,
//! [`crate::steps`] those of Appwrite.

use std::path::Path;

use throng_testkit::play_with;

use crate::steps;

/// A test for each file.
macro_rules! stories {
    ($($name:ident)*) => {
        const FILES: &[&str] = &[$(concat!(stringify!($name), ".txt")),*];
        $(#[test] fn $name() { play(concat!(stringify!($name), ".txt")); })*
    };
}

stories! {
    container identity limits outage presence recovery sdks upgrades
}

fn play(name: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("stories");
    play_with(&folder.join(name), steps::steps);
}

#[test]
fn no_file_is_forgotten() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("stories");
    let files = folder.read_dir().expect("the folder").flatten();
    let mut found: Vec<String> = files
        .map(|file| file.file_name().to_string_lossy().into_owned())
        .collect();
    found.sort();
    assert_eq!(found, FILES);
}
