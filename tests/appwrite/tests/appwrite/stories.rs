//! Stories in text files, one test a file. `docs/TESTING.md` has the words of all stories,
//! [`crate::steps`] those of Appwrite.

use std::path::Path;

use throng_testkit::play_with;

use crate::steps;

fn play(file: &Path) {
    play_with(file, steps::steps);
}

throng_dialogue::dialogues! {
    "stories", play;
    container identity limits outage presence recovery sdks upgrades
}
