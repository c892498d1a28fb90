//! Dialogues as text, for tests of gateways: stories whose steps a stage plays one after the other.
//!
//! A line that is not indented begins a story and is its name. The indented lines below are its
//! steps, whose meaning is the stage's alone. Lines that begin with `#` are comments.

use serde_json::Value;
use throng_metrics::Counter;

/// Gives steps their meaning: a gateway with its clients, and the world around it.
pub trait DialogueStage {
    /// Carries a step out, and panics if it does not hold.
    fn step(&mut self, step: &str);

    /// Checks that nothing is left that the story does not tell.
    fn end(&mut self) {}
}

/// Plays every story, each on a stage of its own. A failure names the story and the step.
///
/// # Panics
/// If a story does not hold, or there is none.
pub fn play<S: DialogueStage>(text: &str, mut stage: impl FnMut() -> S) {
    let mut current = None;
    for line in text.lines() {
        let step = line.trim();
        if step.is_empty() || step.starts_with('#') {
            continue;
        }
        if line.starts_with(' ') {
            let (place, stage) = current.as_mut().expect("a story has a name");
            Place::at(place, step);
            S::step(stage, step);
        } else {
            end(&mut current);
            let place = Place {
                story: step.to_owned(),
                step: String::new(),
            };
            current = Some((place, stage()));
        }
    }
    assert!(current.is_some(), "there is a story");
    end(&mut current);
}

fn end<S: DialogueStage>(current: &mut Option<(Place, S)>) {
    if let Some((place, stage)) = current {
        Place::at(place, "the end");
        stage.end();
    }
    *current = None;
}

/// Step that is being played; a panic in it shows it.
struct Place {
    story: String,
    step: String,
}

impl Place {
    fn at(&mut self, step: &str) {
        step.clone_into(&mut self.step);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("in the story {:?}, at: {}", self.story, self.step);
        }
    }
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

/// The counter of a series, by its name and the value of its label, if it has one.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn counter(series: &str, label: &[&str]) -> Counter {
    let is_it = |counter: &&Counter| {
        let own = counter.label().map(|label| label.value);
        counter.name() == series && own == label.first().copied()
    };
    let found = Counter::ALL.iter().find(is_it);
    *found.unwrap_or_else(|| panic!("no series: {series} {label:?}"))
}

/// Whether a message is as a story says: of objects only the fields that it names count, and `"*"`
/// stands for any value.
#[must_use]
pub fn resembles(told: &Value, expected: &Value) -> bool {
    match (told, expected) {
        (_, Value::String(any)) if any == "*" => !told.is_null(),
        (_, Value::Object(fields)) => {
            let alike = |(name, value): (&String, &Value)| resembles(&told[name], value);
            told.is_object() && fields.iter().all(alike)
        }
        (Value::Array(told), Value::Array(expected)) => {
            let mut pairs = told.iter().zip(expected);
            told.len() == expected.len() && pairs.all(|(told, value)| resembles(told, value))
        }
        _ => told == expected,
    }
}
