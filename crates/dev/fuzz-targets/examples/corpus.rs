//! Writes the seeds of every target where cargo-fuzz looks for them: `fuzz/corpus/TARGET/`.

use std::path::Path;
use std::{fs, io};

use throng_fuzz_targets::ALL;

fn main() -> io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus");
    for target in ALL {
        let folder = corpus.join(target.name);
        fs::create_dir_all(&folder)?;
        for (number, seed) in target.seeds().iter().enumerate() {
            fs::write(folder.join(format!("seed-{number}")), seed)?;
        }
    }
    Ok(())
}
