//! Stages of tests that assert, with what their steps have in common.

use super::{Outcome, Stage, Variables, play};

/// Gives steps their meaning, and panics where one does not hold.
pub trait AssertingStage {
    /// Carries a step out.
    fn step(&mut self, text: &str);

    /// Checks that nothing is left that the story does not tell.
    fn end(&mut self) {}
}

/// A stage that asserts, with the variables of loops.
struct Asserting<S>(S, Variables);

impl<S: AssertingStage> Stage for Asserting<S> {
    fn variables(&mut self) -> &mut Variables {
        &mut self.1
    }

    fn step(&mut self, text: &str, _: &str) -> Outcome {
        self.0.step(text);
        Ok(())
    }

    fn end(&mut self) -> Outcome {
        self.0.end();
        Ok(())
    }
}

/// Plays each story of a text on a stage that asserts, as [`play`] does.
///
/// # Panics
/// If a step does not hold, or there is no story.
pub fn play_asserting<S: AssertingStage>(name: &str, text: &str, mut stage: impl FnMut() -> S) {
    play(name, text, || Asserting(stage(), Variables::default()));
}

/// A number that a step has.
///
/// # Panics
/// If it is none.
pub fn number<N: std::str::FromStr>(text: &str) -> N {
    text.parse().unwrap_or_else(|_| panic!("no number: {text}"))
}

/// Compares a list with the text that a step has for it, which is `nothing` if it is empty.
///
/// # Panics
/// If they differ.
#[track_caller]
pub fn check_list(told: &[impl ToString], expected: &str, between: &str) {
    let told: Vec<String> = told.iter().map(ToString::to_string).collect();
    let told = match told.is_empty() {
        true => "nothing".to_owned(),
        false => told.join(between),
    };
    assert_eq!(told, expected);
}
