//! A file that was cut anywhere; what files say is told by `fixtures/understood.txt`.

use super::*;

const BENCH: &str = include_str!("../../../fixtures/tsung-bench.xml");

#[test]
fn a_file_that_lost_its_closing_tags_says_so() {
    let cut = &BENCH[..BENCH.len() - 40];
    let problem = read_tsung(cut, &TsungOptions::default()).unwrap_err();
    assert!(
        problem.message.contains("never closed") || problem.message.contains("well-formed"),
        "{problem}"
    );
    for at in (0..BENCH.len()).filter(|at| BENCH.is_char_boundary(*at)) {
        let _ = read_tsung(&BENCH[..at], &TsungOptions::default());
    }
}
