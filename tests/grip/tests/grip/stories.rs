//! Stories in text files, one test a file. `docs/TESTING.md` has the words of all stories,
//! [`crate::steps`] those of GRIP.

use std::path::Path;

use throng_testkit::play_with;

use crate::steps;

fn play(file: &Path) {
    play_with(file, steps::steps);
}

throng_dialogue::dialogues! {
    "stories", play;
    dates drain eventstream faults holds keys moved publishers pushpin_conf reload shipped sizes
    stats tunnels uploads
}
